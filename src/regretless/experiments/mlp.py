"""The neural-network problem of the paper (Figure 3): tune an MLP on breast-cancer data.

**Data.** The Wisconsin diagnostic data of scikit-learn (569 patients, 30 covariates; 212 malignant,
357 benign).  The paper has one 7:3 split, trains on the larger part and scores on the other.  So
the split here is fixed (398 and 171 patients, drawn with seed 0).  Each evaluation draws new
initial weights and a new order of the batches.  Covariates are standardised with the mean and the
standard deviation of the training part.  `Mlp(split=k)` has other splits, each with its own best
accuracy (0.955 to 0.99 over two dozen splits; 0.975 for the default).

**Network and training.** One hidden layer of tanh units, a logistic output, cross-entropy, plain
minibatch gradient descent for `EPOCHS` passes, with the rate η / (1 + decay · t) at update t.  It
is the simplest method in which all four hyper-parameters have an effect.  It can't overflow: hidden
units and output errors are bounded by 1, so the weights grow at most polynomially in the number of
updates, however large the rate is.

**Hyper-parameters.** The paper names the four, but not their ranges; see `mlp_space`.  All four
have an effect by their ratios, so all are on a log scale.

**Why not `MLPClassifier`.** Figure 3 needs 100,000 trainings.  scikit-learn's classifier has no
such decay, and more overhead for each batch: on one core, the same number of passes takes about ten
times as long.  In numpy, a training is a few hundred small matrix products.

**Regret.** As in the paper, f* is taken as 1, the accuracy if all patients are classified
correctly.  The mean accuracy f(x) is not known, so the regret of an evaluation is 1 minus its
*observed* accuracy.  The noise averages out over a run.  No setting reaches 1, so the cumulative
regret of every policy goes on growing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from regretless.errors import MissingExtraError
from regretless.space import Float, Int, Space

EPOCHS = 20
TRAIN_SHARE = 0.7

# Twice as fast to read as float64, and accurate enough to classify 171 patients.
Array = NDArray[np.float32]


@dataclass(frozen=True)
class _Data:
    """One split of the data.  The last column of x is ones, so that biases are ordinary weights."""

    x_train: Array
    y_train: Array
    x_test: Array
    y_test: NDArray[np.bool_]


@cache
def _data(split: int) -> _Data:
    try:
        from sklearn.datasets import load_breast_cancer
    except ImportError as error:
        raise MissingExtraError("experiments", "scikit-learn") from error
    x, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(split).permutation(len(x))
    train, test = np.split(order, [round(TRAIN_SHARE * len(x))])
    x = (x - x[train].mean(axis=0)) / x[train].std(axis=0)
    x = np.column_stack([x, np.ones(len(x))]).astype(np.float32)
    return _Data(x[train], y[train].astype(np.float32), x[test], y[test] == 1)


def mlp_space() -> Space:
    """The search space.  Each range includes values that are too small and too large to be useful.

    With a rate of 1e-4, the weights hardly change; with 10, the units saturate.  A decay of 1e-4
    reduces the rate by at most a tenth in a whole training; a decay of 1 halves it after one
    update.
    """
    return Space(
        {
            "hidden_units": Int(2, 128, log=True),
            "batch_size": Int(8, 256, log=True),
            "learning_rate": Float(1e-4, 10.0, log=True),
            "decay": Float(1e-4, 1.0, log=True),
        }
    )


@np.errstate(invalid="ignore")  # OpenBLAS may set this flag without a cause: numpy issue 24067
def mlp_accuracy(params: Mapping[str, Any], seed: int, *, split: int = 0) -> float:
    """Train the network once, and return the share of test patients that it classifies correctly.

    The result is the same for the same arguments on the same machine.  Another BLAS may round
    differently, and then classify a borderline patient differently.

    Args:
        params: the hyper-parameters, see `mlp_space`.
        seed: the seed of the initial weights and of the batches.
        split: the seed of the split into training and test patients.
    """
    data = _data(split)
    hidden, output, bias = _train(
        data,
        units=int(params["hidden_units"]),
        batch=int(params["batch_size"]),
        rate=float(params["learning_rate"]),
        decay=float(params["decay"]),
        rng=np.random.default_rng(seed),
    )
    benign = np.tanh(data.x_test @ hidden) @ output + bias > 0
    return float(np.mean(benign == data.y_test))


def _train(
    data: _Data, *, units: int, batch: int, rate: float, decay: float, rng: np.random.Generator
) -> tuple[Array, Array, float]:
    """Minibatch gradient descent; returns hidden weights, output weights and output bias."""
    n, d = data.x_train.shape
    hidden = rng.standard_normal((d, units), dtype=np.float32) / np.float32(np.sqrt(d))
    hidden[-1] = 0.0
    output = rng.standard_normal(units, dtype=np.float32) / np.float32(np.sqrt(units))
    bias, updates = 0.0, 0
    for _ in range(EPOCHS):
        order = rng.permutation(n)
        x_epoch, y_epoch = data.x_train[order], data.y_train[order]
        for start in range(0, n, batch):
            x = x_epoch[start : start + batch]
            h = np.tanh(x @ hidden)
            error = expit(h @ output + bias) - y_epoch[start : start + batch]
            error *= rate / (1 + decay * updates) / len(x)
            back = np.multiply.outer(error, output)
            back *= 1 - h * h
            output -= error @ h
            bias -= float(error.sum())
            hidden -= x.T @ back
            updates += 1
    return hidden, output, bias


@dataclass(frozen=True)
class Mlp:
    """The problem of Figure 3, with the methods of `problems.Problem`.

    The accuracies are not standardised.
    """

    split: int = 0
    name: str = "mlp"
    dim: int = 4
    f_star: float = 1.0
    n0: int = 36
    budget: int = 236
    source: str = "Section 5.2: Wisconsin diagnostic breast-cancer data, one-hidden-layer MLP"

    def space(self) -> Space:
        return mlp_space()

    def evaluate(self, params: Mapping[str, Any], rng: np.random.Generator) -> float:
        """The test accuracy of one training with a new seed."""
        return mlp_accuracy(params, int(rng.integers(2**63)), split=self.split)

    def regret(self, params: Mapping[str, Any], observed: float) -> float:
        """The regret of one evaluation: 1 minus the observed accuracy."""
        return self.f_star - observed


MLP = Mlp()
