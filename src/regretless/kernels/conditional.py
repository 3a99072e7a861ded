"""Kernels for parameters that exist only for some values of others.

A `Rule` says when a column is active.  While it is not, it is at a place of its own, beside the
middle of its values.  That two branches differ is said by the columns that decide about them, so
this place is near:

- `BesideMiddle` is a radial kernel.  It puts the inactive column beside the middle of the range, in
  a second coordinate.  A sum of squared distances remains one, so the kernel is positive definite,
  whatever the rules are.
- `CentredHamming` puts it into the middle of the choices.
- `Switched` is for a kernel of any other kind: a mixture of a constant and a kernel that is 0
  between an active and an inactive point.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import sqrt
from typing import TypeAlias

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.validate import check_inside
from regretless.defaults import Prior, PriorRules
from regretless.kernels.base import Features, Kernel, Pullback
from regretless.kernels.choices import Hamming
from regretless.kernels.radial import Radial

# A column is active if the coordinate of its parent is in one of the ranges [low, high), and the
# parent itself is active: (column, parent, ranges).  A column may have several rules, all of which
# have to hold.  The rules of a parent come before those of its children.
Rule: TypeAlias = tuple[int, int, tuple[tuple[float, float], ...]]

# How far beside the middle of the range an inactive column is, as a share of the range.  At 1 / pi,
# branches tell too little about each other, because the columns that decide about them are
# different as well; measured: docs/results/conditional.md.
_BESIDE = 0.1


def activity(x: Array, rules: Sequence[Rule]) -> dict[int, NDArray[np.bool_]]:
    """For each column that has rules, whether it is active in the rows of x.

    Args:
        x: encoded points, of shape (q, d).
        rules: when columns are active, see `Rule`.

    Example:
        >>> import numpy as np
        >>> rule = (1, 0, ((0.5, 2.0),))  # column 1 is active if column 0 is at least 0.5
        >>> activity(np.array([[0.25, 0.5], [0.75, 0.1]]), [rule])[1].tolist()
        [False, True]
    """
    active: dict[int, NDArray[np.bool_]] = {}
    for column, parent, ranges in rules:
        place = x[:, parent]
        holds = np.zeros(len(x), dtype=bool)
        for low, high in ranges:
            holds |= (place >= low) & (place < high)
        if parent in active:
            holds &= active[parent]
        active[column] = active[column] & holds if column in active else holds
    return active


def most_at_once(columns: Sequence[int], rules: Sequence[Rule]) -> int:
    """How many of the columns are active at once, at most, in a thousand random points.

    Args:
        columns: the columns that count.
        rules: when columns are active, see `Rule`.

    Example:
        >>> either = [(1, 0, ((0.0, 0.5),)), (2, 0, ((0.5, 2.0),))]
        >>> most_at_once([0, 1, 2], either)
        2
    """
    last = max(max(column, parent) for column, parent, _ in rules)
    active = activity(np.random.default_rng(0).random((1000, last + 1)), rules)
    counts = sum((active[column].astype(int) for column in columns if column in active), start=0)
    always = sum(column not in active for column in columns)
    return max(1, always + int(np.max(counts)))


@dataclass(frozen=True)
class BesideMiddle(Kernel, json="BesideMiddle"):
    """A radial kernel over columns, some of which are not always active.

    An inactive column is beside the middle of its range, a tenth of the range away from it.  Two
    inactive ones are equal.

    Args:
        base: the radial kernel, with one length-scale for each column.  Its own `columns` are None.
        columns: the columns of the encoded points that the kernel uses.
        rules: when columns are active, see `Rule`.
        at_once: how many of the columns are active at once, at most.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> rule = (1, 0, ((0.5, 2.0),))  # column 1 is active if column 0 is at least 0.5
        >>> kernel = BesideMiddle(SE((1.0,)), columns=(1,), rules=(rule,), at_once=1)
        >>> x = np.array([[0.25, 0.5], [0.75, 0.5], [0.75, 1.0]])
        >>> kernel.gram(x[:1], x).round(4).tolist()  # the first point has no column 1
        [[1.0, 0.995, 0.8781]]
    """

    base: Radial
    columns: tuple[int, ...]
    rules: tuple[Rule, ...]
    at_once: int

    @cached_property
    def _ruled(self) -> tuple[bool, ...]:
        """For each of the columns, whether it has rules."""
        ruled = {column for column, *_ in self.rules}
        return tuple(column in ruled for column in self.columns)

    @cached_property
    def _owner(self) -> NDArray[np.intp]:
        """For each embedded coordinate, the number of its column among `columns`."""
        return np.repeat(np.arange(len(self.columns)), np.where(self._ruled, 2, 1))

    @cached_property
    def _wide(self) -> Radial:
        """The kernel of the embedded coordinates."""
        theta, count = self.base.theta, len(self.columns)
        wide = self.base.with_theta(np.concatenate([theta[:count][self._owner], theta[count:]]))
        return replace(wide, columns=None)

    def _embedded(self, x: Array) -> tuple[Array, Pullback]:
        """The points in these coordinates, and the pull-back of a gradient there to one in x."""
        active = activity(x, self.rules)
        places: list[Array] = []
        rises: list[Array | float] = []
        for column, ruled in zip(self.columns, self._ruled, strict=True):
            if not ruled:
                places.append(x[:, column])
                rises.append(1.0)
                continue
            on = active[column]
            places += [np.where(on, x[:, column], 0.5), np.where(on, 0.0, _BESIDE)]
            rises += [on.astype(float), 0.0]

        def pullback(gradient: Array) -> Array:
            out = np.zeros_like(x)
            for j, (owner, rise) in enumerate(zip(self._owner, rises, strict=True)):
                out[:, self.columns[owner]] += gradient[:, j] * rise
            return out

        return np.stack(places, axis=1), pullback

    @property
    def theta(self) -> Array:
        return self.base.theta

    def with_theta(self, theta: Array) -> BesideMiddle:
        return replace(self, base=self.base.with_theta(theta))

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return self.base.priors(rules)

    def lengths_at_once(self, rules: PriorRules) -> int:
        return self.at_once

    def scales(self, dim: int) -> Array:
        out = np.full(dim, np.inf)
        out[list(self.columns)] = self.base.scales(len(self.columns))
        return out

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return self._wide.gram(self._embedded(x)[0], None if z is None else self._embedded(z)[0])

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k, pull = self._wide.gram_vjp(self._embedded(x)[0])
        count, wide = len(self.columns), len(self._owner)

        def pullback(weights: Array) -> Array:
            pulled = pull(weights)
            lengths = np.bincount(self._owner, weights=pulled[:wide], minlength=count)
            return np.concatenate([lengths, pulled[wide:]])

        return k, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        here, to_x = self._embedded(x)
        k, pull = self._wide.cross_vjp(here, self._embedded(z)[0])
        return k, lambda weights: to_x(pull(weights))

    def features(self, rng: Generator, count: int) -> Features:
        base = self._wide.features(rng, count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            here, to_x = self._embedded(x)
            phi, pull = base(here)
            return phi, lambda weights: to_x(pull(weights))

        return evaluate


@dataclass(frozen=True)
class CentredHamming(Hamming, json="CentredHamming"):
    """The Hamming kernel over columns of choices, some of which are not always active.

    An inactive column is half as far from each choice as two choices are from each other: in the
    sum of the exponent, it counts by half its weight.  That is the covariance of functions
    sqrt(a) z + sqrt(1 - a) z_c of the choice c, with a = exp(-w), and z where there is no choice.

    Args:
        weights: w_k > 0, one for each column.
        columns: the columns of the encoded points that hold choices.
        rules: when columns are active, see `Rule`.

    Raises:
        ConfigError: a weight is not positive, or there are not as many weights as columns.

    Example:
        >>> import numpy as np
        >>> rule = (1, 0, ((0.5, 2.0),))  # column 1 is active if column 0 is at least 0.5
        >>> kernel = CentredHamming(weights=(1.0,), columns=(1,), rules=(rule,))
        >>> x = np.array([[0.75, 0.25], [0.75, 0.75], [0.25, 0.0]])
        >>> kernel.gram(x[:1], x).round(4).tolist()
        [[1.0, 0.3679, 0.6065]]
    """

    rules: tuple[Rule, ...]

    def with_theta(self, theta: Array) -> CentredHamming:
        return replace(self, weights=tuple(np.exp(theta).tolist()))

    def _differs(self, x: Array, z: Array) -> list[Array]:
        here, there = activity(x, self.rules), activity(z, self.rules)
        out = []
        for column, differs in zip(self.columns, super()._differs(x, z), strict=True):
            if column in here:
                on, other = here[column][:, None], there[column][None, :]
                differs = np.where(on & other, differs, np.where(on | other, 0.5, 0.0))
            out.append(differs)
        return out

    def _present(self, x: Array, column: int) -> NDArray[np.bool_] | None:
        return activity(x, self.rules).get(column)


@dataclass(frozen=True)
class Switched(Kernel, json="Switched"):
    """A kernel of one column that is not always active: alike + (1 - alike) c(x, x').

    c is the base if both points have the column, 1 if neither has it, and otherwise 0.  In `theta`,
    log(alike / (1 - alike)) follows the parameters of the base.

    Args:
        base: the kernel of two points that have the column.
        column: the column.
        rules: when columns are active, see `Rule`.
        alike: the covariance of a point that has the column and one that has not, from 0 to 1.

    Raises:
        ConfigError: `alike` is not between 0 and 1.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> rule = (1, 0, ((0.5, 2.0),))  # column 1 is active if column 0 is at least 0.5
        >>> kernel = Switched(SE((1.0,), columns=(1,)), column=1, rules=(rule,), alike=0.5)
        >>> x = np.array([[0.25, 0.5], [0.75, 0.0], [0.75, 1.0]])
        >>> kernel.gram(x[:2], x).round(4).tolist()
        [[1.0, 0.5, 0.5], [0.5, 1.0, 0.8033]]
    """

    base: Kernel
    column: int
    rules: tuple[Rule, ...]
    alike: float = 0.5

    def __post_init__(self) -> None:
        check_inside("alike", self.alike, "a covariance")

    @property
    def theta(self) -> Array:
        return np.append(self.base.theta, np.log(self.alike / (1.0 - self.alike)))

    def with_theta(self, theta: Array) -> Switched:
        odds = float(np.exp(theta[-1]))
        return replace(self, base=self.base.with_theta(theta[:-1]), alike=odds / (1.0 + odds))

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (*self.base.priors(rules), rules.weight)

    def scales(self, dim: int) -> Array:
        return self.base.scales(dim)

    def _on(self, x: Array) -> NDArray[np.bool_]:
        return activity(x, self.rules)[self.column]

    def _mixed(self, on: NDArray[np.bool_], other: NDArray[np.bool_], base: Array) -> Array:
        """c(x, x')."""
        both, none = on[:, None] & other[None, :], ~on[:, None] & ~other[None, :]
        return np.where(both, base, none.astype(float))

    def gram(self, x: Array, z: Array | None = None) -> Array:
        on = self._on(x)
        own = self._mixed(on, on if z is None else self._on(z), self.base.gram(x, z))
        return self.alike + (1.0 - self.alike) * own

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        on = self._on(x)
        base, pull = self.base.gram_vjp(x)
        own = self._mixed(on, on, base)
        both = on[:, None] & on[None, :]

        def pullback(weights: Array) -> Array:
            rise = self.alike * (1.0 - self.alike) * float(np.vdot(weights, 1.0 - own))
            return np.append(pull(np.where(both, (1.0 - self.alike) * weights, 0.0)), rise)

        return self.alike + (1.0 - self.alike) * own, pullback

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        on, other = self._on(x), self._on(z)
        base, pull = self.base.cross_vjp(x, z)
        both = on[:, None] & other[None, :]
        k = self.alike + (1.0 - self.alike) * self._mixed(on, other, base)
        return k, lambda weights: pull(np.where(both, (1.0 - self.alike) * weights, 0.0))

    def features(self, rng: Generator, count: int) -> Features:
        """Random functions, see `Kernel.features`.

        Each is a random constant, plus a function of the base where the column is active, and
        another constant where it is not.
        """
        base = self.base.features(rng, count)
        shared = sqrt(self.alike) * rng.standard_normal(count)
        absent = sqrt(1.0 - self.alike) * rng.standard_normal(count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            on = self._on(x)[:, None]
            phi, pull = base(x)
            scale = sqrt(1.0 - self.alike)
            return shared + np.where(on, scale * phi, absent), lambda weights: pull(
                np.where(on, scale * weights, 0.0)
            )

        return evaluate
