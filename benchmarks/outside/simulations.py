"""simoptlib's simulations: queues, inventories, prices, bookings."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.base import Instance, log_uniform
from benchmarks.families.search import sobol_points
from benchmarks.outside.coco import BUDGETS
from benchmarks.peers.problems import Array, Params
from scipy.optimize import minimize

from regretless import Float, Int, Space

FACTS = Path(__file__).with_name("facts.json")
# Every problem whose constraint type is BOX, and R: how many replications make its f.
PROBLEMS = {
    "AMBULANCE-1": 30,
    "CNTNEWS-1": 1000,
    "DUALSOURCING-1": 30,
    "DYNAMNEWS-1": 100,
    "FIXEDSAN-1": 250,
    "HOTEL-1": 10,
    "IRONORE-1": 40,
    "IRONORECONT-1": 40,
    "MM1-1": 30,
    "PARAMESTI-1": 1000,
    "SAN-1": 250,
    "SSCONT-1": 100,
}
_MOST_REPLICATIONS = 64
_WHOLE = {"IRONORE-1": (1,)}  # of the mixed problem: the stock at which production stops
_LISTED = 1000


class Simulation:
    """A problem of simoptlib, with larger values better."""

    def __init__(self, name: str) -> None:
        from simopt.directory import problem_directory

        self.name = name
        self._problem = problem_directory[name]()
        self._sign = self._problem.minmax[0]
        self._count = self._problem.model.n_rngs
        self._tapes: list[list[_Tape]] = []
        self._known: dict[tuple[Any, ...], Array] = {}

    def space(self) -> Space:
        """Its box; where that has no end, what holds 90 % of its own random solutions."""
        from simopt.problem_types import VariableType

        stream = _generator([1, 0, 0])
        drawn = np.array([self._problem.get_random_solution(stream) for _ in range(2000)], float)
        all_whole = self._problem.variable_type is VariableType.DISCRETE
        parameters: dict[str, Float | Int] = {}
        bounds = zip(self._problem.lower_bounds, self._problem.upper_bounds, strict=True)
        for j, (low, high) in enumerate(bounds):
            log = False
            if not np.isfinite([low, high]).all():
                low, middle, high = np.quantile(drawn[:, j], [0.05, 0.5, 0.95])
                log = bool(low > 0 and high / low >= 10) and _is_skewed(low, middle, high)
            if all_whole or j in _WHOLE.get(self.name, ()):
                parameters[f"x{j + 1}"] = Int(int(np.floor(low)), int(np.ceil(high)))
            else:
                low, high = (float(f"{bound:.3g}") for bound in (low, high))
                parameters[f"x{j + 1}"] = Float(low, high, log=log)
        return Space(parameters)

    def observe(self, params: Params, rng: np.random.Generator, replications: int) -> float:
        """The mean of a few of the replications that make f."""
        outcomes = self.common(params, PROBLEMS[self.name])
        return float(rng.choice(outcomes, replications).mean())

    def common(self, params: Params, replications: int) -> Array:
        """Replications with the same draws at every point; they are kept, as points come again."""
        key = (*params.values(), replications)
        if key not in self._known:
            while len(self._tapes) < replications:
                at = len(self._tapes)
                streams = [_generator([0, i, at]) for i in range(self._count)]
                self._tapes.append([_Tape(stream) for stream in streams])
            found: list[float] = []
            for tapes in self._tapes[:replications]:
                found += self._replicated(params, [tape.rewound() for tape in tapes])
            self._known[key] = np.array(found)
        return self._known[key]

    def mean(self, params: Params, replications: int) -> float:
        return float(self.common(params, replications).mean())

    def _replicated(self, params: Params, streams: Sequence[Any]) -> list[float]:
        """What `Problem.simulate` does for one replication."""
        problem, x = self._problem, tuple(params.values())
        problem.model.factors.update(problem.vector_to_factor_dict(x))
        problem.model.before_replicate(streams)
        problem.before_replicate(streams)
        try:
            return [self._sign * float(problem.replicate(x).objectives[0].value())]
        except OverflowError:  # PARAMESTI-1's gamma function, once in some thousands
            return []


def _is_skewed(low: float, middle: float, high: float) -> bool:
    """Whether the median is nearer to the geometric middle than to the arithmetic one."""
    return bool(abs(middle - (low * high) ** 0.5) < abs(middle - (low + high) / 2))


class _Tape:
    """What a stream draws is kept, as its generator is slow, and played again."""

    def __init__(self, stream: Any) -> None:
        self._stream, self._draw, self._kept = stream, stream.random, []

    def rewound(self) -> Any:
        self._stream.random = chain(iter(self._kept), self._more()).__next__
        self._stream.gauss_next = None
        return self._stream

    def _more(self) -> Iterator[float]:
        while True:
            self._kept.append(self._draw())
            yield self._kept[-1]


def _generator(index: list[int]) -> Any:
    from mrg32k3a.mrg32k3a import MRG32k3a

    return MRG32k3a(s_ss_sss_index=index)


@cache
def _simulation(name: str) -> Simulation:
    return Simulation(name)


def simulation(name: str, seed: int) -> Instance:
    """A problem and the noise of a seed."""
    made, known = _simulation(name), json.loads(FACTS.read_text())[name]
    space, number = Space.from_json(known["space"]), 200 + list(PROBLEMS).index(name)
    rng = np.random.default_rng([number, seed])
    return Instance(
        name=f"{name}/{seed}",
        space=space,
        draw=lambda params, rng: made.observe(params, rng, known["replications"]),
        f=lambda params: made.mean(params, PROBLEMS[name]),
        f_star=known["f_star"],
        budget=round(float(log_uniform(rng, *BUDGETS))),
        n0=2 * space.dim + 2,
        group="outside",
        unit=known["spread"],
        centred=False,
        noise=known["noise"],
        best=known["best"],
        number=10_000 * number + seed,
    )


# -- what is found out before any run --------------------------------------------------------------


def facts(name: str) -> dict[str, Any]:
    """Box, spread, noise, replications of an observation, and the best value found."""
    made = Simulation(name)
    space, many = made.space(), PROBLEMS[name]
    few = max(6, many // 4)
    points = sobol_points(space, 256)
    params = [space.decode(x) for x in points]
    values = np.array([made.mean(p, few) for p in params])
    spread = float(values.std())
    single = [made.common(p, few).std(ddof=1) for p in params[:32]]
    scatter = float(np.sqrt(np.mean(np.square(single))))
    replications = 1
    while replications < _MOST_REPLICATIONS and scatter > spread * replications**0.5:
        replications *= 2
    best, top = _climbed(made, space, points, values, few, many)
    return {
        "space": space.to_json(),
        "replications": replications,
        "spread": float(f"{spread:.6g}"),
        "noise": float(f"{scatter / replications**0.5 / spread:.4g}"),
        "f_star": top,
        "best": best,
    }


def _climbed(
    made: Simulation, space: Space, points: Array, values: Array, few: int, many: int
) -> tuple[Params, float]:
    """Moves from the best points with few replications, then with all of them."""
    if space.size is not None and space.size <= _LISTED:
        listed = [space.decode(x) for x in space.grid()]
        listed.sort(key=lambda params: -made.mean(params, few))
        best = max(listed[:40], key=lambda params: made.mean(params, many))
        return best, made.mean(best, many)
    rng = np.random.default_rng(3)
    tries = {1: 50}.get(space.dim, 150 if space.dim <= 5 else 300)
    starts = points[np.argsort(-values, kind="stable")[:4]]
    climbed = [_moved(made, space, x, few, tries, 0.15, rng) for x in starts]
    climbed.sort(key=lambda pair: -pair[1])
    ended = []
    for x, _ in climbed[:2]:
        x, _ = _moved(made, space, _sloped(made, space, x, few), many, tries // 2, 0.03, rng)
        params = space.decode(x)
        ended.append((params, made.mean(params, many)))
    return max(ended, key=lambda pair: pair[1])


def _moved(
    made: Simulation,
    space: Space,
    x: Array,
    replications: int,
    tries: int,
    step: float,
    rng: np.random.Generator,
) -> tuple[Array, float]:
    value = made.mean(space.decode(x), replications)
    for _ in range(tries):
        chosen = rng.random(space.dim) < max(0.3, 1 / space.dim)
        move = np.where(chosen, step * rng.standard_normal(space.dim), 0.0)
        tried = space.canonical(np.clip(x + move, 0, 1)[None])[0]
        reached = made.mean(space.decode(tried), replications)
        better = reached > value
        if better:
            x, value = tried, reached
        step = float(np.clip(step * (1.4 if better else 0.92), 1e-3, 0.3))
    return x, value


def _sloped(made: Simulation, space: Space, x: Array, replications: int) -> Array:
    """Along the slope, which many of these functions have; whole numbers stay."""
    free = [j for j, p in enumerate(space.columns) if isinstance(p, Float)]
    if not free:
        return x

    def down(u: Array) -> float:
        point = x.copy()
        point[free] = u
        return -made.mean(space.decode(point), replications)

    found = minimize(
        down,
        x[free],
        method="L-BFGS-B",
        bounds=[(0.0, 1.0)] * len(free),
        options={"eps": 1e-3, "maxiter": 25},
    )
    if found.fun < down(x[free]):
        x = x.copy()
        x[free] = np.clip(found.x, 0, 1)
    return x
