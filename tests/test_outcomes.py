"""Outcomes as the model sees them, and back."""

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

import regretless as rl
from regretless.defaults import defaults_of
from regretless.model import GP, Scaling
from regretless.model.belief import Belief, Observation
from regretless.model.fit import fit, widened

BENT = Scaling(shift=-0.3, scale=2.0, knee=1.0, width=0.5)
GOOD = [0.9, 0.1, 0.8, 0.7, 0.97, 0.5]
numbers = st.floats(-1e99, 1e99, allow_nan=False)


def scaled(y: list[float], start: int = 6) -> Scaling:
    every = np.array(y)
    best = float(every.max())
    return Scaling.with_knee(every, every[:start], best, centred=True, rules=defaults_of(1).tail)


def test_the_formula() -> None:
    y = np.array([-4.0, 0.5, 1.0, 3.0])
    bent = [1 - 0.5 * np.log(11), 1 - 0.5 * np.log(2), 1.0, 3.0]
    np.testing.assert_allclose(BENT.to_model(y), (np.array(bent) + 0.3) / 2)


@given(y=st.lists(numbers, min_size=1, max_size=8))
def test_there_and_back(y: list[float]) -> None:
    here = scaled([0.0, 1.0, 2.0, 3.0, -50.0], 4)
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


def test_the_knee_is_far_below_what_is_usual() -> None:
    found = scaled([*GOOD, 0.98, -50.0])
    assert found.width == pytest.approx(1.5 * 0.185)  # half of the start is further away than that
    assert found.knee == pytest.approx(0.75 - 3 * found.width)
    assert scaled([*GOOD, 9.75, -50.0]).width == pytest.approx(9.0)
    assert scaled([0.9, 0.1, -50.0], 2).knee == -np.inf  # too few to tell what is usual


@pytest.mark.parametrize("disaster", [-1e3, -1e12, -1e30, -1e99])
@pytest.mark.parametrize("times", [1, 4, 40])
def test_neither_size_nor_number_of_disasters_hides_the_good_ones(
    disaster: float, times: int
) -> None:
    found = scaled([*GOOD, *[disaster] * times])
    assert np.ptp(found.to_model(GOOD)) > 0.02 / np.sqrt(1 + np.log10(-disaster))
    assert found.knee == scaled([*GOOD, -1e3]).knee


@pytest.mark.parametrize("y", [[3.0] * 6, [0.0] * 6, [1e90] * 6])
def test_outcomes_that_are_all_alike_stay_straight(y: list[float]) -> None:
    assert scaled(y).knee == -np.inf
    assert np.isfinite(scaled(y).to_model(y)).all()


@pytest.mark.parametrize(("a", "b"), [(3.0, -7.0), (1e-6, 0.0), (1e6, 1e6)])
def test_units_don_t_matter(a: float, b: float) -> None:
    y = np.array([*GOOD, -3.0])
    np.testing.assert_allclose(
        scaled(list(a * y + b)).to_model(a * y + b), scaled(list(y)).to_model(y)
    )


@pytest.mark.parametrize("scaling", [BENT, Scaling(2.0, 3.0)])
def test_json(scaling: Scaling) -> None:
    assert Scaling.from_json(json.loads(json.dumps(scaling.to_json(), allow_nan=False))) == scaling


def tuned(
    tail: Literal["log", "linear"], disasters: Sequence[float] = (), version: int = 2
) -> rl.Optimizer:
    """A smooth hill; then disasters strike, by turns where it is best and at a new point."""
    model = replace(rl.Model.default(defaults_of(version).model), tail=tail)
    space = rl.Space({"x": rl.Float(0, 1)})
    opt = rl.Optimizer(space, 24, model=model, n0=5, defaults=version)
    rng = np.random.default_rng(0)
    for trial in opt:
        x = float(trial.params["x"])  # type: ignore[arg-type]
        opt.tell(trial, -((x - 0.5) ** 2) + 0.01 * float(rng.standard_normal()))
    best = opt.best().params
    assert opt.best().count > 1
    for number, disaster in enumerate(disasters):
        opt.observe({"x": 0.9 + 0.01 * number} if number % 2 else best, disaster)
    return opt


