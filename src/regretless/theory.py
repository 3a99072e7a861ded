"""Section 4 of the paper as numbers: information gain, confidence widths, regret bounds and rates.

Everything holds for a GP with zero mean, a kernel with k(x, x) = 1 and k >= 0, and a noise ratio
lam^2, which is 1 + 2/N in Theorem 1.  Symbols are the paper's: f has norm at most B in the kernel's
RKHS (A2); the noise is R-sub-Gaussian, E exp(t eps) <= exp(t^2 R^2 / 2) (A3); a statement may fail
with probability delta; and omega_n = c sqrt(gamma_n + 1 + log(1/delta)).

Where the paper writes gamma_n, the information I_n of the n points that were really visited will
do: Lemma 1 is proved through it (Chowdhury & Gopalan 2017, Theorem 2), Lemma 5 is an inequality for
it, and of gamma_n itself the proof needs no more than that it grows with n.  I_n <= gamma_n is
known at run time, so the policies use it, and `run_bound` is the bound that follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, comb, e, factorial, inf, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from regretless._internal.arrays import Array
from regretless._internal.validate import check_amount, check_inside, is_number, whole
from regretless.errors import ConfigError
from regretless.improvement import log_h
from regretless.kernels import SE, Kernel, Matern
from regretless.model import GP, Data, Hyper

GREEDY = 1.0 - 1.0 / e  # greedy reaches at least this share of gamma_n (Nemhauser et al. 1978)

_ROUND = 16  # picks between two complete updates of the candidates' variances
_BATCH = 64  # candidates that are brought up to date together, to begin with


# --- information ----------------------------------------------------------------------------------


def mutual_information(kernel: Kernel, X: Array, lam2: float) -> float:
    """I(Y; F) of observations at the rows of X, eq. infogain: log det(I + K / lam^2) / 2."""
    X = _checked_points(X, lam2)
    return GP.of(Data.of(X, np.zeros(len(X))), Hyper(kernel, lam2, 1.0)).information


def sequential_sd(kernel: Kernel, X: Array, lam2: float) -> Array:
    """sigma_n(x_(n+1)), n = 0 ... N-1, for the points in the order in which they were visited.

    Its squares plus lam^2 are the pivots of the Cholesky factor of K + lam^2 I.
    """
    X = _checked_points(X, lam2)
    pivots = np.diag(np.linalg.cholesky(kernel.gram(X) + lam2 * np.eye(len(X))))
    return np.sqrt(np.maximum(pivots**2 - lam2, 0.0))


def information_path(sigma: Array, lam2: float) -> Array:
    """I_1 ... I_N of visited points from their `sequential_sd`: the chain rule, as in Lemma 5."""
    return 0.5 * np.cumsum(np.log1p(sigma**2 / lam2))


def greedy_information_gain(kernel: Kernel, candidates: Array, n: int, lam2: float) -> Array:
    """gamma_1 ... gamma_n over a set of candidates from below, by greedy choice (repeats allowed).

    The gain of a point is log(1 + sigma^2 / lam^2) / 2, so the greedy choice is the point of the
    largest posterior variance.  Information is submodular, hence value <= gamma <= value / `GREEDY`
    (see `information_upper` for a better upper end).

    Variances only fall (Lemma 7), so an old one is an upper bound, and a candidate is looked at
    again only if its old variance might win (Minoux's lazy greedy).  All are brought up to date
    once every few picks, in one matrix product.
    """
    points, n = _checked_points(candidates, lam2), whole("n", n, least=1)
    search = _Greedy(kernel, points, n, lam2)
    return 0.5 * np.cumsum([log1p(search.pick() / lam2) for _ in range(n)])


class _Greedy:
    """Candidates with their rows of the partial Cholesky factor, w_i = T^-1 k(picked, x_i).

    T is the factor of K + lam^2 I over the picked points, and the posterior variance of candidate i
    is 1 - |w_i|^2.
    """

    def __init__(self, kernel: Kernel, points: Array, n: int, lam2: float) -> None:
        self.kernel, self.points, self.lam2 = kernel, points, lam2
        self.picked: list[int] = []
        self.factor = np.zeros((n, n))
        self.rows = np.empty((len(points), n))  # of which the first `settled` columns are filled
        self.settled = 0
        self.base = kernel.diag(points)  # variances given the first `settled` picks
        self.variance = self.base.copy()  # given the first `seen` picks
        self.seen = np.zeros(len(points), dtype=int)

    def pick(self) -> float:
        """Pick the next point; its variance before it is observed."""
        now, batch, best = len(self.picked), _BATCH, -inf
        while self.seen[winner := int(np.argmax(self.variance))] < now:
            stale = np.flatnonzero((self.seen < now) & (self.variance >= best))
            if len(stale) > batch:
                stale = stale[np.argpartition(-self.variance[stale], batch - 1)[:batch]]
            new = self._tail(stale)
            self.variance[stale] = self.base[stale] - np.einsum("ij,ij->i", new, new)
            self.seen[stale] = now
            best, batch = max(best, float(self.variance[stale].max())), 2 * batch
        variance = max(0.0, float(self.variance[winner]))
        self.factor[now, : self.settled] = self.rows[winner, : self.settled]
        self.factor[now, self.settled : now] = self._tail(np.array([winner]))[0]
        self.factor[now, now] = sqrt(variance + self.lam2)
        self.picked.append(winner)
        if len(self.picked) - self.settled == _ROUND:
            self._settle()
        return variance

    def _settle(self) -> None:
        new = self._tail(np.arange(len(self.points)))
        self.base -= np.einsum("ij,ij->i", new, new)
        self.rows[:, self.settled : len(self.picked)] = new
        self.settled = len(self.picked)
        self.variance[:], self.seen[:] = self.base, self.settled

    def _tail(self, which: NDArray[np.intp]) -> Array:
        """The entries of these candidates' rows for the picks since the last settling."""
        old, now = self.settled, len(self.picked)
        right = self.kernel.gram(self.points[self.picked[old:]], self.points[which])
        right -= self.factor[old:now, :old] @ self.rows[which, :old].T
        block = self.factor[old:now, old:now]
        return np.asarray(solve_triangular(block, right, lower=True, check_finite=False).T)


def information_upper(gain: Array) -> Array:
    """gamma_1 ... gamma_n over the same candidates from above, given `greedy_information_gain`.

    Submodularity: n more points add at most n times what the best next one adds, so that
    gamma_n <= gain_k + n (gain_(k+1) - gain_k) for every k.  Never worse than gain_n / `GREEDY`.
    """
    start, step = np.concatenate([[0.0], gain[:-1]]), np.diff(gain, prepend=0.0)
    count = np.arange(1, len(gain) + 1)
    return np.array([float(np.min(start + n * step)) for n in count])


def information_bound(kernel: Kernel, n: int, lam2: float) -> float:
    """gamma_n over the whole cube [0, 1]^d from above, with every constant, for SE and Matern.

    As in Vakili et al. (2021), the kernel is split into a part of finite rank D and a rest whose
    variance is at most rest: gamma_n <= D log(1 + n / (lam^2 D)) / 2 + n rest / (2 lam^2).  The
    finite part here is f's Taylor polynomial of degree q in each of M^d cells; the best M and q are
    taken.
    """
    n = whole("n", n, least=1)
    check_amount("lam2", lam2, positive=True)
    scales, d = _lengthscales(kernel), len(_lengthscales(kernel))
    best = 0.5 * n * log1p(1.0 / lam2)
    for cells in np.unique(np.geomspace(1, max(1.0, n ** (1 / d)), 200).astype(int)):
        radius = 0.5 * sqrt(sum(h**-2 for h in scales)) / int(cells)
        for q, rest in enumerate(_taylor_rests(kernel, radius)):
            rank = int(cells) ** d * comb(q + d, d)
            finite = 0.5 * rank * log1p(n / (lam2 * rank))
            best = min(best, finite + 0.5 * n * rest / lam2)
    return best


def _taylor_rests(kernel: Kernel, radius: float) -> list[float]:
    """Bounds on the variance of f given its derivatives up to order q = 0, 1, ... within `radius`.

    SE: k(x, z) = exp(-|x|^2/2) exp(-|z|^2/2) sum_j (x'z)^j / j! leaves P(Poisson(radius^2) > q).
    Matern: see `_wave_rest`; derivatives exist up to the order q < nu.
    """
    from scipy.special import gammainc

    if isinstance(kernel, SE):
        return [float(gammainc(q + 1, radius**2)) for q in range(64)]
    assert isinstance(kernel, Matern)
    return [_wave_rest(kernel.nu, q, radius) for q in range(ceil(kernel.nu))]


def _wave_rest(nu: float, q: int, radius: float) -> float:
    """A bound on E|exp(i r t) - its Taylor polynomial of degree q|^2 for t ~ Student(2 nu).

    Those are the waves that f is made of; r is the radius.  The polynomial misses them by at most
    |r t|^(q+1) / (q+1)!, which has a second moment if q + 1 < nu.  If not, it is used up to
    |t| = tau only, and beyond the other bound, 2 |r t|^q / q!.  The density of t is at most
    kappa |t|^(-2 nu - 1), which is put in for |t| > 1.
    """
    from scipy.special import beta

    kappa = (2.0 * nu) ** nu / beta(0.5, nu)
    near, far = (radius ** (q + 1) / factorial(q + 1)) ** 2, (2.0 * radius**q / factorial(q)) ** 2
    if q + 1 < nu:
        moment = (2.0 * nu) ** (q + 1) * beta(q + 1.5, nu - q - 1) / beta(0.5, nu)
        return min(1.0, float(near * moment))
    tau, power = max(1.0, 2.0 * (q + 1) / radius), 2.0 * (q + 1 - nu)
    inner = log(tau) if power == 0.0 else (tau**power - 1.0) / power
    outer = tau ** (2.0 * (q - nu)) / (2.0 * (nu - q))
    return min(1.0, float(near * (1.0 + 2.0 * kappa * inner) + far * 2.0 * kappa * outer))


# --- confidence -----------------------------------------------------------------------------------


def noise_ratio(N: int) -> float:
    """lam^2 = 1 + 2/N of Theorem 1."""
    return 1.0 + 2.0 / whole("N", N, least=1)


def beta_n(gamma: float, B: float, R: float, delta: float) -> float:
    """beta_n, Lemma 1: with probability 1 - delta, |f - mu_n| <= beta_n sigma_n for all x and n."""
    for name, value in (("gamma", gamma), ("B", B), ("R", R)):
        check_amount(name, value)
    check_inside("delta", delta, "a probability")
    return B + R * sqrt(2.0 * (gamma + 1.0 + log(1.0 / delta)))


def omega_n(gamma: float, c: float, delta: float) -> float:
    """omega_n, eq. omgn."""
    check_amount("gamma", gamma)
    check_amount("c", c, positive=True)
    check_inside("delta", delta, "a probability")
    return c * sqrt(gamma + 1.0 + log(1.0 / delta))


def omega_scale(B: float, R: float, delta: float) -> float:
    """The least c for which omega_n >= beta_n at all n: the choice of c where none is given."""
    check_amount("B", B, positive=True)
    return beta_n(0.0, B, R, delta) / omega_n(0.0, 1.0, delta)


# --- regret ---------------------------------------------------------------------------------------


def variance_constant(lam2: float) -> float:
    """The factor of Lemma 5: sum_n sigma_n^2(x_(n+1)) <= 2 I_N / log(1 + 1/lam^2).

    log(1 + s / lam^2) is concave in s = sigma_n^2 <= 1, hence at least s log(1 + 1/lam^2); sum, and
    put in I_N = sum_n log(1 + sigma_n^2 / lam^2) / 2 <= gamma_N.  (The paper's factor 2 lam^2 would
    need log(1 + x) >= x, which is the wrong way round.)
    """
    return 2.0 / log1p(1.0 / lam2)


def improvement_constant(ratio: float) -> float:
    """C' = h(beta/omega) / h(-beta/omega), eq. insregterm1 (Lemma 3)."""
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
    """What R_N stays below with probability 1 - delta: eq. RNfinal plus the initial design.

    `gamma` is gamma_N or a bound on it from above, `gamma_n0` is gamma_(n_0) or one from below.
    `sd_sum` is sum_n sigma_n(x_(n+1)) if it is known; if not, Lemma 5 and Cauchy-Schwarz bound it.
    beta_n / omega_n falls with n, so that C' is the one at n_0.
    """
    N = whole("N", N, least=1)
    n0 = whole("n0", n0, least=0, most=N)
    least = omega_scale(B, R, delta)  # also for its checks
    scale = least if c is None else c
    start = beta_n(gamma_n0, B, R, delta) / omega_n(gamma_n0, scale, delta)
    C = improvement_constant(start)
    width, omega = beta_n(gamma, B, R, delta), omega_n(gamma, scale, delta)
    if sd_sum is None:
        sd_sum = sqrt(N * variance_constant(noise_ratio(N)) * gamma)
    check_amount("sd_sum", sd_sum)
    widest = sqrt(2.0) * B  # Lemma 6: no two values of f are further apart
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
    """`regret_bound` of one run of Theorem 1's EIC from the points it visited, in their order.

    With I_n in place of gamma_n and the sigma_n(x_(n+1)) that were met in place of their bound.
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


# --- rates ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Rate:
    """N^power (log N)^log_power, up to a constant."""

    power: float
    log_power: float

    def __call__(self, N: float) -> float:
        if not (is_number(N) and N >= 1):
            raise ConfigError(f"N: need a number >= 1, got {N!r}")
        return float(N**self.power * log(N) ** self.log_power)

    def __mul__(self, other: Rate) -> Rate:
        return Rate(self.power + other.power, self.log_power + other.log_power)


def information_rate(kernel: Kernel) -> Rate:
    """gamma_N of SE and Matern kernels (Vakili et al. 2021), from above."""
    d = len(_lengthscales(kernel))
    if isinstance(kernel, Matern):
        share = d / (2.0 * kernel.nu + d)
        return Rate(share, 1.0 - share)
    return Rate(0.0, d + 1.0)


def regret_rate(kernel: Kernel) -> Rate:
    """R_N of EIC, eq. EIreg and the corollary: sqrt(N) gamma_N sqrt(log N).

    Below N, and so of any use, for Matern kernels with nu > d/2 only.
    """
    return Rate(0.5, 0.5) * information_rate(kernel)


def lower_rate(kernel: Kernel) -> Rate:
    """What no algorithm beats over all f of one norm (Scarlett, Bogunovic & Cevher 2017, 2018)."""
    d = len(_lengthscales(kernel))
    if isinstance(kernel, Matern):
        return Rate((kernel.nu + d) / (2.0 * kernel.nu + d), 0.0)
    return Rate(0.5, d / 4.0)


def _checked_points(X: Array, lam2: float) -> Array:
    points = np.asarray(X, dtype=float)
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise ConfigError(f"X: need rows of finite coordinates, got {X!r:.200}")
    check_amount("lam2", lam2, positive=True)
    return points


def _lengthscales(kernel: Kernel) -> tuple[float, ...]:
    if not isinstance(kernel, SE | Matern):
        raise ConfigError(f"kernel: bounds and rates are known for SE and Matern, got {kernel!r}")
    return kernel.lengthscales
