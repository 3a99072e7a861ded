"""Scores: what a search maximises, and the constraints that it keeps.

Everything here maximises on the unit cube, in the units of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.improvement import log_h_and_slope
from regretless.model import Posterior, SamplePath, Shared

STEEP = 100.0  # what a unit of slack is worth that is missing
FEASIBLE = -1e-9  # slack that rounding may take from a point on the edge of the feasible set

Rows = slice | NDArray[np.intp]  # of the points of the data


@dataclass(frozen=True, eq=False)
class Candidates:
    """Where a search begins: points of the data, and others.

    All searches of a decision begin at the same ones, so the posterior there is worked out once.
    """

    posterior: Posterior
    others: Array
    complete: bool = False  # whether there are no more points in the space
    rows: Rows = field(default_factory=lambda: slice(None))  # of the data: may be tried again

    @property
    def sampled(self) -> Array:
        return np.asarray(self.posterior.points[self.rows])

    @cached_property
    def predicted(self) -> Predicted:
        """At the points of the data first."""
        known, new = self.posterior.at_data, self.posterior.predict(self.others)
        mu, sigma = (np.append(old[self.rows], more) for old, more in zip(known, new, strict=True))
        return Predicted(np.vstack([self.sampled, self.others]), mu, sigma)


class Predicted(NamedTuple):
    """The posterior at the rows of x: what a constraint may look at."""

    x: Array
    mu: Array
    sigma: Array  # in units of omega


class Constraint(ABC):
    """A smooth limit on where a search may go: a point is allowed where its slack is not negative.

    The gate of EIC is one.  A limit on another outcome, with a posterior of its own, or on x itself
    is another.  The slack should be of the order of 1 where a point is clearly allowed; `unit` says
    how much one unit of it is in the units that `slopes` speaks of.
    """

    unit: float = 1.0

    @abstractmethod
    def slack(self, at: Predicted) -> Array:
        """At least 0 where a point is allowed."""

    @abstractmethod
    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        """The slopes of slack times unit in mu, in s = omega sigma and, (q, d) or None, in x."""


@dataclass(frozen=True, eq=False)
class Gate(Constraint):
    """EIC's gate: z >= threshold for z = (mu - xi) / s."""

    xi: float
    threshold: float
    unit: float  # omega

    def slack(self, at: Predicted) -> Array:
        """mu - t s - xi in units of omega: z - t times sigma, of its sign and without its poles."""
        return np.asarray((at.mu - self.xi) / self.unit - self.threshold * at.sigma)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 1.0, -self.threshold, None


@dataclass(frozen=True, eq=False, kw_only=True)
class Score(ABC):
    """A function to maximise over the unit cube, within constraints."""

    constraints: tuple[Constraint, ...] = ()

    def within(self, *constraints: Constraint) -> Self:
        """The same score with further constraints."""
        return replace(self, constraints=(*self.constraints, *constraints))

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
    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        """Values and slacks at rows of the data, which are known to the posterior."""

    def over(self, candidates: Candidates) -> tuple[Array, Array]:
        """Values and slacks at the candidates, at the points of the data first."""
        known, new = self.at_rows(candidates.rows), self(candidates.others)
        return np.append(known[0], new[0]), np.append(known[1], new[1])

    @abstractmethod
    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        """Value + barrier * log(slack) for each constraint, and its gradient.

        Where slack is below barrier / STEEP the logarithm goes on as its tangent, of slope STEEP:
        the search may start outside and is led in.
        """

    def _slack(self, at: Predicted) -> Array:
        """The least slack of all constraints."""
        if not self.constraints:
            return np.full(len(at.mu), np.inf)
        slack = self.constraints[0].slack(at)
        for constraint in self.constraints[1:]:
            slack = np.minimum(slack, constraint.slack(at))
        return slack


