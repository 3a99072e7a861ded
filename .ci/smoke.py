"""What a fresh installation must be able to do: run by `make dist` in a clean environment.

python smoke.py                  # numpy and scipy only
python smoke.py cli studies serve plot pandas
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

import regretless as rl

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})


def core() -> None:
    loaded = {name.partition(".")[0] for name in sys.modules}
    assert not loaded & {"sqlalchemy", "fastapi", "matplotlib", "pandas", "optuna"}, loaded
    result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), SPACE, budget=12)
    assert abs(result.best.params["x"] - 0.3) < 0.1, result.best
    assert version("regretless") == rl.__version__


def studies(folder: Path) -> None:
    with rl.Study.open(folder / "s.sqlite", "smoke", space=SPACE, budget=3) as study:
        for trial in study:
            study.tell(trial, trial.params["x"])
    with rl.Study.open(folder / "s.sqlite", "smoke") as study:
        assert study.asked == 3


def cli(folder: Path) -> None:
    command = [sys.executable, "-m", "regretless"]
    said = subprocess.run([*command, "version"], capture_output=True, text=True, check=True).stdout
    assert rl.__version__ in said, said
    storage = ["--storage", str(folder / "s.sqlite")]
    said = subprocess.run(
        [*command, "studies", *storage], capture_output=True, text=True, check=True
    ).stdout
    assert "smoke" in said, said


def serve(folder: Path) -> None:
    from regretless.service.app import create_app

    app = create_app(str(folder / "s.sqlite"))
    assert "/api/studies" in app.openapi()["paths"]


def plot(folder: Path) -> None:
    from regretless import plotting

    result = rl.maximize(lambda params: params["x"], SPACE, budget=6)
    plotting.plot_decisions(result).figure.savefig(folder / "p.png")
    assert (folder / "p.png").stat().st_size > 1000


def pandas(folder: Path) -> None:
    assert len(rl.maximize(lambda params: params["x"], SPACE, budget=4).to_dataframe()) == 4


PARTS = {"studies": studies, "cli": cli, "serve": serve, "plot": plot, "pandas": pandas}


def main(extras: list[str]) -> None:
    core()
    with tempfile.TemporaryDirectory() as folder:
        for extra in sorted(extras, key=list(PARTS).index):
            PARTS[extra](Path(folder))
    python = ".".join(map(str, sys.version_info[:3]))
    print(f"regretless {rl.__version__} works on Python {python} with:", "core", *extras)


if __name__ == "__main__":
    main(sys.argv[1:])
