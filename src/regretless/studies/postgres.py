"""A journal in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from math import inf
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from regretless.errors import ConfigError, CorruptJournalError, MissingExtraError, StorageError
from regretless.studies.database import (
    ATTEMPTS,
    TURN_SECONDS,
    TURNS,
    WAIT_SECONDS,
    create_table,
    has_table,
)

if TYPE_CHECKING:  # needs psycopg, which may be missing
    from regretless.studies.silence import LimitedConnection, Silence

# Parameters of a connection that a URL may set otherwise; they are libpq's, except the last.
DEFAULTS: dict[str, str] = {
    "application_name": "regretless",
    "client_encoding": "utf8",
    "connect_timeout": "10",  # s
    # A server that vanished is noticed after 20 s, also while nothing is sent; else after hours.
    "keepalives": "1",
    "keepalives_idle": "10",  # s
    "keepalives_interval": "5",  # s
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",  # ms
    # Ours: a server that is there, but sends nothing for so many seconds; 0 for no limit.
    "answer_timeout": "20",
}


class Postgres:
    def __init__(self, url: sa.URL) -> None:
        query: dict[str, Any] = DEFAULTS | dict(url.query)
        self._answer_seconds = _answer_seconds(query.pop("answer_timeout"))
        self._silence: Silence | None = None  # known once there is an engine
        bare = url.difference_update_query(["answer_timeout"])
        self.url = bare.set(drivername="postgresql+psycopg").update_query_dict(query)
        host = url.host or url.query.get("host", "local socket")
        port = f":{url.port}" if url.port else ""
        self.label = f"PostgreSQL database {url.database!r} at {host}{port}"
        self._seats = [
            object()
        ] * TURNS  # pop and append need no lock, so no fork can copy a locked one

    def prepare(self, create: bool) -> None:
        """Nothing to look at: the server answers for itself."""

    def engine(self, read_only: bool) -> sa.Engine:
        options: dict[str, Any] = {"postgresql_readonly": True} if read_only else {}
        try:
            from regretless.studies.silence import Silence, connect

            engine = sa.create_engine(
                self.url,
                # `lock` needs each statement to see what was committed before it.
                isolation_level="READ COMMITTED",
                # Prepared statements gain nothing here and trip poolers such as PgBouncer.
                connect_args={"prepare_threshold": None},
                execution_options=options,
            )
        except ModuleNotFoundError as error:
            raise MissingExtraError("studies", "psycopg") from error
        silence = self._silence = Silence(self._answer_seconds)

        def limited(dialect: Any, record: Any, args: Any, settings: Any) -> LimitedConnection:
            return connect(silence, **settings)

        sa.event.listen(engine, "do_connect", limited)
        return engine

    @property
    def silent(self) -> bool:
        return self._silence is not None and self._silence.now

    def missing(self, conn: sa.Connection, create: bool) -> None:
        if not create:
            raise StorageError(
                f"{self.label}: there is no journal; to create one, give `space`, and `budget` or"
                " `horizon`"
            )
        self.lock(conn, "")
        if not has_table(conn):
            create_table(conn)

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        """Nothing to do."""

    def lock(self, conn: sa.Connection, *studies: str) -> None:
        # A commit has to wait for the disk, even where the server's default says otherwise.
        conn.execute(
            sa.text(
                "SELECT set_config('synchronous_commit', CASE current_setting('synchronous_commit')"
                " WHEN 'off' THEN 'on' ELSE current_setting('synchronous_commit') END, true)"
            )
        )
        for study in sorted(studies):  # in one order, so that no two wait for each other
            self._lock(conn, f"regretless:{study}", WAIT_SECONDS * ATTEMPTS, WAIT_SECONDS)

    @contextmanager
    def turn(self, engine: sa.Engine, study: str) -> Iterator[None]:
        conn = None
        seat = None
        # Without a turn the caller goes ahead all the same; the append finds a server that is away.
        with suppress(DBAPIError, PoolTimeoutError, IndexError):
            seat = self._seats.pop()
            conn = engine.connect()
            self._lock(conn, f"regretless turn:{study}", TURN_SECONDS, 3 * TURN_SECONDS)
        try:
            yield
        finally:
            if conn is not None:
                with suppress(DBAPIError):  # the server ended the connection
                    conn.close()
            if seat is not None:
                self._seats.append(seat)

    def _lock(self, conn: sa.Connection, name: str, patience: float, freeze: float) -> None:
        """Lock a name for this transaction, and wait at most `patience` seconds for it.

        If this process freezes for `freeze` seconds, the server ends its connection.  It also ends
        a statement that takes so long that we have given up.
        """
        answer = self._answer_seconds
        limit = 0.0 if answer == inf else patience + answer
        conn.execute(
            sa.text(
                "SELECT set_config('lock_timeout', :patience, true),"
                " set_config('statement_timeout', :limit, true),"
                " set_config('idle_in_transaction_session_timeout', :freeze, true)"
            ),
            {
                "patience": f"{1000 * patience:.0f}ms",
                "limit": f"{1000 * limit:.0f}ms",
                "freeze": f"{1000 * freeze:.0f}ms",
            },
        )
        digest = blake2b(name.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, signed=True)
        with _longer(conn, patience):
            conn.execute(sa.select(sa.func.pg_advisory_xact_lock(number)))

    def is_transient(self, error: DBAPIError) -> bool:
        return error.connection_invalidated

    def explain(self, error: DBAPIError) -> StorageError:
        damaged = getattr(error.orig, "sqlstate", None) in ("XX001", "XX002")
        kind = CorruptJournalError if damaged else StorageError
        return kind(f"{self.label}: {' '.join(str(error.orig).split())}")


@contextmanager
def _longer(conn: sa.Connection, seconds: float) -> Iterator[None]:
    """Wait so much longer for an answer, because the server may wait for a lock."""
    limited = conn.connection.dbapi_connection
    setattr(limited, "extra", seconds)  # noqa: B010 (SQLAlchemy does not know its type)
    try:
        yield
    finally:
        setattr(limited, "extra", 0.0)  # noqa: B010


def _answer_seconds(text: object) -> float:
    try:
        seconds = float(str(text))
    except ValueError:
        seconds = -1.0
    if not 0 <= seconds < inf:
        raise ConfigError(
            f"the database URL: answer_timeout: need seconds, or 0 for no limit, got {text!r:.80}"
        )
    return seconds or inf
