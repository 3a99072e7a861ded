"""Expected improvement (EI) and the gate of EIC, as accurate functions of z.

For a posterior N(mu, s^2), an incumbent value xi and z = (mu - xi) / s:

- h(z) = z Phi(z) + phi(z);
- the expected improvement is s h(z), and the expected loss is s h(-z);
- h(z)/h(-z) increases in z, so "EI >= evaluation cost" is the same as z >= t_m, with m evaluations
  left (see `gate`).
"""

from __future__ import annotations

from functools import lru_cache
from math import isfinite, log, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike

from regretless._internal.arrays import Array
from regretless._internal.shown import shown
from regretless.errors import ConfigError

_LOG_SQRT_2PI = 0.5 * log(2 * pi)
_SQRT_HALF_PI = sqrt(pi / 2)
_SQRT2 = sqrt(2)
# For x <= 10, 1 - x M(x) loses at most two digits.  Beyond, the continued fraction is used.
_NEAR, _FAR, _FAR_TERMS = -1.0, -10.0, 24
_MUCH_ROOM = 9.0  # h(-9) is below 1e-19: more room makes no difference to a double
_HIGHEST_GATE = 12.0  # with hardly any room, only certain improvements are allowed
_HIGH = 3.0  # up to this z, h = phi (1 + z M(-z)) is as accurate as z Phi + phi


def h(z: ArrayLike) -> Array:
    """h(z) = z Phi(z) + phi(z), the expected improvement of N(0, 1) over the incumbent -z.

    Example:
        >>> round(float(h(0.0)), 4)
        0.3989
    """
    return np.exp(log_h(z))


def log_h(z: ArrayLike) -> Array:
    """log h(z), accurate where h itself underflows."""
    return log_h_and_slope(z)[0]


def log_h_slope(z: ArrayLike) -> Array:
    """d log h / dz = Phi(z) / h(z)."""
    return log_h_and_slope(z)[1]


def log_h_and_slope(z: ArrayLike) -> tuple[Array, Array]:
    """log h(z) and its slope Phi(z)/h(z), at little more than the cost of one of them.

    With x = -z and Mills' ratio M(x) = Phi(-x)/phi(x) = 1/(x + 1/(x + 2/(x + ...))),
    h(-x) = phi(x) (1 - x M(x)) = phi(x) M(x) / r(x) where r(x) = x + 2/(x + 3/(x + ...)) = Phi/h.
    The continued fraction r has no cancellation, however large x is.
    """
    from scipy.special import erfcx, ndtr  # takes longer to import than all of this library

    z = np.asarray(z, dtype=float)
    flat = np.atleast_1d(z).ravel()
    if flat.size and flat.min() > _FAR and flat.max() < _HIGH:  # the usual case, and the fast one
        mills = _SQRT_HALF_PI * erfcx(flat / -_SQRT2)
        area = 1.0 + flat * mills
        value = np.log(area) - (0.5 * flat * flat + _LOG_SQRT_2PI)
        return value.reshape(z.shape), (mills / area).reshape(z.shape)
    value, slope = np.empty_like(flat), np.empty_like(flat)

    near = flat > _NEAR
    if near.any():
        u = flat[near]
        cdf = ndtr(u)
        # log1p(h - 1) would not be more accurate: the error of h itself is about 1e-16 there.
        area = u * cdf + np.exp(-0.5 * u * u - _LOG_SQRT_2PI)
        value[near] = np.log(area)
        slope[near] = cdf / area
    if not near.all():
        rest = ~near
        x = -flat[rest]
        mills = _SQRT_HALF_PI * erfcx(x / _SQRT2)
        far = x > -_FAR
        ratio = np.empty_like(x)
        xn, xf = x[~far], x[far]
        ratio[~far] = mills[~far] / (1.0 - xn * mills[~far])
        tail = xf
        for j in range(_FAR_TERMS, 1, -1):
            tail = xf + j / tail
        ratio[far] = tail
        value[rest] = -0.5 * x * x - _LOG_SQRT_2PI + np.log(mills / ratio)
        slope[rest] = ratio
    return value.reshape(z.shape), slope.reshape(z.shape)


