"""Confidence widths: beta_n of Lemma 1, and omega_n."""

from __future__ import annotations

from math import log, sqrt

from regretless._internal.validate import check_amount, check_inside, whole


def noise_ratio(N: int) -> float:
    """The noise ratio of Theorem 1: lam^2 = 1 + 2/N.

    Args:
        N: the number of evaluations.

    Raises:
        ConfigError: N is not a whole number of at least 1.

    Example:
        >>> noise_ratio(100)
        1.02
    """
    return 1.0 + 2.0 / whole("N", N, least=1)


def beta_n(gamma: float, B: float, R: float, delta: float) -> float:
    """The factor beta_n of Lemma 1.

    With probability 1 - delta, |f - mu_n| <= beta_n sigma_n for all x and n.

    Args:
        gamma: gamma_n or I_n.
        B: the bound of the RKHS norm of f.
        R: the scale of the noise.
        delta: the probability of failure.

    Raises:
        ConfigError: a number is negative, or delta is not between 0 and 1.

    Example:
        >>> round(beta_n(gamma=3.0, B=1.0, R=1.0, delta=0.1), 2)
        4.55
    """
    for name, value in (("gamma", gamma), ("B", B), ("R", R)):
        check_amount(name, value)
    check_inside("delta", delta, "a probability")
    return B + R * sqrt(2.0 * (gamma + 1.0 + log(1.0 / delta)))


def omega_n(gamma: float, c: float, delta: float) -> float:
    """The scale omega_n = c sqrt(gamma_n + 1 + log(1/delta)) of the posterior sd, eq. omgn.

    Args:
        gamma: gamma_n or I_n.
        c: the factor, see `omega_scale`.
        delta: the probability of failure.

    Raises:
        ConfigError: gamma is negative, c is not positive, or delta is not between 0 and 1.

    Example:
        >>> round(omega_n(gamma=3.0, c=1.0, delta=0.1), 2)
        2.51
    """
    check_amount("gamma", gamma)
    check_amount("c", c, positive=True)
    check_inside("delta", delta, "a probability")
    return c * sqrt(gamma + 1.0 + log(1.0 / delta))


def omega_scale(B: float, R: float, delta: float) -> float:
    """The smallest c with omega_n >= beta_n for all n.  It is the default of `regret_bound`.

    Args:
        B: the bound of the RKHS norm of f.
        R: the scale of the noise.
        delta: the probability of failure.

    Raises:
        ConfigError: B is not positive, R is negative, or delta is not between 0 and 1.

    Example:
        >>> c = omega_scale(B=1.0, R=1.0, delta=0.1)
        >>> omega_n(5.0, c, 0.1) >= beta_n(5.0, 1.0, 1.0, 0.1)
        True
    """
    check_amount("B", B, positive=True)
    return beta_n(0.0, B, R, delta) / omega_n(0.0, 1.0, delta)
