"""Proposals that were worked out before anybody asked for them.

A proposal is valid as long as it has the number of the next trial, and nothing happened that an ask
has to know of (`SPOILERS`).  Results that were told since are another matter, see `Age`.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import Enum
from typing import Any

from regretless.engine import (
    Abandoned,
    Allocated,
    Asked,
    Baseline,
    Changed,
    Event,
    Extended,
    Jumped,
    Observed,
    Optimizer,
    Rejected,
    Reported,
    Retracted,
    Told,
    Unobserved,
)

# A proposal is made again after one of these.  It must not be near a point that was rejected
# meanwhile, and its fit must not have seen a result that was retracted.  Without an abandoned
# trial, another setting runs, from which steps are limited.
SPOILERS: tuple[type[Event], ...] = (
    Abandoned,
    Allocated,
    Extended,
    Jumped,
    Baseline,
    Rejected,
    Retracted,
    Unobserved,
    Changed,
)


class Age(Enum):
    """How old a proposal may be when it is handed out."""

    NEW = "nothing has happened since it was made: it is what the plain library would choose"
    # With p + 1 workers that wait for each other, each trial is chosen without the results of p
    # others.  A proposal that is asked for while p trials are pending may lack as many results
    # that were told since, besides those of the p pending trials, which nobody has.
    # docs/results/batches.md says what that costs.
    PENDING = "it lacks at most as many results as there are other trials pending"
    HALF = "it lacks at most half as many"
    ANY = "it was made for those who ask: results that were told meanwhile don't matter"


class Stock:
    """The proposals that are ready, in the order of their numbers; and a fit that is ready."""

    def __init__(self) -> None:
        self._ready: list[Asked] = []
        self._exact = 0  # the first so many are what the plain library would choose
        self._seen = 0  # events that the optimiser had applied when they were made
        self._maker: Optimizer | None = None
        self._fit: tuple[int, dict[str, Any]] | None = None  # events applied then, and the fit

    def __len__(self) -> int:
        return len(self._ready)

    @property
    def maker(self) -> Optimizer | None:
        """Who made the first proposal and has its belief; None if that was handed out."""
        return self._maker

    def put(self, proposals: Sequence[Asked], maker: Optimizer, exact: int) -> None:
        """Replace the stock by what `maker` has proposed, of which it has applied nothing.

        The first `exact` proposals are what the plain library would choose.
        """
        self._ready, self._exact = list(proposals), exact
        self._seen, self._maker = len(maker._log), maker

    def valid(self, now: Optimizer, age: Age) -> list[Asked]:
        """The proposals that may be handed out, given the optimiser as it is now."""
        if not self._ready or self._ready[0].number != len(now._records.trials):
            return []
        # What was asked since is from this stock, because the number is right.
        new = [event for event in now._log[self._seen :] if not isinstance(event, Asked)]
        if any(isinstance(event, SPOILERS) for event in new):
            return []
        if age is Age.ANY:
            return self._ready
        pending = len(now._records.waiting) + len(now._records.proposed)
        if age is Age.NEW or not pending:
            return [] if new else self._ready[: self._exact]
        results = sum(isinstance(event, Told | Observed | Reported) for event in new)
        most = pending if age is Age.PENDING else pending // 2
        fresh = not new or (now.has_followers and results <= most)
        return self._ready if fresh else []

    def used(self, count: int) -> None:
        """Take out the first proposals, which were handed out."""
        self._ready, self._exact = self._ready[count:], max(0, self._exact - count)
        if count:
            self._maker = None

    def put_fit(self, fit: dict[str, Any], maker: Optimizer) -> None:
        """Keep a fit of the results that `maker` has."""
        self._fit = (len(maker._log), fit)

    def fit_for(self, now: Optimizer) -> dict[str, Any] | None:
        """The fit, if nothing has happened that it has to know of and there is no later one."""
        if self._fit is None:
            return None
        seen, fit = self._fit
        for event in now._log[seen:]:
            if isinstance(event, SPOILERS) or (isinstance(event, Asked) and event.fit is not None):
                self._fit = None
                return None
        return fit
