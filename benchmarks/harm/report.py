"""The page docs/results/harm.md, from the records."""

from __future__ import annotations

from collections import defaultdict

import numpy as np
from benchmarks.harm.runs import DIMS, FAMILIES, RECORDS, ROOT, SIZES, Run, read

PAGE = ROOT / "docs" / "results" / "harm.md"
Key = tuple[str, str, str, str]  # problem, method, size, noise


def grouped(part: str) -> dict[Key, dict[str, Run]]:
    found: dict[Key, dict[str, Run]] = defaultdict(dict)
    for run in read(part).values():
        problem, method, size, noise, seed = run.id.split("/")
        found[problem, method, size, noise][seed] = run
    return found


def exceeded(runs: list[Run], size: float) -> str:
    count = sum(run.worst > size for run in runs)
    return f"{count} of {len(runs)}"


def right() -> list[str]:
    groups = grouped("right")
    lines = ["| dimensions | " + " | ".join(f"L = {size:g}" for size in SIZES) + " |"]
    lines.append("|---|" + "---|" * len(SIZES))
    for d in DIMS:
        each = [list(groups[f"prior-{d}", "budget", str(size), "1.0"].values()) for size in SIZES]
        cells = [exceeded(runs, size) for runs, size in zip(each, SIZES, strict=True)]
        lines.append(f"| {d} | " + " | ".join(cells) + " |")
    every = [(run, float(key[2])) for key, runs in groups.items() for run in runs.values()]
    over = sum(run.worst > size for run, size in every)
    charged = np.mean([run.risk for run, _ in every])
    lines += [
        "",
        f"In all {over} of {len(every)} runs ({100 * over / len(every):.1f} %) ever lost more than"
        f" L; 5 % are allowed. The risk that the decisions were charged was"
        f" {100 * charged:.1f} % on average.",
    ]
    return lines


NAMES = {
    ("free", "None", "1.0"): "no loss budget",
    ("budget", "1.0", "1.0"): "L = 1",
    ("budget", "4.0", "1.0"): "L = 4",
    ("budget", "16.0", "1.0"): "L = 16",
    ("budget", "4.0", "0.25"): "L = 4, a quarter of the noise",
    ("budget", "4.0", "3.0"): "L = 4, three times the noise",
    ("budget-map", "4.0", "1.0"): "L = 4, a single fit instead of the ensemble",
    ("summed", "1.0", "1.0"): "summed bounds (CLUCB), L = 1",
    ("summed", "4.0", "1.0"): "summed bounds (CLUCB), L = 4",
    ("summed", "16.0", "1.0"): "summed bounds (CLUCB), L = 16",
}


def wrong() -> list[str]:
    groups = grouped("wrong")
    lines = [
        "| method | runs | lost more than L | regret | trials at the baseline |",
        "|---|---|---|---|---|",
    ]
    for (method, size, noise), name in NAMES.items():
        found = [run for f in FAMILIES for run in groups[f, method, size, noise].values()]
        if not found:
            continue
        over = "" if size == "None" else exceeded(found, float(size))
        regret = np.mean([_regret(run) for run in found])
        share = np.mean([run.cautious / run.N for run in found])
        lines.append(f"| {name} | {len(found)} | {over} | {regret:.1f} | {100 * share:.0f} % |")
    kept = [run for f in FAMILIES for run in groups[f, "free", "None", "1.0"].values()]
    regret = np.mean([run.keeping or 0.0 for run in kept])
    lines.append(f"| keep the baseline | {len(kept)} | | {regret:.1f} | 100 % |")
    return [*lines, "", *by_family(groups)]


SHAPES = {
    ("bowl", "budget", "0.1"): "a smooth hill in one dimension, L = 0.1",
    ("bowl", "budget", "0.3"): "the same, L = 0.3",
    ("bowl", "budget", "1.0"): "the same, L = 1",
    ("cliff", "budget", "4.0"): "a drop of 3 within a tenth of the range, L = 4",
    ("cliff", "budget-steps", "4.0"): "the same with `max_step` 0.1",
}


def shapes() -> list[str]:
    """Two shapes that a model may misjudge."""
    groups = grouped("shapes")
    lines = [
        "| shape | runs | lost more than L | worst loss | gain at the end, mean |",
        "|---|---|---|---|---|",
    ]
    for (problem, method, size), name in SHAPES.items():
        found = list(groups[problem, method, size, "1.0"].values())
        if found:
            worst = max(run.worst for run in found)
            gain = -np.mean([run.total for run in found])
            over = exceeded(found, float(size))
            lines.append(f"| {name} | {len(found)} | {over} | {worst:.2f} | {gain:.1f} |")
    return lines


def _regret(run: Run) -> float:
    return run.total + (run.keeping or 0.0)


def by_family(groups: dict[Key, dict[str, Run]]) -> list[str]:
    """The regret at L = 4 against summed bounds, on the same instances."""
    lines = [
        "| family | instances | regret, summed bounds / ours, L = 1 | L = 4 |",
        "|---|---|---|---|",
    ]
    for family in FAMILIES:
        cells, count = [], 0
        for size in ("1.0", "4.0"):
            ours, theirs = (groups[family, m, size, "1.0"] for m in ("budget", "summed"))
            both = sorted(ours.keys() & theirs.keys())
            count = len(both)
            mine, other = (
                np.mean([runs[s].total + (runs[s].keeping or 0.0) for s in both])
                if both
                else np.nan
                for runs in (ours, theirs)
            )
            cells.append(f"{other / mine:.2f}")
        lines.append(f"| {family} | {count} | {cells[0]} | {cells[1]} |")
    return lines


def write() -> None:
    PAGE.write_text(
        "\n".join(
            [
                "# The loss budget: how often it was exceeded, and what it costs",
                "",
                "Written by `python -m benchmarks.harm --part right` (and `wrong`), then"
                " `--report`. L and the regret are in units of the sd of f over the space."
                " `confidence` is 0.95. The records are in docs/results/harm.",
                "",
                "## The model is right",
                "",
                "Each function is drawn from the prior of the model that tunes it. A run has 30"
                " trials. *Ever* means that the true total loss exceeded L after some trial.",
                "",
                *right(),
                "",
                "## The model is wrong",
                "",
                "Instances of six families of benchmarks/families, 40 trials each, with the models"
                " that a user gets. The baseline is better than three quarters of the space."
                " Regret is the sum of f* - f(x) over the run.",
                "",
                *wrong(),
                "",
                "## Shapes that are hard to foresee",
                "",
                "40 trials each; losses are in the units of f. The hill is 2 to 6 high, so L is"
                " small beside what a trial far away would lose.",
                "",
                *shapes(),
                "",
            ]
        )
    )
    print(f"written: {PAGE}; records in {RECORDS}")


if __name__ == "__main__":
    write()
