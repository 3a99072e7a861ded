"""The two databases that can hold a journal, and what differs between them.

SQLite is a file in WAL mode, for one machine; PostgreSQL is for several. Both hold the same table.
"""

from __future__ import annotations

import os
import random
import re
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Protocol

from regretless.errors import ConfigError, MissingExtraError, StorageError

try:
    import sqlalchemy as sa
    from sqlalchemy.exc import ArgumentError, DBAPIError, DisconnectionError
    from sqlalchemy.exc import TimeoutError as PoolTimeoutError
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


class CorruptJournalError(StorageError):
    """What is there is not a journal that this release can read; the message says where."""

    http_status = 500


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

    def passes(self, error: DBAPIError) -> bool:
        """Is it worth trying again at once?"""

    def explain(self, error: DBAPIError) -> StorageError:
        """What went wrong, and where, in one line."""


class SQLite:
    def __init__(self, path: Path) -> None:
        # A later chdir must not move the journal; and beside the real file SQLite keeps its log.
        self.path = Path(os.path.realpath(path))
        self.label = str(path)

    def prepare(self, create: bool) -> None:
        try:
            found = self._found()
            if not found and create:
                self._create()
        except OSError as error:
            raise StorageError(f"{self.label}: {error.strerror}") from error
        if not found and not create:
            raise StorageError(f"{self.label}: there is no journal")

    def _found(self) -> bool:
        """Is there a file? One that lost its content is not to be mistaken for a new one.

        Only its status is looked at: to open and close the file besides SQLite would drop the
        locks that SQLite holds on it in this process.
        """
        if self.path.is_dir():
            raise StorageError(f"{self.label}: is a folder, and a journal is a file")
        wal = self.path.with_name(self.path.name + "-wal")
        found = self.path.exists()
        if found and (not self.path.is_file() or self.path.stat().st_size > 0):
            return True
        if wal.exists() and wal.stat().st_size > 0:
            # SQLite would throw this file away, and what it holds is nowhere else.
            raise CorruptJournalError(f"{self.label}: missing or empty, but {wal.name} has events")
        if found:
            raise CorruptJournalError(
                f"{self.label}: the file is empty; if it never was a journal, delete it first"
            )
        return False

    def _create(self) -> None:
        """Make the whole journal aside, then give it its name: nobody sees it half made."""
        draft = self.path.with_name(f".{self.path.name}.{uuid.uuid4().hex}")
        draft.touch(exist_ok=False)
        engine = SQLite(draft).engine(read_only=False)
        try:
            with engine.connect() as conn:
                conn.exec_driver_sql("PRAGMA journal_mode = WAL")
                self.lock(conn, "")
                create_table(conn)
                conn.commit()
            engine.dispose()
            with suppress(FileExistsError):  # another process was faster: its journal is the one
                os.link(draft, self.path)
        except DBAPIError as error:
            raise self.explain(error) from error
        finally:
            engine.dispose()
            draft.unlink()

    def engine(self, read_only: bool) -> sa.Engine:
        uri = f"{self.path.as_uri()}?mode={'ro' if read_only else 'rw'}"

        def connect() -> sqlite3.Connection:
            conn = sqlite3.connect(
                uri, uri=True, timeout=WAIT_SECONDS, isolation_level=None, check_same_thread=False
            )
            conn.execute("PRAGMA synchronous = EXTRA")  # a commit waits for the disk …
            conn.execute("PRAGMA fullfsync = ON")  # … and on a Mac for the disk's own cache
            return conn

        engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)
        sa.event.listen(engine, "connect", self._remember_file)
        sa.event.listen(engine, "checkout", self._same_file)
        sa.event.listen(engine, "close", self._let_go)
        return engine

    def _remember_file(self, conn: Any, record: Any) -> None:
        record.info["file"] = self._status().st_ino

    def _let_go(self, conn: Any, record: Any) -> None:
        """Of the write lock: after Ctrl-C a traceback may hold a cursor, and with it the lock."""
        conn.rollback()

    def _same_file(self, conn: Any, record: Any, proxy: Any) -> None:
        """Follow the name: a file that was moved away or replaced would take our events along."""
        if record.info["file"] != self._status().st_ino:
            raise DisconnectionError(f"{self.label}: the file was replaced")

    def _status(self) -> os.stat_result:
        try:
            return self.path.stat()
        except OSError as error:
            raise StorageError(f"{self.label}: {error.strerror}") from error

    def missing(self, conn: sa.Connection, create: bool) -> None:
        tables = ", ".join(sa.inspect(conn).get_table_names()) or "none"
        raise CorruptJournalError(
            f"{self.label}: a database, but not a regretless journal (its tables: {tables})"
        )

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        page = conn.exec_driver_sql("PRAGMA page_size").scalar_one()
        if self._status().st_size % page:
            # SQLite would read the rest of the last page as zeros.
            raise CorruptJournalError(f"{self.label}: truncated in the middle of a page")
        if not read_only:
            conn.exec_driver_sql("PRAGMA journal_mode = WAL")

    def lock(self, conn: sa.Connection, study: str) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    @contextmanager
    def turn(self, engine: sa.Engine, study: str) -> Iterator[None]:
        try:
            import fcntl

            # A file of its own, which the system unlocks when the process dies. Not one for each
            # study, because nobody can tell when to delete it.
            which = blake2b(study.encode(), digest_size=1).hexdigest()[0]
            file = self.path.with_name(f"{self.path.name}-turn-{which}").open("ab")
        except (ModuleNotFoundError, OSError):
            yield
            return
        with file:
            deadline, mine = time.monotonic() + TURN_SECONDS, False
            with suppress(OSError):  # a file system without locks
                while not mine and time.monotonic() < deadline:
                    try:
                        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                        mine = True
                    except BlockingIOError:
                        time.sleep(random.uniform(0.002, 0.01))
            try:
                yield
            finally:
                if mine:  # a child forked meanwhile has it open, too
                    fcntl.flock(file, fcntl.LOCK_UN)

    def passes(self, error: DBAPIError) -> bool:
        return self._code(error) == sqlite3.SQLITE_BUSY

    def explain(self, error: DBAPIError) -> StorageError:
        message = f"{self.label}: {error.orig}"
        code = self._code(error)
        if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
            return CorruptJournalError(message)
        if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN):
            message += " (even to read, SQLite has to write beside the file: check the permissions)"
        return StorageError(message)

    def _code(self, error: DBAPIError) -> int:
        """The primary code, without what SQLite adds in the higher bits."""
        return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF


