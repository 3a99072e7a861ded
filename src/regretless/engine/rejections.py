"""The neighbourhoods of rejected points, in which nothing is proposed.

A person who rejects a point means the points beside it, too.  So "near" is measured in shares of
the parameters' ranges, as a person sees them, and does not depend on the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.policies import FEASIBLE, Constraint, Predicted
from regretless.space import Space

REACH = 0.1  # root mean square of the differences, in shares of the ranges


@dataclass(frozen=True, eq=False)
class Rejections(Constraint):
    """Keeps away from rejected points.

    A point is near a rejected one if it has the same choices, and if the differences of its other
    parameters, in shares of their ranges, have a root mean square below REACH.  On a logarithmic
    scale, the range is that of the logarithm.  Values of a parameter that are at least REACH apart,
    such as those of `Int(0, 5)`, are only near themselves in a space with one parameter.

    With the mean square q of the differences, in units of REACH^2, the slack is 1 - exp(1 - q) for
    the nearest point: smooth, 0 at the edge, and at most 1.

    A setting that was rejected in one context is rejected in all.

    Args:
        space: the search space.
        points: the rejected points, of shape (k, d), without the columns of contexts.
    """

    space: Space
    points: Array
    name = "rejected"  # what a decision calls the constraint

    def near(self, x: Array) -> NDArray[np.bool_]:
        """Whether each row of x is near a rejected point."""
        return np.asarray(self._slack(x) < FEASIBLE)

    def slack(self, at: Predicted) -> Array:
        return self._slack(at.x)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        q = self._mean_square(at.x)
        nearest = q.argmin(axis=1)
        least = q[np.arange(len(q)), nearest]
        apart = (at.x[:, : self.space.dim] - self.points[nearest]) * self._weights
        slope = 2.0 * np.exp(1.0 - least)[:, None] * apart
        beside = at.x.shape[1] - self.space.dim  # the columns of contexts
        return 0.0, 0.0, np.pad(slope, ((0, 0), (0, beside))) if beside else slope

    def _slack(self, x: Array) -> Array:
        return np.asarray(1.0 - np.exp(1.0 - self._mean_square(x).min(axis=1)))

    def _mean_square(self, x: Array) -> Array:
        """q of each row of x (rows) and each rejected point (columns); infinite for other choices.

        Where no parameter has an order, it is 0 or infinite.
        """
        x = x[:, : self.space.dim]
        apart = x[:, None, :] - self.points[None, :, :]
        q = np.asarray(apart**2 @ self._weights)
        q[(apart[:, :, ~self._ordered] != 0.0).any(axis=2)] = np.inf
        if self.space.conditional:  # a parameter that exists only at one of the two is a choice
            exists = self.space.active(x)[:, None] != self.space.active(self.points)[None]
            q[exists.any(axis=2)] = np.inf
        return q

    @cached_property
    def _ordered(self) -> NDArray[np.bool_]:
        """For each column, whether its values have an order, frozen or not."""
        return np.array([each.plain.has_order for each in self.space.columns])

    @cached_property
    def _weights(self) -> Array:
        """For each column, its weight in q: 0 for choices and for columns with one value."""
        varies = np.array([each.plain.scale.count != 1 for each in self.space.columns])
        counts = self._ordered & varies
        return np.asarray(counts / (max(1, int(counts.sum())) * REACH**2))
