"""Checks of bounds and values, shared by the kinds of parameters."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from itertools import islice
from typing import TypeGuard

import numpy as np

from regretless._internal import validate
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.scales import MAX_LEVELS

LONGEST_NAME = 1_000  # characters; each message about a parameter begins with its name
MOST_NAMES = 20  # in a message
MOST_BITS = 13_000  # of an integer: Python writes out at most 4,300 digits


def is_real(value: object) -> TypeGuard[float]:
    return validate.is_real(value) and not isinstance(value, bool)


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
        raise SpaceError(f"{owner}: {field} must be a finite number, got {shown(value)}")
    return float(value)


def whole(owner: str, field: str, value: object) -> int:
    value = widened(value)
    if is_real(value):
        if validate.is_integer(value):
            number = int(value)
            if number.bit_length() <= MOST_BITS:
                return number
        if abs(value) <= sys.float_info.max and value == int(value):
            return int(value)
    raise SpaceError(
        f"{owner}: {field}{' ' if field else ''}must be an integer, got {shown(value)}"
    )


def check_name(name: object) -> None:
    if not (isinstance(name, str) and 0 < len(name) <= LONGEST_NAME):
        raise SpaceError(
            f"Space: a name must be a text of 1 to {LONGEST_NAME} characters, got {shown(name)}"
        )
    if has_surrogates(name):
        raise SpaceError(f"Space: {shown(name)} is no valid text (a lone surrogate)")


def has_surrogates(text: str) -> bool:
    """Whether the text holds half characters, which neither a file nor a terminal takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def check_count(owner: str, count: int) -> None:
    if count > MAX_LEVELS:
        raise SpaceError(f"{owner}: {shown(count)} levels are more than {MAX_LEVELS}")


def set_fields(owner: object, **values: object) -> None:
    """Set attributes of a frozen object, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def quoted(names: Iterable[object]) -> str:
    """The names, the first twenty of them if there are many."""
    first = list(islice(names, MOST_NAMES + 1))
    more = ", …" if len(first) > MOST_NAMES else ""
    return ", ".join(shown(name) for name in first[:MOST_NAMES]) + more
