"""Studies on a real SQLite and a real PostgreSQL: everybody sees the same, and nothing is lost."""

from __future__ import annotations

import errno
import json
import math
import multiprocessing
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from conftest import PASSWORD, PostgresServer, set_patience

pytest.importorskip("sqlalchemy")

from regretless.engine import Asked, Event, write
from regretless.errors import CorruptJournalError, TrialError
from regretless.studies import database as databases
from regretless.studies import study as study_module
from regretless.studies.journal import Journal
from regretless.studies.study import Study

PROCESSES: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")
needs_fork = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 20, "seed": 5}


def f(number: int, params: dict[str, Any]) -> float:
    """Noise that belongs to the trial, so that a value can be told from all others."""
    noise = np.random.default_rng([3, number]).normal()
    return float(np.sin(5 * params["x"]) + (params["kind"] == "b") + 0.1 * noise)


def work(study: Study, limit: int | None = None) -> int:
    """Ask and tell until the budget (or the limit) is spent."""
    done = 0
    for trial in study:
        study.tell(trial, f(trial.number, trial.params))
        done += 1
        if done == limit:
            break
    return done


def proposal(optimizer: rl.Optimizer) -> str:
    """What would be asked next, to the last bit."""
    return json.dumps(write(optimizer.copy().propose()).body)


def timeless(rows: list[rl.Row]) -> list[rl.Row]:
    """Without the times that a journal adds."""
    return [replace(row, time=None) for row in rows]


@pytest.fixture
def study(storage: str) -> Iterator[Study]:
    with Study.open(storage, "s", **SETTINGS) as study:
        yield study


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where one database is as good as two."""
    return tmp_path / "s.db"


# -- the same decisions as without a journal ------------------------------------------------------


SHORT = SETTINGS | {"budget": 12}


@cache
def uninterrupted() -> rl.Optimizer:
    optimizer = rl.Optimizer(**SHORT)
    for trial in optimizer:
        optimizer.tell(trial, f(trial.number, trial.params))
    return optimizer


def test_interrupted_and_resumed_decides_exactly_as_uninterrupted(storage: str) -> None:
    expected = uninterrupted()
    for _ in range(12):  # every trial is asked by one object and told by another
        with Study.open(storage, "s", **SHORT) as asking:
            trial = asking.ask()
        with Study.open(storage, "s") as telling:
            assert telling.pending == [trial]
            telling.tell(trial.number, f(trial.number, trial.params))
    with Study.open(storage, "s", read_only=True) as study:
        assert study.trials == expected.trials
        assert timeless(study.history()) == expected.history()
        assert study.best() == expected.best()
        assert proposal(study.snapshot().optimizer) == proposal(expected)


@needs_fork
def test_killed_and_resumed_decides_exactly_as_uninterrupted(file: Path) -> None:
    chance = random.Random(1)
    Study.open(file, "s", **SHORT).close()
    runs = 0
    while True:
        process = PROCESSES.Process(target=resume_and_work, args=(str(file),))
        process.start()
        process.join(chance.uniform(0.02, 0.4) if runs < 5 else None)
        with suppress(ProcessLookupError):  # it was done
            os.kill(process.pid, signal.SIGKILL)
        process.join()
        runs += 1
        with Study.open(file, "s") as study:
            if not study.remaining and not study.pending:
                break
    expected = uninterrupted()
    with Study.open(file, "s") as study:
        assert timeless(study.history()) == expected.history()
        assert proposal(study.snapshot().optimizer) == proposal(expected)


def resume_and_work(url: str) -> None:
    with Study.open(url, "s") as study:
        for trial in study.pending:  # of the one that was killed: nobody else is at work here
            study.tell(trial, f(trial.number, trial.params))
        work(study)


def test_results_that_slip_in_while_a_proposal_is_computed(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The proposer, the teller and whoever comes later must agree to the bit."""
    propose = rl.Optimizer.propose
    settings = SETTINGS | {"n0": 4}
    with Study.open(storage, "s", **settings) as one, Study.open(storage, "s") as two:
        trials = [*one.ask(4), two.ask()]
        for trial in trials[:3]:
            one.tell(trial, f(trial.number, trial.params))
        late = trials[3:]

        def propose_slowly(optimizer: rl.Optimizer, context: Any = None) -> Asked:
            event = propose(optimizer)
            if late:
                slow = late.pop(0)
                two.tell(slow, f(slow.number, slow.params))
            return event

        fits = 0
        while late:
            monkeypatch.setattr(rl.Optimizer, "propose", propose_slowly)
            trial = one.ask()
            monkeypatch.undo()
            kinds = [event.kind for event in one.events()][-2:]
            assert kinds == ["told", "asked"]
            fits += "fit" in one.events()[-1].body
            with Study.open(storage, "s") as three:
                views = [study.snapshot() for study in (one, two, three)]
            assert len({view.seq for view in views}) == 1
            assert len({proposal(view.optimizer) for view in views}) == 1
            assert len({repr(view.optimizer.best()) for view in views}) == 1
            two.tell(trial, f(trial.number, trial.params))
        assert fits  # or else nothing was tested


