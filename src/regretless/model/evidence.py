"""The log evidence (marginal likelihood) of hyper-parameters, and its gradient."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, pi

import numpy as np

from regretless._internal.arrays import Array
from regretless.model.data import Data
from regretless.model.factor import Factor
from regretless.model.hyper import Hyper


@dataclass(frozen=True, eq=False)
class Evidence:
    """The log evidence of a kernel and a noise ratio, penalised by the prior of omega^2."""

    value: float
    omega2: float  # the given omega^2, or the best one if it is profiled out
    d_theta: Array
    d_log_lam2: float
    d_log_omega2: float  # 0 if omega^2 is profiled out


def evidence(
    data: Data, hyper: Hyper, omega_prior: tuple[float, float] = (0.0, 0.0), profile: bool = True
) -> Evidence:
    """log p(y | kernel, lam^2, omega^2) and its gradient.

    Args:
        data: the observations, in the units of the model.
        hyper: the hyper-parameters.
        omega_prior: (a, b) adds -a log omega^2 - b / omega^2, an inverse-gamma prior.  The best
            omega^2 then is (Q + 2b) / (n + 2a), where Q is the whole quadratic form.
        profile: whether to take the best omega^2 instead of the given one.  By the envelope
            theorem, the other slopes are then the partial derivatives at the best omega^2 and mean.
            Use False if some variances are known: the best omega^2 has no closed form then.
    """
    gram, pullback = hyper.kernel.gram_vjp(data.x)
    factor = Factor.of(data.covariance(gram, hyper.omega2), hyper.noise(data))
    hyper, alpha, total, value = _scaled(data, hyper, factor, omega_prior, profile)
    omega2 = hyper.omega2
    weights = factor.inverse()
    weights *= -0.5
    weights += np.outer(alpha * (0.5 / omega2), alpha)
    through_noise = np.diag(weights) * hyper.noise(data)
    within = data.scatter / (2 * omega2 * hyper.lam2) - 0.5 * data.repeats
    d_log_omega2 = 0.0
    if not profile:
        a, b = omega_prior
        whole = (total / 2 + b) / omega2 - 0.5 * (len(data) + data.repeats) - a
        d_log_omega2 = float(whole - through_noise[data.known].sum())
        if data.shared is not None:
            d_log_omega2 -= float((weights * data.shared).sum()) / omega2
    return Evidence(
        value=value,
        omega2=omega2,
        d_theta=pullback(data.through(weights)),
        d_log_lam2=float(through_noise[~data.known].sum() + within),
        d_log_omega2=d_log_omega2,
    )


def evidence_value(
    data: Data, hyper: Hyper, omega_prior: tuple[float, float] = (0.0, 0.0), profile: bool = True
) -> float:
    """The value of `evidence` without its gradient, at less than half of the cost."""
    factor = Factor.of(data.covariance(hyper.kernel.gram(data.x), hyper.omega2), hyper.noise(data))
    return scaled_evidence(data, hyper, factor, omega_prior, profile)


def scaled_evidence(
    data: Data,
    hyper: Hyper,
    factor: Factor,
    omega_prior: tuple[float, float] = (0.0, 0.0),
    profile: bool = True,
) -> float:
    """The value of `evidence` for the factor of the covariance of the rows."""
    return _scaled(data, hyper, factor, omega_prior, profile)[3]


def _scaled(
    data: Data, hyper: Hyper, factor: Factor, omega_prior: tuple[float, float], profile: bool
) -> tuple[Hyper, Array, float, float]:
    """The hyper-parameters with the omega^2 to use, C^-1 (y - mean), Q, and the log evidence."""
    kappa = hyper.mean_precision
    if kappa is None:
        mean, alpha = 0.0, factor.solve(data.y)
    else:
        mean, alpha = fitted_mean(factor, data.y, kappa)
    quad = float((data.y - mean) @ alpha) + (kappa or 0.0) * mean * mean
    total = quad + data.scatter / hyper.lam2
    a, b = omega_prior
    if profile:
        omega2 = (total + 2 * b) / (len(data) + data.repeats + 2 * a)
        # If all observations are equal, rounding must not pass for a signal.
        rounding = 1e-14 * float(np.abs(data.y).max(initial=0.0))
        hyper = replace(hyper, omega2=max(omega2, rounding**2, 1e-300))
    value = log_evidence(data, hyper, factor.logdet, quad)
    return hyper, alpha, total, value - a * log(hyper.omega2) - b / hyper.omega2


def fitted_mean(factor: Factor, y: Array, kappa: float) -> tuple[float, Array]:
    """The posterior mean of the constant mean, and C^-1 (y - mean)."""
    solved = factor.solve(np.column_stack([np.ones_like(y), y]))
    mean = float(solved[:, 1].sum() / (solved[:, 0].sum() + kappa))
    return mean, solved[:, 1] - mean * solved[:, 0]


def log_evidence(data: Data, hyper: Hyper, logdet: float, quad: float) -> float:
    """log p(y) from log det C and the quadratic form (y - mean)' C^-1 (y - mean)."""
    log_2pi, omega2, lam2 = log(2 * pi), hyper.omega2, hyper.lam2
    rows = -0.5 * (len(data) * (log_2pi + log(omega2)) + logdet + quad / omega2)
    within = -0.5 * data.repeats * (log_2pi + log(omega2 * lam2))
    return rows + within - data.scatter / (2 * omega2 * lam2) + data.constant
