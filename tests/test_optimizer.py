"""Ask and tell: contracts that hold for every policy, and bad input that changes nothing."""

import copy
import json
import pickle
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless._internal.shown import shown
from regretless.defaults import NEWEST
from regretless.engine import Event, write
from regretless.kernels import SE
from regretless.model import belief as surrogate
from regretless.policies import POLICIES

MIXED = rl.Space(
    {
        "rate": rl.Float(0.01, 10.0, log=True),
        "size": rl.Int(1, 9),
        "kind": rl.Categorical(["a", "b", "c"]),
        "grade": rl.Ordinal([1, 2, 5, 10]),
    }
)
PLAIN = rl.Space({"x": rl.Float(-1.0, 2.0), "y": rl.Float(0.0, 5.0)})
LINE = rl.Space({"x": rl.Float(0.0, 1.0)})

VARIANTS: dict[str, Callable[[], rl.Policy]] = {name: cls for name, cls in POLICIES.items()} | {
    "ei-observation": lambda: rl.EI(incumbent="observation"),
    "ei-domain": lambda: rl.EI(incumbent="domain"),
    "ei-quantile": lambda: rl.EI(incumbent="quantile", beta=0.9),
    "aei-printed": lambda: rl.AEI(factor="printed"),
    "eic-plain": lambda: rl.EIC(gate=False, merge=False),
    "eic-theory": lambda: rl.EIC(omega_scale=0.5),
    "eic-observation": lambda: rl.EIC(incumbent="observation"),
    "gp-ucb-4": lambda: rl.GPUCB(beta=4.0),
    "gp-ucb-srinivas": lambda: rl.GPUCB(beta="srinivas"),
    "gp-ucb-cg": lambda: rl.GPUCB(beta="chowdhury-gopalan"),
    "gp-ts-scaled": lambda: rl.GPTS(scale="chowdhury-gopalan", features=128),
}
every_policy = pytest.mark.parametrize("name", VARIANTS)


def make(name: str, space: rl.Space = MIXED, budget: int = 14, **options: Any) -> rl.Optimizer:
    policy = VARIANTS[name]()
    if isinstance(policy, rl.GPTS):
        policy = rl.GPTS(scale=policy.scale, features=128)
    return rl.Optimizer(space, budget, **{"policy": policy, "seed": 3, "n0": 4} | options)


def truth(params: dict[str, rl.Scalar]) -> float:
    """Something smooth on any of the spaces here."""
    total = 0.0
    for place, value in enumerate(params.values()):
        number = float(len(value)) if isinstance(value, str) else float(value or 0)
        total -= (np.log1p(abs(number)) - 0.5 * place) ** 2
    return total


def noisy(trial: rl.Trial, sd: float = 0.1) -> float:
    return truth(trial.params) + sd * float(np.random.default_rng(trial.number).standard_normal())


def run(opt: rl.Optimizer, steps: int) -> list[dict[str, rl.Scalar]]:
    asked = []
    for _ in range(steps):
        trial = opt.ask()
        opt.tell(trial, noisy(trial))
        asked.append(trial.params)
    return asked


# --- every policy ---------------------------------------------------------------------------------


OFTEN = {"ids", "eic", "gp-ucb", "gp-ts"}  # on every space; the others there at length


@pytest.mark.parametrize(
    ("name", "space"),
    [
        pytest.param(
            name,
            space,
            id=f"{name}-{kind}",
            marks=() if name in OFTEN or kind == "mixed" else pytest.mark.slow,
        )
        for name in VARIANTS
        for kind, space in {"mixed": MIXED, "plain": PLAIN, "line": LINE}.items()
    ],
)
def test_same_seed_same_run_inside_the_space(name: str, space: rl.Space) -> None:
    first, second = (make(name, space, budget=8) for _ in range(2))
    asked = run(first, 8)
    assert asked == run(second, 8)
    for params in asked:
        assert space.validate(params) == params


@every_policy
def test_json_gives_the_same_next_suggestion(name: str) -> None:
    opt = make(name)
    opt.observe({"rate": 1.0, "size": 3, "kind": "b", "grade": 5}, -1.0, sem=0.2)
    for step in range(12):
        if step % 3 == 2:
            again = rl.Optimizer.from_json(opt.to_json())
            assert again.propose() == opt.propose()
            assert again.to_json() == opt.to_json()
        trial = opt.ask()
        if step == 6:
            opt.abandon(trial)
        elif step != 9:  # stays pending
            opt.tell(trial, noisy(trial), **({"count": 3} if step == 4 else {}))


@every_policy
def test_budget_of_one_and_past_it(name: str) -> None:
    opt = make(name, budget=1, n0=None)
    trial = opt.ask()
    assert opt.remaining == 0
    early = opt.ask()  # nothing told yet
    assert early.decision.reason == "exhausted"
    opt.tell(trial, 1.0)
    late = opt.ask()
    assert (late.params, late.decision.reason) == (trial.params, "exhausted")
    assert "budget spent" in str(late.decision)
    opt.extend(5)
    assert opt.remaining == 2
    assert opt.ask().decision.reason != "exhausted"


@every_policy
def test_a_batch_before_any_result(name: str) -> None:
    opt = make(name, PLAIN, budget=20)
    batch = opt.ask(6)
    assert [trial.number for trial in batch] == list(range(6))
    assert len({tuple(trial.params.values()) for trial in batch}) == 6
    assert [trial.number for trial in opt.pending] == list(range(6))
    for trial in reversed(batch):
        opt.tell(trial, noisy(trial))
    assert opt.pending == []
    assert opt.ask().decision.remaining == 14


