"""EIC as an Optuna sampler: `optuna.create_study(sampler=NoRegretSampler(budget=200))`.

The study's trials are folded, once each, into an `Optimizer` over the intersection search space.
Inside, parameters are in Optuna's internal representation, in which a choice is its index: so
whatever Optuna accepts as a choice will do.
"""

from __future__ import annotations

import copy
import json
import logging
import threading
from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

import numpy as np

from noregret.decision import Best, Decision, Trial
from noregret.errors import ConfigError, DataError, MissingExtraError
from noregret.fit import Model
from noregret.integrations._results import Results
from noregret.optimizer import Optimizer
from noregret.policies import Policy
from noregret.space import Categorical, Float, Int, Parameter, Scalar, Space

try:
    from optuna.distributions import (
        BaseDistribution,
        CategoricalDistribution,
        FloatDistribution,
        IntDistribution,
    )
    from optuna.samplers import BaseSampler, RandomSampler
    from optuna.search_space import IntersectionSearchSpace
    from optuna.study import Study, StudyDirection
    from optuna.trial import FrozenTrial, TrialState
except ImportError as error:
    raise MissingExtraError("optuna", "optuna") from error

KEY = "noregret"  # user attribute: the decision's sentence; system attribute: its numbers
_LONGEST = 2045  # characters that a relational storage takes for an attribute

_log = logging.getLogger(__name__)


class NoRegretSampler(BaseSampler):
    """Suggests what to try next so that little is lost on the way.

    budget   trials that this study will run, finished ones included.  Optuna tells no sampler its
             n_trials, and the budget is what decides how long to explore
    policy   "ids", or another name or instance that `noregret.Optimizer` takes
    seed     leave it out with several processes, or they begin alike
    n0       how many trials to spread over the space first; known results count towards them
    model    a `noregret.Model`
    independent_sampler   for the first trial and for parameters that not every trial has
    """

    def __init__(
        self,
        budget: int,
        *,
        policy: str | Policy = "ids",
        seed: int | None = None,
        n0: int | None = None,
        model: Model | None = None,
        independent_sampler: BaseSampler | None = None,
    ) -> None:
        self._settings: dict[str, Any] = {
            "budget": budget,
            "policy": policy,
            "seed": _fresh_seed() if seed is None else seed,
            "n0": n0,
            "model": model,
        }
        probe = Optimizer(Space({"any": Float(0.0, 1.0)}), **self._settings)  # or it complains
        self._policy_name = probe.policy.name
        self._independent = independent_sampler or RandomSampler(seed=seed)
        self._intersection = IntersectionSearchSpace()
        self._fold: _Fold | None = None
        self._lock = threading.Lock()

    # -- what Optuna calls -------------------------------------------------------------------------

    def infer_relative_search_space(
        self, study: Study, trial: FrozenTrial | None
    ) -> dict[str, BaseDistribution]:
        _check_single_objective(study)
        with self._lock:
            shared: dict[str, BaseDistribution] = self._intersection.calculate(study)
        return {name: d for name, d in shared.items() if not d.single() and _is_tunable(d)}

    def sample_relative(
        self, study: Study, trial: FrozenTrial, search_space: dict[str, BaseDistribution]
    ) -> dict[str, Any]:
        _check_single_objective(study)
        trials = study.get_trials(deepcopy=False)
        if not search_space:
            spent = sum(_is_ours(t) for t in trials if t.number != trial.number)
            left = max(0, self._settings["budget"] - spent)
            _note(study, trial, Decision("given", self._policy_name, left), {})
            return {}
        with self._lock:
            fold = self._current_fold(study, search_space)
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
        _check_single_objective(study)
        return self._independent.sample_independent(study, trial, param_name, param_distribution)

    def reseed_rng(self) -> None:
        self._settings["seed"] = _fresh_seed()
        if self._fold is not None:
            self._fold.optimizer.seed = self._settings["seed"]
        self._independent.reseed_rng()

    # -- what people call --------------------------------------------------------------------------

    def recommend(self, study: Study) -> Best:
        """The tried point with the best posterior mean, whichever sampler tried it.

        Optuna's `study.best_trial` is the luckiest draw: its value stands beside the mean, as
        `luckiest`.
        """
        space = self.infer_relative_search_space(study, None)
        if not space:
            raise DataError("recommend: no trial has finished yet, or none had a parameter to tune")
        with self._lock:
            fold = self._current_fold(study, space)
            fold.learn(study.get_trials(deepcopy=False))
            aside = copy.deepcopy(fold.optimizer)
        aside.ask()  # fits the model, where that is due
        best = aside.best()
        return replace(best, params=fold.external(best.params))

    # -- within ------------------------------------------------------------------------------------

    def _current_fold(self, study: Study, space: dict[str, BaseDistribution]) -> _Fold:
        """The fold over this space: a fresh one, which has seen no trial yet, where it changed."""
        if self._fold is None or (self._fold.study, self._fold.space) != (study.study_name, space):
            self._fold = _Fold(study, space, self._settings)
        return self._fold

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())


