"""Draw the packages and their imports: docs/images/architecture.png.

    python docs/draw_architecture.py

The order of the packages comes from tests/layers.py, the arrows from the imports in the sources,
and the words in the boxes from the table on docs/architecture.md.  Only the place of a box within
its layer is chosen here.
"""

from __future__ import annotations

import re
import sys
import textwrap
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.patches import FancyBboxPatch, Rectangle

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from layers import CORE, FILES, LAYERS, LEVEL, imported_room, imports, room  # noqa: E402

PAGE = ROOT / "docs" / "architecture.md"
PICTURE = ROOT / "docs" / "images" / "architecture.png"

FOR_ALL = LAYERS[0]  # whatever anybody may import: no arrows lead there
NOT_DRAWN = {"__init__"}  # it only passes names on

BLUE, ORANGE, INK, PALE = "#0072B2", "#D55E00", "#222222", "#EDEFF2"
COLOURS = ("#FFFFFF", "#E3F0F8", "#FDEFE0")  # at the bottom, of the core, and above it
HEIGHT, GAP = 0.72, 0.36  # of a box, and between two layers
LEFT, RIGHT = -5.0, 5.0


class Box(NamedTuple):
    """The middle and the width of a box, in the horizontal."""

    middle: float
    width: float = 2.4

    @property
    def left(self) -> float:
        return self.middle - self.width / 2

    @property
    def right(self) -> float:
        return self.middle + self.width / 2


BOXES = {
    "errors": Box(-2.5, 4.8),
    "_internal": Box(2.5, 4.8),
    "horizon": Box(-3.7),
    "defaults": Box(0.0),
    "improvement": Box(3.7),
    "kernels": Box(0.0),
    "space": Box(0.5, 8.8),
    "design": Box(-3.7),
    "results": Box(3.85, 2.1),
    "safety": Box(1.65, 2.0),
    "model": Box(0.0, 4.0),
    "theory": Box(0.0, 4.0),
    "policies": Box(0.0, 4.0),
    "search": Box(0.0, 4.0),
    "asktell": Box(3.35, 1.75),
    "engine": Box(0.0, 9.8),
    "ledger": Box(1.9, 5.8),
    "importance": Box(-0.95, 1.6),
    "verdict": Box(2.48, 1.35),
    "forecast": Box(4.05, 1.6),
    "run": Box(0.8, 1.85),
    "plotting": Box(0.55, 3.4),
    "studies": Box(3.7),
    "client": Box(4.1, 1.7),
    "integrations": Box(-4.0, 2.0),
    "experiments": Box(-1.65, 2.3),
    "cli": Box(1.0, 2.1),
    "service": Box(3.25, 1.6),
    "__main__": Box(1.0, 2.1),
}


