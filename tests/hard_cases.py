"""Data that break a careless Gaussian process: edges that a live system finds sooner or later."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from regretless.kernels import SE, Hamming, Kernel, Matern, Product
from regretless.space import Categorical, Float

Array = NDArray[np.float64]

NUMBER, CHOICE = Float(0.0, 1.0), Categorical(["a", "b"])  # columns
LAYOUTS = ("scattered", "one", "duplicates", "near-duplicates", "collinear", "corners", "grid")
OUTCOMES = ("smooth", "noise", "constant", "zero", "outlier", "two values")


@contextmanager
def strict() -> Iterator[None]:
    """Warnings and invalid operations are errors; underflow is not, for correlations do fade."""
    with warnings.catch_warnings(), np.errstate(over="raise", invalid="raise", divide="raise"):
        warnings.simplefilter("error")
        yield


def layout(kind: str, rng: np.random.Generator, size: int, dim: int) -> Array:
    x = rng.random((size, dim))
    if kind == "one":
        x = x[:1]
    elif kind == "duplicates":
        x = x[rng.integers(max(1, size // 4), size=size)]
    elif kind == "near-duplicates":
        x = x[rng.integers(max(1, size // 4), size=size)] + 1e-12 * rng.standard_normal((size, dim))
    elif kind == "collinear":
        x = 0.1 + 0.8 * np.outer(rng.random(size), rng.random(dim))
    elif kind == "corners":
        x = x.round()
    elif kind == "grid":
        x = (4 * x).round() / 4
    return x


def outcome(kind: str, rng: np.random.Generator, x: Array) -> Array:
    size = len(x)
    if kind == "constant":
        return np.full(size, 3.7)
    if kind == "zero":
        return np.zeros(size)
    if kind == "noise":
        return rng.standard_normal(size)
    if kind == "two values":
        return rng.integers(2, size=size).astype(float)
    y: Array = np.sin(5 * x.sum(axis=1)) + 0.1 * rng.standard_normal(size)
    if kind == "outlier":
        y[rng.integers(size)] += 1e6
    return y


@st.composite
def hard_data(draw: st.DrawFn, largest: int = 300) -> tuple[Array, Array, list[str]]:
    """Points, outcomes, and the kind of each column."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    size = draw(st.one_of(st.integers(1, 12), st.integers(1, largest)))
    dim = draw(st.integers(1, 20))
    x = layout(draw(st.sampled_from(LAYOUTS)), rng, size, dim)
    choices = draw(st.integers(0, min(3, dim)))
    x[:, dim - choices :] = rng.integers(3, size=(len(x), choices)) / 2
    y = outcome(draw(st.sampled_from(OUTCOMES)), rng, x)
    y *= draw(st.sampled_from([1.0, 1e12, 1e-12, -1.0]))
    return x, y, [NUMBER] * (dim - choices) + [CHOICE] * choices


def kernel_for(name: str, kinds: list[str], scale: float) -> Kernel:
    """A kernel over columns of these kinds."""
    choices = tuple(i for i, kind in enumerate(kinds) if kind is CHOICE)
    others = tuple(i for i, kind in enumerate(kinds) if kind is not CHOICE)
    parts: list[Kernel] = []
    if others:
        scales = (scale,) * len(others)
        parts.append(SE(scales, others) if name == "se" else Matern(scales, others, float(name)))
    if choices:
        parts.append(Hamming((0.7,) * len(choices), choices))
    return Product(tuple(parts))
