"""Small steps: limited steps, the cost of a change, and few changed parameters."""

from __future__ import annotations

import json
from itertools import pairwise
from math import inf
from typing import Any

import numpy as np
import pytest

import regretless as rl
from oracles import slopes
from regretless._internal.arrays import Array
from regretless.defaults import NEWEST
from regretless.engine.steps import reach
from regretless.kernels import SE
from regretless.model import GP, Data, Hyper
from regretless.policies import FEASIBLE, Constraint, Predicted, upper_score
from regretless.policies.scores import ChangeGate, ChangePays, Gate
from regretless.search import Box, candidates, fewest_changes, maximise

SPACE = rl.Space(
    {
        "timeout_ms": rl.Float(10.0, 1000.0, log=True),
        "share": rl.Float(0.0, 1.0),
        "tick": rl.Float(0.0, 2.0, step=0.1),
        "workers": rl.Int(1, 64, log=True),
        "queue": rl.Int(0, 5),
        "size": rl.Ordinal(["s", "m", "l", "xl"]),
        "kind": rl.Categorical(["a", "b", "c"]),
    }
)
STEPS: dict[str, Any] = {
    "timeout_ms": {"by": 25.0},
    "share": 0.1,
    "tick": {"by": 0.3},
    "workers": 0.2,
    "queue": 0.05,  # less than one level: one level is always within reach
    "size": {"by": 1},
}
BASE = {
    "timeout_ms": 100.0,
    "share": 0.5,
    "tick": 1.0,
    "workers": 8,
    "queue": 2,
    "size": "m",
    "kind": "a",
}


def value(params: dict[str, Any]) -> float:
    return (
        -abs(np.log(params["timeout_ms"] / 300.0))
        - (params["share"] - 0.9) ** 2
        - 0.1 * abs(params["queue"] - 4)
        + 0.3 * (params["kind"] == "b")
    )


def check_step(before: dict[str, Any], after: dict[str, Any]) -> None:
    """From the definition, in the user's units."""
    assert abs(after["timeout_ms"] - before["timeout_ms"]) <= 25.0 * (1 + 1e-12)
    assert abs(after["share"] - before["share"]) <= 0.1 + 1e-12
    assert abs(after["tick"] - before["tick"]) <= 0.3 + 1e-9
    apart = abs(np.log(after["workers"] / before["workers"])) / np.log(64)
    assert apart <= 0.2 + 1e-12 or abs(after["workers"] - before["workers"]) == 1
    assert abs(after["queue"] - before["queue"]) <= 1
    sizes = ["s", "m", "l", "xl"]
    assert abs(sizes.index(after["size"]) - sizes.index(before["size"])) <= 1


# -- the box ---------------------------------------------------------------------------------------


def test_the_box_has_the_points_that_one_step_leads_to_and_no_others() -> None:
    rng = np.random.default_rng(0)
    for _ in range(12):
        running = SPACE.spread(rng.random((1, SPACE.dim)))[0]
        box = reach(SPACE, STEPS, running)
        points = np.vstack(
            [box.spread(rng.random((20, SPACE.dim))), box.canonical(rng.random((20, SPACE.dim)))]
        )
        np.testing.assert_array_equal(points, SPACE.canonical(points))
        for x in points:
            check_step(SPACE.decode(running), SPACE.decode(x))
        assert len(box.rows(points)) == len(points)
        assert len(box.rows(running[None, :])) == 1
        np.testing.assert_array_equal(box.moved(points), points)
        for x in box.neighbours(running):
            check_step(SPACE.decode(running), SPACE.decode(x))


def test_steps_reach_as_far_as_they_say() -> None:
    box = reach(SPACE, STEPS, SPACE.encode(BASE))
    low, high = SPACE.decode(box.low), SPACE.decode(box.high)
    assert (low["timeout_ms"], high["timeout_ms"]) == (pytest.approx(75.0), pytest.approx(125.0))
    assert (low["share"], high["share"]) == (pytest.approx(0.4), pytest.approx(0.6))
    assert (low["tick"], high["tick"]) == (0.7, 1.3)
    assert (low["workers"], high["workers"]) == (4, 18)
    assert (low["queue"], high["queue"]) == (1, 3)
    assert (low["size"], high["size"]) == ("s", "l")
    assert (box.low[-1], box.high[-1]) == (0.0, 1.0)


