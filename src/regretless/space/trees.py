"""`Tree`: expressions, programs and other things that are built of parts within parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

from numpy.random import Generator

from regretless._internal.shown import shown
from regretless._internal.validate import is_integer
from regretless.errors import SpaceError
from regretless.space.checks import has_surrogates, set_fields
from regretless.space.structured import Structured, View

LARGEST = 1_000


@dataclass(frozen=True)
class Tree(Structured, json="tree"):
    """A tree of labelled nodes, in which a label says how many branches a node has.

    A value is a nested list: a label, followed by the branches.  A leaf is a list with its label
    alone.  The model compares two trees in three views, and learns which of them matter: how often
    each label occurs; how often a node has branches with these labels; and which whole subtrees
    occur (the subtree kernel).

    Args:
        labels: the number of branches of each label; a label with 0 is a leaf.
        at_most: the largest number of nodes.

    Raises:
        SpaceError: there is no leaf, a number of branches is not a whole number from 0 to 20, or
            `at_most` is not a whole number from 1 to 1000.

    Example:
        >>> expression = Tree({"+": 2, "*": 2, "x": 0, "1": 0}, at_most=7)
        >>> expression.validate(["+", ["x"], ["*", ["x"], ["1"]]])
        ['+', ['x'], ['*', ['x'], ['1']]]
    """

    labels: Mapping[str, int]
    at_most: int
    views: ClassVar[int] = 3

    def __post_init__(self) -> None:
        if not isinstance(self.labels, Mapping) or not self.labels:
            raise SpaceError(
                f"Tree: labels must map each label to its branches, got {shown(self.labels)}"
            )
        for label, branches in self.labels.items():
            if not isinstance(label, str) or has_surrogates(label):
                raise SpaceError(f"Tree: a label must be a text, got {shown(label)}")
            whole = is_integer(branches) and not isinstance(branches, bool)
            if not (whole and 0 <= branches <= 20):
                raise SpaceError(
                    f"Tree: {shown(label)} must have 0 to 20 branches, got {shown(branches)}"
                )
        if isinstance(self.at_most, bool) or not is_integer(self.at_most):
            raise SpaceError(f"Tree: at_most must be a whole number, got {shown(self.at_most)}")
        if not 1 <= self.at_most <= LARGEST:
            raise SpaceError(f"Tree: at_most must be 1 to {LARGEST}, got {self.at_most}")
        labels = {str(label): int(branches) for label, branches in self.labels.items()}
        set_fields(self, labels=labels, at_most=int(self.at_most))
        if not self._leaves:
            raise SpaceError(f"Tree: need a label without branches, got {shown(labels)}")

    def __hash__(self) -> int:
        return hash((tuple(self.labels.items()), self.at_most))

    @cached_property
    def _leaves(self) -> list[str]:
        return [label for label, branches in self.labels.items() if not branches]

    @cached_property
    def _inner(self) -> list[str]:
        return [label for label, branches in self.labels.items() if branches]

    def check(self, value: Any) -> list[Any]:
        tree = self._checked(value)
        size = _size(tree)
        if size > self.at_most:
            raise SpaceError(f"need at most {self.at_most} nodes, got {size}: {shown(value)}")
        return tree

    def _checked(self, value: Any, depth: int = 0) -> list[Any]:
        if not isinstance(value, list | tuple) or not value or depth > self.at_most:
            raise SpaceError(f"need a list of a label and its branches, got {shown(value)}")
        label, *branches = value
        if not isinstance(label, str) or label not in self.labels:
            raise SpaceError(f"need a label of {shown(list(self.labels))}, got {shown(label)}")
        if len(branches) != self.labels[label]:
            raise SpaceError(
                f"{shown(label)} has {self.labels[label]} branches, got {len(branches)}:"
                f" {shown(value)}"
            )
        return [label, *(self._checked(branch, depth + 1) for branch in branches)]

    def draw(self, rng: Generator) -> list[Any]:
        return self._grown(rng, int(rng.integers(1, self.at_most + 1)))

    def _grown(self, rng: Generator, room: int) -> list[Any]:
        """A tree of at most `room` nodes, and of about as many."""
        fitting = [label for label in self._inner if self.labels[label] < room]
        if not fitting:
            return [self._leaves[rng.integers(len(self._leaves))]]
        label = fitting[rng.integers(len(fitting))]
        branches = self.labels[label]
        spare = room - 1 - branches
        shares = rng.multinomial(spare, [1.0 / branches] * branches).tolist()
        return [label, *(self._grown(rng, 1 + share) for share in shares)]

    def neighbours(self, value: list[Any], rng: Generator) -> Iterator[list[Any]]:
        """A node gets another label, or a subtree is replaced by a small one, lifted or wrapped."""
        paths = list(_paths(value))
        size = len(paths)
        while True:
            path = paths[rng.integers(size)]
            node = _at(value, path)
            new = self._changed(node, rng, self.at_most - size)
            if new is not None and new != node:
                yield _with(value, path, new)
            elif size == 1 and len(self.labels) == 1:
                return  # there is no other tree

    def _changed(self, node: list[Any], rng: Generator, spare: int) -> list[Any] | None:
        """Another subtree in place of this one, which may have `spare` more nodes."""
        branches = node[1:]
        kind = rng.integers(4)
        if kind == 0:  # another label with as many branches
            same = [other for other, n in self.labels.items() if n == len(branches)]
            return [same[rng.integers(len(same))], *branches]
        if kind == 1:  # a small tree
            return self._grown(rng, min(int(rng.integers(1, 6)), spare + _size(node)))
        if kind == 2:  # a branch takes the place of the node
            return branches[rng.integers(len(branches))] if branches else None
        # The node becomes a branch of a new one; the other branches are leaves.
        fitting = [other for other in self._inner if self.labels[other] <= spare]
        if not fitting:
            return None
        other = fitting[rng.integers(len(fitting))]
        new = [self._grown(rng, 1) for _ in range(self.labels[other])]
        new[rng.integers(len(new))] = node
        return [other, *new]

    def features(self, value: list[Any]) -> tuple[View, ...]:
        labels: Counter[Any] = Counter()
        parts: Counter[Any] = Counter()
        subtrees: Counter[Any] = Counter()

        def count(node: list[Any]) -> str:
            label, *branches = node
            labels[label] += 1
            parts[label, tuple(branch[0] for branch in branches)] += 1
            text = f"{label!r}({','.join(map(count, branches))})"
            subtrees[text] += 1
            return text

        count(value)
        return labels, parts, subtrees


def _size(tree: list[Any]) -> int:
    return 1 + sum(_size(branch) for branch in tree[1:])


def _paths(tree: list[Any], path: tuple[int, ...] = ()) -> Iterator[tuple[int, ...]]:
    """The way to each node: the numbers of the branches."""
    yield path
    for i, branch in enumerate(tree[1:], 1):
        yield from _paths(branch, (*path, i))


def _at(tree: list[Any], path: tuple[int, ...]) -> list[Any]:
    for i in path:
        tree = tree[i]
    return tree


def _with(tree: list[Any], path: tuple[int, ...], new: list[Any]) -> list[Any]:
    """The tree with another subtree at the end of the path; the old one does not change."""
    if not path:
        return new
    i, *rest = path
    return [*tree[:i], _with(tree[i], tuple(rest), new), *tree[i + 1 :]]
