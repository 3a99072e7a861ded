"""An `Optimizer` as an Optuna sampler: `create_study(sampler=RegretlessSampler(budget=200))`.

The study's trials are folded, once each, into an `Optimizer` over the parameters that they share.
Inside, parameters are in Optuna's internal representation, in which a choice is its index: so
whatever Optuna accepts as a choice will do.
"""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

import numpy as np

from regretless.engine import Optimizer
from regretless.errors import (
    ConfigError,
    DataError,
    MissingExtraError,
    NoResultsError,
    SpaceError,
)
from regretless.horizon import Horizon
from regretless.integrations._endings import Endings
from regretless.model import Drift, Model
from regretless.policies import Policy
from regretless.results import Best, Decision, Trial
from regretless.safety import Guardrail
from regretless.space import Categorical, Float, Int, Parameter, Scalar, Space

try:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise MissingExtraError("optuna", "optuna") from error

KEY = "regretless"  # user attribute: the decision's sentence; system attribute: its numbers
_LONGEST = 2045  # characters that a relational storage takes for an attribute

_log = logging.getLogger(__name__)


class RegretlessSampler(BaseSampler):
    """Chooses the next point to evaluate, so that the sum of all losses stays small.

    Args:
        budget: how many trials this study will run, finished ones included.  It decides how long
            to explore, and Optuna does not tell a sampler its n_trials.  None if the study has no
            end; it then needs a `horizon`.
        policy: how the next point is chosen, by name or as an instance; see
            `regretless.Optimizer`.
        seed: the seed of all random numbers; None draws one.  Leave it out if several processes
            share the study, or all of them begin with the same points.
        n0: how many trials to spread over the space first; results that are known before count
            as such.  None lets the policy choose.
        model: the model of the objective; see `regretless.Model`.
        guardrails: limits on what the objective sets with `trial.set_constraint(name, value)`, or
            with `trial.set_user_attr(name, value)`: for the former, `AtMost(name, 0.0)`.  A first
            trial that keeps to them is best enqueued (`study.enqueue_trial`).
        free_start: whether the points of the start may break guardrails.
        baseline: the parameters that run today.  They are the first trial of a study, and
            `recommend` says what the best point brings over them.
        horizon: how many trials to look ahead; see `regretless.Optimizer`.
        drift: None, "auto" or a `regretless.Drift`, if the objective may change with time.
        independent_sampler: a sampler for the first trial, and for parameters that cannot be tuned
            (the log names them).  A parameter that not every trial has is tuned if a choice of
            another one decides about it: if no choice of that one was seen both with and without
            it.  None draws the others at random.

    Raises:
        ConfigError: a setting is not valid.
        MissingExtraError: Optuna is not installed (when the module is imported).

    Example:
        >>> import optuna
        >>> from regretless.integrations.optuna import RegretlessSampler
        >>> optuna.logging.set_verbosity(optuna.logging.WARNING)
        >>> sampler = RegretlessSampler(budget=12, seed=0)
        >>> study = optuna.create_study(sampler=sampler)
        >>> study.optimize(lambda trial: trial.suggest_float("x", -1.0, 1.0) ** 2, n_trials=12)
        >>> abs(sampler.recommend(study).params["x"]) < 0.2
        True
    """

    def __init__(
        self,
        budget: int | None = None,
        *,
        policy: str | Policy = "ids",
        seed: int | None = None,
        n0: int | None = None,
        model: Model | None = None,
        guardrails: Sequence[Guardrail] | None = None,
        free_start: bool | None = None,
        baseline: dict[str, Any] | None = None,
        horizon: int | None = None,
        drift: str | Drift | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self._baseline = dict(baseline or {})
        self._settings: dict[str, Any] = {
            "budget": budget,
            "horizon": horizon,
            "drift": drift,
            "policy": policy,
            "seed": _fresh_seed() if seed is None else seed,
            "n0": n0,
            "model": model,
            "guardrails": guardrails,
            "free_start": free_start,
        }
        # Raises ConfigError if a setting is wrong.
        probe = Optimizer(Space({"any": Float(0.0, 1.0)}), **self._settings)
        self._policy_name = probe.policy.name
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._past: _Past | None = None
        self._warned: set[tuple[str, str]] = set()  # study and parameter
        self._lock = threading.Lock()

    # -- what Optuna calls -------------------------------------------------------------------------

    def before_trial(self, study: Study, trial: FrozenTrial) -> None:
        if "fixed_params" in trial.system_attrs:  # enqueued: Optuna may have nothing to ask us
            self._note_given(study, trial)

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial
    ) -> dict[str, BaseDistribution]:
        with self._lock:
            self._past, _ = self._recall(study)
            return self._past.space

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        if not search_space:
            self._note_given(study, trial)
            return {}
        with self._lock:
            self._past, trials = self._recall(study)
            fold = self._past.fold = self._past.fold_over(
                search_space, self._settings, self._baseline
            )
            fold.learn(trials, but=trial.number)
            asked = fold.ask(trial)
        if asked.decision.reason == "exhausted":
            _log.warning("Trial %d: %s. Raise the budget to go on.", trial.number, asked.decision)
        _note(study, trial, asked.decision, asked.params)
        return fold.external(asked.params)

    def sample_independent(
        self,
        study: Study,
        trial: FrozenTrial,
        param_name: str,
        param_distribution: BaseDistribution,
    ) -> Any:
        if trial.number == 0 and param_name in self._baseline:
            return self._baseline[param_name]
        self._warn_once(study, param_name, param_distribution)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        self._settings["seed"] = _fresh_seed()
        if self._past is not None and self._past.fold is not None:
            self._past.fold.optimizer.seed = self._settings["seed"]
        self._independent.reseed_rng()

    # -- what people call --------------------------------------------------------------------------

    def recommend(self, study: Study) -> Best:
        """The tried point with the best posterior mean, whichever sampler tried it.

        Optuna's `study.best_trial` is the luckiest draw: its value stands beside the mean, as
        `luckiest`.

        Args:
            study: the study to look at.  Another sampler may have run it.

        Returns:
            The point, its posterior mean with a 95 % interval, and how often it was tried.

        Raises:
            ConfigError: the study has more than one objective.
            DataError: no trial has finished yet, or the trials share no parameter to tune.
            NoResultsError: no trial has a finite value yet.
        """
        with self._lock:
            past, trials = self._recall(study)
            if not past.space:
                raise DataError(
                    "recommend: no trial has finished yet, or they share no parameter to tune"
                )
            fold = past.fold_over(past.space, self._settings, self._baseline)
            fold.learn(trials)
            aside = fold.endings.measured()
        if not aside.observations:
            raise NoResultsError("recommend: no trial has a finite value yet")
        aside.ask()  # fits the model, where that is due
        best = aside.best()
        return replace(best, params=fold.external(best.params))

    # -- within ------------------------------------------------------------------------------------

    def _recall(self, study: Study) -> tuple[_Past, list[FrozenTrial]]:
        """What is known of the study, and its trials; hold the lock, or they may be behind it."""
        if len(study.directions) > 1:
            raise ConfigError(f"study: need one objective, got {len(study.directions)} directions")
        past, trials = self._past, _all_trials(study)
        if past is None or not past.is_of(study, trials):
            past = _Past(study)
        past.update(trials)
        return past, trials

    def _note_given(self, study: Study, trial: FrozenTrial) -> None:
        spent = sum(_is_ours(t) for t in _all_trials(study) if t.number != trial.number)
        horizon = Horizon(self._settings["budget"], spent, self._settings["horizon"])
        given = Decision("given", self._policy_name, horizon.remaining)
        _note(study, trial, replace(given, endless=horizon.is_endless or None), {})

    def _warn_once(self, study: Study, name: str, distribution: BaseDistribution) -> None:
        if (study.study_name, name) in self._warned:
            return
        with self._lock:
            past, _ = self._recall(study)
            reason = past.why_apart(name, distribution)
            if reason is not None:
                self._warned.add((study.study_name, name))
                _log.warning("%s: drawn by %s, not tuned: %s", name, self._independent, reason)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class _Past:
    """What is known of one study: the trials that finished, the parameters they share, their fold.

    Names and ids are used again, by studies in memory and by deleted ones, and another process has
    another storage object.  So it is by its trials that a study is recognised.
    """

    def __init__(self, study: Study) -> None:
        self.direction = study.direction
        self.fold: _Fold | None = None
        self._marks: dict[int, tuple[datetime | None, list[float] | None]] = {}
        self._shared: dict[TrialState, dict[str, BaseDistribution]] = {}
        self._seen: dict[TrialState, list[_Seen]] = {}

    def is_of(self, study: Study, trials: list[FrozenTrial]) -> bool:
        marks = {trial.number: (trial.datetime_start, trial.values) for trial in trials}
        return self.direction == study.direction and self._marks.items() <= marks.items()

    def update(self, trials: list[FrozenTrial]) -> None:
        for trial in trials:
            if not trial.state.is_finished() or trial.number in self._marks:
                continue
            self._marks[trial.number] = trial.datetime_start, trial.values
            here = trial.distributions
            self._seen.setdefault(trial.state, []).append(_Seen.of(trial))
            so_far = self._shared.get(trial.state, here)
            self._shared[trial.state] = {n: d for n, d in so_far.items() if here.get(n) == d}

    @property
    def shared(self) -> dict[str, BaseDistribution] | None:
        """The parameters of all complete trials, or else of all pruned ones; None without either.

        Beside complete ones, pruned trials don't count: some end before they had all parameters.
        """
        return self._shared.get(TrialState.COMPLETE, self._shared.get(TrialState.PRUNED))

    @property
    def space(self) -> dict[str, BaseDistribution]:
        """The shared parameters that can be tuned."""
        shared = sorted((self.shared or {}).items())
        always = {name: d for name, d in shared if not d.single() and _objection(d) is None}
        return always | {name: self._sometimes[name] for name in self.conditions}

    @property
    def conditions(self) -> dict[str, _When]:
        """For each parameter that only some trials have, the choices that decide about it.

        Parents come before their children.
        """
        state = TrialState.COMPLETE if TrialState.COMPLETE in self._seen else TrialState.PRUNED
        seen, shared = self._seen.get(state, []), self.shared or {}
        found: dict[str, _When] = {}
        parents = [name for name, d in sorted(shared.items()) if _decides(d)]
        left = sorted(self._sometimes)
        while True:
            new = {name: when for name in left if (when := _condition(name, parents, seen))}
            if not new:
                return found
            found |= new
            left = [name for name in left if name not in new]
            parents = [name for name in new if _decides(self._sometimes[name])]

    @property
    def _sometimes(self) -> dict[str, BaseDistribution]:
        """The parameters that only some trials have, with one range, and that can be tuned."""
        state = TrialState.COMPLETE if TrialState.COMPLETE in self._seen else TrialState.PRUNED
        found: dict[str, BaseDistribution] = {}
        apart = set(self.shared or {})
        for trial in self._seen.get(state, []):
            for name, d in trial.distributions.items():
                if found.setdefault(name, d) != d or d.single() or _objection(d) is not None:
                    apart.add(name)
        return {name: d for name, d in found.items() if name not in apart}

    def why_apart(self, name: str, distribution: BaseDistribution) -> str | None:
        """Why it is not in the space; None if it is, or nobody can tell yet."""
        if self.shared is None or self.space.get(name) == distribution:
            return None
        if self.shared.get(name) != distribution:
            return "not every trial so far has it with this range, and no choice decides about it"
        return _objection(distribution)

    def fold_over(
        self,
        space: dict[str, BaseDistribution],
        settings: dict[str, Any],
        baseline: dict[str, Any],
    ) -> _Fold:
        """The fold over this space: a fresh one, which has seen no trial yet, if there is none."""
        conditions = {n: w for n, w in self.conditions.items() if {n, w.parent} <= space.keys()}
        if self.fold is not None and self.fold.is_over(space, conditions):
            return self.fold
        return _Fold(
            self.direction == StudyDirection.MAXIMIZE, space, settings, baseline, conditions
        )