def test_a_box_of_levels_is_listed_whole() -> None:
    space = rl.Space(
        {"a": rl.Int(0, 9), "b": rl.Ordinal([1, 2, 3]), "c": rl.Categorical(list("xyz"))}
    )
    running = space.encode({"a": 9, "b": 2, "c": "y"})
    box = reach(space, {"a": {"by": 2}}, running)
    assert box.size == 3 * 3 * 3
    grid = box.grid()
    assert len(grid) == box.size
    whole = space.grid()
    np.testing.assert_array_equal(grid, whole[box.rows(whole)])
    pinned = box.with_fixed({2: float(running[2])})
    assert pinned.size == len(pinned.grid()) == 9
    assert (pinned.spread(np.random.default_rng(0).random((9, 3)))[:, 2] == running[2]).all()


def test_the_search_in_a_box_finds_the_best_point_of_a_fine_grid() -> None:
    rng = np.random.default_rng(4)
    space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
    rules = NEWEST.search
    for _ in range(6):
        x = space.spread(rng.random((8, 2)))
        gp = GP.of(Data.of(x, rng.standard_normal(8)), Hyper(SE((0.25, 0.25)), 0.01, 1.0))
        box = reach(space, {"x": 0.1, "y": 0.15}, x[0])
        score = upper_score(gp, 1.0)
        found = maximise(score, box, candidates(box, gp, rng, score.width, rules), rng, rules)
        assert len(box.rows(found.x[None, :])) == 1
        axes = [np.linspace(box.low[j], box.high[j], 41) for j in range(2)]
        fine = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, 2)
        assert found.value >= score(fine)[0].max() - 1e-4


# -- in an optimiser -------------------------------------------------------------------------------


def test_a_thousand_asks_never_exceed_the_step() -> None:
    """Random points, results, prior data, abandoned, adopted and several pending trials."""
    rng, asks = np.random.default_rng(1), 0
    model = rl.Model.fixed(SE((0.5,) * SPACE.dim), 0.01)  # no time for fits
    for run, policy in enumerate(("random", "explore-then-commit", "eic", "random", "ids")):
        count = 25 if policy in ("eic", "ids") else 320
        optimizer = rl.Optimizer(
            SPACE, count - 3, seed=run, policy=policy, model=model, max_step=STEPS, baseline=BASE
        )
        running = BASE
        for _ in range(count):  # three of them after the budget is spent
            trial = optimizer.ask()
            asks += 1
            check_step(running, trial.params)
            luck = rng.random()
            if luck < 0.1:
                optimizer.abandon(trial)
                continue
            running = dict(trial.params)
            if luck < 0.15:
                running = SPACE.decode(SPACE.spread(rng.random((1, SPACE.dim)))[0])
                optimizer.adopt(running)
            elif luck < 0.98:
                optimizer.tell(trial, value(trial.params) + 0.1 * rng.standard_normal())
    assert asks >= 1000


@pytest.mark.parametrize("policy", ["eic", "gp-ucb", "gp-ts", "ei-nguyen"])
def test_every_policy_keeps_to_the_steps(policy: str) -> None:
    optimizer = rl.Optimizer(SPACE, 15, policy=policy, max_step=STEPS, baseline=BASE)
    running = BASE
    for trial in optimizer:
        check_step(running, trial.params)
        running = dict(trial.params)
        optimizer.tell(trial, value(trial.params))


def test_without_a_baseline_the_first_trial_is_anywhere() -> None:
    free = rl.Optimizer(SPACE, 20, seed=1)
    limited = rl.Optimizer(SPACE, 20, seed=1, max_step=STEPS)
    first = limited.ask()
    assert first.params == free.ask().params
    trials = [first, *(limited.ask() for _ in range(8))]
    for before, after in pairwise(trials):
        check_step(before.params, after.params)
    held_back = [trial.decision for trial in trials if trial.decision.held_back == "step limit"]
    assert held_back
    assert "held back by the step limit" in str(held_back[0])


def test_the_spent_budget_leads_back_to_the_best_point_step_by_step() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 2, max_step={"x": 0.1})
    optimizer.observe({"x": 0.9}, 5.0)
    for x in (0.5, 0.4):
        optimizer.tell(optimizer.adopt({"x": x}), 0.0)
    walked = [optimizer.ask() for _ in range(6)]
    assert [t.params["x"] for t in walked] == pytest.approx([0.5, 0.6, 0.7, 0.8, 0.9, 0.9])
    assert [t.decision.held_back for t in walked] == ["step limit"] * 4 + [None] * 2


