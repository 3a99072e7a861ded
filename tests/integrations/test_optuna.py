"""The Optuna sampler, against Optuna itself; its own suites are in test_optuna_suites.py."""

from __future__ import annotations

import gc
import inspect
import json
import math
import pickle
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl

optuna = pytest.importorskip("optuna", reason="optuna is not installed")
from optuna.distributions import (  # noqa: E402
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)

from regretless.integrations import optuna as ours  # noqa: E402
from regretless.integrations.optuna import RegretlessSampler  # noqa: E402

# Optuna's storages leave their databases to the collector, of which Python 3.13 warns.
pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("ignore:unclosed database:ResourceWarning"),
]


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """Databases that Optuna left open are collected here, where the warning is ignored."""
    yield
    gc.collect()


optuna.logging.set_verbosity(optuna.logging.ERROR)

MIXED = {
    "depth": IntDistribution(1, 64, log=True),
    "drug": CategoricalDistribution(["A", "B", None]),
    "rate": FloatDistribution(1e-4, 1.0, log=True),
    "share": FloatDistribution(0.0, 1.0),
    "tenth": FloatDistribution(-1.0, 1.0, step=0.1),
    "visits": IntDistribution(0, 12, step=3),
}
MIXED_SPACE = rl.Space(
    {
        "depth": rl.Int(1, 64, log=True),
        "drug": rl.Categorical(["A", "B", None]),
        "rate": rl.Float(1e-4, 1.0, log=True),
        "share": rl.Float(0.0, 1.0),
        "tenth": rl.Float(-1.0, 1.0, step=0.1),
        "visits": rl.Float(0, 12, step=3),
    }
)


def study_with(sampler: Any, direction: str = "maximize", **options: Any) -> Any:
    return optuna.create_study(direction=direction, sampler=sampler, **options)


def hill(params: dict[str, Any]) -> float:
    bonus = {"A": 0.0, "B": 0.4, None: 0.1}[params["drug"]]
    return bonus - (params["share"] - 0.3) ** 2 - abs(params["tenth"]) - params["rate"]


def bump(trial: Any) -> float:
    return -((trial.suggest_float("x", 0.0, 1.0) - 0.3) ** 2)


def peak(at: float, name: str = "x") -> Any:
    return lambda trial: -((trial.suggest_float(name, 0.0, 1.0) - at) ** 2)


def studied(objective: Any, n_trials: int, **options: Any) -> Any:
    """By Optuna alone."""
    study = study_with(optuna.samplers.RandomSampler(seed=0), **options)
    study.optimize(objective, n_trials=n_trials)
    return study


def remaining(trial: Any) -> int:
    return int(trial.system_attrs["regretless"]["decision"]["remaining"])


def reasons(study: Any) -> list[str]:
    return [t.system_attrs["regretless"]["decision"]["reason"] for t in study.trials]


# -- the same as the library -----------------------------------------------------------------------


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_suggestions_are_the_optimizers(direction: Any) -> None:
    study = study_with(RegretlessSampler(budget=40, seed=3), direction)
    optimizer = rl.Optimizer(MIXED_SPACE, 40, seed=3, direction=direction)
    sign, rng = (1.0 if direction == "maximize" else -1.0), np.random.default_rng(0)
    for number in range(25):
        trial = study.ask(MIXED)
        # Nobody knows the space before the first trial: Optuna draws it at random.
        mine = optimizer.adopt(trial.params) if number == 0 else optimizer.ask()
        assert mine.params == trial.params
        value = sign * (hill(trial.params) + 0.1 * rng.standard_normal())
        study.tell(trial, value)
        optimizer.tell(mine, value)


