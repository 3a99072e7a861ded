"""Draw several vectors of hyper-parameters from their posterior, instead of choosing one by a fit.

The draws are made by elliptical slice sampling (Murray, Adams and MacKay 2010), because the priors
are normal.  Each vector has a Markov chain of its own.  The chains go on where they stopped when
the next results come in, so one step of each is enough for a result that was expected.  After a
surprise they take more steps, and those that are lost begin anew at a fit.  A step evaluates the
evidence about five times, without its gradient; altogether that costs about as much as a fit.

A vector p holds the logarithms of the kernel's parameters, of the noise ratio lam^2 and of the
signal variance omega^2.  It is a function of u, which has independent standard normal priors:
    p = center + spread u,
less what noise hides (see `PriorRules.hiding`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import cos, log, pi, sin

import numpy as np
from numpy.random import Generator

from regretless._internal.arrays import Array
from regretless.defaults import FitRules
from regretless.model.data import Data
from regretless.model.evidence import log_evidence
from regretless.model.factor import Factor, NotPositiveDefinite
from regretless.model.fit import all_alike, fit
from regretless.model.fit_many import blocks
from regretless.model.hyper import Hyper
from regretless.model.model import Model
from regretless.model.priors import priors_of

_DIGITS = 6  # significant digits of stored draws; a posterior can't tell more
_LOST = 5.0  # a chain is lost if its log density is so much lower than those of usual draws
_SHRINKS = 40  # at most so many evaluations for one step


def size_for(points: int, rules: FitRules) -> int:
    """The number of draws: fewer with more points, which cost more and leave less doubt."""
    least, most = rules.ensemble.sizes
    return int(np.clip(round(rules.ensemble.work / max(1, points)), least, most))


def draw_ensemble(
    data: Data,
    start: Hyper,
    model: Model,
    rules: FitRules,
    rng: Generator,
    before: Sequence[Sequence[float]] = (),
    weights: Array | None = None,
    surprised: bool = False,
    noise: float | None = None,
) -> list[list[float]]:
    """Draws from the posterior of the hyper-parameters.

    Args:
        data: the observations, in the units of the model.
        start: hyper-parameters before any fit, with the kernel.
        model: the priors.
        rules: the constants.
        rng: the source of randomness.
        before: the last draws, where the chains go on; empty for the first draws.
        weights: the probabilities of the last draws given the data; None if they are equal.
        surprised: whether new results don't match the predictions, so that the chains have a long
            way to go.
        noise: the variance of the noise of one evaluation, if it is known.

    Returns:
        The vectors p, rounded so that they can be stored.
    """
    target = _Target(data, start, model, rules, noise)
    count = size_for(len(data), rules)
    if before:
        chains = [target.coordinates(np.array(p)) for p in _resampled(before, weights, count, rng)]
        if surprised:
            chains = _without_lost(target, chains)
    else:
        chains = _first_chains(target, count, rng)
    steps = rules.ensemble.steps if before and not surprised else rules.ensemble.first_steps
    if all_alike(data):
        steps = 0  # there is nothing to learn from
    drawn = []
    for u in chains:
        value = target.log_likelihood(u)
        for _ in range(steps):
            u, value = _step(target, u, value, rng)
        drawn.append([float(f"{p:.{_DIGITS}g}") for p in target.vector(u)])
    return drawn


def hypers_of(start: Hyper, vectors: Sequence[Sequence[float]]) -> tuple[Hyper, ...]:
    """The hyper-parameters of stored draws."""
    return tuple(_hyper(start, np.array(vector, dtype=float)) for vector in vectors)


def _hyper(start: Hyper, p: Array) -> Hyper:
    *_, lam2, omega2 = np.exp(p).tolist()
    return replace(start, kernel=start.kernel.with_theta(p[:-2]), lam2=lam2, omega2=omega2)


def _resampled(
    before: Sequence[Sequence[float]], weights: Array | None, count: int, rng: Generator
) -> list[Sequence[float]]:
    """`count` of the draws, each about as often as its weight says (systematic resampling)."""
    if weights is None:
        weights = np.full(len(before), 1.0 / len(before))
    ticks = (np.arange(count) + rng.random()) / count
    rows = np.searchsorted(np.cumsum(weights), ticks)
    return [before[min(int(row), len(before) - 1)] for row in rows]


def _first_chains(target: _Target, count: int, rng: Generator) -> list[Array]:
    """Where the chains begin: at a fit, or at draws from the prior if there are few results."""
    drawn = list(rng.standard_normal((count, target.size)))
    if target.data.observations <= target.rules.ensemble.prior_results:
        return drawn
    middle = target.fitted()
    return drawn if middle is None else [middle] * count


def _without_lost(target: _Target, chains: list[Array]) -> list[Array]:
    """The chains, with those at the fit that the data make all but impossible.

    A draw from the posterior is about size/2 below the best log density.
    """
    middle = target.fitted()
    if middle is None:
        return chains
    least = target.log_density(middle) - target.size - _LOST
    return [u if target.log_density(u) >= least else middle for u in chains]


def _step(target: _Target, u: Array, value: float, rng: Generator) -> tuple[Array, float]:
    """One step of elliptical slice sampling from u, whose log-likelihood is `value`.

    The new point is on an ellipse through u and a draw from the prior.  It is accepted if its
    log-likelihood is above a random level below `value`; otherwise the arc around u shrinks.
    """
    other = rng.standard_normal(len(u))
    level = value + log(rng.random())
    angle = rng.uniform(0.0, 2.0 * pi)
    low, high = angle - 2.0 * pi, angle
    for _ in range(_SHRINKS):
        new = cos(angle) * u + sin(angle) * other
        reached = target.log_likelihood(new)
        if reached > level:
            return new, reached
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = rng.uniform(low, high)
    return u, value


class _Target:
    """The likelihood of the coordinates u."""

    def __init__(
        self, data: Data, start: Hyper, model: Model, rules: FitRules, noise: float | None
    ) -> None:
        self.data, self.start, self.model, self.rules = data, start, model, rules
        many = rules.many.applies_to(len(data)) and data.divisible
        self.parts = blocks(data, start, rules.many) if many else [data]
        priors = priors_of(start.kernel, model, rules)
        center, spread = rules.ensemble.log_signal
        self.center = np.append(priors.center, center)
        self.spread = np.append(priors.spread, spread)
        self.hidden = np.append(priors.hidden, 0.0)
        bounds = np.vstack([priors.bounds, (center - 14.0, center + 14.0)])
        self.low, self.high = bounds.T
        self.size = len(self.center)
        self.noise = noise

    def vector(self, u: Array) -> Array:
        """p for the coordinates u."""
        p = self.center + self.spread * u
        if self.noise is not None:
            p[-2] = log(self.noise) - p[-1]
        p -= self.hidden * self._hiding(p)
        p = np.clip(p, self.low, self.high)
        if self.noise is not None:
            p[-2] = log(self.noise) - p[-1]  # however small the signal is
        return p

    def coordinates(self, p: Array) -> Array:
        """u for a vector p, the inverse of `vector`."""
        u = np.asarray((p + self.hidden * self._hiding(p) - self.center) / self.spread)
        if self.noise is not None:
            u[-2] = 0.0  # it has no effect, and its prior must not count
        return u

    def vector_of(self, hyper: Hyper) -> Array:
        """p of hyper-parameters."""
        return np.array([*hyper.kernel.theta, log(hyper.lam2), log(hyper.omega2)])

    def fitted(self) -> Array | None:
        """The coordinates of the best hyper-parameters; None if the fit failed."""
        found = fit(self.data, self.start, replace(self.model, method="map"), self.rules)
        return self.coordinates(self.vector_of(found.hyper)) if found.ok else None

    def log_density(self, u: Array) -> float:
        """The log density of the posterior at u, up to a constant."""
        return self.log_likelihood(u) - 0.5 * float(u @ u)

    def _hiding(self, p: Array) -> float:
        return log(1.0 + float(np.exp(min(p[-2], self.high[-2]))) / self.rules.priors.hiding)

    def log_likelihood(self, u: Array) -> float:
        """log p(y | u), -inf where it can't be computed."""
        hyper = _hyper(self.start, self.vector(u))
        try:
            value = sum(_log_likelihood(part, hyper) for part in self.parts)
        except NotPositiveDefinite:
            return -np.inf
        return value if np.isfinite(value) else -np.inf


def _log_likelihood(data: Data, hyper: Hyper) -> float:
    """log p(y) for a mean of zero."""
    gram = data.covariance(hyper.kernel.gram(data.x), hyper.omega2)
    factor = Factor.of(gram, hyper.noise(data))
    return log_evidence(data, hyper, factor.logdet, float(data.y @ factor.solve(data.y)))
