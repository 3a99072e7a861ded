"""What the live page shows of a study, as plain data: JSON without NaN or infinity.

All numbers are in the user's units and direction.  Gains, losses and regrets are positive for "more
of it", whether the study maximises or minimises.  This module does not know about HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.plain import json_number, json_numbers
from regretless._internal.validate import MAX_SAFE
from regretless.engine import Optimizer, Situation, joined
from regretless.ledger import Ledger
from regretless.results import Best, Row, Trial
from regretless.space import Cyclic, Parameter, Scalar
from regretless.studies import Snapshot, allocation_json, counts, drift_json
from regretless.verdict import verdict

TABLE_ROWS = 500  # the page lists so many trials; the API has the earlier ones
BLOCK = 32  # points whose correlations are computed at once
SLICE_POINTS = 61  # points along a parameter
SAMPLED_POINTS = 512  # points of the space, for the share of it that is worth exploring
CONTEXT_VALUES, CONTEXT_CHOICES = 6, 12  # values of a context for which the best point is shown
WITHIN_95 = 1.96  # a normal variable is within so many sds of its mean with 95 %

_PLOTTED = ("expected_improvement", "evaluation_cost", "z", "gate")  # numbers of each decision


@one_thread()
def page_data(snapshot: Snapshot) -> dict[str, Any]:
    """Everything that a study's page shows, as of one moment.

    Args:
        snapshot: the study as it was after one event.

    Returns:
        Plain data that `json.dumps(..., allow_nan=False)` takes.  What needs results is None or
        empty before the first one.

    Example:
        with Study.open("gateway.sqlite", "gateway", read_only=True) as study:
            text = json.dumps(page_data(study.snapshot()), allow_nan=False)
    """
    optimizer = snapshot.optimizer
    rows = optimizer.history()
    view = _PosteriorView.of(optimizer, rows) if optimizer.observations else None
    return {
        "name": snapshot.name,
        "seq": snapshot.seq,
        "time": snapshot.time.isoformat(),
        "direction": optimizer.direction,
        "metric": optimizer.metric,
        "unit": optimizer.unit,
        "verdict": _verdict(optimizer),
        "policy": optimizer.policy.name,
        "mode": optimizer.safety.mode,
        "archived": snapshot.archived,
        "has_contexts": optimizer.contexts is not None,
        "space": optimizer.space.to_json(),
        "counts": counts(optimizer),
        "known": _known(optimizer),
        "drift": drift_json(optimizer),
        "best": view and _best(view.best),
        "contexts": view.contexts() if view else [],
        "noise_sd": view and view.noise_sd,
        "noise_differs": view and view.noise_differs,
        "periods": view and view.periods,
        "worth_exploring": view and view.worth_exploring(),
        "allocation": _allocation(snapshot),
        "pending": _under_way(snapshot, optimizer.pending),
        "proposed": _under_way(snapshot, optimizer.proposed),
        "decisions": _decisions(rows),
        "metrics": optimizer.safety.metrics,
        "guardrails": [vars(each) for each in Ledger.from_rows(optimizer, rows).violations()],
        "baseline": optimizer.baseline and _exact(optimizer.baseline),
        "loss": view and _loss(Ledger.from_rows(optimizer, rows)),
        "running": view and _running(Ledger.from_rows(optimizer, rows)),
        "calibration": _calibration(view.without_periods(rows) if view else rows),
        "slices": view.slices() if view else [],
        "trials": [_trial(snapshot, i, row) for i, row in list(enumerate(rows))[-TABLE_ROWS:]],
    }


def _allocation(snapshot: Snapshot) -> dict[str, Any] | None:
    """How the traffic is split, with what was reported for each row; None without a table."""
    optimizer = snapshot.optimizer
    table = optimizer.allocation
    if table is None:
        return None
    data = allocation_json(snapshot.name, table)
    totals = optimizer._records.totals
    for row in data["rows"]:
        known = totals.get(row["trial"])
        counted = known is not None and known.count > 0.0
        row["count"] = known.count if known else 0.0
        row["mean"] = json_number(known.mean) if known and counted else None
        row["params"] = _exact(row["params"])
        del row["slots"]
    return data


def _verdict(optimizer: Optimizer) -> dict[str, Any]:
    data = verdict(optimizer).to_json()
    reference = data["reference"]
    return data | {"reference": None if reference is None else _exact(reference)}


def _known(optimizer: Optimizer) -> dict[str, Any] | None:
    """The optimum or the bound that was given."""
    known = optimizer.known
    return None if known is None else {"value": known.value, "exact": known.exact}


def _best(best: Best) -> dict[str, Any]:
    names = ("mean", "low", "high", "sample_mean", "luckiest", "regret")
    names_of_gain = ("gain", "gain_low", "gain_high", "prob_better")
    numbers = {name: json_number(getattr(best, name)) for name in (*names, *names_of_gain)}
    known = {"count": best.count, "allowed": best.allowed, "holds": best.holds}
    context = {} if best.context is None else {"in": _exact(best.context)}
    return {"params": _exact(best.params), **context, **known, **numbers}


def _under_way(snapshot: Snapshot, trials: Sequence[Trial]) -> list[dict[str, Any]]:
    records = snapshot.optimizer._records.trials  # a history would copy every row
    return [
        {
            "number": trial.number,
            "params": _exact(trial.params),
            "asked_at": snapshot.asked_at[trial.number].isoformat(),
            "sentence": str(trial.decision),
            "note": records[trial.number].note,
            **({} if trial.context is None else {"context": _exact(trial.context)}),
        }
        for trial in trials
    ]


def _decisions(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """Lists with one entry for each trial: why it was made, and what the policy weighed."""
    own = [(row, row.decision) for row in rows if row.decision is not None]
    plotted = {name: json_numbers(getattr(why, name) for _, why in own) for name in _PLOTTED}
    return {
        "number": [row.number for row, _ in own],
        "status": [row.status for row, _ in own],
        "reason": [why.reason for _, why in own],
        **plotted,
    }


def _running(ledger: Ledger) -> dict[str, Any]:
    """The trials' results and the ledger's running totals; no totals before the first result."""
    data = ledger.to_json()
    times = [None if row.time is None else round(row.time.timestamp()) for row in ledger.trials]
    numbers = {"number": data["number"], "time": times, "value": data["value"]}
    return {**numbers, **(data["estimates"] or {})}


def _trial(snapshot: Snapshot, index: int, row: Row) -> dict[str, Any]:
    asked = None if row.number is None else snapshot.asked_at[row.number].isoformat()
    return {
        "number": row.number,  # None for prior data
        "prior": index if row.number is None else None,  # prior data come first
        "status": row.status,
        "asked_at": asked,
        "told_at": row.time and row.time.isoformat(),
        "params": _exact(row.params),
        "value": row.value,
        "sem": row.sem,
        "count": row.count,
        "reason": row.decision and row.decision.reason,
        "sentence": str(row.decision or ""),
        "note": row.note,
        **({} if row.context is None else {"context": _exact(row.context)}),
    }


def _loss(ledger: Ledger) -> dict[str, Any] | None:
    """The total loss against the baseline and its budget; None if there is no loss budget."""
    loss = ledger.loss()
    if loss is None:
        return None
    numbers = {name: json_number(value) for name, value in asdict(loss).items()}
    return numbers | {"is_spent": loss.is_spent, "sentence": str(loss)}


def _calibration(rows: Sequence[Row]) -> dict[str, Any]:
    """How the results compare with what was predicted when they were asked for.

    z is (result - predicted mean) / (predicted sd, noise included).  If the model is right, the
    mean of z is about 0, its sd is about 1, and 95 % of all z are within 1.96.
    """
    scored = [(row.number, score) for row in rows if (score := _residual(row)) is not None]
    z = np.array([score for _, score in scored])
    return {
        "number": [number for number, _ in scored],
        "z": json_numbers(z),
        "mean": json_number(z.mean()) if len(z) else None,
        "sd": json_number(z.std(ddof=1)) if len(z) > 1 else None,
        "inside": json_number(np.mean(np.abs(z) <= WITHIN_95)) if len(z) else None,
    }


def _residual(row: Row) -> float | None:
    """The standardised residual of a result; None where nothing was predicted."""
    why = row.decision
    if row.value is None or why is None or why.mean is None or why.sd is None:
        return None
    of_one = why.noise_sd or 0.0  # noise of a single evaluation
    noise = row.sem if row.sem is not None else of_one / math.sqrt(row.count or 1.0)
    spread = math.hypot(why.sd, noise)
    return (row.value - why.mean) / spread if spread > 0 else None


@dataclass(frozen=True, eq=False)
class _PosteriorView:
    """The posterior, and each distinct point that has a result."""

    optimizer: Optimizer
    situation: Situation
    best: Best
    params: list[dict[str, Scalar]]  # of each point
    points: Array  # the same points, encoded

    @classmethod
    def of(cls, optimizer: Optimizer, rows: Sequence[Row]) -> _PosteriorView:
        # Private, but the encoded points, and the noise and the kernel of the last fit, are nowhere
        # else.
        records = optimizer._records
        trials, pairs = records.trials, zip(records.prior_x, records.prior_at, strict=True)
        prior = (joined(x, at) for x, at in pairs)
        distinct: dict[bytes, tuple[dict[str, Scalar], Array]] = {}
        for row in rows:
            x = next(prior) if row.number is None else trials[row.number].whole
            if row.value is not None:
                distinct.setdefault(x.tobytes(), (row.params, x))
        params = [each for each, _ in distinct.values()]
        points = np.array([x for _, x in distinct.values()])
        last = optimizer._records.last_context
        best = optimizer.best() if last is None else optimizer.best(context=last)
        return cls(optimizer, optimizer._situation(), best, params, points)

    @cached_property
    def here(self) -> Array:
        """The best point, encoded; in the context that was seen last."""
        point = self.optimizer.space.encode(self.best.params)
        return joined(point, self.optimizer._last_place())

    def contexts(self) -> list[dict[str, Any]]:
        """The best setting for several values of each context, the others as they were last."""
        declared, last = self.optimizer.contexts, self.optimizer._records.last_context
        if declared is None or last is None:
            return []
        out = []
        for name, parameter in declared.items():
            for value in _values(parameter):
                found = self.optimizer.best(context={**last, name: value})
                out.append({"context": name, "value": value, "at": _exact(last), **_best(found)})
        return out

    @property
    def noise_sd(self) -> float | None:
        """The noise of one result; None as long as it is assumed and not fitted."""
        fitted = self.situation.fitted.ok
        return (
            json_number(self.situation.posterior.noise_sd * self.situation.unit) if fitted else None
        )

    @property
    def noise_differs(self) -> dict[str, Any] | None:
        """Where results scatter least and most; None if that is not known to differ."""
        found = self.situation.noise_range
        if found is None:
            return None
        least, most = (
            {"sd": json_number(each.sd), "params": _exact(each.params)}
            for each in (found.least, found.most)
        )
        return {"least": least, "most": most, "sentence": _sentence(str(found))}

    @property
    def periods(self) -> dict[str, Any] | None:
        """How much periods differ, and what the controls saved; None without controls."""
        found = self.situation.period_effect
        if found is None:
            return None
        numbers = {name: json_number(value) for name, value in vars(found).items()}
        return {**numbers, "sentence": str(found)}

    def without_periods(self, rows: Sequence[Row]) -> Sequence[Row]:
        """The rows, with each value corrected by its control, and with the noise that it has."""
        periods, sign = self.situation.fitted.periods, self.optimizer.sign
        if periods is None:
            return rows
        trials, out = self.optimizer._records.trials, []
        for row in rows:
            if row.number is not None and row.value is not None:
                record = trials[row.number]
                told = self.optimizer._observation(record.x, record.outcomes)
                value, weight, variance = periods.corrected(told)[1:4]
                sem = None if variance is None else math.sqrt(variance)
                row = replace(row, value=sign * value, sem=sem, count=weight)
            out.append(row)
        return out

    def worth_exploring(self) -> float | None:
        """The share of the space that passes the policy's gate; None if the policy has no gate."""
        gated = self.situation.policy.threshold(self.situation.inputs) is not None
        if not gated or not self.optimizer.remaining:
            return None
        draws = self.optimizer._domain().drawn(SAMPLED_POINTS, np.random.default_rng(0))
        return float(self.situation.landscape(draws).feasible.mean())

    def slices(self) -> list[dict[str, Any]]:
        """The posterior along each parameter through the best point, with the results.

        `near` is the prior correlation of a point that has results with its projection onto the
        slice: 1 for a point on the slice, and less the further away it is.  An unknown constant
        does not count, because it is the same everywhere.
        """
        belief, sign = self.situation.belief, self.optimizer.sign
        told = [
            (json_number(sign * belief.sample_mean(x)), belief.times_told(x)) for x in self.points
        ]
        names = self.optimizer.space.parameters.items()
        # The values of a structured parameter lie on no line, and others may not exist at the best
        # point.
        lines = [
            (j, name, p)
            for j, (name, p) in enumerate(names)
            if p.kind != "structured" and name in self.best.params
        ]
        return [self._slice(j, name, one, told) for j, name, one in lines]

    def _slice(
        self, j: int, name: str, parameter: Parameter, told: list[tuple[float | None, int]]
    ) -> dict[str, Any]:
        line = _line(parameter)
        x = np.tile(self.here, (len(line), 1))
        x[:, j] = line
        settled = self.optimizer._whole.settled
        mean, sd = self.situation.predict(settled(x))
        onto = np.tile(self.here, (len(self.points), 1))
        onto[:, j] = self.points[:, j]
        near = self._correlations(settled(onto))
        return {
            "name": name,
            "kind": parameter.kind,
            "log": bool(getattr(parameter.plain, "log", False)),
            "incumbent": self.best.params[name],
            "values": [parameter.decode(u) for u in line],
            "mean": json_numbers(mean),
            "low": json_numbers(mean - WITHIN_95 * sd),
            "high": json_numbers(mean + WITHIN_95 * sd),
            "points": [
                {"x": params[name], "y": y, "count": count, "near": json_number(close)}
                for params, (y, count), close in zip(self.params, told, near, strict=True)
                if name in params
            ],
        }

    def _correlations(self, others: Array) -> Array:
        """The prior correlation of each point with the same row of `others`.

        In blocks, because the kernel compares all rows of one with all rows of the other.
        """
        kernel = self.situation.fitted.hyper.kernel.varying
        starts = range(0, len(others), BLOCK)
        pairs = [(self.points[i : i + BLOCK], others[i : i + BLOCK]) for i in starts]
        covariance = np.concatenate([np.diag(kernel.gram(x, z)) for x, z in pairs])
        return covariance / np.sqrt(kernel.diag(self.points) * kernel.diag(others))


