"""What the optimiser says: a trial, the decision behind it, and the best point so far.

All numbers are in the user's units and direction; gains, losses and costs are positive either way.
Where a disaster is expected, its loss, cost and z are the drawn-in ones that the policy weighs (see
`outcomes`): smaller than the difference of the means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.validate import is_number
from regretless.errors import ConfigError, StorageError, UnknownTrialError
from regretless.space import Scalar

REASONS = ("design", "explore", "exploit", "resample", "exhausted", "given")


@dataclass(frozen=True)
class Decision:
    """Why a point was chosen, and the numbers behind it; `str()` is a sentence for a person.

    reason: "design" (the start), "explore" (a new point that is expected to be worse than the
    incumbent, but may be better), "exploit" (a new point that is expected to be at least as good),
    "resample" (a point that was tried before), "exhausted" (the budget is spent; the best point is
    served), "given" (somebody else's choice, see `Optimizer.adopt`).
    """

    reason: str
    policy: str
    remaining: int  # evaluations left, this one included
    pending: int = 0  # trials that were asked and not yet told
    mean: float | None = None  # posterior mean of the chosen point
    sd: float | None = None  # posterior sd of the chosen point
    incumbent: float | None = None  # xi: what improvement is counted from
    expected_improvement: float | None = None  # a step, if this point is kept where it is better
    expected_loss: float | None = None  # once, if it is worse
    horizon: float | None = None  # steps within which a gain has to make up for a loss
    evaluation_cost: float | None = None  # the expected loss, spread over these steps
    gate: float | None = None  # t_m: the least z that is allowed; None where the policy has no gate
    z: float | None = None  # (mean - incumbent) / sd, larger is better
    tried: int = 0  # how often this very point had been told before
    merged: bool = False  # a new point was found, but the posterior can't tell it from this one
    noise_sd: float | None = None  # fitted sd of one observation
    refitted: bool = False  # the model was fitted for this decision
    fit_ok: bool = True  # False: the fit failed and earlier parameters were kept
    jitter: float = 0.0  # what had to be added to the covariance to factorise it

    def __str__(self) -> str:
        return _SENTENCES[self.reason](self)

    def to_json(self) -> dict[str, Any]:
        """Of plain types, though a policy of one's own may have left numpy's in it."""
        return {k: v.item() if isinstance(v, np.generic) else v for k, v in vars(self).items()}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        names = cls.__dataclass_fields__
        reason = data.get("reason") if isinstance(data, Mapping) else None
        if reason not in REASONS:
            raise StorageError(f"decision: reason must be one of {REASONS}, got {reason!r}")
        try:
            return cls(**{k: v for k, v in data.items() if k in names})
        except TypeError as error:
            raise StorageError(f"decision: {error} in {dict(data)!r}") from None


def checked_decision(decision: object) -> Decision:
    """One that can be written down."""
    if not isinstance(decision, Decision):
        raise ConfigError(f"decision: need a Decision, got {decision!r}")
    if decision.reason not in REASONS:
        raise ConfigError(f"decision: need one of {', '.join(REASONS)}, got {decision.reason!r}")
    for name, value in decision.to_json().items():
        if not (isinstance(value, str) if name in ("reason", "policy") else _is_plain(value)):
            shown = value if isinstance(value, float) else type(value).__name__
            raise ConfigError(f"decision: {name} can't be written down, got {shown}")
    return decision


def _is_plain(value: object) -> bool:
    if value is None or isinstance(value, bool):
        return True
    return isinstance(value, int | float) and is_number(value)


def _design(d: Decision) -> str:
    return f"started: a point of the initial design, {d.remaining} evaluations left"


def _gain_and_loss(d: Decision) -> str:
    steps = f"the {d.remaining} that remain"
    if d.horizon is not None and d.horizon < d.remaining:
        steps = f"{d.horizon:.0f} of {steps}"
    return (
        f"expected gain {_short(d.expected_improvement)} a step over {steps},"
        f" against an expected loss of {_short(d.expected_loss)}"
    )


def _explore(d: Decision) -> str:
    return f"explored: {_gain_and_loss(d)}"


def _exploit(d: Decision) -> str:
    return (
        f"moved: expected {_short(d.mean)} ± {_short(d.sd)}, no worse than what there is to beat "
        f"({_short(d.incumbent)}); {_gain_and_loss(d)}"
    )


def _resample(d: Decision) -> str:
    tried = {0: "its first result is under way", 1: "tried once before"}
    times = tried.get(d.tried, f"tried {d.tried} times before")
    why = (
        "the best new point can't be told from it"
        if d.merged
        else "no new point is worth more than another look at it"
    )
    return (
        f"sampled again ({times}, expected {_short(d.mean)} ± {_short(d.sd)}): {why}"
        f" with {d.remaining} left"
    )


def _exhausted(d: Decision) -> str:
    if d.mean is None:
        return "budget spent, and nothing told yet: a point at random"
    return f"budget spent: the best point so far, expected {_short(d.mean)} ± {_short(d.sd)}"


def _given(d: Decision) -> str:
    return f"given: not the policy's choice, {d.remaining} evaluations left"


_SENTENCES = {
    "design": _design,
    "explore": _explore,
    "exploit": _exploit,
    "resample": _resample,
    "exhausted": _exhausted,
    "given": _given,
}


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


@dataclass(frozen=True)
class Trial:
    """Something to try: `params` go to the system, `number` comes back with the result."""

    number: int
    params: dict[str, Scalar]
    decision: Decision


def number_of(trial: Trial | int) -> int:
    """The number of a trial, given as it was asked or by its number alone."""
    number = trial.number if isinstance(trial, Trial) else trial
    if isinstance(number, bool) or not isinstance(number, Integral):
        raise UnknownTrialError(f"trial: need a Trial or its number, got {trial!r}")
    return int(number)


@dataclass(frozen=True)
class Best:
    """The visited point with the best posterior mean, never just the luckiest observation."""

    params: dict[str, Scalar]
    mean: float  # posterior mean of f there
    low: float  # 95 % interval of f there
    high: float
    count: int  # how many results were told for it
    sample_mean: float  # their mean, by their counts and standard errors
    luckiest: float  # the best single observation anywhere, for comparison


@dataclass(frozen=True, eq=False)
class Landscape:
    """Posterior, gain and cost at a list of points, in the user's units, for pictures."""

    mean: Array
    sd: Array
    expected_improvement: Array
    evaluation_cost: Array
    z: Array  # (mean - incumbent) / sd, larger is better
    feasible: NDArray[np.bool_]  # the policy's gate lets the point pass
    incumbent: float


@dataclass(frozen=True)
class Row:
    """One line of the history."""

    number: int | None  # None for prior data
    status: str  # "pending", "told", "abandoned", "observed"
    params: dict[str, Scalar]
    value: float | None
    sem: float | None
    count: float | None
    decision: Decision | None
    time: datetime | None = None  # of the result, if that is known

    def flat(self) -> dict[str, Any]:
        """One flat dict, with the same keys in every row: pandas and csv writers take it as is."""
        out: dict[str, Any] = {"number": self.number, "status": self.status, "value": self.value}
        out |= {"sem": self.sem, "count": self.count}
        out["time"] = None if self.time is None else self.time.isoformat()
        out |= {f"params_{name}": value for name, value in self.params.items()}
        return out | {f.name: getattr(self.decision, f.name, None) for f in fields(Decision)}
