"""The plot: mean cumulative regret by evaluation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.peers.results import Results
from benchmarks.peers.runs import points
from benchmarks.peers.tools import DEFAULT, OURS, PAPER, TOOLS

from noregret.experiments.analyse import region

COLOURS = {
    "noregret": "#0072B2",
    "noregret-paper": "#56B4E9",
    "noregret-eic": "#332288",
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


def draw(results: Results, path: Path, columns: int = 4) -> None:
    """A panel a problem, a line a tool; ours are thick."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    problems = results.problems()
    columns = max(1, min(columns, len(problems)))
    rows = max(1, -(-len(problems) // columns))
    # Not pyplot: it keeps state, and may open a window.
    figure = Figure(figsize=(3.6 * columns, 2.9 * rows + 0.9), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False).ravel()
    lines: dict[str, Any] = {}
    for axis, problem in zip(axes, problems, strict=False):
        lines |= _panel(axis, results, problem)
    for axis in axes[len(problems) :]:
        axis.set_visible(False)
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
