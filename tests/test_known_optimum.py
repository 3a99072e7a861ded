"""A known optimum or bound: the mathematics, what a run makes of it, and what users see."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import regretless as rl
from oracles import slopes
from regretless.cli.app import app
from regretless.engine import Asked, read, write
from regretless.experiments.problems import PROBLEMS
from regretless.improvement import gate, gate_below, h
from regretless.policies.scores import CappedGate, Gate, Predicted, log_ei, log_ei_below
from regretless.service.page_data import page_data

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})
PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})


def hill(params: dict[str, Any], top: float = 3.0) -> float:
    return top - 10.0 * sum((value - 0.3) ** 2 for value in params.values())


def run(optimizer: rl.Optimizer, steps: int, sd: float = 0.1, sign: float = 1.0) -> list[rl.Trial]:
    rng = np.random.default_rng(optimizer.seed)
    trials = []
    for _ in range(steps):
        trial = optimizer.ask()
        optimizer.tell(trial, sign * hill(trial.params) + sd * float(rng.standard_normal()))
        trials.append(trial)
    return trials


# --- the mathematics ------------------------------------------------------------------------------


def test_the_improvement_below_a_ceiling_is_the_integral() -> None:
    rng = np.random.default_rng(0)
    draws = rng.standard_normal(2_000_000)
    for mu, s, xi, top in [(0.0, 1.0, 0.5, 1.0), (1.2, 0.3, 1.0, 1.1), (-1.0, 2.0, 0.0, 4.0)]:
        want = np.maximum(np.minimum(mu + s * draws, top) - xi, 0.0).mean()
        got = np.exp(log_ei_below(np.array([mu]), np.array([s]), xi, top)[0][0])
        assert got == pytest.approx(want, rel=0.01)


def test_the_improvement_has_the_right_slopes() -> None:
    rng = np.random.default_rng(1)
    mu, s = rng.normal(0.0, 2.0, 50), np.exp(rng.normal(0.0, 1.0, 50))
    for xi, top in [(0.0, 0.1), (0.0, 3.0), (-1.0, 40.0)]:
        _, d_mu, d_s = log_ei_below(mu, s, xi, top)
        for i in range(len(mu)):
            value = lambda p: float(log_ei_below(p[:1], p[1:], xi, top)[0][0])  # noqa: B023, E731
            want = slopes(value, np.array([mu[i], s[i]]))
            assert [d_mu[i], d_s[i]] == pytest.approx(want, rel=1e-4, abs=1e-6)


def test_a_ceiling_far_away_changes_nothing() -> None:
    mu, s = np.linspace(-3.0, 3.0, 9), np.full(9, 0.7)
    for got, want in zip(log_ei_below(mu, s, 0.2, 100.0), log_ei(mu, s, 0.2), strict=True):
        np.testing.assert_array_equal(got, want)
    at = Predicted(np.zeros((9, 1)), mu, s)
    far, plain = CappedGate(0.2, 100.0, 50.0, 1.0), Gate(0.2, gate(50.0), 1.0)
    np.testing.assert_array_equal(far.slack(at), plain.slack(at))


@pytest.mark.parametrize("m", [1.0, 1.5, 10.0, 1000.0])
def test_the_gate_is_where_gain_and_cost_are_equal(m: float) -> None:
    room = np.array([1e-3, 0.05, 0.4, 1.0, 3.0, 8.0, 30.0])
    t, slope = gate_below(m, room)
    np.testing.assert_allclose((h(t) - h(t - room)) * m, h(-t), rtol=1e-7)
    assert (np.diff(t) <= 1e-12).all()  # more room, more is allowed
    assert t[-1] == gate(m)
    step = 1e-6 * room
    want = (gate_below(m, room + step)[0] - gate_below(m, room - step)[0]) / (2 * step)
    np.testing.assert_allclose(slope, want, rtol=1e-3, atol=1e-6)


def test_the_slopes_of_the_gate() -> None:
    rng = np.random.default_rng(2)
    capped = CappedGate(xi=0.5, top=1.1, horizon=20.0, unit=1.7)
    for mu, sigma in zip(rng.normal(0.0, 1.0, 20), np.exp(rng.normal(-0.5, 0.7, 20)), strict=True):

        def slack(p: Any) -> float:  # in mu and s = omega sigma, times the unit
            at = Predicted(np.zeros((1, 1)), p[:1], p[1:] / 1.7)
            return 1.7 * float(capped.slack(at)[0])

        at = Predicted(np.zeros((1, 1)), np.array([mu]), np.array([sigma]))
        d_mu, d_s, _ = capped.slopes(at)
        want = slopes(slack, np.array([mu, 1.7 * sigma]))
        assert [d_mu, np.ravel(d_s)[0]] == pytest.approx(want, rel=1e-4, abs=1e-6)


# --- a run ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("policy", ["ids", "eic", "ei", "aei", "gp-ucb", "gp-ts"])
def test_every_policy_takes_it(policy: str) -> None:
    optimizer = rl.Optimizer(LINE, 25, policy=policy, optimum=3.0)
    trials = run(optimizer, 20)
    assert all(np.isfinite(trial.params["x"]) for trial in trials)
    assert not trials[-1].decision.contradicted


@pytest.mark.parametrize("policy", ["ids", "eic"])
def test_exploration_ends_when_the_optimum_is_reached(policy: str) -> None:
    """Points that are not clearly better than the best one are no longer allowed."""
    optimizer = rl.Optimizer(LINE, 400, policy=policy, optimum=3.0)
    trials = run(optimizer, 40, sd=0.02)
    late, best = trials[-15:], optimizer.best().params["x"]
    assert all(abs(trial.params["x"] - best) < 0.01 for trial in late)
    assert late[-1].decision.optimum_gap == pytest.approx(0.0, abs=0.05)
    assert optimizer.best().regret == pytest.approx(0.0, abs=0.05)
    assert "of the known optimum" in str(late[-1].decision)


def test_minimising_has_the_optimum_in_the_users_direction() -> None:
    low = rl.Optimizer(LINE, 60, direction="minimize", optimum=-3.0, seed=3)
    high = rl.Optimizer(LINE, 60, optimum=3.0, seed=3)
    below, above = run(low, 20, sign=-1.0, sd=0.0), run(high, 20, sd=0.0)
    assert [trial.params for trial in below] == [trial.params for trial in above]
    assert low.best().regret == pytest.approx(high.best().regret or 0.0)


def test_a_loose_bound_changes_nothing() -> None:
    plain, loose = rl.Optimizer(PLANE, 60), rl.Optimizer(PLANE, 60, bound=60.0)
    want, got = run(plain, 40), run(loose, 40)
    assert [trial.params for trial in got] == [trial.params for trial in want]


def test_the_start_is_shorter_and_begins_in_the_middle() -> None:
    plain, knowing = rl.Optimizer(PLANE, 200), rl.Optimizer(PLANE, 200, optimum=3.0)
    starts = [sum(t.decision.reason == "design" for t in run(o, 20)) for o in (plain, knowing)]
    assert starts[1] < starts[0]
    listed = rl.Optimizer(PLANE, 200, optimum=3.0, n0=9)
    assert sum(t.decision.reason == "design" for t in run(listed, 20)) == 9


@pytest.mark.parametrize("name", ["optimum", "bound"])
def test_a_wrong_one_is_noticed_and_not_followed(name: str) -> None:
    optimizer = rl.Optimizer(LINE, 60, n0=5, **{name: 1.0})
    twin = rl.Optimizer(LINE, 60, n0=5)
    with pytest.warns(UserWarning, match=f"better than the {name} 1 that was given") as seen:
        trials = run(optimizer, 20)
    assert len(seen) == 1
    assert trials[-1].decision.contradicted
    assert "so it is not used" in str(trials[-1].decision)
    assert optimizer.best().regret is None
    # From then on, the same results lead to the same points as without it.
    for row in optimizer.history():
        twin.observe(row.params, row.value or 0.0)
    alone = rl.Optimizer(LINE, 60, n0=5, **{name: 1.0})
    for row in optimizer.history():
        alone.observe(row.params, row.value or 0.0)
    with pytest.warns(UserWarning, match="no longer used"):
        assert alone.ask().params == twin.ask().params


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.slow) for n in (1, 2))])
def test_noise_alone_does_not_contradict_it(seed: int) -> None:
    """Many results are above the optimum, because they are noisy."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        optimizer = rl.Optimizer(LINE, 80, optimum=3.0, seed=seed)
        trials = run(optimizer, 60, sd=1.0)
        assert not any(trial.decision.contradicted for trial in trials)


