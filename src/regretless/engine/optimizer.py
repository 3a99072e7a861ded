"""The optimiser.  It keeps the state of a run, and does no input or output.

Every verb makes an event and applies it to the state.  If the same events are applied again, the
state and the next suggestion are the same, bit for bit.  Only `ask` fits the model.  It stores the
fit in its event, so a replay does not fit again.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from typing import Any, Literal, NamedTuple, TypeVar, overload

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.frames import dataframe_of
from regretless._internal.locks import WithLock, in_turn
from regretless._internal.shown import shown
from regretless._internal.validate import (
    LEAST_SCALE,
    check_name,
    is_iterable,
    is_one_of,
    whole,
)
from regretless.defaults import Noise, defaults_of
from regretless.design import Start, checked_design, checked_n0, farthest
from regretless.engine import saved
from regretless.engine.allocation import Split, next_table
from regretless.engine.crowd import OLDEST, OUTDATING, Crowd
from regretless.engine.events import (
    Abandoned,
    Allocated,
    Approved,
    Asked,
    Baseline,
    Changed,
    Created,
    Ended,
    Event,
    Extended,
    Jumped,
    Observed,
    Outcome,
    Reconsidered,
    Rejected,
    Reported,
    Retracted,
    Told,
    Unobserved,
    outcomes_of,
    settings_version,
)
from regretless.engine.guards import Guards
from regretless.engine.known import Known
from regretless.engine.loss import LossLimit, least_sd
from regretless.engine.records import NOWHERE, Circumstances, Record, Records, Reference, joined
from regretless.engine.situation import STEP_LIMIT, Situation, draw
from regretless.engine.steps import reach
from regretless.engine.traffic import (
    BASELINE,
    Pool,
    Table,
    Totals,
    evidence_against,
    increment_of,
    is_worse,
)
from regretless.engine.watch import Watch, surprise_of, warn_of
from regretless.errors import ConfigError, RegretlessError, StorageError, TrialError
from regretless.horizon import MAX_WHOLE, Horizon
from regretless.kernels import Kernel
from regretless.model import (
    Belief,
    Control,
    Drift,
    Fading,
    Model,
    Observation,
    checked_model,
    likeness,
)
from regretless.policies import EIC, POLICIES, Constraint, Policy, make_policy, stored_policy
from regretless.results import (
    Allocation,
    Arm,
    Best,
    Decision,
    Landscape,
    NoiseRange,
    PeriodEffect,
    Row,
    Trial,
    axis_label,
    number_of,
)
from regretless.safety import CONTROL, OBJECTIVE, Guardrail, Measured, Mode, Safety, Step
from regretless.search import Box, Slice, constraints_of
from regretless.space import Contexts, Parameter, Scalar, Space
from regretless.theory import noise_ratio, omega_scale

Direction = Literal["maximize", "minimize"]
T = TypeVar("T")


class _Proposal(NamedTuple):
    """The next point, the reason for it, and the beliefs that it follows from."""

    belief: Belief
    guards: Guards
    x: Array
    decision: Decision
    situation: Situation | None = None  # what it was weighed in; None for a point of the start


_BLIND_DRAWS = 64  # from which the first is taken at which all guardrails hold
_SEEN = 256  # so many contexts, those seen last, stand for those to come
_MANY = 64  # followers, for which a search is made if one of them would have one
_MOST_DRAWS = 1000  # until one is not near a rejected point


class Optimizer(WithLock):
    """Chooses the next point to evaluate, so that the sum of all losses stays small.

    Threads may share an optimiser; their calls run one after the other.  Processes share a `Study`.

    Args:
        space: the search space.
        budget: how many evaluations will be asked for, the initial design included.  None if the
            run has no end; it then needs a `horizon`.
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
            least as many evaluations are left.  It counts at most 12 parameters.  If the space has
            limits, and only numbers without conditions, it takes three points around the middle
            of what the limits allow.
            "sobol" and "lhs" take the larger of sqrt(budget) and 2d + 2.  These three take at most
            a quarter of the budget.
            "grid" takes M^d points, M near budget^(1 / (2d)).
        model: a `Model`; None for the default, and `Model.paper()` for the paper's setting.
        noise: "auto" to find out where results scatter more, or "constant"; see `Model`.  None for
            what the model says.
        defaults: the version of the library's defaults; None for the newest.  A run that was
            created with an older version keeps that version.  3 is a candidate.
        baseline: the setting that runs today.
        loss_budget: the most that the run may lose in all against the baseline, in the units of
            the results.
        confidence: the probability with which the loss budget holds.
        guardrails: limits on metrics that are told beside the objective: `AtMost`, `AtLeast`.
        max_step: for each parameter, the largest change from the setting that runs: a share of its
            range, or {"by": an absolute change}.
        change_cost: what a change of the setting costs, in the units of the results.
        sparse_changes: whether to change as few parameters of the baseline as possible.
        free_start: whether the points of the start may break guardrails.
        mode: "automatic", or "recommend" if a person approves each trial; see `approve`.
        optimum: the best value that f can take, if it is known.  The run stops exploring when
            nothing more can be gained.  If results are clearly better, there is a warning, and the
            number is no longer used.
        bound: a value that f can't exceed (or fall below, for "minimize"), if the optimum itself is
            not known.  It is used like `optimum`, as far as a bound can be.
        horizon: how many evaluations the run looks ahead: a gain has to pay for itself within so
            many.  None for all that remain of the budget.
        drift: None if the system stays the same; "auto" if it may change; or a `Drift`.  Older
            results then count less, and sudden changes are noticed.
        contexts: what the environment decides and the run only sees, such as the hour of the day:
            `{"hour": rl.Cyclic(0, 24)}`.  Each `ask` then needs its `context`.
        metric: what the results measure, such as "p99 latency".  It is only shown.
        unit: the unit of the results, such as "ms".  It is only shown.

    Raises:
        ConfigError: a setting is not valid.
        SpaceError: a point of the design or the baseline is not in the space.

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

    _gain_share = 1.0  # in how many evaluations a gain counts for each later one, see `Horizon`
    _is_simulated = False  # whether its results are made up, see `forecast`: it warns of no jump

    def __init__(
        self,
        space: Space,
        budget: int | None = None,
        *,
        seed: int = 0,
        policy: str | Policy = "ids",
        direction: Direction = "maximize",
        design: str | Sequence[Mapping[str, Scalar]] = "auto",
        n0: int | None = None,
        model: Model | None = None,
        noise: Noise | None = None,
        defaults: int | None = None,
        baseline: Mapping[str, Scalar] | None = None,
        loss_budget: float | None = None,
        confidence: float | None = None,
        guardrails: Sequence[Guardrail] | None = None,
        max_step: Mapping[str, Step] | None = None,
        change_cost: float | None = None,
        sparse_changes: bool | None = None,
        free_start: bool | None = None,
        mode: Mode | None = None,
        optimum: float | None = None,
        bound: float | None = None,
        horizon: int | None = None,
        drift: str | Drift | None = None,
        contexts: Mapping[str, Parameter] | None = None,
        metric: str | None = None,
        unit: str | None = None,
    ) -> None:
        if not isinstance(space, Space):
            raise ConfigError(f"space: need a Space, got {shown(space)}")
        self.space = self._first_space = space
        self._contexts = None if contexts is None else Contexts(contexts)
        # With the columns of the contexts, which are the last ones.
        self._whole = space if self._contexts is None else self._contexts.beside(space)
        given = Horizon.checked(budget, horizon)
        self.seed = whole("seed", seed, least=0, most=MAX_WHOLE)
        self.policy = make_policy(policy)
        if not is_one_of(direction, ("maximize", "minimize")):
            raise ConfigError(f"direction: need 'maximize' or 'minimize', got {shown(direction)}")
        self.direction = direction
        self.defaults = defaults_of(defaults)
        rules = self.defaults.model if loss_budget is None else self.defaults.loss.model
        model = Model.default(rules) if model is None else model
        model = checked_model(self._whole.columns, model, self.defaults.fit)
        self.model = model if noise is None else replace(model, noise=noise)
        self._first_model = self.model  # a table may change it, see `_begin_tables`
        self.safety = Safety.checked(
            space,
            {
                "baseline": baseline,
                "loss_budget": loss_budget,
                "confidence": confidence,
                "guardrails": guardrails,
                "max_step": max_step,
                "change_cost": change_cost,
                "sparse_changes": sparse_changes,
                "free_start": free_start,
                "mode": mode,
            },
        )
        if self._is_limited or self.safety.max_step:
            self.defaults = self.defaults._replace(tail=self.defaults.tail_near_baseline)
        if self.safety.loss_budget is not None:
            fit = self.defaults.loss.applied_to(self.defaults.fit)
            self.defaults = self.defaults._replace(fit=fit)
        self._known = Known.of(optimum, bound)
        for what, name in (("metric", metric), ("unit", unit)):
            if name is not None:
                check_name(what, name)
        self.metric, self.unit = metric, unit
        self.drift = Drift.checked(drift)
        if self.drift is not None and self.model.noise != "constant":
            raise ConfigError("drift: not together with noise='auto'; leave one of the two out")
        if self._contexts is not None:
            self._check_combination()
        n0 = None if n0 is None else checked_n0(n0)
        points = checked_design(space, design)
        self._start = Start(space, given, points, n0, self.seed, self.defaults.start)
        self._first_design = points
        self._sign = 1.0 if direction == "maximize" else -1.0
        check = partial(checked_model, model=self.model, rules=self.defaults.fit)
        self._records = Records(
            space,
            given,
            self.policy.name,
            check,
            self.safety.baseline,
            self.safety.mode,
            self._contexts,
        )
        self._log: list[Event] = []
        self._places: dict[int, int] = {}  # where the history has the reported results of a trial
        self._unlearnt = False  # whether results were reported that the belief does not have
        self._now: datetime | None = None  # the time of the last table, or of the next one
        self._held: Belief
        self._belief = Belief.empty(self.model, self._whole.columns, self.defaults, self.drift)
        self._watch = Watch.of(self.drift, self.defaults)
        self._guards = Guards.empty(self.safety, self._whole, self.defaults)
        # The last proposal, and the beliefs after it is applied.
        self._proposed: tuple[Asked | None, Belief, Guards] = (None, self._belief, self._guards)
        self._said: list[str] = []  # warnings that were given; shared by copies
        self._lock = threading.RLock()

    def _check_combination(self) -> None:
        """Raise ConfigError for settings that have no meaning if the best point varies."""
        if self._known is not None and self._known.exact:
            raise ConfigError(
                "optimum: with contexts each one has its own best value; give a `bound` instead"
            )
        if self.drift is not None:
            raise ConfigError("drift: not together with contexts yet; leave one of the two out")
        if self.model.noise != "constant":
            raise ConfigError(
                "noise: with contexts it must be 'constant'; leave one of the two out"
            )
        if self.safety.change_cost:
            raise ConfigError(
                "change_cost: with contexts the best setting changes with them; leave it out, or"
                " limit the steps by `max_step`"
            )

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
        """The optimiser of Theorem 1 in the paper; `theory.regret_bound` has its guarantee.

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
    def ask(self, *, context: Circumstances | None = None) -> Trial: ...
    @overload
    def ask(self, n: int, *, context: Circumstances | None = None) -> list[Trial]: ...
    def ask(
        self, n: int | None = None, *, context: Circumstances | None = None
    ) -> Trial | list[Trial]:
        """Choose the next trial, or a list of `n` trials; see `AskTell.ask`.

        After the budget is spent, it returns the best point, with the reason "exhausted".  With
        `mode="recommend"` the trial is only proposed; see `approve`.
        """
        if n is not None:
            return [self.ask(context=context) for _ in range(whole("n", n, least=1))]
        with self._lock:
            self._note_jump()
            self.apply(self.propose(context))
            return self._records.trials[-1].trial

    @in_turn
    def tell(
        self,
        trial: Trial | int,
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        control: Measured | None = None,
        context: Circumstances | None = None,
    ) -> None:
        """Take the result of a trial; see `AskTell.tell`.

        Telling the same value again changes nothing.  Telling another value raises TrialError; see
        `retract`.
        """
        outcomes = outcomes_of(value, sem, count, metrics, control)
        self._apply_any(self._records.telling(trial, outcomes, time, context=context))
        self._note_jump()

    @in_turn
    def observe(
        self,
        params: Mapping[str, Scalar],
        value: float | None,
        *,
        sem: float | None = None,
        count: float = 1,
        time: datetime | None = None,
        metrics: Mapping[str, Measured] | None = None,
        context: Circumstances | None = None,
    ) -> None:
        """Take a result from before the run, which uses no budget; see `AskTell.observe`."""
        outcomes = outcomes_of(value, sem, count, metrics)
        self.apply(self._records.observing(params, outcomes, time, context))

    @in_turn
    def adopt(
        self,
        params: Mapping[str, Scalar],
        decision: Decision | None = None,
        *,
        context: Circumstances | None = None,
    ) -> Trial:
        """Make a trial of a point that somebody else chose; see `AskTell.adopt`.

        It uses budget, and counts as pending until its result is told.  `decision` is why the point
        was chosen; None gives it the reason "given".
        """
        self.apply(self._records.adopting(params, decision, context))
        return self._records.trials[-1].trial

    @in_turn
    def abandon(self, trial: Trial | int) -> None:
        """Stop waiting for the result of a trial; see `AskTell.abandon`."""
        self._apply_any(self._records.abandoning(trial))

    @in_turn
    def extend(self, budget: int | None = None, *, horizon: int | None = None) -> None:
        """Set a new total budget, or a horizon for a run without an end; see `AskTell.extend`."""
        self._apply_any(self._records.extending(budget, horizon))

    @in_turn
    def set_baseline(self, params: Mapping[str, Scalar]) -> None:
        """Declare or change the baseline; see `AskTell.set_baseline`."""
        self._apply_any(self._records.rebasing(params))

    @in_turn
    def approve(self, trial: Trial | int, why: str | None = None) -> None:
        """Allow a proposed trial to be tried; see `AskTell.approve`."""
        self._apply_any(self._records.approving(trial, why))

    @in_turn
    def reject(self, trial: Trial | int, why: str) -> None:
        """Refuse a proposed trial; see `AskTell.reject`."""
        self._apply_any(self._records.rejecting(trial, why))

    @in_turn
    def reconsider(self, trial: Trial | int, why: str | None = None) -> None:
        """End the reason for which a trial was rejected; see `AskTell.reconsider`."""
        self._apply_any(self._records.reconsidering(trial, why))

    @in_turn
    def retract(self, trial: Trial | int, why: str | None = None) -> None:
        """Take a wrong result back; see `AskTell.retract`."""
        self._apply_any(self._records.retracting(trial, why))

    @in_turn
    def retract_observation(self, index: int, why: str | None = None) -> None:
        """Take a wrong result from before the run back; see `AskTell.retract_observation`."""
        self._apply_any(self._records.unobserving(index, why))

    @in_turn
    def report(
        self,
        trial: Trial | int,
        *,
        count: float = 1,
        sum: float | None = None,
        sum_squares: float | None = None,
        value: float | None = None,
        sem: float | None = None,
        time: datetime | None = None,
    ) -> None:
        """Add results to the totals of a trial; see `AskTell.report`."""
        numbers = {"sum": sum, "sum_squares": sum_squares, "value": value, "sem": sem}
        increment = increment_of(number_of(trial), count=count, **numbers)
        self._records.find(trial)
        self.apply(self._records.reporting((increment,), time))
        self._end_rows()

    def allocate(
        self,
        arms: int = 8,
        *,
        ttl: float = 600.0,
        delay: float = 0.0,
        end_early: float = 0.05,
        time: datetime | None = None,
    ) -> Allocation:
        """Split the traffic by a new table of settings, and return the table; see `Study.allocate`.

        Args:
            arms: the largest number of rows.  Each table uses so many evaluations of the budget.
            ttl: for how many seconds the table is valid.
            delay: how many seconds after its table a trial may still get most of its results.  It
                is not judged before.
            end_early: the largest probability with which a row is ended although it is as good as
                the main row; 0 to end none.
            time: when the table begins; None for now.

        Raises:
            ConfigError: a setting is out of range, or the run has settings that do not go with it.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"price": rl.Float(1.0, 9.0)})
            >>> optimizer = rl.Optimizer(space, budget=80, baseline={"price": 5.0})
            >>> table = optimizer.allocate(arms=4)
            >>> [arm.role for arm in table.rows]
            ['baseline', 'explore', 'explore', 'explore']
            >>> optimizer.report(table.rows[0].trial, count=500, sum=40.0, sum_squares=40.0)
        """
        given = Split.checked(arms, ttl, delay, end_early)
        with self._lock:
            self.apply(self.propose_table(given, time or datetime.now(UTC)))
            table = self.allocation
            assert table is not None
            return table

    @property
    @in_turn
    def allocation(self) -> Allocation | None:
        """How the traffic is split now; None if `allocate` was never called."""
        table, records = self._records.table, self._records
        if table is None:
            return None
        rows = [
            Arm(each.row, records.trials[each.trial].again(), each.role, each.share, each.slots)
            for each in table.rows
        ]
        return Allocation(table.version, table.time, table.ttl, rows, self.baseline)

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
                a range does not hold the old one; no point would keep the limits; or the baseline
                would not be in the new space, so that another one has to be set first.
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
    def baseline(self) -> dict[str, Scalar] | None:
        """The setting that runs today, after the last `set_baseline`; None if it is not known."""
        now = self._records.baseline
        return None if now is None else dict(now.params)

    @property
    def contexts(self) -> dict[str, Parameter] | None:
        """How the contexts are declared, by name; None if the run has none."""
        return None if self._contexts is None else dict(self._contexts.parameters)

    @property
    def budget(self) -> int | None:
        """The total number of evaluations, after the last `extend`; None if there is no end."""
        return self._records.given.budget

    @property
    def horizon(self) -> int | None:
        """How many evaluations the run looks ahead at most; None for the whole budget."""
        return self._records.given.ahead

    @property
    def asked(self) -> int:
        """The number of trials that were asked for or adopted, without those that were rejected."""
        return self._records.used

    @property
    def remaining(self) -> int:
        """The number of evaluations that may still be asked for; the horizon if there is no end."""
        return self._records.remaining

    @property
    def trials(self) -> list[Trial]:
        """All trials, by number."""
        return [record.again() for record in self._records.trials]

    @property
    def pending(self) -> list[Trial]:
        """The trials that were neither told nor abandoned; see also `proposed`."""
        return [record.again() for record in list(self._records.waiting.values())]

    @property
    def proposed(self) -> list[Trial]:
        """The trials that wait to be approved or rejected."""
        return [record.again() for record in list(self._records.proposed.values())]

    @property
    def known(self) -> Known | None:
        """The optimum or the bound that was given, with `value` and `exact`; None if none was."""
        return self._known

    @property
    def jumps(self) -> list[Jumped]:
        """The sudden changes that were noticed; see `Drift`.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"x": rl.Categorical(["a", "b"])})
            >>> optimizer = rl.Optimizer(space, horizon=50, drift="auto")
            >>> import warnings
            >>> with warnings.catch_warnings():
            ...     warnings.simplefilter("ignore")  # the change is also said in a warning
            ...     for i in range(60):
            ...         trial = optimizer.adopt({"x": "a"})
            ...         optimizer.tell(trial, (i % 5) + (10.0 if i >= 40 else 0.0))
            >>> optimizer.jumps
            [Jumped(number=40, noticed=41)]
        """
        return [] if self._watch is None else list(self._watch.noted)

    @property
    def fading(self) -> Fading | None:
        """How fast results fade, by the last fit; None without a `drift`."""
        fitted = self._belief.fitted
        return None if fitted is None else fitted.fading

    @property
    def observations(self) -> int:
        """The number of results, those from `observe` included."""
        return len(self._belief.told)

    @in_turn
    @one_thread()
    def best(self, *, context: Circumstances | None = None) -> Best:
        """The best visited point at which all guardrails hold; see `AskTell.best`."""
        if self._contexts is not None:
            return self._best_in(context)
        self._records.checked_context(context)
        situation = self._situation()
        belief = situation.belief
        points, (mu, sigma) = situation.visited
        row, allowed = situation.recommended
        x, mean = points[row], float(situation.user(mu[row]))
        half = 1.96 * float(situation.user_sd(mu[row], sigma[row]))
        known = None if situation.contradicted else self._known
        if situation.level_sd:
            half = float(np.hypot(half, 1.96 * situation.level_sd))
        return Best(
            params=self._records.params_at(x),
            mean=mean,
            low=mean - half,
            high=mean + half,
            count=belief.times_told(x),
            sample_mean=self._sign * belief.sample_mean(x) if belief.times_told(x) else mean,
            luckiest=self._sign * belief.luckiest,
            holds=situation.guards.holds(x),
            allowed=allowed,
            **self._gain_at(situation, x),
            regret=None if known is None else max(0.0, self._sign * (known.value - mean)),
        )

    def _best_in(self, context: Circumstances | None) -> Best:
        """The best visited setting in a context; on average over those seen, if it is None.

        The average of f over contexts is linear in f, so its posterior is one Gaussian.
        """
        here = None if context is None else self._records.checked_context(context)
        situation = self._situation(at=None if here is None else self._records.place(here))
        belief, posterior, dim = situation.belief, situation.posterior, self.space.dim
        if here is None:
            places, shares = self._usual_contexts()
        else:
            places, shares = self._records.place(here)[None, :], np.ones(1)
        settings = np.unique(situation.visited[0][:, :dim], axis=0)
        every = _in_each(settings, places)
        means = situation.user(posterior.predict(every)[0]).reshape(-1, len(places)) @ shares
        allowed = situation.guards.allow(every).reshape(means.shape[0], -1).all(axis=1)
        score = self._sign * means
        if not allowed.any():
            score = situation.guards.likely(every).reshape(len(means), -1).sum(axis=1)
        row = int(np.argmax(np.where(allowed, score, -np.inf) if allowed.any() else score))
        x, baseline = settings[row], self._records.baseline
        if not allowed.any() and baseline is not None and (settings == baseline.x).all(1).any():
            row, x = int(np.flatnonzero((settings == baseline.x).all(1))[0]), baseline.x
        mean, sd = self._average(situation, x[None, :], np.ones(1), places, shares)
        known = None if situation.contradicted else self._known
        return Best(
            params=self._records.params_at(x),
            mean=mean,
            low=mean - 1.96 * sd,
            high=mean + 1.96 * sd,
            count=belief.times_told(x),
            sample_mean=self._sign * belief.sample_mean(x),
            luckiest=self._sign * belief.luckiest,
            holds=None if here is None else situation.guards.holds(joined(x, places[0])),
            allowed=bool(allowed.any()),
            **self._gain_in(situation, x, places, shares),
            regret=None if known is None else max(0.0, self._sign * (known.value - mean)),
            context=here,
        )

    def _usual_contexts(self) -> tuple[Array, Array]:
        """The contexts that were seen last, without repeats, and the share of each."""
        seen = self._records.seen()[-_SEEN:]
        places, counts = np.unique(seen, axis=0, return_counts=True)
        return places, counts / counts.sum()

    def _average(
        self, situation: Situation, settings: Array, weights: Array, places: Array, shares: Array
    ) -> tuple[float, float]:
        """The mean and the sd of a weighted sum of settings, on average over contexts."""
        points = _in_each(settings, places)
        each = np.outer(weights, shares).ravel()
        mu, sigma = situation.posterior.predict(points)
        rates = situation.user_sd(mu, np.ones_like(sigma)) * each
        variance = float(rates @ situation.posterior.covariance(points) @ rates)
        return float(situation.user(mu) @ each), max(variance, 0.0) ** 0.5

    def _gain_in(
        self, situation: Situation, x: Array, places: Array, shares: Array
    ) -> dict[str, Any]:
        """What f at x is better by than at the baseline, on average over contexts."""
        baseline = self._records.baseline
        if baseline is None:
            return {}
        if (x == baseline.x).all():
            return _gain(0.0, 0.0)
        both = np.array([x, baseline.x])
        gain, sd = self._average(situation, both, np.array([1.0, -1.0]), places, shares)
        return _gain(self._sign * gain, sd)

    def _gain_at(self, situation: Situation, x: Array) -> dict[str, Any]:
        """What f at x is better by than at the baseline, by the joint posterior of both."""
        baseline = self._records.baseline
        if baseline is None:
            return {}
        if (x == baseline.x).all():
            return _gain(0.0, 0.0)
        both = np.array([x, baseline.x])
        mu = situation.posterior.predict(both)[0]
        rates = situation.user_sd(mu, np.ones(2)) * np.array([1.0, -1.0])
        variance = float(rates @ situation.posterior.covariance(both) @ rates)
        gain = float(self._sign * -np.diff(situation.user(mu))[0])
        return _gain(gain, max(variance, 0.0) ** 0.5)

    @in_turn
    @one_thread()
    def periods(self) -> PeriodEffect | None:
        """How much periods differ, and what the controls saved; None if there is no control.

        Example:
            >>> import regretless as rl
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
            >>> for trial, period in zip(optimizer, [5.0, -5.0, 2.0]):
            ...     optimizer.tell(trial, trial.params["x"] + period, control=(0.5 + period, 0.1))
            >>> optimizer.periods().effect_sd > 2.0
            True
        """
        if not self._belief.controls:
            return None
        return self._situation().period_effect

    @in_turn
    @one_thread()
    def noise_range(self) -> NoiseRange | None:
        """Where results scatter least and most; see `noise`.

        None if the noise counts as constant, or as long as the results don't show that it differs
        by a factor of two.

        Example:
            >>> import regretless as rl
            >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
            >>> optimizer = rl.Optimizer(space, budget=9, noise="auto")
            >>> for k in range(18):
            ...     x = (k % 6) / 5
            ...     optimizer.observe({"x": x}, (-1) ** (k // 6) * x**2, sem=0.01 + x**2)
            >>> optimizer.noise_range().most.params["x"] > 0.8
            True
        """
        if self.model.noise == "constant" or not self._belief.told:
            return None
        return self._situation().noise_range

    @in_turn
    @one_thread()
    def predict(
        self, params: Mapping[str, Scalar], *, context: Circumstances | None = None
    ) -> tuple[float, float]:
        """The posterior mean and sd of f at a point, in the user's units.

        Args:
            params: a value for each parameter.
            context: a value for each context, if the run has contexts; None for the average of f
                over the contexts that were seen.

        Raises:
            NoResultsError: no result was told yet.
            SpaceError: the parameters are not in the space, or the context is not valid.
        """
        x = self.space.encode(params)
        if self._contexts is not None and context is None:
            places, shares = self._usual_contexts()
            return self._average(self._situation(), x[None, :], np.ones(1), places, shares)
        at = self._records.place(self._records.checked_context(context))
        mean, sd = self._situation().predict(joined(x, at)[None, :])
        return float(mean[0]), float(sd[0])

    @in_turn
    @one_thread()
    def landscape(
        self, points: Sequence[Mapping[str, Scalar]], *, context: Circumstances | None = None
    ) -> Landscape:
        """The numbers that the policy would compare at these points now, with the last fit.

        Args:
            points: the points, in your units.
            context: a value for each context, if the run has contexts; None for the context that
                was seen last.

        Raises:
            ConfigError: `points` is not a list of points, or the run has no contexts.
            SpaceError: a point is not in the space, or the context is not valid.
            NoResultsError: no result was told yet.
        """
        at = self._last_place()
        if context is not None or self._contexts is None:
            at = self._records.place(self._records.checked_context(context))
        situation = self._situation(at=at)
        if isinstance(points, Mapping) or not is_iterable(points):
            raise ConfigError(f"points: need a list of points, got {shown(points)}")
        rows = [joined(self.space.encode(p), at) for p in points]
        return situation.landscape(np.array(rows).reshape(len(rows), self._whole.dim))

    def _last_place(self) -> Array:
        """The coordinates of the context that was seen last; empty if the run has none."""
        if self._contexts is None:
            return NOWHERE
        seen = self._records.seen()
        return np.asarray(seen[-1]) if len(seen) else np.full(len(self._contexts.names), 0.5)

    @in_turn
    def history(self) -> list[Row]:
        """The prior data and the trials, in order."""
        return self._records.history()

    def to_dataframe(self) -> Any:
        """The history as a pandas DataFrame: a row for each trial and each result from before.

        Raises:
            MissingExtraError: pandas is not installed.
        """
        return dataframe_of(self.history())

    @in_turn
    def copy(self) -> Optimizer:
        """An optimiser with the same state.  A change of one does not change the other."""
        twin = object.__new__(type(self))
        twin.__setstate__(self.__getstate__())
        twin._records, twin._log = self._records.copy(), self._log.copy()
        twin._watch = None if self._watch is None else self._watch.copy()
        twin._places = self._places.copy()
        return twin

    @in_turn
    def as_of(self, trial: Trial | int) -> Optimizer:
        """The optimiser as it was when it chose a trial, with the fit that the choice is based on.

        Its `landscape` has the numbers that the policy compared then.

        Args:
            trial: the trial, or its number.

        Raises:
            UnknownTrialError: there is no such trial.

        Example:
            >>> import regretless as rl
            >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=9)
            >>> for trial in optimizer:
            ...     optimizer.tell(trial, -((trial.params["x"] - 0.3) ** 2))
            >>> optimizer.as_of(7).remaining
            2
        """
        number = self._records.find(trial).trial.number
        twin = type(self).from_spec(self.spec(), policy=self.policy, space=self._first_space)
        for event in self._log:
            asked = event.asked if isinstance(event, Allocated) else (event,)
            for each in asked:
                if isinstance(each, Asked) and each.number == number:
                    twin._belief, twin._guards = twin._with_fits_of(each)
                    return twin
            twin.apply(event)
        return twin

    __copy__ = copy  # not by fields: the two would share their lists

    # -- results that are reported -----------------------------------------------------------------

    @property
    def _belief(self) -> Belief:
        """What is known, with all results that were reported."""
        if self._unlearnt:
            self._unlearnt = False
            self._held = self._with_reports(self._held)
        return self._held

    @_belief.setter
    def _belief(self, belief: Belief) -> None:
        self._held = belief

    def _with_reports(self, belief: Belief) -> Belief:
        """The belief with the totals of all trials as they are now.

        A trial is learnt when its first results count, and its place among the results stays.
        """
        pool, changed = Pool.of(self._records.totals.values()), {}
        for number, totals in self._records.totals.items():
            if totals.count <= 0.0 or not self._counts(number):
                continue
            told = self._reported(number, totals, pool)
            if number in self._places:
                changed[self._places[number]] = told
            else:
                self._places[number] = len(belief.told)
                belief = belief.learn(told)
        return belief.relearnt(changed)

    def _counts(self, number: int) -> bool:
        """Whether the results of a trial can all be in."""
        now = self._now
        return number in self._places or now is None or self._records.is_mature(number, now)

    def _reported(self, number: int, totals: Totals, pool: Pool) -> Observation:
        """What the model learns from the totals of a trial."""
        record, rules = self._records.trials[number], self.defaults.traffic
        known, blind = pool.variance_of(totals, rules), record.trial.decision.reason == "design"
        weight, y = max(totals.count, LEAST_SCALE), self._sign * totals.mean
        period = None if known is None else self._records.table_of.get(number)
        return Observation(record.whole, y, weight, known, blind, period=period)

    @in_turn
    def ending(self) -> Ended | None:
        """The event of the next row to end early.  For studies; users do not need it."""
        table, totals = self._records.table, self._records.totals
        if table is None or not table.end_early or len(table.rows) < 2:
            return None
        main = table.main
        pool = Pool.of(totals[number] for number in table.trials if number in totals)
        for each in table.rows:
            known = each.trial in totals and main.trial in totals
            if each is main or each.role == BASELINE or not known:
                continue
            row, best = (_signed(totals[n], self._sign) for n in (each.trial, main.trial))
            if min(row.count, best.count) <= 0.0:
                continue
            evidence = evidence_against(row, best, pool, self.defaults.traffic)
            if is_worse(evidence, table.end_early):
                return Ended(each.trial, _ending(totals[each.trial], totals[main.trial], table))
        return None

    def _end_rows(self) -> None:
        while (event := self.ending()) is not None:
            self.apply(event)

    @in_turn
    @one_thread()
    def propose_table(self, given: Split, now: datetime) -> Allocated:
        """The event of the next table.  For studies; users do not need it."""
        return next_table(self, given, now)

    def _at(self, now: datetime) -> None:
        """Look at the results as of a time: those of some trials may be complete by then."""
        self._now = now
        self._unlearnt = bool(self._records.totals)

    def _asking_best(self) -> Asked:
        """The event of a trial of the best visited setting, with the fit if the model is fitted."""
        fresh = self._belief.refit_if_due()
        refitted = fresh.source is not self._belief.source
        plain = replace(self._plain_decision(), reason="resample", refitted=refitted)
        x, why = self._situation(fresh).best_visited(plain, self.defaults.traffic.caution)
        fit = fresh.source if refitted else None
        return self._records.asking(self._records.params_at(x), why, fit)

    def _on_reported(self, event: Reported) -> None:
        self._records.fold_reported(event)
        self._unlearnt = True

    def _begin_tables(self) -> None:
        """Use the model for results of tables from now on, if the user gave no model."""
        usual = self.defaults.model
        if self._records.tables or self.model != Model.default(usual):
            return
        self.model = Model.default(self.defaults.traffic.model(usual))
        self._belief = self._belief.with_model(self.model)
        self._proposed = (None, self._belief, self._guards)

    def _on_allocated(self, event: Allocated) -> None:
        self._begin_tables()
        self._at(event.table.time)
        for asked in event.asked:
            self._on_asked(asked)
        self._records.fold_allocated(event)
        self._unlearnt = bool(self._records.totals)

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
        """The optimiser that `to_json` wrote.

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
        safety = self.safety.to_json()
        known = {} if self._known is None else self._known.to_json()
        contexts = {} if self._contexts is None else {"contexts": self._contexts.to_json()}
        horizon = self._start.horizon.to_json()  # extensions are events
        if self.drift is not None:
            horizon["drift"] = self.drift.to_json()
        return {
            "version": settings_version({**safety, **known, **horizon, **contexts}),
            "space": self._first_space.to_json(),  # changes are events
            **horizon,
            "seed": self.seed,
            "policy": stored_policy(self.policy),
            "direction": self.direction,
            "design": self._first_design,
            "n0": self._start.n0,
            "model": self._first_model.to_json(),
            "defaults": self.defaults.version,
            **safety,
            **known,
            **contexts,
            **self._labels,
        }

    @property
    def _labels(self) -> dict[str, str]:
        """The name of the results and their unit, as far as they were given."""
        labels = {"metric": self.metric, "unit": self.unit}
        return {name: text for name, text in labels.items() if text is not None}

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
    def propose(self, context: Circumstances | None = None) -> Asked:
        """The event of the next ask, with the fit if the model is fitted; it is not applied yet.

        For studies and front ends; users do not need it.
        """
        here = self._records.checked_context(context)
        return self._asking(self._decide(self._records.place(here)), here)

    @in_turn
    @one_thread()
    def propose_batch(
        self, n: int, *, refit: bool = True, fit: dict[str, Any] | None = None
    ) -> list[Asked]:
        """The events of the next `n` asks; none of them is applied yet.

        It is for many who ask at the same time.  The first proposal is that of `propose`.  The
        others, its followers, are chosen among a list of points (see `Shortlist`), with all
        proposals before them as pending.  That takes a few milliseconds each.  Where a follower
        can't be chosen like this, it is found by a search, as in `ask`: in the start, with
        contexts, limits, small steps, costs of a change, frozen parameters or rejected trials, and
        with policies that do not search or are not the library's.

        For studies and front ends; users do not need it.

        Args:
            n: the number of proposals.
            refit: whether to fit the model if that is due.  Otherwise the last fit is used.
            fit: a fit that `fit_if_due` of a copy has returned meanwhile, to be used instead.
        """
        return self._propose_many(n, None, refit, fit)[0]

    @in_turn
    @one_thread()
    def propose_more(
        self, n: int, crowd: Crowd | None, fit: dict[str, Any] | None = None
    ) -> tuple[list[Asked], Crowd | None]:
        """The events of the next `n` asks, and what further ones can be chosen in.

        It is for many who ask all the time.  As long as a crowd can be kept up with what was told
        and asked since, all proposals are followers.  Each knows all results.  Otherwise there is a
        new leader, as in `propose_batch`; a fit that is due waits, see `fit_if_due`.

        Args:
            n: the number of proposals.
            crowd: what an earlier call, or `lead`, has returned; None if there is none.
            fit: see `propose_batch`.
        """
        return self._propose_many(n, crowd, False, fit)

    @in_turn
    @one_thread()
    def lead(self, fit: dict[str, Any] | None = None) -> Crowd | None:
        """Search for candidates, for `propose_more`, and return them.

        It returns None if there is nothing to search.  Call it on a copy, which need not be up to
        date when the search is over.

        Args:
            fit: what `fit_if_due` returned; None for the last fit.
        """
        if not (self._belief.told and self.has_followers):
            return None
        proposal = self._decide(NOWHERE, False, fit)
        self._belief = self._belief.with_posterior_of(proposal.belief)
        return self._crowd(proposal, _MANY, len(self._log))

    def _propose_many(
        self, n: int, crowd: Crowd | None, refit: bool, fit: dict[str, Any] | None
    ) -> tuple[list[Asked], Crowd | None]:
        self._records.checked_context(None)
        twin, events = self.copy(), list[Asked]()
        crowd = None if crowd is None else twin._kept_up(crowd, n)
        for left in range(whole("n", n, least=1), 0, -1):
            leads = crowd is None
            if crowd is None:
                proposal = twin._decide(NOWHERE, refit, fit)
                fit = None
            else:
                proposal, crowd = twin._follow(crowd)
            events.append(twin._asking(proposal, None))
            if len(events) == 1:
                self._proposed = twin._proposed
                self._belief = self._belief.with_posterior_of(proposal.belief)
            twin.apply(events[-1])
            if leads and (left > 1 or not refit):
                crowd = twin._crowd(proposal, max(left - 1, 1), len(self._log))
        return events, crowd

    @in_turn
    @one_thread()
    def fit_if_due(self) -> dict[str, Any] | None:
        """A new fit of the model, for `propose_batch`; None if none is due."""
        if not self._belief.told:
            return None
        fresh = self._belief.refit_if_due()
        if fresh.source is not self._belief.source:
            return fresh.source
        self._belief = fresh  # it has the posterior
        return None

    def _crowd(self, proposal: _Proposal, left: int, seen: int) -> Crowd | None:
        """What `left` followers of a proposal are chosen in; None if they need searches."""
        leader = proposal.situation
        if leader is None or not self.has_followers:
            return None
        if leader.revisit and not self._may_revisit(leader, left):
            leader = replace(leader, revisit=False)  # it has to search
        fits, told = (self._belief.source, proposal.belief.source), len(self._belief.told)
        shortlist = leader.shortlisted([*self._under_way, proposal.x])
        crowd = Crowd(leader, shortlist, told, seen, fits, fits[0] == fits[1])
        return self._with_pending(crowd)

    def _with_pending(self, crowd: Crowd) -> Crowd:
        """The crowd with the results and pending trials of now, which are all listed."""
        leader, shortlist = crowd.leader, crowd.shortlist
        new = self._belief.told.since(crowd.told)
        results = [leader.result(each, shortlist.known) for each in new]
        shortlist = shortlist.updated(results, self._under_way, leader.weigh)
        return replace(crowd, shortlist=shortlist, told=len(self._belief.told))

    def _kept_up(self, crowd: Crowd, n: int = 1) -> Crowd | None:
        """The crowd with the results and pending trials of now; None if it is outdated.

        `n` is the number of those who ask.
        """
        belief, pending = self._belief, self._under_way
        fixed = self.drift is None and not (belief.controls or self._records.totals)
        follows = belief.source == crowd.fit and belief.told.continues(crowd.leader.belief.told)
        if not (fixed and follows and self.has_followers):
            return None
        if any(isinstance(event, OUTDATING) for event in self._log[crowd.seen :]):
            return None
        if len(belief.told) - crowd.since > OLDEST * (len(pending) + n):
            return None
        if not crowd.shortlist.has([*pending, *(each.x for each in belief.told.since(crowd.told))]):
            points = [*pending, *(each.x for each in belief.told.since(crowd.since))]
            crowd = replace(crowd, shortlist=crowd.leader.shortlisted(points), told=crowd.since)
        return self._with_pending(crowd)

    @property
    def _under_way(self) -> tuple[Array, ...]:
        """The points whose results are not known yet."""
        waiting, proposed = self._records.waiting, self._records.proposed
        others = (*waiting.values(), *proposed.values(), *self._immature())
        return tuple(record.whole for record in others)

    @property
    def has_followers(self) -> bool:
        """Whether the followers of a batch are chosen without a search; see `propose_batch`."""
        safety, policy = self.safety, type(self.policy)
        own = POLICIES.get(self.policy.name) is policy and policy.shortcut is Policy.shortcut
        steps = safety.max_step or safety.change_cost or safety.sparse_changes
        free = not (self._is_limited or steps or self.space.frozen or self._contexts)
        return own and free and self._records.rejections is None

    def _follow(self, crowd: Crowd) -> tuple[_Proposal, Crowd]:
        """The next point, chosen without a search, and the crowd in which it is pending."""
        leader, belief = crowd.leader, self._belief
        if not crowd.is_stored:
            assert crowd.fits[1] is not None
            belief = belief.with_fit(crowd.fits[1])
        situation = replace(
            leader,
            belief=belief.beside(leader.posterior),
            waiting=self._under_way,
            horizon=self._horizon(leader.belief, NOWHERE),
            rng=np.random.default_rng([self.seed, len(self._records.trials)]),
            revisit=False,
            shortlist=crowd.shortlist,
        )
        if self._may_revisit(situation):
            situation = replace(situation, revisit=True)
        plain = replace(self._plain_decision(), refitted=not crowd.is_stored)
        x, decision = situation.decide(plain)
        decision = replace(decision, holds=self._guards.holds(x))
        weight = 1.0 if leader.weigh is None else leader.weigh(crowd.shortlist.posterior, x)
        shortlist = crowd.shortlist.expecting(x, weight)
        after = replace(crowd, shortlist=shortlist, is_stored=True)
        return _Proposal(belief, self._guards, x, decision), after

    def _asking(self, proposal: _Proposal, here: dict[str, Scalar] | None) -> Asked:
        """The event of a proposal, in a context."""
        belief, guards, x, decision, _ = proposal
        decision = self._with_note(decision, here)
        self._warn(decision)
        fit = belief.source if decision.refitted else None
        proposed = self.safety.mode == "recommend"
        others = guards.fits_since(self._guards)
        params = self._records.params_at(x[: self.space.dim])
        event = self._records.asking(params, decision, fit, proposed, others, here)
        self._proposed = (event, belief, guards)  # so that `apply` does not compute it again
        return event

    def _with_note(self, decision: Decision, context: Circumstances | None) -> Decision:
        """The decision, with a sentence if a value of the context was not declared."""
        if self._contexts is None or context is None:
            return decision
        names = self._contexts.undeclared(context)
        if not names:
            return decision
        each = ", ".join(f"{name} = {shown(context[name])}" for name in names)
        said = f"not declared as a context: {each}"
        return replace(
            decision, caution=said if decision.caution is None else f"{decision.caution}; {said}"
        )

    def _warn(self, decision: Decision) -> None:
        """Say once that the results contradict what the user knows."""
        if decision.contradicted and self._known is not None and not self._said:
            self._said.append("contradicted")
            name = "optimum" if self._known.exact else "bound"
            warnings.warn(
                f"results are clearly better than the {name} {self._known.value:g} that was given:"
                " it is no longer used",
                UserWarning,
                stacklevel=4,
            )

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
        proposed, believed, guards = self._proposed
        same = believed.told is self._belief.told and guards.told_as(self._guards)
        same = same and believed.jumps == self._belief.jumps
        # If it is the last proposal and the results are the same, its beliefs are known already.
        if event != proposed or not same:
            believed, guards = self._with_fits_of(event)
        self._records.fold_asked(event)
        self._belief, self._guards = believed, guards
        self._proposed = (None, believed, guards)

    def _with_fits_of(self, event: Asked) -> tuple[Belief, Guards]:
        """The beliefs, with the fits of an event."""
        believed, guards = self._belief, self._guards
        if event.fit is not None:
            believed = _with_fit(believed.with_fit, event.fit)
        if event.metric_fits:
            guards = _with_fit(guards.with_fits, event.metric_fits)
        return believed, guards

    def _on_told(self, event: Told) -> None:
        record, outcomes = self._records.fold_told(event)
        blind = record.trial.decision.reason == "design"
        baseline = self._records.baseline
        base = None if baseline is None else baseline.x
        self._learn(record.whole, outcomes, blind, base, number=event.number)

    def _on_observed(self, event: Observed) -> None:
        x, outcomes = self._records.fold_observed(event)
        self._learn(x, outcomes, number=-len(self._records.prior))

    def _on_retracted(self, event: Retracted | Unobserved) -> None:
        if isinstance(event, Retracted):
            self._records.fold_retracted(event)
        else:
            self._records.fold_unobserved(event)
        self._learn_anew(event)

    def _learn_anew(self, retracted: Retracted | Unobserved) -> None:
        """Learn the results that stand, in their order, without any fit.

        The fit has seen the wrong result.  The next ask fits the model anew, and stores the fit.
        """
        self._places, self._unlearnt = {}, False
        self._belief = Belief.empty(self.model, self._whole.columns, self.defaults, self.drift)
        self._guards = Guards.empty(self.safety, self._whole, self.defaults)
        watch = self._watch
        if watch is not None:
            if isinstance(retracted, Retracted):
                self._watch = watch.anew(retracted.number)
            else:
                self._watch = watch.anew(-1 - retracted.index)
        for index, told, baseline in self._standing(retracted):
            if isinstance(told, Told):
                record = self._records.trials[index]
                blind = record.trial.decision.reason == "design"
                self._learn(record.whole, told.outcomes, blind, baseline, number=index)
            else:
                x, at = self._records.prior_x[index], self._records.prior_at[index]
                self._learn(joined(x, at), told.outcomes, number=-1 - index)
        for place in () if self._watch is None else self._watch.places:
            self._belief = self._belief.jumped(place)
        self._unlearnt = bool(self._records.totals)

    def _on_changed(self, event: Changed) -> None:
        before = self.space.dim
        belief = self._belief  # learns what was reported, as points of the old space
        carry = self._records.fold_changed(event)
        self.space = self._records.space
        self._whole = self._records.beside(self.space)

        def carry_all(points: Array) -> Array:
            if self._contexts is None:
                return carry(points)
            return np.hstack([carry(points[:, :before]), points[:, before:]])

        self._belief = belief.carried(self._whole.columns, carry_all)
        self._guards = self._guards.carried(self._whole.columns, carry_all)
        self._watch = None if self._watch is None else self._watch.carried(carry_all)
        self._proposed = (None, self._belief, self._guards)
        start = self._start
        points = start.points if start.listed else None
        self._start = replace(start, space=self.space)
        if points is not None:  # the rest of a list that the user gave, as far as it is possible
            moved = self.space.repaired(self.space.canonical(carry(points)))
            self._start = replace(self._start, design=[self.space.decode(x) for x in moved])

    def _standing(
        self, retracted: Retracted | Unobserved
    ) -> Iterator[tuple[int, Told | Observed, Array | None]]:
        """The results that were not retracted, in their order, with the baselines of their time.

        Each has the number of its trial, or its index among the prior data.
        """
        standing: dict[tuple[str, int], tuple[Told | Observed, Array | None]] = {}
        baselines, observed = iter(self._records.baselines), 0
        baseline = None if self.safety.baseline is None else next(baselines).x
        for event in (*self._log, retracted):
            if isinstance(event, Baseline):
                baseline = next(baselines).x
            elif isinstance(event, Told):
                standing["trial", event.number] = event, baseline
            elif isinstance(event, Observed):
                standing["prior", observed] = event, baseline
                observed += 1
            elif isinstance(event, Retracted):
                standing.pop(("trial", event.number), None)  # reported results are not here
            elif isinstance(event, Unobserved):
                del standing["prior", event.index]
        return ((index, *told) for (_, index), told in standing.items())

    def _learn(
        self,
        x: Array,
        outcomes: Mapping[str, Outcome],
        blind: bool = False,
        baseline: Array | None = None,
        *,
        number: int,
    ) -> None:
        """Learn a result; `number` is that of its trial, or below 0, see `Watch`."""
        self._guards = self._guards.learn(x, outcomes)
        told = outcomes.get(OBJECTIVE)
        if told is None:
            return
        observation = self._observation(x, outcomes, blind, baseline)
        self._belief = self._belief.learn(observation)
        if self._watch is not None:
            surprise = None
            if number >= 0:
                decision = self._records.trials[number].trial.decision
                surprise = surprise_of(decision, told, self.defaults.drift)
            self._watch.look(number, observation, surprise)

    @in_turn
    def noticing(self) -> Jumped | None:
        """The event of a sudden change that the results show and that was not noted yet.

        For studies and front ends; users do not need it.
        """
        return None if self._watch is None else self._watch.pending

    def _note_jump(self) -> None:
        jump = self.noticing()
        if jump is not None:
            self.apply(jump)
            if not self._is_simulated:
                warn_of(jump)

    def _on_jumped(self, event: Jumped) -> None:
        if self._watch is None:
            raise StorageError("event 'jumped': the optimiser has no `drift`")
        self._belief = self._belief.jumped(self._watch.note(event))

    def _observation(
        self,
        x: Array,
        outcomes: Mapping[str, Outcome],
        blind: bool = False,
        baseline: Array | None = None,
    ) -> Observation:
        """What the model learns from the outcomes of a result, and from a control beside it."""
        told, beside = outcomes[OBJECTIVE], outcomes.get(CONTROL)
        weight, known = max(told.count, LEAST_SCALE), self.model.noise_sd
        if told.sem is not None:
            variance: float | None = told.sem**2
        else:
            variance = None if known is None else known**2 / weight
        control = None
        if beside is not None:
            error = None if beside.sem is None else beside.sem**2
            of = None if baseline is None else tuple(baseline.tolist())
            control = Control(self._sign * beside.value, error, of)
        return Observation(x, self._sign * told.value, weight, variance, blind, control)

    def _take_proposal_of(self, twin: Optimizer) -> None:
        """Use what a copy has computed for its last proposal, instead of computing it again."""
        self._proposed = twin._proposed

    def _take_posterior_of(self, twin: Optimizer) -> None:
        """Use the posterior that an earlier copy has built, instead of building it again."""
        self._belief = self._belief.with_posterior_of(twin._belief)
        self._guards = self._guards.with_posteriors_of(twin._guards)

    # -- deciding ----------------------------------------------------------------------------------

    def _plain_decision(self) -> Decision:
        """The next decision without its numbers."""
        under_way = len(self._records.waiting) + len(self._records.proposed)
        endless = self._records.horizon.is_endless or None
        return Decision("design", self.policy.name, self.remaining, under_way, endless=endless)

    def _decide(
        self, at: Array, refit: bool = True, fit: dict[str, Any] | None = None
    ) -> _Proposal:
        """The next point, and the beliefs that it follows from, with new fits if they are due.

        `at` has the coordinates of the context, and the point has them as its last columns.  The
        other arguments are those of `propose_batch`.
        """
        rng = np.random.default_rng([self.seed, len(self._records.trials)])
        plain = self._plain_decision()
        guards = self._guards.refit_if_due().current().relative_to(self._reference(at))
        baseline = self._refuge(guards, at)
        reach = self._reach(at)
        blind = self._is_limited and not self._belief.told  # nothing is known to be allowed
        wanted = blind or (self.remaining and self._records.baseline_is_new)
        if baseline is not None and wanted and not self._is_rejected(baseline):
            why = replace(plain, reason="baseline", holds=guards.holds(baseline))
            if self._records.trials:
                why = replace(why, caution=guards.never_told())
            return _Proposal(self._belief, guards, baseline, why)
        # Prior data count towards the start, but points that the user listed are all tried.
        start = self._start
        begun = self._records.started - self._records.freed_of_start
        begun += 0 if start.listed else len(self._records.known)
        # A trial in place of a forbidden point counts.  But a point that was forbidden by a
        # guardrail may be allowed later, in time for what it tells to be of use.
        held_back = bool(self.safety.guardrails) and not self.safety.free_start
        later = held_back and 2 * self.asked < self._records.horizon.planned
        if self._is_limited and not start.listed and not later:
            begun = max(begun, self._records.used)
        fitted = self._belief.fitted
        sees_noise = (
            fitted is not None and fitted.ok and fitted.hyper.lam2 >= start.rules.blind_noise
        )
        knows_nothing = start.from_middle and not self._belief.told
        # Near the end, too few evaluations are left to profit from a longer start.
        longer = (sees_noise or knows_nothing) and self.remaining >= start.longest
        points: list[Array] = []
        if self.remaining and begun < (start.longest if longer else self._start_size):
            points = [joined(x, at) for x in self._rest_of_start()]
            if points and reach is not None:
                moved = list(zip(points, reach.moved(np.array(points)), strict=True))
                moved = [(given, x) for given, x in moved if not self._is_rejected(x)]
                points = [x for _, x in moved]
                if moved and (moved[0][0] != moved[0][1]).any():
                    plain = replace(plain, held_back=STEP_LIMIT)
            if points and not self._is_limited:
                return _Proposal(self._belief, self._guards, points[0], plain)
        # Nothing to learn from yet; or a metric has yet to be told, and there is no refuge.
        if not self._belief.told or (points and guards.unknown and guards.baseline is None):
            reason = "design" if self.remaining else "exhausted"
            draws = _BLIND_DRAWS if guards.limits else 1
            x, caution = self._blind_choice(
                guards, points or [self._draw(rng, at) for _ in range(draws)]
            )
            why = replace(plain, reason=reason, holds=guards.holds(x), caution=caution)
            return _Proposal(self._belief, guards, x, why)
        fresh = self._believed(refit, fit)
        plain = replace(plain, refitted=fresh.source is not self._belief.source)
        situation = self._situation(fresh, rng, guards, at)
        if not (points or plain.refitted) and self._may_revisit(situation):
            situation = replace(situation, revisit=True)
        x, decision = situation.decide(plain, points, free_start=self.safety.free_start)
        if self._is_rejected(x):
            found = situation.best_allowed(plain)
            if found is None or self._is_rejected(found[0]):
                raise self._nothing_left()
            x, decision = found
        decision = replace(decision, holds=guards.holds(x))
        return _Proposal(situation.belief, guards, x, decision, None if points else situation)

    def _believed(self, refit: bool, fit: dict[str, Any] | None) -> Belief:
        """The belief of the next decision; see `propose_batch`."""
        if fit is not None:
            return self._belief.with_fit(fit).current()
        return self._belief.refit_if_due() if refit else self._belief.current()

    def _may_revisit(self, situation: Situation, count: int = 1) -> bool:
        """Whether the next trials are chosen among the visited points, see `RevisitRules`."""
        rules, limited = self.defaults.revisit, self.space.frozen or self.safety.max_step
        if rules is None or limited or self._contexts or not self.policy.merge:
            return False
        if len(situation.posterior.points) < rules.points:
            return False
        trials, repeats = self._records.trials, 0
        for record in reversed(trials[-rules.repeats :]):
            if record.trial.decision.reason != "resample":
                break
            repeats += 1
        return all(rules.due(len(trials) + i, repeats) for i in range(count))

    def _draw(self, rng: np.random.Generator, at: Array) -> Array:
        """A point at random that is not near a rejected one."""
        for _ in range(_MOST_DRAWS):
            x = draw(self._reach(at) or self._slice(at), rng)
            if not self._is_rejected(x):
                return x
        raise self._nothing_left()

    def _is_rejected(self, x: Array) -> bool:
        rejections = self._records.rejections
        return rejections is not None and bool(rejections.near(x[None, :])[0])

    def _nothing_left(self) -> TrialError:
        numbers = ", ".join(map(str, self._records.rejected))
        limited = "that the limits allow " if self._is_limited or self.safety.max_step else ""
        return TrialError(
            f"every point {limited}is near one that was rejected (trials {numbers:.200}):"
            " reconsider one of them, or adopt a point"
        )

    @property
    def _running(self) -> Array | None:
        """The setting that runs: of the last trial that was not abandoned, or the baseline."""
        for record in reversed(self._records.trials):
            if record.status in ("pending", "told", "proposed"):
                return record.x
        baseline = self._records.baseline
        return None if baseline is None else baseline.x

    def _reach(self, at: Array) -> Box | None:
        """Where the next trial may be, in a context; None if that is everywhere."""
        steps, running = self.safety.max_step, self._running if self.safety.max_step else None
        if running is None:
            return None
        box = reach(self._whole, steps, joined(running, at))
        return box.with_fixed(self._columns_at(at)) if len(at) else box

    def _slice(self, at: Array) -> Space | Slice:
        """The space, in a context."""
        return Slice(self._whole, self._columns_at(at)) if len(at) else self.space

    def _domain(self) -> Space | Slice:
        """The space, in the context that was seen last."""
        return self._slice(self._last_place())

    def _columns_at(self, at: Array) -> dict[int, float]:
        """The columns of the context, with their coordinates."""
        return dict(enumerate(at.tolist(), start=self.space.dim))

    def _reference(self, at: Array) -> Reference | None:
        """The baseline, in a context."""
        now = self._records.baseline
        return now if now is None or not len(at) else now._replace(x=joined(now.x, at))

    @property
    def _is_limited(self) -> bool:
        """Whether there are limits on where a trial may go, see `_limits`."""
        return self.safety.loss_budget is not None or bool(self.safety.guardrails)

    def _limits(self, belief: Belief, at: Array = NOWHERE) -> tuple[Constraint, ...]:
        """The limits that every trial keeps to, given a belief whose posterior has all results."""
        limits = (self._loss_limit(belief, at), self._records.rejections)
        return tuple(limit for limit in limits if limit is not None)

    def _loss_limit(self, belief: Belief, at: Array = NOWHERE) -> LossLimit | None:
        """The loss budget, given a belief whose posterior has all results; None without one."""
        if self.safety.loss_budget is None:
            return None
        assert belief.posterior is not None
        assert belief.fitted is not None
        points, weights = self._records.total_loss(at)
        confidence = self.safety.confidence
        known, columns = len(belief.posterior.points), self.space.dim
        posterior = belief.posterior
        if self.model.method != "fixed":  # then the user knows how much f varies
            rules = self.defaults.loss
            least = least_sd(self.safety.loss_budget, known, columns, rules)
            posterior = belief.doubting(least)
        waiting = self._records.waiting or self._records.proposed
        return LossLimit(
            posterior,
            belief.fitted.scaling,
            points,
            weights,
            limit=self.safety.loss_budget,
            risk_left=1.0 - confidence - self._records.risk,
            confidence=confidence,
            share=self.defaults.loss.share,
            own=bool(waiting) or posterior is not belief.posterior or bool(len(at)),
        )

    def _blind_choice(self, guards: Guards, points: list[Array]) -> tuple[Array, str | None]:
        """The first of the points at which all guardrails hold, and what to say about it."""
        x = guards.best_of(np.array(points))
        caution = guards.never_told() if self.asked else None
        if caution is None and guards.limits and not guards.keep_to_limits(x[None, :])[0]:
            caution = "no such point is known to keep to the guardrails: the likeliest is tried"
        if self.safety.loss_budget is not None:
            unchecked = "the loss budget is not checked: no result was told yet"
            caution = unchecked if caution is None else f"{caution}; {unchecked}"
        return x, caution

    def _refuge(self, guards: Guards, at: Array) -> Array | None:
        """The baseline, as the point to try if no other is allowed, unless it breaks a guardrail.

        As long as a metric was never told, nothing is known to be better.
        """
        baseline = self._reference(at)
        if baseline is None or (guards.is_broken(baseline.x) and not guards.unknown):
            return None
        return baseline.x

    def _current_guards(self, at: Array | None = None) -> Guards:
        """What is known of the metrics, with all results and the baseline of today."""
        guards = self._guards.current()
        self._guards = self._guards.with_posteriors_of(guards)
        return guards.relative_to(self._reference(self._last_place() if at is None else at))

    @property
    def _picks_start(self) -> bool:
        """Whether the points of the start are picked one by one, with a known optimum in mind."""
        known = self._known is not None and self._known.exact
        return known and self._start.is_own_grid and not self._is_limited

    @property
    def _start_size(self) -> int:
        """The number of points to start with."""
        if not self._picks_start:
            return self._start.size
        return max(self._blind, round(self.defaults.known.start_share * self._start.size))

    @property
    def _blind(self) -> int:
        """The number of points that are picked before any result counts."""
        return self.space.dim + self.defaults.start.beyond_dim

    def _rest_of_start(self) -> list[Array]:
        """The points of the start that are left, with the next one first."""
        if not self._picks_start:
            return self._records.rest_of_start(self._start, in_order=not self._is_limited)
        left = np.array(self._records.rest_of_start(self._start, in_order=False))
        if not len(left):
            return []
        if self._records.started < self._blind or not self._belief.told:
            tried = [*self._belief.data.x, *(record.x for record in self._records.trials)]
            return [np.asarray(left[farthest(left, tried)])]
        situation = self._situation(self._belief.refit_if_due())
        return [np.asarray(left[situation.most_promising(left)])]

    def _situation(
        self,
        belief: Belief | None = None,
        rng: np.random.Generator | None = None,
        guards: Guards | None = None,
        at: Array | None = None,
    ) -> Situation:
        """What a decision depends on, in a context; None for the one that was seen last."""
        at = self._last_place() if at is None else at
        current = (belief or self._belief).current()
        if belief is None and current.source is self._belief.source:
            self._belief = current  # so that its posterior is not updated again
        guards = self._current_guards(at) if guards is None else guards
        safety, refuge, base = self.safety, self._refuge(guards, at), self._reference(at)
        running = self._running if safety.change_cost else None
        if running is not None and not self._records.is_here(running):
            running = None  # the space has changed: every trial is a change of the setting
        return Situation(
            policy=self.policy,
            space=self._whole,
            belief=current,
            waiting=self._under_way,
            horizon=self._horizon(current, at),
            sign=self._sign,
            rng=rng or np.random.default_rng([self.seed, len(self._records.trials)]),
            defaults=self.defaults,
            constraints=(
                *constraints_of(self._whole, partial(self._records.given_within, at=at)),
                *self._limits(current, at),
                *guards.constraints,
            ),
            refuge=refuge,
            guards=guards,
            fixed={**self.space.frozen, **self._columns_at(at)},
            context=self._columns_at(at),
            known=self._known,
            reach=self._reach(at),
            running=running,
            change_cost=safety.change_cost,
            sparse_from=base.x if base is not None and safety.sparse_changes else None,
        )

    def _immature(self) -> list[Record]:
        """The trials with results that do not count yet, because others may be missing."""
        known = self._records.totals.items() if self._now is not None else ()
        return [
            self._records.trials[number]
            for number, totals in known
            if totals.count > 0.0 and not self._counts(number)
        ]

    def _horizon(self, belief: Belief, at: Array) -> Horizon:
        """How many evaluations benefit from what is learnt in a context.

        Those to come are taken to have contexts like those that were seen.
        """
        horizon = self._records.horizon._replace(keep=belief.keep, share=self._gain_share)
        if not len(at):
            return horizon
        assert belief.posterior is not None
        here = joined(np.full(self.space.dim, 0.5), at)
        places = np.array([*self._records.seen()[-_SEEN:], at])
        others = np.hstack([np.full((len(places), self.space.dim), 0.5), places])
        return horizon._replace(share=likeness(belief.posterior, here, others))

    def __repr__(self) -> str:
        return (
            f"Optimizer({self.policy.name}, {self.direction}, asked {self._records.horizon},"
            f" told {self.observations})"
        )

    def _repr_html_(self) -> str:
        return html_of(self)

    def __iter__(self) -> Iterator[Trial]:
        """Ask for trials until the budget is spent, or for ever without one; see `AskTell`."""
        check_automatic(self.safety.mode)
        check_no_contexts(self._contexts is not None)
        while self.remaining:
            yield self.ask()


def _in_each(settings: Array, places: Array) -> Array:
    """Each setting in each context, the contexts of the first setting first."""
    rows = np.repeat(settings, len(places), axis=0)
    return np.hstack([rows, np.tile(places, (len(settings), 1))])


def _gain(gain: float, sd: float) -> dict[str, float]:
    """A gain over the baseline, with its interval and the probability that it is one."""
    from scipy.special import ndtr

    better = float(ndtr(gain / sd)) if sd > 0.0 else float(gain > 0.0)
    low, high = gain - 1.96 * sd, gain + 1.96 * sd
    return {"gain": gain, "gain_low": low, "gain_high": high, "prob_better": better}


def _with_fit(apply: Callable[[Any], T], fit: dict[str, Any]) -> T:
    """What `apply` returns for a stored fit; StorageError if it can't be read."""
    try:
        return apply(fit)
    except (KeyError, TypeError, AttributeError, ValueError, IndexError) as error:
        if isinstance(error, RegretlessError):
            raise
        raise StorageError(f"event 'asked': fit: {shown(error)} in {shown(fit)}") from None


def check_automatic(mode: str) -> None:
    """Raise ConfigError if a loop over trials would try what nobody has approved."""
    if mode != "automatic":
        raise ConfigError(
            f"mode {mode!r}: a loop would try what nobody has approved; ask for trials, let"
            " somebody approve them, and work on `pending`"
        )


def check_no_contexts(has_contexts: bool) -> None:
    """Raise ConfigError if a loop over trials would not know their contexts."""
    if has_contexts:
        raise ConfigError(
            "contexts: a loop does not know the context of the next trial: ask(context=...) for"
            " each trial"
        )


_FOLDS: dict[type, Callable[[Optimizer, Any], None]] = {
    Asked: Optimizer._on_asked,
    Told: Optimizer._on_told,
    Observed: Optimizer._on_observed,
    Abandoned: lambda optimizer, event: optimizer._records.fold_abandoned(event),
    Extended: lambda optimizer, event: optimizer._records.fold_extended(event),
    Jumped: Optimizer._on_jumped,
    Baseline: lambda optimizer, event: optimizer._records.fold_based(event),
    Approved: lambda optimizer, event: optimizer._records.fold_approved(event),
    Rejected: lambda optimizer, event: optimizer._records.fold_rejected(event),
    Reconsidered: lambda optimizer, event: optimizer._records.fold_reconsidered(event),
    Retracted: Optimizer._on_retracted,
    Unobserved: Optimizer._on_retracted,
    Changed: Optimizer._on_changed,
    Reported: Optimizer._on_reported,
    Allocated: Optimizer._on_allocated,
    Ended: lambda optimizer, event: optimizer._records.fold_ended(event),
}


def _signed(totals: Totals, sign: float) -> Totals:
    """Totals whose larger means are better."""
    return replace(totals, sum=sign * totals.sum)


def _ending(row: Totals, main: Totals, table: Table) -> str:
    return (
        f"worse than the main row: {row.mean:.4g} for {row.count:.0f} units, against"
        f" {main.mean:.4g}; a row that is as good is ended with a probability of at most"
        f" {table.end_early:.2g}"
    )


def html_of(optimizer: Optimizer, name: str = "Optimizer") -> str:
    """How a notebook shows an optimiser: how far it is, its best point, and its last trials."""
    from regretless._internal import html

    state = {
        "policy": optimizer.policy.name,
        "direction": optimizer.direction,
        "results are": axis_label(optimizer.metric, optimizer.unit),
        "trials": f"{optimizer._records.horizon} asked for",
        "results": optimizer.observations,
        "pending": len(optimizer.pending),
    }
    best = optimizer.best()._repr_html_() if optimizer.observations else ""
    rows = [row for row in optimizer.history() if row.number is not None][-5:]
    header = ["trial", *optimizer.space.names, "value", "why"]
    last = [
        [row.number, *row.params.values(), "" if row.value is None else row.value, row.decision]
        for row in rows
    ]
    return html.table(state, name) + best + (html.grid(header, last) if last else "")
