"""What a step of a long run costs, with and without `RevisitRules`: CPU time, points and regret.

    python -m benchmarks.resampling --families queue mixed --seeds 200:207   # resumable

Problems are those of benchmarks/families with three or more parameters, and 1,000 to 2,000 steps.
Both rules share the run up to `RevisitRules.points` visited points, and the noise of each step.
The page docs/results/resampling.md is written from the records.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import exp, log, sqrt
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.base import Instance, log_uniform
from benchmarks.families.table import instance

import regretless as rl
from regretless.defaults import RevisitRules
from regretless.experiments.runner import stamp

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs/results/resampling.jsonl"
PAGE = ROOT / "docs/results/resampling.md"
# Those that visit many points.  `learner` trains a model for each step, and steps of `sparse20`
# take much longer than those of the others.
FAMILIES = ("queue", "price", "control", "hills", "mixed")
STEPS = (1000.0, 2000.0)
LEAST_PARAMETERS = 3
WANTED = 20  # instances that count
LIMITED = ("regret", "regret"), ("late_repeat_ms", "a late repeat")  # by the rule, with its words
LIMITS = {"regret": 1.02, "late_repeat_ms": 0.2}  # of the geometric means of the ratios
Pair = tuple[dict[str, Any], dict[str, Any]]  # the records of a problem without and with the rule
FORK = RevisitRules().points  # up to so many visited points, the rules change nothing
SEARCH, REVISIT = "search", "revisit"  # every step is searched for, as in version 2; or the rule
RULES = {SEARCH: None, REVISIT: RevisitRules()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--families", nargs="+", choices=FAMILIES, default=FAMILIES)
    parser.add_argument("--seeds", default="200:207", help="first:end")
    options = parser.parse_args()
    first, end = map(int, options.seeds.split(":"))
    for seed in range(first, end):
        for family in options.families:
            _run_missing(family, seed)
    PAGE.write_text(page(_records()))


def _records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.open()] if RECORDS.exists() else []


def _run_missing(family: str, seed: int) -> None:
    known = {r["rule"] for r in _records() if (r["family"], r["seed"]) == (family, seed)}
    missing = [rule for rule in RULES if rule not in known]
    problem = instance(family, seed)
    if not missing or problem.space.dim < LEAST_PARAMETERS:
        return
    for rule, run in _forked(problem, seed, missing):
        record = {"family": family, "seed": seed, "rule": rule, **run.figures()}
        with RECORDS.open("a") as file:
            file.write(json.dumps(record | {"commit": stamp().commit}) + "\n")


@dataclass
class Run:
    """One run on a problem, which can be copied at any step."""

    problem: Instance
    optimizer: rl.Optimizer
    noise: np.random.Generator
    steps: int
    seconds: list[float] = field(default_factory=list)
    new: list[bool] = field(default_factory=list)
    points: set[tuple[Any, ...]] = field(default_factory=set)
    regret: float = 0.0

    @classmethod
    def begin(cls, problem: Instance, seed: int) -> Run:
        draws = np.random.default_rng([43, problem.number])
        steps = round(float(log_uniform(draws, *STEPS)))
        return cls(problem, rl.Optimizer(problem.space, steps, seed=seed, defaults=2), draws, steps)

    def copied(self, rule: str) -> Run:
        """The same run with another rule from here on."""
        twin = Run(
            self.problem, self.optimizer.copy(), np.random.default_rng(), self.steps,
            list(self.seconds), list(self.new), set(self.points), self.regret,
        )  # fmt: skip
        twin.noise.bit_generator.state = self.noise.bit_generator.state
        twin.optimizer.defaults = twin.optimizer.defaults._replace(revisit=RULES[rule])
        return twin

    def step(self) -> None:
        begun = time.process_time()
        trial = self.optimizer.ask()
        self.seconds.append(time.process_time() - begun)
        point, value = tuple(trial.params.values()), self.problem.f(trial.params)
        self.new.append(point not in self.points)
        self.points.add(point)
        self.regret += (self.problem.f_star - value) / self.problem.unit
        scatter = self.problem.scatter(trial.params)
        self.optimizer.tell(trial, value + scatter * float(self.noise.standard_normal()))

    def go_on(self, points: int | None = None) -> None:
        """To the end, or until so many points were visited."""
        while len(self.new) < self.steps and (points is None or len(self.points) < points):
            self.step()

    def figures(self) -> dict[str, Any]:
        late = slice(-self.steps // 6, None)
        repeats = [
            ms for ms, new in zip(self.seconds[late], self.new[late], strict=True) if not new
        ]
        return {
            "dim": self.problem.space.dim,
            "noise": round(self.problem.noise, 3),
            "steps": self.steps,
            "forked_at": FORK if len(self.points) >= FORK else None,
            "cpu_s": round(sum(self.seconds), 1),
            "late_ms": round(1000 * float(np.mean(self.seconds[late])), 2),
            "late_repeat_ms": round(1000 * float(np.mean(repeats)), 2) if repeats else None,
            "late_repeats": len(repeats),
            "points": len(self.points),
            "regret": round(self.regret, 3),
        }


def _forked(problem: Instance, seed: int, rules: list[str]) -> Iterator[tuple[str, Run]]:
    """A run for each rule.  They are the same if so many points are never visited."""
    run = Run.begin(problem, seed)
    run.go_on(FORK)
    for rule in rules:
        twin = run.copied(rule)
        twin.go_on()
        yield rule, twin


# -- the page --------------------------------------------------------------------------------------

HEAD = """# What a step of a long run costs

