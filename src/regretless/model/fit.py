"""Hyper-parameters: maximum likelihood or maximum a posteriori, and when to look for them again.

Searched for are the logarithms of the kernel's parameters and of the noise ratio lam^2; the signal
omega^2 and the constant mean are profiled out in closed form (omega^2 joins the search only where
some observations carry a known variance).

The weak priors of "map" are those of the kernel (`Kernel.priors`), with the noise ratio's and the
length-scales' from the model; `defaults.PriorRules` has the numbers.  Length-scales around
0.25 sqrt(d) cost less regret than around 0.5 sqrt(d), which takes rugged functions for smooth ones
while the data are few, and as much as around 0.15 sqrt(d).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import log, sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import FitRules
from regretless.model.data import Data
from regretless.model.evidence import evidence, evidence_value
from regretless.model.factor import NotPositiveDefinite
from regretless.model.hyper import Hyper
from regretless.model.model import Model

_FAILED = 1e25  # what the search is told where the evidence can't be computed


@dataclass(frozen=True)
class Fit:
    """Fitted hyper-parameters; `ok` is False where the search failed and earlier ones were kept."""

    hyper: Hyper
    value: float
    evaluations: int
    ok: bool = True
    message: str = ""


def refit_due(
    observations: tuple[int, int],
    points: tuple[int, int],
    surprise: float,
    growth: float,
    rules: FitRules,
) -> bool:
    """When to fit again, from counts (at the last fit, now) of observations and distinct points.

    A new point tells about the function's shape, a replicate hardly does, and the price of a fit
    grows with the points.  So, at growth 0.1: at every new point up to 60 of them, then whenever
    they have grown by the share `growth` of those beyond 50; and whenever the observations have
    grown by that share.  At once, too, if the new observations don't fit: `surprise` is the sum of
    their squared standardised prediction errors, whose mean were `new` and whose variance 2 `new`
    if the model were right; three sd above that is too much.
    """
    new = observations[1] - observations[0]
    if new <= 0:
        return False
    if points[1] > points[0] and points[1] - points[0] >= growth * (points[0] - rules.free_points):
        return True
    return new >= growth * observations[0] or surprise > new + rules.surprise_sds * sqrt(2.0 * new)


def fit(data: Data, start: Hyper, model: Model, rules: FitRules) -> Fit:
    """Hyper-parameters for these data, from `start` (the last ones, as a rule) and a few others."""
    if model.method == "fixed":
        return Fit(start, -np.inf, 0, message="the parameters are fixed: nothing to fit")
    if _all_alike(data):
        message = "observations are all alike: nothing to fit"
        return Fit(start, -np.inf, 0, ok=False, message=message)
    search = _Search(data, start, model, rules)
    best, best_value = search.start, np.inf
    for begin in search.promising(_descents(len(data), model, rules)):
        point, value = search.descend(begin)
        if value < best_value:
            best, best_value = point, value
    if not best_value < _FAILED:
        message = "the evidence could not be computed"
        return Fit(start, -np.inf, search.calls, ok=False, message=message)
    return Fit(search.hyper_at(best), search.constant - best_value, search.calls)


def _all_alike(data: Data) -> bool:
    """Up to rounding: neither do points differ, nor the replicates of one, which tell the noise."""
    if not len(data):
        return True
    spread = max(float(np.ptp(data.y)), sqrt(data.scatter))
    return spread <= 1e-12 * max(1.0, float(np.abs(data.y).max()))  # it is 1 where there is any


def _descents(points: int, model: Model, rules: FitRules) -> int:
    """How many starts, from the most promising on, are followed to the end; 1: the last fit's."""
    if model.method == "map" and points > rules.sure_points and points % rules.sure_every:
        return 1
    return rules.descents[0] if points <= rules.free_points else rules.descents[1]


def widened(hyper: Hyper, points: int, rules: FitRules) -> Hyper:
    """With a larger signal and the same noise, because the p parameters had to be fitted.

    A fitted model is surer of what it has not seen than it should be, the more so the fewer points
    it was fitted to: 1 + 2p/n is Akaike's correction of a prediction error, (n + p)/(n - p), to
    first order.  Without it a run with few points may believe for good that nothing better is left.
    """
    fitted = len(hyper.kernel.theta) + 3  # and noise, signal, mean
    factor = 1.0 + rules.widening * fitted / points
    return replace(hyper, omega2=hyper.omega2 * factor, lam2=hyper.lam2 / factor)


