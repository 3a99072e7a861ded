"""The verbs of a study in a request path: tables that split the traffic, and reported totals."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from regretless._internal.validate import check_flag, checked_time
from regretless.engine import (
    Allocated,
    Event,
    Increment,
    Optimizer,
    Records,
    Reported,
    Split,
    increment_of,
    write,
)
from regretless.errors import RegretlessError, TrialError
from regretless.results import Allocation, Trial, number_of
from regretless.studies.reading import Reading
from regretless.studies.state import State

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import StoredEvent

# What is added, the key of the call, and when it was measured.
Report = tuple[tuple[Increment, ...], str | None, datetime | None]


class Overtaken(Exception):
    """Another process wrote a conflicting event first.  Create the event again."""


class Serving(Reading):
    """`allocate` and `report` of a `Study`."""

    _asking: Any  # the lock of those who compute proposals

    @abstractmethod
    def _append(self, after: StoredEvent, event: Event, key: str | None) -> StoredEvent: ...

    @abstractmethod
    def _check(self, event: Event) -> Callable[[list[StoredEvent]], None]: ...

    @abstractmethod
    def _take_in(self, stored: StoredEvent) -> Event: ...

    @abstractmethod
    def _key(self, verb: str, key: str | None) -> str | None: ...

    @abstractmethod
    def _record(
        self, make: Callable[[Records], Event | None], key: str | None = None
    ) -> Event | None: ...

    @abstractmethod
    def _check_not_archived(self, state: State) -> None: ...

    def allocate(
        self,
        arms: int = 8,
        *,
        ttl: float = 600.0,
        delay: float = 0.0,
        end_early: float = 0.05,
        renew: bool = False,
        time: datetime | None = None,
    ) -> Allocation:
        """Split the traffic among settings, by a table that many clients can hold.

        The rows of the table are the baseline, the best setting so far, and settings to explore.
        Most of the traffic gets the best one.  Each row has a trial; `report` its results.

        The same table is returned until half of `ttl` has passed and results have come in.  Then a
        new one is made.  A setting that stays keeps its row and its slots.

        Args:
            arms: the largest number of rows.  Each table uses so many evaluations of the budget.
            ttl: for how many seconds a client may use the table after it was handed out.
            delay: how many seconds after its table a trial may still get most of its results.  It
                is not judged before.
            end_early: the largest probability with which a row is ended although it is as good as
                the main row; 0 to end none.
            renew: whether to make a new table in any case, for example because a period is over.
            time: the time of the table; None for now.

        Returns:
            The table.

        Raises:
            ArchivedError: the study is archived.
            ConfigError: a setting is out of range, or the study has settings that do not go with
                it: contexts, drift, a loss budget, guardrails, limited steps, approval.
            DataError: `time` is not a time.

        Example:
            table = study.allocate(arms=8, ttl=600)
            for arm in table.rows:
                print(arm.share, arm.trial.params)
        """
        check_flag("renew", renew)
        given, now = Split.checked(arms, ttl, delay, end_early), checked_time(time)
        with self._asking, self._journal.turn(self.name):
            while True:
                with self._lock:
                    state = self._refreshed().copy()
                self._check_not_archived(state)
                moment = now or datetime.now(UTC)
                if not renew and not _is_due(state.optimizer, moment):
                    return _handed_out(state.optimizer)
                proposal = state.optimizer.propose_table(given, moment)
                with suppress(Overtaken), self._lock:
                    event = self._take_in(self._append(state.last, proposal, None))
                    assert isinstance(event, Allocated)
                    return _handed_out(self._state.optimizer)

    def current_table(
        self,
        arms: int = 8,
        *,
        ttl: float = 600.0,
        delay: float = 0.0,
        end_early: float = 0.05,
    ) -> Allocation | None:
        """What `allocate` would return at once; None if it would make a new table.

        Parameters and errors are those of `allocate`.  For services; users do not need it.
        """
        Split.checked(arms, ttl, delay, end_early)
        with self._lock:
            state = self._refreshed()
            self._check_not_archived(state)
            is_due = _is_due(state.optimizer, datetime.now(UTC))
            return None if is_due else _handed_out(state.optimizer)

    @property
    def allocation(self) -> Allocation | None:
        """How the traffic is split now; None if `allocate` was never called."""
        return self._look(lambda optimizer: optimizer.allocation)

    def report(
        self,
        trial: Trial | int,
        *,
        count: float = 1,
        sum: float | None = None,
        sum_squares: float | None = None,
        value: float | None = None,
        sem: float | None = None,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """Add results to the totals of a trial; see `AskTell.report`.

        When the call returns, they are on disk.  A call that is repeated with the same `key` has no
        effect.  Repeated with other numbers, it raises TrialError.
        """
        numbers = {"sum": sum, "sum_squares": sum_squares, "value": value, "sem": sem}
        self._look(lambda optimizer: optimizer._records.find(trial))
        increment = increment_of(number_of(trial), count=count, **numbers)
        (problem,) = self.report_all([((increment,), key, checked_time(time))])
        if problem is not None:
            raise problem

    def report_all(self, reports: Sequence[Report]) -> list[RegretlessError | None]:
        """Store several reports at once, for front ends: the disk is waited for once.

        Args:
            reports: the reports, each with its trial and its key.

        Returns:
            For each report, what is wrong with it; None if it is on disk.
        """
        fresh = False  # the append reads what others wrote; before it that is rarely needed
        while True:
            with self._lock:
                state = self._refreshed() if fresh else self._as_known()
                made = [self._reported(state, *report) for report in reports]
                if fresh or not any(isinstance(each, RegretlessError) for each in made):
                    with suppress(Overtaken):
                        problems = self._write_reports(state, reports, made)
                        break
            fresh = True
        self._end_rows()
        return problems

    def _reported(
        self,
        state: State,
        increments: tuple[Increment, ...],
        key: str | None,
        time: datetime | None,
    ) -> Reported | RegretlessError:
        """The event of a report, or what is wrong with it."""
        try:
            self._key("report", key)
            return state.optimizer._records.reporting(increments, time)
        except RegretlessError as error:
            return error

    def _write_reports(
        self, state: State, reports: Sequence[Report], made: Sequence[Reported | RegretlessError]
    ) -> list[RegretlessError | None]:
        """Append the events and fold them; returns what is wrong with each report."""
        entries, increments = [], list[Increment]()
        for (_, key, _), event in zip(reports, made, strict=True):
            if isinstance(event, Reported):
                entries.append((*write(event), self._key("report", key)))
                increments += event.increments
        check = self._check(Reported(tuple(increments)))
        there = iter(self._journal.append_all(self.name, entries, check, after=state.last))
        problems: list[RegretlessError | None] = []
        for (_, key, _), event in zip(reports, made, strict=True):
            if isinstance(event, RegretlessError):
                problems.append(event)
                continue
            stored = self._take_in(next(there))
            if isinstance(stored, Reported) and stored.increments == event.increments:
                problems.append(None)
            else:
                problems.append(TrialError(f"the key {key!r} was used for another report"))
        return problems

    def _end_rows(self) -> None:
        """End the rows of the table that are clearly worse, see `allocate`."""
        with self._lock:
            # What was just written is in the state, so most of the time nothing has to be read.
            while self._state.optimizer.ending() is not None:
                self._record(lambda records: self._state.optimizer.ending())


def _is_due(optimizer: Optimizer, now: datetime) -> bool:
    """Whether there is no table, or it is old and has results."""
    table, totals = optimizer._records.table, optimizer._records.totals
    return table is None or (table.is_due(now) and any(n in totals for n in table.trials))


def _handed_out(optimizer: Optimizer) -> Allocation:
    """The table in use.  Whoever gets it may use it for `ttl` seconds from now on."""
    table = optimizer.allocation
    assert table is not None
    return replace(table, valid_for=table.ttl)
