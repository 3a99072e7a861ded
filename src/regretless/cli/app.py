"""The command line: the verbs of a study, for shells and for any language.

Every command is thin: it opens the study, calls one verb and prints the answer, as a sentence or a
table for people and as JSON for scripts (`--json`).
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from io import TextIOWrapper
from pathlib import Path
from typing import Annotated, Any

import regretless
from regretless._internal.validate import time_from_iso, whole
from regretless.cli import text
from regretless.cli.arguments import drift_of, from_json, listed_parameters, names, pair, pairs
from regretless.engine import check_automatic
from regretless.errors import ConfigError, MissingExtraError, RegretlessError
from regretless.horizon import Horizon as GivenHorizon
from regretless.space import Contexts, Space, change_from_json
from regretless.studies import Study, known_before, observe_nth, study_json

try:
    import typer
    from rich.console import Console
except ImportError as missing:  # the console script must say what to install
    absent = MissingExtraError("cli", missing.name or "typer")
    sys.stderr.write(f"regretless: {absent}\n")
    raise SystemExit(absent.exit_code) from None

app = typer.Typer(
    name="regretless",
    help="Tune a noisy system while it is live; every trial counts.",
    no_args_is_help=True,
    add_completion=True,
    pretty_exceptions_enable=False,
)
out, err = Console(highlight=False), Console(stderr=True, highlight=False)

Name = Annotated[str, typer.Argument(help="The study.", metavar="STUDY")]
Storage = Annotated[
    str,
    typer.Option(
        help="A file (SQLite) or a URL (postgresql://user@host/db).", envvar="REGRETLESS_STORAGE"
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Answer as JSON, for scripts.")]
Value = Annotated[
    float | None,
    typer.Argument(help="The measured value; left out if only metrics are known."),
]
Sem = Annotated[float | None, typer.Option(help="Standard error of the value.")]
Count = Annotated[float, typer.Option(help="The value is the mean of so many single results.")]
Time = Annotated[str | None, typer.Option(help="When it was measured: ISO 8601 with a time zone.")]
Metric = Annotated[
    list[str] | None,
    typer.Option(help="Another metric: NAME=VALUE or NAME=VALUE,SEM.  May be repeated."),
]
Params = Annotated[str, typer.Argument(help="Parameters as JSON, or @FILE.")]
Context = Annotated[
    str | None,
    typer.Option(help='As JSON or @FILE, if the study has contexts: {"hour": 7.5}'),
]
Policy = Annotated[str | None, typer.Option(help="ids (default), eic, ei, gp-ucb, gp-ts, …")]
Direction = Annotated[str | None, typer.Option(help="maximize (default) or minimize.")]
Seed = Annotated[int | None, typer.Option(help="0 if left out.")]
Horizon = Annotated[
    int | None, typer.Option(help="Evaluations to look ahead; without a budget the run has no end.")
]
Drift = Annotated[
    str | None,
    typer.Option(help="If the system may change: auto, or the half-life of results as a number."),
]
Number = Annotated[int, typer.Argument(help="Number of the trial.")]
Key = Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")]
Why = Annotated[str | None, typer.Option(help="What to store with it, for others to read.")]
AsShell = Annotated[
    bool, typer.Option("--shell", help="Answer as assignments: trial=0 params_x=0.5 …")
]
DEFAULT = "regretless.sqlite"


def main() -> None:
    """The console script: errors are one line on stderr, with an exit code by kind."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):  # escape what the terminal cannot show
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(standalone_mode=False)
        _flush()  # now, because at exit nobody handles a closed pipe
    except RegretlessError as error:
        err.print(f"regretless: {error}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(error.exit_code) from None
    except typer.Exit as stop:
        raise SystemExit(stop.exit_code) from None
    except (typer.Abort, KeyboardInterrupt):
        raise SystemExit(130) from None
    except BrokenPipeError:  # the reader has stopped, as in `regretless log … | head`
        _silence()
        raise SystemExit(1) from None
    except Exception as error:
        if not hasattr(error, "format_message"):  # click's exceptions for a wrong call have it
            raise
        if message := f"{error.format_message()}{_given(error)}":  # none: the help was shown
            err.print(f"regretless: {message}", style="red", markup=False, soft_wrap=True)
        raise SystemExit(2) from None
    if code:  # typer caught Ctrl-C by itself
        raise SystemExit(code)


def _flush() -> None:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        raise
    except OSError as error:
        _silence()
        raise ConfigError(f"output: can't write to stdout: {error.strerror}") from None


def _silence() -> None:
    """Send what is left in the buffer of stdout nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _given(error: Exception) -> str:
    """The value that was given for a number; not all versions of typer name it."""
    details: list[dict[str, object]] = getattr(error.__cause__, "errors", list)()
    return "".join(f", got {detail['input']!r}" for detail in details)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(regretless.__version__)
        raise typer.Exit


@app.callback()
def _options(
    show_version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Tune a noisy system while it is live; every evaluation counts."""


# --- making and changing --------------------------------------------------------------------------


@app.command()
def create(
    study: Name,
    space: Annotated[str, typer.Option(help="The space as JSON, or @FILE (JSON, TOML or YAML).")],
    budget: Annotated[int | None, typer.Option(help="Evaluations, the start included.")] = None,
    horizon: Horizon = None,
    drift: Drift = None,
    policy: Policy = None,
    direction: Direction = None,
    seed: Seed = None,
    n0: Annotated[int | None, typer.Option(help="Points to start with.")] = None,
    noise: Annotated[
        str | None, typer.Option(help="constant (default), or auto: where do results scatter more?")
    ] = None,
    defaults: Annotated[int | None, typer.Option(help="Version of the defaults.")] = None,
    baseline: Annotated[
        str | None, typer.Option(help="The setting that runs today, as JSON or @FILE.")
    ] = None,
    loss_budget: Annotated[
        float | None, typer.Option(help="The most to lose in all against the baseline.")
    ] = None,
    confidence: Annotated[
        float | None, typer.Option(help="Of the loss budget; 0.95 if left out.")
    ] = None,
    guardrails: Annotated[
        str | None,
        typer.Option(help='As JSON or @FILE: [{"metric": "p99_ms", "at_most": 250}]'),
    ] = None,
    max_step: Annotated[
        str | None,
        typer.Option(
            help='As JSON or @FILE: {"x": 0.1}, a share of its range, or {"x": {"by": 5}}'
        ),
    ] = None,
    change_cost: Annotated[
        float | None, typer.Option(help="What a change of the setting costs.")
    ] = None,
    sparse_changes: Annotated[
        bool, typer.Option("--sparse-changes", help="Change few parameters of the baseline.")
    ] = False,
    free_start: Annotated[
        bool, typer.Option("--free-start", help="Points of the start may break guardrails.")
    ] = False,
    mode: Annotated[str | None, typer.Option(help="automatic (default) or recommend.")] = None,
    optimum: Annotated[float | None, typer.Option(help="The best value, if it is known.")] = None,
    bound: Annotated[float | None, typer.Option(help="A value that none is better than.")] = None,
    contexts: Annotated[
        str | None,
        typer.Option(
            help="What the environment decides, as JSON or @FILE:"
            ' {"hour": {"type": "cyclic", "low": 0, "high": 24}}'
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(help='What the results measure, to be shown: "p99 latency"')
    ] = None,
    unit: Annotated[str | None, typer.Option(help="The unit of the results, to be shown.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Create a study.  If it exists, its settings must be the same.

    Example of a space, as text or in a file:

    {"timeout_ms": {"type": "float", "low": 10, "high": 1000, "log": true},
    "retries": {"type": "int", "low": 0, "high": 5},
    "strategy": {"type": "categorical", "choices": ["eager", "lazy"]}}
    """
    options: dict[str, Any] = {
        "policy": policy,
        "direction": direction,
        "seed": seed,
        "n0": n0,
        "noise": noise,
        "defaults": defaults,
        "loss_budget": loss_budget,
        "confidence": confidence,
        "change_cost": change_cost,
        "sparse_changes": sparse_changes or None,
        "free_start": free_start or None,
        "mode": mode,
        "optimum": optimum,
        "bound": bound,
        "drift": drift_of(drift),
        "metric": metric,
        "unit": unit,
    }
    texts = {"baseline": baseline, "guardrails": guardrails, "max_step": max_step}
    options |= {name: from_json(name, text) for name, text in texts.items() if text is not None}
    options["space"] = Space.from_json(listed_parameters(from_json("space", space)))
    if contexts is not None:
        given = listed_parameters(from_json("contexts", contexts))
        listed = given["parameters"] if isinstance(given, dict) and given else given
        options["contexts"] = Contexts.from_json(listed).parameters
    GivenHorizon.checked(budget, horizon)
    with Study.open(storage, study, budget=budget, horizon=horizon, **options) as made:
        of = "ahead, without an end" if made.budget is None else f"of {made.budget} left"
        out.print(f"{study}: {made.remaining} trials {of}", markup=False)


def _context(given: str | None) -> Any:
    """The context that was given as JSON or as a file; None if there was none."""
    return None if given is None else from_json("context", given)


@app.command()
def ask(
    study: Name,
    n: Annotated[int, typer.Option("-n", help="Number of trials.")] = 1,
    key: Annotated[
        str | None, typer.Option(help="A repeated call with it returns the same trial.")
    ] = None,
    within_budget: Annotated[bool, typer.Option(help="Fail once the budget is spent.")] = False,
    context: Context = None,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
    as_shell: AsShell = False,
) -> None:
    """Choose the next trial.  With the mode recommend, it is only proposed."""
    with Study.open(storage, study) as opened:
        if as_shell:
            text.check_shell_names(opened.space)
            if opened.snapshot().optimizer.safety.mode == "recommend":
                raise ConfigError(
                    "--shell: the mode is 'recommend'; approve the trial, and use `pending --shell`"
                )
        here = _context(context)
        trials = opened.ask(n, key=key, within_budget=within_budget, context=here)
        names = opened.space.names
    if as_shell:
        for trial in trials:
            print(text.assignments(trial, names))
        return
    text.print_trials(out, trials, as_json, alone=n == 1)


@app.command(context_settings={"ignore_unknown_options": True})
def tell(
    study: Name,
    number: Annotated[int, typer.Argument(help="Number of the trial.")],
    value: Value = None,
    sem: Sem = None,
    count: Count = 1,
    time: Time = None,
    metric: Metric = None,
    control: Annotated[
        str | None,
        typer.Option(help="What the baseline brought in the same period: VALUE or VALUE,SEM."),
    ] = None,
    key: Annotated[str | None, typer.Option(help="It is stored with the result.")] = None,
    context: Annotated[
        str | None, typer.Option(help="As JSON or @FILE, if it turned out to be another one.")
    ] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Store the result of a trial.  Telling the same value again changes nothing."""
    moment, beside = time_from_iso(time), None if control is None else pair("control", control)
    with Study.open(storage, study) as opened:
        opened.tell(
            number,
            value,
            sem=sem,
            count=count,
            time=moment,
            metrics=pairs("metric", metric),
            control=beside,
            context=_context(context),
            key=key,
        )


@app.command(context_settings={"ignore_unknown_options": True})
def observe(
    study: Name,
    params: Params,
    value: Value = None,
    sem: Sem = None,
    count: Count = 1,
    time: Time = None,
    metric: Metric = None,
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    context: Context = None,
    storage: Storage = DEFAULT,
) -> None:
    """Store a result from before the run.  It uses no budget.

    Without a key, a result that is stored already (the same point, value, standard error, count and
    time) is not stored again.
    """
    point, moment = from_json("params", params), time_from_iso(time)
    told: dict[str, Any] = {"sem": sem, "count": count, "time": moment}
    told |= {"metrics": pairs("metric", metric), "context": _context(context)}
    with Study.open(storage, study) as opened:
        if key is not None:
            opened.observe(point, value, **told, key=key)
        elif not observe_nth(opened, point, value, **told, nth=1):
            typer.echo(f"not stored: {known_before(study)}", err=True)


@app.command()
def adopt(
    study: Name,
    params: Params,
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    context: Context = None,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Make a trial of a point that you chose.  It uses budget."""
    with Study.open(storage, study) as opened:
        trial = opened.adopt(from_json("params", params), context=_context(context), key=key)
    text.print_trials(out, [trial], as_json, alone=True)


@app.command()
def abandon(
    study: Name,
    number: Annotated[int | None, typer.Argument(help="Number of the trial.")] = None,
    older_than: Annotated[
        float | None, typer.Option(help="All that have been pending for so many seconds.")
    ] = None,
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Stop waiting for the result of a trial.  If the result arrives, it may still be told."""
    if (number is None) == (older_than is None):
        raise ConfigError("abandon: need a trial's number, or --older-than SECONDS")
    if key is not None and number is None:
        raise ConfigError("--key: needs a trial's number")
    with Study.open(storage, study) as opened:
        if number is not None:
            opened.abandon(number, key=key)
        else:
            gone = opened.abandon_older_than(float(older_than or 0.0))
            out.print(f"abandoned: {', '.join(str(t.number) for t in gone) or 'none'}")


@app.command()
def extend(
    study: Name,
    budget: Annotated[int | None, typer.Argument(help="The new total.")] = None,
    horizon: Horizon = None,
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Set a new total budget; or a horizon instead, for a run without an end."""
    with Study.open(storage, study) as opened:
        opened.extend(budget, horizon=horizon, key=key)


@app.command()
def allocate(
    study: Name,
    arms: Annotated[int, typer.Option(help="Rows of the table, at most.")] = 8,
    ttl: Annotated[float, typer.Option(help="For how many seconds a client may use it.")] = 600.0,
    delay: Annotated[float, typer.Option(help="Seconds until the results of a trial are in.")] = 0,
    end_early: Annotated[
        float, typer.Option(help="Probability of ending a row that is as good as the best; 0: none")
    ] = 0.05,
    renew: Annotated[bool, typer.Option(help="Make a new table in any case.")] = False,
    as_json: AsJson = False,
    storage: Storage = DEFAULT,
) -> None:
    """Split the traffic among settings: a table of trials and their shares."""
    with Study.open(storage, study) as opened:
        table = opened.allocate(arms, ttl=ttl, delay=delay, end_early=end_early, renew=renew)
    text.print_allocation(out, study, table, as_json)


@app.command(context_settings={"ignore_unknown_options": True})
def report(
    study: Name,
    number: Annotated[int, typer.Argument(help="Number of the trial.")],
    count: Annotated[float, typer.Option(help="How many units were measured.")] = 1,
    total: Annotated[float | None, typer.Option("--sum", help="Sum of their results.")] = None,
    sum_squares: Annotated[float | None, typer.Option(help="Sum of the squares.")] = None,
    value: Annotated[float | None, typer.Option(help="Their mean, in place of --sum.")] = None,
    sem: Annotated[float | None, typer.Option(help="Standard error of --value.")] = None,
    time: Time = None,
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Add results to the totals of a trial."""
    with Study.open(storage, study) as opened:
        opened.report(
            number,
            count=count,
            sum=total,
            sum_squares=sum_squares,
            value=value,
            sem=sem,
            time=time_from_iso(time),
            key=key,
        )


@app.command("set-baseline")
def set_baseline(
    study: Name,
    params: Annotated[str, typer.Argument(help="The setting that runs today: JSON or @FILE.")],
    key: Annotated[str | None, typer.Option(help="A repeated call with it has no effect.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Declare the setting that runs today, or change it."""
    with Study.open(storage, study) as opened:
        opened.set_baseline(from_json("params", params), key=key)


@app.command()
def approve(
    study: Name, number: Number, why: Why = None, key: Key = None, storage: Storage = DEFAULT
) -> None:
    """Allow a proposed trial to be tried."""
    with Study.open(storage, study) as opened:
        opened.approve(number, why, key=key)


@app.command()
def reject(
    study: Name,
    number: Number,
    why: Annotated[
        str, typer.Option(help="The reason; while it stands, nothing near is proposed.")
    ],
    key: Key = None,
    storage: Storage = DEFAULT,
) -> None:
    """Refuse a proposed trial.  It uses no budget."""
    with Study.open(storage, study) as opened:
        opened.reject(number, why, key=key)


@app.command()
def reconsider(
    study: Name, number: Number, why: Why = None, key: Key = None, storage: Storage = DEFAULT
) -> None:
    """End the reason for which a trial was rejected."""
    with Study.open(storage, study) as opened:
        opened.reconsider(number, why, key=key)


@app.command()
def retract(
    study: Name,
    number: Annotated[int | None, typer.Argument(help="Number of the trial.")] = None,
    prior: Annotated[
        int | None, typer.Option(help="Of a result from before the run: 0, 1, 2, … as in show.")
    ] = None,
    why: Why = None,
    key: Key = None,
    storage: Storage = DEFAULT,
) -> None:
    """Take a wrong result back.  The trial is pending again."""
    if (number is None) == (prior is None):
        raise ConfigError("retract: need a trial's number, or --prior NUMBER")
    with Study.open(storage, study) as opened:
        if number is not None:
            opened.retract(number, why, key=key)
        else:
            opened.retract_observation(prior or 0, why)


@app.command()
def archive(study: Name, storage: Storage = DEFAULT) -> None:
    """End a study for now: lists leave it out, and there are no new trials."""
    with Study.open(storage, study) as opened:
        opened.archive()


@app.command()
def unarchive(study: Name, storage: Storage = DEFAULT) -> None:
    """Go on with an archived study."""
    with Study.open(storage, study) as opened:
        opened.unarchive()


@app.command()
def rename(
    study: Name,
    new: Annotated[str, typer.Argument(help="The new name.")],
    storage: Storage = DEFAULT,
) -> None:
    """Give a study a new name.  Programs that use the old one get an error with the new one."""
    with Study.open(storage, study) as opened:
        opened.rename(new)


@app.command()
def change(
    study: Name,
    what: Annotated[
        str,
        typer.Argument(
            help='JSON: {"add": [{"name": "y", "type": "float", "low": 0, "high": 1, "value": 0}],'
            ' "widen": [a parameter], "freeze": {"x": 0.5}, "drop": {"z": 1}}, or some of these.'
        ),
    ],
    storage: Storage = DEFAULT,
) -> None:
    """Change the space: add, freeze, widen or drop parameters.  All results stay."""
    given = change_from_json(from_json("change", what))
    with Study.open(storage, study) as opened:
        opened.change_space(**given)


# --- looking --------------------------------------------------------------------------------------


@app.command()
def pending(
    study: Name, storage: Storage = DEFAULT, as_json: AsJson = False, as_shell: AsShell = False
) -> None:
    """Print the trials that wait for their results."""
    with _reading(storage, study) as opened:
        if as_shell:
            text.check_shell_names(opened.space)
        trials, names = opened.pending, opened.space.names
    if as_shell:
        for trial in trials:
            print(text.assignments(trial, names))
        return
    text.print_trials(out, trials, as_json, alone=False)


@app.command()
def best(
    study: Name, context: Context = None, storage: Storage = DEFAULT, as_json: AsJson = False
) -> None:
    """Print the visited point with the best posterior mean.

    In a study with contexts, it is the best one in a context, or the best one on average.
    """
    with _reading(storage, study) as opened:
        found = opened.best(context=_context(context))
    if as_json:
        text.print_json(asdict(found))
    else:
        text.print_lines(out, text.best_point(found))


@app.command()
def show(
    study: Name,
    last: Annotated[int, typer.Option(help="How many trials to list.")] = 15,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Print a report: the settings, the best point, and the trials with their reasons."""
    with _reading(storage, study) as opened:
        view = opened.snapshot()
    if as_json:
        text.print_json(study_json(view))
        return
    text.print_lines(out, text.summary(view, opened.label))
    text.print_rows(out, view.optimizer.history(), last)


@app.command()
def watch(
    study: Name,
    every: Annotated[float, typer.Option(help="Seconds between two looks.")] = 2.0,
    last: Annotated[int, typer.Option(help="How many trials to list.")] = 15,
    storage: Storage = DEFAULT,
) -> None:
    """Show the report of `show`, and renew it until the budget is spent or you press Ctrl-C."""
    if not every >= 0.1:
        raise ConfigError(f"--every: need at least 0.1 seconds, got {every}")
    with _reading(storage, study) as opened:
        text.watch(out, opened, every, last)


@app.command()
def forecast(
    study: Name,
    draws: Annotated[int, typer.Option(help="Simulations; each takes some seconds.")] = 32,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Simulate the rest of the run: what it will gain, and whether the best point will change."""
    with _reading(storage, study) as opened, text.progress(err, "simulations") as advance:
        ahead = opened.forecast(draws=draws, progress=advance)
    if as_json:
        text.print_json(ahead.to_json())
    else:
        text.print_lines(out, [f"reference: {json.dumps(ahead.reference)}", str(ahead)])


@app.command()
def plan(
    space: Annotated[str, typer.Option(help="The space as JSON, or @FILE (JSON, TOML or YAML).")],
    budget: Annotated[str, typer.Option(help="One number of trials, or several.")] = "50,100",
    noise: Annotated[
        float, typer.Option(help="Sd of the noise, in units of the sd of f over the space.")
    ] = 0.3,
    draws: Annotated[int, typer.Option(help="Functions; each is tuned with each budget.")] = 8,
    policy: Annotated[str, typer.Option(help="ids, eic, ei, gp-ucb, gp-ts, …")] = "ids",
    as_json: AsJson = False,
) -> None:
    """Say what a budget buys, before anything is tuned: whole runs are simulated."""
    from regretless.forecast import plan as simulate

    made = Space.from_json(listed_parameters(from_json("space", space)))
    try:
        budgets = [int(each) for each in names(budget)]
    except ValueError:
        raise ConfigError(f"budget: need numbers like 50,100,200, got {budget!r}") from None
    with text.progress(err, "runs") as advance:
        entries = simulate(made, budgets, noise=noise, draws=draws, policy=policy, progress=advance)
    if as_json:
        text.print_json([asdict(entry) for entry in entries])
    else:
        text.print_lines(out, [str(entry) for entry in entries])


@app.command()
def log(
    study: Name,
    after: Annotated[int, typer.Option(help="Only events after this one.")] = 0,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """Print all events: one line each, or with --json as they are stored."""
    with _reading(storage, study) as opened:
        events = opened.events(after)
    for event in events:
        if as_json:
            line = {"seq": event.seq, "time": event.time.isoformat(), "kind": event.kind}
            line |= {"version": event.version, "actor": event.actor, "body": event.body}
            print(json.dumps(line))
        else:
            print(text.event_line(event))


@app.command()
def export(
    study: Name,
    form: Annotated[str, typer.Option("--format", help="csv or json.")] = "csv",
    output: Annotated[Path | None, typer.Option("--output", "-o", help="A file.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Write all trials as a table."""
    if form not in ("csv", "json"):
        raise ConfigError(f"format: need csv or json, got {form!r}")
    with _reading(storage, study) as opened:
        text.write_rows(output, form, opened.space, opened.history())


@app.command()
def plot(
    study: Name,
    output: Annotated[Path, typer.Option("--output", "-o", help="A PNG, SVG or PDF file.")],
    kind: Annotated[str, typer.Option(help="decisions, reward or posterior.")] = "decisions",
    baseline: Annotated[float | None, typer.Option(help="For reward.")] = None,
    storage: Storage = DEFAULT,
) -> None:
    """Draw a picture of a study."""
    from regretless import plotting

    if output.is_dir():
        raise ConfigError(f"output: need a file, got the folder {str(output)!r}")
    with _reading(storage, study) as opened:
        optimizer = opened.snapshot().optimizer
    if kind == "decisions":
        ax = plotting.plot_decisions(optimizer)
    elif kind == "reward":
        ax = plotting.plot_reward(optimizer, baseline=baseline)
    elif kind == "posterior":
        ax = plotting.plot_posterior(optimizer)[0]
    else:
        raise ConfigError(f"kind: need decisions, reward or posterior, got {kind!r}")
    try:
        ax.get_figure().savefig(output, dpi=110)  # type: ignore[union-attr]
    except (OSError, ValueError) as error:  # a folder that is not there, a format that is unknown
        raise ConfigError(f"output: can't write {output}: {error}") from None


@app.command()
def studies(
    archived: Annotated[bool, typer.Option("--archived", help="Also the archived ones.")] = False,
    storage: Storage = DEFAULT,
    as_json: AsJson = False,
) -> None:
    """List the studies of a storage."""
    from regretless.studies.journal import Journal

    with Journal.open(storage, create=False, read_only=True) as journal:
        every = journal.studies()
    found = [s for s in every if archived or not s.archived]
    if as_json:
        text.print_json(
            [
                {"name": s.name, "events": s.events, "last": s.last.isoformat()}
                | ({"archived": True} if s.archived else {})
                for s in found
            ]
        )
        return
    titles = [f"{s.name} (archived)" if s.archived else s.name for s in found]
    rows = [
        (title, str(s.events), text.clock(s.first), text.clock(s.last))
        for title, s in zip(titles, found, strict=True)
    ]
    text.print_table(out, ("study", "events", "created", "last event"), rows)
    if len(found) < len(every):
        out.print(f"{len(every) - len(found)} archived: see --archived")


@app.command()
def version() -> None:
    """Print the version."""
    print(regretless.__version__)


# --- running --------------------------------------------------------------------------------------


@app.command()
def tune(
    file: Annotated[str, typer.Argument(help="FILE.py[:objective], with `space` beside it.")],
    budget: Annotated[int | None, typer.Option(help="Evaluations, the start included.")] = None,
    horizon: Horizon = None,
    drift: Drift = None,
    study: Annotated[str | None, typer.Option(help="The file's name if left out.")] = None,
    policy: Policy = None,
    direction: Direction = None,
    seed: Seed = None,
    jobs: Annotated[int, typer.Option(help="Worker processes.")] = 1,
    redo_pending: Annotated[
        bool, typer.Option(help="First evaluate what a worker that died has left pending.")
    ] = False,
    storage: Storage = DEFAULT,
) -> None:
    """Tune a Python function until the budget is spent.  Call it again to continue.

    With a horizon and no budget, it goes on until Ctrl-C.
    """
    from regretless.cli.tune import load, run_jobs

    task = load(file)
    name = study or task.path.stem
    options: dict[str, Any] = {"policy": policy, "seed": seed, "budget": budget, "horizon": horizon}
    options |= {"direction": direction or task.direction, "drift": drift_of(drift)}
    whole("jobs", jobs, least=1)  # before a study is created
    with Study.open(storage, name, space=task.space, **options) as opened:
        check_automatic(opened.snapshot().optimizer.safety.mode)
        run_jobs(task, opened, storage, jobs, err, redo_pending)
        if opened.observations:
            text.print_lines(out, text.best_point(opened.best()))


@app.command()
def reproduce(
    what: Annotated[str, typer.Argument(help="fig1, fig2, fig3, ablations, all, or analyse.")],
    trials: Annotated[int | None, typer.Option(help="Seeds per cell: 100, smoke: 2.")] = None,
    functions: Annotated[str, typer.Option(help="a,b,c: only these.")] = "",
    policies: Annotated[str, typer.Option(help="a,b,c: only these.")] = "",
    jobs: Annotated[int, typer.Option(help="Runs at a time.")] = 2,
    backend: Annotated[str, typer.Option(help="loky, dask or ray.")] = "loky",
    cluster: Annotated[str | None, typer.Option(help="Address of a running cluster.")] = None,
    smoke: Annotated[bool, typer.Option(help="Tiny runs, to try the pipeline.")] = False,
    limit_minutes: Annotated[
        float | None, typer.Option(help="Start no new run after this many minutes.")
    ] = None,
) -> None:
    """Run the paper's experiments (only what has no record yet) and write the page."""
    from regretless.experiments.command import reproduce as run

    run(
        what,
        trials=trials,
        jobs=jobs,
        backend=backend,
        cluster=cluster,
        smoke=smoke,
        limit_minutes=limit_minutes,
        functions=names(functions),
        policies=names(policies),
    )


@app.command()
def serve(
    storage: Storage = DEFAULT,
    host: Annotated[str, typer.Option(help="Where to listen; this machine only.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="0 for any that is free.")] = 8080,
    token_file: Annotated[
        Path | None,
        typer.Option(help="Lines of: read-only or read-write, a token, its name if it has one."),
    ] = None,
    insecure: Annotated[
        bool, typer.Option("--insecure", help="Listen elsewhere although there are no tokens.")
    ] = False,
    peer_connections: Annotated[
        int, typer.Option(help="The most connections of one address; more behind a proxy.")
    ] = 500,
    changes_per_second: Annotated[
        float, typer.Option(help="Of one token, or of one address without tokens; 0: no limit.")
    ] = 100.0,
) -> None:
    """Serve the studies of a storage over HTTP, with a live page, until Ctrl-C."""
    from regretless.service.app import serve as run
    from regretless.service.auth import Tokens

    tokens = Tokens() if token_file is None else Tokens.from_file(token_file)
    run(storage, host, port, tokens, insecure, peer_connections, changes_per_second)


@app.command()
def link(
    token_file: Annotated[Path, typer.Option(help="The file that `serve` has.")],
    study: Annotated[
        str | None, typer.Argument(help="The only study that it shows; all if left out.")
    ] = None,
    days: Annotated[float, typer.Option(help="After so many days it ends.")] = 7.0,
    name: Annotated[
        str | None, typer.Option(help="Of the token that signs it; the first one if left out.")
    ] = None,
    url: Annotated[str, typer.Option(help="The address of the service.")] = "http://127.0.0.1:8080",
) -> None:
    """Print a link to the live page for somebody who may look and change nothing."""
    from urllib.parse import quote

    from regretless.service.auth import Tokens

    token = Tokens.from_file(token_file).link(study, days, name)
    place = "" if study is None else f"studies/{quote(study, safe='')}"
    print(f"{url.rstrip('/')}/#/{place}?token={token}")


# --- small things ---------------------------------------------------------------------------------


def _reading(storage: str, study: str) -> Study:
    return Study.open(storage, study, read_only=True)


if __name__ == "__main__":
    main()
