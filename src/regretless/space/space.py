"""Spaces: what a person tunes, in their own units, and its image in the unit cube.

A `Space` has one encoded column in [0, 1] per parameter. Everything below the optimizer sees only
encoded points, and only *canonical* ones: a rounded Int, a stepped Float and the value that the
user tells back are one and the same point, bit for bit.
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

from regretless.errors import SpaceError
from regretless.space.parameters import (
    Categorical,
    Float,
    Int,
    Ordinal,
    Parameter,
    Scalar,
    parameter_from_json,
    quoted,
)
from regretless.space.scales import Array, Levels, Line, snap_to_cells

__all__ = ["Array", "Categorical", "Float", "Int", "Ordinal", "Parameter", "Scalar", "Space"]

MAX_GRID_POINTS = 1_000_000


@dataclass(frozen=True, init=False, repr=False)
class Space:
    """Named parameters, one encoded column each, in the order given.

    >>> space = Space({"dose": Float(0.1, 10.0, log=True), "visits": Int(1, 12)})
    >>> space.decode(space.encode({"dose": 1.0, "visits": 4}))
    {'dose': 1.0, 'visits': 4}
    """

    names: tuple[str, ...]
    _columns: tuple[Parameter, ...]

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not isinstance(parameters, Mapping) or not parameters:
            raise SpaceError(f"Space: need a mapping of names to parameters, got {parameters!r}")
        for name, parameter in parameters.items():
            if not (isinstance(name, str) and name):
                raise SpaceError(f"Space: a name must be a non-empty string, got {name!r}")
            if not isinstance(parameter, Parameter):
                kinds = "Float, Int, Categorical or Ordinal"
                raise SpaceError(f"{name}: must be a {kinds}, got {parameter!r}")
        object.__setattr__(self, "names", tuple(parameters))
        object.__setattr__(self, "_columns", tuple(parameters.values()))

    @property
    def parameters(self) -> Mapping[str, Parameter]:
        return MappingProxyType(dict(zip(self.names, self._columns, strict=True)))

    @property
    def dim(self) -> int:
        return len(self.names)

    def __len__(self) -> int:
        return self.dim

    @property
    def columns(self) -> tuple[Parameter, ...]:
        """The parameters in the order of their columns."""
        return self._columns

    @cached_property
    def continuous(self) -> NDArray[np.bool_]:
        """Per column, whether it takes any value of a range."""
        return np.array([p.is_continuous for p in self._columns])

    @cached_property
    def discrete(self) -> NDArray[np.bool_]:
        """Per column, whether it has levels."""
        return ~self.continuous

    @cached_property
    def ordered(self) -> NDArray[np.bool_]:
        """Per column, whether near values behave alike, so that a search may follow slopes."""
        return np.array([p.has_order for p in self._columns])

    @cached_property
    def varies(self) -> tuple[bool, ...]:
        """Per column, whether it has more than one value; one that has not is frozen."""
        return tuple(p.scale.count != 1 for p in self._columns)

    @cached_property
    def has_choices(self) -> bool:
        """Whether there is something to choose without an order."""
        return any(p.is_choice for p in self._columns)

    @cached_property
    def levels(self) -> tuple[Array | None, ...]:
        """Per column, the encoded levels in ascending order.

        None for a continuous column, and for an ordered one with more than 1000 levels.
        """
        return tuple(p.scale.levels for p in self._columns)

    @cached_property
    def size(self) -> int | None:
        """How many points there are; None if some column is continuous."""
        counts = [p.scale.count for p in self._columns if p.scale.count is not None]
        return math.prod(counts) if len(counts) == self.dim else None

    def validate(self, params: Mapping[str, object]) -> dict[str, Scalar]:
        """The same point in canonical native values, in the space's order."""
        if not isinstance(params, Mapping):
            raise SpaceError(f"params: must map names to values, got {params!r}")
        active = self._active(params)
        if missing := [name for name in active if name not in params]:
            raise SpaceError(f"params: no value for {quoted(missing)}, got {dict(params)!r}")
        if unknown := [name for name in params if name not in self.names]:
            raise SpaceError(f"params: unknown {quoted(unknown)}; known: {quoted(self.names)}")
        if idle := [name for name in params if name not in active]:
            raise SpaceError(f"params: {quoted(idle)} does not exist here, got {dict(params)!r}")
        return {name: p.validate(params[name], name) for name, p in active.items()}

    def encode(self, params: Mapping[str, object]) -> Array:
        """The canonical encoded point of what a person would write, shape (dim,)."""
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
        """What a person would write for the canonical point of x."""
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
        """Each row clipped to the cube and rounded to a point that can be tried, (q, dim).

        Idempotent, and equal to encode(decode(x)) for each row, bit for bit.
        """
        rows = self._rows(X, "X", ndim=2)
        return self._map(lambda scale: scale.snap, rows)

    def spread(self, U: npt.ArrayLike) -> Array:
        """Uniform draws as canonical points, each level of a discrete column with its fair share.

        `canonical` would give the levels at both ends of a range half of what the others get.
        """
        rows = self._rows(U, "U", ndim=2)
        return self._map(lambda scale: scale.spread, rows)

    def grid(self) -> Array:
        """Every point of a finite space, (size, dim), the last column fastest."""
        if self.size is None:
            lines = [name for name, p in self.parameters.items() if p.is_continuous]
            raise SpaceError(f"grid: needs a finite space, but continuous are {quoted(lines)}")
        if self.size > MAX_GRID_POINTS:
            raise SpaceError(f"grid: {self.size} points are more than {MAX_GRID_POINTS}")
        every = product([p.places() for p in self._columns])
        return np.unique(self.canonical(every), axis=0) if self._conditional else every

    def neighbours(self, x: npt.ArrayLike) -> Array:
        """The points one move away in one discrete column, (k, dim).

        A move is a level up or down where there is an order, any other choice where there is none.
        """
        here = self.canonical(self._rows(x, "x", ndim=1)[None])[0]
        columns = enumerate(self._columns)
        moves = [(j, u) for j, parameter in columns for u in parameter.moves(here[j])]
        around = np.tile(here, (len(moves), 1))
        for row, (j, u) in zip(around, moves, strict=True):
            row[j] = u
        return around

    def to_json(self) -> dict[str, Any]:
        """A JSON-able description; a list, because the order of the columns matters."""
        columns = zip(self.names, self._columns, strict=True)
        return {"parameters": [{"name": name, **p.to_json()} for name, p in columns]}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Space:
        """The space that `to_json` described."""
        entries = data.get("parameters") if isinstance(data, Mapping) else None
        if not isinstance(entries, list):
            raise SpaceError(f"Space: need a list under 'parameters', got {data!r}")
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
        """Whether some parameter may be inactive; asked only where a kind says so."""
        return any(type(p).is_active is not Parameter.is_active for p in self._columns)

    def _active(self, params: Mapping[str, object]) -> dict[str, Parameter]:
        """The parameters that exist beside these values."""
        if not self._conditional:
            return self._named
        active: dict[str, Parameter] = {}
        for name, parameter in self._named.items():
            if parameter.is_active({n: params[n] for n in active if n in params}):
                active[name] = parameter
        return active

    def _rows(self, x: npt.ArrayLike, name: str, ndim: int) -> Array:
        rows = np.asarray(x, dtype=np.float64)
        if rows.ndim != ndim or rows.shape[-1] != self.dim:
            shape = f"(q, {self.dim})" if ndim == 2 else f"({self.dim},)"
            raise SpaceError(f"{name}: need the shape {shape}, got {rows.shape}")
        if np.isnan(rows).any():
            raise SpaceError(f"{name}: an encoded point cannot hold NaN, got {rows!r}")
        return rows

    def _map(self, rule: Callable[[Levels], Callable[[Array], Array]], rows: Array) -> Array:
        """Lines are rounded all at once, levels by their rule column by column."""
        mapped = snap_to_cells(rows, self._cells)
        for j, scale in self._discrete:
            mapped[:, j] = rule(scale)(rows[:, j])
        if self._conditional:
            self._rest_inactive(mapped)
        return mapped

    def _rest_inactive(self, mapped: Array) -> None:
        """Put inactive columns where they rest: points that differ only there are one point."""
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


def product(columns: Sequence[Array]) -> Array:
    """All combinations of the columns' values, the last one fastest."""
    mesh = np.meshgrid(*columns, indexing="ij")
    return np.stack([m.ravel() for m in mesh], axis=1)
