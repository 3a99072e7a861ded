"""Checks of bounds and values, shared by the kinds of parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from numbers import Integral, Real
from typing import TypeGuard

import numpy as np

from regretless.errors import SpaceError
from regretless.space.scales import MAX_LEVELS


def is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def widened(value: object) -> object:
    """A numpy float as a double; with a float16, numpy would turn large bounds into infinity."""
    return float(value) if isinstance(value, np.floating) else value


def rounding(value: object) -> float:
    """The relative rounding error of the value's type; 0 for a type other than numpy's floats."""
    return float(np.finfo(type(value)).eps) if isinstance(value, np.floating) else 0.0


def finite(owner: str, field: str, value: object) -> float:
    value = widened(value)
    # A comparison, because math.isfinite fails on integers that are too large for a double.
    if not (is_real(value) and abs(value) <= sys.float_info.max):
        raise SpaceError(f"{owner}: {field} must be a finite number, got {value!r}")
    return float(value)


def whole(owner: str, field: str, value: object) -> int:
    value = widened(value)
    if is_real(value):
        if isinstance(value, Integral):
            return int(value)
        if abs(value) <= sys.float_info.max and value == int(value):
            return int(value)
    raise SpaceError(f"{owner}: {field}{' ' if field else ''}must be an integer, got {value!r}")


def check_count(owner: str, count: int) -> None:
    if count > MAX_LEVELS:
        raise SpaceError(f"{owner}: {count} levels are more than {MAX_LEVELS}")


def set_fields(owner: object, **values: object) -> None:
    """Set attributes of a frozen object, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def quoted(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names)
