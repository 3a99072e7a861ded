"""The shapes of requests, with their limits, and of answers.

Only shapes and sizes are checked here.  The library checks whether a value makes sense.
"""

from __future__ import annotations

import json
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Any, Literal, Self

from fastapi import Header, Path, Query
from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    Strict,
    StrictBool,
    StrictFloat,
    StrictInt,
    StrictStr,
    model_validator,
)

from regretless._internal.shown import shown
from regretless._internal.validate import MAX_NAME, MAX_SAFE, MAX_WHY, fits_a_path, time_from_iso
from regretless.engine import Increment, increment_of
from regretless.errors import ConfigError
from regretless.ledger import Ledger
from regretless.policies import POLICIES
from regretless.results import Allocation, Best, Row, Trial
from regretless.service.forecasts import Ahead
from regretless.studies import (
    Snapshot,
    allocation_json,
    counts,
    decision_json,
    drift_json,
    trial_json,
)
from regretless.studies.journal import StoredEvent, StudyInfo
from regretless.verdict import verdict

MAX_BUDGET = 1_000_000
MAX_BATCH = 100
MAX_PARAMETERS = 100
MAX_CHOICES = 1_000
MAX_METRICS = 100
MAX_FORECAST = 256  # simulations
MAX_PAGE = 1_000
MAX_INT32 = 2**31 - 1
LONGEST_AGE = 1e9  # seconds

# --- single values --------------------------------------------------------------------------------


def _fits_a_path(name: str) -> str:
    if not fits_a_path(name):
        raise ValueError("a name must fit between two slashes of a URL")
    return name


Word = Annotated[StrictStr, Field(max_length=1000)]
Whole = Annotated[StrictInt, Field(ge=-MAX_SAFE, le=MAX_SAFE)]
Scalar = StrictBool | Whole | StrictFloat | Word | None
Choices = Annotated[list[Scalar], Field(max_length=MAX_CHOICES)]
Structure = list[Any] | dict[str, Any]  # the value of a structured parameter
Params = Annotated[dict[Word, Scalar | Structure], Field(max_length=MAX_PARAMETERS)]
AskedParams = Annotated[
    Params | None, Field(description="of the trial: refused unless they are this study's")
]
Context = Annotated[
    dict[Word, Scalar] | None,
    Field(max_length=MAX_PARAMETERS, description="a value for each context"),
]
Label = Annotated[StrictStr, Field(min_length=1, max_length=MAX_NAME)]
NewName = Annotated[
    StrictStr, Field(min_length=1, max_length=MAX_NAME), AfterValidator(_fits_a_path)
]
Budget = Annotated[StrictInt, Field(ge=1, le=MAX_BUDGET, description="trials in all")]

Name = Annotated[str, Path(min_length=1, max_length=MAX_NAME, description="of the study")]
Number = Annotated[int, Path(ge=0, le=MAX_INT32, description="of the trial")]
Key = Annotated[
    str | None,
    Header(
        alias="Idempotency-Key",
        min_length=1,
        max_length=MAX_NAME - 20,
        description="your own; repeated with the same key, a request has no further effect",
    ),
]
Index = Annotated[int, Path(ge=0, le=MAX_INT32, description="of the result: 0, 1, 2, …")]
Archived = Annotated[bool, Query(description="whether to list archived studies, too")]
AfterTrial = Annotated[int, Query(ge=-1, le=MAX_INT32, description="only later trials")]
After = Annotated[int, Query(ge=0, le=MAX_INT32, description="only what comes after this one")]
InContext = Annotated[
    str | None, Query(max_length=10_000, description="as JSON: a value for each context")
]
Arms = Annotated[int, Query(ge=1, le=100, description="rows of the table, at most")]
Seconds = Annotated[float, Query(gt=0, le=LONGEST_AGE, description="how long a table is valid")]
Delay = Annotated[float, Query(ge=0, le=LONGEST_AGE, description="seconds until results are in")]
EndEarly = Annotated[
    float, Query(ge=0, le=1, description="probability of ending a row that is as good as the best")
]
Limit = Annotated[int, Query(ge=1, le=MAX_PAGE, description="at most so many")]

# --- requests -------------------------------------------------------------------------------------


