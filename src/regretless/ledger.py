"""What a run has lost and gained so far, in the user's units.

Losses and gains are positive for "more of it", whether the run maximises or minimises.  There are
two kinds of answers.  Some are sums of the observed values, noise included.  The others are
estimates by the posterior: sums of f at the points that were tried, with the sd of the joint
posterior.  Marginal sds must not be added up, because f at one point is as far off each time that
the point is tried.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.plain import json_number, json_numbers
from regretless._internal.shown import shown
from regretless._internal.validate import MAX_RESULT, check_amount, is_iterable, is_number
from regretless.engine import Optimizer, Record, Reference, Situation, joined
from regretless.errors import ConfigError, NoResultsError
from regretless.results import Row
from regretless.safety import OBJECTIVE, Guardrail
from regretless.space import Scalar, Space

_CONTENDERS = 32  # settings that may be the best one in a context


@dataclass(frozen=True)
class Estimate:
    """A number that is not known exactly: its mean and its standard deviation."""

    mean: float
    sd: float

    def to_json(self) -> dict[str, float | None]:
        """Mean and sd as JSON; None replaces a number that is not finite."""
        return {"mean": json_number(self.mean), "sd": json_number(self.sd)}


@dataclass(frozen=True, eq=False)
class RunningTotal:
    """The sum over the first t trials, for t = 1, 2, …: its mean and its standard deviation."""

    mean: Array
    sd: Array

    @property
    def paid_back_after(self) -> int | None:
        """The number of trials after which the total has stayed at zero or above.

        None if the total was never below zero, or if it is below zero now.
        """
        below = np.flatnonzero(self.mean < 0)
        if not len(below) or below[-1] == len(self.mean) - 1:
            return None
        return int(below[-1]) + 2

    def to_json(self) -> dict[str, list[float | None]]:
        """Means and sds as JSON; None replaces a number that is not finite."""
        return {"mean": json_numbers(self.mean), "sd": json_numbers(self.sd)}


@dataclass(frozen=True, eq=False)
class JointPosterior:
    """The Gaussian that describes f at several points together, in the user's units."""

    mean: Array  # one number for each point
    covariance: Array

    @classmethod
    def at(cls, situation: Situation, x: Array) -> JointPosterior:
        """The posterior of f at the rows of x, given the results that were told.

        Where the model draws in disasters, the covariance is correct to first order.
        """
        mu, _ = situation.posterior.predict(x)
        rate = situation.user_sd(mu, np.ones(len(mu)))
        covariance = situation.posterior.covariance(x) * np.outer(rate, rate)
        return cls(situation.user(mu), covariance)

    def better_than(self, reference: int, sign: float) -> JointPosterior:
        """The posterior of sign * (f(x) - f(x_reference)) at each point x."""
        gain, row = sign * self.mean, self.covariance[reference]
        covariance = self.covariance - row[:, None] - row[None, :] + row[reference]
        return JointPosterior(gain - gain[reference], covariance)

    def running_difference(
        self, visits: NDArray[np.intp], others: NDArray[np.intp], sign: float
    ) -> RunningTotal:
        """The sum of sign * (f(x) - f(other)) over the first t pairs of points, for each t."""
        with_sum, variance = np.zeros(len(self.mean)), 0.0
        sd = np.empty(len(visits))
        for t, (point, other) in enumerate(zip(visits, others, strict=True)):
            row = self.covariance[point] - self.covariance[other]
            variance += row[point] - row[other] + 2.0 * (with_sum[point] - with_sum[other])
            with_sum += row
            sd[t] = math.sqrt(max(0.0, variance))
        return RunningTotal(np.cumsum(sign * (self.mean[visits] - self.mean[others])), sd)

    def total(self, weights: Array) -> Estimate:
        """The weighted sum of f over the points: N(w'mu, w'Sigma w)."""
        variance = float(weights @ self.covariance @ weights)
        return Estimate(float(weights @ self.mean), math.sqrt(max(0.0, variance)))

    def running_total(self, visits: NDArray[np.intp]) -> RunningTotal:
        """The sum of f over the first t entries of `visits`, for each t.

        `visits` has the index of the point that each trial tried.  A step costs one row of the
        covariance: adding point p to the sum S adds var f(p) + 2 cov(S, f(p)) to the variance.
        """
        with_sum, variance = np.zeros(len(self.mean)), 0.0  # cov(S, f) at each point, and var S
        sd = np.empty(len(visits))
        for t, point in enumerate(visits):
            variance += self.covariance[point, point] + 2.0 * with_sum[point]
            with_sum += self.covariance[point]
            sd[t] = math.sqrt(max(0.0, variance))
        return RunningTotal(np.cumsum(self.mean[visits]), sd)


