"""The studies that this process has open, each with its queue of asks.

An open study calls the verbs of its `Study` in a thread.  There are four kinds of work, each with
its own number of threads, so that none can use up the threads of another:

- verbs, which take milliseconds;
- asks, which compute; those of one study wait for each other, without holding a thread; one more
  thread works out trials before they are asked for, and one fits models ahead (`asks.py`);
- reads: reports and data of the page, computed once for each state of a study;
- the opening of studies, which reads all of their events.

Forecasts take longer than all of these, and have a thread of their own (`forecasts.py`).

A database that does not answer must not use up the threads.  One study has at most two of those for
verbs.  While the database is silent, half of each kind go on trying, and other requests are refused
at once.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import OrderedDict, defaultdict, deque
from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, NamedTuple, ParamSpec, TypeVar, cast

from anyio import CapacityLimiter, to_thread

from regretless.engine import Increment
from regretless.errors import RegretlessError, StorageError, UnknownStudyError
from regretless.results import Allocation, Trial
from regretless.service.asks import Asks
from regretless.service.forecasts import Ahead, Desk
from regretless.service.problems import BUG
from regretless.service.schema import Summary
from regretless.service.together import Together
from regretless.space import Scalar
from regretless.studies.journal import Journal, StudyInfo
from regretless.studies.serving import Report
from regretless.studies.study import Snapshot, Study, rename_study

# The journal has 15 connections; an ask on PostgreSQL holds one while it computes.
VERBS, ASKS, READS, OPENS = 8, 2, 2, 1
VERBS_OF_ONE = 2  # of one study: they take turns, so more threads would only wait
STALL_SECONDS = 5.0  # after so long without an answer, the database counts as silent
READY_SECONDS = 3.0  # for the answer of the readiness check
MOST_REPORTS = 200  # that are written together
CROWD, CROWD_SECONDS = 16, 4.0  # so many readers in so many seconds share answers,
PATIENCE = 20.0  # which are computed again when they are so many times as old as that takes
LONGEST = 10.0  # seconds: or when they are so old
MOST_OPEN = 256  # studies; an idle one takes a few MB, and a fraction of a second to open again

_log = logging.getLogger(__name__)

P = ParamSpec("P")
T = TypeVar("T")


class _Known(NamedTuple):
    """An answer to a question about a study."""

    seq: int  # the number of the last event that it knows
    answer: Any
    began: float  # when it was begun
    seconds: float  # of the processor that it took


class Threads:
    """Limits on the number of threads for each kind of work."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.verbs, self.asks = CapacityLimiter(VERBS), CapacityLimiter(ASKS)
        self.prepares, self.fits = CapacityLimiter(1), CapacityLimiter(1)
        self.reads, self.opens = CapacityLimiter(READS), CapacityLimiter(OPENS)
        self.ready = CapacityLimiter(1)
        self.forecasts = Desk()
        self.asking = 0  # asks under way or waiting

    async def run(
        self, threads: CapacityLimiter, work: Callable[P, T], *args: P.args, **kwargs: P.kwargs
    ) -> T:
        """Do the work in one of the threads.

        Raises:
            StorageError: the database is silent, and enough threads are waiting for it.
        """
        many = 2 * threads.borrowed_tokens >= threads.total_tokens
        if many and self._journal.stalled > STALL_SECONDS:
            raise StorageError(f"{self._journal.label}: the database does not answer")
        return await to_thread.run_sync(partial(work, *args, **kwargs), limiter=threads)


