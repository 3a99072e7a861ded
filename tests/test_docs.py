"""The examples of the documentation run."""

import doctest
import importlib
import re
from pathlib import Path

import matplotlib
import pytest

matplotlib.use("Agg")

ROOT = Path(__file__).parents[1]
PAGES = [
    "docs/quickstart.md",
    "docs/spaces.md",
    "docs/policies.md",
    "docs/theory.md",
    "docs/live-tuning.md",
]


@pytest.mark.parametrize("page", PAGES)
def test_examples_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), flags=re.DOTALL)
    assert blocks
    scope: dict[str, object] = {"__name__": "example"}
    for block in blocks:  # one page is one session
        exec(compile(block, page, "exec"), scope)


def test_the_readme_s_first_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    text = (ROOT / "README.md").read_text()
    block = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)[0]
    block = block.replace("budget=200", "budget=12")
    exec(compile(block, "README.md", "exec"), {"measure": lambda params: params["visits"]})
    assert "Best(" in capsys.readouterr().out


@pytest.mark.parametrize("module", ["asktell", "ledger", "run"])
def test_examples_in_docstrings_run(module: str) -> None:
    failed, tried = doctest.testmod(importlib.import_module(f"regretless.{module}"))
    assert (failed, tried > 0) == (0, True)


@pytest.mark.parametrize(
    "page", [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("examples/*.md")], ids=str
)
def test_pages_link_to_what_exists(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" in target:
            continue
        there = page.parent / target if target else page
        assert there.exists(), f"{page.name} links to {target}"
        assert not anchor or anchor in _anchors(there), f"{page.name} links to {target}#{anchor}"


def _anchors(page: Path) -> set[str]:
    """What GitHub calls the headings of a page."""
    headings = re.findall(r"^#+ (.*)$", page.read_text(), flags=re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
