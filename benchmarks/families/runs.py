"""Records of runs, one line of JSON each, in `<family>/<tool>.jsonl`.

A worker process makes many runs, because most cost less than an import. It reads an id, and answers
with a record. If it dies or takes too long, that run is recorded as a crash, and a new worker goes
on. Existing records are skipped; to run a tool again, delete its files.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
from benchmarks.families.table import KEEP, instance
from benchmarks.families.tools import is_ours, tool
from benchmarks.peers.problems import Params, Task
from benchmarks.peers.runs import ROOT, one_thread, versions_of
from benchmarks.peers.tools import Entry

from regretless.experiments.progress import progress
from regretless.experiments.records import only_runner
from regretless.experiments.runner import stamp

RECORDS = ROOT / "docs" / "results" / "families" / "records"
FIRST, LAST = 10, 0.2
RUNS_OF_A_WORKER = 60
"""A worker is replaced after so many: some tools keep what they made."""

Problem = Callable[[str, int], Task]


@dataclass(frozen=True)
class Spec:
    """Which run."""

    family: str
    tool: str
    seed: int

    @property
    def id(self) -> str:
        return f"{self.family}/{self.tool}/{self.seed}"

    @classmethod
    def of(cls, id: str) -> Spec:
        family, tool, seed = id.split("/")
        return cls(family, tool, int(seed))


@dataclass(frozen=True)
class Run:
    """What a run left behind; regrets are sums, in spreads."""

    id: str
    N: int
    d: int
    noise: float
    regret: float
    first: float
    """The regret of the first ten evaluations."""
    last: float
    """The regret of the last fifth of them."""
    simple: float | None
    """What the recommendation loses."""
    cpu: float
    """Seconds of all asks and tells."""
    stamp: dict[str, str]
    error: str | None = None

    @property
    def spec(self) -> Spec:
        return Spec.of(self.id)

    def to_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"


def specs(families: Sequence[str], tools: Sequence[str], seeds: range) -> list[Spec]:
    """Seed by seed: a part of it is a smaller benchmark."""
    return [Spec(family, name, seed) for seed in seeds for name in tools for family in families]


# -- within a worker -------------------------------------------------------------------------------


def work(problem: Problem = instance) -> None:
    """Answer every id on the standard input with a record, until it is closed."""
    warnings.simplefilter("ignore")  # the peers' own, thousands of them
    out, sys.stdout = sys.stdout, sys.stderr  # what a tool prints is no record
    for line in sys.stdin:
        out.write(run(Spec.of(line.strip()), problem).to_line())
        out.flush()


def run(spec: Spec, problem: Problem = instance) -> Run:
    """One run, from the first evaluation to the recommendation."""
    task, entry = problem(spec.family, spec.seed), tool(spec.tool)
    regrets: list[float] = []
    seconds = 0.0
    simple = error = None
    try:
        began = time.process_time()
        made = entry.tool(task, spec.seed, [])
        seconds += time.process_time() - began
        for number in range(task.budget):
            began = time.process_time()
            params: Params = made.ask()
            asked = time.process_time()
            observed = task.observe(params, getattr(task, "number", spec.seed), number)
            answered = time.process_time()
            made.tell(params, observed)
            seconds += time.process_time() - answered + asked - began
            regrets.append(task.regret(params, observed))
        simple = float(round(task.simple_regret(made.recommend()), 6))
    except Exception as failure:  # noqa: BLE001 (whatever it is, it belongs to the results)
        error = f"{type(failure).__name__}: {failure}"[:300]
    return _record(spec, task, entry, regrets, seconds, simple, error)


def _record(
    spec: Spec,
    task: Task,
    entry: Entry,
    regrets: Sequence[float],
    seconds: float = 0.0,
    simple: float | None = None,
    error: str | None = None,
) -> Run:
    end = max(1, round(LAST * task.budget))
    return Run(
        id=spec.id,
        N=task.budget,
        d=task.space.dim,
        noise=round(getattr(task, "noise", 0.0), 4),
        regret=round(float(np.sum(regrets)), 4),
        first=round(float(np.sum(regrets[:FIRST])), 4),
        last=round(float(np.sum(regrets[-end:])), 4),
        simple=simple,
        cpu=round(seconds, 3),
        stamp=_stamp(entry),
        error=error,
    )


def _stamp(entry: Entry) -> dict[str, str]:
    every = stamp().versions()
    kept = ("regretless", "commit", "python", "numpy", "scipy")
    return versions_of(entry, {name: every[name] for name in kept})


# -- around it -------------------------------------------------------------------------------------


def run_all(
    wanted: Sequence[Spec],
    root: Path,
    *,
    jobs: int = 1,
    limit_minutes: float | None = None,
    patience_minutes: float = 60.0,
    command: Sequence[str] = ("-m", "benchmarks.families", "--work"),
    problem: Problem = instance,
) -> int:
    """Run what has no record under `root` yet; returns how many are still missing."""
    deadline = np.inf if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    with only_runner(root):
        known = read(root)
        todo = [spec for spec in wanted if spec.id not in known]
        missing = len(todo)
        with progress(len(wanted), len(wanted) - missing, "runs") as advance:
            for record in _results(todo, jobs, deadline, 60 * patience_minutes, command, problem):
                append(root, record)
                missing -= 1
                advance(1, record.id)
    return missing


def _results(
    todo: Sequence[Spec],
    jobs: int,
    deadline: float,
    patience: float,
    command: Sequence[str],
    problem: Problem,
) -> Iterator[Run]:
    waiting = iter(todo)
    turn, done = threading.Lock(), Queue[Run | None]()

    def serve() -> None:
        worker = _Worker(command, patience)
        try:
            while True:
                with turn:
                    spec = next(waiting, None)
                if spec is None or time.monotonic() >= deadline:
                    return
                answer = worker.run(spec)
                if isinstance(answer, str):
                    task, entry = problem(spec.family, spec.seed), tool(spec.tool)
                    done.put(_record(spec, task, entry, [], error=answer))
                else:
                    done.put(answer)
        finally:
            worker.stop()
            done.put(None)

    with ThreadPoolExecutor(jobs) as pool:
        for _ in range(jobs):
            pool.submit(serve)
        ended = 0
        while ended < jobs:
            record = done.get()
            if record is None:
                ended += 1
            else:
                yield record


class _Worker:
    """A process that makes runs of one tool."""

    def __init__(self, command: Sequence[str], patience: float) -> None:
        self._command, self._patience = command, patience
        self._process: Any = None
        self._tool, self._runs = "", 0

    def run(self, spec: Spec) -> Run | str:
        """The record, or what became of the process."""
        if self._process is None or spec.tool != self._tool or self._runs >= RUNS_OF_A_WORKER:
            self._start(spec.tool)
        self._runs += 1
        late = threading.Event()
        timer = threading.Timer(self._patience, lambda: (late.set(), self._process.kill()))
        timer.start()
        try:
            self._process.stdin.write(spec.id + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        finally:
            timer.cancel()
        if line.endswith("\n"):
            return Run(**json.loads(line))
        code = self.stop()
        if late.is_set():
            return f"no result after {self._patience / 60:.0f} minutes"
        return f"the process ended with exit code {code}"

    def _start(self, tool: str) -> None:
        self.stop()
        self._process = subprocess.Popen(
            [sys.executable, *self._command],
            cwd=ROOT,
            env=one_thread(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self._tool, self._runs = tool, 0

    def stop(self) -> int | None:
        """End the process; returns its exit code."""
        process, self._process = self._process, None
        if process is None:
            return None
        with suppress(BrokenPipeError):
            process.stdin.close()
        code = process.wait()
        process.stdout.close()
        return code


def check_kept(families: Sequence[str], tools: Sequence[str], final: bool) -> None:
    """Our own tool runs on the families that are kept only when its default is finished."""
    kept = [name for name in families if name in KEEP]
    ours = [name for name in tools if is_ours(name)]
    if kept and ours and not final:
        raise SystemExit(
            f"{', '.join(ours)} on {', '.join(kept)}: these families are kept for the end;"
            " --final says that it is there"
        )


# -- records ---------------------------------------------------------------------------------------


def append(root: Path, record: Run) -> None:
    spec = record.spec
    path = root / spec.family / f"{spec.tool}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    torn = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write("\n" * torn + record.to_line())
        file.flush()
        os.fsync(file.fileno())


def read(root: Path) -> dict[str, Run]:
    """Every whole record under a folder, by id."""
    found = {}
    for path in sorted(root.rglob("*.jsonl")):
        for line in path.read_text().splitlines():
            try:
                data = json.loads(line)
            except ValueError:
                continue  # torn
            found[data["id"]] = Run(**data)
    return found
