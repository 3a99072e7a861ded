"""What the rest of a run will bring: the run is simulated on functions drawn from the posterior."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from regretless._internal.arrays import Array
from regretless._internal.blas import one_thread
from regretless._internal.plain import json_number, json_numbers
from regretless._internal.shown import shown
from regretless._internal.validate import check_amount, check_inside, is_iterable, whole
from regretless.engine import Direction, Optimizer
from regretless.errors import ConfigError
from regretless.ledger import today
from regretless.model import Belief, Mixture, Model, Posterior, priors_of
from regretless.policies import Policy
from regretless.space import Scalar, Space

# All draws of the hyper-parameters begin at the same fit.  A run goes on with its draws after each
# result, but a forecast has to forget the fit at once: with 5 steps, the 80 % band held the final
# gain in 64 % of 50 runs after 10 results.  There are more draws, so that simulations share few.
_ENSEMBLE: dict[str, Any] = {"first_steps": 30, "sizes": (4, 32), "work": 1600}

Progress = Callable[[int, int], object]  # is called with the draws that are done, and all of them


@dataclass(frozen=True, eq=False)
class Forecast:
    """What the rest of a run is expected to bring, from simulations.

    Attributes:
        reference: the point that gains are measured from.
        told: the number of trials whose gain is counted already.
        gain: for each simulation the total gain over the reference: what the trials so far have
            gained, and what they and the next 1, 2, … gain; of shape (draws, steps + 1).
        final: for each simulation the value of f at the best point in the end.
        changed: for each simulation whether that is another point than the best one now.

    Example:
        >>> import regretless as rl
        >>> from regretless.forecast import forecast
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=20)
        >>> for _ in range(8):
        ...     trial = optimizer.ask()
        ...     optimizer.tell(trial, -((trial.params["x"] - 0.3) ** 2))
        >>> ahead = forecast(optimizer, draws=4)
        >>> ahead.gain.shape
        (4, 13)
        >>> low, high = ahead.band()
        >>> low <= ahead.expected <= high
        True
    """

    reference: dict[str, Scalar]
    told: int
    gain: Array
    final: Array
    changed: NDArray[np.bool_]

    @property
    def draws(self) -> int:
        """The number of simulations."""
        return len(self.gain)

    @property
    def steps(self) -> int:
        """The number of trials that were simulated in each of them."""
        return int(self.gain.shape[1]) - 1

    @property
    def expected(self) -> float:
        """The total gain of the whole run over the reference: its mean."""
        return float(self.gain[:, -1].mean())

    def band(self, prob: float = 0.8) -> tuple[float, float]:
        """The interval that holds the total gain of the whole run with this probability.

        Raises:
            ConfigError: `prob` is not between 0 and 1.
        """
        low, high = self.curve(prob)
        return float(low[-1]), float(high[-1])

    def curve(self, prob: float = 0.8) -> tuple[Array, Array]:
        """The ends of the interval of the total gain, now and after each of the next trials.

        Args:
            prob: the probability of each interval, between 0 and 1.

        Raises:
            ConfigError: `prob` is not between 0 and 1.
        """
        check_inside("prob", prob, "a probability")
        ends = [0.5 - prob / 2, 0.5 + prob / 2]
        # Between two of n draws, the next one falls with probability 1 / (n + 1).
        low, high = np.quantile(self.gain, ends, axis=0, method="weibull")
        return low, high

    @property
    def change_prob(self) -> float:
        """The probability that the best point in the end is another one than now."""
        return float(self.changed.mean())

    @property
    def pays_after(self) -> int | None:
        """The number of trials, those so far included, after which the gain stays at 0 or above.

        It is the median of the simulations; None if half of them end below 0.
        """
        below = self.gain < 0
        last = self.steps - np.argmax(below[:, ::-1], axis=1)  # the last step that is below 0
        after = np.where(below.any(axis=1), last + 1.0, 0.0)
        after[below[:, -1]] = np.inf
        median = float(np.quantile(after, 0.5, method="higher"))
        return None if np.isinf(median) else self.told + int(median)

    def __str__(self) -> str:
        low, high = self.band()
        pays = self.pays_after
        when = "not within the budget" if pays is None else f"after {pays} trials"
        if pays is not None and pays <= self.told:
            when = "already"
        return (
            f"expected total gain: {self.expected:.4g} (80 %: {low:.4g} to {high:.4g});"
            f" exploration has paid for itself: {when};"
            f" the best point changes with probability {self.change_prob:.2g}"
            f" ({self.draws} simulations of {self.steps} trials)"
        )

    def to_json(self) -> dict[str, Any]:
        """The figures as JSON; None replaces a number that is not finite."""
        low, high = self.curve()
        finals = np.quantile(self.final, [0.1, 0.5, 0.9])
        return {
            "reference": dict(self.reference),
            "told": self.told,
            "draws": self.draws,
            "steps": self.steps,
            "expected": json_number(self.expected),
            "low": json_numbers(low),
            "mean": json_numbers(self.gain.mean(axis=0)),
            "high": json_numbers(high),
            "final": json_numbers(finals),
            "change_prob": json_number(self.change_prob),
            "pays_after": self.pays_after,
        }


@one_thread()
def forecast(
    optimizer: Optimizer,
    *,
    draws: int = 32,
    over: Mapping[str, Scalar] | None = None,
    progress: Progress | None = None,
) -> Forecast:
    """Simulate the rest of a run, with the policy itself, on functions drawn from the posterior.

    The functions are drawn under several sets of hyper-parameters (see `Model`, "ensemble"), so
    that the forecast is not surer than the data allow.

    Args:
        optimizer: the run; it is not changed.  Pending trials are told first.  If it has no end, as
            many trials are simulated as its horizon has.
        draws: the number of simulations.  One takes as long as the rest of the run would, if an
            evaluation took no time.
        over: the point that gains are measured from; None for that of `ledger.today`: the
            baseline, or else the setting observed before, or else the first point.
        progress: is called after each simulation, with the number that are done and with `draws`.

    Returns:
        The simulated gains, and what follows from them.

    Raises:
        ConfigError: `draws` is not a whole number of at least 2.
        NoResultsError: no result was told yet; see `plan`.
        SpaceError: `over` is not in the space.

    Example:
        >>> import regretless as rl
        >>> from regretless.forecast import forecast
        >>> optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), budget=12)
        >>> for trial in optimizer.ask(6):
        ...     optimizer.tell(trial, -((trial.params["x"] - 0.3) ** 2))
        >>> ahead = forecast(optimizer, draws=4)
        >>> low, high = ahead.band(0.8)
        >>> low <= high
        True
    """
    whole("draws", draws, least=2)
    if optimizer.contexts is not None:
        raise ConfigError(
            "forecast: not for a run with contexts, because the next contexts are not known"
        )
    situation = optimizer._situation()  # raises if nothing was told
    reference, x = _reference(optimizer, over)
    truth = _Truth(optimizer, x)
    best = optimizer.space.encode(optimizer.best().params)
    rng = np.random.default_rng([optimizer.seed, optimizer.asked, draws])
    told = [r.x for r in optimizer._records.trials if r.status == "told"]
    runs = []
    for done in range(draws):
        runs.append(truth.simulate(optimizer.copy(), told, best, rng))
        if progress is not None:
            progress(done + 1, draws)
    gains, finals, changed = zip(*runs, strict=True)
    return Forecast(
        reference=reference,
        told=len(told),
        gain=np.array(gains),
        final=situation.sign * np.array(finals),
        changed=np.array(changed),
    )


class _Truth:
    """Draws functions that may be the true one, and simulates runs on them.  Larger is better."""

    def __init__(self, optimizer: Optimizer, reference: Array) -> None:
        belief = _ensemble_of(optimizer)
        assert belief.posterior is not None
        assert belief.fitted is not None
        self.posterior: Posterior = belief.posterior
        self.scaling, self.noise = belief.fitted.scaling, belief.fitted.noise
        self.sign = optimizer.sign
        self.reference = reference[None, :]

    def simulate(
        self, twin: Optimizer, told: list[Array], best: Array, rng: Generator
    ) -> tuple[Array, float, bool]:
        """The running gain, f at the best point in the end, and whether that is a new point."""
        twin._is_simulated = True
        part = self._part(rng)
        path = part.sample_path(rng)

        def f(x: Array) -> Array:
            return self.scaling.to_user(path(x))

        zero = float(f(self.reference)[0])
        past = float((f(np.array(told)) - zero).sum()) if told else 0.0
        typical = part.noise_sd * self.scaling.scale

        def tell(trial: Any) -> float:
            x = twin._records.trials[trial.number].x[None, :]
            value, noise = float(f(x)[0]), typical
            if self.noise is not None:
                noise *= float(np.sqrt(self.noise.ratio(x, path(x)))[0])
            if trial.proposed:  # nobody knows what will be rejected
                twin.approve(trial)
            twin.tell(trial, self.sign * (value + noise * rng.standard_normal()))
            return value - zero

        gains = [past]
        for trial in (*twin.pending, *twin.proposed):
            gains.append(gains[-1] + tell(trial))
        for _ in range(twin.remaining):  # without an end, as far as the horizon
            gains.append(gains[-1] + tell(twin.ask()))
        last = twin.space.encode(twin.best().params)
        return np.array(gains), float(f(last[None, :])[0]), not np.array_equal(last, best)

    def _part(self, rng: Generator) -> Posterior:
        """One set of hyper-parameters, by its probability."""
        mixture = self.posterior
        if not isinstance(mixture, Mixture):
            return mixture
        return mixture.parts[int(rng.choice(len(mixture.parts), p=mixture.weights))]


def _ensemble_of(optimizer: Optimizer) -> Belief:
    """The belief of the optimiser, with several sets of hyper-parameters instead of one."""
    model, rules = optimizer.model, optimizer.defaults
    fit = rules.fit._replace(ensemble=rules.fit.ensemble._replace(**_ENSEMBLE))
    rules = rules._replace(fit=fit)
    if model.method in ("map", "ml"):
        honest = rules.loss.model.noise_prior
        model = replace(model, method="ensemble", noise_prior=honest)
    belief = Belief.empty(model, optimizer.space.columns, rules, optimizer.drift)
    for told in optimizer._belief.told:
        belief = belief.learn(told)
    for place in optimizer._belief.jumps:
        belief = belief.jumped(place)
    return belief.current()


def _reference(
    optimizer: Optimizer, over: Mapping[str, Scalar] | None
) -> tuple[dict[str, Scalar], Array]:
    """The point that gains are measured from, also encoded."""
    if over is not None:
        given = optimizer.space.validate(over)
        return given, optimizer.space.encode(given)
    found = today(optimizer)
    assert found is not None, "there are results"
    return found.params, found.x


@dataclass(frozen=True)
class Planned:
    """What a budget buys, before anything is told.

    Values are in units of the spread of f over the space: the sd of f at a random point.

    Attributes:
        budget: the number of evaluations.
        regret: the mean loss of an evaluation against the best point, over the whole run.
        final: the loss of the best point in the end against the best point.
        gain: the mean gain of an evaluation over a random point, over the whole run.

    Example:
        >>> Planned(budget=50, regret=0.4, final=0.05, gain=1.8).budget
        50
    """

    budget: int
    regret: float
    final: float
    gain: float

    def __str__(self) -> str:
        return (
            f"{self.budget} trials: a trial gains {self.gain:.2g} on average over a random point,"
            f" and loses {self.regret:.2g} against the best one; a trial at the final point loses"
            f" {self.final:.2g} (unit: the sd of f over the space)"
        )


@one_thread()
def plan(
    space: Space,
    budget: int | Iterable[int] = (50, 100, 200),
    *,
    noise: float = 0.3,
    draws: int = 8,
    policy: str | Policy = "ids",
    direction: Direction = "maximize",
    seed: int = 0,
    progress: Progress | None = None,
) -> list[Planned]:
    """What a budget buys, so that a person can choose one: whole runs on functions of the prior.

    Args:
        space: the search space.
        budget: one number of evaluations, or several.
        noise: the sd of the noise of an evaluation, in units of the sd of f over the space.
        draws: the number of functions.  Each budget is tried on the same ones.
        policy: the policy of the simulated runs; see `Optimizer`.
        direction: "maximize" or "minimize".
        seed: the seed of all random numbers.
        progress: is called after each simulated run, with the number that are done and of all.

    Returns:
        One entry for each budget, in the order given.

    Raises:
        ConfigError: an argument is not valid.

    Example:
        >>> import regretless as rl
        >>> from regretless.forecast import plan
        >>> space = rl.Space({"x": rl.Float(0.0, 1.0)})
        >>> small, large = plan(space, [6, 24], noise=0.1, draws=4)
        >>> large.regret < small.regret
        True
    """
    given: Iterable[object] = budget if is_iterable(budget) else [budget]
    budgets = [whole("budget", each, least=1) for each in given]
    if not budgets:
        raise ConfigError(f"budget: need at least one number, got {shown(budget)}")
    check_amount("noise", noise)
    whole("draws", draws, least=2)
    functions = [_drawn(space, np.random.default_rng([seed, draw])) for draw in range(draws)]
    out, done = [], 0
    for each in budgets:
        totals = np.zeros(3)
        for draw, (f, top) in enumerate(functions):
            options: dict[str, Any] = {"policy": policy, "direction": direction, "seed": seed}
            totals += _whole_run(Optimizer(space, each, **options), f, top, noise, draw)
            done += 1
            if progress is not None:
                progress(done, draws * len(budgets))
        regret, final, gain = (totals / draws).tolist()
        out.append(Planned(each, regret, final, gain))
    return out


def _drawn(space: Space, rng: Generator) -> tuple[Callable[[Array], Array], float]:
    """A function of the prior with mean 0 and sd 1 over the space, and its largest value."""
    rules = Optimizer(space, 1).defaults
    model = replace(Model.default(rules.model), method="map")
    kernel = model.start(space.columns, rules.fit).kernel
    priors = priors_of(kernel, model, rules.fit)
    count = len(kernel.theta)  # the last prior is that of the noise
    theta = priors.center[:count] + priors.spread[:count] * rng.standard_normal(count)
    basis = kernel.with_theta(np.clip(theta, *priors.bounds[:count].T)).features(rng, 1024)
    weights = rng.standard_normal(1024) / np.sqrt(1024)
    points = space.drawn(4096, rng)
    values = basis(points)[0] @ weights
    middle, size = float(values.mean()), max(float(values.std()), 1e-12)

    def f(x: Array) -> Array:
        return np.asarray((basis(x)[0] @ weights - middle) / size)

    return f, float((values.max() - middle) / size)


def _whole_run(
    optimizer: Optimizer, f: Callable[[Array], Array], top: float, noise: float, draw: int
) -> Array:
    """The mean regret, the regret of the best point in the end, and the mean gain."""
    rng = np.random.default_rng([optimizer.seed, draw, 1])
    values = []
    for trial in optimizer:
        values.append(float(f(optimizer.space.encode(trial.params)[None, :])[0]))
        optimizer.tell(trial, optimizer.sign * (values[-1] + noise * rng.standard_normal()))
    last = float(f(optimizer.space.encode(optimizer.best().params)[None, :])[0])
    mean, best = float(np.mean(values)), max(top, *values, last)
    return np.array([best - mean, best - last, mean])
