"""Which slots of an allocation belong to which row.

A client hashes each unit (a user's id) to one of `SLOTS` slots, and an allocation gives each slot
to a row.  A new allocation moves as few slots as it can, because each slot that moves takes its
units from one setting to another.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import floor, inf, isfinite

from regretless._internal.shown import shown
from regretless.errors import ConfigError

SLOTS = 10_000

Range = tuple[int, int]  # half-open: (0, 3) has the slots 0, 1 and 2
Ranges = tuple[Range, ...]


def assign_slots(
    shares: Mapping[int, float], before: Mapping[int, Iterable[Range]], slots: int = SLOTS
) -> dict[int, Ranges]:
    """The slots of each row, as half-open ranges in ascending order.

    Each row gets its share of the slots, rounded by the method of the largest remainder; a row
    with a very small share may get none.  A row that was there before keeps its slots, and gives
    up some only if it gets fewer.  So no way of giving each row its number moves fewer slots.
    The same arguments lead to the same answer, whatever the order of the mappings.

    Args:
        shares: the share of each row, 0 or more; they need not add up to 1.
        before: the ranges that each row had; rows that are not in `shares` give up theirs.
        slots: how many slots there are.

    Raises:
        ConfigError: a share is negative or not finite, or all are 0.
    """
    counts = _counts(shares, slots)
    kept = {row: _kept(before.get(row, ()), count) for row, count in counts.items()}
    free = _gaps(kept.values(), slots)
    needs = {row: count - _size(kept[row]) for row, count in counts.items()}
    needs = {row: need for row, need in needs.items() if need}
    _grow(kept, needs, free)
    _fill(kept, needs, free)
    return {row: _joined(kept[row]) for row in shares}


def _counts(shares: Mapping[int, float], slots: int) -> dict[int, int]:
    """How many slots each row gets: the method of the largest remainder, in ascending order."""
    for row, share in shares.items():
        if not (isfinite(share) and share >= 0):
            raise ConfigError(f"shares: need 0 or more, got {shown(share)} for row {row}")
    total = sum(shares[row] for row in sorted(shares))
    if not 0 < total < inf:
        raise ConfigError("shares: need a row with a share above 0, and a finite sum")
    exact = {row: shares[row] / total * slots for row in sorted(shares)}
    counts = {row: floor(each) for row, each in exact.items()}
    by_remainder = sorted(exact, key=lambda row: (counts[row] - exact[row], row))
    for row in by_remainder[: slots - sum(counts.values())]:
        counts[row] += 1
    return counts


def _kept(ranges: Iterable[Range], count: int) -> list[Range]:
    """What a row keeps of its ranges: all, or `count` slots, in as few ranges as possible."""
    kept = []
    for start, end in sorted(ranges, key=lambda each: (each[0] - each[1], each[0])):
        if count > 0:
            kept.append((start, min(end, start + count)))
            count -= end - start
    return kept


def _gaps(taken: Iterable[list[Range]], slots: int) -> list[Range]:
    """The ranges that nobody has."""
    gaps, at = [], 0
    for start, end in sorted(each for ranges in taken for each in ranges):
        if start > at:
            gaps.append((at, start))
        at = end
    return [*gaps, (at, slots)] if at < slots else gaps


def _grow(kept: dict[int, list[Range]], needs: dict[int, int], free: list[Range]) -> None:
    """Let ranges grow into the gaps beside them, which makes no new range."""
    for row in [row for row in needs if kept[row]]:
        ends = {end for _, end in kept[row]}
        starts = {start for start, _ in kept[row]}
        for gap in list(free):
            start, end = gap
            take = min(needs[row], end - start)
            if not take or not (start in ends or end in starts):
                continue
            free.remove(gap)
            if start in ends:
                kept[row].append((start, start + take))
                start += take
            else:
                kept[row].append((end - take, end))
                end -= take
            needs[row] -= take
            if start < end:
                free.append((start, end))


def _fill(kept: dict[int, list[Range]], needs: dict[int, int], free: list[Range]) -> None:
    """Give the largest gap to the row that needs most, until all have what they need."""
    while free:
        start, end = free.pop(max(range(len(free)), key=lambda i: (_length(free[i]), -free[i][0])))
        row = max(needs, key=lambda each: (needs[each], -each))
        take = min(needs[row], end - start)
        kept[row].append((start, start + take))
        needs[row] -= take
        if start + take < end:
            free.append((start + take, end))


def _joined(ranges: list[Range]) -> Ranges:
    """The ranges in ascending order; neighbours become one."""
    joined: list[Range] = []
    for start, end in sorted(ranges):
        if joined and joined[-1][1] == start:
            start = joined.pop()[0]
        joined.append((start, end))
    return tuple(joined)


def _length(each: Range) -> int:
    return each[1] - each[0]


def _size(ranges: list[Range]) -> int:
    return sum(_length(each) for each in ranges)
