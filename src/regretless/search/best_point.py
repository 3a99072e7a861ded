"""The best feasible point of a score: candidates, and the best few of them refined by gradients.

Small finite spaces are enumerated.  Otherwise: points spread over the cube, every sampled point and
some around the best of these are scored; the best of different places climb together in one
vectorised quasi-Newton ascent, led into the gate and kept inside by a logarithmic barrier; discrete
columns then move from level to level.
"""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from regretless.policies import Candidates, Score
from regretless.search.ascent import BRIEF, STAGES, climb
from regretless.search.discrete import hop
from regretless.search.pool import Found, Pool, around
from regretless.space import Space


def maximise(
    score: Score, space: Space, begin: Candidates, rng: Generator, brief: bool = False
) -> Found:
    """argmax of the score over {slack >= 0}, from these candidates on."""
    pool = Pool(score, begin)
    if not begin.complete:
        if not brief:
            pool.add(around(pool.best_sampled(len(begin.sampled)), score, space, rng))
        kinds = np.array(space.kinds)
        if (kinds != "categorical").any():  # the score has slopes between ordered levels, too
            climb(pool, space, kinds != "categorical", BRIEF if brief else STAGES)
        if (kinds != "continuous").any():
            hop(pool, space, kinds, rng)
    return pool.found(begin.sampled)
