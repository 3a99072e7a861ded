"""The base class of policies, and what a policy may use to decide.

A policy is a small frozen class.  It gets a `PolicyInput` (the posterior, the remaining budget, …)
and returns a `Score`.  It does not search, fit a model or keep a random generator.  All values are
in the units of the model, on the unit cube, and larger is better.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless._internal.validate import (
    check_flag,
    check_inside,
    is_one_of,
    with_plain_numbers,
)
from regretless.defaults import Defaults
from regretless.errors import ConfigError
from regretless.horizon import Horizon
from regretless.improvement import gate_below
from regretless.model import NoiseShape, Posterior
from regretless.policies.scores import (
    CappedGate,
    ChangeGate,
    Constraint,
    Gate,
    Score,
    log_ei,
    log_ei_below,
)

IncumbentKind = Literal["mean", "observation", "domain", "quantile"]
_TRIFLE = 1e-6  # of omega
INCUMBENTS: tuple[IncumbentKind, ...] = ("mean", "observation", "domain", "quantile")


@dataclass(frozen=True, eq=False)
class PolicyInput:
    """What a policy may use to decide on evaluation n + 1.

    The optimiser makes it; a policy only reads it.

    Attributes:
        posterior: the posterior of f.  Pending points are included, with their posterior means as
            results.
        rows: the first `rows` points of the posterior have real results.
        horizon: how many evaluations remain, and how many were asked for.
        best_observation: the largest single observation.
        unit: one unit of the model, in the user's units.
        rng: a random generator for this decision only.
        draw: draws a point uniformly from the space.
        highest: returns for a number b the point where mu + b s is largest, and this value.
        promised: the expected best posterior mean once the pending results are told; -inf if there
            are none.
        choices: whether some parameter has several choices without an order.
        structure: whether some parameter is structured, such as a permutation or a graph.
        ordered: for each column, whether its values have an order; empty if all of them have.
        defaults: the constants for settings that the user left out.
        fixed: the columns that are fixed for this decision, with their coordinates.
        permits: returns for points, of shape (q, d), whether each may be tried; None if every point
            may be.
        refuge: the point to try if no visited point may be tried, such as the baseline.
        moved: moves points, of shape (q, d), into the part of the space that this decision may
            use; None if the whole space may be used.
        ceiling: a value that f can't exceed; None if none is known.
        change: the setting that runs, and what a change of it costs; None if it costs nothing.
        in_context: whether the decision is for one of several contexts.
        noise: where results scatter more; None if the noise is the same everywhere.

    Example:
        >>> import numpy as np
        >>> from regretless.defaults import defaults_of
        >>> from regretless.horizon import Horizon
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> inputs = PolicyInput(
        ...     posterior=GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0)),
        ...     rows=2,
        ...     horizon=Horizon(budget=10, asked=2),
        ...     best_observation=1.0,
        ...     unit=1.0,
        ...     rng=np.random.default_rng(0),
        ...     draw=lambda: np.array([0.5]),
        ...     highest=lambda b: (np.array([0.2]), 1.0),
        ...     defaults=defaults_of(),
        ... )
        >>> inputs.incumbent.x.tolist()
        [0.2]
        >>> inputs.horizon.steps
        8
    """

    posterior: Posterior
    rows: int
    horizon: Horizon
    best_observation: float
    unit: float
    rng: Generator
    draw: Callable[[], Array]
    highest: Callable[[float], tuple[Array, float]]
    defaults: Defaults
    promised: float = -np.inf
    choices: bool = False
    structure: bool = False
    ordered: tuple[bool, ...] = ()
    fixed: Mapping[int, float] = field(default_factory=dict)
    permits: Callable[[Array], NDArray[np.bool_]] | None = None
    refuge: Array | None = None
    moved: Callable[[Array], Array] | None = None
    ceiling: Ceiling | None = None
    change: Change | None = None
    in_context: bool = False
    noise: NoiseShape | None = None

    @property
    def dim(self) -> int:
        """d, the number of columns."""
        return int(self.posterior.points.shape[1])

    @cached_property
    def incumbent(self) -> Incumbent:
        """The visited point with the best posterior mean that is permitted, with the fixed columns
        set.  If none is permitted, it is the refuge, or the best one after all."""
        mu, points = self.means[0][: self.rows], self.given if self.fixed else self.posterior.points
        if self._permitted is not None:
            allowed = self._permitted[: self.rows]
            if not allowed.any() and self.refuge is not None:
                return self.incumbent_at(self.refuge)
            mu = np.where(allowed, mu, -np.inf) if allowed.any() else mu
        row = int(np.argmax(mu))
        return self.incumbent_at(points[row]) if self.fixed else Incumbent(points[row], row)

    def incumbent_at(self, x: Array) -> Incumbent:
        """The point x as an incumbent.

        Args:
            x: a point of the unit cube.
        """
        same = np.flatnonzero((self.posterior.points == x).all(axis=1))
        return Incumbent(x, int(same[0]) if len(same) else None)

    @cached_property
    def _permitted(self) -> NDArray[np.bool_] | None:
        """Whether each point of the posterior may be tried; None if every point may be."""
        if self.permits is None:
            return None
        return self.permits(self.given if self.fixed else self.posterior.points)

    @cached_property
    def given(self) -> Array:
        """The points of the posterior, with the fixed columns set."""
        if self.moved is not None:
            return self.moved(self.posterior.points)
        moved = self.posterior.points.copy()
        for column, place in self.fixed.items():
            moved[:, column] = place
        return moved

    @cached_property
    def means(self) -> tuple[Array, Array]:
        """mu and sigma at the points of the posterior, with the fixed columns set."""
        return self.posterior.predict(self.given) if self.fixed else self.posterior.at_data

    @property
    def standing(self) -> tuple[Array, Array]:
        """mu and sigma at the points of the posterior that may be tried again, or at the refuge."""
        mu, sigma = self.means
        if self._permitted is None:
            return mu, sigma
        if self._permitted.any():
            return mu[self._permitted], sigma[self._permitted]
        return (mu, sigma) if self.refuge is None else self.posterior.predict(self.refuge[None, :])


class Ceiling(NamedTuple):
    """A value that f can't exceed, in the units of the model.

    Attributes:
        value: the value.
        exact: whether it is the largest value of f; otherwise f may stay below it everywhere.

    Example:
        >>> Ceiling(value=2.0, exact=True).above(1.5, unit=1.0)
        2.0
    """

    value: float
    exact: bool

    def above(self, xi: float, unit: float) -> float:
        """The value; a trifle above xi if xi has reached it."""
        return max(self.value, xi + _TRIFLE * unit)


class Change(NamedTuple):
    """What a change of the setting costs.

    Attributes:
        running: the encoded setting that runs.
        cost: the cost of a change, in the units of the model.

    Example:
        >>> import numpy as np
        >>> Change(running=np.array([0.2]), cost=0.5).cost
        0.5
    """

    running: Array
    cost: float


class Incumbent(NamedTuple):
    """The best point so far.

    Attributes:
        x: its encoded coordinates.
        row: its row in the points of the posterior; None if it is not one of them.

    Example:
        >>> import numpy as np
        >>> Incumbent(x=np.array([0.2]), row=0).row
        0
    """

    x: Array
    row: int | None


@dataclass(frozen=True)
class Policy:
    """The base class of all policies: rules that choose the next point.

    To write a policy, make a frozen dataclass that derives from this class, with a `name` and one
    of these methods:

    - `score` returns what the search maximises;
    - `shortcut` returns a point, so that no search is needed.

    Its fields are the settings of the policy.  `settle` may replace the point that the search
    found.

    Args:
        merge: whether to try a visited point again instead of a new one, if the posterior can't
            tell them apart (see `search.same_point`).

    Raises:
        ConfigError: a setting is out of range.
        TypeError: a class is defined without `score` and without `shortcut`.

    Example:
        >>> from dataclasses import dataclass
        >>> from typing import ClassVar
        >>> import regretless as rl
        >>> from regretless.policies import upper_score
        >>> @dataclass(frozen=True)
        ... class Optimist(rl.Policy):
        ...     name: ClassVar[str] = "optimist"
        ...     width: float = 2.0
        ...
        ...     def score(self, inputs):
        ...         return upper_score(inputs.posterior, self.width)
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=20, policy=Optimist(width=3.0))
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
        """What the search maximises, with its constraints.

        Args:
            inputs: what is known when the point is chosen.
        """
        raise NotImplementedError(f"{type(self).__name__} needs no search, so it has no score")

    def shortcut(self, inputs: PolicyInput) -> Array | None:
        """The next point if it needs no search; None to search.

        Args:
            inputs: what is known when the point is chosen.
        """
        return None

    def settle(self, inputs: PolicyInput, value: float) -> int | None:
        """Replace the point that the search found.

        Args:
            inputs: what the policy may use.
            value: the score of the point that the search found.

        Returns:
            The row of a visited point to try again instead; None to keep the point.
        """
        return None

    def threshold(self, inputs: PolicyInput) -> float | None:
        """The threshold t_m, the smallest z that the policy allows; None if it has no gate.

        Args:
            inputs: what is known when the point is chosen.
        """
        return None

    def thresholds(self, inputs: PolicyInput, s: Array) -> Array | float | None:
        """The smallest z that the policy allows at points with the posterior sds s.

        It is `threshold`, unless a known ceiling leaves little room for an improvement.

        Args:
            inputs: what is known when the point is chosen.
            s: the posterior sds of the points.
        """
        threshold = self.threshold(inputs)
        if threshold is None or inputs.ceiling is None:
            return threshold
        xi, omega = self.xi(inputs), self.omega(inputs)
        return gate_below(self.horizon(inputs), (inputs.ceiling.above(xi, omega) - xi) / s)[0]

    def gates(self, inputs: PolicyInput) -> tuple[Constraint, ...]:
        """The gate as a constraint of the score; empty if the policy has no gate.

        Args:
            inputs: what is known when the point is chosen.
        """
        threshold = self.threshold(inputs)
        if threshold is None:
            return ()
        if inputs.change is not None:
            return (self._change_gate(inputs, inputs.change),)
        xi, omega = self.xi(inputs), self.omega(inputs)
        if inputs.ceiling is None:
            return (Gate(xi, threshold, omega),)
        return (CappedGate(xi, inputs.ceiling.above(xi, omega), self.horizon(inputs), omega),)

    def improvement(self, inputs: PolicyInput) -> Callable[..., tuple[Array, Array, Array]]:
        """The function (mu, s) -> log EI and its slopes; a known ceiling limits the improvement.

        Args:
            inputs: what is known when the point is chosen.
        """
        xi = self.xi(inputs)
        if inputs.ceiling is None:
            return lambda mu, s: log_ei(mu, s, xi)
        top = inputs.ceiling.above(xi, self.omega(inputs))
        return lambda mu, s: log_ei_below(mu, s, xi, top)

    def _change_gate(self, inputs: PolicyInput, change: Change) -> ChangeGate:
        """The gate if a change of the setting costs something."""
        xi, steps, incumbent = self.xi(inputs), self.horizon(inputs), inputs.incumbent.x
        spared = 0.0
        if not (incumbent == change.running).all():
            lost = xi - float(inputs.posterior.predict(change.running[None, :])[0][0])
            spared = min(change.cost, steps * max(lost, 0.0))
        return ChangeGate(
            xi, steps, change.cost, spared, change.running, incumbent, self.omega(inputs)
        )

    def horizon(self, inputs: PolicyInput) -> float:
        """The number of evaluations in which a gain has to make up for a loss, from this one on.

        Args:
            inputs: what is known when the point is chosen.
        """
        return inputs.horizon.steps

    def xi(self, inputs: PolicyInput) -> float:
        """The value xi of the incumbent that an improvement is measured from.

        Args:
            inputs: what is known when the point is chosen.
        """
        return incumbent_value(inputs, "mean")

    def omega(self, inputs: PolicyInput) -> float:
        """The factor omega_n, the scale of the posterior sd.

        Args:
            inputs: what is known when the point is chosen.
        """
        return inputs.posterior.omega

    def to_json(self) -> dict[str, Any]:
        """The name and the settings, as JSON."""
        return {"name": self.name} | {f.name: getattr(self, f.name) for f in fields(self)}


