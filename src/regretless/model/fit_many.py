"""Fit the hyper-parameters to many points.

To compute the evidence of m points takes O(m^3) time, and a search computes it 40 to 80 times.  So
most of the search sees only some of the points.  A few steps at the end see all of them:

1. The search is made on a subset.  Half of it is drawn at random from all points.  It tells about
   long length-scales.  The other half are the points closest to the best result.  It tells about
   short length-scales and about noise.
2. The curvature of the log evidence is measured on the subset.  It grows with the number of points.
   So the curvature for all points is estimated as that of the subset times the ratio of the sizes.
3. A few quasi-Newton steps follow on all points.  They begin with this curvature, so that few of
   them are needed.  With more than `ManyRules.block` points, the log evidence is replaced by the
   sum of those of blocks of neighbouring points, as if blocks were independent of each other.

With more than `ManyRules.most` points, such a subset takes the place of all points from the
beginning.

docs/results/large_studies.md has how much evidence is lost against a search on all points.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import FitRules, ManyRules
from regretless.model.data import Data
from regretless.model.fit import FAILED, Fit, Search
from regretless.model.hyper import Hyper
from regretless.model.model import Model

_APART = 1e-3  # the step of the differences that give the curvature, in log units
_LONGEST = 1.0  # a step changes no parameter by more than a factor of e
_SHORTER = 0.3  # a step that gains nothing is made shorter by this factor
_STEEP = 1e-3  # curvatures are at least this share of the largest one


def fit_many(
    data: Data, start: Hyper, model: Model, rules: FitRules, descents: int, first: bool = False
) -> Fit:
    """Fit hyper-parameters to many points, see the description of this module.

    Args:
        data: the observations, in the units of the model.
        start: the hyper-parameters of the last fit.
        model: the method and its priors.
        rules: the constants of the search.
        descents: the number of starts of the search on the subset; with 1, it is the last fit.
        first: whether there was no fit before, so that more starts are tried.
    """
    many = rules.many
    if len(data) > many.most:
        data = data.part(subset(data, many.most))
    some = data.part(subset(data, many.subset))
    few = Search((some,), start, model, rules)
    begins = few.promising(2 if first else descents)
    if first:
        begins = [begins[0], few.start_of(*many.smooth_start)]
    found = few.hyper_at(few.best_of(begins)[0])
    whole = Search(blocks(data, found, many), start, model, rules, profile=False)
    points = [whole.clip(whole.vector(hyper)) for hyper in (found, start)]
    values = [whole.screen(point) for point in points]
    best = points[int(np.argmin(values))]
    if not min(values) < FAILED:
        return whole.result(best, FAILED, calls=few.calls)
    beside = Search((some,), start, model, rules, profile=False)
    curvature = _curvature(beside, best) * (len(data) / len(some))
    return whole.result(*_steps(whole, best, curvature), calls=few.calls + beside.calls)


def subset(data: Data, size: int) -> NDArray[np.intp]:
    """So many rows: half of them closest to the best result, the others drawn at random.

    Args:
        data: the observations.
        size: the number of rows.
    """
    away = ((data.x - data.x[np.argmax(data.y)]) ** 2).sum(axis=1)
    near = np.argsort(away, kind="stable")[: size // 2]
    spread = np.random.default_rng(len(data)).permutation(len(data))
    others = spread[~np.isin(spread, near)][: size - len(near)]
    return np.concatenate([near, others])


def blocks(data: Data, hyper: Hyper, rules: ManyRules) -> list[Data]:
    """The observations in blocks of neighbouring points; one block if there are few enough.

    All blocks are cut in halves, across the column in which their points are furthest apart in
    units of the length-scales, until they are small enough.

    Args:
        data: the observations.
        hyper: the hyper-parameters that the length-scales come from.
        rules: the size of a block.
    """
    rows, scales = [np.arange(len(data))], hyper.kernel.scales(data.x.shape[1])
    while len(rows[0]) > rules.block:
        rows = [half for block in rows for half in _halves(block, data.x[block] / scales)]
    return [data] if len(rows) == 1 else [data.part(block) for block in rows]


def _halves(rows: NDArray[np.intp], x: Array) -> list[NDArray[np.intp]]:
    """The rows in two halves, the first of which is not the smaller one."""
    order = np.argsort(x[:, np.argmax(x.std(axis=0))], kind="stable")
    return [rows[half] for half in np.array_split(order, 2)]


def _curvature(search: Search, p: Array) -> Array:
    """The second derivatives of the objective at p without its priors, by differences of slopes."""

    def slope(q: Array) -> Array:
        return np.asarray(search.objective(q)[1] - search.penalty(q)[1])

    middle, rows = slope(p), []
    for index, low in enumerate(p):
        q = p.copy()
        q[index] += _APART if low + _APART <= search.bounds[index, 1] else -_APART
        rows.append((slope(q) - middle) / (q[index] - low))
    matrix = np.array(rows)
    return np.asarray(0.5 * (matrix + matrix.T))


def _steps(search: Search, p: Array, curvature: Array) -> tuple[Array, float]:
    """Quasi-Newton steps (BFGS) within the bounds, and the objective at their end."""
    rules, (low, high) = search.rules.many, search.bounds.T
    inverse = _inverse(curvature + np.diag(search.spread**-2.0))
    least = rules.tolerance * sum(map(len, search.parts))
    limit = search.calls + rules.evaluations
    value, slope = search.objective(p)
    while search.calls < limit:
        free = ~(((p <= low) & (slope > 0.0)) | ((p >= high) & (slope < 0.0)))
        step = np.where(free, -inverse @ np.where(free, slope, 0.0), 0.0)
        if -0.5 * float(slope @ step) < least:
            break
        step /= max(1.0, float(np.abs(step).max()) / _LONGEST)
        new, new_value, new_slope = _down(search, p, value, slope, step, limit)
        if not new_value < value:
            break
        inverse = _learnt(inverse, new - p, new_slope - slope)
        p, value, slope = new, new_value, new_slope
    return p, value


def _down(
    search: Search, p: Array, value: float, slope: Array, step: Array, limit: int
) -> tuple[Array, float, Array]:
    """The first point along a step that is clearly lower, or the last one that was tried."""
    while True:
        new = search.clip(p + step)
        new_value, new_slope = search.objective(new)
        if new_value <= value + 1e-4 * float(slope @ (new - p)) or search.calls >= limit:
            return new, new_value, new_slope
        step = _SHORTER * step


def _inverse(matrix: Array) -> Array:
    """The inverse of a symmetric matrix whose eigenvalues are made positive."""
    values, axes = np.linalg.eigh(matrix)
    size = np.abs(values)
    return np.asarray((axes / np.maximum(size, max(1.0, _STEEP * size.max()))) @ axes.T)


def _learnt(inverse: Array, moved: Array, change: Array) -> Array:
    """The BFGS update of the inverse curvature by a step and the change of the slope."""
    along = float(moved @ change)
    if not along > 1e-10:
        return inverse
    turn = np.eye(len(moved)) - np.outer(moved, change) / along
    return np.asarray(turn @ inverse @ turn.T + np.outer(moved, moved) / along)
