"""What the rest of the library needs of a model: the `Posterior` protocol.

`GP` is one.  A mixture over hyper-parameters, a local or a constrained model can stand in for it:
policies, scores and the search use nothing else.  Everything is in the units of the model; sigma is
the posterior sd in units of omega, as in the paper, and the policies multiply by omega.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, runtime_checkable

from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.kernels import Pullback


class SamplePath(Protocol):
    """A function drawn from a posterior."""

    @property
    def at_data(self) -> Array:
        """Its values at the points of the data."""

    @property
    def width(self) -> int:
        """How many terms a value sums over."""

    def __call__(self, x: Array) -> Array:
        """Its values at the rows of x."""

    def with_gradient(self, x: Array) -> tuple[Array, Array]:
        """Its values and gradients at the rows of x."""

    def scales(self, dim: int) -> Array:
        """Per column, the distance over which it changes."""


class Shared(Protocol):
    """The posterior covariance of f with f at one point, in units of omega^2."""

    @property
    def at_data(self) -> Array:
        """At the points of the data."""

    @property
    def variance(self) -> float:
        """At the point itself."""

    def __call__(self, x: Array) -> Array:
        """At the rows of x."""

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        """At the rows of x, and a -> a times its gradient, row by row."""


@runtime_checkable
class Posterior(Protocol):
    """What is believed of f, given data.  Frozen: `add` returns the next one."""

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
        """The sd of one more observation around f."""

    @property
    def information(self) -> float:
        """The mutual information of all observations and f, eq. infogain."""

    @property
    def jitter(self) -> float:
        """What was added to the covariance so that it could be factorised; 0 in the normal case."""

    @property
    def at_data(self) -> tuple[Array, Array]:
        """mu and sigma at `points`."""

    def predict(self, x: Array) -> tuple[Array, Array]:
        """mu and sigma at the rows of x, eqs. mun and postpwd."""

    def predict_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        """mu, sigma, and (a, b) -> a dmu/dx + b dsigma/dx row by row."""

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        """The joint covariance of f at the rows of x (and z), in units of omega^2, eq. kerneln."""

    def shared(self, point: Array) -> Shared:
        """The covariance of f with f at one point, as a function."""

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> SamplePath:
        """A draw of f; `scale` widens the posterior around its mean."""

    def scales(self, dim: int) -> Array:
        """Per column, the distance over which f changes; infinite where it does not."""

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> Posterior:
        """With one more observation; `variance` where it is known."""
