"""Studies that are archived, and studies that get another name."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

import regretless as rl
from regretless.engine import write
from regretless.studies.journal import Journal

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})
SETTINGS: dict[str, Any] = {"space": LINE, "budget": 20}


@pytest.fixture
def study(storage: str) -> Iterator[rl.Study]:
    with rl.Study.open(storage, "a", **SETTINGS) as study:
        trial = study.ask()
        study.tell(trial, 1.0)
        yield study


def listed(storage: str) -> dict[str, bool]:
    with Journal.open(storage) as journal:
        return {info.name: info.archived for info in journal.studies()}


# -- archived --------------------------------------------------------------------------------------


def test_an_archived_study_has_no_new_trials_but_takes_results(
    study: rl.Study, storage: str
) -> None:
    under_way = study.ask(key="k")
    with rl.Study.open(storage, "a") as other:
        other.archive()
        other.archive()
    assert study.archived
    for call in (study.ask, lambda: study.adopt({"x": 0.5}), lambda: next(iter(study))):
        with pytest.raises(rl.ArchivedError, match="study 'a' is archived: unarchive it first"):
            call()
    assert study.ask(key="k") == under_way  # it was asked before
    study.tell(under_way, 2.0)
    assert study.best().params
    assert study.snapshot().archived
    assert listed(storage) == {"a": True}
    study.unarchive()
    study.unarchive()
    assert study.ask().number == 2
    assert listed(storage) == {"a": False}
    kinds = [event.kind for event in study.events()]
    assert (kinds.count("archived"), kinds.count("unarchived")) == (1, 1)


def test_archiving_goes_on(study: rl.Study, storage: str) -> None:
    for _ in range(6):
        study.archive()
        assert listed(storage) == {"a": True}
        study.unarchive()
        assert listed(storage) == {"a": False}
    with rl.Study.open(storage, "a") as other:
        assert not other.archived


def test_an_archived_study_approves_nothing(storage: str) -> None:
    with rl.Study.open(storage, "r", mode="recommend", **SETTINGS) as study:
        study.ask(2)
        study.archive()
        with pytest.raises(rl.ArchivedError):
            study.approve(0)
        study.reject(1, "the project has ended")
        assert [row.status for row in study.history()] == ["proposed", "rejected"]


def test_archived_while_a_proposal_is_computed(
    study: rl.Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    propose = rl.Optimizer.propose

    def slow(self: rl.Optimizer, context: Any = None) -> Any:
        event = propose(self)
        with rl.Study.open(storage, "a") as other:
            other.archive()
        return event

    monkeypatch.setattr(rl.Optimizer, "propose", slow)
    with pytest.raises(rl.ArchivedError):
        study.ask()
    assert study.asked == 1


def test_the_next_suggestion_does_not_depend_on_it(study: rl.Study) -> None:
    before = write(study.snapshot().optimizer.propose())
    study.archive()
    study.unarchive()
    study.rename("b")
    assert write(study.snapshot().optimizer.propose()) == before


# -- renamed ---------------------------------------------------------------------------------------


def test_no_event_is_lost(study: rl.Study, storage: str) -> None:
    before = study.events()
    rows = study.history()
    study.rename("b")
    assert study.name == "b"
    moved = study.events()
    fields = [(e.seq, e.time, e.kind, e.body, e.key) for e in moved]
    assert fields[:-1] == [(e.seq, e.time, e.kind, e.body, e.key) for e in before]
    assert (moved[-1].kind, moved[-1].body) == ("renamed", {"old": "a", "new": "b"})
    assert study.history() == rows
    trial = study.ask()  # the object goes on
    study.tell(trial, 1.0)
    with rl.Study.open(storage, "b") as other:
        assert other.history() == study.history()
    assert list(listed(storage)) == ["b"]


def test_who_has_the_old_name_is_told_the_new_one(study: rl.Study, storage: str) -> None:
    with rl.Study.open(storage, "a") as old:
        trial = old.ask()
        study.rename("b")
        study.rename("c")
        says = "study 'a' was renamed: it is 'c' now"
        for call in (
            old.ask,
            lambda: old.tell(trial, 1.0),
            old.history,
            old.archive,
            lambda: old.observe({"x": 0.1}, 1.0),
            lambda: old.rename("d"),
            lambda: rl.Study.open(storage, "a"),
            lambda: rl.Study.open(storage, "a", **SETTINGS),  # nor is an empty one created
        ):
            with pytest.raises(rl.UnknownStudyError, match=says):
                call()
    study.tell(trial, 1.0)  # the trial is still there
    assert list(listed(storage)) == ["c"]


def test_a_fresh_study_that_is_renamed_under_somebody(storage: str) -> None:
    with rl.Study.open(storage, "a", **SETTINGS) as one, rl.Study.open(storage, "a") as two:
        one.rename("b")
        with pytest.raises(rl.UnknownStudyError, match="it is 'b' now"):
            two.ask()


def test_renamed_in_the_middle_of_a_tell(
    study: rl.Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = study.ask()
    append = Journal.append_if

    def late(journal: Journal, *args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        with rl.Study.open(storage, "a") as other:
            other.rename("b")
        return append(journal, *args, **options)

    monkeypatch.setattr(Journal, "append_if", late)
    with pytest.raises(rl.UnknownStudyError, match="it is 'b' now"):
        study.tell(trial, 2.0)
    with rl.Study.open(storage, "b") as new:
        assert [each.number for each in new.pending] == [1]
        new.tell(1, 2.0)


def test_a_name_that_is_or_was_taken(study: rl.Study, storage: str) -> None:
    with rl.Study.open(storage, "b", **SETTINGS) as other:
        with pytest.raises(rl.ConfigError, match="another study is or was called 'b'"):
            study.rename("b")
        other.rename("c")
        with pytest.raises(rl.ConfigError, match="another study is or was called 'b'"):
            study.rename("b")
        other.rename("b")  # its own old name comes back
        other.rename("c")
        other.rename("d")
        other.rename("b")
        assert other.refresh() == 6
    assert list(listed(storage)) == ["a", "b"]
    for name in ("c", "d"):
        with pytest.raises(rl.UnknownStudyError, match="it is 'b' now"):
            rl.Study.open(storage, name)


@pytest.mark.parametrize("name", ["", "x" * 201, "a\nb", None, 5])
def test_a_name_that_can_t_be(study: rl.Study, name: Any) -> None:
    before = study.refresh()
    with pytest.raises(rl.ConfigError, match="name: need 1 to 200 printable characters"):
        study.rename(name)
    study.rename("a")  # its own: nothing happens
    assert study.refresh() == before


def test_two_rename_at_once(study: rl.Study, storage: str) -> None:
    names: list[str] = []
    barrier = threading.Barrier(3)

    def rename(new: str) -> None:
        with rl.Study.open(storage, "a") as mine:
            barrier.wait()
            try:
                mine.rename(new)
                names.append(new)
            except rl.UnknownStudyError:
                pass

    threads = [threading.Thread(target=rename, args=(name,)) for name in "bcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names) == 1
    assert list(listed(storage)) == names


def test_a_rename_whose_answer_was_lost(study: rl.Study, storage: str) -> None:
    body = {"old": "a", "new": "b"}
    with Journal.open(storage) as journal:
        for _ in range(2):
            journal.rename("a", "b", body)
        with pytest.raises(rl.UnknownStudyError, match="there is no study 'z'"):
            journal.rename("z", "y", body)
        assert journal.last_seq("b") == 4


def test_a_read_only_journal_renames_nothing(tmp_path: Path) -> None:
    file = tmp_path / "s.db"
    rl.Study.open(file, "a", **SETTINGS).close()
    with rl.Study.open(file, "a", read_only=True) as study:
        for call in (lambda: study.rename("b"), study.archive):
            with pytest.raises(rl.StorageError, match="opened read-only"):
                call()
