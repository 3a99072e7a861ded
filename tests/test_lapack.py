"""The functions that let other threads run return the bits of scipy's own."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import blas
from scipy.linalg import lapack as scipys

from regretless._internal import lapack
from regretless._internal.arrays import Array

SIZES = (1, 3, lapack.LARGE - 1, lapack.LARGE, 300)


def positive(size: int) -> Array:
    a = np.random.default_rng(size).standard_normal((size, size))
    return np.asarray(a @ a.T + size * np.eye(size))


def upper(size: int) -> Array:
    return np.asfortranarray(np.linalg.cholesky(positive(size)).T)


def test_scipy_has_the_compiled_functions() -> None:
    assert all(lapack._compiled(name) is not None for name in lapack._SIGNATURES)


def test_without_them_scipys_own_are_used(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = lapack.inverse(upper(200))
    monkeypatch.setattr(lapack, "_compiled", lambda name: None)
    assert lapack.inverse(upper(200)).tobytes() == expected.tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_factors_and_inverses(size: int) -> None:
    factor, status = lapack.cholesky(np.tril(positive(size)).T)
    expected, info = scipys.dpotrf(positive(size).T, lower=0, clean=1)
    assert (status, factor.tobytes()) == (info, expected.tobytes())
    found = lapack.inverse_of_square(upper(size))
    assert found.tobytes() == scipys.dpotri(upper(size), lower=0)[0].tobytes()
    assert lapack.inverse(upper(size)).tobytes() == scipys.dtrtri(upper(size))[0].tobytes()


@pytest.mark.parametrize("size", SIZES)
def test_a_matrix_that_is_not_positive_definite_has_a_status(size: int) -> None:
    assert lapack.cholesky(np.asfortranarray(-np.eye(size)))[1] == 1


@pytest.mark.parametrize("trans", [0, 1])
@pytest.mark.parametrize("columns", [1, 7, 400])
@pytest.mark.parametrize("size", SIZES)
def test_triangular_systems_in_a_larger_buffer(size: int, columns: int, trans: int) -> None:
    room = np.zeros((size + 20, size + 20), order="F")
    room[:size, :size] = upper(size)
    leading = room[:, :size]
    right = np.asfortranarray(np.random.default_rng(1).standard_normal((size, columns)))
    solved = lapack.solve(leading, right.copy(order="F"), trans)
    expected = scipys.dtrtrs(leading, right, lower=0, trans=trans)[0]
    assert solved.tobytes() == expected.tobytes()
    product = lapack.multiply(leading, right.copy(order="F"), trans)
    assert product.tobytes() == blas.dtrmm(1.0, leading, right, trans_a=trans).tobytes()
