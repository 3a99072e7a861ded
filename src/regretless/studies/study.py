"""A named Optimizer over a journal: its state is a fold of the events, and many may share it.

Every verb reads the news from the journal, makes its event from the present state, and appends it.
The append checks under the database's lock what others wrote in between. Where it matters (the
trial number was given away, the result is there already), the event is made again from the new
state. A proposal is computed on a copy and without any lock. Results that arrive meanwhile come
before it in the journal, for everybody, so that all folds agree to the bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from math import inf
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from regretless._internal.validate import check_name, checked_key, whole
from regretless.engine import (
    OBJECTIVE,
    Abandoned,
    Asked,
    Created,
    Direction,
    Event,
    Extended,
    Observed,
    Optimizer,
    Outcome,
    Records,
    Told,
    write,
)
from regretless.errors import BudgetError, ConfigError, TrialError
from regretless.model import Model
from regretless.policies import Policy
from regretless.results import Decision, Trial, number_of
from regretless.space import Scalar, Space
from regretless.studies import forks
from regretless.studies.reading import Reading
from regretless.studies.settings import alike, differences, through_json
from regretless.studies.state import Snapshot, State

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent

__all__ = ["Snapshot", "Study", "until_spent"]

# An event is made again if others wrote one of these between the read and the append.
_RIVALS: dict[type[Event], tuple[type[Event], ...]] = {
    Asked: (Asked, Extended),
    Extended: (Asked, Extended),
    Abandoned: (Told, Abandoned),
    Told: (),
    Observed: (),
}


class _Overtaken(Exception):
    """Somebody else wrote an event in between that this one does not go with: make it again."""


class Study(Reading):
    """An Optimizer that lasts: the same verbs, for any number of threads, processes and machines.

    Use `Study.open`. Each verb and property answers for what everybody has done so far; for several
    answers about the same moment take a `snapshot`.
    """

    def __init__(self, journal: Journal, name: str, state: State) -> None:
        """Use `Study.open`."""
        super().__init__(journal, name, state)
        self._owns_journal = True
        self._asking = threading.Lock()  # one proposal at a time
        forks.follow(self)

    @classmethod
    def open(
        cls,
        url: str | Path | Journal,
        name: str,
        *,
        space: Space | None = None,
        budget: int | None = None,
        seed: int | None = None,
        policy: str | Policy | None = None,
        direction: Direction | None = None,
        design: str | Sequence[Mapping[str, Scalar]] | None = None,
        n0: int | None = None,
        model: Model | None = None,
        read_only: bool = False,
    ) -> Self:
        """Create a study, or go on with the one that is there.

        `url` is a path (SQLite) or a database (`postgresql://user@host/name`), or an open Journal
        for several studies over the same connections; the settings are those of `Optimizer`.
        Creating needs `space` and `budget`. For a study that is there, what is given must be what
        it was created with (as for the budget: or extended to).
        """
        from regretless.studies.journal import Journal

        forks.mind()
        settings: dict[str, Any] = {
            "space": space,
            "budget": budget,
            "seed": seed,
            "policy": policy,
            "direction": direction,
            "design": design,
            "n0": n0,
            "model": model,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        complete = space is not None and budget is not None and not read_only
        fresh = Optimizer(**given) if complete else None  # nothing is created with wrong settings
        if isinstance(url, Journal):
            study = cls._create_or_resume(url, name, fresh, given)
            study._owns_journal = False
            return study
        journal = Journal.open(url, create=complete, read_only=read_only)
        try:
            return cls._create_or_resume(journal, name, fresh, given)
        except BaseException:
            journal.close()
            raise

    @classmethod
    def _create_or_resume(
        cls, journal: Journal, name: str, fresh: Optimizer | None, given: dict[str, Any]
    ) -> Self:
        if fresh is not None and not journal.last_seq(name):
            kind, version, body = write(Created(through_json(fresh.spec())))
            journal.append(name, kind, body, version=version, key="created", expected_seq=1)
        state = State.of(journal, name, given.get("policy"))
        if different := differences(state.created, state.optimizer, given):
            raise ConfigError(
                f"{journal.label}: study {name!r} was created with other settings: "
                + "; ".join(different)
            )
        return cls(journal, name, state)

    def close(self) -> None:
        """Let go of the database; calling it again is fine."""
        if self._owns_journal:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        known = self._state.optimizer
        return f"Study({self.name!r} in {self._journal.label}, {known!r})"

    # -- the verbs ---------------------------------------------------------------------------------

    @overload
    def ask(self, *, key: str | None = None, within_budget: bool = False) -> Trial: ...
    @overload
    def ask(
        self, n: int, *, key: str | None = None, within_budget: bool = False
    ) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, key: str | None = None, within_budget: bool = False
    ) -> Trial | list[Trial]:
        """What to try next; a list of n for a batch.

        Past the budget it serves the best point. `within_budget` it does not: a batch is then as
        long as the budget allows, and BudgetError means that nothing is left. Asked again with the
        same `key`, it returns the same trial: for a caller who missed the answer.
        """
        if n is None:
            return self._ask(self._key("ask", key), within_budget)
        trials: list[Trial] = []
        self._key(
            _ask_of_a_batch(whole("n", n, least=1) - 1), key
        )  # a key may be too long: refuse it first
        for i in range(n):
            try:
                trials.append(self._ask(self._key(_ask_of_a_batch(i), key), within_budget))
            except BudgetError:
                if not trials:
                    raise
                break
        return trials

    def tell(
        self,
        trial: Trial | int,
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """The result of a trial; on disk when this returns.

        `time` is when it was measured, with a time zone; without it, now. Told again with the same
        value nothing happens; another value is an error. A `key` is only written down: a tell can
        be repeated without one.
        """
        outcomes, note = {OBJECTIVE: Outcome(value, sem, count)}, _checked(key)
        self._record(lambda records: records.telling(trial, outcomes, time, note))

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        key: str | None = None,
    ) -> None:
        """A result that was known before; it costs no budget. With the same `key`, only once."""
        outcomes = {OBJECTIVE: Outcome(value, sem, count)}
        self._record(
            lambda records: records.observing(params, outcomes, time), self._key("observe", key)
        )

    def adopt(
        self,
        params: Mapping[str, Scalar],
        decision: Decision | None = None,
        *,
        key: str | None = None,
    ) -> Trial:
        """A trial that was chosen elsewhere; it costs budget and is waited for like any other.

        With the same `key`, only once.
        """
        event = self._record(
            lambda records: records.adopting(params, decision), self._key("adopt", key)
        )
        assert isinstance(event, Asked)
        number = event.number
        return self._look(lambda optimizer: optimizer._records.handed_out(number))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> None:
        """This result will never come: stop counting on it. Should it come, tell it.

        Repeated with the same `key` nothing happens, whatever became of the trial.
        """
        self._record(
            lambda records: records.abandoning(trial),
            self._key("abandon", key),
            change=Abandoned(number_of(trial)),
        )

    def abandon_older_than(self, age: timedelta | float) -> list[Trial]:
        """Abandon what has been pending for longer than `age` (in seconds): its worker is dead.

        The age is counted on the clocks of those who asked and who ask this.
        """
        if isinstance(age, timedelta):
            well = age >= timedelta(0)
        else:
            well = isinstance(age, Real) and 0 <= age < inf
        if not well:
            raise ConfigError(f"age: need seconds or a timedelta, at least 0, got {age!r}")
        with self._lock:
            state = self._refreshed()
            try:
                age = age if isinstance(age, timedelta) else timedelta(seconds=age)
                since = datetime.now(UTC) - age
            except OverflowError:  # longer than there are dates
                return []
            old = [t for t in state.optimizer.pending if state.asked_at[t.number] < since]
        abandoned = []
        for trial in old:
            with suppress(TrialError):  # told just now
                self.abandon(trial)
                abandoned.append(trial)
        return abandoned

    def extend(self, budget: int, *, key: str | None = None) -> None:
        """A new total budget, which may not be less than what was asked already.

        Repeated with the same `key` nothing happens, whatever became of the budget.
        """

        self._record(
            # With a key also where nothing changes: when repeated, it is found.
            lambda records: records.extending(budget, always=key is not None),
            self._key("extend", key),
            change=Extended(budget),
        )

    def __iter__(self) -> Iterator[Trial]:
        """Ask until the budget is spent, however many others ask at the same time."""
        return until_spent(lambda: self.ask(within_budget=True))

    # -- reading and writing -----------------------------------------------------------------------

    def _refreshed(self) -> State:
        """The state after the last event. Hold the lock."""
        state = self._state
        new = self._journal.read(self.name, after=state.last)
        if state.broken:
            self._state = state.rebuilt()
            return self._state
        for stored in new:
            state.fold(stored)
        return state

    def _key(self, verb: str, key: str | None) -> str | None:
        """The journal's key of a call that its caller gave a key to."""
        if key is None:
            return None
        name = f"{verb} {checked_key(key)}"
        check_name("key", name)
        return name

    def _ask(self, key: str | None, within_budget: bool) -> Trial:
        with self._asking, self._journal.turn(self.name):
            while True:
                with self._lock:
                    state = self._refreshed().copy()
                if key in state.by_key:
                    return state.optimizer.trials[state.by_key[key]]
                if within_budget and not state.optimizer.remaining:
                    raise BudgetError(f"the budget of {state.optimizer.budget} is spent")
                proposal = state.optimizer.propose()
                with suppress(_Overtaken), self._lock:
                    stored = self._append(state.last, proposal, key)
                    self._state.optimizer._take_proposal_of(state.optimizer)
                    event = self._take_in(stored)
                    assert isinstance(event, Asked)
                    return self._state.optimizer._records.handed_out(event.number)

    def _record(
        self,
        make: Callable[[Records], Event | None],
        key: str | None = None,
        *,
        change: Event | None = None,
    ) -> Event | None:
        """Append the event that is made from the present state, if there is any to make.

        Under a key that was used before there is one already, and it has to be the same. Where the
        verb cannot be repeated, because others went on from there, this `change` is looked for.
        """
        stored: StoredEvent | None = None
        with self._lock:
            while True:
                state = self._refreshed()
                if key is not None and change is not None and state.changes.get(key) == change:
                    return change
                event = make(state.optimizer._records)
                if event is None:
                    return None
                if stored is not None:
                    before = f"{stored.kind} {stored.body}"
                    raise TrialError(f"the key {key!r} was used before: {before}")
                with suppress(_Overtaken):
                    stored = self._append(state.last, event, key or _key_of(event))
                    there = self._take_in(stored)
                    if _same(there, event):
                        return there

    def _append(self, after: StoredEvent, event: Event, key: str | None) -> StoredEvent:
        """Write the event, unless others wrote after `after` what it does not go with."""
        rivals, state = _RIVALS[type(event)], self._state

        def check(new: list[StoredEvent]) -> None:
            for other in new:
                if isinstance(state.read(other), rivals):
                    raise _Overtaken

        kind, version, body = write(event)
        return self._journal.append_if(
            self.name, kind, body, check, after=after, version=version, key=key
        )

    def _take_in(self, stored: StoredEvent) -> Event:
        """Fold an event that was appended, and what slipped in before it. Hold the lock."""
        state = self._state
        if stored.seq == state.last.seq + 1 and not state.broken:
            return state.fold(stored)
        if stored.seq > state.last.seq or state.broken:
            state = self._refreshed()
        return state.read(stored)


def until_spent(ask: Callable[[], Trial]) -> Iterator[Trial]:
    """Trials, as long as there is budget for one."""
    while True:
        try:
            trial = ask()
        except BudgetError:
            return
        yield trial


def _ask_of_a_batch(i: int) -> str:
    return "ask" if i == 0 else f"ask+{i}"


def _checked(key: str | None) -> str | None:
    return None if key is None else checked_key(key)


def _key_of(event: Event) -> str | None:
    """A trial is told once and abandoned once: the first one wins, whoever it was."""
    if isinstance(event, Told):
        return f"told {event.number}"
    return f"abandoned {event.number}" if isinstance(event, Abandoned) else None


def _same(there: Event, made: Event) -> bool:
    """Whether what is stored under the key of an event says the same, at whatever time."""
    if isinstance(there, Told) and isinstance(made, Told):
        return there.outcomes == made.outcomes
    if isinstance(there, Observed) and isinstance(made, Observed):
        return there.outcomes == made.outcomes and alike(there.params, made.params)
    if isinstance(there, Asked) and isinstance(made, Asked):
        return alike(there.params, made.params)  # the second would have a later number
    return there == made
