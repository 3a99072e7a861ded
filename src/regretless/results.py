"""What an optimiser returns: trials, the decisions behind them, the best point, the history.

All numbers are in the user's units and direction.  Gains, losses and costs are positive whether the
run maximises or minimises.  If the model expects a disaster at a point (see `Model.tail`), then its
loss, cost and z are those that the policy works with.  They are smaller than the difference of the
means suggests, because the model counts disasters by their logarithm.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime
from math import floor, isfinite, log10
from operator import attrgetter
from sys import intern
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import is_integer, is_number
from regretless.errors import ConfigError, StorageError, UnknownTrialError
from regretless.space import Scalar

_TEXTS = frozenset({"reason", "policy", "held_back", "caution"})  # attributes of `Decision`
# Those that are not stored where they are None.
_LEFT_OUT = {"held_back", "caution", "total_loss", "total_loss_high", "loss_risk", "holds"}
_LEFT_OUT |= {"optimum_gap", "contradicted", "endless", "model_points"}
_NUMBERS = (int, float)

REASONS = ("design", "explore", "exploit", "resample", "exhausted", "given", "baseline")


@dataclass(frozen=True)
class Decision:
    """Why a point was chosen, and the numbers behind it.  `str()` explains it in a sentence.

    Numbers that do not apply are None, such as those of the model during the initial design.

    Attributes:
        reason: one of
            "design": a point of the initial design;
            "explore": a new point that is expected to be worse than the incumbent, but may be
            better;
            "exploit": a new point that is expected to be at least as good as the incumbent;
            "resample": a point that was tried before;
            "exhausted": the best point, because the budget is spent;
            "given": a point that the user chose, see `Optimizer.adopt`;
            "baseline": the baseline, because it has no result yet or because a limit rules out
            what the policy would have chosen.
        policy: the name of the policy.
        remaining: how many evaluations were left, including this one; the horizon if there is no
            end.
        pending: how many other trials were waiting for their results.
        mean: the posterior mean at the point.
        sd: the posterior sd at the point.
        incumbent: xi, the value that an improvement is measured from.
        expected_improvement: what each later evaluation gains on average, if the point replaces the
            incumbent when it is better.
        expected_loss: what this evaluation loses on average, if the point is worse; with a
            `change_cost`, also what changes of the setting are expected to cost.
        horizon: the number of evaluations in which the gain has to make up for the loss.
        evaluation_cost: the expected loss, divided by the horizon.
        gate: t_m, the smallest z that the policy allows; None if it has no gate.
        z: (mean - incumbent) / sd, with the sign such that larger is better; with contexts, without
            what is unknown about the context itself, which is the same for all settings.
        tried: how many results of this point had been told before.
        merged: whether the search found a new point that the posterior can't tell from this one.
        noise_sd: the fitted sd of the noise of one observation at the point.
        refitted: whether the model was fitted for this decision.
        fit_ok: False if the fit failed, so that earlier hyper-parameters were kept.
        jitter: what was added to the diagonal of the covariance so that it could be factorised.
        held_back: the name of the limit that ruled out the point that the policy would have chosen.
        total_loss: what all trials, with this one, are expected to lose against the baseline.
        total_loss_high: what they lose at most, with the confidence of the loss budget.
        loss_risk: the probability that the total loss exceeds the loss budget by this trial.
        holds: the probability that each guardrail holds at the point, where something is known of
            its metric; None without guardrails.
        caution: a sentence about the limits, if no point is known to keep to them.
        optimum_gap: how far the best visited point was from the known optimum or bound, by its
            posterior mean; positive if it was worse.
        contradicted: True if results were clearly better than the given optimum or bound, so that
            it was not used.
        endless: True if the run has no end.
        model_points: the number of points that the model was made of, if there were so many that it
            left some of them out.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=20)
        >>> decision = optimizer.ask().decision
        >>> decision.reason
        'design'
        >>> print(decision)
        start: one of the first points; 20 trials left
    """

    reason: str
    policy: str
    remaining: int
    pending: int = 0
    mean: float | None = None
    sd: float | None = None
    incumbent: float | None = None
    expected_improvement: float | None = None
    expected_loss: float | None = None
    horizon: float | None = None
    evaluation_cost: float | None = None
    gate: float | None = None
    z: float | None = None
    tried: int = 0
    merged: bool = False
    noise_sd: float | None = None
    refitted: bool = False
    fit_ok: bool = True
    jitter: float = 0.0
    held_back: str | None = None
    total_loss: float | None = None
    total_loss_high: float | None = None
    loss_risk: float | None = None
    holds: dict[str, float] | None = None
    caution: str | None = None
    optimum_gap: float | None = None
    contradicted: bool | None = None
    endless: bool | None = None
    model_points: int | None = None

    def __str__(self) -> str:
        sentence = _SENTENCES[self.reason](self) + _limits(self) + _about_optimum(self)
        return sentence + _about_model(self)

    def _repr_html_(self) -> str:
        from regretless._internal import html

        numbers = {name: value for name, value in self.to_json().items() if value is not None}
        return html.paragraph(str(self)) + html.table(numbers)

    def to_json(self) -> dict[str, Any]:
        """The attributes as JSON; numpy scalars from a custom policy become Python's.

        Those of the settings that do no harm are left out if they do not apply.
        """
        return {
            k: v.item() if isinstance(v, np.generic) else v
            for k, v in zip(_FIELDS, _values(self), strict=True)
            if v is not None or k not in _LEFT_OUT
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Decision:
        """The decision that `to_json` wrote; unknown attributes are ignored.

        Args:
            data: what `to_json` returned.

        Raises:
            StorageError: the reason is unknown, or a required attribute is missing.
        """
        names = cls.__dataclass_fields__
        reason = data.get("reason") if isinstance(data, Mapping) else None
        if not (isinstance(reason, str) and reason in REASONS):
            raise StorageError(f"decision: reason must be one of {REASONS}, got {shown(reason)}")
        try:
            known = {k: v for k, v in data.items() if k in names}
            known["reason"] = _REASONS[reason]  # one text for all decisions
            if type(known.get("policy")) is str:
                known["policy"] = intern(known["policy"])
            return cls(**known)
        except TypeError as error:
            raise StorageError(f"decision: {error} in {shown(dict(data))}") from None


_REASONS = {reason: reason for reason in REASONS}
_FIELDS = tuple(each.name for each in fields(Decision))
_values = attrgetter(*_FIELDS)  # `vars` would give each decision a dict of its own, for good


def checked_decision(decision: object) -> Decision:
    """The decision, after a check that a study can store it; ConfigError otherwise."""
    if not isinstance(decision, Decision):
        raise ConfigError(f"decision: need a Decision, got {shown(decision)}")
    if not (isinstance(decision.reason, str) and decision.reason in REASONS):
        raise ConfigError(
            f"decision: need one of {', '.join(REASONS)}, got {shown(decision.reason)}"
        )
    for name, value in zip(_FIELDS, _values(decision), strict=True):
        if value is None and name not in ("reason", "policy"):
            continue
        if name == "holds":
            _check_probabilities(value)
            continue
        plain = value.item() if isinstance(value, np.generic) else value
        if not (isinstance(plain, str) if name in _TEXTS else _is_plain(plain)):
            got = plain if isinstance(plain, float) else type(plain).__name__
            raise ConfigError(f"decision: {name} can't be stored, got {got}")
    return decision


def _check_probabilities(value: object) -> None:
    given = value if isinstance(value, dict) else {"": value}
    if not all(isinstance(name, str) and _is_plain(each) for name, each in given.items()):
        raise ConfigError(f"decision: holds: need a probability for each name, got {shown(value)}")


def _is_plain(value: object) -> bool:
    return (
        value is None
        or isinstance(value, bool)
        or (isinstance(value, _NUMBERS) and is_number(value))
    )


def _left(d: Decision) -> str:
    if d.endless:
        return f"no end, it looks {_trials(d.remaining)} ahead"
    return f"{_trials(d.remaining)} left"


def _trials(count: float) -> str:
    return "1 trial" if round(count) == 1 else f"{count:.0f} trials"


def _design(d: Decision) -> str:
    return f"start: one of the first points; {_left(d)}"


def _gain_and_loss(d: Decision) -> str:
    counted = d.remaining if d.horizon is None else min(d.horizon, d.remaining)
    return (
        f"expected gain {_short(d.expected_improvement)} a trial over {_trials(counted)},"
        f" expected loss {_short(d.expected_loss)} now; {_left(d)}"
    )


def _explore(d: Decision) -> str:
    return f"explored: {_gain_and_loss(d)}"


def _exploit(d: Decision) -> str:
    return (
        f"exploited: expected {_fine(d.mean, d.sd)} ± {_short(d.sd)}, at least as good as the value"
        f" to beat ({_fine(d.incumbent, d.sd)}); {_gain_and_loss(d)}"
    )


def _resample(d: Decision) -> str:
    tried = {0: "its first result is pending", 1: "tried once before"}
    times = tried.get(d.tried, f"tried {d.tried} times before")
    why = (
        "the best new point can't be told apart from it"
        if d.merged
        else "no new point is worth more than another result of it"
    )
    return (
        f"resampled ({times}, expected {_fine(d.mean, d.sd)} ± {_short(d.sd)}): {why}; {_left(d)}"
    )


def _exhausted(d: Decision) -> str:
    if d.mean is None:
        return "budget spent, and no result yet: a random point"
    mean = _fine(d.mean, d.sd)
    return f"budget spent: the best point so far, expected {mean} ± {_short(d.sd)}"


def _given(d: Decision) -> str:
    return f"given: not chosen by the policy; {_left(d)}"


def _baseline(d: Decision) -> str:
    if d.held_back is None:
        return f"baseline: the setting that runs today; {_left(d)}"
    return f"baseline: no other point is allowed; {_left(d)}"


def _limits(d: Decision) -> str:
    """How the limits of a run bear on the decision."""
    said = ""
    if d.caution is not None:
        said += f"; {d.caution}"
    elif d.held_back is not None:
        said += f"; held back by the {d.held_back}"
    if d.total_loss is not None:
        said += (
            f"; expected total loss against the baseline {_short(d.total_loss)}, at most"
            f" {_short(d.total_loss_high)}"
        )
    for guardrail, probability in (d.holds or {}).items():
        said += f"; {guardrail} holds with a probability of {_percent(probability)}"
    return said


def _about_optimum(d: Decision) -> str:
    if d.contradicted:
        return "; results are better than the optimum or bound that was given, so it is not used"
    if d.optimum_gap is None:
        return ""
    return f"; the best point is within {_short(max(0.0, d.optimum_gap))} of the known optimum"


def _about_model(d: Decision) -> str:
    if d.model_points is None:
        return ""
    return f"; the model is made of the {d.model_points:,} points that matter most"


_SENTENCES = {
    "design": _design,
    "explore": _explore,
    "exploit": _exploit,
    "resample": _resample,
    "exhausted": _exhausted,
    "given": _given,
    "baseline": _baseline,
}


def _percent(probability: float) -> str:
    """A probability in words; 100 % only if it is that to many digits."""
    if 0.995 <= probability < 1.0 - 1e-6:
        return "more than 99 %"
    return f"{100 * probability:.0f} %"


def axis_label(metric: str | None, unit: str | None, otherwise: str = "value") -> str:
    """What the results are, for an axis or a heading: "p99 latency (ms)"."""
    return (metric or otherwise) + ("" if unit is None else f" ({unit})")


def with_unit(number: str, unit: str | None) -> str:
    """A number with its unit: "12.1 ms", and "12 %"."""
    return number if unit is None else f"{number} {unit}"


def _listed(context: Mapping[str, Scalar]) -> str:
    return ", ".join(f"{name} = {_shown(value)}" for name, value in context.items())


def _shown(value: Scalar) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def _fine(value: float | None, sd: float | None) -> str:
    """A value with three digits, or as many as it takes to show a tenth of its sd."""
    if not value or not sd or not (isfinite(value) and isfinite(sd)):
        return _short(value)
    digits = floor(log10(abs(value))) - floor(log10(sd)) + 2
    return f"{value:.{min(max(digits, 3), 12)}g}"


def _short(value: float | None) -> str:
    return "?" if value is None else f"{value:.3g}"


@dataclass(frozen=True)
class Trial:
    """One suggestion: set the system to `params`, and tell the result with the trial.

    Attributes:
        number: 0, 1, 2, …, in the order in which the trials were asked for.
        params: a value for each parameter.
        decision: why these parameters were chosen.
        proposed: whether somebody has to approve the trial before it may be tried; see `approve`.
        context: the context that it was asked for; None if the run has no contexts.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"visits": rl.Int(1, 12)}), budget=20)
        >>> trial = optimizer.ask()
        >>> trial.number
        0
        >>> optimizer.tell(trial, value=2.5 * trial.params["visits"])
    """

    number: int
    params: dict[str, Scalar]
    decision: Decision
    proposed: bool = False
    context: dict[str, Scalar] | None = None

    def _repr_html_(self) -> str:
        from regretless._internal import html

        shown = {**self.params, **(self.context or {})}
        return html.table(shown, f"trial {self.number}") + html.paragraph(str(self.decision))


@dataclass(frozen=True)
class Arm:
    """A row of an `Allocation`: a setting, and which part of the traffic gets it.

    Attributes:
        row: the id of the setting: the number of the first trial that had it.  It stays the same as
            long as the setting is in the table.
        trial: the trial for which the results of this row are reported.
        role: "exploit" (the best setting so far by a cautious estimate), "explore" or "baseline".
        share: the share of the traffic.
        slots: the slots of this row, as ranges (first, end) without the end.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=90)
        >>> optimizer.allocate(arms=2).rows[0].slots
        ((0, 5000),)
    """

    row: int
    trial: Trial
    role: str
    share: float
    slots: tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Allocation:
    """A table that splits the traffic among settings; see `Study.allocate`.

    Attributes:
        version: grows with each change of the table.
        made_at: when the table began.
        ttl: for how many seconds it is valid.
        rows: the settings, with their shares.
        baseline: the setting to fall back to; None if it is not known.
        valid_for: for how many more seconds it may be used; None without a clock.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=90)
        >>> table = optimizer.allocate(arms=4)
        >>> table.version, sum(arm.share for arm in table.rows)
        (1, 1.0)
    """

    version: int
    made_at: datetime
    ttl: float
    rows: list[Arm]
    baseline: dict[str, Scalar] | None = None
    valid_for: float | None = None


def number_of(trial: Trial | int) -> int:
    """The number of a trial, given as a `Trial` or as its number.

    Raises:
        UnknownTrialError: it is neither of them.
    """
    number = trial.number if isinstance(trial, Trial) else trial
    if isinstance(number, bool) or not is_integer(number):
        raise UnknownTrialError(f"trial: need a Trial or its number, got {shown(trial)}")
    return int(number)


@dataclass(frozen=True)
class Best:
    """The visited point with the best posterior mean, of those at which all guardrails hold.

    It is not always the point of the best observation, which may be due to noise.

    Attributes:
        params: a value for each parameter.
        mean: the posterior mean of f at the point.
        low: the lower end of the 95 % interval of f at the point.
        high: the upper end of the 95 % interval of f at the point.
        count: how many results were told for the point.
        sample_mean: the mean of these results, weighted by their counts and standard errors.
        luckiest: the best single observation of all points, for comparison.
        holds: the probability that each guardrail holds at the point; None without guardrails.
        allowed: whether each guardrail holds there with its probability.  It is False if that is
            known of no visited point: then the point is the baseline, or the one where the
            guardrails most likely hold.
        gain: what an evaluation gains there over the baseline, on average; None without a baseline.
        gain_low: the lower end of the 95 % interval of the gain.
        gain_high: the upper end of the 95 % interval of the gain.
        prob_better: the probability that the point is better than the baseline; 0 if it is the
            baseline.
        regret: how much worse the mean is than the known optimum or bound, at least 0: what each
            evaluation at the point loses, or at most loses.  None if none was given, or if the
            results contradict it.
        context: the context for which it is the best one.  None if the run has no contexts, or if
            it is the best one on average over those seen.  With contexts, `count` and `sample_mean`
            are over all contexts in which the setting was tried.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=3)
        >>> for trial, value in zip(optimizer, [1.0, 4.0, 3.0]):
        ...     optimizer.tell(trial, value)
        >>> best = optimizer.best()
        >>> best.luckiest
        4.0
        >>> best.low < best.mean < best.high
        True
    """

    params: dict[str, Scalar]
    mean: float
    low: float
    high: float
    count: int
    sample_mean: float
    luckiest: float
    holds: dict[str, float] | None = None
    allowed: bool = True
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    prob_better: float | None = None
    regret: float | None = None
    context: dict[str, Scalar] | None = None

    def __str__(self) -> str:
        point = ", ".join(f"{name} = {_shown(value)}" for name, value in self.params.items())
        where = "" if self.context is None else f" if {_listed(self.context)}"
        return f"{self._range} at {point}{where}"

    @property
    def _range(self) -> str:
        mean, low, high = (_fine(x, (self.high - self.low) / 4) for x in self._ends)
        return f"{mean} (95 %: {low} to {high})"

    @property
    def _ends(self) -> tuple[float, float, float]:
        return self.mean, self.low, self.high

    def _repr_html_(self) -> str:
        from regretless._internal import html

        return html.table(self.params, f"best: {self._range}")


@dataclass(frozen=True)
class NoiseAt:
    """The noise at one point.

    Attributes:
        sd: the sd of the noise of one result there.
        params: the point.
    """

    sd: float
    params: dict[str, Scalar]


@dataclass(frozen=True)
class NoiseRange:
    """Where results scatter least and most, if the noise differs from place to place.

    Attributes:
        typical: the sd of the noise of one result at a typical point.
        least: a point of the space where it is smallest.
        most: a point of the space where it is largest.
        by_level: whether the level of the results explains most of the difference.

    Example:
        >>> least, most = NoiseAt(0.5, {"x": 0.1}), NoiseAt(5.0, {"x": 0.9})
        >>> print(NoiseRange(typical=1.6, least=least, most=most, by_level=False))
        results scatter 10 times as much at x=0.9 (sd 5) as at x=0.1 (sd 0.5)
    """

    typical: float
    least: NoiseAt
    most: NoiseAt
    by_level: bool

    def __str__(self) -> str:
        def at(noise: NoiseAt) -> str:
            point = ", ".join(
                f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
                for name, value in noise.params.items()
            )
            return f"at {point} (sd {noise.sd:.3g})"

        times = self.most.sd / self.least.sd
        why = "; the scatter mostly depends on how large the results are" if self.by_level else ""
        return f"results scatter {times:.2g} times as much {at(self.most)} as {at(self.least)}{why}"


@dataclass(frozen=True)
class PeriodEffect:
    """How much periods differ, and what the controls saved.  `str()` says it in a sentence.

    Attributes:
        effect_sd: the sd of the effect of a period on all its results.
        noise_sd: the sd of the noise of one result, after it was corrected by its control.
        controls: how many results have a control.
        saved: how many results without a control tell as much as one with it.

    Example:
        >>> print(PeriodEffect(effect_sd=3.0, noise_sd=1.0, controls=12, saved=9.5))
        periods differ by 3 (sd); a result with a control is worth 9.5 results without one
    """

    effect_sd: float
    noise_sd: float
    controls: int
    saved: float

    def __str__(self) -> str:
        return (
            f"periods differ by {_short(self.effect_sd)} (sd); a result with a control is worth"
            f" {_short(self.saved)} results without one"
        )


@dataclass(frozen=True, eq=False)
class Landscape:
    """The posterior and the policy's view of a list of points, in the user's units, for plots.

    Each array has one number for each point.  See `Optimizer.landscape`.

    Attributes:
        mean: the posterior mean.
        sd: the posterior sd.
        expected_improvement: what each later evaluation gains on average, if the point replaces the
            incumbent when it is better.
        evaluation_cost: the expected loss of an evaluation, divided by the policy's horizon.
        z: (mean - incumbent) / sd, with the sign such that larger is better.
        feasible: whether the policy's gate allows the point.
        incumbent: xi, the value that an improvement is measured from.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
        >>> optimizer.observe({"x": 0.2}, 3.0)
        >>> optimizer.observe({"x": 0.7}, 1.0)
        >>> landscape = optimizer.landscape([{"x": 0.2}, {"x": 0.4}])
        >>> bool(landscape.sd[0] < landscape.sd[1])  # less is known where nothing was tried
        True
    """

    mean: Array
    sd: Array
    expected_improvement: Array
    evaluation_cost: Array
    z: Array
    feasible: NDArray[np.bool_]
    incumbent: float


@dataclass(frozen=True)
class Row:
    """One row of the history: a trial, or a result from before the run.

    Attributes:
        number: the number of the trial; None for a result from before the run.
        status: for a trial, "pending", "told" or "abandoned", and with `mode="recommend"` also
            "proposed", "rejected" or "reconsidered" (rejected for a reason that no longer stands).
            For a result from before, "observed" or "retracted".
        params: a value for each parameter.
        value: the result; None if there is none yet.
        sem: the standard error of the value, if it was told.
        count: how many evaluations the value is the mean of; None if there is no value yet.
        decision: why the parameters were chosen; None for a result from before the run.
        time: when the value was measured, if that is known.
        metrics: the other metrics that were told, by name.
        control: what the baseline brought in the same period, if it was told.
        note: what was said when the trial was approved or rejected, or its result retracted.
        context: the context in which it was tried; None if the run has no contexts.

    Example:
        >>> import regretless as rl
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
        >>> optimizer.observe({"x": 0.5}, 3.0)
        >>> [row.status for row in optimizer.history()]
        ['observed']
    """

    number: int | None
    status: str
    params: dict[str, Scalar]
    value: float | None
    sem: float | None
    count: float | None
    decision: Decision | None
    time: datetime | None = None
    metrics: dict[str, float] = field(default_factory=dict)
    control: float | None = None
    note: str | None = None
    context: dict[str, Scalar] | None = None

    def flat(self) -> dict[str, Any]:
        """The row as one flat dict, for pandas and csv writers.

        Rows with the same metrics have the same keys, except for `control` and `note`, which only
        rows with a control or a note have.

        Example:
            >>> row = Row(None, "observed", {"x": 0.5}, 3.0, None, 1.0, None)
            >>> row.flat()["params_x"]
            0.5
        """
        out: dict[str, Any] = {"number": self.number, "status": self.status, "value": self.value}
        out |= {"sem": self.sem, "count": self.count}
        out["time"] = None if self.time is None else self.time.isoformat()
        out |= {f"params_{name}": value for name, value in self.params.items()}
        out |= {f"context_{name}": value for name, value in (self.context or {}).items()}
        out |= {f"metric_{name}": value for name, value in self.metrics.items()}
        out |= {} if self.control is None else {"control": self.control}
        out |= {} if self.note is None else {"note": self.note}
        why = {f.name: getattr(self.decision, f.name, None) for f in fields(Decision)}
        holds = why.pop("holds") or {}
        why |= {f"holds_{guardrail}": probability for guardrail, probability in holds.items()}
        return out | why
