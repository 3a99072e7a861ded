"""The page with the results of the benchmark, and its picture."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.contexts.problems import BUDGET, LEVEL, NOISE, SHARES
from benchmarks.contexts.runs import TOOLS

OURS, IGNORED = "contexts", "ignored"


def write(records: Path, page: Path) -> None:
    """Write the page of these records, and the picture beside it."""
    found: dict[tuple[str, str], dict[int, dict[str, Any]]] = defaultdict(dict)
    for line in records.read_text().splitlines():
        record = json.loads(line)
        found[record["family"], record["tool"]][record["seed"]] = record
    lines = [_head(), _table(found), "", *_bars(found), "", _foot(found)]
    page.write_text("\n".join(lines) + "\n")
    _picture(found, page.with_suffix(".png"))


def _seeds(found: Any, family: str) -> list[int]:
    """The instances that every tool has met."""
    return sorted(set.intersection(*(set(found[family, tool]) for tool in TOOLS)))


def _regrets(found: Any, family: str, tool: str) -> Any:
    return np.array([found[family, tool][s]["regret"] for s in _seeds(found, family)])


def _head() -> str:
    shares = ", ".join(f"`{family}`: {share:g}" for family, share in SHARES.items())
    return f"""# Contexts

`python -m benchmarks.contexts` and `--report` make this page. A problem has two parameters and
two contexts: one of four segments, whose frequencies are random, and the hour of the day. The
mean result is f(x, c) = g(c) + √(1 − w) a(x) + √w i(x, c). The functions g, a and i are drawn
from Gaussian processes. The share w of the interaction is {shares}. The sd of the noise is
{NOISE:g}, the sd of the common effect g is about {LEVEL:g}, and the sd over the settings is 1.
Every seed is a new instance, and every tool gets the same contexts and the same noise. The
budget is {BUDGET}. The table shows the total regret against the best setting of each context:
the mean over the instances, ± its standard error.

- `contexts`: the default with contexts. `ignored`: the default without them.
- `one each`: one optimiser per segment; each knows how often its segment will come.
- `contextual GP-UCB`: Krause and Ong (2011) on the same model as `contexts`, β = 0.2 d log 2n; and
  with β = 1, a width that suits these problems.

The setting of `contexts` (a tenth of the horizon) was chosen on other seeds. The row
`instances` says how many instances were run so far. Fewer than 20 are not enough for a
conclusion."""


def _table(found: Any) -> str:
    lines = ["| tool | " + " | ".join(SHARES) + " |", "|---|" + "---|" * len(SHARES)]
    for tool in TOOLS:
        cells = []
        for family in SHARES:
            r = _regrets(found, family, tool)
            error = r.std(ddof=1) / np.sqrt(len(r)) if len(r) > 1 else float("nan")
            cells.append(f"{r.mean():.1f} ± {error:.1f}" if len(r) else "")
        lines.append(f"| {tool} | " + " | ".join(cells) + " |")
    counts = " | ".join(str(len(_seeds(found, family))) for family in SHARES)
    return "\n".join(["", *lines, f"| instances | {counts} |"])


def _bars(found: Any) -> list[str]:
    lines = []
    for family, share in SHARES.items():
        if not _seeds(found, family):
            continue
        ours = _regrets(found, family, OURS).mean()
        if share == 0.0:
            ratio = ours / _regrets(found, family, IGNORED).mean()
            lines.append(f"- `{family}`: {ratio:.2f} × ignoring the context.")
            continue
        rivals = {t: _regrets(found, family, t).mean() for t in TOOLS if t != OURS}
        best = min(rivals, key=lambda tool: rivals[tool])
        lines.append(f"- `{family}`: {ours / rivals[best]:.2f} × the best rival, {best}.")
    return lines


def _foot(found: Any) -> str:
    every = [record for cell in found.values() for record in cell.values()]
    commits = ", ".join(sorted({record["commit"] for record in every}))
    mine = [
        record["cpu"] for (_, tool), c in found.items() if tool == OURS for record in c.values()
    ]
    step = 1000 * np.mean(mine) / BUDGET
    return f"Commit {commits}. A step of `contexts` took {step:.0f} ms of CPU time on average."


def _picture(found: Any, path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, len(SHARES), figsize=(12, 3.6), layout="constrained")
    for axis, family in zip(axes, SHARES, strict=True):
        seeds = _seeds(found, family)
        for tool in TOOLS if seeds else ():
            curves = np.array([found[family, tool][s]["curve"] for s in seeds])
            steps = 10 * np.arange(1, curves.shape[1] + 1)
            axis.plot(steps, curves.mean(axis=0), label=tool, lw=2.4 if tool == OURS else 1.2)
        axis.set_title(f"interaction: {family}")
        axis.set_xlabel("evaluations")
    axes[0].set_ylabel("total regret, mean over instances")
    axes[0].legend(fontsize=8)
    figure.savefig(path, dpi=110)
