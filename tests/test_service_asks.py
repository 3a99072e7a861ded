"""The asks of the service: answered together, prepared in the background, and still right."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("fastapi")

from fastapi.testclient import TestClient

import regretless as rl
from regretless.service import asks, open_studies
from regretless.service.app import create_app
from regretless.service.asks import Asks
from regretless.service.auth import Tokens

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
NEW = {"name": "s", "space": SPACE.to_json(), "budget": 200, "seed": 3}
PLACE = "/api/studies/s"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "s.db"


@pytest.fixture
def http(file: Path) -> Iterator[TestClient]:
    app = create_app(file, changes_per_second=0)
    with TestClient(app, base_url="http://localhost:8080") as client:
        assert client.post("/api/studies", json=NEW).status_code == 201
        yield client


def value(params: dict[str, Any]) -> float:
    return float(params["x"]) ** 2 + (params["kind"] == "b")


def ask(http: TestClient, key: str | None = None, **headers: str) -> Any:
    headers |= {"Idempotency-Key": key} if key else {}
    response = http.post(f"{PLACE}/ask", json={}, headers=headers)
    assert response.status_code == 200, response.text
    return response.json()


def tell(http: TestClient, trial: Any) -> None:
    path = f"{PLACE}/trials/{trial['number']}/tell"
    assert http.post(path, json={"value": value(trial["params"])}).status_code == 204


def asks_of(http: TestClient) -> Asks:
    opened = http.app.state.studies._open["s"].result()  # type: ignore[attr-defined]
    return opened._asks  # type: ignore[no-any-return]


def eventually(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def test_a_sequential_client_gets_what_the_plain_library_chooses(http: TestClient) -> None:
    plain, prepared = rl.Optimizer(SPACE, 200, seed=3), 0
    for turn in range(18):
        trial, own = ask(http), plain.ask()
        assert trial["params"] == own.params
        assert trial["decision"] == {"sentence": str(own.decision), **own.decision.to_json()}
        tell(http, trial)
        plain.tell(own, value(own.params))
        if turn % 2:  # at once, or after the next trial was prepared
            eventually(lambda: asks._is_over(asks_of(http)._preparing))
            prepared += len(asks_of(http)._study._stock._ready)
    assert prepared == 9


def test_many_at_once_get_different_trials_in_few_transactions(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for _ in range(12):
        tell(http, ask(http))
    batches: list[int] = []
    ask_each = rl.Study.ask_each

    def counted(study: rl.Study, wishes: Any, **how: Any) -> Any:
        time.sleep(0.2)  # meanwhile the others come
        batches.append(len(wishes))
        return ask_each(study, wishes, **how)

    monkeypatch.setattr(rl.Study, "ask_each", counted)
    with ThreadPoolExecutor(16) as pool:
        trials = list(pool.map(lambda i: ask(http, key=f"k{i % 12}"), range(16)))
    numbers = {f"k{i % 12}": trials[i]["number"] for i in range(16)}
    assert sorted(numbers.values()) == list(range(12, 24))
    assert all(
        trials[i]["number"] == numbers[f"k{i % 12}"] for i in range(16)
    )  # repeated: the same
    assert sum(batches) == 16
    assert len(batches) < 8
    with ThreadPoolExecutor(12) as pool:
        list(pool.map(lambda trial: tell(http, trial), trials[:12]))
    assert http.get(PLACE).json()["told"] == 24


def test_an_idle_study_costs_nothing(http: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    trials = [ask(http) for _ in range(8)]
    prepared: list[bool] = []
    prepare = rl.Study.prepare

    def counted(study: rl.Study, **how: Any) -> bool:
        prepared.append(prepare(study, **how))
        return prepared[-1]

    monkeypatch.setattr(rl.Study, "prepare", counted)
    for trial in trials:
        tell(http, trial)
        eventually(lambda: asks._is_over(asks_of(http)._preparing))
    assert prepared == [True] * asks.MOST_IN_VAIN
    ask(http)
    assert asks_of(http)._in_vain == 0


def test_an_error_while_preparing_is_for_who_asks(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    trial = ask(http)

    def refuse(*args: Any, **how: Any) -> None:
        raise rl.TrialError("nothing is left")

    with monkeypatch.context() as patch:
        patch.setattr(rl.Optimizer, "propose", refuse)
        tell(http, trial)
        eventually(lambda: asks._is_over(asks_of(http)._preparing))
        refused = http.post(f"{PLACE}/ask", json={})
        assert (refused.status_code, refused.json()["detail"]) == (409, "nothing is left")
    assert ask(http)["number"] == 1


def test_each_trial_has_the_name_of_who_asked(file: Path, tmp_path: Path) -> None:
    secrets = {name: letter * 24 for name, letter in (("one", "o"), ("two", "t"))}
    lines = [f"read-write {secret} {name}" for name, secret in secrets.items()]
    (tmp_path / "tokens").write_text("\n".join(lines))
    (tmp_path / "tokens").chmod(0o600)
    tokens = Tokens.from_file(tmp_path / "tokens")
    owners: dict[int, str] = {}

    def work(client: TestClient, name: str) -> None:
        trial = ask(client, Authorization=f"Bearer {secrets[name]}")
        owners[trial["number"]] = name

    with TestClient(create_app(file, tokens=tokens), base_url="http://localhost:8080") as client:
        bearer = {"Authorization": f"Bearer {secrets['one']}"}
        assert client.post("/api/studies", json=NEW, headers=bearer).status_code == 201
        with ThreadPoolExecutor(12) as pool:
            list(pool.map(lambda i: work(client, ("one", "two")[i % 2]), range(12)))
    with rl.Study.open(file, "s", read_only=True) as study:
        stored = {e.body["number"]: e.actor for e in study.events() if e.kind == "asked"}
    assert stored == owners
    assert len(stored) == 12


def test_many_readers_share_an_answer_and_see_a_change_at_once(
    http: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    tell(http, ask(http))
    monkeypatch.setattr(open_studies, "PATIENCE", 1e6)  # however long that takes

    def seq() -> int:
        return int(http.get(f"{PLACE}/panels").json()["seq"])

    first = seq()
    tell(http, ask(http))
    assert seq() == first + 2  # alone, everybody sees everything
    for _ in range(open_studies.CROWD):
        seq()
    tell(http, ask(http))
    assert seq() == first + 2  # in a crowd, the answer of a moment ago
    assert http.get(PLACE).json()["told"] == 3  # only on the page
    assert http.post(f"{PLACE}/extend", json={"budget": 300}).status_code == 204
    assert seq() == first + 5
