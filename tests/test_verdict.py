"""Where a run stands, in one sentence: right in both directions, and honest about it."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.verdict import ENOUGH, STATES, verdict

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "k": rl.Categorical(["a", "b"])})


def f(params: dict[str, Any]) -> float:
    return 20.0 - 30.0 * (params["x"] - 0.3) ** 2 + (params["k"] == "b")


def tuned(steps: int, noise: float = 0.3, sign: float = 1.0, **settings: Any) -> rl.Optimizer:
    rng = np.random.default_rng(0)
    settings.setdefault("direction", "maximize" if sign > 0 else "minimize")
    settings.setdefault("budget", 60)
    optimizer = rl.Optimizer(SPACE, seed=1, **settings)
    for _ in range(steps):
        trial = optimizer.ask()
        optimizer.tell(trial, sign * (f(trial.params) + noise * rng.standard_normal()))
    return optimizer


def test_before_the_first_result() -> None:
    found = verdict(rl.Optimizer(SPACE, 40))
    assert (found.state, found.left, found.best, found.gain) == ("waiting", 40, None, None)
    assert str(found) == "Waiting for the first result: nothing was told yet, 40 trials left"


def test_the_first_result_is_what_others_are_compared_to() -> None:
    found = verdict(tuned(1))
    assert (found.over, found.gain, found.percent) == ("first point", 0.0, None)
    assert "the best point is the first point" in str(found)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_the_gain_is_that_of_the_joint_posterior(sign: float) -> None:
    today = {"x": 0.9, "k": "a"}
    optimizer = tuned(25, sign=sign, baseline=today)
    found, best = verdict(optimizer), optimizer.best()
    assert found.over == "baseline"
    assert found.reference == today
    assert found.value == pytest.approx(optimizer.predict(today)[0])
    for name in ("gain", "gain_low", "gain_high"):
        assert getattr(found, name) == pytest.approx(getattr(best, name), rel=1e-6)
    assert found.percent == pytest.approx(100 * found.gain / abs(found.value))
    assert found.percent_low < found.percent < found.percent_high
    assert f"{found.percent:.0f} % better than today (95 %:" in str(found)


def test_the_percentage_is_a_ratio_of_two_uncertain_numbers() -> None:
    """Its interval is that of draws from the joint posterior."""
    optimizer = tuned(25, noise=2.0, baseline={"x": 0.9, "k": "a"})
    found, situation = verdict(optimizer), optimizer._situation()
    points = [optimizer.best().params, {"x": 0.9, "k": "a"}]
    x = np.array([SPACE.encode(point) for point in points])
    mean = situation.user(situation.posterior.predict(x)[0])
    rate = situation.user_sd(situation.posterior.predict(x)[0], np.ones(2))
    covariance = situation.posterior.covariance(x) * np.outer(rate, rate)
    draws = np.random.default_rng(0).multivariate_normal(mean, covariance, 100_000)
    shares = 100.0 * (draws[:, 0] - draws[:, 1]) / np.abs(draws[:, 1])
    low, high = np.quantile(shares, [0.025, 0.975])
    assert found.percent_low == pytest.approx(low, abs=0.05 * (high - low))
    assert found.percent_high == pytest.approx(high, abs=0.05 * (high - low))


def test_no_percentage_of_what_may_be_zero() -> None:
    optimizer = rl.Optimizer(SPACE, 60, baseline={"x": 0.0, "k": "a"}, unit="kg")
    rng = np.random.default_rng(0)
    for _ in range(15):
        trial = optimizer.ask()
        optimizer.tell(trial, 5.0 * float(trial.params["x"]) + 0.1 * rng.standard_normal())  # type: ignore[arg-type]
    found = verdict(optimizer)
    assert found.percent is None
    assert found.gain > 2.0
    assert " kg better than today" in str(found)


def test_what_is_not_known_to_be_better_is_not_called_better() -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(SPACE, 60)
    for _ in range(12):
        optimizer.tell(optimizer.ask(), 10.0 + rng.standard_normal())
    found = verdict(optimizer)
    if found.gain_low != found.gain_high:
        assert found.gain_low < 0.0 < found.gain_high
        assert "not clearly better than the first point" in str(found)


def test_a_run_explores_settles_and_ends() -> None:
    rng = np.random.default_rng(0)
    optimizer, seen = rl.Optimizer(SPACE, 60, seed=1), []
    while optimizer.remaining:
        trial = optimizer.ask()
        optimizer.tell(trial, f(trial.params) + 0.3 * rng.standard_normal())
        if optimizer.asked in (5, 15, 59, 60):
            seen.append(verdict(optimizer).state)
    assert seen[0] == "exploring"
    assert seen[2] in ("settling", "settled")
    assert seen[3] == "spent"


def test_repeats_of_one_point_are_a_settled_run() -> None:
    optimizer = rl.Optimizer(SPACE, 200)
    for x in (0.1, 0.5, 0.9):
        for _ in range(4):
            trial = optimizer.adopt({"x": x, "k": "a"})
            optimizer.tell(trial, f(trial.params))
    assert verdict(optimizer).state != "exploring"
    for _ in range(10):
        trial = optimizer.adopt({"x": 0.5, "k": "a"})
        optimizer.tell(trial, f(trial.params))
    assert verdict(optimizer).state == "settled"


def test_a_sudden_change_is_news_for_a_while() -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(SPACE, horizon=50, drift="auto")

    def go_on(count: int, level: float) -> str:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for _ in range(count):
                trial = optimizer.adopt({"x": 0.5, "k": "a"})
                optimizer.tell(trial, level + rng.standard_normal())
        return verdict(optimizer).state

    assert go_on(40, 0.0) == "settled"
    assert go_on(5, 15.0) == "changed"
    assert go_on(40, 15.0) == "settled"
    assert "no end" in str(verdict(optimizer))


def test_the_end_is_not_foretold_from_little() -> None:
    assert verdict(tuned(ENOUGH - 1)).expected_end is None
    optimizer = tuned(ENOUGH)
    found = verdict(optimizer)
    assert found.expected_end >= found.best.mean - 1e-6
    assert found.expected_end == verdict(optimizer).expected_end  # the same again
    assert "expected to end near" in str(found)
    assert verdict(tuned(60)).expected_end is None


def test_the_end_mirrors_the_direction() -> None:
    up, down = verdict(tuned(30)), verdict(tuned(30, sign=-1.0))
    assert down.expected_end == pytest.approx(-up.expected_end, rel=1e-6)
    assert down.percent == pytest.approx(up.percent, rel=1e-6)


def test_contexts_are_averaged() -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(SPACE, 60, contexts={"hour": rl.Cyclic(0.0, 24.0)})
    optimizer.set_baseline({"x": 0.9, "k": "a"})
    for _ in range(15):
        trial = optimizer.ask(context={"hour": float(rng.uniform(0, 24))})
        optimizer.tell(trial, f(trial.params) + 0.1 * rng.standard_normal())
    found, best = verdict(optimizer), optimizer.best()
    assert found.gain == pytest.approx(best.gain, rel=1e-6)
    assert found.gain_low == pytest.approx(best.gain_low, rel=1e-5)
    assert found.expected_end is None  # nobody knows the contexts to come


def test_it_changes_nothing_and_is_json() -> None:
    optimizer = tuned(12)
    before = optimizer.to_json()
    for steps in (0, 1, 12, 60):
        data = json.loads(json.dumps(verdict(tuned(steps)).to_json(), allow_nan=False))
        assert data["title"] == STATES[data["state"]]
    verdict(optimizer)
    assert optimizer.to_json() == before


# -- what the results are called ------------------------------------------------------------------


def test_a_metric_and_a_unit_are_kept_and_change_no_decision(tmp_path: Path) -> None:
    plain, named = tuned(8), tuned(8, metric="p99 latency", unit="ms")
    assert [t.params for t in plain.trials] == [t.params for t in named.trials]
    again = rl.Optimizer.from_json(named.to_json())
    assert (again.metric, again.unit) == ("p99 latency", "ms")
    assert (plain.metric, plain.unit) == (None, None)
    assert "metric" not in plain.spec()
    # Older releases ignore them, so the version of the settings is the same.
    assert named.spec()["version"] == plain.spec()["version"]
    settings: dict[str, Any] = {"space": SPACE, "budget": 5, "metric": "clicks", "unit": "%"}
    with rl.Study.open(tmp_path / "s.db", "s", **settings) as study:
        assert (study.metric, study.unit) == ("clicks", "%")
    with rl.Study.open(tmp_path / "s.db", "s") as study:
        assert (study.metric, study.unit) == ("clicks", "%")
    with pytest.raises(rl.ConfigError, match="unit: '%' there, 'ms' here"):
        rl.Study.open(tmp_path / "s.db", "s", unit="ms")


@pytest.mark.parametrize("wrong", ["", 3, "a\nb", "x" * 1000])
def test_a_name_that_is_none(wrong: Any) -> None:
    for what in ("metric", "unit"):
        with pytest.raises(rl.ConfigError, match=f"^{what}: need 1 to"):
            rl.Optimizer(SPACE, 5, **{what: wrong})


def test_results_are_called_by_their_name() -> None:
    result = rl.minimize(lambda p: 3.0 + p["x"], SPACE, 5, metric="p99 latency", unit="ms")
    assert "p99 latency (ms)" in result._repr_html_()
    plotting = pytest.importorskip("regretless.plotting")
    assert plotting.plot_decisions(result).get_ylabel() == "p99 latency (ms)"
    assert plotting.plot_reward(result).get_ylabel().endswith("(ms)")
