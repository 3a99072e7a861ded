"""The API reference is complete: each name with parameters, returns, errors, and an example."""

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
from raising import ERRORS, member, raised

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


# What the pages show: every name, and the methods of a class, unless the page leaves them out.
FOLDED = {
    name
    for page in PAGES
    for name in re.findall(
        r"^::: (\S+)\n +options: \{members: false\}", page.read_text(), re.MULTILINE
    )
}


def methods_of(name: str) -> dict[str, griffe.Object]:
    thing = source_of(name)
    if not isinstance(thing, griffe.Class) or name in FOLDED:
        return {}
    found = {each: member(thing, each) for each in thing.all_members if not each.startswith("_")}
    return {
        f"{name}.{each}": method
        for each, method in found.items()
        if isinstance(method, griffe.Function) and method.docstring is not None
    }


CALLED = {name: source_of(name) for name in NAMES} | {
    name: method for each in NAMES for name, method in methods_of(each).items()
}
# The sampler gives the optimiser a space of its own, which is valid.
UNREACHABLE = {"regretless.integrations.optuna.RegretlessSampler": {"SpaceError"}}
FOR_FRONT_ENDS = ("users do not need it", "Make one with", "Use `Study.open`")


def described(name: str, depth: int = 3) -> str:
    """The docstring of a name, with those that it refers to: "see `AskTell.tell`"."""
    thing = CALLED[name]
    texts = [thing.docstring.value if thing.docstring else ""]
    init = thing.members.get("__init__") if isinstance(thing, griffe.Class) else None
    texts += [init.docstring.value] if init is not None and init.docstring else []
    for target in re.findall(r"(?:see|and|than|those of) `([\w.]+)`", "\n".join(texts)):
        wanted = target if "." in target else f"{thing.parent.name}.{target}"
        found = [each for each in CALLED if each.endswith((f".{wanted}", f".{target}"))]
        texts += [described(each, depth - 1) for each in found[:1] if depth]
    return "\n".join(texts)


@pytest.mark.parametrize("name", NAMES)
def test_every_parameter_is_described(name: str) -> None:
    assert {each: lost for each in (name, *methods_of(name)) if (lost := undescribed(each))} == {}


def undescribed(name: str) -> list[str]:
    """The parameters of which neither a list nor a sentence speaks."""
    thing, text = CALLED[name], described(name)
    if isinstance(thing, griffe.Attribute) or any(words in text for words in FOR_FRONT_ENDS):
        return []
    given = [one.name for one in thing.parameters if not one.name.startswith(("self", "cls", "_"))]
    in_lists = set(re.findall(r"^ +\*{0,2}(\w+): ", text, re.MULTILINE))
    in_sentences = {word for code in re.findall(r"`([^`]+)`", text) for word in code.split("=")}
    return [one for one in given if one not in in_lists | in_sentences]


@pytest.mark.parametrize("name", [name for name in NAMES if not name.endswith("Error")])
def test_every_error_is_described(name: str) -> None:
    """Those that are raised in the body, or in a helper that it calls by name."""
    assert {each: lost for each in (name, *methods_of(name)) if (lost := unnamed(each))} == {}


def unnamed(name: str) -> list[str]:
    """The errors that are not named, and of which no base but the most general is."""
    text = described(name)
    if any(words in text for words in FOR_FRONT_ENDS):
        return []
    bases = {
        error: {base.__name__ for base in ERRORS[error].__mro__} & ERRORS.keys()
        for error in raised(CALLED[name]) - UNREACHABLE.get(name, set())
    }
    return [e for e in bases if not any(base in text for base in bases[e] - {"RegretlessError"})]


# A first line that begins like this names the value.
NOUNS = r"(The|A|An|All|Each|How|What|Where|Whether|For each|Half|Random|So many|Values|Plain)\b"


@pytest.mark.parametrize("name", NAMES)
def test_every_return_is_described(name: str) -> None:
    """By "Returns:", by a sentence with the word, or by the first line."""
    for each in (name, *methods_of(name)):
        thing, text = CALLED[each], described(each)
        if isinstance(thing, griffe.Function) and str(thing.returns) not in {"None", "NoReturn"}:
            said = re.search(r"^ *Returns:|\breturns?\b", text, re.MULTILINE)
            assert said or re.match(NOUNS, text), each


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
