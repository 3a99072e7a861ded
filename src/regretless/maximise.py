"""The best feasible point of a score: candidates, and the best few of them refined by gradients.

Small finite spaces are enumerated.  Otherwise: points spread over the cube, every sampled point and
some around the best of these are scored; the best of different places climb together in one
vectorised quasi-Newton ascent, led into the gate and kept inside by a logarithmic barrier; discrete
columns then move from level to level.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless.gp import GP
from regretless.numerics import Array
from regretless.scores import FEASIBLE, STEEP, Candidates, Score
from regretless.space import Space

# Sizes are what a measurement of many random states asked for (tests/test_maximise.py); "work" is
# points times the terms that one costs.
_ENUMERATE, _ENUMERATE_WORK = 2048, 400_000  # finite spaces of either size are searched completely
_GLOBAL, _GLOBAL_WORK = (256, 2048), 40_000  # points over the cube: fewer where each costs more
# Many climb a little, few climb on to the top: how many, strength of the barrier, iterations.
_Stages: TypeAlias = tuple[tuple[int, float, int], ...]
_STAGES: _Stages = ((24, 1e-2, 3), (4, 6e-4, 6))
_BRIEF: _Stages = (
    (8, 6e-4, 4),
)  # for a score of few hills, whose highest value is all that is asked for
_AROUND, _AROUND_WORK = (128, 1024), 15_000  # points around the best: fewer where each costs more
_AWAY = (0.1, 1.0)  # how far from them, in length-scales
_CELLS = 8  # a side, of the grid that tells starts apart
_FLAT = 1e-7  # a gain (of log EI, as a rule) that is not worth another step
# Where columns are discrete: points to move from, moves at random, rounds of neighbours, and the
# climb of what is continuous after each.
_CENTERS, _JUMPS, _ROUNDS, _TOUCH = 8, 128, 12, ((4, 6e-4, 5),)
_SCALES = 0.02, 1.0  # between which the length-scales are believed
_FIRST, _LONGEST = 0.15, 0.25  # steps: the first, in length-scales; any, of the range
_CLOSE = 0.05  # the largest difference, in any column, of points that may count as the same


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


def maximise(
    score: Score, space: Space, begin: Candidates, rng: Generator, brief: bool = False
) -> Found:
    """argmax of the score over {slack >= 0}, from these candidates on."""
    pool = _Pool(score, begin)
    if not begin.complete:
        if not brief:
            pool.add(_around(pool.best_sampled(len(begin.sampled)), score, space, rng))
        kinds = np.array(space.kinds)
        if (kinds != "categorical").any():  # the score has slopes between ordered levels, too
            _climb(pool, space, kinds != "categorical", _BRIEF if brief else _STAGES)
        if (kinds != "continuous").any():
            _hop(pool, space, kinds, rng)
    return pool.found(begin.sampled)


class _Pool:
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
        return np.asarray(self.x[_best_apart(self.x, self._merit, count)])

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


def _around(centers: Array, score: Score, space: Space, rng: Generator) -> Array:
    """Points near the best sampled ones, where a short ripple has hills too narrow to be hit."""
    count = int(np.clip(_AROUND_WORK / max(1, score.width), *_AROUND)) // len(centers)
    scales = np.clip(score.scales(space.dim), *_SCALES)
    away = rng.standard_normal((count, len(centers), space.dim)) * scales
    low, high = np.log(_AWAY)
    away *= np.exp(rng.uniform(low, high, (count, len(centers), 1)))
    return space.canonical((centers + away).reshape(-1, space.dim))


def _hop(pool: _Pool, space: Space, kinds: NDArray[np.str_], rng: Generator) -> None:
    """Moves between levels: a few columns drawn anew, then neighbours until none is better."""
    centers = pool.best(_CENTERS)
    centers = centers[rng.integers(len(centers), size=_JUMPS)]
    fresh = rng.random(centers.shape) < rng.choice([0.2, 0.5], size=(_JUMPS, 1))
    fresh &= kinds != "continuous"
    pool.add(np.where(fresh, space.spread(rng.random(centers.shape)), centers))
    for _ in range(_ROUNDS):
        before = pool.best_value
        pool.add(np.vstack([space.neighbours(x) for x in pool.best(_CENTERS)]))
        if (kinds == "continuous").any():
            _climb(pool, space, kinds == "continuous", _TOUCH)
        if not pool.best_value > before:
            break


def _climb(pool: _Pool, space: Space, movable: NDArray[np.bool_], stages: _Stages) -> None:
    """Adds to the pool where the best of it end: after each stage the best climb on."""
    ascent = _Ascent(pool.score, pool.best(stages[0][0]), movable)
    tops = []
    for count, barrier, iterations in stages:
        if count < len(ascent.x):
            ascent.keep(_best_apart(ascent.x, ascent.value, count))
        ascent.climb(barrier, iterations)
        tops.append(ascent.x)
    pool.add(space.canonical(np.vstack(tops)))


class _Ascent:
    """Projected BFGS ascent of all rows at once; each keeps its own curvature and step.

    `inverse` is what is known of a row's inverse Hessian: all zero while that is nothing.
    """

    def __init__(self, score: Score, x: Array, movable: NDArray[np.bool_]) -> None:
        count, dim = x.shape
        self.score, self.x, self.movable = score, x, movable
        self.value = np.zeros(count)
        self.step = np.ones(count)
        self.inverse = np.zeros((count, dim, dim))
        self.fresh = np.ones(count, dtype=bool)
        self.scales = np.clip(score.scales(dim), *_SCALES)

    def keep(self, rows: NDArray[np.intp]) -> None:
        self.x, self.value, self.step = self.x[rows], self.value[rows], self.step[rows]
        self.inverse, self.fresh = self.inverse[rows], self.fresh[rows]

    def climb(self, barrier: float, iterations: int) -> None:
        value, slope = self._look(self.x, barrier)
        for _ in range(iterations):
            x = self.x
            free = np.where(np.where(slope < 0.0, x > 0.0, x < 1.0), slope, 0.0)
            direction = self._direction(free)
            if _dot(direction, free).max() < _FLAT:
                break
            longest = np.maximum(np.abs(direction).max(axis=1), _LONGEST)
            direction *= (_LONGEST * self.step / longest)[:, None]
            new = np.minimum(np.maximum(x + direction, 0.0), 1.0)
            moved = new - x
            new_value, new_slope = self._look(new, barrier)
            better = new_value >= value + 1e-4 * _dot(moved, free)
            uphill = better[:, None]
            self.x = np.where(uphill, new, x)
            self.step = np.where(better, 1.0, 0.25 * self.step)
            self._learn(moved, np.where(uphill, slope - new_slope, 0.0))
            value = np.where(better, new_value, value)
            slope = np.where(uphill, new_slope, slope)
        self.value = value

    def _look(self, x: Array, barrier: float) -> tuple[Array, Array]:
        value, slope = self.score.ascend(x, barrier)
        return value, slope * self.movable

    def _direction(self, free: Array) -> Array:
        """Newton's step where it is known to lead uphill, a short one along the slope elsewhere."""
        newton = (self.inverse @ free[:, :, None])[:, :, 0]
        newton *= free != 0.0  # at a bound
        uphill = _dot(newton, free) > 0.0
        if uphill.all():
            return newton
        scaled = free * self.scales
        length = _FIRST / np.maximum(np.abs(scaled).max(axis=1), 1e-300)
        return np.where(uphill[:, None], newton, scaled * self.scales * length[:, None])

    def _learn(self, s: Array, y: Array) -> None:
        """The update from steps s and the fall y of the slope: none for rows where y is zero."""
        along = _dot(s, y)
        good = along > 1e-10 * np.sqrt(_dot(y, y) * _dot(s, s) + 1e-300)
        rho = np.divide(1.0, along, out=np.zeros_like(along), where=good)
        start = good & self.fresh
        if start.any():
            scaled = y[start] * self.scales
            size = along[start] / _dot(scaled, scaled)
            self.inverse[start] = np.diag(self.scales**2) * size[:, None, None]
            self.fresh[start] = False
        hy = (self.inverse @ y[:, :, None])[:, :, 0]
        w = rho[:, None] * ((0.5 * (1.0 + rho * _dot(y, hy)))[:, None] * s - hy)
        half = s[:, :, None] * w[:, None, :]
        self.inverse += half
        self.inverse += half.transpose(0, 2, 1)


