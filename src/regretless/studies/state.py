"""The state of a study: what its events add up to."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING

from regretless.engine import (
    Abandoned,
    Asked,
    Created,
    Event,
    Extended,
    Observed,
    Optimizer,
    Told,
    read,
)
from regretless.errors import RegretlessError, UnknownStudyError
from regretless.studies.settings import policy_of_ones_own

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A study as it was after event `seq`; nothing that is done to it reaches the study."""

    name: str
    seq: int
    time: datetime  # of that event
    optimizer: Optimizer  # a copy
    asked_at: tuple[datetime, ...]  # by the number of the trial


def event_of(stored: StoredEvent) -> Event:
    """The event in a line of the log; a result without a time of its own has that of the line."""
    event = read(stored.kind, stored.version, stored.body)
    if isinstance(event, Told | Observed) and event.time is None:
        return replace(event, time=stored.time)
    return event


@dataclass
class State:
    """What the events up to `last` add up to.

    An event is folded in place. If that is interrupted, by Ctrl-C for example, the state stays
    `broken`: it must not be used any more, and `rebuilt` makes a new one from the journal.
    """

    journal: Journal
    created: Created
    optimizer: Optimizer
    last: StoredEvent
    asked_at: list[datetime] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)  # the trial of each ask
    changes: dict[str, Event] = field(default_factory=dict)  # by key, what can't be done twice
    broken: bool = False

    @classmethod
    def of(cls, journal: Journal, name: str, policy: object = None) -> State:
        """Of all events of a study; `policy` is needed where the study has one without a name."""
        events = journal.read(name)
        if not events:
            there = ", ".join(info.name for info in journal.studies()) or "none"
            raise UnknownStudyError(
                f"{journal.label}: there is no study {name!r} (studies: {there});"
                " to create it, give its space and budget"
            )
        state = _begun(journal, events[0], policy)
        for stored in events[1:]:
            state.fold(stored)
        return state

    def rebuilt(self) -> State:
        """The state after all events of the journal, for one that is broken."""
        state = State.of(self.journal, self.last.study, self.optimizer.policy)
        state.optimizer._records.hand_out_as(self.optimizer._records)
        return state

    def read(self, stored: StoredEvent) -> Event:
        """The event of a line; one that makes no sense is damage, and the error says where."""
        try:
            return event_of(stored)
        except RegretlessError as error:
            raise self.journal.corrupt(stored.study, stored.seq, str(error)) from error

    def fold(self, stored: StoredEvent) -> Event:
        """Take in the event that comes after `last`."""
        event = self.read(stored)
        self.broken = True
        try:
            self.optimizer.apply(event)
        except RegretlessError as error:
            raise self.journal.corrupt(stored.study, stored.seq, str(error)) from error
        if isinstance(event, Asked):
            self.by_key[stored.key] = len(self.asked_at)
            self.asked_at.append(stored.time)
        elif isinstance(event, Abandoned | Extended):
            self.changes[stored.key] = event
        self.last = stored
        self.broken = False
        return event

    def copy(self) -> State:
        return replace(
            self,
            optimizer=self.optimizer.copy(),
            asked_at=list(self.asked_at),
            by_key=dict(self.by_key),
            changes=dict(self.changes),
        )

    def snapshot(self) -> Snapshot:
        last, optimizer = self.last, self.optimizer.copy()
        return Snapshot(last.study, last.seq, last.time, optimizer, tuple(self.asked_at))


def _begun(journal: Journal, first: StoredEvent, policy: object) -> State:
    """The state after the first event."""
    name = first.study
    if first.kind != "created":
        raise journal.corrupt(name, 1, f"a study begins with 'created', not {first.kind!r}")
    try:
        created = event_of(first)
    except RegretlessError as error:
        raise journal.corrupt(name, 1, str(error)) from error
    assert isinstance(created, Created)
    own = policy_of_ones_own(name, created, policy)
    try:
        optimizer = Optimizer.from_spec(created.settings, policy=own)
    except RegretlessError as error:
        raise journal.corrupt(name, 1, str(error)) from error
    return State(journal, created, optimizer, first)
