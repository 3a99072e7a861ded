"""Ask and tell: the one stateful object.  It knows the user's units, direction and budget; no I/O.

Its state is a fold of events (plain dicts): every verb makes one and applies it, and applying the
same events again gives the same state and the same next suggestion, bit for bit.  Fits happen only
inside `ask` and are part of its event, so that a replay need not fit.
"""

from __future__ import annotations

import copy
import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, Literal, overload

import numpy as np

from noregret import design as designs
from noregret.decision import Best, Decision, Landscape, Row, Trial
from noregret.errors import (
    ConfigError,
    DataError,
    NoRegretError,
    StorageError,
    TrialError,
    UnknownTrialError,
)
from noregret.fit import Model, fit, refit_due
from noregret.gp import GP, Data, Hyper
from noregret.kernels import Kernel
from noregret.maximise import maximise, same_point
from noregret.numerics import Array, h
from noregret.policies import EIC, Context, Policy, make_policy, mean_score
from noregret.space import Scalar, Space
from noregret.theory import noise_ratio, omega_scale

Direction = Literal["maximize", "minimize"]
Event = dict[str, Any]
_VERSION = 1
_DESIGNS = ("sobol", "lhs", "grid")
_LARGEST = 1e100  # of a number that may be told: its square must not overflow
_LEAST_SCALE = 1e-100  # nor may the square of the unit vanish


@dataclass(frozen=True)
class _Fitted:
    """The hyper-parameters in use, the scale they hold for, and what they were fitted to."""

    hyper: Hyper
    shift: float
    scale: float
    at: int  # observations
    points: int  # distinct ones among them
    ok: bool = True


@dataclass(frozen=True, eq=False)
class _Surrogate:
    """The posterior in use: built at a fit, then shown one observation after the other."""

    fitted: _Fitted | None = None
    source: dict[str, Any] | None = None  # the JSON of `fitted`, here as in a replay
    gp: GP | None = None
    included: int = 0  # observations that gp has seen
    surprise: float = 0.0  # of those since the fit, see `fit.refit_due`


@dataclass(frozen=True, eq=False)
class _Record:
    trial: Trial
    x: Array
    status: str = "pending"
    value: float | None = None
    sem: float | None = None
    count: float | None = None


@dataclass(frozen=True)
class _Tally:
    """What was told of one point, added up."""

    results: int = 0
    weight: float = 0.0
    total: float = 0.0

    def plus(self, y: float, weight: float) -> _Tally:
        return _Tally(self.results + 1, self.weight + weight, self.total + weight * y)


