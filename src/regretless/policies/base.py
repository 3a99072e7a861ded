"""Policies: what to try next, described as a score to maximise and a set to stay in.

A policy is a small frozen class.  It sees a `PolicyInput` (the posterior, the budget that is left,
...) and answers with a `Score`; it does not search, fit or own a random generator.  Everything here
maximises on the unit cube, in the units of the model.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless._internal.validate import check_flag, check_inside, with_plain_numbers
from regretless.defaults import Defaults
from regretless.errors import ConfigError
from regretless.horizon import Horizon
from regretless.model import Posterior
from regretless.policies.scores import Gate, Score

IncumbentKind = Literal["mean", "observation", "domain", "quantile"]
INCUMBENTS: tuple[IncumbentKind, ...] = ("mean", "observation", "domain", "quantile")


@dataclass(frozen=True, eq=False)
class PolicyInput:
    """What a policy may look at when it decides on evaluation n + 1."""

    posterior: Posterior  # with pending points filled in by their posterior means
    rows: int  # the first `rows` points of the posterior were really observed
    horizon: Horizon  # how many evaluations a gain pays for, and how many were asked for
    best_observation: float  # the largest single observation
    unit: float  # how much one unit of the model is in the user's units
    rng: Generator  # this decision's own
    draw: Callable[[], Array]  # a point drawn uniformly from the space
    highest: Callable[[float], tuple[Array, float]]  # b -> where mu + b s is highest, and how high
    defaults: Defaults  # what is left to the library's defaults
    promised: float = -np.inf  # the best posterior mean to expect once pending results are in
    choices: bool = False  # whether some parameters are choices without an order
    fixed: Mapping[int, float] = field(default_factory=dict)  # columns that are given, and where

    @property
    def dim(self) -> int:
        return int(self.posterior.points.shape[1])

    @cached_property
    def incumbent(self) -> Incumbent:
        """The observed point with the best posterior mean; where columns are fixed, moved there."""
        if not self.fixed:
            row = int(np.argmax(self.posterior.at_data[0][: self.rows]))
            return Incumbent(self.posterior.points[row], row)
        moved = self.given
        row = int(np.argmax(self.posterior.predict(moved[: self.rows])[0]))
        same = np.flatnonzero((self.posterior.points == moved[row]).all(axis=1))
        return Incumbent(moved[row], int(same[0]) if len(same) else None)

    @cached_property
    def given(self) -> Array:
        """The points of the posterior, with the fixed columns as they are given."""
        moved = self.posterior.points.copy()
        for column, place in self.fixed.items():
            moved[:, column] = place
        return moved

    @property
    def means(self) -> tuple[Array, Array]:
        """mu and sigma at the points of the posterior, given the fixed columns."""
        return self.posterior.predict(self.given) if self.fixed else self.posterior.at_data


class Incumbent(NamedTuple):
    """The best point so far, and its row among the points of the posterior, if it is one."""

    x: Array
    row: int | None


@dataclass(frozen=True)
class Policy:
    """A rule for the next point: a frozen dataclass with a `name` and a `score` or a `shortcut`.

    `score` is what the search maximises.  `shortcut` gives a point that needs no search, and
    `settle` may turn down what the search found.  `merge` takes a sampled point again instead of a
    new one that the posterior can't tell from it (see `search.same_point`).
    """

    name: ClassVar[str] = ""
    merge: bool = field(default=False, kw_only=True)

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if cls.score is Policy.score and cls.shortcut is Policy.shortcut:
            raise TypeError(f"{cls.__name__}: a policy needs a method `score`, or `shortcut`")

    def __post_init__(self) -> None:
        with_plain_numbers(self)
        check_flag("merge", self.merge)

    def score(self, inputs: PolicyInput) -> Score:
        """What the search maximises, and within which constraints."""
        raise NotImplementedError(f"{type(self).__name__} needs no search, so it has no score")

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        """A point that needs no search; None: search."""
        return None

    def settle(self, inputs: PolicyInput, value: float) -> int | None:
        """A row to sample again instead of the point that the search found with this value."""
        return None

    def threshold(self, inputs: PolicyInput) -> float | None:
        """The gate that feasible points must pass, for the record; None where there is none."""
        return None

    def gates(self, inputs: PolicyInput) -> tuple[Gate, ...]:
        """The gate as a constraint of the score: one, or none."""
        threshold = self.threshold(inputs)
        if threshold is None:
            return ()
        return (Gate(self.xi(inputs), threshold, self.omega(inputs)),)

    def horizon(self, inputs: PolicyInput) -> float:
        """Within how many evaluations, from this one on, a gain has to make up for a loss."""
        return inputs.horizon.steps

    def xi(self, inputs: PolicyInput) -> float:
        """The incumbent value that improvement is counted from."""
        return incumbent_value(inputs, "mean")

    def omega(self, inputs: PolicyInput) -> float:
        """omega_n, the scale of the posterior sd."""
        return inputs.posterior.omega

    def to_json(self) -> dict[str, Any]:
        """The name and the settings."""
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}


def incumbent_value(inputs: PolicyInput, kind: IncumbentKind, beta: float = 0.9) -> float:
    """xi_n: eq. incum ("mean"), or the others of section 3.2 of the paper."""
    if kind == "observation":
        return inputs.best_observation
    if kind == "domain":
        return inputs.highest(0.0)[1]
    mu, sigma = inputs.means
    if kind == "mean":  # what is under way need not be sought again
        return max(float(mu.max()), inputs.promised)
    from scipy.special import ndtri

    return float((mu - ndtri(beta) * inputs.posterior.omega * sigma).max())


def check_incumbent(kind: str, beta: float) -> None:
    if kind not in INCUMBENTS:
        raise ConfigError(f"incumbent: need one of {', '.join(INCUMBENTS)}, got {kind!r}")
    check_inside("beta", beta, "a quantile level")
