"""`Sequence`: texts and lists over an alphabet, such as peptides, codes and regular expressions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from collections.abc import Sequence as Listed
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, product
from typing import Any

import numpy as np
from numpy.random import Generator

from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.checks import set_fields
from regretless.space.lists import distinct, key
from regretless.space.orders import checked_sizes
from regretless.space.parameter import Scalar
from regretless.space.structured import Structured, View

LONGEST = 1_000


@dataclass(frozen=True)
class Sequence(Structured, json="sequence"):
    """A sequence of letters, in which a letter may occur any number of times.

    A value is a text if every letter is a text of one character, and a list otherwise.  The model
    compares two sequences in three views, and learns which of them matter: the letter at each
    place, counted from the start; the letter at each place, counted from the end; and how often
    each run of one to three letters occurs (the spectrum kernel).

    Args:
        alphabet: the letters: a text, or a list of distinct strings, finite numbers, bools or None.
        at_least: the shortest length.
        at_most: the longest length; None for the same as `at_least`.

    Raises:
        SpaceError: a letter is repeated, or not 0 <= at_least <= at_most, or at_most is 0 or above
            1000.

    Example:
        >>> peptide = Sequence("ACDEFGHIKLMNPQRSTVWY", at_least=8)
        >>> peptide.validate("MKTAYIAK")
        'MKTAYIAK'
        >>> steps = Sequence(["blur", "crop", "flip"], at_least=0, at_most=4)
        >>> steps.validate(["flip", "flip"])
        ['flip', 'flip']
    """

    alphabet: str | Listed[Scalar]
    at_least: int
    at_most: int | None = None

    def __post_init__(self) -> None:
        letters = list(self.alphabet) if isinstance(self.alphabet, str) else self.alphabet
        sizes = checked_sizes("Sequence", self.at_least, self.at_most, self.at_least, LONGEST)
        set_fields(self, alphabet=distinct("Sequence", "alphabet", letters), **sizes)
        if not self._most:
            raise SpaceError("Sequence: at_most must be at least 1, got 0")

    @property
    def views(self) -> int:  # type: ignore[override]
        return 2 if self.at_least == self.at_most else 3  # places from the end say nothing new

    @property
    def _most(self) -> int:
        assert self.at_most is not None
        return self.at_most

    @cached_property
    def _rank(self) -> dict[tuple[bool, Scalar], int]:
        return {key(letter): k for k, letter in enumerate(self.alphabet)}

    @cached_property
    def _is_text(self) -> bool:
        return all(isinstance(letter, str) and len(letter) == 1 for letter in self.alphabet)

    @property
    def values_in_all(self) -> int:
        letters = len(self.alphabet)
        return sum(letters ** min(n, 20) for n in range(self.at_least, self._most + 1))

    def every(self) -> Iterator[Any]:
        lengths = range(self.at_least, self._most + 1)
        each = (product(range(len(self.alphabet)), repeat=n) for n in lengths)
        return (self._written_out(letters) for letters in chain.from_iterable(each))

    def _written_out(self, ranks: Iterable[int]) -> Any:
        letters = [self.alphabet[k] for k in ranks]
        return "".join(map(str, letters)) if self._is_text else letters

    def _ranks(self, value: Any) -> list[int]:
        try:
            return [self._rank[key(letter)] for letter in value]
        except (KeyError, TypeError):
            raise SpaceError(
                f"need letters of {shown(list(self.alphabet))}, got {shown(value)}"
            ) from None

    def check(self, value: Any) -> Any:
        if isinstance(value, str) and not self._is_text:
            raise SpaceError(f"need a list of letters, got {shown(value)}")
        ranks = self._ranks(value)
        if not self.at_least <= len(ranks) <= self._most:
            raise SpaceError(
                f"need {self.at_least} to {self._most} letters, got {len(ranks)}: {shown(value)}"
            )
        return self._written_out(ranks)

    def draw(self, rng: Generator) -> Any:
        length = int(rng.integers(self.at_least, self._most + 1))
        return self._written_out(rng.integers(len(self.alphabet), size=length).tolist())

    def neighbours(self, value: Any, rng: Generator) -> Iterator[Any]:
        """A letter is replaced, added, left out, or swapped with another."""
        ranks, letters = self._ranks(value), len(self.alphabet)
        n = len(ranks)
        kinds = ["replace"] * 3 * (n > 0 and letters > 1)
        kinds += ["add"] * (n < self._most) + ["drop"] * (n > self.at_least) + ["swap"] * (n > 1)
        while kinds:
            new, kind = list(ranks), kinds[rng.integers(len(kinds))]
            if kind == "add":
                new.insert(int(rng.integers(n + 1)), int(rng.integers(letters)))
            elif kind == "drop":
                del new[rng.integers(n)]
            elif kind == "swap":
                i, j = rng.choice(n, size=2, replace=False).tolist()
                new[i], new[j] = new[j], new[i]
            else:
                i = int(rng.integers(n))
                new[i] = (new[i] + int(rng.integers(1, letters))) % letters
            yield self._written_out(new)

    def features(self, value: Any) -> tuple[View, ...]:
        ranks = np.array(self._ranks(value), dtype=int)
        n, letters = len(ranks), len(self.alphabet)
        at = np.arange(n) * letters
        runs = Counter(ranks.tolist())
        for k in (2, 3):
            coded = sum(ranks[i : n - k + 1 + i] * letters**i for i in range(k)) if n >= k else None
            if coded is not None:
                runs.update((np.asarray(coded) + k * letters**3).tolist())
        start = dict.fromkeys((at + ranks).tolist(), 1)
        if self.views == 2:
            return start, runs
        return start, dict.fromkeys((at + ranks[::-1]).tolist(), 1), runs
