"""The Cholesky factor of the covariance matrix, with fast updates for new points and replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, sqrt
from threading import Lock
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import blas, lapack

from regretless._internal.arrays import Array, keep_freed_memory

_MAX_STRETCH = 64.0  # corrections may change a pivot by this factor; beyond, they lose digits
_LEAST_PIVOT = 1e-15  # squared, as a share of the diagonal: smaller ones are rounding
_PANEL = 64  # columns of U^-1 that stay in the cache
_rounding = Lock()


class _Buffer:
    """Memory for the columns of U, and of U^-1 if it is kept, with room for more columns.

    Several factors share a buffer, perhaps in several threads.  Only the factor that has claimed a
    column may write it.
    """

    __slots__ = ("_rounded", "_single", "array", "claims", "root")

    def __init__(self, array: Array, root: Array | None = None) -> None:
        self.array, self.root = array, root
        self.claims: dict[int, object] = {}
        self._single = np.zeros((0, 0), dtype=np.float32)  # U^-1, as far as it was needed
        self._rounded = 0  # the number of its columns that are there

    def claim(self, column: int) -> bool:
        """Claim a column; False if it is taken or outside of the buffer."""
        me = object()
        # `setdefault` is atomic, so only one thread gets the column.
        return column < len(self.array) and self.claims.setdefault(column, me) is me

    def single(self, size: int) -> NDArray[np.float32]:
        """The first columns of U^-1 in single precision.  Each column is rounded once."""
        assert self.root is not None
        with _rounding:
            if not len(self._single):
                self._single = np.zeros(self.root.shape, dtype=np.float32, order="F")
            if self._rounded < size:
                new = slice(self._rounded, size)
                self._single[:size, new] = self.root[:size, new]
                self._rounded = size
            return self._single[:, :size]


class _Tail(NamedTuple):
    """The last columns of U and of U^-1, if they are not in the buffer."""

    upper: Array
    root: Array


@dataclass(frozen=True, eq=False)
class Factor:
    """The factor of a symmetric positive definite matrix C = U'U + sum_k shift_k e_k e_k'.

    U is stored in a buffer that the factors of larger matrices share: to append a row writes one
    new column and copies nothing.  With `inverted`, U^-1 is kept as well.  It also grows by a
    column, and to multiply by it takes a third of the time of a triangular solve.

    A replicate changes one diagonal entry of C.  Such a change is kept as a rank-one correction
    (Woodbury).

    Rows that are there for a moment only, those of pending trials, are appended together.  Their
    columns are not written to the buffer, where the next result will need the place.

    `jitter` is what was added to the diagonal so that the matrix could be factorised; usually 0.
    """

    _buffer: _Buffer
    size: int
    jitter: float = 0.0
    _moved: tuple[int, ...] = ()
    _shift: Array = field(default_factory=lambda: np.zeros(0))
    _half: Array = field(default_factory=lambda: np.zeros((0, 0)))  # U^-T e_k, one column each
    _drawn: list[Array] = field(default_factory=list)  # U^-1 `_half`, once it was needed
    _squares: list[Array] = field(default_factory=list)  # diag((U'U)^-1), once it was needed
    _seen: list[tuple[Array, Array]] = field(default_factory=list)  # see `_forward`
    _tail: _Tail | None = None
    _single: bool = False  # whether products with U^-1 are computed in single precision

    @classmethod
    def of(cls, matrix: Array, diagonal: Array | float = 0.0, inverted: bool = False) -> Factor:
        """The factor of matrix + diag(diagonal).

        Jitter is added if it is necessary: the smallest possible of 1e-14 ... 1e-2 times the
        smallest diagonal entry.  A large entry, of a very noisy point, must not increase it.

        Args:
            matrix: a symmetric matrix.
            diagonal: what is added to its diagonal.
            inverted: whether to keep U^-1 as well, for many solves.

        Raises:
            NotPositiveDefinite: the matrix can't be factorised, even with jitter.
        """
        keep_freed_memory()
        if len(matrix) == 0:
            none = np.zeros((0, 0), order="F")
            return cls(_Buffer(none, none if inverted else None), 0)
        whole = np.einsum("ii->i", matrix) + diagonal
        jitter = 0.0
        for exponent in (None, *range(-14, -1)):
            raised = np.array(matrix)  # a copy for each attempt, because LAPACK overwrites it
            if exponent is not None:
                jitter = float(np.min(whole)) * 10.0**exponent
            np.einsum("ii->i", raised)[:] = whole + jitter
            upper, info = lapack.dpotrf(raised.T, lower=0, clean=1, overwrite_a=1)
            # Some LAPACKs report no error for NaN.  A NaN anywhere makes a pivot NaN.
            if info == 0 and isfinite(np.einsum("ii->", upper)):
                root = _inverse_root(upper) if inverted else None
                return cls(_Buffer(upper, root), len(matrix), jitter)
        shape = f"{len(matrix)} x {len(matrix)}"
        raise NotPositiveDefinite(f"a {shape} matrix, with jitter up to {jitter:g}")

    # -- growing -----------------------------------------------------------------------------------

    def append(self, column: Array, diagonal: float) -> Factor:
        """The factor of [[C, column], [column', diagonal]] in O(size^2)."""
        if self._tail is not None:
            return self._settled.append(column, diagonal)
        new = self._forward(column[:, None])[:, 0]
        square = diagonal - float(new @ new)
        floor = _LEAST_PIVOT * diagonal
        jitter = self.jitter
        if square < floor:
            if self._moved:  # C may be positive definite though U'U is not, if an entry has grown
                fresh = Factor.of(self._dense(), inverted=self._buffer.root is not None)
                return fresh.append(column, diagonal)
            jitter = max(jitter, floor - square)
            square = floor
        pivot = sqrt(square)
        buffer = self._with_a_column()
        buffer.array[: self.size, self.size] = new
        buffer.array[self.size, self.size] = pivot
        squares: list[Array] = []
        if buffer.root is not None:
            buffer.root[: self.size, self.size] = self._backward(new[:, None])[:, 0] / -pivot
            buffer.root[self.size, self.size] = 1.0 / pivot
            if self._squares:
                last = buffer.root[: self.size + 1, self.size]
                squares = [np.append(self._squares[0], 0.0) + last * last]
        half = self._half
        if self._moved:
            half = np.vstack([half, -(new @ half)[None, :] / pivot])
        return replace(
            self,
            _buffer=buffer,
            size=self.size + 1,
            jitter=jitter,
            _half=half,
            _drawn=[],
            _squares=squares,
            _seen=[],
        )

    def extended(self, columns: Array, corner: Array) -> Factor:
        """The factor of [[C, columns], [columns', corner]] in O(size^2) for each new row.

        It is for rows that are there for a moment only.  U^-1 must be kept.
        """
        if self._tail is not None:
            return self._settled.extended(columns, corner)
        new = self._forward(columns)
        squares = np.einsum("ii->i", corner)
        upper, info = lapack.dpotrf(corner - new.T @ new, lower=0, clean=1)
        if info or not (np.einsum("ii->i", upper) ** 2 >= _LEAST_PIVOT * squares).all():
            # To append them one by one would make U^-1 so large that it overflows.
            whole = np.block([[self._dense(), columns], [columns.T, corner]])
            return Factor.of(whole, inverted=True)
        own = _inverse_root(upper)
        tail = _Tail(np.vstack([new, upper]), np.vstack([-self._backward(new @ own), own]))
        more = np.einsum("ij,ij->i", tail.root, tail.root)
        more[: self.size] += self._root_squares
        half = self._half
        if self._moved:
            half = np.vstack([half, -own.T @ (new.T @ half)])
        return replace(
            self,
            size=self.size + len(corner),
            _half=half,
            _drawn=[],
            _squares=[more],
            _seen=[],
            _tail=tail,
        )

    def shift_diagonal(self, index: int, delta: float) -> Factor:
        """The factor of C + delta e_i e_i' in O(size^2); O(size) if entry i was changed before."""
        return self.shift_diagonals([index], [delta])

    def shift_diagonals(self, indices: Sequence[int], deltas: Sequence[float]) -> Factor:
        """The factor of C with changes of several entries of its diagonal; the indices differ."""
        new = [index for index in indices if index not in self._moved]
        moved = (*self._moved, *new)
        shift = np.append(self._shift, np.zeros(len(new)))
        shift[[moved.index(index) for index in indices]] += deltas
        half, drawn = self._half, self._drawn
        if new:
            units = np.zeros((self.size, len(new)))
            units[new, np.arange(len(new))] = 1.0
            columns = self._forward(units)
            half, drawn = (np.hstack([half, columns]) if self._moved else columns), []
        return replace(self, _moved=moved, _shift=shift, _half=half, _drawn=drawn)

    @property
    def in_single(self) -> Factor:
        """The same factor with products in single precision, which take half of the time.

        They are relative to 1e-7 or so, and the smallest variance that they can tell from 0 is
        about 1e-6 times the diagonal of C.
        """
        return self if self._buffer.root is None else replace(self, _single=True)

    @property
    def worn(self) -> bool:
        """Whether to factorise again, because the corrections are many or lose digits."""
        if not self._moved:
            return False
        # Each correction adds 2/size to the cost of a solve; a new factor costs size/3 solves.
        if len(self._moved) > 8 + self.size // 25:
            return True
        stretch = np.linalg.svd(self._pivots, compute_uv=False)
        return bool(stretch[-1] * _MAX_STRETCH < 1.0 or stretch[0] > _MAX_STRETCH)

    # -- using -------------------------------------------------------------------------------------

    def solve(self, right: Array) -> Array:
        """C^-1 right, for a matrix (size, q) or a vector."""
        flat = right[:, None] if right.ndim == 1 else right
        white = self._forward(flat)
        if self._moved:
            white -= self._half @ (self._core @ (self._half.T @ white))
        out = self._backward(white)
        return out[:, 0] if right.ndim == 1 else out

    def quad(self, right: Array) -> Array:
        """diag(right' C^-1 right), one number per column."""
        white = self._forward(right)
        total = np.einsum("ij,ij->j", white, white)
        if self._moved:
            seen = self._half.T @ white
            total -= np.einsum("ij,ij->j", seen, self._core @ seen)
        return np.asarray(total)

    def quad_and_solve(self, right: Array) -> tuple[Array, Array]:
        """`quad` and `solve` of one right-hand side, sharing the first triangular solve."""
        if self._single and not self._moved and self._tail is None:
            white, out = self._both_in_single(right)
            return np.einsum("ij,ij->j", white, white), out
        white = self._forward(right)
        total = np.einsum("ij,ij->j", white, white)
        if self._moved:
            seen = self._half.T @ white
            drawn = self._core @ seen
            total -= np.einsum("ij,ij->j", seen, drawn)
            white -= self._half @ drawn
        return total, self._backward(white)

    def cross(self, left: Array, right: Array) -> Array:
        """left' C^-1 right."""
        white_l = self._forward(left)
        # A copy, because numpy multiplies a matrix by itself in another order.
        white_r = white_l.copy(order="F") if right is left else self._forward(right)
        total = white_l.T @ white_r
        if self._moved:
            total -= (self._half.T @ white_l).T @ self._core @ (self._half.T @ white_r)
        return np.asarray(total)

    def inverse_diagonal(self) -> Array:
        """diag(C^-1): the squared rows of U^-1.

        What another shift of the same entries leaves as it is, is computed once.
        """
        squares = self._root_squares
        if not self._moved:
            return squares.copy()
        if not self._drawn:
            half, whole = self._half, self._tail is None
            self._drawn[:] = [self._root @ half if whole else self._backward(half)]
        drawn = self._drawn[0]
        return np.asarray(squares - np.einsum("ij,ij->i", drawn @ self._core, drawn))

    def inverse(self) -> Array:
        """C^-1, dense and symmetric."""
        if self.size == 0:
            return np.zeros((0, 0))
        upper = np.array(self._upper, order="F")
        half, _ = lapack.dpotri(upper, lower=0, overwrite_c=1)
        inverse = half + half.T  # LAPACK fills one triangle, and the other one is zero
        np.einsum("ii->i", inverse)[:] *= 0.5
        if self._moved:
            drawn = self._backward(self._half)
            half = 0.5 * (drawn @ self._core @ drawn.T)
            inverse -= half + half.T  # symmetric to the last digit
        return np.asarray(inverse)

    @cached_property
    def logdet(self) -> float:
        diagonal = np.einsum("ii->i", self._upper)
        total = 2.0 * float(np.log(diagonal).sum())
        if self._moved:
            total += float(np.linalg.slogdet(self._pivots)[1])
        return total

    # -- internals ---------------------------------------------------------------------------------

    @property
    def _upper(self) -> Array:
        """U."""
        return self._settled._buffer.array[: self.size, : self.size]

    @property
    def _root(self) -> Array:
        """U^-1."""
        root = self._settled._buffer.root
        return _inverse_root(self._upper) if root is None else root[: self.size, : self.size]

    @property
    def _root_squares(self) -> Array:
        """The squared rows of U^-1."""
        if not self._squares:
            self._squares[:] = [_squared_rows(self._root)]
        return self._squares[0]

    @cached_property
    def _settled(self) -> Factor:
        """The same factor with all of its columns in a buffer."""
        tail, buffer = self._tail, self._buffer
        if tail is None:
            return self
        assert buffer.root is not None
        before, room = len(tail.upper) - tail.upper.shape[1], self.size + 32
        array, root = (np.zeros((room, room), order="F") for _ in range(2))
        pairs = (array, buffer.array, tail.upper), (root, buffer.root, tail.root)
        for new, old, last in pairs:
            new[:before, :before] = old[:before, :before]
            new[: self.size, before : self.size] = last
        return replace(self, _buffer=_Buffer(array, root), _tail=None)

    @cached_property
    def _wide(self) -> Array:
        return np.sqrt(np.abs(self._shift))

    @cached_property
    def _pivots(self) -> Array:
        """I + sign(s) |s|^1/2 H'H |s|^1/2 for shifts s; its determinant is det C / det U'U."""
        seen = self._wide[:, None] * (self._half.T @ self._half) * self._wide
        return np.eye(len(self._moved)) + np.sign(self._shift)[:, None] * seen

    @cached_property
    def _core(self) -> Array:
        """(shift^-1 + H'H)^-1, written so that shift may be zero."""
        core = np.linalg.solve(self._pivots, np.diag(np.sign(self._shift) * self._wide))
        core *= self._wide[:, None]
        return 0.5 * (core + core.T)

    def _dense(self) -> Array:
        """C itself."""
        upper = self._upper
        dense = upper.T @ upper
        dense[self._moved, self._moved] += self._shift
        return np.asarray(dense)

    def _forward(self, right: Array) -> Array:
        """U^-T right.

        The last single column is kept: a decision, the look at its result and the new row of the
        data need the same one.
        """
        if right.shape[1] != 1 or self._single:
            return self._triangular(right, trans=1)
        seen = self._seen[:]  # another thread may replace it
        if not (seen and np.array_equal(seen[0][0], right)):
            seen = [(right.copy(), self._triangular(right, trans=1))]
            self._seen[:] = seen
        return seen[0][1].copy()

    def _backward(self, right: Array) -> Array:
        """U^-1 right."""
        return self._triangular(right, trans=0)

    def _triangular(self, right: Array, trans: int) -> Array:
        if self.size == 0:
            return np.zeros_like(right)
        if self._tail is None:
            return self._product(right, trans)
        last = self._tail.root
        before = len(last) - last.shape[1]
        if trans:
            return np.concatenate([self._product(right[:before], trans), last.T @ right])
        out = last @ right[before:]
        out[:before] += self._product(right[:before], trans)
        return np.asarray(out)

    def _product(self, right: Array, trans: int) -> Array:
        """The columns of U in the buffer, and as many rows."""
        size, root = len(right), self._buffer.root
        # Leading columns are F-contiguous, so none of the calls makes a copy.
        if root is not None and self._single:
            small, single = np.array(right, np.float32, order="F"), self._buffer.single(size)
            out = blas.strmm(1.0, single, small, trans_a=trans, overwrite_b=1)
            return np.asarray(out, dtype=np.float64)
        right = np.array(right, order="F")
        if root is not None:
            out = blas.dtrmm(1.0, root[:, :size], right, trans_a=trans, overwrite_b=1)
        else:
            columns = self._buffer.array[:, :size]
            out, _ = lapack.dtrtrs(columns, right, lower=0, trans=trans, overwrite_b=1)
        return np.asarray(out)

    def _both_in_single(self, right: Array) -> tuple[Array, Array]:
        """U^-T right and C^-1 right, with one look at U^-1: to read it takes most of the time."""
        rows = self._buffer.single(self.size).T  # row j is column j of U^-1, and contiguous
        given = np.array(right.T, np.float32, order="C")
        white, out = np.empty_like(given), np.zeros_like(given)
        for first in range(0, self.size, _PANEL):
            last = min(first + _PANEL, self.size)
            panel = rows[first:last, :last]
            white[:, first:last] = given[:, :last] @ panel.T
            out[:, :last] += white[:, first:last] @ panel
        return np.asarray(white.T, dtype=np.float64), np.asarray(out.T, dtype=np.float64)

    def _with_a_column(self) -> _Buffer:
        """A buffer with the next column claimed: this factor's if it is free, or a larger copy."""
        buffer = self._buffer
        if buffer.claim(self.size):
            return buffer
        room = self.size + 32 + self.size // 2
        array = np.zeros((room, room), order="F")  # `inverse` relies on zeros below the diagonal
        array[: self.size, : self.size] = buffer.array[: self.size, : self.size]
        own = _Buffer(array)
        if buffer.root is not None:
            own.root = np.zeros_like(array)
            own.root[: self.size, : self.size] = buffer.root[: self.size, : self.size]
        own.claim(self.size)
        return own


def _inverse_root(upper: Array) -> Array:
    """U^-1, with zeros below its diagonal."""
    if len(upper) == 0:
        return upper
    root, _ = lapack.dtrtri(np.array(upper, order="F"), lower=0, overwrite_c=1)
    return np.asarray(root)


def _squared_rows(root: Array) -> Array:
    """The sums of the squares of each row.

    Column by column, so that `Factor.append` gets the same bits from the sums so far.
    """
    total = np.zeros(len(root))
    for j, column in enumerate(root.T):
        total[: j + 1] += column[: j + 1] * column[: j + 1]
    return total


class NotPositiveDefinite(ArithmeticError):
    """The matrix could not be factorised."""
