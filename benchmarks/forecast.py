"""Does the forecast hold?  How often its 80 % band has the gain that the run then makes.

A run is an instance of one of five families of benchmarks/families, with a budget of 34. After 10
and 30 results and half-way the rest is forecast; then the run goes on to its end. The truth is the
total of f(x) - f(reference) over all trials. Records are lines of JSON; existing ones are skipped.

A record has the total gain of each simulation. The ends of the band are the quantiles between which
one more draw would fall with probability 0.8, so that few simulations make a band that is less
even, but not one that is too narrow.

    python -m benchmarks.forecast --seeds 0:20 [--report]
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.table import instance

import regretless as rl
from regretless.experiments.progress import progress
from regretless.experiments.runner import stamp
from regretless.forecast import forecast

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results" / "forecast" / "records.jsonl"
BEFORE = RECORDS.with_name("before.jsonl")  # chains of 5 steps, of the first runs; see `forecast`
PAGE = ROOT / "docs" / "results" / "forecast.md"
FAMILIES = ("queue", "price", "control", "gp-smooth", "hills")
BUDGET = 34
MARKS = (10, 17, 30)  # 17 is half-way
DRAWS = 9


def run(family: str, seed: int) -> dict[str, Any]:
    task = instance(family, seed)
    optimizer = rl.Optimizer(task.space, BUDGET, seed=seed)
    gains, total, reference = [], 0.0, None
    for number, trial in enumerate(optimizer):
        optimizer.tell(trial, task.observe(trial.params, task.number, number))
        reference = task.f(trial.params) if reference is None else reference
        total += optimizer.sign * (task.f(trial.params) - reference)
        if number + 1 in MARKS:
            ahead = forecast(optimizer, draws=DRAWS)
            gains.append([float(f"{gain:.6g}") for gain in sorted(ahead.gain[:, -1])])
    return {
        "family": family,
        "seed": seed,
        "truth": total,
        "gains": gains,
        "commit": stamp().versions()["commit"],
    }


def read(file: Path = RECORDS) -> list[dict[str, Any]]:
    lines = file.read_text().splitlines() if file.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def _holds(gains: list[float], truth: float) -> bool:
    low, high = np.quantile(gains, [0.1, 0.9], method="weibull")
    return bool(low <= truth <= high)


def _held(record: dict[str, Any]) -> list[bool]:
    return [_holds(gains, record["truth"]) for gains in record["gains"]]


def write_page() -> None:
    records = read()
    inside: dict[str, list[list[bool]]] = defaultdict(list)
    for record in records:
        inside["all"].append(_held(record))
        inside[record["family"]].append(_held(record))
    inside["with chains of 5 steps"] = [_held(record) for record in read(BEFORE)]
    lines = [
        "# Does the forecast hold?",
        "",
        f"A `forecast` with {DRAWS} simulations gives an 80 % band for the total gain over the"
        f" first point. The table shows in how many per cent of the runs of {BUDGET} trials the"
        " gain was inside the band. The last row is an earlier version, which drew the"
        " hyper-parameters with shorter chains. Because of this row, the chains are longer now."
        f" {len(records)} runs of the default, on instances of benchmarks/families;"
        f" commits {', '.join(sorted({record['commit'] for record in records}))}.",
        "",
        "| family | runs | " + " | ".join(f"after {mark}" for mark in MARKS) + " |",
        "|---|---|" + "---|" * len(MARKS),
    ]
    for family, held in sorted(
        inside.items(), key=lambda item: (item[0] != "all", item[0].startswith("with"))
    ):
        shares = " | ".join(f"{100 * share:.0f}" for share in np.mean(held, axis=0))
        lines.append(f"| {family} | {len(held)} | {shares} |")
    PAGE.write_text("\n".join([*lines, ""]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument("--report", action="store_true", help="only write the page")
    options = parser.parse_args()
    first, last = map(int, options.seeds.split(":"))
    if not options.report:
        known = {(record["family"], record["seed"]) for record in read()}
        wanted = [(family, seed) for seed in range(first, last) for family in FAMILIES]
        todo = [each for each in wanted if each not in known]
        RECORDS.parent.mkdir(parents=True, exist_ok=True)
        with progress(len(wanted), len(wanted) - len(todo), "forecast") as advance:
            for family, seed in todo:
                record = run(family, seed)
                with RECORDS.open("a") as file:
                    file.write(json.dumps(record, separators=(",", ":")) + "\n")
                advance(1, f"{family}/{seed}")
    write_page()


if __name__ == "__main__":
    main()
