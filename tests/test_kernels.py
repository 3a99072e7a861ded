"""One contract that every kernel keeps, and what is particular to some."""

from __future__ import annotations

from dataclasses import replace
from math import inf, nan

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from oracles import apart, slopes
from regretless.defaults import NEWEST
from regretless.errors import ConfigError
from regretless.kernels import SE, Hamming, Kernel, Matern, Product, Radial, Rippled, Sum
from regretless.kernels.radial import _cos_and_sin

Array = NDArray[np.float64]

# Columns 0 to 2 are continuous, 3 and 4 hold choices.
CONTINUOUS = (0, 1, 2)
SCALES = (0.3, 0.7, 1.6)
KERNELS: dict[str, Kernel] = {
    "se": SE(SCALES, CONTINUOUS),
    **{f"matern{nu}": Matern(SCALES, CONTINUOUS, nu) for nu in (0.5, 1.5, 2.5, 0.8, 1.0, 1.7, 3.3)},
    "one column": Matern((0.4,), (1,), 2.5),
    "rippled": Rippled(SCALES, CONTINUOUS, 0.3, 0.15),
    "rippled choices": Product((Rippled((0.3, 0.7), (0, 2)), Hamming((0.8,), (3,)))),
    "hamming": Hamming((0.3, 1.4), (3, 4)),
    "product": Product((SE(SCALES, CONTINUOUS), Hamming((0.8,), (3,)))),
    "product over the same columns": Product((SE(SCALES, CONTINUOUS), Matern(SCALES, CONTINUOUS))),
    "product of one": Product((Matern(SCALES, CONTINUOUS, 1.5),)),
    "sum": Sum((SE(SCALES, CONTINUOUS), Matern((0.1, 0.1, 0.1), CONTINUOUS, 0.5)), (3.0, 1.0)),
    "nested": Product(
        (
            Sum((Matern((0.5, 0.5), (0, 1), 1.5), Hamming((1.0,), (4,)))),
            Sum((SE((0.9,), (2,)), Product((SE((0.4,), (0,)), Hamming((0.5,), (3,))))), (1.0, 2.0)),
        )
    ),
}


@pytest.fixture(params=list(KERNELS))
def kernel(request: pytest.FixtureRequest) -> Kernel:
    return KERNELS[request.param]


def points(seed: int, count: int) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.random((count, 5))
    x[:, 3:] = rng.integers(4, size=(count, 2)) / 3
    return x


# --- the contract ---------------------------------------------------------------------------------


def test_is_a_correlation(kernel: Kernel) -> None:
    x = points(1, 60)
    k = kernel.gram(x)
    assert apart(np.diag(k), np.ones(60)) <= 1e-15
    assert np.array_equal(kernel.diag(x), np.ones(60))
    assert apart(k, k.T) <= 1e-15
    assert (k >= 0.0).all()
    assert (k <= 1.0 + 1e-15).all()
    assert np.linalg.eigvalsh(k).min() >= -1e-13 * len(x)


def test_all_ways_to_the_gram_matrix_agree(kernel: Kernel) -> None:
    x, z = points(1, 20), points(2, 15)
    kept = x.copy(), z.copy()
    k = kernel.gram(x)
    assert apart(kernel.gram(x, x), k) <= 1e-15
    assert apart(kernel.gram_vjp(x)[0], k) <= 1e-15
    assert apart(kernel.gram(z, x), kernel.gram(x, z).T) <= 1e-15
    assert apart(kernel.cross_vjp(x, z)[0], kernel.gram(x, z)) <= 1e-15
    assert np.array_equal(kernel.gram(x), k)
    assert np.array_equal(x, kept[0])
    assert np.array_equal(z, kept[1])


def test_no_points_are_no_trouble(kernel: Kernel) -> None:
    none, some = np.zeros((0, 5)), points(1, 3)
    assert kernel.gram(none).shape == (0, 0)
    assert kernel.gram(some, none).shape == (3, 0)
    assert kernel.gram(none, some).shape == (0, 3)
    assert kernel.gram_dx(some, none, np.zeros((3, 0))).shape == (3, 5)
    assert not kernel.gram_dtheta(none, np.zeros((0, 0))).any()


