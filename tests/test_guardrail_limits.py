"""Limits on other outcomes, against dense algebra, sampling and finite differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import ndtr, ndtri

from oracles import DenseGP, Observation
from regretless.kernels import Rippled
from regretless.model import GP, Data, Hyper, Mixture, Posterior
from regretless.policies import Limit, MostLikely, Predicted

RNG = np.random.default_rng(5)
POINTS, SEEN, HERE = RNG.random((200, 3)), RNG.random((12, 3)), RNG.random(3)
VALUES = np.sin(4 * SEEN[:, 0]) + SEEN[:, 1]
HYPERS = [
    Hyper(Rippled((0.5, 0.4, 0.9)), lam2=0.02, omega2=1.7, mean_precision=0.25),
    Hyper(Rippled((0.3, 0.7, 1.5)), lam2=0.05, omega2=0.6, mean_precision=0.25),
]
Z = float(ndtri(0.9))


def gp(hyper: Hyper = HYPERS[0]) -> GP:
    return GP.of(Data.of(SEEN, VALUES), hyper)


def mixture() -> Posterior:
    return Mixture.of([gp(hyper) for hyper in HYPERS])


def limits(posterior: Posterior) -> list[Limit]:
    """A fixed level, one that must not be exceeded, and two that depend on the outcome at HERE."""
    at_here = float(posterior.predict(HERE[None, :])[0][0])
    shared = posterior.shared(HERE)
    return [
        Limit(posterior, 0.4, Z),
        Limit(posterior, 0.9, Z, side=-1.0),
        Limit(posterior, 0.5 * at_here, Z, 1.0, shared, 0.5),
        Limit(posterior, 0.8 * at_here + 0.5, Z, -1.0, shared, 0.8),
    ]


def predicted(limit: Limit, x: np.ndarray) -> Predicted:
    return Predicted(x, *limit.posterior.predict(x))


@pytest.mark.parametrize("which", range(4))
def test_the_probability_is_that_of_dense_algebra(which: int) -> None:
    limit = limits(gp())[which]
    dense = DenseGP([Observation(x, y) for x, y in zip(SEEN, VALUES, strict=True)], HYPERS[0])
    for x in POINTS[:10]:
        mean, cov = dense.predict(np.vstack([x, HERE]))
        # side (u(x) - share u(b) - rest) is a linear function of the two.
        weights = limit.side * np.array([1.0, -limit.share])
        rest = limit.side * (limit.level - limit.share * mean[1])
        expected = ndtr((weights @ mean - rest) / np.sqrt(weights @ cov @ weights))
        assert limit.probability(x[None, :])[0] == pytest.approx(expected, abs=1e-9)


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("posterior", [gp(), mixture()], ids=["gp", "mixture"])
def test_a_point_is_feasible_where_the_probability_is_reached(
    posterior: Posterior, which: int
) -> None:
    limit = limits(posterior)[which]
    reached = limit.probability(POINTS) >= 0.9
    assert reached.any()
    assert not reached.all()
    assert ((limit.slack(predicted(limit, POINTS)) >= 0) == reached).all()


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("posterior", [gp(), mixture()], ids=["gp", "mixture"])
def test_slopes_of_the_slack_are_right(posterior: Posterior, which: int) -> None:
    limit, h = limits(posterior)[which], 1e-6
    x = POINTS[:8]
    slack, (d_mu, d_s, d_x) = limit.slack_and_slopes(predicted(limit, x))
    assert (d_mu, d_s) == (0.0, 0.0)
    assert slack == pytest.approx(limit.slack(predicted(limit, x.copy())))
    for column in range(3):
        step = np.eye(3)[column] * h
        up, down = (limit.slack(predicted(limit, x + sign * step)) for sign in (1, -1))
        assert d_x is not None
        assert d_x[:, column] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-6)


def test_the_reference_point_itself_is_known_to_hold() -> None:
    """P(u(b) >= u(b)) is 1, although no variance is exactly 0."""
    posterior = gp()
    level = float(posterior.predict(HERE[None, :])[0][0])
    same = Limit(posterior, level, Z, 1.0, posterior.shared(HERE), 1.0)
    assert same.probability(HERE[None, :]) == 1.0
    assert same.slack(predicted(same, HERE[None, :])) >= -1e-9
    higher = replace(same, level=level + 1e-3, _last=[])
    assert higher.probability(HERE[None, :]) < 1e-100


def test_the_most_likely_score_and_its_gradient() -> None:
    posterior = mixture()
    score = MostLikely(tuple(limits(posterior)), posterior)
    value, slack = score(POINTS)
    product = np.prod([limit.probability(POINTS) for limit in score.limits], axis=0)
    assert np.exp(value) == pytest.approx(product, rel=1e-9)
    assert (slack == np.inf).all()
    x, h = POINTS[:8], 1e-6
    again, slope = score.ascend(x, 1e-2)
    assert again == pytest.approx(value[:8])
    for column in range(3):
        step = np.eye(3)[column] * h
        up, down = score(x + step)[0], score(x - step)[0]
        assert slope[:, column] == pytest.approx((up - down) / (2 * h), rel=1e-4, abs=1e-5)
    assert score.at_rows(slice(2, 5))[0] == pytest.approx(score(SEEN[2:5])[0])


def test_differences_are_kept_for_the_same_points_only() -> None:
    limit = limits(gp())[0]
    many = RNG.random((100, 3))
    first = limit.difference(many)
    assert limit.difference(many) is first
    assert limit.difference(many.copy()) is not first
