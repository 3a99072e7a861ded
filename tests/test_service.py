"""The service from inside one process: each verb, each error, each attack."""

from __future__ import annotations

import asyncio
import csv
import gc
import json
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import nullcontext
from datetime import datetime
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

import uvicorn
from starlette.testclient import TestClient

import regretless as rl
from regretless.engine import increment_of
from regretless.errors import ConfigError, StorageError, UnknownTrialError
from regretless.service import api, guard, open_studies, schema
from regretless.service.app import create_app, serve
from regretless.service.auth import Tokens
from regretless.service.rate import Rate
from regretless.studies.actor import acting, acting_as
from regretless.studies.journal import Journal

SPACE = {
    "parameters": [
        {"name": "x", "type": "float", "low": 0.0, "high": 1.0},
        {"name": "kind", "type": "categorical", "choices": ["a", "b"]},
    ]
}
NEW = {"name": "s", "space": SPACE, "budget": 6, "seed": 3}
READER, WRITER = "r" * 24, "w" * 24


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def http(file: Path) -> Iterator[TestClient]:
    with TestClient(create_app(file), base_url="http://localhost:8080") as client:
        yield client


@pytest.fixture
def study(http: TestClient) -> str:
    assert http.post("/api/studies", json=NEW).status_code == 201
    return "/api/studies/s"


def problem(response: Any, status: int, error: str | None = None) -> str:
    """The detail of a problem, which it must be."""
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    body = response.json()
    assert body["status"] == status
    assert body["title"]
    assert body.get("error") == error
    return str(body["detail"])


def asked(http: TestClient, study: str, key: str | None = None, **wish: Any) -> Any:
    response = http.post(f"{study}/ask", json=wish, headers={"Idempotency-Key": key} if key else {})
    assert response.status_code == 200, response.text
    return response.json()


# -- the verbs -------------------------------------------------------------------------------------


def test_approval(http: TestClient) -> None:
    assert http.post("/api/studies", json=NEW | {"mode": "recommend"}).status_code == 201
    study = "/api/studies/s"
    trials = asked(http, study, n=3)
    assert [trial["proposed"] for trial in trials] == [True] * 3
    detail = http.get(study).json()
    assert (detail["mode"], detail["proposed"], list(detail["proposals"])) == (
        "recommend",
        3,
        ["0", "1", "2"],
    )
    early = http.post(f"{study}/trials/0/tell", json={"value": 1.0})
    assert "approve it before" in problem(early, 409, "TrialError")
    for _ in range(2):
        done = http.post(f"{study}/trials/0/approve", json={})
        assert (done.status_code, done.content) == (204, b"")
    assert http.post(f"{study}/trials/0/tell", json={"value": 1.0}).status_code == 204
    assert http.post(f"{study}/trials/1/reject", json={"why": "no"}).status_code == 204
    late = http.post(f"{study}/trials/1/approve", json={})
    assert problem(late, 409, "TrialError") == (
        "trial 1 was rejected already (no): it can't be approved"
    )
    assert "why: missing" in problem(http.post(f"{study}/trials/2/reject", json={}), 422)
    empty = http.post(f"{study}/trials/2/reject", json={"why": " "})
    assert "why: need 1 to 1000" in problem(empty, 422, "ConfigError")
    other = http.post(f"{study}/trials/2/approve", json={"params": {"x": 9.0, "kind": "a"}})
    assert "belongs to another optimiser" in problem(other, 404, "UnknownTrialError")
    assert http.post(f"{study}/trials/1/reconsider", json={"why": "ok"}).status_code == 204
    rows = http.get(f"{study}/trials").json()
    assert [(row["status"], row["note"]) for row in rows] == [
        ("told", None),
        ("reconsidered", "no (reconsidered: ok)"),
        ("proposed", None),
    ]
    page = http.get(f"{study}/panels").json()
    assert [each["number"] for each in page["proposed"]] == [2]
    assert (page["counts"]["rejected"], page["mode"]) == (1, "recommend")


def test_corrections(http: TestClient, study: str) -> None:
    http.post(f"{study}/observe", json={"params": {"x": 0.5, "kind": "a"}, "value": 9.0})
    gone = http.post(f"{study}/observations/0/retract", json={"why": "seconds"})
    assert gone.status_code == 204
    missing = http.post(f"{study}/observations/1/retract", json={})
    assert "observation 1 was never told" in problem(missing, 404, "UnknownTrialError")
    asked(http, study)
    http.post(f"{study}/trials/0/tell", json={"value": 1.0}, headers={"Idempotency-Key": "t"})
    back = http.post(f"{study}/trials/0/retract", json={}, headers={"Idempotency-Key": "r"})
    assert back.status_code == 204
    # Both requests are sent again, because their answers were lost.
    http.post(f"{study}/trials/0/tell", json={"value": 1.0}, headers={"Idempotency-Key": "t"})
    assert http.get(study).json()["pending"] == 1
    assert http.post(f"{study}/trials/0/tell", json={"value": 2.0}).status_code == 204
    http.post(f"{study}/trials/0/retract", json={}, headers={"Idempotency-Key": "r"})
    detail = http.get(study).json()
    assert (detail["told"], detail["observed"], detail["retracted"]) == (1, 0, 1)
    kinds = [event["kind"] for event in http.get(f"{study}/events").json()]
    assert kinds == ["created", "observed", "unobserved", "asked", "told", "retracted", "told"]
    trials = http.get(f"{study}/panels").json()["trials"]
    assert [(row["prior"], row["number"], row["value"]) for row in trials] == [
        (0, None, None),
        (None, 0, 2.0),
    ]


