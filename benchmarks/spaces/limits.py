"""Limits among parameters: our default, and BoTorch with the same constraints.

    python -m benchmarks.spaces.limits --seeds 0:5       # runs what is missing
    python -m benchmarks.spaces.limits --suggestions     # 10,000 suggestions of the default
    python -m benchmarks.spaces.limits --report          # the page, from the records

Each instance is drawn from a set, a dimension and a seed.  The function has valleys and waves, and
its best point is on an edge of the set in many instances.  Regret and noise are in spreads, which
are standard deviations of f over the set.
"""

from __future__ import annotations

import argparse
import json
import math
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from benchmarks.spaces.problems import Array, Landscape

import regretless as rl
from regretless.experiments.runner import stamp

ROOT = Path(__file__).resolve().parents[2]
RECORDS = ROOT / "docs" / "results" / "spaces" / "limits.jsonl"
ASKED = ROOT / "docs" / "results" / "spaces" / "limits_suggestions.jsonl"
PAGE = ROOT / "docs" / "results" / "limits.md"
DIMS = (2, 4, 6)
BUDGET = 50
Slack = Callable[[Any], Any]  # of a numpy or torch vector; at least 0 inside


@dataclass(frozen=True)
class Limits:
    """A set: as texts for us, and as functions for everybody else."""

    texts: list[str]
    slacks: list[Slack]
    linear: bool = False


def simplex(d: int) -> Limits:
    """Shares that sum to at most 1."""
    text = " + ".join(f"x{i}" for i in range(d)) + " <= 1"
    return Limits([text], [lambda x: 1.0 - x.sum()], linear=True)


def shell(d: int) -> Limits:
    """Between two spheres, so that the middle of the cube is outside."""
    apart = ((np.random.default_rng(0).random((20_000, d)) - 0.5) ** 2).sum(axis=1)
    low, high = (round(float(q), 3) for q in np.quantile(apart, [0.35, 0.65]))
    square = " + ".join(f"(x{i} - 0.5) ** 2" for i in range(d))
    return Limits(
        [f"{low} <= {square} <= {high}"],
        [
            lambda x: ((x - 0.5) ** 2).sum() - low,
            lambda x: high - ((x - 0.5) ** 2).sum(),
        ],
    )


def bend(d: int) -> Limits:
    """Products of neighbours are small, and the last one is above a curve: a bent set."""
    products = np.random.default_rng(0).random((20_000, d))
    most = round(float(np.quantile((products[:, :-1] * products[:, 1:]).sum(axis=1), 0.4)), 3)
    total = " + ".join(f"x{i} * x{i + 1}" for i in range(d - 1))
    return Limits(
        [f"{total} <= {most}", f"x{d - 1} >= 0.8 * (x0 - 0.6) ** 2"],
        [
            lambda x: most - (x[:-1] * x[1:]).sum(),
            lambda x: x[-1] - 0.8 * (x[0] - 0.6) ** 2,
        ],
    )


SETS: dict[str, Callable[[int], Limits]] = {"simplex": simplex, "shell": shell, "bend": bend}


@dataclass(frozen=True)
class Problem:
    """A function over a set, to be maximised; regret and noise are in spreads."""

    limits: Limits
    space: rl.Space
    f: Callable[[Array], float]
    best: float
    spread: float
    noise: float

    def keeps(self, x: Array, tolerance: float = 0.0) -> bool:
        inside = bool(((x >= 0.0) & (x <= 1.0)).all())
        return inside and all(slack(x) >= -tolerance for slack in self.limits.slacks)


def problem(name: str, d: int, seed: int) -> Problem:
    rng = np.random.default_rng([list(SETS).index(name), d, seed])
    limits, f = SETS[name](d), Landscape(rng, d)
    noise = float(np.exp(rng.uniform(np.log(0.03), np.log(0.3))))
    space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(d)}, where=limits.texts)
    points = space.drawn(2000, np.random.default_rng(0))
    values = np.array([f(x) for x in points])
    best = _best(space, f, points[np.argsort(-values)[:8]])
    return Problem(limits, space, f, best, float(values.std()), noise)


def _best(space: rl.Space, f: Callable[[Array], float], starts: Array) -> float:
    """The best value: random steps inside that shrink, from several points."""
    rng, best = np.random.default_rng(1), -np.inf
    for start in starts:
        here, value, step = start, f(start), 0.3
        while step > 1e-4:
            tries = np.clip(here + step * rng.standard_normal((64, len(here))), 0.0, 1.0)
            around = tries[space.keeps(tries)]
            found = [f(x) for x in around]
            if found and max(found) > value:
                here, value = around[int(np.argmax(found))], max(found)
            else:
                step *= 0.7
        best = max(best, value)
    return best


# --- tools ----------------------------------------------------------------------------------------

Trials = Iterator[tuple[Array, Callable[[float], None]]]


