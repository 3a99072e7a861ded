"""Who acts: a name that is stored with each event that this thread or task appends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from regretless._internal.validate import check_name

acting: ContextVar[str | None] = ContextVar("regretless_actor", default=None)


@contextmanager
def acting_as(name: str | None) -> Iterator[None]:
    """Store this name with the events that are appended inside of the block.

    Args:
        name: at most 200 printable characters; None for no name.

    Raises:
        ConfigError: the name is not valid.

    Example:
        with acting_as("nightly job"):
            study.tell(trial, 1.5)
        study.events()[-1].actor  # "nightly job"
    """
    if name is not None:
        check_name("actor", name)
    before = acting.set(name)
    try:
        yield
    finally:
        acting.reset(before)
