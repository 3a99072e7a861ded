"""Fitting: what it finds, what it does not get stuck in, and how it fails."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from math import exp, inf, isclose, log, nan, sqrt

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import regretless.model.fit as fitting
from hard_cases import CHOICE, LAYOUTS, NUMBER, OUTCOMES, hard_data, layout, outcome, strict
from oracles import apart, slopes
from regretless.defaults import NEWEST, defaults_of
from regretless.errors import ConfigError
from regretless.kernels import SE, Hamming, Kernel, Lifted, Matern, Product, Radial, Rippled, Sum
from regretless.model import GP, Data, Hyper, Model, NotPositiveDefinite
from regretless.model.evidence import evidence, evidence_value
from regretless.model.fit import Fit
from regretless.space import Ordinal

Array = NDArray[np.float64]

fit = partial(fitting.fit, rules=NEWEST.fit)
refit_due = partial(fitting.refit_due, rules=NEWEST.fit)
widened = partial(fitting.widened, rules=NEWEST.fit)

MAP = Model.default(defaults_of(1).model)  # newer versions draw instead, see test_mixture.py

MODELS = {
    "paper": Model.paper(),
    "default": MAP,
    "plain": replace(MAP, kernel="matern52"),
    "flat mean": Model(kernel="matern52", method="ml"),
    "rough": replace(MAP, kernel="matern12", mean="zero"),
    "matern32": replace(MAP, kernel="matern32"),
}


def drawn(hyper: Hyper, x: Array, seed: int = 0) -> Array:
    """Outcomes that a GP with these hyper-parameters would give."""
    cov = hyper.omega2 * (hyper.kernel.gram(x) + hyper.lam2 * np.eye(len(x)))
    out: Array = np.linalg.cholesky(cov) @ np.random.default_rng(seed).standard_normal(len(x))
    return out


def value_of(found: Fit, data: Data, model: Model) -> float:
    """The penalised log evidence at the end of a fit, written out again from the priors."""
    hyper = found.hyper
    value = evidence(data, hyper, model.signal_prior(NEWEST.fit), profile=False).value
    if model.method == "map":
        kernel = hyper.kernel
        assert isinstance(kernel, Radial)
        lengths = np.log(kernel.lengthscales)
        centre = log(0.25) + 0.5 * log(len(lengths))
        value -= 0.5 * float(((lengths - centre) ** 2).sum())
        if isinstance(kernel, Rippled):
            odds = kernel.share / (1 - kernel.share) * (1 + hyper.lam2 / 0.05)
            value -= 0.5 * ((log(odds) - log(0.1)) / 1.5) ** 2
            value -= 0.5 * ((log(kernel.ratio) - log(0.1)) / 0.5) ** 2
        value -= 0.5 * ((log(hyper.lam2) - log(0.01)) / 2.0) ** 2
    return value


# --- what it finds --------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "default", "plain", "flat mean"])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_finds_the_parameters_behind_the_data(name: str, seed: int) -> None:
    model = MODELS[name]
    kind = {"paper": SE, "default": Rippled}.get(name, Matern)
    truth = Hyper(kind((0.2, 1.0)), 0.02, 3.0)
    x = np.random.default_rng(seed).random((200, 2))
    found = fit(Data.of(x, drawn(truth, x, seed)), model.start([NUMBER] * 2, NEWEST.fit), model)
    assert found.ok
    assert found.message == ""
    short, long = found.hyper.kernel.lengthscales  # type: ignore[attr-defined]
    assert 0.13 <= short <= 0.31
    assert 0.5 <= long <= 2.0
    # Without replicates a ripple shorter than the distances between points may pass for noise.
    noise, factor = sqrt(found.hyper.lam2 * found.hyper.omega2), 2.0 if name == "default" else 1.3
    assert sqrt(0.02 * 3.0) / factor <= noise <= factor * sqrt(0.02 * 3.0)


def test_an_input_that_does_nothing_gets_a_long_scale() -> None:
    rng = np.random.default_rng(3)
    x = rng.random((80, 3))
    y = np.sin(6 * x[:, 0]) + 0.05 * rng.standard_normal(80)
    for model in (Model.paper(), MAP):
        scales = fit(Data.of(x, y), model.start([NUMBER] * 3, NEWEST.fit), model).hyper.kernel
        first, *others = scales.lengthscales  # type: ignore[attr-defined]
        assert min(others) > 2.5 * first


def test_choices_that_matter_get_a_large_weight() -> None:
    rng = np.random.default_rng(4)
    x = np.column_stack([rng.random(90), rng.integers(3, size=(90, 2)) / 2])
    y = np.sin(5 * x[:, 0]) + np.array([-2.0, 0.0, 2.0])[(2 * x[:, 1]).astype(int)]
    y += 0.1 * rng.standard_normal(90)
    model = MAP
    found = fit(Data.of(x, y), model.start([NUMBER, CHOICE, CHOICE], NEWEST.fit), model)
    radial, hamming = found.hyper.kernel.parts  # type: ignore[attr-defined]
    assert isinstance(radial, Rippled)
    assert isinstance(hamming, Hamming)
    assert hamming.weights[0] > 3 * hamming.weights[1]


def test_replicates_tell_the_noise() -> None:
    rng = np.random.default_rng(5)
    points = rng.random((15, 2))
    x = np.repeat(points, 30, axis=0)
    y = 5 * np.sin(9 * points.sum(axis=1)).repeat(30) + 0.7 * rng.standard_normal(450)
    for model in (Model.paper(), MAP):
        found = fit(Data.of(x, y), model.start([NUMBER] * 2, NEWEST.fit), model)
        assert abs(GP.of(Data.of(x, y), found.hyper).noise_sd - 0.7) <= 0.07


@pytest.mark.parametrize("name", list(MODELS))
def test_ends_at_the_top_of_what_it_says_it_climbs(name: str) -> None:
    """The value is the documented one, and no neighbour's is larger."""
    model = MODELS[name]
    rng = np.random.default_rng(6)
    x = rng.random((40, 2))
    y = np.sin(5 * x[:, 0]) + x[:, 1] + 0.2 * rng.standard_normal(40)
    data = Data.of(x, y)
    found = fit(data, model.start([NUMBER] * 2, NEWEST.fit), model)
    assert isclose(found.value, value_of(found, data, model), rel_tol=1e-8)
    hyper = found.hyper
    best = np.array([*hyper.kernel.theta, log(hyper.lam2), log(hyper.omega2)])
    for i in range(len(best)):
        for step in (-0.05, 0.05):
            *theta, log_lam2, log_omega2 = best + step * (np.arange(len(best)) == i)
            beside = replace(
                hyper,
                kernel=hyper.kernel.with_theta(np.array(theta)),
                lam2=exp(log_lam2),
                omega2=exp(log_omega2),
            )
            assert value_of(replace(found, hyper=beside), data, model) <= found.value + 1e-5


