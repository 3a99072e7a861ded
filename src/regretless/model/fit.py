"""Fit the hyper-parameters by maximum likelihood or maximum a posteriori, and decide when to refit.

The search is over the logarithms of the kernel's parameters and of the noise ratio lam^2.  The
signal omega^2 and the constant mean are profiled out in closed form.  If some variances are known,
omega^2 has no closed form and joins the search.

With many points, the search is in `model/fit_many.py`.

The weak priors of "map" come from the kernel (`Kernel.priors`), and those of the noise ratio and
the length-scales from the model; `defaults.PriorRules` has the numbers.  A prior of length-scales
around 0.25 sqrt(d) had less regret than around 0.5 sqrt(d), where rugged functions pass for smooth
ones while there are few data, and as much as around 0.15 sqrt(d).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, repeat
from math import log, sqrt

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import FitRules
from regretless.model.data import Data
from regretless.model.evidence import evidence, evidence_value
from regretless.model.factor import NotPositiveDefinite
from regretless.model.hyper import Hyper
from regretless.model.model import Model
from regretless.model.priors import priors_of

FAILED = 1e25  # the objective of the search where the evidence can't be computed


@dataclass(frozen=True)
class Fit:
    """The result of a fit."""

    hyper: Hyper
    value: float  # the penalised log evidence; -inf if there was nothing to fit
    evaluations: int  # of the evidence
    ok: bool = True  # False if the fit failed, so that earlier hyper-parameters were kept
    message: str = ""


def refit_due(
    observations: tuple[int, int],
    points: tuple[int, int],
    surprise: float,
    growth: float,
    rules: FitRules,
) -> bool:
    """Whether it is time to fit again.

    A new point tells more about the shape of f than a replicate, and the cost of a fit grows with
    the number of points.  So there are three reasons to fit again:

    - the number of points has grown by `growth` times the number beyond `rules.free_points` (with
      growth 0.1 and 50 free points: each new point, up to 60 points);
    - the number of observations has grown by the share `growth`;
    - the new observations don't match the predictions.  If the model is right, `surprise` has the
      mean `new` and the variance 2 `new`, for `new` observations.  A fit is due if it is more than
      `rules.surprise_sds` sds above the mean.

    Args:
        observations: the number of observations at the last fit, and now.
        points: the number of distinct points at the last fit, and now.
        surprise: the sum of the squared standardised prediction errors since the last fit.
        growth: see `Model`.
        rules: the constants.
    """
    new = observations[1] - observations[0]
    if new <= 0:
        return False
    if points[1] > points[0] and points[1] - points[0] >= growth * (points[0] - rules.free_points):
        return True
    return new >= growth * observations[0] or is_surprising(surprise, new, rules)


def is_surprising(surprise: float, new: int, rules: FitRules) -> bool:
    """Whether `new` observations don't match the predictions, see `refit_due`."""
    return surprise > new + rules.surprise_sds * sqrt(2.0 * new)


def fit(data: Data, start: Hyper, model: Model, rules: FitRules, first: bool = False) -> Fit:
    """Fit hyper-parameters to data.

    Args:
        data: the observations, in the units of the model.
        start: where the search begins, besides a few other starts; usually the last fit.
        model: the method and its priors.
        rules: the constants of the search.
        first: whether there was no fit before.  A fit to many points then tries other starts as
            well.

    Returns:
        The best hyper-parameters found, or `start` if there is nothing to fit.
    """
    if model.method == "fixed":
        return Fit(start, -np.inf, 0, message="the parameters are fixed: nothing to fit")
    if all_alike(data):
        message = "observations are all alike: nothing to fit"
        return Fit(start, -np.inf, 0, ok=False, message=message)
    descents = _descents(len(data), model, rules)
    if rules.many.applies_to(len(data)) and data.divisible:
        # Imported here, because that module uses this one.
        from regretless.model.fit_many import fit_many

        return fit_many(data, start, model, rules, descents, first)
    search = Search((data,), start, model, rules)
    return search.result(*search.best_of(search.promising(descents)))


def all_alike(data: Data) -> bool:
    """Whether all observations are equal up to rounding, including replicates of a point."""
    if not len(data):
        return True
    spread = max(float(np.ptp(data.y)), sqrt(data.scatter))
    # Scaled data have a spread of 1, unless they are all alike.
    return spread <= 1e-12 * max(1.0, float(np.abs(data.y).max()))


