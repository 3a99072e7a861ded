"""All outside problems by name, by suite and by row of the page, and their instances."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from benchmarks.families.base import Instance
from benchmarks.outside import coco, simulations

SEEDS = range(20)
_NUMBERS = {
    "bbob, separable": ("bbob", range(1, 6)),
    "bbob, moderate": ("bbob", range(6, 10)),
    "bbob, ill-conditioned": ("bbob", range(10, 15)),
    "bbob, many hills": ("bbob", range(15, 20)),
    "bbob, weak structure": ("bbob", range(20, 25)),
    "bbob-noisy, moderate noise": ("noisy", range(101, 107)),
    "bbob-noisy, severe noise": ("noisy", range(107, 122)),
    "bbob-noisy, many hills": ("noisy", range(122, 131)),
    "bbob-mixint": ("mixint", (1, 6, 10, 15, 20)),
}
GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {f"simopt, {name}": (f"simopt-{name}",) for name in simulations.PROBLEMS}
    | {group: tuple(f"{suite}-f{k}" for k in ks) for group, (suite, ks) in _NUMBERS.items()}
)
"""Rows of the page, and the problems of each; COCO's are the groups of its suites."""
PROBLEMS = tuple(name for names in GROUPS.values() for name in names)
SUITES: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        suite: tuple(name for name in PROBLEMS if name.startswith(f"{suite}-"))
        for suite in ("simopt", "bbob", "noisy", "mixint")
    }
)


def instance(problem: str, seed: int) -> Instance:
    """The instance of a seed."""
    suite, _, which = problem.partition("-")
    if suite == "simopt":
        return simulations.simulation(which, seed)
    make = {"bbob": coco.bbob, "noisy": coco.noisy, "mixint": coco.mixint}[suite]
    return make(int(which.removeprefix("f")), seed)
