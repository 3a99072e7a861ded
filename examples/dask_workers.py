"""Dask workers evaluate for one study.

    pip install '.[studies,dask]'  # in a checkout
    python examples/dask_workers.py --budget 40 --workers 4
    python examples/dask_workers.py --scheduler tcp://host:8786 --storage postgresql://user@host/db

This process asks and tells; the workers, here or on a cluster, only evaluate. What they return is
in the journal before the next trial is asked for, so this process may be stopped at any time and
started again: it first sends out again what was under way. A worker that dies is Dask's to notice:
it evaluates the same trial elsewhere.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
from distributed import Client, Future, LocalCluster, as_completed

import regretless as rl

SPACE = rl.Space(
    {
        "temperature": rl.Float(60.0, 120.0),
        "pressure": rl.Float(1.0, 20.0, log=True),
        "catalyst": rl.Categorical(["A", "B"]),
    }
)


def batch(number: int, params: dict[str, Any]) -> dict[str, Any]:
    """One batch of a reactor, simulated: its yield in percent, and who measured it."""
    time.sleep(0.05)
    off = (params["temperature"] - 95) / 15, np.log(params["pressure"] / 6)
    best = 80.0 if params["catalyst"] == "B" else 72.0
    noise = np.random.default_rng(number).normal(scale=1.5)
    return {"yield": float(best - 5 * np.hypot(*off) + noise), "worker": os.getpid()}


def next_trials(study: rl.Study) -> Iterator[rl.Trial]:
    """What an earlier run of this program left under way, then new ones."""
    yield from study.pending
    yield from study


def run(client: Client, study: rl.Study, at_once: int) -> dict[int, int]:
    """Keep `at_once` trials under way until the budget is spent; returns who did how many."""
    trials = next_trials(study)
    running: dict[str, rl.Trial] = {}
    done: dict[int, int] = {}
    results = as_completed()

    def send_out() -> None:
        trial = next(trials, None)
        if trial is not None:
            # Not `pure`: the same parameters again are a new trial, not a known result.
            future: Future = client.submit(batch, trial.number, trial.params, pure=False)
            running[future.key] = trial
            results.add(future)

    for _ in range(at_once):
        send_out()
    for future in results:
        result = future.result()
        study.tell(running.pop(future.key), result["yield"])
        done[result["worker"]] = done.get(result["worker"], 0) + 1
        send_out()
    return done


def main() -> None:
    parser = argparse.ArgumentParser(description="Dask workers evaluate for one study.")
    parser.add_argument("--storage", default="reactor.sqlite", help="a file or a PostgreSQL URL")
    parser.add_argument("--study", default="reactor")
    parser.add_argument("--budget", type=int, default=40)
    parser.add_argument("--workers", type=int, default=4, help="trials under way at once")
    parser.add_argument("--scheduler", help="address of a running cluster; or else one is started")
    options = parser.parse_args()
    place = options.scheduler or LocalCluster(
        n_workers=options.workers, threads_per_worker=1, processes=True, dashboard_address=None
    )
    with (
        Client(place) as client,
        rl.Study.open(options.storage, options.study, space=SPACE, budget=options.budget) as study,
    ):
        done = run(client, study, options.workers)
        best = study.best()
        print(f"{sum(done.values())} trials on {len(done)} worker processes")
        print(f"best: {best.params}")
        print(f"  yield {best.mean:.1f} % (95 %: {best.low:.1f} to {best.high:.1f})")
    if options.scheduler is None:
        place.close()


if __name__ == "__main__":
    main()
