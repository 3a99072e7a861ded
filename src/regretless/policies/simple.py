"""Policies without a model of their own: what everything else has to beat."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regretless._internal.arrays import Array
from regretless._internal.validate import check_share
from regretless.policies.base import Policy, PolicyInput


@dataclass(frozen=True)
class Random(Policy):
    """Uniform over the space: what everything else has to beat."""

    name: ClassVar[str] = "random"

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        return inputs.draw()


@dataclass(frozen=True)
class ExploreThenCommit(Policy):
    """Random for a first share of the budget, then always the tried point of the best mean.

    That is the best posterior mean at that time: what is served goes on telling about itself.
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
