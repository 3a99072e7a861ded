"""What the command line prints: sentences and tables for people, assignments for shells."""

from __future__ import annotations

import json
import shlex
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import sleep
from typing import TYPE_CHECKING, Any, TextIO

from regretless.engine import (
    Abandoned,
    Approved,
    Archived,
    Asked,
    Baseline,
    Event,
    Extended,
    Jumped,
    Observed,
    Optimizer,
    Outcome,
    Reconsidered,
    Rejected,
    Renamed,
    Retracted,
    Told,
    Unarchived,
    Unobserved,
    read,
)
from regretless.errors import ConfigError, StorageError
from regretless.ledger import Ledger, Violations
from regretless.results import Allocation, Best, Row, Trial, axis_label
from regretless.safety import OBJECTIVE
from regretless.space import Scalar, Space
from regretless.studies import Snapshot, allocation_json, csv_cell, trial_json, write_csv
from regretless.verdict import verdict

if TYPE_CHECKING:  # the journal needs SQLAlchemy, and `regretless` must name rich if it is missing
    from rich.console import Console
    from rich.table import Table

    from regretless.studies import Study
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
    archived = " (archived)" if view.archived else ""
    lines = [
        f"{view.name}{archived} in {where}: {_aim(optimizer)} with {optimizer.policy.name},"
        f" asked {optimizer._records.horizon} ({counts}),"
        f" last event {age(now - view.time)} ago"
    ]
    if optimizer.observations:
        lines.append(str(verdict(optimizer)))
        lines += best_point(optimizer.best())
        noise = optimizer.noise_range()
        lines += [] if noise is None else [f"noise: {noise}"]
        periods = optimizer.periods()
        lines += [] if periods is None else [f"control: {periods} ({periods.controls} controls)"]
    lines += changes(optimizer)
    ledger = Ledger.of(optimizer)
    lines += [*price(ledger), *known_lines(optimizer), *against_baseline(ledger)]
    lines += guardrails(ledger.violations())
    for status, trials in (("pending", optimizer.pending), ("proposed", optimizer.proposed)):
        waiting = (f"{t.number} (for {age(now - view.since[t.number])})" for t in trials)
        lines += [f"{status}: {', '.join(waiting)}"] if trials else []
    return lines


def _aim(optimizer: Optimizer) -> str:
    """What the run is for: "minimize p99 latency (ms)"."""
    label = axis_label(optimizer.metric, optimizer.unit, "")
    return " ".join(filter(None, (optimizer.direction, label)))


def best_point(best: Best) -> list[str]:
    """Lines with the best point, its interval, and the luckiest result for comparison."""
    times = "once" if best.count == 1 else f"{best.count} times"
    unsure = [] if best.allowed else ["  no visited point is known to keep to all guardrails"]
    where = "" if best.context is None else f" in the context {json.dumps(best.context)}"
    return [
        f"best{where}: {json.dumps(best.params)}",
        *unsure,
        f"  mean {best.mean:.6g}, 95 % interval {best.low:.6g} to {best.high:.6g}, tried {times}"
        f" (the luckiest result anywhere: {best.luckiest:.6g})",
        *_over_baseline(best),
    ]


def changes(optimizer: Optimizer) -> list[str]:
    """Lines about how the system changes; none without a `drift`."""
    if optimizer.drift is None:
        return []
    lines = [
        f"warning: something changed at trial {jump.number} (noticed at trial {jump.noticed})"
        for jump in optimizer.jumps
    ]
    fading = optimizer.fading
    if fading is None:
        return lines
    return [*lines, f"drift: {fading}"]


def guardrails(violations: Sequence[Violations]) -> list[str]:
    """A line for each guardrail, with how often it was broken."""
    lines = []
    for each in violations:
        line = f"guardrail {each.guardrail} with {100 * each.prob:g} %: "
        if not each.told:
            lines.append(line + "its metric was never told")
            continue
        lines.append(
            line + f"{each.observed} of {each.told} results were beyond it,"
            f" {each.expected:.2g} of {each.trials} trials were expected to break it"
        )
    return lines


