"""The points among which the followers of a decision are chosen.

Many who ask at the same time need many proposals.  The first is found by the policy's search.  A
search for each of the others would take as long again, and one update of the posterior for each
pending point.  So the others, its followers, are chosen among a list of points: visited ones, and
ones that the first search came by.  There the posterior is a small matrix (`ListedPosterior`), and
each pending point and each new result is an update of rank one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.model import ListedPosterior, Posterior

VISITED, NEW = 128, 96  # at most so many visited points, and so many new ones
_LEAST_NOISE = 1e-8  # of a pending result, in units of omega^2: less is lost in rounding errors

# How many evaluations at a typical point one at a point counts as, by the posterior.
Weigh = Callable[[ListedPosterior, Array], float]


class Result(NamedTuple):
    """A result in the units of the model, see `Posterior.add`."""

    x: Array
    y: float
    weight: float
    variance: float | None


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The candidates of followers, and what is believed about them.

    Attributes:
        known: the posterior at the candidates, given the results.
        posterior: the same, in which pending points count as observed.
        draws: the number of pairs of draws for `promised`.
        pending: the rows of the pending points in the list.
    """

    known: ListedPosterior
    posterior: ListedPosterior
    draws: int
    pending: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, posterior: Posterior, merit: Array, points: Sequence[Array], new: Array, draws: int
    ) -> Shortlist:
        """The shortlist without pending points.

        Args:
            posterior: the posterior without pending points.
            merit: how good each visited point is; the best ones are listed.
            points: further points that have to be listed, such as pending ones.
            new: further candidates, the best first.
            draws: see the attribute.
        """
        rows = _best_rows(posterior, merit)
        taken = {x.tobytes() for x in posterior.points[rows] + 0.0}
        others: list[Array] = []
        for x in (*points, *new):
            name = (x + 0.0).tobytes()
            if name not in taken:
                taken.add(name)
                others.append(x)
        rest = np.array(others).reshape(len(others), posterior.points.shape[1])
        listed = ListedPosterior.of(posterior, rows, rest)
        return cls(listed, listed, draws)

    @property
    def visited(self) -> int:
        """The first so many points of the posterior have results."""
        return len(self.known.rows)

    def has(self, points: Sequence[Array]) -> bool:
        """Whether all of these points are listed."""
        return all((x + 0.0).tobytes() in self.known.places for x in points)

    def expecting(self, x: Array, weight: float = 1.0) -> Shortlist:
        """The shortlist if one more of its points is pending."""
        row = int(self.known.places_of(x[None, :])[0])
        after = self.posterior.expecting(x, weight)
        return replace(self, posterior=after, pending=(*self.pending, row))

    def updated(
        self, results: Sequence[Result], pending: Sequence[Array], weigh: Weigh | None
    ) -> Shortlist:
        """The shortlist with new results, and with other points pending.

        All points are listed.  `weigh` is None if the noise is the same everywhere.

        The covariances do not depend on what a result is.  So those of points that were pending and
        have a result of weight 1 now are right already.
        """
        known = self.known
        for result in results:
            known = known.add(*result)
        told = Counter(known.places_of(np.array([each.x for each in results])).tolist())
        now = Counter(known.places_of(np.array(pending)).tolist())
        before, after = Counter(self.pending), self.posterior
        plain = all(each.weight == 1.0 and each.variance is None for each in results)
        if weigh is not None or not plain or before - now != told:
            before, after = Counter(), known
        for row in (now - before).elements():
            x = known.listed[row]
            after = after.expecting(x, 1.0 if weigh is None else weigh(after, x))
        alone = [row for row in now if row not in known.rows]
        rows = np.append(known.rows, np.array(alone, dtype=np.intp))
        after = replace(after, mu=known.mu, rows=rows)
        return replace(self, known=known, posterior=after, pending=tuple(now.elements()))

    @cached_property
    def promised(self) -> float:
        """The best posterior mean that is expected after the pending results are in.

        See `Situation._promised`.
        """
        known = self.known
        best = int(known.rows[np.argmax(known.mu[known.rows])])
        rows = list(dict.fromkeys((best, *self.pending)))
        some = np.ix_(rows, rows)
        moves = known.omega2 * (known.kernel[some] - self.posterior.kernel[some])
        return expected_maximum(known.mu[rows], moves, self.draws)


def expected_maximum(means: Array, moves: Array, draws: int) -> float:
    """The expected largest of some means that will move with this covariance."""
    variance, axes = np.linalg.eigh(0.5 * (moves + moves.T))
    drawn = np.random.default_rng(0).standard_normal((draws, len(means)))
    moved = np.vstack([drawn, -drawn]) * np.sqrt(np.maximum(variance, 0.0)) @ axes.T
    return float((means + moved).max(axis=1).mean())


def expected_maximum_after(
    posterior: Posterior, x: Array, means: Array, weights: Array, draws: int
) -> float:
    """The expected largest of the means at x, after results at its rows without the first one.

    With K for the covariance of f at x, K_p for its columns at the results, and N for their noise,
    the means move with the covariance K_p (K_pp + N)^-1 K_p'.

    Args:
        posterior: the posterior before the results.
        x: the points, of shape (q, d).
        means: the means there.
        weights: how many evaluations each result is the mean of, q - 1 numbers.
        draws: the number of pairs of opposite draws.
    """
    covariance = posterior.omega2 * posterior.covariance(x)
    noise = np.maximum(posterior.noise_sd**2 / weights, _LEAST_NOISE * posterior.omega2)
    lower = np.linalg.cholesky(covariance[1:, 1:] + np.diag(noise))
    drawn = np.random.default_rng(0).standard_normal((draws, len(lower)))
    # lower^-T drawn' are draws of what K_p is multiplied by
    moved = np.linalg.solve(lower.T, drawn.T).T @ covariance[1:]
    return float((means + np.vstack([moved, -moved])).max(axis=1).mean())


def _best_rows(posterior: Posterior, merit: Array) -> NDArray[np.intp]:
    """The visited points with the largest merit, the best mean and the best results among them."""
    if len(merit) <= VISITED:
        return np.arange(len(merit))
    first = [int(np.argmax(posterior.at_data[0])), int(np.argmax(posterior.sample_means))]
    order = np.argsort(-merit, kind="stable")[:VISITED].tolist()
    return np.array(sorted({*first, *order}), dtype=np.intp)