@dataclass(frozen=True, eq=False)
class PosteriorScore(Score):
    """A score that depends on x through the posterior N(mu, s^2), s = omega sigma.

    `utility(mu, s)` returns the value and its slopes in mu and s.  Where `shared` is given, the
    utility is also told the covariance of f(x) with f at that point, and returns its slope in it.
    """

    posterior: Posterior
    omega: float
    utility: Callable[..., tuple[Array, ...]]
    shared: Shared | None = None

    @property
    def width(self) -> int:
        return len(self.posterior.points)

    def scales(self, dim: int) -> Array:
        return self.posterior.scales(dim)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        beside = () if self.shared is None else (self.shared(x),)
        return self._weigh(Predicted(x, *self.posterior.predict(x)), *beside)

    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        mu, sigma = self.posterior.at_data
        beside = () if self.shared is None else (self.shared.at_data[rows],)
        here = Predicted(self.posterior.points[rows], mu[rows], sigma[rows])
        return self._weigh(here, *beside)

    def over(self, candidates: Candidates) -> tuple[Array, Array]:
        beside: tuple[Array, ...] = ()
        if self.shared is not None:
            known = self.shared.at_data[candidates.rows]
            beside = (np.append(known, self.shared(candidates.others)),)
        return self._weigh(candidates.predicted, *beside)

    def _weigh(self, at: Predicted, *beside: Array) -> tuple[Array, Array]:
        slack = self._slack(at)
        covariance = [self.omega**2 * each for each in beside]
        return self.utility(at.mu, self.omega * at.sigma, *covariance)[0], slack

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        mu, sigma, gradient = self.posterior.predict_vjp(x)
        s = self.omega * sigma
        if self.shared is None:
            value, d_mu, d_s = self.utility(mu, s)
        else:
            beside, pull = self.shared.with_gradient(x)
            value, d_mu, d_s, d_covariance = self.utility(mu, s, self.omega**2 * beside)
        d_x: list[Array] = []
        for constraint in self.constraints:
            lean = _lean(value, constraint, Predicted(x, mu, sigma), barrier)
            value, d_mu, d_s = lean.value, d_mu + lean.d_mu, d_s + lean.d_s
            d_x += [] if lean.d_x is None else [lean.d_x]
        slope = gradient(d_mu, self.omega * d_s)
        if self.shared is not None:
            slope = slope + pull(self.omega**2 * d_covariance)
        return value, slope + sum(d_x) if d_x else slope


@dataclass(frozen=True, eq=False)
class PathScore(Score):
    """A sampled function, to be maximised as it is.

    `posterior` is asked for where constraints are given, which the path itself can't tell.
    """

    path: SamplePath
    posterior: Posterior

    @property
    def width(self) -> int:
        return self.path.width

    def scales(self, dim: int) -> Array:
        return self.path.scales(dim)

    def __call__(self, x: Array) -> tuple[Array, Array]:
        return self.path(x), self._slack_at(x)

    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        return self.path.at_data[rows], self._slack_at(self.posterior.points[rows])

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        value, slope = self.path.with_gradient(x)
        if not self.constraints:
            return value, slope
        mu, sigma, gradient = self.posterior.predict_vjp(x)
        for constraint in self.constraints:
            lean = _lean(value, constraint, Predicted(x, mu, sigma), barrier)
            value = lean.value
            slope = slope + gradient(
                lean.d_mu * np.ones_like(mu), self.posterior.omega * lean.d_s * np.ones_like(mu)
            )
            slope = slope if lean.d_x is None else slope + lean.d_x
        return value, slope

    def _slack_at(self, x: Array) -> Array:
        if not self.constraints:
            return np.full(len(x), np.inf)
        return self._slack(Predicted(x, *self.posterior.predict(x)))


class _Lean(NamedTuple):
    """A score's value with a barrier, and what that adds to its slopes in mu, s and x."""

    value: Array
    d_mu: Array
    d_s: Array
    d_x: Array | None


def _lean(value: Array, constraint: Constraint, at: Predicted, barrier: float) -> _Lean:
    slack, edge = constraint.slack(at), barrier / STEEP
    room = np.maximum(slack, edge)
    push = barrier / (room * constraint.unit)
    d_mu, d_s, d_x = constraint.slopes(at)
    return _Lean(
        value + barrier * np.log(room) + STEEP * np.minimum(slack - edge, 0.0),
        d_mu * push,
        d_s * push,
        None if d_x is None else d_x * push[:, None],
    )


def log_ei(mu: Array, s: Array, xi: float) -> tuple[Array, Array, Array]:
    """log alpha_n (eq. EIacq) = log s + log h(z), and its slopes in mu and s."""
    z = (mu - xi) / s
    value, slope = log_h_and_slope(z)
    return np.log(s) + value, slope / s, (1.0 - z * slope) / s


def upper_score(posterior: Posterior, width: float) -> Score:
    """mu + width s: an upper confidence bound, or the posterior mean itself."""

    def utility(mu: Array, s: Array) -> tuple[Array, Array, Array]:
        return mu + width * s, np.ones_like(mu), np.full_like(s, width)

    return PosteriorScore(posterior, posterior.omega, utility)
