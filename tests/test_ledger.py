"""The ledger against sums written out by hand and against dense Gaussian algebra."""

from __future__ import annotations

import functools
import json
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

import regretless as rl
from oracles import DenseGP, Observation
from regretless.ledger import Estimate, Ledger, RunningTotal, distinct_points, today
from regretless.model import Mixture

Array = NDArray[np.float64]
SPACE = rl.Space(
    {
        "dose": rl.Float(0.1, 10.0, log=True),
        "visits": rl.Int(1, 12),
        "drug": rl.Categorical(["A", "B", True, 1]),
    }
)


def f(params: dict[str, Any]) -> float:
    bonus = {"A": 0.0, "B": 0.6}.get(params["drug"], 0.3)
    return float(5 - np.log(params["dose"]) ** 2 - ((params["visits"] - 7) / 5) ** 2 + bonus)


def tuned(
    direction: Any = "maximize",
    steps: int = 25,
    disaster: bool = False,
    defaults: int | None = None,
    prior: bool = True,
) -> rl.Optimizer:
    """Prior data, results of all kinds, one abandoned and one pending trial; mirrored to minimise.

    With a disaster, one result is so bad that the model draws it in.
    """
    return _tuned(direction, steps, disaster, defaults, prior).copy()


@functools.cache  # a run of version 3 takes seconds
def _tuned(
    direction: Any, steps: int, disaster: bool, defaults: int | None, prior: bool
) -> rl.Optimizer:
    sign = 1.0 if direction == "maximize" else -1.0
    opt = rl.Optimizer(SPACE, 60, seed=2, direction=direction, defaults=defaults)
    if prior:
        opt.observe({"dose": 1.0, "visits": 4, "drug": "A"}, sign * 4.5)
        opt.observe({"dose": 1.2, "visits": 7, "drug": "B"}, sign * 5.5, sem=0.1)
    rng = np.random.default_rng(0)
    for number in range(steps):
        trial = opt.ask()
        value = f(trial.params) + 0.2 * rng.standard_normal()
        if disaster and number == 2:
            value = -300.0
        if number == 5:
            opt.abandon(trial)
        elif number % 7 == 3:
            opt.tell(trial, sign * value, sem=0.3)
        else:
            opt.tell(trial, sign * value, count=1 + number % 3)
    opt.ask()
    return opt


@pytest.fixture(scope="module", params=(1, 3))  # 1 has one fit, 3 mixes several draws
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


@pytest.fixture(scope="module", params=["maximize", "minimize"])
def optimizer(request: pytest.FixtureRequest, version: int) -> rl.Optimizer:
    return tuned(request.param, defaults=version)


def told(opt: rl.Optimizer) -> list[rl.Row]:
    return [row for row in opt.history() if row.status == "told"]


def better_by(opt: rl.Optimizer, a: float, b: float) -> float:
    """How much better a is than b."""
    return a - b if opt.direction == "maximize" else b - a


def number(value: float | None) -> float:
    assert value is not None
    return value


# --- sums of observed values ----------------------------------------------------------------------


def test_regret_is_summed_trial_by_trial(optimizer: rl.Optimizer) -> None:
    total, wanted = 0.0, []
    for row in told(optimizer):
        total += better_by(optimizer, 7.5, number(row.value))
        wanted.append(total)
    np.testing.assert_allclose(Ledger.of(optimizer).regret(7.5), wanted, rtol=1e-12)
    np.testing.assert_array_equal(
        rl.Result(optimizer).regret(7.5), Ledger.of(optimizer).regret(7.5)
    )


def test_lost_counts_from_the_best_point(optimizer: rl.Optimizer) -> None:
    best = optimizer.best().mean
    wanted = math.fsum(better_by(optimizer, best, number(row.value)) for row in told(optimizer))
    assert Ledger.of(optimizer).lost() == pytest.approx(wanted, rel=1e-12)


def noise_of(row: rl.Row, fitted: float) -> float:
    return row.sem**2 if row.sem is not None else fitted**2 / (row.count or 1.0)


def by_hand(opt: rl.Optimizer, weights: Array, constants: Array) -> tuple[Array, Array]:
    """Mean and sd of `weights @ values + constants` where each value has its own noise."""
    rows = told(opt)
    fitted = [row.decision.noise_sd for row in rows if row.decision and row.decision.noise_sd][-1]
    values = np.array([row.value for row in rows], dtype=float)
    noise = np.diag([noise_of(row, fitted) for row in rows])
    covariance = weights @ noise @ weights.T
    return weights @ values + constants, np.sqrt(np.maximum(np.diag(covariance), 0.0))


