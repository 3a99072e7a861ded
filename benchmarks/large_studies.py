"""Studies with 100 to 10,000 points: time, evidence, posterior and regret.

    python benchmarks/large_studies.py              # runs what is missing, then writes the page
    python benchmarks/large_studies.py --parts first,steps
    python benchmarks/large_studies.py --report     # the page, from the records

Each part compares the rules for many points with those without: version 5 of the defaults with
version 4.  All times are CPU seconds of one thread.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import argparse
import json
import time
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl
from regretless.defaults import defaults_of
from regretless.experiments.problems import PROBLEMS
from regretless.experiments.runner import stamp
from regretless.model import Data, Model
from regretless.model.fit import Fit, Search, fit
from regretless.model.local import local_data

PAGE = Path(__file__).parents[1] / "docs" / "results" / "large_studies.md"
RECORDS = PAGE.with_suffix(".jsonl")
NEW, OLD = 5, 4
# The rules were made with other seeds: those below 6, 10 and 11 for 1,500 points, 12 for 3,000.
SEEDS = {500: range(10, 14), 800: range(10, 12), 1500: range(12, 14), 3000: range(13, 14)}
FUNCTIONS = ("hartmann-6", "ackley-2", "levy-4")
BARS = {  # of the first suggestion in seconds, and of a step in milliseconds
    100: ("", "8"),
    200: ("0.15", ""),
    800: ("0.6", ""),
    1000: ("", "40"),
    1500: ("2", ""),
    3000: ("5", "150"),
    10_000: ("20", "500"),
}
TEXT = """# Large studies