class Left(Constraint):
    """Nothing beyond 0.3 is safe."""

    name = "test limit"

    def slack(self, at: Predicted) -> Array:
        return 0.3 - at.x[:, 0]

    def slopes(self, at: Predicted) -> tuple[float, float, Array]:
        return 0.0, 0.0, np.full_like(at.x, -1.0)


def test_safety_goes_back_to_the_baseline_in_one_step(monkeypatch: pytest.MonkeyPatch) -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 20, max_step={"x": 0.1}, baseline={"x": 0.2})
    optimizer.tell(optimizer.adopt({"x": 0.8}), 1.0)
    monkeypatch.setattr(rl.Optimizer, "_is_limited", True)
    monkeypatch.setattr(rl.Optimizer, "_limits", lambda self, belief: (Left(),))
    assert optimizer.ask().params == {"x": 0.2}


# -- the cost of a change --------------------------------------------------------------------------


def worth(gate: ChangeGate, mu: float, s: float, moves: bool, leaves: bool) -> float:
    """The value of trying a point minus that of keeping to what is known, by numbers at random."""
    m, c = gate.steps, gate.cost
    f = mu + s * np.random.default_rng(0).standard_normal(400_000)
    later = np.maximum((m - 1) * f, (m - 1) * gate.xi - c * leaves).mean()
    return float(mu - c * moves + later - (m * gate.xi - gate.spared))


@pytest.mark.parametrize("steps", [1.0, 2.0, 30.0])
@pytest.mark.parametrize("spared", [0.0, 0.4])
def test_the_gate_weighs_changes_as_a_simulation_does(steps: float, spared: float) -> None:
    here, best, there = np.array([0.1]), np.array([0.2]), np.array([0.9])
    gate = ChangeGate(1.0, steps, 0.4, spared, here, best, unit=2.0)
    for mu, s in [(1.0, 0.5), (0.3, 1.0), (1.5, 0.01), (-3.0, 0.2)]:
        for x in (here, best, there):
            at = Predicted(x[None, :], np.array([mu]), np.array([s / 2.0]))
            wanted = worth(gate, mu, s, bool(x != here), bool(x != best))
            assert 2.0 * float(gate.slack(at)[0]) == pytest.approx(wanted, abs=0.01 * steps)


def test_a_change_that_costs_nothing_is_the_plain_gate() -> None:
    from regretless.improvement import gate as threshold

    rng = np.random.default_rng(2)
    at = Predicted(rng.random((500, 1)), rng.normal(0.0, 2.0, 500), rng.uniform(1e-3, 2.0, 500))
    for steps in (1.0, 7.0, 200.0):
        plain = Gate(0.5, threshold(steps), 1.5)
        other = ChangeGate(0.5, steps, 0.0, 0.0, np.zeros(1), np.ones(1), 1.5)
        np.testing.assert_array_equal(plain.slack(at) >= 0, other.slack(at) >= 0)


@pytest.mark.parametrize("kind", ["gate", "pays"])
def test_slopes(kind: str) -> None:
    here, best = np.array([0.1]), np.array([0.2])
    constraint: Constraint = ChangeGate(1.0, 20.0, 0.4, 0.1, here, best, unit=2.0)
    if kind == "pays":
        constraint = ChangePays(0.7, 20.0, 0.4, here, unit=2.0)
    for x in (here, best, np.array([0.9])):
        for mu, s in [(1.0, 0.5), (0.3, 1.0), (2.0, 0.1), (-1.0, 0.4)]:

            def total(p: Array, x: Array = x) -> float:
                at = Predicted(x[None, :], p[:1], p[1:] / 2.0)
                return 2.0 * float(constraint.slack(at)[0])

            at = Predicted(x[None, :], np.array([mu]), np.array([s / 2.0]))
            d_mu, d_s, d_x = constraint.slopes(at)
            assert d_x is None
            found = np.concatenate([np.atleast_1d(d_mu), np.atleast_1d(d_s)])
            np.testing.assert_allclose(found, slopes(total, np.array([mu, s])), atol=1e-5)


def test_the_running_setting_or_the_incumbent_is_always_allowed() -> None:
    rng = np.random.default_rng(3)
    here, best = np.array([0.1]), np.array([0.2])
    for _ in range(300):
        steps, cost, xi = rng.uniform(1, 50), float(rng.exponential()), float(rng.normal())
        value = xi - float(rng.exponential())
        spared = min(cost, steps * (xi - value))
        gate = ChangeGate(xi, steps, cost, spared, here, best, 1.0)
        at = Predicted(np.vstack([here, best]), np.array([value, xi]), rng.uniform(1e-3, 1.0, 2))
        assert gate.slack(at).max() >= FEASIBLE


