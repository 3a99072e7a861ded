"""What a GP is given besides data."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regretless._internal.arrays import Array
from regretless.kernels import Kernel
from regretless.model.data import MAX_NOISE, Data


@dataclass(frozen=True)
class Hyper:
    """What a GP is given besides data: kernel, noise ratio lam^2, signal omega^2, the mean's rule.

    `mean_precision` None is the paper's zero mean; a number fits a constant, with a normal prior of
    variance omega^2 / mean_precision around 0 (0: no prior, generalised least squares).
    """

    kernel: Kernel
    lam2: float
    omega2: float
    mean_precision: float | None = None

    def noise(self, data: Data) -> Array:
        """The diagonal that noise adds, in units of omega^2."""
        return np.minimum(
            np.where(data.known, 1.0 / self.omega2, self.lam2) / data.weight, MAX_NOISE
        )
