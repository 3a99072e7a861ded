"""Shops drawn at random: what a customer is expected to spend at each setting, and what they do."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from benchmarks.families.base import Blueprint, Columns, at, columns, log_uniform
from benchmarks.families.search import facts, sobol_points

import regretless as rl
from regretless._internal.arrays import Array

CUSTOMERS, PERIODS = 20_000, 50
FLUSHES = 10  # of a period: results arrive so often
LATE, LATEST = 0.03, 5  # the share of late results, and by how many periods at most
TODAY = (0.5, 0.8)  # the share of settings that today's setting is better than
LAYOUTS = ("list", "grid", "large", "compact")
LEVERS: dict[str, rl.Parameter] = {
    "price": rl.Float(0.7, 1.4, log=True),  # times the usual one
    "shipping": rl.Float(0.0, 100.0),  # free from this sum on
    "layout": rl.Categorical(LAYOUTS),
    "results": rl.Int(8, 64),  # on a page
    "discount": rl.Float(0.0, 0.3),  # for new customers
    "reminder": rl.Float(1.0, 72.0, log=True),  # hours until a full basket is mentioned
    "ranking": rl.Float(0.0, 1.0),  # weight of dear articles
}
_STREAM = 0x73686F70


class Increment(NamedTuple):
    """Some results of one setting that arrive together."""

    late: int  # by so many periods
    count: int
    sum: float
    sum_squares: float


Effects = Callable[[Columns], tuple[Array, Array]]
"""The logarithms of conversion and of the mean basket, at many settings."""


@dataclass(frozen=True)
class Shop:
    """A shop whose truth is known."""

    seed: int
    space: rl.Space
    today: dict[str, Any]
    effects: Effects
    spread: float  # of a basket: the sd of its logarithm
    best: float  # what a customer is expected to spend at the best setting, on a mean day
    days: Array  # of the week: factors of conversion, with mean 1

    def worth(self, params: dict[str, Any]) -> float:
        """What a customer is expected to spend, on a mean day."""
        conversion, basket = self.effects(at(self.space, params))
        return float(np.exp(conversion + basket)[0])

    def day(self, period: int) -> float:
        return float(self.days[period % 7])

    def serve(
        self, params: dict[str, Any], period: int, customers: int, rng: np.random.Generator
    ) -> list[Increment]:
        """What customers of a period spend, by when it becomes known."""
        log_conversion, log_basket = (float(x[0]) for x in self.effects(at(self.space, params)))
        conversion = np.exp(log_conversion) * self.day(period)
        shares = [1.0 - LATE, *[LATE / LATEST] * LATEST]
        increments = []
        for late, count in enumerate(rng.multinomial(customers, shares)):
            buyers = rng.binomial(count, conversion)
            # exp(log_basket) is the mean of this lognormal distribution.
            mean = log_basket - self.spread**2 / 2
            spent = rng.lognormal(mean, self.spread, buyers)
            if count:
                total, squares = float(spent.sum()), float((spent**2).sum())
                increments.append(Increment(late, int(count), total, squares))
        return increments


@lru_cache(maxsize=64)
def shop(seed: int) -> Shop:
    rng = np.random.default_rng([_STREAM, 0, seed])
    others = [name for name in LEVERS if name != "price"]
    drawn = rng.choice(others, size=int(rng.integers(2, 5)), replace=False)
    names = [name for name in LEVERS if name == "price" or name in drawn]
    space = rl.Space({name: LEVERS[name] for name in names})
    effects = _effects(rng, space)

    def worth(values: Columns) -> Array:
        conversion, basket = effects(values)
        return np.exp(conversion + basket)

    found = facts(Blueprint(space, worth))
    points = sobol_points(space, 512)
    order = np.argsort(worth(columns(space, points)))
    today = space.decode(points[order[int(rng.uniform(*TODAY) * len(points))]])
    days = 1.0 + 0.15 * rng.standard_normal(7)
    days = np.clip(days, 0.6, 1.4)
    spread = float(rng.uniform(0.3, 0.7))
    return Shop(seed, space, today, effects, spread, found.f_star, days / days.mean())


def _effects(rng: np.random.Generator, space: rl.Space) -> Effects:
    """Draw how each setting changes conversion and basket, and how pairs of settings interact."""
    base = np.log(log_uniform(rng, 0.01, 0.06)), np.log(log_uniform(rng, 20.0, 80.0))
    patience, steepness = rng.uniform(1.1, 1.8), rng.uniform(1.5, 3.0)  # of prices
    lift, refusal = rng.uniform(0.05, 0.25), rng.uniform(0.1, 0.5)  # of a threshold
    liked = rng.normal(0.0, 0.08, len(LAYOUTS))
    page = rng.uniform(np.log(12), np.log(48)) + rng.normal(0.0, 0.3, len(LAYOUTS))
    crowd = rng.uniform(0.03, 0.12)
    pull, give = rng.uniform(0.05, 0.4), rng.uniform(0.4, 1.0)  # of a discount
    hours, haste = rng.uniform(np.log(2), np.log(48)), rng.uniform(0.02, 0.08)
    dear, dull = rng.uniform(0.1, 0.4), rng.uniform(0.1, 0.5)  # of the ranking
    together = rng.normal(0.0, 0.05, (len(LEVERS), len(LEVERS)))
    numbers = [(i, name) for i, name in enumerate(LEVERS) if name != "layout"]

    def effects(x: Columns) -> tuple[Array, Array]:
        layout = x["layout"].astype(int) if "layout" in x else np.zeros(len(x["price"]), int)
        conversion = base[0] + 1.0 - (x["price"] / patience) ** steepness
        basket = base[1] + np.log(x["price"])
        if "shipping" in x:
            basket = basket + lift * (1.0 - np.exp(-x["shipping"] / 30.0))
            conversion = conversion - refusal * (x["shipping"] / 100.0) ** 2
        if "layout" in x:
            conversion = conversion + liked[layout]
        if "results" in x:
            conversion = conversion - crowd * (np.log(x["results"]) - page[layout]) ** 2
        if "discount" in x:
            conversion = conversion + pull * (1.0 - np.exp(-x["discount"] / 0.1))
            basket = basket + np.log(1.0 - give * x["discount"])
        if "reminder" in x:
            conversion = conversion - haste * (np.log(x["reminder"]) - hours) ** 2
        if "ranking" in x:
            basket = basket + dear * x["ranking"]
            conversion = conversion - dull * x["ranking"] ** 2
        units = {i: _unit(LEVERS[name], x[name]) for i, name in numbers if name in x}
        for i, u in units.items():
            for j, v in units.items():
                if i < j:
                    conversion = conversion + together[i, j] * u * v
        return conversion, basket

    return effects


def _unit(lever: Any, values: Array) -> Array:
    """The values of a numeric setting, from -1 to 1."""
    low, high = float(lever.low), float(lever.high)
    if getattr(lever, "log", False):
        low, high, values = np.log(low), np.log(high), np.log(values)
    return 2.0 * (values - low) / (high - low) - 1.0
