"""An append-only log of events in one SQL table: SQLite (WAL) by default, PostgreSQL by URL.

An event is one row. Within a study events are numbered 1, 2, 3, … without gaps, in the order in
which they were committed; rows are added, never changed, except that a study may get another name.
What `append` has returned is on disk.

Writers take turns under a lock of the database (SQLite: its write lock; PostgreSQL: an advisory
lock per study), held for the milliseconds of one append and never while anybody computes. Every
event has a key that is unique in its study: an append that has to be repeated, because the
connection broke before the answer came, finds its key and is not doubled.
"""

from __future__ import annotations

import json
import os
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import count
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from regretless._internal.retry import Patience
from regretless._internal.shown import shown
from regretless._internal.validate import check_name
from regretless.errors import (
    ConfigError,
    CorruptJournalError,
    DataError,
    MissingExtraError,
    StaleError,
    StorageError,
    UnknownStudyError,
)
from regretless.studies.actor import acting
from regretless.studies.database import (
    ATTEMPTS,
    EVENTS,
    HEADER,
    SCHEMA_VERSION,
    Backend,
    has_table,
    now,
)
from regretless.studies.naming import FIRST_KEY, LAST_KEY, RENAMED, is_archived
from regretless.studies.storage import backend_of

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError
except ModuleNotFoundError as error:
    raise MissingExtraError("studies", "sqlalchemy") from error

__all__ = ["Journal", "StoredEvent", "StudyInfo"]

ACTOR = "actor"  # the field of a stored body that says who wrote the event
MOST_KEYS = 500  # in one query: old releases of SQLite allow 999 variables
MAX_BODY = 4 * 2**20  # characters of JSON; a decision takes about a thousand

# Built once, because building a statement takes as long as running it.
_STUDY = EVENTS.c.study == sa.bindparam("study")
_LAST = sa.select(sa.func.max(EVENTS.c.seq)).where(_STUDY)
_KEYS = sa.select(EVENTS).where(_STUDY, EVENTS.c.key.in_(sa.bindparam("keys", expanding=True)))
_TAIL = sa.select(EVENTS).where(_STUDY, EVENTS.c.seq >= sa.bindparam("after"))
_TAIL = _TAIL.order_by(EVENTS.c.seq)
_FIRST = sa.select(EVENTS).where(_STUDY, EVENTS.c.seq == 1)
_INSERT = sa.insert(EVENTS)
_MOVE = sa.update(EVENTS).where(_STUDY).values(study=sa.bindparam("new"))
_DELETE = sa.delete(EVENTS).where(_STUDY)

T = TypeVar("T")
Check = Callable[[list["StoredEvent"]], None]
Entry = tuple[str, int, dict[str, Any], str | None]  # kind, version, body and key of an event


@dataclass(frozen=True, slots=True)
class StoredEvent:
    """One line of the log. `time` is the writer's clock; the order is that of `seq`.

    The body is what `version` of this `kind` has in it, see `engine.read`.  `actor` is the name of
    who wrote it, if that is known, see `acting_as`.
    """

    study: str
    seq: int
    time: datetime
    kind: str
    version: int
    body: dict[str, Any]
    key: str
    row: tuple[Any, ...] = field(default=(), repr=False, compare=False)  # as in the table
    actor: str | None = None


@dataclass(frozen=True, slots=True)
class StudyInfo:
    """A study of a journal: how many events it has, and when its first and last were written."""

    name: str
    events: int
    first: datetime
    last: datetime
    archived: bool = False