def _descents(points: int, model: Model, rules: FitRules) -> int:
    """The number of starts to descend from, best first; with 1, it is the last fit."""
    if model.method == "map" and points > rules.sure_points and points % rules.sure_every:
        return 1
    return rules.descents[0] if points <= rules.free_points else rules.descents[1]


def widened(hyper: Hyper, points: int, rules: FitRules) -> Hyper:
    """Increase the signal variance omega^2, and keep the noise variance.

    A model that was fitted to few points is too sure about other points.  The factor is 1 + 2p/n
    for p fitted parameters and n points.  To first order, that is Akaike's correction of a
    prediction error, (n + p)/(n - p).  Without it, a run may stop exploring too early.  Of the
    length-scales, those count that matter at once: others are of parameters that don't exist there.
    """
    kernel, priors = hyper.kernel, rules.priors
    idle = sum(prior.is_length for prior in kernel.priors(priors)) - kernel.lengths_at_once(priors)
    fitted = len(kernel.theta) - idle + 3  # the others are noise, signal and mean
    factor = 1.0 + rules.widening * fitted / points
    return replace(hyper, omega2=hyper.omega2 * factor, lam2=hyper.lam2 / factor)


class Search:
    """The penalised negative log evidence over p = (theta, log lam2[, log omega2]).

    Data may come in several parts, which then count as independent.
    """

    def __init__(
        self,
        parts: Sequence[Data],
        start: Hyper,
        model: Model,
        rules: FitRules,
        profile: bool = True,
    ) -> None:
        """A search.

        Args:
            parts: the observations, in the units of the model.
            start: the hyper-parameters of the last fit.
            model: the method and its priors.
            rules: the constants of the search.
            profile: whether to profile omega^2 out, if it has a closed form.
        """
        self.start_hyper, self.model, self.rules = start, model, rules
        self.profile = profile and not any(part.known.any() for part in parts)
        # With known variances, the constant may be so large that the search would stop early: its
        # tolerance is relative to the value.
        self.constant = 0.0 if self.profile else sum(part.constant for part in parts)
        self.parts = parts if self.profile else [replace(part, constant=0.0) for part in parts]
        self.priors = start.kernel.priors(rules.priors)
        table = priors_of(start.kernel, model, rules)
        self.lengths, self._unit = table.lengths, table.unit
        self.n_theta = len(self.priors)
        self.signal_prior = model.signal_prior(rules)
        self.calls = 0
        y = parts[0].y if len(parts) == 1 else np.concatenate([part.y for part in parts])
        self.log_variance = log(max(float(np.var(y)), 1e-300))
        self.bounds, self.hidden = table.bounds, table.hidden
        self.center, self.spread = table.center, table.spread
        if not self.profile:  # omega^2 has wide bounds and no normal prior
            around = (self.log_variance - 14.0, self.log_variance + 14.0)
            self.bounds = np.vstack([self.bounds, around])
            self.hidden, self.center = np.append(self.hidden, 0.0), np.append(self.center, 0.0)
            self.spread = np.append(self.spread, np.inf)

    def _theta(self, log_length: float) -> Array:
        """Theta with this log length-scale, and all other parameters at their prior centres."""
        return np.where(self.lengths, log_length, [prior.center for prior in self.priors])

    @property
    def start(self) -> Array:
        """The parameters of the last fit."""
        return self.clip(self.vector(self.start_hyper))

    def promising(self, count: int) -> list[Array]:
        """The `count` best starts; with 1, the last fit without a comparison."""
        if count == 1:
            return [self.start]
        points = self.starts()
        order = np.argsort([self.screen(p) for p in points], kind="stable")
        return [points[int(index)] for index in order[:count]]

    def starts(self) -> list[Array]:
        """The last fit, and equal length-scales from rough to smooth with little or much noise."""
        lengths, noises = self.rules.start_lengths, self.rules.start_noises
        return [self.start, *(self.start_of(a, b) for a in lengths for b in noises)]

    def start_of(self, length: float, lam2: float) -> Array:
        """A start with equal length-scales, in units of sqrt(d), and this noise ratio."""
        tail = [] if self.profile else [self.log_variance]
        return self.clip(np.array([*self._theta(log(length * self._unit)), log(lam2), *tail]))

    def best_of(self, begins: Sequence[Array]) -> tuple[Array, float]:
        """The best end of the descents from these starts, and the objective there."""
        best, best_value = self.start, np.inf
        for begin in begins:
            point, value = self.descend(begin)
            if value < best_value:
                best, best_value = point, value
        return best, best_value

    def result(self, best: Array, value: float, calls: int = 0) -> Fit:
        """The fit at a point with this objective; `calls` are those of other searches."""
        calls += self.calls
        if not value < FAILED:
            message = "the evidence could not be computed"
            return Fit(self.start_hyper, -np.inf, calls, ok=False, message=message)
        return Fit(self.hyper_at(best), self.constant - value, calls)

    def screen(self, p: Array) -> float:
        """The objective at p, without its gradient."""
        self.calls += 1
        hyper = self.hyper_at(p, False)
        try:
            value = sum(
                evidence_value(part, hyper, prior, self.profile) for part, prior in self._each
            )
        except NotPositiveDefinite:
            return FAILED
        value = self.penalty(p)[0] - value
        return value if np.isfinite(value) else FAILED

    def descend(self, p: Array) -> tuple[Array, float]:
        """Where a descent from p ends, and the objective there."""
        # Imported here, because it is slow and not every process fits a model.
        from scipy.optimize import minimize

        rules = self.rules
        limits = {"maxiter": rules.iterations, "ftol": rules.tolerance, "gtol": rules.flat_slope}
        result = minimize(
            self.objective,
            p,
            jac=True,
            method="L-BFGS-B",
            bounds=self.bounds,
            options=limits,
        )
        return self.clip(result.x), float(result.fun)

    def objective(self, p: Array) -> tuple[float, Array]:
        """The objective at p and its gradient."""
        self.calls += 1
        hyper, total = self.hyper_at(p, False), 0.0
        slope = np.zeros(len(p))
        try:
            for part, prior in self._each:
                e = evidence(part, hyper, prior, self.profile)
                total += e.value
                slope += [*e.d_theta, e.d_log_lam2, e.d_log_omega2][: len(p)]
        except NotPositiveDefinite:
            return FAILED, np.zeros_like(p)
        penalty, rise = self.penalty(p)
        value, gradient = penalty - total, rise - slope
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            return FAILED, np.zeros_like(p)
        return value, gradient

    @property
    def _each(self) -> Iterator[tuple[Data, tuple[float, float]]]:
        """The parts, each with its prior of omega^2, which counts once."""
        return zip(self.parts, chain([self.signal_prior], repeat((0.0, 0.0))), strict=False)

    def hyper_at(self, p: Array, profiled: bool = True) -> Hyper:
        """The hyper-parameters at p; with `profiled`, the best omega^2 if p has none."""
        kernel = self.start_hyper.kernel.with_theta(p[: self.n_theta])
        omega2 = 1.0 if self.profile else float(np.exp(p[-1]))
        hyper = replace(
            self.start_hyper, kernel=kernel, lam2=float(np.exp(p[self.n_theta])), omega2=omega2
        )
        if self.profile and profiled:
            omega2 = evidence(self.parts[0], hyper, self.signal_prior).omega2
            hyper = replace(hyper, omega2=omega2)
        return hyper

    def penalty(self, p: Array) -> tuple[float, Array]:
        """The negative log density of the priors at p, up to a constant, and its gradient."""
        noise = float(np.exp(p[self.n_theta]))
        hiding = self.rules.priors.hiding
        away = (p + self.hidden * log(1.0 + noise / hiding) - self.center) / self.spread
        rise = away / self.spread
        rise[self.n_theta] += noise / (noise + hiding) * float(rise @ self.hidden)
        return float(0.5 * away @ away), rise

    def vector(self, hyper: Hyper) -> Array:
        """p of hyper-parameters."""
        tail = [] if self.profile else [log(hyper.omega2)]
        return np.array([*hyper.kernel.theta, log(hyper.lam2), *tail])

    def clip(self, p: Array) -> Array:
        """p within the bounds."""
        return np.clip(p, self.bounds[:, 0], self.bounds[:, 1])
