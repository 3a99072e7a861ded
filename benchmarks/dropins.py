"""What one changed line in an Optuna script does: GPSampler and TPE against RegretlessSampler.

The script is the same for all: make a study, optimize.  Counted are the cumulative regret of its
trials, noise-free, and the CPU seconds of the whole study on one thread, imports left out.
Every study is a line in docs/results/dropins.jsonl, and is not run again, but for our own when the
code has changed; the table is written to docs/results/dropins.md.  Needs
`pip install torch 'regretless[optuna]'`.
"""

# ruff: noqa: E402  (numpy and torch read the number of threads once, when they are imported)

from __future__ import annotations

import os

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import argparse
import hashlib
import json
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import optuna

from regretless.experiments.problems import PROBLEMS, Problem
from regretless.experiments.runner import stamp
from regretless.integrations import optuna as drop_in
from regretless.integrations.optuna import RegretlessSampler

ROOT = Path(__file__).resolve().parent.parent
RECORDS = ROOT / "docs" / "results" / "dropins.jsonl"
REPORT = RECORDS.with_suffix(".md")
CASES = [("hartmann-6", 264), ("ackley-2", 216), ("ackley-2", 616)]
SHORT = (0, 1)  # the paper's 616 trials take GPSampler hours: ask for them with `--cases 2`
SEEDS = 10
LESS_REGRET, LESS_TIME = 2.0, 3.0

SAMPLERS: dict[str, Callable[[int, int], Any]] = {
    "RegretlessSampler": lambda budget, seed: RegretlessSampler(budget=budget, seed=seed),
    "TPESampler": lambda budget, seed: optuna.samplers.TPESampler(seed=seed),
    "GPSampler": lambda budget, seed: optuna.samplers.GPSampler(seed=seed),
}

SAMPLER = hashlib.sha256(Path(drop_in.__file__).read_bytes()).hexdigest()[:12]  # of its code

Run = dict[str, Any]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--cases", nargs="+", type=int, default=SHORT)
    options = parser.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    done = {key(run) for run in records() if valid(run)}
    for problem, budget in (CASES[i] for i in options.cases):
        for seed in range(SEEDS):
            for sampler in options.samplers:
                if (problem, budget, sampler, seed) not in done:
                    run = study(PROBLEMS[problem], budget, sampler, seed)
                    with RECORDS.open("a") as file:
                        file.write(json.dumps(run) + "\n")
                    print(*key(run), f"regret {run['regret']:.0f}, {run['cpu']:.1f} s", flush=True)
    kept = records()
    RECORDS.write_text("".join(json.dumps(run) + "\n" for run in kept))
    REPORT.write_text(report(kept))


def study(problem: Problem, budget: int, sampler: str, seed: int) -> Run:
    rng = np.random.default_rng([seed, 1])
    box = list(zip(problem.names, problem.lows, problem.highs, strict=True))

    def objective(trial: optuna.Trial) -> float:
        params = {name: trial.suggest_float(name, low, high) for name, low, high in box}
        return problem.evaluate(params, rng)

    warm_up()
    start = process_time()
    study = optuna.create_study(direction="maximize", sampler=SAMPLERS[sampler](budget, seed))
    study.optimize(objective, n_trials=budget)
    cpu = process_time() - start
    regrets = [problem.regret(trial.params, 0.0) for trial in study.trials]
    chosen = study.best_params
    if isinstance(study.sampler, RegretlessSampler):
        chosen = study.sampler.recommend(study).params
    return {
        "problem": problem.name,
        "budget": budget,
        "sampler": sampler,
        "seed": seed,
        "regret": round(sum(regrets), 3),
        "last_50": round(sum(regrets[-50:]), 3),
        "recommended": round(problem.regret(chosen, 0.0), 4),
        "cpu": round(cpu, 2),
        "versions": versions(),
    }


def warm_up() -> None:
    """Imports that happen at a first use are not the sampler's price."""
    for make in SAMPLERS.values():
        small = optuna.create_study(sampler=make(15, 0))
        small.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=12)


