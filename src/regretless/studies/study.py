"""A study: an optimiser whose events are stored in a journal, which many processes may share.

Every verb reads the new events from the journal, makes its own event from the state, and appends
it.  Under the lock of the database, the append checks the events that others wrote in between.  If
one of them conflicts with the event, the event is made again from the new state.

A proposal is computed on a copy of the state, without any lock.  Results told meanwhile are stored
before the proposal, so every process computes the same state.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, overload

from regretless._internal.shown import shown
from regretless._internal.validate import (
    check_flag,
    check_name,
    checked_key,
    checked_why,
    is_number,
    whole,
)
from regretless.defaults import Noise
from regretless.engine import (
    SPOILERS,
    Abandoned,
    Allocated,
    Approved,
    Archived,
    Asked,
    Baseline,
    Changed,
    Created,
    Direction,
    Ended,
    Event,
    Extended,
    Jumped,
    Observed,
    OfStudy,
    Optimizer,
    Outcome,
    Reconsidered,
    Records,
    Rejected,
    Renamed,
    Reported,
    Retracted,
    Told,
    Unarchived,
    Unobserved,
    check_automatic,
    check_no_contexts,
    outcomes_of,
    warn_of,
    write,
)
from regretless.errors import BudgetError, ConfigError, TrialError
from regretless.model import Drift, Model
from regretless.policies import Policy
from regretless.results import Decision, Trial, number_of
from regretless.safety import Guardrail, Measured, Mode, Step
from regretless.space import Parameter, Scalar, Space
from regretless.studies import forks
from regretless.studies.asking import Asking, archived
from regretless.studies.naming import archiving_key
from regretless.studies.serving import Overtaken
from regretless.studies.settings import alike, differences, through_json
from regretless.studies.state import Snapshot, State, content_of

if TYPE_CHECKING:  # the journal needs SQLAlchemy; `import regretless` must not
    from regretless.studies.journal import Journal, StoredEvent

__all__ = ["Snapshot", "Study", "until_spent"]

MOST_DIFFERENCES = 20  # in a message

# An event is made again if one of these kinds was written between the read and the append.
_VERDICTS = (Approved, Rejected, Reconsidered)
_RIVALS: dict[type[Event], tuple[type[Event], ...]] = {
    Asked: (Asked, *SPOILERS, Archived),
    Jumped: (Retracted, Unobserved),  # the first result after it
    Extended: (Asked, Allocated, Extended),
    Baseline: (Asked, Allocated, Baseline, Changed),
    Abandoned: (Told, Reported, Abandoned, Retracted),
    Told: (Reported,),
    Reported: (Told, Retracted),
    Ended: (Reported, Allocated, Ended, Retracted),
    Observed: (Changed,),
    Changed: (Changed, Baseline),  # the baseline is a point of the new space
    Approved: (*_VERDICTS, Archived),
    Rejected: _VERDICTS,
    Reconsidered: _VERDICTS,
    Retracted: (),
    Unobserved: (),
    Archived: (Archived, Unarchived),
    Unarchived: (Archived, Unarchived),
}


# All that concerns an ask, and what others reported makes no difference.
_RIVALS[Allocated] = (*_RIVALS[Asked], Ended)


class Study(Asking):
    """An optimiser in a database, for any number of threads, processes and machines.

    `Study.open` creates or opens one.  It has the verbs of `Optimizer`.  Each verb and property
    first reads what other processes wrote.  For several answers about the same moment, take a
    `snapshot`.

    A `key` makes a call safe to repeat: a call that is repeated with the same key happens once.

    Every verb raises StorageError if the database cannot be reached, and CorruptJournalError if its
    content cannot be read.  Other errors are those of `AskTell`.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"price": rl.Float(1.0, 20.0)})
        >>> with rl.Study.open("tuning.sqlite", "prices", space=space, budget=200) as study:
        ...     trial = study.ask()
        ...     study.tell(trial, 3.5)  # what you measured with trial.params
        >>> with rl.Study.open("tuning.sqlite", "prices") as study:  # later, anywhere
        ...     print(study.asked, study.history()[0].value)
        1 3.5
    """

    def __init__(self, journal: Journal, name: str, state: State) -> None:
        """Use `Study.open`."""
        super().__init__(journal, name, state)
        self._owns_journal = True
        self._observed: Counter[str] = Counter()  # without a key, by this object; by content
        forks.follow(self)

    @classmethod
    def open(
        cls,
        url: str | Path | Journal,
        name: str,
        *,
        space: Space | None = None,
        budget: int | None = None,
        horizon: int | None = None,
        drift: str | Drift | None = None,
        seed: int | None = None,
        policy: str | Policy | None = None,
        direction: Direction | None = None,
        design: str | Sequence[Mapping[str, Scalar]] | None = None,
        n0: int | None = None,
        model: Model | None = None,
        noise: Noise | None = None,
        defaults: int | None = None,
        baseline: Mapping[str, Scalar] | None = None,
        loss_budget: float | None = None,
        confidence: float | None = None,
        guardrails: Sequence[Guardrail] | None = None,
        max_step: Mapping[str, Step] | None = None,
        change_cost: float | None = None,
        sparse_changes: bool | None = None,
        free_start: bool | None = None,
        mode: Mode | None = None,
        optimum: float | None = None,
        bound: float | None = None,
        contexts: Mapping[str, Parameter] | None = None,
        metric: str | None = None,
        unit: str | None = None,
        read_only: bool = False,
    ) -> Self:
        """Create a study, or open it if it exists.

        To create a study, give `space` and `budget`; or `space` and `horizon`, for a study without
        an end.  If the study exists, the settings you give must equal its stored ones.  The budget
        and the horizon may also be those of the last `extend`.

        All settings that are not listed here are those of `Optimizer`.  None means its default or,
        if the study exists, the stored setting.

        Args:
            url: a path (SQLite), the URL of a database (`postgresql://user@host/name`), or an open
                Journal, for several studies over the same connections.
            name: the name of the study.
            read_only: whether to refuse every change.

        Returns:
            The study.  Close it after use, for example by `with`.

        Raises:
            ConfigError: a setting is not valid, or differs from the stored one.
            UnknownStudyError: there is no such study, and `space`, or both `budget` and `horizon`,
                are missing.
            StorageError: the database cannot be reached, or there is no journal.
            MissingExtraError: SQLAlchemy is not installed.
        """
        from regretless.studies.journal import Journal

        forks.mind()
        settings: dict[str, Any] = {
            "space": space,
            "budget": budget,
            "horizon": horizon,
            "drift": drift,
            "seed": seed,
            "policy": policy,
            "direction": direction,
            "design": design,
            "n0": n0,
            "model": model,
            "noise": noise,
            "defaults": defaults,
            "baseline": baseline,
            "loss_budget": loss_budget,
            "confidence": confidence,
            "guardrails": guardrails,
            "max_step": max_step,
            "change_cost": change_cost,
            "sparse_changes": sparse_changes,
            "free_start": free_start,
            "mode": mode,
            "optimum": optimum,
            "bound": bound,
            "contexts": contexts,
            "metric": metric,
            "unit": unit,
        }
        given = {key: value for key, value in settings.items() if value is not None}
        planned = budget is not None or horizon is not None
        complete = space is not None and planned and not read_only
        fresh = Optimizer(**given) if complete else None  # nothing is created with wrong settings
        if isinstance(url, Journal):
            study = cls._create_or_resume(url, name, fresh, given)
            study._owns_journal = False
            return study
        journal = Journal.open(url, create=complete, read_only=read_only)
        try:
            return cls._create_or_resume(journal, name, fresh, given)
        except BaseException:
            journal.close()
            raise

    @classmethod
    def _create_or_resume(
        cls, journal: Journal, name: str, fresh: Optimizer | None, given: dict[str, Any]
    ) -> Self:
        if fresh is not None and not journal.last_seq(name):
            kind, version, body = write(Created(through_json(fresh.spec())))
            journal.append(name, kind, body, version=version, key="created", expected_seq=1)
        state = State.of(journal, name, given.get("policy"), given.get("space"))
        if different := differences(state.created, state.optimizer, given):
            raise ConfigError(
                f"{journal.label}: study {shown(name)} was created with other settings: "
                + "; ".join(different[:MOST_DIFFERENCES])
                + ("; …" if len(different) > MOST_DIFFERENCES else "")
            )
        return cls(journal, name, state)

    def close(self) -> None:
        """Close the connections to the database.  It may be called again."""
        if self._owns_journal:
            self._journal.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        tb: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        known = self._state.optimizer
        return f"Study({self.name!r} in {self._journal.label}, {known!r})"

    # -- the verbs ---------------------------------------------------------------------------------

    @overload
    def ask(
        self,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> Trial: ...
    @overload
    def ask(
        self,
        n: int,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> list[Trial]: ...
    def ask(
        self,
        n: int | None = None,
        *,
        key: str | None = None,
        within_budget: bool = False,
        context: Mapping[str, Scalar] | None = None,
    ) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials; see `AskTell.ask`.

        With `within_budget=True` it never goes past the budget: a batch may be shorter, and
        BudgetError is raised if nothing is left.  A call that is repeated with the same `key`
        returns the same trials.  If the study is archived, ArchivedError is raised.
        """
        check_flag("within_budget", within_budget)
        if n is None:
            return self._ask(self._key("ask", key), within_budget, context)
        trials: list[Trial] = []
        self._key(
            _ask_of_a_batch(whole("n", n, least=1) - 1), key
        )  # refuse a key that is too long before the first trial
        for i in range(n):
            try:
                name = self._key(_ask_of_a_batch(i), key)
                trials.append(self._ask(name, within_budget, context))
            except BudgetError:
                if not trials:
                    raise
                break
        return trials

    def tell(
        self,
        trial: Trial | int,
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        control: Measured | None = None,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Take the result of a trial; see `AskTell.tell`.

        When the call returns, the result is on disk.  If `time` is None, it is the time of this
        call.  Telling the same value again changes nothing.  Telling another value raises
        TrialError.  `key` is stored but rarely needed: repeating a tell is always safe, except that
        without a key it tells a result again that was retracted in between.
        """
        outcomes, note = outcomes_of(value, sem, count, metrics, control), _checked(key)
        self._record(lambda records: records.telling(trial, outcomes, time, note, context))
        self._note_jump()

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Take a result from before the run; see `AskTell.observe`.

        It uses no budget.  A call that is repeated with the same `key` has no effect.  Repeated
        with another point or result, it raises TrialError.

        Without a key, a program that runs again does not count its results again.  Of results with
        the same point, value, `sem`, `count` and `time`, the first of this object is the first that
        the study has, the second is the second, and so on.  A result that the study has already is
        not stored again.  If it has no `time`, there is a warning, because it might be a new one.
        """
        if key is None:
            options: dict[str, Any] = {"sem": sem, "count": count, "time": time}
            options |= {"metrics": metrics, "context": context}
            if not observe_nth(self, params, value, **options) and time is None:
                warnings.warn(known_before(self.name), stacklevel=2)
            return
        outcomes = outcomes_of(value, sem, count, metrics)
        self._record(
            lambda records: records.observing(params, outcomes, time, context),
            self._key("observe", key),
        )

    def adopt(
        self,
        params: Mapping[str, Scalar],
        decision: Decision | None = None,
        *,
        context: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> Trial:
        """Make a trial of a point that somebody else chose; see `Optimizer.adopt`.

        It uses budget, and counts as pending until its result is told.  With `mode="recommend"` it
        counts as approved.  A call that is repeated with the same `key` returns the same trial.  If
        the study is archived, ArchivedError is raised.

        Raises:
            TrialError: the `key` was used for another point.
        """
        event = self._record(
            lambda records: records.adopting(params, decision, context), self._key("adopt", key)
        )
        assert isinstance(event, Asked)
        number = event.number
        return self._look(lambda optimizer: optimizer._records.handed_out(number))

    def abandon(self, trial: Trial | int, *, key: str | None = None) -> None:
        """Stop waiting for the result of a trial; see `AskTell.abandon`.

        A call that is repeated with the same `key` has no effect, even if the trial was told since.
        """
        self._record(
            lambda records: records.abandoning(trial),
            self._key("abandon", key),
            change=Abandoned(number_of(trial)),
        )

    def abandon_older_than(self, age: timedelta | float) -> list[Trial]:
        """Abandon the trials that have been pending for longer than `age`.

        The age compares this machine's clock with that of the machine that asked.

        Args:
            age: seconds, or a timedelta.

        Returns:
            The trials that were abandoned.

        Raises:
            ConfigError: `age` is negative or not finite.
        """
        seconds = age.total_seconds() if isinstance(age, timedelta) else age
        if not (is_number(seconds) and seconds >= 0):
            raise ConfigError(f"age: need seconds or a timedelta, at least 0, got {shown(age)}")
        with self._lock:
            state = self._refreshed()
            try:
                since = datetime.now(UTC) - timedelta(seconds=float(seconds))
            except OverflowError:  # older than the first date that Python has
                return []
            old = [t for t in state.optimizer.pending if state.since[t.number] < since]
        abandoned = []
        for trial in old:
            with suppress(TrialError):  # told just now
                self.abandon(trial)
                abandoned.append(trial)
        return abandoned

    def extend(
        self, budget: int | None = None, *, horizon: int | None = None, key: str | None = None
    ) -> None:
        """Set a new total budget, or a horizon for a run without an end; see `AskTell.extend`.

        A call that is repeated with the same `key` has no effect, even if others extended the
        budget since.

        Raises:
            TrialError: the `key` was used for another budget.
        """
        budget = None if budget is None else whole("budget", budget, least=1)
        self._record(
            # With a key, store an event even if the budget is unchanged, so that a repeated call
            # finds it.
            lambda records: records.extending(budget, horizon, always=key is not None),
            self._key("extend", key),
            change=Extended(budget, horizon),
        )

    def set_baseline(self, params: Mapping[str, Scalar], *, key: str | None = None) -> None:
        """Declare the setting that runs today, or change it; see `AskTell.set_baseline`.

        A call that is repeated with the same `key` has no effect, even if others changed the
        baseline since.

        Raises:
            TrialError: the `key` was used for another baseline.
        """
        given = self.space.validate(params)
        self._record(
            lambda records: records.rebasing(given, always=key is not None),
            self._key("baseline", key),
            change=Baseline(given),
        )

    def approve(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """Allow a proposed trial to be tried; see `AskTell.approve`.

        If two people decide at once, the first verdict counts, and the second call raises
        TrialError unless its verdict is the same.  A call that is repeated with the same `key` has
        no effect, even if the trial was told since.  If the study is archived, ArchivedError is
        raised.
        """
        self._record(
            lambda records: records.approving(trial, why),
            self._key("approve", key),
            change=Approved(number_of(trial), _checked_why(why)),
        )

    def reject(self, trial: Trial | int, why: str, *, key: str | None = None) -> None:
        """Refuse a proposed trial; see `AskTell.reject`, and `approve` for two people at once.

        A call that is repeated with the same `key` has no effect.
        """
        self._record(
            lambda records: records.rejecting(trial, why),
            self._key("reject", key),
            change=Rejected(number_of(trial), checked_why(why)),
        )

    def reconsider(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """End the reason for which a trial was rejected; see `AskTell.reconsider`.

        A call that is repeated with the same `key` has no effect.
        """
        self._record(
            lambda records: records.reconsidering(trial, why),
            self._key("reconsider", key),
            change=Reconsidered(number_of(trial), _checked_why(why)),
        )

    def retract(
        self, trial: Trial | int, why: str | None = None, *, key: str | None = None
    ) -> None:
        """Take a wrong result back; see `AskTell.retract`.

        A call that is repeated with the same `key` has no effect, even if the trial has a new
        result since.
        """
        note = _checked(key)
        self._record(lambda records: records.retracting(trial, why, note))

    def retract_observation(self, index: int, why: str | None = None) -> None:
        """Take a wrong result from before the run back; see `AskTell.retract_observation`.

        A program that observes the same result again does not bring it back, unless it gives
        another `time` or a `key` that is new.
        """
        self._record(lambda records: records.unobserving(index, why))

    def archive(self) -> None:
        """End the study for now: lists leave it out, and there are no new trials.

        `ask`, `adopt` and `approve` raise ArchivedError.  Results of trials under way may still be
        told, and everything can be read.  If the study is archived already, nothing changes.
        """
        self._archive(True)

    def unarchive(self) -> None:
        """Go on with an archived study.  If it is not archived, nothing changes."""
        self._archive(False)

    def _archive(self, wish: bool) -> None:
        event = Archived() if wish else Unarchived()
        self._record(lambda records: None if self._state.archived == wish else event)

    def rename(self, new: str) -> None:
        """Give the study a new name.  All of its events move with it, at once.

        Who has the study open under its old name, or opens it under that name, gets an
        UnknownStudyError with the new name.  The old name stays taken, so that no program creates
        an empty study by accident; this study may get it back.

        Args:
            new: the new name.

        Raises:
            ConfigError: the name is not valid, or another study has or had it.
            UnknownStudyError: somebody else renamed the study before.
        """
        check_name("name", new)
        with self._asking, self._lock:
            self._refreshed()
            if new == self.name:
                return
            rename_study(self._journal, self.name, new)
            self._state = self._state.rebuilt(new)
            self.name = new

    def change_space(
        self,
        *,
        add: Mapping[str, tuple[Parameter, Scalar]] | None = None,
        freeze: Mapping[str, Scalar] | None = None,
        widen: Mapping[str, Parameter] | None = None,
        drop: Mapping[str, Scalar] | None = None,
        key: str | None = None,
    ) -> None:
        """Change the space while the study goes on; see `Optimizer.change_space`.

        A call that is repeated with the same `key` has no effect.

        Raises:
            TrialError: the `key` was used for another change.
        """
        name = self._key("change", key)
        with self._lock:
            if name is not None and isinstance(self._refreshed().changes.get(name), Changed):
                return
            self._record(lambda records: records.changing(add, freeze, widen, drop), name)

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent, or for ever without one.

        Other processes may ask at the same time.
        """
        check_automatic(self._state.optimizer.safety.mode)
        check_no_contexts(self._state.optimizer.contexts is not None)
        return until_spent(lambda: self.ask(within_budget=True))

    # -- reading and writing -----------------------------------------------------------------------

    def _refreshed(self) -> State:
        """The state after the last event of the journal.  The caller holds the lock."""
        state = self._state
        new = self._journal.read(self.name, after=state.last)
        if state.broken:
            self._state = state.rebuilt()
            return self._state
        for stored in new:
            state.fold(stored)
        return state

    def _key(self, verb: str, key: str | None) -> str | None:
        """The key in the journal for the key that the caller gave."""
        if key is None:
            return None
        name = f"{verb} {checked_key(key)}"
        check_name("key", name)
        return name

    def _note_jump(self) -> None:
        """Store a sudden change that the results show, if nobody has stored it yet."""
        if self._state.optimizer.drift is None:
            return
        jump = self._record(lambda records: self._state.optimizer.noticing())
        if isinstance(jump, Jumped):
            warn_of(jump)

    def _record(
        self,
        make: Callable[[Records], Event | None],
        key: str | None = None,
        *,
        change: Event | None = None,
    ) -> Event | None:
        """Append the event that `make` returns for the current state.

        If the key was used before, the stored event must be the same as the new one.

        Args:
            make: makes the event; None if there is nothing to append.
            key: the key of the event in the journal.
            change: the event, for a verb that `make` may refuse when it is repeated.  If this event
                is stored under the key, the call has no effect.

        Returns:
            The stored event; None if there was nothing to append.

        Raises:
            TrialError: the key was used before for another event.
        """
        stored: StoredEvent | None = None
        with self._lock:
            while True:
                state = self._refreshed()
                if key is not None and change is not None and state.changes.get(key) == change:
                    return change
                event = make(state.optimizer._records)
                if event is None:
                    return None
                if isinstance(event, Asked | Approved) and key not in state.by_key:
                    self._check_not_archived(state)
                if stored is not None and key is not None:
                    before = f"{stored.kind} {shown(stored.body)}"
                    raise TrialError(f"the key {shown(key)} was used before: {before}")
                with suppress(Overtaken):
                    stored = self._append(state.last, event, key or _key_of(event, state))
                    there = self._take_in(stored)
                    if _same(there, event):
                        return there

    def _check_not_archived(self, state: State) -> None:
        if state.archived:
            raise archived(self.name)

    def _observe(
        self,
        params: Mapping[str, Scalar],
        outcomes: Mapping[str, Outcome],
        time: datetime | None,
        nth: int | None,
        context: Mapping[str, Scalar] | None = None,
    ) -> bool:
        """Take the nth of several equal results; see `observe_nth`."""
        with self._lock:
            state = self._refreshed()
            event = state.optimizer._records.observing(params, outcomes, time, context)
            content = content_of(write(event).body)
            which = self._observed[content] + 1 if nth is None else nth
            new = which > state.observed[content]
            if new:  # under a key, because another process may do the same at this moment
                self._record(lambda records: event, f"prior {content} {which}")
            if nth is None:
                self._observed[content] = which  # after an error the same call counts as the same
            return new

    def _append(self, after: StoredEvent, event: Event, key: str | None) -> StoredEvent:
        """Append the event; raise Overtaken if a conflicting one was written after `after`."""
        kind, version, body = write(event)
        return self._journal.append_if(
            self.name, kind, body, self._check(event), after=after, version=version, key=key
        )

    def _check(self, event: Event) -> Callable[[list[StoredEvent]], None]:
        """The function that raises Overtaken if one of these events conflicts with `event`."""
        rivals, state = _RIVALS[type(event)], self._state

        def check(new: list[StoredEvent]) -> None:
            for other in new:
                if isinstance(there := state.read(other), rivals) and _concerns(there, event):
                    raise Overtaken

        return check

    def _take_in(self, stored: StoredEvent) -> Event:
        """Fold an appended event and the events before it.  The caller holds the lock."""
        state = self._state
        if stored.seq == state.last.seq + 1 and not state.broken:
            return state.fold(stored)
        if stored.seq > state.last.seq or state.broken:
            state = self._refreshed()
        return state.read(stored)


def observe_nth(
    study: Study,
    params: Mapping[str, Scalar],
    value: float | None,
    *,
    sem: float | None = None,
    count: float = 1,
    time: datetime | None = None,
    metrics: Mapping[str, Measured] | None = None,
    context: Mapping[str, Scalar] | None = None,
    nth: int | None = None,
) -> bool:
    """`Study.observe` without a key, for front ends.

    Args:
        study: the study.
        params, value, sem, count, time, metrics, context: the result.
        nth: which of several equal results this is, from 1 on; None for the next of `study`.

    Returns:
        Whether the result was stored; False if the study had it already.
    """
    return study._observe(params, outcomes_of(value, sem, count, metrics), time, nth, context)


def rename_study(journal: Journal, old: str, new: str) -> None:
    """`Study.rename`, for front ends that do not have the study open."""
    check_name("name", new)
    _, version, body = write(Renamed(old, new))
    journal.rename(old, new, body, version=version)


def known_before(name: str) -> str:
    """The sentence for a result that was not stored, because the study had it already."""
    return (
        f"study {shown(name)} has this point with this result already, so it is not counted again:"
        " if it is another measurement, give its time or a key"
    )


def until_spent(ask: Callable[[], Trial]) -> Iterator[Trial]:
    """Yield trials from `ask` until it raises BudgetError."""
    while True:
        try:
            trial = ask()
        except BudgetError:
            return
        yield trial


def _ask_of_a_batch(i: int) -> str:
    return "ask" if i == 0 else f"ask+{i}"


def _checked(key: str | None) -> str | None:
    return None if key is None else checked_key(key)


def _checked_why(why: str | None) -> str | None:
    return None if why is None else checked_why(why)


def _key_of(event: Event, state: State) -> str | None:
    """The key that makes sure that something happens once, such as the tell of a trial.

    After the result of a trial was retracted, it has further keys.
    """
    if isinstance(event, Archived | Unarchived):
        return archiving_key(state.archivings + 1)
    if isinstance(event, Unobserved):
        return f"unobserved {event.index}"
    if isinstance(event, Created | Asked | Observed | Extended | Baseline | Changed | OfStudy):
        return None
    if isinstance(event, Reported | Allocated):
        return None
    verb = "verdict" if isinstance(event, Approved | Rejected) else type(event).__name__.lower()
    corrections = len(state.optimizer._records.trials[event.number].corrections)
    return f"{verb} {event.number}" + (f" after {corrections} retracted" if corrections else "")


def _concerns(there: Event, made: Event) -> bool:
    """Whether a result that was told or reported is one of the trials of an event."""
    one, other = _numbers(there), _numbers(made)
    return one is None or other is None or bool(one & other)


def _numbers(event: Event) -> set[int] | None:
    """The trials whose results an event has or rules out; None if there are none."""
    if isinstance(event, Reported):
        return {each.number for each in event.increments}
    return {event.number} if isinstance(event, Told | Retracted | Abandoned) else None


def _same(there: Event, made: Event) -> bool:
    """Whether the stored event equals the new one, apart from its time and number."""
    if isinstance(there, Told) and isinstance(made, Told):
        return there.outcomes == made.outcomes and alike(there.context, made.context)
    if isinstance(there, Reported) and isinstance(made, Reported):
        return there.increments == made.increments
    if isinstance(there, Retracted) and isinstance(made, Retracted):
        return there.number == made.number
    if isinstance(there, Unobserved) and isinstance(made, Unobserved):
        return there.index == made.index
    if isinstance(there, _VERDICTS) and type(there) is type(made):  # whatever was said about it
        return there.number == made.number
    if isinstance(there, Observed) and isinstance(made, Observed):
        same = alike(there.params, made.params) and alike(there.context, made.context)
        return there.outcomes == made.outcomes and same
    if isinstance(there, Asked) and isinstance(made, Asked):  # the new one has a later number
        return alike(there.params, made.params) and alike(there.context, made.context)
    return there == made