def test_a_ripple_is_seen_where_there_is_one_and_not_made_of_noise() -> None:
    rng = np.random.default_rng(8)
    x = rng.random((120, 2))
    trend = np.sin(3 * x[:, 0]) + x[:, 1]
    ripple = 0.5 * np.sin(25 * x).prod(axis=1)

    def share(y: Array) -> float:
        found = fit(Data.of(x, y), MAP.start([NUMBER] * 2, NEWEST.fit), MAP)
        assert isinstance(found.hyper.kernel, Rippled)
        return found.hyper.kernel.share

    assert share(trend + ripple) > 0.05
    assert share(trend + 0.5 * rng.standard_normal(120)) < 0.02


def test_what_few_points_told_is_believed_less() -> None:
    """The signal grows by 1 + 2p/n, p = 5: two scales, noise, signal, mean. The noise stays."""
    hyper = Hyper(SE((0.2, 0.3)), 0.04, 9.0)
    wide = widened(hyper, 10)
    assert isclose(wide.omega2, 18.0)
    assert isclose(wide.omega2 * wide.lam2, hyper.omega2 * hyper.lam2)
    assert widened(hyper, 10**9).omega2 == pytest.approx(9.0)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("method", ["map", "ml"])
def test_climbs_along_the_slope_of_its_objective(method: str, known: bool) -> None:
    rng = np.random.default_rng(16)
    x = np.column_stack([rng.random((30, 2)), rng.integers(3, size=30) / 2])
    data = Data.of(x, rng.standard_normal(30))
    if known:
        data, _ = data.add(rng.random(3), 0.3, variance=0.1)
    model = Model(method=method, length_prior=(-0.3, 0.7), noise_prior=(-3.0, 1.5))  # type: ignore[arg-type]
    start = model.start([NUMBER, NUMBER, CHOICE], NEWEST.fit)
    search = fitting.Search((data,), start, model, NEWEST.fit)
    p = search.vector(start) + rng.uniform(-0.5, 0.5, len(search.bounds))
    value, gradient = search.objective(p)
    assert isclose(value, search.screen(p), rel_tol=1e-12)
    assert apart(gradient, slopes(search.screen, p, 1e-3)) <= 1e-7


