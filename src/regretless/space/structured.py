"""`Structured`: parameters whose values have parts, such as permutations, sequences and graphs.

A kind says how to draw a value, which values are its neighbours, and which features it has.  The
rest is the same for all kinds, and is here.

Values are plain JSON: texts, numbers, lists and dicts.  They have no natural place in [0, 1].  So
the coordinate of a value is a *name*: 52 bits of a hash of its JSON.  The parameter remembers which
value has which name.  A coordinate that is no name stands for the value that is drawn with this
number as the seed.  So `decode` is a function of the coordinate, and spreading uniform numbers
over [0, 1] draws values.
"""

from __future__ import annotations

import copy
import json
import threading
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import blake2b
from itertools import islice
from typing import Any, ClassVar, TypeAlias

import numpy as np
import numpy.typing as npt
from numpy.random import Generator, default_rng

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.kernels import Kernel, Product, Views
from regretless.space.parameter import Parameter
from regretless.space.scales import Indices, Levels
from regretless.space.space import Space

View: TypeAlias = Mapping[Any, float] | npt.NDArray[Any]

_BITS = 52
_DRAWN = 20_000  # values that were drawn and not used stay in memory as long as so many are newer
_LISTED = 2_048  # a kind with so many values can list them, and is then searched completely
_MOVES = 16  # neighbours of a value that a search tries at once
_SAMPLE = 24  # values whose distances give a view its unit
_KEPT_TABLES = 8  # tables of distances and cosines that are kept


