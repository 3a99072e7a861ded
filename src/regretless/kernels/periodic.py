"""The kernel of cyclic numbers, such as the hour of the day."""

from __future__ import annotations

from dataclasses import dataclass
from math import pi

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive
from regretless.kernels.radial import Matern


@dataclass(frozen=True)
class Periodic(Kernel, json="Periodic"):
    """The Matern 5/2 kernel of points on circles, for columns in which 0 and 1 are the same.

    A coordinate u is placed at (cos 2 pi u, sin 2 pi u) / 2.  The distance of two places is the
    chord sin(pi |u - u'|): it is 1 for opposite places.  A kernel of the places is positive
    definite, because a Matern kernel is so in the plane.

    Args:
        lengthscales: h_k > 0, one for each column, in units of the largest chord.
        columns: the columns of the encoded points that the kernel uses.

    Raises:
        ConfigError: a length-scale is not positive, or there are not as many length-scales as
            columns.

    Example:
        >>> import numpy as np
        >>> kernel = Periodic((0.5,), columns=(0,))
        >>> midnight, early, noon = kernel.gram(np.array([[0.0], [0.01], [0.5]]))[0]
        >>> bool(noon < early)
        True
        >>> bool(np.isclose(kernel.gram(np.array([[0.99]]), np.array([[0.0]]))[0, 0], early))
        True
    """

    lengthscales: tuple[float, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "lengthscales", positive("lengthscales", self.lengthscales))
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(self.columns) != len(self.lengthscales):
            each = f"{self.lengthscales} for {self.columns}"
            raise ConfigError(f"lengthscales: need one per column, got {each}")

    @property
    def theta(self) -> Array:
        return np.log(self.lengthscales)

    def with_theta(self, theta: Array) -> Periodic:
        return Periodic(tuple(np.exp(theta).tolist()), self.columns)

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (rules.length,) * len(self.lengthscales)

    @property
    def _plane(self) -> Matern:
        """The kernel of the places: both coordinates of a circle have the same length-scale."""
        return Matern(self.lengthscales * 2)

    def _placed(self, x: Array) -> Array:
        angle = 2.0 * pi * x[:, list(self.columns)]
        return 0.5 * np.hstack([np.cos(angle), np.sin(angle)])

    def _pulled(self, x: Array, slope: Array) -> Array:
        """The slopes in x, from those in the places."""
        count, place = len(self.columns), self._placed(x)
        out = np.zeros_like(x)
        mine = place[:, :count] * slope[:, count:] - place[:, count:] * slope[:, :count]
        out[:, list(self.columns)] = 2.0 * pi * mine
        return out

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self._plane.gram(self._placed(x), None if z is None else self._placed(z))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k, pull = self._plane.gram_vjp(self._placed(x))
        return k, lambda weights: pull(weights).reshape(2, -1).sum(axis=0)

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        k, pull = self._plane.cross_vjp(self._placed(x), self._placed(z))
        return k, lambda weights: self._pulled(x, pull(weights))

    def features(self, rng: Generator, count: int) -> Features:
        make = self._plane.features(rng, count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            phi, pull = make(self._placed(x))
            return phi, lambda weights: self._pulled(x, pull(weights))

        return evaluate

    def scales(self, dim: int) -> Array:
        """The length-scales along the circles, where a short chord is pi times as long."""
        out = np.full(dim, np.inf)
        out[list(self.columns)] = np.array(self.lengthscales) / pi
        return out
