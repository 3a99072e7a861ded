"""The page with the results, and its picture."""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np
from benchmarks.shop.runs import CHOOSING, RECORDS, ROOT, read

from regretless._internal.arrays import Array

PAGE = ROOT / "docs" / "results" / "shop.md"
OURS, PLAIN = "ours", "ours, no early end"
RIVALS = {
    "today": "today's setting",
    "one trial": "one trial a period, ask and tell",
    "one trial, control": "the same, with a control on 10 % of the customers",
    "test 7": "an A/B/n test of 8 arms for 7 periods, then the best one",
    "thompson 0.1": "Thompson sampling over 16 arms",
}
REPORTED = (OURS, PLAIN, *RIVALS)

HEAD = """# A simulated shop

Written by `python -m benchmarks.shop --report` from the records beside it. Each shop is random.
It has 3 to 5 parameters: a price, and some of these: a threshold for free shipping, a layout,
results on a page, a discount, a reminder, a weight of the ranking. Their effect on conversion and
basket is random, too. 20,000 customers come in each of 50 periods. A customer buys with a
probability of a few percent, and spends a lognormal amount. The day of the week changes the
conversion of all settings by the same factor. 3 % of the results are 1 to 5 periods late. Today's
setting is better than a share of all settings that is drawn for each shop, between 50 and 80 %.
The rules are in `benchmarks/shop/shops.py`.

The loss says how much less the shop is expected to earn with the settings that its customers saw
than with the best setting. It is a share of what the best setting is expected to earn. No tool
knows anything at the start.

- **ours**: `allocate(arms=8)` with a new table each period, and `report` ten times a period. A row
  of the table is a setting with its share of the customers. A row that is clearly worse than the
  others ends within the period.
- **one trial**: the default of regretless chooses one setting for all customers of a period. It
  is told the mean and its standard error at the end of the period. With a control, a tenth of
  the customers see today's setting.
- **A/B/n test**: at first, equal parts of the customers see today's setting and 7 others of a
  Sobol sequence. Then everybody sees the one with the best mean. The length of the test was
  chosen on the shops 1000 to 1019 (below).
- **Thompson sampling**: the arms are today's setting and 15 others of the same sequence. The
  share of an arm is the probability that it is the best one. In each period it is computed from
  a normal model. The model has an effect of each period that all arms share, so the day of the
  week does no harm. Its prior was chosen on the shops 1000 to 1019.
"""


def write_page() -> None:
    """Write the page and the picture of all records."""
    found = _by_tool(RECORDS)
    lines = [HEAD, *_table(found), "", *_verdict(found), "", *_choosing(), "", _foot(found), ""]
    PAGE.write_text("\n".join(lines))
    _picture(found)


def _by_tool(path: Any) -> dict[str, dict[int, dict[str, Any]]]:
    found: dict[str, dict[int, dict[str, Any]]] = defaultdict(dict)
    for record in read(path):
        found[record["tool"]][record["seed"]] = record
    return found


def _losses(found: dict[str, dict[int, dict[str, Any]]], tool: str, seeds: list[int]) -> Array:
    return np.array([found[tool][seed]["lost"] for seed in seeds])


def _shared(found: dict[str, dict[int, dict[str, Any]]], *tools: str) -> list[int]:
    """The shops that all of these have met."""
    return sorted(set.intersection(*(set(found[tool]) for tool in tools)))


def _plus_minus(values: Array, digits: int) -> str:
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else float("nan")
    return f"{values.mean():z.{digits}f} ± {error:.{digits}f}"


def _ratio(found: dict[str, dict[int, dict[str, Any]]], tool: str, other: str) -> str:
    """The geometric mean of the ratios in each shop, with its standard error."""
    seeds = _shared(found, tool, other)
    if len(seeds) < 2:
        return "–"
    logs = np.log(_losses(found, tool, seeds) / _losses(found, other, seeds))
    mean = float(np.exp(logs.mean()))
    return f"{mean:.2f} ± {mean * logs.std(ddof=1) / len(logs) ** 0.5:.2f}"


