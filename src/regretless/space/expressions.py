"""Limits as text, such as "a + b <= 1": parsed without `eval`, and computed with their slopes.

An expression has numbers, names of parameters, + - * / **, brackets, and the functions sqrt, log,
exp, abs, min and max.  A name that is no Python identifier is put in quotes.  Two or more
expressions are compared by <=, >=, < or >, and comparisons may be joined by `and`.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError

LONGEST = 2_000  # characters of a limit
MOST_PARTS = 300  # names, numbers and operations of a limit

# A value at many points, of shape (q,), and its slopes in the values of the names, (q, names).
Dual = tuple[Array, Array]
Node = Callable[[Mapping[str, Dual]], Dual]


@dataclass(frozen=True, eq=False)
class Comparison:
    """One comparison: the slack is not negative where it holds, or positive if it is `strict`."""

    slack: Node
    strict: bool


def parsed(text: str, known: Sequence[str]) -> tuple[list[Comparison], list[str]]:
    """The comparisons of a limit, and the parameters that it names, in the order of the space.

    Raises:
        SpaceError: the text is no limit, or names an unknown parameter.
    """
    reader = _Reader(text, known)
    comparisons = reader.limit()
    return comparisons, [name for name in known if name in reader.named]


class _Reader:
    def __init__(self, text: str, known: Sequence[str]) -> None:
        self.text, self.known = text, known
        self.named: set[str] = set()

    def limit(self) -> list[Comparison]:
        if len(self.text) > LONGEST:
            raise self._wrong(f"need at most {LONGEST} characters, got {len(self.text)}")
        try:
            tree = ast.parse(self.text.strip(), mode="eval").body
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            raise self._wrong("need a comparison such as 'a + b <= 1'") from None
        if sum(1 for _ in ast.walk(tree)) > MOST_PARTS:
            raise self._wrong("it has too many parts")
        joined = isinstance(tree, ast.BoolOp) and isinstance(tree.op, ast.And)
        parts = tree.values if isinstance(tree, ast.BoolOp) and joined else [tree]
        found = [comparison for part in parts for comparison in self._comparisons(part)]
        if not self.named:
            raise self._wrong("it names no parameter")
        return found

    def _comparisons(self, tree: ast.expr) -> list[Comparison]:
        if not isinstance(tree, ast.Compare):
            raise self._wrong("need a comparison by <=, >=, < or >")
        sides = [self._node(side) for side in (tree.left, *tree.comparators)]
        out = []
        for op, left, right in zip(tree.ops, sides, sides[1:], strict=False):
            if isinstance(op, ast.Eq):
                raise self._wrong(
                    "an equation is not allowed: leave out one of its parameters, and compute it"
                )
            if not isinstance(op, ast.LtE | ast.Lt | ast.GtE | ast.Gt):
                raise self._wrong("need a comparison by <=, >=, < or >")
            small, large = (left, right) if isinstance(op, ast.LtE | ast.Lt) else (right, left)
            out.append(Comparison(_minus(large, small), isinstance(op, ast.Lt | ast.Gt)))
        return out

    def _node(self, tree: ast.expr) -> Node:
        if isinstance(tree, ast.Constant):
            return self._constant(tree.value)
        if isinstance(tree, ast.Name):
            return self._name(tree.id)
        if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub | ast.UAdd):
            inner = self._node(tree.operand)
            return inner if isinstance(tree.op, ast.UAdd) else _scaled(inner, -1.0)
        if isinstance(tree, ast.BinOp) and type(tree.op) in _OPERATIONS:
            return _OPERATIONS[type(tree.op)](self._node(tree.left), self._node(tree.right))
        if isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name) and not tree.keywords:
            return self._call(tree.func.id, [self._node(each) for each in tree.args])
        part = ast.get_source_segment(self.text.strip(), tree)
        raise self._wrong(f"{shown(part)} is not allowed: need numbers, parameters and + - * / **")

    def _constant(self, value: object) -> Node:
        if isinstance(value, str):
            return self._name(value)
        try:
            number = float(value) if isinstance(value, int | float) else math.nan
        except OverflowError:
            number = math.nan
        if isinstance(value, bool) or not math.isfinite(number):
            raise self._wrong(f"need a finite number, got {shown(value)}")

        def constant(values: Mapping[str, Dual]) -> Dual:
            like, slope = next(iter(values.values()))
            return np.full_like(like, number), np.zeros_like(slope)

        return constant

    def _name(self, name: str) -> Node:
        if name not in self.known:
            listed = ", ".join(map(repr, self.known[:20]))
            raise self._wrong(f"there is no parameter {shown(name)}; known: {listed}")
        self.named.add(name)
        return lambda values: values[name]

    def _call(self, name: str, args: list[Node]) -> Node:
        if name in _FUNCTIONS and len(args) == 1:
            return _chained(args[0], _FUNCTIONS[name])
        if name in ("min", "max") and len(args) >= 2:
            return _picked(args, np.argmin if name == "min" else np.argmax)
        raise self._wrong(f"need sqrt, log, exp, abs, min or max, got {shown(name)}")

    def _wrong(self, problem: str) -> SpaceError:
        return SpaceError(f"where: {shown(self.text)}: {problem}")


def _plus(a: Node, b: Node) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        (u, du), (v, dv) = a(values), b(values)
        return u + v, du + dv

    return node


def _scaled(a: Node, factor: float) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        u, du = a(values)
        return factor * u, factor * du

    return node


def _minus(a: Node, b: Node) -> Node:
    return _plus(a, _scaled(b, -1.0))


def _times(a: Node, b: Node) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        (u, du), (v, dv) = a(values), b(values)
        return u * v, u[:, None] * dv + v[:, None] * du

    return node


def _over(a: Node, b: Node) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        (u, du), (v, dv) = a(values), b(values)
        return u / v, (du - (u / v)[:, None] * dv) / v[:, None]

    return node


def _power(a: Node, b: Node) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        (u, du), (v, dv) = a(values), b(values)
        value = np.power(u, v)
        slope = (v * np.power(u, v - 1.0))[:, None] * du
        if np.any(dv):
            slope = slope + (value * np.log(u))[:, None] * dv
        return value, slope

    return node


_OPERATIONS: dict[type, Callable[[Node, Node], Node]] = {
    ast.Add: _plus,
    ast.Sub: _minus,
    ast.Mult: _times,
    ast.Div: _over,
    ast.Pow: _power,
}

# The value of each function, and its slope, given the argument.
_FUNCTIONS: dict[str, Callable[[Array], tuple[Array, Array]]] = {
    "sqrt": lambda u: (np.sqrt(u), 0.5 / np.sqrt(u)),
    "log": lambda u: (np.log(u), 1.0 / u),
    "exp": lambda u: (np.exp(u), np.exp(u)),
    "abs": lambda u: (np.abs(u), np.sign(u)),
}


def _chained(a: Node, function: Callable[[Array], tuple[Array, Array]]) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        u, du = a(values)
        value, slope = function(u)
        return value, slope[:, None] * du

    return node


def _picked(args: list[Node], pick: Callable[..., Array]) -> Node:
    def node(values: Mapping[str, Dual]) -> Dual:
        each = [a(values) for a in args]
        u, du = np.stack([v for v, _ in each]), np.stack([d for _, d in each])
        which = pick(u, axis=0)
        rows = np.arange(u.shape[1])
        return u[which, rows], du[which, rows]

    return node
