"""Fork handlers: no fork happens while a study changes its state or uses its journal."""

from __future__ import annotations

import os
import sys
import threading
import weakref
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from regretless.studies.study import Study

_studies: weakref.WeakSet[Study] = weakref.WeakSet()
_held: list[Study] = []


def follow(study: Study) -> None:
    """Hold the lock of this study during forks."""
    _studies.add(study)


@cache
def mind() -> None:
    """Register the fork handlers.

    Call it after the journal module was imported, because handlers run in reverse order.  The
    studies then stop using their connections before the journal closes them.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_start_afresh)


def _hold() -> None:
    """Wait until no study is in use and no import runs, and hold the locks of all studies."""
    for name in ("scipy.optimize", "scipy.spatial.distance", "scipy.special"):
        if name in sys.modules:  # another thread, which the child lacks, may be importing it
            import_module(name)
    _held.extend(_studies)
    for study in _held:
        study._lock.acquire()


def _let_go() -> None:
    while _held:
        _held.pop()._lock.release()


def _start_afresh() -> None:
    """Make new locks in the child, because the thread that was asking does not exist there."""
    _let_go()
    for study in _studies:
        study._asking, study._preparing = threading.Lock(), threading.Lock()
