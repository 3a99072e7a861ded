"""Information-directed sampling within EIC's gate: the default policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import check_flag, check_share
from regretless.improvement import gate
from regretless.policies.base import Policy, PolicyInput
from regretless.policies.scores import PosteriorScore, Score

_NO_VARIANCE = 1e-12  # a variance, or a rest of it, that counts as none


@dataclass(frozen=True)
class IDS(Policy):
    """Information-directed sampling within EIC's gate, its confidence set by what budget remains.

    It minimises (worst-case regret)^2 / information gain, that is
    (max U - (mu - b s))^2 / log(1 + s^2 / r^2), with U = mu + b s (Kirschner and Krause 2018).
    r is the noise, but at least a third of the signal.  With less, one look would tell everything
    about its point, near or far, and the search would move in small steps.
    Their b grows with n.  Here b = |t|, where t is EIC's gate.  mu + |t| s is the least value of an
    incumbent at which x is no longer worth its cost, so it is the best that x may still turn out to
    be.  The gate excludes points whose information can't pay for itself any more.

    EIC counts an improvement in every step to come, as if nothing else were ever found.  But what
    is found now is soon surpassed, or would have been found anyway.  So here, and for the gate, an
    improvement has to pay within 1 + `payback` (m - 1) of the m evaluations that remain.  By
    default that is 0.3, but 1 where the space has choices without an order: nothing leads from one
    of these to the next, so what is not looked at is never found.

    For the same reason information counts there only if it is on f at the point where most can be
    hoped for, argmax U (`directed`; Kirschner and Krause have it, too).  Otherwise there is always
    more to be learnt about the hill that was found first, and cheaply, while the gate closes on the
    other choices.
    """

    name: ClassVar[str] = "ids"
    merge: bool = field(default=True, kw_only=True)
    payback: float | None = None
    directed: bool | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.payback is not None:
            check_share("payback", self.payback)
        if self.directed is not None:
            check_flag("directed", self.directed)

    def horizon(self, inputs: PolicyInput) -> float:
        rules = inputs.defaults.ids
        usual = rules.payback_with_choices if inputs.choices else rules.payback
        return inputs.horizon.within(usual if self.payback is None else self.payback)

    def threshold(self, inputs: PolicyInput) -> float:
        return gate(self.horizon(inputs))

    def score(self, inputs: PolicyInput) -> Score:
        posterior, rules = inputs.posterior, inputs.defaults.ids
        b = -self.threshold(inputs)
        hoped_for, top = inputs.highest(b)
        noise2 = max(posterior.noise_sd**2, rules.resolution * posterior.omega**2)
        least = 1e-9 * posterior.omega  # where the highest point itself is looked at
        learnt: Callable[..., tuple[Array, ...]] = partial(_log_learnt, noise2=noise2)
        shared = None
        usual = inputs.choices and rules.directed_with_choices
        if usual if self.directed is None else self.directed:
            shared = posterior.shared(hoped_for)
            variance = shared.variance * posterior.omega2
            learnt = partial(_log_learnt_of, variance=variance, noise2=noise2)

        def utility(mu: Array, s: Array, *covariance: Array) -> tuple[Array, ...]:
            value, d_s, *d_covariance = learnt(s, *covariance)
            feared = np.maximum(top - mu + b * s, least)
            value = value - 2.0 * np.log(feared)
            return value, 2.0 / feared, d_s - 2.0 * b / feared, *d_covariance

        gates = self.gates(inputs)
        return PosteriorScore(posterior, posterior.omega, utility, shared, constraints=gates)


def _log_learnt(s: Array, noise2: float) -> tuple[Array, Array]:
    """log I for the information I = log(1 + s^2/r^2) on f(x) in a look there, and its slope."""
    learnt = np.log1p(s * s / noise2)
    return np.log(learnt), 2.0 * s / ((noise2 + s * s) * learnt)


def _log_learnt_of(
    s: Array, covariance: Array, variance: float, noise2: float
) -> tuple[Array, Array, Array]:
    """log I for what a look at x tells of f at another point, and its slopes in s and covariance.

    I = -log(1 - rho^2) for the correlation rho of the outcome with f there, of which are given its
    covariance with f(x) and its variance.  At the other point itself that is log(1 + s^2/r^2).
    """
    both = max(variance, _NO_VARIANCE * noise2) * (noise2 + s * s)
    rho2 = np.minimum(covariance * covariance / both, 1.0 - _NO_VARIANCE)
    learnt = _NO_VARIANCE**2 - np.log1p(-rho2)
    rate = 2.0 / ((1.0 - rho2) * learnt)
    return np.log(learnt), -rate * rho2 * s / (noise2 + s * s), rate * covariance / both
