"""The families and their instances."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from benchmarks.families import choose
from benchmarks.families.base import columns, log_uniform
from benchmarks.families.search import facts, sobol_points
from benchmarks.families.shapes import gp_draw

import regretless as rl
from regretless._internal.arrays import Array

FAMILIES = ("place", "level", "quiet", "constant")
VARYING = FAMILIES[:3]
SHAPES = (
    choose.queue,
    choose.price,
    choose.control,
    choose.gp_smooth,
    choose.one_to_six_hills,
    choose.mixed,
)
TIMES = 10.0  # the largest sd is so many times the smallest
NOISE, BUDGET = (0.3, 2.0), (50.0, 200.0)
_STREAM = 0x6E6F6973


@dataclass(frozen=True)
class Problem:
    """A function, and the sd of the noise at each point."""

    space: rl.Space
    budget: int
    f: Callable[[dict[str, Any]], float]
    sds: Callable[[Array], Array]
    """The sd of the noise at points of the unit cube."""
    f_star: float
    unit: float
    stream: tuple[int, int]

    def sd(self, params: dict[str, Any]) -> float:
        return float(self.sds(self.space.encode(params)[None, :])[0])

    def observe(self, params: dict[str, Any], number: int) -> float:
        """Evaluation `number` meets the same draw of the noise whoever asks."""
        drawn = np.random.default_rng([_STREAM, *self.stream, number]).standard_normal()
        return self.f(params) + self.sd(params) * float(drawn)

    def regret(self, params: dict[str, Any]) -> float:
        return (self.f_star - self.f(params)) / self.unit


@lru_cache(maxsize=32)
def problem(family: str, seed: int) -> Problem:
    number = FAMILIES.index(family)
    shape, rest = np.random.default_rng([_STREAM, number, seed]).spawn(2)
    blueprint = SHAPES[seed % len(SHAPES)](shape)
    found, space = facts(blueprint), blueprint.space
    points = sobol_points(space, 4096)

    def value(x: Array) -> Array:
        return blueprint.formula(columns(space, x))

    low = float(value(points).min())
    rise = _rise(family, rest, space, points, lambda x: (value(x) - low) / (found.f_star - low))
    scale = float(log_uniform(rest, *NOISE)) * found.spread / float(rise(points).mean())
    budget = round(float(log_uniform(rest, *BUDGET)))

    def at(params: dict[str, Any]) -> Array:
        return space.encode(params)[None, :]

    return Problem(
        space,
        budget,
        lambda params: float(value(at(params))[0]),
        lambda x: scale * rise(x),
        found.f_star,
        found.spread,
        (number, seed),
    )


def _rise(
    family: str,
    rng: np.random.Generator,
    space: rl.Space,
    points: Array,
    level: Callable[[Array], Array],
) -> Callable[[Array], Array]:
    """The sd over its smallest value, from 1 to `TIMES`."""
    if family == "constant":
        return lambda x: np.ones(len(x))
    if family == "place":
        draw = gp_draw(rng, log_uniform(rng, 0.5, 1.5, space.dim) * np.sqrt(space.dim), np.inf)
        drawn = draw(points)
        first, size = float(drawn.min()), float(np.ptp(drawn))
        return lambda x: TIMES ** np.clip((draw(x) - first) / size, 0.0, 1.0)
    if family == "level":
        return lambda x: 1.0 + (TIMES - 1.0) * np.clip(level(x), 0.0, 1.0)
    return lambda x: TIMES - (TIMES - 1.0) * np.clip(level(x), 0.0, 1.0)
