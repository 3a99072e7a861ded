"""The wheel: what is in it, that it stands alone, and what it says where an extra is missing."""

import ast
import email
import importlib.metadata
import importlib.util
import json
import os
import re
import subprocess
import sys
import tomllib
import venv
import zipfile
from pathlib import Path

import pytest

import regretless

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "regretless"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
EXTRAS = set(PROJECT["optional-dependencies"])
STATIC = {".css", ".html", ".js", ".mjs", ".svg"}  # the live page, and a client

# What needs an extra, and which one: each of these is tried where there is none.
NEEDS = {
    "import regretless.cli.app": "cli",
    "import regretless.studies.journal": "studies",
    "import regretless.studies.database": "studies",
    "import regretless as rl; rl.Study.open('s.db', 's')": "studies",
    "import regretless.service.app": "serve",
    "from regretless.plotting import plot_regret; plot_regret({'a': [1.0]})": "plot",
    "from regretless.plotting import _panels; _panels(None, (1, 1))": "plot",
    "from regretless._internal.frames import dataframe_of; dataframe_of([])": "pandas",
    "from regretless.experiments.runner import _results; next(_results([], 1, '', None, None))": (
        "experiments"
    ),
    "from regretless.experiments.runner import _one_thread; _one_thread().__enter__()": (
        "experiments"
    ),
    "from regretless.experiments.mlp import _data; _data(0)": "experiments",
    "from regretless.experiments.pictures import draw_all; draw_all(None, None)": "experiments",
    "from regretless.experiments.runner import _dask; _dask(1, None).__enter__()": "dask",
    "from regretless.experiments.runner import _ray; _ray(1, None).__enter__()": "ray",
    "import regretless.integrations.optuna": "optuna",
    "import regretless.integrations.botorch": "botorch",
    "import regretless.integrations.ray": "ray",
}


# --- one version ----------------------------------------------------------------------------------


def test_the_version_is_written_once() -> None:
    assert "version" not in PROJECT
    assert PROJECT["dynamic"] == ["version"]
    tree = ast.parse((SOURCE / "__init__.py").read_text(encoding="utf-8"))
    written = [
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__version__"
    ]
    assert written == [regretless.__version__]


def test_what_is_installed_has_the_version_that_it_says() -> None:
    assert importlib.metadata.version("regretless") == regretless.__version__


# --- the wheel ------------------------------------------------------------------------------------


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from this checkout, without the network."""
    pytest.importorskip("hatchling", reason="hatchling is not installed")
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (built,) = folder.iterdir()
    return built


def test_the_wheel_has_every_module_and_nothing_else(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
    assert len(names) == len(set(names))
    packages = {path.parent for path in SOURCE.rglob("*.py")}
    assert [folder for folder in packages if not (folder / "__init__.py").exists()] == []
    ours = [*SOURCE.rglob("*.py"), SOURCE / "py.typed"]
    static = [path for path in (SOURCE / "service" / "static").iterdir() if path.suffix in STATIC]
    assert len(static) >= 4
    about = f"regretless-{regretless.__version__}.dist-info"
    wanted = {f"regretless/{path.relative_to(SOURCE).as_posix()}" for path in [*ours, *static]}
    notes = ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")
    assert set(names) == wanted | {f"{about}/{name}" for name in notes}


def test_the_wheel_says_what_it_needs(wheel: Path) -> None:
    about = f"regretless-{regretless.__version__}.dist-info"
    with zipfile.ZipFile(wheel) as archive:
        metadata = email.message_from_bytes(archive.read(f"{about}/METADATA"))
        scripts = archive.read(f"{about}/entry_points.txt").decode()
    assert metadata["Version"] == regretless.__version__
    assert set(metadata.get_all("Provides-Extra", [])) == EXTRAS
    needed = metadata.get_all("Requires-Dist", [])
    assert sorted(line for line in needed if "extra ==" not in line) == [
        "numpy>=2.0",
        "scipy>=1.13",
    ]
    assert "regretless = regretless.cli:main" in scripts


@pytest.fixture(scope="session")
def alone(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that has the wheel, numpy and scipy, and nothing else."""
    home = tmp_path_factory.mktemp("alone")
    venv.create(home, with_pip=False, symlinks=True)
    python = home / "bin" / "python"
    options = ["--quiet", "--no-index", "--no-deps", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "--python", str(python), "install", *options, wheel]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (packages,) = home.glob("lib/python*/site-packages")
    for name in ("numpy", "scipy"):
        spec = importlib.util.find_spec(name)
        assert spec is not None
        assert spec.origin is not None
        real = Path(spec.origin).parent
        (packages / name).symlink_to(real)
        libraries = real.with_name(f"{name}.libs")
        if libraries.exists():
            (packages / libraries.name).symlink_to(libraries)
    return python


