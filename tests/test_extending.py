"""One of each from outside: what a user adds is one class, and nothing of the library is changed.

docs/architecture.md sends readers here: a policy, a kernel, a kind of parameter, a constraint, a
model and a front end.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import product
from math import log
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.random import Generator
from numpy.typing import NDArray

import regretless as rl
from oracles import slopes
from regretless.defaults import PriorRules, defaults_of
from regretless.engine.records import NOWHERE
from regretless.errors import SpaceError
from regretless.kernels import Features, Kernel, Lifted, Prior, Pullback
from regretless.model import GP, Data, Hyper, Mixture, Posterior
from regretless.policies import Constraint, PolicyInput, PosteriorScore, Predicted, Score
from regretless.search import Slice
from regretless.space import Parameter
from regretless.space.scales import Levels, Line, Ranks

Array = NDArray[np.float64]

PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})


def run(optimizer: rl.Optimizer, steps: int, best: float = 0.3) -> list[dict[str, Any]]:
    """A hill over the encoded point."""
    for _ in range(steps):
        trial = optimizer.ask()
        u = optimizer.space.encode(trial.params)
        optimizer.tell(trial, float(-((u - best) ** 2).sum()))
    return [trial.params for trial in optimizer.trials]


# --- a policy -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Greedy(rl.Policy):
    """The best posterior mean."""

    name: ClassVar[str] = "greedy"

    def score(self, inputs: PolicyInput) -> Score:
        return PosteriorScore(
            inputs.posterior,
            inputs.posterior.omega,
            lambda mu, s: (mu, np.ones_like(mu), np.zeros_like(s)),
        )


def test_a_policy() -> None:
    optimizer = rl.Optimizer(PLANE, 20, policy=Greedy())
    run(optimizer, 12)
    again = rl.Optimizer.from_json(optimizer.to_json(), policy=Greedy())
    assert again.ask() == optimizer.ask()
    assert optimizer.trials[-1].decision.policy == "greedy"


def test_a_policy_that_says_nothing_is_refused_when_it_is_written() -> None:
    with pytest.raises(TypeError, match="Silent: a policy needs a method `score`, or `shortcut`"):

        class Silent(rl.Policy):
            name: ClassVar[str] = "silent"


def test_a_policy_with_a_name_of_the_library_can_t_be_stored(tmp_path: Path) -> None:
    """The library's would be made in its place, without a word."""

    @dataclass(frozen=True)
    class Mine(rl.Policy):
        name: ClassVar[str] = "random"

        def shortcut(self, inputs: PolicyInput) -> Array:
            return inputs.incumbent.x

    optimizer = rl.Optimizer(PLANE, 9, policy=Mine())
    run(optimizer, 8)
    message = "policy: 'random' is the name of Random here: give Mine a name of its own"
    with pytest.raises(rl.ConfigError, match=message):
        optimizer.to_json()
    with pytest.raises(rl.ConfigError, match=message):
        rl.Study.open(tmp_path / "s.sqlite", "s", space=PLANE, budget=9, policy=Mine())
    with pytest.raises(rl.RegretlessError, match="there is no study 's'"):
        rl.Study.open(tmp_path / "s.sqlite", "s")


