"""Parameters that exist only for some values of another: `Float(0, 1).when("solver", "sgd")`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.kernels import Rule
from regretless.space.checks import quoted
from regretless.space.parameter import Parameter, Scalar
from regretless.space.scales import Levels, Line

_EVER = 2.0  # an upper end that is above all coordinates


@dataclass(frozen=True)
class Condition:
    """When a parameter exists: another one has one of some values, or a value within bounds."""

    parameter: str
    values: tuple[Scalar, ...] = ()
    at_least: Scalar = None
    at_most: Scalar = None

    def __post_init__(self) -> None:
        if not isinstance(self.parameter, str):
            raise SpaceError(f"when: need the name of a parameter, got {shown(self.parameter)}")
        bounded = self.at_least is not None or self.at_most is not None
        if bool(self.values) == bounded:
            raise SpaceError(
                f"when: {shown(self.parameter)} needs one or more values, or at_least or at_most,"
                f" got {shown(self.to_json())}"
            )

    def ranges(self, parent: Parameter) -> tuple[tuple[float, float], ...]:
        """The coordinates of the parent for which the condition holds, as half-open ranges.

        Raises:
            SpaceError: the parent can't have such a value.
        """
        name = self.parameter
        if parent.kind == "structured":
            raise SpaceError(f"{name} is a structured parameter: no parameter can depend on it")
        if self.values:
            if parent.is_continuous:
                raise SpaceError(f"{name} has a range: use at_least or at_most instead of values")
            return tuple(_cell(parent, parent.validate(value, name)) for value in self.values)
        if not parent.has_order:
            raise SpaceError(f"{name} has no order: give values instead of at_least or at_most")
        low = -1.0 if self.at_least is None else _cell(parent, self._bound("at_least", parent))[0]
        high = _EVER if self.at_most is None else _cell(parent, self._bound("at_most", parent))[1]
        if low >= high:
            raise SpaceError(
                f"{name}: no value is at least {shown(self.at_least)} and at most"
                f" {shown(self.at_most)}"
            )
        return ((low, high),)

    def validated(self, parent: Parameter) -> Condition:
        """The same condition, with values as the parent has them."""
        bounds = {
            name: None if getattr(self, name) is None else self._bound(name, parent)
            for name in ("at_least", "at_most")
        }
        values = tuple(parent.validate(value, self.parameter) for value in self.values)
        return Condition(self.parameter, values, **bounds)

    def _bound(self, field_name: str, parent: Parameter) -> Scalar:
        return parent.validate(getattr(self, field_name), f"{field_name} of {self.parameter}")

    def to_json(self) -> dict[str, Any]:
        """The condition as JSON, without what was not given."""
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        given = {name: bound for name, bound in bounds.items() if bound is not None}
        values = {"values": list(self.values)} if self.values else {}
        return {"parameter": self.parameter, **values, **given}

    @classmethod
    def from_json(cls, data: object) -> Condition:
        """The condition that `to_json` wrote.

        Raises:
            SpaceError: the JSON describes no condition.
        """
        known = ("parameter", "values", "at_least", "at_most")
        if not isinstance(data, Mapping) or not data.keys() <= set(known):
            raise SpaceError(f"when: need an object with {quoted(known)}, got {shown(data)}")
        values = data.get("values") or []
        if not isinstance(values, list):
            raise SpaceError(f"when: values must be a list, got {shown(values)}")
        return cls(
            data.get("parameter"),  # type: ignore[arg-type]  # checked there
            tuple(values),
            data.get("at_least"),
            data.get("at_most"),
        )

    def __repr__(self) -> str:
        bounds = {"at_least": self.at_least, "at_most": self.at_most}
        given = [f"{name}={bound!r}" for name, bound in bounds.items() if bound is not None]
        return f".when({', '.join([repr(self.parameter), *map(repr, self.values), *given])})"


@dataclass(frozen=True, repr=False)
class Conditional(Parameter):
    """A parameter that exists only while all its conditions hold; see `Parameter.when`.

    Example:
        >>> import regretless as rl
        >>> rl.Float(0.0, 1.0).when("kind", "a").plain
        Float(0.0, 1.0)
    """

    parameter: Parameter
    conditions: tuple[Condition, ...]
    # The conditions in terms of columns, which only a space knows.
    rules: tuple[Rule, ...] = field(default=(), compare=False)

    @property
    def plain(self) -> Parameter:
        return self.parameter.plain

    @property
    def scale(self) -> Line | Levels:
        return self.parameter.scale

    @property
    def has_order(self) -> bool:  # type: ignore[override]
        return self.parameter.has_order

    @property
    def inactive_at(self) -> float:  # type: ignore[override]
        return self.parameter.inactive_at

    @property
    def is_dropped(self) -> bool:
        return self.parameter.is_dropped

    def is_active(self, params: Mapping[str, Any]) -> bool:
        """Whether the kind itself says so; a space also asks the conditions."""
        return self.parameter.is_active(params)

    def when(
        self,
        parameter: str,
        *values: Scalar,
        at_least: Scalar = None,
        at_most: Scalar = None,
    ) -> Parameter:
        more = Condition(parameter, values, at_least, at_most)
        return Conditional(self.parameter, (*self.conditions, more))

    def moves(self, u: float) -> Array:
        return self.parameter.moves(u)

    def places(self) -> Array:
        return self.parameter.places()

    @property
    def has_numbers(self) -> bool:
        return self.parameter.has_numbers

    def numbers(self, u: Array) -> tuple[Array, Array]:
        return self.parameter.numbers(u)

    def validate(self, value: object, name: str = "value") -> Scalar:
        return self.parameter.validate(value, name)

    def encode(self, value: Any) -> float:
        return self.parameter.encode(value)

    def decode(self, u: float) -> Scalar:
        return self.parameter.decode(u)

    def _value(self, k: int) -> Scalar:
        return self.parameter._value(k)

    def _index(self, value: Any) -> int:
        return self.parameter._index(value)

    def to_json(self) -> dict[str, Any]:
        return self.parameter.to_json() | {"when": [c.to_json() for c in self.conditions]}

    def __repr__(self) -> str:
        return repr(self.parameter) + "".join(map(repr, self.conditions))


def resolved(parameters: Mapping[str, Parameter]) -> tuple[Parameter, ...]:
    """The parameters, with the conditions of each in terms of columns.

    Raises:
        SpaceError: a condition names an unknown parameter, one that comes later, or a value that
            its parameter can't have.
    """
    columns = {name: column for column, name in enumerate(parameters)}
    out: list[Parameter] = []
    for name, parameter in parameters.items():
        if isinstance(parameter, Conditional):
            rules = [_rule(name, c, columns, parameters) for c in parameter.conditions]
            plain = [c.validated(parameters[c.parameter].plain) for c in parameter.conditions]
            parameter = replace(parameter, conditions=tuple(plain), rules=tuple(rules))
        out.append(parameter)
    return tuple(out)


def rules_of(columns: Sequence[Parameter]) -> tuple[Rule, ...]:
    """All rules of the columns, in the order of the columns.

    Example:
        >>> import regretless as rl
        >>> x = rl.Float(0.0, 1.0).when("kind", "a")
        >>> space = rl.Space({"kind": rl.Categorical(["a", "b"]), "x": x})
        >>> [(column, parent) for column, parent, _ in rules_of(space.columns)]
        [(1, 0)]
    """
    return tuple(rule for p in columns if isinstance(p, Conditional) for rule in p.rules)


def _rule(
    name: str,
    condition: Condition,
    columns: Mapping[str, int],
    parameters: Mapping[str, Parameter],
) -> Rule:
    parent = condition.parameter
    if parent not in columns:
        known = quoted(other for other in columns if other != name)
        raise SpaceError(f"{name}: when: there is no parameter {shown(parent)}; known: {known}")
    if parent == name or name in _above(parent, parameters, set()):
        raise SpaceError(f"{name}: when: {shown(parent)} depends on {shown(name)} itself")
    if columns[parent] > columns[name]:
        raise SpaceError(
            f"{name}: when: {shown(parent)} must come before {shown(name)} in the space, because it"
            " decides whether that exists"
        )
    try:
        ranges = condition.ranges(parameters[parent].plain)
    except SpaceError as error:
        raise SpaceError(f"{name}: when: {error}") from None
    return columns[name], columns[parent], ranges


def _above(name: str, parameters: Mapping[str, Parameter], seen: set[str]) -> set[str]:
    """The parameters that decide whether this one exists, directly or by others."""
    parameter = parameters.get(name)
    if isinstance(parameter, Conditional):
        for condition in parameter.conditions:
            if condition.parameter not in seen:
                seen.add(condition.parameter)
                _above(condition.parameter, parameters, seen)
    return seen


def _cell(parent: Parameter, value: Scalar) -> tuple[float, float]:
    """The coordinates that are nearer to this value than to any other."""
    place, scale = parent.encode(value), parent.scale
    if isinstance(scale, Line):
        return place, float(np.nextafter(place, _EVER))
    k = int(scale.nearest(np.asarray(place)))
    low, high = -1.0, _EVER
    if k > 0:
        low = 0.5 * (float(scale.at(np.asarray(k - 1))) + place)
    if k < scale.count - 1:
        high = 0.5 * (float(scale.at(np.asarray(k + 1))) + place)
    return low, high
