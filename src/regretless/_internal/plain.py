"""Plain values: numbers for JSON, which has neither NaN nor infinity, and copies of parameters."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, cast

import numpy as np

from regretless._internal.arrays import Array


def own(params: Mapping[str, Any]) -> dict[str, Any]:
    """A copy of parameters, also of lists and dicts in them, which a user might change."""
    return {k: deepcopy(v) if isinstance(v, list | dict) else v for k, v in params.items()}


def json_number(value: float | None) -> float | None:
    """The number as a Python float; None if it is missing, NaN or infinite."""
    return float(value) if value is not None and math.isfinite(value) else None


def json_numbers(values: Iterable[float | None] | Array) -> list[float | None]:
    """`json_number` of each value."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64 and np.isfinite(values).all():
        return cast(list[float | None], values.tolist())  # a study may have thousands
    return [json_number(value) for value in values]
