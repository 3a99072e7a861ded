"""Functions drawn from the RKHS of a kernel with a chosen norm: what Theorem 1 is about.

f = sum_j a_j k(·, z_j) has the norm sqrt(a'Ka), and by (A2) that is all the theory knows of it. The
noise is R-sub-Gaussian (A3) and has the standard deviation R, normal or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import Any, Literal

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.validate import check_amount, whole
from regretless.errors import ConfigError
from regretless.kernels import Kernel
from regretless.space import Float, Space

Array = NDArray[np.float64]
Noise = Literal["normal", "uniform", "rademacher"]
NOISES: tuple[Noise, ...] = ("normal", "uniform", "rademacher")

_SCAN, _CLIMBS = 4096, 24  # a maximum on the cube: points looked at, hills climbed


def draw_noise(kind: Noise, R: float, size: int, rng: Generator) -> Array:
    """Noise of mean 0 and standard deviation R, with E exp(t eps) <= exp(t^2 R^2 / 2), (A3).

    Uniform noise reaches from -√3 R to √3 R, Rademacher noise is -R or R: both keep to the same
    exponent, because sinh(u)/u <= exp(u^2/6) and cosh(u) <= exp(u^2/2).
    """
    if kind == "normal":
        return R * rng.standard_normal(size)
    if kind == "uniform":
        return R * sqrt(3.0) * rng.uniform(-1.0, 1.0, size)
    if kind == "rademacher":
        return R * rng.choice([-1.0, 1.0], size)
    raise ConfigError(f"noise: need one of {', '.join(NOISES)}, got {kind!r}")


@dataclass(frozen=True, eq=False)
class RKHSFunction:
    """A function on the unit cube with its norm, its maximum and its noise; to be maximised.

    With `levels`, its domain is the grid of so many equidistant levels per dimension, from 0 to 1.
    """

    kernel: Kernel
    centres: Array  # (m, d)
    weights: Array  # (m,)
    f_star: float
    x_star: Array
    R: float = 0.1
    noise: Noise = "normal"
    levels: int | None = None

    @classmethod
    def of(
        cls,
        kernel: Kernel,
        centres: Array,
        weights: Array,
        R: float = 0.1,
        noise: Noise = "normal",
        levels: int | None = None,
    ) -> RKHSFunction:
        """With its maximum searched for: over the whole grid, or on the cube by climbing."""
        if noise not in NOISES:
            raise ConfigError(f"noise: need one of {', '.join(NOISES)}, got {noise!r}")
        check_amount("R", R)
        if levels is not None:
            levels = whole("levels", levels, least=2)
        open_end = cls(kernel, centres, weights, 0.0, centres[0], R, noise, levels)
        x_star = open_end._climbed() if levels is None else open_end._best_of(open_end.grid())
        f_star = float(open_end.f(x_star[None, :])[0])
        return cls(kernel, centres, weights, f_star, x_star, R, noise, levels)

    @property
    def dim(self) -> int:
        return int(self.centres.shape[1])

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"x{i}" for i in range(1, self.dim + 1))

    @property
    def norm(self) -> float:
        """The norm in the RKHS of the kernel: B of (A2)."""
        return sqrt(float(self.weights @ self.kernel.gram(self.centres) @ self.weights))

    def space(self) -> Space:
        step = None if self.levels is None else 1.0 / (self.levels - 1)
        return Space({name: Float(0.0, 1.0, step=step) for name in self.names})

    def grid(self) -> Array:
        """Every point of a finite domain."""
        return self.space().grid()

    def f(self, unit: Array) -> Array:
        """The function without noise, (q, d) → (q,)."""
        return np.asarray(self.kernel.gram(unit, self.centres) @ self.weights)

    def value(self, params: Mapping[str, Any]) -> float:
        """The function without noise at one set of parameters of `space`."""
        x = np.array([[params[name] for name in self.names]], dtype=float)
        return float(self.f(x)[0])

    def evaluate(self, params: Mapping[str, Any], rng: Generator) -> float:
        """One noisy observation."""
        return self.value(params) + float(draw_noise(self.noise, self.R, 1, rng)[0])

    def regret(self, params: Mapping[str, Any], observed: float) -> float:
        """What one evaluation lost, eq. cumreg; `observed` is of no use here."""
        return self.f_star - self.value(params)

    def _best_of(self, points: Array) -> Array:
        return np.asarray(points[int(np.argmax(self.f(points)))])

    def _climbed(self) -> Array:
        """The best of many hill climbs from the best of many points."""
        from scipy.optimize import minimize

        def loss(x: Array) -> tuple[float, Array]:
            k, pullback = self.kernel.cross_vjp(x[None, :], self.centres)
            return -float(k[0] @ self.weights), -pullback(self.weights[None, :])[0]

        scan = np.random.default_rng(0).random((_SCAN, self.dim))
        starts = np.vstack([scan, self.centres])
        starts = starts[np.argsort(-self.f(starts))[:_CLIMBS]]
        bounds = [(0.0, 1.0)] * self.dim
        tops = [minimize(loss, x, jac=True, bounds=bounds, method="L-BFGS-B").x for x in starts]
        return self._best_of(np.vstack([*tops, starts]))


def draw(
    kernel: Kernel,
    dim: int,
    seed: int,
    *,
    B: float = 1.0,
    terms: int = 30,
    R: float = 0.1,
    noise: Noise = "normal",
    levels: int | None = None,
) -> RKHSFunction:
    """A random function of norm B: `terms` uniform centres with normal weights, then scaled."""
    check_amount("B", B, positive=True)
    terms, dim = whole("terms", terms, least=1), whole("dim", dim, least=1)
    rng = np.random.default_rng(seed)
    centres, weights = rng.random((terms, dim)), rng.standard_normal(terms)
    weights *= B / sqrt(float(weights @ kernel.gram(centres) @ weights))
    return RKHSFunction.of(kernel, centres, weights, R, noise, levels)
