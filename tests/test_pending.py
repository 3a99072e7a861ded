"""Many pending trials, and searches among many points: fast paths against the slow ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import exp, pi, sqrt
from typing import Literal

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from oracles import apart
from regretless.defaults import VERSIONS
from regretless.engine.batch import expected_maximum, expected_maximum_after
from regretless.kernels import SE, Rippled
from regretless.model import GP, Data, Hyper, Mixture, Posterior, expecting_all

Array = NDArray[np.float64]

SPACE = rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1), "kind": rl.Categorical(["a", "b"])})
TOGETHER = VERSIONS[4]._replace(pending_together=True)


def gp(seed: int = 0, count: int = 12, lam2: float = 0.05) -> GP:
    rng = np.random.default_rng([6, seed])
    x, y = rng.random((count, 2)), rng.standard_normal(count)
    return GP.of(Data.of(x, y), Hyper(SE((0.4, 0.7)), lam2, 1.7, 0.25))


# --- what pending results will bring --------------------------------------------------------------


@pytest.mark.parametrize("seed", range(4))
def test_the_best_mean_after_results_is_that_of_the_dense_difference(seed: int) -> None:
    before, rng = gp(seed), np.random.default_rng(seed)
    pending, weights = rng.random((7, 2)), rng.uniform(0.5, 4.0, 7)
    pending[0] = before.points[3]
    after = before.expecting_all(pending, weights)
    x = np.vstack([before.points[int(np.argmax(before.at_data[0]))], pending])
    means = before.predict(x)[0]
    dense = before.omega2 * (before.covariance(x) - after.covariance(x))
    wanted = expected_maximum(means, dense, 40_000)
    assert expected_maximum_after(before, x, means, weights, 40_000) == pytest.approx(
        wanted, abs=0.01 * before.omega
    )


def test_the_best_mean_after_one_result_is_known_in_closed_form() -> None:
    """The mean at the pending point moves, and so does the one at the best point, by less."""
    before, pending = gp(), np.array([[0.1, 0.9]])
    x = np.vstack([before.points[int(np.argmax(before.at_data[0]))], pending])
    means, covariance = before.predict(x)[0], before.omega2 * before.covariance(x)
    slope = covariance[:, 1] / sqrt(covariance[1, 1] + before.noise_sd**2)
    apart_by, sd = means[1] - means[0], abs(slope[1] - slope[0])
    z = apart_by / sd
    from scipy.special import ndtr

    gained = sd * (z * ndtr(z) + exp(-z * z / 2) / sqrt(2 * pi))
    found = expected_maximum_after(before, x, means, np.ones(1), 200_000)
    assert found == pytest.approx(means[0] + gained, abs=0.005 * before.omega)


@pytest.mark.parametrize("method", ["map", "ensemble"])
@pytest.mark.parametrize("step", [0.0, 1e-9, 1e-3])
@pytest.mark.parametrize("sem", [1e-6, 1e-30])
def test_pending_trials_close_to_each_other_with_exact_results(
    sem: float, step: float, method: Literal["map", "ensemble"]
) -> None:
    rng, space = np.random.default_rng(4), rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1)})
    model = rl.Model(method=method)
    optimizer = rl.Optimizer(space, 300, seed=3, defaults=5, model=model)
    for x, y in rng.random((30, 2)).tolist():
        optimizer.observe({"x": x, "y": y}, -((x - 0.4) ** 2) - 3.0 * (y - 0.7) ** 2, sem=sem)
    best = optimizer.best().params
    for index in range(40):
        optimizer.adopt({"x": float(best["x"]) + step * index, "y": best["y"]})
    decision = optimizer.ask().decision
    assert decision.sd is not None
    assert np.isfinite(decision.sd)


# --- in a run -------------------------------------------------------------------------------------


def measured(params: dict[str, object], rng: np.random.Generator) -> float:
    x, y = float(str(params["x"])), float(str(params["y"]))
    return -((x - 0.3) ** 2) - (y - 0.6) ** 2 + 0.05 * float(rng.standard_normal())


def run(defaults: int, **settings: object) -> rl.Optimizer:
    """Twenty results, of which some are at one point, and nine pending trials."""
    rng = np.random.default_rng(1)
    optimizer = rl.Optimizer(SPACE, 200, seed=3, defaults=defaults, **settings)  # type: ignore[arg-type]
    context = None if optimizer.contexts is None else {"hour": 0.4}
    for _ in range(20):
        trial = optimizer.ask(context=context)
        optimizer.tell(trial, measured(trial.params, rng))
    optimizer.ask(6, context=context)
    best = optimizer.best(context=context).params
    for params in (best, best, {"x": 0.9, "y": 0.9, "kind": "b"}):
        optimizer.adopt(params, context=context)
    return optimizer


SETTINGS: dict[str, dict[str, object]] = {
    "plain": {},
    "ensemble": {"model": rl.Model(method="ensemble")},
    "noise": {"model": rl.Model(noise="auto")},
    "contexts": {"contexts": {"hour": rl.Float(0.0, 1.0)}},
}


@pytest.mark.parametrize("settings", SETTINGS)
def test_pending_trials_together_are_those_one_by_one(settings: str) -> None:
    optimizer = run(4, **SETTINGS[settings])
    slow = optimizer._situation()
    assert len(slow.waiting) == 9
    fast = replace(slow, defaults=TOGETHER)
    x = SPACE.spread(np.random.default_rng(0).random((50, 3)))
    if settings == "contexts":
        x = np.hstack([x, np.full((50, 1), slow.context[3])])
    numbers: list[Callable[[Posterior], Array]] = [
        lambda posterior: np.array(posterior.predict(x)),
        lambda posterior: np.array(posterior.at_data),
        lambda posterior: posterior.points,
        lambda posterior: posterior.covariance(x),
    ]
    for number in numbers:
        assert apart(number(fast._expected), number(slow._expected)) <= 1e-7
    unit = slow.posterior.omega
    assert fast.inputs.promised == pytest.approx(slow.inputs.promised, abs=0.05 * unit)


def test_a_model_that_knows_only_one_at_a_time_is_asked_one_at_a_time() -> None:
    class Own:
        """As a class of the user's own may be: no `expecting_all`."""

        def __init__(self, gp: GP) -> None:
            self._gp = gp

        def expecting(self, x: Array, weight: float = 1.0) -> Own:
            return Own(self._gp.expecting(x, weight))

    x, weights = np.random.default_rng(2).random((5, 2)), np.array([1.0, 2.0, 1.0, 0.5, 1.0])
    one_by_one = expecting_all(Own(gp()), x, weights)  # type: ignore[arg-type]
    together = expecting_all(gp(), x, weights)
    assert isinstance(one_by_one, Own)
    z = np.random.default_rng(3).random((20, 2))
    assert apart(np.array(one_by_one._gp.predict(z)), np.array(together.predict(z))) <= 1e-9


