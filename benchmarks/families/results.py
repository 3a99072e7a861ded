"""Ratios of regrets, from the records: the numbers of the page and of the picture.

The unit of evidence is an instance: the logarithm of the ratio of two tools' regrets on it. Both
meet the same noise there. A row of a table is a family, or a group of problems. Its number is the
geometric mean over instances, with the standard error of that.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from benchmarks.families.runs import Run
from benchmarks.families.tools import is_ours
from benchmarks.peers.tools import TOOLS

SMALLEST = 0.05
"""A smaller regret counts as this, in spreads: a ratio to almost nothing says nothing."""
FALLBACK = "optuna-tpe"
"""What others are compared with where no tool of ours has run."""

Key = tuple[str, int]


@dataclass(frozen=True)
class Ratio:
    """A geometric mean, and the standard error of its logarithm."""

    mean: float
    error: float
    count: int

    @classmethod
    def of(cls, logs: Sequence[float]) -> Ratio:
        error = np.std(logs, ddof=1) / len(logs) ** 0.5 if len(logs) > 1 else math.nan
        return cls(math.exp(np.mean(logs)), float(error), len(logs))

    @classmethod
    def over(cls, ratios: Sequence[Ratio]) -> Ratio:
        """All rows count alike; the instances of a row that has one vary as those of others do."""
        logs = [math.log(ratio.mean) for ratio in ratios]
        known = [r.error**2 * r.count for r in ratios if not math.isnan(r.error)]
        usual = float(np.mean(known)) if known else math.nan
        variances = [usual / r.count if math.isnan(r.error) else r.error**2 for r in ratios]
        error = math.sqrt(sum(variances)) / len(ratios)
        return cls(math.exp(np.mean(logs)), error, sum(ratio.count for ratio in ratios))

    @property
    def inverse(self) -> Ratio:
        return Ratio(1 / self.mean, self.error, self.count)

    @property
    def is_clear(self) -> bool:
        """Whether it is two standard errors from 1."""
        return abs(math.log(self.mean)) > 2 * self.error

    def __str__(self) -> str:
        if math.isnan(self.error):
            return f"{self.mean:.2f}"
        return f"{self.mean:.2f} ± {self.mean * self.error:.2f}"


@dataclass(frozen=True)
class Section:
    """Records of some rows, each of which is a list of problems."""

    rows: Mapping[str, tuple[str, ...]]
    runs: Mapping[str, Mapping[Key, Run]]
    """By tool, then by problem and seed; without the runs that crashed."""

    @classmethod
    def of(cls, rows: Mapping[str, tuple[str, ...]], records: Iterable[Run]) -> Section:
        wanted = {problem for problems in rows.values() for problem in problems}
        found: dict[str, dict[Key, Run]] = {}
        for run in records:
            spec = run.spec
            if run.error is None and spec.family in wanted:
                found.setdefault(spec.tool, {})[spec.family, spec.seed] = run
        return cls(rows, {name: found[name] for name in sorted(found, key=_place)})

    @property
    def base(self) -> str:
        """The newest default of ours that has run here, which the others are compared with."""
        ours = [name for name in self.runs if name.partition("@")[0] == "regretless"]
        return max(ours, key=_version, default=FALLBACK)

    @property
    def peers(self) -> list[str]:
        return [name for name in self.runs if not is_ours(name) and name != "random"]

    def ratio(self, row: str, tool: str, base: str, what: str = "regret") -> Ratio | None:
        """The tool's regret over the base's, on the instances that both have."""
        mine, theirs = self.runs.get(base, {}), self.runs.get(tool, {})
        shared = [
            key for key in theirs if key in mine and key[0] in self.rows[row] and tool != base
        ]
        logs = [_log(getattr(theirs[k], what)) - _log(getattr(mine[k], what)) for k in shared]
        return Ratio.of(logs) if logs else None

    def ratios(self, tool: str, base: str) -> dict[str, Ratio]:
        """By row, where both have run."""
        found = {row: self.ratio(row, tool, base) for row in self.rows}
        return {row: ratio for row, ratio in found.items() if ratio is not None}

    def best_peer(self, row: str, base: str) -> tuple[str, Ratio] | None:
        """The peer that loses least against the base, and what it loses."""
        found = [(name, self.ratio(row, name, base)) for name in self.peers]
        there = [(name, ratio) for name, ratio in found if ratio is not None]
        return min(there, key=lambda pair: pair[1].mean, default=None)

    def count(self, row: str, tool: str) -> int:
        return sum(key[0] in self.rows[row] for key in self.runs.get(tool, {}))

    def shared(self, row: str, tool: str, base: str) -> int:
        """Instances that both have."""
        both = self.runs.get(tool, {}).keys() & self.runs.get(base, {}).keys()
        return sum(key[0] in self.rows[row] for key in both)

    def of_tool(self, row: str, tool: str) -> list[Run]:
        return [run for key, run in self.runs.get(tool, {}).items() if key[0] in self.rows[row]]


def _log(regret: float) -> float:
    return math.log(max(regret, SMALLEST))


def _version(tool: str) -> int:
    """Of the defaults; a tool without one is the checkout's own, and may be anything."""
    return int(tool.partition("@")[2] or 0)


def _place(tool: str) -> tuple[int, int]:
    """The order of columns: ours, newest first, then the peers as in their table."""
    return list(TOOLS).index(tool.partition("@")[0]), -_version(tool)
