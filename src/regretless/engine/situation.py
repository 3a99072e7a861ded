"""One decision: from what is known to the next point, with the reasons."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial

import numpy as np
import numpy.typing as npt
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.improvement import h
from regretless.model import GP, Fitted
from regretless.model.belief import Belief
from regretless.policies import Candidates, Policy, PolicyInput, upper_score
from regretless.results import Decision, Landscape
from regretless.search import candidates, maximise, same_point
from regretless.space import Space

_DRAWS = 256  # and their opposites, to see how results under way may turn out


@dataclass(frozen=True, eq=False)
class Situation:
    """All that a decision depends on."""

    policy: Policy
    space: Space
    belief: Belief  # current: its posterior has seen everything told
    waiting: tuple[Array, ...]  # points that were asked and not yet told
    asked: int
    remaining: int  # 0: the budget is spent
    sign: float  # -1 where the user minimises
    rng: Generator

    @property
    def fitted(self) -> Fitted:
        assert self.belief.fitted is not None
        return self.belief.fitted

    @property
    def gp(self) -> GP:
        assert self.belief.gp is not None
        return self.belief.gp

    @property
    def unit(self) -> float:
        """How much one unit of the model is in the user's units."""
        return self.fitted.scaling.scale

    def user(self, value: npt.ArrayLike) -> Array:
        """Values of the model in the user's units and direction."""
        return self.sign * self.fitted.scaling.to_user(value)

    def user_sd(self, mu: Array, sigma: Array) -> Array:
        """Posterior sds in the user's units, to first order where outcomes are drawn in."""
        return self.gp.omega * sigma * self.fitted.scaling.rate(mu)

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Posterior mean and sd of f at the rows of x, in the user's units, by what was told."""
        mu, sigma = self.gp.posterior(x)
        return self.user(mu), self.user_sd(mu, sigma)

    @cached_property
    def _expected(self) -> GP:
        """With what is under way, believed to come out as expected."""
        gp = self.gp
        for x in self.waiting:
            mu, _ = gp.posterior(x[None, :])
            gp = gp.add(x, float(mu[0]))
        return gp

    @cached_property
    def _begin(self) -> Callable[[int], Candidates]:
        """The candidates for scores of a width: the same ones for all of a decision."""
        return cache(partial(candidates, self.space, self._expected, self.rng))

    @cached_property
    def inputs(self) -> PolicyInput:
        # None of these holds self: a circle would outlive the decision by far.
        gp, space, rng, begin = self._expected, self.space, self.rng, self._begin

        @cache  # a decision and its explanation count from the same incumbent
        def highest(width: float) -> tuple[Array, float]:
            score = upper_score(gp, width)
            found = maximise(score, space, begin(score.width), rng, brief=True)
            return found.x, found.value

        return PolicyInput(
            gp=gp,
            rows=len(self.gp.data),
            asked=self.asked,
            remaining=max(1, self.remaining),
            best_observation=float(self.fitted.scaling.to_model(self.belief.luckiest)),
            unit=self.unit,
            rng=rng,
            draw=lambda: draw(space, rng),
            highest=highest,
            promised=self._promised(gp) if self.waiting else -np.inf,
            choices=self.space.has_choices,
        )

    def _promised(self, after: GP) -> float:
        """E max of the posterior means at the best point and at those under way, once these are in.

        `after` has them told as expected: by how much their covariance shrinks is how far their
        means will move.  Each alone is expected to stay where it is, but the best of many is not.
        """
        before = self.gp
        best = int(np.argmax(before.at_data[0]))
        x = np.unique(np.vstack([before.data.x[best], *self.waiting]), axis=0)
        moves = before.hyper.omega2 * (before.covariance(x) - after.covariance(x))
        variance, axes = np.linalg.eigh(0.5 * (moves + moves.T))
        draws = np.random.default_rng(0).standard_normal((_DRAWS, len(x)))
        moved = np.vstack([draws, -draws]) * np.sqrt(np.maximum(variance, 0.0)) @ axes.T
        return float((before.posterior(x)[0] + moved).max(axis=1).mean())

    def decide(self, plain: Decision) -> tuple[Array, Decision]:
        """The next point, and `plain` with the reason and the numbers behind it."""
        if self.remaining > 0:
            x, row, merged = self._search()
        else:
            row, merged = self.inputs.incumbent_row, False
            x = self.gp.data.x[row]
        return x, replace(self._explain(x, row, plain), merged=merged)

    def _search(self) -> tuple[Array, int | None, bool]:
        """The policy's point, the sampled row that it is, if any, and whether it was merged."""
        policy, inputs = self.policy, self.inputs
        sampled = inputs.gp.data.x  # pending points among them
        shortcut = policy.shortcut(inputs)
        if shortcut is not None:
            same = np.flatnonzero((sampled == shortcut).all(axis=1))
            return shortcut, int(same[0]) if len(same) else None, False
        score = policy.score(inputs)
        found = maximise(score, self.space, self._begin(score.width), self.rng)
        if not found.feasible:  # Algorithm 1's else-branch; xi = max mu(x_i) never comes here
            best = inputs.incumbent_row
            return sampled[best], best, False
        row = policy.settle(inputs, found.value)
        if row is not None:
            return sampled[row], row, False
        if found.row is None and policy.merge:
            row = same_point(score, inputs.gp, found.x, len(sampled), inputs.remaining)
            if row is not None:
                return sampled[row], row, True
        return found.x, found.row, False

    def _explain(self, x: Array, row: int | None, plain: Decision) -> Decision:
        seen = self.landscape(x[None, :])
        z, gp, horizon = float(seen.z[0]), self.inputs.gp, self.policy.horizon(self.inputs)
        reason = "resample" if row is not None else "exploit" if z >= 0 else "explore"
        return replace(
            plain,
            reason=reason if self.remaining > 0 else "exhausted",
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
            noise_sd=gp.noise_sd * self.unit,
            fit_ok=self.fitted.ok,
            jitter=gp.factor.jitter,
        )

    def landscape(self, x: Array) -> Landscape:
        """What the policy weighs at the rows of x, in the user's units."""
        policy, inputs, unit = self.policy, self.inputs, self.unit
        mu, sigma = inputs.gp.posterior(x)
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


def draw(space: Space, rng: Generator) -> Array:
    """A point drawn uniformly from the space."""
    return np.asarray(space.spread(rng.random((1, space.dim)))[0])
