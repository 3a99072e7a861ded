"""The kinds of parameters to tune: `Float`, `Int`, `Categorical` and `Ordinal`.

The class of a kind has everything that the library needs of it: how values are validated, encoded,
decoded and stored, which moves a search may make, how the model compares two values, and when the
parameter is active.  To add a kind of your own, write one class: see `Parameter`.
"""

from __future__ import annotations

import sys
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, TypeGuard

import numpy as np

from regretless._internal.arrays import Array
from regretless.errors import SpaceError
from regretless.kernels import Hamming, Kernel
from regretless.space.scales import (
    COARSEST_BITS,
    MAX_LEVELS,
    MAX_LOG_INT,
    Bins,
    Levels,
    Line,
    LogRanks,
    Ranks,
)

if TYPE_CHECKING:
    from fractions import Fraction

Scalar: TypeAlias = str | int | float | bool | None

BOUND_TOLERANCE = 1e-9  # a value may miss a bound by this share of the range, because of rounding


class Parameter(ABC):
    """The base class of all parameters.

    `validate` checks a value in the user's units.  `encode` and `decode` translate between values
    and coordinates in [0, 1].

    To add a kind, write a frozen dataclass whose fields are its arguments, `class Mine(Parameter,
    json="mine")`.  It needs `scale`, `validate`, `_value` and `_index`.  Where the defaults do not
    suit it, write `has_order`, `kernel_part`, `moves` and `is_active` as well.

    Example:
        >>> from regretless.space import Int
        >>> visits = Int(1, 5)
        >>> visits.encode(2)
        0.25
        >>> visits.decode(0.3)
        2
        >>> visits.kind
        'ordered'
    """

    has_order: ClassVar[bool] = True  # whether f is similar at coordinates that are close
    inactive_at: ClassVar[float] = 0.5  # the coordinate of the parameter while it is not active
    json_name: ClassVar[str | None] = None  # the name in JSON; a study can't store a kind without
    _types: ClassVar[dict[str, type[Parameter]]] = {}

    def __init_subclass__(cls, *, json: str | None = None) -> None:
        super().__init_subclass__()
        cls.json_name = json
        if json is not None:
            Parameter._types[json] = cls

    @property
    @abstractmethod
    def scale(self) -> Line | Levels:
        """The positions of the values in the unit interval."""

    @property
    def is_continuous(self) -> bool:
        """Whether all values of a range are allowed; otherwise the parameter has levels."""
        return isinstance(self.scale, Line)

    @property
    def is_choice(self) -> bool:
        """Whether the parameter has several levels without an order."""
        return not self.has_order and self.scale.count != 1

    @property
    def kind(self) -> str:
        """The kind of the parameter in a word: "continuous", "ordered" or "categorical"."""
        if not self.has_order:
            return "categorical"
        return "continuous" if self.is_continuous else "ordered"

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel | None:
        """The factor of the model's kernel that compares values of this kind.

        Args:
            columns: the parameters of this kind, by the number of their column.

        Returns:
            A kernel over these columns; None if the model's own kernel compares them by their
            distance.
        """
        return None

    def moves(self, u: float) -> Array:
        """The coordinates that a search may try next from u.

        These are one level up and down if the levels have an order, and all other levels if they
        have none.  A continuous parameter has no moves, because a search follows gradients there.
        """
        scale = self.scale
        if isinstance(scale, Line):
            return np.empty(0)
        k = scale.nearest(np.asarray(u)).item()
        if not self.has_order:
            return scale.at(np.delete(np.arange(scale.count), k))
        return scale.at(np.array([i for i in (k - 1, k + 1) if 0 <= i < scale.count], dtype=int))

    def places(self) -> Array:
        """The coordinates of all levels; empty for a continuous parameter."""
        scale = self.scale
        return np.empty(0) if isinstance(scale, Line) else scale.place(np.arange(scale.count))

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether the parameter exists, given the values of the parameters before it."""
        return True

    @abstractmethod
    def validate(self, value: object, name: str = "value") -> Scalar:
        """The value as plain Python has it, rounded to a value that the parameter can take.

        Args:
            value: what the user gave.
            name: the name of the parameter, for the error message.

        Raises:
            SpaceError: the parameter can't have this value.
        """

    @abstractmethod
    def _value(self, k: int) -> Scalar:
        """The value of level k."""

    @abstractmethod
    def _index(self, value: Any) -> int:
        """The level of a valid value."""

    def encode(self, value: Any) -> float:
        """The coordinate in [0, 1] of a valid value."""
        if isinstance(self.scale, Line):
            return self.scale.to_unit(value)
        return self.scale.at(np.asarray(self._index(value))).item()

    def decode(self, u: float) -> Scalar:
        """The value of the parameter that is nearest to the coordinate u."""
        if isinstance(self.scale, Line):
            return self.scale.to_value(u)
        return self._value(self.scale.nearest(np.clip(np.asarray(u), 0.0, 1.0)).item())

    def to_json(self) -> dict[str, Any]:
        """The name of the kind and the arguments of its constructor, as JSON.

        Raises:
            SpaceError: the class was defined without `json=...`.
        """
        arguments = {name: getattr(self, name) for name in _arguments(type(self))}
        listed = {k: list(v) if isinstance(v, tuple) else v for k, v in arguments.items()}
        if self.json_name is None:
            raise SpaceError(
                f"{type(self).__name__}: can't be stored: a kind of your own needs a name, as in"
                f" `class {type(self).__name__}(Parameter, json=...)`"
            )
        return {"type": self.json_name, **listed}


@dataclass(frozen=True, repr=False)
class Float(Parameter, json="float"):
    """A real number from low to high.

    Args:
        low: the smallest value.
        high: the largest value.
        log: whether to tune the logarithm, for values that differ by factors.  Needs low > 0.
        step: if given, only the values low + k·step are allowed, and `high` is lowered to the last
            of them.  Excludes `log`.

    Raises:
        SpaceError: the range is empty, not finite or too narrow, or the arguments exclude each
            other.

    Example:
        >>> Float(0.001, 1.0, log=True)
        Float(0.001, 1.0, log=True)
        >>> Float(0.0, 1.0, step=0.3).high
        0.9
    """

    low: float
    high: float
    log: bool = False
    step: float | None = None

    def __post_init__(self) -> None:
        low, high = _finite("Float", "low", self.low), _finite("Float", "high", self.high)
        _check_flag("Float", "log", self.log)
        _set(self, low=low, high=high)
        if self.step is not None:
            self._check_step()
        elif not low < high:
            raise SpaceError(f"Float: need low < high, got low={low!r}, high={high!r}")
        elif self.log and low < sys.float_info.min:
            raise SpaceError(f"Float: log=True needs low > 0, got low={low!r}")
        elif (high / low if self.log else high - low) > sys.float_info.max:
            raise SpaceError(f"Float: the range overflows, got low={low!r}, high={high!r}")
        elif high - low < sys.float_info.min or Line(low, high, self.log).bits < COARSEST_BITS:
            raise SpaceError(f"Float: the range is too narrow, got low={low!r}, high={high!r}")

    def _check_step(self) -> None:
        low, high, step = self.low, self.high, _finite("Float", "step", self.step)
        if self.log:
            raise SpaceError(f"Float: step and log=True exclude each other, got step={step!r}")
        if not low <= high:
            raise SpaceError(f"Float: need low <= high, got low={low!r}, high={high!r}")
        if high - low > sys.float_info.max:
            raise SpaceError(f"Float: the range overflows, got low={low!r}, high={high!r}")
        if step <= 4 * sys.float_info.epsilon * max(abs(low), abs(high)):
            raise SpaceError(f"Float: need a step > 0 that {high!r} can resolve, got step={step!r}")
        _set(self, step=step)
        _check_count("Float", self._count)
        _set(self, high=self._value(self._count - 1))

    @property
    def _count(self) -> int:
        # Allow for rounding in the last value: 0.1 + 2 * 0.1 is not exactly 0.3.
        low, high, step = _exact(self.low), _exact(self.high), _exact(self.step)
        rounding = _exact(sys.float_info.epsilon) * max(abs(low), abs(high))
        return (high - low + rounding) // step + 1

    @cached_property
    def scale(self) -> Line | Levels:
        if self.step is None:
            return Line(self.low, self.high, self.log)
        return Ranks(self._count)

    def validate(self, value: object, name: str = "value") -> float:
        number = _widened(value)
        if not (_is_real(number) and self._contains(number, _rounding(value))):
            within = f"[{self.low!r}, {self.high!r}]"
            raise SpaceError(f"{name}: must be a number in {within}, got {value!r}")
        inside = min(max(float(number), self.low), self.high)
        return inside if self.step is None else self._value(self._index(inside))

    def _contains(self, value: Any, rounding: float) -> bool:
        # A computed value may miss a bound by rounding.  On a log scale the tolerance is relative
        # to the bound, because a share of the range may be larger than `low`.
        below = BOUND_TOLERANCE * (self.low if self.log else self.high - self.low)
        above = BOUND_TOLERANCE * (self.high if self.log else self.high - self.low)
        below, above = below + rounding * abs(self.low), above + rounding * abs(self.high)
        return bool(self.low - below <= value <= self.high + above)

    def _value(self, k: int) -> float:
        return float(_exact(self.low) + k * _exact(self.step))

    def _index(self, value: float) -> int:
        return round((_exact(value) - _exact(self.low)) / _exact(self.step))

    def __repr__(self) -> str:
        step = "" if self.step is None else f", step={self.step!r}"
        return f"Float({self.low!r}, {self.high!r}{', log=True' if self.log else ''}{step})"


@dataclass(frozen=True, repr=False)
class Int(Parameter, json="int"):
    """An integer from low to high.

    Args:
        low: the smallest value.
        high: the largest value.
        log: whether to tune the logarithm, for values that differ by factors.  Needs low >= 1.

    Raises:
        SpaceError: the range is empty or too large, or a bound is not an integer.

    Example:
        >>> Int(1, 64, log=True).decode(0.5)
        8
        >>> Int(1, 64).validate(65, "visits")
        Traceback (most recent call last):
            ...
        regretless.errors.SpaceError: visits: must be in [1, 64], got 65
    """

    low: int
    high: int
    log: bool = False

    def __post_init__(self) -> None:
        low, high = _whole("Int", "low", self.low), _whole("Int", "high", self.high)
        _check_flag("Int", "log", self.log)
        _set(self, low=low, high=high)
        if not low <= high:
            raise SpaceError(f"Int: need low <= high, got low={low}, high={high}")
        if self.log and low < 1:
            raise SpaceError(f"Int: log=True needs low >= 1, got low={low}")
        if self.log and high > MAX_LOG_INT:
            raise SpaceError(f"Int: log=True needs high <= {MAX_LOG_INT}, got high={high}")
        _check_count("Int", high - low + 1)

    @cached_property
    def scale(self) -> Levels:
        count = self.high - self.low + 1
        return LogRanks(self.low, count) if self.log and count > 1 else Ranks(count)

    def validate(self, value: object, name: str = "value") -> int:
        whole = _whole(name, "", value)
        if not self.low <= whole <= self.high:
            raise SpaceError(f"{name}: must be in [{self.low}, {self.high}], got {value!r}")
        return whole

    def _value(self, k: int) -> int:
        return self.low + k

    def _index(self, value: int) -> int:
        return value - self.low

    def __repr__(self) -> str:
        return f"Int({self.low}, {self.high}{', log=True' if self.log else ''})"


class _Listed(Parameter):
    """The base of parameters with a list of values.  True and 1 differ; 1 and 1.0 are the same."""

    @property
    @abstractmethod
    def _items(self) -> tuple[Scalar, ...]: ...

    @cached_property
    def _ranks(self) -> dict[tuple[bool, Scalar], int]:
        return {_key(item): k for k, item in enumerate(self._items)}

    def validate(self, value: object, name: str = "value") -> Scalar:
        rank = self._ranks.get(_key(_native(value))) if _is_scalar(value) else None
        if rank is None:
            raise SpaceError(f"{name}: must be one of {_shortened(self._items)}, got {value!r}")
        return self._items[rank]

    def _value(self, k: int) -> Scalar:
        return self._items[k]

    def _index(self, value: Scalar) -> int:
        return self._ranks[_key(value)]

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

    def __post_init__(self) -> None:
        _set(self, choices=_distinct("Categorical", "choices", self.choices))

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
        _set(self, values=_distinct("Ordinal", "values", self.values))

    @property
    def _items(self) -> tuple[Scalar, ...]:
        return tuple(self.values)

    @cached_property
    def scale(self) -> Levels:
        return Ranks(len(self.values))


def parameter_from_json(entry: object) -> tuple[str, Parameter]:
    """The name and the parameter from one entry of a space's JSON."""
    if not (isinstance(entry, Mapping) and isinstance(entry.get("name"), str)):
        raise SpaceError(f"Space: a parameter must have a name, got {entry!r}")
    name, type_name = entry["name"], str(entry.get("type"))
    types = Parameter._types
    if type_name not in types:
        raise SpaceError(f"{name}: type must be one of {quoted(types)}, got {type_name!r}")
    given = {k: v for k, v in entry.items() if k not in ("name", "type")}
    known = _arguments(types[type_name])
    if unknown := [k for k in given if k not in known]:
        raise SpaceError(f"{name}: a {type_name} has no {quoted(unknown)}")
    if missing := [k for k, needed in known.items() if needed and k not in given]:
        raise SpaceError(f"{name}: a {type_name} needs {quoted(missing)}, got {dict(entry)!r}")
    try:
        return name, types[type_name](**given)
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from error


