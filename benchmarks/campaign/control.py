"""A clock that a busy machine slows down, so that load alone cannot make a call look like a hang.

A process of its own does a fixed piece of work again and again.  If the work takes three times as
long as its processor time, others keep the machine busy, and a second counts as a third of one.
The process has a session of its own: what the batch itself does to the machine slows it down as
little as the scheduler allows.
"""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

WORK = 0.01  # seconds of processor time
PAUSE = 0.5  # seconds

_clock: Any = None  # shared with the process that does the work, and with workers that are forked


def seconds() -> float:
    """The seconds of an idle machine since the clock was started; else those of any machine."""
    return time.monotonic() if _clock is None else float(_clock.value)


@contextmanager
def running() -> Iterator[None]:
    """The clock runs within the block."""
    global _clock
    context = multiprocessing.get_context("fork")
    _clock = context.Value("d", 0.0, lock=False)
    child = context.Process(target=_tick, args=(_clock, os.getpid()), daemon=True)
    child.start()
    try:
        yield
    finally:
        child.kill()
        child.join()
        _clock = None


def _tick(clock: Any, parent: int) -> None:
    os.setsid()
    begun = time.monotonic()
    while os.getppid() == parent:
        slowness = max(1.0, _work() / WORK)
        time.sleep(PAUSE)
        now = time.monotonic()
        clock.value += (now - begun) / slowness
        begun = now


def _work() -> float:
    """Seconds in which the machine did the work."""
    begun, busy = time.monotonic(), time.process_time() + WORK
    while time.process_time() < busy:
        pass
    return time.monotonic() - begun