def _over_baseline(best: Best) -> list[str]:
    if best.gain is None or best.prob_better is None:
        return []
    if best.prob_better == 0.0 and best.gain == 0.0:
        return ["  it is the baseline"]
    return [
        f"  over the baseline: {best.gain:+.4g} a trial, 95 % interval {best.gain_low:.4g} to"
        f" {best.gain_high:.4g}; better with a probability of {100 * best.prob_better:.4g} %"
    ]


def against_baseline(ledger: Ledger) -> list[str]:
    """Lines with the total gain over the baseline, and with the loss budget."""
    optimizer, estimates = ledger.optimizer, ledger.estimates()
    if optimizer.baseline is None or estimates is None:
        return []
    gain = estimates.gain
    lines = [
        f"baseline: {json.dumps(optimizer.baseline)}; total gain over it {gain.mean[-1]:.4g}"
        f" ± {1.96 * gain.sd[-1]:.2g} in {len(gain.mean)} trials"
    ]
    loss = ledger.loss()
    return lines if loss is None else [*lines, str(loss)]


def price(ledger: Ledger) -> list[str]:
    """A line with what the trials have lost; no line before the first result."""
    total, told = ledger.lost(), len(ledger.trials)
    if total is None:
        return []
    return [
        f"price so far: {total:.4g} lost in {told} trials against the best point"
        f" ({total / told:.4g} a trial)"
    ]


def known_lines(optimizer: Optimizer) -> list[str]:
    """A line about the optimum or the bound that was given; no line if none was."""
    known = optimizer.known
    if known is None:
        return []
    what = "optimum" if known.exact else "bound"
    if not optimizer.observations:
        return [f"known {what}: {known.value:.6g}"]
    regret = optimizer.best().regret
    if regret is None:
        return [f"known {what}: {known.value:.6g}; results are clearly better, so it is not used"]
    return [f"known {what}: {known.value:.6g}; the best point is within {regret:.4g} of it"]


def cells(row: Row, prior: int = 0) -> tuple[str, str, str, str]:
    """Number, parameters, value and reason of a trial, as the cells of a table.

    `prior` is the number of a result from before the run, as `retract --prior` takes it.
    """
    why = "; ".join(filter(None, (row.note, str(row.decision or ""))))
    return (
        f"prior {prior}" if row.number is None else str(row.number),
        ", ".join(f"{name}={short(value)}" for name, value in row.params.items()),
        row.status if row.value is None else f"{row.value:.6g}",
        why,
    )


def event_line(stored: StoredEvent) -> str:
    """One event in one line; an event without a sentence of its own is shown as JSON."""
    try:
        sentence = _sentence(read(stored.kind, stored.version, stored.body))
    except StorageError:  # of a newer release
        sentence = None
    shown = json.dumps(stored.body) if sentence is None else sentence
    actor = "" if stored.actor is None else f"  (by {stored.actor})"
    line = f"{stored.seq:6d}  {clock(stored.time)}  {stored.kind:<9}  {shown}{actor}"
    return line.rstrip()


def _sentence(event: Event) -> str | None:
    match event:
        case Asked(number, params, decision, _, proposed):
            only = " (proposed)" if proposed else ""
            return f"trial {number}{only}: {json.dumps(params)}: {decision}"
        case Told(number, outcomes, time):
            return f"trial {number}: {_measured(outcomes, time)}"
        case Observed(params, outcomes, time):
            return f"{json.dumps(params)}: {_measured(outcomes, time)}"
        case Abandoned(number):
            return f"trial {number}"
        case Baseline(params):
            return json.dumps(params)
        case Jumped(number, noticed):
            return f"something changed at trial {number} (noticed at trial {noticed})"
        case Extended(None, horizon):
            return f"without an end, {horizon} trials ahead"
        case Extended(budget):
            return f"to {budget} trials"
        case Approved(number, why) | Rejected(number, why) | Reconsidered(number, why):
            return f"trial {number}{_because(why)}"
        case Retracted(number, why):
            return f"the result of trial {number}{_because(why)}"
        case Unobserved(index, why):
            return f"prior result {index}{_because(why)}"
        case Archived() | Unarchived():
            return ""
        case Renamed(old, new):
            return f"from {old} to {new}"
    return None