# Checks and small helpers


def _is_real(value: object) -> TypeGuard[float]:
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_scalar(value: object) -> bool:
    return value is None or isinstance(value, str | np.bool_ | Integral | float | np.floating)


def _widened(value: object) -> object:
    """A numpy float as a double; with a float16, numpy would turn large bounds into infinity."""
    return float(value) if isinstance(value, np.floating) else value


def _rounding(value: object) -> float:
    """The relative rounding error of the value's type; 0 for a type other than numpy's floats."""
    return float(np.finfo(type(value)).eps) if isinstance(value, np.floating) else 0.0


def _finite(owner: str, field: str, value: object) -> float:
    value = _widened(value)
    # A comparison, because math.isfinite fails on integers that are too large for a double.
    if not (_is_real(value) and abs(value) <= sys.float_info.max):
        raise SpaceError(f"{owner}: {field} must be a finite number, got {value!r}")
    return float(value)


def _whole(owner: str, field: str, value: object) -> int:
    value = _widened(value)
    if _is_real(value):
        if isinstance(value, Integral):
            return int(value)
        if abs(value) <= sys.float_info.max and value == int(value):
            return int(value)
    raise SpaceError(f"{owner}: {field}{' ' if field else ''}must be an integer, got {value!r}")


def _check_flag(owner: str, field: str, value: object) -> None:
    if not isinstance(value, bool):
        raise SpaceError(f"{owner}: {field} must be True or False, got {value!r}")


