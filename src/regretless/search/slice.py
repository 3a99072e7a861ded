"""A space with some columns fixed: the search moves the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.policies import Rows
from regretless.space import Space, product


class Slice:
    """What a search needs of a space, with the coordinates of some columns given."""

    def __init__(self, space: Space, fixed: Mapping[int, float]) -> None:
        self._space, self._fixed = space, dict(fixed)
        self.dim = space.dim
        free = np.ones(space.dim, dtype=bool)
        free[list(fixed)] = False
        self.continuous = space.continuous & free
        self.ordered = space.ordered & free
        self.discrete = space.discrete & free
        self._free = free

    @cached_property
    def size(self) -> int | None:
        """How many points there are; None if some column that may be moved is continuous."""
        if self.continuous.any():
            return None
        columns = zip(self._space.columns, self._free, strict=True)
        return math.prod(p.scale.count or 1 for p, free in columns if free)

    def grid(self) -> Array:
        """Every point of the slice, where no column that may be moved is continuous."""
        columns = [
            np.array([self._fixed[j]]) if j in self._fixed else parameter.places()
            for j, parameter in enumerate(self._space.columns)
        ]
        return np.unique(self.canonical(product(columns)), axis=0)

    def spread(self, U: npt.ArrayLike) -> Array:
        return self._pinned(self._space.spread(U))

    def canonical(self, X: npt.ArrayLike) -> Array:
        return self._pinned(self._space.canonical(X))

    def neighbours(self, x: npt.ArrayLike) -> Array:
        around = self._space.neighbours(x)
        kept = [(around[:, j] == place) for j, place in self._fixed.items()]
        return np.asarray(around[np.all(kept, axis=0)])

    def rows(self, points: Array) -> NDArray[np.intp]:
        """Those of the points that lie in the slice."""
        here = [points[:, j] == place for j, place in self._fixed.items()]
        return np.flatnonzero(np.all(here, axis=0))

    def moved(self, points: Array) -> Array:
        """The points, each moved into the slice."""
        return self._pinned(np.array(points))

    def _pinned(self, points: Array) -> Array:
        for column, place in self._fixed.items():
            points[:, column] = place
        return points


Domain: TypeAlias = Space | Slice


def rows_in(domain: Domain, points: Array) -> Rows:
    """The points of the data that may be tried again."""
    return domain.rows(points) if isinstance(domain, Slice) else slice(None)
