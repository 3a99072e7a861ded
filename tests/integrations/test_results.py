"""What drop-ins make of trials that failed or came back with infinity; needs no framework."""

import math

from noregret.integrations._results import Results

HERE, THERE = {"x": 0.1}, {"x": 0.9}


def test_values_are_what_they_are() -> None:
    results = Results()
    assert [results.value_of(HERE, v) for v in (1.0, -2.0, 0.0)] == [1.0, -2.0, 0.0]


def test_infinite_values_are_the_extremes_so_far() -> None:
    results = Results()
    assert results.value_of(HERE, math.inf) is None
    for value in (1.0, 3.0, 7.0):
        results.value_of(HERE, value)
    assert results.value_of(THERE, math.inf) == 7.0
    assert results.value_of(THERE, -math.inf) == 1.0
    assert results.value_of(THERE, 1e300) == 7.0


def test_a_failure_is_forgotten_where_a_trial_has_worked() -> None:
    results = Results()
    results.value_of(HERE, 1.0)
    assert results.value_of(HERE, None) is None
    assert results.value_of(HERE, math.nan) is None


def test_a_failure_elsewhere_is_a_middling_result() -> None:
    results = Results()
    assert results.value_of(THERE, None) is None
    for value in (1.0, 3.0, 7.0):
        results.value_of(HERE, value)
    assert results.value_of(THERE, None) == 3.0
    assert results.value_of(THERE, math.nan) == 3.0
