"""The outside problems: what an instance promises. Each part needs its package."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.families import runs
from benchmarks.outside import simulations
from benchmarks.outside.__main__ import chosen, main
from benchmarks.outside.table import GROUPS, PROBLEMS, SUITES, instance


def some_points(space, n, seed=5):
    points = space.spread(np.random.default_rng(seed).random((n, space.dim)))
    return [space.decode(x) for x in points]


def test_every_problem_is_in_one_row_and_one_suite():
    assert len(PROBLEMS) == len(set(PROBLEMS)) == 12 + 24 + 30 + 5
    assert sorted(PROBLEMS) == sorted(name for names in SUITES.values() for name in names)
    assert sorted(PROBLEMS) == sorted(name for names in GROUPS.values() for name in names)
    assert chosen(["bbob-f2", "simopt"])[-1] == "bbob-f2"


def test_every_simulation_has_its_facts():
    known = json.loads(simulations.FACTS.read_text())
    assert list(known) == list(simulations.PROBLEMS)
    for name, facts in known.items():
        assert facts["spread"] > 0, name
        assert facts["noise"] <= 1 or facts["replications"] == 64, name


@pytest.mark.parametrize("name", ["bbob-f3", "bbob-f21", "noisy-f103", "noisy-f117", "mixint-f20"])
@pytest.mark.parametrize("seed", [0, 2])
def test_a_function_keeps_its_promises(name, seed):
    pytest.importorskip("cocoex", reason="coco-experiment is not installed")
    one, again = instance(name, seed), instance(name, seed)
    points = some_points(one.space, 30)
    assert [one.f(p) for p in points] == [again.f(p) for p in points]
    assert [one.observe(p, 1, 2) for p in points] == [again.observe(p, 1, 2) for p in points]
    assert len({one.observe(points[0], 1, k) for k in range(8)}) > 1
    assert min(one.regret(p, 0.0) for p in points) >= 0
    assert one.regret(one.best, 0.0) == pytest.approx(0.0, abs=1e-6)
    assert 50 <= one.budget <= 100


@pytest.mark.parametrize(
    ("function", "base", "shrunk"), [(101, 1, 1), (115, 7, 1), (124, 17, 1), (126, 19, 10)]
)
def test_the_value_without_noise_is_that_of_the_suite_without_noise(function, base, shrunk):
    """Both suites have these functions; f125 to f127 are a tenth of f19."""
    cocoex = pytest.importorskip("cocoex", reason="coco-experiment is not installed")
    one = instance(f"noisy-f{function}", 4)
    bare = cocoex.BareProblem("bbob", base, 3, 5)
    for params in some_points(one.space, 10):
        loss = bare(np.array(list(params.values()))) - bare.best_value()
        assert one.f_star - one.f(params) == pytest.approx(loss / shrunk, rel=1e-5)


@pytest.mark.parametrize("name", ["CNTNEWS-1", "SSCONT-1", "IRONORE-1"])
def test_a_simulation_keeps_its_promises(name):
    pytest.importorskip("simopt", reason="simoptlib is not installed")
    one = instance(f"simopt-{name}", 1)
    params = some_points(one.space, 1)[0]
    assert one.observe(params, 1, 2) == one.observe(params, 1, 2)
    assert one.f(params) == simulations.Simulation(name).mean(params, simulations.PROBLEMS[name])
    assert one.f(one.best) == pytest.approx(one.f_star)
    seen = np.array([one.observe(params, 1, k) for k in range(60)])
    assert abs(seen.mean() - one.f(params)) < 4 * seen.std(ddof=1) / 60**0.5


def test_runs_are_recorded(tmp_path, capsys):
    pytest.importorskip("cocoex", reason="coco-experiment is not installed")
    main(
        ["--problems", "bbob-f1", "--tools", "random", "--seeds", "0:1", "--records", str(tmp_path)]
    )
    (record,) = runs.read(tmp_path).values()
    assert record.id == "bbob-f1/random/0"
    assert record.error is None
    assert instance("bbob-f1", 0).budget == record.N
    assert "1 of 1 runs" in capsys.readouterr().out
