"""The watch for sudden changes of the system, while results come in."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, field
from math import hypot, sqrt

from regretless.defaults import Defaults, DriftRules
from regretless.engine.events import Jumped, Outcome
from regretless.errors import StorageError
from regretless.model import Drift, JumpTest, Observation
from regretless.results import Decision


@dataclass(eq=False)
class Watch:
    """Which jumps the results show.  `look` and `note` change it.

    It is a fold of the results, so every process sees the same jumps.  What follows from a jump
    begins with its event.
    """

    test: JumpTest
    numbers: list[int | None] = field(default_factory=list)  # the trial of each result, in order
    seen: list[Jumped] = field(default_factory=list)
    noted: list[Jumped] = field(default_factory=list)

    @classmethod
    def of(cls, drift: Drift | None, defaults: Defaults) -> Watch | None:
        """The watch before any result; None without a drift."""
        return None if drift is None else cls(JumpTest(defaults.drift, active=drift.jumps))

    def copy(self) -> Watch:
        """The same state.  A change of one does not change the other."""
        return Watch(self.test.copy(), list(self.numbers), list(self.seen), list(self.noted))

    def anew(self) -> Watch:
        """The watch before any result."""
        return Watch(JumpTest(self.test.rules, active=self.test.active))

    @property
    def pending(self) -> Jumped | None:
        """A jump that the results show and that was not noted; None if there is none."""
        known = {each.number for each in self.noted}
        return next((each for each in self.seen if each.number not in known), None)

    def look(self, number: int | None, told: Observation, surprise: float | None = None) -> None:
        """Look at the next result; `number` is None if it is from before the run."""
        place = len(self.numbers)
        self.numbers.append(number)
        if number is None:
            return
        jump = self.test.add(place, (told.x, told.y, told.weight, told.variance), surprise)
        if jump is not None:
            first = self.numbers[jump]
            assert first is not None  # results from before are not looked at
            self.seen.append(Jumped(first, number))

    def note(self, event: Jumped) -> int:
        """Take note of a jump; returns the place of the first result after it.

        Raises:
            StorageError: the trial has no result.
        """
        if event.number not in self.numbers:
            raise StorageError(f"event 'jumped': trial {event.number} has no result")
        self.noted.append(event)
        return self.numbers.index(event.number)


def surprise_of(decision: Decision, told: Outcome, rules: DriftRules) -> float | None:
    """The error of the prediction that a decision was based on, in sds.

    None if there was none, or if f was not known well at the point.
    """
    mean, sd, noise = decision.mean, decision.sd, decision.noise_sd
    if mean is None or sd is None or noise is None or not noise > 0.0:
        return None
    if sd > rules.known_share * noise:
        return None
    own = noise / sqrt(told.count) if told.sem is None else told.sem
    return (told.value - mean) / hypot(sd, own)


def warn_of(jump: Jumped) -> None:
    """Say that something changed."""
    warnings.warn(
        f"something changed at trial {jump.number} (noticed at trial {jump.noticed}): results from"
        " before count less",
        UserWarning,
        stacklevel=4,
    )
