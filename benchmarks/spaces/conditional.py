"""Conditional problems: our default, the same on the flattened space, and Optuna's samplers.

    python -m benchmarks.spaces.conditional --seeds 0:20        # runs what is missing
    python -m benchmarks.spaces.conditional --report            # the page, from the records

Every run is a line of docs/results/spaces/conditional.jsonl, and is not run again.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
from benchmarks.spaces.problems import FAMILIES, Params, Problem, flattened, problem

import regretless as rl

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "results" / "spaces"
RECORDS = FOLDER / "conditional.jsonl"
PAGE = FOLDER.parent / "conditional.md"
CHOSEN = 20  # the seeds below were used to choose; those from here on are new

Trials = Iterator[tuple[Params, Callable[[float], None]]]


def ours(problem: Problem, seed: int, **settings: Any) -> Trials:
    optimizer = rl.Optimizer(problem.space, problem.budget, seed=seed, **settings)
    for trial in optimizer:
        yield trial.params, lambda y, t=trial: optimizer.tell(t, y)


def flat(problem: Problem, seed: int) -> Trials:
    optimizer = rl.Optimizer(flattened(problem.space), problem.budget, seed=seed)
    for trial in optimizer:
        x = optimizer.space.encode(trial.params)
        yield problem.space.decode(x), lambda y, t=trial: optimizer.tell(t, y)


def chance(problem: Problem, seed: int) -> Trials:
    return ours(problem, seed, policy="random")


def _optuna(problem: Problem, sampler: Any) -> Trials:
    """Define by run, as an Optuna user would write it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    space = problem.space
    for _ in range(problem.budget):
        trial = study.ask()
        params: Params = {}
        for name, parameter in space.parameters.items():
            if name in space._active(params):
                params[name] = _suggested(trial, name, parameter.plain)
        yield space.validate(params), lambda y, t=trial: study.tell(t, y)


def _suggested(trial: Any, name: str, parameter: Any) -> Any:
    if isinstance(parameter, rl.Categorical):
        return trial.suggest_categorical(name, list(parameter.choices))
    if isinstance(parameter, rl.Int):
        return trial.suggest_int(name, parameter.low, parameter.high, log=parameter.log)
    return trial.suggest_float(name, parameter.low, parameter.high, log=parameter.log)


def tpe(problem: Problem, seed: int) -> Trials:
    import warnings

    from optuna.samplers import TPESampler

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        sampler = TPESampler(seed=seed, group=True, multivariate=True)
    return _optuna(problem, sampler)


def gp(problem: Problem, seed: int) -> Trials:
    from optuna.samplers import GPSampler

    return _optuna(problem, GPSampler(seed=seed))


TOOLS: dict[str, Callable[[Problem, int], Trials]] = {
    "regretless": ours,
    "regretless, flattened": flat,
    "optuna TPE": tpe,
    "optuna GP": gp,
    "random": chance,
}


def run(family: str, seed: int, tool: str) -> dict[str, Any]:
    """One run: the regret of each step, in spreads of f, and the CPU time of the tool."""
    this = problem(family, seed)
    noise = np.random.default_rng([seed, 99])
    regrets = []
    trials = TOOLS[tool](this, seed)
    began = process_time()
    for params, tell in trials:
        regrets.append(this.regret(params))
        tell(this.f(params) + this.noise * this.spread * noise.standard_normal())
    return {
        "family": family,
        "seed": seed,
        "tool": tool,
        "budget": this.budget,
        "noise": this.noise,
        "regret": float(np.mean(regrets)),
        "last": float(np.mean(regrets[-10:])),
        "cpu": (process_time() - began) / this.budget,
        "steps": [round(r, 4) for r in regrets],
    }


def records(path: Path = RECORDS) -> list[dict[str, Any]]:
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text().splitlines()]


def complete(seeds: range, tools: list[str], path: Path = RECORDS) -> None:
    """Run what is missing, and append a line for each run."""
    path.parent.mkdir(parents=True, exist_ok=True)
    done = {(r["family"], r["seed"], r["tool"]) for r in records(path)}
    for seed in seeds:
        for tool in tools:
            for family in FAMILIES:
                if (family, seed, tool) not in done:
                    line = json.dumps(run(family, seed, tool))
                    with path.open("a") as file:
                        file.write(line + "\n")


# --- the page -------------------------------------------------------------------------------------


def report() -> None:
    found = {(r["family"], r["seed"], r["tool"]): r for r in records()}
    rivals = [tool for tool in TOOLS if tool != "regretless"]
    rivals = [tool for tool in rivals if any(key[2] == tool for key in found)]
    head = ["family", "seeds", *(f"regret / {rival}" for rival in rivals)]
    rows = []
    for new in (False, True):
        for family in FAMILIES:
            logs = [_log_ratios(found, family, rival, new) for rival in rivals]
            if any(logs):
                seeds = f"from {CHOSEN}" if new else f"below {CHOSEN}"
                rows.append([family, seeds, *map(_shown, logs)])
    table = "\n".join("| " + " | ".join(row) + " |" for row in (head, ["---"] * len(head), *rows))
    before, rest = PAGE.read_text().split("<!-- table -->")
    after = rest.split("<!-- end -->")[1]
    PAGE.write_text(f"{before}<!-- table -->\n{table}\n<!-- end -->{after}")


def _log_ratios(found: dict[Any, Any], family: str, rival: str, new: bool) -> list[float]:
    """log(ours / theirs) for each instance that both have."""
    return [
        float(np.log(line["regret"] / found[family, seed, rival]["regret"]))
        for (name, seed, tool), line in found.items()
        if (name, tool) == (family, "regretless")
        and (seed >= CHOSEN) == new
        and (family, seed, rival) in found
    ]


def _shown(logs: list[float]) -> str:
    if not logs:
        return ""
    ratio = float(np.exp(np.mean(logs)))
    error = ratio * float(np.std(logs, ddof=1)) / len(logs) ** 0.5 if len(logs) > 1 else np.nan
    return f"**{ratio:.2f}** ± {error:.2f} ({len(logs)})".replace(" ± nan", "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", default="0:20", help="FIRST:END")
    parser.add_argument("--records", type=Path, default=RECORDS)
    parser.add_argument("--tools", nargs="*", default=list(TOOLS), choices=list(TOOLS))
    parser.add_argument("--report", action="store_true")
    args = parser.parse_args()
    if args.report:
        report()
        return
    first, end = map(int, args.seeds.split(":"))
    complete(range(first, end), args.tools, args.records)


if __name__ == "__main__":
    main()