def test_archive_and_rename(http: TestClient, study: str) -> None:
    assert http.post(f"{study}/archive", json={}).status_code == 204
    assert http.get("/api/studies").json() == []
    (line,) = http.get("/api/studies?archived=true").json()
    assert (line["name"], line["archived"]) == ("s", True)
    refused = http.post(f"{study}/ask", json={})
    assert "study 's' is archived" in problem(refused, 409, "ArchivedError")
    assert http.get(f"{study}/panels").json()["archived"] is True
    assert http.post(f"{study}/unarchive", json={}).status_code == 204
    for _ in range(2):  # again, because the answer was lost
        assert http.post(f"{study}/rename", json={"name": "t"}).status_code == 204
    old = problem(http.get(study), 404, "UnknownStudyError")
    assert old == "study 's' was renamed: it is 't' now"
    assert [each["name"] for each in http.get("/api/studies").json()] == ["t"]
    assert asked(http, "/api/studies/t")["number"] == 0
    assert http.post("/api/studies", json=NEW).status_code == 404
    slash = http.post("/api/studies/t/rename", json={"name": "a/b"})
    assert "between two slashes" in problem(slash, 422)
    nobody = http.post("/api/studies/z/rename", json={"name": "y"})
    assert "there is no study 'z'" in problem(nobody, 404, "UnknownStudyError")


def test_a_loop_decides_exactly_as_without_a_service(http: TestClient, study: str) -> None:
    expected = rl.Optimizer(rl.Space.from_json(SPACE), 6, seed=3)
    for _ in range(6):
        trial, own = asked(http, study), expected.ask()
        assert (trial["number"], trial["params"]) == (own.number, own.params)
        assert trial["decision"] == {"sentence": str(own.decision), **own.decision.to_json()}
        value = own.params["x"] + (own.params["kind"] == "b")  # type: ignore[operator]
        expected.tell(own, value)
        tell = http.post(f"{study}/trials/{trial['number']}/tell", json={"value": value})
        assert (tell.status_code, tell.content) == (204, b"")
    assert http.get(f"{study}/best").json() == vars(expected.best())
    assert asked(http, study)["decision"]["reason"] == "exhausted"
    refused = http.post(f"{study}/ask", json={"within_budget": True})
    assert problem(refused, 409, "BudgetError") == "the budget of 6 is spent; extend it to go on"


def test_creating_again_is_fine_with_the_same_settings_only(http: TestClient, study: str) -> None:
    again = http.post("/api/studies", json=NEW)
    assert (again.status_code, again.json()["remaining"]) == (200, 6)
    other = http.post("/api/studies", json=NEW | {"budget": 7})
    assert "budget: 6 there, 7 here" in problem(other, 422, "ConfigError")


def test_no_end_date_and_drift(http: TestClient) -> None:
    new = {**NEW, "name": "e", "budget": None, "horizon": 20, "drift": {"half_life": 50.0}}
    assert http.post("/api/studies", json=new).json()["budget"] is None
    place = "/api/studies/e"
    for number in range(3):
        trial = asked(http, place, within_budget=True)
        http.post(f"{place}/trials/{number}/tell", json={"value": trial["params"]["x"]})
    detail = http.get(place).json()
    assert (detail["budget"], detail["horizon"], detail["remaining"]) == (None, 20, 20)
    assert detail["drift"]["jumps"] == []
    assert detail["settings"]["drift"] == {"half_life": 50.0, "jumps": True}
    assert http.post(f"{place}/extend", json={"budget": 9}).status_code == 204
    assert http.get(place).json()["remaining"] == 6
    assert http.post(f"{place}/extend", json={"horizon": 30}).status_code == 204
    assert http.get(place).json()["remaining"] == 30
    problem(http.post(f"{place}/extend", json={}), 422, "ConfigError")
    problem(http.post("/api/studies", json=new | {"name": "f", "drift": "fast"}), 422)


def test_list_and_detail(http: TestClient, study: str) -> None:
    assert http.post("/api/studies", json=NEW | {"name": "a b/%"[:4]}).status_code == 422
    assert http.post("/api/studies", json=NEW | {"name": "ä <b>"}).status_code == 201
    trial = asked(http, study)
    http.post(f"{study}/trials/{trial['number']}/tell", json={"value": 2.0, "sem": 0.5, "count": 9})
    asked(http, study)
    listed = {each["name"]: each for each in http.get("/api/studies").json()}
    assert list(listed) == ["s", "ä <b>"]
    s = listed["s"]
    counts = {name: s[name] for name in ("budget", "asked", "told", "pending", "remaining")}
    assert counts == {"budget": 6, "asked": 2, "told": 1, "pending": 1, "remaining": 4}
    assert s["direction"] == "maximize"
    assert s["best"]["low"] < s["best"]["mean"] < s["best"]["high"]
    assert listed["ä <b>"]["best"] is None
    detail = http.get(study).json()
    assert {key: detail[key] for key in s} == s
    assert detail["settings"]["space"]["parameters"][1]["choices"] == ["a", "b"]
    assert list(detail["waiting"]) == ["1"]
    assert http.get("/api/studies/ä <b>").json()["name"] == "ä <b>"


def test_a_study_that_cannot_be_read_does_not_hide_the_others(
    http: TestClient, study: str, file: Path
) -> None:
    with Journal.open(file) as journal:
        journal.append("broken", "created", {"version": 99})
    broken, fine = http.get("/api/studies").json()
    assert (broken["name"], fine["name"], fine["error"]) == ("broken", "s", None)
    assert "version" in broken["error"]
    assert "event 1" in problem(http.get("/api/studies/broken"), 500, "CorruptJournalError")


def test_what_the_results_are_called(http: TestClient) -> None:
    new = {"name": "named", "budget": 9, "space": SPACE, "metric": "speed", "unit": "m/s"}
    made = http.post("/api/studies", json=new)
    assert made.status_code == 201
    assert (made.json()["metric"], made.json()["unit"]) == ("speed", "m/s")
    assert made.json()["verdict"].startswith("Waiting for the first result")
    other = http.post("/api/studies", json=new | {"unit": "km/h"})
    assert "unit: 'm/s' there, 'km/h' here" in problem(other, 422, "ConfigError")
    panels = http.get("/api/studies/named/panels").json()
    assert (panels["metric"], panels["unit"], panels["allocation"]) == ("speed", "m/s", None)
    assert panels["verdict"]["state"] == "waiting"