def test_theta_there_and_back(kernel: Kernel) -> None:
    x = points(3, 10)
    again = kernel.with_theta(kernel.theta)
    assert type(again) is type(kernel)
    assert apart(again.theta, kernel.theta) <= 1e-15
    assert apart(again.gram(x), kernel.gram(x)) <= 1e-13
    theta = kernel.theta + np.linspace(-0.5, 0.5, len(kernel.theta))
    moved = kernel.with_theta(theta)
    assert apart(moved.theta, theta) <= 1e-15
    assert moved != kernel
    assert apart(moved.with_theta(kernel.theta).gram(x), kernel.gram(x)) <= 1e-13


def test_is_a_value(kernel: Kernel) -> None:
    assert kernel == replace(kernel)  # type: ignore[type-var]
    assert hash(kernel) == hash(replace(kernel))  # type: ignore[type-var]
    with pytest.raises(AttributeError):
        kernel.theta = np.zeros(1)  # type: ignore[misc]


def test_slope_in_theta(kernel: Kernel) -> None:
    x = points(4, 12)
    w = np.random.default_rng(0).standard_normal((12, 12))
    w += w.T
    wanted = slopes(lambda t: float((w * kernel.with_theta(t).gram(x)).sum()), kernel.theta, 1e-3)
    assert apart(kernel.gram_dtheta(x, w), wanted) <= 1e-8
    # A pull-back keeps nothing between calls, and leaves the weights alone.
    kept = w.copy()
    pull = kernel.gram_vjp(x)[1]
    assert np.array_equal(pull(w), pull(w))
    assert np.array_equal(w, kept)


def test_slope_in_x(kernel: Kernel) -> None:
    x, z = points(5, 6), points(6, 9)
    a = np.random.default_rng(0).standard_normal((6, 9))
    slope = kernel.gram_dx(x, z, a)
    assert slope.shape == x.shape
    assert not slope[:, 3:].any()  # choices have no direction
    for q in range(len(x)):

        def along(moved: Array, q: int = q) -> float:
            point = np.concatenate([moved, x[q, 3:]])
            return float(kernel.gram(point[None, :], z)[0] @ a[q])

        assert apart(slope[q, :3], slopes(along, x[q, :3], 1e-4)) <= 1e-7


def test_scales_are_finite_where_there_are_slopes(kernel: Kernel) -> None:
    x, z = points(4, 6), points(5, 7)
    pulled = kernel.gram_dx(x, z, np.ones((6, 7)))
    np.testing.assert_array_equal(np.isfinite(kernel.scales(5)), np.abs(pulled).max(axis=0) > 0)


def test_the_shortest_scale_counts() -> None:
    rough, smooth = Matern((0.1, 0.9), (0, 2)), SE((0.5, 0.5), (0, 1))
    for both in (Product((rough, smooth)), Sum((smooth, rough))):
        np.testing.assert_array_equal(both.scales(4), [0.1, 0.5, 0.9, inf])


def test_slopes_stay_finite_at_the_data(kernel: Kernel) -> None:
    """Where two points coincide a rough kernel has no derivative; it must not have a NaN either."""
    x = points(7, 6)
    x[1] = x[0]
    x[2] = x[0] + 1e-12
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        assert np.isfinite(kernel.gram_dx(x, x, np.ones((6, 6)))).all()
        assert np.isfinite(kernel.gram_dtheta(x, np.ones((6, 6)))).all()


def test_features_have_the_kernel_as_covariance(kernel: Kernel) -> None:
    x = points(8, 7)
    count = 100_000
    phi, _ = kernel.features(np.random.default_rng(1), count)(x)
    assert phi.shape == (7, count)
    products = phi[:, None, :] * phi[None, :, :]
    error = np.abs(products.mean(axis=2) - kernel.gram(x))
    assert (error <= 5.0 * products.std(axis=2) / np.sqrt(count) + 1e-12).all()


