"""Sixteen worker processes on one study: is anything lost, and what does it cost in regret?

    python benchmarks/study_workers.py --seeds 3 --pause 0 --pause 1 \
        --output docs/results/study_workers.md

Each worker asks, evaluates (Hartmann-6 with noise, and a pause during which the others' trials are
pending) and tells, until the budget is spent. The noise belongs to the number of a trial,
so that every value in the journal can be checked against its trial. The sequential run beside it
has the same budget and the same noise. `--storage` takes a PostgreSQL URL; by default the journal
is an SQLite file.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
import uuid
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.runner import stamp

PROBLEM = PROBLEMS["hartmann-6"]
PROCESSES = multiprocessing.get_context("spawn")  # as independent as on several machines


@dataclass(frozen=True)
class Outcome:
    """What one run of many workers was like."""

    trials: int
    regret: float
    sequential: float
    pending: float  # others' trials that were pending at an ask, on average
    least: int  # trials of the laziest worker
    most: int
    seconds: float

    @property
    def ratio(self) -> float:
        return self.regret / self.sequential


def value(number: int, params: dict[str, Any], seed: int) -> float:
    return PROBLEM.evaluate(params, np.random.default_rng([16, seed, number]))


def work(storage: str, name: str, seed: int, pause: float, start: Any, done: Any) -> None:
    told = []
    with rl.Study.open(storage, name) as study:
        start.wait()
        for trial in study:
            time.sleep(pause)
            result = value(trial.number, trial.params, seed)
            study.tell(trial, result)
            told.append((trial.number, result))
    done.put(told)


def many(storage: str, name: str, trials: int, workers: int, seed: int, pause: float) -> Outcome:
    with rl.Study.open(storage, name, space=PROBLEM.space(), budget=trials, seed=seed):
        pass
    start, done = PROCESSES.Barrier(workers), PROCESSES.Queue()
    arguments = (storage, name, seed, pause, start, done)
    processes = [PROCESSES.Process(target=work, args=arguments) for _ in range(workers)]
    for process in processes:
        process.start()
    told = [done.get() for _ in processes]
    for process in processes:
        process.join()
    assert all(process.exitcode == 0 for process in processes)
    with rl.Study.open(storage, name, read_only=True) as study:
        check(study, told, trials, seed)
        asked = study.trials
        took: timedelta = study.events()[-1].time - study.events()[1].time
    return Outcome(
        trials=trials,
        regret=sum(PROBLEM.regret(trial.params, 0.0) for trial in asked),
        sequential=sequential(trials, seed),
        pending=float(np.mean([trial.decision.pending for trial in asked])),
        least=min(map(len, told)),
        most=max(map(len, told)),
        seconds=took.total_seconds(),
    )


def check(study: rl.Study, told: list[list[tuple[int, float]]], trials: int, seed: int) -> None:
    """Nothing lost, doubled or mixed up."""
    acknowledged = [pair for worker in told for pair in worker]
    rows = study.history()
    assert [row.number for row in rows] == list(range(trials)), "numbers have gaps"
    assert len(acknowledged) == trials, "a trial was handed out twice, or never"
    assert dict(acknowledged) == {row.number: row.value for row in rows}, "a result was mixed up"
    for row in rows:
        assert row.number is not None
        assert row.value == value(row.number, row.params, seed), f"trial {row.number}: mixed up"
    kinds = Counter(event.kind for event in study.events())
    assert kinds == {"created": 1, "asked": trials, "told": trials}


@cache
def sequential(trials: int, seed: int) -> float:
    optimizer = rl.Optimizer(PROBLEM.space(), trials, seed=seed)
    for trial in optimizer:
        optimizer.tell(trial, value(trial.number, trial.params, seed))
    return sum(PROBLEM.regret(trial.params, 0.0) for trial in optimizer.trials)


def page(outcomes: dict[str, Outcome], workers: int) -> str:
    lines = [
        f"# {workers} workers on one study",
        "",
        "Written by `benchmarks/study_workers.py`. Worker processes share one study. Each asks",
        "for a trial, evaluates Hartmann-6 with noise, waits, and tells the result. The script",
        "checks that every trial was given to one worker, and that every result was told once",
        "and belongs to its trial. Each row also shows the run of one worker with the same",
        "budget, seed and noise.",
        "",
        "How much regret many workers cost depends on how many trials are pending when one of",
        "them asks. If a trial takes no longer than a suggestion, hardly any trials are",
        "pending. If it takes much longer, the trials of all other workers are pending, and",
        "each suggestion is based on fewer results.",
        "",
        "| journal | a trial takes | seed | trials | regret | sequential | ratio"
        " | others pending at an ask | trials per worker | all took |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    groups: dict[str, list[Outcome]] = {}
    for name, o in outcomes.items():
        groups.setdefault(name.rpartition(" | ")[0], []).append(o)
        lines.append(
            f"| {name} | {o.trials} | {o.regret:.0f} | {o.sequential:.0f} | {o.ratio:.2f}"
            f" | {o.pending:.1f} | {o.least} to {o.most} | {o.seconds:.0f} s |"
        )
    lines += ["", "All seeds together (the bar is 1.3):", ""]
    for name, group in groups.items():
        ratio = sum(o.regret for o in group) / sum(o.sequential for o in group)
        lines.append(f"- {name.replace(' |', ', a trial takes')}: {ratio:.2f}")
    lines += [
        "",
        f"{stamp()}, {multiprocessing.cpu_count()} cores for all workers.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--workers", type=int, default=16)
    parser.add_argument("--trials", type=int, default=1000)
    parser.add_argument("--pause", type=float, action="append", help="seconds that a trial takes")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--storage", action="append", help="a URL; may be given several times")
    parser.add_argument("--output", type=Path, help="where the page goes; or else to stdout")
    options = parser.parse_args()
    outcomes: dict[str, Outcome] = {}
    with tempfile.TemporaryDirectory() as folder:
        storages = options.storage or [f"sqlite:///{folder}/workers.sqlite"]
        for storage, pause, seed in product(storages, options.pause or [0.0], range(options.seeds)):
            kind = "PostgreSQL" if storage.startswith("postgres") else "SQLite"
            name = f"workers {pause:g} {seed} {uuid.uuid4().hex[:6]}"
            outcome = many(storage, name, options.trials, options.workers, seed, pause)
            outcomes[f"{kind} | {pause:g} s | {seed}"] = outcome
            print(f"{kind}, {pause:g} s, seed {seed}: {outcome}", flush=True)
            text = page(outcomes, options.workers)
            if options.output is not None:  # after each: a long run may be cut short
                options.output.write_text(text, encoding="utf-8")
    if options.output is None:
        print(text)


if __name__ == "__main__":
    main()
