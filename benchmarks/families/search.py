"""The best value of an instance: many points first, then moves from the best of them.

Small finite spaces are listed in full. All is deterministic. tests/test_families.py looks for
better points by other means.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from benchmarks.families.base import Blueprint, columns
from benchmarks.peers.problems import Array, Params
from scipy.optimize import minimize
from scipy.stats import qmc

from regretless import Float, Space

_LISTED = 200_000
_POINTS, _STARTS, _MOVES, _ROUNDS = 2**14, 40, 24, 140


class Facts(NamedTuple):
    """What the search finds out."""

    f_star: float
    spread: float
    level: float
    """The mean of the noise's level; 1 where it is constant."""
    best: Params


def facts(blueprint: Blueprint) -> Facts:
    space = blueprint.space

    def value(X: Array) -> Array:
        return blueprint.formula(columns(space, X))

    points = sobol_points(space, _POINTS * blueprint.effort)
    values = value(points)
    assert np.isfinite(values).all()
    levels = blueprint.level(columns(space, points)) if blueprint.level else np.ones(1)
    if space.size is not None and space.size <= _LISTED:
        listed = space.grid()
        everything = value(listed)
        best = listed[everything.argmax()]
    else:
        best = _climbed(blueprint, value, points, values)
    params = space.decode(best)
    top = max(float(value(best[None])[0]), float(values.max()))
    return Facts(top, float(values.std()), float(levels.mean()), params)


def sobol_points(space: Space, n: int, seed: int = 1) -> Array:
    return space.spread(qmc.Sobol(space.dim, rng=seed).random(n))


def _climbed(
    blueprint: Blueprint, value: Callable[[Array], Array], points: Array, values: Array
) -> Array:
    space = blueprint.space
    moving = [n in (blueprint.active or space.names) for n in space.names]
    if blueprint.hints:
        hints = space.canonical(np.array(blueprint.hints))
        points, values = np.vstack([points, hints]), np.concatenate([values, value(hints)])
    starts = _starts(points, values, _STARTS * blueprint.effort, np.array(moving))
    x, fx = _moved(space, value, points[starts], values[starts], np.flatnonzero(moving))
    x, fx = _polished(space, value, x, fx, np.flatnonzero(moving))
    return x[fx.argmax()]


def _starts(points: Array, values: Array, count: int, moving: Array) -> Array:
    """The best half, and others that are good and far from all that were taken."""
    order = np.argsort(-values, kind="stable")
    taken = list(order[: count // 2])
    rest = order[count // 2 : 40 * count]
    cloud = points[:, moving]
    near = np.full(len(rest), np.inf)
    for i in taken:
        near = np.minimum(near, np.abs(cloud[rest] - cloud[i]).max(axis=1))
    while len(taken) < count and len(rest):
        far = np.flatnonzero(near > 0.15)
        pick = far[0] if len(far) else near.argmax()
        taken.append(rest[pick])
        near = np.minimum(near, np.abs(cloud[rest] - cloud[rest[pick]]).max(axis=1))
        near[pick] = -1.0
    return np.array(taken)


def _moved(
    space: Space, value: Callable[[Array], Array], x: Array, fx: Array, moving: Array
) -> tuple[Array, Array]:
    """Random moves of every start at once, with steps that grow and shrink by success."""
    rng = np.random.default_rng(2)
    line = np.array([isinstance(p, Float) for p in space.columns])[moving]
    ordered = space.ordered[moving]
    counts = np.array([p.scale.count or 4 for p in space.columns])[moving]
    step = np.full(len(x), 0.1)
    for _ in range(_ROUNDS):
        shape = (len(x), _MOVES, len(moving))
        size = np.where(line, step[:, None, None], 0.0)
        # A level apart at least, and often farther: whole numbers and choices have no small steps.
        jumps = np.exp(rng.uniform(np.log(1.0 / counts), np.log(0.5), shape))
        size = np.where(line, size, np.where(ordered, np.maximum(jumps, size), 0.0))
        change = rng.random(shape) < np.where(line, max(0.5, 2 / len(moving)), 0.3)
        moves = np.where(change, size * rng.standard_normal(shape), 0.0)
        tried = np.repeat(x[:, None, :], _MOVES, axis=1)
        tried[:, :, moving] += moves
        chosen = change & ~ordered
        if chosen.any():
            fresh = space.spread(rng.random((len(x) * _MOVES, space.dim)))[:, moving]
            tried[:, :, moving] = np.where(chosen, fresh.reshape(shape), tried[:, :, moving])
        flat = space.canonical(np.clip(tried.reshape(-1, space.dim), 0, 1))
        found = value(flat).reshape(len(x), _MOVES)
        best = found.argmax(axis=1)
        better = found[np.arange(len(x)), best] > fx
        flat = flat.reshape(len(x), _MOVES, -1)
        x = np.where(better[:, None], flat[np.arange(len(x)), best], x)
        fx = np.where(better, found[np.arange(len(x)), best], fx)
        step = np.clip(step * np.where(better, 1.3, 0.75), 1e-7, 0.3)
    return x, fx


def _polished(
    space: Space, value: Callable[[Array], Array], x: Array, fx: Array, moving: Array
) -> tuple[Array, Array]:
    """The best few climb by their slopes, where numbers are continuous."""
    free = [j for j in moving if isinstance(space.columns[j], Float)]
    if not free:
        return x, fx
    for i in np.argsort(-fx, kind="stable")[:6]:

        def down(u: Array, i: int = i) -> float:
            point = x[i].copy()
            point[free] = u
            return -float(value(point[None])[0])

        done = minimize(down, x[i][free], method="L-BFGS-B", bounds=[(0.0, 1.0)] * len(free))
        point = x[i].copy()
        point[free] = np.clip(done.x, 0.0, 1.0)
        point = space.canonical(point[None])[0]
        reached = float(value(point[None])[0])
        if reached > fx[i]:
            x[i], fx[i] = point, reached
    return x, fx
