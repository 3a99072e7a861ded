"""The best feasible point of a score: candidates, and the best few of them refined by gradients.

Small finite spaces are enumerated.  Otherwise: points spread over the cube, points around the good
ones, and every sampled point are scored in one batch; the best of different places climb together
in one vectorised quasi-Newton ascent, kept inside the gate by a vanishing logarithmic barrier;
discrete columns move by neighbours.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from noregret.gp import GP
from noregret.numerics import Array
from noregret.policies import FEASIBLE, Score
from noregret.space import Space

_ENUMERATE = 2048  # spaces up to this size are searched completely
_GLOBAL, _GLOBAL_WORK = (384, 2048), 150_000  # points over the cube: fewer where each costs more
_LOCAL = 256
# Many climb a little, few climb to the top: starts, strength of the barrier, iterations.
_STAGES = ((24, 1e-2, 5), (6, 1e-2, 10), (4, 1e-4, 12))


@dataclass(frozen=True, eq=False)
class Found:
    """The best feasible point; `row` is its place among the sampled points, if it is one."""

    x: Array
    value: float
    row: int | None
    feasible: bool = True  # False: nothing is, and this is no more than the first point looked at


def maximise(score: Score, space: Space, sampled: Array, rng: Generator) -> Found:
    """argmax of the score over {slack >= 0}, sampled points among them."""
    if space.size is not None and space.size <= _ENUMERATE:
        pool = _Pool(space.grid(), score)
    else:
        count = int(np.clip(_GLOBAL_WORK / max(1, score.width), *_GLOBAL))
        pool = _Pool(np.vstack([space.spread(_spread(count, space.dim, rng)), sampled]), score)
        pool.add(space.canonical(_around(pool.best(8), _LOCAL, rng)))
        continuous = np.array([kind == "continuous" for kind in space.kinds])
        for _ in range(1 if continuous.all() else 3):
            before = pool.best_value
            if continuous.any():
                _climb(pool, space, continuous)
            if not continuous.all():
                pool.add(_neighbours(space, pool.best(4)))
            if not pool.best_value > before:
                break
    return pool.found(sampled)


class _Pool:
    """Scored candidates."""

    def __init__(self, x: Array, score: Score) -> None:
        self.score = score
        self.x = x
        self.value, self.slack = score(x)

    def add(self, x: Array) -> None:
        value, slack = self.score(x)
        self.x = np.vstack([self.x, x])
        self.value = np.append(self.value, value)
        self.slack = np.append(self.slack, slack)

    @property
    def _feasible_value(self) -> Array:
        return np.where(self.slack >= FEASIBLE, self.value, -np.inf)

    @property
    def best_value(self) -> float:
        return float(self._feasible_value.max())

    def best(self, count: int) -> Array:
        """The best feasible points of different places: near-copies of better ones are left out."""
        value = self._feasible_value
        order = np.argsort(-value, kind="stable")[: 8 * count]
        order = order[value[order] > -np.inf]
        near = self.x[order]
        apart = np.abs(near[:, None, :] - near[None, :, :]).max(axis=2)
        chosen, nearest = list(order[:1]), apart[0] if len(order) else np.zeros(0)
        # Half of them far apart, so that one broad hill does not take every start.
        for radius, limit in ((0.3, count // 2), (0.05, count), (0.0, count)):
            while len(chosen) < limit and (nearest > radius).any():
                place = int(np.argmax(nearest > radius))  # the best one that is far enough
                chosen.append(order[place])
                np.minimum(nearest, apart[place], out=nearest)
        return self.x[chosen] if chosen else self.x[:1]

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


def _around(centers: Array, count: int, rng: Generator) -> Array:
    """Points around the centres at every scale from 0.2 to 0.001."""
    which = rng.integers(len(centers), size=count)
    scale = 10.0 ** rng.uniform(-3.0, -0.7, count)
    steps = rng.standard_normal((count, centers.shape[1])) * scale[:, None]
    # Half of the steps change few coordinates: good for discrete columns and high dimensions.
    keep = rng.random(steps.shape) < np.where(rng.random(count) < 0.5, 1.0, 0.3)[:, None]
    return np.clip(centers[which] + steps * keep, 0.0, 1.0)


def _neighbours(space: Space, centers: Array) -> Array:
    near = [space.neighbours(x) for x in centers]
    return space.canonical(np.vstack([*near, centers]))


def _climb(pool: _Pool, space: Space, movable: NDArray[np.bool_]) -> None:
    for starts, barrier, iterations in _STAGES:
        top = _ascend(pool.score, pool.best(starts), movable, barrier, iterations)
        pool.add(space.canonical(top))


def _ascend(
    score: Score, x: Array, movable: NDArray[np.bool_], barrier: float, iterations: int
) -> Array:
    """Projected BFGS ascent of all rows at once; each keeps its own curvature and step."""
    value, slope = score.ascend(x, barrier)
    count, dim = x.shape
    inverse = np.zeros((count, dim, dim))
    fresh = np.ones(
        count, dtype=bool
    )  # no curvature yet: a step of fixed length along the gradient
    step = np.ones(count)
    for _ in range(iterations):
        blocked = ~movable | ((x <= 0.0) & (slope < 0.0)) | ((x >= 1.0) & (slope > 0.0))
        free = np.where(blocked, 0.0, slope)
        direction = np.where(blocked, 0.0, np.einsum("kij,kj->ki", inverse, free))
        steepest = free * (0.05 / np.maximum(np.abs(free).max(axis=1), 1e-300))[:, None]
        uphill = np.einsum("ki,ki->k", direction, free) > 0.0
        direction = np.where((uphill & ~fresh)[:, None], direction, steepest)
        longest = np.abs(direction).max(axis=1)
        direction *= np.minimum(1.0, 0.25 / np.maximum(longest, 1e-300))[:, None]
        new = np.clip(x + step[:, None] * direction, 0.0, 1.0)
        moved = new - x
        new_value, new_slope = score.ascend(new, barrier)
        gain = np.einsum("ki,ki->k", moved, free)
        better = new_value >= value + 1e-4 * gain
        better &= np.isfinite(new_slope).all(axis=1) & (np.abs(moved).max(axis=1) > 0.0)
        step = np.where(better, 1.0, 0.25 * step)
        _learn(inverse, fresh, better, moved, slope - new_slope)
        x = np.where(better[:, None], new, x)
        value = np.where(better, new_value, value)
        slope = np.where(better[:, None], new_slope, slope)
        if (np.abs(moved).max(axis=1) < 1e-7).all():
            break
    return x


def _learn(inverse: Array, fresh: Array, better: Array, moved: Array, change: Array) -> None:
    """The BFGS update of the inverse curvature, in place, for the rows that moved uphill."""
    along = np.einsum("ki,ki->k", moved, change)
    square = np.einsum("ki,ki->k", change, change)
    good = better & (along > 1e-10 * np.sqrt(square * np.einsum("ki,ki->k", moved, moved) + 1e-300))
    if not good.any():
        return
    s, y, rho = moved[good], change[good], 1.0 / along[good]
    h = inverse[good]
    start = fresh[good]
    h[start] = np.eye(s.shape[1]) * (along[good] / square[good])[start, None, None]
    hy = np.einsum("kij,kj->ki", h, y)
    yhy = np.einsum("ki,ki->k", y, hy)
    outer = np.einsum("ki,kj->kij", hy, s)
    h += (rho * (1.0 + rho * yhy))[:, None, None] * np.einsum("ki,kj->kij", s, s)
    h -= rho[:, None, None] * (outer + outer.transpose(0, 2, 1))
    inverse[good] = h
    fresh[good] = False


def same_point(score: Score, gp: GP, x: Array, rows: int, remaining: int) -> int | None:
    """The best feasible one of the sampled rows that the posterior can't tell from x, or None.

    Two points count as the same when the difference f(x) - f(x_i) that the posterior expects,
    sqrt(mean^2 + variance), is below noise_sd / sqrt(remaining): the standard error that all
    evaluations which remain could reach together.  A smaller difference can't be found out in time,
    so another look at x_i is worth as much as one at x, and it keeps the model small.
    """
    sampled = gp.data.x[:rows]
    near = np.argsort(-gp.hyper.kernel.gram(x[None, :], sampled)[0], kind="stable")[:8]
    both = np.vstack([x[None, :], sampled[near]])
    mu, _ = gp.posterior(both)
    cov = gp.hyper.omega2 * gp.covariance(both)
    variance = np.maximum(cov[0, 0] + np.diag(cov)[1:] - 2.0 * cov[0, 1:], 0.0)
    apart = np.sqrt((mu[1:] - mu[0]) ** 2 + variance)
    value, slack = score(sampled[near])
    same = (apart <= gp.noise_sd / np.sqrt(remaining)) & (slack >= FEASIBLE)
    return int(near[np.argmax(np.where(same, value, -np.inf))]) if same.any() else None
