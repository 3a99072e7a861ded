"""h and log h against 50 digits, the gate against its equation, the factor against numpy."""

from __future__ import annotations

import copy
import pickle
import warnings
from math import copysign, inf, isclose, log, nan, sqrt

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.linalg import lapack

from oracles import apart
from regretless import improvement as numerics
from regretless.errors import ConfigError
from regretless.model import Factor, NotPositiveDefinite

Array = NDArray[np.float64]

# --- h --------------------------------------------------------------------------------------------

mpmath.mp.dps = 50

# Dense where the formulas change (-10, -1), around 0 and around the root of log h, and far out.
Z = np.unique(
    np.concatenate(
        [
            np.linspace(-1000, 1000, 81),
            np.linspace(-45, 12, 115),
            -10.0 + np.linspace(-1e-9, 1e-9, 5),
            -1.0 + np.linspace(-1e-9, 1e-9, 5),
            np.linspace(0.88, 0.92, 21),
            np.array([-1e-300, 0.0, 1e-300, -1e-9, 1e-9, 0.1, 1e3, -1e3]),
        ]
    )
)


def exact(z: float) -> tuple[mpmath.mpf, mpmath.mpf, mpmath.mpf]:
    """h(z), log h(z), Phi(z)/h(z); at 50 digits and more, because the tail cancels x^2 of them."""
    with mpmath.workdps(70 + int(3 * log(2 + abs(z)))):
        z = mpmath.mpf(z)
        cdf = mpmath.erfc(-z / mpmath.sqrt(2)) / 2
        h = z * cdf + mpmath.npdf(z)
        return h, mpmath.log(h), cdf / h


EXACT = {float(z): exact(float(z)) for z in Z}


def test_log_h_and_its_slope_are_right_to_twelve_digits() -> None:
    value, slope = numerics.log_h_and_slope(Z)
    for z, v, s in zip(Z.tolist(), value.tolist(), slope.tolist(), strict=True):
        _, log_h, ratio = EXACT[z]
        # log h crosses zero near z = 0.9, where no relative accuracy is to be had: h is known to
        # one part in 1e16 there, and so is its logarithm, absolutely.
        assert abs(v - log_h) <= max(1e-12 * abs(log_h), 1e-15), z
        assert abs(s - ratio) <= 1e-12 * ratio, z


def test_h_is_right_to_twelve_digits_where_it_does_not_underflow() -> None:
    h = numerics.h(Z)
    checked = 0
    for z, value in zip(Z.tolist(), h.tolist(), strict=True):
        wanted = EXACT[z][0]
        if wanted < 1e-300:  # denormal numbers have fewer digits, and then there are none
            assert 0.0 <= value <= 1e-300
        else:
            assert abs(value - wanted) <= 1e-12 * wanted, z
            checked += 1
    assert checked > 150


def test_parts_agree_with_the_whole() -> None:
    value, slope = numerics.log_h_and_slope(Z)
    assert np.array_equal(numerics.log_h(Z), value)
    assert np.array_equal(numerics.log_h_slope(Z), slope)


@pytest.mark.parametrize("shape", [(), (1,), (3, 2), (0,), (2, 0)])
def test_shapes_are_kept(shape: tuple[int, ...]) -> None:
    z = np.full(shape, -3.0)
    for function in (numerics.h, numerics.log_h, numerics.log_h_slope):
        assert np.asarray(function(z)).shape == shape


def test_accepts_numbers_and_lists() -> None:
    assert isclose(float(numerics.h(0.0)), 1 / sqrt(2 * np.pi))
    assert numerics.log_h([0.0, -20.0]).shape == (2,)
    assert np.isfinite(numerics.log_h(-7)).all()


def test_identities() -> None:
    z = np.linspace(-8, 8, 33)
    assert np.allclose(numerics.h(z) - numerics.h(-z), z, rtol=0, atol=1e-14)
    ratio = numerics.log_h(z) - numerics.log_h(-z)
    assert (np.diff(ratio) > 0).all()  # what makes the gate one number
    assert (np.diff(numerics.log_h_slope(np.linspace(-50, 50, 501))) < 0).all()  # log-concave


