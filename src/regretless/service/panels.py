"""What the live page shows of a study, as plain data: JSON without NaN or infinity.

All numbers are in the user's units and direction; gains, losses and regrets are positive for "more
of it" either way. Nothing here knows about HTTP.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.validate import MAX_SAFE
from regretless.engine import Optimizer, Situation
from regretless.model import Posterior
from regretless.results import Best, Row
from regretless.space import Parameter, Scalar
from regretless.studies import report
from regretless.studies.study import Snapshot

TABLE_ROWS = 500  # a long study's earlier rows are left to the API
SLICE_POINTS = 61
SAMPLED_POINTS = 512  # of the space, for the share of it that is worth exploring
WITHIN_95 = 1.96

_SEEN = ("expected_improvement", "evaluation_cost", "z", "gate")  # of a decision, over time

Numbers = list[float | None]


@one_thread()
def panels(snapshot: Snapshot) -> dict[str, Any]:
    """Everything on a study's page, as of one moment."""
    optimizer = snapshot.optimizer
    rows = optimizer.history()
    known = _Known.of(optimizer, rows) if optimizer.observations else None
    return {
        "name": snapshot.name,
        "seq": snapshot.seq,
        "time": snapshot.time.isoformat(),
        "direction": optimizer.direction,
        "policy": optimizer.policy.name,
        "space": optimizer.space.to_json(),
        "counts": report.counts(optimizer, rows),
        "best": known and _best(known.best),
        "noise_sd": known and known.noise_sd,
        "worth_exploring": known and known.worth_exploring(),
        "pending": _pending(snapshot),
        "decisions": _decisions(rows),
        "running": known and known.running(),
        "calibration": _calibration(rows),
        "slices": known.slices() if known else [],
        "trials": [_trial(row) for row in rows[-TABLE_ROWS:]],
    }


def _best(best: Best) -> dict[str, Any]:
    numbers = {name: _plain(value) for name, value in asdict(best).items()}
    return numbers | {"params": _exact(best.params)}


def _pending(snapshot: Snapshot) -> list[dict[str, Any]]:
    return [
        {
            "number": trial.number,
            "params": _exact(trial.params),
            "asked_at": snapshot.asked_at[trial.number].isoformat(),
            "sentence": str(trial.decision),
        }
        for trial in snapshot.optimizer.pending
    ]


def _decisions(rows: Sequence[Row]) -> dict[str, list[Any]]:
    """One entry a trial: why it was made, and what the policy weighed."""
    own = [(row, row.decision) for row in rows if row.decision is not None]
    seen = {name: _numbers(getattr(why, name) for _, why in own) for name in _SEEN}
    return {
        "number": [row.number for row, _ in own],
        "status": [row.status for row, _ in own],
        "reason": [why.reason for _, why in own],
        **seen,
    }


def _trial(row: Row) -> dict[str, Any]:
    return {
        "number": row.number,  # None: known before the study
        "status": row.status,
        "params": _exact(row.params),
        "value": row.value,
        "sem": row.sem,
        "count": row.count,
        "reason": row.decision and row.decision.reason,
        "sentence": str(row.decision or ""),
    }


def _calibration(rows: Sequence[Row]) -> dict[str, Any]:
    """How the results compare with what was predicted when they were asked for.

    z is (result - predicted mean) / (predicted sd, noise included): if the model is right, its mean
    is about 0, its sd about 1, and 95 % of it are within 1.96.
    """
    scored = [(row.number, score) for row in rows if (score := _surprise(row)) is not None]
    z = np.array([score for _, score in scored])
    return {
        "number": [number for number, _ in scored],
        "z": _numbers(z),
        "mean": _plain(z.mean()) if len(z) else None,
        "sd": _plain(z.std(ddof=1)) if len(z) > 1 else None,
        "inside": _plain(np.mean(np.abs(z) <= WITHIN_95)) if len(z) else None,
    }


def _surprise(row: Row) -> float | None:
    """The standardised residual of a result; None where nothing was predicted."""
    why = row.decision
    if row.value is None or why is None or why.mean is None or why.sd is None:
        return None
    one = why.noise_sd or 0.0
    noise = row.sem if row.sem is not None else one / math.sqrt(row.count or 1.0)
    spread = math.hypot(why.sd, noise)
    return (row.value - why.mean) / spread if spread > 0 else None


