"""Policies: what to try next, described as a score to maximise and a set to stay in.

A policy is a small frozen class.  It sees a `Context` (the posterior, the budget that is left, ...)
and answers with a `Score`; it does not search, fit or own a random generator.  Everything here
maximises on the unit cube, in the units of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from math import log, pi, sqrt
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from regretless.checks import (
    check_amount,
    check_flag,
    check_inside,
    check_share,
    is_number,
    plain,
    whole,
    with_plain_numbers,
)
from regretless.errors import ConfigError
from regretless.gp import GP
from regretless.numerics import Array, gate
from regretless.scores import PathScore, PosteriorScore, Score, log_ei, upper_score
from regretless.theory import beta_n, omega_n

_RESOLUTION = 0.1  # a share of the signal's variance below which IDS learns no more
_NOTHING = 1e-12  # a variance, or a rest of it, that is none

Incumbent = Literal["mean", "observation", "domain", "quantile"]
INCUMBENTS: tuple[Incumbent, ...] = ("mean", "observation", "domain", "quantile")


@dataclass(frozen=True, eq=False)
class Context:
    """What a policy may look at when it decides on evaluation n + 1 of N."""

    gp: GP  # with pending points filled in by their posterior means
    rows: int  # the first `rows` rows of gp.data were really observed
    asked: int  # n, pending ones included
    remaining: int  # m = N - n >= 1
    best_observation: float  # the largest single observation
    unit: float  # how much one unit of the model is in the user's units
    rng: Generator  # this decision's own
    draw: Callable[[], Array]  # a point drawn uniformly from the space
    highest: Callable[[float], tuple[Array, float]]  # b -> where mu + b s is highest, and how high
    promised: float = -np.inf  # the best posterior mean to expect once pending results are in
    choices: bool = False  # whether some parameters are choices without an order

    @property
    def dim(self) -> int:
        return int(self.gp.data.x.shape[1])

    @property
    def incumbent_row(self) -> int:
        """argmax_i mu_n(x_i) over observed points."""
        return int(np.argmax(self.gp.at_data[0][: self.rows]))


@dataclass(frozen=True)
class Policy(ABC):
    """A rule for the next point.

    `score` is what the search maximises.  Two hooks serve the policies that need them: `shortcut`
    gives a point that needs no search, `settle` may turn down what the search found.
    `merge` takes a sampled point again instead of a new one that the posterior can't tell from it
    (see `maximise.same_point`).
    """

    name: ClassVar[str] = ""
    merge: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        check_flag("merge", self.merge)

    @abstractmethod
    def score(self, context: Context) -> Score: ...

    def shortcut(self, context: Context) -> Array | None:
        return None

    def settle(self, context: Context, value: float) -> int | None:
        """A row to sample again instead of the point that the search found with this value."""
        return None

    def threshold(self, context: Context) -> float | None:
        """The gate that feasible points must pass, for the record; None where there is none."""
        return None

    def horizon(self, context: Context) -> float:
        """Within how many evaluations, from this one on, a gain has to make up for a loss."""
        return context.remaining

    def xi(self, context: Context) -> float:
        """The incumbent value that improvement is counted from."""
        return incumbent(context, "mean")

    def omega(self, context: Context) -> float:
        """omega_n, the scale of the posterior sd."""
        return context.gp.omega

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}


def incumbent(context: Context, kind: Incumbent, beta: float = 0.9) -> float:
    """xi_n: eq. incum ("mean"), or the others of section 3.2 of the paper."""
    if kind == "observation":
        return context.best_observation
    if kind == "domain":
        return context.highest(0.0)[1]
    mu, sigma = context.gp.at_data
    if kind == "mean":  # what is under way need not be sought again
        return max(float(mu.max()), context.promised)
    return float((mu - ndtri(beta) * context.gp.omega * sigma).max())


def _check_incumbent(kind: str, beta: float) -> None:
    if kind not in INCUMBENTS:
        raise ConfigError(f"incumbent: need one of {', '.join(INCUMBENTS)}, got {kind!r}")
    check_inside("beta", beta, "a quantile level")


def _within(payback: float, remaining: int) -> float:
    """This evaluation and a share of those after it."""
    return 1.0 + payback * (remaining - 1)


@dataclass(frozen=True)
class EI(Policy):
    """Expected improvement over an incumbent.

    That is the best posterior mean at sampled points ("mean"), the best single observation
    ("observation"), the best posterior mean anywhere ("domain"), or the best lower quantile at
    sampled points ("quantile", level `beta`).
    """

    name: ClassVar[str] = "ei"
    incumbent: Incumbent = "mean"
    beta: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_incumbent(self.incumbent, self.beta)

    def xi(self, context: Context) -> float:
        return incumbent(context, self.incumbent, self.beta)

    def score(self, context: Context) -> Score:
        xi = self.xi(context)
        return PosteriorScore(
            context.gp,
            self.omega(context),
            lambda mu, s: log_ei(mu, s, xi),
            xi,
            self.threshold(context),
        )


@dataclass(frozen=True)
class EIC(EI):
    """Expected improvement-cost, Algorithm 1 of the paper.

    The best EI among the points whose EI is at least their evaluation cost (eq. evacost): the
    expected loss, spread over the evaluations that remain.  In terms of z = (mu - xi)/s that is
    z >= t_m, one number (see `numerics.gate`).  The incumbent always passes (z = 0), so when
    nothing else is worth its cost it is sampled again.

    `gate=False, merge=False` is plain EI.  `payback` p spreads the loss over 1 + p (m - 1)
    evaluations, not over all m that remain (see `IDS`).  `omega_scale` c replaces the fitted omega
    by the schedule of eq. omgn, c sqrt(gamma_n + 1 + log(1/delta)), with the information I_n of the
    data so far for gamma_n, or with `gamma` = (gamma_0, gamma_1, ...) as far as it is given.
    """

    name: ClassVar[str] = "eic"
    merge: bool = field(default=True, kw_only=True)
    gate: bool = True
    omega_scale: float | None = None
    delta: float = 0.1
    gamma: tuple[float, ...] = ()
    payback: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        check_flag("gate", self.gate)
        if self.omega_scale is not None:
            check_amount("omega_scale", self.omega_scale, positive=True)
        if not isinstance(self.gamma, tuple | list) or not all(
            is_number(gamma) and gamma >= 0 for gamma in self.gamma
        ):
            raise ConfigError(f"gamma: need a list of numbers >= 0, got {self.gamma!r}")
        if self.gamma and self.omega_scale is None:
            raise ConfigError("gamma: has no use without omega_scale, which was not given")
        object.__setattr__(self, "gamma", plain(tuple(self.gamma)))  # a list, when read from JSON
        check_inside("delta", self.delta, "a probability")
        check_share("payback", self.payback)

    def horizon(self, context: Context) -> float:
        return _within(self.payback, context.remaining)

    def threshold(self, context: Context) -> float | None:
        return gate(self.horizon(context)) if self.gate else None

    def omega(self, context: Context) -> float:
        if self.omega_scale is None:
            return context.gp.omega
        if context.asked < len(self.gamma):
            gamma = self.gamma[context.asked]
        else:  # past a schedule's end omega_n must go on growing
            gamma = max((context.gp.information, *self.gamma[-1:]))
        return omega_n(gamma, self.omega_scale, self.delta)


@dataclass(frozen=True)
class AEI(EI):
    """Augmented EI (Huang 2006): EI, discounted where the noise would hide what is to be learnt.

    factor "printed": sigma / sqrt(sigma^2 + lam^2), as section 3.2 of the paper has it;
    factor "huang": 1 - lam / sqrt(sigma^2 + lam^2), as Huang et al. have it.
    """

    name: ClassVar[str] = "aei"
    factor: Literal["printed", "huang"] = "huang"

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.factor not in ("printed", "huang"):
            raise ConfigError(f"factor: need 'printed' or 'huang', got {self.factor!r}")

    def score(self, context: Context) -> Score:
        xi, noise = self.xi(context), context.gp.noise_sd

        def utility(mu: Array, s: Array) -> tuple[Array, Array, Array]:
            value, d_mu, d_s = log_ei(mu, s, xi)
            total = np.hypot(s, noise)
            if self.factor == "printed":
                return value + np.log(s / total), d_mu, d_s + 1.0 / s - s / total**2
            # 1 - noise/total = s^2 / (total (total + noise)): no cancellation where s is small
            kept = s * s / (total * (total + noise))
            return value + np.log(kept), d_mu, d_s + noise * s / (total**3 * kept)

        return PosteriorScore(context.gp, context.gp.omega, utility)


@dataclass(frozen=True)
class EINguyen(EI):
    """EI that stops exploring (Nguyen 2017).

    Where the largest EI is below kappa (in the units of the observations), the point with the
    largest sample mean is taken instead.
    """

    name: ClassVar[str] = "ei-nguyen"
    kappa: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("kappa", self.kappa)

    def settle(self, context: Context, value: float) -> int | None:
        if self.kappa == 0 or value + log(context.unit) >= log(self.kappa):
            return None
        return int(np.argmax(context.gp.data.y[: context.rows]))


@dataclass(frozen=True)
class GPUCB(Policy):
    """mu + sqrt(beta_n) s.  beta is a number, or one of

    "srinivas": 2 log(2 pi^2 n^2 / (3 delta)) + 2 d log(n^2 d sqrt(log(4 d / delta))), Srinivas
        2010, Theorem 2 with its constants a, b, r set to 1;
    "chowdhury-gopalan": B + sqrt(2 (I_n + 1 + log(1/delta))) for the unit-signal sigma (Lemma 1),
        with the information I_n of the data so far and the noise as fitted;
    "log": 0.2 d log(2 n).
    """

    name: ClassVar[str] = "gp-ucb"
    beta: float | str = "log"
    delta: float = 0.1
    bound: float = 1.0  # B, the norm of f in its RKHS, in units of omega

    def __post_init__(self) -> None:
        super().__post_init__()
        named = ("srinivas", "chowdhury-gopalan", "log")
        if isinstance(self.beta, str):
            if self.beta not in named:
                raise ConfigError(
                    f"beta: need a number or one of {', '.join(named)}, got {self.beta!r}"
                )
        else:
            check_amount("beta", self.beta)
        check_inside("delta", self.delta, "a probability")
        check_amount("bound", self.bound)

    def width(self, context: Context) -> float:
        """sqrt(beta_n): how many posterior sds."""
        n, d = context.asked + 1, context.dim
        if not isinstance(self.beta, str):
            return sqrt(self.beta)
        if self.beta == "log":
            return sqrt(0.2 * d * log(2 * n))
        if self.beta == "srinivas":
            finite = 2 * log(2 * pi**2 * n**2 / (3 * self.delta))
            cover = 2 * d * log(n**2 * d * sqrt(log(4 * d / self.delta)))
            return sqrt(finite + max(0.0, cover))
        gp = context.gp
        # sigma is regularised by the noise ratio lam^2 itself: noise of sd lam is R / lam = 1.
        return beta_n(gp.information, self.bound, 1.0, self.delta)

    def score(self, context: Context) -> Score:
        return upper_score(context.gp, self.width(context))


@dataclass(frozen=True)
class IDS(Policy):
    """Information-directed sampling within EIC's gate, its confidence set by what budget remains.

    It takes the point with the least regret that may be feared, squared, per information gained:
    (max U - (mu - b s))^2 / log(1 + s^2 / r^2), with U = mu + b s (Kirschner and Krause 2018).
    r is the noise, but at least a third of the signal: with less every look would tell everything
    about its point, near or far, and the search would creep.
    Their b grows with n.  Here b = |t|, where t is EIC's gate: mu + |t| s is the least value of an
    incumbent at which x is not worth its cost any more, so it is what can still be hoped for at x.
    The gate itself keeps from learning what can't pay any more.

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

    def horizon(self, context: Context) -> float:
        usual = 1.0 if context.choices else 0.3
        return _within(usual if self.payback is None else self.payback, context.remaining)

    def threshold(self, context: Context) -> float:
        return gate(self.horizon(context))

    def score(self, context: Context) -> Score:
        gp, threshold = context.gp, self.threshold(context)
        b = -threshold
        hoped_for, top = context.highest(b)
        noise2 = max(gp.noise_sd**2, _RESOLUTION * gp.omega**2)
        least = 1e-9 * gp.omega  # where the highest point itself is looked at
        learnt: Callable[..., tuple[Array, ...]] = partial(_log_learnt, noise2=noise2)
        shared = None
        if context.choices if self.directed is None else self.directed:
            shared = gp.shared(hoped_for)
            variance = shared.variance * gp.hyper.omega2
            learnt = partial(_log_learnt_of, variance=variance, noise2=noise2)

        def utility(mu: Array, s: Array, *covariance: Array) -> tuple[Array, ...]:
            value, d_s, *d_covariance = learnt(s, *covariance)
            feared = np.maximum(top - mu + b * s, least)
            value = value - 2.0 * np.log(feared)
            return value, 2.0 / feared, d_s - 2.0 * b / feared, *d_covariance

        return PosteriorScore(gp, gp.omega, utility, self.xi(context), threshold, shared)


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
    both = max(variance, _NOTHING * noise2) * (noise2 + s * s)
    rho2 = np.minimum(covariance * covariance / both, 1.0 - _NOTHING)
    learnt = _NOTHING**2 - np.log1p(-rho2)
    rate = 2.0 / ((1.0 - rho2) * learnt)
    return np.log(learnt), -rate * rho2 * s / (noise2 + s * s), rate * covariance / both