def said(
    command: list[str | Path], folder: Path, given: str = ""
) -> subprocess.CompletedProcess[str]:
    """What a command answers in an environment where nothing points to this checkout."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "COV"))}
    bare = kept | {"OMP_NUM_THREADS": "1"}  # several threads would wait for each other
    return subprocess.run(
        command, cwd=folder, env=bare, input=given, capture_output=True, text=True
    )


def test_the_wheel_works_alone(alone: Path, tmp_path: Path) -> None:
    script = (
        "import regretless as rl, sys\n"
        "from importlib.metadata import version\n"
        "found = rl.maximize(lambda p: -(p['x'] - 0.3) ** 2, rl.Space({'x': rl.Float(0, 1)}), 12)\n"
        "print(rl.__file__, version('regretless'), abs(found.best.params['x'] - 0.3) < 0.1)\n"
    )
    done = said([alone, "-c", script], tmp_path)
    assert done.returncode == 0, done.stderr
    file, version, good = done.stdout.split()
    assert Path(file).is_relative_to(alone.parents[1])
    assert (version, good) == (regretless.__version__, "True")


def test_the_command_says_what_it_needs(alone: Path, tmp_path: Path) -> None:
    done = said([alone.parent / "regretless", "version"], tmp_path)
    assert done.returncode == 7
    assert done.stderr == "regretless: typer is not installed; run: pip install 'regretless[cli]'\n"


# --- what is not installed ------------------------------------------------------------------------


def test_every_extra_is_in_all_of_them() -> None:
    (everything,) = PROJECT["optional-dependencies"]["all"]
    listed = everything.removeprefix("regretless[").removesuffix("]").split(",")
    assert set(listed) == EXTRAS - {"all", "dev"}


def test_every_message_names_an_extra_that_there_is() -> None:
    """And there is no extra that nothing asks for."""
    named = set()
    for path in SOURCE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith("MissingExtraError"):
                named.add(ast.literal_eval(node.args[0]))
    assert named == EXTRAS - {"all", "dev"}
    assert set(NEEDS.values()) == named


def test_whatever_is_missing_the_message_is_the_line_that_installs_it(
    alone: Path, tmp_path: Path
) -> None:
    script = (
        "import json, sys\n"
        "said = {}\n"
        "for code in json.load(sys.stdin):\n"
        "    try:\n"
        "        exec(code, {})\n"
        "    except BaseException as error:\n"
        "        said[code] = f'{type(error).__name__}: {error}'\n"
        "print(json.dumps(said))\n"
    )
    done = said([alone, "-c", script], tmp_path, json.dumps(list(NEEDS)))
    assert done.returncode == 0, done.stderr
    answers = json.loads(done.stdout)
    line = re.compile(
        r"MissingExtraError: \S+ is not installed; run: pip install 'regretless\[(\w+)\]'"
    )
    for code, extra in NEEDS.items():
        if extra == "cli":  # the console script ends with the line and its code
            assert answers[code] == "SystemExit: 7"
            assert "pip install 'regretless[cli]'" in done.stderr
            continue
        found = line.fullmatch(answers[code])
        assert found is not None, (code, answers[code])
        assert found[1] == extra, code