class OpenStudy:
    """A study with its queue of asks.  It keeps what `read` has computed until the next event."""

    def __init__(self, study: Study, threads: Threads) -> None:
        self.study = study
        self._threads = threads
        self._doing = asyncio.Semaphore(VERBS_OF_ONE)
        self._asks = Asks(study, threads)
        self._reading: defaultdict[object, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._answers: dict[object, _Known] = {}  # by question
        self._renewing: dict[object, asyncio.Task[None]] = {}  # by question
        self._changed = 0.0  # when something changed that every reader is to see at once
        self._readers: defaultdict[object, deque[float]] = defaultdict(partial(deque, maxlen=CROWD))
        self._ahead = Ahead()
        self._reports: Together[Report, None] = Together(self._write_reports, most=MOST_REPORTS)

    async def do(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a verb that takes milliseconds."""
        async with self._doing:
            return await self._threads.run(self._threads.verbs, verb, *args, **kwargs)

    @property
    def ask(self) -> Callable[..., Awaitable[list[Trial]]]:
        """`Study.ask`, see `Asks.ask`."""
        return self._asks.ask

    async def learn(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a verb that takes milliseconds, and then work out what is to be tried next."""
        done = await self.do(verb, *args, **kwargs)
        self._asks.prepare()
        return done

    async def allocate(
        self, arms: int, *, ttl: float, delay: float, end_early: float
    ) -> Allocation:
        """`Study.allocate`; the table that is in use is handed out without waiting for asks."""
        settings = {"ttl": ttl, "delay": delay, "end_early": end_early}
        known = await self.do(self.study.current_table, arms, **settings)
        if known is not None:
            return known
        make = partial(self.study.allocate, arms, ttl=ttl, delay=delay, end_early=end_early)
        async with self._asks.turn:
            return await self._threads.run(self._threads.asks, make)

    async def report(
        self, increments: tuple[Increment, ...], key: str | None, time: datetime | None
    ) -> None:
        """`Study.report`.  Those that come while others are written are written together."""
        await self._reports.ask((increments, key, time))

    async def _write_reports(self, reports: list[Report]) -> Sequence[Exception | None]:
        return await self.do(self.study.report_all, reports)

    async def change(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Call a verb that takes milliseconds, and whose effect every reader is to see at once."""
        done = await self.do(verb, *args, **kwargs)
        self._changed = time.monotonic()
        return done

    async def read(self, question: Callable[[Snapshot], T], *, shared: bool = False) -> T:
        """What `question` returns for the study as it is now, computed once for each state.

        With `shared`, while many read, they share the last answer, and nobody waits for the next
        one.  That is begun when the last one is some times as old as it took to compute.  Otherwise
        a busy study with many readers would do nothing else.
        """
        arrived = time.monotonic()
        recent = self._readers[question]
        recent.append(arrived)
        crowded = shared and len(recent) == CROWD and arrived - recent[0] < CROWD_SECONDS
        known = self._answers.get(question) if crowded else None
        if known is not None and known.began > self._changed:
            old = known.began < arrived - min(PATIENCE * known.seconds, LONGEST)
            if old and not self._reading[question].locked():
                self._renewing[question] = asyncio.create_task(self._renew(question))
            return cast(T, known.answer)
        return await self._read(question, arrived)

    async def _read(self, question: Callable[[Snapshot], T], arrived: float) -> T:
        async with self._reading[question]:
            known = self._answers.get(question)
            if known is not None and known.began >= arrived:  # made while this one waited
                return cast(T, known.answer)
            return await self._threads.run(self._threads.reads, self._answer, question)

    async def _renew(self, question: Callable[[Snapshot], object]) -> None:
        """Compute an answer again that a crowd shares; meanwhile nobody waits for it."""
        try:
            await self._read(question, time.monotonic())
        except Exception:  # noqa: BLE001 (who reads next gets it)
            self._answers.pop(question, None)

    async def start_forecast(self, draws: int, over: Mapping[str, Scalar] | None) -> Ahead:
        """The forecast for the study as it is now; it begins if there is none."""
        view = await self.do(self.study.snapshot)
        self._ahead = self._threads.forecasts.start(self._ahead, view, draws, over)
        return self._ahead

    @property
    def ahead(self) -> Ahead:
        """The last forecast."""
        return self._ahead

    def _answer(self, question: Callable[[Snapshot], T]) -> T:
        known, began, used = self._answers.get(question), time.monotonic(), time.thread_time()
        if known is None or known.seq != self.study.refresh():
            # Computed on a copy: the study stays free for others.
            view = self.study.snapshot()
            answer = question(view)
            known = _Known(view.seq, answer, began, time.thread_time() - used)
            self.study.take_posterior_of(view)
        else:  # it is right up to now
            known = known._replace(began=began)
        self._answers[question] = known
        return cast(T, known.answer)


class OpenStudies:
    """All studies of a journal.  Above `MOST_OPEN`, the one not used for longest is closed."""

    def __init__(self, journal: Journal) -> None:
        self.journal = journal
        self._threads = Threads(journal)
        self._open: OrderedDict[str, asyncio.Future[OpenStudy]] = OrderedDict()
        self._checking: asyncio.Future[int] | None = None  # for `ready`
        self._listing = asyncio.Lock()
        self._summaries: dict[str, Summary] = {}

    @property
    def asking(self) -> int:
        """How many asks are under way or waiting."""
        return self._threads.asking

    def stop(self) -> None:
        """End forecasts that are under way, after the simulation that they are at."""
        self._threads.forecasts.stopped = True

    async def do(self, verb: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._threads.run(self._threads.verbs, verb, *args, **kwargs)

    async def study(self, name: str) -> OpenStudy:
        """The study of this name.  Requests that come at the same time share one opening."""
        if name not in self._open:
            self._open[name] = opening = asyncio.ensure_future(self._opened(name))
            opening.add_done_callback(partial(self._forget_if_failed, name))
            if len(self._open) > MOST_OPEN:
                self._open.popitem(last=False)
        self._open.move_to_end(name)
        # Cancelling one request does not cancel the opening for others.
        return await asyncio.shield(self._open[name])

    async def create(self, name: str, settings: dict[str, Any]) -> bool:
        """Create the study, or check that it has these settings; True if it was created now."""
        new = not await self.do(self.journal.last_seq, name)
        await self._threads.run(self._threads.opens, Study.open, self.journal, name, **settings)
        return new

    async def ready(self) -> bool:
        """Whether the database answers soon.

        The check has a thread of its own, which requests that come together share.
        """
        if self._checking is None or self._checking.done():
            look = to_thread.run_sync(self.journal.last_seq, "ready?", limiter=self._threads.ready)
            self._checking = asyncio.ensure_future(look)
        checking = self._checking
        await asyncio.wait({checking}, timeout=READY_SECONDS)
        if not checking.done():
            return False
        failed = checking.exception()
        if failed is not None and not isinstance(failed, StorageError):
            raise failed
        return failed is None

    async def rename(self, old: str, new: str) -> None:
        """Give the study a new name; requests under way with the old one get an error."""
        await self.do(rename_study, self.journal, old, new)
        self.forget(old)
        self.forget(new)

    def forget(self, name: str) -> None:
        """Open the study again when it is used next."""
        self._open.pop(name, None)

    async def summaries(self, archived: bool = False) -> list[Summary]:
        """One line about each study, by name; the archived ones only if they are asked for."""
        async with self._listing:
            infos = await self._threads.run(self._threads.reads, self.journal.studies)
            wanted = [info for info in infos if archived or not info.archived]
            lines = {info.name: await self._summary(info) for info in wanted}
            names = {info.name for info in infos}
            known = {name: line for name, line in self._summaries.items() if name in names}
            self._summaries = known | lines
            return list(lines.values())

    async def _summary(self, info: StudyInfo) -> Summary:
        """The line about a study; computed anew if it has new events or could not be read."""
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
        # Not left to `Study.open`, whose message lists the names of all studies.
        if not await self.do(self.journal.last_seq, name):
            raise UnknownStudyError(f"there is no study {name!r}")
        study = await self._threads.run(self._threads.opens, Study.open, self.journal, name)
        return OpenStudy(study, self._threads)
