"""Convert numbers for JSON, which has neither NaN nor infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import cast

import numpy as np

from regretless._internal.arrays import Array


def json_number(value: float | None) -> float | None:
    """The number as a Python float; None if it is missing, NaN or infinite."""
    return float(value) if value is not None and math.isfinite(value) else None


def json_numbers(values: Iterable[float | None] | Array) -> list[float | None]:
    """`json_number` of each value."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and np.isfinite(values).all():
        return cast(list[float | None], values.tolist())  # a study may have thousands
    return [json_number(value) for value in values]