@pytest.mark.parametrize(
    ("version", "disasters", "most"),
    [
        (2, [-1e3], 0.5),
        (2, [-1e3, -1e3], 0.5),
        (2, [-1e15, -1e6], 0.5),
        (3, [-1e3], 0.5),
        (3, [-1e3, -1e3], 0.7),
        (3, [-1e15, -1e6], 1.6),
    ],
)
def test_disasters_do_not_spoil_the_model(
    version: int, disasters: list[float], most: float
) -> None:
    def spread(tail: Literal["log", "linear"]) -> float:
        opt = tuned(tail, disasters, version)
        opt.extend(40)
        opt.ask()
        assert rl.Optimizer.from_json(opt.to_json()).propose() == opt.propose()
        mean, sd = opt.predict({"x": 0.35})
        return max(abs(mean + 0.0225), sd)

    assert spread("log") < most
    assert spread("linear") > 20.0


def test_results_of_points_that_were_chosen_are_no_measure_of_what_is_usual() -> None:
    """Version 3 has few points that were not chosen: it looks at the lower half of the first."""
    chosen = np.array([-0.25, 0.98, 0.97, -0.16, 0.99, 0.96, 1.0, 0.98])
    rules = defaults_of(3).tail
    found = Scaling.with_knee(chosen, chosen, 1.0, centred=True, rules=rules)
    assert found.knee < -3.0
    assert (
        Scaling.with_knee(chosen, chosen, 1.0, centred=True, rules=defaults_of(1).tail).knee > 0.8
    )
    noise = np.random.default_rng(0).standard_normal((200, 30))
    knees = [Scaling.with_knee(y, y[:8], 0.0, centred=True, rules=rules).knee for y in noise]
    assert sum(y.min() < knee for y, knee in zip(noise, knees, strict=True)) < 4


@pytest.mark.parametrize("version", [2, 3])
def test_without_disasters_nothing_changes(version: int) -> None:
    log, linear = (tuned(tail, (), version) for tail in ("log", "linear"))  # type: ignore[arg-type]
    assert [t.params for t in log.trials] == [t.params for t in linear.trials]


def test_results_are_drawn_in_one_by_one_before_a_fit_and_after_it() -> None:
    opt = tuned("log", [-1e3])
    opt.extend(40)
    opt.tell(opt.ask(), -0.1)
    for x in (*(t.params["x"] for t in opt.trials[:4]), opt.best().params["x"]):
        opt.observe({"x": x}, -1e3)
    belief = opt._belief.current()
    fitted, gp = belief.fitted, belief.posterior
    assert fitted is not None
    assert isinstance(gp, GP)
    assert belief.included - fitted.at == 6
    fresh = belief._scaled(fitted.scaling, len(belief.told))
    np.testing.assert_allclose(gp.data.y, fresh.y, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(gp.data.scatter, fresh.scatter, rtol=1e-9)


def test_predictions_come_back_in_the_users_units() -> None:
    def cost(x: float) -> float:
        return 1.0 + 10.0 * (x - 0.3) ** 2 + (1e4 if x > 0.85 else 0.0)

    opt = rl.Optimizer(rl.Space({"x": rl.Float(0, 1)}), 30, direction="minimize", design="sobol")
    for trial in opt:
        opt.tell(trial, cost(float(trial.params["x"])))  # type: ignore[arg-type]
    tried = [float(trial.params["x"]) for trial in opt.trials]  # type: ignore[arg-type]
    assert max(tried) > 0.85
    for x in tried:
        mean, sd = opt.predict({"x": x})
        assert mean == pytest.approx(cost(x), rel=0.5, abs=1.0)
        assert 0 < sd < np.inf


def test_a_fit_of_an_earlier_version_is_straight() -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0, 1)}), 20, n0=3, model=rl.Model(tail="linear"))
    values: NDArray[np.float64] = np.random.default_rng(0).standard_normal(20)
    for trial in opt:
        if opt.remaining < 8:
            break
        opt.tell(trial, float(values[trial.number]))
    text = json.loads(opt.to_json())
    del text["events"][0]["body"]["model"]["tail"]
    again = rl.Optimizer.from_json(json.dumps(text))
    assert again.model == replace(opt.model, tail="linear")
    assert again.propose() == opt.propose()


