"""Methods that threads call one at a time."""

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
    """A method that threads call one at a time: what two of them do at once must not get lost."""

    @wraps(verb)
    def alone(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            return verb(self, *args, **kwargs)

    return alone
