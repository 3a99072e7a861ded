"""Regret bounds with every constant."""

from __future__ import annotations

from math import log, log1p, sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless._internal.validate import check_amount, whole
from regretless.improvement import log_h
from regretless.kernels import Kernel
from regretless.theory.confidence import beta_n, noise_ratio, omega_n, omega_scale
from regretless.theory.information import information_path, sequential_sd


def variance_constant(lam2: float) -> float:
    """The factor 2 / log(1 + 1/lam^2) of Lemma 5: sum_n sigma_n^2(x_(n+1)) <= factor I_N.

    Proof: log(1 + s / lam^2) is concave in s = sigma_n^2 <= 1, so it is at least
    s log(1 + 1/lam^2).  The sum over n of log(1 + sigma_n^2 / lam^2) / 2 is I_N <= gamma_N.  (The
    paper has the factor 2 lam^2.  That would need log(1 + x) >= x, but the opposite is true.)

    Args:
        lam2: the noise ratio lam^2.

    Example:
        >>> round(variance_constant(1.0), 3)
        2.885
    """
    return 2.0 / log1p(1.0 / lam2)


def improvement_constant(ratio: float) -> float:
    """The constant C' = h(beta/omega) / h(-beta/omega) of Lemma 3, eq. insregterm1.

    Args:
        ratio: beta / omega.

    Example:
        >>> round(improvement_constant(1.0), 1)
        13.0
    """
    return float(np.exp(log_h(ratio) - log_h(-ratio)))


def regret_bound(
    N: int,
    n0: int,
    gamma: float,
    *,
    B: float,
    R: float,
    delta: float = 0.1,
    c: float | None = None,
    gamma_n0: float = 0.0,
    sd_sum: float | None = None,
) -> float:
    """A bound of R_N that holds with probability 1 - delta: eq. RNfinal plus the initial design.

    beta_n / omega_n decreases with n, so C' is computed at n_0.

    Args:
        N: the number of evaluations.
        n0: n_0, the number of points of the initial design.
        gamma: gamma_N, or an upper bound of it.
        B: the bound of the RKHS norm of f.
        R: the scale of the noise.
        delta: the probability of failure.
        c: the factor of omega_n; `omega_scale` if it is None.
        gamma_n0: gamma_(n_0), or a lower bound of it.
        sd_sum: sum_n sigma_n(x_(n+1)), if it is known; otherwise it is bounded by Lemma 5 and
            Cauchy-Schwarz.

    Raises:
        ConfigError: a number is out of range.

    Example:
        >>> small = regret_bound(100, 10, gamma=5.0, B=1.0, R=0.1)
        >>> large = regret_bound(100, 10, gamma=50.0, B=1.0, R=0.1)
        >>> 0 < small < large
        True
    """
    N = whole("N", N, least=1)
    n0 = whole("n0", n0, least=0, most=N)
    least = omega_scale(B, R, delta)  # called also if c is given, because it checks B, R and delta
    scale = least if c is None else c
    start = beta_n(gamma_n0, B, R, delta) / omega_n(gamma_n0, scale, delta)
    C = improvement_constant(start)
    width, omega = beta_n(gamma, B, R, delta), omega_n(gamma, scale, delta)
    if sd_sum is None:
        sd_sum = sqrt(N * variance_constant(noise_ratio(N)) * gamma)
    check_amount("sd_sum", sd_sum)
    widest = sqrt(2.0) * B  # Lemma 6: two values of f differ by at most this
    design = widest * n0
    gated_out = C * (widest + 2.0 * width + omega) * (log(N) + 1.0)
    explored = ((C + sqrt(2.0 * log(N))) * omega + (2.0 * C + 1.0) * width) * sd_sum
    return design + C * widest + gated_out + explored


def run_bound(
    kernel: Kernel,
    X: Array,
    n0: int,
    *,
    B: float,
    R: float,
    delta: float = 0.1,
    c: float | None = None,
) -> float:
    """The `regret_bound` of one run of Theorem 1's EIC, from the points that it visited.

    I_n replaces gamma_n, and the sigma_n(x_(n+1)) of the run replace their bound.

    Args:
        kernel: the kernel of f.
        X: the points, of shape (N, d), in the order in which they were visited.
        n0: n_0, the number of points of the initial design.
        B: the bound of the RKHS norm of f.
        R: the scale of the noise.
        delta: the probability of failure.
        c: the factor of omega_n; `omega_scale` if it is None.

    Raises:
        ConfigError: X has no rows or is not finite, or a number is out of range.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> X = np.linspace(0, 1, 20)[:, None]
        >>> run_bound(SE((0.3,)), X, 5, B=1.0, R=0.1) > 0
        True
    """
    N = len(X)
    n0, lam2 = whole("n0", n0, least=0, most=N), noise_ratio(N)
    sigma = sequential_sd(kernel, X, lam2)
    info = np.concatenate([[0.0], information_path(sigma, lam2)])
    return regret_bound(
        N,
        n0,
        float(info[-1]),
        B=B,
        R=R,
        delta=delta,
        c=c,
        gamma_n0=float(info[n0]),
        sd_sum=float(sigma.sum()),
    )