def test_no_overflow_far_beyond_the_bar() -> None:
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        value, slope = numerics.log_h_and_slope(np.array([-1e150, -1e6, 1e6, 1e150]))
    assert np.isfinite(value).all()
    assert np.isfinite(slope).all()


# --- the gate -------------------------------------------------------------------------------------

MS = [1, 1 + 1e-12, 1.5, 2, 3, 5, 10, 50, 200, 1000, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9]


@pytest.mark.parametrize("m", MS)
def test_gate_solves_its_equation(m: float) -> None:
    t = numerics.gate(m)
    _, up, slope_up = exact(t)
    _, down, slope_down = exact(-t)
    residual = up - down + mpmath.log(m)
    # In terms of t, to the last digit that t has.
    assert abs(residual / (slope_up + slope_down)) <= 4e-16 * max(1.0, abs(t))
    assert -sqrt(2 * log(m)) <= t <= 0.0  # Lemma 2


def test_gate_values() -> None:
    assert numerics.gate(1) == 0.0
    assert copysign(1.0, numerics.gate(1)) == 1.0
    assert round(numerics.gate(200), 3) == -1.947


def test_gate_opens_as_the_budget_grows() -> None:
    ts = [numerics.gate(m) for m in np.unique(np.geomspace(1, 1e9, 300).round()).tolist()]
    assert (np.diff(ts) < 0).all()
    assert len(ts) > 250


@pytest.mark.parametrize("m", [0, 0.999, -3, nan, inf, -inf])
def test_gate_refuses_what_is_not_a_number_of_evaluations(m: float) -> None:
    with pytest.raises(ConfigError, match=r"gate: need .* got " + str(m)):
        numerics.gate(m)


# --- the factor -----------------------------------------------------------------------------------


def spd(rng: np.random.Generator, size: int, spread: float = 2.0) -> Array:
    """A covariance-like matrix with eigenvalues over `spread` decades."""
    basis = np.linalg.qr(rng.standard_normal((size, size)))[0]
    whole: Array = (basis * 10 ** rng.uniform(-spread, 0, size)) @ basis.T
    return 0.5 * (whole + whole.T)


def check(factor: Factor, dense: Array, rng: np.random.Generator, bar: float = 1e-8) -> None:
    """Everything a factor can tell, against numpy on the dense matrix."""
    size = len(dense)
    assert factor.size == size
    inverse = np.linalg.inv(dense) if size else np.zeros((0, 0))
    right, left = rng.standard_normal((size, 3)), rng.standard_normal((size, 2))
    kept = right.copy()
    assert apart(factor.solve(right), inverse @ right) <= bar
    assert apart(factor.solve(right[:, 0]), inverse @ right[:, 0]) <= bar
    assert apart(factor.quad(right), np.diag(right.T @ inverse @ right)) <= bar
    quad, solved = factor.quad_and_solve(right)
    assert apart(quad, np.diag(right.T @ inverse @ right)) <= bar
    assert apart(solved, inverse @ right) <= bar
    assert apart(factor.cross(left, right), left.T @ inverse @ right) <= bar
    assert apart(factor.inverse(), inverse) <= bar
    assert np.array_equal(factor.inverse(), factor.inverse().T)
    assert apart(factor.inverse_diagonal(), np.diag(inverse)) <= bar
    logdet = np.linalg.slogdet(dense)[1] if size else 0.0
    assert isclose(factor.logdet, logdet, rel_tol=bar, abs_tol=bar)
    assert np.array_equal(right, kept)


@pytest.mark.parametrize("size", [0, 1, 2, 17, 60])
def test_factor_of_a_good_matrix(size: int) -> None:
    rng = np.random.default_rng(size)
    dense = spd(rng, size) if size else np.zeros((0, 0))
    kept = dense.copy()
    factor = Factor.of(dense)
    check(factor, dense, rng)
    assert factor.jitter == 0.0
    assert not factor.worn
    assert np.array_equal(dense, kept)