@dataclass(frozen=True, eq=False)
class Estimates:
    """Totals over the trials told so far, by the posterior of today, with its joint sd.

    served  the sum of f at the points that were tried.  The regret against a known optimum c, or
            the gain over a known baseline c, after t trials is the difference to t c; its sd is the
            same.
    regret  what the trials lost against the best point as known now
    gain    what the trials gained over the baseline, had that been kept; without a baseline, over
            the setting of `today`
    first   the posterior mean at the baseline, or at that setting
    over    what gains are measured from: "baseline", "observed setting" or "first point"
    known   what the trials lost against the optimum or the bound that the user gave (see
            `Optimizer`); None if none was given, or if the results contradict it

    The best point is the visited one with the best posterior mean.  The regret against the true
    optimum is larger by what no visited point has reached.  The posterior mean at the best of
    several points is also a little too optimistic.
    """

    served: RunningTotal
    regret: RunningTotal
    gain: RunningTotal
    first: float
    over: str = "first point"
    known: RunningTotal | None = None

    def to_json(self) -> dict[str, Any]:
        """All of it as JSON; None replaces a number that is not finite."""
        return {
            "served": self.served.to_json(),
            "regret": self.regret.to_json(),
            "gain": self.gain.to_json(),
            "first": json_number(self.first),
            "over": self.over,
            **({} if self.known is None else {"known": self.known.to_json()}),
        }


@dataclass(frozen=True)
class Today:
    """The setting that gains are measured from: what would run without the study.

    Attributes:
        kind: "baseline" if it was declared; otherwise "observed setting", the one with most results
            from before the run, the last of several; otherwise "first point", that of the first
            result.
        params: a value for each parameter.
        x: the same point, encoded.
    """

    kind: str
    params: dict[str, Scalar]
    x: Array = field(repr=False, compare=False)


def today(optimizer: Optimizer) -> Today | None:
    """The setting that gains are measured from; None before the first result, if none is declared.

    A point that was tried may be outside of a space that has changed since.
    """
    records = optimizer._records
    if records.baseline is not None:
        return Today("baseline", dict(records.baseline.params), records.baseline.x)
    prior: dict[bytes, tuple[float, int]] = {}  # how many results, and the last one of them
    for i, (row, x) in enumerate(zip(records.prior, records.prior_x, strict=True)):
        if row.status == "observed" and row.value is not None:
            count = prior.get(x.tobytes(), (0.0, 0))[0] + (row.count or 1.0)
            prior[x.tobytes()] = count, i
    if prior:
        _, i = max(prior.values())
        return Today("observed setting", dict(records.prior[i].params), records.prior_x[i])
    for record in records.trials:
        if OBJECTIVE in record.outcomes:
            return Today("first point", dict(record.params), record.x)
    return None


@dataclass(frozen=True)
class Violations:
    """How often the trials broke a guardrail.

    Attributes:
        guardrail: the guardrail, as text.
        prob: the probability with which it must hold at a trial.
        limit: the limit in the units of the metric; None if it is not known yet.
        trials: the trials at whose choice something was known of the metric.
        expected: how many of these were expected to break it, when they were chosen.
        told: the trials of which the metric was told.
        observed: how many of these results are beyond the limit.  The noise of a result counts, so
            a point at which the metric is close to the limit may have such results.
    """

    guardrail: str
    prob: float
    limit: float | None
    trials: int
    expected: float
    told: int
    observed: int


def _violations(guardrail: Guardrail, limit: float | None, rows: Sequence[Row]) -> Violations:
    name, metric = str(guardrail), guardrail.metric
    decisions = [row.decision for row in rows if row.decision is not None]
    known = [d.holds[name] for d in decisions if d.holds is not None and name in d.holds]
    told = [row.metrics[metric] for row in rows if metric in row.metrics]
    beyond = [] if limit is None else [y for y in told if guardrail.sign * (y - limit) > 0]
    return Violations(
        guardrail=name,
        prob=guardrail.prob,
        limit=limit,
        trials=len(known),
        expected=float(sum(1.0 - probability for probability in known)),
        told=len(told),
        observed=len(beyond),
    )


