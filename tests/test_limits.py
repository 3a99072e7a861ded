"""Limits hold everywhere: in the start, the search, where no search is needed, and at the end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from regretless.model import Belief
from regretless.policies import Constraint, Predicted

Array = NDArray[np.float64]

PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
MIXED = rl.Space({"x": rl.Float(0.0, 1.0), "c": rl.Categorical(["a", "b", "c"])})
POLICIES = ("ids", "eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts", "random", "explore-then-commit")


@dataclass(frozen=True)
class Left(Constraint):
    """x_0 <= limit."""

    limit: float
    unit: float = 0.5
    name: str = "left"

    def slack(self, at: Predicted) -> Array:
        return np.asarray((self.limit - at.x[:, 0]) / self.unit)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        slope = np.zeros_like(at.x)
        slope[:, 0] = -1.0
        return 0.0, 0.0, slope


class Limited(rl.Optimizer):
    """An optimiser that has to stay on the left."""

    limit = 0.3

    @property
    def _is_limited(self) -> bool:
        return True

    def _limits(self, belief: Belief, at: Array | None = None) -> tuple[Constraint, ...]:
        return (Left(self.limit),)


def run(optimizer: rl.Optimizer, steps: int, behind: int = 0) -> list[rl.Trial]:
    """A hill whose top is on the right; `behind` trials are always pending."""
    waiting = []
    for _ in range(steps):
        waiting.append(optimizer.ask())
        while len(waiting) > behind:
            trial = waiting.pop(0)
            optimizer.tell(trial, -((float(trial.params["x"]) - 0.9) ** 2))
    return optimizer.trials


@pytest.mark.parametrize("space", [PLANE, MIXED], ids=["plane", "mixed"])
@pytest.mark.parametrize("policy", POLICIES)
def test_every_trial_keeps_to_a_limit(policy: str, space: rl.Space) -> None:
    optimizer = Limited(space, 20, policy=policy)
    here = {"x": 0.1, "y": 0.5} if space is PLANE else {"x": 0.1, "c": "b"}
    beyond = here | {"x": 0.8}
    optimizer.observe(here, -0.64)
    optimizer.observe(beyond, -0.01)  # the best one, but it is not allowed
    trials = run(optimizer, 22, behind=2)
    assert max(float(trial.params["x"]) for trial in trials) <= 0.3 + 1e-8
    assert trials[-1].decision.reason == "exhausted"
    if policy not in ("random", "explore-then-commit"):  # these draw from the allowed part
        assert any(trial.decision.held_back == "left" for trial in trials)
        assert "held back by the left" in " ".join(str(trial.decision) for trial in trials)


@pytest.mark.parametrize("policy", POLICIES)
def test_where_nothing_is_allowed_the_baseline_is_tried(policy: str) -> None:
    class Nowhere(Limited):
        limit = -1.0

    today = {"x": 0.7, "y": 0.2}
    optimizer = Nowhere(PLANE, 12, policy=policy, baseline=today)
    optimizer.observe({"x": 0.8, "y": 0.2}, 5.0)
    optimizer.observe({"x": 0.1, "y": 0.2}, 3.0)
    trials = run(optimizer, 14)
    assert all(trial.params == today for trial in trials)
    assert trials[0].decision.held_back is None  # it has no result yet
    assert {trial.decision.held_back for trial in trials[1:12]} == {"left"}
    assert {trial.decision.reason for trial in trials[:12]} == {"baseline"}
    assert {trial.decision.reason for trial in trials[12:]} == {"exhausted"}


def test_without_a_baseline_the_best_visited_point_is_tried() -> None:
    class Nowhere(Limited):
        limit = -1.0

    optimizer = Nowhere(PLANE, 12)
    optimizer.observe({"x": 0.8, "y": 0.2}, 5.0)
    optimizer.observe({"x": 0.1, "y": 0.2}, 3.0)
    assert optimizer.ask().params == {"x": 0.8, "y": 0.2}


def test_points_of_the_start_are_taken_if_they_are_allowed() -> None:
    start = [{"x": 0.2, "y": 0.5}, {"x": 0.9, "y": 0.5}, {"x": 0.1, "y": 0.1}]
    optimizer = Limited(PLANE, 20, design=start)
    trials = run(optimizer, 5)
    reasons = [trial.decision.reason for trial in trials]
    assert reasons[0] == "design"
    assert trials[0].params == start[0]
    assert start[1] not in [trial.params for trial in trials]
    assert trials[1].decision.held_back == "left"
    assert trials[1].params == start[2]
    assert trials[2].decision.reason != "design"


def test_a_limit_that_never_binds_changes_nothing() -> None:
    class Wide(Limited):
        limit = 9.0

    def trace(kind: type[rl.Optimizer]) -> list[Any]:
        trials = run(kind(PLANE, 20, design="sobol", n0=4), 20)
        return [(trial.params, trial.decision.held_back) for trial in trials]

    wide, plain = trace(Wide), trace(rl.Optimizer)
    assert [params for params, _ in wide[:4]] == [params for params, _ in plain[:4]]
    assert all(held_back is None for _, held_back in wide)


def test_a_decision_that_was_not_held_back_is_stored_as_before() -> None:
    optimizer = rl.Optimizer(PLANE, 20)
    assert "held_back" not in optimizer.ask().decision.to_json()
    held = Limited(PLANE, 20)
    held.observe({"x": 0.1, "y": 0.5}, 1.0)
    trials = run(held, 8)
    assert "left" in [trial.decision.to_json().get("held_back") for trial in trials]
    twin = Limited.from_json(held.to_json())
    assert twin.trials == held.trials
    assert twin.ask() == held.ask()


def test_a_landscape_says_where_a_trial_may_go() -> None:
    optimizer = Limited(PLANE, 20, policy="gp-ucb")
    optimizer.observe({"x": 0.1, "y": 0.5}, 1.0)
    seen = optimizer.landscape([{"x": 0.2, "y": 0.5}, {"x": 0.4, "y": 0.5}])
    assert seen.feasible.tolist() == [True, False]
