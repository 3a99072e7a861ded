"""Outcomes as the model sees them: of unit spread, and with disasters drawn in.

How bad a disaster is matters little, but one can spoil a model: a training that diverges, a day
with an outage.  So what lies far below the usual outcome, below `knee`, counts by its logarithm,
    knee - width log(1 + (knee - y) / width):
as it is near the knee, and less the further away.  Above it nothing changes: as deep as valleys are
hills may be high, and a model must know.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Any

import numpy as np
import numpy.typing as npt

from regretless._internal.arrays import Array
from regretless._internal.validate import LEAST_SCALE
from regretless.defaults import TailRules

_DEEPEST = 300.0  # exponents that are believed on the way back


@dataclass(frozen=True)
class Scaling:
    """(bent(y) - shift) / scale, and back; y is larger where it is better."""

    shift: float = 0.0
    scale: float = 1.0
    knee: float = -inf
    width: float = inf

    @classmethod
    def of(cls, y: Array, *, centred: bool) -> Scaling:
        """What gives these outcomes unit spread."""
        return cls()._spread(y, centred)

    @classmethod
    def with_knee(
        cls,
        y: Array,
        start: Array,
        best: float,
        *,
        centred: bool,
        rules: TailRules,
    ) -> Scaling:
        """The same, with disasters drawn in, by what the points of the start showed.

        Nothing that was told led to these points, so their median is the usual outcome.  An outcome
        counts as a disaster if it is below the median by `rules.far` times the width: the distance
        from the median up to the `best` mean of a point, or the sd of the start's results if that
        is more.  The sd is taken from the median distance, in which a disaster does not count.
        """
        if len(start) >= rules.least_results:
            usual = float(np.median(start))
            middle = float(np.median(np.abs(start - usual)))
            width = max(best - usual, rules.median_to_sd * middle)
            if _counts(width, max(abs(usual), abs(best))):
                return cls(knee=usual - rules.far * width, width=width)._spread(y, centred)
        return cls.of(y, centred=centred)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scaling:
        knee = {name: float(data[name]) for name in ("knee", "width")} if "knee" in data else {}
        return cls(float(data["shift"]), float(data["scale"]), **knee)

    def to_json(self) -> dict[str, float]:
        """Without the knee where there is none: JSON knows no infinity."""
        return {name: value for name, value in vars(self).items() if isfinite(value)}

    def bend(self, y: npt.ArrayLike) -> Array:
        y = np.asarray(y, dtype=float)
        below = np.maximum(self.knee - y, 0.0)
        if not below.any():
            return y
        # Not log1p of a ratio, which may overflow.
        drawn = self.width * (np.log(self.width + below) - log(self.width))
        return np.where(below > 0.0, self.knee - drawn, y)

    def to_model(self, y: npt.ArrayLike) -> Array:
        return (self.bend(y) - self.shift) / self.scale

    def to_user(self, u: npt.ArrayLike) -> Array:
        bent = np.asarray(u) * self.scale + self.shift
        depth = self._depth(bent)
        if not depth.any():
            return bent
        return np.where(depth > 0.0, self.knee - self.width * np.expm1(depth), bent)

    def rate(self, u: npt.ArrayLike) -> Array:
        """How much an outcome changes where its model's value u does."""
        return self.scale * np.exp(self._depth(np.asarray(u) * self.scale + self.shift))

    def _spread(self, y: Array, centred: bool) -> Scaling:
        y = self.bend(y)
        shift = float(y.mean()) if centred else 0.0
        scale, largest = float(np.sqrt(np.mean((y - shift) ** 2))), float(np.abs(y).max())
        if not _counts(scale, largest):
            scale = largest
        return replace(self, shift=shift, scale=scale if scale > LEAST_SCALE else 1.0)

    def _depth(self, bent: Array) -> Array:
        """How many widths below the knee."""
        if not isfinite(self.knee):
            return np.zeros_like(bent)
        return np.clip((self.knee - bent) / self.width, 0.0, _DEEPEST)


def _counts(size: float, largest: float) -> bool:
    """Whether a spread of numbers is more than rounding."""
    return size > max(1e-12 * largest, LEAST_SCALE)