def _best_apart(x: Array, merit: Array, count: int) -> NDArray[np.intp]:
    """The rows of highest merit, one a cell of a coarse grid first.

    So a broad hill does not take every start.
    """
    rows = np.argsort(-merit, kind="stable")[: 4 * count]
    cells = np.floor(_CELLS * x[rows]) @ np.exp(np.arange(x.shape[1]) / x.shape[1])  # a number each
    _, first = np.unique(cells, return_index=True)
    later = np.ones(len(rows), dtype=bool)
    later[first] = False
    return np.asarray(rows[np.argsort(later, kind="stable")[:count]])


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.vecdot(a, b))


def same_point(score: Score, gp: GP, x: Array, rows: int, remaining: int) -> int | None:
    """The best feasible one of the sampled rows that the posterior can't tell from x, or None.

    Two points count as the same when the difference f(x) - f(x_i) that the posterior expects,
    sqrt(mean^2 + variance), is below noise_sd / sqrt(remaining): the standard error that all
    evaluations which remain could reach together.  A smaller difference can't be found out in time,
    so another look at x_i is worth as much as one at x, and it keeps the model small.

    Only close points are looked at, no column further apart than 5 % of its range: a model that has
    seen nothing but noise yet can't tell any two points apart, and must go on looking around.
    """
    close = np.flatnonzero(np.abs(gp.data.x[:rows] - x).max(axis=1) <= _CLOSE)
    if not len(close):
        return None
    here = x[None, :]
    mean, sigma = gp.at_data
    mean_here, sigma_here = gp.posterior(here)
    shared = gp.covariance(here, gp.data.x[close])[0]
    variance = np.maximum(sigma[close] ** 2 + sigma_here**2 - 2.0 * shared, 0.0)
    apart = np.sqrt((mean[close] - mean_here) ** 2 + gp.hyper.omega2 * variance)
    value, slack = score.at_rows(rows)
    same = (apart <= gp.noise_sd / sqrt(remaining)) & (slack[close] >= FEASIBLE)
    return int(close[np.argmax(np.where(same, value[close], -np.inf))]) if same.any() else None
