"""Paired controls against a dense oracle: the joint normal distribution of f and all periods."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless._internal.arrays import Array
from regretless.defaults import PeriodRules
from regretless.kernels import SE, Lifted
from regretless.model import GP, Control, Data, Hyper, Observation, Periods

RULES = PeriodRules()
NOISE = 0.04
BASE = (0.25, 0.5)
# The level of f is unknown, as it is for a constant mean without a prior.
HYPER = Hyper(Lifted(SE((0.4, 0.6)), 1e4), lam2=NOISE, omega2=1.0)
AT = np.array([BASE, (0.1, 0.9), (0.8, 0.3), (0.5, 0.5), (0.95, 0.05)])


def results(
    count: int, paired: int, rng: np.random.Generator, errors: Array, known: bool = True
) -> list[Observation]:
    """Results of which the last `paired` have a control."""
    told = []
    for i in range(count):
        x, period = rng.random(2).round(3), 0.6 * rng.standard_normal()
        y = float(np.sin(5 * x).sum() + period + np.sqrt(NOISE) * rng.standard_normal())
        control = None
        if i >= count - paired:
            value = 0.3 + period + np.sqrt(errors[i]) * rng.standard_normal()
            control = Control(float(value), float(errors[i]), BASE)
        told.append(Observation(x, y, 1.0, NOISE if known else None, control=control))
    return told


def oracle(told: list[Observation], effect: float) -> tuple[Array, Array]:
    """Mean and covariance of f at AT, given all results and controls as they are."""
    base = np.array(BASE)
    rows = [(t.x, t.y, i, NOISE) for i, t in enumerate(told)]
    for i, each in enumerate(told):
        if each.control is not None:
            rows.append((base, each.control.value, i, each.control.variance or 0.0))
    x, period = np.array([row[0] for row in rows]), np.array([row[2] for row in rows])
    kernel = HYPER.kernel
    cov = kernel.gram(x) + effect * (period[:, None] == period)
    cov += np.diag([row[3] for row in rows])
    cross = kernel.gram(AT, x)
    solved = np.linalg.solve(cov, cross.T)
    mean = solved.T @ np.array([row[1] for row in rows])
    return mean, kernel.gram(AT) - cross @ solved


def model(told: list[Observation], periods: Periods) -> tuple[Array, Array]:
    """The same by the library."""
    seen = [*map(periods.corrected, told), *periods.anchors()]
    gp = GP.of(Data.fold(2, (each[:4] for each in seen)), HYPER)
    return gp.predict(AT)[0], gp.covariance(AT)


def differences(mean: Array, cov: Array) -> tuple[Array, Array]:
    """Mean and covariance of f at AT minus f at the baseline."""
    minus = np.hstack([-np.ones((len(AT) - 1, 1)), np.eye(len(AT) - 1)])
    return minus @ mean, minus @ cov @ minus.T


def estimated(told: list[Observation]) -> Periods:
    periods = Periods.of(told, NOISE, RULES)
    assert periods is not None
    return periods


def test_all_paired_with_equal_errors_is_exact() -> None:
    told = results(9, 9, np.random.default_rng(1), np.full(9, 0.02))
    periods = estimated(told)
    assert periods.kappa > 0.5
    mean, cov = differences(*model(told, periods))
    right, covariance = differences(*oracle(told, periods.effect))
    np.testing.assert_allclose(mean, right, atol=2e-4)
    np.testing.assert_allclose(cov, covariance, atol=2e-4)
    # Without the controls, much less would be known.
    unpaired = [each._replace(control=None) for each in told]
    assert (
        np.diag(covariance).sum()
        < 0.6 * np.diag(differences(*oracle(unpaired, periods.effect))[1]).sum()
    )


@pytest.mark.parametrize(("count", "paired"), [(9, 7), (12, 4), (12, 1), (10, 9)])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mixed_results_never_claim_more_than_the_exact_model(
    count: int, paired: int, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    told = results(count, paired, rng, rng.uniform(0.01, 0.2, count))
    periods = estimated(told)
    mean, cov = differences(*model(told, periods))
    right, covariance = differences(*oracle(told, periods.effect))
    least = np.linalg.eigvalsh(cov - covariance).min()
    assert least > -1e-3 * np.diag(covariance).max()
    # It knows nearly as much: more than by the unpaired or by the paired results alone.
    assert np.abs(mean - right).max() < 1.5 * np.sqrt(np.diag(cov).max())
    assert np.diag(cov).sum() < 3.0 * np.diag(covariance).sum()


def test_the_effect_is_the_scatter_beyond_the_errors_and_shrinks_with_few_controls() -> None:
    rng = np.random.default_rng(5)
    many = results(400, 400, rng, np.full(400, 0.05))
    assert estimated(many).effect == pytest.approx(0.36, rel=0.25)
    calm = [
        each._replace(control=Control(float(0.2 * rng.standard_normal()), 0.04, BASE))
        for each in many
    ]
    assert estimated(calm).effect < 0.01
    assert estimated(many[:1]).effect == pytest.approx(0.05, rel=0.1)  # as large as its error
    assert 0.05 < estimated(many[:4]).effect < 2.0
    # In other units it is the same.
    scaled = [
        each._replace(
            control=Control(each.control.value * 1e60, each.control.variance * 1e120, BASE)
        )
        for each in many
        if each.control and each.control.variance
    ]
    wide = Periods.of(scaled, NOISE, RULES)
    assert wide is not None
    assert wide.effect == pytest.approx(estimated(many).effect * 1e120, rel=1e-6)


def test_an_unpaired_result_counts_with_the_effect_as_noise() -> None:
    told = results(30, 29, np.random.default_rng(2), np.full(30, 0.02))
    periods = estimated(told)
    alone = periods.corrected(told[0])
    assert alone.y == told[0].y
    assert alone.variance is not None
    assert alone.variance >= NOISE + periods.effect
    assert alone.variance < NOISE + 1.2 * periods.effect
    paired = periods.corrected(told[5])
    assert paired.variance is not None
    assert paired.variance < NOISE + 0.03


def test_a_usual_paired_result_has_the_weight_one() -> None:
    told = results(20, 12, np.random.default_rng(2), np.full(20, 0.02), known=False)
    periods = estimated(told)
    assert periods.corrected(told[-1]).weight == pytest.approx(1.0)
    assert periods.corrected(told[0]).weight < 0.3
    assert periods.corrected(told[-1]._replace(weight=4.0)).weight > 1.0


def test_each_baseline_has_its_own_level() -> None:
    rng = np.random.default_rng(3)
    first = results(8, 8, rng, np.full(8, 0.02))
    later = [
        each._replace(control=Control(each.control.value + 50.0, 0.02, (0.9, 0.9)))
        for each in results(8, 8, rng, np.full(8, 0.02))
        if each.control
    ]
    periods = estimated([*first, *later])
    assert [level.of for level in periods.levels] == [BASE, (0.9, 0.9)]
    assert periods.effect < 2.0  # the two levels differ, the periods do not
    assert abs(periods.corrected(later[0]).y - later[0].y) < 5.0


# -- in an optimiser -------------------------------------------------------------------------------

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
HERE = {"x": 0.3, "y": 0.3}


def value(params: dict[str, Any]) -> float:
    return -4.0 * ((params["x"] - 0.7) ** 2 + (params["y"] - 0.6) ** 2)


def tuned(trials: int, told: bool = True, **settings: Any) -> rl.Optimizer:
    rng = np.random.default_rng(11)
    settings = {"baseline": HERE, "budget": 40, **settings}
    optimizer = rl.Optimizer(SPACE, seed=3, **settings)
    for trial in (optimizer.ask() for _ in range(trials)):
        period = float(rng.standard_normal())
        noise, error = 0.1 * rng.standard_normal(2)
        control = optimizer.sign * (value(HERE) + period + error)
        optimizer.tell(
            trial,
            optimizer.sign * (value(trial.params) + period + noise),
            control=(control, 0.1) if told else control,
        )
    return optimizer


@pytest.mark.parametrize("settings", [{}, {"direction": "minimize"}, {"defaults": 3}])
@pytest.mark.parametrize("told", [True, False])
def test_the_optimum_is_found_although_periods_differ(settings: Any, told: bool) -> None:
    optimizer = tuned(30, told, **settings)
    best = optimizer.best()
    assert abs(best.params["x"] - 0.7) < 0.3
    assert abs(best.params["y"] - 0.6) < 0.3
    periods = optimizer.periods()
    assert periods is not None
    assert 0.6 < periods.effect_sd < 1.6
    assert periods.noise_sd < 0.4
    assert periods.saved > 4
    assert "periods differ" in str(periods)


def test_replays_are_the_same_bit_for_bit() -> None:
    optimizer = tuned(14)
    stored = json.loads(optimizer.to_json())
    fits = [e["body"]["fit"] for e in stored["events"] if e["body"].get("fit")]
    assert "periods" in fits[-1]
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.best() == optimizer.best()
    for _ in range(3):
        ours, theirs = optimizer.ask(), twin.ask()
        assert ours == theirs
        for each in (optimizer, twin):
            each.tell(ours.number, 0.5, control=(0.1, 0.2))
    assert twin.to_json() == optimizer.to_json()


def test_a_damaged_estimate_is_named() -> None:
    stored = json.loads(tuned(14).to_json())
    fits = [e["body"]["fit"] for e in stored["events"] if e["body"].get("fit")]
    fits[-1]["periods"]["effect"] = -1.0
    with pytest.raises(rl.StorageError, match="fit"):
        rl.Optimizer.from_json(json.dumps(stored))


def test_without_a_control_nothing_is_stored_or_shown() -> None:
    optimizer = rl.Optimizer(SPACE, 20)
    for trial in (optimizer.ask() for _ in range(8)):
        optimizer.tell(trial, value(trial.params))
    assert optimizer.periods() is None
    assert "periods" not in optimizer.to_json()


def test_results_without_a_control_still_count() -> None:
    optimizer = tuned(12)
    for k in range(4):
        optimizer.observe({"x": 0.7, "y": 0.1 * k}, value({"x": 0.7, "y": 0.1 * k}) + 0.3)
    trial = optimizer.ask()
    optimizer.tell(trial, value(trial.params))
    assert optimizer.ask().decision.mean is not None
    assert optimizer.best().count >= 1


def test_a_control_is_a_result_at_the_baseline() -> None:
    optimizer = rl.Optimizer(SPACE, 20, baseline=HERE, n0=3)
    for k in range(5):
        trial = optimizer.adopt({"x": 0.5 + 0.1 * k, "y": 0.9})
        optimizer.tell(trial, value(trial.params) - 100.0, sem=0.1, control=(0.0, 0.1))
    best = optimizer.best()  # never tried, but far better than all that was
    assert best.params == HERE
    assert best.count == 5
    assert best.mean == pytest.approx(0.0, abs=1.0)
    assert best.sample_mean == pytest.approx(0.0, abs=1.0)


def test_a_fixed_model_takes_controls_too() -> None:
    model = rl.Model.fixed(SE((0.3, 0.3)), 0.01)
    optimizer = tuned(12, model=model)
    periods = optimizer.periods()
    assert periods is not None
    assert periods.effect_sd > 0.5
    assert rl.Optimizer.from_json(optimizer.to_json()).ask() == optimizer.ask()


def test_controls_of_any_size_do_no_damage() -> None:
    optimizer = rl.Optimizer(SPACE, 20, baseline=HERE)
    for k, control in enumerate([(1e90, 1e-90), (-1e90, 1e90), 0.0, (5.0, 1e-95), 5.0, 5.0]):
        trial = optimizer.ask()
        optimizer.tell(trial, float(k), control=control)
    for _ in range(3):
        optimizer.tell(optimizer.ask(), 0.5)
    assert np.isfinite(optimizer.best().mean)
    assert rl.Optimizer.from_json(optimizer.to_json()).ask() == optimizer.ask()


def test_a_retraction_keeps_controls_at_the_baseline_of_their_time() -> None:
    """They were once taken for results at the baseline of today."""
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 30, baseline={"x": 0.1})
    rng = np.random.default_rng(0)
    for _ in range(8):
        trial = optimizer.ask()
        value = 10.0 * float(trial.params["x"]) + 0.1 * rng.standard_normal()  # type: ignore[arg-type]
        optimizer.tell(trial, value, control=(1.0 + 0.05 * rng.standard_normal(), 0.05))
    optimizer.set_baseline({"x": 0.9})
    last = optimizer.ask()
    optimizer.tell(last, 9.0)
    optimizer.retract(last)
    optimizer.ask()
    assert optimizer.predict({"x": 0.9})[0] == pytest.approx(9.0, abs=0.5)
    assert optimizer.predict({"x": 0.1})[0] == pytest.approx(1.0, abs=0.2)