Written by `python -m benchmarks.resampling` from [resampling.jsonl](resampling.jsonl). Version 2
makes a search for every trial. *Revisit* is version 2 with `RevisitRules` of `defaults.py`. After
300 different points, a new point must be better by a margin, and after three repeats most trials
are chosen among the tried points without a search. [The reasons](default-appendix.md#long-runs).

The problems are those of [families](families.md) with three or more parameters, 1,000 to 2,000
trials, and seeds that were not used for any choice. Up to 300 points, both runs are the same.
Later they have the same noise. Runs that never try 300 points are the same to the end, and do
not count. *Late* is the CPU time of a repeat in the last sixth of a run, in ms. The regret is
in spreads of f.

## The rule, written before the runs

Version 4 (version 2 with `RevisitRules`) becomes the default of new studies if, on all instances of
queue, price, control, hills and mixed with seeds 200 to 206 (and on the next seeds, if fewer than
20 count), run once:

1. the geometric mean of the ratio of regrets is at most 1.02;
2. the geometric mean of the ratio of late repeats is at most 1/5.

All runs with fewer than 300 points must stay as they are to the bit. Otherwise version 2 stays.

## Runs
"""


def page(records: list[dict[str, Any]]) -> str:
    """The page: a row for each pair of runs, and what they say about the rule."""
    pairs = _pairs(records)
    lines = [
        HEAD,
        "| problem | parameters | noise | steps | points | with the rule | late, ms | with the rule"
        " | regret | with the rule | ratio |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
        *(_row(*pair) for pair in _counted(pairs)),
        "",
        *_verdict(pairs),
    ]
    return "\n".join(lines) + "\n"


def _pairs(records: list[dict[str, Any]]) -> list[Pair]:
    """For each problem, the run without and with the rule."""
    found = {(r["family"], r["seed"], r["rule"]): r for r in records}
    cases = sorted({(family, seed) for family, seed, _ in found})
    return [
        (found[(*case, SEARCH)], found[(*case, REVISIT)])
        for case in cases
        if (*case, SEARCH) in found and (*case, REVISIT) in found
    ]


def _row(search: dict[str, Any], revisit: dict[str, Any]) -> str:
    cells = [f"{search['family']} {search['seed']}", search["dim"], search["noise"]]
    cells += [search["steps"], search["points"], revisit["points"]]
    cells += [search["late_repeat_ms"], revisit["late_repeat_ms"]]
    cells += [search["regret"], revisit["regret"]]
    ratio = revisit["regret"] / search["regret"]
    return f"| {' | '.join(map(str, cells))} | {ratio:.3f} |"


def _verdict(pairs: list[Pair]) -> list[str]:
    counted = _counted(pairs)
    if not counted:
        return ["No run counts so far."]
    named = ("cpu_s", "processor time of all asks"), ("points", "visited points")
    said = [f"{words} {_said(_ratio(counted, name))}" for name, words in (*LIMITED, *named)]
    return [
        f"{len(pairs)} instances, of which {len(counted)} count. With the rule / without, geometric"
        f" mean ×/ its standard error: {'; '.join(said)}.",
        "",
        _decision(pairs),
    ]


def _counted(pairs: list[Pair]) -> list[Pair]:
    """Those of long runs: the others are the same with the rule and without."""
    return [pair for pair in pairs if pair[0]["forked_at"]]


def _decision(pairs: list[Pair]) -> str:
    """What the rule says, after the first seed with which enough instances count."""
    for last in sorted({search["seed"] for search, _ in pairs}):
        counted = _counted([pair for pair in pairs if pair[0]["seed"] <= last])
        if len(counted) >= WANTED:
            break
    else:
        return f"**Not decided**: fewer than {WANTED} count so far, so version 2 stays."
    ratios = {name: _ratio(counted, name) for name, _ in LIMITED}
    holds = all(ratios[name][0] <= LIMITS[name] for name in ratios)
    said = " and ".join(f"{words} {_said(ratios[name])}" for name, words in LIMITED)
    text = f"**Decided** after seed {last}, when {len(counted)} instances counted: {said}."
    if not holds:
        return f"{text} A condition does not hold, so version 2 stays."
    text = f"{text} Both conditions hold, so version 4 is the default of new studies."
    more = any(search["seed"] > last for search, _ in pairs)
    return f"{text} Later seeds are a part of the figures above." if more else text


def _ratio(counted: list[Pair], name: str) -> tuple[float, float]:
    """The geometric mean of the ratios, with the rule / without, and its standard error."""
    logs = [log(other[name] / one[name]) for one, other in counted if one[name] and other[name]]
    error = np.std(logs, ddof=1) / sqrt(len(logs)) if len(logs) > 1 else float("nan")
    return exp(np.mean(logs)), exp(error)


def _said(ratio: tuple[float, float]) -> str:
    return f"{ratio[0]:.3f} ×/ {ratio[1]:.3f}"


if __name__ == "__main__":
    main()
