"""Kernels of the distance between points: squared exponential, Matern and the default, `Rippled`.

Radial kernels are k = g(s) with s = |x - x'|^2_h, the squared distance in units of the
length-scales.  Their derivatives need one more function, slope(s) = -2 g'(s):
    dk/dlog h_k = slope(s) (x_k - x'_k)^2 / h_k^2,      dk/dx_k = -slope(s) (x_k - x'_k) / h_k^2.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property, partial
from math import gamma, sqrt

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import check_inside, is_integer
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive


def _squared_distances(u: Array, v: Array) -> Array:
    # Imported here, because it would take a third of the time of `import regretless`.
    from scipy.spatial.distance import cdist

    return np.asarray(cdist(u, v, "sqeuclidean"))


def _cos_and_sin(angle: Array) -> tuple[Array, Array]:
    """cos(angle) and sin(angle), from t = tan(angle / 2).  Overwrites `angle`.

    numpy has vector instructions for the tangent of doubles, but none for cosine and sine.  This
    takes a tenth of the time of both, and is as accurate.
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
    """The base of kernels that depend on the scaled distance of two points.

    Args:
        lengthscales: h_k > 0, one for each column.
        columns: the columns of the encoded points that the kernel uses; all if it is None.

    Raises:
        ConfigError: a length-scale is not positive, or there are not as many length-scales as
            columns.

    Example:
        >>> from regretless.kernels import SE
        >>> SE((0.5, 2.0)).scales(dim=2).tolist()
        [0.5, 2.0]
    """

    lengthscales: tuple[float, ...]
    columns: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscales", positive("lengthscales", self.lengthscales))
        if self.columns is not None:
            if not (isinstance(self.columns, tuple | list) and all(map(is_integer, self.columns))):
                raise ConfigError(f"columns: need a list of numbers, got {shown(self.columns)}")
            object.__setattr__(self, "columns", tuple(self.columns))
            if len(self.columns) != len(self.lengthscales):
                raise ConfigError(
                    f"lengthscales: need one per column, got {shown(self.lengthscales)} for "
                    f"{shown(self.columns)}"
                )

    @abstractmethod
    def _shape(self, s: Array) -> Array:
        """g(s).  May overwrite s, because a new array would cost more than the arithmetic."""

    @abstractmethod
    def _shape_and_slope(self, s: Array) -> tuple[Array, Array]:
        """g(s) and -2 g'(s).  May overwrite s."""

    @property
    def _steep(self) -> bool:
        """Whether slope(s) is unbounded near 0.

        Products of slopes and coordinates would then cancel badly, so differences are summed.
        """
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
        if len(scales) != need:  # numpy would broadcast a single one, with a wrong derivative
            raise ConfigError(f"lengthscales: need one per column, {need}, got {shown(scales)}")
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
        """sum_ij G_ij (u_ik - u_jk)^2 for symmetric G, as two matrix products."""
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
        """The gradient in all columns, from the gradient in this kernel's columns."""
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
    """The squared exponential kernel exp(-s/2), eq. KSE.  Its functions are very smooth.

    Args:
        lengthscales: h_k > 0, one for each column.
        columns: the columns of the encoded points that the kernel uses; all if it is None.

    Raises:
        ConfigError: a length-scale is not positive, or there are not as many length-scales as
            columns.

    Example:
        >>> import numpy as np
        >>> round(float(SE((0.5,)).gram(np.array([[0.0]]), np.array([[0.5]]))[0, 0]), 4)
        0.6065
    """

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
    """The Matern kernel with smoothness nu, eq. KMA.

    nu = 1/2, 3/2 and 5/2 have a closed form and are fast.

    Args:
        lengthscales: h_k > 0, one for each column.
        columns: the columns of the encoded points that the kernel uses; all if it is None.
        nu: the smoothness, more than 0 and at most 20.

    Raises:
        ConfigError: a length-scale or nu is out of range, or there are not as many length-scales as
            columns.

    Example:
        >>> import numpy as np
        >>> kernel = Matern((0.5,), nu=0.5)  # exp(-distance / 0.5)
        >>> round(float(kernel.gram(np.array([[0.0]]), np.array([[0.5]]))[0, 0]), 4)
        0.3679
    """

    nu: float = 2.5

    def __post_init__(self) -> None:
        super().__post_init__()
        positive("nu", [self.nu])
        # Above 20, Bessel functions overflow, and a plot can't tell the kernel from SE.
        if self.nu > 20:
            raise ConfigError(f"nu: need at most 20 (use SE instead), got {shown(self.nu)}")

    @property
    def _steep(self) -> bool:
        return self.nu <= 1.0

    def _replace(self, lengthscales: tuple[float, ...]) -> Matern:
        return Matern(lengthscales, self.columns, self.nu)

    def _shape(self, s: Array) -> Array:
        if self.nu == 2.5:  # as in _shape_and_slope, without the slope
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
            # The slope is infinite at 0, but is always multiplied by a distance of 0 there.
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
        # For smaller r, k is 1 up to rounding (1 - k falls as r^(2 nu) for rough kernels).
        apart = r > min(1e-10, 1e-16 ** (0.5 / nu))
        inside = np.where(apart, r, 1.0)
        value = 2.0 ** (1.0 - nu) / gamma(nu) * inside ** (nu - order) * kv(nu - order, inside)
        if order == 0.0:
            return np.where(apart, np.minimum(value, 1.0), 1.0)
        return np.where(apart, 2.0 * nu * value, nu / (nu - 1.0) if nu > 1.0 else 0.0)

    def _frequencies(self, rng: Generator, count: int) -> Array:
        """Draws from the multivariate t distribution with 2 nu degrees of freedom."""
        normal = rng.standard_normal((len(self.lengthscales), count))
        return np.asarray(normal * np.sqrt(2.0 * self.nu / rng.chisquare(2.0 * self.nu, count)))


