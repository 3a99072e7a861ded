"""Local search over the levels of discrete columns."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from regretless.search.ascent import climb
from regretless.search.pool import Pool
from regretless.search.slice import Domain


def hop(pool: Pool, space: Domain, rng: Generator) -> None:
    """Redraw some discrete columns of the best points, then move to neighbours until none is
    better."""
    rules = pool.rules
    centers = pool.best(rules.centers)
    centers = centers[rng.integers(len(centers), size=rules.jumps)]
    fresh = rng.random(centers.shape) < rng.choice(rules.jump_shares, size=(rules.jumps, 1))
    fresh &= space.discrete
    if space.conditional:  # where a parameter appears, it may have any value
        fresh |= ~space.active(centers)
    jumped = np.where(fresh, space.spread(rng.random(centers.shape)), centers)
    pool.add(space.settled(jumped))
    for _ in range(rules.rounds):
        before = pool.best_value
        pool.add(np.vstack([space.neighbours(x) for x in pool.best(rules.centers)]))
        if space.continuous.any():
            climb(pool, space, space.continuous, rules.touch_stages)
        if not pool.best_value > before:
            break
