"""`regretless tune`: a file with a space and an objective, worked on by one or more processes."""

from __future__ import annotations

import importlib.util
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regretless._internal.retry import Patience
from regretless.asktell import AskTell
from regretless.engine import Direction, outcomes_of
from regretless.errors import ConfigError, RegretlessError, StorageError
from regretless.results import Trial
from regretless.safety import Measured, returned
from regretless.space import Scalar, Space
from regretless.studies import Study

if TYPE_CHECKING:
    from rich.console import Console

PATIENCE = 10.0  # seconds for a worker to give up its trial after Ctrl-C
STORAGE_PATIENCE = 300.0  # seconds for a storage that is away to come back


@dataclass(frozen=True)
class Task:
    """What a file says is to be tuned."""

    path: Path
    name: str
    space: Space
    objective: Callable[[dict[str, Scalar]], Any]
    direction: Direction | None


def load(place: str) -> Task:
    """Load a task from FILE.py[:objective].

    The file has `space`, the function, and perhaps `direction`.

    Raises:
        ConfigError: the file, its `space` or the function is missing.
    """
    bare = place.endswith(".py") or ":" not in place
    file, _, name = (place, "", "") if bare else place.rpartition(":")
    path, name = Path(file), name or "objective"
    if not path.is_file():
        raise ConfigError(f"file: there is no {file!r}")
    # Another process that unpickles a function of the file imports it under its own name.
    known_as = path.stem if path.stem not in sys.modules else f"regretless_task_{path.stem}"
    spec = importlib.util.spec_from_file_location(known_as, path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"file: need a Python file, got {file!r}")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.resolve().parent))  # the file may import its neighbours
    sys.modules[known_as] = module  # dataclasses look there
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[known_as]  # nobody shall import a module that ran only in part
        raise
    space, objective = getattr(module, "space", None), getattr(module, name, None)
    if not isinstance(space, Space):
        raise ConfigError(f"{file}: need `space`, a regretless.Space, got {space!r}")
    if not callable(objective):
        raise ConfigError(f"{file}: need a function {name!r}, got {objective!r}")
    return Task(path, name, space, objective, getattr(module, "direction", None))


def work(
    task: Task, study: AskTell, trials: Iterable[Trial], after: Callable[[], None] = lambda: None
) -> None:
    """Evaluate trials one by one and tell their results.

    A trial whose evaluation fails is abandoned, and the exception is raised.

    Args:
        task: what to evaluate.
        study: whom to tell.
        trials: the trials to evaluate; `study` itself gives new ones until the budget is spent.
        after: called after each result.
    """
    for trial in trials:
        try:
            value, metrics = returned(task.objective(dict(trial.params)))
            outcomes_of(value, None, 1, metrics)
        except BaseException:
            with suppress(RegretlessError):  # the first exception matters more
                study.abandon(trial)
            raise
        _tell(study, trial, value, metrics)
        after()


def _tell(
    study: AskTell, trial: Trial, value: float | None, metrics: Mapping[str, Measured] | None = None
) -> None:
    """Tell a result; while the storage is away, try again for up to five minutes."""
    patience = Patience(first=0.5, longest=10.0, seconds=STORAGE_PATIENCE)
    while True:
        try:
            study.tell(trial, value, metrics=metrics)
            return
        except KeyboardInterrupt:
            with suppress(StorageError):
                study.tell(trial, value, metrics=metrics)
            raise
        except StorageError as error:
            if not patience.pause():
                raise _unstored(error, trial, value) from error


def _unstored(error: StorageError, trial: Trial, value: float | None) -> StorageError:
    advice = (
        f"trial {trial.number} is still pending; store its result with"
        f" `regretless tell STUDY {trial.number} {value!r}`"
    )
    return type(error)(f"{error}: {advice}")


def run_jobs(
    task: Task,
    study: Study,
    storage: str,
    jobs: int,
    console: Console,
    redo_pending: bool = False,
) -> None:
    """Until the budget is spent, with a progress bar."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[best]}"),
    )
    with Progress(*columns, console=console) as bar:
        line = bar.add_task(study.name, total=study.budget, best="")

        def update() -> None:
            view = study.snapshot().optimizer
            done = view.asked - len(view.pending)
            best = f"best {view.best().mean:.4g}" if view.observations else ""
            bar.update(line, completed=done, best=best)

        update()
        if redo_pending:
            work(task, study, study.pending, update)
        if jobs == 1:
            work(task, study, study, update)
        else:
            _many(task, storage, study.name, jobs, update)
        update()


def _many(task: Task, storage: str, name: str, jobs: int, update: Callable[[], None]) -> None:
    """Evaluate in several processes that share nothing but the study."""
    context = get_context("spawn")  # a fresh interpreter inherits no connections or locks
    place = f"{task.path}:{task.name}"
    workers: list[BaseProcess] = [
        context.Process(target=_worker, args=(place, storage, name)) for _ in range(jobs)
    ]
    for worker in workers:
        worker.start()
    try:
        while any(worker.is_alive() for worker in workers):
            time.sleep(0.2)
            update()
    finally:
        _stop(workers)
    failed = [worker for worker in workers if worker.exitcode]
    if failed:
        error = RegretlessError(f"{task.path}: {len(failed)} of {jobs} workers failed; see above")
        error.exit_code = max(1, *(worker.exitcode or 1 for worker in failed))  # as with one job
        raise error


def _stop(workers: list[BaseProcess]) -> None:
    """Ask the workers to abandon their trials and stop; end those that do not."""
    for worker in workers:
        if worker.is_alive() and worker.pid is not None and os.name == "posix":
            os.kill(worker.pid, signal.SIGINT)  # Ctrl-C may have reached only this process
    deadline = time.monotonic() + PATIENCE
    for worker in workers:
        worker.join(max(0.0, deadline - time.monotonic()))
        worker.terminate()
        worker.join()


def _worker(place: str, storage: str, name: str) -> None:
    try:
        with Study.open(storage, name) as study:
            work(load(place), study, study)
    except KeyboardInterrupt:
        sys.exit(130)
    except RegretlessError as error:
        sys.stderr.write(f"regretless: {error}\n")
        sys.exit(error.exit_code)
