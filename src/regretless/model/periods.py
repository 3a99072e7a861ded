"""The effect of a period on all results of that period, known through a control.

Results of different days, or of other periods, differ for reasons that no parameter explains.  The
result of trial i, and a control that the baseline b brought in the same period, are
    y_i = f(x_i) + p_i + e_i    and    c_i = f(b) + p_i + e'_i,
with the effect of the period p_i ~ N(0, tau^2), and noise with the variances v_i and s_i^2.

Let c be the mean of the controls, each weighted by 1 / (tau^2 + s_i^2), and V its variance.  So
c = f(b) + eta with eta ~ N(0, V).  With the share k_i = tau^2 / (tau^2 + s_i^2),
    u_i = y_i - k_i (c_i - c) = f(x_i) + k_i eta + noise of variance v_i + k_i s_i^2,
and this noise is independent of all controls.  An unpaired result has noise of variance
v_i + tau^2.

The error eta of the level is common to all paired results, so it does not change how they compare.
The model learns g = f + kappa eta instead of f, where kappa is the usual k_i, or 0.  Then a result
contains r_i eta, with r_i = k_i - kappa, or -kappa if it is unpaired; and c is a result at b with
r = 1 - kappa.  The covariance V r r' of these errors is at most the diagonal matrix with
V |r_i| sum_j |r_j|, in the order of positive definite matrices.  This diagonal is added to the
noise, so the model never claims to know more than the exact one.  Of the two kappa, the one with
more information in all results is taken.  If all results are paired and all k_i are equal, the
diagonal is 0, and the differences of g are exactly those of f.

If the baseline changes, each baseline has a level of its own.  kappa is that of the last one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import isfinite, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import PeriodRules

Point = tuple[float, ...]


class Control(NamedTuple):
    """What the baseline brought in the period of a result, with a value that is larger if better.

    Its noise is that of the result itself, if its variance is unknown.
    """

    value: float
    variance: float | None = None  # its squared standard error
    of: Point | None = None  # the encoded baseline, if it is known


class Observation(NamedTuple):
    """One observation, with y such that larger is better."""

    x: Array
    y: float
    weight: float  # how many evaluations y is the mean of
    variance: float | None  # the squared standard error of y, if it was told
    blind: bool = False  # whether x is a point of the initial design, chosen without any results
    control: Control | None = None
    period: int | None = None  # the table in which it was measured beside others


class Level(NamedTuple):
    """The mean of the controls of one baseline."""

    of: Point | None
    mean: float
    variance: float  # V, of the mean
    total: float  # the sum of |r_j| over all results that contain its error


@dataclass(frozen=True)
class Periods:
    """How results are corrected by their controls.  All numbers are in the units of the results."""

    effect: float  # tau^2, the variance of the effect of a period
    noise: float  # the variance of the noise of one evaluation, without the effect
    usual: float  # the variance that is left of the effect in a usual paired result
    kappa: float  # see the module
    levels: tuple[Level, ...]  # one for each baseline; the last one is that of the last control

    @classmethod
    def of(
        cls, told: Sequence[Observation], noise: float, rules: PeriodRules, fixed: bool = False
    ) -> Periods | None:
        """The effect of the periods and the level of the controls, estimated from results.

        Args:
            told: the results.
            noise: the variance of the noise of one evaluation, as far as it is known.
            rules: the constants.
            fixed: whether the noise of the model is given, and not that of a paired result.

        Returns:
            The estimates; None if there is no control.
        """
        groups: dict[Point | None, list[tuple[float, float]]] = {}
        for each in told:
            if each.control is not None:
                group = groups.pop(each.control.of, [])
                group.append((each.control.value, _error(each, noise)))
                groups[each.control.of] = group  # the last baseline comes last
        if not groups:
            return None
        values = [np.array([value for value, _ in group]) for group in groups.values()]
        errors = [np.array([error for _, error in group]) for group in groups.values()]
        effect = effect_variance(values, errors, rules)
        shares = [effect / (effect + error) for error in errors]
        means = [_mean(c, 1.0 / (effect + s2)) for c, s2 in zip(values, errors, strict=True)]
        unpaired = len(told) - sum(map(len, values))
        found = []
        for kappa in (float(np.median(shares[-1])), 0.0):
            totals = _totals(shares, kappa, unpaired)
            each_level = zip(groups, means, totals, strict=True)
            levels = tuple(Level(of, *mean, total) for of, mean, total in each_level)
            plain = cls(effect, noise, 0.0, kappa, levels)
            left = [plain.left_over(t) for t in told]
            information = sum(
                1.0 / (_noise(t, noise) + rest) for t, rest in zip(told, left, strict=True)
            )
            paired = [rest for t, rest in zip(told, left, strict=True) if t.control is not None]
            usual = 0.0 if fixed else float(np.median(paired))
            found.append((information, replace(plain, usual=usual)))
        best = max(found, key=lambda pair: pair[0])[1]
        return best

    @property
    def _is_valid(self) -> bool:
        numbers = [self.effect, self.noise, self.usual, self.kappa]
        numbers += [number for level in self.levels for number in level[1:]]
        return all(map(isfinite, numbers)) and self.effect > 0.0 and self.noise > 0.0

    # -- correcting --------------------------------------------------------------------------------

    def corrected(self, told: Observation) -> Observation:
        """The result without the effect of its period, with the noise that it then has.

        Where the noise of a result is unknown, its weight is changed: a usual paired result of one
        evaluation has the weight 1.
        """
        y, left = told.y, self.left_over(told)
        level = self._level(told)
        if level is not None and told.control is not None:
            y -= self._share(told) * (told.control.value - level.mean)
        if told.variance is not None:
            return told._replace(y=y, variance=told.variance + left)
        weight = (self.noise + self.usual) / (self.noise / told.weight + left)
        return told._replace(y=y, weight=weight)

    def left_over(self, told: Observation) -> float:
        """The variance that is left of the effect in a result after its correction."""
        last, level = self.levels[-1], self._level(told)
        common = self.kappa * last.variance * last.total  # the error of the last level
        if level is None:
            return self.effect + common
        share = self._share(told)
        left = share * _error(told, self.noise)
        if level is last:
            return left + abs(share - self.kappa) * last.variance * last.total
        return left + share * level.variance * level.total + common

    def anchors(self) -> Iterator[Observation]:
        """What the controls tell about f at the baselines: a result for each one that is known."""
        last = self.levels[-1]
        for level in self.levels:
            if level.of is not None:
                r = 1.0 - self.kappa if level is last else 1.0
                variance = r * level.variance * level.total
                if level is not last:
                    variance += self.kappa * last.variance * last.total
                # The model gets no result without any noise.
                variance = max(variance, 1e-6 * (self.noise + self.usual))
                yield Observation(np.array(level.of), level.mean, 1.0, variance)

    def _level(self, told: Observation) -> Level | None:
        control = told.control
        if control is None:
            return None
        return next((level for level in self.levels if level.of == control.of), None)

    def _share(self, told: Observation) -> float:
        """k_i of a paired result."""
        return self.effect / (self.effect + _error(told, self.noise))

    # -- what is shown -----------------------------------------------------------------------------

    @property
    def level_sd(self) -> float:
        """The sd of what the model does not know about the level of all results together."""
        return self.kappa * sqrt(self.levels[-1].variance)

    # -- as data -----------------------------------------------------------------------------------

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON."""
        levels = [
            {**level._asdict(), "of": None if level.of is None else list(level.of)}
            for level in self.levels
        ]
        return {**vars(self), "levels": levels}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Periods:
        """The object that `to_json` wrote.

        Raises:
            ValueError: a number is not valid.
        """
        levels = tuple(
            Level(
                None if level["of"] is None else tuple(map(float, level["of"])),
                float(level["mean"]),
                float(level["variance"]),
                float(level["total"]),
            )
            for level in data["levels"]
        )
        names = ("effect", "noise", "usual", "kappa")
        made = cls(**{name: float(data[name]) for name in names}, levels=levels)
        if not (levels and made._is_valid):
            raise ValueError("periods: need finite numbers, and at least one level")
        return made


