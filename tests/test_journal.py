"""The journal on a real SQLite and a real PostgreSQL: nothing acknowledged is ever lost."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from conftest import PASSWORD, PostgresServer, set_patience
from regretless.errors import (
    ConfigError,
    CorruptJournalError,
    DataError,
    StaleError,
    StorageError,
)

sa = pytest.importorskip("sqlalchemy")

from regretless.studies import database as databases  # noqa: E402
from regretless.studies import journal as journal_module  # noqa: E402
from regretless.studies.journal import Journal, StoredEvent  # noqa: E402

# Forked, so that a process is there in milliseconds; each opens a journal of its own.
PROCESSES: Any = multiprocessing.get_context("fork" if hasattr(os, "fork") else "spawn")


@pytest.fixture
def journal(storage: str) -> Iterator[Journal]:
    with Journal.open(storage) as journal:
        yield journal


def sql(storage: str, statement: str, *values: Any) -> list[Any]:
    """Meddle with the database behind the journal's back."""
    if not storage.startswith("postgresql"):
        with closing(sqlite3.connect(storage)) as file, file:
            return file.execute(statement, values).fetchall()
    import psycopg

    with psycopg.connect(storage) as conn:
        cursor = conn.execute(statement.replace("?", "%s"), values)
        return cursor.fetchall() if cursor.description else []


def bodies(events: list[StoredEvent]) -> list[dict[str, Any]]:
    return [event.body for event in events]


# -- reading and writing ------------------------------------------------------------------------


def test_what_was_appended_is_read_back(storage: str) -> None:
    before = datetime.now(UTC)
    with Journal.open(storage) as journal:
        written = [
            journal.append(
                "a", "created", {"x": 0.1 + 0.2, "list": [1, None, True, "ü\x00\ud800"]}
            ),
            journal.append("b", "created", {}),
            journal.append("a", "told", {"value": -1e-300, "big": 2**70}, version=2, key="told 1"),
        ]
    with Journal.open(storage, create=False) as journal:
        assert journal.read("a") == [written[0], written[2]]
        assert journal.read("b") == [written[1]]
        assert journal.read("nobody") == []
    assert [event.seq for event in written] == [1, 1, 2]
    assert (written[2].key, written[2].version) == ("told 1", 2)
    assert all(before <= event.time <= datetime.now(UTC) for event in written)


def test_read_after_and_limit(journal: Journal) -> None:
    events = [journal.append("s", "n", {"n": n}) for n in range(5)]
    assert journal.read("s", after=2) == events[2:]
    assert journal.read("s", after=5) == []
    assert journal.read("s", limit=2) == events[:2]
    assert journal.read("s", after=1, limit=2) == events[1:3]
    assert journal.last_seq("s") == 5
    assert journal.last_seq("nobody") == 0


def test_studies(journal: Journal) -> None:
    assert journal.studies() == []
    first = journal.append("zebra", "n", {})
    last = journal.append("zebra", "n", {})
    other = journal.append("Ärger", "n", {})
    zebra, umlaut = journal.studies()
    assert (zebra.name, zebra.events, zebra.first, zebra.last) == (
        "zebra",
        2,
        first.time,
        last.time,
    )
    assert (umlaut.name, umlaut.events, umlaut.first) == ("Ärger", 1, other.time)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=10,
)


@settings(max_examples=50)
@given(st.dictionaries(st.text(), json_values | st.text(), max_size=5))
def test_json_round_trip_is_exact(body: dict[str, Any]) -> None:
    text, again = journal_module._dump("kind", body)
    assert repr(again) == repr(journal_module._load(text)) == repr(body)


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"x": float("nan")}, "JSON"),
        ({"x": float("inf")}, "JSON"),
        ({"x": object()}, "object"),
        ({1: "a number as a key"}, "cannot be stored as JSON without a change"),
        ({"x": (1, 2)}, "cannot be stored as JSON without a change"),
        ({"x": "y" * journal_module.MAX_BODY}, "at most"),
        ([1], "not an object"),
    ],
)
def test_a_body_that_is_not_json_is_refused(tmp_path: Path, body: Any, complaint: str) -> None:
    with Journal.open(tmp_path / "j.db") as journal:
        with pytest.raises(DataError, match=complaint):
            journal.append("s", "told", body)
        assert journal.read("s") == []


