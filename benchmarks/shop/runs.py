"""Runs of each tool in each shop, as records that are kept."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.shop.shops import CUSTOMERS, FLUSHES, PERIODS, Increment, Shop, shop
from benchmarks.shop.tools import Arm, OneTrial, Ours, Test, Thompson, Today, Tool

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
OURS: dict[str, Callable[[Shop], Tool]] = {
    "ours": Ours,
    "ours, no early end": lambda shop: Ours(shop, end_early=0.0),
}
TOOLS = RIVALS | OURS


def run(tool: str, seed: int) -> dict[str, Any]:
    """One run, with the loss after every fifth period as a share of what the best setting earns."""
    place, begun = shop(seed), time.process_time()
    made = TOOLS[tool](place)
    due: dict[int, list[tuple[int, int, Increment]]] = defaultdict(list)  # by period
    lost, losses, rows = 0.0, [], 0.0
    for period in range(PERIODS):
        table = made.table(period)
        rows += len(table) / PERIODS
        for flush in range(FLUSHES):
            rng = np.random.default_rng([seed, period, flush])
            for arm, count in zip(table, _split(table, rng), strict=True):
                lost += count * place.day(period) * (place.best - place.worth(arm.params))
                for part in place.serve(arm.params, period, count, rng):
                    due[period + part.late].append((period, arm.name, part))
            for when, name, part in due.pop(period, []):
                made.take(when, name, part)
            table = made.changed() or table
        losses.append(lost)
    whole = place.best * CUSTOMERS * sum(place.day(period) for period in range(PERIODS))
    return {
        "tool": tool,
        "seed": seed,
        "lost": float(f"{lost / whole:.5g}"),
        "curve": [float(f"{each / whole:.4g}") for each in losses[4::5]],
        "rows": round(rows, 2),
        "today": float(f"{1.0 - place.worth(place.today) / place.best:.4g}"),
        "seconds": round(time.process_time() - begun, 2),
        "commit": stamp().versions()["commit"],
    }


def _split(table: list[Arm], rng: np.random.Generator) -> list[int]:
    """How many customers of one flush each arm gets."""
    shares = np.array([arm.share for arm in table])
    counts: list[int] = rng.multinomial(CUSTOMERS // FLUSHES, shares / shares.sum()).tolist()
    return counts


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