class _Request(BaseModel):
    model_config = ConfigDict(extra="forbid")


def context_from_json(text: str) -> dict[str, Any]:
    """The context that a query has as JSON.

    Raises:
        ConfigError: it is no JSON object.
    """
    try:
        context = json.loads(text)
    except (ValueError, RecursionError):
        context = None
    if not isinstance(context, dict):
        raise ConfigError(f"context: need a JSON object, got {shown(text)}")
    return context


class ConditionIn(_Request):
    """For which values of another parameter a parameter exists: a list of them, or bounds."""

    parameter: Word
    values: Choices | None = None
    at_least: Scalar = None
    at_most: Scalar = None


class ParameterIn(_Request):
    """A parameter to tune: a float or an int has bounds, the others list their values or parts."""

    name: Annotated[Word, Field(min_length=1)]
    type: Literal[
        "float",
        "int",
        "cyclic",
        "categorical",
        "ordinal",
        "permutation",
        "subset",
        "sequence",
        "tree",
        "graph",
    ]
    low: Whole | StrictFloat | None = None
    high: Whole | StrictFloat | None = None
    log: StrictBool | None = None
    step: Whole | StrictFloat | None = None
    choices: Choices | None = None
    values: Choices | None = None
    when: Annotated[list[ConditionIn] | None, Field(max_length=MAX_PARAMETERS)] = None
    items: Choices | None = None
    alphabet: Choices | Word | None = None
    labels: Choices | dict[Word, StrictInt] | None = None
    at_least: StrictInt | None = None
    at_most: StrictInt | None = None
    directed: StrictBool | None = None
    ends: Choices | None = None
    most_edges: StrictInt | None = None

    @model_validator(mode="after")
    def _has_exact_integers(self) -> Self:
        """Refuse integers that are too large: `Whole` refused them, and then a float was read.

        The nearest float may be another number.
        """
        bounds = [bound for bound in (self.low, self.high) if bound is not None]
        if self.type == "int" and any(abs(bound) > MAX_SAFE for bound in bounds):
            raise ValueError(f"the bounds of an int must lie within ±{MAX_SAFE}")
        return self


class SpaceIn(_Request):
    """What `Space.to_json()` writes: a list, since the order matters."""

    parameters: Annotated[list[ParameterIn], Field(min_length=1, max_length=MAX_PARAMETERS)]
    where: Annotated[
        list[Annotated[StrictStr, Field(max_length=2000)]],
        Field(max_length=100, description='limits such as "a + b <= 1"'),
    ] = []


class MeasuredIn(_Request):
    """A measured number, with its standard error if that is known."""

    value: Annotated[float, Strict()]
    sem: Annotated[float | None, Strict(), Field(description="its standard error")] = None

    def pair(self) -> tuple[float, float | None]:
        return self.value, self.sem


class GuardrailIn(_Request):
    """A limit on a metric: `at_most` or `at_least`."""

    metric: Word
    at_most: Annotated[float | None, Strict()] = None
    at_least: Annotated[float | None, Strict()] = None
    prob: Annotated[float | None, Strict()] = None
    of: Literal["baseline"] | None = None


class StepBy(_Request):
    by: Annotated[float, Strict(), Field(description="the largest change, in its own units")]


class ContextIn(_Request):
    """What the environment decides: a number has bounds, the others list their values."""

    name: Annotated[Word, Field(min_length=1)]
    type: Literal["float", "int", "cyclic", "categorical", "ordinal"]
    low: Whole | StrictFloat | None = None
    high: Whole | StrictFloat | None = None
    log: StrictBool | None = None
    step: Whole | StrictFloat | None = None
    choices: Choices | None = None
    values: Choices | None = None


class DriftIn(_Request):
    """How the system changes."""

    half_life: Annotated[
        float | None, Strict(), Field(description="results until half of the correlation is left")
    ] = None
    jumps: Annotated[StrictBool, Field(description="whether to look for sudden changes")] = True