@dataclass(frozen=True, eq=False)
class _Known:
    """The posterior, and the points that results were told for, each once."""

    optimizer: Optimizer
    situation: Situation
    best: Best
    params: list[dict[str, Scalar]]  # of each point
    points: Array  # the same, encoded
    visits: list[tuple[Row, int]]  # each result, prior ones too, and its point

    @classmethod
    def of(cls, optimizer: Optimizer, rows: Sequence[Row]) -> _Known:
        told = [row for row in rows if row.value is not None]
        distinct = {repr(row.params): row.params for row in told}  # True and 1 are two choices
        index = {key: i for i, key in enumerate(distinct)}
        visits = [(row, index[repr(row.params)]) for row in told]
        params = list(distinct.values())
        points = np.array([optimizer.space.encode(each) for each in params])
        # Private, but the joint posterior is nowhere else: marginal sds cannot be summed.
        return cls(optimizer, optimizer._situation(), optimizer.best(), params, points, visits)

    @property
    def gp(self) -> Posterior:
        return self.situation.posterior

    @property
    def sign(self) -> float:
        return self.situation.sign

    @cached_property
    def here(self) -> Array:
        """The incumbent, encoded."""
        return self.optimizer.space.encode(self.best.params)

    @property
    def noise_sd(self) -> float | None:
        """Of one result; None where there is nothing yet to fit it to, and it is only assumed."""
        known = self.situation.fitted.ok
        return _plain(self.gp.noise_sd * self.situation.unit) if known else None

    def worth_exploring(self) -> float | None:
        """The share of the space that the policy's gate still lets pass; None without a gate."""
        gated = self.situation.policy.threshold(self.situation.inputs) is not None
        if not gated or not self.optimizer.remaining:
            return None
        space = self.optimizer.space
        draws = np.random.default_rng(0).random((SAMPLED_POINTS, space.dim))
        return float(self.situation.landscape(space.spread(draws)).feasible.mean())

    # -- what it has cost --------------------------------------------------------------------------

    def running(self) -> dict[str, Any]:
        """Sums over the trials told so far, each with its posterior sd.

        served  of f at the points that were tried: with a known optimum or baseline c, the regret
                or the gain is the difference to t c, and the sd stays
        regret  of what each trial lost against the incumbent of today
        gain    of what each trial gained over the first point, had it been kept

        They are estimates by the posterior of today, with the sd of the joint posterior: what is
        not known about a point is not known in the same way each time that it was tried. The
        incumbent, the visited point with the best posterior mean, stands for the optimum. What no
        visited point has reached is thus not counted, and the regret against the true optimum is
        larger; the mean of the best of several is also a little optimistic.
        """
        own = [(row, point) for row, point in self.visits if row.number is not None]
        if not own:
            return {"number": [], "value": []}
        tried = np.array([point for _, point in own])
        mu, _ = self.gp.predict(self.points)
        mean, rate = self.situation.user(mu), self.situation.user_sd(mu, np.ones(len(mu)))
        covariance = self.gp.covariance(self.points) * np.outer(rate, rate)
        best = int(np.flatnonzero((self.points == self.here).all(axis=1))[0])
        first = int(tried[0])
        against_best, against_first = _difference(covariance, best), _difference(covariance, first)
        return {
            "number": [row.number for row, _ in own],
            "value": _numbers(row.value for row, _ in own),
            "served": _running(mean, covariance, tried),
            "regret": _running(self.sign * (mean[best] - mean), against_best, tried),
            "gain": _running(self.sign * (mean - mean[first]), against_first, tried),
            "first": _plain(mean[first]),
        }

    # -- what each parameter does ------------------------------------------------------------------

    def slices(self) -> list[dict[str, Any]]:
        """The posterior along each parameter, the others as in the incumbent, with what was told.

        `near` is the prior correlation of a point with the slice, which it need not lie on.
        """
        belief = self.situation.belief
        told = [
            (_plain(self.sign * belief.sample_mean(x)), belief.times_told(x)) for x in self.points
        ]
        names = self.optimizer.space.parameters.items()
        return [self._slice(j, name, one, told) for j, (name, one) in enumerate(names)]

    def _slice(
        self, j: int, name: str, parameter: Parameter, told: list[tuple[float | None, int]]
    ) -> dict[str, Any]:
        line = _line(parameter)
        x = np.tile(self.here, (len(line), 1))
        x[:, j] = line
        mean, sd = self.situation.predict(x)
        onto = np.tile(self.here, (len(self.points), 1))
        onto[:, j] = self.points[:, j]
        near = np.diag(self.situation.fitted.hyper.kernel.gram(self.points, onto))
        return {
            "name": name,
            "kind": parameter.kind,
            "log": bool(getattr(parameter, "log", False)),
            "incumbent": self.best.params[name],
            "values": [parameter.decode(u) for u in line],
            "mean": _numbers(mean),
            "low": _numbers(mean - WITHIN_95 * sd),
            "high": _numbers(mean + WITHIN_95 * sd),
            "points": [
                {"x": params[name], "y": y, "count": count, "near": _plain(close)}
                for params, (y, count), close in zip(self.params, told, near, strict=True)
            ],
        }


def _line(parameter: Parameter) -> Array:
    """Coordinates along a parameter: all of its levels if they are few, or evenly spaced ones."""
    scale = parameter.scale
    if scale.count is not None and (scale.count <= SLICE_POINTS or parameter.kind == "categorical"):
        return np.asarray(scale.at(np.arange(scale.count)))
    return np.unique(scale.snap(np.linspace(0.0, 1.0, SLICE_POINTS)))


def _difference(covariance: Array, reference: int) -> Array:
    """The covariance of f(x) - f(x_reference) over the points."""
    row = covariance[reference]
    return np.asarray(covariance - row[:, None] - row[None, :] + row[reference])


def _running(mean: Array, covariance: Array, tried: Array) -> dict[str, Numbers]:
    """Mean and sd of the sum over the first t of the points `tried`, for each t."""
    so_far, variance = np.zeros(len(mean)), 0.0
    sd = np.empty(len(tried))
    for t, point in enumerate(tried):
        variance += covariance[point, point] + 2.0 * so_far[point]
        so_far += covariance[point]
        sd[t] = math.sqrt(max(0.0, variance))
    return {"mean": _numbers(np.cumsum(mean[tried])), "sd": _numbers(sd)}


# -- plain numbers -----------------------------------------------------------------------------


def _exact(params: dict[str, Scalar]) -> dict[str, Scalar]:
    """With integers as text that a browser would round: somebody is to try these very values."""
    return {
        name: str(value) if isinstance(value, int) and abs(value) > MAX_SAFE else value
        for name, value in params.items()
    }


def _plain(value: Any) -> Any:
    """A number that JSON can hold, None for one that it cannot; anything else as it is."""
    if isinstance(value, np.floating | float):
        return float(value) if math.isfinite(value) else None
    return value


def _numbers(values: Iterable[float | None] | Array) -> Numbers:
    return [_plain(value) for value in values]
