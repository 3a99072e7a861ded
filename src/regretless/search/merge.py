"""The rule by which a new point counts as one that was visited before."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import MergeRules
from regretless.model import NoiseShape, Posterior
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
    near = _near(begin.sampled, x, rules, equal)
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


def same_setting(
    score: Score,
    posterior: Posterior,
    points: Array,
    moments: tuple[Array, Array],
    x: Array,
    steps: float,
    rules: MergeRules,
    equal: Sequence[int] = (),
) -> Array | None:
    """The best setting that was visited in any context, and can't be told from x in this one.

    It is the rule of `same_point`, for settings that were visited in other contexts.  It keeps the
    number of different settings small.

    Args:
        score: the score that x maximises, with its constraints.
        posterior: the posterior in the context of x.
        points: the visited settings, in the context of x.
        moments: the posterior means and sds there.
        x: the new point.
        steps: the number of evaluations that a gain pays for.
        rules: the constants.
        equal: columns in which close points are equal, because their coordinates are only names.

    Returns:
        The setting, in the context of x; None if there is none.
    """
    near = _near(points, x, rules, equal)
    if not len(near):
        return None
    mean, sigma = (each[near] for each in moments)
    mean_here, sigma_here = posterior.predict(x[None, :])
    shared = posterior.covariance(x[None, :], points[near])[0]
    variance = np.maximum(sigma**2 + sigma_here**2 - 2.0 * shared, 0.0)
    apart = np.sqrt((mean - mean_here) ** 2 + posterior.omega2 * variance)
    value, slack = score(points[near])
    same = (apart <= posterior.noise_sd / sqrt(steps)) & (slack >= FEASIBLE)
    best = near[np.argmax(np.where(same, value, -np.inf))]
    return np.asarray(points[best]) if same.any() else None


def _near(points: Array, x: Array, rules: MergeRules, equal: Sequence[int]) -> NDArray[np.intp]:
    """The rows of the points that are close to x."""
    near = np.flatnonzero(np.abs(points - x).max(axis=1, initial=0.0) <= rules.close)
    for column in equal:
        near = near[points[near, column] == x[column]]
    return near
