"""EIC as a Ray Tune searcher: `tune.TuneConfig(search_alg=NoRegretSearch(), num_samples=100)`."""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

from noregret.decision import Best, Trial
from noregret.errors import ConfigError, DataError, MissingExtraError
from noregret.fit import Model
from noregret.integrations._results import Results
from noregret.optimizer import Optimizer
from noregret.policies import Policy
from noregret.space import Categorical, Float, Int, Parameter, Scalar, Space

try:
    from ray.tune.result import DEFAULT_METRIC
    from ray.tune.search import Searcher, sample
    from ray.tune.search.variant_generator import parse_spec_vars
    from ray.tune.utils.util import flatten_dict, unflatten_dict
except ImportError as error:
    raise MissingExtraError("ray", "ray[tune]") from error

Config = dict[str, Any]


class NoRegretSearch(Searcher):
    """Suggests configurations so that little is lost on the way.

    space    a dict of Tune's search spaces; as a rule it comes from the Tuner's `param_space`
    metric, mode   what the trials report, "min" or "max"; as a rule from the TuneConfig
    budget   trials that will be run; as a rule from the TuneConfig's `num_samples`
    points_to_evaluate   configurations to try first
    policy, seed, n0, model   as for `noregret.Optimizer`
    """

    def __init__(
        self,
        space: Config | None = None,
        metric: str | None = None,
        mode: str | None = None,
        budget: int | None = None,
        *,
        points_to_evaluate: Sequence[Config] = (),
        policy: str | Policy = "ids",
        seed: int = 0,
        n0: int | None = None,
        model: Model | None = None,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        if not isinstance(metric, str | None):
            raise ConfigError(f"metric: need one, got {metric!r}")
        self._metric, self._mode = metric, mode
        self._budget = budget
        self._first = list(points_to_evaluate)
        self._settings: dict[str, Any] = {"policy": policy, "seed": seed, "n0": n0, "model": model}
        self._domains: dict[str, sample.Domain] = {}
        self._optimizer: Optimizer | None = None
        self._trials: dict[str, Trial] = {}  # those that are running
        self._results = Results()
        if space is not None:
            self._set_up(space)

    # -- what Tune calls ---------------------------------------------------------------------------

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: Any
    ) -> bool:
        if self._optimizer is not None:
            return False
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        samples = spec.get("num_samples", -1)
        if self._budget is None and samples > 0:
            self._budget = samples
        self._set_up(config)
        return True

    def suggest(self, trial_id: str) -> Config:
        optimizer = self._ready()
        if self._first:
            trial = optimizer.adopt(self._encoded(self._first.pop(0)))
        else:
            trial = optimizer.ask()
        self._trials[trial_id] = trial
        return self._decoded(trial.params)

    def on_trial_complete(
        self, trial_id: str, result: Config | None = None, error: bool = False
    ) -> None:
        trial = self._trials.pop(trial_id, None)
        if trial is None:
            return
        raw = None if error or result is None else result.get(self.metric)
        value = self._results.value_of(trial.params, None if raw is None else float(raw))
        if value is None:
            self._ready().abandon(trial)
        else:
            self._ready().tell(trial, value)

    def add_evaluated_point(
        self,
        parameters: Config,
        value: float,
        error: bool = False,
        pruned: bool = False,
        intermediate_values: list[float] | None = None,
    ) -> None:
        """A result that was known before; it costs no budget."""
        point = self._encoded(parameters)
        known = self._results.value_of(point, None if error else value)
        if known is not None:
            self._ready().observe(point, known)

    def save(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "wb") as file:
            pickle.dump(self.__dict__, file)

    def restore(self, checkpoint_path: str) -> None:
        with open(checkpoint_path, "rb") as file:
            self.__dict__.update(pickle.load(file))

    # -- what people call --------------------------------------------------------------------------

    def best(self) -> Best:
        """The configuration with the best posterior mean, never just the luckiest result."""
        best = self._ready().best()
        return Best(**vars(best) | {"params": self._decoded(best.params)})

    def explain(self, trial_id: str) -> str:
        """Why this trial, while it runs."""
        if trial_id not in self._trials:
            raise DataError(f"trial_id: {trial_id!r} is not running")
        return str(self._trials[trial_id].decision)

    # -- within ------------------------------------------------------------------------------------

    def _set_up(self, space: Config) -> None:
        if self._budget is None:
            raise ConfigError("budget: need one, here or as num_samples of the TuneConfig")
        if self._mode not in ("min", "max"):
            raise ConfigError(f"mode: need 'min' or 'max', got {self._mode!r}")
        self._metric = self._metric or DEFAULT_METRIC
        _, domains, grids = parse_spec_vars(flatten_dict(space, prevent_delimiter=True))
        if grids or not domains:
            raise ConfigError(
                f"space: need Tune's search spaces, and no grid_search, got {space!r}"
            )
        self._domains = {"/".join(path): domain for path, domain in domains}
        self._optimizer = Optimizer(
            Space({name: _parameter(name, domain) for name, domain in self._domains.items()}),
            self._budget,
            direction="maximize" if self._mode == "max" else "minimize",
            **self._settings,
        )

    def _ready(self) -> Optimizer:
        if self._optimizer is None:
            raise ConfigError("space: need one, here or as param_space of the Tuner")
        return self._optimizer

    def _decoded(self, params: Mapping[str, Scalar]) -> Config:
        """As Tune wants it: nested, and with the choices themselves."""
        flat = {name: _outside(self._domains[name], value) for name, value in params.items()}
        nested: Config = unflatten_dict(flat)
        return nested

    def _encoded(self, config: Config) -> dict[str, Scalar]:
        flat = flatten_dict(config)
        return {name: _inside(name, d, flat.get(name)) for name, d in self._domains.items()}


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
    raise ConfigError(f"{name}: this search space ({kind}, {domain.domain_str}) has no match here")


def _outside(domain: sample.Domain, value: Scalar) -> Any:
    if isinstance(domain, sample.Categorical):
        return domain.categories[value]
    return domain.cast(value)


def _inside(name: str, domain: sample.Domain, value: Any) -> Scalar:
    if not isinstance(domain, sample.Categorical):
        inner: Scalar = value
        return inner
    if value not in domain.categories:
        raise ConfigError(f"{name}: need one of {domain.categories!r}, got {value!r}")
    return int(domain.categories.index(value))
