"""Move the fragments of changelog.d into "Unreleased" of CHANGELOG.md: `make changelog`.

A fragment is a Markdown file with one or more of the headings below, each followed by a list. Two
changes that are made at the same time write two files, and so do not get into each other's way.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
KINDS = ["Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"]
HEADING = re.compile(r"^### (.+)$", re.MULTILINE)
UNRELEASED = re.compile(r"(?<=^## \[Unreleased\]\n).*?(?=^## |\Z)", re.MULTILINE | re.DOTALL)


def parts(text: str, name: str) -> dict[str, str]:
    """The text under each heading; under "" what stands before the first one."""
    before, *found = HEADING.split(text)
    kinds, bodies = found[::2], found[1::2]
    unknown = [kind for kind in kinds if kind not in KINDS]
    if unknown:
        raise SystemExit(f"{name}: unknown heading {unknown[0]!r}; need one of {', '.join(KINDS)}")
    if len(kinds) != len(set(kinds)):
        raise SystemExit(f"{name}: a heading stands there twice")
    return {"": before, **dict(zip(kinds, bodies, strict=True))}


def gathered(changelog: str, fragments: dict[str, str]) -> str:
    """The changelog with the entries of all fragments under the headings of "Unreleased"."""
    section = UNRELEASED.search(changelog)
    if section is None:
        raise SystemExit("CHANGELOG.md: there is no section ## [Unreleased]")
    whole = parts(section[0], "CHANGELOG.md")
    for name, text in fragments.items():
        found = parts(text, name)
        if found.pop("").strip() or not found:
            raise SystemExit(f"{name}: begin with a heading such as ### Added")
        for kind, body in found.items():
            whole[kind] = f"{whole.get(kind, '').rstrip()}\n{'' if kind in whole else chr(10)}"
            whole[kind] += f"{body.strip()}\n\n"
    ordered = [kind for kind in KINDS if kind in whole]
    text = whole[""] + "".join(f"### {kind}{whole[kind]}" for kind in ordered)
    return changelog[: section.start()] + text + changelog[section.end() :]


def main() -> None:
    files = sorted((ROOT / "changelog.d").glob("*.md"))
    changelog = ROOT / "CHANGELOG.md"
    text = gathered(changelog.read_text(), {file.name: file.read_text() for file in files})
    if "--check" in sys.argv:
        return
    changelog.write_text(text)
    for file in files:
        file.unlink()
    print(f"{len(files)} fragments moved into CHANGELOG.md")


if __name__ == "__main__":
    main()
