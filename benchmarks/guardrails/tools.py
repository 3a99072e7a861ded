"""The tools that are compared.  Each is asked for a point of the cube, and told what came out."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
from benchmarks.guardrails.problems import BUDGET, Array, Problem
from scipy.stats import qmc

import regretless as rl

START = 10  # points that the peers start with; violations are counted after as many trials


class Tool(Protocol):
    def ask(self) -> Array: ...

    def tell(self, x: Array, value: float, metrics: dict[str, float]) -> None: ...


class Ours:
    """`Optimizer` with its default."""

    def __init__(self, problem: Problem, seed: int, **settings: Any) -> None:
        names = [f"x{j}" for j in range(problem.dim)]
        baseline = dict(zip(names, map(float, problem.baseline), strict=True))
        self.optimizer = rl.Optimizer(
            problem.space,
            BUDGET,
            seed=seed,
            baseline=baseline,
            guardrails=[metric.guardrail for metric in problem.metrics],
            **settings,
        )

    def ask(self) -> Array:
        self.trial = self.optimizer.ask()
        return np.array(list(self.trial.params.values()))

    def tell(self, x: Array, value: float, metrics: dict[str, float]) -> None:
        self.optimizer.tell(self.trial, value, metrics=metrics)


class Keep:
    """The baseline, again and again."""

    def __init__(self, problem: Problem, seed: int) -> None:
        self.baseline = problem.baseline

    def ask(self) -> Array:
        return self.baseline

    def tell(self, x: Array, value: float, metrics: dict[str, float]) -> None:
        pass


def excesses(problem: Problem, metrics: dict[str, float], first: dict[str, float]) -> list[float]:
    """By how much each guardrail is broken, in sds of the metric; `first` is the baseline's."""
    out = []
    for metric in problem.metrics:
        guardrail = metric.guardrail
        limit = guardrail.limit * (1.0 if guardrail.of is None else first[guardrail.metric])
        unit = metric.noise
        out.append(guardrail.sign * (metrics[guardrail.metric] - limit) / unit)
    return out


class OptunaGP:
    """Optuna's GPSampler with `Trial.set_constraint`; its first trial is the baseline."""

    def __init__(self, problem: Problem, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        warnings.simplefilter("ignore")
        sampler = optuna.samplers.GPSampler(
            seed=seed, n_startup_trials=START, deterministic_objective=False
        )
        self.problem, self.first = problem, {}
        self.study = optuna.create_study(sampler=sampler, direction="maximize")
        self.names = [f"x{j}" for j in range(problem.dim)]
        self.study.enqueue_trial(dict(zip(self.names, map(float, problem.baseline), strict=True)))

    def ask(self) -> Array:
        self.trial = self.study.ask()
        return np.array([self.trial.suggest_float(name, 0.0, 1.0) for name in self.names])

    def tell(self, x: Array, value: float, metrics: dict[str, float]) -> None:
        self.first = self.first or metrics
        for k, excess in enumerate(excesses(self.problem, metrics, self.first)):
            self.trial.set_constraint(str(k), excess)
        self.study.tell(self.trial, value)


class BoTorch:
    """BoTorch's LogConstrainedExpectedImprovement, a `SingleTaskGP` for each outcome."""

    def __init__(self, problem: Problem, seed: int) -> None:
        import torch

        warnings.simplefilter("ignore")
        torch.manual_seed(seed)
        torch.set_num_threads(1)
        self.torch, self.problem, self.first = torch, problem, {}
        design = qmc.Sobol(problem.dim, seed=seed).random(16)[: START - 1]
        self.start = [problem.baseline, *design]
        self.x: list[Array] = []
        self.y: list[list[float]] = []

    def ask(self) -> Array:
        if len(self.x) < START:
            return self.start[len(self.x)]
        from botorch.acquisition.analytic import LogConstrainedExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import ModelListGP, SingleTaskGP
        from botorch.models.transforms import Standardize
        from botorch.optim import optimize_acqf
        from gpytorch.mlls import SumMarginalLogLikelihood

        torch, dim = self.torch, self.problem.dim
        x = torch.tensor(np.array(self.x))
        y = torch.tensor(np.array(self.y))
        columns = [y[:, k : k + 1] for k in range(y.shape[1])]
        model = ModelListGP(
            *[SingleTaskGP(x, one, outcome_transform=Standardize(1)) for one in columns]
        )
        fit_gpytorch_mll(SumMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            mean = model.posterior(x).mean
        allowed = (mean[:, 1:] <= 0).all(dim=1)
        best = mean[allowed, 0].max() if allowed.any() else mean[:, 0].min()
        limits = {k: (None, 0.0) for k in range(1, y.shape[1])}
        score = LogConstrainedExpectedImprovement(model, best, 0, limits)
        bounds = torch.stack([torch.zeros(dim), torch.ones(dim)]).double()
        found, _ = optimize_acqf(score, bounds, q=1, num_restarts=8, raw_samples=256)
        return found[0].numpy().copy()

    def tell(self, x: Array, value: float, metrics: dict[str, float]) -> None:
        self.first = self.first or metrics
        self.x.append(x)
        self.y.append([value, *excesses(self.problem, metrics, self.first)])


TOOLS: dict[str, Callable[[Problem, int], Tool]] = {
    "regretless": Ours,
    "regretless, free start": lambda problem, seed: Ours(problem, seed, free_start=True),
    "optuna": OptunaGP,
    "botorch": BoTorch,
    "keep the baseline": Keep,
}
