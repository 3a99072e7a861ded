"""Which errors a function raises, as its source says: in its body, or in a helper that it calls."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import griffe

from regretless import errors

ERRORS = {
    name: found
    for name, found in vars(errors).items()
    if isinstance(found, type) and issubclass(found, errors.RegretlessError)
}
BY_HAND = ("__init__", "__post_init__")  # what runs when a class is called
# Applying an event raises only if the journal is broken: docs of `Study` say so once.
NOT_FOLLOWED = {"Optimizer.apply", "Optimizer._apply_any", "Decision.from_json"}


@cache
def _functions(path: Path) -> dict[int, ast.FunctionDef]:
    """The functions of a file, by the line on which griffe says that they begin."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    first = {node: min([node.lineno, *(d.lineno for d in node.decorator_list)]) for node in found}
    return {line: node for node in found for line in (first[node], node.lineno)}


def member(scope: Any, name: str) -> Any:
    """What a name means in a module or a class; None if it is not ours."""
    known = scope.all_members if isinstance(scope, griffe.Class) else scope.members
    found = known.get(name)
    try:
        return found.final_target if isinstance(found, griffe.Alias) else found
    except (griffe.AliasResolutionError, griffe.CyclicAliasError):
        return None


def raised(thing: Any, depth: int = 1) -> set[str]:
    """The names of our errors that a call of this function or class raises."""
    if isinstance(thing, griffe.Class):
        parts = [member(thing, name) for name in BY_HAND]
        return set().union(*(raised(part, depth) for part in parts))
    if not isinstance(thing, griffe.Function) or str(thing.filepath) == "":
        return set()
    if f"{thing.parent.name}.{thing.name}" in NOT_FOLLOWED:
        return set()
    node = _functions(Path(str(thing.filepath))).get(thing.lineno or 0)
    return {name for line in node.body for name in _of(line, thing, depth)} if node else set()


def _of(node: ast.AST, where: griffe.Function, depth: int) -> Iterator[str]:
    if isinstance(node, ast.Try):
        caught = {name for handler in node.handlers for name in _names(handler.type)}
        inside = {name for line in node.body for name in _of(line, where, depth)}
        yield from (name for name in inside if not _is_caught(name, caught))
        for line in [*node.handlers, *node.orelse, *node.finalbody]:
            yield from _of(line, where, depth)
        return
    if isinstance(node, ast.Raise) and node.exc is not None:
        exc = node.exc.func if isinstance(node.exc, ast.Call) else node.exc
        yield from ERRORS.keys() & {ast.unparse(exc).rpartition(".")[2]}
    if isinstance(node, ast.Call) and depth:
        yield from raised(_called(node.func, where), depth - 1)
    for child in ast.iter_child_nodes(node):
        yield from _of(child, where, depth)


def _called(func: ast.expr, where: griffe.Function) -> Any:
    """The function or class that a call by name leads to; None if it is not ours."""
    if isinstance(func, ast.Name):
        return member(where.module, func.id)
    if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
        own = func.value.id in {"self", "cls"} and isinstance(where.parent, griffe.Class)
        scope = where.parent if own else member(where.module, func.value.id)
        return member(scope, func.attr) if isinstance(scope, griffe.Module | griffe.Class) else None
    return None


def _names(handled: ast.expr | None) -> set[str]:
    if handled is None:
        return {"Exception"}
    each = handled.elts if isinstance(handled, ast.Tuple) else [handled]
    return {ast.unparse(one).rpartition(".")[2] for one in each}


def _is_caught(name: str, caught: set[str]) -> bool:
    return bool(caught & {base.__name__ for base in ERRORS[name].__mro__})
