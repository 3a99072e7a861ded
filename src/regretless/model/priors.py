"""The priors and bounds of all fitted hyper-parameters, in one vector."""

from __future__ import annotations

from math import log, sqrt
from typing import NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import FitRules
from regretless.kernels import Kernel
from regretless.model.model import Model


class Priors(NamedTuple):
    """Priors of p = (theta, log lam^2): normal and independent, within bounds."""

    bounds: Array  # (size, 2)
    center: Array
    spread: Array  # infinite without a prior
    hidden: Array  # 1 for parameters with `Prior.hidden_by_noise`, otherwise 0
    lengths: Array  # whether each entry of theta is a length-scale
    unit: float  # sqrt(d), the unit of length-scales, because distances in a cube grow with it


def priors_of(kernel: Kernel, model: Model, rules: FitRules) -> Priors:
    """The priors of a kernel's parameters and of the noise ratio."""
    each = kernel.priors(rules.priors)
    lengths = np.array([prior.is_length for prior in each], dtype=bool)
    unit = sqrt(max(1, kernel.lengths_at_once(rules.priors)))
    bounds = [(log(prior.low), log(prior.high)) for prior in each]
    lowest, highest = rules.priors.noise_bounds
    bounds.append((log(lowest), log(highest)))
    hidden = np.array([*(float(prior.hidden_by_noise) for prior in each), 0.0])
    size = len(bounds)
    if model.method == "ml":
        center, spread = np.zeros(size), np.full(size, np.inf)
    else:
        mu, sd = model.length_prior
        theta = np.where(lengths, mu + log(unit), [prior.center for prior in each])
        sds = np.where(lengths, sd, [prior.sd for prior in each])
        center = np.array([*theta, model.noise_prior[0]])
        spread = np.array([*sds, model.noise_prior[1]])
    return Priors(np.array(bounds), center, spread, hidden, lengths, unit)