def ours(this: Problem, seed: int, version: int = 5) -> Trials:
    optimizer = rl.Optimizer(this.space, BUDGET, seed=seed, defaults=version)
    for trial in optimizer:
        x = np.array(list(trial.params.values()))
        yield x, lambda y, t=trial: optimizer.tell(t, y)


class BoTorch:
    """A `SingleTaskGP`, and LogEI or UCB; 2d + 2 points of the set first.

    The best point is that with the best posterior mean, because the luckiest result is a threshold
    that nothing beats under noise.  Linear limits are `inequality_constraints`.  Others are
    `nonlinear_inequality_constraints`, with starts drawn from the set and around the best point.
    """

    def __init__(self, this: Problem, seed: int, acquisition: str) -> None:
        import torch

        torch.set_num_threads(1)
        torch.set_default_dtype(torch.double)
        torch.manual_seed(seed)
        warnings.simplefilter("ignore")
        self.this, self.acquisition = this, acquisition
        self.rng = np.random.default_rng([4, seed])
        self.x: list[Array] = []
        self.y: list[float] = []

    def trials(self) -> Trials:
        d = self.this.space.dim
        for x in self.this.space.drawn(2 * d + 2, self.rng):
            yield x, lambda y, x=x: self._tell(x, y)
        while len(self.x) < BUDGET:
            x = self._ask()
            yield x, lambda y, x=x: self._tell(x, y)

    def _tell(self, x: Array, y: float) -> None:
        self.x.append(x)
        self.y.append(y)

    def _ask(self) -> Array:
        import torch
        from botorch import fit_gpytorch_mll
        from botorch.acquisition import LogExpectedImprovement, UpperConfidenceBound
        from botorch.models import SingleTaskGP
        from botorch.models.transforms import Standardize
        from gpytorch.mlls import ExactMarginalLogLikelihood

        x, y = torch.tensor(np.array(self.x)), torch.tensor(self.y).unsqueeze(-1)
        model = SingleTaskGP(x, y, outcome_transform=Standardize(m=1))
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        with torch.no_grad():
            mean = model.posterior(x).mean
        if self.acquisition == "ucb":
            score: Any = UpperConfidenceBound(model, beta=4.0)
        else:
            score = LogExpectedImprovement(model, best_f=mean.max())
        return self._maximum(score, x[int(mean.argmax())].numpy())

    def _maximum(self, score: Any, best: Array) -> Array:
        import torch
        from botorch.exceptions.errors import CandidateGenerationError
        from botorch.optim import optimize_acqf

        this, d = self.this, self.this.space.dim
        cube = torch.stack([torch.zeros(d), torch.ones(d)])
        if this.limits.linear:
            found, _ = optimize_acqf(
                score,
                cube,
                q=1,
                num_restarts=8,
                raw_samples=256,
                inequality_constraints=[(torch.arange(d), -torch.ones(d), -1.0)],
            )
            return found[0].numpy().copy()
        starts = self._starts(score, best)
        try:
            found, _ = optimize_acqf(
                score,
                cube,
                q=1,
                num_restarts=len(starts),
                batch_initial_conditions=starts,
                nonlinear_inequality_constraints=[(slack, True) for slack in this.limits.slacks],
            )
        except CandidateGenerationError:  # all searches ended slightly outside
            return starts[0, 0].numpy().copy()
        return found[0].numpy().copy()

    def _starts(self, score: Any, best: Array, count: int = 4) -> Any:
        """The best of 256 points of the set, and of points of the set near the best one."""
        import torch

        near = np.clip(best + 0.05 * self.rng.standard_normal((256, len(best))), 0.0, 1.0)
        near = near[[self.this.keeps(x) for x in near]][:64]
        drawn = torch.tensor(np.vstack([self.this.space.drawn(256, self.rng), near, best]))
        with torch.no_grad():
            values = score(drawn.unsqueeze(1))
        return drawn[values.topk(count).indices].unsqueeze(1)


TOOLS: dict[str, Callable[[Problem, int], Trials]] = {
    "regretless": ours,
    "version 4": lambda this, seed: ours(this, seed, version=4),
    "BoTorch LogEI": lambda this, seed: BoTorch(this, seed, "logei").trials(),
    "BoTorch UCB": lambda this, seed: BoTorch(this, seed, "ucb").trials(),
}


# --- records --------------------------------------------------------------------------------------


def run(name: str, d: int, seed: int, tool: str) -> dict[str, Any]:
    this = problem(name, d, seed)
    noise = np.random.default_rng([seed, 99])
    regrets, outside, far = [], 0, 0
    trials = TOOLS[tool](this, seed)
    began = process_time()
    for x, tell in trials:
        outside += not this.keeps(x)
        far += not this.keeps(x, 1e-6)
        regrets.append((this.best - this.f(x)) / this.spread)
        tell(this.f(x) + this.noise * this.spread * noise.standard_normal())
    return {
        "set": name,
        "dim": d,
        "seed": seed,
        "tool": tool,
        "regret": round(float(np.mean(regrets)), 5),
        "last": round(float(np.mean(regrets[-10:])), 5),
        "outside": outside,
        "far_outside": far,
        "cpu": round((process_time() - began) / BUDGET, 5),
        "stamp": asdict(stamp()),
    }


