"""The rule by which a new point counts as one that was visited before."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import MergeRules
from regretless.model import NoiseShape
from regretless.policies import FEASIBLE, Candidates, Score


def same_point(
    score: Score,
    begin: Candidates,
    x: Array,
    steps: float,
    rules: MergeRules,
    equal: Sequence[int] = (),
    noise: NoiseShape | None = None,
) -> int | None:
    """The best visited point that the posterior can't tell from x.

    Two points count as the same if the root mean square of f(x) - f(x_i), sqrt(mean^2 + variance)
    by the posterior, is at most noise_sd / sqrt(steps).  That is the standard error of the mean of
    `steps` evaluations, so the remaining evaluations can't detect a smaller difference.  Another
    evaluation at x_i is then worth as much as one at x, and keeps the model small.

    Only close points are compared: they differ in each column by at most `rules.close` of its
    range.  A model that has only seen noise can't tell any two points apart, and has to go on
    exploring.

    Args:
        score: the score that x maximises, with its constraints.
        begin: the candidates of the search, with the posterior and the visited points.
        x: the new point.
        steps: the number of evaluations that a gain pays for.
        rules: the constants.
        equal: columns in which close points are equal, because their coordinates are only names.
        noise: where results scatter more; None if the noise is the same everywhere.

    Returns:
        The row of the feasible visited point with the best score; None if there is none.
    """
    posterior = begin.posterior
    near = np.flatnonzero(np.abs(begin.sampled - x).max(axis=1, initial=0.0) <= rules.close)
    for column in equal:
        near = near[begin.sampled[near, column] == x[column]]
    if not len(near):
        return None
    close = np.arange(len(posterior.points))[begin.rows][near]
    here = x[None, :]
    mean, sigma = posterior.at_data
    mean_here, sigma_here = posterior.predict(here)
    shared = posterior.shared(x).at_data[close]
    variance = np.maximum(sigma[close] ** 2 + sigma_here**2 - 2.0 * shared, 0.0)
    apart = np.sqrt((mean[close] - mean_here) ** 2 + posterior.omega2 * variance)
    value, slack = score.at_rows(begin.rows)
    noise_sd = posterior.noise_sd
    if noise is not None:
        noise_sd *= float(np.sqrt(noise.ratio(here, mean_here))[0])
    same = (apart <= noise_sd / sqrt(steps)) & (slack[near] >= FEASIBLE)
    return int(close[np.argmax(np.where(same, value[near], -np.inf))]) if same.any() else None
