"""The surrogate model: collected data, a Gaussian process, and the fit of its hyper-parameters."""

from regretless.model.belief import Belief, Fitted, History
from regretless.model.contexts import at_context, likeness
from regretless.model.data import Data
from regretless.model.drift import Drift, Fading
from regretless.model.factor import Factor, NotPositiveDefinite
from regretless.model.gp import GP
from regretless.model.hyper import Hyper
from regretless.model.jumps import JumpTest
from regretless.model.listed import ListedPosterior
from regretless.model.mixture import Mixture
from regretless.model.model import Model, checked_model
from regretless.model.noise import NoiseShape
from regretless.model.periods import Control, Observation, Periods
from regretless.model.posterior import (
    Posterior,
    SamplePath,
    Shared,
    expecting_all,
    in_single,
    moments_at,
)
from regretless.model.priors import priors_of
from regretless.model.scaling import Scaling

__all__ = [
    "GP",
    "Belief",
    "Control",
    "Data",
    "Drift",
    "Factor",
    "Fading",
    "Fitted",
    "History",
    "Hyper",
    "JumpTest",
    "ListedPosterior",
    "Mixture",
    "Model",
    "NoiseShape",
    "NotPositiveDefinite",
    "Observation",
    "Periods",
    "Posterior",
    "SamplePath",
    "Scaling",
    "Shared",
    "at_context",
    "checked_model",
    "expecting_all",
    "in_single",
    "likeness",
    "moments_at",
    "priors_of",
]
