"""The posterior in one context: what decides between settings, without what they share.

The kernel is `kernels.Contextual`: f(x, c) = g(c) + h(x, c), with the common effect g.  In a given
context c, g(c) is the same number for all settings.  It shifts all means alike, and says nothing
about which setting is the best one.  But where little is known about the context, g(c) is
uncertain, and an sd of f would promise an improvement wherever one looks.  So here
    mean  = E[f(x, c)] = E[h(x, c)] + E[g(c)],
    sigma = the posterior sd of h(x, c), covariances likewise.
With K_h for the kernel of h, k_h(x) for its values at the data, and C for the covariance of the
observations (which have g in them), the covariance of h is K_h - k_h' C^-1 k_h.  It is the usual
posterior with k_h in place of k everywhere but in C.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array, rows_among
from regretless.kernels import Contextual
from regretless.model.gp import GP, GPPath, SharedCovariance
from regretless.model.mixture import Mixture
from regretless.model.posterior import Posterior

Place = Mapping[int, float]  # the columns of a context, with their coordinates


def at_context(posterior: Posterior, place: Place) -> Posterior:
    """The posterior in one context; of another kind of model, the posterior itself."""
    if isinstance(posterior, Mixture):
        parts = tuple(at_context(part, place) for part in posterior.parts)
        return cast(Posterior, Mixture(parts, posterior.log_weights))
    if isinstance(posterior, GP) and isinstance(posterior.hyper.kernel.varying, Contextual):
        hyper = replace(posterior.hyper, kernel=posterior.hyper.kernel.contrast)
        return AtContext(posterior.data, hyper, posterior.factor, posterior, dict(place))
    return posterior


def likeness(posterior: Posterior, here: Array, others: Array) -> float:
    """How alike a context is to others, on average: 1 if what is learnt here counts there in full.

    Args:
        posterior: the posterior of f.
        here: a point in the context, of shape (d,).
        others: points in the other contexts, of shape (q, d).
    """
    if isinstance(posterior, Mixture):
        each = [likeness(part, here, others) for part in posterior.parts]
        return float(posterior.weights @ np.array(each))
    if not isinstance(posterior, GP):
        return 1.0
    kernel = posterior.hyper.kernel.varying
    if not isinstance(kernel, Contextual):
        return 1.0
    return float(kernel.likeness(here[None, :], others).mean())


@dataclass(frozen=True, eq=False)
class AtContext(GP):
    """The posterior in one context; see the module.  Points are those of this context."""

    whole: GP  # the posterior of f
    place: Place

    @property
    def _point(self) -> Array:
        """A point in the context."""
        point = np.full((1, self.data.x.shape[1]), 0.5)
        for column, place in self.place.items():
            point[0, column] = place
        return point

    @cached_property
    def mean(self) -> float:
        """The prior mean, and the posterior mean of the common effect."""
        kernel = cast(Contextual, self.whole.hyper.kernel.varying)
        shift = kernel.shift(self._point, self.data.x) @ self.alpha
        return self.whole.mean + float(shift[0])

    @cached_property
    def alpha(self) -> Array:
        return self.whole.alpha

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        """mu and sigma at the rows of the data.  Those of other contexts have the sds of f."""
        mu, sigma = (each.copy() for each in self.whole.at_data)
        here = np.ones(len(self.data), dtype=bool)
        for column, place in self.place.items():
            here &= self.data.x[:, column] == place
        if here.any():
            mu[here], sigma[here] = self.predict(self.data.x[here])
        return mu, sigma

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> AtContext:
        return cast(AtContext, at_context(self.whole.add(x, y, weight, variance), self.place))

    def expecting_all(self, x: Array, weights: Array) -> AtContext:
        return cast(AtContext, at_context(self.whole.expecting_all(x, weights), self.place))

    def shared(self, point: Array, weights: Array | None = None) -> SharedCovariance:
        if weights is None:
            return _SharedAtContext(self, point[None, :], np.ones(1))
        return _SharedAtContext(self, point, weights, rows_among(point, self.data.x))

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> GPPath:
        """Draw f.  Its common effect is the same for all settings."""
        return self.whole.sample_path(rng, features, scale)


@dataclass(frozen=True, eq=False)
class _SharedAtContext(SharedCovariance):
    """The covariance of h; C has more in it than the kernel of h, so no term cancels."""

    @cached_property
    def at_data(self) -> Array:
        return self(self.gp.data.x)
