"""Simple policies as baselines: random search, and explore then commit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regretless._internal.arrays import Array
from regretless._internal.validate import check_share
from regretless.policies.base import Policy, PolicyInput


@dataclass(frozen=True)
class Random(Policy):
    """Random search: points drawn uniformly from the space, as a baseline.

    Args:
        merge: has no effect here.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.Random())
        >>> 0.0 <= optimizer.ask().params["x"] <= 1.0
        True
    """

    name: ClassVar[str] = "random"

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        return inputs.draw()


@dataclass(frozen=True)
class ExploreThenCommit(Policy):
    """Random points for a share of the budget, and then the visited point with the best mean.

    That is the best posterior mean at the time of each decision, so the point may change when new
    results are told.

    Args:
        explore: the share of the budget for random points, from 0 to 1.
        merge: has no effect here.

    Raises:
        ConfigError: `explore` is not from 0 to 1.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.ExploreThenCommit(explore=0.3))
        >>> optimizer.policy.explore
        0.3
    """

    name: ClassVar[str] = "explore-then-commit"
    explore: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("explore", self.explore)

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        horizon = inputs.horizon
        if horizon.asked < self.explore * (horizon.asked + horizon.steps):
            return inputs.draw()
        return inputs.incumbent.x