@pytest.mark.parametrize("factor", [1e-12, 1e-3, -1.0, 1e12])
@pytest.mark.parametrize("mean", ["zero", "constant"])
def test_maximum_likelihood_does_not_care_about_units(factor: float, mean: str) -> None:
    model = Model(kernel="se", mean=mean, method="ml")  # type: ignore[arg-type]
    rng = np.random.default_rng(7)
    x = rng.random((50, 2))
    y = np.sin(5 * x[:, 0]) * x[:, 1] + 0.1 * rng.standard_normal(50)
    start = model.start([NUMBER] * 2, NEWEST.fit)
    one, other = (fit(Data.of(x, scale * y), start, model).hyper for scale in (1.0, factor))
    assert np.allclose(other.kernel.theta, one.kernel.theta, atol=1e-2)
    assert isclose(other.lam2, one.lam2, rel_tol=2e-2)
    assert isclose(other.omega2, factor**2 * one.omega2, rel_tol=2e-2)


def test_is_deterministic() -> None:
    rng = np.random.default_rng(8)
    data = Data.of(rng.random((30, 3)), rng.standard_normal(30))
    start = MAP.start([NUMBER] * 3, NEWEST.fit)
    assert fit(data, start, MAP) == fit(data, start, MAP)


# --- what it does not get stuck in ----------------------------------------------------------------


def wiggles() -> Data:
    """Four periods with little noise, which a smooth enough start takes for nothing but noise."""
    rng = np.random.default_rng(9)
    x = rng.random((30, 1))
    return Data.of(x, np.sin(8 * np.pi * x[:, 0]) + 0.1 * rng.standard_normal(30))


# Under the default's prior that start climbs out by itself; under one for smoother functions not.
SMOOTHER = replace(MAP, length_prior=(log(0.5), 1.0))


@pytest.mark.parametrize("model", [Model.paper(), Model(method="ml"), SMOOTHER])
def test_a_poor_optimum_is_left(model: Model) -> None:
    data = wiggles()
    start = replace(model.start([NUMBER], NEWEST.fit), kernel=SE((30.0,)), lam2=100.0)
    search = fitting.Search((data,), start, model, NEWEST.fit)
    trap = search.clip(search.vector(start))
    stuck, value = search.descend(trap)
    found = fit(data, start, model)
    # From there alone the climb ends where all is noise ...
    assert search.hyper_at(stuck).lam2 > 0.2
    # ... and the fit, which starts there too, is worlds better.
    assert found.value > -value + 10.0
    assert found.hyper.lam2 < 0.05
    assert 0.02 <= found.hyper.kernel.lengthscales[0] <= 0.3  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["paper", "default", "plain"])
@pytest.mark.parametrize("seed", range(4))
def test_is_about_as_good_as_many_random_starts(name: str, seed: int) -> None:
    model = MODELS[name]
    rng = np.random.default_rng([10, seed])
    x = rng.random((30, 2))
    y = np.sin(7 * x[:, 0]) * np.cos(4 * x[:, 1]) + 0.1 * rng.standard_normal(30)
    data, start = Data.of(x, y), model.start([NUMBER] * 2, NEWEST.fit)
    found = fit(data, start, model)
    search = fitting.Search((data,), start, model, NEWEST.fit)
    lows, highs = [0.02, 0.02, 1e-4], [5.0, 5.0, 1.0]
    if name == "default":  # odds and ratio of the ripple
        lows[2:2], highs[2:2] = [0.01, 0.03], [10.0, 0.6]
    starts = rng.uniform(np.log(lows), np.log(highs), size=(15, len(lows)))
    best = max(-search.descend(p)[1] for p in starts)
    assert found.value >= best - 0.1