class Structured(Parameter):
    """The base class of parameters whose values have parts: orders, sequences, trees, graphs.

    To add a kind, write a frozen dataclass with three methods, `class Mine(Structured,
    json="mine")`.  Its fields are its arguments, and are stored as JSON.

    - `draw(rng)` returns a value at random;
    - `neighbours(value, rng)` yields values that differ by one small change, in any order;
    - `features(value)` returns the numbers by which the model compares two values: a dict that
      counts the parts of the value, or an array.  Values with similar features should have similar
      results.  With `views = 2` it returns a tuple of two of these, and the model learns which one
      matters.

    Values are plain JSON: a text, a number, or a list or dict of such.  `check(value)` returns the
    value that is meant, and raises SpaceError if there is none; write it to refuse bad input.
    `read` and `write` translate if another type of object suits the methods better than plain JSON.

    Example:
        >>> from dataclasses import dataclass
        >>> import regretless as rl
        >>> @dataclass(frozen=True)
        ... class Switches(rl.Structured, json="switches"):
        ...     count: int
        ...
        ...     def draw(self, rng):
        ...         return rng.integers(2, size=self.count).tolist()
        ...
        ...     def neighbours(self, value, rng):
        ...         for i in rng.permutation(self.count):
        ...             yield [1 - on if j == i else on for j, on in enumerate(value)]
        ...
        ...     def features(self, value):
        ...         return {(i, on): 1 for i, on in enumerate(value)}
        >>> space = rl.Space({"switches": Switches(12)})
        >>> result = rl.maximize(lambda params: sum(params["switches"]), space, budget=40)
        >>> result.best.mean > 9
        True
    """

    has_order: ClassVar[bool] = False
    views: ClassVar[int] = 1  # the number of dicts or arrays that `features` returns

    # -- what a kind has to say --------------------------------------------------------------------

    @abstractmethod
    def draw(self, rng: Generator) -> Any:
        """A value at random.

        Args:
            rng: the generator to draw from.
        """

    @abstractmethod
    def neighbours(self, value: Any, rng: Generator) -> Iterable[Any]:
        """Values that differ from this one by a small change, in random order; perhaps endless.

        Args:
            value: a valid value.
            rng: the generator to draw from.
        """

    @abstractmethod
    def features(self, value: Any) -> View | tuple[View, ...]:
        """The numbers by which the model compares two values.

        Args:
            value: a valid value.
        """

    def check(self, value: Any) -> Any:
        """The valid value that is meant.

        The default accepts whatever `read` accepts.

        Args:
            value: what a user gave.

        Raises:
            SpaceError: the value is not valid.  Its message need not name the parameter.
        """
        return value

    def read(self, plain: Any) -> Any:
        """The object that the methods above work with, from plain JSON; the default keeps it.

        Args:
            plain: plain JSON types.
        """
        return plain

    def write(self, value: Any) -> Any:
        """Plain JSON from an object that the methods above work with; the default keeps it.

        Args:
            value: a valid value.
        """
        return value

    @property
    def values_in_all(self) -> int | None:
        """The number of values, if it is known."""
        return None

    def every(self) -> Iterator[Any]:
        """All values; needed if `values_in_all` is known and small."""
        raise NotImplementedError

    # -- the parameter -----------------------------------------------------------------------------

    @property
    def kind(self) -> str:
        return "structured"

    @property
    def is_choice(self) -> bool:
        return False  # a choice says nothing about the others; here similar values do

    @cached_property
    def scale(self) -> Levels:
        return Names(self._known)

    def validate(self, value: object, name: str = "value") -> Any:
        return json.loads(self._text(value, name))

    def encode(self, value: Any) -> float:
        return self._known.keep(self._text(value))

    def decode(self, u: float) -> Any:
        return json.loads(self._known.text(u))

    def moves(self, u: float) -> Array:
        return self.moved(u, _rng(self._known.name(u)), _MOVES)

    def moved(self, u: float, rng: Generator, count: int) -> Array:
        """The coordinates of at most `count` neighbours, drawn at random.

        Args:
            u: the coordinate of a value.
            rng: the generator to draw from.
            count: the largest number of neighbours.
        """
        here = self._known.name(u)
        around = islice(self.neighbours(self._object(here), rng), count)
        names = dict.fromkeys(self._known.add(self._written(value)) for value in around)
        return np.array([name for name in names if name != here])

    def places(self) -> Array:
        return np.array([self._known.add(self._written(value)) for value in self.every()])

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel:
        each = {column: p for column, p in columns.items() if isinstance(p, Structured)}
        parts = [Views((1.0,) * p.views, column, p) for column, p in each.items()]
        return parts[0] if len(parts) == 1 else Product(tuple(parts))

    def _value(self, k: int) -> Any:
        raise NotImplementedError  # the values have no numbers

    def _index(self, value: Any) -> int:
        raise NotImplementedError

    # -- names -------------------------------------------------------------------------------------

    @cached_property
    def _known(self) -> Store:
        return Store(self)

    def drawn(self, rng: Generator) -> str:
        """The JSON of a value at random.

        Args:
            rng: the generator to draw from.
        """
        return self._written(self.draw(rng))

    def _text(self, value: object, name: str = "value") -> str:
        """The JSON of a value that a user gave."""
        try:
            return self._written(self.check(self.read(copy.deepcopy(value))))
        except SpaceError as error:
            raise SpaceError(f"{name}: {error}") from None
        except (TypeError, ValueError, KeyError, IndexError, AttributeError, RecursionError):
            kind = type(self).__name__
            raise SpaceError(f"{name}: need a value of {kind}, got {shown(value)}") from None

    def _written(self, value: Any) -> str:
        """The JSON of a valid value; the same for equal values."""
        return json.dumps(self.write(value), allow_nan=False, separators=(",", ":"), sort_keys=True)

    def _object(self, u: float) -> Any:
        return self.read(json.loads(self._known.text(u)))

    # -- features, for the kernel ------------------------------------------------------------------

    def distances(self, u: Array, v: Array) -> tuple[Array, ...]:
        """Half the squared distances of the features, view by view, in units of the view.

        The unit is the mean distance of two values that are drawn at random.

        Args:
            u: coordinates of values.
            v: coordinates of values.
        """
        return self._measured.distances(u, v)

    def cosines(self, u: Array, v: Array) -> tuple[Array, ...]:
        """The cosines of the angles between the features, view by view.

        Args:
            u: coordinates of values.
            v: coordinates of values.
        """
        return self._measured.cosines(u, v)

    def sizes(self, u: Array) -> tuple[Array, ...]:
        """Half the squared lengths of the features, view by view, in units of the view.

        Args:
            u: coordinates of values.
        """
        return self._measured.sizes(u)

    def projected(self, u: Array, keys: tuple[int, ...], count: int) -> tuple[Array, ...]:
        """Random projections of the features, for the kernel.

        Args:
            u: coordinates of values.
            keys: the seeds of the projections, one for each view.
            count: how many projections to draw.
        """
        return self._measured.projected(u, keys, count)

    @cached_property
    def _measured(self) -> Measured:
        rng = default_rng(0)
        sample = [self._known.add(self.drawn(rng)) for _ in range(_SAMPLE)]
        return Measured(self._bags, self.views, np.array(sample))

    def _bags(self, u: float) -> tuple[Bag, ...]:
        found = self.features(self._object(u))
        return tuple(Bag.of(view) for view in (found if isinstance(found, tuple) else (found,)))

    def __getstate__(self) -> dict[str, Any]:
        return {key: value for key, value in vars(self).items() if key != "_measured"}


