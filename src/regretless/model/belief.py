"""What is believed: everything told, the fit in use, and the posterior.

Frozen; each verb returns the next one.  The posterior is a fold: built from the observations of the
last fit, then shown one observation after the other.  A replay that knows the fits repeats the same
operations, and so gets the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, NamedTuple

import numpy as np

from regretless._internal.arrays import Array
from regretless.defaults import Defaults
from regretless.errors import NoResultsError, StorageError
from regretless.model.data import Data
from regretless.model.fit import fit, refit_due, widened
from regretless.model.hyper import Hyper
from regretless.model.model import Model
from regretless.model.posterior import Posterior
from regretless.model.scaling import Scaling
from regretless.space import Parameter

_BLOCK = 256


class Observed(NamedTuple):
    """One observation; larger y is better."""

    x: Array
    y: float
    weight: float
    variance: float | None
    blind: bool = False  # a point of the start, which nothing that was told had led to


class History:
    """Observations in their order; frozen, but one with one more shares nearly all of it.

    A tuple would be copied each time, and thousands of replicates would pay for that.
    """

    def __init__(
        self, blocks: tuple[tuple[Observed, ...], ...] = (), last: tuple[Observed, ...] = ()
    ) -> None:
        self._blocks = blocks  # of _BLOCK each
        self._last = last

    def plus(self, told: Observed) -> History:
        if len(self._last) < _BLOCK:
            return History(self._blocks, (*self._last, told))
        return History((*self._blocks, self._last), (told,))

    def since(self, start: int) -> Iterator[Observed]:
        """All but the first `start`."""
        skipped = min(start // _BLOCK, len(self._blocks))
        blocks = (*self._blocks[skipped:], self._last)
        return islice(chain.from_iterable(blocks), start - _BLOCK * skipped, None)

    def __iter__(self) -> Iterator[Observed]:
        return self.since(0)

    def __len__(self) -> int:
        return _BLOCK * len(self._blocks) + len(self._last)


@dataclass(frozen=True)
class Fitted:
    """The hyper-parameters in use, the scale they hold for, and what they were fitted to."""

    hyper: Hyper
    scaling: Scaling
    at: int  # observations
    points: int  # distinct ones among them
    ok: bool = True


@dataclass(frozen=True, eq=False)
class Belief:
    """See the module; `posterior` and `fitted` of `current()` are what to decide with."""

    model: Model
    columns: tuple[Parameter, ...]
    defaults: Defaults
    data: Data
    told: History = field(default_factory=History)
    luckiest: float = -math.inf  # the best single observation
    fitted: Fitted | None = None
    source: dict[str, Any] | None = None  # the JSON of `fitted`, here as in a replay
    posterior: Posterior | None = None
    included: int = 0  # observations that the posterior has seen
    surprise: float = 0.0  # of those since the fit, see `fit.refit_due`

    @classmethod
    def empty(cls, model: Model, columns: tuple[Parameter, ...], defaults: Defaults) -> Belief:
        return cls(model, columns, defaults, Data.empty(len(columns)))

    def learn(self, told: Observed) -> Belief:
        """With one more observation; the posterior is shown it when it is asked for."""
        data, _ = self.data.add(*told[:4])
        luckiest = max(self.luckiest, told.y)
        return replace(self, data=data, told=self.told.plus(told), luckiest=luckiest)

    def times_told(self, x: Array) -> int:
        return int(self.data.count[(self.data.x == x).all(axis=1)].sum())

    def sample_mean(self, x: Array) -> float:
        """The mean of the results at a point, not the posterior's.

        Results with a standard error and results without are weighed by the noise of each.
        """
        assert self.fitted is not None  # of what is current
        data, hyper, scale = self.data, self.fitted.hyper, self.fitted.scaling.scale
        noise = hyper.lam2 * hyper.omega2 * scale * scale
        here = (data.x == x).all(axis=1)
        known, weights = data.known[here], data.weight[here]
        weights[~known] /= noise
        return float(np.average(data.y[here], weights=weights / weights.max()))

    # -- the posterior -----------------------------------------------------------------------------

    def current(self) -> Belief:
        """With the posterior of everything told."""
        if not self.told:
            raise NoResultsError("nothing was told yet")
        if self.fitted is None:
            return self._first_fit
        ready = self
        if self.posterior is None:
            at = self.fitted.at
            data = self._scaled(self.fitted.scaling, at)
            posterior = self.model.posterior(data, self.fitted.hyper)
            ready = replace(self, posterior=posterior, included=at)
        return ready if ready.included == len(self.told) else ready._caught_up()

    def _caught_up(self) -> Belief:
        """Shown the observations that it has not seen, with a note of how surprising they were."""
        posterior, fitted, surprise = self.posterior, self.fitted, self.surprise
        assert posterior is not None
        assert fitted is not None
        hyper = fitted.hyper
        for x, y, weight, variance, _ in self.told.since(self.included):
            y = float(fitted.scaling.to_model(y))
            if variance is not None:
                variance /= fitted.scaling.scale**2
            mu, sigma = posterior.predict(x[None, :])
            noise = hyper.lam2 * hyper.omega2 / weight if variance is None else variance
            expected = hyper.omega2 * float(sigma[0]) ** 2 + noise
            gap = y - float(mu[0])
            surprise += gap * gap / expected  # the square may be infinite, and then a fit is due
            posterior = posterior.add(x, y, weight, variance)
        return replace(self, posterior=posterior, included=len(self.told), surprise=surprise)

    def _scaled(self, scaling: Scaling, count: int) -> Data:
        """The first `count` results as the model sees them; its own standard errors stay as told.

        Each result is drawn in by itself, as those are which come after a fit.
        """
        seen = list(islice(self.told, count))
        if count == len(self.told) and not any(told.y < scaling.knee for told in seen):
            return self.data.standardised(scaling.shift, scaling.scale)
        drawn = scaling.bend([told.y for told in seen]).tolist()
        observations = ((t.x, y, t.weight, t.variance) for t, y in zip(seen, drawn, strict=True))
        data = Data.fold(len(self.columns), observations)
        return data.standardised(scaling.shift, scaling.scale)

    def _scaling(self) -> Scaling:
        """What gives the data unit spread; a zero-mean model must not be shifted."""
        if self.model.method == "fixed":
            return Scaling()
        y, centred = np.array([told.y for told in self.told]), self.model.mean != "zero"
        if self.model.tail == "linear":
            return Scaling.of(y, centred=centred)
        start = np.array([told.y for told in self.told if told.blind])
        best, rules = float(self.data.y.max()), self.defaults.tail
        return Scaling.with_knee(y, start, best, centred=centred, rules=rules)

    # -- the fit -----------------------------------------------------------------------------------

    def refit_if_due(self) -> Belief:
        """With a new fit, if one is due; otherwise itself, perhaps with its posterior caught up."""
        if self.fitted is None:
            return self._first_fit
        ready = self.current()
        counts = (self.fitted.at, len(self.told)), (self.fitted.points, len(self.data))
        due = refit_due(*counts, ready.surprise, self.model.growth, self.defaults.fit)
        if not due or self.model.method == "fixed":
            return ready
        return self._refitted()

    @cached_property
    def _first_fit(self) -> Belief:
        """Of what was told before any fit, for those who look and for the first decision alike."""
        return self._refitted().current()

    @property
    def _first_hyper(self) -> Hyper:
        """The hyper-parameters before any fit."""
        return self.model.start(self.columns, self.defaults.fit)

    def _refitted(self) -> Belief:
        scaling = self._scaling()
        before = self.fitted.hyper if self.fitted else self._first_hyper
        result = fit(self._scaled(scaling, len(self.told)), before, self.model, self.defaults.fit)
        hyper = result.hyper
        if result.ok and self.model.method == "map":
            hyper = widened(hyper, len(self.data), self.defaults.fit)
        return self.with_fit(
            {
                "theta": hyper.kernel.theta.tolist(),
                "lam2": hyper.lam2,
                "omega2": hyper.omega2,
                **scaling.to_json(),
                "at": len(self.told),
                "points": len(self.data),
                "ok": result.ok,
            }
        )

    def with_fit(self, source: dict[str, Any]) -> Belief:
        """From JSON, also right after the fit: a way through logarithms may change last bits."""
        lam2, omega2, scaling = source["lam2"], source["omega2"], Scaling.from_json(source)
        at, points = int(source["at"]), int(source["points"])
        positive = min(lam2, omega2, scaling.scale, scaling.width) > 0
        if not positive or not 0 < at <= len(self.told):
            raise StorageError(f"event 'asked': no fit of {len(self.told)} results: {source!r}")
        start = self._first_hyper
        if len(source["theta"]) != len(start.kernel.theta):
            raise StorageError(f"event 'asked': no fit of this model's kernel: {source!r}")
        hyper = replace(
            start,
            kernel=start.kernel.with_theta(np.array(source["theta"])),
            lam2=float(lam2),
            omega2=float(omega2),
        )
        ok = bool(source["ok"])
        fitted = Fitted(hyper, scaling, at, points, ok)
        return replace(self, fitted=fitted, source=source, posterior=None, included=0, surprise=0.0)