@pytest.mark.parametrize("name", ["", "x" * 201, "a\x00b", "line\n", "\ud800"])
def test_names_are_short_and_printable(tmp_path: Path, name: str) -> None:
    with Journal.open(tmp_path / "j.db") as journal:
        for study, kind, key in (name, "k", None), ("s", name, None), ("s", "k", name):
            with pytest.raises(ConfigError, match="printable"):
                journal.append(study, kind, {}, key=key)
        with pytest.raises(ConfigError, match="study: need"):
            journal.read(name)


def test_the_file_is_durable_wal(tmp_path: Path) -> None:
    with Journal.open(f"sqlite:///{tmp_path}/j.db") as journal, journal._engine.connect() as conn:
        assert conn.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert conn.exec_driver_sql("PRAGMA synchronous").scalar() in (2, 3)  # FULL or EXTRA


def test_a_relative_path_stays_where_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    with Journal.open("sqlite:///j #1?.db".replace("?", "%3F")) as journal:
        monkeypatch.chdir("elsewhere")
        journal.append("s", "n", {})
    assert not list((tmp_path / "elsewhere").iterdir())


# -- conditions ---------------------------------------------------------------------------------


def test_a_known_key_returns_the_first_event(journal: Journal) -> None:
    first = journal.append("s", "told", {"value": 1}, key="told 7")
    assert journal.append("s", "told", {"value": 2}, key="told 7") == first
    checked: list[StoredEvent] = []
    assert journal.append_if("s", "told", {}, checked.extend, after=0, key="told 7") == first
    assert not checked
    assert journal.append("other", "told", {"value": 3}, key="told 7").body == {"value": 3}
    assert journal.last_seq("s") == 1


def test_expected_seq(journal: Journal) -> None:
    journal.append("s", "created", {}, expected_seq=1)
    for wrong in 1, 3:
        with pytest.raises(StaleError, match=f"study 's': event {wrong} was to be next, but 2 is"):
            journal.append("s", "created", {}, expected_seq=wrong)
    assert journal.append("s", "n", {}, expected_seq=2).seq == 2


def test_append_if_shows_what_is_new_and_may_refuse(journal: Journal) -> None:
    events = [journal.append("s", "n", {"n": n}) for n in range(3)]
    seen: list[StoredEvent] = []
    event = journal.append_if("s", "n", {"n": 3}, seen.extend, after=1)
    assert seen == events[1:]
    assert event.seq == 4

    def refuse(new: list[StoredEvent]) -> None:
        raise StaleError(f"{len(new)} new")

    with pytest.raises(StaleError, match="1 new"):
        journal.append_if("s", "n", {}, refuse, after=3)
    assert journal.last_seq("s") == 4
    journal.append("s", "n", {})  # the lock is free again


def test_append_all_is_one_transaction(journal: Journal) -> None:
    known = journal.append("s", "n", {"n": 0}, key="a")
    seen: list[StoredEvent] = []
    entries = [("n", 1, {"n": n}, key) for n, key in enumerate(("b", "a", None, "b"))]
    events = journal.append_all("s", entries, seen.extend, after=1)
    assert [event.seq for event in events] == [2, 1, 3, 2]
    assert events[1] == known
    assert events[0].body == {"n": 0}
    assert seen == []
    assert journal.read("s") == [known, events[0], events[2]]

    def refuse(new: list[StoredEvent]) -> None:
        raise StaleError(f"{len(new)} new")

    assert journal.append_all("s", entries[:2], refuse, after=0) == events[:2]  # nothing is new
    with pytest.raises(StaleError, match="2 new"):
        journal.append_all("s", [("n", 1, {}, None), ("n", 1, {}, "c")], refuse, after=1)
    with pytest.raises(DataError, match="cannot be JSON"):
        journal.append_all("s", [("n", 1, {}, "d"), ("n", 1, {"x": {1}}, "e")])
    assert journal.append_all("s", []) == []
    assert journal.last_seq("s") == 3


