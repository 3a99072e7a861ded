"""Points of initial designs: centred grids, scrambled Sobol points and Latin hypercubes.

`grid_levels`, `budget_levels` and `centred_grid` work on the cube [0, 1]^d.  The other functions
return canonical encoded points of a `Space`.  These are spread evenly over the levels of discrete
columns and have no repeats.  The same seed gives the same points.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TypeAlias

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import whole
from regretless.errors import ConfigError
from regretless.space import MAX_GRID_POINTS, Space, product

Seed: TypeAlias = int | Sequence[int] | np.random.Generator

_REACH = 0.3  # how far a mirrored point is from the middle, in each column
_DRAWN = 512  # points among which the central ones are chosen
_ROUNDS = 6  # attempts to find n distinct points, before the rest are drawn from the whole grid


def grid_levels(n0: int, dim: int) -> tuple[int, ...]:
    """The number of levels in each dimension of a grid with n0 points.

    The levels are as even as possible, and no dimension has more than twice as many as another.  If
    n0 has no such factors (a large prime, for example), the grid has the nearest smaller number of
    points that has such factors.

    Args:
        n0: the number of points.
        dim: the number of dimensions.

    Returns:
        The levels in descending order.

    Raises:
        ConfigError: a number is not an integer of at least 1.

    Example:
        >>> grid_levels(36, 4)
        (3, 3, 2, 2)
        >>> grid_levels(7, 2)
        (3, 2)
    """
    whole("n0", n0, least=1)
    whole("dim", dim, least=1)
    # The search ends, because a grid of one point is always possible.
    return next(found for n in range(n0, 0, -1) if (found := _most_even(n, dim)) is not None)


def budget_levels(budget: int, dim: int, constant: float = 1.0) -> tuple[int, ...]:
    """M = O(N^(1/2d)) levels in each dimension, so that n_0 = M^d = O(√N), eq. initdesign.

    Args:
        budget: N, the number of evaluations.
        dim: d, the number of dimensions.
        constant: a factor of M.

    Returns:
        M for each dimension.

    Raises:
        ConfigError: a number is out of range.

    Example:
        >>> budget_levels(100, 2)
        (3, 3)
    """
    whole("budget", budget, least=1)
    whole("dim", dim, least=1)
    if not 0 < constant < math.inf:
        raise ConfigError(f"constant: must be a positive number, got {shown(constant)}")
    return (max(1, round(constant * budget ** (1 / (2 * dim)))),) * dim


def centred_grid(levels: Sequence[int]) -> Array:
    """B_M, the centres of equal boxes of the unit cube, eq. idp.

    Args:
        levels: M_j, the number of levels in each dimension.  The paper has the same M in all.

    Returns:
        An array of shape (prod(levels), d); the last column changes fastest.

    Raises:
        ConfigError: there are no levels, or one is not an integer of at least 1.

    Example:
        >>> centred_grid([2, 1]).tolist()
        [[0.25, 0.5], [0.75, 0.5]]
    """
    return product([_centres(m) for m in _checked_levels(levels)])


def grid(space: Space, levels: int | Sequence[int]) -> Array:
    """The centred grid on a space.

    Args:
        space: the search space.
        levels: the number of levels, one for all columns or one for each.  A discrete column never
            gets more levels than it has, so there may be fewer than prod(levels) points.

    Returns:
        Canonical encoded points; the last column changes fastest.

    Raises:
        ConfigError: there are not as many levels as columns, or one is not an integer of at least
            1.

    Example:
        >>> from regretless.space import Float, Int, Space
        >>> grid(Space({"x": Float(0.0, 1.0), "k": Int(1, 2)}), levels=2).tolist()
        [[0.25, 0.0], [0.25, 1.0], [0.75, 0.0], [0.75, 1.0]]
    """
    each = [levels] * space.dim if isinstance(levels, int | np.integer) else levels
    per_column = _checked_levels(each)
    if len(per_column) != space.dim:
        raise ConfigError(f"levels: need one per parameter ({space.dim}), got {list(per_column)}")
    # `spread` needs whole rows, so the same coordinates are put into every column.  Only column j
    # of the result is used.
    columns = []
    for j, m in enumerate(per_column):
        diagonal = np.repeat(_centres(m)[:, None], space.dim, axis=1)
        columns.append(np.unique(space.spread(diagonal)[:, j]))
    points = product(columns)
    if space.conditional:
        points = _distinct(space.settled(points))
    return _distinct(space.repaired(points)) if space.where else points


def central(space: Space, n: int, seed: Seed = 0) -> Array:
    """The most central point that keeps the limits of a space, then others around it.

    The points are chosen among 512 random points that keep the limits.  Distances are in units of
    the sds of these 512.  The first point is the one that is closest to their mean.  The others are
    far from each other, and closer to the mean than half of the 512.

    Args:
        space: the search space, usually with limits.
        n: the number of points, at most 256.
        seed: the same seed gives the same points.

    Returns:
        Distinct canonical points; fewer than n if the inner half of the 512 has fewer.

    Example:
        >>> from regretless.space import Float, Space
        >>> space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}, where=["x + y <= 1"])
        >>> bool((central(space, 3).sum(axis=1) <= 1.0).all())
        True
    """
    drawn = _distinct(space.drawn(_DRAWN, np.random.default_rng(seed)))
    units = drawn.std(axis=0)
    places = (drawn - drawn.mean(axis=0)) / np.where(units > 0.0, units, 1.0)
    away = (places**2).sum(axis=1)
    inner = away <= np.median(away)
    drawn, places = drawn[inner], places[inner]
    rows = [int(np.argmin(away[inner]))]
    while len(rows) < min(n, len(drawn)):
        apart = ((places[:, None] - places[rows]) ** 2).sum(axis=2).min(axis=1)
        rows.append(int(np.argmax(apart)))
    return np.asarray(drawn[rows])


def sobol(space: Space, n: int, seed: Seed = 0) -> Array:
    """The first n distinct points of a scrambled Sobol sequence.

    Args:
        space: the search space.
        n: the number of points.
        seed: an integer, a sequence of integers or a numpy generator.

    Returns:
        n canonical encoded points; all points of the space if it has no more than n.

    Raises:
        ConfigError: n is not an integer of at least 1.

    Example:
        >>> from regretless.space import Float, Space
        >>> points = sobol(Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}), 8)
        >>> points.shape
        (8, 2)
        >>> sorted((points[:, 0] * 8).astype(int).tolist())  # one in each eighth of the range
        [0, 1, 2, 3, 4, 5, 6, 7]
    """
    from scipy.stats import qmc  # imported here, because it takes longer than all the rest

    whole("n", n, least=1)
    rng = np.random.default_rng(seed)
    scramble = int(rng.integers(2**63))
    bits = math.ceil(math.log2(n))

    def points(attempt: int) -> Array:
        # Always the first 2^k points: they are balanced, and the next attempt begins with them.
        sampler = qmc.Sobol(space.dim, scramble=True, seed=np.random.default_rng(scramble))
        return np.asarray(sampler.random_base2(bits + attempt))

    if _exhausted(space, n):
        return rng.permutation(space.grid())
    chosen = _distinct(_kept(space, points(0)[:n]))
    for attempt in range(1, _ROUNDS):
        if len(chosen) == n:
            break
        chosen = _distinct(_kept(space, points(attempt)))[:n]
    return _topped_up(space, chosen, n, rng)


def mirrored(space: Space, n: int, seed: Seed = 0) -> Array:
    """The middle of the space, then pairs of points that mirror each other in the middle.

    A pair is 0.5 + 0.3 s and 0.5 - 0.3 s, with random signs s: far from the middle in each column,
    but away from the borders.  No diagonal is taken twice while there are others.

    Args:
        space: the search space.
        n: the number of points; fewer are returned if the space has fewer of this kind.
        seed: the same seed gives the same points.

    Returns:
        Distinct canonical points.

    Example:
        >>> from regretless.space import Float, Space
        >>> space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)})
        >>> points = mirrored(space, 3)
        >>> points[0].tolist(), (points[1] + points[2]).round(9).tolist()
        ([0.5, 0.5], [1.0, 1.0])
    """
    rng = np.random.default_rng(seed)
    found, diagonals = [np.full(space.dim, 0.5)], set[tuple[float, ...]]()
    for _ in range(_ROUNDS * n):
        if len(found) >= n:
            break
        signs = rng.choice([-1.0, 1.0], space.dim)
        diagonal = tuple((signs * signs[0]).tolist())
        if diagonal not in diagonals:
            diagonals.add(diagonal)
            found += [0.5 + _REACH * signs, 0.5 - _REACH * signs]
    return _distinct(space.canonical(np.array(found)))[:n]


def choices_first(space: Space, n: int, seed: Seed = 0) -> Array:
    """Each choice once with all other parameters at mid-range, followed by Sobol points.

    Users mostly set ranges around plausible values, and random points of a cube are mostly near its
    corners.  A good choice that was only tried in a bad corner might never be tried again.  If
    several columns have choices, each point takes a new choice in all of them, and each column has
    its own random order.

    Args:
        space: the search space.
        n: the number of points.
        seed: an integer, a sequence of integers or a numpy generator.

    Returns:
        n distinct canonical encoded points; fewer if the space has fewer.

    Raises:
        ConfigError: n is not an integer of at least 1.

    Example:
        >>> from regretless.space import Categorical, Float, Space
        >>> space = Space({"x": Float(0.0, 1.0), "solver": Categorical(["adam", "sgd"])})
        >>> first, second, *_ = [space.decode(point) for point in choices_first(space, 5)]
        >>> first["x"], second["x"], sorted([first["solver"], second["solver"]])
        (0.5, 0.5, ['adam', 'sgd'])
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
        middle[:, j] = np.resize(choices, len(middle))  # repeats the choices if there are too few
    first = space.repaired(space.settled(middle))
    return _distinct(np.concatenate([first, others]))[:n]


