"""Check the claims of the paper's section 5 against the recorded runs.

A claim has parts.  Each part *holds*, *fails* or is *open*, by the rule of the claim.  A claim is

- confirmed, if all of its parts hold;
- contradicted, if a part fails (the verdict says how many);
- unclear otherwise, and always if a cell has fewer than `ENOUGH` seeds.

The "region" of a policy is the 95 % interval of its mean R_N.  Policies "overlap" if their regions
do, which is how the paper argues.  A *difference* is the paired difference.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from regretless._internal.arrays import Array
from regretless.experiments.analyse import Cell, Interval, Results, difference, paired, short
from regretless.experiments.specs import FUNCTIONS, MAIN

ENOUGH = 30  # with fewer seeds, regions overlap because there are few seeds
NEARLY = 0.05  # "nearly identical" means a difference of less than this share
_DRAWS, _SELDOM = 2000, 0.025  # bootstrap samples; a claim fails if it is true in a smaller share

Means = Mapping[str, Array]  # mean curves by policy


@dataclass(frozen=True)
class Part:
    """A part of a claim that can be checked."""

    function: str
    text: str
    holds: bool | None  # None if it is open
    about: frozenset[str]  # the policies that it is about

    @property
    def mark(self) -> str:
        return {True: "yes", False: "no", None: "open"}[self.holds]


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, with the results of its check."""

    key: str
    says: str  # the claim in words
    rule: str  # how its parts are checked
    parts: tuple[Part, ...]
    seeds: int  # the smallest number of seeds of the cells that it needs

    @property
    def verdict(self) -> str:
        marks = [part.holds for part in self.parts]
        if not marks or self.seeds < ENOUGH:
            return f"unclear (R = {self.seeds})"
        failed = marks.count(False)
        if failed:
            return f"contradicted in {failed} of {len(marks)} parts"
        return "confirmed" if all(marks) else "unclear"


def claims(results: Results) -> list[Claim]:
    """All claims, checked against the results."""
    return [_judge(results, *row) for row in _CLAIMS]


def _judge(
    results: Results,
    key: str,
    functions: tuple[str, ...],
    says: str,
    rule: str,
    check: Callable[[Board], Iterator[Part]],
) -> Claim:
    parts: list[Part] = []
    seeds: list[int] = []
    for function in functions:
        cells = {policy: results.get(function, policy) for policy in MAIN}
        there = {policy: cell for policy, cell in cells.items() if cell is not None}
        seeds += [cell.count if cell else 0 for cell in cells.values()]
        if len(there) == len(MAIN):
            parts += check(Board(function, there))
    return Claim(key, says, rule, tuple(parts), min(seeds))


@dataclass(frozen=True)
class Board:
    """The five policies on one function, with the checks that the claims need."""

    function: str
    cells: dict[str, Cell]

    @property
    def means(self) -> Means:
        return {policy: cell.curves.mean(axis=0) for policy, cell in self.cells.items()}

    def part(self, text: str, holds: bool | None, *about: str) -> Part:
        return Part(self.function, text, holds, frozenset(about))

    def gap(self, one: str, other: str, at: int | None = None) -> Interval:
        found = paired(self.cells[one], self.cells[other], at)
        return found if found is not None else Interval(float("nan"), float("inf"), 0)

    def smallest(self, policy: str) -> Part:
        """Holds if the policy's mean R_N is the smallest; fails if another is clearly better."""
        means = {name: cell.regret().mean for name, cell in self.cells.items()}
        best = min(means, key=lambda name: means[name])
        beaten = [o for o in MAIN if o != policy and self.gap(o, policy).high < 0]
        text = f"{policy} has the smallest mean ({short(means[policy])}"
        text += ")" if best == policy else f"; {best} has {short(means[best])})"
        return self.part(text, True if best == policy else False if beaten else None, policy)

    def judged(self, condition: Callable[[Means], bool]) -> bool | None:
        """Check a condition on the mean curves.

        Returns:
            True if it holds; False if it holds for less than `_SELDOM` of the bootstrap samples of
            the seeds; None otherwise.
        """
        common = set.intersection(*(set(cell.seeds.tolist()) for cell in self.cells.values()))
        if not common:
            return None
        curves = {
            name: cell.curves[np.isin(cell.seeds, list(common))]
            for name, cell in self.cells.items()
        }
        if condition({name: each.mean(axis=0) for name, each in curves.items()}):
            return True
        count = len(common)
        draws = np.random.default_rng(0).multinomial(count, [1 / count] * count, _DRAWS) / count
        means = {name: draws @ each for name, each in curves.items()}
        true = [condition({name: each[i] for name, each in means.items()}) for i in range(_DRAWS)]
        return False if np.mean(true) < _SELDOM else None

    def overlap(self, *policies: str) -> Part:
        """Holds if all pairs of regions overlap; fails otherwise."""
        apart = [
            f"{a} and {b}"
            for a, b in combinations(policies, 2)
            if not self.cells[a].regret().overlaps(self.cells[b].regret())
        ]
        text = f"{', '.join(policies)} overlap" + (f" (not {'; '.join(apart)})" if apart else "")
        return self.part(text, not apart, *policies)

    def below(self, policy: str, *others: str) -> Iterator[Part]:
        """Holds if the policy's region is entirely below the other's; fails otherwise."""
        mine = self.cells[policy].regret()
        for other in others:
            theirs = self.cells[other].regret()
            text = f"{policy}'s region ({mine}) lies below {other}'s ({theirs})"
            yield self.part(text, mine.high < theirs.low, policy, other)