@every_policy
@pytest.mark.parametrize("scale", [1e-12, 1e12])
def test_any_scale(name: str, scale: float) -> None:
    opt = make(name, PLAIN, budget=9)
    for trial in opt:
        opt.tell(trial, scale * noisy(trial))
    assert np.isfinite(opt.best().mean)


@every_policy
@pytest.mark.parametrize(
    "value",
    [lambda k: 0.0, lambda k: 7.5, lambda k: -1e50, lambda k: 1e6 if k == 5 else float(k % 3)],
    ids=["zero", "constant", "large constant", "outlier"],
)
def test_odd_data(name: str, value: Callable[[int], float]) -> None:
    opt = make(name, PLAIN, budget=9)
    for trial in opt:
        opt.tell(trial, value(trial.number))
    best = opt.best()
    assert best.low <= best.mean <= best.high


# --- the state is a fold --------------------------------------------------------------------------


def test_looking_changes_nothing() -> None:
    quiet, curious = make("eic", PLAIN, 25), make("eic", PLAIN, 25)
    for _ in range(25):
        curious.propose()
        if curious.observations:
            curious.best()
            curious.predict({"x": 0.5, "y": 1.0})
            curious.landscape([{"x": 0.1, "y": 0.2}])
            curious.copy().ask()
        curious.history()
        assert run(quiet, 1) == run(curious, 1)
    assert quiet.to_json() == curious.to_json()


def test_a_result_that_arrives_between_proposal_and_ask_is_kept() -> None:
    opt = make("eic", PLAIN, 25)
    run(opt, 8)
    waiting = opt.ask()
    event = opt.propose()
    opt.tell(waiting, noisy(waiting))
    opt.apply(event)
    assert opt.observations == 9
    assert rl.Optimizer.from_json(opt.to_json()).propose() == opt.propose()


def test_what_a_copy_is_told_of_shortens_no_other_start() -> None:
    opt = rl.Optimizer(LINE, 40, n0=4)
    opt.observe({"x": 0.99}, 1.0)
    twin = opt.copy()
    for x in (0.11, 0.33, 0.55, 0.77):
        twin.observe({"x": x}, x)
    assert twin.ask().decision.reason != "design"
    assert opt.ask().decision.reason == "design"
    assert [row.status for row in opt.history()] == ["observed", "pending"]


def test_another_seed_is_another_run_from_the_same_start() -> None:
    def after(seed: int, policy: str) -> dict[str, rl.Scalar]:
        opt = rl.Optimizer(LINE, 40, design=[{"x": 0.5}], policy=policy, seed=seed)
        opt.tell(opt.ask(), 1.0)
        return opt.ask().params

    for policy in ("random", "gp-ts"):
        assert after(1, policy) == after(1, policy)
        assert after(1, policy) != after(2, policy)


def test_the_best_of_a_minimum_is_told_in_the_user_s_own_numbers() -> None:
    opt = rl.Optimizer(LINE, 20, direction="minimize")
    for x in (0.1, 0.3, 0.5, 0.7, 0.9):
        for noise in (-0.1, 0.3):
            opt.observe({"x": x}, 100.0 + 50.0 * (x - 0.3) ** 2 + noise)
    best = opt.best()
    assert best.params == {"x": 0.3}
    assert best.luckiest == pytest.approx(99.9)
    assert best.sample_mean == pytest.approx(100.1)
    assert best.low < best.mean < best.high
    assert best.mean == pytest.approx(100.1, abs=0.5)
    assert opt.predict({"x": 0.9})[0] > 110.0


def test_copies_go_their_own_way() -> None:
    opt = make("eic", PLAIN, 25)
    run(opt, 8)
    pending = opt.ask()
    before = opt.to_json()
    twin = opt.copy()
    twin.tell(pending, 1.0)
    twin.observe({"x": 0.0, "y": 1.0}, 2.0)
    twin.ask()
    assert opt.to_json() == before
    assert [trial.number for trial in opt.pending] == [pending.number]


# --- invariance -----------------------------------------------------------------------------------


def decisions(opt: rl.Optimizer, value: Callable[[rl.Trial], float]) -> np.ndarray:
    return np.array(
        [[*trial.params.values()] for trial in opt if opt.tell(trial, value(trial)) is None]
    )


@pytest.mark.parametrize(("a", "b"), [(3.0, 40.0), (1e-6, 0.0), (1e5, -1e5)])
def test_scaling_and_shifting_the_values_changes_no_decision(a: float, b: float) -> None:
    plain = decisions(make("eic", PLAIN, 20), noisy)
    moved = decisions(make("eic", PLAIN, 20), lambda trial: a * noisy(trial) + b)
    np.testing.assert_allclose(moved, plain, atol=1e-4)


def test_minimising_the_negative_is_the_same() -> None:
    up = make("eic", PLAIN, 20)
    down = make("eic", PLAIN, 20, direction="minimize")
    np.testing.assert_array_equal(
        decisions(up, noisy), decisions(down, lambda trial: -noisy(trial))
    )
    best, worst = up.best(), down.best()
    assert (best.params, best.mean, best.high) == (worst.params, -worst.mean, -worst.low)
    assert best.luckiest == -worst.luckiest
    assert up.trials[-1].decision.expected_improvement == (
        down.trials[-1].decision.expected_improvement
    )


