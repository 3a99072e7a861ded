"""Functions on the unit cube that several families share: hills, and draws from GPs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.families.base import log_uniform
from benchmarks.peers.problems import Array

Shape = Callable[[Array], Array]
_FEATURES = 768


def hills(
    rng: np.random.Generator, d: int, count: int, widths: tuple[float, float]
) -> tuple[Shape, list[Array]]:
    """A sum of hills, Gaussian or rational, and their centres.

    Widths are log-uniform, and grow with √d, so that a hill fills a like share of the cube.
    """
    centres = rng.uniform(0.05, 0.95, (count, d))
    width = log_uniform(rng, *widths, (count, 1)) * log_uniform(rng, 0.6, 1.6, (count, d))
    width = width * np.sqrt(d)
    heights = np.append(1.0, rng.uniform(0.3, 1.0, count - 1))
    rational = rng.random(count) < 0.4

    def shape(u: Array) -> Array:
        total = np.zeros(len(u))
        for c, w, h, slow in zip(centres, width, heights, rational, strict=True):
            away = (((u - c) / w) ** 2).sum(axis=1)
            total += h * (1 / (1 + away) if slow else np.exp(-0.5 * away))
        return total

    return shape, list(centres)


def gp_draw(rng: np.random.Generator, lengths: Array, nu: float) -> Shape:
    """A draw from a GP with a Matérn kernel (`inf`: squared exponential), as a sum of cosines.

    The frequencies of a Matérn kernel follow a multivariate t distribution with 2ν degrees of
    freedom.
    """
    z = rng.standard_normal((_FEATURES, len(lengths)))
    if np.isfinite(nu):
        z = z / np.sqrt(rng.chisquare(2 * nu, (_FEATURES, 1)) / (2 * nu))
    # The rarest frequencies of the roughest kernel are noise that no search could climb.
    norm = np.linalg.norm(z, axis=1, keepdims=True)
    omega = z * np.minimum(1.0, 60.0 / norm) / lengths
    phase = rng.uniform(0, 2 * np.pi, _FEATURES)
    weight = rng.standard_normal(_FEATURES) * np.sqrt(2 / _FEATURES)

    def shape(u: Array) -> Array:
        parts = [np.cos(part @ omega.T + phase) @ weight for part in _parts(u)]
        return np.concatenate(parts)

    return shape


def _parts(u: Array, rows: int = 4096) -> Any:
    return (u[i : i + rows] for i in range(0, len(u), rows))
