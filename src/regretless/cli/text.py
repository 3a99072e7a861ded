"""What the command line prints: sentences and tables for people, assignments for shells."""

from __future__ import annotations

import csv
import json
import shlex
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from regretless.engine import (
    OBJECTIVE,
    Abandoned,
    Asked,
    Event,
    Extended,
    Observed,
    Outcome,
    Told,
    read,
)
from regretless.errors import ConfigError, StorageError
from regretless.ledger import Ledger
from regretless.results import Best, Row, Trial
from regretless.space import Scalar, Space
from regretless.studies import Snapshot, trial_json

if TYPE_CHECKING:  # the journal needs SQLAlchemy, and `regretless` must name rich if it is missing
    from rich.console import Console

    from regretless.studies.journal import StoredEvent

# --- sentences ------------------------------------------------------------------------------------


def summary(view: Snapshot, where: str, now: datetime | None = None) -> list[str]:
    """Lines with the settings and the state, the best point, the price so far, what is pending.

    Args:
        view: the study as it was after one event.
        where: the name of its storage.
        now: from when ages are counted; None is the present.
    """
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
    lines += price(Ledger.of(optimizer))
    waiting = (f"{t.number} (for {age(now - view.asked_at[t.number])})" for t in optimizer.pending)
    if optimizer.pending:
        lines.append(f"pending: {', '.join(waiting)}")
    return lines


def best_point(best: Best) -> list[str]:
    """Lines with the best point, its interval, and the luckiest result for comparison."""
    times = "once" if best.count == 1 else f"{best.count} times"
    return [
        f"best: {json.dumps(best.params)}",
        f"  mean {best.mean:.6g}, 95 % interval {best.low:.6g} to {best.high:.6g}, tried {times}"
        f" (the luckiest result anywhere: {best.luckiest:.6g})",
    ]


def price(ledger: Ledger) -> list[str]:
    """A line with what the trials have lost; no line before the first result."""
    total, told = ledger.lost(), len(ledger.trials)
    if total is None:
        return []
    return [
        f"price so far: {total:.4g} lost in {told} trials against the best point"
        f" ({total / told:.4g} a trial)"
    ]


def cells(row: Row) -> tuple[str, str, str, str]:
    """Number, parameters, value and reason of a trial, as the cells of a table."""
    return (
        "prior" if row.number is None else str(row.number),
        ", ".join(f"{name}={short(value)}" for name, value in row.params.items()),
        row.status if row.value is None else f"{row.value:.6g}",
        str(row.decision or ""),
    )


def event_line(stored: StoredEvent) -> str:
    """One event in one line; an event without a sentence of its own is shown as JSON."""
    try:
        sentence = _sentence(read(stored.kind, stored.version, stored.body))
    except StorageError:  # of a newer release
        sentence = None
    shown = json.dumps(stored.body) if sentence is None else sentence
    return f"{stored.seq:6d}  {clock(stored.time)}  {stored.kind:<9}  {shown}"


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
    """A value with four digits, if it is a float."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def clock(time: datetime) -> str:
    """A date and a time of day, to the second."""
    return time.strftime("%Y-%m-%d %H:%M:%S")


def age(time: timedelta) -> str:
    """A duration in its largest unit, from seconds to days."""
    seconds = max(0.0, time.total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds:.0f} s"


# --- for shells -----------------------------------------------------------------------------------


def check_shell_names(space: Space) -> None:
    """Check that `assignments` can name every parameter.

    Raises:
        ConfigError: a parameter has a name that no shell variable can have.
    """
    for name in space.names:
        if not (name.isascii() and f"params_{name}".isidentifier()):
            raise ConfigError(f"--shell: no shell has a variable named params_{name}; use --json")


def assignments(trial: Trial, names: Sequence[str]) -> str:
    """The trial as assignments that a shell can `eval`, named like the columns of `export`.

    A parameter that does not exist here is empty, so that no value of an earlier trial remains.
    """
    values = {f"params_{name}": trial.params.get(name, "") for name in names}
    pairs = {"trial": trial.number, **values}.items()
    return " ".join(f"{name}={shlex.quote(str(value))}" for name, value in pairs)


# --- printing -------------------------------------------------------------------------------------


def print_json(value: Any) -> None:
    """Print a value as one line of JSON."""
    print(json.dumps(value, allow_nan=False))


def print_lines(out: Console, lines: Sequence[str]) -> None:
    """Print lines as they are, without wrapping."""
    for line in lines:
        out.print(line, markup=False, soft_wrap=True)


def print_trials(out: Console, trials: Sequence[Trial], as_json: bool, alone: bool) -> None:
    """Print trials with their reasons, or as JSON.

    Args:
        out: where to print sentences.
        trials: the trials.
        as_json: whether to print JSON instead of sentences.
        alone: whether the JSON is the only trial itself instead of a list.
    """
    if as_json:
        answers = [trial_json(trial) for trial in trials]
        print_json(answers[0] if alone else answers)
        return
    for trial in trials:
        out.print(f"trial {trial.number}: {json.dumps(trial.params)}", markup=False, soft_wrap=True)
        out.print(f"  {trial.decision}", style="dim", markup=False, soft_wrap=True)


def print_rows(out: Console, rows: Sequence[Row], last: int) -> None:
    """Print the last rows of a history as a table."""
    shown = rows[-last:] if last > 0 else []
    if not shown:
        return
    if len(rows) > len(shown):
        out.print(f"the last {len(shown)} of {len(rows)}:")
    print_table(out, ("trial", "parameters", "value", "why"), map(cells, shown))


def print_table(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the cells are plain text, not rich's markup."""
    from rich.markup import escape
    from rich.table import Table

    table = Table(*header)
    for row in rows:
        table.add_row(*map(escape, row))
    out.print(table)


# --- files ----------------------------------------------------------------------------------------


def write_rows(
    output: Path | None, form: str, header: Sequence[str], rows: list[dict[str, Any]]
) -> None:
    """Write rows as CSV or JSON.

    Args:
        output: a file; None is stdout.
        form: "csv" or "json".
        header: the names of the columns.
        rows: one dict for each row, with all of these names.

    Raises:
        ConfigError: the file cannot be written.
    """
    with _writing(output) as file:
        if form == "json":
            json.dump(rows, file, allow_nan=False)
            file.write("\n")
            return
        writer = csv.DictWriter(file, list(header), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


@contextmanager
def _writing(output: Path | None) -> Iterator[TextIO]:
    if output is None:
        yield sys.stdout
        return
    try:
        with output.open("w", newline="", encoding="utf-8") as file:
            yield file
    except OSError as error:
        raise ConfigError(f"output: can't write {output}: {error.strerror}") from None
