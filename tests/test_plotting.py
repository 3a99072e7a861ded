"""Pictures are drawn from the right numbers; whether they please is for eyes."""

import warnings
from fractions import Fraction
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from scipy import stats

import regretless as rl
from regretless.plotting import plot_decisions, plot_posterior, plot_regret, plot_reward

matplotlib.use("Agg")

LINE = rl.Space({"price": rl.Float(1.0, 20.0, log=True)})
PLANE = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.1, 10.0, log=True)})


def tuned(space: rl.Space, steps: int = 15, **options: object) -> rl.Optimizer:
    opt = rl.Optimizer(space, 40, seed=1, **options)  # type: ignore[arg-type]
    rng = np.random.default_rng(0)
    for trial in opt.ask(steps):
        value = -sum((float(v) - 0.5) ** 2 for v in trial.params.values())
        opt.tell(trial, value + 0.1 * rng.standard_normal())
    return opt


def test_regret_curves_are_sums_with_bands() -> None:
    runs = np.random.default_rng(0).random((6, 30))
    ax = plot_regret({"ours": runs, "theirs": runs[0]})
    ours, theirs = ax.get_lines()
    np.testing.assert_allclose(ours.get_ydata(), np.cumsum(runs.mean(axis=0)))
    np.testing.assert_allclose(theirs.get_ydata(), np.cumsum(runs[0]))
    assert len(ax.collections) == 1  # a single run has no band
    interval = stats.t.interval(0.95, 5, loc=0.0, scale=stats.sem(np.cumsum(runs, axis=1)[:, -1]))
    np.testing.assert_allclose(band(ax)[-1], interval[1])
    summed = plot_regret({"ours": np.cumsum(runs, axis=1)}, cumulative=False)
    np.testing.assert_allclose(summed.get_lines()[0].get_ydata(), ours.get_ydata())


def test_axes_in_axes_out() -> None:
    from matplotlib.figure import Figure

    ax = Figure().add_subplot()
    assert plot_regret({"a": np.ones(4)}, ax) is ax
    assert plot_decisions(tuned(LINE), ax) is ax


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_reward_is_what_was_gained(direction: str) -> None:
    opt = tuned(LINE, direction=direction)
    values = np.array([row.value for row in opt.history()])
    sign = 1 if direction == "maximize" else -1
    line = plot_reward(opt, baseline=-30.0).get_lines()[1]
    np.testing.assert_allclose(line.get_ydata(), np.cumsum(sign * (values + 30.0)))
    with pytest.raises(rl.NoResultsError, match="no result was told"):
        plot_reward(rl.Optimizer(LINE, 5))


def band(ax: Axes) -> np.ndarray:
    """Half of its height, step by step."""
    around = ax.collections[0].get_paths()[0].vertices
    return np.array([np.ptp(around[around[:, 0] == x, 1]) / 2 for x in np.unique(around[:, 0])])


def test_the_band_of_the_reward_knows_the_noise_of_the_first_result() -> None:
    opt = rl.Optimizer(LINE, 4)
    sems = np.array([0.5, 0.2, 0.1])
    for trial, sem in zip(opt.ask(3), sems, strict=True):
        opt.tell(trial, float(trial.number), sem=sem)
    known = 1.96 * np.sqrt(np.cumsum(sems**2))
    np.testing.assert_allclose(band(plot_reward(opt, baseline=0.0)), known)
    # y_1 + ... + y_t - t y_1, of which y_1 itself is one.
    unknown = [0.0, np.hypot(0.5, 0.2), np.sqrt((2 * 0.5) ** 2 + 0.2**2 + 0.1**2)]
    np.testing.assert_allclose(band(plot_reward(opt)), 1.96 * np.array(unknown))


def test_little_to_draw() -> None:
    opt = rl.Optimizer(LINE, 4)
    opt.tell(opt.ask(), 1.0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot_reward(opt)
    with pytest.raises(rl.ConfigError, match="'none' has no steps"):
        plot_regret({"none": []})


def test_every_decision_is_shown() -> None:
    opt = tuned(LINE)
    ax = plot_decisions(opt)
    shown = sum(len(points.get_offsets()) for points in ax.collections)
    assert shown == 15
    plot_decisions(rl.Optimizer(LINE, 5))  # nothing to show is not an error


@pytest.mark.parametrize("space", [LINE, PLANE])
def test_posterior_draws_and_changes_nothing(space: rl.Space) -> None:
    opt = tuned(space)
    before = opt.to_json()
    first, second = plot_posterior(opt)
    first.figure.canvas.draw()
    assert opt.to_json() == before
    assert "25 evaluations left" in first.get_title() + second.get_title()


def test_the_grey_is_where_the_gate_is_shut() -> None:
    opt = tuned(LINE)
    points = [{"price": float(x)} for x in np.linspace(1.0, 20.0, 50)]
    land = opt.landscape(points)
    worth = land.expected_improvement >= land.evaluation_cost
    np.testing.assert_array_equal(land.feasible, worth)


def test_other_spaces_are_refused_by_name() -> None:
    opt = tuned(rl.Space({"x": rl.Float(0, 1), "n": rl.Int(1, 4)}))
    with pytest.raises(rl.ConfigError, match="x, n"):
        plot_posterior(opt)


def test_a_run_may_be_held_in_any_way(tmp_path: Path) -> None:
    result = rl.maximize(lambda params: -(params["price"] ** 2), LINE, 8)  # type: ignore[operator]
    with rl.Study.open(tmp_path / "s.db", "s", space=LINE, budget=8) as study:
        for trial in study:
            study.tell(trial, -(trial.params["price"] ** 2))  # type: ignore[operator]
        for run in (result, result.optimizer, study):
            assert len(plot_reward(run, baseline=Fraction(-1, 2)).lines[1].get_ydata()) == 8
            assert plot_decisions(run).collections
            assert len(plot_posterior(run)) == 2


@pytest.mark.parametrize("plot", [plot_decisions, plot_reward, plot_posterior])
def test_what_is_no_run_is_refused(plot: Any) -> None:
    with pytest.raises(rl.ConfigError, match=r"need an Optimizer, a Result or a Study, got \[\]"):
        plot([])


def test_curves_and_baselines_that_cannot_be() -> None:
    with pytest.raises(rl.ConfigError, match="equal length of 'mine'"):
        plot_regret({"mine": [[1.0, 2.0], [1.0]]})  # type: ignore[dict-item]
    with pytest.raises(rl.ConfigError, match="of 'mine'"):
        plot_regret({"mine": np.zeros((2, 2, 2))})
    with pytest.raises(rl.ConfigError, match="baseline, got 'x'"):
        plot_reward(rl.Optimizer(LINE, 4), baseline="x")  # type: ignore[arg-type]
