"""A named Optimizer over a journal: its state is a fold of the events, and many may share it.

Every verb looks at the journal first, makes the event that the Optimizer would make of the present
state, and appends it. What others wrote in the meantime is looked at once more under the database's
lock; where it matters (the same trial number was given away, the result is there already), the
event is made anew. A proposal is computed without any such lock: results that arrive while it is
being computed come before it in the journal, for everybody, so that all folds are alike to the bit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from math import inf
from numbers import Real
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar, overload

from regretless._internal.validate import whole
from regretless.engine import Direction, Optimizer
from regretless.errors import (
    BudgetError,
    ConfigError,
    RegretlessError,
    TrialError,
    UnknownStudyError,
)
from regretless.model import Model
from regretless.policies import Policy
from regretless.results import Best, Decision, Landscape, Row, Trial, number_of
from regretless.space import Scalar, Space
from regretless.studies import forks
from regretless.studies.settings import alike, differences, policy_of_ones_own, through_json

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Event, Journal

__all__ = ["Snapshot", "Study"]

T = TypeVar("T")

# What others may not have written between the look at the journal and the append.
_WATCH = {
    "asked": {"asked", "extended"},
    "extended": {"asked", "extended"},
    "abandoned": {"told", "abandoned"},
    "told": set[str](),
    "observed": set[str](),
}


class _Overtaken(Exception):
    """Somebody else wrote what matters in the meantime: look again."""


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A study as it was after event `seq`; nothing that is done to it reaches the study."""

    name: str
    seq: int
    time: datetime  # of that event
    optimizer: Optimizer  # a copy
    asked_at: tuple[datetime, ...]  # by the number of the trial


@dataclass
class _State:
    """The fold of the events up to `last`."""

    optimizer: Optimizer
    last: Event
    asked_at: list[datetime] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)  # the trial of each ask
    changes: dict[str, Event] = field(default_factory=dict)  # by key, what can't be done twice

    def apply(self, event: Event) -> None:
        self.optimizer.apply({"kind": event.kind, **event.body})
        if event.kind == "asked":
            self.by_key[event.key] = len(self.asked_at)
            self.asked_at.append(event.time)
        elif event.kind in ("abandoned", "extended"):
            self.changes[event.key] = event
        self.last = event

    def copy(self) -> _State:
        return replace(
            self,
            optimizer=self.optimizer.copy(),
            asked_at=list(self.asked_at),
            by_key=dict(self.by_key),
            changes=dict(self.changes),
        )


