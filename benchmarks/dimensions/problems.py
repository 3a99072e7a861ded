"""Functions of five among many parameters; which five, and how, is drawn by the seed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache, partial
from types import MappingProxyType

import numpy as np
from benchmarks.families.base import Blueprint, Instance, cube, log_uniform, stacked
from benchmarks.families.shapes import gp_draw, hills
from benchmarks.families.table import Family, drawn
from benchmarks.peers.problems import Array
from numpy.random import Generator

ACTIVE, BUDGET = 5, 200.0
NOISE = (0.05, 0.5)
FAMILIES: Mapping[str, int] = MappingProxyType({"of20": 20, "of50": 50, "of100": 100})
"""The number of parameters, by the name of the family."""


def some_hills(rng: Generator) -> Blueprint:
    """One to three hills."""
    shape, centres = hills(rng, ACTIVE, int(rng.integers(1, 4)), (0.2, 0.5))
    return Blueprint(cube(ACTIVE), lambda values: shape(stacked(values)), hints=centres)


def gp_path(rng: Generator) -> Blueprint:
    """A draw from a GP with length-scales of 0.4 to 1.2 of the range."""
    shape = gp_draw(rng, log_uniform(rng, 0.4, 1.2, ACTIVE), 2.5)
    return Blueprint(cube(ACTIVE), lambda values: shape(stacked(values)))


def additive(rng: Generator) -> Blueprint:
    """A sum of smooth functions of one parameter each."""
    parts = [gp_draw(rng, log_uniform(rng, 0.2, 0.8, 1), np.inf) for _ in range(ACTIVE)]
    weights = log_uniform(rng, 0.3, 1.0, ACTIVE)
    grid = np.linspace(0.0, 1.0, 2001)
    best = np.array([grid[part(grid[:, None]).argmax()] for part in parts])

    def shape(u: Array) -> Array:
        each = [w * part(u[:, [j]]) for j, (w, part) in enumerate(zip(weights, parts, strict=True))]
        return np.sum(each, axis=0)

    return Blueprint(cube(ACTIVE), lambda values: shape(stacked(values)), hints=[best])


def valley(rng: Generator) -> Blueprint:
    """The logarithm of a valley like that of Rosenbrock, more or less steep."""
    low, high = rng.uniform(-2.0, -1.0), rng.uniform(1.2, 2.0)
    steep, scale = log_uniform(rng, 1.0, 30.0), log_uniform(rng, 3.0, 30.0)
    turned = rng.random(ACTIVE) < 0.5

    def shape(u: Array) -> Array:
        x = low + (high - low) * np.where(turned, 1.0 - u, u)
        before, after = x[:, :-1], x[:, 1:]
        fall = (steep * (after - before**2) ** 2 + (1.0 - before) ** 2).sum(axis=1)
        return -np.log1p(fall / scale)

    top = (1.0 - low) / (high - low)
    best = np.where(turned, 1.0 - top, top)
    return Blueprint(cube(ACTIVE), lambda values: shape(stacked(values)), hints=[best])


KINDS = (some_hills, gp_path, additive, valley)


def among(d: int, kind: int, rng: Generator) -> Blueprint:
    """A function of five of d parameters."""
    inner = KINDS[kind](rng)
    columns = np.sort(rng.choice(d, ACTIVE, replace=False))
    names = tuple(f"x{j + 1}" for j in columns.tolist())
    hints = []
    for point in inner.hints:
        hints.append(np.full(d, 0.5))
        hints[-1][columns] = point
    return Blueprint(
        cube(d),
        lambda values: inner.formula({n: values[n] for n in names}),
        budgets=(BUDGET, BUDGET),
        active=names,
        hints=hints,
    )


@lru_cache(maxsize=16)
def instance(family: str, seed: int) -> Instance:
    """The instance of a seed.  Seeds take the kinds of functions in turn."""
    d = FAMILIES[family]
    kind = Family(300 + d, "dimensions", partial(among, d, seed % len(KINDS)))
    return drawn(family, kind, seed, NOISE)
