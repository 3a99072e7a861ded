"""The optimiser.  It keeps the state of a run, and does no input or output.

Every verb makes an event and applies it to the state.  If the same events are applied again, the
state and the next suggestion are the same, bit for bit.  Only `ask` fits the model.  It stores the
fit in its event, so a replay does not fit again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import Any, Literal, overload

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.locks import WithLock, in_turn
from regretless._internal.shown import shown
from regretless._internal.validate import LEAST_SCALE, is_iterable, is_one_of, whole
from regretless.defaults import defaults_of
from regretless.design import Start, checked_design, checked_n0
from regretless.engine import saved
from regretless.engine.events import (
    OBJECTIVE,
    SETTINGS_VERSION,
    Abandoned,
    Asked,
    Changed,
    Created,
    Event,
    Extended,
    Observed,
    Outcome,
    Told,
)
from regretless.engine.records import MAX_WHOLE, Records
from regretless.engine.situation import Situation, draw
from regretless.errors import ConfigError, RegretlessError, StorageError
from regretless.horizon import Horizon
from regretless.kernels import Kernel
from regretless.model import Belief, Model, Observation, checked_model
from regretless.policies import EIC, Policy, make_policy, stored_policy
from regretless.results import Best, Decision, Landscape, Row, Trial
from regretless.search import constraints_of
from regretless.space import Parameter, Scalar, Space
from regretless.theory import noise_ratio, omega_scale

Direction = Literal["maximize", "minimize"]


class Optimizer(WithLock):
    """Chooses the next point to evaluate, so that the sum of all losses stays small.

    Threads may share an optimiser; their calls run one after the other.  Processes share a `Study`.

    Args:
        space: the search space.
        budget: how many evaluations will be asked for, the initial design included.
        seed: the seed of all random numbers.
        policy: a name ("ids", "eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts", ...) or an instance.
        direction: "maximize" or "minimize".
        design: the initial design.
            "auto": for one or two numeric parameters a grid of about sqrt(budget) points, otherwise
            Sobol points.  If there are categorical parameters, each choice is tried once first,
            with the other parameters in the middle of their ranges.
            "sobol", "lhs" (Latin hypercube), "grid" (as in the paper).
            A list of points: exactly these points.
        n0: the number of points of the initial design.  Points from `observe` count towards it, and
            are not asked for again.  It is not used for a list.  With "auto", a given n0 means
            Sobol points instead of a grid.  If it is None, with d parameters that vary:
            "auto" takes d + 2 Sobol points, and up to 2d + 2 while the model sees only noise and at
            least as many evaluations are left.  "sobol" and "lhs" take the larger of sqrt(budget)
            and 2d + 2.  These three take at most a quarter of the budget.
            "grid" takes M^d points, M near budget^(1 / (2d)).
        model: a `Model`; None for the default, and `Model.paper()` for the paper's setting.
        defaults: the version of the library's defaults; None for the newest.  A run that was
            created with an older version keeps that version.  3 is a candidate for the next one.

    Raises:
        ConfigError: a setting is not valid.
        SpaceError: a point of the design is not in the space.

    Example:
        >>> import regretless as rl
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> optimizer = rl.Optimizer(space, budget=10, direction="minimize")
        >>> for trial in optimizer:
        ...     optimizer.tell(trial, abs(trial.params["x"] - 0.3))
        >>> optimizer
        Optimizer(ids, minimize, asked 10 of 10, told 10)
        >>> abs(optimizer.best().params["x"] - 0.3) < 0.1
        True
    """

    def __init__(
        self,
        space: Space,
        budget: int,
        *,
        seed: int = 0,
        policy: str | Policy = "ids",
        direction: Direction = "maximize",
        design: str | Sequence[Mapping[str, Scalar]] = "auto",
        n0: int | None = None,
        model: Model | None = None,
        defaults: int | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise ConfigError(f"space: need a Space, got {shown(space)}")
        self.space = self._first_space = space
        budget = whole("budget", budget, least=1, most=MAX_WHOLE)
        self.seed = whole("seed", seed, least=0, most=MAX_WHOLE)
        self.policy = make_policy(policy)
        if not is_one_of(direction, ("maximize", "minimize")):
            raise ConfigError(f"direction: need 'maximize' or 'minimize', got {shown(direction)}")
        self.direction = direction
        self.defaults = defaults_of(defaults)
        self.model = checked_model(
            space.columns,
            Model.default(self.defaults.model) if model is None else model,
            self.defaults.fit,
        )
        n0 = None if n0 is None else checked_n0(n0)
        points = checked_design(space, design)
        self._start = Start(space, Horizon(budget), points, n0, self.seed, self.defaults.start)
        self._first_design = points
        self._sign = 1.0 if direction == "maximize" else -1.0
        check = partial(checked_model, model=self.model, rules=self.defaults.fit)
        self._records = Records(space, budget, self.policy.name, check)
        self._log: list[Event] = []
        self._belief = Belief.empty(self.model, space.columns, self.defaults)
        # The last proposal, and the belief after it is applied.
        self._proposed: tuple[Asked | None, Belief] = (None, self._belief)
        self._lock = threading.RLock()

    @classmethod
    def theorem1(
        cls,
        space: Space,
        budget: int,
        kernel: Kernel,
        *,
        B: float,
        R: float,
        delta: float = 0.1,
        c: float | None = None,
        seed: int = 0,
    ) -> Optimizer:
        """Create the optimiser of Theorem 1 in the paper; `theory.regret_bound` has its guarantee.

        It is EIC with zero mean, nothing fitted or rescaled, lam^2 = 1 + 2/N, the centred grid of
        about sqrt(N) points, and omega_n = c sqrt(I_n + 1 + log(1/delta)).  Points that are alike
        are not merged.  The guarantee holds for this budget only; after `extend` it no longer
        holds.

        Args:
            space: the search space.
            budget: N, the number of evaluations.
            kernel: the kernel of f, with its length-scales.
            B: an upper bound of the norm of f in the RKHS of the kernel.
            R: the noise is R-sub-Gaussian.
            delta: the guarantee holds with probability 1 - delta.
            c: the scale of omega_n; None for the least one that the theorem allows.
            seed: the seed of all random numbers.

        Raises:
            ConfigError: a setting is not valid.
        """
        if not isinstance(kernel, Kernel):
            raise ConfigError(f"kernel: need a Kernel with its length-scales, got {shown(kernel)}")
        least = omega_scale(B, R, delta)  # also for its checks
        policy = EIC(merge=False, omega_scale=least if c is None else c, delta=delta)
        model = Model.fixed(kernel, noise_ratio(whole("budget", budget, least=1)))
        return cls(space, budget, seed=seed, policy=policy, design="grid", model=model)

    # -- the verbs ---------------------------------------------------------------------------------

    @overload
    def ask(self) -> Trial: ...
    @overload
    def ask(self, n: int) -> list[Trial]: ...
    def ask(self, n: int | None = None) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials; see `AskTell.ask`.

        After the budget is spent, it returns the best point, with the reason "exhausted".
        """
        if n is not None:
            return [self.ask() for _ in range(whole("n", n, least=1))]
        with self._lock:
            self.apply(self.propose())
            return self._records.trials[-1].trial

    @in_turn
    def tell(
        self,
        trial: Trial | int,
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
    ) -> None:
        """Take the result of a trial; see `AskTell.tell`.

        Telling the same value again changes nothing.  Telling another value raises TrialError.
        """
        outcome = Outcome(value, sem, count)
        self._apply_any(self._records.telling(trial, {OBJECTIVE: outcome}, time))

    @in_turn
    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
    ) -> None:
        """Take a result from before the run, which uses no budget; see `AskTell.observe`."""
        outcome = Outcome(value, sem, count)
        self.apply(self._records.observing(params, {OBJECTIVE: outcome}, time))

    @in_turn
    def adopt(self, params: Mapping[str, Scalar], decision: Decision | None = None) -> Trial:
        """Make a trial of a point that somebody else chose; see `AskTell.adopt`.

        It uses budget, and counts as pending until its result is told.  `decision` is why the point
        was chosen; None gives it the reason "given".
        """
        self.apply(self._records.adopting(params, decision))
        return self._records.trials[-1].trial

    @in_turn
    def abandon(self, trial: Trial | int) -> None:
        """Stop waiting for the result of a trial; see `AskTell.abandon`."""
        self._apply_any(self._records.abandoning(trial))

    @in_turn
    def extend(self, budget: int) -> None:
        """Set a new total budget; see `AskTell.extend`."""
        self._apply_any(self._records.extending(budget))

    @in_turn
    def change_space(
        self,
        *,
        add: Mapping[str, tuple[Parameter, Scalar]] | None = None,
        freeze: Mapping[str, Scalar] | None = None,
        widen: Mapping[str, Parameter] | None = None,
        drop: Mapping[str, Scalar] | None = None,
    ) -> None:
        """Change the space while the run goes on.

        All results stay, with the values that the parameters had.  Pending trials may still be
        told.  The next ask fits the model anew.

        Args:
            add: new parameters by name, each with the value that it had so far:
                `{"cache": (rl.Int(0, 9), 3)}`.
            freeze: parameters that have this value from now on.
            widen: parameters with a new range or list, which holds all old values.  It may also be
                the old range of a frozen parameter, which is then tuned again.
            drop: parameters that are no longer in `params`, and the value that they have from now
                on.

        Raises:
            SpaceError: a parameter is unknown, or known already; a value is not one of its values;
                a range does not hold the old one; or no point would keep the limits.
            ConfigError: the kernel of the model does not suit the new space.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
            >>> optimizer = rl.Optimizer(space, budget=20)
            >>> optimizer.observe({"x": 0.5, "y": 0.1}, 3.0)
            >>> optimizer.change_space(add={"z": (rl.Int(1, 9), 5)}, freeze={"y": 0.4})
            >>> trial = optimizer.ask()
            >>> sorted(trial.params), trial.params["y"]
            (['x', 'y', 'z'], 0.4)
        """
        self.apply(self._records.changing(add, freeze, widen, drop))

    # -- what is known -----------------------------------------------------------------------------

    @property
    def sign(self) -> float:
        """1.0 to maximise, -1.0 to minimise: `sign * value` is larger where it is better."""
        return self._sign

    @property
    def budget(self) -> int:
        """The total number of evaluations, after the last `extend`."""
        return self._records.budget

    @property
    def asked(self) -> int:
        """The number of trials that were asked for or adopted."""
        return len(self._records.trials)

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; at least 0."""
        return self._records.remaining

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [record.again() for record in self._records.trials]

    @property
    def pending(self) -> list[Trial]:
        """The trials that were neither told nor abandoned."""
        return [record.again() for record in list(self._records.waiting.values())]

    @property
    def observations(self) -> int:
        """The number of results, those from `observe` included."""
        return len(self._belief.told)

    @in_turn
    @one_thread()
    def best(self) -> Best:
        """The visited point with the best posterior mean; see `AskTell.best`."""
        situation = self._situation()
        belief = situation.belief
        points, (mu, sigma) = situation.visited
        row = int(np.argmax(mu))
        x, mean = points[row], float(situation.user(mu[row]))
        half = 1.96 * float(situation.user_sd(mu[row], sigma[row]))
        return Best(
            params=self._records.params_at(x),
            mean=mean,
            low=mean - half,
            high=mean + half,
            count=belief.times_told(x),
            sample_mean=self._sign * belief.sample_mean(x) if belief.times_told(x) else mean,
            luckiest=self._sign * belief.luckiest,
        )

    @in_turn
    @one_thread()
    def predict(self, params: Mapping[str, Scalar]) -> tuple[float, float]:
        """The posterior mean and sd of f at a point, in the user's units.

        Raises:
            NoResultsError: no result was told yet.
            SpaceError: the parameters are not in the space.
        """
        mean, sd = self._situation().predict(self.space.encode(params)[None, :])
        return float(mean[0]), float(sd[0])

    @in_turn
    @one_thread()
    def landscape(self, points: Sequence[Mapping[str, Scalar]]) -> Landscape:
        """The numbers that the policy would compare at these points now, with the last fit.

        It raises the errors of `predict`.
        """
        situation = self._situation()
        if isinstance(points, Mapping) or not is_iterable(points):
            raise ConfigError(f"points: need a list of points, got {shown(points)}")
        rows = [self.space.encode(p) for p in points]
        return situation.landscape(np.array(rows).reshape(len(rows), self.space.dim))

    @in_turn
    def history(self) -> list[Row]:
        """The prior data and the trials, in order.

        `pandas.DataFrame([row.flat() for row in optimizer.history()])` is a table of them.
        """
        return self._records.history()

    @in_turn
    def copy(self) -> Optimizer:
        """An optimiser with the same state.  A change of one does not change the other."""
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        twin._records, twin._log = self._records.copy(), self._log.copy()
        return twin

    __copy__ = copy  # not by fields: the two would share their lists

    # -- as data -----------------------------------------------------------------------------------

    @in_turn
    def to_json(self) -> str:
        """The settings and all events as JSON.

        `Optimizer.from_json` makes an optimiser of it that has the same next suggestion.
        """
        return saved.dump(Created(self.spec()), self._log)

    @classmethod
    def from_json(
        cls, text: str, *, policy: Policy | None = None, space: Space | None = None
    ) -> Optimizer:
        """Restore the optimiser that `to_json` wrote.

        Args:
            text: the JSON, of this release or an older one.
            policy: the instance, if the optimiser was created with a policy class of your own.
            space: the space, if some of its limits are functions.

        Raises:
            ConfigError: the space is needed and was not given, or is another one.
            StorageError: the text is not the JSON of an optimiser that this release can read.

        Example:
            >>> import regretless as rl
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
            >>> twin = rl.Optimizer.from_json(optimizer.to_json())
            >>> twin.ask() == optimizer.ask()
            True
        """
        created, events = saved.load(text)
        optimizer = cls.from_spec(created.settings, policy=policy, space=space)
        for event in events:
            optimizer.apply(event)
        return optimizer

    def spec(self) -> dict[str, Any]:
        """The settings as plain JSON types.  For studies and front ends; users do not need it."""
        return {
            "version": SETTINGS_VERSION,
            "space": self._first_space.to_json(),  # changes are events
            **self._start.horizon.to_json(),  # extensions are events
            "seed": self.seed,
            "policy": stored_policy(self.policy),
            "direction": self.direction,
            "design": self._first_design,
            "n0": self._start.n0,
            "model": self.model.to_json(),
            "defaults": self.defaults.version,
        }

    @classmethod
    def from_spec(
        cls, spec: Mapping[str, Any], *, policy: Policy | None = None, space: Space | None = None
    ) -> Optimizer:
        """An optimiser with the settings that `spec` of this or an older release returned.

        It has no events yet.  For studies and front ends; users do not need it.

        Raises:
            StorageError: the settings cannot be read.
        """
        try:
            return cls(**saved.arguments(spec, policy, space))
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"settings of an Optimizer: {shown(error)}") from None

    # -- events ------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """All events so far, in order.  For studies and front ends; users do not need it."""
        return list(self._log)

    @in_turn
    @one_thread()
    def propose(self) -> Asked:
        """The event of the next ask, with the fit if the model is fitted; it is not applied yet.

        For studies and front ends; users do not need it.
        """
        belief, x, decision = self._decide()
        fit = belief.source if decision.refitted else None
        event = self._records.asking(self._records.params_at(x), decision, fit)
        self._proposed = (event, belief)  # so that `apply` does not compute it again
        return event

    @in_turn
    def apply(self, event: Event) -> None:
        """Apply an event to the state.  For studies and front ends; users do not need it.

        Raises:
            StorageError: the event does not fit the state.
        """
        fold = _FOLDS.get(type(event))
        if fold is None:
            raise StorageError(f"event: need one that happens to an optimiser, got {shown(event)}")
        fold(self, event)
        self._log.append(event)

    def _apply_any(self, event: Event | None) -> None:
        if event is not None:
            self.apply(event)

    def _on_asked(self, event: Asked) -> None:
        proposed, believed = self._proposed
        # If it is the last proposal and nothing was told since, its belief is known already.
        if event != proposed or len(believed.told) != len(self._belief.told):
            believed = self._belief if event.fit is None else self._with_fit(event.fit)
        self._records.fold_asked(event)
        self._belief = believed
        self._proposed = (None, believed)

    def _with_fit(self, fit: dict[str, Any]) -> Belief:
        try:
            return self._belief.with_fit(fit)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, RegretlessError):
                raise
            raise StorageError(f"event 'asked': fit: {shown(error)} in {shown(fit)}") from None

    def _on_told(self, event: Told) -> None:
        record, outcome = self._records.fold_told(event)
        self._learn(record.x, outcome, blind=record.trial.decision.reason == "design")

    def _on_observed(self, event: Observed) -> None:
        self._learn(*self._records.fold_observed(event))

    def _on_changed(self, event: Changed) -> None:
        carry = self._records.fold_changed(event)
        self.space = self._records.space
        self._belief = self._belief.carried(self.space.columns, carry)
        self._proposed = (None, self._belief)
        start = self._start
        points = start.points if start.listed else None
        self._start = replace(start, space=self.space)
        if points is not None:  # the rest of a list that the user gave, as far as it is possible
            moved = self.space.repaired(self.space.canonical(carry(points)))
            self._start = replace(self._start, design=[self.space.decode(x) for x in moved])

    def _learn(self, x: Array, told: Outcome, blind: bool = False) -> None:
        weight, known = max(told.count, LEAST_SCALE), self.model.noise_sd
        if told.sem is not None:
            variance: float | None = told.sem**2
        else:
            variance = None if known is None else known**2 / weight
        self._belief = self._belief.learn(
            Observation(x, self._sign * told.value, weight, variance, blind)
        )

    def _take_proposal_of(self, twin: Optimizer) -> None:
        """Use what a copy has computed for its last proposal, instead of computing it again."""
        self._proposed = twin._proposed

    def _take_posterior_of(self, twin: Optimizer) -> None:
        """Use the posterior that an earlier copy has built, instead of building it again."""
        self._belief = self._belief.with_posterior_of(twin._belief)

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self) -> tuple[Belief, Array, Decision]:
        """The belief, with a new fit if one is due; the next point; and the reason for it."""
        rng = np.random.default_rng([self.seed, len(self._records.trials)])
        plain = Decision("design", self.policy.name, self.remaining, len(self._records.waiting))
        # Prior data count towards the start, but points that the user listed are all tried.
        start = self._start
        begun = self._records.started + (0 if start.listed else len(self._records.known))
        fitted = self._belief.fitted
        sees_noise = (
            fitted is not None and fitted.ok and fitted.hyper.lam2 >= start.rules.blind_noise
        )
        knows_nothing = start.middle_only and not self._belief.told
        # Near the end, too few evaluations are left to profit from a longer start.
        longer = (sees_noise or knows_nothing) and self.remaining >= start.longest
        if self.remaining and begun < (start.longest if longer else start.size):
            first = self._records.next_of_start(start)
            if first is not None:
                return self._belief, first, plain
        if not self._belief.told:  # nothing to learn from yet
            reason = "design" if self.remaining else "exhausted"
            return self._belief, draw(self.space, rng), replace(plain, reason=reason)
        fresh = self._belief.refit_if_due()
        refitted = fresh.source is not self._belief.source
        situation = self._situation(fresh, rng)
        x, decision = situation.decide(replace(plain, refitted=refitted))
        return situation.belief, x, decision

    def _situation(
        self, belief: Belief | None = None, rng: np.random.Generator | None = None
    ) -> Situation:
        current = (belief or self._belief).current()
        if belief is None and current.source is self._belief.source:
            self._belief = current  # so that its posterior is not updated again
        return Situation(
            policy=self.policy,
            space=self.space,
            belief=current,
            waiting=tuple(record.x for record in self._records.waiting.values()),
            horizon=self._records.horizon,
            sign=self._sign,
            rng=rng or np.random.default_rng([self.seed, self.asked]),
            defaults=self.defaults,
            constraints=constraints_of(self.space),
            fixed=self.space.frozen,
        )

    def __repr__(self) -> str:
        return (
            f"Optimizer({self.policy.name}, {self.direction}, asked {self.asked} of {self.budget},"
            f" told {self.observations})"
        )

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent; see `AskTell`."""
        while self.remaining:
            yield self.ask()


_FOLDS: dict[type, Callable[[Optimizer, Any], None]] = {
    Asked: Optimizer._on_asked,
    Told: Optimizer._on_told,
    Observed: Optimizer._on_observed,
    Abandoned: lambda optimizer, event: optimizer._records.fold_abandoned(event),
    Extended: lambda optimizer, event: optimizer._records.fold_extended(event),
    Changed: Optimizer._on_changed,
}
