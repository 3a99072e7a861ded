"""A hook of mkdocs: pages from outside docs/, and links that work in the checkout and on the site.

Pages link to each other by their paths in the checkout, so that they can be read there, too. The
site has other paths: README.md is its home. Sources that a page links to come along as they are.
"""

from __future__ import annotations

import os
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
# Where a page of the checkout is found on the site. Pages in docs/ keep their places.
MOVED = {
    "README.md": "index.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "examples/README.md": "examples.md",
}
HOMES = {there: here for here, there in MOVED.items()}
ABSENT = "absent:"
SOURCES = {".py", ".sh", ".mjs", ".js", ".toml", ".yaml", ".yml", ".lock", ".sql", ".cff"}
LINK = re.compile(r"(?<=\]\()([^)#\s]*)(#[^)\s]*)?(?=\))")
DATA = {".jsonl", ".json", ".csv"}  # records, which are too large for a site
IMAGE = re.compile(r'(?<=src=")([^"]+)(?=")')
CODE = re.compile(r"(^```.*?^```|`[^`\n]+`)", re.MULTILINE | re.DOTALL)


def on_files(files: Files, config: MkDocsConfig, **_: Any) -> Files:
    for here, there in MOVED.items():
        text = (ROOT / here).read_text(encoding="utf-8")
        files.append(File.generated(config, there, content=text))
    return files


def on_page_markdown(
    markdown: str, page: Page, config: MkDocsConfig, files: Files, **_: Any
) -> str:
    def link(match: re.Match[str]) -> str:
        return _rewritten(match[1], page, config, files) + (match[2] or "")

    def image(match: re.Match[str]) -> str:
        return _rewritten(match[1], page, config, files)

    parts = CODE.split(markdown)  # every other part is code, and stays as it is
    parts[::2] = [IMAGE.sub(image, LINK.sub(link, part)) for part in parts[::2]]
    # What is not on the site keeps its name, and is no link.
    return re.sub(rf"\[([^\]]*)\]\({ABSENT}\)", r"\1", "".join(parts))


def _rewritten(target: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """The target of a link in the checkout, as seen from the page's place on the site."""
    if not target or ":" in target:
        return target
    here = page.file.src_uri
    home = HOMES.get(here, f"docs/{here}")
    wanted = posixpath.normpath(posixpath.join(posixpath.dirname(home), target))
    found = ROOT / wanted
    if found.is_dir() or found.suffix in DATA:
        return ABSENT
    if wanted in MOVED:
        there = MOVED[wanted]
    elif found.suffix in SOURCES or found.name in {"Dockerfile", "Makefile", "LICENSE"}:
        there = f"source/{wanted}.txt"
        if found.is_file() and files.get_file_from_path(there) is None:
            text = found.read_text(encoding="utf-8")
            files.append(File.generated(config, there, content=text))
    else:
        there = wanted.removeprefix("docs/")
    return posixpath.relpath(there, posixpath.dirname(here) or os.curdir)
