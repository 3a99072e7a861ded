"""Tells an optimiser how the trials of a framework ended.

A trial may have returned a value, NaN or infinity, or may have failed.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regretless._internal.validate import MAX_RESULT
from regretless.defaults import TailRules
from regretless.engine import Abandoned, Asked, Extended, Optimizer
from regretless.model import Scaling
from regretless.results import Trial
from regretless.space import Scalar


class _Ending(NamedTuple):
    """The point of a trial and the value that it returned."""

    number: int | None  # None for a result from before the run
    point: dict[str, Scalar]
    place: bytes  # the encoded point, to compare points by
    value: float | None  # perhaps infinity; None if the trial failed
    metrics: dict[str, float] | None = None  # what else was measured

    @property
    def is_measured(self) -> bool:
        return self.value is not None and math.isfinite(self.value)


class _Result(NamedTuple):
    value: float
    sem: float | None = None


class _StandIns(NamedTuple):
    """The values that are told where nothing was measured: the worst or the best result so far.

    How bad a failure is, and whether it would happen again, is not known.  So its standard error
    `sem` is the spread of the results: one failure among good results counts for little, and
    several close together keep the search away from there.
    """

    worst: float
    best: float
    sem: float

    @classmethod
    def of(cls, values: list[float], sign: float, tail: TailRules) -> _StandIns:
        y = sign * np.array(values)
        worst, best = float(y.min()), float(y.max())
        # Very bad results count by their logarithm.
        first = y[: tail.first_results]
        spread = Scaling.with_knee(y, first, best, centred=True, rules=tail).scale
        if worst == best:  # with one result, a failure must count as worse than it
            worst = max(worst - spread, -MAX_RESULT)
        return cls(sign * worst, sign * best, spread)

    def hardly_differ_from(self, others: _StandIns | None) -> bool:
        return others is not None and self[:2] == others[:2] and 0.5 <= self.sem / others.sem <= 2


class Endings:
    """Collects how trials ended, and tells an optimiser when `optimizer` is read.

    A failed trial is ignored if another trial at the same point worked, before or after it.
    Otherwise it counts as a bad result with little weight: if it were ignored, too, the same point
    would be suggested for ever.  Infinite values count as the worst, or best, result so far.  As
    results come in, the worst and the best change; then a fresh optimiser is told everything.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._sign = optimizer.sign
        self._new: list[_Ending] = []
        self._all: dict[int, _Ending] = {}  # by number; prior results have numbers below zero
        self._values: list[float] = []
        self._worked: set[bytes] = set()  # places where a trial returned a finite value
        self._stand_ins: _StandIns | None = None
        self._told_for: dict[int, _Result | None] = {}  # what was told for unmeasured trials

    def add(
        self,
        point: Mapping[str, Scalar],
        value: float | None,
        trial: Trial | None = None,
        metrics: Mapping[str, float] | None = None,
    ) -> None:
        """Note that a trial ended at this point.

        A trial that failed may run again; its result then replaces the failure.

        Args:
            point: the parameters of the trial.
            value: what it returned; None or NaN if it failed.
            trial: the optimiser's trial; None for a result from before the run.
            metrics: what else was measured, by name.  Numbers that are not finite are left out.
        """
        finite = {name: y for name, y in (metrics or {}).items() if abs(y) <= MAX_RESULT}
        number = None if trial is None else trial.number
        place = self._optimizer.space.encode(point).tobytes()
        ending = _Ending(number, dict(point), place, _comparable(value), finite or None)
        self._new.append(ending)

    @property
    def optimizer(self) -> Optimizer:
        """The optimiser, told of all endings; a new object if what was told before has changed."""
        if self._new:
            self._settle()
        return self._optimizer

    def measured(self) -> Optimizer:
        """A copy of the optimiser that was told measured results only."""
        optimizer = self.optimizer
        if not any(self._told_for.values()):
            return optimizer.copy()
        return self._retold(ending for ending in self._all.values() if ending.is_measured)

    def _settle(self) -> None:
        added = self._note_new()
        unmeasured = self._told_for.keys() | {
            key for key in added if not self._all[key].is_measured
        }
        if unmeasured and self._values:
            now = _StandIns.of(self._values, self._sign, self._optimizer.defaults.tail)
            if not now.hardly_differ_from(self._stand_ins):
                self._stand_ins = now
        changed = any(self._result(self._all[key]) != told for key, told in self._told_for.items())
        if changed:
            self._optimizer = self._retold(self._all.values())
        else:
            for key in added:
                self._tell(self._optimizer, self._all[key])
        self._told_for = {
            key: self._result(ending)
            for key in unmeasured
            if not (ending := self._all[key]).is_measured
        }

    def _note_new(self) -> list[int]:
        new, self._new = self._new, []
        added = []
        for ending in new:
            key = -1 - len(self._all) if ending.number is None else ending.number
            if ending.value is None and key in self._all:
                continue  # a second failure changes nothing
            self._all[key] = ending
            added.append(key)
            if ending.value is not None and ending.is_measured:
                self._values.append(ending.value)
                self._worked.add(ending.place)
        return added

    def _retold(self, endings: Iterable[_Ending]) -> Optimizer:
        """A new optimiser with the same trials that is told these endings; it has no fit yet."""
        before = self._optimizer
        optimizer = Optimizer.from_spec(before.spec(), policy=before.policy)
        for event in before.events:
            if isinstance(event, Asked):
                optimizer.apply(replace(event, fit=None, metric_fits={}))
            elif isinstance(event, Extended | Abandoned):
                optimizer.apply(event)
        for ending in endings:
            self._tell(optimizer, ending)
        return optimizer

    def _tell(self, optimizer: Optimizer, ending: _Ending) -> None:
        result = self._result(ending)
        if result is not None and ending.number is not None:
            optimizer.tell(ending.number, result.value, sem=result.sem, metrics=ending.metrics)
        elif result is not None:
            optimizer.observe(ending.point, result.value, sem=result.sem, metrics=ending.metrics)
        elif ending.metrics is not None and ending.number is not None:
            optimizer.tell(ending.number, None, metrics=ending.metrics)
        elif ending.number is not None:
            optimizer.abandon(ending.number)

    def _result(self, ending: _Ending) -> _Result | None:
        """What to tell for an ending; None if nothing is to be told."""
        value, stand_ins = ending.value, self._stand_ins
        if value is not None and ending.is_measured:
            return _Result(value)
        if stand_ins is None or (value is None and ending.place in self._worked):
            return None
        good = value is not None and self._sign * value > 0
        return _Result(stand_ins.best if good else stand_ins.worst, stand_ins.sem)


def _comparable(value: float | None) -> float | None:
    """None for NaN, infinity for a number that is too large, any other value unchanged."""
    if value is None or math.isnan(value):
        return None
    return value if abs(value) <= MAX_RESULT else math.copysign(math.inf, value)
