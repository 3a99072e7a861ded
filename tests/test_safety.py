"""The settings by which a run does no harm: checks, storage, and the same in every front end."""

from __future__ import annotations

import json
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
    "free_start": True,
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
        ({"guardrails": [rl.AtMost("p", 1), rl.AtMost("p", 2)]}, "give only one of the two"),
        ({"guardrails": [rl.AtMost("p", 1), rl.AtLeast("p", 2)]}, "can't both hold"),
        ({"guardrails": [rl.AtLeast("p", 1, of="baseline")]}, "needs a baseline"),
        ({"max_step": {"y": 0.1}}, "got 'y'"),
        ({"max_step": {"kind": 0.1}}, "no order"),
        ({"max_step": {"x": 1.5}}, "got 1.5"),
        ({"max_step": {"x": {"by": -1}}}, "got -1"),
        ({"change_cost": -1.0}, "change_cost: need a number >= 0, got -1.0"),
        ({"sparse_changes": True}, "needs a baseline"),
        ({"free_start": True}, "free_start: needs guardrails"),
        ({"free_start": 1, "guardrails": [rl.AtMost("p", 1)]}, "free_start: need True or False"),
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


AS_JSON = {
    **{name: ALL[name] for name in ALL if name != "guardrails"},
    "guardrails": [
        {"metric": "p99_ms", "at_most": 250.0},
        {"metric": "qps", "at_least": 0.95, "of": "baseline", "prob": 0.8},
    ],
}


def test_the_service_takes_settings_and_metrics(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from regretless.service.app import create_app

    with TestClient(create_app(tmp_path / "s.db"), base_url="http://localhost:8080") as http:
        new = {"name": "s", "space": SPACE.to_json(), "budget": 20}
        assert http.post("/api/studies", json=new | AS_JSON).status_code == 201
        settings = http.get("/api/studies/s").json()["settings"]
        assert settings == settings | Safety.checked(SPACE, ALL).to_json()
        known = {"params": HERE, "value": 1.0, "metrics": {"p99_ms": {"value": 240.0, "sem": 3.0}}}
        assert http.post("/api/studies/s/observe", json=known).status_code == 204
        row = http.get("/api/studies/s/observations").json()[0]
        assert row["metrics"] == {"p99_ms": 240.0}
        http.post("/api/studies/s/adopt", json={"params": HERE})
        result = {"value": 1.0, "metrics": {"qps": 9.0}, "control": {"value": 1.1, "sem": 0.1}}
        told = http.post("/api/studies/s/trials/0/tell", json=result)
        assert told.status_code == 204, told.text
        row = http.get("/api/studies/s/trials").json()[0]
        assert (row["metrics"], row["control"]) == ({"qps": 9.0}, 1.1)
        wrong = http.post("/api/studies", json=new | {"name": "t", "loss_budget": 1.0})
        assert "needs a baseline" in wrong.json()["detail"]


def test_the_command_line_takes_settings_and_metrics(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("typer")
    from regretless.cli.app import main

    def shell(*words: str) -> None:
        monkeypatch.setattr("sys.argv", ["regretless", *words])
        main()

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGRETLESS_STORAGE", "s.db")
    options = ["--budget", "20", "--space", json.dumps(SPACE.to_json())]
    options += ["--sparse-changes", "--free-start"]
    for name in ("baseline", "guardrails", "max_step"):
        options += [f"--{name.replace('_', '-')}", json.dumps(AS_JSON[name])]
    for name in ("loss_budget", "confidence", "change_cost", "mode"):
        options += [f"--{name.replace('_', '-')}", str(AS_JSON[name])]
    shell("create", "s", *options)
    shell("adopt", "s", json.dumps(HERE))
    shell("tell", "s", "0", "1.0", "--metric", "p99_ms=240,3", "--metric", "qps=9", "--control=1.1")
    with rl.Study.open("s.db", "s") as study:
        assert study.snapshot().optimizer.safety == Safety.checked(SPACE, ALL)
        row = study.history()[0]
        assert (row.metrics, row.control) == ({"p99_ms": 240.0, "qps": 9.0}, 1.1)
    for wrong in ("p99_ms", "=3", "p99_ms=a", "p99_ms=1,2,3"):
        with pytest.raises(SystemExit) as stopped:
            shell("tell", "s", "0", "1.0", "--metric", wrong)
        assert stopped.value.code == 2
