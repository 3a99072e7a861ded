"""What drop-ins make of trials that failed or came back with infinity; needs no framework."""

import math
from typing import Any

import pytest

import regretless as rl
from regretless.integrations._endings import Endings

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})
Fate = tuple[float, float | None]  # where it was, and what came of it


def endings(fates: list[Fate], **settings: Any) -> Endings:
    """Trials that were asked elsewhere, one after the other."""
    made = Endings(rl.Optimizer(SPACE, 20, **settings))
    for x, value in fates:
        made.add({"x": x}, value, made.optimizer.adopt({"x": x}))
    return made


def told(fates: list[Fate], **settings: Any) -> list[float | None]:
    return [row.value for row in endings(fates, **settings).optimizer.history()]


def test_values_are_what_they_are() -> None:
    assert told([(0.1, 1.0), (0.2, -2.0), (0.1, 0.0)]) == [1.0, -2.0, 0.0]


@pytest.mark.parametrize("failure", [None, math.nan, -math.inf, -1e300])
def test_a_failure_is_the_worst_result_so_far_with_the_spread_as_its_error(
    failure: float | None,
) -> None:
    made = endings([(0.1, 1.0), (0.2, 3.0), (0.9, failure)])
    row = made.optimizer.history()[-1]
    assert (row.value, row.sem) == (1.0, pytest.approx(1.0))  # their sd
    made.add({"x": 0.3}, -4.0, made.optimizer.adopt({"x": 0.3}))
    assert [r.value for r in made.optimizer.history()] == [1.0, 3.0, -4.0, -4.0]


def test_what_is_worst_depends_on_the_direction() -> None:
    fates: list[Fate] = [(0.1, 1.0), (0.2, 3.0), (0.9, None), (0.8, math.inf), (0.7, -math.inf)]
    assert told(fates) == [1.0, 3.0, 1.0, 3.0, 1.0]
    assert told(fates, direction="minimize") == [1.0, 3.0, 3.0, 3.0, 1.0]


@pytest.mark.parametrize("value", [7.0, -7.0, 0.0, -9e99])
def test_a_failure_is_worse_than_the_only_result(value: float) -> None:
    assert told([(0.1, value), (0.9, None)])[1] < value
    assert told([(0.1, value), (0.9, None)], direction="minimize")[1] > value


def test_a_disaster_does_not_make_failures_weightless() -> None:
    usual: list[Fate] = [(x / 10, x / 10) for x in range(6)]
    row = endings([*usual, (0.7, -1e6), (0.9, None)]).optimizer.history()[-1]
    assert row.value == -1e6
    assert row.sem is not None
    assert row.sem < 100.0


def test_a_failure_is_not_more_certain_when_the_run_has_found_its_place() -> None:
    """Its error is the spread by which the model judges results: disasters by the first of them.

    Most results are alike by now, so that by all of them, the first ones would be disasters.
    """
    first: list[Fate] = [(x / 10, -abs(x / 10 - 0.3)) for x in (5, 0, 9, 7, 4, 2)]
    later: list[Fate] = [(x / 1000, -abs(x / 1000 - 0.3)) for x in range(290, 310)]
    optimizer = endings([*first, *later, (0.95, None)], defaults=3).optimizer
    row = optimizer.history()[-1]
    assert row.value == pytest.approx(-0.6)
    assert row.sem == pytest.approx(optimizer._situation().fitted.scaling.scale, rel=0.2)


@pytest.mark.parametrize("fates", [[(0.1, 1.0), (0.1, None)], [(0.1, None), (0.1, 1.0)]])
def test_a_failure_is_forgotten_where_a_trial_has_worked_before_or_since(fates: list[Fate]) -> None:
    made = endings([(0.5, 2.0), *fates])
    states = {row.status: row.value for row in made.optimizer.history()[1:]}
    assert states == {"told": 1.0, "abandoned": None}


def test_a_failure_before_any_result_waits_for_one() -> None:
    made = endings([(0.1, None), (0.2, math.inf)])
    assert made.optimizer.observations == 0
    assert not made.optimizer.pending
    made.add({"x": 0.3}, None)
    made.add({"x": 0.4}, 5.0)
    assert sorted(row.value or 0.0 for row in made.optimizer.history()) == [0.0, 0.0, 5.0, 5.0]
    assert made.optimizer.asked == 2


def test_a_trial_that_runs_again_ends_once() -> None:
    made = endings([(0.1, 1.0), (0.2, 3.0), (0.9, None)])
    trial = made.optimizer.trials[-1]
    made.add(trial.params, None, trial)
    assert made.optimizer.observations == 3
    made.add(trial.params, 2.0, trial)
    assert [row.value for row in made.optimizer.history()] == [1.0, 3.0, 2.0]
    assert made.optimizer.history()[-1].sem is None


def test_what_never_worked_is_never_the_best() -> None:
    made = endings([(0.5, 1.0), (0.55, None), (0.6, 1.1), (0.58, math.inf)])
    assert made.optimizer.observations == 4
    assert made.measured().observations == 2
    assert made.measured().best().params["x"] in (0.5, 0.6)


def test_telling_anew_keeps_what_was_asked_and_the_budget() -> None:
    made = endings([(0.1, 1.0), (0.9, None)], seed=3)
    made.optimizer.extend(33)
    made.optimizer.abandon(made.optimizer.ask())
    before = made.optimizer
    waiting = before.ask()
    made.add({"x": 0.2}, -5.0)  # a new worst
    after = made.optimizer
    assert after is not before
    assert after.trials == before.trials
    assert after.pending == [waiting]
    assert after.budget == 33
    assert [row.status for row in after.history()] == [
        "observed",
        "told",
        "told",
        "abandoned",
        "pending",
    ]


def test_nothing_is_told_anew_without_a_reason() -> None:
    made = endings([(0.1, 1.0), (0.2, 3.0), (0.9, None)])
    before = made.optimizer
    for x in (0.3, 0.4, 0.5):
        made.add({"x": x}, 2.0, before.adopt({"x": x}))
        assert made.optimizer is before


@pytest.mark.parametrize(("seed", "ending"), [(0, None), (1, -math.inf), (2, None)])
def test_a_corner_that_fails_is_left_alone(seed: int, ending: float | None) -> None:
    """With the production's configuration given first, and results that are all alike."""
    space = rl.Space({name: rl.Float(0.0, 1.0) for name in "abc"})
    made = Endings(rl.Optimizer(space, 40, seed=seed))
    failed = 0
    for number in range(40):
        optimizer = made.optimizer
        trial = optimizer.ask() if number else optimizer.adopt(dict.fromkeys("abc", 0.12))
        bad = max(trial.params["a"], trial.params["b"]) > 0.2
        failed += bad
        value = -1.0 - sum((v - 0.1) ** 2 for v in trial.params.values())
        made.add(trial.params, ending if bad else value, trial)
    assert failed <= 8
    best = made.measured().best().params
    assert max(best["a"], best["b"]) <= 0.2


@pytest.mark.parametrize(
    ("seed", "version"),
    [(0, 1), (1, 1), (2, 1), (0, 3), *(pytest.param(n, 3, marks=pytest.mark.slow) for n in (1, 2))],
)
def test_bad_luck_does_not_keep_the_search_from_the_best_point(seed: int, version: int) -> None:
    made = Endings(rl.Optimizer(SPACE, 40, seed=seed, defaults=version))
    for number in range(40):
        trial = made.optimizer.ask()
        value = -abs(trial.params["x"] - 0.3)
        made.add(trial.params, None if number % 4 == 1 else value, trial)
    assert abs(made.measured().best().params["x"] - 0.3) < 0.05
