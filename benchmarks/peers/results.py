"""What the records say: cells, means with 95 % intervals, differences seed by seed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from benchmarks.peers.problems import TASKS
from benchmarks.peers.runs import Run, Spec
from benchmarks.peers.tools import DEFAULT, PEERS, TOOLS
from scipy.special import stdtr, stdtrit

from regretless.experiments.analyse import Interval, interval

FRESH = 100
"""Seeds from here on were kept away from every choice: they are a confirmation of their own."""
ENOUGH = 5
"""Seeds, below which nobody is ranked and nothing is decided."""


@dataclass(frozen=True)
class Gap:
    """How much more one tool lost than another: below 0 it lost less."""

    regret: Interval
    share: float
    p: float = float("nan")
    """How likely a difference this large would be by chance."""

    @property
    def clear(self) -> bool:
        enough = self.regret.count >= ENOUGH
        return enough and (self.regret.high < 0 or self.regret.low > 0)


class Cell:
    """The runs of one tool on one problem that came through, by seed."""

    def __init__(self, runs: Iterable[Run]) -> None:
        self.runs = {Spec.of(run.id).seed: run for run in runs}

    def __len__(self) -> int:
        return len(self.runs)

    def over(self, name: str) -> Interval:
        """Of "regret", "last" or "simple", over the seeds."""
        return interval(np.array([getattr(run, name) for run in self.runs.values()]))

    @property
    def seconds(self) -> float:
        """CPU time of a whole run."""
        return float(np.mean([run.cpu_seconds for run in self.runs.values()]))

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

    def apart_from(self, other: Cell) -> Gap | None:
        """The difference in mean cumulative regret where no seeds are shared (Welch)."""
        samples = [np.array([run.regret for run in c.runs.values()]) for c in (self, other)]
        if min(map(len, samples)) < 2:
            return None
        variances = [sample.var(ddof=1) / len(sample) for sample in samples]
        spread = float(np.sqrt(sum(variances)))
        if spread == 0:
            return None
        freedom = spread**4 / sum(
            v**2 / (len(sample) - 1) for v, sample in zip(variances, samples, strict=True)
        )
        mine, theirs = (float(sample.mean()) for sample in samples)
        gap = Interval(
            mine - theirs, float(stdtrit(freedom, 0.975)) * spread, min(map(len, samples))
        )
        return Gap(gap, mine / theirs - 1, 2 * float(stdtr(freedom, -abs(mine - theirs) / spread)))


@dataclass(frozen=True)
class Results:
    """All cells with one start, by problem and tool."""

    start: str
    cells: dict[tuple[str, str], Cell]

    @classmethod
    def of(cls, runs: Iterable[Run], start: str, fresh: bool = False) -> Results:
        """Of the seeds that the default was chosen by, or of the fresh ones."""
        groups: dict[tuple[str, str], list[Run]] = defaultdict(list)
        for run in runs:
            spec = Spec.of(run.id)
            alike = start == "common" and TOOLS[spec.tool].starts_common
            if (
                run.error is None
                and (spec.start == start or alike)
                and fresh == (spec.seed >= FRESH)
            ):
                groups[spec.problem, spec.tool].append(run)
        return cls(start, {key: Cell(group) for key, group in groups.items()})

    def problems(self, group: str | None = None) -> list[str]:
        there = {problem for problem, _ in self.cells}
        return [n for n, t in TASKS.items() if n in there and group in (None, t.group)]

    def ranked(self, problem: str) -> list[str]:
        """The peers on a problem, the one that lost least first; few runs rank nobody."""
        there = {name: cell for name, cell in self._peers(problem) if len(cell) >= ENOUGH}
        return sorted(there, key=lambda name: there[name].over("regret").mean)

    def unranked(self, problem: str) -> list[str]:
        """The peers with too few seeds."""
        return [name for name, cell in self._peers(problem) if len(cell) < ENOUGH]

    def _peers(self, problem: str) -> list[tuple[str, Cell]]:
        cells = self.cells
        return [(name, cells[problem, name]) for name in PEERS if (problem, name) in cells]

    def budget(self, problem: str) -> int:
        cell = next(cell for (name, _), cell in self.cells.items() if name == problem)
        return next(iter(cell.runs.values())).budget

    def against(self, problem: str, peer: str) -> Gap | None:
        """The default minus a peer, on the same seeds."""
        ours = self.cells.get((problem, DEFAULT))
        theirs = self.cells.get((problem, peer))
        return ours.minus(theirs) if ours and theirs else None


def holm(values: dict[str, float], level: float = 0.05) -> set[str]:
    """Which of many differences are clear even though so many were looked at (Holm 1979)."""
    ordered = sorted(values, key=lambda name: values[name])
    clear: set[str] = set()
    for rank, name in enumerate(ordered):
        if not values[name] <= level / (len(ordered) - rank):
            break
        clear.add(name)
    return clear