def test_never_worse_than_where_it_started() -> None:
    rng = np.random.default_rng(11)
    for _ in range(10):
        x = rng.random((20, 2))
        data = Data.of(x, rng.standard_normal(20))
        start = Hyper(SE(tuple(np.exp(rng.normal(-1, 1, 2)))), exp(rng.normal(-2, 2)), 1.0)
        assert fit(data, start, Model.paper()).value >= evidence_value(data, start) - 1e-9


def test_a_start_out_of_bounds_is_brought_inside() -> None:
    model = Model.paper()
    start = replace(model.start([NUMBER], NEWEST.fit), kernel=SE((1e9,)), lam2=1e-30)
    found = fit(wiggles(), start, model)
    assert found.ok
    assert 0.005 <= found.hyper.kernel.lengthscales[0] <= 100.0  # type: ignore[attr-defined]
    assert 1e-8 <= found.hyper.lam2 <= 1e3


# --- known variances ------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["paper", "default"])
@pytest.mark.parametrize("scale", [1.0, 1e4])
def test_known_variances(name: str, scale: float) -> None:
    model = MODELS[name]
    if name == "default" and scale != 1.0:
        scale = 3.0  # its priors are for outcomes of unit spread
    truth = Hyper(SE((0.2,)), 1e-9, scale**2)
    rng = np.random.default_rng(12)
    x = rng.random((60, 1))
    f = drawn(truth, x)
    data = Data.empty(1)
    for point, value in zip(x, f, strict=True):
        variance = scale**2 * float(rng.choice([0.01, 0.5]))
        noisy = float(value + sqrt(variance) * rng.standard_normal())
        data, _ = data.add(point, noisy, variance=variance)
    found = fit(data, replace(model.start([NUMBER], NEWEST.fit), kernel=SE((0.5,))), model)
    assert found.ok
    assert 0.13 <= found.hyper.kernel.lengthscales[0] <= 0.31  # type: ignore[attr-defined]
    assert scale / 4 <= sqrt(found.hyper.omega2) <= 4 * scale  # one draw tells little about it
    assert isclose(
        evidence(data, found.hyper, model.signal_prior(NEWEST.fit), profile=False).d_log_omega2,
        0.0,
        abs_tol=0.02,
    )


def test_known_and_unknown_side_by_side() -> None:
    rng = np.random.default_rng(13)
    x = rng.random((60, 1))
    data = Data.empty(1)
    for i, point in enumerate(x):
        clean = float(np.sin(6 * point[0]))
        if i % 2:
            data, _ = data.add(point, clean + 0.02 * rng.standard_normal(), variance=0.02**2)
        else:
            data, _ = data.add(point, clean + 0.4 * rng.standard_normal())
    found = fit(data, MAP.start([NUMBER], NEWEST.fit), MAP)
    assert found.ok
    assert 0.28 <= GP.of(data, found.hyper).noise_sd <= 0.56


# --- when to fit again ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    # Both counts are (at the last fit, now).
    ("observations", "points", "surprise", "due"),
    [
        ((0, 0), (0, 0), 0.0, False),  # nothing to fit to
        ((5, 5), (5, 5), 1e9, False),  # nothing new
        ((5, 4), (5, 4), 1e9, False),
        ((0, 1), (0, 1), 0.0, True),  # never fitted
        ((30, 31), (30, 31), 0.0, True),  # every new point up to 60 of them ...
        ((60, 61), (60, 61), 0.0, True),
        ((61, 62), (61, 62), 0.0, False),
        ((61, 63), (61, 63), 0.0, True),
        ((100, 104), (100, 104), 0.0, False),  # ... then a tenth of those beyond 50
        ((100, 105), (100, 105), 0.0, True),
        ((3000, 3001), (20, 21), 0.0, True),  # a new point among few counts, however old the study
        ((10, 11), (5, 5), 0.0, True),  # replicates: a tenth of all observations
        ((11, 12), (5, 5), 0.0, False),
        ((100, 109), (20, 20), 9.0, False),
        ((100, 110), (20, 20), 9.0, True),
        ((100, 101), (20, 20), 5.2, False),  # a surprise: 1 + 3 sqrt 2 = 5.24 ...
        ((100, 101), (20, 20), 5.3, True),
        ((100, 101), (100, 101), 5.3, True),
        ((100, 104), (20, 20), 12.4, False),  # ... or 4 + 3 sqrt 8 = 12.49
        ((100, 104), (20, 20), 12.5, True),
        ((100, 101), (20, 20), nan, False),
        ((100, 101), (20, 20), inf, True),
    ],
)
def test_refit_rule(
    observations: tuple[int, int], points: tuple[int, int], surprise: float, due: bool
) -> None:
    assert refit_due(observations, points, surprise, 0.1) is due


