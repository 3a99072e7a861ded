"""The benchmark against the peers, tried with our own tool and random search only."""

from __future__ import annotations

import shutil
import signal
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.peers import plot, report, runs, tools
from benchmarks.peers.__main__ import main
from benchmarks.peers.adapters import common_start
from benchmarks.peers.problems import TASKS
from benchmarks.peers.results import ENOUGH, FRESH, Results, holm
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
            "michalewicz-5",
            {"x1": 2.2029055, "x2": 1.5707963, "x3": 1.2849916, "x4": 1.9230585, "x5": 1.7204698},
        ),
        ("goldstein-2", {"x1": 0.0, "x2": -1.0}),
        ("bukin-2", {"x1": -10.0, "x2": 1.0}),
        ("hartmann-4", {"x1": 0.18739527, "x2": 0.19415153, "x3": 0.55791778, "x4": 0.26477962}),
        ("powell-4", dict.fromkeys(("x1", "x2", "x3", "x4"), 0.0)),
        ("salomon-3", dict.fromkeys(("x1", "x2", "x3"), 0.0)),
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
    wanted = runs.specs(["hartmann-6", "forrester-1"], ["ax", "regretless"], "common", 2, 1)
    assert [spec.id for spec in wanted] == [
        "forrester-1/regretless/common/0",
        "hartmann-6/regretless/common/0",
        "forrester-1/ax/common/0",
        "hartmann-6/ax/common/0",
        "forrester-1/regretless/common/1",
        "hartmann-6/regretless/common/1",
    ]


@pytest.fixture
def torch_as_it_was():
    """The peers set what belongs to the whole process."""
    yield
    if torch := sys.modules.get("torch"):
        torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("torch_as_it_was")
def test_botorch_starts_with_the_common_points_anyway():
    pytest.importorskip("torch", reason="torch is not installed")
    (spec,) = runs.specs(["forrester-1"], ["botorch-ucb"], "common", 1, 1)
    assert spec.start == "own"
    tool = tools.TOOLS["botorch-ucb"].tool(spec.task, 7, [])
    assert [tool.ask() for _ in range(4)] == common_start(spec.task, 7)


@pytest.mark.usefixtures("torch_as_it_was")
@pytest.mark.filterwarnings("ignore")  # the peers' own
@pytest.mark.parametrize("name", tools.TOOLS)
def test_every_tool_knows_which_way_is_up(name):
    """What it recommends is among the best that it was told of, not among the worst."""
    entry = tools.TOOLS[name]
    if not entry.installed:
        pytest.skip(f"{entry.imports} is not installed")
    task = TASKS["forrester-1"]
    tool, tried = entry.tool(task, 0, []), []
    for _ in range(8):
        params = tool.ask()
        tool.tell(params, 10.0 * params["x1"])
        tried.append(params["x1"])
    assert tool.recommend()["x1"] >= np.median(tried)


def test_runs_are_recorded_resumed_and_reported(tmp_path, monkeypatch, capsys):
    folder = tmp_path / "peers" / "records"
    command = ["--records", str(folder), "--budget", str(BUDGET), "--problems", "forrester-1"]
    command += ["--tools", "regretless", "random", "--seeds", "2"]
    monkeypatch.setattr("benchmarks.peers.footprint.REPEATS", 1)
    main(command)
    first = runs.read(folder)
    assert len(first) == 4
    assert all(run.error is None and len(run.steps) == BUDGET for run in first.values())
    run = first["forrester-1/regretless/own/1"]
    assert run.curve[-1] == pytest.approx(run.regret, abs=1e-3)
    assert run.stamp["regretless"]

    monkeypatch.setattr(runs, "in_a_process", lambda *_: pytest.fail("a run was done again"))
    main(command)
    assert runs.read(folder) == first
    page = (tmp_path / "peers.md").read_text()
    assert "A smoke test" in page
    assert "| regretless |" in page
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


def recorded(regrets: dict[str, list[float]], first_seed: int = 0) -> list[runs.Run]:
    run = runs.run(specs("random")[0])
    return [
        replace(run, id=f"forrester-1/{tool}/own/{seed}", regret=regret)
        for tool, values in regrets.items()
        for seed, regret in enumerate(values, first_seed)
    ]


