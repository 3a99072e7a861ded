"""A mixture of posteriors with different hyper-parameters.

While data are few, many hyper-parameters explain them.  A single fit chooses one, and is then too
sure of itself.  A mixture keeps several and gives each a weight: the probability of its
hyper-parameters given the data.

All numbers are those of the mixture as a whole, by the laws of total mean and total variance:
    mean = sum_j w_j mu_j,    variance = sum_j w_j (s_j^2 + (mu_j - mean)^2).
So the sd is larger where the parts disagree.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from math import log, sqrt
from typing import Protocol, cast

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.kernels import Pullback
from regretless.model.gp import SharedCovariance
from regretless.model.posterior import (
    Posterior,
    SamplePath,
    Shared,
    expecting_all,
    in_single,
    moments_at,
)

_TINY = 1e-14  # smallest posterior variance, in units of omega^2
_NO_WEIGHT = 1e-7  # parts with a smaller weight are left out of gradients


@dataclass(frozen=True, eq=False)
class Mixture:
    """Posteriors of the same data with different hyper-parameters; itself a `Posterior`.

    Args:
        parts: the posteriors, at least one.
        log_weights: the logarithms of their weights, up to a constant.
    """

    parts: tuple[Posterior, ...]
    log_weights: Array

    @classmethod
    def of(cls, parts: Iterable[Posterior]) -> Posterior:
        """The mixture of posteriors that are equally likely; a single one is returned as it is."""
        each = tuple(parts)
        return each[0] if len(each) == 1 else cast(Posterior, cls(each, np.zeros(len(each))))

    @cached_property
    def weights(self) -> Array:
        """The probability of each part; they sum to 1."""
        weights = np.exp(self.log_weights - self.log_weights.max())
        return np.asarray(weights / weights.sum())

    @property
    def points(self) -> Array:
        return self.parts[0].points

    @property
    def sample_means(self) -> Array:
        return self.parts[0].sample_means

    @property
    def width(self) -> int:
        return sum(part.width for part in self.parts)

    @cached_property
    def _omega2s(self) -> Array:
        return np.array([part.omega2 for part in self.parts])

    @cached_property
    def omega2(self) -> float:
        return float(self.weights @ self._omega2s)

    @property
    def omega(self) -> float:
        return sqrt(self.omega2)

    @cached_property
    def noise_sd(self) -> float:
        return sqrt(float(self.weights @ np.array([part.noise_sd**2 for part in self.parts])))

    @cached_property
    def information(self) -> float:
        return float(self.weights @ np.array([part.information for part in self.parts]))

    @property
    def jitter(self) -> float:
        return max(part.jitter for part in self.parts)

    def scales(self, dim: int) -> Array:
        """For each column, the harmonic mean over the parts: short scales count for more."""
        with np.errstate(divide="ignore"):
            rates = self.weights @ (1.0 / np.array([part.scales(dim) for part in self.parts]))
            return np.asarray(1.0 / rates)

    # -- learning ----------------------------------------------------------------------------------

    def add(
        self, x: Array, y: float, weight: float = 1.0, variance: float | None = None
    ) -> Mixture:
        """The mixture with one more observation.

        By the rule of Bayes, each weight is multiplied by the density that the part had predicted
        for the observation.
        """
        parts = tuple(part.add(x, y, weight, variance) for part in self.parts)
        gained = [_log_density(part, x, y, weight, variance) for part in self.parts]
        log_weights = self.log_weights + np.array(gained)
        if not log_weights.max() > -np.inf:  # no part thought it possible: nothing to tell them by
            return Mixture(parts, self.log_weights)
        return Mixture(parts, log_weights - log_weights.max())

    def expecting(self, x: Array, weight: float = 1.0) -> Mixture:
        """The mixture as if x had been observed; its result confirms each part's own mean."""
        parts = tuple(
            part.expecting(x) if weight == 1.0 else part.expecting(x, weight) for part in self.parts
        )
        return Mixture(parts, self.log_weights)

    def expecting_all(self, x: Array, weights: Array) -> Mixture:
        """`expecting` for all rows of x."""
        parts = tuple(expecting_all(part, x, weights) for part in self.parts)
        return Mixture(parts, self.log_weights)

    @cached_property
    def in_single(self) -> Mixture:
        """The mixture with parts in single precision, see `GP.in_single`."""
        return Mixture(tuple(map(in_single, self.parts)), self.log_weights)

    # -- predicting --------------------------------------------------------------------------------

    @cached_property
    def at_data(self) -> tuple[Array, Array]:
        return self._moments([part.at_data for part in self.parts])

    def predict(self, x: Array) -> tuple[Array, Array]:
        return self._moments([part.predict(x) for part in self.parts])

    def _moments(self, each: list[tuple[Array, Array]]) -> tuple[Array, Array]:
        """mu and sigma of the mixture, from those of the parts."""
        mu = np.array([one[0] for one in each])
        sigma = np.array([one[1] for one in each])
        mean = self.weights @ mu
        variance = (self.weights * self._omega2s) @ (sigma * sigma)
        variance += self.weights @ (mu - mean) ** 2
        return mean, np.sqrt(np.maximum(variance / self.omega2, _TINY))

    def predict_vjp(self, x: Array) -> tuple[Array, Array, Callable[[Array, Array], Array]]:
        each = [part.predict_vjp(x) for part in self.parts]
        mean, sigma = self._moments([(mu, sd) for mu, sd, _ in each])

        def gradient(a: Array, b: Array) -> Array:
            # sigma dsigma omega^2 = sum_j w_j (omega_j^2 sigma_j dsigma_j + (mu_j - mean) dmu_j)
            rate = b / (sigma * self.omega2)
            slope = np.zeros_like(x)
            for w, omega2, (mu, sd, pull) in zip(self.weights, self._omega2s, each, strict=True):
                if w > _NO_WEIGHT:
                    slope += w * pull(a + rate * (mu - mean), rate * omega2 * sd)
            return slope

        return mean, sigma, gradient

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        apart_x = self._apart(x)
        apart_z = apart_x if z is None else self._apart(z)
        total = (self.weights * apart_x.T) @ apart_z
        for share, part in zip(self.weights * self._omega2s, self.parts, strict=True):
            total += share * part.covariance(x, z)
        return np.asarray(total / self.omega2)

    def _apart(self, x: Array) -> Array:
        """mu_j - mean at the rows of x, one row for each part."""
        mu = np.array([part.predict(x)[0] for part in self.parts])
        return np.asarray(mu - self.weights @ mu)

    def shared(self, point: Array, weights: Array | None = None) -> MixedCovariance:
        return MixedCovariance(self, point, weights)

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> SamplePath:
        """A function drawn from one of the parts, which is drawn by the weights."""
        part = self.parts[int(rng.choice(len(self.parts), p=self.weights))]
        return part.sample_path(rng, features, scale)