def test_a_mixture_expects_by_its_parts() -> None:
    mixture = Mixture((gp(0), gp(0, lam2=0.2)), np.log([0.3, 0.7]))
    x, z = np.random.default_rng(2).random((5, 2)), np.random.default_rng(3).random((20, 2))
    slow = mixture
    for point in x:
        slow = slow.expecting(point)
    fast = mixture.expecting_all(x, np.ones(5))
    assert apart(np.array(fast.predict(z)), np.array(slow.predict(z))) <= 1e-9
    assert apart(fast.in_single.predict(z)[1], slow.predict(z)[1]) <= 1e-4


# --- many points ----------------------------------------------------------------------------------


def large(defaults: int = 5) -> rl.Optimizer:
    """A run with more points than `single_points`, without a fit."""
    kernel = Rippled((0.6, 0.8), (0, 1), 0.05, 0.1)
    model = rl.Model(kernel, method="fixed", lam2=0.01)
    space = rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1)})
    optimizer = rl.Optimizer(space, 5000, seed=2, model=model, defaults=defaults)
    rng = np.random.default_rng(4)
    for x, y in rng.random((VERSIONS[5].search.single_points + 20, 2)).tolist():
        optimizer.observe({"x": x, "y": y}, measured({"x": x, "y": y}, rng))
    return optimizer


def test_a_search_among_many_points_in_single_precision_finds_as_good_a_point() -> None:
    optimizer = large()
    situation = optimizer._situation()
    exact = replace(situation, defaults=VERSIONS[4])
    assert situation._searched is not situation._expected
    assert exact._searched is exact._expected
    (_, score, _, found), (_, exact_score, _, wanted) = situation._found, exact._found
    value = exact_score(found.x[None, :])[0][0]
    assert value >= wanted.value - 1e-2
    assert score(found.x[None, :])[0][0] == pytest.approx(value, abs=1e-3)


def test_a_search_among_many_points_begins_at_fewer_new_ones() -> None:
    optimizer = large()
    situation = optimizer._situation()
    begin = replace(situation, defaults=VERSIONS[4])._begin(situation.posterior.width)
    assert len(begin.others) == VERSIONS[4].search.global_points[0]
    assert len(situation._begin(situation.posterior.width).others) == 128


def test_the_numbers_of_a_decision_among_many_points_are_exact() -> None:
    optimizer = large()
    decision = (trial := optimizer.copy().ask()).decision
    assert decision is not None
    mean, sd = optimizer.predict(trial.params)  # before the trial was pending
    assert mean == pytest.approx(decision.mean, rel=1e-9)
    assert sd == pytest.approx(decision.sd, rel=1e-9)


def test_a_replay_of_a_large_run_with_pending_trials_asks_for_the_same() -> None:
    optimizer, rng = large(), np.random.default_rng(5)
    first = optimizer.ask(3)
    optimizer.tell(first[1], measured(first[1].params, rng))
    again = rl.Optimizer.from_json(optimizer.to_json())
    for _ in range(3):
        one, other = optimizer.ask(), again.ask()
        assert one.params == other.params
        assert one.decision == other.decision
