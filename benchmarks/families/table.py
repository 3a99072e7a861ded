"""All families by name, and their instances."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from benchmarks.families import choose, keep
from benchmarks.families.base import Blueprint, Instance, at, log_uniform, remembering
from benchmarks.families.learner import learner
from benchmarks.families.search import Facts, facts
from benchmarks.peers.problems import Params

OPTIMA = Path(__file__).with_name("optima.json")
NOISE = (0.05, 1.0)


@dataclass(frozen=True)
class Family:
    """A generator, its number in the random streams, and its half."""

    number: int
    half: str
    draw: Callable[[np.random.Generator], Blueprint]


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        "queue": Family(1, "choose", choose.queue),
        "price": Family(2, "choose", choose.price),
        "control": Family(3, "choose", choose.control),
        "learner": Family(4, "choose", learner),
        "gp-smooth": Family(5, "choose", choose.gp_smooth),
        "hills": Family(6, "choose", choose.one_to_six_hills),
        "sparse20": Family(7, "choose", choose.sparse20),
        "mixed": Family(8, "choose", choose.mixed),
        "inventory": Family(101, "keep", keep.inventory),
        "bids": Family(102, "keep", keep.bids),
        "yields": Family(103, "keep", keep.yields),
        "gp-rough": Family(104, "keep", keep.gp_rough),
        "database": Family(105, "keep", keep.database),
        "latency": Family(106, "keep", keep.latency),
        "ridge": Family(107, "keep", keep.ridge),
        "sparse50": Family(108, "keep", keep.sparse50),
        "many-hills": Family(109, "keep", keep.many_hills),
    }
)
CHOOSE = tuple(name for name, family in FAMILIES.items() if family.half == "choose")
KEEP = tuple(name for name, family in FAMILIES.items() if family.half == "keep")


def instances(family: str, seeds: Iterable[int]) -> list[Instance]:
    """The instances of these seeds, ready to be tuned."""
    return [instance(family, seed) for seed in seeds]


@lru_cache(maxsize=64)
def instance(family: str, seed: int) -> Instance:
    """The instance of a seed: its function, noise, budget and best value."""
    return drawn(family, FAMILIES[family], seed, NOISE)


def drawn(name: str, kind: Family, seed: int, noise: tuple[float, float]) -> Instance:
    """The instance of a seed of any family, whose noise is drawn from this range, in spreads."""
    rng = np.random.default_rng([kind.number, seed])
    # Draws that a shape may take are apart from those of noise and budget.
    shape, rest = rng.spawn(2)
    blueprint = kind.draw(shape)
    ratio = float(log_uniform(rest, *noise))
    budget = round(float(log_uniform(rest, *blueprint.budgets)))
    known = _known().get(name, {}).get(str(seed))
    found = Facts(*known) if known else facts(blueprint)
    space = blueprint.space

    def f(params: Params) -> float:
        return float(blueprint.formula(at(space, params))[0])

    value = remembering(f)
    sd = ratio * found.spread / found.level
    levels = blueprint.level

    def draw(params: Params, rng: np.random.Generator) -> float:
        level = 1.0 if levels is None else float(levels(at(space, params))[0])
        return value(params) + sd * level * float(rng.standard_normal())

    if blueprint.natural_noise is not None:
        ratio = blueprint.natural_noise / found.spread
    return Instance(
        name=f"{name}/{seed}",
        space=space,
        draw=blueprint.draw or draw,
        f=value,
        f_star=found.f_star,
        budget=budget,
        n0=2 * space.dim + 2,
        group=kind.half,
        unit=found.spread,
        centred=False,
        noise=ratio,
        best=found.best,
        number=10_000 * kind.number + seed,
        level=levels and (lambda params: float(levels(at(space, params))[0]) / found.level),
    )


# -- best values that were found before ------------------------------------------------------------


@cache
def _known() -> dict[str, dict[str, Any]]:
    return json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}


def store(family: str, seeds: Iterable[int]) -> None:
    """Find the best values of these seeds, and keep them in the file beside this one."""
    kept = json.loads(OPTIMA.read_text()) if OPTIMA.exists() else {}
    mine = kept.setdefault(family, {})
    for seed in seeds:
        if str(seed) not in mine:
            kind = FAMILIES[family]
            shape, _ = np.random.default_rng([kind.number, seed]).spawn(2)
            mine[str(seed)] = list(facts(kind.draw(shape)))
    rows = []
    for name in FAMILIES:
        if name in kept:
            lines = sorted(kept[name].items(), key=lambda item: int(item[0]))
            body = ",\n".join(f'"{seed}": {json.dumps(known)}' for seed, known in lines)
            rows.append(f'"{name}": {{\n{body}\n}}')
    OPTIMA.write_text("{\n" + ",\n".join(rows) + "\n}\n")
    _known.cache_clear()
    instance.cache_clear()
