"""Candidates over the cube and around the best points, and the pool of those that were scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.model import GP
from regretless.policies import FEASIBLE, STEEP, Candidates, Score
from regretless.space import Space

# Sizes are what a measurement of many random states asked for (tests/test_maximise.py); "work" is
# points times the terms that one costs.
_ENUMERATE, _ENUMERATE_WORK = 2048, 400_000  # finite spaces of either size are searched completely
_GLOBAL, _GLOBAL_WORK = (256, 2048), 40_000  # points over the cube: fewer where each costs more
_AROUND, _AROUND_WORK = (128, 1024), 15_000  # points around the best: fewer where each costs more
_AWAY = (0.1, 1.0)  # how far from them, in length-scales
_CELLS = 8  # a side, of the grid that tells starts apart
_CENTERS = 8  # points to look around
_SCALES = 0.02, 1.0  # between which the length-scales are believed


@dataclass(frozen=True, eq=False)
class Found:
    """The best feasible point; `row` is its place among the sampled points, if it is one."""

    x: Array
    value: float
    row: int | None
    feasible: bool = True  # False: nothing is, and this is no more than the first point looked at


def candidates(space: Space, gp: GP, rng: Generator, width: int) -> Candidates:
    """Every point of a small finite space; others are spread over, the thinner the wider a score.

    `width` is `Score.width`, how much work a point is.
    """
    most = max(_ENUMERATE, _ENUMERATE_WORK // max(1, width))
    if space.size is not None and space.size <= most:
        return Candidates(gp, space.grid(), complete=True)
    count = int(np.clip(_GLOBAL_WORK / max(1, width), *_GLOBAL))
    return Candidates(gp, space.spread(_spread(count, space.dim, rng)))


class Pool:
    """Scored candidates, the sampled points first: ties go to them."""

    def __init__(self, score: Score, begin: Candidates) -> None:
        self.score = score
        self.x = np.vstack([begin.sampled, begin.others])
        self.value, self.slack = score.over(begin)

    def add(self, x: Array) -> None:
        value, slack = self.score(x)
        self.x = np.vstack([self.x, x])
        self.value = np.append(self.value, value)
        self.slack = np.append(self.slack, slack)

    @property
    def _feasible_value(self) -> Array:
        return np.where(self.slack >= FEASIBLE, self.value, -np.inf)

    @property
    def _merit(self) -> Array:
        return np.asarray(self.value + STEEP * np.minimum(self.slack, 0.0))

    @property
    def best_value(self) -> float:
        return float(self._feasible_value.max())

    def best(self, count: int) -> Array:
        """The best points of different places; one that just misses the gate may be among them."""
        return np.asarray(self.x[best_apart(self.x, self._merit, count)])

    def best_sampled(self, rows: int) -> Array:
        return self.x[np.argsort(-self._merit[:rows], kind="stable")[:_CENTERS]]

    def found(self, sampled: Array) -> Found:
        value = self._feasible_value
        best = int(np.argmax(value))
        x = self.x[best]
        same = np.flatnonzero((sampled == x).all(axis=1))
        row = int(same[0]) if len(same) else None
        return Found(x, float(self.value[best]), row, bool(value[best] > -np.inf))


def _spread(count: int, dim: int, rng: Generator) -> Array:
    """An additive-recurrence sequence (golden ratio), randomly shifted: even at any count."""
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dim + 1))
    steps = ratio ** -np.arange(1.0, dim + 1)
    points = (rng.random(dim) + np.arange(1, count + 1)[:, None] * steps) % 1.0
    # Scores are often best on faces and in corners, of which a cube has many: push every other
    # point out.
    points[::2] = np.clip(1.5 * points[::2] - 0.25, 0.0, 1.0)
    return np.asarray(points)


def around(centers: Array, score: Score, space: Space, rng: Generator) -> Array:
    """Points near the best sampled ones, where a short ripple has hills too narrow to be hit."""
    count = int(np.clip(_AROUND_WORK / max(1, score.width), *_AROUND)) // len(centers)
    scales = np.clip(score.scales(space.dim), *_SCALES)
    away = rng.standard_normal((count, len(centers), space.dim)) * scales
    low, high = np.log(_AWAY)
    away *= np.exp(rng.uniform(low, high, (count, len(centers), 1)))
    return space.canonical((centers + away).reshape(-1, space.dim))


def best_apart(x: Array, merit: Array, count: int) -> NDArray[np.intp]:
    """The rows of highest merit, one a cell of a coarse grid first.

    So a broad hill does not take every start.
    """
    rows = np.argsort(-merit, kind="stable")[: 4 * count]
    cells = np.floor(_CELLS * x[rows]) @ np.exp(np.arange(x.shape[1]) / x.shape[1])  # a number each
    _, first = np.unique(cells, return_index=True)
    later = np.ones(len(rows), dtype=bool)
    later[first] = False
    return np.asarray(rows[np.argsort(later, kind="stable")[:count]])
