"""The collapsed, incremental GP against the dense textbook one on all observations."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from math import exp, inf, isclose, log

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hard_cases import NUMBER, hard_data, kernel_for, strict
from oracles import DenseGP, Observation, apart, slopes
from regretless.kernels import SE, Hamming, Kernel, Matern, Product
from regretless.model import GP, Data, Hyper
from regretless.model import data as data_module
from regretless.model.evidence import evidence, evidence_value

Array = NDArray[np.float64]

KERNELS: dict[str, Kernel] = {
    "se": SE((0.4, 0.9, 1.3)),
    "matern52": Matern((0.4, 0.9, 1.3)),
    "matern12": Matern((0.4, 0.9, 1.3), None, 0.5),
    "mixed": Product((Matern((0.4, 0.9), (0, 1), 1.5), Hamming((0.8,), (2,)))),
}
MEANS = [None, 0.0, 0.25]
NOISES = ["plain", "weighted", "known", "all known", "everything"]


def problem(kernel: str = "se", mean: float | None = None, noise: str = "plain") -> DenseGP:
    """Forty observations on about a dozen points, each with the noise it is said to have."""
    rng = np.random.default_rng(0)
    points = rng.random((12, 3))
    points[:, 2] = rng.integers(3, size=12) / 2
    observations = []
    for i in range(40):
        x = points[rng.integers(len(points)) if i >= 5 else i]
        weight, variance = 1.0, None
        if noise in ("weighted", "everything"):
            weight = float(rng.uniform(0.2, 5.0))
        if noise == "all known" or (noise in ("known", "everything") and rng.random() < 0.4):
            variance = float(rng.uniform(0.01, 0.5))
        y = 2.0 + float(np.sin(4 * x.sum()) + 0.3 * rng.standard_normal())
        observations.append(Observation(x, y, weight, variance))
    return DenseGP(observations, Hyper(KERNELS[kernel], 0.05, 2.3, mean))


def agree(gp: GP, dense: DenseGP, bar: float = 1e-8) -> None:
    rng = np.random.default_rng(1)
    x, z = rng.random((7, 3)), rng.random((5, 3))
    x[:, 2] = rng.integers(3, size=7) / 2
    mu, sigma = gp.predict(x)
    mu_dense, cov_dense = dense.predict(x)
    assert isclose(gp.mean, dense.mean, rel_tol=bar, abs_tol=bar)
    assert apart(mu, mu_dense) <= bar
    assert apart(gp.omega * sigma, np.sqrt(np.diag(cov_dense))) <= bar
    assert apart(gp.hyper.omega2 * gp.covariance(x), cov_dense) <= bar
    assert apart(gp.hyper.omega2 * gp.covariance(x, z), dense.predict(x, z)[1]) <= bar
    assert isclose(gp.log_evidence, dense.log_evidence(), rel_tol=bar)
    assert isclose(gp.information, dense.information(), rel_tol=bar)
    mu, sigma = gp.at_data
    mu_dense, cov_dense = dense.predict(gp.data.x)
    assert apart(mu, mu_dense) <= bar
    assert apart(gp.omega * sigma, np.sqrt(np.diag(cov_dense))) <= bar


# --- collapsing -----------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_collapsed_equals_dense(kernel: str, mean: float | None, noise: str) -> None:
    dense = problem(kernel, mean, noise)
    data = dense.collapsed()
    assert len(data) < 24 < data.observations == 40
    agree(GP.of(data, dense.hyper), dense)


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_one_by_one_equals_dense(kernel: str, mean: float | None, noise: str) -> None:
    dense = problem(kernel, mean, noise)
    gp = GP.of(Data.empty(3), dense.hyper)
    for o in dense.observations:
        gp = gp.add(o.x, o.y, o.weight, o.variance)
    agree(gp, dense)
    assert gp.factor.jitter == 0.0


def test_order_does_not_matter() -> None:
    dense = problem("matern52", 0.25, "everything")
    order = np.random.default_rng(0).permutation(40)
    shuffled = replace(dense, observations=[dense.observations[i] for i in order])
    agree(GP.of(shuffled.collapsed(), dense.hyper), dense)


def test_data_keeps_the_books() -> None:
    data = Data.empty(2)
    a, b = np.array([0.1, 0.2]), np.array([0.3, 0.4])
    data, row = data.add(a, 1.0)
    assert row == 0
    data, row = data.add(b, 5.0, weight=3.0)
    assert row == 1
    data, row = data.add(a, 2.0, weight=3.0)
    assert row == 0
    data, row = data.add(a, 9.0, variance=0.25)
    assert row == 2  # the same place, another kind of noise
    data, row = data.add(a, 7.0, variance=0.25)
    assert row == 2
    assert data.y.tolist() == [1.75, 5.0, 8.0]
    assert data.weight.tolist() == [4.0, 3.0, 8.0]
    assert data.count.tolist() == [2, 1, 2]
    assert data.known.tolist() == [False, False, True]
    assert isclose(data.scatter, 0.75)
    assert (len(data), data.observations, data.repeats) == (3, 5, 1)
    assert data.find(a, True) == 2
    assert data.find(np.array([0.1, 0.3]), False) is None


def test_data_in_one_pass_is_the_same_to_the_last_bit() -> None:
    rng = np.random.default_rng(0)
    x = rng.random((30, 2))[rng.integers(30, size=200)]
    x[7] = 0.0
    x[9] = -0.0
    y = 1e3 + rng.standard_normal(200)
    data = Data.empty(2)
    for point, value in zip(x, y, strict=True):
        data, _ = data.add(point, float(value))
    once = Data.of(x, y)
    for name in ("x", "y", "weight", "known", "count", "scatter", "constant"):
        mine, wanted = np.asarray(getattr(once, name)), np.asarray(getattr(data, name))
        assert np.array_equal(mine, wanted), name
        assert mine.dtype.kind == wanted.dtype.kind, name
    with pytest.raises(ValueError, match="shorter"):
        Data.of(x, y[:-1])


def test_hundreds_of_replicates_equal_dense() -> None:
    """Enough of them for the corrections to wear out, a fresh factor, and corrections again."""
    rng = np.random.default_rng(2)
    points = rng.random((20, 3))
    hyper = Hyper(KERNELS["matern52"], 0.3, 1.7, 0.25)
    gp, seen = GP.of(Data.empty(3), hyper), []
    for _ in range(600):
        o = Observation(points[int(20 * rng.random() ** 3)], float(rng.standard_normal()))
        gp = gp.add(o.x, o.y)
        seen.append(o)
    agree(gp, DenseGP(seen, hyper))
    fresh = GP.of(gp.data, hyper)
    assert apart(gp.alpha, fresh.alpha) <= 1e-10


def test_near_duplicates_after_replicates_do_not_wear_the_factor_unseen() -> None:
    """A row appended beside a much replicated one makes an old correction delicate."""
    hyper = Hyper(SE((0.5,)), 1e-4, 1.0)
    gp = GP.of(Data.empty(1), hyper)
    for _ in range(5000):
        gp = gp.add(np.array([0.5]), 1.0)
    for i in range(200):
        gp = gp.add(np.array([0.5 + 1e-6 * (i + 1)]), 1.0)
        assert not gp.factor.worn
    fresh = GP.of(gp.data, hyper)
    x = np.linspace(0, 1, 9)[:, None]
    assert apart(gp.predict(x)[0], fresh.predict(x)[0]) <= 1e-8
    assert apart(gp.predict(x)[1], fresh.predict(x)[1]) <= 1e-8


def test_a_gp_is_not_disturbed_by_its_successors() -> None:
    dense = problem("matern52", 0.25)
    parent = GP.of(dense.collapsed(), dense.hyper)
    for o in dense.observations[:3]:
        parent = parent.add(o.x, o.y)
    base = replace(dense, observations=dense.observations + dense.observations[:3])
    rng = np.random.default_rng(0)
    families = []
    for _ in range(4):
        gp, seen = parent, list(base.observations)
        for _ in range(6):
            x = rng.random(3) if rng.random() < 0.6 else seen[rng.integers(len(seen))].x
            o = Observation(x, float(rng.standard_normal()))
            gp = gp.add(o.x, o.y)
            seen.append(o)
        families.append((gp, replace(base, observations=seen)))
    agree(parent, base)
    for gp, oracle in families:
        agree(gp, oracle)


# --- pending points -------------------------------------------------------------------------------


def awaited(gp: GP, seed: int = 0) -> tuple[Array, Array]:
    """Nine points with their weights: new ones, one of them twice, and visited ones."""
    rng = np.random.default_rng([5, seed])
    new = rng.random((5, 3))
    new[:, 2] = rng.integers(3, size=5) / 2
    visited = gp.data.x[[0, 2, 2]]
    return np.vstack([new, visited, new[:1]]), rng.uniform(0.3, 3.0, 9)


def one_by_one(gp: GP, x: Array, weights: Array) -> GP:
    for point, weight in zip(x, weights.tolist(), strict=True):
        gp = gp.expecting(point, weight)
    return gp


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", KERNELS)
def test_pending_points_together_equal_dense(kernel: str, mean: float | None, noise: str) -> None:
    dense = problem(kernel, mean, noise)
    gp = GP.of(dense.collapsed(), dense.hyper)
    x, weights = awaited(gp)
    after = gp.expecting_all(x, weights)
    expected = gp.predict(x)[0].tolist()
    more = [
        Observation(point, y, weight)
        for point, y, weight in zip(x, expected, weights.tolist(), strict=True)
    ]
    agree(after, replace(dense, observations=dense.observations + more))
    everywhere = np.random.default_rng(3).random((20, 3))
    assert apart(after.predict(everywhere)[0], gp.predict(everywhere)[0]) <= 1e-12


@pytest.mark.parametrize("kernel", KERNELS)
def test_pending_points_together_are_those_one_by_one(kernel: str) -> None:
    gp = GP.of((dense := problem(kernel, 0.25, "everything")).collapsed(), dense.hyper)
    x, weights = awaited(gp)
    both = gp.expecting_all(x, weights), one_by_one(gp, x, weights)
    z = np.random.default_rng(3).random((20, 3))
    slopes_of = [gp.predict_vjp(z)[2](np.ones(20), np.arange(20.0)) for gp in both]
    assert apart(*slopes_of) <= 1e-9
    numbers: list[Callable[[GP], Array]] = [
        lambda gp: np.array(gp.at_data),
        lambda gp: gp.points,
        lambda gp: gp.sample_means,
        lambda gp: gp.covariance(z),
        lambda gp: gp.covariance(z, x),
        lambda gp: gp.shared(x[0])(z),
        lambda gp: gp.shared(x[0]).at_data,
        lambda gp: np.array([gp.information, gp.log_evidence, gp.mean]),
        lambda gp: np.array(gp.leave_one_out()),
    ]
    for number in numbers:
        assert apart(*map(number, both)) <= 1e-9
    told = [gp.add(x[1], 0.7).add(x[3] / 2, 1.1).expecting_all(z, np.ones(20)) for gp in both]
    assert apart(*(np.array(gp.predict(z)) for gp in told)) <= 1e-9
    twice = [gp.expecting_all(z, np.ones(20)) for gp in both]
    assert apart(*(np.array(gp.predict(x / 2)) for gp in twice)) <= 1e-9


def test_pending_points_leave_the_room_of_the_next_result() -> None:
    """Otherwise each result would copy the whole factor."""
    gp = GP.of((dense := problem("matern52", 0.25)).collapsed(), dense.hyper)
    gp = gp.add(np.array([0.1, 0.2, 0.3]), 1.0)  # into a buffer with room
    gp.expecting_all(*awaited(gp))
    told = gp.add(np.array([0.4, 0.2, 0.3]), 1.0)
    assert told.factor._buffer is gp.factor._buffer


def test_pending_points_that_are_almost_the_same_do_not_break_the_factor() -> None:
    data = Data.of(np.array([[0.2], [0.8]]), np.array([1.0, -1.0]))
    gp = GP.of(data, Hyper(SE((0.5,)), lam2=1e-18, omega2=1.0))
    x = np.array([[0.4], [0.4 + 1e-13], [0.4 + 2e-13], [0.6]])
    after = gp.expecting_all(x, np.ones(4))
    assert after.jitter > 0.0
    mu, sigma = after.predict(np.array([[0.3], [0.4], [0.6]]))
    assert np.isfinite(mu).all()
    assert sigma[1:].max() < 1e-3


def test_squares_of_the_factor_grow_with_the_same_bits() -> None:
    """What `at_data` needs is updated in O(n); a replay that did not look meanwhile must agree."""
    rng = np.random.default_rng(0)
    start = Data.of(rng.random((7, 3)), rng.random(7))
    looked = unlooked = GP.of(start, Hyper(SE((0.3,) * 3), 0.01, 1.0))
    for _ in range(60):
        assert len(looked.at_data[0])
        x, y = rng.random(3), float(rng.standard_normal())
        looked, unlooked = looked.add(x, y), unlooked.add(x, y)
    np.testing.assert_array_equal(looked.at_data, unlooked.at_data)
    gram = looked.hyper.kernel.gram(looked.points) + np.diag(looked.hyper.noise(looked.data))
    assert apart(looked.factor.inverse_diagonal(), np.diag(np.linalg.inv(gram))) <= 1e-8


# --- single precision -----------------------------------------------------------------------------


@pytest.mark.parametrize("lam2", [0.1, 1e-3, 1e-4])
def test_single_precision_is_near_enough(lam2: float) -> None:
    rng = np.random.default_rng(1)
    hyper = Hyper(Matern((0.7,) * 4), lam2, 2.0, 0.25)
    gp = GP.of(Data.of(rng.random((400, 4)), rng.standard_normal(400)), hyper)
    for _ in range(3):  # columns that were rounded before, and new ones
        gp, rough = gp.add(rng.random(4), 0.5), gp.in_single
        near = np.clip(gp.points[:50] + 1e-3, 0, 1)
        for x in (rng.random((200, 4)), near, gp.points[:50]):
            rough, exact = gp.in_single, gp
            assert rough is not exact
            np.testing.assert_array_equal(rough._means(x), exact._means(x))
            assert apart(rough.predict(x)[0], exact.predict(x)[0]) <= 1e-9
            np.testing.assert_allclose(rough.predict(x)[1], exact.predict(x)[1], rtol=1e-2)
        x = rng.random((40, 4))
        ones = np.ones(40)
        slopes_of = [each.predict_vjp(x)[2](0 * ones, ones) for each in (rough, exact)]
        assert apart(*slopes_of) <= 1e-3 * np.abs(slopes_of[1]).max()
        np.testing.assert_array_equal(rough.at_data, exact.at_data)
        np.testing.assert_array_equal(rough.covariance(x), exact.covariance(x))


def test_what_is_learnt_after_a_look_in_single_precision_is_exact() -> None:
    gp = GP.of((dense := problem("matern52", 0.25)).collapsed(), dense.hyper)
    x = np.array([0.3, 0.1, 0.5])
    plain = gp.add(x, 1.0)
    gp = GP.of(dense.collapsed(), dense.hyper)
    gp.in_single.predict(x[None, :])
    np.testing.assert_array_equal(
        gp.in_single.add(x, 1.0).predict(x[None, :]), plain.predict(x[None, :])
    )


def test_single_precision_is_not_used_where_it_can_not_tell_the_noise_from_zero() -> None:
    data = Data.of(np.array([[0.2], [0.8]]), np.array([1.0, -1.0]))
    quiet = GP.of(data, Hyper(SE((0.5,)), lam2=1e-6, omega2=1.0))
    assert quiet.in_single is quiet


# --- no data, one observation ---------------------------------------------------------------------


@pytest.mark.parametrize("mean", [None, 0.25])
def test_the_prior(mean: float | None) -> None:
    gp = GP.of(Data.empty(3), Hyper(KERNELS["se"], 0.1, 4.0, mean))
    x = np.random.default_rng(0).random((5, 3))
    mu, sigma, gradient = gp.predict_vjp(x)
    assert not mu.any()
    assert (sigma == 1.0).all()
    assert not gradient(np.ones(5), np.ones(5)).any()
    assert apart(gp.covariance(x), gp.hyper.kernel.gram(x)) <= 1e-15
    assert gp.information == 0.0
    assert gp.log_evidence == 0.0
    assert np.isfinite(gp.sample_path(np.random.default_rng(0))(x)).all()
    residual, sd = gp.leave_one_out()
    assert len(residual) == len(sd) == 0


def test_one_observation() -> None:
    dense = replace(problem("se"), observations=problem("se").observations[:1])
    agree(GP.of(dense.collapsed(), dense.hyper), dense)
    flat = replace(dense.hyper, mean_precision=0.0)  # the mean is the observation
    gp = GP.of(dense.collapsed(), flat)
    mu, _ = gp.predict(np.random.default_rng(0).random((4, 3)))
    assert apart(mu, np.full(4, dense.y[0])) <= 1e-12


def test_no_query_points() -> None:
    gp = GP.of(problem().collapsed(), problem().hyper)
    mu, sigma = gp.predict(np.zeros((0, 3)))
    assert mu.shape == sigma.shape == (0,)
    assert gp.covariance(np.zeros((0, 3))).shape == (0, 0)


# --- slopes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kernel", list(KERNELS))
@pytest.mark.parametrize("shifted", [False, True])
def test_posterior_slopes(kernel: str, shifted: bool) -> None:
    dense = problem(kernel, 0.25, "everything")
    gp = GP.of(dense.collapsed(), dense.hyper)
    if shifted:  # with corrections on the factor
        gp = gp.add(dense.observations[0].x, 1.0).add(dense.observations[1].x, 1.0)
    rng = np.random.default_rng(3)
    x = rng.random((6, 3))
    x[:, 2] = rng.integers(3, size=6) / 2
    a, b = rng.standard_normal(6), rng.standard_normal(6)
    mu, sigma, gradient = gp.predict_vjp(x)
    assert apart(mu, gp.predict(x)[0]) <= 1e-12
    assert apart(sigma, gp.predict(x)[1]) <= 1e-12
    columns = [0, 1] if kernel == "mixed" else [0, 1, 2]
    for q in range(6):

        def score(moved: Array, q: int = q) -> float:
            point = x[q].copy()
            point[columns] = moved
            m, s = gp.predict(point[None, :])
            return float(a[q] * m[0] + b[q] * s[0])

        assert apart(gradient(a, b)[q, columns], slopes(score, x[q, columns], 1e-4)) <= 1e-7
    if kernel == "mixed":
        assert not gradient(a, b)[:, 2].any()


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_shared_with_one_point(kernel: str) -> None:
    """Against the posterior covariance, at new points, at the data and at the point itself."""
    dense = problem(kernel, 0.25, "everything")
    gp = GP.of(dense.collapsed(), dense.hyper)
    gp = gp.add(dense.observations[0].x, 1.0)  # with a correction on the factor
    rng = np.random.default_rng(3)
    x = rng.random((6, 3))
    x[:, 2] = rng.integers(3, size=6) / 2
    shared = gp.shared(x[0])
    assert apart(shared(x), gp.covariance(x, x[:1])[:, 0]) <= 1e-12
    assert apart(shared.at_data, gp.covariance(gp.data.x, x[:1])[:, 0]) <= 1e-9
    assert apart(shared.variance, gp.covariance(x[:1])[0, 0]) <= 1e-12
    value, pull = shared.with_gradient(x)
    assert apart(value, shared(x)) <= 1e-12
    a = rng.standard_normal(6)
    columns = [0, 1] if kernel == "mixed" else [0, 1, 2]
    for q in range(1, 6):

        def along(moved: Array, q: int = q) -> float:
            point = x[q].copy()
            point[columns] = moved
            return float(a[q] * shared(point[None, :])[0])

        assert apart(pull(a)[q, columns], slopes(along, x[q, columns], 1e-4)) <= 1e-6


@pytest.mark.parametrize("kernel", KERNELS)
def test_what_is_shared_with_a_weighted_sum(kernel: str) -> None:
    """Against the posterior covariance; some of the points are data, and others are new."""
    dense = problem(kernel, 0.25, "everything")
    gp = GP.of(dense.collapsed(), dense.hyper)
    gp = gp.add(dense.observations[0].x, 1.0)
    rng = np.random.default_rng(4)
    new = rng.random((6, 3))
    new[:, 2] = rng.integers(3, size=6) / 2
    distinct = np.unique(gp.data.x, axis=0)[:5]
    points, weights = np.vstack([new[:2], distinct]), rng.standard_normal(2 + len(distinct))
    shared = gp.shared(points, weights)
    assert apart(shared(new), gp.covariance(new, points) @ weights) <= 1e-11
    assert apart(shared.at_data, gp.covariance(gp.data.x, points) @ weights) <= 1e-9
    assert apart(shared.variance, weights @ gp.covariance(points) @ weights) <= 1e-9
    value, pull = shared.with_gradient(new)
    assert apart(value, shared(new)) <= 1e-12
    columns = [0, 1] if kernel == "mixed" else [0, 1, 2]
    for q in range(2, 6):

        def along(moved: Array, q: int = q) -> float:
            point = new[q].copy()
            point[columns] = moved
            return float(shared(point[None, :])[0])

        slope = pull(np.ones(6))[q, columns]
        assert apart(slope, slopes(along, new[q, columns], 1e-4)) <= 1e-6


# --- sample paths ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("kernel", "scale"), [("se", 1.0), ("se", 2.5), ("mixed", 1.0)])
def test_paths_have_the_posterior_mean_and_covariance(kernel: str, scale: float) -> None:
    dense = problem(kernel, 0.25, "everything")
    gp = GP.of(dense.collapsed(), dense.hyper)
    rng = np.random.default_rng(4)
    x = np.vstack([rng.random((4, 3)), gp.data.x[:2]])
    x[:4, 2] = rng.integers(3, size=4) / 2
    draws = np.array([gp.sample_path(rng, 64, scale)(x) for _ in range(2000)])
    mu, cov = dense.predict(x)
    centred = draws - mu
    assert (np.abs(centred.mean(axis=0)) <= 5 * draws.std(axis=0) / np.sqrt(len(draws))).all()
    products = centred[:, :, None] * centred[:, None, :]
    error = np.abs(products.mean(axis=0) - scale**2 * cov)
    assert (error <= 5 * products.std(axis=0) / np.sqrt(len(draws))).all()


@pytest.mark.parametrize("mean", [None, 0.25])
@pytest.mark.parametrize("scale", [1.0, 2.5])
def test_a_path_knows_its_values_at_the_data(mean: float | None, scale: float) -> None:
    dense = problem("mixed", mean, "everything")
    gp = GP.of(dense.collapsed(), dense.hyper).add(dense.x[0], 0.3)
    path = gp.sample_path(np.random.default_rng(5), 64, scale)
    assert apart(path.at_data, path(gp.data.x)) <= 1e-9


@pytest.mark.parametrize("kernel", ["se", "matern52", "mixed"])
def test_path_is_one_function_with_a_slope(kernel: str) -> None:
    dense = problem(kernel, 0.25)
    gp = GP.of(dense.collapsed(), dense.hyper)
    path = gp.sample_path(np.random.default_rng(5))
    x = np.random.default_rng(6).random((4, 3))
    x[:, 2] = [0.0, 0.5, 1.0, 0.5]
    value, gradient = path.with_gradient(x)
    assert apart(path(x), value) <= 1e-12
    assert apart(np.concatenate([path(p[None, :]) for p in x]), value) <= 1e-10
    again = gp.sample_path(np.random.default_rng(5))
    assert np.array_equal(again(x), path(x))
    columns = [0, 1] if kernel == "mixed" else [0, 1, 2]
    for q in range(4):

        def along(moved: Array, q: int = q) -> float:
            point = x[q].copy()
            point[columns] = moved
            return float(path(point[None, :])[0])

        assert apart(gradient[q, columns], slopes(along, x[q, columns], 1e-4)) <= 1e-6


# --- leaving one out ------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
def test_leave_one_out_is_leaving_one_out(mean: float | None, noise: str) -> None:
    dense = problem("matern52", mean, noise)
    gp = GP.of(dense.collapsed(), dense.hyper)
    residual, sd = gp.leave_one_out()
    noise_of_row = gp.hyper.omega2 * gp.hyper.noise(gp.data)
    for i in range(len(gp.data)):
        mu, var = dense.leave_out(gp.data.x[i], bool(gp.data.known[i]))
        assert isclose(residual[i], gp.data.y[i] - mu, rel_tol=1e-8, abs_tol=1e-8)
        assert isclose(sd[i], np.sqrt(var + noise_of_row[i]), rel_tol=1e-8)


def test_leave_one_out_of_a_single_row_knows_nothing() -> None:
    data = Data.of(np.array([[0.5]]), np.array([3.0]))
    residual, sd = GP.of(data, Hyper(SE((0.5,)), 0.1, 1.0, None)).leave_one_out()
    assert isclose(residual[0], 3.0)
    assert isclose(sd[0], np.sqrt(1.1))
    with strict():
        residual, sd = GP.of(data, Hyper(SE((0.5,)), 0.1, 1.0, 0.0)).leave_one_out()
    assert np.abs(residual / sd).max() <= 1e-6


def test_calibration_counts_the_rows_inside() -> None:
    rng = np.random.default_rng(7)
    x = rng.random((300, 2))
    hyper = Hyper(Matern((0.3, 0.3)), 0.2, 1.5, None)
    cov = hyper.omega2 * (hyper.kernel.gram(x) + hyper.lam2 * np.eye(300))
    y = np.linalg.cholesky(cov) @ rng.standard_normal(300)
    gp = GP.of(Data.of(x, y), hyper)
    shares = gp.calibration()
    assert list(shares) == [0.5, 0.8, 0.95]
    for level, share in shares.items():  # a true model is calibrated
        assert abs(share - level) <= 4 * np.sqrt(level * (1 - level) / 300)
    residual, sd = gp.leave_one_out()
    assert gp.calibration((0.6826894921370859,)) == {
        0.6826894921370859: np.mean(np.abs(residual) <= sd)
    }
    # An overconfident one is found out.
    sure = GP.of(gp.data, replace(hyper, omega2=0.1))
    assert sure.calibration()[0.95] < 0.6


def test_calibration_of_nothing_is_nothing() -> None:
    with strict():
        assert GP.of(Data.empty(1), Hyper(SE((0.5,)), 0.1, 1.0)).calibration() == {}


# --- evidence -------------------------------------------------------------------------------------

PRIORS = [(0.0, 0.0), (1.0, 1.0)]


@pytest.mark.parametrize("noise", ["plain", "weighted"])
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("prior", PRIORS)
def test_profiled_evidence(mean: float | None, noise: str, prior: tuple[float, float]) -> None:
    dense = problem("mixed", mean, noise)
    data, hyper = dense.collapsed(), dense.hyper
    found = evidence(data, hyper, prior)
    assert found.d_log_omega2 == 0.0
    assert isclose(evidence_value(data, hyper, prior), found.value, rel_tol=1e-12)

    def at(omega2: float) -> float:
        gp = replace(dense, hyper=replace(hyper, omega2=omega2))
        return gp.log_evidence(penalised=True) - prior[0] * log(omega2) - prior[1] / omega2

    assert isclose(found.value, at(found.omega2), rel_tol=1e-8)
    # omega2 is the best there is: flat here, lower on both sides, near and far.
    assert abs(slopes(lambda t: at(exp(t[0])), np.array([log(found.omega2)]), 1e-3)[0]) <= 1e-7
    for factor in (0.5, 0.99, 1.01, 2.0, 100.0):
        assert at(factor * found.omega2) < found.value
    assert evidence(data, replace(hyper, omega2=77.0), prior).omega2 == found.omega2


@pytest.mark.parametrize("noise", NOISES)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("prior", PRIORS)
def test_evidence_at_a_given_signal(
    mean: float | None, noise: str, prior: tuple[float, float]
) -> None:
    dense = problem("mixed", mean, noise)
    data, hyper = dense.collapsed(), dense.hyper
    found = evidence(data, hyper, prior, profile=False)
    wanted = dense.log_evidence(penalised=True)
    wanted -= prior[0] * log(hyper.omega2) + prior[1] / hyper.omega2
    assert found.omega2 == hyper.omega2
    assert isclose(found.value, wanted, rel_tol=1e-8)
    assert isclose(evidence_value(data, hyper, prior, False), found.value, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("profile", "noise"),
    # Beside known variances omega2 is no mere scale, and can't be profiled out.
    [(True, "plain"), (True, "weighted"), *((False, noise) for noise in NOISES)],
)
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("kernel", list(KERNELS))
def test_evidence_slopes(kernel: str, mean: float | None, noise: str, profile: bool) -> None:
    dense = problem(kernel, mean, noise)
    data, prior = dense.collapsed(), (1.0, 1.0)

    def hyper_at(p: Array) -> Hyper:
        return replace(
            dense.hyper,
            kernel=dense.hyper.kernel.with_theta(p[:-2]),
            lam2=exp(p[-2]),
            omega2=exp(p[-1]),
        )

    start = np.array([*dense.hyper.kernel.theta, log(dense.hyper.lam2), log(dense.hyper.omega2)])
    found = evidence(data, hyper_at(start), prior, profile)
    mine = np.array([*found.d_theta, found.d_log_lam2, found.d_log_omega2])
    wanted = slopes(lambda p: evidence_value(data, hyper_at(p), prior, profile), start, 1e-3)
    assert apart(mine, wanted) <= 1e-7


def test_evidence_scales_with_the_outcomes() -> None:
    dense = problem("matern52", 0.0)
    one = evidence(dense.collapsed(), dense.hyper)
    for factor in (1e-12, 1e12, -3.0):
        other = evidence(dense.scaled(factor).collapsed(), dense.hyper)
        assert isclose(other.omega2, factor**2 * one.omega2, rel_tol=1e-10)
        assert isclose(other.value, one.value - 40 * log(abs(factor)), rel_tol=1e-9)
        assert apart(other.d_theta, one.d_theta) <= 1e-8
        assert isclose(other.d_log_lam2, one.d_log_lam2, rel_tol=1e-8)


@pytest.mark.parametrize("scale", [1e-12, 1.0, 1e12])
def test_evidence_of_data_that_are_all_alike(scale: float) -> None:
    """A fitted mean explains them fully, and what rounding leaves must not pass for a signal."""
    rng = np.random.default_rng(15)
    for _ in range(100):
        data = Data.of(rng.random((3, 1)), np.full(3, scale * rng.uniform(1.0, 2.0)))
        with strict():
            found = evidence(data, Hyper(SE((0.3,)), 1e-8, 1.0, 0.0))
        # Divided by no signal at all, the rounding would be an evidence of 1e250.
        assert abs(found.value) <= 1e3
        assert np.abs([found.d_log_lam2, *found.d_theta]).max() <= 1e4
        assert 0.0 < found.omega2 <= (1e-10 * scale) ** 2


# --- information ----------------------------------------------------------------------------------


def test_information_grows_with_every_observation_and_less_by_a_replicate() -> None:
    dense = problem("se", None, "everything")
    gp = GP.of(Data.empty(3), dense.hyper)
    seen = [0.0]
    for o in dense.observations:
        gp = gp.add(o.x, o.y, o.weight, o.variance)
        seen.append(gp.information)
    assert all(after > before for before, after in pairwise(seen))
    far = GP.of(Data.of(np.array([[0.0], [9.0]]), np.zeros(2)), Hyper(SE((0.5,)), 0.1, 1.0))
    same = GP.of(Data.of(np.array([[0.0], [0.0]]), np.zeros(2)), Hyper(SE((0.5,)), 0.1, 1.0))
    assert isclose(far.information, log(1 + 1 / 0.1), rel_tol=1e-12)
    assert isclose(same.information, 0.5 * log(1 + 2 / 0.1), rel_tol=1e-12)


# --- trouble --------------------------------------------------------------------------------------


def test_jitter_can_be_seen() -> None:
    """Points that are one point to the kernel, and hardly any noise."""
    x = np.array([[0.5], [0.5 + 1e-12], [0.5 - 1e-12]])
    hyper = Hyper(SE((0.5,)), 1e-20, 1.0)
    gp = GP.of(Data.of(x, np.ones(3)), hyper)
    assert 0.0 < gp.factor.jitter <= 1e-12
    grown = GP.of(Data.of(x[:1], np.ones(1)), hyper).add(x[1], 1.0)
    assert 0.0 < grown.factor.jitter <= 1e-12
    for trouble in (gp, grown):
        mu, sigma = trouble.predict(np.linspace(0, 1, 5)[:, None])
        assert np.isfinite(mu).all()
        assert (sigma > 0).all()
        assert abs(trouble.predict(x[:1])[0][0] - 1.0) <= 1e-2


@settings(max_examples=200, deadline=None, derandomize=True)
@given(
    hard_data(),
    st.sampled_from(["se", "0.5", "1.5", "2.5"]),
    st.sampled_from([0.005, 0.3, 2.0, 100.0]),
    st.sampled_from([1e-8, 1e-2, 1e3]),
    st.sampled_from(MEANS),
)
@example((np.array([[0.637]]), np.array([6.4e11]), [NUMBER]), "se", 0.005, 1e-8, 0.0)
def test_nothing_breaks_the_posterior(
    case: tuple[Array, Array, list[str]],
    name: str,
    scale: float,
    lam2: float,
    mean: float | None,
) -> None:
    x, y, kinds = case
    size = float(np.abs(y).max()) or 1.0
    hyper = Hyper(kernel_for(name, kinds, scale), lam2, size**2, mean)
    rng = np.random.default_rng(0)
    with strict():
        gp = GP.of(Data.of(x, y), hyper)
        new = rng.random(x.shape[1])
        gp = gp.add(new, float(y[0])).add(x[0], float(y[0])).add(new, float(y[-1]))
        query = np.vstack([rng.random((5, x.shape[1])), gp.data.x[:5], gp.data.x[:1] + 1e-12])
        mu, sigma, gradient = gp.predict_vjp(query)
        assert np.isfinite(mu).all()
        assert (sigma > 0.0).all()
        assert (sigma <= 1.0).all()
        # Where there are data the mean is among them: the solves have kept their digits.
        assert np.abs(gp.at_data[0]).max() <= 10.0 * size
        assert np.isfinite(gradient(np.ones(len(query)), np.ones(len(query)))).all()
        assert np.isfinite(gp.covariance(query)).all()
        assert np.isfinite(gp.log_evidence)
        assert gp.information >= 0.0
        assert all(np.isfinite(part).all() for part in gp.leave_one_out())
        assert all(0.0 <= share <= 1.0 for share in gp.calibration().values())
        value, slope = gp.sample_path(rng, 64).with_gradient(query)
        assert np.isfinite(value).all()
        assert np.isfinite(slope).all()
        value, pull = gp.shared(query[0]).with_gradient(query)
        assert np.isfinite(value).all()
        assert np.isfinite(pull(np.ones(len(query)))).all()
        found = evidence(gp.data, hyper)
        assert np.isfinite([found.value, found.omega2, found.d_log_lam2, *found.d_theta]).all()


def test_ten_thousand_observations_cost_like_the_points_they_are_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The largest array that is made has as many numbers as the points, not the observations."""
    rng = np.random.default_rng(8)
    x = rng.random((100, 3))
    at, y = x[rng.integers(100, size=10_000)], rng.standard_normal(10_000)
    joined = []
    real = data_module._joined
    monkeypatch.setattr(data_module, "_joined", lambda *a: joined.append(None) or real(*a))
    tracemalloc.start()
    try:
        data = Data.of(at, y)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert len(joined) == 10_000 - 100  # each replicate is looked at once
    assert peak < 1e6  # 10,000 copies of the rows would be 24 MB
    assert len(data) == 100
    assert data.observations == 10_000
    gp = GP.of(data, Hyper(KERNELS["matern52"], 0.1, 1.0))
    assert gp.factor.size == 100


