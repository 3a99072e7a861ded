"""Initial designs: the paper's centred grid, scrambled Sobol points, Latin hypercubes, and for
spaces with choices Sobol points after a look at each choice.

The first three functions know only the cube [0, 1]^d. The others fill a `Space`: they return
canonical encoded points, spread evenly over the levels of discrete columns, without repeats where
the space is finite, and the same for the same seed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from numbers import Integral
from typing import TypeAlias

import numpy as np

from regretless._internal.arrays import Array
from regretless.errors import ConfigError
from regretless.space import Space, product

Seed: TypeAlias = int | Sequence[int] | np.random.Generator

_ROUNDS = 6  # attempts to fill a finite space from the sequence before falling back on its grid


def grid_levels(n0: int, dim: int) -> tuple[int, ...]:
    """Levels per dimension whose product is n0, as even as possible, the larger ones first.

    36 in four dimensions gives (3, 3, 2, 2). No dimension gets more than twice the levels of
    another: where n0 has no such factors (a large prime, say), the nearest count below it that has
    is taken instead, so 7 in two dimensions gives (3, 2).
    """
    _check_count("n0", n0)
    _check_count("dim", dim)
    # One point can always be had, so the search ends.
    return next(found for n in range(n0, 0, -1) if (found := _most_even(n, dim)) is not None)


def budget_levels(budget: int, dim: int, constant: float = 1.0) -> tuple[int, ...]:
    """M = O(N^(1/2d)) levels in each dimension, so that n_0 = M^d = O(√N), eq. initdesign."""
    _check_count("budget", budget)
    _check_count("dim", dim)
    if not 0 < constant < math.inf:
        raise ConfigError(f"constant: must be a positive number, got {constant!r}")
    return (max(1, round(constant * budget ** (1 / (2 * dim)))),) * dim


def centred_grid(levels: Sequence[int]) -> Array:
    """B_M, the centres of equal boxes, with M_j levels in dimension j, eq. idp.

    The paper's grid has the same M everywhere; shape (prod(levels), d), last column fastest.
    """
    return product([_centres(m) for m in _checked_levels(levels)])


def grid(space: Space, levels: int | Sequence[int]) -> Array:
    """The centred grid on a space, with `levels` in every column or one number per column.

    A discrete column contributes no more levels than it has, so there may be fewer points than
    prod(levels).
    """
    each = [levels] * space.dim if isinstance(levels, int | np.integer) else levels
    per_column = _checked_levels(each)
    if len(per_column) != space.dim:
        raise ConfigError(f"levels: need one per parameter ({space.dim}), got {list(per_column)}")
    # Equal coordinates in every column, of which each column keeps its own distinct levels.
    columns = []
    for j, m in enumerate(per_column):
        diagonal = np.repeat(_centres(m)[:, None], space.dim, axis=1)
        columns.append(np.unique(space.spread(diagonal)[:, j]))
    return product(columns)


def sobol(space: Space, n: int, seed: Seed = 0) -> Array:
    """The first n distinct points of a scrambled Sobol sequence; fewer if the space has fewer."""
    from scipy.stats import qmc  # here, because it takes longer to import than all the rest

    _check_count("n", n)
    rng = np.random.default_rng(seed)
    scramble = int(rng.integers(2**63))
    bits = math.ceil(math.log2(n))

    def points(attempt: int) -> Array:
        # Always a power of two from the start: balanced, and a prefix of the next attempt.
        sampler = qmc.Sobol(space.dim, scramble=True, seed=np.random.default_rng(scramble))
        return np.asarray(sampler.random_base2(bits + attempt))

    if _exhausted(space, n):
        return rng.permutation(space.grid())
    chosen = _distinct(space.spread(points(0)[:n]))
    for attempt in range(1, _ROUNDS):
        if len(chosen) == n:
            break
        chosen = _distinct(space.spread(points(attempt)))[:n]
    return _topped_up(space, chosen, n, rng)


def choices_first(space: Space, n: int, seed: Seed = 0) -> Array:
    """Each choice once in the middle of all else, then Sobol points: n in all, or as `sobol`.

    Ranges are mostly set around what is plausible, and random points of a cube are mostly in its
    corners: what is seen of a choice there may hide it for good.  Several columns of choices are
    gone through at the same time, each in an order of its own.
    """
    rng = np.random.default_rng(seed)
    others = sobol(space, n, rng)
    shuffled = {
        j: rng.permutation(choices)
        for j, choices in enumerate(space.levels)
        if choices is not None and not space.ordered[j]
    }
    each = max((len(choices) for choices in shuffled.values()), default=0)
    middle = np.repeat(space.spread(np.full((1, space.dim), 0.5)), min(each, n), axis=0)
    for j, choices in shuffled.items():
        middle[:, j] = np.resize(choices, len(middle))  # over and over, where there are fewer
    return _distinct(np.concatenate([middle, others]))[:n]


def latin_hypercube(space: Space, n: int, seed: Seed = 0) -> Array:
    """n distinct points, one in each of n equal slices of every column; fewer if need be.

    On a small finite space a draw may repeat a point: the repeat is replaced by a point of the
    next draw, and the slices are then only nearly even.
    """
    _check_count("n", n)
    rng = np.random.default_rng(seed)
    if _exhausted(space, n):
        return rng.permutation(space.grid())
    chosen = np.empty((0, space.dim))
    for _ in range(_ROUNDS):
        slices = rng.permuted(np.tile(np.arange(n)[:, None], space.dim), axis=0)
        draw = space.spread((slices + rng.random((n, space.dim))) / n)
        chosen = _distinct(np.concatenate([chosen, draw]))[:n]
        if len(chosen) == n:
            break
    return _topped_up(space, chosen, n, rng)


def _most_even(n: int, dim: int) -> tuple[int, ...] | None:
    """The factors of n with the smallest sum, none more than twice another; None if impossible."""
    # The geometric mean lies between the smallest and the largest factor, hence both bounds.
    mean = n ** (1 / dim)
    smallest, largest = math.ceil(mean / 2 - 1e-9), math.floor(2 * mean + 1e-9)
    even = [f for f in _factorisations(n, dim, smallest, largest) if f[0] <= 2 * f[-1]]
    return min(even, key=lambda f: (sum(f), f), default=None)


def _factorisations(n: int, parts: int, smallest: int, largest: int) -> list[tuple[int, ...]]:
    """All ways to write n as `parts` non-increasing factors in [smallest, largest]."""
    if parts == 1:
        return [(n,)] if smallest <= n <= largest else []
    return [
        (factor, *rest)
        for factor in range(max(smallest, 1), min(n, largest) + 1)
        if n % factor == 0
        for rest in _factorisations(n // factor, parts - 1, smallest, factor)
    ]


def _centres(m: int) -> Array:
    return (np.arange(m) + 0.5) / m


def _distinct(points: Array) -> Array:
    """Without the later copies of a row, in the order given."""
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]


def _exhausted(space: Space, n: int) -> bool:
    return space.size is not None and space.size <= n


def _topped_up(space: Space, chosen: Array, n: int, rng: np.random.Generator) -> Array:
    """With points drawn from those left over, for a finite space that is nearly exhausted."""
    if len(chosen) == n or space.size is None:
        return chosen
    shuffled = rng.permutation(space.grid())
    return _distinct(np.concatenate([chosen, shuffled]))[:n]


def _checked_levels(levels: Sequence[int]) -> tuple[int, ...]:
    for m in levels:
        _check_count("levels", m)
    if not len(levels):
        raise ConfigError("levels: need one per dimension, got none")
    return tuple(int(m) for m in levels)


def _check_count(name: str, value: object) -> None:
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise ConfigError(f"{name}: must be an integer >= 1, got {value!r}")
