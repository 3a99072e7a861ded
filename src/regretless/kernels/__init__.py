"""Covariance kernels for Gaussian processes on the encoded unit cube."""

from regretless.defaults import Prior
from regretless.kernels.base import Features, Kernel, Pullback, positive
from regretless.kernels.choices import Hamming
from regretless.kernels.composite import Lifted, Product, Sum
from regretless.kernels.radial import NAMED, SE, Matern, Radial, Rippled
from regretless.kernels.views import Views

__all__ = [
    "NAMED",
    "SE",
    "Features",
    "Hamming",
    "Kernel",
    "Lifted",
    "Matern",
    "Prior",
    "Product",
    "Pullback",
    "Radial",
    "Rippled",
    "Sum",
    "Views",
    "positive",
]
