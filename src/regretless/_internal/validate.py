"""Checks of numbers, flags and results that come from users or other programs."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from datetime import UTC, datetime
from numbers import Integral, Real
from typing import Any, TypeGuard

import numpy as np

from regretless._internal.shown import shown
from regretless.errors import ConfigError, DataError, RegretlessError

MAX_RESULT = 1e100  # of a value, a standard error or a count: its square must not overflow
MAX_NAME = 200  # characters of a study's name, and of a key in the journal
MAX_WHY = 1000  # characters of a reason that a person gives
MAX_SAFE = 2**53 - 1  # the largest integer that every JSON reader keeps exactly
LEAST_SCALE = 1e-100  # smallest standard error or spread of the data: its square must not underflow


def whole(name: str, value: object, least: int, most: int | None = None) -> int:
    """The value as an int, after a check that it is whole and from `least` to `most`."""
    if isinstance(value, bool) or not is_integer(value):
        raise ConfigError(f"{name}: need a whole number, got {shown(value)}")
    number = int(value)
    if number < least:
        raise ConfigError(f"{name}: need at least {least}, got {shown(value)}")
    if most is not None and number > most:
        raise ConfigError(f"{name}: need at most {most}, got {shown(value)}")
    return number


def is_integer(value: object) -> TypeGuard[int]:
    """Whether the value is an integer or a bool; numpy counts spans of time as integers, too."""
    return isinstance(value, Integral) and not isinstance(value, np.timedelta64)


def is_real(value: object) -> TypeGuard[float]:
    """Whether the value is a real number or a bool, and not a span of time."""
    if type(value) is float:  # nearly always, and much quicker than the abstract class
        return True
    return isinstance(value, Real) and not isinstance(value, np.timedelta64)


def plain(value: object) -> object:
    """Numbers as Python's bool, int or float, also inside tuples; other values unchanged.

    Otherwise a `Fraction` or a float32 would be stored as a slightly different number than the one
    that the library calculates with.
    """
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, bool | np.bool_):
        return bool(value)
    if is_integer(value):
        return int(value)
    return float(value) if is_number(value) else value


def with_plain_numbers(settings: object) -> None:
    """Replace each field by its `plain` value, in the `__post_init__` of a frozen dataclass."""
    for name, value in vars(settings).items():
        object.__setattr__(settings, name, plain(value))


def is_iterable(value: object) -> TypeGuard[Iterable[Any]]:
    """Whether the value can be iterated over; an array without dimensions cannot."""
    return isinstance(value, Iterable) and getattr(value, "ndim", 1) != 0


def is_one_of(value: object, names: Container[str]) -> bool:
    """Whether the value is one of these texts; others may not even compare with a text."""
    return isinstance(value, str) and value in names


def is_number(value: object) -> TypeGuard[float]:
    """Whether the value is a finite real number and not a bool."""
    if type(value) is float:  # nearly always
        return math.isfinite(value)
    if isinstance(value, bool) or not (type(value) is int or is_real(value)):
        return False
    try:
        return math.isfinite(value)
    except OverflowError:  # an integer that is too large for a double
        return False


def check_amount(name: str, value: object, positive: bool = False) -> None:
    """Raise ConfigError unless the value is a finite number >= 0, or > 0 if `positive`."""
    if not (is_number(value) and (value > 0 if positive else value >= 0)):
        need = "a positive number" if positive else "a number >= 0"
        raise ConfigError(f"{name}: need {need}, got {shown(value)}")


def check_inside(name: str, value: object, what: str) -> None:
    """Raise ConfigError unless 0 < value < 1; `what` names the quantity in the message."""
    if not (is_number(value) and 0 < value < 1):
        raise ConfigError(f"{name}: need {what} between 0 and 1, got {shown(value)}")


def check_share(name: str, value: object) -> None:
    """Raise ConfigError unless 0 <= value <= 1."""
    if not (is_number(value) and 0 <= value <= 1):
        raise ConfigError(f"{name}: need a share from 0 to 1, got {shown(value)}")


def fits_a_path(name: str) -> bool:
    """Whether the name can be one segment of a URL path, without leading to another address."""
    return "/" not in name and name not in (".", "..")


def check_flag(name: str, value: object, error: type[RegretlessError] = ConfigError) -> None:
    """Raise `error` unless the value is a bool.  Reject strings: "off" is truthy."""
    if not isinstance(value, bool | np.bool_):
        raise error(f"{name}: need True or False, got {shown(value)}")


def checked_result(value: object, sem: object, count: object) -> tuple[float, float | None, float]:
    """A value, its standard error and its count as floats; DataError if one of them is invalid."""
    number = _finite("value", value)
    error = None if sem is None else _finite("sem", sem)
    if error is not None and not error >= LEAST_SCALE:
        raise DataError(f"sem: need a positive standard error, got {shown(sem)}")
    weight = _finite("count", count)
    if not weight > 0:
        raise DataError(f"count: need a positive number of evaluations, got {shown(count)}")
    return number, error, weight


def check_name(what: str, name: object) -> None:
    """Refuse what the journal does not take as the name of a study, or as a key."""
    if not (isinstance(name, str) and 0 < len(name) <= MAX_NAME and name.isprintable()):
        got = shown(name[:50] if isinstance(name, str) else name)
        raise ConfigError(f"{what}: need 1 to {MAX_NAME} printable characters, got {got}")


def checked_key(key: object, in_header: bool = False) -> str:
    """A caller's key: a text that is not empty, and printable ASCII where it goes in a header.

    An empty one comes from a variable that was never set.
    """
    text = key if isinstance(key, str) else ""
    if in_header and not (text and text.isascii() and text.isprintable()):
        raise ConfigError(
            f"key: need printable ASCII, because a header carries it, got {shown(key)}"
        )
    if not text:
        raise ConfigError(f"key: need a text that is not empty, got {shown(key)}")
    return text


def checked_why(why: object) -> str:
    """A reason that a person gave: 1 to 1000 characters that can be shown, in one line or more."""
    text = why.strip() if isinstance(why, str) else ""
    if not (0 < len(text) <= MAX_WHY and all(map(str.isprintable, text.split("\n")))):
        got = shown(why[:50] if isinstance(why, str) else why)
        raise ConfigError(f"why: need 1 to {MAX_WHY} printable characters, got {got}")
    return text


def checked_time(time: object) -> datetime | None:
    """A moment in UTC; None stays None. Without a time zone nobody knows which moment it is."""
    if time is None:
        return None
    if not isinstance(time, datetime) or time.utcoffset() is None:
        raise DataError(f"time: need a datetime with a time zone, got {shown(time)}")
    try:
        utc = time.astimezone(UTC)
    except OverflowError:  # the first or the last day that there is
        raise DataError(f"time: need a time that exists in UTC, got {shown(time)}") from None
    return datetime.combine(utc.date(), utc.time(), UTC)  # also of a subclass, such as pandas'


def time_from_iso(text: object) -> datetime | None:
    """A moment from text in ISO 8601 with a time zone; None stays None."""
    if text is None:
        return None
    try:
        time = datetime.fromisoformat(text if isinstance(text, str) else "")
    except ValueError:
        raise DataError(
            f"time: need ISO 8601, as 2026-01-31T12:00:00Z, got {shown(text)}"
        ) from None
    if time.tzinfo is None:
        raise DataError(f"time: need a time zone, as 2026-01-31T12:00:00Z, got {shown(text)}")
    return checked_time(time)


def without_numpy(value: object) -> object:
    """Convert numpy scalars to Python's, for `json.dumps(default=without_numpy)`."""
    if isinstance(value, np.floating):
        return float(value)  # a long double's `item` would be a long double again
    if isinstance(value, np.bool_ | np.integer | np.str_) and not isinstance(value, np.timedelta64):
        return value.item()
    raise TypeError(f"a {type(value).__name__} is not JSON")


def _finite(name: str, value: object) -> float:
    if type(value) is float and abs(value) <= MAX_RESULT:  # nearly always; NaN is not
        return value
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = None if getattr(value, "mask", False) else value.item()
    if not is_real(value):
        raise DataError(f"{name}: need a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:  # an integer that is too large for a double
        number = math.inf
    if not abs(number) <= MAX_RESULT:
        limit = f"of at most {MAX_RESULT:g}" if math.isfinite(number) else "that is finite"
        raise DataError(f"{name}: need a number {limit}, got {shown(value)}")
    return number
