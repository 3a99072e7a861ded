"""What a known optimum, or a loose bound, saves; and two older ways to use a known optimum.

    python benchmarks/known_optimum.py --seeds 0:8      # resumable; records in docs/results
    python benchmarks/known_optimum.py --report         # the page and its picture

The problems are the paper's six functions (at most 216 evaluations) and four families of
benchmarks/families that may be used to choose a default.  Every tool meets the same noise.  A loose
bound is f* plus half of what f* is above the mean of f over the space.

ERM and CBM are by Nguyen and Osborne (arXiv 1905.02685).  They model g = sqrt(2 (f* - y)) by a
Gaussian process, so that f = f* - g^2/2 can't exceed f*.  Results above f* count as f*.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks.families.table import instance  # noqa: E402

import regretless as rl  # noqa: E402
from regretless.experiments.problems import PROBLEMS  # noqa: E402
from regretless.experiments.runner import stamp  # noqa: E402
from regretless.policies import PolicyInput  # noqa: E402

RECORDS = ROOT / "docs/results/known_optimum/records.jsonl"
PAGE = ROOT / "docs/results/known_optimum.md"
FAMILIES = ("gp-smooth", "hills", "control", "price")
PER_SPACE = 400  # points for the mean of f


@dataclass(frozen=True)
class Task:
    """A function with noise and a known optimum."""

    space: rl.Space
    budget: int
    f_star: float
    mean: float
    observe: Callable[[dict[str, Any], int], float]
    regret: Callable[[dict[str, Any]], float]


def task(name: str, seed: int) -> Task:
    if name in PROBLEMS:
        problem = PROBLEMS[name]
        noise = np.random.default_rng([5, seed]).standard_normal(problem.budget)
        return Task(
            problem.space(),
            min(problem.budget, 216),
            problem.f_star,
            0.0,
            lambda params, k: problem.value(params) + problem.noise_sd * float(noise[k]),
            lambda params: problem.regret(params, 0.0),
        )
    drawn = instance(name, seed)
    points = drawn.space.spread(np.random.default_rng(0).random((PER_SPACE, drawn.space.dim)))
    assert drawn.f is not None
    mean = float(np.mean([drawn.f(drawn.space.decode(x)) for x in points]))
    return Task(
        drawn.space,
        drawn.budget,
        drawn.f_star,
        mean,
        lambda params, k: drawn.observe(params, drawn.number, k),
        lambda params: drawn.regret(params, 0.0),
    )


# --- the older ways -------------------------------------------------------------------------------


@dataclass(frozen=True)
class ERM(rl.Policy):
    """The least expected regret under f = f* - g^2/2, with g linearised around its mean."""

    name: ClassVar[str] = "erm"

    def score(self, inputs: PolicyInput) -> rl.Score:
        from scipy.special import ndtr

        assert inputs.ceiling is not None
        top = inputs.ceiling.value

        def utility(mu: Any, s: Any) -> tuple[Any, Any, Any]:
            v = np.maximum(top - mu, 1e-9)
            z = v / (2.0 * s)
            density = np.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)
            regret = v * s * density + 0.5 * v * v * ndtr(z)
            # d/dv = s density + v Phi, and d/ds = v density: the other terms cancel.
            return -np.log(regret), (s * density + v * ndtr(z)) / regret, -v * density / regret

        return rl.PosteriorScore(inputs.posterior, inputs.posterior.omega, utility)


@dataclass(frozen=True)
class CBM(rl.Policy):
    """The point that f* is the fewest standard deviations away from."""

    name: ClassVar[str] = "cbm"

    def score(self, inputs: PolicyInput) -> rl.Score:
        assert inputs.ceiling is not None
        top = inputs.ceiling.value

        def utility(mu: Any, s: Any) -> tuple[Any, Any, Any]:
            return (mu - top) / s, 1.0 / s, (top - mu) / (s * s)

        return rl.PosteriorScore(inputs.posterior, inputs.posterior.omega, utility)


def _transformed(policy: rl.Policy, problem: Task, seed: int) -> list[float]:
    """The regrets of a policy that is told -g instead of y."""
    optimizer = rl.Optimizer(problem.space, problem.budget, seed=seed, policy=policy, bound=0.0)
    regrets = []
    for trial in optimizer:
        y = problem.observe(trial.params, trial.number)
        optimizer.tell(trial, -math.sqrt(2.0 * max(problem.f_star - y, 0.0)))
        regrets.append(problem.regret(trial.params))
    return regrets


def _ours(policy: str, known: str) -> Callable[[Task, int], list[float]]:
    def run(problem: Task, seed: int) -> list[float]:
        loose = problem.f_star + 0.5 * (problem.f_star - problem.mean)
        given = {"": {}, "optimum": {"optimum": problem.f_star}, "bound": {"bound": loose}}[known]
        optimizer = rl.Optimizer(problem.space, problem.budget, seed=seed, policy=policy, **given)
        regrets = []
        for trial in optimizer:
            optimizer.tell(trial, problem.observe(trial.params, trial.number))
            regrets.append(problem.regret(trial.params))
        return regrets

    return run


TOOLS: dict[str, Callable[[Task, int], list[float]]] = {
    "ids": _ours("ids", ""),
    "ids, optimum": _ours("ids", "optimum"),
    "eic": _ours("eic", ""),
    "eic, optimum": _ours("eic", "optimum"),
    "ids, loose bound": _ours("ids", "bound"),
    "eic, loose bound": _ours("eic", "bound"),
    "erm": lambda problem, seed: _transformed(ERM(), problem, seed),
    "cbm": lambda problem, seed: _transformed(CBM(), problem, seed),
}


# --- records --------------------------------------------------------------------------------------


def records() -> dict[tuple[str, str, int], dict[str, Any]]:
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    every = map(json.loads, lines)
    return {(each["problem"], each["tool"], each["seed"]): each for each in every}


def run(seeds: range, tools: list[str]) -> None:
    warnings.simplefilter("ignore")
    RECORDS.parent.mkdir(parents=True, exist_ok=True)
    for seed in seeds:
        for name in (*PROBLEMS, *FAMILIES):
            for tool in tools:
                if (name, tool, seed) in records():
                    continue
                problem, began = task(name, seed), time.process_time()
                regrets = TOOLS[tool](problem, seed)
                line = {"problem": name, "tool": tool, "seed": seed, "N": problem.budget}
                line |= {"regret": round(sum(regrets), 4), "last": round(regrets[-1], 4)}
                line |= {"cpu": round(time.process_time() - began, 3), "stamp": asdict(stamp())}
                with RECORDS.open("a") as file:
                    file.write(json.dumps(line) + "\n")


# --- the page -------------------------------------------------------------------------------------

SHOWN = (
    ("ids, optimum", "ids"),
    ("eic, optimum", "eic"),
    ("ids, loose bound", "ids"),
    ("eic, loose bound", "eic"),
    ("erm", "ids"),
    ("cbm", "ids"),
)


def ratio(found: dict[Any, Any], name: str, tool: str, base: str) -> tuple[float, float, int]:
    """The geometric mean of the ratios of regret, its standard error (of the log), the count."""
    logs = [
        math.log(found[name, tool, seed]["regret"] / found[name, base, seed]["regret"])
        for (problem, one, seed) in found
        if problem == name and one == tool and (name, base, seed) in found
    ]
    if not logs:
        return math.nan, math.nan, 0
    error = float(np.std(logs, ddof=1)) / math.sqrt(len(logs)) if len(logs) > 1 else math.nan
    return math.exp(float(np.mean(logs))), error, len(logs)


def report() -> None:
    found = records()
    names = (*PROBLEMS, *FAMILIES)
    head = ["problem", "seeds", *(tool for tool, _ in SHOWN)]
    rows, groups = [], {"six functions": tuple(PROBLEMS), "families": FAMILIES, "all": names}
    for name in names:
        each = [ratio(found, name, tool, base) for tool, base in SHOWN]
        cells = [f"{r:.2f} ± {r * e:.2f}" for r, e, _ in each]
        rows.append([name, str(each[0][2]), *cells])
    for group, members in groups.items():
        cells = []
        for tool, base in SHOWN:
            logs = [math.log(ratio(found, name, tool, base)[0]) for name in members]
            cells.append(f"**{math.exp(float(np.nanmean(logs))):.3f}**")
        rows.append([f"**{group}**", "", *cells])
    table = "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
    text = PAGE.read_text() if PAGE.exists() else "<!-- table -->\n<!-- end -->\n"
    before, rest = text.split("<!-- table -->")
    after = rest.split("<!-- end -->")[1]
    PAGE.write_text((f"{before}<!-- table -->\n{table}\n<!-- end -->{after}").replace(" ± nan", ""))
    _draw(found, names)


def _draw(found: dict[Any, Any], names: tuple[str, ...]) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(figsize=(7.0, 4.2))
    marks = zip(SHOWN[:4], ("o", "s", "o", "s"), ("C0", "C0", "C1", "C1"), strict=True)
    for k, ((tool, base), mark, colour) in enumerate(marks):
        each = [ratio(found, name, tool, base) for name in names]
        places = np.arange(len(names)) + 0.16 * (k - 1.5)
        values = np.array([r for r, _, _ in each])
        errors = np.array([r * e for r, e, _ in each])
        axes.errorbar(values, places, xerr=errors, fmt=mark, color=colour, label=tool, ms=4)
    axes.axvline(1.0, color="0.5", lw=1)
    axes.axvline(0.9, color="0.5", lw=1, ls=":")
    axes.set_yticks(range(len(names)), names)
    axes.invert_yaxis()
    axes.set_xlabel("regret, divided by that of the same policy without it (± standard error)")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, frameon=False)
    figure.tight_layout()
    figure.savefig(PAGE.parent / "known_optimum" / "regret.png", dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:8")
    parser.add_argument("--tools", nargs="*", default=list(TOOLS))
    parser.add_argument("--report", action="store_true")
    options = parser.parse_args()
    if options.report:
        report()
    else:
        first, end = map(int, options.seeds.split(":"))
        run(range(first, end), options.tools)
