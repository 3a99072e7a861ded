"""The `Posterior` protocol: what policies, scores and the search need of a model.

`GP` is the library's own posterior.  Another model can replace it, such as a mixture over
hyper-parameters, a local or a constrained model.

Everything is in the units of the model.  sigma is the posterior sd in units of omega, as in the
paper; the policies multiply by omega.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast, runtime_checkable

from numpy.random import Generator

from regretless._internal.arrays import Array, rows_among
from regretless.kernels import Pullback


class SamplePath(Protocol):
    """A function drawn from a posterior."""

    @property
    def at_data(self) -> Array:
        """The values at the points of the data."""

    @property
    def width(self) -> int:
        """The number of terms in the sum that gives a value."""

    def __call__(self, x: Array) -> Array:
        """The values at the rows of x."""

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """The values and gradients at the rows of x."""

    def scales(self, dim: int) -> Array:
        """For each column, the distance over which the function changes."""


class Shared(Protocol):
    """The posterior covariance of f with f at one point, or with a sum of w_i f(x_i).

    It is in units of omega^2.
    """

    @property
    def at_data(self) -> Array:
        """The covariances at the points of the data."""

    @property
    def variance(self) -> float:
        """The variance of f at the point, or of the sum."""

    def __call__(self, x: Array) -> Array:
        """The covariances at the rows of x."""

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        """The covariances at the rows of x, and a function: a -> a times the gradient, by row."""


def moments_at(posterior: Posterior, x: Array) -> tuple[Array, Array]:
    """mu and sigma at the rows of x, which costs little where they are points of the data."""
    rows = rows_among(x, posterior.points)
    mu, sigma = (each[rows] for each in posterior.at_data)
    new = rows < 0
    if new.any():
        mu[new], sigma[new] = posterior.predict(x[new])
    return mu, sigma


class _Fast(Protocol):
    """What the posteriors of the library have beside the methods of `Posterior`."""

    def expecting_all(self, x: Array, weights: Array) -> Posterior: ...

    @property
    def in_single(self) -> Posterior: ...


def expecting_all(posterior: Posterior, x: Array, weights: Array) -> Posterior:
    """The posterior as if all rows of x had been observed, see `Posterior.expecting`.

    Args:
        posterior: the posterior without them.
        x: the points, of shape (q, d).
        weights: how many evaluations each result counts as.
    """
    if hasattr(posterior, "expecting_all"):
        return cast(_Fast, posterior).expecting_all(x, weights)
    for point, weight in zip(x, weights.tolist(), strict=True):
        more = (point,) if weight == 1.0 else (point, weight)
        posterior = posterior.expecting(*more)
    return posterior


def in_single(posterior: Posterior) -> Posterior:
    """The posterior with single precision where it suffices, or the posterior itself."""
    return cast(_Fast, posterior).in_single if hasattr(posterior, "in_single") else posterior


@runtime_checkable
class Posterior(Protocol):
    """The probability distribution of f, given data.

    A posterior never changes: `add` returns a new one.  A model of your own overrides
    `Model.posterior` to return another class with these methods.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> isinstance(posterior, Posterior)
        True
        >>> mu, sigma = posterior.predict(np.array([[0.2], [0.5]]))
        >>> bool(sigma[0] < sigma[1])  # 0.5 was not observed
        True
    """

    @property
    def points(self) -> Array:
        """The distinct points of the data, (m, d)."""

    @property
    def sample_means(self) -> Array:
        """The mean of the observations at each of these points."""

    @property
    def omega(self) -> float:
        """The sd of the signal: the posterior sd of f is omega sigma."""

    @property
    def omega2(self) -> float:
        """The variance of the signal."""

    @property
    def noise_sd(self) -> float:
        """The sd of the noise of one observation."""

    @property
    def information(self) -> float:
        """The mutual information of all observations and f, eq. infogain."""

    @property
    def jitter(self) -> float:
        """What was added to the covariance so that it could be factorised; usually 0."""

    @property
    def at_data(self) -> tuple[Array, Array]:
        """mu and sigma at `points`."""

    def predict(self, x: Array) -> tuple[Array, Array]:
        """mu and sigma at the rows of x, eqs. mun and postpwd."""

    def predict_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """mu, sigma, and the function (a, b) -> a dmu/dx + b dsigma/dx, row by row."""

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        """The joint covariance of f at the rows of x (and z), in units of omega^2, eq. kerneln."""

    def shared(self, point: Array, weights: Array | None = None) -> Shared:
        """The covariance of f with f at one point, as a function.

        Args:
            point: the point, of shape (d,); with `weights`, several distinct points (q, d).
            weights: a weight for each point: the covariance is that with the weighted sum of f.
        """

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> SamplePath:
        """Draw a function from the posterior, with its sd multiplied by `scale`.

        Args:
            rng: the source of randomness.
            features: the number of random features; more are more accurate and slower.
            scale: the factor of the posterior sd.
        """

    def scales(self, dim: int) -> Array:
        """For each column, the distance over which f changes; infinite if it is constant."""

    @property
    def width(self) -> int:
        """The number of terms in the sum that gives a mean: how much work a prediction is."""

    def expecting(self, x: Array, weight: float = 1.0) -> Posterior:
        """The posterior as if x had been observed, with a result that changes no mean.

        A pending trial counts like this.

        Args:
            x: the point, of shape (d,).
            weight: how many evaluations the result counts as.  It is only given if the noise is
                not the same everywhere.
        """

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> Posterior:
        """The posterior with one more observation.

        Args:
            x: the point, of shape (d,).
            y: the observed value.
            weight: how many evaluations y is the mean of.
            variance: the variance of the noise of y, if it is known; `weight` is then ignored.
        """
