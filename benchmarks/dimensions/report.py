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
BARS = {"botorch-ucb": 0.9, "botorch-logei": 0.9, "optuna-tpe": 0.6, "regretless": 1.0}
LESS_TIME = 30
"""BoTorch takes at least so many times our CPU time."""
WANTED = 8
"""Instances of each family."""
_HEAD = """# Many parameters

Written by `python -m benchmarks.dimensions --report` from the records beside it. In the rows
*of20*, *of50* and *of100*, the space has 20, 50 or 100 parameters, and the function depends on five
of
them. The functions are hills, draws from a GP, sums of functions of one parameter each, and curved
valleys, in turn. The seed determines which five parameters matter, and all else about a function.
The sd of the noise is 0.05 to 0.5 of the spread of f. A run has N = 200 trials. All tools get the
same instances with the same noise. The regret is computed from f without noise. It counts all
trials, with the start, and is in spreads of f. A search finds the best value of an instance; it is
told which parameters matter. `regretless@5` is regretless with version 5 of its defaults."""
_RULE = """## What was to confirm the rules

This was written down before our tool ran on the seeds below {kept}. The rules of version 5 for many
parameters were chosen by seeds from 100 on. Version 5 is run once on the seeds 0 to 7. A *ratio* is
the geometric mean of its regret divided by that of a rival. Version 5 is confirmed if all of this
holds, for 50 and for 100 parameters, on 8 instances each:

- The ratio is at most 0.9 for BoTorch's UCB and LogEI.
- It is at most 0.6 for Optuna's TPE.
- It is at most 1 for version 4.
- A run takes at most 1/30 of BoTorch's CPU time.

BoTorch has its own prior of length-scales, which grows with the number of parameters. A fit at
every step would take several times as long. So its model is fitted when the data have grown by a
tenth, and each fit begins at the last one. Its search is smaller than on the other pages. `@14`
means that it begins with 14 Sobol points, in place of 2d + 2. Version 5 begins with the same
points."""

_CAPTION = """\
The thick line is version 5. A tool to the right of it lost more than version 5, and a tool
to the left lost less. A mark without a bar is a single instance. *all* is the mean of the rows
that a tool
has, each with the same weight."""


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
        yield _CAPTION
    if chosen.runs:
        yield "## The seeds that the rules were chosen by"
        yield _regrets(chosen)
        yield ratio_table(chosen)
    yield start_part({"keep": kept})
    yield cost_part([kept])
    yield facts_part(records, FAMILIES)


def _bars(section: Section) -> str:
    """What was asked of our tool, and what it reached."""
    rows, wanting = [], 0
    for row in section.rows:
        for tool in section.runs:
            regret = section.ratio(row, tool, section.base)
            time = section.ratio(row, tool, section.base, "cpu")
            bar = BARS.get(tool.partition("@")[0])
            if regret is None or time is None or bar is None or row == "of20":
                continue
            met = "met" if regret.inverse.mean <= bar else "**not met**"
            met += f", {WANTED} instances wanted" * (regret.count < WANTED)
            cells = [row, tool, str(regret.count), str(regret.inverse), f"{bar} ({met})"]
            rows.append([*cells, f"1/{time.mean:.1f}"])
            slow = tool.startswith("botorch") and time.mean < LESS_TIME
            wanting += regret.inverse.mean > bar or regret.count < WANTED or slow
    heads = ["", "rival", "instances", f"regret of {section.base} / its", "bar", "CPU time / its"]
    if not rows:
        return "Too few records to compare."
    missing = 2 * len(BARS) - len(rows)  # two families, one row for each rival
    verdict = "Version 5 is confirmed."
    if wanting or missing:
        verdict = (
            f"**Version 5 is not confirmed.** {wanting} of {len(rows)} comparisons miss a bar or"
            f" have fewer than {WANTED} instances, and {missing} have not been run."
        )
    return table(heads, rows) + "\n\n" + verdict


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
