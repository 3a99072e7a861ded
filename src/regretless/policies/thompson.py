"""Thompson sampling (GP-TS)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from regretless._internal.validate import check_amount, check_inside, whole
from regretless.errors import ConfigError
from regretless.policies.base import Policy, PolicyInput
from regretless.policies.scores import PathScore, Score
from regretless.theory import beta_n


@dataclass(frozen=True)
class GPTS(Policy):
    """Thompson sampling: draw a function from the posterior and take its maximum.

    Args:
        scale: a factor of the posterior sd; None for 1.  "chowdhury-gopalan" is their
            v_n = B + R sqrt(2 (I_n + 1 + log(2/delta))), with the information I_n of the data.
        delta: the probability in v_n.
        bound: B in v_n, the norm of f in its RKHS, in units of omega.
        features: the number of random features of a draw; more are more accurate and slower.
        merge: see `Policy`.

    Raises:
        ConfigError: a setting is unknown or out of range.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=rl.GPTS(scale=2.0))
        >>> optimizer.policy.scale
        2.0
    """

    name: ClassVar[str] = "gp-ts"
    scale: float | str | None = None
    delta: float = 0.1
    bound: float = 1.0
    features: int = 1024

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.scale, str):
            if self.scale != "chowdhury-gopalan":
                raise ConfigError(
                    f"scale: need a number or 'chowdhury-gopalan', got {self.scale!r:.200}"
                )
        elif self.scale is not None:
            check_amount("scale", self.scale, positive=True)
        check_inside("delta", self.delta, "a probability")
        check_amount("bound", self.bound)
        whole("features", self.features, least=1)

    def width(self, inputs: PolicyInput) -> float:
        """The factor of the posterior sd."""
        if isinstance(self.scale, str):  # R = 1, as for GP-UCB
            return beta_n(inputs.posterior.information, self.bound, 1.0, self.delta / 2)
        return self.scale or 1.0

    def score(self, inputs: PolicyInput) -> Score:
        path = inputs.posterior.sample_path(inputs.rng, self.features, self.width(inputs))
        return PathScore(path, inputs.posterior, unit=0.25 * inputs.posterior.omega)