def test_tail_is_checked() -> None:
    with pytest.raises(rl.ConfigError, match=r"tail: .*'cut'"):
        rl.Model(tail="cut")  # type: ignore[arg-type]


def test_an_sd_is_stretched_as_far_as_its_mean_is_drawn_in() -> None:
    """By the slope of the way back, at a good point and at one where disaster struck."""
    opt = tuned("log", [-1e3, -1e3])
    here = opt._situation()
    scaling = here.fitted.scaling
    for x, deep in ((0.5, False), (0.91, True)):
        mu, sigma = here.posterior.predict(opt.space.encode({"x": x})[None, :])
        mean, sd = opt.predict({"x": x})
        up, down = (float(scaling.to_user(mu[0] + e)) for e in (1e-6, -1e-6))
        assert mean == pytest.approx(float(scaling.to_user(mu[0])))
        assert sd == pytest.approx(
            here.posterior.omega * float(sigma[0]) * (up - down) / 2e-6, rel=1e-4
        )
        stretched = (up - down) / 2e-6 > 1.5 * scaling.scale
        assert stretched is deep


def test_no_depth_is_beyond_numbers_on_the_way_back() -> None:
    deep = np.array([-1e9, -1e300])
    for back in (BENT.to_user(deep), BENT.rate(deep)):
        assert np.isfinite(back).all()
    assert (BENT.to_user(deep) < -1e100).all()
    assert np.isfinite(BENT.to_user(deep) ** 2).all()


@pytest.mark.parametrize("method", ["map", "ml"])
def test_only_a_fit_with_priors_is_widened(method: Literal["map", "ml"]) -> None:
    model = rl.Model(kernel="se", method=method, tail="linear")
    columns = (rl.Float(0.0, 1.0),)
    belief = Belief.empty(model, columns, defaults_of(1))
    for x in np.linspace(0.0, 1.0, 8):
        belief = belief.learn(Observation(np.array([x]), float(np.sin(5 * x)), 1.0, None))
    fresh = belief.refit_if_due()
    assert fresh.fitted is not None
    data = belief.data.standardised(fresh.fitted.scaling.shift, fresh.fitted.scaling.scale)
    plain = fit(data, model.start(columns, defaults_of(1).fit), model, defaults_of(1).fit).hyper
    wanted = widened(plain, 8, defaults_of(1).fit) if method == "map" else plain
    assert fresh.fitted.hyper.omega2 == pytest.approx(wanted.omega2)
    assert fresh.fitted.hyper.lam2 == pytest.approx(wanted.lam2)
    assert widened(plain, 8, defaults_of(1).fit).omega2 > 1.5 * plain.omega2


@pytest.mark.parametrize(("mean", "shifted"), [("constant", True), ("zero", False)])
def test_a_model_of_zero_mean_is_not_shifted(
    mean: Literal["constant", "zero"], shifted: bool
) -> None:
    for tail in ("log", "linear"):
        opt = rl.Optimizer(
            rl.Space({"x": rl.Float(0, 1)}), 30, n0=4, model=rl.Model(mean=mean, tail=tail)
        )  # type: ignore[arg-type]
        for trial in opt.ask(4):
            opt.tell(trial, 10.0 + float(trial.params["x"]))  # type: ignore[arg-type]
        opt.ask()
        fitted = opt._belief.fitted
        assert fitted is not None
        assert (fitted.scaling.shift != 0.0) is shifted
