"""Information gain: I_n of points, and gamma_n, the largest that n points can have."""

from __future__ import annotations

from math import ceil, comb, e, factorial, inf, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular

from regretless._internal.arrays import Array
from regretless._internal.validate import check_amount, whole
from regretless.errors import ConfigError
from regretless.kernels import SE, Kernel, Matern
from regretless.model import GP, Data, Hyper

GREEDY = 1.0 - 1.0 / e  # greedy choice has at least this share of gamma_n (Nemhauser et al. 1978)

_ROUND = 16  # picks between two updates of the variances of all candidates
_BATCH = 64  # size of the first batch of candidates whose variances are updated together


def mutual_information(kernel: Kernel, X: Array, lam2: float) -> float:
    """The information I(Y; F) of observations at the rows of X: log det(I + K / lam^2) / 2.

    It is eq. infogain.

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
        if old == now:  # scipy before 1.14 solves no empty system
            return np.empty((len(which), 0))
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
    scales, d = lengthscales_of(kernel), len(lengthscales_of(kernel))
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


def _checked_points(X: Array, lam2: float) -> Array:
    points = np.asarray(X, dtype=float)
    if points.ndim != 2 or not len(points) or not np.isfinite(points).all():
        raise ConfigError(f"X: need rows of finite coordinates, got {X!r:.200}")
    check_amount("lam2", lam2, positive=True)
    return points


def lengthscales_of(kernel: Kernel) -> tuple[float, ...]:
    if not isinstance(kernel, SE | Matern):
        raise ConfigError(f"kernel: bounds and rates are known for SE and Matern, got {kernel!r}")
    return kernel.lengthscales