class Journal:
    """The events of any number of studies. Threads may share it, and so may forked processes."""

    def __init__(self, backend: Backend, read_only: bool) -> None:
        """Use `Journal.open`."""
        self._backend = backend
        self._read_only = read_only
        self._engine = backend.engine(read_only)
        self._closed = False
        self._begun: dict[object, float] = {}  # when each transaction under way began
        self._ended = 0.0  # when the last one ended
        _journals.add(self)

    @classmethod
    def open(cls, url: str | Path, *, create: bool = True, read_only: bool = False) -> Self:
        """Open a journal.  An existing file or table is checked and never replaced.

        Args:
            url: a path or `sqlite:///path` (SQLite), or `postgresql://user@host/name`.
            create: whether to create a journal if there is none.
            read_only: whether to refuse every change.

        Raises:
            ConfigError: `url` is neither a path nor the URL of such a database.
            StorageError: the database cannot be reached, or there is no journal.
            CorruptJournalError: the file or table is not a journal that this release can read.
        """
        backend = backend_of(url)
        create = create and not read_only
        backend.prepare(create)
        journal = cls(backend, read_only)
        try:
            journal._run(lambda conn: journal._recognise(conn, create))
            journal._run(lambda conn: backend.settle(conn, read_only))
        except BaseException:
            journal.close()
            raise
        return journal

    def close(self) -> None:
        """Close the connections to the database.  It may be called again."""
        self._closed = True
        self._engine.dispose()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Journal({self.label!r})"

    @property
    def stalled(self) -> float:
        """For how many seconds the database has ended no transaction although one is under way."""
        begun = list(self._begun.values())
        return time.monotonic() - max(self._ended, min(begun)) if begun else 0.0

    @property
    def label(self) -> str:
        """The file, or the server and database, without user and password."""
        return self._backend.label

    def append(
        self,
        study: str,
        kind: str,
        body: dict[str, Any],
        *,
        version: int = 1,
        key: str | None = None,
        expected_seq: int | None = None,
    ) -> StoredEvent:
        """Append an event.  When the call returns, the event is on disk.

        Args:
            study: the name of the study.
            kind: the kind of the event.
            body: the body of the event.
            version: the version of the body.
            key: a key that is unique in the study; None for a random one.
            expected_seq: the number that the event must get; None for any.

        Returns:
            The event.  If the study has an event with this key, that event, with any body.

        Raises:
            StaleError: the event would get another number than `expected_seq`.
            DataError: the body cannot be stored as JSON.
            StorageError: the journal is read-only or cannot be written.
        """

        def guard(conn: sa.Connection) -> int:
            last = self._last(conn, study)
            if expected_seq not in (None, last + 1):
                raise StaleError(
                    f"{self.label}: study {study!r}: event {expected_seq} was to be next, "
                    f"but {last + 1} is"
                )
            return last

        return self._append(study, [(kind, version, body, key)], guard)[0]

    def append_if(
        self,
        study: str,
        kind: str,
        body: dict[str, Any],
        check: Check,
        *,
        after: int | StoredEvent,
        version: int = 1,
        key: str | None = None,
    ) -> StoredEvent:
        """Append an event, unless `check` raises for what others wrote after event `after`.

        `check` is called with these events while no other process can write.  Keep it short and
        free of side effects, because after a broken connection it is called again.  If the study
        has an event with this key, that event is returned, and `check` is not called.  For the
        other arguments and errors see `append`.
        """

        return self.append_all(study, [(kind, version, body, key)], check, after=after)[0]

    def append_all(
        self,
        study: str,
        entries: Sequence[Entry],
        check: Check | None = None,
        *,
        after: int | StoredEvent = 0,
    ) -> list[StoredEvent]:
        """Append several events in one transaction: all of them or none, with one sync of the disk.

        Args:
            study: the name of the study.
            entries: kind, version, body and key of each event; the key may be None.
            check: see `append_if`; None for no check.  If all keys are in the study already, it is
                not called.
            after: the event after which `check` gets what others wrote.

        Returns:
            The events, in the order of `entries`.  If the study has an event with the key of an
            entry, that event is returned in its place, and nothing is appended for the entry.

        Raises:
            DataError: a body cannot be stored as JSON.
            StorageError: the journal is read-only or cannot be written.
        """

        def guard(conn: sa.Connection) -> int:
            if check is None:
                return self._last(conn, study)
            new = [self._event(row) for row in self._rows(conn, study, after)]
            check(new)
            if new:
                return new[-1].seq
            return after if isinstance(after, int) else after.seq

        return self._append(study, entries, guard)

    def read(
        self, study: str, after: int | StoredEvent = 0, limit: int | None = None
    ) -> list[StoredEvent]:
        """The events after `after`, in order.

        Args:
            study: the name of the study.
            after: the number of an event, or the event itself, which must then be unchanged.
            limit: the most events to return; None for all.

        Raises:
            CorruptJournalError: an event is missing, was changed, or cannot be read.
        """
        check_name("study", study)
        rows = self._run(lambda conn: self._rows(conn, study, after, limit))
        return [self._event(row) for row in rows]

    def replay(self, study: str) -> Iterator[StoredEvent]:
        """All events of a study, in order.

        Each is made when it is its turn: thousands of them at once take memory, and time of the
        garbage collector.  For errors see `read`.
        """
        check_name("study", study)
        return map(self._event, self._run(lambda conn: self._rows(conn, study, 0)))

    def last_seq(self, study: str) -> int:
        """The number of the study's last event; 0 if it has none."""
        check_name("study", study)
        return self._run(lambda conn: self._last(conn, study))

    def rename(self, old: str, new: str, body: dict[str, Any], *, version: int = 1) -> None:
        """Move all events of a study to a new name, and append an event about it with this body.

        One transaction does it all.  Under the old name a single row stays, which has the new name.
        If the study has the new name already, nothing changes.

        Raises:
            ConfigError: another study has or had the new name.
            UnknownStudyError: there is no study of the old name, or it was renamed before.
            StorageError: the journal is read-only or cannot be written.
        """
        self._check_writable()
        check_name("name", new)

        def work(conn: sa.Connection) -> None:
            self._backend.lock(conn, old, new)
            last = self._last(conn, old)
            if self._name_now(conn, old) == new:  # the answer of an earlier attempt was lost
                return
            self._check_name_of(conn, old)
            if not last:
                raise UnknownStudyError(f"there is no study {shown(old)}")
            if self._last(conn, new) and self._name_now(conn, new) != old:
                raise ConfigError(f"name: another study is or was called {shown(new)}")
            conn.execute(_DELETE, {"study": new})  # the row that had its other name
            conn.execute(_MOVE, {"study": old, "new": new})
            text, _ = _dump(RENAMED, body, acting.get())
            common = {"time": now(), "kind": RENAMED, "version": version, "body": text}
            places = ((new, last + 1, f"{RENAMED} {last + 1}"), (old, 1, RENAMED))
            for study, seq, key in places:
                conn.execute(_INSERT, common | {"study": study, "seq": seq, "key": key})

        self._run(work)

    def studies(self) -> list[StudyInfo]:
        """Every study, by name."""
        # Reads a few rows of each study, by index: a page asks for this every few seconds.
        name, seq = EVENTS.c.study, EVENTS.c.seq
        range_of = sa.select(name, sa.func.min(seq).label("low"), sa.func.max(seq).label("high"))
        ends = range_of.where(name != "").group_by(name).subquery()
        first, last, mark = EVENTS.alias(), EVENTS.alias(), EVENTS.alias()
        archiving = (mark.c.study == ends.c.study) & mark.c.key.between(FIRST_KEY, LAST_KEY)
        archived = sa.select(sa.func.max(mark.c.key)).where(archiving).scalar_subquery()
        query = (
            sa.select(ends.c.study, ends.c.high, first.c.time, last.c.time, archived)
            .join(first, (first.c.study == ends.c.study) & (first.c.seq == ends.c.low))
            .join(last, (last.c.study == ends.c.study) & (last.c.seq == ends.c.high))
            .where(first.c.kind != RENAMED)
        )
        rows = self._run(lambda conn: conn.execute(query).all())
        try:
            infos = [
                StudyInfo(name, events, _time(begun), _time(ended), is_archived(key))
                for name, events, begun, ended, key in rows
            ]
        except (TypeError, ValueError) as error:
            raise CorruptJournalError(f"{self.label}: {error}") from error
        return sorted(infos, key=lambda info: info.name)

    def turn(self, study: str) -> AbstractContextManager[None]:
        """A lock between processes that compute proposals for the same study.

        It avoids wasted work; correctness does not depend on it, but on `append_if`.  After a
        timeout the caller continues without it.
        """
        return self._backend.turn(self._engine, study)

    def corrupt(self, study: str, seq: int, what: str) -> CorruptJournalError:
        """Make the error for an event that cannot be read.  The caller raises it."""
        return CorruptJournalError(f"{self.label}: study {study!r}, event {seq}: {what}")

    # -- one connection, one transaction ------------------------------------------------------

    def _run(self, work: Callable[[sa.Connection], T]) -> T:
        """Do `work` in a transaction, again if a pooled connection has died or all were busy."""
        if self._closed:
            raise StorageError(f"{self.label}: the journal is closed")
        if self._backend.silent:
            raise StorageError(f"{self.label}: the server did not answer a moment ago")
        patience = Patience(first=0.04, factor=4.0, tries=ATTEMPTS - 1)
        this = object()
        self._begun[this] = time.monotonic()
        try:
            while True:
                try:
                    with self._engine.connect() as conn:
                        result = work(conn)
                        conn.commit()
                        return result
                except DBAPIError as error:
                    again = self._backend.is_transient(error) and not self._backend.silent
                    if not (again and patience.pause()):
                        raise self._backend.explain(error) from error
        except PoolTimeoutError as error:
            raise StorageError(f"{self.label}: too many threads at once: {error}") from error
        finally:
            del self._begun[this]
            self._ended = time.monotonic()

    def _recognise(self, conn: sa.Connection, create: bool) -> None:
        """Check that the table is a journal that we can read; make it where there is none."""
        if not has_table(conn):
            self._backend.missing(conn, create)
        found = {column["name"] for column in sa.inspect(conn).get_columns(EVENTS.name)}
        if found != set(EVENTS.c.keys()):
            raise CorruptJournalError(
                f"{self.label}: the table {EVENTS.name} is not a regretless journal: "
                f"it has the columns {', '.join(sorted(found))}"
            )
        header = conn.execute(_TAIL, {"study": "", "after": 0}).first()
        if header is None or header.kind != HEADER["kind"]:
            raise CorruptJournalError(
                f"{self.label}: the table {EVENTS.name} is not a regretless journal: no header row"
            )
        if header.version != SCHEMA_VERSION:
            raise CorruptJournalError(
                f"{self.label}: a journal of schema version {header.version}; this release of "
                f"regretless reads version {SCHEMA_VERSION}: upgrade it"
            )

    def _append(
        self, study: str, entries: Sequence[Entry], guard: Callable[[sa.Connection], int]
    ) -> list[StoredEvent]:
        """Append events, unless `guard` raises; it returns the number of the last event."""
        self._check_writable()
        check_name("study", study)
        actor = acting.get()
        drafts = [_draft(*entry, actor) for entry in entries]

        def work(conn: sa.Connection) -> list[StoredEvent]:
            self._backend.lock(conn, study)
            stored = self._with_keys(conn, study, [key for *_, key in drafts])
            new: dict[str, _Draft] = {}  # by key; of two with the same key, the first
            for draft in drafts:
                if draft[-1] not in stored:
                    new.setdefault(draft[-1], draft)
            if new:
                last = guard(conn)
                moment = datetime.now(UTC)
                when = moment.isoformat(timespec="microseconds")
                rows = []
                for seq, (kind, version, text, same, key) in enumerate(new.values(), last + 1):
                    row = (study, seq, when, kind, version, text, key)
                    rows.append(dict(zip(EVENTS.c.keys(), row, strict=True)))
                    event = StoredEvent(study, seq, moment, kind, version, same, key, row, actor)
                    stored[key] = event
                conn.execute(_INSERT, rows)
            return [stored[draft[-1]] for draft in drafts]

        return self._run(work)

    def _with_keys(
        self, conn: sa.Connection, study: str, keys: Sequence[str]
    ) -> dict[str, StoredEvent]:
        """The events of a study that have one of these keys, by key."""
        found: dict[str, StoredEvent] = {}
        for first in range(0, len(keys), MOST_KEYS):
            these = {"study": study, "keys": keys[first : first + MOST_KEYS]}
            for row in conn.execute(_KEYS, these):
                found[row.key] = self._event(row)
        return found

    def _check_writable(self) -> None:
        if self._read_only:
            raise StorageError(f"{self.label}: opened read-only: nothing can be appended")

    def _name_now(self, conn: sa.Connection, study: str) -> str:
        """The name that a study has now; `study` itself if it was never renamed."""
        while (first := conn.execute(_FIRST, {"study": study}).first()) and first.kind == RENAMED:
            study = str(self._event(first).body["new"])
        return study

    def _check_name_of(self, conn: sa.Connection, study: str) -> None:
        """Raise UnknownStudyError if the study has another name now."""
        new = self._name_now(conn, study)
        if new != study:
            raise UnknownStudyError(f"study {shown(study)} was renamed: it is {shown(new)} now")

    def _last(self, conn: sa.Connection, study: str) -> int:
        return conn.execute(_LAST, {"study": study}).scalar() or 0

    def _rows(
        self, conn: sa.Connection, study: str, after: int | StoredEvent, limit: int | None = None
    ) -> Sequence[sa.Row[Any]]:
        """The rows of the events after `after`.

        Event `after` is fetched as well: if it is gone or another one, somebody restored an older
        journal below us, and a state that already contains it must not go on.
        """
        start = after if isinstance(after, int) else after.seq
        known = 1 if start > 0 else 0
        query = _TAIL if limit is None else _TAIL.limit(limit + known)
        rows = conn.execute(query, {"study": study, "after": start}).all()
        if (known and not rows) or (rows and rows[0].kind == RENAMED):
            self._check_name_of(conn, study)
        if known and not rows:
            raise self.corrupt(study, start, "missing, although it was read before")
        for seq, row in zip(count(max(start, 1)), rows, strict=False):
            if row.seq != seq:
                raise self.corrupt(study, seq, f"missing; the next one is {row.seq}")
        if isinstance(after, StoredEvent) and tuple(rows[0]) != after.row:
            raise self.corrupt(study, start, "not the one that was read before")
        return rows[known:]

    def _event(self, row: Sequence[Any]) -> StoredEvent:
        study, seq, when, kind, version, body, key = row
        if not isinstance(version, int) or version < 1:
            raise self.corrupt(study, seq, f"{kind!r} is not valid: version {version!r}")
        try:
            time, fields = _time(when), _load(body)
            actor = _actor(fields)
        except (TypeError, ValueError, RecursionError) as error:
            raise self.corrupt(study, seq, f"{kind!r} is not valid: {error}") from error
        return StoredEvent(study, seq, time, kind, version, fields, key, tuple(row), actor)


