"""Outcomes as the model sees them: of unit spread, and drawn in where they are worse than usual.

How bad the bad ones are matters little, but one of them can spoil a model: a training that
diverges, a day with an outage.  So what lies below the usual outcome, `knee`, counts by its
logarithm,
    knee - width log(1 + (knee - y) / width):
as it is near the knee, and less the further away.  Above it nothing changes.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Any

import numpy as np
import numpy.typing as npt

from noregret.checks import LEAST_SCALE
from noregret.gp import Data
from noregret.numerics import Array

_DEEPEST = 300.0  # exponents that are believed on the way back


@dataclass(frozen=True)
class Scaling:
    """(bent(y) - shift) / scale, and back; y is larger where it is better."""

    shift: float = 0.0
    scale: float = 1.0
    knee: float = -inf
    width: float = inf

    @classmethod
    def of(cls, y: Array, points: Array, start: int, *, centred: bool, bent: bool) -> Scaling:
        """For observations y, and the means at distinct points in the order that they were met.

        The usual outcome is the median of the first `start` points, which were chosen blindly; the
        best beyond it tells how far away is far.  Not less than half of the range between the
        quartiles of all, though: the first ones may be prior data, and alike.
        """
        bend = cls()
        if bent and len(points) >= start:
            knee = float(np.median(points[:start]))
            low, high = np.percentile(points, [25, 75])
            width = max(float(points.max()) - knee, 0.5 * float(high - low))
            if _counts(width, points):
                bend = cls(knee=knee, width=width)
        y = bend.bend(y)
        shift = float(y.mean()) if centred else 0.0
        scale = float(np.sqrt(np.mean((y - shift) ** 2)))
        if not _counts(scale, y):
            scale = float(np.abs(y).max())
        return replace(bend, shift=shift, scale=scale if scale > LEAST_SCALE else 1.0)

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Scaling:
        names = ("shift", "scale", "knee", "width")
        return cls(**{name: float(data[name]) for name in names if name in data})

    def to_json(self) -> dict[str, float]:
        """Without the knee where there is none: JSON knows no infinity."""
        return {name: value for name, value in vars(self).items() if isfinite(value)}

    def bend(self, y: npt.ArrayLike) -> Array:
        below = np.maximum(self.knee - np.asarray(y, dtype=float), 0.0)
        if not below.any():
            return np.asarray(y, dtype=float)
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

    def data(self, data: Data) -> Data:
        """The same observations, row by row; those at one point are taken for alike."""
        slope = 1.0 / Scaling(0.0, 1.0, self.knee, self.width).rate(self.bend(data.y))
        weight = np.where(data.known, data.weight / slope**2, data.weight)
        bent = replace(data, y=self.bend(data.y), weight=weight)
        return bent.standardised(self.shift, self.scale)

    def _depth(self, bent: Array) -> Array:
        """How many widths below the knee."""
        if not isfinite(self.knee):
            return np.zeros_like(bent)
        return np.clip((self.knee - bent) / self.width, 0.0, _DEEPEST)


def _counts(size: float, y: Array) -> bool:
    """Whether a spread is more than rounding."""
    return size > max(1e-12 * float(np.abs(y).max()), LEAST_SCALE)
