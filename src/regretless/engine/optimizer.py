"""Ask and tell: the one stateful object.  It knows the user's units, direction and budget; no I/O.

Its state is a fold of events (plain dicts): every verb makes one and applies it, and applying the
same events again gives the same state and the same next suggestion, bit for bit.  Fits are kept
only by `ask` and are part of its event, so that a replay need not fit.
"""

from __future__ import annotations

import copy
import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, overload

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.locks import in_turn
from regretless._internal.validate import LEAST_SCALE, checked_result, whole, without_numpy
from regretless.defaults import defaults_of
from regretless.design import Start, checked_design, checked_n0
from regretless.engine.situation import Situation, draw
from regretless.errors import (
    ConfigError,
    RegretlessError,
    StorageError,
    TrialError,
    UnknownTrialError,
)
from regretless.horizon import Horizon
from regretless.kernels import Kernel
from regretless.model import Belief, Model, Observed, checked_model
from regretless.policies import EIC, Policy, make_policy
from regretless.results import Best, Decision, Landscape, Row, Trial, checked_decision, number_of
from regretless.space import Scalar, Space
from regretless.theory import noise_ratio, omega_scale

Direction = Literal["maximize", "minimize"]
Event = dict[str, Any]
_VERSION = 1
_LARGEST = 10**100  # a budget or a seed; what is larger may be more than a double holds


@dataclass(frozen=True, eq=False)
class _Record:
    trial: Trial  # as handed out: its params are the caller's
    params: dict[str, Scalar]
    x: Array
    status: str = "pending"
    value: float | None = None
    sem: float | None = None
    count: float | None = None

    def again(self) -> Trial:
        """The trial as it was asked, whatever became of the one that was handed out."""
        return replace(self.trial, params=dict(self.params))


