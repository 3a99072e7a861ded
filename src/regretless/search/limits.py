"""The limits of a space as constraints of a search."""

from __future__ import annotations

from dataclasses import dataclass

from regretless._internal.arrays import Array
from regretless.policies import Constraint, Predicted
from regretless.space import Limit, Space


@dataclass(frozen=True, eq=False)
class WithinLimit(Constraint):
    """A point keeps a limit of the space."""

    limit: Limit

    def slack(self, at: Predicted) -> Array:
        return self.limit.slack(at.x)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 0.0, 0.0, self.limit.slack_and_slope(at.x)[1] if self.limit.smooth else None


def constraints_of(space: Space) -> tuple[Constraint, ...]:
    """One constraint for each limit of the space."""
    return tuple(WithinLimit(limit) for limit in space.limits) if space.where else ()