class NewStudy(_Request):
    """The settings of `regretless create`."""

    name: NewName
    space: SpaceIn
    budget: Annotated[Budget | None, Field(description="null if the run has no end")] = None
    horizon: Annotated[
        StrictInt | None, Field(ge=1, le=MAX_SAFE, description="trials to look ahead")
    ] = None
    drift: Annotated[
        Literal["auto"] | DriftIn | None, Field(description="if the system may change")
    ] = None
    policy: Annotated[StrictStr | None, Field(description=", ".join(POLICIES))] = None
    direction: Literal["maximize", "minimize"] | None = None
    seed: Annotated[StrictInt | None, Field(ge=0, le=MAX_SAFE)] = None
    n0: Annotated[StrictInt | None, Field(ge=1, le=10_000, description="to start with")] = None
    noise: Annotated[
        StrictStr | None, Field(description="constant, or auto: where do results scatter more?")
    ] = None
    defaults: Annotated[StrictInt | None, Field(description="version of the defaults")] = None
    baseline: Annotated[Params | None, Field(description="the setting that runs today")] = None
    loss_budget: Annotated[
        float | None, Strict(), Field(description="the most to lose in all against the baseline")
    ] = None
    confidence: Annotated[float | None, Strict(), Field(description="of the loss budget")] = None
    guardrails: Annotated[list[GuardrailIn] | None, Field(max_length=MAX_METRICS)] = None
    max_step: Annotated[
        dict[Word, Annotated[float, Strict()] | StepBy] | None,
        Field(max_length=MAX_PARAMETERS, description="a share of the range, or an object with by"),
    ] = None
    change_cost: Annotated[float | None, Strict(), Field(description="of each change")] = None
    sparse_changes: StrictBool | None = None
    free_start: Annotated[
        StrictBool | None, Field(description="points of the start may break guardrails")
    ] = None
    mode: Literal["automatic", "recommend"] | None = None
    optimum: Annotated[
        float | None, Strict(), Field(description="the best value, if it is known")
    ] = None
    bound: Annotated[
        float | None, Strict(), Field(description="a value that none is better than")
    ] = None
    contexts: Annotated[
        list[ContextIn] | None,
        Field(max_length=MAX_PARAMETERS, description="what the environment decides"),
    ] = None
    metric: Annotated[Label | None, Field(description="what the results measure")] = None
    unit: Annotated[Label | None, Field(description="of the results")] = None


class Ask(_Request):
    n: Annotated[StrictInt | None, Field(ge=1, le=MAX_BATCH, description="for a batch")] = None
    within_budget: Annotated[StrictBool, Field(description="409 once the budget is spent")] = False
    context: Context = None


class LinkIn(_Request):
    days: Annotated[float, Strict(), Field(gt=0, le=366, description="how long it is good for")] = (
        30.0
    )


class ForecastIn(_Request):
    draws: Annotated[
        StrictInt, Field(ge=2, le=MAX_FORECAST, description="simulations of the rest of the run")
    ] = 32
    over: Annotated[
        Params | None,
        Field(description="what gains are measured from; the baseline if it is left out"),
    ] = None


class Result(_Request):
    value: Annotated[
        float | None, Strict(), Field(description="what came out; null with metrics alone")
    ]
    sem: Annotated[float | None, Strict(), Field(description="its standard error")] = None
    count: Annotated[float, Strict(), Field(description="it is a mean of so many")] = 1
    time: Annotated[
        StrictStr | None,
        Field(max_length=100, description="when it was measured: ISO 8601 with a time zone"),
    ] = None

    metrics: Annotated[
        dict[Word, Annotated[float, Strict()] | MeasuredIn] | None,
        Field(max_length=MAX_METRICS, description="what else was measured, by name"),
    ] = None
    context: Context = None

    def measured(self) -> dict[str, Any]:
        """For the verbs of a study."""
        numbers = {"value": self.value, "sem": self.sem, "count": self.count}
        given = {name: _pair(each) for name, each in (self.metrics or {}).items()}
        time = time_from_iso(self.time)
        return {**numbers, "time": time, "metrics": given or None, "context": self.context}


def _pair(given: float | MeasuredIn) -> tuple[float, float | None]:
    return given.pair() if isinstance(given, MeasuredIn) else (given, None)


class Told(Result):
    params: AskedParams = None
    control: Annotated[
        Annotated[float, Strict()] | MeasuredIn | None,
        Field(description="what the baseline brought in the same period"),
    ] = None

    def measured(self) -> dict[str, Any]:
        control = None if self.control is None else _pair(self.control)
        return {**super().measured(), "control": control}