def test_refit_rule_by_growth() -> None:
    assert refit_due((1000, 1001), (500, 500), 0.0, 0.0)  # 0: always
    assert not refit_due((100, 149), (100, 149), 0.0, 1.0)
    assert refit_due((100, 150), (100, 150), 0.0, 1.0)
    assert not refit_due((100, 199), (20, 20), 0.0, 1.0)
    assert refit_due((100, 200), (20, 20), 0.0, 1.0)


@pytest.mark.parametrize("distinct", [10_000, 100])
def test_fits_become_seldom(distinct: int) -> None:
    """Beyond the first points their number grows as the logarithm of the budget."""
    fits, last = [], (0, 0)
    for n in range(1, 10_001):
        now = (n, min(n, distinct))
        if refit_due((last[0], now[0]), (last[1], now[1]), 0.0, 0.1):
            fits.append(n)
            last = now
    assert fits[:61] == list(range(1, 62))
    assert len(fits) <= 61 + log(10_000 / 10) / log(1.1) + 2


# --- how it fails ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.zeros((0, 2)), np.zeros(0)),
        (np.array([[0.1, 0.2]]), np.array([3.0])),
        (np.full((9, 2), 0.5), np.full(9, 0.1)),  # nine replicates of one point
        (np.random.default_rng(0).random((6, 2)), np.full(6, 3.7)),
        (np.random.default_rng(0).random((6, 2)), np.zeros(6)),
        (np.random.default_rng(0).random((6, 2)), 1e6 + 1e-9 * np.arange(6.0)),
    ],
)
@pytest.mark.parametrize("name", list(MODELS))
def test_nothing_to_fit_keeps_the_start_and_says_so(name: str, x: Array, y: Array) -> None:
    model = MODELS[name]
    start = replace(model.start([NUMBER] * 2, NEWEST.fit), lam2=0.123)
    with strict():
        found = fit(Data.of(x, y), start, model)
    assert not found.ok
    assert "nothing to fit" in found.message
    assert found.hyper is start
    assert found.evaluations == 0


def failing(*args: object, **kwargs: object) -> None:
    raise NotPositiveDefinite("as bad as it gets")


@pytest.mark.parametrize("trouble", ["raises", "nan"])
def test_a_failed_fit_keeps_the_start_and_says_so(
    monkeypatch: pytest.MonkeyPatch, trouble: str
) -> None:
    def spoilt(*args: object) -> object:
        return replace(evidence(*args), value=nan)  # type: ignore[arg-type]

    monkeypatch.setattr(fitting, "evidence", failing if trouble == "raises" else spoilt)
    monkeypatch.setattr(
        fitting, "evidence_value", failing if trouble == "raises" else lambda *_: nan
    )
    start = replace(MAP.start([NUMBER], NEWEST.fit), lam2=0.123)
    found = fit(wiggles(), start, MAP)
    assert not found.ok
    assert found.message == "the evidence could not be computed"
    assert found.hyper is start
    assert found.evaluations > 0


