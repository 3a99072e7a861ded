"""Results that fade: what older results still tell in a system that changes.

f changes with time as an Ornstein-Uhlenbeck process, so that f_i and f_j, at the times of two
results, have the covariance omega^2 k(x, x') s_ij.  Here s_ij = rho^|i - j|, and each jump between
the two multiplies it by a factor of its own.  All results also share a level that changes as a
random walk; at a jump it changes more.  A change of the level is no change of the best point.

With s_i, the correlation of f_i with f now, and the mean m, take y'_i = m + (y_i - m) / s_i.  It
is f now plus noise.  Because the process is Markov, s_ij = s_i s_j / s_k^2 for the younger one k of
the two, and the covariance of y' is

    K + K o (1 / s_k^2 - 1) + (covariance of the levels) / (s_i s_j) + D / s_i^2:

the time kernel is the same as noise that grows with age.  Two results share the noise of the
younger one.  So the posterior of f now is that of a `GP` with this noise: `Data.swell` is
1 / s_k^2, and `Data.common` is the covariance of the levels.

The clock counts results.  Results of one point within a short span count as replicates, and results
that have faded are left out, so the cost of a step does not grow with the run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import exp, inf, isfinite, log
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import check_flag, is_number, with_plain_numbers
from regretless.defaults import DriftRules
from regretless.errors import ConfigError
from regretless.model.data import Data, Entry
from regretless.model.evidence import scaled_evidence
from regretless.model.factor import Factor, NotPositiveDefinite
from regretless.model.hyper import Hyper

_LN2 = log(2.0)
_LEAST_LOG = log(1e-4)  # of a correlation: less means no information, and squares lose digits


@dataclass(frozen=True)
class Drift:
    """How a system changes: the setting `drift` of `Optimizer`.

    Args:
        half_life: the number of results after which f has half of its correlation left; None to
            estimate it, with the possibility that nothing changes.
        jumps: whether to look for sudden changes as well.

    Raises:
        ConfigError: the half-life is not a positive number.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, horizon=100, drift=rl.Drift(half_life=200))
    """

    half_life: float | None = None
    jumps: bool = True

    def __post_init__(self) -> None:
        given = self.half_life
        if given is not None and not (is_number(given) and given > 0):
            raise ConfigError(f"drift: need a positive half_life, got {shown(given)}")
        check_flag("drift: jumps", self.jumps)
        with_plain_numbers(self)

    @classmethod
    def checked(cls, given: object) -> Drift | None:
        """The setting that a user gave: None, "auto", a `Drift`, or its JSON.

        Args:
            given: the setting.

        Raises:
            ConfigError: it is something else.
        """
        if given is None or isinstance(given, Drift):
            return given
        if isinstance(given, str) and given == "auto":
            return cls()
        if isinstance(given, Mapping) and set(given) <= {"half_life", "jumps"}:
            return cls(**given)
        raise ConfigError(f"drift: need None, 'auto' or a Drift, got {shown(given)}")

    def to_json(self) -> dict[str, Any]:
        """The fields as JSON."""
        return dict(vars(self))


class Fading(NamedTuple):
    """How fast results fade, as a fit found it.

    Attributes:
        half_life: see `Drift`; infinite if f does not drift.
        level: the variance of the change of the common level from one result to the next, in units
            of omega^2.
        keeps: for each jump, the factor by which it multiplies the correlation.
    """

    half_life: float = inf
    level: float = 0.0
    keeps: tuple[float, ...] = ()

    @property
    def rho(self) -> float:
        """The correlation of f now and one result later."""
        return exp(-_LN2 / self.half_life)

    @property
    def is_still(self) -> bool:
        """Whether nothing changes between two jumps."""
        return self.half_life == inf and self.level == 0.0

    def correlation(self, ages: Array, before: Array) -> Array:
        """s_i for results of these ages; `before` says which jumps each is older than."""
        logs = -_LN2 / self.half_life * ages
        if self.keeps:
            logs = logs + before @ np.log(self.keeps)
        return np.exp(np.maximum(logs, _LEAST_LOG))

    def width(self, rules: DriftRules) -> float:
        """The number of results in which replicates of a point count as of one time."""
        fast = rules.bin_share * self.half_life
        if self.level > 0.0:
            fast = min(fast, rules.level_bin / self.level)
        return max(1.0, min(fast, rules.widest_bin)) if isfinite(fast) else inf

    def __str__(self) -> str:
        """A sentence about what changes between two jumps."""
        if self.is_still:
            return "nothing is seen to change"
        slow = f"f has half of its correlation left after {self.half_life:.0f} results"
        level = "the common level changes"
        both = [slow] * isfinite(self.half_life) + [level] * (self.level > 0.0)
        return "; ".join(both)

    def to_json(self) -> dict[str, Any]:
        """The numbers as JSON; an infinite half-life is None."""
        half_life = self.half_life if isfinite(self.half_life) else None
        return {"half_life": half_life, "level": self.level, "keeps": list(self.keeps)}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fading:
        """The object that `to_json` wrote; ValueError if a number is not valid."""
        half_life = inf if data["half_life"] is None else float(data["half_life"])
        made = cls(half_life, float(data["level"]), tuple(map(float, data["keeps"])))
        if not (made.half_life > 0 and made.level >= 0 and all(0 < k <= 1 for k in made.keeps)):
            raise ValueError("drift: need positive numbers")
        return made


class Timed(NamedTuple):
    """Results with their times, in the order in which they were told."""

    entries: Sequence[Entry]
    times: Array  # the place of each in the order
    now: float  # the time of the next one
    jumps: tuple[int, ...] = ()  # the place of the first result after each jump

    def last(self, count: int) -> Timed:
        """The last `count` results."""
        start = max(0, len(self.entries) - count)
        return self._replace(entries=self.entries[start:], times=self.times[start:])

    def before(self, times: Array) -> Array:
        """For each time and each jump, 1.0 if the time is before the jump."""
        return (times[:, None] < np.array(self.jumps, dtype=float)[None, :]).astype(float)

    def data(self, dim: int, fading: Fading, rules: DriftRules, single: bool = False) -> Data:
        """The results as data of a GP of f now, see the module.

        Args:
            dim: the number of columns.
            fading: how fast they fade.
            rules: the constants.
            single: whether no two results count as replicates, so that the evidence of several
                fadings can be compared.
        """
        kept = self.correlation(fading) >= (0.0 if single else rules.faded)
        kept[-1:] = True  # so that there is a row
        entries = [entry for entry, keep in zip(self.entries, kept, strict=True) if keep]
        times = self.times[kept]
        width = 1.0 if single else fading.width(rules)
        spans = np.zeros(len(times)) if width == inf else times // width
        spans = spans + 1e9 * self.before(times).sum(axis=1)  # a jump ends a span
        marked = (
            (np.append(x, span), y, weight, variance)
            for (x, y, weight, variance), span in zip(entries, spans, strict=True)
        )
        folded = Data.fold(dim + 1, marked)
        data = replace(folded, x=np.ascontiguousarray(folded.x[:, :-1]))
        if not self.jumps and fading.is_still:
            return data
        middle = _middles(entries, spans, times)
        newest = np.sort(np.argsort(-middle, kind="stable")[: rules.most_rows])
        if len(newest) < len(data):
            middle, data = middle[newest], _rows(data, newest)
        return self._faded(data, middle, fading, rules)

    def correlation(self, fading: Fading) -> Array:
        return fading.correlation(self.now - self.times, self.before(self.times))

    def _faded(self, data: Data, times: Array, fading: Fading, rules: DriftRules) -> Data:
        ages, before = self.now - times, self.before(times)
        s = fading.correlation(ages, before)
        younger = np.maximum(s[:, None], s[None, :])
        level = fading.level * np.minimum(ages[:, None], ages[None, :])
        level = level + rules.jump_level * (before @ before.T)
        mean = float(np.average(data.y, weights=s * s))
        return replace(
            data,
            y=mean + (data.y - mean) / s,
            weight=data.weight * s * s,
            swell=1.0 / younger**2,
            common=level / np.outer(s, s),
            constant=data.constant - float(np.log(s).sum()),
        )


def _middles(entries: Sequence[Entry], spans: Array, times: Array) -> Array:
    """The mean time of the results in each row, in the order of `Data.fold`."""
    rows: dict[tuple[bytes, bool, float], list[float]] = {}
    for (x, _, _, variance), span, time in zip(entries, spans, times, strict=True):
        rows.setdefault(((x + 0.0).tobytes(), variance is not None, span), []).append(time)
    return np.array([float(np.mean(each)) for each in rows.values()])


def _rows(data: Data, rows: NDArray[np.intp]) -> Data:
    each = {name: getattr(data, name)[rows] for name in ("x", "y", "weight", "known", "count")}
    return replace(data, **each)


def fitted_fading(
    timed: Timed, dim: int, hyper: Hyper, drift: Drift, before: Fading, rules: DriftRules
) -> Fading:
    """The likeliest fading, by the evidence of the last results and a prior for no change.

    The half-life and the level are chosen from lists, and then what the last jump has left.  Drift
    may pass for noise, so each is tried with more and with less noise than that of `hyper`.
    """
    recent = timed.last(rules.window)
    keeps = (*before.keeps, *(rules.first_keep for _ in timed.jumps))[: len(timed.jumps)]
    gram = hyper.kernel.gram(np.array([entry[0] for entry in recent.entries]))

    def worth(fading: Fading) -> float:
        data = recent.data(dim, fading, rules, single=True)
        prior = rules.drift_prior * isfinite(fading.half_life) * (drift.half_life is None)
        prior += rules.level_prior * (fading.level > 0.0)
        noises = (replace(hyper, lam2=hyper.lam2 * factor) for factor in rules.noise_factors)
        return prior + max(_value(data, gram, noise) for noise in noises)

    lives = (drift.half_life,) if drift.half_life else (inf, *rules.half_lives)
    pairs = (Fading(life, level, keeps) for life in lives for level in rules.levels)
    found = max(pairs, key=worth)
    if keeps:  # older jumps have been settled
        found = max((found._replace(keeps=(*keeps[:-1], k)) for k in rules.keeps), key=worth)
    return found


def _value(data: Data, gram: Array, hyper: Hyper) -> float:
    """The log evidence, for the matrix of the kernel."""
    try:
        factor = Factor.of(data.covariance(gram, hyper.omega2), hyper.noise(data))
    except NotPositiveDefinite:
        return -inf
    value = scaled_evidence(data, hyper, factor, profile=not bool(data.known.any()))
    return value if isfinite(value) else -inf