@dataclass(frozen=True)
class LossSoFar:
    """The total loss against the baseline of all trials so far, and the loss budget.

    Attributes:
        expected: the expected total loss; negative for a gain.
        high: what it is at most, with the confidence of the loss budget.
        budget: the loss budget.
        confidence: the probability with which the loss budget holds.
        exceeded: the probability that the total loss is larger than the budget.
        is_spent: whether the budget is spent, so that only the baseline is tried, or what is known
            to be better.
    """

    expected: float
    high: float
    budget: float
    confidence: float
    exceeded: float
    is_spent: bool

    def __str__(self) -> str:
        spent = "; it is spent: only the baseline or a point known to be better is tried"
        if self.expected < 0.0:
            so_far = f"have gained {-self.expected:.4g} over the baseline"
        else:
            so_far = f"have lost {self.expected:.4g} against the baseline"
        most = f"a loss of at most {self.high:.4g}" if self.high > 0.0 else "no loss in all"
        chance = "below 0.01" if self.exceeded < 1e-4 else f"{100 * self.exceeded:.2g}"
        return (
            f"loss budget {self.budget:.4g}: the trials {so_far} ({most}, with a probability of"
            f" {100 * self.confidence:.4g} %); the chance that it is exceeded is {chance} %"
            f"{spent if self.is_spent else ''}"
        )


@one_thread()
def _loss_so_far(optimizer: Optimizer) -> LossSoFar:
    limit = optimizer._loss_limit(optimizer._situation().belief, optimizer._last_place())
    assert limit is not None
    numbers = limit.numbers(limit.baseline)
    return LossSoFar(
        numbers["total_loss"],
        numbers["total_loss_high"],
        limit.limit,
        limit.confidence,
        limit.exceeded,
        limit.is_spent,
    )


