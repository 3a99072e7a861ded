"""A real service in a process of its own, for the tests and the benchmark."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any


class Service:
    """`regretless serve` on a port that stays the same, to be killed and started again."""

    def __init__(
        self,
        storage: str,
        *options: str,
        folder: Path,
        program: tuple[str, ...] = ("-m", "regretless"),
    ) -> None:
        self.storage, self.options, self.folder, self.program = storage, options, folder, program
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        command = [sys.executable, *self.program, "serve", "--storage", self.storage]
        with (self.folder / "service.log").open("ab") as log:
            self._process = subprocess.Popen(
                [*command, "--port", str(self.port), *self.options],
                cwd=self.folder,
                env=os.environ | {"OMP_NUM_THREADS": "1"},
                stdout=log,
                stderr=log,
            )
        deadline = time.monotonic() + 120  # on a busy machine; as a rule it takes a second
        while not self._answers():
            assert self._process.poll() is None, self.log
            assert time.monotonic() < deadline, self.log
            time.sleep(0.02)

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self._process is not None
        self._process.send_signal(how)
        code = self._process.wait(timeout=120)
        self._process = None
        return code

    def kill(self) -> None:
        """No warning, no farewell."""
        self.stop(signal.SIGKILL)

    @property
    def log(self) -> str:
        return (self.folder / "service.log").read_text()

    @property
    def running(self) -> bool:
        return self._process is not None

    def _answers(self) -> bool:
        try:
            connection = HTTPConnection("127.0.0.1", self.port, timeout=5)
            connection.request("GET", "/healthz")
            return connection.getresponse().status == 200
        except (OSError, HTTPException):
            return False
        finally:
            connection.close()


@contextmanager
def serving(storage: str, *options: str, **settings: Any) -> Iterator[Service]:
    service = Service(storage, *options, **settings)
    service.start()
    try:
        yield service
    finally:
        if service.running:
            service.stop()
