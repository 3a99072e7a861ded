"""Parameters that a changed space keeps at one value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.parameter import Parameter, Scalar
from regretless.space.scales import Indices, Levels


@dataclass(frozen=True)
class _Pinned(Levels):
    """One level, at any place of the unit interval."""

    at_place: float
    count: int = 1

    def place(self, k: Indices) -> Array:
        return np.full(np.shape(k), self.at_place)

    def nearest(self, u: Array) -> Indices:
        return np.zeros(np.shape(u), dtype=np.int64)

    def share(self, u: Array) -> Indices:
        return self.nearest(u)


@dataclass(frozen=True, repr=False)
class Frozen(Parameter):
    """A parameter that has the same value from now on, see `Optimizer.change_space`.

    Results from before, with other values, still count: the model compares them as before.

    Args:
        parameter: the parameter with all values that it had.
        value: the value from now on.
        dropped: whether it is no longer in `params`.
    """

    parameter: Parameter
    value: Scalar
    dropped: bool = False

    @property
    def plain(self) -> Parameter:
        return self.parameter.plain

    @cached_property
    def scale(self) -> Levels:
        return _Pinned(self.parameter.encode(self.value))

    @property
    def has_order(self) -> bool:  # type: ignore[override]
        return self.parameter.has_order

    @property
    def inactive_at(self) -> float:  # type: ignore[override]
        return self.parameter.inactive_at

    @property
    def is_dropped(self) -> bool:
        return self.dropped

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return self.parameter.is_active(params)

    def validate(self, value: object, name: str = "value") -> Scalar:
        known = self.parameter.validate(value, name)
        if self.parameter.encode(known) != self.scale.at_place:  # type: ignore[attr-defined]
            raise SpaceError(f"{name}: is frozen at {shown(self.value)}, got {shown(value)}")
        return known

    def encode(self, value: Any) -> float:
        return self.parameter.encode(value)

    def decode(self, u: float) -> Scalar:
        return self.value

    def _value(self, k: int) -> Scalar:
        return self.value

    def _index(self, value: Any) -> int:
        return 0

    def to_json(self) -> dict[str, Any]:
        return self.parameter.to_json() | {"dropped" if self.dropped else "frozen": self.value}

    def __repr__(self) -> str:
        return f"Frozen({self.parameter!r}, {self.value!r}, {self.dropped!r})"
