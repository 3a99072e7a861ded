"""What is known about the metrics that have guardrails: a belief for each, and the limits.

In a belief larger is better, so the sign of a metric is turned if it must be small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.engine.events import Outcome
from regretless.errors import StorageError
from regretless.model import Belief, Model, Observation
from regretless.policies import Limit
from regretless.safety import Guardrail, Safety
from regretless.space import Space


@dataclass(frozen=True, eq=False)
class Guards:
    """The guardrails and a belief for each of their metrics.  It is frozen.

    Make one with `Guards.empty`.
    """

    guardrails: tuple[Guardrail, ...]
    baseline: Array | None  # encoded
    beliefs: Mapping[str, Belief] = field(default_factory=dict)  # by metric

    @classmethod
    def empty(cls, safety: Safety, space: Space, defaults: Defaults) -> Guards:
        """The state before any result."""
        baseline = None if safety.baseline is None else space.encode(safety.baseline)
        own = defaults._replace(fit=defaults.metrics.applied_to(defaults.fit))
        beliefs = {
            metric: Belief.empty(_model(metric, safety, defaults), space.columns, own)
            for metric in safety.metrics
        }
        return cls(safety.guardrails, baseline, beliefs)

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

    def refit_if_due(self) -> Guards:
        """The state with a new fit of each metric for which one is due."""
        return self._with(
            {
                metric: replace(belief, levels=self._levels(metric)).refit_if_due()
                for metric, belief in self.beliefs.items()
                if belief.told
            }
        )

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

    @property
    def told(self) -> tuple[int, ...]:
        """The number of results of each metric."""
        return tuple(len(belief.told) for belief in self.beliefs.values())

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

    def probabilities(self, x: Array) -> dict[str, Array]:
        """The probability that each guardrail holds, at the rows of x; 0 if nothing is known."""
        known = iter(self.limits)
        nothing = np.zeros(len(x))
        return {
            str(g): next(known).probability(x) if self.beliefs[g.metric].told else nothing
            for g in self.guardrails
        }

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
            return Limit(posterior, level, z, side)
        assert self.baseline is not None
        here = float(posterior.predict(self.baseline[None, :])[0][0])
        level = float(scaling.to_model(guardrail.limit * scaling.to_user(here)))
        # The level is linear in the metric at the baseline, except where the scaling is
        # logarithmic; there it is so to first order.
        share = guardrail.limit * float(scaling.rate(here)) / float(scaling.rate(level))
        return Limit(posterior, level, z, side, posterior.shared(self.baseline), share)

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


def _model(metric: str, safety: Safety, defaults: Defaults) -> Model:
    """The model of a metric."""
    sides = {g.side for g in safety.guardrails if g.metric == metric}
    # Values that are far too bad count by their logarithm, unless both directions are bad.
    rules = defaults.model._replace(method=defaults.metrics.method)
    return replace(Model.default(rules), tail="log" if len(sides) == 1 else "linear")
