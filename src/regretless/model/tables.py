"""Results that were measured side by side, in the same table of a split traffic.

The rows of a table t are served in the same period, whose effect p_t all of them share:
    y_it = f(x_i) + p_t + e_it,      p_t ~ N(0, tau^2),  e_it ~ N(0, v_it).
Integrating p_t out leaves a Gaussian likelihood of f at the distinct points.  With w = 1/v, its
precision matrix and linear term are sums over the tables,
    L = sum_t (diag(w_t) - w_t w_t' / (1/tau^2 + sum w_t)),
    b = sum_t (w_t y_t - w_t (w_t' y_t) / (1/tau^2 + sum w_t)).
So the results count exactly as one result L^-1 b at each point, with the noise covariance L^-1.
The cost grows with the number of points, not of tables.

tau^2 is estimated from settings that are in several tables.  With a flat prior for each f(x_i), the
effects have the estimates M^+ r and the covariance M^+, where
    M = sum_i (diag(w_i) - w_i w_i' / sum w_i)    over the tables of setting i.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import PeriodRules
from regretless.model.data import Data
from regretless.model.periods import Observation, effect_variance

_MOST_TABLES = 300  # by whose results the effect is estimated, the last ones
# The least variance of a result beside that of the effect.  Results that are more precise say no
# more about f, and rounding would leave nothing of what they do say.
_SHARPEST = 1e-10
_LEAST = 1e-9  # of the largest variance: less counts as none


def data_of(dim: int, told: Sequence[Observation], effect: float) -> Data:
    """The results as data, with a row for each point.

    Args:
        dim: the number of columns.
        told: the results; those of tables have a `period` and a known variance.
        effect: tau^2.
    """
    plain = Data.fold(dim, (each[:4] for each in told if each.period is None))
    cells = [each for each in told if each.period is not None]
    rows, points = _rows(cells)
    precision, linear = np.zeros((len(points), len(points))), np.zeros(len(points))
    single = np.zeros(len(points))
    for here in _by_period(cells):
        place = rows[here]
        w = np.array([1.0 / max(_variance(cells[i]), _SHARPEST * effect) for i in here])
        y = np.array([cells[i].y for i in here])
        share = w / (1.0 / effect + w.sum())
        precision[place, place] += w
        precision[np.ix_(place, place)] -= np.outer(w, share)
        linear[place] += w * y - share * float(w @ y)
    np.add.at(single, rows, [_variance(each) for each in cells])
    single /= np.bincount(rows, minlength=len(points))
    shared = np.linalg.inv(precision)
    shared = 0.5 * (shared + shared.T)
    weight = 1.0 / np.diag(shared)
    return _beside(plain, np.array(points), shared @ linear, weight, single * weight, shared)


def effect_of(told: Sequence[Observation], rules: PeriodRules) -> float:
    """tau^2, the variance of the effect of a table on all of its results."""
    cells = [each for each in told if each.period is not None]
    rows, _ = _rows(cells)
    periods = _by_period(cells)[-_MOST_TABLES:]
    matrix, right = np.zeros((len(periods), len(periods))), np.zeros(len(periods))
    of_row: dict[int, list[tuple[int, float, float]]] = {}
    for t, here in enumerate(periods):
        for i in here:
            cell = (t, 1.0 / _variance(cells[i]), cells[i].y)
            of_row.setdefault(int(rows[i]), []).append(cell)
    for each in of_row.values():
        at = [t for t, _, _ in each]
        w, y = np.array([w for _, w, _ in each]), np.array([y for _, _, y in each])
        matrix[at, at] += w
        matrix[np.ix_(at, at)] -= np.outer(w, w) / w.sum()
        right[at] += w * (y - float(w @ y) / w.sum())
    inverse = np.linalg.pinv(matrix, hermitian=True)
    errors = np.diag(inverse)
    known = errors > _LEAST * errors.max(initial=0.0)
    if known.sum() < 2:  # no setting was in two tables: as large as all differences are
        return max(float(np.var([each.y for each in cells])), min(map(_variance, cells)))
    return effect_variance([(inverse @ right)[known]], [errors[known]], rules)


def _variance(told: Observation) -> float:
    assert told.variance is not None
    return told.variance


def _rows(cells: Sequence[Observation]) -> tuple[NDArray[np.intp], list[Array]]:
    """The row of each result, and the points of the rows."""
    known: dict[bytes, int] = {}
    points: list[Array] = []
    rows = []
    for each in cells:
        row = known.setdefault((each.x + 0.0).tobytes(), len(points))
        if row == len(points):
            points.append(each.x)
        rows.append(row)
    return np.array(rows, dtype=np.intp), points


def _by_period(cells: Sequence[Observation]) -> list[list[int]]:
    """The places of the results of each period, in the order of the periods."""
    places: dict[int, list[int]] = {}
    for i, each in enumerate(cells):
        places.setdefault(each.period or 0, []).append(i)
    return [places[period] for period in sorted(places)]


def _beside(
    plain: Data, points: Array, y: Array, weight: Array, count: Array, shared: Array
) -> Data:
    """Both kinds of rows together."""
    old, size = len(plain), len(plain) + len(y)
    whole = np.zeros((size, size))
    whole[old:, old:] = shared
    np.fill_diagonal(whole, 0.0)
    return Data(
        x=np.vstack([plain.x, points]),
        y=np.append(plain.y, y),
        weight=np.append(plain.weight, weight),
        known=np.append(plain.known, np.ones(len(y), dtype=bool)),
        count=np.append(plain.count, count),
        scatter=plain.scatter,
        constant=plain.constant,
        swell=np.ones((size, size)),
        common=np.zeros((size, size)),
        shared=whole,
    )
