"""Observations as data of a Gaussian process, with replicates merged into one row per point.

All observations at one point are kept as one row with their mean, weight and scatter.  So the cost
of the model grows with the number of distinct points, not of observations.  The likelihood is
exactly that of all observations:
    sum_j w_j (y_j - f)^2 = scatter + (sum_j w_j) (ybar - f)^2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array

MAX_NOISE = 1e150  # variances are clipped: larger ones mean no information, and squares overflow

Entry = tuple[Array, float, float, float | None]  # point, y, weight, known variance


@dataclass(frozen=True, eq=False)
class Data:
    """Observations: one row for each distinct point, or two if only some variances are known."""

    x: Array  # (m, d) the points
    y: Array  # (m,) weighted mean of the row's observations
    weight: Array  # (m,) sum of the weights; of the precisions 1/variance if variances are known
    known: NDArray[np.bool_]  # (m,) whether the noise variances of the row are known
    count: Array  # (m,) number of observations
    scatter: float = 0.0  # sum of w_j (y_j - ybar)^2 over all rows with unknown variances
    constant: float = 0.0  # the part of the log-likelihood that does not depend on parameters
    # Noise that rows share, in a system that changes; see model/drift.py.
    swell: Array | None = None  # (m, m) by what the kernel's matrix is multiplied
    common: Array | None = None  # (m, m) what is added to it, in units of omega^2
    # (m, m) noise that rows share, without a diagonal; in units of y^2, see model/tables.py.
    shared: Array | None = None

    @classmethod
    def empty(cls, dim: int) -> Data:
        """No observations."""
        nothing = np.zeros(0)
        return cls(np.zeros((0, dim)), nothing, nothing, nothing.astype(bool), nothing)

    @classmethod
    def of(cls, x: Array, y: Array) -> Data:
        """Observations y at the rows of x, all of weight 1 and unknown variance."""
        points = np.asarray(x, dtype=float)
        plain = ((point, float(value), 1.0, None) for point, value in zip(points, y, strict=True))
        return cls.fold(points.shape[1], plain)

    @classmethod
    def fold(cls, dim: int, observations: Iterable[Entry]) -> Data:
        """All observations in one pass.  The result has the same bits as adding them one by one."""
        rows: dict[tuple[bytes, bool], int] = {}
        x: list[Array] = []
        mean: list[float] = []
        sums: list[float] = []
        count: list[float] = []
        scatter = constant = 0.0
        for point, y, weight, variance in observations:
            known = variance is not None
            w = weight if variance is None else _precision(variance)
            # + 0.0 turns -0.0 into 0.0
            row = rows.setdefault(((point + 0.0).tobytes(), known), len(x))
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

    def covariance(self, gram: Array, omega2: float) -> Array:
        """The covariance of the rows without their own noise, for the kernel's matrix `gram`."""
        if self.swell is None or self.common is None:
            return gram
        moved = gram * self.swell + self.common
        return moved if self.shared is None else moved + self.shared / omega2

    def through(self, weights: Array) -> Array:
        """The slope of a function in `gram`, for its slope in `covariance`."""
        return weights if self.swell is None else weights * self.swell

    def _with_row_of_now(self) -> dict[str, Any]:
        """`swell` and `common` with one more row, for a result that is not old."""
        if self.swell is None or self.common is None:
            return {}
        return {
            "swell": np.pad(self.swell, (0, 1), constant_values=1.0),
            "common": np.pad(self.common, (0, 1)),
            "shared": None if self.shared is None else np.pad(self.shared, (0, 1)),
        }

    @property
    def observations(self) -> int:
        """The number of observations."""
        return int(self.count.sum())

    @property
    def repeats(self) -> int:
        """The number of observations with unknown variance, without the first one of each row."""
        mine = ~self.known
        return int(self.count[mine].sum() - mine.sum())

    @property
    def typical_variance(self) -> float | None:
        """The noise variance of a typical observation, if all observations have a known one.

        It is the median over the points, of the variance that an observation there has on average.
        None if a variance is unknown: such observations tell how large the noise is.
        """
        if not (len(self) and self.known.all()):
            return None
        return float(np.median(self.count / self.weight))

    def standardised(self, shift: float, scale: float) -> Data:
        """The observations with (y - shift) / scale in the place of y."""
        again = float((self.count[self.known] - 1).sum())
        with np.errstate(over="ignore"):
            precision = np.clip(scale * scale * self.weight, 1.0 / MAX_NOISE, MAX_NOISE)
        return replace(
            self,
            y=(self.y - shift) / scale,
            weight=np.where(self.known, precision, self.weight),
            scatter=self.scatter / (scale * scale),
            constant=self.constant + again * log(scale),
            shared=None if self.shared is None else self.shared / (scale * scale),
        )

    @property
    def divisible(self) -> bool:
        """Whether it can be cut into parts.  With tables or drift, rows share noise."""
        return self.swell is None

    def part(self, rows: NDArray[np.intp]) -> Data:
        """Some of the rows, with the share of `scatter` and `constant` that their repeats have."""
        assert self.divisible
        picked = replace(
            self,
            x=self.x[rows],
            y=self.y[rows],
            weight=self.weight[rows],
            known=self.known[rows],
            count=self.count[rows],
        )
        share = picked.repeats / self.repeats if self.repeats else len(rows) / len(self)
        return replace(picked, scatter=share * self.scatter, constant=share * self.constant)

    def find(self, x: Array, known: bool) -> int | None:
        """The row of the point x, with known or unknown variances; None if there is none."""
        same = np.flatnonzero((self.x == x).all(axis=1) & (self.known == known))
        return int(same[0]) if len(same) else None

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> tuple[Data, int]:
        """The data with one more observation, and the row that it belongs to."""
        known = variance is not None
        w = weight if variance is None else _precision(variance)
        row = self.find(x, known) if self.swell is None else None
        if row is None:
            return replace(
                self,
                x=np.vstack([self.x, x]),
                y=np.append(self.y, y),
                weight=np.append(self.weight, w),
                known=np.append(self.known, known),
                count=np.append(self.count, 1),
                **self._with_row_of_now(),
            ), len(self)
        mean, sums, count = self.y.copy(), self.weight.copy(), self.count.copy()
        before = float(mean[row]), float(sums[row])
        mean[row], sums[row], apart, change = _joined(*before, y, w, known)
        count[row] += 1
        scatter, constant = self.scatter + apart, self.constant + change
        return replace(
            self, y=mean, weight=sums, count=count, scatter=scatter, constant=constant
        ), row

    def expecting(self, x: Array, y: Array, weights: Array) -> Data:
        """The data with observations of unknown variance at the rows of x; without `swell`.

        It is that of `add` for one after the other, to the last bit.
        """
        rows: dict[bytes, int] = {}
        for row, (point, known) in enumerate(zip(self.x + 0.0, self.known, strict=True)):
            if not known:
                rows.setdefault(point.tobytes(), row)
        mean, sums, count = self.y.tolist(), self.weight.tolist(), self.count.tolist()
        scatter, constant, new = self.scatter, self.constant, list[int]()
        for i, (point, value, w) in enumerate(
            zip(x + 0.0, y.tolist(), weights.tolist(), strict=True)
        ):
            row = rows.setdefault(point.tobytes(), len(mean))
            if row == len(mean):
                new.append(i)
                mean.append(value)
                sums.append(w)
                count.append(1.0)
                continue
            mean[row], sums[row], apart, change = _joined(mean[row], sums[row], value, w, False)
            count[row] += 1.0
            scatter += apart
            constant += change
        return replace(
            self,
            x=np.vstack([self.x, x[new]]),
            y=np.array(mean),
            weight=np.array(sums),
            known=np.append(self.known, np.zeros(len(new), dtype=bool)),
            count=np.array(count),
            scatter=scatter,
            constant=constant,
        )


def _precision(variance: float) -> float:
    """1 / variance, clipped so that products of two stay finite."""
    return 1.0 / min(max(variance, 1.0 / MAX_NOISE), MAX_NOISE)


def _joined(
    mean: float, weight: float, y: float, w: float, known: bool
) -> tuple[float, float, float, float]:
    """Add one observation y of weight w to a row.

    Returns:
        The new mean and weight of the row, and the changes of `scatter` and `constant`.  The
        density of an observation has the factor sqrt(w), and that of a row sqrt(total weight).  The
        change of the constant makes up for the difference.
    """
    total, gap = weight + w, y - mean
    between = weight * w / total * (gap * gap)
    change = 0.5 * (log(w) + log(weight) - log(total))  # w * weight / total may underflow
    mean += gap * w / total
    if known:
        return mean, total, 0.0, change - 0.5 * between - 0.5 * log(2 * pi)
    return mean, total, between, change
