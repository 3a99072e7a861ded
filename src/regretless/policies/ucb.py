"""Upper confidence bounds (GP-UCB)."""

from __future__ import annotations

from dataclasses import dataclass
from math import log, pi, sqrt
from typing import ClassVar

from regretless._internal.validate import check_amount, check_inside
from regretless.errors import ConfigError
from regretless.policies.base import Policy, PolicyInput
from regretless.policies.scores import Score, upper_score
from regretless.theory import beta_n


@dataclass(frozen=True)
class GPUCB(Policy):
    """Upper confidence bound: the point with the largest mu + sqrt(beta_n) s.

    Args:
        beta: beta_n for all n, or one of these schedules:
            "log": beta_n = 0.2 d log(2 n);
            "srinivas": beta_n = 2 log(2 pi^2 n^2 / (3 delta)) + 2 d log(n^2 d sqrt(log(4 d /
            delta))), Srinivas 2010, Theorem 2 with its constants a, b, r set to 1;
            "chowdhury-gopalan": sqrt(beta_n) = B + sqrt(2 (I_n + 1 + log(1/delta))) (Lemma 1), with
            the information I_n of the data.
        delta: the probability in these schedules.
        bound: B, the norm of f in its RKHS, in units of omega.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.GPUCB(beta=4.0))
        >>> optimizer.policy.beta
        4.0
    """

    name: ClassVar[str] = "gp-ucb"
    beta: float | str = "log"
    delta: float = 0.1
    bound: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        named = ("srinivas", "chowdhury-gopalan", "log")
        if isinstance(self.beta, str):
            if self.beta not in named:
                raise ConfigError(
                    f"beta: need a number or one of {', '.join(named)}, got {self.beta!r:.200}"
                )
        else:
            check_amount("beta", self.beta)
        check_inside("delta", self.delta, "a probability")
        check_amount("bound", self.bound)

    def width(self, inputs: PolicyInput) -> float:
        """sqrt(beta_n), the number of posterior sds."""
        n, d = inputs.horizon.asked + 1, inputs.dim
        if not isinstance(self.beta, str):
            return sqrt(self.beta)
        if self.beta == "log":
            return sqrt(0.2 * d * log(2 * n))
        if self.beta == "srinivas":
            finite = 2 * log(2 * pi**2 * n**2 / (3 * self.delta))
            cover = 2 * d * log(n**2 * d * sqrt(log(4 * d / self.delta)))
            return sqrt(finite + max(0.0, cover))
        # Lemma 1 has R / lam for noise of sd R.  Here the noise has the sd lam, so the ratio is 1.
        return beta_n(inputs.posterior.information, self.bound, 1.0, self.delta)

    def score(self, inputs: PolicyInput) -> Score:
        return upper_score(inputs.posterior, self.width(inputs))
