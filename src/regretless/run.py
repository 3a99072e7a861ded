"""`maximize` or `minimize` a function with one call, in this process or on any executor."""

from __future__ import annotations

import math
import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regretless._internal.arrays import Array
from regretless._internal.frames import dataframe_of
from regretless._internal.shown import shown
from regretless._internal.validate import is_iterable, is_number, whole
from regretless.defaults import Noise
from regretless.engine import Optimizer, html_of
from regretless.errors import ConfigError, DataError
from regretless.model import Drift, Model
from regretless.policies import Policy
from regretless.results import Best, Row, Trial
from regretless.safety import Guardrail, returned
from regretless.space import Scalar, Space

if TYPE_CHECKING:
    from regretless.ledger import Ledger

Objective = Callable[[dict[str, Scalar]], Any]  # a number, or a number and metrics
Callback = Callable[[Optimizer, Trial, float], object]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found and what it cost.

    Args:
        optimizer: the optimiser of the run.  It has everything that was told, and can be asked for
            more after `optimizer.extend(budget)`.
        interrupted: whether Ctrl-C or an exception ended the run before its budget was spent.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=15)
        >>> len(result.values), len(result.history), result.interrupted
        (15, 15, False)
        >>> result.best.mean > -0.01
        True
        >>> bool(result.regret(f_star=0.0)[-1] < 1.0)
        True
    """

    optimizer: Optimizer
    interrupted: bool = False

    def _ledger(self) -> Ledger:
        from regretless.ledger import Ledger  # not every run asks what it has cost

        return Ledger.of(self.optimizer)

    @property
    def best(self) -> Best:
        """The visited point with the best posterior mean.

        Raises:
            NoResultsError: nothing was told yet.
        """
        return self.optimizer.best()

    @property
    def history(self) -> list[Row]:
        """Prior data and trials, in order."""
        return self.optimizer.history()

    def to_dataframe(self) -> Any:
        """The history as a pandas DataFrame: a row for each trial and each result from before.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return dataframe_of(self.history)

    def __str__(self) -> str:
        how = "interrupted after" if self.interrupted else "after"
        best = self.best if self.optimizer.observations else "no result yet"
        return f"best {best}, {how} {self.optimizer._records.horizon} trials"

    __repr__ = __str__

    def _repr_html_(self) -> str:
        return html_of(self.optimizer, "Result" + (" (interrupted)" if self.interrupted else ""))

    @property
    def values(self) -> Array:
        """The observed values of the trials that were told, in the order of the trials."""
        return self._ledger().values

    def regret(self, f_star: float) -> Array:
        """The sum of what was lost against a known best value, after each evaluation.

        The observed values count, with their noise.

        Args:
            f_star: the best value that the function can take.

        Returns:
            One number for each value in `values`.

        Raises:
            ConfigError: f_star is not a finite number.
        """
        return self._ledger().regret(f_star)


def maximize(
    f: Objective,
    space: Space,
    budget: int | None = None,
    *,
    horizon: int | None = None,
    drift: str | Drift | None = None,
    policy: str | Policy = "ids",
    seed: int = 0,
    design: str | Sequence[Mapping[str, Scalar]] = "auto",
    n0: int | None = None,
    model: Model | None = None,
    noise: Noise | None = None,
    defaults: int | None = None,
    baseline: Mapping[str, Scalar] | None = None,
    guardrails: Sequence[Guardrail] | None = None,
    free_start: bool | None = None,
    optimum: float | None = None,
    bound: float | None = None,
    metric: str | None = None,
    unit: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    f_star: float | None = None,
) -> Result:
    """Maximise f(params) over the space in `budget` evaluations, losing little on the way.

    Ctrl-C ends the run and returns the results so far.

    Args:
        f: the function; it gets a dict with a value for each parameter and returns a number, or a
            number and a dict of metrics.  The number is None if only metrics are known.
        space: the parameters and their ranges.
        budget: how many evaluations there are, the initial design included.  None if the run has no
            end: a callback or Ctrl-C ends it.
        horizon: how many evaluations a run looks ahead; needed without a budget.
        drift: None, "auto" or a `Drift`, if f may change with time; see `Optimizer`.
        policy: how the next point is chosen, by name or as an instance; see `Optimizer`.
        seed: the seed of all random numbers.
        design: how to start; see `Optimizer`.
        n0: how many points to start with; see `Optimizer`.
        model: the model of f; see `Optimizer`.
        noise: "auto" to find out where results scatter more; see `Optimizer`.
        defaults: the version of the library's defaults; see `Optimizer`.
        baseline: the setting that runs today; see `Optimizer`.
        guardrails: limits on metrics that f returns; see `Optimizer`.
        free_start: whether the points of the start may break guardrails; see `Optimizer`.
        optimum: the best value that f can take, if it is known; see `Optimizer`.
        bound: a value that f can't exceed, if only that is known; see `Optimizer`.
        metric: what f returns, such as "p99 latency", to be shown; see `Optimizer`.
        unit: its unit, such as "ms", to be shown; see `Optimizer`.
        executor: an executor of concurrent.futures, on which f is called; None calls it here.
        workers: how many evaluations run at a time on the executor; None takes its own size.
        callbacks: functions that are called as callback(optimizer, trial, value) after each result;
            the value is NaN if f returned only metrics.
            The run stops as soon as one returns a true value.
        progress: whether to show a line on stderr with the best point so far.
        f_star: the best value that f can take, for the regret in the progress line only.  None for
            `optimum`.

    Returns:
        The best point, the history and the optimiser; see `Result`.

    Raises:
        ConfigError: a setting is not valid.
        DataError: f returned something that is not a finite number.
        Exception: whatever f raises, unchanged.  Its attribute `result` has all that was told
            before, unless the exception has such an attribute already or cannot be changed.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.maximize(lambda params: -((params["x"] - 0.3) ** 2), space, budget=15)
        >>> abs(result.best.params["x"] - 0.3) < 0.1
        True
    """
    optimizer = Optimizer(
        space,
        budget,
        horizon=horizon,
        drift=drift,
        seed=seed,
        policy=policy,
        direction="maximize",
        design=design,
        n0=n0,
        model=model,
        noise=noise,
        defaults=defaults,
        baseline=baseline,
        guardrails=guardrails,
        free_start=free_start,
        optimum=optimum,
        bound=bound,
        metric=metric,
        unit=unit,
    )
    f_star = optimum if f_star is None else f_star
    return _run(f, optimizer, executor, workers, callbacks, progress, f_star)


