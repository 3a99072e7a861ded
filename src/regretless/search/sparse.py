"""Change as few parameters as possible."""

from __future__ import annotations

import numpy as np

from regretless._internal.arrays import Array
from regretless.policies import FEASIBLE, Score
from regretless.search.slice import Domain


def fewest_changes(score: Score, space: Domain, x: Array, base: Array, tolerance: float) -> Array:
    """A point with nearly the score of x that differs from `base` in fewer columns.

    Column by column is set back to `base`, the one that costs least first, as long as the point
    keeps to all constraints and its score is not lower than that of x by more than `tolerance`.

    Args:
        score: the score that x maximises, with its constraints.
        space: the space of the search.
        x: the best point.
        base: the point that changes are counted from.
        tolerance: how much of the score may be lost in all.

    Returns:
        The point; x itself if no column can be set back.
    """
    least = float(score(x[None, :])[0][0]) - tolerance
    while True:
        changed = np.flatnonzero(x != base)
        tries = np.tile(x, (len(changed), 1))
        tries[np.arange(len(changed)), changed] = base[changed]
        tries = space.canonical(tries)
        tries = tries[(tries != base).sum(axis=1) < len(changed)]
        if not len(tries):
            return x
        value, slack = score(tries)
        good = (slack >= FEASIBLE) & (value >= least)
        if not good.any():
            return x
        x = tries[int(np.argmax(np.where(good, value, -np.inf)))]
