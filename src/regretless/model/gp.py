"""The exact Gaussian process posterior, with replicates merged (eqs. mun, kerneln, postpwd).

f ~ GP(mean, omega^2 k).  An observation has the noise variance omega^2 lam^2 / weight, or a known
one.  sigma is the posterior sd in units of omega, as in the paper; the policies multiply by omega.
C = K + D is the covariance of the observations in units of omega^2, with the diagonal noise D.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import sqrt
from typing import ClassVar

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array, rows_among
from regretless.kernels import Features, Pullback
from regretless.model.data import Data
from regretless.model.evidence import fitted_mean, log_evidence
from regretless.model.factor import Factor
from regretless.model.hyper import Hyper

_BLOCK = 2**15  # numbers in a block of work, so that it fits the cache and memory is reused
_LEAST_ROWS = 32  # in a block
_CANCELLATION_NOISE = (
    1e6  # with a larger noise variance (in units of omega^2), C - D loses the digits of K
)
_LEAST_NOISE_IN_SINGLE = 1e-5  # in units of omega^2; an sd near such a point is right to 1 %
_TINY = 1e-14  # smallest posterior variance (in units of omega^2); rounding may make it negative


@dataclass(frozen=True, eq=False)
class GP:
    """The posterior of f given data; the library's `Posterior`.

    A GP is frozen: `add` returns a new one that shares most of its memory.
    """

    data: Data
    hyper: Hyper
    factor: Factor
    _least_rows: ClassVar[int] = _LEAST_ROWS

    @classmethod
    def of(cls, data: Data, hyper: Hyper) -> GP:
        """The posterior given data, with these hyper-parameters."""
        gram = data.covariance(hyper.kernel.gram(data.x), hyper.omega2)
        factor = Factor.of(gram, hyper.noise(data), inverted=True)
        return cls(data, hyper, factor)

    @property
    def points(self) -> Array:
        return self.data.x

    @property
    def sample_means(self) -> Array:
        return self.data.y

    @property
    def omega(self) -> float:
        return sqrt(self.hyper.omega2)

    @property
    def omega2(self) -> float:
        return self.hyper.omega2

    @property
    def jitter(self) -> float:
        return self.factor.jitter

    @property
    def width(self) -> int:
        return len(self.data)

    def scales(self, dim: int) -> Array:
        return self.hyper.kernel.scales(dim)

    @property
    def noise_sd(self) -> float:
        """omega lam, the noise sd of one observation of weight 1."""
        return sqrt(self.hyper.omega2 * self.hyper.lam2)

    def add(self, x: Array, y: float, weight: float = 1.0, variance: float | None = None) -> GP:
        """The posterior with one more observation, in O(m^2) for m distinct points."""
        data, row = self.data.add(x, y, weight, variance)
        noise = self.hyper.noise(data)
        if len(data) > len(self.data):
            column = self.hyper.kernel.gram(self.data.x, x[None, :])[:, 0]
            factor = self.factor.append(column, self.hyper.kernel.variance + float(noise[row]))
        else:
            delta = float(noise[row] - self.hyper.noise(self.data)[row])
            factor = self.factor.shift_diagonal(row, delta)
        return GP.of(data, self.hyper) if factor.worn else GP(data, self.hyper, factor)

    def expecting(self, x: Array, weight: float = 1.0) -> GP:
        """The posterior as if x had been observed, with a result that equals its mean."""
        mu, _ = self.predict(x[None, :])
        return self.add(x, float(mu[0]), weight)

    def expecting_all(self, x: Array, weights: Array) -> GP:
        """The posterior as if all rows of x had been observed, with results that equal its means.

        It is that of `expecting` for one after the other.  But their rows are added to the factor
        together, so that q rows take little more time than one.
        """
        if self.data.swell is not None:
            gp = self
            for point, weight in zip(x, weights.tolist(), strict=True):
                gp = gp.expecting(point, weight)
            return gp
        data, before = self.data.expecting(x, self._means(x), weights), len(self.data)
        kernel, noise = self.hyper.kernel, self.hyper.noise(data)
        factor = self.factor
        apart = noise[:before] - self.hyper.noise(self.data)
        again = np.flatnonzero(apart)
        if len(again):
            factor = factor.shift_diagonals(again.tolist(), apart[again].tolist())
        if len(data) > before:
            new = data.x[before:]
            corner = kernel.gram(new) + np.diag(noise[before:])
            factor = factor.extended(kernel.gram(self.data.x, new), corner)
        if factor.worn:
            return GP.of(data, self.hyper)
        out = GP(data, self.hyper, factor)
        # The results equal the means, so that the mean of f is the same function.
        vars(out)["_weights"] = self.mean, np.append(self.alpha, np.zeros(len(data) - before))
        return out

    @cached_property
    def in_single(self) -> GP:
        """The same posterior, with sds from products in single precision: half of the time.

        Means and covariances stay exact, and so do all numbers at the data.  It is the posterior
        itself if the noise is so small that single precision can't tell it from 0.
        """
        noise = self.hyper.noise(self.data)
        if not len(noise) or noise.min() < _LEAST_NOISE_IN_SINGLE or type(self) is not GP:
            return self
        out = _InSingle(self.data, self.hyper, self.factor)
        vars(out).update(_weights=self._weights, at_data=self.at_data)
        return out

    @property
    def _products(self) -> Factor:
        """What sds are computed with."""
        return self.factor

    # -- posterior ---------------------------------------------------------------------------------

    @cached_property
    def mean(self) -> float:
        """The constant prior mean."""
        return self._weights[0]

    @cached_property
    def alpha(self) -> Array:
        """C^-1 (y - mean)."""
        return self._weights[1]

    @cached_property
    def _weights(self) -> tuple[float, Array]:
        if self.hyper.mean_precision is None:
            return 0.0, self.factor.solve(self.data.y)
        return fitted_mean(self.factor, self.data.y, self.hyper.mean_precision)

    def _means(self, x: Array) -> Array:
        """mu_n(x), in O(m) for each row of x."""
        return self.mean + self.hyper.kernel.gram(x, self.data.x) @ self.alpha

    def predict(self, x: Array) -> tuple[Array, Array]:
        """mu_n(x) and sigma_n(x), eqs. mun and postpwd; the sd of f is omega sigma."""

        def mean_and_quad(part: Array) -> Array:
            k = self.hyper.kernel.gram(part, self.data.x)
            return np.stack([k @ self.alpha, self._products.quad(k.T)])

        mu, quad = _in_blocks(mean_and_quad, x, len(self.data), self._least_rows)
        return self.mean + mu, _sd(self.hyper.kernel.variance - quad)

    def predict_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """mu, sigma, and (a, b) -> a dmu/dx + b dsigma/dx row by row."""
        k, pullback = self.hyper.kernel.cross_vjp(x, self.data.x)
        quad, solved = self._products.quad_and_solve(k.T)
        sigma = _sd(self.hyper.kernel.variance - quad)

        def gradient(a: Array, b: Array) -> Array:
            return pullback(a[:, None] * self.alpha - (b / sigma)[:, None] * solved.T)

        return self.mean + k @ self.alpha, sigma, gradient

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        """mu and sigma at the rows of the data.

        K = C - D, so mu = y - D alpha and K - K C^-1 K = D - D C^-1 D.  This needs no kernel.
        """
        if self.data.swell is not None:
            return self.predict(self.data.x)
        noise = self.hyper.noise(self.data) + self.factor.jitter
        loud = noise > _CANCELLATION_NOISE
        quiet = np.where(loud, 0.0, noise)
        variance = quiet - quiet * quiet * self.factor.inverse_diagonal()
        mu, sigma = self.data.y - quiet * self.alpha, _sd(variance)
        if loud.any():
            mu[loud], sigma[loud] = self.predict(self.data.x[loud])
        return mu, sigma

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        """k_n(x, z), eq. kerneln."""
        kernel = self.hyper.kernel
        kx = kernel.gram(self.data.x, x)
        kz = kx if z is None else kernel.gram(self.data.x, z)
        return np.asarray(kernel.gram(x, z) - self.factor.cross(kx, kz))

    def shared(self, point: Array, weights: Array | None = None) -> SharedCovariance:
        """k_n(., point), the covariance of f with f at the point, as a function.

        With `weights`, it is the weighted sum over several points.
        """
        if weights is None:
            return SharedCovariance(self, point[None, :], np.ones(1))
        return SharedCovariance(self, point, weights, rows_among(point, self.data.x))

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> GPPath:
        """Draw f as one continuous function, by pathwise conditioning (Matheron's rule).

        The draw is from GP(mu_n, (scale omega)^2 k_n).
        """
        basis = self.hyper.kernel.features(rng, features)
        coefficients = rng.standard_normal(features) / sqrt(features)
        noise = self.hyper.noise(self.data)
        error = self._errors(noise, rng)
        prior = _in_blocks(lambda x: basis(x)[0] @ coefficients, self.data.x, features)
        wide = self.omega * scale
        correction = self.alpha - wide * self.factor.solve(prior + error)
        # K = C - D as in `at_data`, so the draw of the prior cancels at the data.
        at_data = self.data.y - wide * error - (noise + self.factor.jitter) * correction
        path = GPPath(self, basis, wide * coefficients, correction, at_data)
        loud = noise > _CANCELLATION_NOISE
        if self.data.swell is not None:
            loud[:] = True
        if loud.any():
            at_data[loud] = path(self.data.x[loud])
        return path

    def _errors(self, noise: Array, rng: Generator) -> Array:
        """A draw of the noise of the rows, in units of omega."""
        drawn = rng.standard_normal(len(self.data))
        if self.data.swell is None:
            return np.asarray(np.sqrt(noise) * drawn)
        gram = self.hyper.kernel.gram(self.data.x)
        values, axes = np.linalg.eigh(self.data.covariance(gram, self.omega2) - gram)
        shared = axes @ (np.sqrt(np.maximum(values, 0.0)) * drawn)
        return np.asarray(shared + np.sqrt(noise) * rng.standard_normal(len(self.data)))

    # -- diagnostics -------------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """The residuals y_i - (prediction without row i), and the sds that the model expects.

        A fitted mean is fitted again without the row.  The closed form (Dubrule 1983) uses the
        precision matrix of y with the mean integrated out.
        """
        precision = self.factor.inverse()
        kappa = self.hyper.mean_precision
        if kappa is not None:
            ones = precision.sum(axis=1)
            precision -= np.outer(ones, ones) / (kappa + ones.sum())
        pivot = np.maximum(np.diag(precision), 1e-300)
        return precision @ self.data.y / pivot, self.omega / np.sqrt(pivot)

    def calibration(self, levels: tuple[float, ...] = (0.5, 0.8, 0.95)) -> dict[float, float]:
        """The share of left-out rows that are inside their central intervals, for each level."""
        from scipy.special import ndtri

        if not len(self.data):
            return {}
        residual, sd = self.leave_one_out()
        z = np.abs(residual) / sd
        return {p: float(np.mean(z <= ndtri(0.5 + p / 2))) for p in levels}

    @cached_property
    def information(self) -> float:
        """I(Y; F) of all observations and f, eq. infogain: log det(I + D^-1 K) / 2 for noise D."""
        return 0.5 * (self.factor.logdet - float(np.log(self.hyper.noise(self.data)).sum()))

    @cached_property
    def log_evidence(self) -> float:
        """log p(y) of all observations, including replicates."""
        residual = self.data.y - self.mean
        return log_evidence(
            self.data, self.hyper, self.factor.logdet, float(residual @ self.factor.solve(residual))
        )


class _InSingle(GP):
    """See `GP.in_single`."""

    _least_rows: ClassVar[int] = 128  # a product of more rows takes less time for each

    @cached_property
    def _products(self) -> Factor:
        return self.factor.in_single


@dataclass(frozen=True, eq=False)
class GPPath:
    """A function drawn from the posterior: a draw of the prior plus a correction by the data."""

    gp: GP
    basis: Features  # random Fourier features
    coefficients: Array  # of the features
    correction: Array  # weights of k(., x_i) for the rows x_i of the data
    at_data: Array  # the values of the function at the rows of the data

    @property
    def width(self) -> int:
        return len(self.coefficients) + len(self.correction)

    def scales(self, dim: int) -> Array:
        return self.gp.scales(dim)

    def __call__(self, x: Array) -> Array:
        def values(part: Array) -> Array:
            k = self.gp.hyper.kernel.gram(part, self.gp.data.x)
            prior = self.basis(part)[0] @ self.coefficients
            return np.asarray(self.gp.mean + prior + k @ self.correction)

        return _in_blocks(values, x, max(len(self.coefficients), len(self.correction)))

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """The values and the gradients at the rows of x."""
        phi, pull_prior = self.basis(x)
        k, pull_data = self.gp.hyper.kernel.cross_vjp(x, self.gp.data.x)
        value = self.gp.mean + phi @ self.coefficients + k @ self.correction
        rows = np.ones((len(x), 1))
        gradient = pull_prior(rows * self.coefficients) + pull_data(rows * self.correction)
        return value, gradient


@dataclass(frozen=True, eq=False)
class SharedCovariance:
    """The sum of w_i k_n(x, z_i), eq. kerneln: a weighted sum of k(x, .) at data and points z_i."""

    gp: GP
    points: Array
    weights: Array
    rows: NDArray[np.intp] | None = None  # the row of each point in the data, -1 for none

    @cached_property
    def _solved(self) -> Array:
        """C^-1 k(data, points) w."""
        column = self.gp.hyper.kernel.gram(self.gp.data.x, self.points)
        return self.gp.factor.solve(column @ self.weights)

    @cached_property
    def _sum(self) -> tuple[Array, Array]:
        """The centres of the kernels, and their weights.  No point of the data is there twice."""
        x, weights = self.gp.data.x, -self._solved
        if self.rows is None:
            return np.vstack([x, self.points]), np.append(weights, self.weights)
        known = self.rows >= 0
        np.add.at(weights, self.rows[known], self.weights[known])
        return np.vstack([x, self.points[~known]]), np.append(weights, self.weights[~known])

    @cached_property
    def at_data(self) -> Array:
        """The values at the rows of the data.  K = C - D, so k - K C^-1 k = D C^-1 k."""
        if self.gp.data.swell is not None:
            return self(self.gp.data.x)
        return (self.gp.hyper.noise(self.gp.data) + self.gp.factor.jitter) * self._solved

    @cached_property
    def variance(self) -> float:
        """The variance of the weighted sum; that of a single point is k_n(point, point)."""
        if self.rows is None:
            return float(self.gp.predict(self.points)[1][0] ** 2)
        known = self.rows >= 0
        total = float(self.weights[known] @ self.at_data[self.rows[known]])
        if not known.all():
            total += float(self.weights[~known] @ self(self.points[~known]))
        return max(total, 0.0)

    def __call__(self, x: Array) -> Array:
        centres, weights = self._sum
        return self.gp.hyper.kernel.gram(x, centres) @ weights

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        """The values at the rows of x, and the function a -> a dk_n/dx, row by row."""
        centres, weights = self._sum
        k, pullback = self.gp.hyper.kernel.cross_vjp(x, centres)
        return k @ weights, lambda a: pullback(a[:, None] * weights)

    def blended(self, share: float, lean: float) -> Blend:
        """share times the covariance, plus lean times the posterior mean, as one function."""
        centres, weights = self._sum
        weights = share * weights
        weights[: len(self.gp.data)] += lean * self.gp.alpha
        return Blend(self.gp, centres, weights, lean * self.gp.mean)


@dataclass(frozen=True, eq=False)
class Blend:
    """A constant plus a weighted sum of k(., z_i)."""

    gp: GP
    centres: Array
    weights: Array
    constant: float

    def __call__(self, x: Array) -> Array:
        return self.constant + self.gp.hyper.kernel.gram(x, self.centres) @ self.weights

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        """The values at the rows of x, and the function a -> a times the gradient, by row."""
        k, pullback = self.gp.hyper.kernel.cross_vjp(x, self.centres)
        value = self.constant + k @ self.weights
        return value, lambda a: pullback(a[:, None] * self.weights)


def _in_blocks(
    function: Callable[[Array], Array], x: Array, width: int, least: int = _LEAST_ROWS
) -> Array:
    """function(x), computed for blocks of rows, because it needs len(x) times `width` numbers."""
    step = max(least, _BLOCK // max(1, width))
    parts = [function(x[i : i + step]) for i in range(0, len(x), step)]
    if len(parts) == 1:
        return parts[0]
    return np.concatenate(parts, axis=-1) if parts else function(x)


def _sd(variance: Array) -> Array:
    return np.sqrt(np.maximum(variance, _TINY))