# --- a kernel -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Periodic(Kernel, json="test-periodic"):
    """exp(-2 sin^2(pi (x - x')) / h^2) over one column: the ends of the range meet."""

    length: float = 0.5
    column: int = 0

    @property
    def theta(self) -> Array:
        return np.log([self.length])

    def with_theta(self, theta: Array) -> Periodic:
        return Periodic(float(np.exp(theta[0])), self.column)

    def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
        return (Prior(0.05, 20.0, log(0.5), 1.0),)

    def gram(self, x: Array, z: Array | None = None) -> Array:
        return np.asarray(np.exp(-self._distance(x, x if z is None else z) / self.length**2))

    def gram_vjp(self, x: Array) -> tuple[Array, Pullback]:
        k = self.gram(x)
        rise = 2.0 * k * self._distance(x, x) / self.length**2
        return k, lambda weights: np.array([float(np.vdot(weights, rise))])

    def cross_vjp(self, x: Array, z: Array) -> tuple[Array, Pullback]:
        k = self.gram(x, z)
        angle = np.pi * np.subtract.outer(x[:, self.column], z[:, self.column])
        slope = -k * 2.0 * np.pi * np.sin(2.0 * angle) / self.length**2

        def pull(weights: Array) -> Array:
            out = np.zeros_like(x)
            out[:, self.column] = (weights * slope).sum(axis=1)
            return out

        return k, pull

    def features(self, rng: Generator, count: int) -> Features:
        """Waves that fit a whole number of times, weighted by draws from the kernel's spectrum."""
        grid = np.linspace(0.0, 1.0, 256, endpoint=False)[:, None]
        power = np.maximum(np.fft.rfft(self.gram(grid, grid[:1])[:, 0]).real, 0.0)
        power[1:-1] *= 2.0
        turns = rng.choice(len(power), size=count, p=power / power.sum())
        phase = rng.uniform(0.0, 2.0 * np.pi, count)

        def evaluate(x: Array) -> tuple[Array, Pullback]:
            angle = 2.0 * np.pi * np.outer(x[:, self.column], turns) + phase

            def pull(weights: Array) -> Array:
                out = np.zeros_like(x)
                rise = -np.sqrt(2.0) * 2.0 * np.pi * turns * np.sin(angle)
                out[:, self.column] = (weights * rise).sum(axis=1)
                return out

            return np.sqrt(2.0) * np.cos(angle), pull

        return evaluate

    def _distance(self, x: Array, z: Array) -> Array:
        apart = np.subtract.outer(x[:, self.column], z[:, self.column])
        return np.asarray(2.0 * np.sin(np.pi * apart) ** 2)


ROUND = rl.Space({"x": rl.Float(0.0, 1.0)})


@pytest.mark.parametrize("method", ["ensemble", "map", "ml"])
@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ts"])
def test_a_kernel(policy: str, method: Any) -> None:
    """It is fitted or drawn by its own prior, searched by its slopes, and stored by its name."""
    model = rl.Model(kernel=Periodic(), method=method)
    optimizer = rl.Optimizer(ROUND, 30, policy=policy, model=model)
    run(optimizer, 15)
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.model.kernel == Periodic()
    assert again.ask() == optimizer.ask()
    for fitted in (hyper.kernel for hyper in optimizer._situation().fitted.hypers):
        own = fitted.base if isinstance(fitted, Lifted) else fitted
        assert isinstance(fitted, Lifted) == (method == "ensemble")
        assert isinstance(own, Periodic)
        assert own.length != Periodic().length
        assert 0.05 <= own.length <= 20.0


def test_the_kernel_of_these_tests_is_right() -> None:
    rng = np.random.default_rng(0)
    x, z = rng.random((5, 1)), rng.random((4, 1))
    weights = rng.standard_normal((5, 4))
    kernel = Periodic(0.7)
    _, pull = kernel.cross_vjp(x, z)
    numeric = slopes(lambda v: float((weights * kernel.gram(v.reshape(5, 1), z)).sum()), x.ravel())
    np.testing.assert_allclose(pull(weights).ravel(), numeric, rtol=1e-5, atol=1e-7)
    assert np.linalg.eigvalsh(kernel.gram(rng.random((40, 1)))).min() > -1e-9


def test_a_kernel_without_a_name_can_t_be_stored_and_says_so_before_anything_is_paid() -> None:
    @dataclass(frozen=True)
    class Nameless(Periodic):
        pass

    optimizer = rl.Optimizer(ROUND, 10, model=rl.Model(kernel=Nameless()))
    with pytest.raises(rl.ConfigError, match=r"Nameless can't be stored.*json="):
        optimizer.to_json()


def test_a_kernel_with_too_few_priors_is_refused_before_anything_is_paid() -> None:
    @dataclass(frozen=True)
    class Forgetful(Periodic):
        def priors(self, rules: PriorRules) -> tuple[Prior, ...]:
            return ()

    with pytest.raises(rl.ConfigError, match="has 1 parameters and needs a Prior for each"):
        rl.Optimizer(ROUND, 10, model=rl.Model(kernel=Forgetful()))