class Postgres:
    def __init__(self, url: sa.URL) -> None:
        defaults: dict[str, Any] = {
            "application_name": "regretless",
            "client_encoding": "utf8",
            "connect_timeout": "10",
            "tcp_user_timeout": "30000",  # ms; else a server that vanished hangs us for hours
        }
        self.url = url.set(drivername="postgresql+psycopg").update_query_dict(
            defaults | dict(url.query)
        )
        host = url.host or url.query.get("host", "local socket")
        port = f":{url.port}" if url.port else ""
        self.label = f"PostgreSQL database {url.database!r} at {host}{port}"
        self._seats = [object()] * TURNS  # taken and put back in one step each: no lock to fork

    def prepare(self, create: bool) -> None:
        """Nothing to look at: the server answers for itself."""

    def engine(self, read_only: bool) -> sa.Engine:
        options: dict[str, Any] = {"postgresql_readonly": True} if read_only else {}
        try:
            return sa.create_engine(
                self.url,
                # `lock` needs each statement to see what was committed before it.
                isolation_level="READ COMMITTED",
                # Prepared statements gain nothing here and trip poolers such as PgBouncer.
                connect_args={"prepare_threshold": None},
                execution_options=options,
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError("studies", "psycopg") from error

    def missing(self, conn: sa.Connection, create: bool) -> None:
        if not create:
            raise StorageError(f"{self.label}: there is no journal")
        self.lock(conn, "")
        if not has_table(conn):
            create_table(conn)

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        """Nothing to do."""

    def lock(self, conn: sa.Connection, study: str) -> None:
        # Be durable even where the server's default is not.
        conn.execute(
            sa.text(
                "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
                " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"
            )
        )
        self._lock(conn, f"regretless:{study}", WAIT_SECONDS * ATTEMPTS, WAIT_SECONDS)

    @contextmanager
    def turn(self, engine: sa.Engine, study: str) -> Iterator[None]:
        conn = None
        seat = None
        # Without a turn we go ahead all the same; a server that is away is noticed by the append.
        with suppress(DBAPIError, PoolTimeoutError, IndexError):
            seat = self._seats.pop()
            conn = engine.connect()
            self._lock(conn, f"regretless turn:{study}", TURN_SECONDS, 3 * TURN_SECONDS)
        try:
            yield
        finally:
            if conn is not None:
                with suppress(DBAPIError):  # dropped meanwhile
                    conn.close()
            if seat is not None:
                self._seats.append(seat)

    def _lock(self, conn: sa.Connection, name: str, patience: float, freeze: float) -> None:
        """Lock a name for this transaction: wait a bounded time (seconds), and let the server drop
        us if we freeze while others wait."""
        conn.execute(
            sa.text(
                "SELECT set_config('lock_timeout', :patience, true),"
                " set_config('idle_in_transaction_session_timeout', :freeze, true)"
            ),
            {"patience": f"{1000 * patience:.0f}ms", "freeze": f"{1000 * freeze:.0f}ms"},
        )
        digest = blake2b(name.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, signed=True)
        conn.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))

    def passes(self, error: DBAPIError) -> bool:
        return error.connection_invalidated

    def explain(self, error: DBAPIError) -> StorageError:
        damaged = getattr(error.orig, "sqlstate", None) in ("XX001", "XX002")
        kind = CorruptJournalError if damaged else StorageError
        return kind(f"{self.label}: {' '.join(str(error.orig).split())}")


