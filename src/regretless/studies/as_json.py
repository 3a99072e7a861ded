"""Studies, trials and decisions as JSON or CSV, for the command line and the service alike."""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any, TextIO

from regretless.engine import SLOTS, Optimizer
from regretless.ledger import Ledger
from regretless.results import Allocation, Decision, Row, Trial
from regretless.space import Space
from regretless.studies.study import Snapshot
from regretless.verdict import verdict

_COUNTED = ("told", "pending", "abandoned", "observed", "proposed", "rejected", "retracted")


def study_json(view: Snapshot) -> dict[str, Any]:
    """Where a study stands: its settings, its counts, the best point, the loss and all trials."""
    optimizer = view.optimizer
    ledger = Ledger.of(optimizer)
    loss = ledger.loss()
    return {
        "study": view.name,
        "seq": view.seq,
        "time": view.time.isoformat(),
        "settings": optimizer.spec() | {"space": optimizer.space.to_json()},
        "budget": optimizer.budget,
        "horizon": optimizer.horizon,
        "asked": optimizer.asked,
        "remaining": optimizer.remaining,
        "archived": view.archived,
        "verdict": verdict(optimizer).to_json(),
        "pending": {t.number: view.asked_at[t.number].isoformat() for t in optimizer.pending},
        "proposed": {t.number: view.asked_at[t.number].isoformat() for t in optimizer.proposed},
        "best": asdict(optimizer.best()) if optimizer.observations else None,
        "lost": ledger.lost(),
        "baseline": optimizer.baseline,
        "loss": None if loss is None else asdict(loss),
        "guardrails": [asdict(each) for each in ledger.violations()],
        "drift": drift_json(optimizer),
        "trials": [row.flat() for row in optimizer.history()],
    }


def drift_json(optimizer: Optimizer) -> dict[str, Any] | None:
    """How the system changes, as far as the results show it; None without a `drift`."""
    if optimizer.drift is None:
        return None
    fading = optimizer.fading
    return {
        "half_life": None if fading is None else fading.to_json()["half_life"],
        "level_changes": fading is not None and fading.level > 0.0,
        "sentence": "" if fading is None else str(fading),
        "jumps": [asdict(jump) for jump in optimizer.jumps],
    }


def counts(optimizer: Optimizer) -> dict[str, Any]:
    """The budget, what is left of it, and how many trials and prior results have each status.

    The budget is None if there is no end; what is left is then the horizon.
    """
    records = optimizer._records  # its history would copy every row
    status = Counter(record.status for record in records.trials)
    status["observed"] = sum(row.status == "observed" for row in records.prior)
    status["retracted"] = len(records.prior) - status["observed"]
    status["rejected"] += status["reconsidered"]
    return {
        "budget": optimizer.budget,
        "horizon": optimizer.horizon,
        "asked": optimizer.asked,
        "remaining": optimizer.remaining,
        **{name: status[name] for name in _COUNTED},
    }


def write_csv(file: TextIO, space: Space, rows: Sequence[Row]) -> None:
    """Write a history as CSV; lists and dicts, as structured parameters have them, are JSON."""
    flat = [row.flat() for row in rows]
    empty = Row(None, "", dict.fromkeys(space.names), None, None, None, None).flat()
    # Metrics and controls are only in the rows that have them.
    header = list(dict.fromkeys(name for row in (empty, *flat) for name in row))
    writer = csv.DictWriter(file, header, lineterminator="\n")
    writer.writeheader()
    writer.writerows({name: csv_cell(value) for name, value in row.items()} for row in flat)


def csv_cell(value: Any) -> Any:
    """A value for CSV."""
    return json.dumps(value) if isinstance(value, list | dict) else value


def trial_json(trial: Trial) -> dict[str, Any]:
    """A trial: its number, its parameters, its context and the decision behind it."""
    context = {} if trial.context is None else {"context": trial.context}
    return {
        "number": trial.number,
        "params": trial.params,
        "decision": decision_json(trial.decision),
        "proposed": trial.proposed,
        **context,
    }


def decision_json(decision: Decision) -> dict[str, Any]:
    """A decision: its sentence, and the numbers behind it."""
    return {"sentence": str(decision)} | decision.to_json()


def allocation_json(name: str, table: Allocation) -> dict[str, Any]:
    """A table of a study: what a client needs to hash units into it."""
    return {
        "study": name,
        "version": table.version,
        "salt": name,
        "slots": SLOTS,
        "made_at": table.made_at.isoformat(),
        "ttl": table.ttl,
        "valid_for": table.ttl if table.valid_for is None else table.valid_for,
        "rows": [
            {
                "row": arm.row,
                "trial": arm.trial.number,
                "role": arm.role,
                "params": arm.trial.params,
                "share": arm.share,
                "slots": [list(each) for each in arm.slots],
                "why": str(arm.trial.decision),
            }
            for arm in table.rows
        ],
        "baseline": table.baseline,
    }