# --- a kind of parameter --------------------------------------------------------------------------


@dataclass(frozen=True)
class Hour(Parameter, json="test-hour"):
    """A time of day: after 23 comes 0."""

    steps: int = 24

    @property
    def scale(self) -> Levels:
        return Ranks(self.steps)

    def validate(self, value: object, name: str = "value") -> int:
        if not (isinstance(value, int) and 0 <= value < self.steps):
            raise SpaceError(f"{name}: need an hour from 0 to {self.steps - 1}, got {value!r}")
        return value

    def _value(self, k: int) -> int:
        return k

    def _index(self, value: int) -> int:
        return value

    def moves(self, u: float) -> Array:
        k = round(u * (self.steps - 1))
        return self.scale.at(np.array([(k - 1) % self.steps, (k + 1) % self.steps]))

    @classmethod
    def kernel_part(cls, columns: Mapping[int, Parameter]) -> Kernel:
        (column,) = columns  # one is enough for a test
        return Periodic(0.5, column)


@dataclass(frozen=True)
class Only(Parameter, json="test-only"):
    """A number that exists only beside one value of another parameter."""

    beside: str
    equals: str
    low: float = 0.0
    high: float = 1.0

    @property
    def scale(self) -> Line:
        return Line(self.low, self.high, False)

    def validate(self, value: object, name: str = "value") -> float:
        if not (isinstance(value, float) and self.low <= value <= self.high):
            raise SpaceError(f"{name}: need a number, got {value!r}")
        return value

    def _value(self, k: int) -> float:
        raise NotImplementedError

    def _index(self, value: float) -> int:
        raise NotImplementedError

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return params.get(self.beside) == self.equals


def test_a_kind_of_parameter() -> None:
    space = rl.Space({"hour": Hour(), "x": rl.Float(0.0, 1.0)})
    assert rl.Space.from_json(space.to_json()) == space
    around = {
        space.decode(x)["hour"] for x in space.neighbours(space.encode({"hour": 0, "x": 0.5}))
    }
    assert around == {23, 1}
    optimizer = rl.Optimizer(space, 30)
    tried = run(optimizer, 20)
    assert {type(params["hour"]) for params in tried} == {int}
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask() == optimizer.ask()
    with pytest.raises(SpaceError, match="hour: need an hour from 0 to 23, got 24"):
        optimizer.observe({"hour": 24, "x": 0.5}, 1.0)


def test_a_parameter_that_exists_only_beside_another() -> None:
    space = rl.Space({"method": rl.Categorical(["sgd", "adam"]), "momentum": Only("method", "sgd")})
    for point in ({"method": "adam"}, {"method": "sgd", "momentum": 0.25}):
        assert space.decode(space.encode(point)) == point
    with pytest.raises(SpaceError, match="'momentum' is not active here"):
        space.validate({"method": "adam", "momentum": 0.5})
    with pytest.raises(SpaceError, match="no value for 'momentum'"):
        space.validate({"method": "sgd"})
    rng = np.random.default_rng(0)
    points = space.spread(rng.random((50, 2)))
    np.testing.assert_array_equal(space.canonical(points), points)
    for x in points:
        np.testing.assert_array_equal(space.encode(space.decode(x)), x)
    optimizer = rl.Optimizer(space, 30)
    tried = run(optimizer, 20)
    assert all(("momentum" in params) == (params["method"] == "sgd") for params in tried)
    assert {params["method"] for params in tried} == {"sgd", "adam"}
    assert rl.Optimizer.from_json(optimizer.to_json()).ask() == optimizer.ask()


@dataclass(frozen=True, repr=False)
class When(rl.Int, json="test-when"):
    """An integer that exists only beside c = "b"."""

    def is_active(self, params: Mapping[str, Any]) -> bool:
        return params.get("c") == "b"


