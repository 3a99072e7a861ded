"""Tokens with names, a file of them that changes, links that only show, and rates."""

from __future__ import annotations

import json
import logging
import os
import re
import sqlite3
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient
from typer.testing import CliRunner

import regretless as rl
from regretless.cli.app import app as command_line
from regretless.client import Client
from regretless.errors import ConfigError, CorruptJournalError, DataError, ServiceError
from regretless.service import auth
from regretless.service.app import create_app
from regretless.service.auth import Tokens
from regretless.service.rate import BURST_SECONDS, MANY, Rate
from regretless.studies import acting_as
from regretless.studies.journal import Journal
from serving import serving

ANN, BEN, EVE = "ann-0123456789-abcdef", "ben-0123456789-abcdef", "eve-0123456789-abcdef"
NEW = {
    "name": "s",
    "budget": 50,
    "space": {"parameters": [{"name": "x", "type": "float", "low": 0, "high": 1}]},
}
SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"read-write {ANN} ann\nread-only {BEN} ben\nread-write {EVE}\n")
    return path


@pytest.fixture
def http(file: Path, tmp_path: Path) -> Iterator[TestClient]:
    app = create_app(tmp_path / "s.db", tokens=Tokens.from_file(file))
    with TestClient(app, base_url="http://tuning.example") as client:
        assert client.post("/api/studies", json=NEW, headers=bearer(ANN)).status_code == 201
        yield client


# -- names -----------------------------------------------------------------------------------------


def test_the_journal_says_who(http: TestClient, tmp_path: Path) -> None:
    calls = [
        ("ask", {}, ANN),
        ("trials/0/tell", {"value": 1.0}, ANN),
        ("adopt", {"params": {"x": 0.5}}, EVE),
        ("trials/1/abandon", {}, ANN),
        ("observe", {"params": {"x": 0.1}, "value": 2.0}, ANN),
        ("extend", {"budget": 60}, ANN),
    ]
    for path, body, token in calls:
        answer = http.post(f"/api/studies/s/{path}", json=body, headers=bearer(token))
        assert answer.status_code in (200, 204), answer.text
    with rl.Study.open(tmp_path / "s.db", "s") as study:
        study.tell(1, 3.0)  # not over HTTP: nobody knows who
        names = [event.actor for event in study.events()]
    assert names == ["ann", "ann", "ann", None, "ann", "ann", "ann", None]
    events = http.get("/api/studies/s/events", headers=bearer(BEN)).json()
    assert [event.get("actor") for event in events] == names
    assert "actor" not in events[3]  # older clients do not know the field
    assert not any("actor" in event["body"] for event in events)
    options = ["s", "--storage", str(tmp_path / "s.db")]
    lines = CliRunner().invoke(command_line, ["log", *options]).stdout.splitlines()
    assert [line.endswith("  (by ann)") for line in lines] == [name == "ann" for name in names]
    stored = CliRunner().invoke(command_line, ["log", "--json", *options]).stdout.splitlines()
    assert [json.loads(line)["actor"] for line in stored] == names


def test_who_acts_changes_no_decision(tmp_path: Path) -> None:
    def points(path: Path, name: str | None) -> list[Any]:
        with (
            rl.Study.open(path, "s", space=SPACE, budget=20, seed=3) as study,
            acting_as(name),
        ):
            for _ in range(6):
                trial = study.ask()
                study.tell(trial, -((float(trial.params["x"]) - 0.3) ** 2))  # type: ignore[arg-type]
        with rl.Study.open(path, "s") as again:
            return [again.ask().params, *(row.params for row in again.history())]

    assert points(tmp_path / "a.db", None) == points(tmp_path / "b.db", "ann")


def test_prior_data_is_recognised_whoever_told_it(tmp_path: Path) -> None:
    for name in (None, "ann", "ben"):
        with (
            rl.Study.open(tmp_path / "s.db", "s", space=SPACE, budget=20) as study,
            acting_as(name),
        ):
            if name is None:
                study.observe({"x": 0.5}, 1.0)
            else:
                with pytest.warns(UserWarning, match="not counted again"):
                    study.observe({"x": 0.5}, 1.0)
            assert study.observations == 1


