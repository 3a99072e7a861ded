"""Code for `AskTell` works alike in memory, on a database and over HTTP."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

import regretless as rl
from regretless.cli.tune import Task, work
from regretless.client import Client, RemoteStudy
from serving import serving

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 8, "seed": 3, "direction": "minimize"}
KINDS = ["optimizer", "study", "remote"]
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)  # without a time, a study takes that of the call


def f(params: dict[str, Any]) -> float:
    return float((params["x"] - 0.4) ** 2 + 0.1 * (params["kind"] == "a"))


@pytest.fixture(scope="module")
def open_one(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """Makes one of each kind, with a name of its own."""
    folder: Path = tmp_path_factory.mktemp("asktell")
    with ExitStack() as stack:
        service = stack.enter_context(serving(str(folder / "served.db"), folder=folder))

        def make(kind: str, name: str) -> rl.AskTell:
            if kind == "optimizer":
                return rl.Optimizer(**SETTINGS)
            if kind == "study":
                return stack.enter_context(rl.Study.open(folder / "own.db", name, **SETTINGS))
            return Client(service.url).create(name, **SETTINGS)

        yield make


def used(study: rl.AskTell) -> list[object]:
    """Use everything that the protocol promises; returns what can be compared."""
    study.observe({"x": 0.9, "kind": "b"}, 0.3, sem=0.1, time=NOON)
    first, second = study.ask(2)
    study.tell(first, f(first.params), count=2, time=NOON)
    study.tell(second.number, f(second.params), sem=0.05, time=NOON)
    third = study.ask()
    study.abandon(third)
    own = study.adopt({"x": 0.5, "kind": "b"})
    waiting = [trial.number for trial in study.pending]
    study.tell(own, f(own.params), time=NOON)
    study.extend(9)
    before = (study.budget, study.asked, study.remaining)
    for trial in study:
        study.tell(trial, f(trial.params), time=NOON)
    return [first, second, third, own, waiting, before, study.asked, study.best(), study.history()]


@pytest.mark.parametrize("each", [rl.Optimizer, rl.Study, RemoteStudy])
def test_each_has_all_verbs(each: type) -> None:
    promised = [name for name in vars(rl.AskTell) if not name.startswith("_")]
    assert {"ask", "tell", "best", "pending"} <= set(promised)
    assert not [name for name in [*promised, "__iter__"] if not hasattr(each, name)]


def test_all_three_answer_the_same(open_one: Any) -> None:
    here, stored, served = (used(open_one(kind, "used")) for kind in KINDS)
    assert here[4:7] == [[3], (9, 4, 5), 9]
    assert stored == here
    assert served == here


@pytest.mark.parametrize("kind", KINDS)
def test_the_worker_of_the_command_line_takes_any(open_one: Any, kind: str) -> None:
    study = open_one(kind, "worker")
    done: list[int] = []
    task = Task(Path("job.py"), "objective", SPACE, f, None)
    work(task, study, study, lambda: done.append(study.asked))
    assert done == list(range(1, 9))
    assert study.pending == []
    assert [row.status for row in study.history()] == ["told"] * 8