def test_what_is_proposed_is_a_point_that_can_be_tried() -> None:
    """Inactive columns rest in every candidate, so that a tried point is known again."""
    space = rl.Space({"c": rl.Categorical(["a", "b"]), "k": When(1, 5000), "y": rl.Float(0, 1)})
    optimizer, rng, tried = rl.Optimizer(space, 30), np.random.default_rng(0), set()
    for _ in range(14):
        x = optimizer._decide(NOWHERE).x
        np.testing.assert_array_equal(space.canonical(x[None, :])[0], x)
        trial = optimizer.ask()
        point = tuple(trial.params.items())
        assert not (point in tried and trial.decision.reason in ("explore", "exploit"))
        tried.add(point)
        optimizer.tell(trial, (trial.params["c"] == "a") + 0.1 * rng.standard_normal())
    here = space.encode({"c": "a", "y": 0.5})
    around = space.neighbours(here)
    np.testing.assert_array_equal(space.canonical(around), around)
    assert {space.decode(x)["c"] for x in around} == {"b"}
    fixed = Slice(space, {0: here[0]}).spread(rng.random((50, 3)))
    np.testing.assert_array_equal(space.canonical(fixed), fixed)


def test_two_kinds_can_t_have_one_name() -> None:
    with pytest.raises(TypeError, match="json='float' is the name of Float already"):

        class Fake(rl.Float, json="float"):
            pass

    with pytest.raises(TypeError, match="json='SE' is the name of SE already"):

        class Other(rl.SE, json="SE"):
            pass

    assert rl.Space.from_json(PLANE.to_json()) == PLANE


# --- a constraint ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class Below(Constraint):
    """x_0 + x_1 <= limit."""

    limit: float
    unit: float = 0.5

    def slack(self, at: Predicted) -> Array:
        return np.asarray((self.limit - at.x.sum(axis=1)) / self.unit)

    def slopes(self, at: Predicted) -> tuple[Array | float, Array | float, Array | None]:
        return 0.0, 0.0, -np.ones_like(at.x)


@dataclass(frozen=True)
class Careful(rl.EIC):
    """EIC that keeps below a limit, as far as the search decides."""

    name: ClassVar[str] = "careful"

    def score(self, inputs: PolicyInput) -> Score:
        return super().score(inputs).within(Below(0.8))


@dataclass(frozen=True)
class CarefulPaths(rl.GPTS):
    name: ClassVar[str] = "careful-paths"
    features: int = 256

    def score(self, inputs: PolicyInput) -> Score:
        return super().score(inputs).within(Below(0.8))


@pytest.mark.parametrize("policy", [Careful(), CarefulPaths()], ids=lambda p: p.name)
def test_a_constraint(policy: rl.Policy) -> None:
    """The best point, (0.7, 0.7), is outside: the search ends at the edge, and never beyond it."""
    start = [{"x": 0.1, "y": 0.1}, {"x": 0.4, "y": 0.2}, {"x": 0.1, "y": 0.5}]
    optimizer = rl.Optimizer(PLANE, 40, policy=policy, design=start)
    tried = run(optimizer, 25, best=0.7)
    sums = [params["x"] + params["y"] for params in tried]
    assert max(sums) <= 0.8 + 1e-8
    assert max(sums) > 0.77  # and it is used up


@pytest.mark.parametrize("policy", [Careful(), CarefulPaths()], ids=lambda p: p.name)
def test_slopes_of_a_score_within_constraints(policy: rl.Policy) -> None:
    optimizer = rl.Optimizer(PLANE, 40, policy=policy)
    run(optimizer, 12)
    score = policy.score(optimizer._situation().inputs)
    x = np.random.default_rng(1).random((40, 2))
    _, slope = score.ascend(x, 0.1)
    for row, point in zip(slope, x, strict=True):
        numeric = slopes(lambda v: float(score.ascend(v[None, :], 0.1)[0][0]), point)
        np.testing.assert_allclose(row, numeric, rtol=2e-3, atol=2e-3)


def test_the_least_slack_of_all_constraints_counts() -> None:
    optimizer = rl.Optimizer(PLANE, 40, policy="eic")
    run(optimizer, 12)
    inputs = optimizer._situation().inputs
    plain, within = rl.EIC().score(inputs), Careful().score(inputs)
    x = np.random.default_rng(1).random((200, 2))
    limit = (0.8 - x.sum(axis=1)) / 0.5
    np.testing.assert_array_equal(within(x)[1], np.minimum(plain(x)[1], limit))
    np.testing.assert_array_equal(within(x)[0], plain(x)[0])


