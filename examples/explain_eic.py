"""The picture that explains EIC: a price tuned over 60 weeks, seen after week 10 and near the end.

python examples/explain_eic.py [FILE.png]
"""

from __future__ import annotations

import sys

import numpy as np
from matplotlib.figure import Figure

import regretless as rl
from regretless.plotting import plot_posterior

SPACE = rl.Space({"price": rl.Float(1.0, 20.0)})


def profit(price: float) -> float:
    return 3.0 * np.exp(-((price - 6.0) ** 2) / 4.0) + 2.0 * np.exp(-((price - 14.0) ** 2) / 8.0)


def main(path: str) -> None:
    rng = np.random.default_rng(3)
    optimizer = rl.Optimizer(SPACE, budget=60, seed=2, policy="eic", design="sobol")
    figure = Figure(figsize=(12, 5.5), layout="constrained")
    axes = figure.subplots(2, 2, sharex=True, gridspec_kw={"height_ratios": [2, 1]})
    for column, week in enumerate((10, 57)):
        while optimizer.asked < week:
            trial = optimizer.ask()
            value = profit(float(trial.params["price"])) + 0.15 * rng.standard_normal()
            optimizer.tell(trial, value)
        plot_posterior(optimizer, axes[:, column])
    axes[1, 1].set_ylabel("")
    axes[0, 1].set_ylabel("")
    figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "explain_eic.png")
