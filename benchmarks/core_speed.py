"""Is the numeric core as fast as it claims?  Every bar in time is a ratio of two times of one run.

Ratios, because machines differ; one thread, because that is what a step of a study gets; CPU time,
and the two sides of a ratio in turns, each by its fastest round, because a busy machine only adds.
Writes docs/results/core_speed.md, and fails if a bar is missed.
"""

# ruff: noqa: E402  (numpy and scipy read the number of threads once, when they are imported)

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import platform
import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from time import process_time

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack

from regretless.defaults import NEWEST
from regretless.experiments.runner import stamp
from regretless.kernels import SE, Kernel, Matern
from regretless.model import GP, Data, Hyper, Model
from regretless.model.evidence import evidence
from regretless.model.fit import fit
from regretless.space import Float

Array = NDArray[np.float64]
Task = Callable[[], object]

ROOT = Path(__file__).resolve().parent.parent
REPORT = ROOT / "docs" / "results" / "core_speed.md"


@dataclass(frozen=True)
class Line:
    what: str
    measured: float
    unit: str  # of `measured`: what it is a multiple of, or the unit itself
    bar: float | None = None  # None: for information
    detail: str = ""

    @property
    def ok(self) -> bool:
        return self.bar is None or self.measured <= self.bar


def fastest(rounds: int, *tasks: Task) -> list[float]:
    """CPU seconds of each task, the best of some rounds in which they take turns."""
    best = [float("inf")] * len(tasks)
    for _ in range(rounds + 1):  # the first one warms up, and is hardly ever the best
        for i, task in enumerate(tasks):
            begun = process_time()
            task()
            best[i] = min(best[i], process_time() - begun)
    return best


def milliseconds(*seconds: float) -> str:
    return " / ".join(f"{1e3 * s:.2f}" for s in seconds) + " ms"


# --- what is measured -----------------------------------------------------------------------------


def evidence_lines() -> list[Line]:
    """One evidence with its gradient against the least that any implementation has to do."""
    out = []
    for n, d in ((264, 6), (636, 4)):
        rng = np.random.default_rng(n)
        x = rng.random((n, d))
        data = Data.of(x, rng.standard_normal(n))
        kernels: list[Kernel] = [SE((0.6,) * d), Matern((0.6,) * d)]
        for kernel in kernels:
            hyper = Hyper(kernel, 0.01, 1.0, 0.25)
            covariance = np.asfortranarray(kernel.gram(x) + 0.01 * np.eye(n))
            exponent, work = -np.abs(rng.standard_normal((n, n))), np.empty((n, n), order="F")

            def floor(c: Array = covariance, e: Array = exponent, w: Array = work) -> None:
                np.copyto(w, c)
                lapack.dpotri(lapack.dpotrf(w, clean=0, overwrite_a=1)[0], overwrite_c=1)
                np.exp(e, out=w)

            def whole(data: Data = data, hyper: Hyper = hyper) -> None:
                evidence(data, hyper)

            mine, least = fastest(40, whole, floor)
            what = f"evidence + gradient, {type(kernel).__name__}, n = {n}, d = {d}"
            unit = "x (potrf + potri + exp)"
            out.append(Line(what, mine / least, unit, 3.0, milliseconds(mine, least)))
    return out


