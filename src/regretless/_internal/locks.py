"""A decorator for methods that only one thread at a time may run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Locked(Protocol):
    _lock: Any


S = TypeVar("S", bound=_Locked)


class WithLock:
    """For objects with a `_lock`: a copy, or one that was pickled, gets a lock of its own."""

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())


def in_turn(verb: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run the method while holding `self._lock`, so that calls from several threads can't clash."""

    @wraps(verb)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return verb(self, *args, **kwargs)

    return alone
