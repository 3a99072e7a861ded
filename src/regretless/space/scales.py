"""Scales: map values to the unit interval, for continuous ranges and for lists of levels.

A point that is told back in the user's units must be recognised as the same point, bit for bit.
Levels are looked up.  On a continuous range, decode followed by encode does not return the same
bits in floating point.  So the coordinates are quantised to multiples of 2^-bits.  These cells are
wider than the error of the round trip: usually about 2^-48 of the range.  They are wider still if
the range is narrow compared with its bounds, because doubles have fewer digits to tell its values
apart.
"""

from __future__ import annotations

import math
import sys
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt

Array: TypeAlias = npt.NDArray[np.float64]
Indices: TypeAlias = npt.NDArray[np.int64]

MAX_LISTED_LEVELS = 1000  # with more levels, an ordered column computes them instead of a lookup
MAX_LEVELS = 2**50  # with more levels, rounding k/(n-1) would not give k back
MAX_LOG_INT = 2**40  # above, exp(log(v)) may not round to v
COARSEST_BITS = 10  # a range with fewer than 2^10 cells is too narrow to be tuned


@dataclass(frozen=True)
class Line:
    """A continuous range, linear or logarithmic, quantised to 2^-bits of its length.

    Example:
        >>> Line(10.0, 1000.0, log=True).to_value(0.5)
        100.0
    """

    low: float
    high: float
    log: bool
    count: ClassVar[None] = None
    levels: ClassVar[None] = None

    @cached_property
    def ends(self) -> tuple[float, float]:
        # The logarithm of the ratio to `low` keeps digits that log(low) would take up.
        return (0.0, math.log(self.high / self.low)) if self.log else (self.low, self.high)

    @cached_property
    def bits(self) -> int:
        # The error of decode and encode is less than 8 ulps of the larger end, divided by the
        # length of the range.  Half a cell of 16 ulps is more than that.
        a, b = self.ends
        error = 16 * sys.float_info.epsilon * (max(abs(a), abs(b)) + self.log) / (b - a)
        return math.floor(-math.log2(error))

    @property
    def cells(self) -> float:
        return 2.0**self.bits

    def snap(self, u: Array) -> Array:
        return snap_to_cells(u, self.cells)

    def _snapped(self, u: float) -> float:
        """`snap` of one number, without the detour through arrays."""
        return round(min(max(u, 0.0), 1.0) * self.cells) / self.cells

    def to_unit(self, value: float) -> float:
        a, b = self.ends
        position = math.log(value / self.low) if self.log else value
        return self._snapped((position - a) / (b - a))

    def values(self, u: Array) -> tuple[Array, Array]:
        """The values at many coordinates, up to rounding, and their slopes."""
        a, b = self.ends
        position = a + (b - a) * u
        if not self.log:
            return position, np.full_like(u, b - a)
        value = self.low * np.exp(position)
        return value, (b - a) * value

    def to_value(self, u: float) -> float:
        u = self._snapped(u)
        if u in (0.0, 1.0):  # return the bounds exactly as the user wrote them
            return self.high if u else self.low
        a, b = self.ends
        position = a * (1.0 - u) + b * u
        value = self.low * math.exp(position) if self.log else position
        value = min(max(value, self.low), self.high)
        # All numbers of a cell are the same point.  Return a round one, so that 0.3 remains 0.3.
        cell = 2.0**-self.bits * (b - a) * (value if self.log else 1.0)
        tidy = round(value, math.floor(-math.log10(cell)))
        return tidy if self.low <= tidy <= self.high and self.to_unit(tidy) == u else value


class Levels(ABC):
    """The positions of the levels k = 0, …, count - 1 in the unit interval.

    Example:
        >>> import numpy as np
        >>> Ranks(5).at(np.array([0, 1])).tolist()
        [0.0, 0.25]
    """

    count: int

    @abstractmethod
    def place(self, k: Indices) -> Array:
        """The coordinate of each level."""

    @abstractmethod
    def nearest(self, u: Array) -> Indices:
        """The level that a coordinate in [0, 1] is rounded to."""

    @abstractmethod
    def share(self, u: Array) -> Indices:
        """The level of a uniform draw.  `nearest` would halve the share of the first and last."""

    @cached_property
    def levels(self) -> Array | None:
        return _frozen(self.place(np.arange(self.count))) if self._listed() else None

    def _listed(self) -> bool:
        return self.count <= MAX_LISTED_LEVELS

    def at(self, k: Indices) -> Array:
        return self.place(k) if self.levels is None else self.levels[k]

    def snap(self, u: Array) -> Array:
        return self.at(self.nearest(np.clip(u, 0.0, 1.0)))

    def spread(self, u: Array) -> Array:
        return self.at(self.share(np.clip(u, 0.0, 1.0)))

    def _bin(self, u: Array) -> Indices:
        return np.minimum((u * self.count).astype(np.int64), self.count - 1)


@dataclass(frozen=True)
class Ranks(Levels):
    """Ordered levels at equal distances from 0 to 1; a single level is at 1/2."""

    count: int

    def place(self, k: Indices) -> Array:
        return k / (self.count - 1) if self.count > 1 else np.full(np.shape(k), 0.5)

    def nearest(self, u: Array) -> Indices:
        return np.rint(u * (self.count - 1)).astype(np.int64)

    def share(self, u: Array) -> Indices:
        return self._bin(u)


@dataclass(frozen=True)
class LogRanks(Levels):
    """The integers low, low + 1, … (at least two), placed by their logarithms."""

    low: int
    count: int

    @property
    def high(self) -> int:
        return self.low + self.count - 1

    def place(self, k: Indices) -> Array:
        # math.log, because np.log may give a vector other last bits than a single value.
        a, b = math.log(self.low), math.log(self.high)
        flat = [(math.log(self.low + int(i)) - a) / (b - a) for i in np.ravel(k)]
        return np.array(flat).reshape(np.shape(k))

    def nearest(self, u: Array) -> Indices:
        return self._between(self.low, self.high, u)

    def share(self, u: Array) -> Indices:
        return self._between(self.low - 0.5, self.high + 0.5, u)

    def _between(self, low: float, high: float, u: Array) -> Indices:
        value = np.exp(math.log(low) * (1.0 - u) + math.log(high) * u)
        return np.clip(np.rint(value), self.low, self.high).astype(np.int64) - self.low


@dataclass(frozen=True)
class Bins(Levels):
    """Unordered levels, each in the middle of one of `count` equal bins.

    They are always listed, because a search tries all of them as neighbours.
    """

    count: int

    def place(self, k: Indices) -> Array:
        return (k + 0.5) / self.count

    def nearest(self, u: Array) -> Indices:
        return self._bin(u)

    def share(self, u: Array) -> Indices:
        return self._bin(u)

    def _listed(self) -> bool:
        return True


def snap_to_cells(u: Array, cells: float | Array) -> Array:
    """Clip u to [0, 1] and round it to a multiple of 1/cells."""
    snapped = np.asarray(np.minimum(np.maximum(u, 0.0), 1.0) * cells)
    np.rint(snapped, out=snapped)
    snapped /= cells
    snapped += 0.0  # turn -0.0 into 0.0, so that equal points have equal bytes
    return snapped


def _frozen(values: Array) -> Array:
    values.flags.writeable = False
    return values
