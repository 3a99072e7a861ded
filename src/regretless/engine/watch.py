"""The watch for sudden changes of the system, while results come in."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from math import hypot, sqrt

from regretless._internal.arrays import Array
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
    # The trial of each result, in order; -1 - i for the result i from before the run.
    numbers: list[int] = field(default_factory=list)
    seen: list[Jumped] = field(default_factory=list)
    noted: list[Jumped] = field(default_factory=list)
    places: list[int] = field(default_factory=list)  # of the first result after each noted jump

    @classmethod
    def of(cls, drift: Drift | None, defaults: Defaults) -> Watch | None:
        """The watch before any result; None without a drift."""
        return None if drift is None else cls(JumpTest(defaults.drift, active=drift.jumps))

    def copy(self) -> Watch:
        """The same state.  A change of one does not change the other."""
        return Watch(
            self.test.copy(),
            list(self.numbers),
            list(self.seen),
            list(self.noted),
            list(self.places),
        )

    def carried(self, carry: Callable[[Array], Array]) -> Watch:
        """The same state after a change of the space; `carry` turns old points into new ones."""
        return replace(self.copy(), test=self.test.carried(carry))

    def anew(self, retracted: int) -> Watch:
        """The watch before any result, with the jumps that were noted.

        Args:
            retracted: the number of the result that the next ones are without, see `numbers`.  If
                it was the first one after a jump, the jump is before the next result.
        """
        gone = len(self.numbers)  # a trial whose objective was not told is none of the results
        if retracted in self.numbers:
            gone = self.numbers.index(retracted)
        return Watch(
            JumpTest(self.test.rules, active=self.test.active),
            seen=list(self.noted),
            noted=list(self.noted),
            places=[place - (gone < place) for place in self.places],
        )

    @property
    def pending(self) -> Jumped | None:
        """A jump that the results show and that was not noted; None if there is none."""
        return next((each for each in self.seen if each not in self.noted), None)

    def look(self, number: int, told: Observation, surprise: float | None = None) -> None:
        """Look at the next result; `number` is below 0 if it is from before the run."""
        place = len(self.numbers)
        self.numbers.append(number)
        if place in self.places:
            self.test.begin_at(place)
        if number < 0:
            return
        jump = self.test.add(place, (told.x, told.y, told.weight, told.variance), surprise)
        if jump is not None:
            self.seen.append(Jumped(self.numbers[jump], number))

    def note(self, event: Jumped) -> int:
        """Take note of a jump; returns the place of the first result after it.

        Raises:
            StorageError: the trial has no result.
        """
        if event.number not in self.numbers:
            raise StorageError(f"event 'jumped': trial {event.number} has no result")
        place = self.numbers.index(event.number)
        self.noted.append(event)
        self.places.append(place)
        return place


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
