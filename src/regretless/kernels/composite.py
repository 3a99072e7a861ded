"""Kernels that combine other kernels: products, weighted means, and an unknown constant."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive


@dataclass(frozen=True)
class _Composite(Kernel):
    """The common base of `Product` and `Sum`: theta, priors and scales of the parts."""

    parts: tuple[Kernel, ...]

    def __post_init__(self) -> None:
        if not self.parts:
            raise ConfigError(f"parts: need at least one kernel, got {self.parts!r}")
        object.__setattr__(self, "parts", tuple(self.parts))

    @property
    def theta(self) -> Array:
        return np.concatenate([part.theta for part in self.parts])

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return tuple(prior for part in self.parts for prior in part.priors(rules))

    def lengths_at_once(self, rules: PriorRules) -> int:
        return sum(part.lengths_at_once(rules) for part in self.parts)

    def with_theta(self, theta: Array) -> Kernel:
        ends = np.cumsum([len(part.theta) for part in self.parts])[:-1]
        pieces = np.split(np.asarray(theta, dtype=float), ends)
        pairs = zip(self.parts, pieces, strict=True)
        return replace(self, parts=tuple(part.with_theta(piece) for part, piece in pairs))

    def scales(self, dim: int) -> Array:
        """The shortest scale of all parts, in each column."""
        return np.asarray(np.min([part.scales(dim) for part in self.parts], axis=0))


@dataclass(frozen=True)
class Product(_Composite, json="Product"):
    """The product of kernels, usually over different columns.

    Args:
        parts: the kernels to multiply, at least one.

    Raises:
        ConfigError: there are no parts.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE, Hamming
        >>> kernel = Product((SE((0.5,), columns=(0,)), Hamming((1.0,), columns=(1,))))
        >>> x = np.array([[0.0, 0.25], [0.5, 0.75]])
        >>> round(float(kernel.gram(x)[0, 1]), 4)  # exp(-1/2) exp(-1)
        0.2231
    """

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return np.asarray(np.prod([part.gram(x, z) for part in self.parts], axis=0))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        factors, pulls = zip(*(part.gram_vjp(x) for part in self.parts), strict=True)
        return np.asarray(np.prod(factors, axis=0)), lambda weights: np.concatenate(
            [pull(weights * _others(factors, i)) for i, pull in enumerate(pulls)]
        )

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        return _product(*zip(*(part.cross_vjp(x, z) for part in self.parts), strict=True))

    def features(self, rng: Generator, count: int) -> Features:
        makers = [part.features(rng, count) for part in self.parts]
        return lambda x: _product(*zip(*(make(x) for make in makers), strict=True))


@dataclass(frozen=True)
class Sum(_Composite, json="Sum"):
    """A weighted mean of kernels, so that k(x, x) = 1.

    Args:
        parts: the kernels, at least one.
        weights: one positive number for each part; equal weights if it is left out.  They are
            divided by their sum.  A fit does not change them.

    Raises:
        ConfigError: there are no parts, a weight is not positive, or there are not as many weights
            as parts.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> kernel = Sum((SE((1.0,)), SE((0.1,))), weights=(3.0, 1.0))
        >>> kernel.weights
        (0.75, 0.25)
        >>> kernel.gram(np.array([[0.2]])).tolist()
        [[1.0]]
    """

    weights: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        weights = positive("weights", self.weights or (1.0,) * len(self.parts))
        if len(weights) != len(self.parts):
            raise ConfigError(f"weights: need one per part, got {self.weights}")
        total = sum(weights)
        if abs(total - 1.0) > 1e-12:  # a second division would change the last digits
            weights = tuple(w / total for w in weights)
        object.__setattr__(self, "weights", weights)

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self._mean([part.gram(x, z) for part in self.parts])

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        terms, pulls = zip(*(part.gram_vjp(x) for part in self.parts), strict=True)
        return self._mean(terms), lambda weights: np.concatenate(
            [w * pull(weights) for w, pull in zip(self.weights, pulls, strict=True)]
        )

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        terms, pulls = zip(*(part.cross_vjp(x, z) for part in self.parts), strict=True)
        return self._mean(terms), lambda weights: self._mean([pull(weights) for pull in pulls])

    def _mean(self, terms: Sequence[Array]) -> Array:
        return np.asarray(sum(w * term for w, term in zip(self.weights, terms, strict=True)))

    def features(self, rng: Generator, count: int) -> Features:
        """Random functions, see `Kernel.features`; each is of one part, drawn by weight."""
        owner = rng.choice(len(self.parts), size=count, p=self.weights)
        makers = [part.features(rng, count) for part in self.parts]

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            values, pulls = zip(*(make(x) for make in makers), strict=True)
            mine = [(owner == i)[None, :] for i in range(len(makers))]
            phi = np.asarray(sum(np.where(m, v, 0.0) for m, v in zip(mine, values, strict=True)))
            return phi, lambda weights: np.asarray(
                sum(pull(np.where(m, weights, 0.0)) for m, pull in zip(mine, pulls, strict=True))
            )

        return evaluate


def _others(factors: Sequence[Array], index: int) -> Array | float:
    rest = [f for i, f in enumerate(factors) if i != index]
    return np.asarray(np.prod(rest, axis=0)) if rest else 1.0


def _product(factors: Sequence[Array], pulls: Sequence[Pullback]) -> tuple[Array, Pullback]:
    """The product of the factors, and its pull-back in x by the product rule."""
    return np.asarray(np.prod(factors, axis=0)), lambda weights: np.asarray(
        sum(pull(weights * _others(factors, i)) for i, pull in enumerate(pulls))
    )


@dataclass(frozen=True)
class Lifted(Kernel, json="Lifted"):
    """k(x, x') + constant: the kernel of f plus an unknown constant with this prior variance.

    A Gaussian process with this kernel and mean zero has an unknown constant mean, and its
    posterior includes the doubt about the mean.  The constant is not a fitted parameter.

    Args:
        base: the kernel of the variation.
        constant: the prior variance of the constant, in units of the kernel's.

    Raises:
        ConfigError: the constant is not positive.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> kernel = Lifted(SE((0.5,)), constant=4.0)
        >>> kernel.gram(np.array([[0.0]]), np.array([[0.0], [0.5]])).round(4).tolist()
        [[5.0, 4.6065]]
    """

    base: Kernel
    constant: float

    def __post_init__(self) -> None:
        positive("constant", [self.constant])

    @property
    def variance(self) -> float:
        return self.base.variance + self.constant

    @property
    def varying(self) -> Kernel:
        return self.base

    @property
    def contrast(self) -> Kernel:
        return replace(self, base=self.base.contrast)

    @property
    def theta(self) -> Array:
        return self.base.theta

    def with_theta(self, theta: Array) -> Lifted:
        return replace(self, base=self.base.with_theta(theta))

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return self.base.priors(rules)

    def lengths_at_once(self, rules: PriorRules) -> int:
        return self.base.lengths_at_once(rules)

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self.base.gram(x, z) + self.constant

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k, pullback = self.base.gram_vjp(x)
        return k + self.constant, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        k, pullback = self.base.cross_vjp(x, z)
        return k + self.constant, pullback

    def features(self, rng: Generator, count: int) -> Features:
        """The random functions of the base, each with a random constant added."""
        base = self.base.features(rng, count)
        levels = sqrt(self.constant) * rng.standard_normal(count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            phi, pullback = base(x)
            return phi + levels, pullback

        return evaluate

    def scales(self, dim: int) -> Array:
        return self.base.scales(dim)