def branches_first(space: Space, n: int, seed: Seed = 0) -> Array:
    """Each branch of a conditional space once, and each choice once, followed by Sobol points.

    In these first points, the other parameters are at mid-range, as in `choices_first`.

    Args:
        space: the search space.
        n: the number of points.
        seed: an integer, a sequence of integers or a numpy generator.

    Returns:
        n distinct canonical encoded points; fewer if the space has fewer.

    Raises:
        ConfigError: n is not an integer of at least 1.

    Example:
        >>> from regretless.space import Categorical, Float, Space
        >>> momentum = Float(0.0, 1.0).when("solver", "sgd")
        >>> space = Space({"solver": Categorical(["adam", "sgd"]), "momentum": momentum})
        >>> first = [space.decode(point) for point in branches_first(space, 5)[:2]]
        >>> sorted(first, key=len)
        [{'solver': 'adam'}, {'solver': 'sgd', 'momentum': 0.5}]
    """
    rng = np.random.default_rng(seed)
    others = sobol(space, n, rng)
    return _distinct(np.concatenate([branch_points(space, rng), others]))[:n]


def branch_points(space: Space, seed: Seed = 0) -> Array:
    """Few points that look into every branch of a conditional space.

    Each choice occurs in one of them, and so does each range of values that decides about another
    parameter.  If several parameters have choices, there are twice as many points, and each
    combination of choices occurs once at most: what was tried beside one other choice only might
    owe its result to that one.

    Args:
        space: the search space.
        seed: an integer, a sequence of integers or a numpy generator.

    Returns:
        Canonical encoded points.  Each is chosen greedily, so that it adds as much as possible.

    Example:
        >>> from regretless.space import Categorical, Float, Space
        >>> momentum = Float(0.0, 1.0).when("solver", "sgd")
        >>> space = Space({"solver": Categorical(["adam", "sgd"]), "momentum": momentum})
        >>> len(branch_points(space))
        2
    """
    rng = np.random.default_rng(seed)
    found = _covering(space, rng)
    choices = [j for j, levels in enumerate(space.levels) if levels is not None]
    choices = [j for j in choices if not space.ordered[j]]
    if len(choices) < 2:
        return found
    wanted = 2 * len(found)
    for _ in range(_ROUNDS):
        seen = {tuple(combination) for combination in found[:, choices].tolist()}
        others = _covering(space, rng)
        new = [x for x in others if tuple(x[choices].tolist()) not in seen]
        found = np.vstack([found, *new])[:wanted]
    return found


