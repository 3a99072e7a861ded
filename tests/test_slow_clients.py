"""Clients that open connections and hardly send anything, and a service with few descriptors."""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import regretless as rl
from regretless.client import Client
from regretless.errors import ConfigError
from regretless.service import app, connections
from regretless.service.auth import Tokens
from serving import Service, serving

SETTINGS: dict[str, Any] = {"space": rl.Space({"x": rl.Float(0.0, 1.0)}), "budget": 500, "seed": 1}
TRICKLE = b"GET / HTTP/1.1\r\nHost: localhost\r\nX: "
POST = (
    b"POST /api/studies/s/ask HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    b"Content-Length: 1000\r\n\r\n{"
)


def quick(**seconds: float) -> tuple[str, ...]:
    """The service with other limits than its own."""
    lines = [f"limits.{name} = {value!r}" for name, value in seconds.items()]
    return (
        "-c",
        "\n".join(
            [
                "from regretless.cli.app import main",
                "from regretless.service import connections as limits",
                *lines,
                "main()",
            ]
        ),
    )


class SlowClients:
    """Connections that send a beginning, and then a byte now and then."""

    def __init__(self, service: Service, number: int, beginning: bytes = TRICKLE) -> None:
        self.open: list[socket.socket] = []
        for _ in range(number):
            one = socket.create_connection(("127.0.0.1", service.port), timeout=10)
            self.open.append(one)
            if beginning:
                one.sendall(beginning)
            one.setblocking(False)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._trickle, daemon=True)
        self._thread.start()

    def _trickle(self) -> None:
        while not self._stopped.wait(0.25):
            for one in self.open:
                with suppress(OSError):
                    one.send(b"a")

    def held(self) -> int:
        """How many the service has not closed."""
        return sum(map(_is_open, self.open))

    def close(self) -> None:
        self._stopped.set()
        self._thread.join()
        for one in self.open:
            one.close()


def _is_open(one: socket.socket) -> bool:
    """Whether nothing but answers has come from the service; these are thrown away."""
    try:
        while one.recv(65536):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


@contextmanager
def slow(service: Service, number: int, beginning: bytes = TRICKLE) -> Iterator[SlowClients]:
    clients = SlowClients(service, number, beginning)
    try:
        yield clients
    finally:
        clients.close()


def soon(true: Any, seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.05)
    return True


def slowest_tell(service: Service, tells: int) -> float:
    study = Client(service.url, patience=0.0).create("ordinary", **SETTINGS)
    worst = 0.0
    for _ in range(tells):
        trial = study.adopt({"x": 0.5})
        start = time.perf_counter()
        study.tell(trial, 1.0)
        worst = max(worst, time.perf_counter() - start)
    return worst


@pytest.mark.parametrize("beginning", [b"", TRICKLE, TRICKLE[:1]])
def test_a_header_that_never_ends_is_not_waited_for(tmp_path: Path, beginning: bytes) -> None:
    with (
        serving(str(tmp_path / "s.db"), folder=tmp_path, program=quick(HEADER_SECONDS=1.0)) as it,
        slow(it, 20, beginning) as clients,
    ):
        assert soon(lambda: clients.held() == 0)
        assert "Traceback" not in it.log


def test_a_get_with_a_body_that_never_ends(tmp_path: Path) -> None:
    endless = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n"
    with (
        serving(str(tmp_path / "s.db"), folder=tmp_path, program=quick(HEADER_SECONDS=1.0)) as it,
        slow(it, 5, endless) as clients,
    ):
        for one in clients.open:
            one.settimeout(10)
            while one.recv(65536):  # the answer, and then the end
                pass


def test_200_slow_clients_do_not_keep_others_out(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as it:
        rl.Study.open(tmp_path / "s.db", "s", **SETTINGS).close()
        with slow(it, 100), slow(it, 100, POST):
            assert slowest_tell(it, 40) < 2.0  # as a rule 0.05 s; a busy machine
        assert len(it.log) < 20_000


def test_where_few_connections_are_allowed_those_that_wait_make_room(tmp_path: Path) -> None:
    with (
        serving(str(tmp_path / "s.db"), folder=tmp_path, program=quick(MOST=20)) as it,
        slow(it, 100) as clients,
    ):
        assert slowest_tell(it, 5) < 5.0
        assert clients.held() <= 20


def test_one_address_has_no_more_than_its_share(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), "--peer-connections", "10", folder=tmp_path) as it:
        rl.Study.open(tmp_path / "s.db", "s", **SETTINGS).close()
        with slow(it, 30, POST) as clients:  # these are being answered, so they stay
            assert soon(lambda: clients.held() == 10)
            with socket.create_connection(("127.0.0.1", it.port), timeout=10) as another:
                answer = another.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1" in answer
        assert it.log.count("too many connections") <= connections.LINES


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """The service goes on, and its log stays short."""
    program = (
        "-c",
        "import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))\n"
        "from regretless.cli.app import main\nmain()",
    )
    with (
        serving(str(tmp_path / "s.db"), folder=tmp_path, program=program) as service,
        slow(service, 150),
    ):
        time.sleep(2.0)
        assert soon(lambda: healthy(service), 20.0)
        assert soon(lambda: told(service), 20.0)
        assert len(service.log) < 50_000


def healthy(service: Service) -> bool:
    connection = HTTPConnection("127.0.0.1", service.port, timeout=2)
    try:
        connection.request("GET", "/healthz")
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()


def told(service: Service) -> bool:
    study = Client(service.url, patience=15.0).create("s", **SETTINGS)
    study.tell(study.ask(), 1.0)
    return len(study.history()) > 0


def test_a_log_line_is_repeated_a_few_times_only(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr(connections.time, "monotonic", lambda: clock[0])
    sparing = connections.Sparing()

    def line(text: str) -> tuple[bool, str]:
        record = logging.LogRecord("n", logging.WARNING, "", 0, text, (), None)
        return sparing.filter(record), record.getMessage()

    assert [line("a")[0] for _ in range(15)] == [True] * 10 + [False] * 5
    assert line("b") == (True, "b")
    clock[0] = 61.0
    assert line("a") == (True, "a (5 more like this one were left out)")
    assert line("a") == (True, "a")


@pytest.mark.parametrize(
    ("address", "peer"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8::1", "2001:db8::/64"),
        ("a socket", "a socket"),
    ],
)
def test_an_address_of_version_6_counts_with_its_network(address: str, peer: str) -> None:
    assert connections.network(address) == peer


def test_a_share_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="peer_connections: need at least 1, got 0"):
        app.serve(str(tmp_path / "s.db"), "127.0.0.1", 0, Tokens(), False, 0)