class Observation(Result):
    params: Params
    nth: Annotated[
        StrictInt,
        Field(ge=1, le=MAX_SAFE, description="which of several equal results, without a key"),
    ] = 1


class ReportIn(_Request):
    """What is added to the totals of a trial: sums, or a mean with its standard error."""

    trial: Annotated[StrictInt, Field(ge=0, le=MAX_INT32)]
    count: float = 1.0
    sum: float | None = None
    sum_squares: float | None = None
    value: float | None = None
    sem: float | None = None

    def increment(self) -> Increment:
        """The increment, after a check."""
        numbers = self.model_dump(exclude={"trial"})
        return increment_of(self.trial, **numbers)


class Reports(_Request):
    """One flush of a client: increments for any number of trials, stored together."""

    reports: Annotated[list[ReportIn], Field(min_length=1, max_length=MAX_PAGE)]
    time: datetime | None = None


class Adoption(_Request):
    params: Params
    context: Context = None


class BaselineIn(_Request):
    params: Annotated[Params, Field(description="the setting that runs today")]


class AddedIn(ParameterIn):
    """A new parameter, and the value that it had so far."""

    value: Scalar


class Change(_Request):
    """A change of the space; the verbs are those of `Study.change_space`."""

    add: Annotated[list[AddedIn], Field(max_length=MAX_PARAMETERS)] = []
    freeze: Params = {}
    widen: Annotated[list[ParameterIn], Field(max_length=MAX_PARAMETERS)] = []
    drop: Params = {}


class Extension(_Request):
    budget: Budget | None = None
    horizon: Annotated[
        StrictInt | None, Field(ge=1, le=MAX_SAFE, description="instead: a run without an end")
    ] = None


class OlderThan(_Request):
    older_than: Annotated[float, Strict(), Field(ge=0, le=LONGEST_AGE, description="seconds")]


class Abandon(_Request):
    params: AskedParams = None


class Reason(_Request):
    why: Annotated[
        StrictStr | None, Field(max_length=2 * MAX_WHY, description="for others to read")
    ] = None


class Said(Reason):
    params: AskedParams = None


class Rejection(_Request):
    why: Annotated[StrictStr, Field(max_length=2 * MAX_WHY, description="the reason")]
    params: AskedParams = None


class NewNameOf(_Request):
    name: NewName


# --- answers --------------------------------------------------------------------------------------


class TrialOut(BaseModel):
    number: int
    params: dict[str, Any]
    decision: Annotated[dict[str, Any], Field(description="`sentence`, and the numbers behind it")]
    proposed: Annotated[bool, Field(description="whether somebody has to approve it first")]
    context: Annotated[dict[str, Any] | None, Field(description="that it is for")] = None

    @classmethod
    def of(cls, trial: Trial) -> Self:
        return cls(**trial_json(trial))


class RowOut(BaseModel):
    """A trial, or a result that was known before (its number is null)."""

    number: int | None
    status: Literal[
        "proposed",
        "rejected",
        "reconsidered",
        "pending",
        "told",
        "abandoned",
        "observed",
        "retracted",
    ]
    params: dict[str, Any]
    value: float | None
    sem: float | None
    count: float | None
    time: Annotated[datetime | None, Field(description="of the result")]
    asked_at: datetime | None
    decision: dict[str, Any] | None
    metrics: dict[str, float]
    control: float | None
    note: Annotated[str | None, Field(description="what somebody said about it last")]
    context: Annotated[dict[str, Any] | None, Field(description="in which it was tried")] = None

    @classmethod
    def of(cls, row: Row, view: Snapshot) -> Self:
        return cls(
            **{f.name: getattr(row, f.name) for f in fields(row) if f.name != "decision"},
            asked_at=None if row.number is None else view.asked_at[row.number],
            decision=None if row.decision is None else decision_json(row.decision),
        )


class ArmOut(BaseModel):
    """A row of an allocation."""

    row: int = Field(description="of the setting; it stays the same as long as the setting does")
    trial: int = Field(description="for which results are reported")
    role: str = Field(description="exploit, explore or baseline")
    params: dict[str, Any]
    share: float
    slots: list[tuple[int, int]] = Field(description="ranges of slots, without their ends")
    why: str