def test_renaming_parameters_changes_no_decision() -> None:
    renamed = rl.Space({"b": PLAIN.parameters["x"], "a": PLAIN.parameters["y"]})
    one, two = make("eic", PLAIN, 16), make("eic", renamed, 16)
    np.testing.assert_array_equal(decisions(one, noisy), decisions(two, noisy))


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "options"),
    [
        (float("nan"), {}),
        (float("inf"), {}),
        (-float("inf"), {}),
        ("0.5", {}),
        (None, {}),
        (1 + 2j, {}),
        (1e200, {}),
        (10**400, {}),
        ([1.0], {}),
        (1.0, {"sem": -0.1}),
        (1.0, {"sem": 0.0}),
        (1.0, {"sem": float("nan")}),
        (1.0, {"sem": "x"}),
        (1.0, {"count": 0}),
        (1.0, {"count": -2}),
        (1.0, {"count": float("inf")}),
    ],
)
def test_a_result_that_can_t_be_right(value: Any, options: dict[str, Any]) -> None:
    opt = make("eic", PLAIN)
    run(opt, 5)
    trial = opt.ask()
    before = opt.to_json()
    wrong = next(iter(options.values()), value)
    with pytest.raises(rl.DataError) as caught:
        opt.tell(trial, value, **options)
    assert shown(wrong) in str(caught.value)
    with pytest.raises(rl.DataError):
        opt.observe({"x": 0.0, "y": 0.0}, value, **options)
    assert opt.to_json() == before
    opt.tell(trial, 0.5)


@pytest.mark.parametrize("number", [99, -1, True, 1.5, "0", None])
def test_an_unknown_trial(number: Any) -> None:
    opt = make("eic", PLAIN)
    run(opt, 2)
    before = opt.to_json()
    with pytest.raises(rl.UnknownTrialError, match="trial"):
        opt.tell(number, 1.0)
    with pytest.raises(rl.UnknownTrialError):
        opt.abandon(number)
    assert opt.to_json() == before


def test_told_twice() -> None:
    opt = make("eic", PLAIN)
    trial = opt.ask()
    opt.tell(trial, 0.25)
    before = opt.to_json()
    opt.tell(trial.number, np.float64(0.25))  # a retry
    with pytest.raises(rl.TrialError, match=r"0\.25.*0\.5"):
        opt.tell(trial, 0.5)
    with pytest.raises(rl.TrialError, match="told"):
        opt.abandon(trial)
    assert opt.to_json() == before


def test_an_abandoned_trial_may_still_be_told() -> None:
    opt = make("eic", PLAIN)
    trial = opt.ask()
    opt.abandon(trial)
    opt.abandon(trial)
    assert opt.pending == []
    opt.tell(trial, 0.5)
    assert opt.history()[0].status == "told"


def test_a_trial_of_another_optimiser_is_refused() -> None:
    opt, other = make("eic", PLAIN), make("eic", PLAIN, seed=8)
    opt.ask()
    with pytest.raises(rl.UnknownTrialError):
        opt.tell(other.ask(), 1.0)


@pytest.mark.parametrize(
    "options",
    [
        {"budget": 0},
        {"budget": 2.5},
        {"budget": "9"},
        {"seed": -1},
        {"seed": 1.0},
        {"policy": "ucb?"},
        {"policy": 7},
        {"direction": "up"},
        {"design": "spiral"},
        {"n0": 0},
        {"space": {"x": rl.Float(0, 1)}},
    ],
)
def test_settings_that_can_t_be_right(options: dict[str, Any]) -> None:
    settings: dict[str, Any] = {"space": PLAIN, "budget": 10} | options
    with pytest.raises(rl.RegretlessError) as caught:
        rl.Optimizer(settings.pop("space"), settings.pop("budget"), **settings)
    (name, value), *_ = options.items()
    assert name in str(caught.value)
    assert repr(value) in str(caught.value)


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"events": []}', '{"version": 9, "events": []}'])
def test_json_of_something_else(text: str) -> None:
    with pytest.raises(rl.StorageError):
        rl.Optimizer.from_json(text)


def test_extending_below_what_was_asked() -> None:
    opt = make("eic", PLAIN)
    run(opt, 5)
    with pytest.raises(rl.ConfigError, match="4"):
        opt.extend(4)
    opt.extend(30)
    assert rl.Optimizer.from_json(opt.to_json()).budget == 30


# --- what it says ---------------------------------------------------------------------------------


def test_best_is_a_posterior_mean_at_a_visited_point_not_the_luckiest() -> None:
    opt = rl.Optimizer(LINE, 40, design=[{"x": 0.2}, {"x": 0.8}])
    rng = np.random.default_rng(0)
    for _ in range(15):
        opt.observe({"x": 0.8}, 1.0 + 0.1 * rng.standard_normal())
    opt.observe({"x": 0.2}, 1.3)  # lucky once
    for _ in range(4):
        opt.observe({"x": 0.2}, 0.5 + 0.1 * rng.standard_normal())
    opt.ask(3)  # the third one fits the model
    best = opt.best()
    assert best.params == {"x": 0.8}
    assert best.luckiest == 1.3
    assert best.count >= 15
    assert best.low < 1.0 < best.high
    assert abs(best.sample_mean - 1.0) < 0.1