@lru_cache(maxsize=4096)
def gate(remaining: float) -> float:
    """The threshold t_m of EIC's gate: the root of h(t) = h(-t)/m.

    EI >= evaluation cost (eq. evacost) exactly where z >= t_m.  t_1 = 0 and t_m >= -sqrt(2 log m)
    (Lemma 2).

    Args:
        remaining: m >= 1, the number of evaluations over which a loss is spread.

    Returns:
        t_m <= 0.

    Raises:
        ConfigError: `remaining` is not a finite number >= 1.

    Example:
        >>> gate(1)
        0.0
        >>> gate(1000) < gate(10) < 0
        True
    """
    if not (isfinite(remaining) and remaining >= 1):
        raise ConfigError(
            f"gate: need a finite number >= 1 of evaluations left, got {shown(remaining)}"
        )
    if remaining == 1:
        return 0.0  # the iteration below would return -0.0
    log_m = log(remaining)
    low, high = -sqrt(2 * log_m), 0.0
    t = low
    for _ in range(100):
        (up, down), (dup, ddown) = log_h_and_slope(np.array([t, -t]))
        excess = float(up - down + log_m)
        if excess < 0:
            low = t
        else:
            high = t
        step = t - excess / float(dup + ddown)
        # A Newton step; bisection replaces one that leaves the bracket.
        new = step if low <= step <= high else 0.5 * (low + high)
        if abs(new - t) <= 4e-16 * max(1.0, abs(new)):
            return new
        t = new
    return t


def gate_below(remaining: float, room: ArrayLike) -> tuple[Array, Array]:
    """The threshold of EIC's gate if f can't exceed a known value, and its slope in `room`.

    The improvement of N(mu, s^2) over xi that counts is min(f, top) - xi.  Its expectation is
    s (h(z) - h(z - room)), with room = (top - xi)/s.  So the threshold is the root t of
        h(t) - h(t - room) = h(-t)/m.
    It is `gate(m)` if there is much room, and becomes positive if there is little: where nothing
    can be gained, only a point that is better than the incumbent for sure may be tried.

    Args:
        remaining: m >= 1, the number of evaluations over which a loss is spread.
        room: how far the known value is above the incumbent, in posterior sds; positive.

    Returns:
        The thresholds, and their slopes in `room`.

    Example:
        >>> t, _ = gate_below(100, [50.0, 1.0, 1e-4])
        >>> bool(t[0] == gate(100)), bool(t[0] < t[1] < 0.0 < t[2])
        (True, True)
    """
    room = np.asarray(room, dtype=float)
    least = gate(remaining)
    t, slope = np.full(room.shape, least), np.zeros(room.shape)
    near = np.flatnonzero(room < least + _MUCH_ROOM)
    if near.size:
        t.flat[near], slope.flat[near] = _root_below(log(remaining), room.flat[near], least)
    return t, slope


def _root_below(log_m: float, room: Array, least: float) -> tuple[Array, Array]:
    """The root of `gate_below` and its slope, by Newton steps within a bracket."""
    low, high = np.full_like(room, least), np.full_like(room, _HIGHEST_GATE)
    t = low
    for _ in range(60):
        excess, rise, fall = _excess_below(log_m, room, t)
        low, high = np.where(excess < 0, t, low), np.where(excess < 0, high, t)
        step = t - excess / rise
        new = np.where((low <= step) & (step <= high), step, 0.5 * (low + high))
        if np.abs(new - t).max() <= 1e-13:
            t = new
            break
        t = new
    _, rise, fall = _excess_below(log_m, room, t)
    return t, np.where(t < _HIGHEST_GATE, -fall / rise, 0.0)


def _excess_below(log_m: float, room: Array, t: Array) -> tuple[Array, Array, Array]:
    """log(h(t) - h(t - room)) - log h(-t) + log m, and its slopes in t and room."""
    (up, p), (over, q), (down, r) = map(log_h_and_slope, (t, t - room, -t))
    share = np.exp(over - up)
    kept = np.maximum(-np.expm1(over - up), 1e-300)
    return up + np.log(kept) - down + log_m, (p - share * q) / kept + r, share * q / kept
