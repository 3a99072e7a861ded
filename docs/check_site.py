"""Check a built site: links and anchors lead somewhere, and nothing is loaded from elsewhere.

mkdocs checks the links in Markdown. This checks what it has written, with the API reference and the
images.
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"link": "href", "script": "src", "img": "src", "iframe": "src", "source": "src"}
PASSIVE = {"canonical", "next", "prev", "alternate", "edit"}  # links that a browser does not load


class Page(HTMLParser):
    """The anchors of a page, its links, and the addresses that a browser loads with it."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = {name: value or "" for name, value in attrs}
        self.anchors |= {values.get("id", ""), values.get("name", "")}
        if tag == "a" and "href" in values:
            self.links.append(values["href"])
        if tag in LOADED and LOADED[tag] in values and values.get("rel") not in PASSIVE:
            self.loaded.append(values[LOADED[tag]])


def problems(site: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in site.rglob("*.html")}
    found = []
    for path, page in pages.items():
        here = path.relative_to(site.resolve())
        found += [f"{here}: loads {url}" for url in page.loaded if urlsplit(url).netloc]
        if here.name == "404.html":  # its links begin at the root of the server
            continue
        for url in [*page.links, *page.loaded]:
            target, anchor = urlsplit(url), unquote(urlsplit(url).fragment)
            if target.scheme or target.netloc:
                continue
            there = (path.parent / unquote(target.path)).resolve() if target.path else path
            there = there / "index.html" if there.is_dir() else there
            if not there.exists():
                found.append(f"{here}: no file for {url}")
            elif anchor and there in pages and anchor not in pages[there].anchors:
                found.append(f"{here}: no anchor for {url}")
    if not pages:
        found.append(f"{site}: no pages")
    return found


if __name__ == "__main__":
    wrong = problems(Path(sys.argv[1]))
    print(*wrong, sep="\n", file=sys.stderr)
    sys.exit(bool(wrong))