@dataclass(frozen=True, eq=False)
class Ledger:
    """What the trials of an optimiser have lost and gained, as of the moment when it was made.

    Make one with `Ledger.of`.  Only trials that were told count; data from before the run (see
    `Optimizer.observe`) cost nothing and are left out.  So are trials that failed, of which only
    metrics were told.

    Attributes:
        optimizer: a copy of the optimiser; what is told later does not change the ledger.
        trials: the rows of the trials that have a value, in the order of their numbers.

    Example:
        >>> import regretless as rl
        >>> from regretless import Ledger
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=3)
        >>> for trial, value in zip(optimizer, [1.0, 4.0, 3.0]):
        ...     optimizer.tell(trial, value)
        >>> ledger = Ledger.of(optimizer)
        >>> ledger.regret(f_star=5.0).tolist()
        [4.0, 5.0, 7.0]
        >>> ledger.gain(over=2.0).mean.tolist()
        [-1.0, 1.0, 2.0]
        >>> ledger.gain(over=2.0).paid_back_after
        2
    """

    optimizer: Optimizer
    trials: tuple[Row, ...]

    @classmethod
    def of(cls, optimizer: Optimizer) -> Ledger:
        """The ledger of everything that this optimiser was told so far.

        Args:
            optimizer: the optimiser.
        """
        copy = optimizer.copy()
        return cls.from_rows(copy, copy.history())

    @classmethod
    def from_rows(cls, optimizer: Optimizer, rows: Sequence[Row]) -> Ledger:
        """The ledger of an optimiser that is told nothing more, with its history.

        Args:
            optimizer: the optimiser.
            rows: its history, as `Optimizer.history` returns it.
        """
        told = (row for row in rows if row.status == "told" and row.value is not None)
        return cls(optimizer, tuple(told))

    @property
    def values(self) -> Array:
        """The observed values, trial by trial."""
        return np.array([row.value for row in self.trials], dtype=float)

    # -- by the observed values --------------------------------------------------------------------

    def regret(self, f_star: float) -> Array:
        """The cumulative regret of the observed values against a known optimum.

        Args:
            f_star: the best value that f can take.

        Returns:
            The regret after 1, 2, … trials.  It includes the observation noise.

        Raises:
            ConfigError: `f_star` is not a finite number.
        """
        if not (is_number(f_star) and abs(float(f_star)) <= MAX_RESULT):
            raise ConfigError(f"f_star: need a number, got {shown(f_star)}")
        return np.cumsum(self.optimizer.sign * (float(f_star) - self.values))

    def lost(self) -> float | None:
        """What the observed values fall short of the best point as known now, summed over trials.

        Returns:
            The sum of the differences to the posterior mean at `optimizer.best()`; None before the
            first trial is told.  With contexts, it is the best point of each trial's own context.
        """
        # The results of the baseline alone are controls of others that have none yet.
        if not self.trials or not self.optimizer.observations:
            return None
        if self.optimizer.contexts is not None:
            best_means = self.optimizer._situation().predict(self._best_in_each())[0]
            return float(np.sum(self.optimizer.sign * (best_means - self.values)))
        sign, best = self.optimizer.sign, self.optimizer.best().mean
        return sum(sign * (best - row.value) for row in self.trials if row.value is not None)

    def gain(self, over: float | None = None, *, sem: float = 0.0) -> RunningTotal:
        """What the observed values exceed a reference value by, with the sd from the noise.

        Args:
            over: what each trial would have returned without any tuning.  If it is None, it is
                what the model expects of the baseline, with its sd; or of the setting that was
                observed before the run, see `today`.  Without both, the first result is the
                reference, and its noise counts in every step.
            sem: the standard error of `over`.

        Returns:
            The total after 1, 2, … trials.  The noise of a result is its own standard error, or the
            noise that the model fitted last.

        Raises:
            ConfigError: `over` is not a finite number, or `sem` is negative or has no `over`.
            NoResultsError: `over` is None and no trial was told yet.
        """
        if not (over is None or (is_number(over) and abs(float(over)) <= MAX_RESULT)):
            raise ConfigError(f"over: need a number, got {shown(over)}")
        check_amount("sem", sem)
        if float(sem) > MAX_RESULT:  # the variance has its square
            raise ConfigError(f"sem: need at most {MAX_RESULT:g}, got {shown(sem)}")
        if over is None and sem:
            raise ConfigError(
                f"sem: need the value that it belongs to (`over`), got {shown(sem)} alone"
            )
        if over is None and not self.trials:
            raise NoResultsError("gain over the first result: no result was told yet")
        if over is None and self._today.kind != "first point":
            return self._gain_over_today()
        reference = self.values[0] if over is None else float(over)
        total = np.cumsum(self.optimizer.sign * (self.values - reference))
        steps, noise = np.arange(1, len(self.trials) + 1), self._noise_variances()
        variance = np.cumsum(noise) + (steps * float(sem)) ** 2
        if over is None:
            # y_1 + … + y_t - t y_1 has y_1 with the weight 1 - t, and (1 - t)^2 = 1 + t (t - 2).
            variance += (steps * (steps - 2)) * noise[0]
        return RunningTotal(total, np.sqrt(variance))

    @one_thread()
    def _gain_over_today(self) -> RunningTotal:
        """What the observed values exceed the posterior means at the references by."""
        references = self._kept()
        points, visits = _distinct_rows(references)
        kept = JointPosterior.at(self.optimizer._situation(), points).running_total(visits)
        total = self.optimizer.sign * (np.cumsum(self.values) - kept.mean)
        return RunningTotal(total, np.sqrt(np.cumsum(self._noise_variances()) + kept.sd**2))

    @property
    def _today(self) -> Today:
        found = today(self.optimizer)
        assert found is not None, "there are results"
        return found

    @property
    def _references(self) -> list[Reference]:
        """For each trial that was told, the baseline of its time."""
        every = self.optimizer._records.references()
        return [every[row.number] for row in self.trials if row.number is not None]

    @property
    def _records(self) -> list[Record]:
        """The records of the trials that were told."""
        every = self.optimizer._records.trials
        return [every[row.number] for row in self.trials if row.number is not None]

    def _kept(self) -> list[Array]:
        """For each trial, what it is compared to, in its context: the baseline of its time."""
        mine = self._records
        if self.optimizer.baseline is None:
            reference = self._today.x
            return [joined(reference, each.at) for each in mine]
        pairs = zip(self._references, mine, strict=True)
        return [joined(reference.x, each.at) for reference, each in pairs]

    def _best_in_each(self) -> Array:
        """For each trial, the best setting in its context, by the posterior mean as known now.

        It is one of those that were tried or observed most often.
        """
        mine = self._records
        times = Counter(each.x.tobytes() for each in mine)
        times.update(x.tobytes() for x in self.optimizer._records.prior_x)
        settings = [np.frombuffer(x) for x, _ in times.most_common(_CONTENDERS)]
        places = np.array([each.at for each in mine])
        rows = np.repeat(np.array(settings), len(places), axis=0)
        every = np.hstack([rows, np.tile(places, (len(settings), 1))])
        means = self.optimizer.sign * self.optimizer._situation().predict(every)[0]
        best = np.argmax(means.reshape(len(settings), -1), axis=0)
        return np.asarray(every.reshape(len(settings), len(places), -1)[best, range(len(places))])

    def loss(self) -> LossSoFar | None:
        """The total loss against the baseline so far, and the loss budget.

        It counts all trials, also those without a result.

        Returns:
            None if there is no loss budget, or no result yet.
        """
        optimizer = self.optimizer
        if optimizer.safety.loss_budget is None or not optimizer.observations:
            return None
        return _loss_so_far(optimizer)

    def _noise_variances(self) -> Array:
        rows = self.trials
        fitted = [row.decision.noise_sd for row in rows if row.decision and row.decision.noise_sd]
        noise = fitted[-1] if fitted else 0.0
        return np.array([noise**2 / (r.count or 1) if r.sem is None else r.sem**2 for r in rows])

    # -- by the posterior --------------------------------------------------------------------------

    @one_thread()
    def estimates(self) -> Estimates | None:
        """Running totals of f at the points that were tried; None before the first trial is told.

        Returns:
            What the trials served, lost and gained, each with the sd of the joint posterior.
        """
        if not self.trials:
            return None
        optimizer = self.optimizer
        if optimizer.contexts is not None:
            return self._estimates_in_contexts()
        tried = [
            optimizer._records.trials[row.number].x for row in self.trials if row.number is not None
        ]
        kept = self._kept()
        best_x = optimizer.space.encode(optimizer.best().params)
        points, index = _distinct_rows([*tried, best_x, *kept])
        visits, best, others = index[: len(tried)], int(index[len(tried)]), index[len(tried) + 1 :]
        situation = optimizer._situation()
        f = JointPosterior.at(situation, points)
        first = int(others[-1])
        if optimizer.baseline is not None:
            gain = f.running_difference(visits, others, optimizer.sign)
        else:
            gain = f.better_than(first, optimizer.sign).running_total(visits)
        served = f.running_total(visits)
        return Estimates(
            served=served,
            regret=f.better_than(best, -optimizer.sign).running_total(visits),
            gain=gain,
            first=float(f.mean[first]),
            over=self._today.kind,
            known=_against(served, situation),
        )

    def _estimates_in_contexts(self) -> Estimates:
        """The estimates, where each trial is compared in its own context."""
        optimizer, count = self.optimizer, len(self.trials)
        tried = [each.whole for each in self._records]
        points, index = _distinct_rows([*tried, *self._best_in_each(), *self._kept()])
        visits, best, kept = index[:count], index[count : 2 * count], index[2 * count :]
        situation = optimizer._situation()
        f = JointPosterior.at(situation, points)
        served = f.running_total(visits)
        return Estimates(
            served=served,
            regret=f.running_difference(best, visits, optimizer.sign),
            gain=f.running_difference(visits, kept, optimizer.sign),
            first=float(f.mean[kept].mean()),
            over=self._today.kind,
            known=_against(served, situation),
        )

    @one_thread()
    def total(
        self, points: Sequence[Mapping[str, Scalar]], weights: Sequence[float] | Array
    ) -> Estimate:
        """The posterior of the sum of w_i f(x_i), which is one Gaussian.

        Any total of served values, gains or losses is such a sum.  What n trials at x lose against
        a reference point r, for example, has the weight n at r and -n at x when f is maximised.

        Args:
            points: the points x_i, tried or not.  A point may occur more than once.
            weights: the weights w_i, one for each point.

        Returns:
            The mean and the sd of the sum, in the user's units.

        Raises:
            ConfigError: there are not as many weights as points, or one is not a finite number.
            NoResultsError: nothing was told yet, so there is no posterior.
            SpaceError: a point is not in the space.

        Example:
            >>> import regretless as rl
            >>> from regretless import Ledger
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
            >>> optimizer.observe({"x": 0.2}, 3.0)
            >>> optimizer.observe({"x": 0.7}, 1.0)
            >>> loss = Ledger.of(optimizer).total([{"x": 0.2}, {"x": 0.7}], [5, -5])
            >>> 0 < loss.mean < 10 and loss.sd > 0
            True
        """
        if not isinstance(points, Sequence) or isinstance(points, str):
            raise ConfigError(f"points: need a list of points, got {shown(points)}")
        if self.optimizer.contexts is not None:
            raise ConfigError(
                "total: not for a run with contexts, because each context has its own values"
            )
        situation = self.optimizer._situation()
        if not len(points):
            _checked_weights(weights, 0)
            return Estimate(0.0, 0.0)
        space = self.optimizer.space
        x, index = distinct_points(space, [space.validate(point) for point in points])
        checked = _checked_weights(weights, len(points))
        by_point = np.zeros(len(x))
        np.add.at(by_point, index, checked)
        return JointPosterior.at(situation, x).total(by_point)

    # -- guardrails --------------------------------------------------------------------------------

    @one_thread()
    def violations(self) -> list[Violations]:
        """How often each guardrail was broken by the trials, as expected and as observed."""
        optimizer = self.optimizer
        if not optimizer.safety.guardrails:
            return []
        guards = optimizer._current_guards()
        never_ran = ("rejected", "reconsidered")
        every = (row for row in optimizer.history() if row.number is not None)
        rows = [row for row in every if row.status not in never_ran]
        return [
            _violations(guardrail, guards.level(guardrail), rows)
            for guardrail in optimizer.safety.guardrails
        ]

    def to_json(self) -> dict[str, Any]:
        """The trials' numbers and values, what was lost, and the estimates, as JSON."""
        estimates = self.estimates()
        return {
            "number": [row.number for row in self.trials],
            "value": json_numbers(self.values),
            "lost": json_number(self.lost()),
            "estimates": None if estimates is None else estimates.to_json(),
        }


