"""Connections of clients: how many, and how long each may take.

A client that opens connections and hardly sends anything must not keep others out.  So a request's
header and an answer that is not read have time limits (the body's is in `guard.py`), one address
has a limited number of connections, and where all are in use, those that wait for a request make
room for new ones.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import socket
import time
from collections import Counter
from typing import ClassVar

from uvicorn.protocols.http.h11_impl import H11Protocol

from regretless.service.rate import network

HEADER_SECONDS = 10.0  # from the connection, or from the last answer, to the end of a header
UNREAD_SECONDS = 60.0  # for an answer that the client does not read
MOST = 2000  # connections in all
MOST_OF_ONE = 500  # connections of one address
RESERVED_FILES = 200  # descriptors for databases, files, and connections that are to be refused
LEAST = 10  # connections, however few descriptors there are
ACCEPTED_AT_ONCE = 100
QUEUE = 1024  # connections that the system keeps until they are accepted
PAUSE = 1.0  # seconds until the next try, when no descriptor is left
CLOSING_SECONDS = 5.0  # to send what is left, before a connection is cut

LINES = 10  # of one kind that are logged …
LOG_SECONDS = 60.0  # … in so many seconds

_BUSY = (
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 1\r\nConnection: close\r\n"
    b"Content-Type: text/plain\r\nContent-Length: 21\r\n\r\ntoo many connections\n"
)


class Crowd:
    """The open connections, and which of them wait for a request.

    Args:
        most: the most connections in all.
        most_of_one: the most connections of one address.
    """

    def __init__(self, most: int, most_of_one: int) -> None:
        self._most, self._most_of_one = most, most_of_one
        self._of: Counter[str] = Counter()  # connections of each address
        self._total = 0
        self._waiting: dict[Connection, None] = {}  # longest first

    def admit(self, new: Connection) -> bool:
        """Whether there is room for a connection.  If need be, one that waits is cut off."""
        full, crowded = self._total >= self._most, self._of[new.peer] >= self._most_of_one
        if full or crowded:
            mine = (each for each in self._waiting if not crowded or each.peer == new.peer)
            oldest = next(mine, None)
            if oldest is None:
                return False
            del self._waiting[oldest]
            oldest.transport.abort()
        self._of[new.peer] += 1
        self._total += 1
        return True

    def leave(self, one: Connection) -> None:
        self._waiting.pop(one, None)
        self._total -= 1
        self._of[one.peer] -= 1
        if not self._of[one.peer]:
            del self._of[one.peer]

    def wait(self, one: Connection) -> None:
        self._waiting[one] = None

    def work(self, one: Connection) -> None:
        self._waiting.pop(one, None)


class Connection(H11Protocol):
    """uvicorn's connection, with limits.  uvicorn itself has one between two requests only."""

    crowd: ClassVar[Crowd]
    peer: str
    _admitted = False
    _until_header: asyncio.TimerHandle | None = None
    _until_read: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = network(self.client[0]) if self.client else ""
        self._admitted = self.crowd.admit(self)
        if self._admitted:
            self._look()
        else:
            logging.getLogger(__name__).warning("refused: too many connections")
            transport.write(_BUSY)
            self._close()

    def data_received(self, data: bytes) -> None:
        if not self.transport.is_closing():
            super().data_received(data)
            self._look()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._look()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        if self._admitted:
            self.crowd.leave(self)
        for timer in (self._until_header, self._until_read):
            if timer is not None:
                timer.cancel()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._until_read is None:
            self._until_read = self.loop.call_later(UNREAD_SECONDS, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._until_read is not None:
            self._until_read.cancel()
            self._until_read = None

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._close()

    def _look(self) -> None:
        """Set the time limit for a header, unless a request is being answered."""
        if self.transport.is_closing():
            return
        if self.cycle is None or self.cycle.response_complete:
            if self._until_header is None:
                self._until_header = self.loop.call_later(HEADER_SECONDS, self.transport.abort)
                self.crowd.wait(self)
        elif self._until_header is not None:
            self._until_header.cancel()
            self._until_header = None
            self.crowd.work(self)

    def _close(self) -> None:
        """Close the connection, also if the client does not read what it was sent."""
        self.transport.close()
        self.loop.call_later(CLOSING_SECONDS, self.transport.abort)


class Listening(socket.socket):
    """A listening socket that fails once in a while, not in a loop, when no descriptor is left.

    asyncio stops accepting for a second after an error, but first it tries, and logs, once for
    each place in its queue.
    """

    _failed = float("-inf")

    def accept(self) -> tuple[socket.socket, object]:
        try:
            return super().accept()
        except OSError as error:
            if error.errno not in (errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM):
                raise
            now = time.monotonic()
            if now - self._failed < PAUSE / 2:
                raise BlockingIOError from None  # nothing to accept, as far as asyncio knows
            self._failed = now
            raise

    def listen(self, backlog: int = QUEUE, /) -> None:
        super().listen(QUEUE)  # asyncio would shorten it to what it accepts at once


class Sparing(logging.Filter):
    """Lets a few lines of each kind pass, and then says how many were left out."""

    def __init__(self) -> None:
        super().__init__()
        self._kinds: dict[object, tuple[float, int]] = {}  # begin of its time, and lines since

    def filter(self, record: logging.LogRecord) -> bool:
        now, kind = time.monotonic(), record.msg
        begun, lines = self._kinds.get(kind, (now, 0))
        if now - begun >= LOG_SECONDS:
            if lines > LINES:
                record.msg = f"{kind} ({lines - LINES} more like this one were left out)"
            begun, lines = now, 0
        if len(self._kinds) > 1000:  # texts that are all different
            self._kinds.clear()
        self._kinds[kind] = (begun, lines + 1)
        return lines < LINES


def most_connections() -> int:
    """How many connections this process has descriptors for, after asking for more of them."""
    try:
        import resource
    except ModuleNotFoundError:  # not on Windows
        return MOST
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = MOST + RESERVED_FILES
    if soft != resource.RLIM_INFINITY and soft < wanted:
        soft = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    if soft == resource.RLIM_INFINITY:
        return MOST
    return max(LEAST, min(MOST, soft - RESERVED_FILES))