def _identical(board: Board) -> Iterator[Part]:
    scale = board.cells["ei"].regret().mean
    gap = board.gap("ei-nguyen", "ei")
    limit = NEARLY * scale
    within = -limit < gap.low and gap.high < limit
    outside = gap.low > limit or gap.high < -limit
    text = f"difference {gap}, {100 * gap.mean / scale:+.1f} % of EI's {short(scale)}"
    yield board.part(text, True if within else False if outside else None, "ei", "ei-nguyen")


def _badly(board: Board) -> Iterator[Part]:
    best = min(MAIN, key=lambda policy: board.cells[policy].regret().mean)
    rank = sorted(MAIN, key=lambda policy: board.cells[policy].regret().mean).index("gp-ts") + 1
    mine, theirs = board.cells["gp-ts"].regret(), board.cells[best].regret()
    text = f"gp-ts is number {rank} of {len(MAIN)} ({mine}; best {best}, {theirs})"
    yield board.part(text, mine.low > theirs.high, "gp-ts")


def _eic_wins(board: Board) -> Iterator[Part]:
    yield board.smallest("eic")
    yield board.overlap("eic", "gp-ucb")
    yield from board.below("eic", "ei", "ei-nguyen", "gp-ts")


def _schwefel(board: Board) -> Iterator[Part]:
    yield board.smallest("gp-ucb")
    yield board.overlap("gp-ucb", "eic", "ei-nguyen", "ei")


def _ackley(board: Board) -> Iterator[Part]:
    early = 100
    for at, leader, other in ((early, "gp-ucb", "eic"), (None, "eic", "gp-ucb")):
        if at is not None and at > board.cells["eic"].budget:
            continue
        gap = board.gap(leader, other, at)
        when = "at the end" if at is None else f"after {at} evaluations"
        text = f"{leader} leads {when} (difference to {other} {gap})"
        yield board.part(
            text, True if gap.high < 0 else False if gap.low > 0 else None, "eic", "gp-ucb"
        )
    crossing = _below_since(board.means, "eic", ("gp-ucb",))
    text = f"eic's mean is below gp-ucb's for good from evaluation {crossing} on"
    if crossing > board.cells["eic"].budget:
        text = "eic's mean never gets below gp-ucb's for good"
    holds = board.judged(lambda means: 250 < _below_since(means, "eic", ("gp-ucb",)) <= 451)
    yield board.part(text, holds, "eic", "gp-ucb")


def _below_since(means: Means, policy: str, others: Sequence[str]) -> int:
    """The evaluation from which on the policy's mean remains below the others'.

    If it never does, that is the number of evaluations plus 1.
    """
    least = np.min([means[other] for other in others], axis=0)
    behind = np.flatnonzero(means[policy] >= least)
    return 2 + int(behind[-1]) if len(behind) else 1


def _levy(board: Board) -> Iterator[Part]:
    yield board.overlap("ei-nguyen", "ei", "gp-ucb", "eic")
    eic, last = board.cells["eic"], 36
    if last >= eic.budget:
        return
    for other in ("ei", "ei-nguyen", "gp-ucb"):
        cell = board.cells[other]
        mine, theirs = eic.slope(last), cell.slope(last)
        gap = difference(eic, cell, mine, theirs)
        text = (
            f"after evaluation 600 eic loses {short(float(mine.mean()))} a step,"
            f" {other} {short(float(theirs.mean()))}"
        )
        holds = None if gap is None else True if gap.high < 0 else False if gap.low > 0 else None
        yield board.part(text, holds, "eic", other)


