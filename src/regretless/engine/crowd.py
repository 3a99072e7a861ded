"""A decision with many followers, kept up with what is told and asked after it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from regretless.engine.batch import Shortlist
from regretless.engine.events import (
    Abandoned,
    Allocated,
    Baseline,
    Changed,
    Event,
    Extended,
    Jumped,
    Rejected,
    Reported,
    Retracted,
    Unobserved,
)
from regretless.engine.situation import Situation

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
OUTDATING: tuple[type[Event], ...] = (*SPOILERS, Reported)  # after these, a crowd can't be kept up
# There is a new search after so many times as many results as trials are pending or asked for.
OLDEST = 20


@dataclass(frozen=True, eq=False)
class Crowd:
    """What the followers of a decision are chosen in; see `Optimizer.propose_more`.

    Attributes:
        leader: the situation of the decision, whose search found the candidates.
        shortlist: the candidates, with all results and pending trials up to some moment.
        told: the number of results that the shortlist knows.
        seen: the number of events when it was begun.
        fits: the fit in force then, and the one that the leader is based on.
        is_stored: whether an event has the fit of the leader.
    """

    leader: Situation
    shortlist: Shortlist
    told: int
    seen: int
    fits: tuple[dict[str, Any] | None, dict[str, Any] | None]
    is_stored: bool

    @property
    def fit(self) -> dict[str, Any] | None:
        """The fit that the optimiser must have now."""
        return self.fits[1 if self.is_stored else 0]

    @property
    def since(self) -> int:
        """The number of results when the leader searched."""
        return len(self.leader.belief.told)