def test_decisions_explain_themselves() -> None:
    opt = make("eic", PLAIN, 60)
    run(opt, 60)
    seen = {}
    for trial in opt.trials:
        decision, text = trial.decision, str(trial.decision)
        seen[decision.reason] = text
        assert rl.Decision.from_json(json.loads(json.dumps(decision.to_json()))) == decision
        if decision.reason == "design":
            continue
        assert str(decision.remaining) in text
        assert decision.evaluation_cost == pytest.approx(
            decision.expected_loss / decision.remaining
        )
        # alpha - L m = mu - xi (paper.md 4.3), and what is chosen passes the gate
        assert decision.expected_improvement - decision.expected_loss == pytest.approx(
            decision.mean - decision.incumbent, abs=1e-9
        )
        assert decision.z >= decision.gate - 1e-6
        assert decision.expected_improvement >= decision.evaluation_cost * (1 - 1e-6)
    assert {"design", "explore", "resample"} <= set(seen)
    assert seen["explore"].startswith("explored: expected gain ")
    assert "tried" in seen["resample"]
    last = opt.trials[-1].decision
    assert last.gate == 0
    assert last.mean >= last.incumbent - 1e-9


def test_history_is_rows_for_a_data_frame() -> None:
    opt = make("eic", MIXED)
    opt.observe({"rate": 1.0, "size": 3, "kind": "b", "grade": 5}, -1.0)
    run(opt, 6)
    opt.abandon(opt.ask())
    opt.ask()
    rows = [row.flat() for row in opt.history()]
    assert [row["status"] for row in rows] == ["observed", *["told"] * 6, "abandoned", "pending"]
    assert rows[1]["params_kind"] in "abc"
    assert {"reason", "mean", "sd", "evaluation_cost"} <= set(rows[-1])
    json.dumps(rows, allow_nan=False)