def test_factor_adds_a_diagonal_without_touching_the_matrix() -> None:
    rng = np.random.default_rng(0)
    dense, extra = spd(rng, 12), rng.random(12)
    kept = dense.copy()
    check(Factor.of(dense, extra), dense + np.diag(extra), rng)
    assert np.array_equal(dense, kept)


@pytest.mark.parametrize("inverted", [False, True])
def test_empty_factor_can_grow(inverted: bool) -> None:
    rng = np.random.default_rng(0)
    dense = spd(rng, 40)
    factor = Factor.of(np.zeros((0, 0)), inverted=inverted)
    for i in range(40):
        factor = factor.append(dense[:i, i], float(dense[i, i]))
    check(factor, dense, rng)
    assert factor.jitter == 0.0


@st.composite
def histories(draw: st.DrawFn) -> tuple[int, int, list[tuple[str, int, float]]]:
    """Appends and changed diagonal entries in any order, and from which version each one starts."""
    seed = draw(st.integers(0, 2**32 - 1))
    start = draw(st.integers(0, 8))
    kinds = st.sampled_from(["append", "lower", "raise", "same"])
    steps = st.tuples(kinds, st.integers(0, 10**6), st.floats(0.0, 1.0))
    return seed, start, draw(st.lists(steps, max_size=25))


@settings(max_examples=150, deadline=None, derandomize=True)
@given(histories(), st.booleans(), st.booleans())
def test_any_history_equals_a_fresh_factor(
    history: tuple[int, int, list[tuple[str, int, float]]], forked: bool, inverted: bool
) -> None:
    seed, start, steps = history
    rng = np.random.default_rng(seed)
    dense = spd(rng, start) if start else np.zeros((0, 0))
    versions = [(Factor.of(dense, inverted=inverted), dense)]
    for kind, choice, amount in steps:
        # A fork starts from any earlier version, whose buffer later ones may have written to.
        factor, dense = versions[choice % len(versions)] if forked else versions[-1]
        size = len(dense)
        if choice % 2:
            factor.inverse_diagonal()  # a part of it is kept for the next ones
        if kind == "append" or size == 0:
            grown = np.zeros((size + 1, size + 1))
            grown[:size, :size] = dense
            # In the range of C, so that [[C, c], [c', d]] is positive definite with room to spare.
            column = dense @ rng.standard_normal(size) / sqrt(size + 1)
            grown[:size, size] = grown[size, :size] = column
            inside = float(column @ np.linalg.solve(dense, column)) if size else 0.0
            grown[size, size] = inside * (1 + amount) + 0.01 + amount
            factor = factor.append(column, float(grown[size, size]))
            dense = grown
        else:
            index = choice % size
            inverse = np.linalg.inv(dense)
            eaten = 1.0 / inverse[index, index]  # what would make C singular
            delta = {"lower": -0.9 * amount * eaten, "raise": amount, "same": 0.0}[kind]
            dense = dense.copy()
            dense[index, index] += delta
            factor = factor.shift_diagonal(index, delta)
        if factor.worn:  # as the GP does
            factor = Factor.of(dense, inverted=inverted)
        versions.append((factor, dense))
    # All of them, the oldest too: none may have been disturbed by what came after.
    for factor, dense in versions:
        check(factor, dense, rng)
        assert factor.jitter == 0.0


