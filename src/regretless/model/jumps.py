"""A test for sudden changes, on points that were tried before and on results that surprise.

**Replicates.**  If nothing changes, a result y of a point with n earlier ones of mean ybar has the
residual

    z = (y - ybar) / (s sqrt(1/w + 1/n)),

a standard normal number, independent of all earlier ones.  (s is the sd of the noise, w the weight
of the result.)  Where s is not known, it is taken from earlier residuals.  Then z has Student's t
distribution, and is mapped to a normal number.  How the points are chosen does not matter, and no
kernel is fitted.  If all results from the time c on are higher by delta s, z has the mean
    delta (n_c / n) / sqrt(1/w + 1/n),
with n_c results of this point before c.

**Surprises.**  A prediction at a point that the model knows well has an error z, in units of its
sd.  It is normal as far as the model is right; earlier errors say how large it usually is.  If f
has changed since the time c, it has the sd kappa.

So each c with a delta or a kappa has a likelihood ratio, a martingale of mean 1 if nothing changes.
The statistic (Shiryaev and Roberts) is the sum over all c of the mean over all delta and kappa.  It
has the mean t after t results, so by Doob's inequality
    P(it reaches A within t results) <= t / A,
and the mean time to a false alarm is at least A.  This holds whenever one looks.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import DriftRules
from regretless.model.data import Entry

_LAG = 15  # the last residuals are left out of the noise, because a jump would inflate them
_CLIP = 4.0  # an outlier counts as so many sds at most
_CLIP_SURPRISE = 3.0


class _Seen(NamedTuple):
    """A result, as the test looks at it."""

    place: int  # in the order of results
    key: tuple[bytes, bool]
    y: float
    weight: float  # its precision, if its variance is known


@dataclass(frozen=True, eq=False)
class _Ratios:
    """Logarithms of likelihood ratios: a row for each time c, a column for each alternative."""

    starts: Array
    logs: Array

    @classmethod
    def none(cls, alternatives: int) -> _Ratios:
        return cls(np.zeros(0), np.zeros((0, alternatives)))

    def begun(self, place: int, oldest: int) -> _Ratios:
        """With a new row for the time of the next result, without those that are too old."""
        kept = self.starts >= oldest
        new = np.zeros((1, self.logs.shape[1]))
        return _Ratios(
            np.append(self.starts[kept], float(place)), np.vstack([self.logs[kept], new])
        )

    @property
    def rows(self) -> Array:
        """For each time, the logarithm of the mean over the alternatives."""
        return np.asarray(np.logaddexp.reduce(self.logs, axis=1) - log(self.logs.shape[1]))

    @property
    def total(self) -> float:
        """The sum over all times."""
        return float(np.exp(np.minimum(self.rows, 600.0)).sum()) if len(self.starts) else 0.0


@dataclass(eq=False)
class JumpTest:
    """The state of the test after some results.  `add` changes it."""

    rules: DriftRules
    active: bool = True  # if not, no jump is ever found
    seen: deque[_Seen] = field(default_factory=deque)
    # For each point: the places of its results, and the weights and means after each.
    rows: dict[tuple[bytes, bool], tuple[list[int], list[float], list[float]]] = field(
        default_factory=dict
    )
    squares: list[float] = field(default_factory=list)  # cumulative, of residuals without their s
    surprises: list[float] = field(default_factory=list)  # the same for surprises
    shifts: _Ratios | None = None
    scales: _Ratios | None = None

    def copy(self) -> JumpTest:
        """The same state.  A change of one does not change the other."""
        rows = {key: (list(p), list(w), list(m)) for key, (p, w, m) in self.rows.items()}
        return replace(
            self,
            seen=deque(self.seen),
            rows=rows,
            squares=list(self.squares),
            surprises=list(self.surprises),
        )

    def carried(self, carry: Callable[[Array], Array]) -> JumpTest:
        """The state after a change of the space, in which `carry` turns old points into new ones.

        If two points become one, the results of the one with fewer results no longer count.
        """
        if not self.rows:
            return self.copy()
        twin = self.copy()
        every = sorted(twin.rows, key=lambda key: len(twin.rows[key][0]))
        points = carry(np.array([np.frombuffer(point) for point, _ in every]))
        moved = {key: ((x + 0.0).tobytes(), key[1]) for key, x in zip(every, points, strict=True)}
        twin.rows = {moved[key]: twin.rows[key] for key in every}
        twin.seen = deque(each._replace(key=moved[each.key]) for each in twin.seen)
        return twin

    def add(self, place: int, entry: Entry, surprise: float | None = None) -> int | None:
        """Look at one more result.

        Args:
            place: its place in the order of results.
            entry: the result.
            surprise: the error of its prediction in sds, at a point that the model knows well.

        Returns:
            The place of the first result after a jump, if there was one; the test then begins anew
            there.  Otherwise None.
        """
        if not self.active:
            return None
        x, y, weight, variance = entry
        w = weight if variance is None else 1.0 / max(variance, 1e-300)
        new = _Seen(place, ((x + 0.0).tobytes(), variance is not None), y, w)
        self.seen.append(new)
        while len(self.seen) > self.rules.test_window:
            self.seen.popleft()
        residual = self._residual(new)
        self._count(new)
        if residual is not None:
            self._shift(new, *residual)
        error = None if surprise is None else self._error(surprise)
        if error is not None:
            self._scale(new, error)
        if self.statistic < self.rules.false_alarm_every:
            return None
        first = self._likeliest
        self.begin_at(first)
        return first

    @property
    def statistic(self) -> float:
        """The mean of both sums of likelihood ratios; by chance, at most the number of results."""
        both = (each.total for each in (self.shifts, self.scales) if each is not None)
        return 0.5 * sum(both)

    @property
    def _likeliest(self) -> int:
        """The likeliest place of the first result after a jump."""
        best: list[tuple[float, int]] = []
        for each in (self.shifts, self.scales):
            if each is not None and len(each.starts):
                row = int(np.argmax(each.rows))
                best.append((float(each.rows[row]), int(each.starts[row])))
        return max(best)[1]

    def _residual(self, new: _Seen) -> tuple[float, float] | None:
        """z as a normal number, and sqrt(1/w + 1/n); None if the point is new, or s unknown."""
        row = self.rows.get(new.key)
        if row is None:
            return None
        scale = sqrt(1.0 / new.weight + 1.0 / row[1][-1])
        gap = (new.y - row[2][-1]) / scale
        if new.key[1]:
            return float(np.clip(gap, -_CLIP, _CLIP)), scale
        z = _as_normal(gap, self.squares, self.rules.least_scatter, _CLIP)
        return None if z is None else (z, scale)

    def _error(self, surprise: float) -> float | None:
        """A surprise as a normal number; None if it is not known how large they usually are."""
        return _as_normal(surprise, self.surprises, 2 * self.rules.least_scatter, _CLIP_SURPRISE)

    def _count(self, new: _Seen) -> None:
        places, weights, means = self.rows.setdefault(new.key, ([], [], []))
        n, mean = (weights[-1], means[-1]) if weights else (0.0, 0.0)
        places.append(new.place)
        weights.append(n + new.weight)
        means.append(mean + (new.y - mean) * new.weight / (n + new.weight))

    def _shift(self, new: _Seen, z: float, scale: float) -> None:
        """Multiply the likelihood ratios of shifts by that of one more residual."""
        up = np.array(self.rules.sizes)
        sizes = np.concatenate([up, -up])
        ratios = self.shifts or _Ratios.none(len(sizes))
        ratios = ratios.begun(new.place, self.seen[0].place)
        places, weights, _ = self.rows[new.key]
        before = np.searchsorted(np.array(places[:-1]), ratios.starts)
        n_c = np.array([0.0, *weights[:-1]])[before]
        unit = sqrt(1.0 / new.weight) if new.key[1] else 1.0
        mean = (n_c / weights[-2] * unit / scale)[:, None] * sizes
        self.shifts = replace(ratios, logs=ratios.logs + mean * z - 0.5 * mean * mean)

    def _scale(self, new: _Seen, z: float) -> None:
        """Multiply the likelihood ratios of larger errors by that of one more error."""
        kappa = np.array(self.rules.surprise_sds)
        ratios = self.scales or _Ratios.none(len(kappa))
        ratios = ratios.begun(new.place, self.seen[0].place)
        step = 0.5 * z * z * (1.0 - kappa**-2) - np.log(kappa)
        self.scales = replace(ratios, logs=ratios.logs + step)

    def begin_at(self, place: int) -> None:
        """Forget all results before a place."""
        later = [each for each in self.seen if each.place >= place]
        self.seen, self.rows = deque(later), {}
        for each in later:
            self._count(each)
        self.shifts = self.scales = None


def _as_normal(gap: float, squares: list[float], least: int, clip: float) -> float | None:
    """gap / s as a normal number, where s is taken from earlier gaps, without the last ones.

    The square of the gap is added to `squares`, which are cumulative.
    """
    from scipy.special import ndtri, stdtr

    count = len(squares) - (_LAG if len(squares) >= 2 * _LAG else 0)
    total = squares[count - 1] if count else 0.0
    squares.append((squares[-1] if squares else 0.0) + gap * gap)
    if count < least or not total > 0.0:
        return None
    # The tail of a t distribution with a huge z is 0 in a double.
    lower = float(stdtr(count, -abs(gap) / sqrt(total / count)))
    return float(np.copysign(min(float(-ndtri(max(lower, 1e-300))), clip), gap))