def incumbent_value(inputs: PolicyInput, kind: IncumbentKind, beta: float = 0.9) -> float:
    """xi_n, the incumbent value that an improvement is measured from.

    Args:
        inputs: what the policy may use.
        kind: "mean" is the best posterior mean at the points of the posterior, eq. incum.  The
            others are alternatives of section 3.2 of the paper: "observation" is the best single
            observation, "domain" is the best posterior mean of the whole space, and "quantile" is
            the best lower quantile at the points of the posterior.
        beta: the level of "quantile".

    Example:
        >>> import numpy as np
        >>> from regretless.defaults import defaults_of
        >>> from regretless.horizon import Horizon
        >>> from regretless.kernels import SE
        >>> from regretless.model import GP, Data, Hyper
        >>> data = Data.of(x=np.array([[0.2], [0.8]]), y=np.array([1.0, -1.0]))
        >>> posterior = GP.of(data, Hyper(SE((0.3,)), lam2=0.01, omega2=1.0))
        >>> random, here = np.random.default_rng(0), np.array([0.2])
        >>> highest = lambda b: (here, 1.0)
        >>> inputs = PolicyInput(
        ...     posterior, 2, Horizon(10), 1.0, 1.0, random, lambda: here, highest, defaults_of()
        ... )
        >>> incumbent_value(inputs, "observation")
        1.0
        >>> incumbent_value(inputs, "quantile") < incumbent_value(inputs, "mean") < 1.0
        True
    """
    if kind == "observation":
        return inputs.best_observation
    if kind == "domain":
        return inputs.highest(0.0)[1]
    mu, sigma = inputs.standing
    if kind == "mean":  # an improvement has to beat the pending results as well
        return max(float(mu.max()), inputs.promised)
    from scipy.special import ndtri

    return float((mu - ndtri(beta) * inputs.posterior.omega * sigma).max())


def check_incumbent(kind: str, beta: float) -> None:
    """Raise ConfigError unless both are valid arguments of `incumbent_value`."""
    if not is_one_of(kind, INCUMBENTS):
        raise ConfigError(f"incumbent: need one of {', '.join(INCUMBENTS)}, got {shown(kind)}")
    check_inside("beta", beta, "a quantile level")