@dataclass(frozen=True)
class GPTS(Policy):
    """Thompson sampling: the maximum of one function drawn from the posterior.

    `scale` None draws from the fitted posterior; a number multiplies its sd; "chowdhury-gopalan"
    uses their v_n = B + R sqrt(2 (I_n + 1 + log(2/delta))) with the information I_n of the data so
    far.
    """

    name: ClassVar[str] = "gp-ts"
    scale: float | str | None = None
    delta: float = 0.1
    bound: float = 1.0  # B, in units of omega
    features: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale, str):
            if self.scale != "chowdhury-gopalan":
                raise ConfigError(
                    f"scale: need a number or 'chowdhury-gopalan', got {self.scale!r}"
                )
        elif self.scale is not None:
            check_amount("scale", self.scale, positive=True)
        check_inside("delta", self.delta, "a probability")
        check_amount("bound", self.bound)
        whole("features", self.features, least=1)

    def width(self, context: Context) -> float:
        """By what the posterior sd is multiplied."""
        if isinstance(self.scale, str):  # R / lam = 1, as for GP-UCB
            return beta_n(context.gp.information, self.bound, 1.0, self.delta / 2)
        return self.scale or 1.0

    def score(self, context: Context) -> Score:
        path = context.gp.sample_path(context.rng, self.features, self.width(context))
        return PathScore(path)