def test_a_retry_by_another_keeps_the_first_name(tmp_path: Path) -> None:
    with rl.Study.open(tmp_path / "s.db", "s", space=SPACE, budget=20) as study:
        with acting_as("ann"):
            first = study.ask(key="k")
        with acting_as("ben"):
            assert study.ask(key="k") == first
        assert [event.actor for event in study.events()] == [None, "ann"]


def test_the_name_is_a_field_that_older_releases_ignore(storage: str) -> None:
    with Journal.open(storage) as journal:
        with acting_as("ann"):
            written = journal.append("s", "note", {"a": 1})
        assert (written.actor, written.body) == ("ann", {"a": 1})
        assert written.row[5] == '{"a":1,"actor":"ann"}'
        assert journal.read("s") == [written]
        assert journal.read("s", after=written) == []
        with pytest.raises(DataError, match="cannot be stored as JSON without a change"):
            journal.append("s", "note", {"actor": "me"})
        with (
            acting_as("ann"),
            pytest.raises(DataError, match="cannot be stored as JSON without a change"),
        ):
            journal.append("s", "note", {"actor": "me"})
        with pytest.raises(ConfigError, match="actor: need 1 to 200"), acting_as("a\nb"):
            pass
        assert journal.last_seq("s") == 1


def test_an_actor_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with Journal.open(path) as journal:
        journal.append("s", "note", {})
    with sqlite3.connect(path) as conn:
        conn.execute("""UPDATE regretless_events SET body = '{"actor": 5}' WHERE seq = 1""")
    with Journal.open(path) as journal, pytest.raises(CorruptJournalError, match="actor: need"):
        journal.read("s")


# -- another file ----------------------------------------------------------------------------------


def test_tokens_change_without_a_restart(http: TestClient, file: Path) -> None:
    fresh = "ann-fedcba-9876543210"
    file.write_text(f"read-write {ANN} ann\nread-write {fresh} ann\n")  # both, for a while
    assert http.get("/api/studies", headers=bearer(ANN)).status_code == 200
    assert http.get("/api/studies", headers=bearer(fresh)).status_code == 200
    assert http.get("/api/studies", headers=bearer(BEN)).status_code == 401
    other = file.with_name("other")
    other.write_text(f"read-write {fresh} ann\n")
    os.replace(other, file)
    assert http.get("/api/studies", headers=bearer(ANN)).status_code == 401
    assert http.post("/api/studies/s/ask", json={}, headers=bearer(fresh)).status_code == 200


def test_a_change_is_seen_by_an_old_file_too(file: Path) -> None:
    """A file that has not changed is not read again, and one that has is."""
    long_ago = time.time() - 1000
    os.utime(file, (long_ago, long_ago))
    tokens = Tokens.from_file(file)
    file_read = auth._read
    reads = []
    auth._read = lambda path: reads.append(path) or file_read(path)  # type: ignore[func-returns-value]
    try:
        for _ in range(3):
            assert tokens.bearer(f"Bearer {ANN}")
        assert reads == []
        file.write_text(f"read-only {BEN}\n")
        os.utime(file, (long_ago, long_ago))  # as a copy with its old time would be
        assert tokens.bearer(f"Bearer {ANN}") is None
        assert len(reads) == 1
    finally:
        auth._read = file_read