def _check_count(owner: str, count: int) -> None:
    if count > MAX_LEVELS:
        raise SpaceError(f"{owner}: {count} levels are more than {MAX_LEVELS}")


def _distinct(owner: str, field: str, values: object) -> tuple[Scalar, ...]:
    # Reject sets, which have no stable order, and strings, which would be lists of letters.
    if isinstance(values, str) or not isinstance(values, Sequence | np.ndarray) or not len(values):
        raise SpaceError(f"{owner}: {field} must be a non-empty list, got {values!r}")
    for value in map(_widened, values):
        if not _is_scalar(value) or (_is_real(value) and not abs(value) <= sys.float_info.max):
            kinds = "a string, a finite number, a bool or None"
            raise SpaceError(f"{owner}: each of {field} must be {kinds}, got {value!r}")
        if isinstance(value, str) and any("\ud800" <= letter <= "\udfff" for letter in value):
            raise SpaceError(f"{owner}: {value!r} of {field} is no valid text (a lone surrogate)")
    natives = tuple(_native(value) for value in values)
    if len({_key(v) for v in natives}) < len(natives):
        raise SpaceError(f"{owner}: {field} must be distinct, got {list(natives)!r}")
    return natives


def _native(value: Any) -> Scalar:
    """A scalar as Python's own bool, int, float, str or None."""
    if value is None or isinstance(value, bool | np.bool_):
        return None if value is None else bool(value)
    if isinstance(value, str):
        return str.__str__(value)
    return int(value) if isinstance(value, Integral) else float(value)


def _key(value: Scalar) -> tuple[bool, Scalar]:
    """A dictionary key that tells True from 1, which are equal in Python."""
    return isinstance(value, bool), value


def _exact(value: float | None) -> Fraction:
    """The decimal number that the user wrote, so that 3 steps of 0.1 are exactly 0.3."""
    from fractions import Fraction  # slow to import, and few spaces have steps

    return Fraction(repr(value))


def _arguments(kind: type[Parameter]) -> dict[str, bool]:
    """The constructor's arguments, and whether each one is required."""
    return {f.name: f.default is MISSING for f in fields(kind)}  # type: ignore[arg-type]


def _set(owner: object, **values: object) -> None:
    """Set attributes of a frozen object, in its `__post_init__`."""
    for name, value in values.items():
        object.__setattr__(owner, name, value)


def quoted(names: Iterable[object]) -> str:
    return ", ".join(repr(name) for name in names)


def _shortened(items: Sequence[Scalar], most: int = 10) -> str:
    shown = quoted(items[:most])
    return f"[{shown}, … {len(items) - most} more]" if len(items) > most else f"[{shown}]"
