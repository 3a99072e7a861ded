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
from regretless.importance import importances
from regretless.plotting import (
    plot_decisions,
    plot_importances,
    plot_pairs,
    plot_posterior,
    plot_regret,
    plot_reward,
    plot_slices,
)

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
    ax = plot_regret({"ours": runs, "theirs": runs[0]}, per_step=True)
    ours, theirs = ax.get_lines()
    np.testing.assert_allclose(ours.get_ydata(), np.cumsum(runs.mean(axis=0)))
    np.testing.assert_allclose(theirs.get_ydata(), np.cumsum(runs[0]))
    assert len(ax.collections) == 1  # a single run has no band
    interval = stats.t.interval(0.95, 5, loc=0.0, scale=stats.sem(np.cumsum(runs, axis=1)[:, -1]))
    np.testing.assert_allclose(band(ax)[-1], interval[1])
    summed = plot_regret({"ours": np.cumsum(runs, axis=1)})
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
    assert "25 trials left" in first.get_title() + second.get_title()


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


MIXED = rl.Space(
    {
        "a": rl.Float(0.0, 1.0),
        "b": rl.Float(0.1, 10.0, log=True),
        "n": rl.Int(1, 4),
        "kind": rl.Categorical(["x", "y"]),
        "idle": rl.Float(0.0, 1.0),
    }
)


@pytest.fixture(scope="module")
def mixed() -> rl.Optimizer:
    opt = rl.Optimizer(MIXED, 40, seed=1)
    for trial in opt:
        p: dict[str, Any] = trial.params
        opt.tell(trial, -8 * (p["a"] - 0.3) ** 2 - np.log(p["b"]) ** 2 / 3 + (p["kind"] == "x"))
    return opt


def test_regret_of_runs_is_not_summed_twice() -> None:
    result = rl.maximize(lambda p: -abs(p["price"] - 5.0), LINE, budget=12)  # type: ignore[operator, arg-type]
    truth = result.regret(0.0)
    for curves in ({"a": truth}, {"a": result}, result, {"a": [result, result.optimizer]}):
        ax = plot_regret(curves, f_star=0.0)
        np.testing.assert_allclose(ax.get_lines()[0].get_ydata(), truth)
    with pytest.raises(rl.ConfigError, match="need f_star"):
        plot_regret(result)


def test_decisions_show_what_was_known_before() -> None:
    opt = tuned(LINE)
    opt.observe({"price": 3.0}, -7.0)
    ax = plot_decisions(opt)
    prior = ax.collections[0]
    assert np.asarray(prior.get_offsets()).tolist() == [[-1.0, -7.0]]
    assert ax.get_xlim() == (-1.5, 14.5)
    only = rl.Optimizer(LINE, 9)
    only.observe({"price": 3.0}, -7.0)
    assert plot_decisions(only).get_legend() is not None


def test_a_finished_run_shows_its_last_move() -> None:
    result = rl.maximize(lambda p: -abs(p["price"] - 5.0), LINE, budget=20)  # type: ignore[operator, arg-type]
    last = max(
        t.number for t in result.optimizer.trials if t.decision.reason in ("explore", "exploit")
    )
    above, _ = plot_posterior(result)
    assert above.get_title().startswith(f"trial {last}, {20 - last} trial")
    before = result.optimizer.as_of(last)
    assert before.asked == last
    assert before.ask().params == result.optimizer.trials[last].params
    asked = result.optimizer.trials[last].params
    land = before.landscape([asked])
    assert land.mean[0] == pytest.approx(result.optimizer.trials[last].decision.mean, rel=1e-12)


def test_importances_find_what_matters(mixed: rl.Optimizer) -> None:
    found = importances(mixed)
    assert list(found) == list(MIXED.names)
    order = sorted(found, key=lambda name: -found[name].mean)
    assert set(order[:3]) == {"a", "b", "kind"}
    assert all(0 <= each.mean <= 1 and each.sd >= 0 for each in found.values())
    assert importances(mixed) == found  # no chance in it
    bars = [label.get_text() for label in plot_importances(mixed).get_yticklabels()]
    assert bars == order[::-1]
    with pytest.raises(rl.ConfigError, match="draws: need at least 2, got 1"):
        importances(mixed, draws=1)


def test_importances_against_known_shares() -> None:
    """f = 2 a + b over the unit square has shares 4/5 and 1/5."""
    space = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)})
    opt = rl.Optimizer(space, 80)
    rng = np.random.default_rng(0)
    for a, b in rng.random((40, 2)).tolist():
        opt.observe({"a": a, "b": b}, 2 * a + b)
    found = importances(opt)
    assert found["a"].mean == pytest.approx(0.8, abs=0.05)
    assert found["b"].mean == pytest.approx(0.2, abs=0.05)


def test_slices_and_pairs(mixed: rl.Optimizer) -> None:
    best = mixed.best()
    panels = plot_slices(mixed)
    assert [ax.get_xlabel() for ax in panels[:5]] == list(MIXED.names)
    line = panels[0].get_lines()[0]
    near = int(np.argmin(np.abs(line.get_xdata() - best.params["a"])))
    assert line.get_ydata()[near] == pytest.approx(best.mean, abs=0.1)
    assert len(plot_slices(mixed, most=2)) == 2
    pairs = plot_pairs(mixed)
    assert len(pairs) == 3
    with pytest.raises(rl.ConfigError, match="two numeric parameters"):
        plot_pairs(tuned(LINE))


def test_a_notebook_shows_the_picture() -> None:
    for shown in (plot_decisions(tuned(LINE)), plot_posterior(tuned(LINE))):
        assert shown._repr_png_().startswith(b"\x89PNG")