def test_a_start_looks_at_each_choice_first_unless_sobol_points_are_asked_for() -> None:
    space = rl.Space(
        {"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0), "c": rl.Categorical(["a", "b", "c"])}
    )
    firsts = {}
    for design in ("auto", "sobol"):
        opt = rl.Optimizer(space, 40, seed=1, design=design)
        firsts[design] = [opt.ask().params for _ in range(3)]
    assert {(p["x"], p["y"]) for p in firsts["auto"]} == {(0.5, 0.5)}
    assert {p["c"] for p in firsts["auto"]} == {"a", "b", "c"}
    assert len({p["x"] for p in firsts["sobol"]}) == 3


def test_prior_data_cost_no_budget_and_count_towards_the_start() -> None:
    opt = rl.Optimizer(PLAIN, 20, n0=4)
    for x in (0.0, 0.5, 1.0, 1.5):
        opt.observe({"x": x, "y": 1.0}, truth({"x": x, "y": 1.0}))
    assert (opt.remaining, opt.asked) == (20, 0)
    assert opt.ask().decision.reason != "design"


def test_points_that_the_user_lists_come_first() -> None:
    listed = [{"x": 0.0, "y": 1.0}, {"x": 1.0, "y": 2.0}]
    opt = rl.Optimizer(PLAIN, 20, design=listed)
    opt.observe({"x": 0.1, "y": 0.1}, 1.0)
    assert [trial.params for trial in opt.ask(2)] == listed


def test_a_standard_error_counts_for_what_it_says() -> None:
    exact, vague = (rl.Optimizer(LINE, 9, design=[{"x": 0.5}]) for _ in range(2))
    for opt, sem in ((exact, 0.001), (vague, 1.0)):
        for x, y in ((0.1, 0.0), (0.3, 0.4), (0.9, -0.2)):
            opt.observe({"x": x}, y, sem=0.01)
        opt.observe({"x": 0.5}, 3.0, sem=sem)
        run(opt, 2)
    assert exact.predict({"x": 0.5})[0] > vague.predict({"x": 0.5})[0]
    assert exact.predict({"x": 0.5})[1] < vague.predict({"x": 0.5})[1]


@pytest.mark.parametrize("verb", ["observe", "tell"])
def test_a_standard_error_is_an_sd_and_not_a_variance(verb: str) -> None:
    """One result with a known error: the posterior has a closed form."""
    opt = rl.Optimizer(LINE, 9, model=rl.Model.fixed(SE((0.3,)), lam2=7.0, omega2=4.0))
    if verb == "observe":
        opt.observe({"x": 0.5}, 3.0, sem=0.5)
    else:
        opt.tell(opt.adopt({"x": 0.5}), 3.0, sem=0.5)
    mean, sd = opt.predict({"x": 0.5})
    assert mean == pytest.approx(3.0 * 4.0 / (4.0 + 0.25))
    assert sd == pytest.approx(np.sqrt(4.0 * 0.25 / (4.0 + 0.25)))


def test_thousands_of_replicates_stay_cheap_and_flat() -> None:
    opt = rl.Optimizer(LINE, 5000, design=[{"x": 0.25}, {"x": 0.5}, {"x": 0.75}])
    rng = np.random.default_rng(1)
    for k in range(3000):
        opt.observe({"x": (0.25, 0.5, 0.75)[k % 3]}, k % 3 + 0.1 * rng.standard_normal())
    run(opt, 4)
    assert opt.best().params["x"] != 0.25
    assert opt.observations == 3004


@pytest.mark.parametrize(
    ("settings", "says"),
    [
        ({"design": None}, "design: need .* got None"),
        ({"design": 5}, "design: need .* got 5"),
        ({"design": [1]}, "design: .* got 1"),
        ({"design": {"x": 1}}, "design: need .* got"),
        ({"design": "grid", "n0": 10**13}, "n0: need at most 1000000, got 10000000000000"),
        ({"design": "spiral"}, "design: need .* got 'spiral'"),
        ({"model": "paper"}, "model: need a Model, got 'paper'"),
        ({"model": rl.Model.fixed(SE((0.1, 0.2)), 0.1)}, "2"),  # of one column
    ],
)
def test_settings_that_would_fail_later_fail_at_once(settings: dict[str, Any], says: str) -> None:
    with pytest.raises((rl.ConfigError, rl.SpaceError), match=says):
        rl.Optimizer(LINE, 10, **settings)


def test_settings_of_numpy_types_are_written_like_others() -> None:
    space = rl.Space({"n": rl.Int(1, 9), "x": rl.Float(0.0, 1.0)})
    listed: Any = [{"n": np.int64(3), "x": np.float32(0.5)}]
    policy = rl.EIC(payback=np.float32(0.5))  # type: ignore[arg-type]
    opt = rl.Optimizer(space, 10, design=listed, policy=policy)
    assert rl.Optimizer.from_json(opt.to_json()).ask().params == {"n": 3, "x": 0.5}


def test_a_budget_beyond_measure_has_a_start_within() -> None:
    assert rl.Optimizer(LINE, 10**18).ask().decision.reason == "design"
    assert rl.Optimizer(MIXED, 10**18, design="sobol").ask().decision.reason == "design"


def test_a_trial_that_its_owner_changed_is_still_known() -> None:
    opt = rl.Optimizer(PLAIN, 10)
    trial = opt.ask()
    given = dict(trial.params)
    trial.params.pop("x")
    trial.params["y"] = 77
    opt.tell(trial, 1.0)
    assert opt.history()[0].params == given
    assert opt.trials[0].params == given
    opt.observe(given, 2.0)
    opt.history()[0].params.clear()
    assert [row.params for row in opt.history()] == [given, given]
    stranger = rl.Optimizer(PLAIN, 10, seed=9).ask()
    with pytest.raises(rl.UnknownTrialError, match="another optimiser"):
        opt.tell(stranger, 1.0)


def test_a_result_that_differs_in_its_error_alone_says_so() -> None:
    opt = rl.Optimizer(LINE, 10)
    opt.tell(opt.ask(), 1.0, sem=0.1)
    says = r"was told 1\.0 \(sem 0\.1\), now 1\.0 \(sem 0\.2\) \(a mean of 5\)"
    with pytest.raises(rl.TrialError, match=says):
        opt.tell(0, 1.0, sem=0.2, count=5)


@pytest.mark.parametrize("events", [5, [1], {"a": 1}])
def test_events_that_are_none(events: object) -> None:
    text = json.dumps(json.loads(rl.Optimizer(LINE, 10).to_json()) | {"events": events})
    with pytest.raises(rl.StorageError, match="not the JSON of an Optimizer"):
        rl.Optimizer.from_json(text)


def test_a_landscape_of_no_points() -> None:
    opt = rl.Optimizer(LINE, 10)
    opt.tell(opt.ask(), 1.0)
    assert opt.landscape([]).mean.shape == (0,)


def test_weights_and_errors_at_the_edge_of_what_is_allowed() -> None:
    opt = rl.Optimizer(LINE, 20)
    for count in (0.0, -1.0):
        with pytest.raises(rl.DataError, match="count: need a positive number"):
            opt.observe({"x": 0.5}, 1.0, count=count)
    for sem in (1e100, 1e-100, 1.0):  # at one point, however they come
        opt.observe({"x": 0.5}, 1.0, sem=sem)
    for count in (1e-320, 1e100, 1.0):
        opt.observe({"x": 0.7}, 2.0, count=count)
    opt.observe({"x": 0.8}, 2.0, count=1e-320)
    best = opt.best()
    assert np.isfinite([best.mean, best.low, best.high]).all()
    assert np.isfinite(opt.predict({"x": 0.1})).all()
    opt.ask()


@pytest.mark.parametrize("design", ["sobol", "grid", "auto", "lhs"])
def test_the_start_asks_for_what_is_not_known(design: str) -> None:
    space = rl.Space({"n": rl.Int(1, 4), "m": rl.Int(1, 2)})
    fresh = rl.Optimizer(space, 40, n0=8, design=design)
    usual = [trial.params for trial in fresh.ask(8)]
    opt = rl.Optimizer(space, 40, n0=8, design=design)
    for params in (usual[0], usual[3], usual[4]):
        opt.observe(params, 1.0)
    asked = [opt.ask() for _ in range(5)]
    assert [trial.decision.reason for trial in asked] == ["design"] * 5
    assert [trial.params for trial in asked] == [usual[i] for i in (1, 2, 5, 6, 7)]
    opt.observe(usual[1], 1.0)  # known after it was asked for
    assert opt.ask().decision.reason != "design"


def test_a_start_goes_on_where_it_was_when_prior_data_come_late() -> None:
    opt = rl.Optimizer(LINE, 40, n0=5, design="sobol")
    usual = [t.params for t in rl.Optimizer(LINE, 40, n0=5, design="sobol").ask(5)]
    assert [opt.ask().params, opt.ask().params] == usual[:2]
    opt.observe(usual[0], 1.0)
    opt.observe(usual[2], 1.0)
    assert opt.ask().params == usual[3]
    assert opt.ask().decision.reason != "design"


@pytest.mark.parametrize("budget", [10**100 + 1, 10**400, 10**5000], ids=["1", "2", "3"])
def test_budgets_beyond_all_numbers(budget: int) -> None:
    with pytest.raises(rl.ConfigError, match="budget: need at most"):
        rl.Optimizer(LINE, budget)
    with pytest.raises(rl.ConfigError, match="budget: need at least 1, got"):
        rl.Optimizer(LINE, -budget)
    with pytest.raises(rl.ConfigError, match="seed: need at most"):
        rl.Optimizer(LINE, 10, seed=budget)
    with pytest.raises(rl.ConfigError, match="n0: need at most"):
        rl.Optimizer(LINE, 10, n0=budget)
    opt = rl.Optimizer(LINE, 10**100)
    with pytest.raises(rl.ConfigError, match="budget: need at most"):
        opt.extend(budget)
    opt.tell(opt.ask(), 1.0)
    opt.ask()


def test_one_result_of_another_world() -> None:
    opt = rl.Optimizer(PLAIN, 12)
    for value in (1e-60, 2e-60, 3e-60, 1.5e-60, 2e-60, 1e95):
        opt.tell(opt.ask(), value)
    assert opt.ask().decision.refitted
    assert np.isfinite(opt.best().mean)


@pytest.mark.parametrize(("sem", "scale"), [(1e-90, 1e80), (1e100, 1e-90), (1e-90, 1.0)])
def test_standard_errors_of_another_world(sem: float, scale: float) -> None:
    opt = rl.Optimizer(LINE, 12)
    for i in range(4):
        opt.tell(opt.ask(), scale * np.sin(2.0 * i))
    for value in (0.3, 0.4, 0.5):
        trial = opt.ask()
        opt.tell(trial, value * scale, sem=sem)
        opt.observe(trial.params, value * scale, sem=sem)
    assert np.isfinite(opt.predict({"x": 0.3})).all()


def test_a_decision_that_could_not_be_saved_is_not_adopted() -> None:
    opt = rl.Optimizer(LINE, 12)
    wrong = rl.Decision("given", "me", 3, mean=float("nan"))
    with pytest.raises(rl.ConfigError, match="decision: mean can't be stored, got nan"):
        opt.adopt({"x": 0.1}, wrong)
    for mean, kind in ((np.zeros(2), "ndarray"), ("x", "str"), (10**5000, "int")):
        with pytest.raises(rl.ConfigError, match=f"mean can't be stored, got {kind}"):
            opt.adopt({"x": 0.1}, rl.Decision("given", "me", 3, mean=mean))  # type: ignore[arg-type]
    with pytest.raises(rl.ConfigError, match=r"decision: need a Decision, got \{"):
        opt.adopt({"x": 0.1}, {"reason": "given"})  # type: ignore[arg-type]
    with pytest.raises(rl.ConfigError, match=r"decision: need one of .*, got 'mine'"):
        opt.adopt({"x": 0.1}, rl.Decision("mine", "me", 3))
    opt.adopt({"x": 0.1}, rl.Decision("given", "me", 3, mean=np.float32(0.5)))  # type: ignore[arg-type]
    assert rl.Optimizer.from_json(opt.to_json()).trials == opt.trials


def test_the_sample_mean_weighs_by_counts_and_standard_errors() -> None:
    opt = rl.Optimizer(LINE, 12)
    for x in (0.1, 0.3, 0.7, 0.9):
        opt.tell(opt.adopt({"x": x}), x)
    opt.observe({"x": 0.5}, 10.0, count=1000)
    opt.observe({"x": 0.5}, 0.0, sem=10.0)
    assert opt.best().params == {"x": 0.5}
    assert abs(opt.best().sample_mean - 10.0) < 0.01


def test_a_kernel_of_columns_that_are_not_there() -> None:
    model = rl.Model(kernel=SE((0.5,), columns=(7,)))
    with pytest.raises(rl.ConfigError, match=r"model: SE.* more columns than the space has \(2\)"):
        rl.Optimizer(PLAIN, 10, model=model)


def test_json_that_never_ends() -> None:
    with pytest.raises(rl.StorageError, match="not the JSON of an Optimizer"):
        rl.Optimizer.from_json("[" * 100_000)


# --- what is read before anything was asked for ---------------------------------------------------


@pytest.mark.parametrize("space", [LINE, rl.Space({"x": rl.Int(3, 3)})], ids=["line", "one point"])
@pytest.mark.parametrize("defaults", [2, 3])
def test_replicates_of_one_point_tell_how_sure_one_may_be(space: rl.Space, defaults: int) -> None:
    x = 0.5 if space is LINE else 3
    results = 100 + 10 * np.random.default_rng(0).standard_normal(30)
    opt = rl.Optimizer(space, 40, defaults=defaults)
    for result in results:
        opt.observe({"x": x}, float(result))
    half = 1.96 * float(results.std(ddof=1)) / np.sqrt(30)
    best = opt.best()
    assert best.mean == pytest.approx(results.mean())
    assert best.high - best.mean == pytest.approx(half, rel=0.1)


@pytest.mark.parametrize(("defaults", "off"), [(2, 3.0), (3, 5.0)])
def test_prior_data_are_fitted_for_whoever_looks_and_the_next_ask_is_the_same(
    defaults: int, off: float
) -> None:
    """A line of slope 100: the model before any fit would expect nothing of the kind."""
    opt = rl.Optimizer(LINE, 20, defaults=defaults)
    for x in np.linspace(0.0, 0.6, 7):
        opt.observe({"x": float(x)}, 100.0 * float(x))
    unseen = rl.Optimizer.from_json(opt.to_json())
    mean, sd = opt.predict({"x": 0.65})
    assert mean == pytest.approx(65.0, abs=off)
    assert sd < 10.0
    assert unseen.propose() == opt.propose()


@pytest.mark.parametrize("defaults", [2, 3])
def test_many_looks_before_the_first_fit_make_it_once(
    defaults: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    fits = []
    name = "draw_ensemble" if defaults == 3 else "fit"
    real = getattr(surrogate, name)
    monkeypatch.setattr(surrogate, name, lambda *a, **k: fits.append(a) or real(*a, **k))
    opt = rl.Optimizer(LINE, 20, defaults=defaults)
    for x in (0.1, 0.5, 0.9):
        opt.observe({"x": x}, x)
    for x in (0.2, 0.3, 0.4):
        opt.predict({"x": x})
        opt.best()
    assert len(fits) == 1
    opt.observe({"x": 0.6}, 0.1)
    opt.best()
    assert len(fits) == 2
    for x in (0.3, 0.7, 0.8):
        opt.observe({"x": x}, x)
    opt.best()
    assert opt.ask().decision.refitted
    assert len(fits) == 3  # what was fitted for a look serves the decision


@pytest.mark.parametrize("design", ["auto", "grid", "sobol", "lhs"])
@pytest.mark.parametrize("dim", [1, 2, 4])
def test_what_is_frozen_asks_for_no_points_of_its_own(design: str, dim: int) -> None:
    names = [f"x{i}" for i in range(dim)]
    free = {name: rl.Float(0.0, 1.0) for name in names}

    def begin(parameters: dict[str, Any]) -> tuple[int, float | None]:
        """How long the start is, and the horizon of the second decision after it."""
        opt = rl.Optimizer(rl.Space(parameters), 60, design=design)
        for trial in opt:
            opt.tell(trial, -sum(float(trial.params[name]) ** 2 for name in names))  # type: ignore[arg-type]
            starts = sum(each.decision.reason == "design" for each in opt.trials)
            if opt.asked >= starts + 2:
                return starts, trial.decision.horizon
        raise AssertionError("nothing but a start")

    plain = begin(free)
    for frozen in (rl.Categorical(["a"]), rl.Int(3, 3), rl.Ordinal([7])):
        assert begin(free | {"frozen": frozen}) == plain


@pytest.mark.parametrize("kind", [Fraction, np.float32])
def test_a_setting_of_another_kind_of_number_is_python_s_own(kind: Any) -> None:
    """What is written must be what was counted with, to the last bit."""
    policy = rl.IDS(payback=kind(1) / 3)
    model = rl.Model(lam2=kind(1) / 3, length_prior=(kind(-1) / 3, 1))
    opt = rl.Optimizer(LINE, 9, policy=policy, model=model)
    run(opt, 6)
    again = rl.Optimizer.from_json(opt.to_json())
    assert (again.policy, again.model) == (policy, model)
    assert again.propose() == opt.propose()
    assert rl.EIC(omega_scale=1, gamma=(kind(1) / 3,)).gamma == (float(kind(1) / 3),)


# -- threads and long runs -------------------------------------------------------------------------

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})


