"""The table of a journal, and the protocol of the databases that store it.

SQLite is a file in WAL mode, for one machine.  PostgreSQL is for several machines.  The table is
the same in both.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from datetime import UTC, datetime
from typing import Protocol

from regretless.errors import MissingExtraError, StorageError

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import DBAPIError
except ModuleNotFoundError as error:
    raise MissingExtraError("studies", "sqlalchemy") from error

SCHEMA_VERSION = 1  # the table's columns and their meaning
WAIT_SECONDS = 10.0  # how long one attempt waits for another writer
ATTEMPTS = 3
TURN_SECONDS = 20.0  # how long to wait for a turn before continuing without it
TURNS = 8  # at a time: each keeps one of the pool's 15 connections, and writers need some

EVENTS = sa.Table(
    "regretless_events",
    sa.MetaData(),
    sa.Column("study", sa.Text, primary_key=True),
    sa.Column("seq", sa.Integer, primary_key=True, autoincrement=False),
    sa.Column("time", sa.Text, nullable=False),  # UTC, ISO 8601: readable with any SQL client
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("version", sa.Integer, nullable=False),
    sa.Column("body", sa.Text, nullable=False),  # JSON as text: it returns byte for byte
    sa.Column("key", sa.Text, nullable=False),
    sa.UniqueConstraint("study", "key", name="regretless_events_key"),
)
# The first row of the table has the version.  No study has an empty name, so it is unique.
HEADER = {"study": "", "seq": 0, "kind": "journal", "version": SCHEMA_VERSION, "key": "journal"}


class Backend(Protocol):
    """The operations that differ between databases."""

    label: str

    @property
    def silent(self) -> bool:
        """Whether a call got no answer a moment ago.  Other calls then fail at once."""

    def prepare(self, create: bool) -> None:
        """Check the file or server before the first connection."""

    def engine(self, read_only: bool) -> sa.Engine: ...

    def missing(self, conn: sa.Connection, create: bool) -> None:
        """Create the table that is missing, or raise."""

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        """Check and set what only this database has."""

    def lock(self, conn: sa.Connection, *studies: str) -> None:
        """Start a write.  No other process appends to the studies until the transaction ends."""

    def turn(self, engine: sa.Engine, study: str) -> AbstractContextManager[None]:
        """A lock between processes that compute proposals for the same study.

        It avoids wasted work; correctness does not depend on it.  After a timeout the caller
        continues without it.
        """

    def is_transient(self, error: DBAPIError) -> bool:
        """Whether the work may succeed if it is tried again at once."""

    def explain(self, error: DBAPIError) -> StorageError:
        """The error for the user, in one line with the place of the journal."""


def has_table(conn: sa.Connection) -> bool:
    return sa.inspect(conn).has_table(EVENTS.name)


def create_table(conn: sa.Connection) -> None:
    EVENTS.create(conn)
    conn.execute(sa.insert(EVENTS).values(HEADER | {"time": now(), "body": "{}"}))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
