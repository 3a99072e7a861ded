"""Write the results page: figures, tables and verdicts, from the records only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from regretless.design import centred_grid, grid_levels
from regretless.errors import StorageError
from regretless.experiments import records
from regretless.experiments.ablations import ABLATIONS, CANDIDATES, against
from regretless.experiments.analyse import Cell, Results, paired, short
from regretless.experiments.claims import Claim, agreement, claims
from regretless.experiments.pictures import draw_all
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.progress import span
from regretless.experiments.specs import FUNCTIONS, MAIN, SETTINGS, RunSpec


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
    images = draw_all(results, folder)
    text = "\n\n".join(_sections(results, {name: f"{folder.name}/{name}.png" for name in images}))
    page.write_text(text + "\n", encoding="utf-8")
    return text


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
        + _paired_table(results, against("eic", *MAIN[1:]))
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
- **Different from the paper:** If the posterior can't tell a new point from a tried one, EIC
  takes the tried one. `eic-unmerged` is exactly Algorithm 1. The claims are checked for it,
  too.
- **Pairing:** Evaluation k of seed s has the same noise for all policies.

The paper does not say everything: EI's incumbent, GP-UCB's β and GP-TS's draws are open. The
figures use the settings below for them. The ablations try the alternatives, and show which of
them agree best with the figures of the paper.

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