# -- values -----------------------------------------------------------------------------------

_Draft = tuple[str, int, str, dict[str, Any], str]


def _draft(
    kind: str, version: int, body: dict[str, Any], key: str | None, actor: str | None
) -> _Draft:
    """An entry that can be stored: kind, version, body as text, body as it will be read, key."""
    check_name("kind", kind)
    name = uuid.uuid4().hex if key is None else key
    check_name("key", name)
    return (kind, version, *_dump(kind, body, actor), name)


def _time(text: str) -> datetime:
    when = datetime.fromisoformat(text)
    if when.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return when if when.tzinfo is UTC else when.astimezone(UTC)


def _dump(kind: str, body: dict[str, Any], actor: str | None = None) -> tuple[str, dict[str, Any]]:
    """The body as text, and as it will be read again.

    The actor is stored with the body's fields, not in a column: older releases refuse a table with
    other columns, but ignore a field that they do not know.
    """
    try:
        text = _ENCODER.encode(body if actor is None else {**body, ACTOR: actor})
        again = _load(text)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the body of {kind!r} cannot be JSON: {error}") from error
    if _actor(again) != actor or again != body:
        raise DataError(
            f"the body of {kind!r} cannot be stored as JSON without a change: {body!r:.200}"
        )
    if len(text) > MAX_BODY:
        raise DataError(f"the body of {kind!r} has {len(text)} characters; at most {MAX_BODY}")
    return text, again


def _actor(fields: dict[str, Any]) -> str | None:
    """Take the actor out of the fields of a stored body."""
    actor = fields.pop(ACTOR, None)
    if not isinstance(actor, str | None):
        raise TypeError(f"{ACTOR}: need a text")
    return actor


def _load(text: str) -> dict[str, Any]:
    body = _DECODER.decode(text)
    if not isinstance(body, dict):
        raise ValueError("not an object")
    return body


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"{text} is not a finite number")
    return value


# Strict both ways; one of each, because `json.loads` with options builds a decoder per call.
_DECODER = json.JSONDecoder(parse_constant=_finite, parse_float=_finite)
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


# -- forks ------------------------------------------------------------------------------------

_journals: weakref.WeakSet[Journal] = weakref.WeakSet()


def _hang_up() -> None:
    """Leave no connection open across a fork: two processes on one socket mix up their answers,
    and SQLite's file locks do not follow into the child. Both processes reconnect when they need
    to. (A call that another thread is in the middle of is not covered.)"""
    for journal in list(_journals):
        journal._engine.dispose()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_hang_up)
