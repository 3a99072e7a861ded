"""What was worked out before anybody asked: proposals, candidates, and fits.

- A *proposal* is handed out to the next who asks, if nothing at all has happened since it was made.
  So it is what the plain library would choose.
- When many ask all the time, there is no moment at which nothing has happened.  They are *in a
  hurry*: their trials are chosen among candidates that a search has found a moment ago
  (`engine/crowd.py`).  Each of them knows all results.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from regretless.engine import SPOILERS, Asked, Crowd, Optimizer


class Stock:
    """What is ready for the next who ask."""

    def __init__(self) -> None:
        self.crowd: Crowd | None = None  # for those in a hurry
        self._ready: list[Asked] = []  # in the order of their numbers
        self._exact = 0  # the first so many are what the plain library would choose
        self._seen = 0  # events that the optimiser had applied when they were made
        self._maker: Optimizer | None = None
        self._fit: tuple[int, dict[str, Any]] | None = None  # events applied then, and the fit

    @property
    def maker(self) -> Optimizer | None:
        """Who made the first proposal and has its belief; None if that was handed out."""
        return self._maker

    def put(self, proposals: Sequence[Asked], maker: Optimizer, exact: int) -> None:
        """Replace the proposals by those of `maker`, which has applied none of them.

        The first `exact` of them are what the plain library would choose.
        """
        self._ready, self._exact = list(proposals), exact
        self._seen, self._maker = len(maker._log), maker

    def valid(self, now: Optimizer, *, made_for_them: bool = False) -> list[Asked]:
        """The proposals that may be handed out, given the optimiser as it is now.

        With `made_for_them`, they were made for those who ask: results that were told meanwhile do
        not matter, and a proposal need not be what the plain library would choose.
        """
        if not self._ready or self._ready[0].number != len(now._records.trials):
            return []
        # What was asked since is from this stock, because the number is right.
        new = [event for event in now._log[self._seen :] if not isinstance(event, Asked)]
        if made_for_them:
            spoilt = any(isinstance(event, SPOILERS) for event in new)
            return [] if spoilt else self._ready
        return [] if new else self._ready[: self._exact]

    def used(self, count: int) -> None:
        """Take out the first proposals, which were handed out."""
        self._ready, self._exact = self._ready[count:], max(0, self._exact - count)
        if count:
            self._maker = None

    def has_candidates(self, now: Optimizer, fit: dict[str, Any] | None, most: int) -> bool:
        """Whether candidates were found, with this fit or that of now, at most so long ago.

        `most` is the number of results since then.
        """
        crowd = self.crowd
        if crowd is None or crowd.fit != now._belief.source:
            return False
        right = fit is None or crowd.fits[1] == fit
        return right and now.observations - crowd.since <= most

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