def minimize(
    f: Objective,
    space: Space,
    budget: int | None = None,
    *,
    horizon: int | None = None,
    drift: str | Drift | None = None,
    policy: str | Policy = "ids",
    seed: int = 0,
    design: str | Sequence[Mapping[str, Scalar]] = "auto",
    n0: int | None = None,
    model: Model | None = None,
    noise: Noise | None = None,
    defaults: int | None = None,
    baseline: Mapping[str, Scalar] | None = None,
    guardrails: Sequence[Guardrail] | None = None,
    free_start: bool | None = None,
    optimum: float | None = None,
    bound: float | None = None,
    metric: str | None = None,
    unit: str | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    f_star: float | None = None,
) -> Result:
    """Minimise f(params) over the space in `budget` evaluations, losing little on the way.

    Args, Returns and Raises are those of `maximize`; `f_star` is the least value that f can take.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> result = rl.minimize(lambda params: (params["x"] - 0.3) ** 2, space, budget=15)
        >>> abs(result.best.params["x"] - 0.3) < 0.1
        True
    """
    optimizer = Optimizer(
        space,
        budget,
        horizon=horizon,
        drift=drift,
        seed=seed,
        policy=policy,
        direction="minimize",
        design=design,
        n0=n0,
        model=model,
        noise=noise,
        defaults=defaults,
        baseline=baseline,
        guardrails=guardrails,
        free_start=free_start,
        optimum=optimum,
        bound=bound,
        metric=metric,
        unit=unit,
    )
    f_star = optimum if f_star is None else f_star
    return _run(f, optimizer, executor, workers, callbacks, progress, f_star)


def _run(
    f: Objective,
    optimizer: Optimizer,
    executor: Executor | None,
    workers: int | None,
    callbacks: Iterable[Callback],
    progress: bool,
    f_star: float | None,
) -> Result:
    """Check what concerns the run itself, and run it here or on the executor."""
    if not callable(f):
        raise ConfigError(f"f: need a function of a dict of parameters, got {shown(f)}")
    if workers is not None:
        workers = whole("workers", workers, least=1)
        if executor is None:
            raise ConfigError(f"workers: need an `executor` as well, got {shown(workers)} and none")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ConfigError(f"executor: need one of concurrent.futures, got {shown(executor)}")
    if f_star is not None and not is_number(f_star):
        raise ConfigError(f"f_star: need a number, got {shown(f_star)}")
    after = _checked_callbacks(callbacks)
    line = _Progress(f_star)
    if progress:
        after.append(line)
    try:
        if executor is None:
            return _one_by_one(f, optimizer, after)
        return _many(f, optimizer, after, executor, workers or _size(executor))
    finally:
        line.close()


def _checked_callbacks(callbacks: object) -> list[Callback]:
    each: list[Any] = []
    for callback in callbacks if is_iterable(callbacks) else [callbacks]:
        if callable(callbacks) or not callable(callback):
            raise ConfigError(f"callbacks: need a list of functions, got {shown(callbacks)}")
        each.append(callback)
    return each


