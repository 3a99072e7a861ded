"""Write the golden suggestions of a version of the defaults, when the version is new:

    python tests/golden.py 3 > tests/assets/defaults-3.json

Each case is a stored optimiser and its next suggestion.  tests/test_defaults.py compares.  A file
that was released is never written again.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import numpy as np

import regretless as rl
from test_defaults import SPACES, value

# The name of a case, its space, the number of results, and settings.
CASES: list[tuple[str, str, int, dict[str, Any]]] = [
    ("line, first results", "line", 2, {}),
    ("line", "line", 14, {}),
    ("plane, first results", "plane", 3, {}),
    ("plane", "plane", 16, {}),
    ("mixed, in the start", "mixed", 2, {}),
    ("mixed, end of the start", "mixed", 4, {}),
    ("mixed", "mixed", 15, {}),
    ("six, first results", "six", 5, {}),
    ("six", "six", 14, {}),
    ("plane eic", "plane", 12, {"policy": "eic"}),
    ("mixed minimize", "mixed", 12, {"direction": "minimize"}),
    ("plane with known noise", "plane", 10, {"model": rl.Model(noise_sd=0.05)}),
]


def case(name: str, space: str, told: int, settings: dict[str, Any], version: int) -> Any:
    rng = np.random.default_rng(7)
    optimizer = rl.Optimizer(SPACES[space], 40, seed=5, defaults=version, **settings)
    for _ in range(told):
        trial = optimizer.ask()
        optimizer.tell(trial, optimizer.sign * value(SPACES[space], trial.params, rng))
    stored = json.loads(optimizer.to_json())
    trial = optimizer.ask()
    numbers = {key: getattr(trial.decision, key) for key in ("reason", "mean", "sd", "gate")}
    return {"name": name, "optimizer": stored, "next": {"params": trial.params, **numbers}}


if __name__ == "__main__":
    wanted = int(sys.argv[1])
    print(json.dumps([case(*each, wanted) for each in CASES]))