def has_structure(space: Space) -> bool:
    """Whether some parameter of the space is structured.

    Example:
        >>> import regretless as rl
        >>> has_structure(rl.Space({"x": rl.Float(0.0, 1.0)}))
        False
    """
    return any(isinstance(parameter.plain, Structured) for parameter in space.columns)


class Store:
    """Values as JSON, by their names.  Those that were used are kept, and those drawn for a while.

    Threads may share it.

    Args:
        owner: the parameter.
    """

    def __init__(self, owner: Structured) -> None:
        self._owner = owner
        self._used: dict[float, str] = {}
        self._drawn: OrderedDict[float, str] = OrderedDict()
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[Any, ...]:
        return _stored, (self._owner, self._used)  # locks can't be pickled

    @cached_property
    def count(self) -> int | None:
        """The number of values, if there are few."""
        count = self._owner.values_in_all
        return count if count is not None and count <= _LISTED else None

    def keep(self, text: str) -> float:
        """The name of a value that was used; it is known from now on."""
        name = _name_of(text)
        if self._used.setdefault(name, text) != text:  # never, by any human measure: 2^-52
            raise SpaceError(f"two values have the same name: {shown(text)}")
        return name

    def add(self, text: str) -> float:
        """The name of a value that was drawn; it is known for a while."""
        name = _name_of(text)
        if name not in self._used:
            with self._lock:
                self._drawn[name] = text
                if len(self._drawn) > 2 * _DRAWN:
                    for _ in range(_DRAWN):
                        self._drawn.popitem(last=False)
        return name

    def text(self, u: float) -> str:
        """The value of a name; of another coordinate, the value that is drawn with it as seed."""
        found = self._used.get(u) or self._drawn.get(u)
        return self._owner.drawn(_rng(u)) if found is None else found

    def name(self, u: float) -> float:
        """The coordinate of the value that u stands for."""
        return u if u in self._used or u in self._drawn else self.add(self._owner.drawn(_rng(u)))


def _stored(owner: Structured, used: dict[float, str]) -> Store:
    store = Store(owner)
    store._used.update(used)
    return store


@dataclass(frozen=True, eq=False)
class Names(Levels):
    """The names of values as levels without an order or a number."""

    store: Store

    @property
    def count(self) -> int | None:  # type: ignore[override]
        return self.store.count

    @property
    def levels(self) -> None:
        return None

    def place(self, k: Indices) -> Array:
        raise NotImplementedError

    nearest = share = place  # type: ignore[assignment]

    def snap(self, u: Array) -> Array:
        names = [self.store.name(float(each)) for each in np.clip(u, 0.0, 1.0).ravel()]
        return np.array(names).reshape(u.shape)

    spread = snap


