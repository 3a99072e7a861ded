"""The loss budget: the limit on what a run may lose in all against its baseline.

After n trials the total loss is T_n = sum of f(b) - f(x_i), for the baseline b.  It is a weighted
sum of f, so its posterior is one Gaussian.  Another trial at x makes it T_n + f(b) - f(x).  The run
is to keep T_k <= L for all k at once, with the probability 1 - alpha.  T_k passes L for the first
time in some step k, so
    P(T_k > L for some k) <= sum of E[r_k],    r_k = P(T_k <= L < T_{k+1} | results so far).
A study therefore spends risk: the sum of all r_k stays within alpha, whatever the results are.  A
step may use a share of what is left, and is charged its r_k exactly.  A trial at the baseline does
not change T, and is charged nothing.

The posterior is the one given results only: a pending trial counts in T_n, but is not believed to
bring what is expected of it.  A mixture counts as one Gaussian with its mean and its variance.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from math import copysign, inf, sqrt
from typing import Any, NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import LossRules
from regretless.model import Posterior, Scaling, Shared, moments_at
from regretless.policies import Constraint, Predicted

_LEAST_RISK = 1e-12  # a smaller share of the risk is no different from none
_NO_VARIANCE = 1e-14  # variances below this, in units of omega^2, are rounding errors


def least_sd(budget: float, known: int, columns: int, rules: LossRules) -> float:
    """The least sd of f that the first steps reckon with, in the user's units.

    It is a share of the budget up to d + 2 distinct points, and falls to 0 at twice as many.

    Args:
        budget: the loss budget.
        known: the number of distinct points with a result.
        columns: d, the number of columns.
        rules: the constants.
    """
    few = columns + 2
    return rules.doubt * budget * min(1.0, max(0.0, 2.0 - known / few))


@dataclass(frozen=True, eq=False)
class LossLimit(Constraint):
    """A trial may go where the total loss stays within the budget, with the probability left.

    A point x is allowed if P(T_n + f(b) - f(x) > L) is at most the share of the risk that one step
    may use.  The budget is spent if P(T_n > L) is larger than this share already.  Then a point is
    allowed only if it is better than the baseline, with the same probability.  Both imply that the
    step is charged at most its share.

    Outcomes far below the usual ones are drawn in by a logarithm (see `Scaling`).  There, f in the
    user's units is replaced by a line through its mean and the quantile that matters here, so that
    a disaster counts in full.

    Args:
        posterior: the posterior of f given the results.
        scaling: the scaling of the results.
        points: the points of T_n, distinct, with the baseline as the first.
        weights: the weight of f at each of them.
        limit: L, in the user's units.
        risk_left: what is left of alpha.
        confidence: 1 - alpha, for the numbers of a decision.
        share: of the risk that is left, which one step may use.
        own: whether the predictions of a search are those of another posterior.
    """

    posterior: Posterior
    scaling: Scaling
    points: Array
    weights: Array
    limit: float
    risk_left: float
    confidence: float = 0.95
    share: float = LossRules().share
    own: bool = False
    unit: float = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "unit", self.posterior.omega * self.scaling.scale)

    # -- the total loss ----------------------------------------------------------------------------

    @property
    def risk(self) -> float:
        """The risk that one step may use."""
        return max(self.share * self.risk_left, _LEAST_RISK)

    @cached_property
    def z(self) -> float:
        """The number of sds at this risk."""
        from scipy.special import ndtri

        return float(-ndtri(min(self.risk, 0.5)))

    @cached_property
    def _moments(self) -> tuple[Array, Array]:
        return moments_at(self.posterior, self.points)

    @property
    def _mu(self) -> Array:
        """The posterior mean at the points, in the units of the model."""
        return self._moments[0]

    @cached_property
    def _rates(self) -> Array:
        """What one unit of the model is in the user's units, at each point."""
        if self.scaling.is_linear:
            return np.full(len(self.points), self.scaling.scale)
        s = self.posterior.omega * self._moments[1]
        downwards = self._spread(self._mu, s) / s
        downwards[0] = float(self.scaling.rate(self._mu[0]))  # of the baseline, upwards matters
        return downwards

    def _spread(self, mu: Array, s: Array) -> Array:
        """The sd in the user's units, such that z of them reach the lower quantile of f."""
        if self.scaling.is_linear:
            return np.asarray(self.scaling.scale * s)
        apart = self.scaling.to_user(mu) - self.scaling.to_user(mu - self.z * s)
        return np.asarray(apart / self.z)

    @cached_property
    def _beyond(self) -> Array:
        """The weights of G = T_n + f(b), of which a trial at x leaves G - f(x)."""
        weights = self.weights.copy()
        weights[0] += 1.0
        return weights

    @cached_property
    def _shared(self) -> Shared:
        """The covariance of f with G."""
        used = self._beyond != 0.0
        return self.posterior.shared(self.points[used], (self._beyond * self._rates)[used])

    @property
    def baseline(self) -> Array:
        """The point of the baseline."""
        return np.asarray(self.points[0])

    @cached_property
    def _before(self) -> _Total:
        """T_n, and its covariance with G."""
        base, omega2 = self.points[:1], self.posterior.omega2
        rate, sigma = float(self._rates[0]), float(self._moments[1][0])
        values = self.scaling.to_user(self._mu)
        shared = omega2 * rate * float(self._shared(base)[0])  # of f(b) and G
        whole = omega2 * self._shared.variance
        variance = whole - 2.0 * shared + omega2 * (rate * sigma) ** 2
        return _Total(float(self.weights @ values), self._real(variance), whole - shared)

    def _real(self, variance: float) -> float:
        """The variance, or 0 if it is a rounding error."""
        return variance if variance > _NO_VARIANCE * self.unit**2 else 0.0

    @cached_property
    def exceeded(self) -> float:
        """P(T_n > L): the probability that the trials so far have lost more than the budget."""
        from scipy.special import ndtr

        room, sd = self.limit - self._before.mean, sqrt(self._before.variance)
        return float(ndtr(-room / sd)) if sd > 0.0 else float(room < 0.0)

    @cached_property
    def is_spent(self) -> bool:
        """Whether the budget is spent, so that only better points than the baseline are tried."""
        return self.exceeded > self.risk

    @property
    def name(self) -> str:  # type: ignore[override]
        return "loss budget, which is spent" if self.is_spent else "loss budget"

    # -- the constraint ----------------------------------------------------------------------------

    @cached_property
    def _goal(self) -> tuple[Shared, float, float, float]:
        """What f(x) is taken from: its covariance, mean and variance; and the limit that is kept.

        It is G, which is to leave at most L.  If the budget is spent it is f(b), which is to leave
        at most 0.
        """
        omega2 = self.posterior.omega2
        if not self.is_spent:
            mean = float(self._beyond @ self.scaling.to_user(self._mu))
            return self._shared, mean, omega2 * self._shared.variance, self.limit
        shared = self.posterior.shared(self.points[:1], self._rates[:1])
        mean = float(self.scaling.to_user(self._mu[0]))
        return shared, mean, omega2 * shared.variance, 0.0

    def slack(self, at: Predicted) -> Array:
        if self.own:
            at = Predicted(at.x, *self.posterior.predict(at.x))
        shared = self._goal[0]
        return self._weigh(at, self.posterior.omega2 * shared(at.x)).slack

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return self.slack_and_slopes(at)[1]

    def slack_and_slopes(
        self, at: Predicted
    ) -> tuple[Array, tuple[Array | float, Array | float, Array | None]]:
        omega, shared = self.posterior.omega, self._goal[0]
        covariance, pull = shared.with_gradient(at.x)
        if not self.own:
            seen = self._weigh(at, omega**2 * covariance)
            return seen.slack, (seen.d_mu, seen.d_s, pull(omega**2 * seen.d_covariance))
        mu, sigma, gradient = self.posterior.predict_vjp(at.x)
        seen = self._weigh(Predicted(at.x, mu, sigma), omega**2 * covariance)
        slope = gradient(seen.d_mu, omega * seen.d_s) + pull(omega**2 * seen.d_covariance)
        return seen.slack, (0.0, 0.0, slope)

    def _weigh(self, at: Predicted, covariance: Array) -> _Seen:
        """The slack, and the slopes of `unit` times the slack in mu, s and the covariance.

        With S = `_spread` and the covariance c of f(x) and the goal:
        L - (mean - f(mu)) - z sqrt(variance - 2 c S/s + S^2).
        """
        _, mean, variance, limit = self._goal
        scaling, z = self.scaling, self.z
        s = self.posterior.omega * at.sigma
        spread = self._spread(at.mu, s)
        rate = spread / s
        least = _NO_VARIANCE * self.unit**2
        left = np.maximum(variance - 2.0 * covariance * rate + spread**2, least)
        sd = np.sqrt(left)
        slack = (limit - mean + scaling.to_user(at.mu) - z * sd) / self.unit
        slack = np.where((at.x == self.baseline).all(axis=1), np.maximum(slack, 0.0), slack)
        # of S in mu and in s
        above = scaling.rate(at.mu)
        below = above if scaling.is_linear else scaling.rate(at.mu - z * s)
        lean = (above - below) / z
        half = -z / sd  # the slope in half the variance
        return _Seen(
            slack,
            above + half * (spread - covariance / s) * lean,
            half * (spread * below - covariance * (below - rate) / s),
            -half * rate,
        )

    # -- one point ---------------------------------------------------------------------------------

    def admits(self, x: Array) -> bool:
        return self.charge(x) <= self.risk_left or bool((x == self.baseline).all())

    def charge(self, x: Array) -> float:
        """r_n = P(T_n <= L < T_n + f(b) - f(x)), the risk of a trial at x."""
        if (x == self.baseline).all():
            return 0.0
        before, after = self._before, self._after(x)
        return crossing(
            self.limit - before.mean,
            self.limit - after.mean,
            before.variance,
            after.variance,
            after.covariance,
        )

    def numbers(self, x: Array) -> dict[str, Any]:
        """The total loss after a trial at x, expected and at most; and the risk of the trial."""
        from scipy.special import ndtri

        total = self._before if (x == self.baseline).all() else self._after(x)
        return {
            "total_loss": total.mean,
            "total_loss_high": total.mean + float(ndtri(self.confidence)) * sqrt(total.variance),
            "loss_risk": self.charge(x),
        }

    @cached_property
    def _seen(self) -> dict[bytes, _Total]:
        """What `_after` has returned; a decision asks for the same point several times."""
        return {}

    def _after(self, x: Array) -> _Total:
        """The total loss after a trial at x, and its covariance with T_n."""
        key = x.tobytes()
        if key not in self._seen:
            self._seen[key] = self._total_after(x)
        return self._seen[key]

    def _total_after(self, x: Array) -> _Total:
        here, omega2 = x[None, :], self.posterior.omega2
        mu, sigma = self.posterior.predict(here)
        s = self.posterior.omega * sigma
        rate = float((self._spread(mu, s) / s)[0])
        with_goal = omega2 * rate * float(self._shared(here)[0])
        between = float(self.posterior.covariance(here, self.points[:1])[0, 0])
        with_base = omega2 * rate * float(self._rates[0]) * between
        mean = float(self._beyond @ self.scaling.to_user(self._mu) - self.scaling.to_user(mu)[0])
        variance = omega2 * self._shared.variance - 2.0 * with_goal + (rate * float(s[0])) ** 2
        covariance = self._before.covariance - with_goal + with_base
        return _Total(mean, self._real(variance), covariance)


