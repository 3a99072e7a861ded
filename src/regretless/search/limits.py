"""The limits of a space as constraints of a search."""

from __future__ import annotations

from collections.abc import Callable, Set
from dataclasses import dataclass

import numpy as np

from regretless._internal.arrays import Array
from regretless.policies import Constraint, Predicted
from regretless.space import Limit, Space


@dataclass(frozen=True, eq=False)
class WithinLimit(Constraint):
    """A point keeps a limit of the space.

    Args:
        limit: the limit.
        given: encoded points that somebody gave, and that keep the limit.  A suggestion keeps a
            small distance from the edge; these may be on it.
    """

    limit: Limit
    given: Set[bytes] = frozenset()

    @property
    def name(self) -> str:  # type: ignore[override]
        return f"limit {self.limit}"

    def slack(self, at: Predicted) -> Array:
        slack = self.limit.slack(at.x)
        if self.given:
            for row in np.flatnonzero(slack < 0.0):
                if at.x[row].tobytes() in self.given:
                    slack[row] = 0.0
        return slack

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 0.0, 0.0, self.limit.slack_and_slope(at.x)[1] if self.limit.smooth else None


def constraints_of(
    space: Space, given: Callable[[Limit], Set[bytes]] | None = None
) -> tuple[Constraint, ...]:
    """One constraint for each limit of the space; `given` has points that may be on its edge."""
    if not space.where:
        return ()
    return tuple(
        WithinLimit(limit, given(limit) if given else frozenset()) for limit in space.limits
    )