def test_few_runs_rank_nobody_and_decide_nothing():
    spread = np.linspace(-0.1, 0.1, ENOUGH)
    found = recorded(
        {
            "regretless": [1.0, *(1.0 + spread)],
            "ax": [2.0, 2.01, 1.99],
            "skopt": [*(4.0 + spread)],
            "optuna-tpe": [*(3.0 + spread)],
        }
    )
    results = Results.of(found, "own")
    assert results.ranked("forrester-1") == ["optuna-tpe", "skopt"]
    assert results.unranked("forrester-1") == ["ax"]
    assert results.against("forrester-1", "skopt").clear
    assert not results.against("forrester-1", "ax").clear  # although its interval excludes 0
    assert results.against("forrester-1", "ax").regret.high < 0


def test_the_confirmation_has_seeds_of_its_own():
    ours, theirs = [1.0, 1.2, 0.9, 1.1, 1.0, 1.3], [1.5, 1.4, 2.0, 1.2, 1.6]
    known = recorded({"regretless": [100.0] * 5, "optuna-tpe": theirs})
    found = [*known, *recorded({"regretless": ours}, FRESH)]
    results, fresh = Results.of(found, "own"), Results.of(found, "own", fresh=True)
    assert results.cells["forrester-1", "regretless"].over("regret").mean == 100
    (duel,) = report.duels(results, fresh)
    expected = stats.ttest_ind(ours, theirs, equal_var=False)
    assert duel.gap.p == pytest.approx(expected.pvalue)
    interval = expected.confidence_interval(0.95)
    assert (duel.gap.regret.low, duel.gap.regret.high) == pytest.approx(
        (interval.low, interval.high)
    )
    page = "\n".join(report.sections(found, results, [duel], {}, "x.png"))
    assert "| forrester-1 | 1.08 ± 0.15 (6) | optuna-tpe: 1.54 ± 0.37 (5) |" in page


def test_the_picture_shows_the_ratios_of_those_with_enough_seeds(tmp_path, monkeypatch):
    from matplotlib.axes import Axes

    drawn = {}
    plot_line = Axes.plot

    def noted(self, x, y, *rest, **style):
        drawn[style["color"]] = (x, y)
        return plot_line(self, x, y, *rest, **style)

    monkeypatch.setattr(Axes, "plot", noted)
    known = recorded({"regretless": [9.0] * 5, "optuna-tpe": [3.0] * ENOUGH, "ax": [5.0] * 2})
    ours = Results.of(recorded({"regretless": [2.0] * 6}, FRESH), "own", fresh=True)
    cell = ours.cells["forrester-1", "regretless"]
    plot.draw_ratios(Results.of(known, "own"), {"forrester-1": cell}, tmp_path / "ratios.png")
    assert drawn == {plot.COLOURS["optuna-tpe"]: (1.5, 0)}
    assert (tmp_path / "ratios.png").stat().st_size > 1000


def test_many_looks_need_more():
    assert holm({"a": 0.001, "b": 0.02, "c": 0.026, "d": 0.9}) == {"a"}
    assert holm({"a": 0.001, "b": 0.016, "c": 0.024, "d": 0.9}) == {"a", "b", "c"}
    assert holm({}) == set()


def test_a_cell_is_not_made_in_two_ways(tmp_path, capsys):
    wanted = specs("regretless-eic", seeds=2)
    record = runs.run(wanted[0])
    assert record.stamp["setting"] == "policy=eic"
    runs.append(tmp_path, replace(record, stamp=record.stamp | {"setting": "policy=ei"}))
    assert runs.run_all(wanted, tmp_path) == 1
    assert (
        "left as it is: forrester-1/regretless-eic/own, run with policy=ei;"
        in capsys.readouterr().out
    )
    assert list(runs.read(tmp_path)) == [record.id]


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


@pytest.mark.parametrize("problem", ["forrester-1", "recipe-5"])
def test_a_common_start_is_the_same_for_all(problem):
    """And ours is told of it point by point: its adapter asserts that."""
    names, size = ["regretless", "regretless-paper", "random"], 2 * TASKS[problem].space.dim + 2
    wanted = runs.specs([problem], names, "common", 1, 1, size + 3)
    found = [runs.run(spec) for spec in wanted]
    assert [run.error for run in found] == [None] * 3
    first, second, third = (run.steps[:size] for run in found)
    assert first == second == third


def test_a_start_that_is_told_in_another_order_would_be_noticed():
    task = TASKS["forrester-1"]
    first = common_start(task, 0)
    tool = tools.TOOLS["regretless"].tool(task, 0, list(reversed(first)))
    with pytest.raises(AssertionError):
        tool.tell(first[0], 1.0)
