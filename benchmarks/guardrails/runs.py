"""Records of runs, one line of JSON each, in `<tool>.jsonl`.  Existing records are skipped."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.guardrails.problems import BUDGET, FAMILIES, problem
from benchmarks.guardrails.tools import START, TOOLS, Tool

RECORDS = Path(__file__).parents[2] / "docs" / "results" / "guardrails"


def run(family: str, name: str, seed: int, make: Any = None) -> dict[str, Any]:
    """One run.

    `regret` sums f* - f(x) over the trials, where f* is the best value with all guardrails.  A
    trial that breaks one gains nothing by that: it counts at least 0.  In `strict`, it counts at
    least as much as a random allowed point loses.
    """
    task, rng = problem(family, seed), np.random.default_rng([7, seed])
    began = time.process_time()
    tool: Tool = (make or TOOLS[name])(task, seed)
    seconds = time.process_time() - began
    regret, strict, broken, gone, expected, known = 0.0, 0.0, [], [], [], []
    for _ in range(BUDGET):
        began = time.process_time()
        x = tool.ask()
        seconds += time.process_time() - began
        at = x[None, :]
        true = float(task.f(at)[0])
        holds = bool(task.holds(at)[0])
        lost = max(task.best - true, 0.0)
        regret += lost
        strict += lost if holds else max(lost, task.best - task.typical)
        broken.append(not holds)
        gone.append(lost)
        value = true + task.noise * rng.standard_normal()
        metrics = {
            each.guardrail.metric: float(each.function(at)[0]) + each.noise * rng.standard_normal()
            for each in task.metrics
        }
        began = time.process_time()
        tool.tell(x, value, metrics)
        seconds += time.process_time() - began
        holding = getattr(getattr(tool, "trial", None), "decision", None)
        known.append(holding is not None and holding.holds is not None and not holding.caution)
        if holding is not None and holding.holds is not None:
            expected.append(1.0 - float(np.prod(list(holding.holds.values()))))
    # The start is over after the first trial that holds, or after the peers' start.
    begin = max(START, broken.index(False) + 1 if False in broken else START)
    return {
        "family": family,
        "tool": name,
        "seed": seed,
        "d": task.dim,
        "regret": round(regret, 4),
        "strict": round(strict, 4),
        "broken": int(sum(broken)),
        "broken_later": int(sum(broken[begin:])),
        "later": BUDGET - begin,
        "known": int(sum(known[begin:])),  # chosen because the guardrails were known to hold
        "known_broken": int(
            sum(b and k for b, k in zip(broken[begin:], known[begin:], strict=True))
        ),
        "expected": round(float(sum(expected)), 3),
        "last": round(float(np.mean(gone[-10:])), 4),
        "which": [k for k, each in enumerate(broken) if each],
        "cpu": round(seconds, 2),
    }


def make_missing(tools: list[str], seeds: range, records: Path = RECORDS) -> None:
    """Run what is not there yet, seed by seed."""
    records.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in tools:
            for family in FAMILIES:
                file = records / f"{name.replace(',', '').replace(' ', '-')}.jsonl"
                if (family, seed) in {(r["family"], r["seed"]) for r in load(file)}:
                    continue
                record = run(family, name, seed)
                with file.open("a") as out:
                    out.write(json.dumps(record) + "\n")


def load(file: Path) -> list[dict[str, Any]]:
    """The records of a file."""
    if not file.exists():
        return []
    return [json.loads(line) for line in file.read_text().splitlines()]
