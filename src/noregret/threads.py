"""Linear algebra on one thread while a suggestion is worked out.

The matrices of a study have tens to a few hundred rows.  Several threads gain nothing on them, and
on a machine that is busy, as that of a live system is, they wait for each other: with one of two
cores taken, a run took eleven times as long.  On one thread a suggestion also has the same bits on
a machine with another number of cores.

threadpoolctl does it where it is installed (it comes with the extras `cli`, `studies` and
`experiments`); without it, set OMP_NUM_THREADS=1 before the process starts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any

_taken = Lock()  # the limit is the process's; who overlaps with another must not lift or restore it


@contextmanager
def one_thread() -> Iterator[None]:
    """For a block, or as a decorator.  Of threads that overlap, the first one's limit counts."""
    libraries = _libraries()
    if libraries is None or not _taken.acquire(blocking=False):
        yield
        return
    try:
        with libraries.limit(limits=1):
            yield
    finally:
        _taken.release()


@cache
def _libraries() -> Any:
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController().select(user_api="blas")
