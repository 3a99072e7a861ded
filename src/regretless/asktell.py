"""The verbs that an `Optimizer`, a `Study` and a `RemoteStudy` have in common."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Protocol, overload

from regretless.results import Best, Row, Trial
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
    def ask(self) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...
    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """The next trial; with `n` a list of trials.

        After the budget is spent, it suggests the best point.

        Raises:
            ConfigError: `n` is not a whole number of at least 1.
        """
        ...

    def tell(
        self, trial: Trial | int, value: float, *, sem: float | None = None, count: float = 1
    ) -> None:
        """Take the result of a trial.

        The same result may be told again, which changes nothing.

        Args:
            trial: the trial, or its number.
            value: the result.
            sem: the standard error of the value, if known.
            count: how many evaluations the value is the mean of.

        Raises:
            DataError: the value, `sem` or `count` is not a valid number.
            TrialError: the trial was told another value before.
            UnknownTrialError: there is no such trial.
        """
        ...

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
    ) -> None:
        """Take a result from before the run; it costs no budget.

        Args:
            params: a value for each parameter.
            value: the result.
            sem: the standard error of the value, if known.
            count: how many evaluations the value is the mean of.

        Raises:
            DataError: the value, `sem` or `count` is not a valid number.
            SpaceError: the parameters are not in the space.
        """
        ...

    def adopt(self, params: Mapping[str, Scalar]) -> Trial:
        """Make a trial of a point that somebody else chose.

        It costs budget, and its result is waited for.

        Raises:
            SpaceError: the parameters are not in the space.
        """
        ...

    def abandon(self, trial: Trial | int) -> None:
        """Stop waiting for the result of a trial.  If the result arrives, it may still be told.

        Raises:
            TrialError: the trial was told already.
            UnknownTrialError: there is no such trial.
        """
        ...

    def extend(self, budget: int) -> None:
        """Set a new total budget.

        Raises:
            ConfigError: more trials than that were asked for already.
        """
        ...

    def best(self) -> Best:
        """The visited point with the best posterior mean, with a 95 % interval.

        Raises:
            NoResultsError: nothing was told yet.
        """
        ...

    def history(self) -> list[Row]:
        """Prior data and trials, in order."""
        ...

    @property
    def budget(self) -> int:
        """How many evaluations there are in total."""
        ...

    @property
    def asked(self) -> int:
        """How many trials were asked for or adopted."""
        ...

    @property
    def remaining(self) -> int:
        """How many evaluations may still be asked for."""
        ...

    @property
    def pending(self) -> list[Trial]:
        """Trials that were neither told nor abandoned yet."""
        ...

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent."""
        ...