class AllocationOut(BaseModel):
    """A table that splits the traffic among settings."""

    study: str
    version: int
    salt: str = Field(description="of the hash by which a unit gets its slot")
    slots: int = Field(description="the number of slots")
    made_at: datetime
    ttl: float
    valid_for: float = Field(description="for how many seconds from now it may be used")
    rows: list[ArmOut]
    baseline: dict[str, Any] | None

    @classmethod
    def of(cls, name: str, table: Allocation) -> Self:
        return cls(**allocation_json(name, table))


class BestOut(BaseModel):
    params: dict[str, Any]
    mean: Annotated[float, Field(description="posterior mean there")]
    low: Annotated[float, Field(description="95 % interval")]
    high: float
    count: Annotated[int, Field(description="results told for it")]
    sample_mean: float
    luckiest: Annotated[float, Field(description="best single result anywhere, for comparison")]
    holds: Annotated[
        dict[str, float] | None, Field(description="the probability of each guardrail there")
    ] = None
    allowed: Annotated[
        bool, Field(description="false if no visited point is known to keep to all guardrails")
    ] = True
    gain: Annotated[float | None, Field(description="over the baseline, in each trial")] = None
    gain_low: Annotated[float | None, Field(description="95 % interval of the gain")] = None
    gain_high: float | None = None
    prob_better: Annotated[float | None, Field(description="than the baseline")] = None
    regret: Annotated[
        float | None, Field(description="how much worse it is than the known optimum or bound")
    ] = None
    context: Annotated[
        dict[str, Any] | None, Field(description="for which it is best; null for the average")
    ] = None

    @classmethod
    def of(cls, best: Best) -> Self:
        return cls(**asdict(best))


class Summary(BaseModel):
    """A line of the list of studies. One that cannot be read has an error and nothing else."""

    name: str
    updated: datetime
    seq: int
    error: str | None = None
    direction: str | None = None
    policy: str | None = None
    budget: Annotated[int | None, Field(description="null if there is no end")] = None
    horizon: Annotated[int | None, Field(description="trials to look ahead")] = None
    asked: int | None = None
    remaining: Annotated[int | None, Field(description="the horizon if there is no end")] = None
    told: int | None = None
    pending: int | None = None
    abandoned: int | None = None
    observed: int | None = None
    proposed: int | None = None
    rejected: int | None = None
    retracted: Annotated[int | None, Field(description="results that were known before")] = None
    archived: bool = False
    mode: str | None = None
    metric: Annotated[str | None, Field(description="what the results measure")] = None
    unit: Annotated[str | None, Field(description="of the results")] = None
    verdict: Annotated[str | None, Field(description="where it stands, as a sentence")] = None
    best: BestOut | None = None

    @classmethod
    def of(cls, view: Snapshot) -> Self:
        optimizer = view.optimizer
        found = verdict(optimizer)
        best = None if found.best is None else BestOut.of(found.best)
        return cls(
            name=view.name,
            updated=view.time,
            seq=view.seq,
            direction=optimizer.direction,
            policy=optimizer.policy.name,
            **counts(optimizer),
            archived=view.archived,
            mode=optimizer.safety.mode,
            metric=optimizer.metric,
            unit=optimizer.unit,
            verdict=str(found),
            best=best,
        )

    @classmethod
    def unreadable(cls, info: StudyInfo, error: str) -> Self:
        return cls(
            name=info.name,
            updated=info.last,
            seq=info.events,
            error=error,
            archived=info.archived,
        )


class GuardrailOut(BaseModel):
    """How often the trials broke a guardrail."""

    guardrail: str
    prob: Annotated[float, Field(description="with which it must hold at a trial")]
    limit: Annotated[float | None, Field(description="in the units of the metric")]
    trials: Annotated[int, Field(description="trials whose probability was known")]
    expected: Annotated[float, Field(description="how many of these were expected to break it")]
    told: Annotated[int, Field(description="trials of which the metric was told")]
    observed: Annotated[int, Field(description="how many of these results are beyond the limit")]


