"""A space with some columns fixed, so that the search moves only the others."""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import cached_property
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.policies import Rows
from regretless.search.box import Box
from regretless.space import Space, Structured, product

_DRAWS = 64  # for each point that has to keep limits


class Slice:
    """A space with some columns fixed.  It has the methods of `Space` that a search needs.

    Args:
        space: the whole space.
        fixed: the fixed columns, with their canonical coordinates.
    """

    def __init__(self, space: Space, fixed: Mapping[int, float]) -> None:
        self._space, self._fixed = space, dict(fixed)
        self.dim = space.dim
        self.conditional, self.where = space.conditional, space.where
        free = np.ones(space.dim, dtype=bool)
        free[list(fixed)] = False
        self.continuous = space.continuous & free
        self.ordered = space.ordered & free
        self.discrete = space.discrete & free
        self._free = free

    @cached_property
    def size(self) -> int | None:
        """The number of points in the slice; None if a free column is continuous."""
        columns = zip(self._space.columns, self._free, strict=True)
        counts = [p.scale.count for p, free in columns if free]
        return None if None in counts else math.prod(count or 1 for count in counts)

    def grid(self) -> Array:
        """All points of the slice, if no free column is continuous."""
        columns = [
            np.array([self._fixed[j]]) if j in self._fixed else parameter.places()
            for j, parameter in enumerate(self._space.columns)
        ]
        return np.unique(self.canonical(product(columns)), axis=0)

    def spread(self, U: npt.ArrayLike) -> Array:
        return self.settled(self._pinned(self._space.spread(U)))

    def canonical(self, X: npt.ArrayLike) -> Array:
        return self.settled(self._pinned(self._space.canonical(X)))

    def settled(self, points: Array) -> Array:
        """See `Space.settled`; the fixed columns stay where they are."""
        return self._pinned(self._space.settled(points))

    def active(self, points: Array) -> NDArray[np.bool_]:
        """See `Space.active`."""
        return self._space.active(points)

    def keeps(self, points: Array) -> NDArray[np.bool_]:
        """See `Space.keeps`."""
        return self._space.keeps(points)

    def drawn(self, count: int, rng: Generator) -> Array:
        """Random points of the slice that keep all limits; fewer, if hardly any does."""
        if self._fixed.keys() <= self._space.frozen.keys():
            return self._space.drawn(count, rng)
        draws = self.spread(rng.random((_DRAWS * count if self.where else count, self.dim)))
        return np.asarray(draws[self.keeps(draws)][:count])

    def neighbours(self, x: npt.ArrayLike) -> Array:
        around = self._space.neighbours(x)
        places = {j: u for j, u in self._fixed.items() if j not in self._space.frozen}
        kept = [(around[:, j] == place) for j, place in places.items()]
        return np.asarray(around[np.all(kept, axis=0)]) if kept else around

    def rows(self, points: Array) -> NDArray[np.intp]:
        """The rows of those points that lie in the slice."""
        if self._space.frozen:  # visited points may be outside of a space that was changed
            return np.flatnonzero((self.canonical(points) == points).all(axis=1))
        here = [points[:, j] == place for j, place in self._fixed.items()]
        return np.flatnonzero(np.all(here, axis=0))

    def moved(self, points: Array) -> Array:
        """The points with the fixed columns set."""
        return self._pinned(self._space.repaired(self.canonical(points)))

    def _pinned(self, points: Array) -> Array:
        for column, place in self._fixed.items():
            if column not in self._space.frozen:  # those that are have no other place
                points[:, column] = place
        return points


Domain: TypeAlias = Space | Slice | Box


def structured(domain: Domain) -> dict[int, Structured]:
    """The structured parameters that a search may move, by their columns."""
    space = domain if isinstance(domain, Space) else domain._space
    columns = enumerate(space.columns)
    found = {j: p.plain for j, p in columns if isinstance(p.plain, Structured)}
    return {j: p for j, p in found.items() if domain.discrete[j] and j not in space.frozen}


def rows_in(domain: Domain, points: Array) -> Rows:
    """The rows of the visited points that lie in the domain, so that they may be tried again."""
    return slice(None) if isinstance(domain, Space) else domain.rows(points)


def ends_of(domain: Domain) -> tuple[Array | float, Array | float]:
    """The smallest and the largest coordinate of each column."""
    return (domain.low, domain.high) if isinstance(domain, Box) else (0.0, 1.0)
