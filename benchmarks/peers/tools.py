"""Who tunes: the table of the tools, with what makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from benchmarks.peers.adapters import (
    Ax,
    BayesOpt,
    BoTorch,
    Optuna,
    Random,
    Regretless,
    Skopt,
    Tool,
    papers_setting,
)
from benchmarks.peers.problems import Params, Task


@dataclass(frozen=True)
class Entry:
    """A tool of the benchmark; the first package is the one that a user imports."""

    make: Callable[..., Tool]
    about: str
    imports: str
    packages: tuple[str, ...]
    step: float
    """CPU seconds, roughly, at n = 100: orders the runs and weighs the progress."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """What `make` is told beside the task; every record keeps it."""
    starts_common: bool = False
    """Its own start is the common one already."""

    def tool(self, task: Task, seed: int, first: Sequence[Params]) -> Tool:
        return self.make(task, seed, first, **self.settings)

    @property
    def setting(self) -> str:
        return ", ".join(f"{name}={value}" for name, value in self.settings.items())

    @property
    def slow(self) -> bool:
        return self.step > 0.3

    @property
    def installed(self) -> bool:
        names = [name.strip() for name in self.imports.split(",")]
        return all(find_spec(name) is not None for name in names)


_LARGE, _SMALL = {"starts": 20, "raw_samples": 1024}, {"starts": 10, "raw_samples": 256}
_OURS = ("regretless", "numpy", "scipy")
_OPTUNA = ("optuna", "torch", "scipy", "greenlet")
_BOTORCH = ("botorch", "gpytorch", "torch")
_BAYES = ("bayesian-optimization", "scikit-learn")

TOOLS: Mapping[str, Entry] = MappingProxyType(
    {
        "regretless": Entry(Regretless, "the default, nothing set", "regretless", _OURS, 0.02),
        "regretless-paper": Entry(
            papers_setting,
            "the paper's setting: centred grid of n_0 points, zero mean, SE kernel",
            "regretless",
            _OURS,
            0.02,
        ),
        "regretless-eic": Entry(
            Regretless,
            'the default with policy="eic"',
            "regretless",
            _OURS,
            0.02,
            {"policy": "eic"},
        ),
        "optuna-gp": Entry(
            Optuna,
            "GPSampler, defaults; on hartmann-6, whose times are shown, with greenlet as it advises"
            " (a third of the CPU time), elsewhere in part without",
            "optuna, torch",
            _OPTUNA,
            0.15,
            {"sampler": "GPSampler"},
        ),
        "optuna-tpe": Entry(
            Optuna,
            "TPESampler, defaults",
            "optuna",
            ("optuna",),
            0.01,
            {"sampler": "TPESampler"},
        ),
        "botorch-logei": Entry(
            BoTorch,
            "SingleTaskGP, LogEI over the best posterior mean at tried points, 2d + 2 Sobol points"
            " first, sample_around_best, as many searches and raw samples as Ax takes",
            "botorch",
            _BOTORCH,
            1.2,
            {"acquisition": "log_ei", **_LARGE},
            starts_common=True,
        ),
        "botorch-lognei": Entry(
            BoTorch,
            "the same model and start, qLogNoisyEI with prune_baseline and a smaller search (the"
            " larger one takes twice as long, and gained it nothing on hartmann-6)",
            "botorch",
            _BOTORCH,
            1.3,
            {"acquisition": "log_nei", **_SMALL},
            starts_common=True,
        ),
        "botorch-ucb": Entry(
            BoTorch,
            "the same model, start and search as LogEI, UCB with β = 4",
            "botorch",
            _BOTORCH,
            1.0,
            {"acquisition": "ucb", **_LARGE},
            starts_common=True,
        ),
        "bayes-opt": Entry(
            BayesOpt,
            "defaults (UCB, κ = 2.576, noise 1e-6), repeats allowed",
            "bayes_opt",
            _BAYES,
            0.5,
        ),
        "bayes-opt-ucb": Entry(
            BayesOpt,
            "UCB with κ = 2 and alpha = 0.01, the variance of most problems' noise, which no other"
            " tool is told",
            "bayes_opt",
            _BAYES,
            0.5,
            {"kappa": 2.0, "alpha": 1e-2},
        ),
        "skopt": Entry(
            Skopt,
            "Optimizer, GP and gp_hedge as by default, repeats allowed",
            "skopt",
            ("scikit-optimize", "scikit-learn"),
            1.2,
        ),
        "ax": Entry(
            Ax,
            "Client, its own strategy without the centre of the box",
            "ax",
            ("ax-platform", "botorch", "torch"),
            2.5,
        ),
        "random": Entry(Random, "uniform draws", "numpy", ("numpy",), 0.001),
    }
)
DEFAULT, PAPER = "regretless", "regretless-paper"
OURS = (DEFAULT, PAPER, "regretless-eic")
PEERS = tuple(name for name in TOOLS if name not in (*OURS, "random"))
