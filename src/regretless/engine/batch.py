"""The points among which the followers of a batch are chosen.

A batch is several proposals that are made at once.  The first is found by the policy's search.  A
search for each of the others would take as long again, and one update of the posterior for each
pending point.  So the followers are chosen among a list of points: visited ones, and ones that the
first search came by.  There the posterior is a small matrix (`ListedPosterior`), and each pending
point is an update of rank one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.model import ListedPosterior, Posterior

VISITED, NEW = 256, 128  # at most so many visited points, and so many new ones


@dataclass(frozen=True, eq=False)
class Shortlist:
    """The candidates of a batch, and what is believed about them.

    Attributes:
        posterior: the posterior at the candidates, in which pending points count as observed.
        visited: the first so many points of the posterior have real results.
        moves: draws of how the results of the pending points will move the means, in units of
            omega; a row for each draw.
        pending: the rows of the pending points in the list.
    """

    posterior: ListedPosterior
    visited: int
    moves: Array
    pending: tuple[int, ...] = ()

    @classmethod
    def of(
        cls, posterior: Posterior, merit: Array, pending: Sequence[Array], new: Array, draws: int
    ) -> Shortlist:
        """The shortlist before any pending point is believed.

        Args:
            posterior: the posterior without pending points.
            merit: how good each visited point is; the best ones are listed.
            pending: points that will be believed.
            new: further candidates, the best first.
            draws: the number of draws for `promised`.
        """
        known = _best_rows(posterior, merit)
        taken = {x.tobytes() for x in posterior.points[known] + 0.0}
        others: list[Array] = []
        for x in (*(np.asarray(each) for each in pending), *new):
            name = (x + 0.0).tobytes()
            if name not in taken:
                taken.add(name)
                others.append(x)
        rest = np.array(others).reshape(len(others), posterior.points.shape[1])
        listed = ListedPosterior.of(posterior, known, rest)
        return cls(listed, len(known), np.zeros((draws, len(listed.listed))))

    def expecting(self, x: Array, weight: float = 1.0) -> Shortlist:
        """The shortlist if a candidate is pending."""
        step = self.posterior.step(x, weight)
        draw = np.random.default_rng([0, len(self.pending)]).standard_normal(len(self.moves))
        return replace(
            self,
            posterior=self.posterior.expecting(x, weight),
            moves=self.moves + draw[:, None] * step,
            pending=(*self.pending, int(self.posterior.places_of(x[None, :])[0])),
        )

    @cached_property
    def promised(self) -> float:
        """The best posterior mean that is expected after the pending results are in.

        See `Situation._promised`.  The result of each pending point moves the means by a normal
        multiple of its step, and these multiples are independent.
        """
        mu = self.posterior.mu
        best = int(np.argmax(mu[: self.visited]))
        columns = list(dict.fromkeys((best, *self.pending)))
        moved = self.posterior.omega * self.moves[:, columns]
        both = (mu[columns] + moved).max(axis=1) + (mu[columns] - moved).max(axis=1)
        return float(0.5 * both.mean())


def _best_rows(posterior: Posterior, merit: Array) -> NDArray[np.intp]:
    """The visited points with the largest merit, the best mean and the best results among them."""
    if len(merit) <= VISITED:
        return np.arange(len(merit))
    first = [int(np.argmax(posterior.at_data[0])), int(np.argmax(posterior.sample_means))]
    order = np.argsort(-merit, kind="stable")[:VISITED].tolist()
    return np.array(sorted({*first, *order}), dtype=np.intp)
