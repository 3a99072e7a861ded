"""`Parameter`: what the library needs of a kind of parameter, and how kinds are stored.

The class of a kind has everything that the library needs of it: how values are validated, encoded,
decoded and stored, which moves a search may make, how the model compares two values, and when the
parameter is active.  To add a kind of your own, write one class.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any, ClassVar, TypeAlias

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.registry import register
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.kernels import Kernel
from regretless.space.checks import check_name, is_real, quoted
from regretless.space.scales import Levels, Line, LogRanks

# Lists and dicts are the values of structured parameters.
Scalar: TypeAlias = str | int | float | bool | list[Any] | dict[str, Any] | None
"""The value of a parameter in the user's units: anything that JSON can store.

Example:
    >>> import regretless as rl
    >>> space = rl.Space({"bid": rl.Float(0, 9), "network": rl.Categorical(["search", "video"])})
    >>> point: dict[str, rl.Scalar] = {"bid": 2.5, "network": "search"}
    >>> space.validate(point)
    {'bid': 2.5, 'network': 'search'}
"""


class Parameter(ABC):
    """The base class of all parameters.

    `validate` checks a value in the user's units.  `encode` and `decode` translate between values
    and coordinates in [0, 1].

    To add a kind, write a frozen dataclass whose fields are its arguments, `class Mine(Parameter,
    json="mine")`.  It needs `scale`, `validate`, `_value` and `_index`.  Where the defaults do not
    suit it, write `has_order`, `kernel_part`, `moves` and `is_active` as well.

    Example:
        >>> from regretless.space import Int
        >>> visits = Int(1, 5)
        >>> visits.encode(2)
        0.25
        >>> visits.decode(0.3)
        2
        >>> visits.kind
        'ordered'
    """

    has_order: ClassVar[bool] = True  # whether f is similar at coordinates that are close
    inactive_at: ClassVar[float] = 0.5  # the coordinate of the parameter while it is not active
    json_name: ClassVar[str | None] = None  # the name in JSON; a study can't store a kind without
    _types: ClassVar[dict[str, type[Parameter]]] = {}

    def __init_subclass__(cls, *, json: str | None = None) -> None:
        super().__init_subclass__()
        cls.json_name = json
        if json is not None:
            register(Parameter._types, json, cls)

    @property
    @abstractmethod
    def scale(self) -> Line | Levels:
        """The positions of the values in the unit interval."""

    @property
    def is_continuous(self) -> bool:
        """Whether all values of a range are allowed; otherwise the parameter has levels."""
        return isinstance(self.scale, Line)

    @property
    def is_choice(self) -> bool:
        """Whether the parameter has several levels without an order."""
        return not self.has_order and self.scale.count != 1

    @property
    def plain(self) -> Parameter:
        """The parameter without its conditions, and with all values that it had."""
        return self

    @property
    def is_context(self) -> bool:
        """Whether the environment decides on the value, and the tuner only sees it."""
        return False

    @property
    def is_dropped(self) -> bool:
        """Whether a change of the space has dropped the parameter, so that nobody sets it."""
        return False

    def when(
        self,
        parameter: str,
        *values: Scalar,
        at_least: Scalar = None,
        at_most: Scalar = None,
    ) -> Parameter:
        """The same parameter, which exists only for some values of another.

        Where it does not exist, it is not in `params`.  The other parameter must come before it in
        the space, and may itself be conditional.  To give several conditions, call `when` again.

        Args:
            parameter: the name of the other parameter.
            values: the values of the other parameter for which this one exists.
            at_least: in place of values: the smallest one, if the other parameter has an order.
            at_most: in place of values: the largest one, if the other parameter has an order.

        Returns:
            A parameter for a `Space`.

        Raises:
            SpaceError: there are neither values nor bounds, or both.  The space raises the same
                error if it has no such parameter, or the parameter no such value.

        Example:
            >>> from regretless.space import Categorical, Float, Space
            >>> solver, momentum = Categorical(["adam", "sgd"]), Float(0.0, 1.0)
            >>> space = Space({"solver": solver, "momentum": momentum.when("solver", "sgd")})
            >>> space.validate({"solver": "adam"})
            {'solver': 'adam'}
            >>> space.validate({"solver": "sgd", "momentum": 0.9})
            {'solver': 'sgd', 'momentum': 0.9}
        """
        from regretless.space.conditional import Condition, Conditional

        return Conditional(self, (Condition(parameter, values, at_least, at_most),))

    @property
    def kind(self) -> str:
        """The kind of the parameter in a word: "continuous", "ordered" or "categorical"."""
        if not self.has_order:
            return "categorical"
        return "continuous" if self.is_continuous else "ordered"

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel | None:
        """The factor of the model's kernel that compares values of this kind.

        Args:
            columns: the parameters of this kind, by the number of their column.

        Returns:
            A kernel over these columns; None if the model's own kernel compares them by their
            distance.
        """
        return None

    def moves(self, u: float) -> Array:
        """The coordinates that a search may try next from u.

        These are one level up and down if the levels have an order, and all other levels if they
        have none.  A continuous parameter has no moves, because a search follows gradients there.

        Args:
            u: a coordinate in [0, 1].
        """
        scale = self.scale
        if isinstance(scale, Line):
            return np.empty(0)
        k = scale.nearest(np.asarray(u)).item()
        if not self.has_order:
            return scale.at(np.delete(np.arange(scale.count), k))
        return scale.at(np.array([i for i in (k - 1, k + 1) if 0 <= i < scale.count], dtype=int))

    def places(self) -> Array:
        """The coordinates of all levels; empty for a continuous parameter."""
        scale = self.scale
        return np.empty(0) if isinstance(scale, Line) else scale.place(np.arange(scale.count))

    @property
    def has_numbers(self) -> bool:
        """Whether all values are numbers in their order, so that a limit may name the parameter."""
        scale = self.scale
        if isinstance(scale, Line):
            return True
        listed = range(1 if scale.levels is None else scale.count)
        return self.has_order and all(is_real(self._value(k)) for k in listed)

    def numbers(self, u: Array) -> tuple[Array, Array]:
        """The values at these coordinates, and their slopes there; also between the levels.

        Args:
            u: coordinates in [0, 1].
        """
        scale = self.scale
        if isinstance(scale, Line):
            return scale.values(u)
        ends: list[Any] = [self._value(0), self._value(scale.count - 1)]
        first, last = (float(value or 0) for value in ends)
        if scale.count == 1:
            return np.full_like(u, first), np.zeros_like(u)
        if scale.levels is None:
            log = isinstance(scale, LogRanks)
            return Line(first, last, log).values(u)
        levels, values = scale.levels, np.array([float(self._value(k)) for k in range(scale.count)])  # type: ignore[arg-type]
        rises = np.diff(values) / np.diff(levels)
        cell = np.clip(np.searchsorted(levels, u, side="right") - 1, 0, scale.count - 2)
        return np.interp(u, levels, values), rises[cell]

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether the parameter exists, given the values of the parameters before it.

        Args:
            params: the values of the parameters before this one, by name.
        """
        return True

    @abstractmethod
    def validate(self, value: object, name: str = "value") -> Scalar:
        """The value as plain Python has it, rounded to a value that the parameter can take.

        Args:
            value: what the user gave.
            name: the name of the parameter, for the error message.

        Raises:
            SpaceError: the parameter can't have this value.
        """

    @abstractmethod
    def _value(self, k: int) -> Scalar:
        """The value of level k."""

    @abstractmethod
    def _index(self, value: Any) -> int:
        """The level of a valid value."""

    def encode(self, value: Any) -> float:
        """The coordinate in [0, 1] of a valid value.

        Args:
            value: a valid value.
        """
        if isinstance(self.scale, Line):
            return self.scale.to_unit(value)
        return self.scale.at(np.asarray(self._index(value))).item()

    def decode(self, u: float) -> Scalar:
        """The value of the parameter that is nearest to the coordinate u.

        Args:
            u: a coordinate in [0, 1].
        """
        if isinstance(self.scale, Line):
            return self.scale.to_value(u)
        return self._value(self.scale.nearest(np.clip(np.asarray(u), 0.0, 1.0)).item())

    def to_json(self) -> dict[str, Any]:
        """The name of the kind and the arguments of its constructor, as JSON.

        Raises:
            SpaceError: the class was defined without `json=...`.
        """
        arguments = {name: getattr(self, name) for name in _arguments(type(self))}
        listed = {k: list(v) if isinstance(v, tuple) else v for k, v in arguments.items()}
        if self.json_name is None:
            raise SpaceError(
                f"{type(self).__name__}: can't be stored: a kind of your own needs a name, as in"
                f" `class {type(self).__name__}(Parameter, json=...)`"
            )
        return {"type": self.json_name, **listed}


