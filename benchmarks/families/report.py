"""The page: how much each tool loses, per family, against ours.

The unit of evidence is the geometric mean over instances of the ratio of two regrets, with its
standard error. Every instance counts once, and both tools meet the same noise.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from benchmarks.families.runs import Run, Spec, read
from benchmarks.families.table import CHOOSE, FAMILIES, KEEP
from benchmarks.families.tools import is_ours

SMALLEST = 0.05
"""Regrets below this share of a spread count as it: a ratio to nothing says nothing."""


@dataclass(frozen=True)
class Ratio:
    """The geometric mean of ratios, and its standard error in per cent."""

    mean: float
    error: float
    count: int

    @classmethod
    def of(cls, logs: Sequence[float]) -> Ratio:
        spread = np.std(logs, ddof=1) / np.sqrt(len(logs)) if len(logs) > 1 else np.nan
        return cls(float(np.exp(np.mean(logs))), float(spread), len(logs))

    def __str__(self) -> str:
        return (
            f"{self.mean:.2f} ± {self.mean * self.error:.2f}"
            if self.count > 1
            else f"{self.mean:.2f}"
        )


def by_cell(records: Iterable[Run]) -> dict[tuple[str, str], dict[int, Run]]:
    """Runs by family and tool, then by seed; crashes are left out."""
    cells: dict[tuple[str, str], dict[int, Run]] = {}
    for record in records:
        spec = Spec.of(record.id)
        if record.error is None:
            cells.setdefault((spec.family, spec.tool), {})[spec.seed] = record
    return cells


def logs(mine: dict[int, Run], theirs: dict[int, Run], what: str = "regret") -> dict[int, float]:
    """log(theirs / mine) on every seed that both have."""
    return {
        seed: float(
            np.log(max(getattr(theirs[seed], what), SMALLEST))
            - np.log(max(getattr(mine[seed], what), SMALLEST))
        )
        for seed in sorted(mine.keys() & theirs.keys())
    }


def write(root: Path, page: Path) -> None:
    cells = by_cell(read(root).values())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text(text(cells))


def text(cells: dict[tuple[str, str], dict[int, Run]]) -> str:
    tools = list(dict.fromkeys(tool for _, tool in sorted(cells)))
    parts = ["# Families of problems\n"]
    for title, names in (("choose", CHOOSE), ("keep", KEEP)):
        here = [name for name in FAMILIES if name in names]
        ours = next(
            (t for t in reversed(tools) if is_ours(t) and any((f, t) in cells for f in here)), None
        )
        base = ours or "optuna-tpe"
        rows = []
        for family in here:
            mine = cells.get((family, base), {})
            row = [family]
            for tool in tools:
                found = list(logs(mine, cells.get((family, tool), {})).values())
                row.append(str(Ratio.of(found)) if found else "–")
            rows.append(row)
        parts.append(f"## {title}: regret of each tool / of {base}\n")
        parts.append(_table(["", *tools], rows) + "\n")
    return "\n".join(parts)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