def _covering(space: Space, rng: np.random.Generator) -> Array:
    """Points in which each choice occurs, and each range that decides about another parameter."""
    branches = rng.permutation(space.branches)
    active, decides = space.active(branches), space.decides
    unseen: dict[int, set[float]] = {}
    for j, choices in enumerate(space.levels):
        if decides[j]:
            unseen[j] = set(branches[active[:, j], j].tolist())
        elif choices is not None and not space.ordered[j] and active[:, j].any():
            unseen[j] = set(choices.tolist())
    chosen: list[Array] = []
    while any(unseen.values()):
        gain = np.zeros(len(branches), dtype=int)
        for j, places in unseen.items():
            new = np.isin(branches[:, j], list(places)) if decides[j] else bool(places)
            gain += active[:, j] & new
        row = int(np.argmax(gain))
        point = branches[row].copy()
        for j, places in unseen.items():
            if places and active[row, j]:
                if not decides[j]:
                    point[j] = rng.choice(sorted(places))
                places.discard(float(point[j]))
        chosen.append(point)
    return space.repaired(space.settled(np.array(chosen).reshape(len(chosen), space.dim)))


def latin_hypercube(space: Space, n: int, seed: Seed = 0) -> Array:
    """n distinct points, with one in each of n equal slices of every column.

    On a small finite space, a draw may repeat a point.  The repeat is replaced by a point of the
    next draw, so that some slices may have no point or several.

    Args:
        space: the search space.
        n: the number of points.
        seed: an integer, a sequence of integers or a numpy generator.

    Returns:
        n canonical encoded points; all points of the space if it has no more than n.

    Raises:
        ConfigError: n is not an integer of at least 1.

    Example:
        >>> from regretless.space import Float, Space
        >>> points = latin_hypercube(Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)}), 5)
        >>> sorted((points[:, 1] * 5).astype(int).tolist())  # one in each fifth of the range
        [0, 1, 2, 3, 4]
    """
    whole("n", n, least=1)
    rng = np.random.default_rng(seed)
    if _exhausted(space, n):
        return rng.permutation(space.grid())
    chosen = np.empty((0, space.dim))
    for _ in range(_ROUNDS):
        slices = rng.permuted(np.tile(np.arange(n)[:, None], space.dim), axis=0)
        draw = _kept(space, (slices + rng.random((n, space.dim))) / n)
        chosen = _distinct(np.concatenate([chosen, draw]))[:n]
        if len(chosen) == n:
            break
    return _topped_up(space, chosen, n, rng)