# --- as data --------------------------------------------------------------------------------------


@pytest.mark.parametrize("given", [{"optimum": 3.0}, {"bound": 4.5}])
def test_it_is_stored_and_replayed(given: dict[str, float]) -> None:
    optimizer = rl.Optimizer(PLANE, 40, **given)
    run(optimizer, 22)
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.known == optimizer.known
    assert again.ask() == optimizer.ask()


def test_without_it_nothing_more_is_stored() -> None:
    optimizer = rl.Optimizer(LINE, 40)
    run(optimizer, 12)
    assert not {"optimum", "bound"} & optimizer.spec().keys()
    asked = [event for event in optimizer.events if isinstance(event, Asked)]
    for event in asked:
        body = write(event).body
        assert not {"optimum_gap", "contradicted"} & body["decision"].keys()
        assert read("asked", 1, json.loads(json.dumps(body))) == event


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"optimum": "3"}, "optimum: need a finite number, got '3'"),
        ({"bound": float("nan")}, "bound: need a finite number, got nan"),
        ({"optimum": True}, "optimum: need a finite number, got True"),
        ({"optimum": 1.0, "bound": 2.0}, "either an optimum or a bound, got 1.0 and 2.0"),
    ],
)
def test_bad_input_is_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.ConfigError, match=message):
        rl.Optimizer(LINE, 10, **given)


