"""A journal in a SQLite file."""

from __future__ import annotations

import os
import random
import sqlite3
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import DBAPIError, DisconnectionError

from regretless.errors import CorruptJournalError, StorageError
from regretless.studies.database import (
    TURN_SECONDS,
    WAIT_SECONDS,
    create_table,
)


class SQLite:
    silent = False  # a file does not stop answering

    def __init__(self, path: Path) -> None:
        # Absolute, because the working directory may change.  SQLite's log is beside the real file.
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
            raise StorageError(
                f"{self.label}: there is no journal; to create one, give `space`, and `budget` or"
                " `horizon`"
            )

    def _found(self) -> bool:
        """Whether the file exists.

        An empty file is an error: it may be a journal that lost its content.  The file is not
        opened here, because the process would lose SQLite's locks on it when it is closed again.
        """
        if self.path.is_dir():
            raise StorageError(f"{self.label}: is a folder; give the path of a file")
        wal = self.path.with_name(self.path.name + "-wal")
        found = self.path.exists()
        if found and (not self.path.is_file() or self.path.stat().st_size > 0):
            return True
        if wal.exists() and wal.stat().st_size > 0:
            # SQLite would delete this file, which has the only copy of its events.
            raise CorruptJournalError(f"{self.label}: missing or empty, but {wal.name} has events")
        if found:
            raise CorruptJournalError(
                f"{self.label}: the file is empty; if it never was a journal, delete it first"
            )
        return False

    def _create(self) -> None:
        """Create the journal in a temporary file, and then link it under its name.

        So no other process sees an incomplete file.
        """
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
            with suppress(FileExistsError):  # another process was faster; use its journal
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
            try:
                conn.execute("PRAGMA synchronous = EXTRA")  # a commit waits for the disk …
                conn.execute("PRAGMA fullfsync = ON")  # … and on a Mac for the disk's own cache
            except BaseException:  # not a database, for example
                conn.close()
                raise
            return conn

        engine = sa.create_engine("sqlite://", creator=connect, poolclass=sa.QueuePool)
        sa.event.listen(engine, "connect", self._remember_file)
        sa.event.listen(engine, "checkout", self._same_file)
        sa.event.listen(engine, "close", self._let_go)
        return engine

    def _remember_file(self, conn: Any, record: Any) -> None:
        record.info["file"] = self._status().st_ino

    def _let_go(self, conn: Any, record: Any) -> None:
        """Release the write lock: after Ctrl-C, a traceback may hold a cursor that has it."""
        conn.rollback()

    def _same_file(self, conn: Any, record: Any, proxy: Any) -> None:
        """Refuse a connection to a file that was moved or replaced."""
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

    def lock(self, conn: sa.Connection, *studies: str) -> None:
        conn.exec_driver_sql("BEGIN IMMEDIATE")

    @contextmanager
    def turn(self, engine: sa.Engine, study: str) -> Iterator[None]:
        try:
            import fcntl

            # The system unlocks a file when the process ends.  There are 16 lock files instead of
            # one for each study, because it is not known when one could be deleted.
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
                if mine:  # a child process may have the file open, too
                    fcntl.flock(file, fcntl.LOCK_UN)

    def is_transient(self, error: DBAPIError) -> bool:
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
        """The primary error code, without the higher bits of the extended code."""
        return int(getattr(error.orig, "sqlite_errorcode", 0)) & 0xFF
