"""Three families of problems with contexts, drawn at random; a new instance for every seed.

f(x, c) = level g(c) + sqrt(1 - w) a(x) + sqrt(w) i(x, c), for two settings x in the unit square.
The context c is a segment of four, with frequencies that are drawn, and an hour of the day, which
is uniform.  a and i have unit variance, and w is the share of the interaction.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, pi, sin, sqrt
from typing import Any

import numpy as np
from numpy.typing import NDArray

import regretless as rl

Array = NDArray[np.float64]

SHARES = {"strong": 0.5, "weak": 0.1, "none": 0.0}  # w of each family
SEGMENTS = ("new", "casual", "regular", "business")
SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
CONTEXTS = {"segment": rl.Categorical(SEGMENTS), "hour": rl.Cyclic(0.0, 24.0)}
BUDGET = 100
NOISE = 0.3  # sd; the settings differ by 1
LEVEL = 1.0  # sd of the common effect
_FEATURES = 512
_SIDE = 101  # the best setting of a context is searched on a grid of so many points a side


class _Draw:
    """A function drawn from a Gaussian process with the SE kernel."""

    def __init__(self, rng: np.random.Generator, length: float) -> None:
        self._w = rng.standard_normal((2, _FEATURES)) / length
        self._b = rng.uniform(0.0, 2.0 * pi, _FEATURES)
        self._c = rng.standard_normal(_FEATURES) * sqrt(2.0 / _FEATURES)

    def __call__(self, x: Array) -> Array:
        return np.asarray(np.cos(x @ self._w + self._b) @ self._c)


@dataclass(frozen=True, eq=False)
class Problem:
    """One instance, with the contexts and the noise that every tool meets."""

    share: float
    parts: dict[str, _Draw]
    effects: dict[str, float]
    phase: float
    frequencies: Array
    contexts: tuple[dict[str, Any], ...]
    noise: Array
    grid: dict[str, Array]  # the values of each part on a grid

    def _weights(self, context: dict[str, Any]) -> dict[str, float]:
        """f is a sum of the parts with these weights."""
        angle, here = 2.0 * pi * context["hour"] / 24.0, sqrt(self.share / 2.0)
        return {
            "always": sqrt(1.0 - self.share),
            context["segment"]: here,
            "cos": here * cos(angle),
            "sin": here * sin(angle),
        }

    def _common(self, context: dict[str, Any]) -> float:
        wave = cos(2.0 * pi * context["hour"] / 24.0 - self.phase)
        return LEVEL * (self.effects[context["segment"]] / sqrt(2.0) + wave)

    def value(self, params: dict[str, Any], context: dict[str, Any]) -> float:
        """f, without noise."""
        x = np.array([[params["x"], params["y"]]])
        each = (w * float(self.parts[part](x)[0]) for part, w in self._weights(context).items())
        return self._common(context) + sum(each)

    def best(self, context: dict[str, Any]) -> float:
        """The value of the best setting in a context."""
        total = sum(w * self.grid[part] for part, w in self._weights(context).items())
        return self._common(context) + float(np.max(total))


def problem(family: str, seed: int) -> Problem:
    """The instance of a family for a seed."""
    rng = np.random.default_rng([25, sorted(SHARES).index(family), seed])
    length = float(rng.uniform(0.2, 0.4))
    parts = {name: _Draw(rng, length) for name in ("always", *SEGMENTS, "cos", "sin")}
    effects = dict(zip(SEGMENTS, rng.standard_normal(4).tolist(), strict=True))
    phase, frequencies = float(rng.uniform(0.0, 2.0 * pi)), rng.dirichlet(np.full(4, 3.0))
    segments = rng.choice(4, size=BUDGET, p=frequencies)
    hours = rng.uniform(0.0, 24.0, BUDGET)
    contexts = tuple(
        {"segment": SEGMENTS[s], "hour": float(h)} for s, h in zip(segments, hours, strict=True)
    )
    line = np.linspace(0.0, 1.0, _SIDE)
    mesh = np.stack([m.ravel() for m in np.meshgrid(line, line, indexing="ij")], axis=1)
    return Problem(
        SHARES[family],
        parts,
        effects,
        phase,
        frequencies,
        contexts,
        NOISE * rng.standard_normal(BUDGET),
        {name: part(mesh) for name, part in parts.items()},
    )
