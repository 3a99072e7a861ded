"""The benchmark against the peers, tried with our own tool and random search only."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import report, runs, tools
from benchmarks.peers.__main__ import main
from benchmarks.peers.problems import TASKS
from benchmarks.peers.results import Results
from benchmarks.peers.runs import Spec

BUDGET = 8


def specs(*names: str, seeds: int = 1, start: str = "own") -> list[Spec]:
    return runs.specs(["forrester-1"], names, start, seeds, seeds, BUDGET)


@pytest.mark.parametrize("name", TASKS)
def test_no_point_beats_the_optimum_and_the_noise_belongs_to_the_evaluation(name):
    task, rng = TASKS[name], np.random.default_rng(0)
    points = [task.space.decode(x) for x in task.space.spread(rng.random((50, task.space.dim)))]
    if task.f is not None:
        assert min(task.regret(params, 0.0) for params in points) >= 0
    params = points[0]
    assert task.observe(params, 1, 2) == task.observe(params, 1, 2)
    if name != "rosenbrock-4-exact":
        assert len({task.observe(params, 1, k) for k in range(4)}) > 1


@pytest.mark.parametrize(
    ("name", "params"),
    [
        ("forrester-1", {"x1": 0.75724875}),
        ("styblinski-10", {f"x{i}": -2.90353403 for i in range(1, 11)}),
        ("branin-2-wild", {"x1": np.pi, "x2": 2.275}),
        ("hartmann-3-sd1", {"x1": 0.11458888, "x2": 0.55564889, "x3": 0.85254698}),
        ("rosenbrock-4-exact", {"x1": 1.0, "x2": 1.0, "x3": 1.0, "x4": 1.0}),
        ("plateau-3", {"x1": 0.7, "x2": 0.3, "x3": 0.6}),
        ("drop-wave-2", {"x1": 0.0, "x2": 0.0}),
        ("camel-2", {"x1": 0.08984201, "x2": -0.71265640}),
        ("shekel-4", {"x1": 4.00074653, "x2": 4.00059293, "x3": 3.99966339, "x4": 3.9995098}),
        ("alpine-3", {"x1": 7.91705268, "x2": 7.91705268, "x3": 7.91705268}),
        (
            "recipe-5",
            {
                "temperature": 72.5,
                "catalyst": 0.01 * 10**1.5,
                "stirring": 0.3,
                "minutes": 27,
                "solvent": "water",
            },
        ),
    ],
)
def test_the_optimum_is_reached(name, params):
    assert TASKS[name].regret(params, 0.0) == pytest.approx(0, abs=1e-8)


def test_the_order_is_seed_by_seed_and_the_cheap_ones_first():
    wanted = runs.specs(["hartmann-6", "forrester-1"], ["ax", "noregret"], "common", 2, 1)
    assert [spec.id for spec in wanted] == [
        "forrester-1/noregret/common/0",
        "hartmann-6/noregret/common/0",
        "forrester-1/ax/common/0",
        "hartmann-6/ax/common/0",
        "forrester-1/noregret/common/1",
        "hartmann-6/noregret/common/1",
    ]


def test_botorch_starts_with_the_common_points_anyway():
    (spec,) = runs.specs(["forrester-1"], ["botorch-ucb"], "common", 1, 1)
    assert spec.start == "own"


def test_runs_are_recorded_resumed_and_reported(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "peers" / "records"
    command = ["--records", str(folder), "--budget", str(BUDGET), "--problems", "forrester-1"]
    command += ["--tools", "noregret", "random", "--seeds", "2"]
    monkeypatch.setattr("benchmarks.peers.footprint.REPEATS", 1)
    main(command)
    first = runs.read(folder)
    assert len(first) == 4
    assert all(run.error is None and len(run.steps) == BUDGET for run in first.values())
    run = first["forrester-1/noregret/own/1"]
    assert run.curve[-1] == pytest.approx(run.regret, abs=1e-3)
    assert run.stamp["noregret"]

    monkeypatch.setattr(runs, "in_a_process", lambda *_: pytest.fail("a run was done again"))
    main(command)
    assert runs.read(folder) == first
    page = (tmp_path / "peers.md").read_text()
    assert "A smoke test" in page
    assert "| noregret |" in page
    assert "`ax`: no run at all." in page
    assert (tmp_path / "peers" / "regret.png").stat().st_size > 1000
    with pytest.raises(SystemExit, match="a folder of their own"):
        runs.run_all(runs.specs(["forrester-1"], ["random"], "own", 1, 1), folder)


def test_a_torn_line_is_passed_over_and_written_again(tmp_path):
    record = runs.run(specs("random")[0])
    runs.append(tmp_path, record)
    (path,) = tmp_path.rglob("*.jsonl")
    path.write_text(path.read_text()[:-20])
    assert runs.read(tmp_path) == {}
    runs.append(tmp_path, record)
    assert runs.read(tmp_path) == {record.id: record}


def test_a_single_run_ranks_nobody():
    run = runs.run(specs("random")[0])
    recorded = [
        replace(run, id=f"forrester-1/{tool}/own/{seed}", regret=regret)
        for tool, regrets in {"ax": [1.0], "skopt": [3.0, 5.0], "optuna-tpe": [2.0, 4.0]}.items()
        for seed, regret in enumerate(regrets)
    ]
    assert Results.of(recorded, "own").ranked("forrester-1") == ["optuna-tpe", "skopt"]


class Broken:
    """Good for three suggestions."""

    def __init__(self, task, seed, first):
        self._left = 3

    def ask(self):
        if not self._left:
            raise ArithmeticError("not positive definite")
        self._left -= 1
        return {"x1": 0.5}

    def tell(self, params, value):
        pass


def test_a_crash_is_a_record_with_the_curve_up_to_it(tmp_path, monkeypatch):
    entry = tools.Entry(Broken, "breaks", "numpy", ("numpy",), 0.001)
    monkeypatch.setattr(runs, "TOOLS", {**tools.TOOLS, "random": entry})
    record = runs.run(specs("random")[0])
    assert record.error == "ArithmeticError: not positive definite"
    assert len(record.steps) == 3
    runs.append(tmp_path / "records", record)
    report.write(tmp_path / "records", tmp_path / "page.md")
    assert "crashed: ArithmeticError" in (tmp_path / "page.md").read_text()


def test_a_process_that_dies_is_a_crash_too(monkeypatch):
    monkeypatch.setattr(sys, "executable", shutil.which("false"))
    record = runs.in_a_process(specs("random")[0], 60.0)
    assert record is not None
    assert record.error == "exit code 1: no message"


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs signals")
def test_a_run_that_somebody_stopped_leaves_no_record(tmp_path, monkeypatch):
    stopped = tmp_path / "stopped"
    stopped.write_text("#!/bin/sh\nkill -TERM $$\n")
    stopped.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(stopped))
    assert runs.in_a_process(specs("random")[0], 60.0) is None


def test_nothing_is_started_after_the_limit(tmp_path):
    wanted = specs("random", seeds=3)
    assert runs.run_all(wanted, tmp_path, limit_minutes=0.0) == 3


def test_a_common_start_is_the_same_for_all():
    wanted = specs("noregret", "noregret-paper", "random", start="common")
    first = [runs.run(spec).steps[:4] for spec in wanted]
    assert first[0] == first[1] == first[2]
