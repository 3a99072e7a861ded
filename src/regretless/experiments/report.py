"""Write the results page: figures, tables and verdicts, from the records only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from regretless.design import centred_grid, grid_levels
from regretless.errors import MissingExtraError, StorageError
from regretless.experiments import records
from regretless.experiments.analyse import Cell, Results, paired, region, short
from regretless.experiments.claims import Claim, agreement, claims
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.progress import span
from regretless.experiments.specs import FIGURES, FUNCTIONS, MAIN, SETTINGS, RunSpec

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LABELS = {"eic": "EIC", "ei": "EI", "ei-nguyen": "EI-Nguyen", "gp-ucb": "GP-UCB", "gp-ts": "GP-TS"}
# Blue, orange and green are the colours of the paper.  Colour-blind readers can tell all five.
COLOURS = {
    "eic": "#0072B2",
    "ei": "#E69F00",
    "ei-nguyen": "#D55E00",
    "gp-ucb": "#009E73",
    "gp-ts": "#999999",
}


@dataclass(frozen=True)
class Ablation:
    """A question that the paper leaves open, with the policies and comparisons that answer it."""

    title: str
    policies: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]  # (policy, what it is compared with)


def _against(reference: str, *policies: str) -> tuple[tuple[str, str], ...]:
    return tuple((policy, reference) for policy in policies)


_INCUMBENTS = ("observation", "domain", "quantile")
_EI_X = tuple(f"ei-{kind}" for kind in _INCUMBENTS)
_EIC_X = tuple(f"eic-{kind}" for kind in _INCUMBENTS)
_UCB = ("gp-ucb-4", "gp-ucb-9", "gp-ucb-cg", "gp-ucb-srinivas")

ABLATIONS = (
    Ablation(
        "EI's incumbent",
        ("ei", *_EI_X, "ei-nguyen", "ei-nguyen-observation"),
        (*_against("ei", *_EI_X), ("ei-nguyen-observation", "ei-nguyen")),
    ),
    Ablation(
        "What the gate is worth, by incumbent",
        ("eic", "eic-unmerged", *_EIC_X, "ei", "ei-merged", *_EI_X),
        (("ei", "eic-unmerged"), ("ei-merged", "eic"), *zip(_EI_X, _EIC_X, strict=True)),
    ),
    Ablation("EIC's incumbent", ("eic", *_EIC_X), _against("eic", *_EIC_X)),
    Ablation(
        "The rule for replicates",
        ("eic", "eic-unmerged", "ei-merged", "ei"),
        (("eic-unmerged", "eic"), ("ei", "ei-merged")),
    ),
    Ablation("GP-UCB's β", ("gp-ucb", *_UCB), _against("gp-ucb", *_UCB)),
    Ablation("GP-TS's draws", ("gp-ts", "gp-ts-scaled"), _against("gp-ts", "gp-ts-scaled")),
    Ablation(
        "The paper's start and model against this library's own",
        ("eic", "eic-defaults"),
        _against("eic", "eic-defaults"),
    ),
)
# The settings that the paper may have used for a baseline.  The first key of each dict is the
# baseline.
CANDIDATES: tuple[tuple[str, tuple[dict[str, str], ...]], ...] = (
    (
        "EI",
        (
            {"ei": "ei", "ei-nguyen": "ei-nguyen"},
            {"ei": "ei-observation", "ei-nguyen": "ei-nguyen-observation"},
            # EI-Nguyen was not run with these, so C1, which compares the two, is left out.
            {"ei": "ei-domain"},
            {"ei": "ei-quantile"},
        ),
    ),
    (
        "GP-UCB",
        tuple({"gp-ucb": name} for name in ("gp-ucb", *_UCB)),
    ),
    ("GP-TS", ({"gp-ts": "gp-ts"}, {"gp-ts": "gp-ts-scaled"})),
)


def write_report(root: Path, page: Path) -> str:
    """Analyse the records, and write the results page and its figures.

    Args:
        root: the folder of the records.
        page: the file of the page; the figures are written to a folder with its name.

    Returns:
        The text of the page.

    Raises:
        StorageError: there are no records.
    """
    found = records.read(root)
    if not found:
        raise StorageError(f"{root}: no records there")
    results = Results.of(found.values())
    folder = page.with_suffix("")
    folder.mkdir(parents=True, exist_ok=True)
    images = _draw_all(results, folder)
    text = "\n\n".join(_sections(results, {name: f"{folder.name}/{name}.png" for name in images}))
    page.write_text(text + "\n", encoding="utf-8")
    return text


# -- text ------------------------------------------------------------------------------------------


def _sections(results: Results, images: dict[str, str]) -> Iterable[str]:
    verdicts = claims(results)
    yield _head(results)
    yield "## The claims\n\n" + _claims_table(verdicts)
    yield from (_claim_details(claim) for claim in verdicts if claim.parts)
    yield from _without_merging(results)
    for name, title in (
        ("fig1", "Figure 1: Ackley-2"),
        ("fig2", "Figure 2: six functions"),
        ("fig3", "Figure 3: a neural network on breast-cancer data"),
    ):
        if name in images:
            yield f"## {title}\n\n![{title}]({images[name]})\n\n*{_CAPTION}*"
    yield "## Final regret R_N\n\nMean ± 95 % half-width.\n\n" + _regret_table(results)
    yield (
        "## Paired differences to EIC\n\nR_N of the policy minus R_N of EIC on the same seeds;"
        " above 0 EIC is better. **Bold** where the 95 % interval excludes 0. EIC here is Algorithm"
        " 1 with our rule for replicates, which the others do not have; [what each of the two is"
        " worth](#what-the-gate-is-worth-by-incumbent) is below.\n\n"
        + _paired_table(results, _against("eic", *MAIN[1:]))
    )
    yield (
        "## The share of the initial design\n\nHow much of R_N was spent before the policy decided"
        " anything; in brackets the regret after it.\n\n" + _share_table(results)
    )
    yield from _ablations(results)
    yield from _agreements(results)
    yield "## What the policies did\n\n" + _behaviour_table(results)
    yield "## What it cost\n\n" + _cost_table(results)
    yield _crashes(results)


def _head(results: Results) -> str:
    cells = results.cells.values()
    total = sum(cell.cpu_seconds for cell in cells)
    runs = sum(cell.count + len(cell.crashed) for cell in cells)
    crashed = sum(len(cell.crashed) for cell in cells)
    made_by = "\n".join(
        f"  - {count} runs: regretless {s.version}, commit {s.commit or 'unknown'}, source"
        f" {s.source}, Python {s.python}, numpy {s.numpy}, scipy {s.scipy}"
        for s, count in sorted(results.stamps.items(), key=str)
    )
    return f"""# The paper's experiments
{_SMALL if _shrunk(results) else ""}
Section 5 of Hu, Wang, Dai, Low and Ng, *Adjusted Expected Improvement for Cumulative Regret
Minimization in Noisy Bayesian Optimization*, run again. This page is generated from the records
beside it (`python -m regretless.experiments analyse`); `python -m regretless.experiments all` makes
the records.

