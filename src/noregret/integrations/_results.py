"""What a trial is worth that came to no good end."""

from __future__ import annotations

import math
from collections.abc import Mapping
from statistics import median

from noregret.space import Scalar

_HUGE = 1e100  # values beyond can't be computed with


class Results:
    """The values so far, and what to make of a trial that failed or came back with infinity.

    An infinite value counts as the worst (or best) one so far.  A trial that failed where another
    one has worked was bad luck, and is forgotten.  One that failed where nothing is known counts as
    a middling result: were it forgotten, too, the same point would be suggested for ever.
    """

    def __init__(self) -> None:
        self._values: list[float] = []
        self._worked: set[tuple[Scalar, ...]] = set()

    def value_of(self, point: Mapping[str, Scalar], raw: float | None) -> float | None:
        """What to tell for a trial at this point that returned `raw`, or failed (None, NaN)."""
        place, failed = tuple(point.values()), raw is None or math.isnan(raw)
        if raw is not None and abs(raw) < _HUGE:
            self._values.append(raw)
            self._worked.add(place)
            return raw
        if not self._values or (failed and place in self._worked):
            return None
        if raw is None or failed:
            return median(self._values)
        return min(max(raw, min(self._values)), max(self._values))
