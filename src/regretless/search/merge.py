"""When a new point counts as one that was tried already."""

from __future__ import annotations

from math import sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless.model import GP
from regretless.policies import FEASIBLE, Score

_CLOSE = 0.05  # the largest difference, in any column, of points that may count as the same


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
