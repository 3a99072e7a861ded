"""The settings by which a run does no harm: checks, storage, and the same in every front end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import regretless as rl
from regretless.engine import Created, read, write
from regretless.safety import Guardrail, Safety

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
HERE = {"x": 0.5, "kind": "a"}
ALL: dict[str, Any] = {
    "baseline": HERE,
    "loss_budget": 3.0,
    "confidence": 0.9,
    "guardrails": [rl.AtMost("p99_ms", 250), rl.AtLeast("qps", 0.95, of="baseline", prob=0.8)],
    "max_step": {"x": 0.1},
    "change_cost": 0.2,
    "sparse_changes": True,
    "mode": "recommend",
}


def test_settings_come_back_from_json() -> None:
    optimizer = rl.Optimizer(SPACE, 20, **ALL)
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.safety == optimizer.safety
    assert twin.spec() == optimizer.spec()


def test_older_releases_refuse_settings_that_they_would_not_keep() -> None:
    plain, safe = rl.Optimizer(SPACE, 20), rl.Optimizer(SPACE, 20, baseline=HERE)
    assert write(Created(plain.spec())).version == 2
    assert write(Created(safe.spec())).version == 3
    assert "baseline" not in plain.spec()
    again = read("created", 2, plain.spec())
    assert again == Created(plain.spec())


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"baseline": {"x": 2.0, "kind": "a"}}, "x"),
        ({"baseline": {"x": 0.5}}, "kind"),
        ({"loss_budget": 3.0}, "needs a baseline"),
        ({"loss_budget": 0.0, "baseline": HERE}, "loss_budget: need a positive number, got 0.0"),
        ({"loss_budget": float("nan"), "baseline": HERE}, "loss_budget"),
        ({"confidence": 1.0}, "confidence: need a probability between 0 and 1, got 1.0"),
        ({"guardrails": rl.AtMost("p", 1)}, "guardrails: need a list"),
        ({"guardrails": ["p"]}, "guardrail: need an object, got 'p'"),
        ({"guardrails": [rl.AtMost("p", 1), rl.AtMost("p", 2)]}, "need one of the two"),
        ({"guardrails": [rl.AtMost("p", 1), rl.AtLeast("p", 2)]}, "can't both hold"),
        ({"guardrails": [rl.AtLeast("p", 1, of="baseline")]}, "needs a baseline"),
        ({"max_step": {"y": 0.1}}, "got 'y'"),
        ({"max_step": {"kind": 0.1}}, "no order"),
        ({"max_step": {"x": 1.5}}, "got 1.5"),
        ({"max_step": {"x": {"by": -1}}}, "got -1"),
        ({"change_cost": -1.0}, "change_cost: need a number >= 0, got -1.0"),
        ({"sparse_changes": True}, "needs a baseline"),
        ({"mode": "manual"}, "got 'manual'"),
    ],
)
def test_bad_settings_are_named(settings: dict[str, Any], message: str) -> None:
    with pytest.raises((rl.ConfigError, rl.SpaceError), match=message):
        rl.Optimizer(SPACE, 20, **settings)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rl.AtMost("objective", 1), "'objective' is not a name"),
        (lambda: rl.AtMost("control", 1), "'control' is not a name"),
        (lambda: rl.AtMost("", 1), "metric: need 1 to"),
        (lambda: rl.AtMost("p", float("nan")), "guardrail p: need a number, got nan"),
        (lambda: rl.AtMost("p", 1, prob=0.4), "got 0.4"),
        (lambda: rl.AtMost("p", 1, of="best"), "got 'best'"),  # type: ignore[arg-type]
        (lambda: Guardrail("p", 1), "AtMost"),
        (lambda: Guardrail.from_json({"metric": "p"}), "one of 'at_most' and 'at_least'"),
        (lambda: Guardrail.from_json({"metric": "p", "at_most": 1, "y": 2}), "'y'"),
    ],
)
def test_bad_guardrails_are_named(make: Any, message: str) -> None:
    with pytest.raises(rl.ConfigError, match=message):
        make()


def test_metrics_and_control_are_stored() -> None:
    optimizer = rl.Optimizer(SPACE, 20, baseline=HERE)
    optimizer.observe(HERE, 1.0, metrics={"p99_ms": 240})
    trial = optimizer.ask()
    optimizer.tell(trial, 2.0, metrics={"p99_ms": (230.0, 4.0)}, control=(1.9, 0.1))
    optimizer.tell(trial, 2.0, metrics={"p99_ms": (230.0, 4.0)}, control=(1.9, 0.1))  # the same
    with pytest.raises(rl.TrialError, match=r"p99_ms 230.0 \(sem 4.0\).* now 2.0"):
        optimizer.tell(trial, 2.0)
    prior, told = optimizer.history()
    assert (prior.metrics, prior.control) == ({"p99_ms": 240.0}, None)
    assert (told.metrics, told.control) == ({"p99_ms": 230.0}, 1.9)
    assert told.flat()["metric_p99_ms"] == 230.0
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.history() == optimizer.history()


@pytest.mark.parametrize(
    ("told", "message"),
    [
        ({"metrics": {"p": float("nan")}}, "'p': value: need a number that is finite, got nan"),
        ({"metrics": {"p": (1.0, 0.0)}}, "'p': sem: need a positive standard error, got 0.0"),
        ({"metrics": {"p": (1.0, 2.0, 3.0)}}, "p: need a number, or a number and its"),
        ({"metrics": {"objective": 1.0}}, "'objective' is not a name"),
        ({"metrics": [1.0]}, "metrics: need a value for each name"),
        ({"control": float("inf")}, "'control': value: need a number that is finite, got inf"),
    ],
)
def test_bad_metrics_change_nothing(told: dict[str, Any], message: str) -> None:
    optimizer = rl.Optimizer(SPACE, 20)
    trial = optimizer.ask()
    before = optimizer.to_json()
    with pytest.raises((rl.DataError, rl.ConfigError), match=message):
        optimizer.tell(trial, 1.0, **told)
    assert optimizer.to_json() == before


def test_a_study_keeps_its_settings(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    path = tmp_path / "s.sqlite"
    with rl.Study.open(path, "s", space=SPACE, budget=20, **ALL) as study:
        assert study.snapshot().optimizer.safety == Safety.checked(SPACE, ALL)
    with rl.Study.open(path, "s", space=SPACE, budget=20, **ALL):
        pass
    with pytest.raises(rl.ConfigError, match=r"loss_budget: 3.0 there, 4.0 here"):
        rl.Study.open(path, "s", loss_budget=4.0)
