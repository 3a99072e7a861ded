"""Gradient ascent from several candidates at once (vectorised BFGS), with a logarithmic barrier.

The barrier moves infeasible candidates into the feasible set, and keeps the others inside.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import SearchRules
from regretless.policies import Score
from regretless.search.pool import Pool, best_apart
from regretless.search.slice import Domain, ends_of

# Each stage: the number of points that climb, the strength of the barrier, and the iterations.
Stages: TypeAlias = tuple[tuple[int, float, int], ...]


def climb(pool: Pool, space: Domain, movable: NDArray[np.bool_], stages: Stages) -> None:
    """Climb from the best points of the pool, and add the results of each stage to the pool.

    Args:
        pool: the scored candidates.
        space: the space to search.
        movable: the columns that may change.
        stages: see `Stages`.  Each stage continues with the best points of the last one.
    """
    rules = pool.rules
    ascent = _Ascent(pool.score, pool.best(stages[0][0]), movable, rules, *ends_of(space))
    tops: list[Array] = []
    for count, barrier, iterations in stages:
        if count < len(ascent.x):
            ascent.keep(best_apart(ascent.x, ascent.value, count, rules.cells))
        ascent.climb(barrier, iterations, is_last=len(tops) + 1 == len(stages))
        tops.append(ascent.x)
    pool.add(space.canonical(np.vstack(tops)))


class _Ascent:
    """Projected BFGS ascent of all rows at once.  Each row has its own step size and curvature.

    `inverse` is the estimate of a row's inverse Hessian, all zero before the first update.
    """

    def __init__(
        self,
        score: Score,
        x: Array,
        movable: NDArray[np.bool_],
        rules: SearchRules,
        low: Array | float,
        high: Array | float,
    ) -> None:
        count, dim = x.shape
        self.low, self.high = low, high
        self.score, self.x, self.movable, self.rules = score, x, movable, rules
        self.value = np.zeros(count)
        self.step = np.ones(count)
        self.inverse = np.zeros((count, dim, dim))
        self.fresh = np.ones(count, dtype=bool)
        self.scales = np.clip(score.scales(dim), *rules.believed_scales)

    def keep(self, rows: NDArray[np.intp]) -> None:
        """Go on with these rows only."""
        self.x, self.value, self.step = self.x[rows], self.value[rows], self.step[rows]
        self.inverse, self.fresh = self.inverse[rows], self.fresh[rows]

    def climb(self, barrier: float, iterations: int, is_last: bool) -> None:
        """Move all rows uphill, for at most so many iterations.

        After the last climb, nobody needs the curvature.
        """
        value, slope = self._look(self.x, barrier)
        for left in range(iterations, 0, -1):
            x = self.x
            free = np.where(np.where(slope < 0.0, x > self.low, x < self.high), slope, 0.0)
            direction = self._direction(free)
            if _dot(direction, free).max() < self.rules.flat:
                break
            most = self.rules.longest_step
            longest = np.maximum(np.abs(direction).max(axis=1), most)
            direction *= (most * self.step / longest)[:, None]
            new = np.minimum(np.maximum(x + direction, self.low), self.high)
            moved = new - x
            new_value, new_slope = self._look(new, barrier)
            better = new_value >= value + 1e-4 * _dot(moved, free)
            uphill = better[:, None]
            self.x = np.where(uphill, new, x)
            value = np.where(better, new_value, value)
            if is_last and left == 1:
                break
            self.step = np.where(better, 1.0, 0.25 * self.step)
            self._learn(moved, np.where(uphill, slope - new_slope, 0.0))
            slope = np.where(uphill, new_slope, slope)
        self.value = value

    def _look(self, x: Array, barrier: float) -> tuple[Array, Array]:
        value, slope = self.score.ascend(x, barrier)
        return value, slope * self.movable

    def _direction(self, free: Array) -> Array:
        """The quasi-Newton step if it leads uphill; otherwise a short step along the gradient."""
        newton = (self.inverse @ free[:, :, None])[:, :, 0]
        newton *= free != 0.0  # columns at a bound must not move
        uphill = _dot(newton, free) > 0.0
        if uphill.all():
            return newton
        scaled = free * self.scales
        length = self.rules.first_step / np.maximum(np.abs(scaled).max(axis=1), 1e-300)
        return np.where(uphill[:, None], newton, scaled * self.scales * length[:, None])

    def _learn(self, s: Array, y: Array) -> None:
        """The BFGS update from steps s and gradient decreases y; rows with y = 0 stay the same."""
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


def _dot(a: Array, b: Array) -> Array:
    return np.asarray(np.vecdot(a, b))
