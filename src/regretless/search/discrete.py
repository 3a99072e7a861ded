"""Moves between the levels of discrete columns."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless.search.ascent import climb
from regretless.search.pool import Pool
from regretless.space import Space

# Points to move from, moves at random, rounds of neighbours, and the climb of what is continuous
# after each.
_CENTERS, _JUMPS, _ROUNDS, _TOUCH = 8, 128, 12, ((4, 6e-4, 5),)


def hop(pool: Pool, space: Space, kinds: NDArray[np.str_], rng: Generator) -> None:
    """Moves between levels: a few columns drawn anew, then neighbours until none is better."""
    centers = pool.best(_CENTERS)
    centers = centers[rng.integers(len(centers), size=_JUMPS)]
    fresh = rng.random(centers.shape) < rng.choice([0.2, 0.5], size=(_JUMPS, 1))
    fresh &= kinds != "continuous"
    pool.add(np.where(fresh, space.spread(rng.random(centers.shape)), centers))
    for _ in range(_ROUNDS):
        before = pool.best_value
        pool.add(np.vstack([space.neighbours(x) for x in pool.best(_CENTERS)]))
        if (kinds == "continuous").any():
            climb(pool, space, kinds == "continuous", _TOUCH)
        if not pool.best_value > before:
            break
