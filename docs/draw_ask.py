"""Draw the way of an ask through the packages: docs/images/ask.png.

    python docs/draw_ask.py

The numbers are those of the two lists under "The way of an ask" on docs/architecture.md.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from draw_architecture import COLOURS, INK, PALE, draw_arrow
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

PICTURE = Path(__file__).parent / "images" / "ask.png"
HEIGHT, STEP = 0.74, 1.0  # of a box, and from one row to the next


class Box(NamedTuple):
    """One step: its row from the top, its title, what happens, and the file that does it."""

    row: float
    title: str
    what: str
    file: str = ""


LEFT, LEFT_WIDTH = -3.1, 4.5  # the middle and the width of the boxes of a study
RIGHT, RIGHT_WIDTH = 2.9, 5.0  # of an optimiser

STUDY = [
    Box(0, "study.ask()", "you, the command line or the service"),
    Box(1, "0 Stock", "was a trial prepared, and is it still good?", "studies/stock.py"),
    Box(2, "1 Turn", "wait until nobody else works on this study", "studies/journal.py"),
    Box(3, "2 Copy", "read what others wrote, copy the state", "studies/state.py"),
    Box(4, "3 Propose", "no lock is held: results can be told meanwhile", "studies/asking.py"),
    Box(13, "4 Append", "lock the study, store the event, commit", "studies/journal.py"),
    Box(14, "5 Fold", "apply the event: the trial is pending", "studies/state.py"),
    Box(15, "Trial", "its number, its parameters and its decision"),
]
OPTIMIZER = [
    Box(4, "1 Generator", "from the seed and the number of the trial", "engine/optimizer.py"),
    Box(5, "2 Start", "is the start over?", "design/plan.py"),
    Box(6, "3 Fit", "fit the model if that is due", "model/belief.py"),
    Box(7, "4 Situation", "gather all that the decision depends on", "engine/situation.py"),
    Box(8, "5 Input", "count pending trials as if they were told", "policies/base.py"),
    Box(9, "6 Score", "the policy says what a point is worth", "policies/scores.py"),
    Box(10, "7 Search", "find the best point that the limits allow", "search/best_point.py"),
    Box(
        11,
        "8 Same point",
        "take a tried point if the model can't tell the two apart",
        "search/merge.py",
    ),
    Box(12, "9 Decision", "say why, in your units", "results.py"),
    Box(13, "10 Event", "Asked: number, parameters, decision, fit", "engine/events.py"),
]
NOTE = (
    "Without a study there is the right side only:\n"
    "Optimizer.ask proposes,\n"
    "and applies the event in memory (11)."
)


def height(row: float) -> float:
    return -row * STEP


def draw_box(ax: Axes, box: Box, middle: float, width: float, colour: str) -> None:
    y = height(box.row)
    corner = (middle - width / 2, y - HEIGHT / 2)
    style = "round,pad=0,rounding_size=0.08"
    look = {"facecolor": colour, "edgecolor": INK, "lw": 1.0, "zorder": 2}
    ax.add_patch(FancyBboxPatch(corner, width, HEIGHT, boxstyle=style, **look))
    left = middle - width / 2 + 0.15
    ax.text(left, y + 0.16, box.title, va="center", weight="bold", size=11, zorder=3)
    ax.text(left, y - 0.17, box.what, va="center", size=9, zorder=3)
    right = middle + width / 2 - 0.15
    ax.text(right, y + 0.16, box.file, va="center", ha="right", size=8, color="#555555", zorder=3)


def draw_column(ax: Axes, boxes: list[Box], middle: float, width: float, colour: str) -> None:
    """The boxes, and an arrow from each to the one in the next row."""
    for box in boxes:
        draw_box(ax, box, middle, width, colour if box.file else "#FFFFFF")
        if any(other.row == box.row + 1 for other in boxes):
            top, bottom = height(box.row) - HEIGHT / 2, height(box.row + 1) + HEIGHT / 2
            draw_arrow(ax, [(middle, top), (middle, bottom)])


def draw_detours(ax: Axes) -> None:
    """The arrows that lead from one column to the other, skip steps, or go back."""
    into, out = LEFT + LEFT_WIDTH / 2, RIGHT - RIGHT_WIDTH / 2
    draw_arrow(ax, [(into, height(4)), (out, height(4))])
    draw_arrow(ax, [(out, height(13)), (into, height(13))])
    outer = LEFT - LEFT_WIDTH / 2
    skip, back = outer - 0.5, outer + 1.2
    draw_arrow(ax, [(outer, height(1)), (skip, height(1)), (skip, height(13)), (outer, height(13))])
    ax.text(skip + 0.12, height(1) - 0.24, "yes", size=9)
    ax.text(LEFT + 0.12, height(1.5), "no", va="center", size=9)
    top = height(13) + HEIGHT / 2
    lane = outer - 0.22
    draw_arrow(
        ax,
        [(back, top), (back, top + 0.5), (lane, top + 0.5), (lane, height(3)), (outer, height(3))],
    )
    ax.text(back + 0.12, top + 0.25, "another ask came first: again from 2", va="center", size=9)
    edge, far = RIGHT + RIGHT_WIDTH / 2, RIGHT + RIGHT_WIDTH / 2 + 0.35
    draw_arrow(ax, [(edge, height(5)), (far, height(5)), (far, height(13)), (edge, height(13))])
    ax.text(far + 0.1, height(9), "no: a point of the start", rotation=90, va="center", size=9)
    ax.text(RIGHT + 0.12, height(5.5), "yes", va="center", size=9)


def draw() -> None:
    figure, ax = plt.subplots(figsize=(11.5, 13.6))
    areas = [
        (LEFT - LEFT_WIDTH / 2 - 0.75, LEFT_WIDTH + 1.0, -0.85, 15.6, "#FFF8F0", "Study.ask"),
        (RIGHT - RIGHT_WIDTH / 2 - 0.25, RIGHT_WIDTH + 1.1, 3.15, 13.6, PALE, "Optimizer.propose"),
    ]
    for left, width, first, last, colour, title in areas:
        top, bottom = height(first), height(last)
        ax.add_patch(Rectangle((left, bottom), width, top - bottom, facecolor=colour, zorder=0))
        ax.text(left + 0.15, top - 0.1, title, va="top", weight="bold", size=12, color="#555555")
    draw_column(ax, STUDY, LEFT, LEFT_WIDTH, COLOURS[2])
    draw_column(ax, OPTIMIZER, RIGHT, RIGHT_WIDTH, COLOURS[1])
    draw_detours(ax)
    ax.text(LEFT, height(8), NOTE, ha="center", va="center", size=9.5, linespacing=1.5)
    ax.set_xlim(LEFT - LEFT_WIDTH / 2 - 0.8, RIGHT + RIGHT_WIDTH / 2 + 0.9)
    ax.set_ylim(height(15.65), 0.9)
    ax.axis("off")
    about = {"Software": "", "Description": description()}
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight", metadata=about)
    plt.close(figure)


def description() -> str:
    """What the picture shows, as text; it is stored in the file, so that a test can compare it."""
    boxes = [f"{box.title}: {box.what} {box.file}".strip() for box in [*STUDY, *OPTIMIZER]]
    return "\n".join([*boxes, NOTE])


if __name__ == "__main__":
    draw()
    print(f"wrote {PICTURE.relative_to(PICTURE.parents[2])}")