def test_late_results_are_the_same_history() -> None:
    """Several trials under way, told out of order."""
    study = study_with(RegretlessSampler(budget=30, seed=5))
    optimizer = rl.Optimizer(MIXED_SPACE, 30, seed=5)
    first = study.ask(MIXED)
    optimizer.tell(optimizer.adopt(first.params), hill(first.params))
    study.tell(first, hill(first.params))
    waiting = []
    for _ in range(18):
        trial, mine = study.ask(MIXED), optimizer.ask()
        assert mine.params == trial.params
        waiting.append((trial, mine))
        if len(waiting) == 3:
            trial, mine = waiting.pop(1)
            study.tell(trial, hill(trial.params))
            optimizer.tell(mine, hill(trial.params))


def test_minimising_mirrors_maximising() -> None:
    params = []
    for direction, sign in (("maximize", 1.0), ("minimize", -1.0)):
        study = study_with(RegretlessSampler(budget=20, seed=1), direction)
        study.optimize(lambda t, s=sign: s * bump(t), n_trials=15)
        params.append([t.params for t in study.trials])
    assert params[0] == params[1]


@pytest.mark.parametrize("stored", [False, True])
def test_a_pickled_sampler_continues_alike(stored: bool, tmp_path: Any) -> None:
    url, params = f"sqlite:///{tmp_path}/study.db" if stored else None, []
    for interrupted in (False, True):
        study = study_with(RegretlessSampler(budget=20, seed=1), storage=url)
        study.optimize(bump, n_trials=10)
        if interrupted:
            sampler = pickle.loads(pickle.dumps(study.sampler))
            if stored:  # as another process would have it
                study = optuna.load_study(study_name=study.study_name, storage=url)
            study.sampler = sampler
        study.optimize(bump, n_trials=5)
        params.append([t.params for t in study.trials])
    assert params[0] == params[1]


# -- incremental -----------------------------------------------------------------------------------


