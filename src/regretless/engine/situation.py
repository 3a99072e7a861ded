"""One decision: the next point, and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.horizon import Horizon
from regretless.improvement import h
from regretless.model import Belief, Fitted, Posterior
from regretless.policies import Candidates, Constraint, Policy, PolicyInput, upper_score
from regretless.results import Decision, Landscape
from regretless.search import Domain, Slice, candidates, maximise, same_point
from regretless.space import Space


@dataclass(frozen=True, eq=False)
class Situation:
    """Everything that a decision depends on."""

    policy: Policy
    space: Space
    belief: Belief  # its posterior contains all results
    waiting: tuple[Array, ...]  # the pending points
    horizon: Horizon
    sign: float  # -1.0 if the user minimises, otherwise 1.0
    rng: Generator
    defaults: Defaults
    # In addition to those of the policy.  The search keeps them.  They are not checked where a
    # policy needs no search (`shortcut`, `settle`), nor for the incumbent if no point is allowed.
    constraints: tuple[Constraint, ...] = ()
    fixed: Mapping[int, float] = field(default_factory=dict)  # columns with given values

    @property
    def fitted(self) -> Fitted:
        assert self.belief.fitted is not None
        return self.belief.fitted

    @property
    def posterior(self) -> Posterior:
        assert self.belief.posterior is not None
        return self.belief.posterior

    @property
    def unit(self) -> float:
        """The size of one unit of the model in the user's units."""
        return self.fitted.scaling.scale

    def user(self, value: npt.ArrayLike) -> Array:
        """Values of the model in the user's units and direction."""
        return self.sign * self.fitted.scaling.to_user(value)

    def user_sd(self, mu: Array, sigma: Array) -> Array:
        """Posterior sds in the user's units.

        They are approximate (first order) where the scaling is logarithmic.
        """
        return self.posterior.omega * sigma * self.fitted.scaling.rate(mu)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Posterior mean and sd of f at the rows of x, in the user's units.

        The pending points are left out.
        """
        mu, sigma = self.posterior.predict(x)
        return self.user(mu), self.user_sd(mu, sigma)

    @cached_property
    def _domain(self) -> Domain:
        """The space of the search, without the fixed columns."""
        return Slice(self.space, self.fixed) if self.fixed else self.space

    @cached_property
    def visited(self) -> tuple[Array, tuple[Array, Array]]:
        """The points that were visited and may be tried, with their means and sds.

        If parameters are frozen and no visited point has their values, these are all visited points
        moved to the values.
        """
        posterior, domain = self.posterior, self._domain
        if not isinstance(domain, Slice):
            return posterior.points, posterior.at_data
        rows = domain.rows(posterior.points)
        if len(rows):
            mu, sigma = posterior.at_data
            return posterior.points[rows], (mu[rows], sigma[rows])
        moved = domain.moved(posterior.points)
        return moved, posterior.predict(moved)

    @cached_property
    def _expected(self) -> Posterior:
        """The posterior, in which each pending point counts as observed."""
        posterior = self.posterior
        for x in self.waiting:
            posterior = posterior.expecting(x)
        return posterior

    @cached_property
    def _begin(self) -> Callable[[int], Candidates]:
        """The candidates for a score of a width.  They stay the same during a decision."""
        begin = partial(candidates, self._domain, self._expected, self.rng)
        return cache(partial(begin, rules=self.defaults.search))

    @cached_property
    def inputs(self) -> PolicyInput:
        """The input of the policy."""
        # These closures do not refer to self, because a reference cycle would keep the posterior
        # in memory.
        posterior, domain, rng, begin = self._expected, self._domain, self.rng, self._begin
        rules, constraints = self.defaults.search, self.constraints

        @cache  # so that a decision and its explanation use the same incumbent
        def highest(width: float) -> tuple[Array, float]:
            score = upper_score(posterior, width)
            if constraints:
                score = score.within(*constraints)
            found = maximise(score, domain, begin(score.width), rng, rules, brief=True)
            return found.x, found.value

        return PolicyInput(
            posterior=posterior,
            rows=len(self.posterior.points),
            horizon=self.horizon,
            best_observation=float(self.fitted.scaling.to_model(self.belief.luckiest)),
            unit=self.unit,
            rng=rng,
            draw=lambda: draw(domain, rng),
            highest=highest,
            promised=self._promised(posterior) if self.waiting else -np.inf,
            choices=self.space.has_choices,
            defaults=self.defaults,
            fixed=self.fixed,
            moved=domain.moved if isinstance(domain, Slice) else None,
        )

    def _promised(self, after: Posterior) -> float:
        """The best posterior mean that is expected after the pending results are in.

        It is the expected maximum of the means at the best point and the pending points.  Each
        mean is expected to stay the same, but the maximum of several is expected to rise.
        `after` is the posterior with the pending points added.  The means will move with the
        covariance by which `after` is smaller than the posterior now.
        """
        before = self.posterior
        best = int(np.argmax(before.at_data[0]))
        x = np.unique(np.vstack([before.points[best], *self.waiting]), axis=0)
        moves = before.omega2 * (before.covariance(x) - after.covariance(x))
        variance, axes = np.linalg.eigh(0.5 * (moves + moves.T))
        draws = np.random.default_rng(0).standard_normal((self.defaults.pending_draws, len(x)))
        moved = np.vstack([draws, -draws]) * np.sqrt(np.maximum(variance, 0.0)) @ axes.T
        return float((before.predict(x)[0] + moved).max(axis=1).mean())

    def decide(self, plain: Decision) -> tuple[Array, Decision]:
        """The next point, and `plain` with its reason and its numbers."""
        if self.horizon.is_spent:
            (x, row), merged = self.inputs.incumbent, False
        else:
            x, row, merged = self._search()
        return x, replace(self._explain(x, row, plain), merged=merged)

    def _search(self) -> tuple[Array, int | None, bool]:
        """The policy's point, its row if it is a sampled point, and whether it was merged."""
        policy, inputs = self.policy, self.inputs
        sampled = inputs.posterior.points  # with the pending ones
        shortcut = policy.shortcut(inputs)
        if shortcut is not None:
            same = np.flatnonzero((sampled == shortcut).all(axis=1))
            return shortcut, int(same[0]) if len(same) else None, False
        score = policy.score(inputs)
        if self.constraints:
            score = score.within(*self.constraints)
        begin = self._begin(score.width)
        found = maximise(score, self._domain, begin, self.rng, self.defaults.search)
        if not found.feasible:  # the else-branch of Algorithm 1; never for xi = max mu(x_i)
            return *inputs.incumbent, False
        row = policy.settle(inputs, found.value)
        domain = self._domain
        if row is not None and (isinstance(domain, Space) or row in domain.rows(sampled)):
            return sampled[row], row, False
        if found.row is None and policy.merge:
            row = same_point(score, begin, found.x, inputs.horizon.steps, self.defaults.merge)
            if row is not None:
                return sampled[row], row, True
        return found.x, found.row, False

    def _explain(self, x: Array, row: int | None, plain: Decision) -> Decision:
        seen = self.landscape(x[None, :])
        z, posterior = float(seen.z[0]), self.inputs.posterior
        horizon = self.policy.horizon(self.inputs)
        reason = "resample" if row is not None else "exploit" if z >= 0 else "explore"
        return replace(
            plain,
            reason="exhausted" if self.horizon.is_spent else reason,
            mean=float(seen.mean[0]),
            sd=float(seen.sd[0]),
            incumbent=seen.incumbent,
            expected_improvement=float(seen.expected_improvement[0]),
            expected_loss=float(seen.evaluation_cost[0]) * horizon,
            horizon=horizon,
            evaluation_cost=float(seen.evaluation_cost[0]),
            gate=self.policy.threshold(self.inputs),
            z=z,
            tried=self.belief.times_told(x),
            noise_sd=posterior.noise_sd * self.unit,
            fit_ok=self.fitted.ok,
            jitter=posterior.jitter,
        )

    def landscape(self, x: Array) -> Landscape:
        """The numbers that the policy compares at the rows of x, in the user's units."""
        policy, inputs, unit = self.policy, self.inputs, self.unit
        mu, sigma = inputs.posterior.predict(x)
        xi, s = policy.xi(inputs), policy.omega(inputs) * sigma
        z = (mu - xi) / s
        threshold = policy.threshold(inputs)
        return Landscape(
            mean=self.user(mu),
            sd=self.user_sd(mu, sigma),
            expected_improvement=s * h(z) * unit,
            evaluation_cost=s * h(-z) * unit / policy.horizon(inputs),
            z=z,
            feasible=z >= (-np.inf if threshold is None else threshold),
            incumbent=float(self.user(xi)),
        )


def draw(space: Domain, rng: Generator) -> Array:
    """A point drawn uniformly from the space."""
    return np.asarray(space.drawn(1, rng)[0])
