"""Scores: functions that the search maximises, and the constraints on where it may go.

All values are in the units of the model, on the unit cube, and larger is better.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import pi, sqrt
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.improvement import gate_below, log_h_and_slope
from regretless.model import NoiseShape, Posterior, SamplePath, Shared

STEEP = 100.0  # penalty of an infeasible point, for each unit of slack that it lacks
FEASIBLE = -1e-9  # a point is feasible from this slack on: rounding may make 0 negative

_SURE = 30.0  # from this z on, an improvement is sure: h(z) = z

Rows = slice | NDArray[np.intp]  # rows of the points of a posterior


@dataclass(frozen=True, eq=False)
class Candidates:
    """The points at which a search begins: visited points, and new ones.

    All searches of a decision begin at the same points, so the posterior there is computed once.

    Args:
        posterior: the posterior of f.
        others: new points, of shape (q, d).
        complete: whether the candidates are all points of the space.
        rows: the points of the posterior that may be tried again.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> candidates = Candidates(posterior, others=np.array([[0.5]]))
        >>> candidates.predicted.x.tolist()
        [[0.2], [0.8], [0.5]]
    """

    posterior: Posterior
    others: Array
    complete: bool = False
    rows: Rows = field(default_factory=lambda: slice(None))

    @property
    def sampled(self) -> Array:
        """The visited points."""
        return np.asarray(self.posterior.points[self.rows])

    @cached_property
    def predicted(self) -> Predicted:
        """The posterior at the visited points, followed by that at the others."""
        known, new = self.posterior.at_data, self.posterior.predict(self.others)
        mu, sigma = (np.append(old[self.rows], more) for old, more in zip(known, new, strict=True))
        return Predicted(np.vstack([self.sampled, self.others]), mu, sigma)


class Predicted(NamedTuple):
    """The posterior at some points, which a constraint may use.

    Attributes:
        x: the points, of shape (q, d).
        mu: the posterior mean at each point.
        sigma: the posterior sd at each point, in units of omega.

    Example:
        >>> import numpy as np
        >>> Predicted(x=np.array([[0.5]]), mu=np.array([1.0]), sigma=np.array([0.2])).mu.tolist()
        [1.0]
    """

    x: Array
    mu: Array
    sigma: Array


class Constraint(ABC):
    """A smooth limit on where a search may go: a point is feasible if its slack is not negative.

    EIC's gate is a constraint.  Others may limit x itself, or another outcome that has its own
    posterior.  The slack should be about 1 at points that are clearly feasible.  `slopes` are those
    of `unit` times the slack.

    `name` is what a decision calls the constraint if it held the policy back.

    Example:
        >>> import numpy as np
        >>> from regretless.policies import Constraint, Predicted
        >>> class Left(Constraint):  # keeps the first coordinate below 0.7
        ...     def slack(self, at):
        ...         return 0.7 - at.x[:, 0]
        ...
        ...     def slopes(self, at):
        ...         return 0.0, 0.0, np.full_like(at.x, -1.0)
        >>> at = Predicted(x=np.array([[0.2], [0.9]]), mu=np.zeros(2), sigma=np.ones(2))
        >>> (Left().slack(at) >= 0).tolist()
        [True, False]
    """

    unit: float = 1.0
    name: str = ""

    @abstractmethod
    def slack(self, at: Predicted) -> Array:
        """The slack of each point; at least 0 if the point is feasible.

        Args:
            at: the points, with their posterior means and sds.
        """

    @abstractmethod
    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        """The slopes of `unit` times the slack.

        Args:
            at: the points, with their posterior means and sds.

        Returns:
            The slopes in mu, in s = omega sigma and in x.  The last one has the shape (q, d), or is
            None if the slack does not depend on x directly.
        """

    def slack_and_slopes(
        self, at: Predicted
    ) -> tuple[Array, tuple[Array | float, Array | float, Array | None]]:
        """What `slack` and `slopes` return, for a constraint that works both out at once.

        Args:
            at: the points, with their posterior means and sds.
        """
        return self.slack(at), self.slopes(at)

    def admits(self, x: Array) -> bool:
        """A last check of the chosen point x, where the slack is only an approximation.

        Args:
            x: a point of the unit cube.
        """
        return True

    def numbers(self, x: Array) -> dict[str, Any]:
        """The attributes of a `Decision` that say how the chosen point x keeps to the constraint.

        Args:
            x: a point of the unit cube.
        """
        return {}


@dataclass(frozen=True, eq=False)
class Gate(Constraint):
    """EIC's gate: z >= threshold, for z = (mu - xi) / s and s = omega sigma.

    Args:
        xi: the incumbent value.
        threshold: t_m, see `improvement.gate`.
        unit: omega.

    Example:
        >>> import numpy as np
        >>> gate = Gate(xi=1.0, threshold=-2.0, unit=1.0)
        >>> at = Predicted(x=np.zeros((2, 1)), mu=np.array([0.5, -3.0]), sigma=np.ones(2))
        >>> (gate.slack(at) >= 0).tolist()
        [True, False]
    """

    xi: float
    threshold: float
    unit: float

    def slack(self, at: Predicted) -> Array:
        """(mu - xi) / omega - t sigma: it has the sign of z - t, and no pole at sigma = 0."""
        return np.asarray((at.mu - self.xi) / self.unit - self.threshold * at.sigma)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 1.0, -self.threshold, None


@dataclass(frozen=True, eq=False)
class CappedGate(Constraint):
    """EIC's gate if f can't exceed `top`: E[(min(f, top) - xi)^+] >= E[(xi - f)^+] / horizon.

    It is `Gate` with a threshold that depends on the room between xi and `top`, see
    `improvement.gate_below`.  It excludes the incumbent itself if there is hardly any room.

    Args:
        xi: the incumbent value, below `top`.
        top: the value that f can't exceed.
        horizon: the number of evaluations in which the gain has to make up for the loss.
        unit: omega.

    Example:
        >>> import numpy as np
        >>> at = Predicted(x=np.zeros((2, 1)), mu=np.array([0.5, 0.5]), sigma=np.array([1.0, 2.0]))
        >>> far, near = CappedGate(1.0, 9.0, 10.0, 1.0), CappedGate(1.0, 1.01, 10.0, 1.0)
        >>> (far.slack(at) >= 0).tolist(), (near.slack(at) >= 0).tolist()
        ([True, True], [False, False])
    """

    xi: float
    top: float
    horizon: float
    unit: float

    def slack(self, at: Predicted) -> Array:
        threshold, _ = self._threshold(at)
        return np.asarray((at.mu - self.xi) / self.unit - threshold * at.sigma)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        threshold, slope = self._threshold(at)
        return 1.0, slope * self._room(at) - threshold, None

    def _room(self, at: Predicted) -> Array:
        return np.asarray((self.top - self.xi) / (self.unit * at.sigma))

    def _threshold(self, at: Predicted) -> tuple[Array, Array]:
        return gate_below(self.horizon, self._room(at))


@dataclass(frozen=True, eq=False)
class ChangeGate(Constraint):
    """EIC's gate if a change of the setting costs c: what an evaluation gains pays for it.

    With m evaluations left, the running setting r, and the incumbent i of value xi, to keep to what
    is known brings m xi - c0: it is the better one of a change to i and of staying at r, so
    c0 = min(c, m (xi - mu(r))), or 0 if r is i.  To try x brings
        mu - c [x != r] + E max((m - 1) f(x), (m - 1) xi - c [x != i]),
    because the setting stays at x or changes to the incumbent.  So x is allowed if
        mu - xi - c [x != r] - c [x != i] + c0 + S h((M + c [x != i]) / S) >= 0
    for M = (m - 1)(mu - xi) and S = (m - 1) s.  For c = 0, this is `Gate`.  Either r or i is always
    allowed.

    Args:
        xi: the incumbent value.
        steps: m, the number of evaluations in which a gain has to make up for a loss.
        cost: c, what a change costs.
        spared: c0.
        running: r, the encoded setting that runs.
        incumbent: i, the encoded incumbent.
        unit: omega.

    Example:
        >>> import numpy as np
        >>> here, there = np.array([0.2]), np.array([0.8])
        >>> gate = ChangeGate(1.0, 10, cost=2.0, spared=0.0, running=here, incumbent=here, unit=1.0)
        >>> at = Predicted(np.array([[0.2], [0.8]]), mu=np.ones(2), sigma=np.full(2, 0.1))
        >>> (gate.slack(at) >= 0).tolist()  # at 0.8 there is too little to gain
        [True, False]
    """

    xi: float
    steps: float
    cost: float
    spared: float
    running: Array
    incumbent: Array
    unit: float

    def slack(self, at: Predicted) -> Array:
        back = self._unless(at, self.incumbent)
        future = _hoped(*self._later(at, back))[0]
        total = at.mu - self.xi - self._unless(at, self.running) - back + self.spared + future
        return np.asarray(total / self.unit)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        _, d_mean, d_sd = _hoped(*self._later(at, self._unless(at, self.incumbent)))
        return 1.0 + (self.steps - 1.0) * d_mean, (self.steps - 1.0) * d_sd, None

    def _later(self, at: Predicted, back: Array) -> tuple[Array, Array]:
        """M + c [x != i] and S."""
        later = self.steps - 1.0
        return later * (at.mu - self.xi) + back, later * self.unit * at.sigma

    def _unless(self, at: Predicted, point: Array) -> Array:
        """What a change to each point costs, from `point`."""
        return np.asarray(self.cost * (at.x != point).any(axis=1))


@dataclass(frozen=True, eq=False)
class ChangePays(Constraint):
    """For policies without a gate: a change must promise as much as it costs.

    That is m E max(f(x) - mu(r), 0) >= c at all points x except the running setting r.

    Args:
        value: mu(r).
        steps: m, the number of evaluations that remain.
        cost: c, what a change costs.
        running: r, the encoded setting that runs.
        unit: omega.

    Example:
        >>> import numpy as np
        >>> pays = ChangePays(1.0, 10, cost=2.0, running=np.array([0.2]), unit=1.0)
        >>> at = Predicted(np.array([[0.2], [0.8]]), mu=np.ones(2), sigma=np.full(2, 0.1))
        >>> (pays.slack(at) >= 0).tolist()
        [True, False]
    """

    value: float
    steps: float
    cost: float
    running: Array
    unit: float

    def slack(self, at: Predicted) -> Array:
        hoped = _hoped(at.mu - self.value, self.unit * at.sigma)[0]
        cost = self.cost * (at.x != self.running).any(axis=1)
        return np.asarray((self.steps * hoped - cost) / self.unit)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        _, d_mean, d_sd = _hoped(at.mu - self.value, self.unit * at.sigma)
        return self.steps * d_mean, self.steps * d_sd, None


def _hoped(mean: Array, sd: Array) -> tuple[Array, Array, Array]:
    """E max(v, 0) for v ~ N(mean, sd^2), and its slopes in mean and sd."""
    from scipy.special import ndtr

    sd = np.maximum(sd, 1e-300)
    z = np.clip(mean / sd, -_SURE, _SURE)
    value = np.where(z < _SURE, sd * np.exp(log_h_and_slope(z)[0]), mean)
    return value, ndtr(z), np.exp(-0.5 * z * z) / sqrt(2 * pi)


@dataclass(frozen=True, eq=False, kw_only=True)
class Score(ABC):
    """The base class of functions that the search maximises over the unit cube.

    Args:
        constraints: limits on where the search may go.
        unit: a difference of two values that is large: 1 for logarithms, and a quarter of omega
            for values in the units of f.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> score = upper_score(posterior, width=0.0).within(Gate(0.0, -1.0, unit=1.0))
        >>> value, slack = score(np.array([[0.2], [0.8]]))
        >>> bool(value[0] > value[1]), (slack >= 0).tolist()
        (True, [True, False])
    """

    constraints: tuple[Constraint, ...] = ()
    unit: float = 1.0

    def within(self, *constraints: Constraint) -> Self:
        """The same score with further constraints.

        Args:
            *constraints: the constraints to add.
        """
        return replace(self, constraints=(*self.constraints, *constraints))

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of terms in the sum that gives a value.  If it is large, the search tries
        fewer points."""

    @abstractmethod
    def scales(self, dim: int) -> Array:
        """For each column, the distance over which the score changes: the unit of a step.

        Args:
            dim: the number of columns.
        """

    @abstractmethod
    def __call__(self, x: Array) -> tuple[Array, Array]:
        """The values at the rows of x, and the smallest slack of all constraints there."""

    @abstractmethod
    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        """Values and slacks at these points of the posterior, which are cheaper than others.

        Args:
            rows: numbers of points that the posterior knows.
        """

    def over(self, candidates: Candidates) -> tuple[Array, Array]:
        """Values and slacks at the candidates: the visited points, followed by the others.

        Args:
            candidates: the points, one a row.
        """
        known, new = self.at_rows(candidates.rows), self(candidates.others)
        return np.append(known[0], new[0]), np.append(known[1], new[1])

    @abstractmethod
    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        """The sum of value + barrier * log(slack) over the constraints, and its gradient.

        Below slack = barrier / STEEP, the tangent of slope STEEP replaces the logarithm.  So a
        search may start at an infeasible point, and moves into the feasible set.

        Args:
            x: points, one a row.
            barrier: the weight of the logarithm.
        """

    def _slack(self, at: Predicted) -> Array:
        """The smallest slack of all constraints; infinite if there are none."""
        if not self.constraints:
            return np.full(len(at.mu), np.inf)
        slack = self.constraints[0].slack(at)
        for constraint in self.constraints[1:]:
            slack = np.minimum(slack, constraint.slack(at))
        return slack


