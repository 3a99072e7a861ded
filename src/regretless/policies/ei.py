"""Expected improvement and its relatives: EI, EIC, augmented EI, EI-Nguyen."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import log
from typing import ClassVar, Literal

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import (
    check_amount,
    check_flag,
    check_inside,
    check_share,
    is_number,
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
from regretless.policies.scores import PosteriorScore, Score, log_ei
from regretless.theory import omega_n


@dataclass(frozen=True)
class EI(Policy):
    """Expected improvement over an incumbent.

    That is the best posterior mean at sampled points ("mean"), the best single observation
    ("observation"), the best posterior mean anywhere ("domain"), or the best lower quantile at
    sampled points ("quantile", level `beta`).
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
        xi = self.xi(inputs)
        return PosteriorScore(
            inputs.posterior,
            self.omega(inputs),
            lambda mu, s: log_ei(mu, s, xi),
            constraints=self.gates(inputs),
        )


@dataclass(frozen=True)
class EIC(EI):
    """Expected improvement-cost, Algorithm 1 of the paper.

    The best EI among the points whose EI is at least their evaluation cost (eq. evacost): the
    expected loss, spread over the evaluations that remain.  In terms of z = (mu - xi)/s that is
    z >= t_m, one number (see `improvement.gate`).  The incumbent always passes (z = 0), so when
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

    def horizon(self, inputs: PolicyInput) -> float:
        return inputs.horizon.within(self.payback)

    def threshold(self, inputs: PolicyInput) -> float | None:
        return gate(self.horizon(inputs)) if self.gate else None

    def omega(self, inputs: PolicyInput) -> float:
        if self.omega_scale is None:
            return inputs.posterior.omega
        if inputs.horizon.asked < len(self.gamma):
            gamma = self.gamma[inputs.horizon.asked]
        else:  # past a schedule's end omega_n must go on growing
            gamma = max((inputs.posterior.information, *self.gamma[-1:]))
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

    def score(self, inputs: PolicyInput) -> Score:
        xi, noise = self.xi(inputs), inputs.posterior.noise_sd

        def utility(mu: Array, s: Array) -> tuple[Array, Array, Array]:
            value, d_mu, d_s = log_ei(mu, s, xi)
            total = np.hypot(s, noise)
            if self.factor == "printed":
                return value + np.log(s / total), d_mu, d_s + 1.0 / s - s / total**2
            # 1 - noise/total = s^2 / (total (total + noise)): no cancellation where s is small
            kept = s * s / (total * (total + noise))
            return value + np.log(kept), d_mu, d_s + noise * s / (total**3 * kept)

        return PosteriorScore(inputs.posterior, inputs.posterior.omega, utility)


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

    def settle(self, inputs: PolicyInput, value: float) -> int | None:
        if self.kappa == 0 or value + log(inputs.unit) >= log(self.kappa):
            return None
        return int(np.argmax(inputs.posterior.sample_means[: inputs.rows]))
