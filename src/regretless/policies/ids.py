"""Information-directed sampling (IDS) within EIC's gate: the default policy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from math import pi, sqrt
from typing import ClassVar

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import check_flag, check_share
from regretless.improvement import gate
from regretless.policies.base import Policy, PolicyInput
from regretless.policies.scores import PosteriorScore, Score, upper_score

_NO_VARIANCE = 1e-12  # relative variances below this count as zero
_SCALES = (0.02, 10.0)  # length-scales are clipped to this range
_SQRT_2PI = sqrt(2.0 * pi)


@dataclass(frozen=True)
class IDS(Policy):
    """Information-directed sampling (Kirschner and Krause 2018) within EIC's gate.

    It minimises (worst-case regret)^2 / information gain:
        (max U - (mu - b s))^2 / log(1 + s^2 / r^2), with U = mu + b s.

    The width b grows with n in their work.  Here b = |t|, where t is EIC's gate.  x is worth its
    cost as long as the incumbent value is below mu + |t| s, so U is an optimistic estimate of f
    that suits the remaining budget.  The gate excludes points whose information comes too late to
    pay for itself.  `defaults=3` measures the regret from mu instead of mu - b s, and multiplies
    the information by the share of a look that concerns points inside the space: a look near a
    border tells about fewer of them.

    In a run with contexts, it takes the point with the largest U instead, within the gate.  Much of
    f(x) is new in each context, however often x was tried, so a ratio of regret and information
    would stay with the first hill.  And contexts that vary make a run explore by themselves.

    r is the sd of the noise, but at least 0.3 omega.  With a smaller r, one observation would tell
    everything about its point, and the policy would move in small steps.

    Args:
        payback: an improvement has to pay within 1 + payback (m - 1) of the m evaluations that
            remain, from 0 to 1.  EIC counts all m, as if nothing better were found later.  But most
            improvements are soon surpassed.  None for the default: 0.3, or 1 if some parameter has
            choices without an order, because one choice tells little about the others.  In a run
            with contexts it is 0.1 in place of 0.3.
        directed: whether only information on f at argmax U counts.  Otherwise the policy may go on
            to learn about the first hill that it found, which is cheap, until the gate excludes the
            other choices.  None for the default: True if some parameter has choices without an
            order, and the run has no contexts.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.IDS(payback=1.0))
        >>> optimizer.policy.payback
        1.0
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
        usual = rules.payback_in_context if inputs.in_context else rules.payback
        if inputs.choices:
            usual = rules.payback_with_choices
        if inputs.structure:
            usual = rules.payback_with_structure
        return inputs.horizon.within(usual if self.payback is None else self.payback)

    def threshold(self, inputs: PolicyInput) -> float:
        return gate(self.horizon(inputs))

    def score(self, inputs: PolicyInput) -> Score:
        posterior, rules = inputs.posterior, inputs.defaults.ids
        b = -self.threshold(inputs)
        if inputs.in_context and not self.directed:
            return replace(upper_score(posterior, b), constraints=self.gates(inputs))
        below = (rules.caution_with_structure if inputs.structure else rules.caution) * b
        hoped_for, top = inputs.highest(b)
        if inputs.ceiling is not None:  # f can't be better than that
            top = min(top, inputs.ceiling.value)
            if inputs.ceiling.exact:
                below = inputs.defaults.known.caution * b
        floor = rules.resolution * posterior.omega**2
        noise2 = max(posterior.noise_sd**2, floor)
        least = 1e-9 * posterior.omega  # a lower bound of the regret, for its logarithm
        learnt: Callable[..., tuple[Array, ...]] = partial(_log_learnt, noise2=noise2)
        shared = None
        usual = inputs.choices and rules.directed_with_choices
        if usual if self.directed is None else self.directed:
            shared = posterior.shared(hoped_for)
            variance = shared.variance * posterior.omega2
            learnt = partial(_log_learnt_of, variance=variance, noise2=noise2)
        if inputs.noise is not None:
            learnt = _by_place(learnt, posterior.noise_sd**2, floor)

        def utility(mu: Array, s: Array, *covariance: Array) -> tuple[Array, ...]:
            value, d_s, *d_covariance = learnt(s, *covariance)
            feared = np.maximum(top - mu + below * s, least)
            value = value - 2.0 * np.log(feared)
            return value, 2.0 / feared, d_s - 2.0 * below / feared, *d_covariance

        place = _insideness(inputs) if rules.inside > 0.0 else None
        gates = self.gates(inputs)
        return PosteriorScore(
            posterior, posterior.omega, utility, shared, place, inputs.noise, constraints=gates
        )


