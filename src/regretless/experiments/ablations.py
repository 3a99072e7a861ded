"""The questions that the paper leaves open, as data: which policies answer them."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Ablation:
    """A question that the paper leaves open, with the policies and comparisons that answer it."""

    title: str
    policies: tuple[str, ...]
    pairs: tuple[tuple[str, str], ...]  # (policy, what it is compared with)


def against(reference: str, *policies: str) -> tuple[tuple[str, str], ...]:
    """Pairs of each policy and what it is compared with."""
    return tuple((policy, reference) for policy in policies)


_INCUMBENTS = ("observation", "domain", "quantile")
_EI_X = tuple(f"ei-{kind}" for kind in _INCUMBENTS)
_EIC_X = tuple(f"eic-{kind}" for kind in _INCUMBENTS)
_UCB = ("gp-ucb-4", "gp-ucb-9", "gp-ucb-cg", "gp-ucb-srinivas")

ABLATIONS = (
    Ablation(
        "EI's incumbent",
        ("ei", *_EI_X, "ei-nguyen", "ei-nguyen-observation"),
        (*against("ei", *_EI_X), ("ei-nguyen-observation", "ei-nguyen")),
    ),
    Ablation(
        "What the gate is worth, by incumbent",
        ("eic", "eic-unmerged", *_EIC_X, "ei", "ei-merged", *_EI_X),
        (("ei", "eic-unmerged"), ("ei-merged", "eic"), *zip(_EI_X, _EIC_X, strict=True)),
    ),
    Ablation("EIC's incumbent", ("eic", *_EIC_X), against("eic", *_EIC_X)),
    Ablation(
        "The rule for replicates",
        ("eic", "eic-unmerged", "ei-merged", "ei"),
        (("eic-unmerged", "eic"), ("ei", "ei-merged")),
    ),
    Ablation("GP-UCB's β", ("gp-ucb", *_UCB), against("gp-ucb", *_UCB)),
    Ablation("GP-TS's draws", ("gp-ts", "gp-ts-scaled"), against("gp-ts", "gp-ts-scaled")),
    Ablation(
        "The paper's start and model against this library's own",
        ("eic", "eic-defaults"),
        against("eic", "eic-defaults"),
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
