"""Five functions of BLAS and LAPACK that let other threads run while they compute.

Those of `scipy.linalg.lapack` and `scipy.linalg.blas` keep Python's lock until they are done.  With
thousands of numbers that is tens of milliseconds, in which a service answers nobody.  These here
call the same compiled code, so they return the same bits.

All matrices are in Fortran's order, of doubles, and upper triangles.  The last one is overwritten.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from regretless._internal.arrays import Array

LARGE = 128  # rows.  With fewer, the call takes longer than the work, and scipy's is quicker.
# What scipy says about each function: the number of `char *`, `int *` and `double *`.
_SIGNATURES = {
    "dpotrf": (1, 3, 1),
    "dpotri": (1, 3, 1),
    "dtrtri": (2, 3, 1),
    "dtrtrs": (3, 5, 2),
    "dtrmm": (4, 4, 3),
}


@cache
def _compiled(name: str) -> Callable[..., None] | None:
    """The function by its address in scipy; None if scipy has it in another way."""
    from scipy.linalg import cython_blas, cython_lapack

    module: Any = cython_blas if name == "dtrmm" else cython_lapack
    capsule = getattr(module, "__pyx_capi__", {}).get(name)
    if capsule is None:
        return None
    name_of, address_of = ctypes.pythonapi.PyCapsule_GetName, ctypes.pythonapi.PyCapsule_GetPointer
    name_of.restype, name_of.argtypes = ctypes.c_char_p, [ctypes.py_object]
    address_of.restype = ctypes.c_void_p
    address_of.argtypes = [ctypes.py_object, ctypes.c_char_p]
    signature = name_of(capsule)
    pointers = signature.count(b"*")
    found = signature.count(b"char *"), signature.count(b"int *")
    if (*found, pointers - sum(found)) != _SIGNATURES[name]:
        return None
    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * pointers)
    function: Callable[..., None] = kind(address_of(capsule, signature))
    return function


def _call(function: Callable[..., None], *arguments: bytes | int | float | Array) -> None:
    """Call a function of Fortran, which takes addresses only."""
    given = []
    for each in arguments:
        if isinstance(each, np.ndarray):
            given.append(ctypes.c_void_p(each.ctypes.data))
        elif isinstance(each, bytes):
            given.append(ctypes.c_char_p(each))  # type: ignore[arg-type]
        else:
            number = ctypes.c_int(each) if isinstance(each, int) else ctypes.c_double(each)
            given.append(ctypes.byref(number))  # type: ignore[arg-type]
    function(*given)


def _function(name: str, matrix: Array) -> Callable[..., None] | None:
    return _compiled(name) if matrix.shape[1] >= LARGE else None


def _status() -> Array:
    return np.zeros(1, dtype=np.intc)


def cholesky(matrix: Array) -> tuple[Array, int]:
    """U with U'U = matrix, and LAPACK's status.  Below the diagonal the matrix must be 0."""
    function = _function("dpotrf", matrix)
    if function is None:
        upper, info = lapack.dpotrf(matrix, lower=0, clean=0, overwrite_a=1)
        return upper, int(info)
    status, size = _status(), len(matrix)
    _call(function, b"U", size, matrix, size, status)
    return matrix, int(status[0])


def inverse_of_square(upper: Array) -> Array:
    """The upper triangle of (U'U)^-1."""
    function = _function("dpotri", upper)
    if function is None:
        return np.asarray(lapack.dpotri(upper, lower=0, overwrite_c=1)[0])
    _call(function, b"U", len(upper), upper, len(upper), _status())
    return upper


def inverse(upper: Array) -> Array:
    """U^-1."""
    function = _function("dtrtri", upper)
    if function is None:
        return np.asarray(lapack.dtrtri(upper, lower=0, overwrite_c=1)[0])
    _call(function, b"U", b"N", len(upper), upper, len(upper), _status())
    return upper


def solve(upper: Array, right: Array, trans: int) -> Array:
    """U^-1 right, or U'^-1 right with `trans`.  `upper` may have more rows than columns."""
    function = _function("dtrtrs", upper)
    if function is None:
        return np.asarray(lapack.dtrtrs(upper, right, lower=0, trans=trans, overwrite_b=1)[0])
    rows, columns = right.shape
    how = b"T" if trans else b"N"
    lead = upper.shape[0]
    _call(function, b"U", how, b"N", rows, columns, upper, lead, right, rows, _status())
    return right


def multiply(upper: Array, right: Array, trans: int) -> Array:
    """U right, or U' right with `trans`.  `upper` may have more rows than columns."""
    function = _function("dtrmm", upper)
    if function is None:
        return np.asarray(blas.dtrmm(1.0, upper, right, trans_a=trans, overwrite_b=1))
    rows, columns = right.shape
    how = b"T" if trans else b"N"
    lead = upper.shape[0]
    _call(function, b"L", b"U", how, b"N", rows, columns, 1.0, upper, lead, right, rows)
    return right
