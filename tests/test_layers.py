"""A module imports from its own layer or below; the core needs only numpy and scipy."""

import ast
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "src" / "regretless"

# The lowest first. A package is one room: its modules may import each other.
LAYERS = [
    {"errors", "_internal"},
    {"defaults", "horizon", "improvement"},
    {"kernels"},
    {"space"},
    {"design", "results"},
    {"asktell"},
    {"model"},
    {"theory"},
    {"policies"},
    {"search"},
    {"engine"},
    {"ledger"},
    {"run"},
    {"plotting", "studies"},
    {"client"},
    {"experiments", "integrations", "service", "cli"},
    {"__main__"},
]
LEVEL = {module: level for level, layer in enumerate(LAYERS) for module in layer}
LEVEL["__init__"] = LEVEL["studies"]
CORE = {module for module, level in LEVEL.items() if level <= LEVEL["run"]} | {"__init__"}
SLOW_TO_IMPORT = ("scipy.stats", "scipy.optimize", "scipy.special", "scipy.spatial")

FILES = sorted(SOURCE.rglob("*.py"))
CORE_FILES = [path for path in FILES if path.relative_to(SOURCE).with_suffix("").parts[0] in CORE]


@dataclass(frozen=True)
class Import:
    """`target` is the dotted name of a module, or of something inside one."""

    target: str
    line: int
    lazy: bool


def test_every_module_has_a_layer() -> None:
    assert {room(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_upward_import(path: Path) -> None:
    own = LEVEL[room(path)]
    upward = [i for i in imports(path) if is_ours(i) and LEVEL[imported_room(i.target)] > own]
    assert not upward


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_other_packages_are_entered_by_their_face(path: Path) -> None:
    """`from regretless.model import GP`, not `from regretless.model.gp import GP`."""
    inside = [i for i in imports(path) if is_ours(i) and imported_room(i.target) != room(path)]
    assert not [i for i in inside if is_behind_the_face(i.target)]


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_core_needs_only_numpy_and_scipy(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"numpy", "scipy", "regretless"}
    others = [i for i in imports(path) if i.target.split(".")[0] not in allowed]
    # Wanted where it is there, done without where it is not (test_threads.py).
    assert not [i for i in others if not (i.lazy and i.target.startswith("threadpoolctl."))]
    assert not [i for i in imports(path) if not i.lazy and is_slow(i.target)]


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("import regretless.gp", "regretless.gp"),
        ("from regretless.gp import GP", "regretless.gp.GP"),
        ("from regretless import gp", "regretless.gp"),
        ("from .. import gp", "regretless.gp"),
        ("from ..gp import GP", "regretless.gp.GP"),
        ("from . import problems", "regretless.experiments.problems"),
        ("def f():\n    if x:\n        import regretless.gp", "regretless.gp"),
    ],
)
def test_the_walker_sees_every_form(code: str, found: str) -> None:
    assert [i.target for i in walk(ast.parse(code), package=["regretless", "experiments"])] == [
        found
    ]


def room(path: Path) -> str:
    """The name in LAYERS under which a file goes."""
    return path.relative_to(SOURCE).with_suffix("").parts[0]


def imported_room(target: str) -> str:
    """The room of "regretless.x.y"; whatever is no module comes from the package's __init__."""
    name = [*target.split("."), "__init__"][1]
    return name if (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").exists() else "__init__"


def is_ours(found: Import) -> bool:
    return found.target.split(".")[0] == "regretless"


def is_behind_the_face(target: str) -> bool:
    """Whether it names a module of a package that has a face; what needs an extra has none."""
    package, *rest = [*target.split("."), ""][1:]
    if package in ("_internal", "studies", "service", "cli", "integrations", "experiments"):
        return False
    return bool(rest and rest[0]) and (SOURCE / package / f"{rest[0]}.py").exists()


def is_slow(target: str) -> bool:
    return any(f"{target}.".startswith(f"{slow}.") for slow in SLOW_TO_IMPORT)


def imports(path: Path) -> list[Import]:
    package = ["regretless", *path.relative_to(SOURCE).parts[:-1]]
    return list(walk(ast.parse(path.read_text(encoding="utf-8")), package))


def walk(node: ast.AST, package: list[str], lazy: bool = False) -> Iterator[Import]:
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
