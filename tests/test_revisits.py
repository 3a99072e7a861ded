"""Long runs: repeats without a search, and few new points (`RevisitRules`)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.defaults import NEWEST, RevisitRules, defaults_of
from regretless.engine import situation as deciding
from regretless.policies import FEASIBLE

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
REPEAT = rl.Decision("resample", "ids", 100)


def value(params: Any, rng: np.random.Generator) -> float:
    hill = -3.0 * (params["x"] - 0.3) ** 2 - 2.0 * (params["y"] - 0.6) ** 2
    return float(hill + 0.1 * rng.standard_normal())


def long_run(defaults: int = 4, points: int = 310, **settings: Any) -> rl.Optimizer:
    """A run with many points, of which the last trials were repeats."""
    rng = np.random.default_rng(0)
    run = rl.Optimizer(SPACE, budget=1000, seed=1, defaults=defaults, **settings)
    for x in rng.random((points, 2)):
        params = {"x": x[0], "y": x[1]}
        run.observe(params, value(params, rng))
    for _ in range(3):
        trial = run.adopt(run.ask().params, REPEAT)
        run.tell(trial, value(trial.params, rng))
    for trial in run.pending:
        run.abandon(trial)
    for _ in range(199):
        trial = run.adopt(run.best().params, REPEAT)
        run.tell(trial, value(trial.params, rng))
    return run


@pytest.fixture(scope="module")
def settled() -> rl.Optimizer:
    run = long_run()
    run.ask()  # the fit that is due
    return run


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each search, whether it was among the visited points only."""
    made: list[bool] = []

    def noted(score: Any, space: Any, begin: Any, *more: Any, **options: Any) -> Any:
        made.append(begin.complete)
        return search(score, space, begin, *more, **options)

    search = deciding.maximise
    monkeypatch.setattr(deciding, "maximise", noted)
    return made


def on_turn(run: rl.Optimizer, searched: bool) -> rl.Optimizer:
    """A copy with so many trials that the next one is searched for, or not."""
    run, rules = run.copy(), RevisitRules()
    for _ in range(rules.repeats):
        run.adopt(run.best().params, REPEAT)
    while rules.due(len(run.trials), rules.repeats) == searched:
        run.adopt(run.best().params, REPEAT)
    return run


def test_the_best_visited_point_is_taken(settled: rl.Optimizer, searches: list[bool]) -> None:
    run = on_turn(settled, searched=False)
    trial = run.copy().ask()
    assert searches
    assert all(searches)
    situation = replace(run._situation(), revisit=True)
    score = situation.policy.score(situation.inputs)  # the oracle: all visited points, one by one
    each = [score(x[None, :]) for x in situation.inputs.posterior.points]
    allowed = [float(v[0]) if s[0] >= FEASIBLE else -np.inf for v, s in each]
    best = situation.inputs.posterior.points[int(np.argmax(allowed))]
    assert trial.params == run._records.params_at(best)
    assert trial.decision.reason == "resample"
    again = rl.Optimizer.from_json(run.to_json())
    assert again.ask() == trial


def test_the_search_comes_back(settled: rl.Optimizer, searches: list[bool]) -> None:
    on_turn(settled, searched=True).ask()
    assert searches
    assert not any(searches)


def test_a_new_point_has_to_be_better(settled: rl.Optimizer, monkeypatch: Any) -> None:
    run = on_turn(settled, searched=True)

    def asked(gain: float) -> rl.Trial:
        twin = run.copy()
        rules = RevisitRules(gain=gain)
        monkeypatch.setattr(twin, "defaults", twin.defaults._replace(revisit=rules))
        return twin.ask()

    tried = {tuple(row.params.values()) for row in run.history()}
    assert tuple(asked(np.inf).params.values()) in tried  # no new point is better by so much
    assert not asked(np.inf).decision.merged
    found = asked(-np.inf)  # every visited point is too bad: as without the rule
    monkeypatch.setattr(run, "defaults", run.defaults._replace(revisit=None))
    assert run.ask().params == found.params


@pytest.mark.parametrize(
    "change",
    [
        lambda run: run.adopt({"x": 0.9, "y": 0.1}),  # not a repeat
        lambda run: run.change_space(freeze={"x": 0.5}),
    ],
)
def test_after_a_change_every_trial_is_searched_for(
    settled: rl.Optimizer, searches: list[bool], change: Any
) -> None:
    run = on_turn(settled, searched=False)
    change(run)
    run.ask()
    assert not any(searches)


def test_small_runs_and_older_versions_are_as_before(searches: list[bool]) -> None:
    assert NEWEST.revisit == RevisitRules()
    assert all(defaults_of(version).revisit is None for version in (1, 2))
    for run in (long_run(points=200), long_run(defaults=2)):
        searches.clear()
        for _ in range(3):
            run.ask()
        assert searches
        assert not any(searches)


def test_version_4_is_version_2_up_to_300_points() -> None:
    """The same bits, and the same rules but for the one of long runs."""
    older, newer = defaults_of(2), defaults_of(4)
    assert newer._replace(version=2, revisit=None) == older
    runs = [long_run(defaults=version, points=290) for version in (2, 4)]
    one, other = ([run.ask() for _ in range(4)] for run in runs)
    assert one == other
    assert len(runs[1]._belief.data) < RevisitRules().points


def test_the_candidate_has_the_rule_too() -> None:
    assert defaults_of(3).revisit == defaults_of(4).revisit == RevisitRules()
