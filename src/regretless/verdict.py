"""Where a run stands, for somebody who has five seconds: a state, and what it has gained.

The numbers follow from the posterior as it is, without simulations, so a verdict takes
milliseconds.  `forecast` simulates the rest of a run and says more.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.plain import json_number
from regretless.engine import Optimizer, Record, joined
from regretless.ledger import JointPosterior, Today, today
from regretless.results import Best, with_unit
from regretless.space import Scalar

STATES = {
    "waiting": "Waiting for the first result",
    "exploring": "Exploring",
    "settling": "Settling",
    "settled": "Settled",
    "spent": "Budget spent",
    "changed": "Something changed",
}
RECENT = 10  # the last trials, by which the state is judged
MANY, FEW = 0.3, 0.1  # the share of them that explores, and that still moves after it has settled
FEW_PLACES = 4  # settings at which they are, after it has settled
CHANGED_FOR = 20  # results after a sudden change was noticed, until it is no news
CANDIDATES, CONTENDERS = 512, 24  # points that may become the best one, and the likeliest of them
DRAWS = 512  # of the values at these points
ENOUGH = 20  # results; with fewer, nobody can say where it ends
WITHIN_95 = 1.96


@dataclass(frozen=True)
class Verdict:
    """Where a run stands.  `str()` says it in a sentence.

    Attributes:
        state: one of
            "waiting": no result was told yet;
            "exploring": at least 3 of the last 10 trials looked for something better;
            "settling": fewer did, but new points are still tried;
            "settled": at least 9 of the last 10 trials repeated a point, and all are at few points;
            "spent": nothing is left of the budget;
            "changed": a sudden change was noticed within the last 20 results, see `Drift`.
        left: how many evaluations are left; None if the run has no end.
        best: the best point; None before the first result.
        over: what the gain is measured from: "baseline" (declared), "observed setting" (seen before
            the run) or "first point"; None before the first result.
        reference: the parameters of that setting.
        value: the posterior mean there.
        gain: what an evaluation at the best point gains over it, on average; negative for a loss.
        gain_low, gain_high: the 95 % interval of the gain.
        percent, percent_low, percent_high: the same as a percentage of the value there; None if the
            value may be close to 0.
        expected_end: about where the value of the best point will be when the budget is spent; None
            before 20 results, with contexts, and without an end.  It is rough; see `forecast`.
        unit: the unit of the results, if it was given.
    """

    state: str
    left: int | None
    best: Best | None = None
    over: str | None = None
    reference: dict[str, Scalar] | None = None
    value: float | None = None
    gain: float | None = None
    gain_low: float | None = None
    gain_high: float | None = None
    percent: float | None = None
    percent_low: float | None = None
    percent_high: float | None = None
    expected_end: float | None = None
    unit: str | None = None

    def __str__(self) -> str:
        parts = [_gained(self), _left(self.left), _end(self)]
        return f"{STATES[self.state]}: {', '.join(filter(None, parts))}"

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON, without the best point; None replaces a number that is not finite."""
        numbers = ["value", "gain", "gain_low", "gain_high"]
        numbers += ["percent", "percent_low", "percent_high", "expected_end"]
        return {
            "state": self.state,
            "title": STATES[self.state],
            "sentence": str(self),
            "left": self.left,
            "over": self.over,
            "reference": self.reference,
            **{name: json_number(getattr(self, name)) for name in numbers},
        }


@one_thread()
def verdict(optimizer: Optimizer) -> Verdict:
    """Where a run stands: whether it explores, what it has gained, and what is left.

    Example:
        >>> import regretless as rl
        >>> from regretless.verdict import verdict
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda p: 9 - (p["x"] - 0.3) ** 2, space, budget=12)
        >>> verdict(result.optimizer).state
        'spent'
    """
    left = None if optimizer.budget is None else optimizer.remaining
    reference = today(optimizer)
    if not optimizer.observations or reference is None:
        return Verdict("waiting", left, unit=optimizer.unit)
    best = optimizer.best()
    return Verdict(
        state=_state(optimizer, left),
        left=left,
        best=best,
        over=reference.kind,
        reference=reference.params,
        **_compared(optimizer, best, reference),
        expected_end=_expected_end(optimizer, left),
        unit=optimizer.unit,
    )


