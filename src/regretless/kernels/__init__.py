"""Covariance kernels on the encoded unit cube."""

from regretless.kernels.base import Features, Kernel, Pullback, positive
from regretless.kernels.choices import Hamming
from regretless.kernels.composite import Product, Sum
from regretless.kernels.json import kernel_from_json, kernel_to_json
from regretless.kernels.radial import SE, Matern, Radial, Rippled

__all__ = [
    "SE",
    "Features",
    "Hamming",
    "Kernel",
    "Matern",
    "Product",
    "Pullback",
    "Radial",
    "Rippled",
    "Sum",
    "kernel_from_json",
    "kernel_to_json",
    "positive",
]