@pytest.mark.parametrize("sem", [0.0, 0.4])
def test_gain_over_a_reference_value(optimizer: rl.Optimizer, sem: float) -> None:
    count = len(told(optimizer))
    steps = np.arange(1, count + 1)
    sign = better_by(optimizer, 1.0, 0.0)
    mean, sd = by_hand(optimizer, sign * np.tri(count), -sign * 3.0 * steps)
    got = Ledger.of(optimizer).gain(3.0, sem=sem)
    np.testing.assert_allclose(got.mean, mean, atol=1e-12)
    np.testing.assert_allclose(got.sd, np.hypot(sd, sem * steps), atol=1e-12)


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_gain_over_the_first_result_knows_that_it_is_among_the_results(
    direction: str, version: int
) -> None:
    optimizer = tuned(direction, defaults=version, prior=False)
    count = len(told(optimizer))
    sign = better_by(optimizer, 1.0, 0.0)
    weights = np.tri(count)
    weights[:, 0] -= np.arange(1, count + 1)
    mean, sd = by_hand(optimizer, sign * weights, np.zeros(count))
    got = Ledger.of(optimizer).gain()
    np.testing.assert_allclose(got.mean, mean, atol=1e-12)
    np.testing.assert_allclose(got.sd, sd, atol=1e-7)
    assert got.sd[0] == 0.0


@pytest.mark.parametrize(
    ("total", "after"),
    [
        ([1.0, 2.0], None),  # never below zero
        ([-1.0, 0.0, 3.0], 2),
        ([1.0, -1.0, 2.0, -0.5, 0.1, 4.0], 5),  # the last time counts
        ([2.0, -1.0], None),  # below zero now
        ([], None),
    ],
)
def test_when_the_trials_have_paid_for_themselves(total: list[float], after: int | None) -> None:
    assert RunningTotal(np.array(total), np.zeros(len(total))).paid_back_after == after


# --- by the posterior -----------------------------------------------------------------------------


def dense(opt: rl.Optimizer, points: list[dict[str, Any]]) -> tuple[Array, Array]:
    """Mean and covariance of f at the points in the user's units, a row for each observation.

    To first order where the model draws in disasters, by numerical differences.  Several draws of
    hyper-parameters were equally likely when they were made; since then, each has the weight of the
    evidence of later results.
    """
    situation = opt._situation()
    scaling, sign = situation.fitted.scaling, better_by(opt, 1.0, 0.0)
    observations = [
        Observation(
            SPACE.encode(row.params),
            float(scaling.to_model(sign * row.value)),
            row.count or 1.0,
            None if row.sem is None else (row.sem / scaling.scale) ** 2,
        )
        for row in opt.history()
        if row.value is not None
    ]
    x = np.array([SPACE.encode(point) for point in points])
    each, at = situation.fitted.hypers, situation.fitted.at
    evidence = np.array(
        [
            DenseGP(observations, hyper).log_evidence()
            - DenseGP(observations[:at], hyper).log_evidence()
            for hyper in each
        ]
    )
    weights = np.exp(evidence - logsumexp(evidence))
    mus, covariances = zip(
        *(DenseGP(observations, hyper).predict(x) for hyper in each), strict=True
    )
    mu = weights @ np.array(mus)
    covariance = sum(
        w * (cov + np.outer(one - mu, one - mu))
        for w, one, cov in zip(weights, mus, covariances, strict=True)
    )
    to_user = scaling.to_user
    slope = (to_user(mu + 1e-6) - to_user(mu - 1e-6)) / 2e-6
    return sign * to_user(mu), covariance * np.outer(slope, slope)


@pytest.mark.parametrize(("direction", "disaster"), [("maximize", True), ("minimize", False)])
def test_running_totals_against_dense_algebra(direction: str, disaster: bool, version: int) -> None:
    opt = tuned(direction, disaster=disaster, defaults=version)
    against_dense_algebra(opt)


def test_running_totals_against_dense_algebra_long_after_a_fit(version: int) -> None:
    """Then the draws of version 3 have different weights."""
    opt = tuned(defaults=version)
    rng = np.random.default_rng(7)
    for x in SPACE.canonical(rng.random((8, 3))):
        trial = opt.adopt(SPACE.decode(x))  # does not ask, so nothing is fitted again
        opt.tell(trial, f(trial.params) + 0.2 * float(rng.standard_normal()))
    situation = opt._situation()
    assert situation.fitted.at <= opt.observations - 8
    if version > 1:
        assert isinstance(situation.posterior, Mixture)
        weights = situation.posterior.weights
        assert weights.max() > 2 / len(weights)
    against_dense_algebra(opt)


