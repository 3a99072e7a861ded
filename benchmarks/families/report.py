"""The page, from the records and nothing else; what is missing is said."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import median

import numpy as np
from benchmarks.families.plot import draw
from benchmarks.families.results import FALLBACK, SMALLEST, Ratio, Section
from benchmarks.families.runs import Run, read
from benchmarks.families.table import CHOOSE, FAMILIES, KEEP
from benchmarks.families.tools import tool as entry_of
from benchmarks.peers.report import table, versions

from regretless.experiments.progress import span

TODAY, EIC = "regretless@1", "regretless-eic@1"
"""The default that a new one is measured against, and EIC in its place."""
HALVES = {"keep": KEEP, "choose": CHOOSE}
_HEAD = """# Families of problems

Written by `python -m benchmarks.families --report` from the records beside it. A *family* is a
distribution over problems that look like live systems. Every seed draws a new instance: its shape,
its dimension, its noise (0.05 to 1 of the spread of f) and its budget N (30 to 200). The rules
were written before any run. They are in `benchmarks/families/__init__.py`.

`regretless@K` is regretless with version K of its defaults. [How the default was
chosen](default.md) says which versions are only candidates.

All tools get the same instances with the same noise. The regret counts all N trials, with the
start. The tables show the **regret of a tool divided by the regret of regretless**. Above 1,
regretless lost less. A number is the geometric mean over the instances that both have run, ±
its standard error. It is **bold** if it differs from 1 by two standard errors. A regret below
{smallest} spreads counts as {smallest}. *All* is the geometric mean of the rows."""


def write(root: Path, page: Path) -> None:
    """Write the page, and its pictures beside the records.

    Records of problems from outside, and of coverage, are looked for beside those of families.
    """
    records = list(read(root).values())
    others = list(read(root.parents[1] / "outside" / "records").values())
    page.parent.mkdir(parents=True, exist_ok=True)
    parts = list(sections(records, others, root.parent, page.parent))
    page.write_text("\n\n".join(part for part in parts if part) + "\n")


def sections(
    records: Sequence[Run], others: Sequence[Run], folder: Path, beside: Path
) -> Iterable[str]:
    halves = {half: _half(half, records) for half in HALVES}
    yield _HEAD.format(smallest=SMALLEST)
    yield "## The families that were kept for the end\n\n" + _kept(halves["keep"])
    yield bars(halves["keep"])
    yield ratio_table(halves["keep"])
    yield _picture(halves["keep"], folder / "keep.png", beside, "the families kept for the end")
    yield "## The families that a default may be chosen by"
    yield ratio_table(halves["choose"])
    yield _picture(halves["choose"], folder / "choose.png", beside, "the families for choosing")
    yield from outside_part(others, folder, beside)
    yield worse_part([*halves.values(), _outside(others)])
    yield coverage_part(folder.parent / "coverage" / "records")
    yield start_part(halves)
    yield cost_part([*halves.values()])
    yield facts_part([*records, *others])


def _half(half: str, records: Sequence[Run]) -> Section:
    return Section.of({name: (name,) for name in HALVES[half]}, records)


def _kept(section: Section) -> str:
    if section.base.startswith("regretless"):
        return (
            "Nothing was chosen by these. Each version of our default runs on them once, when it is"
            " finished."
        )
    return (
        "Nothing may be chosen by these. Our own tool has not run on them yet: it will, once, when"
        f" its default is finished. Until then the peers are compared with {section.base}."
    )


# -- regret ----------------------------------------------------------------------------------------


def ratio_table(section: Section) -> str:
    base = section.base
    tools = [name for name in section.runs if name != base]
    if not section.runs.get(base) or not tools:
        return "Too few records to compare."
    rows = []
    for row in section.rows:
        if section.count(row, base):
            own = section.of_tool(row, base)
            per_step = np.exp(np.mean([np.log(max(r.regret, SMALLEST) / r.N) for r in own]))
            cells = [_cell(section.ratio(row, name, base)) for name in tools]
            rows.append([row, str(len(own)), f"{per_step:.3f}", *cells])
    totals = [list(section.ratios(name, base).values()) for name in tools]
    over_all = [_cell(Ratio.over(found)) if found else "–" for found in totals]
    rows.append(["**all**", "", "", *over_all])
    heads = ["", "instances", f"{base}, regret / N", *(f"{name} / it" for name in tools)]
    return "\n\n".join(filter(None, [table(heads, rows), _unequal(section, tools, base)]))


def _cell(ratio: Ratio | None) -> str:
    if ratio is None:
        return "–"
    return f"**{ratio}**" if ratio.is_clear else str(ratio)


def _unequal(section: Section, tools: Sequence[str], base: str) -> str:
    """Which columns rest on fewer instances, said once for each tool."""
    fewer = []
    for name in tools:
        counts = [
            (section.shared(row, name, base), section.count(row, base)) for row in section.rows
        ]
        if any(mine < all_ for mine, all_ in counts):
            mine, all_ = (sum(numbers) for numbers in zip(*counts, strict=True))
            fewer.append(f"{name} {mine} of {all_}")
    return f"Instances of the tools that have fewer: {', '.join(fewer)}." if fewer else ""


def bars(section: Section) -> str:
    """What was asked of a new default, on the families that were kept."""
    new = section.base
    if not new.startswith("regretless") or new == TODAY:
        return ""
    lines = []
    before = section.ratios(TODAY, new)
    if before:
        total = Ratio.over([*before.values()])
        lines.append(
            f"Over all families {new} loses {1 / total.mean:.2f} times as much as {TODAY}"
            " (bar: 0.8)."
        )
    for name in (TODAY, EIC):
        found = section.ratios(name, new)
        if found:
            lines.append(f"Against {name}, more than 1.05 times on: {_worse(found)} (bar: none).")
    peers = {row: section.best_peer(row, new) for row in section.rows}
    best = {row: found for row, found in peers.items() if found is not None}
    if best:
        ratios = {row: ratio for row, (_, ratio) in best.items()}
        middle = 1 / median(ratio.mean for ratio in ratios.values())
        named = ", ".join(f"{row} {name}" for row, (name, _) in best.items())
        lines.append(
            f"Against the best peer of each family, more than 1.05 times on: {_worse(ratios)}"
            " (bar: none)."
        )
        lines.append(f"In the median family {middle:.2f} of the best peer's regret (bar: 0.5).")
        lines.append(f"The best peers: {named}.")
    fewest = min(section.count(row, new) for row in section.rows)
    lines.append(f"Instances of each family: {fewest} at least (bar: 20).")
    return "### The bars\n\n" + "\n".join(f"- {line}" for line in lines)


def _worse(found: Mapping[str, Ratio]) -> str:
    """Rows on which the base loses more than 1.05 times as much."""
    worse = [f"{row} ({1 / r.mean:.2f})" for row, r in found.items() if r.mean < 1 / 1.05]
    return ", ".join(worse) or "none"


def _picture(section: Section, path: Path, beside: Path, what: str) -> str:
    if not section.runs.get(section.base):
        return ""
    draw(section, path)
    return f"![Regret of each tool over ours, on {what}]({path.relative_to(beside).as_posix()})"


# -- the other parts -------------------------------------------------------------------------------


def outside_part(others: Sequence[Run], folder: Path, beside: Path) -> Iterable[str]:
    """Problems that nobody here wrote, where there are records of them."""
    if not others:
        return
    section = _outside(others)
    yield (
        "## Problems that nobody here wrote\n\nSimulations of simoptlib, and functions of COCO"
        " (coco-experiment). The list of problems, their noise and budgets were written before any"
        " run: `benchmarks/outside/__init__.py` has the rules. Nothing was chosen by them. An"
        " instance is a problem and a seed. f is exact everywhere. f* is exact for COCO's"
        " functions; for simulations it is the best value that a search found. As they are shipped,"
        " FIXEDSAN-1 and SAN-1 are the same network, and DYNAMNEWS-1 has no noise."
    )
    yield ratio_table(section)
    yield _picture(section, folder / "outside.png", beside, "problems that nobody here wrote")


def _outside(others: Sequence[Run]) -> Section:
    from benchmarks.outside.table import GROUPS

    return Section.of(GROUPS, others)


def worse_part(sections: Sequence[Section]) -> str:
    """Every row on which the newest default loses more than the one before, clear or not."""
    rows, count, new = [], 0, ""
    for section in sections:
        if section.base in (TODAY, FALLBACK):
            continue
        new = section.base
        found = section.ratios(TODAY, new)
        count += len(found)
        worse = {row: ratio.inverse for row, ratio in found.items() if ratio.mean < 1}
        rows += [[row, str(ratio.count), _cell(ratio)] for row, ratio in worse.items()]
    if not count:
        return ""
    return (
        f"## What got worse\n\n{new} loses more than {TODAY} on {len(rows)} of {count} rows of the"
        " tables above. The others got better or stayed.\n\n"
        + (table(["", "instances", f"{new} / {TODAY}"], rows) if rows else "")
    )


def coverage_part(root: Path) -> str:
    """Whether the intervals hold what they promise."""
    if not root.exists():
        return ""
    from benchmarks.families import coverage

    found = coverage.table(root)
    return f"## Whether intervals hold the truth\n\n{found}" if found else ""


def start_part(halves: Mapping[str, Section]) -> str:
    """Which part of the regret is the start's, and which the end's."""
    rows = []
    for section in halves.values():
        for name in section.runs:
            own = section.runs[name].values()
            total = sum(max(run.regret, SMALLEST) / run.N for run in own)
            parts = [100 * sum(getattr(r, what) / r.N for r in own) / total for what in _PARTS]
            simple = [r.simple for r in own if r.simple is not None]
            half = "kept" if section is halves.get("keep") else "choosing"
            rows.append(
                [name, half, *(f"{part:.0f} %" for part in parts), f"{np.median(simple):.3f}"]
            )
    if not rows:
        return ""
    return (
        "## When it is lost\n\nThe share of the regret that the first ten evaluations have, and the"
        " last fifth of them; then what the tool's own recommendation loses in the end, in spreads"
        " (median).\n\n" + table(["", "families", "first 10", "last 20 %", "recommendation"], rows)
    )


_PARTS = ("first", "last")


def cost_part(sections: Sequence[Section]) -> str:
    seconds: dict[str, list[float]] = defaultdict(list)
    for section in sections:
        for name, own in section.runs.items():
            seconds[name] += [run.cpu for run in own.values()]
    rows = [
        [name, str(len(own)), f"{np.mean(own):.2f}", f"{np.median(own):.2f}", f"{max(own):.1f}"]
        for name, own in seconds.items()
    ]
    if not rows:
        return ""
    return (
        "## What a run costs\n\nCPU seconds of all suggestions of a run, on one thread.\n\n"
        + table(["", "runs", "mean", "median", "most"], rows)
    )


def facts_part(records: Sequence[Run], families: Iterable[str] = FAMILIES) -> str:
    settings: dict[str, set[str]] = defaultdict(set)
    for run in records:
        settings[run.spec.tool].add(run.stamp.get("setting", ""))
    about = [
        f"- `{name}`: {entry_of(name).about.split(';')[0]}"
        + (f"; set: {' and '.join(sorted(found))}" if found != {""} else "")
        for name, found in sorted(settings.items())
    ]
    lines = [
        f"- **Runs:** {len(records)}, of which {sum(r.error is not None for r in records)} crashed;"
        f" {span(sum(run.cpu for run in records))} of CPU time in suggestions.",
        f"- **Seeds:** {_seeds(records)}.",
        f"- **Versions:** {versions(records)}.",
        f"- **Commits:** {_commits(records)}.",
    ]
    crashed = [f"- `{run.id}` crashed: {run.error}" for run in records if run.error]
    unseen = [name for name in families if not any(r.spec.family == name for r in records)]
    if unseen:
        lines.append(f"- **No run yet:** {', '.join(unseen)}.")
    return "## Tools, versions, crashes\n\n" + "\n".join([*about, *lines, *crashed])


def _seeds(records: Sequence[Run]) -> str:
    """The seeds of each tool, as ranges."""
    seeds: dict[str, set[int]] = defaultdict(set)
    for run in records:
        seeds[run.spec.tool].add(run.spec.seed)
    return ", ".join(f"{name} {_ranges(found)}" for name, found in sorted(seeds.items())) or "none"


def _ranges(numbers: Iterable[int]) -> str:
    """Whole numbers, as "0 to 7 and 100 to 107"."""
    ranges: list[list[int]] = []
    for number in sorted(numbers):
        if ranges and number == ranges[-1][1] + 1:
            ranges[-1][1] = number
        else:
            ranges.append([number, number])
    return " and ".join(f"{a} to {b}" if a < b else str(a) for a, b in ranges)


def _commits(records: Sequence[Run]) -> str:
    counts = Counter(run.stamp.get("commit") or "none" for run in records)
    return ", ".join(f"{commit} ({count} runs)" for commit, count in counts.most_common()) or "none"
