"""The part of a space that is within reach: a box around a point."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.space import Space, product


class Box:
    """A space whose columns are limited.  It has the methods of `Space` that a search needs.

    A column that is not active at a point keeps to no limit there.

    Args:
        space: the whole space.
        low: the smallest canonical coordinate of each column; 0 if it is not limited.
        high: the largest canonical coordinate of each column; 1 if it is not limited.
        fixed: columns that are fixed, with their canonical coordinates.
    """

    def __init__(
        self, space: Space, low: Array, high: Array, fixed: Mapping[int, float] | None = None
    ) -> None:
        self._space, self._fixed = space, dict(fixed or {})
        self.dim = space.dim
        self.low, self.high = low.copy(), high.copy()
        free = np.ones(space.dim, dtype=bool)
        for column, place in self._fixed.items():
            self.low[column] = self.high[column] = place
            free[column] = False
        self.continuous = space.continuous & free
        self.ordered = space.ordered & free
        self.discrete = space.discrete & free
        self._limited = (self.low > 0.0) | (self.high < 1.0)

    def with_fixed(self, fixed: Mapping[int, float]) -> Box:
        """The same box with some columns fixed."""
        return Box(self._space, self.low, self.high, fixed)

    @cached_property
    def _ranks(self) -> dict[int, tuple[int, int]]:
        """The first and the last level of each limited column that has levels."""
        found = {}
        for j, parameter in enumerate(self._space.columns):
            scale = parameter.scale
            if self._limited[j] and scale.count is not None:
                first, last = scale.nearest(np.array([self.low[j], self.high[j]])).tolist()
                found[j] = (first, last)
        return found

    @cached_property
    def size(self) -> int | None:
        """The number of points in the box; None if a column that is free is continuous."""
        if self.continuous.any():
            return None
        return math.prod(map(self._count, range(self.dim)))

    def _count(self, j: int) -> int:
        first, last = self._ranks.get(j, (0, (self._space.columns[j].scale.count or 1) - 1))
        return last - first + 1

    def grid(self) -> Array:
        """All points of the box, if no column that is free is continuous."""
        columns = []
        for j, parameter in enumerate(self._space.columns):
            scale = parameter.scale
            if j in self._ranks and scale.count is not None:
                first, last = self._ranks[j]
                columns.append(scale.at(np.arange(first, last + 1)))
            elif j in self._fixed:
                columns.append(np.array([self._fixed[j]]))
            else:
                columns.append(parameter.places())
        return np.unique(self.settled(product(columns)), axis=0)

    def spread(self, U: npt.ArrayLike) -> Array:
        """See `Space.spread`: uniform draws become points that are uniform over the box."""
        draws = np.array(U, dtype=float)
        points = self._space.spread(draws)
        for j in np.flatnonzero(self._limited).tolist():
            scale = self._space.columns[j].scale
            if j in self._ranks and scale.count is not None:
                first, count = self._ranks[j][0], self._count(j)
                points[:, j] = scale.at(
                    first + np.minimum((draws[:, j] * count).astype(np.int64), count - 1)
                )
            else:
                points[:, j] = scale.snap(self.low[j] + draws[:, j] * (self.high[j] - self.low[j]))
        return self.moved(points)

    def canonical(self, X: npt.ArrayLike) -> Array:
        return self.moved(self._space.canonical(X))

    def settled(self, points: Array) -> Array:
        """See `Space.settled`; the points are in the box."""
        return self._space.settled(points)

    def neighbours(self, x: npt.ArrayLike) -> Array:
        around = self._space.neighbours(x)
        return np.asarray(around[self.rows(around)])

    def rows(self, points: Array) -> NDArray[np.intp]:
        """The rows of those points that lie in the box."""
        return np.flatnonzero((self.moved(points) == points).all(axis=1))

    def moved(self, points: Array) -> Array:
        """For each canonical point, the nearest one in the box."""
        return self._space.settled(np.clip(points, self.low, self.high))