# --- a model --------------------------------------------------------------------------------------


class Wider:
    """A posterior that is a tenth less sure: it has what the protocol names, and nothing else."""

    def __init__(self, inner: Posterior) -> None:
        self._inner = inner
        self.points, self.sample_means = inner.points, inner.sample_means
        self.omega, self.omega2 = inner.omega, inner.omega2
        self.noise_sd, self.information, self.jitter = (
            inner.noise_sd,
            inner.information,
            inner.jitter,
        )
        mu, sigma = inner.at_data
        self.at_data = mu, 1.1 * sigma
        self.width = inner.width

    def expecting(self, x: Array) -> Wider:
        return Wider(self._inner.expecting(x))

    def predict(self, x: Array) -> tuple[Array, Array]:
        mu, sigma = self._inner.predict(x)
        return mu, 1.1 * sigma

    def predict_vjp(self, x: Array) -> Any:
        mu, sigma, pull = self._inner.predict_vjp(x)
        return mu, 1.1 * sigma, lambda a, b: pull(a, 1.1 * b)

    def covariance(self, x: Array, z: Array | None = None) -> Array:
        return 1.21 * self._inner.covariance(x, z)

    def shared(self, point: Array, weights: Array | None = None) -> Any:
        return self._inner.shared(point, weights)

    def sample_path(self, rng: Generator, features: int = 1024, scale: float = 1.0) -> Any:
        return self._inner.sample_path(rng, features, 1.1 * scale)

    def scales(self, dim: int) -> Array:
        return self._inner.scales(dim)

    def add(self, x: Array, y: float, weight: float = 1.0, variance: float | None = None) -> Wider:
        return Wider(self._inner.add(x, y, weight, variance))


@dataclass(frozen=True)
class WiderModel(rl.Model):
    def posterior(self, data: Data, hyper: Hyper) -> Posterior:
        return Wider(super().posterior(data, hyper))


MIXED = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 9), "k": rl.Categorical(["a", "b"])})


@pytest.mark.parametrize("policy", ["ids", "eic", "aei", "ei-nguyen", "gp-ucb", "gp-ts", "random"])
@pytest.mark.parametrize("space", [PLANE, MIXED], ids=["plane", "mixed"])
def test_a_model(policy: str, space: rl.Space) -> None:
    """Nothing between the belief and the decision looks behind the protocol."""
    wider, narrow, same, point = with_and_without(policy, space, 1)
    assert same.predict(point)[1] == pytest.approx(1.1 * narrow.predict(point)[1])
    assert wider.best().mean <= 0.0


# Each kind of score on the mixed space, whose search is the longest; the others on the plane.
@pytest.mark.parametrize("policy", ["ids", "eic", "aei", "ei-nguyen", "gp-ucb", "gp-ts", "random"])
def test_a_model_in_a_mixture(policy: str) -> None:
    """Nor does a mixture.  Its variance is that of the parts, which is wider, and of their means.

    The parts are equally likely just after they were drawn, so that both have the same means.
    """
    space = MIXED if policy in ("ids", "gp-ucb", "gp-ts") else PLANE
    wider, narrow, same, point = with_and_without(policy, space, 3)
    u = space.encode(point)[None, :]
    posterior = same._situation().posterior
    assert isinstance(posterior, Mixture)
    assert all(isinstance(part, Wider) for part in posterior.parts)
    assert all(isinstance(part, Wider) for part in wider._situation().posterior.parts)  # type: ignore[attr-defined]
    plain = narrow._situation().posterior
    assert isinstance(plain, Mixture)
    assert len(np.unique(plain.weights)) == 1
    spread = np.var([part.predict(u)[0][0] for part in plain.parts])
    sd = plain.omega * plain.predict(u)[1][0]
    wide = np.hypot(1.1 * np.sqrt(sd**2 - spread), np.sqrt(spread))
    expected = narrow.predict(point)[1] * wide / sd  # in the user's units
    assert same.predict(point)[0] == pytest.approx(narrow.predict(point)[0])
    assert same.predict(point)[1] == pytest.approx(expected)
    assert wider.best().mean <= 0.05  # the best of f is 0


