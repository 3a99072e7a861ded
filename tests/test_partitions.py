"""A database that is there and does not answer: behind a proxy that stops, or frozen."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import regretless as rl
from conftest import PostgresServer
from proxy import Proxy
from regretless.client import Client, RemoteStudy
from regretless.errors import ConfigError, ServiceError, StorageError
from regretless.studies.journal import Journal
from regretless.studies.postgres import DEFAULTS, Postgres
from serving import serving

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 50, "seed": 1}
LIMITS = "&connect_timeout=2&answer_timeout=2"


@pytest.fixture
def proxy(postgres: PostgresServer) -> Iterator[Proxy]:
    proxy = Proxy(postgres.port)
    yield proxy
    proxy.close()


@pytest.fixture
def far_url(postgres: PostgresServer, postgres_url: str, proxy: Proxy) -> str:
    return postgres_url.replace(f":{postgres.port}/", f":{proxy.port}/") + LIMITS


@contextmanager
def within(seconds: float) -> Iterator[None]:
    start = time.monotonic()
    yield
    assert time.monotonic() - start < seconds


class Call(threading.Thread):
    """A call in a thread of its own, so that a hang fails the test and does not stop it."""

    def __init__(self, call: Any, *args: Any) -> None:
        super().__init__(daemon=True)
        self._call, self._args = call, args
        self.result: Any = None
        self.start()

    def run(self) -> None:
        try:
            self.result = self._call(*self._args)
        except rl.RegretlessError as error:
            self.result = error

    def ended(self, seconds: float) -> Any:
        self.join(seconds)
        assert not self.is_alive(), "the call hangs"
        return self.result


def test_every_limit_has_a_default_and_the_url_may_set_another() -> None:
    url = "postgresql://me@there/db?connect_timeout=3&answer_timeout=7&keepalives_idle=99"
    with Journal(backend := Postgres(rl_url(url)), read_only=True):
        query = dict(backend.url.query)
        assert query["connect_timeout"] == "3"
        assert query["keepalives_idle"] == "99"
        assert query["keepalives_interval"] == DEFAULTS["keepalives_interval"]
        assert query["tcp_user_timeout"] == DEFAULTS["tcp_user_timeout"]
        assert "answer_timeout" not in query  # libpq would refuse it
        assert backend._answer_seconds == 7.0


def rl_url(url: str) -> Any:
    import sqlalchemy as sa

    return sa.make_url(url)


@pytest.mark.parametrize("limit", ["soon", "-1", "nan", "inf"])
def test_a_limit_that_is_none(limit: str) -> None:
    with pytest.raises(ConfigError, match=r"answer_timeout: need seconds"):
        Journal.open(f"postgresql://me@localhost/db?answer_timeout={limit}")


def test_a_tell_without_an_answer_ends_and_is_there_once_after_the_partition(
    far_url: str, proxy: Proxy, tmp_path: Path
) -> None:
    with (
        rl.Study.open(far_url, "far", **SETTINGS) as far,
        rl.Study.open(tmp_path / "near.db", "near", **SETTINGS) as near,
    ):
        trial, mine = far.ask(), near.ask()
        proxy.freeze()
        telling = Call(far.tell, trial, 1.0)
        with within(1.5):  # studies in other databases go on
            near.tell(mine, 1.0)
        error = telling.ended(8.0)
        assert isinstance(error, StorageError)
        assert "no answer for 2 s" in str(error)
        proxy.thaw()
        time.sleep(2.1)
        far.tell(trial, 1.0)
        assert far.observations == 1


def test_a_server_whose_processes_are_stopped(postgres: PostgresServer, postgres_url: str) -> None:
    """SIGSTOP: the system goes on to answer for them on the wire, so that no keepalive fails."""
    with rl.Study.open(postgres_url + LIMITS, "s", **SETTINGS) as study:
        trial = study.ask()
        postgres.freeze()
        try:
            call = Call(study.tell, trial, 1.0)
            assert isinstance(call.ended(30.0), StorageError)
            with within(2.0), pytest.raises(StorageError):  # at once, a moment later
                study.tell(trial, 1.0)
        finally:
            postgres.thaw()
        time.sleep(2.1)
        study.tell(trial, 1.0)
        assert [event.kind for event in study.events()] == ["created", "asked", "told"]


def test_those_that_wait_for_each_other_fail_together(far_url: str, proxy: Proxy) -> None:
    with rl.Study.open(far_url, "far", **SETTINGS) as study:
        trials = study.ask(6)
        proxy.freeze()
        calls = [Call(study.tell, trial, 1.0) for trial in trials]
        with within(8.0):  # not 2 s each, one after the other
            errors = [call.ended(8.0) for call in calls]
        assert all(isinstance(error, StorageError) for error in errors)
        asking = Call(study.ask)
        assert isinstance(asking.ended(8.0), StorageError)


def test_a_server_that_takes_a_connection_and_says_nothing(far_url: str, proxy: Proxy) -> None:
    proxy.freeze()
    opening = Call(Journal.open, far_url)
    assert isinstance(opening.ended(8.0), StorageError)


def test_a_command_ends_too(far_url: str, proxy: Proxy) -> None:
    proxy.freeze()
    command = ["-m", "regretless", "studies", "--storage", far_url]
    done = subprocess.run([sys.executable, *command], capture_output=True, timeout=30, text=True)
    assert done.returncode == StorageError.exit_code
    assert "timeout" in done.stderr


def test_a_wait_for_a_lock_is_not_taken_for_silence(
    postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer waits longer for another one than for an answer."""
    with (
        Journal.open(postgres_url) as one,
        Journal.open(postgres_url + "&answer_timeout=0.5") as two,
        one._engine.connect() as conn,
    ):
        one._backend.lock(conn, "s")
        appending = Call(two.append, "s", "n", {})
        time.sleep(1.5)
        assert appending.is_alive()
        conn.commit()
        assert appending.ended(5.0).seq == 1


def test_a_frozen_database_leaves_the_service_its_threads(
    far_url: str, proxy: Proxy, tmp_path: Path
) -> None:
    with serving(far_url.replace("answer_timeout=2", "answer_timeout=8"), folder=tmp_path) as it:
        impatient = Client(it.url, patience=0.0)
        study = impatient.create("s", **SETTINGS)
        trials = study.ask(20)
        proxy.freeze()
        first = [Call(study.tell, trial, 1.0) for trial in trials]
        time.sleep(5.5)
        with within(1.0):
            assert impatient.call("GET", "/healthz")["status"] == "ok"
        with within(5.0), pytest.raises(ServiceError, match="503: the storage cannot be reached"):
            impatient.call("GET", "/readyz")
        other = RemoteStudy(impatient, "other")
        late = [Call(other.tell, 0, 1.0) for _ in range(20)]
        for call in late[8:]:
            with within(3.0):  # refused at once; some may try
                assert isinstance(call.ended(20.0), StorageError)
        for call in first:
            assert isinstance(call.ended(30.0), StorageError)
        proxy.thaw()
        time.sleep(2.1)
        patient = RemoteStudy(Client(it.url, patience=30.0), "s")
        for trial in trials:
            patient.tell(trial, 1.0)
        assert patient.info()["told"] == 20
        assert "Traceback" not in it.log
