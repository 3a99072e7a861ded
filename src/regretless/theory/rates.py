"""Rates of information gain and of regret."""

from __future__ import annotations

from dataclasses import dataclass
from math import log

from regretless._internal.validate import is_number
from regretless.errors import ConfigError
from regretless.kernels import Kernel, Matern
from regretless.theory.information import lengthscales_of


@dataclass(frozen=True)
class Rate:
    """The rate N^power (log N)^log_power, up to a constant factor.

    Args:
        power: the exponent of N.
        log_power: the exponent of log N.

    Example:
        >>> rate = Rate(0.5, 0.0) * Rate(0.5, 1.0)
        >>> rate
        Rate(power=1.0, log_power=1.0)
        >>> rate(1)
        0.0
    """

    power: float
    log_power: float

    def __call__(self, N: float) -> float:
        if not (is_number(N) and N >= 1):
            raise ConfigError(f"N: need a number >= 1, got {N!r}")
        return float(N**self.power * log(N) ** self.log_power)

    def __mul__(self, other: Rate) -> Rate:
        return Rate(self.power + other.power, self.log_power + other.log_power)


def information_rate(kernel: Kernel) -> Rate:
    """The rate of an upper bound of gamma_N (Vakili et al. 2021).

    Args:
        kernel: an `SE` or `Matern` kernel.

    Raises:
        ConfigError: the kernel is of another kind.

    Example:
        >>> from regretless.kernels import SE
        >>> information_rate(SE((0.3, 0.3)))
        Rate(power=0.0, log_power=3.0)
    """
    d = len(lengthscales_of(kernel))
    if isinstance(kernel, Matern):
        share = d / (2.0 * kernel.nu + d)
        return Rate(share, 1.0 - share)
    return Rate(0.0, d + 1.0)


def regret_rate(kernel: Kernel) -> Rate:
    """The rate of EIC's regret R_N, eq. EIreg and the corollary: sqrt(N) gamma_N sqrt(log N).

    For a Matern kernel, it is below N, and so a useful bound, only if nu > d/2.

    Args:
        kernel: an `SE` or `Matern` kernel.

    Raises:
        ConfigError: the kernel is of another kind.

    Example:
        >>> from regretless.kernels import SE
        >>> regret_rate(SE((0.3, 0.3)))
        Rate(power=0.5, log_power=3.5)
    """
    return Rate(0.5, 0.5) * information_rate(kernel)


def lower_rate(kernel: Kernel) -> Rate:
    """The rate of the lower bound of R_N for every algorithm, over all f with a bounded norm.

    See Scarlett, Bogunovic & Cevher (2017, 2018).

    Args:
        kernel: an `SE` or `Matern` kernel.

    Raises:
        ConfigError: the kernel is of another kind.

    Example:
        >>> from regretless.kernels import SE
        >>> lower_rate(SE((0.3, 0.3)))
        Rate(power=0.5, log_power=0.5)
    """
    d = len(lengthscales_of(kernel))
    if isinstance(kernel, Matern):
        return Rate((kernel.nu + d) / (2.0 * kernel.nu + d), 0.0)
    return Rate(0.5, d / 4.0)