def _log_density(
    part: Posterior, x: Array, y: float, weight: float, variance: float | None
) -> float:
    """The log density of an observation y at x, as the part predicts it; up to a constant."""
    mu, sigma = part.predict(x[None, :])
    noise = part.noise_sd**2 / weight if variance is None else variance
    spread = part.omega2 * float(sigma[0]) ** 2 + noise
    gap = y - float(mu[0])
    return -0.5 * (log(spread) + gap / spread * gap)


@dataclass(frozen=True, eq=False)
class MixedCovariance:
    """The covariance of f with f at one point, or with a weighted sum of f at several points.

    It is that of a mixture, in units of its omega^2.
    """

    mixture: Mixture
    point: Array
    weights: Array | None = None

    @cached_property
    def _each(self) -> list[tuple[float, float, Posterior]]:
        """For each part: the share of its covariance, and the weight of its mean."""
        mixture = self.mixture
        covariances = mixture.weights * mixture._omega2s / mixture.omega2
        means = mixture.weights * self._apart / mixture.omega2
        return list(zip(covariances.tolist(), means.tolist(), mixture.parts, strict=True))

    @cached_property
    def _apart(self) -> Array:
        """For each part, how far its mean of the sum is from that of the mixture."""
        if self.weights is None:
            return self.mixture._apart(self.point[None, :])[:, 0]
        parts = self.mixture.parts
        means = np.array([moments_at(part, self.point)[0] @ self.weights for part in parts])
        return np.asarray(means - self.mixture.weights @ means)

    @cached_property
    def of_parts(self) -> list[Shared]:
        """The covariance under each part of the mixture."""
        return [part.shared(self.point, self.weights) for part in self.mixture.parts]

    @cached_property
    def at_data(self) -> Array:
        # The means' weights sum to 0, so the mixture's own mean need not be subtracted.
        total = np.zeros(len(self.mixture.points))
        for (share, lean, part), shared in zip(self._each, self.of_parts, strict=True):
            total += share * shared.at_data + lean * part.at_data[0]
        return total

    @cached_property
    def variance(self) -> float:
        if self.weights is None:
            return float(self.mixture.predict(self.point[None, :])[1][0] ** 2)
        mixture, own = self.mixture, np.array([shared.variance for shared in self.of_parts])
        total = mixture.weights @ (mixture._omega2s * own + self._apart**2)
        return float(total) / mixture.omega2

    @cached_property
    def _terms(self) -> list[_Term]:
        """Functions whose sum is the covariance: of each part, its covariance and its mean."""
        return [
            shared.blended(share, lean)
            if isinstance(shared, SharedCovariance)
            else _Apart(share, lean, part, shared)
            for (share, lean, part), shared in zip(self._each, self.of_parts, strict=True)
            if abs(share) + abs(lean) > _NO_WEIGHT
        ]

    def __call__(self, x: Array) -> Array:
        total = np.zeros(len(x))
        for term in self._terms:
            total += term(x)
        return total

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        total, pulls = np.zeros(len(x)), []
        for term in self._terms:
            value, pull = term.with_gradient(x)
            total += value
            pulls.append(pull)

        def pullback(a: Array) -> Array:
            slope = np.zeros_like(x)
            for pull in pulls:
                slope += pull(a)
            return slope

        return total, pullback


class _Term(Protocol):
    def __call__(self, x: Array) -> Array: ...

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]: ...


@dataclass(frozen=True, eq=False)
class _Apart:
    """share times a covariance plus lean times a mean, for a posterior of the user's own."""

    share: float
    lean: float
    part: Posterior
    shared: Shared

    def __call__(self, x: Array) -> Array:
        return self.share * self.shared(x) + self.lean * self.part.predict(x)[0]

    def with_gradient(self, x: Array) -> tuple[Array, Pullback]:
        covariance, pull = self.shared.with_gradient(x)
        mu, _, gradient = self.part.predict_vjp(x)

        def pullback(a: Array) -> Array:
            return pull(self.share * a) + gradient(self.lean * a, np.zeros_like(a))

        return self.share * covariance + self.lean * mu, pullback
