"""What a step of a long run costs, with and without `RevisitRules`: CPU time, points and regret.

    python -m benchmarks.resampling --problems 0:4 --steps 3000

It goes on where it stopped, and writes docs/results/resampling.md.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless import defaults
from regretless.experiments.runner import stamp
from regretless.model import Model

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs/results/resampling.jsonl"
PAGE = ROOT / "docs/results/resampling.md"
NOISE = 0.1
# The model of version 2 takes a third of the time of the ensemble of version 3.
MODELS = {"ensemble": None, "map": Model.default(defaults.VERSIONS[2].model)}
RULES = {"every step is searched for": None, "the rule": defaults.RevisitRules()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--problems", default="0:4", help="first:end")
    parser.add_argument("--steps", type=int, default=3000)
    parser.add_argument("--dim", type=int, default=4)
    parser.add_argument("--model", choices=MODELS, default="map")
    options = parser.parse_args()
    first, end = map(int, options.problems.split(":"))
    for problem in range(first, end):
        for rule in RULES:
            case = {"model": options.model, "dim": options.dim, "steps": options.steps}
            case |= {"problem": problem, "rule": rule}
            if not any(case.items() <= record.items() for record in _records()):
                record = case | _run(**case) | {"commit": stamp().commit}
                with RECORDS.open("a") as file:
                    file.write(json.dumps(record) + "\n")
    PAGE.write_text(page(_records()))


def _records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.open()] if RECORDS.exists() else []


class Hills:
    """A broad hill and a small narrow one, at random places."""

    def __init__(self, problem: int, dim: int) -> None:
        rng = np.random.default_rng([41, problem, dim])
        self.top, self.side = rng.uniform(0.2, 0.8, dim), rng.uniform(0.0, 1.0, dim)
        self.steepness = rng.uniform(1.0, 4.0, dim)
        near = [self(x) for x in self.top + rng.normal(0.0, 0.02, (4000, dim))]
        self.best = max(*near, self(self.top), self(self.side))

    def __call__(self, x: Any) -> float:
        broad = np.exp(-np.sum(self.steepness * (x - self.top) ** 2))
        return float(broad + 0.3 * np.exp(-20.0 * np.sum((x - self.side) ** 2)))


def _run(model: str, dim: int, steps: int, problem: int, rule: str) -> dict[str, Any]:
    candidate = defaults.CANDIDATES[3]
    defaults.CANDIDATES[3] = candidate._replace(revisit=RULES[rule])
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
    run = rl.Optimizer(space, steps, seed=problem, defaults=3, model=MODELS[model])
    defaults.CANDIDATES[3] = candidate
    f, rng = Hills(problem, dim), np.random.default_rng(problem)
    seconds: list[float] = []
    points: set[tuple[float, ...]] = set()
    regret = 0.0
    for _ in range(steps):
        begun = time.process_time()
        trial = run.ask()
        seconds.append(time.process_time() - begun)
        x = np.array(list(trial.params.values()))
        value = f(x)
        points.add(tuple(x))
        regret += f.best - value
        run.tell(trial, value + NOISE * rng.standard_normal())
    late = seconds[-steps // 6 :]
    return {
        "cpu_s": round(sum(seconds), 1),
        "late_ms": round(1000 * float(np.mean(late)), 1),
        "late_median_ms": round(1000 * float(np.median(late)), 1),
        "points": len(points),
        "regret": round(regret, 2),
    }


def page(records: list[dict[str, Any]]) -> str:
    """The page: a row for each run."""
    lines = [
        "# What a step of a long run costs",
        "",
        "Written by `python -m benchmarks.resampling` from [resampling.jsonl](resampling.jsonl).",
        "A broad hill and a small narrow one, noise of sd 0.1, `defaults=3`. *Map*",
        "is the model of version 2, *ensemble* that of version 3. *CPU* is the time of all",
        "asks, *late* that of an ask in the last sixth of the run.",
        "",
        "Why the rule is as it is: [default](default.md#long-runs).",
        "",
        "| model | parameters | steps | problem | | CPU s | late, mean ms | late, median ms"
        " | distinct points | regret |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    for each in sorted(records, key=lambda r: (r["model"], r["dim"], r["steps"], r["problem"])):
        cells = [each[name] for name in ("model", "dim", "steps", "problem", "rule")]
        cells += [each[name] for name in ("cpu_s", "late_ms", "late_median_ms", "points", "regret")]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join([*lines, "", *_means(records)]) + "\n"


def _means(records: list[dict[str, Any]]) -> list[str]:
    """Ratios with the rule to without, over the runs that have both."""
    pairs = []
    for with_rule in (r for r in records if r["rule"] == "the rule"):
        case = {name: with_rule[name] for name in ("model", "dim", "steps", "problem")}
        pairs += [
            (with_rule, other)
            for other in records
            if other["rule"] != "the rule" and case.items() <= other.items()
        ]
    if not pairs:
        return []
    said = []
    for name in ("cpu_s", "late_ms", "points", "regret"):
        logs = [np.log(one[name] / other[name]) for one, other in pairs]
        said.append(f"{name} {np.exp(np.mean(logs)):.2f}")
    return [f"With the rule / without, geometric mean over {len(pairs)} runs: {', '.join(said)}."]


if __name__ == "__main__":
    main()