class Optimizer:
    """Suggests what to try next so that little is lost on the way.

    budget     evaluations that will be asked for, the start included
    policy     a name ("eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts", ...) or an instance
    direction  "maximize" or "minimize"
    design     how to start: "sobol", "lhs", "grid" (the paper's), or a list of points to try first
    n0         how many points to start with (default: about sqrt(budget), and 2 dim + 2 at least);
               prior data (`observe`) count towards it
    model      a `Model`; `Model.paper()` is the paper's setting
    """

    def __init__(
        self,
        space: Space,
        budget: int,
        *,
        seed: int = 0,
        policy: str | Policy = "eic",
        direction: Direction = "maximize",
        design: str | Sequence[Mapping[str, Scalar]] = "sobol",
        n0: int | None = None,
        model: Model | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise ConfigError(f"space: need a Space, got {space!r}")
        self.space = space
        self.budget = self._first_budget = _whole("budget", budget, least=1)
        self.seed = _whole("seed", seed, least=0)
        self.policy = make_policy(policy)
        if direction not in ("maximize", "minimize"):
            raise ConfigError(f"direction: need 'maximize' or 'minimize', got {direction!r}")
        self.direction = direction
        self.model = model if model is not None else Model()
        self._design_name = design if isinstance(design, str) else [dict(p) for p in design]
        self._n0 = None if n0 is None else _whole("n0", n0, least=1)
        self._design = self._start_points()
        self._sign = 1.0 if direction == "maximize" else -1.0
        self._records: list[_Record] = []
        self._waiting: dict[int, _Record] = {}  # the pending ones, by number
        self._started = 0  # trials of the design
        self._known: set[bytes] = set()  # points that others chose
        self._rows: list[Row] = []  # prior data, as told
        self._log: list[Event] = []
        self._data = Data.empty(space.dim)  # signed, unscaled
        # x, y, weight, variance, in the order in which they were told
        self._told: list[tuple[Array, float, float, float | None]] = []
        self._tally: dict[bytes, _Tally] = {}  # by point
        self._luckiest = -math.inf
        self._surrogate = _Surrogate()
        self._proposed: tuple[Event | None, _Surrogate] = (None, self._surrogate)

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
        scale = omega_scale(B, R, delta) if c is None else c
        policy = EIC(merge=False, omega_scale=scale, delta=delta)
        model = Model.fixed(kernel, noise_ratio(_whole("budget", budget, least=1)))
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
            return [self.ask() for _ in range(_whole("n", n, least=1))]
        event = self.propose()
        self.apply(event)
        return self._records[-1].trial

    def tell(
        self, trial: Trial | int, value: float, *, sem: float | None = None, count: float = 1
    ) -> None:
        """The result of a trial: a number, a mean of `count`, or one with its standard error.

        Told again with the same value nothing happens; another value is an error.  A trial that was
        abandoned may still be told.
        """
        record = self._record(trial)
        value, sem, count = _checked_result(value, sem, count)
        if record.status == "told":
            if (record.value, record.sem, record.count) == (value, sem, count):
                return
            raise TrialError(
                f"trial {record.trial.number} was told {record.value!r}, now {value!r}:"
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

    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float,
        *,
        sem: float | None = None,
        count: float = 1,
    ) -> None:
        """A result that was known before; it costs no budget."""
        value, sem, count = _checked_result(value, sem, count)
        known = self.space.validate(params)
        self.apply(
            {"kind": "observed", "params": known, "value": value, "sem": sem, "count": count}
        )

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
                "decision": (decision or given).to_json(),
            }
        )
        return self._records[-1].trial

    def abandon(self, trial: Trial | int) -> None:
        """This result will never come: stop counting on it."""
        record = self._record(trial)
        if record.status == "told":
            raise TrialError(f"trial {record.trial.number} was told already: can't be abandoned")
        if record.status == "pending":
            self.apply({"kind": "abandoned", "number": record.trial.number})

    def extend(self, budget: int) -> None:
        """A new total budget, which may not be less than what was asked already."""
        budget = _whole("budget", budget, least=max(1, len(self._records)))
        if budget != self.budget:
            self.apply({"kind": "extended", "budget": budget})

    # -- what is known -----------------------------------------------------------------------------

    @property
    def asked(self) -> int:
        return len(self._records)

    @property
    def remaining(self) -> int:
        """Evaluations that may still be asked for."""
        return max(0, self.budget - self.asked)

    @property
    def trials(self) -> list[Trial]:
        return [record.trial for record in self._records]

    @property
    def pending(self) -> list[Trial]:
        """Asked, and neither told nor abandoned."""
        return [record.trial for record in self._waiting.values()]

    @property
    def observations(self) -> int:
        return len(self._told)

    @property
    def events(self) -> list[Event]:
        """Everything that happened, in order; the state is a fold of it."""
        return list(self._log)

    def best(self) -> Best:
        """The visited point with the best posterior mean, with a 95 % interval."""
        gp, fitted = self._current()
        mu, sigma = gp.at_data
        row = int(np.argmax(mu))
        x = gp.data.x[row]
        half = 1.96 * gp.omega * float(sigma[row]) * fitted.scale
        mean = self._user(float(mu[row]), fitted)
        here = self._tally[x.tobytes()]
        return Best(
            params=self.space.decode(x),
            mean=mean,
            low=mean - half,
            high=mean + half,
            count=here.results,
            sample_mean=self._sign * here.total / here.weight,
            luckiest=self._sign * self._luckiest,
        )

    def predict(self, params: Mapping[str, Scalar]) -> tuple[float, float]:
        """Posterior mean and sd of f at a point."""
        gp, fitted = self._current()
        mu, sigma = gp.posterior(self.space.encode(params)[None, :])
        return self._user(float(mu[0]), fitted), gp.omega * float(sigma[0]) * fitted.scale

    def landscape(self, points: Sequence[Mapping[str, Scalar]]) -> Landscape:
        """What the policy would weigh at these points, were it to decide now, by the last fit."""
        gp, fitted = self._current()
        plain = Decision("explore", self.policy.name, max(1, self.remaining))
        rng = np.random.default_rng([self.seed, len(self._records)])
        context = self._context(gp, fitted, plain, rng)
        mu, sigma = context.gp.posterior(np.array([self.space.encode(p) for p in points]))
        xi, s, unit = self.policy.xi(context), self.policy.omega(context) * sigma, fitted.scale
        z = (mu - xi) / s
        threshold = self.policy.threshold(context)
        return Landscape(
            mean=self._sign * (mu * unit + fitted.shift),
            sd=gp.omega * sigma * unit,
            expected_improvement=s * h(z) * unit,
            evaluation_cost=s * h(-z) * unit / context.remaining,
            feasible=z >= (-np.inf if threshold is None else threshold),
            incumbent=self._user(xi, fitted),
        )

    def history(self) -> list[Row]:
        """Prior data and trials; `[row.flat() for row in ...]` is what pandas.DataFrame takes."""
        own = [
            Row(r.trial.number, r.status, r.trial.params, r.value, r.sem, r.count, r.trial.decision)
            for r in self._records
        ]
        return [*self._rows, *own]

    def copy(self) -> Optimizer:
        """The same state; what happens to one of them does not change the other."""
        twin = copy.copy(self)  # whatever is inside the lists is frozen
        for name in ("_records", "_rows", "_log", "_told"):
            setattr(twin, name, list(getattr(self, name)))
        return twin

    def to_json(self) -> str:
        """Everything, as text: `Optimizer.from_json` gives the same next suggestion."""
        return json.dumps(self.spec() | {"events": self._log}, allow_nan=False)

    @classmethod
    def from_json(cls, text: str, *, policy: Policy | None = None) -> Optimizer:
        """The optimiser that `to_json` wrote; `policy` hands in one that has no name here."""
        try:
            data = json.loads(text)
            events = data["events"]
        except (ValueError, KeyError, TypeError) as error:
            raise StorageError(f"not the JSON of an Optimizer: {error}") from None
        optimizer = cls.from_spec(data, policy=policy)
        for event in events:
            optimizer.apply(event)
        return optimizer

    def spec(self) -> dict[str, Any]:
        """The settings, JSON-able."""
        return {
            "version": _VERSION,
            "space": self.space.to_json(),
            "budget": self._first_budget,  # extensions are events
            "seed": self.seed,
            "policy": self.policy.to_json(),
            "direction": self.direction,
            "design": self._design_name,
            "n0": self._n0,
            "model": self.model.to_json(),
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
            )
        except (KeyError, TypeError, AttributeError) as error:
            raise StorageError(f"settings of an Optimizer: {error!r}") from None

    # -- events ------------------------------------------------------------------------------------

    def propose(self) -> Event:
        """The event of the next ask, not yet applied.

        May fit the model; the event then carries the fit.
        """
        number = len(self._records)
        kept = self._surrogate
        try:
            x, decision = self._decide(number)
            event: Event = {
                "kind": "asked",
                "number": number,
                "params": self.space.decode(x),
                "decision": decision.to_json(),
            }
            if decision.refitted:
                event["fit"] = self._surrogate.source
            self._proposed = (event, self._surrogate)  # once applied, nothing is computed again
        finally:
            self._surrogate = kept  # one that nobody applies, or was interrupted, leaves no trace
        return event

    def apply(self, event: Event) -> None:
        """Fold one event into the state."""
        kind = event.get("kind")
        handler = _HANDLERS.get(str(kind))
        if handler is None:
            raise StorageError(f"event: unknown kind {kind!r}")
        try:
            handler(self, event)
        except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
            if isinstance(error, NoRegretError):
                raise
            raise StorageError(f"event {kind!r}: {error!r} in {event!r}") from None
        self._log.append(event)

    def _on_asked(self, event: Event) -> None:
        if event["number"] != len(self._records):
            raise StorageError(
                f"event 'asked': need number {len(self._records)}, got {event['number']!r}"
            )
        x = self.space.encode(event["params"])
        trial = Trial(
            event["number"],
            self.space.validate(event["params"]),
            Decision.from_json(event["decision"]),
        )
        if event == self._proposed[0]:  # ours, perhaps back from a journal
            self._surrogate = self._proposed[1]
        elif "fit" in event:
            self._surrogate = self._surrogate_from(event["fit"])
        self._proposed = (None, self._surrogate)
        self._records.append(_Record(trial, x))
        self._waiting[trial.number] = self._records[-1]
        self._started += trial.decision.reason == "design"
        if trial.decision.reason == "given":
            self._known.add(x.tobytes())

    def _on_told(self, event: Event) -> None:
        record = self._record(event["number"])
        if record.status == "told":
            raise StorageError(f"event 'told': trial {event['number']} was told before")
        value, sem, count = self._learn(record.x, event)
        self._close(replace(record, status="told", value=value, sem=sem, count=count))

    def _on_observed(self, event: Event) -> None:
        params = self.space.validate(event["params"])
        x = self.space.encode(params)
        value, sem, count = self._learn(x, event)
        self._known.add(x.tobytes())
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
        self.budget = _whole("budget", event["budget"], least=max(1, len(self._records)))

    # -- the model ---------------------------------------------------------------------------------

    def _learn(self, x: Array, event: Event) -> tuple[float, float | None, float]:
        """Add an event's result to the data; the posterior is shown it when it is asked for."""
        value, sem, weight = _checked_result(event["value"], event["sem"], event["count"])
        y, variance = self._sign * value, None if sem is None else sem**2
        self._data, _ = self._data.add(x, y, weight, variance)
        self._told.append((x, y, weight, variance))
        point = x.tobytes()
        self._tally[point] = self._tally.get(point, _Tally()).plus(y, weight)
        self._luckiest = max(self._luckiest, y)
        return value, sem, weight

    def _caught_up(self, surrogate: _Surrogate) -> _Surrogate:
        """Shown the observations that it has not seen, with a note of how surprising they were."""
        gp, fitted, surprise = surrogate.gp, surrogate.fitted, surrogate.surprise
        assert gp is not None
        assert fitted is not None
        for x, y, weight, variance in self._told[surrogate.included :]:
            y = (y - fitted.shift) / fitted.scale
            if variance is not None:
                variance /= fitted.scale**2
            mu, sigma = gp.posterior(x[None, :])
            noise = gp.hyper.lam2 * gp.hyper.omega2 / weight if variance is None else variance
            expected = gp.hyper.omega2 * float(sigma[0]) ** 2 + noise
            surprise += (y - float(mu[0])) ** 2 / expected
            gp = gp.add(x, y, weight, variance)
        return replace(surrogate, gp=gp, included=len(self._told), surprise=surprise)

    def _current(self) -> tuple[GP, _Fitted]:
        """The posterior of everything told, under the parameters last fitted (or none yet)."""
        if not self._told:
            raise DataError("nothing was told yet")
        fitted = self._surrogate.fitted
        if fitted is None:
            fitted = self._start_fit()
            return GP.of(self._data.standardised(fitted.shift, fitted.scale), fitted.hyper), fitted
        if self._surrogate.gp is None:
            # From the observations of the fit, then one by one: the operations, and so the bits, of
            # the process that made the fit.
            data = self._data if fitted.at == len(self._told) else self._data_until(fitted.at)
            gp = GP.of(data.standardised(fitted.shift, fitted.scale), fitted.hyper)
            self._surrogate = replace(self._surrogate, gp=gp, included=fitted.at)
        if self._surrogate.included < len(self._told):
            self._surrogate = self._caught_up(self._surrogate)
        assert self._surrogate.gp is not None
        return self._surrogate.gp, fitted

    def _data_until(self, count: int) -> Data:
        data = Data.empty(self.space.dim)
        for x, y, weight, variance in self._told[:count]:
            data, _ = data.add(x, y, weight, variance)
        return data

    def _start_fit(self) -> _Fitted:
        shift, scale = self._scaling()
        start, points = self.model.start(self.space.kinds), len(self._data)
        return _Fitted(start, shift, scale, len(self._told), points, ok=False)

    def _scaling(self) -> tuple[float, float]:
        """Shift and scale that give the data unit spread; a zero-mean model must not be shifted."""
        if self.model.method == "fixed":
            return 0.0, 1.0
        y = np.array([entry[1] for entry in self._told])
        shift = 0.0 if self.model.mean == "zero" else float(y.mean())
        scale = float(np.sqrt(np.mean((y - shift) ** 2)))
        if not scale > 1e-12 * float(np.abs(y).max()):
            scale = float(np.abs(y).max())
        return shift, max(scale, _LEAST_SCALE)

    def _refit_if_due(self) -> bool:
        fitted, told = self._surrogate.fitted, len(self._told)
        if fitted is not None:
            self._current()
            counts = (fitted.at, told), (fitted.points, len(self._data))
            due = refit_due(*counts, self._surrogate.surprise, self.model.growth)
            if not due or self.model.method == "fixed":
                return False
        shift, scale = self._scaling()
        before = fitted.hyper if fitted else self.model.start(self.space.kinds)
        result = fit(self._data.standardised(shift, scale), before, self.model)
        self._surrogate = self._surrogate_from(
            {
                "theta": result.hyper.kernel.theta.tolist(),
                "lam2": result.hyper.lam2,
                "omega2": result.hyper.omega2,
                "shift": shift,
                "scale": scale,
                "at": told,
                "points": len(self._data),
                "ok": result.ok,
            }
        )
        return True

    def _surrogate_from(self, source: dict[str, Any]) -> _Surrogate:
        """From JSON, also right after the fit: a way through logarithms may change last bits."""
        numbers = {name: float(source[name]) for name in ("lam2", "omega2", "shift", "scale")}
        at, points = int(source["at"]), int(source["points"])
        positive = min(numbers["lam2"], numbers["omega2"], numbers["scale"]) > 0
        if not positive or not 0 <= at <= len(self._told):
            raise StorageError(f"event 'asked': no fit of {len(self._told)} results: {source!r}")
        start = self.model.start(self.space.kinds)
        hyper = replace(
            start,
            kernel=start.kernel.with_theta(np.array(source["theta"])),
            lam2=numbers["lam2"],
            omega2=numbers["omega2"],
        )
        ok = bool(source["ok"])
        fitted = _Fitted(hyper, numbers["shift"], numbers["scale"], at, points, ok)
        return _Surrogate(fitted, source)

    # -- deciding ----------------------------------------------------------------------------------

    def _decide(self, number: int) -> tuple[Array, Decision]:
        rng = np.random.default_rng([self.seed, number])
        remaining = self.budget - number
        plain = Decision("design", self.policy.name, max(0, remaining), len(self._waiting))
        # Prior data count towards a start of ours; points that the user listed are tried anyway.
        known = len(self._known) if isinstance(self._design_name, str) else 0
        if remaining > 0 and self._started + known < len(self._design):
            return self._design[self._started], plain
        if not self._told:  # nothing to learn from yet
            return self._draw(rng), plain if remaining > 0 else replace(plain, reason="exhausted")
        refitted = self._refit_if_due()
        return self._choose(replace(plain, refitted=refitted), rng)

    def _choose(self, plain: Decision, rng: np.random.Generator) -> tuple[Array, Decision]:
        gp, fitted = self._current()
        context = self._context(gp, fitted, plain, rng)
        merged = False
        if plain.remaining == 0:
            row: int | None = context.incumbent_row
            x = gp.data.x[row]
        else:
            x, row, merged = self._search(context)
        decision = self._explain(context, fitted, x, row, plain)
        return x, replace(decision, merged=merged)

    def _context(
        self, gp: GP, fitted: _Fitted, plain: Decision, rng: np.random.Generator
    ) -> Context:
        rows = len(gp.data)
        for record in self._waiting.values():
            mu, _ = gp.posterior(record.x[None, :])
            gp = gp.add(record.x, float(mu[0]))

        def domain_best() -> float:
            found = maximise(mean_score(gp), self.space, gp.data.x[:rows], rng)
            return float(found.value)

        return Context(
            gp=gp,
            rows=rows,
            asked=len(self._records),
            remaining=max(1, plain.remaining),
            best_observation=(self._luckiest - fitted.shift) / fitted.scale,
            unit=fitted.scale,
            rng=rng,
            draw=lambda: self._draw(rng),
            domain_best=domain_best,
        )

    def _search(self, context: Context) -> tuple[Array, int | None, bool]:
        """The policy's point, the sampled row that it is, if any, and whether it was merged."""
        sampled = context.gp.data.x[: context.rows]
        shortcut = self.policy.shortcut(context)
        if shortcut is not None:
            same = np.flatnonzero((sampled == shortcut).all(axis=1))
            return shortcut, int(same[0]) if len(same) else None, False
        score = self.policy.score(context)
        found = maximise(score, self.space, sampled, context.rng)
        if not found.feasible:  # Algorithm 1's else-branch; xi = max mu(x_i) never comes here
            best = context.incumbent_row
            return sampled[best], best, False
        row = self.policy.settle(context, found.value)
        if row is not None:
            return sampled[row], row, False
        if found.row is None and self.policy.merge:
            row = same_point(score, context.gp, found.x, context.rows, context.remaining)
            if row is not None:
                return sampled[row], row, True
        return found.x, found.row, False

    def _explain(
        self, context: Context, fitted: _Fitted, x: Array, row: int | None, plain: Decision
    ) -> Decision:
        gp, unit = context.gp, fitted.scale
        mu, sigma = gp.posterior(x[None, :])
        xi, s = self.policy.xi(context), self.policy.omega(context) * float(sigma[0])
        z = (float(mu[0]) - xi) / s
        gain, loss = (float(v) for v in s * h(np.array([z, -z])))
        reason = "resample" if row is not None else "exploit" if z >= 0 else "explore"
        return replace(
            plain,
            reason=reason if plain.remaining > 0 else "exhausted",
            mean=self._user(float(mu[0]), fitted),
            sd=gp.omega * float(sigma[0]) * unit,
            incumbent=self._user(xi, fitted),
            expected_improvement=gain * unit,
            expected_loss=loss * unit,
            evaluation_cost=loss * unit / context.remaining,
            gate=self.policy.threshold(context),
            z=z,
            tried=self._tally.get(x.tobytes(), _Tally()).results,
            noise_sd=gp.noise_sd * unit,
            fit_ok=fitted.ok,
            jitter=gp.factor.jitter,
        )

    def _draw(self, rng: np.random.Generator) -> Array:
        return np.asarray(self.space.spread(rng.random((1, self.space.dim)))[0])

    # -- small things ------------------------------------------------------------------------------

    def _user(self, value: float, fitted: _Fitted) -> float:
        return self._sign * (value * fitted.scale + fitted.shift)

    def _record(self, trial: Trial | int) -> _Record:
        number = trial.number if isinstance(trial, Trial) else trial
        if isinstance(number, bool) or not isinstance(number, Integral):
            raise UnknownTrialError(f"trial: need a Trial or its number, got {trial!r}")
        if not 0 <= number < len(self._records):
            raise UnknownTrialError(f"trial {number} was never asked ({len(self._records)} were)")
        record = self._records[int(number)]
        if isinstance(trial, Trial) and trial.params != record.trial.params:
            asked = f"{record.trial.params}, not {trial.params}"
            raise UnknownTrialError(f"trial {number} is of another optimiser: here it was {asked}")
        return record

    def _start_points(self) -> Array:
        if not isinstance(self._design_name, str):
            points = [self.space.encode(p) for p in self._design_name]
            return np.array(points).reshape(len(points), self.space.dim)
        if self._design_name == "grid":
            levels = (
                designs.budget_levels(self.budget, self.space.dim)
                if self._n0 is None
                else designs.grid_levels(self._n0, self.space.dim)
            )
            return designs.grid(self.space, levels)
        count = self._n0 or _default_start(self.budget, self.space.dim)
        if self._design_name == "sobol":
            return designs.sobol(self.space, count, self.seed)
        if self._design_name == "lhs":
            return designs.latin_hypercube(self.space, count, self.seed)
        names = ", ".join(_DESIGNS)
        raise ConfigError(f"design: need {names} or a list of points, got {self._design_name!r}")

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


