"""A process that forks: its child must find no study in the middle of something."""

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
    _studies.add(study)


@cache
def mind() -> None:
    """Once the journal is imported: of what is done before a fork the last registered comes first,
    and its connections are to be closed after nobody uses them any more."""
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_start_afresh)


def _hold() -> None:
    """Let no state be caught by a fork half folded, and no import half done."""
    for name in ("scipy.optimize", "scipy.spatial.distance", "scipy.special"):
        if name in sys.modules:  # perhaps by another thread just now: the child would wait for ever
            import_module(name)
    _held.extend(_studies)
    for study in _held:
        study._lock.acquire()


def _let_go() -> None:
    while _held:
        _held.pop()._lock.release()


def _start_afresh() -> None:
    """In the child: a thread that was asking does not exist there."""
    _let_go()
    for study in _studies:
        study._asking = threading.Lock()
