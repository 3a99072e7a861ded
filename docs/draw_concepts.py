"""Draw the pictures of docs/concepts, and print the figures that the pages quote.

python docs/draw_concepts.py [regret gate replicates best]
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import regretless as rl
from regretless.improvement import gate as gate_of

matplotlib.use("Agg")
from matplotlib.figure import Figure

IMAGES = Path(__file__).parent / "images"
SPACE = rl.Space({"price": rl.Float(1.0, 20.0)})
GRID = np.linspace(1.0, 20.0, 400)
NOISE, BUDGET = 0.5, 60
BLUE, ORANGE, GREEN, GREY = "#0072B2", "#D55E00", "#009E73", "#999999"


def profit(price: Any) -> Any:
    """A high hill at a price of 6, and a lower one at 14."""
    return 3.0 * np.exp(-((price - 6.0) ** 2) / 4.0) + 2.0 * np.exp(-((price - 14.0) ** 2) / 8.0)


TOP = float(profit(GRID).max())


def run(seed: int, trials: int = BUDGET, **options: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(SPACE, BUDGET, seed=seed, **options)
    rng = np.random.default_rng(seed)
    for _ in range(trials):
        trial = optimizer.ask()
        optimizer.tell(trial, profit(trial.params["price"]) + NOISE * rng.standard_normal())
    return optimizer


def prices(optimizer: rl.Optimizer) -> np.ndarray:
    return np.array([row.params["price"] for row in optimizer.history()], dtype=float)


def regret() -> Figure:
    """What one run loses at each trial, and the sum of it for three policies."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    served = profit(prices(run(3)))
    trials = np.arange(1, BUDGET + 1)
    left.axhline(TOP, color="black", lw=1, ls="--", label="the best price would earn")
    left.plot(trials, served, "o-", ms=3, lw=1, color=BLUE, label="the price of the trial earns")
    left.fill_between(trials, served, TOP, color=ORANGE, alpha=0.25, label="the regret: this area")
    left.set(xlabel="trial", ylabel="profit (without noise)", title="One run", ylim=(-0.2, 4.6))
    left.legend(frameon=False, loc="upper right")
    for policy, label, colour in [
        ("random", "random search", GREY),
        ("explore-then-commit", "explore, then commit", ORANGE),
        ("ids", "the default", BLUE),
    ]:
        sums = np.array([np.cumsum(TOP - profit(prices(run(s, policy=policy)))) for s in range(8)])
        right.plot(trials, sums.mean(axis=0), color=colour, label=label)
        print(f"regret of {label}: {sums[:, -1].mean():.1f}")
    right.set(xlabel="trial", ylabel="cumulative regret", title="Mean of eight runs")
    right.legend(frameon=False)
    return figure


def gate() -> Figure:
    """Which prices are worth a trial, with 50, with 5 and with 1 evaluation left."""
    optimizer = run(1, trials=7, policy="eic", design="sobol")
    belief = optimizer.landscape([{"price": float(p)} for p in GRID])
    mean, sd = np.array(belief.mean), np.array(belief.sd)
    best = max(optimizer.landscape([row.params for row in optimizer.history()]).mean)
    figure = Figure(figsize=(8, 4.4), layout="constrained")
    ax = figure.add_subplot()
    ax.fill_between(GRID, mean - 2 * sd, mean + 2 * sd, color=BLUE, alpha=0.15, label="± 2 sd")
    ax.plot(GRID, mean, color=BLUE, label="expected profit")
    ax.axhline(best, color="black", lw=1, ls="--", label="best point so far")
    for row, (left, colour) in enumerate([(50, GREEN), (5, ORANGE), (1, GREY)]):
        threshold = gate_of(left)
        worth = (mean - best) / sd >= threshold
        print(f"gate with {left} left: {threshold:.2f} sd, {worth.mean():.0%} of the prices")
        height = -2.1 - 0.35 * row
        ax.fill_between(GRID, height, height + 0.25, where=worth, color=colour)
        ax.text(20.2, height, f"worth it with {left} left", color=colour, fontsize=9)
    results = [row.value for row in optimizer.history()]
    ax.plot(prices(optimizer), results, "o", color="black", ms=4, label="results")
    ax.set(xlabel="price", ylabel="profit", xlim=(1, 20))
    ax.legend(frameon=False, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def replicates() -> Figure:
    """Where a run tries, and how often."""
    optimizer = run(3)
    tried = prices(optimizer)
    seen = np.array([price in tried[:i] for i, price in enumerate(tried)])
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[3, 2])
    trials = np.arange(1, BUDGET + 1)
    left.plot(trials[~seen], tried[~seen], "o", color=ORANGE, ms=4, label="a new price")
    left.plot(trials[seen], tried[seen], "o", color=BLUE, ms=4, label="a price that was tried")
    left.set(xlabel="trial", ylabel="price", title=f"{(~seen).sum()} prices in {BUDGET} trials")
    left.legend(frameon=False, loc="upper right")
    values, counts = np.unique(tried, return_counts=True)
    right.vlines(values, 0, counts, color=BLUE, lw=2)
    right.plot(values, counts, "o", color=BLUE, ms=4)
    right.set(xlabel="price", ylabel="results", title="Results at each price", ylim=(0, None))
    print(f"replicates: {len(values)} prices, the most results at one: {counts.max()}")
    return figure


def best() -> Figure:
    """The luckiest result and best(), in one run, and over 100 runs."""
    figure = Figure(figsize=(10, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    optimizer = run(5, trials=20)
    rows = optimizer.history()
    values = np.array([row.value for row in rows])
    lucky, found = int(values.argmax()), optimizer.best()
    left.plot(GRID, profit(GRID), color="black", lw=1, label="the truth")
    left.plot(prices(optimizer), values, "o", color=GREY, ms=4, label="results")
    where = prices(optimizer)[lucky]
    left.plot(where, values[lucky], "*", color=ORANGE, ms=13, label="the luckiest result")
    ends = [[found.mean - found.low], [found.high - found.mean]]
    point = found.params["price"]
    left.errorbar(point, found.mean, ends, fmt="s", color=BLUE, capsize=4, label="best()")
    left.set(xlabel="price", ylabel="profit", title="After 20 trials")
    left.legend(frameon=False, fontsize=8)
    said: dict[str, list[float]] = {"the luckiest result": [], "best()": []}
    for seed in range(100):
        one = run(seed, trials=20)
        observed = np.array([row.value for row in one.history()])
        top = prices(one)[observed.argmax()]
        said["the luckiest result"].append(observed.max() - profit(top))
        said["best()"].append(one.best().mean - profit(one.best().params["price"]))
    for (label, errors), colour in zip(said.items(), (ORANGE, BLUE), strict=True):
        right.hist(errors, bins=np.arange(-1.0, 1.8, 0.1), color=colour, alpha=0.6, label=label)
        print(f"{label}: too high by {np.mean(errors):.2f} on average of 100 runs")
    right.axvline(0.0, color="black", lw=1)
    right.set(xlabel="what it says − what the price earns", ylabel="runs", title="100 runs")
    right.legend(frameon=False)
    return figure


PICTURES = {"regret": regret, "gate": gate, "replicates": replicates, "best": best}

if __name__ == "__main__":
    for name in sys.argv[1:] or PICTURES:
        PICTURES[name]().savefig(IMAGES / f"concept-{name}.png", dpi=110)