@dataclass(frozen=True, eq=False)
class PosteriorScore(Score):
    """A score that depends on x through the posterior N(mu, s^2), with s = omega sigma.

    Args:
        posterior: the posterior of f.
        omega: the factor of sigma.
        utility: a function of mu and s that returns the value and its slopes in mu and s.  With
            `shared`, its third argument is the covariance of f(x) and f at the shared point, and it
            also returns its slope in the covariance.
        shared: the covariance with f at one point, see `Posterior.shared`.
        place: a function of x that is added to the utility; it returns the values at the rows of x
            and their gradients.  None for no such term.
        noise: where results scatter more.  The last argument of `utility` is then h, the logarithm
            of the variance of the noise at x relative to a typical point, and the last slope that
            it returns is that in h.  None if the noise is the same everywhere.
        constraints: limits on where the search may go.
        unit: a difference of two values that is large; see `Score`.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> def mean(mu, s):
        ...     return mu, np.ones_like(mu), np.zeros_like(s)
        >>> score = PosteriorScore(posterior, posterior.omega, mean)
        >>> value, slack = score(np.array([[0.2], [0.8]]))
        >>> bool(value[0] > value[1]), slack.tolist()
        (True, [inf, inf])
    """

    posterior: Posterior
    omega: float
    utility: Callable[..., tuple[Array, ...]]
    shared: Shared | None = None
    place: Callable[[Array], tuple[Array, Array]] | None = None
    noise: NoiseShape | None = None

    @property
    def width(self) -> int:
        return self.posterior.width

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
        more = [self.omega**2 * each for each in beside]
        if self.noise is not None:
            more.append(self.noise.log_ratio(at.x, at.mu))
        value = self.utility(at.mu, self.omega * at.sigma, *more)[0]
        return value if self.place is None else value + self.place(at.x)[0], slack

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        mu, sigma, gradient = self.posterior.predict_vjp(x)
        s = self.omega * sigma
        more: list[Array] = []
        if self.shared is not None:
            beside, pull = self.shared.with_gradient(x)
            more.append(self.omega**2 * beside)
        if self.noise is not None:
            more.append(self.noise.log_ratio(x, mu))
        value, d_mu, d_s, *slopes = self.utility(mu, s, *more)
        d_x: list[Array] = []
        if self.noise is not None:
            rise, along = self.noise.slopes(x, mu)
            d_mu, d_x = d_mu + slopes[-1] * rise, [slopes[-1][:, None] * along]
        for constraint in self.constraints:
            lean = _lean(value, constraint, Predicted(x, mu, sigma), barrier)
            value, d_mu, d_s = lean.value, d_mu + lean.d_mu, d_s + lean.d_s
            d_x += [] if lean.d_x is None else [lean.d_x]
        slope = gradient(d_mu, self.omega * d_s)
        if self.shared is not None:
            slope = slope + pull(self.omega**2 * slopes[0])
        if self.place is not None:
            term, along = self.place(x)
            value, slope = value + term, slope + along
        return value, slope + sum(d_x) if d_x else slope


