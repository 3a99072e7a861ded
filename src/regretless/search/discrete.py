"""Local search over the levels of discrete columns."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.search.ascent import climb
from regretless.search.pool import Pool
from regretless.search.slice import Domain, structured


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
    tops, rounds = rules.centers, rules.rounds
    if structured(space):
        tops, rounds = rules.structured_centers, rules.structured_rounds
    for _ in range(rounds):
        before = pool.best_value
        pool.add(np.vstack([space.neighbours(x) for x in pool.best(tops)]))
        if space.continuous.any():
            climb(pool, space, space.continuous, rules.touch_stages)
        if not pool.best_value > before:
            break


def walks(centers: Array, space: Domain, rng: Generator, count: int) -> Array:
    """Points a few random moves away from the centers, in their structured columns."""
    columns = structured(space)
    each = max(1, count // max(1, len(centers) * len(columns)))
    found = []
    for center in centers:
        for column, parameter in columns.items():
            place, left = center[column], each
            while left > 0:
                # Half of the points are one move away, a quarter two moves, and so on.
                moved = parameter.moved(place, rng, (left + 1) // 2)
                if not len(moved):
                    break
                rows = np.tile(center, (len(moved), 1))
                rows[:, column] = moved
                found.append(rows)
                place, left = moved[rng.integers(len(moved))], left - len(moved)
    return space.settled(np.vstack(found)) if found else centers[:0]
