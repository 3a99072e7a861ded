"""The table that holds a journal, and what the two databases that can hold it must do.

SQLite is a file in WAL mode, for one machine; PostgreSQL is for several. Both hold the same table.
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
TURN_SECONDS = 20.0  # how long to wait for one's turn before going ahead without it
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
# The table describes itself: no study has an empty name, so this row can only be the header.
HEADER = {"study": "", "seq": 0, "kind": "journal", "version": SCHEMA_VERSION, "key": "journal"}


class Backend(Protocol):
    """What differs between the two databases."""

    label: str

    def prepare(self, create: bool) -> None:
        """Look at the place before the first connection."""

    def engine(self, read_only: bool) -> sa.Engine: ...

    def missing(self, conn: sa.Connection, create: bool) -> None:
        """There is no table: make it, or raise."""

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        """Check and put in order what is peculiar to this database."""

    def lock(self, conn: sa.Connection, study: str) -> None:
        """Start a write: nobody else appends to the study until the transaction ends."""

    def turn(self, engine: sa.Engine, study: str) -> AbstractContextManager[None]:
        """A second lock, for those who compute before they write; see `Journal.turn`."""

    def is_transient(self, error: DBAPIError) -> bool:
        """Is it worth trying again at once?"""

    def explain(self, error: DBAPIError) -> StorageError:
        """What went wrong, and where, in one line."""


def has_table(conn: sa.Connection) -> bool:
    return sa.inspect(conn).has_table(EVENTS.name)


def create_table(conn: sa.Connection) -> None:
    EVENTS.create(conn)
    conn.execute(sa.insert(EVENTS).values(HEADER | {"time": now(), "body": "{}"}))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
