"""The settings by which a run does no harm: baseline, loss budget, guardrails, steps, approval.

This file only checks and stores them.  The engine keeps to them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, Literal

from regretless._internal.shown import shown
from regretless._internal.validate import (
    MAX_RESULT,
    check_amount,
    check_flag,
    check_inside,
    check_name,
    is_iterable,
    is_number,
    is_one_of,
    plain,
    with_plain_numbers,
)
from regretless.errors import ConfigError
from regretless.space import Categorical, Scalar, Space

OBJECTIVE = "objective"  # the outcome that is optimised
CONTROL = "control"  # what the baseline brought in the same period
RESERVED = (OBJECTIVE, CONTROL)

Mode = Literal["automatic", "recommend"]
# A share of the parameter's range, or {"by": an absolute change}.
Step = float | Mapping[str, float]


@dataclass(frozen=True)
class Guardrail:
    """A limit on a metric that is told beside the objective; use `AtMost` or `AtLeast`.

    Args:
        metric: the name of the metric, see `Optimizer.tell`.
        limit: the limit; with `of="baseline"`, the limit divided by the metric at the baseline.
        prob: the probability with which the limit must hold at a point that is tried.
        of: "baseline" for a limit that is a multiple of the metric at the baseline.

    Raises:
        ConfigError: an argument is not valid.
    """

    side: ClassVar[str] = ""
    metric: str
    limit: float
    prob: float = field(default=0.95, kw_only=True)
    of: Literal["baseline"] | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        if not self.side:
            raise ConfigError("guardrail: need AtMost(...) or AtLeast(...)")
        check_metric(self.metric)
        if not is_number(self.limit):
            raise ConfigError(f"guardrail {self.metric}: need a number, got {shown(self.limit)}")
        if not (is_number(self.prob) and 0.5 <= self.prob < 1):
            raise ConfigError(
                f"guardrail {self.metric}: prob: need a probability from 0.5 to below 1, got"
                f" {shown(self.prob)}"
            )
        if self.of is not None and not is_one_of(self.of, ("baseline",)):
            raise ConfigError(
                f"guardrail {self.metric}: of: need 'baseline' or None, got {shown(self.of)}"
            )

    @property
    def sign(self) -> float:
        """1.0 if the metric must be small, -1.0 if it must be large."""
        return 1.0 if self.side == "at_most" else -1.0

    def __str__(self) -> str:
        times = "" if self.of is None else " × its value at the baseline"
        relation = "<=" if self.side == "at_most" else ">="
        return f"{self.metric} {relation} {self.limit:g}{times}"

    def to_json(self) -> dict[str, Any]:
        """The guardrail as JSON: {"metric": "p99_ms", "at_most": 250.0, "prob": 0.95}."""
        of = {} if self.of is None else {"of": self.of}
        return {"metric": self.metric, self.side: self.limit, "prob": self.prob, **of}

    @staticmethod
    def from_json(data: object) -> Guardrail:
        """The guardrail that `to_json` wrote.

        Raises:
            ConfigError: it is not the JSON of a guardrail.
        """
        if not isinstance(data, Mapping):
            raise ConfigError(f"guardrail: need an object, got {shown(data)}")
        sides = [side for side in _SIDES if side in data]
        unknown = [key for key in data if key not in ("metric", "prob", "of", *_SIDES)]
        if len(sides) != 1 or "metric" not in data or unknown:
            raise ConfigError(
                "guardrail: need 'metric' and one of 'at_most' and 'at_least', and perhaps 'prob'"
                f" and 'of', got {shown(dict(data))}"
            )
        options = {name: data[name] for name in ("prob", "of") if name in data}
        return _SIDES[sides[0]](data["metric"], data[sides[0]], **options)


@dataclass(frozen=True)
class AtMost(Guardrail):
    """A metric must stay at or below a limit.

    Args:
        metric: the name of the metric, as in `tell(trial, value, metrics={name: ...})`.
        limit: the limit; with `of="baseline"`, a multiple of the metric at the baseline.
        prob: the probability with which the limit must hold at a point that is tried.
        of: "baseline" for a limit that is a multiple of the metric at the baseline.

    Raises:
        ConfigError: an argument is not valid.

    Example:
        >>> import regretless as rl
        >>> print(rl.AtMost("p99_ms", 250))
        p99_ms <= 250
    """

    side: ClassVar[str] = "at_most"


@dataclass(frozen=True)
class AtLeast(Guardrail):
    """A metric must stay at or above a limit.

    Args:
        metric: the name of the metric, as in `tell(trial, value, metrics={name: ...})`.
        limit: the limit; with `of="baseline"`, a multiple of the metric at the baseline.
        prob: the probability with which the limit must hold at a point that is tried.
        of: "baseline" for a limit that is a multiple of the metric at the baseline.

    Raises:
        ConfigError: an argument is not valid.

    Example:
        >>> import regretless as rl
        >>> print(rl.AtLeast("qps", 0.95, of="baseline"))
        qps >= 0.95 × its value at the baseline
    """

    side: ClassVar[str] = "at_least"


_SIDES: dict[str, type[Guardrail]] = {"at_most": AtMost, "at_least": AtLeast}


@dataclass(frozen=True)
class Safety:
    """What a run must not do.  The fields are the arguments of `Optimizer` with the same names."""

    baseline: Mapping[str, Scalar] | None = None
    loss_budget: float | None = None
    confidence: float = 0.95
    guardrails: tuple[Guardrail, ...] = ()
    max_step: Mapping[str, Step] = field(default_factory=dict)
    change_cost: float = 0.0
    sparse_changes: bool = False
    free_start: bool = False
    mode: Mode = "automatic"

    @classmethod
    def checked(cls, space: Space, settings: Mapping[str, Any]) -> Safety:
        """The settings after a check; those that are None or missing have their defaults.

        Raises:
            ConfigError: a setting is not valid, or contradicts another one.
            SpaceError: the baseline is not in the space.
        """
        given = {name: value for name, value in settings.items() if value is not None}
        if "baseline" in given:
            given["baseline"] = space.validate(given["baseline"])
        if "guardrails" in given:
            given["guardrails"] = _checked_guardrails(given["guardrails"])
        if "max_step" in given:
            given["max_step"] = _checked_steps(space, given["max_step"])
        made = cls(**given)
        made._check()
        return made

    def __post_init__(self) -> None:
        for name in ("loss_budget", "confidence", "change_cost"):
            object.__setattr__(self, name, plain(getattr(self, name)))

    def _check(self) -> None:
        if self.loss_budget is not None:
            check_amount("loss_budget", self.loss_budget, positive=True)
            if self.loss_budget > MAX_RESULT:  # its square must not overflow
                raise ConfigError(
                    f"loss_budget: need at most {MAX_RESULT:g}, got {shown(self.loss_budget)}"
                )
        check_inside("confidence", self.confidence, "a probability")
        check_amount("change_cost", self.change_cost)
        check_flag("sparse_changes", self.sparse_changes)
        check_flag("free_start", self.free_start)
        if self.free_start and not self.guardrails:
            raise ConfigError("free_start: needs guardrails, give at least one")
        if not is_one_of(self.mode, ("automatic", "recommend")):
            raise ConfigError(f"mode: need 'automatic' or 'recommend', got {shown(self.mode)}")
        if self.baseline is not None:
            return
        if self.loss_budget is not None:
            raise ConfigError("loss_budget: needs a baseline that the loss is measured from")
        if self.sparse_changes:
            raise ConfigError("sparse_changes: needs a baseline that changes are counted from")
        for guardrail in self.guardrails:
            if guardrail.of is not None:
                raise ConfigError(f"guardrail {guardrail.metric}: of='baseline' needs a baseline")

    @property
    def metrics(self) -> tuple[str, ...]:
        """The names of the metrics that have a guardrail, in order."""
        return tuple(dict.fromkeys(guardrail.metric for guardrail in self.guardrails))

    def to_json(self) -> dict[str, Any]:
        """The settings that differ from the defaults, as JSON."""
        out: dict[str, Any] = {}
        for name, default in vars(Safety()).items():
            value = getattr(self, name)
            if value != default:
                out[name] = value
        if "guardrails" in out:
            out["guardrails"] = [guardrail.to_json() for guardrail in self.guardrails]
        for name in ("baseline", "max_step"):
            if name in out:
                out[name] = dict(out[name])
        return out


SETTINGS = tuple(vars(Safety()))  # the names of the settings


def check_metric(name: object) -> None:
    """Raise ConfigError unless the name can be that of a metric."""
    check_name("metric", name)
    if name in RESERVED:
        raise ConfigError(f"metric: {shown(name)} is not a name for a metric, choose another one")


def _checked_guardrails(given: object) -> tuple[Guardrail, ...]:
    if isinstance(given, str | Mapping | Guardrail) or not is_iterable(given):
        raise ConfigError(f"guardrails: need a list of AtMost and AtLeast, got {shown(given)}")
    made = tuple(g if isinstance(g, Guardrail) else Guardrail.from_json(g) for g in given)
    _check_contradictions(made)
    return made


def _check_contradictions(guardrails: Sequence[Guardrail]) -> None:
    seen: dict[tuple[str, str, str | None], Guardrail] = {}
    for guardrail in guardrails:
        key = (guardrail.metric, guardrail.side, guardrail.of)
        if key in seen:
            raise ConfigError(f"guardrails: {seen[key]} and {guardrail}: give only one of the two")
        seen[key] = guardrail
    for (metric, side, of), low in seen.items():
        high = seen.get((metric, "at_most", of))
        if side == "at_least" and high is not None and low.limit > high.limit:
            raise ConfigError(f"guardrails: {low} and {high} can't both hold")


def _checked_steps(space: Space, given: object) -> dict[str, Step]:
    if not isinstance(given, Mapping):
        raise ConfigError(f"max_step: need a step for each parameter, got {shown(given)}")
    return {_stepped(space, name): _checked_step(name, step) for name, step in given.items()}


def _stepped(space: Space, name: object) -> str:
    if not isinstance(name, str) or name not in space.names:
        raise ConfigError(
            f"max_step: need parameters of the space ({', '.join(space.names)}), got {shown(name)}"
        )
    if isinstance(space.parameters[name].plain, Categorical):
        raise ConfigError(f"max_step: {name}: its choices have no order, so there are no steps")
    return name


def _checked_step(name: str, step: object) -> Step:
    if isinstance(step, Mapping):
        if set(step) != {"by"}:
            raise ConfigError(f"max_step: {name}: need a share or {{'by': …}}, got {shown(step)}")
        check_amount(f"max_step: {name}: by", step["by"], positive=True)
        return {"by": float(step["by"])}
    if not (is_number(step) and 0 < step <= 1):
        raise ConfigError(
            f"max_step: {name}: need a share of its range, above 0 and at most 1, or"
            f" {{'by': an absolute change}}, got {shown(step)}"
        )
    return float(step)


Measured = float | tuple[float, float | None]  # a value, perhaps with its standard error


def checked_metrics(metrics: object) -> dict[str, tuple[float, float | None]]:
    """The value and the standard error of each metric, not checked themselves.

    Raises:
        ConfigError: it is not a mapping of names to numbers, or to pairs of numbers.
    """
    if not isinstance(metrics, Mapping):
        raise ConfigError(f"metrics: need a value for each name, got {shown(metrics)}")
    for name in metrics:
        check_metric(name)
    return {name: measured(name, value) for name, value in metrics.items()}


def measured(name: str, value: Any) -> tuple[float, float | None]:
    """The value and the standard error of a number, or of a pair of both."""
    if isinstance(value, Iterable) and not isinstance(value, str):
        pair = list(islice(value, 3)) if is_iterable(value) else []
        if len(pair) != 2:
            raise ConfigError(
                f"{name}: need a number, or a number and its standard error, got {shown(value)}"
            )
        return pair[0], pair[1]
    return value, None


def returned(result: Any) -> tuple[Any, Any]:
    """What a function returned as its value and its metrics: a number, or (number, metrics).

    Example:
        >>> returned(3.5)
        (3.5, None)
        >>> returned((3.5, {"p99_ms": 240.0}))
        (3.5, {'p99_ms': 240.0})
    """
    if isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], Mapping):
        return result
    return result, None
