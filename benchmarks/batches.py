"""What it costs in regret to choose trials without a search, when many workers ask at once.

    nice python benchmarks/batches.py --output docs/results/batches.md

There are two comparisons. In each, the *searched* and the *quick* runs have the same instances
and the same noise.

- **Rounds.** All workers tell their results, and then all of them get their next trials.
  *Searched*: `Optimizer.ask(n)` makes a search for each trial, with the trials before it
  pending. *Quick*: `Optimizer.propose_batch(n)` makes one search for all trials.
- **A stream.** Whenever a worker tells its result, it gets the next trial, while all others are
  pending. *Searched*: `Optimizer.ask`. *Quick*: `Optimizer.propose_more`, which the service
  uses when asks come faster than searches can answer them. It searches for candidates again
  when half as many results have come in as there are workers. A fit that is due comes as many
  results later.

The instances are drawn by benchmarks/families. Their seeds were also used to choose this way of
working.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless.engine import Asked, Crowd
from regretless.experiments.runner import stamp

sys.path.insert(0, str(Path(__file__).parents[1]))
from benchmarks.families.base import Instance
from benchmarks.families.table import instance

FAMILIES = ("queue", "price", "control", "gp-smooth", "hills", "mixed", "inventory", "gp-rough")
SEED = 7100  # the first of the seeds
BUDGETS = {8: 160, 50: 300}  # trials, by the number of workers


class Workers:
    """So many workers; which of them finishes next is random."""

    def __init__(self, task: Instance, workers: int, seed: int) -> None:
        self.task, self.workers, self.seed = task, workers, seed
        self.optimizer = rl.Optimizer(task.space, budget=BUDGETS[workers], seed=seed)
        self.busy: list[Asked] = []
        self.regret = 0.0
        self.seconds = 0.0  # for decisions
        self.rng = np.random.default_rng([71, seed])

    def start(self, events: list[Asked]) -> None:
        for event in events:
            self.optimizer.apply(event)
        self.busy += events

    def finish(self) -> None:
        """One of the trials under way ends: an older one more likely."""
        done = self.busy.pop(min(int(self.rng.exponential(self.workers / 4)), len(self.busy) - 1))
        value = self.task.observe(done.params, self.seed, done.number)
        self.regret += self.task.regret(done.params, value)
        self.optimizer.tell(done.number, value)

    def run(self, make: Callable[[rl.Optimizer, int], list[Asked]], in_rounds: bool) -> None:
        while left := self.optimizer.remaining:
            if len(self.busy) == self.workers:
                for _ in range(self.workers if in_rounds else 1):
                    self.finish()
            start = time.perf_counter()
            made = make(self.optimizer.copy(), min(left, self.workers - len(self.busy)))
            self.seconds += time.perf_counter() - start
            self.start(made)
        while self.busy:
            self.finish()


def searched(optimizer: rl.Optimizer, n: int) -> list[Asked]:
    events = []
    for _ in range(n):
        events.append(optimizer.propose())
        optimizer.apply(events[-1])
    return events


def batch(optimizer: rl.Optimizer, n: int) -> list[Asked]:
    return optimizer.propose_batch(n)


class Hurry:
    """`propose_more`, with candidates and fits that are as old as they may be in the service."""

    def __init__(self) -> None:
        self.crowd: Crowd | None = None
        self.fit: tuple[int, dict[str, Any]] | None = None

    def __call__(self, optimizer: rl.Optimizer, n: int) -> list[Asked]:
        pending, told = len(optimizer.pending), optimizer.observations
        if pending and optimizer.has_followers:
            late = self.fit is not None and told - self.fit[0] >= pending // 2
            old = self.crowd is None or told - self.crowd.since > pending // 2
            if late or old:
                fit = self.fit[1] if late and self.fit is not None else None
                self.crowd = optimizer.copy().lead(fit) or self.crowd
            if late:
                self.fit = None
            elif self.fit is None and (due := optimizer.copy().fit_if_due()):
                self.fit = (told, due)
        events, self.crowd = optimizer.propose_more(n, self.crowd)
        return events


def record(family: str, seed: int, workers: int, how: str) -> dict[str, Any]:
    task = instance(family, seed)
    found: dict[str, Any] = {"instance": task.name, "workers": workers, "how": how}
    quick = batch if how == "rounds" else Hurry()
    for name, make in (("searched", searched), ("quick", quick)):
        work = Workers(task, workers, seed)
        work.run(make, in_rounds=how == "rounds")
        found[name] = {"regret": work.regret, "seconds": work.seconds}
    return found


def summary(group: list[dict[str, Any]]) -> str:
    logs = np.log([each["quick"]["regret"] / each["searched"]["regret"] for each in group])
    mean, error = logs.mean(), logs.std(ddof=1) / np.sqrt(len(logs))
    first = group[0]
    return (
        f"| {first['how']} | {first['workers']} | {BUDGETS[first['workers']]} | {len(group)}"
        f" | {np.exp(mean):.3f} | {np.exp(mean - error):.3f} to {np.exp(mean + error):.3f} |"
    )


def page(records: list[dict[str, Any]]) -> str:
    intro = (__doc__ or "").split("\n\n", 2)[2]
    groups: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for each in records:
        groups.setdefault((each["how"], each["workers"]), []).append(each)
    rows = [
        f"| {each['how']} | {each['workers']} | {each['instance']}"
        f" | {each['searched']['regret']:.1f} | {each['quick']['regret']:.1f}"
        f" | {each['quick']['regret'] / each['searched']['regret']:.2f} |"
        for each in records
    ]
    lines = [
        "# Trials without a search",
        "",
        "Written by `benchmarks/batches.py`.",
        "",
        intro.strip(),
        "",
        "The regret of a run is the sum over its trials, in units of the spread of f. The",
        "ratio is the regret of the quick runs divided by the regret of the searched runs. The",
        "table shows its geometric mean over the instances, and the range of one standard",
        "error.",
        "",
        "| | workers | trials | instances | ratio of regrets | one standard error |",
        "|---|---|---|---|---|---|",
        *[summary(group) for _, group in sorted(groups.items()) if len(group) > 1],
        "",
        "| | workers | instance | searched | quick | ratio |",
        "|---|---|---|---|---|---|",
        *rows,
        "",
        f"{stamp()}, {os.cpu_count()} cores.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=2, help="instances of each family")
    parser.add_argument("--workers", type=int, action="append", choices=list(BUDGETS))
    parser.add_argument("--how", action="append", choices=["rounds", "stream"])
    parser.add_argument("--records", type=Path, help="keep what was measured here, and go on there")
    parser.add_argument("--output", type=Path, help="where the page goes; or else to stdout")
    options = parser.parse_args()
    records: list[dict[str, Any]] = []
    if options.records is not None and options.records.exists():
        records = [json.loads(line) for line in options.records.read_text().splitlines()]
    done = {(each["instance"], each["workers"], each["how"]) for each in records}
    for seed in range(SEED, SEED + options.seeds):
        for family in FAMILIES:
            for workers in options.workers or list(BUDGETS):
                for how in options.how or ["rounds", "stream"]:
                    if (f"{family}/{seed}", workers, how) not in done:
                        records.append(record(family, seed, workers, how))
                        print(records[-1], file=sys.stderr, flush=True)
                        if options.records is not None:
                            with options.records.open("a") as file:
                                file.write(json.dumps(records[-1]) + "\n")
    if options.output is None:
        print(page(records))
    else:
        options.output.write_text(page(records), encoding="utf-8")


if __name__ == "__main__":
    main()
