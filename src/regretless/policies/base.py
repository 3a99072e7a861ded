"""Policies: what to try next, described as a score to maximise and a set to stay in.

A policy is a small frozen class.  It sees a `PolicyInput` (the posterior, the budget that is left,
...) and answers with a `Score`; it does not search, fit or own a random generator.  Everything here
maximises on the unit cube, in the units of the model.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.random import Generator
from scipy.special import ndtri

from regretless._internal.arrays import Array
from regretless._internal.validate import check_flag, check_inside, with_plain_numbers
from regretless.errors import ConfigError
from regretless.model import GP
from regretless.policies.scores import Score

Incumbent = Literal["mean", "observation", "domain", "quantile"]
INCUMBENTS: tuple[Incumbent, ...] = ("mean", "observation", "domain", "quantile")


@dataclass(frozen=True, eq=False)
class PolicyInput:
    """What a policy may look at when it decides on evaluation n + 1 of N."""

    gp: GP  # with pending points filled in by their posterior means
    rows: int  # the first `rows` rows of gp.data were really observed
    asked: int  # n, pending ones included
    remaining: int  # m = N - n >= 1
    best_observation: float  # the largest single observation
    unit: float  # how much one unit of the model is in the user's units
    rng: Generator  # this decision's own
    draw: Callable[[], Array]  # a point drawn uniformly from the space
    highest: Callable[[float], tuple[Array, float]]  # b -> where mu + b s is highest, and how high
    promised: float = -np.inf  # the best posterior mean to expect once pending results are in
    choices: bool = False  # whether some parameters are choices without an order

    @property
    def dim(self) -> int:
        return int(self.gp.data.x.shape[1])

    @property
    def incumbent_row(self) -> int:
        """argmax_i mu_n(x_i) over observed points."""
        return int(np.argmax(self.gp.at_data[0][: self.rows]))


@dataclass(frozen=True)
class Policy(ABC):
    """A rule for the next point.

    `score` is what the search maximises.  Two hooks serve the policies that need them: `shortcut`
    gives a point that needs no search, `settle` may turn down what the search found.
    `merge` takes a sampled point again instead of a new one that the posterior can't tell from it
    (see `maximise.same_point`).
    """

    name: ClassVar[str] = ""
    merge: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        check_flag("merge", self.merge)

    @abstractmethod
    def score(self, inputs: PolicyInput) -> Score: ...

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        return None

    def settle(self, inputs: PolicyInput, value: float) -> int | None:
        """A row to sample again instead of the point that the search found with this value."""
        return None

    def threshold(self, inputs: PolicyInput) -> float | None:
        """The gate that feasible points must pass, for the record; None where there is none."""
        return None

    def horizon(self, inputs: PolicyInput) -> float:
        """Within how many evaluations, from this one on, a gain has to make up for a loss."""
        return inputs.remaining

    def xi(self, inputs: PolicyInput) -> float:
        """The incumbent value that improvement is counted from."""
        return incumbent(inputs, "mean")

    def omega(self, inputs: PolicyInput) -> float:
        """omega_n, the scale of the posterior sd."""
        return inputs.gp.omega

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}


def incumbent(inputs: PolicyInput, kind: Incumbent, beta: float = 0.9) -> float:
    """xi_n: eq. incum ("mean"), or the others of section 3.2 of the paper."""
    if kind == "observation":
        return inputs.best_observation
    if kind == "domain":
        return inputs.highest(0.0)[1]
    mu, sigma = inputs.gp.at_data
    if kind == "mean":  # what is under way need not be sought again
        return max(float(mu.max()), inputs.promised)
    return float((mu - ndtri(beta) * inputs.gp.omega * sigma).max())


def check_incumbent(kind: str, beta: float) -> None:
    if kind not in INCUMBENTS:
        raise ConfigError(f"incumbent: need one of {', '.join(INCUMBENTS)}, got {kind!r}")
    check_inside("beta", beta, "a quantile level")


def within(payback: float, remaining: int) -> float:
    """This evaluation and a share of those after it."""
    return 1.0 + payback * (remaining - 1)
