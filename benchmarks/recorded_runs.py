"""Runs recorded to the last bit: does a change of the code change a suggestion?

    python benchmarks/recorded_runs.py --write before.json      # in one checkout
    python benchmarks/recorded_runs.py --compare before.json    # in another, on the same machine

Every policy, kind of space and way of asking and telling has its run.  A run is written as a digest
of every trial, its reasons, and the best point in between.  Bits depend on the machine's linear
algebra, so compare on one machine, with OMP_NUM_THREADS=1.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib
import json
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

rl: Any = None  # the package, imported by the name given

POLICIES = ("ids", "eic", "ei", "aei", "ei-nguyen", "gp-ucb", "gp-ts", "random")
# Of a decision; whatever is added to it later does not count here.
DECISION = (
    "reason",
    "policy",
    "remaining",
    "pending",
    "mean",
    "sd",
    "incumbent",
    "expected_improvement",
    "expected_loss",
    "horizon",
    "evaluation_cost",
    "gate",
    "z",
    "tried",
    "merged",
    "noise_sd",
    "refitted",
    "fit_ok",
    "jitter",
)
Params = dict[str, Any]


class Trace:
    """What happened, as text of which only the digest is kept."""

    def __init__(self) -> None:
        self._digest = hashlib.sha256()
        self.steps = 0

    def add(self, what: object) -> None:
        self._digest.update(json.dumps(what, sort_keys=True, default=_plain).encode())
        self.steps += 1

    def trial(self, trial: Any) -> None:
        decision = trial.decision.to_json()
        self.add([trial.number, trial.params, {name: decision[name] for name in DECISION}])

    def best(self, optimizer: Any) -> None:
        best = asdict(optimizer.best())
        self.add(
            {k: best[k] for k in ("params", "mean", "low", "high", "count", "sample_mean")}
            | {"luckiest": best["luckiest"]}
        )

    @property
    def digest(self) -> str:
        return self._digest.hexdigest()[:32]


def _plain(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return value.item()


# --- spaces and systems ---------------------------------------------------------------------------


def plane() -> Any:
    return rl.Space({"x": rl.Float(-2.0, 3.0), "y": rl.Float(0.01, 10.0, log=True)})


def line() -> Any:
    return rl.Space({"x": rl.Float(0.0, 1.0)})


def mixed() -> Any:
    return rl.Space(
        {
            "rate": rl.Float(1e-4, 1.0, log=True),
            "size": rl.Int(1, 64, log=True),
            "depth": rl.Int(1, 8),
            "share": rl.Float(0.0, 1.0, step=0.1),
            "kind": rl.Categorical(["a", "b", "c"]),
            "level": rl.Ordinal(["low", "mid", "high"]),
        }
    )


def finite() -> Any:
    return rl.Space({"n": rl.Int(0, 12), "kind": rl.Categorical([True, 1, "x"])})


def choices() -> Any:
    """Several columns of choices, one of them frozen, between numbers."""
    return rl.Space(
        {
            "first": rl.Categorical(["a", "b", "c"]),
            "x": rl.Float(0.0, 1.0),
            "second": rl.Categorical([1, 2, 3, 4]),
            "frozen": rl.Categorical(["only"]),
            "n": rl.Int(1, 9),
        }
    )


def six() -> Any:
    return rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(6)})


def value(space: Any, params: Params) -> float:
    """A smooth hill with a ripple over the encoded point, the same for every space."""
    u = space.encode(params)
    center = 0.3 + 0.4 * np.arange(1, len(u) + 1) / (len(u) + 1)
    return float(-3.0 * ((u - center) ** 2).sum() + 0.2 * np.cos(9.0 * u).sum())


def noisy(space: Any, params: Params, rng: np.random.Generator, sd: float = 0.1) -> float:
    return value(space, params) + sd * float(rng.standard_normal())


# --- ways of asking and telling -------------------------------------------------------------------


def one_by_one(space: Any, budget: int, sd: float = 0.1, **settings: Any) -> Trace:
    trace, rng = Trace(), np.random.default_rng(5)
    optimizer = rl.Optimizer(space, budget, **settings)
    for trial in optimizer:
        trace.trial(trial)
        optimizer.tell(trial, noisy(space, trial.params, rng, sd))
        if trial.number % 7 == 3:
            trace.best(optimizer)
    trace.trial(optimizer.ask())  # past the budget
    trace.best(optimizer)
    return trace


def with_prior(space: Any, budget: int, **settings: Any) -> Trace:
    trace, rng = Trace(), np.random.default_rng(6)
    optimizer = rl.Optimizer(space, budget, **settings)
    for point in space.decode(rng.random(space.dim)), space.decode(rng.random(space.dim)):
        optimizer.observe(point, noisy(space, point, rng), count=4)
    trace.best(optimizer)
    adopted = optimizer.adopt(space.decode(rng.random(space.dim)))
    optimizer.tell(adopted, noisy(space, adopted.params, rng), sem=0.05)
    for trial in optimizer:
        trace.trial(trial)
        if trial.number % 5 == 2:
            optimizer.tell(trial, noisy(space, trial.params, rng), sem=0.03)
        elif trial.number % 5 == 4:
            optimizer.tell(trial, noisy(space, trial.params, rng), count=3)
        else:
            optimizer.tell(trial, noisy(space, trial.params, rng))
    trace.best(optimizer)
    trace.add([row.flat() for row in optimizer.history()][-1]["number"])
    return trace


def late(space: Any, budget: int, **settings: Any) -> Trace:
    """Results come three trials late; some never; the run is interrupted, and then extended."""
    trace, rng = Trace(), np.random.default_rng(7)
    optimizer = rl.Optimizer(space, budget, **settings)
    waiting: list[Any] = []
    while optimizer.remaining:
        trial = optimizer.ask()
        trace.trial(trial)
        waiting.append(trial)
        if len(waiting) > 3:
            done = waiting.pop(0)
            if done.number % 6 == 5:
                optimizer.abandon(done)
            else:
                optimizer.tell(done, noisy(space, done.params, rng))
        if trial.number == budget // 2:
            optimizer = rl.Optimizer.from_json(optimizer.to_json())
            optimizer.extend(budget + 4)
    trace.best(optimizer)
    return trace


def batches(space: Any, budget: int, **settings: Any) -> Trace:
    trace, rng = Trace(), np.random.default_rng(8)
    optimizer = rl.Optimizer(space, budget, **settings)
    while optimizer.remaining:
        for trial in optimizer.ask(min(4, optimizer.remaining)):
            trace.trial(trial)
            optimizer.tell(trial, noisy(space, trial.params, rng))
    trace.best(optimizer)
    return trace


def disasters(space: Any, budget: int, **settings: Any) -> Trace:
    trace, rng = Trace(), np.random.default_rng(9)
    optimizer = rl.Optimizer(space, budget, **settings)
    for trial in optimizer:
        trace.trial(trial)
        outcome = noisy(space, trial.params, rng)
        optimizer.tell(trial, -1e4 if value(space, trial.params) < -1.2 else outcome)
    trace.best(optimizer)
    points = [space.decode(u) for u in rng.random((5, space.dim))]
    seen = optimizer.landscape(points)
    trace.add([seen.mean, seen.sd, seen.expected_improvement, seen.evaluation_cost, seen.z])
    trace.add([optimizer.predict(point) for point in points])
    return trace


def theorem() -> Trace:
    trace, rng, space = Trace(), np.random.default_rng(10), plane()
    kernel = _kernel("SE")((0.3, 0.3))
    optimizer = rl.Optimizer.theorem1(space, 40, kernel, B=1.0, R=0.1)
    for trial in optimizer:
        trace.trial(trial)
        optimizer.tell(trial, 0.3 * noisy(space, trial.params, rng))
    return trace


def one_call() -> Trace:
    trace, rng, space = Trace(), np.random.default_rng(11), mixed()
    result = rl.minimize(lambda p: -noisy(space, p, rng), space, 25, seed=3)
    for trial in result.optimizer.trials:
        trace.trial(trial)
    trace.add([result.values, result.regret(-1.0)])
    return trace


def _kernel(name: str) -> Any:
    for place in ("", ".kernels"):
        found = getattr(importlib.import_module(rl.__name__ + place), name, None)
        if found is not None:
            return found
    raise LookupError(name)


def runs() -> dict[str, Callable[[], Trace]]:
    all_: dict[str, Callable[[], Trace]] = {}

    def add(name: str, way: Callable[..., Trace], *args: Any, **settings: Any) -> None:
        all_[name] = lambda: way(*args, **settings)

    for policy in POLICIES:
        add(f"plane {policy}", one_by_one, plane(), 30, policy=policy, seed=1)
        add(f"mixed {policy}", one_by_one, mixed(), 26, policy=policy, seed=2)
        add(f"late {policy}", late, mixed(), 20, policy=policy, direction="minimize", seed=3)
    add("commit", one_by_one, plane(), 30, policy="explore-then-commit", seed=4)
    for policy in ("ids", "eic", "gp-ucb"):
        add(f"prior {policy}", with_prior, mixed(), 24, policy=policy, seed=5)
        add(f"batches {policy}", batches, plane(), 28, policy=policy, seed=6)
        add(f"finite {policy}", one_by_one, finite(), 30, policy=policy, seed=7)
        add(f"disasters {policy}", disasters, plane(), 26, policy=policy, seed=8)
    add("prior plane minimize", with_prior, plane(), 24, direction="minimize", seed=9)
    add("line", one_by_one, line(), 60, seed=10)
    add("line loud", one_by_one, line(), 60, seed=10, sd=2.0)
    add("plane loud", one_by_one, plane(), 60, seed=11, sd=3.0)
    add("mixed loud", one_by_one, mixed(), 50, seed=11, sd=3.0)
    add("six", one_by_one, six(), 60, seed=12)
    add("long", one_by_one, plane(), 220, seed=13)
    add("long paper", one_by_one, plane(), 90, seed=14, policy="eic", model=rl.Model.paper())
    add("eic options", one_by_one, plane(), 40, policy=rl.EIC(payback=0.5, merge=False), seed=15)
    add("ei domain", one_by_one, plane(), 30, policy=rl.EI(incumbent="domain"), seed=16)
    add("ei quantile", one_by_one, plane(), 30, policy=rl.EI(incumbent="quantile"), seed=16)
    add("ucb srinivas", one_by_one, plane(), 30, policy=rl.GPUCB(beta="srinivas"), seed=17)
    add("ts scaled", one_by_one, plane(), 20, policy=rl.GPTS(scale="chowdhury-gopalan"), seed=18)
    add("ids directed", one_by_one, plane(), 30, policy=rl.IDS(directed=True, payback=1), seed=19)
    for design in ("sobol", "lhs", "grid"):
        add(f"design {design}", one_by_one, mixed(), 24, design=design, seed=20, policy="eic")
    for policy in ("ids", "eic", "gp-ts"):
        add(f"choices {policy}", one_by_one, choices(), 24, policy=policy, seed=24)
    add("choices late", late, choices(), 20, direction="minimize", seed=25)
    add("n0", one_by_one, mixed(), 24, n0=3, seed=21)
    for kernel in ("se", "matern12", "matern32", "matern52"):
        add(f"kernel {kernel}", one_by_one, mixed(), 20, model=rl.Model(kernel=kernel), seed=22)
    add(
        "own kernel", one_by_one, plane(), 24, model=rl.Model(_kernel("Matern")((0.5, 0.5), nu=1.3))
    )
    add("ml", one_by_one, plane(), 24, model=rl.Model(method="ml"), seed=23)
    all_["theorem 1"] = theorem
    all_["one call"] = one_call
    return all_


def main() -> None:
    global rl
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--package", default="regretless")
    parser.add_argument("--write", type=Path)
    parser.add_argument("--compare", type=Path)
    parser.add_argument("--only", default="", help="runs whose name has this in it")
    given = parser.parse_args()
    rl = importlib.import_module(given.package)
    before = json.loads(given.compare.read_text()) if given.compare else {}
    found, different = {}, []
    for name, run in runs().items():
        if given.only not in name:
            continue
        start = time.process_time()
        trace = run()
        found[name] = trace.digest
        same = before.get(name) == trace.digest
        if before and not same:
            different.append(name)
        mark = "" if not before else "same" if same else "DIFFERENT"
        print(f"{name:<24} {trace.steps:4d} steps {time.process_time() - start:6.2f} s  {mark}")
    if given.write:
        given.write.write_text(json.dumps(found, indent=1) + "\n")
    if before:
        print(f"{len(found)} runs, {len(different)} different")
    sys.exit(bool(different))


if __name__ == "__main__":
    main()