def with_and_without(
    policy: str, space: rl.Space, version: int
) -> tuple[rl.Optimizer, rl.Optimizer, rl.Optimizer, dict[str, Any]]:
    """A run with the wider model; an optimiser without and one with it, of the same data; a point.

    Version 1 has a single fit, and version 3 a mixture.
    """
    rules = defaults_of(version).model

    def new(model: type[rl.Model]) -> rl.Optimizer:
        return rl.Optimizer(space, 30, policy=policy, model=model.default(rules), defaults=version)

    wider, narrow, same = new(WiderModel), new(rl.Model), new(WiderModel)
    wider.ask()  # stays pending
    run(wider, 12)
    for optimizer in (narrow, same):
        for row in wider.history():
            if row.value is not None:
                optimizer.observe(row.params, row.value)
    return wider, narrow, same, space.decode(np.full(space.dim, 0.9))


def test_a_gp_is_a_posterior() -> None:
    gp = GP.of(Data.of(np.zeros((1, 1)), np.zeros(1)), Hyper(Periodic(), 0.1, 1.0))
    assert isinstance(gp, Posterior)
    assert isinstance(Wider(gp), Posterior)
    assert not isinstance(object(), Posterior)


# --- columns that are given -----------------------------------------------------------------------


FIXED = ["ids", "eic", "ei-nguyen", "gp-ucb", "gp-ts", "random", "explore-then-commit"]


@pytest.mark.parametrize("policy", FIXED)
def test_a_search_moves_only_what_is_not_fixed(policy: str) -> None:
    optimizer = rl.Optimizer(MIXED, 60, policy=policy)
    run(optimizer, 16)
    for column, seed in product(range(3), range(4)):
        place = MIXED.canonical(np.full((1, 3), 0.9))[0, column]
        situation = replace(optimizer._situation(), fixed={column: place})
        drawn = replace(situation, rng=np.random.default_rng(seed))
        x, decision = drawn.decide(rl.Decision("design", policy, 40))
        assert x[column] == place
        np.testing.assert_array_equal(MIXED.canonical(x[None, :])[0], x)
        assert decision.incumbent is not None


def test_the_incumbent_given_fixed_columns() -> None:
    """The best posterior mean among the tried points, each moved to what is given."""
    optimizer = rl.Optimizer(PLANE, 60, policy="eic")
    run(optimizer, 16)
    plain = optimizer._situation()
    situation = replace(plain, fixed={0: 0.9})
    moved = plain.posterior.points.copy()
    moved[:, 0] = 0.9
    mu, _ = plain.posterior.predict(moved)
    np.testing.assert_array_equal(situation.inputs.incumbent.x, moved[np.argmax(mu)])
    assert situation.policy.xi(situation.inputs) == mu.max()
    assert mu.max() < plain.posterior.at_data[0].max()
    x, _ = replace(situation, rng=np.random.default_rng(0)).decide(rl.Decision("design", "", 40))
    z = (plain.posterior.predict(x[None, :])[0] - mu.max())[0]
    assert z >= situation.policy.threshold(situation.inputs) * plain.posterior.omega  # type: ignore[operator]


# --- a front end ----------------------------------------------------------------------------------


@dataclass
class Spreadsheet:
    """A front end is whatever asks and tells: here rows that a person fills in."""

    rows: list[tuple[int, dict[str, Any]]] = field(default_factory=list)

    def next_row(self, study: rl.Optimizer) -> None:
        trial = study.ask()
        self.rows.append((trial.number, trial.params))

    def filled_in(self, study: rl.Optimizer, value: float) -> None:
        number, _ = self.rows.pop(0)
        study.tell(number, value)


def test_a_front_end() -> None:
    optimizer, sheet = rl.Optimizer(PLANE, 10), Spreadsheet()
    for step in range(8):
        sheet.next_row(optimizer)
        if step % 2:
            sheet.filled_in(optimizer, float(step))
    assert optimizer.observations == 4
    assert len(optimizer.pending) == 4
