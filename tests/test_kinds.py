"""One contract for every kind of parameter, and for spaces that combine them.

To add a kind, add one line to `SPACES`: a space with the kind in it, values that it must refuse,
and what the message says.  Everything else follows from the space.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from oracles import slopes
from regretless.defaults import defaults_of
from regretless.design import Start
from regretless.horizon import Horizon
from regretless.kernels import Kernel
from regretless.model import Model
from regretless.search import Slice

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A space, and pairs of parameters that it refuses and a part of the message."""

    space: rl.Space
    refused: list[tuple[dict[str, Any], str]] = field(default_factory=list)
    smooth: bool = True  # whether the kernel has slopes in some column


X = rl.Float(0.0, 1.0)
SOLVER = rl.Categorical(["sgd", "adam", "lbfgs"])

SPACES = {
    "float": Case(rl.Space({"x": X}), [({"x": 2.0}, "x: .*2.0"), ({"x": "a"}, "x: .*'a'")]),
    "log float": Case(rl.Space({"x": rl.Float(1e-4, 1.0, log=True)}), [({"x": 0.0}, "x: .*0.0")]),
    "steps": Case(rl.Space({"x": rl.Float(0.0, 1.0, step=0.3)}), [({"x": 1.5}, "x: .*1.5")]),
    "int": Case(rl.Space({"k": rl.Int(1, 12)}), [({"k": 13}, "k: .*13"), ({"k": 1.5}, "k: .*1.5")]),
    "log int": Case(rl.Space({"k": rl.Int(1, 512, log=True)}), [({"k": 0}, "k: .*0")]),
    "cyclic": Case(
        rl.Space({"hour": rl.Cyclic(0, 24), "x": X}),
        [
            ({"hour": "noon", "x": 0.5}, "hour: .*'noon'"),
            ({"hour": None, "x": 0.5}, "hour: .*None"),
        ],
    ),
    "cyclic alone": Case(rl.Space({"hour": rl.Cyclic(-12.0, 12.0)})),
    "cyclic, at times": Case(
        rl.Space({"c": SOLVER, "hour": rl.Cyclic(0, 24).when("c", "sgd"), "x": X}),
        [({"c": "adam", "hour": 3.0, "x": 0.5}, "'hour' is not active here")],
    ),
    "categorical": Case(rl.Space({"c": SOLVER, "x": X}), [({"c": "sdg", "x": 0.5}, "c: .*'sdg'")]),
    "ordinal": Case(rl.Space({"o": rl.Ordinal(["s", "m", "l"])}), [({"o": "xl"}, "o: .*'xl'")]),
    "mixed": Case(
        rl.Space({"x": X, "c": SOLVER, "k": rl.Int(1, 5), "o": rl.Ordinal([1, 2, 4])}),
        [({"x": 0.5, "c": "sgd", "k": 1}, "no value for 'o'")],
    ),
    "conditional": Case(
        rl.Space({"c": SOLVER, "x": X, "m": rl.Float(0.0, 1.0).when("c", "sgd", "adam")}),
        [
            ({"c": "sgd", "x": 0.5}, "no value for 'm'"),
            ({"c": "lbfgs", "x": 0.5, "m": 0.5}, "'m' is not active here"),
            ({"c": "sgd", "x": 0.5, "m": 2.0}, "m: .*2.0"),
            ({"c": "sdg", "x": 0.5, "m": 0.5}, "c: .*'sdg'"),
        ],
    ),
    "nested": Case(
        rl.Space(
            {
                "layers": rl.Int(1, 3),
                "u2": rl.Int(1, 64, log=True).when("layers", at_least=2),
                "u3": rl.Int(1, 64, log=True).when("layers", at_least=3),
                "drop": rl.Categorical([True, False]).when("u3", at_least=8),
                "p": rl.Float(0.0, 0.9).when("drop", True),
                "o": rl.Ordinal(["a", "b"]).when("layers", at_most=2).when("u2", at_most=8),
            }
        ),
        [({"layers": 1, "u2": 3}, "'u2' is not active here")],
    ),
    "all choices": Case(
        rl.Space({"c": SOLVER, "d": rl.Categorical(["a", "b", "c"]).when("c", "sgd")}),
        smooth=False,
    ),
    "above": Case(rl.Space({"x": X, "y": rl.Float(0.0, 1.0).when("x", at_least=0.25)})),
}

every = pytest.mark.parametrize("case", SPACES.values(), ids=list(SPACES))


def draws(case: Case, count: int, seed: int = 0) -> Array:
    return case.space.spread(np.random.default_rng(seed).random((count, case.space.dim)))


def hill(space: rl.Space, params: dict[str, Any]) -> float:
    return -float(((space.encode(params) - 0.3) ** 2).sum())


def kernel_of(case: Case, seed: int = 0) -> Kernel:
    """The default model's kernel, with parameters that are drawn at random."""
    kernel = Model().start(case.space.columns, defaults_of().fit).kernel
    theta = kernel.theta + 0.7 * np.random.default_rng(seed).standard_normal(len(kernel.theta))
    return kernel.with_theta(theta)


@every
def test_points_and_parameters_are_the_same_in_both_directions(case: Case) -> None:
    space = case.space
    for x in draws(case, 200):
        params = space.decode(x)
        np.testing.assert_array_equal(space.encode(params), x)
        assert space.validate(params) == params
        assert space.validate(json.loads(json.dumps(params))) == params


