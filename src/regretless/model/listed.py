"""The posterior at a list of points only.

Many decisions in a row that choose among the same points need the posterior nowhere else.  There it
is a vector of means and a matrix of covariances, and one more observation is an update of rank one:
O(q^2) for q points, whatever the number of data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from math import log1p, sqrt
from typing import NoReturn

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.kernels import Pullback
from regretless.model.posterior import Posterior

_TINY = 1e-14  # smallest posterior variance, in units of omega^2


@dataclass(frozen=True, eq=False)
class ListedPosterior:
    """The posterior of f at the points of a list; a `Posterior` without slopes.

    The points of its data are some of the list.  An observation at one of the others makes that one
    a point of the data, too.

    Args:
        whole: the posterior that it is a part of.
        listed: the points of the list, distinct, of shape (q, d).
        mu: their means.
        kernel: their covariances, in units of omega^2.
        rows: which of them are points of the data.
        information: see `Posterior`.
        places: the row of each point, by its bytes.
    """

    whole: Posterior
    listed: Array
    mu: Array
    kernel: Array
    rows: NDArray[np.intp]
    information: float
    places: dict[bytes, int]

    @classmethod
    def of(cls, whole: Posterior, known: NDArray[np.intp], others: Array) -> ListedPosterior:
        """The posterior at some points of its data and at other points, which are all distinct."""
        listed = np.vstack([whole.points[known], others])
        places = {x.tobytes(): row for row, x in enumerate(listed + 0.0)}
        mu, kernel = whole.predict(listed)[0], whole.covariance(listed)
        rows = np.arange(len(known))
        return cls(whole, listed, mu, kernel, rows, whole.information, places)

    @property
    def points(self) -> Array:
        return np.asarray(self.listed[self.rows])

    @property
    def others(self) -> Array:
        """The points of the list that are not points of the data."""
        free = np.ones(len(self.listed), dtype=bool)
        free[self.rows] = False
        return np.asarray(self.listed[free])

    @property
    def sample_means(self) -> Array:
        """The mean observation at each point; at a point that was only expected, the mean of f."""
        means = self.mu[self.rows].copy()
        found = dict(zip(map(bytes, self.whole.points + 0.0), self.whole.sample_means, strict=True))
        for i, x in enumerate(self.points + 0.0):
            means[i] = found.get(bytes(x), means[i])
        return means

    @property
    def omega(self) -> float:
        return self.whole.omega

    @property
    def omega2(self) -> float:
        return self.whole.omega2

    @property
    def noise_sd(self) -> float:
        return self.whole.noise_sd

    @property
    def jitter(self) -> float:
        return self.whole.jitter

    @property
    def width(self) -> int:
        return self.whole.width

    def scales(self, dim: int) -> Array:
        return self.whole.scales(dim)

    @cached_property
    def sigma(self) -> Array:
        """The sd at all points of the list."""
        return np.sqrt(np.maximum(np.diag(self.kernel), _TINY))

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        return self.mu[self.rows], self.sigma[self.rows]

    def predict(self, x: Array) -> tuple[Array, Array]:
        rows = self.places_of(x)
        return self.mu[rows], self.sigma[rows]

    def predict_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        _refuse_slopes()

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        rows = self.places_of(x)
        columns = rows if z is None else self.places_of(z)
        return np.asarray(self.kernel[np.ix_(rows, columns)])

    def shared(self, point: Array, weights: Array | None = None) -> ListedCovariance:
        rows = self.places_of(np.atleast_2d(point))
        weights = np.ones(1) if weights is None else weights
        return ListedCovariance(self, rows, weights)

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> ListedPath:
        variance, axes = np.linalg.eigh(self.kernel)
        drawn = rng.standard_normal(len(variance)) * np.sqrt(np.maximum(variance, 0.0))
        return ListedPath(self, self.mu + scale * self.omega * (axes @ drawn))

    def step(self, x: Array, weight: float = 1.0, variance: float | None = None) -> Array:
        """By how much the means will move, for each standard normal unit of a result at x.

        It is in units of omega: k(., x) / sqrt(k(x, x) + noise).
        """
        row = self.places_of(x[None, :])[0]
        noise2 = self.noise_sd**2 / weight if variance is None else variance
        return np.asarray(self.kernel[:, row] / sqrt(self.sigma[row] ** 2 + noise2 / self.omega2))

    def expecting(self, x: Array, weight: float = 1.0) -> ListedPosterior:
        return self._after(x, self.step(x, weight), 0.0)

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> ListedPosterior:
        step = self.step(x, weight, variance)
        row = self.places_of(x[None, :])[0]
        return self._after(x, step, (y - self.mu[row]) * step[row] / self.sigma[row] ** 2)

    def _after(self, x: Array, step: Array, along: float) -> ListedPosterior:
        """The posterior after a result at x that moves the means by `along` times the step."""
        row = self.places_of(x[None, :])[0]
        rows = self.rows if row in self.rows else np.append(self.rows, row)
        share = min(float(step[row] ** 2 / self.sigma[row] ** 2), 1.0 - _TINY)
        return replace(
            self,
            mu=self.mu + along * step if along else self.mu,
            kernel=self.kernel - np.outer(step, step),
            rows=rows,
            information=self.information - 0.5 * log1p(-share),
        )

    def places_of(self, x: Array) -> NDArray[np.intp]:
        """The row in the list of each row of x."""
        return np.array([self.places[each.tobytes()] for each in x + 0.0], dtype=np.intp)


@dataclass(frozen=True, eq=False)
class ListedCovariance:
    """The covariance of f with a weighted sum of f at points of the list; a `Shared`."""

    posterior: ListedPosterior
    of: NDArray[np.intp]
    weights: Array

    @cached_property
    def _column(self) -> Array:
        return np.asarray(self.posterior.kernel[:, self.of] @ self.weights)

    @property
    def at_data(self) -> Array:
        return np.asarray(self._column[self.posterior.rows])

    @property
    def variance(self) -> float:
        return max(float(self._column[self.of] @ self.weights), 0.0)

    def __call__(self, x: Array) -> Array:
        return np.asarray(self._column[self.posterior.places_of(x)])

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        _refuse_slopes()


@dataclass(frozen=True, eq=False)
class ListedPath:
    """A draw of f at the points of a list; a `SamplePath`."""

    posterior: ListedPosterior
    values: Array

    @property
    def at_data(self) -> Array:
        return np.asarray(self.values[self.posterior.rows])

    @property
    def width(self) -> int:
        return self.posterior.width

    def __call__(self, x: Array) -> Array:
        return np.asarray(self.values[self.posterior.places_of(x)])

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        _refuse_slopes()

    def scales(self, dim: int) -> Array:
        return self.posterior.scales(dim)


def _refuse_slopes() -> NoReturn:
    raise NotImplementedError("a posterior at listed points has no slopes")