def _values(parameter: Parameter) -> list[Scalar]:
    """Some values of a context: all that are listed, or several of a range."""
    scale = parameter.scale
    if scale.count is not None and scale.count <= CONTEXT_CHOICES:
        return [parameter.decode(u) for u in parameter.places().tolist()]
    ends = isinstance(parameter, Cyclic)  # both ends are the same value
    places = np.linspace(0.0, 1.0, CONTEXT_VALUES + ends)[:CONTEXT_VALUES]
    return list(dict.fromkeys(parameter.decode(u) for u in places.tolist()))


def _line(parameter: Parameter) -> Array:
    """Coordinates along a parameter.

    A parameter with few levels gets all of them, and so does any categorical one.  Every other
    parameter gets evenly spaced coordinates.
    """
    scale, has_choices = parameter.scale, not parameter.has_order
    if scale.count is not None and (scale.count <= SLICE_POINTS or has_choices):
        return np.asarray(scale.at(np.arange(scale.count)))
    return np.unique(scale.snap(np.linspace(0.0, 1.0, SLICE_POINTS)))


def _exact(params: dict[str, Scalar]) -> dict[str, Scalar]:
    """The parameters, with integers that a browser would round written as text."""
    return {
        name: str(value) if isinstance(value, int) and abs(value) > MAX_SAFE else value
        for name, value in params.items()
    }


def _sentence(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}."
