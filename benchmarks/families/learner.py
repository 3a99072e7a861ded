"""Hyper-parameters of real learners on small data that are drawn at random.

An observation is the score on one of a fixed set of splits into training and test data, which is
drawn at random. f is the mean over all splits. So the noise is natural, and f is known exactly.
Scales are whole exponents of two, as many people tune them. So each space is finite. All scores of
an instance are computed once (a few seconds), and kept in build/families.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.families.base import Blueprint, Columns, at
from benchmarks.peers.problems import Array, Params
from numpy.random import Generator

from regretless import Categorical, Int, Space
from regretless.space.space import product

KEPT = Path(__file__).resolve().parents[2] / "build" / "families"
_SPLITS = 10
Scores = Callable[[Array, Array, Array, Array], Iterator[float]]


def learner(rng: Generator) -> Blueprint:
    """Ridge regression, nearest neighbours, a support vector machine or boosted trees."""
    key = int(rng.integers(2**62))
    kind = _KINDS[int(rng.integers(len(_KINDS)))]
    space, scores, regression = kind(rng)
    path = KEPT / f"learner-{key:x}.npy"
    if path.exists():
        table = np.load(path)
    else:
        table = np.array([list(scores(*split)) for split in _splits(rng, regression)]).T
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}.npy")
        np.save(draft, table)
        os.replace(draft, path)  # whole or not at all, as several processes may do this
    sizes = [len(p.places()) for p in space.columns]
    assert table.shape == (int(np.prod(sizes)), _SPLITS)
    lows = [p.low if isinstance(p, Int) else 0 for p in space.columns]

    def rows(values: Columns) -> Any:
        index = [values[n].astype(int) - low for n, low in zip(space.names, lows, strict=True)]
        return np.ravel_multi_index(index, sizes)

    means = table.mean(axis=1)

    def draw(params: Params, rng: Generator) -> float:
        row = rows(at(space, params))[0]
        return float(table[row, rng.integers(_SPLITS)])

    noise = float(np.sqrt(table.var(axis=1).mean()))
    return Blueprint(space, lambda values: means[rows(values)], draw=draw, natural_noise=noise)


def _splits(rng: Generator, regression: bool) -> Iterator[tuple[Array, Array, Array, Array]]:
    """Training and test data: x, y, x, y."""
    n, p = int(rng.integers(90, 181)), int(rng.integers(4, 16))
    useful = int(rng.integers(2, p + 1))
    x = rng.standard_normal((n, p)) @ (np.eye(p) + 0.3 * rng.standard_normal((p, p)))
    weight = rng.standard_normal(useful) / np.sqrt(useful)
    bends = rng.uniform(0.3, 1.5) * rng.standard_normal((useful, 3))
    truth = x[:, :useful] @ weight + np.sin(x[:, :useful] @ bends).sum(axis=1)
    y = truth + rng.uniform(0.1, 0.8) * truth.std() * rng.standard_normal(n)
    if not regression:
        y = (y > np.quantile(y, rng.uniform(0.35, 0.65))).astype(float)
    x = (x - x.mean(axis=0)) / x.std(axis=0)
    for _ in range(_SPLITS):
        order = rng.permutation(n)
        train, test = order[: 2 * n // 3], order[2 * n // 3 :]
        yield x[train], y[train], x[test], y[test]


def _r2(y: Array, guess: Array) -> float:
    """No worse than -1: a disaster is a disaster."""
    return max(-1.0, 1.0 - float(((y - guess) ** 2).sum() / ((y - y.mean()) ** 2).sum()))


def _ridge(rng: Generator) -> tuple[Space, Scores, bool]:
    """Kernel ridge regression: penalty and width of the kernel."""
    from sklearn.kernel_ridge import KernelRidge

    alphas, gammas = Int(-14, int(rng.integers(3, 9))), Int(-14, int(rng.integers(0, 5)))

    def scores(x: Array, y: Array, x2: Array, y2: Array) -> Iterator[float]:
        m = y.mean()
        for a, g in product([np.arange(p.low, p.high + 1.0) for p in (alphas, gammas)]):
            model = KernelRidge(alpha=2.0**a, gamma=2.0**g, kernel="rbf").fit(x, y - m)
            yield _r2(y2, model.predict(x2) + m)

    return Space({"log2_alpha": alphas, "log2_gamma": gammas}), scores, True


def _neighbours(rng: Generator) -> tuple[Space, Scores, bool]:
    from sklearn.neighbors import KNeighborsRegressor

    space = Space(
        {
            "neighbours": Int(1, int(rng.integers(20, 51))),
            "weights": Categorical(["uniform", "distance"]),
            "metric": Categorical(["manhattan", "euclidean", "chebyshev"]),
        }
    )
    counts, weights, metrics = space.columns

    def scores(x: Array, y: Array, x2: Array, y2: Array) -> Iterator[float]:
        for k in range(counts.low, counts.high + 1):
            for weight in weights.choices:
                for metric in metrics.choices:
                    model = KNeighborsRegressor(k, weights=weight, metric=metric).fit(x, y)
                    yield _r2(y2, model.predict(x2))

    return space, scores, True


def _machine(rng: Generator) -> tuple[Space, Scores, bool]:
    """A support vector machine: accuracy on two classes."""
    from sklearn.svm import SVC

    cs, gammas = Int(-6, int(rng.integers(6, 11))), Int(-12, int(rng.integers(1, 5)))

    def scores(x: Array, y: Array, x2: Array, y2: Array) -> Iterator[float]:
        for c, g in product([np.arange(p.low, p.high + 1.0) for p in (cs, gammas)]):
            yield float(SVC(C=2.0**c, gamma=2.0**g).fit(x, y).score(x2, y2))

    return Space({"log2_c": cs, "log2_gamma": gammas}), scores, False


def _boosting(rng: Generator) -> tuple[Space, Scores, bool]:
    """Boosted trees; one fit serves every number of trees."""
    from sklearn.ensemble import GradientBoostingRegressor

    depths, rates, trees = Int(1, 5), Int(-6, 0), Int(1, int(rng.integers(30, 81)))

    def scores(x: Array, y: Array, x2: Array, y2: Array) -> Iterator[float]:
        for depth in range(depths.low, depths.high + 1):
            for rate in range(rates.low, rates.high + 1):
                model = GradientBoostingRegressor(
                    learning_rate=2.0**rate,
                    max_depth=depth,
                    n_estimators=trees.high,
                    random_state=0,
                ).fit(x, y)
                for guess in model.staged_predict(x2):
                    yield _r2(y2, guess)

    return Space({"depth": depths, "log2_rate": rates, "trees": trees}), scores, True


_KINDS = (_ridge, _neighbours, _machine, _boosting)
