"""Limits among parameters and spaces that change, together with the settings that do no harm."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.forecast import forecast
from regretless.ledger import Ledger

SHARES = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)}, where=["a + b <= 1"])
PLANE = rl.Space(
    {"x": rl.Float(0.1, 0.9), "y": rl.Float(0.0, 1.0), "c": rl.Categorical(["p", "q"])}
)
TODAY: dict[str, Any] = {"x": 0.3, "y": 0.1, "c": "p"}


def f(params: dict[str, Any]) -> float:
    return -((params["x"] - 0.6) ** 2) - (params.get("y", 0.1) - 0.3) ** 2


def told(optimizer: Any, steps: int) -> list[rl.Trial]:
    trials = []
    for _ in range(steps):
        trial = optimizer.ask()
        if trial.proposed:
            optimizer.approve(trial)
        optimizer.tell(trial, f(trial.params), metrics={"ms": 100.0 * trial.params["x"]})
        trials.append(trial)
    return trials


def guarded(**settings: Any) -> rl.Optimizer:
    return rl.Optimizer(
        PLANE, 40, baseline=TODAY, loss_budget=2.0, guardrails=[rl.AtMost("ms", 95.0)], **settings
    )


def same_next(optimizer: rl.Optimizer) -> rl.Trial:
    """The next trial, which is the same after a replay."""
    again = rl.Optimizer.from_json(optimizer.to_json())
    trial = optimizer.ask()
    assert again.ask() == trial
    return trial


# --- limits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("where", ["a + b <= 1", lambda p: p["a"] + p["b"] <= 1])
def test_a_baseline_on_the_edge_of_a_limit(where: Any) -> None:
    """A suggestion keeps a distance from the edge, but what runs today may be on it."""
    space = rl.Space(SHARES.parameters, where=[where])
    today = {"a": 0.7, "b": 0.3}
    optimizer = rl.Optimizer(space, 20, baseline=today, loss_budget=1e-6)
    for _ in range(6):  # so small a budget allows nothing but the baseline
        trial = optimizer.ask()
        assert trial.params == today
        assert trial.decision.caution is None
        optimizer.tell(trial, 1.0)
    assert optimizer.best().params == today


def test_a_baseline_outside_the_limits_is_refused() -> None:
    with pytest.raises(rl.SpaceError, match="outside the limit 'a \\+ b <= 1'"):
        rl.Optimizer(SHARES, 20, baseline={"a": 0.7, "b": 0.4})
    optimizer = rl.Optimizer(SHARES, 20)
    with pytest.raises(rl.SpaceError, match="outside the limit"):
        optimizer.set_baseline({"a": 0.7, "b": 0.4})


def test_all_settings_keep_the_limits() -> None:
    """The best point by itself is a = b = 1."""
    optimizer = rl.Optimizer(
        SHARES,
        30,
        baseline={"a": 0.1, "b": 0.1},
        loss_budget=1.0,
        guardrails=[rl.AtMost("ms", 90.0)],
        max_step={"a": 0.3, "b": {"by": 0.2}},
        change_cost=0.001,
        sparse_changes=True,
    )
    before = {"a": 0.1, "b": 0.1}
    for _ in range(14):
        params: Any = optimizer.ask().params
        SHARES.validate(params)
        assert abs(params["a"] - before["a"]) <= 0.3 + 1e-9
        assert abs(params["b"] - before["b"]) <= 0.2 + 1e-9
        before = params
        optimizer.tell(
            optimizer.pending[0], params["a"] + params["b"], metrics={"ms": 100 * params["a"]}
        )
    assert sum(before.values()) > 0.6


def test_steps_of_the_start_keep_the_limits() -> None:
    """The largest steps towards the points of a list would lead outside."""
    space = rl.Space(SHARES.parameters, where=["a + b <= 1", "a - b <= 0.4"])
    points = [{"a": 0.0, "b": 1.0}, {"a": 0.7, "b": 0.3}]
    optimizer = rl.Optimizer(
        space, 20, design=points, baseline={"a": 0.5, "b": 0.5}, max_step={"a": 0.05, "b": 0.5}
    )
    for _ in range(6):
        space.validate(optimizer.ask().params)


# --- spaces that change ---------------------------------------------------------------------------


def test_everything_is_carried_over() -> None:
    optimizer = guarded(mode="recommend")
    optimizer.observe({"x": 0.2, "y": 0.5, "c": "q"}, -0.2, metrics={"ms": 20.0})
    told(optimizer, 7)
    optimizer.reject(optimizer.ask(), "no")
    rejected = optimizer.trials[-1].params
    waiting = optimizer.ask()
    before, loss = optimizer._records, Ledger.of(optimizer).loss()
    assert loss is not None
    weights, risk = before.total_loss()[1], before.risk
    optimizer.change_space(add={"z": (rl.Int(1, 9), 5)}, widen={"x": rl.Float(-1.0, 2.0)})
    records = optimizer._records
    assert optimizer.baseline == {**TODAY, "z": 5}
    assert records.baseline is not None
    assert (records.baseline.x == optimizer.space.encode(optimizer.baseline)).all()
    assert not records.baseline_is_new
    np.testing.assert_array_equal(records.total_loss()[1], weights)
    assert records.risk == risk
    assert len(optimizer._guards.beliefs["ms"].told) == 8
    assert optimizer._guards.beliefs["ms"].levels
    after = Ledger.of(optimizer).loss()
    assert after is not None
    assert after.expected == pytest.approx(loss.expected, abs=0.05)
    assert optimizer._is_rejected(optimizer.space.encode({**rejected, "z": 5}))
    optimizer.approve(waiting)
    optimizer.tell(waiting, f(waiting.params), metrics={"ms": 30.0})
    told(optimizer, 2)
    same_next(optimizer)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"freeze": {"y": 0.4}}, "y would be 0.4, and the baseline has 0.1: set another baseline"),
        ({"drop": {"c": "q"}}, "c would be 'q', and the baseline has 'p': set another baseline"),
    ],
)
def test_a_baseline_that_would_be_outside_has_to_be_changed_first(
    change: dict[str, Any], message: str
) -> None:
    optimizer = guarded()
    told(optimizer, 5)
    text = optimizer.to_json()
    with pytest.raises(rl.SpaceError, match=message):
        optimizer.change_space(**change)
    assert optimizer.to_json() == text
    optimizer.set_baseline({"x": 0.3, "y": 0.4, "c": "q"})
    optimizer.change_space(**change)
    told(optimizer, 2)
    assert Ledger.of(optimizer).estimates() is not None  # old trials count against the old baseline
    assert all(f(trial.params) > -1.0 for trial in [same_next(optimizer)])
    optimizer.space.validate(optimizer.best().params)


def test_a_limit_that_an_added_value_breaks_at_the_baseline() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)}, where=[lambda p: p["x"] < p.get("z", 1.0)])
    optimizer = rl.Optimizer(space, 20, baseline={"x": 0.5})
    with pytest.raises(
        rl.SpaceError, match="change_space: the baseline: params: outside the limit"
    ):
        optimizer.change_space(add={"z": (rl.Float(0.0, 1.0), 0.4)})


def test_the_numbers_of_a_baseline_stay_exact() -> None:
    """Decoding and encoding may change a last digit, and the baseline would be a new point."""
    space = rl.Space({"x": rl.Float(0.001, 7.3, log=True)})
    wider = rl.Float(0.0003, 11.1, log=True)
    for x in np.geomspace(0.002, 7.0, 60).tolist():
        optimizer = rl.Optimizer(space, 20, baseline={"x": x})
        optimizer.tell(optimizer.ask(), 1.0)
        optimizer.change_space(widen={"x": wider})
        records = optimizer._records
        assert optimizer.baseline == {"x": x}
        assert records.baseline is not None
        assert (records.baseline.x == optimizer.space.encode({"x": x})).all()
        assert not records.baseline_is_new


def test_a_frozen_parameter_near_a_rejected_point() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 20, mode="recommend", design=[{"x": 0.5, "y": 0.5}])
    optimizer.reject(optimizer.ask(), "no")
    optimizer.change_space(freeze={"y": 0.52})
    near, far = {"x": 0.51, "y": 0.52}, {"x": 0.9, "y": 0.52}
    assert optimizer._is_rejected(optimizer.space.encode(near))
    assert not optimizer._is_rejected(optimizer.space.encode(far))
    optimizer.change_space(freeze={"y": 0.95})
    assert not optimizer._is_rejected(optimizer.space.encode({"x": 0.5, "y": 0.95}))


def test_results_are_retracted_after_a_change() -> None:
    def run(wrong: bool) -> rl.Optimizer:
        optimizer = guarded()
        if wrong:
            optimizer.observe({"x": 0.4, "y": 0.9, "c": "p"}, 50.0, metrics={"ms": 1.0})
        optimizer.observe({"x": 0.2, "y": 0.5, "c": "q"}, -0.2, metrics={"ms": 20.0})
        for point in (TODAY, {"x": 0.5, "y": 0.7, "c": "q"}):
            trial = optimizer.adopt(point)
            optimizer.tell(trial, f(point), metrics={"ms": 50.0}, control=(f(TODAY), 0.1))
        optimizer.change_space(add={"z": (rl.Int(1, 9), 5)}, widen={"x": rl.Float(0.0, 1.0)})
        if wrong:
            optimizer.retract_observation(0)
        return optimizer

    right, corrected = run(False), run(True)
    assert corrected._records.known == right._records.known
    for mine, theirs in ((corrected._belief, right._belief),):
        np.testing.assert_array_equal(mine.data.x, theirs.data.x)
        np.testing.assert_array_equal(mine.data.y, theirs.data.y)
        assert mine.controls == theirs.controls == 2
        of = [each.control.of for each in mine.told if each.control is not None]
        assert of == [tuple(right.space.encode({**TODAY, "z": 5}).tolist())] * 2
    guards = corrected._guards.beliefs["ms"], right._guards.beliefs["ms"]
    np.testing.assert_array_equal(guards[0].data.x, guards[1].data.x)
    same_next(corrected)


def test_steps_go_on_from_a_point_outside() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(
        space, 30, baseline={"x": 0.1, "y": 0.4}, max_step={"x": 0.1, "y": 0.1}, change_cost=0.01
    )
    for _ in range(5):
        trial = optimizer.ask()
        optimizer.tell(trial, f(trial.params))
    running = optimizer.adopt({"x": 0.3, "y": 0.9})
    optimizer.change_space(freeze={"y": 0.4})
    params: Any = same_next(optimizer).params
    assert params["y"] == 0.4
    assert abs(params["x"] - 0.3) <= 0.1 + 1e-9
    optimizer.tell(running, -0.5)


def test_structured_values_are_remembered() -> None:
    space = rl.Space({"order": rl.Permutation(["a", "b", "c", "d", "e"]), "x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 20)
    for _ in range(4):
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.params["x"]))  # type: ignore[arg-type]
    params = [trial.params for trial in optimizer.trials]
    optimizer.change_space(add={"z": (rl.Int(1, 9), 5)})
    points = [record.x for record in optimizer._records.trials]
    assert [optimizer.space.decode(x) for x in points] == [{**each, "z": 5} for each in params]
    with pytest.raises(rl.SpaceError, match="widen: order: can't widen"):
        optimizer.change_space(widen={"order": rl.Permutation(list("abcdef"))})
    optimizer.change_space(freeze={"order": ["e", "d", "c", "b", "a"]})
    assert same_next(optimizer).params["order"] == ["e", "d", "c", "b", "a"]
    with pytest.raises(rl.SpaceError, match="order is a structured parameter"):
        rl.Space({**space.parameters, "w": rl.Int(0, 1).when("order", list("abcde"))})


def test_a_structured_parameter_that_is_not_always_there() -> None:
    order = rl.Permutation(list("abcd")).when("c", "sorted")
    space = rl.Space({"c": rl.Categorical(["sorted", "not"]), "order": order})
    optimizer = rl.Optimizer(space, 20)
    for _ in range(8):
        trial = optimizer.ask()
        space.validate(trial.params)
        value: Any = trial.params.get("order")
        optimizer.tell(trial, 0.5 if value is None else float(value.index("a")))
    same_next(optimizer)


def test_a_study_opens_with_the_settings_that_it_was_created_with(tmp_path: Path) -> None:
    settings: Any = {"space": PLANE, "budget": 20, "baseline": TODAY}
    with rl.Study.open(tmp_path / "s.sqlite", "s", **settings) as study:
        study.change_space(add={"z": (rl.Int(1, 9), 5)}, drop={"c": "p"})
        assert study.baseline == {"x": 0.3, "y": 0.1, "z": 5}
    with rl.Study.open(tmp_path / "s.sqlite", "s", **settings) as again:
        assert again.ask().params == {"x": 0.3, "y": 0.1, "z": 5}
    with pytest.raises(rl.ConfigError, match="see set_baseline"):
        rl.Study.open(tmp_path / "s.sqlite", "s", **{**settings, "baseline": {**TODAY, "y": 0.2}})


def test_forecasts_and_earlier_states() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)}, where=[_sum_below])
    optimizer = rl.Optimizer(space, 8)
    for _ in range(4):
        trial = optimizer.ask()
        optimizer.tell(trial, f(trial.params))
    waiting = optimizer.ask()
    optimizer.change_space(freeze={"y": 0.4})
    ahead = forecast(optimizer, draws=2)
    assert ahead.reference == optimizer.trials[0].params
    assert optimizer.as_of(waiting).space == space


def _sum_below(params: dict[str, Any]) -> bool:
    return bool(params["x"] + params["y"] <= 1.4)