def test_the_table_of_all_trials(http: TestClient, study: str) -> None:
    trial = asked(http, study)
    http.post(f"{study}/trials/{trial['number']}/tell", json={"value": 2.5})
    answer = http.get(f"{study}/export")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    (row,) = csv.DictReader(StringIO(answer.text))
    assert (row["number"], row["value"]) == ("0", "2.5")
    assert datetime.fromisoformat(row["time"]).tzinfo is not None
    assert {f"params_{name}" for name in trial["params"]} <= row.keys()


def test_a_wrong_address_is_a_page_for_people_and_json_for_programs(http: TestClient) -> None:
    page = http.get("/nowhere", headers={"Accept": "text/html,*/*"})
    assert page.status_code == 404
    assert "there is no such page" in page.text
    assert "Content-Security-Policy" in page.headers
    assert http.get("/nowhere").json()["status"] == 404


def test_keys(http: TestClient, study: str) -> None:
    first = asked(http, study, key="k")
    assert asked(http, study, key="k") == first
    assert asked(http, study, key="other")["number"] == 1
    batch = asked(http, study, key="many", n=2)
    assert asked(http, study, key="many", n=2) == batch
    known = {"params": {"x": 0.5, "kind": "a"}, "value": 1.0}
    for _ in range(2):
        done = http.post(f"{study}/observe", json=known, headers={"Idempotency-Key": "k"})
        assert done.status_code == 204
    assert len(http.get(f"{study}/observations").json()) == 1
    other = http.post(
        f"{study}/observe", json=known | {"value": 2.0}, headers={"Idempotency-Key": "k"}
    )
    assert "was used before" in problem(other, 409, "TrialError")
    for _ in range(2):
        done = http.post(
            f"{study}/trials/0/tell", json={"value": 1.0}, headers={"Idempotency-Key": "k"}
        )
        assert done.status_code == 204
    kinds = [event["kind"] for event in http.get(f"{study}/events").json()]
    assert kinds == ["created", "asked", "asked", "asked", "asked", "observed", "told"]


def test_the_time_of_a_result(http: TestClient, study: str) -> None:
    noon = "2026-01-31T12:00:00Z"
    known = {"params": {"x": 0.5, "kind": "a"}, "value": 1.0, "time": noon}
    assert http.post(f"{study}/observe", json=known).status_code == 204
    asked(http, study, n=2)
    told = http.post(f"{study}/trials/0/tell", json={"value": 1.0, "time": noon})
    assert told.status_code == 204
    assert http.get(f"{study}/observations").json()[0]["time"] == noon
    assert [row["time"] for row in http.get(f"{study}/trials").json()] == [noon, None]
    event = http.get(f"{study}/events").json()[-1]
    assert (event["kind"], event["version"]) == ("told", 2)
    assert event["body"]["time"] == "2026-01-31T12:00:00+00:00"
    for time, says in (("2026-01-31T12:00:00", "time zone"), ("noon", "ISO 8601")):
        wrong = http.post(f"{study}/trials/1/tell", json={"value": 1.0, "time": time})
        assert says in problem(wrong, 422, "DataError")
        assert repr(time) in wrong.json()["detail"]
    for time in (5, True, ["x"]):
        problem(http.post(f"{study}/trials/1/tell", json={"value": 1.0, "time": time}), 422)


def test_abandon_and_extend(http: TestClient, study: str) -> None:
    asked(http, study, n=3)
    assert http.post(f"{study}/trials/0/abandon", json={}).status_code == 204
    assert http.post(f"{study}/trials/0/tell", json={"value": 1.0}).status_code == 204
    assert "told already" in problem(
        http.post(f"{study}/trials/0/abandon", json={}), 409, "TrialError"
    )
    gone = http.post(f"{study}/abandon", json={"older_than": 0})
    assert gone.json() == {"numbers": [1, 2]}
    assert http.post(f"{study}/extend", json={"budget": 9}).status_code == 204
    assert http.get(study).json()["remaining"] == 6
    assert "at least 3, got 2" in problem(
        http.post(f"{study}/extend", json={"budget": 2}), 422, "ConfigError"
    )


def test_paging(http: TestClient, study: str) -> None:
    asked(http, study, n=6)
    for x in (0.1, 0.2, 0.3):
        http.post(f"{study}/observe", json={"params": {"x": x, "kind": "a"}, "value": x})

    def page(path: str, **query: int) -> Any:
        return http.get(f"{study}/{path}", params=query).json()

    assert [row["number"] for row in page("trials")] == [0, 1, 2, 3, 4, 5]
    assert [row["number"] for row in page("trials", after=1, limit=3)] == [2, 3, 4]
    assert page("trials", after=5) == []
    assert [row["value"] for row in page("observations", after=1, limit=1)] == [0.2]
    assert [event["seq"] for event in page("events", after=7)] == [8, 9, 10]
    assert [event["seq"] for event in page("events", after=2, limit=2)] == [3, 4]
    assert page("events", after=10) == []
    late = http.get(f"{study}/events", params={"after": 11})
    assert problem(late, 422, "ConfigError") == "after: the last event is 10, got 11"
    for query in ({"limit": 0}, {"limit": schema.MAX_PAGE + 1}, {"after": -2}, {"after": 2**31}):
        problem(http.get(f"{study}/trials", params=query), 422)


def test_panels_are_computed_once_for_each_state(http: TestClient, study: str) -> None:
    pytest.importorskip("regretless.service.page_data")
    first = http.get(f"{study}/panels")
    seen = {"If-None-Match": first.headers["etag"]}
    assert first.status_code == 200
    assert first.json()["name"] == "s"
    again = http.get(f"{study}/panels", headers=seen)
    assert (again.status_code, again.content) == (304, b"")
    asked(http, study)
    news = http.get(f"{study}/panels", headers=seen)
    assert news.status_code == 200
    assert news.headers["etag"] != first.headers["etag"]


