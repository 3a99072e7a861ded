"""Tune a simulated recommender while it serves customers, and see what the tuning costs.

Every evaluation is a day on which 2,000 customers see one setting, and the click-through rate of
that day is all that comes back.  `make run` tunes it from the command line,

    regretless tune examples/live_demo.py --budget 120 --study recommender ...

and then runs this file. It reads the study, says what was tried and why, compares the run with
other ways to spend the same days, and draws a picture:

    python examples/live_demo.py [--storage live_demo.sqlite] [--runs 3] [--picture live_demo.png]
"""

from __future__ import annotations

import argparse
import sys

import numpy as np

import regretless as rl
from regretless.plotting import plot_decisions, plot_regret

CUSTOMERS, STUDY = 2000, "recommender"

space = rl.Space(
    {
        "ranker": rl.Categorical(["popular", "collaborative", "hybrid"]),
        "half_life_days": rl.Float(0.5, 60.0, log=True),  # how fast old clicks are forgotten
        "diversity": rl.Float(0.0, 1.0),  # share of the list that is not what you always click
        "page_size": rl.Int(4, 40),
    }
)
TODAY = {"ranker": "popular", "half_life_days": 30.0, "diversity": 0.5, "page_size": 20}

# Each ranker has its own best half-life and diversity.
_RANKERS = {
    "popular": (0.070, 3.0, 0.2),
    "collaborative": (0.085, 20.0, 0.35),
    "hybrid": (0.1, 8.0, 0.3),
}


def click_rate(params: dict[str, rl.Scalar]) -> float:
    """The true click-through rate, which nobody gets to see."""
    top, half_life, diversity = _RANKERS[str(params["ranker"])]
    forgets = np.log(float(params["half_life_days"]) / half_life) / 1.2
    varied = (float(params["diversity"]) - diversity) / 0.3
    crowded = (float(params["page_size"]) - 14.0) / 14.0
    return 0.02 + top * float(np.exp(-0.5 * (forgets**2 + varied**2 + crowded**2)))


def best_rate() -> float:
    top = {"ranker": "hybrid", "half_life_days": 8.0, "diversity": 0.3, "page_size": 14}
    return click_rate(top)


def serve(params: dict[str, rl.Scalar], rng: np.random.Generator) -> float:
    """One day: the share of customers who clicked, in percent."""
    return 100.0 * rng.binomial(CUSTOMERS, click_rate(params)) / CUSTOMERS


_customers_of_today = np.random.default_rng([0, 1])


def objective(params: dict[str, rl.Scalar]) -> float:
    """What `regretless tune` calls: one day with this setting."""
    return serve(params, _customers_of_today)


def run(policy: str | rl.Policy, days: int, seed: int) -> rl.Optimizer:
    rng = np.random.default_rng([seed, 1])
    found = rl.maximize(lambda params: serve(params, rng), space, days, policy=policy, seed=seed)
    return found.optimizer


def regret(tuned: rl.Optimizer) -> np.ndarray:
    """Clicks lost each day against the best setting."""
    rates = np.array([click_rate(trial.params) for trial in tuned.trials])
    return CUSTOMERS * (best_rate() - rates)


def show(tuned: rl.Optimizer) -> None:
    print("\nWhat was tried, and why (day by day, shortened):")
    rows = tuned.history()
    for row in [*rows[:4], *rows[10:60:7], *rows[-2:]]:
        values = " ".join(
            f"{value:.3g}" if isinstance(value, float) else str(value)
            for value in row.params.values()
        )
        print(f"  {row.number:4d}  {values:<30} -> {row.value:5.2f} %   {row.decision}")
    best = tuned.best()
    print(
        f"\nRecommended: {best.params}\n"
        f"  click-through {best.mean:.2f} % (95 %: {best.low:.2f} to {best.high:.2f}),"
        f" tried on {best.count} days; the luckiest day anywhere showed {best.luckiest:.2f} %\n"
        f"  in truth it brings {100 * click_rate(best.params):.2f} %, the best possible is"
        f" {100 * best_rate():.2f} %, today's setting {100 * click_rate(TODAY):.2f} %"
    )


def compare(first: rl.Optimizer, runs: int) -> dict[str, np.ndarray]:
    """Clicks lost under other ways to spend the same days, in several runs of each."""
    rivals: dict[str, str | rl.Policy] = {
        "regretless": "ids",
        "GP-UCB": "gp-ucb",
        "explore 20 %, then commit": rl.ExploreThenCommit(0.2),
        "random search": "random",
    }
    lost: dict[str, list[np.ndarray]] = {name: [] for name in rivals}
    days, total = len(first.trials), len(rivals) * runs
    for done, (name, seed) in enumerate((n, s) for n in rivals for s in range(runs)):
        sys.stderr.write(f"\rcomparing: {done + 1}/{total} runs ")
        sys.stderr.flush()
        tuned = first if (name, seed) == ("regretless", 0) else run(rivals[name], days, seed)
        lost[name].append(regret(tuned))
    sys.stderr.write("\n")
    curves = {name: np.array(each) for name, each in lost.items()}
    kept = CUSTOMERS * (best_rate() - click_rate(TODAY))
    curves["keep today's setting"] = np.full((1, days), kept)
    return curves


def draw(first: rl.Optimizer, curves: dict[str, np.ndarray], path: str) -> None:
    from matplotlib.figure import Figure

    figure = Figure(figsize=(12, 4.5), layout="constrained")
    left, right = figure.subplots(1, 2)
    plot_regret(curves, left, per_step=True).set(ylabel="clicks lost so far", xlabel="day")
    plot_decisions(first, right).set(ylabel="click-through of the day, %", xlabel="day")
    figure.savefig(path, dpi=110)
    print(f"\nThe picture is in {path}.")


def main() -> None:
    parser = argparse.ArgumentParser(description="What a tuned recommender gained and lost.")
    parser.add_argument("--storage", default="live_demo.sqlite")
    parser.add_argument("--runs", type=int, default=3, help="of each way to spend the days")
    parser.add_argument("--picture", default="live_demo.png")
    options = parser.parse_args()
    with rl.Study.open(options.storage, STUDY, read_only=True) as study:
        first = study.snapshot().optimizer
    show(first)
    curves = compare(first, options.runs)
    print(
        f"\nClicks lost in {len(first.trials)} days against the best setting"
        f" (mean of {options.runs} runs, and range):"
    )
    totals = {name: runs.sum(axis=1) for name, runs in curves.items()}
    for name, lost in sorted(totals.items(), key=lambda item: item[1].mean()):
        spread = f"{lost.min():8.0f} to {lost.max():.0f}" if len(lost) > 1 else ""
        print(f"  {name:<28} {lost.mean():8.0f} {spread}")
    print("Where ranges overlap, so few runs do not tell who is ahead: docs/results/peers.md does.")
    draw(first, curves, options.picture)


if __name__ == "__main__":
    main()
