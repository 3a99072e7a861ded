"""The events of an optimiser: a frozen dataclass for each kind.

`write` returns the kind, the version and the body of an event, ready for JSON.  `read` makes the
event of them again, also if an older release wrote them.  No other function reads a body, except
for the settings of `Created`.

To change the body of a kind, give it a new version in `_KINDS`.  Then add a function to `_UPCASTS`
that converts the old body to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from regretless._internal.shown import shown
from regretless._internal.validate import (
    check_name,
    checked_result,
    checked_why,
    is_integer,
    is_number,
    time_from_iso,
    whole,
)
from regretless.engine.traffic import ROLES, Increment, Table, TableRow, Totals
from regretless.errors import ConfigError, DataError, RegretlessError, StorageError
from regretless.results import Decision, checked_decision
from regretless.safety import CONTROL, OBJECTIVE, Measured, checked_metrics, measured
from regretless.safety import SETTINGS as SAFETY
from regretless.space import Scalar

SETTINGS_VERSION = 2  # of `Created`
SAFE_SETTINGS_VERSION = 3  # of `Created` with settings of `Safety`: older releases must refuse it
MOVING_SETTINGS_VERSION = 4  # of `Created` with one of `MOVING`, for the same reason
MOVING = ("horizon", "drift", "contexts")  # settings for a system that changes, or without an end

# Of `Told` and `Observed`.  Version 3 may have metrics alone.
_VERSION_WITH_OBJECTIVE = 2

_NO_FITS: dict[str, Body] = {}  # one for all events: a study has thousands
_OBJECTS = (dict, Mapping)  # nearly always a dict, for which the second is not looked at

Body = dict[str, Any]


@dataclass(frozen=True)
class Outcome:
    """One measured number, with its standard error or the count that it is a mean of.

    Its fields are checked, and are plain numbers.
    """

    value: float
    sem: float | None = None
    count: float = 1.0

    def __post_init__(self) -> None:
        value, sem, count = checked_result(self.value, self.sem, self.count)
        # The dataclass is frozen.  `vars` would give each outcome a dict of its own, for good.
        object.__setattr__(self, "value", value)
        object.__setattr__(self, "sem", sem)
        object.__setattr__(self, "count", count)

    def __str__(self) -> str:
        error = "" if self.sem is None else f" (sem {self.sem!r})"
        return f"{self.value!r}{error}{'' if self.count == 1 else f' (a mean of {self.count:g})'}"


def outcomes_of(
    value: float | None,
    sem: float | None,
    count: float,
    metrics: Mapping[str, Measured] | None = None,
    control: Measured | None = None,
) -> dict[str, Outcome]:
    """The outcomes of a result: the objective, the metrics and the control.

    If `value` is None, the trial failed, and only its metrics are known.

    Raises:
        ConfigError: `metrics` or `control` has the wrong shape, or there are no metrics and no
            value, or what belongs to a value is given without it.
        DataError: a number is not valid; the message names it.
    """
    others = {} if metrics is None else checked_metrics(metrics)
    outcomes: dict[str, Outcome] = {}
    if value is not None:
        outcomes[OBJECTIVE] = Outcome(value, sem, count)
    elif not others:
        raise DataError("value: need a number, or metrics instead of it, got None")
    elif sem is not None or count != 1 or control is not None:
        raise ConfigError("sem, count and control: need a value with them, got None")
    if control is not None:
        others[CONTROL] = measured(CONTROL, control)
    for name, (number, error) in others.items():
        try:
            outcomes[name] = Outcome(number, error)
        except DataError as problem:
            raise DataError(f"{shown(name)}: {problem}") from None
    return outcomes


@dataclass(frozen=True)
class Created:
    """An optimiser with these settings, see `Optimizer.spec`."""

    settings: Body


@dataclass(frozen=True)
class Asked:
    """A trial was asked for or adopted.

    `fit` is the fit that was made for it, as `Belief.source` has it; None if there was none.  The
    decision has plain numbers only, see `Decision.to_json`.  `proposed` says that somebody has to
    approve the trial first.  `metric_fits` are the fits of metrics with guardrails, by name.
    `context` is the context that it is for; None if the run has no contexts.
    """

    number: int
    params: dict[str, Scalar]
    decision: Decision
    fit: Body | None = None
    proposed: bool = False
    metric_fits: dict[str, Body] = field(default_factory=dict)
    context: dict[str, Scalar] | None = None


@dataclass(frozen=True)
class Told:
    """The result of a trial arrived; `time` is when it was measured, if that is known.

    `context` is that of the result, if it turned out to be another one than that of the ask.
    """

    number: int
    outcomes: dict[str, Outcome]
    time: datetime | None = None
    key: str | None = None  # the key that the caller gave; it is only stored
    context: dict[str, Scalar] | None = None


@dataclass(frozen=True)
class Observed:
    """A result from before the run, at a point that was not asked for."""

    params: dict[str, Scalar]
    outcomes: dict[str, Outcome]
    time: datetime | None = None
    context: dict[str, Scalar] | None = None


@dataclass(frozen=True)
class Abandoned:
    """The result of a trial is no longer waited for."""

    number: int


@dataclass(frozen=True)
class Extended:
    """The budget has a new total; or there is none, and the run looks `horizon` ahead."""

    budget: int | None
    horizon: int | None = None


@dataclass(frozen=True)
class Jumped:
    """Something has changed suddenly: results from trial `number` on differ from earlier ones."""

    number: int
    noticed: int  # the trial with whose result it was noticed


@dataclass(frozen=True)
class Baseline:
    """The baseline is this setting from now on."""

    params: dict[str, Scalar]


@dataclass(frozen=True)
class Approved:
    """A proposed trial may be tried."""

    number: int
    why: str | None = None


@dataclass(frozen=True)
class Rejected:
    """A proposed trial must not be tried, nor what is near it while the reason stands."""

    number: int
    why: str


@dataclass(frozen=True)
class Reconsidered:
    """The reason for which a trial was rejected no longer stands."""

    number: int
    why: str | None = None


@dataclass(frozen=True)
class Retracted:
    """The result of a trial was wrong.  The trial is pending again."""

    number: int
    why: str | None = None
    key: str | None = None  # the key that the caller gave; it is only stored


@dataclass(frozen=True)
class Unobserved:
    """A result from before the run was wrong.  `index` counts such results from 0."""

    index: int
    why: str | None = None


@dataclass(frozen=True)
class Changed:
    """The space has other parameters from now on.

    `parameters` is the list in the JSON of the new space.  Its limits are those of the old one.
    `values` has the value that each added parameter had so far.
    """

    parameters: list[Body]
    values: dict[str, Scalar]


@dataclass(frozen=True)
class Reported:
    """Results of units were added to the totals of trials; `time` is when, if that is known."""

    increments: tuple[Increment, ...]
    time: datetime | None = None


@dataclass(frozen=True)
class Allocated:
    """The traffic is split by this table from now on.  Each of its rows has a new trial."""

    table: Table
    asked: tuple[Asked, ...]


@dataclass(frozen=True)
class Ended:
    """The row of a trial has left the table, because it is worse than the main row."""

    number: int
    why: str


@dataclass(frozen=True)
class Archived:
    """A study has no new trials any more, and lists leave it out."""


@dataclass(frozen=True)
class Unarchived:
    """A study goes on."""


@dataclass(frozen=True)
class Renamed:
    """A study has a new name."""

    old: str
    new: str


OfStudy = Archived | Unarchived | Renamed  # these do not happen to an optimiser
Event = (
    Created
    | Asked
    | Told
    | Observed
    | Abandoned
    | Extended
    | Jumped
    | Baseline
    | Approved
    | Rejected
    | Reconsidered
    | Retracted
    | Unobserved
    | Changed
    | Reported
    | Allocated
    | Ended
    | OfStudy
)


class Written(NamedTuple):
    """An event as it is stored."""

    kind: str
    version: int
    body: Body


def write(event: Event) -> Written:
    """The event as it is stored."""
    kind = _KIND_OF[type(event)]
    known = _KINDS[kind]
    return Written(kind, _version(event, known.version), known.write(event))


def _version(event: Event, newest: int) -> int:
    """The version that an event is written in: the oldest one that can have it.

    Older releases then read what they know, and refuse what they would not keep.
    """
    if isinstance(event, Created):
        return int(event.settings["version"])
    if isinstance(event, Told | Observed) and OBJECTIVE in event.outcomes:
        return _VERSION_WITH_OBJECTIVE
    return newest


def read(kind: str, version: int, body: object, written: datetime | None = None) -> Event:
    """The event of a stored kind, version and body, of this release or an older one.

    `written` is when it was stored.  A result without a time gets this time.

    Raises:
        StorageError: it cannot be read; the message names the kind, the version and the field.
    """
    known = _KINDS.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise StorageError(f"event: unknown kind {shown(kind)} (version {shown(version)})")
    if not isinstance(version, int) or version < 1:
        raise StorageError(
            f"event {shown(kind)}: need a version of at least 1, got {shown(version)}"
        )
    if version > known.version:
        raise StorageError(
            f"version {version} of {shown(kind)}; this release of regretless reads up to version "
            f"{known.version}: upgrade it"
        )
    fields = _Fields(kind, version, body)
    for older in range(version, known.version):
        fields = _Fields(kind, version, _UPCASTS[kind, older](fields))
    fields.written = written
    return known.read(fields)


class _Fields:
    """The fields of a body.  Each is checked when it is read.  `version` is the stored one."""

    written: datetime | None = None

    def __init__(self, kind: str, version: int, body: object, path: str = "") -> None:
        self.kind, self.version, self._path = kind, version, path
        if not isinstance(body, _OBJECTS):
            raise self.wrong(path or "body", f"need an object, got {shown(body)}")
        self.body = body

    def wrong(self, name: str, problem: str) -> StorageError:
        return StorageError(f"event {shown(self.kind)}, version {self.version}: {name}: {problem}")

    def __getitem__(self, name: str) -> Any:
        if name not in self.body:
            raise self.wrong(f"{self._path}{name}", "missing")
        return self.body[name]

    def inside(self, name: str) -> _Fields:
        """The fields of an object that is itself a field."""
        found = self[name]
        if not isinstance(found, _OBJECTS):
            raise self.wrong(f"{self._path}{name}", f"need an object, got {shown(found)}")
        return _Fields(self.kind, self.version, found, f"{self._path}{name}.")

    def checked(self, name: str, check: Callable[[Any], Any]) -> Any:
        """A field as `check` returns it."""
        value = self[name]
        try:
            return check(value)
        except RegretlessError as error:
            problem = str(error).removeprefix(f"{name}: ")
            raise self.wrong(f"{self._path}{name}", problem) from None

    def whole(self, name: str, least: int) -> int:
        number: int = self[name]
        if type(number) is int and number >= least:  # nearly always
            return number
        number = self.checked(name, lambda value: whole(name, value, least))
        return number

    def object(self, name: str) -> Body:
        return dict(self.inside(name).body)

    def time(self) -> datetime | None:
        """The time of a result."""
        if self["time"] is None:
            return self.written
        time: datetime | None = self.checked("time", time_from_iso)
        return time

    def why(self) -> str | None:
        """The reason that somebody gave, if any."""
        if self.body.get("why") is None:
            return None
        reason: str = self.checked("why", checked_why)
        return reason

    def key(self) -> str | None:
        """The key that the caller gave, if any."""
        key = self.body.get("key")
        if not isinstance(key, str | None):
            raise self.wrong("key", f"need a text, got {shown(key)}")
        return key

    def context(self) -> Body | None:
        """The context, if any."""
        return None if self.body.get("context") is None else self.object("context")

    def name(self, name: str) -> str:
        """The name of a study."""

        def checked(given: str) -> str:
            check_name(name, given)
            return given

        found: str = self.checked(name, checked)
        return found


# -- each kind -------------------------------------------------------------------------------------

_SETTINGS = ("space", "budget", "seed", "policy", "direction", "design", "n0", "model", "defaults")


def settings_version(settings: Mapping[str, Any]) -> int:
    """The oldest version of `Created` that can have these settings."""
    if any(name in settings for name in MOVING):
        return MOVING_SETTINGS_VERSION
    safe = any(name in settings for name in (*SAFETY, "optimum", "bound"))
    return SAFE_SETTINGS_VERSION if safe else SETTINGS_VERSION


def _read_created(fields: _Fields) -> Created:
    _check_own_version(fields, MOVING_SETTINGS_VERSION)
    for name in _SETTINGS:
        fields[name]
    settings = dict(fields.body)
    return Created({**settings, "version": settings_version(settings)})


def _check_own_version(fields: _Fields, version: int) -> None:
    """Check the version in the body of settings, which are also stored without an event."""
    if fields["version"] != version:
        raise fields.wrong("version", f"need {version}, got {shown(fields['version'])}")


def _read_asked(fields: _Fields) -> Asked:
    proposed = fields.body.get("proposed", False)
    if not isinstance(proposed, bool):
        raise fields.wrong("proposed", f"need true or false, got {shown(proposed)}")
    return Asked(
        fields.whole("number", least=0),
        fields.object("params"),
        fields.checked("decision", _decision_of),
        None if fields.body.get("fit") is None else fields.object("fit"),
        proposed,
        _read_metric_fits(fields),
        fields.context(),
    )


def _read_metric_fits(fields: _Fields) -> dict[str, Body]:
    if "metric_fits" not in fields.body:
        return _NO_FITS
    every = fields.inside("metric_fits")
    return {name: every.object(name) for name in every.body}


def _decision_of(stored: Any) -> Decision:
    return checked_decision(Decision.from_json(stored))


def _write_asked(event: Asked) -> Body:
    fit = {} if event.fit is None else {"fit": event.fit}
    params, why = dict(event.params), event.decision.to_json()
    # Older releases do not know these fields.  They refuse the settings of such a study.
    others: Body = {"proposed": True} if event.proposed else {}
    others |= {"metric_fits": event.metric_fits} if event.metric_fits else {}
    others |= _write_context(event)
    return {"number": event.number, "params": params, "decision": why, **fit, **others}


def _read_told(fields: _Fields) -> Told:
    number, outcomes = fields.whole("number", least=0), _read_outcomes(fields)
    return Told(number, outcomes, fields.time(), fields.key(), fields.context())


def _write_told(event: Told) -> Body:
    body = {"number": event.number, **_write_result(event)}
    return body if event.key is None else {**body, "key": event.key}


def _read_observed(fields: _Fields) -> Observed:
    params, outcomes = fields.object("params"), _read_outcomes(fields)
    return Observed(params, outcomes, fields.time(), fields.context())


def _write_observed(event: Observed) -> Body:
    return {"params": dict(event.params), **_write_result(event)}


def _read_outcomes(fields: _Fields) -> dict[str, Outcome]:
    outcomes, every = {}, fields.inside("outcomes")
    for name in every.body:
        each = every.inside(name)
        numbers = each["value"], each["sem"], each["count"]
        try:
            outcomes[name] = Outcome(*numbers)
        except DataError as error:
            raise fields.wrong(f"outcomes.{name}", str(error)) from None
    return outcomes


def _write_result(event: Told | Observed) -> Body:
    """The fields that both kinds of results have."""
    outcomes = {}
    for name, each in event.outcomes.items():
        outcomes[name] = {"value": each.value, "sem": each.sem, "count": each.count}
    time = event.time and event.time.isoformat()
    return {"time": time, "outcomes": outcomes, **_write_context(event)}


def _write_context(event: Asked | Told | Observed) -> Body:
    """The context.  Older releases do not know it, and refuse the settings of such a study."""
    return {} if event.context is None else {"context": dict(event.context)}


def _read_rejected(fields: _Fields) -> Rejected:
    return Rejected(fields.whole("number", least=0), fields.checked("why", checked_why))


def _without_none(event: Event) -> Body:
    """The fields of the event as its body, without those that are None."""
    return {name: value for name, value in vars(event).items() if value is not None}


def _read_extended(fields: _Fields) -> Extended:
    if fields.body.get("horizon") is not None and "budget" not in fields.body:
        return Extended(None, fields.whole("horizon", least=1))
    return Extended(fields.whole("budget", least=1))


def _read_changed(fields: _Fields) -> Changed:
    listed = fields["parameters"]
    if not (isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed)):
        raise fields.wrong("parameters", f"need a list of objects, got {shown(listed)}")
    return Changed([dict(each) for each in listed], fields.object("values"))


def _read_reported(fields: _Fields) -> Reported:
    listed = fields["increments"]
    if not isinstance(listed, list) or not listed:
        raise fields.wrong("increments", f"need a list of objects, got {shown(listed)}")
    found = []
    for each in listed:
        one = _Fields(fields.kind, fields.version, each, "increments.")
        squares = one.body.get("sum_squares")  # None if they are not known
        numbers = [one["count"], one["sum"], *([] if squares is None else [squares])]
        if not all(map(is_number, numbers)):
            raise fields.wrong("increments", f"need numbers, got {shown(numbers)}")
        totals = Totals(one["count"], one["sum"], squares)
        found.append(Increment(one.whole("number", least=0), totals))
    return Reported(tuple(found), fields.time())


def _write_reported(event: Reported) -> Body:
    increments = []
    for each in event.increments:
        sums: Body = {"count": each.totals.count, "sum": each.totals.sum}
        if each.totals.squares is not None:
            sums["sum_squares"] = each.totals.squares
        increments.append({"number": each.number, **sums})
    return {"time": event.time and event.time.isoformat(), "increments": increments}


def _read_allocated(fields: _Fields) -> Allocated:
    listed, rows, asked = fields["rows"], [], []
    if not isinstance(listed, list) or not listed:
        raise fields.wrong("rows", f"need a list of objects, got {shown(listed)}")
    for each in listed:
        one = _Fields(fields.kind, fields.version, each, "rows.")
        asked.append(_read_asked(one.inside("asked")))
        if one["role"] not in ROLES or not is_number(one["share"]):
            raise fields.wrong("rows", f"need a role and a share, got {shown(dict(one.body))}")
        row, number = one.whole("row", least=0), asked[-1].number
        rows.append(TableRow(row, number, one["role"], float(one["share"]), _read_slots(one)))
    settings = {name: fields[name] for name in ("ttl", "delay", "end_early")}
    if not all(map(is_number, settings.values())):
        raise fields.wrong("ttl", f"need numbers, got {shown(settings)}")
    time = fields.checked("time", time_from_iso)
    if time is None:
        raise fields.wrong("time", "missing")
    version, arms = fields.whole("version", least=1), fields.whole("arms", least=1)
    return Allocated(Table(version, time, arms, **settings, rows=tuple(rows)), tuple(asked))


def _read_slots(fields: _Fields) -> tuple[tuple[int, int], ...]:
    """The slots of a row: the first one and the end of each range."""
    listed = fields["slots"]
    ranges = isinstance(listed, list) and all(
        isinstance(each, list) and len(each) == 2 and all(map(is_integer, each)) for each in listed
    )
    if not ranges:
        raise fields.wrong("rows.slots", f"need pairs of whole numbers, got {shown(listed)}")
    return tuple((first, end) for first, end in listed)


def _write_allocated(event: Allocated) -> Body:
    table, rows = event.table, []
    for row, asked in zip(table.rows, event.asked, strict=True):
        slots = [list(each) for each in row.slots]
        place = {"row": row.row, "role": row.role, "share": row.share, "slots": slots}
        rows.append({**place, "asked": _write_asked(asked)})
    names = ("version", "arms", "ttl", "delay", "end_early")
    settings = {name: getattr(table, name) for name in names}
    return {**settings, "time": table.time.isoformat(), "rows": rows}


class _Kind(NamedTuple):
    version: int  # the newest one
    read: Callable[[_Fields], Event]
    write: Callable[[Any], Body]


_KINDS = {
    "created": _Kind(MOVING_SETTINGS_VERSION, _read_created, lambda event: dict(event.settings)),
    "asked": _Kind(1, _read_asked, _write_asked),
    "told": _Kind(3, _read_told, _write_told),
    "observed": _Kind(3, _read_observed, _write_observed),
    "abandoned": _Kind(
        1,
        lambda fields: Abandoned(fields.whole("number", least=0)),
        lambda event: {"number": event.number},
    ),
    "extended": _Kind(
        1,
        _read_extended,
        _without_none,
    ),
    "jumped": _Kind(
        1,
        lambda fields: Jumped(fields.whole("number", least=0), fields.whole("noticed", least=0)),
        _without_none,
    ),
    "baseline": _Kind(
        1,
        lambda fields: Baseline(fields.object("params")),
        lambda event: {"params": dict(event.params)},
    ),
    "approved": _Kind(
        1,
        lambda fields: Approved(fields.whole("number", least=0), fields.why()),
        _without_none,
    ),
    "rejected": _Kind(1, _read_rejected, _without_none),
    "reconsidered": _Kind(
        1,
        lambda fields: Reconsidered(fields.whole("number", least=0), fields.why()),
        _without_none,
    ),
    "retracted": _Kind(
        1,
        lambda fields: Retracted(fields.whole("number", least=0), fields.why(), fields.key()),
        _without_none,
    ),
    "unobserved": _Kind(
        1,
        lambda fields: Unobserved(fields.whole("index", least=0), fields.why()),
        _without_none,
    ),
    "archived": _Kind(1, lambda fields: Archived(), _without_none),
    "unarchived": _Kind(1, lambda fields: Unarchived(), _without_none),
    "renamed": _Kind(
        1,
        lambda fields: Renamed(fields.name("old"), fields.name("new")),
        _without_none,
    ),
    "changed": _Kind(
        1,
        _read_changed,
        lambda event: {"parameters": event.parameters, "values": dict(event.values)},
    ),
    "reported": _Kind(1, _read_reported, _write_reported),
    "allocated": _Kind(1, _read_allocated, _write_allocated),
    "ended": _Kind(
        1,
        lambda fields: Ended(fields.whole("number", least=0), fields.checked("why", checked_why)),
        _without_none,
    ),
}
_KIND_OF: dict[type, str] = {
    Created: "created",
    Asked: "asked",
    Told: "told",
    Observed: "observed",
    Abandoned: "abandoned",
    Extended: "extended",
    Jumped: "jumped",
    Baseline: "baseline",
    Approved: "approved",
    Rejected: "rejected",
    Reconsidered: "reconsidered",
    Retracted: "retracted",
    Unobserved: "unobserved",
    Archived: "archived",
    Unarchived: "unarchived",
    Renamed: "renamed",
    Changed: "changed",
    Reported: "reported",
    Allocated: "allocated",
    Ended: "ended",
}


# -- older versions --------------------------------------------------------------------------------


def _created_1(fields: _Fields) -> Body:
    """Version 1 knew one set of defaults."""
    _check_own_version(fields, 1)
    return {**fields.body, "version": 2, "defaults": 1}


def _created_2(fields: _Fields) -> Body:
    """Version 2 had no settings of `Safety`."""
    _check_own_version(fields, 2)
    return {**fields.body, "version": 3}


def _created_3(fields: _Fields) -> Body:
    """Version 3 had no settings for a system that changes."""
    _check_own_version(fields, 3)
    return {**fields.body, "version": 4}


def _result_1(fields: _Fields) -> Body:
    """Version 1 had one number without a name, and no time."""
    outcome = {name: fields[name] for name in ("value", "sem", "count")}
    others = {name: value for name, value in fields.body.items() if name not in outcome}
    return {**others, "time": None, "outcomes": {OBJECTIVE: outcome}}


# From the body of this version to that of the next.
_UPCASTS: dict[tuple[str, int], Callable[[_Fields], Mapping[str, Any]]] = {
    ("created", 1): _created_1,
    ("created", 2): _created_2,
    ("created", 3): _created_3,
    ("told", 1): _result_1,
    ("told", 2): lambda fields: fields.body,
    ("observed", 1): _result_1,
    ("observed", 2): lambda fields: fields.body,
}