def test_threads_that_share_an_optimizer_lose_nothing() -> None:
    opt, mistakes = rl.Optimizer(SPACE, 200, policy="random", seed=1), []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        try:
            for _ in range(50):
                trial = opt.ask()
                opt.tell(trial, float(trial.number))
                opt.observe(SPACE.decode(rng.random(SPACE.dim)), float(seed))
                opt.history(), opt.pending
        except Exception as error:  # noqa: BLE001
            mistakes.append(error)

    pause = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        workers = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    finally:
        sys.setswitchinterval(pause)
    assert mistakes == []
    assert (opt.asked, opt.observations, len(opt.pending)) == (200, 400, 0)
    told = [row for row in opt.history() if row.number is not None]
    assert all(row.value == row.number for row in told)


def test_a_verb_lets_nobody_in_between_its_look_and_its_event(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    alone = []
    apply = rl.Optimizer.apply

    def noted(self: rl.Optimizer, event: Event) -> None:
        alone.append((write(event).kind, self._lock._is_owned()))  # type: ignore[attr-defined]
        apply(self, event)

    opt = rl.Optimizer(SPACE, 9)
    monkeypatch.setattr(rl.Optimizer, "apply", noted)
    params = {"x": 0.5, "kind": "a"}
    opt.ask()
    opt.tell(0, 1.0)
    opt.observe(params, 2.0)
    opt.adopt(params)
    opt.abandon(1)
    opt.extend(10)
    kinds = ["asked", "told", "observed", "asked", "abandoned", "extended"]
    assert alone == [(kind, True) for kind in kinds]
    assert not opt._lock._is_owned()  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda o: pickle.loads(pickle.dumps(o))]
)
def test_a_copy_has_a_lock_of_its_own(copied: Any) -> None:
    opt = rl.Optimizer(SPACE, 9)
    opt.tell(opt.ask(), 1.0)
    with opt._lock:
        worker = threading.Thread(target=copied(opt).best)
        worker.start()
        worker.join(30)
        assert not worker.is_alive()


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 512, 513])
def test_a_history_is_as_a_tuple_would_be(count: int) -> None:
    history, plain = surrogate.History(), ()
    for number in range(count):
        told = surrogate.Observation(np.zeros(1), float(number), 1.0, None)
        history, plain = history.plus(told), (*plain, told)
    assert (len(history), tuple(history), bool(history)) == (count, plain, bool(plain))
    for start in {0, 1, count // 2, 255, 256, 257, count - 1, count}:
        if 0 <= start <= count:
            assert tuple(history.since(start)) == plain[start:]
    branch = [history.plus(surrogate.Observation(np.zeros(1), y, 1.0, None)) for y in (-1.0, -2.0)]
    assert [tuple(each)[-1].y for each in branch] == [-1.0, -2.0]


@pytest.mark.parametrize("policy", ["eic", "ids"])
def test_a_budget_that_no_machine_integer_holds(policy: str) -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 10**20, policy=policy, n0=4)
    rng = np.random.default_rng(0)
    for _ in range(15):
        trial = opt.ask()
        opt.tell(trial, -((trial.params["x"] - 0.3) ** 2) + 0.1 * rng.standard_normal())
    assert opt.remaining == 10**20 - 15


