"""Numbers to tune: `Float` and `Int`."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from regretless._internal.shown import shown
from regretless._internal.validate import check_flag
from regretless.errors import SpaceError
from regretless.kernels import Kernel, Periodic
from regretless.space.checks import (
    check_count,
    finite,
    is_real,
    rounding,
    set_fields,
    whole,
    widened,
)
from regretless.space.parameter import Parameter
from regretless.space.scales import COARSEST_BITS, MAX_LOG_INT, Levels, Line, LogRanks, Ranks

if TYPE_CHECKING:
    from fractions import Fraction

_FIRST_CHORD = 0.5  # the length-scale of the kernel before the first fit
BOUND_TOLERANCE = 1e-9  # a value may miss a bound by this share of the range, because of rounding


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
        low, high = finite("Float", "low", self.low), finite("Float", "high", self.high)
        check_flag("Float: log", self.log, SpaceError)
        set_fields(self, low=low, high=high)
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
        low, high, step = self.low, self.high, finite("Float", "step", self.step)
        if self.log:
            raise SpaceError(f"Float: step and log=True exclude each other, got step={step!r}")
        if not low <= high:
            raise SpaceError(f"Float: need low <= high, got low={low!r}, high={high!r}")
        if high - low > sys.float_info.max:
            raise SpaceError(f"Float: the range overflows, got low={low!r}, high={high!r}")
        if step <= 4 * sys.float_info.epsilon * max(abs(low), abs(high)):
            raise SpaceError(f"Float: need a step > 0 that {high!r} can resolve, got step={step!r}")
        set_fields(self, step=step)
        check_count("Float", self._count)
        set_fields(self, high=self._value(self._count - 1))

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
        if type(value) is float and self.step is None and self.low <= value <= self.high:
            return value  # nearly always
        number = widened(value)
        if not (is_real(number) and self._contains(number, rounding(value))):
            within = f"[{self.low!r}, {self.high!r}]"
            raise SpaceError(f"{name}: must be a number in {within}, got {shown(value)}")
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
        low, high = whole("Int", "low", self.low), whole("Int", "high", self.high)
        check_flag("Int: log", self.log, SpaceError)
        set_fields(self, low=low, high=high)
        if not low <= high:
            raise SpaceError(f"Int: need low <= high, got low={shown(low)}, high={shown(high)}")
        if self.log and low < 1:
            raise SpaceError(f"Int: log=True needs low >= 1, got low={shown(low)}")
        if self.log and high > MAX_LOG_INT:
            raise SpaceError(f"Int: log=True needs high <= {MAX_LOG_INT}, got high={shown(high)}")
        check_count("Int", high - low + 1)

    @cached_property
    def scale(self) -> Levels:
        count = self.high - self.low + 1
        return LogRanks(self.low, count) if self.log and count > 1 else Ranks(count)

    def validate(self, value: object, name: str = "value") -> int:
        number = whole(name, "", value)
        if not self.low <= number <= self.high:
            raise SpaceError(f"{name}: must be in [{self.low}, {self.high}], got {shown(value)}")
        return number

    def _value(self, k: int) -> int:
        return self.low + k

    def _index(self, value: int) -> int:
        return value - self.low

    def __repr__(self) -> str:
        return f"Int({self.low}, {self.high}{', log=True' if self.log else ''})"


@dataclass(frozen=True, repr=False)
class Cyclic(Parameter, json="cyclic"):
    """A real number that goes round, such as the hour of the day: after `high` comes `low` again.

    The model knows that 23:59 and 0:01 are close.  A value outside is the same as one inside: with
    Cyclic(0, 24), 25 is 1.

    Args:
        low: the smallest value.
        high: the value that is the same as `low`.

    Raises:
        SpaceError: the range is empty, not finite or too narrow.

    Example:
        >>> hour = Cyclic(0, 24)
        >>> hour.validate(25), hour.validate(-1)
        (1.0, 23.0)
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = finite("Cyclic", "low", self.low), finite("Cyclic", "high", self.high)
        set_fields(self, low=low, high=high)
        if not low < high:
            raise SpaceError(f"Cyclic: need low < high, got low={low!r}, high={high!r}")
        if high - low > sys.float_info.max:
            raise SpaceError(f"Cyclic: the range overflows, got low={low!r}, high={high!r}")
        if high - low < sys.float_info.min or Line(low, high, False).bits < COARSEST_BITS:
            raise SpaceError(f"Cyclic: the range is too narrow, got low={low!r}, high={high!r}")

    @cached_property
    def scale(self) -> Line:
        return Line(self.low, self.high, False)

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel:
        return Periodic((_FIRST_CHORD,) * len(columns), tuple(columns))

    def validate(self, value: object, name: str = "value") -> float:
        given = widened(value)
        if not (is_real(given) and abs(given) <= sys.float_info.max):
            raise SpaceError(f"{name}: must be a finite number, got {shown(value)}")
        number = float(given)
        if self.low <= number <= self.high:
            return number
        return self.low + (number - self.low) % (self.high - self.low)

    def _value(self, k: int) -> float:
        raise NotImplementedError  # it has no levels

    def _index(self, value: Any) -> int:
        raise NotImplementedError  # it has no levels

    def __repr__(self) -> str:
        return f"Cyclic({self.low!r}, {self.high!r})"


def _exact(value: float | None) -> Fraction:
    """The decimal number that the user wrote, so that 3 steps of 0.1 are exactly 0.3."""
    from fractions import Fraction  # slow to import, and few spaces have steps

    return Fraction(repr(value))