def versions() -> dict[str, str]:
    others = {name: version(name) for name in ("optuna", "torch")}
    return stamp().versions() | {"sampler": SAMPLER} | others


def key(run: Run) -> tuple[str, int, str, int]:
    return run["problem"], run["budget"], run["sampler"], run["seed"]


def valid(run: Run) -> bool:
    """Our own runs belong to the code that made them."""
    ours = run["sampler"] == "RegretlessSampler"
    made = run["versions"]
    return not ours or (made.get("source"), made.get("sampler")) == (stamp().source, SAMPLER)


def records() -> list[Run]:
    """Every whole line; a torn one was never written, and of two of a run the later one counts."""
    lines = RECORDS.read_text().splitlines() if RECORDS.exists() else []
    found: dict[Any, Run] = {}
    for line in lines:
        try:
            run = json.loads(line)
        except ValueError:
            continue
        found[key(run)] = run
    return list(found.values())


def report(runs: list[Run]) -> str:
    stamps = [run["versions"] for run in runs]
    names = {name: None for made in stamps for name in made}  # older ones have fewer
    used = {k: ", ".join(sorted({made[k] for made in stamps if k in made})) for k in names}
    lines = [
        "# One line changed in an Optuna script",
        "",
        "`optuna.create_study(sampler=GPSampler())` is compared with",
        "`sampler=RegretlessSampler(budget=n_trials)`. The rest of the script is the same. TPE is",
        "Optuna's default. The functions have an sd of 1, and the noise has an sd of 0.1. The",
        "table shows the mean ± standard error over the seeds. The regret is measured without",
        "noise, and counts every trial. CPU seconds are those of a whole study on one thread. The",
        "recommendation of our sampler is `recommend(study)`. For the others it is",
        "`study.best_params`, the luckiest result.",
        "",
        "| problem | trials | sampler | seeds | cumulative regret | in the last 50 trials"
        " | regret of the recommendation | CPU s |",
        "|---|---|---|---|---|---|---|---|",
    ]
    verdicts = []
    for problem, budget in CASES:
        cell = {name: [] for name in SAMPLERS}
        for run in runs:
            if (run["problem"], run["budget"]) == (problem, budget):
                cell[run["sampler"]].append(run)
        lines += [row(problem, budget, name, mine) for name, mine in cell.items() if mine]
        if cell["GPSampler"] and cell["RegretlessSampler"]:
            verdicts.append(verdict(problem, budget, cell["GPSampler"], cell["RegretlessSampler"]))
    lines += ["", *verdicts, ""]
    lines += ["Made by `benchmarks/dropins.py`, with " + listed(used) + ".", ""]
    return "\n".join(lines)


def row(problem: str, budget: int, name: str, runs: list[Run]) -> str:
    cells = [spread([run[field] for run in runs]) for field in ("regret", "last_50")]
    cells += [spread([run["recommended"] for run in runs], 3), spread([r["cpu"] for r in runs], 1)]
    return f"| {problem} | {budget} | {name} | {len(runs)} | {' | '.join(cells)} |"


def spread(values: list[float], digits: int = 0) -> str:
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else float("nan")
    return f"{np.mean(values):.{digits}f} ± {error:.{digits}f}"


def verdict(problem: str, budget: int, theirs: list[Run], ours: list[Run]) -> str:
    def ratio(field: str) -> float:
        return float(np.mean([r[field] for r in theirs]) / np.mean([r[field] for r in ours]))

    regret, time = ratio("regret"), ratio("cpu")
    passed = regret >= LESS_REGRET and time >= LESS_TIME
    return (
        f"- {problem}, {budget} trials: GPSampler / RegretlessSampler = {regret:.1f} in regret"
        f" (bar {LESS_REGRET:g}), {time:.1f} in CPU time (bar {LESS_TIME:g}):"
        f" {'passed' if passed else 'missed'}"
    )


def listed(used: dict[str, str]) -> str:
    return ", ".join(f"{name} {what}" for name, what in used.items())


if __name__ == "__main__":
    main()
