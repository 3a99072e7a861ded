"""The horizon of a run: the number of future evaluations that benefit from an improvement."""

from __future__ import annotations

from collections.abc import Mapping
from math import expm1, log
from typing import Any, NamedTuple

from regretless._internal.shown import shown
from regretless._internal.validate import whole
from regretless.errors import ConfigError

MAX_WHOLE = 10**100  # a budget or a seed; what is larger may be more than a double holds


class Horizon(NamedTuple):
    """How many evaluations benefit from an improvement that is found now.

    This is the only place that knows.  The policies, the initial design, the rule for merging
    points and the text of a decision all take the number, `steps`, from here.  With n evaluations
    ahead it is

        1 + share (keep + keep^2 + ... + keep^(n - 1)):

    the next evaluation, and what a gain is still worth in each of those after it.  n is what
    remains of the budget, and at most `ahead`.

    Args:
        budget: the total number of evaluations; None if the run has no end.
        asked: the number of evaluations that were asked for, including pending ones.
        ahead: how many evaluations a run looks ahead at most; None for the whole budget.
        keep: the share of a gain that one more evaluation leaves; below 1 in a system that changes.
        share: the share of later evaluations in which the gain counts; below 1 if it counts only
            in circumstances like the present ones.

    Example:
        >>> Horizon(budget=100, asked=90).steps
        10
        >>> Horizon(budget=100, asked=100).steps
        1
        >>> Horizon(budget=None, asked=5000, ahead=50).steps
        50
        >>> round(Horizon(budget=None, ahead=50, keep=0.5).steps, 9)
        2.0
        >>> Horizon(budget=101, share=0.25).steps
        26.0
    """

    budget: int | None
    asked: int = 0
    ahead: int | None = None
    keep: float = 1.0
    share: float = 1.0

    @classmethod
    def checked(cls, budget: object, horizon: object) -> Horizon:
        """The horizon that a user gave as `budget` and `horizon`.

        Raises:
            ConfigError: both are None, or one is not a whole number of at least 1.
        """
        if budget is None and horizon is None:
            raise ConfigError(
                "budget: need a number of trials, or a `horizon` for a run without an end"
            )
        total = None if budget is None else whole("budget", budget, least=1, most=MAX_WHOLE)
        ahead = None if horizon is None else whole("horizon", horizon, least=1, most=MAX_WHOLE)
        return cls(total, ahead=ahead)

    @property
    def is_endless(self) -> bool:
        """Whether the run has no budget, so that it never ends."""
        return self.budget is None

    @property
    def planned(self) -> int:
        """The number of evaluations to plan for: the budget, and at most `ahead`."""
        counts = [n for n in (self.budget, self.ahead) if n is not None]
        if not counts:
            raise ConfigError(f"horizon: need a budget or a horizon, got {shown(self)}")
        return min(counts)

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for; `ahead` if the run has no end."""
        return self.planned if self.budget is None else max(0, self.budget - self.asked)

    @property
    def is_spent(self) -> bool:
        """Whether the whole budget was asked for."""
        return self.remaining == 0

    @property
    def steps(self) -> float:
        """m, the number of evaluations that a gain pays for, including the next one; at least 1."""
        count = max(1, self.remaining if self.ahead is None else min(self.remaining, self.ahead))
        if self.keep == self.share == 1.0:
            return count
        if self.keep >= 1.0:
            total: float = count
        elif self.keep <= 0.0:
            total = 1.0
        else:
            total = expm1(count * log(self.keep)) / (self.keep - 1.0)
        return 1.0 + self.share * max(0.0, total - 1.0)

    def within(self, payback: float) -> float:
        """1 + payback (m - 1): the next evaluation, and a share `payback` of those after it."""
        return 1.0 + payback * (self.steps - 1)

    def affordable(self, points: int, share: int) -> int:
        """`points`, but at most the planned evaluations // share, and at least 1."""
        return max(1, min(points, self.planned // share))

    def __str__(self) -> str:
        """How many evaluations were asked for, of how many."""
        if self.budget is None:
            return f"{self.asked}, without an end ({self.planned} ahead)"
        return f"{self.asked} of {self.budget}"

    def to_json(self) -> dict[str, Any]:
        """The part that a study stores: the budget and the horizon that the user gave."""
        ahead = {} if self.ahead is None else {"horizon": self.ahead}
        return {"budget": self.budget, **ahead}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Horizon:
        """The horizon that `to_json` wrote, before any evaluation is asked for."""
        return cls(data["budget"], ahead=data.get("horizon"))
