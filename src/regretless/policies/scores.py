"""Scores: what a search maximises, and a slack that must not be negative.

Everything here maximises on the unit cube, in the units of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from regretless._internal.arrays import Array
from regretless.improvement import log_h_and_slope
from regretless.model import GP, Path, Shared

STEEP = 100.0  # what a unit of slack is worth that is missing
FEASIBLE = -1e-9  # slack that rounding may take from a point on the edge of the feasible set


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where a search begins: the points of the data, and others.

    All searches of a decision begin at the same ones, so the posterior there is worked out once.
    """

    gp: GP
    others: Array
    complete: bool = False  # whether there are no more points in the space

    @property
    def sampled(self) -> Array:
        return self.gp.data.x

    @cached_property
    def posterior(self) -> tuple[Array, Array]:
        """mu and sigma, at the points of the data first."""
        known, new = self.gp.at_data, self.gp.posterior(self.others)
        return np.append(known[0], new[0]), np.append(known[1], new[1])


class Score(ABC):
    """A function to maximise over the unit cube, and a slack that must not be negative."""

    @property
    @abstractmethod
    def width(self) -> int:
        """How many terms a value sums over: the search tries fewer points where each costs more."""

    @abstractmethod
    def scales(self, dim: int) -> Array:
        """Per column, the distance over which the score changes: what a step is measured by."""

    @abstractmethod
    def __call__(self, x: Array) -> tuple[Array, Array]:
        """Values and slacks at the rows of x."""

    @abstractmethod
    def at_rows(self, count: int) -> tuple[Array, Array]:
        """Values and slacks at the first rows of the data, which are known to the posterior."""

    def over(self, candidates: Candidates) -> tuple[Array, Array]:
        """Values and slacks at the candidates, at the points of the data first."""
        known, new = self.at_rows(len(candidates.sampled)), self(candidates.others)
        return np.append(known[0], new[0]), np.append(known[1], new[1])

    @abstractmethod
    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        """Value + barrier * log(slack), and its gradient, for a search by gradients.

        Where slack is below barrier / STEEP the logarithm goes on as its tangent, of slope STEEP:
        the search may start outside and is led in.
        """


@dataclass(frozen=True, eq=False)
class PosteriorScore(Score):
    """A score that depends on x through the posterior N(mu, s^2), s = omega sigma.

    `utility(mu, s)` returns the value and its slopes in mu and s.  Where `shared` is given, the
    utility is also told the covariance of f(x) with f at that point, and returns its slope in it.
    The feasible set is z >= threshold for z = (mu - xi) / s, where a threshold is given: the gate
    of EIC.
    """

    gp: GP
    omega: float
    utility: Callable[..., tuple[Array, ...]]
    xi: float = 0.0
    threshold: float | None = None
    shared: Shared | None = None

    @property
    def width(self) -> int:
        return len(self.gp.data)

    def scales(self, dim: int) -> Array:
        return self.gp.hyper.kernel.scales(dim)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        beside = () if self.shared is None else (self.shared(x),)
        return self._weigh(*self.gp.posterior(x), *beside)

    def at_rows(self, count: int) -> tuple[Array, Array]:
        mu, sigma = self.gp.at_data
        beside = () if self.shared is None else (self.shared.at_data[:count],)
        return self._weigh(mu[:count], sigma[:count], *beside)

    def over(self, candidates: Candidates) -> tuple[Array, Array]:
        beside: tuple[Array, ...] = ()
        if self.shared is not None:
            beside = (np.append(self.shared.at_data, self.shared(candidates.others)),)
        return self._weigh(*candidates.posterior, *beside)

    def _weigh(self, mu: Array, sigma: Array, *beside: Array) -> tuple[Array, Array]:
        slack = np.full(len(mu), np.inf) if self.threshold is None else self._slack(mu, sigma)
        covariance = [self.omega**2 * each for each in beside]
        return self.utility(mu, self.omega * sigma, *covariance)[0], slack

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        mu, sigma, gradient = self.gp.posterior_vjp(x)
        s = self.omega * sigma
        if self.shared is None:
            value, d_mu, d_s = self.utility(mu, s)
        else:
            beside, pull = self.shared.with_gradient(x)
            value, d_mu, d_s, d_covariance = self.utility(mu, s, self.omega**2 * beside)
        if self.threshold is not None:
            slack, edge = self._slack(mu, sigma), barrier / STEEP
            room = np.maximum(slack, edge)
            value = value + barrier * np.log(room) + STEEP * np.minimum(slack - edge, 0.0)
            push = barrier / (room * self.omega)
            d_mu, d_s = d_mu + push, d_s - self.threshold * push
        slope = gradient(d_mu, self.omega * d_s)
        return value, slope if self.shared is None else slope + pull(self.omega**2 * d_covariance)

    def _slack(self, mu: Array, sigma: Array) -> Array:
        """mu - t s - xi in units of omega: z - t times sigma, of its sign and without its poles."""
        assert self.threshold is not None
        return np.asarray((mu - self.xi) / self.omega - self.threshold * sigma)


@dataclass(frozen=True, eq=False)
class PathScore(Score):
    """A sampled function, to be maximised as it is."""

    path: Path

    @property
    def width(self) -> int:
        return len(self.path.coefficients) + len(self.path.correction)

    def scales(self, dim: int) -> Array:
        return self.path.gp.hyper.kernel.scales(dim)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        return self.path(x), np.full(len(x), np.inf)

    def at_rows(self, count: int) -> tuple[Array, Array]:
        return self.path.at_data[:count], np.full(count, np.inf)

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        return self.path.with_gradient(x)


def log_ei(mu: Array, s: Array, xi: float) -> tuple[Array, Array, Array]:
    """log alpha_n (eq. EIacq) = log s + log h(z), and its slopes in mu and s."""
    z = (mu - xi) / s
    value, slope = log_h_and_slope(z)
    return np.log(s) + value, slope / s, (1.0 - z * slope) / s


def upper_score(gp: GP, width: float) -> Score:
    """mu + width s: an upper confidence bound, or the posterior mean itself."""

    def utility(mu: Array, s: Array) -> tuple[Array, Array, Array]:
        return mu + width * s, np.ones_like(mu), np.full_like(s, width)

    return PosteriorScore(gp, gp.omega, utility)