class LossOut(BaseModel):
    """The total loss against the baseline so far, and the loss budget."""

    expected: float
    high: Annotated[float, Field(description="at most, with the confidence")]
    budget: float
    confidence: float
    exceeded: Annotated[float, Field(description="probability that it exceeds the budget")]
    is_spent: Annotated[bool, Field(description="then only what is known to be better is tried")]


class JumpOut(BaseModel):
    """A sudden change of the system."""

    number: Annotated[int, Field(description="the first trial after it")]
    noticed: Annotated[int, Field(description="the trial with whose result it was noticed")]


class DriftOut(BaseModel):
    """How the system changes, as far as the results show it."""

    half_life: Annotated[float | None, Field(description="null if nothing drifts")]
    level_changes: Annotated[bool, Field(description="whether a common level drifts")]
    sentence: str
    jumps: list[JumpOut]


class Detail(Summary):
    settings: dict[str, Any]
    lost: Annotated[float | None, Field(description="by all trials, against the best point")]
    baseline: Annotated[dict[str, Any] | None, Field(description="the setting that runs today")]
    loss: Annotated[LossOut | None, Field(description="against the baseline, with a loss budget")]
    waiting: Annotated[dict[int, datetime], Field(description="pending trials: when asked")]
    proposals: Annotated[dict[int, datetime], Field(description="proposed trials: when asked")]
    guardrails: list[GuardrailOut]
    drift: Annotated[DriftOut | None, Field(description="null if the study has no drift")]

    @classmethod
    def of(cls, view: Snapshot) -> Self:
        pending, proposed = view.optimizer.pending, view.optimizer.proposed
        ledger = Ledger.from_rows(view.optimizer, view.optimizer.history())
        loss, moving = ledger.loss(), drift_json(view.optimizer)
        return cls(
            **Summary.of(view).model_dump(),
            settings=view.optimizer.spec() | {"space": view.optimizer.space.to_json()},
            lost=ledger.lost(),
            guardrails=[GuardrailOut(**vars(each)) for each in ledger.violations()],
            drift=None if moving is None else DriftOut(**moving),
            baseline=view.optimizer.baseline,
            loss=None if loss is None else LossOut(**asdict(loss)),
            waiting={trial.number: view.asked_at[trial.number] for trial in pending},
            proposals={trial.number: view.asked_at[trial.number] for trial in proposed},
        )


class ForecastOut(BaseModel):
    """What the rest of the run is expected to bring, or how far the simulations are."""

    state: Literal["none", "waiting", "running", "done", "failed"]
    draws: Annotated[int, Field(description="simulations in all")]
    done: Annotated[int, Field(description="simulations that are done")]
    is_current: Annotated[bool, Field(description="whether it knows all events of the study")]
    detail: Annotated[str | None, Field(description="what went wrong")]
    forecast: Annotated[dict[str, Any] | None, Field(description="the figures, once it is done")]

    @classmethod
    def of(cls, ahead: Ahead, seq: int) -> Self:
        return cls(
            state=ahead.state,
            draws=ahead.draws,
            done=ahead.done,
            is_current=ahead.seq == seq,
            detail=ahead.detail,
            forecast=ahead.answer,
        )


class LinkOut(BaseModel):
    """For the address `…/#/studies/NAME?token=TOKEN`."""

    token: Annotated[str | None, Field(description="null if the service has no tokens")]
    until: datetime | None


class EventOut(BaseModel):
    seq: int
    time: datetime
    kind: str
    version: Annotated[int, Field(description="of the body")]
    body: dict[str, Any]
    actor: Annotated[str | None, Field(description="the name of the token that wrote it")] = None

    @classmethod
    def of(cls, stored: StoredEvent) -> Self:
        found = {name: getattr(stored, name) for name in cls.model_fields}
        if stored.actor is None:  # left out, because older clients do not know the field
            del found["actor"]
        return cls(**found)


class Abandoned(BaseModel):
    numbers: list[int]


class NotStored(BaseModel):
    detail: str


class Health(BaseModel):
    status: Literal["ok"] = "ok"
    version: str


class ProblemOut(BaseModel):
    """RFC 9457; `error` is the name of the Python exception."""

    type: str
    title: str
    status: int
    detail: str
    error: str | None = None
