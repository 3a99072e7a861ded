"""When a new point counts as one that was tried already."""

from __future__ import annotations

from math import sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import MergeRules
from regretless.policies import FEASIBLE, Candidates, Score


def same_point(
    score: Score,
    begin: Candidates,
    x: Array,
    steps: int,
    rules: MergeRules,
) -> int | None:
    """The best feasible one of the sampled rows that the posterior can't tell from x, or None.

    Two points count as the same when the difference f(x) - f(x_i) that the posterior expects,
    sqrt(mean^2 + variance), is below noise_sd / sqrt(steps): the standard error that all
    evaluations which a gain pays for could reach together.  A smaller difference can't be found
    out in time, so another look at x_i is worth as much as one at x, and it keeps the model small.

    Only close points are looked at, no column further apart than 5 % of its range: a model that has
    seen nothing but noise yet can't tell any two points apart, and must go on looking around.
    """
    posterior = begin.posterior
    near = np.flatnonzero(np.abs(begin.sampled - x).max(axis=1, initial=0.0) <= rules.close)
    if not len(near):
        return None
    close = np.arange(len(posterior.points))[begin.rows][near]
    here = x[None, :]
    mean, sigma = posterior.at_data
    mean_here, sigma_here = posterior.predict(here)
    shared = posterior.covariance(here, posterior.points[close])[0]
    variance = np.maximum(sigma[close] ** 2 + sigma_here**2 - 2.0 * shared, 0.0)
    apart = np.sqrt((mean[close] - mean_here) ** 2 + posterior.omega2 * variance)
    value, slack = score.at_rows(begin.rows)
    same = (apart <= posterior.noise_sd / sqrt(steps)) & (slack[near] >= FEASIBLE)
    return int(close[np.argmax(np.where(same, value[near], -np.inf))]) if same.any() else None
