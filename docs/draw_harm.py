"""Draw docs/images/do-no-harm.png: the total loss against the baseline, with and without a budget."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import matplotlib
import numpy as np

import regretless as rl

matplotlib.use("Agg")
from matplotlib.figure import Figure

PICTURE = Path(__file__).parent / "images" / "do-no-harm.png"
SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
TODAY = {"x": 0.62, "y": 0.55}
TRIALS, LIMIT = 60, 4.0


def f(params: Any) -> float:
    """A hill near today's setting, and a cliff on the other side."""
    x, y = params["x"], params["y"]
    hill = 1.5 - 6.0 * ((x - 0.8) ** 2 + (y - 0.75) ** 2)
    return float(hill - 4.0 / (1.0 + np.exp(30.0 * (x - 0.3))))


def losses(seed: int, **options: Any) -> np.ndarray:
    optimizer = rl.Optimizer(SPACE, TRIALS, seed=seed, baseline=TODAY, **options)
    rng, lost = np.random.default_rng(seed), []
    for trial in optimizer:
        lost.append(f(TODAY) - f(trial.params))
        optimizer.tell(trial, f(trial.params) + 0.2 * rng.standard_normal())
    return np.cumsum(lost)


def main() -> None:
    figure = Figure(figsize=(8, 4.2), layout="constrained")
    ax = figure.add_subplot()
    trials = np.arange(1, TRIALS + 1)
    runs = (
        ("without a loss budget", "#D55E00", {}),
        ("loss_budget=4", "#0072B2", {"loss_budget": 4.0}),
    )
    for name, colour, options in runs:
        for seed in range(5):
            label = name if seed == 0 else None
            ax.plot(trials, losses(seed, **options), color=colour, lw=1.3, label=label)
    ax.axhline(LIMIT, color="black", ls="--", lw=1, label="the budget")
    ax.axhline(0.0, color="#999999", lw=1)
    ax.set(xlabel="trials", ylabel="total loss against the baseline", xlim=(1, TRIALS))
    ax.legend(frameon=False, loc="lower left")
    figure.savefig(PICTURE, dpi=120)


if __name__ == "__main__":
    main()
