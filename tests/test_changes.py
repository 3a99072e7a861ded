"""Spaces that change while a run goes on: `change_space`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.engine import Changed, read, write
from regretless.space import carried, changed

SPACE = rl.Space(
    {
        "x": rl.Float(0.0, 1.0),
        "y": rl.Float(0.0, 1.0),
        "c": rl.Categorical(["a", "b"]),
        "m": rl.Float(0.0, 1.0).when("c", "a"),
    },
    where=["x + y <= 1.5"],
)


def f(params: dict[str, Any]) -> float:
    x, y, z = params["x"], params.get("y", 0.4), params.get("z", 5)
    return -((x - 0.3) ** 2) - (y - 0.6) ** 2 - (z - 7) ** 2 / 50 + 0.1 * (params.get("c") == "b")


def run(asking: Any, steps: int) -> list[rl.Trial]:
    trials = []
    for _ in range(steps):
        trials.append(asking.ask())
        assert asking.space.validate(trials[-1].params) == trials[-1].params
        asking.tell(trials[-1], f(trials[-1].params))
    return trials


def begun(steps: int = 10, **settings: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(SPACE, 80, **settings)
    optimizer.observe({"x": 0.2, "y": 0.2, "c": "b"}, -1.0)
    run(optimizer, steps)
    return optimizer


def values(optimizer: rl.Optimizer) -> list[float | None]:
    return [row.value for row in optimizer.history()]


CHANGES: dict[str, dict[str, Any]] = {
    "add": {"add": {"z": (rl.Int(1, 9), 5)}},
    "add a conditional one": {"add": {"z": (rl.Int(1, 9).when("c", "b"), 5)}},
    "freeze": {"freeze": {"y": 0.4}},
    "freeze a conditional one": {"freeze": {"m": 0.25}},
    "freeze what decides": {"freeze": {"c": "a"}},
    "widen": {"widen": {"x": rl.Float(-1.0, 3.0), "c": rl.Categorical(["z", "a", "b"])}},
    "drop": {"drop": {"c": "b"}},
    "all at once": {
        "add": {"z": (rl.Int(1, 9), 5)},
        "freeze": {"y": 0.4},
        "widen": {"x": rl.Float(0.0, 2.0)},
        "drop": {"m": 0.5},
    },
}


def with_every_change(version: int) -> list[Any]:
    """One change of the newer version is quick enough for every day."""
    quick = CHANGES if version == 2 else ("all at once",)
    marks: dict[bool, Any] = {True: (), False: pytest.mark.slow}
    return [
        pytest.param(change, version, id=f"{version}-{name}", marks=marks[name in quick])
        for name, change in CHANGES.items()
    ]


@pytest.mark.parametrize(("change", "version"), with_every_change(2) + with_every_change(3))
def test_a_run_goes_on_and_replays(change: dict[str, Any], version: int) -> None:
    optimizer = begun(defaults=version)
    pending, told = optimizer.ask(), values(optimizer)
    optimizer.change_space(**change)
    assert values(optimizer) == told
    assert optimizer.observations == 11
    after = run(optimizer, 4)
    for name, value in (change.get("freeze") or {}).items():
        assert {trial.params.get(name, value) for trial in after} == {value}
    for name in change.get("drop") or {}:
        assert not any(name in trial.params for trial in after)
    optimizer.tell(pending, f(pending.params))
    best = optimizer.best()
    optimizer.space.validate(best.params)
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.best() == best
    assert again.ask() == optimizer.ask()
    assert again.space == optimizer.space


def test_results_keep_the_value_that_the_parameter_had() -> None:
    """The model knows f at the points that were tried, in the units of the new space."""
    optimizer = begun(12)
    tried = [trial.params for trial in optimizer.trials]
    before = [optimizer.predict(params)[0] for params in tried]
    optimizer.change_space(
        add={"z": (rl.Int(1, 9), 5)}, freeze={"y": 0.4}, widen={"x": rl.Float(-1.0, 1.5)}
    )
    situation = optimizer._situation()
    points = np.array([record.x for record in optimizer._records.trials])
    after, _ = situation.predict(points)
    np.testing.assert_allclose(after, before, atol=0.05)
    widths = points[:, 0] * 2.5 - 1.0
    np.testing.assert_allclose(widths, [params["x"] for params in tried], atol=1e-9)
    np.testing.assert_allclose(points[:, 1], [params["y"] for params in tried], atol=1e-9)
    np.testing.assert_array_equal(points[:, 4], 0.5)  # z = 5


def test_a_frozen_parameter_can_be_tuned_again() -> None:
    optimizer = begun()
    optimizer.change_space(freeze={"y": 0.4})
    run(optimizer, 3)
    optimizer.change_space(widen={"y": rl.Float(0.0, 1.0)})
    after = run(optimizer, 6)
    assert len({trial.params["y"] for trial in after}) > 1
    assert optimizer.space == SPACE


def test_what_is_learnt_before_a_freeze_counts_after_it() -> None:
    optimizer = begun(25)
    optimizer.change_space(freeze={"y": 0.6, "c": "b"})
    first = run(optimizer, 3)
    assert min(f(trial.params) for trial in first) > -0.1


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({}, "need something to add, freeze, widen or drop"),
        ({"freeze": {"q": 1}}, "freeze: there is no parameter 'q'; known: 'x', 'y', 'c', 'm'"),
        ({"freeze": {"x": 5}}, r"freeze: x: must be a number in \[0.0, 1.0\], got 5"),
        ({"freeze": 3}, "freeze: need a mapping by the names of parameters, got 3"),
        ({"freeze": {"x": 1.0, "y": 1.0}}, "no point of the space keeps 'x \\+ y <= 1.5'"),
        ({"freeze": {"x": 0.5}, "drop": {"x": 0.5}}, "drop: 'x' is changed twice"),
        ({"add": {"x": (rl.Float(0, 1), 0.5)}}, "add: there is a parameter 'x' already"),
        ({"add": {"w": rl.Float(0, 1)}}, "add: w: need a parameter and the value that it had"),
        ({"add": {"w": (rl.Float(0, 1), 3)}}, "add: w: must be a number .* got 3"),
        ({"add": {"w": (rl.Int(0, 1).when("v", 1), 0)}}, "w: when: there is no parameter 'v'"),
        ({"widen": {"x": rl.Float(0.5, 2.0)}}, "widen: x: .* does not hold 0.0"),
        ({"widen": {"x": rl.Int(0, 2)}}, "widen: x: need a Float, got Int"),
        ({"widen": {"c": rl.Categorical(["a", "z"])}}, "widen: c: .* does not hold 'b'"),
        ({"drop": {"c": "z"}}, "drop: c: must be one of"),
    ],
)
def test_a_wrong_change_is_named_and_changes_nothing(change: Any, message: str) -> None:
    optimizer = begun(6)
    text = optimizer.to_json()
    with pytest.raises(rl.SpaceError, match=message):
        optimizer.change_space(**change)
    assert optimizer.to_json() == text
    assert optimizer.space == SPACE


def test_a_kernel_of_ones_own_that_does_not_suit_is_refused_before() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 20, model=rl.Model(kernel=rl.SE((0.3,))))
    with pytest.raises(rl.ConfigError, match="lengthscales"):
        optimizer.change_space(add={"z": (rl.Int(1, 9), 5)})
    assert optimizer.space == space


def test_a_list_of_first_points_goes_on() -> None:
    points = [{"x": 0.1, "y": 0.1, "c": "b"}, {"x": 0.9, "y": 0.2, "c": "b"}]
    optimizer = rl.Optimizer(SPACE, 20, design=points)
    run(optimizer, 1)
    optimizer.change_space(add={"z": (rl.Int(1, 9), 5)}, freeze={"y": 0.3})
    assert optimizer.ask().params == {"x": 0.9, "y": 0.3, "c": "b", "z": 5}
    assert rl.Optimizer.from_json(optimizer.to_json()).ask() == optimizer.ask()


def test_the_event_is_stored_and_read() -> None:
    event = Changed([{"name": "x", "type": "float", "low": 0.0, "high": 1.0}], {"x": 0.5})
    kind, version, body = write(event)
    assert (kind, version) == ("changed", 1)
    assert read(kind, version, json.loads(json.dumps(body))) == event
    with pytest.raises(rl.StorageError, match="'changed', version 1: parameters: need a list"):
        read(kind, version, {"parameters": 3, "values": {}})


def test_points_of_another_space() -> None:
    new, given = changed(SPACE, add={"z": (rl.Int(1, 9), 5)}, widen={"x": rl.Float(0.0, 4.0)})
    x = SPACE.encode({"x": 0.5, "y": 0.25, "c": "a", "m": 0.75})[None]
    moved = carried(SPACE, new, given)(x)[0]
    assert new.decode(moved) == {"x": 0.5, "y": 0.25, "c": "a", "m": 0.75, "z": 5}


def test_a_study(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with rl.Study.open(path, "s", space=SPACE, budget=50) as study:
        run(study, 8)
        with rl.Study.open(path, "s") as other:
            for _ in range(2):  # with a key, it happens once
                other.change_space(add={"z": (rl.Int(1, 9), 5)}, key="more")
        assert "z" in study.space.names
        run(study, 3)
        assert [event.kind for event in study.events()].count("changed") == 1
        following = study.ask()
        with pytest.raises(rl.SpaceError, match="add: there is a parameter 'z' already"):
            study.change_space(add={"z": (rl.Int(1, 9), 5)})
    for space in (SPACE, rl.Space({**SPACE.parameters, "z": rl.Int(1, 9)}, SPACE.where)):
        with rl.Study.open(path, "s", space=space) as again:
            assert again.pending == [following]


def test_a_proposal_from_before_a_change_is_thrown_away(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    with rl.Study.open(path, "s", space=SPACE, budget=50) as study:
        run(study, 3)
        with rl.Study.open(path, "s") as other:
            propose = rl.Optimizer.propose
            first = []

            def late(self: rl.Optimizer, context: Any = None) -> Any:
                event = propose(self)
                if not first:
                    first.append(event)
                    other.change_space(freeze={"y": 0.4})
                return event

            with pytest.MonkeyPatch.context() as patch:
                patch.setattr(rl.Optimizer, "propose", late)
                trial = study.ask()
        assert trial.params["y"] == 0.4


def test_limits_that_are_functions_stay(tmp_path: Path) -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)}, where=[lambda p: p["x"] <= 0.7])
    with rl.Study.open(tmp_path / "s.sqlite", "s", space=space, budget=30) as study:
        run(study, 3)
        study.change_space(add={"z": (rl.Int(1, 9), 5)})
        assert max(trial.params["x"] for trial in run(study, 6)) <= 0.7
    with rl.Study.open(tmp_path / "s.sqlite", "s", space=space) as again:
        assert again.space.names == ("x", "z")