@pytest.mark.parametrize("text", [None, "", "read-write short\n", f"{EVE}\n"])
def test_a_mistake_in_the_file_locks_nobody_out(
    http: TestClient, file: Path, text: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    if text is None:
        file.unlink()
    else:
        file.write_text(text)
    with caplog.at_level(logging.WARNING):
        assert http.get("/api/studies", headers=bearer(ANN)).status_code == 200
    assert "the tokens from before stay" in caplog.text
    assert EVE not in caplog.text
    file.write_text(f"read-only {BEN}\n")
    assert http.get("/api/studies", headers=bearer(ANN)).status_code == 401


def test_a_name_is_short(tmp_path: Path) -> None:
    path = tmp_path / "tokens"
    path.write_text(f"read-write {ANN} {'n' * 101}\n")
    with pytest.raises(ConfigError, match="line 1: the name: at most 100"):
        Tokens.from_file(path)


# -- links -----------------------------------------------------------------------------------------


def test_a_link_shows_and_changes_nothing(http: TestClient, file: Path) -> None:
    http.post("/api/studies", json={**NEW, "name": "s2"}, headers=bearer(ANN))
    link = bearer(Tokens.from_file(file).link("s", days=1, name="ben"))
    for path in ("", "/panels", "/events", "/trials"):
        assert http.get(f"/api/studies/s{path}", headers=link).status_code == 200
    for path in ("/api/studies", "/api/studies/s2", "/api/studies/s2/panels", "/metrics"):
        assert "one study" in http.get(path, headers=link).json()["detail"]
    for path in ("ask", "extend", "trials/0/tell"):
        answer = http.post(f"/api/studies/s/{path}", json={}, headers=link)
        assert (answer.status_code, answer.json()["detail"]) == (403, "the token is read-only")
    everything = bearer(Tokens.from_file(file).link(None, days=1))
    assert http.get("/api/studies", headers=everything).status_code == 200
    assert http.post("/api/studies/s/ask", json={}, headers=everything).status_code == 403


def test_a_link_is_made_over_http(http: TestClient, file: Path) -> None:
    http.post("/api/studies", json=NEW, headers=bearer(ANN))
    http.post("/api/studies", json=NEW | {"name": "other"}, headers=bearer(ANN))
    for who in (ANN, EVE):  # EVE's token has no name
        made = http.post("/api/studies/s/link", json={"days": 2}, headers=bearer(who)).json()
        reads = bearer(made["token"])
        assert http.get("/api/studies/s/panels", headers=reads).status_code == 200
        assert http.get("/api/studies/other", headers=reads).status_code == 403
        assert http.post("/api/studies/s/ask", json={}, headers=reads).status_code == 403
        # A link makes no further links, and ends with the token that signed it.
        assert http.post("/api/studies/s/link", json={}, headers=reads).status_code == 403
        assert made["until"] > datetime.now(UTC).isoformat()
    assert http.post("/api/studies/s/link", json={}, headers=bearer(BEN)).status_code == 403
    file.write_text(f"read-write {ANN} ann\n")
    assert http.get("/api/studies/s", headers=reads).status_code == 401
    assert http.post("/api/studies/s/link", json={"days": 1e4}, headers=bearer(ANN)).is_error


def test_without_tokens_there_is_nothing_to_sign_with(tmp_path: Path) -> None:
    with TestClient(create_app(tmp_path / "s.db"), base_url="http://localhost") as http:
        http.post("/api/studies", json=NEW)
        made = http.post("/api/studies/s/link", json={}).json()
        assert made == {"token": None, "until": None}


def test_a_link_ends(http: TestClient, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens = Tokens.from_file(file)
    link = tokens.link("s", days=2, name="ben")
    assert tokens.bearer(f"Bearer {link}") == auth.Bearer("read-only", "ben", "s")
    kind, until, study, signature = link.split(".")
    later = f"{kind}.{int(until) + 1}.{study}.{signature}"
    for forged in (later, link[:-1], f"{kind}.{until}..{signature}", "link...", "link.x.y.z"):
        assert tokens.bearer(f"Bearer {forged}") is None
    with monkeypatch.context() as patch:
        end = float(until) + 1
        patch.setattr(auth.time, "time", lambda: end)
        assert tokens.bearer(f"Bearer {link}") is None
    assert tokens.bearer(f"Bearer {link}") is not None
    file.write_text(f"read-write {ANN} ann\n")  # without the token that signed it
    assert tokens.bearer(f"Bearer {link}") is None


def test_the_command_prints_a_link(file: Path, tmp_path: Path) -> None:
    call = ["link", "häuser & 1", "--token-file", str(file), "--url", "https://tuning.example/"]
    done = CliRunner().invoke(command_line, call)
    found = re.fullmatch(
        r"https://tuning\.example/#/studies/h%C3%A4user%20%26%201\?token=(\S+)\n", done.stdout
    )
    assert found
    who = Tokens.from_file(file).bearer(f"Bearer {found[1]}")
    assert who == auth.Bearer("read-only", "ann", "häuser & 1")
    for options, says in (
        (["--name", "none"], "the token file has no token named 'none'"),
        (["--days", "0"], "days: need more than 0"),
        (["--days", "nan"], "days: need more than 0"),
    ):
        failed = CliRunner().invoke(command_line, [*call, *options])
        assert says in str(failed.exception)


# -- rates -----------------------------------------------------------------------------------------


def test_a_rate_is_for_each_client_and_recovers(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1000.0]
    monkeypatch.setattr("regretless.service.rate.time.monotonic", lambda: clock[0])
    rate = Rate(5.0)
    at_once = int(5 * BURST_SECONDS)
    assert [rate.wait("a") for _ in range(at_once)] == [0.0] * at_once
    assert rate.wait("a") == pytest.approx(0.2)
    assert rate.wait("b") == 0.0
    for _ in range(10):
        clock[0] += 0.2
        assert rate.wait("a") == 0.0
        assert rate.wait("a") > 0
    clock[0] += 1000
    assert sum(rate.wait("a") == 0.0 for _ in range(100)) == at_once
    assert all(Rate(0).wait("a") == 0.0 for _ in range(1000))
    clock[0] += 1000
    for i in range(2 * MANY + 5):
        clock[0] += 0.3
        rate.wait(str(i))
    assert len(rate._done) <= MANY


def test_too_many_changes_are_refused_and_reads_are_not(file: Path, tmp_path: Path) -> None:
    app = create_app(tmp_path / "s.db", tokens=Tokens.from_file(file), changes_per_second=0.2)
    with TestClient(app, base_url="http://tuning.example") as http:
        assert http.post("/api/studies", json=NEW, headers=bearer(ANN)).status_code == 201
        assert http.post("/api/studies/s/ask", json={}, headers=bearer(ANN)).status_code == 200
        refused = http.post("/api/studies/s/ask", json={}, headers=bearer(ANN))
        assert refused.status_code == 429
        assert refused.headers["content-type"] == "application/problem+json"
        assert refused.json()["detail"] == "more than 0.2 changes a second"
        assert 1 <= int(refused.headers["retry-after"]) <= 5
        assert http.post("/api/studies/s/ask", json={}, headers=bearer(EVE)).status_code == 200
        for _ in range(5):
            assert http.get("/api/studies/s", headers=bearer(ANN)).status_code == 200
        assert http.get("/api/studies/s", headers=bearer(ANN)).json()["asked"] == 2


@pytest.mark.parametrize("rate", [-1, float("nan"), float("inf")])
def test_a_rate_that_is_none(tmp_path: Path, rate: float) -> None:
    with pytest.raises(ConfigError, match="changes_per_second: need at least 0"):
        create_app(tmp_path / "s.db", changes_per_second=rate)
    assert not (tmp_path / "s.db").exists()


def test_the_client_waits_as_long_as_it_is_told(tmp_path: Path) -> None:
    """Everything over the wire: a limit by address, the answer 429, and a client that waits."""
    with serving(str(tmp_path / "s.db"), "--changes-per-second", "0.4", folder=tmp_path) as service:
        study = Client(service.url).create("s", space=SPACE, budget=20)
        for _ in range(3):  # with the one above, the changes of ten seconds
            study.ask()
        before = time.monotonic()
        study.ask()
        assert time.monotonic() - before >= 1.0
        impatient = Client(service.url, patience=0.5).study("s")
        before = time.monotonic()
        with pytest.raises(ServiceError, match=r"429: more than 0\.4 changes a second"):
            impatient.ask()
        assert time.monotonic() - before < 0.5  # there is no use in waiting
        assert study.asked == 4
        assert [event.actor for event in study.events()] == [None] * 5
