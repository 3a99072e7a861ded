"""Candidates over the cube and around the best points, and the pool of those that were scored."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import SearchRules
from regretless.model import Posterior
from regretless.policies import FEASIBLE, STEEP, Candidates, Score
from regretless.search.slice import Domain, Slice, rows_in


@dataclass(frozen=True, eq=False)
class Found:
    """The best feasible point; `row` is its place among the points of the data, if it is one."""

    x: Array
    value: float
    row: int | None
    feasible: bool = True  # False: nothing is, and this is no more than the first point looked at


def candidates(
    space: Domain,
    posterior: Posterior,
    rng: Generator,
    width: int,
    rules: SearchRules,
) -> Candidates:
    """Every point of a small finite space; of others a spread, thinner where a score costs more.

    `width` is `Score.width`, how much work a point is.
    """
    rows = rows_in(space, posterior.points)
    most = max(rules.enumerate_points, rules.enumerate_work // max(1, width))
    if space.size is not None and space.size <= most:
        return Candidates(posterior, space.grid(), complete=True, rows=rows)
    count = int(np.clip(rules.global_work / max(1, width), *rules.global_points))
    others = space.spread(_spread(count, space.dim, rng))
    if isinstance(space, Slice):  # what was good elsewhere may be good here
        others = np.vstack([space.moved(posterior.points), others])
    return Candidates(posterior, others, rows=rows)


class Pool:
    """Scored candidates, the sampled points first: ties go to them."""

    def __init__(self, score: Score, begin: Candidates, rules: SearchRules) -> None:
        self.score, self.rules = score, rules
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
        return np.asarray(self.x[best_apart(self.x, self._merit, count, self.rules.cells)])

    def best_sampled(self, rows: int) -> Array:
        best = np.argsort(-self._merit[:rows], kind="stable")[: self.rules.centers]
        return np.asarray(self.x[best])

    def found(self, begin: Candidates) -> Found:
        value = self._feasible_value
        best = int(np.argmax(value))
        x = self.x[best]
        same = np.flatnonzero((begin.posterior.points == x).all(axis=1))
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


def around(
    centers: Array, score: Score, space: Domain, rng: Generator, rules: SearchRules
) -> Array:
    """Points near the best sampled ones, where a short ripple has hills too narrow to be hit."""
    most = int(np.clip(rules.around_work / max(1, score.width), *rules.around_points))
    count = most // max(1, len(centers))
    scales = np.clip(score.scales(space.dim), *rules.believed_scales)
    away = rng.standard_normal((count, len(centers), space.dim)) * scales
    low, high = np.log(rules.around_distance)
    away *= np.exp(rng.uniform(low, high, (count, len(centers), 1)))
    return space.canonical((centers + away).reshape(-1, space.dim))


def best_apart(x: Array, merit: Array, count: int, cells: int) -> NDArray[np.intp]:
    """The rows of highest merit, one a cell of a coarse grid first.

    So a broad hill does not take every start.
    """
    rows = np.argsort(-merit, kind="stable")[: 4 * count]
    names = np.floor(cells * x[rows]) @ np.exp(np.arange(x.shape[1]) / x.shape[1])  # one a cell
    _, first = np.unique(names, return_index=True)
    later = np.ones(len(rows), dtype=bool)
    later[first] = False
    return np.asarray(rows[np.argsort(later, kind="stable")[:count]])