def _default_start(budget: int, dim: int) -> int:
    """O(sqrt N) as in eq. initdesign, enough to see every dimension, and at most a quarter of N.

    Two or three points a dimension alone are too few where length-scales are short and the budget
    would have paid for more.
    """
    return max(1, min(max(2 * dim + 2, math.ceil(math.sqrt(budget))), budget // 4))


def _whole(name: str, value: object, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral):
        raise ConfigError(f"{name}: need a whole number, got {value!r}")
    if value < least:
        raise ConfigError(f"{name}: need at least {least}, got {value!r}")
    return int(value)


def _checked_result(value: object, sem: object, count: object) -> tuple[float, float | None, float]:
    number = _finite("value", value)
    error = None if sem is None else _finite("sem", sem)
    if error is not None and not error >= _LEAST_SCALE:
        raise DataError(f"sem: need a positive standard error, got {sem!r}")
    weight = _finite("count", count)
    if not weight > 0:
        raise DataError(f"count: need a positive number of evaluations, got {count!r}")
    return number, error, weight


def _finite(name: str, value: object) -> float:
    if isinstance(value, np.ndarray | np.generic) and value.ndim == 0:
        value = value.item()
    if not isinstance(value, Real):
        raise DataError(f"{name}: need a number, got {value!r}")
    try:
        number = float(value)
    except OverflowError:  # an integer that no double can hold
        number = math.inf
    if not abs(number) <= _LARGEST:
        limit = f"of at most {_LARGEST:g}" if math.isfinite(number) else "that is finite"
        raise DataError(f"{name}: need a number {limit}, got {value!r}")
    return number