class Optimizer:
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
        self.budget = whole("budget", budget, least=1, most=_LARGEST)
        self.seed = whole("seed", seed, least=0, most=_LARGEST)
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
        self._start = Start(space, Horizon(self.budget), points, n0, self.seed, self.defaults.start)
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._records: list[_Record] = []
        self._waiting: dict[int, _Record] = {}  # the pending ones, by number
        self._started = 0  # trials of the design
        self._known: dict[bytes, dict[str, Scalar]] = {}  # points that others chose, as given
        self._rows: list[Row] = []  # prior data, as told
        self._log: list[Event] = []
        self._belief = Belief.empty(self.model, space.columns, self.defaults)
        self._proposed: tuple[Event | None, Belief] = (None, self._belief)
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
            return self._records[-1].trial

    @in_turn
    def tell(
        self, trial: Trial | int, value: float, *, sem: float | None = None, count: float = 1
    ) -> None:
        """The result of a trial: a number, a mean of `count`, or one with its standard error.

        Told again with the same value nothing happens; another value is an error.  A trial that was
        abandoned may still be told.
        """
        record = self._record(trial)
        value, sem, count = checked_result(value, sem, count)
        if record.status == "told":
            told = (record.value, record.sem, record.count)
            if told == (value, sem, count):
                return
            before, now = _shown(*told), _shown(value, sem, count)
            raise TrialError(
                f"trial {record.trial.number} was told {before}, now {now}:"
                " a result can't be changed"
            )
        self.apply(
            {
                "kind": "told",
                "number": record.trial.number,
                "value": value,
                "sem": sem,
                "count": count,
            }
        )

    @in_turn
    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
    ) -> None:
        """A result that was known before; it costs no budget."""
        value, sem, count = checked_result(value, sem, count)
        known = self.space.validate(params)
        self.apply(
            {"kind": "observed", "params": known, "value": value, "sem": sem, "count": count}
        )

    @in_turn
    def adopt(self, params: Mapping[str, Scalar], decision: Decision | None = None) -> Trial:
        """A trial that was chosen elsewhere, by a person or another process.

        It costs budget and is waited for like one of ours.
        """
        given = Decision("given", self.policy.name, self.remaining, len(self._waiting))
        self.apply(
            {
                "kind": "asked",
                "number": len(self._records),
                "params": self.space.validate(params),
                "decision": checked_decision(given if decision is None else decision).to_json(),
            }
        )
        return self._records[-1].trial

    @in_turn
    def abandon(self, trial: Trial | int) -> None:
        """This result will never come: stop counting on it."""
        record = self._record(trial)
        if record.status == "told":
            raise TrialError(f"trial {record.trial.number} was told already: can't be abandoned")
        if record.status == "pending":
            self.apply({"kind": "abandoned", "number": record.trial.number})

    @in_turn
    def extend(self, budget: int) -> None:
        """A new total budget, which may not be less than what was asked already."""
        budget = self._checked_budget(budget)
        if budget != self.budget:
            self.apply({"kind": "extended", "budget": budget})

    # -- what is known -----------------------------------------------------------------------------

    @property
    def sign(self) -> float:
        """1.0 to maximise, -1.0 to minimise: `sign * value` is larger where it is better."""
        return self._sign

    @property
    def asked(self) -> int:
        return len(self._records)

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return max(0, self.budget - self.asked)

    @property
    def trials(self) -> list[Trial]:
        return [record.again() for record in self._records]

    @property
    def pending(self) -> list[Trial]:
        """Asked, and neither told nor abandoned."""
        return [record.again() for record in list(self._waiting.values())]

    @property
    def observations(self) -> int:
        return len(self._belief.told)

    @property
    def events(self) -> list[Event]:
        """Everything that happened, in order; the state is a fold of it."""
        return list(self._log)

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
            params=self._params_at(x),
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
        own = [
            Row(
                r.trial.number,
                r.status,
                dict(r.params),
                r.value,
                r.sem,
                r.count,
                r.trial.decision,
            )
            for r in self._records
        ]
        return [*(replace(row, params=dict(row.params)) for row in self._rows), *own]

    @in_turn
    def copy(self) -> Optimizer:
        """The same state; what happens to one of them does not change the other."""
        twin = copy.copy(self)  # whatever is inside these is frozen
        for name in ("_records", "_waiting", "_known", "_rows", "_log"):
            setattr(twin, name, copy.copy(getattr(self, name)))
        return twin

    @in_turn
    def to_json(self) -> str:
        """Everything, as text: `Optimizer.from_json` gives the same next suggestion."""
        return json.dumps(
            self.spec() | {"events": self._log}, allow_nan=False, default=without_numpy
        )

    @classmethod
    def from_json(cls, text: str, *, policy: Policy | None = None) -> Optimizer:
        """The optimiser that `to_json` wrote; `policy` hands in one that has no name here."""
        try:
            data = json.loads(text)
            events = data["events"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise StorageError(f"not the JSON of an Optimizer: {error}") from None
        optimizer = cls.from_spec(data, policy=policy)
        if not (isinstance(events, list) and all(isinstance(event, dict) for event in events)):
            raise StorageError(f"not the JSON of an Optimizer: events are {events!r:.80}")
        for event in events:
            optimizer.apply(event)
        return optimizer

    def spec(self) -> dict[str, Any]:
        """The settings, JSON-able."""
        return {
            "version": _VERSION,
            "space": self.space.to_json(),
            **self._start.horizon.to_json(),  # extensions are events
            "seed": self.seed,
            "policy": self.policy.to_json(),
            "direction": self.direction,
            "design": self._start.design,
            "n0": self._start.n0,
            "model": self.model.to_json(),
            "defaults": self.defaults.version,
        }

    @classmethod
    def from_spec(cls, spec: Mapping[str, Any], *, policy: Policy | None = None) -> Optimizer:
        """An optimiser with these settings and no events yet."""
        if spec.get("version") != _VERSION:
            raise StorageError(f"version: need {_VERSION}, got {spec.get('version')!r}")
        try:
            return cls(
                Space.from_json(spec["space"]),
                spec["budget"],
                seed=spec["seed"],
                policy=policy or make_policy(spec["policy"]),
                direction=spec["direction"],
                design=spec["design"],
                n0=spec["n0"],
                model=Model.from_json(spec["model"]),
                defaults=spec.get("defaults", 1),
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"settings of an Optimizer: {error!r}") from None

    # -- events ------------------------------------------------------------------------------------

    @in_turn
    @one_thread()
    def propose(self) -> Event:
        """The event of the next ask, not yet applied.

        May fit the model; the event then carries the fit.
        """
        belief, x, decision = self._decide()
        event: Event = {
            "kind": "asked",
            "number": len(self._records),
            "params": self._params_at(x),
            "decision": decision.to_json(),
        }
        if decision.refitted:
            event["fit"] = belief.source
        self._proposed = (event, belief)  # once applied, nothing is computed again
        return event

    @in_turn
    def apply(self, event: Event) -> None:
        """Fold one event into the state."""
        kind = event.get("kind")
        handler = _HANDLERS.get(str(kind))
        if handler is None:
            raise StorageError(f"event: unknown kind {kind!r}")
        try:
            handler(self, event)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, RegretlessError):
                raise
            raise StorageError(f"event {kind!r}: {error!r} in {event!r}") from None
        self._log.append(event)

    def _on_asked(self, event: Event) -> None:
        if number_of(event["number"]) != len(self._records):
            raise StorageError(
                f"event 'asked': need number {len(self._records)}, got {event['number']!r}"
            )
        params = self.space.validate(event["params"])
        x = self.space.encode(params)
        trial = Trial(event["number"], dict(params), Decision.from_json(event["decision"]))
        proposed, belief = self._proposed
        # Ours, perhaps back from a journal, and nothing was told since.
        if event == proposed and len(belief.told) == len(self._belief.told):
            self._belief = belief
        elif "fit" in event:
            self._belief = self._belief.with_fit(event["fit"])
        self._proposed = (None, self._belief)
        self._records.append(_Record(trial, params, x))
        self._waiting[trial.number] = self._records[-1]
        self._started += trial.decision.reason == "design"
        if trial.decision.reason == "given":
            self._known.setdefault(x.tobytes(), params)

    def _on_told(self, event: Event) -> None:
        record = self._record(event["number"])
        if record.status == "told":
            raise StorageError(f"event 'told': trial {event['number']} was told before")
        blind = record.trial.decision.reason == "design"
        value, sem, count = self._learn(record.x, event, blind)
        self._close(replace(record, status="told", value=value, sem=sem, count=count))

    def _on_observed(self, event: Event) -> None:
        params = self.space.validate(event["params"])
        x = self.space.encode(params)
        value, sem, count = self._learn(x, event)
        self._known.setdefault(x.tobytes(), params)
        self._rows.append(Row(None, "observed", params, value, sem, count, None))

    def _on_abandoned(self, event: Event) -> None:
        record = self._record(event["number"])
        if record.status == "told":
            raise StorageError(f"event 'abandoned': trial {event['number']} was told before")
        self._close(replace(record, status="abandoned"))

    def _close(self, record: _Record) -> None:
        self._records[record.trial.number] = record
        self._waiting.pop(record.trial.number, None)

    def _on_extended(self, event: Event) -> None:
        self.budget = self._checked_budget(event["budget"])

    def _checked_budget(self, budget: object) -> int:
        return whole("budget", budget, least=max(1, len(self._records)), most=_LARGEST)

    def _learn(
        self, x: Array, event: Event, blind: bool = False
    ) -> tuple[float, float | None, float]:
        value, sem, count = checked_result(event["value"], event["sem"], event["count"])
        variance = None if sem is None else sem**2
        told = Observed(x, self._sign * value, max(count, LEAST_SCALE), variance, blind)
        self._belief = self._belief.learn(told)
        return value, sem, count

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self) -> tuple[Belief, Array, Decision]:
        """The next point and its reasons, and what is believed with the fit made for it, if any."""
        rng = np.random.default_rng([self.seed, len(self._records)])
        plain = Decision("design", self.policy.name, self.remaining, len(self._waiting))
        # Prior data count towards a start of ours; points that the user listed are tried anyway.
        start = self._start
        begun = self._started + (0 if start.listed else len(self._known))
        # A blind look near the end has nothing left to pay for it.
        longer = self._blind and self.remaining >= start.longest
        if self.remaining and begun < (start.longest if longer else start.size):
            first = self._next_of_start()
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

    def _next_of_start(self) -> Array | None:
        """The first point of the start that is neither asked for nor known; None: there is none."""
        taken: set[bytes] = set()
        if self._known and not self._start.listed:  # a list is tried in full
            taken = self._known.keys() | {record.x.tobytes() for record in self._records}
        # Those before were asked for or known, if nobody else chose points of a start.
        left = self._start.points[self._started :]
        return next((x for x in left if x.tobytes() not in taken), None)

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
            waiting=tuple(record.x for record in self._waiting.values()),
            horizon=Horizon(self.budget, len(self._records)),
            sign=self._sign,
            rng=rng or np.random.default_rng([self.seed, len(self._records)]),
            defaults=self.defaults,
        )

    # -- small things ------------------------------------------------------------------------------

    def _params_at(self, x: Array) -> dict[str, Scalar]:
        """As they were given, if somebody did: decoded numbers may differ in last digits."""
        given = self._known.get(x.tobytes())
        return self.space.decode(x) if given is None else dict(given)

    def _handed_out(self, number: int) -> Trial:
        """The very object, which its owner may change and still tell."""
        return self._records[number].trial

    def _record(self, trial: Trial | int) -> _Record:
        number = number_of(trial)
        if not 0 <= number < len(self._records):
            raise UnknownTrialError(f"trial {number} was never asked ({len(self._records)} were)")
        record = self._records[number]
        # Our own trial's dict may have been changed by whoever got it.
        given = trial if isinstance(trial, Trial) else record.trial
        if given is not record.trial and given.params != record.params:
            asked = f"{record.params}, not {given.params}"
            raise UnknownTrialError(f"trial {number} is of another optimiser: here it was {asked}")
        return record

    @property
    def _blind(self) -> bool:
        fitted = self._belief.fitted
        return (
            fitted is not None
            and fitted.ok
            and fitted.hyper.lam2 >= self.defaults.start.blind_noise
        )

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.RLock())

    def __repr__(self) -> str:
        return (
            f"Optimizer({self.policy.name}, {self.direction}, asked {self.asked} of {self.budget},"
            f" told {self.observations})"
        )

    def __iter__(self) -> Iterator[Trial]:
        """Ask until the budget is spent: `for trial in opt: opt.tell(trial, f(trial.params))`."""
        while self.remaining:
            yield self.ask()


_HANDLERS = {
    "asked": Optimizer._on_asked,
    "told": Optimizer._on_told,
    "observed": Optimizer._on_observed,
    "abandoned": Optimizer._on_abandoned,
    "extended": Optimizer._on_extended,
}


def _shown(value: float | None, sem: float | None, count: float | None) -> str:
    error = "" if sem is None else f" (sem {sem!r})"
    return f"{value!r}{error}{'' if count == 1 else f' (a mean of {count:g})'}"
