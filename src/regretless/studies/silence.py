"""Give up on a PostgreSQL server that does not answer.

TCP notices a machine that is gone.  It does not notice a server that is frozen, or a proxy that
takes data and does not pass it on, because the other machine's system still confirms what arrives.
So a call also ends when nothing has come from the server for a while.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from dataclasses import dataclass
from math import inf
from typing import Any, NoReturn, TypeVar

import psycopg
from psycopg.abc import PQGen

T = TypeVar("T")
PAUSE = 2.0  # seconds without calls after one that got no answer


@dataclass
class Silence:
    """How long to wait for a server, and whether it is silent now.

    After a call that got no answer, other calls fail at once for `PAUSE` seconds.  Otherwise those
    that waited for the same lock would each wait for the server, one after the other.
    """

    seconds: float  # without any answer; inf for no limit
    until: float = -inf  # calls fail at once until then

    def begin(self) -> None:
        self.until = time.monotonic() + PAUSE

    @property
    def now(self) -> bool:
        return time.monotonic() < self.until


class LimitedConnection(psycopg.Connection[Any]):
    """A connection whose calls end when the server sends nothing for a while."""

    silence: Silence
    extra: float = 0.0  # seconds that the server may wait for a lock before it answers

    def wait(self, gen: PQGen[T], *args: Any, **kwargs: Any) -> T:
        return super().wait(self._limited(gen), *args, **kwargs)

    def _limited(self, gen: PQGen[T]) -> Generator[Any, Any, T]:
        """The same generator, with a limit on the time in which the socket is not ready.

        psycopg resumes it ten times a second with 0, and with another number if the socket is
        ready.  A long answer is therefore never cut off while it arrives.
        """
        if self.silence.now:
            self._give_up("the server did not answer a moment ago")
        allowed = self.silence.seconds + self.extra
        end = time.monotonic() + allowed
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if ready:
                    end = time.monotonic() + allowed
                elif time.monotonic() >= end:
                    self.silence.begin()
                    self._give_up(f"no answer for {allowed:g} s")
                wanted = gen.send(ready)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _give_up(self, reason: str) -> NoReturn:
        self.pgconn.finish()  # its next answer, if there is one, would be that of an older call
        raise psycopg.OperationalError(reason)


def connect(silence: Silence, **arguments: Any) -> LimitedConnection:
    """A new connection.

    Raises:
        psycopg.OperationalError: the server cannot be reached, does not answer, or did not answer
            another call a moment ago.
    """
    if silence.now:
        raise psycopg.OperationalError("the server did not answer a moment ago")
    try:
        conn = LimitedConnection.connect(**arguments)
    except psycopg.errors.ConnectionTimeout:
        silence.begin()
        raise
    conn.silence = silence
    return conn