def test_what_others_write_is_seen(http: TestClient, study: str, file: Path) -> None:
    with rl.Study.open(file, "s") as other:
        other.tell(other.ask(), 1.0)
    assert asked(http, study)["number"] == 1
    assert http.get("/api/studies").json()[0]["told"] == 1


def test_a_restored_backup_is_read_afresh(http: TestClient, study: str, file: Path) -> None:
    asked(http, study, n=3)
    with Journal.open(file) as journal:
        journal._run(
            lambda conn: conn.exec_driver_sql("DELETE FROM regretless_events WHERE seq > 2")
        )
    missing = http.post(f"{study}/ask", json={})
    assert "missing, although it was read before" in problem(missing, 500, "CorruptJournalError")
    assert asked(http, study)["number"] == 1


def test_a_restored_backup_that_others_went_on_from(
    http: TestClient, study: str, file: Path
) -> None:
    trial = asked(http, study)["number"]
    http.post(f"{study}/trials/{trial}/tell", json={"value": 111.0})
    before = http.get(f"{study}/panels")
    assert http.get("/api/studies").json()[0]["best"]["luckiest"] == 111.0
    with Journal.open(file) as journal:
        journal._run(
            lambda conn: conn.exec_driver_sql("DELETE FROM regretless_events WHERE seq > 2")
        )
    with rl.Study.open(file, "s") as worker:
        worker.tell(trial, -5.0)
    assert http.get("/api/studies").json()[0]["error"].endswith("not the one that was read before")
    assert http.get("/api/studies").json()[0]["best"]["luckiest"] == -5.0
    panels = http.get(f"{study}/panels", headers={"If-None-Match": before.headers["etag"]})
    assert (panels.status_code, panels.json()["best"]["luckiest"]) == (200, -5.0)
    told = http.post(f"{study}/trials/{trial}/tell", json={"value": 111.0})
    assert "was told -5.0, now 111.0" in problem(told, 409, "TrialError")


def test_a_late_retry_undoes_nothing(http: TestClient, study: str) -> None:
    def post(path: str, key: str, **body: Any) -> int:
        return http.post(study + path, json=body, headers={"Idempotency-Key": key}).status_code

    asked(http, study)
    assert post("/extend", "a", budget=6) == 204  # as it is; but it was said
    assert post("/extend", "b", budget=80) == post("/extend", "c", budget=120) == 204
    assert post("/extend", "a", budget=6) == post("/extend", "b", budget=80) == 204
    assert http.get(study).json()["budget"] == 120
    assert post("/extend", "b", budget=81) == 409
    assert post("/trials/0/abandon", "d") == post("/trials/0/tell", "e", value=1.0) == 204
    assert post("/trials/0/abandon", "d") == 204
    assert http.get(study).json()["told"] == 1
    assert post("/trials/0/abandon", "f") == 409


def test_studies_that_were_not_used_for_long_are_closed(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_studies, "MOST_OPEN", 2)
    for name in "abc":
        http.post("/api/studies", json=NEW | {"name": name})
        assert asked(http, f"/api/studies/{name}")["number"] == 0
    assert len(http.app.state.studies._open) == 2  # type: ignore[attr-defined]
    assert asked(http, "/api/studies/a")["number"] == 1
    assert len(http.get("/api/studies").json()) == 3


def test_the_study_that_is_closed_is_the_one_not_used_for_longest(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_studies, "MOST_OPEN", 2)
    for name in "abc":
        http.post("/api/studies", json=NEW | {"name": name})
    for name in "abac":
        asked(http, f"/api/studies/{name}")
    assert list(http.app.state.studies._open) == ["a", "c"]  # type: ignore[attr-defined]


def test_studies_over_one_journal_do_not_close_it(file: Path) -> None:
    space = rl.Space.from_json(SPACE)
    with Journal.open(file) as journal:
        with rl.Study.open(journal, "a", space=space, budget=5) as first:
            assert first.ask().number == 0
        with rl.Study.open(journal, "b", space=space, budget=5) as second:
            assert second.ask().number == 0
        assert [info.events for info in journal.studies()] == [2, 2]


# -- errors and attacks ----------------------------------------------------------------------------


def nested(depth: int) -> str:
    return "[" * depth + "]" * depth


