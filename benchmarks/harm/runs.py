"""Records of runs, one line of JSON each.  Existing ones are skipped."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.harm.problems import Problem, bowl, cliff, of_family, prior_draw
from benchmarks.harm.rivals import Summed

import regretless as rl

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "results" / "harm"
SIZES = (1.0, 4.0, 16.0)  # loss budgets, in sds of f over the space
DIMS = (1, 2, 3, 4)
FAMILIES = ("queue", "price", "control", "hills", "gp-smooth", "mixed")


@dataclass(frozen=True)
class Spec:
    """Which run."""

    part: str
    problem: str  # "prior-2", or a family
    method: str  # "free", "budget", "summed", or a method of the model after "budget-"
    size: float | None  # the loss budget, in sds of f; None without one
    seed: int
    noise: float = 1.0

    @property
    def id(self) -> str:
        return f"{self.problem}/{self.method}/{self.size}/{self.noise}/{self.seed}"


@dataclass(frozen=True)
class Run:
    """What a run lost, in sds of f over the space."""

    id: str
    N: int
    worst: float  # the largest total loss of all times
    total: float  # the total loss at the end
    keeping: float | None  # the regret of keeping the baseline
    cautious: int  # trials at the baseline
    held_back: int
    risk: float
    cpu: float


def specs(part: str, seeds: range) -> Iterator[Spec]:
    """Seed by seed, so that a part of it is a smaller benchmark."""
    for seed in seeds:
        if part == "right":
            for d in DIMS:
                for size in SIZES:
                    yield Spec(part, f"prior-{d}", "budget", size, seed)
        elif part == "wrong":
            for family in FAMILIES:
                yield Spec(part, family, "free", None, seed)
                for size in SIZES:
                    yield Spec(part, family, "budget", size, seed)
                    yield Spec(part, family, "summed", size, seed)
                yield Spec(part, family, "budget-map", 4.0, seed)
                for noise in (0.25, 3.0):
                    yield Spec(part, family, "budget", 4.0, seed, noise)
        elif part == "cost":
            for family in FAMILIES:
                yield Spec(part, family, "budget-20", 20.0, seed)
        elif part == "shapes":
            for size in (0.1, 0.3, 1.0):
                yield Spec(part, "bowl", "budget", size, seed)
            yield Spec(part, "cliff", "budget", 4.0, seed)
            yield Spec(part, "cliff", "budget-steps", 4.0, seed)
        else:
            raise ValueError(part)


def problem_of(spec: Spec) -> Problem:
    kind, _, d = spec.problem.partition("-")
    if spec.part == "shapes":
        return {"bowl": bowl, "cliff": cliff}[spec.problem](spec.seed)
    if kind == "prior":
        return prior_draw(int(d), spec.seed)
    return of_family(spec.problem, spec.seed, spec.noise)


def run(spec: Spec, free_loss: float | None = None) -> Run:
    """One run.  `free_loss` is what the run without a budget lost at most, for "budget-20"."""
    problem = problem_of(spec)
    optimizer = optimizer_for(spec, problem, free_loss)
    here, seconds = problem.f(problem.baseline), 0.0
    losses = []
    for number in range(problem.budget):
        began = time.process_time()
        trial = optimizer.ask()
        seconds += time.process_time() - began
        losses.append((here - problem.f(trial.params)) / problem.unit)
        optimizer.tell(trial, problem.observe(trial.params, number))
    total, best = np.cumsum(losses), problem.f_star
    decisions = [trial.decision for trial in optimizer.trials]
    return Run(
        id=spec.id,
        N=problem.budget,
        worst=float(np.round(max(0.0, total.max()), 5)),
        total=float(np.round(total[-1], 5)),
        keeping=None if best is None else round((best - here) / problem.unit * problem.budget, 5),
        cautious=sum(trial.params == problem.baseline for trial in optimizer.trials),
        held_back=sum(decision.held_back is not None for decision in decisions),
        risk=round(sum(decision.loss_risk or 0.0 for decision in decisions), 6),
        cpu=round(seconds, 3),
    )


def optimizer_for(spec: Spec, problem: Problem, free_loss: float | None = None) -> rl.Optimizer:
    settings: dict[str, Any] = {"seed": spec.seed, "baseline": problem.baseline}
    settings["model"] = (
        problem.model
        or rl.Optimizer(
            problem.space, problem.budget, baseline=problem.baseline, loss_budget=1.0
        ).model
    )  # the model is the same for all methods
    if spec.method == "budget-map":
        settings["model"] = rl.Model()
    if spec.method == "budget-steps":
        settings["max_step"] = dict.fromkeys(problem.space.names, 0.1)
    size = spec.size
    if spec.method == "budget-20":
        assert free_loss is not None
        size = max(20.0 * free_loss, 1.0)
    if spec.method == "free" or size is None:
        return rl.Optimizer(problem.space, problem.budget, **settings)
    if spec.method == "summed":
        made = Summed(problem.space, problem.budget, **settings)
        made.summed_budget = size * problem.unit
        return made
    settings["loss_budget"] = size * problem.unit
    return rl.Optimizer(problem.space, problem.budget, **settings)


def read(part: str) -> dict[str, Run]:
    path = RECORDS / f"{part}.jsonl"
    if not path.exists():
        return {}
    lines = path.read_text().splitlines()
    return {record["id"]: Run(**record) for record in map(json.loads, lines)}


def run_all(part: str, seeds: range, minutes: float = 1e9) -> int:
    """Run what has no record yet; returns how many runs are still missing."""
    RECORDS.mkdir(parents=True, exist_ok=True)
    known, deadline = read(part), time.monotonic() + 60 * minutes
    free = read("wrong") if part == "cost" else {}
    todo = [spec for spec in specs(part, seeds) if spec.id not in known]
    for i, spec in enumerate(todo):
        if time.monotonic() > deadline:
            return len(todo) - i
        without = free.get(Spec(part, spec.problem, "free", None, spec.seed).id)
        if part == "cost" and without is None:
            continue
        record = run(spec, None if without is None else without.worst)
        with (RECORDS / f"{part}.jsonl").open("a") as file:
            file.write(json.dumps(asdict(record), separators=(",", ":")) + "\n")
    return 0
