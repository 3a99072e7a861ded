"""What a control saves if periods differ: instances of benchmarks/families with period effects.

    python -m benchmarks.paired_control --seeds 0:5      # resumable; writes records and the page
    python -m benchmarks.paired_control --report         # the page only

Each evaluation is a period of its own.  Its effect is drawn once for each instance and number of
the evaluation, so all variants meet the same effects and the same noise.  The sd of the effects is
three times that of the noise.  The control is measured at the middle of the space in the same
period.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.base import Instance
from benchmarks.families.table import instance

import regretless as rl

ROOT = Path(__file__).parents[1]
RECORDS = ROOT / "docs" / "results" / "control.jsonl"
PAGE = ROOT / "docs" / "results" / "control.md"
FAMILIES = ("queue", "price", "control", "gp-smooth", "hills")
MOST = 200  # evaluations
PERIOD, CONTROL = 0x706572, 0x636F6E  # streams of random numbers


@dataclass(frozen=True)
class Variant:
    """How an instance is changed, in units of the sd of its noise."""

    effect: float  # the sd of the effects of periods
    error: float | None  # the sd of the control; None without a control
    told: bool = True  # whether its standard error is told
    about: str = ""


VARIANTS = {
    "calm": Variant(0.0, None, about="no period effects, no control"),
    "periods": Variant(3.0, None, about="period effects of 3 noise sds, no control"),
    "control": Variant(3.0, 1 / 3, about="the same, a control with 9 times the traffic"),
    "equal": Variant(3.0, 1.0, about="the same, a control with as much traffic as the trial"),
    "untold": Variant(3.0, 1 / 3, False, about="as `control`, its standard error is not told"),
    "needless": Variant(0.0, 1 / 3, about="a control, but no period effects"),
}


def run(family: str, seed: int, name: str) -> dict[str, Any]:
    """One run; the regret is a sum over all evaluations, in spreads of the function."""
    task, variant = instance(family, seed), VARIANTS[name]
    budget = min(task.budget, MOST)
    baseline = task.space.decode(np.full(task.space.dim, 0.5))
    noise = task.scatter(baseline)
    optimizer = rl.Optimizer(task.space, budget, seed=seed, direction="maximize", baseline=baseline)
    regret = 0.0
    for trial in optimizer:
        number, stream = trial.number, [task.number, trial.number]
        period = variant.effect * noise * _normal(PERIOD, *stream)
        observed = task.observe(trial.params, task.number, number)
        regret += task.regret(trial.params, observed)
        control = None
        if variant.error is not None:
            sem = variant.error * noise
            value = _true(task, baseline) + period + sem * _normal(CONTROL, *stream)
            control = (value, sem) if variant.told else value
        optimizer.tell(trial, observed + period, control=control)
    simple = task.simple_regret(optimizer.best().params)
    return {
        "id": f"{family}/{seed}/{name}",
        "N": budget,
        "noise": round(task.noise, 4),
        "regret": round(regret, 4),
        "simple": round(simple, 6),
        "commit": _commit(),
    }


def _true(task: Instance, params: dict[str, Any]) -> float:
    assert task.f is not None
    return task.f(params)


def _normal(*stream: int) -> float:
    return float(np.random.default_rng(stream).standard_normal())


def _commit() -> str:
    asked = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
    return subprocess.run(asked, capture_output=True, text=True, check=False).stdout.strip()


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
    """The page: regret of each variant as a ratio to the run without period effects."""
    regrets: dict[tuple[str, str], dict[str, float]] = {}
    for id, record in read().items():
        family, seed, name = id.split("/")
        regrets.setdefault((family, seed), {})[name] = record["regret"]
    whole = {key: each for key, each in regrets.items() if set(VARIANTS) <= set(each)}
    lines = [
        "# What a control saves",
        "",
        "Written by `python -m benchmarks.paired_control --report`. Each trial is one period.",
        "The sd of the period effects is 3 times that of the noise. The ratio is the regret of",
        "a whole run, divided by the regret on the same instance without period effects and",
        f"without a control. There are {len(whole)} instances of {len(FAMILIES)} families.",
        "`total` is the ratio of the summed regrets. `median` and `geometric` are the median",
        "and the geometric mean over the instances.",
        "",
        "| variant | total | median | geometric | 10 % to 90 % of the instances |",
        "|---|---|---|---|---|",
    ]
    for name, variant in VARIANTS.items():
        here = np.array([each[name] for each in whole.values()])
        calm = np.array([each["calm"] for each in whole.values()])
        ratio = here / calm
        low, high = np.quantile(ratio, [0.1, 0.9])
        lines.append(
            f"| {variant.about} | {here.sum() / calm.sum():.2f} | {np.median(ratio):.2f} |"
            f" {np.exp(np.log(ratio).mean()):.2f} | {low:.2f} to {high:.2f} |"
        )
    lines += ["", "Total ratio by family:", "", f"| family | {' | '.join(VARIANTS)} |"]
    lines.append("|---" * (len(VARIANTS) + 1) + "|")
    for family in FAMILIES:
        mine = [each for key, each in whole.items() if key[0] == family]
        calm_total = sum(each["calm"] for each in mine)
        ratios = (sum(each[name] for each in mine) / calm_total for name in VARIANTS)
        lines.append(f"| {family} | {' | '.join(f'{ratio:.2f}' for ratio in ratios)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", default="0:5", help="as 0:5")
    parser.add_argument("--report", action="store_true", help="write the page only")
    given = parser.parse_args()
    if not given.report:
        first, last = map(int, given.seeds.split(":"))
        run_missing(range(first, last))
    PAGE.write_text(report())


if __name__ == "__main__":
    main()
