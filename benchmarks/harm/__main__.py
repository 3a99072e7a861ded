from __future__ import annotations

import argparse

from benchmarks.harm.runs import run_all


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.harm")
    parser.add_argument("--part", choices=("right", "wrong", "shapes", "cost", "speed"))
    parser.add_argument("--seeds", default="0:90", help="first:last, the last one is left out")
    parser.add_argument("--minutes", type=float, default=1e9)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.part == "speed":
        from benchmarks.harm.speed import measure

        measure()
    elif given.part:
        first, last = map(int, given.seeds.split(":"))
        print(run_all(given.part, range(first, last), given.minutes), "runs are missing")
    if given.report:
        from benchmarks.harm.report import write

        write()


if __name__ == "__main__":
    main()
