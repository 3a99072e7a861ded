"""A journal in a PostgreSQL database."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from regretless.errors import CorruptJournalError, MissingExtraError, StorageError
from regretless.studies.database import (
    ATTEMPTS,
    TURN_SECONDS,
    TURNS,
    WAIT_SECONDS,
    create_table,
    has_table,
)


class Postgres:
    def __init__(self, url: sa.URL) -> None:
        defaults: dict[str, Any] = {
            "application_name": "regretless",
            "client_encoding": "utf8",
            "connect_timeout": "10",
            "tcp_user_timeout": "30000",  # ms; else a call to a vanished server takes hours
        }
        self.url = url.set(drivername="postgresql+psycopg").update_query_dict(
            defaults | dict(url.query)
        )
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
            raise StorageError(
                f"{self.label}: there is no journal; to create one, give `space` and `budget`"
            )
        self.lock(conn, "")
        if not has_table(conn):
            create_table(conn)

    def settle(self, conn: sa.Connection, read_only: bool) -> None:
        """Nothing to do."""

    def lock(self, conn: sa.Connection, study: str) -> None:
        # A commit has to wait for the disk, even where the server's default says otherwise.
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

        If this process freezes for `freeze` seconds, the server ends its connection.
        """
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

    def is_transient(self, error: DBAPIError) -> bool:
        return error.connection_invalidated

    def explain(self, error: DBAPIError) -> StorageError:
        damaged = getattr(error.orig, "sqlstate", None) in ("XX001", "XX002")
        kind = CorruptJournalError if damaged else StorageError
        return kind(f"{self.label}: {' '.join(str(error.orig).split())}")
