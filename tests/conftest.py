"""What all tests share: Ctrl-C that works, a real PostgreSQL and a browser, each started once."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

PASSWORD = "correct-horse-battery"


def pytest_configure() -> None:
    """A run in the background of a shell inherits a SIGINT that is ignored, and so would ours."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def set_patience(monkeypatch: pytest.MonkeyPatch, name: str, seconds: float) -> None:
    """How long both databases wait: `WAIT_SECONDS` for a writer, `TURN_SECONDS` for a turn."""
    from regretless.studies import postgres, sqlite

    for module in (postgres, sqlite):
        monkeypatch.setattr(module, name, seconds)


@dataclass(frozen=True)
class PostgresServer:
    """A cluster of our own, on a free port of the loopback."""

    bin: Path
    home: Path
    port: int
    user: str | None  # the system user to run as; PostgreSQL refuses to be root

    @classmethod
    def create(cls, bin: Path, home: Path) -> PostgresServer:
        user = _unprivileged_user()
        if user is not None:
            shutil.chown(home, user)
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        server = cls(bin, home, port, user)
        secret = home / "password"
        secret.write_text(PASSWORD)
        options = ["--no-sync", "--no-locale", "--encoding=UTF8", "--username=tester"]
        server._run("initdb", *options, "--auth=scram-sha-256", f"--pwfile={secret}")
        return server

    def start(self) -> None:
        settings = {
            "listen_addresses": "127.0.0.1",
            "unix_socket_directories": "",
            # We crash the server, not the machine: what it wrote is safe with the operating
            # system, and a recovery need not wait for the disk with each of its files.
            "fsync": "off",
        }
        options = " ".join(f"-c {name}={value}" for name, value in settings.items())
        log = self.home / "log"
        self._run("pg_ctl", "--wait", f"--log={log}", "-o", f"-p {self.port} {options}", "start")

    def stop(self, mode: str = "immediate") -> None:
        """`immediate` is the server's own kill -9: it recovers from its log at the next start."""
        self._run("pg_ctl", "--wait", f"--mode={mode}", "stop")

    def freeze(self) -> None:
        """Stop all processes of the server where they are."""
        for each in self._processes():
            os.kill(each, signal.SIGSTOP)

    def thaw(self) -> None:
        for each in self._processes():
            os.kill(each, signal.SIGCONT)

    def _processes(self) -> list[int]:
        first = int((self.home / "data" / "postmaster.pid").read_text().split()[0])
        children = Path(f"/proc/{first}/task/{first}/children").read_text().split()
        return [first, *map(int, children)]

    def url(self, database: str = "postgres") -> str:
        return f"postgresql://tester:{PASSWORD}@127.0.0.1:{self.port}/{database}"

    def _run(self, program: str, *arguments: str) -> None:
        privileges: dict[str, Any] = {"user": self.user, "extra_groups": []} if self.user else {}
        done = subprocess.run(
            [self.bin / program, "-D", self.home / "data", *arguments],
            cwd=self.home,
            env={"PATH": os.environ["PATH"], "LC_ALL": "C"},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            timeout=60,
            **privileges,
        )
        assert done.returncode == 0, f"{program} failed: {done.stdout.decode()}"


def _unprivileged_user() -> str | None:
    if os.geteuid() != 0:
        return None
    import pwd  # not on Windows, where only the tests of the core run

    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


def _postgres_programs() -> Path | None:
    """The directory of the newest server; Debian keeps them off the PATH."""
    found = shutil.which("pg_ctl")
    places = [Path(found).resolve().parent] if found else []
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    return next((place for place in places if (place / "initdb").exists()), None)


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """The server itself. A test that stops it starts it again."""
    programs = _postgres_programs()
    if programs is None:
        pytest.skip("no PostgreSQL server programs (initdb, pg_ctl) on this machine")
    # Not pytest's own directory: another system user may not look into it.
    home = Path(tempfile.mkdtemp(prefix="regretless-postgres-"))
    try:
        server = PostgresServer.create(programs, home)
        server.start()
        try:
            yield server
        finally:
            server.stop()
    finally:
        shutil.rmtree(home)


@pytest.fixture
def postgres_url(postgres: PostgresServer) -> str:
    """The URL of an empty schema: to a client it is like a database, but cheaper to make."""
    import psycopg

    name = f"test_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(postgres.url(), autocommit=True) as conn:
        conn.execute(f"CREATE SCHEMA {name}")
    return f"{postgres.url()}?options=-csearch_path%3D{name}"


@pytest.fixture(params=["sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A place for a journal that is not there yet, on each of the databases."""
    if request.param == "sqlite":
        return str(tmp_path / "journal.db")
    url: str = request.getfixturevalue("postgres_url")
    return url


@pytest.fixture(scope="session")
def driver() -> Iterator[Any]:
    """The browser of all tests of the live page."""
    from pages import chromium

    with chromium() as running:
        yield running
