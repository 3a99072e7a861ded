"""The comparison: a limit on the sum of confidence bounds, as CLUCB (Kazerouni et al. 2017) has it.

Each trial may have lost the upper bound of f at the baseline minus the lower bound of f at its
point.  A point is allowed if the sum of these numbers stays within the budget.  The bounds hold at
each point by itself, with the probability 97.5 %: theirs hold for all points and times at once, and
are wider.  What bounds at different points have in common does not cancel out.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import regretless as rl
from regretless.model import Belief, Posterior, moments_at
from regretless.policies import Constraint, Predicted

Array = NDArray[np.float64]
Z = 1.96


@dataclass(frozen=True, eq=False)
class SummedBounds(Constraint):
    """The room that the budget leaves for one more trial."""

    baseline: Array
    upper: float  # of f at the baseline
    room: float
    omega: float
    unit: float
    name: str = "summed bounds"

    def slack(self, at: Predicted) -> Array:
        lower = at.mu - Z * self.omega * at.sigma
        slack = (self.room - (self.upper - lower)) / self.unit
        return np.where((at.x == self.baseline).all(axis=1), np.maximum(slack, 0.0), slack)

    def slopes(self, at: Predicted) -> tuple[Any, Any, None]:
        return 1.0, -Z, None


class Summed(rl.Optimizer):
    """An optimiser that keeps to a loss budget by summed confidence bounds."""

    summed_budget = np.inf

    @property
    def _is_limited(self) -> bool:
        return True

    def _limits(self, belief: Belief) -> tuple[Constraint, ...]:
        assert belief.posterior is not None
        assert belief.fitted is not None
        posterior: Posterior = belief.posterior
        points, weights = self._records.total_loss()
        mu, sigma = moments_at(posterior, points)
        s = posterior.omega * sigma
        upper = float(mu[0] + Z * s[0])
        others = weights[1:]  # -1 for each trial away from the baseline
        lost = float(-others @ (upper - (mu[1:] - Z * s[1:])))
        room = self.summed_budget / belief.fitted.scaling.scale - lost
        return (SummedBounds(points[0], upper, room, posterior.omega, posterior.omega),)
