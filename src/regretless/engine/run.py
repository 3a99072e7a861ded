"""One call: `maximize` or `minimize` a function, here or on any executor."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, wait
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import is_number, whole
from regretless.engine.optimizer import Direction, Optimizer
from regretless.errors import ConfigError, DataError
from regretless.model import Model
from regretless.policies import Policy
from regretless.results import Best, Row, Trial
from regretless.space import Scalar, Space

Objective = Callable[[dict[str, Scalar]], float]
Callback = Callable[[Optimizer, Trial, float], object]


@dataclass(frozen=True, eq=False)
class Result:
    """What a run found and what it cost; `optimizer` can be asked on."""

    optimizer: Optimizer
    interrupted: bool = False

    @property
    def best(self) -> Best:
        return self.optimizer.best()

    @property
    def history(self) -> list[Row]:
        return self.optimizer.history()

    @property
    def values(self) -> Array:
        """The observed values of the trials that were told, in the order of the trials."""
        return np.array([row.value for row in self.history if row.status == "told"], dtype=float)

    def regret(self, f_star: float) -> Array:
        """Cumulative regret against a known best value, from the (noisy) observations."""
        sign = 1.0 if self.optimizer.direction == "maximize" else -1.0
        return np.cumsum(sign * (f_star - self.values))


def maximize(f: Objective, space: Space, budget: int, **options: Any) -> Result:
    """Maximise f(params) over the space in `budget` evaluations, losing little on the way.

    policy, seed, design, n0, model   as for `Optimizer`
    executor   any concurrent.futures executor; `workers` evaluations at a time (default: its size)
    callbacks  called as callback(optimizer, trial, value) after each result; a true answer stops
    progress   a line on stderr with the current best, and the regret so far if `f_star` is given

    Ctrl-C returns what is there.  An exception in f is raised as it is, with everything told so far
    in its attribute `result` (unless it has one of its own, or can't be changed).
    """
    return _run(f, space, budget, "maximize", **options)


def minimize(f: Objective, space: Space, budget: int, **options: Any) -> Result:
    """Like `maximize`, downwards."""
    return _run(f, space, budget, "minimize", **options)


def _run(
    f: Objective,
    space: Space,
    budget: int,
    direction: Direction,
    *,
    policy: str | Policy = "ids",
    seed: int = 0,
    design: str | Sequence[Mapping[str, Scalar]] = "auto",
    n0: int | None = None,
    model: Model | None = None,
    executor: Executor | None = None,
    workers: int | None = None,
    callbacks: Iterable[Callback] = (),
    progress: bool = False,
    f_star: float | None = None,
) -> Result:
    if not callable(f):
        raise ConfigError(f"f: need a function of a dict of parameters, got {f!r}")
    optimizer = Optimizer(
        space,
        budget,
        seed=seed,
        policy=policy,
        direction=direction,
        design=design,
        n0=n0,
        model=model,
    )
    if workers is not None:
        workers = whole("workers", workers, least=1)
        if executor is None:
            raise ConfigError(f"workers: need an executor to run on, got {workers} and none")
    if executor is not None and not callable(getattr(executor, "submit", None)):
        raise ConfigError(f"executor: need one of concurrent.futures, got {executor!r}")
    if f_star is not None and not is_number(f_star):
        raise ConfigError(f"f_star: need a number, got {f_star!r}")
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
    each: list[Any] = list(callbacks) if isinstance(callbacks, Iterable) else [callbacks]
    if callable(callbacks) or not all(map(callable, each)):
        raise ConfigError(f"callbacks: need a list of functions, got {callbacks!r}")
    return each


def _size(executor: Executor) -> int:
    return int(getattr(executor, "_max_workers", None) or os.cpu_count() or 1)


def _one_by_one(f: Objective, optimizer: Optimizer, callbacks: list[Callback]) -> Result:
    trial: Trial | None = None
    try:
        for trial in optimizer:  # Ctrl-C may come here as well, while the next one is thought over
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
    running: dict[Future[float], Trial] = {}
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


def _tell(optimizer: Optimizer, trial: Trial, value: float, callbacks: list[Callback]) -> bool:
    """Tell, then call back; whether somebody wants to stop."""
    optimizer.tell(trial, value)
    return any([callback(optimizer, trial, float(value)) for callback in callbacks])


def _give_up(optimizer: Optimizer, running: Mapping[Future[float], Trial]) -> None:
    """Take the results that are there already, and wait for no others."""
    for future, trial in running.items():
        if not future.cancel() and future.done() and future.exception() is None:
            with suppress(DataError):  # one that can't be right is no result
                optimizer.tell(trial, future.result())
    for trial in optimizer.pending:
        optimizer.abandon(trial)


def _attach(error: BaseException, optimizer: Optimizer, trial: Trial | None) -> None:
    """Let the exception carry what was told before it, if it lets itself be changed."""
    where = "between two trials" if trial is None else f"in trial {trial.number}: {trial.params}"
    kept = ""
    if not hasattr(error, "result"):
        with suppress(Exception):
            error.result = Result(optimizer, interrupted=True)  # type: ignore[attr-defined]
            kept = f"; the {optimizer.observations} results told before are in its `result`"
    with suppress(Exception):
        error.add_note(f"regretless: raised {where}{kept}")


class _Progress:
    """A line on stderr, rewritten at most ten times a second."""

    def __init__(self, f_star: float | None) -> None:
        self.f_star, self.lost, self.start, self.shown = f_star, 0.0, time.monotonic(), 0.0

    def __call__(self, optimizer: Optimizer, trial: Trial, value: float) -> None:
        if self.f_star is not None:
            gap = self.f_star - value
            self.lost += gap if optimizer.direction == "maximize" else -gap
        now, last = time.monotonic(), not optimizer.remaining and not optimizer.pending
        if now - self.shown < 0.1 and not last:
            return
        self.shown = now
        done = optimizer.asked - len(optimizer.pending)
        left = (now - self.start) / done * (optimizer.budget - done)
        best = optimizer.best()
        width = 24
        bar = "#" * (width * done // optimizer.budget)
        regret = "" if self.f_star is None else f"  regret {self.lost:.4g}"
        sys.stderr.write(
            f"\r[{bar:<{width}}] {done}/{optimizer.budget}  best {best.mean:.4g}"
            f" ± {(best.high - best.low) / 2:.2g}{regret}  {left:.0f} s left   "
        )
        sys.stderr.flush()

    def close(self) -> None:
        if self.shown:
            sys.stderr.write("\n")
