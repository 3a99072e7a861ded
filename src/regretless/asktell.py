"""The verbs that an `Optimizer`, a `Study` and a `RemoteStudy` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Protocol, overload

from regretless.results import Best, Row, Trial
from regretless.safety import Measured
from regretless.space import Scalar


class AskTell(Protocol):
    """Anything that suggests what to try and takes the results.

    `Optimizer` (in memory), `Study` (in a database) and `RemoteStudy` (over HTTP) are such objects.
    Code that is written for `AskTell` works with all of them.  Each has options of its own besides,
    such as the `key` of a `Study`.

    Example:
        >>> import regretless as rl
        >>> def tune(study: rl.AskTell) -> rl.Best:
        ...     for trial in study:
        ...         study.tell(trial, -abs(trial.params["x"] - 0.3))
        ...     return study.best()
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> best = tune(rl.Optimizer(space, budget=10))
        >>> abs(best.params["x"] - 0.3) < 0.1
        True
    """

    @overload
    def ask(self, *, context: Mapping[str, Scalar] | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, context: Mapping[str, Scalar] | None = None) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, context: Mapping[str, Scalar] | None = None
    ) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials.

        After the budget is spent, it returns the best point, with the reason "exhausted".  With
        `mode="recommend"` the trials are only proposed; see `approve`.

        Args:
            n: the number of trials; None for a single one.
            context: a value for each context, if the run has contexts; see docs/contexts.md.

        Returns:
            A trial.  If `n` is given, a list of trials.

        Raises:
            ConfigError: `n` is not a whole number of at least 1, or a context is given and the run
                has none.
            SpaceError: a value of the context is missing or of a wrong type.
            TrialError: every point is near one that was rejected.
        """
        ...

    def tell(
        self,
        trial: Trial | int,
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        control: Measured | None = None,
        context: Mapping[str, Scalar] | None = None,
    ) -> None:
        """Take the result of a trial.

        Telling the same value again changes nothing.  Telling another value raises TrialError; see
        `retract`.  A trial that was abandoned may still be told.

        Args:
            trial: the trial, or its number.
            value: the result; None if the trial failed, so that only its metrics are known.
            sem: the standard error of the value, if known.
            count: how many evaluations the value is the mean of.
            time: when the value was measured, with a time zone.
            metrics: what else was measured, by name, for example for guardrails: a number, or a
                number and its standard error.
            control: what the baseline brought in the same period, on the rest of the traffic: a
                number, or a number and its standard error.
            context: the context of the result, if it turned out to be another one than that of the
                ask.

        Raises:
            ConfigError: `metrics` or `control` has the wrong shape, or there is no value and no
                metric.
            DataError: the value, `sem`, `count`, `time`, a metric or the control is not valid.
            TrialError: the trial was told another value before, or nobody has approved it.
            UnknownTrialError: there is no such trial.
        """
        ...

    def report(
        self,
        trial: Trial | int,
        *,
        count: float = 1,
        sum: float | None = None,
        sum_squares: float | None = None,
        value: float | None = None,
        sem: float | None = None,
        time: datetime | None = None,
    ) -> None:
        """Add results to the totals of a trial, from many machines and in any order.

        The result of the trial is their total.  It counts from the first report on, and grows with
        each.  Give either the sum of the results, or their mean.

        Args:
            trial: the trial, or its number.
            count: how many units (customers, requests) were measured.  It may be 0, if a result
                belongs to units that were counted before.
            sum: the sum of their results.
            sum_squares: the sum of the squares of their results.  It tells how large the noise is.
            value: the mean of their results, in place of `sum`.
            sem: the standard error of this mean, in place of `sum_squares`.
            time: when they were measured, with a time zone.

        Raises:
            ConfigError: not exactly one of `sum` and `value` is given.
            DataError: a number is not valid.
            TrialError: the trial was told its result by `tell`, or nobody has approved it.
            UnknownTrialError: there is no such trial.
        """
        ...

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        context: Mapping[str, Scalar] | None = None,
    ) -> None:
        """Take a result from before the run.  It uses no budget.

        Args:
            params: a value for each parameter.
            value: the result; None if only metrics are known.
            sem: the standard error of the value, if known.
            count: how many evaluations the value is the mean of.
            time: when the value was measured, with a time zone.
            metrics: what else was measured, by name; see `tell`.
            context: the context of the result, if the run has contexts.

        Raises:
            ConfigError: `metrics` has the wrong shape, or there is no value and no metric.
            DataError: the value, `sem`, `count`, `time` or a metric is not valid.
            SpaceError: the parameters are not in the space.
        """
        ...

    def adopt(
        self, params: Mapping[str, Scalar], *, context: Mapping[str, Scalar] | None = None
    ) -> Trial:
        """Make a trial of a point that somebody else chose.

        It uses budget, and counts as pending until its result is told.

        Args:
            params: a value for each parameter.
            context: the context that it is tried in, if the run has contexts.

        Returns:
            The trial.

        Raises:
            SpaceError: the parameters are not in the space.
        """
        ...

    def abandon(self, trial: Trial | int) -> None:
        """Stop waiting for the result of a trial.  If the result arrives, it may still be told.

        Args:
            trial: the trial, or its number.

        Raises:
            TrialError: the trial was told already.
            UnknownTrialError: there is no such trial.
        """
        ...

    def extend(self, budget: int | None = None, *, horizon: int | None = None) -> None:
        """Set a new total budget, or none: then the run has no end.

        Args:
            budget: the total number of evaluations, those that were asked for included.
            horizon: instead of a budget, how many evaluations a run without an end looks ahead.

        Raises:
            ConfigError: a number is not whole, more trials were asked for already, or not exactly
                one of the two is given.

        Example:
            >>> import regretless as rl
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=20)
            >>> optimizer.extend(horizon=100)
            >>> optimizer
            Optimizer(ids, maximize, asked 0, without an end (100 ahead), told 0)
        """
        ...

    def approve(self, trial: Trial | int, why: str | None = None) -> None:
        """Allow a proposed trial to be tried: it is pending from now on.

        With `mode="recommend"`, `ask` only proposes.  A proposal uses budget until it is rejected.
        The first verdict counts.  The same verdict again changes nothing.

        Args:
            trial: the trial, or its number.
            why: what is said about it, at most 1000 characters.

        Raises:
            ConfigError: the mode is not "recommend", or `why` is empty or too long.
            TrialError: the trial was rejected, told or abandoned.
            UnknownTrialError: there is no such trial.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
            >>> optimizer = rl.Optimizer(space, budget=9, mode="recommend")
            >>> trial = optimizer.ask()
            >>> trial.proposed
            True
            >>> optimizer.approve(trial)
            >>> optimizer.tell(trial, 1.5)
        """
        ...

    def reject(self, trial: Trial | int, why: str) -> None:
        """Refuse a proposed trial.  It uses no budget.

        While the reason stands, neither the point nor one near it is proposed.  A point is near if
        it has the same choices, and if its other parameters differ by less than a tenth of their
        ranges (the root mean square of the differences).

        Args:
            trial: the trial, or its number.
            why: the reason, at most 1000 characters.

        Raises:
            ConfigError: the mode is not "recommend", or `why` is empty or too long.
            TrialError: the trial was approved, told or abandoned.
            UnknownTrialError: there is no such trial.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
            >>> optimizer = rl.Optimizer(space, budget=9, mode="recommend")
            >>> trial = optimizer.ask()
            >>> optimizer.reject(trial, "too slow for our users")
            >>> optimizer.remaining
            9
            >>> abs(optimizer.ask().params["x"] - trial.params["x"]) >= 0.1
            True
        """
        ...

    def reconsider(self, trial: Trial | int, why: str | None = None) -> None:
        """End the reason for which a trial was rejected.

        Its point and those near it may be proposed again.  The trial itself stays closed.

        Args:
            trial: the trial, or its number.
            why: what is said about it, at most 1000 characters.

        Raises:
            ConfigError: `why` is empty or too long.
            TrialError: the trial was not rejected.
            UnknownTrialError: there is no such trial.
        """
        ...

    def retract(self, trial: Trial | int, why: str | None = None) -> None:
        """Take the result of a trial back, because it was wrong.

        The trial is pending again: tell it anew, or abandon it.  Nothing is erased.  The next ask
        fits the model to the results that stand.  Decisions that were made meanwhile stay as they
        are.  If the result was retracted before, nothing changes.

        Args:
            trial: the trial, or its number.
            why: what was wrong, at most 1000 characters.

        Raises:
            ConfigError: `why` is empty or too long.
            TrialError: the trial has no result.
            UnknownTrialError: there is no such trial.

        Example:
            >>> import regretless as rl
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
            >>> trial = optimizer.ask()
            >>> optimizer.tell(trial, 1500.0)
            >>> optimizer.retract(trial, "milliseconds, not seconds")
            >>> optimizer.tell(trial, 1.5)
            >>> optimizer.best().luckiest
            1.5
        """
        ...

    def retract_observation(self, index: int, why: str | None = None) -> None:
        """Take a result from before the run back, because it was wrong.

        Args:
            index: which result, in the order in which they were observed, counted from 0.  Results
                that were retracted keep their place.
            why: what was wrong, at most 1000 characters.

        Raises:
            ConfigError: `index` is not a whole number, or `why` is empty or too long.
            UnknownTrialError: there is no such result.
        """
        ...

    def set_baseline(self, params: Mapping[str, Scalar]) -> None:
        """Declare the setting that runs today, or change it.

        It is tried next, unless it was tried or observed before.  Later trials are compared to it;
        earlier ones are compared to the baseline of their time.

        Args:
            params: a value for each parameter.

        Raises:
            SpaceError: the parameters are not in the space.
        """
        ...

    def best(self, *, context: Mapping[str, Scalar] | None = None) -> Best:
        """The visited point with the best posterior mean, with a 95 % interval.

        Args:
            context: the context for which it is the best one, if the run has contexts; None for the
                best one on average over the contexts that were seen.

        Raises:
            NoResultsError: no result was told yet.
        """
        ...

    def history(self) -> list[Row]:
        """The results from before the run and the trials, in order."""
        ...

    @property
    def budget(self) -> int | None:
        """How many evaluations there are in total; None if there is no end."""
        ...

    @property
    def asked(self) -> int:
        """How many trials were asked for or adopted, without those that were rejected."""
        ...

    @property
    def remaining(self) -> int:
        """How many evaluations may still be asked for; the horizon if there is no end."""
        ...

    @property
    def pending(self) -> list[Trial]:
        """Trials that were neither told nor abandoned yet."""
        ...

    @property
    def proposed(self) -> list[Trial]:
        """Trials that wait to be approved or rejected."""
        ...

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent; without a budget, for ever.

        Raises:
            ConfigError: the mode is "recommend": the loop would try what nobody has approved.
        """
        ...
