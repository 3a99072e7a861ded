"""A test for sudden changes, on results of points that were tried before.

If nothing changes, a result y of a point with n earlier ones of mean ybar has the residual

    z = (y - ybar) / (s sqrt(1/w + 1/n)),

a standard normal number, independent of all earlier ones.  (s is the sd of the noise, w the weight
of the result.)  Where s is not known, it is taken from earlier residuals.  Then z has Student's t
distribution, and is mapped to a normal number.  How the points are chosen does not matter, and no
kernel is fitted.

If all results from the time c on are higher by delta s, z has the mean
    delta (n_c / n) / sqrt(1/w + 1/n),
with n_c results of this point before c.  So each pair (c, delta) has a likelihood ratio, which is a
martingale of mean 1 if nothing changes.  The statistic (Shiryaev and Roberts) is the sum over all c
of the mean over delta.  It has the mean t after t results, so by Doob's inequality
    P(it reaches A within t results) <= t / A,
and the mean time to a false alarm is at least A.  This holds whenever one looks.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from math import log, sqrt
from typing import NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import DriftRules
from regretless.model.data import Entry

_LAG = 15  # the last residuals are left out of the noise, because a jump would inflate them
_CLIP = 4.0  # an outlier counts as so many sds at most


class _Seen(NamedTuple):
    """A result, as the test looks at it."""

    place: int  # in the order of results
    key: tuple[bytes, bool]
    y: float
    weight: float  # its precision, if its variance is known


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
    starts: Array = field(default_factory=lambda: np.zeros(0))
    logs: Array | None = None  # log likelihood ratio, for each start and size

    @property
    def sizes(self) -> Array:
        up = np.array(self.rules.sizes)
        return np.concatenate([up, -up])

    def copy(self) -> JumpTest:
        """The same state.  A change of one does not change the other."""
        rows = {key: (list(p), list(w), list(m)) for key, (p, w, m) in self.rows.items()}
        return JumpTest(
            self.rules,
            self.active,
            deque(self.seen),
            rows,
            list(self.squares),
            self.starts,
            self.logs,
        )

    def add(self, place: int, entry: Entry) -> int | None:
        """Look at one more result.

        Args:
            place: its place in the order of results.
            entry: the result.

        Returns:
            The place of the first result after a jump, if there was one; the test then begins anew
            there.  Otherwise None.
        """
        if not self.active:
            return None
        x, y, weight, variance = entry
        known = variance is not None
        w = weight if variance is None else 1.0 / max(variance, 1e-300)
        new = _Seen(place, ((x + 0.0).tobytes(), known), y, w)
        self.seen.append(new)
        while len(self.seen) > self.rules.test_window:
            self.seen.popleft()
        residual = self._residual(new)
        self._count(new)
        if residual is None:
            return None
        z, scale = residual
        self._update(new, z, scale)
        if self.statistic < self.rules.false_alarm_every:
            return None
        assert self.logs is not None
        best = int(np.argmax(np.logaddexp.reduce(self.logs, axis=1)))
        place = int(self.starts[best])
        self._begin_at(place)
        return place

    @property
    def statistic(self) -> float:
        """The sum of the likelihood ratios; it is as large as the number of results by chance."""
        if self.logs is None or not len(self.logs):
            return 0.0
        largest = float(self.logs.max())
        total = float(np.exp(self.logs - largest).sum()) / self.logs.shape[1]
        return float(np.exp(min(largest + log(total), 700.0)))

    def _residual(self, new: _Seen) -> tuple[float, float] | None:
        """z as a normal number, and sqrt(1/w + 1/n); None if the point is new, or s unknown."""
        from scipy.special import ndtri, stdtr

        row = self.rows.get(new.key)
        if row is None:
            return None
        n, mean = row[1][-1], row[2][-1]
        scale = sqrt(1.0 / new.weight + 1.0 / n)
        gap = (new.y - mean) / scale
        if new.key[1]:
            return float(np.clip(gap, -_CLIP, _CLIP)), scale
        total, freedom = self._noise()
        self.squares.append((self.squares[-1] if self.squares else 0.0) + gap * gap)
        if freedom < self.rules.least_scatter or not total > 0.0:
            return None
        # The tail of a t distribution with a huge z is 0 in a double.
        lower = stdtr(freedom, -abs(gap) / sqrt(total / freedom))
        z = float(-ndtri(max(float(lower), 1e-300)))
        return float(np.copysign(min(z, _CLIP), gap)), scale

    def _noise(self) -> tuple[float, int]:
        """The sum of squares of residuals and their number, without the last ones."""
        count = len(self.squares)
        if count >= 2 * _LAG:
            count -= _LAG
        return (self.squares[count - 1], count) if count else (0.0, 0)

    def _count(self, new: _Seen) -> None:
        places, weights, means = self.rows.setdefault(new.key, ([], [], []))
        n, mean = (weights[-1], means[-1]) if weights else (0.0, 0.0)
        places.append(new.place)
        weights.append(n + new.weight)
        means.append(mean + (new.y - mean) * new.weight / (n + new.weight))

    def _update(self, new: _Seen, z: float, scale: float) -> None:
        """Multiply all likelihood ratios by that of one more residual."""
        sizes = self.sizes
        oldest = self.seen[0].place
        logs = np.zeros((0, len(sizes))) if self.logs is None else self.logs
        kept = self.starts >= oldest
        self.starts = np.append(self.starts[kept], float(new.place))
        logs = np.vstack([logs[kept], np.zeros(len(sizes))])
        places, weights, _ = self.rows[new.key]
        before = np.searchsorted(np.array(places[:-1]), self.starts)
        n_c = np.array([0.0, *weights[:-1]])[before]
        unit = sqrt(1.0 / new.weight) if new.key[1] else 1.0
        shift = (n_c / weights[-2] * unit / scale)[:, None] * sizes
        self.logs = logs + shift * z - 0.5 * shift * shift

    def _begin_at(self, place: int) -> None:
        """Forget all results before a place."""
        later = [each for each in self.seen if each.place >= place]
        self.seen, self.rows = deque(later), {}
        for each in later:
            self._count(each)
        self.starts, self.logs = np.zeros(0), None
