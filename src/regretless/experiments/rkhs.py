"""Random test functions from the RKHS of a kernel with a given norm, as Theorem 1 assumes.

f = sum_j a_j k(·, z_j) has the norm sqrt(a'Ka), which is B of (A2).  The noise is R-sub-Gaussian
(A3) and has the standard deviation R.  It may be normal, uniform or Rademacher noise.
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

_SCAN, _CLIMBS = 4096, 24  # search for the maximum: random points, and local searches


def draw_noise(kind: Noise, R: float, size: int, rng: Generator) -> Array:
    """Noise of mean 0 and standard deviation R, with E exp(t eps) <= exp(t^2 R^2 / 2), (A3).

    Uniform noise is between -√3 R and √3 R, and Rademacher noise is -R or R.  Both satisfy (A3),
    because sinh(u)/u <= exp(u^2/6) and cosh(u) <= exp(u^2/2).
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
    """A function on the unit cube to be maximised, with its maximum and its noise."""

    kernel: Kernel
    centres: Array  # (m, d) the z_j
    weights: Array  # (m,) the a_j
    f_star: float  # the maximum
    x_star: Array  # the point of the maximum
    R: float = 0.1  # the standard deviation of the noise
    noise: Noise = "normal"
    levels: int | None = None  # if given, the domain is the grid of so many levels per dimension

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
        """The function with these weights; finds its maximum on the grid or on the cube."""
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
        """The norm of f in the RKHS of the kernel, B of (A2)."""
        return sqrt(float(self.weights @ self.kernel.gram(self.centres) @ self.weights))

    def space(self) -> Space:
        step = None if self.levels is None else 1.0 / (self.levels - 1)
        return Space({name: Float(0.0, 1.0, step=step) for name in self.names})

    def grid(self) -> Array:
        """All points of the domain, if it is finite."""
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
        """The regret of one evaluation, eq. cumreg.  It has no noise, so `observed` is ignored."""
        return self.f_star - self.value(params)

    def _best_of(self, points: Array) -> Array:
        return np.asarray(points[int(np.argmax(self.f(points)))])

    def _climbed(self) -> Array:
        """The best result of local searches that start at the best of many random points."""
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
    """Draw a function of norm B.

    Args:
        kernel: the kernel of the RKHS.
        dim: the number of dimensions.
        seed: the seed of the draw.
        B: the norm.
        terms: the number of terms of the sum, with uniform centres and normal weights.
        R: the standard deviation of the noise.
        noise: "normal", "uniform" or "rademacher".
        levels: if given, the domain is the grid of so many levels per dimension.

    Raises:
        ConfigError: an argument is unknown or out of range.
    """
    check_amount("B", B, positive=True)
    terms, dim = whole("terms", terms, least=1), whole("dim", dim, least=1)
    rng = np.random.default_rng(seed)
    centres, weights = rng.random((terms, dim)), rng.standard_normal(terms)
    weights *= B / sqrt(float(weights @ kernel.gram(centres) @ weights))
    return RKHSFunction.of(kernel, centres, weights, R, noise, levels)
