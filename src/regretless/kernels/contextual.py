"""The kernel of settings x in contexts c: an effect that all settings share, and an interaction.

    f(x, c) = g(c) + a(x) + i(x, c)

g is the common effect of the context: weekends are slow for every setting.  a is what a setting is
worth in all contexts, and i is what it is worth beside that in the context c.  They are independent
Gaussian processes with the covariances
    level k_c(c, c'),    (1 - share) k_x(x, x'),    share k_x(x, x') k_i(c, c').
So the covariance of f is
    level k_c(c, c') + k_x(x, x') r(c, c'),    r(c, c') = 1 - share + share k_i(c, c').
It is positive definite, because sums and products of positive definite kernels are.

Which setting is the best one depends on differences f(x, c) - f(x', c) only, and g is not in them.
Two such differences, of the same settings in the contexts c and c', have the correlation r(c, c'):
the factor 2 - 2 k_x(x, x') is in the covariance and in both variances.  So r says how alike two
contexts are: what is learnt in one counts by so much in the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.validate import check_amount, check_inside
from regretless.defaults import Prior, PriorRules
from regretless.kernels.base import Features, Kernel, Pullback


@dataclass(frozen=True)
class Contextual(Kernel, json="Contextual"):
    """level k_c(c, c') + k_x(x, x') (1 - share + share k_i(c, c')); see the module.

    In `theta`, the parameters of the three kernels are followed by log(level) and
    log(share / (1 - share)).

    Args:
        settings: k_x, a kernel over the columns of the settings.
        common: k_c, a kernel over the columns of the context.
        alike: k_i, another one over the same columns.
        level: the variance of the common effect, in units of that of the settings; 0 for none.
        share: the share of the interaction in what settings differ by, between 0 and 1.

    Raises:
        ConfigError: `level` or `share` is out of range.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE, Hamming
        >>> context = Hamming((1.0,), columns=(1,))
        >>> kernel = Contextual(SE((0.5,), (0,)), context, context, level=2.0, share=0.5)
        >>> x = np.array([[0.1, 0.25], [0.1, 0.75]])
        >>> round(float(kernel.gram(x)[0, 1]), 4)  # 2 exp(-1) + (0.5 + 0.5 exp(-1))
        1.4197
        >>> round(float(kernel.likeness(x[:1], x[1:])[0, 0]), 4)
        0.6839
    """

    settings: Kernel
    common: Kernel
    alike: Kernel
    level: float = 0.3
    share: float = 0.2

    def __post_init__(self) -> None:
        check_amount("level", self.level)
        check_inside("share", self.share, "a number")

    @property
    def variance(self) -> float:
        return self.level + 1.0

    @property
    def contrast(self) -> Kernel:
        return replace(self, level=0.0)

    @property
    def theta(self) -> Array:
        parts = [part.theta for part in (self.settings, self.common, self.alike)]
        with np.errstate(divide="ignore"):
            odds = self.share / (1.0 - self.share)
            return np.concatenate([*parts, np.log([self.level, odds])])

    def with_theta(self, theta: Array) -> Contextual:
        theta = np.asarray(theta, dtype=float)
        ends = np.cumsum([len(part.theta) for part in (self.settings, self.common, self.alike)])
        first, second, third, (level, odds) = np.split(theta, ends)
        return Contextual(
            self.settings.with_theta(first),
            self.common.with_theta(second),
            self.alike.with_theta(third),
            float(np.exp(level)),
            float(1.0 / (1.0 + np.exp(-odds))),
        )

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        contexts = rules.contexts
        around = (*self.common.priors(rules), *self.alike.priors(rules))
        each = (contexts.length if prior.is_length else contexts.weight for prior in around)
        return (*self.settings.priors(rules), *each, contexts.level, contexts.odds)

    def lengths_at_once(self, rules: PriorRules) -> int:
        return self.settings.lengths_at_once(rules)

    def likeness(self, x: Array, z: Array) -> Array:
        """r(c, c') for the contexts c of the rows of x and c' of the rows of z.

        It is the correlation of the differences of two settings in the two contexts.
        """
        return (1.0 - self.share) + self.share * self.alike.gram(x, z)

    def shift(self, x: Array, z: Array) -> Array:
        """level k_c(c, c'): the covariance of the common effect alone."""
        return self.level * self.common.gram(x, z)

    def gram(self, x: Array, z: Array | None = None) -> Array:
        k = self.settings.gram(x, z)
        k *= (1.0 - self.share) + self.share * self.alike.gram(x, z)
        if self.level:
            k += self.level * self.common.gram(x, z)
        return k

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k_x, pull_x = self.settings.gram_vjp(x)
        k_c, pull_c = self.common.gram_vjp(x)
        k_i, pull_i = self.alike.gram_vjp(x)
        alike = (1.0 - self.share) + self.share * k_i

        def pullback(weights: Array) -> Array:
            inner = weights * k_x
            odds = self.share * (1.0 - self.share) * float((inner * (k_i - 1.0)).sum())
            return np.concatenate(
                [
                    pull_x(weights * alike),
                    pull_c(self.level * weights),
                    pull_i(self.share * inner),
                    [self.level * float(np.vdot(weights, k_c)), odds],
                ]
            )

        return k_x * alike + self.level * k_c, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        k_x, pull_x = self.settings.cross_vjp(x, z)
        k_i, pull_i = self.alike.cross_vjp(x, z)
        alike = (1.0 - self.share) + self.share * k_i
        k = k_x * alike
        if self.level:
            k_c, pull_c = self.common.cross_vjp(x, z)
            k += self.level * k_c

        def pullback(weights: Array) -> Array:
            slope = pull_x(weights * alike) + pull_i(self.share * weights * k_x)
            if self.level:
                slope = slope + pull_c(self.level * weights)
            return np.asarray(slope)

        return k, pullback

    def features(self, rng: Generator, count: int) -> Features:
        """Random functions, see `Kernel.features`: the sum of those of the three effects."""
        settings, common = self.settings.features(rng, count), self.common.features(rng, count)
        alike = self.alike.features(rng, count)
        signs = rng.choice([-1.0, 1.0], size=(2, count))  # so that the effects are not correlated
        always, here, shift = sqrt(1.0 - self.share), sqrt(self.share), sqrt(self.level)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            (a, pull_a), (c, pull_c), (i, pull_i) = settings(x), common(x), alike(x)
            factor = always * signs[0] + here * i

            def pullback(weights: Array) -> Array:
                slope = pull_a(weights * factor) + pull_i(here * weights * a)
                return np.asarray(slope + pull_c(shift * weights * signs[1]))

            return a * factor + shift * signs[1] * c, pullback

        return evaluate

    def scales(self, dim: int) -> Array:
        each = [part.scales(dim) for part in (self.settings, self.common, self.alike)]
        return np.asarray(np.min(each, axis=0))