def test_tiny_results_with_tiny_errors() -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 9)
    opt.observe({"x": 0.5}, 1e-80, sem=1e-90)
    assert opt.best().sample_mean == pytest.approx(1e-80)


def test_a_blind_start_does_not_go_on_near_the_end() -> None:
    """After 43 of these evaluations the noise looks as large as the function once more."""
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(8)})
    rng = np.random.default_rng(12)
    centre = rng.random(8)
    opt = rl.Optimizer(space, 44, seed=12, defaults=1)
    for trial in opt:
        x = np.array(list(trial.params.values()))
        opt.tell(trial, -((x - centre) ** 2).sum() / 8 * 3 + 0.2 * rng.standard_normal())
    late = [t.number for t in opt.trials[12:] if t.decision.reason == "design"]
    assert late == []
    assert sum(t.decision.reason == "design" for t in opt.trials) >= 10  # d + 2


@pytest.mark.parametrize("dim", [3, 5, 9])
def test_a_start_that_sees_something_has_two_points_more_than_dimensions(dim: int) -> None:
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
    opt = rl.Optimizer(space, 100, defaults=1)
    for _ in range(dim + 4):
        trial = opt.ask()
        opt.tell(trial, sum(float(value) for value in trial.params.values()))  # type: ignore[arg-type]
    reasons = [trial.decision.reason for trial in opt.trials]
    assert reasons[: dim + 2] == ["design"] * (dim + 2)
    assert "design" not in reasons[dim + 2 :]


