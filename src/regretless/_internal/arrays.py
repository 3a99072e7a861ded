"""The array type of the library: numpy arrays of doubles."""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


def rows_among(points: Array, among: Array) -> NDArray[np.intp]:
    """For each row of `points`, the first equal row of `among`; -1 if there is none."""
    rows: dict[bytes, int] = {}
    for row, x in enumerate(among + 0.0):  # + 0.0 turns -0.0 into 0.0
        rows.setdefault(x.tobytes(), row)
    return np.array([rows.get(x.tobytes(), -1) for x in points + 0.0], dtype=np.intp)


@cache
def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next arrays.  Only the first call does anything.

    glibc returns freed memory to the system, and each page that it gets back costs time: half of
    the time of a fit to 400 points.  Once a block of nearly 32 MB was freed, glibc gives blocks of
    this size from memory that it has kept, and keeps up to twice as much (see M_MMAP_THRESHOLD in
    `man mallopt`).  The block itself is never touched, so it takes no memory.  Other C libraries
    do nothing.
    """
    np.empty(31 * 2**20, dtype=np.uint8)
