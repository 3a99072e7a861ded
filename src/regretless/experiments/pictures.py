"""The figures of the results page: cumulative regret of the policies, with its 95 % region."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regretless.errors import MissingExtraError
from regretless.experiments.analyse import Results, region
from regretless.experiments.specs import FIGURES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"eic": "EIC", "ei": "EI", "ei-nguyen": "EI-Nguyen", "gp-ucb": "GP-UCB", "gp-ts": "GP-TS"}
# Blue, orange and green are the colours of the paper.  Colour-blind readers can tell all five.
COLOURS = {
    "eic": "#0072B2",
    "ei": "#E69F00",
    "ei-nguyen": "#D55E00",
    "gp-ucb": "#009E73",
    "gp-ts": "#999999",
}


def draw_all(results: Results, folder: Path) -> list[str]:
    """Draw the figures of which there are results.

    Args:
        results: the results of all runs.
        folder: where to write the pictures.

    Returns:
        The names of the figures; each is written to a file of its name, with the ending .png.

    Raises:
        MissingExtraError: matplotlib is not installed.
    """
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingExtraError("experiments", "matplotlib") from error
    drawn = []
    for name in ("fig1", "fig2", "fig3"):
        figure = FIGURES[name]
        functions = [
            function
            for function in figure.functions
            if any(results.get(function, policy) for policy in figure.policies)
        ]
        if not functions:
            continue
        columns = min(2, len(functions))
        rows = -(-len(functions) // columns)
        # Avoid pyplot, which keeps state and may open a window.
        canvas = Canvas(figsize=(4.8 * columns + 1.2 * (columns == 1), 3.5 * rows), dpi=110)
        FigureCanvasAgg(canvas)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for axis, function in zip(axes, functions, strict=False):
            _draw(axis, results, function, figure.policies)
        for axis in axes[len(functions) :]:
            axis.set_visible(False)
        canvas.tight_layout()
        canvas.savefig(folder / f"{name}.png", metadata={"Software": ""})
        drawn.append(name)
    return drawn


def _draw(axis: Axes, results: Results, function: str, policies: Sequence[str]) -> None:
    counts = set()
    # EI-Nguyen is drawn dashed over EI, because both are nearly equal.  EIC is drawn last.
    for policy in sorted(policies, key=lambda name: (name == "eic", name == "ei-nguyen")):
        cell = results.get(function, policy)
        if cell is None:
            continue
        counts.add(cell.count)
        mean, half = region(cell.curves)
        n = np.arange(1, cell.budget + 1)
        style = "--" if policy == "ei-nguyen" else "-"
        axis.plot(n, mean, style, color=COLOURS[policy], label=LABELS[policy], linewidth=1.4)
        if np.isfinite(half).all():
            axis.fill_between(
                n, mean - half, mean + half, color=COLOURS[policy], alpha=0.18, linewidth=0
            )
        axis.axvline(cell.records[0].design, color="#bbbbbb", linewidth=0.8, linestyle=":")
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    axis.set_title(f"{function} (R = {seeds})", fontsize=10)
    axis.set_xlabel("evaluations", fontsize=9)
    axis.set_ylabel("cumulative regret", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.set_xlim(0)
    axis.set_ylim(0)
    axis.spines[["top", "right"]].set_visible(False)
    lines = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    names = [LABELS[policy] for policy in policies if LABELS[policy] in lines]
    # "best" is said: as a default it makes matplotlib warn on a machine that is slow to find it.
    handles = [lines[name] for name in names]
    axis.legend(handles, names, loc="best", fontsize=8, frameon=False)
