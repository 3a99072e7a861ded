"""Maximise a score over its feasible set.

A small finite space is searched completely.  In other spaces, the search has three steps:

1. score points all over the cube, all visited points, and points near the best visited ones;
2. climb from the best points of different regions by gradient ascent, with a logarithmic barrier at
   the edge of the feasible set;
3. move discrete columns from level to level.
"""

from __future__ import annotations

from numpy.random import Generator

from regretless.defaults import SearchRules
from regretless.policies import Candidates, Score
from regretless.search.ascent import climb
from regretless.search.discrete import hop, walks
from regretless.search.pool import Found, Pool, around
from regretless.search.slice import Domain, structured


def maximise(
    score: Score,
    space: Domain,
    begin: Candidates,
    rng: Generator,
    rules: SearchRules,
    brief: bool = False,
) -> Found:
    """Find the point with the largest score in the feasible set.

    Args:
        score: the function to maximise, with its constraints.
        space: the space to search, perhaps with some columns fixed.
        begin: the points at which the search begins.
        rng: the source of randomness.
        brief: whether to search with less effort, if the score has few maxima and only the largest
            value matters.
        rules: the size of the search.

    Returns:
        The best point that was found.
    """
    pool = Pool(score, begin, rules)
    if not begin.complete:
        sampled = len(begin.sampled)
        if not brief and sampled:
            pool.add(around(pool.best_sampled(sampled), score, space, rng, rules))
        if sampled and structured(space):
            pool.add(walks(pool.best_sampled(sampled), space, rng, rules.walks))
        if space.ordered.any():  # scores also have gradients between the levels of ordered columns
            climb(pool, space, space.ordered, rules.brief_stages if brief else rules.stages)
        if space.discrete.any():
            hop(pool, space, rng)
    return pool.found(begin)
