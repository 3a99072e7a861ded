"""A simulated shop: runs and report.

python -m benchmarks.shop --seeds 1000:1020 --tools all --choosing  # for the rivals' settings
python -m benchmarks.shop --seeds 0:20                               # resumable
python -m benchmarks.shop --report                                   # the page
"""

from __future__ import annotations

import argparse

from benchmarks.shop.report import REPORTED, write_page
from benchmarks.shop.runs import CHOOSING, RECORDS, TOOLS, run_all


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20")
    parser.add_argument(
        "--tools", default=";".join(REPORTED), help="names with ; between them, or all"
    )
    parser.add_argument("--choosing", action="store_true", help="keep the records apart")
    parser.add_argument("--report", action="store_true", help="only write the page")
    options = parser.parse_args()
    if not options.report:
        first, last = map(int, options.seeds.split(":"))
        tools = list(TOOLS) if options.tools == "all" else options.tools.split(";")
        run_all(tools, range(first, last), CHOOSING if options.choosing else RECORDS)
    if not options.choosing:
        write_page()


if __name__ == "__main__":
    main()