@dataclass(frozen=True)
class Random(Policy):
    """Uniform over the space: what everything else has to beat."""

    name: ClassVar[str] = "random"

    def shortcut(self, context: Context) -> Array | None:
        return context.draw()

    def score(self, context: Context) -> Score:
        return upper_score(context.gp, 0.0)


@dataclass(frozen=True)
class ExploreThenCommit(Policy):
    """Random for a first share of the budget, then always the tried point of the best mean.

    That is the best posterior mean at that time: what is served goes on telling about itself.
    """

    name: ClassVar[str] = "explore-then-commit"
    explore: float = 0.2

    def __post_init__(self) -> None:
        super().__post_init__()
        check_share("explore", self.explore)

    def shortcut(self, context: Context) -> Array | None:
        budget = context.asked + context.remaining
        if context.asked < self.explore * budget:
            return context.draw()
        return np.asarray(context.gp.data.x[context.incumbent_row])

    def score(self, context: Context) -> Score:
        return upper_score(context.gp, 0.0)


POLICIES: dict[str, type[Policy]] = {
    policy.name: policy
    for policy in (EIC, EI, AEI, EINguyen, IDS, GPUCB, GPTS, Random, ExploreThenCommit)
}


def make_policy(policy: str | Policy | dict[str, Any]) -> Policy:
    """A policy from its name, from the JSON of one, or as it is."""
    if isinstance(policy, Policy):
        return policy
    options = dict(policy) if isinstance(policy, dict) else {"name": policy}
    name = options.pop("name", None)
    if not isinstance(name, str) or name not in POLICIES:
        raise ConfigError(f"policy: need one of {', '.join(POLICIES)}, got {name!r}")
    try:
        return POLICIES[name](**options)
    except TypeError as error:
        raise ConfigError(f"policy {name}: {error}") from None
