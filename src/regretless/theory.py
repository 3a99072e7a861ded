"""The theory of section 4 as functions: information gain, confidence widths, regret bounds, rates.

Everything holds for a GP with zero mean, a kernel with k(x, x) = 1 and k >= 0, and a noise ratio
lam^2, which is 1 + 2/N in Theorem 1.  The symbols are those of the paper:

- B bounds the norm of f in the kernel's RKHS (A2);
- R is the scale of the noise, which is R-sub-Gaussian: E exp(t eps) <= exp(t^2 R^2 / 2) (A3);
- delta is the probability with which a statement may fail;
- gamma_n is the largest information that n points can have, and I_n that of the points visited;
- omega_n = c sqrt(gamma_n + 1 + log(1/delta)).

I_n may replace gamma_n everywhere.  The proof of Lemma 1 uses I_n (Chowdhury & Gopalan 2017,
Theorem 2), and Lemma 5 is an inequality for I_n.  The rest of the proof needs only that gamma_n
grows with n, and so does I_n.  I_n is at most gamma_n and is known at run time.  So the policies
use it, and `run_bound` is the bound that follows.
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

GREEDY = 1.0 - 1.0 / e  # greedy choice has at least this share of gamma_n (Nemhauser et al. 1978)

_ROUND = 16  # picks between two updates of the variances of all candidates
_BATCH = 64  # size of the first batch of candidates whose variances are updated together


# --- information ----------------------------------------------------------------------------------


def mutual_information(kernel: Kernel, X: Array, lam2: float) -> float:
    """I(Y; F) of observations at the rows of X, eq. infogain: log det(I + K / lam^2) / 2.

    Args:
        kernel: the kernel of f.
        X: the points, of shape (n, d).
        lam2: the noise ratio lam^2.

    Raises:
        ConfigError: X has no rows or is not finite, or lam2 is not positive.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> once = mutual_information(SE((0.3,)), np.array([[0.5]]), lam2=1.0)
        >>> round(once, 4)  # log(2) / 2
        0.3466
    """
    X = _checked_points(X, lam2)
    return GP.of(Data.of(X, np.zeros(len(X))), Hyper(kernel, lam2, 1.0)).information


def sequential_sd(kernel: Kernel, X: Array, lam2: float) -> Array:
    """sigma_n(x_(n+1)) for n = 0, ..., N-1: the posterior sd of each point before it is observed.

    The squares of these numbers plus lam^2 are the squared pivots of the Cholesky factor of
    K + lam^2 I.

    Args:
        kernel: the kernel of f.
        X: the points, of shape (N, d), in the order in which they were visited.
        lam2: the noise ratio lam^2.

    Returns:
        An array of N numbers.

    Raises:
        ConfigError: X has no rows or is not finite, or lam2 is not positive.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> sequential_sd(SE((0.3,)), np.array([[0.5], [0.5]]), lam2=1.0).round(4).tolist()
        [1.0, 0.7071]
    """
    X = _checked_points(X, lam2)
    pivots = np.diag(np.linalg.cholesky(kernel.gram(X) + lam2 * np.eye(len(X))))
    return np.sqrt(np.maximum(pivots**2 - lam2, 0.0))


def information_path(sigma: Array, lam2: float) -> Array:
    """I_1, ..., I_N of the visited points, by the chain rule as in Lemma 5.

    Args:
        sigma: the result of `sequential_sd`.
        lam2: the noise ratio lam^2.

    Returns:
        An array of N numbers.

    Example:
        >>> import numpy as np
        >>> information_path(np.array([1.0, 0.5]), lam2=1.0).round(4).tolist()
        [0.3466, 0.4581]
    """
    return 0.5 * np.cumsum(np.log1p(sigma**2 / lam2))


def greedy_information_gain(kernel: Kernel, candidates: Array, n: int, lam2: float) -> Array:
    """Lower bounds of gamma_1, ..., gamma_n over a set of candidates, by greedy choice.

    A point adds the information log(1 + sigma^2 / lam^2) / 2, so the greedy choice is the point
    with the largest posterior variance.  It may choose a point again.  Information is submodular,
    so that bound <= gamma <= bound / `GREEDY`.  `information_upper` is a better upper bound.

    Args:
        kernel: the kernel of f.
        candidates: the points to choose from, of shape (m, d).
        n: the number of choices.
        lam2: the noise ratio lam^2.

    Returns:
        An array of n numbers.

    Raises:
        ConfigError: there are no candidates or they are not finite, n is less than 1, or lam2 is
            not positive.

    Example:
        >>> import numpy as np
        >>> from regretless.kernels import SE
        >>> gain = greedy_information_gain(SE((0.3,)), np.linspace(0, 1, 50)[:, None], 3, lam2=1.0)
        >>> gain.shape, round(float(gain[0]), 4)
        ((3,), 0.3466)
    """
    # Variances never increase (Lemma 7), so an old variance is an upper bound.  A candidate's is
    # computed again only if the old one might be the largest (Minoux's lazy greedy).  Every few
    # picks, all are computed again in one matrix product.
    points, n = _checked_points(candidates, lam2), whole("n", n, least=1)
    search = _Greedy(kernel, points, n, lam2)
    return 0.5 * np.cumsum([log1p(search.pick() / lam2) for _ in range(n)])


class _Greedy:
    """The candidates, with w_i = T^-1 k(picked, x_i) for each candidate i.

    T is the Cholesky factor of K + lam^2 I over the picked points.  The posterior variance of
    candidate i is 1 - |w_i|^2.
    """

    def __init__(self, kernel: Kernel, points: Array, n: int, lam2: float) -> None:
        self.kernel, self.points, self.lam2 = kernel, points, lam2
        self.picked: list[int] = []
        self.factor = np.zeros((n, n))
        self.rows = np.empty((len(points), n))  # the w_i; only the first `settled` columns are set
        self.settled = 0
        self.base = kernel.diag(points)  # variances given the first `settled` picks
        self.variance = self.base.copy()  # variances given the first `seen` picks of each
        self.seen = np.zeros(len(points), dtype=int)

    def pick(self) -> float:
        """Pick the next point, and return its variance before it is observed."""
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
        """The entries of w_i for the picks since the last `_settle`, for these candidates."""
        old, now = self.settled, len(self.picked)
        right = self.kernel.gram(self.points[self.picked[old:]], self.points[which])
        right -= self.factor[old:now, :old] @ self.rows[which, :old].T
        block = self.factor[old:now, old:now]
        return np.asarray(solve_triangular(block, right, lower=True, check_finite=False).T)


def information_upper(gain: Array) -> Array:
    """Upper bounds of gamma_1, ..., gamma_n over the candidates of `greedy_information_gain`.

    Information is submodular: n more points add at most n times as much as the best next point.  So
    gamma_n <= gain_k + n (gain_(k+1) - gain_k) for every k.  The bound is never larger than
    gain_n / `GREEDY`.

    Args:
        gain: the result of `greedy_information_gain`.

    Returns:
        An array of n numbers.

    Example:
        >>> import numpy as np
        >>> information_upper(np.array([1.0, 1.5, 1.75])).tolist()
        [1.0, 2.0, 2.25]
    """
    start, step = np.concatenate([[0.0], gain[:-1]]), np.diff(gain, prepend=0.0)
    count = np.arange(1, len(gain) + 1)
    return np.array([float(np.min(start + n * step)) for n in count])


def information_bound(kernel: Kernel, n: int, lam2: float) -> float:
    """An upper bound of gamma_n over the whole cube [0, 1]^d, with all constants.

    As in Vakili et al. (2021), the kernel is split into a part of finite rank D and a rest with
    variance at most `rest`.  Then gamma_n <= D log(1 + n / (lam^2 D)) / 2 + n rest / (2 lam^2).
    Here the part of finite rank is the Taylor polynomial of f, of degree q, in each of M^d cells.
    The bound is the smallest one over M and q.

    Args:
        kernel: an `SE` or `Matern` kernel.
        n: the number of points.
        lam2: the noise ratio lam^2.

    Raises:
        ConfigError: the kernel is of another kind, n is less than 1, or lam2 is not positive.

    Example:
        >>> from regretless.kernels import SE
        >>> information_bound(SE((0.5,)), 10, 1.0) < information_bound(SE((0.5,)), 1000, 1.0) < 100
        True
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

    r is the radius.  By the spectral representation, f is a sum of such waves exp(i r t).  The
    error of the polynomial is at most |r t|^(q+1) / (q+1)!.  This has a second moment if
    q + 1 < nu.  Otherwise it is used for |t| <= tau only, and the bound 2 |r t|^q / q! for larger
    |t|.  For |t| > 1, the density of t is bounded by kappa |t|^(-2 nu - 1).
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
    """lam^2 = 1 + 2/N, the noise ratio of Theorem 1.

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
    """beta_n of Lemma 1: with probability 1 - delta, |f - mu_n| <= beta_n sigma_n for all x and n.

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
    """omega_n = c sqrt(gamma_n + 1 + log(1/delta)), eq. omgn.

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


# --- regret ---------------------------------------------------------------------------------------


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
    """C' = h(beta/omega) / h(-beta/omega), eq. insregterm1 (Lemma 3).

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
    """`regret_bound` of one run of Theorem 1's EIC, from the points that it visited.

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


# --- rates ----------------------------------------------------------------------------------------


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
    d = len(_lengthscales(kernel))
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
