"""The kernel of structured values: permutations, subsets, sequences, trees, graphs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt
from typing import Protocol

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive

# Two values drawn at random have the covariance exp(-weight) in a view.  Weights far below 1 make
# the kernel nearly linear in the features.
_WEIGHT = Prior(1e-3, 20.0, log(0.3), 1.5)


class Viewed(Protocol):
    """What the kernel needs of a structured parameter: the features of values, in some views."""

    def distances(self, u: Array, v: Array) -> tuple[Array, ...]:
        """Half the squared distances of the features, view by view, for coordinates u and v."""

    def projected(self, u: Array, keys: tuple[int, ...], count: int) -> tuple[Array, ...]:
        """Random projections of the features, view by view, of shape (len(u), count).

        Each feature has `count` standard normal numbers, which depend on the view's key only.
        """


@dataclass(frozen=True)
class Views(Kernel):
    """k(x, x') = exp(-sum_g w_g |phi_g(x) - phi_g(x')|^2 / 2), for the views g of a value.

    A view is a map of values to features phi_g, such as the counts of the parts that a value has.
    The kernel is positive definite for any features.  The weights say which views matter: the
    order of a permutation, for example, or which items are neighbours in it.

    Args:
        weights: w_g > 0, one for each view.
        column: the column of the encoded points that holds the values.
        source: the parameter, which knows the features of its values.

    Raises:
        ConfigError: a weight is not positive.

    Example:
        >>> import numpy as np
        >>> from regretless.space import Permutation
        >>> order = Permutation(["a", "b", "c"])
        >>> kernel = order.kernel_part({0: order})
        >>> x = np.array([[order.encode(["a", "b", "c"])], [order.encode(["b", "a", "c"])]])
        >>> bool(0 < kernel.gram(x)[0, 1] < kernel.gram(x)[0, 0])
        True
    """

    weights: tuple[float, ...]
    column: int
    source: Viewed

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", positive("weights", self.weights))
        if not self.weights:
            raise ConfigError("weights: need one for each view, got none")

    @property
    def theta(self) -> Array:
        return np.log(self.weights)

    def with_theta(self, theta: Array) -> Views:
        return replace(self, weights=tuple(np.exp(theta).tolist()))

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (_WEIGHT,) * len(self.weights)

    def _distances(self, x: Array, z: Array | None) -> tuple[Array, ...]:
        u = x[:, self.column]
        return self.source.distances(u, u if z is None else z[:, self.column])

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self._shape(self._distances(x, z))

    def _shape(self, distances: tuple[Array, ...]) -> Array:
        total = -self.weights[0] * distances[0]
        for weight, distance in zip(self.weights[1:], distances[1:], strict=True):
            total -= weight * distance
        return np.exp(total, out=total)

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        distances = self._distances(x, None)
        k = self._shape(distances)

        def pullback(weights: Array) -> Array:
            g = weights * k
            pairs = zip(self.weights, distances, strict=True)
            return np.array([-w * float(np.vdot(g, distance)) for w, distance in pairs])

        return k, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        return self.gram(x, z), lambda weights: np.zeros_like(x)

    def features(self, rng: Generator, count: int) -> Features:
        """Random Fourier features sqrt(2) cos(w'phi + b), see `Kernel.features`."""
        keys = tuple(int(key) for key in rng.integers(2**63, size=len(self.weights)))
        phase = rng.uniform(0.0, 2.0 * np.pi, count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            angle = np.tile(phase, (len(x), 1))
            parts = self.source.projected(x[:, self.column], keys, count)
            for weight, part in zip(self.weights, parts, strict=True):
                angle += sqrt(weight) * part
            return sqrt(2.0) * np.cos(angle), lambda weights: np.zeros_like(x)

        return evaluate
