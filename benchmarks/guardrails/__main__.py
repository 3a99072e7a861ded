"""python -m benchmarks.guardrails run [--tools regretless,optuna,botorch] [--seeds 0:5]; report"""

from __future__ import annotations

import argparse

from benchmarks.guardrails.runs import make_missing
from benchmarks.guardrails.tools import TOOLS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("verb", choices=("run", "report"))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--seeds", default="0:5")
    given = parser.parse_args()
    if given.verb == "report":
        from benchmarks.guardrails.report import report

        report()
        return
    first, last = map(int, given.seeds.split(":"))
    make_missing(given.tools.split(","), range(first, last))


if __name__ == "__main__":
    main()