def update_lines(m: int = 1000, d: int = 4, steps: int = 50) -> list[Line]:
    """New points and replicates, averaged over `steps` successive ones from a fresh GP."""
    rng = np.random.default_rng(m)
    x, new = rng.random((m, d)), rng.random((steps, d))
    data = Data.of(x, rng.standard_normal(m))
    hyper = Hyper(Matern((0.6,) * d), 0.01, 1.0, 0.25)
    base = GP.of(data, hyper)
    covariance = np.asfortranarray(hyper.kernel.gram(x) + 0.01 * np.eye(m))
    work = np.empty((m, m), order="F")

    def potrf() -> None:
        np.copyto(work, covariance)
        lapack.dpotrf(work, clean=0, overwrite_a=1)

    def chain(points: Array) -> Task:
        def run() -> None:
            gp = base
            for point in points:
                gp = gp.add(point, 0.3)

        return run

    runs = [chain(new), chain(x[:: m // steps]), chain(np.repeat(x[:1], steps, axis=0))]
    names = ["a new point", "a replicate, each of another point", "a replicate, all of one point"]
    *mine, least, fresh = fastest(8, *runs, potrf, lambda: GP.of(data, hyper))
    out = []
    for name, seconds in zip(names, mine, strict=True):
        each = seconds / steps
        detail = milliseconds(each, least) + f"; {each / fresh:.3f} x a fresh GP"
        out.append(Line(f"{name}, m = {m}", each / least, "x potrf", 1 / 8, detail))
    return out


def replicate_lines(many: int = 10_000, m: int = 100, d: int = 4) -> list[Line]:
    """Many observations on few points against one observation on each."""
    rng = np.random.default_rng(many)
    x, query = rng.random((m, d)), rng.random((512, d))
    rows = np.concatenate([np.arange(m), rng.integers(m, size=many - m)])
    crowd, y = x[rows], rng.standard_normal(many)
    hyper = Hyper(Matern((0.6,) * d), 0.05, 1.0, 0.25)

    def grown() -> GP:
        gp = GP.of(Data.of(x, y[:m]), hyper)
        for point, value in zip(crowd[m:], y[m:].tolist(), strict=True):
            gp = gp.add(point, value)
        return gp

    def used(points: Array, values: Array) -> tuple[GP, float]:
        """The GP, and the most memory that building it and asking it took, in MB."""
        tracemalloc.start()
        gp = GP.of(Data.of(points, values), hyper)
        gp.predict(query)
        peak = tracemalloc.get_traced_memory()[1] / 1e6
        tracemalloc.stop()
        return gp, peak

    few, few_mb = used(x, y[:m])
    lots, lots_mb = used(crowd, y)
    step_by_step = grown()
    tasks = [lambda gp=gp: gp.predict(query) for gp in (few, lots, step_by_step)]
    base, at_once, one_by_one = fastest(150, *tasks)
    what = f"posterior at 512 points, {many} observations on {m}"
    unit = f"x that with {m} observations"
    return [
        Line(what, at_once / base, unit, 1.2, milliseconds(at_once, base)),
        Line(f"{what}, told one by one", one_by_one / base, unit, 1.2, milliseconds(one_by_one)),
        Line(
            f"memory, {many} observations on {m}",
            lots_mb - few_mb,
            f"MB more than with {m}",
            10.0,
            f"{lots_mb:.2f} / {few_mb:.2f} MB at most",
        ),
    ]


def import_lines() -> list[Line]:
    """CPU seconds of `import regretless` beyond numpy's and scipy.linalg's own."""
    code = (
        "import numpy, scipy.linalg; from time import process_time as t; a = t(); "
        "import regretless; print(t() - a)"
    )
    runs = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout)
        for _ in range(7)
    ]
    return [Line("import regretless", min(runs), "s of CPU", 0.25)]


def fit_lines() -> list[Line]:
    """What a whole fit costs, for information."""
    out = []
    for n, d in ((64, 6), (264, 6)):
        rng = np.random.default_rng(n)
        x = rng.random((n, d))
        data = Data.of(x, np.sin(3 * x.sum(axis=1)) + 0.1 * rng.standard_normal(n))
        for name, model in (("default", Model()), ("paper", Model.paper())):
            start = model.start([Float(0.0, 1.0)] * d, NEWEST.fit)
            calls = fit(data, start, model, NEWEST.fit).evaluations
            run = fastest(
                3, lambda data=data, start=start, model=model: fit(data, start, model, NEWEST.fit)
            )
            what = f"fit from scratch, {name} model, n = {n}, d = {d}"
            out.append(Line(what, run[0], "s", None, f"{calls} evaluations"))
    return out


# --- the report -----------------------------------------------------------------------------------


def cpu() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or platform.machine()
    names = [line.split(":", 1)[1].strip() for line in text.splitlines() if "model name" in line]
    return names[0] if names else platform.machine()


def report(lines: list[Line]) -> str:
    blas = np.show_config(mode="dicts")["Build Dependencies"]["blas"]
    facts = [
        str(stamp()),
        f"{blas['name']} {blas['version']}, one thread",
        cpu(),
        f"{datetime.now(UTC):%Y-%m-%d}",
    ]
    rows = ["| what | measured | bar | | in detail |", "|---|---|---|---|---|"]
    for line in lines:
        bar = "" if line.bar is None else f"≤ {line.bar:g}"
        verdict = "" if line.bar is None else "met" if line.ok else "**missed**"
        measured = f"{line.measured:.3f} {line.unit}"
        rows.append(f"| {line.what} | {measured} | {bar} | {verdict} | {line.detail} |")
    return "\n".join(
        [
            "# Speed of the numeric core",
            "",
            "Written by `make bench` (`benchmarks/core_speed.py`), which fails if a bar is",
            "missed. Each ratio compares two CPU times. Both are measured in turns in one run,",
            "and the best of several rounds counts.",
            "",
            *(f"- {fact}" for fact in facts),
            "",
            *rows,
            "",
        ]
    )


def main() -> int:
    parts = (evidence_lines, update_lines, replicate_lines, import_lines, fit_lines)
    lines = [line for part in parts for line in part()]
    text = report(lines)
    print(text)
    REPORT.parent.mkdir(parents=True, exist_ok=True)
    REPORT.write_text(text, encoding="utf-8")
    missed = [line.what for line in lines if not line.ok]
    for what in missed:
        print(f"missed: {what}", file=sys.stderr)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
