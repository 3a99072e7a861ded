"""Numbers for JSON, which knows neither NaN nor infinity."""

from __future__ import annotations

import math
from collections.abc import Iterable

from regretless._internal.arrays import Array


def json_number(value: float | None) -> float | None:
    """The number as Python's own float; None if it is missing, NaN or infinite."""
    return float(value) if value is not None and math.isfinite(value) else None


def json_numbers(values: Iterable[float | None] | Array) -> list[float | None]:
    """Each of the values as `json_number` writes it."""
    return [json_number(value) for value in values]
