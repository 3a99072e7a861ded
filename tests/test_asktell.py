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

        def make(kind: str, name: str, **more: Any) -> rl.AskTell:
            settings = SETTINGS | more
            if kind == "optimizer":
                return rl.Optimizer(**settings)
            if kind == "study":
                return stack.enter_context(rl.Study.open(folder / "own.db", name, **settings))
            return Client(service.url).create(name, **settings)

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


def decided(study: rl.AskTell) -> list[object]:
    """Use the verbs by which people change what was proposed or told."""
    study.observe({"x": 0.9, "kind": "b"}, 0.3, time=NOON)
    study.observe({"x": 0.9, "kind": "b"}, 300.0, time=NOON)
    study.retract_observation(1, "milliseconds")
    first, second, third = study.ask(3)
    study.approve(first)
    study.approve(second.number, "fine")
    study.reject(third, "too slow")
    study.tell(first, 9.0, time=NOON)
    study.retract(first, "typing error")
    study.tell(first, f(first.params), time=NOON)
    study.tell(second, f(second.params), time=NOON)
    fourth = study.ask()
    study.reconsider(third)
    proposed = study.proposed
    study.approve(fourth)
    study.tell(fourth, f(fourth.params), time=NOON)
    messages = []
    for call in (
        lambda: study.approve(third),
        lambda: study.reject(first, "no"),
        lambda: study.tell(third, 1.0),
        lambda: study.reject(first, " "),
        lambda: study.retract_observation(7),
        lambda: next(iter(study)),
    ):
        with pytest.raises(rl.RegretlessError) as raised:
            call()
        messages.append((type(raised.value), str(raised.value)))
    counts = (study.asked, study.remaining, study.pending)
    return [first, third, fourth, proposed, messages, counts, study.best(), study.history()]


def test_all_three_decide_the_same(open_one: Any) -> None:
    here, stored, served = (decided(open_one(k, "decided", mode="recommend")) for k in KINDS)
    assert stored == here
    assert served == here
    assert here[5] == (3, 5, [])


def test_archive_and_rename_over_http(open_one: Any) -> None:
    study = open_one("remote", "first")
    trial = study.ask(key="k")
    client = study._client
    old = client.study("first")
    study.archive()
    assert study.archived
    assert "first" not in [each["name"] for each in client.studies()]
    assert "first" in [each["name"] for each in client.studies(archived=True)]
    with pytest.raises(rl.ArchivedError, match="study 'first' is archived"):
        study.ask()
    study.unarchive()
    study.rename("second one")
    study.rename("second one")
    study.tell(trial, 1.0)
    assert study.info()["told"] == 1
    for call in (old.ask, old.info, lambda: client.study("first")):
        with pytest.raises(rl.UnknownStudyError, match="it is 'second one' now"):
            call()
    names = [each["name"] for each in client.studies()]
    assert "second one" in names
    assert "first" not in names
    with pytest.raises(rl.ConfigError, match="must fit between two slashes"):
        study.rename("a/b")
    with pytest.raises(rl.ConfigError, match="another study is or was called"):
        client.create("third", **SETTINGS).rename("first")
    study.rename("first")
    assert client.study("first").info()["told"] == 1
    old.tell(trial.number, 1.0)  # the old name is right again


@pytest.mark.parametrize("kind", KINDS)
def test_the_worker_of_the_command_line_takes_any(open_one: Any, kind: str) -> None:
    study = open_one(kind, "worker")
    done: list[int] = []
    task = Task(Path("job.py"), "objective", SPACE, f, None)
    work(task, study, study, lambda: done.append(study.asked))
    assert done == list(range(1, 9))
    assert study.pending == []
    assert [row.status for row in study.history()] == ["told"] * 8
