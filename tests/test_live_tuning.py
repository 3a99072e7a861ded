"""What the page and the examples on live tuning promise: they run, with real workers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")

import regretless as rl

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "live-tuning.md"


def environment(**more: str) -> dict[str, str]:
    """With this very `regretless` first."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    kept = {name: value for name, value in os.environ.items() if name != "REGRETLESS_STORAGE"}
    return {**kept, "OMP_NUM_THREADS": "1", "PATH": path, **more}


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="no shell like that on this system")
def test_the_page_from_top_to_bottom(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|sh)\n(.*?)^```", PAGE.read_text(), re.DOTALL | re.MULTILINE)
    python = "\n".join(code for language, code in blocks if language == "python")
    shell = "\n".join(code for language, code in blocks if language == "sh")
    for command in [sys.executable, "-c", python], ["sh", "-ec", shell]:
        done = subprocess.run(
            command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
        )
        assert done.returncode == 0, done.stderr
    assert "best: {" in done.stdout
    assert (tmp_path / "gateway.png").exists()
    with rl.Study.open(tmp_path / "demo.sqlite", "demo", read_only=True) as study:
        assert [row.status for row in study.history()] == ["told"] * 4
    with rl.Study.open(tmp_path / "backup.sqlite", "gateway", read_only=True) as study:
        assert study.observations > 25


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("bash") is None, reason="no bash on this system")
def test_shell_workers_on_postgresql(tmp_path: Path, postgres_url: str) -> None:
    script = str(ROOT / "examples" / "shell_workers.sh")
    settings = environment(REGRETLESS_STORAGE=postgres_url, BUDGET="7", PAUSE="0.1")
    subprocess.run([script, "create"], cwd=tmp_path, env=settings, check=True, timeout=60)
    workers = [subprocess.Popen([script, "work"], cwd=tmp_path, env=settings) for _ in range(3)]
    assert [worker.wait(timeout=300) for worker in workers] == [0, 0, 0]
    with rl.Study.open(postgres_url, "cache", read_only=True) as study:
        assert Counter(event.kind for event in study.events()) == {
            "created": 1,
            "asked": 7,
            "told": 7,
        }
        assert all(50 < study.predict(row.params)[0] < 100 for row in study.history()[-1:])


@pytest.mark.integration
def test_dask_workers_evaluate_for_one_study(tmp_path: Path) -> None:
    pytest.importorskip("distributed")
    script = str(ROOT / "examples" / "dask_workers.py")
    command = [sys.executable, script, "--workers", "2", "--budget"]
    options = {"cwd": tmp_path, "env": environment(), "text": True, "timeout": 300, "check": True}
    subprocess.run([*command, "5"], **options)  # type: ignore[call-overload]
    with rl.Study.open(tmp_path / "reactor.sqlite", "reactor") as study:
        study.extend(12)
        left = study.ask()  # by a run that was killed
    done = subprocess.run([*command, "12"], capture_output=True, **options)  # type: ignore[call-overload]
    assert "7 trials on 2 worker processes" in done.stdout
    with rl.Study.open(tmp_path / "reactor.sqlite", "reactor", read_only=True) as study:
        assert [row.status for row in study.history()] == ["told"] * 12
        assert study.trials[left.number] == left
