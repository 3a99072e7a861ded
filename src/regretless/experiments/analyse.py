"""Statistics of the recorded runs: means with 95 % intervals, paired differences, shares, costs.

All intervals are Student's t intervals over independent seeds.  All policies get the same noise in
a seed, so differences are taken seed by seed.  That is more accurate than a comparison of two
intervals.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from regretless._internal.arrays import Array
from regretless.experiments.records import Record, Stamp


@dataclass(frozen=True)
class Interval:
    """A mean and the half-width of its 95 % interval, which is infinite for a single seed."""

    mean: float
    half: float
    count: int

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    def overlaps(self, other: Interval) -> bool:
        """Whether the two intervals have a common point."""
        return self.low <= other.high and other.low <= self.high

    def __str__(self) -> str:
        if not np.isfinite(self.half):
            return short(self.mean)
        digits = _digits(self.half)
        return f"{self.mean:.{digits}f} ± {self.half:.{digits}f}"


def interval(values: Array) -> Interval:
    """The mean of independent values, with its 95 % interval."""
    means, halves = region(values[:, None])
    return Interval(float(means[0]), float(halves[0]), len(values))


def region(curves: Array) -> tuple[Array, Array]:
    """The mean and the half-width of its 95 % interval at each evaluation; a row is a curve."""
    count = len(curves)
    if count < 2:
        return curves.mean(axis=0), np.full(curves.shape[1], np.inf)
    spread = curves.std(axis=0, ddof=1) / np.sqrt(count)
    return curves.mean(axis=0), stdtrit(count - 1, 0.975) * spread


@dataclass(frozen=True, eq=False)
class Cell:
    """All runs of one policy on one function, ordered by seed."""

    figure: str
    function: str
    policy: str
    records: tuple[Record, ...]  # runs without an error
    crashed: tuple[Record, ...]  # runs with an error

    @cached_property
    def curves(self) -> Array:
        """The cumulative regret, with one row for each seed and one column for each evaluation."""
        return np.array([record.curve for record in self.records])

    @cached_property
    def seeds(self) -> NDArray[np.int_]:
        return np.array([record.seed for record in self.records], dtype=int)

    @property
    def count(self) -> int:
        return len(self.records)

    @property
    def budget(self) -> int:
        return int(self.curves.shape[1])

    def regret(self, at: int | None = None) -> Interval:
        """R_n after `at` evaluations; R_N if it is None."""
        return interval(self.curves[:, (at or self.budget) - 1])

    def slope(self, last: int) -> Array:
        """The mean regret of the last `last` evaluations, for each seed."""
        return np.asarray((self.curves[:, -1] - self.curves[:, -1 - last]) / last)

    @property
    def design_share(self) -> float:
        """The share of the regret that is due to the initial design."""
        spent = [r.curve[r.design - 1] if r.design else 0.0 for r in self.records]
        return float(np.sum(spent) / self.curves[:, -1].sum())

    @property
    def cpu_seconds(self) -> float:
        return sum(record.cpu_seconds for record in (*self.records, *self.crashed))

    def share(self, reason: str) -> float:
        """The share of all evaluations with this reason, see `Decision`."""
        steps = sum(sum(record.reasons.values()) for record in self.records)
        return sum(record.reasons.get(reason, 0) for record in self.records) / steps

    def typical(self, name: str) -> float:
        """The mean of a record's number ("distinct", "fits", ...) over the runs."""
        return float(np.mean([getattr(record, name) for record in self.records]))


@dataclass(frozen=True, eq=False)
class Results:
    """All cells, by (function, policy)."""

    cells: Mapping[tuple[str, str], Cell]

    @classmethod
    def of(cls, records: Iterable[Record]) -> Results:
        groups: dict[tuple[str, str, str], list[Record]] = defaultdict(list)
        for record in records:
            figure, function, policy, _ = record.id.split("/")
            groups[figure, function, policy].append(record)
        cells = {}
        for (figure, function, policy), group in groups.items():
            ordered = sorted(group, key=lambda record: record.seed)
            fine = tuple(record for record in ordered if record.error is None)
            crashed = tuple(record for record in ordered if record.error is not None)
            cells[function, policy] = Cell(figure, function, policy, fine, crashed)
        return cls(cells)

    def get(self, function: str, policy: str) -> Cell | None:
        """The cell; None if it has no run without an error."""
        cell = self.cells.get((function, policy))
        return cell if cell is not None and cell.count else None

    def replaced(self, roles: Mapping[str, str]) -> Results:
        """The results with the runs of some policies replaced by those of others.

        Args:
            roles: maps the policies to be replaced to those that take their place.
        """
        swapped = dict(self.cells)
        for function, role in self.cells:
            if role in roles and (function, roles[role]) in self.cells:
                swapped[function, role] = self.cells[function, roles[role]]
        return Results(swapped)

    @property
    def stamps(self) -> Counter[Stamp]:
        """The number of records of each version of the software."""
        cells = self.cells.values()
        return Counter(r.stamp for cell in cells for r in (*cell.records, *cell.crashed))


def paired(one: Cell, other: Cell, at: int | None = None) -> Interval | None:
    """The difference one − other of cumulative regret after `at` evaluations, on common seeds."""
    column = (at or one.budget) - 1
    if at is None and one.budget != other.budget:
        return None
    return difference(one, other, one.curves[:, column], other.curves[:, column])


def difference(one: Cell, other: Cell, mine: Array, theirs: Array) -> Interval | None:
    """The mean of mine − theirs on common seeds, with its interval; None if there are none."""
    _, i, j = np.intersect1d(one.seeds, other.seeds, assume_unique=True, return_indices=True)
    return interval(mine[i] - theirs[j]) if len(i) else None


def short(value: float) -> str:
    """A number as text without an exponent, with at least two significant digits."""
    return f"{value:.{_digits(value)}f}"


def _digits(value: float) -> int:
    """The number of decimals that show two significant digits, at least one."""
    size = abs(value)
    return 1 if size >= 1 or size == 0 else 2 if size >= 0.1 else 3 if size >= 0.01 else 4
