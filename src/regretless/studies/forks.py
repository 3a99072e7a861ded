"""Forked processes: no fork may happen while a study changes its state or uses its journal."""

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
    """Register the functions below; call it after the journal was imported.

    Before a fork, the function that was registered last runs first. So the studies stop using their
    connections before the journal closes these.
    """
    if hasattr(os, "register_at_fork"):
        os.register_at_fork(before=_hold, after_in_parent=_let_go, after_in_child=_start_afresh)


def _hold() -> None:
    """Wait until no study is in use and no import is under way, and keep it so."""
    for name in ("scipy.optimize", "scipy.spatial.distance", "scipy.special"):
        if name in sys.modules:  # perhaps half imported by a thread that the child will not have
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
