"""The page and the picture of the records."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.guardrails.problems import BUDGET, FAMILIES
from benchmarks.guardrails.runs import RECORDS, load
from benchmarks.guardrails.tools import START, TOOLS

PAGE = RECORDS.parent / "guardrails.md"
PLOT = PAGE.with_suffix(".png")
NAMES = {
    "regretless": "regretless",
    "regretless, free start": "regretless, `free_start=True`",
    "optuna": "Optuna `GPSampler`, `set_constraint`",
    "botorch": "BoTorch, constrained LogEI",
    "keep the baseline": "keep the baseline",
}
Record = dict[str, Any]

_INTRODUCTION = f"""\
# Guardrails: how often they were broken, and what they cost

Written by `python -m benchmarks.guardrails run` and `report`. Each run has {BUDGET} trials and
2 to 4 parameters. The objective and the metrics are noisy random functions of several shapes.
None of them is a draw from the library's model. Each seed is a new instance."""
_TERMS = f"""\
All tools begin with the baseline. The other tools then have their own start, which ends after
ten trials. With `free_start=True` regretless has a start, too: d + 2 points, or a grid of 9
points with two parameters. *Broken* is the share of trials after the first {START} at which the
true metric is beyond a limit. If the baseline breaks the guardrail, trials count only after the
first one that keeps it. *Regret* is the sum of f* − f(x), in sds of f over the space, where f*
is the best value at which all guardrails hold. A trial that breaks a guardrail may have f(x) >
f*; it then counts as 0. In *regret, broken trials as random ones*, it counts at least as much
as a random allowed point loses, because somebody has to undo such a setting. Tools are compared
on the same seeds."""
_READING = """\
The other tools spend many trials beyond the limits, where f may be better than at any allowed
point. If a broken trial costs nothing (*regret*), that pays. If it costs what a random setting
costs, keeping to the guardrails loses less. Without a free start, trials leave the baseline step by
step, and some runs stay at a local optimum because the way to a better one is not known to be
allowed. With a free start they know more about the metrics after a few trials."""
_OURS = """\
All seeds of regretless, without a free start. *Allowed* trials are those at which the guardrails
were known to hold with their probability. The others were tried while no such point was known:
where the baseline breaks the guardrail, the search for a point that holds goes on after the tenth
trial in some instances. *Expected* is the sum of 1 − P over all trials, as the model had it."""


def report(records: Path = RECORDS, page: Path = PAGE, plot: Path = PLOT) -> None:
    """Write the page and its picture."""
    runs = {
        (r["tool"], r["family"], r["seed"]): r
        for tool in TOOLS
        for r in load(records / f"{tool.replace(',', '').replace(' ', '-')}.jsonl")
    }
    _picture(runs, plot)
    page.write_text(_page(runs))


def _mean(rows: list[Record], field: str) -> float:
    return float(np.mean([row[field] for row in rows]))


def _rows(runs: dict[Any, Record], tool: str, family: str, seeds: set[int]) -> list[Record]:
    return [r for (t, f, s), r in runs.items() if t == tool and f == family and s in seeds]


def _seeds(runs: dict[Any, Record], tool: str, family: str) -> set[int]:
    return {s for t, f, s in runs if t == tool and f == family}


def _page(runs: dict[Any, Record]) -> str:
    families = [f"- **{name}**: {text}." for name, text in FAMILIES.items()]
    out = [*_INTRODUCTION.splitlines(), "", *families, "", *_TERMS.splitlines(), ""]
    out += [
        "| family | tool | seeds | broken | regret | regret, broken trials as random ones |",
        "|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        slow = [tool for tool in ("optuna", "botorch") if _seeds(runs, tool, family)]
        shared = set.intersection(*(_seeds(runs, tool, family) for tool in ("regretless", *slow)))
        for tool in TOOLS:
            rows = _rows(runs, tool, family, shared)
            if rows:
                out.append(_line(family, tool, rows))
    out += ["", *_READING.splitlines(), "", *_OURS.splitlines(), ""]
    out += [
        "| family | seeds | broken | of allowed ones | broken, all trials | expected, all trials |"
        " regret | CPU s a run |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for family in FAMILIES:
        rows = _rows(runs, "regretless", family, _seeds(runs, "regretless", family))
        if rows:
            every = BUDGET * len(rows)
            out.append(
                f"| {family} | {len(rows)} | {_share(rows)} | {_share(rows, 'known')} |"
                f" {100 * sum(r['broken'] for r in rows) / every:.1f} % |"
                f" {100 * sum(r['expected'] for r in rows) / every:.1f} % |"
                f" {_mean(rows, 'regret'):.1f} | {_mean(rows, 'cpu'):.2f} |"
            )
    out += ["", "![Regret against broken trials](guardrails.png)", ""]
    return "\n".join(out)


def _share(rows: list[Record], of: str = "later") -> str:
    beyond = "broken_later" if of == "later" else "known_broken"
    return f"{100 * sum(r[beyond] for r in rows) / sum(r[of] for r in rows):.1f} %"


def _line(family: str, tool: str, rows: list[Record]) -> str:
    return (
        f"| {family} | {NAMES[tool]} | {len(rows)} | {_share(rows)} |"
        f" {_mean(rows, 'regret'):.1f} | {_mean(rows, 'strict'):.1f} |"
    )


def _picture(runs: dict[Any, Record], plot: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, len(FAMILIES), figsize=(13, 3.4), constrained_layout=True)
    for ax, family in zip(axes, FAMILIES, strict=True):
        for k, tool in enumerate(TOOLS):
            rows = _rows(runs, tool, family, _seeds(runs, tool, family))
            x = [100 * r["broken_later"] / r["later"] for r in rows]
            y = [r["regret"] for r in rows]
            ax.plot(x, y, "o", color=f"C{k}", alpha=0.6, label=tool)
        ax.axvline(5, color="0.6", linestyle=":")
        ax.set_title(family)
        ax.set_xlabel("trials that broke a guardrail, %")
        ax.set_yscale("log")
    axes[0].set_ylabel("regret, sds of f")
    axes[-1].legend()
    figure.savefig(plot, dpi=110)
