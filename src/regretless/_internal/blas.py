"""Limit the BLAS library to one thread.

The matrices of a study have tens to a few hundred rows.  Several threads gain nothing at this size.
On a busy machine they are slower, because they wait for each other: with one of two cores busy, a
run took eleven times as long.  With one thread, a suggestion also has the same bits on machines
with different numbers of cores.

The limit needs threadpoolctl, which comes with the extras `cli`, `studies` and `experiments`.
Without it, set OMP_NUM_THREADS=1 before the process starts.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any


class _Door:
    """Counts the threads that need the limit, because the limit applies to the whole process.

    The first thread that enters sets the limit, and the last one that leaves lifts it.  If the
    limit were lifted earlier, the other threads would go on without it.
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
_looking = Lock()


@contextmanager
def one_thread() -> Iterator[None]:
    """Limit BLAS to one thread, as a context manager or a decorator.  Threads may overlap."""
    libraries, door = blas_libraries(), _door
    if libraries is None:
        yield
        return
    door.enter(libraries)
    try:
        yield
    finally:
        door.leave()


def blas_libraries() -> Any:
    """What sets the number of threads of BLAS; None without threadpoolctl.

    Two threads wait for each other for ever if one looks for the libraries of the process while the
    other imports a module that is a library itself.  (The first has the lock of the loader and
    needs that of Python, and the second has it the other way round.)  So one thread looks, once,
    and the others wait: none of them goes on to import scipy.optimize meanwhile.  A program with
    other threads that import should call this before it starts them.
    """
    with _looking:
        return _found()


@cache
def _found() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")


def _let_anybody_lift() -> None:
    """Let this thread lift a limit that another one set.

    Since threadpoolctl 3.8, only the thread that set a limit may lift it.
    """
    from threadpoolctl import OpenBLASController

    if hasattr(OpenBLASController, "clear_controlling_thread"):
        OpenBLASController.clear_controlling_thread(force=True)


def _forked() -> None:
    """Start with a new door after a fork: the threads inside the old one are not in the child."""
    global _door, _looking
    _door, _looking = _Door(), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)
