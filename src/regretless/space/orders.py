"""Orders and selections of given items: `Permutation` and `Subset`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations, permutations
from math import comb, factorial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from regretless._internal.shown import shown
from regretless._internal.validate import is_integer
from regretless.errors import SpaceError
from regretless.space.checks import set_fields
from regretless.space.lists import distinct, key
from regretless.space.parameter import Scalar
from regretless.space.structured import Structured, View

MOST_ITEMS = 300  # of a permutation, which is compared pair by pair


class _Arranged(Structured):
    """The base of kinds whose values are lists of given items."""

    items: Sequence[Scalar]

    @cached_property
    def _rank(self) -> dict[tuple[bool, Scalar], int]:
        return {key(item): k for k, item in enumerate(self.items)}

    def _ranks(self, value: Any) -> list[int]:
        """The numbers of the items, each of which may occur once."""
        if isinstance(value, str) or not isinstance(value, Iterable):
            raise SpaceError(f"need a list of items, got {shown(value)}")
        ranks = []
        for item in value:
            item = item.item() if isinstance(item, np.generic) else item
            try:
                ranks.append(self._rank[key(item)])
            except (KeyError, TypeError):
                raise SpaceError(f"{shown(item)} is not one of the items") from None
        if len(set(ranks)) < len(ranks):
            raise SpaceError(f"an item is repeated in {shown(value)}")
        return ranks

    def _items_at(self, ranks: Iterable[int]) -> list[Scalar]:
        return [self.items[k] for k in ranks]


@dataclass(frozen=True)
class Permutation(_Arranged, json="permutation"):
    """An order of given items: a route, a schedule, a ranking, an assignment to places.

    A value is a list of all items.  The model compares two orders in four views, and learns which
    of them matter: which of two items comes first (Mallows' kernel, which counts the pairs that two
    orders disagree on, as Kendall's distance does), which place each item has, which item follows
    which, and which items are neighbours.  The first item counts as the neighbour of the last.

    Args:
        items: a list of distinct strings, finite numbers, bools or None.

    Raises:
        SpaceError: the list is empty, or an item is repeated or of another type.

    Example:
        >>> route = Permutation(["depot", "mill", "farm"])
        >>> route.validate(("mill", "depot", "farm"))
        ['mill', 'depot', 'farm']
        >>> route.decode(route.encode(["mill", "depot", "farm"]))
        ['mill', 'depot', 'farm']
    """

    items: Sequence[Scalar]
    views: ClassVar[int] = 4

    def __post_init__(self) -> None:
        set_fields(self, items=distinct("Permutation", "items", self.items))
        if len(self.items) > MOST_ITEMS:
            raise SpaceError(f"Permutation: need at most {MOST_ITEMS} items, got {len(self.items)}")

    @property
    def values_in_all(self) -> int:
        return factorial(min(len(self.items), 20))

    def every(self) -> Iterator[list[Scalar]]:
        return (list(order) for order in permutations(self.items))

    def check(self, value: Any) -> list[Scalar]:
        ranks = self._ranks(value)
        if len(ranks) < len(self.items):
            missing = [item for k, item in enumerate(self.items) if k not in ranks]
            raise SpaceError(f"{shown(missing)} is missing in {shown(value)}")
        return self._items_at(ranks)

    def draw(self, rng: Generator) -> list[Scalar]:
        return self._items_at(rng.permutation(len(self.items)).tolist())

    def neighbours(self, value: list[Scalar], rng: Generator) -> Iterator[list[Scalar]]:
        """Two items are swapped, one is moved to another place, or a part is reversed."""
        n = len(value)
        while n > 1:
            i, j = sorted(rng.choice(n, size=2, replace=False).tolist())
            kind = rng.integers(4)
            if kind == 0:
                middle = [value[j], *value[i + 1 : j], value[i]]
            elif kind == 1:
                middle = [*value[i + 1 : j + 1], value[i]]
            elif kind == 2:
                middle = [value[j], *value[i:j]]
            else:
                middle = value[i : j + 1][::-1]
            yield [*value[:i], *middle, *value[j + 1 :]]

    def features(self, value: list[Scalar]) -> tuple[View, ...]:
        order = np.array(self._ranks(value))
        n = len(order)
        place = np.argsort(order)
        first, second = self._pairs
        before = np.sign(place[second] - place[first])
        after = np.append(order[1:], order[0])
        return (
            before,
            _ones(order * n + np.arange(n)),
            _ones(order * n + after),
            _ones(np.minimum(order, after) * n + np.maximum(order, after)),
        )

    @cached_property
    def _pairs(self) -> tuple[Any, Any]:
        return np.triu_indices(len(self.items), k=1)


@dataclass(frozen=True)
class Subset(_Arranged, json="subset"):
    """A selection of given items: features of a model, members of a team, options that are on.

    A value is a list of items, in the order in which the items were given.  The model compares two
    selections in two views: the items that are in one of them only (the Hamming distance), and how
    large they are.

    Args:
        items: a list of distinct strings, finite numbers, bools or None.
        at_least: the smallest number of items in a value.
        at_most: the largest number of items in a value; None for all items.

    Raises:
        SpaceError: the list is empty, an item is repeated or of another type, or not 0 <= at_least
            <= at_most <= the number of items.

    Example:
        >>> crew = Subset(["Ann", "Bo", "Cy"], at_least=1, at_most=2)
        >>> crew.validate(["Cy", "Ann"])
        ['Ann', 'Cy']
        >>> crew.values_in_all
        6
    """

    items: Sequence[Scalar]
    at_least: int = 0
    at_most: int | None = None
    views: ClassVar[int] = 2

    def __post_init__(self) -> None:
        set_fields(self, items=distinct("Subset", "items", self.items))
        count = len(self.items)
        set_fields(self, **checked_sizes("Subset", self.at_least, self.at_most, count, count))

    @property
    def _most(self) -> int:
        assert self.at_most is not None
        return self.at_most

    @property
    def _sizes(self) -> range:
        return range(self.at_least, self._most + 1)

    @property
    def values_in_all(self) -> int:
        return sum(comb(len(self.items), size) for size in self._sizes)

    def every(self) -> Iterator[list[Scalar]]:
        return map(list, chain.from_iterable(combinations(self.items, n) for n in self._sizes))

    def check(self, value: Any) -> list[Scalar]:
        ranks = sorted(self._ranks(value))
        if not self.at_least <= len(ranks) <= self._most:
            raise SpaceError(
                f"need {self.at_least} to {self._most} items, got {len(ranks)}: {shown(value)}"
            )
        return self._items_at(ranks)

    def draw(self, rng: Generator) -> list[Scalar]:
        size = int(rng.integers(self.at_least, self._most + 1))
        return self._items_at(sorted(rng.permutation(len(self.items))[:size].tolist()))

    def neighbours(self, value: list[Scalar], rng: Generator) -> Iterator[list[Scalar]]:
        """An item is added, left out, or replaced by another."""
        inside = set(self._ranks(value))
        outside = [k for k in range(len(self.items)) if k not in inside]
        size = len(inside)
        kinds = []
        if size < self._most and outside:
            kinds.append((0, 1))
        if size > self.at_least:
            kinds.append((1, 0))
        if inside and outside:
            kinds.append((1, 1))
        while kinds:
            fewer, more = kinds[rng.integers(len(kinds))]
            new = set(inside)
            if fewer:
                new.remove(int(rng.choice(sorted(inside))))
            if more:
                new.add(int(rng.choice(outside)))
            yield self._items_at(sorted(new))

    def features(self, value: list[Scalar]) -> tuple[View, ...]:
        chosen = np.zeros(len(self.items))
        chosen[self._ranks(value)] = 1.0
        return chosen, np.array([float(len(value))])


def _ones(numbers: Any) -> dict[int, int]:
    return dict.fromkeys(numbers.tolist(), 1)


def checked_sizes(
    owner: str, at_least: object, at_most: object, usual: object, largest: int
) -> dict[str, int]:
    """The smallest and the largest size of values, as whole numbers; `usual` is `at_most`."""
    sizes = {"at_least": at_least, "at_most": usual if at_most is None else at_most}
    for name, size in sizes.items():
        if isinstance(size, bool) or not is_integer(size):
            raise SpaceError(f"{owner}: {name} must be a whole number, got {shown(size)}")
    whole = {name: int(size) for name, size in sizes.items()}  # type: ignore[call-overload]
    if not 0 <= whole["at_least"] <= whole["at_most"] <= largest:
        raise SpaceError(
            f"{owner}: need 0 <= at_least <= at_most <= {largest}, got"
            f" at_least={shown(whole['at_least'])} and at_most={shown(whole['at_most'])}"
        )
    return whole
