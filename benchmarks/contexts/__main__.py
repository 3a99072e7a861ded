"""Run the benchmark of contexts, and write its page.

python -m benchmarks.contexts --seeds 0:20      # resumable; records in docs/results
python -m benchmarks.contexts --report          # the page and its picture
"""

from __future__ import annotations

import argparse
import json
import time
from dataclasses import asdict
from pathlib import Path

from benchmarks.contexts.problems import SHARES, problem
from benchmarks.contexts.runs import TOOLS, run

from regretless.experiments.runner import stamp

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs/results/contexts/records.jsonl"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="100:120")
    parser.add_argument("--families", nargs="*", default=list(SHARES))
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--report", action="store_true")
    given = parser.parse_args()
    if given.report:
        from benchmarks.contexts.report import write

        write(given.records, ROOT / "docs/results/contexts.md")
        return
    given.records.parent.mkdir(parents=True, exist_ok=True)
    done = set()
    if given.records.exists():
        for line in given.records.read_text().splitlines():
            record = json.loads(line)
            done.add((record["family"], record["tool"], record["seed"]))
    first, last = map(int, given.seeds.split(":"))
    for seed in range(first, last):
        for family in given.families:
            drawn = problem(family, seed)
            for tool in given.tools:
                if (family, tool, seed) in done:
                    continue
                begun = time.process_time()
                regrets = run(tool, drawn, seed)
                record = {
                    "family": family,
                    "tool": tool,
                    "seed": seed,
                    "regret": sum(regrets),
                    "curve": [round(sum(regrets[:n]), 4) for n in range(10, len(regrets) + 1, 10)],
                    "cpu": round(time.process_time() - begun, 3),
                    **asdict(stamp()),
                }
                with given.records.open("a") as file:
                    file.write(json.dumps(record) + "\n")
                print(f"{family:7} {seed:3} {tool:32} {sum(regrets):8.2f} {record['cpu']:6.1f} s")


if __name__ == "__main__":
    main()