def test_one_region_that_fails_does_not_fail_the_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """Smooth kernels are the ones whose matrices can't be factorised; others are found instead."""

    def guarded(data: Data, hyper: Hyper, *rest: object) -> object:
        if hyper.kernel.lengthscales[0] > 0.12:  # type: ignore[attr-defined]
            raise NotPositiveDefinite("too smooth")
        return evidence(data, hyper, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(fitting, "evidence", guarded)
    monkeypatch.setattr(
        fitting, "evidence_value", lambda data, hyper, *rest: guarded(data, hyper, *rest).value
    )
    found = fit(wiggles(), Model.paper().start([NUMBER], NEWEST.fit), Model.paper())
    assert found.ok
    assert found.hyper.kernel.lengthscales[0] <= 0.12  # type: ignore[attr-defined]


# --- the model ------------------------------------------------------------------------------------


def test_the_papers_setting() -> None:
    model = Model.paper()
    assert (model.kernel, model.mean, model.method) == ("se", "zero", "ml")
    assert model.start([NUMBER], NEWEST.fit).mean_precision is None
    assert model.signal_prior(NEWEST.fit) == (0.0, 0.0)
    assert MAP.start([NUMBER], NEWEST.fit).mean_precision == 0.25
    assert Model(method="ml").start([NUMBER], NEWEST.fit).mean_precision == 0.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("rippled", Rippled((1.0,) * 4)),
        ("se", SE((1.0,) * 4)),
        ("matern12", Matern((1.0,) * 4, None, 0.5)),
        ("matern32", Matern((1.0,) * 4, None, 1.5)),
        ("matern52", Matern((1.0,) * 4, None, 2.5)),
    ],
)
def test_kernels_by_name(name: str, kind: Kernel) -> None:
    for method in ("map", "ml", "fixed"):
        model = Model(kernel=name, method=method)  # type: ignore[arg-type]
        assert model.start([NUMBER] * 4, NEWEST.fit).kernel == kind
    # Draws have an unknown constant in the kernel; with mean zero there is none.
    lifted = Model(kernel=name, method="ensemble").start([NUMBER] * 4, NEWEST.fit)
    assert lifted.kernel == Lifted(kind, 4.0)
    assert lifted.mean_precision is None
    bare = Model(kernel=name, method="ensemble", mean="zero").start([NUMBER] * 4, NEWEST.fit)
    assert (bare.kernel, bare.mean_precision) == (kind, None)


def test_kernels_by_the_kinds_of_columns() -> None:
    mixed = MAP.start([NUMBER, CHOICE, Ordinal([1, 2])], NEWEST.fit).kernel
    assert isinstance(mixed, Product)
    assert [part.columns for part in mixed.parts] == [(0, 2), (1,)]  # type: ignore[attr-defined]
    assert isinstance(MAP.start([CHOICE] * 2, NEWEST.fit).kernel, Hamming)
    own = Sum((SE((0.3,), (0,)), Hamming((1.0,), (1,))))
    assert replace(MAP, kernel=own).start([NUMBER, CHOICE], NEWEST.fit).kernel is own
    lifted = Model(kernel=own, method="ensemble").start([NUMBER, CHOICE], NEWEST.fit).kernel
    assert isinstance(lifted, Lifted)
    assert lifted.base is own


def test_an_own_kernel_can_be_fitted() -> None:
    rng = np.random.default_rng(14)
    x = np.column_stack([rng.random(40), rng.integers(2, size=40)])
    y = np.sin(6 * x[:, 0]) + x[:, 1] + 0.1 * rng.standard_normal(40)
    model = replace(MAP, kernel=Sum((SE((0.3,), (0,)), Hamming((1.0,), (1,)))))
    found = fit(Data.of(x, y), model.start([NUMBER, CHOICE], NEWEST.fit), model)
    assert found.ok
    assert isinstance(found.hyper.kernel, Sum)


def test_fixed_parameters_are_not_fitted() -> None:
    model = Model.fixed(SE((0.3,)), lam2=0.2, omega2=4.0)
    start = model.start([NUMBER], NEWEST.fit)
    assert start == Hyper(SE((0.3,)), 0.2, 4.0, None)
    found = fit(wiggles(), start, model)
    assert found.ok
    assert found.hyper is start
    assert found.evaluations == 0


