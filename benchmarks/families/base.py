"""What a generator returns, and how it becomes an instance that tools can tune."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from benchmarks.peers.problems import Array, Params, Task

from regretless import Categorical, Float, Space

Columns = Mapping[str, Array]
"""Values of each parameter at many points; the index of the choice for a categorical one."""
Formula = Callable[[Columns], Array]


@dataclass(frozen=True)
class Blueprint:
    """The shape of an instance; noise and budget are drawn afterwards."""

    space: Space
    formula: Formula
    """f at many points, which is to be maximised."""
    level: Formula | None = None
    """If given, the noise is proportional to it."""
    budgets: tuple[float, float] = (30.0, 200.0)
    active: tuple[str, ...] | None = None
    """The parameters that f depends on; None means all."""
    hints: list[Array] = field(default_factory=list)
    """Points of the unit cube from which the search for the best value starts, too."""
    effort: int = 1
    """How many times as many points the search takes."""
    draw: Callable[[Params, np.random.Generator], float] | None = None
    """One observation, where noise is a part of the problem."""
    natural_noise: float | None = None
    """Its standard deviation."""


@dataclass(frozen=True)
class Instance(Task):
    """A task that knows its noise and where its best value is."""

    noise: float = 0.0
    """The standard deviation of the noise, in spreads."""
    best: Params = field(default_factory=dict)
    number: int = 0
    """Number of family and seed in one: the stream of the noise."""
    level: Callable[[Params], float] | None = None
    """If given, the noise at a point is so many times what `noise` says."""

    def scatter(self, params: Params) -> float:
        """The standard deviation of the noise at a point, in the units of f."""
        return self.noise * self.unit * (self.level(params) if self.level else 1.0)


def columns(space: Space, X: Array) -> dict[str, Array]:
    """The values at canonical points of the unit cube."""
    found = {}
    for j, (name, parameter) in enumerate(space.parameters.items()):
        u = X[:, j]
        if isinstance(parameter, Float):
            low, high = parameter.low, parameter.high
            found[name] = low * (high / low) ** u if parameter.log else low + (high - low) * u
        else:
            places, index = np.unique(u, return_inverse=True)
            values = np.array([_number(parameter, parameter.decode(v)) for v in places.tolist()])
            found[name] = values[index]
    return found


def at(space: Space, params: Params) -> dict[str, Array]:
    """The same for one point in the user's units."""
    return {n: np.array([_number(p, params[n])]) for n, p in space.parameters.items()}


def _number(parameter: Any, value: Any) -> float:
    if isinstance(parameter, Categorical):
        return float(parameter.choices.index(value))
    return float(value)


def cube(d: int) -> Space:
    return Space({f"x{j}": Float(0.0, 1.0) for j in range(1, d + 1)})


def stacked(values: Columns, names: tuple[str, ...] | None = None) -> Array:
    """Columns side by side, of shape (points, parameters)."""
    return np.stack([values[n] for n in names or tuple(values)], axis=1)


def log_uniform(rng: np.random.Generator, low: float, high: float, size: Any = None) -> Any:
    return np.exp(rng.uniform(np.log(low), np.log(high), size))


def remembering(f: Callable[[Params], float]) -> Callable[[Params], float]:
    """The last value is kept: it is asked for twice, by the observation and by the regret."""
    last: list[Any] = [None, 0.0]

    def value(params: Params) -> float:
        key = tuple(params.items())
        if key != last[0]:
            last[:] = key, f(params)
        return last[1]

    return value