@pytest.mark.parametrize(
    ("path", "body", "status", "says"),
    [
        ("/api/studies/s/ask", "{", 400, "not JSON"),
        ("/api/studies/s/ask", "[]", 422, "a list of 0"),
        ("/api/studies/s/ask", '{"n": "2"}', 422, "got '2'"),
        ("/api/studies/s/ask", '{"n": true}', 422, "got True"),
        ("/api/studies/s/ask", '{"n": 101}', 422, "100"),
        ("/api/studies/s/ask", '{"m": 1}', 422, "m: "),
        ("/api/studies/s/ask", nested(500), 422, "a list of 1"),
        ("/api/studies/s/ask", nested(100_000), 400, "body"),
        ("/api/studies/s/ask", '{"n": ' + "9" * 5000 + "}", 400, "body"),
        ("/api/studies/s/ask", '{"n": "' + "x" * guard.MAX_BODY + '"}', 413, "1048576 bytes"),
        ("/api/studies/s/trials/9/tell", '{"value": 1}', 404, "trial 9 was never asked"),
        ("/api/studies/s/trials/-1/tell", '{"value": 1}', 422, "got '-1'"),
        ("/api/studies/s/trials/x/tell", '{"value": 1}', 422, "got 'x'"),
        ("/api/studies/s/trials/" + "9" * 5000 + "/tell", '{"value": 1}', 422, "number"),
        ("/api/studies/s/trials/0/tell", '{"value": NaN}', 422, "got nan"),
        ("/api/studies/s/trials/0/tell", '{"value": 1e999}', 422, "got inf"),
        ("/api/studies/s/trials/0/tell", '{"value": "1"}', 422, "got '1'"),
        ("/api/studies/s/trials/0/tell", '{"value": true}', 422, "got True"),
        ("/api/studies/s/trials/0/tell", '{"value": null}', 422, "got None"),
        ("/api/studies/s/trials/0/tell", "{}", 422, "value: missing"),
        ("/api/studies/s/trials/0/tell", '{"value": 1, "sem": -1}', 422, "got -1.0"),
        ("/api/studies/s/trials/0/tell", '{"value": 1, "count": 0}', 422, "got 0.0"),
        ("/api/studies/s/observe", '{"params": {"x": 2, "kind": "a"}, "value": 1}', 422, "got 2"),
        ("/api/studies/s/observe", '{"params": {"x": 0}, "value": 1}', 422, "no value for 'kind'"),
        ("/api/studies/s/observe", '{"params": {"x": {}, "kind": "a"}, "value": 1}', 422, "x"),
        ("/api/studies/s/observe", '{"params": {"\\ud800": 1}, "value": 1}', 422, "ud800"),
        ("/api/studies/s/extend", '{"budget": 1e99}', 422, "budget"),
        ("/api/studies/s/abandon", '{"older_than": 1e300}', 422, "older_than"),
        ("/api/studies/s/abandon", '{"older_than": NaN}', 422, "older_than"),
        ("/api/studies/none/ask", "{}", 404, "there is no study 'none'"),
        ("/api/studies/" + "n" * 201 + "/ask", "{}", 422, "200"),
        ("/api/studies/%00/ask", "{}", 422, "printable"),
        ("/api/studies/%0d%0aSet-Cookie:x/ask", "{}", 422, "printable"),
        ("/api/studies/..%2f..%2fetc%2fpasswd/ask", "{}", 404, "Not Found"),
        ("/api/studies/s';DROP TABLE regretless_events;--/ask", "{}", 404, "there is no study"),
        ("/api/nothing", "{}", 404, "Not Found"),
        ("/api/studies/s/best", "{}", 405, "Not Allowed"),
    ],
)
def test_a_request_that_cannot_be_right_says_why(
    http: TestClient, study: str, path: str, body: str, status: int, says: str
) -> None:
    asked(http, study)
    response = http.post(path, content=body, headers={"Content-Type": "application/json"})
    assert response.status_code == status, response.text
    assert response.headers["content-type"] == "application/problem+json"
    assert says in response.json()["detail"]
    assert len(response.content) < 3000
    assert len(http.get(f"{study}/events").json()) == 2


