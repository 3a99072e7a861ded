"""What people use without a model: random local search, and a genetic algorithm."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import numpy as np
from benchmarks.structured.tasks import Task
from numpy.random import Generator

import regretless as rl

Evaluate = Callable[[Any], float]


DEFAULTS = 5  # the version of our defaults


def ours(policy: str) -> Callable[[Task, int, int, Evaluate], None]:
    def run(task: Task, seed: int, budget: int, evaluate: Evaluate) -> None:
        space = rl.Space({"value": task.kind})
        optimizer = rl.Optimizer(space, budget, seed=seed, policy=policy, defaults=DEFAULTS)
        for trial in optimizer:
            optimizer.tell(trial, evaluate(trial.params["value"]))

    return run


def local_search(task: Task, seed: int, budget: int, evaluate: Evaluate) -> None:
    """The best of the first tenth, drawn at random; then neighbours, each kept if it is better.

    Every tenth evaluation repeats the value that is kept, so that a lucky result does not last.
    """
    rng, start = np.random.default_rng([2, seed]), max(1, budget // 10)
    drawn = [task.kind.draw(rng) for _ in range(start)]
    values = [evaluate(value) for value in drawn]
    kept, sums, count = drawn[int(np.argmax(values))], max(values), 1
    for step in range(budget - start):
        if step % 10 == 9:
            sums, count = sums + evaluate(kept), count + 1
            continue
        new = next(iter(task.kind.neighbours(kept, rng)), kept)
        value = evaluate(new)
        if value > sums / count:
            kept, sums, count = new, value, 1


def genetic(task: Task, seed: int, budget: int, evaluate: Evaluate) -> None:
    """Ten parents, tournaments of two, crossover and mutation; a child replaces the worst."""
    rng, size = np.random.default_rng([3, seed]), 10
    people = [task.kind.draw(rng) for _ in range(size)]
    fitness = [evaluate(each) for each in people]
    for _ in range(budget - size):
        one, two = (_winner(fitness, rng) for _ in range(2))
        child = _crossed(task.kind, people[one], people[two], rng)
        if child is None or rng.random() < 0.5 or child in people:
            base = people[one] if child is None else child
            child = next(iter(task.kind.neighbours(base, rng)), base)
        value = evaluate(child)
        worst = int(np.argmin(fitness))
        if value > fitness[worst]:
            people[worst], fitness[worst] = child, value


def _winner(fitness: list[float], rng: Generator) -> int:
    return max(rng.choice(len(fitness), size=2, replace=False).tolist(), key=fitness.__getitem__)


def _crossed(kind: rl.Structured, a: Any, b: Any, rng: Generator) -> Any:
    """A child of two values, by the usual crossover of their kind; None if there is none."""
    if isinstance(kind, rl.Permutation):  # order crossover
        i, j = sorted(rng.choice(len(a) + 1, size=2, replace=False).tolist())
        middle = a[i:j]
        rest = [item for item in b if item not in middle]
        return [*rest[:i], *middle, *rest[i:]]
    if isinstance(kind, rl.Subset):  # uniform
        both = [item for item in kind.items if (item in a if rng.random() < 0.5 else item in b)]
        return both if kind.at_least <= len(both) <= (kind.at_most or 0) else None
    if isinstance(kind, rl.Sequence):  # one point
        cut = int(rng.integers(1, max(2, min(len(a), len(b)))))
        return a[:cut] + b[cut:]
    if isinstance(kind, rl.Tree):  # exchange of subtrees
        return next(iter(islice(_exchanged(kind, a, b, rng), 1)), None)
    nodes = [x if rng.random() < 0.5 else y for x, y in zip(a["nodes"], b["nodes"], strict=False)]
    if len(a["nodes"]) != len(b["nodes"]):
        return None
    every = sorted({tuple(edge) for edge in [*a["edges"], *b["edges"]]})
    edges = [e for e in every if list(e) in (a if rng.random() < 0.5 else b)["edges"]]
    return {"nodes": nodes, "edges": [list(edge) for edge in edges]}


def _exchanged(kind: rl.Tree, a: Any, b: Any, rng: Generator) -> Iterator[Any]:
    for _ in range(10):
        child = _grafted(a, _part(b, rng), rng)
        if str(child).count("[") <= kind.at_most:
            yield child


def _part(tree: Any, rng: Generator) -> Any:
    while len(tree) > 1 and rng.random() < 0.7:
        tree = tree[int(rng.integers(1, len(tree)))]
    return tree


def _grafted(tree: Any, part: Any, rng: Generator) -> Any:
    if len(tree) == 1 or rng.random() < 0.3:
        return part
    i = int(rng.integers(1, len(tree)))
    return [*tree[:i], _grafted(tree[i], part, rng), *tree[i + 1 :]]


TOOLS = {
    "regretless": ours("ids"),
    "regretless (eic)": ours("eic"),
    "regretless (ei)": ours("ei"),
    "regretless (gp-ucb)": ours("gp-ucb"),
    "regretless (gp-ts)": ours("gp-ts"),
    "local search": local_search,
    "genetic algorithm": genetic,
}
