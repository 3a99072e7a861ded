"""`Graph`: nodes with labels and edges between them, such as networks and neural architectures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from numpy.random import Generator

from regretless._internal.shown import shown
from regretless._internal.validate import is_integer
from regretless.errors import SpaceError
from regretless.space.checks import set_fields
from regretless.space.lists import distinct, key
from regretless.space.orders import checked_sizes
from regretless.space.parameter import Scalar
from regretless.space.structured import Structured, View

LARGEST = 200
_ROUNDS = 2  # of Weisfeiler and Lehman
_LONGEST_WALK = 5  # nodes of a walk; fewer if it takes more than so many steps to find all walks:
_WALK_STEPS = 20_000


@dataclass(frozen=True)
class Graph(Structured, json="graph"):
    """A graph of labelled nodes: a network, a molecule, the cell of a neural architecture.

    A value is a dict with the labels of the nodes and the edges, as pairs of their numbers:
    `{"nodes": ["in", "conv", "out"], "edges": [[0, 1], [1, 2]]}`.  Edges of a directed graph lead
    from a smaller number to a larger one, so it has no cycles.  The model compares two graphs by
    the labels of the nodes, of their neighbours, and of the neighbours of these (Weisfeiler and
    Lehman), in one view for each of the three.  A fourth view has the sequences of labels along
    edges: which edges there are, and in small graphs which walks of up to five nodes.  The numbers
    of the nodes do not matter to the model.

    Args:
        labels: the labels that a node may have: distinct strings, finite numbers, bools or None.
        at_least: the smallest number of nodes, with the ends.
        at_most: the largest number of nodes; None for the same as `at_least`.
        directed: whether edges have a direction.
        ends: labels of the first and the last node, which every value has; None for none.
        most_edges: the largest number of edges; None for no limit.

    Raises:
        SpaceError: a label is repeated, not 1 <= at_least <= at_most <= 200, or `most_edges` is
            negative.

    Example:
        >>> cell = Graph(["conv", "pool"], 3, 5, directed=True, ends=("in", "out"))
        >>> cell.validate({"nodes": ["in", "conv", "out"], "edges": [[1, 2], [0, 1], [0, 1]]})
        {'edges': [[0, 1], [1, 2]], 'nodes': ['in', 'conv', 'out']}
    """

    labels: Listed[Scalar]
    at_least: int
    at_most: int | None = None
    directed: bool = False
    ends: Listed[Scalar] | None = None
    most_edges: int | None = None
    views: ClassVar[int] = 2 + _ROUNDS

    def __post_init__(self) -> None:
        sizes = checked_sizes("Graph", self.at_least, self.at_most, self.at_least, LARGEST)
        set_fields(self, labels=distinct("Graph", "labels", self.labels), **sizes)
        if not isinstance(self.directed, bool):
            raise SpaceError(f"Graph: directed must be True or False, got {shown(self.directed)}")
        if self.ends is not None:
            ends = distinct("Graph", "ends", self.ends)
            if len(ends) != 2:
                raise SpaceError(f"Graph: ends must be two labels, got {shown(self.ends)}")
            set_fields(self, ends=ends)
        if self.at_least < (2 if self.ends else 1):
            raise SpaceError(f"Graph: at_least is too small for the nodes, got {self.at_least}")
        most = self.most_edges
        if most is not None and not (is_integer(most) and not isinstance(most, bool) and most >= 0):
            raise SpaceError(f"Graph: most_edges must be a whole number >= 0, got {shown(most)}")

    @property
    def _most(self) -> int:
        assert self.at_most is not None
        return self.at_most

    @property
    def _inner(self) -> range:
        """How many nodes besides the ends there may be."""
        fixed = 2 if self.ends else 0
        return range(self.at_least - fixed, self._most - fixed + 1)

    @cached_property
    def _rank(self) -> dict[tuple[bool, Scalar], int]:
        return {key(label): k for k, label in enumerate(self.labels)}

    # -- values ------------------------------------------------------------------------------------

    def check(self, value: Any) -> dict[str, Any]:
        if not isinstance(value, dict) or value.keys() != {"nodes", "edges"}:
            raise SpaceError(f"need a dict of 'nodes' and 'edges', got {shown(value)}")
        nodes = list(value["nodes"])
        if not self.at_least <= len(nodes) <= self._most:
            raise SpaceError(
                f"need {self.at_least} to {self._most} nodes, got {len(nodes)}: {shown(nodes)}"
            )
        edges = sorted({self._edge(edge, len(nodes)) for edge in value["edges"]})
        if self.most_edges is not None and len(edges) > self.most_edges:
            raise SpaceError(f"need at most {self.most_edges} edges, got {len(edges)}")
        return {"nodes": self._checked_labels(nodes), "edges": [list(edge) for edge in edges]}

    def _checked_labels(self, nodes: list[Any]) -> list[Scalar]:
        first, last = ([nodes[0]], [nodes[-1]]) if self.ends else ([], [])
        if self.ends and [key(nodes[0]), key(nodes[-1])] != [key(end) for end in self.ends]:
            raise SpaceError(
                f"the first and the last node must be {shown(list(self.ends))}, got {shown(nodes)}"
            )
        inner = nodes[1:-1] if self.ends else nodes
        for label in inner:
            if not isinstance(label, str | int | float | None) or key(label) not in self._rank:
                raise SpaceError(f"need a label of {shown(list(self.labels))}, got {shown(label)}")
        return [*first, *(self.labels[self._rank[key(label)]] for label in inner), *last]

    def _edge(self, edge: Any, count: int) -> tuple[int, int]:
        pair = list(edge) if isinstance(edge, list | tuple) else []
        if len(pair) != 2 or not all(is_integer(i) and 0 <= i < count for i in pair):
            raise SpaceError(
                f"an edge must be two numbers of nodes from 0 to {count - 1}, got {shown(edge)}"
            )
        i, j = map(int, pair)
        if i == j or (self.directed and i > j):
            wanted = "to a larger number" if self.directed else "to another node"
            raise SpaceError(f"an edge must lead {wanted}, got {shown(edge)}")
        return min(i, j), max(i, j)

    def draw(self, rng: Generator) -> dict[str, Any]:
        sizes = self._inner
        inner = rng.integers(len(self.labels), size=int(rng.integers(sizes[0], sizes[-1] + 1)))
        nodes = [self.labels[k] for k in inner.tolist()]
        if self.ends:
            nodes = [self.ends[0], *nodes, self.ends[1]]
        pairs = [(i, j) for j in range(len(nodes)) for i in range(j)]
        most = len(pairs) if self.most_edges is None else min(self.most_edges, len(pairs))
        # About as many edges as nodes in a large graph, and any number in a small one.
        share = rng.random()
        chosen = [pair for pair in pairs if rng.random() < share]
        rng.shuffle(chosen)
        return _graph(nodes, chosen[:most])

    def neighbours(self, value: dict[str, Any], rng: Generator) -> Iterator[dict[str, Any]]:
        """An edge is added, left out or moved; a node gets another label, is added or left out."""
        nodes, edges = list(value["nodes"]), {(i, j) for i, j in value["edges"]}
        missing = [(i, j) for j in range(len(nodes)) for i in range(j) if (i, j) not in edges]
        inner = range(1, len(nodes) - 1) if self.ends else range(len(nodes))
        has_room = self.most_edges is None or len(edges) < self.most_edges
        kinds = ["label"] * 2 * (len(inner) > 0 and len(self.labels) > 1)
        kinds += ["join"] * 2 * (bool(missing) and has_room) + ["cut"] * 2 * bool(edges)
        kinds += ["move"] * 2 * bool(missing and edges)
        kinds += ["add"] * (len(inner) < self._inner[-1]) + ["drop"] * (len(inner) > self._inner[0])
        every = sorted(edges)
        while kinds:
            kind = kinds[rng.integers(len(kinds))]
            labels, pairs = list(nodes), set(edges)
            if kind in ("cut", "move"):
                pairs.remove(every[rng.integers(len(every))])
            if kind in ("join", "move"):
                pairs.add(missing[rng.integers(len(missing))])
            if kind == "label":
                i = inner[rng.integers(len(inner))]
                others = [label for label in self.labels if key(label) != key(labels[i])]
                labels[i] = others[rng.integers(len(others))]
            elif kind == "add":
                labels, pairs = self._with_node(labels, pairs, rng)
            elif kind == "drop":
                labels, pairs = _without_node(labels, pairs, inner[rng.integers(len(inner))])
            yield _graph(labels, pairs)

    def _with_node(
        self, nodes: list[Scalar], edges: set[tuple[int, int]], rng: Generator
    ) -> tuple[list[Scalar], set[tuple[int, int]]]:
        """The graph with one more node, which is in the middle of an edge if there is one."""
        low, high = (1, len(nodes) - 1) if self.ends else (0, len(nodes))
        at = int(rng.integers(low, high + 1))
        label = self.labels[int(rng.integers(len(self.labels)))]
        moved = {(i + (i >= at), j + (j >= at)) for i, j in edges}
        across = sorted((i, j) for i, j in moved if i < at < j)
        if across:
            i, j = across[rng.integers(len(across))]
            moved |= {(i, at)}
            if self.most_edges is None or len(moved) < self.most_edges:
                moved |= {(at, j)}
            if self.most_edges is not None and len(moved) > self.most_edges:
                moved.remove((i, at))
        return [*nodes[:at], label, *nodes[at:]], moved

    # -- features ----------------------------------------------------------------------------------

    def features(self, value: dict[str, Any]) -> tuple[View, ...]:
        nodes, views = [repr(label) for label in value["nodes"]], []
        before: list[list[int]] = [[] for _ in nodes]
        after: list[list[int]] = [[] for _ in nodes] if self.directed else before
        for i, j in value["edges"]:
            after[i].append(j)
            before[j].append(i)
        walks = self._walks(nodes, before)
        for _ in range(_ROUNDS + 1):
            views.append(Counter(nodes))
            nodes = [self._refined(nodes, i, before, after) for i in range(len(nodes))]
        return *views, walks

    def _walks(self, labels: list[str], before: list[list[int]]) -> Counter[Any]:
        """How many edges join two labels, and which longer sequences of labels are a walk."""
        walks: Counter[Any] = Counter(
            (labels[i], labels[j]) for j, others in enumerate(before) for i in others
        )
        ending: list[set[tuple[str, ...]]] = [{(label,)} for label in labels]
        for length in range(2, self._longest_walk + 1):
            ending = [
                {(*walk, labels[j]) for i in others for walk in ending[i]}
                for j, others in enumerate(before)
            ]
            if length > 2:
                walks.update({walk: 1 for each in ending for walk in each})
        return walks

    @cached_property
    def _longest_walk(self) -> int:
        """How many nodes a walk has: fewer if there are many labels or edges."""
        pairs = self._most * (self._most - 1) // 2
        edges = pairs if self.most_edges is None else min(pairs, self.most_edges)
        labels = len(self.labels) + (2 if self.ends else 0)
        length = 2
        while length < _LONGEST_WALK and edges * labels ** (length - 1) <= _WALK_STEPS:
            length += 1
        return length

    def _refined(
        self, labels: list[str], i: int, before: list[list[int]], after: list[list[int]]
    ) -> str:
        """The label of a node with those of its neighbours."""
        to = ",".join(sorted(labels[j] for j in after[i]))
        if not self.directed:
            return f"{labels[i]}({to})"
        return f"{labels[i]}({','.join(sorted(labels[j] for j in before[i]))}>{to})"


def _graph(nodes: list[Scalar], edges: Any) -> dict[str, Any]:
    return {"nodes": nodes, "edges": [list(edge) for edge in sorted(edges)]}


def _without_node(
    nodes: list[Scalar], edges: set[tuple[int, int]], at: int
) -> tuple[list[Scalar], set[tuple[int, int]]]:
    kept = {(i - (i > at), j - (j > at)) for i, j in edges if at not in (i, j)}
    return [*nodes[:at], *nodes[at + 1 :]], kept
