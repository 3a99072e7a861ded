"""The asks of one study: answered together, and worked out before anybody asks.

Asks that wait are answered as one batch.  After a tell, the next trial is worked out in the
background, so that it can be handed out at once.  As long as asks come more slowly than they can be
worked out, everybody gets what the plain library would choose.  When they come faster, the study is
in a *hurry*: trials are chosen without a search of their own, see `studies/stock.py`.

Nothing is computed in the event loop, and an idle study costs nothing: after a few trials that were
prepared in vain, there is no further one until the next ask.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from regretless.errors import RegretlessError
from regretless.results import Trial
from regretless.service.together import Together
from regretless.space import Scalar
from regretless.studies import Study, Wish
from regretless.studies.asking import Answer

if TYPE_CHECKING:
    from regretless.service.open_studies import Threads

MOST_IN_VAIN = 3  # times that trials are prepared although nobody asks
# In a hurry, those who ask need the processor as well.
SEARCH_SHARE, FIT_SHARE = 0.5, 0.2  # at most such shares of the time are for searches and fits
RATE_SECONDS = 2.0  # the rate of asks is that of so many seconds, at least


class Pace:
    """How fast asks come, and how long it takes to work one out with a search."""

    def __init__(self) -> None:
        self._asked: deque[float] = deque(maxlen=1000)
        self.seconds = 0.0  # of the last computations, an average

    def note_ask(self) -> None:
        self._asked.append(time.monotonic())

    def note_work(self, seconds: float) -> None:
        self.seconds += 0.3 * (seconds - self.seconds) if self.seconds else seconds

    @property
    def due(self) -> float:
        """How many asks come while one is worked out."""
        window = max(RATE_SECONDS, 5.0 * self.seconds)  # who waits does not ask again
        since = time.monotonic() - window
        while self._asked and self._asked[0] < since:
            self._asked.popleft()
        return len(self._asked) / window * self.seconds


class Asks:
    """The asks of one study.  All methods are called in the event loop."""

    def __init__(self, study: Study, threads: Threads) -> None:
        self._study, self._threads = study, threads
        self.turn = asyncio.Lock()  # of those who compute; first come, first served
        self._together: Together[Wish, Trial] = Together(self._answers, turn=self.turn)
        self._pace = Pace()
        self._in_vain = 0
        self._preparing: asyncio.Task[None] | None = None
        self._fitting: asyncio.Task[None] | None = None

    async def ask(
        self,
        n: int,
        *,
        key: str | None,
        within_budget: bool,
        context: Mapping[str, Scalar] | None = None,
    ) -> list[Trial]:
        """`Study.ask`, after the asks of this study that came before."""
        self._pace.note_ask()
        self._in_vain = 0
        self._threads.asking += 1
        try:
            if n == 1 and context is None:
                wish = Wish(self._study.ask_key(key), within_budget)
                return [await self._together.ask(wish)]
            async with self.turn:
                return await self._threads.run(
                    self._threads.asks,
                    lambda: self._study.ask(
                        n, key=key, within_budget=within_budget, context=context
                    ),
                )
        finally:
            self._threads.asking -= 1

    def prepare(self) -> None:
        """Work out what is asked for next, in the background, if somebody is likely to ask."""
        if self._in_vain < MOST_IN_VAIN and _is_over(self._preparing):
            self._preparing = asyncio.create_task(self._prepare())

    async def _answers(self, wishes: list[Wish]) -> list[Answer]:
        """The answers to all who wait."""
        hurry = len(wishes) > 1 or self._pace.due > 1.0
        each = partial(self._study.ask_each, wishes, hurry=hurry)
        answers = await self._threads.run(self._threads.asks, each)
        if self._pace.due > 1.0:
            self.prepare()
        return answers

    # -- preparing ---------------------------------------------------------------------------------

    async def _prepare(self) -> None:
        hurry, start = self._pace.due > 1.0, time.monotonic()
        prepare = partial(self._study.prepare, hurry=hurry)
        with suppress(RegretlessError):  # whoever asks next gets it
            if await self._threads.run(self._threads.prepares, prepare):
                self._in_vain += 1
                self._pace.note_work(time.monotonic() - start)
        if hurry:
            if _is_over(self._fitting):
                self._fitting = asyncio.create_task(self._fit())
            await _rest(start, SEARCH_SHARE)

    async def _fit(self) -> None:
        start = time.monotonic()
        with suppress(RegretlessError):  # whoever asks next gets it
            await self._threads.run(self._threads.fits, self._study.prepare_fit)
        await _rest(start, FIT_SHARE)


async def _rest(start: float, share: float) -> None:
    """Wait, so that what began at `start` took only this share of the time."""
    await asyncio.sleep((time.monotonic() - start) * (1.0 / share - 1.0))


def _is_over(task: asyncio.Task[None] | None) -> bool:
    return task is None or task.done()
