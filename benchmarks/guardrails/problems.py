"""Random problems with one or two guardrails: a new instance for each seed.

The objective and the metrics are random functions of several shapes, none of them a draw from the
library's model.  Values have mean 0 and sd 1 over the cube before they get their units.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.stats import qmc

import regretless as rl

Array = NDArray[np.float64]
Function = Callable[[Array], Array]

FAMILIES = {
    "active": "one guardrail, which the best point without it breaks",
    "inactive": "one guardrail, which the best point without it keeps",
    "two": "two guardrails, one relative to the baseline; the best point without them breaks one",
    "broken baseline": "one guardrail, which the baseline breaks",
}
BUDGET = 60
_POINTS = 2**13


@dataclass(frozen=True)
class Metric:
    """A metric, its guardrail and its noise."""

    guardrail: rl.AtMost | rl.AtLeast
    function: Function
    noise: float
    level: float  # the limit in the units of the metric

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.asarray(self.guardrail.sign * (self.function(x) - self.level) <= 0)


@dataclass(frozen=True)
class Problem:
    """Something to maximise, with guardrails."""

    dim: int
    f: Function
    noise: float
    metrics: tuple[Metric, ...]
    baseline: Array
    best: float  # of f, where all guardrails hold
    typical: float  # the mean of f where all guardrails hold

    @property
    def space(self) -> rl.Space:
        return rl.Space({f"x{j}": rl.Float(0.0, 1.0) for j in range(self.dim)})

    def holds(self, x: Array) -> NDArray[np.bool_]:
        return np.all([metric.holds(x) for metric in self.metrics], axis=0)


@cache
def problem(family: str, seed: int) -> Problem:
    """The instance of a family."""
    rng = np.random.default_rng([list(FAMILIES).index(family), seed])
    while True:
        made = _drawn(family, rng)
        if made is not None:
            return made


def _drawn(family: str, rng: np.random.Generator) -> Problem | None:
    """A problem, or None if the draw is not of the family."""
    dim = int(rng.integers(2, 5))
    x = qmc.Sobol(dim, seed=rng).random(_POINTS)
    f = _function(rng, x)
    count = 2 if family == "two" else 1
    metrics, clear = [], np.ones(len(x), dtype=bool)
    share = rng.uniform(0.4, 0.8) if family == "inactive" else rng.uniform(0.25, 0.6)
    raw = [_function(rng, x) for _ in range(count)]
    levels = [float(np.quantile(g(x), share ** (1.0 / count))) for g in raw]
    for g, level in zip(raw, levels, strict=True):
        clear &= g(x) <= level - 0.4
    allowed = np.all([g(x) <= level for g, level in zip(raw, levels, strict=True)], axis=0)
    value = f(x)
    free = int(np.argmax(value))
    if bool(allowed[free]) != (family == "inactive") or allowed.mean() < 0.1:
        return None
    places = clear if family != "broken baseline" else _broken(raw[0](x) - levels[0])
    usual = (value <= np.quantile(value, 0.6)) & (value >= np.quantile(value, 0.1))
    rows = np.flatnonzero(places & usual)
    if not len(rows):
        return None
    baseline = x[int(rng.choice(rows))]
    for k, (g, level) in enumerate(zip(raw, levels, strict=True)):
        metrics.append(_metric(k, g, level, baseline, rng))
    made = Problem(dim, f, rng.uniform(0.1, 0.4), tuple(metrics), baseline, 0.0, 0.0)
    best, typical = _best(made, x, rng), float(value[allowed].mean())
    return Problem(dim, f, made.noise, made.metrics, baseline, best, typical)


def _broken(excess: Array) -> NDArray[np.bool_]:
    return (excess >= 0.2) & (excess <= 0.8)


def _metric(k: int, g: Function, level: float, baseline: Array, rng: np.random.Generator) -> Metric:
    """The first is a latency with a fixed limit; the second a rate, relative to the baseline."""
    noise = rng.uniform(0.05, 0.3)
    if k == 0:
        unit = float(np.exp(rng.uniform(0.0, 5.0)))
        limit = unit * (5.0 + level)
        return Metric(
            rl.AtMost("latency", limit), lambda x: unit * (5.0 + g(x)), unit * noise, limit
        )
    here = 1000.0 - 150.0 * float(g(baseline[None, :])[0])
    limit = 1000.0 - 150.0 * level
    guardrail = rl.AtLeast("rate", limit / here, of="baseline")
    return Metric(guardrail, lambda x: 1000.0 - 150.0 * g(x), 150.0 * noise, limit)


def _function(rng: np.random.Generator, x: Array) -> Function:
    """A random function with mean 0 and sd 1 over the points x."""
    dim = x.shape[1]
    raw = (_waves, _bowl, _bumps)[int(rng.integers(3))](rng, dim)
    values = raw(x)
    mean, sd = float(values.mean()), float(values.std())
    return lambda at: (raw(at) - mean) / sd


def _waves(rng: np.random.Generator, dim: int) -> Function:
    """A trend and a few waves of different lengths."""
    lengths = np.sqrt(dim) * np.exp(rng.uniform(np.log(0.25), np.log(1.0), 8))
    directions = rng.standard_normal((8, dim)) / lengths[:, None]
    phases, trend = rng.uniform(0, 2 * np.pi, 8), rng.standard_normal(dim)
    heights = rng.standard_normal(8) * np.minimum(1.0, lengths)
    return lambda x: np.cos(x @ directions.T + phases) @ heights + x @ trend


def _bowl(rng: np.random.Generator, dim: int) -> Function:
    """A quadratic with a ripple."""
    centre = rng.uniform(0.0, 1.0, dim)
    axes = rng.standard_normal((dim, dim)) * np.exp(rng.normal(0.0, 0.5, dim))
    ripple, wave = rng.uniform(0.0, 0.15), rng.standard_normal(dim) * 6.0
    sign = 1.0 if rng.random() < 0.5 else -1.0

    def bowl(x: Array) -> Array:
        away = (x - centre) @ axes
        return sign * (away**2).sum(axis=1) + ripple * np.sin(x @ wave)

    return bowl


def _bumps(rng: np.random.Generator, dim: int) -> Function:
    """Hills and valleys of different widths on a slope."""
    centres, heights = rng.uniform(0.0, 1.0, (6, dim)), rng.standard_normal(6)
    widths = np.sqrt(dim) * rng.uniform(0.15, 0.5, 6)
    trend = rng.standard_normal(dim)

    def bumps(x: Array) -> Array:
        square = ((x[:, None, :] - centres) ** 2).sum(axis=2)
        return np.exp(-0.5 * square / widths**2) @ heights + 0.5 * x @ trend

    return bumps


def _best(made: Problem, x: Array, rng: np.random.Generator) -> float:
    """The best value where all guardrails hold: the best of many points, refined."""
    points = x[made.holds(x)]
    centres = points[np.argsort(-made.f(points))[:16]]
    for step in 0.1 * 0.6 ** np.arange(14):
        near = centres[:, None, :] + step * rng.standard_normal((16, 64, made.dim))
        near = np.clip(np.vstack([centres, near.reshape(-1, made.dim)]), 0.0, 1.0)
        near = near[made.holds(near)]
        centres = near[np.argsort(-made.f(near))[:16]]
        if len(centres) < 16:
            centres = np.resize(centres, (16, made.dim))
    return float(made.f(centres).max())
