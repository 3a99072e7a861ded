"""The state of the model during a run: all observations, the current fit, and the posterior.

A `Belief` is frozen; its methods return a new one.  The posterior is built from the observations of
the last fit, and the later ones are then added one by one.  A replay of a study that has the stored
fits repeats these operations, so it gets the same bits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain, islice
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless.defaults import Defaults, FitRules
from regretless.errors import NoResultsError, StorageError
from regretless.model.data import Data, Entry
from regretless.model.drift import Drift, Fading, Timed, fitted_fading
from regretless.model.ensemble import draw_ensemble, hypers_of
from regretless.model.fit import all_alike, fit, is_surprising, refit_due, widened
from regretless.model.hyper import Hyper
from regretless.model.local import local_data
from regretless.model.mixture import Mixture
from regretless.model.model import Model
from regretless.model.noise import NoiseShape, Replicates, find_noise, weighed
from regretless.model.periods import Observation, Periods
from regretless.model.posterior import Posterior
from regretless.model.scaling import Scaling
from regretless.model.tables import data_of, effect_of
from regretless.space import Parameter

_BLOCK = 256
_FEW = 16  # observations that are added one by one; so few, or one in so many
_LARGEST_LOG = 700.0  # exp of a larger number overflows
_ENSEMBLE = 0x656E73  # a stream of random numbers of its own


class History:
    """A frozen list of observations.  A list with one more shares nearly all of its memory.

    A tuple would be copied for each observation, which is slow with thousands of replicates.
    """

    def __init__(
        self,
        blocks: tuple[tuple[Observation, ...], ...] = (),
        last: tuple[Observation, ...] = (),
        origin: object = None,
    ) -> None:
        self._blocks = blocks  # full blocks of _BLOCK observations
        self._last = last
        self._origin = origin or object()  # shared by histories of which one continues the other

    @classmethod
    def of(cls, told: list[Observation]) -> History:
        """A history of these observations."""
        full = max(0, len(told) - 1) // _BLOCK * _BLOCK
        blocks = (tuple(told[i : i + _BLOCK]) for i in range(0, full, _BLOCK))
        return cls(tuple(blocks), tuple(told[full:]))

    def plus(self, told: Observation) -> History:
        """A history with one more observation at its end."""
        if len(self._last) < _BLOCK:
            return History(self._blocks, (*self._last, told), self._origin)
        return History((*self._blocks, self._last), (told,), self._origin)

    def continues(self, earlier: History) -> bool:
        """Whether one of the two is the other with further observations at its end."""
        return self._origin is earlier._origin

    def since(self, start: int) -> Iterator[Observation]:
        """The observations without the first `start`."""
        skipped = min(start // _BLOCK, len(self._blocks))
        blocks = (*self._blocks[skipped:], self._last)
        return islice(chain.from_iterable(blocks), start - _BLOCK * skipped, None)

    def __iter__(self) -> Iterator[Observation]:
        return self.since(0)

    def __len__(self) -> int:
        return _BLOCK * len(self._blocks) + len(self._last)


@dataclass(frozen=True)
class Fitted:
    """The current hyper-parameters, the scaling of the outcomes, and the size of the data then."""

    hypers: tuple[Hyper, ...]  # one, or several draws that are equally likely
    scaling: Scaling
    at: int  # number of observations that they were fitted to
    points: int  # number of distinct points among these
    ok: bool = True  # False if the fit failed, so that earlier hyper-parameters were kept
    periods: Periods | None = None  # how results are corrected by their controls, if there are any
    noise: NoiseShape | None = None  # where results scatter more, if they do
    fading: Fading | None = None  # how fast results fade, if the system may change
    effect: float | None = None  # the variance of the effect of a table, see model/tables.py

    def corrected(self, told: Observation) -> Observation:
        """The result without the effect of its period, as far as a control tells it."""
        return told if self.periods is None else self.periods.corrected(told)

    def weighed(self, weight: float, x: Array, mu: float) -> float:
        """The weight of a result at x, where the posterior mean is mu."""
        if self.noise is None:
            return weight
        return weight / float(self.noise.ratio(x[None, :], np.array([mu]))[0])

    @property
    def hyper(self) -> Hyper:
        """The hyper-parameters; of several draws, the middle of the kernel's parameters."""
        first = self.hypers[0]
        if len(self.hypers) == 1:
            return first
        middle = np.median([hyper.kernel.theta for hyper in self.hypers], axis=0)
        return replace(first, kernel=first.kernel.with_theta(middle))