def test_the_keys_of_many_events_are_looked_up_at_once(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.append("s", "a", {"n": 0}, key="10")
    statements: list[str] = []
    sa.event.listen(
        journal._engine, "before_cursor_execute", lambda *args: statements.append(args[2])
    )
    few = journal.append_all("s", [("a", 1, {"n": 1}, "few")])
    of_one = len(statements)
    many = [("a", 1, {"n": i}, str(i)) for i in range(200)]
    stored = journal.append_all("s", many)
    assert len(statements) == 2 * of_one
    assert stored[10].seq == 1
    assert stored[10].body == {"n": 0}
    assert [event.key for event in stored] == [entry[3] for entry in many]
    monkeypatch.setattr(journal_module, "MOST_KEYS", 7)  # several queries
    assert journal.append_all("s", many) == stored
    assert journal.last_seq("s") == few[0].seq + 199


def test_waiting_for_another_writer_has_an_end(
    storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, "WAIT_SECONDS", 0.1)
    with Journal.open(storage) as one, Journal.open(storage) as two:
        with one._engine.connect() as conn:
            one._backend.lock(conn, "s")
            if storage.startswith("postgresql"):
                conn.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
            start = time.monotonic()
            with pytest.raises(StorageError, match="lock"):
                two.append("s", "n", {})
            assert 0.1 < time.monotonic() - start < databases.WAIT_SECONDS
            assert two.read("s") == []  # readers do not wait
        two.append("s", "n", {})


def test_a_writer_frozen_at_the_lock_is_dropped(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    set_patience(monkeypatch, "WAIT_SECONDS", 0.2)
    calls: list[int] = []
    with Journal.open(postgres_url) as one, Journal.open(postgres_url) as two:

        def freeze(new: list[StoredEvent]) -> None:
            calls.append(len(new))
            if len(calls) == 1:
                two.append("s", "n", {"by": "two"})  # waits until the server drops `one`

        assert one.append_if("s", "n", {"by": "one"}, freeze, after=0).seq == 2
    assert calls == [0, 1]


# -- many at once -------------------------------------------------------------------------------


def write_many(url: str, worker: int, number: int, start: Any) -> None:
    start.wait()
    with Journal.open(url) as journal:  # all create it at once
        for n in range(number):
            journal.append("s", "n", {"worker": worker, "n": n})


def test_eight_processes_number_without_gaps(storage: str) -> None:
    workers, number = 8, 25
    start = PROCESSES.Barrier(workers)
    processes = [
        PROCESSES.Process(target=write_many, args=(storage, worker, number, start))
        for worker in range(workers)
    ]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * workers
    with Journal.open(storage, create=False) as journal:
        events = journal.read("s")  # which checks the numbers
    assert len(events) == workers * number
    for worker in range(workers):
        own = [event.body["n"] for event in events if event.body["worker"] == worker]
        assert own == list(range(number))


def test_optimistic_writers_never_share_a_number(storage: str) -> None:
    """Threads that read, decide and append with `expected_seq`, as a careful counter would."""

    def count_up(journal: Journal) -> None:
        done = 0
        while done < 10:
            events = journal.read("s")
            total = events[-1].body["total"] if events else 0
            try:
                journal.append("s", "n", {"total": total + 1}, expected_seq=len(events) + 1)
                done += 1
            except StaleError:
                pass

    with Journal.open(storage) as journal:
        threads = [threading.Thread(target=count_up, args=(journal,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert [body["total"] for body in bodies(journal.read("s"))] == list(range(1, 41))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_may_use_the_journal(journal: Journal) -> None:
    journal.append("s", "n", {"from": "parent"})
    child = PROCESSES.Process(target=journal.append, args=("s", "n", {"from": "child"}))
    child.start()
    journal.append("t", "n", {})
    child.join()
    assert child.exitcode == 0
    journal.append("s", "n", {"from": "parent"})
    assert [b["from"] for b in bodies(journal.read("s"))] == ["parent", "child", "parent"]


# -- crashes ------------------------------------------------------------------------------------


def write_until_killed(url: str, run: int, acknowledgements: int) -> None:
    with Journal.open(url) as journal:
        for n in range(100_000):
            journal.append("s", "n", {"run": run, "n": n})
            os.write(acknowledgements, b".")


def kill_a_writer(url: str, run: int, chance: random.Random) -> int:
    """Start a writer, kill it, and return how many appends it saw acknowledged."""
    reader, writer = os.pipe()
    process = PROCESSES.Process(target=write_until_killed, args=(url, run, writer))
    process.start()
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        seen = len(pipe.read(chance.randrange(10)))  # 0: it may still be opening the journal
        time.sleep(chance.uniform(0, 0.01))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        return seen + len(pipe.read())


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no SIGKILL on this system")
@pytest.mark.parametrize("kills", [10, pytest.param(100, marks=pytest.mark.slow)])
def test_kill_9_loses_nothing_acknowledged(storage: str, kills: int) -> None:
    chance = random.Random(kills)
    with Journal.open(storage) as journal:
        for run in range(kills):
            acknowledged = kill_a_writer(storage, run, chance)
            journal.append("s", "survivor", {"run": run})  # the study goes on
            mine = [e for e in journal.read("s") if e.body["run"] == run and e.kind == "n"]
            assert [event.body["n"] for event in mine] == list(range(len(mine)))
            # The last one may have been committed and killed before it could say so.
            assert acknowledged <= len(mine) <= acknowledged + 1


class StubbornWriter(threading.Thread):
    """Appends 0, 1, 2, …, each with its key, and each again until it is acknowledged."""

    def __init__(self, url: str) -> None:
        super().__init__()
        self.url = url
        self.written = 0
        self.errors: list[str] = []
        self.enough = threading.Event()

    def run(self) -> None:
        with Journal.open(self.url) as journal:
            while not self.enough.is_set():
                try:
                    journal.append("s", "n", {"n": self.written}, key=f"n {self.written}")
                    self.written += 1
                except StorageError as error:
                    self.errors.append(str(error))
                    time.sleep(0.02)

    def wait_for(self, condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 30
        while not condition():
            assert self.is_alive()
            assert time.monotonic() < deadline, self.errors
            time.sleep(0.01)


@pytest.mark.parametrize("crashes", [2, pytest.param(20, marks=pytest.mark.slow)])
def test_a_crashing_server_loses_and_doubles_nothing(
    postgres: PostgresServer, postgres_url: str, crashes: int
) -> None:
    chance = random.Random(crashes)
    writer = StubbornWriter(postgres_url)
    writer.start()
    try:
        for _ in range(crashes):
            written, errors = writer.written, len(writer.errors)
            writer.wait_for(lambda written=written: writer.written > written)  # type: ignore[misc]
            time.sleep(chance.uniform(0, 0.1))
            postgres.stop("immediate")
            try:
                writer.wait_for(lambda errors=errors: len(writer.errors) > errors)  # type: ignore[misc]
            finally:
                postgres.start()
        written = writer.written
        writer.wait_for(lambda: writer.written > written)
    finally:
        writer.enough.set()
        writer.join()
    with Journal.open(postgres_url) as journal:
        assert [body["n"] for body in bodies(journal.read("s"))] == list(range(writer.written))
    for message in writer.errors:
        assert message.startswith("PostgreSQL database 'postgres'")
        assert f"at 127.0.0.1:{postgres.port}" in message
        assert PASSWORD not in message


@pytest.mark.parametrize("default", ["off", "local", "on"])
def test_a_commit_is_durable_where_the_server_s_default_is_not(
    postgres_url: str, default: str
) -> None:
    """An append sets synchronous_commit for its own transaction, and never makes it weaker."""
    seen: list[Any] = []

    def note(conn: Any) -> None:
        seen.append(conn.exec_driver_sql("SHOW synchronous_commit").scalar())

    with Journal.open(f"{postgres_url}%20-csynchronous_commit%3D{default}") as journal:
        with journal._engine.connect() as conn:
            note(conn)
        sa.event.listen(journal._engine, "commit", note)  # called right before each commit
        journal.append("s", "n", {})
        journal.append_if("s", "n", {}, lambda new: None, after=1)
    kept = "on" if default == "off" else default
    assert seen == [default, kept, kept]


def disconnect_all(url: str) -> None:
    sql(
        url,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE datname = current_database() AND pid <> pg_backend_pid()",
    )


def test_a_dead_connection_is_replaced_without_an_error(postgres_url: str) -> None:
    with Journal.open(postgres_url) as journal:
        journal.append("s", "n", {})
        disconnect_all(postgres_url)
        assert journal.append("s", "n", {}).seq == 2
        disconnect_all(postgres_url)
        assert len(journal.read("s")) == 2
        checks = []

        def cut(new: list[StoredEvent]) -> None:
            checks.append(len(new))
            if len(checks) == 1:
                disconnect_all(postgres_url)

        assert journal.append_if("s", "n", {}, cut, after=1).seq == 3
        assert checks == [1, 1]


def test_a_lost_acknowledgement_does_not_double(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = sa.Connection.commit
    lost: list[Any] = []

    def commit_and_lose(conn: Any) -> None:
        commit(conn)
        if not lost:
            lost.append(conn)
            cause = OSError("server closed the connection unexpectedly")
            raise sa.exc.DBAPIError("COMMIT", None, cause, connection_invalidated=True)

    with Journal.open(postgres_url) as journal:
        monkeypatch.setattr(sa.Connection, "commit", commit_and_lose)
        event = journal.append("s", "n", {"n": 1})
        assert lost
        assert journal.read("s") == [event]


# -- what is there is never replaced ------------------------------------------------------------


def filled(path: Path) -> Path:
    with Journal.open(path) as journal:
        for n in range(20):
            journal.append("s", "n", {"n": n, "filler": "x" * 1000})
    return path


def refuse_and_leave(path: Path, match: str) -> None:
    """Opening and reading fails in a way that says what and where, and changes not a byte."""
    before = path.read_bytes()
    for read_only in True, False:
        with (
            pytest.raises(CorruptJournalError, match=match) as raised,
            Journal.open(path, read_only=read_only) as journal,
        ):
            journal.read("s")
        assert str(path) in str(raised.value)
    assert path.read_bytes() == before


@pytest.mark.parametrize("keep", [0, 1, 99, 100, 4095, 4096, 12_288, -4096, -1])
def test_a_truncated_file(tmp_path: Path, keep: int) -> None:
    path = filled(tmp_path / "j.db")
    with path.open("r+b") as file:
        file.truncate(keep % path.stat().st_size)
    refuse_and_leave(path, "empty|not a database|malformed|truncated|its tables: none")


def test_a_file_that_is_no_database(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("a shopping list\n" * 100)
    refuse_and_leave(path, "not a database")


def test_somebody_elses_database(tmp_path: Path) -> None:
    path = tmp_path / "music.db"
    sql(str(path), "CREATE TABLE albums (title TEXT)")
    refuse_and_leave(path, "not a regretless journal .its tables: albums")


def test_a_log_without_its_database(tmp_path: Path) -> None:
    path = tmp_path / "j.db"
    (tmp_path / "j.db-wal").write_bytes(b"events")
    with pytest.raises(CorruptJournalError, match=r"j\.db-wal has events"):
        Journal.open(path)
    assert not path.exists()


@pytest.mark.parametrize(
    ("meddle", "complaint"),
    [
        (
            "ALTER TABLE regretless_events RENAME COLUMN body TO content",
            "it has the columns content",
        ),
        ("DELETE FROM regretless_events WHERE seq = 0", "no header row"),
        ("UPDATE regretless_events SET version = 7 WHERE seq = 0", "schema version 7"),
    ],
)
def test_a_foreign_or_newer_table(storage: str, meddle: str, complaint: str) -> None:
    Journal.open(storage).close()
    sql(storage, meddle)
    rows = sql(storage, "SELECT * FROM regretless_events")
    with pytest.raises(CorruptJournalError, match=complaint):
        Journal.open(storage)
    assert sql(storage, "SELECT * FROM regretless_events") == rows


@pytest.mark.parametrize(
    ("meddle", "complaint"),
    [
        ("SET version = 0", "version 0"),
        ("""SET body = '{"value": 1'""", "'told' is not valid: Expecting"),
        ("""SET body = '{"value": NaN}'""", "NaN is not a finite number"),
        ("""SET body = '{"value": 1e999}'""", "1e999 is not a finite number"),
        ("""SET body = '[1, 2]'""", "not an object"),
        ("SET time = 'yesterday'", "'yesterday'"),
        ("SET time = '2025-01-02T03:04:05'", "'2025-01-02T03:04:05' has no time zone"),
        ("SET seq = 5", "missing; the next one is 3"),
    ],
)
def test_an_edited_event(storage: str, meddle: str, complaint: str) -> None:
    with Journal.open(storage) as journal:
        for n in range(3):
            journal.append("s", "told", {"n": n})
        sql(storage, f"UPDATE regretless_events {meddle} WHERE study = 's' AND seq = 2")
        with pytest.raises(CorruptJournalError, match="study 's', event 2: ") as raised:
            journal.read("s")
        assert complaint in str(raised.value)
        assert str(raised.value).startswith(journal.label)
        assert journal.read("s", limit=1)  # what comes before is still readable
        with pytest.raises(CorruptJournalError):
            journal.append_if("s", "told", {}, lambda new: None, after=1)


def test_an_edited_type(tmp_path: Path) -> None:
    """SQLite stores anything in any column."""
    path = str(tmp_path / "j.db")
    with Journal.open(path) as journal:
        for column, value in ("body", b"\xff\xfe"), ("body", 5), ("time", 5), ("version", "one"):
            study = f"{column} {value!r}"
            journal.append(study, "told", {})
            sql(path, f"UPDATE regretless_events SET {column} = ? WHERE study = ?", value, study)
            with pytest.raises(CorruptJournalError, match="event 1: "):
                journal.read(study)
        with pytest.raises(CorruptJournalError, match="isoformat"):
            journal.studies()


def test_a_journal_older_than_what_was_read(journal: Journal, storage: str) -> None:
    for n in range(3):
        journal.append("s", "n", {"n": n})
    sql(storage, "DELETE FROM regretless_events WHERE study = 's' AND seq = 3")
    assert len(journal.read("s", after=2)) == 0
    with pytest.raises(CorruptJournalError, match="event 3: missing, although it was read before"):
        journal.read("s", after=3)


def test_a_file_replaced_under_an_open_journal(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "j.db") as journal:
        journal.append("s", "n", {})
        (tmp_path / "j.db").rename(tmp_path / "moved.db")
        with pytest.raises(StorageError, match="No such file"):
            journal.append("s", "n", {})
    Journal.open(tmp_path / "fresh.db").close()
    with Journal.open(tmp_path / "moved.db") as journal:
        (tmp_path / "fresh.db").rename(tmp_path / "moved.db")
        assert journal.append("s", "n", {}).seq == 1  # in the file that now has the name


def test_an_old_journal_stays_readable(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    dump = Path(__file__).parent / "assets" / "journal-v1.sql"
    with closing(sqlite3.connect(path)) as conn:
        conn.executescript(dump.read_text())
    with Journal.open(path, read_only=True) as journal:
        created, asked, told, abandoned = journal.read("clinic")
        assert [info.name for info in journal.studies()] == ["clinic", "Übung"]
    assert created.seq == 1
    assert created.kind == "created"
    assert created.time == datetime(2025, 1, 2, 3, 4, 5, 678901, UTC)
    assert asked.body["params"] == {"dose": 0.1 + 0.2, "drug": "A", "visits": 4}
    assert told.body == {"number": 0, "value": 0.83}
    assert told.key == "told 0"
    assert abandoned.time - created.time == timedelta(days=1)
    with Journal.open(path) as journal:
        assert journal.append("clinic", "told", {"value": 0.9}, key="told 0") == told
        assert journal.append("clinic", "extended", {"budget": 20}).seq == 5


# -- opening ------------------------------------------------------------------------------------


def test_read_only_reads_and_refuses_to_write(storage: str) -> None:
    with pytest.raises(StorageError, match=r"there is no journal.* `horizon`"):
        Journal.open(storage, read_only=True)
    with pytest.raises(StorageError, match="there is no journal"):
        Journal.open(storage, create=False)
    with Journal.open(storage) as writer, Journal.open(storage, read_only=True) as reader:
        event = writer.append("s", "n", {})
        assert reader.read("s") == [event]
        with pytest.raises(StorageError, match="read-only"):
            reader.append("s", "n", {})
        with pytest.raises(sa.exc.DBAPIError), reader._engine.connect() as conn:
            conn.execute(sa.delete(journal_module.EVENTS))  # the database refuses too


def test_a_closed_journal_says_so(journal: Journal) -> None:
    journal.close()
    with pytest.raises(StorageError, match="closed"):
        journal.read("s")
    journal.close()


def test_places_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="No such file or directory"):
        Journal.open(tmp_path / "missing" / "j.db")
    with pytest.raises(StorageError, match="is a folder"):
        Journal.open(tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "url",
    [
        "sqlite://",
        "sqlite:///:memory:",
        ":memory:",
        "sqlite:///j.db?timeout=hunter2",
        "mysql://me:hunter2@host/db",
        "postgresql+psycopg2://me:hunter2@host/db",
        "postgresql:/me:hunter2@host/db",
        "postgresql://me:hun@ter2@host/db",
        "postgresql://me@host:hunter2/db",
    ],
)
def test_a_wrong_url_is_not_repeated(url: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Journal.open(url)
    assert "ter2" not in str(raised.value)


def test_the_password_is_in_no_message(postgres: PostgresServer, postgres_url: str) -> None:
    wrong = postgres_url.replace(PASSWORD, "hunter2")
    closed_port = wrong.replace(f":{postgres.port}", ":1")
    in_the_query = "postgresql://127.0.0.1:1/db?user=me&password=hunter2&host=127.0.0.1"
    for url in wrong, closed_port, in_the_query:
        with pytest.raises(StorageError, match=r"PostgreSQL database '\w+' at 127.0.0.1") as raised:
            Journal.open(url)
        error: BaseException | None = raised.value
        while error is not None:  # a traceback prints the causes, too
            assert "hunter2" not in str(error)
            error = error.__cause__ or error.__context__
    with Journal.open(postgres_url) as journal:
        assert PASSWORD not in repr(journal)


def test_without_sqlalchemy_the_error_is_a_pip_line() -> None:
    code = "import sys; sys.modules['sqlalchemy'] = None; import regretless.studies.journal"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "pip install 'regretless[studies]'" in done.stderr


def test_a_connection_that_is_dropped_lets_go_of_the_write_lock(tmp_path: Path) -> None:
    """After Ctrl-C in the middle of a write, while a traceback still holds a cursor."""
    with Journal.open(tmp_path / "j.db") as journal, Journal.open(tmp_path / "j.db") as other:
        journal.append("s", "told", {"value": 1})
        journal.append("s", "told", {"value": 2})
        conn = journal._engine.connect()
        conn.exec_driver_sql("BEGIN IMMEDIATE")
        cursor = conn.connection.cursor()
        cursor.execute("SELECT * FROM regretless_events")
        assert cursor.fetchone()
        conn.invalidate()
        with closing(sqlite3.connect(tmp_path / "j.db", timeout=0.0)) as third:
            third.execute("BEGIN IMMEDIATE")  # or it is locked
            third.rollback()
        assert other.append("s", "told", {"value": 3}).seq == 3
        del cursor
