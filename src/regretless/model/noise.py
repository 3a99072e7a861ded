"""Noise that differs from place to place.

The noise variance of one evaluation is v exp(h(x)), where v = omega^2 lam^2 is that of a typical
point and
    h(x) = a mu(x) + sum_k b_k phi_k(x).
The first term follows the level of the outcome, as for revenue, which scatters more where there is
more of it.  The others follow the place: each ordered column has a line and a parabola, and each
choice a step.  h is 0 on average over the space.

An observation of weight w then counts like one of weight w exp(-h(x)) with the noise of a typical
point.  So replicates are merged as before, and the rest of the model needs no change.

The coefficients have normal priors and are found by Fisher scoring.  The evidence L of the
hyper-parameters has, for a point i with n_i results of unknown variance, scatter S_i and noise D_i
in units of omega^2,
    dL/dh_i = D_i (alpha_i^2/omega^2 - (C^-1)_ii) / 2 + S_i exp(-h_i) / (2 v) - (n_i - 1) / 2,
and the Fisher information is
    F_ij = D_i D_j ((C^-1)_ij)^2 / 2 + [i = j] (n_i - 1) / 2.
A told standard error says what h is at its point.

Four models compete: constant noise, noise by level, by place, and by both.  Each has a coefficient
vector and an evidence (by Laplace's approximation).  The result is their average, weighted by the
probability of each model.  So noise that is the same everywhere keeps a coefficient of about 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import NoiseRules
from regretless.errors import StorageError
from regretless.model.data import Data, Entry
from regretless.model.evidence import fitted_mean
from regretless.model.factor import Factor, NotPositiveDefinite
from regretless.model.hyper import Hyper
from regretless.space import Parameter

_STEPS, _HALVINGS, _CLOSE = 8, 6, 1e-3  # of the scoring: at most so many, and when it ends
_MOST_CHOICES = 32  # of a parameter by which the noise may differ
_TOLD = 0.5  # the variance of the logarithm of a told squared standard error


@dataclass(frozen=True)
class NoiseShape:
    """How the variance of the noise depends on the point, relative to that of a typical one.

    Args:
        columns: for each column, the number of its choices, or 0 if its values have an order.
        level: a, the slope of the logarithm in the posterior mean, in the units of the model.
        places: b, the coefficients of the terms of all columns, in order.
        most: the largest |h|.

    Example:
        >>> import numpy as np
        >>> shape = NoiseShape(columns=(0,), level=0.0, places=(1.0, 0.0))
        >>> at_ends = shape.ratio(np.array([[0.0], [1.0]]), mu=np.zeros(2))
        >>> bool(at_ends[0] < 1.0 < at_ends[1])
        True
    """

    columns: tuple[int, ...]
    level: float
    places: tuple[float, ...]
    most: float = 7.0

    @property
    def by_place(self) -> bool:
        """Whether the noise depends on the place itself, and not only on the level."""
        return any(self.places)

    def log_ratio(self, x: Array, mu: Array) -> Array:
        """h at the rows of x, where the posterior mean is mu."""
        h = self.level * mu
        if self.by_place:
            h = h + features(x, self.columns) @ np.array(self.places)
        return np.asarray(np.clip(h, -self.most, self.most))

    def ratio(self, x: Array, mu: Array) -> Array:
        """The variance at the rows of x, divided by that of a typical point."""
        return np.exp(self.log_ratio(x, mu))

    def slopes(self, x: Array, mu: Array) -> tuple[Array, Array]:
        """The slopes of h in mu, and in x directly."""
        inside = np.abs(self._unclipped(x, mu)) < self.most
        along = np.zeros_like(x)
        position = 0
        for column, count in enumerate(self.columns):
            if not count:
                line, curve = self.places[position : position + 2]
                along[:, column] = 2.0 * line + 4.0 * curve * (2.0 * x[:, column] - 1.0)
            position += count or 2
        return np.where(inside, self.level, 0.0), np.where(inside[:, None], along, 0.0)

    def _unclipped(self, x: Array, mu: Array) -> Array:
        return np.asarray(self.level * mu + features(x, self.columns) @ np.array(self.places))

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON."""
        return {"level": self.level, "places": list(self.places)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any], columns: Sequence[Parameter]) -> NoiseShape:
        """The shape that `to_json` wrote.

        Raises:
            StorageError: the numbers don't fit the columns.
        """
        shape = cls(kinds_of(columns), float(data["level"]), tuple(map(float, data["places"])))
        terms = sum(count or 2 for count in shape.columns)
        if len(shape.places) != terms or not np.isfinite([shape.level, *shape.places]).all():
            raise StorageError(f"event 'asked': invalid noise of a fit: {data!r:.200}")
        return shape


