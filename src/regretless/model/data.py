"""Observations with replicates collapsed: one row a distinct point.

Observations at one point are kept as one row (mean, weight, scatter), so every cost grows with the
number of distinct points; the likelihood is that of all observations, exactly:
    sum_j w_j (y_j - f)^2 = scatter + (sum_j w_j) (ybar - f)^2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import log, pi

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array

MAX_NOISE = 1e150  # clip: beyond this, data carry no information, and squares overflow

Observation = tuple[Array, float, float, float | None]  # point, y, weight, known variance


@dataclass(frozen=True, eq=False)
class Data:
    """Observations, one row per distinct point and kind of noise."""

    x: Array  # (m, d)
    y: Array  # (m,) weighted mean of the observations of the row
    weight: Array  # (m,) sum of weights; for a known variance its precision, sum of 1/variance
    known: NDArray[np.bool_]  # (m,) the noise variance of this row is known
    count: Array  # (m,) how many observations
    scatter: float = 0.0  # sum over rows of unknown noise of sum_j w_j (y_j - ybar)^2
    constant: float = 0.0  # the part of the log-likelihood that no parameter changes

    @classmethod
    def empty(cls, dim: int) -> Data:
        nothing = np.zeros(0)
        return cls(np.zeros((0, dim)), nothing, nothing, nothing.astype(bool), nothing)

    @classmethod
    def of(cls, x: Array, y: Array) -> Data:
        """Plain observations of weight 1, repeated points collapsed."""
        points = np.asarray(x, dtype=float)
        plain = ((point, float(value), 1.0, None) for point, value in zip(points, y, strict=True))
        return cls.fold(points.shape[1], plain)

    @classmethod
    def fold(cls, dim: int, observations: Iterable[Observation]) -> Data:
        """What `add` makes of them one by one, to the last bit, in one pass."""
        rows: dict[tuple[bytes, bool], int] = {}
        x: list[Array] = []
        mean: list[float] = []
        sums: list[float] = []
        count: list[float] = []
        scatter = constant = 0.0
        for point, y, weight, variance in observations:
            known = variance is not None
            w = weight if variance is None else _precision(variance)
            row = rows.setdefault(((point + 0.0).tobytes(), known), len(x))  # -0.0 is 0.0
            if row == len(x):
                x.append(point)
                mean.append(y)
                sums.append(w)
                count.append(1.0)
                continue
            mean[row], sums[row], apart, change = _joined(mean[row], sums[row], y, w, known)
            count[row] += 1.0
            scatter += apart
            constant += change
        kinds = np.array([known for _, known in rows], dtype=bool)
        points = np.array(x).reshape(len(x), dim)
        return cls(
            points, np.array(mean), np.array(sums), kinds, np.array(count), scatter, constant
        )

    def __len__(self) -> int:
        return len(self.y)

    @property
    def observations(self) -> int:
        return int(self.count.sum())

    @property
    def repeats(self) -> int:
        """Observations of unknown noise beyond the first of their row."""
        mine = ~self.known
        return int(self.count[mine].sum() - mine.sum())

    def standardised(self, shift: float, scale: float) -> Data:
        """The same observations as (y - shift) / scale."""
        again = float((self.count[self.known] - 1).sum())
        with np.errstate(over="ignore"):
            precision = np.clip(scale * scale * self.weight, 1.0 / MAX_NOISE, MAX_NOISE)
        return replace(
            self,
            y=(self.y - shift) / scale,
            weight=np.where(self.known, precision, self.weight),
            scatter=self.scatter / (scale * scale),
            constant=self.constant + again * log(scale),
        )

    def find(self, x: Array, known: bool) -> int | None:
        same = np.flatnonzero((self.x == x).all(axis=1) & (self.known == known))
        return int(same[0]) if len(same) else None

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> tuple[Data, int]:
        """With one more observation, and the row that it went to."""
        known = variance is not None
        w = weight if variance is None else _precision(variance)
        row = self.find(x, known)
        if row is None:
            return replace(
                self,
                x=np.vstack([self.x, x]),
                y=np.append(self.y, y),
                weight=np.append(self.weight, w),
                known=np.append(self.known, known),
                count=np.append(self.count, 1),
            ), len(self)
        mean, sums, count = self.y.copy(), self.weight.copy(), self.count.copy()
        before = float(mean[row]), float(sums[row])
        mean[row], sums[row], apart, change = _joined(*before, y, w, known)
        count[row] += 1
        scatter, constant = self.scatter + apart, self.constant + change
        return replace(
            self, y=mean, weight=sums, count=count, scatter=scatter, constant=constant
        ), row


def _precision(variance: float) -> float:
    """1 / variance, between bounds within which products of two stay finite."""
    return 1.0 / min(max(variance, 1.0 / MAX_NOISE), MAX_NOISE)


def _joined(
    mean: float, weight: float, y: float, w: float, known: bool
) -> tuple[float, float, float, float]:
    """A row with one more observation y of weight w: its mean and weight, and what is to be added
    to the scatter and to the constant.

    Each observation brings sqrt(w) to its density, and the row takes that of the sum back.
    """
    total, gap = weight + w, y - mean
    between = weight * w / total * (gap * gap)
    change = 0.5 * (log(w) + log(weight) - log(total))  # a ratio of them may underflow
    mean += gap * w / total
    if known:
        return mean, total, 0.0, change - 0.5 * between - 0.5 * log(2 * pi)
    return mean, total, between, change