- **Runs:** {runs} ({crashed} of them crashed), seeds from 0 on.
- **R per cell:** {_seed_counts(results)}.
- **Made by** (source: a digest of the code):
{made_by}
- **CPU time:** {span(total)} in all, on one core a run.
- **Setting:** zero mean, SE kernel, maximum likelihood, centred grid of n_0 points (16, 36 and 64
  in 2, 4 and 6 dimensions; 36 is 3 × 3 × 2 × 2), N = 200 + n_0, and 600 + n_0 on Ackley-2 and
  Levy-4; noise sd 0.1. Ackley-2's sign is corrected and it is standardised; Eggholder-2's maximum
  is the true one (3.0310, not 2.769). On the MLP the zero mean is replaced by a fitted constant,
  since an accuracy can't be standardised beforehand, and the regret of an evaluation is 1 minus the
  accuracy observed.
- **Not the paper's:** EIC takes a sampled point again where the posterior can't tell the new one
  from it. `eic-unmerged` is Algorithm 1 to the letter; the claims are judged for it, too.
- **Pairing:** evaluation k of seed s meets the same noise whatever the policy.

Where the paper is silent (EI's incumbent, GP-UCB's β, GP-TS's draws) the figures use the settings
below. The ablations try the alternatives, and show which of them agree best with what the paper
reports.

{_settings(MAIN)}"""


_READINGS: tuple[tuple[str, dict[str, str]], ...] = (
    ("Algorithm 1 to the letter (`eic-unmerged` for `eic`)", {"eic": "eic-unmerged"}),
    ("EI merges replicates, too (`ei-merged` for `ei`)", {"ei": "ei-merged"}),
)
_ABOUT_EIC = ("C3", "C4", "C5", "C6")  # claims on EIC, on functions that have ablations


def _without_merging(results: Results) -> Iterable[str]:
    """The claims on EIC with and without the rule for replicates, which the paper does not have."""
    rows = []
    for reading, roles in (("as in the figures", {}), *_READINGS):
        if all(any(results.get(f, name) for f in FUNCTIONS) for name in roles.values()):
            found = {claim.key: claim for claim in claims(results.replaced(roles))}
            cells = [f"{_found(found[key])} (R ≥ {found[key].seeds})" for key in _ABOUT_EIC]
            rows.append([reading, *cells])
    if len(rows) < 2:
        return
    yield (
        "### The claims without the rule for replicates\n\nParts that hold:\n\n"
        + _table(["", *_ABOUT_EIC], rows)
    )


def _shrunk(results: Results) -> bool:
    """Whether a run has another budget than its problem, because it is a smoke run."""
    return any(
        cell.count and cell.budget != RunSpec("", function, policy, 0).problem.budget
        for (function, policy), cell in results.cells.items()
    )


def _seed_counts(results: Results) -> str:
    parts = []
    for name in ("fig2", "fig3", "ablations"):
        counts = [cell.count for cell in results.cells.values() if cell.figure == name]
        if counts:
            low, high = min(counts), max(counts)
            parts.append(f"{name} {low}" if low == high else f"{name} {low} to {high}")
    return ", ".join(parts)


def _settings(names: Sequence[str]) -> str:
    return "\n".join(f"- `{name}`: {SETTINGS[name].about}" for name in names)


def _claims_table(verdicts: Sequence[Claim]) -> str:
    rows = [[claim.key, claim.says, f"**{claim.verdict}**", _found(claim)] for claim in verdicts]
    return _table(["", "The paper says", "Our runs", "Parts that hold"], rows)


def _found(claim: Claim) -> str:
    if not claim.parts:
        return "no records"
    marks = [part.holds for part in claim.parts]
    unclear = marks.count(None)
    return f"{marks.count(True)} of {len(marks)}" + (f", {unclear} open" if unclear else "")


def _claim_details(claim: Claim) -> str:
    lines = [f"- {part.mark}: {part.function}: {part.text}" for part in claim.parts]
    return f"**{claim.key}** (R ≥ {claim.seeds}). Rule: {claim.rule}.\n\n" + "\n".join(lines)


def _functions(results: Results, policies: Iterable[str]) -> list[str]:
    """The functions on which one of these policies was run."""
    return [f for f in (*FUNCTIONS, "mlp") if any(results.get(f, policy) for policy in policies)]


def _grid(results: Results, policies: Sequence[str], entry: Callable[[Cell], str]) -> str:
    """A table with one row for each policy and one column for each function."""
    functions = _functions(results, policies)
    rows = []
    for policy in policies:
        cells = [results.get(function, policy) for function in functions]
        if any(cells):
            rows.append([f"`{policy}`", *(entry(cell) if cell else "–" for cell in cells)])
    return _table(["policy", *functions], rows)


def _regret_table(results: Results, policies: Sequence[str] = MAIN) -> str:
    return _grid(results, policies, lambda cell: f"{cell.regret()} (R = {cell.count})")


def _paired_table(results: Results, pairs: Sequence[tuple[str, str]]) -> str:
    rows, functions = [], _functions(results, [policy for policy, _ in pairs])
    for policy, reference in pairs:
        entries = [_gap(results, function, policy, reference) for function in functions]
        if any(entries):
            rows.append([f"`{policy}` − `{reference}`", *(entry or "–" for entry in entries)])
    return _table(["difference", *functions], rows)


def _gap(results: Results, function: str, policy: str, reference: str) -> str:
    mine, theirs = results.get(function, policy), results.get(function, reference)
    gap = paired(mine, theirs) if mine and theirs else None
    if gap is None:
        return ""
    text = str(gap) if gap.mean < 0 else f"+{gap}"
    return f"**{text}**" if gap.low > 0 or gap.high < 0 else text


def _share_table(results: Results) -> str:
    def entry(cell: Cell) -> str:
        share = cell.design_share
        return f"{100 * share:.0f} % ({short((1 - share) * cell.regret().mean)})"

    return _grid(results, MAIN, entry) + f"\n\n{_symmetries(results)}"


def _symmetries(results: Results) -> str:
    """How many different values a symmetric function has on the centred grid."""
    counts = []
    for function in _functions(results, MAIN):
        if function in PROBLEMS:
            problem = PROBLEMS[function]
            levels = grid_levels(problem.n0, problem.dim)
            values = np.unique(problem.f(centred_grid(levels)).round(9))
            counts.append(f"{function} {len(values)} of {problem.n0}")
    return (
        f"Different values of f among the points of the paper's grid: {', '.join(counts)}. Where"
        " all are the same, by symmetry, the start has taught nothing but the noise."
    )


def _ablations(results: Results) -> Iterable[str]:
    figure2 = Results({key: cell for key, cell in results.cells.items() if key[0] in FUNCTIONS})
    if not any(cell.figure == "ablations" for cell in figure2.cells.values()):
        return
    yield (
        "## What the paper leaves open\n\nAblations in the setting of Figure 2. First R_N, then"
        " paired differences (**bold** where the 95 % interval excludes 0)."
    )
    for ablation in ABLATIONS:
        there = [policy for policy in ablation.policies if _functions(figure2, [policy])]
        pairs = [pair for pair in ablation.pairs if set(pair) <= set(there)]
        if pairs:
            yield "\n\n".join(
                [
                    f"### {ablation.title}",
                    _settings(there),
                    _regret_table(figure2, there),
                    _paired_table(figure2, pairs),
                ]
            )


def _agreements(results: Results) -> Iterable[str]:
    """How many parts of the paper's claims hold, for each setting."""
    rows = []
    for title, candidates in CANDIDATES:
        for roles in candidates:
            hold, count = agreement(results, roles, ("C2", "C3", "C4", "C5", "C6"))
            if count:
                names = ", ".join(f"`{name}`" for name in roles.values())
                seeds = min(_seeds(results, name) for name in roles.values())
                alike = _alike(results, roles)
                rows.append([title, names, str(seeds), alike, f"{hold} of {count}"])
    if len(rows) <= len(CANDIDATES):
        return
    table = _table(["baseline", "stands for it", "R", "C1", "C2 to C6"], rows)
    yield f"""## Which setting the paper most likely used

If a candidate stands in for the baseline, how many of the paper's statements about that baseline
come out true? This is evidence, not proof: no code of the authors is public, and where R is small
regions are wide and overlap easily. C1, that EI and EI-Nguyen are nearly identical, is counted
apart, and only where both have the same incumbent.

{table}

{_ARGUMENTS}"""


def _seeds(results: Results, policy: str) -> int:
    """The smallest number of seeds in a cell of this policy."""
    return min(cell.count for f in FUNCTIONS if (cell := results.get(f, policy)))


def _alike(results: Results, roles: Mapping[str, str]) -> str:
    if "ei" not in roles or "ei-nguyen" not in roles:
        return "–"
    hold, count = agreement(results, roles, ("C1",))
    return f"{hold} of {count}"


_SMALL = """
**A smoke test: a few evaluations a run, to try the pipeline. Nothing here says anything about the
policies, and n_0 and N are not those below.**
"""
_CAPTION = "Mean cumulative regret and its 95 % region; dotted: the end of the initial design."
_ARGUMENTS = """- **EI:** the paper defines α_n with ξ_n = max μ_n(x_i) and describes EI as EIC
  without its evaluation cost, so `ei` is the literal reading. It cites Nguyen et al. for
  ξ = max y_i.
- **GP-UCB:** only Srinivas et al. are cited, but with their β GP-UCB explores for the whole budget.
  A remark left in the paper's source says that an earlier figure had "a bad beta", with which
  GP-UCB was worse than EI, and considers tuning it; the published text has GP-UCB ahead of EI. So a
  small β was used in the end: `gp-ucb` (0.2 d log 2n, the usual one in practice) or a constant.
- **GP-TS:** Chowdhury and Gopalan are cited, whose v_n widens the posterior; the text blames "high
  randomness"."""


def _behaviour_table(results: Results) -> str:
    def entry(cell: Cell) -> str:
        shares = (cell.share(reason) for reason in ("explore", "exploit", "resample"))
        return " / ".join(f"{100 * share:.0f}" for share in shares) + (
            f"; {cell.typical('distinct'):.0f}"
        )

    explained = (
        "Evaluations in percent: explore (a new point, expected to be worse than the policy's own"
        " incumbent ξ) / exploit (a new point, expected to be no worse) / resample; then the number"
        " of distinct points."
    )
    return f"{explained}\n\n" + _grid(results, list(SETTINGS), entry)


def _cost_table(results: Results) -> str:
    def entry(cell: Cell) -> str:
        return f"{1000 * cell.cpu_seconds / (cell.count * cell.budget):.0f}"

    lines = []
    for name in ("fig2", "fig3", "ablations"):
        cells = [cell for cell in results.cells.values() if cell.figure == name]
        if cells:
            hours = sum(cell.cpu_seconds for cell in cells) / 3600
            steps = sum(cell.curves.size for cell in cells)
            runs = sum(cell.count for cell in cells)
            failed = sum(record.failed_fits for cell in cells for record in cell.records)
            fits = sum(record.fits for cell in cells for record in cell.records)
            lines.append(
                f"- {name}: {hours:.2f} CPU hours for {runs} runs, {steps} evaluations;"
                f" {fits} fits, of which {failed} failed and kept the earlier parameters"
            )
    return (
        "\n".join(lines)
        + "\n\nMilliseconds of CPU time per evaluation, everything included:\n\n"
        + _grid(results, list(SETTINGS), entry)
    )


def _crashes(results: Results) -> str:
    crashed = [record for cell in results.cells.values() for record in cell.crashed]
    if not crashed:
        return "No run crashed."
    lines = [f"- `{record.id}` after {len(record.steps)}: {record.error}" for record in crashed]
    return "## Crashes\n\nNot run again, and not in the tables:\n\n" + "\n".join(lines)


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


# -- pictures --------------------------------------------------------------------------------------


def _draw_all(results: Results, folder: Path) -> list[str]:
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure as Canvas
    except ImportError as error:
        raise MissingExtraError("experiments", "matplotlib") from error
    drawn = []
    for name in ("fig1", "fig2", "fig3"):
        figure = FIGURES[name]
        functions = [f for f in figure.functions if _functions(results, figure.policies).count(f)]
        if not functions:
            continue
        columns = min(2, len(functions))
        rows = -(-len(functions) // columns)
        # Avoid pyplot, which keeps state and may open a window.
        canvas = Canvas(figsize=(4.8 * columns + 1.2 * (columns == 1), 3.5 * rows), dpi=110)
        FigureCanvasAgg(canvas)
        axes = canvas.subplots(rows, columns, squeeze=False).ravel()
        for axis, function in zip(axes, functions, strict=False):
            _draw(axis, results, function, figure.policies)
        for axis in axes[len(functions) :]:
            axis.set_visible(False)
        canvas.tight_layout()
        canvas.savefig(folder / f"{name}.png", metadata={"Software": ""})
        drawn.append(name)
    return drawn


def _draw(axis: Axes, results: Results, function: str, policies: Sequence[str]) -> None:
    counts = set()
    # EI-Nguyen is drawn dashed over EI, because both are nearly equal.  EIC is drawn last.
    for policy in sorted(policies, key=lambda name: (name == "eic", name == "ei-nguyen")):
        cell = results.get(function, policy)
        if cell is None:
            continue
        counts.add(cell.count)
        mean, half = region(cell.curves)
        n = np.arange(1, cell.budget + 1)
        style = "--" if policy == "ei-nguyen" else "-"
        axis.plot(n, mean, style, color=COLOURS[policy], label=LABELS[policy], linewidth=1.4)
        if np.isfinite(half).all():
            axis.fill_between(
                n, mean - half, mean + half, color=COLOURS[policy], alpha=0.18, linewidth=0
            )
        axis.axvline(cell.records[0].design, color="#bbbbbb", linewidth=0.8, linestyle=":")
    seeds = f"{min(counts)}" if len(counts) == 1 else f"{min(counts)} to {max(counts)}"
    axis.set_title(f"{function} (R = {seeds})", fontsize=10)
    axis.set_xlabel("evaluations", fontsize=9)
    axis.set_ylabel("cumulative regret", fontsize=9)
    axis.tick_params(labelsize=8)
    axis.set_xlim(0)
    axis.set_ylim(0)
    axis.spines[["top", "right"]].set_visible(False)
    lines = dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    names = [LABELS[policy] for policy in policies if LABELS[policy] in lines]
    axis.legend([lines[name] for name in names], names, fontsize=8, frameon=False)
