"""Functions of 5 among 20, 50 or 100 parameters: run what is missing, then write the page.

python -m benchmarks.dimensions --seeds 100:108      # resumable; records in docs/results
python -m benchmarks.dimensions --report             # the page and its picture
"""

from __future__ import annotations

import argparse

from benchmarks.dimensions import report
from benchmarks.dimensions.problems import FAMILIES, instance
from benchmarks.families import runs
from benchmarks.families.__main__ import installed, run_missing, running_options

RECORDS = runs.ROOT / "docs" / "results" / "dimensions" / "records"


def main(arguments: list[str] | None = None) -> None:
    options = _parser().parse_args(arguments)
    if options.work:
        runs.work(instance)
        return
    if not options.report:
        wanted = runs.specs(options.families, installed(options.tools), options.seeds)
        command = ("-m", "benchmarks.dimensions", "--work")
        run_missing(wanted, options, command=command, problem=instance)
    page = options.records.parent.with_suffix(".md")
    report.write(options.records, page)
    print(f"written: {page}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dimensions", description=__doc__)
    add = parser.add_argument
    add("--families", nargs="+", choices=FAMILIES, default=list(FAMILIES), metavar="NAME")
    running_options(parser, RECORDS)
    add("--report", action="store_true", help="write the page from the records, run nothing")
    return parser


if __name__ == "__main__":
    main()