@pytest.mark.parametrize(
    ("lam2", "remaining", "goes_on"),
    [(0.249, 94, False), (0.25, 94, True), (1.0, 94, True), (1.0, 8, True), (1.0, 7, False)],
)
def test_a_start_goes_on_from_a_noise_of_a_quarter_on(
    lam2: float, remaining: int, goes_on: bool
) -> None:
    """Three numbers start with five points, or eight while a model sees nothing but noise."""
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(3)})
    opt = rl.Optimizer(space, 100, defaults=1)
    run(opt, 5)
    first = opt.propose()
    assert first.fit is not None
    opt.apply(replace(first, fit=first.fit | {"lam2": lam2}))
    assert opt.remaining == 94
    for _ in range(94 - remaining):
        opt.adopt({"x0": 0.5, "x1": 0.5, "x2": 0.5})
    assert (opt.propose().decision.reason == "design") is goes_on


def test_a_fit_that_failed_is_not_taken_for_noise() -> None:
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(3)})
    opt = rl.Optimizer(space, 100, defaults=1)
    run(opt, 5)
    first = opt.propose()
    assert first.fit is not None
    opt.apply(replace(first, fit=first.fit | {"lam2": 1.0, "ok": False}))
    assert opt.propose().decision.reason != "design"


# --- when results are surprising ------------------------------------------------------------------


def test_a_surprise_is_measured_by_what_was_expected_noise_included() -> None:
    """Each result in its own way: one look, a mean of many, and one with a standard error."""
    belief = surrogate.Belief.empty(rl.Model(kernel="se"), (rl.Float(0.0, 1.0),), NEWEST)
    rng = np.random.default_rng(4)
    for x in np.linspace(0.0, 1.0, 9):
        y = 40.0 * np.sin(5.0 * x) + 5.0 * rng.standard_normal()
        belief = belief.learn(surrogate.Observation(np.array([x]), float(y), 1.0, None))
    belief = belief.refit_if_due()
    gp, fitted = belief.posterior, belief.fitted
    assert gp is not None
    assert fitted is not None
    assert belief.surprise == 0.0
    scale = fitted.scaling.scale
    noise = gp.noise_sd**2
    told = [
        (surrogate.Observation(np.array([0.31]), 60.0, 1.0, None), noise),
        (surrogate.Observation(np.array([0.77]), -10.0, 16.0, None), noise / 16.0),
        (surrogate.Observation(np.array([0.52]), 30.0, 1.0, 49.0), 49.0 / scale**2),
    ]
    for each, own in told:
        seen = belief.learn(each).current()
        mu, sigma = gp.predict(each.x[None, :])
        gap = (each.y - fitted.scaling.shift) / scale - float(mu[0])
        wanted = gap**2 / ((gp.omega * float(sigma[0])) ** 2 + own)
        assert seen.surprise == pytest.approx(wanted)
        assert wanted > 1e-3
    one, other = (told[i][0] for i in (0, 1))
    both = belief.learn(one).learn(other).current()
    apart = belief.learn(one).current().learn(other).current()
    assert both.surprise == apart.surprise > belief.learn(one).current().surprise
    assert both._refitted().surprise == 0.0  # a new fit knows them all


def test_a_copy_shares_nothing_that_changes() -> None:
    for make in (rl.Optimizer.copy, copy.copy, copy.deepcopy):
        opt = rl.Optimizer(LINE, 9)
        trial = opt.ask()
        twin = make(opt)
        twin.tell(trial.number, 1.0)
        assert [row.status for row in opt.history()] == ["pending"]
        assert (opt.observations, len(opt.events), twin.observations) == (0, 1, 1)
        assert twin._lock is not opt._lock