# -- the state -------------------------------------------------------------------------------------


def _state(optimizer: Optimizer, left: int | None) -> str:
    if left == 0:
        return "spent"
    records = [r for r in optimizer._records.trials if r.status not in ("rejected", "reconsidered")]
    told = sum(record.status == "told" for record in records)
    if optimizer.jumps:
        noticed = optimizer.jumps[-1].noticed
        if sum(r.status == "told" and r.trial.number > noticed for r in records) < CHANGED_FOR:
            return "changed"
    last = _moves(records)[-RECENT:]
    if told < RECENT or sum(move == "look" for move in last) >= MANY * len(last):
        return "exploring"
    moved = sum(move != "repeat" for move in last)
    places = {record.whole.tobytes() for record in records[-RECENT:]}
    is_settled = moved <= FEW * len(last) and len(places) <= FEW_PLACES
    return "settled" if is_settled else "settling"


def _moves(records: Sequence[Record]) -> list[str]:
    """For each trial: "look" (for something better), "step" (to a new point) or "repeat"."""
    seen: Counter[bytes] = Counter()
    out = []
    for record in records:
        key, reason = record.whole.tobytes(), record.trial.decision.reason
        if reason in ("design", "explore"):
            out.append("look")
        elif reason in ("resample", "exhausted", "baseline") or key in seen:
            out.append("repeat")
        else:
            out.append("look" if reason == "given" else "step")
        seen[key] += 1
    return out


# -- the gain --------------------------------------------------------------------------------------


def _compared(optimizer: Optimizer, best: Best, reference: Today) -> dict[str, float | None]:
    """The value of the reference, and what the best point is better by, by their joint posterior.

    There is no percentage of a value that may be close to zero.
    """
    x = optimizer.space.encode(best.params)
    mean, covariance = _pair(optimizer, x, reference.x)
    sign, value = optimizer.sign, float(mean[1])
    if np.array_equal(x, reference.x):
        return {"value": value, "gain": 0.0, "gain_low": 0.0, "gain_high": 0.0}
    gain, sd = sign * float(mean[0] - mean[1]), _sd(np.array([1.0, -1.0]), covariance)
    half = WITHIN_95 * sd
    out: dict[str, float | None] = {"value": value, "gain": gain}
    out |= {"gain_low": gain - half, "gain_high": gain + half}
    if abs(value) > 3.0 * math.sqrt(max(0.0, float(covariance[1, 1]))):
        out["percent"] = 100.0 * gain / abs(value)
        to_percent = 100.0 * sign * math.copysign(1.0, value)
        ends = sorted(to_percent * (ratio - 1.0) for ratio in _ratios(mean, covariance))
        out |= {"percent_low": ends[0], "percent_high": ends[1]}
    return out


def _ratios(mean: Array, covariance: Array) -> tuple[float, float]:
    """The ends of the 95 % interval of the ratio of two Gaussians, by Fieller's theorem.

    They are the ratios r at which a - r b is 1.96 sds away from zero.  b is clearly not zero.
    """
    unit = float(mean[1])  # so that squares of squares do not overflow
    a, z2, covariance = float(mean[0]) / unit, WITHIN_95**2, covariance / unit / unit
    square = 1.0 - z2 * float(covariance[1, 1])
    linear = a - z2 * float(covariance[0, 1])
    constant = a**2 - z2 * float(covariance[0, 0])
    root = math.sqrt(max(0.0, linear**2 - square * constant))
    return (linear - root) / square, (linear + root) / square


def _pair(optimizer: Optimizer, x: Array, other: Array) -> tuple[Array, Array]:
    """The means and the covariance of f at two settings; on average over the contexts seen."""
    places, shares = np.zeros((1, 0)), np.ones(1)
    if optimizer.contexts is not None:
        places, shares = optimizer._usual_contexts()
    rows = [joined(setting, place) for setting in (x, other) for place in places]
    f = JointPosterior.at(optimizer._situation(), np.array(rows))
    weights = np.kron(np.eye(2), shares)
    return weights @ f.mean, weights @ f.covariance @ weights.T


