"""Parameters that exist only for some values of others, in every front end."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.defaults import defaults_of
from regretless.design import branch_points
from regretless.kernels import SE, BesideMiddle, Hamming, Matern, Rippled, Switched, activity
from regretless.model import Model
from regretless.model.fit import widened
from test_extending import Hour

SPACE = rl.Space(
    {
        "solver": rl.Categorical(["sgd", "adam", "lbfgs"]),
        "rate": rl.Float(1e-4, 1.0, log=True).when("solver", "sgd", "adam"),
        "momentum": rl.Float(0.0, 1.0).when("solver", "sgd"),
        "warm": rl.Categorical(["yes", "no"]).when("solver", "sgd"),
        "layers": rl.Int(1, 3),
        "width": rl.Int(4, 64, log=True).when("layers", at_least=2),
        "dropout": rl.Float(0.0, 0.9).when("width", at_least=16),
    }
)
RULES = ((1, 0, ((0.5, 2.0),)), (2, 1, ((0.5, 2.0),)))  # 1 hangs on 0, and 2 on 1


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"a": rl.Float(0, 1).when("b", 1)}, "a: when: there is no parameter 'b'"),
        (
            {"a": rl.Float(0, 1).when("b", 1), "b": rl.Int(0, 3)},
            "a: when: 'b' must come before 'a'",
        ),
        (
            {"a": rl.Int(0, 1).when("b", 1), "b": rl.Int(0, 3).when("a", 1)},
            "a: when: 'b' depends on 'a' itself",
        ),
        ({"a": rl.Int(0, 1).when("a", 1)}, "a: when: 'a' depends on 'a' itself"),
        (
            {"b": rl.Categorical(["x", "y"]), "a": rl.Int(0, 1).when("b", "z")},
            r"a: when: b: must be one of \['x', 'y'\], got 'z'",
        ),
        (
            {"b": rl.Float(0, 1), "a": rl.Int(0, 1).when("b", 0.5)},
            "a: when: b has a range: use at_least or at_most",
        ),
        (
            {"b": rl.Categorical(["x", "y"]), "a": rl.Int(0, 1).when("b", at_least="x")},
            "a: when: b has no order: give values",
        ),
        (
            {"b": rl.Int(0, 5), "a": rl.Int(0, 1).when("b", at_least=4, at_most=2)},
            "a: when: b: no value is at least 4 and at most 2",
        ),
        (
            {"b": rl.Int(0, 5), "a": rl.Int(0, 1).when("b", at_least=9)},
            r"a: when: at_least of b: must be in \[0, 5\], got 9",
        ),
    ],
)
def test_a_wrong_condition_is_named(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(rl.SpaceError, match=message):
        rl.Space(parameters)


def test_a_condition_needs_values_or_bounds() -> None:
    for given in ({}, {"values": (1,), "at_least": 2}):
        values = given.get("values", ())
        with pytest.raises(rl.SpaceError, match="'b' needs one or more values, or at_least"):
            rl.Float(0, 1).when("b", *values, at_least=given.get("at_least"))


@pytest.mark.parametrize(
    ("when", "message"),
    [
        ([], "a: when: need a list of conditions"),
        ("b", "a: when: need a list of conditions"),
        ([{"parameter": "b", "is": 1}], "a: when: need an object with 'parameter'"),
        ([{"parameter": "b", "values": 1}], "a: when: values must be a list, got 1"),
        ([{"values": [1]}], "a: when: need the name of a parameter, got None"),
    ],
)
def test_wrong_json_is_named(when: Any, message: str) -> None:
    entry = {"name": "a", "type": "float", "low": 0, "high": 1, "when": when}
    with pytest.raises(rl.SpaceError, match=message):
        rl.Space.from_json(
            {"parameters": [{"name": "b", "type": "int", "low": 0, "high": 3}, entry]}
        )


def test_values_of_numpy_are_stored_as_plain_ones() -> None:
    width = rl.Int(1, 3).when("layers", np.int64(2), np.int64(3))
    space = rl.Space({"layers": rl.Int(1, 3), "width": width})
    assert json.loads(json.dumps(space.to_json())) == space.to_json()


# --- the kernel -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "base", [SE((0.4, 0.7, 1.3)), Matern((0.4, 0.7, 1.3)), Rippled((0.4, 0.7, 1.3))]
)
def test_inactive_columns_are_beside_the_middle(base: Any) -> None:
    """Against the definition, one pair of points after the other."""
    rng = np.random.default_rng(0)
    x = rng.random((30, 3))
    on = activity(x, RULES)
    s = np.zeros((30, 30))
    for i in range(30):
        for j in range(30):
            s[i, j] = ((x[i, 0] - x[j, 0]) / 0.4) ** 2
            for column, length in ((1, 0.7), (2, 1.3)):
                a, b = on[column][i], on[column][j]
                one = x[i, column] if a else 0.5
                two = x[j, column] if b else 0.5
                s[i, j] += ((one - two) ** 2 + 0.01 * (a != b)) / length**2
    kernel = BesideMiddle(base, (0, 1, 2), RULES, at_once=3)
    np.testing.assert_allclose(kernel.gram(x), base._shape(s.copy()), rtol=1e-9)


def test_inactive_is_a_place_of_its_own() -> None:
    """Not one of the values, and neither end of the range is nearer than the other."""
    kernel = Model(kernel="matern52").start(SPACE.columns, defaults_of().fit).kernel
    points = [
        {"solver": "sgd", "rate": 0.01, "momentum": m, "warm": "yes", "layers": 1}
        for m in (0.0, 0.5, 1.0)
    ]
    absent = SPACE.encode({"solver": "lbfgs", "layers": 1})[None]
    low, middle, high = kernel.gram(absent, np.array([SPACE.encode(p) for p in points]))[0]
    assert low == pytest.approx(high)
    assert 0.0 < low < middle < 1.0


def test_few_parameters_count_where_few_exist_at_once() -> None:
    """The posterior of branches with a parameter each is as wide as that of one branch."""
    rules = defaults_of().fit

    def widening(branches: int) -> float:
        each = {f"x{i}": rl.Float(0, 1).when("c", i) for i in range(branches)}
        space = rl.Space({"c": rl.Categorical(range(branches)), **each})
        hyper = Model().start(space.columns, rules)
        return widened(hyper, 10, rules).omega2 / hyper.omega2

    assert widening(8) == widening(2)


def test_length_scales_are_those_of_the_parameters_that_exist_at_once() -> None:
    either = {f"x{i}": rl.Float(0, 1).when("c", i) for i in range(8)}
    space = rl.Space({"c": rl.Categorical(range(8)), **either})
    rules = defaults_of().fit
    kernel = Model().start(space.columns, rules).kernel
    assert len(kernel.theta) == 8 + 2 + 1
    assert kernel.lengths_at_once(rules.priors) == 1


def test_another_kind_that_is_conditional() -> None:
    """Its own kernel counts where both points have it."""
    space = rl.Space({"c": rl.Categorical(["a", "b"]), "hour": Hour().when("c", "a")})
    kernel = Model().start(space.columns, defaults_of().fit).kernel
    assert [type(part) for part in kernel.parts] == [Hamming, Switched]
    hours = np.array([space.encode({"c": "a", "hour": h}) for h in range(24)])
    other = space.encode({"c": "b"})[None]
    np.testing.assert_allclose(kernel.gram(hours), kernel.parts[1].gram(hours))
    gram = kernel.gram(np.vstack([hours, other]))
    assert np.linalg.eigvalsh(gram).min() > -1e-9
    np.testing.assert_allclose(gram[-1, :-1], gram[-1, 0])
    optimizer = rl.Optimizer(space, 12)
    for trial in optimizer:
        assert ("hour" in trial.params) == (trial.params["c"] == "a")
        optimizer.tell(trial, float(trial.params.get("hour", 3)))


def test_no_choice_is_half_as_far_as_another_choice() -> None:
    space = rl.Space({"c": rl.Categorical(["a", "b"]), "d": rl.Categorical([1, 2]).when("c", "a")})
    kernel = Model().start(space.columns, defaults_of().fit).kernel
    one, two, none = (
        space.encode(p)[None] for p in ({"c": "a", "d": 1}, {"c": "a", "d": 2}, {"c": "b"})
    )
    np.testing.assert_allclose(kernel.gram(one, two), np.exp(-1.0))
    np.testing.assert_allclose(kernel.gram(one, none), np.exp(-1.5))
    np.testing.assert_allclose(kernel.gram(two, none), np.exp(-1.5))


def test_a_switched_kernel_s_slopes() -> None:
    from oracles import slopes

    rng = np.random.default_rng(1)
    x, z = rng.random((9, 3)), rng.random((7, 3))
    kernel = Switched(SE((0.6,), (1,)), 1, RULES, alike=0.3)
    weights = rng.standard_normal((9, 9))
    weights += weights.T
    numeric = slopes(lambda t: float((weights * kernel.with_theta(t).gram(x)).sum()), kernel.theta)
    np.testing.assert_allclose(kernel.gram_vjp(x)[1](weights), numeric, rtol=1e-5)
    across = rng.standard_normal((9, 7))
    numeric = slopes(lambda v: float((across * kernel.gram(v.reshape(9, 3), z)).sum()), x.ravel())
    np.testing.assert_allclose(kernel.cross_vjp(x, z)[1](across).ravel(), numeric, atol=1e-5)
    phi, _ = kernel.features(rng, 60_000)(x)
    np.testing.assert_allclose(phi @ phi.T / 60_000, kernel.gram(x), atol=0.06)


# --- the start and the search ---------------------------------------------------------------------


def test_each_choice_is_tried_beside_two_others() -> None:
    steps = {name: rl.Categorical(["a", "b", "c"]) for name in ("first", "second")}
    space = rl.Space({**steps, "x": rl.Float(0.0, 1.0).when("first", "a")})
    tried = [space.decode(x) for x in branch_points(space)]
    assert len({(p["first"], p["second"]) for p in tried}) == len(tried) == 6
    assert Counter(p["first"] for p in tried) == dict.fromkeys("abc", 2)


def test_the_start_looks_into_every_branch() -> None:
    tried = [SPACE.decode(x) for x in branch_points(SPACE)]
    assert {p["solver"] for p in tried} == {"sgd", "adam", "lbfgs"}
    assert {p["warm"] for p in tried if "warm" in p} == {"yes", "no"}
    for name in ("width", "dropout"):
        assert {name in p for p in tried} == {True, False}
    assert len(tried) <= 5
    for version in (2, 3):
        optimizer = rl.Optimizer(SPACE, 60, defaults=version)
        first = [optimizer.ask() for _ in range(len(tried))]
        assert {trial.params["solver"] for trial in first} == {"sgd", "adam", "lbfgs"}


def test_many_independent_branches_stay_few_points() -> None:
    switches = {f"on{i}": rl.Categorical([False, True]) for i in range(12)}
    leaves = {f"x{i}": rl.Float(0, 1).when(f"on{i}", True) for i in range(12)}
    space = rl.Space({**switches, **leaves})
    assert len(branch_points(space)) <= 4
    start = rl.Optimizer(space, 200)._start
    assert start.size <= 50


def test_parents_with_very_many_levels() -> None:
    space = rl.Space({"n": rl.Int(0, 10**12), "x": rl.Float(0, 1).when("n", at_least=5 * 10**11)})
    assert {"x" in space.decode(x) for x in branch_points(space)} == {True, False}


@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ucb", "gp-ts", "ei-nguyen", "random"])
def test_every_policy(policy: str) -> None:
    optimizer = rl.Optimizer(SPACE, 30, policy=policy, seed=1)
    for _ in range(16):
        trial = optimizer.ask()
        assert SPACE.validate(trial.params) == trial.params
        optimizer.tell(trial, trial.params.get("momentum", 0.3) - trial.params["layers"])
    assert rl.Optimizer.from_json(optimizer.to_json()).ask() == optimizer.ask()


def test_a_parameter_of_the_best_branch_is_tuned() -> None:
    rng = np.random.default_rng(0)

    def f(params: dict[str, Any]) -> float:
        if params["solver"] != "sgd":
            return 0.4
        return 1.0 - 3.0 * (params["momentum"] - 0.8) ** 2 - 0.1 * (params["layers"] - 1)

    optimizer = rl.Optimizer(SPACE, 50)
    for trial in optimizer:
        optimizer.tell(trial, f(trial.params) + 0.05 * rng.standard_normal())
    best = optimizer.best().params
    assert best["solver"] == "sgd"
    assert abs(best["momentum"] - 0.8) < 0.15


def test_large_conditional_spaces_are_quick() -> None:
    """All rows at once: a thousand times as many rows take less than 200 times as long."""
    from time import process_time

    few, many = (
        np.random.default_rng(0).random((10, 7)),
        np.random.default_rng(0).random((10_000, 7)),
    )
    SPACE.spread(few)
    began = process_time()
    for _ in range(20):
        SPACE.spread(few)
    short = (process_time() - began) / 20
    began = process_time()
    SPACE.spread(many)
    assert process_time() - began < 200 * short


# --- the front ends -------------------------------------------------------------------------------


def test_a_study_and_its_page(tmp_path: Path) -> None:
    from regretless.service.page_data import page_data

    with rl.Study.open(tmp_path / "s.sqlite", "s", space=SPACE, budget=40) as study:
        for _ in range(12):
            trial = study.ask()
            study.tell(trial, trial.params.get("momentum", 0.3) - trial.params["layers"])
        following = study.ask()
        data = page_data(study.snapshot())
        best = study.best().params
    assert [each["name"] for each in data["slices"]] == list(best)
    json.dumps(data, allow_nan=False)
    with rl.Study.open(tmp_path / "s.sqlite", "s", space=SPACE) as again:
        assert again.pending == [following]
        assert again.space == SPACE


def test_a_shell_does_not_keep_the_value_of_an_earlier_trial() -> None:
    from regretless.cli.text import assignments

    trial = rl.Trial(3, {"solver": "lbfgs", "layers": 1}, rl.Decision("given", "ids", 1))
    text = assignments(trial, SPACE.names)
    assert "params_momentum=''" in text
    assert "params_layers=1" in text
