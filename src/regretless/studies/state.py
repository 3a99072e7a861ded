"""The state of a study after its events."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from regretless._internal.shown import shown
from regretless.engine import (
    Abandoned,
    Allocated,
    Approved,
    Archived,
    Asked,
    Baseline,
    Changed,
    Created,
    Event,
    Extended,
    Observed,
    OfStudy,
    Optimizer,
    Reconsidered,
    Rejected,
    Renamed,
    Retracted,
    Unarchived,
    read,
)
from regretless.errors import ConfigError, RegretlessError, StorageError, UnknownStudyError
from regretless.space import Space
from regretless.studies.settings import policy_of_ones_own

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent

_CHANGES = (Abandoned, Extended, Baseline, Approved, Rejected, Reconsidered, Changed)
_OF_STUDY = (Archived, Unarchived, Renamed)
MOST_NAMES = 20  # in a message


@dataclass(frozen=True, eq=False)
class Snapshot:
    """A copy of a study after event `seq`.  A change of the copy does not change the study.

    Attributes:
        name: the name of the study.
        seq: the number of the last event.
        time: when the last event was written.
        optimizer: a copy of the optimiser.
        asked_at: when each trial was asked for, by its number.
        since: since when each trial has been pending or proposed, by its number; `asked_at` if it
            is left out.  A trial that was approved, or whose result was retracted, has a later one.
        archived: whether the study is archived.
    """

    name: str
    seq: int
    time: datetime
    optimizer: Optimizer
    asked_at: tuple[datetime, ...]
    since: tuple[datetime, ...] = ()
    archived: bool = False

    def __post_init__(self) -> None:
        if not self.since:
            object.__setattr__(self, "since", self.asked_at)


def event_of(stored: StoredEvent) -> Event:
    """The event of a stored row.  A result without a time gets the time of the row."""
    return read(stored.kind, stored.version, stored.body, stored.time)


def content_of(body: Mapping[str, Any]) -> str:
    """A text by which results with the same point, value, standard error, count and time agree."""
    return sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()[:40]


@dataclass
class State:
    """The state of a study after the event `last`.

    `fold` applies an event in place.  If it is interrupted, for example by Ctrl-C, the state stays
    `broken`.  It must not be used then.  `rebuilt` makes a new one from the journal.
    """

    journal: Journal
    created: Created
    optimizer: Optimizer
    last: StoredEvent
    asked_at: list[datetime] = field(default_factory=list)
    by_key: dict[str, int] = field(default_factory=dict)  # the trial of each ask
    # Abandons, extensions, verdicts and changes of the space, by key.
    changes: dict[str, Event] = field(default_factory=dict)
    observed: Counter[str] = field(default_factory=Counter)  # without a key, by their content
    since: list[datetime] = field(default_factory=list)  # when each trial became what it is
    archivings: int = 0  # how often the study was archived or unarchived
    broken: bool = False

    @classmethod
    def of(
        cls, journal: Journal, name: str, policy: object = None, space: Space | None = None
    ) -> State:
        """The state after all events of a study.

        `policy` is the instance, if the study was created with a policy class of the user's own.
        `space` is the space that it was created with, if some of its limits are functions.
        """
        events = journal.replay(name)
        first = next(events, None)
        if first is None:
            names = [info.name for info in journal.studies()]
            there = ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")
            raise UnknownStudyError(
                f"{journal.label}: there is no study {shown(name)} (studies: {there or 'none'});"
                " to create it, give its space, and its budget or horizon"
            )
        state = _begun(journal, first, policy, space)
        for stored in events:
            state.fold(stored)
        return state

    @property
    def archived(self) -> bool:
        """Whether the study is archived; archiving and unarchiving take turns."""
        return self.archivings % 2 == 1

    def rebuilt(self, name: str | None = None) -> State:
        """A new state after all events of the journal, to replace a broken one.

        `name` is the new name of the study, if it was renamed.
        """
        own = self.optimizer.policy, self.optimizer._first_space
        state = State.of(self.journal, name or self.last.study, *own)
        state.optimizer._records.hand_out_as(self.optimizer._records)
        return state

    def read(self, stored: StoredEvent) -> Event:
        """The event of a stored row.

        Raises:
            CorruptJournalError: the row cannot be read; the message says which one.
        """
        try:
            return event_of(stored)
        except RegretlessError as error:
            raise self.journal.corrupt(stored.study, stored.seq, str(error)) from error

    def fold(self, stored: StoredEvent) -> Event:
        """Apply the event that comes after `last`."""
        event = self.read(stored)
        self.broken = True
        try:
            if isinstance(event, _OF_STUDY):
                self._fold_of_study(event)
            else:
                self.optimizer.apply(event)
        except RegretlessError as error:
            raise self.journal.corrupt(stored.study, stored.seq, str(error)) from error
        if isinstance(event, Asked):
            self.by_key[stored.key] = len(self.asked_at)
        if isinstance(event, (Asked, Allocated)):
            new = len(event.asked) if isinstance(event, Allocated) else 1
            self.asked_at += [stored.time] * new
            self.since += [stored.time] * new
        elif isinstance(event, _CHANGES):
            self.changes[stored.key] = event
        elif isinstance(event, Observed) and not stored.key.startswith("observe "):
            self.observed[content_of(stored.body)] += 1
        if isinstance(event, (Approved, Retracted)):
            self.since[event.number] = stored.time
        self.last = stored
        self.broken = False
        return event

    def _fold_of_study(self, event: OfStudy) -> None:
        if isinstance(event, Renamed):
            return
        if isinstance(event, Archived) == self.archived:
            already = "archived" if self.archived else "not archived"
            raise StorageError(f"event of a study that is {already} already")
        self.archivings += 1

    def copy(self) -> State:
        return replace(
            self,
            optimizer=self.optimizer.copy(),
            asked_at=list(self.asked_at),
            since=list(self.since),
            by_key=dict(self.by_key),
            changes=dict(self.changes),
            observed=Counter(self.observed),
        )

    def snapshot(self) -> Snapshot:
        last, optimizer = self.last, self.optimizer.copy()
        times = tuple(self.asked_at), tuple(self.since)
        return Snapshot(last.study, last.seq, last.time, optimizer, *times, self.archived)


def _begun(journal: Journal, first: StoredEvent, policy: object, space: Space | None) -> State:
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
        optimizer = Optimizer.from_spec(created.settings, policy=own, space=space)
    except ConfigError as error:
        if not str(error).startswith("space: "):
            raise journal.corrupt(name, 1, str(error)) from error
        raise ConfigError(f"study {shown(name)}: {error}") from None
    except RegretlessError as error:
        raise journal.corrupt(name, 1, str(error)) from error
    return State(journal, created, optimizer, first)