PARAMETER = {"name": "x", "type": "float", "low": 0, "high": 1}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"name": ""}, "name"),
        ({"name": "n" * 201}, "200"),
        ({"name": "a/b"}, "slashes"),
        ({"name": ".."}, "slashes"),
        ({"name": "a\x00b"}, "printable"),
        ({"name": 7}, "got 7"),
        ({"budget": 0}, "budget"),
        ({"budget": schema.MAX_BUDGET + 1}, "budget"),
        ({"budget": 2.5}, "got 2.5"),
        ({"seed": -1}, "got -1"),
        ({"n0": 10**9}, "n0"),
        ({"direction": "up"}, "got 'up'"),
        ({"policy": "__import__('os')"}, "policy: need one of"),
        ({"model": {}}, "model"),
        ({"space": {}}, "parameters: missing"),
        ({"space": {"parameters": []}}, "parameters"),
        ({"space": {"parameters": [PARAMETER] * 101}}, "100"),
        ({"space": {"parameters": [PARAMETER] * 2}}, "distinct"),
        ({"space": {"parameters": [PARAMETER | {"low": 2}]}}, "low < high"),
        ({"space": {"parameters": [PARAMETER | {"high": "1"}]}}, "got '1'"),
        ({"space": {"parameters": [PARAMETER | {"type": "os.system"}]}}, "got 'os.system'"),
        ({"space": {"parameters": [PARAMETER | {"name": "n" * 1001}]}}, "1000"),
        ({"space": {"parameters": [{"name": "c", "type": "categorical"}]}}, "needs 'choices'"),
        (
            {"space": {"parameters": [{"name": "i", "type": "int", "low": 0, "high": 10**400}]}},
            "high",
        ),
        (
            {
                "space": {
                    "parameters": [
                        {"name": "c", "type": "categorical", "choices": list(range(1001))}
                    ]
                }
            },
            "1000",
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_a_study_that_cannot_be_is_not_created(
    http: TestClient, change: dict[str, Any], says: str
) -> None:
    response = http.post("/api/studies", content=json.dumps(NEW | change), headers=JSON)
    assert response.status_code == 422, response.text
    assert says in response.json()["detail"]
    assert http.get("/api/studies").json() == []


JSON = {"Content-Type": "application/json"}


def test_a_body_without_a_length_is_counted(http: TestClient, study: str) -> None:
    pieces = (b" " * 2**16 for _ in range(40))
    response = http.post(f"{study}/ask", content=pieces, headers=JSON)
    assert "content-length" not in response.request.headers
    assert "1048576 bytes" in problem(response, 413)


@pytest.mark.parametrize("counted", [True, False])
@pytest.mark.parametrize(("over", "status"), [(0, 200), (1, 413)])
def test_the_largest_body_that_is_let_in(
    http: TestClient, study: str, counted: bool, over: int, status: int
) -> None:
    """By the length that was announced, and without one by what came."""
    body = b'{"n": 1}'.ljust(guard.MAX_BODY + over)
    content = body if counted else iter([body[:-5], body[-5:]])
    response = http.post(f"{study}/ask", content=content, headers=JSON)
    assert ("content-length" in response.request.headers) is counted
    assert response.status_code == status


@pytest.mark.parametrize(
    ("length", "refused"),
    [
        (str(guard.MAX_BODY), False),
        (str(guard.MAX_BODY + 1), True),
        ("9" * 10_000, True),
        ("-1", True),
        ("1e3", True),
    ],
)
def test_a_body_that_says_it_is_too_long_is_not_even_read(length: str, refused: bool) -> None:
    door = guard.Guard(lambda *_: None, Tokens(), "localhost", Rate(0))  # type: ignore[arg-type, return-value]
    headers = {"host": "localhost", "content-type": "application/json", "content-length": length}
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": "POST", "path": "/api/studies", "headers": raw}
    with pytest.raises(guard.Refused) if refused else nullcontext():
        door._check(scope)


def test_nobody_holds_the_door_open(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A body that trickles in, and a client that is gone before it was all there."""
    monkeypatch.setattr(guard, "BODY_SECONDS", 0.05)

    async def trickle() -> dict[str, Any]:
        await asyncio.sleep(0.02)
        return {"type": "http.request", "body": b" ", "more_body": True}

    async def gone() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    for receive, status in ((trickle, 408), (gone, 400)):
        with pytest.raises(guard.Refused) as refused:
            asyncio.run(guard._body(receive))
        assert refused.value.problem.status_code == status


def test_names_are_data_and_nothing_else(http: TestClient, file: Path) -> None:
    """Neither SQL, nor HTML, nor a path."""
    for name in (
        "'; DROP TABLE regretless_events; --",
        "<script>alert(1)</script>".replace("/", "∕"),
    ):
        space = {"parameters": [PARAMETER | {"name": name}]}
        assert http.post("/api/studies", json=NEW | {"name": name, "space": space}).is_success
        path = f"/api/studies/{name}"
        trial = asked(http, path)
        assert list(trial["params"]) == [name]
        answer = http.get(path)
        assert answer.headers["content-type"] == "application/json"
        assert answer.json()["name"] == name
    assert len(http.get("/api/studies").json()) == 2
    assert "alert(1)" not in http.get("/docs").text


@pytest.mark.parametrize(
    "path",
    ["/static/../app.py", "/static/..%2fapp.py", "/static/%2e%2e/app.py", "/static//etc/passwd"],
)
def test_no_file_but_the_page_s(http: TestClient, path: str) -> None:
    problem(http.get(path), 404)


def test_what_changes_something_must_be_json(http: TestClient, study: str) -> None:
    """A page elsewhere can make a browser send forms and plain text here, and bodies of no type."""
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data; b=x"):
        sent = http.post(f"{study}/ask", content="{}", headers={"Content-Type": kind})
        assert kind in problem(sent, 415)
    problem(http.post(f"{study}/ask"), 415)
    fine = http.post(
        f"{study}/ask", content="{}", headers={"Content-Type": "Application/JSON; charset=utf-8"}
    )
    assert fine.is_success


def test_pages_of_other_sites_are_kept_out(http: TestClient, study: str) -> None:
    for origin in ("http://evil.example", "http://localhost:8081", "null"):
        sent = http.post(f"{study}/ask", json={}, headers={"Origin": origin})
        assert origin in problem(sent, 403)
    ours = http.post(f"{study}/ask", json={}, headers={"Origin": "http://localhost:8080"})
    assert ours.is_success
    for method in ("options", "delete", "put", "patch"):
        assert getattr(http, method)(study).status_code in (405, 415)
    assert "access-control-allow-origin" not in ours.headers


@pytest.mark.parametrize(
    "host",
    ["localhost:8080", "127.0.0.1", "[::1]:8080", "192.0.2.7:80"],
)
def test_addresses_are_fine(http: TestClient, host: str) -> None:
    assert http.get("/api/studies", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:8080", "localhost.evil.example", "", "[::1", "a@b"]
)
def test_names_that_were_made_to_point_here_are_not(http: TestClient, host: str) -> None:
    problem(http.get("/api/studies", headers={"Host": host}), 421)
    problem(http.get("/", headers={"Host": host}), 421)


def test_security_headers_are_on_every_answer(http: TestClient, study: str) -> None:
    for path in ("/", "/docs", "/static/index.html", "/healthz", study, "/none", f"{study}/best"):
        headers = http.get(path).headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["x-frame-options"] == "DENY"
        assert headers["referrer-policy"] == "no-referrer"
    assert http.get(study).headers["cache-control"] == "no-store"


def test_a_bug_is_a_problem_too_and_says_nothing(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("secret")

    monkeypatch.setattr(rl.Study, "ask_each", broken)
    app = create_app(file)
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as http:
        http.post("/api/studies", json=NEW)
        response = http.post("/api/studies/s/ask", json={})
    assert "secret" not in problem(response, 500)
    assert response.headers["x-content-type-options"] == "nosniff"


def test_the_pages_load_nothing_from_elsewhere(http: TestClient) -> None:
    for path in ("/", "/docs"):
        text = http.get(path).text
        assert not re.findall(r"""(?:src|href)=["'](?:https?:)?//""", text)
    assert "POST /api/studies/{name}/ask" in http.get("/docs").text
    assert http.get("/openapi.json").json()["paths"]["/api/studies/{name}/ask"]


# -- tokens ----------------------------------------------------------------------------------------


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"# who\n\nread-only {READER}\n  read-write\t{WRITER}\n")
    return path


@pytest.fixture
def guarded(file: Path, token_file: Path) -> Iterator[TestClient]:
    app = create_app(file, tokens=Tokens.from_file(token_file))
    with TestClient(app, base_url="http://tuning.example") as client:
        yield client


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_tokens(guarded: TestClient) -> None:
    assert guarded.post("/api/studies", json=NEW, headers=bearer(WRITER)).status_code == 201
    for path in ("/api/studies", "/api/studies/s", "/metrics"):
        assert guarded.get(path, headers=bearer(READER)).status_code == 200
        assert guarded.get(path, headers={"Authorization": f"bearer {WRITER}"}).status_code == 200
        missing = guarded.get(path)
        assert "missing" in problem(missing, 401)
        assert missing.headers["www-authenticate"] == "Bearer"
        for wrong in (
            bearer("x" * 24),
            bearer(READER[:-1]),
            bearer(""),
            {"Authorization": READER},
            {"Authorization": f"Basic {READER}"},
            {"Authorization": "Bearer \xff".encode("latin-1")},
        ):
            assert "unknown" in problem(guarded.get(path, headers=wrong), 401)
    for path in ("/api/studies/s/ask", "/api/studies/none/ask", "/api/studies/s/trials/0/tell"):
        assert "missing" in problem(guarded.post(path, content="{", headers=JSON), 401)
        assert "read-only" in problem(guarded.post(path, json={}, headers=bearer(READER)), 403)
    problem(guarded.get(f"/api/studies?token={READER}"), 401)
    for path in ("/", "/docs", "/openapi.json", "/healthz", "/readyz", "/static/index.html"):
        assert guarded.get(path).status_code == 200


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "the file has no token"),
        (f"{WRITER}\n", "line 1: need 'read-only TOKEN'"),
        (f"admin {WRITER}\n", "line 1: need"),
        (f"read-only {READER}\nread-write {WRITER} one two\n", "line 2: need"),
        ("read-write short\n", "line 1: need at least 20"),
        ("read-write ä" + WRITER, "ASCII"),
    ],
)
def test_a_token_file_that_cannot_be_right(tmp_path: Path, text: str, says: str) -> None:
    path = tmp_path / "tokens"
    path.write_text(text)
    with pytest.raises(ConfigError, match=re.escape(says)) as caught:
        Tokens.from_file(path)
    assert WRITER not in str(caught.value)
    assert "short" not in str(caught.value)


