"""The verbs of a study, in any order, by two objects and by processes that die, with a reference.

`Reference` is what a study should be: some lists and a dict.  `VerbsMachine` draws calls, breaks
some of them in the middle, repeats those as a caller would, and compares.  To add a verb: a method
of `Reference` that returns nothing and raises `Refusal` where the study must refuse, and a rule
that gives it and the call of the study to `both`.
"""

from __future__ import annotations

import os
import signal
import uuid
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

import regretless as rl
from regretless.engine import Optimizer

SETTINGS: dict[str, Any] = {
    "space": rl.Space({"x": rl.Float(0.0, 1.0)}),
    "budget": 12,
    "seed": 5,
    "policy": "random",  # the machine is about events, not about decisions
    "n0": 2,
}
VALUES = st.sampled_from([0.0, 1.0, -2.5])
POINTS = st.sampled_from([0.0, 0.25, 1.0])
KEYS = st.sampled_from(["a", "b", "c", None])
WHICH = st.sampled_from([0, 1])  # of the two objects
TRIALS = st.integers(0, 5)
# Where a call breaks: nowhere; before the commit or after it, as a connection does; while the event
# is folded, as with Ctrl-C.  "die" does the same with a process of its own and kill -9.
FAULTS = st.sampled_from(
    [None, None, "before", "after", "fold", "die before", "die after", "reopen"]
)

Call = Callable[[rl.Study], Any]


class Refusal(Exception):
    """The study must refuse the call."""


class Reference:
    """A study in a few lines: no journal, no processes, and every call happens once."""

    def __init__(self, budget: int) -> None:
        self.budget = budget
        self.trials: list[tuple[str, float | None]] = []  # status and value
        self.prior: Counter[tuple[float, float]] = Counter()
        self.keys: dict[tuple[str, str | None], Any] = {}

    def once(self, verb: str, key: str | None, call: Any) -> bool:
        """Whether the call is new; a key that was used for another call is refused."""
        if key is None or (verb, key) not in self.keys:
            self.keys[verb, key] = call
            return True
        if self.keys[verb, key] != call:
            raise Refusal
        return False

    def ask(self, key: str | None, within_budget: bool) -> None:
        if key is not None and ("ask", key) in self.keys:
            return
        if within_budget and len(self.trials) >= self.budget:
            raise Refusal
        self.once("ask", key, None)
        self.trials.append(("pending", None))

    def adopt(self, x: float, key: str | None) -> None:
        if self.once("adopt", key, x):
            self.trials.append(("pending", None))

    def tell(self, number: int, value: float) -> None:
        if number >= len(self.trials) or self.trials[number][1] not in (None, value):
            raise Refusal
        self.trials[number] = ("told", value)

    def abandon(self, number: int, key: str | None) -> None:
        if key is not None and self.keys.get(("abandon", key)) == number:
            return
        if number >= len(self.trials) or self.trials[number][0] == "told":
            raise Refusal
        if self.trials[number][0] == "pending":
            self.once("abandon", key, number)
            self.trials[number] = ("abandoned", None)

    def extend(self, budget: int, key: str | None) -> None:
        if key is not None and self.keys.get(("extend", key)) == budget:
            return
        if budget < len(self.trials):
            raise Refusal
        if self.once("extend", key, budget):
            self.budget = budget

    def observe(self, x: float, value: float, key: str | None) -> None:
        if self.once("observe", key, (x, value)):
            self.prior[x, value] += 1