def _sd(weights: Array, covariance: Array) -> float:
    return math.sqrt(max(0.0, float(weights @ covariance @ weights)))


# -- the end ---------------------------------------------------------------------------------------


def _expected_end(optimizer: Optimizer, left: int | None) -> float | None:
    """About where the value of the best point will be in the end.

    Some points may become the best one: those that are best if one sd is added to their mean.  If
    the evaluations that are left are shared among them, what is known of f there gets more exact:
    the posterior means will move by as much as the posterior sd shrinks.  The answer is the
    expectation of the largest of them.
    """
    if not left or optimizer.contexts is not None or optimizer.observations < ENOUGH:
        return None
    situation, sign = optimizer._situation(), optimizer.sign
    drawn = optimizer._domain().drawn(CANDIDATES, np.random.default_rng(0))
    visited = situation.visited[0]
    row, _ = situation.recommended
    points = np.vstack([visited[row], drawn, visited])
    if optimizer.safety.guardrails:
        points = points[np.append(True, situation.guards.allow(points[1:]))]
    mean, sd = situation.predict(points)
    order = np.argsort(-(sign * mean[1:] + sd[1:]), kind="stable")[: CONTENDERS - 1] + 1
    f = JointPosterior.at(situation, np.unique(points[[0, *order]], axis=0))
    noise = situation.posterior.noise_sd * situation.unit
    variance = np.maximum(np.diag(f.covariance), 0.0)
    of_each = noise**2 / max(1.0, left / len(variance))
    moves = np.sqrt(variance / np.maximum(variance + of_each, 1e-300))
    covariance = f.covariance * np.outer(moves, moves)
    draws = np.random.default_rng(0).multivariate_normal(
        sign * f.mean, covariance, size=DRAWS, method="eigh", check_valid="ignore"
    )
    return float(sign * draws.max(axis=1).mean())


# -- sentences -------------------------------------------------------------------------------------

_THAN = {
    "baseline": "today",
    "observed setting": "the setting observed before",
    "first point": "the first point",
}


def _gained(v: Verdict) -> str:
    if v.gain is None or v.over is None or v.gain_low is None or v.gain_high is None:
        return "nothing was told yet"
    if v.gain == v.gain_low == v.gain_high:
        return f"the best point is {_same(v.over)}"
    if v.percent is not None and v.percent_low is not None and v.percent_high is not None:
        amount = f"{_digits(abs(v.percent), v.percent_high - v.percent_low)} %"
        low, high = v.percent_low, v.percent_high
    else:
        amount = with_unit(_digits(abs(v.gain), v.gain_high - v.gain_low), v.unit)
        low, high = v.gain_low, v.gain_high
    better = "better" if v.gain >= 0 else "worse"
    ends = (low, high) if v.gain >= 0 else (-high, -low)
    between = " to ".join(_digits(end, high - low) for end in ends)
    if low <= 0.0 <= high:
        return f"not clearly better than {_THAN[v.over]} ({amount} {better}; 95 %: {between})"
    return f"{amount} {better} than {_THAN[v.over]} (95 %: {between})"


def _same(over: str) -> str:
    return "what runs today" if over == "baseline" else _THAN[over]


def _left(left: int | None) -> str:
    if left is None:
        return "no end"
    return f"{left} {'trial' if left == 1 else 'trials'} left" if left else ""


def _end(v: Verdict) -> str:
    if v.expected_end is None or v.best is None:
        return ""
    number = _digits(v.expected_end, v.best.high - v.best.low)
    return f"expected to end near {with_unit(number, v.unit)}"


def _digits(value: float, width: float) -> str:
    """A number with the digits that an interval of this width leaves."""
    if not (width > 0 and math.isfinite(value)):
        return f"{value:.4g}"
    decimals = min(12, max(0, -math.floor(math.log10(width / 4.0))))
    text = f"{value:.{decimals}f}"
    if len(text) > 14:
        return f"{value:.4g}"
    return text.removeprefix("-") if float(text) == 0.0 else text