def _mlp(board: Board) -> Iterator[Part]:
    yield board.overlap("gp-ucb", "ei-nguyen", "ei")
    others = [policy for policy in MAIN if policy != "eic"]
    since, budget = _below_since(board.means, "eic", others), board.cells["eic"].budget
    text = f"is smallest from evaluation {since} on"
    if since > budget:
        text = "is never smallest for good"
    latest = min(186, budget)  # 150 iterations, with or without the 36 of the initial design
    holds = board.judged(lambda means: _below_since(means, "eic", others) <= latest)
    yield board.part(f"eic's mean {text}", holds, "eic")
    yield from board.below("eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts")


_Row = tuple[str, tuple[str, ...], str, str, Callable[[Board], Iterator[Part]]]
_CLAIMS: Sequence[_Row] = (
    (
        "C1",
        FUNCTIONS,
        "EI and EI-Nguyen (κ = 1e-4) are nearly identical on all six functions.",
        "per function: the interval of the difference lies within ±5 % of EI's mean (holds) or "
        "wholly outside (fails)",
        _identical,
    ),
    (
        "C2",
        FUNCTIONS,
        "GP-TS does not perform well across functions.",
        "per function: its region lies above the best policy's (holds) or not (fails)",
        _badly,
    ),
    (
        "C3",
        ("eggholder-2", "griewank-6", "hartmann-6"),
        "On Eggholder-2, Griewank-6 and Hartmann-6 EIC has the smallest mean R_N; its region"
        " overlaps GP-UCB's, but not EI's, EI-Nguyen's or GP-TS's.",
        "per function: smallest mean (fails if another's difference is below 0), overlap, and"
        " three times a region wholly below",
        _eic_wins,
    ),
    (
        "C4",
        ("schwefel-2",),
        "On Schwefel-2 GP-UCB has the smallest R_N, but GP-UCB, EIC, EI-Nguyen and EI overlap.",
        "smallest mean (fails if another's difference is below 0), each pair of regions overlaps",
        _schwefel,
    ),
    (
        "C5",
        ("ackley-2",),
        "On Ackley-2 GP-UCB leads at first; EIC overtakes it after about 350 iterations.",
        "the difference after 100 evaluations, that at the end, and the last crossing of the means"
        " between evaluations 250 and 450 (fails if it is there in under 2.5 % of 2000 bootstrap"
        " samples of the seeds)",
        _ackley,
    ),
    (
        "C6",
        ("levy-4",),
        "On Levy-4 EI-Nguyen, EI, GP-UCB and EIC are similar; EIC flattens after 600 iterations"
        " while the others go on growing.",
        "each pair of regions overlaps; EIC's mean regret in the last 36 evaluations is smaller"
        " than each other's (difference)",
        _levy,
    ),
    (
        "C7",
        ("mlp",),
        "On the MLP GP-UCB, EI-Nguyen and EI overlap; EIC is smallest after 150 iterations, and its"
        " region is disjoint from the others'.",
        "each pair of regions overlaps; EIC's mean is smallest from evaluation 186 (150 + n_0) on"
        " at the latest (fails if so in under 2.5 % of 2000 bootstrap samples of the seeds); its"
        " region lies wholly below each other's",
        _mlp,
    ),
)


def agreement(
    results: Results, roles: Mapping[str, str], keys: Sequence[str] = ()
) -> tuple[int, int]:
    """Count the parts of the paper's claims that hold if one setting of a policy replaces another.

    The setting that the paper used should make more parts hold than other settings do.

    Args:
        results: the results.
        roles: maps policies of the figures to those that take their place.  Only parts about the
            first of them count, on the functions of Figure 2.
        keys: the claims to count; all if it is empty.

    Returns:
        The number of parts that hold, and the number of all parts.
    """
    there = {f for f in FUNCTIONS if all(results.get(f, name) for name in roles.values())}
    role = next(iter(roles))
    parts = [
        part
        for claim in claims(results.replaced(roles))
        for part in claim.parts
        if part.function in there and role in part.about and (not keys or claim.key in keys)
    ]
    return sum(part.holds is True for part in parts), len(parts)
