"""Expected improvement (EI) and its variants: EIC, augmented EI (AEI) and EI-Nguyen."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import ClassVar, Literal

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import (
    check_amount,
    check_flag,
    check_inside,
    check_share,
    is_number,
    is_one_of,
    plain,
)
from regretless.errors import ConfigError
from regretless.improvement import gate
from regretless.policies.base import (
    IncumbentKind,
    Policy,
    PolicyInput,
    check_incumbent,
    incumbent_value,
)
from regretless.policies.scores import PosteriorScore, Score
from regretless.theory import omega_n


@dataclass(frozen=True)
class EI(Policy):
    """Expected improvement over an incumbent value xi.

    Args:
        incumbent: what xi is: the best posterior mean at visited points ("mean"), the best single
            observation ("observation"), the best posterior mean of the whole space ("domain"), or
            the best lower quantile at visited points ("quantile").
        beta: the level of "quantile", between 0 and 1.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.EI(incumbent="domain"))
        >>> optimizer.policy.incumbent
        'domain'
    """

    name: ClassVar[str] = "ei"
    incumbent: IncumbentKind = "mean"
    beta: float = 0.9

    def __post_init__(self) -> None:
        super().__post_init__()
        check_incumbent(self.incumbent, self.beta)

    def xi(self, inputs: PolicyInput) -> float:
        return incumbent_value(inputs, self.incumbent, self.beta)

    def score(self, inputs: PolicyInput) -> Score:
        return PosteriorScore(
            inputs.posterior,
            self.omega(inputs),
            self.improvement(inputs),
            constraints=self.gates(inputs),
        )


@dataclass(frozen=True)
class EIC(EI):
    """Expected improvement-cost, Algorithm 1 of the paper.

    It takes the point with the largest EI among those whose EI is at least their evaluation cost
    (eq. evacost).  The evaluation cost is the expected loss, divided by the number m of evaluations
    that remain.  With z = (mu - xi)/s, this condition is z >= t_m (see `improvement.gate`).  The
    incumbent has z = 0 and always meets it.  So the incumbent is tried again if no other point is
    worth its cost.

    Args:
        incumbent: see `EI`.
        beta: see `EI`.
        gate: whether to keep the condition; `gate=False, merge=False` is plain EI.
        omega_scale: c of the schedule c sqrt(gamma_n + 1 + log(1/delta)), eq. omgn, which replaces
            the fitted omega; None for the fitted omega.
        delta: the probability in this schedule.
        gamma: gamma_0, gamma_1, ... of this schedule.  Where it ends, the information I_n of the
            data takes its place.
        payback: the loss is divided by 1 + payback (m - 1) instead of m, from 0 to 1 (see `IDS`).
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is out of range, or there is a `gamma` but no `omega_scale`.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.EIC(payback=0.5))
        >>> optimizer.policy.payback
        0.5
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
            raise ConfigError(f"gamma: need a list of numbers >= 0, got {shown(self.gamma)}")
        if self.gamma and self.omega_scale is None:
            raise ConfigError("gamma: needs omega_scale, which was not given")
        object.__setattr__(self, "gamma", plain(tuple(self.gamma)))  # JSON has lists, not tuples
        check_inside("delta", self.delta, "a probability")
        check_share("payback", self.payback)

    def horizon(self, inputs: PolicyInput) -> float:
        return inputs.horizon.within(self.payback)

    def threshold(self, inputs: PolicyInput) -> float | None:
        return gate(self.horizon(inputs)) if self.gate else None

    def omega(self, inputs: PolicyInput) -> float:
        if self.omega_scale is None:
            return inputs.posterior.omega
        if inputs.horizon.asked < len(self.gamma):
            gamma = self.gamma[inputs.horizon.asked]
        else:  # omega_n must not become smaller at the end of the schedule
            gamma = max((inputs.posterior.information, *self.gamma[-1:]))
        return omega_n(gamma, self.omega_scale, self.delta)


@dataclass(frozen=True)
class AEI(EI):
    """Augmented EI (Huang 2006): EI times a factor that is small where noise is large next to s.

    Args:
        incumbent: see `EI`.
        beta: see `EI`.
        factor: "huang" is 1 - lam / sqrt(sigma^2 + lam^2), by Huang et al.; "printed" is
            sigma / sqrt(sigma^2 + lam^2), as section 3.2 of the paper has it.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.AEI(factor="printed"))
        >>> optimizer.policy.factor
        'printed'
    """

    name: ClassVar[str] = "aei"
    factor: Literal["printed", "huang"] = "huang"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not is_one_of(self.factor, ("printed", "huang")):
            raise ConfigError(f"factor: need 'printed' or 'huang', got {shown(self.factor)}")

    def score(self, inputs: PolicyInput) -> Score:
        improvement, typical = self.improvement(inputs), inputs.posterior.noise_sd

        def utility(mu: Array, s: Array, *more: Array) -> tuple[Array, ...]:
            value, d_mu, d_s = improvement(mu, s)
            noise = typical * np.exp(0.5 * more[0]) if more else typical
            total = np.hypot(s, noise)
            # The factor depends on s/noise only, so its slope in h is -s/2 times that in s.
            if self.factor == "printed":
                rise = 1.0 / s - s / total**2
                return value + np.log(s / total), d_mu, d_s + rise, -0.5 * s * rise
            # 1 - noise/total = s^2 / (total (total + noise)): no cancellation where s is small
            kept = s * s / (total * (total + noise))
            rise = noise * s / (total**3 * kept)
            return value + np.log(kept), d_mu, d_s + rise, -0.5 * s * rise

        posterior = inputs.posterior
        return PosteriorScore(posterior, posterior.omega, utility, noise=inputs.noise)


@dataclass(frozen=True)
class EINguyen(EI):
    """EI with a stopping rule (Nguyen 2017).

    If the largest EI is below kappa, it takes the visited point with the largest sample mean.

    Args:
        incumbent: see `EI`.
        beta: see `EI`.
        kappa: the threshold, in the user's units; 0 for plain EI.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.EINguyen(kappa=0.01))
        >>> optimizer.policy.kappa
        0.01
    """

    name: ClassVar[str] = "ei-nguyen"
    kappa: float = 1e-4

    def __post_init__(self) -> None:
        super().__post_init__()
        check_amount("kappa", self.kappa)

    def settle(self, inputs: PolicyInput, value: float) -> int | None:
        if self.kappa == 0 or value + log(inputs.unit) >= log(self.kappa):
            return None
        return int(np.argmax(inputs.posterior.sample_means[: inputs.rows]))
