"""What it costs in regret that many workers get proposals from a stock that was made as a batch.

    nice python benchmarks/batches.py --output docs/results/batches.md

So many workers are busy all the time: whenever one of them tells its result, it gets the next
trial. Two ways to choose it are compared, with the same instance and the same noise:

- one by one: a search for each trial, which knows all results so far and believes the pending ones
  (`Optimizer.ask`; a study without a service);
- from a stock: `Optimizer.propose_batch` makes as many proposals as there are workers, and they
  are handed out until the stock is used up or too old (`studies/stock.py`; the service, as long as
  asks come faster than they can be worked out).

The instances are drawn by benchmarks/families, from seeds that no choice was made by.
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np

import regretless as rl
from regretless.engine import Asked
from regretless.experiments.runner import stamp
from regretless.studies.stock import Stock

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.families.base import Instance
from benchmarks.families.table import instance

FAMILIES = ("queue", "price", "control", "gp-smooth", "hills", "mixed", "inventory", "gp-rough")
SEED = 7100  # the first of the seeds
BUDGETS = {8: 160, 50: 300}  # by the number of workers


@dataclass(frozen=True)
class Pair:
    """The regret of both ways on one instance, and the seconds that they took."""

    name: str
    workers: int
    regrets: tuple[float, float]
    seconds: tuple[float, float]


class Workers:
    """So many workers that are busy all the time; which one finishes next is random."""

    def __init__(self, task: Instance, workers: int, seed: int) -> None:
        self.task, self.workers, self.seed = task, workers, seed
        self.optimizer = rl.Optimizer(task.space, budget=BUDGETS[workers], seed=seed)
        self.busy: list[Asked] = []
        self.regret = 0.0
        self.rng = np.random.default_rng([71, seed])

    def start(self, event: Asked) -> None:
        self.optimizer.apply(event)
        self.busy.append(event)

    def finish(self) -> None:
        """One of the trials under way ends: an older one more likely."""
        done = self.busy.pop(min(int(self.rng.exponential(self.workers / 4)), len(self.busy) - 1))
        value = self.task.observe(done.params, self.seed, done.number)
        self.regret += self.task.regret(done.params, value)
        self.optimizer.tell(done.number, value)


def one_by_one(work: Workers) -> None:
    while work.optimizer.remaining:
        if len(work.busy) == work.workers:
            work.finish()
        work.start(work.optimizer.propose())


def from_stock(work: Workers) -> None:
    stock = Stock()
    while work.optimizer.remaining:
        if len(work.busy) == work.workers:
            work.finish()
        ready = stock.valid(work.optimizer, stale=True)
        if not ready:
            twin = work.optimizer.copy()
            stock.put(twin.propose_batch(min(work.workers, twin.remaining)), twin)
            ready = stock.valid(work.optimizer, stale=True)
        work.start(ready[0])
        stock.used(1)


def pair(family: str, seed: int, workers: int) -> Pair:
    task = instance(family, seed)
    regrets, seconds = [], []
    for way in (one_by_one, from_stock):
        work, start = Workers(task, workers, seed), time.perf_counter()
        way(work)
        while work.busy:
            work.finish()
        regrets.append(work.regret)
        seconds.append(time.perf_counter() - start)
    return Pair(task.name, workers, tuple(regrets), tuple(seconds))  # type: ignore[arg-type]


def summary(pairs: list[Pair]) -> str:
    logs = np.log([stock / single for single, stock in (each.regrets for each in pairs)])
    mean, error = logs.mean(), logs.std(ddof=1) / np.sqrt(len(logs))
    single, stock = np.sum([each.seconds for each in pairs], axis=0)
    return (
        f"| {pairs[0].workers} | {BUDGETS[pairs[0].workers]} | {len(pairs)}"
        f" | {np.exp(mean):.3f} | {np.exp(mean - error):.3f} to {np.exp(mean + error):.3f}"
        f" | {single / stock:.1f} |"
    )


def page(pairs: list[Pair], command: str) -> str:
    intro = __doc__.split("\n\n", 2)[2] if __doc__ else ""
    each = [
        f"| {p.name} | {p.workers} | {p.regrets[0]:.1f} | {p.regrets[1]:.1f}"
        f" | {p.regrets[1] / p.regrets[0]:.2f} |"
        for p in pairs
    ]
    groups = [[p for p in pairs if p.workers == workers] for workers in BUDGETS]
    return "\n".join(
        [
            "# Proposals from a stock",
            "",
            f"Written by `{command}`.",
            "",
            intro.strip(),
            "",
            "The regret of a run is the sum over its trials, in units of the spread of f. The",
            "ratio is that from a stock to that one by one: the geometric mean over the instances,",
            "and the range of one standard error. The last column says how many times as long the",
            "decisions of all runs took one by one.",
            "",
            "| workers | trials | instances | ratio of regrets | one standard error | time |",
            "|---|---|---|---|---|---|",
            *[summary(group) for group in groups if len(group) > 1],
            "",
            "| instance | workers | one by one | from a stock | ratio |",
            "|---|---|---|---|---|",
            *each,
            "",
            f"{stamp()}, {os.cpu_count()} cores.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--seeds", type=int, default=3, help="instances of each family")
    parser.add_argument("--workers", type=int, action="append", choices=list(BUDGETS))
    parser.add_argument("--output", type=Path, help="where the page goes; or else to stdout")
    options = parser.parse_args()
    pairs: list[Pair] = []
    for workers in options.workers or list(BUDGETS):
        for seed in range(SEED, SEED + options.seeds):
            for family in FAMILIES:
                pairs.append(pair(family, seed, workers))
                print(pairs[-1], file=sys.stderr, flush=True)
    text = page(pairs, f"benchmarks/batches.py --seeds {options.seeds}")
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
