"""How often the intervals hold the truth: a small run, its record and the table."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.families import coverage
from benchmarks.families.__main__ import main
from benchmarks.families.table import instance


@pytest.mark.parametrize("name", ["hills", "price"])
def test_an_instance_knows_the_noise_at_a_point(name):
    task = instance(name, 1)
    for x in task.space.spread(np.random.default_rng(3).random((3, task.space.dim))):
        params = task.space.decode(x)
        rng = np.random.default_rng(0)
        seen = [task.draw(params, rng) for _ in range(2000)]
        assert np.std(seen) == pytest.approx(task.scatter(params), rel=0.08)


def test_a_run_is_asked_at_its_marks():
    held = coverage.run("gp-smooth", "regretless@1", True, 0, marks=(8, 12))
    assert len(held.best) == len(held.predict) == 2
    assert all(0 <= count <= coverage.POINTS for count in held.predict)


def test_records_are_kept_and_the_table_is_of_all_versions(tmp_path, monkeypatch):
    def made(family, name, sem, seed):
        best = [sem or seed > 0] * 6
        return coverage.Held(family, name, sem, seed, best, [19] * 6, "abc")

    monkeypatch.setattr(coverage, "run", made)
    arguments = ["--coverage", "--families", "hills", "price", "--records", str(tmp_path)]
    main([*arguments, "--tools", "regretless@1", "--seeds", "0:4"])
    first = coverage.read(tmp_path)
    main([*arguments, "--tools", "regretless@1", "regretless@7", "--seeds", "0:4"])
    assert len(first) == 16
    assert len(coverage.read(tmp_path)) == 32
    lines = coverage.table(tmp_path).splitlines()
    assert (
        "| regretless@1, `best`, without sem | " + " | ".join(["75.0 (16.4)"] * 6) + " |" in lines
    )
    assert "| price | " + " | ".join(["75 / 100"] * 6) + " |" in lines
    assert "`predict` of regretless@7 by family, without sem / with sem:" in lines
    assert coverage.table(tmp_path / "nothing") == ""


def test_only_our_own_tool_has_intervals(tmp_path):
    with pytest.raises(SystemExit, match="optuna-tpe"):
        coverage.run_all(["hills"], ["optuna-tpe"], range(1), tmp_path)
    with pytest.raises(SystemExit, match="kept for the end"):
        main(["--coverage", "--families", "keep", "--tools", "regretless"])


def test_a_name_without_a_version_means_the_newest():
    assert coverage.versioned("regretless@1") == "regretless@1"
    assert coverage.versioned("regretless").partition("@")[2].isdigit()
