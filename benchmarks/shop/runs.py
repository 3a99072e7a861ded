"""Runs of each tool in each shop, as records that are kept."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.shop.shops import CUSTOMERS, PERIODS, Increment, Shop, shop
from benchmarks.shop.tools import OneTrial, Test, Thompson, Today, Tool

from regretless.experiments.progress import progress
from regretless.experiments.runner import stamp

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs" / "results" / "shop" / "records.jsonl"
CHOOSING = ROOT / "docs" / "results" / "shop" / "choosing.jsonl"
RIVALS: dict[str, Callable[[Shop], Tool]] = {
    "today": Today,
    "one trial": OneTrial,
    "one trial, control": lambda shop: OneTrial(shop, control=0.1),
    **{f"test {n}": (lambda shop, n=n: Test(shop, n)) for n in (3, 5, 7, 10, 14, 21)},
    **{f"thompson {p:g}": (lambda shop, p=p: Thompson(shop, p)) for p in (0.05, 0.1, 0.2, 0.4)},
}
TOOLS: dict[str, Callable[[Shop], Tool]] = dict(RIVALS)


def run(tool: str, seed: int) -> dict[str, Any]:
    """One run, with the loss after every period as a share of what the best setting earns."""
    place, begun = shop(seed), time.process_time()
    made = TOOLS[tool](place)
    due: dict[int, list[tuple[int, int, Increment]]] = defaultdict(list)  # by period
    lost, losses, arms = 0.0, [], 0.0
    for period in range(PERIODS):
        table = made.table(period)
        rng = np.random.default_rng([seed, period, 7])
        shares = np.array([arm.share for arm in table])
        counts = rng.multinomial(CUSTOMERS, shares / shares.sum())
        arms += float(np.count_nonzero(counts)) / PERIODS
        for place_in_table, (arm, count) in enumerate(zip(table, counts.tolist(), strict=True)):
            lost += count * place.day(period) * (place.best - place.worth(arm.params))
            for part in place.serve(arm.params, period, count, place_in_table):
                due[period + part.late].append((period, arm.name, part))
        losses.append(lost)
        for when, name, part in due.pop(period, []):
            made.take(when, name, part)
    made.close()
    whole = place.best * CUSTOMERS * sum(place.day(period) for period in range(PERIODS))
    return {
        "tool": tool,
        "seed": seed,
        "lost": float(f"{lost / whole:.5g}"),
        "curve": [float(f"{each / whole:.4g}") for each in losses[4::5]],
        "arms": round(arms, 2),
        "today": float(f"{1.0 - place.worth(place.today) / place.best:.4g}"),
        "seconds": round(time.process_time() - begun, 2),
        "commit": stamp().versions()["commit"],
    }


def read(path: Path) -> list[dict[str, Any]]:
    lines = path.read_text().splitlines() if path.exists() else []
    return [json.loads(line) for line in lines if line.endswith("}")]


def run_all(tools: Iterable[str], seeds: Iterable[int], path: Path) -> None:
    """All runs that have no record yet."""
    known = {(record["tool"], record["seed"]) for record in read(path)}
    wanted = [(tool, seed) for seed in seeds for tool in tools]
    todo = [each for each in wanted if each not in known]
    path.parent.mkdir(parents=True, exist_ok=True)
    with progress(len(wanted), len(wanted) - len(todo), "shop") as advance:
        for tool, seed in todo:
            record = run(tool, seed)
            with path.open("a") as file:
                file.write(json.dumps(record, separators=(",", ":")) + "\n")
            advance(1, f"{tool}/{seed}")
