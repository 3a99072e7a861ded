"""One record per run, each made in a process of its own, so that memory and CPU time are its own.

Records are lines of JSON in `<problem>/<tool>.<start>.jsonl`; to run a tool again, delete its
files. A line either parses or was never written. A crash is a record, with its error and the curve
up to it; a run that was interrupted leaves none.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.adapters import common_start
from benchmarks.peers.problems import TASKS, Task
from benchmarks.peers.tools import TOOLS, Entry

from regretless.experiments.progress import progress
from regretless.experiments.records import UNIT, only_runner, quantised
from regretless.experiments.runner import stamp

ROOT = Path(__file__).resolve().parents[2]
STARTS = ("own", "common")
MARKS = (50, 100, 200)
"""Where a step's CPU time is looked at."""
WINDOW = 10
LAST = 20
POINTS = 60
"""A curve keeps so many points at most."""
_INTERRUPTED = (-signal.SIGINT, -signal.SIGTERM, 128 + signal.SIGINT, 128 + signal.SIGTERM)


@dataclass(frozen=True)
class Spec:
    """Which run; `budget` replaces the problem's own in a smoke test."""

    problem: str
    tool: str
    start: str
    seed: int
    budget: int | None = None

    @property
    def id(self) -> str:
        return f"{self.problem}/{self.tool}/{self.start}/{self.seed}"

    @property
    def cell(self) -> tuple[str, str, str]:
        return self.problem, self.tool, self.start

    @classmethod
    def of(cls, id: str, budget: int | None = None) -> Spec:
        problem, tool, start, seed = id.split("/")
        return cls(problem, tool, start, int(seed), budget)

    @property
    def task(self) -> Task:
        task = TASKS[self.problem]
        return task if self.budget is None else replace(task, budget=self.budget)

    @property
    def cost(self) -> float:
        """CPU seconds, very roughly: most tools' steps grow with n."""
        budget = self.task.budget
        return 3 + TOOLS[self.tool].step * budget * (0.3 + 0.7 * budget / 200)


@dataclass(frozen=True)
class Run:
    """What a run left behind; the regrets are sums, the curve is in `UNIT`s at `points(budget)`."""

    id: str
    budget: int
    steps: tuple[int, ...]
    regret: float
    last: float
    simple: float | None
    cpu_ms: dict[str, float]
    cpu_seconds: float
    peak_mb: float
    stamp: dict[str, str]
    error: str | None = None

    @property
    def curve(self) -> Any:
        return np.cumsum(self.steps) * UNIT

    def to_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"


def points(budget: int) -> Any:
    """The numbers of evaluations after which a curve is kept."""
    return np.unique(np.linspace(1, budget, min(budget, POINTS)).round().astype(int))


def specs(
    problems: Sequence[str],
    tools: Sequence[str],
    start: str,
    seeds: int,
    slow_seeds: int,
    budget: int | None = None,
    first_seed: int = 0,
) -> list[Spec]:
    """Seed by seed, and in each the cheap ones first: a part of it is a smaller benchmark."""
    cells = [
        Spec(problem, tool, "own" if TOOLS[tool].starts_common else start, 0, budget)
        for problem in problems
        for tool in tools
    ]
    cells.sort(key=lambda spec: spec.cost)
    return [
        replace(cell, seed=first_seed + seed)
        for seed in range(seeds)
        for cell in cells
        if seed < slow_seeds or not TOOLS[cell.tool].slow
    ]


# -- within the process of a run -------------------------------------------------------------------


def run(spec: Spec) -> Run:
    """One run, from the first evaluation to the recommendation."""
    warnings.simplefilter("ignore")  # the peers' own, thousands of them
    task, entry = spec.task, TOOLS[spec.tool]
    regrets: list[float] = []
    seconds: list[float] = []
    simple = error = None
    try:
        first = common_start(task, spec.seed) if spec.start == "common" else []
        tool = entry.tool(task, spec.seed, first)
        for number in range(task.budget):
            started = time.process_time()
            params = first[number] if number < len(first) else tool.ask()
            asked = time.process_time()
            observed = task.observe(params, spec.seed, number)
            answered = time.process_time()
            tool.tell(params, observed)
            seconds.append(time.process_time() - answered + asked - started)
            regrets.append(task.regret(params, observed))
        simple = round(task.simple_regret(tool.recommend()), 6)
    except Exception as failure:  # noqa: BLE001 (whatever it is, it belongs to the results)
        error = f"{type(failure).__name__}: {failure}"[:300]
    return _record(spec, regrets, seconds, simple, error)


def _record(
    spec: Spec,
    regrets: list[float],
    seconds: list[float],
    simple: float | None = None,
    error: str | None = None,
) -> Run:
    total = np.cumsum(regrets)
    kept = [int(n) - 1 for n in points(spec.task.budget) if n <= len(regrets)]
    return Run(
        id=spec.id,
        budget=spec.task.budget,
        steps=quantised(np.diff(total[kept], prepend=0.0)),
        regret=round(sum(regrets), 4),
        last=round(sum(regrets[-LAST:]), 4),
        simple=simple,
        cpu_ms=_around_marks(seconds),
        cpu_seconds=round(sum(seconds), 3),
        peak_mb=round(_peak_mb(), 1),
        stamp=versions_of(TOOLS[spec.tool], stamp().versions()),
        error=error,
    )


