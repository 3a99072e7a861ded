"""The check of the documentation site finds what is wrong with one."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "docs"))

from check_site import problems  # noqa: E402

GOOD = '<h1 id="top">a</h1><a href="b.html#there">b</a><a href="https://example.org/">out</a>'


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("", []),
        ('<a href="c.html">', ["a.html: no file for c.html"]),
        ('<a href="b.html#gone">', ["a.html: no anchor for b.html#gone"]),
        ('<a href="#gone">', ["a.html: no anchor for #gone"]),
        ('<img src="gone.png">', ["a.html: no file for gone.png"]),
        ('<script src="https://cdn.example/x.js">', ["a.html: loads https://cdn.example/x.js"]),
        ('<link rel="stylesheet" href="//fonts.example">', ["a.html: loads //fonts.example"]),
        ('<link rel="canonical" href="https://example.org/a">', []),
    ],
)
def test_what_is_wrong_is_named(text: str, wrong: list[str], tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(GOOD + text)
    (tmp_path / "b.html").write_text('<p id="there">')
    assert problems(tmp_path) == wrong


def test_an_empty_site_is_wrong(tmp_path: Path) -> None:
    assert problems(tmp_path) == [f"{tmp_path}: no pages"]