@pytest.mark.parametrize("inverted", [False, True])
def test_two_successors_of_one_parent_do_not_meet(inverted: bool) -> None:
    rng = np.random.default_rng(3)
    dense = spd(rng, 30)
    start = Factor.of(dense[:20, :20], inverted=inverted)
    parent = start.append(dense[:20, 20], float(dense[20, 20]))
    one = parent
    for i in range(21, 30):
        one = one.append(dense[:i, i], float(dense[i, i]))
    order = [*range(21), *range(29, 20, -1)]
    shuffled = dense[np.ix_(order, order)]
    two = parent
    for i in range(21, 30):
        two = two.append(shuffled[:i, i], float(shuffled[i, i]))
    three = parent.shift_diagonal(4, 0.5)
    check(parent, dense[:21, :21], rng)
    check(one, dense, rng)
    check(two, shuffled, rng)
    shifted = dense[:21, :21].copy()
    shifted[4, 4] += 0.5
    check(three, shifted, rng)


@pytest.mark.parametrize("inverted", [False, True])
def test_a_copy_owns_its_buffer(inverted: bool) -> None:
    rng = np.random.default_rng(4)
    dense = spd(rng, 12)
    start = Factor.of(dense[:10, :10], inverted=inverted)
    parent = start.append(dense[:10, 10], float(dense[10, 10]))
    twin = pickle.loads(pickle.dumps(parent))
    other = copy.deepcopy(parent)
    grown = parent.append(dense[:11, 11], float(dense[11, 11]))
    twin.append(np.zeros(11), 1.0)
    other.append(np.zeros(11), 2.0)
    check(grown, dense, rng)
    check(twin, dense[:11, :11], rng)


@pytest.mark.parametrize("inverted", [False, True])
def test_what_repeated_shifts_have_in_common_is_computed_once(inverted: bool) -> None:
    rng = np.random.default_rng(6)
    dense = spd(rng, 12)
    first = Factor.of(dense, inverted=inverted).shift_diagonal(3, 0.5).shift_diagonal(5, 0.1)
    first.inverse_diagonal()[:] = 0.0  # what the caller does with it changes nothing
    again = first.shift_diagonal(3, 0.25)
    assert again._drawn is first._drawn
    assert again._squares is first._squares
    fresh = Factor.of(dense, inverted=inverted).shift_diagonal(3, 0.5).shift_diagonal(5, 0.1)
    fresh = fresh.shift_diagonal(3, 0.25)
    assert np.array_equal(again.inverse_diagonal(), fresh.inverse_diagonal())  # to the last bit
    another = first.shift_diagonal(7, 0.25)
    assert another._drawn is not first._drawn
    shifted = dense.copy()
    shifted[[3, 5, 7], [3, 5, 7]] += [0.5, 0.1, 0.25]
    check(another, shifted, rng)


def test_repeated_shifts_of_one_entry_are_one_correction() -> None:
    rng = np.random.default_rng(5)
    dense = spd(rng, 10) + np.eye(10)
    factor = Factor.of(dense)
    for _ in range(100):
        factor = factor.shift_diagonal(3, -0.002)
    assert not factor.worn
    dense[3, 3] -= 0.2
    check(factor, dense, rng)


def test_worn_after_many_corrections_and_after_a_delicate_one() -> None:
    rng = np.random.default_rng(6)
    dense = spd(rng, 100) + np.eye(100)
    factor = Factor.of(dense)
    assert not factor.worn
    count = 0
    while not factor.worn:
        factor = factor.shift_diagonal(count, -0.01)
        dense[count, count] -= 0.01
        count += 1
    assert 8 <= count <= 20
    check(factor, dense, rng)  # tired, not wrong

    for much in (-0.999, 1000.0):
        pair = Factor.of(np.eye(2)).shift_diagonal(0, much)
        assert pair.worn
        check(pair, np.diag([1.0 + much, 1.0]), rng)
    assert not Factor.of(np.eye(2)).shift_diagonal(0, -0.5).worn


@pytest.mark.parametrize("inverted", [False, True])
def test_an_entry_that_grew_makes_room_for_a_row_the_old_matrix_had_none_for(
    inverted: bool,
) -> None:
    rng = np.random.default_rng(7)
    start = Factor.of(np.eye(2), inverted=inverted)
    factor = start.shift_diagonal(0, 3.0).append(np.array([1.9, 0.0]), 1.0)
    dense = np.array([[4.0, 0.0, 1.9], [0.0, 1.0, 0.0], [1.9, 0.0, 1.0]])
    check(factor, dense, rng)
    assert factor.jitter == 0.0


