"""The service under load: many clients on one study, and many studies side by side.

    python benchmarks/service_load.py --output docs/results/service_load.md

Real processes on a real disk: the service is one, its clients are threads of this one, and what
they measure includes their own part. `--postgres` takes the URL of a PostgreSQL database to measure
as well. What the clients were told is compared with the journal at the end: nothing may be lost
and nothing may be there twice.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

import regretless as rl
from regretless.client import Client, RemoteStudy
from regretless.experiments.runner import stamp

SPACE = rl.Space(
    {"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])}
)
CLIENTS, PRIOR_TRIALS, STUDIES = 50, 500, 200
BAR_MS = 250.0


@dataclass
class Load:
    """What the clients saw, in seconds."""

    name: str
    asks: list[float] = field(default_factory=list)
    tells: list[float] = field(default_factory=list)
    told: list[tuple[str, int, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    faults: int = -1  # lost or doubled trials

    def turn(self, study: RemoteStudy) -> None:
        start = time.perf_counter()
        trial = study.ask()
        asked = time.perf_counter()
        value = objective(trial)
        self.asks.append(asked - start)
        start = time.perf_counter()
        study.tell(trial, value)
        self.tells.append(time.perf_counter() - start)
        self.told.append((study.name, trial.number, value))

    def row(self) -> str:
        quantiles = " | ".join(
            f"{1000 * float(np.quantile(times, share)):.0f}"
            for times in (self.asks, self.tells)
            for share in (0.5, 0.99)
        )
        rate = len(self.told) / self.seconds
        return (
            f"| {self.name} | {len(self.told)} | {rate:.1f} | {quantiles} | {len(self.errors)}"
            f" | {self.faults} |"
        )


def objective(trial: rl.Trial) -> float:
    x, y = float(trial.params["x"] or 0.0), float(trial.params["y"] or 0.0)
    noise = np.random.default_rng(trial.number).normal()
    return float(np.sin(5 * x) + y * (trial.params["kind"] == "b") + 0.1 * noise)


@contextmanager
def service(storage: str) -> Iterator[Client]:
    command = [sys.executable, "-m", "regretless", "serve", "--storage", storage, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield Client(process.stdout.readline().rpartition(" ")[2].strip())
        finally:
            process.terminate()


def prepare(storage: str, names: list[str], trials: int) -> None:
    """Studies with so many trials that somebody else has chosen: that takes no thinking."""
    rng = np.random.default_rng(0)
    for name in names:
        with rl.Study.open(storage, name, space=SPACE, budget=100_000) as study:
            for _ in range(trials):
                x, y = rng.random(2)
                trial = study.adopt({"x": x, "y": y, "kind": str(rng.choice(["a", "b"]))})
                study.tell(trial, objective(trial))


def press(load: Load, work: list[list[RemoteStudy]], rounds: int) -> None:
    """One thread for each list of studies: ask and tell in each of them, round after round."""

    def client(studies: list[RemoteStudy]) -> None:
        try:
            for _ in range(rounds):
                for study in studies:
                    load.turn(study)
        except rl.RegretlessError as error:
            load.errors.append(str(error))

    threads = [threading.Thread(target=client, args=(studies,)) for studies in work]
    start = time.perf_counter()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    load.seconds = time.perf_counter() - start


def faults(storage: str, load: Load, names: list[str], before: int) -> int:
    """Trials that were acknowledged and are not there, are there twice, or belong to nobody."""
    there: Counter[tuple[str, int, float]] = Counter()
    for name in names:
        with rl.Study.open(storage, name, read_only=True) as study:
            rows = [row for row in study.history() if row.status == "told"]
        there.update((name, r.number, r.value) for r in rows if (r.number or 0) >= before)
    seen = Counter(load.told)
    return sum(((seen - there) + (there - seen)).values())


def one_study(storage: str, label: str, rounds: int) -> Load:
    load, name = Load(f"one study, {label}"), f"one {uuid.uuid4().hex[:6]}"
    prepare(storage, [name], PRIOR_TRIALS)
    with service(storage) as client:
        press(load, [[client.study(name)]] * CLIENTS, rounds)
    load.faults = faults(storage, load, [name], PRIOR_TRIALS)
    return load


def burst(storage: str) -> list[float]:
    """The worst moment: a result of every client in the same instant, while an ask thinks."""
    name, seconds = f"burst {uuid.uuid4().hex[:6]}", []
    prepare(storage, [name], PRIOR_TRIALS)
    with rl.Study.open(storage, name) as local:
        pending = [local.adopt({"x": i / CLIENTS, "y": 0.5, "kind": "a"}) for i in range(CLIENTS)]
    together = threading.Barrier(CLIENTS)

    def tell(study: RemoteStudy, trial: rl.Trial) -> None:
        together.wait()
        start = time.perf_counter()
        study.tell(trial, objective(trial))
        seconds.append(time.perf_counter() - start)

    with service(storage) as client:
        study = client.study(name)
        study.ask()
        threads = [threading.Thread(target=tell, args=(study, trial)) for trial in pending]
        for thread in [threading.Thread(target=study.ask), *threads]:
            thread.start()
        for thread in threads:
            thread.join()
    return seconds


def many_studies(storage: str, label: str, rounds: int) -> tuple[Load, list[float]]:
    """Also how long the list of all studies takes, at first and when nothing has changed."""
    load = Load(f"{STUDIES} studies, {label}")
    names = [f"many {i:03d} {uuid.uuid4().hex[:6]}" for i in range(STUDIES)]
    prepare(storage, names, 10)
    with service(storage) as client:
        work = [[RemoteStudy(client, name) for name in names[i::CLIENTS]] for i in range(CLIENTS)]
        press(load, work, rounds)
        listing = []
        for _ in range(2):
            start = time.perf_counter()
            client.studies()
            listing.append(time.perf_counter() - start)
    load.faults = faults(storage, load, names, 10)
    return load, listing


def page(loads: list[Load], listing: list[float], instant: list[float]) -> str:
    lines = [
        "# The service under load",
        "",
        f"Written by `benchmarks/service_load.py`: {CLIENTS} clients that ask and tell, one trial",
        f"after the other, against one `regretless serve`. The one study has {PRIOR_TRIALS} trials",
        f"before, each of the {STUDIES} studies side by side has 10. Times are in ms, as the",
        "clients see them. The asks of one study are answered one after the other, so that each",
        "client waits for about fifty of them; tells wait for no ask. *Lost or doubled* compares",
        "what the clients were told with the journal.",
        "",
        "| | trials | a second | ask, median | ask, 99 % | tell, median | tell, 99 % | errors"
        " | lost or doubled |",
        "|---|---|---|---|---|---|---|---|---|",
        *[load.row() for load in loads],
        "",
        f"The bar: 99 % of the tells on the one study take less than {BAR_MS:g} ms.",
        "",
        f"Should all {CLIENTS} clients tell in the same instant, while an ask is being computed,"
        f" half of them wait {1000 * float(np.median(instant)):.0f} ms and the last one"
        f" {1000 * max(instant):.0f} ms (SQLite).",
        "",
        f"The list of {STUDIES} studies takes {listing[0]:.2f} s after all of them have changed,"
        f" {1000 * listing[1]:.0f} ms when none has.",
        "",
        f"{stamp()}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f} at the end.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rounds", type=int, default=8, help="trials of each client")
    parser.add_argument("--postgres", help="the URL of a PostgreSQL database")
    parser.add_argument("--folder", type=Path, help="where to write; it decides about the disk")
    parser.add_argument("--output", type=Path, help="where the page goes; or else to stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        storages = {"SQLite": f"{folder}/load.sqlite"}
        if options.postgres:
            storages["PostgreSQL"] = options.postgres
        loads = [one_study(url, label, options.rounds) for label, url in storages.items()]
        instant = burst(storages["SQLite"])
        for label, url in storages.items():
            load, listing = many_studies(url, label, max(1, options.rounds // 4))
            loads.append(load)
    text = page(loads, listing, instant)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")
    for load in loads:
        print(load.row(), *load.errors[:3], file=sys.stderr)


if __name__ == "__main__":
    main()
