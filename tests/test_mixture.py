"""A mixture of posteriors, and draws of hyper-parameters, against dense algebra."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import approx_fprime
from scipy.special import logsumexp

import regretless as rl
from regretless._internal.arrays import Array
from regretless.defaults import defaults_of
from regretless.kernels import SE, Lifted, Matern
from regretless.model import GP, Data, Hyper, Mixture, Posterior
from regretless.model.ensemble import draw_ensemble, hypers_of, size_for

RULES = defaults_of(3).fit
RNG = np.random.default_rng(5)
X = RNG.random((7, 2))
Y = np.sin(5 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(7)
NEW = RNG.random((5, 2))
HYPERS = (
    Hyper(SE((0.3, 0.8)), lam2=0.02, omega2=1.0),
    Hyper(Matern((0.6, 0.2), nu=2.5), lam2=0.3, omega2=2.5),
    Hyper(Lifted(SE((1.5, 1.0)), 4.0), lam2=0.1, omega2=0.4),
)


def mixture(data: Data | None = None) -> Mixture:
    parts = tuple(GP.of(data or Data.of(X, Y), hyper) for hyper in HYPERS)
    return Mixture(parts, np.log([0.5, 0.3, 0.2]))


def moments(each: Mixture, x: Array) -> tuple[Array, Array]:
    """The joint mean and covariance of f at x, by the laws of total mean and covariance."""
    mus = [part.predict(x)[0] for part in each.parts]
    mean = sum(w * mu for w, mu in zip(each.weights, mus, strict=True))
    total = np.zeros((len(x), len(x)))
    for w, mu, part in zip(each.weights, mus, each.parts, strict=True):
        total += w * (part.omega2 * part.covariance(x) + np.outer(mu - mean, mu - mean))
    return mean, total


def test_the_moments_are_those_of_the_law_of_total_variance() -> None:
    each = mixture()
    mean, covariance = moments(each, NEW)
    mu, sigma = each.predict(NEW)
    np.testing.assert_allclose(mu, mean)
    np.testing.assert_allclose((each.omega * sigma) ** 2, np.diag(covariance))
    np.testing.assert_allclose(each.omega2 * each.covariance(NEW), covariance)
    z = NEW[:2]
    np.testing.assert_allclose(each.omega2 * each.covariance(NEW, z), covariance[:, :2])
    at_data = each.predict(each.points)
    np.testing.assert_allclose(each.at_data, at_data, atol=1e-9)


def test_draws_from_the_parts_have_these_moments() -> None:
    """Not only algebra: many draws of f, each from a part that is drawn by its weight."""
    each, rng = mixture(), np.random.default_rng(0)
    which = rng.choice(3, size=40_000, p=each.weights)
    drawn = np.empty(len(which))
    for j, part in enumerate(each.parts):
        mu, sigma = part.predict(NEW[:1])
        here = which == j
        drawn[here] = mu + part.omega * sigma * rng.standard_normal(here.sum())
    mu, sigma = each.predict(NEW[:1])
    assert drawn.mean() == pytest.approx(float(mu[0]), abs=0.02)
    assert drawn.std() == pytest.approx(each.omega * float(sigma[0]), rel=0.02)


def test_gradients() -> None:
    each, a, b = mixture(), np.array([1.3]), np.array([-0.7])
    x = NEW[0]
    mu, sigma, pull = each.predict_vjp(x[None, :])

    def weighed(point: Array) -> float:
        mean, sd = each.predict(point[None, :])
        return float(a[0] * mean[0] + b[0] * sd[0])

    assert float(a[0] * mu[0] + b[0] * sigma[0]) == pytest.approx(weighed(x))
    np.testing.assert_allclose(pull(a, b)[0], approx_fprime(x, weighed, 1e-6), rtol=1e-4)


def test_the_shared_covariance() -> None:
    each = mixture()
    shared = each.shared(NEW[0])
    np.testing.assert_allclose(shared(NEW), each.covariance(NEW, NEW[:1])[:, 0])
    np.testing.assert_allclose(shared.at_data, each.covariance(X, NEW[:1])[:, 0], atol=1e-9)
    assert shared.variance == pytest.approx(each.covariance(NEW[:1])[0, 0])
    values, pull = shared.with_gradient(NEW[1:2])
    np.testing.assert_allclose(values, shared(NEW[1:2]))
    slope = approx_fprime(NEW[1], lambda x: float(shared(x[None, :])[0]), 1e-6)
    np.testing.assert_allclose(pull(np.ones(1))[0], slope, rtol=1e-4, atol=1e-7)


def test_the_covariance_shared_with_a_weighted_sum() -> None:
    each = mixture()
    points, weights = np.vstack([NEW[:1], X[:3]]), np.array([2.0, -1.0, -0.5, 0.3])
    shared = each.shared(points, weights)
    np.testing.assert_allclose(shared(NEW), each.covariance(NEW, points) @ weights, atol=1e-12)
    np.testing.assert_allclose(shared.at_data, each.covariance(X, points) @ weights, atol=1e-9)
    assert shared.variance == pytest.approx(weights @ each.covariance(points) @ weights)
    _, pull = shared.with_gradient(NEW[1:2])
    slope = approx_fprime(NEW[1], lambda x: float(shared(x[None, :])[0]), 1e-6)
    np.testing.assert_allclose(pull(np.ones(1))[0], slope, rtol=1e-4, atol=1e-6)


def test_weights_follow_the_rule_of_bayes() -> None:
    """After more data, a weight is its prior times the evidence of the data."""
    few, all_data = Data.of(X[:4], Y[:4]), Data.of(X, Y)
    each: Posterior = mixture(few)
    for x, y in zip(X[4:], Y[4:], strict=True):
        each = each.add(x, float(y))
    each = each.add(X[0], 0.4, weight=3.0)
    each = each.add(X[1], 0.2, variance=0.05)
    data, _ = all_data.add(X[0], 0.4, 3.0)
    data, _ = data.add(X[1], 0.2, 1.0, 0.05)
    gained = [GP.of(data, hyper).log_evidence - GP.of(few, hyper).log_evidence for hyper in HYPERS]
    expected = np.log([0.5, 0.3, 0.2]) + gained
    assert isinstance(each, Mixture)
    np.testing.assert_allclose(np.log(each.weights), expected - logsumexp(expected))


def test_a_pending_point_changes_no_mean_and_no_weight() -> None:
    each = mixture()
    expecting = each.expecting(NEW[0])
    np.testing.assert_allclose(expecting.predict(NEW)[0], each.predict(NEW)[0])
    np.testing.assert_array_equal(expecting.weights, each.weights)
    assert (expecting.predict(NEW)[1] < each.predict(NEW)[1]).all()


def test_one_part_is_no_mixture() -> None:
    part = GP.of(Data.of(X, Y), HYPERS[0])
    assert Mixture.of([part]) is part
    assert isinstance(Mixture.of([part, part]), Posterior)


def test_an_unknown_constant_is_integrated_out() -> None:
    """The lifted kernel is universal kriging: the doubt about the mean is in the sd."""
    hyper = Hyper(Lifted(SE((0.3, 0.8)), 4.0), lam2=0.02, omega2=1.5)
    gp = GP.of(Data.of(X, Y), hyper)
    seen = SE((0.3, 0.8)).gram(X) + 4.0 + 0.02 * np.eye(7)
    cross = SE((0.3, 0.8)).gram(NEW, X) + 4.0
    np.testing.assert_allclose(gp.predict(NEW)[0], cross @ np.linalg.solve(seen, Y))
    variance = 5.0 - np.diag(cross @ np.linalg.solve(seen, cross.T))
    np.testing.assert_allclose(gp.predict(NEW)[1] ** 2, variance)
    grown = GP.of(Data.of(X[:5], Y[:5]), hyper).add(X[5], Y[5]).add(X[6], Y[6])
    np.testing.assert_allclose(grown.predict(NEW), gp.predict(NEW))


def test_paths_of_a_lifted_kernel_have_its_covariance() -> None:
    kernel, rng = Lifted(SE((0.5, 0.5)), 2.0), np.random.default_rng(1)
    phi = kernel.features(rng, 60_000)(NEW)[0]
    np.testing.assert_allclose(phi @ phi.T / phi.shape[1], kernel.gram(NEW), atol=0.1)


# --- draws of hyper-parameters --------------------------------------------------------------------


def start_of(model: rl.Model, dim: int) -> Hyper:
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
    return model.start(space.columns, RULES)


@pytest.mark.slow
def test_chains_reach_the_posterior() -> None:
    """Against importance sampling: many draws from the prior, weighted by the evidence."""
    model = rl.Model(kernel="se", method="ensemble")
    data = Data.of(X[:6, :1], Y[:6])
    start, rng = start_of(model, 1), np.random.default_rng(0)
    rules = RULES._replace(
        ensemble=RULES.ensemble._replace(sizes=(400, 400), first_steps=30, prior_results=100)
    )
    drawn = np.array(draw_ensemble(data, start, model, rules, rng))
    prior = RULES._replace(
        ensemble=RULES.ensemble._replace(sizes=(20_000, 20_000), first_steps=0, prior_results=100)
    )
    many = draw_ensemble(data, start, model, prior, rng)
    weights = np.array([GP.of(data, hyper).log_evidence for hyper in hypers_of(start, many)])
    weights = np.exp(weights - logsumexp(weights))
    mean = weights @ np.array(many)
    spread = np.sqrt(weights @ (np.array(many) - mean) ** 2)
    assert (np.abs(drawn.mean(axis=0) - mean) < 0.25 * spread).all()
    np.testing.assert_allclose(drawn.std(axis=0), spread, rtol=0.2)


def test_draws_are_the_same_for_the_same_data_and_random_numbers() -> None:
    model = rl.Model(method="ensemble")
    start, data = start_of(model, 2), Data.of(X, Y)
    first, again = (
        draw_ensemble(data, start, model, RULES, np.random.default_rng(3)) for _ in range(2)
    )
    assert first == again
    assert len(first) == size_for(7, RULES) == 16
    assert len(first[0]) == 2 + 2 + 2  # two lengths, the ripple's two, noise and signal


def test_fewer_draws_for_more_points() -> None:
    assert [size_for(n, RULES) for n in (1, 25, 50, 100, 1000)] == [16, 16, 8, 4, 4]


def test_resampling_forgets_draws_without_weight() -> None:
    model = rl.Model(method="ensemble")
    start, data = start_of(model, 2), Data.of(X, Y)
    rng = np.random.default_rng(0)
    before = draw_ensemble(data, start, model, RULES, rng)
    still = RULES._replace(ensemble=RULES.ensemble._replace(steps=0))
    weights = np.zeros(16)
    weights[5] = 1.0
    after = draw_ensemble(data, start, model, still, rng, before, weights)
    np.testing.assert_allclose(after, [before[5]] * 16, rtol=1e-5)


def test_many_prior_data_begin_at_a_fit() -> None:
    """Chains from the prior would need many steps to find a narrow posterior."""
    rng = np.random.default_rng(2)
    x = rng.random((60, 2))
    y = np.sin(9 * x[:, 0]) + 0.05 * rng.standard_normal(60)
    model = rl.Model(kernel="se", method="ensemble")
    drawn = np.array(draw_ensemble(Data.of(x, y), start_of(model, 2), model, RULES, rng))
    lengths = np.exp(drawn[:, :2])
    assert (lengths[:, 0] < 0.6).all()
    assert (lengths[:, 1] > 1.5 * lengths[:, 0]).all()
    noise = np.exp(0.5 * (drawn[:, 2] + drawn[:, 3]))
    assert 0.03 < np.median(noise) < 0.08


# --- known noise ----------------------------------------------------------------------------------


def run(optimizer: rl.Optimizer, trials: int, **told: float) -> None:
    rng = np.random.default_rng(4)
    for _ in range(trials):
        trial = optimizer.ask()
        value = -((trial.params["x"] - 0.3) ** 2) + 0.02 * rng.standard_normal()
        optimizer.tell(trial, value, **told)


@pytest.mark.parametrize("version", [2, 3])
def test_standard_errors_say_what_the_next_result_will_scatter(version: int) -> None:
    """Where every variance is known, nothing else identifies the noise."""
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 30, defaults=version)
    run(optimizer, 12, sem=0.02)
    assert optimizer.ask().decision.noise_sd == pytest.approx(0.02, rel=1e-3)


def test_a_given_noise_counts_for_results_without_a_standard_error() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    given = rl.Optimizer(space, 30, model=rl.Model(noise_sd=0.02))
    told = rl.Optimizer(space, 30)
    run(given, 12)
    run(told, 12, sem=0.02)
    assert given.ask().params == told.ask().params
    assert given.ask().decision.noise_sd == pytest.approx(0.02, rel=1e-3)
    again = rl.Optimizer.from_json(given.to_json())
    assert again.model.noise_sd == 0.02


def test_one_result_without_a_standard_error_tells_the_noise() -> None:
    data = Data.empty(2)
    assert data.typical_variance is None
    for x in NEW:
        for _ in range(2):
            data, _ = data.add(x, 1.0, 1.0, 0.09)
    data, _ = data.add(X[0], 1.0, 1.0, 0.04)
    assert data.typical_variance == pytest.approx(0.09)
    scaled = data.standardised(0.5, 2.0)
    assert scaled.typical_variance == pytest.approx(0.09 / 4)
    assert data.add(X[1], 1.0)[0].typical_variance is None


@pytest.mark.parametrize("version", [2, 3])
def test_precise_prior_data_do_not_make_live_results_precise(version: int) -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 60, defaults=version)
    for x in np.linspace(0.0, 1.0, 40):
        value = 0.1 * np.sin(5 * x) + 0.01 * rng.standard_normal()
        optimizer.observe({"x": float(x)}, float(value), sem=0.01)
    for _ in range(20):
        trial = optimizer.ask()
        truth = 0.1 * np.sin(5 * trial.params["x"])
        optimizer.tell(trial, float(truth + rng.standard_normal()))
    assert 0.5 < optimizer.ask().decision.noise_sd < 2.0  # type: ignore[operator]
    assert optimizer.best().mean < 0.3


@pytest.mark.parametrize("version", [2, 3])
def test_a_given_noise_is_that_of_one_evaluation(version: int) -> None:
    model = replace(rl.Model.default(defaults_of(version).model), noise_sd=1.0)
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 30, model=model, defaults=version)
    run(optimizer, 12, count=100)
    assert optimizer.ask().decision.noise_sd == pytest.approx(1.0, rel=1e-3)


def test_a_constant_that_is_added_to_all_results_changes_nothing() -> None:
    halves = []
    for level in (0.0, 1e6):
        optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 14, defaults=3)
        rng = np.random.default_rng(0)
        for _ in range(3):
            trial = optimizer.ask()
            value = level - (trial.params["x"] - 0.15) ** 2 + 0.02 * rng.standard_normal()
            optimizer.tell(trial, float(value))
        best = optimizer.best()
        halves.append(best.high - best.low)
    assert halves[1] == pytest.approx(halves[0], rel=1e-3)


def test_equal_results_leave_the_draws_apart() -> None:
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 40, defaults=3)
    for _ in range(12):
        optimizer.tell(optimizer.ask(), 2.0)
    fitted = optimizer._belief.current().fitted
    assert fitted is not None
    assert len({hyper.lam2 for hyper in fitted.hypers}) == len(fitted.hypers)


def test_a_given_noise_must_be_positive() -> None:
    with pytest.raises(rl.ConfigError, match=r"noise_sd: .* got 0"):
        rl.Model(noise_sd=0.0)


def test_bad_draws_in_a_journal_are_named() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 30, defaults=3)
    run(optimizer, 4)
    event = optimizer.propose()
    assert event.fit is not None
    short = event.fit | {"ensemble": [row[:-1] for row in event.fit["ensemble"]]}
    first, *others = event.fit["ensemble"]
    damaged = [
        (short, "another kernel"),
        (event.fit | {"ensemble": []}, "invalid fit"),
        (event.fit | {"ensemble": [[*first[:-1], float("nan")], *others]}, "invalid fit"),
        (event.fit | {"ensemble": [[*first[:-1], 1e6], *others]}, "invalid fit"),
        (event.fit | {"ensemble": None, "theta": first[:-2], "lam2": 1, "omega2": 1}, "method"),
    ]
    for fit, message in damaged:
        with pytest.raises(rl.StorageError, match=message):
            optimizer.apply(replace(event, fit=fit))
