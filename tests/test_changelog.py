"""Fragments of the changelog end up under their headings."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / ".ci"))

from changelog import gathered  # noqa: E402

BEFORE = """# Changelog

## [Unreleased]

Before.

### Added

- one

### Fixed

- old

## [0.1.0]

### Added

- first
"""


def test_entries_go_under_their_heading_and_nothing_else_changes() -> None:
    fragments = {
        "a.md": "### Fixed\n\n- bug\n\n### Added\n\n- two\n  lines\n",
        "b.md": "### Changed\n- habit\n\n### Added\n- three",
    }
    after = BEFORE.replace("- one\n", "- one\n- two\n  lines\n- three\n\n### Changed\n\n- habit\n")
    assert gathered(BEFORE, fragments) == after.replace("- old\n", "- old\n- bug\n")


def test_nothing_to_gather_changes_nothing() -> None:
    assert gathered(BEFORE, {}) == BEFORE


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("### New\n- x", "a.md: unknown heading 'New'"),
        ("- x", "a.md: begin with a heading"),
        ("### Added\n- x\n### Added\n- y", "a.md: a heading stands there twice"),
    ],
)
def test_what_is_wrong_with_a_fragment_is_named(text: str, says: str) -> None:
    with pytest.raises(SystemExit, match=says):
        gathered(BEFORE, {"a.md": text})


def test_the_fragments_of_this_checkout_can_be_gathered() -> None:
    files = sorted((ROOT / "changelog.d").glob("*.md"))
    text = (ROOT / "CHANGELOG.md").read_text()
    new = gathered(text, {file.name: file.read_text() for file in files})
    assert len(new.splitlines()) >= len(text.splitlines())