@pytest.mark.parametrize("sem", [1e3, 1e6, 1e9, 1e12, 1e60])
def test_results_that_say_nothing_do_no_harm_at_their_points(sem: float) -> None:
    hyper = Hyper(SE((0.3,)), 0.01, 1.0, 0.25)
    data = Data.empty(1)
    for x, y in ((0.1, 0.4), (0.3, 0.9), (0.5, 0.2)):
        data, _ = data.add(np.array([x]), y)
    quiet = GP.of(data, hyper)
    for x in (0.7, 0.9):
        data, _ = data.add(np.array([x]), 0.0, variance=sem**2)
    gp = GP.of(data, hyper)
    mu, sigma = gp.at_data
    wanted = quiet.predict(data.x)
    assert apart(mu, wanted[0]) < 1e-5
    assert apart(sigma, wanted[1]) < 1e-5
    path = gp.sample_path(np.random.default_rng(0), 64)
    assert apart(path.at_data, path(data.x)) < 1e-6


def test_observations_folded_at_once_are_those_added_one_by_one() -> None:
    rng = np.random.default_rng(5)
    points = rng.random((9, 2))
    points[0, 0] = 0.0
    told = []
    for _ in range(300):
        point = points[rng.integers(9)].copy()
        point[point == 0.0] = rng.choice([0.0, -0.0])  # one point
        variance = float(rng.random()) if rng.random() < 0.4 else None
        told.append((point, float(rng.standard_normal()), float(rng.choice([1, 7])), variance))
    one_by_one = Data.empty(2)
    for observation in told:
        one_by_one, _ = one_by_one.add(*observation)
    at_once = Data.fold(2, told)
    for name in ("x", "y", "weight", "known", "count"):
        assert np.array_equal(getattr(at_once, name), getattr(one_by_one, name)), name
    assert (at_once.scatter, at_once.constant) == (one_by_one.scatter, one_by_one.constant)


