"""The exact Gaussian process on collapsed replicates (eqs. mun, kerneln, postpwd).

f ~ GP(mean, omega^2 k); an observation has noise variance omega^2 lam^2 / weight, or a known one.
Observations at one point are kept as one row (mean, weight, scatter), so every cost grows with the
number of distinct points; the likelihood is that of all observations, exactly:
    sum_j w_j (y_j - f)^2 = scatter + (sum_j w_j) (ybar - f)^2.
sigma is the posterior sd in units of omega, as in the paper; the policies multiply by omega.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log, pi, sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless.kernels import Features, Kernel, Pullback
from regretless.numerics import Array, Factor

_BLOCK = 2**15  # numbers that are worked on at a time: what fits a cache, and needs no fresh memory
_LOUD = 1e6  # noise variance (unit signal) from which on C - D would cancel what is left of K
_DEAF = 1e150  # more would tell as little, and overflow
_TINY = 1e-14  # least posterior variance (unit signal): rounding may take it below zero

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
            precision = np.clip(scale * scale * self.weight, 1.0 / _DEAF, _DEAF)
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
    return 1.0 / min(max(variance, 1.0 / _DEAF), _DEAF)


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


@dataclass(frozen=True)
class Hyper:
    """What a GP is given besides data: kernel, noise ratio lam^2, signal omega^2, the mean's rule.

    `mean_precision` None is the paper's zero mean; a number fits a constant, with a normal prior of
    variance omega^2 / mean_precision around 0 (0: no prior, generalised least squares).
    """

    kernel: Kernel
    lam2: float
    omega2: float
    mean_precision: float | None = None

    def noise(self, data: Data) -> Array:
        """The diagonal that noise adds, in units of omega^2."""
        return np.minimum(np.where(data.known, 1.0 / self.omega2, self.lam2) / data.weight, _DEAF)


@dataclass(frozen=True, eq=False)
class GP:
    """The posterior given data.  Frozen: `add` returns the next one and shares what it can."""

    data: Data
    hyper: Hyper
    factor: Factor

    @classmethod
    def of(cls, data: Data, hyper: Hyper) -> GP:
        factor = Factor.of(hyper.kernel.gram(data.x), hyper.noise(data), inverted=True)
        return cls(data, hyper, factor)

    @property
    def omega(self) -> float:
        return sqrt(self.hyper.omega2)

    @property
    def noise_sd(self) -> float:
        """The sd of one observation of weight 1: omega lam."""
        return sqrt(self.hyper.omega2 * self.hyper.lam2)

    def add(self, x: Array, y: float, weight: float = 1.0, variance: float | None = None) -> GP:
        """With one more observation, in O(m^2): a new row, or a smaller noise in an old one."""
        data, row = self.data.add(x, y, weight, variance)
        noise = self.hyper.noise(data)
        if len(data) > len(self.data):
            column = self.hyper.kernel.gram(self.data.x, x[None, :])[:, 0]
            factor = self.factor.append(column, 1.0 + float(noise[row]))
        else:
            delta = float(noise[row] - self.hyper.noise(self.data)[row])
            factor = self.factor.shift_diagonal(row, delta)
        return GP.of(data, self.hyper) if factor.worn else GP(data, self.hyper, factor)

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
        return _fitted_mean(self.factor, self.data.y, self.hyper.mean_precision)

    def posterior(self, x: Array) -> tuple[Array, Array]:
        """mu_n(x) and sigma_n(x), eqs. mun and postpwd; the sd of f is omega * sigma."""

        def mean_and_quad(part: Array) -> Array:
            k = self.hyper.kernel.gram(part, self.data.x)
            return np.stack([k @ self.alpha, self.factor.quad(k.T)])

        mu, quad = _in_blocks(mean_and_quad, x, len(self.data))
        return self.mean + mu, _sd(quad)

    def posterior_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """mu, sigma, and (a, b) -> a dmu/dx + b dsigma/dx row by row."""
        k, pullback = self.hyper.kernel.cross_vjp(x, self.data.x)
        quad, solved = self.factor.quad_and_solve(k.T)
        sigma = _sd(quad)

        def gradient(a: Array, b: Array) -> Array:
            return pullback(a[:, None] * self.alpha - (b / sigma)[:, None] * solved.T)

        return self.mean + k @ self.alpha, sigma, gradient

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        """mu and sigma at the rows of the data, without the kernel: K = C - D for the noise D, so
        mu = y - D alpha and K - K C^-1 K = D - D C^-1 D."""
        noise = self.hyper.noise(self.data) + self.factor.jitter
        loud = noise > _LOUD
        quiet = np.where(loud, 0.0, noise)
        variance = quiet - quiet * quiet * self.factor.inverse_diagonal()
        mu, sigma = self.data.y - quiet * self.alpha, np.sqrt(np.maximum(variance, _TINY))
        if loud.any():
            mu[loud], sigma[loud] = self.posterior(self.data.x[loud])
        return mu, sigma

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        """k_n(x, z), eq. kerneln."""
        kernel = self.hyper.kernel
        kx = kernel.gram(self.data.x, x)
        kz = kx if z is None else kernel.gram(self.data.x, z)
        return np.asarray(kernel.gram(x, z) - self.factor.cross(kx, kz))

    def shared(self, point: Array) -> Shared:
        """k_n(., point): what f has in common with f there."""
        return Shared(self, point)

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> Path:
        """A draw of f as one continuous function, by pathwise conditioning (Matheron's rule).

        `scale` widens the posterior around its mean: a draw from GP(mu_n, (scale omega)^2 k_n).
        """
        basis = self.hyper.kernel.features(rng, features)
        coefficients = rng.standard_normal(features) / sqrt(features)
        noise = self.hyper.noise(self.data)
        error = np.sqrt(noise) * rng.standard_normal(len(self.data))
        prior = _in_blocks(lambda x: basis(x)[0] @ coefficients, self.data.x, features)
        wide = self.omega * scale
        correction = self.alpha - wide * self.factor.solve(prior + error)
        # As in `at_data`, K = C - D: what the prior adds at the data, its correction takes away.
        at_data = self.data.y - wide * error - (noise + self.factor.jitter) * correction
        path = Path(self, basis, wide * coefficients, correction, at_data)
        loud = noise > _LOUD
        if loud.any():
            at_data[loud] = path(self.data.x[loud])
        return path

    # -- how well it fits --------------------------------------------------------------------------

    def leave_one_out(self) -> tuple[Array, Array]:
        """Residual y_i - prediction without row i, and the sd it should have, in closed form.

        A fitted mean is fitted again without the row (Dubrule 1983): that is what the precision
        matrix of y with the mean integrated out gives.
        """
        precision = self.factor.inverse()
        kappa = self.hyper.mean_precision
        if kappa is not None:
            ones = precision.sum(axis=1)
            precision -= np.outer(ones, ones) / (kappa + ones.sum())
        pivot = np.maximum(np.diag(precision), 1e-300)
        return precision @ self.data.y / pivot, self.omega / np.sqrt(pivot)

    def calibration(self, levels: tuple[float, ...] = (0.5, 0.8, 0.95)) -> dict[float, float]:
        """The share of left-out rows inside their central intervals, by level; {} without rows."""
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
        """log p(y), of all observations, replicates included."""
        residual = self.data.y - self.mean
        return _log_evidence(
            self.data, self.hyper, self.factor.logdet, float(residual @ self.factor.solve(residual))
        )


@dataclass(frozen=True, eq=False)
class Path:
    """A sampled function: a random Fourier prior plus the data's correction."""

    gp: GP
    basis: Features
    coefficients: Array
    correction: Array
    at_data: Array  # its values at the rows of the data

    def __call__(self, x: Array) -> Array:
        def values(part: Array) -> Array:
            k = self.gp.hyper.kernel.gram(part, self.gp.data.x)
            prior = self.basis(part)[0] @ self.coefficients
            return np.asarray(self.gp.mean + prior + k @ self.correction)

        return _in_blocks(values, x, max(len(self.coefficients), len(self.correction)))

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """The path and its gradient, row by row."""
        phi, pull_prior = self.basis(x)
        k, pull_data = self.gp.hyper.kernel.cross_vjp(x, self.gp.data.x)
        value = self.gp.mean + phi @ self.coefficients + k @ self.correction
        rows = np.ones((len(x), 1))
        gradient = pull_prior(rows * self.coefficients) + pull_data(rows * self.correction)
        return value, gradient


@dataclass(frozen=True, eq=False)
class Shared:
    """k_n(x, point) for one point, eq. kerneln: a sum of k(x, .) over the data and the point."""

    gp: GP
    point: Array

    @cached_property
    def _solved(self) -> Array:
        """C^-1 k(data, point)."""
        column = self.gp.hyper.kernel.gram(self.gp.data.x, self.point[None, :])
        return self.gp.factor.solve(column[:, 0])

    @cached_property
    def _weights(self) -> Array:
        return np.append(-self._solved, 1.0)

    @cached_property
    def _centres(self) -> Array:
        return np.vstack([self.gp.data.x, self.point])

    @cached_property
    def at_data(self) -> Array:
        """As in `GP.at_data`, K = C - D: k - K C^-1 k = D C^-1 k."""
        return (self.gp.hyper.noise(self.gp.data) + self.gp.factor.jitter) * self._solved

    @cached_property
    def variance(self) -> float:
        """At the point itself."""
        return float(self.gp.posterior(self.point[None, :])[1][0] ** 2)

    def __call__(self, x: Array) -> Array:
        return self.gp.hyper.kernel.gram(x, self._centres) @ self._weights

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        """Its values, and a -> a dk_n/dx row by row."""
        k, pullback = self.gp.hyper.kernel.cross_vjp(x, self._centres)
        return k @ self._weights, lambda a: pullback(a[:, None] * self._weights)


# --- evidence -------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Evidence:
    """The (penalised) log evidence of a kernel and a noise ratio, and its slopes."""

    value: float
    omega2: float
    d_theta: Array
    d_log_lam2: float
    d_log_omega2: float  # 0 where omega^2 is profiled out


def evidence(
    data: Data, hyper: Hyper, omega_prior: tuple[float, float] = (0.0, 0.0), profile: bool = True
) -> Evidence:
    """log p(y | kernel, lam^2, omega^2) with its gradient; omega^2 is profiled out if it may be.

    `omega_prior` (a, b) adds -a log omega^2 - b / omega^2, an inverse-gamma prior, under which the
    best omega^2 stays closed: (Q + 2b) / (n + 2a) for the whole quadratic form Q.  By the envelope
    theorem the slopes at the best omega^2 and mean are the partial ones.  With rows of known
    variance omega^2 is no mere scale and has to be searched for (`profile=False`).
    """
    gram, pullback = hyper.kernel.gram_vjp(data.x)
    factor = Factor.of(gram, hyper.noise(data))
    hyper, alpha, total, value = _scaled(data, hyper, factor, omega_prior, profile)
    omega2 = hyper.omega2
    weights = factor.inverse()
    weights *= -0.5
    weights += np.outer(alpha * (0.5 / omega2), alpha)
    through_noise = np.diag(weights) * hyper.noise(data)
    within = data.scatter / (2 * omega2 * hyper.lam2) - 0.5 * data.repeats
    d_log_omega2 = 0.0
    if not profile:
        a, b = omega_prior
        whole = (total / 2 + b) / omega2 - 0.5 * (len(data) + data.repeats) - a
        d_log_omega2 = float(whole - through_noise[data.known].sum())
    return Evidence(
        value=value,
        omega2=omega2,
        d_theta=pullback(weights),
        d_log_lam2=float(through_noise[~data.known].sum() + within),
        d_log_omega2=d_log_omega2,
    )


def evidence_value(
    data: Data, hyper: Hyper, omega_prior: tuple[float, float] = (0.0, 0.0), profile: bool = True
) -> float:
    """The value of `evidence` alone, for screening: less than half of its cost."""
    factor = Factor.of(hyper.kernel.gram(data.x), hyper.noise(data))
    return _scaled(data, hyper, factor, omega_prior, profile)[3]


def _scaled(
    data: Data, hyper: Hyper, factor: Factor, omega_prior: tuple[float, float], profile: bool
) -> tuple[Hyper, Array, float, float]:
    """The hyper-parameters, omega^2 profiled out if asked; C^-1 (y - mean); Q; and the value."""
    kappa = hyper.mean_precision
    if kappa is None:
        mean, alpha = 0.0, factor.solve(data.y)
    else:
        mean, alpha = _fitted_mean(factor, data.y, kappa)
    quad = float((data.y - mean) @ alpha) + (kappa or 0.0) * mean * mean
    total = quad + data.scatter / hyper.lam2
    a, b = omega_prior
    if profile:
        omega2 = (total + 2 * b) / (len(data) + data.repeats + 2 * a)
        # Data that are all alike have no signal, and rounding must not pass for one.
        rounding = 1e-14 * float(np.abs(data.y).max(initial=0.0))
        hyper = replace(hyper, omega2=max(omega2, rounding**2, 1e-300))
    value = _log_evidence(data, hyper, factor.logdet, quad)
    return hyper, alpha, total, value - a * log(hyper.omega2) - b / hyper.omega2


def _fitted_mean(factor: Factor, y: Array, kappa: float) -> tuple[float, Array]:
    """The mean that the data and its prior agree on, and C^-1 (y - mean)."""
    solved = factor.solve(np.column_stack([np.ones_like(y), y]))
    mean = float(solved[:, 1].sum() / (solved[:, 0].sum() + kappa))
    return mean, solved[:, 1] - mean * solved[:, 0]


def _log_evidence(data: Data, hyper: Hyper, logdet: float, quad: float) -> float:
    log_2pi, omega2, lam2 = log(2 * pi), hyper.omega2, hyper.lam2
    rows = -0.5 * (len(data) * (log_2pi + log(omega2)) + logdet + quad / omega2)
    within = -0.5 * data.repeats * (log_2pi + log(omega2 * lam2))
    return rows + within - data.scatter / (2 * omega2 * lam2) + data.constant


def _in_blocks(function: Callable[[Array], Array], x: Array, width: int) -> Array:
    """function(x), a block of rows at a time: it makes arrays of len(x) times `width` numbers."""
    step = max(32, _BLOCK // max(1, width))
    parts = [function(x[i : i + step]) for i in range(0, len(x), step)]
    return np.concatenate(parts, axis=-1) if parts else function(x)


def _sd(quad: Array) -> Array:
    return np.sqrt(np.maximum(1.0 - quad, _TINY))
