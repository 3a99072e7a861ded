"""A study in words: what a person reads on the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from regretless.engine import (
    OBJECTIVE,
    Abandoned,
    Asked,
    Event,
    Extended,
    Observed,
    Optimizer,
    Outcome,
    Told,
    read,
)
from regretless.errors import StorageError
from regretless.results import Best, Decision, Row, Trial
from regretless.space import Scalar
from regretless.studies.state import Snapshot

if TYPE_CHECKING:  # the journal needs SQLAlchemy
    from regretless.studies.journal import StoredEvent


def as_json(view: Snapshot) -> dict[str, Any]:
    """Everything that `summary` and the table of trials say, for scripts."""
    optimizer = view.optimizer
    return {
        "study": view.name,
        "seq": view.seq,
        "time": view.time.isoformat(),
        "settings": optimizer.spec(),
        "budget": optimizer.budget,
        "asked": optimizer.asked,
        "remaining": optimizer.remaining,
        "pending": {t.number: view.asked_at[t.number].isoformat() for t in optimizer.pending},
        "best": asdict(optimizer.best()) if optimizer.observations else None,
        "lost": lost(optimizer),
        "trials": [row.flat() for row in optimizer.history()],
    }


def counts(optimizer: Optimizer, rows: Sequence[Row]) -> dict[str, Any]:
    """The budget, what is left of it, and how many trials (or prior results) stand how."""
    status = Counter(row.status for row in rows)
    return {
        "budget": optimizer.budget,
        "asked": optimizer.asked,
        "remaining": optimizer.remaining,
        **{name: status[name] for name in ("told", "pending", "abandoned", "observed")},
    }


def trial_json(trial: Trial) -> dict[str, Any]:
    return {
        "number": trial.number,
        "params": trial.params,
        "decision": decision_json(trial.decision),
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """The sentence, and the numbers behind it."""
    return {"sentence": str(decision)} | decision.to_json()


def summary(view: Snapshot, where: str, now: datetime | None = None) -> list[str]:
    """The settings and the state, the best point, the price so far, and what is pending."""
    optimizer, now = view.optimizer, now or datetime.now(UTC)
    states = Counter(row.status for row in optimizer.history())
    counts = ", ".join(f"{n} {status}" for status, n in states.items()) or "nothing yet"
    lines = [
        f"{view.name} in {where}: {optimizer.direction} with {optimizer.policy.name},"
        f" asked {optimizer.asked} of {optimizer.budget} ({counts}),"
        f" last event {age(now - view.time)} ago"
    ]
    if optimizer.observations:
        lines += best_point(optimizer.best())
    lines += price(optimizer)
    waiting = (f"{t.number} (for {age(now - view.asked_at[t.number])})" for t in optimizer.pending)
    if optimizer.pending:
        lines.append(f"pending: {', '.join(waiting)}")
    return lines


def best_point(best: Best) -> list[str]:
    times = "once" if best.count == 1 else f"{best.count} times"
    return [
        f"best: {json.dumps(best.params)}",
        f"  mean {best.mean:.6g}, 95 % interval {best.low:.6g} to {best.high:.6g}, tried {times}"
        f" (the luckiest result anywhere: {best.luckiest:.6g})",
    ]


def lost(optimizer: Optimizer) -> float | None:
    """What the trials told so far have lost, all together, against the best point as known now."""
    values = [row.value for row in optimizer.history() if row.status == "told"]
    if not values:
        return None
    sign = 1.0 if optimizer.direction == "maximize" else -1.0
    best = optimizer.best().mean
    return sum(sign * (best - value) for value in values if value is not None)


def price(optimizer: Optimizer) -> list[str]:
    total = lost(optimizer)
    if total is None:
        return []
    told = sum(row.status == "told" for row in optimizer.history())
    return [
        f"price so far: {total:.4g} lost in {told} trials against the best point"
        f" ({total / told:.4g} a trial)"
    ]


def cells(row: Row) -> tuple[str, str, str, str]:
    """Number, parameters, value and reason of a trial."""
    return (
        "prior" if row.number is None else str(row.number),
        ", ".join(f"{name}={short(value)}" for name, value in row.params.items()),
        row.status if row.value is None else f"{row.value:.6g}",
        str(row.decision or ""),
    )


def event_line(stored: StoredEvent) -> str:
    """One event in one line; what this release cannot read is shown as it is."""
    stamp = stored.time.strftime("%Y-%m-%d %H:%M:%S")
    try:
        sentence = _sentence(read(stored.kind, stored.version, stored.body))
    except StorageError:
        sentence = None
    text = json.dumps(stored.body) if sentence is None else sentence
    return f"{stored.seq:6d}  {stamp}  {stored.kind:<9}  {text}"


def _sentence(event: Event) -> str | None:
    match event:
        case Asked(number, params, decision):
            return f"trial {number}: {json.dumps(params)}: {decision}"
        case Told(number, outcomes, time):
            return f"trial {number}: {_measured(outcomes, time)}"
        case Observed(params, outcomes, time):
            return f"{json.dumps(params)}: {_measured(outcomes, time)}"
        case Abandoned(number):
            return f"trial {number}"
        case Extended(budget):
            return f"to {budget} evaluations"
    return None


def _measured(outcomes: Mapping[str, Outcome], time: datetime | None) -> str:
    numbers = "; ".join(
        ("" if name == OBJECTIVE else f"{name} ") + _with_certainty(outcome)
        for name, outcome in outcomes.items()
    )
    return numbers if time is None else f"{numbers}, measured {time.isoformat()}"


def _with_certainty(told: Outcome) -> str:
    error = "" if told.sem is None else f" ± {told.sem}"
    return f"{told.value}{error}" + ("" if told.count == 1 else f", mean of {told.count}")


def short(value: Scalar) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def age(time: timedelta) -> str:
    seconds = max(0.0, time.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
