"""Forecasts of the studies of a service: simulations that take seconds to minutes.

A forecast is asked for, runs in a thread of its own, and is then read as often as somebody likes.
It is computed once for each state of a study.  One runs at a time in the whole service; others
wait.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Literal

from anyio import CapacityLimiter, to_thread

from regretless._internal.shown import shown
from regretless.engine import Optimizer
from regretless.errors import ConfigError, NoResultsError, RegretlessError
from regretless.forecast import forecast
from regretless.service.problems import BUG
from regretless.space import Scalar
from regretless.studies import Snapshot

MOST_TRIALS = 2000  # of one simulation: others wait meanwhile
_log = logging.getLogger(__name__)

Stage = Literal["none", "waiting", "running", "done", "failed"]


@dataclass
class Ahead:
    """One forecast, and how far it is."""

    seq: int = 0  # the last event that it knows
    draws: int = 0
    over: Mapping[str, Scalar] | None = None
    state: Stage = "none"
    done: int = 0  # simulations
    detail: str | None = None  # what went wrong
    answer: dict[str, Any] | None = None

    @property
    def is_under_way(self) -> bool:
        """Whether it still needs time."""
        return self.state in ("waiting", "running")

    def serves(self, seq: int, draws: int, over: Mapping[str, Scalar] | None) -> bool:
        """Whether it is, or will be, an answer for this state of the study."""
        same = (self.seq, self.over) == (seq, over) and self.draws >= draws
        return same and self.state != "failed"


class _Stopped(Exception):
    """The service ends."""


@dataclass
class Desk:
    """The forecasts of all studies of a service."""

    thread: CapacityLimiter = field(default_factory=lambda: CapacityLimiter(1))
    stopped: bool = False
    tasks: set[asyncio.Task[None]] = field(default_factory=set)

    def start(
        self, last: Ahead, view: Snapshot, draws: int, over: Mapping[str, Scalar] | None
    ) -> Ahead:
        """The forecast for this state of a study: the last one, or a new one that begins now.

        While one is under way for the study, it is returned, even if it is older.

        Raises:
            NoResultsError: no result was told yet.
            ConfigError: the study has contexts, or more trials are left than a service simulates.
            SpaceError: `over` is not in the space.
        """
        left = view.optimizer.remaining
        if view.optimizer.contexts is not None:
            raise ConfigError(
                "forecast: not for a run with contexts, because the next contexts are not known"
            )
        if left > MOST_TRIALS:
            raise ConfigError(
                f"forecast: a service simulates at most {MOST_TRIALS} trials, and"
                f" {shown(left)} are left: use Study.forecast in a program of your own"
            )
        if last.is_under_way or last.serves(view.seq, draws, over):
            return last
        if not view.optimizer.observations:
            raise NoResultsError("forecast: no result was told yet; tell one first")
        if over is not None:
            over = view.optimizer.space.validate(over)
        ahead = Ahead(view.seq, draws, over, "waiting")
        task = asyncio.create_task(self._run(ahead, view.optimizer))
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return ahead

    async def _run(self, ahead: Ahead, optimizer: Optimizer) -> None:
        try:
            work = partial(self._simulate, ahead, optimizer)
            ahead.answer = await to_thread.run_sync(work, limiter=self.thread)
            ahead.state = "done"
        except RegretlessError as error:
            ahead.state, ahead.detail = "failed", str(error)
        except _Stopped:
            ahead.state, ahead.detail = "failed", "the service ends"
        except Exception:  # noqa: BLE001 (a bug, which must not end the service)
            _log.exception("a forecast")
            ahead.state, ahead.detail = "failed", BUG

    def _simulate(self, ahead: Ahead, optimizer: Optimizer) -> dict[str, Any]:
        ahead.state = "running"

        def progress(done: int, _: int) -> None:
            ahead.done = done
            if self.stopped:
                raise _Stopped

        progress(0, ahead.draws)
        found = forecast(optimizer, draws=ahead.draws, over=ahead.over, progress=progress)
        return found.to_json() | {"sentence": str(found)}
