"""`Space`: the named parameters to tune, and their encoding in the unit cube.

A `Space` has one encoded column in [0, 1] for each parameter.  The model, the policies and the
search work with encoded points only.

A *canonical* point is an encoded point that `encode` can return: each coordinate is rounded to a
value that the parameter can take.  Parameters that are suggested, tried and told back are encoded
as the same canonical point, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from regretless._internal.shown import shown
from regretless._internal.validate import is_iterable, is_real
from regretless.errors import SpaceError
from regretless.kernels import Rule, activity
from regretless.space.checks import check_name, quoted
from regretless.space.conditional import Conditional, resolved, rules_of
from regretless.space.frozen import Frozen
from regretless.space.limits import MOST_LIMITS, Function, Limit, Region, limits_of, stored_limit
from regretless.space.lists import Categorical, Ordinal
from regretless.space.numbers import Float, Int
from regretless.space.parameter import Parameter, Scalar, parameter_from_json
from regretless.space.scales import Array, Levels, Line, snap_to_cells

__all__ = ["Array", "Categorical", "Float", "Int", "Ordinal", "Parameter", "Scalar", "Space"]

MAX_GRID_POINTS = 1_000_000
_MOST_BRANCHES = 10_000  # combinations of parents' levels that are counted one by one


@dataclass(frozen=True, init=False, repr=False)
class Space:
    """The search space: named parameters, with one encoded column for each, in the order given.

    Args:
        parameters: a mapping of names to `Float`, `Int`, `Categorical` or `Ordinal` parameters.
        where: limits that a point has to keep.  Each is a text such as "a + b <= 1", or a function
            of the parameters that is true where the limit is kept.  A function can't be stored.

    Raises:
        SpaceError: the mapping is empty, a name is not a string, or a value is not a parameter; a
            limit can't be read, or no point keeps the limits, or hardly any.

    Example:
        >>> space = Space({"dose": Float(0.1, 10.0, log=True), "visits": Int(1, 12)})
        >>> space.decode(space.encode({"dose": 1.0, "visits": 4}))
        {'dose': 1.0, 'visits': 4}
        >>> space.dim
        2
        >>> shares = Space({"a": Int(0, 1), "b": Int(0, 1)}, where=["a + b <= 1"])
        >>> shares.validate({"a": 1, "b": 1})
        Traceback (most recent call last):
            ...
        regretless.errors.SpaceError: params: outside the limit 'a + b <= 1', got {'a': 1, 'b': 1}
    """

    names: tuple[str, ...]
    _columns: tuple[Parameter, ...]
    where: tuple[str | Function, ...]

    def __init__(
        self, parameters: Mapping[str, Parameter], where: Iterable[str | Function] = ()
    ) -> None:
        if not isinstance(parameters, Mapping) or not parameters:
            raise SpaceError(
                f"Space: need a mapping of names to parameters, got {shown(parameters)}"
            )
        for name, parameter in parameters.items():
            check_name(name)
            if not isinstance(parameter, Parameter):
                kinds = "Float, Int, Categorical or Ordinal"
                raise SpaceError(f"{name}: must be a {kinds}, got {shown(parameter)}")
        object.__setattr__(self, "names", tuple(parameters))
        object.__setattr__(self, "_columns", resolved(parameters))
        if isinstance(where, str) or not is_iterable(where):
            raise SpaceError(f"where: need a list of limits, got {shown(where)}")
        object.__setattr__(self, "where", tuple(islice(where, MOST_LIMITS + 1)))
        if self.where:
            self._region  # noqa: B018  # raises if no point keeps the limits

    def __getstate__(self) -> tuple[Any, ...]:
        return self.names, self._columns, self.where

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        for name, value in zip(("names", "_columns", "where"), state, strict=True):
            object.__setattr__(self, name, value)

    @cached_property
    def limits(self) -> tuple[Limit, ...]:
        """The limits of `where`, for a search; a text with several comparisons has several."""
        return limits_of(self, self.where)

    @cached_property
    def _region(self) -> Region:
        return Region(self, self.limits)

    def keeps(self, points: Array) -> NDArray[np.bool_]:
        """For each canonical point, whether it keeps all limits.

        Args:
            points: canonical points, one a row.
        """
        return self._region.keeps(points) if self.where else np.ones(len(points), dtype=bool)

    def repaired(self, points: Array) -> Array:
        """The points, with those that break a limit moved inside.

        Args:
            points: canonical points, one a row.
        """
        return self._region.repaired(points) if self.where else points

    def drawn(self, count: int, rng: np.random.Generator) -> Array:
        """So many random points that keep all limits, of shape (count, dim).

        Args:
            count: how many points to draw.
            rng: the generator to draw from.
        """
        if self.where:
            return self._region.drawn(count, rng)
        return self.spread(rng.random((count, self.dim)))

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        """The parameters by name; the mapping can't be changed."""
        return MappingProxyType(dict(zip(self.names, self._columns, strict=True)))

    @property
    def dim(self) -> int:
        """d, the number of parameters."""
        return len(self.names)

    def __len__(self) -> int:
        return self.dim

    @property
    def columns(self) -> tuple[Parameter, ...]:
        """The parameters in the order of their columns."""
        return self._columns

    @cached_property
    def continuous(self) -> NDArray[np.bool_]:
        """For each column, whether all values of a range are allowed."""
        return np.array([p.is_continuous for p in self._columns])

    @cached_property
    def discrete(self) -> NDArray[np.bool_]:
        """For each column, whether it has levels."""
        return ~self.continuous

    @cached_property
    def ordered(self) -> NDArray[np.bool_]:
        """For each column, whether its values have an order, so that a search follows gradients."""
        return np.array(
            [p.has_order and j not in self._frozen for j, p in enumerate(self._columns)]
        )

    @cached_property
    def _frozen(self) -> dict[int, Frozen]:
        """The columns that a change of the space has frozen or dropped."""
        inner = {
            j: p.parameter if isinstance(p, Conditional) else p for j, p in enumerate(self._columns)
        }
        return {j: p for j, p in inner.items() if isinstance(p, Frozen)}

    @cached_property
    def frozen(self) -> dict[int, float]:
        """The places of columns that a change of the space has frozen or dropped."""
        return {j: p.encode(p.value) for j, p in self._frozen.items()}

    @cached_property
    def varies(self) -> tuple[bool, ...]:
        """For each column, whether it has more than one value."""
        return tuple(p.scale.count != 1 for p in self._columns)

    @cached_property
    def decides(self) -> tuple[bool, ...]:
        """For each column, whether others exist only for some of its values."""
        return tuple(j in self._parents for j in range(self.dim))

    @cached_property
    def has_choices(self) -> bool:
        """Whether some parameter has several choices without an order."""
        return any(p.is_choice for p in self._columns)

    @cached_property
    def levels(self) -> tuple[Array | None, ...]:
        """For each column, its encoded levels in ascending order.

        None for a continuous column, and for an ordered column with more than 1000 levels.
        """
        return tuple(p.scale.levels for p in self._columns)

    @cached_property
    def size(self) -> int | None:
        """The number of points in the space; None if a column is continuous.

        If parameters are conditional or have limits, and there are more than a million
        combinations, this is the number of combinations.
        """
        counts = [p.scale.count for p in self._columns if p.scale.count is not None]
        if len(counts) < self.dim:
            return None
        most = math.prod(counts)
        if not (self.conditional or self.where) or most > MAX_GRID_POINTS:
            return most
        return len(self.grid())

    @property
    def conditional(self) -> bool:
        """Whether some parameter exists only for some values of others."""
        return bool(self._rules) or self._own_activity

    @cached_property
    def branches(self) -> Array:
        """The combinations of parameters that decide which others exist, of shape (b, dim).

        An ordered parameter has one place in each range that the conditions tell apart, and the
        parameters that decide about no other one are in the middle of their ranges.  If there are
        more than ten thousand combinations, these are so many of them.
        """
        middle = self._rounded(lambda scale: scale.spread, np.full((1, self.dim), 0.5))
        columns = [
            self._branching(j) if j in self._parents else middle[:, j] for j in range(self.dim)
        ]
        if math.prod(len(column) for column in columns) <= _MOST_BRANCHES:
            every = product(columns)
        else:
            rng = np.random.default_rng(0)
            every = np.stack([rng.choice(column, _MOST_BRANCHES) for column in columns], axis=1)
        return np.unique(self.settled(every), axis=0)

    def validate(self, params: Mapping[str, object]) -> dict[str, Scalar]:
        """The parameters as plain Python values that can be tried, in the order of the space.

        Args:
            params: a value for each parameter.

        Raises:
            SpaceError: a value is missing or invalid, or a name is unknown.

        Example:
            >>> Space({"visits": Int(1, 12)}).validate({"visits": 3.0})
            {'visits': 3}
        """
        if not isinstance(params, Mapping):
            raise SpaceError(f"params: must map names to values, got {shown(params)}")
        params = dict(params)
        active = self._active(params)
        if self._frozen:
            active = {name: p for name, p in active.items() if not p.is_dropped}
        if missing := [name for name in active if name not in params]:
            raise SpaceError(f"params: no value for {quoted(missing)}, got {shown(dict(params))}")
        if unknown := [name for name in params if name not in self.names]:
            raise SpaceError(f"params: unknown {quoted(unknown)}; known: {quoted(self.names)}")
        if idle := [name for name in params if name not in active]:
            raise SpaceError(
                f"params: {quoted(idle)} is not active here, got {shown(dict(params))}"
            )
        values = {name: p.validate(params[name], name) for name, p in active.items()}
        if self.where:
            self._check_limits(values)
        return values

    def _check_limits(self, values: dict[str, Scalar]) -> None:
        x = self.encode_valid(values)
        for limit in self.limits:
            if not limit.allows(values, x):
                broken = getattr(limit, "text", None) or getattr(limit, "name", "")
                raise SpaceError(f"params: outside the limit {shown(broken)}, got {shown(values)}")

    def encode(self, params: Mapping[str, object]) -> Array:
        """The canonical encoded point of these parameters, of shape (dim,).

        Args:
            params: a value for each parameter.

        Raises:
            SpaceError: a value is missing or invalid, or a name is unknown.
        """
        return self.encode_valid(self.validate(params))

    def encode_valid(self, values: Mapping[str, Scalar]) -> Array:
        """What `encode` returns for values of `validate`; they are not checked again.  For studies;
        users do not need it.
        """
        if self._frozen:
            values = {**values, **self._dropped_values}
            rows = [p.encode(values[n]) if n in values else 0.5 for n, p in self._named.items()]
            return np.asarray(self.canonical(np.array(rows)[None])[0])
        if len(values) == self.dim:  # all are active
            columns = zip(self._columns, values.values(), strict=True)
            return np.array([parameter.encode(value) for parameter, value in columns])
        return np.array(
            [
                p.encode(values[name]) if name in values else p.inactive_at
                for name, p in self.parameters.items()
            ]
        )

    def decode(self, x: npt.ArrayLike) -> dict[str, Scalar]:
        """The parameters of an encoded point, which is first rounded to a canonical one.

        Args:
            x: coordinates of shape (dim,).

        Raises:
            SpaceError: x has another shape or holds NaN.
        """
        row = self._rows(x, "x", ndim=1)
        columns = zip(self.names, self._columns, row.tolist(), strict=True)
        if not (self.conditional or self._frozen):
            return {name: parameter.decode(u) for name, parameter, u in columns}
        canonical = self._rounded(lambda scale: scale.snap, row[None])
        active = self._active_in(canonical)[0]
        return {
            n: p.decode(u)
            for (n, p, u), on in zip(columns, active, strict=True)
            if on and not p.is_dropped
        }

    def canonical(self, X: npt.ArrayLike) -> Array:
        """Clip each row to the cube and round it to a canonical point.

        The result is equal to encode(decode(x)) for each row, bit for bit.

        Args:
            X: points of shape (q, dim).

        Returns:
            Canonical points of the same shape.

        Raises:
            SpaceError: X has another shape or holds NaN.
        """
        rows = self._rows(X, "X", ndim=2)
        return self._map(lambda scale: scale.snap, rows)

    def spread(self, U: npt.ArrayLike) -> Array:
        """Turn uniform draws into canonical points that are uniform over the space.

        `canonical` would give the first and the last level of an ordered column half the share of
        the others.  On a logarithmic scale, the points are uniform in the logarithm.

        Args:
            U: draws in [0, 1], of shape (q, dim).

        Returns:
            Canonical points of the same shape.

        Raises:
            SpaceError: U has another shape or holds NaN.
        """
        rows = self._rows(U, "U", ndim=2)
        return self._map(lambda scale: scale.spread, rows)

    def grid(self) -> Array:
        """All points of a finite space, of shape (size, dim); the last column changes fastest.

        Raises:
            SpaceError: a column is continuous, or there are more than a million points.
        """
        if self.continuous.any():
            lines = [name for name, p in self.parameters.items() if p.is_continuous]
            raise SpaceError(f"grid: can't list values of continuous parameters: {quoted(lines)}")
        if large := [name for name, p in self.parameters.items() if p.scale.count is None]:
            raise SpaceError(f"grid: can't list values of large parameters: {quoted(large)}")
        count = math.prod(p.scale.count or 1 for p in self._columns)
        if count > MAX_GRID_POINTS:
            raise SpaceError(f"grid: {count} points are more than {MAX_GRID_POINTS}")
        every = product([p.places() for p in self._columns])
        every = np.unique(self.canonical(every), axis=0) if self.conditional else every
        return every[self.keeps(every)] if self.where else every

    def neighbours(self, x: npt.ArrayLike) -> Array:
        """The points that differ from x by one move in one discrete column, of shape (k, dim).

        A move is one level up or down in an ordered column, and any other choice in a categorical
        one.

        Args:
            x: coordinates of shape (dim,).

        Raises:
            SpaceError: x has another shape or holds NaN.
        """
        here = self.canonical(self._rows(x, "x", ndim=1)[None])[0]
        columns = enumerate(self._columns)
        moves = [(j, u) for j, parameter in columns for u in parameter.moves(here[j])]
        around = np.tile(here, (len(moves), 1))
        for row, (j, u) in zip(around, moves, strict=True):
            row[j] = u
        if not self.conditional:
            return around[self.keeps(around)] if self.where else around
        around = self.settled(around)  # a move of an inactive column leads nowhere
        around = around[(around != here).any(axis=1)]
        return np.asarray(around[self.keeps(around)])

    def to_json(self) -> dict[str, Any]:
        """The space as JSON.  The parameters are a list, because their order matters.

        Of a limit that is a function, only its name is written.
        """
        columns = zip(self.names, self._columns, strict=True)
        written: dict[str, Any] = {
            "parameters": [{"name": name, **p.to_json()} for name, p in columns]
        }
        if self.where:
            written["where"] = [stored_limit(limit) for limit in self.where]
        return written

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """The space that `to_json` wrote, if none of its limits is a function.

        Args:
            data: what `to_json` returned.

        Raises:
            SpaceError: the JSON describes no valid space.
        """
        entries = data.get("parameters") if isinstance(data, Mapping) else None
        if not isinstance(entries, list):
            raise SpaceError(f"Space: need a list under 'parameters', got {shown(data)}")
        pairs = [parameter_from_json(entry) for entry in entries]
        if len({name for name, _ in pairs}) < len(pairs):
            raise SpaceError(f"Space: names must be distinct, got {quoted(n for n, _ in pairs)}")
        where = data.get("where", [])
        if not isinstance(where, list):
            raise SpaceError(f"where: need a list of limits, got {shown(where)}")
        for limit in where:
            if not isinstance(limit, str):
                name = limit.get("function") if isinstance(limit, Mapping) else limit
                raise SpaceError(
                    f"where: {shown(name)} is no text: a limit that is a function can't be read"
                    " from JSON, so give the space itself"
                )
        return cls(dict(pairs), where)

    def __repr__(self) -> str:
        where = f", where={list(self.where)!r}" if self.where else ""
        return f"Space({dict(self.parameters)!r}{where})"

    @cached_property
    def _named(self) -> dict[str, Parameter]:
        return dict(zip(self.names, self._columns, strict=True))

    @cached_property
    def _rules(self) -> tuple[Rule, ...]:
        return rules_of(self._columns)

    @cached_property
    def _parents(self) -> frozenset[int]:
        """The columns that decide whether others are active."""
        return frozenset(parent for _, parent, _ in self._rules)

    @cached_property
    def _own_activity(self) -> bool:
        """Whether the class of some parameter has its own `is_active`."""
        kinds = {type(p.plain) for p in self._columns}
        return any(kind.is_active is not Parameter.is_active for kind in kinds)

    def _active(self, params: Mapping[str, object]) -> dict[str, Parameter]:
        """The parameters that exist, given these values."""
        if not self.conditional:
            return self._named
        params = {**params, **self._dropped_values}
        active: dict[str, Parameter] = {}
        for name, parameter in self._named.items():
            known = {n: params[n] for n in active if n in params}
            if self._holds(parameter, known) and parameter.is_active(known):
                active[name] = parameter
        return active

    @cached_property
    def _dropped_values(self) -> dict[str, Scalar]:
        """The values of dropped parameters, which are not in `params`."""
        each = {j: p.decode(0.5) for j, p in self._frozen.items() if p.is_dropped}
        return {self.names[j]: value for j, value in each.items()}

    def _holds(self, parameter: Parameter, params: Mapping[str, object]) -> bool:
        """Whether the conditions of the parameter hold, given the values of those before it."""
        if not isinstance(parameter, Conditional):
            return True
        for _, j, ranges in parameter.rules:
            name, parent = self.names[j], self._columns[j]
            if name not in params:
                return False
            u = parent.encode(parent.validate(params[name], name))
            if not any(low <= u < high for low, high in ranges):
                return False
        return True

    def _active_in(self, canonical: Array) -> NDArray[np.bool_]:
        """For each coordinate of canonical points, whether its parameter is active."""
        active = np.ones(canonical.shape, dtype=bool)
        for column, on in activity(canonical, self._rules).items():
            active[:, column] = on
        if self._own_activity:
            for row, on in zip(canonical.tolist(), active, strict=True):
                params: dict[str, Scalar] = {}
                for j, (name, parameter) in enumerate(self._named.items()):
                    on[j] = self._holds(parameter, params) and parameter.is_active(params)
                    if on[j]:
                        params[name] = parameter.decode(row[j])
        return active

    def _branching(self, column: int) -> Array:
        """The places of a parent: its choices, or one place in each range that matters."""
        parent = self._columns[column]
        if not parent.has_order:
            return parent.places()
        ends = {end for _, j, ranges in self._rules if j == column for r in ranges for end in r}
        edges = np.unique([0.0, *(min(max(end, 0.0), 1.0) for end in ends), 1.0])
        return np.unique(parent.scale.snap(0.5 * (edges[1:] + edges[:-1])))

    def _rows(self, x: npt.ArrayLike, name: str, ndim: int) -> Array:
        rows = _floats(x, name)
        if rows.ndim != ndim or rows.shape[-1] != self.dim:
            shape = f"(q, {self.dim})" if ndim == 2 else f"({self.dim},)"
            raise SpaceError(f"{name}: need the shape {shape}, got {rows.shape}")
        if np.isnan(rows).any():
            raise SpaceError(f"{name}: an encoded point cannot hold NaN, got {shown(rows)}")
        return rows

    def _map(self, rule: Callable[[Levels], Callable[[Array], Array]], rows: Array) -> Array:
        """Round the points by the rule, and put inactive columns where they rest."""
        mapped = self._rounded(rule, rows)
        if self.conditional:
            self._rest_inactive(mapped)
        return mapped

    def _rounded(self, rule: Callable[[Levels], Callable[[Array], Array]], rows: Array) -> Array:
        """Round all continuous columns at once, and each discrete column by the rule."""
        mapped = snap_to_cells(rows, self._cells)
        for j, scale in self._discrete:
            mapped[:, j] = rule(scale)(rows[:, j])
        return mapped

    def settled(self, points: Array) -> Array:
        """The points with canonical coordinates, and with inactive columns where they rest.

        Only where some parameter may be inactive does this change anything, or cost anything.

        Args:
            points: points of the unit cube, one a row.
        """
        return self.canonical(points) if self.conditional else points

    def active(self, points: Array) -> NDArray[np.bool_]:
        """For each coordinate of canonical points, whether its parameter exists there.

        Args:
            points: canonical points, one a row.
        """
        if not self.conditional:
            return np.ones(points.shape, dtype=bool)
        return self._active_in(points)

    def resting(self, points: Array) -> Array:
        """The points, with inactive columns where they rest.  Other columns are not rounded.

        Args:
            points: points of the unit cube, one a row.
        """
        if not self.conditional:
            return points
        return np.where(self._active_in(points), points, self._resting)

    def _rest_inactive(self, mapped: Array) -> None:
        """Set inactive columns to `inactive_at`, so that such points are equal."""
        np.copyto(mapped, self._resting, where=~self._active_in(mapped))

    @cached_property
    def _resting(self) -> Array:
        return np.array([p.inactive_at for p in self._columns])

    @cached_property
    def _cells(self) -> Array:
        scales = [p.scale for p in self._columns]
        return np.array([s.cells if isinstance(s, Line) else 1.0 for s in scales])

    @cached_property
    def _discrete(self) -> list[tuple[int, Levels]]:
        scales = enumerate(p.scale for p in self._columns)
        return [(j, scale) for j, scale in scales if isinstance(scale, Levels)]


