"""Kernels of the distance between points: squared exponential, Matern, and the default's.

Radial kernels are k = g(s) with s = |x - x'|^2_h, the squared distance in units of the
length-scales, and need one more function, slope(s) = -2 g'(s):
    dk/dlog h_k = slope(s) (x_k - x'_k)^2 / h_k^2,      dk/dx_k = -slope(s) (x_k - x'_k) / h_k^2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import gamma, sqrt

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.validate import check_inside
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive


def _squared_distances(u: Array, v: Array) -> Array:
    # A third of the time that `import regretless` would take, so only when it is needed.
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(u, v, "sqeuclidean"))


def _cos_and_sin(angle: Array) -> tuple[Array, Array]:
    """Both from t = tan(angle / 2), to the last digit; overwrites the angle.

    numpy knows vector instructions for the tangent of doubles, but none for cosine and sine: both
    together this way take a tenth of the time.
    """
    angle *= 0.5
    tan = np.tan(angle, out=angle)
    both = tan * tan
    both += 1.0
    np.divide(2.0, both, out=both)  # 1 + cos
    tan *= both
    both -= 1.0
    return both, tan


@dataclass(frozen=True)
class Radial(Kernel):
    """A stationary kernel of the scaled distance over some columns, one length-scale per column."""

    lengthscales: tuple[float, ...]
    columns: tuple[int, ...] | None = None  # None: all

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscales", positive("lengthscales", self.lengthscales))
        if self.columns is not None:
            object.__setattr__(self, "columns", tuple(self.columns))
            if len(self.columns) != len(self.lengthscales):
                raise ConfigError(
                    f"lengthscales: need one per column, got {self.lengthscales} for {self.columns}"
                )

    @abstractmethod
    def _shape(self, s: Array) -> Array:
        """g(s).  May overwrite s: a fresh array of this size costs more than what is put in it."""

    @abstractmethod
    def _shape_and_slope(self, s: Array) -> tuple[Array, Array]:
        """g(s) and -2 g'(s).  May overwrite s."""

    @property
    def _steep(self) -> bool:
        """Whether the slope has no bound near 0; sums of it then have to be over differences."""
        return False

    @abstractmethod
    def _frequencies(self, rng: Generator, count: int) -> Array:
        """Draws from the spectral density for unit length-scales, (dim, count)."""

    @property
    def theta(self) -> Array:
        return np.log(self.lengthscales)

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (rules.length,) * len(self.lengthscales)

    def with_theta(self, theta: Array) -> Radial:
        scales = tuple(np.exp(theta).tolist())
        return self._replace(scales)

    def _replace(self, lengthscales: tuple[float, ...]) -> Radial:
        return type(self)(lengthscales, self.columns)

    def _scaled(self, x: Array) -> Array:
        mine = x if self.columns is None else x[:, list(self.columns)]
        scales, need = self.lengthscales, mine.shape[1]
        if len(scales) != need:  # a single one would be broadcast, and its slope be wrong
            raise ConfigError(f"lengthscales: need one per column, {need}, got {scales}")
        return np.asarray(mine / np.asarray(self.lengthscales))

    def gram(self, x: Array, z: Array | None = None) -> Array:
        u = self._scaled(x)
        v = u if z is None else self._scaled(z)
        return self._shape(_squared_distances(u, v))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        u = self._scaled(x)
        k, slope = self._shape_and_slope(_squared_distances(u, u))
        return k, lambda weights: self._pull_lengths(u, weights * slope)

    def _pull_lengths(self, u: Array, g: Array) -> Array:
        """sum_ij G_ij (u_ik - u_jk)^2 for symmetric G, as two products instead of n^2 d terms."""
        if self._steep:
            return np.array([np.vdot(g, np.subtract.outer(c, c) ** 2) for c in u.T])
        return 2.0 * np.asarray(g.sum(axis=1) @ (u * u) - np.einsum("ik,ik->k", u, g @ u))

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        u, v = self._scaled(x), self._scaled(z)
        k, slope = self._shape_and_slope(_squared_distances(u, v))

        def pullback(weights: Array) -> Array:
            g = weights * slope
            if self._steep:
                pairs = zip(u.T, v.T, strict=True)
                pulled = np.array([-(g * np.subtract.outer(a, b)).sum(axis=1) for a, b in pairs]).T
            else:
                pulled = g @ v - g.sum(axis=1)[:, None] * u
            return self._spread(pulled / np.asarray(self.lengthscales), x)

        return k, pullback

    def scales(self, dim: int) -> Array:
        out = np.full(dim, np.inf)
        out[list(range(dim) if self.columns is None else self.columns)] = self.lengthscales
        return out

    def _spread(self, mine: Array, x: Array) -> Array:
        """A gradient in this kernel's columns, as one in all columns."""
        if self.columns is None:
            return mine
        out = np.zeros_like(x)
        out[:, list(self.columns)] = mine
        return out

    def features(self, rng: Generator, count: int) -> Features:
        """Random Fourier features: sqrt(2) cos(w'x + b)."""
        omega = self._frequencies(rng, count)
        phase = rng.uniform(0.0, 2.0 * np.pi, count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            angle = self._scaled(x) @ omega
            angle += phase
            cos, sin = _cos_and_sin(angle)
            cos *= sqrt(2.0)

            def pullback(weights: Array) -> Array:
                inner = (-sqrt(2.0) * weights * sin) @ omega.T
                return self._spread(inner / np.asarray(self.lengthscales), x)

            return cos, pullback

        return evaluate


@dataclass(frozen=True)
class SE(Radial, json="SE"):
    """Squared exponential, eq. KSE."""

    def _shape(self, s: Array) -> Array:
        s *= -0.5
        return np.asarray(np.exp(s, out=s))

    def _shape_and_slope(self, s: Array) -> tuple[Array, Array]:
        k = self._shape(s)
        return k, k

    def _frequencies(self, rng: Generator, count: int) -> Array:
        return rng.standard_normal((len(self.lengthscales), count))


@dataclass(frozen=True)
class Matern(Radial, json="Matern"):
    """Matern with any smoothness nu > 0, eq. KMA; in closed form for 1/2, 3/2 and 5/2."""

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("nu", [self.nu])
        # Beyond, Bessel functions overflow, and the kernel is the SE one to plotting accuracy.
        if self.nu > 20:
            raise ConfigError(f"nu: need at most 20 (SE is smoother still), got {self.nu!r}")

    @property
    def _steep(self) -> bool:
        return self.nu <= 1.0

    def _replace(self, lengthscales: tuple[float, ...]) -> Matern:
        return Matern(lengthscales, self.columns, self.nu)

    def _shape(self, s: Array) -> Array:
        if self.nu == 2.5:  # as below, without what only the slope needs
            r = self._radius(s)
            s *= 5.0 / 3.0
            s += r
            s += 1.0
            s *= np.exp(np.negative(r, out=r), out=r)
            return s
        if self.nu in (0.5, 1.5):
            return self._shape_and_slope(s)[0]
        return self._bessel(self._radius(s), 0.0)

    def _shape_and_slope(self, s: Array) -> tuple[Array, Array]:
        r = self._radius(s)
        if self.nu == 2.5:  # k = (1 + r + r^2/3) exp(-r), slope = 5/3 (1 + r) exp(-r)
            slope = np.negative(r)
            np.exp(slope, out=slope)
            s *= 5.0 / 3.0
            s *= slope
            r += 1.0
            slope *= r
            s += slope
            slope *= 5.0 / 3.0
            return s, slope
        np.exp(np.negative(r, out=s), out=s)
        if self.nu == 1.5:  # k = (1 + r) exp(-r), slope = 3 exp(-r)
            r += 1.0
            r *= s
            s *= 3.0
            return r, s
        if self.nu == 0.5:  # k = exp(-r), slope = exp(-r) / r
            # The slope is infinite at 0, where it only ever meets a zero distance.
            return s, np.divide(s, r, out=np.zeros_like(r), where=r > 0)
        return self._bessel(r, 0.0), self._bessel(r, 1.0)

    def _radius(self, s: Array) -> Array:
        """r = sqrt(2 nu s)."""
        r = (2.0 * self.nu) * s
        return np.asarray(np.sqrt(r, out=r))

    def _bessel(self, r: Array, order: float) -> Array:
        """k (order 0) or its slope (order 1), because d/dr [r^nu K_nu(r)] = -r^nu K_(nu-1)(r)."""
        from scipy.special import kv

        nu = self.nu
        # Closer than this k is 1 to rounding (1 - k falls as r^(2 nu) for rough kernels).
        apart = r > min(1e-10, 1e-16 ** (0.5 / nu))
        inside = np.where(apart, r, 1.0)
        value = 2.0 ** (1.0 - nu) / gamma(nu) * inside ** (nu - order) * kv(nu - order, inside)
        if order == 0.0:
            return np.where(apart, np.minimum(value, 1.0), 1.0)
        return np.where(apart, 2.0 * nu * value, nu / (nu - 1.0) if nu > 1.0 else 0.0)

    def _frequencies(self, rng: Generator, count: int) -> Array:
        """Multivariate t with 2 nu degrees of freedom."""
        normal = rng.standard_normal((len(self.lengthscales), count))
        return np.asarray(normal * np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, count)))


