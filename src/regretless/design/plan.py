"""How a run starts: which points, and how many of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import whole
from regretless.defaults import StartRules
from regretless.design import points as designs
from regretless.errors import ConfigError, SpaceError
from regretless.horizon import Horizon
from regretless.space import Scalar, Space

DESIGNS = ("auto", "sobol", "lhs", "grid")
_LARGE = 10**6  # a start for a larger budget would have more points than a model is fitted to


@dataclass(frozen=True, eq=False)
class Start:
    """The points to begin with, `size` of them, or up to `longest` while little can be seen.

    Fewer where a finite space has no more: what they are is seen when one is asked for, because
    Sobol's need scipy.stats, which takes longer to import than to replay a thousand trials.
    """

    space: Space
    horizon: Horizon  # as planned when the run was created
    design: str | list[dict[str, Scalar]]
    n0: int | None
    seed: int
    rules: StartRules

    @property
    def listed(self) -> bool:
        """Whether the user wrote the points down."""
        return not isinstance(self.design, str)

    @cached_property
    def size(self) -> int:
        if self._adapts and self.n0 is None:
            return min(self.longest, self._free + self.rules.beyond_dim)
        return self.longest

    @cached_property
    def longest(self) -> int:
        if not (self._adapts or self.design in ("sobol", "lhs")):
            return len(self.points)
        if self.n0 is not None:
            return self.n0
        per_dim, more = self.rules.longest
        few = per_dim * self._free + more  # enough to see every dimension
        if self._adapts:
            return self._affordable(few)
        # Too few where length-scales are short and the budget would have paid for more: O(sqrt N)
        # as in eq. initdesign.
        return self._affordable(max(few, math.ceil(math.sqrt(self._planned))))

    @cached_property
    def points(self) -> Array:
        space = self.space
        if not isinstance(self.design, str):
            listed = [space.encode(point) for point in self.design]
            return np.array(listed).reshape(len(listed), space.dim)
        if self.design == "lhs":
            return designs.latin_hypercube(space, self.longest, self.seed)
        if self._adapts and space.has_choices and self.rules.choices_first:
            return designs.choices_first(space, self.longest, self.seed)
        if self.design == "sobol" or self._adapts:
            return designs.sobol(space, self.longest, self.seed)
        return designs.grid(space, self._levels)

    @property
    def _free(self) -> int:
        """How many columns there are to vary; what is frozen asks for no points of its own."""
        return max(1, sum(self.space.varies))

    @property
    def _levels(self) -> list[int]:
        """Of the grid, per column."""
        if self.n0 is None:
            levels = designs.budget_levels(self._planned, self._free)
        else:
            levels = designs.grid_levels(self.n0, self._free)
        left = iter(levels)
        return [next(left) if varies else 1 for varies in self.space.varies]

    @property
    def _planned(self) -> int:
        return min(self.horizon.budget, _LARGE)

    def _affordable(self, size: int) -> int:
        return self.horizon.affordable(size, self.rules.budget_share)

    @cached_property
    def _adapts(self) -> bool:
        """Whether "auto" takes Sobol points, as many as it needs.

        Otherwise it takes a grid: of even coverage, which one or two numbers can still afford.
        """
        space = self.space
        if self.design != "auto":
            return False
        if self.n0 is not None or self._free > self.rules.grid_dims or space.has_choices:
            return True
        count = math.prod(self._levels)
        return not 1 < count <= self.horizon.budget // self.rules.budget_share


def checked_design(space: Space, design: object) -> str | list[dict[str, Scalar]]:
    """A name, or points in canonical values."""
    if isinstance(design, str) and design in DESIGNS:
        return design
    if isinstance(design, str | Mapping) or not isinstance(design, Iterable):
        names = ", ".join(DESIGNS)
        raise ConfigError(f"design: need {names} or a list of points, got {design!r}")
    try:
        return [space.validate(point) for point in design]
    except SpaceError as error:
        raise SpaceError(f"design: {error}") from None


def checked_n0(n0: object) -> int:
    return whole("n0", n0, least=1, most=_LARGE)