def _floats(x: npt.ArrayLike, name: str) -> Array:
    """The numbers as an array of doubles; SpaceError if some are none, such as complex numbers."""
    if type(x) is np.ndarray and x.dtype == np.float64:
        return x
    try:
        if hasattr(x, "__array__") or _is_listed(x):
            given = np.asarray(x)
            real = given.dtype.kind in "biuf" or (given.dtype.kind == "O" and _all_real(given))
            if real and not np.any(getattr(x, "mask", False)):
                with np.errstate(over="ignore"):
                    return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        pass  # lists of different lengths, or integers that are too large
    raise SpaceError(f"{name}: need numbers, got {shown(x)}")


def _is_listed(x: object, levels: int = 2) -> bool:
    """Whether these are lists of numbers or arrays; numpy would also read a `range`, or text."""
    if not isinstance(x, list | tuple):
        return is_real(x) or type(x) is np.ndarray
    return levels > 0 and all(_is_listed(each, levels - 1) for each in x)


def _all_real(values: npt.NDArray[Any]) -> bool:
    return all(is_real(value) for value in values.flat)


def product(columns: Sequence[Array]) -> Array:
    """All combinations of the columns' values; the last column changes fastest.

    Args:
        columns: the values of each column.

    Returns:
        An array with one row for each combination.

    Example:
        >>> import numpy as np
        >>> product([np.array([0.0, 1.0]), np.array([0.5])]).tolist()
        [[0.0, 0.5], [1.0, 0.5]]
    """
    rows = np.zeros((1, 0))
    for values in columns:  # not by a mesh: an array has 32 dimensions at most
        rows = np.column_stack([rows.repeat(len(values), axis=0), np.tile(values, len(rows))])
    return rows
