"""How much each parameter matters, according to the posterior."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.validate import whole
from regretless.engine import Optimizer
from regretless.ledger import Estimate
from regretless.space import Space

_BASES, _LEVELS = 64, 16  # values of the other parameters, and of the parameter itself


@one_thread()
def importances(optimizer: Optimizer, draws: int = 16) -> dict[str, Estimate]:
    """How much of the variance of f over the space each parameter is involved in.

    It is the total effect of a parameter (a Sobol index): the share of the variance that is left if
    all other parameters are given.
    Effects that several parameters have together count for each of them, so the sum may exceed 1.

    Args:
        optimizer: the optimiser.
        draws: how many functions are drawn from the posterior.  Their scatter is the uncertainty of
            an importance.

    Returns:
        For each parameter the mean and the sd of its importance, from 0 to 1; also for each
        context, if the run has contexts.

    Raises:
        ConfigError: `draws` is not a whole number of at least 2.
        NoResultsError: no result was told yet.

    Example:
        >>> import regretless as rl
        >>> from regretless.importance import importances
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0), "idle": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20)
        >>> for trial in optimizer:
        ...     optimizer.tell(trial, -((trial.params["x"] - 0.3) ** 2))
        >>> found = importances(optimizer)
        >>> found["x"].mean > found["idle"].mean
        True
    """
    whole("draws", draws, least=2)
    posterior, space = optimizer._situation().posterior, optimizer._whole
    rng = np.random.default_rng(0)
    points = _points(space, rng)
    effects = np.empty((draws, space.dim))
    for draw in effects:
        path = posterior.sample_path(rng)
        values = path(points).reshape(space.dim, _BASES, _LEVELS)
        draw[:] = values.var(axis=2).mean(axis=1) / max(float(values.var()), 1e-300)
    effects = np.minimum(effects, 1.0)
    return {
        name: Estimate(float(each.mean()), float(each.std(ddof=1)))
        for name, each in zip(space.names, effects.T, strict=True)
    }


def _points(space: Space, rng: Generator) -> Array:
    """For each column, a Latin hypercube of base points, each with all levels of the column."""
    strata = np.argsort(rng.random((_BASES, space.dim)), axis=0)
    base = (strata + rng.random(strata.shape)) / _BASES
    unit = np.tile(base[None, :, None, :], (space.dim, 1, _LEVELS, 1))
    for column in range(space.dim):
        unit[column, :, :, column] = (np.arange(_LEVELS) + 0.5) / _LEVELS
    return space.spread(unit.reshape(-1, space.dim))
