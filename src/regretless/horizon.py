"""The horizon of a run: the number of future evaluations that benefit from an improvement."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Horizon(NamedTuple):
    """How many evaluations benefit from an improvement that is found now.

    That is the number of evaluations which remain of a budget.  The policies, the initial design,
    the rule for merging points and the text of a decision all take the number from here.

    Args:
        budget: the total number of evaluations.
        asked: n, the number of evaluations that were asked for, including pending ones.
        share: the share of later evaluations in which the gain counts; below 1 if it counts only
            in circumstances like the present ones.

    Example:
        >>> Horizon(budget=100, asked=90).steps
        10
        >>> Horizon(budget=100, asked=100).steps
        1
        >>> Horizon(budget=101, share=0.25).steps
        26.0
    """

    budget: int
    asked: int = 0
    share: float = 1.0

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return max(0, self.budget - self.asked)

    @property
    def is_spent(self) -> bool:
        """Whether the whole budget was asked for."""
        return self.remaining == 0

    @property
    def steps(self) -> float:
        """m, the number of evaluations that a gain pays for, including the next one; at least 1."""
        count = max(1, self.remaining)
        return count if self.share == 1.0 else 1.0 + self.share * (count - 1)

    def within(self, payback: float) -> float:
        """1 + payback (m - 1): the next evaluation, and a share `payback` of those after it."""
        return 1.0 + payback * (self.steps - 1)

    def affordable(self, points: int, share: int) -> int:
        """`points`, but at most budget // share, and at least 1."""
        return max(1, min(points, self.budget // share))

    def to_json(self) -> dict[str, Any]:
        """The part that a study stores: the budget."""
        return {"budget": self.budget}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Horizon:
        """The horizon that `to_json` wrote, before any evaluation is asked for."""
        return cls(data["budget"])
