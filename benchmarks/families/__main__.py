"""The command: run what is missing, then write the page."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from benchmarks.families import coverage, report, runs
from benchmarks.families.table import CHOOSE, FAMILIES, KEEP, store
from benchmarks.families.tools import tool

_HALVES = {"choose": CHOOSE, "keep": KEEP}


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    families = _families(options.families)
    if options.work:
        runs.work()
        return
    if options.optima:
        for family in families:
            store(family, options.seeds)
        return
    if options.coverage:
        runs.check_kept(families, options.tools, options.final)
        root = coverage.RECORDS if options.records == runs.RECORDS else options.records
        coverage.run_all(families, options.tools, options.seeds, root)
        return
    if not options.report:
        _run(options, families)
    page = options.records.parent.with_suffix(".md")
    report.write(options.records, page)
    print(f"written: {page}")


def _run(options: argparse.Namespace, families: list[str]) -> None:
    there = installed(options.tools)
    runs.check_kept(families, there, options.final)
    run_missing(runs.specs(families, there, options.seeds), options)


def run_missing(wanted: list[runs.Spec], options: argparse.Namespace, **how: Any) -> None:
    """Run what is not recorded yet, as the options say, and print how much is."""
    missing = runs.run_all(
        wanted,
        options.records,
        jobs=options.jobs,
        limit_minutes=options.limit_minutes,
        patience_minutes=options.patience_minutes,
        **how,
    )
    print(f"{len(wanted) - missing} of {len(wanted)} runs are recorded")


def installed(names: list[str]) -> list[str]:
    """The tools that can run here."""
    there = [name for name in names if tool(name).installed]
    for name in names:
        if name not in there:
            print(f"left out: {name} needs `pip install {' '.join(tool(name).packages)}`")
    return there


def _families(names: list[str]) -> list[str]:
    """Families by name or by half, in the order of the table."""
    wanted = {f for name in names for f in _HALVES.get(name, (name,))}
    return [name for name in FAMILIES if name in wanted]


def _seeds(text: str) -> range:
    first, _, end = text.partition(":")
    return range(int(first), int(end)) if end else range(int(first))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.families", description=__doc__)
    add = parser.add_argument
    add("--families", nargs="+", choices=[*_HALVES, *FAMILIES], default=["choose"], metavar="NAME")
    running_options(parser, runs.RECORDS)
    add("--final", action="store_true", help="let our own tool run on the families that are kept")
    add("--report", action="store_true", help="write the page from the records, run nothing")
    add("--coverage", action="store_true", help="see how often our intervals hold the truth")
    add("--optima", action="store_true", help="store the best values of these families and seeds")
    return parser


def running_options(parser: argparse.ArgumentParser, records: Path) -> None:
    """What every benchmark that uses this runner may be told."""
    add = parser.add_argument
    add("--tools", nargs="+", default=["regretless", "optuna-tpe", "random"], metavar="NAME")
    add("--seeds", type=_seeds, default=range(20), metavar="A:B", help="from A, below B")
    add("--jobs", type=int, default=1, help="runs at a time, on a core each")
    add("--limit-minutes", type=float, help="start no run after these")
    add("--patience-minutes", type=float, default=60.0, help="the longest that a run may take")
    add("--records", type=Path, default=records)
    add("--work", action="store_true", help=argparse.SUPPRESS)  # a worker


if __name__ == "__main__":
    main()
