"""The read-only methods of a study."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from regretless._internal.frames import dataframe_of
from regretless._internal.shown import shown
from regretless._internal.validate import whole
from regretless.engine import Direction, Optimizer, html_of
from regretless.errors import ConfigError
from regretless.policies import Policy
from regretless.results import Best, Landscape, Row, Trial
from regretless.space import Parameter, Scalar, Space
from regretless.studies.state import Snapshot, State

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.forecast import Forecast
    from regretless.studies.journal import Journal, StoredEvent

T = TypeVar("T")


class Reading(ABC):
    """The read-only methods of `Study`.  Each first reads what other processes wrote."""

    def __init__(self, journal: Journal, name: str, state: State) -> None:
        self.name = name
        self._journal = journal
        self._state = state
        # Held while the state changes and while the journal is used, so that no fork happens in the
        # middle of either.  Not held while a proposal is computed.
        self._lock = threading.RLock()

    @abstractmethod
    def _refreshed(self) -> State:
        """The state after the last event of the journal.  The caller holds the lock."""

    def _as_known(self) -> State:
        """The state without a look at the journal.  The caller holds the lock.

        It is for what is appended next: an append reads what others wrote, and refuses if need be.
        """
        return self._refreshed() if self._state.broken else self._state

    def _look(self, question: Callable[[Optimizer], T]) -> T:
        with self._lock:
            return question(self._refreshed().optimizer)

    @property
    def label(self) -> str:
        """The place of the journal, without user and password."""
        return self._journal.label

    @property
    def space(self) -> Space:
        """The search space, after the last `change_space`."""
        return self._look(lambda optimizer: optimizer.space)

    @property
    def direction(self) -> Direction:
        """The direction, "maximize" or "minimize"."""
        return self._state.optimizer.direction

    @property
    def metric(self) -> str | None:
        """What the results measure; None if that was not said."""
        return self._state.optimizer.metric

    @property
    def unit(self) -> str | None:
        """The unit of the results; None if that was not said."""
        return self._state.optimizer.unit

    @property
    def policy(self) -> Policy:
        """The policy."""
        return self._state.optimizer.policy

    @property
    def baseline(self) -> dict[str, Scalar] | None:
        """The setting that runs today, after the last `set_baseline`; None if it is not known."""
        return self._look(lambda optimizer: optimizer.baseline)

    @property
    def budget(self) -> int | None:
        """The total number of evaluations, after the last `extend`; None if there is no end."""
        return self._look(lambda optimizer: optimizer.budget)

    @property
    def horizon(self) -> int | None:
        """How many evaluations the run looks ahead at most; None for the whole budget."""
        return self._look(lambda optimizer: optimizer.horizon)

    @property
    def asked(self) -> int:
        """The number of trials that were asked for or adopted, without those that were rejected."""
        return self._look(lambda optimizer: optimizer.asked)

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; the horizon if there is no end."""
        return self._look(lambda optimizer: optimizer.remaining)

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return self._look(lambda optimizer: optimizer.trials)

    @property
    def pending(self) -> list[Trial]:
        """The trials that were neither told nor abandoned; see also `proposed`."""
        return self._look(lambda optimizer: optimizer.pending)

    @property
    def proposed(self) -> list[Trial]:
        """The trials that wait to be approved or rejected."""
        return self._look(lambda optimizer: optimizer.proposed)

    @property
    def archived(self) -> bool:
        """Whether the study is archived; see `Study.archive`."""
        with self._lock:
            return self._refreshed().archived

    @property
    def observations(self) -> int:
        """The number of results, those from `observe` included."""
        return self._look(lambda optimizer: optimizer.observations)

    @property
    def contexts(self) -> dict[str, Parameter] | None:
        """How the contexts are declared, by name; None if the study has none."""
        return self._state.optimizer.contexts

    def best(self, *, context: Mapping[str, Scalar] | None = None) -> Best:
        """The visited point with the best posterior mean; see `AskTell.best`."""
        return self._look(lambda optimizer: optimizer.best(context=context))

    def predict(
        self, params: Mapping[str, Scalar], *, context: Mapping[str, Scalar] | None = None
    ) -> tuple[float, float]:
        """The posterior mean and sd of f at a point; see `Optimizer.predict`."""
        return self._look(lambda optimizer: optimizer.predict(params, context=context))

    def landscape(
        self,
        points: Sequence[Mapping[str, Scalar]],
        *,
        context: Mapping[str, Scalar] | None = None,
    ) -> Landscape:
        """The numbers that the policy would compare at these points; see `Optimizer.landscape`."""
        return self._look(lambda optimizer: optimizer.landscape(points, context=context))

    def history(self) -> list[Row]:
        """The prior data and the trials, in order; see `Optimizer.history`."""
        return self._look(Optimizer.history)

    def to_dataframe(self) -> Any:
        """The history as a pandas DataFrame: a row for each trial and each result from before.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return dataframe_of(self.history())

    def forecast(
        self,
        *,
        draws: int = 32,
        over: Mapping[str, Scalar] | None = None,
        progress: Callable[[int, int], object] | None = None,
    ) -> Forecast:
        """What the rest of the run is expected to bring; see `forecast.forecast`.

        It takes seconds, and others may ask and tell meanwhile.
        """
        from regretless.forecast import forecast

        optimizer = self.snapshot().optimizer
        return forecast(optimizer, draws=draws, over=over, progress=progress)

    def _repr_html_(self) -> str:
        return self._look(lambda optimizer: html_of(optimizer, f"Study {self.name}"))

    def events(self, after: int = 0, limit: int | None = None) -> list[StoredEvent]:
        """The stored events.

        Args:
            after: return the events after this number.
            limit: return at most this many events; None for all.

        Raises:
            ConfigError: `after` is larger than the number of the last event.
        """
        with self._lock:
            last = self._refreshed().last.seq
            first = whole("after", after, least=0)
            if first > last:
                raise ConfigError(f"after: the last event is {last}, got {shown(after)}")
            most = None if limit is None else min(whole("limit", limit, least=1), last)
            return self._journal.read(self.name, first, most)

    def snapshot(self) -> Snapshot:
        """A copy of the state at this moment, for several questions about the same state."""
        with self._lock:
            return self._refreshed().snapshot()

    def take_posterior_of(self, view: Snapshot) -> None:
        """Keep the posterior that a snapshot has built, so that the next snapshot has it.

        Call it after the questions about a snapshot of this study.  It changes no answer.

        Args:
            view: the snapshot.
        """
        with self._lock:
            self._state.optimizer._take_posterior_of(view.optimizer)

    def refresh(self) -> int:
        """Read what other processes wrote, and return the number of the last event.

        All verbs do this first.  Call it to find out whether something is new.
        """
        with self._lock:
            return self._refreshed().last.seq