@dataclass(frozen=True, eq=False)
class PathScore(Score):
    """The values of a function that was drawn from the posterior, for Thompson sampling.

    Args:
        path: the function.
        posterior: the posterior, which the constraints use.
        constraints: limits on where the search may go.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> path = posterior.sample_path(np.random.default_rng(0))
        >>> value, slack = PathScore(path, posterior)(np.array([[0.2], [0.8]]))
        >>> bool(value[0] > value[1])
        True
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
    """A score with the barrier of a constraint, and the slopes of the barrier in mu, s and x."""

    value: Array
    d_mu: Array
    d_s: Array
    d_x: Array | None


def _lean(value: Array, constraint: Constraint, at: Predicted, barrier: float) -> _Lean:
    slack, (d_mu, d_s, d_x) = constraint.slack_and_slopes(at)
    edge = barrier / STEEP
    room = np.maximum(slack, edge)
    push = barrier / (room * constraint.unit)
    return _Lean(
        value + barrier * np.log(room) + STEEP * np.minimum(slack - edge, 0.0),
        d_mu * push,
        d_s * push,
        None if d_x is None else d_x * push[:, None],
    )


def log_ei(mu: Array, s: Array, xi: float) -> tuple[Array, Array, Array]:
    """log EI, that is log alpha_n (eq. EIacq) = log s + log h(z), and its slopes in mu and s."""
    z = (mu - xi) / s
    value, slope = log_h_and_slope(z)
    return np.log(s) + value, slope / s, (1.0 - z * slope) / s


def log_ei_below(mu: Array, s: Array, xi: float, top: float) -> tuple[Array, Array, Array]:
    """log E[(min(f, top) - xi)^+] for f ~ N(mu, s^2) and xi < top, and its slopes in mu and s.

    With z = (mu - xi)/s and u = (mu - top)/s, the expectation is s (h(z) - h(u)): what f exceeds
    xi by, less what it exceeds `top` by.  Its slopes are Phi(z) - Phi(u) in mu and
    phi(z) - phi(u) in s.
    """
    z, u = (mu - xi) / s, (mu - top) / s
    high, p = log_h_and_slope(z)
    low, q = log_h_and_slope(u)
    share = np.exp(low - high)
    kept = -np.expm1(low - high)
    value = np.log(s) + high + np.log(kept)
    return value, (p - share * q) / (s * kept), (1.0 - z * p - share * (1.0 - u * q)) / (s * kept)


def upper_score(posterior: Posterior, width: float) -> Score:
    """The score mu + width s, an upper confidence bound.

    Args:
        posterior: the posterior of f.
        width: the number of posterior sds; 0 for the posterior mean.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> x = np.array([[0.5]])
        >>> (mean, _), (upper, _) = upper_score(posterior, 0.0)(x), upper_score(posterior, 2.0)(x)
        >>> bool(upper[0] > mean[0])
        True
    """

    def utility(mu: Array, s: Array) -> tuple[Array, Array, Array]:
        return mu + width * s, np.ones_like(mu), np.full_like(s, width)

    return PosteriorScore(posterior, posterior.omega, utility, unit=0.25 * posterior.omega)