def _insideness(inputs: PolicyInput) -> Callable[[Array], tuple[Array, Array]]:
    """The term by which a look near a border counts for less, as a function of x.

    A look at x tells about f at z in proportion to their squared correlation exp(-|x - z|^2/h^2).
    Only z inside the cube count.  Their share is a product over the columns,
        prod_j (Phi(sqrt(2) (1 - x_j)/h_j) - Phi(-sqrt(2) x_j/h_j)),
    about 1 well inside, and 1/2 at a border if h_j is short.  The term is the logarithm of the
    share, relative to that of the middle, times `inside` / d, at most 1.
    """
    from scipy.special import ndtr

    rules, dim = inputs.defaults.ids, inputs.dim
    ordered = np.array(inputs.ordered or (True,) * dim)
    scales = np.where(ordered, inputs.posterior.scales(dim), 1.0)
    rate = sqrt(2.0) / np.clip(scales, *_SCALES)
    power = min(1.0, rules.inside / dim) * ordered
    middle = 2.0 * ndtr(0.5 * rate) - 1.0

    def place(x: Array) -> tuple[Array, Array]:
        x = np.where(ordered, x, 0.5)  # a column without order has no border
        above, below = rate * (1.0 - x), rate * x
        share = ndtr(above) - ndtr(-below)
        slope = rate * (np.exp(-0.5 * below**2) - np.exp(-0.5 * above**2)) / (_SQRT_2PI * share)
        return np.log(share / middle) @ power, slope * power

    return place


def _log_learnt(s: Array, noise2: Array | float) -> tuple[Array, Array]:
    """log I and its slope in s, for the information I = log(1 + s^2/r^2) of an observation."""
    learnt = np.log1p(s * s / noise2)
    return np.log(learnt), 2.0 * s / ((noise2 + s * s) * learnt)


def _log_learnt_of(
    s: Array, covariance: Array, variance: float, noise2: Array | float
) -> tuple[Array, Array, Array]:
    """log I and its slopes in s and covariance, for the information I on f at another point.

    I = -log(1 - rho^2), where rho is the correlation of an observation at x and f at the other
    point.  `covariance` is the covariance of f(x) and f at the other point, and `variance` is the
    variance of f at the other point.  If both points are the same, I = log(1 + s^2/r^2).
    """
    both = np.maximum(variance, _NO_VARIANCE * noise2) * (noise2 + s * s)
    rho2 = np.minimum(covariance * covariance / both, 1.0 - _NO_VARIANCE)
    learnt = _NO_VARIANCE**2 - np.log1p(-rho2)
    rate = 2.0 / ((1.0 - rho2) * learnt)
    return np.log(learnt), -rate * rho2 * s / (noise2 + s * s), rate * covariance / both


def _by_place(
    learnt: Callable[..., tuple[Array, ...]], typical: float, floor: float
) -> Callable[..., tuple[Array, ...]]:
    """log I with noise that differs from place to place, and its slopes.

    The last argument is h, the logarithm of the noise variance relative to the typical one, and the
    last slope is that in h.  I = log(1 + s^2/r^2) depends on s/r only, so its slope in log r^2 is
    -s/2 times that in s.  On f at another point, it depends on c^2 / (r^2 + s^2) for the covariance
    c, so that its slope in log r^2 is r^2/(2 s) times that in s.
    """

    def function(s: Array, *more: Array) -> tuple[Array, ...]:
        *covariance, h = more
        wide = typical * np.exp(h)
        noise2 = np.maximum(wide, floor)
        value, *slopes = learnt(s, *covariance, noise2=noise2)
        own = np.where(wide > floor, 1.0, 0.0)
        rate = noise2 / (2.0 * s) if covariance else -s / 2.0
        return value, *slopes, own * slopes[0] * rate

    return function
