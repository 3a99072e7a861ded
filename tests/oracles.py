"""Textbook algebra to hold the fast paths against: every observation a row, every matrix dense.

Slow on purpose: nothing is collapsed, updated or shared, and only numpy.linalg is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless.model import Data, Hyper
from regretless.space import Space

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Observation:
    x: Array
    y: float
    weight: float = 1.0
    variance: float | None = None


@dataclass(frozen=True)
class DenseGP:
    """y = mean + f + noise over all observations, with the mean given or fitted as `hyper` says."""

    observations: list[Observation]
    hyper: Hyper

    @property
    def x(self) -> Array:
        return np.array([o.x for o in self.observations])

    @property
    def y(self) -> Array:
        return np.array([o.y for o in self.observations])

    @property
    def noise(self) -> Array:
        """Variances, in the units of y."""
        unit = self.hyper.omega2 * self.hyper.lam2
        return np.array(
            [unit / o.weight if o.variance is None else o.variance for o in self.observations]
        )

    @property
    def signal(self) -> Array:
        return self.hyper.omega2 * self.hyper.kernel.gram(self.x)

    @property
    def cov(self) -> Array:
        return self.signal + np.diag(self.noise)

    @property
    def mean(self) -> float:
        """Generalised least squares, shrunk by a prior N(0, omega2 / mean_precision)."""
        kappa = self.hyper.mean_precision
        if kappa is None:
            return 0.0
        ones = np.ones(len(self.y))
        solved = np.linalg.solve(self.cov, ones)
        return float(solved @ self.y / (solved @ ones + kappa / self.hyper.omega2))

    def predict(self, x: Array, z: Array | None = None) -> tuple[Array, Array]:
        """mu(x), and the covariance of f(x) and f(z), in the units of y."""
        k = self.hyper.kernel.gram
        omega2, z = self.hyper.omega2, x if z is None else z
        kx, kz = omega2 * k(x, self.x), omega2 * k(z, self.x)
        mu = self.mean + kx @ np.linalg.solve(self.cov, self.y - self.mean)
        return mu, omega2 * k(x, z) - kx @ np.linalg.solve(self.cov, kz.T)

    def log_evidence(self, penalised: bool = False) -> float:
        """log N(y | mean, cov); `penalised` adds what a prior on the mean takes off."""
        r = self.y - self.mean
        sign, logdet = np.linalg.slogdet(2 * np.pi * self.cov)
        assert sign == 1
        value = -0.5 * (logdet + r @ np.linalg.solve(self.cov, r))
        if penalised and self.hyper.mean_precision is not None:
            value -= 0.5 * self.hyper.mean_precision * self.mean**2 / self.hyper.omega2
        return float(value)

    def information(self) -> float:
        ratio = np.eye(len(self.y)) + self.signal / self.noise[:, None]
        return float(0.5 * np.linalg.slogdet(ratio)[1])

    def leave_out(self, point: Array, known: bool) -> tuple[float, float]:
        """Mean and variance of f at `point` from the observations elsewhere, the mean fitted again.

        The variance counts the mean's own: what ordinary kriging calls the kriging variance.
        """
        rest = [
            o
            for o in self.observations
            if not (np.array_equal(o.x, point) and (o.variance is not None) == known)
        ]
        gp = DenseGP(rest, self.hyper)
        mu, var = gp.predict(point[None, :])
        if self.hyper.mean_precision is None:
            return float(mu[0]), float(var[0, 0])
        k = self.hyper.omega2 * self.hyper.kernel.gram(point[None, :], gp.x)[0]
        ones = np.ones(len(rest))
        precision = ones @ np.linalg.solve(gp.cov, ones)
        precision += self.hyper.mean_precision / self.hyper.omega2
        leverage = 1.0 - k @ np.linalg.solve(gp.cov, ones)
        return float(mu[0]), float(var[0, 0] + leverage**2 / precision)

    def collapsed(self) -> Data:
        """The same observations as the library keeps them."""
        data = Data.empty(len(self.observations[0].x))
        for o in self.observations:
            data, _ = data.add(o.x, o.y, o.weight, o.variance)
        return data

    def scaled(self, factor: float) -> DenseGP:
        return replace(self, observations=[replace(o, y=factor * o.y) for o in self.observations])


def slopes(function: Callable[[Array], float], at: Array, step: float = 1e-5) -> Array:
    """Central differences of fourth order, one entry of `at` at a time."""
    out = np.empty(len(at))
    for i in range(len(at)):
        e = np.zeros(len(at))
        e[i] = step
        near = function(at + e) - function(at - e)
        far = function(at + 2 * e) - function(at - 2 * e)
        out[i] = (8 * near - far) / (12 * step)
    return out


def apart(actual: Array | float, wanted: Array | float) -> float:
    """The largest error, relative to the largest wanted number."""
    actual, wanted = np.asarray(actual), np.asarray(wanted)
    assert actual.shape == wanted.shape, (actual.shape, wanted.shape)
    scale = np.abs(wanted).max(initial=0.0)
    return float(np.abs(actual - wanted).max(initial=0.0) / (scale or 1.0))


def is_near(space: Space, one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Whether two points are so close that a rejection of one forbids the other."""
    shares = []
    for name, parameter in space.parameters.items():
        if not parameter.has_order:
            if one[name] != other[name]:
                return False
        elif parameter.scale.count != 1:
            shares.append(parameter.encode(one[name]) - parameter.encode(other[name]))
    return not shares or float(np.sqrt(np.mean(np.square(shares)))) < 0.1 * (1 - 1e-9)
