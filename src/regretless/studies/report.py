"""A study in words: what a person reads on the command line."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from regretless.engine import Optimizer
from regretless.results import Best, Decision, Row, Trial
from regretless.space import Scalar
from regretless.studies.study import Snapshot

if TYPE_CHECKING:  # the journal needs SQLAlchemy
    from regretless.studies.journal import Event


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


def event_line(event: Event) -> str:
    """One event in one line; whatever has no sentence of its own is shown as it is."""
    stamp = event.time.strftime("%Y-%m-%d %H:%M:%S")
    return f"{event.seq:6d}  {stamp}  {event.kind:<9}  {_sentence(event.kind, event.body)}"


def _sentence(kind: str, body: Mapping[str, object]) -> str:
    match body:
        case {"number": number, "params": params, "decision": dict(why)} if kind == "asked":
            return f"trial {number}: {json.dumps(params)}: {Decision.from_json(why)}"
        case {"number": number, "value": value, **rest} if kind == "told":
            return f"trial {number}: {value}{_certainty(rest)}"
        case {"params": params, "value": value, **rest} if kind == "observed":
            return f"{json.dumps(params)}: {value}{_certainty(rest)}"
        case {"number": number} if kind == "abandoned":
            return f"trial {number}"
        case {"budget": budget} if kind == "extended":
            return f"to {budget} evaluations"
    return json.dumps(body)


def _certainty(rest: Mapping[str, object]) -> str:
    sem, count = rest.get("sem"), rest.get("count")
    return ("" if sem is None else f" ± {sem}") + (
        "" if count in (1, None) else f", mean of {count}"
    )


def short(value: Scalar) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def age(time: timedelta) -> str:
    seconds = max(0.0, time.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"
