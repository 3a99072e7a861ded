"""Run what is missing, or write the page; see the package."""

from __future__ import annotations

import argparse
import json
import math
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.structured.rivals import TOOLS
from benchmarks.structured.tasks import BUDGET, NOISE, TASKS, task

from regretless.experiments.runner import stamp

ROOT = Path(__file__).parents[2]
RECORDS = ROOT / "docs/results/structured/records.jsonl"
PAGE = ROOT / "docs/results/structured.md"
RIVALS = ("local search", "genetic algorithm")
Found = dict[tuple[str, str, int], dict[str, Any]]


def records() -> Found:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    every = map(json.loads, lines)
    return {(each["task"], each["tool"], each["seed"]): each for each in every}


def run(name: str, tool: str, seed: int, budget: int = BUDGET) -> dict[str, Any]:
    """One run: the regrets are sums, in spreads."""
    problem = task(name, seed)
    spread, regrets = problem.spread, []

    def evaluate(value: Any) -> float:
        y = problem.f(value)
        regrets.append((problem.best - y) / spread)
        noise = np.random.default_rng([7, seed, len(regrets)]).standard_normal()
        return y + NOISE * spread * float(noise)

    began = time.process_time()
    TOOLS[tool](problem, seed, budget, evaluate)
    seconds = time.process_time() - began
    line = {"task": name, "tool": tool, "seed": seed, "regret": round(sum(regrets), 3)}
    last = float(np.mean(regrets[-budget // 5 :]))
    return line | {
        "last": round(last, 4),
        "least": round(min(regrets), 6),
        "cpu": round(seconds, 2),
    }


def run_missing(seeds: range, tasks: list[str], tools: list[str]) -> None:
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in tasks:
            for tool in tools:
                if (name, tool, seed) not in records():
                    line = run(name, tool, seed) | {"stamp": asdict(stamp())}
                    with RECORDS.open("a") as file:
                        file.write(json.dumps(line) + "\n")


# --- the page -------------------------------------------------------------------------------------


def ratio(found: Found, name: str, tool: str, base: str) -> tuple[float, float, int]:
    """The geometric mean of the ratios of regret, the standard error of its log, the count."""
    logs = [
        math.log(found[name, tool, seed]["regret"] / found[name, base, seed]["regret"])
        for problem, one, seed in found
        if problem == name and one == tool and (name, base, seed) in found
    ]
    if not logs:
        return math.nan, math.nan, 0
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return math.exp(float(np.mean(logs))), error, len(logs)


def report() -> None:
    found = records()
    tools = ["regretless", "version 4", *RIVALS]
    ours = ("regretless", "version 4")
    head = ["task", *tools, *(f"{mine} / {rival}" for mine in ours for rival in RIVALS)]
    rows = []
    for make in TASKS:
        name = make.__name__
        cells = [_mean(found, name, tool) for tool in tools]
        ratios = [ratio(found, name, "regretless", rival) for rival in RIVALS]
        ratios += [ratio(found, name, "version 4", rival) for rival in RIVALS]
        shown = [f"**{r:.2f}** ± {r * e:.2f} ({n})" if n else "–" for r, e, n in ratios]
        rows.append([name, *cells, *shown])
    table = "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
    text = PAGE.read_text() if PAGE.exists() else "<!-- table -->\n<!-- end -->\n"
    before, rest = text.split("<!-- table -->")
    after = rest.split("<!-- end -->")[1]
    PAGE.write_text((f"{before}<!-- table -->\n{table}\n<!-- end -->{after}").replace(" ± nan", ""))
    _draw(found)


def _mean(found: Found, name: str, tool: str) -> str:
    each = [line["regret"] for key, line in found.items() if key[:2] == (name, tool)]
    return f"{np.mean(each):.0f} ({len(each)})" if each else "–"


def _draw(found: Found) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = [make.__name__ for make in TASKS]
    figure, axes = plt.subplots(figsize=(7.0, 3.6))
    for k, rival in enumerate(RIVALS):
        each = [ratio(found, name, "regretless", rival) for name in names]
        values = np.array([r for r, _, _ in each])
        errors = np.array([r * e for r, e, _ in each])
        places = np.arange(len(names)) + 0.2 * (k - 0.5)
        axes.errorbar(values, places, xerr=errors, fmt="os"[k], label=f"against {rival}", ms=5)
    axes.axvline(1.0, color="0.5", lw=1)
    axes.axvline(0.7, color="0.5", lw=1, ls=":")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("regret of the default, divided by that of the rival (± standard error)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.tight_layout()
    figure.savefig(PAGE.parent / "structured" / "regret.png", dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:10")
    names = [make.__name__ for make in TASKS]
    parser.add_argument("--tasks", nargs="*", default=names, choices=names)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        report()
    else:
        first, end = map(int, options.seeds.split(":"))
        run_missing(range(first, end), options.tasks, options.tools)