def parameter_from_json(entry: object) -> tuple[str, Parameter]:
    """The name and the parameter from one entry of a space's JSON."""
    if not (isinstance(entry, Mapping) and isinstance(entry.get("name"), str)):
        raise SpaceError(f"Space: a parameter must have a name, got {shown(entry)}")
    name, type_name = entry["name"], entry.get("type")
    check_name(name)
    types = Parameter._types
    if not (isinstance(type_name, str) and type_name in types):
        raise SpaceError(f"{name}: type must be one of {quoted(types)}, got {shown(type_name)}")
    beside = ("name", "type", "when", "frozen", "dropped")
    given = {k: v for k, v in entry.items() if k not in beside}
    known = _arguments(types[type_name])
    if unknown := [k for k in given if k not in known]:
        raise SpaceError(f"{name}: a {type_name} has no {quoted(unknown)}, but {quoted(known)}")
    if missing := [k for k, needed in known.items() if needed and k not in given]:
        raise SpaceError(f"{name}: a {type_name} needs {quoted(missing)}, got {shown(dict(entry))}")
    try:
        parameter = _with_value(types[type_name](**given), entry)
        return name, _with_conditions(parameter, entry["when"]) if "when" in entry else parameter
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from error


def _with_value(parameter: Parameter, entry: Mapping[str, Any]) -> Parameter:
    """The parameter, frozen at a value or dropped if the entry says so."""
    from regretless.space.frozen import Frozen

    for key in ("frozen", "dropped"):
        if key in entry:
            return Frozen(parameter, parameter.validate(entry[key], key), key == "dropped")
    return parameter


def _with_conditions(parameter: Parameter, listed: object) -> Parameter:
    from regretless.space.conditional import Condition, Conditional

    if not (isinstance(listed, list) and listed):
        raise SpaceError(f"when: need a list of conditions, got {shown(listed)}")
    return Conditional(parameter, tuple(Condition.from_json(each) for each in listed))


def _arguments(kind: type[Parameter]) -> dict[str, bool]:
    """The constructor's arguments, and whether each one is required."""
    return {f.name: f.default is MISSING for f in fields(kind)}  # type: ignore[arg-type]
