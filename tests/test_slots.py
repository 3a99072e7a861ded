"""Which slots of an allocation belong to which row."""

import random
from itertools import pairwise
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regretless.engine.slots import SLOTS, assign_slots
from regretless.errors import ConfigError

SHARES = st.dictionaries(
    st.integers(0, 30), st.one_of(st.just(0.0), st.floats(1e-6, 1.0)), min_size=1, max_size=12
).filter(lambda shares: sum(shares.values()) > 0)


def sizes(table):
    return {row: sum(end - start for start, end in ranges) for row, ranges in table.items()}


def owners(table, slots):
    """The row of each slot, which fails if a slot has two rows."""
    found = [None] * slots
    for row, ranges in table.items():
        for start, end in ranges:
            assert 0 <= start < end <= slots
            assert found[start:end] == [None] * (end - start)
            found[start:end] = [row] * (end - start)
    return found


def largest_remainder(shares, slots):
    total = sum(shares[row] for row in sorted(shares))
    exact = {row: shares[row] / total * slots for row in sorted(shares)}
    counts = {row: int(each) for row, each in exact.items()}
    for row in sorted(exact, key=lambda row: counts[row] - exact[row])[
        : slots - sum(counts.values())
    ]:
        counts[row] += 1
    return counts


def check(shares, before, after, slots):
    assert list(after) == list(shares)
    assert None not in owners(after, slots)  # every slot belongs to one row
    counts = sizes(after)
    assert counts == largest_remainder(shares, slots)
    old, new = owners(before, slots), owners(after, slots)
    had = sizes(before)
    # A row loses a slot only if it gets fewer: this is the smallest number of moves.
    fewest = sum(max(0, count - counts.get(row, 0)) for row, count in had.items())
    assert sum(a is not None and a != b for a, b in zip(old, new, strict=True)) == fewest
    for ranges in after.values():  # neighbours are one range
        assert all(a[1] < b[0] for a, b in pairwise(ranges))


@given(SHARES, st.lists(SHARES, max_size=6), st.sampled_from([1, 7, 100, SLOTS]))
def test_each_row_has_its_share_and_keeps_its_slots(first, later, slots):
    before = {}
    for shares in [first, *later]:
        after = assign_slots(shares, before, slots)
        check(shares, before, after, slots)
        before = after


@given(SHARES, SHARES, st.randoms())
def test_the_order_of_the_mappings_does_not_matter(first, second, rng):
    before = assign_slots(first, {})
    after = assign_slots(second, before)

    def shuffled(mapping):
        return dict(rng.sample(list(mapping.items()), len(mapping)))

    assert assign_slots(shuffled(second), shuffled(before)) == after


@given(SHARES)
def test_without_a_change_nothing_moves(shares):
    table = assign_slots(shares, {})
    assert assign_slots(shares, table) == table
    assert all(len(ranges) <= 1 for ranges in table.values())


def test_ranges_may_be_lists():
    """JSON has lists where Python has tuples."""
    assert assign_slots({1: 1, 2: 1}, {1: [[0, 10]]}, 10) == {1: ((0, 5),), 2: ((5, 10),)}


def test_ranges_stay_few_over_many_versions():
    """Rows come and go and their shares wander, 1000 times, as in a study that runs for days."""
    rng = random.Random(0)
    table, shares, most = {}, {row: rng.random() for row in range(8)}, 0
    for version in range(1000):
        shares = {row: share * rng.uniform(0.6, 1.6) for row, share in shares.items()}
        shares.pop(min(shares, key=shares.get))
        shares[8 + version] = rng.random() * 0.3 * sum(shares.values())
        table = assign_slots(shares, table)
        most = max(most, sum(map(len, table.values())))
    assert most <= 60  # for 8 rows


@pytest.mark.parametrize("shares", [{}, {1: 0.0}, {1: 0.5, 2: -0.1}, {1: nan}, {1: inf}])
def test_shares_that_make_no_sense(shares):
    with pytest.raises(ConfigError, match="shares"):
        assign_slots(shares, {})
