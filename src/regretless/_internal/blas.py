"""Linear algebra on one thread.

The matrices of a study have tens to a few hundred rows.  Several threads gain nothing on them, and
on a machine that is busy, as that of a live system is, they wait for each other: with one of two
cores taken, a run took eleven times as long.  On one thread a suggestion also has the same bits on
a machine with another number of cores.

threadpoolctl does it where it is installed (it comes with the extras `cli`, `studies` and
`experiments`); without it, set OMP_NUM_THREADS=1 before the process starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any


class _Door:
    """The limit is the process's: the first thread that comes sets it, the last that goes lifts it.

    Were it lifted before, somebody's suggestion would be worked out on one thread in part.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._inside = 0
        self._limit: Any = None

    def enter(self, libraries: Any) -> None:
        with self._lock:
            if not self._inside:
                self._limit = libraries.limit(limits=1)
            self._inside += 1

    def leave(self) -> None:
        with self._lock:
            self._inside -= 1
            if not self._inside:
                _let_anybody_lift()
                self._limit.restore_original_limits()
                _let_anybody_lift()


_door = _Door()


@contextmanager
def one_thread() -> Iterator[None]:
    """For a block, or as a decorator; threads may overlap."""
    libraries, door = _libraries(), _door
    if libraries is None:
        yield
        return
    door.enter(libraries)
    try:
        yield
    finally:
        door.leave()


@cache
def _libraries() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def _let_anybody_lift() -> None:
    """From 3.8 on, threadpoolctl heeds only the thread that has set a limit."""
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


def _forked() -> None:
    """In the child: those who were inside are not there."""
    global _door
    _door = _Door()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
