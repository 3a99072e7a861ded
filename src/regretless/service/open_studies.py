"""The studies that this process has open, each with its queue.

Nothing here decides anything: an open study calls the verbs of its `Study` in a thread. Four kinds
of work have threads of their own, so that none can use up those of another: verbs (milliseconds
each), asks (they compute, and those of one study wait for each other: as coroutines, not as
threads), reads (reports and pictures, computed once for each state of a study) and the opening of
studies (all events are read).
"""

from __future__ import annotations

import asyncio
import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any, ParamSpec, TypeVar

from anyio import CapacityLimiter, to_thread

from regretless.errors import RegretlessError, UnknownStudyError
from regretless.results import Trial
from regretless.service.problems import BUG
from regretless.service.schema import Summary
from regretless.studies.journal import Journal, StudyInfo
from regretless.studies.study import Snapshot, Study

# The journal has 15 connections; an ask on PostgreSQL holds one while it computes.
VERBS, ASKS, READS, OPENS = 8, 2, 2, 1
MOST_OPEN = 256  # studies; an idle one takes a few MB, and a fraction of a second to open again

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class Threads:
    """Limits on the number of threads for each kind of work."""

    def __init__(self) -> None:
        self.verbs, self.asks = CapacityLimiter(VERBS), CapacityLimiter(ASKS)
        self.reads, self.opens = CapacityLimiter(READS), CapacityLimiter(OPENS)
        self.asking = 0  # asks under way or waiting


class OpenStudy:
    """A study with its queue of asks, and its answers to questions that were asked before."""

    def __init__(self, study: Study, threads: Threads) -> None:
        self.study = study
        self._threads = threads
        self._asking = asyncio.Lock()  # first come, first served
        self._reading: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._answers: dict[
            object, tuple[int, Any]
        ] = {}  # by question: after which event, and what

    async def do(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _in_thread(self._threads.verbs, verb, *args, **kwargs)

    async def ask(self, n: int, *, key: str | None, within_budget: bool) -> list[Trial]:
        self._threads.asking += 1
        try:
            async with self._asking:
                return await _in_thread(
                    self._threads.asks,
                    lambda: self.study.ask(n, key=key, within_budget=within_budget),
                )
        finally:
            self._threads.asking -= 1

    async def read(self, question: Callable[[Snapshot], T]) -> T:
        """The answer for the study as it is now."""
        async with self._reading[question]:
            return await _in_thread(self._threads.reads, self._answer, question)

    def _answer(self, question: Callable[[Snapshot], T]) -> T:
        known: tuple[int, T] | None = self._answers.get(question)
        if known is None or known[0] != self.study.refresh():
            # Computed on a copy: the study stays free for others.
            view = self.study.snapshot()
            known = self._answers[question] = (view.seq, question(view))
        return known[1]


class OpenStudies:
    """All studies of a journal; those that were used least recently are closed."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._threads = Threads()
        self._open: OrderedDict[str, asyncio.Future[OpenStudy]] = OrderedDict()
        self._listing = asyncio.Lock()
        self._summaries: dict[str, Summary] = {}

    @property
    def asking(self) -> int:
        return self._threads.asking

    async def do(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await _in_thread(self._threads.verbs, verb, *args, **kwargs)

    async def study(self, name: str) -> OpenStudy:
        """Opened once, however many come for it at the same time."""
        if name not in self._open:
            self._open[name] = opening = asyncio.ensure_future(self._opened(name))
            opening.add_done_callback(partial(self._forget_if_failed, name))
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(name)
        # Cancelling one request does not cancel the opening for others.
        return await asyncio.shield(self._open[name])

    async def create(self, name: str, settings: dict[str, Any]) -> bool:
        """Create the study, or check that it is as given; was it created now?"""
        new = not await self.do(self.journal.last_seq, name)
        await _in_thread(self._threads.opens, Study.open, self.journal, name, **settings)
        return new

    def forget(self, name: str) -> None:
        """Open it afresh next time."""
        self._open.pop(name, None)

    async def summaries(self) -> list[Summary]:
        """A line for every study."""
        async with self._listing:
            infos = await _in_thread(self._threads.reads, self.journal.studies)
            lines = {info.name: await self._summary(info) for info in infos}
            self._summaries = lines
            return list(lines.values())

    async def _summary(self, info: StudyInfo) -> Summary:
        """Only what has changed is computed again, and what could not be read."""
        known, last = self._summaries.get(info.name), (info.events, info.last)
        if known is not None and known.error is None and (known.seq, known.updated) == last:
            return known
        try:
            opened = await self.study(info.name)
            return await opened.read(Summary.of)
        except RegretlessError as error:
            self.forget(info.name)  # what is in memory may be wrong: read it again next time
            return Summary.unreadable(info, str(error))
        except Exception:  # noqa: BLE001 (one study must not hide all the others)
            _log.exception("the summary of %r", info.name)
            return Summary.unreadable(info, BUG)

    def _forget_if_failed(self, name: str, opening: asyncio.Future[OpenStudy]) -> None:
        if opening.cancelled() or opening.exception():
            self.forget(name)

    async def _opened(self, name: str) -> OpenStudy:
        # `Study.open` would name all the studies that there are in its message.
        if not await self.do(self.journal.last_seq, name):
            raise UnknownStudyError(f"there is no study {name!r}")
        study = await _in_thread(self._threads.opens, Study.open, self.journal, name)
        return OpenStudy(study, self._threads)


async def _in_thread(
    threads: CapacityLimiter, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
) -> T:
    return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=threads)