class VerbsMachine(RuleBasedStateMachine):
    """Two objects of one study, and processes that come and go, on one journal."""

    storage = ""  # set by the tests

    @initialize()
    def begin(self) -> None:
        self.name = uuid.uuid4().hex
        self.studies = [self.opened(), self.opened()]
        self.reference = Reference(SETTINGS["budget"])
        self.own: list[Counter[tuple[float, float]]] = [Counter(), Counter()]  # without a key
        self.unkeyed: Counter[tuple[float, float]] = Counter()

    def opened(self) -> rl.Study:
        return rl.Study.open(self.storage, self.name, **SETTINGS)

    def teardown(self) -> None:
        if not hasattr(self, "studies"):
            return
        with rl.Study.open(self.storage, self.name) as replayed:
            proposals = {str(_next(study)) for study in (*self.studies, replayed)}
        assert len(proposals) == 1  # the same next suggestion, also from a replay
        for study in self.studies:
            study.close()

    # -- one call ----------------------------------------------------------------------------------

    def both(self, which: int, fault: str | None, call: Call, reference: Callable[[], None]) -> Any:
        """Do the call in the study, as often as it takes, and once in the reference."""
        try:
            reference()
            refused = False
        except Refusal:
            refused = True
        if fault is not None and self.attempt(which, fault, call):
            assert not refused  # the call did not come to the place where it would break
            return None
        try:
            answer = call(self.studies[which])
        except rl.RegretlessError as error:
            if isinstance(error, rl.StorageError) or not refused:
                raise
        else:
            assert not refused
            return answer

    def attempt(self, which: int, fault: str, call: Call) -> bool:
        """Do the call so that its caller does not learn what became of it; True if it ended."""
        if fault.startswith("die"):
            self.die(fault.removeprefix("die "), call)
            return False
        if fault == "reopen":
            self.reopen(which, call)
            return False
        try:
            with breaking(fault, _break):
                call(self.studies[which])
        except (rl.RegretlessError, KeyboardInterrupt):
            return False
        return True

    def reopen(self, which: int, call: Call) -> None:
        """The call is interrupted after its commit, and its object is not used any more."""
        self.attempt(which, "fold", call)
        self.studies[which].close()
        self.studies[which], self.own[which] = self.opened(), Counter()

    def die(self, when: str, call: Call) -> None:
        child = os.fork()
        if child == 0:
            try:
                with breaking(when, _kill):
                    call(self.opened())
            finally:
                os._exit(0)
        os.waitpid(child, 0)

    # -- the verbs ---------------------------------------------------------------------------------

    @rule(which=WHICH, fault=FAULTS, key=KEYS, within=st.booleans())
    def ask(self, which: int, fault: str | None, key: str | None, within: bool) -> None:
        fault = fault if key is not None else None  # without a key nobody may repeat an ask
        trial = self.both(
            which,
            fault,
            lambda study: study.ask(key=key, within_budget=within),
            lambda: self.reference.ask(key, within),
        )
        assert trial is None or trial.number < len(self.reference.trials)

    @rule(which=WHICH, fault=FAULTS, key=KEYS, x=POINTS)
    def adopt(self, which: int, fault: str | None, key: str | None, x: float) -> None:
        trial = self.both(
            which,
            fault if key is not None else None,
            lambda study: study.adopt({"x": x}, key=key),
            lambda: self.reference.adopt(x, key),
        )
        assert trial is None or trial.params == {"x": x}

    @rule(which=WHICH, fault=FAULTS, number=TRIALS, value=VALUES)
    def tell(self, which: int, fault: str | None, number: int, value: float) -> None:
        self.both(
            which,
            fault,
            lambda study: study.tell(number, value),
            lambda: self.reference.tell(number, value),
        )

    @rule(which=WHICH, fault=FAULTS, number=TRIALS, key=KEYS)
    def abandon(self, which: int, fault: str | None, number: int, key: str | None) -> None:
        self.both(
            which,
            fault,
            lambda study: study.abandon(number, key=key),
            lambda: self.reference.abandon(number, key),
        )

    @rule(which=WHICH, fault=FAULTS, budget=st.integers(1, 20), key=KEYS)
    def extend(self, which: int, fault: str | None, budget: int, key: str | None) -> None:
        self.both(
            which,
            fault,
            lambda study: study.extend(budget, key=key),
            lambda: self.reference.extend(budget, key),
        )

    @rule(which=WHICH, fault=FAULTS, x=POINTS, value=VALUES, key=st.sampled_from(["a", "b", "c"]))
    def observe(self, which: int, fault: str | None, x: float, value: float, key: str) -> None:
        self.both(
            which,
            fault,
            lambda study: study.observe({"x": x}, value, key=key),
            lambda: self.reference.observe(x, value, key),
        )

    @rule(
        which=WHICH,
        fault=st.sampled_from([None, "before", "after", "fold"]),
        x=POINTS,
        value=VALUES,
    )
    def observe_without_a_key(self, which: int, fault: str | None, x: float, value: float) -> None:
        """The nth of an object is the nth of the study, whichever object told it first."""

        def once() -> None:
            self.own[which][x, value] += 1
            if self.own[which][x, value] > self.unkeyed[x, value]:
                self.unkeyed[x, value] += 1
                self.reference.observe(x, value, None)

        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            self.both(which, fault, lambda study: study.observe({"x": x}, value), once)

    @precondition(lambda self: self.reference.trials)
    @rule(which=WHICH)
    def a_result_cannot_be_changed(self, which: int) -> None:
        for number, (_, value) in enumerate(self.reference.trials):
            if value is not None:
                self.tell(which, None, number, value + 1.0)

    # -- what must hold after each call ------------------------------------------------------------

    @invariant()
    def agrees(self) -> None:
        for study in getattr(self, "studies", ()):
            rows = study.history()
            own = [(row.status, row.value) for row in rows if row.number is not None]
            prior = Counter((row.params["x"], row.value) for row in rows if row.number is None)
            assert own == self.reference.trials
            assert prior == self.reference.prior
            assert study.budget == self.reference.budget
            assert [event.seq for event in study.events()] == list(range(1, study.refresh() + 1))


def _next(study: rl.Study) -> Any:
    return study.snapshot().optimizer.propose().params


def _break() -> None:
    raise sa.exc.OperationalError("COMMIT", None, Exception("the connection broke"))


def _kill() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


@contextmanager
def breaking(when: str, fail: Callable[[], None]) -> Iterator[None]:
    """The next append fails before its commit, after it, or while its event is folded."""
    commit, apply, lock = sa.Connection.commit, Optimizer.apply, sa.Connection.execute
    wrote: list[bool] = []

    def seeing(self: Any, statement: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(statement, sa.Insert):
            wrote.append(True)
        return lock(self, statement, *args, **kwargs)

    def committing(self: Any) -> None:
        if wrote and when == "before":
            fail()
        commit(self)
        if wrote and when == "after":
            fail()

    def folding(self: Any, event: Any) -> None:
        apply(self, event)
        if wrote and when == "fold":
            raise KeyboardInterrupt  # the optimiser has the event, and the study does not know

    # Methods of other libraries: mypy does not look into tests.
    sa.Connection.execute, sa.Connection.commit, Optimizer.apply = seeing, committing, folding
    try:
        yield
    finally:
        sa.Connection.execute, sa.Connection.commit, Optimizer.apply = lock, commit, apply
