"""How a framework's trials ended, told to an optimiser: also those that came to no good end."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from regretless._internal.validate import LARGEST
from regretless.engine import Abandoned, Asked, Extended, Optimizer
from regretless.model import Scaling
from regretless.results import Trial
from regretless.space import Scalar


class _Ending(NamedTuple):
    """Where a trial was and what it returned, perhaps infinity; None: it failed."""

    number: int | None  # None: known before
    point: dict[str, Scalar]
    place: bytes
    value: float | None

    @property
    def is_measured(self) -> bool:
        return self.value is not None and math.isfinite(self.value)


class _Result(NamedTuple):
    value: float
    sem: float | None = None


class _StandIns(NamedTuple):
    """What is told where nothing was measured: the worst or the best so far, give or take `sem`.

    Nobody knows how bad a failure is, nor whether it would happen again.  So its standard error is
    the spread of the results: one failure among good results counts for little, several in a corner
    keep the search away from it.
    """

    worst: float
    best: float
    sem: float

    @classmethod
    def of(cls, values: list[float], sign: float) -> _StandIns:
        y = sign * np.array(values)
        worst, best = float(y.min()), float(y.max())
        spread = Scaling.with_knee(y, y, best, centred=True).scale  # disasters drawn in
        if worst == best:  # a failure is worse than the only result
            worst = max(worst - spread, -LARGEST)
        return cls(sign * worst, sign * best, spread)

    def hardly_differ_from(self, others: _StandIns | None) -> bool:
        return others is not None and self[:2] == others[:2] and 0.5 <= self.sem / others.sem <= 2


class Endings:
    """Tells an optimiser how trials ended, once it is asked for.

    A trial that failed where one has worked, before or since, was bad luck, and is forgotten.  One
    that failed where none has counts as a bad result, with little weight: were it forgotten, too,
    the same point would be suggested for ever.  Infinite values count as the worst, or best, so
    far.  What that is changes as results come in, and then a fresh optimiser is told everything.
    """

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._sign = 1.0 if optimizer.direction == "maximize" else -1.0
        self._new: list[_Ending] = []
        self._all: dict[int, _Ending] = {}  # by trial, below zero what was known before
        self._values: list[float] = []
        self._worked: set[bytes] = set()  # places
        self._stand_ins: _StandIns | None = None
        self._told_for: dict[int, _Result | None] = {}  # what stands in for a result

    def add(
        self, point: Mapping[str, Scalar], value: float | None, trial: Trial | None = None
    ) -> None:
        """A trial ended at this point; None and NaN: it failed.  Without `trial` it costs nothing.

        One that failed may run again, and its result then takes the failure's place.
        """
        number = None if trial is None else trial.number
        place = self._optimizer.space.encode(point).tobytes()
        self._new.append(_Ending(number, dict(point), place, _comparable(value)))

    @property
    def optimizer(self) -> Optimizer:
        """Which knows of all endings; another one than before if some look different now."""
        if self._new:
            self._settle()
        return self._optimizer

    def measured(self) -> Optimizer:
        """A copy that knows of the results alone, not of what stands in for them."""
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
            now = _StandIns.of(self._values, self._sign)
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
                continue  # it failed again, and counts as it did
            self._all[key] = ending
            added.append(key)
            if ending.value is not None and ending.is_measured:
                self._values.append(ending.value)
                self._worked.add(ending.place)
        return added

    def _retold(self, endings: Iterable[_Ending]) -> Optimizer:
        """One that was asked the same, but is told these endings, and has fitted nothing yet."""
        before = self._optimizer
        optimizer = Optimizer.from_spec(before.spec(), policy=before.policy)
        for event in before.events:
            if isinstance(event, Asked):
                optimizer.apply(replace(event, fit=None))
            elif isinstance(event, Extended | Abandoned):
                optimizer.apply(event)
        for ending in endings:
            self._tell(optimizer, ending)
        return optimizer

    def _tell(self, optimizer: Optimizer, ending: _Ending) -> None:
        result = self._result(ending)
        if result is not None and ending.number is not None:
            optimizer.tell(ending.number, result.value, sem=result.sem)
        elif result is not None:
            optimizer.observe(ending.point, result.value, sem=result.sem)
        elif ending.number is not None:
            optimizer.abandon(ending.number)

    def _result(self, ending: _Ending) -> _Result | None:
        """What to tell for it; None: nothing."""
        value, stand_ins = ending.value, self._stand_ins
        if value is not None and ending.is_measured:
            return _Result(value)
        if stand_ins is None or (value is None and ending.place in self._worked):
            return None
        good = value is not None and self._sign * value > 0
        return _Result(stand_ins.best if good else stand_ins.worst, stand_ins.sem)


def _comparable(value: float | None) -> float | None:
    """With None for NaN, and infinity for what can't be computed with."""
    if value is None or math.isnan(value):
        return None
    return value if abs(value) <= LARGEST else math.copysign(math.inf, value)