def _size(executor: Executor) -> int:
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def _one_by_one(f: Objective, optimizer: Optimizer, callbacks: list[Callback]) -> Result:
    trial: Trial | None = None
    try:
        for trial in optimizer:  # Ctrl-C may also arrive while the next trial is computed
            if _tell(optimizer, trial, f(dict(trial.params)), callbacks):
                break
            trial = None
    except KeyboardInterrupt:
        _give_up(optimizer, {})
        return Result(optimizer, interrupted=True)
    except BaseException as error:
        _give_up(optimizer, {})
        _attach(error, optimizer, trial)
        raise
    return Result(optimizer)


def _many(
    f: Objective, optimizer: Optimizer, callbacks: list[Callback], executor: Executor, workers: int
) -> Result:
    running: dict[Future[Any], Trial] = {}
    trial: Trial | None = None
    try:
        while optimizer.remaining or running:
            while optimizer.remaining and len(running) < workers:
                trial = optimizer.ask()
                running[executor.submit(f, dict(trial.params))] = trial
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in sorted(done, key=lambda each: running[each].number):
                trial = running.pop(future)
                if _tell(optimizer, trial, future.result(), callbacks):
                    return Result(optimizer)
                trial = None
    except KeyboardInterrupt:
        return Result(optimizer, interrupted=True)
    except BaseException as error:
        _attach(error, optimizer, trial)
        raise
    finally:
        _give_up(optimizer, running)
    return Result(optimizer)


def _tell(optimizer: Optimizer, trial: Trial, result: Any, callbacks: list[Callback]) -> bool:
    """Tell the result and call all callbacks; returns whether one of them wants to stop."""
    value, metrics = returned(result)
    optimizer.tell(trial, value, metrics=metrics)
    number = math.nan if value is None else float(value)
    return any([callback(optimizer, trial, number) for callback in callbacks])


def _give_up(optimizer: Optimizer, running: Mapping[Future[Any], Trial]) -> None:
    """Tell the results that have arrived already, and abandon all other pending trials."""
    for future, trial in running.items():
        if not future.cancel() and future.done() and future.exception() is None:
            with suppress(DataError, ConfigError):  # ignore a result that is not valid
                value, metrics = returned(future.result())
                optimizer.tell(trial, value, metrics=metrics)
    for trial in optimizer.pending:
        optimizer.abandon(trial)


def _attach(error: BaseException, optimizer: Optimizer, trial: Trial | None) -> None:
    """Add the results so far to the exception, and a note that says in which trial it was raised.

    An exception that cannot be changed is left as it is.
    """
    where = "between two trials" if trial is None else f"in trial {trial.number}: {trial.params}"
    kept = ""
    if not hasattr(error, "result"):
        with suppress(Exception):
            error.result = Result(optimizer, interrupted=True)  # type: ignore[attr-defined]
            kept = f"; the {optimizer.observations} results told before are in its `result`"
    with suppress(Exception):
        error.add_note(f"regretless: raised {where}{kept}")


class _Progress:
    """A progress line on stderr, rewritten at most ten times a second.

    In a notebook it is an output of the cell, which is replaced.  Where a line cannot be rewritten,
    as in a log file, there is a new line for each tenth of the budget instead.
    """

    def __init__(self, f_star: float | None) -> None:
        self.f_star, self.start, self.shown, self.tenths = f_star, time.monotonic(), 0.0, 0
        self.in_notebook = "ipykernel" in sys.modules
        self.rewrites = sys.stderr.isatty() or self.in_notebook
        self.cell: Any = None  # the output of a notebook's cell

    def __call__(self, optimizer: Optimizer, trial: Trial, value: float) -> None:
        now, last = time.monotonic(), not optimizer.remaining and not optimizer.pending
        done = optimizer.asked - len(optimizer.pending)
        budget = optimizer.budget  # None: the run has no end
        tenths = 10 * done // (budget or optimizer.remaining)
        if not last and (now - self.shown < 0.1 if self.rewrites else tenths == self.tenths):
            return
        self.shown, self.tenths = now, tenths
        best = optimizer.best()
        line, left = f"{done}", ""
        if budget is not None:
            width = 24
            bar = "#" * (width * done // budget)
            line = f"[{bar:<{width}}] {done}/{budget}"
            left = f"  {(now - self.start) / done * (budget - done):.0f} s left"
        line += f"  best {best.mean:.4g} ± {(best.high - best.low) / 2:.2g}"
        if self.f_star is not None:
            line += f"  regret {Result(optimizer).regret(self.f_star)[-1]:.4g}"
        line += left
        if self.in_notebook:
            self._show_in_cell(line)
            return
        sys.stderr.write(f"\r{line}   " if self.rewrites else f"{line}\n")
        sys.stderr.flush()

    def _show_in_cell(self, line: str) -> None:
        from IPython.display import display

        if self.cell is None:
            self.cell = display({"text/plain": line}, raw=True, display_id=True)
        else:
            self.cell.update({"text/plain": line}, raw=True)

    def close(self) -> None:
        if self.shown and self.rewrites and not self.in_notebook:
            sys.stderr.write("\n")