def test_jitter_is_recorded_and_least() -> None:
    singular = np.ones((5, 5))
    factor = Factor.of(singular)
    assert 0.0 < factor.jitter <= 1e-12
    rng = np.random.default_rng(8)
    check(Factor.of(singular, 1e-3), singular + 1e-3 * np.eye(5), rng)
    assert Factor.of(singular, 1e-3).jitter == 0.0
    # A larger matrix, scaled: jitter goes with the scale.
    assert 0.0 < Factor.of(1e6 * singular).jitter <= 1e-6


def test_jitter_of_an_append_is_recorded() -> None:
    factor = Factor.of(np.eye(1))
    twin = factor.append(np.ones(1), 1.0)
    assert 0.0 < twin.jitter <= 1e-14
    assert np.isfinite(twin.solve(np.array([1.0, 1.0]))).all()
    assert factor.jitter == 0.0
    good = factor.append(np.array([0.5]), 1.0)
    assert good.jitter == 0.0


def test_jitter_survives_what_follows() -> None:
    jittered = Factor.of(np.ones((3, 3)))
    assert jittered.shift_diagonal(0, 0.1).jitter == jittered.jitter
    assert jittered.append(np.zeros(3), 1.0).jitter == jittered.jitter


@pytest.mark.parametrize("matrix", [np.diag([1.0, -1.0]), -np.eye(3), np.full((2, 2), nan)])
def test_what_no_jitter_mends_is_refused(matrix: Array) -> None:
    with pytest.raises(NotPositiveDefinite, match="matrix"):
        Factor.of(matrix)


def test_an_append_is_cheap() -> None:
    """A tripwire; benchmarks/core_speed.py measures the bar itself, 1/8 of a factorisation."""
    from time import process_time

    rng = np.random.default_rng(9)
    m, more = 600, 10
    dense = np.exp(-np.abs(np.subtract.outer(*2 * [rng.random(m + more)]))) + 0.1 * np.eye(m + more)
    start = Factor.of(dense[:m, :m]).append(dense[:m, m], float(dense[m, m]))
    full = np.asfortranarray(dense[:m, :m])

    def appends() -> None:
        factor = start
        for i in range(m + 1, m + more):
            factor = factor.append(dense[:i, i], float(dense[i, i]))

    def seconds(task: object) -> float:
        begun = process_time()  # others on this machine do not count
        task()  # type: ignore[operator]
        return process_time() - begun

    tries = [(seconds(appends), seconds(lambda: lapack.dpotrf(full))) for _ in range(15)]
    appended, fresh = (min(times) for times in zip(*tries, strict=True))
    assert appended / (more - 1) <= fresh / 4


def test_two_threads_may_grow_one_factor(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(0)
    points = rng.random((7, 2))
    dense = np.exp(-((points[:, None] - points) ** 2).sum(axis=-1)) + 0.1 * np.eye(7)
    # One more, so that the buffer has room for the next column.
    base = Factor.of(dense[:4, :4], inverted=True).append(dense[:4, 4], dense[4, 4])
    other: list[Factor] = []
    backward = Factor._backward

    def interrupted(factor: Factor, right: Array) -> Array:
        """The other thread's whole append, in the middle of ours."""
        if not other:
            other.append(base)
            other[0] = base.append(dense[:5, 6], dense[6, 6])
        return backward(factor, right)

    monkeypatch.setattr(Factor, "_backward", interrupted)
    mine = base.append(dense[:5, 5], dense[5, 5])
    for factor, rows in ((mine, [0, 1, 2, 3, 4, 5]), (other[0], [0, 1, 2, 3, 4, 6])):
        whole = dense[np.ix_(rows, rows)]
        assert apart(factor.solve(np.eye(6)), np.linalg.inv(whole)) < 1e-9
