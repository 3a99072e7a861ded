"""A module imports from its own layer or below; the core needs only numpy and scipy."""

import ast
import sys
from pathlib import Path

import pytest

from layers import CORE, FILES, LEVEL, SOURCE, imported_room, imports, room, walk

SLOW_TO_IMPORT = ("scipy.stats", "scipy.optimize", "scipy.special", "scipy.spatial")

CORE_FILES = [path for path in FILES if room(path) in CORE]


def test_every_module_has_a_layer() -> None:
    assert {room(path) for path in FILES} <= set(LEVEL)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_no_upward_import(path: Path) -> None:
    own = LEVEL[room(path)]
    assert not [i for i in imports(path) if i.is_ours and LEVEL[imported_room(i.target)] > own]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_other_packages_are_entered_by_their_face(path: Path) -> None:
    """`from regretless.model import GP`, not `from regretless.model.gp import GP`."""
    inside = [i for i in imports(path) if i.is_ours and imported_room(i.target) != room(path)]
    assert not [i for i in inside if is_behind_the_face(i.target)]


@pytest.mark.parametrize("path", CORE_FILES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_core_needs_only_numpy_and_scipy(path: Path) -> None:
    allowed = sys.stdlib_module_names | {"numpy", "scipy", "regretless"}
    others = [i for i in imports(path) if i.target.split(".")[0] not in allowed]
    # Threads: wanted where it is there, done without where it is not (test_threads.py).  Tables:
    # only for users who have pandas.  Progress: in a notebook, where IPython is there.
    wanted = ("threadpoolctl.", "pandas", "IPython.")
    assert not [i for i in others if not (i.lazy and i.target.startswith(wanted))]
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


def is_behind_the_face(target: str) -> bool:
    """Whether it names a module of a package that has a face; what needs an extra has none."""
    package, *rest = [*target.split("."), ""][1:]
    if package in ("_internal", "studies", "service", "cli", "integrations", "experiments"):
        return False
    return bool(rest and rest[0]) and (SOURCE / package / f"{rest[0]}.py").exists()


def is_slow(target: str) -> bool:
    return any(f"{target}.".startswith(f"{slow}.") for slow in SLOW_TO_IMPORT)
