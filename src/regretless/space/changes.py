"""Changes of a space while a run goes on: add, freeze, widen and drop parameters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.checks import check_name, quoted
from regretless.space.conditional import Conditional
from regretless.space.frozen import Frozen
from regretless.space.parameter import Parameter, Scalar, parameter_from_json
from regretless.space.scales import Line
from regretless.space.space import Space
from regretless.space.structured import Structured

Added = Mapping[str, tuple[Parameter, Scalar]]
Values = Mapping[str, Scalar]


def changed(
    space: Space,
    add: Added | None = None,
    freeze: Values | None = None,
    widen: Mapping[str, Parameter] | None = None,
    drop: Values | None = None,
) -> tuple[Space, dict[str, Scalar]]:
    """The space after a change, and the values that added parameters had so far.

    Args:
        space: the space before.
        add: new parameters, each with the value that it had so far.
        freeze: parameters that have this value from now on.
        widen: parameters with a new range, which holds the old one.
        drop: parameters that are no longer set, and the value that they have from now on.

    Raises:
        SpaceError: a parameter is unknown or known already, a value is not one of its values, or a
            range does not hold the old one.

    Example:
        >>> import regretless as rl
        >>> space, values = changed(rl.Space({"x": rl.Int(0, 4)}), add={"z": (rl.Int(1, 9), 5)})
        >>> space.names, values
        (('x', 'z'), {'z': 5})
    """
    given = {"add": add, "freeze": freeze, "widen": widen, "drop": drop}
    check_change(given)
    parameters = dict(space.parameters)
    touched: set[str] = set()
    for verb in ("freeze", "widen", "drop"):
        for name, to in (given[verb] or {}).items():
            if name not in parameters or parameters[name].is_dropped:
                known = quoted(n for n, p in parameters.items() if not p.is_dropped)
                raise SpaceError(f"{verb}: there is no parameter {shown(name)}; known: {known}")
            if name in touched:
                raise SpaceError(f"{verb}: {shown(name)} is changed twice")
            touched.add(name)
            parameters[name] = _changed(parameters[name], verb, name, to)
    values: dict[str, Scalar] = {}
    for name, pair in (add or {}).items():
        parameters[name], values[name] = _added(name, pair, parameters)
    return Space(parameters, space.where), values


def check_change(given: Mapping[str, object]) -> None:
    """Check the shapes of a change, as far as that is possible without the space.

    Raises:
        SpaceError: an argument of `changed` is no mapping, or has no parameters where it should.

    Example:
        >>> check_change({"freeze": {"retries": 3}})
    """
    for verb, each in given.items():
        if not isinstance(each, Mapping | None):
            raise SpaceError(
                f"{verb}: need a mapping by the names of parameters, got {shown(each)}"
            )
        for name, to in (each or {}).items():
            check_name(name)
            if verb == "widen" and not isinstance(to, Parameter):
                raise SpaceError(f"widen: {name}: need a parameter, got {shown(to)}")
            if verb == "add" and not _is_pair(to):
                raise SpaceError(
                    f"add: {name}: need a parameter and the value that it had so far, got"
                    f" {shown(to)}"
                )
    if not any(given.values()):
        raise SpaceError("change_space: need something to add, freeze, widen or drop")


def _is_pair(given: object) -> bool:
    return isinstance(given, tuple) and len(given) == 2 and isinstance(given[0], Parameter)


def _changed(old: Parameter, verb: str, name: str, to: Any) -> Parameter:
    """The parameter, with its conditions kept."""
    inner = old.parameter if isinstance(old, Conditional) else old
    was = inner.parameter if isinstance(inner, Frozen) else inner
    if verb == "widen":
        new: Parameter = _widened(was, name, to)
    else:
        new = Frozen(was, was.validate(to, f"{verb}: {name}"), dropped=verb == "drop")
    return replace(old, parameter=new) if isinstance(old, Conditional) else new


def _widened(old: Parameter, name: str, new: object) -> Parameter:
    if not isinstance(new, Parameter) or type(new) is not type(old):
        raise SpaceError(f"widen: {name}: need a {type(old).__name__}, got {shown(new)}")
    if isinstance(old, Structured) and new != old:
        raise SpaceError(f"widen: {name}: can't widen {shown(old)}; add a parameter instead")
    scale = old.scale
    few = not isinstance(scale, Line) and scale.levels is not None
    places = old.places() if few else np.array([0.0, 1.0])
    for value in map(old.decode, places.tolist()):
        try:
            same = new.validate(value, name) == value
        except SpaceError:
            same = False
        if not same:
            raise SpaceError(
                f"widen: {name}: {shown(new)} does not hold {shown(value)}, a value of {shown(old)}"
            )
    return new


def _added(
    name: str, pair: tuple[Parameter, Scalar], known: Mapping[str, Parameter]
) -> tuple[Parameter, Scalar]:
    if name in known:
        raise SpaceError(f"add: there is a parameter {shown(name)} already")
    return pair[0], pair[0].validate(pair[1], f"add: {name}")


def carried(old: Space, new: Space, values: Values) -> Callable[[Array], Array]:
    """The function that turns points of the old space into points of the new one.

    They keep the values that the parameters had, even where the new space has frozen them.

    Example:
        >>> import regretless as rl
        >>> old, new = rl.Space({"x": rl.Int(0, 4)}), rl.Space({"x": rl.Int(0, 8)})
        >>> carried(old, new, {})(np.array([[1.0]])).tolist()
        [[0.5]]
    """
    before = {name: j for j, name in enumerate(old.names)}

    def carry(points: Array) -> Array:
        out = np.empty((len(points), new.dim))
        for k, (name, parameter) in enumerate(new.parameters.items()):
            full = _full(parameter)
            if name not in before:
                out[:, k] = full.encode(values[name])
                continue
            j, was = before[name], _full(old.columns[before[name]])
            out[:, k] = points[:, j]
            # Each structured parameter remembers the values that it has encoded.
            if was != full or isinstance(full, Structured):
                out[:, k] = [full.encode(was.decode(u)) for u in points[:, j].tolist()]
        return new.resting(out)

    return carry


def _full(parameter: Parameter) -> Parameter:
    """The parameter with all values that it had."""
    inner = parameter.parameter if isinstance(parameter, Conditional) else parameter
    return inner.parameter if isinstance(inner, Frozen) else inner


def parameters_from_json(entries: object) -> dict[str, Parameter]:
    """Parameters by name, from the list in the JSON of a space.

    Raises:
        SpaceError: an entry describes no parameter, or a name occurs twice.

    Example:
        >>> parameters_from_json([{"name": "x", "type": "int", "low": 0, "high": 4}])
        {'x': Int(0, 4)}
    """
    if not isinstance(entries, list):
        raise SpaceError(f"parameters: need a list, got {shown(entries)}")
    pairs = [parameter_from_json(entry) for entry in entries]
    if len(dict(pairs)) < len(pairs):
        raise SpaceError(f"Space: names must be distinct, got {quoted(n for n, _ in pairs)}")
    return dict(pairs)


def change_from_json(data: object) -> dict[str, Any]:
    """The arguments of `changed` from JSON.

    `add` and `widen` are lists of parameters as in the JSON of a space, and those that are added
    have a `value` besides.  `freeze` and `drop` map names to values.

    Raises:
        SpaceError: the JSON describes no change.

    Example:
        >>> change_from_json({"freeze": {"x": 3}})["freeze"]
        {'x': 3}
    """
    known = ("add", "freeze", "widen", "drop")
    if not isinstance(data, Mapping) or not data.keys() <= set(known):
        raise SpaceError(f"change: need an object with {quoted(known)}, got {shown(data)}")
    change: dict[str, Any] = {name: data.get(name) for name in ("freeze", "drop")}
    change["widen"] = parameters_from_json(data.get("widen") or [])
    add, listed = {}, data.get("add") or []
    if not isinstance(listed, list):
        raise SpaceError(f"add: need a list of parameters, got {shown(listed)}")
    for entry in listed:
        if not (isinstance(entry, Mapping) and "value" in entry):
            raise SpaceError(
                f"add: need a parameter with the value that it had so far, got {shown(entry)}"
            )
        rest = {key: value for key, value in entry.items() if key != "value"}
        name, parameter = parameter_from_json(rest)
        add[name] = parameter, entry["value"]
    return {**change, "add": add}
