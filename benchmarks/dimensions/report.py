"""The page, from the records and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
from benchmarks.dimensions.problems import FAMILIES
from benchmarks.families.plot import draw
from benchmarks.families.report import cost_part, facts_part, ratio_table, start_part
from benchmarks.families.results import Ratio, Section
from benchmarks.families.runs import Run, read
from benchmarks.families.tools import is_ours
from benchmarks.peers.report import table

KEPT = 50
"""The seeds below this confirm; nothing is chosen by them."""
BARS = {"botorch-ucb": 0.9, "botorch-logei": 0.9, "optuna-tpe": 0.6}
WANTED = 8
"""Instances of each family."""
_HEAD = """# Many parameters

Written by `python -m benchmarks.dimensions --report` from the records beside it. Functions of 5
among 20, 50 or 100 parameters: hills, draws from a GP, sums of functions of one parameter each, and
curved valleys, in turn. Which five matter, and all else about a function, is drawn by the seed. The
noise is 0.05 to 0.5 of the spread of f, N = 200. All tools meet the same instances with the same
noise. The regret is exact, counts all trials with the start, and is in spreads of f. The best value
of each instance is found by a search that is told which parameters matter."""
_RULE = """## What was to confirm the rules

Written down before our tool ran on the seeds below {kept}. The rules for many parameters were
chosen by seeds from 100 on. Version 5 is run once on the seeds 0 to 7. It is confirmed if, for 50
and for 100 parameters, the geometric mean of its regret over that of a rival is at most 0.9 for
BoTorch's UCB and LogEI, at most 0.6 for Optuna's TPE, at most 1 for version 4, and if a run takes
at most 1/30 of BoTorch's CPU time.

BoTorch has its own prior, which grows with the number of parameters. Its model is fitted when the
data have grown by a tenth, from the last fit on, and its search is smaller than on the other pages:
a fit at every step takes several times as long. It begins with 14 Sobol points, as many as version
5; the first 14 trials of both are the same.

The table says how many of the instances each rival has run on. A bar that is met on fewer than 8
instances is not confirmed."""


def write(root: Path, page: Path) -> None:
    """Write the page, and its picture beside the records."""
    records = list(read(root).values())
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("\n\n".join(filter(None, _sections(records, root.parent, page.parent))) + "\n")


def _sections(records: list[Run], folder: Path, beside: Path) -> Iterable[str]:
    rows = {name: (name,) for name in FAMILIES}
    kept = Section.of(rows, [run for run in records if run.spec.seed < KEPT])
    chosen = Section.of(rows, [run for run in records if run.spec.seed >= KEPT])
    yield _HEAD
    yield _RULE.format(kept=KEPT)
    yield "## The confirmation"
    yield _bars(kept)
    yield _regrets(kept)
    yield ratio_table(kept)
    if kept.runs.get(kept.base):
        picture = folder / "dimensions.png"
        draw(kept, picture)
        yield f"![Regret of each tool over ours]({picture.relative_to(beside).as_posix()})"
    if chosen.runs:
        yield "## The seeds that the rules were chosen by"
        yield _regrets(chosen)
        yield ratio_table(chosen)
    yield start_part({"keep": kept})
    yield cost_part([kept])
    yield facts_part(records, FAMILIES)


def _bars(section: Section) -> str:
    """What was asked of our tool, and what it reached."""
    rows = []
    for row in section.rows:
        for tool in section.peers:
            regret = section.ratio(row, tool, section.base)
            time = section.ratio(row, tool, section.base, "cpu")
            bar = BARS.get(tool.partition("@")[0])
            if regret is None or time is None or bar is None or row == "of20":
                continue
            met = "met" if regret.inverse.mean <= bar else "**not met**"
            met += f", {WANTED} instances wanted" * (regret.count < WANTED)
            cells = [row, tool, str(regret.count), str(regret.inverse), f"{bar} ({met})"]
            rows.append([*cells, f"1/{time.mean:.1f}"])
    heads = ["", "rival", "instances", f"regret of {section.base} / its", "bar", "CPU time / its"]
    return table(heads, rows) if rows else "Too few records to compare."


def _regrets(section: Section) -> str:
    """The regrets themselves: geometric means, and each instance."""
    rows = []
    for row in section.rows:
        for tool in section.runs:
            own = sorted(section.of_tool(row, tool), key=lambda run: run.spec.seed)
            if own:
                found = [run.regret for run in own]
                mean = Ratio.of([float(np.log(regret)) for regret in found])
                listed = ", ".join(f"{regret:.0f}" for regret in found)
                name = f"**{tool}**" if is_ours(tool) else tool
                error = f" ± {mean.mean * mean.error:.0f}" if len(own) > 1 else ""
                rows.append([row, name, f"{mean.mean:.0f}{error}", listed])
    return table(["", "", "geometric mean", "each instance, by seed"], rows) if rows else ""
