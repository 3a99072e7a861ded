"""How often the 95 % intervals of our own tool hold the truth, as results come in.

A run is an instance of a family with a budget of 100. After 8, 12, 20, 30, 50 and 100 results it is
asked for `best()`, whose interval holds f there or not, and for `predict` at 20 points that are
uniform in the space. With sem, every result is told with the true standard deviation of its noise.
Records are lines of JSON in `<family>/<tool>.jsonl`; existing ones are skipped.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from benchmarks.families.base import Instance
from benchmarks.families.runs import ROOT
from benchmarks.families.table import CHOOSE, FAMILIES, instance
from benchmarks.families.tools import is_ours, tool

import regretless as rl
from regretless.defaults import defaults_of
from regretless.experiments.progress import progress
from regretless.experiments.records import only_runner
from regretless.experiments.runner import stamp

RECORDS = ROOT / "docs" / "results" / "coverage" / "records"
MARKS = (8, 12, 20, 30, 50, 100)
POINTS = 20
_POINTS_STREAM = 0x636F766572


@dataclass(frozen=True)
class Held:
    """One run: for each mark whether best's interval held f, and how many of predict's did."""

    family: str
    tool: str
    sem: bool
    seed: int
    best: list[bool]
    predict: list[int]
    commit: str

    @property
    def key(self) -> tuple[str, str, bool, int]:
        return self.family, self.tool, self.sem, self.seed


def versioned(name: str) -> str:
    """`regretless` means the newest defaults; a record names their number."""
    return name if "@" in name else f"{name}@{defaults_of().version}"


def run(family: str, name: str, sem: bool, seed: int, marks: Sequence[int] = MARKS) -> Held:
    task = instance(family, seed)
    optimizer = rl.Optimizer(task.space, marks[-1], seed=seed, **tool(name).settings)
    best, predict = [], []
    for number in range(marks[-1]):
        trial = optimizer.ask()
        value = task.observe(trial.params, task.number, number)
        optimizer.tell(trial, value, sem=task.scatter(trial.params) if sem else None)
        if number + 1 in marks:
            top = optimizer.best()
            best.append(bool(top.low <= task.f(top.params) <= top.high))
            predict.append(_held(optimizer, task, number))
    return Held(family, name, sem, seed, best, predict, stamp().versions()["commit"])


def _held(optimizer: rl.Optimizer, task: Instance, number: int) -> int:
    rng = np.random.default_rng([_POINTS_STREAM, task.number, number])
    count = 0
    for x in task.space.spread(rng.random((POINTS, task.space.dim))):
        params = task.space.decode(x)
        mean, sd = optimizer.predict(params)
        count += abs(task.f(params) - mean) <= 1.96 * sd
    return int(count)


def run_all(families: Sequence[str], names: Sequence[str], seeds: range, root: Path) -> None:
    """Run what has no record yet, seed by seed."""
    wrong = [name for name in names if not is_ours(name)]
    if wrong:
        raise SystemExit(f"--coverage: only our own tool has intervals, got {', '.join(wrong)}")
    names = [versioned(name) for name in names]
    wanted = [
        (family, name, sem, seed)
        for seed in seeds
        for name in names
        for family in families
        for sem in (False, True)
    ]
    with only_runner(root):
        known = {held.key for held in read(root)}
        todo = [key for key in wanted if key not in known]
        with progress(len(wanted), len(wanted) - len(todo), "coverage") as advance:
            for key in todo:
                held = run(*key)
                path = root / held.family / f"{held.tool}.jsonl"
                path.parent.mkdir(parents=True, exist_ok=True)
                with path.open("a") as file:
                    file.write(json.dumps(asdict(held), separators=(",", ":")) + "\n")
                advance(1, f"{held.family}/{held.seed}")


def read(root: Path) -> list[Held]:
    lines = [
        line for path in sorted(root.rglob("*.jsonl")) for line in path.read_text().splitlines()
    ]
    return [Held(**json.loads(line)) for line in lines if line.endswith("}")]


# -- the table -------------------------------------------------------------------------------------


def table(root: Path = RECORDS) -> str:
    """Markdown: over all families for every version, then by family for the newest one."""
    records = [held for held in read(root) if held.family in CHOOSE]
    if not records:
        return ""
    tools = sorted({held.tool for held in records}, key=_order)
    head = ["", *(f"after {mark}" for mark in MARKS)]
    rows = [
        [f"{name}, `{what}`, {_SEM[sem]}", *_shares(_of(records, name, sem), what)]
        for name in tools
        for what in ("best", "predict")
        for sem in (False, True)
    ]
    parts = [
        "Per cent of 95 % intervals that held the truth, over all families for choosing"
        f" ({_count(records, tools[-1])} runs of {tools[-1]} without sem, as many with it)."
        f" `best` is one interval a run, `predict` {POINTS} at uniform points. The standard error"
        " is in brackets, by instances.\n",
        _markdown(head, rows),
    ]
    newest = [held for held in records if held.tool == tools[-1]]
    for what in ("best", "predict"):
        rows = [
            [
                family,
                *(
                    f"{a} / {b}"
                    for a, b in zip(
                        _shares(_of(here, tools[-1], False), what, brackets=False),
                        _shares(_of(here, tools[-1], True), what, brackets=False),
                        strict=True,
                    )
                ),
            ]
            for family in FAMILIES
            if (here := [held for held in newest if held.family == family])
        ]
        parts.append(f"\n`{what}` of {tools[-1]} by family, without sem / with sem:\n")
        parts.append(_markdown(head, rows))
    return "\n".join(parts) + "\n"


_SEM = {False: "without sem", True: "with sem"}


def _order(name: str) -> tuple[int, str]:
    plain, _, version = name.partition("@")
    return int(version or 0), plain


def _of(records: Iterable[Held], name: str, sem: bool) -> list[Held]:
    return [held for held in records if held.tool == name and held.sem == sem]


def _count(records: Iterable[Held], name: str) -> int:
    return len(_of(records, name, False))


def _shares(records: Sequence[Held], what: str, brackets: bool = True) -> list[str]:
    """A share for each mark, in per cent."""
    if not records:
        return ["–"] * len(MARKS)
    whole = 1 if what == "best" else POINTS
    shares = 100 * np.array([getattr(held, what) for held in records], dtype=float) / whole
    means = shares.mean(axis=0)
    if not brackets or len(records) < 2:
        return [f"{mean:.0f}" for mean in means]
    errors = shares.std(axis=0, ddof=1) / len(records) ** 0.5
    return [f"{mean:.1f} ({error:.1f})" for mean, error in zip(means, errors, strict=True)]


def _markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
