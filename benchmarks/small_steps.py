"""What small steps, costs of changes and few changed parameters do to the regret.

    python -m benchmarks.small_steps --seeds 0:4      # resumable; writes records and the page
    python -m benchmarks.small_steps --report         # the page only

The baseline is a point that is drawn at random for each instance.  The regret does not include the
cost of changes; their number is beside it.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.table import instance

import regretless as rl

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results" / "small_steps.jsonl"
PAGE = ROOT / "docs" / "results" / "small_steps.md"
FAMILIES = ("queue", "price", "control", "gp-smooth", "hills")
MOST = 80  # evaluations
BASELINE = 0x626173  # a stream of random numbers
VARIANTS = {
    "plain": "no limits",
    "step 0.3": "steps of 0.3 of each range",
    "step 0.1": "steps of 0.1 of each range",
    "cost 0.3": "a change costs 0.3 spreads of the function",
    "cost 3": "a change costs 3 spreads of the function",
    "sparse": "few changed parameters",
}


def settings(name: str, space: rl.Space, unit: float) -> dict[str, Any]:
    """The arguments of a variant; `unit` is the spread of the function."""
    kind, _, size = name.partition(" ")
    if kind == "step":
        numeric = [n for n, p in space.parameters.items() if not isinstance(p, rl.Categorical)]
        return {"max_step": dict.fromkeys(numeric, float(size))}
    if kind == "cost":
        return {"change_cost": float(size) * unit}
    return {"sparse_changes": True} if kind == "sparse" else {}


def run(family: str, seed: int, name: str) -> dict[str, Any]:
    """One run: its regret in spreads, its changes, and the parameters that differ at the end."""
    task = instance(family, seed)
    draw = np.random.default_rng([BASELINE, task.number]).random((1, task.space.dim))
    baseline = task.space.decode(task.space.spread(draw)[0])
    optimizer = rl.Optimizer(
        task.space,
        min(task.budget, MOST),
        seed=seed,
        baseline=baseline,
        **settings(name, task.space, task.unit),
    )
    regret, changes, apart, running = 0.0, 0, 0, baseline
    for trial in optimizer:
        observed = task.observe(trial.params, task.number, trial.number)
        regret += task.regret(trial.params, observed)
        changes += trial.params != running
        apart += sum(trial.params[key] != baseline[key] for key in baseline)
        running = trial.params
        optimizer.tell(trial, observed)
    return {
        "id": f"{family}/{seed}/{name}",
        "N": optimizer.budget,
        "d": task.space.dim,
        "regret": round(regret, 4),
        "changes": changes,
        "apart": round(apart / optimizer.budget, 4),
    }


def read() -> dict[str, dict[str, Any]]:
    """All whole records, by id."""
    found = {}
    for line in RECORDS.read_text().splitlines() if RECORDS.exists() else []:
        try:
            record = json.loads(line)
        except ValueError:
            continue  # torn
        found[record["id"]] = record
    return found


def run_missing(seeds: Sequence[int]) -> None:
    known = read()
    for seed in seeds:
        for family in FAMILIES:
            for name in VARIANTS:
                if f"{family}/{seed}/{name}" in known:
                    continue
                line = json.dumps(run(family, seed, name), separators=(",", ":"))
                with RECORDS.open("a") as file:
                    file.write(line + "\n")
                    file.flush()
                    os.fsync(file.fileno())
                print(line, flush=True)


def report() -> str:
    """The page."""
    runs: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}
    for id, record in read().items():
        family, seed, name = id.split("/")
        runs.setdefault((family, seed), {})[name] = record
    whole = {key: each for key, each in runs.items() if set(VARIANTS) <= set(each)}
    lines = [
        "# What small steps cost",
        "",
        "Written by `python -m benchmarks.small_steps --report`. The baseline is a random point.",
        f"There are {len(whole)} instances of {len(FAMILIES)} families, with at most {MOST}",
        "trials. The regret is divided by the regret on the same instances without small steps. It",
        "does not include the cost of changes. A change is a trial with another setting than the",
        "trial before. The last column is the share of parameters that differ from the baseline,",
        "on average over all trials.",
        "",
        "| variant | regret, total | median ratio | changes in 100 trials | changed parameters |",
        "|---|---|---|---|---|",
    ]
    for name, about in VARIANTS.items():
        mine = [each[name] for each in whole.values()]
        plain = [each["plain"] for each in whole.values()]
        total = sum(r["regret"] for r in mine) / sum(r["regret"] for r in plain)
        ratios = [a["regret"] / b["regret"] for a, b in zip(mine, plain, strict=True)]
        changes = 100.0 * sum(r["changes"] for r in mine) / sum(r["N"] for r in mine)
        apart = float(np.mean([r["apart"] / r["d"] for r in mine]))
        lines.append(
            f"| {about} | {total:.2f} | {np.median(ratios):.2f} | {changes:.0f} | {apart:.0%} |"
        )
    lines.append("")
    for name in (name for name in VARIANTS if name.startswith("cost")):
        cost = float(name.split()[1])
        mine, plain = (
            sum(each[kind]["regret"] + cost * each[kind]["changes"] for each in whole.values())
            for kind in (name, "plain")
        )
        lines.append(
            f"If each change costs {cost:g} spreads, regret and changes together are"
            f" {mine / plain:.2f} times those of runs that do not know the cost."
        )
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:4", help="as 0:4")
    parser.add_argument("--report", action="store_true", help="write the page only")
    given = parser.parse_args()
    if not given.report:
        first, last = map(int, given.seeds.split(":"))
        run_missing(range(first, last))
    PAGE.write_text(report())


if __name__ == "__main__":
    main()