_MATERN52 = Matern((1.0,))


@dataclass(frozen=True)
class Rippled(Radial, json="Rippled"):
    """A sum of two Matern 5/2 kernels: a smooth trend and a ripple with shorter length-scales.

    k = (1 - share) g(s) + share g(s / ratio^2), where g is the Matern 5/2 kernel.  In `theta`, the
    logarithms of the length-scales are followed by log(share / (1 - share)) and log(ratio).

    Args:
        lengthscales: h_k > 0 of the trend, one for each column.
        columns: the columns of the encoded points that the kernel uses; all if it is None.
        share: the share of the variance that belongs to the ripple, between 0 and 1.
        ratio: the length-scales of the ripple, divided by those of the trend.

    Raises:
        ConfigError: a number is out of range, or there are not as many length-scales as columns.

    Example:
        >>> import numpy as np
        >>> x = np.array([[0.0], [0.1]])
        >>> trend, rippled = Matern((1.0,)), Rippled((1.0,), share=0.2, ratio=0.1)
        >>> bool(rippled.gram(x)[0, 1] < trend.gram(x)[0, 1])  # the ripple changes within 0.1
        True
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

    @cached_property
    def _parts(self) -> Array:
        return np.array([1.0 - self.share, self.share])

    @cached_property
    def _steeper(self) -> Array:
        """The factors of s for the trend and the ripple; by the chain rule also of the slopes."""
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
            # The ratio multiplies all length-scales of the ripple, and none of the trend.
            both = slope * (self._parts * self._steeper)[:, None, None]
            coarse, fine = (self._pull_lengths(u, weights * each) for each in both)
            return np.array([*(coarse + fine), odds, fine.sum()])

        return _weighted(self._parts, k), pullback

    def scales(self, dim: int) -> Array:
        """The length-scales of a Matern 5/2 kernel with the same curvature at 0."""
        steep = 1.0 - self.share + self.share / self.ratio**2
        return super().scales(dim) / sqrt(steep)

    def _frequencies(self, rng: Generator, count: int) -> Array:
        """Draws for the trend, a share of which is turned into draws for the ripple."""
        trend = _MATERN52.with_theta(np.zeros(len(self.lengthscales)))._frequencies(rng, count)
        return trend / np.where(rng.random(count) < self.share, self.ratio, 1.0)


# The names that `Model(kernel=...)` accepts.
NAMED: dict[str, Callable[..., Radial]] = {
    "rippled": Rippled,
    "se": SE,
    "matern12": partial(Matern, nu=0.5),
    "matern32": partial(Matern, nu=1.5),
    "matern52": partial(Matern, nu=2.5),
}


def _weighted(weights: Array, terms: Array) -> Array:
    """sum_i w_i terms_i, as one matrix product."""
    return np.asarray((weights @ terms.reshape(len(weights), -1)).reshape(terms.shape[1:]))