def test_overtaken_while_a_proposal_is_computed(
    study: Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two that computed the same number: the second one looks again."""
    propose = rl.Optimizer.propose
    set_patience(monkeypatch, "TURN_SECONDS", 0.1)  # `study` holds the turn meanwhile
    with Study.open(storage, "s") as other:
        rivals: list[Callable[[], Any]] = [other.ask, lambda: other.extend(40)]

        def propose_and_lose(optimizer: rl.Optimizer, context: Any = None) -> Asked:
            event = propose(optimizer)
            if rivals:
                monkeypatch.undo()
                set_patience(monkeypatch, "TURN_SECONDS", 0.1)
                rivals.pop(0)()
                monkeypatch.setattr(rl.Optimizer, "propose", propose_and_lose)
            return event

        monkeypatch.setattr(rl.Optimizer, "propose", propose_and_lose)
        trial = study.ask()
    assert trial.number == 1
    assert trial.decision.pending == 1
    assert trial.decision.remaining == 39
    assert [e.kind for e in study.events()] == ["created", "asked", "extended", "asked"]


def test_a_step_is_limited_from_the_setting_that_still_runs(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A trial is abandoned while a proposal is computed: steps begin at the setting before it."""
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    settings: dict[str, Any] = {"baseline": {"x": 0.0}, "max_step": {"x": 0.1}, "seed": 1}
    propose = rl.Optimizer.propose
    with Study.open(storage, "steps", space=space, budget=20, **settings) as study:
        for _ in range(4):
            trial = study.ask()
            study.tell(trial, float(trial.params["x"]))  # type: ignore[arg-type]
        runs = float(study.trials[-1].params["x"])  # type: ignore[arg-type]
        given_up = study.ask()
        assert given_up.params["x"] != runs

        def propose_late(optimizer: rl.Optimizer, *given: Any) -> Asked:
            event = propose(optimizer, *given)
            monkeypatch.undo()
            with Study.open(storage, "steps") as other:
                other.abandon(given_up.number)
            return event

        monkeypatch.setattr(rl.Optimizer, "propose", propose_late)
        step = float(study.ask().params["x"]) - runs  # type: ignore[arg-type]
    assert abs(step) <= 0.1 + 1e-9


# -- the verbs ------------------------------------------------------------------------------------


def test_a_tell_is_idempotent_and_final(study: Study, storage: str) -> None:
    trial = study.ask()
    with Study.open(storage, "s") as other:
        other.tell(trial.number, 1.5)
        other.tell(trial.number, 1.5)
    study.tell(trial, 1.5, key="request 7")
    with pytest.raises(rl.TrialError, match=r"trial 0 was told 1\.5, now 2\.0"):
        study.tell(trial, 2.0)
    with pytest.raises(rl.TrialError):
        study.tell(trial, 1.5, sem=0.1)
    with pytest.raises(rl.UnknownTrialError, match="trial 7 was never asked"):
        study.tell(7, 1.0)
    with pytest.raises(rl.DataError):
        study.tell(study.ask(), float("nan"))
    assert [event.kind for event in study.events()] == ["created", "asked", "told", "asked"]
    assert study.observations == 1


@pytest.mark.parametrize("value", [1.5, 2.0])
def test_of_two_tells_at_once_the_first_wins(
    study: Study, storage: str, monkeypatch: pytest.MonkeyPatch, value: float
) -> None:
    trial = study.ask()
    append = Journal.append_if
    with Study.open(storage, "s") as other:

        def append_second(journal: Journal, *args: Any, **options: Any) -> Any:
            monkeypatch.undo()
            other.tell(trial, 1.5)
            return append(journal, *args, **options)

        monkeypatch.setattr(Journal, "append_if", append_second)
        if value == 1.5:
            study.tell(trial, value)
        else:
            with pytest.raises(rl.TrialError, match="can't be changed"):
                study.tell(trial, value)
    assert study.history()[0].value == 1.5
    assert [event.kind for event in study.events()] == ["created", "asked", "told"]


def test_the_key_of_a_tell_is_in_the_log(study: Study) -> None:
    study.tell(study.ask(), 1.0, sem=0.5, count=3, key="request 7")
    told = study.events()[-1]
    outcome = {"value": 1.0, "sem": 0.5, "count": 3.0}
    outcomes = {"objective": outcome}
    assert told.version == 2
    assert told.body == {"number": 0, "time": None, "outcomes": outcomes, "key": "request 7"}


def test_an_abandoned_trial_may_still_be_told(study: Study, storage: str) -> None:
    trial, other_trial = study.ask(2)
    with Study.open(storage, "s") as other:
        other.abandon(trial)
    study.abandon(trial)
    assert study.pending == [other_trial]
    study.tell(trial, 0.5)
    with pytest.raises(rl.TrialError, match="told already"):
        study.abandon(trial)
    rows = study.history()
    assert [row.status for row in rows] == ["told", "pending"]
    assert Counter(event.kind for event in study.events())["abandoned"] == 1


def test_abandoned_and_told_at_once(
    study: Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = study.ask()
    append = Journal.append_if
    with Study.open(storage, "s") as other:

        def append_second(journal: Journal, *args: Any, **options: Any) -> Any:
            monkeypatch.undo()
            other.tell(trial, 1.5)
            return append(journal, *args, **options)

        monkeypatch.setattr(Journal, "append_if", append_second)
        with pytest.raises(rl.TrialError, match="told already"):
            study.abandon(trial)
    assert study.history()[0].status == "told"


def test_abandon_by_age(study: Study, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a clock that stands still: a busy machine makes no trial older."""
    old = study.ask(2)
    study.tell(old[0], 1.0)
    young = study.ask()
    asked = study.snapshot().asked_at
    clock = type("Clock", (datetime,), {"now": classmethod(lambda cls, zone: asked[2])})
    monkeypatch.setattr(study_module, "datetime", clock)
    between = asked[2] - asked[1]
    assert between > timedelta(0)
    assert study.abandon_older_than(timedelta(hours=1)) == []
    assert study.abandon_older_than(between) == []  # as old as that is not older
    assert study.abandon_older_than(between.total_seconds() / 2) == [old[1]]
    assert study.pending == [young]
    with pytest.raises(rl.ConfigError, match="age"):
        study.abandon_older_than(-1)


@pytest.mark.parametrize("age", [float("nan"), float("inf"), -1.0, timedelta(seconds=-1), "x"])
def test_an_age_that_can_t_be(study: Study, age: Any) -> None:
    study.ask()
    with pytest.raises(rl.ConfigError, match="age"):
        study.abandon_older_than(age)


def test_nothing_is_older_than_there_are_dates(study: Study) -> None:
    study.ask()
    for age in (1e11, 1e15, timedelta.max):
        assert study.abandon_older_than(age) == []


def test_the_key_of_a_batch_is_no_other_s(study: Study) -> None:
    first, second = study.ask(2, key="k")
    assert study.ask(key="k +1").number == 2
    assert study.ask(2, key="k") == [first, second]


def test_a_key_that_is_too_long_for_its_batch_asks_for_nothing(study: Study) -> None:
    with pytest.raises(rl.ConfigError, match="key: need 1 to 200 printable characters"):
        study.ask(3, key="k" * 195)
    assert len(study.trials) == 0
    assert len(study.ask(3, key="k" * 190)) == 3
    assert len(study.ask(1, key="k" * 196)) == 1
    study.tell(0, 1.0, key="k" * 300)  # only written down


def test_a_key_that_is_empty_is_a_mistake(study: Study) -> None:
    trial = study.ask()
    point = dict(trial.params)
    for call in (
        lambda: study.ask(key=""),
        lambda: study.ask(2, key=""),
        lambda: study.observe(point, 1.0, key=""),
        lambda: study.tell(trial, 1.0, key=""),
    ):
        with pytest.raises(rl.ConfigError, match="key: need a text that is not empty, got ''"):
            call()
    assert (len(study.trials), study.observations) == (1, 0)


def test_extend(study: Study, storage: str) -> None:
    study.ask(3)
    with Study.open(storage, "s") as other:
        other.extend(40)
        other.extend(40)
        assert (study.budget, study.remaining) == (40, 37)
        with pytest.raises(rl.ConfigError, match="at least 3"):
            study.extend(2)
    # The script that created it goes on working, and so does one with the new budget.
    for budget in 20, 40:
        Study.open(storage, "s", **SETTINGS | {"budget": budget}).close()
    with pytest.raises(rl.ConfigError, match=r"budget: 40 there, 35 here \(see extend\)"):
        Study.open(storage, "s", budget=35)


def test_observe(study: Study) -> None:
    study.observe({"x": 0.5, "kind": "a"}, 1.0)
    for _ in range(2):
        study.observe({"x": 0.5, "kind": "b"}, 2.0, sem=0.1, key="from 2019")
    with pytest.raises(rl.TrialError, match="from 2019"):
        study.observe({"x": 0.5, "kind": "b"}, 2.1, key="from 2019")
    with pytest.raises(rl.SpaceError):
        study.observe({"x": 2.0, "kind": "b"}, 2.0)
    assert [row.value for row in study.history()] == [1.0, 2.0]
    assert study.remaining == 20
    mean, sd = study.predict({"x": 0.5, "kind": "b"})
    assert sd > 0
    assert study.landscape([{"x": 0.5, "kind": "b"}]).mean == pytest.approx([mean])


def test_a_trial_that_was_chosen_elsewhere(study: Study, storage: str) -> None:
    with Study.open(storage, "s") as other:
        trials = [other.ask(), study.adopt({"x": 0.5, "kind": "b"}), other.ask()]
    assert [trial.number for trial in trials] == [0, 1, 2]
    assert trials[1].decision.reason == "given"
    study.tell(trials[1], 1.0)
    assert study.remaining == 17
    with pytest.raises(rl.SpaceError):
        study.adopt({"x": 0.5, "kind": "c"})


def test_adopted_again_with_the_same_key(study: Study, storage: str) -> None:
    trial = study.adopt({"x": 0.5, "kind": "b"}, key="today's")
    study.ask()
    with Study.open(storage, "s") as other:
        assert other.adopt({"x": 0.5, "kind": "b"}, key="today's") == trial
        with pytest.raises(TrialError, match="was used before"):
            other.adopt({"x": 0.7, "kind": "b"}, key="today's")
    assert study.adopt({"x": 0.5, "kind": "b"}).number == 2


@pytest.mark.parametrize("age", [-1.0, math.inf, math.nan, "5", timedelta(-1)])
def test_an_age_that_cannot_be(study: Study, age: Any) -> None:
    with pytest.raises(rl.ConfigError, match=f"age: need seconds .* got {re.escape(repr(age))}"):
        study.abandon_older_than(age)
    with pytest.raises(rl.ConfigError, match="limit: need a whole number, got 'x'"):
        study.events(0, "x")  # type: ignore[arg-type]


def test_asked_again_with_the_same_key(study: Study, storage: str) -> None:
    trial = study.ask(key="job 1")
    pair = study.ask(2, key="job 2")
    with Study.open(storage, "s") as other:
        assert other.ask(key="job 1") == trial
        assert other.ask(2, key="job 2") == pair
        assert other.ask(3, key="job 2") == [*pair, other.trials[3]]
    study.tell(trial, 1.0)
    assert study.ask(key="job 1") == trial
    assert study.asked == 4
    for wrong in 0, True, 1.5:
        with pytest.raises(rl.ConfigError, match="n: need"):
            study.ask(wrong)  # type: ignore[call-overload]


def test_who_only_reads_creates_no_study(study: Study, storage: str) -> None:
    with pytest.raises(rl.UnknownStudyError, match="there is no study 'other'"):
        Study.open(storage, "other", **SETTINGS, read_only=True)
    study.refresh()


def test_asked_again_with_the_same_key_when_the_budget_is_spent(study: Study) -> None:
    """The answer was missed, and not the trial."""
    study.extend(2)
    trials = [study.ask(key=f"job {i}", within_budget=True) for i in range(2)]
    assert study.remaining == 0
    assert [study.ask(key=f"job {i}", within_budget=True) for i in range(2)] == trials
    with pytest.raises(rl.BudgetError, match="the budget of 2 is spent"):
        study.ask(key="job 2", within_budget=True)


def test_two_at_once_with_the_same_key(
    study: Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose = rl.Optimizer.propose
    set_patience(monkeypatch, "TURN_SECONDS", 0.1)
    with Study.open(storage, "s") as other:
        first = []

        def propose_second(optimizer: rl.Optimizer, context: Any = None) -> Asked:
            monkeypatch.setattr(rl.Optimizer, "propose", propose)
            first.append(other.ask(key="job"))
            return propose(optimizer)

        monkeypatch.setattr(rl.Optimizer, "propose", propose_second)
        assert study.ask(key="job") == first[0]
    assert study.asked == 1


def test_the_same_key_for_other_params_is_an_error(file: Path) -> None:
    space = rl.Space({"c": rl.Categorical([True, 1, "a"])})
    with Study.open(file, "s", space=space, budget=5) as study:
        study.adopt({"c": True}, key="k")
        study.observe({"c": True}, 1.0, key="k")
        with pytest.raises(TrialError, match="'adopt k' was used before"):
            study.adopt({"c": 1}, key="k")
        with pytest.raises(TrialError, match="'observe k' was used before"):
            study.observe({"c": 1}, 1.0, key="k")
        study.extend(8, key="k")
        with pytest.raises(TrialError, match="'extend k' was used before"):
            study.extend(9, key="k")
        assert (study.budget, study.asked, study.observations) == (8, 1, 1)


def test_past_the_budget(file: Path) -> None:
    with Study.open(file, "s", **SETTINGS | {"budget": 2}) as study:
        assert work(study) == 2
        assert work(study) == 0
        with pytest.raises(rl.BudgetError, match="budget of 2 is spent"):
            study.ask(within_budget=True)
        assert study.ask().decision.reason == "exhausted"


def test_reading(study: Study) -> None:
    with pytest.raises(rl.DataError, match="no result was told"):
        study.best()
    work(study, limit=8)
    trial = study.ask()
    assert len(study.trials) == study.asked == 9
    assert study.remaining == 11
    assert study.observations == 8
    assert study.direction == "maximize"
    assert study.space == SPACE
    assert study.policy == rl.IDS()
    assert study.pending == [trial]
    assert study.best().params["kind"] in ("a", "b")
    assert repr(study).startswith("Study('s' in ")
    assert PASSWORD not in repr(study) + study.label
    assert len(study.events(after=2)) == 16
    now = datetime.now(UTC)
    assert all(now - event.time < timedelta(minutes=1) for event in study.events())


def test_a_snapshot_stands_still(study: Study, storage: str) -> None:
    work(study, limit=2)
    snapshot = study.snapshot()
    assert (snapshot.name, snapshot.seq, len(snapshot.asked_at)) == ("s", 5, 2)
    assert snapshot.time == study.events()[-1].time
    work(study, limit=1)
    assert len(snapshot.optimizer.history()) == 2
    snapshot.optimizer.tell(snapshot.optimizer.ask(), 1.0)
    assert study.refresh() == 7
    with Study.open(storage, "s", read_only=True) as reader:
        assert reader.history() == study.history()
        for verb in (lambda: reader.ask(), lambda: reader.extend(50)):
            with pytest.raises(rl.StorageError, match="read-only"):
                verb()


# -- opening --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "difference"),
    [
        ({"direction": "minimize"}, "direction: 'maximize' there, 'minimize' here"),
        ({"seed": 6}, "seed: 5 there, 6 here"),
        ({"policy": "gp-ucb"}, "policy: .*'ids'.* there, .*'gp-ucb'.* here"),
        ({"model": rl.Model.paper()}, "model: .* there, .* here"),
        ({"n0": 3}, "n0: None there, 3 here"),
        ({"design": "lhs"}, "design: 'auto' there, 'lhs' here"),
        ({"space": rl.Space({"x": rl.Float(0, 2), "z": rl.Int(1, 2)})}, "x: high 1.0 there, 2.0"),
        ({"space": rl.Space({"x": rl.Float(0, 1)})}, "space: 'kind' only there"),
        ({"space": rl.Space(dict(reversed(SPACE.parameters.items())))}, "order is x, kind there"),
    ],
)
def test_other_settings_are_an_error_that_shows_them(
    tmp_path_factory: pytest.TempPathFactory, given: dict[str, Any], difference: str
) -> None:
    file = tmp_path_factory.mktemp("study") / "s.db"
    Study.open(file, "s", **SETTINGS).close()
    with pytest.raises(rl.ConfigError, match=difference):
        Study.open(file, "s", **SETTINGS | given)
    with pytest.raises(rl.ConfigError, match=difference):
        Study.open(file, "s", **given)
    Study.open(file, "s", policy=rl.IDS(), design="auto", model=rl.Model()).close()


def test_nothing_is_created_by_mistake(file: Path) -> None:
    with pytest.raises(rl.StorageError, match=r"there is no journal.* `horizon`"):
        Study.open(file, "s")
    with pytest.raises(rl.StorageError, match=r"there is no journal.* `horizon`"):
        Study.open(file, "s", space=SPACE)  # neither budget nor horizon
    with pytest.raises(rl.ConfigError, match="budget"):
        Study.open(file, "s", space=SPACE, budget=0)
    with pytest.raises(rl.StorageError, match="there is no journal"):
        Study.open(file, "s", **SETTINGS, read_only=True)
    assert not file.exists()
    Study.open(file, "s", **SETTINGS).close()
    with pytest.raises(rl.UnknownStudyError, match=r"no study 't' \(studies: s\).* horizon"):
        Study.open(file, "t", budget=10)


class Lazy(rl.Random):
    name = "lazy"


def test_a_policy_of_ones_own(file: Path) -> None:
    with Study.open(file, "s", **SETTINGS, policy=Lazy()) as study:
        trial = study.ask()
    with pytest.raises(rl.ConfigError, match="a policy of your own, 'lazy': give an instance"):
        Study.open(file, "s")
    with Study.open(file, "s", policy=Lazy()) as study:
        assert study.trials == [trial]
    with pytest.raises(rl.ConfigError, match=r"policy: .*'lazy'.* there, .*'eic'.* here"):
        Study.open(file, "s", policy=rl.EIC())


def test_settings_that_an_older_release_did_not_write(file: Path) -> None:
    Study.open(file, "s", **SETTINGS, policy="eic").close()
    sql(file, "UPDATE regretless_events SET body = json_remove(body, '$.policy.gate')")
    Study.open(file, "s", **SETTINGS, policy="eic").close()
    with pytest.raises(rl.ConfigError, match="policy: "):
        Study.open(file, "s", policy=rl.EIC(gate=False))


def test_a_list_of_points_to_start_with(file: Path) -> None:
    start = [{"x": 0.25, "kind": "b"}, {"x": 1, "kind": "a"}]
    for _ in range(2):
        with Study.open(file, "s", **SETTINGS, design=start) as study:
            study.ask()
    assert [trial.params for trial in study._state.optimizer.trials] == start


@needs_fork
def test_creating_at_once(storage: str) -> None:
    start = PROCESSES.Barrier(4)
    processes = [PROCESSES.Process(target=create, args=(storage, start)) for _ in range(4)]
    run_all(processes)
    with Study.open(storage, "s") as study:
        assert [event.kind for event in study.events()] == ["created", *["asked"] * 4]


def create(url: str, start: Any) -> None:
    start.wait()
    with Study.open(url, "s", **SETTINGS) as study:
        study.ask()


def run_all(processes: list[Any]) -> None:
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * len(processes)


def test_without_sqlalchemy_only_opening_fails() -> None:
    code = (
        "import sys; sys.modules['sqlalchemy'] = None\n"
        "from regretless import *\n"
        "try: Study.open('x.db', 's')\n"
        "except MissingExtraError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'regretless[studies]'" in done.stdout


# -- many at once ---------------------------------------------------------------------------------


def check(study: Study, trials: int) -> None:
    """Nothing lost, doubled or mixed up, and numbers without gaps."""
    rows = study.history()
    assert [row.number for row in rows] == list(range(trials))
    assert [row.value for row in rows] == [f(row.number or 0, row.params) for row in rows]
    kinds = Counter(event.kind for event in study.events())
    assert kinds == {"created": 1, "asked": trials, "told": trials}


@needs_fork
def test_processes_share_a_study(storage: str) -> None:
    Study.open(storage, "s", **SETTINGS).close()
    processes = [PROCESSES.Process(target=open_and_work, args=(storage,)) for _ in range(4)]
    run_all(processes)
    with Study.open(storage, "s") as study:
        check(study, 20)


def open_and_work(url: str) -> None:
    with Study.open(url, "s") as study:
        work(study)


def test_threads_share_a_study(study: Study) -> None:
    done: list[int] = []
    threads = [threading.Thread(target=lambda: done.append(work(study))) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        study.snapshot()
        time.sleep(0.01)
    for thread in threads:
        thread.join()
    assert sum(done) == 20
    check(study, 20)


def test_what_is_looked_at_does_not_change_meanwhile(
    study: Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever answers a question holds the lock, and a proposal does not."""
    alone = []
    for name in ("best", "history", "propose"):
        real = getattr(rl.Optimizer, name)

        def noted(
            self: rl.Optimizer, *given: Any, real: Any = real, name: str = name, **named: Any
        ) -> Any:
            alone.append((name, study._lock._is_owned()))  # type: ignore[attr-defined]
            return real(self, *given, **named)

        monkeypatch.setattr(rl.Optimizer, name, noted)
    study.tell(study.ask(), 1.0)
    study.best()
    study.history()
    assert alone == [("propose", False), ("best", True), ("history", True)]


def test_a_state_never_goes_back(study: Study) -> None:
    """Of two threads the slower one may come with what the other one has passed already."""
    study.ask(2)
    old = study._state.copy()
    study.tell(0, 1.0)
    study.tell(1, 2.0)
    late = study.events()[-2]
    assert study._take_in(late) == old.fold(late)
    assert study._state.optimizer.observations == 2
    assert study._state.last.seq == late.seq + 1


def test_a_copy_of_a_state_is_its_own(study: Study) -> None:
    study.ask(key="first")
    state = study._state
    twin = state.copy()
    study.ask(key="second")
    study.abandon(0, key="third")
    assert study._state is state  # events are folded in place
    assert (len(twin.by_key), len(twin.asked_at), len(twin.changes)) == (1, 1, 0)
    assert (len(state.by_key), len(state.asked_at), len(state.changes)) == (2, 2, 1)
    assert (twin.optimizer.asked, state.optimizer.asked) == (1, 2)
    for stored in study.events()[2:]:
        twin.fold(stored)
    assert (twin.by_key, twin.asked_at, twin.changes) == (
        state.by_key,
        state.asked_at,
        state.changes,
    )


@needs_fork
def test_a_forked_child_goes_on_with_it(study: Study) -> None:
    work(study, limit=3)
    enough = threading.Event()

    def keep_busy() -> None:
        while not enough.is_set():
            study.refresh()

    thread = threading.Thread(target=keep_busy)
    thread.start()
    try:
        for _ in range(3):
            process = PROCESSES.Process(target=work, args=(study, 2))
            process.start()
            process.join(30)
            assert process.exitcode == 0
    finally:
        enough.set()
        thread.join()
    work(study)
    check(study, 20)


@needs_fork
def test_whoever_freezes_in_his_turn_holds_nobody_up_for_long(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Study.open(storage, "s", **SETTINGS) as study:
        with Journal.open(storage) as frozen, frozen.turn("s"):
            set_patience(monkeypatch, "TURN_SECONDS", 0.3)
            start = time.monotonic()
            study.ask()
            assert time.monotonic() - start > 0.25
        # If anybody still had the turn, this one would wait for all of two minutes.
        set_patience(monkeypatch, "TURN_SECONDS", 120.0)
        start = time.monotonic()
        study.ask()
        assert time.monotonic() - start < 60.0


def test_a_turn_that_the_server_ends_harms_nobody(postgres_url: str) -> None:
    import psycopg

    with Journal.open(postgres_url) as journal:
        with journal.turn("s"), psycopg.connect(postgres_url) as conn:
            conn.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
        assert journal.append("s", "n", {}).seq == 1


# -- crashes --------------------------------------------------------------------------------------


def work_until_killed(url: str, acknowledgements: int) -> None:
    with Study.open(url, "s") as study:
        for trial in study:
            study.tell(trial, f(trial.number, trial.params))
            os.write(acknowledgements, trial.number.to_bytes(4, "big"))


def kill_a_worker(url: str, chance: random.Random) -> list[int]:
    """Start a worker, kill it, and return the trials whose results it saw acknowledged."""
    reader, writer = os.pipe()
    process = PROCESSES.Process(target=work_until_killed, args=(url, writer))
    process.start()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        seen = pipe.read(4 * chance.randrange(4))  # 0: it may still be opening the study
        time.sleep(chance.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        seen += pipe.read()
    return [int.from_bytes(seen[i : i + 4], "big") for i in range(0, len(seen), 4)]


@needs_fork
@pytest.mark.parametrize("kills", [4, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_loses_no_acknowledged_result(storage: str, kills: int) -> None:
    chance = random.Random(kills)
    with Study.open(storage, "s", **SETTINGS | {"budget": 2000}) as study:
        acknowledged: list[int] = []
        for _ in range(kills):
            acknowledged += kill_a_worker(storage, chance)
            values = {row.number: row.value for row in study.history()}
            assert list(values) == list(range(len(values)))
            assert len(study.pending) <= 1
            for trial in study.pending:
                study.abandon(trial)
            survivor = study.ask()  # the study goes on
            study.tell(survivor, f(survivor.number, survivor.params))
            acknowledged.append(survivor.number)
        assert len(set(acknowledged)) == len(acknowledged)
        rows = {row.number: row for row in study.history()}
        for number in acknowledged:
            assert rows[number].value == f(number, rows[number].params)
        told = sum(row.status == "told" for row in rows.values())
        # The last one may have been committed and killed before it could say so.
        assert len(acknowledged) <= told <= len(acknowledged) + kills


class StubbornWorker(threading.Thread):
    """Asks and tells, and each of them again, with its key, until it is acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.told: list[int] = []
        self.errors: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        with Study.open(self.url, "s") as study:
            while not self.enough.is_set():
                key = f"job {len(self.told)}"
                trial = self.stubbornly(lambda key=key: study.ask(key=key))  # type: ignore[misc]
                value = f(trial.number, trial.params)
                self.stubbornly(lambda: study.tell(trial, value))  # noqa: B023 (called at once)
                self.told.append(trial.number)

    def stubbornly(self, verb: Callable[[], Any]) -> Any:
        while True:
            try:
                return verb()
            except rl.StorageError as error:
                self.errors.append(str(error))
                time.sleep(0.02)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 60
        while not condition():
            assert self.is_alive()
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.01)


@pytest.mark.parametrize("crashes", [1, pytest.param(20, marks=pytest.mark.slow)])
def test_a_crashing_server_loses_and_doubles_nothing(
    postgres: PostgresServer, postgres_url: str, crashes: int
) -> None:
    chance = random.Random(crashes)
    # A long start keeps asks short, so that the crashes meet all parts of the loop.
    Study.open(postgres_url, "s", **SETTINGS | {"budget": 5000, "n0": 4000}).close()
    worker = StubbornWorker(postgres_url)
    worker.start()
    try:
        for _ in range(crashes):
            told, errors = len(worker.told), len(worker.errors)
            worker.wait_for(lambda told=told: len(worker.told) > told)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.1))
            postgres.stop("immediate")
            try:
                worker.wait_for(lambda errors=errors: len(worker.errors) > errors)  # type: ignore[misc]
            finally:
                postgres.start()
        told = len(worker.told)
        worker.wait_for(lambda: len(worker.told) > told)
    finally:
        worker.enough.set()
        worker.join()
    assert worker.told == list(range(len(worker.told)))
    with Study.open(postgres_url, "s") as study:
        check(study, len(worker.told))
    for message in worker.errors:
        assert message.startswith("PostgreSQL database 'postgres'")
        assert PASSWORD not in message


# -- journals that make no sense ------------------------------------------------------------------


@dataclass(frozen=True)
class Wrong:
    kind: str
    body: dict[str, Any]
    complaint: str
    version: int = 1


NOTHING = {"sem": None, "count": 1.0}
WHY = {"reason": "explore", "policy": "eic", "remaining": 3}
HERE = {"x": 0.5, "kind": "a"}
WRONG = [
    Wrong("danced", {}, "unknown kind 'danced'"),
    Wrong("told", {"number": 1, "value": 1.0, **NOTHING}, "trial 1 was never asked"),
    Wrong("told", {"number": 0, "value": 1.0, **NOTHING}, "trial 0 was told before"),
    Wrong("told", {"value": 1.0, **NOTHING}, "event 'told', version 1: number: missing"),
    Wrong("told", {"number": "0", "value": 1.0, **NOTHING}, "need a whole number, got '0'"),
    Wrong("abandoned", {"number": 0}, "trial 0 was told before"),
    Wrong("extended", {"budget": 0}, "budget: need at least 1"),
    Wrong("extended", {"budget": "lots"}, "budget: need a whole number"),
    Wrong("observed", {"params": {"x": 0.5}, "value": 1.0, **NOTHING}, "no value for 'kind'"),
    Wrong(
        "observed",
        {"params": HERE, "value": "much", **NOTHING},
        "value: need a number, got 'much'",
    ),
    Wrong("asked", {"number": 5, "params": HERE, "decision": WHY}, "need number 1, got 5"),
    Wrong("asked", {"number": 1, "params": {"x": 7.0, "kind": "a"}, "decision": WHY}, "x: "),
    Wrong("asked", {"number": 1, "params": HERE, "decision": {}}, "decision: reason must be one"),
    Wrong(
        "asked",
        {
            "number": 1,
            "params": HERE,
            "decision": WHY,
            "fit": {"theta": [0.0, 0.0], "lam2": -1, "omega2": 1},
        },
        "fit: ",
    ),
    Wrong(
        "told",
        {"number": 0, "time": None, "outcomes": {"control": {"value": 1.0, **NOTHING}}},
        "outcomes: need 'objective' or a metric, got 'control'",
        version=2,
    ),
    Wrong(
        "told",
        {"number": 0, "time": None, "outcomes": {}},
        "outcomes: need 'objective' or a metric, got none",
        version=2,
    ),
    Wrong(
        "told",
        {"number": 0},
        "version 9 of 'told'; this release of regretless reads up to version 3: upgrade it",
        version=9,
    ),
]


@pytest.mark.parametrize("wrong", WRONG, ids=lambda wrong: f"{wrong.kind}-{wrong.complaint[:20]}")
def test_an_event_that_makes_no_sense(file: Path, wrong: Wrong) -> None:
    with Study.open(file, "s", **SETTINGS) as study:
        work(study, limit=1)
        study.ask()
        study.abandon(1)
    with Journal.open(file) as journal:
        # Trial 1 is taken back, so that the event comes right after trial 0 was told.
        sql(file, "DELETE FROM regretless_events WHERE study = 's' AND seq > 3")
        journal.append("s", wrong.kind, wrong.body, version=wrong.version)
    before = file.read_bytes()
    for _ in range(2):
        with pytest.raises(CorruptJournalError, match="study 's', event 4: ") as raised:
            Study.open(file, "s", **SETTINGS)
        assert str(file) in str(raised.value)
        assert wrong.complaint in str(raised.value)
    assert file.read_bytes() == before


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ("{}", "event 'created', version 2: version: missing"),
        ('{"version": 3}', "version: need 2, got 3"),
        ('{"version": 2, "space": {}}', "budget: missing"),
        (json.dumps(rl.Optimizer(**SETTINGS).spec() | {"space": {}}), "parameters"),
        (
            json.dumps(rl.Optimizer(**SETTINGS).spec() | {"defaults": 7}),
            "this release knows version 1, 2, 3, 4, 5, got 7",
        ),
    ],
)
def test_a_study_without_sound_settings(file: Path, body: str, complaint: str) -> None:
    Study.open(file, "s", **SETTINGS).close()
    sql(file, f"UPDATE regretless_events SET body = '{body}' WHERE study = 's'")
    with pytest.raises(CorruptJournalError, match="study 's', event 1: ") as raised:
        Study.open(file, "s", **SETTINGS)
    assert complaint in str(raised.value)


def test_a_study_that_begins_with_something_else(storage: str) -> None:
    with Journal.open(storage) as journal:
        journal.append("s", "told", {})
        with pytest.raises(CorruptJournalError, match=r"event 1: .*'created', not 'told'"):
            Study.open(storage, "s", **SETTINGS)
        assert journal.last_seq("s") == 1


def test_an_older_journal_restored_under_an_open_study(file: Path) -> None:
    with Study.open(file, "s", **SETTINGS) as study:
        work(study, limit=2)
        sql(file, "DELETE FROM regretless_events WHERE study = 's' AND seq > 3")
        with pytest.raises(CorruptJournalError, match="event 5: missing, although it was read"):
            study.ask()


def test_an_older_journal_restored_that_others_went_on_from(file: Path) -> None:
    with Study.open(file, "s", **SETTINGS) as stale:
        trial = stale.ask()
        stale.tell(trial, 111.0)
        sql(file, "DELETE FROM regretless_events WHERE study = 's' AND seq > 2")
        with Study.open(file, "s") as other:
            other.tell(trial.number, -5.0)
            other.ask()
        for verb in (stale.ask, stale.best, lambda: stale.tell(trial, 111.0), stale.refresh):
            with pytest.raises(CorruptJournalError, match="event 3: not the one that was read"):
                verb()


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_while_the_journal_is_read(
    file: Path, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    with Study.open(file, "s", **SETTINGS) as study, Study.open(file, "s") as other:
        work(other, limit=3)
        apply = rl.Optimizer.apply

        def interrupted(self: rl.Optimizer, event: Any) -> None:
            if when == "after":
                apply(self, event)
            raise KeyboardInterrupt

        monkeypatch.setattr(rl.Optimizer, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            study.refresh()
        monkeypatch.undo()
        assert study.observations == 3
        assert study.ask() == other.trials[-1]


def test_those_who_ask_wait_for_others_of_their_study_alone(file: Path) -> None:
    with Journal.open(file) as one, Journal.open(file) as two:
        start = time.monotonic()
        with one.turn("a"), two.turn("b"):
            assert time.monotonic() - start < databases.TURN_SECONDS / 2


def sql(file: Path, statement: str) -> None:
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.execute(statement)


# -- time and age ---------------------------------------------------------------------------------

REPLAY = """
import sys, time
import regretless as rl
from regretless.studies.journal import Journal
start = time.process_time()
with rl.Study.open(sys.argv[1], "s") as study:
    print(time.process_time() - start, study.observations)
"""


def test_two_thousand_events_are_replayed_within_a_second(file: Path) -> None:
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(6)})
    optimizer = rl.Optimizer(space, 1000, n0=1000)
    Study.open(file, "s", space=space, budget=1000, n0=1000).close()
    for trial in optimizer:
        optimizer.tell(trial, float(trial.number))
    insert(file, optimizer.events)
    for _ in range(3):  # as quick once is as quick as needed: the machine may be busy
        command = [sys.executable, "-c", REPLAY, str(file)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        seconds, told = done.stdout.split()
        assert told == "1000"
        if float(seconds) < 1.0:
            return
    pytest.fail(f"{seconds} s for 2000 events")


def insert(file: Path, events: list[Event]) -> None:
    """Behind the journal's back: two thousand durable commits take ten seconds."""
    rows = []
    for seq, event in enumerate(events, start=2):
        kind, version, body = write(event)
        when = "2026-01-02T03:04:05.678901+00:00"
        rows.append(("s", seq, when, kind, version, json.dumps(body), str(seq)))
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.executemany("INSERT INTO regretless_events VALUES (?, ?, ?, ?, ?, ?, ?)", rows)


def test_a_study_of_release_0_1_goes_on(file: Path) -> None:
    dump = Path(__file__).parent / "assets" / "study-v1.sql"
    with closing(sqlite3.connect(file)) as conn:
        conn.executescript(dump.read_text())
    with Study.open(file, "clinic") as study:
        rows = study.history()
        assert [row.status for row in rows[:3]] == ["observed", "told", "told"]
        assert Counter(row.status for row in rows) == {
            "observed": 1,
            "told": 12,
            "abandoned": 1,
            "pending": 1,
        }
        assert study.budget == 24
        assert study.best().params["drug"] == "B"
        assert any(trial.decision.refitted for trial in study.trials)
        study.tell(study.pending[0], 0.5)
        assert study.ask().number == 14
        model = study.snapshot().optimizer.model
    assert model.tail == "linear"
    # The settings of old: what they did not have yet is no difference.
    Study.open(file, "clinic", model=replace(model, tail="log")).close()


def test_a_batch_is_as_long_as_the_budget_allows(tmp_path: Path) -> None:
    with Study.open(tmp_path / "s.db", "s", **SETTINGS | {"budget": 3}) as study:
        trials = study.ask(5, key="k", within_budget=True)
        assert [trial.number for trial in trials] == [0, 1, 2]
        trials[0].params.clear()  # its owner's business
        again = study.ask(5, key="k", within_budget=True)  # the answer went lost
        assert [trial.number for trial in again] == [0, 1, 2]
        assert again[0].params == study.history()[0].params != {}
        study.tell(trials[0], 1.0)
        assert len(study.pending) == 2
        with pytest.raises(rl.BudgetError):
            study.ask(5, within_budget=True)
        assert len(study.ask(np.int64(2))) == 2  # type: ignore[call-overload]


def test_events_beyond_the_last_are_a_wrong_question_and_no_damage(tmp_path: Path) -> None:
    with Study.open(tmp_path / "s.db", "s", **SETTINGS) as study:
        study.ask()
        assert len(study.events(1)) == 1
        assert len(study.events(0, limit=1)) == 1
        assert study.events(2) == []
        with pytest.raises(rl.ConfigError, match="after: the last event is 2, got 999"):
            study.events(999)


def test_a_choice_of_true_is_not_one_of_1(tmp_path: Path) -> None:
    def opened(choices: list[Any]) -> Study:
        space = rl.Space({"on": rl.Categorical(choices)})
        return Study.open(tmp_path / "s.db", "s", space=space, budget=5)

    opened([True, False]).close()
    opened([True, False]).close()
    with pytest.raises(rl.ConfigError, match=r"space: on: choices \[True, False\] there, \[1, 0\]"):
        opened([1, 0])


@pytest.mark.parametrize("place", [None, 5, b"s.db"])
def test_a_storage_of_the_wrong_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(rl.ConfigError, match="need a path or a database URL"):
        Study.open(place, "s", **SETTINGS)
    assert not list(tmp_path.iterdir())


def test_a_name_of_the_wrong_type(tmp_path: Path) -> None:
    with pytest.raises(rl.ConfigError, match="need 1 to 200 printable characters, got 5"):
        Study.open(tmp_path / "s.db", 5, **SETTINGS)  # type: ignore[arg-type]


def test_many_threads_with_a_study_each_share_a_journal(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More of them than the pool has connections, each of whom keeps one while it thinks."""
    set_patience(monkeypatch, "TURN_SECONDS", 120.0)  # nobody waits for so long, ever so busy
    with Journal.open(postgres.url()) as journal:
        names = [f"many {i}" for i in range(20)]
        studies = [Study.open(journal, name, **SETTINGS) for name in names]
        started, failed = time.monotonic(), []

        def ask_and_tell(study: Study) -> None:
            try:
                work(study, limit=2)
            except rl.RegretlessError as error:
                failed.append(error)

        threads = [threading.Thread(target=ask_and_tell, args=(study,)) for study in studies]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        assert time.monotonic() - started < 120.0
        assert {study.observations for study in studies} == {2}


def test_a_file_system_without_locks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fcntl = pytest.importorskip("fcntl")

    def unsupported(*arguments: object) -> None:
        raise OSError(errno.ENOTSUP, "not supported")

    monkeypatch.setattr(fcntl, "flock", unsupported)
    set_patience(monkeypatch, "TURN_SECONDS", 120.0)
    with Study.open(tmp_path / "s.db", "s", **SETTINGS) as study:
        started = time.monotonic()
        assert study.ask().number == 0
        assert time.monotonic() - started < 60.0


# A stand-in under a real name, so that its import takes long enough to fork in the middle of it.
SLOW_IMPORT = """
import sys, time
from importlib.machinery import ModuleSpec

class Slow:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self) if name == "scipy.optimize" else None

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        time.sleep(0.5)

sys.meta_path.insert(0, Slow())
"""
FORK_WHILE_IMPORTING = """
import os, sys, threading, time
from regretless import Study

study = Study.open(sys.argv[1], "s")
thread = threading.Thread(target=lambda: __import__("scipy.optimize"))
thread.start()
time.sleep(0.2)
child = os.fork()
if child == 0:
    __import__("scipy.optimize")
    os._exit(0)
thread.join()
print(os.waitpid(child, 0)[1])
"""


@needs_fork
def test_a_fork_waits_for_an_import(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the child the thread that imports does not exist, and its lock would never be free."""
    Study.open(tmp_path / "s.db", "s", **SETTINGS).close()
    (tmp_path / "run.py").write_text(SLOW_IMPORT + FORK_WHILE_IMPORTING)
    done = subprocess.run(
        [sys.executable, str(tmp_path / "run.py"), str(tmp_path / "s.db")],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.stdout.strip() == "0", done.stderr


# --- the version of the defaults ------------------------------------------------------------------


def test_a_study_is_created_with_a_version_of_the_defaults(file: Path) -> None:
    Study.open(file, "s", **SETTINGS, defaults=3).close()
    with Study.open(file, "s") as study:
        work(study, 4)
        assert study.events()[0].body["defaults"] == 3
    with pytest.raises(rl.ConfigError, match="defaults: 3 there, 2 here"):
        Study.open(file, "s", defaults=2)
