"""The base class of covariance kernels on the encoded unit cube, with k(x, x) = 1.

Kernels are frozen.  `theta` is the vector of the logarithms of a kernel's parameters, and
`with_theta` returns the same kernel with other parameters.

Derivatives are returned as pull-backs, so that no array of shape (n, n, p) is needed.
`gram_vjp(X)` returns K and a function W -> sum_ij W_ij dK_ij/dtheta.  `cross_vjp(X, Z)` returns
K(X, Z) and a function A -> sum_j A_qj dk(x_q, z_j)/dx_q.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from math import inf
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.registry import register
from regretless._internal.shown import shown
from regretless._internal.validate import is_number
from regretless.defaults import Prior, PriorRules
from regretless.errors import ConfigError

Pullback = Callable[[Array], Array]
Features = Callable[[Array], tuple[Array, Pullback]]


class Kernel(ABC):
    """A covariance function k(x, x') on the unit cube with k(x, x) = `variance`, which is 1.

    To write a kernel, make a frozen dataclass that derives from this class, and write the abstract
    methods.  Write `priors` as well if the default prior of a weight does not suit its parameters.
    A study can store a kernel if its class has a name: `class Mine(Kernel, json="mine")`.  The
    dataclass fields are then stored under this name.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> kernel = SE((0.5, 0.5))
        >>> x = np.array([[0.0, 0.0], [0.3, 0.4]])
        >>> kernel.gram(x).round(4).tolist()
        [[1.0, 0.6065], [0.6065, 1.0]]
        >>> wider = kernel.with_theta(kernel.theta + np.log(2.0))
        >>> [round(length, 4) for length in wider.lengthscales]
        [1.0, 1.0]
    """

    _types: ClassVar[dict[str, type[Kernel]]] = {}
    json_name: ClassVar[str | None] = None

    @property
    def variance(self) -> float:
        """k(x, x), the same for all x."""
        return 1.0

    @property
    def varying(self) -> Kernel:
        """The kernel without an unknown constant; itself, unless it is `Lifted`."""
        return self

    @property
    def contrast(self) -> Kernel:
        """The kernel without what all settings share in a context; itself, if there is nothing."""
        return self

    def __init_subclass__(cls, *, json: str | None = None) -> None:
        super().__init_subclass__()
        cls.json_name = json
        if json is not None:
            register(Kernel._types, json, cls)

    def to_json(self) -> dict[str, Any]:
        """The name of the kernel's type and its fields, as JSON.

        Raises:
            ConfigError: the class was defined without `json=...`.
        """
        if self.json_name is None:
            raise ConfigError(
                f"model: {type(self).__name__} can't be stored: a kernel of your own needs a name,"
                f" as in `class {type(self).__name__}(Kernel, json=...)`"
            )
        names = [f.name for f in fields(self)] if is_dataclass(self) else list(vars(self))
        own = {name: _written(getattr(self, name)) for name in names}
        return {"name": self.json_name} | own

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Kernel:
        """The kernel that `to_json` wrote.

        Args:
            data: what `to_json` returned.

        Raises:
            ConfigError: no class has this name.
        """
        own = {k: _read(v) for k, v in data.items()}
        name = own.pop("name", None)
        if name not in Kernel._types:
            raise ConfigError(f"kernel: need one of {', '.join(Kernel._types)}, got {shown(name)}")
        return Kernel._types[name](**own)

    @property
    @abstractmethod
    def theta(self) -> Array:
        """The logarithms of the parameters."""

    @abstractmethod
    def with_theta(self, theta: Array) -> Kernel:
        """The same kernel with other parameters.

        Args:
            theta: the parameters, as `theta` returns them.
        """

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        """The bounds and the prior of each entry of `theta`.

        Args:
            rules: the priors of the library's own kernels, for use in a kernel of your own.

        Returns:
            One `Prior` for each entry of `theta`.
        """
        return (rules.weight,) * len(self.theta)

    def lengths_at_once(self, rules: PriorRules) -> int:
        """How many length-scales count at once; fewer than there are if some columns are inactive.

        Distances in a cube grow with its square root, and with them the length-scales that are
        likely.

        Args:
            rules: a version of the defaults.
        """
        return sum(prior.is_length for prior in self.priors(rules))

    @abstractmethod
    def gram(self, x: Array, z: Array | None = None) -> Array:
        """The matrix of k(x_i, z_j) for the rows of x and z; K(x, x) without z.

        Args:
            x: points, one a row.
            z: points, one a row; None for those of x.
        """

    @abstractmethod
    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        """The matrix K(x, x), and the function W -> sum_ij W_ij dK_ij/dtheta for symmetric W.

        Args:
            x: points, one a row.
        """

    @abstractmethod
    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        """The matrix K(x, z), and the function A -> sum_j A_qj dk(x_q, z_j)/dx_q.

        The gradient is zero in columns of choices.

        Args:
            x: points, one a row.
            z: points, one a row.
        """

    @abstractmethod
    def features(self, rng: Generator, count: int) -> Features:
        """Draw `count` random functions phi_j with E[phi_j(x) phi_j(x')] = k(x, x').

        Args:
            rng: the generator to draw from.
            count: how many functions to draw.

        Returns:
            One function x -> (phi(x), A -> d/dx_q sum_j A_qj phi_j(x_q)).
        """

    def diag(self, x: Array) -> Array:
        """The values k(x_i, x_i) for the rows of x.

        Args:
            x: points, one a row.
        """
        return np.full(len(x), self.variance)

    def scales(self, dim: int) -> Array:
        """The distance over which the kernel changes, per column; infinite if it is constant.

        Args:
            dim: the number of columns.
        """
        return np.full(dim, np.inf)

    def gram_dtheta(self, x: Array, weights: Array) -> Array:
        """The slopes sum_ij W_ij dK_ij/dtheta.

        Args:
            x: points, one a row.
            weights: W, a symmetric matrix.
        """
        return self.gram_vjp(x)[1](weights)

    def gram_dx(self, x: Array, z: Array, weights: Array) -> Array:
        """The slopes sum_j A_qj dk(x_q, z_j)/dx_q.

        Args:
            x: points, one a row.
            z: points, one a row.
            weights: A, with a row for each x and a column for each z.
        """
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
    """The values as a tuple of floats.

    Args:
        name: the name of the setting, for the error message.
        values: the numbers to check.

    Raises:
        ConfigError: a value is not positive and finite.

    Example:
        >>> positive("weights", [1, 2])
        (1.0, 2.0)
    """
    if type(values) is tuple and all(type(v) is float and 0.0 < v < inf for v in values):
        return values  # at once, because a fit makes many kernels
    listed = isinstance(values, Sequence | np.ndarray) and not isinstance(values, str)
    if not (listed and getattr(values, "ndim", 1) == 1):
        raise ConfigError(f"{name}: need a list of numbers, got {shown(values)}")
    for v in values:
        if not (is_number(v) and v > 0):
            raise ConfigError(f"{name}: need positive finite numbers, got {shown(v)}")
    return tuple(float(v) for v in values)