def _name_of(text: str) -> float:
    """A multiple of 2^-52 in (0, 1)."""
    bits = int.from_bytes(blake2b(text.encode(), digest_size=8).digest(), "big") >> (64 - _BITS)
    return max(bits, 1) / float(2**_BITS)


def _rng(u: float) -> Generator:
    return default_rng(int(np.float64(u + 0.0).view(np.uint64)))


# -- features --------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Bag:
    """The features of one value in one view: numbers of features, and how much of each."""

    numbers: npt.NDArray[np.int64]
    amounts: Array

    @cached_property
    def size(self) -> float:
        """The squared length."""
        return float(self.amounts @ self.amounts)

    @classmethod
    def of(cls, view: View) -> Bag:
        if isinstance(view, np.ndarray):
            return cls(np.arange(len(view)), np.asarray(view, dtype=float))
        numbers = np.array([_feature_number(feature) for feature in view], dtype=np.int64)
        amounts = np.array(list(view.values()), dtype=float)
        order = np.argsort(numbers, kind="stable")
        return cls(numbers[order], amounts[order])


_NUMBERS: dict[Hashable, int] = {}
_MOST_NUMBERS = 1_000_000


def _feature_number(feature: Hashable) -> int:
    """63 bits of a hash, which do not depend on what was seen before."""
    number = _NUMBERS.get(feature)
    if number is None:
        if len(_NUMBERS) > _MOST_NUMBERS:
            _NUMBERS.clear()
        digest = blake2b(repr(feature).encode(), digest_size=8).digest()
        number = _NUMBERS[feature] = int.from_bytes(digest, "big") >> 1
    return number


