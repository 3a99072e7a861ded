"""The trials and the prior data: the state of an optimiser without the model.

Methods that end in -ing make the event of a verb and change nothing.  They return None if the event
would change nothing.  Methods that begin with `fold` apply an event.
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from math import sqrt
from typing import NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.plain import own
from regretless._internal.shown import shown
from regretless._internal.validate import (
    LEAST_SCALE,
    MAX_RESULT,
    checked_time,
    checked_why,
    whole,
)
from regretless.design import Start
from regretless.engine.events import (
    Abandoned,
    Allocated,
    Approved,
    Asked,
    Baseline,
    Changed,
    Ended,
    Extended,
    Observed,
    Outcome,
    Reconsidered,
    Rejected,
    Reported,
    Retracted,
    Told,
    Unobserved,
)
from regretless.engine.rejections import Rejections
from regretless.engine.traffic import Increment, Table, Totals
from regretless.errors import (
    ConfigError,
    RegretlessError,
    SpaceError,
    StorageError,
    TrialError,
    UnknownTrialError,
)
from regretless.horizon import MAX_WHOLE, Horizon
from regretless.results import Decision, Row, Trial, checked_decision, number_of
from regretless.safety import CONTROL, OBJECTIVE, RESERVED, Mode
from regretless.space import (
    Added,
    Contexts,
    Limit,
    Parameter,
    Scalar,
    Space,
    Values,
    carried,
    changed,
    parameters_from_json,
)

Outcomes = Mapping[str, Outcome]
Circumstances = Mapping[str, Scalar]  # a value for each context
NOWHERE = np.empty(0)  # the coordinates of a context if the run has none


class Correction(NamedTuple):
    """A result that was retracted, with the keys of the two calls."""

    outcomes: Outcomes
    told_key: str | None
    key: str | None


@dataclass(frozen=True, eq=False)
class Record:
    """A trial, its status and its result."""

    trial: Trial  # the object that the caller got; the caller may have changed its params
    params: dict[str, Scalar]
    x: Array
    status: str = "pending"
    outcomes: Outcomes = field(default_factory=dict)  # by name; empty without a result
    time: datetime | None = None  # of the outcomes
    key: str | None = None  # of the call that told the outcomes
    note: str | None = None  # what was said about it last
    corrections: tuple[Correction, ...] = ()  # the results that were retracted
    asked_in: dict[str, Scalar] | None = None  # the context that was asked for
    context: dict[str, Scalar] | None = None  # the context, as it turned out
    at: Array = field(default_factory=lambda: NOWHERE)  # its coordinates

    def again(self) -> Trial:
        """A copy of the trial with its original parameters, even if the caller changed them."""
        proposed, context = self.status == "proposed", self.asked_in
        return replace(
            self.trial,
            params=own(self.params),
            proposed=proposed,
            context=None if context is None else dict(context),
        )

    @property
    def whole(self) -> Array:
        """The point and the context that it was tried in."""
        return joined(self.x, self.at)

    def row(self) -> Row:
        number, why, params = self.trial.number, self.trial.decision, own(self.params)
        row = _row(number, self.status, params, self.outcomes, why, self.time)
        if self.context is not None:
            row = replace(row, context=dict(self.context))
        return row if self.note is None else replace(row, note=self.note)


class Reference(NamedTuple):
    """A setting that runs, or ran, without the trials."""

    params: dict[str, Scalar]
    x: Array
    since: int  # the first trial that it counts for


class Records:
    """The trials and the prior data of an optimiser.

    Args:
        space: the search space.
        given: the budget and the horizon.
        policy: the name of the policy, for the decisions of adopted trials.
        check_columns: raises if the model can't work with these columns.
        baseline: the setting that runs today, if it is known.
        mode: whether trials are approved by a person.
        contexts: what the environment decides; None if nothing is known of it.
    """

    def __init__(
        self,
        space: Space,
        given: Horizon,
        policy: str,
        check_columns: Callable[[tuple[Parameter, ...]], object],
        baseline: Mapping[str, Scalar] | None = None,
        mode: Mode = "automatic",
        contexts: Contexts | None = None,
    ) -> None:
        self.space = space
        self.contexts = contexts
        self.check_columns = check_columns
        self.given = given
        self.policy = policy
        self.mode = mode
        self.trials: list[Record] = []  # by number
        self.waiting: dict[int, Record] = {}  # the pending ones, by number
        self.proposed: dict[int, Record] = {}  # those that wait for a verdict, by number
        self.rejected: dict[int, Record] = {}  # those whose reason stands, by number
        self.freed = 0  # rejected trials, which use no budget
        self.freed_of_start = 0  # those of them that are of the initial design
        self.started = 0  # trials of the initial design
        # The parameters that the user gave, by encoded point.
        self.known: dict[bytes, dict[str, Scalar]] = {}
        self.prior: list[Row] = []  # prior data, in order
        self.prior_x: list[Array] = []  # the same points, encoded
        self.prior_at: list[Array] = []  # their contexts, encoded
        self.added: dict[str, Scalar] = {}  # the value that each added parameter had before
        self.tried: set[bytes] = set()  # all points that were asked for or observed, encoded
        self.risk = 0.0  # the sum of what the decisions were charged, see engine/loss.py
        self.totals: dict[int, Totals] = {}  # of reported results, by trial
        self.tables: list[Table] = []  # how the traffic was split; the last one is in use
        self.table_of: dict[int, int] = {}  # the place of a trial's table in this list
        self.unfilled = 0  # rows that tables left empty; they use budget
        # Each baseline with the number of the first trial that it counts for.
        self.baselines: list[Reference] = []
        if baseline is not None:
            self.baselines.append(Reference(dict(baseline), space.encode(baseline), 0))

    def copy(self) -> Records:
        """The same records.  A change of one does not change the other."""
        twin = copy.copy(self)  # the elements of the lists and dicts are frozen
        twin.trials, twin.waiting = self.trials.copy(), self.waiting.copy()
        twin.known, twin.prior = self.known.copy(), self.prior.copy()
        twin.prior_x, twin.added = self.prior_x.copy(), self.added.copy()
        twin.prior_at = self.prior_at.copy()
        twin.tried, twin.baselines = self.tried.copy(), self.baselines.copy()
        twin.proposed, twin.rejected = self.proposed.copy(), self.rejected.copy()
        twin.totals, twin.tables = self.totals.copy(), self.tables.copy()
        twin.table_of = self.table_of.copy()
        return twin

    # -- the event of each verb --------------------------------------------------------------------

    def telling(
        self,
        trial: Trial | int,
        outcomes: Outcomes,
        time: datetime | None = None,
        key: str | None = None,
        context: Circumstances | None = None,
    ) -> Told | None:
        """The event of a tell; None if the same result was told before, at any time."""
        record, told = self.find(trial), _checked_outcomes(outcomes, ConfigError)
        moment = checked_time(time)
        _check_approved(record)
        if self.contexts is not None and CONTROL in told:
            raise ConfigError("control: a run with contexts has no controls")
        turned_out = None if context is None else self.checked_context(context)
        if turned_out == record.asked_in:
            turned_out = None
        before = {each.told_key: each.outcomes for each in record.corrections}
        if key is not None and before.get(key) == told:
            return None  # a repeated call, whose result was retracted since
        if (totals := self.totals.get(record.trial.number)) is not None:
            next_step = "report more of them, or retract them first"
            if not totals.count:  # there is nothing to retract
                next_step = "their `count` is 0 so far; report how many there are"
            raise TrialError(f"trial {record.trial.number} has reported results: {next_step}")
        if not record.outcomes:
            return Told(record.trial.number, dict(told), moment, key, turned_out)
        same = context is None or (turned_out or record.asked_in) == record.context
        if record.outcomes == told and same:
            return None
        if record.outcomes == told:
            raise TrialError(
                f"trial {record.trial.number} was told in the context {shown(record.context)}, now"
                f" in {shown(context)}: if the first is wrong, retract it first"
            )
        raise TrialError(
            f"trial {record.trial.number} was told {_sentence(record.outcomes)}, now"
            f" {_sentence(told)}: a result can't be changed; if it is wrong, retract it first"
        )

    def observing(
        self,
        params: Mapping[str, Scalar],
        outcomes: Outcomes,
        time: datetime | None = None,
        context: Circumstances | None = None,
    ) -> Observed:
        told, moment = _checked_outcomes(outcomes, ConfigError), checked_time(time)
        return Observed(
            self.space.validate(params), dict(told), moment, self.checked_context(context)
        )

    def checked_context(self, context: Circumstances | None) -> dict[str, Scalar] | None:
        """The context as plain values; None if the run has no contexts.

        Raises:
            ConfigError: a context is given, and the run has none.
            SpaceError: a value is missing or of a wrong type, or a name is unknown.
        """
        if self.contexts is not None:
            return self.contexts.validate(context)
        if context is not None:
            raise ConfigError(f"context: the run has no contexts, got {shown(context)}")
        return None

    def place(self, context: Circumstances | None) -> Array:
        """The coordinates of a valid context; empty if the run has none."""
        if self.contexts is None or context is None:
            return NOWHERE
        return self.contexts.encode(context)

    def asking(
        self,
        params: Mapping[str, Scalar],
        decision: Decision,
        fit: dict[str, object] | None = None,
        proposed: bool = False,
        metric_fits: Mapping[str, dict[str, object]] | None = None,
        context: dict[str, Scalar] | None = None,
    ) -> Asked:
        """The event of the next trial, at a point that is in the space."""
        plain = Decision(**decision.to_json())  # converts the numbers of numpy to plain ones
        fits = dict(metric_fits or {})
        return Asked(len(self.trials), own(params), plain, fit, proposed, fits, context)

    def adopting(
        self,
        params: Mapping[str, Scalar],
        decision: Decision | None = None,
        context: Circumstances | None = None,
    ) -> Asked:
        """The event of the next trial, at a point that somebody else chose."""
        endless = self.horizon.is_endless or None
        given = Decision("given", self.policy, self.remaining, len(self.waiting), endless=endless)
        why = checked_decision(given if decision is None else decision)
        return self.asking(self.space.validate(params), why, context=self.checked_context(context))

    def abandoning(self, trial: Trial | int) -> Abandoned | None:
        """The event of an abandon; None if the trial was abandoned before."""
        record = self.find(trial)
        if record.status == "told":
            raise TrialError(f"trial {record.trial.number} was told already: can't be abandoned")
        if record.status == "proposed":
            raise TrialError(f"trial {record.trial.number} is only proposed: reject it instead")
        return Abandoned(record.trial.number) if record.status == "pending" else None

    def approving(self, trial: Trial | int, why: str | None = None) -> Approved | None:
        """The event of an approval; None if the trial was approved before."""
        record, reason = self.find(trial), None if why is None else checked_why(why)
        self._check_mode("approve")
        if record.status == "pending":
            return None
        _check_verdict(record, "approved")
        return Approved(record.trial.number, reason)

    def rejecting(self, trial: Trial | int, why: str) -> Rejected | None:
        """The event of a rejection; None if the trial was rejected before."""
        record, reason = self.find(trial), checked_why(why)
        self._check_mode("reject")
        if record.status in ("rejected", "reconsidered"):
            return None
        _check_verdict(record, "rejected")
        return Rejected(record.trial.number, reason)

    def reconsidering(self, trial: Trial | int, why: str | None = None) -> Reconsidered | None:
        """The event by which a rejection's reason ends; None if it has ended before."""
        record, reason = self.find(trial), None if why is None else checked_why(why)
        if record.status == "reconsidered":
            return None
        if record.status != "rejected":
            raise TrialError(f"trial {record.trial.number} was not rejected: it is {record.status}")
        return Reconsidered(record.trial.number, reason)

    def retracting(
        self, trial: Trial | int, why: str | None = None, key: str | None = None
    ) -> Retracted | None:
        """The event by which a result is taken back; None if the trial has no result any more."""
        record, reason = self.find(trial), None if why is None else checked_why(why)
        if key is not None and key in (each.key for each in record.corrections):
            return None  # a repeated call; the trial may have a new result since
        if record.status == "told":
            return Retracted(record.trial.number, reason, key)
        if record.corrections:
            return None
        raise TrialError(
            f"trial {record.trial.number} has no result to retract: it is {record.status}"
        )

    def unobserving(self, index: int, why: str | None = None) -> Unobserved | None:
        """The event by which prior data are taken back; None if that happened before."""
        number, reason = whole("index", index, least=0), None if why is None else checked_why(why)
        if number >= len(self.prior):
            raise UnknownTrialError(
                f"observation {shown(index)} was never told ({len(self.prior)} were, counted from"
                " 0)"
            )
        known = self.prior[number].status == "retracted"
        return None if known else Unobserved(number, reason)

    def extending(
        self, budget: int | None, horizon: int | None = None, always: bool = False
    ) -> Extended | None:
        """The event of an extend; None if it changes nothing and `always` is false."""
        event = Extended(budget, horizon)
        extended = self._extended(event)
        checked = Extended(None if budget is None else extended.budget, horizon)
        return checked if always or extended != self.given else None

    def rebasing(self, params: Mapping[str, Scalar], always: bool = False) -> Baseline | None:
        """The event of a new baseline; None if it is the present one and `always` is false."""
        given = self.space.validate(params)
        x, now = self.space.encode(given), self.baseline
        same = now is not None and bool((now.x == x).all())
        return Baseline(given) if always or not same else None

    def changing(
        self,
        add: Added | None = None,
        freeze: Values | None = None,
        widen: Mapping[str, Parameter] | None = None,
        drop: Values | None = None,
    ) -> Changed:
        """The event of a change of the space."""
        space, values = changed(self.space, add, freeze, widen, drop)
        self.check_columns(self.beside(space).columns)
        self._check_baseline(space, values)
        return Changed(space.to_json()["parameters"], values)

    def reporting(
        self, increments: tuple[Increment, ...], time: datetime | None = None
    ) -> Reported:
        """The event by which results are added to the totals of trials."""
        for each in increments:
            record = self.find(each.number)
            _check_approved(record)
            if record.outcomes and each.number not in self.totals:
                raise TrialError(
                    f"trial {each.number} was told its result at once: retract it before you report"
                )
        return Reported(increments, checked_time(time))

    # -- applying events ---------------------------------------------------------------------------

    def fold_reported(self, event: Reported) -> None:
        for each in event.increments:
            record = self.find(each.number)
            if each.number not in self.totals:
                _expect("reported", record, "pending", "abandoned")
            totals = self.totals.get(each.number, Totals()).plus(each.totals)
            self.totals[each.number] = totals
            if totals.count > 0.0:
                told = {OBJECTIVE: _outcome(totals)}
                self._close(replace(record, status="told", outcomes=told, time=event.time))

    def fold_allocated(self, event: Allocated) -> None:
        """Apply the event after its trials were asked for."""
        table = event.table
        if self.tables and table.version <= self.tables[-1].version:
            raise StorageError(f"event 'allocated': version {table.version} was there before")
        if self.tables:
            self.tables[-1] = self.tables[-1].past()
        self.tables.append(table)
        for number in table.trials:
            self.table_of[number] = len(self.tables) - 1
        self.unfilled += min(max(0, table.arms - len(table.rows)), self.remaining)

    def fold_ended(self, event: Ended) -> None:
        rows = {each.trial for each in self.tables[-1].rows} if self.tables else set()
        if event.number not in rows or len(rows) < 2:
            raise StorageError(f"event 'ended': trial {event.number} has no row that can be ended")
        self.tables[-1] = self.tables[-1].without(event.number)
        record = self.trials[event.number]
        self.trials[event.number] = replace(record, note=event.why)
        if event.number in self.waiting:
            self.waiting[event.number] = self.trials[event.number]

    def fold_asked(self, event: Asked) -> None:
        if event.number != len(self.trials):
            raise StorageError(
                f"event 'asked': need number {len(self.trials)}, got {shown(event.number)}"
            )
        reason, params = event.decision.reason, self.space.validate(event.params)
        context = self._stored_context("asked", event.context)
        mine = None if context is None else dict(context)
        record = Record(
            Trial(event.number, own(params), event.decision, event.proposed, mine),
            params,
            self.space.encode_valid(params),
            "proposed" if event.proposed else "pending",
            asked_in=context,
            context=context,
            at=self.place(context),
        )
        self.trials.append(record)
        (self.proposed if event.proposed else self.waiting)[event.number] = record
        self.started += reason == "design"
        self.tried.add(record.x.tobytes())
        self.risk += event.decision.loss_risk or 0.0
        if reason in ("given", "baseline"):
            self.known.setdefault(record.x.tobytes(), params)

    def fold_told(self, event: Told) -> tuple[Record, Outcomes]:
        """Apply the event; returns the record of the trial and its outcomes."""
        record, told = self.find(event.number), _checked_outcomes(event.outcomes, StorageError)
        if record.status == "told":
            raise StorageError(f"event 'told': trial {event.number} was told before")
        _expect("told", record, "pending", "abandoned")
        closed = replace(record, status="told", outcomes=told, time=event.time, key=event.key)
        if event.context is not None:
            context = self._stored_context("told", event.context)
            closed = replace(closed, context=context, at=self.place(context))
        self._close(closed)
        return closed, told

    def fold_observed(self, event: Observed) -> tuple[Array, Outcomes]:
        """Apply the event; returns the encoded point, with its context, and its outcomes."""
        told = _checked_outcomes(event.outcomes, StorageError)
        params = self.space.validate(event.params)
        x = self.space.encode_valid(params)
        context = self._stored_context("observed", event.context)
        self.known.setdefault(x.tobytes(), params)
        self.tried.add(x.tobytes())
        row = _row(None, "observed", params, told, None, event.time)
        self.prior.append(row if context is None else replace(row, context=context))
        self.prior_x.append(x)
        self.prior_at.append(self.place(context))
        return joined(x, self.prior_at[-1]), told

    def _stored_context(
        self, kind: str, context: dict[str, Scalar] | None
    ) -> dict[str, Scalar] | None:
        """The context of an event, after a check."""
        try:
            return self.checked_context(context)
        except RegretlessError as error:
            raise StorageError(f"event {kind!r}: {error}") from None

    def fold_abandoned(self, event: Abandoned) -> None:
        record = self.find(event.number)
        if record.status == "told":
            raise StorageError(f"event 'abandoned': trial {event.number} was told before")
        _expect("abandoned", record, "pending", "abandoned")
        self._close(replace(record, status="abandoned"))

    def fold_approved(self, event: Approved) -> None:
        record = self.find(event.number)
        _expect("approved", record, "proposed")
        del self.proposed[event.number]
        self._wait(replace(record, status="pending", note=event.why))

    def fold_rejected(self, event: Rejected) -> None:
        record = self.find(event.number)
        _expect("rejected", record, "proposed")
        del self.proposed[event.number]
        closed = replace(record, status="rejected", note=event.why)
        self.trials[event.number] = self.rejected[event.number] = closed
        self.freed += 1
        self.freed_of_start += record.trial.decision.reason == "design"

    def fold_reconsidered(self, event: Reconsidered) -> None:
        record = self.find(event.number)
        _expect("reconsidered", record, "rejected")
        del self.rejected[event.number]
        ended = "" if event.why is None else f" (reconsidered: {event.why})"
        note = f"{record.note}{ended}"
        self.trials[event.number] = replace(record, status="reconsidered", note=note)

    def fold_retracted(self, event: Retracted) -> None:
        record = self.find(event.number)
        _expect("retracted", record, "told")
        correction = Correction(record.outcomes, record.key, event.key)
        self.totals.pop(event.number, None)
        self._wait(
            replace(
                record,
                status="pending",
                outcomes={},
                time=None,
                key=None,
                note=_retraction(_sentence(_foremost(record.outcomes)), event.why),
                corrections=(*record.corrections, correction),
                context=record.asked_in,
                at=self.place(record.asked_in),
            )
        )

    def fold_unobserved(self, event: Unobserved) -> None:
        prior = self.prior[event.index] if event.index < len(self.prior) else None
        if prior is None or prior.status == "retracted":
            raise StorageError(f"event 'unobserved': there is no observation {event.index}")
        told = {name: Outcome(value) for name, value in prior.metrics.items()}
        if prior.value is not None:
            told = {OBJECTIVE: Outcome(prior.value, prior.sem, prior.count or 1.0)}
        note = _retraction(_sentence(told), event.why)
        gone = _row(None, "retracted", prior.params, {}, None, None)
        self.prior[event.index] = replace(gone, note=note, context=prior.context)
        self.known = {}
        for x, params in self._given():
            if self.is_here(x):
                self.known.setdefault(x.tobytes(), self._as_of_now(x, params))

    def fold_extended(self, event: Extended) -> None:
        self.given = self._extended(event)

    def fold_based(self, event: Baseline) -> None:
        params = self.space.validate(event.params)
        since = len(self.trials) if self.baselines else 0
        self.baselines.append(Reference(params, self.space.encode(params), since))

    def fold_changed(self, event: Changed) -> Callable[[Array], Array]:
        """Apply the event; returns the function that turns old points into new ones."""
        old = self.space
        self.space = Space(parameters_from_json(event.parameters), old.where)
        self.added |= event.values
        carry = self._carrying(carried(old, self.space, event.values))

        def moved(x: Array) -> Array:
            return np.asarray(carry(x[None])[0])

        self.trials = [replace(record, x=moved(record.x)) for record in self.trials]
        self.waiting = {number: self.trials[number] for number in self.waiting}
        self.proposed = {number: self.trials[number] for number in self.proposed}
        self.rejected = {number: self.trials[number] for number in self.rejected}
        self.prior_x = [moved(x) for x in self.prior_x]
        self.tried = {moved(np.frombuffer(x)).tobytes() for x in self.tried}
        self.baselines = [
            Reference(self._as_of_now(x, each.params), x, each.since)
            for each, x in ((each, moved(each.x)) for each in self.baselines)
        ]
        known = [(moved(np.frombuffer(x)), params) for x, params in self.known.items()]
        here = [(x, params) for x, params in known if self.is_here(x)]
        self.known = {x.tobytes(): self._as_of_now(x, params) for x, params in here}
        self.started += len(known) - len(here)  # the start does not begin again
        return carry

    def _carrying(self, carry: Callable[[Array], Array]) -> Callable[[Array], Array]:
        """`carry`, except that a point which somebody gave stays where its parameters are encoded.

        Numbers that are decoded and encoded again may differ in their last digits.
        """
        exact: dict[bytes, Array] = {}
        given = [(each.x, each.params) for each in reversed(self.baselines)]
        given += [(np.frombuffer(x), params) for x, params in self.known.items()]
        for before, params in given:
            x = carry(before[None])[0]
            if self.is_here(x):
                with suppress(SpaceError):  # a function may not allow an added value
                    exact[before.tobytes()] = self.space.encode(self._as_of_now(x, params))

        def exactly(points: Array) -> Array:
            out = carry(points)
            for row, x in enumerate(points):
                out[row] = exact.get(x.tobytes(), out[row])
            return out

        return exactly

    def is_here(self, x: Array) -> bool:
        """Whether a point is one of the space, after parameters were frozen."""
        return bool((self.space.canonical(x[None])[0] == x).all())

    def _as_of_now(self, x: Array, params: Mapping[str, Scalar]) -> dict[str, Scalar]:
        """The parameters that somebody gave for the point x, as those of the present space."""
        return _present(self.space, x, {**self.added, **params})

    def _check_baseline(self, space: Space, values: Values) -> None:
        """Raise SpaceError if the baseline would not be in the space after a change."""
        now = self.baseline
        if now is None:
            return
        first = "set another baseline first, see set_baseline"
        x = carried(self.space, space, values)(now.x[None])
        for name, same in zip(space.names, (space.canonical(x) == x)[0], strict=True):
            if not same:
                to = space.parameters[name].decode(0.5)
                raise SpaceError(
                    f"change_space: {name} would be {shown(to)}, and the baseline has"
                    f" {shown(now.params.get(name))}: {first}"
                )
        try:
            space.validate(_present(space, x[0], {**values, **now.params}))
        except SpaceError as error:
            raise SpaceError(f"change_space: the baseline: {error}: {first}") from None

    def given_within(self, limit: Limit, at: Array = NOWHERE) -> set[bytes]:
        """The points that somebody gave and that keep a limit, perhaps on its edge; encoded.

        `at` has the coordinates of the context.
        """
        every = {**self.known, **{each.x.tobytes(): each.params for each in self.baselines}}
        if len(at):
            wide = {joined(np.frombuffer(x), at).tobytes(): p for x, p in every.items()}
            return {x for x, params in wide.items() if limit.allows(params, np.frombuffer(x))}
        return {x for x, params in every.items() if limit.allows(params, np.frombuffer(x))}

    # -- what is known -----------------------------------------------------------------------------

    def beside(self, space: Space) -> Space:
        """The space with the columns of the contexts, if there are any."""
        return space if self.contexts is None else self.contexts.beside(space)

    def seen(self) -> Array:
        """The coordinates of all contexts that were seen, those of prior data first."""
        return np.array([*self.prior_at, *(record.at for record in self.trials)])

    @property
    def last_context(self) -> dict[str, Scalar] | None:
        """The context that was seen last; None if the run has none, or none was seen yet."""
        if self.contexts is None or not (self.trials or self.prior):
            return None
        found = self.trials[-1].context if self.trials else self.prior[-1].context
        return None if found is None else dict(found)

    @property
    def horizon(self) -> Horizon:
        """The number of evaluations in total, and the number that was asked for.

        Rejected trials do not count.
        """
        return self.given._replace(asked=self.used)

    @property
    def used(self) -> int:
        """The number of trials that use budget: all but the rejected ones.

        A row that a table has left empty uses budget, too.
        """
        return len(self.trials) - self.freed + self.unfilled

    @property
    def table(self) -> Table | None:
        """How the traffic is split now."""
        return self.tables[-1] if self.tables else None

    def is_mature(self, number: int, now: datetime) -> bool:
        """Whether all results of a trial can be in: its table is over for the usual delay."""
        place = self.table_of.get(number)
        if place is None or not self.tables[place].delay:
            return True
        if place + 1 == len(self.tables):
            return False
        over = self.tables[place + 1].time
        return (now - over).total_seconds() >= self.tables[place].delay

    @property
    def rejections(self) -> Rejections | None:
        """The rejected points whose reasons stand; None if there are none.

        A rejection of the baseline closes that trial only: the baseline runs anyway, and is where a
        run goes back to.
        """
        base = None if self.baseline is None else self.baseline.x
        points = [each.x for each in self.rejected.values()]
        if base is not None:
            points = [x for x in points if not np.array_equal(x, base)]
        return Rejections(self.space, np.array(points)) if points else None

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; the horizon if there is no end."""
        return self.horizon.remaining

    @property
    def baseline(self) -> Reference | None:
        """The setting that runs today, if it is known."""
        return self.baselines[-1] if self.baselines else None

    @property
    def baseline_is_new(self) -> bool:
        """Whether there is a baseline that was neither asked for nor observed."""
        return self.baseline is not None and self.baseline.x.tobytes() not in self.tried

    def references(self) -> list[Reference]:
        """For each trial, the baseline that it is compared to: the one at its time."""
        out: list[Reference] = []
        ends = [*(each.since for each in self.baselines[1:]), len(self.trials)]
        for each, end in zip(self.baselines, ends, strict=True):
            out += [each] * (end - len(out))
        return out

    def total_loss(self, at: Array = NOWHERE) -> tuple[Array, Array]:
        """The total loss against the baseline, as points and weights: the sum of w_i f(x_i).

        The first point is the baseline of today, in the context with the coordinates `at`.  All
        trials count, also those without a result, except for those that were rejected.  Each is
        compared to the baseline in its own context.
        """
        assert self.baseline is not None
        weights = {joined(self.baseline.x, at).tobytes(): 0.0}
        for record, reference in zip(self.trials, self.references(), strict=True):
            if record.status in ("rejected", "reconsidered"):  # it never ran
                continue
            for x, weight in ((reference.x, 1.0), (record.x, -1.0)):
                key = joined(x, record.at).tobytes()
                weights[key] = weights.get(key, 0.0) + weight
        used = {key: w for i, (key, w) in enumerate(weights.items()) if w or not i}
        points = np.frombuffer(b"".join(used), dtype=float).reshape(len(used), -1)
        return points, np.array(list(used.values()))

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
            raise UnknownTrialError(
                f"trial {number} belongs to another optimiser: here it has {asked}"
            )
        return record

    def handed_out(self, number: int) -> Trial:
        """The `Trial` object that the caller got."""
        return self.trials[number].trial

    def params_at(self, x: Array) -> dict[str, Scalar]:
        """The parameters as the user gave them, if the user chose this point; otherwise decoded.

        Decoded numbers may differ in their last digits.
        """
        given = self.known.get(x.tobytes())
        if given is None:
            here = (each.params for each in self.baselines if (each.x == x).all())
            given = next(here, None)
        return self.space.decode(x) if given is None else own(given)

    def rest_of_start(self, start: Start, in_order: bool = True) -> list[Array]:
        """The points of the start that are neither asked for nor known.

        If not `in_order`, a point may have been asked for before an earlier one.
        """
        taken: set[bytes] = set()
        if not in_order or (self.known and not start.listed):  # all points of a list are tried
            taken = self.known.keys() | {record.x.tobytes() for record in self.trials}
        if self.freed:
            return list(self._not_rejected(start, taken))
        # Earlier points were asked for or known already.
        left = start.points[self.started if in_order else 0 :]
        return [x for x in left if x.tobytes() not in taken]

    def _not_rejected(self, start: Start, taken: set[bytes]) -> Iterator[Array]:
        """The same, where points near rejected ones are left out while the reasons stand."""
        asked = Counter(r.x.tobytes() for r in self.trials if r.trial.decision.reason == "design")
        near = np.zeros(len(start.points), dtype=bool)
        if self.rejections is not None:
            near = self.rejections.near(start.points)
        for x, forbidden in zip(start.points, near, strict=True):
            point = x.tobytes()
            if asked[point]:  # a list may have a point twice
                asked[point] -= 1
            elif not forbidden and point not in taken:
                yield np.asarray(x)

    def history(self) -> list[Row]:
        prior = (replace(row, params=own(row.params)) for row in self.prior)
        return [*prior, *(record.row() for record in self.trials)]

    def hand_out_as(self, others: Records) -> None:
        """Use the Trial objects of `others`, so that callers can still tell them."""
        for number, other in enumerate(others.trials[: len(self.trials)]):
            mine = replace(self.trials[number], trial=other.trial)
            self.trials[number] = mine
            for some in (self.waiting, self.proposed, self.rejected):
                if number in some:
                    some[number] = mine

    def _close(self, record: Record) -> None:
        self.trials[record.trial.number] = record
        self.waiting.pop(record.trial.number, None)

    def _wait(self, record: Record) -> None:
        """Make a trial pending that was not; the pending ones stay ordered by number."""
        self.trials[record.trial.number] = self.waiting[record.trial.number] = record
        self.waiting = dict(sorted(self.waiting.items()))

    def _given(self) -> Iterator[tuple[Array, dict[str, Scalar]]]:
        """The points that the user chose: prior data that stand, and adopted trials."""
        for x, row in zip(self.prior_x, self.prior, strict=True):
            if row.status == "observed":
                yield x, row.params
        for record in self.trials:
            if record.trial.decision.reason == "given":
                yield record.x, record.params

    def _check_mode(self, verb: str) -> None:
        if self.mode != "recommend":
            raise ConfigError(f"{verb}: needs mode='recommend', and the mode is {self.mode!r}")

    def _extended(self, event: Extended) -> Horizon:
        """The budget and the horizon after an extend."""
        if (event.budget is None) == (event.horizon is None):
            raise ConfigError(
                "extend: need either a budget, or a horizon for a run without an end, got"
                f" budget={shown(event.budget)} and horizon={shown(event.horizon)}"
            )
        if event.budget is None:
            ahead = whole("horizon", event.horizon, least=1, most=MAX_WHOLE)
            return self.given._replace(budget=None, ahead=ahead)
        least = max(1, self.used)
        return self.given._replace(budget=whole("budget", event.budget, least, MAX_WHOLE))


def joined(x: Array, at: Array) -> Array:
    """The point x in the context with the coordinates `at`."""
    return np.append(x, at) if len(at) else x


def _present(space: Space, x: Array, known: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """The parameters of the point x, with their known values as far as there are any."""
    return {name: known.get(name, value) for name, value in space.decode(x).items()}


def _check_approved(record: Record) -> None:
    """Raise TrialError for a trial that nobody has approved."""
    number = record.trial.number
    if record.status == "proposed":
        raise TrialError(f"trial {number} is only proposed: approve it before it is tried and told")
    if record.status in ("rejected", "reconsidered"):
        raise TrialError(
            f"trial {number} was rejected ({record.note}): if it was tried all the same, adopt its"
            " point and tell that trial"
        )


def _check_verdict(record: Record, verdict: str) -> None:
    """Raise TrialError for a trial that is not, or no longer, proposed."""
    if record.status == "proposed":
        return
    number, others = record.trial.number, {"told": "told already", "pending": "approved already"}
    was = others.get(record.status, f"{record.status} already")
    if record.status in ("rejected", "reconsidered"):
        was = f"rejected already ({record.note})"
    raise TrialError(f"trial {number} was {was}: it can't be {verdict}")


def _expect(kind: str, record: Record, *statuses: str) -> None:
    """Raise StorageError if an event does not fit the status of its trial."""
    if record.status not in statuses:
        raise StorageError(f"event {kind!r}: trial {record.trial.number} is {record.status}")


def _foremost(outcomes: Outcomes) -> Outcomes:
    """The objective alone, or the metrics if it is not known."""
    return {OBJECTIVE: outcomes[OBJECTIVE]} if OBJECTIVE in outcomes else outcomes


def _retraction(told: str, why: str | None) -> str:
    return f"its result {told} was retracted" + ("" if why is None else f": {why}")


def _row(
    number: int | None,
    status: str,
    params: dict[str, Scalar],
    outcomes: Outcomes,
    decision: Decision | None,
    time: datetime | None,
) -> Row:
    told, control = outcomes.get(OBJECTIVE), outcomes.get(CONTROL)
    value, sem, count = (told.value, told.sem, told.count) if told else (None, None, None)
    metrics = {name: each.value for name, each in outcomes.items() if name not in RESERVED}
    beside = None if control is None else control.value
    return Row(number, status, params, value, sem, count, decision, time, metrics, beside)


def _outcome(totals: Totals) -> Outcome:
    """The mean of reported results, with its standard error as far as the results tell it."""
    count, sem = totals.count, None
    if count > 1.0 and totals.scatter > 0.0:
        sem = sqrt(totals.scatter / (count * (count - 1.0)))
        sem = min(max(sem, LEAST_SCALE), MAX_RESULT)
    return Outcome(totals.mean, sem, count)


def _sentence(outcomes: Outcomes) -> str:
    """The outcomes in a message."""
    names = ("" if name == OBJECTIVE else f"{name} " for name in outcomes)
    return ", ".join(f"{name}{each}" for name, each in zip(names, outcomes.values(), strict=True))


def _checked_outcomes(outcomes: Outcomes, error: type[RegretlessError]) -> Outcomes:
    """The outcomes, after a check that the one to optimise or a metric is there."""
    if OBJECTIVE not in outcomes and not any(name not in RESERVED for name in outcomes):
        names = ", ".join(map(shown, outcomes)) or "none"
        raise error(f"outcomes: need {OBJECTIVE!r} or a metric, got {names}")
    for name, told in outcomes.items():
        if not isinstance(told, Outcome):
            raise error(f"outcomes: need an Outcome as {shown(name)}, got {shown(told)}")
    return outcomes
