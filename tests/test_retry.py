"""Patience: pauses that grow, a deadline, and a number of tries."""

import time

import pytest

from regretless._internal.retry import Patience


class Clock:
    """Time that passes only while somebody sleeps."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.slept = 100.0, []
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "sleep", self.sleep)

    def sleep(self, seconds: float) -> None:
        self.slept.append(round(seconds, 9))
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


def test_pauses_grow_up_to_the_longest(clock: Clock) -> None:
    patience = Patience(first=0.5, longest=3.0, _begun=100.0)
    assert all(patience.pause() for _ in range(5))
    assert clock.slept == [0.5, 1.0, 2.0, 3.0, 3.0]


def test_the_last_pause_ends_when_the_time_is_up(clock: Clock) -> None:
    patience = Patience(first=1.0, seconds=4.5, _begun=100.0)
    while patience.pause():
        pass
    assert clock.slept == [1.0, 2.0, 1.5]
    assert not patience.pause()


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_without_patience_nobody_waits(clock: Clock, seconds: float) -> None:
    assert not Patience(first=1.0, seconds=seconds, _begun=100.0).pause()
    assert clock.slept == []


def test_so_many_tries(clock: Clock) -> None:
    patience = Patience(first=0.04, factor=4.0, tries=2)
    assert [patience.pause() for _ in range(3)] == [True, True, False]
    assert clock.slept == [0.04, 0.16]


def test_jitter_makes_pauses_shorter(clock: Clock) -> None:
    patience = Patience(first=1.0, factor=1.0, jitter=0.5)
    assert all(patience.pause() for _ in range(200))
    assert 0.5 <= min(clock.slept) < 0.6
    assert 0.9 < max(clock.slept) <= 1.0
