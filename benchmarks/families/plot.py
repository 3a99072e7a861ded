"""The picture: a row a family, a dot a tool, with its standard error."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from benchmarks.families.results import Ratio, Section
from benchmarks.peers.plot import COLOURS, MARKERS

_TICKS = (0.2, 0.5, 1, 2, 5, 10, 20, 50)
_FINE_TICKS = (0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.5)  # where all tools are close


def draw(section: Section, path: Path) -> None:
    """How many times as much as the base each tool lost."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    rows = [row for row in section.rows if section.count(row, section.base)]
    tools = [name for name in section.runs if name != section.base]
    figure = Figure(figsize=(7.6, 0.34 * (len(rows) + 1) + 1.5), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)  # not pyplot: it keeps state, and may open a window
    axis = figure.subplots()
    dots: dict[str, Any] = {}
    for place, name in enumerate(tools):
        found = section.ratios(name, section.base)
        shown = [(rows.index(row), ratio) for row, ratio in found.items() if row in rows]
        if len(found) > 1:
            shown.append((len(rows), Ratio.over([*found.values()])))
        # Side by side, so that error bars can be told apart.
        shift = 0.5 * ((place + 0.5) / len(tools) - 0.5)
        for row, ratio in shown:
            dots[name] = _dot(axis, ratio, row + shift, name)
    axis.axvline(1.0, color=COLOURS["regretless"], linewidth=2.0, zorder=1)
    axis.axhline(len(rows) - 0.5, color="#999999", linewidth=0.8)
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    wanted = _FINE_TICKS if high < 2.0 and low > 0.5 else _TICKS
    ticks = [tick for tick in wanted if low <= tick <= high]
    axis.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_xticks([], minor=True)
    axis.set_xlim(low, high)
    axis.set_xlabel(f"regret of a tool / regret of {section.base} (± standard error)", fontsize=9)
    axis.set_yticks(range(len(rows) + 1), [*rows, "all"], fontsize=9)
    axis.set_ylim(len(rows) + 0.5, -0.5)
    axis.grid(axis="y", color="#EEEEEE")
    axis.set_axisbelow(True)
    axis.spines[["top", "right", "left"]].set_visible(False)
    axis.tick_params(axis="y", length=0)
    if dots:
        figure.legend(
            [*dots.values()],
            [*dots],
            loc="outside lower center",
            ncols=min(4, len(dots)),
            frameon=False,
            fontsize=9,
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Software": ""})


def _dot(axis: Any, ratio: Ratio, height: float, name: str) -> Any:
    plain = name.partition("@")[0]
    error = 0.0 if math.isnan(ratio.error) else ratio.error
    ends = [[ratio.mean * (1 - math.exp(-error))], [ratio.mean * (math.exp(error) - 1)]]
    style = {"color": COLOURS[plain], "marker": MARKERS.get(plain.split("-")[0], "*")}
    drawn = axis.errorbar(
        [ratio.mean], [height], xerr=ends, markersize=5, linestyle="", elinewidth=1.0, **style
    )
    return drawn
