"""`noregret tune`: a file with a space and an objective, worked on by one or more processes."""

from __future__ import annotations

import importlib.util
import time
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import TYPE_CHECKING, Any

from noregret.errors import ConfigError, NoRegretError
from noregret.optimizer import Direction
from noregret.space import Scalar, Space
from noregret.study import Study

if TYPE_CHECKING:
    from rich.console import Console


@dataclass(frozen=True)
class Task:
    """What a file asks to be tuned."""

    path: Path
    name: str
    space: Space
    objective: Callable[[dict[str, Scalar]], float]
    direction: Direction | None


def load(place: str) -> Task:
    """From FILE.py[:objective]; the file has `space`, the function, and perhaps `direction`."""
    file, _, name = place.partition(":")
    path, name = Path(file), name or "objective"
    if not path.is_file():
        raise ConfigError(f"file: there is no {file!r}")
    spec = importlib.util.spec_from_file_location(f"noregret_task_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise ConfigError(f"file: need a Python file, got {file!r}")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    space, objective = getattr(module, "space", None), getattr(module, name, None)
    if not isinstance(space, Space):
        raise ConfigError(f"{file}: need `space`, a noregret.Space, got {space!r}")
    if not callable(objective):
        raise ConfigError(f"{file}: need a function {name!r}, got {objective!r}")
    return Task(path, name, space, objective, getattr(module, "direction", None))


def work(task: Task, study: Study, after: Callable[[], None] = lambda: None) -> None:
    """Ask, call and tell until the budget is spent."""
    for trial in study:
        try:
            study.tell(trial, task.objective(dict(trial.params)))
        except BaseException as error:
            if not isinstance(error, NoRegretError) or trial in study.pending:
                study.abandon(trial)
            raise
        after()


def run_jobs(
    task: Task, study: Study, storage: str, name: str, jobs: int, console: Console
) -> None:
    """With a progress bar; several jobs are processes of their own that share the study."""
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
        line = bar.add_task(name, total=study.budget, completed=study.asked, best="")

        def update() -> None:
            view = study.snapshot().optimizer
            done = view.asked - len(view.pending)
            best = f"best {view.best().mean:.4g}" if view.observations else ""
            bar.update(line, completed=done, best=best)

        update()
        if jobs == 1:
            work(task, study, update)
        else:
            _many(task, storage, name, jobs, update)
        update()


def _many(task: Task, storage: str, name: str, jobs: int, update: Callable[[], None]) -> None:
    context: Any = get_context(
        "spawn"
    )  # a fresh interpreter: nothing of ours is shared by accident
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
        for worker in workers:
            worker.terminate()
            worker.join()
    failed = [worker for worker in workers if worker.exitcode]
    if failed:
        raise ConfigError(f"{task.path}: {len(failed)} of {jobs} workers failed; see above")


def _worker(place: str, storage: str, name: str) -> None:
    with Study.open(storage, name) as study:
        work(load(place), study)
