"""The initial design of a run: its points and their number, for `Optimizer(design=..., n0=...)`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import is_iterable, whole
from regretless.defaults import StartRules
from regretless.design import points as designs
from regretless.errors import ConfigError, SpaceError
from regretless.horizon import Horizon
from regretless.space import Scalar, Space, has_structure

DESIGNS = ("auto", "sobol", "lhs", "grid")
_LARGE = 10**6  # the largest n0, and the largest budget that a design is planned for


@dataclass(frozen=True, eq=False)
class Start:
    """The initial design of a run.

    It has `size` points.  A run with large noise goes on to `longest` points (see
    `StartRules.blind_noise`), and so does one without any result (see `from_middle`).  A finite
    space may have fewer points than that.

    The points are computed when they are first needed, because Sobol points need scipy.stats, which
    takes longer to import than a replay of a thousand trials.

    Args:
        space: the search space.
        horizon: the budget and the horizon of the run when it was created.
        design: "auto", "sobol", "lhs" or "grid", or a list of points.
        n0: the number of points; None if the design chooses it.
        seed: the seed of random designs.
        rules: the constants of "auto".

    Example:
        >>> from regretless.space import Float, Space
        >>> space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)})
        >>> rules = StartRules()
        >>> start = Start(space, Horizon(budget=100), design="grid", n0=4, seed=0, rules=rules)
        >>> start.points.tolist()
        [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
        >>> start.size
        4
    """

    space: Space
    horizon: Horizon
    design: str | list[dict[str, Scalar]]
    n0: int | None
    seed: int
    rules: StartRules

    @property
    def listed(self) -> bool:
        """Whether the user gave the points as a list."""
        return not isinstance(self.design, str)

    @property
    def from_middle(self) -> bool:
        """Whether the run begins in the middle.

        It tries each choice once there, mirrored pairs, or points within the limits of the space.

        While no result is known, as with several workers, the run goes on to `longest` points.
        """
        wanted = self.n0 is None and self.rules.pairs is not None
        return self._is_central or (wanted and self._adapts and not has_structure(self.space))

    @property
    def is_own_grid(self) -> bool:
        """Whether the points are a grid that the library chose."""
        return self.design == "auto" and self.n0 is None and not self._adapts

    @cached_property
    def size(self) -> int:
        """The number of points, unless the run has to go on to `longest`."""
        if self._is_central:
            return min(self.longest, self.rules.within_limits or 1)
        if self.from_middle and self.space.conditional:
            return min(self.longest, self._branches)
        if self.from_middle:
            choices = (p for p in self.space.columns if not p.has_order)
            most = max((p.scale.count or 1 for p in choices), default=1)
            pairs = 0 if self.space.has_choices else self.rules.pairs or 0
            return min(self.longest, max(most, 1 + 2 * pairs))
        if self._adapts and self.n0 is None:
            few = self._counted + self.rules.beyond_dim
            if self.space.conditional:  # the points in the middle of each branch say more
                few = max(self._counted // 2 + self.rules.beyond_dim, self._branches)
            return min(self.longest, max(few, self._least))
        return self.longest

    @cached_property
    def longest(self) -> int:
        """The number of points if the noise is large."""
        if not (self._adapts or self.design in ("sobol", "lhs")):
            return len(self.points)
        if self.n0 is not None:
            return self.n0
        per_dim, more = self.rules.longest
        # To see an effect of every parameter, as long as they are not too many.
        few = max(per_dim * self._counted + more, self._least, self._branches)
        if self._adapts:
            return self._affordable(few)
        # These are too few if length-scales are short.  O(sqrt N) points, as in eq. initdesign, use
        # more of a large budget.
        return self._affordable(max(few, math.ceil(math.sqrt(self._planned))))

    @cached_property
    def points(self) -> Array:
        """The canonical encoded points, in the order in which they are tried."""
        points = self._points()
        if has_structure(self.space):  # values that are only drawn are forgotten after a while
            for x in points:
                self.space.encode(self.space.decode(x))
        return points

    def _points(self) -> Array:
        space = self.space
        if not isinstance(self.design, str):
            listed = [space.encode(point) for point in self.design]
            return np.array(listed).reshape(len(listed), space.dim)
        if self._adapts and space.conditional:
            return designs.branches_first(space, self.longest, self.seed)
        if self._is_central:
            return self._followed(designs.central(space, self.size, self.seed))
        if self.from_middle and not space.has_choices:
            return self._followed(space.repaired(designs.mirrored(space, self.size, self.seed)))
        if self.design == "lhs":
            return designs.latin_hypercube(space, self.longest, self.seed)
        if self._adapts and space.has_choices and self.rules.choices_first:
            return designs.choices_first(space, self.longest, self.seed)
        if self.design == "sobol" or self._adapts:
            return designs.sobol(space, self.longest, self.seed)
        return designs.grid(space, self._levels)

    @property
    def _is_central(self) -> bool:
        """Whether the run begins in the middle of what the limits of the space allow."""
        space, wanted = self.space, self.n0 is None and self.rules.within_limits is not None
        special = space.conditional or space.has_choices or has_structure(space)
        return wanted and bool(space.where) and self._adapts and not special

    def _followed(self, first: Array) -> Array:
        """The first points, and then Sobol points as far as the run needs more."""
        others = designs.sobol(self.space, self.longest, self.seed)
        new = (others[:, None, :] != first).any(axis=2).all(axis=1)
        return np.vstack([first, others[new]])

    @property
    def _least(self) -> int:
        return self.rules.structured_points if has_structure(self.space) else 0

    @cached_property
    def _free(self) -> int:
        """The number of columns with more than one value that exist at once, at least 1."""
        if self.space.conditional:
            here = self.space.active(self.space.branches) & np.array(self.space.varies)
            return max(1, int(here.sum(axis=1).max()))
        return max(1, sum(self.space.varies))

    @property
    def _counted(self) -> int:
        """How many of these columns count for the number of points, see `most_dims`."""
        most = self.rules.most_dims if self._adapts else None
        return self._free if most is None else min(self._free, most)

    @cached_property
    def _branches(self) -> int:
        """How many points it takes to see each branch of a conditional space; otherwise 1."""
        if not self.space.conditional:
            return 1
        return max(1, len(designs.branch_points(self.space, self.seed)))

    @property
    def _levels(self) -> list[int]:
        """The number of levels of the grid, for each column."""
        if self.n0 is None:
            levels = designs.budget_levels(self._planned, self._free)
        else:
            levels = designs.grid_levels(self.n0, self._free)
        left = iter(levels)
        return [next(left, 1) if varies else 1 for varies in self.space.varies]

    @property
    def _planned(self) -> int:
        return min(self.horizon.planned, _LARGE)

    def _affordable(self, size: int) -> int:
        return self.horizon.affordable(size, self.rules.budget_share)

    @cached_property
    def _adapts(self) -> bool:
        """Whether the design is "auto" and takes no grid.

        With few numeric parameters (see `StartRules.grid_dims`) and enough budget, "auto" takes a
        grid, because it covers the space more evenly.
        """
        space = self.space
        if self.design != "auto":
            return False
        if space.conditional or space.where:
            return True
        chosen = space.has_choices or has_structure(space)
        if self.n0 is not None or self._free not in self.rules.grid_dims or chosen:
            return True
        count = math.prod(self._levels)
        return not 1 < count <= self.horizon.planned // self.rules.budget_share


def farthest(points: Array, tried: Sequence[Array]) -> int:
    """The row of the point farthest from all that were tried; the most central one at first.

    Example:
        >>> farthest(np.array([[0.1], [0.6], [0.9]]), tried=[])
        1
        >>> farthest(np.array([[0.1], [0.9]]), tried=[np.array([0.6])])
        0
    """
    if not len(tried):
        return int(np.argmin(((points - 0.5) ** 2).sum(axis=1)))
    apart = ((points[:, None] - np.array(tried)[None]) ** 2).sum(axis=2)
    return int(np.argmax(apart.min(axis=1)))


def checked_design(space: Space, design: object) -> str | list[dict[str, Scalar]]:
    """Check the `design` that a user gave.

    Args:
        space: the search space.
        design: "auto", "sobol", "lhs" or "grid", or a list of points.

    Returns:
        The name, or the points with validated values.

    Raises:
        ConfigError: it is neither a known name nor a list.
        SpaceError: a point is not in the space.

    Example:
        >>> from regretless.space import Int, Space
        >>> checked_design(Space({"visits": Int(1, 12)}), [{"visits": 3.0}])
        [{'visits': 3}]
    """
    if isinstance(design, str) and design in DESIGNS:
        return design
    if isinstance(design, str | Mapping) or not is_iterable(design):
        names = ", ".join(DESIGNS)
        raise ConfigError(f"design: need {names} or a list of points, got {shown(design)}")
    try:
        return [space.validate(point) for point in design]
    except SpaceError as error:
        raise SpaceError(f"design: {error}") from None


def checked_n0(n0: object) -> int:
    """Check the number of points of an initial design.

    Args:
        n0: the number that a user gave.

    Returns:
        The number as an int.

    Raises:
        ConfigError: it is not a whole number from 1 to a million.

    Example:
        >>> checked_n0(12)
        12
    """
    return whole("n0", n0, least=1, most=_LARGE)
