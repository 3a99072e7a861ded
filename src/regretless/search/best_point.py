"""The best feasible point of a score: candidates, and the best few of them refined by gradients.

Small finite spaces are enumerated.  Otherwise: points spread over the cube, every sampled point and
some around the best of these are scored; the best of different places climb together in one
vectorised quasi-Newton ascent, led into the feasible set and kept inside by a logarithmic barrier;
discrete columns then move from level to level.
"""

from __future__ import annotations

from numpy.random import Generator

from regretless.defaults import SearchRules
from regretless.policies import Candidates, Score
from regretless.search.ascent import climb
from regretless.search.discrete import hop
from regretless.search.pool import Found, Pool, around
from regretless.search.slice import Domain


def maximise(
    score: Score,
    space: Domain,
    begin: Candidates,
    rng: Generator,
    rules: SearchRules,
    brief: bool = False,
) -> Found:
    """argmax of the score over its feasible set, from these candidates on.

    `brief` is for a score of few hills, of which only the height is asked for.
    """
    pool = Pool(score, begin, rules)
    if not begin.complete:
        sampled = len(begin.sampled)
        if not brief and sampled:
            pool.add(around(pool.best_sampled(sampled), score, space, rng, rules))
        if space.ordered.any():  # the score has slopes between ordered levels, too
            climb(pool, space, space.ordered, rules.brief_stages if brief else rules.stages)
        if space.discrete.any():
            hop(pool, space, rng)
    return pool.found(begin)