@every
def test_every_source_of_points_makes_canonical_ones(case: Case) -> None:
    space, rng = case.space, np.random.default_rng(1)
    near = draws(case, 100) + 0.1 * rng.standard_normal((100, space.dim))
    sources = [draws(case, 100), space.canonical(near), *map(space.neighbours, draws(case, 20))]
    if space.size is not None:
        sources.append(space.grid())
        assert len(space.grid()) == space.size == len(np.unique(space.grid(), axis=0))
    for points in sources:
        np.testing.assert_array_equal(space.canonical(points), points)
        for x in points[:20]:
            np.testing.assert_array_equal(space.encode(space.decode(x)), x)


@every
def test_neighbours_are_other_points(case: Case) -> None:
    for x in draws(case, 20):
        around = case.space.neighbours(x)
        assert (around != x).any(axis=1).all()
        assert len(np.unique(around, axis=0)) == len(around)


@every
def test_json(case: Case) -> None:
    again = rl.Space.from_json(json.loads(json.dumps(case.space.to_json())))
    assert again == case.space
    assert repr(again) == repr(case.space)
    assert eval(repr(case.space), {**vars(rl)}) == case.space  # the text is Python


@every
@pytest.mark.parametrize("design", ["auto", "sobol", "lhs", "grid"])
@pytest.mark.parametrize("version", [2, 3])
def test_a_start_has_no_repeats(case: Case, design: str, version: int) -> None:
    rules = defaults_of(version).start
    start = Start(case.space, Horizon(80), design, None, 0, rules)
    points = start.points
    np.testing.assert_array_equal(case.space.canonical(points), points)
    assert len(np.unique(points, axis=0)) == len(points)
    assert 1 <= start.size <= start.longest


@every
def test_the_kernel_is_positive_definite(case: Case) -> None:
    """10,000 random pairs of points, and several random parameters of the kernel."""
    for seed in range(5):
        points = draws(case, 142, seed)
        kernel = kernel_of(case, seed)
        gram = kernel.gram(points)
        np.testing.assert_allclose(gram, gram.T, atol=1e-12)
        np.testing.assert_allclose(np.diag(gram), 1.0, atol=1e-9)
        assert np.linalg.eigvalsh(gram).min() > -1e-8
        np.testing.assert_allclose(kernel.gram(points, points), gram, atol=1e-9)


@every
def test_the_kernel_s_slopes(case: Case) -> None:
    rng = np.random.default_rng(3)
    kernel = kernel_of(case)
    x, z = draws(case, 12, 4), draws(case, 9, 5)
    weights = rng.standard_normal((12, 12))
    weights += weights.T
    pulled = kernel.gram_vjp(x)[1](weights)
    numeric = slopes(lambda t: float((weights * kernel.with_theta(t).gram(x)).sum()), kernel.theta)
    np.testing.assert_allclose(pulled, numeric, rtol=2e-5, atol=2e-6)
    # Inside the ranges, so that a small step does not leave them, or switch another column.
    near = np.clip(x + 1e-3 * (rng.random(x.shape) - 0.5), 1e-3, 1.0 - 1e-3)
    across = rng.standard_normal((12, 9))
    _, pull = kernel.cross_vjp(near, z)
    moving = case.space.ordered
    numeric = slopes(
        lambda v: float((across * kernel.gram(v.reshape(near.shape), z)).sum()), near.ravel()
    ).reshape(near.shape)
    np.testing.assert_allclose(pull(across)[:, moving], numeric[:, moving], rtol=2e-4, atol=2e-5)
    assert (not moving.any()) == (not case.smooth)


@every
def test_random_functions_have_the_kernel_s_covariance(case: Case) -> None:
    kernel, points = kernel_of(case), draws(case, 8)
    phi, pull = kernel.features(np.random.default_rng(6), 40_000)(points)
    np.testing.assert_allclose(phi @ phi.T / 40_000, kernel.gram(points), atol=0.06)
    assert pull(np.ones_like(phi)).shape == points.shape


@every
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_a_run_keeps_to_the_space_and_replays(case: Case, version: int) -> None:
    space = case.space
    optimizer = rl.Optimizer(space, 30, defaults=version, seed=3)
    for _ in range(14):
        trial = optimizer.ask()
        assert space.validate(trial.params) == trial.params
        optimizer.tell(trial, hill(space, trial.params))
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask() == optimizer.ask()
    assert again.best() == optimizer.best()


@every
def test_what_is_wrong_is_named_and_changes_nothing(case: Case) -> None:
    optimizer = rl.Optimizer(case.space, 10)
    for params, message in case.refused:
        with pytest.raises(rl.SpaceError, match=message):
            case.space.validate(params)
        with pytest.raises(rl.SpaceError, match=message):
            optimizer.observe(params, 1.0)
        with pytest.raises(rl.SpaceError, match=message):
            optimizer.adopt(params)
    with pytest.raises(rl.SpaceError, match="unknown 'nobody'"):
        case.space.validate({**case.space.decode(draws(case, 1)[0]), "nobody": 1})
    assert optimizer.events == []


@every
def test_a_fixed_column_stays(case: Case) -> None:
    for j in range(case.space.dim):
        place = draws(case, 1)[0][j]
        part = Slice(case.space, {j: place})
        points = part.spread(np.random.default_rng(0).random((30, case.space.dim)))
        assert (points[:, j] == place).all()
