"""A decorator for methods that only one thread at a time may run."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class _Locked(Protocol):
    _lock: Any


S = TypeVar("S", bound=_Locked)


def in_turn(verb: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Run the method while holding `self._lock`, so that calls from several threads can't clash."""

    @wraps(verb)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return verb(self, *args, **kwargs)

    return alone