class Measured:
    """Distances and projections of the features of values.

    Args:
        bags: the features of the value with this name, view by view.
        views: the number of views.
        sample: names of values that were drawn at random.
    """

    def __init__(self, bags: Callable[[float], tuple[Bag, ...]], views: int, sample: Array) -> None:
        self._bags, self._views = bags, views
        self._found: OrderedDict[float, tuple[Bag, ...]] = OrderedDict()
        self._tables: OrderedDict[tuple[str, bytes, bytes], tuple[Array, ...]] = OrderedDict()
        self._last_rows: tuple[bytes, list[Any]] | None = None
        self._lock = threading.Lock()
        self._units = [1.0] * views
        self._units = [float(d.mean()) or 1.0 for d in self.distances(sample, sample)]
        self._tables.clear()

    def bags(self, u: Array) -> list[tuple[Bag, ...]]:
        """The features of each value."""
        out = []
        for name in u.tolist():
            found = self._found.get(name)
            if found is None:
                found = self._bags(name)
                if len(found) != self._views:
                    raise SpaceError(f"features: need {self._views} views, got {len(found)}")
                with self._lock:
                    self._found[name] = found
                    if len(self._found) > _DRAWN:
                        for _ in range(_DRAWN // 2):
                            self._found.popitem(last=False)
            out.append(found)
        return out

    def distances(self, u: Array, v: Array) -> tuple[Array, ...]:
        """Half the squared distances, view by view; the last tables are kept for a fit."""

        def computed() -> tuple[Array, ...]:
            left, right, known = self.bags(u), self.bags(v), self._known_rows(v)
            each = (self._distances(g, left, right, *known[g]) for g in range(self._views))
            return tuple(d / unit for d, unit in zip(each, self._units, strict=True))

        return self._kept("distances", u, v, computed)

    def cosines(self, u: Array, v: Array) -> tuple[Array, ...]:
        """The cosines, view by view: of values without features, 1 among them, 0 with others."""

        def computed() -> tuple[Array, ...]:
            each = zip(self.distances(u, v), self.sizes(u), self.sizes(v), strict=True)
            return tuple(_cosines(d, a[:, None], b[None, :]) for d, a, b in each)

        return self._kept("cosines", u, v, computed)

    def sizes(self, u: Array) -> tuple[Array, ...]:
        """Half the squared lengths of the features, view by view."""
        bags = self.bags(u)
        return tuple(
            np.array([each[g].size for each in bags]) / (2.0 * unit)
            for g, unit in enumerate(self._units)
        )

    def _kept(
        self, what: str, u: Array, v: Array, computed: Callable[[], tuple[Array, ...]]
    ) -> tuple[Array, ...]:
        key = what, u.tobytes(), v.tobytes()
        table = self._tables.get(key)
        if table is None:
            table = computed()
            with self._lock:
                self._tables[key] = table
                while len(self._tables) > _KEPT_TABLES:
                    self._tables.popitem(last=False)
        return table

    def _known_rows(self, v: Array) -> list[tuple[npt.NDArray[np.int64], npt.NDArray[Any]]]:
        """For each view, the features of these values, and their amounts; kept for the last values.

        A search compares thousands of values with the same points.
        """
        name, last = v.tobytes(), self._last_rows
        if last is not None and last[0] == name:
            return last[1]
        found, every = [], self.bags(v)
        for g in range(self._views):
            bags = [each[g] for each in every]
            known = np.unique(np.concatenate([np.empty(0, int), *(bag.numbers for bag in bags)]))
            found.append((known, _rows(bags, known)))
        self._last_rows = name, found
        return found

    def _distances(
        self,
        view: int,
        left: Sequence[tuple[Bag, ...]],
        right: Sequence[tuple[Bag, ...]],
        known: npt.NDArray[np.int64],
        rows: npt.NDArray[Any],
    ) -> Array:
        a, b = [bags[view] for bags in left], [bags[view] for bags in right]
        if not (a and b):
            return np.zeros((len(a), len(b)))
        dot = _rows(a, known) @ rows.T
        size_a = np.array([bag.size for bag in a])
        size_b = np.array([bag.size for bag in b])
        squared = size_a[:, None] + size_b[None, :] - 2.0 * np.asarray(dot, dtype=float)
        return np.asarray(np.maximum(0.5 * squared, 0.0))

    def projected(self, u: Array, keys: tuple[int, ...], count: int) -> tuple[Array, ...]:
        """The features times normal numbers that depend on key and feature only, view by view."""
        bags, out = self.bags(u), []
        for view, key in enumerate(keys):
            mine = [each[view] for each in bags]
            known = np.unique(np.concatenate([np.empty(0, int), *(bag.numbers for bag in mine)]))
            normal = [_normals(key, int(number), count) for number in known]
            part = _rows(mine, known) @ np.array(normal).reshape(len(known), count)
            out.append(part / np.sqrt(self._units[view]))
        return tuple(out)


def _cosines(half_squared: Array, a: Array, b: Array) -> Array:
    """From half the squared distances of vectors, and half the squares of their lengths."""
    both = 2.0 * np.sqrt(a * b)
    out = np.where((a == 0.0) & (b == 0.0), 1.0, 0.0)
    return np.divide(a + b - half_squared, both, out=out, where=both > 0.0)


def _normals(key: int, number: int, count: int) -> Array:
    return default_rng([key, number]).standard_normal(count)


def _rows(bags: Sequence[Bag], known: npt.NDArray[np.int64]) -> npt.NDArray[Any]:
    """The amounts of the known features, one row for each value."""
    lengths = [len(bag.numbers) for bag in bags]
    numbers = np.concatenate([bag.numbers for bag in bags]) if bags else np.empty(0, dtype=int)
    amounts = np.concatenate([bag.amounts for bag in bags]) if bags else np.empty(0)
    places = np.searchsorted(known, numbers)
    found = places < len(known)
    found[found] = known[places[found]] == numbers[found]
    # Sums of small whole numbers are exact in single precision, which is twice as fast.
    whole = bool(np.all(amounts == np.rint(amounts)) and np.abs(amounts).max(initial=0.0) < 64)
    rows = np.zeros((len(bags), len(known)), dtype=np.float32 if whole else np.float64)
    rows[np.repeat(np.arange(len(bags)), lengths)[found], places[found]] = amounts[found]
    return rows
