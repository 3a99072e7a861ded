"""The limits of connections, in this process: a server in a thread, and clients on sockets."""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPConnection
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn

from regretless.service import app, connections
from regretless.service.connections import Connection, Crowd, Listening

PATIENCE = 20.0  # seconds; a loaded machine may take some of them
BIG = b"x" * 30_000_000


class Served:
    """A server that answers at once, slowly (until `go` is set), or with a large body."""

    def __init__(self, crowd: Crowd) -> None:
        self.crowd, self.go = crowd, threading.Event()
        self.listening = app._bound("127.0.0.1", 0)
        self.port: int = self.listening.getsockname()[1]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await receive()
        while scope["path"] == "/slow" and not self.go.is_set():
            await asyncio.sleep(0.01)
        body = BIG if scope["path"] == "/big" else b"done"
        length = str(len(body)).encode()
        start = {"type": "http.response.start", "status": 200}
        await send(start | {"headers": [(b"content-length", length)]})
        await send({"type": "http.response.body", "body": body})

    def connect(self, beginning: bytes = b"") -> socket.socket:
        made = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        made.sendall(beginning)
        return made

    def wait_for(self, connections: int) -> None:
        end = time.monotonic() + PATIENCE
        while self.crowd._total != connections and time.monotonic() < end:
            time.sleep(0.01)
        assert self.crowd._total == connections


@contextmanager
def served(most: int = 10, most_of_one: int = 10) -> Iterator[Served]:
    here = Served(Crowd(most, most_of_one))
    config = uvicorn.Config(
        here,
        http=type("OurConnection", (Connection,), {"crowd": here.crowd}),
        lifespan="off",
        log_level="critical",
        access_log=False,
        ws="none",
        timeout_graceful_shutdown=1,
    )
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [here.listening]})
    thread.start()
    try:
        yield here
    finally:
        here.go.set()
        server.should_exit = True
        thread.join(PATIENCE)
        here.listening.close()
    assert not thread.is_alive()


def request(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode()


def ends(one: socket.socket) -> bool:
    """Whether the server ends the connection."""
    with suppress(ConnectionResetError):
        while one.recv(65536):
            pass
    return True


def test_requests_on_one_connection() -> None:
    with served() as here:
        client = HTTPConnection("127.0.0.1", here.port, timeout=PATIENCE)
        for _ in range(3):
            client.request("GET", "/")
            assert client.getresponse().read() == b"done"
        here.wait_for(1)
        client.close()
        here.wait_for(0)
        assert not here.crowd._of
        assert not here.crowd._waiting


def test_a_header_that_does_not_come(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.2)
    with served() as here, here.connect() as silent, here.connect(b"GET / HTTP/1.1\r\nX: ") as slow:
        assert ends(silent)
        assert ends(slow)
        here.wait_for(0)


def test_one_address_has_a_limited_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CLOSING_SECONDS", 0.2)
    with served(most_of_one=1) as here, here.connect(request("/slow")) as busy:
        here.wait_for(1)
        while here.crowd._waiting:  # until the request has arrived
            time.sleep(0.01)
        with here.connect(request("/")) as other:
            answer = other.recv(65536)
            assert answer.startswith(b"HTTP/1.1 503 ")
            assert b"Retry-After: 1" in answer
        here.go.set()
        assert busy.recv(65536).startswith(b"HTTP/1.1 200 ")


def test_a_connection_that_waits_makes_room() -> None:
    with served(most=1) as here, here.connect() as idle:
        here.wait_for(1)
        with here.connect(request("/")) as other:
            assert other.recv(65536).startswith(b"HTTP/1.1 200 ")
            assert ends(idle)


def test_an_answer_that_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", 0.3)
    with served() as here, here.connect(request("/big")):
        here.wait_for(1)
        here.wait_for(0)  # cut off, though the client has not read


def test_an_answer_that_is_read_slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "UNREAD_SECONDS", PATIENCE)
    with served() as here, here.connect(request("/big")) as client:
        time.sleep(0.1)  # so that the server has to wait
        received = 0
        while received < len(BIG):
            received += len(client.recv(2**20))


def test_no_descriptor_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first failure is reported; those right after it look like an empty queue."""

    def fail(self: socket.socket) -> Any:
        raise OSError(errno.EMFILE, "too many open files")

    monkeypatch.setattr(socket.socket, "accept", fail)
    with app._bound("127.0.0.1", 0) as listening:
        assert isinstance(listening, Listening)
        with pytest.raises(OSError, match="too many open files"):
            listening.accept()
        with pytest.raises(BlockingIOError):
            listening.accept()
