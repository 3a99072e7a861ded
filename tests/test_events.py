"""Events: one reader and one writer, for the versions of today and of earlier releases."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import regretless as rl
from regretless._internal.validate import LEAST_SCALE, MAX_RESULT
from regretless.engine import (
    Abandoned,
    Allocated,
    Approved,
    Archived,
    Asked,
    Baseline,
    Changed,
    Created,
    Ended,
    Event,
    Extended,
    Jumped,
    Observed,
    Outcome,
    Reconsidered,
    Rejected,
    Renamed,
    Reported,
    Retracted,
    Told,
    Unarchived,
    Unobserved,
    events,
    read,
    write,
)
from regretless.engine.traffic import Increment, Table, TableRow, Totals
from regretless.safety import OBJECTIVE

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})
NOON = datetime(2026, 1, 31, 12, 0, 0, 250_000, UTC)
WHY = rl.Decision("explore", "ids", 7, mean=0.1 + 0.2, z=-1.5, refitted=True)
FIT = {"theta": [0.5], "lam2": 0.1, "omega2": 1.0, "at": 3, "points": 3, "ok": True}
ONE = {OBJECTIVE: Outcome(1.5, sem=0.1, count=3)}


def through_json(value: Any) -> Any:
    return json.loads(json.dumps(value, allow_nan=False))


EVERY: list[Event] = [
    Created(through_json(rl.Optimizer(LINE, 9).spec())),
    Asked(4, {"x": 0.5, "k": True}, WHY),
    Asked(4, {"x": 0.5}, WHY, FIT),
    Told(4, ONE),
    Told(4, ONE, NOON, "request 7"),
    Told(4, {"cost": Outcome(-1e-300), OBJECTIVE: Outcome(2)}),
    Observed({"x": 0.5, "k": None}, ONE),
    Observed({"x": 0.5}, ONE, NOON),
    Abandoned(4),
    Extended(40),
    Extended(None, 100),
    Jumped(4, 7),
    Asked(4, {"x": 0.5}, WHY, proposed=True),
    Approved(4),
    Approved(4, "fine"),
    Rejected(4, "too slow\nfor our users"),
    Reconsidered(4),
    Reconsidered(4, "faster now"),
    Retracted(4),
    Retracted(4, "milliseconds", "request 8"),
    Unobserved(0),
    Unobserved(2, "another site"),
    Archived(),
    Unarchived(),
    Renamed("a", "b c"),
    Baseline({"x": 0.5, "k": True}),
    Asked(4, {"x": 0.5}, WHY, context={"hour": 6.0, "vip": True}),
    Told(4, ONE, context={"hour": 7.0}),
    Observed({"x": 0.5}, ONE, context={"hour": 8.0}),
    Changed([{"name": "x", "type": "float", "low": 0.0, "high": 2.0}], {"k": True}),
    Reported((Increment(4, Totals(10.0, 2.5, 7.0)), Increment(5, Totals(1.0, -0.5, None)))),
    Reported((Increment(4, Totals(0.0, 1.0, 1.0)),), NOON),
    Allocated(
        Table(3, NOON, 2, 600.0, 0.0, 0.05, (TableRow(0, 7, "baseline", 1.0, ((0, 10_000),)),)),
        (Asked(7, {"x": 0.5}, WHY, FIT),),
    ),
    Ended(4, "worse than the main row"),
]


@pytest.mark.parametrize("event", EVERY, ids=lambda event: type(event).__name__)
def test_what_was_written_is_read(event: Event) -> None:
    kind, version, body = write(event)
    assert kind == type(event).__name__.lower()
    again = read(kind, version, through_json(body))
    assert again == event
    assert repr(again) == repr(event)  # True is not 1
    assert through_json(write(again).body) == through_json(body)


def test_every_kind_has_its_version_and_every_older_version_a_way_up() -> None:
    assert {type(event) for event in EVERY} == set(events._KIND_OF)
    versions = {kind: known.version for kind, known in events._KINDS.items()}
    assert versions == {
        "created": 4,
        "asked": 1,
        "told": 3,
        "observed": 3,
        "abandoned": 1,
        "extended": 1,
        "jumped": 1,
        "approved": 1,
        "rejected": 1,
        "reconsidered": 1,
        "retracted": 1,
        "unobserved": 1,
        "archived": 1,
        "unarchived": 1,
        "renamed": 1,
        "baseline": 1,
        "changed": 1,
        "reported": 1,
        "allocated": 1,
        "ended": 1,
    }
    older = {(kind, v) for kind, newest in versions.items() for v in range(1, newest)}
    assert set(events._UPCASTS) == older


def test_the_form_of_a_result() -> None:
    assert write(Told(4, ONE, NOON, "request 7")) == (
        "told",
        2,
        {
            "number": 4,
            "time": "2026-01-31T12:00:00.250000+00:00",
            "outcomes": {"objective": {"value": 1.5, "sem": 0.1, "count": 3.0}},
            "key": "request 7",
        },
    )
    assert write(Observed({"x": 0.5}, {OBJECTIVE: Outcome(1.0)})).body == {
        "params": {"x": 0.5},
        "time": None,
        "outcomes": {"objective": {"value": 1.0, "sem": None, "count": 1.0}},
    }


@pytest.mark.parametrize(
    ("kind", "body", "event"),
    [
        (
            "told",
            {"number": 4, "value": 1.5, "sem": 0.1, "count": 3.0, "key": "request 7"},
            Told(4, ONE, key="request 7"),
        ),
        (
            "told",
            {"number": 4, "value": 1, "sem": None, "count": 1},
            Told(4, {OBJECTIVE: Outcome(1)}),
        ),
        (
            "observed",
            {"params": {"x": 0.5}, "value": 1.5, "sem": 0.1, "count": 3.0},
            Observed({"x": 0.5}, ONE),
        ),
    ],
)
def test_results_of_version_1(kind: str, body: dict[str, Any], event: Event) -> None:
    before = through_json(body)
    assert read(kind, 1, body) == event
    assert body == before


def test_settings_of_version_1() -> None:
    settings = rl.Optimizer(LINE, 9, defaults=1).spec()
    old = {name: value for name, value in settings.items() if name != "defaults"} | {"version": 1}
    assert read("created", 1, old) == Created(settings)
    assert settings["defaults"] == 1
    assert rl.Optimizer.from_spec(old).spec() == settings


TOLD = write(Told(4, ONE, NOON)).body
SETTINGS = rl.Optimizer(LINE, 9).spec()


def outcome(**changes: Any) -> dict[str, Any]:
    return TOLD | {"outcomes": {"objective": TOLD["outcomes"]["objective"] | changes}}


def reported(**changes: Any) -> dict[str, Any]:
    return {"time": None, "increments": [{"number": 1, "count": 2, "sum": 3.0} | changes]}


def allocated(slots: Any) -> dict[str, Any]:
    asked = {"number": 1, "params": {}, "decision": WHY.to_json()}
    row = {"row": 0, "role": "exploit", "share": 1.0, "slots": slots, "asked": asked}
    settings = {"version": 1, "arms": 2, "ttl": 60.0, "delay": 0.0, "end_early": 0.05}
    return {**settings, "time": NOON.isoformat(), "rows": [row]}


def without(body: dict[str, Any], name: str) -> dict[str, Any]:
    return {key: value for key, value in body.items() if key != name}


WRONG: list[tuple[str, Any, Any, str]] = [
    ("danced", 1, {}, "unknown kind 'danced' (version 1)"),
    ("asked", 2, {}, "version 2 of 'asked'; this release of regretless reads up to version 1"),
    ("told", 0, TOLD, "event 'told': need a version of at least 1, got 0"),
    ("told", "2", TOLD, "event 'told': need a version of at least 1, got '2'"),
    ("told", 2, [1], "event 'told', version 2: body: need an object, got [1]"),
    ("told", 2, without(TOLD, "number"), "event 'told', version 2: number: missing"),
    ("told", 2, TOLD | {"number": -1}, "version 2: number: need at least 0, got -1"),
    ("told", 2, TOLD | {"number": True}, "version 2: number: need a whole number, got True"),
    ("told", 2, without(TOLD, "time"), "event 'told', version 2: time: missing"),
    ("told", 2, TOLD | {"time": "noon"}, "version 2: time: need ISO 8601"),
    ("told", 2, TOLD | {"time": 5}, "version 2: time: need ISO 8601"),
    ("told", 2, TOLD | {"time": "2026-01-31T12:00:00"}, "version 2: time: need a time zone"),
    ("told", 2, TOLD | {"key": 5}, "version 2: key: need a text, got 5"),
    ("told", 2, without(TOLD, "outcomes"), "event 'told', version 2: outcomes: missing"),
    ("told", 2, TOLD | {"outcomes": 5}, "version 2: outcomes: need an object, got 5"),
    ("told", 2, TOLD | {"outcomes": {"a": 5}}, "version 2: outcomes.a: need an object, got 5"),
    ("told", 2, TOLD | {"outcomes": {"a": {}}}, "version 2: outcomes.a.value: missing"),
    ("told", 2, outcome(value="1"), "outcomes.objective: value: need a number, got '1'"),
    ("told", 2, outcome(sem=-1.0), "outcomes.objective: sem: need a positive standard error"),
    ("told", 2, outcome(count=0), "outcomes.objective: count: need a positive number"),
    ("told", 1, {"number": 4, "sem": None, "count": 1}, "event 'told', version 1: value: missing"),
    ("observed", 2, TOLD, "event 'observed', version 2: params: missing"),
    ("observed", 2, TOLD | {"params": [0]}, "params: need an object, got [0]"),
    ("asked", 1, {"number": 1, "params": {}, "decision": {}}, "version 1: decision: reason must"),
    ("asked", 1, {"number": 1, "params": {}, "decision": 5}, "version 1: decision: reason must"),
    (
        "asked",
        1,
        {"number": 1, "params": {}, "decision": WHY.to_json(), "fit": 5},
        "event 'asked', version 1: fit: need an object, got 5",
    ),
    ("abandoned", 1, {}, "event 'abandoned', version 1: number: missing"),
    ("extended", 1, {"budget": 0}, "event 'extended', version 1: budget: need at least 1, got 0"),
    ("extended", 1, {"budget": 1.5}, "version 1: budget: need a whole number, got 1.5"),
    (
        "asked",
        1,
        {"number": 1, "params": {}, "decision": WHY.to_json(), "proposed": "yes"},
        "event 'asked', version 1: proposed: need true or false, got 'yes'",
    ),
    ("approved", 2, {"number": 1}, "this release of regretless reads up to version 1"),
    ("approved", 1, {}, "event 'approved', version 1: number: missing"),
    ("approved", 1, {"number": 1, "why": " "}, "version 1: why: need 1 to 1000 printable"),
    ("rejected", 1, {"number": 1}, "event 'rejected', version 1: why: missing"),
    ("rejected", 1, {"number": 1, "why": "x" * 1001}, "why: need 1 to 1000 printable"),
    ("reconsidered", 1, {"number": -1}, "number: need at least 0, got -1"),
    ("retracted", 1, {"number": 1, "key": 5}, "version 1: key: need a text, got 5"),
    ("unobserved", 1, {"index": 1.5}, "index: need a whole number, got 1.5"),
    ("renamed", 1, {"old": "a", "new": ""}, "version 1: new: need 1 to 200 printable"),
    ("reported", 1, reported(count=None), "increments: need numbers, got [None, 3.0]"),
    ("reported", 1, reported(sum=None), "increments: need numbers, got [2, None]"),
    ("reported", 1, reported(sum_squares="9"), "increments: need numbers, got [2, 3.0, '9']"),
    ("allocated", 1, allocated(5), "rows.slots: need pairs of whole numbers, got 5"),
    ("allocated", 1, allocated([5]), "rows.slots: need pairs of whole numbers, got [5]"),
    ("allocated", 1, allocated([[0]]), "rows.slots: need pairs of whole numbers, got [[0]]"),
    ("allocated", 1, allocated([[0, "x"]]), "need pairs of whole numbers, got [[0, 'x']]"),
    ("created", 2, without(SETTINGS, "seed"), "event 'created', version 2: seed: missing"),
    ("created", 2, SETTINGS | {"version": 1}, "version 2: version: need 2, got 1"),
    ("created", 1, SETTINGS | {"version": 99}, "version 1: version: need 1, got 99"),
]


@pytest.mark.parametrize(("kind", "version", "body", "says"), WRONG, ids=lambda v: str(v)[:40])
def test_what_cannot_be_read_is_named(kind: str, version: Any, body: Any, says: str) -> None:
    with pytest.raises(rl.StorageError) as raised:
        read(kind, version, body)
    assert says in str(raised.value)


numbers = st.floats(-MAX_RESULT, MAX_RESULT)


@given(
    value=numbers | st.integers(-(10**20), 10**20),
    sem=st.none() | st.floats(LEAST_SCALE, MAX_RESULT),
    count=st.floats(5e-324, MAX_RESULT),
    time=st.none() | st.datetimes(timezones=st.timezones()).filter(lambda t: 1 < t.year < 9999),
)
def test_any_outcome_returns_as_it_was(
    value: float, sem: float | None, count: float, time: datetime | None
) -> None:
    told = Told(0, {OBJECTIVE: Outcome(value, sem, count)}, time and time.astimezone(UTC))
    assert read("told", 2, through_json(write(told).body)) == told
    number = told.outcomes[OBJECTIVE]
    old = {"number": 0, "value": number.value, "sem": number.sem, "count": number.count}
    assert read("told", 1, through_json(old)) == replace(told, time=None)


@given(value=st.sampled_from([float("nan"), float("inf"), "1", None, 1e200, 10**400, [1.0]]))
def test_an_outcome_that_can_t_be_right_does_not_exist(value: Any) -> None:
    with pytest.raises(rl.DataError, match="value: need a number"):
        Outcome(value)


# -- an optimiser ----------------------------------------------------------------------------------


def test_the_json_of_version_1_goes_on_to_the_same_bits() -> None:
    text = (Path(__file__).parent / "assets" / "optimizer-v1.json").read_text()
    opt = rl.Optimizer.from_json(text)
    assert [row.status for row in opt.history()].count("told") == 6
    assert (opt.budget, opt.defaults.version, len(opt.pending)) == (15, 1, 2)
    old = json.loads(text)["events"]
    assert [write(event).kind for event in opt.events] == [event["kind"] for event in old]
    again = rl.Optimizer.from_json(opt.to_json())
    assert json.loads(opt.to_json())["version"] == 2
    assert again.propose() == opt.propose()
    assert again.history() == opt.history()


def test_a_verb_is_made_without_changing_anything() -> None:
    opt = rl.Optimizer(LINE, 9)
    trial = opt.ask()
    before, records = opt.to_json(), opt._records
    told = records.telling(trial, ONE, NOON)
    assert told == Told(0, ONE, NOON)
    assert records.observing({"x": 0.5}, ONE) == Observed({"x": 0.5}, ONE)
    assert records.adopting({"x": 0.5}).number == 1
    assert records.abandoning(trial) == Abandoned(0)
    assert records.extending(9) is None
    assert records.extending(9, always=True) == records.extending(9, always=True) == Extended(9)
    assert opt.to_json() == before
    opt.apply(told)
    assert records.telling(trial, ONE) is None
    assert opt.history()[0].value == 1.5


@pytest.mark.parametrize("outcomes", [{}, {"control": Outcome(1.0)}])
def test_outcomes_without_the_objective(outcomes: dict[str, Outcome]) -> None:
    opt = rl.Optimizer(LINE, 9)
    opt.ask()
    before = opt.to_json()
    says = "outcomes: need 'objective' or a metric, got "
    with pytest.raises(rl.ConfigError, match=says):
        opt._records.telling(0, outcomes)
    with pytest.raises(rl.ConfigError, match=says):
        opt._records.observing({"x": 0.5}, outcomes)
    for event in (Told(0, outcomes), Observed({"x": 0.5}, outcomes)):
        with pytest.raises(rl.StorageError, match=says):
            opt.apply(event)
    assert opt.to_json() == before


@pytest.mark.parametrize(
    "event", [None, {"kind": "told"}, Created({}), Archived(), Unarchived(), Renamed("a", "b")]
)
def test_what_does_not_happen_to_an_optimiser(event: Any) -> None:
    with pytest.raises(rl.StorageError, match="need one that happens to an optimiser, got "):
        rl.Optimizer(LINE, 9).apply(event)


@pytest.mark.parametrize("defaults", [0, 6, "1", True])
def test_defaults_of_another_version(defaults: Any) -> None:
    with pytest.raises(
        rl.ConfigError, match="defaults: this release knows version 1, 2, 3, 4, 5, got "
    ):
        rl.Optimizer(LINE, 9, defaults=defaults)


def test_the_time_of_a_result() -> None:
    opt = rl.Optimizer(LINE, 9)
    first, second = opt.ask(2)
    berlin = timezone(timedelta(hours=1))
    opt.observe({"x": 0.5}, 1.0, time=NOON)
    opt.tell(first, 2.0, time=datetime(2026, 1, 31, 13, 0, 0, 250_000, berlin))
    opt.tell(second, 3.0)
    assert [row.time for row in opt.history()] == [NOON, NOON, None]
    assert [row.flat()["time"] for row in opt.history()] == [NOON.isoformat()] * 2 + [None]
    before = opt.to_json()
    opt.tell(first, 2.0, time=NOON + timedelta(days=1))  # a retry
    opt.tell(first, 2.0)
    assert opt.to_json() == before
    assert rl.Optimizer.from_json(before).history() == opt.history()


@pytest.mark.parametrize(
    "time",
    [
        datetime(2026, 1, 31),
        "2026-01-31T12:00:00Z",
        5,
        NOON.date(),
        datetime.min.replace(tzinfo=timezone(timedelta(hours=5))),
    ],
)
def test_a_time_that_can_t_be_right(time: Any) -> None:
    opt = rl.Optimizer(LINE, 9)
    opt.ask()
    before = opt.to_json()
    for verb in (
        lambda: opt.tell(0, 1.0, time=time),
        lambda: opt.observe({"x": 0.5}, 1.0, time=time),
    ):
        with pytest.raises(rl.DataError, match="time: need a ") as raised:
            verb()
        assert repr(time) in str(raised.value)
    assert opt.to_json() == before


@pytest.mark.parametrize("decision", [{}, 5, None, {"reason": "explore"}, {"mean": "high"}])
def test_a_damaged_decision_is_named(decision: Any) -> None:
    opt = rl.Optimizer(LINE, 9)
    opt.ask()
    document = json.loads(opt.to_json())
    known = document["events"][1]["body"]["decision"]
    whole = decision if decision != {"mean": "high"} else known | decision
    document["events"][1]["body"]["decision"] = whole
    with pytest.raises(rl.StorageError, match="event 'asked', version 1: decision"):
        rl.Optimizer.from_json(json.dumps(document))


@pytest.mark.parametrize(
    "event",
    [Told(0, {"objective": 5}), Observed({"x": 0.5}, {"objective": 5})],  # type: ignore[dict-item]
)
def test_an_event_of_wrong_types_changes_nothing(event: Any) -> None:
    opt = rl.Optimizer(LINE, 9)
    opt.ask()
    before = opt.to_json()
    with pytest.raises(rl.StorageError, match="need an Outcome as 'objective', got 5"):
        opt.apply(event)
    assert opt.to_json() == before
