"""How long a gain lasts: the number of evaluations that it pays for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Horizon(NamedTuple):
    """The one answer to "how many evaluations does a gain pay for?".

    Today that is what remains of a budget.  The policies, the start, the rule for merging points
    and the sentences of a decision ask here and nowhere else.

    >>> Horizon(budget=100, asked=99).steps
    1
    """

    budget: int  # evaluations in all
    asked: int = 0  # n: how many were asked for, pending ones included

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return max(0, self.budget - self.asked)

    @property
    def is_spent(self) -> bool:
        return self.remaining == 0

    @property
    def steps(self) -> int:
        """m: the evaluations that a gain made now pays for, this one included; 1 at the least."""
        return max(1, self.remaining)

    def within(self, payback: float) -> float:
        """This evaluation and a share `payback` of those after it."""
        return 1.0 + payback * (self.steps - 1)

    def affordable(self, points: int, share: int) -> int:
        """So many points, but at most one in `share` of all evaluations, and one at the least."""
        return max(1, min(points, self.budget // share))

    def to_json(self) -> dict[str, Any]:
        """What a study stores of it."""
        return {"budget": self.budget}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Horizon:
        """The horizon of a study's settings, before anything was asked."""
        return cls(data["budget"])
