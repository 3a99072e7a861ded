"""Guardrails: limits on metrics hold at every trial, and survive storage."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless import Ledger
from regretless.engine import Asked, read, write

PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
TODAY = {"x": 0.2, "y": 0.3}
LATENCY = rl.AtMost("p99_ms", 250)
RATE = rl.AtLeast("qps", 0.8, of="baseline")


def value(params: dict[str, Any]) -> float:
    """Best at x = 0.9, y = 0.7, where the latency is too high."""
    return -((params["x"] - 0.9) ** 2) - (params["y"] - 0.7) ** 2


def latency(params: dict[str, Any]) -> float:
    return 150.0 + 200.0 * params["x"] ** 2 + 20.0 * np.sin(5.0 * params["y"])


def rate(params: dict[str, Any]) -> float:
    return 1000.0 - 400.0 * params["y"] ** 2


def run(optimizer: rl.Optimizer, steps: int, seed: int = 0, behind: int = 0) -> rl.Optimizer:
    """`behind` trials are always pending."""
    rng, waiting = np.random.default_rng(seed), []
    for _ in range(steps):
        waiting.append(optimizer.ask())
        while len(waiting) > behind:
            trial = waiting.pop(0)
            noise = rng.standard_normal(3) * (0.02, 4.0, 10.0)
            metrics = {
                "p99_ms": latency(trial.params) + noise[1],
                "qps": (rate(trial.params) + noise[2], 10.0),
            }
            optimizer.tell(trial, value(trial.params) + noise[0], metrics=metrics)
    return optimizer


def guarded(budget: int = 40, **settings: Any) -> rl.Optimizer:
    return rl.Optimizer(PLANE, budget, **{"baseline": TODAY, "guardrails": [LATENCY], **settings})


def broken(optimizer: rl.Optimizer) -> list[int]:
    return [t.number for t in optimizer.trials if latency(t.params) > 250]


def test_trials_keep_to_the_limit_and_come_close_to_the_best_allowed_point() -> None:
    optimizer = run(guarded(), 40)
    assert optimizer.trials[0].params == TODAY
    assert len(broken(optimizer)) <= 2
    best = optimizer.best()
    assert best.allowed
    assert latency(best.params) <= 250
    assert value(best.params) > -0.06  # at the limit; today's setting has -0.65
    assert best.holds is not None
    assert best.holds["p99_ms <= 250"] >= 0.95
    without = run(rl.Optimizer(PLANE, 40), 40)
    assert len(broken(without)) > 20


def test_every_decision_has_the_probability_and_says_what_held_it_back() -> None:
    optimizer = run(guarded(), 15)
    for trial in optimizer.trials[1:]:
        holds = trial.decision.holds
        assert holds is not None
        assert holds["p99_ms <= 250"] >= 0.95 or trial.decision.caution
        assert "p99_ms <= 250 holds with a probability of" in str(trial.decision)
    assert any(trial.decision.held_back == "guardrail p99_ms <= 250" for trial in optimizer.trials)


@pytest.mark.parametrize("policy", ["eic", "gp-ucb", "gp-ts", "random", "ei-nguyen"])
def test_every_policy_keeps_to_the_limit(policy: str) -> None:
    optimizer = run(guarded(20, policy=policy), 22, behind=2)
    assert len(broken(optimizer)) <= 2


def test_two_guardrails_one_of_them_relative_to_the_baseline() -> None:
    optimizer = run(guarded(guardrails=[LATENCY, RATE]), 30)
    least = 0.8 * rate(TODAY)
    assert sum(rate(t.params) < least for t in optimizer.trials) <= 2
    assert set(optimizer.trials[-1].decision.holds or {}) == {str(LATENCY), str(RATE)}


def test_violations_are_counted() -> None:
    optimizer = run(guarded(guardrails=[LATENCY, RATE]), 20)
    first, second = Ledger.of(optimizer).violations()
    told = [row.metrics["p99_ms"] for row in optimizer.history()]
    assert (first.guardrail, first.limit, first.told) == ("p99_ms <= 250", 250, 20)
    assert first.observed == sum(y > 250 for y in told)
    probabilities = [t.decision.holds[str(LATENCY)] for t in optimizer.trials if t.decision.holds]
    assert first.trials == len(probabilities) == 19  # nothing was known at the first one
    assert first.expected == pytest.approx(sum(1 - p for p in probabilities))
    assert second.limit == pytest.approx(0.8 * rate(TODAY), rel=0.02)


def test_a_baseline_that_breaks_a_guardrail_is_left() -> None:
    bad = {"x": 0.95, "y": 0.5}
    assert latency(bad) > 300
    optimizer = run(guarded(baseline=bad), 30)
    assert optimizer.trials[0].params == bad
    assert len(broken(optimizer)) <= 8
    assert not [number for number in broken(optimizer) if number > 15]
    said = " ".join(str(trial.decision) for trial in optimizer.trials[:8])
    assert "the one that most likely does is tried" in said
    assert optimizer.best().allowed


def test_best_says_if_nothing_is_known_to_hold() -> None:
    optimizer = run(guarded(guardrails=[rl.AtMost("p99_ms", 10)], baseline=None), 6)
    best = optimizer.best()
    assert not best.allowed
    assert best.holds is not None
    assert best.holds["p99_ms <= 10"] < 0.5


def test_a_metric_that_is_never_told_keeps_the_run_at_the_baseline() -> None:
    optimizer = guarded(12)
    for trial in optimizer:
        assert trial.params == TODAY
        optimizer.tell(trial, value(trial.params))
    said = "p99_ms was never told: nothing but the baseline is tried"
    assert said in str(optimizer.trials[5].decision)
    assert not optimizer.best().allowed
    assert Ledger.of(optimizer).violations()[0].told == 0


def test_without_a_baseline_the_start_tells_what_holds() -> None:
    optimizer = run(guarded(baseline=None), 30)
    assert len(broken(optimizer)) <= 8
    assert not [number for number in broken(optimizer) if number > 12]


def test_a_failed_trial_is_told_by_its_metrics() -> None:
    optimizer = guarded()
    optimizer.observe(TODAY, value(TODAY), metrics={"p99_ms": latency(TODAY)})
    trial = optimizer.ask()
    optimizer.tell(trial, None, metrics={"p99_ms": 900.0})
    row = optimizer.history()[-1]
    assert (row.status, row.value, row.metrics) == ("told", None, {"p99_ms": 900.0})
    assert optimizer.observations == 1  # of the objective
    assert not optimizer.pending
    optimizer.tell(trial, None, metrics={"p99_ms": 900.0})  # the same again
    with pytest.raises(rl.TrialError, match=r"was told p99_ms 900.0, now 1.0"):
        optimizer.tell(trial, 1.0)
    guards = optimizer._current_guards()
    here = PLANE.encode(trial.params)
    assert guards.is_broken(here)
    assert len(Ledger.of(optimizer).trials) == 0
    assert optimizer.ask().params != trial.params


def test_all_trials_may_fail() -> None:
    optimizer = guarded(20, baseline=None)
    for trial in optimizer:
        optimizer.tell(trial, None, metrics={"p99_ms": latency(trial.params)})
    assert not [number for number in broken(optimizer) if number > 10]
    with pytest.raises(rl.NoResultsError):
        optimizer.best()


@pytest.mark.parametrize(
    ("told", "says"),
    [
        ({"value": None}, "got None"),
        ({"value": None, "metrics": {}}, "got None"),
        ({"value": None, "metrics": {"p99_ms": 1.0}, "sem": 1.0}, "need a value with them"),
        ({"value": 1.0, "metrics": {"p99_ms": float("nan")}}, "'p99_ms'"),
        ({"value": 1.0, "metrics": {"objective": 1.0}}, "is not a name for a metric"),
    ],
)
def test_bad_results_change_nothing(told: dict[str, Any], says: str) -> None:
    optimizer = guarded()
    trial = optimizer.ask()
    before = optimizer.to_json()
    with pytest.raises(rl.RegretlessError, match=says):
        optimizer.tell(trial, **told)
    assert optimizer.to_json() == before


# -- storage ---------------------------------------------------------------------------------------


def test_a_replay_has_the_same_next_suggestion_and_never_fits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer = run(guarded(guardrails=[LATENCY, RATE]), 18, behind=1)
    text = optimizer.to_json()
    fitted = [e for e in optimizer.events if isinstance(e, Asked) and e.metric_fits]
    assert fitted
    for event in fitted:
        assert read(*write(event)) == event
    from regretless.model import Belief

    def fail(self: Belief) -> Belief:
        raise AssertionError("fitted")

    with monkeypatch.context() as patched:
        patched.setattr(Belief, "_refitted", fail)
        twin = rl.Optimizer.from_json(text)
        assert twin.best() == optimizer.best()
    assert twin.ask() == optimizer.ask()
    assert twin.to_json() == optimizer.to_json()


def test_a_look_before_the_first_ask_changes_no_suggestion() -> None:
    def begun() -> rl.Optimizer:
        optimizer = guarded()
        optimizer.observe(TODAY, value(TODAY), metrics={"p99_ms": latency(TODAY)})
        return optimizer

    looked, other = begun(), begun()
    looked.best()
    assert looked.ask() == other.ask()
    assert looked.to_json() == other.to_json()


def test_results_told_while_a_proposal_is_computed() -> None:
    optimizer = run(guarded(), 8, behind=2)
    twin = optimizer.copy()
    event = twin.propose()
    late = optimizer.pending[0]
    optimizer.tell(late, value(late.params), metrics={"p99_ms": latency(late.params)})
    optimizer.apply(event)
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask() == optimizer.ask()


def test_a_wrong_metric_is_taken_back() -> None:
    optimizer = run(guarded(), 6)
    clean = rl.Optimizer.from_json(optimizer.to_json())
    trial = optimizer.ask()
    optimizer.tell(trial, None, metrics={"p99_ms": 9000.0})
    optimizer.retract(trial)
    assert optimizer._guards.told_as(optimizer._guards)
    told = [len(each._guards.beliefs["p99_ms"].told) for each in (optimizer, clean)]
    assert told[0] == told[1] == 6
    assert "9000" in (optimizer.history()[-1].note or "")


def test_damaged_fits_are_named() -> None:
    optimizer = run(guarded(), 6)
    stored = json.loads(optimizer.to_json())
    for event in stored["events"]:
        if "metric_fits" in event.get("body", event):
            event.get("body", event)["metric_fits"]["p99_ms"] = {"theta": "?"}
    with pytest.raises(rl.StorageError, match="fit"):
        rl.Optimizer.from_json(json.dumps(stored))


def test_runs_without_guardrails_store_nothing_new() -> None:
    optimizer = run(rl.Optimizer(PLANE, 20), 8)
    for event in optimizer.events:
        body = write(event).body
        assert "metric_fits" not in body
        assert not {"holds", "caution", "held_back"} & set(body.get("decision", {}))


def test_a_study_that_is_killed_goes_on_as_if_nothing_had_happened(tmp_path: Path) -> None:
    """Each event is on disk before the verb returns; the killed process had asked and told."""
    file = tmp_path / "killed.sqlite"
    code = f"""
        import os, signal, sys
        sys.path.insert(0, {str(Path(__file__).parent)!r})
        import regretless as rl
        from test_guardrails import LATENCY, PLANE, RATE, TODAY, latency, rate, value
        study = rl.Study.open({str(file)!r}, "s", space=PLANE, budget=20, baseline=TODAY,
                              guardrails=[LATENCY, RATE])
        for number, trial in enumerate(study):
            told = None if number == 3 else value(trial.params)
            study.tell(trial, told, metrics={{"p99_ms": latency(trial.params),
                                              "qps": rate(trial.params)}})
            if number == 8:
                os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code)], capture_output=True)
    assert done.returncode == -9, done.stderr.decode()
    with rl.Study.open(file, "s") as study:
        optimizer = study.snapshot().optimizer
        assert optimizer.asked == 9
        assert [row.value is None for row in study.history()].index(True) == 3
        twin = rl.Optimizer.from_json(optimizer.to_json())
        assert study.ask() == twin.ask()


