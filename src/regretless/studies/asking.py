"""How a study hands out trials: worked out when somebody asks, or before (`stock.py`)."""

from __future__ import annotations

import threading
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from regretless._internal.shown import shown
from regretless.engine import Asked, Optimizer, write
from regretless.errors import ArchivedError, BudgetError, RegretlessError
from regretless.results import Trial
from regretless.space import Scalar
from regretless.studies.serving import Overtaken, Serving
from regretless.studies.state import State
from regretless.studies.stock import Stock

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent


@dataclass(frozen=True)
class Wish:
    """One of several asks that come at the same time; see `Study.ask`."""

    key: str | None = None  # as it is stored
    within_budget: bool = False


Answer = Trial | RegretlessError


class Asking(Serving):
    """The asks of `Study`."""

    def __init__(self, journal: Journal, name: str, state: State) -> None:
        super().__init__(journal, name, state)
        self._asking = threading.Lock()  # one proposal at a time
        self._preparing = threading.Lock()  # held while the next trial is worked out for nobody
        self._stock = Stock()  # used while `_lock` is held

    @abstractmethod
    def _note_jump(self) -> None:
        """Store a sudden change that the results show, if nobody has stored it yet."""

    # -- asks --------------------------------------------------------------------------------------

    def _ask(
        self, key: str | None, within_budget: bool, context: Mapping[str, Scalar] | None = None
    ) -> Trial:
        wish = Wish(key, within_budget)
        if context is None:
            (answer,) = self.ask_each([wish])
        else:
            answer = self._ask_in(wish, context)
        if isinstance(answer, Trial):
            return answer
        raise answer

    def ask_key(self, key: str | None) -> str | None:
        """The key in the journal of an ask with this key, for a `Wish`.

        Args:
            key: the key of the caller.
        """
        return self._key("ask", key)

    def ask_each(self, wishes: Sequence[Wish], *, hurry: bool = False) -> list[Answer]:
        """A trial, or an error, for each of several who ask at the same time.

        What was prepared is handed out first.  The rest is worked out at once, in one batch.  For
        front ends; users do not need it.

        Args:
            wishes: who asks, in order.
            hurry: whether many ask all the time: while other trials are pending, they get trials
                that were chosen without a search, and a fit that is due waits (see
                `Optimizer.propose_more`).

        Returns:
            For each wish a trial, which is on disk, or the error that `ask` would raise.
        """
        self._note_jump()
        answers: dict[int, Answer] = {}
        if not hurry:
            self._serve(wishes, answers)
        if len(answers) < len(wishes) and not hurry:
            with self._preparing:  # who is in no hurry waits for what is being prepared
                self._serve(wishes, answers)
        if len(answers) < len(wishes):
            with self._asking, self._journal.turn(self.name):
                self._serve(wishes, answers)  # perhaps something was prepared meanwhile
                while len(answers) < len(wishes):
                    try:
                        self._work_out(len(wishes) - len(answers), hurry)
                    except RegretlessError as error:
                        for i in range(len(wishes)):
                            answers.setdefault(i, error)
                    self._serve(wishes, answers, made_for_them=True)
                    if len(answers) < len(wishes):  # another process was faster
                        self._serve(wishes, answers)
        return [answers[i] for i in range(len(wishes))]

    def prepare(self, *, hurry: bool = False) -> bool:
        """Work out the next trial before somebody asks for it.

        Nothing is stored.  Whoever asks next gets it, if nothing has happened until then.  In a
        hurry, candidates are searched for instead, if the last search is old.  For front ends;
        users do not need it.

        Returns:
            Whether there was something to work out.  Nothing is if it is there already, the study
            is archived, its budget is spent, or what to try depends on a context that is not known.
        """
        with self._lock:
            state = self._refreshed()
            optimizer, pending = state.optimizer, len(state.optimizer._records.waiting)
            if state.archived or optimizer.contexts or optimizer.noticing():
                return False
            if not optimizer.remaining or self._stock.valid(optimizer):
                return False
            hurry = hurry and pending > 0 and optimizer.has_followers
            fit = self._stock.fit_for(optimizer)
            if hurry and self._stock.has_candidates(optimizer, fit, pending // 2):
                return False
            maker = optimizer.copy()
        if hurry:
            crowd = maker.lead(fit)  # those who ask meanwhile use the last one
            with self._lock:
                self._stock.crowd = crowd
                self._state.optimizer._take_posterior_of(maker)
            return True
        with self._preparing:
            proposal = maker.propose()
            with self._lock:
                self._stock.put([proposal], maker, exact=1)
        return True

    def prepare_fit(self) -> bool:
        """Fit the model if that is due, for the trials that are prepared in a hurry.

        Returns:
            Whether it was due.
        """
        with self._lock:
            maker = self._refreshed().optimizer.copy()
        fit = maker.fit_if_due()
        with self._lock:
            if fit is None:
                self._state.optimizer._take_posterior_of(maker)
            else:
                self._stock.put_fit(fit, maker)
        return fit is not None

    def _work_out(self, n: int, hurry: bool) -> None:
        """Make proposals on a copy, and put them in stock.

        The caller holds `_asking`, and has just called `_serve`, which has read the journal.
        """
        with self._lock:
            maker, before = self._as_known().optimizer.copy(), self._stock.crowd
            fit, crowd = self._stock.fit_for(maker), before
        hurry = hurry and maker.has_followers and (n > 1 or bool(maker._records.waiting))
        if hurry:
            proposals, crowd = maker.propose_more(n, before, fit)
        else:
            proposals = [maker.propose()] if n == 1 else maker.propose_batch(n)
        with self._lock:
            self._stock.put(proposals, maker, exact=0 if hurry else 1)
            if self._stock.crowd is before:  # otherwise there are new candidates
                self._stock.crowd = crowd
            self._state.optimizer._take_posterior_of(maker)

    def _serve(
        self, wishes: Sequence[Wish], answers: dict[int, Answer], *, made_for_them: bool = False
    ) -> None:
        """Answer the wishes that need no new proposal, and hand out what is in stock.

        With `made_for_them`, the journal is read when something is appended, and not before.
        """
        with suppress(Overtaken), self._lock:
            state = self._as_known() if made_for_them else self._refreshed()
            ready = self._stock.valid(state.optimizer, made_for_them=made_for_them)
            places: dict[int, int] = {}  # which proposal each wish gets
            keys: list[str | None] = []  # of the proposals
            for i, wish in enumerate(wishes):
                if i in answers:
                    continue
                answer = self._known_answer(state, wish, len(keys))
                if wish.key is not None and wish.key in keys:  # the same ask, repeated
                    places[i] = keys.index(wish.key)
                elif answer is not None:
                    answers[i] = answer
                elif len(keys) < len(ready):
                    places[i] = len(keys)
                    keys.append(wish.key)
            if keys:
                trials = self._hand_out(state.last, ready[: len(keys)], keys, self._stock.maker)
                self._stock.used(len(keys))
                answers.update({i: trials[place] for i, place in places.items()})

    def _known_answer(self, state: State, wish: Wish, more: int) -> Answer | None:
        """The answer to a wish that needs no new proposal; None if it needs one.

        `more` is how many trials others get first.
        """
        optimizer = state.optimizer
        if wish.key in state.by_key:
            return optimizer.trials[state.by_key[wish.key]]
        if state.archived:
            return archived(self.name)
        if wish.within_budget and optimizer.remaining <= more:
            return BudgetError(f"the budget of {optimizer.budget} is spent; extend it to go on")
        return None

    def _hand_out(
        self,
        after: StoredEvent,
        proposals: Sequence[Asked],
        keys: Sequence[str | None],
        maker: Optimizer | None,
    ) -> list[Trial]:
        """Append proposals in one transaction, and fold them.  The caller holds the lock.

        `maker` is the copy that made the first of them and has its belief; None if it is gone.
        """
        entries = [(*write(each), key) for each, key in zip(proposals, keys, strict=True)]
        check = self._check(proposals[0])
        stored = self._journal.append_all(self.name, entries, check, after=after)
        if maker is not None:
            self._state.optimizer._take_proposal_of(maker)
        numbers = []
        for each in stored:
            event = self._take_in(each)
            assert isinstance(event, Asked)
            numbers.append(event.number)
        records = self._state.optimizer._records
        return [records.handed_out(number) for number in numbers]

    def _ask_in(self, wish: Wish, context: Mapping[str, Scalar]) -> Answer:
        """`ask` in a context."""
        self._note_jump()
        with self._asking, self._journal.turn(self.name):
            while True:
                with self._lock:
                    state = self._refreshed().copy()
                known = self._known_answer(state, wish, 0)
                if known is not None:
                    return known
                proposal = state.optimizer.propose(context)
                with suppress(Overtaken), self._lock:
                    return self._hand_out(state.last, [proposal], [wish.key], state.optimizer)[0]


def archived(name: str) -> ArchivedError:
    """The error for a new trial of an archived study.  The caller raises it."""
    return ArchivedError(f"study {shown(name)} is archived: unarchive it first")
