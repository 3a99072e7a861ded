"""Classes that are stored by a name of their own."""

from __future__ import annotations

from typing import TypeVar

T = TypeVar("T")


def register(types: dict[str, type[T]], name: str, kind: type[T]) -> None:
    """Note the class under its name; TypeError if another class has the name.

    The same class may come again: a notebook that runs a cell twice defines it twice.
    """
    known = types.get(name, kind)
    if (known.__module__, known.__qualname__) != (kind.__module__, kind.__qualname__):
        raise TypeError(f"{kind.__name__}: json={name!r} is the name of {known.__name__} already")
    types[name] = kind