def kinds_of(columns: Sequence[Parameter]) -> tuple[int, ...]:
    """For each column, the number of its choices, or 0 if its values have an order.

    A structured parameter, or one with very many choices, counts as if it had one choice: the noise
    does not depend on it.
    """

    def kind(each: Parameter) -> int:
        if each.kind != "structured" and each.has_order:
            return 0
        count = each.scale.count
        few = each.kind != "structured" and count is not None and count <= _MOST_CHOICES
        return int(count) if few and count is not None else 1

    return tuple(kind(each) for each in columns)


def features(x: Array, kinds: Sequence[int]) -> Array:
    """phi at the rows of x.  Each has a mean of 0 over the space."""
    parts: list[Array] = []
    for column, count in enumerate(kinds):
        u = x[:, column]
        if count:
            chosen = np.minimum((u * count).astype(int), count - 1)
            parts += [(chosen == k) - 1.0 / count for k in range(count)]
        else:
            away = 2.0 * u - 1.0
            parts += [away, away * away - 1.0 / 3.0]
    return np.array(parts).T.reshape(len(x), len(parts))


class Replicates(NamedTuple):
    """What the results of each row of the data say about its noise, beside their mean."""

    within: Array  # sum of w_j (y_j - ybar)^2 over the results of unknown variance
    free: Array  # their number, less one
    logs: Array  # mean logarithm of the told variances of one evaluation; NaN without any

    @classmethod
    def of(cls, data: Data, entries: Sequence[Entry]) -> Replicates:
        """The sums over the observations that `data` was made of, in the units of the data."""
        within, logs = np.zeros(len(data)), np.zeros(len(data))
        for row, (_, y, weight, variance) in zip(rows_of(data, entries), entries, strict=True):
            if variance is None:
                within[row] += weight * (y - data.y[row]) ** 2
            else:
                logs[row] += log(max(variance * weight, 1e-300)) / data.count[row]
        free = np.where(data.known, 0.0, data.count - 1.0)
        return cls(within, free, np.where(data.known, logs, np.nan))


def rows_of(data: Data, entries: Sequence[Entry]) -> list[int]:
    """The row of the data that each observation belongs to."""
    kinds = zip(data.x + 0.0, data.known.tolist(), strict=True)  # + 0.0 turns -0.0 into 0.0
    rows = {(x.tobytes(), known): row for row, (x, known) in enumerate(kinds)}
    return [rows[(x + 0.0).tobytes(), variance is not None] for x, _, _, variance in entries]


def weighed(data: Data, entries: Sequence[Entry], noise: NoiseShape, mu: Array) -> Data:
    """The observations, each with its weight divided by the ratio of the noise at its point.

    Args:
        data: the observations with their own weights.
        entries: the same, one by one, in the units of the data.
        noise: where results scatter more.
        mu: the posterior mean at the rows of the data.
    """
    ratio = noise.ratio(data.x, mu).tolist()
    each = zip(entries, rows_of(data, entries), strict=True)
    return Data.fold(
        data.x.shape[1], ((x, y, weight / ratio[row], v) for (x, y, weight, v), row in each)
    )


class FoundNoise(NamedTuple):
    """The result of `find_noise`."""

    shape: NoiseShape
    log_typical: float  # by how much the logarithm of the typical variance changes
    probability: float  # that the noise is not the same everywhere


def find_noise(
    data: Data,
    replicates: Replicates,
    hyper: Hyper,
    mu: Array,
    columns: Sequence[Parameter],
    rules: NoiseRules,
) -> FoundNoise:
    """How the noise differs from place to place, given the other hyper-parameters.

    Args:
        data: the observations with their own weights, in the units of the model.
        replicates: what they say about the noise beside their means.
        hyper: the hyper-parameters.
        mu: the posterior mean at the rows of the data.
        columns: the parameters of the space.
        rules: the constants.
    """
    kinds = kinds_of(columns)
    terms = np.column_stack([np.ones(len(data)), mu, features(data.x, kinds)])
    precision = np.array([rules.typical_sd, rules.level, *_place_sds(kinds, rules)]) ** -2.0
    target, size = NoiseTarget(data, replicates, hyper), terms.shape[1]
    vectors, values = np.zeros((4, size)), np.zeros(4)
    for row, used in enumerate([[0], [0, 1], [0, *range(2, size)], [*range(size)]]):
        vectors[row, used], values[row] = target.best(terms[:, used], precision[used])
    if not np.isfinite(values).all():  # the covariance can't be factorised
        return FoundNoise(NoiseShape(kinds, 0.0, (0.0,) * (size - 2)), 0.0, 0.0)
    log_odds = values + np.log([1.0, *rules.odds])
    chance = np.exp(log_odds - log_odds.max())
    chance /= chance.sum()
    typical, level, *places = (float(f"{number:.6g}") for number in chance @ vectors)
    return FoundNoise(NoiseShape(kinds, level, tuple(places)), typical, float(1.0 - chance[0]))