_MATERN52 = Matern((1.0,))


@dataclass(frozen=True)
class Rippled(Radial, json="Rippled"):
    """A Matern 5/2 kernel on two scales: a trend, and a ripple on it.

    k = (1 - share) g(s) + share g(s / ratio^2): the ripple has a share of the variance, and a ratio
    of the trend's length-scales.  In theta the logarithms of both follow those of the
    length-scales, that of the share as odds, share / (1 - share).
    """

    share: float = 1 / 11
    ratio: float = 0.1

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("ratio", [self.ratio])
        check_inside("share", self.share, "a number")

    @property
    def theta(self) -> Array:
        odds = self.share / (1.0 - self.share)
        return np.log([*self.lengthscales, odds, self.ratio])

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (*super().priors(rules), rules.ripple_odds, rules.ripple_ratio)

    def with_theta(self, theta: Array) -> Rippled:
        *scales, odds, ratio = np.exp(theta).tolist()
        return Rippled(tuple(scales), self.columns, odds / (1.0 + odds), ratio)

    @property
    def _parts(self) -> Array:
        return np.array([1.0 - self.share, self.share])

    @property
    def _steeper(self) -> Array:
        """What s is multiplied with, and by the chain rule the slope, for the trend and ripple."""
        return np.array([1.0, self.ratio**-2])

    def _shape(self, s: Array) -> Array:
        return _weighted(self._parts, _MATERN52._shape(np.multiply.outer(self._steeper, s)))

    def _shape_and_slope(self, s: Array) -> tuple[Array, Array]:
        k, slope = _MATERN52._shape_and_slope(np.multiply.outer(self._steeper, s))
        return _weighted(self._parts, k), _weighted(self._parts * self._steeper, slope)

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        u = self._scaled(x)
        s = np.multiply.outer(self._steeper, _squared_distances(u, u))
        k, slope = _MATERN52._shape_and_slope(s)

        def pullback(weights: Array) -> Array:
            trend, ripple = k.reshape(2, -1) @ weights.ravel()
            odds = self.share * (1.0 - self.share) * (ripple - trend)
            # The ratio is a factor of all length-scales, of the ripple's alone.
            both = slope * (self._parts * self._steeper)[:, None, None]
            coarse, fine = (self._pull_lengths(u, weights * each) for each in both)
            return np.array([*(coarse + fine), odds, fine.sum()])

        return _weighted(self._parts, k), pullback

    def scales(self, dim: int) -> Array:
        """Those of the curvature at 0, to which both contribute."""
        steep = 1.0 - self.share + self.share / self.ratio**2
        return super().scales(dim) / sqrt(steep)

    def _frequencies(self, rng: Generator, count: int) -> Array:
        """Each belongs to the trend or to the ripple, drawn by share."""
        trend = _MATERN52.with_theta(np.zeros(len(self.lengthscales)))._frequencies(rng, count)
        return trend / np.where(rng.random(count) < self.share, self.ratio, 1.0)


# What `Model(kernel=...)` may name.
NAMED: dict[str, Callable[..., Radial]] = {
    "rippled": Rippled,
    "se": SE,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
}


def _weighted(weights: Array, terms: Array) -> Array:
    """sum_i w_i terms_i, as one product."""
    return np.asarray((weights @ terms.reshape(len(weights), -1)).reshape(terms.shape[1:]))
