"""Small steps: how far a trial may be from the setting that runs."""

from __future__ import annotations

from collections.abc import Mapping
from math import floor

import numpy as np

from regretless._internal.arrays import Array
from regretless.safety import Step
from regretless.search import Box
from regretless.space import Levels, Line, Parameter, Space

_ROUNDING = 1e-9  # of a level: 0.3 / 0.1 is a little less than 3


def reach(space: Space, steps: Mapping[str, Step], running: Array) -> Box:
    """The part of the space that one step leads to.

    Args:
        space: the whole space.
        steps: for each parameter, a share of its range or {"by": an absolute change}.
        running: the encoded setting that runs.
    """
    low, high, active = np.zeros(space.dim), np.ones(space.dim), space.decode(running)
    for j, (name, parameter) in enumerate(space.parameters.items()):
        if name in steps and name in active and parameter.has_order:
            low[j], high[j] = _around(parameter, float(running[j]), steps[name])
    return Box(space, low, high)


def _around(parameter: Parameter, u: float, step: Step) -> tuple[float, float]:
    """The smallest and the largest coordinate that a step from u leads to."""
    if isinstance(parameter.scale, Line):
        return _along_line(parameter.scale, u, step)
    return _along_levels(parameter, parameter.scale, u, step)


def _along_line(scale: Line, u: float, step: Step) -> tuple[float, float]:
    cells = scale.cells
    if isinstance(step, Mapping):
        value, by = scale.to_value(u), step["by"]
        low, high = (
            scale.to_unit(max(value - by, scale.low)),
            scale.to_unit(min(value + by, scale.high)),
        )
        # The coordinates were rounded, perhaps away from u.
        low += (scale.to_value(low) < value - by) / cells
        high -= (scale.to_value(high) > value + by) / cells
    else:
        # To the nearest cell, so that ten steps of 0.1 lead from one end to the other.
        low, high = round((u - step) * cells) / cells, round((u + step) * cells) / cells
    return min(max(low, 0.0), u), max(min(high, 1.0), u)


def _along_levels(parameter: Parameter, scale: Levels, u: float, step: Step) -> tuple[float, float]:
    """As many levels as the step allows, and at least one in each direction."""
    here = scale.nearest(np.asarray(u)).item()
    if isinstance(step, Mapping):
        unit = getattr(parameter, "step", None) or 1.0  # the values of an Int differ by 1
        count = floor(step["by"] / unit + _ROUNDING)
        first, last = here - count, here + count
    else:
        ends = np.clip(np.array([u - step, u + step]), 0.0, 1.0)
        first, last = scale.nearest(ends).tolist()
        places = scale.at(np.array([first, last]))
        first += bool(places[0] < u - step - _ROUNDING)
        last -= bool(places[1] > u + step + _ROUNDING)
    first, last = max(0, min(first, here - 1)), min(scale.count - 1, max(last, here + 1))
    low, high = scale.at(np.array([first, last])).tolist()
    return low, high