def _place_sds(kinds: Sequence[int], rules: NoiseRules) -> list[float]:
    """The prior sds of the coefficients by place: with more columns, each counts for less."""
    share = max(1, sum(count != 1 for count in kinds)) ** -0.5
    each = ([rules.step] * count if count else [rules.line, rules.curve] for count in kinds)
    return [share * sd for column in each for sd in column]


class NoiseTarget:
    """The evidence of h at the rows of the data."""

    def __init__(self, data: Data, replicates: Replicates, hyper: Hyper) -> None:
        self.data, self.replicates, self.hyper = data, replicates, hyper
        self.gram = hyper.kernel.gram(data.x)
        self.noise = hyper.noise(data)
        self.variance = hyper.lam2 * hyper.omega2
        self.unknown: NDArray[np.bool_] = ~data.known

    def best(self, terms: Array, precision: Array) -> tuple[Array, float]:
        """The best coefficients, and the log evidence of this model up to a constant."""
        b = np.zeros(terms.shape[1])
        value, slope, curvature = self._penalised(terms, precision, b)
        for _ in range(_STEPS):
            step = np.linalg.solve(curvature, slope)
            for _ in range(_HALVINGS):
                reached = self._penalised(terms, precision, b + step)
                if reached[0] > value:
                    break
                step = 0.5 * step
            else:
                break
            b, (value, slope, curvature) = b + step, reached
            if np.abs(step).max() < _CLOSE:
                break
        _, volume = np.linalg.slogdet(curvature / precision)  # that of the prior over that of b
        return b, value - 0.5 * float(volume)

    def _penalised(self, terms: Array, precision: Array, b: Array) -> tuple[float, Array, Array]:
        """The log density of b up to a constant, its slope, and its curvature as expected."""
        value, slope, information = self.at(terms @ b)
        curvature = terms.T @ information @ terms + np.diag(precision)
        return value - 0.5 * float(precision @ (b * b)), terms.T @ slope - precision * b, curvature

    def at(self, h: Array) -> tuple[float, Array, Array]:
        """The log evidence up to a constant, its slope in h, and the Fisher information."""
        data, hyper, (within, free, logs) = self.data, self.hyper, self.replicates
        known = data.known
        h = np.clip(h, -20.0, 20.0)
        noise = np.where(known, self.noise, self.noise * np.exp(h))
        size = len(data)
        try:
            factor = Factor.of(self.gram, noise)
        except NotPositiveDefinite:
            return -np.inf, np.zeros(size), np.zeros((size, size))
        kappa = hyper.mean_precision
        if kappa is None:
            mean, alpha = 0.0, factor.solve(data.y)
        else:
            mean, alpha = fitted_mean(factor, data.y, kappa)
        quad = float((data.y - mean) @ alpha) + (kappa or 0.0) * mean * mean
        apart = within * np.exp(-h) / self.variance
        value = -0.5 * (factor.logdet + quad / hyper.omega2)
        value -= 0.5 * float((apart + free * h)[self.unknown].sum())
        inverse = factor.inverse()
        slope = 0.5 * (noise * (alpha * alpha / hyper.omega2 - np.diag(inverse)) + apart - free)
        part = noise[:, None] * inverse
        information = 0.5 * part * part.T
        np.einsum("ii->i", information)[:] += 0.5 * free
        if known.any():
            slope[known] = 0.0
            information[known] = 0.0
            information[:, known] = 0.0
            gap = logs[known] - log(self.variance) - h[known]
            told = data.count[known] / _TOLD
            value -= 0.5 * float(told @ (gap * gap))
            slope[known] = told * gap
            information[known, known] = told
        return value, slope, information