class _When(NamedTuple):
    """A parameter exists for these choices of another one, which are internal: their indices."""

    parent: str
    choices: tuple[int, ...]


class _Seen(NamedTuple):
    """The parameters of a trial, and the internal values of its choices."""

    distributions: dict[str, BaseDistribution]
    choices: dict[str, int]

    @classmethod
    def of(cls, trial: FrozenTrial) -> _Seen:
        choices = {
            name: int(d.to_internal_repr(trial.params[name]))
            for name, d in trial.distributions.items()
            if isinstance(d, CategoricalDistribution)
        }
        return cls(trial.distributions, choices)


def _decides(distribution: BaseDistribution) -> bool:
    return isinstance(distribution, CategoricalDistribution) and not distribution.single()


def _condition(name: str, parents: list[str], seen: list[_Seen]) -> _When | None:
    """The choices of the first parent that tell in which trials the parameter is; None if none."""
    for parent in parents:
        there = {t.choices.get(parent) for t in seen if name in t.distributions}
        without = {
            t.choices[parent] for t in seen if parent in t.choices and name not in t.distributions
        }
        if None not in there and without and not there & without:
            return _When(parent, tuple(sorted(choice for choice in there if choice is not None)))
    return None


class _Fold:
    """The trials of a study, folded into an `Optimizer` over one search space."""

    def __init__(
        self,
        maximise: bool,
        space: dict[str, BaseDistribution],
        settings: dict[str, Any],
        baseline: dict[str, Any],
        conditions: dict[str, _When],
    ) -> None:
        self.space, self._conditions = space, conditions
        parameters = {name: _parameter(d) for name, d in space.items() if name not in conditions}
        for name, when in conditions.items():
            parameters[name] = _parameter(space[name]).when(when.parent, *when.choices)
        ours = Space(parameters)
        optimizer = Optimizer(
            ours,
            direction="maximize" if maximise else "minimize",
            baseline=_within(ours, self._internal(baseline)),
            **settings,
        )
        self.endings = Endings(optimizer)
        self.budget = optimizer.budget
        self.metrics = optimizer.safety.metrics
        self.asked: dict[int, Trial] = {}  # by Optuna's number; the Trial has ours
        self.finished: set[int] = set()

    @property
    def optimizer(self) -> Optimizer:
        return self.endings.optimizer

    def is_over(self, space: dict[str, BaseDistribution], conditions: dict[str, _When]) -> bool:
        return self.space == space and self._conditions == conditions

    def ask(self, trial: FrozenTrial) -> Trial:
        if trial.number in self.asked:  # enqueued, and others have seen it run
            return self.asked[trial.number]
        fixed = self._internal(trial.system_attrs.get("fixed_params", {}))
        asked = None
        if fixed:  # enqueued with some of its parameters
            asked = self._adopt(self.optimizer.propose().params | fixed, None)
        self.asked[trial.number] = asked or self.optimizer.ask()
        return self.asked[trial.number]

    def learn(self, trials: Iterable[FrozenTrial], but: int | None = None) -> None:
        """Take in what is new: who else is running where, and who has finished."""
        others = [trial for trial in trials if trial.number != but]
        ours = [trial for trial in others if _is_ours(trial)]
        for trial in ours:
            if trial.number not in self.asked:
                adopted = self._adopt(self._point(trial), _decision(trial))
                if adopted is not None:
                    self.asked[trial.number] = adopted
        new = [t for t in others if t.state.is_finished() and t.number not in self.finished]
        for trial in sorted(new, key=lambda t: (t.datetime_complete or datetime.min, t.number)):
            self._finish(trial)
            self.finished.add(trial.number)
        # Trials that failed before they were anywhere have cost as much as others.
        lost = max(0, len(ours) - len(self.asked))
        if self.budget is not None:
            self.optimizer.extend(max(self.budget - lost, self.optimizer.asked, 1))

    def external(self, params: dict[str, Scalar]) -> dict[str, Any]:
        present = {name: d for name, d in self.space.items() if name in params}
        return {name: d.to_external_repr(params[name]) for name, d in present.items()}

    def _finish(self, trial: FrozenTrial) -> None:
        asked, point = self.asked.get(trial.number), self._point(trial)
        if asked is not None and asked.params != point:  # the objective went elsewhere
            self.optimizer.abandon(asked)
            asked = None
        if point is not None:
            metrics = _metrics(trial, self.metrics)
            self.endings.add(point, _value(trial), asked, metrics)

    def _point(self, trial: FrozenTrial) -> dict[str, Scalar] | None:
        """Where the trial is; None if it is outside the space, or nobody can tell yet."""
        known: dict[str, Scalar] = {}
        if not trial.state.is_finished():  # not every parameter may have been suggested yet
            known |= trial.system_attrs.get(KEY, {}).get("params", {})
            known |= self._internal(trial.system_attrs.get("fixed_params", {}))
        known |= self._internal(trial.params)
        try:
            return self.optimizer.space.validate({n: known[n] for n in self.space if n in known})
        except ValueError:
            return None

    def _internal(self, params: dict[str, Any]) -> dict[str, Scalar]:
        """Without parameters that are not in the space, or have values that can't be."""
        inner: dict[str, Scalar] = {}
        for name in self.space.keys() & params.keys():
            try:
                inner[name] = self.space[name].to_internal_repr(params[name])
            except ValueError:
                continue
        return inner

    def _adopt(self, point: dict[str, Scalar] | None, decision: Decision | None) -> Trial | None:
        if point is None:
            return None
        try:
            return self.optimizer.adopt(point, decision)
        except ValueError:  # outside: Optuna lets enqueued trials be there
            return None


