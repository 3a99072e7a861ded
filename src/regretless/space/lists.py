"""Values that are written out: `Categorical` without an order, `Ordinal` with one."""

from __future__ import annotations

import sys
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np

from regretless._internal.shown import shown
from regretless._internal.validate import is_integer
from regretless.errors import SpaceError
from regretless.kernels import Hamming, Kernel
from regretless.space.checks import has_surrogates, is_real, quoted, set_fields, widened
from regretless.space.parameter import Parameter, Scalar
from regretless.space.scales import Bins, Levels, Ranks

MOST_VALUES = 100_000  # of one parameter


class _Listed(Parameter):
    """The base of parameters with a list of values.  True and 1 differ; 1 and 1.0 are the same."""

    @property
    @abstractmethod
    def _items(self) -> tuple[Scalar, ...]: ...

    @cached_property
    def _ranks(self) -> dict[tuple[bool, Scalar], int]:
        return {key(item): k for k, item in enumerate(self._items)}

    def validate(self, value: object, name: str = "value") -> Scalar:
        rank = self._ranks.get(key(_native(value))) if _is_scalar(value) else None
        if rank is None:
            raise SpaceError(
                f"{name}: must be one of {_shortened(self._items)}, got {shown(value)}"
            )
        return self._items[rank]

    def _value(self, k: int) -> Scalar:
        return self._items[k]

    def _index(self, value: Scalar) -> int:
        return self._ranks[key(value)]

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and tuple(self._ranks) == tuple(other._ranks)

    def __hash__(self) -> int:
        return hash((type(self), tuple(self._ranks)))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({list(self._items)!r})"


@dataclass(frozen=True, eq=False, repr=False)
class Categorical(_Listed, json="categorical"):
    """One of several choices without an order.

    Args:
        choices: a list of distinct strings, finite numbers, bools or None.

    Raises:
        SpaceError: the list is empty, or a choice is repeated or of another type.

    Example:
        >>> solver = Categorical(["adam", "sgd"])
        >>> solver.validate("sgd")
        'sgd'
        >>> [solver.encode(choice) for choice in solver.choices]
        [0.25, 0.75]
    """

    choices: Sequence[Scalar]
    has_order: ClassVar[bool] = False
    inactive_at: ClassVar[float] = 0.0  # none of the choices is there

    def __post_init__(self) -> None:
        set_fields(self, choices=distinct("Categorical", "choices", self.choices))

    @property
    def _items(self) -> tuple[Scalar, ...]:
        return tuple(self.choices)

    @cached_property
    def scale(self) -> Levels:
        return Bins(len(self.choices))

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel:
        return Hamming((1.0,) * len(columns), tuple(columns))


@dataclass(frozen=True, eq=False, repr=False)
class Ordinal(_Listed, json="ordinal"):
    """One of several values with an order, at equal distances.

    Args:
        values: a list of distinct strings, finite numbers, bools or None, in their order.

    Raises:
        SpaceError: the list is empty, or a value is repeated or of another type.

    Example:
        >>> size = Ordinal(["small", "medium", "large"])
        >>> [size.encode(value) for value in size.values]
        [0.0, 0.5, 1.0]
    """

    values: Sequence[Scalar]

    def __post_init__(self) -> None:
        set_fields(self, values=distinct("Ordinal", "values", self.values))

    @property
    def _items(self) -> tuple[Scalar, ...]:
        return tuple(self.values)

    @cached_property
    def scale(self) -> Levels:
        return Ranks(len(self.values))


def _is_scalar(value: object) -> bool:
    return (
        value is None
        or isinstance(value, str | np.bool_ | float | np.floating)
        or (is_integer(value))
    )


def distinct(owner: str, field: str, values: object) -> tuple[Scalar, ...]:
    # Reject sets, which have no stable order, and strings, which would be lists of letters.
    if (
        isinstance(values, str)
        or not isinstance(values, Sequence | np.ndarray)
        or getattr(values, "ndim", 1) == 0
        or not len(values)
    ):
        raise SpaceError(f"{owner}: {field} must be a non-empty list, got {shown(values)}")
    if len(values) > MOST_VALUES:
        raise SpaceError(f"{owner}: need at most {MOST_VALUES} {field}, got {len(values)}")
    for value in map(widened, values):
        if not _is_scalar(value) or (is_real(value) and not abs(value) <= sys.float_info.max):
            kinds = "a string, a finite number, a bool or None"
            raise SpaceError(f"{owner}: each of {field} must be {kinds}, got {shown(value)}")
        if isinstance(value, str) and has_surrogates(value):
            raise SpaceError(
                f"{owner}: {shown(value)} of {field} is no valid text (a lone surrogate)"
            )
    natives = tuple(_native(value) for value in values)
    if len({key(v) for v in natives}) < len(natives):
        raise SpaceError(f"{owner}: {field} must be distinct, got {shown(list(natives))}")
    return natives


def plain_scalar(value: object, name: str) -> Scalar:
    """The value as plain Python has it.

    Raises:
        SpaceError: it is neither a string, a finite number, a bool nor None.
    """
    given = widened(value)
    finite = not is_real(given) or abs(given) <= sys.float_info.max
    broken = isinstance(given, str) and has_surrogates(given)
    if not (_is_scalar(given) and finite) or broken:
        kinds = "a string, a finite number, a bool or None"
        raise SpaceError(f"{name}: must be {kinds}, got {shown(value)}")
    return _native(given)


def _native(value: Any) -> Scalar:
    """A scalar as Python's own bool, int, float, str or None."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if is_integer(value) else float(value)


def key(value: Scalar) -> tuple[bool, Scalar]:
    """A dictionary key that tells True from 1, which are equal in Python."""
    return isinstance(value, bool), value


def _shortened(items: Sequence[Scalar], most: int = 10) -> str:
    shown = quoted(items[:most])
    return f"[{shown}, … {len(items) - most} more]" if len(items) > most else f"[{shown}]"
