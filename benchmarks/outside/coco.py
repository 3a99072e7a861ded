"""COCO's functions (coco-experiment): bbob with added noise, bbob-noisy, and bbob-mixint.

The value without noise of a function of bbob-noisy is had from the package itself. A new suite
starts its stream of noise anew, so that the first value of a problem with Gaussian noise is always
f* + c (f - f*), with the same c. The sphere, which is in bbob as well, tells c. Every function of
the suite exists with Gaussian noise, and the other kinds of noise share its instances.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from benchmarks.families.base import Instance, cube, log_uniform, remembering
from benchmarks.families.search import sobol_points
from benchmarks.peers.problems import Array, Params
from scipy.optimize import minimize_scalar

from regretless import Float, Int, Space

DIMENSIONS = (2, 3, 5)
NOISE = (0.05, 1.0)
BUDGETS = (50.0, 100.0)
_POINTS = 4096
_SKIPPED = 2000
"""An observation of bbob-noisy meets the noise of one of so many places of its stream."""

# The first function of bbob-noisy of each kind, and the function of bbob that it comes from.
_BASES = {101: 1, 104: 8, 107: 1, 110: 8, 113: 7, 116: 10, 119: 14, 122: 17, 125: 19, 128: 21}
_SEVERE = {1: 107, 8: 110, 7: 113, 10: 116, 14: 119, 17: 122, 19: 125, 21: 128}


def bbob(function: int, seed: int) -> Instance:
    """A function of bbob, with added noise."""
    from cocoex import BareProblem

    d = DIMENSIONS[seed % 3]
    bare = BareProblem("bbob", function, d, seed + 1)
    space = _box(d)
    rng = _stream(300 + function, seed)
    values = -np.asarray(bare(10 * sobol_points(space, _POINTS) - 5))
    sd = float(log_uniform(rng, *NOISE)) * float(values.std())
    return _instance(
        f"bbob-f{function}",
        seed,
        space,
        lambda x: -float(bare(x)),
        -float(bare.best_value()),
        spread=float(values.std()),
        sd=sd,
        rng=rng,
        number=300 + function,
        best=_params(space, np.asarray(bare.best_parameter())),
    )


def noisy(function: int, seed: int) -> Instance:
    """A function of bbob-noisy, with its own noise."""
    from cocoex import BareProblem

    d, number = DIMENSIONS[seed % 3], seed + 1
    kin = BareProblem("bbob", _BASES[function - (function - 101) % 3], d, number)
    top = float(kin.best_value())
    space = _box(d)

    def exact(x: Array) -> float:
        seen = _observed(_SEVERE[kin.function], d, number, x, 0)
        return -top - (seen - top) / _first_factor()

    def draw(x: Array, rng: np.random.Generator) -> float:
        return -_observed(function, d, number, x, int(rng.integers(1, _SKIPPED)))

    points = 10 * sobol_points(space, 512) - 5
    values = np.array([exact(x) for x in points])
    seen = [-_observed(function, d, number, x, k) for k, x in enumerate(points[:128], start=1)]
    noise = np.array(seen) - values[:128]
    low, high = np.quantile(noise, [0.159, 0.841])  # Cauchy's has no standard deviation
    return _instance(
        f"noisy-f{function}",
        seed,
        space,
        exact,
        -top,
        spread=float(values.std()),
        sd=float(high - low) / 2,
        rng=_stream(300 + function, seed),
        number=300 + function,
        best=_params(space, np.asarray(kin.best_parameter())),
        draw=draw,
    )


def mixint(function: int, seed: int) -> Instance:
    """A function of bbob-mixint in five dimensions, with added noise."""
    problem = _opened("bbob-mixint", function, 5, seed + 1)
    lows, highs, whole = (
        problem.lower_bounds,
        problem.upper_bounds,
        problem.number_of_integer_variables,
    )
    bounds = enumerate(zip(lows.tolist(), highs.tolist(), strict=True))
    space = Space(
        {
            f"x{j + 1}": Int(int(low), int(high)) if j < whole else Float(low, high)
            for j, (low, high) in bounds
        }
    )
    rng = _stream(500 + function, seed)
    best, top = _listed(problem, space)
    values = np.array(
        [problem(_vector(space.decode(x))) for x in sobol_points(space, _POINTS // 4)]
    )
    spread = float(values.std())
    return _instance(
        f"mixint-f{function}",
        seed,
        space,
        lambda x: -float(problem(x)),
        -top,
        spread=spread,
        sd=float(log_uniform(rng, *NOISE)) * spread,
        rng=rng,
        number=500 + function,
        best=best,
    )


# -- what they share -------------------------------------------------------------------------------


def _instance(
    name: str,
    seed: int,
    space: Space,
    f: Callable[[Array], float],
    f_star: float,
    *,
    spread: float,
    sd: float,
    rng: np.random.Generator,
    number: int,
    best: Params,
    draw: Callable[[Array, np.random.Generator], float] | None = None,
) -> Instance:
    value = remembering(lambda params: f(_vector(params)))

    def added(params: Params, rng: np.random.Generator) -> float:
        return value(params) + sd * float(rng.standard_normal())

    return Instance(
        name=f"{name}/{seed}",
        space=space,
        draw=added if draw is None else lambda params, rng: draw(_vector(params), rng),
        f=value,
        f_star=f_star,
        budget=round(float(log_uniform(rng, *BUDGETS))),
        n0=2 * space.dim + 2,
        group="outside",
        unit=spread,
        centred=False,
        noise=sd / spread,
        best=best,
        number=10_000 * number + seed,
    )


def _stream(number: int, seed: int) -> np.random.Generator:
    return np.random.default_rng([number, seed])


def _box(d: int) -> Space:
    return Space({name: Float(-5.0, 5.0) for name in cube(d).names})


def _params(space: Space, x: Array) -> Params:
    return dict(zip(space.names, x.tolist(), strict=True))


def _vector(params: Params) -> Array:
    return np.array(list(params.values()), dtype=float)


def _opened(suite: str, function: int, d: int, instance: int) -> Any:
    """A problem of a new suite; `function` counts from 1 in each suite."""
    from cocoex import Suite

    which = f"dimensions:{d} function_indices:{function}"
    return Suite(suite, f"instances:{instance}", which)[0]


def _observed(function: int, d: int, instance: int, x: Array, skip: int) -> float:
    """What bbob-noisy shows at a place of its stream of noise."""
    problem = _opened("bbob-noisy", function - 100, d, instance)
    for _ in range(skip):
        problem(x)
    value = float(problem(x))
    problem.free()
    return value


@cache
def _first_factor() -> float:
    """c, by the sphere."""
    from cocoex import BareProblem

    sphere, x = BareProblem("bbob", 1, 2, 1), np.array([4.0, -4.0])
    top = sphere.best_value()
    return float((_observed(107, 2, 1, x, 0) - top) / (sphere(x) - top))


def _listed(problem: Any, space: Space) -> tuple[Params, float]:
    """The best value: every combination of whole numbers, with the last, a real one, searched."""
    line = np.linspace(-5.0, 5.0, 21)
    found = []
    for whole in product(*(range(p.low, p.high + 1) for p in space.parameters.values() if _is(p))):
        values = [problem(np.array([*whole, t])) for t in line]
        at = int(np.argmin(values))
        found.append((values[at], whole, line[at]))
    best = (np.inf, (), 0.0)
    for value, whole, t in sorted(found)[:60]:
        near = minimize_scalar(
            lambda u, whole=whole: problem(np.array([*whole, u])),
            bounds=(max(-5.0, t - 0.5), min(5.0, t + 0.5)),
            method="bounded",
            options={"xatol": 1e-7},
        )
        best = min(best, (value, whole, t), (float(near.fun), whole, float(near.x)))
    params = dict(zip(space.names, [*best[1], float(best[2])], strict=True))
    return params, float(best[0])


def _is(parameter: Any) -> bool:
    return isinstance(parameter, Int)
