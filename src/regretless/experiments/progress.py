"""Show the progress of a long job on stderr: a bar on a terminal, or a line every 30 s in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY = 30.0  # seconds between the lines of a log

Advance = Callable[[int, str], None]


@contextmanager
def progress(total: int, done: int, label: str) -> Iterator[Advance]:
    """Show progress inside a `with` block.

    Args:
        total: the amount of all work.
        done: the amount that was done before.  It does not count for the speed.
        label: what the work is.

    Yields:
        A function to call with (amount, text) whenever a piece of work is done.
    """
    if sys.stderr.isatty():
        try:
            import rich.progress  # noqa: F401
        except ImportError:
            pass
        else:
            with _bar(total, done, label) as advance:
                yield advance
            return
    with _lines(total, done, label) as advance:
        yield advance


class _Clock:
    """Estimates the remaining time from the mean speed so far."""

    def __init__(self, total: int, done: int) -> None:
        self.total, self.before, self.done = total, done, done
        self.started = time.monotonic()

    def add(self, work: int) -> None:
        self.done += work

    @property
    def left(self) -> str:
        fresh = self.done - self.before
        if fresh <= 0:
            return "?"
        return span((self.total - self.done) / fresh * (time.monotonic() - self.started))


def span(seconds: float) -> str:
    """A length of time as text: 45 s, 12 min, 3 h 20 min."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60:02d} min"


@contextmanager
def _lines(total: int, done: int, label: str) -> Iterator[Advance]:
    clock = _Clock(total, done)
    last = -float("inf")

    def advance(work: int, text: str) -> None:
        nonlocal last
        clock.add(work)
        now = time.monotonic()
        if now - last >= _EVERY or clock.done >= total:
            last = now
            share = 100 * clock.done / max(total, 1)
            print(f"{label}: {share:.1f} %, {clock.left} left, last {text}", file=sys.stderr)

    yield advance


@contextmanager
def _bar(total: int, done: int, label: str) -> Iterator[Advance]:
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

    clock = _Clock(total, done)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[left]} left"),
        TextColumn("[dim]{task.fields[last]}"),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(label, total=total, completed=done, left="?", last="")

        def advance(work: int, text: str) -> None:
            clock.add(work)
            bar.update(task, completed=clock.done, left=clock.left, last=text)

        yield advance