def test_tokens_do_not_show(token_file: Path) -> None:
    tokens = Tokens.from_file(token_file)
    assert READER not in f"{tokens!r} {vars(tokens)}"
    with pytest.raises(ConfigError, match="No such file"):
        Tokens.from_file(token_file.with_name("none"))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7", "example.org"])
def test_no_open_door_by_mistake(file: Path, host: str) -> None:
    with pytest.raises(ConfigError, match=f"{re.escape(repr(host))}.*--insecure"):
        serve(str(file), host, 0, Tokens(), insecure=False)
    assert not file.exists()


# -- the service itself ----------------------------------------------------------------------------


def test_health_readiness_and_metrics(http: TestClient, study: str) -> None:
    assert http.get("/healthz").json() == {"status": "ok", "version": rl.__version__}
    assert http.get("/readyz").status_code == 200
    asked(http, study)
    http.get("/api/studies/none")
    http.get("/nonsense/1")
    text = http.get("/metrics").text
    ask = 'route="/api/studies/{name}/ask"'
    assert f'regretless_http_requests_total{{method="POST",{ask},status="200"}} 1.0' in text
    assert f"regretless_http_request_seconds_count{{{ask}}} 1.0" in text
    assert 'route="/api/studies/{name}",status="404"' in text
    assert 'route="none",status="404"' in text
    assert "regretless_asks_in_progress 0.0" in text
    assert "nonsense" not in text


def test_a_storage_that_is_away_is_503(http: TestClient, study: str, file: Path) -> None:
    file.rename(file.with_name("away"))
    assert problem(http.get("/readyz"), 503) == "the storage cannot be reached"
    for response in (http.get("/api/studies"), http.post(f"{study}/ask", json={})):
        assert "s.db" in problem(response, 503, "StorageError")
        assert response.headers["retry-after"]
    assert http.get("/healthz").status_code == 200
    file.with_name("away").rename(file)
    assert asked(http, study)["number"] == 0


def test_a_batch_within_the_budget_is_what_is_left_of_it(http: TestClient, study: str) -> None:
    assert [t["number"] for t in asked(http, study, n=10, within_budget=True)] == list(range(6))
    spent = http.post(f"{study}/ask", json={"n": 2, "within_budget": True})
    assert "spent" in problem(spent, 409, "BudgetError")


def test_an_origin_that_is_no_url_is_another_site(http: TestClient, study: str) -> None:
    answer = http.post(f"{study}/ask", json={}, headers={"Origin": "http://["})
    assert "of another site" in problem(answer, 403)


def test_integers_that_not_every_reader_keeps_are_refused(http: TestClient) -> None:
    def new(kind: str) -> Any:
        much = {"name": "n", "type": kind, "low": 0, "high": 2**60 + 100}
        return http.post("/api/studies", json=NEW | {"space": {"parameters": [much]}})

    assert "the bounds of an int must lie within" in problem(new("int"), 422)
    assert new("float").status_code == 201  # JavaScript writes 1e18 with all its zeros


def test_no_result_yet(http: TestClient, study: str) -> None:
    assert "no result was told" in problem(http.get(f"{study}/best"), 409, "NoResultsError")