@pytest.mark.parametrize("sem", [1.0, 1e6, 1e12, 1e60])
def test_a_result_that_says_nothing_brings_no_jitter_to_the_others(sem: float) -> None:
    data = Data.empty(1)
    for x in (0.1, 0.25, 0.4, 0.5, 0.5 + 1e-9, 0.5 + 2e-9, 0.6, 0.75, 0.9):
        data, _ = data.add(np.array([x]), np.sin(6 * x), variance=1e-18)
    data, _ = data.add(np.array([0.33]), 0.0, variance=sem**2)
    gp = GP.of(data, Hyper(SE((0.3,)), 0.01, 1.0))
    assert 0.0 < gp.factor.jitter < 1e-8
    mu, sigma = gp.predict(np.array([[0.25]]))
    assert abs(mu[0] - np.sin(1.5)) < 1e-5
    assert sigma[0] < 1e-5


@pytest.mark.parametrize("variance", [0.0, 1e-300, 1e300, inf])
def test_variances_beyond_all_bounds_count_as_the_bounds(variance: float) -> None:
    data = Data.empty(1)
    with strict():
        for y in (1.0, 2.0, 1.5):
            data, _ = data.add(np.array([0.5]), y, variance=variance)
        data, _ = data.add(np.array([0.7]), 1.0)
        for scale in (1e-90, 1.0, 1e90):
            gp = GP.of(data.standardised(0.0, scale), Hyper(SE((0.3,)), 0.01, 1.0))
            assert np.isfinite(gp.predict(np.array([[0.5], [0.6]]))).all()
