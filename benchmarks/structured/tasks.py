"""Problems with structured values whose best value is known."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from itertools import product
from typing import Any

import numpy as np
from numpy.random import Generator

from regretless import Graph, Permutation, Sequence, Structured, Subset, Tree

NOISE = 0.2  # in spreads
BUDGET = 100


@dataclass(frozen=True)
class Task:
    """A function of a structured value, to be maximised."""

    name: str
    kind: Structured
    f: Callable[[Any], float]
    best: float
    seed: int

    @property
    def spread(self) -> float:
        """The standard deviation of f over values drawn at random."""
        rng = np.random.default_rng([1, self.seed])
        return float(np.std([self.f(self.kind.draw(rng)) for _ in range(400)]))


def route(rng: Generator, seed: int) -> Task:
    """The travelling salesman: 15 to 25 towns in a square, and the length of the round trip."""
    n = int(rng.integers(15, 26))
    towns = rng.random((n, 2))
    far = np.linalg.norm(towns[:, None] - towns[None], axis=2)

    def f(order: list[int]) -> float:
        way = np.array(order)
        return -float(far[way, np.roll(way, -1)].sum())

    return Task("route", Permutation(list(range(n))), f, f(_shortest(far, rng)), seed)


def _shortest(far: Any, rng: Generator) -> list[int]:
    """The best of 60 random tours after exchanges of two edges, and moves of parts."""
    best, least = [], np.inf
    n = len(far)
    for _ in range(60):
        tour = rng.permutation(n).tolist()
        gained = True
        while gained:
            gained = False
            for i in range(n - 1):
                for j in range(i + 2, n - (i == 0)):
                    a, b, c, d = tour[i], tour[i + 1], tour[j], tour[(j + 1) % n]
                    if far[a, c] + far[b, d] < far[a, b] + far[c, d] - 1e-12:
                        tour[i + 1 : j + 1] = tour[i + 1 : j + 1][::-1]
                        gained = True
            for i in range(n):
                moved = _moved(tour, i, far)
                if moved is not None:
                    tour, gained = moved, True
        length = sum(far[tour[i], tour[(i + 1) % n]] for i in range(n))
        if length < least - 1e-12:
            best, least = tour, length
    return best


def _moved(tour: list[int], i: int, far: Any) -> list[int] | None:
    """The tour with town i at a better place; None if there is none."""
    n = len(tour)
    town, rest = tour[i], tour[:i] + tour[i + 1 :]
    before, after = tour[i - 1], tour[(i + 1) % n]
    saved = far[before, town] + far[town, after] - far[before, after]
    for j in range(n - 1):
        a, b = rest[j], rest[(j + 1) % (n - 1)]
        if far[a, town] + far[town, b] - far[a, b] < saved - 1e-12:
            return [*rest[: j + 1], town, *rest[j + 1 :]]
    return None


def assignment(rng: Generator, seed: int) -> Task:
    """Quadratic assignment: 15 machines with traffic between them, on places of a 3 x 5 floor."""
    n = 15
    traffic = np.triu(rng.exponential(1.0, (n, n)) * (rng.random((n, n)) < 0.3), 1)
    places = np.array([(i // 5, i % 5) for i in range(n)])
    far = np.abs(places[:, None] - places[None]).sum(axis=2)

    def f(order: list[int]) -> float:
        where = np.argsort(order)
        return -float((traffic * far[where][:, where]).sum())

    best = max(_swapped(rng.permutation(n).tolist(), f) for _ in range(80))
    return Task("assignment", Permutation(list(range(n))), f, best, seed)


def _swapped(order: list[int], f: Callable[[list[int]], float]) -> float:
    value, gained = f(order), True
    while gained:
        gained = False
        for i in range(len(order)):
            for j in range(i):
                order[i], order[j] = order[j], order[i]
                new = f(order)
                if new > value + 1e-12:
                    value, gained = new, True
                else:
                    order[i], order[j] = order[j], order[i]
    return value


def selection(rng: Generator, seed: int) -> Task:
    """At most 8 of 16 items, which have values of their own and in pairs; all are compared."""
    n = 16
    own = rng.normal(0.0, 1.0, n)
    pairs = np.triu(rng.normal(0.0, 1.0, (n, n)) * (rng.random((n, n)) < 0.15), 1)
    bits = (np.arange(2**n)[:, None] >> np.arange(n)) & 1
    few = bits[bits.sum(axis=1) <= 8].astype(float)
    every = few @ own + np.einsum("ij,ij->i", few @ pairs, few)

    def f(chosen: list[int]) -> float:
        on = np.zeros(n)
        on[chosen] = 1.0
        return float(on @ own + on @ pairs @ on)

    return Task("selection", Subset(list(range(n)), at_most=8), f, float(every.max()), seed)


def peptide(rng: Generator, seed: int) -> Task:
    """A peptide of 8 residues of 10 kinds: each place has its likes, and so have neighbours."""
    letters, n = "ACDEFGHIKL", 8
    likes = rng.normal(0.0, 1.0, (n, len(letters)))
    after = rng.normal(0.0, 0.5, (n - 1, len(letters), len(letters)))
    best = likes[0].copy()
    for i in range(1, n):  # dynamic programming: the best sequence that ends with each letter
        best = (best[:, None] + after[i - 1]).max(axis=0) + likes[i]

    def f(text: str) -> float:
        k = np.array([letters.index(letter) for letter in text])
        return float(likes[np.arange(n), k].sum() + after[np.arange(n - 1), k[:-1], k[1:]].sum())

    return Task("peptide", Sequence(letters, n), f, float(best.max()), seed)


def match(rng: Generator, seed: int) -> Task:
    """A hidden text of 6 to 10 letters: minus the edit distance to it."""
    letters = "abcd"
    target = "".join(rng.choice(list(letters), size=int(rng.integers(6, 11))))

    def f(text: str) -> float:
        return -float(_edits(text, target))

    return Task("match", Sequence(letters, 4, 12), f, 0.0, seed)


def _edits(a: str, b: str) -> int:
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


POINTS = np.linspace(-1.0, 1.0, 21)
LABELS = {"+": 2, "*": 2, "sin": 1, "x": 0, "1": 0}


def expression(rng: Generator, seed: int) -> Task:
    """Symbolic regression: an expression whose values are those of a hidden one, 7 to 11 nodes."""
    kind = Tree(LABELS, at_most=15)
    while True:
        hidden = kind.draw(rng)
        size = str(hidden).count("[")
        target = _values(hidden)
        if 7 <= size <= 11 and np.std(target) > 0.2:
            break

    def f(tree: list[Any]) -> float:
        error = float(np.sqrt(np.mean((_values(tree) - target) ** 2))) / float(np.std(target))
        return -float(np.log1p(error))

    return Task("expression", kind, f, 0.0, seed)


def _values(tree: list[Any]) -> Any:
    label, *branches = tree
    parts = [_values(branch) for branch in branches]
    if label == "sin":
        return np.sin(parts[0])
    if len(parts) == 2:
        return parts[0] + parts[1] if label == "+" else parts[0] * parts[1]
    return POINTS if label == "x" else np.ones_like(POINTS)


OPERATIONS = ("conv", "pool", "skip")


def cell(rng: Generator, seed: int) -> Task:
    """The cell of a network, 5 nodes between two ends: what its paths do, and what edges cost.

    The value is that of the best path from the input to the output, by its operations in order,
    plus a share of the second best, minus a cost for each edge.  All cells are compared.
    """
    ways = [ops for k in range(4) for ops in product(OPERATIONS, repeat=k)]
    worth = {ops: float(rng.normal(0.6 * len(ops), 1.0)) for ops in ways}
    cost = 0.15
    kind = Graph(OPERATIONS, 5, directed=True, ends=("in", "out"))

    def f(graph: dict[str, Any]) -> float:
        nodes, edges = graph["nodes"], [tuple(edge) for edge in graph["edges"]]
        values = sorted((worth[ops] for ops in _paths(nodes, edges)), reverse=True)
        top = values[0] if values else -2.0
        return top + 0.3 * max(0.0, values[1] if len(values) > 1 else 0.0) - cost * len(edges)

    pairs = [(i, j) for j in range(5) for i in range(j)]
    best = -np.inf
    for ops in product(OPERATIONS, repeat=3):
        nodes = ["in", *ops, "out"]
        for bits in range(2 ** len(pairs)):
            edges = [list(pair) for k, pair in enumerate(pairs) if bits >> k & 1]
            best = max(best, f({"nodes": nodes, "edges": edges}))
    return Task("cell", kind, f, float(best), seed)


def _paths(nodes: list[str], edges: list[Any]) -> set[tuple[str, ...]]:
    """The operations along each way from the first node to the last."""
    found: list[set[tuple[str, ...]]] = [{()}, *(set() for _ in nodes[1:])]
    for j in range(1, len(nodes)):
        for i, to in edges:
            if to == j:
                own = (nodes[j],) if j < len(nodes) - 1 else ()
                found[j] |= {(*way, *own) for way in found[i]}
    return found[-1]


TASKS = (route, assignment, selection, peptide, match, expression, cell)


@cache
def task(name: str, seed: int) -> Task:
    number, make = next((k, each) for k, each in enumerate(TASKS) if each.__name__ == name)
    return make(np.random.default_rng([number, seed]), seed)
