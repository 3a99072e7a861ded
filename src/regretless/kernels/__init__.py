"""Covariance kernels for Gaussian processes on the encoded unit cube."""

from regretless.defaults import Prior
from regretless.kernels.base import Features, Kernel, Pullback, positive
from regretless.kernels.choices import Hamming
from regretless.kernels.composite import Lifted, Product, Sum
from regretless.kernels.conditional import (
    BesideMiddle,
    CentredHamming,
    Rule,
    Switched,
    activity,
    most_at_once,
)
from regretless.kernels.contextual import Contextual
from regretless.kernels.periodic import Periodic
from regretless.kernels.radial import NAMED, SE, Matern, Radial, Rippled
from regretless.kernels.views import Sums, Views, with_sums

__all__ = [
    "NAMED",
    "SE",
    "BesideMiddle",
    "CentredHamming",
    "Contextual",
    "Features",
    "Hamming",
    "Kernel",
    "Lifted",
    "Matern",
    "Periodic",
    "Prior",
    "Product",
    "Pullback",
    "Radial",
    "Rippled",
    "Rule",
    "Sum",
    "Sums",
    "Switched",
    "Views",
    "activity",
    "most_at_once",
    "positive",
    "with_sums",
]
