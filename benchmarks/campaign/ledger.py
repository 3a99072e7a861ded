"""What was tried and what was acknowledged, apart from the journal, and the comparison of both."""

from __future__ import annotations

import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from benchmarks.campaign import control

import regretless as rl
from regretless.errors import ServiceError, StorageError

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})
# The policy decides at random, because a campaign is about events and not about decisions.
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 1_000_000, "policy": "random", "seed": 1}
HANG = 60.0  # seconds of an idle machine, see `control`


@dataclass
class Tally:
    """What one batch did (`counts`), what went wrong (`faults`), and other figures."""

    counts: Counter[str] = field(default_factory=Counter)
    faults: Counter[str] = field(default_factory=Counter)
    figures: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def fault(self, kind: str, note: str) -> None:
        self.faults[kind] += 1
        if len(self.notes) < 10:
            self.notes.append(f"{kind}: {note[:300]}")

    def as_json(self) -> dict[str, Any]:
        return {
            "counts": dict(self.counts),
            "faults": dict(self.faults),
            "figures": self.figures,
            "notes": self.notes,
        }

    def timed(self, call: Callable[[], Any]) -> Any:
        """Do the call, and count it if it hangs."""
        begun, wall = control.seconds(), time.monotonic()
        try:
            return call()
        finally:
            if (took := control.seconds() - begun) > HANG:
                self.fault("hangs", f"{took:.0f} s")
            self.figures["longest call s"] = max(
                self.figures.get("longest call s", 0.0), round(time.monotonic() - wall, 1)
            )


@dataclass
class Ledger:
    """Keys of calls.  A call has its key in the journal: `Idempotency-Key`, or that of a tell."""

    tried: list[str] = field(default_factory=list)
    done: list[str] = field(default_factory=list)

    def compare(self, storage: Any, name: str, tally: Tally) -> None:
        """Count what is lost, doubled, or there although nobody tried it."""
        with rl.Study.open(storage, name, read_only=True) as study:
            events = study.events()
        there = Counter(key for event in events if (key := _key(event)))
        tried = set(self.tried)
        for key in set(self.done) - set(there):
            tally.fault("lost", key)
        for key, times in there.items():
            if times > 1:
                tally.fault("doubled", f"{key}: {times} times")
            if key not in tried:
                tally.fault("unknown", key)
        trials = Counter((event.kind, event.body.get("number")) for event in events)
        for (kind, number), times in trials.items():
            if kind in ("asked", "told") and times > 1:
                tally.fault("doubled", f"trial {number} {kind} {times} times")
        if [event.seq for event in events] != list(range(1, len(events) + 1)):
            tally.fault("lost", "a number is missing")
        tally.counts["acknowledged"] += len(set(self.done))
        tally.counts["events"] += len(events)


def _key(event: Any) -> str | None:
    """The key that the caller gave."""
    if event.kind == "told":
        return event.body.get("key")
    verb, _, key = event.key.partition(" ")
    return f"{verb} {key}" if verb in ("ask", "observe") and key else None


class Worker:
    """Asks, tells and observes, each call with a key, and repeats a call that got no answer."""

    def __init__(
        self,
        study: Any,
        tally: Tally,
        rng: random.Random,
        note: Callable[[str, str], None],
        patience: float = 0.0,
    ) -> None:
        self.study, self.tally, self.rng, self.note = study, tally, rng, note
        self.patience = patience

    def step(self, name: str) -> None:
        """One trial, or one result from before."""
        if self.rng.random() < 0.3:
            point = {"x": self.rng.random(), "kind": self.rng.choice("ab")}
            value = self.rng.gauss(0.0, 1.0)
            self.call(f"observe {name}", lambda: self.study.observe(point, value, key=name))
            return
        trial = self.call(f"ask {name}", lambda: self.study.ask(key=name))
        value = self.rng.gauss(0.0, 1.0)
        self.call(f"tell {name}", lambda: self.study.tell(trial, value, key=f"tell {name}"))

    def call(self, key: str, verb: Callable[[], Any]) -> Any:
        self.note("tried", key)
        deadline = control.seconds() + self.patience
        while True:
            try:
                answer = self.tally.timed(verb)
            except (StorageError, ServiceError) as error:
                self.tally.counts["errors"] += 1
                again = not isinstance(error, ServiceError) or error.status in (429, 503)
                if not again or control.seconds() > deadline:
                    raise
                time.sleep(self.rng.uniform(0.01, 0.1))
            else:
                self.note("done", key)
                return answer