def test_nothing_is_built_or_learnt_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    built, told = [], []

    class Counting(rl.Optimizer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            built.append(1)
            super().__init__(*args, **kwargs)

        def tell(self, trial: Any, value: float, **rest: Any) -> None:
            told.append(trial)
            super().tell(trial, value, **rest)

    monkeypatch.setattr(ours, "Optimizer", Counting)
    sampler = RegretlessSampler(budget=40, seed=0)
    study = study_with(sampler)
    study.optimize(bump, n_trials=40)
    assert len(built) == 2  # one checks the settings, one does the work
    assert told == list(range(39))  # the last one's result nobody needed


def test_the_start_is_short() -> None:
    study = study_with(RegretlessSampler(budget=60, seed=0, n0=4))
    study.optimize(bump, n_trials=8)
    assert reasons(study)[:4] == ["given", "design", "design", "design"]
    assert "design" not in reasons(study)[4:]


# -- spaces that change ----------------------------------------------------------------------------


def test_a_changing_space_keeps_what_was_learnt() -> None:
    def objective(trial: Any) -> float:
        value = bump(trial)
        if trial.number < 6:  # a parameter that is dropped later
            value -= trial.suggest_float("gone", 0.0, 1.0)
        if trial.suggest_categorical("kind", ["a", "b"]) == "b":
            value -= trial.suggest_int("depth", 1, 5)
        return value

    sampler = RegretlessSampler(budget=30, seed=0)
    study = study_with(sampler)
    study.optimize(objective, n_trials=6)
    assert set(sampler._past.fold.space) - {"depth"} == {"gone", "kind", "x"}
    study.optimize(objective, n_trials=14)
    assert set(sampler._past.fold.space) == {"depth", "kind", "x"}  # a choice decides about depth
    assert sampler._past.fold.optimizer.observations == 19
    assert sampler._past.fold.optimizer.remaining == 30 - 20
    assert all(t.state == optuna.trial.TrialState.COMPLETE for t in study.trials)


def test_a_range_too_narrow_is_left_to_chance() -> None:
    study = study_with(RegretlessSampler(budget=10, seed=0))
    space = {"x": FloatDistribution(0.0, 1.0), "y": FloatDistribution(1.0, 1.0 + 4e-16)}
    for _ in range(4):
        study.tell(study.ask(space), 0.0)
    assert list(study.sampler._past.fold.space) == ["x"]


def test_what_is_left_to_chance_is_said_once(caplog: pytest.LogCaptureFixture) -> None:
    def objective(trial: Any) -> float:
        value = bump(trial)
        trial.suggest_int("vast", 1, 10**13, log=True)
        trial.suggest_float("wider", 0.0, 1.0 + trial.number)
        if value < -0.01:  # more than 0.1 away, as the grid's first point is
            value -= trial.suggest_int("depth", 1, 5)
        return value

    sampler = RegretlessSampler(budget=20, seed=0)
    for rounds in (1, 2):
        study = study_with(sampler)
        study.optimize(objective, n_trials=1)
        assert len(caplog.records) == 3 * (rounds - 1)  # the first trial is always drawn
        study.optimize(objective, n_trials=9)
        assert len(caplog.records) == 3 * rounds
    said = "\n".join(sorted(caplog.messages[:3]))
    assert "depth: drawn by RandomSampler, not tuned: not every trial so far has it" in said
    assert "vast: drawn by RandomSampler, not tuned: Int: log=True needs high <= " in said
    assert "wider: drawn by RandomSampler, not tuned: not every trial so far has it" in said


# -- one sampler, several studies ------------------------------------------------------------------


def test_a_sampler_does_not_mix_studies() -> None:
    sampler = RegretlessSampler(budget=10, seed=0)
    for _ in range(2):
        study = study_with(sampler)
        study.optimize(bump, n_trials=5)
        assert remaining(study.trials[-1]) == 6


@pytest.mark.parametrize("stored", [False, True])
def test_a_name_used_again_is_another_study(stored: bool, tmp_path: Any) -> None:
    """In memory, as when a notebook's cell is run again, or deleted from a storage."""
    sampler, ids = RegretlessSampler(budget=15, seed=0), []
    url = f"sqlite:///{tmp_path}/study.db" if stored else None
    for best in (0.2, 0.8):
        study = study_with(sampler, study_name="demo", storage=url)
        study.optimize(peak(best), n_trials=12)
        assert remaining(study.trials[-1]) == 15 - 11
        assert abs(study.sampler.recommend(study).params["x"] - best) < 0.1
        ids.append(study._study_id)
        if stored:
            optuna.delete_study(study_name="demo", storage=url)
    assert ids[0] == ids[1]  # so that an id would not tell them apart either


def test_the_same_trials_with_other_values_are_another_study() -> None:
    sampler, source = RegretlessSampler(budget=15, seed=0), studied(bump, 12)
    for best in (0.2, 0.8):
        study = study_with(sampler, study_name="demo")
        for trial in source.trials:
            trial.value = -((trial.params["x"] - best) ** 2)
            study.add_trial(trial)
        study.optimize(peak(best), n_trials=1)
        assert abs(study.trials[-1].params["x"] - best) < 0.2


def test_the_next_study_may_have_other_parameters() -> None:
    sampler = RegretlessSampler(budget=20, seed=0, n0=3)
    for name in ("x", "y"):
        study = study_with(sampler)
        study.optimize(peak(0.3, name), n_trials=8)
        assert reasons(study).count("given") == 1
        assert list(sampler.recommend(study).params) == [name]


def test_one_sampler_recommends_for_all_studies_of_a_storage(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    studies = {name: studied(peak(0.3, name), 5, storage=url) for name in ("a", "b")}
    sampler = RegretlessSampler(budget=1, seed=0)
    for name in ("a", "b", "a"):
        assert list(sampler.recommend(studies[name]).params) == [name]


def test_a_look_at_another_study_changes_nothing() -> None:
    other, params = studied(peak(0.9), 5), []
    for look in (False, True):
        study = study_with(RegretlessSampler(budget=20, seed=1))
        study.optimize(bump, n_trials=10)
        fold = study.sampler._past.fold
        if look:
            study.sampler.recommend(other)
        study.optimize(bump, n_trials=3)
        assert study.sampler._past.fold is fold
        params.append([t.params for t in study.trials])
    assert params[0] == params[1]


# -- trials that are not like the others -----------------------------------------------------------


def test_running_trials_are_pending_points() -> None:
    study = study_with(RegretlessSampler(budget=20, seed=0, n0=3, policy="ei"))
    study.optimize(bump, n_trials=6)
    asked = [study.ask({"x": FloatDistribution(0.0, 1.0)}) for _ in range(4)]
    pending = [t.system_attrs["regretless"]["decision"]["pending"] for t in study.trials[6:]]
    assert pending == [0, 1, 2, 3]
    assert len({t.params["x"] for t in asked}) == 4


def test_another_process_sees_them_before_they_are_suggested(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    mine = study_with(RegretlessSampler(budget=20, seed=0, n0=3), study_name="s", storage=url)
    mine.optimize(lambda t: bump(t) - t.suggest_int("k", 0, 3), n_trials=6)
    lazy = mine.ask()
    lazy.suggest_float("x", 0.0, 1.0)  # and k is still to come
    other_sampler = RegretlessSampler(budget=20, seed=9, n0=3)
    other = optuna.load_study(study_name="s", storage=url, sampler=other_sampler)
    trial = other.ask({"x": FloatDistribution(0.0, 1.0), "k": IntDistribution(0, 3)})
    decision = other.trials[trial.number].system_attrs["regretless"]["decision"]
    assert (decision["pending"], decision["remaining"]) == (1, 20 - 7)
    assert other_sampler._past.fold.optimizer.observations == 6


WORKER = """
import sys, optuna
from regretless.integrations.optuna import RegretlessSampler
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.load_study(study_name="s", storage=sys.argv[1], sampler=RegretlessSampler(budget=10))
study.optimize(lambda t: -(t.suggest_float("x", 0, 1) - 0.3) ** 2 - t.suggest_int("k", 0, 3),
               n_trials=5)
"""


def test_two_processes_share_a_budget(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = study_with(None, study_name="s", storage=url)
    workers = [subprocess.Popen([sys.executable, "-c", WORKER, url]) for _ in range(2)]
    assert [worker.wait(timeout=120) for worker in workers] == [0, 0]
    trials = study.trials
    assert len(trials) == 10
    assert all(t.state == optuna.trial.TrialState.COMPLETE for t in trials)
    # Of two that start at the same moment either may count first, and nothing more.
    assert all(abs(remaining(t) - (10 - t.number)) <= 1 for t in trials)


def test_pruned_trials_count_with_their_last_value() -> None:
    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        trial.report(-x, step=1)
        if x > 0.5:
            raise optuna.TrialPruned
        return -x

    study = study_with(RegretlessSampler(budget=30, seed=0))
    study.optimize(objective, n_trials=20)
    fold = study.sampler._past.fold
    states = [t.state for t in study.trials[:-1]]
    assert optuna.trial.TrialState.PRUNED in states
    assert fold.optimizer.observations == 19
    assert fold.optimizer.best().luckiest == max(t.value for t in study.trials[:-1])


def test_pruned_trials_alone_tell_the_space() -> None:
    def objective(trial: Any) -> float:
        trial.report(bump(trial), step=1)
        raise optuna.TrialPruned

    study = study_with(RegretlessSampler(budget=20, seed=0))
    study.optimize(objective, n_trials=12)
    assert reasons(study).count("given") == 1
    assert abs(study.sampler.recommend(study).params["x"] - 0.3) < 0.1


def test_a_trial_pruned_early_does_not_shrink_the_space() -> None:
    def objective(trial: Any) -> float:
        value = bump(trial)
        if trial.number == 3:  # before it has asked for k
            raise optuna.TrialPruned
        return value - trial.suggest_int("k", 0, 3)

    study = study_with(RegretlessSampler(budget=20, seed=0))
    study.optimize(objective, n_trials=6)
    assert set(study.sampler._past.fold.space) == {"k", "x"}


def test_hyperband_shows_a_bracket_at_a_time() -> None:
    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        for step in range(1, 10):
            trial.report(-((x - 0.3) ** 2) - 0.1 / step, step)  # it looks worse early on
            if trial.should_prune():
                raise optuna.TrialPruned
        return -((x - 0.3) ** 2)

    pruner = optuna.pruners.HyperbandPruner(max_resource=9)
    study = study_with(RegretlessSampler(budget=30, seed=0), pruner=pruner)
    study.optimize(objective, n_trials=30)
    assert all(t.state.is_finished() for t in study.trials)
    assert [remaining(t) for t in study.trials] == list(range(30, 0, -1))  # of all brackets
    assert abs(study.sampler.recommend(study).params["x"] - 0.3) < 0.2


def test_failures_do_not_trap_the_search() -> None:
    def objective(trial: Any) -> float:
        x = trial.suggest_float("x", 0.0, 1.0)
        if x > 0.7:
            raise RuntimeError("too hot")
        return x

    study = study_with(RegretlessSampler(budget=50, seed=0))
    study.optimize(objective, n_trials=50, catch=RuntimeError)
    done = [t.state == optuna.trial.TrialState.COMPLETE for t in study.trials]
    assert sum(done[-25:]) >= 12
    assert study.best_value > 0.6


@pytest.mark.parametrize("end", ["fail", "inf"])
def test_what_never_worked_is_not_recommended(end: str) -> None:
    study = optuna.create_study(direction="minimize")
    here = {"x": optuna.distributions.FloatDistribution(0.0, 1.0)}
    for x, value in [(0.1, 1.0), (0.5, None), (0.12, 1.2), (0.11, 1.1), (0.13, 1.3)]:
        ended: dict[str, Any] = {"value": math.inf if value is None else value}
        if value is None and end == "fail":
            ended = {"state": optuna.trial.TrialState.FAIL}
        study.add_trial(optuna.trial.create_trial(params={"x": x}, distributions=here, **ended))
    best = RegretlessSampler(budget=10, seed=0).recommend(study)
    assert best.params["x"] <= 0.13


def test_infinities_alone_recommend_nothing() -> None:
    study = study_with(RegretlessSampler(budget=10, seed=0))
    study.optimize(lambda trial: math.inf * (1 + trial.suggest_float("x", 0, 1)), n_trials=3)
    with pytest.raises(rl.NoResultsError, match="no trial has a finite value yet"):
        study.sampler.recommend(study)


def test_the_recommendation_is_a_point_that_was_tried_to_the_last_digit() -> None:
    study = study_with(RegretlessSampler(budget=30, seed=0, n0=4))
    trial = study.ask({"x": optuna.distributions.FloatDistribution(0.0, 1.0)})
    study.tell(trial, 10.0)
    study.optimize(lambda t: -20 * abs(t.suggest_float("x", 0, 1) - trial.params["x"]), n_trials=12)
    assert study.sampler.recommend(study).params == trial.params
    assert trial.params["x"] in [t.params["x"] for t in study.trials[1:]]  # nor when run again


def test_equal_choices_are_drawn_not_tuned(caplog: pytest.LogCaptureFixture) -> None:
    def objective(trial: Any) -> float:
        return bump(trial) + isinstance(trial.suggest_categorical("c", [1, 1.0, "a"]), float)

    study = study_with(RegretlessSampler(budget=8, seed=0))
    study.optimize(objective, n_trials=8)
    assert "can't tell 1 and 1.0 apart" in caplog.text
    assert set(study.sampler._past.fold.space) == {"x"}


@pytest.mark.filterwarnings("ignore:PartialFixedSampler is experimental")
def test_a_look_changes_nothing_also_where_a_parameter_is_fixed() -> None:
    def objective(trial: Any) -> float:
        return bump(trial) - (trial.suggest_categorical("c", ["a", "b"]) == "b")

    params = []
    for looks in (True, False):
        sampler = RegretlessSampler(budget=20, seed=1)
        study = study_with(optuna.samplers.PartialFixedSampler({"c": "a"}, sampler))
        for _ in range(12):
            study.optimize(objective, n_trials=1)
            if looks:
                sampler.recommend(study)
        params.append([t.params for t in study.trials])
    assert params[0] == params[1]


def test_trials_that_were_nowhere_cost_budget_too() -> None:
    study = study_with(RegretlessSampler(budget=20, seed=0))
    study.optimize(bump, n_trials=3)

    def broken(trial: Any) -> float:
        trial.suggest_float("x", 0.0, 1.0)
        raise RuntimeError

    study.optimize(broken, n_trials=2, catch=RuntimeError)
    study.optimize(bump, n_trials=1)
    assert remaining(study.trials[-1]) == 20 - 5


def test_enqueued_trials_are_given() -> None:
    def objective(trial: Any) -> float:
        return bump(trial) - trial.suggest_int("k", 0, 3)

    study = study_with(RegretlessSampler(budget=30, seed=0))
    study.enqueue_trial({"x": 0.25, "k": 1})
    study.optimize(objective, n_trials=6)
    study.enqueue_trial({"x": 0.5})
    study.optimize(objective, n_trials=3)
    assert study.trials[0].params == {"x": 0.25, "k": 1}
    assert study.trials[0].user_attrs["regretless"].startswith("given")
    assert remaining(study.trials[0]) == 30
    assert study.trials[6].params["x"] == 0.5
    reason = study.trials[6].system_attrs["regretless"]["decision"]["reason"]
    assert reason == "given"
    optimizer = study.sampler._past.fold.optimizer
    assert (optimizer.asked, optimizer.observations) == (9, 8)
    assert {"k": 1, "x": 0.25} in [row.params for row in optimizer.history()]


def test_an_enqueued_trial_counts_once() -> None:
    """Even if another one has seen it run before it asks for a parameter of its own."""
    study = study_with(RegretlessSampler(budget=20, seed=0))
    study.optimize(bump, n_trials=4)
    study.enqueue_trial({"x": 0.5})
    enqueued, other = study.ask(), study.ask({"x": FloatDistribution(0.0, 1.0)})
    study.tell(enqueued, bump(enqueued) - enqueued.suggest_float("own", 0.0, 1.0))
    study.tell(other, 0.0)
    study.optimize(bump, n_trials=1)
    decision = study.trials[-1].system_attrs["regretless"]["decision"]
    assert (decision["pending"], decision["remaining"]) == (0, 20 - 6)


def test_an_enqueued_trial_may_lie_outside() -> None:
    study = study_with(RegretlessSampler(budget=20, seed=0))
    study.optimize(bump, n_trials=4)
    study.enqueue_trial({"x": 7.0})
    with pytest.warns(UserWarning, match="out of range"):
        study.optimize(bump, n_trials=1)
    study.optimize(bump, n_trials=3)
    assert study.sampler._past.fold.optimizer.observations == 6
    assert remaining(study.trials[-1]) == 20 - 7


def test_added_trials_are_known_and_cost_nothing() -> None:
    study = study_with(RegretlessSampler(budget=10, seed=0, n0=4))
    for x in (0.1, 0.2, 0.6, 0.9):
        distributions = {"x": FloatDistribution(0.0, 1.0)}
        known = optuna.create_trial(params={"x": x}, distributions=distributions, value=-x)
        study.add_trial(known)
    study.optimize(bump, n_trials=1)
    decision = study.trials[-1].system_attrs["regretless"]["decision"]
    assert decision["remaining"] == 10
    assert decision["reason"] != "design"


def test_infinite_values_are_cut_to_size() -> None:
    study = study_with(RegretlessSampler(budget=20, seed=0), "minimize")
    study.optimize(lambda t: float("inf") if bump(t) and t.number == 5 else -bump(t), n_trials=8)
    rows = study.sampler._past.fold.optimizer.history()
    finite = [t.value for t in study.trials[:5]]
    assert rows[5].value == max(finite)


def test_a_spent_budget_serves_the_best_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    study = study_with(RegretlessSampler(budget=6, seed=0))
    study.optimize(bump, n_trials=6)
    assert not caplog.records
    study.optimize(bump, n_trials=1)
    assert "Raise the budget" in caplog.text
    assert study.trials[-1].params in [t.params for t in study.trials[:-1]]


# -- what people see -------------------------------------------------------------------------------


def test_every_trial_says_why(tmp_path: Any) -> None:
    url = f"sqlite:///{tmp_path}/study.db"
    study = study_with(RegretlessSampler(budget=12, seed=0, n0=3), storage=url)
    study.optimize(lambda t: hill({n: t._suggest(n, d) for n, d in MIXED.items()}), n_trials=12)
    for trial in study.trials:
        assert isinstance(trial.user_attrs["regretless"], str)
        note = trial.system_attrs["regretless"]
        assert len(json.dumps(note)) <= 2045
        assert rl.Decision.from_json(note["decision"]).reason
    assert study.trials[-1].user_attrs["regretless"] != study.trials[0].user_attrs["regretless"]


def test_many_parameters_fit_into_an_attribute() -> None:
    space = {f"a rather long name {i:03}": FloatDistribution(0.0, 1.0) for i in range(60)}
    study = study_with(RegretlessSampler(budget=8, seed=0, n0=2))
    for _ in range(4):
        study.tell(study.ask(space), 0.0)
    for trial in study.trials:
        assert len(json.dumps(trial.system_attrs["regretless"])) <= 2045


def test_recommend_is_not_the_luckiest_draw() -> None:
    rng = np.random.default_rng(0)
    study = study_with(RegretlessSampler(budget=40, seed=0))
    study.optimize(lambda t: bump(t) + 0.2 * rng.standard_normal(), n_trials=40)
    best = study.sampler.recommend(study)
    assert best.luckiest == study.best_value
    assert best.low < -((best.params["x"] - 0.3) ** 2) < best.high
    assert best.mean < study.best_value
    assert sum(t.params == best.params for t in study.trials) == best.count


def test_recommend_reads_any_study() -> None:
    rng = np.random.default_rng(1)
    study = study_with(optuna.samplers.RandomSampler(seed=1))
    study.optimize(lambda t: bump(t) + 0.1 * rng.standard_normal(), n_trials=40)
    best = RegretlessSampler(budget=1).recommend(study)
    assert abs(best.params["x"] - 0.3) < 0.25


def test_recommend_needs_a_result() -> None:
    with pytest.raises(rl.DataError, match="no trial has finished"):
        RegretlessSampler(budget=1).recommend(study_with(None))


# -- settings --------------------------------------------------------------------------------------


def test_settings_are_checked_at_birth() -> None:
    with pytest.raises(rl.ConfigError, match="budget: need at least 1, got 0"):
        RegretlessSampler(budget=0)
    with pytest.raises(rl.ConfigError, match="policy: need one of"):
        RegretlessSampler(budget=5, policy="best")


def test_several_objectives_are_refused() -> None:
    study = optuna.create_study(
        directions=["minimize", "maximize"], sampler=RegretlessSampler(budget=5)
    )
    with pytest.raises(rl.ConfigError, match="need one objective, got 2 directions"):
        study.optimize(lambda t: (t.suggest_float("x", 0, 1), 0.0), n_trials=1)


def test_any_policy_and_model_will_do() -> None:
    sampler = RegretlessSampler(budget=12, policy=rl.GPUCB(beta=4.0), model=rl.Model.paper(), n0=3)
    study = study_with(sampler)
    study.optimize(bump, n_trials=8)
    assert study.trials[-1].system_attrs["regretless"]["decision"]["policy"] == "gp-ucb"


def test_reseeding_changes_what_comes() -> None:
    def draws(reseed: bool) -> list[float]:
        study = study_with(RegretlessSampler(budget=20, policy="random", seed=0, n0=1))
        study.optimize(bump, n_trials=3)
        if reseed:
            study.sampler.reseed_rng()
        study.optimize(bump, n_trials=3)
        return [t.params["x"] for t in study.trials]

    same, other = draws(False), draws(True)
    assert same == draws(False)
    assert same[:3] == other[:3]
    assert same[3:] != other[3:]


@pytest.mark.parametrize(
    "page",
    ["docs/integrations/optuna.md", "integrations/optunahub/samplers/regretless_eic/README.md"],
)
def test_pages_have_the_signature(page: str) -> None:
    settings = inspect.signature(RegretlessSampler).parameters.values()
    defaults = ", ".join(f"{s.name}={s.default!r}" for s in settings if s.kind == s.KEYWORD_ONLY)
    text = (Path(__file__).parents[2] / page).read_text(encoding="utf-8")
    assert f"`RegretlessSampler(budget, *, {defaults})`" in text.replace('"', "'")


# --- parameters that not every trial has ----------------------------------------------------------


def nested(trial: optuna.Trial) -> float:
    """One choice below another, each with a parameter of its own."""
    if trial.suggest_categorical("model", ["linear", "net"]) == "linear":
        return 0.3 - (trial.suggest_float("penalty", 0.0, 1.0) - 0.5) ** 2
    if trial.suggest_categorical("solver", ["sgd", "adam"]) == "adam":
        return 0.5
    return 1.0 - (trial.suggest_float("momentum", 0.0, 1.0) - 0.8) ** 2


def test_a_choice_that_decides_about_others_is_found() -> None:
    sampler = RegretlessSampler(budget=40, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(nested, n_trials=40)
    past, _ = sampler._recall(study)
    found = {name: (when.parent, when.choices) for name, when in past.conditions.items()}
    assert found == {
        "penalty": ("model", (0,)),
        "solver": ("model", (1,)),
        "momentum": ("solver", (0,)),
    }
    best = sampler.recommend(study).params
    assert best.keys() == {"model", "solver", "momentum"}
    assert abs(best["momentum"] - 0.8) < 0.2


def test_what_no_choice_decides_about_is_left_to_chance() -> None:
    """Both parameters appear at random, so that no choice tells when."""
    rng = np.random.default_rng(0)

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0.0, 1.0) + len(trial.suggest_categorical("c", ["a", "bb"]))
        return x + (trial.suggest_float("y", 0.0, 1.0) if rng.random() < 0.5 else 0.0)

    sampler = RegretlessSampler(budget=15, seed=0)
    study = optuna.create_study(sampler=sampler)
    study.optimize(objective, n_trials=15)
    past, _ = sampler._recall(study)
    assert past.conditions == {}
    assert set(past.space) == {"x", "c"}


def test_a_baseline_is_the_first_trial() -> None:
    """The parameters that run today, in the units of the objective; choices included."""
    today = {"x": 0.5, "kind": "b"}
    sampler = RegretlessSampler(budget=10, seed=0, baseline=today)
    study = optuna.create_study(sampler=sampler)

    def objective(trial: optuna.Trial) -> float:
        kind = trial.suggest_categorical("kind", ["a", "b"])
        return trial.suggest_float("x", -1.0, 1.0) ** 2 + (kind == "b")

    study.optimize(objective, n_trials=10)
    assert study.trials[0].params == today
    best = sampler.recommend(study)
    assert best.gain is not None
    assert best.gain > 0.5