def records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def complete(seeds: range, tools: list[str]) -> None:
    """Run what is missing, and append a line for each run."""
    done = set()
    if RECORDS.exists():
        done = {(r["set"], r["dim"], r["seed"], r["tool"]) for r in records()}
    for seed in seeds:
        for tool in tools:
            for d in DIMS:
                for name in SETS:
                    if (name, d, seed, tool) not in done:
                        line = json.dumps(run(name, d, seed, tool))
                        with RECORDS.open("a") as file:
                            file.write(line + "\n")


def suggestions(count: int = 10_000) -> None:
    """Suggestions of the default on every set, in runs that begin anew; none is outside.

    Each record has the runs of one seed, so this goes on where it ended.
    """
    done = asked_records()
    asked, seed = sum(r["suggestions"] for r in done), len(done)
    while asked < count:
        line = {"seed": seed, "suggestions": 0, "outside": 0}
        for d in DIMS:
            for name in SETS:
                f = Landscape(np.random.default_rng([list(SETS).index(name), d, 1000 + seed]), d)
                limits = SETS[name](d)
                space = rl.Space({f"x{i}": rl.Float(0.0, 1.0) for i in range(d)}, limits.texts)
                this = Problem(limits, space, f, best=0.0, spread=1.0, noise=0.0)
                for x, tell in ours(this, seed):
                    line["outside"] += not this.keeps(x)
                    line["suggestions"] += 1
                    tell(f(x))
        with ASKED.open("a") as file:
            file.write(json.dumps(line | {"stamp": asdict(stamp())}) + "\n")
        asked, seed = asked + line["suggestions"], seed + 1


def asked_records() -> list[dict[str, Any]]:
    return [json.loads(line) for line in ASKED.read_text().splitlines()] if ASKED.exists() else []


# --- the page -------------------------------------------------------------------------------------


def _ratio(found: dict[Any, Any], name: str, d: int, rival: str, what: str) -> list[float]:
    """log(ours / theirs) for each seed that both have."""
    out = []
    for (one, dim, seed, tool), line in found.items():
        other = found.get((name, d, seed, rival))
        if (one, dim, tool) == (name, d, "regretless") and other:
            out.append(math.log(line[what] / other[what]))
    return out


def _shown(logs: list[float]) -> str:
    if not logs:
        return ""
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    ratio = math.exp(float(np.mean(logs)))
    return f"**{ratio:.2f}** ± {ratio * error:.2f} ({len(logs)})".replace(" ± nan", "")


def _factor(logs: list[float]) -> str:
    return f"{np.exp(np.mean(logs)):.3f}" if logs else ""


def report() -> None:
    found = {(r["set"], r["dim"], r["seed"], r["tool"]): r for r in records()}
    rivals = [tool for tool in TOOLS if any(key[3] == tool for key in found)]
    rivals.remove("regretless")
    head = ["set", "d", *(f"regret / {r}" for r in rivals)]
    head += [f"CPU / {r}" for r in rivals]
    rows, every = [], {(r, w): [] for r in rivals for w in ("regret", "cpu")}
    for name in SETS:
        for d in DIMS:
            cells = []
            for what in ("regret", "cpu"):
                for rival in rivals:
                    logs = _ratio(found, name, d, rival, what)
                    every[rival, what] += logs
                    form = _shown(logs) if what == "regret" else _factor(logs)
                    cells.append(form)
            rows.append([name, str(d), *cells])
    total = [_shown(every[r, "regret"]) for r in rivals]
    total += [_factor(every[r, "cpu"]) for r in rivals]
    rows.append(["**all**", "", *total])
    counts = []
    for tool in TOOLS:
        mine = [r for key, r in found.items() if key[3] == tool]
        if not mine:
            continue
        outside, far = (sum(r[what] for r in mine) for what in ("outside", "far_outside"))
        counts.append(f"{tool} {outside} of {BUDGET * len(mine)} ({far} by more than 1e-6)")
    table = "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
    text = f"{table}\n\nSuggestions outside of the limits: {', '.join(counts)}."
    if done := asked_records():
        asked, outside = (sum(r[what] for r in done) for what in ("suggestions", "outside"))
        text += f" Of {asked:,} more suggestions of the default, {outside} were."
    before, rest = PAGE.read_text().split("<!-- table -->")
    after = rest.split("<!-- end -->")[1]
    PAGE.write_text(f"{before}<!-- table -->\n{text}\n<!-- end -->{after}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:5", help="FIRST:END")
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--suggestions", action="store_true")
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.report:
        report()
    elif args.suggestions:
        suggestions()
    else:
        first, end = map(int, args.seeds.split(":"))
        complete(range(first, end), args.tools)


if __name__ == "__main__":
    main()