@dataclass(frozen=True, eq=False)
class Belief:
    """The state of the model: use `posterior` and `fitted` of `current()` to decide."""

    model: Model
    columns: tuple[Parameter, ...]
    defaults: Defaults
    folded: Data  # the first observations, or all of them, with one row for each distinct point
    told: History = field(default_factory=History)  # the observations, in their order
    luckiest: float = -math.inf  # the best single observation
    fitted: Fitted | None = None
    source: dict[str, Any] | None = None  # the JSON that `fitted` was made from
    posterior: Posterior | None = None
    included: int = 0  # number of observations that `posterior` includes
    surprise: float = 0.0  # sum of squared prediction errors since the fit, see `fit.refit_due`
    # Levels that the outcome is compared with.  Before data say otherwise, it is expected to vary
    # as much as they are away.
    levels: tuple[float, ...] = ()
    controls: int = 0  # number of observations with a control
    in_tables: int = 0  # number of observations that were measured side by side
    drift: Drift | None = None  # None: the system stays the same
    jumps: tuple[int, ...] = ()  # the place of the first observation after each jump

    @classmethod
    def empty(
        cls,
        model: Model,
        columns: tuple[Parameter, ...],
        defaults: Defaults,
        drift: Drift | None = None,
    ) -> Belief:
        """The state before any observation."""
        return cls(model, columns, defaults, Data.empty(len(columns)), drift=drift)

    def learn(self, told: Observation) -> Belief:
        """The state with one more observation; `current` adds it to the posterior."""
        luckiest = max(self.luckiest, told.y)
        return self._changed(
            folded=self._so_far,
            told=self.told.plus(told),
            luckiest=luckiest,
            controls=self.controls + (told.control is not None),
            in_tables=self.in_tables + (told.period is not None),
        )

    @cached_property
    def data(self) -> Data:
        """The observations, with one row for each distinct point.

        Who learns thousands of results, as a replay does, needs them once, at the end.
        """
        done, every = self.folded.observations, len(self.told)
        if every - done > max(_FEW, every // _FEW):
            return Data.fold(len(self.columns), (told[:4] for told in self.told))
        data = self.folded
        for told in self.told.since(done):
            data, _ = data.add(*told[:4])
        return data

    @property
    def _so_far(self) -> Data:
        """The observations that have been put together already."""
        data: Data = vars(self).get("data", self.folded)
        return data

    def _changed(self, *, folded: Data | None = None, **fields: Any) -> Belief:
        """The state with other fields.  `replace` takes several times as long.

        Whatever follows from this state puts no observations together again, if `folded` is None.
        """
        mine, new = vars(self), object.__new__(Belief)
        vars(new).update({name: mine[name] for name in _FIELDS})
        vars(new).update(fields, folded=self.data if folded is None else folded)
        return new

    def beside(self, posterior: Posterior | None) -> Belief:
        """The state with another posterior, for a decision that is made beside others."""
        return self._changed(posterior=posterior)

    def with_model(self, model: Model) -> Belief:
        """The state with another model; the next look at it fits the model anew."""
        return self._changed(
            model=model, fitted=None, source=None, posterior=None, included=0, surprise=0.0
        )

    def relearnt(self, changed: Mapping[int, Observation]) -> Belief:
        """The state in which the observations at these places are others.

        The fit stays.  The posterior is built anew by the steps that a replay takes.
        """
        told = list(self.told)
        new = {place: each for place, each in changed.items() if told[place][1:] != each[1:]}
        if not new:
            return self
        for place, each in new.items():
            told[place] = each
        return replace(
            self,
            folded=Data.fold(len(self.columns), (each[:4] for each in told)),
            told=History.of(told),
            luckiest=max(each.y for each in told),
            controls=sum(each.control is not None for each in told),
            in_tables=sum(each.period is not None for each in told),
            posterior=None,
            included=0,
            surprise=0.0,
        )

    @property
    def best_observation(self) -> float:
        """The best single observation, without the effect of its period."""
        if self.fitted is None or self.fitted.periods is None:
            return self.luckiest
        return max(self.fitted.corrected(told).y for told in self.told)

    def carried(self, columns: tuple[Parameter, ...], carry: Callable[[Array], Array]) -> Belief:
        """The state after a change of the space; the next look at it fits the model anew.

        Args:
            columns: the parameters of the new space.
            carry: turns points of the old space into points of the new one.
        """
        belief = Belief.empty(self.model, columns, self.defaults, self.drift)
        belief = replace(belief, levels=self.levels, jumps=self.jumps)
        told = list(self.told)
        if not told:
            return belief
        points = carry(np.array([each.x for each in told]))
        for each, x in zip(told, points, strict=True):
            control = each.control
            if control is not None and control.of is not None:
                of = carry(np.array([control.of]))[0]
                control = control._replace(of=tuple(of.tolist()))
            belief = belief.learn(each._replace(x=x, control=control))
        return belief

    def times_told(self, x: Array) -> int:
        """The number of observations at x; controls count as such at their baseline.

        If x has only the first columns, those of a setting, the others may have any value.
        """
        times = int(self.data.count[(self.data.x[:, : len(x)] == x).all(axis=1)].sum())
        if self.controls:
            here = tuple(x.tolist())
            times += sum(t.control is not None and t.control.of == here for t in self.told)
        return times

    def sample_mean(self, x: Array) -> float:
        """The mean of the observations at x, each weighted by the inverse of its noise variance.

        If x has only the first columns, those of a setting, the others may have any value.

        The noise variance is the told standard error squared, or the fitted one.  Where results
        have controls, it is the mean without the effects of their periods.
        """
        assert self.fitted is not None  # callers use `current()`
        assert self.posterior is not None
        data = self.data
        if self.fitted.periods is not None:
            data = self._corrected_data(self.fitted.periods, len(self.told))
        noise = (self.posterior.noise_sd * self.fitted.scaling.scale) ** 2
        here = (data.x[:, : len(x)] == x).all(axis=1)
        known, weights = data.known[here], data.weight[here]
        weights[~known] /= noise
        return float(np.average(data.y[here], weights=weights / weights.max()))

    # -- the posterior -----------------------------------------------------------------------------

    def current(self) -> Belief:
        """The state with a posterior that includes all observations.

        Raises:
            NoResultsError: nothing was told yet.
        """
        if not self.told:
            raise NoResultsError("no result was told yet; call tell() or observe() first")
        if self.fitted is None:
            return self._first_fit
        ready = self
        if self._moves(self.fitted.fading) or self.in_tables:
            return self if self.included == len(self.told) else self._as_of_now()
        if self.posterior is None:
            at = self.fitted.at
            posterior = self._posterior(self._fitted_data(at), self.fitted.hypers)
            ready = self._changed(posterior=posterior, included=at)
        return ready if ready.included == len(self.told) else ready._caught_up()

    @property
    def keep(self) -> float:
        """The share of a gain that one more evaluation leaves, because the system changes."""
        fading = None if self.fitted is None else self.fitted.fading
        return 1.0 if fading is None else fading.rho

    @property
    def is_local(self) -> bool:
        """Whether the posterior leaves points out, because there are very many."""
        fitted, exact = self.fitted, self.defaults.fit.local.exact
        if fitted is None or fitted.points <= exact or self.in_tables:
            return False
        return not self._moves(fitted.fading)

    def _moves(self, fading: Fading | None) -> bool:
        """Whether results fade, so that the posterior is built anew for each time."""
        return bool(self.jumps) or (fading is not None and not fading.is_still)

    def jumped(self, place: int) -> Belief:
        """The state if the system has changed before the observation at this place."""
        jumps = tuple(sorted({*self.jumps, place}))
        return self._changed(jumps=jumps, posterior=None, included=0)

    def _as_of_now(self) -> Belief:
        """The state with the posterior of f now.  It is not updated: all results are older now."""
        assert self.fitted is not None
        data = self._scaled(self.fitted.scaling, len(self.told), self.fitted.periods)
        each = (self.model.posterior(data, hyper) for hyper in self.fitted.hypers)
        return self._changed(posterior=Mixture.of(each), included=len(self.told))

    def _timed(self, scaling: Scaling, count: int, periods: Periods | None) -> Timed:
        """The last observations in the units of the model, with their times."""
        start = max(0, count - self.defaults.drift.results)
        seen = list(islice(self.told.since(start), count - start))
        times = np.arange(start, count, dtype=float)
        if periods is not None:
            anchors = list(periods.anchors())
            seen = [*map(periods.corrected, seen), *anchors]
            times = np.append(times, np.full(len(anchors), float(count - 1)))
        bent = ((scaling.bend([told.y for told in seen]) - scaling.shift) / scaling.scale).tolist()
        size = scaling.scale**2
        entries = [
            (t.x, y, t.weight, None if t.variance is None else t.variance / size)
            for t, y in zip(seen, bent, strict=True)
        ]
        return Timed(entries, times, float(count), self.jumps)

    def _faded(
        self, scaling: Scaling, count: int, periods: Periods | None, fading: Fading | None
    ) -> Data:
        """The first `count` observations, as data of f at the time after them."""
        rules, jumps = self.defaults.drift, self.jumps
        keeps = () if fading is None else fading.keeps
        keeps = (*keeps, *(rules.first_keep for _ in jumps))[: len(jumps)]
        now = (fading or Fading())._replace(keeps=keeps)
        return self._timed(scaling, count, periods).data(len(self.columns), now, rules)

    def doubting(self, sd: float) -> Posterior:
        """The posterior if the sd of the signal, in the user's units, is at least `sd`.

        The noise stays the same.  It is the posterior itself if its signal is as large already.
        """
        assert self.posterior is not None
        assert self.fitted is not None
        least = (sd / self.fitted.scaling.scale) ** 2
        each = self.fitted.hypers
        if all(hyper.omega2 >= least for hyper in each):
            return self.posterior
        wide = [max(hyper.omega2, least) for hyper in each]
        data = self._near(self._fitted_data(len(self.told), periods=False), each)
        parts = tuple(
            self.model.posterior(
                data, replace(hyper, omega2=omega2, lam2=hyper.lam2 * hyper.omega2 / omega2)
            )
            for hyper, omega2 in zip(each, wide, strict=True)
        )
        if not isinstance(self.posterior, Mixture):
            return parts[0]
        return cast(Posterior, Mixture(parts, self.posterior.log_weights))

    def with_posterior_of(self, earlier: Belief) -> Belief:
        """This state with the posterior of an earlier one, which then need not be built again.

        Nothing changes if the two have different fits, or if it would save nothing.  The posterior
        is the same to the last bit, because it is built by the same steps in any case.
        """
        has_more = self.posterior is not None and self.included >= earlier.included
        if earlier.posterior is None or earlier.fitted is not self.fitted or has_more:
            return self
        # Since then, reported results may have changed observations that it has learnt.
        if earlier.jumps != self.jumps or not self.told.continues(earlier.told):
            return self
        return self._changed(
            posterior=earlier.posterior,
            included=earlier.included,
            surprise=earlier.surprise,
        )

    def _caught_up(self) -> Belief:
        """Add the missing observations to the posterior, and their errors to `surprise`."""
        posterior, fitted, surprise = self.posterior, self.fitted, self.surprise
        assert posterior is not None
        assert fitted is not None
        for told in self.told.since(self.included):
            x, y, weight, variance, *_ = fitted.corrected(told)
            y = float(fitted.scaling.to_model(y))
            if variance is not None:
                variance /= fitted.scaling.scale**2
            mu, sigma = posterior.predict(x[None, :])
            weight = fitted.weighed(weight, x, float(mu[0]))
            noise = posterior.noise_sd**2 / weight if variance is None else variance
            expected = posterior.omega2 * float(sigma[0]) ** 2 + noise
            gap = y - float(mu[0])
            surprise += gap * gap / expected  # may become infinite, and a fit is then due
            posterior = posterior.add(x, y, weight, variance)
        return self._changed(posterior=posterior, included=len(self.told), surprise=surprise)

    def _seen(self, periods: Periods | None, count: int) -> list[Observation]:
        """The first `count` observations.

        With controls, they are corrected, and what the controls tell about the baseline follows.
        """
        seen = list(islice(self.told, count))
        if periods is None:
            return seen
        return [*map(periods.corrected, seen), *periods.anchors()]

    def _corrected_data(self, periods: Periods, count: int) -> Data:
        return Data.fold(len(self.columns), (t[:4] for t in self._seen(periods, count)))

    def _scaled(self, scaling: Scaling, count: int, periods: Periods | None = None) -> Data:
        """The first `count` observations in the units of the model.

        Disasters are scaled one by one, before replicates are averaged, as those after a fit are.
        Their standard errors are not scaled by the logarithm.
        """
        fading = None if self.fitted is None else self.fitted.fading
        if self._moves(fading):
            return self._faded(scaling, count, periods, fading)
        if self.in_tables:
            return self._of_tables(scaling, count)
        seen = self._seen(periods, count)
        plain = periods is None and count == len(self.told)
        if plain and not any(told.y < scaling.knee for told in seen):
            return self.data.standardised(scaling.shift, scaling.scale)
        drawn = scaling.bend([told.y for told in seen]).tolist()
        observations = ((t.x, y, t.weight, t.variance) for t, y in zip(seen, drawn, strict=True))
        data = Data.fold(len(self.columns), observations)
        return data.standardised(scaling.shift, scaling.scale)

    def _of_tables(self, scaling: Scaling, count: int, effect: float | None = None) -> Data:
        """The first `count` observations, some of which were measured side by side."""
        if effect is None:
            assert self.fitted is not None
            effect = self.fitted.effect
        if effect is None:  # the fit is older than the first table
            effect = effect_of(list(self.told), self.defaults.periods)
        seen = list(islice(self.told, count))
        y = scaling.to_model([told.y for told in seen]).tolist()
        square = scaling.scale**2
        scaled = [
            t._replace(y=value, variance=None if t.variance is None else t.variance / square)
            for t, value in zip(seen, y, strict=True)
        ]
        return data_of(len(self.columns), scaled, effect / square)

    def _posterior(self, data: Data, hypers: tuple[Hyper, ...]) -> Posterior:
        near = self._near(data, hypers)
        return Mixture.of(self.model.posterior(near, hyper) for hyper in hypers)

    def _near(self, data: Data, hypers: tuple[Hyper, ...]) -> Data:
        """The observations that a posterior is made of: not all, if there are very many."""
        return local_data(data, _middle(hypers), self.model, self.defaults.fit.local)

    def _fitted_data(self, count: int, periods: bool = True) -> Data:
        """The first `count` observations as the fit sees them, in the units of the model."""
        assert self.fitted is not None
        fitted = self.fitted
        data = self._scaled(fitted.scaling, count, fitted.periods if periods else None)
        if fitted.noise is None:
            return data
        seen = self._in_model_units(fitted.scaling, count, fitted.periods if periods else None)
        mu = self._levels(data, fitted.hypers, fitted.noise.level)
        return weighed(data, seen, fitted.noise, mu)

    def _in_model_units(self, scaling: Scaling, count: int, periods: Periods | None) -> list[Entry]:
        """The first `count` observations, one by one, in the units of the model."""
        seen = self._seen(periods, count)
        y = scaling.to_model([told.y for told in seen]).tolist()
        square = scaling.scale**2
        return [
            (t.x, value, t.weight, None if t.variance is None else t.variance / square)
            for t, value in zip(seen, y, strict=True)
        ]

    def _levels(self, data: Data, hypers: tuple[Hyper, ...], slope: float = 1.0) -> Array:
        """The posterior mean at the rows of the data if the noise is the same everywhere.

        It is not needed, and 0, if the slope by which it counts is 0.
        """
        if not slope:
            return np.zeros(len(data))
        posterior = self._posterior(data, hypers)
        every = len(posterior.points) == len(data)
        return posterior.at_data[0] if every else posterior.predict(data.x)[0]

    def _scaling(self, periods: Periods | None) -> Scaling:
        """The scaling that gives the observations unit spread, without a shift for a zero mean."""
        if self.model.method == "fixed":
            return Scaling()
        told, data = self._seen(periods, len(self.told)), self.data
        if self.drift is not None and len(told) > self.defaults.drift.window:
            return self._scaling_of_now(told)
        if periods is not None:
            data = self._corrected_data(periods, len(self.told))
        y, centred = np.array([each.y for each in told]), self.model.mean != "zero"
        if self.model.tail == "linear":
            return Scaling.of(y, centred=centred)
        best, rules = float(data.y.max()), self.defaults.tail
        if rules.first_results is None:
            start = np.array([each.y for each in told if each.blind])
        else:
            start = y[: rules.first_results]
        return Scaling.with_knee(y, start, best, centred=centred, rules=rules)

    def _scaling_of_now(self, told: list[Observation]) -> Scaling:
        """The scaling of the last observations, in a system that may change."""
        y = np.array([each.y for each in told[-self.defaults.drift.window :]])
        return Scaling.of(y, centred=self.model.mean != "zero")

    # -- the fit -----------------------------------------------------------------------------------

    def refit_if_due(self) -> Belief:
        """The state with a new fit if one is due; otherwise `current()`."""
        if self.fitted is None:
            return self._first_fit
        ready = self.current()
        counts = (self.fitted.at, len(self.told)), (self.fitted.points, len(self.data))
        due = refit_due(*counts, ready.surprise, self.model.growth, self.defaults.fit)
        if self.drift is not None and not due:
            fading, new = self.fitted.fading, len(self.told) - self.fitted.at
            unseen = fading is None or len(fading.keeps) < len(self.jumps)
            due = unseen or new >= self.defaults.drift.refit_every
            due = due or (bool(self.jumps) and len(self.told) - self.jumps[-1] < 20 and new > 0)
        if not due or (self.model.method == "fixed" and not self.controls):
            return ready
        return ready._refitted()

    @cached_property
    def _first_fit(self) -> Belief:
        """The state with the first fit.  Cached: `current` and `refit_if_due` use the same one."""
        return self._refitted().current()

    @property
    def _first_hyper(self) -> Hyper:
        """The hyper-parameters before any fit."""
        return self.model.start(self.columns, self.defaults.fit)

    def _refitted(self) -> Belief:
        periods = self._periods() if self.controls else None
        scaling = self._scaling(periods).reaching(self.levels)
        effect = effect_of(list(self.told), self.defaults.periods) if self.in_tables else None
        fading = None if self.drift is None else self._fitted_fading(self.drift, scaling, periods)
        if self._moves(fading):
            data = self._faded(scaling, len(self.told), periods, fading)
        else:
            still = self._changed(fitted=None)  # whatever the last fit said about drift
            if effect is None:
                data = still._scaled(scaling, len(self.told), periods)
            else:
                data = still._of_tables(scaling, len(self.told), effect)
        ensemble = self.model.method == "ensemble"
        noise = self._known_noise(data, scaling.scale, periods)
        auto = self.model.noise == "auto" and self.model.method != "fixed"
        seen = self._in_model_units(scaling, len(self.told), periods) if auto else []
        shaped = self._as_before(data, seen)
        found = self._drawn(shaped, scaling.scale, noise) if ensemble else self._fit(shaped, noise)
        if auto and len(self.told) >= self.defaults.noise.least_results and found["ok"]:
            found = self._with_noise(found, data, seen, noise is not None)
        counts = {"at": len(self.told), "points": len(self.data)}
        effects = {} if periods is None else {"periods": periods.to_json()}
        if fading is not None:
            effects["drift"] = fading.to_json()
        if effect is not None:
            effects["tables"] = {"effect": effect}
        return self.with_fit(found | scaling.to_json() | counts | effects)

    def _as_before(self, data: Data, seen: list[Entry]) -> Data:
        """The data with the weights that the noise of the last fit gives them."""
        if self.fitted is None or self.fitted.noise is None:
            return data
        noise = self.fitted.noise
        return weighed(data, seen, noise, self._levels(data, self.fitted.hypers, noise.level))

    def _with_noise(
        self, found: dict[str, Any], data: Data, seen: list[Entry], known: bool
    ) -> dict[str, Any]:
        """The fit, with how the noise differs from place to place."""
        hypers = self._hypers(found)
        mu = self._levels(data, hypers)
        replicates = Replicates.of(data, seen)
        new = find_noise(data, replicates, _middle(hypers), mu, self.columns, self.defaults.noise)
        found = found | {"noise": new.shape.to_json() | {"probability": new.probability}}
        if known:  # the typical noise is told
            return found
        if "ensemble" in found:
            drawn = [
                [*rest, log_noise + new.log_typical, log_signal]
                for *rest, log_noise, log_signal in found["ensemble"]
            ]
            return found | {"ensemble": drawn}
        return found | {"lam2": found["lam2"] * math.exp(new.log_typical)}

    def _fitted_fading(self, drift: Drift, scaling: Scaling, periods: Periods | None) -> Fading:
        """How fast results fade, with the other hyper-parameters of the last fit."""
        rules, count, dim = self.defaults.drift, len(self.told), len(self.columns)
        timed = self._timed(scaling, count, periods)
        before = Fading() if drift.half_life is None else Fading(drift.half_life)
        if self.fitted is not None and self.fitted.fading is not None:
            before, hyper = self.fitted.fading, self.fitted.hyper
        else:
            hyper = self._first_hyper
        if count < rules.least_results:
            return before
        return fitted_fading(timed, dim, hyper, drift, before, rules)

    def _periods(self) -> Periods | None:
        """How results are corrected by their controls, with the noise of the last fit."""
        told, rules = list(self.told), self.defaults.periods
        if self.model.method == "fixed":
            hyper = self._first_hyper
            return Periods.of(told, hyper.lam2 * hyper.omega2, rules, fixed=True)
        known = [each.variance * each.weight for each in told if each.variance is not None]
        if known:
            return Periods.of(told, float(np.median(known)), rules)
        if self.fitted is None or self.posterior is None:
            hyper, y = self._first_hyper, np.array([each.y for each in told])
            noise = hyper.lam2 * hyper.omega2 * Scaling.of(y, centred=True).scale ** 2
        else:
            noise = (self.posterior.noise_sd * self.fitted.scaling.scale) ** 2
        before = None if self.fitted is None else self.fitted.periods
        if before is None:
            return Periods.of(told, rules.first_noise * noise, rules)
        return Periods.of(told, max(noise - before.usual, rules.least_noise * noise), rules)

    def _known_noise(self, data: Data, scale: float, periods: Periods | None) -> float | None:
        """The variance of the noise of one evaluation, in the units of the model, if it is known.

        The likelihood says nothing about it then.
        """
        if not self.defaults.fit.known_noise or self.model.method == "fixed":
            return None
        given = self.model.noise_sd
        if given is not None and periods is not None:
            given = math.sqrt(given**2 + periods.usual)
        return data.typical_variance if given is None else (given / scale) ** 2

    def _fit(self, data: Data, noise: float | None) -> dict[str, Any]:
        """The best hyper-parameters, as JSON."""
        before = self.fitted.hyper if self.fitted else self._first_hyper
        result = fit(data, before, self.model, self.defaults.fit, first=self.fitted is None)
        hyper = result.hyper
        if result.ok and self.model.method == "map":
            hyper = widened(hyper, len(self.data), self.defaults.fit)
        if noise is not None:
            hyper = replace(hyper, lam2=noise / hyper.omega2)
        theta = hyper.kernel.theta.tolist()
        return {"theta": theta, "lam2": hyper.lam2, "omega2": hyper.omega2, "ok": result.ok}

    def _drawn(self, data: Data, scale: float, noise: float | None) -> dict[str, Any]:
        """Draws of hyper-parameters, as JSON.

        The random numbers depend on the number of observations only, so that whoever draws first,
        an ask or a look at `best()`, gets the same.
        """
        start, rules = self._first_hyper, self.defaults.fit
        rng = np.random.default_rng([_ENSEMBLE, len(self.told)])
        weights = self.posterior.weights if isinstance(self.posterior, Mixture) else None
        before, surprised = self._last_draws(scale)
        model = self.model
        if rules.ensemble.least_extent < 1.0 and not all_alike(data):
            model, rules = _for_whole_space(model, rules, data.x, self._ordered)
        drawn = draw_ensemble(data, start, model, rules, rng, before, weights, surprised, noise)
        return {"ensemble": drawn, "ok": not all_alike(data)}

    @cached_property
    def _ordered(self) -> NDArray[np.bool_]:
        return np.array([column.has_order for column in self.columns])

    def _last_draws(self, scale: float) -> tuple[list[list[float]], bool]:
        """The last draws, in the units of the new scale; and whether results were a surprise.

        None as long as all results were alike: there was no scale, and nothing to learn.
        """
        if self.fitted is None or self.source is None or not self.fitted.ok:
            return [], False
        new = len(self.told) - self.fitted.at
        change = 2.0 * math.log(self.fitted.scaling.scale / scale)
        draws = [[*rest, log_signal + change] for *rest, log_signal in self.source["ensemble"]]
        return draws, is_surprising(self.surprise, new, self.defaults.fit)

    def with_fit(self, source: dict[str, Any]) -> Belief:
        """The state with the fit that is described by this JSON.

        A new fit takes this way too: exp(log(h)) may change the last bits of h, and a replay has to
        get the same bits.

        Raises:
            StorageError: the JSON does not fit the observations or the kernel.
        """
        scaling = Scaling.from_json(source)
        at, points = int(source["at"]), int(source["points"])
        hypers = self._hypers(source)
        numbers = [scaling.scale, scaling.width]
        numbers += [number for hyper in hypers for number in (hyper.lam2, hyper.omega2)]
        positive = all(number > 0.0 for number in numbers)  # NaN is not
        if not (hypers and positive and 0 < at <= len(self.told)):
            raise StorageError(
                f"event 'asked': invalid fit for {len(self.told)} results: {source!r:.200}"
            )
        periods = Periods.from_json(source["periods"]) if "periods" in source else None
        noise = NoiseShape.from_json(source["noise"], self.columns) if "noise" in source else None
        fading = Fading.from_json(source["drift"]) if "drift" in source else None
        effect = float(source["tables"]["effect"]) if "tables" in source else None
        fitted = Fitted(
            hypers, scaling, at, points, bool(source["ok"]), periods, noise, fading, effect
        )
        return self._changed(
            folded=self._so_far,
            fitted=fitted,
            source=source,
            posterior=None,
            included=0,
            surprise=0.0,
        )

    def _hypers(self, source: dict[str, Any]) -> tuple[Hyper, ...]:
        """The hyper-parameters of a fit, or of several draws."""
        start, drawn = self._first_hyper, source.get("ensemble")
        if (drawn is not None) != (self.model.method == "ensemble"):
            raise StorageError(f"event 'asked': fit of another method: {source!r:.200}")
        vectors = [source["theta"]] if drawn is None else drawn
        beside = 0 if drawn is None else 2  # a draw also has its noise and its signal
        size = len(start.kernel.theta) + beside
        if any(len(vector) != size for vector in vectors):
            raise StorageError(
                f"event 'asked': fit of another kernel than the model's: {source!r:.200}"
            )
        if not all(abs(number) < _LARGEST_LOG for vector in vectors for number in vector):
            raise StorageError(f"event 'asked': invalid fit: {source!r:.200}")
        if drawn is not None:
            return hypers_of(start, drawn)
        kernel = start.kernel.with_theta(np.array(source["theta"]))
        lam2, omega2 = float(source["lam2"]), float(source["omega2"])
        return (replace(start, kernel=kernel, lam2=lam2, omega2=omega2),)


_FIELDS = tuple(Belief.__dataclass_fields__)


def _for_whole_space(
    model: Model, rules: FitRules, x: Array, ordered: NDArray[np.bool_]
) -> tuple[Model, FitRules]:
    """Priors of the signal and the noise if the visited points are in a small part of the space.

    Values have unit spread over the visited points.  If these extend over a share e of each range,
    a line through them has the spread 1/e over the whole space.  So log omega^2 is expected to be
    larger by -2 log e.  The noise, log lam^2 + log omega^2, is expected to be the same.
    """
    extents = np.ptp(x, axis=0)[ordered] if ordered.any() else np.ones(1)
    extent = math.exp(float(np.log(np.maximum(extents, rules.ensemble.least_extent)).mean()))
    more = -2.0 * math.log(extent)
    center, spread = rules.ensemble.log_signal
    ensemble = rules.ensemble._replace(log_signal=(center + more, spread))
    noise, factor = model.noise_prior
    return replace(model, noise_prior=(noise - more, factor)), rules._replace(ensemble=ensemble)


def _middle(hypers: tuple[Hyper, ...]) -> Hyper:
    """The middle of all hyper-parameters."""
    first = hypers[0]
    if len(hypers) == 1:
        return first
    theta = np.median([hyper.kernel.theta for hyper in hypers], axis=0)
    lam2, omega2 = np.median([(hyper.lam2, hyper.omega2) for hyper in hypers], axis=0)
    return replace(
        first, kernel=first.kernel.with_theta(theta), lam2=float(lam2), omega2=float(omega2)
    )