def _against(served: RunningTotal, situation: Situation) -> RunningTotal | None:
    """What was lost against the value that the user knows."""
    if situation.known is None or situation.contradicted:
        return None
    could = situation.known.value * np.arange(1, len(served.mean) + 1)
    return RunningTotal(situation.sign * (could - served.mean), served.sd)


def distinct_points(
    space: Space, points: Sequence[Mapping[str, Scalar]]
) -> tuple[Array, NDArray[np.intp]]:
    """The distinct ones among the points, encoded, and the row in which each point is found."""
    rows: dict[bytes, int] = {}
    seen: dict[str, int] = {}  # by text, in which the choices True and 1 differ
    index = []
    for params in points:
        text = repr(params)
        if text not in seen:
            seen[text] = rows.setdefault(space.encode(params).tobytes(), len(rows))
        index.append(seen[text])
    x = np.frombuffer(b"".join(rows), dtype=float).reshape(len(rows), space.dim)
    return x, np.array(index, dtype=np.intp)


def _distinct_rows(points: Sequence[Array]) -> tuple[Array, NDArray[np.intp]]:
    """The distinct ones among encoded points, and the row in which each point is found."""
    rows: dict[bytes, int] = {}
    index = [rows.setdefault(x.tobytes(), len(rows)) for x in points]
    x = np.frombuffer(b"".join(rows), dtype=float).reshape(len(rows), -1)
    return x, np.array(index, dtype=np.intp)


def _checked_weights(weights: Sequence[float] | Array, count: int) -> Array:
    if not is_iterable(weights) or not hasattr(weights, "__len__"):
        raise ConfigError(f"weights: need a list of numbers, got {shown(weights)}")
    if len(weights) != count:
        raise ConfigError(f"weights: need {count}, one for each point, got {len(weights)}")
    for weight in weights:
        if not is_number(weight):
            raise ConfigError(f"weights: need numbers, got {shown(weight)}")
        if abs(float(weight)) > MAX_RESULT:  # the variance has its square
            raise ConfigError(f"weights: need at most {MAX_RESULT:g}, got {shown(weight)}")
    return np.array(list(weights), dtype=float)
