"""Who tunes: the table of the tools, with what makes them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from types import MappingProxyType
from typing import Any

from benchmarks.peers.adapters import (
    Ax,
    BayesOpt,
    BoTorch,
    NoRegret,
    Optuna,
    Random,
    Skopt,
    Tool,
    papers_setting,
)
from benchmarks.peers.problems import Params, Task


@dataclass(frozen=True)
class Entry:
    """A tool of the benchmark; the first package is the one that a user imports."""

    make: Callable[[Task, int, Sequence[Params]], Tool]
    about: str
    imports: str
    packages: tuple[str, ...]
    step: float
    """CPU seconds, roughly, at n = 100: orders the runs and weighs the progress."""
    starts_common: bool = False
    """Its own start is the common one already."""

    @property
    def slow(self) -> bool:
        return self.step > 0.3

    @property
    def installed(self) -> bool:
        names = [name.strip() for name in self.imports.split(",")]
        return all(find_spec(name) is not None for name in names)


def _with(make: Callable[..., Tool], **settings: Any) -> Callable[..., Tool]:
    return lambda task, seed, first: make(task, seed, first, **settings)


_OURS = ("noregret", "numpy", "scipy")
_OPTUNA = ("optuna", "torch", "scipy", "greenlet")
_BOTORCH = ("botorch", "gpytorch", "torch")
_BAYES = ("bayesian-optimization", "scikit-learn")

TOOLS: Mapping[str, Entry] = MappingProxyType(
    {
        "noregret": Entry(NoRegret, "the default, nothing set", "noregret", _OURS, 0.02),
        "noregret-paper": Entry(
            papers_setting,
            "the paper's setting: centred grid of n_0 points, zero mean, SE kernel",
            "noregret",
            _OURS,
            0.02,
        ),
        "noregret-eic": Entry(
            _with(NoRegret, policy="eic"), 'the default with policy="eic"', "noregret", _OURS, 0.02
        ),
        "optuna-gp": Entry(
            _with(Optuna, sampler="GPSampler"),
            "GPSampler, defaults; on hartmann-6, whose times are shown, with greenlet as it advises"
            " (a third less CPU time), elsewhere in part without",
            "optuna, torch",
            _OPTUNA,
            0.15,
        ),
        "optuna-tpe": Entry(
            _with(Optuna, sampler="TPESampler"),
            "TPESampler, defaults",
            "optuna",
            ("optuna",),
            0.01,
        ),
        "botorch-logei": Entry(
            _with(BoTorch, acquisition="log_ei"),
            "SingleTaskGP, LogEI over the best posterior mean at tried points, 2d + 2 Sobol points"
            " first, sample_around_best; 20 searches from 1024 raw samples, as Ax has it, on"
            " hartmann-6 (both N), griewank-6, levy-4 and michalewicz-5, in older records 10 from"
            " 256",
            "botorch",
            _BOTORCH,
            1.2,
            True,
        ),
        "botorch-lognei": Entry(
            _with(BoTorch, acquisition="log_nei", starts=10, raw_samples=256),
            "the same model and start, qLogNoisyEI with prune_baseline, 10 searches from 256 (with"
            " the larger search it loses as much: 1448 and 1284 on hartmann-6 with seed 0)",
            "botorch",
            _BOTORCH,
            1.3,
            True,
        ),
        "botorch-ucb": Entry(
            _with(BoTorch, acquisition="ucb"),
            "the same model, start and search (the older one on griewank-6), UCB with β = 4",
            "botorch",
            _BOTORCH,
            1.0,
            True,
        ),
        "bayes-opt": Entry(
            BayesOpt,
            "defaults (UCB, κ = 2.576, noise 1e-6), repeats allowed",
            "bayes_opt",
            _BAYES,
            0.5,
        ),
        "bayes-opt-ucb": Entry(
            _with(BayesOpt, kappa=2.0, alpha=1e-2),
            "UCB with κ = 2 and alpha = 0.01 for the noise",
            "bayes_opt",
            _BAYES,
            0.5,
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
DEFAULT, PAPER = "noregret", "noregret-paper"
OURS = (DEFAULT, PAPER, "noregret-eic")
PEERS = tuple(name for name in TOOLS if name not in (*OURS, "random"))
