"""Noise that differs from place to place: runs and report.

python -m benchmarks.noise --seeds 0:20      # resumable; records in docs/results/noise
python -m benchmarks.noise --report          # the page
"""

from __future__ import annotations

import argparse

from benchmarks.noise.problems import FAMILIES
from benchmarks.noise.report import write_page
from benchmarks.noise.runs import TOOLS, run_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument("--families", default=",".join(FAMILIES))
    parser.add_argument("--tools", default=",".join(TOOLS))
    parser.add_argument("--report", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.report:
        first, last = map(int, options.seeds.split(":"))
        run_all(options.families.split(","), range(first, last), options.tools.split(","))
    write_page()


if __name__ == "__main__":
    main()
