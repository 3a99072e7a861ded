"""The array type of the library: numpy arrays of doubles."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rows_among(points: Array, among: Array) -> NDArray[np.intp]:
    """For each row of `points`, the first equal row of `among`; -1 if there is none."""
    rows: dict[bytes, int] = {}
    for row, x in enumerate(among + 0.0):  # + 0.0 turns -0.0 into 0.0
        rows.setdefault(x.tobytes(), row)
    return np.array([rows.get(x.tobytes(), -1) for x in points + 0.0], dtype=np.intp)
