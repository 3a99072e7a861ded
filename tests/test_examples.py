"""The examples run, in a small form, and draw their pictures."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("sqlalchemy")
pytest.importorskip("matplotlib")

from conftest import PostgresServer, _postgres_programs

ROOT = Path(__file__).parents[1]
EXAMPLES = ROOT / "examples"


def run(*command: str | Path, folder: Path, seconds: float = 300) -> str:
    """What a command prints; its programs are found beside the Python of the tests."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    env = os.environ | {"PATH": path, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT / "src")}
    done = subprocess.run(
        list(map(str, command)),
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=seconds,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def is_picture(path: Path) -> bool:
    return path.read_bytes().startswith(b"\x89PNG") and path.stat().st_size > 5000


def test_postgresql_under_pgbench(postgres: PostgresServer, tmp_path: Path) -> None:
    programs = _postgres_programs()
    assert programs is not None
    if not (shutil.which("pgbench") or (programs / "pgbench").exists()):
        pytest.skip("no pgbench on this machine")
    import psycopg

    with psycopg.connect(postgres.url(), autocommit=True) as connection:
        connection.execute("CREATE DATABASE bench")
    small = ["--trials", "5", "--seconds", "1", "--scale", "1", "--picture", "p.png"]
    script = EXAMPLES / "postgres_pgbench.py"
    said = run(sys.executable, script, postgres.url("bench"), *small, folder=tmp_path)
    assert "better than today with a probability of" in said
    assert is_picture(tmp_path / "p.png")
    with psycopg.connect(postgres.url("bench")) as connection:  # nothing is left behind
        found = connection.execute(
            "SELECT name FROM pg_settings WHERE source = 'configuration file'"
            " AND name IN ('commit_delay', 'commit_siblings', 'wal_compression')"
        ).fetchall()
    assert found == []


def test_a_recommender(tmp_path: Path) -> None:
    script, study = EXAMPLES / "live_demo.py", ["--study", "recommender", "--storage", "s.db"]
    run("regretless", "tune", script, "--budget", "10", *study, folder=tmp_path)
    options = ["--storage", "s.db", "--runs", "1", "--picture", "p.png"]
    said = run(sys.executable, script, *options, folder=tmp_path)
    assert "Clicks lost in 10 days" in said
    assert "keep today's setting" in said
    assert is_picture(tmp_path / "p.png")


def test_prices_by_the_hour(tmp_path: Path) -> None:
    script = EXAMPLES / "prices.py"
    said = run(sys.executable, script, "--trials", "25", "--picture", "p.png", folder=tmp_path)
    assert "regular customers at 20 h" in said
    assert is_picture(tmp_path / "p.png")


def test_a_shell_loop(tmp_path: Path) -> None:
    if not all(map(shutil.which, ["gzip", "bzip2", "xz", "awk"])):
        pytest.skip("no gzip, bzip2, xz or awk on this machine")
    script = EXAMPLES / "shell_loop.sh"
    said = run("sh", script, "2", tmp_path, folder=tmp_path)
    assert said.count("trial ") == 2
    assert "best: " in said
    assert is_picture(tmp_path / "shell_loop.png")
    again = run("sh", script, "2", tmp_path, folder=tmp_path)  # the budget is spent
    assert "trial " not in again


def test_guardrails(tmp_path: Path) -> None:
    said = run(sys.executable, EXAMPLES / "guardrails.py", folder=tmp_path)
    assert "trials that broke the guardrail" in said


def test_the_picture_of_eic(tmp_path: Path) -> None:
    run(sys.executable, EXAMPLES / "explain_eic.py", "p.png", folder=tmp_path)
    assert is_picture(tmp_path / "p.png")


@pytest.mark.integration
def test_scikit_learn_through_optuna(tmp_path: Path) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed")
    pytest.importorskip("sklearn")
    small = ["--trials", "8", "--repeats", "2", "--picture", "p.png"]
    said = run(sys.executable, EXAMPLES / "optuna_sklearn.py", *small, folder=tmp_path)
    assert "recommend() says" in said
    assert is_picture(tmp_path / "p.png")
