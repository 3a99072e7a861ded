"""The examples of the integration pages run, and so does the package for OptunaHub."""

from __future__ import annotations

import doctest
import importlib.util
import re
from pathlib import Path

import pytest

pytestmark = [pytest.mark.integration, pytest.mark.filterwarnings("default")]

ROOT = Path(__file__).parents[2]
HUB = ROOT / "integrations" / "optunahub" / "samplers" / "regretless_eic"
NEEDS = {
    "optuna": ["optuna"],
    "botorch": ["torch", "botorch"],
    "ray": ["ray"],
    "scikit-learn": ["optuna", "optuna_integration", "sklearn"],
}


@pytest.mark.parametrize("page", NEEDS)
def test_examples_run(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for module in NEEDS[page]:
        pytest.importorskip(module, reason=f"{module} is not installed")
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "docs" / "integrations" / f"{page}.md").read_text()
    scope: dict[str, object] = {"__name__": "example"}
    for block in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(block, f"{page}.md", "exec"), scope)
    if page == "ray":
        import ray

        ray.shutdown()


@pytest.mark.parametrize("framework", ["optuna", "botorch", "ray"])
def test_examples_in_docstrings_run(framework: str) -> None:
    for module in NEEDS[framework]:
        pytest.importorskip(module, reason=f"{module} is not installed")
    failed, tried = doctest.testmod(importlib.import_module(f"regretless.integrations.{framework}"))
    assert failed == 0
    assert tried


def test_the_optunahub_package_is_complete() -> None:
    optuna = pytest.importorskip("optuna", reason="optuna is not installed")
    assert {"__init__.py", "README.md", "LICENSE", "example.py"} <= {p.name for p in HUB.iterdir()}
    needed = (HUB / "requirements.txt").read_text()  # PyPI's regretless is another project
    assert not re.search("^regretless", needed, flags=re.MULTILINE)
    header = (HUB / "README.md").read_text().split("---")[1]
    fields = re.findall(r"^(\w+):", header, flags=re.MULTILINE)
    assert fields == ["author", "title", "description", "tags", "optuna_versions", "license"]
    spec = importlib.util.spec_from_file_location("regretless_eic", HUB / "__init__.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sampler = module.RegretlessSampler(budget=5)
    study = optuna.create_study(sampler=sampler)
    study.optimize(lambda t: t.suggest_float("x", 0.0, 1.0), n_trials=5)
    assert sampler.recommend(study).count >= 1
