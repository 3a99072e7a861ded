"""The trials and the prior data: the state of an optimiser without the model.

Methods that end in -ing make the event of a verb and change nothing.  They return None if the event
would change nothing.  Methods that begin with `fold` apply an event.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import checked_time, whole
from regretless.design import Start
from regretless.engine.events import (
    OBJECTIVE,
    Abandoned,
    Asked,
    Changed,
    Extended,
    Observed,
    Outcome,
    Told,
)
from regretless.errors import (
    ConfigError,
    RegretlessError,
    StorageError,
    TrialError,
    UnknownTrialError,
)
from regretless.horizon import Horizon
from regretless.results import Decision, Row, Trial, checked_decision, number_of
from regretless.space import (
    Added,
    Parameter,
    Scalar,
    Space,
    Values,
    carried,
    changed,
    parameters_from_json,
)

MAX_WHOLE = 10**100  # a budget or a seed; what is larger may be more than a double holds

Outcomes = Mapping[str, Outcome]


@dataclass(frozen=True, eq=False)
class Record:
    """A trial, its status and its result."""

    trial: Trial  # the object that the caller got; the caller may have changed its params
    params: dict[str, Scalar]
    x: Array
    status: str = "pending"
    outcome: Outcome | None = None
    time: datetime | None = None  # of the outcome

    def again(self) -> Trial:
        """A copy of the trial with its original parameters, even if the caller changed them."""
        return replace(self.trial, params=dict(self.params))

    def row(self) -> Row:
        number, why, params = self.trial.number, self.trial.decision, dict(self.params)
        told = self.outcome
        if told is None:
            return Row(number, self.status, params, None, None, None, why)
        return Row(number, "told", params, told.value, told.sem, told.count, why, self.time)


class Records:
    """The trials and the prior data of an optimiser.

    Args:
        space: the search space.
        budget: the total number of evaluations.
        policy: the name of the policy, for the decisions of adopted trials.
        check_columns: raises if the model can't work with these columns.
    """

    def __init__(
        self,
        space: Space,
        budget: int,
        policy: str,
        check_columns: Callable[[tuple[Parameter, ...]], object],
    ) -> None:
        self.space = space
        self.check_columns = check_columns
        self.budget = budget
        self.policy = policy
        self.trials: list[Record] = []  # by number
        self.waiting: dict[int, Record] = {}  # the pending ones, by number
        self.started = 0  # trials of the initial design
        # The parameters that the user gave, by encoded point.
        self.known: dict[bytes, dict[str, Scalar]] = {}
        self.prior: list[Row] = []  # prior data, in order
        self.prior_x: list[Array] = []  # the same points, encoded

    def copy(self) -> Records:
        """The same records.  A change of one does not change the other."""
        twin = copy.copy(self)  # the elements of the lists and dicts are frozen
        twin.trials, twin.waiting = self.trials.copy(), self.waiting.copy()
        twin.known, twin.prior = self.known.copy(), self.prior.copy()
        twin.prior_x = self.prior_x.copy()
        return twin

    # -- the event of each verb --------------------------------------------------------------------

    def telling(
        self,
        trial: Trial | int,
        outcomes: Outcomes,
        time: datetime | None = None,
        key: str | None = None,
    ) -> Told | None:
        """The event of a tell; None if the same result was told before, at any time."""
        record, told = self.find(trial), _objective(outcomes, ConfigError)
        moment = checked_time(time)
        if record.outcome is None:
            return Told(record.trial.number, {OBJECTIVE: told}, moment, key)
        if record.outcome == told:
            return None
        raise TrialError(
            f"trial {record.trial.number} was told {record.outcome}, now {told}:"
            " a result can't be changed"
        )

    def observing(
        self, params: Mapping[str, Scalar], outcomes: Outcomes, time: datetime | None = None
    ) -> Observed:
        told, moment = _objective(outcomes, ConfigError), checked_time(time)
        return Observed(self.space.validate(params), {OBJECTIVE: told}, moment)

    def asking(
        self, params: Mapping[str, Scalar], decision: Decision, fit: dict[str, object] | None = None
    ) -> Asked:
        """The event of the next trial, at a point that is in the space."""
        plain = Decision(**decision.to_json())  # converts the numbers of numpy to plain ones
        return Asked(len(self.trials), dict(params), plain, fit)

    def adopting(self, params: Mapping[str, Scalar], decision: Decision | None = None) -> Asked:
        """The event of the next trial, at a point that somebody else chose."""
        given = Decision("given", self.policy, self.remaining, len(self.waiting))
        why = checked_decision(given if decision is None else decision)
        return self.asking(self.space.validate(params), why)

    def abandoning(self, trial: Trial | int) -> Abandoned | None:
        """The event of an abandon; None if the trial was abandoned before."""
        record = self.find(trial)
        if record.status == "told":
            raise TrialError(f"trial {record.trial.number} was told already: can't be abandoned")
        return Abandoned(record.trial.number) if record.status == "pending" else None

    def extending(self, budget: int, always: bool = False) -> Extended | None:
        """The event of an extend; None if the budget is the same and `always` is false."""
        total = self._checked_budget(budget)
        return Extended(total) if always or total != self.budget else None

    def changing(
        self,
        add: Added | None = None,
        freeze: Values | None = None,
        widen: Mapping[str, Parameter] | None = None,
        drop: Values | None = None,
    ) -> Changed:
        """The event of a change of the space."""
        space, values = changed(self.space, add, freeze, widen, drop)
        self.check_columns(space.columns)
        return Changed(space.to_json()["parameters"], values)

    # -- applying events ---------------------------------------------------------------------------

    def fold_asked(self, event: Asked) -> None:
        if event.number != len(self.trials):
            raise StorageError(
                f"event 'asked': need number {len(self.trials)}, got {shown(event.number)}"
            )
        reason, params = event.decision.reason, self.space.validate(event.params)
        record = Record(
            Trial(event.number, dict(params), event.decision), params, self.space.encode(params)
        )
        self.trials.append(record)
        self.waiting[event.number] = record
        self.started += reason == "design"
        if reason == "given":
            self.known.setdefault(record.x.tobytes(), params)

    def fold_told(self, event: Told) -> tuple[Record, Outcome]:
        """Apply the event; returns the record of the trial and its result."""
        record, told = self.find(event.number), _objective(event.outcomes, StorageError)
        if record.status == "told":
            raise StorageError(f"event 'told': trial {event.number} was told before")
        self._close(replace(record, status="told", outcome=told, time=event.time))
        return record, told

    def fold_observed(self, event: Observed) -> tuple[Array, Outcome]:
        """Apply the event; returns the encoded point and its result."""
        told = _objective(event.outcomes, StorageError)
        params = self.space.validate(event.params)
        x = self.space.encode(params)
        self.known.setdefault(x.tobytes(), params)
        row = Row(None, "observed", params, told.value, told.sem, told.count, None, event.time)
        self.prior.append(row)
        self.prior_x.append(x)
        return x, told

    def fold_abandoned(self, event: Abandoned) -> None:
        record = self.find(event.number)
        if record.status == "told":
            raise StorageError(f"event 'abandoned': trial {event.number} was told before")
        self._close(replace(record, status="abandoned"))

    def fold_extended(self, event: Extended) -> None:
        self.budget = self._checked_budget(event.budget)

    def fold_changed(self, event: Changed) -> Callable[[Array], Array]:
        """Apply the event; returns the function that turns old points into new ones."""
        old = self.space
        self.space = Space(parameters_from_json(event.parameters), old.where)
        carry = carried(old, self.space, event.values)

        def moved(x: Array) -> Array:
            return np.asarray(carry(x[None])[0])

        self.trials = [replace(record, x=moved(record.x)) for record in self.trials]
        self.waiting = {number: self.trials[number] for number in self.waiting}
        self.prior_x = [moved(x) for x in self.prior_x]
        known = {moved(np.frombuffer(x)).tobytes(): params for x, params in self.known.items()}
        here = {x: params for x, params in known.items() if self._is_here(np.frombuffer(x))}
        self.known = {x: {**params, **event.values} for x, params in here.items()}
        for params in self.known.values():
            for name in [name for name in params if self.space.parameters[name].is_dropped]:
                del params[name]
        self.started += len(known) - len(here)  # the start does not begin again
        return carry

    def _is_here(self, x: Array) -> bool:
        """Whether a point is one of the space, after parameters were frozen."""
        return bool((self.space.canonical(x[None])[0] == x).all())

    # -- what is known -----------------------------------------------------------------------------

    @property
    def horizon(self) -> Horizon:
        """The number of evaluations in total, and the number that was asked for."""
        return Horizon(self.budget, len(self.trials))

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for."""
        return self.horizon.remaining

    def find(self, trial: Trial | int) -> Record:
        """The record of a trial, given as a `Trial` or as its number.

        Raises:
            UnknownTrialError: there is no such trial, or it belongs to another optimiser.
        """
        number = trial.number if isinstance(trial, Trial) else trial
        if type(number) is not int:
            number = number_of(trial)
        if not 0 <= number < len(self.trials):
            raise UnknownTrialError(
                f"trial {shown(number)} was never asked ({len(self.trials)} were)"
            )
        record = self.trials[number]
        # The object that the caller got is accepted even if the caller changed its params.
        if isinstance(trial, Trial) and trial is not record.trial and trial.params != record.params:
            asked = f"{record.params}, not {shown(trial.params)}"
            raise UnknownTrialError(f"trial {number} is of another optimiser: here it was {asked}")
        return record

    def handed_out(self, number: int) -> Trial:
        """The `Trial` object that the caller got."""
        return self.trials[number].trial

    def params_at(self, x: Array) -> dict[str, Scalar]:
        """The parameters as the user gave them, if the user chose this point; otherwise decoded.

        Decoded numbers may differ in their last digits.
        """
        given = self.known.get(x.tobytes())
        return self.space.decode(x) if given is None else dict(given)

    def next_of_start(self, start: Start) -> Array | None:
        """The first point of the start that is neither asked for nor known, or None."""
        taken: set[bytes] = set()
        if self.known and not start.listed:  # all points of a list are tried
            taken = self.known.keys() | {record.x.tobytes() for record in self.trials}
        # Earlier points were asked for or known already.
        left = start.points[self.started :]
        return next((x for x in left if x.tobytes() not in taken), None)

    def history(self) -> list[Row]:
        prior = (replace(row, params=dict(row.params)) for row in self.prior)
        return [*prior, *(record.row() for record in self.trials)]

    def hand_out_as(self, others: Records) -> None:
        """Use the Trial objects of `others`, so that callers can still tell them."""
        for number, other in enumerate(others.trials[: len(self.trials)]):
            mine = replace(self.trials[number], trial=other.trial)
            self.trials[number] = mine
            if number in self.waiting:
                self.waiting[number] = mine

    def _close(self, record: Record) -> None:
        self.trials[record.trial.number] = record
        self.waiting.pop(record.trial.number, None)

    def _checked_budget(self, budget: object) -> int:
        return whole("budget", budget, least=max(1, len(self.trials)), most=MAX_WHOLE)


def _objective(outcomes: Outcomes, error: type[RegretlessError]) -> Outcome:
    """The outcome to optimise.  There may be no other outcome."""
    if outcomes.keys() != {OBJECTIVE}:
        names = ", ".join(map(shown, outcomes)) or "none"
        raise error(f"outcomes: need {OBJECTIVE!r} and no other, got {names}")
    told = outcomes[OBJECTIVE]
    if not isinstance(told, Outcome):
        raise error(f"outcomes: need an Outcome as {OBJECTIVE!r}, got {shown(told)}")
    return told