`benchmarks/large_studies.py` writes this page. It measures studies with many points. A point is a
setting of the parameters that has a result. Version 5 of the defaults has [rules for such
studies](../policies.md#large-studies), and version 4 has none. All times are CPU times on one
thread. A *bar* is the largest value that we accept. A table without rows has no records yet.

## Time

A study of six parameters is told results at random points. The first column is their number.
*First* is the time of the first suggestion. It includes the fit of the model. *Step* is the time of
a tell and the next ask. The steps go on until there are a tenth more points, and include all fits.
The table shows their mean, and the longest one.

{times}

## How good a quick fit is

With more than 400 points, the search for the hyper-parameters sees 400 of them. A few
steps on all points follow. A fit maximises the log evidence: the log probability of the results
under the model, plus that of the hyper-parameters under their priors. *Lost* is how much less log
evidence of all data the quick fit reaches than a search on all points, in nats. The bar is a
hundredth of a nat for each point. In half of the studies, the points are all over the space. In the
others, they are those of a run that closes in on three places. The sd of the noise is 0.05 or 0.5
of the spread of f. With 3,000 points, the search on all points begins where the quick one ended.
The rules of the fit were chosen with other seeds than those of this section.

{lost}

## How good a local posterior is

With more than 3,000 points, the posterior is made of 2,000 of them. This is the *local* posterior.
The posterior of all points is the *exact* one. The table compares the two at new points. *Mean* is
the difference of their means, in units of the exact sd (root mean square). *Sd* is the local sd
divided by the exact one (median). *Near the best* are new points around the 20 points with the
highest exact mean.

{local}

## Regret

Each run has 100 trials, after 500 results at random points. A ratio is the regret of version 5
divided by that of version 4 after the same 500 results. The table shows the geometric mean of the
ratios, and behind ×/ its standard error as a factor. The bar is 1.03. The seeds go from 0 to 59. A
row has the seeds that both versions have run.

The seeds 0 to 49 do not confirm version 5, because its fit was changed after a look at them. Before
that, the last steps of a fit ended earlier. On ackley-2, runs then lost 1.26 ×/ 1.18 times as much
as version 4 (seeds 0 to 19) and 1.47 ×/ 1.11 times (seeds 20 to 48). Only the seeds from 50 on are
new.

{regret}

{stamp}
"""
Array = Any
Record = dict[str, Any]


# --- made-up studies ------------------------------------------------------------------------------


def points(kind: str, count: int, dim: int, rng: np.random.Generator) -> Array:
    """Points all over the cube, or those of a run that closes in on three places."""
    if kind == "spread":
        return rng.random((count, dim))
    first, centers = count // 5, rng.random((3, dim))
    late = np.arange(count - first)
    width = 0.3 * np.exp(-3.0 * late / len(late))
    near = centers[late % 3] + width[:, None] * rng.standard_normal((len(late), dim))
    return np.vstack([rng.random((first, dim)), np.clip(near, 0.0, 1.0)])


def study(kind: str, count: int, dim: int, noise: float, seed: int) -> Data:
    """Results of unit spread: waves in most columns, and in half of the cases a ripple."""
    rng = np.random.default_rng([seed, count, dim])
    x = points(kind, count, dim, rng)
    waves = rng.uniform(0.5, 6.0, dim) * (rng.random(dim) < 0.7)
    f = np.sin(x * waves + 6.0 * rng.random(dim)).sum(axis=1)
    f += 0.3 * np.sin(20.0 * x @ (rng.random(dim) * (rng.random(dim) < 0.4)))
    if not f.std() > 0.0:  # no column was drawn to matter
        f = np.sin(3.0 * x[:, 0])
    y = f / f.std() + noise * rng.standard_normal(count)
    return Data.of(x, (y - y.mean()) / y.std())


def optimizer(count: int, dim: int, seed: int, version: int) -> tuple[rl.Optimizer, Callable]:
    """An optimiser that was told so many results at random points, and a system to go on with."""
    rng = np.random.default_rng([dim, count, seed])
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})

    def measured(params: dict[str, float]) -> float:
        x = np.array(list(params.values()))
        return float(np.sin(3 * x + np.arange(dim)).mean() + 0.1 * rng.standard_normal())

    ready = rl.Optimizer(space, 4 * count, defaults=version, seed=seed)
    for x in rng.random((count, dim)):
        params = dict(zip(space.names, x.tolist(), strict=True))
        ready.observe(params, measured(params))
    return ready, measured


# --- the parts ------------------------------------------------------------------------------------


def first(count: int, version: int) -> Record:
    """CPU seconds of the first suggestion with so many results."""
    ready, _ = optimizer(count, 6, 0, version)
    start = time.process_time()
    ready.ask()
    return {"seconds": time.process_time() - start}


def steps(count: int, version: int) -> Record:
    """CPU milliseconds of the steps in which the points grow by a tenth, with their fits."""
    ready, measured = optimizer(count, 6, 0, version)
    trial, spent, fits = ready.ask(), [], 0
    for _ in range(max(20, count // 10)):
        value = measured(trial.params)
        start = time.process_time()
        ready.tell(trial, value)
        trial = ready.ask()
        spent.append(1e3 * (time.process_time() - start))
        fits += trial.decision.refitted
    return {"mean": float(np.mean(spent)), "most": max(spent), "fits": fits, "steps": len(spent)}


def lost(count: int, dim: int, kind: str, noise: float, seed: int) -> Record:
    """How much log evidence of all data a fit loses against a search on all data."""
    data, model = study(kind, count, dim, noise, seed), Model()
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
    new, old = defaults_of(NEW).fit, defaults_of(OLD).fit
    begin = model.start(space.columns, new)
    whole = Search((data,), begin, model, old)

    def value(found: Fit) -> float:
        return -whole.objective(whole.clip(whole.vector(found.hyper)))[0]

    start = time.process_time()
    quick = fit(data, begin, model, new, first=True)
    middle = time.process_time()
    # The search on all data from where the quick one ended is all that 3,000 points leave time for.
    slow = fit(data, quick.hyper if count > 1500 else begin, model, old)
    best = max(value(slow), value(fit(data, quick.hyper, model, old)) if count <= 500 else -np.inf)
    return {
        "lost": best - value(quick),
        "seconds": middle - start,
        "slow": time.process_time() - middle,
    }


def local(count: int, dim: int, noise: float, seed: int) -> Record:
    """The posterior of a part of the points against that of all of them, at new points."""
    data, model = study("run", count, dim, noise, seed), Model()
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(dim)})
    rules = defaults_of(NEW).fit
    hyper = fit(data, model.start(space.columns, rules), model, rules, first=True).hyper
    exact = model.posterior(data, hyper)
    few = rules.local._replace(exact=rules.local.rows)
    part = model.posterior(local_data(data, hyper, model, few), hyper)
    rng = np.random.default_rng(seed)
    best = data.x[np.argsort(-exact.at_data[0])[:20]]
    near = np.clip(np.repeat(best, 10, axis=0) + 0.05 * rng.standard_normal((200, dim)), 0.0, 1.0)
    return {
        name: compared(exact, part, x)
        for name, x in (("near the best", near), ("anywhere", rng.random((500, dim))))
    }


def compared(exact: Any, part: Any, x: Array) -> dict[str, float]:
    (mu, sigma), (other, wide) = exact.predict(x), part.predict(x)
    apart = (other - mu) / (exact.omega * sigma)
    return {"mean": float(np.sqrt(np.mean(apart**2))), "sd": float(np.median(wide / sigma))}


def regret(name: str, version: int, seed: int) -> Record:
    """The regret of 100 trials after 500 results at random points."""
    problem, rng = PROBLEMS[name], np.random.default_rng([7, seed])
    space = problem.space()
    ready = rl.Optimizer(space, 100, defaults=version, seed=seed)
    for x in rng.random((500, space.dim)):
        params = space.decode(x)
        ready.observe(params, problem.evaluate(params, rng))
    total = 0.0
    for trial in ready:
        ready.tell(trial, problem.evaluate(trial.params, rng))
        total += problem.f_star - problem.value(trial.params)
    return {"regret": total}


PARTS: dict[str, tuple[Callable[..., Record], list[tuple[Any, ...]]]] = {
    "first": (
        first,
        [(n, NEW) for n in (200, 800, 1500, 3000, 10_000)] + [(n, OLD) for n in (200, 800, 1500)],
    ),
    "steps": (
        steps,
        [(n, NEW) for n in (100, 200, 400, 1000, 3000, 10_000)]
        + [(n, OLD) for n in (100, 200, 400, 1000)],
    ),
    "lost": (
        lost,
        [
            (n, d, kind, noise, seed)
            for n, ds in ((500, (2, 6, 20)), (800, (2, 6, 20)), (1500, (6,)), (3000, (6,)))
            for d in ds
            for kind in ("spread", "run")
            for noise in (0.05, 0.5)
            for seed in SEEDS[n]
        ],
    ),
    "local": (local, [(5000, d, noise, 0) for d in (2, 6) for noise in (0.05, 0.5)]),
    "regret": (
        regret,
        [
            (name, version, seed)
            for seed in range(60)
            for name in FUNCTIONS
            for version in (NEW, OLD)
        ],
    ),
}


# --- records and the page -------------------------------------------------------------------------


def recorded() -> dict[str, Record]:
    """The records by the part and its arguments."""
    if not RECORDS.exists():
        return {}
    lines = map(json.loads, RECORDS.read_text(encoding="utf-8").splitlines())
    return {json.dumps(line["run"]): line for line in lines}


def run(names: list[str]) -> None:
    done, where = recorded(), str(stamp())
    for name in names:
        part, cases = PARTS[name]
        for case in cases:
            key = [name, *case]
            if json.dumps(key) in done:
                continue
            record = {"run": key} | part(*case) | {"stamp": where}
            with RECORDS.open("a", encoding="utf-8") as file:
                file.write(json.dumps(record) + "\n")
            print(record, flush=True)


def table(title: str, rows: list[list[str]]) -> str:
    columns = title.split(" | ")
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def report() -> None:
    done = recorded()

    def each(name: str) -> list[tuple[list[Any], Record]]:
        return [(r["run"][1:], r) for r in done.values() if r["run"][0] == name]

    page = TEXT.format(
        times=table(
            "points | first, s | bar | first, version 4 | step, ms | bar | step, version 4",
            time_rows(each("first"), each("steps")),
        ),
        lost=table(
            "points | parameters | studies | bar | lost, median | lost, most | above the bar"
            " | quick fit, s | on all points, s",
            lost_rows(each("lost")),
        ),
        local=table(
            "points | parameters | noise | where | mean | sd",
            [
                [f"{n:,}", f"{d}", f"{noise:g}", place]
                + [f"{record[place][what]:.2f}" for what in ("mean", "sd")]
                for (n, d, noise, _), record in each("local")
                for place in ("near the best", "anywhere")
            ],
        ),
        regret=table(
            "function | runs | version 5 | version 4 | ratio", regret_rows(each("regret"))
        ),
        stamp=f"{stamp()}, {date.today()}",
    )
    PAGE.write_text(page, encoding="utf-8")
    print(page)


def time_rows(
    firsts: list[tuple[list[Any], Record]], steps: list[tuple[list[Any], Record]]
) -> list[list[str]]:
    first = {tuple(case): f"{record['seconds']:.2f}" for case, record in firsts}
    step = {tuple(case): f"{record['mean']:.1f}, {record['most']:.0f}" for case, record in steps}
    rows = []
    for n in sorted({count for count, _ in first.keys() | step.keys()}):
        bar, step_bar = BARS.get(n, ("", ""))
        row = [first.get((n, NEW), ""), bar, first.get((n, OLD), "")]
        rows.append([f"{n:,}", *row, step.get((n, NEW), ""), step_bar, step.get((n, OLD), "")])
    return rows


def lost_rows(runs: list[tuple[list[Any], Record]]) -> list[list[str]]:
    groups: dict[tuple[int, int], list[Record]] = {}
    for (count, dim, *_), record in runs:
        groups.setdefault((count, dim), []).append(record)
    rows = []
    for (count, dim), group in sorted(groups.items()):
        nats = np.array([record["lost"] for record in group])
        quick, slow = (np.mean([record[name] for record in group]) for name in ("seconds", "slow"))
        size = [f"{count:,}", f"{dim}", f"{len(group)}", f"{count / 100:.0f}"]
        seen = [f"{np.median(nats):.2f}", f"{nats.max():.1f}", f"{(nats > count / 100).sum()}"]
        rows.append([*size, *seen, f"{quick:.2f}", f"{slow:.2f}" if count <= 1500 else ""])
    return rows


def regret_rows(runs: list[tuple[list[Any], Record]]) -> list[list[str]]:
    """Mean regret of both versions and the ratio, for each function and over all."""
    found = {tuple(case): record["regret"] for case, record in runs}
    rows, every = [], []
    for name in FUNCTIONS:
        seeds = [s for n, v, s in found if (n, v) == (name, NEW) and (name, OLD, s) in found]
        pairs = np.array([[found[name, NEW, s], found[name, OLD, s]] for s in seeds])
        if not len(pairs):
            continue
        logs = np.log(pairs[:, 0] / pairs[:, 1])
        every.append(logs)
        means = [f"{mean:.1f}" for mean in pairs.mean(axis=0)]
        rows.append([name, str(len(pairs)), *means, geometric(logs)])
    if every:
        rows.append(["all", str(sum(map(len, every))), "", "", geometric(np.concatenate(every))])
    return rows


def geometric(logs: Array) -> str:
    spread = np.exp(logs.std(ddof=1) / np.sqrt(len(logs))) if len(logs) > 1 else np.nan
    return f"{np.exp(logs.mean()):.3f} ×/ {spread:.3f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--parts", default=",".join(PARTS), help="some of " + ", ".join(PARTS))
    parser.add_argument("--report", action="store_true", help="only write the page")
    arguments = parser.parse_args()
    if not arguments.report:
        run(arguments.parts.split(","))
    report()


if __name__ == "__main__":
    main()
