"""The command line of the experiments: `python -m regretless.experiments fig2 --jobs 2`."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from regretless.errors import RegretlessError
from regretless.experiments.command import WHAT, reproduce
from regretless.experiments.runner import BACKENDS


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, and return its exit code."""
    options = vars(_parser().parse_args(arguments))
    try:
        reproduce(options.pop("what"), **options)
    except RegretlessError as error:
        print(f"error: {error}", file=sys.stderr)
        return error.exit_code
    except KeyboardInterrupt:
        print("stopped; the same command goes on from here", file=sys.stderr)
        return 130
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m regretless.experiments",
        description="Run the paper's experiments (only what has no record yet) and write the page.",
    )
    parser.add_argument("what", choices=WHAT, help="'analyse' only writes the page")
    parser.add_argument("--trials", type=int, help="seeds per cell: 100, or 2 with --smoke")
    for name in ("functions", "policies"):
        parser.add_argument(f"--{name}", type=_names, default=(), help="a,b,c: only these")
    parser.add_argument("--jobs", type=int, default=2, help="runs at a time (default 2)")
    parser.add_argument("--backend", choices=BACKENDS, default="loky")
    parser.add_argument("--cluster", help="address of a running Dask or Ray cluster")
    parser.add_argument("--smoke", action="store_true", help="tiny runs, to try the pipeline")
    parser.add_argument("--records", type=Path, help="folder of the records")
    parser.add_argument("--page", type=Path, help="where the results page goes")
    parser.add_argument("--limit-minutes", type=float, help="start no new run after this time")
    return parser


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


if __name__ == "__main__":
    sys.exit(main())
