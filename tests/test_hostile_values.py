"""Values that no careful program would send: each is refused with a short message."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import fuzzing
import regretless as rl
from regretless._internal.shown import shown
from regretless.studies.journal import Journal

HUGE = 10**5000


def ready() -> rl.Optimizer:
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(0, 9)}), budget=20)
    optimizer.tell(optimizer.ask(), 1.0)
    return optimizer


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda o: o.tell(0, np.timedelta64(5, "D")), "value: need a number, got"),
        (lambda o: o.tell(0, np.datetime64("2026-01-01")), "value: need a number, got"),
        (lambda o: o.tell(0, 1 + 2j), r"value: need a number, got \(1\+2j\)"),
        (lambda o: o.tell(0, HUGE), "value: need a number that is finite, got a number of 16610"),
        (lambda o: o.tell(0, np.array([])), "value: need a number, got array"),
        (lambda o: o.tell(0, np.ma.masked), "value: need a number, got None"),
        (lambda o: o.tell(0, fuzzing.NoRepr()), "value: need a number, got <NoRepr instance"),
        (lambda o: o.tell(HUGE, 1.0), "trial a number of 16610 binary digits was never asked"),
        (lambda o: o.tell(np.timedelta64(0), 1.0), "trial: need a Trial or its number, got"),
        (lambda o: o.extend(np.timedelta64(30, "s")), "budget: need a whole number, got"),
        (lambda o: o.extend(HUGE), "budget: need at most 1.*, got a number of 16610"),
        (lambda o: o.observe({"x": 0.5, "n": HUGE}, 1.0), "n: must be an integer, got a number of"),
        (lambda o: o.observe({"x": np.timedelta64(1), "n": 1}, 1.0), "x: must be a number in"),
        (lambda o: o.observe({"x": 0.5, "n": 1, "y" * 10**6: 1}, 1.0), "params: unknown 'yyy"),
        (lambda o: o.observe("x" * 10**6, 1.0), "params: must map names to values, got 'xxx"),
        (lambda o: o.landscape(Fraction(1, 2)), "points: need a list of points, got Fraction"),
        (lambda o: o.space.decode(np.array([])), r"x: need the shape \(2,\), got \(0,\)"),
        (lambda o: o.space.canonical([[1 + 2j, 0.0]]), r"X: need numbers, got \[\[\(1\+2j\)"),
        (lambda o: o.space.spread("text"), "U: need numbers, got 'text'"),
        (lambda o: rl.Categorical(Fraction(1, 2)), "must be a non-empty list, got Fraction"),
        (lambda o: rl.Categorical(range(10**9)), "need at most 100000 choices, got 1000000000"),
        (lambda o: rl.Int(-HUGE, HUGE), "Int: low must be an integer, got a number of"),
        (lambda o: rl.Space({"\ud800": rl.Float(0.0, 1.0)}), "is no valid text"),
        (lambda o: rl.Space({"x" * 10**6: rl.Float(0.0, 1.0)}), "a text of 1 to 1000 characters"),
        (lambda o: rl.Prior("low", 1.0, 0.0, 1.0), "need 0 < low < high, got 'low' and 1.0"),
        (lambda o: rl.SE(0.5), "lengthscales: need a list of numbers, got 0.5"),
        (
            lambda o: rl.Matern((0.5,), tuple(range(10**4))),
            "lengthscales: need one per column",
        ),
        (
            lambda o: rl.Ledger.of(o).total([{"x": 0.5, "n": 1}] * 2, [1e200, 1e200]),
            r"weights: need at most 1e\+100, got 1e\+200",
        ),
        (
            lambda o: rl.Ledger.of(o).total([{"x": 0.5, "n": 1}], [np.float16("nan")]),
            "weights: need numbers, got",
        ),
        (lambda o: rl.Model(kernel=["se"]), "kernel: need one of"),
        (lambda o: rl.Sequence("ab", HUGE, HUGE), "need 0 <= at_least <= at_most <= 1000, got"),
        (lambda o: rl.AtLeast("m", 1.0, of=np.array(["a", "b"])), "of: need 'baseline' or None"),
        (lambda o: rl.Space({"x": rl.Int(0, 3)}, where=np.array(0.5)), "need a list of limits"),
        (lambda o: rl.Space({"x": rl.Int(0, 3)}, where=range(10**9)), "at most 100 limits"),
        (lambda o: o.tell(0, 1.0, metrics={"m": range(10**12)}), "m: need a number, or a number"),
        (lambda o: o.change_space(add={"y": 0.5}), "add: y: need a parameter and the value"),
        (lambda o: fuzzing.remote().subject.change_space(add=[1]), "add: need a mapping"),
        (lambda o: fuzzing.remote().subject.change_space(add={"y": 0.5}), "add: y: need a param"),
        (lambda o: fuzzing.remote().subject.change_space(widen={"x": 1}), "widen: x: need a param"),
        (lambda o: rl.EI(np.array([])), "incumbent: need one of"),
    ],
)
def test_a_clean_error_and_nothing_changes(call: Any, message: str) -> None:
    optimizer = ready()
    before = optimizer.to_json()
    with pytest.raises(rl.RegretlessError, match=message) as raised:
        call(optimizer)
    assert len(str(raised.value)) < 1000
    assert optimizer.to_json() == before


def test_what_is_shown_is_short_and_like_repr() -> None:
    for value in (None, "a", 1, 0.5, {"b": 1, "a": [2, (3,)]}, np.float64(0.5), {1}, b"x"):
        assert shown(value) == repr(value)
    for value in ("x" * 10**6, [[0] * 10**4] * 100, {str(i): i for i in range(10**4)}, HUGE):
        assert len(shown(value)) < 300
    assert "NoRepr" in shown([fuzzing.NoRepr()])
    assert shown({i: i for i in range(30)}).endswith("… 10 more}")
    named = type("dict", (), {"__repr__": lambda self: "mine"})
    assert shown(named()) == "mine"


def test_numbers_of_numpy_are_still_taken() -> None:
    optimizer = ready()
    optimizer.observe({"x": np.float32(0.5), "n": np.int8(3)}, np.array(1.5), sem=np.float16(0.5))
    optimizer.extend(np.int64(30))
    assert rl.Ledger.of(optimizer).total([{"x": 0.5, "n": 3}], [np.float16(2.0)]).sd > 0.0
    assert rl.SE(np.array([0.5])).lengthscales == (0.5,)
    assert optimizer.space.decode([Fraction(1, 2), 0]) == {"x": 0.5, "n": 0}
    assert optimizer.space.canonical(np.array([[1, 0]], dtype=np.int8)).tolist() == [[1.0, 0.0]]


def test_hostile_names_of_a_study(tmp_path: Path) -> None:
    with rl.Study.open(tmp_path / "s.db", "s", space=fuzzing.SPACE, budget=3) as study:
        for name in (np.array([]), np.array(["a", "b"]), "", "\ud800", 10**5000, None):
            with pytest.raises(rl.ConfigError, match="name: need 1 to 200 printable"):
                study.rename(name)  # type: ignore[arg-type]


def test_hostile_values_in_every_call() -> None:
    assert list(fuzzing.inputs(11, 3_000)) == []


def test_hostile_values_in_a_study(tmp_path: Path) -> None:
    with Journal.open(tmp_path / "fuzz.db") as journal:
        assert list(fuzzing.inputs(12, 1_500, journal)) == []
        assert len(journal.studies()) == 1  # it may have another name now


@pytest.mark.slow
def test_many_hostile_values(tmp_path: Path) -> None:
    assert list(fuzzing.inputs(13, 100_000)) == []
    with Journal.open(tmp_path / "fuzz.db") as journal:
        assert list(fuzzing.inputs(14, 20_000, journal)) == []


HOSTILE_JSON = [
    b"1" * 5000,
    b"-" + b"9" * 100_000,
    b"1e999",
    b"NaN",
    b'"\\ud800"',
    b'"\\u0000"',
    b"[" * 50_000,
    b'{"a":' * 5_000,
    b"null",
    b"true",
    b"[]",
    b"{}",
    b'"' + b"x" * 900_000 + b'"',
    b"\xff\xfe",
    b"\xed\xa0\x80",
    b"",
]
BODIES = [
    ("", b'{"name": %s, "space": {"parameters": []}, "budget": 3}'),
    ("", b'{"name": "n", "space": %s, "budget": 3}'),
    (
        "",
        b'{"name": "n", "budget": 3, "space": {"parameters":'
        b' [{"name": "x", "type": "int", "low": 0, "high": %s}]}}',
    ),
    ("", b'{"name": "n", "space": {"parameters": [{"name": %s, "type": "float"}]}, "budget": %s}'),
    ("/s/ask", b'{"n": %s}'),
    ("/s/observe", b'{"params": {"x": %s}, "value": 1}'),
    ("/s/observe", b'{"params": {"x": 0.5}, "value": %s, "time": %s}'),
    ("/s/observe", b"%s"),
    ("/s/trials/0/tell", b'{"value": %s}'),
    ("/s/trials/0/tell", b'{"value": 1, "params": %s}'),
    ("/s/extend", b'{"budget": %s}'),
    ("/s/abandon", b'{"older_than": %s}'),
    ("/s/adopt", b'{"params": {%s: 1}}'),
]


def test_hostile_json(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from regretless.service.app import create_app

    api = "/api/studies"
    json_header = {"Content-Type": "application/json"}
    app = create_app(tmp_path / "s.db")
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as http:
        space = {"parameters": [{"name": "x", "type": "float", "low": 0.0, "high": 1.0}]}
        assert http.post(api, json={"name": "s", "space": space, "budget": 5}).status_code == 201
        http.post(f"{api}/s/ask", json={})
        for path, body in BODIES:
            for hostile in HOSTILE_JSON:
                content = body.replace(b"%s", hostile)
                answer = http.post(f"{api}{path}", content=content, headers=json_header)
                what = (path, body, hostile[:20], answer.status_code)
                assert answer.status_code < 500, what
                if answer.status_code >= 400:
                    assert len(answer.json()["detail"]) <= 1001, what
        assert json.loads(http.get(f"{api}/s").content)["name"] == "s"
