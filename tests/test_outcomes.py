"""Outcomes as the model sees them, and back."""

import json
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import noregret as nr
from noregret.gp import Data
from noregret.outcomes import Scaling

BENT = Scaling(shift=-0.3, scale=2.0, knee=1.0, width=0.5)
numbers = st.floats(-1e99, 1e99, allow_nan=False)


def scaled(y: list[float], start: int = 4) -> Scaling:
    points = np.array(y)
    return Scaling.of(points, points, start, centred=True, bent=True)


def test_the_formula() -> None:
    y = np.array([-4.0, 0.5, 1.0, 3.0])
    bent = [1 - 0.5 * np.log(11), 1 - 0.5 * np.log(2), 1.0, 3.0]
    np.testing.assert_allclose(BENT.to_model(y), (np.array(bent) + 0.3) / 2)


@given(y=st.lists(numbers, min_size=1, max_size=8))
def test_there_and_back(y: list[float]) -> None:
    here = scaled([0.0, 1.0, 2.0, 3.0, -50.0])
    back = here.to_user(here.to_model(y))
    np.testing.assert_allclose(back, y, rtol=1e-9, atol=1e-9 * here.scale)


def test_the_rate_is_the_slope_of_the_way_back() -> None:
    u = np.linspace(-3.0, 2.0, 41)
    slope = (BENT.to_user(u + 1e-6) - BENT.to_user(u - 1e-6)) / 2e-6
    np.testing.assert_allclose(BENT.rate(u), slope, rtol=1e-5)


def test_order_is_kept_and_nothing_above_the_knee_moves() -> None:
    y = np.sort(np.random.default_rng(0).normal(1.0, 5.0, 200))
    assert (np.diff(BENT.bend(y)) > 0).all()
    above = y >= BENT.knee
    np.testing.assert_array_equal(BENT.bend(y)[above], y[above])
    assert (BENT.bend(y)[~above] > y[~above]).all()


def test_the_knee_is_the_usual_outcome_of_the_start() -> None:
    found = scaled([0.9, 0.1, 0.8, 0.7, 0.97, 0.98, 0.96])
    assert found.knee == pytest.approx(0.75)
    assert found.width == pytest.approx(0.98 - 0.75)
    assert scaled([0.9, 0.1, 0.8]).knee == -np.inf  # the start is not complete


def test_prior_data_that_are_alike_make_no_sharp_knee() -> None:
    y = [5.0, 5.001, 4.999, 5.0, -5.0, 0.0, 1.0]
    assert scaled(y).width == pytest.approx(0.5 * (5.0 - 0.5))


@pytest.mark.parametrize("y", [[3.0] * 6, [0.0] * 6, [1e90] * 6])
def test_outcomes_that_are_all_alike_stay_straight(y: list[float]) -> None:
    assert scaled(y).knee == -np.inf
    assert np.isfinite(scaled(y).to_model(y)).all()


@pytest.mark.parametrize(("a", "b"), [(3.0, -7.0), (1e-6, 0.0), (1e6, 1e6)])
def test_units_don_t_matter(a: float, b: float) -> None:
    y = np.array([0.9, 0.1, 0.8, 0.7, 0.97, -3.0])
    np.testing.assert_allclose(
        scaled(list(a * y + b)).to_model(a * y + b), scaled(list(y)).to_model(y)
    )


def test_rows_of_known_variance_are_drawn_in_with_their_variance() -> None:
    data = Data.empty(1)
    for x, y, variance in ((0.1, -3.0, 0.25), (0.2, 2.0, 0.25), (0.3, -3.0, None)):
        data, _ = data.add(np.array([x]), y, 1.0, variance)
    got = BENT.data(data)
    np.testing.assert_allclose(got.y, BENT.to_model(data.y))
    rate = BENT.rate(got.y)
    np.testing.assert_allclose(1 / got.weight[:2], 0.25 / rate[:2] ** 2)
    assert got.weight[2] == 1.0


@pytest.mark.parametrize("scaling", [BENT, Scaling(2.0, 3.0)])
def test_json(scaling: Scaling) -> None:
    assert Scaling.from_json(json.loads(json.dumps(scaling.to_json(), allow_nan=False))) == scaling


def test_a_disaster_does_not_spoil_the_model() -> None:
    """What is known of the good points stays known, however bad the bad one is."""

    def sd(model: nr.Model, disaster: float) -> float:
        opt = nr.Optimizer(nr.Space({"x": nr.Float(0, 1)}), 40, model=model, n0=4)
        rng = np.random.default_rng(0)
        for x in (0.05, 0.35, 0.65, 0.95, 0.45, 0.5, 0.55, 0.6):
            opt.observe({"x": x}, -((x - 0.5) ** 2) + 0.01 * float(rng.standard_normal()))
        opt.observe({"x": 0.99}, disaster)
        opt.ask()
        return opt.predict({"x": 0.25})[1]

    assert sd(nr.Model(), -1000.0) < 10.0 * sd(nr.Model(), -1.0)
    linear = nr.Model(tail="linear")
    assert sd(linear, -1000.0) > 300.0 * sd(linear, -1.0)


def test_predictions_come_back_in_the_users_units() -> None:
    opt = nr.Optimizer(nr.Space({"x": nr.Float(0, 1)}), 40, direction="minimize", n0=4)

    def cost(x: float) -> float:
        return 1.0 + 100.0 * (x - 0.3) ** 4 + (1e4 if x > 0.9 else 0.0)

    told = (0.05, 0.3, 0.35, 0.55, 0.65, 0.75, 0.95)
    for x in told:
        opt.observe({"x": x}, cost(x))
    opt.ask()
    got = np.array([opt.predict({"x": x})[0] for x in told])
    wanted = np.array([cost(x) for x in told])
    np.testing.assert_allclose(got, wanted, rtol=0.3, atol=1.0)
    assert got[-1] > 5e3


def test_a_fit_of_an_earlier_version_is_straight() -> None:
    opt = nr.Optimizer(nr.Space({"x": nr.Float(0, 1)}), 20, n0=3, model=nr.Model(tail="linear"))
    values: NDArray[np.float64] = np.random.default_rng(0).standard_normal(20)
    for trial in opt:
        if opt.remaining < 8:
            break
        opt.tell(trial, float(values[trial.number]))
    text = json.loads(opt.to_json())
    del text["model"]["tail"]
    again = nr.Optimizer.from_json(json.dumps(text))
    assert again.model == replace(opt.model, tail="linear")
    assert again.propose() == opt.propose()


def test_tail_is_checked() -> None:
    with pytest.raises(nr.ConfigError, match=r"tail: .*'cut'"):
        nr.Model(tail="cut")  # type: ignore[arg-type]
