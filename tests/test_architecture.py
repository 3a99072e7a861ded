"""docs/architecture.md names the packages and files that exist, and its picture is up to date."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from PIL import Image

from layers import FILES, SOURCE, room

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

import draw_architecture as drawing  # noqa: E402
import draw_ask as ask  # noqa: E402

PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
ROWS = re.findall(r"^\| `(\w+)` \| ([^|]+) \| ([^|]+) \|$", PAGE, flags=re.MULTILINE)
NAMED = sorted(set(re.findall(r"`([\w/]+\.\w+)(?:::\w+)?`", PAGE)))
TESTS = sorted(set(re.findall(r"`(tests/\w+\.py)::(\w+)`", PAGE)))


def test_every_package_is_on_the_page_and_in_the_picture() -> None:
    there = {room(path) for path in FILES}
    assert {name for name, _, _ in ROWS} == there
    assert set(drawing.BOXES) | drawing.NOT_DRAWN == there


@pytest.mark.parametrize("name", [name for name in NAMED if name.endswith(".py")])
def test_files_exist(name: str) -> None:
    assert (SOURCE / name).exists() or (ROOT / name).exists()


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_main_files_are_of_the_package(row: tuple[str, str, str]) -> None:
    package, _, files = row
    for name in re.findall(r"`([\w/]+(?:\.py|/static))`", files):
        assert room(SOURCE / name) == package


@pytest.mark.parametrize(("file", "test"), TESTS)
def test_tests_exist(file: str, test: str) -> None:
    assert f"def {test}(" in (ROOT / file).read_text(encoding="utf-8")


def test_names_of_code_exist() -> None:
    """Classes, methods and functions that the page names stand in the sources."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in FILES)
    for name in re.findall(r"`([A-Z]\w+(?:\.\w+)?)`", PAGE):
        owner, _, attribute = name.partition(".")
        assert re.search(rf"^(class )?{owner}\b", text, flags=re.MULTILINE), name
        # A method, or a field of a dataclass.
        found = re.search(rf"^    (?:def {attribute}\(|{attribute}: )", text, flags=re.MULTILINE)
        assert not attribute or found, name


def test_the_reduced_graph_reaches_what_the_whole_one_does() -> None:
    edges = drawing.edges()
    kept = drawing.reduced(edges)
    assert kept < edges
    assert closure(kept) == closure(edges)
    assert all(closure(kept - {edge}) != closure(edges) for edge in kept)


def closure(edges: set[tuple[str, str]]) -> set[tuple[str, str]]:
    found = set(edges)
    while more := {(a, d) for a, b in found for c, d in found if b == c} - found:
        found |= more
    return found


def test_the_picture_shows_what_is_there() -> None:
    shown = Image.open(drawing.PICTURE).text["Description"]
    assert shown == drawing.description(), "run: python docs/draw_architecture.py"


def test_the_picture_of_an_ask_shows_the_steps_of_the_page() -> None:
    shown = Image.open(ask.PICTURE).text["Description"]
    assert shown == ask.description(), "run: python docs/draw_ask.py"
    text = PAGE.partition("## The way of an ask")[2].partition("## The way of a tell")[0]
    first, second = text.split("`Study.ask` (")
    for boxes, part in ((ask.OPTIMIZER, first), (ask.STUDY, second)):
        drawn = [box.title.split()[0] for box in boxes if box.file]
        assert set(drawn) <= set(re.findall(r"^(\d+)\. ", part, flags=re.MULTILINE))
        assert drawn == sorted(drawn, key=int)
        assert all((SOURCE / box.file).exists() for box in boxes if box.file)