def parse(url: str | Path) -> Backend:
    """The database that `url` names. No message repeats it: it may hold a password."""
    if not isinstance(url, str | os.PathLike):
        raise ConfigError(f"the storage is neither a path nor a database URL, but {type(url)}")
    text = str(url)
    if text == ":memory:":  # SQLite's own word for it, which would be a file of that name
        raise ConfigError("the storage is a file or a database: a journal in memory would not last")
    if isinstance(url, os.PathLike) or not re.match(r"[A-Za-z][\w+.-]+:", text):
        return SQLite(Path(text).expanduser())
    try:
        parsed = sa.make_url(text)
    except (ArgumentError, ValueError):
        raise ConfigError("the storage is neither a path nor a database URL") from None
    if parsed.drivername == "sqlite":
        if parsed.database in (None, "", ":memory:") or parsed.query:
            raise ConfigError("a SQLite URL is sqlite:///path: a journal in memory would not last")
        return SQLite(Path(str(parsed.database)))
    if parsed.drivername in ("postgresql", "postgres", "postgresql+psycopg"):
        if "@" in f"{parsed.host}{parsed.database}":
            raise ConfigError("the database URL has an '@' too many: in a password write %40")
        return Postgres(parsed)
    raise ConfigError(
        f"a journal is kept in SQLite or PostgreSQL (through psycopg), not {parsed.drivername!r}"
    )


def has_table(conn: sa.Connection) -> bool:
    return sa.inspect(conn).has_table(EVENTS.name)


def create_table(conn: sa.Connection) -> None:
    EVENTS.create(conn)
    conn.execute(sa.insert(EVENTS).values(HEADER | {"time": now(), "body": "{}"}))


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="microseconds")
