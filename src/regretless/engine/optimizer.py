"""Ask and tell: the one stateful object.  It knows the user's units, direction and budget; no I/O.

Its state is a fold of events: every verb makes one and applies it, and applying the same events
again gives the same state and the same next suggestion, bit for bit.  Fits are kept only by `ask`
and are part of its event, so that a replay need not fit.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Literal, overload

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.locks import WithLock, in_turn
from regretless._internal.validate import LEAST_SCALE, whole
from regretless.defaults import defaults_of
from regretless.design import Start, checked_design, checked_n0
from regretless.engine import saved
from regretless.engine.events import (
    OBJECTIVE,
    SETTINGS_VERSION,
    Abandoned,
    Asked,
    Created,
    Event,
    Extended,
    Observed,
    Outcome,
    Told,
)
from regretless.engine.records import LARGEST, Records
from regretless.engine.situation import Situation, draw
from regretless.errors import ConfigError, RegretlessError, StorageError
from regretless.horizon import Horizon
from regretless.kernels import Kernel
from regretless.model import Belief, Model, checked_model
from regretless.model import Observed as Observation
from regretless.policies import EIC, Policy, make_policy, stored_policy
from regretless.results import Best, Decision, Landscape, Row, Trial
from regretless.space import Scalar, Space
from regretless.theory import noise_ratio, omega_scale

Direction = Literal["maximize", "minimize"]


class Optimizer(WithLock):
    """Suggests what to try next so that little is lost on the way.

    Threads may share it, and take turns; processes share a `Study`.

    budget     evaluations that will be asked for, the start included
    policy     a name ("ids", "eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts", ...) or an instance
    direction  "maximize" or "minimize"
    design     how to start: "sobol", "lhs", "grid" (the paper's), a list of points to try first, or
               "auto": a grid of about sqrt(budget) points for one or two numbers, else Sobol
               points, where there are choices after each of these in the middle of the rest
    n0         how many points to start with, unless they are listed; prior data (`observe`) count
               towards it, and what they know is not asked for again. By default
               dim + 2 of "auto"'s such points, up to 2 dim + 2 while the model sees nothing but
               noise and at least as many evaluations are left; of "sobol" and "lhs" about
               sqrt(budget), or 2 dim + 2 if that is more; a quarter of the budget at most;
               of a grid M^dim for the whole M next to budget^(1 / (2 dim)), which in many
               dimensions may be 1. Given, "auto" takes no grid
    model      a `Model`; `Model.paper()` is the paper's setting
    defaults   the version of the library's defaults, by which an older run goes on as it began;
               the newest one by default
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
            raise ConfigError(f"space: need a Space, got {space!r}")
        self.space = space
        budget = whole("budget", budget, least=1, most=LARGEST)
        self.seed = whole("seed", seed, least=0, most=LARGEST)
        self.policy = make_policy(policy)
        if direction not in ("maximize", "minimize"):
            raise ConfigError(f"direction: need 'maximize' or 'minimize', got {direction!r}")
        self.direction = direction
        self.defaults = defaults_of(defaults)
        self.model = checked_model(
            space.columns, Model() if model is None else model, self.defaults.fit
        )
        n0 = None if n0 is None else checked_n0(n0)
        points = checked_design(space, design)
        self._start = Start(space, Horizon(budget), points, n0, self.seed, self.defaults.start)
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._records = Records(space, budget, self.policy.name)
        self._log: list[Event] = []
        self._belief = Belief.empty(self.model, space.columns, self.defaults)
        # The last proposal, and what is believed once it is applied.
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
        """EIC as in Theorem 1 of the paper, with its guarantee (`theory.regret_bound`).

        For f of norm B at most in the RKHS of `kernel` and R-sub-Gaussian noise, with probability
        1 - delta: zero mean, nothing fitted or rescaled, lam^2 = 1 + 2/N, the centred grid of about
        sqrt(N) points, omega_n = c sqrt(I_n + 1 + log(1/delta)).  Points that are alike are not
        merged.  The budget belongs to it: `extend` leaves the guarantee.
        """
        if not isinstance(kernel, Kernel):
            raise ConfigError(f"kernel: need a Kernel with its length-scales, got {kernel!r}")
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
        """What to try next; a list of n for a batch.

        Past the budget it serves the best point and says so.
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
        """The result of a trial: a number, a mean of `count`, or one with its standard error.

        `time` is when it was measured, with a time zone.  Told again with the same value nothing
        happens; another value is an error.  A trial that was abandoned may still be told.
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
        """A result that was known before; it costs no budget."""
        outcome = Outcome(value, sem, count)
        self.apply(self._records.observing(params, {OBJECTIVE: outcome}, time))

    @in_turn
    def adopt(self, params: Mapping[str, Scalar], decision: Decision | None = None) -> Trial:
        """A trial that was chosen elsewhere, by a person or another process.

        It costs budget and is waited for like one of ours.
        """
        self.apply(self._records.adopting(params, decision))
        return self._records.trials[-1].trial

    @in_turn
    def abandon(self, trial: Trial | int) -> None:
        """This result will never come: stop counting on it."""
        self._apply_any(self._records.abandoning(trial))

    @in_turn
    def extend(self, budget: int) -> None:
        """A new total budget, which may not be less than what was asked already."""
        self._apply_any(self._records.extending(budget))

    # -- what is known -----------------------------------------------------------------------------

    @property
    def sign(self) -> float:
        """1.0 to maximise, -1.0 to minimise: `sign * value` is larger where it is better."""
        return self._sign

    @property
    def budget(self) -> int:
        """Evaluations in all, as last extended."""
        return self._records.budget

    @property
    def asked(self) -> int:
        return len(self._records.trials)

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return self._records.remaining

    @property
    def trials(self) -> list[Trial]:
        return [record.again() for record in self._records.trials]

    @property
    def pending(self) -> list[Trial]:
        """Asked, and neither told nor abandoned."""
        return [record.again() for record in list(self._records.waiting.values())]

    @property
    def observations(self) -> int:
        return len(self._belief.told)

    @in_turn
    @one_thread()
    def best(self) -> Best:
        """The visited point with the best posterior mean, with a 95 % interval."""
        situation = self._situation()
        posterior, belief = situation.posterior, situation.belief
        mu, sigma = posterior.at_data
        row = int(np.argmax(mu))
        x, mean = posterior.points[row], float(situation.user(mu[row]))
        half = 1.96 * float(situation.user_sd(mu[row], sigma[row]))
        return Best(
            params=self._records.params_at(x),
            mean=mean,
            low=mean - half,
            high=mean + half,
            count=belief.times_told(x),
            sample_mean=self._sign * belief.sample_mean(x),
            luckiest=self._sign * belief.luckiest,
        )

    @in_turn
    @one_thread()
    def predict(self, params: Mapping[str, Scalar]) -> tuple[float, float]:
        """Posterior mean and sd of f at a point."""
        mean, sd = self._situation().predict(self.space.encode(params)[None, :])
        return float(mean[0]), float(sd[0])

    @in_turn
    @one_thread()
    def landscape(self, points: Sequence[Mapping[str, Scalar]]) -> Landscape:
        """What the policy would weigh at these points, were it to decide now, by the last fit."""
        situation = self._situation()
        rows = [self.space.encode(p) for p in points]
        return situation.landscape(np.array(rows).reshape(len(rows), self.space.dim))

    @in_turn
    def history(self) -> list[Row]:
        """Prior data and trials; `[row.flat() for row in ...]` is what pandas.DataFrame takes."""
        return self._records.history()

    @in_turn
    def copy(self) -> Optimizer:
        """The same state; what happens to one of them does not change the other."""
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        twin._records, twin._log = self._records.copy(), self._log.copy()
        return twin

    __copy__ = copy  # not by fields: the two would share their lists

    # -- as data -----------------------------------------------------------------------------------

    @in_turn
    def to_json(self) -> str:
        """Everything, as text: `Optimizer.from_json` gives the same next suggestion."""
        return saved.dump(Created(self.spec()), self._log)

    @classmethod
    def from_json(cls, text: str, *, policy: Policy | None = None) -> Optimizer:
        """The optimiser that `to_json` wrote; `policy` hands in one that has no name here."""
        created, events = saved.load(text)
        optimizer = cls.from_spec(created.settings, policy=policy)
        for event in events:
            optimizer.apply(event)
        return optimizer

    def spec(self) -> dict[str, Any]:
        """The settings, JSON-able."""
        return {
            "version": SETTINGS_VERSION,
            "space": self.space.to_json(),
            **self._start.horizon.to_json(),  # extensions are events
            "seed": self.seed,
            "policy": stored_policy(self.policy),
            "direction": self.direction,
            "design": self._start.design,
            "n0": self._start.n0,
            "model": self.model.to_json(),
            "defaults": self.defaults.version,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], *, policy: Policy | None = None) -> Optimizer:
        """An optimiser with these settings and no events yet; older releases' are read, too."""
        try:
            return cls(**saved.arguments(spec, policy))
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"settings of an Optimizer: {error!r}") from None

    # -- events ------------------------------------------------------------------------------------

    @property
    def events(self) -> list[Event]:
        """Everything that happened, in order; the state is a fold of it."""
        return list(self._log)

    @in_turn
    @one_thread()
    def propose(self) -> Asked:
        """The event of the next ask, not yet applied.

        May fit the model; the event then carries the fit.
        """
        belief, x, decision = self._decide()
        fit = belief.source if decision.refitted else None
        event = self._records.asking(self._records.params_at(x), decision, fit)
        self._proposed = (event, belief)  # once applied, nothing is computed again
        return event

    @in_turn
    def apply(self, event: Event) -> None:
        """Fold one event into the state."""
        fold = _FOLDS.get(type(event))
        if fold is None:
            raise StorageError(f"event: need one that happens to an optimiser, got {event!r:.80}")
        fold(self, event)
        self._log.append(event)

    def _apply_any(self, event: Event | None) -> None:
        if event is not None:
            self.apply(event)

    def _on_asked(self, event: Asked) -> None:
        proposed, believed = self._proposed
        # Our own proposal, perhaps back from a journal, and nothing was told since.
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
            raise StorageError(f"event 'asked': fit: {error!r} in {fit!r}") from None

    def _on_told(self, event: Told) -> None:
        record, outcome = self._records.fold_told(event)
        self._learn(record.x, outcome, blind=record.trial.decision.reason == "design")

    def _on_observed(self, event: Observed) -> None:
        self._learn(*self._records.fold_observed(event))

    def _learn(self, x: Array, told: Outcome, blind: bool = False) -> None:
        variance = None if told.sem is None else told.sem**2
        weight = max(told.count, LEAST_SCALE)
        self._belief = self._belief.learn(
            Observation(x, self._sign * told.value, weight, variance, blind)
        )

    def _take_proposal_of(self, twin: Optimizer) -> None:
        """What a copy has computed for its last proposal need not be computed here again."""
        self._proposed = twin._proposed

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self) -> tuple[Belief, Array, Decision]:
        """The next point and its reasons, and what is believed with the fit made for it, if any."""
        rng = np.random.default_rng([self.seed, len(self._records.trials)])
        plain = Decision("design", self.policy.name, self.remaining, len(self._records.waiting))
        # Prior data count towards a start of ours; points that the user listed are tried anyway.
        start = self._start
        begun = self._records.started + (0 if start.listed else len(self._records.known))
        fitted = self._belief.fitted
        sees_noise = (
            fitted is not None and fitted.ok and fitted.hyper.lam2 >= start.rules.blind_noise
        )
        # Near the end too few evaluations are left to make up for more points of the start.
        longer = sees_noise and self.remaining >= start.longest
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
            self._belief = current  # its posterior need not be caught up again
        return Situation(
            policy=self.policy,
            space=self.space,
            belief=current,
            waiting=tuple(record.x for record in self._records.waiting.values()),
            horizon=self._records.horizon,
            sign=self._sign,
            rng=rng or np.random.default_rng([self.seed, self.asked]),
            defaults=self.defaults,
        )

    def __repr__(self) -> str:
        return (
            f"Optimizer({self.policy.name}, {self.direction}, asked {self.asked} of {self.budget},"
            f" told {self.observations})"
        )

    def __iter__(self) -> Iterator[Trial]:
        """Ask until the budget is spent: `for trial in opt: opt.tell(trial, f(trial.params))`."""
        while self.remaining:
            yield self.ask()


_FOLDS: dict[type, Callable[[Optimizer, Any], None]] = {
    Asked: Optimizer._on_asked,
    Told: Optimizer._on_told,
    Observed: Optimizer._on_observed,
    Abandoned: lambda optimizer, event: optimizer._records.fold_abandoned(event),
    Extended: lambda optimizer, event: optimizer._records.fold_extended(event),
}
