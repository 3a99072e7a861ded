"""Try again after a pause that grows each time, until patience runs out."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from math import inf


@dataclass
class Patience:
    """How long and how often a call is worth another try.

        patience = Patience(first=0.05, seconds=120.0)
        while True:
            try:
                return call()
            except OSError:
                if not patience.pause():
                    raise

    first    seconds of the first pause
    factor   each pause is so many times the one before …
    longest  … up to this many seconds
    seconds  for how long to try, counted from when this object was made
    tries    how often to try again
    jitter   a pause is shorter by up to this share, at random: callers that failed together do not
             come back together
    """

    first: float
    factor: float = 2.0
    longest: float = inf
    seconds: float = inf
    tries: float = inf
    jitter: float = 0.0
    _begun: float = field(default_factory=time.monotonic)
    _paused: int = 0

    def pause(self, at_least: float = 0.0) -> bool:
        """Wait before another try; False, at once, if there is to be none.

        The last pause ends when the time is up.  There is no other try if `at_least` seconds, which
        somebody asked for, are more than are left.
        """
        left = self._begun + self.seconds - time.monotonic()
        if left <= 0 or left < at_least or self._paused >= self.tries:
            return False
        planned = min(self.longest, self.first * self.factor**self._paused)
        self._paused += 1
        pause = planned * random.uniform(1.0 - self.jitter, 1.0)
        time.sleep(min(left, max(at_least, pause)))
        return True
