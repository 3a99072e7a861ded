"""Contexts: what the environment decides, and the tuner only sees.

A context is declared like a parameter, `{"hour": Cyclic(0, 24)}`.  Its columns follow those of the
settings, in a space of both that only the engine sees.  What happens there cannot be refused, so a
value that was not declared has a place as well:

- a number outside its range counts as the nearer end of the range (a `Cyclic` one goes round);
- a choice that was not declared counts as one further choice.  All such choices share it.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.checks import check_name, is_real, quoted, whole, widened
from regretless.space.lists import Categorical, Ordinal, plain_scalar
from regretless.space.numbers import Cyclic, Float, Int
from regretless.space.parameter import Parameter, Scalar, parameter_from_json
from regretless.space.scales import Bins, Levels, Line
from regretless.space.space import Space

_KINDS = (Float, Int, Cyclic, Categorical, Ordinal)


@dataclass(frozen=True)
class Context(Parameter):
    """A column of the context.

    Args:
        parameter: the parameter that it is declared as.
    """

    parameter: Parameter

    @property
    def plain(self) -> Parameter:
        return self.parameter

    @property
    def is_context(self) -> bool:
        return True

    @property
    def has_order(self) -> bool:  # type: ignore[override]
        return self.parameter.has_order

    @cached_property
    def scale(self) -> Line | Levels:
        inner = self.parameter
        if isinstance(inner, Categorical):
            return Bins(len(inner.choices) + 1)  # the last one is for all that were not declared
        return inner.scale

    def validate(self, value: object, name: str = "value") -> Scalar:
        inner = self.parameter
        if isinstance(inner, Categorical):
            return plain_scalar(value, name)
        if isinstance(inner, Ordinal):
            return inner.validate(value, name)
        if isinstance(inner, Int):
            return whole(name, "", value)
        number = widened(value)
        if not (is_real(number) and abs(number) <= sys.float_info.max):
            raise SpaceError(f"{name}: must be a finite number, got {shown(value)}")
        return float(number)

    def is_declared(self, value: Scalar) -> bool:
        """Whether a valid value is one of those that were declared."""
        try:
            self.parameter.validate(value)
        except SpaceError:
            return False
        return True

    def encode(self, value: Any) -> float:
        inner = self.parameter
        if isinstance(inner, Categorical):
            return self.scale.at(np.asarray(self._index(value))).item()  # type: ignore[union-attr]
        if isinstance(inner, Cyclic):
            value = inner.low if value == inner.high else inner.validate(value)
        elif isinstance(inner, Float | Int):
            value = inner.validate(min(max(value, inner.low), inner.high))
        return inner.encode(value)

    def _value(self, k: int) -> Scalar:
        inner = self.parameter
        if isinstance(inner, Categorical) and k == len(inner.choices):
            return None
        return inner._value(k)

    def _index(self, value: Any) -> int:
        inner = self.parameter
        if isinstance(inner, Categorical) and not self.is_declared(value):
            return len(inner.choices)
        return inner._index(value)


class Contexts:
    """The contexts of a run, by name.

    Args:
        parameters: how each is declared: `Float`, `Int`, `Cyclic`, `Categorical` or `Ordinal`.

    Raises:
        SpaceError: there is none, a name is not valid, or a context is of another kind.

    Example:
        >>> contexts = Contexts({"hour": Cyclic(0, 24), "segment": Categorical(["new", "old"])})
        >>> contexts.validate({"segment": "new", "hour": 25})
        {'hour': 25.0, 'segment': 'new'}
        >>> contexts.encode({"hour": 6.0, "segment": "new"}).round(4).tolist()
        [0.25, 0.1667]
    """

    def __init__(self, parameters: Mapping[str, Parameter]) -> None:
        if not isinstance(parameters, Mapping) or not parameters:
            raise SpaceError(
                f"contexts: need a mapping of names to parameters, got {shown(parameters)}"
            )
        for name, parameter in parameters.items():
            check_name(name)
            if not isinstance(parameter, _KINDS):
                kinds = "Float, Int, Cyclic, Categorical or Ordinal"
                raise SpaceError(f"contexts: {name}: must be a {kinds}, got {shown(parameter)}")
        self.parameters = dict(parameters)
        self.columns = {name: Context(p) for name, p in self.parameters.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the contexts, in order."""
        return tuple(self.parameters)

    def validate(self, context: object) -> dict[str, Scalar]:
        """The context as plain Python values, in the order of the declaration.

        Raises:
            SpaceError: a value is missing or of a wrong type, or a name is unknown.
        """
        if not isinstance(context, Mapping):
            each = quoted(self.columns)
            raise SpaceError(f"context: need a value for {each}, got {shown(context)}")
        if missing := [name for name in self.columns if name not in context]:
            raise SpaceError(f"context: no value for {quoted(missing)}, got {shown(dict(context))}")
        if unknown := [name for name in context if name not in self.columns]:
            raise SpaceError(f"context: unknown {quoted(unknown)}; known: {quoted(self.columns)}")
        return {name: p.validate(context[name], name) for name, p in self.columns.items()}

    def encode(self, context: Mapping[str, Scalar]) -> Array:
        """The coordinates of a valid context."""
        return np.array([p.encode(context[name]) for name, p in self.columns.items()])

    def undeclared(self, context: Mapping[str, Scalar]) -> list[str]:
        """The names of those that have a value which was not declared."""
        return [name for name, p in self.columns.items() if not p.is_declared(context[name])]

    def beside(self, space: Space) -> Space:
        """The space of settings and contexts; the columns of the contexts are the last ones.

        Raises:
            SpaceError: a parameter and a context have the same name.
        """
        if twice := [name for name in self.columns if name in space.names]:
            raise SpaceError(f"contexts: {quoted(twice)} is a parameter of the space, too")
        where = [each if isinstance(each, str) else _of(each, space.names) for each in space.where]
        return Space({**space.parameters, **self.columns}, where)

    def to_json(self) -> list[dict[str, Any]]:
        """The declarations as JSON; a list, because their order matters."""
        return [{"name": name, **p.to_json()} for name, p in self.parameters.items()]

    @classmethod
    def from_json(cls, entries: object) -> Contexts:
        """The contexts that `to_json` wrote.

        Raises:
            SpaceError: the JSON describes no contexts.
        """
        if not isinstance(entries, list):
            raise SpaceError(f"contexts: need a list, got {shown(entries)}")
        return cls(dict(parameter_from_json(entry) for entry in entries))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Contexts) and self.to_json() == other.to_json()

    def __hash__(self) -> int:
        return hash(self.names)

    def __repr__(self) -> str:
        return f"Contexts({self.parameters!r})"


def _of(limit: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """A limit that is a function, which sees the settings only."""

    def limited(params: Mapping[str, Scalar]) -> Any:
        return limit({name: params[name] for name in names if name in params})

    limited.__name__ = str(getattr(limit, "__name__", type(limit).__name__))
    return limited