def test_a_bug_in_one_study_does_not_hide_the_others(
    http: TestClient,
    study: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert http.post("/api/studies", json=NEW | {"name": "t"}).status_code == 201
    summary = schema.Summary.of

    def broken(view: Any) -> schema.Summary:
        if view.name == "t":
            raise ZeroDivisionError("a secret")
        return summary(view)

    monkeypatch.setattr(schema.Summary, "of", broken)
    with caplog.at_level("ERROR"):
        lines = {line["name"]: line["error"] for line in http.get("/api/studies").json()}
    assert lines == {"s": None, "t": "a bug of the service; its log has more"}
    assert "a secret" in caplog.text


# -- spaces with structure -------------------------------------------------------------------------


def test_conditions_limits_and_changes_over_http(http: TestClient) -> None:
    parameters = [
        *SPACE["parameters"],
        {
            "name": "m",
            "type": "float",
            "low": 0,
            "high": 1,
            "when": [{"parameter": "kind", "values": ["a"]}],
        },
    ]
    new = NEW | {"space": {"parameters": parameters, "where": ["x + m <= 1.5"]}, "budget": 40}
    assert http.post("/api/studies", json=new).status_code == 201
    study = "/api/studies/s"
    for _ in range(4):
        trial = asked(http, study)
        params = trial["params"]
        assert ("m" in params) == (params["kind"] == "a")
        assert params["x"] + params.get("m", 0.0) <= 1.5
        tell = http.post(f"{study}/trials/{trial['number']}/tell", json={"value": params["x"]})
        assert tell.status_code == 204
    outside = {"params": {"x": 1.0, "kind": "a", "m": 1.0}, "value": 1.0}
    response = http.post(f"{study}/observe", json=outside)
    assert "outside the limit" in problem(response, 422, "SpaceError")
    change = {
        "add": [{"name": "z", "type": "int", "low": 1, "high": 9, "value": 5}],
        "freeze": {"kind": "b"},
        "widen": [{"name": "x", "type": "float", "low": 0.0, "high": 2.0}],
    }
    for _ in range(2):  # with a key, once
        answer = http.post(f"{study}/space", json=change, headers={"Idempotency-Key": "k"})
        assert answer.status_code == 204, answer.text
    assert asked(http, study)["params"].keys() == {"x", "kind", "z"}
    shown = http.get(study).json()["settings"]["space"]["parameters"]
    assert [each["name"] for each in shown] == ["x", "kind", "m", "z"]
    again = http.post(f"{study}/space", json=change)
    assert "'z' already" in problem(again, 422, "SpaceError")
    for wrong in ({"add": [{"name": "w", "type": "int", "low": 1, "high": 9}]}, {"thaw": {}}, {}):
        assert http.post(f"{study}/space", json=wrong).status_code == 422
    limit = NEW | {"name": "t", "space": SPACE | {"where": ["x.real <= 1"]}}
    assert "is not allowed: need numbers" in problem(
        http.post("/api/studies", json=limit), 422, "SpaceError"
    )
    assert http.get(f"{study}/panels").status_code == 200


# -- less work for each request --------------------------------------------------------------------


def dependencies(dependant: Any) -> Iterator[Any]:
    for each in dependant.dependencies:
        yield each
        yield from dependencies(each)


def test_nothing_that_an_endpoint_depends_on_takes_a_thread() -> None:
    routes: list[Any] = [*api.router.routes, *api.checks.routes]
    found = [each.call for route in routes for each in dependencies(route.dependant)]
    assert found
    assert all(map(asyncio.iscoroutinefunction, found))


def test_garbage_collections_leave_out_what_was_imported(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frozen = []
    monkeypatch.setattr(
        uvicorn.Server, "run", lambda *args, **more: frozen.append(gc.get_freeze_count())
    )
    monkeypatch.setattr(sys, "setswitchinterval", lambda seconds: None)
    try:
        serve(str(file), "127.0.0.1", 0, Tokens(), insecure=False)
    finally:
        gc.unfreeze()
    assert frozen[0] > 10_000


def opened(file: Path, name: str) -> open_studies.OpenStudy:
    journal = Journal.open(file)
    study = rl.Study.open(
        journal, name, space=rl.Space({"x": rl.Float(0.0, 1.0)}), budget=40, seed=1
    )
    return open_studies.OpenStudy(study, open_studies.Threads(journal))


def test_a_poll_with_nothing_new_computes_nothing(file: Path) -> None:
    this, asked = opened(file, "s"), []

    async def run() -> None:
        for _ in range(3):
            assert await this.read(seen) == len(asked)
        this.study.tell(this.study.ask(), 1.0)
        assert await this.read(seen) == 2

    def seen(view: Any) -> int:
        asked.append(view.seq)
        return len(asked)

    asyncio.run(run())
    assert asked == [1, 3]


def test_a_crowd_of_readers_shares_an_answer_and_does_not_wait_for_the_next(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_studies, "CROWD", 3)
    monkeypatch.setattr(open_studies, "CROWD_SECONDS", 1e9)
    monkeypatch.setattr(open_studies, "PATIENCE", 0.0)  # each reader wants a new answer
    this, going = opened(file, "s"), threading.Event()

    def trials(view: Any) -> int:
        assert going.wait(60)
        return len(view.optimizer.trials)

    async def run() -> None:
        going.set()
        assert [await this.read(trials, shared=True) for _ in range(3)] == [0, 0, 0]
        this.study.ask()
        going.clear()  # the next answer takes a while
        assert [await this.read(trials, shared=True) for _ in range(3)] == [0, 0, 0]
        going.set()
        await this._renewing[trials]
        assert await this.read(trials, shared=True) == 1
        await this.change(this.study.ask)  # whose effect every reader is to see at once
        assert await this.read(trials, shared=True) == 2

    asyncio.run(run())


def test_a_crowd_learns_of_an_answer_that_fails(
    file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(open_studies, "CROWD", 1)
    monkeypatch.setattr(open_studies, "PATIENCE", 0.0)
    this, wrong = opened(file, "s"), []

    def question(view: Any) -> int:
        if wrong:
            raise StorageError("away")
        return 5

    async def run() -> None:
        assert await this.read(question, shared=True) == 5
        wrong.append(True)
        this.study.ask()
        assert await this.read(question, shared=True) == 5  # and the next one is begun
        await this._renewing[question]
        with pytest.raises(StorageError, match="away"):
            await this.read(question, shared=True)

    asyncio.run(run())


def test_reports_that_come_together_are_written_together(file: Path) -> None:
    this = opened(file, "s")
    trials = [arm.trial.number for arm in this.study.allocate(3, end_early=0.0).rows]
    batches, report_all = [], this.study.report_all

    def noted(reports: Any) -> Any:
        batches.append((acting.get(), len(reports)))
        return report_all(reports)

    this.study.report_all = noted  # type: ignore[method-assign]

    async def report(number: int, who: str | None) -> None:
        with acting_as(who):
            await this.report((increment_of(number, count=1, sum=1.0),), None, None)

    async def run() -> list[Any]:
        each = [report(trials[0], "a"), report(trials[1], "b"), report(99, "a")]
        return await asyncio.gather(*each, report(trials[2], "a"), return_exceptions=True)

    answers = asyncio.run(run())
    assert batches == [("a", 3), ("b", 1)]
    assert [type(each) for each in answers] == [type(None)] * 2 + [UnknownTrialError, type(None)]
    assert {event.actor for event in this.study.events() if event.kind == "reported"} == {"a", "b"}
