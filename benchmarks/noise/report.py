"""The page with the results."""

from __future__ import annotations

from typing import Any

import numpy as np
from benchmarks.noise.problems import FAMILIES, VARYING
from benchmarks.noise.runs import ROOT, TOLD, TOOLS, read

PAGE = ROOT / "docs" / "results" / "noise.md"
LEAST = 0.05  # a smaller regret counts as this, in spreads
CHOSEN = range(20)

HEAD = """# Noise that differs from place to place

Written by `python -m benchmarks.noise --report` from the records beside it. `noise="auto"`
estimates where results scatter more. The default assumes that the noise is the same everywhere.
The families, and the rules by which instances are drawn, are in `benchmarks/noise/__init__.py`.
In the first three families, the sd of the noise varies tenfold over the space.

The table shows the regret with `noise="auto"`, divided by the regret of the default: the
geometric mean over the instances, and its standard error as a share. Below 1, "auto" lost less.
The settings were fixed before the seeds 20 to 39 were run. In the last column, the default is
told the true sd of the noise with each result (`sem=`). This shows how much it helps to know
the noise.
"""


def _ratio(records: dict[Any, float], family: str, seeds: list[int], tool: str = "auto") -> str:
    logs = [
        np.log(
            max(records[tool, family, seed], LEAST) / max(records["default", family, seed], LEAST)
        )
        for seed in seeds
        if {(tool, family, seed), ("default", family, seed)} <= records.keys()
    ]
    if len(logs) < 2:
        return "–"
    return (
        f"{np.exp(np.mean(logs)):.2f} ± {np.std(logs, ddof=1) / len(logs) ** 0.5:.2f} ({len(logs)})"
    )


def write_page() -> None:
    """Write the table of all records."""
    found = read()
    regrets = {(each["tool"], each["family"], each["seed"]): each["regret"] for each in found}
    seconds = {(each["tool"], each["family"], each["seed"]): each["seconds"] for each in found}
    seeds = sorted({each["seed"] for each in found})
    chosen = [seed for seed in seeds if seed in CHOSEN]
    kept = [seed for seed in seeds if seed not in CHOSEN]
    lines = [
        HEAD,
        "| family | seeds 0–19 (instances) | seeds 20–39 | all | told the true sd |",
        "|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        cells = [_ratio(regrets, family, which) for which in (chosen, kept, seeds)]
        cells.append(_ratio(regrets, family, seeds, TOLD))
        lines.append(f"| {family} | {' | '.join(cells)} |")
    both = [key[1:] for key in seconds if key[0] == "auto" and ("default", *key[1:]) in seconds]
    if both:
        times = [sum(seconds[tool, *key] for key in both) for tool in ("auto", "default")]
        lines += ["", f"CPU time of a run: {times[0] / times[1]:.2f} times that of the default."]
    for tool in TOOLS:
        held = [each["held"] for each in found if each["tool"] == tool and "held" in each]
        if held:
            lines += [
                "",
                f"The 95 % interval of `best()` at the end held the truth in {sum(held)} of"
                f" {len(held)} runs of {tool}.",
            ]
    commits = ", ".join(sorted({each["commit"] for each in found}))
    lines += ["", f"Families that vary: {', '.join(VARYING)}. Commits: {commits}.", ""]
    PAGE.write_text("\n".join(lines))