def test_features_are_one_function(kernel: Kernel) -> None:
    x = points(9, 8)
    evaluate = kernel.features(np.random.default_rng(2), 50)
    phi, pull = evaluate(x)
    assert np.array_equal(evaluate(x)[0], phi)
    assert apart(evaluate(x[3:4])[0], phi[3:4]) <= 1e-13
    assert apart(kernel.features(np.random.default_rng(2), 50)(x)[0], phi) == 0.0
    a = np.random.default_rng(3).standard_normal((8, 50))
    slope = pull(a)
    assert slope.shape == x.shape
    assert not slope[:, 3:].any()
    for q in range(2):

        def along(moved: Array, q: int = q) -> float:
            point = np.concatenate([moved, x[q, 3:]])
            return float(evaluate(point[None, :])[0][0] @ a[q])

        # Rough kernels have frequencies without bound, so only a short step sees the slope.
        assert apart(slope[q, :3], slopes(along, x[q, :3], 1e-6)) <= 1e-5


def test_far_apart_is_uncorrelated_without_a_warning(kernel: Kernel) -> None:
    x = points(10, 5)
    x[:, :3] *= 1e8
    with np.errstate(over="raise", invalid="raise", divide="raise"):
        k, pull = kernel.gram_vjp(x)
        assert np.isfinite(k).all()
        assert np.isfinite(pull(np.ones((5, 5)))).all()


# --- Matern ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("nu", [0.5, 1.5, 2.5])
def test_closed_forms_are_the_bessel_formula(nu: float) -> None:
    x, z = points(11, 10)[:, :3], points(12, 30)[:, :3]
    w = np.random.default_rng(0).standard_normal((30, 30))
    w += w.T
    closed, near = Matern(SCALES, None, nu), Matern(SCALES, None, nu + 1e-9)
    assert apart(closed.gram(x, z), near.gram(x, z)) <= 1e-8
    assert apart(closed.gram_dx(x, z, w[:10]), near.gram_dx(x, z, w[:10])) <= 1e-7
    assert apart(closed.gram_dtheta(z, w), near.gram_dtheta(z, w)) <= 1e-7


@pytest.mark.parametrize("nu", [0.05, 0.3, 0.5, 0.8, 1.0, 1.7, 2.5, 3.3, 7.5, 20.0])
def test_any_smoothness_against_fifty_digits(nu: float) -> None:
    kernel = Matern((1.0,), None, nu)
    # From distances at which a rough kernel is far from 1 to ones at which Bessel underflows.
    for r in (1e-40, 1e-20, 1e-12, 1e-9, 1e-6, 1e-3, 0.1, 1.0, 5.0, 30.0, 200.0, 1e4):
        value = kernel.gram(np.array([[r]]), np.zeros((1, 1)))[0, 0]
        with mpmath.workdps(50):
            u = mpmath.sqrt(2 * mpmath.mpf(nu)) * mpmath.mpf(r)
            wanted = 2 * (u / 2) ** nu * mpmath.besselk(nu, u) / mpmath.gamma(nu)
        assert abs(value - wanted) <= 1e-12


@pytest.mark.parametrize("nu", [0.3, 0.5, 0.8, 1.0, 1.5, 2.5, "se"])
@pytest.mark.parametrize("gap", [1e-12, 1e-8, 1e-4])
def test_near_duplicates_do_not_drown_the_slope_in_theta(nu: float | str, gap: float) -> None:
    """Near-duplicates have huge weights of opposite signs, and rough kernels huge slopes."""
    rng = np.random.default_rng(0)
    x = rng.random((20, 3))
    x = np.vstack([x, x[:10] + gap * rng.standard_normal((10, 3))])
    kernel: Radial = SE(SCALES) if nu == "se" else Matern(SCALES, None, float(nu))
    w = np.linalg.inv(kernel.gram(x) + 1e-6 * np.eye(30))
    w = 0.5 * (w + w.T)
    u = x / np.array(SCALES)
    gaps = (u[:, None, :] - u[None, :, :]) ** 2
    slope = kernel._shape_and_slope(gaps.sum(axis=2))[1]
    wanted = np.einsum("ij,ijk->k", w * slope, gaps)
    # At 1e-6 the precision matrix has entries of 1e6, of which rounding leaves 1e-10.
    assert np.abs(kernel.gram_dtheta(x, w) - wanted).max() <= 1e-8 * (1.0 + np.abs(wanted).max())


