"""Runs of each tool on each instance, as records that are kept."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.noise.problems import problem

import regretless as rl
from regretless.experiments.progress import progress
from regretless.experiments.runner import stamp

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "results" / "noise" / "records.jsonl"
TOOLS = ("default", "auto")
TOLD = "told"  # the default, which is told the true sd of the noise with each result


def run(tool: str, family: str, seed: int) -> dict[str, Any]:
    """One run, with the total regret in spreads of f."""
    task = problem(family, seed)
    model = rl.Model(noise="auto") if tool == "auto" else None
    optimizer = rl.Optimizer(task.space, task.budget, seed=seed, model=model)
    total, begun = 0.0, time.process_time()
    for trial in optimizer:
        sem = task.sd(trial.params) if tool == TOLD else None
        optimizer.tell(trial, task.observe(trial.params, trial.number), sem=sem)
        total += task.regret(trial.params)
    best = optimizer.best()
    return {
        "tool": tool,
        "family": family,
        "seed": seed,
        "budget": task.budget,
        "regret": float(f"{total:.6g}"),
        "held": bool(best.low <= task.f(best.params) <= best.high),  # the 95 % interval
        "seconds": round(time.process_time() - begun, 3),
        "commit": stamp().versions()["commit"],
    }


def read() -> list[dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def run_all(families: Iterable[str], seeds: Iterable[int], tools: Iterable[str]) -> None:
    """All runs that have no record yet."""
    known = {(record["tool"], record["family"], record["seed"]) for record in read()}
    wanted = [(tool, family, seed) for seed in seeds for family in families for tool in tools]
    todo = [each for each in wanted if each not in known]
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    with progress(len(wanted), len(wanted) - len(todo), "noise") as advance:
        for tool, family, seed in todo:
            record = run(tool, family, seed)
            with RECORDS.open("a") as file:
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
            advance(1, f"{tool}/{family}/{seed}")
