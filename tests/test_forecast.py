"""The forecast: simulations of the rest of a run, and what a budget buys."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fastapi.testclient import TestClient

import regretless as rl
from regretless.client import Client
from regretless.forecast import Forecast, forecast, plan
from regretless.service.app import create_app
from serving import serving

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})


def begun(results: int = 8, budget: int = 20, **options: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(LINE, budget, **options)
    rng = np.random.default_rng(0)
    for _ in range(results):
        trial = optimizer.ask()
        value = -8 * (trial.params["x"] - 0.3) ** 2 + 0.1 * rng.standard_normal()  # type: ignore[operator]
        optimizer.tell(trial, optimizer.sign * value)
    return optimizer


def test_a_forecast_changes_nothing_and_has_no_chance_in_it() -> None:
    optimizer = begun()
    optimizer.ask()  # a pending trial is told first
    before = optimizer.to_json()
    ahead, again = forecast(optimizer, draws=3), forecast(optimizer, draws=3)
    assert optimizer.to_json() == before
    assert ahead.gain.shape == (3, 13)
    np.testing.assert_array_equal(ahead.gain, again.gain)
    assert ahead.told == 8


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_gains_are_those_of_the_functions_drawn(direction: str) -> None:
    optimizer = begun(direction=direction)
    ahead = forecast(optimizer, draws=6, over={"x": 0.9})
    assert ahead.reference == {"x": 0.9}
    # f(0.9) = -2.88: every trial so far gained, and every later one will.
    past = sum(-8 * (t.params["x"] - 0.3) ** 2 + 2.88 for t in optimizer.trials)  # type: ignore[operator]
    assert ahead.gain[:, 0].mean() == pytest.approx(past, abs=3.0)
    assert ahead.expected == pytest.approx(past + 12 * 2.88, rel=0.15)
    assert np.all(np.diff(ahead.gain.mean(axis=0)) > 2.0)
    assert optimizer.sign * ahead.final.mean() == pytest.approx(0.0, abs=0.2)
    low, high = ahead.band(0.5)
    wide = ahead.band(0.9)
    assert wide[0] <= low <= high <= wide[1]


def test_the_reference_is_the_baseline_or_the_first_point() -> None:
    optimizer = begun()
    assert forecast(optimizer, draws=2).reference == optimizer.trials[0].params
    known = rl.Optimizer(LINE, 8)
    known.observe({"x": 0.4}, 1.0)
    assert forecast(known, draws=2).reference == {"x": 0.4}
    declared = rl.Optimizer(LINE, 8, baseline={"x": 0.6})
    declared.observe({"x": 0.4}, 1.0)
    assert forecast(declared, draws=2).reference == {"x": 0.6}


def made(gain: list[list[float]], told: int = 0) -> Forecast:
    rows = np.array(gain)
    return Forecast({"x": 0.5}, told, rows, rows[:, -1], np.zeros(len(rows), dtype=bool))


def test_when_exploration_has_paid() -> None:
    assert made([[0.0, -1.0, -1.0, 2.0]] * 3, told=5).pays_after == 8
    assert made([[0.0, -1.0, 1.0, -2.0]] * 3).pays_after is None
    assert made([[0.0, 1.0]] * 3, told=5).pays_after == 5
    assert made([[-1.0, 1.0], [-1.0, 1.0], [-1.0, -1.0]]).pays_after == 1
    assert "already" in str(made([[0.0, 1.0]] * 3, told=5))
    assert "not within the budget" in str(made([[0.0, -1.0]] * 3))


def test_a_spent_run_has_nothing_ahead() -> None:
    ahead = forecast(begun(10, 10), draws=2)
    assert ahead.steps == 0
    assert ahead.change_prob == 0.0
    json.dumps(ahead.to_json(), allow_nan=False)


def test_bad_input_is_named() -> None:
    with pytest.raises(rl.NoResultsError):
        forecast(rl.Optimizer(LINE, 9))
    with pytest.raises(rl.ConfigError, match="draws: need at least 2, got 1"):
        forecast(begun(), draws=1)
    with pytest.raises(rl.SpaceError, match="x"):
        forecast(begun(), over={"x": 3.0})
    with pytest.raises(rl.ConfigError, match="prob: need a probability"):
        made([[0.0]]).band(1.0)
    for wrong in ([], [0], ["a"], 1.5):
        with pytest.raises(rl.ConfigError, match="budget"):
            plan(LINE, wrong)  # type: ignore[arg-type]
    with pytest.raises(rl.ConfigError, match="noise"):
        plan(LINE, 5, noise=-1.0)


def test_a_plan_compares_budgets_on_the_same_functions() -> None:
    calls: list[tuple[int, int]] = []
    short, long = plan(LINE, [5, 20], noise=0.1, draws=3, progress=lambda *c: calls.append(c))
    assert (short.budget, long.budget) == (5, 20)
    assert long.regret < short.regret
    assert long.gain > short.gain
    assert calls == [(n, 6) for n in range(1, 7)]
    assert plan(LINE, 5, noise=0.1, draws=3) == [short]
    turned = plan(LINE, 5, noise=0.1, draws=3, direction="minimize")
    assert turned == [short]


def test_from_a_study_and_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from regretless.cli.app import main

    monkeypatch.chdir(tmp_path)
    with rl.Study.open("regretless.sqlite", "s", space=LINE, budget=6) as study:
        for _ in range(4):
            study.tell(study.ask(), 1.0)
        ahead = study.forecast(draws=2)
    monkeypatch.setattr("sys.argv", ["regretless", "forecast", "s", "--draws", "2", "--json"])
    main()
    assert json.loads(capsys.readouterr().out) == ahead.to_json()
    space = json.dumps({"x": {"type": "float", "low": 0, "high": 1}})
    words = ["regretless", "plan", "--space", space, "--budget", "4,6", "--draws", "2"]
    monkeypatch.setattr("sys.argv", words)
    main()
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["4", "6"]


def test_gains_are_measured_from_the_baseline_of_today() -> None:
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 6, baseline={"x": 0.5})
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.set_baseline({"x": 0.9})
    assert forecast(optimizer, draws=2).reference == {"x": 0.9}


def test_a_band_of_few_draws_is_not_too_narrow() -> None:
    """One more draw falls inside with the probability of the band, however few draws there are."""
    rng = np.random.default_rng(0)
    for draws in (9, 16, 32):
        inside = []
        for _ in range(4000):
            gain = rng.standard_normal((draws + 1, 1))
            one = Forecast({}, 0, gain[1:], np.zeros(draws), np.zeros(draws, dtype=bool))
            low, high = one.band(0.8)
            inside.append(low <= gain[0, 0] <= high)
        assert np.mean(inside) == pytest.approx(0.8, abs=0.02)


def a_study(url: str | Path, name: str = "s", budget: int = 14) -> None:
    with rl.Study.open(url, name, space=LINE, budget=budget) as study:
        for _ in range(6):
            trial = study.ask()
            study.tell(trial, -((trial.params["x"] - 0.3) ** 2))  # type: ignore[operator]


def finished(http: TestClient, path: str) -> dict[str, Any]:
    for _ in range(600):
        answer: dict[str, Any] = http.get(path).json()
        if answer["state"] not in ("waiting", "running"):
            return answer
        time.sleep(0.02)
    raise AssertionError("the forecast did not end")


def test_over_http(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    a_study(file)
    path = "/api/studies/s/forecast"
    with TestClient(create_app(file), base_url="http://localhost:8080") as http:
        assert http.get(path).json()["state"] == "none"
        started = http.post(path, json={"draws": 3})
        assert started.status_code == 202
        assert started.json()["state"] in ("waiting", "running", "done")
        answer = finished(http, path)
        assert (answer["state"], answer["done"], answer["is_current"]) == ("done", 3, True)
        figures = answer["forecast"]
        assert len(figures["low"]) == figures["steps"] + 1 == 9
        assert "3 simulations of 8 trials" in figures["sentence"]
        # The same state has the same forecast; a new event calls for a new one.
        assert http.post(path, json={"draws": 2}).json() == answer
        http.post("/api/studies/s/extend", json={"budget": 15})
        assert http.get(path).json()["is_current"] is False
        http.post(path, json={"draws": 2, "over": {"x": 0.5}})
        again = finished(http, path)
        assert again["is_current"] is True
        assert again["forecast"]["reference"] == {"x": 0.5}
        assert again["forecast"]["steps"] == 9
        assert http.post(path, json={"draws": 1}).status_code == 422
        assert http.post(path, json={"draws": 2, "over": {"x": 5.0}}).status_code == 422


def test_a_service_refuses_what_it_cannot_simulate(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    with rl.Study.open(file, "endless", space=LINE, horizon=10**6) as study:
        study.observe({"x": 0.5}, 1.0)
    hours = {"hour": rl.Cyclic(0, 24)}
    with rl.Study.open(file, "hours", space=LINE, budget=9, contexts=hours) as study:
        study.observe({"x": 0.5}, 1.0, context={"hour": 3.0})
    with TestClient(create_app(file), base_url="http://localhost:8080") as http:
        for name, message in (("endless", "at most 2000 trials"), ("hours", "the next contexts")):
            answer = http.post(f"/api/studies/{name}/forecast", json={"draws": 2})
            assert answer.status_code == 422
            assert message in answer.json()["detail"]


def test_nothing_to_forecast_from(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    rl.Study.open(file, "s", space=LINE, budget=9).close()
    with TestClient(create_app(file), base_url="http://localhost:8080") as http:
        answer = http.post("/api/studies/s/forecast", json={})
        assert answer.status_code == 409
        assert "no result was told yet" in answer.json()["detail"]
        assert http.get("/api/studies/s/forecast").json()["state"] == "none"


def test_the_service_answers_while_it_simulates_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    a_study(file, budget=60)
    with serving(str(file), folder=tmp_path) as service:
        client = Client(service.url, patience=20)
        study = client.study("s")
        client.call("POST", "/api/studies/s/forecast", {"draws": 256})
        trial = study.ask()
        study.tell(trial, 1.0)
        under_way = client.call("GET", "/api/studies/s/forecast")
        assert under_way["state"] == "running"
        assert under_way["is_current"] is False
        assert service.stop() in (0, -signal.SIGTERM)  # and does not simulate to the end


def test_the_client_waits(tmp_path: Path) -> None:
    file = tmp_path / "s.sqlite"
    a_study(file)
    seen: list[tuple[int, int]] = []
    with serving(str(file), folder=tmp_path) as service:
        study = Client(service.url, patience=20).study("s")
        figures = study.forecast(draws=2, progress=lambda done, of: seen.append((done, of)))
    assert seen[-1] == (2, 2)
    with rl.Study.open(file, "s") as here:
        wanted = here.forecast(draws=2)
    assert figures["mean"] == wanted.to_json()["mean"]
    assert figures["sentence"] == str(wanted)
