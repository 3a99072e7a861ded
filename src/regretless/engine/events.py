"""The events of an optimiser: a frozen dataclass for each kind.

`write` returns the kind, the version and the body of an event, ready for JSON.  `read` makes the
event of them again, also if an older release wrote them.  No other function reads a body, except
for the settings of `Created`.

To change the body of a kind, give it a new version in `_KINDS`.  Then add a function to `_UPCASTS`
that converts the old body to the new one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from regretless._internal.shown import shown
from regretless._internal.validate import checked_result, time_from_iso, whole
from regretless.errors import DataError, RegretlessError, StorageError
from regretless.results import Decision, checked_decision
from regretless.space import Scalar

OBJECTIVE = "objective"  # the outcome that is optimised
SETTINGS_VERSION = 2  # of `Created`

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
        # The dataclass is frozen, so write to its dict.
        vars(self).update(value=value, sem=sem, count=count)

    def __str__(self) -> str:
        error = "" if self.sem is None else f" (sem {self.sem!r})"
        return f"{self.value!r}{error}{'' if self.count == 1 else f' (a mean of {self.count:g})'}"


@dataclass(frozen=True)
class Created:
    """An optimiser with these settings, see `Optimizer.spec`."""

    settings: Body


@dataclass(frozen=True)
class Asked:
    """A trial was asked for or adopted.

    `fit` is the fit that was made for it, as `Belief.source` has it; None if there was none.  The
    decision has plain numbers only, see `Decision.to_json`.
    """

    number: int
    params: dict[str, Scalar]
    decision: Decision
    fit: Body | None = None


@dataclass(frozen=True)
class Told:
    """The result of a trial arrived; `time` is when it was measured, if that is known."""

    number: int
    outcomes: dict[str, Outcome]
    time: datetime | None = None
    key: str | None = None  # the key that the caller gave; it is only stored


@dataclass(frozen=True)
class Observed:
    """A result from before the run, at a point that was not asked for."""

    params: dict[str, Scalar]
    outcomes: dict[str, Outcome]
    time: datetime | None = None


@dataclass(frozen=True)
class Abandoned:
    """The result of a trial is no longer waited for."""

    number: int


@dataclass(frozen=True)
class Extended:
    """The budget has a new total."""

    budget: int


@dataclass(frozen=True)
class Changed:
    """The space has other parameters from now on.

    `parameters` is the list in the JSON of the new space.  Its limits are those of the old one.
    `values` has the value that each added parameter had so far.
    """

    parameters: list[Body]
    values: dict[str, Scalar]


Event = Created | Asked | Told | Observed | Abandoned | Extended | Changed


class Written(NamedTuple):
    """An event as it is stored."""

    kind: str
    version: int
    body: Body


def write(event: Event) -> Written:
    """The event as it is stored, in the newest version of its kind."""
    kind = _KIND_OF[type(event)]
    known = _KINDS[kind]
    return Written(kind, known.version, known.write(event))


def read(kind: str, version: int, body: object) -> Event:
    """The event of a stored kind, version and body, of this release or an older one.

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
    return known.read(fields)


class _Fields:
    """The fields of a body.  Each is checked when it is read.  `version` is the stored one."""

    def __init__(self, kind: str, version: int, body: object, path: str = "") -> None:
        self.kind, self.version, self._path = kind, version, path
        if not isinstance(body, Mapping):
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
        if not isinstance(found, Mapping):
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


# -- each kind -------------------------------------------------------------------------------------

_SETTINGS = ("space", "budget", "seed", "policy", "direction", "design", "n0", "model", "defaults")


def _read_created(fields: _Fields) -> Created:
    _check_own_version(fields, SETTINGS_VERSION)
    for name in _SETTINGS:
        fields[name]
    return Created(dict(fields.body))


def _check_own_version(fields: _Fields, version: int) -> None:
    """Check the version in the body of settings, which are also stored without an event."""
    if fields["version"] != version:
        raise fields.wrong("version", f"need {version}, got {shown(fields['version'])}")


def _read_asked(fields: _Fields) -> Asked:
    return Asked(
        fields.whole("number", least=0),
        fields.object("params"),
        fields.checked("decision", _decision_of),
        None if fields.body.get("fit") is None else fields.object("fit"),
    )


def _decision_of(stored: Any) -> Decision:
    return checked_decision(Decision.from_json(stored))


def _write_asked(event: Asked) -> Body:
    fit = {} if event.fit is None else {"fit": event.fit}
    params, why = dict(event.params), dict(vars(event.decision))
    return {"number": event.number, "params": params, "decision": why, **fit}


def _read_told(fields: _Fields) -> Told:
    number, outcomes = fields.whole("number", least=0), _read_outcomes(fields)
    key = fields.body.get("key")
    if not isinstance(key, str | None):
        raise fields.wrong("key", f"need a text, got {shown(key)}")
    return Told(number, outcomes, fields.checked("time", time_from_iso), key)


def _write_told(event: Told) -> Body:
    body = {"number": event.number, **_write_result(event)}
    return body if event.key is None else {**body, "key": event.key}


def _read_observed(fields: _Fields) -> Observed:
    params, outcomes = fields.object("params"), _read_outcomes(fields)
    return Observed(params, outcomes, fields.checked("time", time_from_iso))


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
    return {"time": event.time and event.time.isoformat(), "outcomes": outcomes}


def _read_changed(fields: _Fields) -> Changed:
    listed = fields["parameters"]
    if not (isinstance(listed, list) and all(isinstance(each, Mapping) for each in listed)):
        raise fields.wrong("parameters", f"need a list of objects, got {shown(listed)}")
    return Changed([dict(each) for each in listed], fields.object("values"))


class _Kind(NamedTuple):
    version: int  # the newest one
    read: Callable[[_Fields], Event]
    write: Callable[[Any], Body]


_KINDS = {
    "created": _Kind(SETTINGS_VERSION, _read_created, lambda event: dict(event.settings)),
    "asked": _Kind(1, _read_asked, _write_asked),
    "told": _Kind(2, _read_told, _write_told),
    "observed": _Kind(2, _read_observed, _write_observed),
    "abandoned": _Kind(
        1,
        lambda fields: Abandoned(fields.whole("number", least=0)),
        lambda event: {"number": event.number},
    ),
    "extended": _Kind(
        1,
        lambda fields: Extended(fields.whole("budget", least=1)),
        lambda event: {"budget": event.budget},
    ),
    "changed": _Kind(
        1,
        _read_changed,
        lambda event: {"parameters": event.parameters, "values": dict(event.values)},
    ),
}
_KIND_OF: dict[type, str] = {
    Created: "created",
    Asked: "asked",
    Told: "told",
    Observed: "observed",
    Abandoned: "abandoned",
    Extended: "extended",
    Changed: "changed",
}


# -- older versions --------------------------------------------------------------------------------


def _created_1(fields: _Fields) -> Body:
    """Version 1 knew one set of defaults."""
    _check_own_version(fields, 1)
    return {**fields.body, "version": 2, "defaults": 1}


def _result_1(fields: _Fields) -> Body:
    """Version 1 had one number without a name, and no time."""
    outcome = {name: fields[name] for name in ("value", "sem", "count")}
    others = {name: value for name, value in fields.body.items() if name not in outcome}
    return {**others, "time": None, "outcomes": {OBJECTIVE: outcome}}


# From the body of this version to that of the next.
_UPCASTS: dict[tuple[str, int], Callable[[_Fields], Body]] = {
    ("created", 1): _created_1,
    ("told", 1): _result_1,
    ("observed", 1): _result_1,
}
