"""The hyper-parameters of a Gaussian process."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from regretless._internal.arrays import Array
from regretless.kernels import Kernel
from regretless.model.data import MAX_NOISE, Data


@dataclass(frozen=True)
class Hyper:
    """The hyper-parameters of a Gaussian process."""

    kernel: Kernel
    lam2: float  # lam^2, the noise variance divided by the signal variance
    omega2: float  # omega^2, the signal variance
    # None: the mean is zero, as in the paper.  A number p: the mean is a fitted constant with the
    # prior N(0, omega^2 / p).  0: a fitted constant without a prior (generalised least squares).
    mean_precision: float | None = None

    def noise(self, data: Data) -> Array:
        """The noise variance of each row of the data, in units of omega^2."""
        return np.minimum(
            np.where(data.known, 1.0 / self.omega2, self.lam2) / data.weight, MAX_NOISE
        )
