"""CPU time of an ask and a tell, against Optuna's GPSampler in the same run, on one thread.

    python benchmarks/ask_speed.py    # with Optuna: pip install torch==2.13.0 optuna greenlet

Writes docs/results/ask_speed.md and its plot; without Optuna, only our own part, and says so.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple, TypeVar

import numpy as np

import regretless as rl
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.runner import stamp

PAGE = Path(__file__).parents[1] / "docs" / "results" / "ask_speed.md"
PLOT = PAGE.with_suffix(".png")
FIRST, LAST = 64, 264
BAR = 0.1
DIMENSIONS, POINTS, STEPS = (1, 2, 6, 20), (10, 20, 50, 100, 200, 400, 800), 10

Growth = dict[int, list[tuple[float, float]]]
T = TypeVar("T")


def step_ms(optimizer: rl.Optimizer, first: int = FIRST) -> float:
    """Milliseconds of CPU an ask and a tell take, averaged from evaluation `first` to the last."""
    problem, rng, spent = PROBLEMS["hartmann-6"], np.random.default_rng(0), 0.0
    while optimizer.remaining:
        start = time.process_time()
        trial = optimizer.ask()
        asked = time.process_time()
        value = problem.evaluate(trial.params, rng)
        told = time.process_time()
        optimizer.tell(trial, value)
        if trial.number >= first:
            spent += asked - start + time.process_time() - told
    return 1e3 * spent / (optimizer.budget - first)


def policies() -> dict[str, float]:
    space, problem = PROBLEMS["hartmann-6"].space(), PROBLEMS["hartmann-6"]
    grid = {"design": "grid", "n0": problem.n0, "model": rl.Model.paper()}
    runs = {"default": rl.Optimizer(space, LAST)}
    for name in ("eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts"):
        runs[f"paper's setting, {name}"] = rl.Optimizer(space, LAST, policy=name, **grid)
    return {name: step_ms(optimizer) for name, optimizer in runs.items()}


class Replicates(NamedTuple):
    """Steps at 1000 results on 50 points, and over the 1000 steps after them."""

    ms: float  # of a step there
    later_ms: float  # of one of the 1000 later steps
    points: int  # that these end with
    megabytes: float  # that the process grew by meanwhile


def replicates() -> Replicates:
    rng = np.random.default_rng(1)

    def measured(x: float, y: float) -> float:
        return -((x - 0.3) ** 2) - (y - 0.7) ** 2 + 0.1 * float(rng.standard_normal())

    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1)}), 4000, n0=1)
    points = rng.random((50, 2)).tolist()
    for k in range(1000):
        x, y = points[k % 50]
        optimizer.observe({"x": x, "y": y}, measured(x, y))
    for _ in range(5):  # the first one fits
        trial = optimizer.ask()
        optimizer.tell(trial, measured(trial.params["x"], trial.params["y"]))
    start = time.process_time()
    for _ in range(50):  # nothing is told: each is the same step
        event = optimizer.propose()
    assert event.decision.reason != "design"
    assert event.fit is None
    ms = 1e3 * (time.process_time() - start) / 50
    before = _megabytes()
    start = time.process_time()
    for _ in range(1000):
        trial = optimizer.ask()
        optimizer.tell(trial, measured(trial.params["x"], trial.params["y"]))
    later_ms = 1e3 * (time.process_time() - start) / 1000
    grown = _megabytes() - before
    distinct = len({str(row.params) for row in optimizer.history()})
    return Replicates(ms, later_ms, distinct, grown)


def _megabytes() -> float:
    """What this process holds now, and not the most that it ever held."""
    return int(Path("/proc/self/status").read_text().split("VmRSS:")[1].split()[0]) / 1024


def in_a_process_of_its_own(work: Callable[[], T]) -> T:
    """Where nothing that was done before has left room to grow into."""
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work).result()


def growth() -> Growth:
    """By dimension and number of distinct points: a step without and one with a fit, in ms."""
    return {dim: [_at(dim, count) for count in POINTS] for dim in DIMENSIONS}


def _at(dim: int, count: int) -> tuple[float, float]:
    rng = np.random.default_rng([dim, count])
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})

    def measured(x: np.ndarray) -> float:
        return float(np.sin(3 * x + np.arange(dim)).mean() + 0.1 * rng.standard_normal())

    optimizer = rl.Optimizer(space, 4 * count, model=rl.Model(growth=1.0))
    for x in rng.random((count, dim)):
        optimizer.observe(dict(zip(space.names, x.tolist(), strict=True)), measured(x))
    plain, fitting = [], []
    for _ in range(STEPS):
        start = time.process_time()
        trial = optimizer.ask()
        optimizer.tell(trial, measured(np.array(list(trial.params.values()))))
        assert trial.decision is not None
        spent = 1e3 * (time.process_time() - start)
        (fitting if trial.decision.refitted else plain).append(spent)
    return float(np.median(plain or fitting)), float(np.median(fitting))


def draw(grown: Growth) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.6), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    titles = ("a step, as most are", "a step that fits the model again")
    for which, (axis, title) in enumerate(zip(panels, titles, strict=True)):
        for dim, steps in grown.items():
            label = f"{dim} parameter{'s' if dim > 1 else ''}"
            axis.plot(POINTS, [each[which] for each in steps], "o-", markersize=4, label=label)
        axis.set(xscale="log", yscale="log", title=title, xlabel="distinct points so far")
        axis.set_xticks(POINTS, [str(count) for count in POINTS])
        axis.minorticks_off()
        axis.grid(alpha=0.3)
    panels[0].set_ylabel("CPU milliseconds of an ask and a tell")
    panels[0].legend(frameon=False)
    figure.savefig(PLOT, metadata={"Software": ""})


def optuna_ms() -> tuple[float, str] | None:
    try:
        import optuna
        import torch
    except ImportError:
        return None
    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    warnings.simplefilter("ignore")
    problem, rng = PROBLEMS["hartmann-6"], np.random.default_rng(0)
    sampler = optuna.samplers.GPSampler(seed=0, n_startup_trials=FIRST)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    spaces = {n: optuna.distributions.FloatDistribution(0.0, 1.0) for n in problem.names}
    spent = 0.0
    for number in range(LAST):
        start = time.process_time()
        trial = study.ask(spaces)
        asked = time.process_time()
        value = problem.evaluate(trial.params, rng)
        told = time.process_time()
        study.tell(trial, value)
        if number >= FIRST:
            spent += asked - start + time.process_time() - told
    batched = f"greenlet {version('greenlet')}" if find_spec("greenlet") else "no greenlet"
    names = f"Optuna {optuna.__version__}, torch {torch.__version__}, {batched}"
    return 1e3 * spent / (LAST - FIRST), names


def main() -> None:
    ours, again, peer = policies(), in_a_process_of_its_own(replicates), optuna_ms()
    by_size = growth()
    draw(by_size)
    rows = [f"| regretless, {name} | {ms:.1f} | {_ratio(ms, peer)} |" for name, ms in ours.items()]
    if peer:
        rows.append(f"| Optuna's GPSampler | {peer[0]:.1f} | 1 |")
    lines = [
        "# Time of a suggestion",
        "",
        "Written by `benchmarks/ask_speed.py`. The table shows the CPU milliseconds of an ask",
        f"and a tell, averaged over the trials {FIRST} to {LAST} on Hartmann-6. All figures are",
        "from one run on one thread, with the seed 0. The bar is a tenth of the time of",
        "Optuna's GPSampler.",
        "",
        "| | ms | against GPSampler |",
        "|---|---|---|",
        *rows,
        "",
        f"At 1000 results on 50 distinct points in 2-d: {again.ms:.1f} ms a step (bar 10). Over",
        f"the next 1000 steps, up to {again.points} points, with their fits {again.later_ms:.1f}",
        f"ms; the process grew by {again.megabytes:.1f} MB meanwhile (bar 20 over 2000).",
        "",
        "## Growth with the number of points and of parameters",
        "",
        "The default, but with `Model(growth=1.0)` so that few steps fit, on distinct points drawn",
        f"at random, one thread; medians of the first {STEPS} steps after them. A repeated",
        "point costs nothing: it is one row of the model.",
        "Up to about 20 points each of these steps fitted, up to 60 in a run; later few do.",
        "",
        "![CPU time of a step by distinct points and parameters](ask_speed.png)",
        "",
        "| CPU ms, without / with a fit | " + " | ".join(f"n = {n}" for n in POINTS) + " |",
        "|---|" + "---|" * len(POINTS),
        *(_growth_row(dim, steps) for dim, steps in by_size.items()),
        "",
        f"{stamp()}, {date.today()}; "
        + (peer[1] if peer else "Optuna is not installed (pip install torch==2.13.0 optuna)."),
    ]
    PAGE.write_text("\n".join(lines) + "\n")
    print("\n".join(lines))
    if peer and ours["default"] > BAR * peer[0]:
        raise SystemExit(f"missed: {ours['default']:.1f} ms is over a tenth of {peer[0]:.1f} ms")


def _growth_row(dim: int, steps: list[tuple[float, float]]) -> str:
    return f"| d = {dim} | " + " | ".join(f"{a:.1f} / {b:.0f}" for a, b in steps) + " |"


def _ratio(ms: float, peer: tuple[float, str] | None) -> str:
    return f"1/{peer[0] / ms:.1f}" if peer else ""


if __name__ == "__main__":
    main()
