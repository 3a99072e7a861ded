"""What is known about the metrics that have guardrails: a belief for each, and the limits.

In a belief larger is better, so the sign of a metric is turned if it must be small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.engine.events import Outcome
from regretless.engine.records import Reference
from regretless.errors import StorageError
from regretless.model import Belief, Model, Observation
from regretless.policies import FEASIBLE, Constraint, Limit, Unknown, log_cdf
from regretless.safety import Guardrail, Safety
from regretless.space import Parameter, Space


@dataclass(frozen=True, eq=False)
class Guards:
    """The guardrails and a belief for each of their metrics.  It is frozen.

    Make one with `Guards.empty`.
    """

    guardrails: tuple[Guardrail, ...] = ()
    baseline: Array | None = None  # encoded
    beliefs: Mapping[str, Belief] = field(default_factory=dict)  # by metric

    @classmethod
    def empty(cls, safety: Safety, space: Space, defaults: Defaults) -> Guards:
        """The state before any result."""
        own = defaults._replace(fit=defaults.metrics.applied_to(defaults.fit))
        made = cls(safety.guardrails)
        beliefs = {}
        for metric in safety.metrics:
            belief = Belief.empty(_model(metric, safety, defaults), space.columns, own)
            beliefs[metric] = replace(belief, levels=made._levels(metric))
        return replace(made, beliefs=beliefs)

    # -- learning ----------------------------------------------------------------------------------

    def learn(self, x: Array, outcomes: Mapping[str, Outcome]) -> Guards:
        """The state with the metrics of one more result; those that are missing stay unknown."""
        learnt = {}
        for metric, belief in self.beliefs.items():
            if metric in outcomes:
                told = outcomes[metric]
                variance = None if told.sem is None else told.sem**2
                value = self._direction(metric) * told.value
                learnt[metric] = belief.learn(Observation(x, value, told.count, variance))
        return self._with(learnt)

    def carried(self, columns: tuple[Parameter, ...], carry: Callable[[Array], Array]) -> Guards:
        """The state after a change of the space, see `Belief.carried`."""
        beliefs = {m: b.carried(columns, carry) for m, b in self.beliefs.items()}
        return replace(self, baseline=None, beliefs=beliefs)

    def refit_if_due(self) -> Guards:
        """The state with a new fit of each metric for which one is due."""
        return self._with({m: b.refit_if_due() for m, b in self.beliefs.items() if b.told})

    def current(self) -> Guards:
        """The state in which the posteriors include all results."""
        return self._with({m: b.current() for m, b in self.beliefs.items() if b.told})

    def fits_since(self, before: Guards) -> dict[str, dict[str, Any]]:
        """The fits that are new, as JSON, by metric."""
        new = {}
        for metric, belief in self.beliefs.items():
            if belief.source is not None and belief.source is not before.beliefs[metric].source:
                new[metric] = belief.source
        return new

    def with_fits(self, fits: Mapping[str, dict[str, Any]]) -> Guards:
        """The state with the fits that are described by this JSON.

        Raises:
            StorageError: there is no such metric, or a fit does not match what was told.
        """
        if unknown := [metric for metric in fits if metric not in self.beliefs]:
            raise StorageError(f"event 'asked': fit of an unknown metric {unknown[0]!r}")
        return self._with({m: self.beliefs[m].with_fit(fit) for m, fit in fits.items()})

    def with_posteriors_of(self, earlier: Guards) -> Guards:
        """This state with the posteriors of an earlier one, see `Belief.with_posterior_of`."""
        return self._with(
            {m: b.with_posterior_of(earlier.beliefs[m]) for m, b in self.beliefs.items()}
        )

    def told_as(self, other: Guards) -> bool:
        """Whether the results are those of another state."""
        mine, theirs = self.beliefs.values(), other.beliefs.values()
        return all(a.told is b.told for a, b in zip(mine, theirs, strict=True))

    def relative_to(self, baseline: Reference | None) -> Guards:
        """This state with the baseline of today."""
        x = None if baseline is None else baseline.x
        if not self.guardrails or x is self.baseline:
            return self
        return replace(self, baseline=x)

    def _with(self, beliefs: Mapping[str, Belief]) -> Guards:
        return replace(self, beliefs={**self.beliefs, **beliefs}) if beliefs else self

    # -- limits ------------------------------------------------------------------------------------

    @property
    def unknown(self) -> tuple[str, ...]:
        """The metrics that were never told."""
        return tuple(metric for metric, belief in self.beliefs.items() if not belief.told)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The limit of each guardrail whose metric was told.  The posteriors must be current."""
        return tuple(self._limit(g) for g in self.guardrails if self.beliefs[g.metric].told)

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        """The limits, and what stands for those of which nothing is known."""
        unknown = (Unknown(_name(g)) for g in self.guardrails if not self.beliefs[g.metric].told)
        return (*self.limits, *unknown)

    def holds(self, x: Array) -> dict[str, float] | None:
        """The probability that each guardrail holds at the point x, where something is known."""
        known = [g for g in self.guardrails if self.beliefs[g.metric].told]
        if not known:
            return None
        each = zip(known, self.limits, strict=True)
        return {str(g): float(limit.probability(x[None, :])[0]) for g, limit in each}

    def is_broken(self, x: Array) -> bool:
        """Whether a guardrail is more likely broken than not at the point x."""
        return any(probability < 0.5 for probability in (self.holds(x) or {}).values())

    def allow(self, points: Array) -> NDArray[np.bool_]:
        """Whether each guardrail holds with its probability, at each of the points."""
        if self.unknown:
            return np.zeros(len(points), dtype=bool)
        return self.keep_to_limits(points)

    def likely(self, points: Array) -> Array:
        """The logarithm of the probability that all limits hold, at each of the points."""
        total = np.zeros(len(points))
        for limit in self.limits:
            total += log_cdf(*limit.difference(points))
        return total

    def best_of(self, points: Array) -> Array:
        """The first point at which all known limits hold; otherwise the most likely one."""
        allowed = self.keep_to_limits(points)
        row = np.argmax(allowed) if allowed.any() else np.argmax(self.likely(points))
        return np.asarray(points[int(row)])

    def keep_to_limits(self, points: Array) -> NDArray[np.bool_]:
        """Whether each guardrail whose metric was told holds, at each of the points."""
        allowed = np.ones(len(points), dtype=bool)
        for limit in self.limits:
            mean, sd = limit.difference(points)
            allowed &= mean - limit.z * sd >= FEASIBLE * limit.posterior.omega
        return allowed

    def never_told(self) -> str | None:
        """A sentence about metrics that were never told, for decisions; None if there are none."""
        if not self.unknown:
            return None
        names = " and ".join(self.unknown)
        were = "was" if len(self.unknown) == 1 else "were"
        tried = "" if self.baseline is None else ": nothing but the baseline is tried"
        return f"{names} {were} never told{tried}"

    def _limit(self, guardrail: Guardrail) -> Limit:
        from scipy.special import ndtri

        belief = self.beliefs[guardrail.metric]
        posterior, fitted = belief.posterior, belief.fitted
        assert posterior is not None
        assert fitted is not None
        scaling, direction = fitted.scaling, self._direction(guardrail.metric)
        side, z = -guardrail.sign * direction, float(ndtri(guardrail.prob))
        if guardrail.of is None:
            level = float(scaling.to_model(direction * guardrail.limit))
            return Limit(posterior, level, z, side, name=_name(guardrail))
        assert self.baseline is not None
        here = float(posterior.predict(self.baseline[None, :])[0][0])
        level = float(scaling.to_model(guardrail.limit * scaling.to_user(here)))
        # The level is linear in the metric at the baseline, except where the scaling is
        # logarithmic; there it is so to first order.
        share = guardrail.limit * float(scaling.rate(here)) / float(scaling.rate(level))
        shared = posterior.shared(self.baseline)
        return Limit(posterior, level, z, side, shared, share, _name(guardrail))

    def level(self, guardrail: Guardrail) -> float | None:
        """The limit of a guardrail in the units of the metric; None if it is not known yet."""
        if guardrail.of is None:
            return guardrail.limit
        belief = self.beliefs[guardrail.metric]
        if not belief.told:
            return None
        assert belief.posterior is not None
        assert belief.fitted is not None
        assert self.baseline is not None
        here = belief.posterior.predict(self.baseline[None, :])[0]
        user = belief.fitted.scaling.to_user(here)
        return guardrail.limit * self._direction(guardrail.metric) * float(user[0])

    def _levels(self, metric: str) -> tuple[float, ...]:
        """The levels of a metric, as its belief has it."""
        levels = []
        for guardrail in self.guardrails:
            if guardrail.metric == metric and guardrail.of is None:
                levels.append(self._direction(metric) * guardrail.limit)
        return tuple(levels)

    def _direction(self, metric: str) -> float:
        """1.0 if the metric must be large, -1.0 if it must be small."""
        return next(-g.sign for g in self.guardrails if g.metric == metric)


def _name(guardrail: Guardrail) -> str:
    return f"guardrail {guardrail}"


def _model(metric: str, safety: Safety, defaults: Defaults) -> Model:
    """The model of a metric."""
    sides = {g.side for g in safety.guardrails if g.metric == metric}
    # Values that are far too bad count by their logarithm, unless both directions are bad.
    rules = defaults.metrics.model(defaults.model)
    return replace(Model.default(rules), tail="log" if len(sides) == 1 else "linear")