def test_one_call() -> None:
    result = rl.maximize(hill, LINE, budget=20, optimum=3.0)
    assert result.best.regret == pytest.approx(0.0, abs=0.05)
    least = rl.minimize(lambda params: -hill(params), LINE, budget=20, bound=-3.5)
    assert least.best.regret == pytest.approx(0.5, abs=0.05)


def test_the_ledger_knows_the_regret() -> None:
    optimizer = rl.Optimizer(LINE, 40, optimum=3.0)
    trials = run(optimizer, 25, sd=0.05)
    known = rl.Ledger.of(optimizer).estimates().known  # type: ignore[union-attr]
    true = sum(3.0 - hill(trial.params) for trial in trials)
    assert known is not None
    assert abs(known.mean[-1] - true) <= 4.0 * known.sd[-1] + 1e-6
    assert rl.Ledger.of(rl.Optimizer(LINE, 5)).estimates() is None


def test_a_study_keeps_it_and_the_command_line_shows_it(tmp_path: Path) -> None:
    url, runner = str(tmp_path / "s.db"), CliRunner()
    space = json.dumps(LINE.to_json())
    made = ["create", "s", "--space", space, "--budget", "40", "--optimum", "3"]
    assert runner.invoke(app, [*made, "--storage", url]).exit_code == 0
    with rl.Study.open(url, "s", optimum=3.0) as study:
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, hill(trial.params))
        assert page_data(study.snapshot())["known"] == {"value": 3.0, "exact": True}
    shown = runner.invoke(app, ["show", "s", "--storage", url]).stdout
    assert "known optimum: 3; the best point is within" in shown
    with pytest.raises(rl.ConfigError, match=r"optimum: 3\.0 there, 2\.0 here"):
        rl.Study.open(url, "s", optimum=2.0)
    with pytest.raises(rl.ConfigError, match=r"bound: None there, 2\.0 here"):
        rl.Study.open(url, "s", bound=2.0)


# --- what it is worth -----------------------------------------------------------------------------


@pytest.mark.slow
def test_it_saves_regret() -> None:
    """docs/results/known_optimum.md has all problems and more seeds."""
    problem = PROBLEMS["schwefel-2"]
    totals = []
    for given in ({}, {"optimum": problem.f_star}):
        total = 0.0
        for seed in range(4):
            rng = np.random.default_rng(seed)
            optimizer = rl.Optimizer(problem.space(), 120, seed=seed, **given)
            for trial in optimizer:
                optimizer.tell(trial, problem.evaluate(trial.params, rng))
                total += problem.regret(trial.params, 0.0)
        totals.append(total)
    assert totals[1] <= 0.95 * totals[0]