def _around_marks(seconds: Sequence[float]) -> dict[str, float]:
    """Mean milliseconds of the steps around each mark that the run went past."""
    return {
        str(n): round(1e3 * float(np.mean(seconds[n - WINDOW : n + WINDOW])), 3)
        for n in MARKS
        if n <= len(seconds)
    }


def _peak_mb() -> float:
    """The most memory that this process held at once."""
    try:  # getrusage would count the process that this one was forked from
        status = Path("/proc/self/status").read_text()
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak / (2**20 if sys.platform == "darwin" else 2**10)
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def versions_of(entry: Entry, known: dict[str, str]) -> dict[str, str]:
    """The known versions, those of the tool's packages, and its setting."""
    stamped = dict(known)
    for package in entry.packages:
        try:
            stamped.setdefault(package, version(package))
        except PackageNotFoundError:  # a checkout
            continue
    return stamped | {"setting": entry.setting}


# -- around it -------------------------------------------------------------------------------------


def run_all(
    wanted: Sequence[Spec],
    root: Path,
    *,
    jobs: int = 1,
    limit_minutes: float | None = None,
    patience_minutes: float = 240.0,
) -> int:
    """Run what has no record under `root` yet; returns how many are still missing.

    After `limit_minutes` no new run is started; a run that takes longer than `patience_minutes` is
    recorded as a crash.
    """
    deadline = np.inf if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    with only_runner(root):
        known = read(root)
        _check_sizes(wanted, known)
        todo = [spec for spec in wanted if spec.id not in known]
        missing = len(todo)
        todo = _of_one_setting(todo, known.values())
        work = {spec.id: max(1, round(spec.cost)) for spec in wanted}
        done = sum(work[spec.id] for spec in wanted if spec.id in known)
        with progress(sum(work.values()), done, "runs") as advance:
            for record in _results(todo, jobs, deadline, 60 * patience_minutes):
                append(root, record)
                missing -= 1
                advance(work[record.id], record.id)
    return missing


def _results(todo: Iterable[Spec], jobs: int, deadline: float, patience: float) -> Iterator[Run]:
    def one(spec: Spec) -> Run | None:
        return None if time.monotonic() >= deadline else in_a_process(spec, patience)

    with ThreadPoolExecutor(jobs) as pool:
        try:
            for future in as_completed([pool.submit(one, spec) for spec in todo]):
                if (record := future.result()) is not None:
                    yield record
        finally:
            pool.shutdown(wait=True, cancel_futures=True)


def in_a_process(spec: Spec, patience: float) -> Run | None:
    """The run's record, whatever becomes of its process; None if somebody stopped it."""
    command = [sys.executable, "-m", "benchmarks.peers", "--one", spec.id]
    if spec.budget is not None:
        command += ["--budget", str(spec.budget)]
    try:
        done = subprocess.run(
            command,
            cwd=ROOT,
            env=one_thread(),
            capture_output=True,
            text=True,
            timeout=patience,
            check=False,
        )
    except subprocess.TimeoutExpired:
        return _lost(spec, f"no result after {patience / 60:.0f} minutes")
    if done.returncode in _INTERRUPTED:
        return None
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["no message"])[-1]
        return _lost(spec, f"exit code {done.returncode}: {last}"[:300])
    return _parsed(json.loads(done.stdout.splitlines()[-1]))


def _lost(spec: Spec, error: str) -> Run:
    """The record of a run whose process said nothing; the memory of this one is not its own."""
    return replace(_record(spec, [], [], error=error), peak_mb=0.0)


def one_thread() -> dict[str, str]:
    """The environment in which numpy and torch use one thread."""
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    return os.environ | dict.fromkeys(names, "1")


def _check_sizes(wanted: Iterable[Spec], known: dict[str, Run]) -> None:
    for spec in wanted:
        if spec.id in known and known[spec.id].budget != spec.task.budget:
            raise SystemExit(
                f"records: {spec.id} has a budget of {known[spec.id].budget} there,"
                f" {spec.task.budget} here; smoke runs need a folder of their own (--records)"
            )


def _of_one_setting(todo: Iterable[Spec], known: Iterable[Run]) -> list[Spec]:
    """Without the cells that were begun with another setting than today's, which are named."""
    begun = {Spec.of(run.id).cell: run.stamp.get("setting", "") for run in known}
    kept, left = [], {}
    for spec in todo:
        setting = TOOLS[spec.tool].setting
        if begun.get(spec.cell, setting) == setting:
            kept.append(spec)
        else:
            left["/".join(spec.cell)] = begun[spec.cell] or "nothing set"
    for cell, setting in left.items():
        print(f"left as it is: {cell}, run with {setting}; delete its records to make it anew")
    return kept


# -- records ---------------------------------------------------------------------------------------


def append(root: Path, record: Run) -> None:
    spec = Spec.of(record.id)
    path = root / spec.problem / f"{spec.tool}.{spec.start}.jsonl"
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
            found[data["id"]] = _parsed(data)
    return found


def _parsed(data: dict[str, Any]) -> Run:
    return Run(**data | {"steps": tuple(data["steps"])})
