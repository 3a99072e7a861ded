"""Covariance kernels on the encoded unit cube, all with k(x, x) = 1.

A kernel is frozen; its parameters are read as the vector `theta` of their logarithms and changed
with `with_theta`.  Derivatives come as pull-backs, so that no dense (n, n, p) array ever exists:
`gram_vjp(X)` returns K and a function W -> sum_ij W_ij dK_ij/dtheta, `cross_vjp(X, Z)` returns
K(X, Z) and a function A -> sum_j A_qj dk(x_q, z_j)/dx_q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from math import isfinite
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError

Pullback = Callable[[Array], Array]
Features = Callable[[Array], tuple[Array, Pullback]]


class Kernel(ABC):
    """A positive definite function with unit variance.

    To write one: give the abstract methods, and `priors` if the kernel has parameters other than
    weights.  `class Mine(Kernel, json="mine")` can also be stored: its dataclass fields are written
    under that name.
    """

    _types: ClassVar[dict[str, type[Kernel]]] = {}
    json_name: ClassVar[str | None] = None

    def __init_subclass__(cls, *, json: str | None = None) -> None:
        super().__init_subclass__()
        cls.json_name = json
        if json is not None:
            Kernel._types[json] = cls

    def to_json(self) -> dict[str, Any]:
        """The fields of the kernel, under the name of its type."""
        if self.json_name is None:
            raise ConfigError(
                f"model: {type(self).__name__} can't be stored: a kernel of your own needs a name,"
                f" as in `class {type(self).__name__}(Kernel, json=...)`"
            )
        own = {k: _written(v) for k, v in vars(self).items()}
        return {"name": self.json_name} | own

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Kernel:
        """The kernel that `to_json` wrote."""
        own = {k: _read(v) for k, v in data.items()}
        name = own.pop("name", None)
        if name not in Kernel._types:
            raise ConfigError(f"kernel: need one of {', '.join(Kernel._types)}, got {name!r}")
        return Kernel._types[name](**own)

    @property
    @abstractmethod
    def theta(self) -> Array:
        """The logarithms of the parameters."""

    @abstractmethod
    def with_theta(self, theta: Array) -> Kernel:
        """The same kernel with other parameters."""

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        """Bounds and prior of each entry of theta; `rules` has those of the library's kernels."""
        return (rules.weight,) * len(self.theta)

    @abstractmethod
    def gram(self, x: Array, z: Array | None = None) -> Array:
        """K(x, z); z is x if it is left out."""

    @abstractmethod
    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        """K(x, x), and W -> sum_ij W_ij dK_ij/dtheta for symmetric W."""

    @abstractmethod
    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        """K(x, z), and A -> sum_j A_qj dk(x_q, z_j)/dx_q, zero in columns of choices."""

    @abstractmethod
    def features(self, rng: Generator, count: int) -> Features:
        """Random functions phi_j with E[phi_j(x) phi_j(x')] = k(x, x').

        They come as one function x -> (phi(x), A -> d/dx_q sum_j A_qj phi_j(x_q)).
        """

    def diag(self, x: Array) -> Array:
        return np.ones(len(x))

    def scales(self, dim: int) -> Array:
        """Per column, the distance over which the kernel changes; infinite where it is flat."""
        return np.full(dim, np.inf)

    def gram_dtheta(self, x: Array, weights: Array) -> Array:
        """sum_ij W_ij dK_ij/dtheta."""
        return self.gram_vjp(x)[1](weights)

    def gram_dx(self, x: Array, z: Array, weights: Array) -> Array:
        """sum_j A_qj dk(x_q, z_j)/dx_q."""
        return self.cross_vjp(x, z)[1](weights)


def _written(value: Any) -> Any:
    if isinstance(value, Kernel):
        return value.to_json()
    return [_written(v) for v in value] if isinstance(value, tuple) else value


def _read(value: Any) -> Any:
    if isinstance(value, Mapping):
        return Kernel.from_json(value)
    return tuple(_read(v) for v in value) if isinstance(value, list | tuple) else value


def positive(name: str, values: Sequence[float]) -> tuple[float, ...]:
    out = tuple(float(v) for v in values)
    for v in out:
        if not (isfinite(v) and v > 0):
            raise ConfigError(f"{name}: need positive finite numbers, got {v!r}")
    return out
