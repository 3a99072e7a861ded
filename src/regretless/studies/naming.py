"""How the journal stores that a study is archived, and that it has another name.

Both can be found by an index of the table, without reading the events of a study.
"""

from __future__ import annotations

RENAMED = "renamed"  # the kind of the only row under a name that a study had before
FIRST_KEY, LAST_KEY = "archiving 000000", "archiving 999999"


def archiving_key(n: int) -> str:
    """The key of the n-th event by which a study is archived or unarchived, in turn."""
    return f"archiving {n:06d}"


def is_archived(last_key: str | None) -> bool:
    """Whether a study is archived, by the largest of these keys; None if it has none."""
    return last_key is not None and int(last_key.rpartition(" ")[2]) % 2 == 1