def _within(space: Space, point: dict[str, Scalar]) -> dict[str, Scalar] | None:
    """The point, if it is one of the space."""
    try:
        return space.validate(point)
    except SpaceError:
        return None


def _parameter(distribution: BaseDistribution) -> Parameter:
    """The distribution's internal representation as one of ours."""
    d = distribution
    if isinstance(d, CategoricalDistribution):
        for index, choice in enumerate(d.choices):
            if (first := int(d.to_internal_repr(choice))) != index:  # 1 and 1.0, 1 and True
                same = f"{d.choices[first]!r} and {choice!r}"
                raise ConfigError(f"choices: Optuna can't tell {same} apart")
        return Categorical(range(len(d.choices)))
    if isinstance(d, IntDistribution) and d.step == 1:
        return Int(d.low, d.high, d.log)
    if isinstance(d, IntDistribution | FloatDistribution):
        return Float(d.low, d.high, d.log, d.step)
    raise ConfigError(f"distribution: need Optuna's float, int or categorical one, got {d!r}")


def _objection(distribution: BaseDistribution) -> str | None:
    """Why it can't be tuned (two neighbouring floats, equal choices); None if it can."""
    try:
        _parameter(distribution)
    except ValueError as error:
        return str(error)
    return None


def _all_trials(study: Study) -> list[FrozenTrial]:
    """Not `study.get_trials`: Hyperband would show one bracket at a time, as if it were a study."""
    trials: list[FrozenTrial] = study._storage.get_all_trials(study._study_id, deepcopy=False)
    return trials