class _Total(NamedTuple):
    """A total loss in the user's units."""

    mean: float
    variance: float
    covariance: float  # with G, or with T_n


@dataclass(frozen=True, eq=False)
class _Seen:
    """The slack of some points, and its slopes."""

    slack: Array
    d_mu: Array
    d_s: Array
    d_covariance: Array


def crossing(
    room_a: float, room_b: float, variance_a: float, variance_b: float, covariance: float
) -> float:
    """P(A <= 0 < B) for two jointly normal numbers with the means -room_a and -room_b.

    It is the bivariate normal probability of A <= 0 and -B < 0, by the function of Owen (1956).

    Example:
        >>> round(crossing(0.0, 0.0, 1.0, 1.0, 0.0), 3)
        0.25
    """
    from scipy.special import ndtr, owens_t

    if variance_a <= 0.0 or variance_b <= 0.0:
        below = room_a >= 0.0 if variance_a <= 0.0 else ndtr(room_a / sqrt(variance_a))
        above = room_b < 0.0 if variance_b <= 0.0 else ndtr(-room_b / sqrt(variance_b))
        return float(below) * float(above)
    h = _not_zero(room_a / sqrt(variance_a))
    k = _not_zero(-room_b / sqrt(variance_b))
    rho = min(max(-covariance / sqrt(variance_a * variance_b), -1.0), 1.0)
    rest = sqrt((1.0 - rho) * (1.0 + rho))
    if rest == 0.0:  # B is A, or -A, in other units
        return float(max(0.0, ndtr(h) + ndtr(k) - 1.0) if rho < 0.0 else ndtr(min(h, k)))
    both = 0.5 * (ndtr(h) + ndtr(k)) - 0.5 * (h * k < 0.0)
    both -= owens_t(h, _ratio(k - rho * h, h * rest)) + owens_t(k, _ratio(h - rho * k, k * rest))
    return float(max(0.0, both))


def _not_zero(number: float) -> float:
    return number if abs(number) > 1e-150 else copysign(1e-150, number)


def _ratio(a: float, b: float) -> float:
    return a / b if b != 0.0 else copysign(inf, a)
