"""One decision: the next point, and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.engine.guards import Guards
from regretless.horizon import Horizon
from regretless.improvement import h
from regretless.model import Belief, Fitted, Posterior
from regretless.policies import (
    FEASIBLE,
    Candidates,
    Constraint,
    MostLikely,
    Policy,
    PolicyInput,
    Predicted,
    Score,
    upper_score,
)
from regretless.results import Decision, Landscape
from regretless.search import Domain, Slice, WithinLimit, candidates, maximise, same_point
from regretless.space import Space

_DRAWS = 64  # of which a random point takes the first that may be tried


class _Choice(NamedTuple):
    """The next point."""

    x: Array
    row: int | None  # its row in the posterior, if it is a sampled point
    merged: bool = False
    held_back: str | None = None  # the name of the constraint that ruled out a better-scored point
    caution: str | None = None  # why the point is tried although a constraint does not allow it


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
    # In addition to those of the policy.  Every point of a decision keeps to them, except for the
    # refuge, and for the incumbent if there is no refuge and no visited point keeps to them.
    constraints: tuple[Constraint, ...] = ()
    refuge: Array | None = None  # the point to try if no visited point is allowed: the baseline
    guards: Guards = field(default_factory=Guards)  # what is known of metrics with guardrails
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
        if not (self.space.where or isinstance(domain, Slice)):
            return posterior.points, posterior.at_data
        points = posterior.points
        rows = domain.rows(points) if isinstance(domain, Slice) else np.arange(len(points))
        if self._space_limits and len(rows):
            rows = rows[_permits(self._space_limits, posterior, points[rows])]
        if len(rows):
            mu, sigma = posterior.at_data
            return points[rows], (mu[rows], sigma[rows])
        moved = self.space.repaired(self.space.canonical(points))
        return moved, posterior.predict(moved)

    @property
    def _space_limits(self) -> tuple[Constraint, ...]:
        """The limits of the space."""
        return tuple(each for each in self.constraints if isinstance(each, WithinLimit))

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
        permits = partial(_permits, constraints, posterior) if constraints else None
        limits = self._space_limits

        @cache  # so that a decision and its explanation use the same incumbent
        def highest(width: float) -> tuple[Array, float]:
            score = upper_score(posterior, width)
            if limits:
                score = score.within(*limits)
            found = maximise(score, domain, begin(score.width), rng, rules, brief=True)
            return found.x, found.value

        return PolicyInput(
            posterior=posterior,
            rows=len(self.posterior.points),
            horizon=self.horizon,
            best_observation=float(self.fitted.scaling.to_model(self.belief.luckiest)),
            unit=self.unit,
            rng=rng,
            draw=lambda: draw(domain, rng, permits),
            highest=highest,
            promised=self._promised(posterior) if self.waiting else -np.inf,
            choices=self.space.has_choices,
            defaults=self.defaults,
            fixed=self.fixed,
            permits=permits,
            refuge=self.refuge,
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

    def decide(self, plain: Decision, start: Sequence[Array] = ()) -> tuple[Array, Decision]:
        """The next point, and `plain` with its reason and its numbers.

        Args:
            plain: the decision without its numbers.
            start: points of the start; the first one that is allowed is taken.
        """
        held_back = None
        for first in start:
            objection = self.objection(first)
            if objection is None:
                return first, replace(plain, held_back=held_back, **self._numbers(first))
            held_back = held_back or objection
        choice = self._stay() if self.horizon.is_spent else self._search()
        choice = self._admitted(choice)
        choice = choice._replace(held_back=held_back or choice.held_back)
        return choice.x, self._explain(choice, plain)

    def _stay(self, held_back: str | None = None) -> _Choice:
        """The incumbent; if no visited point is allowed, the refuge or the most likely point."""
        x, row = self.inputs.incumbent
        objection = self.objection(x)
        if objection is None:
            return _Choice(x, row, held_back=held_back)
        where = f"no point is known to keep to the {objection}"
        if self.refuge is not None:
            caution = self.guards.never_told() or f"{where}: the baseline is tried"
        elif self.guards.limits:
            score = MostLikely(self.guards.limits, self.inputs.posterior)
            begin = self._begin(score.width)
            found = maximise(score, self._domain, begin, self.rng, self.defaults.search)
            x, row, caution = found.x, found.row, f"{where}: the one that most likely does is tried"
        else:
            caution = f"{where}: the best one so far is tried"
        if held_back is None and not self.horizon.is_spent:
            held_back = objection
        return _Choice(x, row, held_back=held_back, caution=caution)

    def _admitted(self, choice: _Choice) -> _Choice:
        """The choice, or the refuge if a constraint does not admit it after all."""
        refused = self._refusal(choice.x)
        if refused is None or self.refuge is None:
            return choice
        return _Choice(*self.inputs.incumbent_at(self.refuge), held_back=refused)

    def _refusal(self, x: Array) -> str | None:
        """The name of a constraint that does not admit the point x; None if all do."""
        return next((each.name for each in self.constraints if not each.admits(x)), None)

    def objection(self, x: Array) -> str | None:
        """The name of a constraint that the point x does not keep to; None if it keeps to all."""
        if not self.constraints:
            return None
        slacks = _slacks(self.constraints, self.inputs.posterior, x[None, :])[:, 0]
        worst = int(np.argmin(slacks))
        return self._refusal(x) if slacks[worst] >= FEASIBLE else self.constraints[worst].name

    def _numbers(self, x: Array) -> dict[str, Any]:
        """What the constraints say about the chosen point."""
        out: dict[str, Any] = {}
        for constraint in self.constraints:
            out |= constraint.numbers(x)
        return out

    def _search(self) -> _Choice:
        """The policy's point, or the incumbent if a constraint does not allow it."""
        policy, inputs = self.policy, self.inputs
        sampled = inputs.posterior.points  # with the pending ones
        shortcut = policy.shortcut(inputs)
        if shortcut is not None:
            held_back = self.objection(shortcut)
            if held_back is not None:
                return self._stay(held_back)
            same = np.flatnonzero((sampled == shortcut).all(axis=1))
            return _Choice(shortcut, int(same[0]) if len(same) else None)
        free = policy.score(inputs)
        score = free.within(*self.constraints) if self.constraints else free
        begin = self._begin(score.width)
        found = maximise(score, self._domain, begin, self.rng, self.defaults.search)
        held_back = None
        if self.constraints:
            held_back = self._wanted(free, begin, found.value if found.feasible else -np.inf)
        if not found.feasible:  # the else-branch of Algorithm 1; never for xi = max mu(x_i)
            return self._stay(held_back)
        row = policy.settle(inputs, found.value)
        domain = self._domain
        if row is not None and (isinstance(domain, Space) or row in domain.rows(sampled)):
            objection = self.objection(sampled[row])
            if objection is None:
                return _Choice(sampled[row], row, held_back=held_back)
            held_back = objection
        if found.row is None and policy.merge:
            row = same_point(score, begin, found.x, inputs.horizon.steps, self.defaults.merge)
            if row is not None:
                return _Choice(sampled[row], row, True, held_back)
        return _Choice(found.x, found.row, held_back=held_back)

    def _wanted(self, free: Score, begin: Candidates, value: float) -> str | None:
        """The name of the constraint without which a candidate would have had a better score.

        `free` is the score without the constraints, and `value` is the best score within them.
        """
        scores, gates = free.over(begin)
        best = int(np.argmax(np.where(gates >= FEASIBLE, scores, -np.inf)))
        better = gates[best] >= FEASIBLE and not scores[best] <= value
        return self.objection(begin.predicted.x[best]) if better else None

    def best_allowed(self, plain: Decision) -> tuple[Array, Decision] | None:
        """The point with the best posterior mean of all that keep to the constraints, if any does.

        It is for a decision that the constraints do not allow.
        """
        score = upper_score(self.inputs.posterior, 0.0).within(*self.constraints)
        begin = self._begin(score.width)
        found = maximise(score, self._domain, begin, self.rng, self.defaults.search)
        return (
            (found.x, self._explain(_Choice(found.x, found.row), plain)) if found.feasible else None
        )

    def _explain(self, choice: _Choice, plain: Decision) -> Decision:
        x, row = choice.x, choice.row
        seen = self.landscape(x[None, :])
        z, posterior = float(seen.z[0]), self.inputs.posterior
        horizon = self.policy.horizon(self.inputs)
        reason = "resample" if row is not None else "exploit" if z >= 0 else "explore"
        if choice.held_back is not None and self.refuge is not None and (x == self.refuge).all():
            reason = "baseline"
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
            merged=choice.merged,
            held_back=choice.held_back,
            caution=choice.caution,
            noise_sd=posterior.noise_sd * self.unit,
            fit_ok=self.fitted.ok,
            jitter=posterior.jitter,
            **self._numbers(x),
        )

    @property
    def recommended(self) -> tuple[int, bool]:
        """The row in `visited` of the best point at which all guardrails hold, and True.

        If they are known to hold at none, it is the row of the baseline or of the point where they
        most likely hold, and False.
        """
        (points, (mu, _)), guards = self.visited, self.guards
        allowed = guards.allow(points)
        if allowed.any():
            return int(np.argmax(np.where(allowed, mu, -np.inf))), True
        if self.refuge is not None:
            same = np.flatnonzero((points == self.refuge).all(axis=1))
            if len(same):
                return int(same[0]), False
        return int(np.argmax(guards.likely(points))), False

    def landscape(self, x: Array) -> Landscape:
        """The numbers that the policy compares at the rows of x, in the user's units."""
        policy, inputs, unit = self.policy, self.inputs, self.unit
        mu, sigma = inputs.posterior.predict(x)
        xi, s = policy.xi(inputs), policy.omega(inputs) * sigma
        z = (mu - xi) / s
        threshold = policy.threshold(inputs)
        feasible = z >= (-np.inf if threshold is None else threshold)
        if inputs.permits is not None:
            feasible = feasible & inputs.permits(x)
        return Landscape(
            mean=self.user(mu),
            sd=self.user_sd(mu, sigma),
            expected_improvement=s * h(z) * unit,
            evaluation_cost=s * h(-z) * unit / policy.horizon(inputs),
            z=z,
            feasible=feasible,
            incumbent=float(self.user(xi)),
        )


def draw(
    space: Domain, rng: Generator, permits: Callable[[Array], NDArray[np.bool_]] | None = None
) -> Array:
    """A point drawn uniformly from the space, or from the part of it that is permitted.

    If that part is so small that no draw is in it, the point is not permitted.
    """
    if permits is None:
        return np.asarray(space.drawn(1, rng)[0])
    points = space.drawn(_DRAWS, rng)
    return np.asarray(points[int(np.argmax(permits(points)))])


def _slacks(constraints: tuple[Constraint, ...], posterior: Posterior, x: Array) -> Array:
    """The slack of each constraint (rows) at each row of x (columns)."""
    at = Predicted(x, *posterior.predict(x))
    return np.array([constraint.slack(at) for constraint in constraints])


def _permits(
    constraints: tuple[Constraint, ...], posterior: Posterior, x: Array
) -> NDArray[np.bool_]:
    """Whether each row of x keeps to all constraints."""
    return np.asarray((_slacks(constraints, posterior, x) >= FEASIBLE).all(axis=0))
