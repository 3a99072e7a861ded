"""`Space`: the named parameters to tune, and their encoding in the unit cube.

A `Space` has one encoded column in [0, 1] for each parameter.  The model, the policies and the
search work with encoded points only.

A *canonical* point is an encoded point that `encode` can return: each coordinate is rounded to a
value that the parameter can take.  Parameters that are suggested, tried and told back are encoded
as the same canonical point, bit for bit.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.typing import NDArray

from regretless._internal.shown import shown
from regretless._internal.validate import is_real
from regretless.errors import SpaceError
from regretless.space.checks import check_name, quoted
from regretless.space.lists import Categorical, Ordinal
from regretless.space.numbers import Float, Int
from regretless.space.parameter import Parameter, Scalar, parameter_from_json
from regretless.space.scales import Array, Levels, Line, snap_to_cells

__all__ = ["Array", "Categorical", "Float", "Int", "Ordinal", "Parameter", "Scalar", "Space"]

MAX_GRID_POINTS = 1_000_000


@dataclass(frozen=True, init=False, repr=False)
class Space:
    """The search space: named parameters, with one encoded column for each, in the order given.

    Args:
        parameters: a mapping of names to `Float`, `Int`, `Categorical` or `Ordinal` parameters.

    Raises:
        SpaceError: the mapping is empty, a name is not a string, or a value is not a parameter.

    Example:
        >>> space = Space({"dose": Float(0.1, 10.0, log=True), "visits": Int(1, 12)})
        >>> space.decode(space.encode({"dose": 1.0, "visits": 4}))
        {'dose': 1.0, 'visits': 4}
        >>> space.dim
        2
    """

    names: tuple[str, ...]
    _columns: tuple[Parameter, ...]

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
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
        object.__setattr__(self, "_columns", tuple(parameters.values()))

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
        return np.array([p.has_order for p in self._columns])

    @cached_property
    def varies(self) -> tuple[bool, ...]:
        """For each column, whether it has more than one value."""
        return tuple(p.scale.count != 1 for p in self._columns)

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
        """The number of points in the space; None if a column is continuous."""
        counts = [p.scale.count for p in self._columns if p.scale.count is not None]
        return math.prod(counts) if len(counts) == self.dim else None

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
        if missing := [name for name in active if name not in params]:
            raise SpaceError(f"params: no value for {quoted(missing)}, got {shown(dict(params))}")
        if unknown := [name for name in params if name not in self.names]:
            raise SpaceError(f"params: unknown {quoted(unknown)}; known: {quoted(self.names)}")
        if idle := [name for name in params if name not in active]:
            raise SpaceError(
                f"params: {quoted(idle)} is not active here, got {shown(dict(params))}"
            )
        return {name: p.validate(params[name], name) for name, p in active.items()}

    def encode(self, params: Mapping[str, object]) -> Array:
        """The canonical encoded point of these parameters, of shape (dim,).

        Args:
            params: a value for each parameter.

        Raises:
            SpaceError: a value is missing or invalid, or a name is unknown.
        """
        values = self.validate(params)
        if len(values) == self.dim:
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
        if not self._conditional:
            return {name: parameter.decode(u) for name, parameter, u in columns}
        params: dict[str, Scalar] = {}
        for name, parameter, u in columns:
            if parameter.is_active(params):
                params[name] = parameter.decode(u)
        return params

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
        if self.size is None:
            lines = [name for name, p in self.parameters.items() if p.is_continuous]
            lines = lines or [name for name, p in self.parameters.items() if not p.scale.count]
            what = "continuous" if self.continuous.any() else "large"
            raise SpaceError(f"grid: can't list values of {what} parameters: {quoted(lines)}")
        if self.size > MAX_GRID_POINTS:
            raise SpaceError(f"grid: {self.size} points are more than {MAX_GRID_POINTS}")
        every = product([p.places() for p in self._columns])
        return np.unique(self.canonical(every), axis=0) if self._conditional else every

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
        if not self._conditional:
            return around
        around = self.settled(around)  # a move of an inactive column leads nowhere
        return np.asarray(around[(around != here).any(axis=1)])

    def to_json(self) -> dict[str, Any]:
        """The space as JSON.  The parameters are a list, because their order matters."""
        columns = zip(self.names, self._columns, strict=True)
        return {"parameters": [{"name": name, **p.to_json()} for name, p in columns]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """The space that `to_json` wrote.

        Raises:
            SpaceError: the JSON describes no valid space.
        """
        entries = data.get("parameters") if isinstance(data, Mapping) else None
        if not isinstance(entries, list):
            raise SpaceError(f"Space: need a list under 'parameters', got {shown(data)}")
        pairs = [parameter_from_json(entry) for entry in entries]
        if len({name for name, _ in pairs}) < len(pairs):
            raise SpaceError(f"Space: names must be distinct, got {quoted(n for n, _ in pairs)}")
        return cls(dict(pairs))

    def __repr__(self) -> str:
        return f"Space({dict(self.parameters)!r})"

    @cached_property
    def _named(self) -> dict[str, Parameter]:
        return dict(zip(self.names, self._columns, strict=True))

    @cached_property
    def _conditional(self) -> bool:
        """Whether the class of some parameter has its own `is_active`."""
        return any(type(p).is_active is not Parameter.is_active for p in self._columns)

    def _active(self, params: Mapping[str, object]) -> dict[str, Parameter]:
        """The parameters that exist, given these values."""
        if not self._conditional:
            return self._named
        active: dict[str, Parameter] = {}
        for name, parameter in self._named.items():
            if parameter.is_active({n: params[n] for n in active if n in params}):
                active[name] = parameter
        return active

    def _rows(self, x: npt.ArrayLike, name: str, ndim: int) -> Array:
        rows = _floats(x, name)
        if rows.ndim != ndim or rows.shape[-1] != self.dim:
            shape = f"(q, {self.dim})" if ndim == 2 else f"({self.dim},)"
            raise SpaceError(f"{name}: need the shape {shape}, got {rows.shape}")
        if np.isnan(rows).any():
            raise SpaceError(f"{name}: an encoded point cannot hold NaN, got {shown(rows)}")
        return rows

    def _map(self, rule: Callable[[Levels], Callable[[Array], Array]], rows: Array) -> Array:
        """Round all continuous columns at once, and each discrete column by the rule."""
        mapped = snap_to_cells(rows, self._cells)
        for j, scale in self._discrete:
            mapped[:, j] = rule(scale)(rows[:, j])
        if self._conditional:
            self._rest_inactive(mapped)
        return mapped

    def settled(self, points: Array) -> Array:
        """Points made of canonical coordinates, with inactive columns where they rest.

        Only where some parameter may be inactive does this change anything, or cost anything.
        """
        return self.canonical(points) if self._conditional else points

    def _rest_inactive(self, mapped: Array) -> None:
        """Set inactive columns to `inactive_at`, so that such points are equal."""
        for row in mapped:
            active = self.decode(row)
            for j, (name, parameter) in enumerate(self._named.items()):
                if name not in active:
                    row[j] = parameter.inactive_at

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
    mesh = np.meshgrid(*columns, indexing="ij")
    return np.stack([m.ravel() for m in mesh], axis=1)
