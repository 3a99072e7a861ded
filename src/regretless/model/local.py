"""Which rows of very many observations the posterior is made of.

A posterior of m rows takes O(m^2) memory and O(m^3) time.  Beyond `LocalRules.exact` rows, it is
made of `LocalRules.rows` of them.  A quarter of these are spread over all rows.  Up to a quarter
are those with the least noise: a baseline that was measured a hundred times tells more than a
hundred other points.  The others are those with the largest mean plus two sds, under a posterior of
these two quarters.  So most rows are where the next trials may be.  Fewer observations make the sds
larger, so the posterior is never surer than that of all rows with the same hyper-parameters.

Results that are told later are added to these rows.  The rows are chosen anew with each fit.
docs/results/large_studies.md has the difference to the posterior of all rows.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from regretless.defaults import LocalRules
from regretless.model.data import Data
from regretless.model.hyper import Hyper
from regretless.model.model import Model

_SDS = 2.0  # rows are ranked by the mean plus so many sds


def local_data(data: Data, hyper: Hyper, model: Model, rules: LocalRules) -> Data:
    """The observations that the posterior is made of: all of them, if there are few enough.

    Args:
        data: the observations, in the units of the model.
        hyper: the hyper-parameters.
        model: what makes a posterior.
        rules: how many rows are too many, and how many are kept.
    """
    if len(data) <= rules.exact or not data.divisible:
        return data
    return data.part(np.sort(_rows(data, hyper, model, rules)))


def _rows(data: Data, hyper: Hyper, model: Model, rules: LocalRules) -> NDArray[np.intp]:
    quarter, noise = rules.rows // 4, hyper.noise(data)
    order = np.random.default_rng(len(data)).permutation(len(data))
    sure = np.argsort(noise, kind="stable")[:quarter]
    sure = sure[noise[sure] < np.median(noise)]  # none, if the noise is the same everywhere
    first = np.concatenate([sure, order[~np.isin(order, sure)][:quarter]])
    posterior = model.posterior(data.part(first), hyper)
    mu, sigma = posterior.predict(data.x)
    merit = mu + _SDS * posterior.omega * sigma
    merit[first] = -np.inf  # they are there already
    best = np.argsort(-merit, kind="stable")[: rules.rows - len(first)]
    return np.concatenate([first, best])
