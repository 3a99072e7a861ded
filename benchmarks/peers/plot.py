"""The plots: mean cumulative regret by evaluation, and how much more the peers lost."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.problems import TASKS
from benchmarks.peers.results import ENOUGH, Cell, Results
from benchmarks.peers.runs import points
from benchmarks.peers.tools import DEFAULT, OURS, PAPER, TOOLS

from regretless.experiments.analyse import region

COLOURS = {
    "regretless": "#0072B2",
    "regretless-paper": "#56B4E9",
    "regretless-eic": "#332288",
    "optuna-gp": "#E69F00",
    "optuna-tpe": "#B8860B",
    "botorch-logei": "#009E73",
    "botorch-lognei": "#00C896",
    "botorch-ucb": "#005E45",
    "bayes-opt": "#CC79A7",
    "bayes-opt-ucb": "#8E3B6B",
    "skopt": "#D55E00",
    "ax": "#000000",
    "random": "#BBBBBB",
}
MARKERS = {"optuna": "s", "botorch": "o", "bayes": "^", "skopt": "D", "ax": "P", "random": "x"}
_TITLES = {
    "paper": "the paper's six functions and its neural network",
    "confirmation": "problems written down when the default was finished",
}
_OTHERS = "other problems, most of which it was developed on"


def draw(results: Results, path: Path, columns: int = 4) -> None:
    """A panel a problem, a line a tool; ours are thick."""
    problems = results.problems()
    columns = max(1, min(columns, len(problems)))
    rows = max(1, -(-len(problems) // columns))
    figure = _figure(3.6 * columns, 2.9 * rows + 0.9)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    lines: dict[str, Any] = {}
    for axis, problem in zip(axes, problems, strict=False):
        lines |= _panel(axis, results, problem)
    for axis in axes[len(problems) :]:
        axis.set_visible(False)
    _finish(figure, lines, path)


def draw_ratios(results: Results, ours: dict[str, Cell], path: Path) -> None:
    """A row a problem: how many times as much as the default each peer lost."""
    groups: dict[str, list[str]] = defaultdict(list)
    for problem in (p for p in results.problems() if p in ours):
        groups[_TITLES.get(TASKS[problem].group, _OTHERS)].append(problem)
    figure = _figure(7.6, 0.2 * len(ours) + 0.45 * len(groups) + 1.6)
    heights = [len(problems) + 0.5 for problems in groups.values()]
    axes = figure.subplots(len(groups), 1, sharex=True, squeeze=False, height_ratios=heights)
    dots: dict[str, Any] = {}
    for axis, (title, problems) in zip(axes[:, 0], groups.items(), strict=True):
        dots |= _rows(axis, results, ours, problems)
        axis.set_title(title, fontsize=9, loc="left")
    last = axes[-1, 0]
    last.set_xscale("log")
    last.set_xticks([0.5, 1, 2, 5, 10, 20], ["0.5", "1", "2", "5", "10", "20"], minor=False)
    last.set_xticks([], minor=True)
    last.set_xlabel("regret of the peer / regret of regretless (right of 1: regretless lost less)")
    _finish(figure, dots, path)


def _rows(
    axis: Any, results: Results, ours: dict[str, Cell], problems: list[str]
) -> dict[str, Any]:
    dots = {}
    for row, problem in enumerate(problems):
        for tool in (tool for tool in TOOLS if tool not in OURS):
            cell = results.cells.get((problem, tool))
            if cell is not None and len(cell) >= ENOUGH:
                ratio = cell.over("regret").mean / ours[problem].over("regret").mean
                style = {"marker": MARKERS[tool.split("-")[0]], "color": COLOURS[tool]}
                (dots[tool],) = axis.plot(ratio, row, linestyle="", markersize=5, **style)
    axis.axvline(1.0, color=COLOURS[DEFAULT], linewidth=2.2, zorder=1)
    axis.set_yticks(range(len(problems)), problems, fontsize=8)
    axis.set_ylim(len(problems) - 0.4, -0.6)
    axis.grid(axis="y", color="#EEEEEE")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    return dots


def _figure(width: float, height: float) -> Any:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    # Not pyplot: it keeps state, and may open a window.
    figure = Figure(figsize=(width, height), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def _finish(figure: Any, lines: dict[str, Any], path: Path) -> None:
    names = [tool for tool in TOOLS if tool in lines]
    figure.legend(
        [lines[name] for name in names],
        names,
        loc="outside lower center",
        ncols=min(6, len(names)),
        frameon=False,
        fontsize=9,
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": ""})


def _panel(axis: Any, results: Results, problem: str) -> dict[str, Any]:
    lines, tops = {}, []
    n = points(results.budget(problem))
    for tool in TOOLS:
        cell = results.cells.get((problem, tool))
        if cell is None:
            continue
        mean, half = region(np.array([run.curve for run in cell.runs.values()]))
        ours = tool in OURS
        style: dict[str, Any] = {"color": COLOURS[tool], "linewidth": 2.2 if ours else 1.1}
        style |= {"linestyle": "--" if tool == PAPER else "-", "zorder": 3 if ours else 2}
        (lines[tool],) = axis.plot(n, mean, **style)
        if tool == DEFAULT and np.isfinite(half).all():
            axis.fill_between(n, mean - half, mean + half, color=COLOURS[tool], alpha=0.2, lw=0)
        if tool != "random":
            tops.append(mean[-1])
    # Random search loses so much that it would press all others to the bottom.
    axis.set_ylim(0, 1.08 * max(tops) if tops else None)
    axis.set_xlim(0, n[-1])
    axis.set_title(problem, fontsize=10)
    axis.tick_params(labelsize=8)
    axis.spines[["top", "right"]].set_visible(False)
    axis.set_xlabel("evaluations", fontsize=8)
    axis.set_ylabel("cumulative regret", fontsize=8)
    return lines
