"""Draw docs/images/traffic.png: the table of the service, and the slots of the clients."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from regretless.client import slot_of
from regretless.engine.slots import assign_slots

PICTURE = Path(__file__).parent / "images" / "traffic.png"
COLOURS = {1: "#56B4E9", 2: "#999999", 3: "#E69F00", 4: "#009E73"}
NAMES = {1: "row 1: exploits", 2: "row 2: the baseline", 3: "row 3: explores", 4: "row 4: explores"}
TABLES = [{1: 0.55, 2: 0.2, 3: 0.25}, {1: 0.62, 2: 0.2, 4: 0.18}]
UNITS = ["Sam", "Nora", "Kim", "Hana", "Dan"]
ARROW = {"arrowstyle": "->", "lw": 1.4, "color": "#333333"}


def box(ax: Any, x: float, y: float, width: float, height: float, text: str) -> None:
    style = FancyBboxPatch(
        (x, y), width, height, boxstyle="round,pad=0.6", fc="#F4F4F4", ec="#555555"
    )
    ax.add_patch(style)
    ax.text(x + width / 2, y + height / 2, text, ha="center", va="center", fontsize=10)


def arrow(ax: Any, start: tuple[float, float], end: tuple[float, float], text: str) -> None:
    ax.annotate("", xy=end, xytext=start, arrowprops=ARROW)
    middle = (start[0] + end[0]) / 2, (start[1] + end[1]) / 2
    ax.text(middle[0] + 0.8, middle[1], text, fontsize=9, va="center")


def draw_parts(ax: Any) -> None:
    box(ax, 4, 84, 92, 10, "service: the study, its model and its journal")
    box(ax, 4, 58, 92, 10, "client in each process: the table, and the sums of outcomes")
    arrow(
        ax,
        (16, 83),
        (16, 69.5),
        "a table for ttl seconds, fetched\nin the background, 8 times a ttl",
    )
    arrow(ax, (62, 69.5), (62, 83), "one report every few seconds,\nrepeated until it is on disk")
    arrow(ax, (16, 48), (16, 57), "assign(unit)")
    arrow(ax, (36, 57), (36, 48), "params, trial")
    arrow(ax, (62, 48), (62, 57), "record(assignment, outcome)")
    ax.text(50, 43.5, "requests: no call for each", ha="center", fontsize=10)


def draw_tables(ax: Any) -> None:
    before: dict[int, Any] = {}
    for n, shares in enumerate(TABLES):
        slots, y = assign_slots(shares, before), 24.0 - 15.0 * n
        before = slots
        for row, ranges in slots.items():
            for start, end in ranges:
                place = (4 + 92 * start / 10_000, y)
                ax.add_patch(Rectangle(place, 92 * (end - start) / 10_000, 6, fc=COLOURS[row]))
        ax.text(4, y + 7, f"version {n + 1}: slots 0 to 9,999", fontsize=9)
    for unit in UNITS:
        x = 4 + 92 * slot_of(unit, "shop") / 10_000
        ax.plot([x, x], [7.5, 31.5], color="black", lw=0.8, ls=":")
        ax.text(x, 32, unit, ha="center", fontsize=9)
    for i, (row, name) in enumerate(NAMES.items()):
        ax.add_patch(Rectangle((4 + 24 * i, 1), 3, 3, fc=COLOURS[row]))
        ax.text(8 + 24 * i, 2.5, name, fontsize=9, va="center")


def main() -> None:
    figure = Figure(figsize=(8, 7), layout="constrained")
    ax = figure.add_subplot(xlim=(0, 100), ylim=(0, 97))
    ax.axis("off")
    draw_parts(ax)
    draw_tables(ax)
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