def _table(found: dict[str, dict[int, dict[str, Any]]]) -> list[str]:
    lines = [
        "| | loss, % of what the best setting earns | ours / this, geometric mean | shops |",
        "|---|---|---|---|",
    ]
    names = {OURS: "**ours**", PLAIN: "ours, no row ends early (`end_early=0`)", **RIVALS}
    for tool, name in names.items():
        seeds = sorted(found[tool])
        if not seeds:
            continue
        losses = 100 * _losses(found, tool, seeds)
        against = "" if tool == OURS else _ratio(found, OURS, tool)
        lines.append(f"| {name} | {_plus_minus(losses, 2)} | {against} | {len(seeds)} |")
    return lines


def _verdict(found: dict[str, dict[int, dict[str, Any]]]) -> list[str]:
    tools = [tool for tool in RIVALS if found[tool]]
    seeds = _shared(found, OURS, *tools)
    if not seeds:
        return []
    means = {tool: _losses(found, tool, seeds).mean() for tool in tools}
    best = min(means, key=lambda tool: means[tool])
    ours = _losses(found, OURS, seeds)
    share = ours.mean() / means[best]
    each = np.min([_losses(found, tool, seeds) for tool in tools], axis=0)
    lines = [
        f"The rival with the smallest mean loss is {RIVALS[best]}. Over {len(seeds)} shops,"
        f" the mean loss of ours is {share:.2f} times the mean loss of this rival. (The table has"
        " another average: the geometric mean of the ratios in each shop.)"
        f" The bar was at most 0.5, so it is"
        f" {'met' if share <= 0.5 else 'not met'}."
        + ("" if len(seeds) >= 20 else " With fewer than 20 shops this is no result yet.")
        + f" In {int((ours <= each / 2).sum())} of the shops it loses at most half of what the best"
        " rival of that shop loses."
    ]
    if both := _shared(found, OURS, PLAIN):
        early, late = (_losses(found, tool, both) for tool in (OURS, PLAIN))
        saved = 100 * (late - early)
        lines += [
            "",
            f"The loss without early ends, minus the loss with them, is {_plus_minus(saved, 2)}"
            " percentage points.",
        ]
    return [*lines, "", "![The loss by period, mean over the shops](shop.png)"]


def _choosing() -> list[str]:
    found = _by_tool(CHOOSING)
    lines = [
        "## How the rivals were chosen",
        "",
        "The mean loss, in %, in the shops 1000 to 1019:",
        "",
        "| | loss | shops |",
        "|---|---|---|",
    ]
    for tool in sorted(found):
        losses = 100 * _losses(found, tool, sorted(found[tool]))
        lines.append(f"| {tool} | {_plus_minus(losses, 2)} | {len(losses)} |")
    note = (
        "The number beside a test is its length in periods. The number beside Thompson sampling is"
        " the prior sd of an arm, divided by the mean."
    )
    return [*lines, "", note]


def _foot(found: dict[str, dict[int, dict[str, Any]]]) -> str:
    every = [record for tool in REPORTED for record in found[tool].values()]
    commits = ", ".join(sorted({record["commit"] for record in every}))
    seconds = np.mean([record["seconds"] for record in found[OURS].values()] or [float("nan")])
    return f"A run of ours took {seconds:.0f} s of CPU time for its 50 tables. Commits: {commits}."


def _picture(found: dict[str, dict[int, dict[str, Any]]]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 4.2), layout="constrained")
    ax = figure.add_subplot(xlabel="period", ylabel="loss so far, % of what the best would earn")
    names = {OURS: "ours", **RIVALS}
    for tool, name in names.items():
        if curves := [record["curve"] for record in found[tool].values()]:
            mean = 100 * np.array(curves).mean(axis=0)
            periods = 5 * np.arange(1, len(mean) + 1)
            ax.plot([0, *periods], [0.0, *mean], label=name, lw=2.4 if tool == OURS else 1.3)
    ax.set(xlim=(0, 50), ylim=(0, None))
    ax.legend(frameon=False, fontsize=9)
    figure.savefig(PAGE.with_suffix(".png"), dpi=120)


if __name__ == "__main__":
    write_page()
