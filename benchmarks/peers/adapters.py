"""How each tool is driven: as a person would set it up who knows it well and wants its best.

A tool is asked for a point, told the outcome, and recommends one in the end. What all share:
outcomes are to be maximised; scales (a logarithm, a whole number, a choice) are declared wherever
the tool has a word for them, and it works in the unit cube where not.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Protocol

import numpy as np
from benchmarks.peers.problems import Params, Task

import regretless as rl
from regretless.design import sobol


class Tool(Protocol):
    def ask(self) -> Params: ...

    def tell(self, params: Params, value: float) -> None:
        """An outcome: of what was asked for, or of a point of a common start."""

    def recommend(self) -> Params: ...


def common_start(task: Task, seed: int, count: int | None = None) -> list[Params]:
    """The first points of a scrambled Sobol sequence, 2d + 2 of them if no number is given."""
    size = 2 * task.space.dim + 2 if count is None else count
    return [task.space.decode(x) for x in sobol(task.space, size, seed)]


# -- ours ------------------------------------------------------------------------------------------


class Regretless:
    def __init__(self, task: Task, seed: int, first: Sequence[Params], **settings: Any) -> None:
        if first:
            settings = settings | {"design": first, "n0": None}
        self._optimizer = rl.Optimizer(task.space, task.budget, seed=seed, **settings)
        self._trial: rl.Trial | None = None

    def ask(self) -> Params:
        self._trial = self._optimizer.ask()
        return self._trial.params

    def tell(self, params: Params, value: float) -> None:
        # A common start is the optimizer's design: what it asks for next is what was tried.
        trial, self._trial = self._trial or self._optimizer.ask(), None
        assert trial.params == params
        self._optimizer.tell(trial, value)

    def recommend(self) -> Params:
        return self._optimizer.best().params


def papers_setting(task: Task, seed: int, first: Sequence[Params]) -> Regretless:
    """The paper's start and model; a constant mean where the outcomes are not centred."""
    model = rl.Model.paper()
    if not task.centred:
        model = replace(model, mean="constant")
    return Regretless(task, seed, first, policy="eic", design="grid", n0=task.n0, model=model)


class Random:
    """What nobody should lose to; recommends the luckiest draw."""

    def __init__(self, task: Task, seed: int, first: Sequence[Params]) -> None:
        self._space, self._rng = task.space, np.random.default_rng([seed, 0])
        self._best: tuple[float, Params] = (-np.inf, {})

    def ask(self) -> Params:
        return self._space.decode(self._space.spread(self._rng.random((1, self._space.dim)))[0])

    def tell(self, params: Params, value: float) -> None:
        if value > self._best[0]:
            self._best = (value, params)

    def recommend(self) -> Params:
        return self._best[1]


# -- Optuna ----------------------------------------------------------------------------------------


class Optuna:
    """`study.ask` and `study.tell`; recommends `study.best_params`."""

    def __init__(self, task: Task, seed: int, first: Sequence[Params], sampler: str) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        make = getattr(optuna.samplers, sampler)
        start = {"n_startup_trials": len(first)} if first else {}
        self._study = optuna.create_study(direction="maximize", sampler=make(seed=seed, **start))
        self._distributions = {n: _distribution(p) for n, p in task.space.parameters.items()}
        self._frozen = optuna.trial.create_trial
        self._trial: Any = None

    def ask(self) -> Params:
        self._trial = self._study.ask(self._distributions)
        return dict(self._trial.params)

    def tell(self, params: Params, value: float) -> None:
        if self._trial is None:
            self._study.add_trial(
                self._frozen(params=dict(params), distributions=self._distributions, value=value)
            )
        else:
            self._study.tell(self._trial, value)
        self._trial = None

    def recommend(self) -> Params:
        return dict(self._study.best_params)


def _distribution(parameter: Any) -> Any:
    from optuna import distributions as d

    if isinstance(parameter, rl.Categorical):
        return d.CategoricalDistribution(parameter.choices)
    kind = d.IntDistribution if isinstance(parameter, rl.Int) else d.FloatDistribution
    return kind(parameter.low, parameter.high, log=parameter.log)


# -- BoTorch ---------------------------------------------------------------------------------------


