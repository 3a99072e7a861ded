"""Tune a scikit-learn model through Optuna, and see how far the best score can be believed.

    python examples/optuna_sklearn.py [--trials 40] [--picture optuna_sklearn.png]

Each trial fits a support vector machine on 300 digits and scores it on 100 others, drawn anew each
time. So scores are noisy, and the largest one is lucky. `recommend` names the model with the best
expected score instead. Both are then measured on many more digits. It needs the extras `optuna` and
`experiments`.
"""

from __future__ import annotations

import argparse

import numpy as np
import optuna
from matplotlib.figure import Figure
from sklearn.datasets import load_digits
from sklearn.svm import SVC

from regretless.integrations.optuna import RegretlessSampler

X, Y = load_digits(return_X_y=True)


def score(C: float, gamma: float, rng: np.random.Generator) -> float:
    chosen = rng.permutation(len(X))
    train, test = chosen[:300], chosen[300:400]
    return float(SVC(C=C, gamma=gamma).fit(X[train], Y[train]).score(X[test], Y[test]))


def truth(params: dict[str, float], repeats: int) -> float:
    rng = np.random.default_rng(1)
    return float(np.mean([score(**params, rng=rng) for _ in range(repeats)]))


def main() -> None:
    parser = argparse.ArgumentParser(description="A scikit-learn model through Optuna.")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=50, help="to measure the two models")
    parser.add_argument("--picture", default="optuna_sklearn.png")
    options = parser.parse_args()

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    rng = np.random.default_rng(0)

    def objective(trial: optuna.Trial) -> float:
        C = trial.suggest_float("C", 1e-2, 1e3, log=True)
        return score(C, trial.suggest_float("gamma", 1e-5, 1e-1, log=True), rng)

    sampler = RegretlessSampler(budget=options.trials, seed=0)
    study = optuna.create_study(direction="maximize", sampler=sampler)
    study.optimize(objective, n_trials=options.trials)

    best = sampler.recommend(study)
    said = {"the luckiest score": study.best_value, "recommend()": best.mean}
    true = {
        "the luckiest score": truth(study.best_params, options.repeats),
        "recommend()": truth(dict(best.params), options.repeats),
    }
    for name, value in said.items():
        print(f"{name} says {value:.3f}; measured {true[name]:.3f}")
    figure = Figure(figsize=(8, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    values = [trial.value for trial in study.trials]
    left.plot(values, "o", color="#0072B2", ms=4)
    left.set(xlabel="trial", ylabel="score", title="what each trial scored")
    places = np.arange(2)
    right.bar(places - 0.2, list(said.values()), 0.4, color="#D55E00", label="says")
    right.bar(places + 0.2, list(true.values()), 0.4, color="#0072B2", label="measured")
    right.set(xticks=places, xticklabels=list(said), ylim=(0.8, 1.0), title="how far to believe it")
    right.legend(frameon=False)
    figure.savefig(options.picture, dpi=110)


if __name__ == "__main__":
    main()
