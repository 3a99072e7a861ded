"""Guardrails in Optuna and Ray Tune: metrics arrive by name, and their limits hold."""

from __future__ import annotations

from typing import Any

import pytest

import regretless as rl

pytestmark = pytest.mark.integration


def latency(x: float) -> float:
    return 100.0 + 200.0 * x * x  # 250 at x = 0.87


def test_optuna_constraints_are_guardrails() -> None:
    optuna = pytest.importorskip("optuna")
    if not hasattr(optuna.trial.Trial, "set_constraint"):
        pytest.skip("this Optuna has no set_constraint")
    from regretless.integrations.optuna import RegretlessSampler

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    sampler = RegretlessSampler(budget=25, seed=0, guardrails=[rl.AtMost("latency", 0.0)])
    study = optuna.create_study(sampler=sampler, direction="maximize")
    study.enqueue_trial({"x": 0.2})

    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.2)
        trial.set_constraint("latency", latency(x) - 250.0)
        if latency(x) > 300.0:
            raise RuntimeError("too slow to measure")
        return x

    study.optimize(objective, n_trials=25, catch=[RuntimeError])
    broken = [t.number for t in study.trials if latency(t.params["x"]) > 250.0]
    assert len(broken) <= 3
    assert not [number for number in broken if number > 12]
    best = sampler.recommend(study)
    assert best.allowed
    assert 0.7 < best.params["x"] <= 0.87


def test_ray_metrics_are_guarded_by_name() -> None:
    pytest.importorskip("ray.tune")
    from ray import tune

    from regretless.integrations.ray import RegretlessSearch

    search = RegretlessSearch(
        {"x": tune.uniform(0.0, 1.2)},
        metric="speed",
        mode="max",
        budget=25,
        baseline={"x": 0.2},
        guardrails=[rl.AtMost("p99_ms", 250.0)],
    )
    tried = []
    for number in range(25):
        config = search.suggest(str(number))
        tried.append(config["x"])
        report = {"speed": config["x"], "p99_ms": latency(config["x"])}
        search.on_trial_result(str(number), report)
        search.on_trial_complete(str(number), report, error=latency(config["x"]) > 300.0)
    assert tried[0] == 0.2
    assert sum(latency(x) > 250.0 for x in tried) <= 2
    best = search.best()
    assert best.allowed
    assert 0.7 < best.params["x"] <= 0.87
