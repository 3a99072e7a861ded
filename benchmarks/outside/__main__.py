"""The command: run what is missing. The page is written by `benchmarks.families --report`."""

from __future__ import annotations

import argparse
import json

from benchmarks.families import runs
from benchmarks.families.__main__ import installed, run_missing, running_options
from benchmarks.outside import simulations
from benchmarks.outside.table import PROBLEMS, SUITES, instance

RECORDS = runs.RECORDS.parents[1] / "outside" / "records"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.work:
        runs.work(instance)
    elif options.facts:
        find_out(options.problems)
    else:
        tools = installed(options.tools)
        wanted = runs.specs(chosen(options.problems), tools, options.seeds)
        command = ("-m", "benchmarks.outside", "--work")
        run_missing(wanted, options, command=command, problem=instance)


def chosen(names: list[str]) -> list[str]:
    """Problems by name or by suite, in the order of the table."""
    wanted = {problem for name in names for problem in SUITES.get(name, (name,))}
    return [name for name in PROBLEMS if name in wanted]


def find_out(names: list[str]) -> None:
    """The facts of simulations that have none yet, into the file beside this one."""
    path = simulations.FACTS
    for problem in chosen(names):
        suite, _, name = problem.partition("-")
        known = json.loads(path.read_text()) if path.exists() else {}
        if suite == "simopt" and name not in known:
            known[name] = simulations.facts(name)
            there = [n for n in simulations.PROBLEMS if n in known]
            rows = ",\n".join(f'"{n}": {json.dumps(known[n])}' for n in there)
            path.write_text("{\n" + rows + "\n}\n")
            shown = {k: v for k, v in known[name].items() if k not in ("space", "best")}
            print(name, shown, flush=True)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.outside", description=__doc__)
    names = [*SUITES, *PROBLEMS]
    parser.add_argument(
        "--problems", nargs="+", choices=names, default=list(SUITES), metavar="NAME"
    )
    parser.add_argument("--facts", action="store_true", help="find the best values of simulations")
    running_options(parser, RECORDS)
    return parser


if __name__ == "__main__":
    main()
