"""What can be known of a study."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeVar

from regretless._internal.validate import whole
from regretless.engine import Direction, Optimizer
from regretless.errors import ConfigError
from regretless.policies import Policy
from regretless.results import Best, Landscape, Row, Trial
from regretless.space import Scalar, Space
from regretless.studies.state import Snapshot, State

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent

T = TypeVar("T")


class Reading(ABC):
    """The part of `Study` that changes nothing: each answer is for what everybody has done."""

    def __init__(self, journal: Journal, name: str, state: State) -> None:
        self.name = name
        self._journal = journal
        self._state = state
        # Held while the state changes and while the journal is used, so that a fork never happens
        # in the middle of either. Never held while a proposal is computed.
        self._lock = threading.RLock()

    @abstractmethod
    def _refreshed(self) -> State:
        """The state after the last event. Hold the lock."""

    def _look(self, question: Callable[[Optimizer], T]) -> T:
        with self._lock:
            return question(self._refreshed().optimizer)

    @property
    def label(self) -> str:
        """Where the journal is, without user or password."""
        return self._journal.label

    @property
    def space(self) -> Space:
        return self._state.optimizer.space

    @property
    def direction(self) -> Direction:
        return self._state.optimizer.direction

    @property
    def policy(self) -> Policy:
        return self._state.optimizer.policy

    @property
    def budget(self) -> int:
        return self._look(lambda optimizer: optimizer.budget)

    @property
    def asked(self) -> int:
        return self._look(lambda optimizer: optimizer.asked)

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return self._look(lambda optimizer: optimizer.remaining)

    @property
    def trials(self) -> list[Trial]:
        return self._look(lambda optimizer: optimizer.trials)

    @property
    def pending(self) -> list[Trial]:
        """Asked, and neither told nor abandoned."""
        return self._look(lambda optimizer: optimizer.pending)

    @property
    def observations(self) -> int:
        return self._look(lambda optimizer: optimizer.observations)

    def best(self) -> Best:
        """The visited point with the best posterior mean, with a 95 % interval."""
        return self._look(Optimizer.best)

    def predict(self, params: Mapping[str, Scalar]) -> tuple[float, float]:
        """Posterior mean and sd of f at a point."""
        return self._look(lambda optimizer: optimizer.predict(params))

    def landscape(self, points: Sequence[Mapping[str, Scalar]]) -> Landscape:
        """What the policy would weigh at these points, were it to decide now, by the last fit."""
        return self._look(lambda optimizer: optimizer.landscape(points))

    def history(self) -> list[Row]:
        """Prior data and trials; `[row.flat() for row in ...]` is what pandas.DataFrame takes."""
        return self._look(Optimizer.history)

    def events(self, after: int = 0, limit: int | None = None) -> list[StoredEvent]:
        """The log itself: every event after number `after`, or the first `limit` of them."""
        with self._lock:
            last = self._refreshed().last.seq
            if whole("after", after, least=0) > last:
                raise ConfigError(f"after: the last event is {last}, got {after}")
            most = None if limit is None else whole("limit", limit, least=1)
            return self._journal.read(self.name, after, most)

    def snapshot(self) -> Snapshot:
        """Everything as of one moment, to be read at leisure."""
        with self._lock:
            return self._refreshed().snapshot()

    def refresh(self) -> int:
        """Take in what others wrote; returns the number of the last event.

        The verbs do so by themselves: this is for somebody who waits for news.
        """
        with self._lock:
            return self._refreshed().last.seq
