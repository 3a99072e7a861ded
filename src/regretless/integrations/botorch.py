"""EIC on a BoTorch model: an acquisition function, its gate, and a search that keeps both.

    candidate, log_ei = optimize_eic(model, bounds, X_baseline=train_X, remaining=120)

With z = (mu - xi) / sigma, where xi is the best posterior mean at the points tried so far, log EI
is log sigma + log h(z); and EI is at least the evaluation cost exactly where z >= t_m, for m
evaluations left (`regretless.improvement.gate`).
"""

from __future__ import annotations

import warnings
from math import log, pi, sqrt
from typing import Any

from regretless.errors import ConfigError, MissingExtraError
from regretless.horizon import Horizon
from regretless.improvement import gate

try:
    import torch
    from botorch.acquisition.acquisition import AcquisitionFunction
    from botorch.acquisition.analytic import AnalyticAcquisitionFunction
    from botorch.acquisition.input_constructors import acqf_input_constructor
    from botorch.acquisition.objective import PosteriorTransform
    from botorch.exceptions.warnings import OptimizationWarning
    from botorch.models.model import Model
    from botorch.optim.optimize import optimize_acqf
    from botorch.utils.sampling import draw_sobol_samples
    from botorch.utils.transforms import t_batch_mode_transform
    from torch import Tensor
except ImportError as error:
    raise MissingExtraError("botorch", "botorch") from error

_LOG_SQRT_2PI = 0.5 * log(2 * pi)
_SQRT_HALF_PI = sqrt(pi / 2)
_FEASIBLE = -1e-9  # slack that rounding may take from a point on the edge
_CLOSE = 0.05  # of the box: only points as close as this are taken for one another
_EDGE = 0.05  # a climb that ends with less slack may have been stopped by the gate
_ROUNDING = 1e-8  # of the box: a point that is outside by less is on its edge


def log_h(z: Tensor) -> Tensor:
    """log(z Phi(z) + phi(z)), exact far into the tail, with its exact slope as gradient."""
    value: Tensor = _LogH.apply(z)
    return value


class _LogH(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, z: Tensor) -> Tensor:
        value, slope = _log_h_and_slope(z)
        ctx.save_for_backward(slope)
        return value

    @staticmethod
    def backward(ctx: Any, upstream: Tensor) -> Tensor:
        (slope,) = ctx.saved_tensors
        product: Tensor = upstream * slope
        return product


def _log_h_and_slope(z: Tensor) -> tuple[Tensor, Tensor]:
    """As `regretless.improvement.log_h_and_slope`: three ranges, none of which cancels digits."""
    near, x = z > -1.0, (-z).clamp(min=1.0)
    cdf = torch.special.ndtr(z)
    area = z * cdf + torch.exp(-0.5 * z * z - _LOG_SQRT_2PI)
    area = area.where(near, torch.ones_like(z))
    mills = _SQRT_HALF_PI * torch.special.erfcx(x / sqrt(2))
    far = x > 10.0
    tail = x
    for j in range(24, 1, -1):
        tail = x + j / tail
    ratio = torch.where(far, tail, mills / (1.0 - x.clamp(max=10.0) * mills).where(~far, mills))
    value = -0.5 * x * x - _LOG_SQRT_2PI + torch.log(mills / ratio)
    return torch.where(near, area.log(), value), torch.where(near, cdf / area, ratio)