def _is_ours(trial: FrozenTrial) -> bool:
    """Whether the trial costs budget: sampled by us, or enqueued.  Others are prior knowledge."""
    if trial.state == TrialState.WAITING:
        return False
    return KEY in trial.system_attrs or "fixed_params" in trial.system_attrs


def _value(trial: FrozenTrial) -> float | None:
    """The objective; of a pruned trial it is the last one reported, if there is one."""
    if trial.state not in (TrialState.COMPLETE, TrialState.PRUNED):
        return None
    return None if trial.value is None else float(trial.value)


def _metrics(trial: FrozenTrial, names: Iterable[str]) -> dict[str, float]:
    """What the objective has set under these names, as a constraint or as a user attribute."""
    found = {**trial.user_attrs, **getattr(trial, "constraints", {})}  # none before Optuna 5
    return {name: float(found[name]) for name in names if name in found}


def _decision(trial: FrozenTrial) -> Decision | None:
    data = trial.system_attrs.get(KEY)
    return None if data is None else Decision.from_json(data["decision"])


def _note(study: Study, trial: FrozenTrial, decision: Decision, point: dict[str, Scalar]) -> None:
    """Write down why, for people and their dashboard, and where, for other processes."""
    note = {"decision": decision.to_json(), "params": point}
    if len(json.dumps(note)) > _LONGEST:
        del note["params"]  # others will know when the objective has asked for all of them
    storage, trial_id = study._storage, trial._trial_id
    storage.set_trial_system_attr(trial_id, KEY, note)
    storage.set_trial_user_attr(trial_id, KEY, str(decision))


def _fresh_seed() -> int:
    return int(np.random.default_rng().integers(2**32))