def test_the_first_try_of_a_failed_trial_in_one_call() -> None:
    def f(params: dict[str, Any]) -> Any:
        metrics = {"p99_ms": latency(params)}
        return (None, metrics) if latency(params) > 250 else (value(params), metrics)

    seen: list[float] = []
    result = rl.maximize(
        f,
        PLANE,
        25,
        baseline=TODAY,
        guardrails=[LATENCY],
        callbacks=[lambda optimizer, trial, value: seen.append(value)],
    )
    assert len(seen) == 25
    assert latency(result.best.params) <= 250
    assert value(result.best.params) > -0.15


# -- front ends ------------------------------------------------------------------------------------

AS_JSON = {"baseline": TODAY, "guardrails": [LATENCY.to_json()]}


def test_the_service_takes_failed_trials_and_shows_what_was_broken(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from regretless.service.app import create_app

    with TestClient(create_app(tmp_path / "s.db"), base_url="http://localhost:8080") as http:
        new = {"name": "s", "space": PLANE.to_json(), "budget": 20, **AS_JSON}
        assert http.post("/api/studies", json=new).status_code == 201
        assert http.post("/api/studies/s/ask", json={}).json()["params"] == TODAY
        result = {"value": 1.0, "metrics": {"p99_ms": {"value": 180.0, "sem": 5.0}}}
        assert http.post("/api/studies/s/trials/0/tell", json=result).status_code == 204
        trial = http.post("/api/studies/s/ask", json={}).json()
        assert trial["decision"]["holds"]["p99_ms <= 250"] > 0.9
        failed = {"value": None, "metrics": {"p99_ms": {"value": 900.0, "sem": 5.0}}}
        assert http.post("/api/studies/s/trials/1/tell", json=failed).status_code == 204
        wrong = http.post("/api/studies/s/trials/1/tell", json={"value": None})
        assert "got None" in wrong.json()["detail"]
        detail = http.get("/api/studies/s").json()
        assert set(detail["best"]["holds"]) == {"p99_ms <= 250"}
        counted = detail["guardrails"][0]
        assert (counted["told"], counted["observed"], counted["limit"]) == (2, 1, 250.0)
        assert http.get("/api/studies/s/trials").json()[1]["value"] is None
        assert http.get("/api/studies/s/panels").json()["guardrails"] == [counted]


def test_the_command_line_takes_failed_trials_and_shows_what_was_broken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("typer")
    from regretless.cli.app import main

    def shell(*words: str) -> str:
        monkeypatch.setattr("sys.argv", ["regretless", *words])
        main()
        return capsys.readouterr().out

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGRETLESS_STORAGE", "s.db")
    options = [f"--{name}={json.dumps(each)}" for name, each in AS_JSON.items()]
    shell("create", "s", "--budget", "20", "--space", json.dumps(PLANE.to_json()), *options)
    assert "its metric was never told" in shell("show", "s")
    shell("ask", "s")
    shell("tell", "s", "0", "-1.5", "--metric", "p99_ms=180")
    shell("ask", "s")
    shell("tell", "s", "1", "--metric", "p99_ms=900,20")
    with pytest.raises(SystemExit):
        shell("tell", "s", "1")
    assert "1 of 2 results were beyond it" in shell("show", "s")
    assert "p99_ms 900.0 ± 20.0" in shell("log", "s")
    assert json.loads(shell("show", "s", "--json"))["guardrails"][0]["observed"] == 1


def test_a_free_start_may_break_guardrails_and_nothing_later() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
    settings: dict[str, Any] = {
        "guardrails": [rl.AtMost("latency", 0.6)],
        "baseline": {"x": 0.1, "y": 0.1},
        "design": "sobol",
        "n0": 6,
    }

    def run(*, free_start: bool) -> rl.Optimizer:
        optimizer = rl.Optimizer(space, 30, free_start=free_start, **settings)
        rng = np.random.default_rng(3)
        for trial in optimizer:
            p: dict[str, Any] = trial.params
            latency = p["x"] + 0.05 * rng.standard_normal()
            value = p["x"] + p["y"] + 0.05 * rng.standard_normal()
            optimizer.tell(trial, value, metrics={"latency": latency})
        return optimizer

    def broken(optimizer: rl.Optimizer) -> list[int]:
        return [t.number for t in optimizer.trials if t.params["x"] > 0.6]  # type: ignore[operator]

    free, guarded = run(free_start=True), run(free_start=False)
    assert set(broken(free)) & set(range(1, 7)), "no point of the start is beyond the limit"
    assert not set(broken(free)) - set(range(1, 7))
    assert len(broken(guarded)) <= 1
    first = next(t for t in free.trials if t.number in broken(free))
    assert first.decision is not None
    assert first.decision.caution == "the start may break guardrails"
    again = rl.Optimizer.from_json(free.to_json())
    assert again.safety.free_start
    assert [t.params for t in again.trials] == [t.params for t in free.trials]


def test_a_free_start_keeps_to_the_loss_budget() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(
        space,
        20,
        baseline={"x": 0.1},
        loss_budget=0.05,
        guardrails=[rl.AtMost("latency", 5.0)],
        free_start=True,
    )
    for trial in optimizer:
        x = float(trial.params["x"])
        optimizer.tell(trial, -100.0 * (x - 0.1) ** 2, metrics={"latency": x})
    assert max(abs(float(t.params["x"]) - 0.1) for t in optimizer.trials) < 0.3