class BoTorch:
    """A GP with BoTorch's own priors, fitted anew at every step, on the unit cube.

    `sample_around_best` matters: without it the search loses the maximum late in a run. So do the
    starts and raw samples: with 10 and 256 LogEI lost 1028 on hartmann-6 with seed 0, with 20 and
    1024 (as many as Ax takes) 225. Choices are handled by the mixed kernel and a search for each
    of them; whole numbers are rounded. Where there are too many combinations of choices for that,
    the search alternates between choices and numbers, as Ax's does. With `mixed_fit` the fit of a
    mixed kernel goes on from the last one, with so many iterations at most. `start` is the number
    of Sobol points in place of 2d + 2. With `growth` the model is fitted when its data have grown
    by this share, from the last fit on; in between, new data join it as it is. `climb` limits the
    iterations of a search.
    """

    MOST_SEARCHES = 8

    def __init__(
        self,
        task: Task,
        seed: int,
        first: Sequence[Params],
        acquisition: str,
        starts: int,
        raw_samples: int,
        mixed_fit: int | None = None,
        start: int | None = None,
        growth: float | None = None,
        climb: int | None = None,
    ) -> None:
        import torch

        torch.set_num_threads(1)
        torch.manual_seed(seed)
        torch.set_default_dtype(torch.double)
        self._space = task.space
        self._acquisition = getattr(self, f"_{acquisition}")
        self._search = {"num_restarts": starts, "raw_samples": raw_samples}
        self._options = {"maxiter": climb} if climb else {}
        self._mixed_fit, self._growth = mixed_fit, growth
        self._fit: Any = None
        self._fitted_points = 0
        self._start = [] if first else common_start(task, seed, start)
        self._x: list[Any] = []
        self._y: list[float] = []
        self._choices = [j for j, p in enumerate(self._space.columns) if not p.has_order]

    def ask(self) -> Params:
        if self._start:
            return self._start.pop(0)
        model = self._fitted()
        return self._space.decode(self._maximum(self._acquisition(model)))

    def tell(self, params: Params, value: float) -> None:
        self._x.append(self._space.encode(params))
        self._y.append(value)

    def recommend(self) -> Params:
        """The best posterior mean at a point that was tried."""
        best = self._fitted().posterior(self._inputs).mean.argmax().item()
        return self._space.decode(self._x[best])

    @property
    def _inputs(self) -> Any:
        import torch

        return torch.tensor(np.array(self._x))

    def _fitted(self) -> Any:
        import torch
        from botorch import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        data = self._inputs, torch.tensor(self._y).unsqueeze(-1)
        scaled = {"outcome_transform": Standardize(m=1)}
        if self._choices:
            model = MixedSingleTaskGP(*data, cat_dims=self._choices, **scaled)
        else:
            model = SingleTaskGP(*data, **scaled)
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        if self._fit:
            model.load_state_dict(self._fit, strict=False)
        count, growth = len(self._y), self._growth
        if growth is not None and count < (1.0 + growth) * self._fitted_points:
            return model.eval()
        most = self._mixed_fit if self._choices else None
        # From scratch and to the end, the fit of a mixed kernel takes up to 12 s a step.
        told = {"optimizer_kwargs": {"options": {"maxiter": most}}} if most else {}
        fit_gpytorch_mll(likelihood, **told)
        if most or growth is not None:
            state = model.state_dict().items()
            self._fit = {name: value for name, value in state if "outcome_transform" not in name}
            self._fitted_points = count
        return model

    def _log_ei(self, model: Any) -> Any:
        from botorch.acquisition import LogExpectedImprovement

        # Not the luckiest observation: noise would make it a threshold that nothing can beat.
        return LogExpectedImprovement(model, best_f=model.posterior(self._inputs).mean.max())

    def _log_nei(self, model: Any) -> Any:
        from botorch.acquisition.logei import qLogNoisyExpectedImprovement

        return qLogNoisyExpectedImprovement(model, X_baseline=self._inputs, prune_baseline=True)

    def _ucb(self, model: Any) -> Any:
        from botorch.acquisition import UpperConfidenceBound

        return UpperConfidenceBound(model, beta=4.0)  # of the variance: two standard deviations

    def _maximum(self, acquisition: Any) -> Any:
        import torch
        from botorch.optim import optimize_acqf, optimize_acqf_mixed
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        cube = torch.stack([torch.zeros(self._space.dim), torch.ones(self._space.dim)])
        search = {
            "bounds": cube,
            "q": 1,
            **self._search,
            "options": {"sample_around_best": True, **self._options},
        }
        if self._choices:
            levels = [(j, self._space.levels[j]) for j in self._choices]
            combinations = _combinations(levels)
            if len(combinations) > self.MOST_SEARCHES:
                choices = {j: [float(u) for u in values] for j, values in levels}
                found, _ = optimize_acqf_mixed_alternating(
                    acquisition, bounds=cube, cat_dims=choices, q=1, **self._search
                )
                return found[0].numpy()
            search["fixed_features_list"] = combinations
            return optimize_acqf_mixed(acquisition, **search)[0][0].numpy()
        return optimize_acqf(acquisition, **search)[0][0].numpy()


def _combinations(levels: Sequence[tuple[int, Any]]) -> list[dict[int, float]]:
    """Every way to fix these columns."""
    found: list[dict[int, float]] = [{}]
    for column, values in levels:
        found = [{**one, column: float(value)} for one in found for value in values]
    return found


# -- bayes_opt -------------------------------------------------------------------------------------


