"""The order of the packages, and their imports as they stand in the sources.

tests/test_layers.py checks the imports against the order; docs/draw_architecture.py draws both.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

SOURCE = Path(__file__).parents[1] / "src" / "regretless"

# The lowest first. A package is one room: its modules may import each other.
LAYERS = [
    {"errors", "_internal"},
    {"defaults", "horizon", "improvement"},
    {"kernels"},
    {"space"},
    {"design", "results", "safety"},
    {"asktell"},
    {"model"},
    {"theory"},
    {"policies"},
    {"search"},
    {"engine"},
    {"ledger"},
    {"forecast", "importance", "run", "verdict"},
    {"plotting", "studies"},
    {"client"},
    {"experiments", "integrations", "service", "cli"},
    {"__main__"},
]
LEVEL = {module: level for level, layer in enumerate(LAYERS) for module in layer}
LEVEL["__init__"] = LEVEL["studies"]
CORE = {module for module, level in LEVEL.items() if level <= LEVEL["run"]} | {"__init__"}

FILES = sorted(SOURCE.rglob("*.py"))


@dataclass(frozen=True)
class Import:
    """`target` is the dotted name of a module, or of something inside one."""

    target: str
    line: int
    lazy: bool  # inside a function

    @property
    def is_ours(self) -> bool:
        return self.target.split(".")[0] == "regretless"


def room(path: Path) -> str:
    """The name in LAYERS under which a file goes."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_room(target: str) -> str:
    """The room of "regretless.x.y"; whatever is no module comes from the package's __init__."""
    name = [*target.split("."), "__init__"][1]
    return name if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists() else "__init__"


def imports(path: Path) -> list[Import]:
    """All imports of a file, those inside functions too."""
    package = ["regretless", *path.relative_to(SOURCE).parts[:-1]]
    return list(walk(ast.parse(path.read_text(encoding="utf-8")), package))


def walk(node: ast.AST, package: list[str], lazy: bool = False) -> Iterator[Import]:
    """The imports below a node of a module of this package."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield Import(alias.name, node.lineno, lazy)
    elif isinstance(node, ast.ImportFrom):
        base = package[: len(package) - node.level + 1] if node.level else []
        prefix = ".".join([*base, *([node.module] if node.module else [])])
        for alias in node.names:
            yield Import(f"{prefix}.{alias.name}", node.lineno, lazy)
    lazy = lazy or isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
    for child in ast.iter_child_nodes(node):
        yield from walk(child, package, lazy)
