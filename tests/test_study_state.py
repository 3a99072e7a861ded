"""How a study keeps its state: short ways to the journal, interrupted folds, times, old studies."""

from __future__ import annotations

import os
import sqlite3
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import regretless as rl

sa = pytest.importorskip("sqlalchemy")

from regretless.engine import write  # noqa: E402
from regretless.model import Belief  # noqa: E402
from regretless.model.data import Data  # noqa: E402
from regretless.studies.journal import Journal  # noqa: E402
from regretless.studies.state import State  # noqa: E402

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 30, "seed": 5, "n0": 3}
HERE = {"x": 0.5, "kind": "a"}
NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)
SOURCE = os.path.dirname(rl.__file__)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def study(file: Path) -> Iterator[rl.Study]:
    with rl.Study.open(file, "s", **SETTINGS) as study:
        yield study


def work(study: rl.Study, trials: int) -> None:
    for trial in study.ask(trials):
        study.tell(trial, float(trial.params["x"]) * (1 + trial.number % 3))  # type: ignore[arg-type]


# -- the way of a tell -----------------------------------------------------------------------------


def test_a_tell_takes_a_short_way_to_the_commit(
    study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(study, 6)
    trial = study.ask()  # with all the numbers of a decision and of a fit in its event
    commit, calls, commits = sa.Connection.commit, [], []

    def noted(conn: Any) -> None:
        commits.append(len(calls))
        commit(conn)

    def profile(frame: Any, event: str, arg: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(SOURCE):
            calls.append(frame.f_code)

    monkeypatch.setattr(sa.Connection, "commit", noted)
    sys.setprofile(profile)
    try:
        study.tell(trial, 0.5)
    finally:
        sys.setprofile(None)
    looked, appended = commits  # one transaction to read, one to write, and none after it
    before = calls[:appended]
    names = [f"{os.path.relpath(code.co_filename, SOURCE)}: {code.co_name}" for code in before]
    files = {code.co_filename for code in before}
    assert 0 < looked < appended
    assert len(before) <= 60, names
    assert len(files) <= 6, files


def test_no_copy_is_made_for_a_tell(study: rl.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    trial = study.ask()

    def copied(*args: object) -> None:
        raise AssertionError

    monkeypatch.setattr(rl.Optimizer, "copy", copied)
    monkeypatch.setattr(State, "copy", copied)
    study.tell(trial, 1.0)
    study.observe(HERE, 1.0)
    study.extend(40)
    assert study.observations == 2


def test_what_was_computed_for_a_proposal_is_not_computed_again(
    study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(study, 5)
    fits: list[object] = []
    with_fit = Belief.with_fit
    monkeypatch.setattr(Belief, "with_fit", lambda *args: fits.append(args) or with_fit(*args))
    asked = refitted = 0
    while not refitted or asked < 3:
        trial = study.ask()
        asked, refitted = asked + 1, refitted + trial.decision.refitted
        assert len(fits) == refitted  # the fit itself, and none when its event was folded
        known = study._state.optimizer._belief
        assert known.posterior is not None
        assert known.included == len(known.told)
        study.tell(trial, 0.5)


# -- interrupted -----------------------------------------------------------------------------------


def interrupt(monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    """Ctrl-C before or after the optimiser takes an event in, or in the middle of it."""
    apply = rl.Optimizer.apply

    def interrupted(self: rl.Optimizer, event: Any) -> None:
        if when == "after":
            apply(self, event)
        if when == "within":
            monkeypatch.setattr(rl.Optimizer, "_learn", stop)
            apply(self, event)
        raise KeyboardInterrupt

    def stop(*args: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(rl.Optimizer, "apply", interrupted)


@pytest.mark.parametrize("when", ["before", "within", "after"])
def test_ctrl_c_after_the_commit_of_a_tell(
    file: Path, study: rl.Study, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    work(study, 4)
    trial = study.ask()
    interrupt(monkeypatch, when)
    with pytest.raises(KeyboardInterrupt):
        study.tell(trial, 0.25)
    monkeypatch.undo()
    assert study.history()[-1].value == 0.25  # it is on disk, and counts once
    assert (study.observations, study.pending) == (5, [])
    study.tell(trial, 0.25)
    with rl.Study.open(file, "s") as other:
        views = [each.snapshot().optimizer for each in (study, other)]
    assert write(views[0].propose()) == write(views[1].propose())
    assert views[0].history() == views[1].history()


def test_a_state_built_anew_still_knows_its_own_trials(
    study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second = study.ask(2)
    first.params.clear()  # its owner's business
    interrupt(monkeypatch, "within")
    with pytest.raises(KeyboardInterrupt):
        study.tell(second, 1.0)
    monkeypatch.undo()
    study.tell(first, 2.0)
    assert [row.value for row in study.history()] == [2.0, 1.0]


def test_an_interrupted_state_is_not_built_anew_over_a_restored_backup(
    file: Path, study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = study.ask()
    interrupt(monkeypatch, "within")
    with pytest.raises(KeyboardInterrupt):
        study.tell(trial, 1.0)
    monkeypatch.undo()
    with closing(sqlite3.connect(file)) as conn, conn:
        conn.execute("DELETE FROM regretless_events WHERE study = 's' AND seq > 1")
    with pytest.raises(rl.CorruptJournalError, match="event 2: missing, although it was read"):
        study.refresh()


def test_an_event_of_a_newer_release_that_slips_in_stops_a_write(
    file: Path, study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = study.ask()
    append = Journal.append_if

    def append_second(journal: Journal, *args: Any, **options: Any) -> Any:
        journal.append("s", "told", {"new": True}, version=9)
        return append(journal, *args, **options)

    monkeypatch.setattr(Journal, "append_if", append_second)
    with pytest.raises(rl.CorruptJournalError, match=r"event 3: version 9 of 'told'.*upgrade"):
        study.tell(trial, 1.0)
    with Journal.open(file) as journal:
        assert journal.last_seq("s") == 3


# -- times -----------------------------------------------------------------------------------------


def test_a_result_has_its_own_time_or_that_of_its_line(study: rl.Study, file: Path) -> None:
    first, second = study.ask(2)
    study.tell(first, 1.0, time=NOON)
    study.tell(second, 2.0)
    study.observe(HERE, 3.0, time=NOON - timedelta(days=9))
    study.ask()
    *_, line, _, _ = study.events()
    expected = [NOON - timedelta(days=9), NOON, line.time, None]
    assert [row.time for row in study.history()] == expected
    with rl.Study.open(file, "s") as other:
        assert [row.time for row in other.history()] == expected
        saved = rl.Optimizer.from_json(other.snapshot().optimizer.to_json())
    assert [row.time for row in saved.history()] == expected
    bodies = [event.body["time"] for event in study.events() if "time" in event.body]
    assert bodies == [NOON.isoformat(), None, (NOON - timedelta(days=9)).isoformat()]


def test_told_again_at_another_time_nothing_happens(study: rl.Study) -> None:
    trial = study.ask()
    study.tell(trial, 1.0, time=NOON)
    study.tell(trial, 1.0)
    study.tell(trial, 1.0, time=NOON + timedelta(hours=1))
    for hours in (0, 1):
        study.observe(HERE, 2.0, time=NOON + timedelta(hours=hours), key="k")
    assert [row.time for row in study.history()] == [NOON, NOON]
    assert Counter(event.kind for event in study.events())["told"] == 1
    with pytest.raises(rl.TrialError, match="can't be changed"):
        study.tell(trial, 1.5, time=NOON)


def test_a_time_without_a_zone_is_refused(study: rl.Study) -> None:
    trial = study.ask()
    for call in (
        lambda: study.tell(trial, 1.0, time=datetime(2026, 1, 31)),
        lambda: study.observe(HERE, 1.0, time=datetime(2026, 1, 31)),
    ):
        with pytest.raises(rl.DataError, match="time: need a datetime with a time zone, got date"):
            call()
    assert study.refresh() == 2


# -- old studies -----------------------------------------------------------------------------------


def restored(file: Path, name: str) -> None:
    dump = Path(__file__).parent / "assets" / name
    with closing(sqlite3.connect(file)) as conn:
        conn.executescript(dump.read_text())


def test_a_study_of_version_2_goes_on(file: Path) -> None:
    restored(file, "study-v2.sql")
    with rl.Study.open(file, "clinic") as study:
        rows = study.history()
        assert Counter(row.status for row in rows) == {
            "observed": 2,
            "told": 9,
            "abandoned": 1,
            "pending": 1,
        }
        assert (study.budget, study.remaining) == (24, 13)
        assert [(row.value, row.sem, row.count) for row in rows[:2]] == [
            (-0.01, 0.02, 1.0),
            (-0.4, None, 5.0),
        ]
        assert rows[0].time == datetime(2025, 12, 24, 18, 30, tzinfo=UTC)
        assert rows[1].time == datetime(2026, 11, 18, 1, 21, 5, 597_932, UTC)  # of its line
        assert rows[6].time == datetime(2026, 2, 3, 4, 5, 6, 789, UTC)
        assert rows[4].count == 3.0
        assert study.events()[8].body["key"] == "request 7"
        assert study.best().params["drug"] == "B"
        assert any(trial.decision.refitted for trial in study.trials)
        assert study.ask(key="first").number == 0
        study.extend(24, key="more")
        study.abandon(6, key="gone")
        study.observe({"dose": 1.0, "visits": 4, "drug": "A"}, -0.01, sem=0.02, key="pilot")
        assert study.adopt({"dose": 2.0, "visits": 6, "drug": "B"}, key="today's").number == 10
        assert study.refresh() == 25  # all of that was there
        study.tell(10, 0.5)
        assert study.ask().number == 11


def test_results_of_version_1_have_the_time_of_their_lines(file: Path) -> None:
    restored(file, "study-v1.sql")
    with rl.Study.open(file, "clinic") as study:
        lines = [e for e in study.events() if e.kind in ("told", "observed")]
        assert {line.version for line in lines} == {1}
        times = [row.time for row in study.history() if row.value is not None]
        assert times == [line.time for line in lines]
        study.observe({"dose": 1.0, "visits": 4, "drug": "A"}, -0.01, sem=0.02, key="pilot")
        study.tell(study.pending[0], 0.5)
        assert study.events()[-1].version == 2
        assert len(study.history()) == len(times) + 2


# -- a replay --------------------------------------------------------------------------------------


def test_a_replay_puts_the_results_together_once(
    study: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    for i in range(40):
        study.tell(study.adopt({"x": (i % 7) / 7, "kind": "a"}), float(i))
        one_by_one = study._state.optimizer._belief.data  # looked at after each result
    adds, add = [], Data.add

    def noted(data: Data, *args: Any) -> Any:
        adds.append(args)
        return add(data, *args)

    monkeypatch.setattr(Data, "add", noted)
    replayed = State.of(study._journal, "s").optimizer._belief.data
    assert not adds
    for name in ("x", "y", "weight", "count"):
        assert getattr(replayed, name).tobytes() == getattr(one_by_one, name).tobytes()
    assert (replayed.scatter, replayed.constant) == (one_by_one.scatter, one_by_one.constant)
