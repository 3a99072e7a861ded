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
from regretless.kernels.composite import Product

# Two values drawn at random have the covariance exp(-weight) in a view.  Weights far below 1 make
# the kernel nearly linear in the features.
_WEIGHT = Prior(1e-3, 20.0, log(0.3), 1.5)
# Beside sums over parts, the kernel of whole values is smoother.  The odds of a sum are nearly
# free, because often one view matters and others do not; measured: docs/results/structured.md.
_WEIGHT_BESIDE_SUMS = Prior(1e-3, 20.0, log(0.1), 1.5)
_ODDS = Prior(1e-3, 1e3, log(0.3), 3.0)
_START_ODDS = 0.3


class Viewed(Protocol):
    """What the kernel needs of a structured parameter: the features of values, in some views."""

    def distances(self, u: Array, v: Array) -> tuple[Array, ...]:
        """Half the squared distances of the features, view by view, for coordinates u and v."""

    def cosines(self, u: Array, v: Array) -> tuple[Array, ...]:
        """The cosines of the angles between the features, view by view."""

    def sizes(self, u: Array) -> tuple[Array, ...]:
        """Half the squared lengths of the features, view by view, in the unit of `distances`."""

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


@dataclass(frozen=True)
class Sums(Kernel):
    """k = (k_whole + sum_g r_g cos(phi_g(x), phi_g(x'))) / (1 + sum_g r_g).

    k_whole compares whole values.  cos is the cosine of the angle between the features phi_g of two
    values.  It is the kernel of functions that are sums over the parts of a value, divided by the
    length of phi_g.  The length of a tour is such a sum: its parts are the pairs of neighbours.
    With `Sums`, what was learnt about a pair counts in all tours with this pair.  With `Views`
    alone, it counts in similar tours only.

    Args:
        whole: the kernel of the whole values, with its views.
        odds: r_g > 0, one for each view: the variance of its sum, divided by that of `whole`.

    Raises:
        ConfigError: a number in `odds` is not positive, or there is not one for each view.

    Example:
        >>> import numpy as np
        >>> from regretless.space import Subset
        >>> team = Subset(["a", "b", "c", "d"])
        >>> kernel = with_sums(team.kernel_part({0: team}))
        >>> x = np.array([[team.encode(["a", "b"])], [team.encode(["c", "d"])]])
        >>> bool(0 < kernel.gram(x)[0, 1] < kernel.gram(x)[0, 0])
        True
    """

    whole: Views
    odds: tuple[float, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "odds", positive("odds", self.odds))
        if len(self.odds) != len(self.whole.weights):
            views = len(self.whole.weights)
            raise ConfigError(f"odds: need one for each of {views} views, got {len(self.odds)}")

    @property
    def theta(self) -> Array:
        return np.log(self.whole.weights + self.odds)

    def with_theta(self, theta: Array) -> Sums:
        count = len(self.odds)
        whole = self.whole.with_theta(theta[:count])
        return Sums(whole, tuple(np.exp(theta[count:]).tolist()))

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        count = len(self.odds)
        return (_WEIGHT_BESIDE_SUMS,) * count + (_ODDS,) * count

    @property
    def _total(self) -> float:
        return 1.0 + sum(self.odds)

    def _cosines(self, x: Array, z: Array | None) -> tuple[Array, ...]:
        u = x[:, self.whole.column]
        return self.whole.source.cosines(u, u if z is None else z[:, self.whole.column])

    def _mixed(self, whole: Array, cosines: tuple[Array, ...]) -> Array:
        total = whole / self._total
        for odds, cosine in zip(self.odds, cosines, strict=True):
            total += odds / self._total * cosine
        return total

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self._mixed(self.whole.gram(x, z), self._cosines(x, z))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        whole, pull = self.whole.gram_vjp(x)
        cosines = self._cosines(x, None)
        k = self._mixed(whole, cosines)

        def pullback(weights: Array) -> Array:
            mean = float(np.vdot(weights, k))
            shares = [odds / self._total for odds in self.odds]
            pairs = zip(shares, cosines, strict=True)
            by_odds = [share * (float(np.vdot(weights, cosine)) - mean) for share, cosine in pairs]
            return np.concatenate([pull(weights / self._total), by_odds])

        return k, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        return self.gram(x, z), lambda weights: np.zeros_like(x)

    def features(self, rng: Generator, count: int) -> Features:
        """Those of `whole`, plus random linear functions of the features of each view."""
        whole = self.whole.features(rng, count)
        keys = tuple(int(key) for key in rng.integers(2**63, size=len(self.odds)))
        empty = rng.standard_normal((len(self.odds), count))  # of values without any feature

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            u, source = x[:, self.whole.column], self.whole.source
            total = whole(x)[0] / sqrt(self._total)
            parts, sizes = source.projected(u, keys, count), source.sizes(u)
            each = zip(self.odds, parts, sizes, empty, strict=True)
            for odds, part, size, at_zero in each:
                length = np.sqrt(2.0 * size)[:, None]
                unit = np.divide(part, length, out=np.tile(at_zero, (len(x), 1)), where=length > 0)
                total += sqrt(odds / self._total) * unit
            return total, lambda weights: np.zeros_like(x)

        return evaluate


def with_sums(kernel: Kernel) -> Kernel:
    """The kernel of structured values with sums over parts; any other kernel stays the same.

    Args:
        kernel: what `kernel_part` of a kind returned.

    Example:
        >>> from regretless.kernels import SE
        >>> with_sums(SE((0.5,))) == SE((0.5,))
        True
    """
    if isinstance(kernel, Views):
        return Sums(kernel, (_START_ODDS,) * len(kernel.weights))
    if isinstance(kernel, Product):
        return Product(tuple(with_sums(part) for part in kernel.parts))
    return kernel
