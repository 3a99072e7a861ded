"""What decides which settings the customers of the next period see: the rivals, and ours."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
from benchmarks.families.search import sobol_points
from benchmarks.shop.shops import PERIODS, Increment, Shop

import regretless as rl
from regretless._internal.arrays import Array


class Arm(NamedTuple):
    """A setting with its share of the customers; `name` says what its results are reported for."""

    name: int
    params: dict[str, Any]
    share: float


class Tool:
    """Asked for a table at the start of each period, and told results as they arrive."""

    def __init__(self, shop: Shop) -> None:
        self.shop = shop

    def table(self, period: int) -> list[Arm]:
        raise NotImplementedError

    def take(self, period: int, arm: int, results: Increment) -> None:
        """Results of an arm that was served in this period; they may be late."""

    def changed(self) -> list[Arm] | None:
        """Another table for the rest of the period; None to go on with the last one."""
        return None


class Today(Tool):
    """Nothing is changed."""

    def table(self, period: int) -> list[Arm]:
        return [Arm(0, self.shop.today, 1.0)]


def mean_and_sem(results: list[Increment]) -> tuple[float, float]:
    count = sum(each.count for each in results)
    mean = sum(each.sum for each in results) / count
    variance = max(sum(each.sum_squares for each in results) / count - mean**2, 1e-12)
    return mean, (variance / count) ** 0.5


class OneTrial(Tool):
    """One trial a period, by ask and tell with the default; late results come too late.

    Args:
        shop: the shop.
        control: the share of the customers that see today's setting beside it.
    """

    def __init__(self, shop: Shop, control: float = 0.0) -> None:
        super().__init__(shop)
        self._control = control
        self._optimizer = rl.Optimizer(
            shop.space, budget=PERIODS, baseline=shop.today, seed=shop.seed
        )
        self._results: dict[int, list[Increment]] = {}
        self._trial: rl.Trial | None = None

    def table(self, period: int) -> list[Arm]:
        if self._trial is not None:
            value, sem = mean_and_sem(self._results[0])
            beside = {"control": mean_and_sem(self._results[1])} if 1 in self._results else {}
            self._optimizer.tell(self._trial, value, sem=sem, **beside)
        self._trial, self._results = self._optimizer.ask(), {}
        rest = [Arm(1, self.shop.today, self._control)] if self._control else []
        return [Arm(0, self._trial.params, 1.0 - self._control), *rest]

    def take(self, period: int, arm: int, results: Increment) -> None:
        if results.late == 0:
            self._results.setdefault(arm, []).append(results)


class Ours(Tool):
    """A table of our default for each period; rows that are clearly worse end within it."""

    def __init__(self, shop: Shop, arms: int = 8, end_early: float = 0.05) -> None:
        super().__init__(shop)
        self._arms, self._end_early = arms, end_early
        self._optimizer = rl.Optimizer(
            shop.space, budget=PERIODS * arms, baseline=shop.today, seed=shop.seed
        )
        self._version = 0

    def table(self, period: int) -> list[Arm]:
        begins = datetime(2026, 1, 5, tzinfo=UTC) + timedelta(days=period)
        self._optimizer.allocate(self._arms, ttl=86_400.0, end_early=self._end_early, time=begins)
        return self.changed() or []

    def changed(self) -> list[Arm] | None:
        table = self._optimizer.allocation
        if table is None or table.version == self._version:
            return None
        self._version = table.version
        return [Arm(row.trial.number, row.trial.params, row.share) for row in table.rows]

    def take(self, period: int, arm: int, results: Increment) -> None:
        self._optimizer.report(
            arm, count=results.count, sum=results.sum, sum_squares=results.sum_squares
        )


def fixed_arms(shop: Shop, count: int) -> list[dict[str, Any]]:
    """Today's setting and others that are spread evenly: Sobol's sequence, scrambled."""
    points = sobol_points(shop.space, 16, seed=shop.seed + 1)[: count - 1]
    return [shop.today, *(shop.space.decode(point) for point in points)]


class Test(Tool):
    """An A/B/n test of `arms` settings in equal parts; after `periods` the best mean is taken."""

    def __init__(self, shop: Shop, periods: int, arms: int = 8) -> None:
        super().__init__(shop)
        self._arms, self._periods = fixed_arms(shop, arms), periods
        self._sums, self._counts = np.zeros(arms), np.zeros(arms)
        self._winner: int | None = None

    def table(self, period: int) -> list[Arm]:
        if period < self._periods:
            share = 1.0 / len(self._arms)
            return [Arm(i, params, share) for i, params in enumerate(self._arms)]
        if self._winner is None:
            self._winner = int(np.argmax(self._sums / self._counts))
        return [Arm(self._winner, self._arms[self._winner], 1.0)]

    def take(self, period: int, arm: int, results: Increment) -> None:
        self._sums[arm] += results.sum
        self._counts[arm] += results.count


class Thompson(Tool):
    """Thompson sampling over fixed arms: an arm's share is its chance to be the best one.

    The mean of an arm in a period is its worth, plus an effect of the period that all arms share,
    plus noise. The effects have a flat prior, so that only arms of the same period are compared.
    All is normal, so the posterior of the worths is exact. The noise is estimated from all results.

    Args:
        shop: the shop.
        prior: the prior sd of an arm's worth, as a share of the mean of all results.
        arms: how many arms, with today's setting.
        draws: how many draws the chances are estimated from.
    """

    def __init__(self, shop: Shop, prior: float, arms: int = 16, draws: int = 4000) -> None:
        super().__init__(shop)
        self._arms, self._prior, self._draws = fixed_arms(shop, arms), prior, draws
        self._counts, self._sums = np.zeros((arms, PERIODS)), np.zeros((arms, PERIODS))
        self._squares = 0.0
        self._rng = np.random.default_rng([0x7468, shop.seed])

    def table(self, period: int) -> list[Arm]:
        shares = self._chances() if period else np.full(len(self._arms), 1.0 / len(self._arms))
        return [Arm(i, params, shares[i]) for i, params in enumerate(self._arms)]

    def take(self, period: int, arm: int, results: Increment) -> None:
        self._counts[arm, period] += results.count
        self._sums[arm, period] += results.sum
        self._squares += results.sum_squares

    def _chances(self) -> Array:
        mean, covariance = self._posterior()
        drawn = self._rng.multivariate_normal(mean, covariance, self._draws, method="cholesky")
        wins = np.bincount(drawn.argmax(axis=1), minlength=len(mean))
        chances: Array = wins / self._draws
        return chances

    def _posterior(self) -> tuple[Array, Array]:
        served = self._counts.sum(axis=0) > 0
        counts, sums = self._counts[:, served], self._sums[:, served]
        level = sums.sum() / counts.sum()
        noise = self._squares / counts.sum() - level**2
        weights = counts / noise
        means = np.divide(sums, counts, out=np.zeros_like(sums), where=counts > 0)
        total = weights.sum(axis=0)
        period = (weights * means).sum(axis=0) / total
        prior = np.eye(len(counts)) / (self._prior * level) ** 2
        precision = np.diag(weights.sum(axis=1)) - (weights / total) @ weights.T + prior
        covariance = np.linalg.inv(precision)
        return covariance @ (weights * (means - period)).sum(axis=1), covariance
