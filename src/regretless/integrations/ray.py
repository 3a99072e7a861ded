"""A searcher for Ray Tune: `tune.TuneConfig(search_alg=RegretlessSearch(), num_samples=100)`.

Its policy is the library's default, IDS: information-directed sampling within the gate of EIC.
"""

from __future__ import annotations

import copy
import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import getitem
from typing import Any

from regretless.engine import Optimizer
from regretless.errors import ConfigError, DataError, MissingExtraError, SpaceError
from regretless.integrations._endings import Endings
from regretless.model import Drift, Model
from regretless.policies import Policy
from regretless.results import Best, Trial
from regretless.safety import Guardrail
from regretless.space import Categorical, Float, Int, Parameter, Scalar, Space

try:
    from ray import cloudpickle
    from ray.tune.result import DEFAULT_METRIC
    from ray.tune.search import Searcher, sample
    from ray.tune.search.variant_generator import assign_value, parse_spec_vars
except ImportError as error:
    raise MissingExtraError("ray", "ray[tune]") from error

Config = dict[str, Any]
Path = tuple[Any, ...]  # the keys, and in lists the indices, that lead to a value

_log = logging.getLogger(__name__)

_IN_TUNE = "in the TuneConfig, which Tune hands on only beside a param_space"


class RegretlessSearch(Searcher):
    """Chooses the next configuration to evaluate, so that the sum of all losses stays small.

    Args:
        space: a dict of Tune's search spaces and constants; None takes the Tuner's `param_space`.
        metric: the name of what the trials report; None takes that of the TuneConfig.
        mode: "min" or "max"; None takes that of the TuneConfig.
        budget: how many trials will be run; None takes the TuneConfig's `num_samples`.  If that is
            -1, the run has no end, and needs a `horizon`.
        points_to_evaluate: configurations to try first, in this order.
        policy: how the next point is chosen, by name or as an instance; see
            `regretless.Optimizer`.
        seed: the seed of all random numbers.
        n0: how many points to start with; see `regretless.Optimizer`.
        model: the model of the objective; see `regretless.Model`.
        baseline: the configuration that runs today; see `regretless.Optimizer`.
        guardrails: limits on other metrics that the trials report; see `regretless.Optimizer`.
        free_start: whether the points of the start may break guardrails.
        loss_budget: the most that all trials may lose against the baseline; see
            `regretless.Optimizer`.
        confidence: the probability with which the loss budget holds.
        horizon: how many trials to look ahead; see `regretless.Optimizer`.
        drift: None, "auto" or a `regretless.Drift`, if the objective may change with time.

    Raises:
        ConfigError: the metric is not a string, or the space has none of Tune's search spaces, a
            grid search, or a search space that is not supported.  Other settings are checked when
            the budget is known, in the first call of `suggest` at the latest.
        MissingExtraError: Ray Tune is not installed (when the module is imported).

    Example:
        >>> from ray import tune
        >>> from regretless.integrations.ray import RegretlessSearch
        >>> space = {"x": tune.uniform(-1.0, 1.0)}
        >>> search = RegretlessSearch(space, metric="loss", mode="min", budget=12)
        >>> for name in "abcdefghijkl":  # as a rule Tune does this: TuneConfig(search_alg=search)
        ...     config = search.suggest(name)
        ...     search.on_trial_complete(name, {"loss": config["x"] ** 2})
        >>> abs(search.best().params["x"]) < 0.2
        True
    """

    def __init__(
        self,
        space: Config | None = None,
        metric: str | None = None,
        mode: str | None = None,
        budget: int | None = None,
        *,
        points_to_evaluate: Sequence[Config] | None = None,
        policy: str | Policy = "ids",
        seed: int = 0,
        n0: int | None = None,
        model: Model | None = None,
        baseline: Config | None = None,
        guardrails: Sequence[Guardrail] | None = None,
        free_start: bool | None = None,
        loss_budget: float | None = None,
        confidence: float | None = None,
        horizon: int | None = None,
        drift: str | Drift | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        if not isinstance(metric, str | None):
            raise ConfigError(f"metric: need a string, got {metric!r}")
        self._metric, self._mode = metric, mode
        self._budget = budget  # None: as many as Tune will run
        self._first = list(points_to_evaluate or ())
        self._settings: dict[str, Any] = {"policy": policy, "seed": seed, "n0": n0, "model": model}
        self._settings |= {"loss_budget": loss_budget, "confidence": confidence}
        self._settings |= {"free_start": free_start, "horizon": horizon, "drift": drift}
        self._baseline = baseline
        self._own_space = None if space is None else _TuneSpace(space)
        self._space = self._own_space
        self._endings: Endings | None = None
        self._trials: dict[str, Trial] = {}  # those that are running, or failed and may run again
        self._last: dict[str, Config] = {}  # what the running ones have reported last
        self._baseline, self._guardrails = baseline, tuple(guardrails or ())

    # -- what Tune calls ---------------------------------------------------------------------------

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: Any
    ) -> bool:
        """Take from the Tuner what was not given.  Ray Tune calls it once.

        It returns False if a space was given, so that the Tuner needs none.

        Args:
            metric: the metric of the Tuner.
            mode: `min` or `max`.
            config: the space of the Tuner.
            **spec: further settings; `num_samples` is the budget if none was given.

        Raises:
            ConfigError: the space, the metric or the mode is missing or not valid.
        """
        samples = spec.get("num_samples", -1)
        if self._endings is not None:  # it goes on, in another experiment
            optimizer = self._endings.optimizer
            if self._budget is None and samples > 0 and optimizer.budget is not None:
                optimizer.extend(max(optimizer.budget, optimizer.asked + samples))
            return False
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        space = self._own_space or _TuneSpace(config, constants=False)
        self._endings, self._space = self._set_up(space, samples if samples > 0 else None), space
        return self._own_space is None

    def suggest(self, trial_id: str) -> Config:
        endings, space = self._ready()
        optimizer = endings.optimizer
        first = space.point(self._first.pop(0)) if self._first else None
        trial = optimizer.ask() if first is None else optimizer.adopt(first)
        if trial.decision.reason == "exhausted":
            _log.warning("Trial %s: %s. Give a larger budget.", trial_id, trial.decision)
        self._trials[trial_id] = trial
        return space.config(trial.params)

    def on_trial_result(self, trial_id: str, result: Config) -> None:
        if trial_id in self._trials and self.metric in result:
            self._last[trial_id] = result

    def on_trial_complete(
        self, trial_id: str, result: Config | None = None, error: bool = False
    ) -> None:
        trial, last = self._trials.get(trial_id), self._last.pop(trial_id, None)
        if trial is None:
            return
        # Of a trial that is stopped while it pauses, Tune does not repeat the result here.
        reported = {**(last or {}), **(result or {})}
        raw = None if error else reported.get(self.metric)
        endings, _ = self._ready()
        value = self._number(raw, f"trial {trial_id}")
        endings.add(trial.params, value, trial, self._metrics(reported, f"trial {trial_id}"))
        if not error:  # or it may run again, by the same name: Tuner.restore(resume_errored=True)
            del self._trials[trial_id]

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """Take a result that was known before.  It uses no budget.

        Args:
            parameters: the point.
            value: the result.
            error: whether the trial failed.
            pruned: whether the trial was stopped early.
            intermediate_values: they are ignored.

        Raises:
            ConfigError: the space, the metric or the mode is not known yet.
            DataError: the value is not a number.
        """
        endings, space = self._ready()
        endings.add(
            space.point(parameters), self._number(None if error else value, "a known point")
        )

    def save(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "wb") as file:
            cloudpickle.dump(self.__dict__, file)  # choices and constants may be functions

    def restore(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    # -- what people call --------------------------------------------------------------------------

    def best(self) -> Best:
        """The tried configuration with the best posterior mean, never just the luckiest result.

        Returns:
            The configuration, its posterior mean with a 95 % interval, and how often it was tried.

        Raises:
            NoResultsError: no trial has reported a finite value yet.
            ConfigError: a setting is missing or not valid.
        """
        endings, space = self._ready()
        best = endings.measured().best()
        return Best(**vars(best) | {"params": space.config(best.params)})

    def explain(self, trial_id: str) -> str:
        """The sentence that says why this trial was chosen, while it runs.

        Args:
            trial_id: Tune's name of the trial.

        Raises:
            DataError: no trial of this name is running.
        """
        if trial_id not in self._trials:
            raise DataError(f"trial_id: {trial_id!r} is not running")
        return str(self._trials[trial_id].decision)

    # -- within ------------------------------------------------------------------------------------

    def _ready(self) -> tuple[Endings, _TuneSpace]:
        """Set up, at the latest now: Tune does not call us where its param_space is empty."""
        if self._space is None:
            raise ConfigError("space: need one, here or as param_space of the Tuner")
        if self._endings is None:
            self._endings = self._set_up(self._space, None)
        return self._endings, self._space

    def _set_up(self, space: _TuneSpace, samples: int | None) -> Endings:
        budget = samples if self._budget is None else self._budget
        if budget is None and self._settings["horizon"] is None:
            raise ConfigError(
                f"budget: need one, here or as num_samples {_IN_TUNE}; or a horizon for a run"
                " without an end"
            )
        if self._mode not in ("min", "max"):
            raise ConfigError(f"mode: need 'min' or 'max', here or {_IN_TUNE}, got {self._mode!r}")
        if not isinstance(self._metric, str):
            raise ConfigError(
                f"metric: need one, here or {_IN_TUNE}, got {self._metric!r}"
                f" (what a trainable returns without a name is {DEFAULT_METRIC!r})"
            )
        optimizer = Optimizer(
            space.space,
            budget,
            direction="maximize" if self._mode == "max" else "minimize",
            baseline=None if self._baseline is None else space.point(self._baseline),
            guardrails=self._guardrails or None,
            **self._settings,
        )
        return Endings(optimizer)

    def _metrics(self, reported: Config, where: str) -> dict[str, float]:
        """What was reported of the metrics that have a guardrail."""
        names = {guardrail.metric for guardrail in self._guardrails if guardrail.metric in reported}
        found = {name: self._number(reported[name], where, name) for name in sorted(names)}
        return {name: number for name, number in found.items() if number is not None}

    def _number(self, raw: Any, where: str, name: str | None = None) -> float | None:
        try:
            return None if raw is None else float(raw)
        except (TypeError, ValueError):
            named = name or self._metric
            raise DataError(f"{named}: need a number, got {raw!r} of {where}") from None


@dataclass(frozen=True)
class _Part:
    """One of Tune's search spaces: where its value is in a configuration, and when it is there."""

    path: Path
    domain: sample.Domain
    within: tuple[str, int] | None  # the name of a choice, and which of its values holds this one


class _TuneSpace:
    """Tune's search space, of nested dicts and lists: a configuration is a point of `space`.

    A choice may hold search spaces itself.  They exist where it is chosen.  Without `constants`,
    configurations leave out what is constant, where Tune has it anyway.
    """

    def __init__(self, config: Config, constants: bool = True) -> None:
        domains = _domains(config)
        if not domains:
            raise ConfigError(f"space: need Tune's search spaces, got {config!r}")
        parts = [part for path, domain in domains for part in _parts(_name(path), path, domain)]
        self.parts = dict(parts)
        if len(self.parts) < len(parts):
            raise ConfigError(f"space: two parameters have the same name, {list(self.parts)!r}")
        self.space = Space({name: _named(name, part) for name, part in parts})
        self.frame = config if constants else {path[0]: config[path[0]] for path, _ in domains}

    def config(self, params: Mapping[str, Scalar]) -> Config:
        """As Tune wants it: nested, and with the choices themselves."""
        config = copy.deepcopy(self.frame)
        for name, part in self.parts.items():
            if name in params:
                assign_value(config, part.path, _outside(part.domain, params[name]))
        return config

    def point(self, config: Config) -> dict[str, Scalar]:
        params: dict[str, Scalar] = {}
        for name, part in self.parts.items():
            if part.within is None or params.get(part.within[0]) == part.within[1]:
                params[name] = _inside(name, part.domain, _value(config, name, part.path))
        return params


def _domains(config: Config, name: str = "") -> list[tuple[Path, sample.Domain]]:
    """The search spaces in a dict, with their paths.

    Raises:
        ConfigError: one of them is a grid search; `name` is in front of its name.
    """
    _, domains, grids = parse_spec_vars(config)
    if grids:
        where = name or _name(grids[0][0])
        raise ConfigError(f"{where}: grid_search is not supported; use tune.choice")
    return list(domains)


def _parts(
    name: str, path: Path, domain: sample.Domain, within: tuple[str, int] | None = None
) -> Iterator[tuple[str, _Part]]:
    """A search space, and those that its choices hold."""
    yield name, _Part(path, domain, within)
    if isinstance(domain, sample.Categorical):
        for index, choice in enumerate(domain.categories):
            chosen = f"{name}[{index}]"
            for (_, *inner), held in _domains({"": choice}, chosen):
                full = "/".join([chosen, *map(str, inner)])
                yield from _parts(full, (*path, *inner), held, (name, index))


def _name(path: Path) -> str:
    return "/".join(map(str, path))


def _value(config: Config, name: str, path: Path) -> Any:
    if name in config:  # also where it is flat, as Tune's reports are
        return config[name]
    try:
        return reduce(getitem, path, config)
    except (KeyError, IndexError, TypeError):
        raise ConfigError(f"{name}: no value in {config!r}") from None


def _named(name: str, part: _Part) -> Parameter:
    try:
        parameter = _parameter(name, part.domain)
    except SpaceError as error:
        raise SpaceError(f"{name}: {error}") from None
    return parameter if part.within is None else parameter.when(*part.within)


def _parameter(name: str, domain: sample.Domain) -> Parameter:
    """Tune's search space as one of ours; a choice is its index, for it may be any object."""
    sampler, step = domain.get_sampler(), None
    if isinstance(sampler, sample.Quantized):
        sampler, step = sampler.get_sampler(), sampler.q
    log = isinstance(sampler, sample.LogUniform)
    uniform = isinstance(sampler, sample.Uniform)
    if isinstance(domain, sample.Categorical) and uniform:
        return Categorical(range(len(domain.categories)))
    if isinstance(domain, sample.Integer) and (log or uniform) and step in (None, 1):
        return Int(domain.lower, domain.upper - 1, log)  # Tune leaves the upper end out
    if isinstance(domain, sample.Integer) and uniform and step is not None:
        return Float(-(-domain.lower // step) * step, domain.upper, step=step)
    if isinstance(domain, sample.Float) and (uniform or (log and step is None)):
        return Float(domain.lower, domain.upper, log, step)
    kind = f"{type(domain).__name__} with {type(domain.get_sampler()).__name__}"
    raise ConfigError(f"{name}: this search space ({kind}, {domain.domain_str}) is not supported")


def _outside(domain: sample.Domain, value: Scalar) -> Any:
    if isinstance(domain, sample.Categorical):
        choice = domain.categories[value]
        # What a choice holds is replaced by values later on.
        return copy.deepcopy(choice) if _holds_spaces(choice) else choice
    return domain.cast(value)


def _inside(name: str, domain: sample.Domain, value: Any) -> Scalar:
    if not isinstance(domain, sample.Categorical):
        inner: Scalar = value
        return inner
    choices = domain.categories
    for index, choice in enumerate(choices):  # the very one first: 1, 1.0 and True are equal
        if type(choice) is type(value) and choice == value:
            return index
    if value in choices:
        return int(choices.index(value))
    for index, choice in enumerate(choices):
        if _holds_spaces(choice) and _fits(choice, value):
            return index
    raise ConfigError(f"{name}: need one of {choices!r}, got {value!r}")


def _holds_spaces(choice: Any) -> bool:
    return bool(parse_spec_vars({"": choice})[1])


def _fits(choice: Any, value: Any) -> bool:
    """Whether a value is what this choice becomes, for some values of the spaces that it holds."""
    if isinstance(choice, sample.Categorical):
        return any(_fits(each, value) for each in choice.categories)
    if isinstance(choice, sample.Domain):
        try:
            _parameter("", choice).validate(value)
        except SpaceError:
            return False
        return True
    if isinstance(choice, dict) and isinstance(value, Mapping):
        return choice.keys() == value.keys() and all(_fits(choice[k], value[k]) for k in choice)
    if isinstance(choice, list | tuple) and isinstance(value, list | tuple):
        return len(choice) == len(value) and all(map(_fits, choice, value))
    return type(choice) is type(value) and bool(choice == value)