def _noise(told: Observation, noise: float) -> float:
    """The variance of the noise of a result, without the effect of its period."""
    return noise / told.weight if told.variance is None else told.variance


def _error(told: Observation, noise: float) -> float:
    """s_i^2: that of the control, or that of the result if it is unknown."""
    control = told.control
    if control is None or control.variance is None:
        return _noise(told, noise)
    return control.variance


def _mean(values: Array, weights: Array) -> tuple[float, float]:
    """The weighted mean, and its variance if the weights are inverse variances."""
    total = float(weights.sum())
    first = float(values[0])  # so that large values with small differences keep their digits
    return first + float(weights @ (values - first)) / total, 1.0 / total


def _totals(shares: list[Array], kappa: float, unpaired: int) -> list[float]:
    """sum_j |r_j| for the error of each level: results, and the levels themselves as results."""
    *others, last = shares
    totals = [float(share.sum()) + 1.0 for share in others]
    free = unpaired + sum(map(len, others)) + len(others)
    return [*totals, float(np.abs(last - kappa).sum()) + kappa * free + 1.0 - kappa]


def effect_variance(values: list[Array], errors: list[Array], rules: PeriodRules) -> float:
    """tau^2: the median of its posterior, given controls and their variances s_i^2.

    The likelihood is that of the scatter around the mean of each baseline's controls (REML).  The
    prior of tau is half-Cauchy with the usual s_i as its scale.  With one control, the estimate is
    the prior's; with many, it is their scatter beyond the s_i^2.
    """
    # In units of the largest scatter or error, so that squares neither over- nor underflow.
    apart = max(float(np.ptp(c)) for c in values)
    unit = max(apart, sqrt(max(float(s2.max()) for s2 in errors)))
    usual = float(np.median(np.concatenate(errors))) / unit**2
    usual = max(usual, rules.least_error * (apart / unit) ** 2)
    log_t = np.linspace(log(usual / rules.range), log(rules.range), rules.grid)
    t = np.exp(log_t)
    log_density = 0.5 * log_t - np.log1p(t / usual)
    for c, s2 in zip(values, errors, strict=True):
        precision = 1.0 / (t[:, None] + s2 / unit**2)
        total = precision.sum(axis=1)
        away = (c - c[0]) / unit
        mean = precision @ away / total
        square = (precision * (away - mean[:, None]) ** 2).sum(axis=1)
        log_density += 0.5 * (np.log(precision).sum(axis=1) - np.log(total) - square)
    mass = np.cumsum(np.exp(log_density - log_density.max()))
    return float(np.exp(np.interp(0.5 * mass[-1], mass, log_t))) * unit**2
