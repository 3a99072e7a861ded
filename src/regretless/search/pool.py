"""The candidates of a search: points all over the cube and near the best points, with scores."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import SearchRules
from regretless.model import Posterior
from regretless.policies import FEASIBLE, STEEP, Candidates, Score
from regretless.search.slice import Domain, rows_in, structured
from regretless.space import Space

_LIMITED_SHARE = 4  # where limits exclude most points, at least a quarter as many are tried


@dataclass(frozen=True, eq=False)
class Found:
    """The result of a search."""

    x: Array
    value: float  # the score at x
    row: int | None  # the row of x in the points of the posterior; None if x is a new point
    feasible: bool = True  # False if no feasible point was found: x is then the first candidate
    pool: Pool | None = None  # the candidates that it was found among


def candidates(
    space: Domain,
    posterior: Posterior,
    rng: Generator,
    width: int,
    rules: SearchRules,
    visited_only: bool = False,
) -> Candidates:
    """The points at which a search begins.

    These are all points of a small finite space.  For other spaces, they are the visited points and
    a spread over the cube, with fewer points if a score is expensive.

    Args:
        space: the space to search, perhaps with some columns fixed.
        posterior: the posterior of f.
        rng: the source of randomness.
        width: `Score.width`, the work for one point.
        rules: the size of the search.
        visited_only: whether the visited points are all that may be tried.
    """
    rows = rows_in(space, posterior.points)
    if visited_only:
        return Candidates(posterior, posterior.points[:0], complete=True, rows=rows)
    most = max(rules.enumerate_points, rules.enumerate_work // max(1, width))
    if space.size is not None and space.size <= most:
        return Candidates(posterior, space.grid(), complete=True, rows=rows)
    fewest, largest = rules.global_points
    if len(posterior.points) >= rules.single_points:
        fewest = rules.global_of_many
    count = int(np.clip(rules.global_work / max(1, width), fewest, largest))
    if structured(space):  # values drawn at random are seldom good, and cost more than numbers
        count = min(count, rules.drawn_points)
    others = space.spread(_spread(count, space.dim, rng))
    if space.where:
        others = others[space.keeps(others)]
        missing = count // _LIMITED_SHARE - len(others)
        if missing > 0:
            others = np.vstack([others, space.drawn(missing, rng)])
    if not isinstance(space, Space):  # points that are good elsewhere may be good here as well
        others = np.vstack([space.moved(posterior.points), others])
    return Candidates(posterior, others, rows=rows)


class Pool:
    """Candidates with their scores.  The visited points come first, so that they win ties."""

    def __init__(self, score: Score, begin: Candidates, rules: SearchRules) -> None:
        self.score, self.rules = score, rules
        self.x = np.vstack([begin.sampled, begin.others])
        self.value, self.slack = score.over(begin)

    def add(self, x: Array) -> None:
        """Score the rows of x and add them."""
        value, slack = self.score(x)
        self.x = np.vstack([self.x, x])
        self.value = np.append(self.value, value)
        self.slack = np.append(self.slack, slack)

    @property
    def _feasible_value(self) -> Array:
        return np.where(self.slack >= FEASIBLE, self.value, -np.inf)

    @property
    def merit(self) -> Array:
        """The scores, with a penalty where a point is not feasible."""
        return np.asarray(self.value + STEEP * np.minimum(self.slack, 0.0))

    @property
    def best_value(self) -> float:
        return float(self._feasible_value.max())

    def best(self, count: int) -> Array:
        """The best points of different regions, including points that are nearly feasible."""
        return np.asarray(self.x[best_apart(self.x, self.merit, count, self.rules.cells)])

    def best_sampled(self, rows: int) -> Array:
        best = np.argsort(-self.merit[:rows], kind="stable")[: self.rules.centers]
        return np.asarray(self.x[best])

    def best_new(self, count: int, known: int) -> Array:
        """The best feasible points of different regions, without the first `known` ones."""
        allowed = known + np.flatnonzero(self.slack[known:] >= FEASIBLE)
        points = self.x[allowed]
        return np.asarray(points[best_apart(points, self.merit[allowed], count, self.rules.cells)])

    def found(self, begin: Candidates) -> Found:
        value = self._feasible_value
        best = int(np.argmax(value))
        x = self.x[best]
        same = np.flatnonzero((begin.posterior.points == x).all(axis=1))
        row = int(same[0]) if len(same) else None
        return Found(x, float(self.value[best]), row, bool(value[best] > -np.inf), self)


def _spread(count: int, dim: int, rng: Generator) -> Array:
    """An additive-recurrence sequence (generalised golden ratio) with a random shift.

    It covers the cube evenly for any number of points.
    """
    ratio = 2.0
    for _ in range(40):
        ratio = (1.0 + ratio) ** (1.0 / (dim + 1))
    steps = ratio ** -np.arange(1.0, dim + 1)
    points = (rng.random(dim) + np.arange(1, count + 1)[:, None] * steps) % 1.0
    # Scores are often largest on the faces and in the corners of the cube, so every other point is
    # moved outwards.
    points[::2] = np.clip(1.5 * points[::2] - 0.25, 0.0, 1.0)
    return np.asarray(points)


def around(
    centers: Array, score: Score, space: Domain, rng: Generator, rules: SearchRules
) -> Array:
    """Random points near the best visited ones, where maxima may be too narrow for the spread."""
    most = int(np.clip(rules.around_work / max(1, score.width), *rules.around_points))
    count = most // max(1, len(centers))
    scales = np.clip(score.scales(space.dim), *rules.believed_scales)
    away = rng.standard_normal((count, len(centers), space.dim)) * scales
    low, high = np.log(rules.around_distance)
    away *= np.exp(rng.uniform(low, high, (count, len(centers), 1)))
    for column in structured(space):  # names of values have no distance
        away[:, :, column] = 0.0
    return space.canonical((centers + away).reshape(-1, space.dim))


def best_apart(x: Array, merit: Array, count: int, cells: int) -> NDArray[np.intp]:
    """The rows with the largest merit, at first only one for each cell of a coarse grid.

    Otherwise all starts of a climb might be on one broad hill.
    """
    rows = np.argsort(-merit, kind="stable")[: 4 * count]
    names = np.floor(cells * x[rows]) @ np.exp(np.arange(x.shape[1]) / x.shape[1])  # one per cell
    _, first = np.unique(names, return_index=True)
    later = np.ones(len(rows), dtype=bool)
    later[first] = False
    return np.asarray(rows[np.argsort(later, kind="stable")[:count]])
