"""Those who wait for the same kind of answer are answered together.

What takes a while, such as a sync of the disk or a batch of proposals, then happens once for all
who came meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from regretless.studies.actor import acting, acting_as

W = TypeVar("W")
A = TypeVar("A")


@dataclass(frozen=True, eq=False)
class _Waiting(Generic[W, A]):
    """Somebody who was not answered yet."""

    wish: W
    actor: str | None
    answer: asyncio.Future[A]


class Together(Generic[W, A]):
    """Answers wishes in batches.  All methods are called in the event loop.

    Args:
        answer: the answers to some wishes, in their order; an exception is raised to who waits.
        most: the most wishes that are answered together.
        turn: held while wishes are answered; None if nobody else has to wait for them.
    """

    def __init__(
        self,
        answer: Callable[[list[W]], Awaitable[Sequence[A | Exception]]],
        most: int | None = None,
        turn: asyncio.Lock | None = None,
    ) -> None:
        self._answer, self._most, self._turn = answer, most, turn or asyncio.Lock()
        self._waiting: list[_Waiting[W, A]] = []
        self._serving: asyncio.Task[None] | None = None

    async def ask(self, wish: W) -> A:
        """The answer to a wish."""
        answer: asyncio.Future[A] = asyncio.get_running_loop().create_future()
        self._waiting.append(_Waiting(wish, acting.get(), answer))
        if self._serving is None or self._serving.done():
            self._serving = asyncio.create_task(self._serve())
        return await answer

    async def _serve(self) -> None:
        """Answer all who wait."""
        while self._waiting:
            async with self._turn:
                await self._serve_some()

    async def _serve_some(self) -> None:
        """Answer those who wait and have the name of the first, because it is stored."""
        actor = self._waiting[0].actor
        these = [each for each in self._waiting if each.actor == actor][: self._most]
        taken = set(map(id, these))
        self._waiting = [each for each in self._waiting if id(each) not in taken]
        these = [each for each in these if not each.answer.done()]  # who still waits
        if not these:
            return
        answers: Sequence[A | Exception]
        try:
            with acting_as(actor):
                answers = await self._answer([each.wish for each in these])
        except Exception as error:  # noqa: BLE001 (those who wait get it)
            answers = [error] * len(these)
        for each, answer in zip(these, answers, strict=True):
            if each.answer.done():
                continue
            if isinstance(answer, Exception):
                each.answer.set_exception(answer)
            else:
                each.answer.set_result(answer)
