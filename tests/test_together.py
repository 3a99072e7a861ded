"""All settings that do no harm at once, with verbs in any order: no crash, and the same replay."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

import regretless as rl


def a_point(space: rl.Space, rng: np.random.Generator) -> dict[str, Any]:
    return space.decode(space.spread(rng.random((1, space.dim)))[0])


def an_optimizer(chance: random.Random, rng: np.random.Generator) -> rl.Optimizer:
    parameters: dict[str, rl.Parameter] = {
        "a": rl.Float(0.0, 1.0),
        "b": rl.Float(1.0, 100.0, log=True),
    }
    parameters |= {"n": rl.Int(0, 6)} if chance.random() < 0.5 else {}
    parameters |= {"k": rl.Categorical(["x", "y"])} if chance.random() < 0.4 else {}
    space = rl.Space(parameters)
    options: dict[str, Any] = {"direction": chance.choice(["maximize", "minimize"])}
    based = chance.random() < 0.8
    if based:
        options["baseline"] = a_point(space, rng)
    if based and chance.random() < 0.6:
        options["loss_budget"] = chance.choice([0.5, 3.0, 30.0])
    if chance.random() < 0.5:
        relative = [rl.AtLeast("q", 0.9, of="baseline")] if based and chance.random() < 0.5 else []
        options["guardrails"] = [rl.AtMost("lat", chance.choice([0.2, 1.0, 5.0])), *relative]
        if chance.random() < 0.3:
            options["free_start"] = True
    if chance.random() < 0.4:
        options["max_step"] = {"a": chance.choice([0.1, 0.3, {"by": 0.2}])}
    if chance.random() < 0.3:
        options["change_cost"] = 0.3
    if based and chance.random() < 0.3:
        options["sparse_changes"] = True
    if chance.random() < 0.35:
        options["mode"] = "recommend"
    if chance.random() < 0.2:
        options["optimum"] = 5.0
    if chance.random() < 0.3:
        options["policy"] = chance.choice(["eic", "gp-ucb", "gp-ts", "ei", "random"])
    return rl.Optimizer(space, 14, seed=chance.randrange(100), **options)


def a_newer_optimizer(chance: random.Random, rng: np.random.Generator) -> rl.Optimizer:
    """One with contexts, drift or noise that differs, often without an end."""
    space = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(1.0, 100.0, log=True)})
    options: dict[str, Any] = {"direction": chance.choice(["maximize", "minimize"])}
    if chance.random() < 0.7:
        options["baseline"] = a_point(space, rng)
        options |= {"loss_budget": 3.0} if chance.random() < 0.5 else {}
    if chance.random() < 0.4:
        options["guardrails"] = [rl.AtMost("lat", chance.choice([0.2, 1.0]))]
        options["free_start"] = chance.random() < 0.5
    options |= {"max_step": {"a": 0.3}} if chance.random() < 0.3 else {}
    options |= {"mode": "recommend"} if chance.random() < 0.3 else {}
    options |= chance.choice(
        [
            {"contexts": {"hour": rl.Cyclic(0, 24)}},
            {"contexts": {"hour": rl.Int(0, 9), "kind": rl.Categorical(["new", "old"])}},
            {"drift": "auto"},
            {"drift": rl.Drift(half_life=5.0)},
            {"noise": "auto"},
        ]
    )
    budget, horizon = chance.choice([(14, None), (14, 5), (None, 7), (None, 1000)])
    return rl.Optimizer(space, budget, horizon=horizon, seed=chance.randrange(100), **options)


def a_context(optimizer: rl.Optimizer, chance: random.Random) -> dict[str, Any]:
    """The keyword `context` with values that may not be declared, if the run has contexts."""
    if optimizer.contexts is None:
        return {}
    values = {"hour": chance.choice([3, 9, 24, -1]), "kind": chance.choice(["new", "old", "?"])}
    return {"context": {name: values[name] for name in optimizer.contexts}}


def tell(optimizer: rl.Optimizer, chance: random.Random, rng: np.random.Generator) -> None:
    trial = chance.choice(optimizer.pending)
    p: dict[str, Any] = trial.params
    value = -3 * (p["a"] - 0.3) ** 2 - 0.2 * np.log(p["b"] / 10) ** 2 - 0.1 * p.get("n", 0)
    told: dict[str, Any] = {}
    if chance.random() < 0.8:
        latency = abs(p["a"] - 0.5) + 0.1 * rng.standard_normal()
        told["metrics"] = {"lat": latency, "q": 10 + 0.1 * rng.standard_normal()}
    if chance.random() < 0.3 and optimizer.contexts is None:
        told["control"] = (float(rng.standard_normal()), 0.1)
    optimizer.tell(trial, optimizer.sign * (value + 0.2 * rng.standard_normal()), **told)


def act(
    optimizer: rl.Optimizer,
    chance: random.Random,
    rng: np.random.Generator,
    more: tuple[str, ...] = (),
) -> None:
    verbs = [
        "ask",
        "ask",
        "ask",
        "tell",
        "tell",
        "tell",
        "retract",
        "abandon",
        "decide",
        "observe",
        "look",
        "rebase",
    ]
    verbs += more
    verb, context = chance.choice(verbs), a_context(optimizer, chance)
    done = [row.number for row in optimizer.history() if row.status == "told"]
    if verb == "ask":
        optimizer.ask(**context)
    elif verb == "tell" and optimizer.pending:
        tell(optimizer, chance, rng)
    elif verb == "retract" and done:
        optimizer.retract(chance.choice(done))
    elif verb == "abandon" and optimizer.pending:
        optimizer.abandon(chance.choice(optimizer.pending))
    elif verb == "decide" and optimizer.proposed:
        trial = chance.choice(optimizer.proposed)
        if chance.random() < 0.7:
            optimizer.approve(trial)
        else:
            optimizer.reject(trial, "no")
    elif verb == "observe":
        value = float(rng.standard_normal())
        optimizer.observe(a_point(optimizer.space, rng), value, **context)
    elif verb == "look" and optimizer.observations:
        ledger = rl.Ledger.of(optimizer)
        assert optimizer.best(**context) is not None
        assert optimizer.best() is not None
        ledger.to_json(), ledger.loss(), ledger.violations()
    elif verb == "rebase" and chance.random() < 0.3:
        optimizer.set_baseline(a_point(optimizer.space, rng))
    elif verb == "extend" and chance.random() < 0.4:
        wish = {"horizon": 9} if chance.random() < 0.5 else {"budget": optimizer.asked + 9}
        optimizer.extend(**wish)
    elif verb == "change" and chance.random() < 0.4:
        optimizer.change_space(add={f"z{optimizer.space.dim}": (rl.Float(0.0, 1.0), 0.5)})


def the_next(optimizer: rl.Optimizer, context: dict[str, Any]) -> rl.Trial | str:
    try:
        trial: rl.Trial = optimizer.copy().ask(**context)
        return trial
    except rl.TrialError as error:  # every point is near a rejected one
        return str(error)


def check(seed: int, newer: bool = False) -> None:
    chance, rng = random.Random(seed), np.random.default_rng(seed)
    optimizer = (a_newer_optimizer if newer else an_optimizer)(chance, rng)
    for step in range(22):
        try:
            act(optimizer, chance, rng, ("extend", "change") if newer else ())
        except rl.TrialError as error:  # every point is near a rejected one
            if "near one that was rejected" not in str(error):
                raise
        if step % 11 == 10:
            twin = rl.Optimizer.from_json(optimizer.to_json())
            context = a_context(optimizer, chance)
            assert the_next(twin, context) == the_next(optimizer, context)
            assert twin.history() == optimizer.history()


@pytest.mark.parametrize("seed", [3, 5, 9, 12, 17, 21, 37, 45])
def test_everything_at_once(seed: int) -> None:
    """A control and a known optimum (seeds 3, 37, 45) once had points of different numbers."""
    check(seed)


@pytest.mark.parametrize("seed", range(6))
def test_contexts_drift_and_noise_at_once(seed: int) -> None:
    check(seed, newer=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 200))
def test_many_contexts_drift_and_noise_at_once(seed: int) -> None:
    check(seed, newer=True)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(100, 300))
def test_much_more_at_once(seed: int) -> None:
    check(seed)
