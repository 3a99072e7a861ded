"""The campaign in a tiny form: it runs, leaves records, goes on where it stopped, and is honest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

import regretless as rl

ROOT = Path(__file__).parents[1]


def campaign(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "benchmarks.campaign", "--folder", str(folder), *options]
    return subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_tiny_campaign(tmp_path: Path) -> None:
    done = campaign(tmp_path, "--tiny", "--parts", "workers-sqlite,api,http")
    assert done.returncode == 0, done.stderr
    records = [
        json.loads(line) for line in (tmp_path / "reliability.jsonl").read_text().splitlines()
    ]
    assert [record["part"] for record in records] == ["workers-sqlite", "api", "http"]
    assert records[0]["counts"]["kills of workers"] == 3
    assert records[0]["counts"]["acknowledged"] >= 3
    assert not any(record["faults"] for record in records)
    page = (tmp_path / "reliability.md").read_text()
    assert "| kill -9 of workers, SQLite | 3 | 400 | 0 | 0 |" in page
    assert "**Not complete**" in page


def test_what_has_a_record_is_not_done_again(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.campaign import records
    finally:
        sys.path.remove(str(ROOT))
    place = tmp_path / "r.jsonl"
    records.add(place, {"part": "api", "seed": 0, "size": 5})
    with place.open("a") as file:
        file.write('{"part": "api", "se')  # stopped in the middle of a line
    assert records.done(records.load(place)) == {("api", 0, 5)}
    records.add(place, {"part": "api", "seed": 1, "size": 5})
    assert records.done(records.load(place)) == {("api", 0, 5), ("api", 1, 5)}


def test_the_ledger_sees_what_is_lost_and_what_is_doubled(tmp_path: Path) -> None:
    sys.path.insert(0, str(ROOT))
    try:
        from benchmarks.campaign.ledger import SETTINGS, Ledger, Tally
    finally:
        sys.path.remove(str(ROOT))
    storage = tmp_path / "s.db"
    with rl.Study.open(storage, "s", **SETTINGS) as study:
        trial = study.ask(key="1")
        study.tell(trial, 1.0, key="tell 1")
        study.ask(key="3")
    tally, keys = Tally(), ["ask 1", "tell 1", "ask 2"]
    Ledger(tried=keys, done=keys).compare(storage, "s", tally)
    assert tally.faults == {"lost": 1, "unknown": 1}
    assert tally.notes == ["lost: ask 2", "unknown: ask 3"]


@pytest.fixture
def with_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT))


@pytest.mark.usefixtures("with_sources")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_load_alone_is_no_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a machine that does a piece of work four times too slowly, a second counts a quarter."""
    from benchmarks.campaign import control

    monkeypatch.setattr(control, "_work", lambda: 4 * control.WORK)
    monkeypatch.setattr(control, "PAUSE", 0.01)
    begun = time.monotonic()
    with control.running():
        while control.seconds() < 0.1:
            time.sleep(0.01)
        assert control.seconds() <= 0.25 * (time.monotonic() - begun)


@pytest.mark.usefixtures("with_sources")
def test_a_call_that_hangs_is_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    from benchmarks.campaign import control
    from benchmarks.campaign.ledger import Tally

    clock = iter([0.0, 59.0, 100.0, 161.0])
    monkeypatch.setattr(control, "seconds", lambda: next(clock))
    tally = Tally()
    assert tally.timed(lambda: 1) == 1
    assert not tally.faults
    with pytest.raises(ZeroDivisionError):
        tally.timed(lambda: 1 / 0)
    assert tally.faults == {"hangs": 1}