class LogExpectedImprovementCost(AnalyticAcquisitionFunction):
    """log EI over the best posterior mean at `X_baseline`, inside the gate of EIC.

    `gate(X)` is z - t_m, for `optimize_acqf(nonlinear_inequality_constraints=[(acqf.gate, True)])`.

    Args:
        model: a fitted model of BoTorch with one outcome.
        X_baseline: the points tried so far, (n, d).
        remaining: how many evaluations are left, the next one included.
        posterior_transform: what makes one outcome of several; see BoTorch.
        maximize: whether larger outcomes are better.
        penalty: outside the gate, the slack times this is subtracted, so that a search which knows
            of no constraint ends at the edge.  `optimize_eic` searches better.
        X_pending: points under way, (n, d).  They are subtracted from what remains, are expected
            to come out at their posterior mean, and one of them may be the incumbent.

    Raises:
        ConfigError: there is no point in `X_baseline`, `remaining` is not a whole number of at
            least 1, or there are pending points and the posterior is not Gaussian.
        MissingExtraError: BoTorch is not installed (when the module is imported).

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from regretless.integrations.botorch import LogExpectedImprovementCost
        >>> X = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, -((X - 0.3) ** 2))
        >>> acqf = LogExpectedImprovementCost(model, X_baseline=X, remaining=20)
        >>> acqf(X.unsqueeze(-2)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        model: Model,
        X_baseline: Tensor,
        remaining: int,
        posterior_transform: PosteriorTransform | None = None,
        maximize: bool = True,
        penalty: float = 100.0,
        X_pending: Tensor | None = None,
    ) -> None:
        super().__init__(model=model, posterior_transform=posterior_transform)
        _check_baseline(X_baseline)
        self.sign = 1.0 if maximize else -1.0
        self.penalty = penalty
        gate(remaining)  # raises ConfigError if the number is wrong
        self.remaining = remaining
        self.register_buffer("X_baseline", X_baseline)
        self.set_X_pending(X_pending)

    def set_X_pending(self, X_pending: Tensor | None = None) -> None:
        """Count points as pending.  `optimize_acqf` calls it between the points of a batch.

        Args:
            X_pending: points without a result, (m, d); None for no points.

        Raises:
            ConfigError: the posterior of the model is not Gaussian.
        """
        # Past the analytic parent, which knows nothing of pending points.
        AcquisitionFunction.set_X_pending(self, X_pending)
        tried, under_way = self.X_baseline, 0
        with torch.no_grad():
            if self.X_pending is not None:
                self.register_buffer("pending_noise", self.noise_variance(self.X_pending))
                tried, under_way = torch.cat([tried, self.X_pending]), len(self.X_pending)
            best = self._posterior(tried.unsqueeze(-2))[0].max(dim=0)
        self.threshold = gate(max(1, self.remaining - under_way))
        self.register_buffer("X_incumbent", tried[best.indices].unsqueeze(0))
        self.register_buffer("best_f", best.values)

    @t_batch_mode_transform(expected_q=1)
    def forward(self, X: Tensor) -> Tensor:
        """The logarithm of the value of each point: (b, 1, d) -> (b,).

        Args:
            X: points, each as a batch of one.
        """
        sigma, z = self._sigma_and_z(X)
        slack: Tensor = (z - self.threshold).clamp(max=0.0)
        return sigma.log() + log_h(z) + self.penalty * slack

    def gate(self, X: Tensor) -> Tensor:
        """The slack z - t_m at points (..., d).  It is at least 0 where a trial is worth its cost.

        Args:
            X: points, (..., d).
        """
        return self._sigma_and_z(X.unsqueeze(-2))[1] - self.threshold

    def _sigma_and_z(self, X: Tensor) -> tuple[Tensor, Tensor]:
        mean, sigma = self._posterior(X)
        return sigma, (mean - self.best_f) / sigma

    def _posterior(self, X: Tensor) -> tuple[Tensor, Tensor]:
        """Mean, turned to be maximised, and sd: (..., 1, d) -> (...)."""
        self.to(X)
        pending = self.X_pending
        if pending is not None:
            X = torch.cat([X, pending.to(X).expand(*X.shape[:-2], -1, -1)], dim=-2)
        posterior = self.model.posterior(X, posterior_transform=self.posterior_transform)
        mean, variance = posterior.mean[..., 0, 0], posterior.variance[..., 0, 0]
        if pending is not None:
            if not hasattr(posterior, "distribution"):
                kind = type(posterior).__name__
                raise ConfigError(f"X_pending: needs a Gaussian posterior, the model's is a {kind}")
            variance = variance - self._explained(posterior.distribution.covariance_matrix)
        return self.sign * mean, variance.clamp_min(1e-12).sqrt()

    def _explained(self, cov: Tensor) -> Tensor:
        """The variance at the first point that results at the others will take away.

        Its mean they leave where it is: they are believed to come out as expected.
        """
        shared = cov[..., 1:, :1]
        results = cov[..., 1:, 1:] + torch.diag(self.pending_noise)
        return (shared * torch.linalg.solve(results, shared)).sum(dim=(-2, -1))

    def noise_variance(self, X: Tensor) -> Tensor:
        """The noise variance of one observation at each of the points: (n, d) -> (n,).

        Args:
            X: points, (n, d).
        """
        latent, observed = (
            self.model.posterior(
                X, observation_noise=n, posterior_transform=self.posterior_transform
            )
            for n in (False, True)
        )
        return (observed.variance - latent.variance).clamp(min=0.0).squeeze(-1)


def _check_baseline(X_baseline: Tensor) -> None:
    if X_baseline.ndim != 2 or not len(X_baseline):
        shape = tuple(X_baseline.shape)
        raise ConfigError(f"X_baseline: need the points tried so far, (n, d), got {shape}")


@acqf_input_constructor(LogExpectedImprovementCost)
def _inputs_from_ax(
    model: Model,
    training_data: Any,
    budget: int | None = None,
    posterior_transform: PosteriorTransform | None = None,
    X_pending: Tensor | None = None,
    constraints: Any = None,
    horizon: int | None = None,
) -> dict[str, Any]:
    """What Ax calls, with `botorch_acqf_options={"budget": ...}`; each observation has cost one.

    With `{"horizon": ...}` instead, there is no end.
    """
    if constraints:
        raise ConfigError(f"constraints: EIC supports none on outcomes, got {len(constraints)}")
    data = training_data if hasattr(training_data, "X") else next(iter(training_data.values()))
    return {
        "model": model,
        "X_baseline": data.X,
        "remaining": int(Horizon.checked(budget, horizon)._replace(asked=len(data.X)).steps),
        "posterior_transform": posterior_transform,
        "X_pending": X_pending,
    }


def optimize_eic(
    model: Model,
    bounds: Tensor,
    X_baseline: Tensor,
    remaining: int,
    *,
    posterior_transform: PosteriorTransform | None = None,
    maximize: bool = True,
    num_restarts: int = 8,
    raw_samples: int = 512,
    merge: bool = True,
    seed: int | None = None,
) -> tuple[Tensor, Tensor]:
    """The next point of EIC: the best expected improvement among points that are worth their cost.

    Candidates are spread over the box, around the best of them, and at all of `X_baseline`.  The
    best ones inside the gate climb, and stay inside.  The incumbent always passes the gate, so
    there is always an answer: if nothing new is worth its cost, it is the incumbent again.

    Args:
        model: a fitted model of BoTorch with one outcome.
        bounds: the least and the largest value of each parameter, (2, d).
        X_baseline: the points tried so far, (n, d).  Points outside of `bounds` inform the model,
            but are neither candidates nor the incumbent.  If all are outside, the incumbent is the
            point with the best posterior mean among those that the search begins with.
        remaining: how many evaluations are left, the next one included.
        posterior_transform: what makes one outcome of several; see BoTorch.
        maximize: whether larger outcomes are better.
        num_restarts: how many candidates climb.
        raw_samples: how many candidates are spread over the box.
        merge: whether a tried point is taken again instead of a new one, if the posterior cannot
            tell the two apart.
        seed: the seed of the candidates; None draws one from torch's generator.

    Returns:
        The point, (1, d), and its log EI.

    Raises:
        ConfigError: there is no point in `X_baseline`, or `remaining` is not a whole number of at
            least 1.

    Example:
        >>> import torch
        >>> from botorch.models import SingleTaskGP
        >>> from regretless.integrations.botorch import optimize_eic
        >>> X = torch.linspace(0, 1, 5, dtype=torch.double).unsqueeze(-1)
        >>> model = SingleTaskGP(X, -((X - 0.3) ** 2))
        >>> bounds = torch.tensor([[0.0], [1.0]], dtype=torch.double)
        >>> candidate, log_ei = optimize_eic(model, bounds, X, remaining=20, seed=0)
        >>> candidate.shape, bool(0 <= candidate <= 1)
        (torch.Size([1, 1]), True)
    """
    _check_baseline(X_baseline)
    bounds = bounds.to(X_baseline)
    seed = int(torch.randint(2**31, (1,))) if seed is None else seed
    generator = torch.Generator().manual_seed(seed)
    tried, fresh = _inside(bounds, X_baseline), _everywhere(bounds, raw_samples, generator)
    at_hand = tried if len(tried) else fresh
    acqf = LogExpectedImprovementCost(model, at_hand, remaining, posterior_transform, maximize)
    pool = _Pool(acqf, torch.cat([tried, fresh]))
    pool.add(_around(pool.apart(8, bounds), bounds, raw_samples // 2, generator))
    top = _climb(acqf, bounds, pool.apart(num_restarts, bounds))
    pool.add(top)
    if bool((acqf.gate(top) < _EDGE).any()):
        pool.add(_climb_within(acqf, bounds, pool.apart(4, bounds)))
    candidate, value = pool.best(1), pool.feasible_values.max()
    same = _same_point(acqf, candidate, tried, bounds, remaining) if merge else None
    if same is None:
        return candidate, value
    return same, acqf(same)[0].detach()


class _Pool:
    """Scored candidates."""

    def __init__(self, acqf: LogExpectedImprovementCost, X: Tensor) -> None:
        self.acqf, self.X, self.feasible_values = acqf, X[:0], X[:0, 0]
        self.add(X)

    def add(self, X: Tensor) -> None:
        with torch.no_grad():
            # Of the incumbent z is 0, whatever rounding says.
            incumbent = (self.acqf.X_incumbent == X).all(dim=-1)
            inside = (self.acqf.gate(X) >= _FEASIBLE) | incumbent
            value = self.acqf(X.unsqueeze(-2)).where(inside, X.new_tensor(-torch.inf))
        self.X = torch.cat([self.X, X])
        self.feasible_values = torch.cat([self.feasible_values, value])

    def best(self, count: int) -> Tensor:
        values, order = self.feasible_values.sort(descending=True, stable=True)
        return self.X[order[values > -torch.inf][:count]]

    def apart(self, count: int, bounds: Tensor) -> Tensor:
        """The best of different places, half of them far apart: no hill is to take them all."""
        X = self.best(len(self.X))
        width = bounds[1] - bounds[0]
        unit = (X - bounds[0]) / width.where(width > 0, torch.ones_like(width))
        chosen, nearest = [0], torch.cdist(unit, unit[:1], p=torch.inf)[:, 0]
        for radius, limit in ((0.3, count // 2), (0.05, count), (0.0, count)):
            while len(chosen) < limit and bool((nearest > radius).any()):
                chosen.append(int((nearest > radius).int().argmax()))  # the best one far enough
                here = torch.cdist(unit, unit[chosen[-1:]], p=torch.inf)[:, 0]
                nearest = torch.minimum(nearest, here)
        return X[chosen]


def _inside(bounds: Tensor, X: Tensor) -> Tensor:
    """The points within the bounds, where rounding does not count."""
    nearest = X.clamp(bounds[0], bounds[1])
    return nearest[((nearest - X).abs() <= _ROUNDING * (bounds[1] - bounds[0])).all(dim=-1)]


def _everywhere(bounds: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Sobol points, every other one pushed outwards: what is best is often on a face."""
    seed = int(torch.randint(2**31, (1,), generator=generator))
    points = draw_sobol_samples(bounds, count, 1, seed=seed).squeeze(-2)
    outwards = 1.5 * points[::2] - 0.5 * bounds.mean(dim=0)
    points[::2] = outwards.clamp(bounds[0], bounds[1])
    return points