def _most_even(n: int, dim: int) -> tuple[int, ...] | None:
    """The factors of n with the smallest sum, none more than twice another; None if impossible."""
    # The geometric mean of the factors lies between the smallest and the largest, which gives the
    # bounds of both.
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
    """The distinct rows, in the order of their first occurrence."""
    _, first = np.unique(points, axis=0, return_index=True)
    return points[np.sort(first)]


def _kept(space: Space, draws: Array) -> Array:
    """The points of uniform draws that keep the limits."""
    points = space.spread(draws)
    return points[space.keeps(points)] if space.where else points


def _exhausted(space: Space, n: int) -> bool:
    return space.size is not None and space.size <= n


def _topped_up(space: Space, chosen: Array, n: int, rng: np.random.Generator) -> Array:
    """Fill `chosen` up to n points with random other points of a finite space, or within limits."""
    if len(chosen) == n or (space.size is None and not space.where):
        return chosen
    if space.size is None or space.size > MAX_GRID_POINTS:
        return _distinct(np.concatenate([chosen, space.drawn(n - len(chosen), rng)]))
    shuffled = rng.permutation(space.grid())
    return _distinct(np.concatenate([chosen, shuffled]))[:n]


def _checked_levels(levels: Sequence[int]) -> tuple[int, ...]:
    for m in levels:
        whole("levels", m, least=1)
    if not len(levels):
        raise ConfigError("levels: need one per dimension, got none")
    return tuple(int(m) for m in levels)
