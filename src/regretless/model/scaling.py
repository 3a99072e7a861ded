"""Scale outcomes for the model: unit spread, and disasters by their logarithm.

A disaster is an outcome far below the usual one, such as a training that diverges or a day with an
outage.  How bad it is matters little, but a single one can spoil the fit of a model.  So an outcome
y below `knee` is replaced by
    knee - width log(1 + (knee - y) / width).
This is close to y near the knee, and changes less and less further away.  High outcomes are not
changed, because the height of a good point matters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import inf, isfinite, log
from typing import Any

import numpy as np
import numpy.typing as npt

from regretless._internal.arrays import Array
from regretless._internal.validate import LEAST_SCALE
from regretless.defaults import TailRules

_DEEPEST = 300.0  # largest exponent in the inverse, so that it does not overflow


@dataclass(frozen=True)
class Scaling:
    """The map y -> (bend(y) - shift) / scale and its inverse, for outcomes y to be maximised.

    `bend` replaces outcomes below `knee` by their logarithm, see the module.
    """

    shift: float = 0.0
    scale: float = 1.0
    knee: float = -inf
    width: float = inf

    @classmethod
    def of(cls, y: Array, *, centred: bool) -> Scaling:
        """The scaling that gives the outcomes y unit spread, without a knee.

        Args:
            y: the outcomes.
            centred: whether to shift their mean to 0.
        """
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
        """The scaling that gives the outcomes y unit spread, with disasters by their logarithm.

        The usual outcome is the median of the first outcomes, or of their lower half if most of
        the first points were chosen to be good ones.  An outcome is a disaster if it is below the
        usual one by more than `rules.far` widths.  The width is the larger one of two numbers: the
        distance from the usual outcome to `best`, and the sd of the first outcomes.  This sd is
        estimated from the median absolute deviation, which a disaster hardly changes.

        Args:
            y: all outcomes.
            start: the first outcomes.
            best: the largest mean of the outcomes of one point.
            centred: whether to shift the mean to 0.
            rules: the constants.

        Returns:
            A scaling without a knee if there are too few first outcomes, or if they have no spread.
        """
        if len(start) >= rules.least_results:
            # The lower half of fewer than five would be a disaster and its neighbour.
            half = rules.lower_half and len(start) >= 5
            low = np.sort(start)[: (len(start) + 1) // 2] if half else start
            usual = float(np.median(low))
            middle = float(np.median(np.abs(start - usual)))
            width = max(best - usual, rules.median_to_sd * middle)
            if _counts(width, max(abs(usual), abs(best))):
                return cls(knee=usual - rules.far * width, width=width)._spread(y, centred)
        return cls.of(y, centred=centred)

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Scaling:
        """The scaling that `to_json` wrote."""
        knee = {name: float(data[name]) for name in ("knee", "width")} if "knee" in data else {}
        return cls(float(data["shift"]), float(data["scale"]), **knee)

    def reaching(self, levels: Sequence[float]) -> Scaling:
        """The scaling in which none of these levels is further than one unit from the centre."""
        away = [abs(float(self.bend(level)) - self.shift) for level in levels]
        return replace(self, scale=max(self.scale, *away)) if away else self

    def to_json(self) -> dict[str, float]:
        """The numbers as JSON.  Infinite ones are left out, because JSON has no infinity."""
        return {name: value for name, value in vars(self).items() if isfinite(value)}

    @property
    def is_linear(self) -> bool:
        """Whether no outcome is replaced by its logarithm."""
        return not isfinite(self.knee)

    def bend(self, y: npt.ArrayLike) -> Array:
        """The outcomes, with those below the knee replaced by their logarithm."""
        y = np.asarray(y, dtype=float)
        below = np.maximum(self.knee - y, 0.0)
        if not below.any():
            return y
        # log1p(below / width) would overflow in the ratio.
        drawn = self.width * (np.log(self.width + below) - log(self.width))
        return np.where(below > 0.0, self.knee - drawn, y)

    def to_model(self, y: npt.ArrayLike) -> Array:
        """Outcomes in the units of the model."""
        return (self.bend(y) - self.shift) / self.scale

    def to_user(self, u: npt.ArrayLike) -> Array:
        """Outcomes from the units of the model; the inverse of `to_model`."""
        bent = np.asarray(u) * self.scale + self.shift
        depth = self._depth(bent)
        if not depth.any():
            return bent
        return np.where(depth > 0.0, self.knee - self.width * np.expm1(depth), bent)

    def rate(self, u: npt.ArrayLike) -> Array:
        """The derivative of `to_user` at u."""
        return self.scale * np.exp(self._depth(np.asarray(u) * self.scale + self.shift))

    def _spread(self, y: Array, centred: bool) -> Scaling:
        y = self.bend(y)
        shift = float(y.mean()) if centred else 0.0
        scale, largest = float(np.sqrt(np.mean((y - shift) ** 2))), float(np.abs(y).max())
        if not _counts(scale, largest):
            scale = largest
        return replace(self, shift=shift, scale=scale if scale > LEAST_SCALE else 1.0)

    def _depth(self, bent: Array) -> Array:
        """The distance below the knee, in widths; 0 above it."""
        if not isfinite(self.knee):
            return np.zeros_like(bent)
        return np.clip((self.knee - bent) / self.width, 0.0, _DEEPEST)


def _counts(size: float, largest: float) -> bool:
    """Whether a spread of numbers is larger than their rounding errors."""
    return size > max(1e-12 * largest, LEAST_SCALE)
