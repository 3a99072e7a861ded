"""Limits on outcomes beside the objective, and where they most likely hold.

Each outcome has a posterior of its own, in which larger is better.  A limit holds at x if
    side (u(x) - level - share (u(b) - mu(b))) >= 0,
where u is the outcome.  `share` is 0 for a fixed level.  For a level that depends on the outcome at
a reference point b, it is the rate at which the level changes with u(b).  The difference is one
Gaussian, so the probability that the limit holds is Phi(mean / sd).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from math import log, pi

import numpy as np

from regretless._internal.arrays import Array
from regretless.model import Posterior, Shared
from regretless.policies.scores import FEASIBLE, Constraint, Predicted, Rows, Score

_NO_VARIANCE = 1e-12  # a smaller variance is a rounding error: the difference is known exactly
_LOG_SQRT_2PI = 0.5 * log(2 * pi)
_SURE = 30.0  # Phi(-30) is about 1e-197: log Phi and its slope are still accurate
_WORTH_KEEPING = 64  # differences at so many points are kept for the next search

Pull = Callable[[Array, Array], Array]  # (a, b) -> a dmean/dx + b dsd/dx, row by row


@dataclass(frozen=True, eq=False)
class Limit(Constraint):
    """An outcome must stay on one side of a level, with a probability: mean >= z sd.

    Args:
        posterior: the posterior of the outcome.
        level: the level, in the units of the posterior.
        z: the quantile of the normal distribution at the probability.
        side: 1.0 if the outcome must be at least the level, -1.0 if at most.
        reference: the covariance of the outcome with that at the reference point, see
            `Posterior.shared`; None for a fixed level.
        share: the rate at which the level changes with the outcome at the reference point.
        name: the name of the limit, for decisions.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> limit = Limit(GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0)), 0.0, z=1.645)
        >>> limit.probability(np.array([[0.2], [0.8]])).round(2).tolist()
        [1.0, 0.0]
    """

    posterior: Posterior
    level: float
    z: float
    side: float = 1.0
    reference: Shared | None = None
    share: float = 0.0
    name: str = ""
    # The last points and the difference there: all searches of a decision begin at the same points.
    _last: list[tuple[Array, tuple[Array, Array]]] = field(default_factory=list, repr=False)

    def slack(self, at: Predicted) -> Array:
        """(mean - z sd) / omega."""
        return self._slack(*self.difference(at.x))

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return self.slack_and_slopes(at)[1]

    def slack_and_slopes(
        self, at: Predicted
    ) -> tuple[Array, tuple[Array | float, Array | float, Array | None]]:
        mean, sd, pull = self.difference_vjp(at.x)
        ones = np.ones_like(mean)
        return self._slack(mean, sd), (0.0, 0.0, pull(ones, -self.z * ones) / self.posterior.omega)

    def _slack(self, mean: Array, sd: Array) -> Array:
        return (mean - self.z * sd) / self.posterior.omega

    def probability(self, x: Array) -> Array:
        """The probability that the limit holds, at the rows of x."""
        from scipy.special import ndtr

        return np.asarray(ndtr(_ratio(*self.difference(x))))

    def difference(self, x: Array) -> tuple[Array, Array]:
        """Mean and sd of the difference at the rows of x."""
        for points, known in self._last:
            if points is x:
                return known
        mu, sigma = self.posterior.predict(x)
        covariance = None if self.reference is None else self.reference(x)
        moments = self._moments(mu, sigma, covariance)
        if len(x) >= _WORTH_KEEPING:
            self._last[:] = [(x, moments)]
        return moments

    def difference_vjp(self, x: Array) -> tuple[Array, Array, Pull]:
        """Mean and sd of the difference, and the function (a, b) -> a dmean/dx + b dsd/dx."""
        mu, sigma, gradient = self.posterior.predict_vjp(x)
        omega, side, share = self.posterior.omega, self.side, self.share
        if self.reference is None:
            mean, sd = self._moments(mu, sigma, None)
            return mean, sd, lambda a, b: gradient(side * a, omega * b)
        covariance, pull_covariance = self.reference.with_gradient(x)
        mean, sd = self._moments(mu, sigma, covariance)
        rate = np.divide(omega * omega, sd, out=np.zeros_like(sd), where=sd > 0.0)

        def pull(a: Array, b: Array) -> Array:
            # sd dsd = omega^2 (sigma dsigma - share dcovariance)
            return gradient(side * a, b * rate * sigma) + pull_covariance(-share * b * rate)

        return mean, sd, pull

    def _moments(self, mu: Array, sigma: Array, covariance: Array | None) -> tuple[Array, Array]:
        mean, omega = self.side * (mu - self.level), self.posterior.omega
        if self.reference is None or covariance is None:
            return mean, omega * sigma
        share = self.share
        variance = sigma * sigma - 2.0 * share * covariance + share**2 * self.reference.variance
        return mean, omega * np.sqrt(np.where(variance > _NO_VARIANCE, variance, 0.0))


@dataclass(frozen=True, eq=False)
class Unknown(Constraint):
    """The limit of an outcome of which nothing is known.  It allows no point.

    Args:
        name: the name of the limit, for decisions.

    Example:
        >>> import numpy as np
        >>> at = Predicted(x=np.array([[0.5]]), mu=np.array([1.0]), sigma=np.array([0.2]))
        >>> (Unknown("p99_ms").slack(at) >= 0).tolist()
        [False]
    """

    name: str = ""

    def slack(self, at: Predicted) -> Array:
        return np.full(len(at.mu), -1.0)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 0.0, 0.0, None


@dataclass(frozen=True, eq=False)
class MostLikely(Score):
    """The logarithm of the probability that all limits hold, as if they were independent.

    Args:
        limits: the limits, at least one.
        posterior: the posterior of the objective, whose points are the visited ones.
        constraints: limits on where the search may go.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> score = MostLikely((Limit(posterior, 0.0, z=1.645),), posterior)
        >>> value, _ = score(np.array([[0.2], [0.8]]))
        >>> bool(value[0] > value[1])
        True
    """

    limits: tuple[Limit, ...]
    posterior: Posterior

    @property
    def width(self) -> int:
        return sum(limit.posterior.width for limit in self.limits)

    def scales(self, dim: int) -> Array:
        """For each column, the shortest distance over which one of the outcomes changes."""
        each = [limit.posterior.scales(dim) for limit in self.limits]
        return np.asarray(np.min(each, axis=0))

    def __call__(self, x: Array) -> tuple[Array, Array]:
        total = np.zeros(len(x))
        for limit in self.limits:
            total += log_cdf(*limit.difference(x))
        return total, self._slack_at(x)

    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        return self(self.posterior.points[rows])

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        total, slope = np.zeros(len(x)), np.zeros_like(x)
        for limit in self.limits:
            mean, sd, pull = limit.difference_vjp(x)
            z = _ratio(mean, sd)
            value = _log_ndtr(z)
            # d log Phi(z) = phi(z)/Phi(z) (dmean - z dsd) / sd
            steep = np.exp(-0.5 * z * z - _LOG_SQRT_2PI - value)
            rate = np.divide(steep, sd, out=np.zeros_like(sd), where=sd > 0.0)
            total += value
            slope += pull(rate, -rate * z)
        return total, slope

    def _slack_at(self, x: Array) -> Array:
        if not self.constraints:
            return np.full(len(x), np.inf)
        return self._slack(Predicted(x, *self.posterior.predict(x)))


def _ratio(mean: Array, sd: Array) -> Array:
    """mean / sd; what is known exactly holds if its mean is not negative, up to rounding."""
    sure = np.where(mean >= FEASIBLE, _SURE, -_SURE)
    ratio = np.divide(mean, sd, out=sure, where=sd > 0.0)
    return np.clip(ratio, -_SURE, _SURE)


def log_cdf(mean: Array, sd: Array) -> Array:
    """The logarithm of the probability that a Gaussian is not negative.

    Example:
        >>> import numpy as np
        >>> round(float(np.exp(log_cdf(np.array([0.0]), np.array([1.0]))[0])), 3)
        0.5
    """
    return _log_ndtr(_ratio(mean, sd))


def _log_ndtr(z: Array) -> Array:
    from scipy.special import log_ndtr

    return np.asarray(log_ndtr(z))