def purposes() -> dict[str, str]:
    """What each package is for, in the words of the page."""
    rows = re.findall(r"^\| `(\w+)` \| ([^|]+) \|", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    return {name: purpose.replace("`", "") for name, purpose in rows}


def edges() -> set[tuple[str, str]]:
    """Which package imports which, as far as it is drawn."""
    found = set()
    for path in FILES:
        for each in imports(path):
            pair = (room(path), imported_room(each.target))
            if each.is_ours and pair[0] != pair[1] and not NOT_DRAWN.intersection(pair):
                found.add(pair)
    return {(a, b) for a, b in found if b not in FOR_ALL and a not in FOR_ALL}


def reduced(all_edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Without the edges that a longer path leads along."""
    below: dict[str, set[str]] = {}
    for a, b in all_edges:
        below.setdefault(a, set()).add(b)

    def reachable(start: str) -> set[str]:
        found: set[str] = set()
        for each in below.get(start, ()):
            found |= {each} | reachable(each)
        return found

    return {(a, b) for a, b in all_edges if not any(b in reachable(c) for c in below[a] if c != b)}


def height(name: str) -> float:
    """The middle of a box, in the vertical."""
    return LEVEL[name] * (HEIGHT + GAP)


def free_column(a: str, b: str) -> float | None:
    """Where a straight arrow from a down to b meets no other box; None if nowhere."""
    low, high = max(BOXES[a].left, BOXES[b].left), min(BOXES[a].right, BOXES[b].right)
    if low >= high:
        return None
    between = [BOXES[n] for n in BOXES if LEVEL[b] < LEVEL[n] < LEVEL[a]]
    cuts = sorted(
        [low, high] + [x for box in between for x in (box.left, box.right) if low < x < high]
    )
    free = [
        (right - left, (left + right) / 2)
        for left, right in pairwise(cuts)
        if not any(box.left < (left + right) / 2 < box.right for box in between)
    ]
    return max(free)[1] if free else None


def path_of(a: str, b: str, lanes: list[tuple[float, str]]) -> list[tuple[float, float]]:
    """The corners of the arrow from a to b.

    Where other boxes are in the way, it takes a lane beside all boxes: one for each target.
    """
    top, bottom = height(a) - HEIGHT / 2, height(b) + HEIGHT / 2
    if LEVEL[a] == LEVEL[b]:
        to_right = BOXES[b].middle > BOXES[a].middle
        ends = (BOXES[a].right, BOXES[b].left) if to_right else (BOXES[a].left, BOXES[b].right)
        return [(ends[0], height(a)), (ends[1], height(b))]
    column = free_column(a, b)
    if column is not None:
        return [(column, top), (column, bottom)]
    side = 1.0 if BOXES[b].middle > 0.0 else -1.0
    if (side, b) not in lanes:
        lanes.append((side, b))
    lane = side * (RIGHT + 0.2 * (1 + [each for each in lanes if each[0] == side].index((side, b))))
    start = BOXES[a].middle + side * 0.38 * BOXES[a].width
    end = BOXES[b].right if side > 0 else BOXES[b].left
    turn = top - GAP / 3
    return [(start, top), (start, turn), (lane, turn), (lane, height(b)), (end, height(b))]


def draw_arrow(ax: Axes, corners: list[tuple[float, float]]) -> None:
    for (x0, y0), (x1, y1) in pairwise(corners[:-1]):
        ax.plot([x0, x1], [y0, y1], color=BLUE, lw=1.6, solid_capstyle="round", zorder=1)
    style = {"arrowstyle": "-|>", "color": BLUE, "lw": 1.6, "shrinkA": 0, "shrinkB": 0}
    ax.annotate("", corners[-1], corners[-2], arrowprops=style, zorder=1)


def draw_box(ax: Axes, name: str, purpose: str) -> None:
    box, y = BOXES[name], height(name)
    colour = COLOURS[0] if name in FOR_ALL else COLOURS[1] if name in CORE else COLOURS[2]
    patch = FancyBboxPatch(
        (box.left, y - HEIGHT / 2),
        box.width,
        HEIGHT,
        boxstyle="round,pad=0,rounding_size=0.08",
        facecolor=colour,
        edgecolor=INK,
        lw=1.0,
        zorder=2,
    )
    ax.add_patch(patch)
    lines = textwrap.wrap(purpose, int(box.width * 11.2))
    assert len(lines) <= 2, f"{name}: too many words for its box: {purpose}"
    ax.text(
        box.middle, y + 0.19, name, ha="center", va="center", weight="bold", size=11.5, zorder=3
    )
    ax.text(
        box.middle,
        y - 0.13,
        "\n".join(lines),
        ha="center",
        va="center",
        size=8.8,
        linespacing=1.15,
        zorder=3,
    )


def draw_legend(ax: Axes, left: float, top: float) -> None:
    """What an arrow and the colours say, one line each."""
    step, width = 0.24, 0.36
    ends = [(left, top), (left + width, top)]
    draw_arrow(ax, ends)
    lines = [
        "imports",
        "may be imported by every package",
        "core",
        "around the core: may need an extra",
    ]
    for number, text in enumerate(lines):
        y = top - number * step
        ax.text(left + width + 0.12, y, text, ha="left", va="center", size=8.8)
        if number:
            corner = (left, y - 0.08)
            colour = COLOURS[number - 1]
            ax.add_patch(Rectangle(corner, width, 0.16, facecolor=colour, edgecolor=INK, lw=0.8))


def description() -> str:
    """What the picture shows, as text; it is stored in the file, so that a test can compare it."""
    arrows = [f"{a} -> {b}" for a, b in sorted(reduced(edges()))]
    return "\n".join([*(f"{name}: {purposes()[name]}" for name in BOXES), *arrows])


def draw() -> None:
    said = purposes()
    figure, ax = plt.subplots(figsize=(11.5, 17.6))
    core_top = max(map(height, CORE - NOT_DRAWN)) + HEIGHT / 2 + 0.14
    core_bottom = -HEIGHT / 2 - 0.14
    ax.add_patch(
        Rectangle(
            (LEFT - 0.5, core_bottom),
            RIGHT - LEFT + 1.1,
            core_top - core_bottom,
            facecolor=PALE,
            zorder=0,
        )
    )
    labels = (
        (core_bottom + 0.1, "core: numpy and scipy only"),
        (core_top + 0.1, "around the core"),
    )
    for y, text in labels:
        ax.text(
            LEFT - 0.62, y, text, rotation=90, ha="right", va="bottom", size=10, color="#555555"
        )
    lanes: list[tuple[float, str]] = []
    for a, b in sorted(reduced(edges())):
        draw_arrow(ax, path_of(a, b, lanes))
    for name in BOXES:
        draw_box(ax, name, said[name])
    draw_legend(ax, LEFT, height("__main__") + HEIGHT / 2 - 0.05)
    ax.set_xlim(LEFT - 0.95, RIGHT + 0.7)
    ax.set_ylim(core_bottom - 0.05, height("__main__") + HEIGHT / 2 + 0.1)
    ax.axis("off")
    about = {"Software": "", "Description": description()}
    figure.savefig(PICTURE, dpi=110, bbox_inches="tight", metadata=about)
    plt.close(figure)


if __name__ == "__main__":
    draw()
    print(f"wrote {PICTURE.relative_to(ROOT)}")
