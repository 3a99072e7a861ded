"""Where a batch works: a folder of its own, and a PostgreSQL server of its own if it needs one."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from conftest import PostgresServer, _postgres_programs


class Skipped(Exception):
    """This machine cannot do the batch."""


@contextmanager
def folder() -> Iterator[Path]:
    made = Path(tempfile.mkdtemp(prefix="regretless-campaign-"))
    try:
        yield made
    finally:
        shutil.rmtree(made, ignore_errors=True)


@contextmanager
def postgres() -> Iterator[PostgresServer]:
    programs = _postgres_programs()
    if programs is None:
        raise Skipped("no PostgreSQL server programs")
    with folder() as home:
        home.chmod(0o755)
        server = PostgresServer.create(programs, home)
        server.start()
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def storage(kind: str) -> Iterator[str]:
    """A place for a journal: "sqlite" or "postgresql"."""
    if kind == "sqlite":
        with folder() as made:
            yield str(made / "journal.db")
    else:
        with postgres() as server:
            yield server.url()


@contextmanager
def small_disk(megabytes: int) -> Iterator[Path]:
    """A file system of this size in memory."""
    with folder() as made:
        options = f"size={megabytes}m"
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", options, "tmpfs", made], capture_output=True, check=False
        )
        if done.returncode:
            raise Skipped("this user may not mount a tmpfs")
        try:
            yield made
        finally:
            subprocess.run(["umount", "--lazy", made], check=True)


def name() -> str:
    return uuid.uuid4().hex[:12]