class BayesOpt:
    """`suggest` and `register`, on the unit cube; choices are its own categorical parameters.

    Repeats are allowed, as its documentation advises under noise (it would stop at the first).
    Starts with the five random points of its `maximize`; recommends `max`, the luckiest draw.
    """

    def __init__(
        self,
        task: Task,
        seed: int,
        first: Sequence[Params],
        kappa: float | None = None,
        alpha: float | None = None,
    ) -> None:
        from bayes_opt import BayesianOptimization, acquisition

        self._space = task.space
        bounds = {
            name: tuple(p.choices) if isinstance(p, rl.Categorical) else (0.0, 1.0)
            for name, p in task.space.parameters.items()
        }
        upper = None if kappa is None else acquisition.UpperConfidenceBound(kappa=kappa)
        self._optimizer = BayesianOptimization(
            None,
            bounds,
            acquisition_function=upper,
            random_state=seed,
            verbose=0,
            allow_duplicate_points=True,
        )
        if alpha is not None:
            self._optimizer.set_gp_params(alpha=alpha)
        self._start = [] if first else self._optimizer.random_sample(5)

    def ask(self) -> Params:
        return self._params(self._start.pop(0) if self._start else self._optimizer.suggest())

    def tell(self, params: Params, value: float) -> None:
        self._optimizer.register(self._units(params), value)

    def recommend(self) -> Params:
        return self._params(self._optimizer.max["params"])

    def _units(self, params: Params) -> dict[str, Any]:
        columns = self._space.parameters.items()
        return {
            n: params[n] if isinstance(p, rl.Categorical) else p.encode(params[n])
            for n, p in columns
        }

    def _params(self, units: Mapping[str, Any]) -> Params:
        columns = self._space.parameters.items()
        return {
            n: str(units[n]) if isinstance(p, rl.Categorical) else p.decode(float(units[n]))
            for n, p in columns
        }


# -- scikit-optimize -------------------------------------------------------------------------------


class Skopt:
    """Its `Optimizer` with a GP; repeats are allowed, since they are no mistake under noise.

    Only the last model is kept: by default it keeps them all. Recommends the luckiest draw.
    """

    def __init__(self, task: Task, seed: int, first: Sequence[Params]) -> None:
        import skopt

        self._names = task.space.names
        self._optimizer = skopt.Optimizer(
            [_dimension(p) for p in task.space.parameters.values()],
            random_state=seed,
            n_initial_points=len(first) or 10,
            avoid_duplicates=False,
            model_queue_size=1,
        )

    def ask(self) -> Params:
        return self._params(self._optimizer.ask())

    def tell(self, params: Params, value: float) -> None:
        self._optimizer.tell([params[name] for name in self._names], -value)

    def recommend(self) -> Params:
        return self._params(self._optimizer.get_result().x)

    def _params(self, x: Sequence[Any]) -> Params:
        plain = [v.item() if isinstance(v, np.generic) else v for v in x]
        return dict(zip(self._names, plain, strict=True))


def _dimension(parameter: Any) -> Any:
    from skopt import space

    if isinstance(parameter, rl.Categorical):
        return space.Categorical(list(parameter.choices))
    kind = space.Integer if isinstance(parameter, rl.Int) else space.Real
    prior = "log-uniform" if parameter.log else "uniform"
    return kind(parameter.low, parameter.high, prior=prior)


# -- Ax --------------------------------------------------------------------------------------------


class Ax:
    """Its client with its own strategy, except that the start leaves out the centre of the box.

    That is the answer to some of these functions. Recommends `get_best_parameterization`.
    """

    def __init__(self, task: Task, seed: int, first: Sequence[Params]) -> None:
        import logging

        import torch
        from ax.api.client import Client

        torch.set_num_threads(1)
        logging.getLogger("ax").setLevel(logging.ERROR)
        self._client = Client(random_seed=seed)
        self._client.configure_experiment(
            [_config(name, p) for name, p in task.space.parameters.items()]
        )
        self._client.configure_optimization(objective="y")
        self._client.configure_generation_strategy(
            initialization_budget=len(first) or None,
            initialization_random_seed=seed,
            initialize_with_center=False,
        )
        self._index: int | None = None

    def ask(self) -> Params:
        ((self._index, params),) = self._client.get_next_trials(max_trials=1).items()
        return dict(params)

    def tell(self, params: Params, value: float) -> None:
        index = self._client.attach_trial(dict(params)) if self._index is None else self._index
        self._client.complete_trial(index, raw_data={"y": value})
        self._index = None

    def recommend(self) -> Params:
        return dict(self._client.get_best_parameterization()[0])


def _config(name: str, parameter: Any) -> Any:
    from ax.api.configs import ChoiceParameterConfig, RangeParameterConfig

    if isinstance(parameter, rl.Categorical):
        choices = list(parameter.choices)
        return ChoiceParameterConfig(name, choices, parameter_type="str", is_ordered=False)
    return RangeParameterConfig(
        name,
        bounds=(parameter.low, parameter.high),
        parameter_type="int" if isinstance(parameter, rl.Int) else "float",
        scaling="log" if parameter.log else "linear",
    )