def _because(why: str | None) -> str:
    """What somebody said, on one line."""
    return "" if why is None else f": {' '.join(why.split())}"


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
    return f"{value:.4g}" if isinstance(value, float) else str(csv_cell(value))


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
            raise ConfigError(
                f"--shell: params_{name} is not a valid name of a shell variable; use --json"
            )


def assignments(trial: Trial, names: Sequence[str]) -> str:
    """The trial as assignments that a shell can `eval`, named like the columns of `export`.

    A parameter that does not exist here is empty, so that no value of an earlier trial remains.
    """
    values = {f"params_{name}": trial.params.get(name, "") for name in names}
    pairs = {"trial": trial.number, **values}.items()
    return " ".join(f"{name}={shlex.quote(str(csv_cell(value)))}" for name, value in pairs)


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
        only = " (proposed: approve or reject it)" if trial.proposed else ""
        line = f"trial {trial.number}{only}: {json.dumps(trial.params)}"
        out.print(line, markup=False, soft_wrap=True)
        out.print(f"  {trial.decision}", style="dim", markup=False, soft_wrap=True)


def print_allocation(out: Console, name: str, table: Allocation, as_json: bool) -> None:
    """Print a table of shares with its reasons, or as JSON."""
    if as_json:
        print_json(allocation_json(name, table))
        return
    out.print(f"table {table.version}, valid for {table.ttl:g} s", markup=False)
    for arm in table.rows:
        line = f"{100 * arm.share:5.1f} %  trial {arm.trial.number} ({arm.role})"
        out.print(f"{line}: {json.dumps(arm.trial.params)}", markup=False, soft_wrap=True)
        out.print(f"         {arm.trial.decision}", style="dim", markup=False, soft_wrap=True)


def print_rows(out: Console, rows: Sequence[Row], last: int) -> None:
    """Print the last rows of a history as a table."""
    shown = min(len(rows), max(0, last))
    if not shown:
        return
    if len(rows) > shown:
        out.print(f"the last {shown} of {len(rows)}:")
    out.print(_trials(rows, last))


def _trials(rows: Sequence[Row], last: int) -> Table:
    """The last rows of a history, in which prior results come first."""
    shown = list(enumerate(rows))[-last:] if last > 0 else []
    every = (cells(row, prior) for prior, row in shown)
    return _table(("trial", "parameters", "value", "why"), every)


def watch(out: Console, study: Study, every: float, last: int) -> None:
    """Print the report of a study, and renew it until the budget is spent and nothing is pending.

    Where the output is no terminal, each report with news is printed below the one before.
    """
    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    seen = None
    with Live(console=out, auto_refresh=False) if out.is_terminal else nullcontext() as live:
        while True:
            view = study.snapshot()
            report = Text("\n".join(summary(view, study.label)))
            shown = Group(report, _trials(view.optimizer.history(), last))
            if live is not None:
                live.update(shown, refresh=True)  # also without news: ages are shown
            elif view.seq != seen:
                out.print(shown)
            seen = view.seq
            under_way = view.optimizer.pending or view.optimizer.proposed
            if not view.optimizer.remaining and not under_way:
                return
            sleep(every)


@contextmanager
def progress(err: Console, what: str) -> Iterator[Callable[[int, int], object]]:
    """A progress bar on a terminal; the function sets how many of all are done."""
    from rich.progress import Progress

    with Progress(console=err, transient=True, disable=not err.is_terminal) as bars:
        task = bars.add_task(what)
        yield lambda done, every: bars.update(task, completed=done, total=every)


def print_table(out: Console, header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table; the cells are plain text, not rich's markup."""
    out.print(_table(header, rows))


def _table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> Table:
    from rich.markup import escape
    from rich.table import Table

    table = Table(*header)
    for row in rows:
        table.add_row(*map(escape, row))
    return table


# --- files ----------------------------------------------------------------------------------------


def write_rows(output: Path | None, form: str, space: Space, rows: Sequence[Row]) -> None:
    """Write a history as CSV or JSON.

    Args:
        output: a file; None is stdout.
        form: "csv" or "json".
        space: the search space, for the names of the columns.
        rows: the history.

    Raises:
        ConfigError: the file cannot be written.
    """
    with _writing(output) as file:
        if form == "json":
            json.dump([row.flat() for row in rows], file, allow_nan=False)
            file.write("\n")
        else:
            write_csv(file, space, rows)


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
