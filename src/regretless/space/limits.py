"""Limits among parameters, `Space(..., where=["a + b <= 1", lambda p: ...])`.

A limit is a text, which is computed at many points at once and has slopes, or a function of the
parameters, which is called for one point after the other.  A text that names a parameter holds
where this parameter does not exist.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import SpaceError
from regretless.space.expressions import Comparison, parsed
from regretless.space.parameter import Scalar

if TYPE_CHECKING:
    from regretless.space.space import Space

MOST_LIMITS = 100
# A point that somebody gives may break a limit by this share of the limit's range, because of
# rounding.  A suggestion keeps a distance instead, so that rounding does not take it outside.
_ROUNDING = 1e-9
_DISTANCE = 1e-8
_ROOM = 1e-4  # the share of a limit's range that some point must leave free
_ENOUGH = 64  # points that keep the limits, to start walks from
_FUNCTION_DRAWS, _TEXT_DRAWS = 20_000, 2**16  # to find them
_RAREST = 1e-4  # a function must hold for this share of random points
_MOST_KEPT = 50_000  # results of a function that are kept

Function = Callable[[dict[str, Scalar]], bool]


class Limit(ABC):
    """A limit: `slack` is its normalised distance to the edge, negative outside.

    Example:
        >>> import regretless as rl
        >>> (limit,) = rl.Space({"x": rl.Int(0, 4)}, where=["x <= 2"]).limits
        >>> (limit.slack(np.array([[0.25], [0.75]])) >= 0).tolist()
        [True, False]
    """

    smooth: bool

    @abstractmethod
    def slack(self, points: Array) -> Array:
        """The slack of encoded points, less the distance that suggestions keep; of shape (q,)."""

    @abstractmethod
    def slack_and_slope(self, points: Array) -> tuple[Array, Array]:
        """The slack, and its slopes in the coordinates, of shape (q, d)."""

    @abstractmethod
    def allows(self, params: Mapping[str, Scalar], x: Array) -> bool:
        """Whether a point that somebody gave keeps the limit."""


@dataclass(frozen=True, eq=False)
class TextLimit(Limit):
    """One comparison of a limit that was given as a text."""

    text: str
    comparison: Comparison
    columns: tuple[int, ...]  # of the parameters that it names
    space: Space
    smooth = True

    def __str__(self) -> str:
        return self.text

    @cached_property
    def _scale(self) -> float:
        """The range of the slack over the space."""
        draws = np.random.default_rng(0).random((1000, self.space.dim))
        raw = self._raw(self.space.spread(draws))[0]
        sizes = np.abs(raw[np.isfinite(raw)])
        return float(sizes.max()) if len(sizes) and sizes.max() > 0.0 else 1.0

    @cached_property
    def _distance(self) -> float:
        lines = any(self.space.columns[j].is_continuous for j in self.columns)
        return _DISTANCE if lines or self.comparison.strict else 0.0

    def _raw(self, points: Array) -> tuple[Array, Array]:
        """The slack in the units of the text, and its slopes in the coordinates."""
        names, count = self.space.names, len(self.columns)
        values = {}
        for i, j in enumerate(self.columns):
            value, rise = self.space.columns[j].numbers(points[:, j])
            slope = np.zeros((len(points), count))
            slope[:, i] = rise
            values[names[j]] = value, slope
        with np.errstate(all="ignore"):
            slack, slopes = self.comparison.slack(values)
        out = np.zeros_like(points)
        out[:, list(self.columns)] = np.where(np.isfinite(slopes), slopes, 0.0)
        return slack, out

    def slack_and_slope(self, points: Array) -> tuple[Array, Array]:
        raw, slope = self._raw(points)
        slack = np.where(np.isfinite(raw), raw / self._scale, np.where(raw > 0.0, 1.0, -1.0))
        slack = np.clip(slack, -1e6, 1e6) - self._distance
        slope = slope / self._scale
        if self.space.conditional:
            exists = self.space.active(self.space.canonical(points))[:, list(self.columns)]
            absent = ~exists.all(axis=1)
            slack, slope[absent] = np.where(absent, 1.0, slack), 0.0
        return slack, slope

    def slack(self, points: Array) -> Array:
        slack, _ = self.slack_and_slope(points)
        return slack

    def allows(self, params: Mapping[str, Scalar], x: Array) -> bool:
        slack = float(self.slack(x[None])[0]) + self._distance
        return slack > 0.0 if self.comparison.strict else slack >= -_ROUNDING


@dataclass(frozen=True, eq=False)
class FunctionLimit(Limit):
    """A function of the parameters that is true where the limit is kept."""

    function: Function
    space: Space
    smooth = False

    def __str__(self) -> str:
        return self.name

    @cached_property
    def _known(self) -> dict[bytes, float]:
        return {}

    @property
    def name(self) -> str:
        return str(stored_limit(self.function)["function"])

    def slack(self, points: Array) -> Array:
        known, out = self._known, np.empty(len(points))
        if len(known) > _MOST_KEPT:
            known.clear()
        for i, x in enumerate(self.space.canonical(points)):
            key = x.tobytes()
            if key not in known:
                known[key] = 1.0 if self._call(self.space.decode(x)) else -1.0
            out[i] = known[key]
        return out

    def slack_and_slope(self, points: Array) -> tuple[Array, Array]:
        return self.slack(points), np.zeros_like(points)

    def allows(self, params: Mapping[str, Scalar], x: Array) -> bool:
        return self._call(dict(params))

    def _call(self, params: dict[str, Scalar]) -> bool:
        try:
            return bool(self.function(params))
        except Exception as error:
            raise SpaceError(
                f"where: {self.name} failed for {shown(params)}: {shown(error)}"
            ) from error


def stored_limit(limit: str | Function) -> Any:
    """A limit as JSON: the text, or the name of the function."""
    if isinstance(limit, str):
        return limit
    return {"function": str(getattr(limit, "__name__", type(limit).__name__))}


def limits_of(space: Space, where: tuple[str | Function, ...]) -> tuple[Limit, ...]:
    """The limits of a space.

    Raises:
        SpaceError: a limit can't be read, or names a parameter without numbers.
    """
    if len(where) > MOST_LIMITS:
        raise SpaceError(f"where: need at most {MOST_LIMITS} limits, got more")
    out: list[Limit] = []
    for given in where:
        if isinstance(given, str):
            comparisons, named = parsed(given, space.names)
            columns = tuple(space.names.index(name) for name in named)
            for name, j in zip(named, columns, strict=True):
                if not space.columns[j].has_numbers:
                    raise SpaceError(f"where: {shown(given)}: {name} has no numeric values")
            out += [TextLimit(given, each, columns, space) for each in comparisons]
        elif callable(given):
            out.append(FunctionLimit(given, space))
        else:
            raise SpaceError(f"where: need a text or a function, got {shown(given)}")
    return tuple(out)


class Region:
    """The part of a space that keeps its limits.

    Raises:
        SpaceError: no point keeps them, or hardly any.
    """

    def __init__(self, space: Space, limits: tuple[Limit, ...]) -> None:
        self._space, self._limits = space, limits
        self._texts = [limit for limit in limits if limit.smooth]
        self.anchors = self._found()

    def keeps(self, points: Array) -> NDArray[np.bool_]:
        """Whether canonical points keep all limits, those that are quick to compute first."""
        kept = np.ones(len(points), dtype=bool)
        for limit in sorted(self._limits, key=lambda each: not each.smooth):
            rows = np.flatnonzero(kept)
            kept[rows] = limit.slack(points[rows]) >= -_ROUNDING
        return kept

    def drawn(self, count: int, rng: Generator) -> Array:
        """Random points that keep the limits: by rejection, and by walks if most are rejected."""
        found = np.empty((0, self._space.dim))
        for _ in range(4):
            fresh = self._space.spread(rng.random((4 * count + 16, self._space.dim)))
            found = np.vstack([found, fresh[self.keeps(fresh)]])
            if len(found) >= count:
                return found[:count]
        begun = self.anchors[rng.integers(len(self.anchors), size=count - len(found))]
        return np.vstack([found, self._walked(begun, rng)])

    def repaired(self, points: Array) -> Array:
        """The points, with those that break a limit moved towards the nearest known one inside."""
        out = points.copy()
        for i in np.flatnonzero(~self.keeps(points)):
            apart = ((self.anchors - points[i]) ** 2).sum(axis=1)
            inside = self.anchors[int(np.argmin(apart))]
            shares = np.linspace(1.0, 0.0, 65)[:-1, None]
            line = self._space.canonical(inside + shares * (points[i] - inside))
            kept = np.flatnonzero(self.keeps(line))
            out[i] = line[kept[0]] if len(kept) else inside
        return out

    def _walked(self, x: Array, rng: Generator, steps: int = 12) -> Array:
        """Random walks inside: along a random direction, or to another value of one parameter."""
        space, (count, dim) = self._space, x.shape
        for _ in range(steps):
            away = rng.standard_normal(x.shape)
            away /= np.abs(away).max(axis=1, keepdims=True)
            reach = rng.uniform(-1.0, 1.0, (count, 1))
            one = rng.integers(dim, size=count)
            fresh = rng.random((count, dim))
            waiting = np.ones(count, dtype=bool)
            for _ in range(8):
                moved = space.canonical(x + reach * away)
                other = x.copy()
                other[np.arange(count), one] = fresh[np.arange(count), one]
                turn = rng.random((count, 1)) < 0.3
                moved = np.where(turn, space.spread(other), moved)
                good = waiting & self.keeps(moved)
                x = np.where(good[:, None], moved, x)
                waiting &= ~good
                if not waiting.any():
                    break
                reach *= 0.4
        return x

    def _found(self) -> Array:
        """Some points that keep the limits."""
        rng, space = np.random.default_rng(0), self._space
        chunk, most = (4096, _TEXT_DRAWS) if self._all_texts else (512, _FUNCTION_DRAWS)
        found, tried = np.empty((0, space.dim)), 0
        while tried < most and len(found) < _ENOUGH:
            draws = space.spread(rng.random((chunk, space.dim)))
            found = np.vstack([found, draws[self.keeps(draws)]])
            tried += chunk
        if len(found) < _ENOUGH and self._texts:
            found = np.vstack([found, self._pushed(rng)])
        if not len(found):
            raise SpaceError(f"where: no point of the space keeps {self._shown}")
        if not self._all_texts and len(found) < _RAREST * tried:
            raise SpaceError(
                f"where: only {len(found)} of {tried} random points keep {self._shown}: too few;"
                " choose the ranges of the parameters closer to what is allowed"
            )
        return np.unique(found, axis=0)

    def _pushed(self, rng: Generator) -> Array:
        """Random points, pushed along the slopes of the limits until they keep them."""
        space = self._space
        x = space.spread(rng.random((256, space.dim)))
        movable = space.ordered
        for _ in range(60):
            for limit in self._texts:
                slack, slope = limit.slack_and_slope(x)
                slope = slope * movable
                size = (slope * slope).sum(axis=1)
                lack = np.where(size > 0.0, np.maximum(2.0 * _ROOM - slack, 0.0), 0.0)
                x = np.clip(x + (lack / np.maximum(size, 1e-300))[:, None] * slope, 0.0, 1.0)
        x = space.canonical(x)
        roomy = np.all([limit.slack(x) >= _ROOM for limit in self._texts], axis=0)
        if space.continuous.any():
            x = x[roomy]
        return np.asarray(x[self.keeps(x)])

    @property
    def _all_texts(self) -> bool:
        return len(self._texts) == len(self._limits)

    @property
    def _shown(self) -> str:
        each = dict.fromkeys(
            limit.text if isinstance(limit, TextLimit) else getattr(limit, "name", "")
            for limit in self._limits
        )
        return ", ".join(map(shown, each))
