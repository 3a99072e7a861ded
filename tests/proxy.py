"""A proxy between clients and a server, which can stop, delay or cut what it passes on."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress


class Proxy:
    """Passes bytes on between clients and a server, until it is told to keep them to itself."""

    def __init__(self, port: int) -> None:
        self.delay = 0.0  # seconds before bytes are passed on
        self._target = port
        self._passing = threading.Event()
        self._passing.set()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def freeze(self) -> None:
        self._passing.clear()

    def thaw(self) -> None:
        self._passing.set()

    def cut(self) -> None:
        """End all connections, in the middle of whatever they do."""
        for each in self._open:
            with suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        self._open.clear()

    def close(self) -> None:
        self.thaw()
        self._listening.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(("127.0.0.1", self._target))
            except OSError:  # the server is away
                client.close()
                continue
            self._open += [client, server]
            for pair in (client, server), (server, client):
                threading.Thread(target=self._pass_on, args=pair, daemon=True).start()

    def _pass_on(self, one: socket.socket, other: socket.socket) -> None:
        try:
            while data := one.recv(65536):
                self._passing.wait()
                time.sleep(self.delay)
                other.sendall(data)
            other.shutdown(socket.SHUT_WR)
        except OSError:
            pass
