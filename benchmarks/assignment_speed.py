"""How many assignments a second the clients of traffic make, in one process.

    python benchmarks/assignment_speed.py

The limits are 200,000 in Python and 1,000,000 in Node, in CPU time, so that a busy machine matters
little.  The program fails if one is missed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "tests"))

from regretless.client import Traffic  # noqa: E402
from traffic_service import FakeService  # noqa: E402

UNITS = 300_000
LIMITS = {"Python": 200_000, "Node": 1_000_000}
PROGRAM = """
const traffic = await Traffic.open(process.argv[1], "shop");
const units = Array.from({ length: UNITS }, (_, i) => `customer-${i}`);
let best = 0;
for (let turn = 0; turn < 5; turn++) {
  const before = process.cpuUsage();
  let sum = 0;
  for (const unit of units) sum += traffic.assign(unit).trial;
  const { user, system } = process.cpuUsage(before);
  best = Math.max(best, UNITS / ((user + system) / 1e6));
}
console.log(best);
await traffic.close();
"""


def in_python(url: str) -> float:
    units, best = [f"customer-{i}" for i in range(UNITS)], 0.0
    with Traffic(url, "shop") as traffic:
        for _ in range(5):
            begun = time.process_time()
            for unit in units:
                traffic.assign(unit)
            best = max(best, UNITS / (time.process_time() - begun))
    return best


def in_node(url: str, node: str) -> float:
    script = ROOT / "src" / "regretless" / "service" / "static" / "traffic.mjs"
    code = f"import {{ Traffic }} from {json.dumps(script.as_uri())};\n" + PROGRAM
    code = code.replace("UNITS", str(UNITS))
    command = [node, "--input-type=module", "--eval", code, "--", url]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def main() -> None:
    with FakeService().running() as service:
        found = {"Python": in_python(service.url)}
        if node := shutil.which("node"):
            found["Node"] = in_node(service.url, node)
    for name, rate in found.items():
        print(f"{name}: {rate:,.0f} assignments a second (limit {LIMITS[name]:,})")
    if any(rate < LIMITS[name] for name, rate in found.items()):
        sys.exit("too slow")


if __name__ == "__main__":
    main()