def test_smoother_and_smoother_is_the_squared_exponential() -> None:
    x = points(13, 20)[:, :3]
    gaps = [
        np.abs(Matern(SCALES, None, nu).gram(x) - SE(SCALES).gram(x)).max() for nu in (1, 5, 20)
    ]
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.02


# --- Rippled --------------------------------------------------------------------------------------


def test_rippled_is_a_sum_of_a_trend_and_a_ripple() -> None:
    share, ratio = 0.3, 0.15
    rippled = Rippled(SCALES, CONTINUOUS, share, ratio)
    fine = Matern(tuple(ratio * scale for scale in SCALES), CONTINUOUS)
    both = Sum((Matern(SCALES, CONTINUOUS), fine), (1.0 - share, share))
    x, z, rng = points(21, 40), points(22, 30), np.random.default_rng(23)
    assert apart(rippled.gram(x, z), both.gram(x, z)) <= 1e-15
    weights = rng.standard_normal((40, 30))
    assert apart(rippled.gram_dx(x, z, weights), both.gram_dx(x, z, weights)) <= 1e-12
    weights = rng.standard_normal((40, 40))
    weights += weights.T
    trend, ripple = np.split(both.gram_dtheta(x, weights), 2)
    mine = rippled.gram_dtheta(x, weights)
    assert apart(mine[:3], trend + ripple) <= 1e-12
    assert mine[4] == pytest.approx(ripple.sum(), rel=1e-12)


def test_rippled_there_and_back_through_theta() -> None:
    kernel = Rippled(SCALES, CONTINUOUS, 0.3, 0.15)
    rules = NEWEST.fit.priors
    expected = (*[rules.length] * 3, rules.ripple_odds, rules.ripple_ratio)
    assert kernel.priors(rules) == expected
    again = kernel.with_theta(kernel.theta)
    assert (again.columns, type(again)) == (CONTINUOUS, Rippled)
    assert apart(again.theta, kernel.theta) <= 1e-15


def test_the_scales_of_rippled_lie_between_those_of_its_parts() -> None:
    for share in (1e-4, 0.1, 0.9):
        scales = Rippled((0.5,), None, share, 0.1).scales(1)
        assert 0.05 < scales[0] < 0.5
    assert Rippled((0.5,), None, 1e-4, 0.1).scales(1)[0] == pytest.approx(0.5, rel=0.01)


# --- random features ------------------------------------------------------------------------------


def test_cosine_and_sine_by_the_tangent() -> None:
    special = np.arange(-8, 9) * (np.pi / 4)  # poles of the tangent among them
    angles = np.concatenate([special, np.nextafter(special, 9.0), np.linspace(-1e4, 1e4, 100_001)])
    cos, sin = _cos_and_sin(angles.copy())
    assert apart(cos, np.cos(angles)) <= 4e-16
    assert apart(sin, np.sin(angles)) <= 4e-16


# --- Sum ------------------------------------------------------------------------------------------


def test_the_weights_of_a_sum_are_shares_and_keep_every_digit() -> None:
    assert Sum((SE((0.5,)), SE((0.7,))), (3, 1)).weights == (0.75, 0.25)
    assert Sum((SE((0.5,)), SE((0.7,)))).weights == (0.5, 0.5)
    rng = np.random.default_rng(0)
    for _ in range(200):
        parts = tuple(SE((float(scale),)) for scale in rng.uniform(0.1, 1.0, 5))
        kernel = Sum(parts, tuple(rng.uniform(0.01, 10.0, 5).tolist()))
        assert Sum(parts, kernel.weights).weights == kernel.weights
        assert kernel.with_theta(kernel.theta).weights == kernel.weights  # type: ignore[attr-defined]


