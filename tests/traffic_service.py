"""A service that only has a table and takes reports, and that fails when a test tells it to."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

PATIENCE = 60.0  # seconds, for a busy machine


def table(shares: dict[int, float], version: int = 1, **changes: Any) -> dict[str, Any]:
    """A table in which row r has trial 100 + r; the slots are in order."""
    rows, at, total = [], 0, sum(shares.values())
    for row, share in shares.items():
        end = 10_000 if row == list(shares)[-1] else at + round(10_000 * share / total)
        params = {"price": float(row)}
        known = {"row": row, "trial": 100 + row, "role": "explore", "share": share / total}
        rows.append(known | {"params": params, "slots": [[at, end]], "why": "for a test"})
        at = end
    made = {"study": "shop", "version": version, "salt": "shop", "slots": 10_000, "rows": rows}
    made |= {"made_at": "2026-11-18T12:00:00+00:00", "ttl": 600.0, "valid_for": 600.0}
    return made | {"baseline": {"price": 10.0}} | changes


class FakeService:
    """Counts reports like the real one: a key counts once.

    `fails(method, path)` returns what goes wrong with a request: None, a status and a body, "hang
    up before" or "hang up after" the report was counted.
    """

    def __init__(self) -> None:
        self.table = table({1: 0.6, 2: 0.3, 3: 0.1})
        self.fails: Callable[[str, dict], Any] = lambda method, body: None
        self.counted: dict[str, dict] = {}  # by key
        self.seen: list[tuple[str, str, dict]] = []  # every request: method, key, body
        self.asked: list[str] = []  # paths
        handler = type("Handler", (Handler,), {"service": self})
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"

    def totals(self) -> dict[int, tuple[float, float, float]]:
        found: dict[int, list[float]] = {}
        for body in list(self.counted.values()):
            for each in body["reports"]:
                total = found.setdefault(each["trial"], [0, 0.0, 0.0])
                for i, name in enumerate(("count", "sum", "sum_squares")):
                    total[i] += each[name]
        return {trial: tuple(total) for trial, total in found.items()}

    def posts(self) -> list[tuple[str, str, dict]]:
        return [each for each in self.seen if each[0] == "POST"]

    @contextmanager
    def running(self) -> Iterator[FakeService]:
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            thread.join()
            self._server.server_close()


class Handler(BaseHTTPRequestHandler):
    service: FakeService

    def log_message(self, format: str, *args: object) -> None:
        pass

    def do_GET(self) -> None:
        self.handle_one({})

    def do_POST(self) -> None:
        self.handle_one(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))

    def handle_one(self, body: dict) -> None:
        service, key = self.service, self.headers.get("Idempotency-Key", "")
        service.seen.append((self.command, key, body))
        service.asked.append(self.path)
        wrong = service.fails(self.command, body)
        if wrong == "hang up before":
            self.close_connection = True
            return
        if isinstance(wrong, tuple):
            self.answer(*wrong)
            return
        if self.command == "GET":
            self.answer(200, service.table)
            return
        assert service.counted.setdefault(key, body) == body, "one key, two contents"
        if wrong == "hang up after":
            self.close_connection = True
            return
        self.answer(204, None)

    def answer(self, status: int, body: Any) -> None:
        text = b"" if body is None else json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


def until(happened: Callable[[], object]) -> None:
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < deadline
        time.sleep(0.01)
