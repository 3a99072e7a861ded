"""The command: run what is missing, then write the page."""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.peers import footprint, report, runs
from benchmarks.peers.problems import GROUPS, TASKS
from benchmarks.peers.results import FRESH
from benchmarks.peers.tools import TOOLS

RECORDS = runs.ROOT / "docs" / "results" / "peers" / "records"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.one:
        print(runs.run(runs.Spec.of(options.one, options.budget)).to_line(), end="")
        return
    if options.budget is not None and options.records == RECORDS:
        raise SystemExit("--budget is for smoke tests: give them a folder with --records")
    if not options.report:
        _run(options)
    page = options.records.parent.with_suffix(".md")
    report.write(options.records, page)
    print(f"written: {page}")


def _run(options: argparse.Namespace) -> None:
    there = [name for name in options.tools if TOOLS[name].installed]
    for name in options.tools:
        if name not in there:
            print(f"left out: {name} needs `pip install {' '.join(TOOLS[name].packages)}`")
    footprint.measure(options.records.parent / "footprint.json", there)
    wanted = runs.specs(
        _problems(options.problems),
        there,
        options.start,
        options.seeds,
        options.slow_seeds,
        options.budget,
        options.first_seed,
    )
    missing = runs.run_all(
        wanted,
        options.records,
        jobs=options.jobs,
        limit_minutes=options.limit_minutes,
        patience_minutes=options.patience_minutes,
    )
    print(f"{len(wanted) - missing} of {len(wanted)} runs are recorded")


def _problems(names: list[str]) -> list[str]:
    """Problems by name or by group."""
    return [task.name for task in TASKS.values() if task.name in names or task.group in names]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    add = parser.add_argument
    short = [group for group in GROUPS if group != "long"]
    add("--problems", nargs="+", choices=[*GROUPS, *TASKS], default=short, metavar="NAME")
    add("--tools", nargs="+", choices=TOOLS, default=list(TOOLS), metavar="NAME")
    add("--start", choices=runs.STARTS, default="own", help="common: 2d + 2 Sobol points for all")
    add("--seeds", type=int, default=20)
    add("--first-seed", type=int, default=0, help=f"{FRESH}: for the confirmation of the default")
    add("--slow-seeds", type=int, default=5, help="of tools that take most of a second a step")
    add("--jobs", type=int, default=1, help="runs at a time, on a core each")
    add("--limit-minutes", type=float, help="start no run after these")
    add("--patience-minutes", type=float, default=240.0, help="the longest that a run may take")
    add("--records", type=Path, default=RECORDS)
    add("--budget", type=int, help="for smoke tests: instead of each problem's own")
    add("--report", action="store_true", help="write the page from the records, run nothing")
    add("--one", metavar="ID", help=argparse.SUPPRESS)  # a run, in this process
    return parser


if __name__ == "__main__":
    main()
