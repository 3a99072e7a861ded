"""CPU time of an ask and a tell, against Optuna's GPSampler in the same run, on one thread.

    python benchmarks/ask_speed.py    # with Optuna: pip install torch==2.13.0 optuna greenlet
    python benchmarks/ask_speed.py --defaults 5    # of a version of the defaults

Writes docs/results/ask_speed.md and its plot; without Optuna, only our own part, and says so.  It
takes about 15 minutes.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import time
import warnings
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from datetime import date
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from multiprocessing import get_context
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np

import regretless as rl
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.runner import stamp

PAGE = Path(__file__).parents[1] / "docs" / "results" / "ask_speed.md"
PLOT = PAGE.with_suffix(".png")
FIRST, LAST = 64, 264
BAR = 0.1  # of the time of Optuna's GPSampler
DIMENSIONS, POINTS, STEPS = (1, 2, 6, 20), (10, 20, 50, 100, 200, 400, 800), 10

# The bars of a step with its fits, in ms, by the number of distinct points (6 parameters).
STEP_BARS = {100: 8.0, 1000: 40.0, 3000: 150.0}
RUN_BAR = 12.0  # of a step of the whole run on Hartmann-6
WORST_BAR = 10.0  # the longest step with 200 points or more, in average steps
AT_ONCE, BATCH, PENDING = 300, 64, 200  # points, trials that are asked for at once, pending trials
BATCH_BAR, PENDING_BAR = 1.5, 3.0  # in s, and in asks without pending trials

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


def policies(defaults: int | None) -> dict[str, float]:
    space, problem = PROBLEMS["hartmann-6"].space(), PROBLEMS["hartmann-6"]
    grid = {"design": "grid", "n0": problem.n0, "model": rl.Model.paper()}
    runs = {"default": rl.Optimizer(space, LAST, defaults=defaults)}
    for name in ("eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts"):
        setting = rl.Optimizer(space, LAST, policy=name, defaults=defaults, **grid)
        runs[f"paper's setting, {name}"] = setting
    return {name: step_ms(optimizer) for name, optimizer in runs.items()}


class Run:
    """A run in 6 dimensions whose points so far are drawn at random."""

    def __init__(self, count: int, defaults: int | None, dim: int = 6, **model: float) -> None:
        self._rng, self._dim = np.random.default_rng([dim, count]), dim
        self.space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
        self.optimizer = rl.Optimizer(
            self.space, 4 * count, model=rl.Model(**model), defaults=defaults
        )
        for params in self.points(count):
            self.optimizer.observe(params, self.measured(params))

    def points(self, count: int) -> list[dict[str, float]]:
        drawn = self._rng.random((count, self._dim)).tolist()
        return [dict(zip(self.space.names, x, strict=True)) for x in drawn]

    def measured(self, params: Mapping[str, Any]) -> float:
        x = np.array(list(params.values()))
        noise = 0.1 * self._rng.standard_normal()
        return float(np.sin(3 * x + np.arange(self._dim)).mean() + noise)

    def step(self) -> tuple[float, bool]:
        """The CPU milliseconds of an ask and a tell, and whether it fitted the model."""
        start = time.process_time()
        trial = self.optimizer.ask()
        asked = time.process_time()
        value = self.measured(trial.params)
        told = time.process_time()
        self.optimizer.tell(trial, value)
        assert trial.decision is not None
        spent = asked - start + time.process_time() - told
        return 1e3 * spent, trial.decision.refitted


class Steps(NamedTuple):
    """The steps in which the data grow by a tenth, so that the model is fitted about once."""

    first_s: float  # of the first one, which fits the model to all points at once
    ms: float  # on average
    longest_ms: float
    bar_ms: float

    @classmethod
    def at(cls, count: int, defaults: int | None) -> Steps:
        run = Run(count, defaults)
        first = run.step()[0] / 1e3
        each = [run.step()[0] for _ in range(count // 10)]
        return cls(first, float(np.mean(each)), max(each), STEP_BARS[count])


class Pending(NamedTuple):
    """Asks beside pending trials."""

    batch_s: float  # of an ask for many trials
    alone_ms: float  # of an ask without pending trials
    ms: float  # of an ask with many

    @classmethod
    def at(cls, defaults: int | None) -> Pending:
        run = Run(AT_ONCE, defaults)
        for _ in range(3):
            run.step()
        run.optimizer.best()  # knows the last result, so that no ask below has to learn it
        copy = run.optimizer.copy()
        start = time.process_time()
        copy.ask(BATCH)
        batch = time.process_time() - start
        busy = run.optimizer.copy()
        for params in run.points(PENDING):
            busy.adopt(params)
        return cls(batch, _ask_ms(run.optimizer), _ask_ms(busy))


def _ask_ms(optimizer: rl.Optimizer) -> float:
    spent = []
    for _ in range(STEPS):
        copy = optimizer.copy()
        start = time.process_time()
        copy.propose()
        spent.append(1e3 * (time.process_time() - start))
    return float(np.median(spent))


class Replicates(NamedTuple):
    """Steps at 1000 results on 50 points, and over the 1000 steps after them."""

    ms: float  # of a step there
    later_ms: float  # of one of the 1000 later steps
    points: int  # that these end with
    megabytes: float  # that the process grew by meanwhile


def replicates(defaults: int | None) -> Replicates:
    rng = np.random.default_rng(1)

    def measured(x: float, y: float) -> float:
        return -((x - 0.3) ** 2) - (y - 0.7) ** 2 + 0.1 * float(rng.standard_normal())

    space = rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1)})
    optimizer = rl.Optimizer(space, 4000, n0=1, defaults=defaults)
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


def growth(defaults: int | None) -> Growth:
    """By dimension and number of distinct points: a step without and one with a fit, in ms."""
    return {dim: [_at(dim, count, defaults) for count in POINTS] for dim in DIMENSIONS}


def _at(dim: int, count: int, defaults: int | None) -> tuple[float, float]:
    run, plain, fitting = Run(count, defaults, dim, growth=1.0), [], []
    for _ in range(STEPS):
        ms, refitted = run.step()
        (fitting if refitted else plain).append(ms)
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
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--defaults", type=int, help="a version of the defaults (the newest)")
    defaults = parser.parse_args().defaults
    ours = policies(defaults)
    again, peer = in_a_process_of_its_own(partial(replicates, defaults)), optuna_ms()
    steps = {count: Steps.at(count, defaults) for count in STEP_BARS}
    pending, by_size = Pending.at(defaults), growth(defaults)
    draw(by_size)
    rows = [f"| regretless, {name} | {ms:.1f} | {_ratio(ms, peer)} |" for name, ms in ours.items()]
    if peer:
        rows.append(f"| Optuna's GPSampler | {peer[0]:.1f} | 1 |")
    missed = _missed(ours["default"], peer, steps, pending)
    lines = [
        "# Time of a suggestion",
        "",
        "Written by `benchmarks/ask_speed.py`. The table shows the CPU milliseconds of an ask",
        f"and a tell, averaged over the trials {FIRST} to {LAST} on Hartmann-6. All figures are",
        "from one run on one thread, with the seed 0. The bar is a tenth of the time of",
        f"Optuna's GPSampler, and {RUN_BAR:g} ms.",
        *([] if defaults is None else [f"All runs have version {defaults} of the defaults."]),
        "",
        "| | ms | against GPSampler |",
        "|---|---|---|",
        *rows,
        "",
        f"At 1000 results on 50 distinct points in 2-d: {again.ms:.1f} ms a step (bar 10). Over",
        f"the next 1000 steps, up to {again.points} points, with their fits {again.later_ms:.1f}",
        f"ms; the process grew by {again.megabytes:.1f} MB meanwhile (bar 20 over 2000).",
        "",
        "## Many points",
        "",
        "Steps with 6 parameters after so many distinct points drawn at random, until the data",
        "have grown by a tenth. The model is fitted about once in so many steps, and its time is",
        "in the average. The first suggestion fits the model to all points at once.",
        "",
        "| distinct points | first suggestion, s | average step, ms | bar | longest step, ms |",
        "|---|---|---|---|---|",
        *(
            f"| {n} | {at.first_s:.2f} | {at.ms:.1f} | {at.bar_ms:g} | {at.longest_ms:.0f} |"
            for n, at in steps.items()
        ),
        "",
        "## Many pending trials",
        "",
        f"With {AT_ONCE} distinct points, 6 parameters: `ask({BATCH})` takes",
        f"{pending.batch_s:.2f} s (bar {BATCH_BAR:g}). An ask takes {pending.alone_ms:.1f} ms, and",
        f"{pending.ms:.1f} ms with {PENDING} pending trials at points of their own, which is",
        f"{pending.ms / pending.alone_ms:.1f} times as long (bar {PENDING_BAR:g}).",
        "",
        f"**Bars that were missed**: {'; '.join(missed) or 'none'}.",
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
    if missed:
        raise SystemExit("missed: " + "; ".join(missed))


def _missed(
    run_ms: float, peer: tuple[float, str] | None, steps: dict[int, Steps], pending: Pending
) -> list[str]:
    """The bars that were missed, with what was measured."""
    found = []
    if peer and run_ms > BAR * peer[0]:
        found.append(f"{run_ms:.1f} ms on Hartmann-6 is over a tenth of {peer[0]:.1f} ms")
    if run_ms > RUN_BAR:
        found.append(f"{run_ms:.1f} ms on Hartmann-6")
    for count, at in steps.items():
        if at.ms > at.bar_ms:
            found.append(f"{at.ms:.1f} ms a step at {count} points")
        if count >= 200 and at.longest_ms > WORST_BAR * at.ms:
            found.append(f"a step of {at.longest_ms:.0f} ms at {count} points")
    if pending.batch_s > BATCH_BAR:
        found.append(f"{pending.batch_s:.2f} s for `ask({BATCH})`")
    if pending.ms > PENDING_BAR * pending.alone_ms:
        found.append(f"{pending.ms / pending.alone_ms:.1f} times as long with {PENDING} pending")
    return found


def _growth_row(dim: int, steps: list[tuple[float, float]]) -> str:
    return f"| d = {dim} | " + " | ".join(f"{a:.1f} / {b:.0f}" for a, b in steps) + " |"


def _ratio(ms: float, peer: tuple[float, str] | None) -> str:
    return f"1/{peer[0] / ms:.1f}" if peer else ""


if __name__ == "__main__":
    main()