def changes(optimizer: rl.Optimizer) -> int:
    points = [tuple(trial.params.values()) for trial in optimizer.trials]
    return sum(a != b for a, b in pairwise(points))


def tuned(budget: int = 30, **settings: Any) -> rl.Optimizer:
    rng = np.random.default_rng(8)
    space = rl.Space({name: rl.Float(0.0, 1.0) for name in ("x", "y", "idle", "spare")})
    optimizer = rl.Optimizer(space, budget, seed=2, **settings)
    for trial in optimizer:
        x, y = trial.params["x"], trial.params["y"]
        f = -4.0 * ((x - 0.7) ** 2 + (y - 0.6) ** 2)
        optimizer.tell(trial, f + 0.1 * rng.standard_normal())
    return optimizer


@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ucb"])
def test_a_cost_makes_changes_rare(policy: str) -> None:
    free = changes(tuned(policy=policy))
    dear = changes(tuned(policy=policy, change_cost=0.5))
    never = tuned(policy=policy, change_cost=1e6)
    started = sum(trial.decision.reason == "design" for trial in never.trials)
    assert dear < free
    assert changes(never) <= started
    again = rl.Optimizer.from_json(never.to_json())
    assert again.ask() == never.ask()


def test_a_decision_shows_the_cost_of_its_changes() -> None:
    optimizer = tuned(20, change_cost=0.3, policy="eic")
    for trial in optimizer.trials:
        why = trial.decision
        if why.reason == "explore":
            assert why.expected_improvement is not None
            assert why.evaluation_cost is not None
            assert why.expected_improvement >= why.evaluation_cost * (1 - 1e-6)
    landscape = optimizer.landscape(
        [optimizer.trials[-1].params, dict(x=0.0, y=0.0, idle=0, spare=1)]
    )
    assert landscape.feasible.dtype == bool


# -- few changes -----------------------------------------------------------------------------------


def test_columns_without_an_effect_are_set_back() -> None:
    rng = np.random.default_rng(5)
    x = rng.random((30, 3))
    kernel = SE((0.3, 50.0, 0.3))  # the second column does not matter
    gp = GP.of(Data.of(x, np.sin(6 * x[:, 0]) + x[:, 2]), Hyper(kernel, 1e-4, 1.0))
    space = rl.Space({name: rl.Float(0.0, 1.0) for name in "abc"})
    score = upper_score(gp, 0.0)
    best, base = space.canonical(np.array([[0.25, 0.9, 0.95], [0.8, 0.1, 0.2]]))
    found = fewest_changes(score, space, best, base, 0.05)
    assert (found != base).tolist() == [True, False, True]
    # By brute force: no point with fewer changes is good enough.
    value = float(score(best[None, :])[0][0])
    for mask in ([1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]):
        other = np.where(mask, best, base)
        assert float(score(other[None, :])[0][0]) < value - 0.05
    assert (fewest_changes(score, space, best, base, inf) == base).all()
    narrow = Box(space, np.array([0.0, 0.5, 0.0]), np.ones(3))  # base is out of reach there
    assert (fewest_changes(score, narrow, best, base, 0.05) == best).all()


def test_fewer_parameters_are_changed() -> None:
    base = {"x": 0.5, "y": 0.5, "idle": 0.2, "spare": 0.8}

    def changed(optimizer: rl.Optimizer) -> float:
        later = [t for t in optimizer.trials if t.decision.reason != "design"]
        return float(np.mean([sum(t.params[n] != base[n] for n in base) for t in later]))

    plain, sparse = tuned(baseline=base), tuned(baseline=base, sparse_changes=True)
    assert changed(sparse) < changed(plain) - 0.2
    assert abs(sparse.best().params["x"] - 0.7) < 0.2
    assert rl.Optimizer.from_json(sparse.to_json()).ask() == sparse.ask()


def test_all_of_it_together_comes_back_bit_for_bit() -> None:
    optimizer = rl.Optimizer(
        SPACE, 30, baseline=BASE, max_step=STEPS, change_cost=0.05, sparse_changes=True
    )
    running = BASE
    for trial in (optimizer.ask() for _ in range(18)):
        check_step(running, trial.params)
        running = dict(trial.params)
        optimizer.tell(trial, value(trial.params))
    twin = rl.Optimizer.from_json(json.dumps(json.loads(optimizer.to_json())))
    assert [twin.ask(), twin.ask()] == [optimizer.ask(), optimizer.ask()]
