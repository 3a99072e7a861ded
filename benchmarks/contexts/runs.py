"""The tools: regretless with contexts, and what one would do otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from benchmarks.contexts.problems import BUDGET, CONTEXTS, SEGMENTS, SPACE, Problem

import regretless as rl

Step = Callable[[dict[str, Any], int], tuple[dict[str, Any], Callable[[float], None]]]


def _one(policy: str | rl.Policy, with_context: bool, **settings: Any) -> Callable[..., Step]:
    """One optimiser, which sees the context or does not."""

    def start(problem: Problem, seed: int) -> Step:
        given = {"contexts": CONTEXTS} if with_context else {}
        optimizer = rl.Optimizer(SPACE, BUDGET, seed=seed, policy=policy, **given, **settings)

        def step(context: dict[str, Any], k: int) -> tuple[Any, Callable[[float], None]]:
            trial = optimizer.ask(context=context) if with_context else optimizer.ask()
            return trial.params, lambda y: optimizer.tell(trial, y)

        return step

    return start


def _each(parts_of_day: int) -> Callable[..., Step]:
    """One optimiser per segment and part of the day; each knows how often its context comes."""

    def start(problem: Problem, seed: int) -> Step:
        optimizers = {}
        for segment, frequency in zip(SEGMENTS, problem.frequencies, strict=True):
            for part in range(parts_of_day):
                budget = max(1, round(BUDGET * float(frequency) / parts_of_day))
                optimizers[segment, part] = rl.Optimizer(SPACE, budget, seed=seed)

        def step(context: dict[str, Any], k: int) -> tuple[Any, Callable[[float], None]]:
            part = int(context["hour"] * parts_of_day / 24.0) % parts_of_day
            optimizer = optimizers[context["segment"], part]
            if not optimizer.remaining:
                optimizer.extend(optimizer.budget + 1)
            trial = optimizer.ask()
            return trial.params, lambda y: optimizer.tell(trial, y)

        return step

    return start


TOOLS: dict[str, Callable[..., Step]] = {
    "contexts": _one("ids", True),
    "ignored": _one("ids", False),
    "one each": _each(1),
    "contextual GP-UCB": _one("gp-ucb", True),
    "contextual GP-UCB, beta 1": _one(rl.GPUCB(beta=1.0), True),
}


def run(tool: str, problem: Problem, seed: int) -> list[float]:
    """The regret of each step, against the best setting of its context."""
    step, regrets = TOOLS[tool](problem, seed), []
    for k, context in enumerate(problem.contexts):
        params, tell = step(context, k)
        value = problem.value(params, context)
        tell(value + float(problem.noise[k]))
        regrets.append(problem.best(context) - value)
    return regrets