@pytest.mark.parametrize(
    "kernel",
    [
        "se",
        Matern((0.1, 1 / 3), None, 0.7),
        Rippled((0.1, 1 / 3), None, 0.07, 1 / 7),
        Product((SE((0.3,), (0,)), Sum((Hamming((1.0,), (1,)), SE((0.1,), (2,))), (0.1, 0.7)))),
    ],
)
def test_a_model_there_and_back_through_json(kernel: str | Kernel) -> None:
    for model in (
        Model(kernel, noise_prior=(-1 / 3, 0.5), growth=0.3),
        Model.fixed(kernel, 1 / 7, 1 / 9),
    ):
        assert Model.from_json(json.loads(json.dumps(model.to_json()))) == model


def test_a_kernel_that_json_does_not_know() -> None:
    class Own(SE):
        """Nobody else's."""

    with pytest.raises(ConfigError, match="Own can't be stored"):
        Model(Own((0.5,))).to_json()
    data = Model(SE((0.5,))).to_json()
    data["kernel"]["name"] = "Cubic"
    with pytest.raises(ConfigError, match=r"need one of .*SE, .* got 'Cubic'"):
        Model.from_json(data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"kernel": "rbf"}, "kernel: need one of rippled, .* got 'rbf'"),
        ({"mean": "linear"}, "mean: need .* got 'linear'"),
        ({"method": "mcmc"}, "method: need .* got 'mcmc'"),
        ({"growth": -0.1}, "growth: need .* got -0.1"),
        ({"growth": nan}, "growth: need .* got nan"),
        ({"lam2": 0.0}, "lam2: need a positive number, got 0.0"),
        ({"omega2": inf}, "omega2: need a positive number, got inf"),
    ],
)
def test_bad_settings_are_named(arguments: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Model(**arguments)  # type: ignore[arg-type]


# --- trouble --------------------------------------------------------------------------------------


@pytest.mark.parametrize("arrangement", LAYOUTS)
@pytest.mark.parametrize("what", OUTCOMES)
def test_every_edge_by_name(arrangement: str, what: str) -> None:
    rng = np.random.default_rng(17)
    x = layout(arrangement, rng, 25, 2)
    y = outcome(what, rng, x)
    for model in (Model.paper(), MAP):
        with strict():
            found = fit(Data.of(x, y), model.start([NUMBER] * 2, NEWEST.fit), model)
            mu, sigma = GP.of(Data.of(x, y), found.hyper).predict(x)
        assert found.ok == (len(np.unique(x, axis=0)) > 1 and what not in ("constant", "zero"))
        assert np.abs(mu).max() <= 3 * np.abs(y).max()
        assert ((sigma > 0.0) & (sigma <= 1.0)).all()


@pytest.mark.parametrize("arrangement", LAYOUTS)
@pytest.mark.parametrize("what", OUTCOMES)
def test_a_fit_with_an_unknown_constant_in_the_kernel(arrangement: str, what: str) -> None:
    """The fit where the chains of an ensemble begin, if there are many data."""
    rng = np.random.default_rng(17)
    x = layout(arrangement, rng, 25, 2)
    y = outcome(what, rng, x)
    with strict():
        found = fit(Data.of(x, y), Model(method="ensemble").start([NUMBER] * 2, NEWEST.fit), MAP)
        mu, sigma = GP.of(Data.of(x, y), found.hyper).predict(x)
    assert isinstance(found.hyper.kernel, Lifted)
    assert found.hyper.kernel.constant == 4.0
    assert found.ok == (len(np.unique(x, axis=0)) > 1 and what not in ("constant", "zero"))
    assert np.abs(mu).max() <= 3 * np.abs(y).max()
    assert ((sigma > 0.0) & (sigma <= sqrt(5.0))).all()


@pytest.mark.parametrize("dim", [1, 7, 20])
@pytest.mark.parametrize("name", ["paper", "default"])
def test_three_hundred_points(dim: int, name: str) -> None:
    rng = np.random.default_rng(18)
    x = rng.random((300, dim))
    y = np.sin(4 * x[:, 0]) + 0.1 * rng.standard_normal(300)
    model, data = MODELS[name], Data.of(x, y)
    with strict():
        found = fit(data, model.start([NUMBER] * dim, NEWEST.fit), model)
        shares = GP.of(data, found.hyper).calibration()
    assert found.ok
    assert shares[0.95] >= 0.9
    # It has seen that only the first input matters.
    scales = np.array(found.hyper.kernel.lengthscales)  # type: ignore[attr-defined]
    assert (scales[1:] > scales[0]).all()


@settings(max_examples=60, deadline=None, derandomize=True)
@given(hard_data(), st.sampled_from(list(MODELS)))
@example((np.linspace(0, 1, 9)[:, None], np.eye(9)[4] * 1e6, [NUMBER]), "paper")
@example((np.array([[0.5], [0.5 + 1e-12]]), np.array([1.0, 2.0]), [NUMBER]), "rough")
def test_nothing_breaks_the_fit(case: tuple[Array, Array, list[str]], name: str) -> None:
    x, y, kinds = case
    model, data = MODELS[name], Data.of(x, y)
    start = model.start(kinds, NEWEST.fit)
    with strict():
        found = fit(data, start, model)
        hyper = found.hyper
        assert found.ok == (found.message == "")
        assert np.isfinite([*hyper.kernel.theta, hyper.lam2, hyper.omega2]).all()
        assert hyper.omega2 > 0.0
        if found.ok:
            assert np.isfinite(found.value)
            assert 1e-8 * (1 - 1e-9) <= hyper.lam2 <= 1e3 * (1 + 1e-9)
        gp = GP.of(data, hyper)
        mu, sigma = gp.predict(
            np.vstack([x[:10], np.random.default_rng(0).random((10, x.shape[1]))])
        )
        assert np.isfinite(mu).all()
        assert (sigma > 0.0).all()
        again = fit(data, hyper, model)  # from where it ended, as a live run does
        assert again.ok == found.ok


@pytest.mark.parametrize("understated", [1.0, 30.0, 1000.0])
def test_standard_errors_that_are_too_small_do_not_stop_the_search(understated: float) -> None:
    rng = np.random.default_rng(0)
    x, model = rng.random((14, 2)), MAP
    data = Data.empty(2)
    for point in x:
        f = np.sin(6 * point[0]) + point[1]
        for _ in range(20):
            y = float(f + 0.05 * rng.standard_normal())
            data, _ = data.add(point, y, variance=(0.05 / understated) ** 2)
    data = data.standardised(float(data.y.mean()), float(data.y.std()))
    start = model.start((NUMBER,) * 2, NEWEST.fit)
    found = fit(data, start, model)
    free = fit(replace(data, constant=0.0), start, model)
    assert found.ok
    assert apart(found.hyper.kernel.theta, free.hyper.kernel.theta) < 1e-9
    assert isclose(found.value, free.value + data.constant, rel_tol=1e-9)


@pytest.mark.parametrize(
    "wrong",
    [
        {"length_prior": 5},
        {"length_prior": (0.0, 0.0)},
        {"length_prior": (0.0, 1.0, 2.0)},
        {"length_prior": (nan, 1.0)},
        {"noise_prior": ("a", "b")},
        {"noise_prior": (0.0, -1.0)},
        {"growth": inf},
        {"growth": 10**400},
        {"growth": "x"},
        {"lam2": "x"},
        {"omega2": True},
    ],
)
def test_settings_that_can_t_be_are_named(wrong: dict[str, object]) -> None:
    (name,) = wrong
    with pytest.raises(ConfigError, match=f"{name}: need"):
        Model(**wrong)  # type: ignore[arg-type]


def test_a_prior_may_be_a_list() -> None:
    listed = Model(noise_prior=[-4.0, 1.0])  # type: ignore[arg-type]
    assert listed == Model(noise_prior=(-4.0, 1.0))


@pytest.mark.parametrize("name", [name for name in MODELS if name != "flat mean"])
@pytest.mark.parametrize("points", [1, 3])
def test_replicates_tell_the_noise_also_where_points_do_not_differ(name: str, points: int) -> None:
    """With "flat mean" a single point can't tell the signal, whatever the noise is."""
    draws = np.random.default_rng(points).standard_normal(40)
    x = np.linspace(0.2, 0.8, points)[:, None]
    y = (draws - draws.mean()) / draws.std()
    data = Data.of(np.repeat(x, 40, axis=0), np.tile(y, points))
    found = fit(data, MODELS[name].start([NUMBER], NEWEST.fit), MODELS[name])
    assert found.ok
    assert found.hyper.lam2 * found.hyper.omega2 == pytest.approx(1.0, rel=0.2)
