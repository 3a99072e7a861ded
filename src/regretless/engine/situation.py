"""One decision: the next point, and the reason for it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.engine.batch import (
    NEW,
    Result,
    Shortlist,
    Weigh,
    expected_maximum,
    expected_maximum_after,
)
from regretless.engine.guards import Guards
from regretless.engine.known import Known, is_contradicted
from regretless.horizon import Horizon
from regretless.improvement import h
from regretless.model import (
    Belief,
    Fitted,
    Observation,
    Posterior,
    at_context,
    expecting_all,
    in_single,
    moments_at,
)
from regretless.policies import (
    FEASIBLE,
    Candidates,
    Ceiling,
    Change,
    ChangePays,
    Constraint,
    Limit,
    MostLikely,
    Policy,
    PolicyInput,
    Predicted,
    Score,
    Unknown,
    upper_score,
)
from regretless.results import Decision, Landscape, NoiseAt, NoiseRange, PeriodEffect
from regretless.search import (
    Box,
    Domain,
    Found,
    Slice,
    WithinLimit,
    candidates,
    fewest_changes,
    maximise,
    same_point,
    same_setting,
    structured,
)
from regretless.space import Parameter, Space, has_structure

STEP_LIMIT = "step limit"  # what a decision calls `max_step`
FREE_START = "the start may break guardrails"  # what a decision says of a point with `free_start`
_LOOKS = 256  # points at which the noise is compared
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
    context: Mapping[int, float] = field(default_factory=dict)  # those of them that are contexts
    known: Known | None = None  # the optimum or a bound, if the user knows it
    reach: Box | None = None  # where a trial may be, if steps are limited
    running: Array | None = None  # the setting that runs
    change_cost: float = 0.0  # what a change of it costs, in the user's units
    sparse_from: Array | None = None  # the point from which few parameters are to be changed
    revisit: bool = False  # whether to choose among the visited points, see `RevisitRules`
    shortlist: Shortlist | None = None  # all that may be chosen, for a follower of a batch

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

    @cached_property
    def _ceiling(self) -> Ceiling | None:
        """What the user knows about the best value; None if the results contradict it."""
        if self.known is None or self.contradicted:
            return None
        return Ceiling(self._to_model(self.known.value), self.known.exact)

    @cached_property
    def contradicted(self) -> bool:
        """Whether the results are clearly better than the optimum or the bound that was given."""
        if self.known is None:
            return False
        value = self._to_model(self.known.value)
        return is_contradicted(value, self.posterior, self.belief.data, self.defaults.known)

    def _to_model(self, value: float) -> float:
        return float(self.fitted.scaling.to_model(self.sign * value))

    def predict(self, x: Array) -> tuple[Array, Array]:
        """Posterior mean and sd of f at the rows of x, in the user's units.

        The pending points are left out.
        """
        mu, sigma = self.posterior.predict(x)
        sd = self.user_sd(mu, sigma)
        return self.user(mu), np.hypot(sd, self.level_sd) if self.level_sd else sd

    def noise_sd(self, x: Array) -> Array:
        """The sd of the noise of one result at the rows of x, in the user's units."""
        posterior, noise = self.inputs.posterior, self.fitted.noise
        typical = posterior.noise_sd * self.unit
        if noise is None:
            return np.full(len(x), typical)
        return typical * np.sqrt(noise.ratio(x, posterior.predict(x)[0]))

    @property
    def noise_range(self) -> NoiseRange | None:
        """Where results scatter least and most; None as long as they don't differ clearly."""
        noise, rules = self.fitted.noise, self.defaults.noise
        if noise is None:
            return None
        points = np.vstack([self.visited[0], self.space.drawn(_LOOKS, np.random.default_rng(0))])
        sds = self.noise_sd(points)
        low, high = int(np.argmin(sds)), int(np.argmax(sds))
        if not sds[high] >= rules.clear * sds[low]:
            return None
        least, most = (
            NoiseAt(float(sds[row]), self.space.decode(points[row])) for row in (low, high)
        )
        mu = self.posterior.predict(points)[0]
        by_level = abs(noise.level) * float(np.ptp(mu)) > 0.5 * 2.0 * log(sds[high] / sds[low])
        return NoiseRange(self.posterior.noise_sd * self.unit, least, most, by_level)

    @property
    def level_sd(self) -> float:
        """What is unknown about the level of f itself, in the user's units, if there are controls.

        It is no part of the posterior, because it is the same for all points.
        """
        return 0.0 if self.fitted.periods is None else self.fitted.periods.level_sd

    @property
    def period_effect(self) -> PeriodEffect | None:
        """What is known about the effect of periods; None without controls."""
        periods, variance = self.fitted.periods, (self.posterior.noise_sd * self.unit) ** 2
        if periods is None:
            return None
        noise = max(variance - periods.usual, self.defaults.periods.least_noise * variance)
        return PeriodEffect(
            effect_sd=sqrt(periods.effect),
            noise_sd=sqrt(noise + periods.usual),
            controls=self.belief.controls,
            saved=(noise + periods.effect) / (noise + periods.usual),
        )

    @cached_property
    def _domain(self) -> Domain:
        """The space of the search: what is within reach, without the fixed columns."""
        if self.reach is not None:
            return self.reach.with_fixed(self.fixed) if self.fixed else self.reach
        return self.space if self._slice is None else self._slice

    @cached_property
    def _slice(self) -> Slice | None:
        """The space without the fixed columns, whatever is within reach; None if none is fixed."""
        return Slice(self.space, self.fixed) if self.fixed else None

    @cached_property
    def visited(self) -> tuple[Array, tuple[Array, Array]]:
        """The points that were visited and may be tried, with their means and sds.

        If parameters are frozen and no visited point has their values, these are all visited points
        moved to the values.
        """
        posterior, points = self.posterior, self.posterior.points
        if self.context:
            return self._visited_here
        if not (self.space.where or self._slice):
            return points, posterior.at_data
        rows = np.arange(len(points)) if self._slice is None else self._slice.rows(points)
        if self._space_limits and len(rows):
            rows = rows[_permits(self._space_limits, posterior, points[rows])]
        if len(rows):
            mu, sigma = posterior.at_data
            return points[rows], (mu[rows], sigma[rows])
        moved = self.space.repaired(self.space.canonical(points))
        return moved, posterior.predict(moved)

    @property
    def _visited_here(self) -> tuple[Array, tuple[Array, Array]]:
        """The settings that were visited in any context, in this one; with their means and sds."""
        assert self._slice is not None
        points = np.unique(self._slice.moved(self.posterior.points), axis=0)
        if self._space_limits:
            kept = _permits(self._space_limits, self.posterior, points)
            points = points[kept] if kept.any() else points
        return points, self.posterior.predict(points)

    @property
    def _space_limits(self) -> tuple[Constraint, ...]:
        """The limits of the space."""
        return tuple(each for each in self.constraints if isinstance(each, WithinLimit))

    @cached_property
    def _expected(self) -> Posterior:
        """The posterior, in which each pending point counts as observed.

        In a context, its sds are those of what settings differ by.
        """
        if self.shortlist is not None:
            return self.shortlist.posterior
        posterior = self.posterior
        if self.defaults.pending_together and self.waiting:
            points = np.array(self.waiting)
            posterior = expecting_all(posterior, points, self._weights_of(posterior, points))
        else:
            for x in self.waiting:
                posterior = self._with_pending(posterior, x)
        return at_context(posterior, self.context) if self.context else posterior

    @cached_property
    def _searched(self) -> Posterior:
        """`_expected`, in single precision if there are many points."""
        least = self.defaults.search.single_points
        if self.shortlist is not None or len(self._expected.points) < least:
            return self._expected
        return in_single(self._expected)

    @cached_property
    def _settings(self) -> tuple[Parameter, ...]:
        """The columns without those of the context."""
        return tuple(p for j, p in enumerate(self.space.columns) if j not in self.context)

    def _with_pending(self, posterior: Posterior, x: Array) -> Posterior:
        """The posterior, in which x counts as observed."""
        if self.fitted.noise is None:
            return posterior.expecting(x)
        return posterior.expecting(x, self._weight_of(posterior, x))

    def _weight_of(self, posterior: Posterior, x: Array) -> float:
        """How many evaluations at a typical point one at x counts as."""
        mu = float(posterior.predict(x[None, :])[0][0])
        return self.fitted.weighed(1.0, x, mu)

    def _weights_of(self, posterior: Posterior, points: Array) -> Array:
        """`_weight_of` for each row of the points."""
        if self.fitted.noise is None:
            return np.ones(len(points))
        return 1.0 / self.fitted.noise.ratio(points, posterior.predict(points)[0])

    @cached_property
    def _begin(self) -> Callable[[int], Candidates]:
        """The candidates for a score of a width.  They stay the same during a decision."""
        begin = partial(candidates, self._domain, self._searched, self.rng)
        only = self.revisit or self.shortlist is not None
        begin = partial(begin, rules=self.defaults.search, visited_only=only)
        if self.shortlist is not None and not self.revisit:
            others = self.shortlist.posterior.others
            return cache(lambda width: replace(begin(width), others=others))
        if self._change is None:
            return cache(begin)
        running = self._change.running

        def with_running(width: int) -> Candidates:
            """The setting that runs is a candidate even if it was never told."""
            found = begin(width)
            return replace(found, others=np.vstack([found.others, running]))

        return cache(with_running)

    @cached_property
    def inputs(self) -> PolicyInput:
        """The input of the policy."""
        # These closures do not refer to self, because a reference cycle would keep the posterior
        # in memory.
        posterior, domain, rng, begin = self._searched, self._domain, self.rng, self._begin
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
            rows=len(self.posterior.points) if self.shortlist is None else self.shortlist.visited,
            horizon=self.horizon,
            best_observation=float(self.fitted.scaling.to_model(self.belief.best_observation)),
            unit=self.unit,
            rng=rng,
            draw=lambda: draw(domain, rng, permits),
            highest=highest,
            promised=self._promised(self._expected) if self.waiting else -np.inf,
            choices=any(parameter.is_choice for parameter in self._settings),
            structure=has_structure(self.space),
            ordered=tuple(self.space.ordered.tolist()),
            defaults=self.defaults,
            fixed=self.fixed,
            permits=permits,
            refuge=self.refuge,
            moved=None if self._slice is None else self._slice.moved,
            ceiling=self._ceiling,
            change=self._change,
            in_context=bool(self.context),
            noise=self.fitted.noise,
        )

    @property
    def _change(self) -> Change | None:
        if self.running is None or not self.change_cost:
            return None
        return Change(self.running, self.change_cost / self.unit)

    def _promised(self, after: Posterior) -> float:
        """The best posterior mean that is expected after the pending results are in.

        It is the expected maximum of the means at the best point and the pending points.  Each
        mean is expected to stay the same, but the maximum of several is expected to rise.
        `after` is the posterior with the pending points added.  The means will move with the
        covariance by which `after` is smaller than the posterior now.
        """
        if self.shortlist is not None:
            return self.shortlist.promised
        before, draws = self.posterior, self.defaults.pending_draws
        if self.defaults.pending_together and not self.context:
            points, times = np.unique(np.array(self.waiting), axis=0, return_counts=True)
            best = before.points[int(np.argmax(before.at_data[0]))]
            x, weights = np.vstack([best, points]), times * self._weights_of(before, points)
            return expected_maximum_after(before, x, moments_at(after, x)[0], weights, draws)
        if self._slice is not None and self.context:
            before = at_context(before, self.context)
            x = self._slice.moved(np.vstack([before.points, *self.waiting]))
            known = len(before.points)
            best = int(np.argmax(before.predict(x[:known])[0]))
            x = np.unique(np.vstack([x[best], x[known:]]), axis=0)
        else:
            best = int(np.argmax(before.at_data[0]))
            x = np.unique(np.vstack([before.points[best], *self.waiting]), axis=0)
        moves = before.omega2 * (before.covariance(x) - after.covariance(x))
        return expected_maximum(before.predict(x)[0], moves, draws)

    def decide(
        self, plain: Decision, start: Sequence[Array] = (), *, free_start: bool = False
    ) -> tuple[Array, Decision]:
        """The next point, and `plain` with its reason and its numbers.

        Args:
            plain: the decision without its numbers.
            start: points of the start; the first one that is allowed is taken.
            free_start: whether a point of the start may break guardrails.
        """
        held_back = None
        for first in start:
            objection = self.objection(first)
            free = free_start and objection is not None and self._is_free(first)
            if objection is None or free:
                held_back, caution = held_back or plain.held_back, FREE_START if free else None
                numbers = self._numbers(first)
                return first, replace(plain, held_back=held_back, caution=caution, **numbers)
            held_back = held_back or objection
        choice = self._stay() if self.horizon.is_spent else self._search()
        if self.reach is not None:
            choice = self._within_reach(choice, self.reach)
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

    def _is_free(self, x: Array) -> bool:
        """Whether the point x keeps to all constraints other than the guardrails."""
        others = tuple(c for c in self.constraints if not isinstance(c, Limit | Unknown))
        return replace(self, constraints=others).objection(x) is None

    def _numbers(self, x: Array) -> dict[str, Any]:
        """What the constraints say about the chosen point."""
        out: dict[str, Any] = {}
        for constraint in self.constraints:
            out |= constraint.numbers(x)
        return out

    def _within_reach(self, choice: _Choice, reach: Box) -> _Choice:
        """The choice, or the point that the largest step towards it leads to.

        If a constraint does not allow that point, it is the best visited point within reach that
        keeps to all of them; if there is none, the refuge, however far it is.
        """
        x = reach.moved(choice.x[None, :])[0]
        if (x == choice.x).all():
            return choice
        posterior, caution = self.inputs.posterior, None
        if (objection := self.objection(x)) is not None:
            points = self.inputs.given if self.context else posterior.points
            rows = reach.rows(points[: self.inputs.rows])
            allowed = [row for row in rows if self.objection(points[row]) is None]
            if allowed:
                mu = self.inputs.means[0] if self.context else posterior.at_data[0]
                x = points[max(allowed, key=lambda row: mu[row])]
            elif self.refuge is not None:
                x = self.refuge
            if (objection := self.objection(x)) is not None:
                caution = f"no visited point within reach is known to keep to the {objection}"
        return _Choice(x, _row(posterior, x), held_back=STEP_LIMIT, caution=caution)

    @cached_property
    def _found(self) -> tuple[Score, Score, Candidates, Found]:
        """The score without and with the constraints, where the search began, and what it found."""
        free = self._score()
        score = free.within(*self.constraints) if self.constraints else free
        begin = self._begin(score.width)
        return (
            free,
            score,
            begin,
            maximise(score, self._domain, begin, self.rng, self.defaults.search),
        )

    def shortlisted(self, points: Sequence[Array]) -> Shortlist:
        """What the followers of this decision are chosen among, before any point is pending.

        `points` are listed in any case.
        """
        merit, new = self.posterior.at_data[0], self.posterior.points[:0]
        if not self.horizon.is_spent:
            begin, pool = self._found[2], self._found[3].pool
            assert pool is not None
            rows = np.arange(len(begin.posterior.points))[begin.rows]
            visited = rows < len(merit)  # the pending points follow
            merit = np.full(len(merit), -np.inf)
            merit[rows[visited]] = pool.merit[: len(rows)][visited]
            new = pool.best_new(NEW, len(rows))
        return Shortlist.of(self.posterior, merit, points, new, self.defaults.pending_draws)

    @property
    def weigh(self) -> Weigh | None:
        """How much one result at a point counts; None if the noise is the same everywhere."""
        return None if self.fitted.noise is None else self._weight_of

    def result(self, told: Observation, posterior: Posterior) -> Result:
        """A result in the units of the model; the posterior is that before it."""
        x, y, weight, variance, *_ = self.fitted.corrected(told)
        if variance is not None:
            variance /= self.fitted.scaling.scale**2
        if self.fitted.noise is not None:
            weight = self.fitted.weighed(weight, x, float(posterior.predict(x[None, :])[0][0]))
        return Result(x, float(self.fitted.scaling.to_model(y)), weight, variance)

    def _search(self) -> _Choice:
        """The policy's point, or the incumbent if a constraint does not allow it."""
        policy, inputs = self.policy, self.inputs
        sampled = inputs.posterior.points  # with the pending ones
        shortcut = policy.shortcut(inputs)
        if shortcut is not None:
            held_back = self.objection(shortcut)
            if held_back is not None:
                return self._stay(held_back)
            return _Choice(shortcut, _row(inputs.posterior, shortcut))
        free, score, begin, found = self._found
        held_back = None
        if self.constraints:
            held_back = self._wanted(free, begin, found.value if found.feasible else -np.inf)
        if not found.feasible:  # the else-branch of Algorithm 1; never for xi = max mu(x_i)
            return self._stay(held_back)
        row = policy.settle(inputs, found.value)
        if row is not None and (self._slice is None or row in self._slice.rows(sampled)):
            objection = self.objection(sampled[row])
            if objection is None:
                return _Choice(sampled[row], row, held_back=held_back)
            held_back = objection
        if self.sparse_from is not None:
            found = self._sparser(score, found, self.sparse_from)
        if found.row is None and (near := self._good_enough(score, begin, found)) is not None:
            return _Choice(sampled[near], near, held_back=held_back)
        if found.row is None and policy.merge:
            rules, equal = self.defaults.merge, tuple(structured(self._domain))
            # Two points are told apart by small differences, for which single precision is too bad.
            exact = replace(begin, posterior=self._expected)
            row = same_point(
                score, exact, found.x, inputs.horizon.steps, rules, equal, inputs.noise
            )
            if row is not None and not self._changes_more(sampled[row], found.x):
                return _Choice(sampled[row], row, True, held_back)
            if self.context:
                setting = same_setting(
                    score,
                    inputs.posterior,
                    inputs.given,
                    inputs.means,
                    found.x,
                    inputs.horizon.steps,
                    rules,
                    equal,
                )
                if setting is not None and not self._changes_more(setting, found.x):
                    return _Choice(setting, None, True, held_back)
        return _Choice(found.x, found.row, held_back=held_back)

    def _good_enough(self, score: Score, begin: Candidates, found: Found) -> int | None:
        """The best visited point, if the one that was found is hardly better, in a long run."""
        rules, rows = self.defaults.revisit, np.arange(len(begin.posterior.points))[begin.rows]
        count = len(rows) if self.shortlist is None else len(self.posterior.points)
        if rules is None or not self.policy.merge or count < rules.points:
            return None
        value, slack = score.at_rows(begin.rows)
        best = int(np.argmax(np.where(slack >= FEASIBLE, value, -np.inf)))
        near = slack[best] >= FEASIBLE and value[best] >= found.value - rules.gain * score.unit
        return int(rows[best]) if near and self.sparse_from is None else None

    def _score(self) -> Score:
        """The policy's score, which also keeps to what a change must bring."""
        score, change = self.policy.score(self.inputs), self.inputs.change
        if change is None or self.policy.threshold(self.inputs) is not None:
            return score  # the gate has the cost of a change in it
        posterior = self.inputs.posterior
        value = float(posterior.predict(change.running[None, :])[0][0])
        steps = self.policy.horizon(self.inputs)
        return score.within(ChangePays(value, steps, change.cost, change.running, posterior.omega))

    def _sparser(self, score: Score, found: Found, base: Array) -> Found:
        """A point that is nearly as good as the one that was found, and changes fewer columns."""
        tolerance = self.defaults.sparse_tolerance * score.unit
        x = fewest_changes(score, self._domain, found.x, base, tolerance)
        if (x == found.x).all():
            return found
        return Found(x, float(score(x[None, :])[0][0]), _row(self.inputs.posterior, x))

    def _changes_more(self, x: Array, than: Array) -> bool:
        base = self.sparse_from
        return base is not None and bool((x != base).sum() > (than != base).sum())

    def _wanted(self, free: Score, begin: Candidates, value: float) -> str | None:
        """The name of the constraint without which a candidate would have had a better score.

        `free` is the score without the constraints, and `value` is the best score within them.
        """
        scores, gates = free.over(begin)
        best = int(np.argmax(np.where(gates >= FEASIBLE, scores, -np.inf)))
        better = gates[best] >= FEASIBLE and not scores[best] <= value
        return self.objection(begin.predicted.x[best]) if better else None

    def best_visited(self, plain: Decision, caution: float) -> tuple[Array, Decision]:
        """The visited point with the best mu - caution s: few results must not carry it far."""
        points, (mu, sigma) = self.visited
        x = points[int(np.argmax(mu - caution * self.posterior.omega * sigma))]
        return x, self._explain(_Choice(x, _row(self.inputs.posterior, x)), plain)

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
        mu, sigma = self._expected.predict(x[None, :])
        seen = self._landscape(x[None, :], mu, sigma)
        z, posterior = float(seen.z[0]), self.inputs.posterior
        horizon = self.policy.horizon(self.inputs)
        known = row is not None or (self.context and self._is_known_setting(x))
        reason = "resample" if known else "exploit" if z >= 0 else "explore"
        if choice.held_back is not None and self.refuge is not None and (x == self.refuge).all():
            reason = "baseline"
        return replace(
            plain,
            reason="exhausted" if self.horizon.is_spent else reason,
            mean=float(seen.mean[0]),
            sd=float(self.predict(x[None, :])[1][0]) if self.context else float(seen.sd[0]),
            incumbent=seen.incumbent,
            expected_improvement=float(seen.expected_improvement[0]),
            expected_loss=float(seen.evaluation_cost[0]) * horizon,
            horizon=horizon,
            evaluation_cost=float(seen.evaluation_cost[0]),
            gate=self._threshold(sigma),
            optimum_gap=self._gap,
            contradicted=self.contradicted or None,
            z=z,
            tried=self.belief.times_told(x[: len(self._settings)]),
            merged=choice.merged,
            held_back=choice.held_back,
            caution=choice.caution,
            noise_sd=float(self.noise_sd(x[None, :])[0]),
            fit_ok=self.fitted.ok,
            jitter=posterior.jitter,
            model_points=len(self.posterior.points) if self.belief.is_local else None,
            **self._numbers(x),
        )

    def _is_known_setting(self, x: Array) -> bool:
        """Whether the setting was tried before, in any context."""
        return bool((self.inputs.given == x).all(axis=1).any())

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

    def _threshold(self, sigma: Array) -> float | None:
        """The smallest z that the policy allows at a point with this sd."""
        found = self.policy.thresholds(self.inputs, self.policy.omega(self.inputs) * sigma)
        return found if found is None or isinstance(found, float) else float(found[0])

    @property
    def _gap(self) -> float | None:
        """How far the best visited point is below what the user knows, by its mean."""
        if self.known is None:
            return None
        known = self.visited[1] if self.context else self.posterior.at_data
        best = float(self.user(known[0].max()))
        return self.sign * (self.known.value - best)

    def most_promising(self, x: Array) -> int:
        """The row of x whose f is most likely to reach the ceiling."""
        mu, sigma = self.inputs.posterior.predict(x)
        top = 0.0 if self._ceiling is None else self._ceiling.value
        return int(np.argmax((mu - top) / sigma))

    def landscape(self, x: Array) -> Landscape:
        """The numbers that the policy compares at the rows of x, in the user's units."""
        return self._landscape(x, *self.inputs.posterior.predict(x))

    def _landscape(self, x: Array, mu: Array, sigma: Array) -> Landscape:
        """The numbers at the rows of x, where the posterior has these means and sds."""
        policy, inputs, unit = self.policy, self.inputs, self.unit
        xi, s = policy.xi(inputs), policy.omega(inputs) * sigma
        z = (mu - xi) / s
        threshold, horizon = policy.thresholds(inputs, s), policy.horizon(inputs)
        gain = s * h(z) if inputs.ceiling is None else np.exp(policy.improvement(inputs)(mu, s)[0])
        feasible = z >= (-np.inf if threshold is None else threshold)
        cost = s * h(-z) * unit / horizon
        if inputs.change is not None and threshold is not None:
            (gate,) = policy.gates(inputs)  # its slack is what is gained in all, changes included
            slack = gate.slack(Predicted(x, mu, sigma))
            feasible = slack >= FEASIBLE
            cost = (s * h(z) - gate.unit * slack / horizon) * unit
        if inputs.permits is not None:
            feasible = feasible & inputs.permits(x)
        return Landscape(
            mean=self.user(mu),
            sd=self.user_sd(mu, sigma),
            expected_improvement=gain * unit,
            evaluation_cost=cost,
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


def _row(posterior: Posterior, x: Array) -> int | None:
    """The row of x in the points of the posterior; None if it is not one of them."""
    same = np.flatnonzero((posterior.points == x).all(axis=1))
    return int(same[0]) if len(same) else None


def _slacks(constraints: tuple[Constraint, ...], posterior: Posterior, x: Array) -> Array:
    """The slack of each constraint (rows) at each row of x (columns)."""
    at = Predicted(x, *posterior.predict(x))
    return np.array([constraint.slack(at) for constraint in constraints])


def _permits(
    constraints: tuple[Constraint, ...], posterior: Posterior, x: Array
) -> NDArray[np.bool_]:
    """Whether each row of x keeps to all constraints."""
    return np.asarray((_slacks(constraints, posterior, x) >= FEASIBLE).all(axis=0))