class Study:
    """An Optimizer that lasts: the same verbs, for any number of threads, processes and machines.

    Use `Study.open`. Each verb and property answers for what everybody has done so far; for several
    answers about the same moment take a `snapshot`.
    """

    def __init__(self, journal: Journal, name: str, state: _State) -> None:
        """Use `Study.open`."""
        self.name = name
        self._journal = journal
        self._owns_journal = True
        self._state = state
        # Of the state, and around each use of the journal, so that a fork finds neither in the
        # middle of something; never held while a proposal is computed.
        self._lock = threading.RLock()
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
            body = through_json(fresh.spec())
            journal.append(name, "created", body, key="created", expected_seq=1)
        return cls._resume(journal, name, given)

    @classmethod
    def _resume(cls, journal: Journal, name: str, given: dict[str, Any]) -> Self:
        events = journal.read(name)
        if not events:
            there = ", ".join(info.name for info in journal.studies()) or "none"
            raise UnknownStudyError(
                f"{journal.label}: there is no study {name!r} (studies: {there});"
                " to create it, give its space and budget"
            )
        first, *others = events
        if first.kind != "created":
            raise journal.corrupt(name, 1, f"a study begins with 'created', not {first.kind!r}")
        policy = policy_of_ones_own(first, given.get("policy"))
        try:
            optimizer = Optimizer.from_spec(first.body, policy=policy)
        except RegretlessError as error:
            raise journal.corrupt(name, 1, str(error)) from error
        study = cls(journal, name, _State(optimizer, first))
        study._fold(study._state, others)
        if different := differences(first.body, study._state.optimizer, given):
            raise ConfigError(
                f"{journal.label}: study {name!r} was created with other settings: "
                + "; ".join(different)
            )
        return study

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
        self._key(_ask_of_a_batch(whole("n", n, least=1) - 1), key)  # too long? Before any is asked
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
        key: str | None = None,
    ) -> None:
        """The result of a trial; on disk when this returns.

        Told again with the same value nothing happens; another value is an error. A `key` is only
        written down: a tell can be repeated without one.
        """

        def verb(optimizer: Optimizer) -> None:
            optimizer.tell(trial, value, sem=sem, count=count)

        self._record(verb, note={} if key is None else {"key": _checked_key(key)})

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        key: str | None = None,
    ) -> None:
        """A result that was known before; it costs no budget. With the same `key`, only once."""

        def verb(optimizer: Optimizer) -> None:
            optimizer.observe(params, value, sem=sem, count=count)

        self._record(verb, key=self._key("observe", key))

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

        def same(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
            return alike(one["params"], other["params"])  # the second would have a later number

        event = self._record(
            lambda optimizer: optimizer.adopt(params, decision),
            key=self._key("adopt", key),
            same=same,
        )
        assert event is not None
        number: int = event.body["number"]
        return self._look(lambda optimizer: optimizer._handed_out(number))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> None:
        """This result will never come: stop counting on it. Should it come, tell it.

        Repeated with the same `key` nothing happens, whatever became of the trial.
        """
        self._record(
            lambda optimizer: optimizer.abandon(trial),
            key=self._key("abandon", key),
            change={"number": number_of(trial)},
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

        def verb(optimizer: Optimizer) -> None:
            before = optimizer.budget
            optimizer.extend(budget)
            if key is not None and optimizer.budget == before:  # when repeated, it is found
                optimizer.apply({"kind": "extended", "budget": before})

        self._record(verb, key=self._key("extend", key), change={"budget": budget})

    def __iter__(self) -> Iterator[Trial]:
        """Ask until the budget is spent, however many others ask at the same time."""
        return until_spent(lambda: self.ask(within_budget=True))

    # -- what is known -----------------------------------------------------------------------------

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

    def events(self, after: int = 0, limit: int | None = None) -> list[Event]:
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
            state = self._refreshed().copy()
        last, asked_at = state.last, tuple(state.asked_at)
        return Snapshot(self.name, last.seq, last.time, state.optimizer, asked_at)

    def refresh(self) -> int:
        """Take in what others wrote; returns the number of the last event.

        The verbs do so by themselves: this is for somebody who waits for news.
        """
        with self._lock:
            return self._refreshed().last.seq

    # -- reading and writing -----------------------------------------------------------------------

    def _look(self, question: Callable[[Optimizer], T]) -> T:
        with self._lock:
            return question(self._refreshed().optimizer)

    def _refreshed(self) -> _State:
        """The state after the last event. Hold the lock."""
        new = self._journal.read(self.name, after=self._state.last)
        if new:
            state = self._state.copy()  # whole, also where Ctrl-C comes in between
            self._fold(state, new)
            self._state = state
        return self._state

    def _fold(self, state: _State, events: Sequence[Event]) -> None:
        for event in events:
            try:
                state.apply(event)
            except RegretlessError as error:
                raise self._journal.corrupt(self.name, event.seq, str(error)) from error

    def _key(self, verb: str, key: str | None) -> str | None:
        """The journal's key of a call that its caller gave a key to."""
        if key is None:
            return None
        name = f"{verb} {_checked_key(key)}"
        self._journal.check_key(name)
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
                with suppress(_Overtaken):
                    event = self._append(state, proposal, key)
                    number: int = event.body["number"]
                    return self._adopt(state, event)._handed_out(number)

    def _record(
        self,
        verb: Callable[[Optimizer], object],
        *,
        key: str | None = None,
        note: Mapping[str, Any] | None = None,
        same: Callable[[Mapping[str, Any], Mapping[str, Any]], bool] = alike,
        change: Mapping[str, Any] | None = None,
    ) -> Event | None:
        """Append the event that the verb makes of the present state, if it makes any.

        Under a key that was used before there is one already; it has to be the `same`. Where the
        verb itself may not be repeated, because others went on from there, it is this `change`.
        """
        stored: Event | None = None
        while True:
            with self._lock:
                state = self._refreshed().copy()
            if key in state.changes and state.changes[key].body == change:
                return state.changes[key]
            twin = state.optimizer.copy()
            verb(twin)
            made = twin.events[len(state.optimizer.events) :]
            if not made:
                return None
            if stored is not None:
                raise TrialError(f"the key {key!r} was used before: {stored.kind} {stored.body}")
            event = {**made[-1], **(note or {})}
            with suppress(_Overtaken):
                stored = self._append(state, event, key or _key_of(event))
                self._adopt(state, stored)
                if same(stored.body, _body(event)):
                    return stored

    def _append(self, state: _State, event: dict[str, Any], key: str | None) -> Event:
        kind: str = event["kind"]

        def check(new: list[Event]) -> None:
            if not _WATCH[kind].isdisjoint(other.kind for other in new):
                raise _Overtaken

        with self._lock:
            return self._journal.append_if(
                self.name, kind, _body(event), check, after=state.last, key=key
            )

    def _adopt(self, state: _State, event: Event) -> Optimizer:
        """Go on from this state, with the event and what slipped in before it."""
        with self._lock:
            if event.seq > state.last.seq + 1:
                self._fold(state, self._journal.read(self.name, after=state.last))
            elif event.seq == state.last.seq + 1:
                self._fold(state, [event])
            if state.last.seq >= self._state.last.seq:
                self._state = state
            return self._state.optimizer


def until_spent(ask: Callable[[], Trial]) -> Iterator[Trial]:
    """Trials, as long as there is budget for one."""
    while True:
        try:
            trial = ask()
        except BudgetError:
            return
        yield trial


def _body(event: Mapping[str, Any]) -> dict[str, Any]:
    """The journal has the kind in a column of its own."""
    return {name: value for name, value in event.items() if name != "kind"}


def _ask_of_a_batch(i: int) -> str:
    return "ask" if i == 0 else f"ask+{i}"


def _checked_key(key: object) -> str:
    if not isinstance(key, str) or not key:  # such as of a variable that was never set
        raise ConfigError(f"key: need a text that is not empty, got {key!r}")
    return key


def _key_of(event: Mapping[str, Any]) -> str | None:
    """A trial is told once and abandoned once: the first one wins, whoever it was."""
    closing = event["kind"] in ("told", "abandoned")
    return f"{event['kind']} {event['number']}" if closing else None