class _Search:
    """The penalised negative log evidence over p = (theta, log lam2[, log omega2])."""

    def __init__(self, data: Data, start: Hyper, model: Model, rules: FitRules) -> None:
        self.start_hyper, self.model, self.rules = start, model, rules
        self.profile = not bool(data.known.any())
        # Where standard errors were given the constant may be huge, and the search would end as
        # soon as it gains little in comparison.
        self.constant = 0.0 if self.profile else data.constant
        self.data = data if self.profile else replace(data, constant=0.0)
        self.priors = start.kernel.priors(rules.priors)
        self.lengths = np.array([prior.is_length for prior in self.priors], dtype=bool)
        self.n_theta = len(self.priors)
        self.signal_prior = model.signal_prior(rules)
        self.calls = 0
        self.log_variance = log(max(float(np.var(data.y)), 1e-300))
        rows = [(log(prior.low), log(prior.high)) for prior in self.priors]
        lowest, highest = rules.priors.noise_bounds
        rows.append((log(lowest), log(highest)))
        if not self.profile:
            rows.append((self.log_variance - 14.0, self.log_variance + 14.0))
        self.bounds = np.array(rows)
        self.hidden = np.zeros(len(rows))  # 1 where noise would hide what a parameter stands for
        self.hidden[: self.n_theta] = [prior.hidden_by_noise for prior in self.priors]
        self.center, self.spread = self._priors()

    @property
    def _unit(self) -> float:
        """Distances grow with the square root of the number of columns, so do length-scales."""
        return sqrt(max(1, int(self.lengths.sum())))

    def _priors(self) -> tuple[Array, Array]:
        """Centre and sd of the normal priors on p; infinite sd where there is none."""
        size = len(self.bounds)
        if self.model.method == "ml":
            return np.zeros(size), np.full(size, np.inf)
        mu, sd = self.model.length_prior
        theta = self._theta(mu + log(self._unit))
        sds = np.where(self.lengths, sd, [prior.sd for prior in self.priors])
        center = [*theta, self.model.noise_prior[0], 0.0]
        spread = [*sds, self.model.noise_prior[1], np.inf]
        return np.array(center[:size]), np.array(spread[:size])

    def _theta(self, log_length: float) -> Array:
        """The kernel's parameters where their priors have them, but for all length-scales."""
        return np.where(self.lengths, log_length, [prior.center for prior in self.priors])

    @property
    def start(self) -> Array:
        """The last parameters."""
        return self._clip(self._vector(self.start_hyper))

    def promising(self, count: int) -> list[Array]:
        """The best of the starts; the last parameters, where it is one, without a look."""
        if count == 1:
            return [self.start]
        points = self.starts()
        order = np.argsort([self.screen(p) for p in points], kind="stable")
        return [points[int(index)] for index in order[:count]]

    def starts(self) -> list[Array]:
        """The last parameters, and isotropic ones from rough to smooth, quiet to noisy."""
        out = [self.start]
        tail = [] if self.profile else [self.log_variance]
        for length in self.rules.start_lengths:
            for lam2 in self.rules.start_noises:
                theta = self._theta(log(length * self._unit))
                out.append(self._clip(np.array([*theta, log(lam2), *tail])))
        return out

    def screen(self, p: Array) -> float:
        self.calls += 1
        try:
            value = evidence_value(
                self.data, self.hyper_at(p, False), self.signal_prior, self.profile
            )
        except NotPositiveDefinite:
            return _FAILED
        value = self._penalty(p)[0] - value
        return value if np.isfinite(value) else _FAILED

    def descend(self, p: Array) -> tuple[Array, float]:
        from scipy.optimize import minimize  # slow to import, and not every process fits

        rules = self.rules
        limits = {"maxiter": rules.iterations, "ftol": rules.tolerance, "gtol": rules.flat_slope}
        result = minimize(
            self._objective,
            p,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options=limits,
        )
        return self._clip(result.x), float(result.fun)

    def _objective(self, p: Array) -> tuple[float, Array]:
        self.calls += 1
        try:
            e = evidence(self.data, self.hyper_at(p, False), self.signal_prior, self.profile)
        except NotPositiveDefinite:
            return _FAILED, np.zeros_like(p)
        slope = [*e.d_theta, e.d_log_lam2, e.d_log_omega2][: len(p)]
        penalty, rise = self._penalty(p)
        value, gradient = penalty - e.value, rise - np.array(slope)
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return _FAILED, np.zeros_like(p)
        return value, gradient

    def hyper_at(self, p: Array, profiled: bool = True) -> Hyper:
        """The hyper-parameters that p stands for; the profiled omega^2 costs an evaluation."""
        kernel = self.start_hyper.kernel.with_theta(p[: self.n_theta])
        omega2 = 1.0 if self.profile else float(np.exp(p[-1]))
        hyper = replace(
            self.start_hyper, kernel=kernel, lam2=float(np.exp(p[self.n_theta])), omega2=omega2
        )
        if self.profile and profiled:
            omega2 = evidence(self.data, hyper, self.signal_prior).omega2
            hyper = replace(hyper, omega2=omega2)
        return hyper

    def _penalty(self, p: Array) -> tuple[float, Array]:
        """What the priors take away at p, and its slope."""
        noise = float(np.exp(p[self.n_theta]))
        hiding = self.rules.priors.hiding
        away = (p + self.hidden * log(1.0 + noise / hiding) - self.center) / self.spread
        rise = away / self.spread
        rise[self.n_theta] += noise / (noise + hiding) * float(rise @ self.hidden)
        return float(0.5 * away @ away), rise

    def _vector(self, hyper: Hyper) -> Array:
        tail = [] if self.profile else [log(hyper.omega2)]
        return np.array([*hyper.kernel.theta, log(hyper.lam2), *tail])

    def _clip(self, p: Array) -> Array:
        return np.clip(p, self.bounds[:, 0], self.bounds[:, 1])
