"""Write the golden suggestions of a version of the defaults, when the version is new:

    python tests/golden.py 5    # writes tests/assets/defaults-5.json

Each case is a stored optimiser and its next suggestion.  tests/test_defaults.py compares.  A file
that was released is never written again.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl

ASSETS = Path(__file__).parent / "assets"

SPACES = {
    "line": rl.Space({"x": rl.Float(0.0, 1.0)}),
    "plane": rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.1, 10.0, log=True)}),
    "mixed": rl.Space(
        {
            "rate": rl.Float(1e-3, 1.0, log=True),
            "size": rl.Int(1, 40),
            "kind": rl.Categorical(["a", "b", "c"]),
            "other": rl.Categorical([1, 2]),
        }
    ),
    "six": rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(6)}),
}

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


def value(space: rl.Space, params: dict[str, Any], rng: np.random.Generator) -> float:
    u = space.encode(params)
    return float(-((u - 0.4) ** 2).sum() + 0.05 * rng.standard_normal())


def path(version: int) -> Path:
    return ASSETS / f"defaults-{version}.json"


def stored(version: int) -> list[dict[str, Any]]:
    """The cases that were written for a version."""
    found: list[dict[str, Any]] = json.loads(path(version).read_text(encoding="utf-8"))
    return found


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
    cases = json.dumps([case(*each, wanted) for each in CASES])
    path(wanted).write_text(cases + "\n", encoding="utf-8")
