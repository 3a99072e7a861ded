"""What the records say: cells, means with 95 % intervals, differences seed by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from benchmarks.peers.problems import TASKS
from benchmarks.peers.runs import Run, Spec
from benchmarks.peers.tools import DEFAULT, PEERS, TOOLS

from noregret.experiments.analyse import Interval, interval

FRESH = 100
"""Seeds from here on were kept away from every choice: they are a confirmation of their own."""


@dataclass(frozen=True)
class Gap:
    """How much more one tool lost than another: below 0 it lost less."""

    regret: Interval
    share: float

    @property
    def clear(self) -> bool:
        return self.regret.high < 0 or self.regret.low > 0


class Cell:
    """The runs of one tool on one problem that came through, by seed."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = {Spec.of(run.id).seed: run for run in runs}

    def __len__(self) -> int:
        return len(self.runs)

    def over(self, name: str) -> Interval:
        """Of "regret", "last" or "simple", over the seeds."""
        return interval(np.array([getattr(run, name) for run in self.runs.values()]))

    def cpu_ms(self, mark: int) -> float | None:
        times = [run.cpu_ms[str(mark)] for run in self.runs.values() if str(mark) in run.cpu_ms]
        return float(np.mean(times)) if times else None

    def minus(self, other: Cell) -> Gap | None:
        """The difference in cumulative regret, over the seeds that both have."""
        both = sorted(self.runs.keys() & other.runs.keys())
        if not both:
            return None
        mine, theirs = (np.array([c.runs[s].regret for s in both]) for c in (self, other))
        return Gap(interval(mine - theirs), float(mine.mean() / theirs.mean() - 1))


@dataclass(frozen=True)
class Results:
    """All cells with one start, by problem and tool."""

    start: str
    cells: dict[tuple[str, str], Cell]

    @classmethod
    def of(cls, runs: Iterable[Run], start: str) -> Results:
        groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in runs:
            spec = Spec.of(run.id)
            alike = start == "common" and TOOLS[spec.tool].starts_common
            if run.error is None and (spec.start == start or alike):
                groups[spec.problem, spec.tool].append(run)
        return cls(start, {key: Cell(group) for key, group in groups.items()})

    def problems(self, group: str | None = None) -> list[str]:
        there = {problem for problem, _ in self.cells}
        return [n for n, t in TASKS.items() if n in there and group in (None, t.group)]

    def ranked(self, problem: str) -> list[str]:
        """The peers on a problem, the one that lost least first; one run alone ranks nobody."""
        cells = {name: self.cells.get((problem, name)) for name in PEERS}
        there = {name: cell for name, cell in cells.items() if cell and len(cell.runs) > 1}
        return sorted(there, key=lambda name: there[name].over("regret").mean)

    def budget(self, problem: str) -> int:
        cell = next(cell for (name, _), cell in self.cells.items() if name == problem)
        return next(iter(cell.runs.values())).budget

    def against(self, problem: str, peer: str) -> Gap | None:
        """The default minus a peer, on the same seeds."""
        ours = self.cells.get((problem, DEFAULT))
        theirs = self.cells.get((problem, peer))
        return ours.minus(theirs) if ours and theirs else None