def against_dense_algebra(opt: rl.Optimizer) -> None:
    rows = told(opt)
    reference = today(opt)
    assert reference is not None
    points = [opt.best().params, *(row.params for row in rows), reference.params]
    mean, covariance = dense(opt, points)
    count, sign = len(rows), better_by(opt, 1.0, 0.0)
    steps, nothing = np.arange(1, count + 1), np.zeros((count, 1))
    trials = np.hstack([nothing, np.tri(count), nothing])
    best, first = np.zeros_like(trials), np.zeros_like(trials)
    best[:, 0], first[:, -1] = steps, steps
    wanted = {"served": trials, "regret": sign * (best - trials), "gain": sign * (trials - first)}
    got = Ledger.of(opt).estimates()
    assert got is not None
    assert got.first == pytest.approx(mean[-1], rel=1e-6)
    for name, weights in wanted.items():
        total: RunningTotal = getattr(got, name)
        variance = np.diag(weights @ covariance @ weights.T)
        np.testing.assert_allclose(total.mean, weights @ mean, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(total.sd, np.sqrt(variance.clip(0)), rtol=1e-4, atol=1e-5)


def test_gains_are_measured_from_what_would_run_without_the_study() -> None:
    old, other, now = ({"dose": dose, "visits": 4, "drug": "A"} for dose in (1.0, 2.0, 3.0))
    opt = rl.Optimizer(SPACE, 60)
    assert today(opt) is None
    opt.tell(opt.ask(), 3.0)
    first = today(opt)
    assert (first.kind, first.params) == ("first point", opt.trials[0].params)
    opt.observe(old, 4.0, count=5)
    opt.observe(other, 4.0)
    assert (today(opt).kind, today(opt).params) == ("observed setting", old)  # most results
    opt.observe(other, 4.0, count=4)
    assert today(opt).params == other  # as many, and later
    opt.retract_observation(2)
    assert today(opt).params == old
    assert Ledger.of(opt).estimates().over == "observed setting"
    opt.set_baseline(now)
    assert (today(opt).kind, today(opt).params) == ("baseline", now)
    assert Ledger.of(opt).estimates().over == "baseline"


def test_the_gain_over_an_observed_setting_is_that_over_a_baseline() -> None:
    opt = tuned()
    got = Ledger.of(opt).gain()
    reference = today(opt)
    assert reference is not None
    opt.set_baseline(reference.params)
    against = Ledger.of(opt).gain()
    # A baseline counts from the trial at which it was declared, and here that is the first one.
    np.testing.assert_allclose(got.mean, against.mean)
    np.testing.assert_allclose(got.sd, against.sd)


def test_a_disaster_is_drawn_in(version: int) -> None:
    """Otherwise the tests above would not see the nonlinear part."""
    situation = tuned(disaster=True, defaults=version)._situation()
    rate = situation.fitted.scaling.rate(situation.posterior.at_data[0])
    assert rate.max() > 1.5 * rate.min()


def test_any_total_is_one_gaussian(optimizer: rl.Optimizer) -> None:
    rng = np.random.default_rng(1)
    rows = [row.params for row in told(optimizer)]
    new: list[dict[str, Any]] = [{"dose": 3.0, "visits": 2, "drug": drug} for drug in (True, 1)]
    points = [*rows, *new, *rows[:4]]  # untried points, and some twice
    weights = rng.normal(size=len(points))
    mean, covariance = dense(optimizer, points)
    got = Ledger.of(optimizer).total(points, weights)
    assert got.mean == pytest.approx(weights @ mean, rel=1e-6)
    assert got.sd == pytest.approx(math.sqrt(weights @ covariance @ weights), rel=1e-5)


def test_a_total_agrees_with_its_simpler_relatives(optimizer: rl.Optimizer) -> None:
    ledger, rows = Ledger.of(optimizer), [row.params for row in told(optimizer)]
    point = {"dose": 2.0, "visits": 9, "drug": "B"}
    mean, sd = optimizer.predict(point)
    assert ledger.total([point], [1.0]) == Estimate(pytest.approx(mean), pytest.approx(sd))
    assert ledger.total([point, point], [3, -5]).mean == pytest.approx(-2 * mean)
    assert ledger.total([point, point], [4, -4]) == Estimate(0.0, 0.0)
    assert ledger.total([], []) == Estimate(0.0, 0.0)
    estimates = ledger.estimates()
    assert estimates is not None
    served, regret = estimates.served, estimates.regret
    everything = ledger.total(rows, np.ones(len(rows)))
    assert everything == Estimate(pytest.approx(served.mean[-1]), pytest.approx(served.sd[-1]))
    sign = better_by(optimizer, 1.0, 0.0)
    weights = [sign * len(rows), *[-sign] * len(rows)]
    lost = ledger.total([optimizer.best().params, *rows], weights)
    assert lost.mean == pytest.approx(regret.mean[-1], rel=1e-6)
    assert lost.sd == pytest.approx(regret.sd[-1], rel=1e-6)


def test_the_same_point_has_one_row_whatever_it_was_called() -> None:
    points = [
        {"dose": 1.0, "visits": 4, "drug": True},
        {"dose": 1.0, "visits": 4, "drug": 1},
        {"drug": True, "visits": 4, "dose": 1.0},
        {"dose": 1.0, "visits": np.int64(4), "drug": 1},
    ]
    x, index = distinct_points(SPACE, points)
    assert index.tolist() == [0, 1, 0, 1]
    np.testing.assert_array_equal(x, [SPACE.encode(point) for point in points[:2]])


# --- what is not there, or wrong ------------------------------------------------------------------


def test_before_the_first_result() -> None:
    opt = rl.Optimizer(SPACE, 9)
    empty = Ledger.of(opt)
    assert empty.regret(1.0).tolist() == []
    assert empty.lost() is None
    assert empty.estimates() is None
    assert empty.gain(1.0).mean.tolist() == []
    assert empty.to_json() == {"number": [], "value": [], "lost": None, "estimates": None}
    with pytest.raises(rl.NoResultsError, match="no result was told yet"):
        empty.gain()
    with pytest.raises(rl.NoResultsError, match="no result was told yet"):
        empty.total([{"dose": 1.0, "visits": 4, "drug": "A"}], [1.0])
    opt.observe({"dose": 1.0, "visits": 4, "drug": "A"}, 2.0)
    prior = Ledger.of(opt)
    assert prior.lost() is None
    assert prior.estimates() is None  # prior data cost nothing
    assert prior.total([{"dose": 1.0, "visits": 4, "drug": "A"}], [1.0]).sd > 0


def test_later_results_do_not_change_it() -> None:
    opt = tuned(steps=9)
    ledger = Ledger.of(opt)
    before = ledger.lost()
    opt.tell(opt.pending[0], -40.0)
    assert ledger.lost() == before
    assert len(ledger.to_json()["value"]) == 8
    assert len(Ledger.of(opt).values) == 9


def test_it_does_not_change_the_optimizer(optimizer: rl.Optimizer) -> None:
    before = optimizer.to_json()
    Ledger.of(optimizer).to_json()
    assert optimizer.to_json() == before


def test_what_cannot_be_is_refused_by_its_value(optimizer: rl.Optimizer) -> None:
    ledger, point = Ledger.of(optimizer), {"dose": 1.0, "visits": 4, "drug": "A"}
    with pytest.raises(rl.ConfigError, match="f_star: need a number, got nan"):
        ledger.regret(math.nan)
    with pytest.raises(rl.ConfigError, match="over: need a number, got 'x'"):
        ledger.gain("x")  # type: ignore[arg-type]
    with pytest.raises(rl.ConfigError, match="sem: need a number >= 0, got -1"):
        ledger.gain(0.0, sem=-1.0)
    with pytest.raises(rl.ConfigError, match=r"sem: need the value .* got 2\.0 alone"):
        ledger.gain(sem=2.0)
    with pytest.raises(rl.ConfigError, match="weights: need 1, one for each point, got 2"):
        ledger.total([point], [1.0, 2.0])
    with pytest.raises(rl.ConfigError, match="weights: need numbers, got inf"):
        ledger.total([point], [math.inf])
    with pytest.raises(rl.SpaceError, match="drug"):
        ledger.total([{**point, "drug": "Z"}], [1.0])


@pytest.mark.parametrize("values", [[0.0] * 6, [1e100, -1e100] * 3, [1e-300, 2e-300] * 3])
def test_hard_numbers_are_still_json(values: list[float]) -> None:
    opt = rl.Optimizer(SPACE, 20, n0=4)
    for value in values:
        opt.tell(opt.ask(), value)
    told = json.loads(json.dumps(Ledger.of(opt).to_json(), allow_nan=False))
    assert told["value"] == values
    assert set(told["estimates"]) == {"served", "regret", "gain", "first", "over"}
    assert RunningTotal(np.array([math.inf]), np.array([math.nan])).to_json() == {
        "mean": [None],
        "sd": [None],
    }
    assert Estimate(math.inf, 1.0).to_json() == {"mean": None, "sd": 1.0}
