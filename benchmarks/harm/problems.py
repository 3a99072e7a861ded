"""Problems with a baseline: functions drawn from a prior, and instances of families."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import sqrt
from typing import Any

import numpy as np
from benchmarks.families.search import sobol_points
from benchmarks.families.table import instance
from numpy.typing import NDArray

from regretless import Float, Model, Space
from regretless.kernels import SE, Kernel

Array = NDArray[np.float64]
Params = dict[str, Any]
LAM2 = 0.1  # the noise variance of the prior draws, in units of the signal variance
MOST = 40  # evaluations of a run on a family


@dataclass(frozen=True)
class Problem:
    """Something that runs with a baseline; f is to be maximised."""

    space: Space
    f: Callable[[Params], float]
    observe: Callable[[Params, int], float]  # the result of a trial, by its number
    baseline: Params
    budget: int
    unit: float  # losses are counted in it: the sd of f over the space
    f_star: float | None = None
    model: Model | None = None


class Draw:
    """A function drawn from a Gaussian process, exactly: each new value given all earlier ones."""

    def __init__(self, kernel: Kernel, rng: np.random.Generator) -> None:
        self._kernel, self._rng = kernel, rng
        self._x: list[Array] = []
        self._factor = np.zeros((0, 0))
        self._drawn = np.zeros(0)
        self._values: dict[bytes, float] = {}

    def __call__(self, x: Array) -> float:
        key = x.tobytes()
        if key not in self._values:
            n = len(self._x)
            row = np.zeros(n)
            if n:
                k = self._kernel.gram(np.array(self._x), x[None, :])[:, 0]
                row = np.linalg.solve(self._factor, k)
            rest = sqrt(max(float(self._kernel.variance - row @ row), 1e-12))
            grown = np.zeros((n + 1, n + 1))
            grown[:n, :n], grown[n, :n], grown[n, n] = self._factor, row, rest
            self._factor, self._drawn = grown, np.append(self._drawn, self._rng.standard_normal())
            self._x.append(x)
            self._values[key] = float(grown[n] @ self._drawn)
        return self._values[key]


def prior_draw(d: int, seed: int, budget: int = 30) -> Problem:
    """A draw from the prior of the model that the run has, with a baseline at random."""
    rng = np.random.default_rng([7, d, seed])
    kernel = SE((0.25 * sqrt(d),) * d)
    space = Space({f"x{j}": Float(0.0, 1.0) for j in range(1, d + 1)})
    draw, sd = Draw(kernel, rng.spawn(1)[0]), sqrt(LAM2)

    def f(params: Params) -> float:
        return draw(space.encode(params))

    def observe(params: Params, number: int) -> float:
        return f(params) + sd * float(np.random.default_rng([8, seed, number]).standard_normal())

    baseline = {name: float(rng.random()) for name in space.names}
    return Problem(space, f, observe, baseline, budget, 1.0, model=Model.fixed(kernel, LAM2))


def of_family(family: str, seed: int, noise: float = 1.0) -> Problem:
    """An instance of a family.  Its baseline is better than three quarters of the space.

    Args:
        family: the name of the family.
        seed: the number of the instance.
        noise: the noise of the instance is multiplied by this.
    """
    task = instance(family, seed)
    assert task.f is not None
    points = sobol_points(task.space, 64, seed=seed + 1)
    values = np.array([task.f(task.space.decode(x)) for x in points])
    baseline = task.space.decode(points[int(np.argsort(values)[48])])
    unit, f = task.unit, task.f

    def observe(params: Params, number: int) -> float:
        plain = task.observe(params, task.number, number)
        return f(params) + noise * (plain - f(params))

    budget = min(task.budget, MOST)
    return Problem(task.space, f, observe, baseline, budget, unit, task.f_star)


def bowl(seed: int) -> Problem:
    """A smooth hill in one dimension.  Losses are counted in units of f itself."""
    rng = np.random.default_rng([9, seed])
    top, steep, sd = rng.uniform(0.5, 0.9), rng.uniform(2.0, 6.0), rng.uniform(0.01, 0.1)
    space = Space({"x": Float(0.0, 1.0)})

    def f(params: Params) -> float:
        return float(-steep * (params["x"] - top) ** 2)

    return _simple(space, f, {"x": 0.3}, sd, seed, best=0.0)


def cliff(seed: int) -> Problem:
    """A slope that ends in a drop of 3 within a tenth of the range, in two dimensions."""
    rng = np.random.default_rng([10, seed])
    edge, side = rng.uniform(0.65, 0.8), rng.uniform(0.3, 0.7)
    space = Space({"x": Float(0.0, 1.0), "y": Float(0.0, 1.0)})

    def f(params: Params) -> float:
        x, y = params["x"], params["y"]
        drop = 3.0 / (1.0 + float(np.exp(-(x - edge) / 0.015)))
        return 2.0 * float(x) - 2.0 * (float(y) - side) ** 2 - drop

    best = max(f({"x": x, "y": side}) for x in np.linspace(0.0, 1.0, 2001))
    return _simple(space, f, {"x": 0.4, "y": 0.5}, 0.1, seed, best)


def _simple(
    space: Space, f: Callable[[Params], float], baseline: Params, sd: float, seed: int, best: float
) -> Problem:
    def observe(params: Params, number: int) -> float:
        return f(params) + sd * float(np.random.default_rng([8, seed, number]).standard_normal())

    return Problem(space, f, observe, baseline, 40, 1.0, best)
