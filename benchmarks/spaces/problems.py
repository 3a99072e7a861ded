"""Conditional problems, drawn at random: three families, whose best value is known.

Each instance is drawn from its family and a seed: the functions, the noise and the budget.  The
functions are sums of valleys and waves, not draws from a model that one of the tools uses.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

import regretless as rl

Array = NDArray[np.float64]
Params = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """A function over a space that is to be maximised, and its best value."""

    space: rl.Space
    f: Callable[[Params], float]
    best: float
    spread: float
    """The standard deviation of f over random points, in which regret and noise are measured."""
    noise: float
    budget: int

    def regret(self, params: Params) -> float:
        return (self.best - self.f(params)) / self.spread


class Landscape:
    """A smooth function of the unit cube: a valley, and waves on it."""

    def __init__(self, rng: Generator, dim: int) -> None:
        self.center = rng.uniform(0.1, 0.9, dim)
        self.steep = np.exp(rng.uniform(np.log(0.5), np.log(4.0), dim))
        self.waves = rng.standard_normal((4, dim)) * rng.uniform(1.0, 5.0)
        self.phase = rng.uniform(0.0, 2.0 * np.pi, 4)
        self.heights = 0.12 * rng.standard_normal(4)

    def __call__(self, u: Array) -> float:
        valley = -float(((u - self.center) ** 2 * self.steep).sum())
        return valley + float(self.heights @ np.cos(self.waves @ u + self.phase))


def branches(rng: Generator) -> tuple[rl.Space, Callable[[Params], float]]:
    """One choice, each of whose values has parameters of its own, beside shared ones."""
    count, shared = int(rng.integers(3, 6)), int(rng.integers(1, 3))
    own = rng.integers(1, 4, count)
    parameters: dict[str, Any] = {"method": rl.Categorical([f"m{b}" for b in range(count)])}
    names = {b: [f"m{b}_{j}" for j in range(own[b])] for b in range(count)}
    parameters |= {f"s{j}": rl.Float(0.0, 1.0) for j in range(shared)}
    for b in range(count):
        parameters |= {n: rl.Float(0.0, 1.0).when("method", f"m{b}") for n in names[b]}
    common = Landscape(rng, shared)
    alone = [Landscape(rng, shared + int(own[b])) for b in range(count)]
    level, weight = 0.5 * rng.standard_normal(count), rng.uniform(0.3, 1.0)

    def f(params: Params) -> float:
        b = int(params["method"][1:])
        s = np.array([params[f"s{j}"] for j in range(shared)])
        mine = np.array([params[n] for n in names[b]])
        return float(level[b] + weight * common(s) + alone[b](np.concatenate([s, mine])))

    return rl.Space(parameters), f


def layers(rng: Generator) -> tuple[rl.Space, Callable[[Params], float]]:
    """A number of layers, each with parameters that exist if there are so many layers."""
    most = int(rng.integers(3, 6))
    parameters: dict[str, Any] = {"rate": rl.Float(1e-4, 1.0, log=True), "layers": rl.Int(1, most)}
    for k in range(1, most + 1):
        width, drop = rl.Int(4, 256, log=True), rl.Float(0.0, 0.9)
        parameters[f"width{k}"] = width if k == 1 else width.when("layers", at_least=k)
        if k > 1:
            parameters[f"drop{k}"] = drop.when("layers", at_least=k)
    rate = Landscape(rng, 1)
    each = [Landscape(rng, 2) for _ in range(most)]
    gain = rng.uniform(0.3, 1.0) * np.cumsum(0.5 ** np.arange(most) * rng.uniform(-0.6, 1.0, most))

    def f(params: Params) -> float:
        depth = params["layers"]
        total = gain[depth - 1] + rate(np.array([np.log10(params["rate"]) / 4.0 + 1.0]))
        for k in range(1, depth + 1):
            width = np.log2(params[f"width{k}"] / 4.0) / 6.0
            drop = params[f"drop{k}"] / 0.9 if k > 1 else 0.5
            total += each[k - 1](np.array([width, drop])) / np.sqrt(k)
        return float(total)

    return rl.Space(parameters), f


def pipeline(rng: Generator) -> tuple[rl.Space, Callable[[Params], float]]:
    """Two steps with choices, of which some have parameters, and one has a choice below it."""
    one = rl.Float(0.0, 1.0)
    space = rl.Space(
        {
            "prepare": rl.Categorical(["none", "scale", "reduce"]),
            "parts": rl.Int(1, 30).when("prepare", "reduce"),
            "clip": one.when("prepare", "scale", "reduce"),
            "learner": rl.Categorical(["linear", "trees", "net"]),
            "penalty": rl.Float(1e-5, 1.0, log=True).when("learner", "linear", "net"),
            "depth": rl.Int(1, 12).when("learner", "trees"),
            "share": one.when("learner", "trees"),
            "solver": rl.Categorical(["adam", "sgd"]).when("learner", "net"),
            "rate": rl.Float(1e-4, 1.0, log=True).when("learner", "net"),
            "momentum": one.when("solver", "sgd"),
        }
    )
    first = {"none": [], "scale": ["clip"], "reduce": ["clip", "parts"]}
    second = {
        "linear": ["penalty"],
        "trees": ["depth", "share"],
        "adam": ["penalty", "rate"],
        "sgd": ["penalty", "rate", "momentum"],
    }
    height = {name: 0.4 * rng.standard_normal() for name in (*first, *second)}
    shape = {name: Landscape(rng, max(1, len(own))) for name, own in (first | second).items()}
    both = {(a, b): 0.2 * rng.standard_normal() for a in first for b in second}

    def f(params: Params) -> float:
        units = dict(zip(space.names, space.encode(params), strict=True))
        a, b = params["prepare"], params.get("solver", params["learner"])
        total = both[a, b]
        for name, own in ((a, first[a]), (b, second[b])):
            total += height[name] + shape[name](np.array([units[n] for n in own] or [0.5]))
        return float(total)

    return space, f


FAMILIES = {"branches": branches, "layers": layers, "pipeline": pipeline}


def problem(family: str, seed: int) -> Problem:
    """The instance of a family and a seed."""
    rng = np.random.default_rng([list(FAMILIES).index(family), seed])
    space, f = FAMILIES[family](rng)
    noise = float(np.exp(rng.uniform(np.log(0.03), np.log(0.3))))
    budget = int(rng.integers(50, 111))
    draws = space.spread(np.random.default_rng(0).random((2000, space.dim)))
    values = np.array([f(space.decode(x)) for x in draws])
    return Problem(space, f, _best(space, f, draws, values), float(values.std()), noise, budget)


def _best(space: rl.Space, f: Callable[[Params], float], x: Array, values: Array) -> float:
    """The best value: random steps that shrink, from the best points of each branch."""
    rng = np.random.default_rng(1)
    discrete = x[:, space.discrete] if space.discrete.any() else x[:, :0]
    _, branch = np.unique(
        np.column_stack([space.active(x), np.floor(8 * discrete)]), axis=0, return_inverse=True
    )
    starts = {b: i for i, b in sorted(enumerate(branch), key=lambda pair: values[pair[0]])}
    top = sorted(starts.values(), key=lambda i: -values[i])[:12]
    best = -np.inf
    for i in top:
        here, value, step = x[i].copy(), values[i], 0.3
        while step > 1e-3:
            tries = here + step * rng.standard_normal((16, space.dim))
            around = space.canonical(tries)
            found = [f(space.decode(each)) for each in around]
            k = int(np.argmax(found))
            if found[k] > value:
                here, value = around[k], found[k]
            else:
                step *= 0.6
        best = max(best, float(value))
    return best


def flattened(space: rl.Space) -> rl.Space:
    """The space without conditions: every parameter is always there, and most are ignored."""
    return rl.Space({name: p.plain for name, p in space.parameters.items()})