class _Fold:
    """The trials of a study, folded into an `Optimizer` over one search space."""

    def __init__(
        self, study: Study, space: dict[str, BaseDistribution], settings: dict[str, Any]
    ) -> None:
        maximise = study.direction == StudyDirection.MAXIMIZE
        self.study, self.space = study.study_name, space
        self.optimizer = Optimizer(
            Space({name: _parameter(d) for name, d in space.items()}),
            direction="maximize" if maximise else "minimize",
            **settings,
        )
        self.budget = self.optimizer.budget
        self.asked: dict[int, Trial] = {}  # by Optuna's number; the Trial has ours
        self.finished: set[int] = set()
        self.results = Results()

    def ask(self, trial: FrozenTrial) -> Trial:
        fixed = self._internal(trial.system_attrs.get("fixed_params", {}))
        asked = None
        if fixed:  # enqueued with some of its parameters
            asked = self._adopt(self.optimizer.propose()["params"] | fixed, None)
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
        self.optimizer.extend(max(self.budget - lost, self.optimizer.asked, 1))

    def external(self, params: dict[str, Scalar]) -> dict[str, Any]:
        return {name: d.to_external_repr(params[name]) for name, d in self.space.items()}

    def _finish(self, trial: FrozenTrial) -> None:
        asked, point = self.asked.get(trial.number), self._point(trial)
        value = None if point is None else self.results.value_of(point, _value(trial))
        if asked is not None and asked.params == point and value is not None:
            self.optimizer.tell(asked, value)
            return
        if asked is not None:  # nothing to learn, or the objective went elsewhere
            self.optimizer.abandon(asked)
        if point is not None and value is not None:
            self.optimizer.observe(point, value)

    def _point(self, trial: FrozenTrial) -> dict[str, Scalar] | None:
        """Where the trial is; None if it is outside the space, or nobody can tell yet."""
        known: dict[str, Scalar] = {}
        if not trial.state.is_finished():  # not every parameter may have been suggested yet
            known |= trial.system_attrs.get(KEY, {}).get("params", {})
            known |= self._internal(trial.system_attrs.get("fixed_params", {}))
        known |= self._internal(trial.params)
        try:
            return self.optimizer.space.validate({name: known[name] for name in self.space})
        except (KeyError, ValueError):
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


def _parameter(distribution: BaseDistribution) -> Parameter:
    """The distribution's internal representation as one of ours."""
    d = distribution
    if isinstance(d, CategoricalDistribution):
        return Categorical(range(len(d.choices)))
    if isinstance(d, IntDistribution) and d.step == 1:
        return Int(d.low, d.high, d.log)
    if isinstance(d, IntDistribution | FloatDistribution):
        return Float(d.low, d.high, d.log, d.step)
    raise ConfigError(f"distribution: need Optuna's float, int or categorical one, got {d!r}")


def _is_tunable(distribution: BaseDistribution) -> bool:
    """Whether it resolves into points (and not, say, into a range of two neighbouring floats)."""
    try:
        _parameter(distribution)
    except ValueError:
        return False
    return True


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


def _check_single_objective(study: Study) -> None:
    if len(study.directions) > 1:
        raise ConfigError(f"study: need one objective, got {len(study.directions)} directions")


def _fresh_seed() -> int:
    return int(np.random.default_rng().integers(2**32))
