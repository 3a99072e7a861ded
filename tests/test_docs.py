"""The examples of the documentation run."""

import doctest
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import matplotlib
import pytest

import regretless
from test_reference import HERE, source_of

matplotlib.use("Agg")

ROOT = Path(__file__).parents[1]
FRAMEWORKS = ("botorch", "optuna", "ray", "scikit-learn")
# Their examples need a service or a framework: test_service_process.py and tests/integrations.
ELSEWHERE = {"docs/service.md", *(f"docs/integrations/{n}.md" for n in FRAMEWORKS)}
PAGES = sorted(
    page
    for path in ROOT.glob("docs/**/*.md")
    if "```python\n" in path.read_text()
    if (page := path.relative_to(ROOT).as_posix()) not in ELSEWHERE
)


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
    assert "95 %" in capsys.readouterr().out


# The integrations need frameworks: their examples run in tests/integrations.  (An import of
# `__main__` would run a program.)
WITHOUT_EXAMPLES = {"cli", "integrations", "service"}
WITH_EXAMPLES = ("regretless.asktell", "regretless.ledger", "regretless.plotting", "regretless.run")
MODULES = [
    module.name
    for module in pkgutil.walk_packages(regretless.__path__, "regretless.")
    if module.name.split(".")[1] not in WITHOUT_EXAMPLES and not module.name.endswith("__main__")
]
IN_THE_REFERENCE = {source_of(name).path for name in HERE}  # test_reference.py runs those


@pytest.mark.parametrize("module", MODULES)
def test_examples_in_docstrings_run(
    module: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    found = doctest.DocTestFinder().find(importlib.import_module(module))
    assert any(each.examples for each in found) or module not in WITH_EXAMPLES
    told: list[str] = []
    for each in found:
        if each.name not in IN_THE_REFERENCE:
            doctest.DocTestRunner(verbose=False).run(each, out=told.append)
    assert not told, "".join(told)


# Each of these has an example, so that `help()` shows how it is used.
FACES = ["design", "kernels", "plotting", "policies", "space", "theory"]
RESULTS = ["Best", "Decision", "Landscape", "Model", "Result", "Row", "Trial"]


@pytest.mark.parametrize("face", FACES)
def test_public_classes_and_functions_have_an_example(face: str) -> None:
    module = importlib.import_module(f"regretless.{face}")
    names = getattr(module, "__all__", None) or [
        name
        for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", "") == module.__name__
    ]
    things = {name: getattr(module, name) for name in names}
    documented = {
        name: thing.__doc__ or ""
        for name, thing in things.items()
        if inspect.isclass(thing) or inspect.isfunction(thing)
    }
    assert documented
    assert not [name for name, text in documented.items() if "Example:" not in text]


@pytest.mark.parametrize("name", RESULTS)
def test_results_and_the_model_have_an_example(name: str) -> None:
    assert "Example:" in (getattr(regretless, name).__doc__ or "")


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
    """What GitHub calls the headings of a page, and the site the names of the API reference."""
    text = page.read_text()
    headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
    names = re.findall(r"^::: (\S+)$", text, flags=re.MULTILINE)
    anchors = {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    return anchors | set(names)
