"""The API reference is complete: every public name, its parameters, and an example that runs."""

from __future__ import annotations

import doctest
import importlib
import inspect
import re
from pathlib import Path

import griffe
import matplotlib
import pytest

import regretless

matplotlib.use("Agg")

ROOT = Path(__file__).parents[1]
PAGES = sorted(ROOT.glob("docs/reference/*.md"))
NAMES = [
    name for page in PAGES for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
]
# Without the frameworks their modules can't be imported: tests/integrations runs these examples.
HERE = [name for name in NAMES if ".integrations." not in name]
SOURCES = griffe.load("regretless", search_paths=[ROOT / "src"], docstring_parser="google")


def source_of(name: str) -> griffe.Object:
    """The definition of a name, read without importing it."""
    found = SOURCES[name.removeprefix("regretless.")]
    return found.final_target if isinstance(found, griffe.Alias) else found


def text_of(name: str) -> str:
    docstring = source_of(name).docstring
    assert docstring is not None, f"{name} has no docstring"
    return docstring.value


def test_every_public_name_is_on_one_page() -> None:
    assert len(NAMES) == len(set(NAMES))
    on_pages = {name.removeprefix("regretless.") for name in NAMES}
    assert set(regretless.__all__) - on_pages == {"__version__"}
    others = {name for name in on_pages if "." not in name} - set(regretless.__all__)
    assert others == set()


def test_every_picture_is_on_the_page() -> None:
    module = importlib.import_module("regretless.plotting")
    pictures = {name for name in vars(module) if name.startswith("plot_")}
    assert {f"regretless.plotting.{name}" for name in pictures} == {
        name for name in NAMES if ".plotting." in name
    }


@pytest.mark.parametrize("name", NAMES)
def test_every_name_has_an_example(name: str) -> None:
    assert re.search(r"^Example:\n+    >>> ", text_of(name), re.MULTILINE)


@pytest.mark.parametrize("name", HERE)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    scope = dict(vars(importlib.import_module(source_of(name).module.path)))
    test = doctest.DocTestParser().get_doctest(text_of(name), scope, name, None, 0)
    assert test.examples
    told: list[str] = []
    doctest.DocTestRunner(verbose=False).run(test, out=told.append)
    assert not told, "".join(told)


@pytest.mark.parametrize("name", HERE)
def test_every_parameter_is_described(name: str) -> None:
    thing = source_of(name)
    if isinstance(thing, griffe.Attribute) or "Make one with" in text_of(name):
        return
    described = set(re.findall(r"^ {4}\*{0,2}(\w+): ", text_of(name), re.MULTILINE))
    elsewhere = re.search(r"Use `\w+\.open`|are those of `\w+`", whole_text(name))
    given = {one.name for one in thing.parameters if not one.name.startswith(("self", "_"))}
    assert elsewhere or given - described == set()


def whole_text(name: str) -> str:
    """With the docstring of the constructor, which may say that it is not to be called."""
    thing = source_of(name)
    init = thing.members.get("__init__") if isinstance(thing, griffe.Class) else None
    docstring = getattr(init, "docstring", None)
    return text_of(name) + (docstring.value if docstring is not None else "")


@pytest.mark.parametrize("name", HERE)
def test_every_method_has_a_docstring(name: str) -> None:
    module = importlib.import_module(source_of(name).module.path)
    thing = getattr(module, name.rpartition(".")[2])
    if not inspect.isclass(thing):
        return
    methods = {
        member: value
        for member, value in inspect.getmembers(thing)
        if not member.startswith("_") and (callable(value) or isinstance(value, property))
    }
    assert [member for member, value in methods.items() if not inspect.getdoc(value)] == []
