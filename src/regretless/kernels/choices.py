"""A kernel for choices without an order."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.errors import ConfigError
from regretless.kernels.base import Features, Kernel, Pullback, positive


@dataclass(frozen=True)
class Hamming(Kernel, json="Hamming"):
    """exp(-sum_k w_k [x_k != x'_k]) over categorical columns: unlike choices lose a factor each."""

    weights: tuple[float, ...]
    columns: tuple[int, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "weights", positive("weights", self.weights))
        object.__setattr__(self, "columns", tuple(self.columns))
        if len(self.columns) != len(self.weights):
            each = f"{self.weights} for {self.columns}"
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

    def features(self, rng: Generator, count: int) -> Features:
        """Per column a shared normal draw and one per choice: covariance a + (1 - a)[same]."""
        keys = [int(s) for s in rng.integers(2**63, size=len(self.columns))]
        shared = rng.standard_normal((len(self.columns), count))

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            phi = np.ones((len(x), count))
            for j, (column, w) in enumerate(zip(self.columns, self.weights, strict=True)):
                alike = np.exp(-w)
                for level in np.unique(x[:, column]):
                    own = _level_rng(keys[j], float(level)).standard_normal(count)
                    mixed = sqrt(alike) * shared[j] + sqrt(1.0 - alike) * own
                    phi[x[:, column] == level] *= mixed
            return phi, lambda weights: np.zeros_like(x)

        return evaluate


def _level_rng(key: int, level: float) -> Generator:
    """The same draws for the same level whenever it is met: a path is one fixed function."""
    bits = np.float64(level + 0.0).view(np.uint64)  # -0.0 and 0.0 are one level
    return np.random.default_rng([key, int(bits)])
