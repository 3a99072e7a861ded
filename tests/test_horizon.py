"""How many evaluations a gain pays for, and runs without an end."""

from __future__ import annotations

import json
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.engine import Created, Extended, read, write
from regretless.forecast import forecast
from regretless.horizon import Horizon

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})


def f(params: dict[str, Any]) -> float:
    return -((float(params["x"]) - 0.3) ** 2)


def run(optimizer: rl.Optimizer, count: int) -> list[rl.Trial]:
    trials: list[rl.Trial] = []
    for trial in optimizer:
        trials.append(trial)
        optimizer.tell(trial, f(trial.params))
        if len(trials) == count:
            break
    return trials


# -- the number ------------------------------------------------------------------------------------


@pytest.mark.parametrize("keep", [1.0, 0.999, 0.9, 0.5, 0.0])
@pytest.mark.parametrize("share", [1.0, 0.3, 0.0])
@pytest.mark.parametrize("ahead", [None, 7, 500])
def test_the_steps_are_a_sum(keep: float, share: float, ahead: int | None) -> None:
    horizon = Horizon(100, 40, ahead, keep, share)
    n = min(60, ahead or 60)
    expected = 1.0 + share * sum(keep**k for k in range(1, n))
    assert horizon.steps == pytest.approx(expected, rel=1e-12)
    assert horizon.within(0.5) == pytest.approx(1 + 0.5 * (expected - 1), rel=1e-12)


def test_a_budget_alone_counts_as_before() -> None:
    horizon = Horizon(100, 40)
    assert (horizon.steps, horizon.remaining, horizon.planned) == (60, 60, 100)
    assert isinstance(horizon.steps, int)
    assert horizon.to_json() == {"budget": 100}
    assert str(horizon) == "40 of 100"


def test_no_end() -> None:
    horizon = Horizon(None, 4000, 50)
    assert (horizon.steps, horizon.remaining, horizon.is_spent) == (50, 50, False)
    assert str(horizon) == "4000, without an end (50 ahead)"
    assert Horizon.from_json(horizon.to_json()) == Horizon(None, 0, 50)


# -- the optimiser ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "budget: need a number of trials, or a `horizon`"),
        ({"horizon": 0}, "horizon: need at least 1, got 0"),
        ({"budget": 10, "horizon": 1.5}, "horizon: need a whole number, got 1.5"),
    ],
)
def test_wrong_settings(given: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.ConfigError, match=message.replace("`", ".")):
        rl.Optimizer(SPACE, **given)


def test_a_run_without_an_end_goes_on() -> None:
    optimizer = rl.Optimizer(SPACE, horizon=20)
    trials = run(optimizer, 30)
    assert len(trials) == 30
    assert (optimizer.budget, optimizer.horizon, optimizer.remaining) == (None, 20, 20)
    last = trials[-1].decision
    assert last.endless
    assert last.remaining == 20
    assert last.reason != "exhausted"
    assert "ahead" in str(last) or "the next 20" in str(last)
    assert (
        repr(optimizer) == "Optimizer(ids, maximize, asked 30, without an end (20 ahead), told 30)"
    )
    assert "without an end" in optimizer._repr_html_()


def test_the_gate_sees_the_horizon_only() -> None:
    """A run without an end decides as one of a budget that has `horizon` evaluations left."""
    endless = rl.Optimizer(SPACE, horizon=25, design="sobol", n0=6)
    run(endless, 12)
    with_budget = rl.Optimizer(SPACE, budget=37, design="sobol", n0=6)
    for trial in endless.trials:
        with_budget.adopt(trial.params)
        with_budget.tell(trial.number, f(trial.params))
    ours, theirs = endless.ask(), with_budget.ask()
    assert ours.decision.gate == theirs.decision.gate
    assert ours.decision.horizon == theirs.decision.horizon


def test_a_horizon_beside_a_budget() -> None:
    optimizer = rl.Optimizer(SPACE, budget=500, horizon=30, policy="eic")
    run(optimizer, 12)
    assert optimizer.remaining == 488
    assert optimizer.ask().decision.horizon == 30


def test_json_keeps_it_and_the_next_ask() -> None:
    optimizer = rl.Optimizer(SPACE, horizon=20, seed=3)
    run(optimizer, 9)
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.horizon == 20
    assert twin.budget is None
    assert twin.ask() == optimizer.ask()
    assert json.loads(optimizer.to_json())["events"][0]["body"]["version"] == 4


def test_extend_gives_an_end_and_takes_it() -> None:
    optimizer = rl.Optimizer(SPACE, horizon=20)
    run(optimizer, 5)
    optimizer.extend(8)
    assert optimizer.remaining == 3
    assert len(run(optimizer, 99)) == 3
    optimizer.extend(horizon=15)
    assert (optimizer.remaining, optimizer.budget) == (15, None)
    events = len(optimizer.events)
    optimizer.extend(horizon=15)
    assert len(optimizer.events) == events
    for wrong in ({}, {"budget": 9, "horizon": 9}):
        with pytest.raises(rl.ConfigError, match="either a budget, or a horizon"):
            optimizer.extend(**wrong)
    assert rl.Optimizer.from_json(optimizer.to_json()).remaining == 15


def test_events_of_older_releases_are_read() -> None:
    assert read("extended", 1, {"budget": 30}) == Extended(30)
    assert write(Extended(30)).body == {"budget": 30}
    written = write(Extended(None, 40))
    assert read(*written) == Extended(None, 40)
    settings = rl.Optimizer(SPACE, budget=9).spec()
    assert settings["version"] == 2
    assert "horizon" not in settings
    created = read("created", 2, settings)
    assert isinstance(created, Created)
    assert created.settings == settings


def test_maximize_ends_by_a_callback(capsys: pytest.CaptureFixture[str]) -> None:
    result = rl.maximize(
        f,
        SPACE,
        horizon=20,
        callbacks=[lambda optimizer, trial, value: trial.number == 14],
        progress=True,
    )
    assert result.optimizer.asked == 15
    assert "after 15, without an end (20 ahead) trials" in str(result)
    assert "s left" not in capsys.readouterr().err


def test_a_forecast_of_a_run_without_an_end() -> None:
    optimizer = rl.Optimizer(SPACE, horizon=6)
    run(optimizer, 8)
    assert forecast(optimizer, draws=2).steps == 6


def test_a_study_without_an_end(tmp_path: Path) -> None:
    place = tmp_path / "a.sqlite"
    with rl.Study.open(place, "prices", space=SPACE, horizon=12) as study:
        for trial in islice(study, 9):
            study.tell(trial, f(trial.params))
        assert (study.budget, study.horizon, study.remaining) == (None, 12, 12)
    with rl.Study.open(place, "prices", space=SPACE, horizon=12) as study:
        assert study.asked == 9
        study.extend(20)
    with rl.Study.open(place, "prices", space=SPACE, budget=20) as study:
        assert study.remaining == 11
        study.extend(horizon=40, key="again")
        study.extend(horizon=40, key="again")
    with pytest.raises(rl.ConfigError, match="horizon: 40 there, 13 here"):
        rl.Study.open(place, "prices", horizon=13)


def test_explore_then_commit_ends_its_exploration() -> None:
    optimizer = rl.Optimizer(SPACE, horizon=10, policy=rl.ExploreThenCommit(explore=0.3))
    run(optimizer, 30)
    assert len({t.params["x"] for t in optimizer.trials[-10:]}) == 1
    assert np.isfinite(optimizer.best().mean)