# --- Hamming --------------------------------------------------------------------------------------


def test_hamming_counts_unlike_choices() -> None:
    kernel = Hamming((0.3, 1.4), (0, 1))
    x = np.array([[0.0, 0.0], [0.5, 0.0], [0.0, 0.5], [1.0, 1.0]])
    wanted = np.exp([0.0, -0.3, -1.4, -1.7])
    assert apart(kernel.gram(x)[0], wanted) <= 1e-15


def test_hamming_path_is_the_same_at_both_zeros() -> None:
    evaluate = Hamming((0.5,), (0,)).features(np.random.default_rng(0), 20)
    assert np.array_equal(evaluate(np.array([[-0.0]]))[0], evaluate(np.array([[0.0]]))[0])


# --- what is refused ------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", [0.0, -1.0, nan, inf])
def test_bad_numbers_are_named(bad: float) -> None:
    name = str(bad)
    with pytest.raises(ConfigError, match=rf"lengthscales: .* got {name}"):
        SE((0.5, bad))
    with pytest.raises(ConfigError, match=rf"lengthscales: .* got {name}"):
        Matern((bad,))
    with pytest.raises(ConfigError, match=rf"nu: .* got {name}"):
        Matern((0.5,), None, bad)
    with pytest.raises(ConfigError, match=rf"share: .* got {name}"):
        Rippled((0.5,), None, bad)
    with pytest.raises(ConfigError, match=rf"ratio: .* got {name}"):
        Rippled((0.5,), None, 0.1, bad)
    with pytest.raises(ConfigError, match=rf"weights: .* got {name}"):
        Hamming((bad,), (0,))
    with pytest.raises(ConfigError, match=rf"weights: .* got {name}"):
        Sum((SE((0.5,)), SE((0.7,))), (1.0, bad))


def test_bad_shapes_are_named() -> None:
    with pytest.raises(ConfigError, match=r"nu: need at most 20.* got 21"):
        Matern((0.5,), None, 21)
    with pytest.raises(ConfigError, match=r"lengthscales: need one per column, got \(0.5,\) for"):
        SE((0.5,), (0, 1))
    with pytest.raises(ConfigError, match=r"weights: need one per column"):
        Hamming((0.5,), (0, 1))
    with pytest.raises(ConfigError, match=r"weights: need one per part"):
        Sum((SE((0.5,)), SE((0.7,))), (1.0,))
    for kind in (Sum, Product):
        with pytest.raises(ConfigError, match=r"parts: need at least one kernel"):
            kind(())


@pytest.mark.parametrize("kind", [SE, Matern])
def test_one_length_scale_is_not_stretched_over_many_columns(kind: type[Radial]) -> None:
    with pytest.raises(ConfigError, match=r"lengthscales: need one per column, 3, got \(0.5,\)"):
        kind((0.5,)).gram(np.zeros((2, 3)))


# --- properties -----------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(list(KERNELS)),
    st.integers(0, 2**32 - 1),
    st.floats(-4.0, 4.0),
    st.sampled_from([0.0, 1e-12, 1e-6]),
)
def test_positive_semidefinite_for_any_parameters(
    name: str, seed: int, stretch: float, gap: float
) -> None:
    rng = np.random.default_rng(seed)
    kernel = KERNELS[name]
    kernel = kernel.with_theta(stretch + rng.standard_normal(len(kernel.theta)))
    x = points(seed, 25)
    x[12:24] = x[:12]
    x[12:24, :3] += gap * rng.standard_normal((12, 3))
    k = kernel.gram(x)
    assert np.isfinite(k).all()
    assert apart(np.diag(k), np.ones(25)) <= 1e-14
    assert np.linalg.eigvalsh(k).min() >= -1e-12