def _around(centers: Tensor, bounds: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Points around the centres, at every scale from 0.2 to 0.001 of the box."""
    which = torch.randint(len(centers), (count,), generator=generator)
    scale = 10.0 ** (-3.0 + 2.3 * torch.rand(count, 1, generator=generator))
    steps = torch.randn(count, centers.shape[-1], generator=generator) * scale
    moved = centers[which] + steps.to(centers) * (bounds[1] - bounds[0])
    return moved.clamp(bounds[0], bounds[1])


def _climb(acqf: LogExpectedImprovementCost, bounds: Tensor, starts: Tensor) -> Tensor:
    """All starts at once, held back by the penalty only."""
    return _optimized(acqf, bounds, starts, {"maxiter": 200})


def _climb_within(acqf: LogExpectedImprovementCost, bounds: Tensor, starts: Tensor) -> Tensor:
    """One after the other along the edge of the gate, where the penalty has a kink."""
    starts = starts[acqf.gate(starts) >= 0.0]  # SLSQP takes no start outside, not even by rounding
    if not len(starts):
        return starts
    constraint = {"nonlinear_inequality_constraints": [(acqf.gate, True)]}
    return _optimized(acqf, bounds, starts, {"batch_limit": 1, "maxiter": 60}, **constraint)


def _optimized(
    acqf: LogExpectedImprovementCost,
    bounds: Tensor,
    starts: Tensor,
    options: dict[str, Any],
    **constraint: Any,
) -> Tensor:
    with warnings.catch_warnings():
        # A climb that ends early costs nothing: its start is among the candidates.
        warnings.simplefilter("ignore", OptimizationWarning)
        warnings.simplefilter("ignore", RuntimeWarning)
        top, _ = optimize_acqf(
            acqf,
            bounds,
            q=1,
            num_restarts=len(starts),
            batch_initial_conditions=starts.unsqueeze(-2),
            options=options,
            return_best_only=False,
            retry_on_optimization_warning=False,
            **constraint,
        )
    climbed: Tensor = top.squeeze(-2).detach()
    return climbed


def _same_point(
    acqf: LogExpectedImprovementCost,
    candidate: Tensor,
    X_baseline: Tensor,
    bounds: Tensor,
    remaining: int,
) -> Tensor | None:
    """The best close one of the tried points that the posterior can't tell from the candidate.

    By the rule of `regretless.search.same_point`.
    """
    near = ((X_baseline - candidate).abs() <= _CLOSE * (bounds[1] - bounds[0])).all(dim=-1)
    tried = X_baseline[near]
    if not len(tried) or (tried == candidate).all(dim=-1).any():
        return None
    transform = acqf.posterior_transform
    pairs = torch.stack([tried, candidate.expand_as(tried)], dim=-2)
    with torch.no_grad():
        both = acqf.model.posterior(pairs, posterior_transform=transform)
        noise = acqf.noise_variance(candidate)
        mean, cov = both.mean.squeeze(-1), both.distribution.covariance_matrix
        variance = cov[:, 0, 0] + cov[:, 1, 1] - 2.0 * cov[:, 0, 1]
        apart = (mean[:, 0] - mean[:, 1]) ** 2 + variance.clamp(min=0.0)
    same = tried[apart <= noise / remaining]
    alike = _Pool(acqf, same).best(1) if len(same) else same
    return alike if len(alike) else None
