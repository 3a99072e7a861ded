"""What it costs that a study lasts: ask + tell on SQLite against memory and Optuna; a replay.

    python benchmarks/study_speed.py --optuna /path/to/venv/bin/python \
        --output docs/results/study_speed.md

All are measured in one run, turn by turn, in one folder (`--folder`, by default a temporary one):
what counts is how fast that disk acknowledges a write. `--optuna` names a Python that has Optuna
(`python -m venv peers && peers/bin/pip install optuna`); left out, it is not compared. `--postgres`
takes the URL of a PostgreSQL database to measure as well.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless.experiments.runner import stamp

SPACE = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(6)})
EVENTS = 2000
BAR_MS, BAR_REPLAY = 15.0, 1.0

# Spoken to over pipes: each line that comes in is one ask + tell, each that goes out its seconds.
OPTUNA = """
import sys, time, optuna
from optuna.distributions import FloatDistribution
optuna.logging.set_verbosity(optuna.logging.ERROR)
study = optuna.create_study(storage=sys.argv[1], sampler=optuna.samplers.RandomSampler(seed=0))
space = {f"x{i}": FloatDistribution(0.0, 1.0) for i in range(6)}
print(optuna.__version__, flush=True)
for _ in sys.stdin:
    start = time.perf_counter()
    trial = study.ask(space)
    study.tell(trial, sum(trial.params.values()))
    print(time.perf_counter() - start, flush=True)
"""

REPLAY = """
import sys, time
import regretless as rl
import regretless.studies.journal
start = time.perf_counter(), time.process_time()
study = rl.Study.open(sys.argv[1], "replay")
wall, cpu = time.perf_counter() - start[0], time.process_time() - start[1]
assert study.observations == int(sys.argv[2])
print(wall, cpu)
"""


@dataclass(frozen=True)
class Times:
    """Seconds of each turn, in the order in which they were measured."""

    name: str
    seconds: list[float]

    def ms(self, share: float) -> float:
        return 1000 * float(np.quantile(self.seconds, share))


def turn(tuner: rl.Optimizer | rl.Study) -> float:
    start = time.perf_counter()
    trial = tuner.ask()
    tuner.tell(trial, float(sum(map(float, trial.params.values()))))  # type: ignore[arg-type]
    return time.perf_counter() - start


def fsync(file: Any) -> float:
    """What the disk takes for one small write, for comparison."""
    start = time.perf_counter()
    file.write(b"x" * 4096)
    file.flush()
    os.fsync(file.fileno())
    return time.perf_counter() - start


def optuna_turn(python: str, storage: str) -> tuple[Callable[[], float], str]:
    process = subprocess.Popen(
        [python, "-c", OPTUNA, storage], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    pipe, answers = process.stdin, process.stdout
    version = answers.readline().strip()

    def one() -> float:
        pipe.write("\n")
        pipe.flush()
        return float(answers.readline())

    return one, version


def compare(turns: int, options: argparse.Namespace, folder: Path) -> list[Times]:
    """One turn of each after the other, so that all of them meet the same busy moments."""
    # A start as long as the run: the comparison is of what surrounds a decision, which is the same.
    settings: dict[str, Any] = {"space": SPACE, "budget": 2 * turns, "n0": turns + 10}
    optimizer = rl.Optimizer(**settings)
    study = rl.Study.open(folder / "study.sqlite", "speed", **settings)
    runs: dict[str, Callable[[], float]] = {
        "in memory (`Optimizer`)": lambda: turn(optimizer),
        "SQLite (`Study`)": lambda: turn(study),
    }
    if options.postgres:
        other = rl.Study.open(options.postgres, f"speed {uuid.uuid4().hex[:8]}", **settings)
        runs["PostgreSQL (`Study`)"] = lambda: turn(other)
    if options.optuna:
        one, version = optuna_turn(options.optuna, f"sqlite:///{folder}/optuna.sqlite")
        runs[f"Optuna {version}, SQLite"] = one
    with (folder / "fsync").open("wb") as file:
        runs["one `fsync` of this disk"] = lambda: fsync(file)
        seconds: dict[str, list[float]] = {name: [] for name in runs}
        for n in range(turns + 5):
            for name, run in runs.items():
                taken = run()
                if n >= 5:  # the first ones open connections and compile statements
                    seconds[name].append(taken)
    study.close()
    return [Times(name, each) for name, each in seconds.items()]


def replay(folder: Path) -> tuple[float, float]:
    """Wall and CPU seconds for opening a study of 2000 events in a fresh process."""
    path, trials = folder / "replay.sqlite", EVENTS // 2
    with rl.Study.open(path, "replay", space=SPACE, budget=trials, n0=60) as study:
        for trial in study:  # with the policy "eic" and its fits, as in life
            study.tell(trial, float(np.sin(7 * float(trial.params["x0"] or 0.0))))
    command = [sys.executable, "-c", REPLAY, str(path), str(trials)]
    runs = [
        subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
        for _ in range(5)
    ]
    wall, cpu = np.median(np.array(runs, dtype=float), axis=0)
    return float(wall), float(cpu)


def page(times: list[Times], replayed: tuple[float, float] | None) -> str:
    memory = times[0]
    lines = [
        "# What it costs that a study lasts",
        "",
        "Written by `benchmarks/study_speed.py`. The table shows the milliseconds (wall time)",
        "of an ask and a tell. All rows are measured in turns, in one run on one disk. The",
        "trials are points of the start, so hardly anything is computed. When `ask` or `tell`",
        "returns, its event is on disk: each call is one durable write.",
        "",
        "| | median | 90 % | added to memory, median |",
        "|---|---|---|---|",
    ]
    for t in times:
        added = 1000 * float(np.median(np.subtract(t.seconds, memory.seconds)))
        shown = f"{added:.1f}" if t is not memory and "fsync" not in t.name else ""
        lines.append(f"| {t.name} | {t.ms(0.5):.2f} | {t.ms(0.9):.2f} | {shown} |")
    lines += ["", f"The bar: SQLite adds at most {BAR_MS:g} ms.", ""]
    if replayed is not None:
        wall, cpu = replayed
        lines += [
            f"Opening a study of {EVENTS} events in a fresh process takes {wall:.2f} s of wall time"
            f" ({cpu:.2f} s of CPU; median of five). The bar is {BAR_REPLAY:g} s.",
            "",
        ]
    load = os.getloadavg()[0] if hasattr(os, "getloadavg") else float("nan")
    lines += [
        f"{stamp()}, {os.cpu_count()} cores, load {load:.1f} at the end.",
        "",
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--optuna", help="a Python that has Optuna")
    parser.add_argument("--postgres", help="the URL of a PostgreSQL database")
    parser.add_argument("--folder", type=Path, help="where to write; it decides about the disk")
    parser.add_argument("--no-replay", action="store_true")
    parser.add_argument("--output", type=Path, help="where the page goes; or else to stdout")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        times = compare(options.turns, options, Path(folder))
        replayed = None if options.no_replay else replay(Path(folder))
    text = page(times, replayed)
    print(json.dumps({t.name: round(t.ms(0.5), 2) for t in times}), file=sys.stderr)
    if options.output is None:
        print(text)
    else:
        options.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
