"""Many requests share a study: totals of results, tables of rows, and the shares of the traffic.

A *table* splits the traffic among *rows*.  A row is a setting; in each table it has a trial.  A
*unit* of the traffic is what is served and measured, such as a customer.  The results of units are
reported as totals, from many machines and in any order.

**The share of a row.**  Let x be a setting with the posterior N(mu, s^2), and xi the mean of the
best one.  If n units are served with x, their mean result has the variance v/n, and the posterior
mean at x then has the sd r(n) = s^2 / sqrt(s^2 + v/n).  If it ends above xi, the R units that come
later gain the difference; and the n units are expected to lose xi - mu each.  So the row is worth
    R r(n) h((mu - xi) / r(n)) - n (xi - mu),      h(z) = z Phi(z) + phi(z),
and the share is that of the n for which this is largest.  With s large beside v/n it is the gate of
EIC: what is expected to be gained by all that remain, against what is lost on the way.

**Ending a row early.**  Let d be the difference of the mean results of a row and of the main row,
with the variance v.  For a row that is as good as the main one, or better,
    E = mean over scales t of  2 sqrt(v/(v + t^2)) exp(d^2 t^2 / (2 v (v + t^2))) Phi(-d t / ...)
is a supermartingale that starts at 1: a mixture of likelihood ratios against "worse by some
amount".  By Ville's inequality it ever reaches 1/alpha with a probability of at most alpha, however
often somebody looks.  So a row that is as good is ended with at most this probability.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from math import inf, log, sqrt
from typing import NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import LEAST_SCALE, MAX_RESULT, is_number
from regretless.defaults import TrafficRules
from regretless.engine.slots import Ranges, assign_slots
from regretless.errors import ConfigError, DataError
from regretless.improvement import h

MAIN, EXPLORE, BASELINE = "exploit", "explore", "baseline"  # the roles of a row
ROLES = (MAIN, EXPLORE, BASELINE)
MOST_ARMS = 100
_EFFECTS = (1e1, 1e2, 1e3, 1e4, 1e5, 1e6)  # scales of a difference: v / t^2, in units
_SIZES = 40  # numbers of units that are compared, for the share of a row


@dataclass(frozen=True, slots=True)
class Totals:
    """The sum of the results of some units, and of their squares if these are known."""

    count: float = 0.0
    sum: float = 0.0
    squares: float | None = 0.0

    def plus(self, more: Totals) -> Totals:
        """Both together.

        Many machines add to the totals, and nobody can refuse what another one has stored.  So very
        large totals are cut, to numbers whose products do not overflow.
        """
        squares = None
        if self.squares is not None and more.squares is not None:
            squares = min(self.squares + more.squares, MAX_RESULT**3)
        count = min(self.count + more.count, MAX_RESULT)
        return Totals(count, _cut(self.sum + more.sum, MAX_RESULT**2), squares)

    @property
    def mean(self) -> float:
        """The mean result of a unit, of at most the size that a result may have."""
        return _cut(self.sum / self.count, MAX_RESULT)

    @property
    def scatter(self) -> float:
        """The sum of squared differences from the mean; 0 if it is not known."""
        if self.squares is None or self.count <= 0.0:
            return 0.0
        return max(0.0, self.squares - self.sum * self.mean)


def _cut(number: float, most: float) -> float:
    return max(-most, min(number, most))


@dataclass(frozen=True)
class Increment:
    """What is added to the totals of a trial."""

    number: int
    totals: Totals


def increment_of(
    number: int,
    *,
    count: object,
    sum: object = None,
    sum_squares: object = None,
    value: object = None,
    sem: object = None,
) -> Increment:
    """An increment, given by sums, or by a mean with its standard error.

    Raises:
        ConfigError: neither a sum nor a value is given, or both.
        DataError: a number is not valid; the message names it.
    """
    if (sum is None) == (value is None):
        raise ConfigError("report: need either `sum` or `value`")
    if value is not None and sum_squares is not None:
        raise ConfigError("report: `sum_squares` belongs to `sum`; with `value`, give `sem`")
    if sum is not None and sem is not None:
        raise ConfigError("report: `sem` belongs to `value`; with `sum`, give `sum_squares`")
    units = _checked("count", count, least=0.0)
    if value is None:
        squares = None if sum_squares is None else _checked("sum_squares", sum_squares, least=0.0)
        totals = Totals(units, _checked("sum", sum), squares)
    else:
        mean, error = _checked("value", value), None
        if not units > 0.0:
            raise DataError(f"count: a `value` is the mean of at least one result, got {units!r}")
        if sem is not None:
            error = _checked("sem", sem, least=0.0)
        # sem^2 = scatter / (n (n - 1)), and a single result has no scatter of its own.
        scatter = None if error is None else error**2 * units * max(units - 1.0, 0.0)
        squares = None if scatter is None else scatter + units * mean**2
        if squares == inf:
            raise DataError(f"sem: too large for {units!r} results, got {shown(sem)}")
        totals = Totals(units, units * mean, squares)
    if not (totals.count or totals.sum or totals.squares):
        raise DataError("report: nothing is added: count and sum are 0")
    return Increment(number, totals)


def _checked(name: str, value: object, least: float = -MAX_RESULT) -> float:
    if not (is_number(value) and least <= value <= MAX_RESULT):
        at_least = "" if least < 0.0 else f" of at least {least:g}"
        raise DataError(f"{name}: need a finite number{at_least}, got {shown(value)}")
    return float(value)


class Pool(NamedTuple):
    """The scatter of the results of all units, each around the mean of its trial."""

    freedom: float
    variance: float  # of the result of a unit; 0 if it is not known

    @classmethod
    def of(cls, every: Iterable[Totals]) -> Pool:
        """The scatter within all trials."""
        freedom = scatter = 0.0
        for each in every:
            if each.squares is not None and each.count > 1.0:
                freedom += each.count - 1.0
                scatter += each.scatter
        return cls(freedom, scatter / freedom if freedom > 0.0 else 0.0)

    def variance_of(self, totals: Totals, rules: TrafficRules) -> float | None:
        """The variance of the mean of some units; None if nothing is known about it.

        The scatter of few units is a poor guide: of units without any sale it is 0.  So it is drawn
        to that of all units, as if `pooled_units` of these were added.  It is at least
        `LEAST_SCALE`, so that the square of its inverse does not overflow.
        """
        if not self.variance > 0.0:
            return None
        if totals.squares is None:
            return max(self.variance / totals.count, LEAST_SCALE)
        units = max(totals.count - 1.0, 0.0)
        usual = rules.pooled_units
        unit = (totals.scatter + usual * self.variance) / (units + usual)
        return max(unit / totals.count, LEAST_SCALE)


@dataclass(frozen=True)
class TableRow:
    """A setting in a table: its id, its trial, its role, its share and its slots."""

    row: int  # the number of the first trial that had this setting
    trial: int
    role: str
    share: float
    slots: Ranges


@dataclass(frozen=True)
class Table:
    """How the traffic is split from `time` on."""

    version: int
    time: datetime
    arms: int
    ttl: float
    delay: float
    end_early: float
    rows: tuple[TableRow, ...]
    ended: tuple[int, ...] = ()  # trials whose rows were ended early

    @property
    def main(self) -> TableRow:
        """The row with the largest share."""
        return max(self.rows, key=lambda each: each.share)

    @property
    def trials(self) -> tuple[int, ...]:
        """The trials of all rows, of those that were ended, too."""
        return (*(each.trial for each in self.rows), *self.ended)

    def without(self, number: int) -> Table:
        """The table in which the main row has the traffic of a row that was ended."""
        gone = next(each for each in self.rows if each.trial == number)
        shares = {each.row: each.share for each in self.rows if each is not gone}
        shares[self.main.row] += gone.share
        slots = assign_slots(shares, {each.row: each.slots for each in self.rows})
        rows = tuple(
            replace(each, share=shares[each.row], slots=slots[each.row])
            for each in self.rows
            if each is not gone
        )
        ended = (*self.ended, number)
        return replace(self, version=self.version + 1, rows=rows, ended=ended)

    def past(self) -> Table:
        """What has to be known about a table that is no longer used."""
        rows = tuple(replace(each, slots=()) for each in self.rows)
        return replace(self, rows=rows)

    def is_due(self, now: datetime) -> bool:
        """Whether it is time for a new table: after half of the time for which it is valid."""
        return (now - self.time).total_seconds() >= 0.5 * self.ttl  # any `ttl`: no date overflows


def worth_of_units(units: Array, gap: float, sd: float, variance: float, after: float) -> Array:
    """What it is worth to serve so many units with a setting, see the module.

    Args:
        units: n.
        gap: xi - mu, how much worse the setting is expected to be.
        sd: s, of f at the setting.
        variance: of the result of one unit.
        after: R, the number of units that come later.
    """
    moved = sd**2 / np.sqrt(sd**2 + variance / units)
    return np.asarray(after * moved * h(-gap / moved) - units * gap)


def best_share(
    gap: float, sd: float, variance: float, traffic: float, after: float, rules: TrafficRules
) -> float:
    """The share of the traffic of one table that a row should have, see the module."""
    shares = np.geomspace(rules.least_share, rules.most_explored, _SIZES)
    worth = worth_of_units(shares * traffic, gap, sd, variance, after)
    return float(shares[int(np.argmax(worth))])


def explored_shares(
    wishes: Sequence[float | None], has_main: bool, arms: int, rules: TrafficRules
) -> list[float]:
    """The shares of rows that explore, given what each should have.

    None stands for a row of the start, of which nothing is known.  Together they get at most
    `most_explored`, and everything if there is no other row.
    """
    if not wishes:
        return []
    if not has_main:
        return [1.0 / len(wishes)] * len(wishes)
    blind = rules.most_explored / max(arms - 1, 1)
    shares = [blind if wish is None else wish for wish in wishes]
    scale = min(1.0, rules.most_explored / sum(shares))
    return [scale * share for share in shares]


def evidence_against(row: Totals, main: Totals, pool: Pool, rules: TrafficRules) -> float:
    """log E: the evidence that a row is worse than the main row, see the module.

    The results must be such that larger is better.
    """
    from scipy.special import erfcx, log_ndtr, logsumexp

    of_row, of_main = pool.variance_of(row, rules), pool.variance_of(main, rules)
    if of_row is None or of_main is None:
        return 0.0
    d, v = row.mean - main.mean, of_row + of_main
    t2 = pool.variance / np.array(_EFFECTS)
    u = np.clip(d / sqrt(v) * np.sqrt(t2 / (v + t2)), -MAX_RESULT, MAX_RESULT)
    # exp(u^2 / 2) Phi(-u): where the row is better, both factors together, because their logarithms
    # cancel and what rounding leaves of them would be evidence.
    worse, better = np.minimum(u, 0.0), np.maximum(u, 0.0)
    ratio = np.where(
        u > 0.0,
        np.log(0.5 * erfcx(better / sqrt(2.0))),
        0.5 * worse**2 + log_ndtr(-worse),
    )
    each = log(2.0) + 0.5 * np.log(v / (v + t2)) + ratio
    return float(logsumexp(each) - log(len(_EFFECTS)))


def is_worse(evidence: float, end_early: float) -> bool:
    """Whether the evidence suffices to end a row; `end_early` is the probability of an error."""
    return end_early > 0.0 and evidence >= -log(end_early)


def usual_traffic(counts: Sequence[float]) -> float | None:
    """The units that a table serves, by those of the last tables; None if nothing is known."""
    seen = [count for count in counts if count > 0.0]
    return float(np.median(seen[-5:])) if seen else None
