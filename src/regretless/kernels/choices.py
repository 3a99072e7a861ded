"""The Hamming kernel, for categorical parameters: choices without an order."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive


@dataclass(frozen=True)
class Hamming(Kernel, json="Hamming"):
    """k(x, x') = exp(-sum_k w_k [x_k != x'_k]), for choices without an order.

    Each column in which two points have different choices multiplies their covariance by exp(-w_k).

    Args:
        weights: w_k > 0, one for each column.
        columns: the columns of the encoded points that hold choices.

    Raises:
        ConfigError: a weight is not positive, or there are not as many weights as columns.

    Example:
        >>> import numpy as np
        >>> kernel = Hamming(weights=(1.0,), columns=(0,))
        >>> kernel.gram(np.array([[0.25], [0.75]])).round(4).tolist()
        [[1.0, 0.3679], [0.3679, 1.0]]
    """

    weights: tuple[float, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", positive("weights", self.weights))
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(self.columns) != len(self.weights):
            each = f"{shown(self.weights)} for {shown(self.columns)}"
            raise ConfigError(f"weights: need one per column, got {each}")

    @property
    def theta(self) -> Array:
        return np.log(self.weights)

    def with_theta(self, theta: Array) -> Hamming:
        return Hamming(tuple(np.exp(theta).tolist()), self.columns)

    def _differs(self, x: Array, z: Array) -> list[Array]:
        return [(x[:, c, None] != z[None, :, c]).astype(float) for c in self.columns]

    def gram(self, x: Array, z: Array | None = None) -> Array:
        total = np.zeros((len(x), len(x if z is None else z)))
        for w, differs in zip(self.weights, self._differs(x, x if z is None else z), strict=True):
            total += w * differs
        return np.asarray(np.exp(-total))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k = self.gram(x)

        def pullback(weights: Array) -> Array:
            g = weights * k
            each = zip(self.weights, self._differs(x, x), strict=True)
            return np.array([-w * float(np.vdot(g, differs)) for w, differs in each])

        return k, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        return self.gram(x, z), lambda weights: np.zeros_like(x)

    def _present(self, x: Array, column: int) -> NDArray[np.bool_] | None:
        """For each row of x, whether it has a choice in this column; None if all have."""
        return None

    def features(self, rng: Generator, count: int) -> Features:
        """Random functions of the choices, see `Kernel.features`.

        Each column mixes one normal draw that all choices share and one of each choice.  Their
        covariance is a + (1 - a)[x_k = x'_k], with a = exp(-w_k).
        """
        keys = [int(s) for s in rng.integers(2**63, size=len(self.columns))]
        shared = rng.standard_normal((len(self.columns), count))

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            phi = np.ones((len(x), count))
            for j, (column, w) in enumerate(zip(self.columns, self.weights, strict=True)):
                alike = np.exp(-w)
                present = self._present(x, column)
                here = x if present is None else x[present]
                for level in np.unique(here[:, column]):
                    own = _level_rng(keys[j], float(level)).standard_normal(count)
                    mixed = sqrt(alike) * shared[j] + sqrt(1.0 - alike) * own
                    rows = x[:, column] == level
                    phi[rows if present is None else rows & present] *= mixed
                if present is not None:
                    phi[~present] *= shared[j]
            return phi, lambda weights: np.zeros_like(x)

        return evaluate


def _level_rng(key: int, level: float) -> Generator:
    """A generator that depends on key and level only, so that a feature is a fixed function."""
    bits = np.float64(level + 0.0).view(np.uint64)  # + 0.0 turns -0.0 into 0.0
    return np.random.default_rng([key, int(bits)])
