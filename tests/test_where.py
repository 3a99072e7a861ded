"""Limits among parameters: `Space(..., where=[...])`."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from oracles import slopes
from regretless.defaults import defaults_of
from regretless.design import Start
from regretless.horizon import Horizon
from regretless.search import Slice, constraints_of

ONE = rl.Float(0.0, 1.0)
PLANE = {"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)}


def simplex(d: int) -> rl.Space:
    names = [f"x{i}" for i in range(d)]
    return rl.Space(dict.fromkeys(names, ONE), where=[f"{' + '.join(names)} <= 1"])


def above(p: dict[str, Any]) -> bool:
    return p["b"] >= p["a"] ** 2


SPACES = {
    "simplex": simplex(3),
    "thin": rl.Space(dict.fromkeys("abcdefgh", ONE), where=["a+b+c+d+e+f+g+h <= 1"]),
    "ring": rl.Space(
        {"a": rl.Float(-1, 1), "b": rl.Float(-1, 1)}, where=["0.5 <= a**2+b**2 <= 0.6"]
    ),
    "logarithmic": rl.Space(
        {"a": rl.Float(1e-3, 1, log=True), "b": rl.Int(1, 1000, log=True)}, where=["a * b <= 0.5"]
    ),
    "whole": rl.Space({"a": rl.Int(0, 8), "b": rl.Int(0, 8)}, where=["a + b <= 8 and a < b"]),
    "listed": rl.Space({"o": rl.Ordinal([1, 2, 8]), "a": ONE}, where=["o * a <= 2"]),
    "function": rl.Space(PLANE, where=["a + b <= 1.5", above]),
    "conditional": rl.Space(
        {"c": rl.Categorical(["x", "y"]), "a": ONE, "b": ONE.when("c", "x")}, where=["a + b <= 0.8"]
    ),
    "curved": rl.Space(
        {"a": rl.Float(0.1, 2), "b": rl.Float(0.1, 2), "c": ONE},
        where=["sqrt(a) + log(b) <= max(c, 0.5) + exp(-a)", "abs(a - b) / 2 <= 1 - c"],
    ),
}
each = pytest.mark.parametrize("space", SPACES.values(), ids=list(SPACES))


def broken(space: rl.Space, params: dict[str, Any]) -> bool:
    """By Python itself, exactly."""
    functions = {"sqrt": np.sqrt, "log": np.log, "exp": np.exp, "abs": abs, "max": max}
    for limit in space.where:
        if isinstance(limit, str):
            names = [n for n in space.names if n in limit]
            if all(n in params for n in names) and not eval(limit, functions, dict(params)):
                return True
        elif not limit(params):
            return True
    return False


@each
@pytest.mark.parametrize("version", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_nothing_is_ever_suggested_outside(space: rl.Space, version: int) -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(space, 24, seed=version, defaults=version)
    goal = rng.random(space.dim)
    for trial in optimizer:
        assert not broken(space, trial.params), trial
        x = space.encode(trial.params)
        optimizer.tell(trial, -float(((x - goal) ** 2).sum()) + 0.01 * rng.standard_normal())
    assert not broken(space, optimizer.best().params)
    if all(isinstance(limit, str) for limit in space.where):
        text = optimizer.to_json()
        assert rl.Optimizer.from_json(text).ask() == optimizer.ask()


@each
@pytest.mark.parametrize("policy", ["eic", "gp-ts", "random", "ei-nguyen"])
def test_every_policy_keeps_to_the_limits(space: rl.Space, policy: str) -> None:
    optimizer = rl.Optimizer(space, 13, policy=policy)
    for trial in optimizer:
        assert not broken(space, trial.params), trial
        optimizer.tell(trial, float(space.encode(trial.params).sum()))
    assert not broken(space, optimizer.ask().params)  # past the budget, too


@each
def test_every_source_of_points_keeps_to_the_limits(space: rl.Space) -> None:
    rng = np.random.default_rng(1)
    points = space.drawn(300, rng)
    sources = [points, *(space.neighbours(x) for x in points[:20])]
    sources.append(space.repaired(space.spread(rng.random((100, space.dim)))))
    for design in ("auto", "sobol", "lhs", "grid"):
        start = Start(space, Horizon(100), design, None, 0, defaults_of().start)
        assert len(np.unique(start.points, axis=0)) == len(start.points) > 0
        sources.append(start.points)
    if space.size is not None:
        assert space.size == len(space.grid())
        sources.append(space.grid())
    for found in sources:
        np.testing.assert_array_equal(space.canonical(found), found)
        assert space.keeps(found).all()
        assert not any(broken(space, space.decode(x)) for x in found)


@pytest.mark.slow
@pytest.mark.parametrize("d", [2, 6])
def test_ten_thousand_suggestions(d: int) -> None:
    """Pending trials, without results in between, so that asks are cheap and points differ."""
    space = simplex(d)
    for seed in range(50):
        optimizer = rl.Optimizer(space, 400, seed=seed, policy="random")
        optimizer.observe(dict.fromkeys(space.names, 0.1), 1.0)
        for trial in optimizer.ask(200):
            assert sum(trial.params.values()) <= 1.0


def test_draws_are_spread_over_the_region() -> None:
    """By walks, too: in 8 dimensions, one in 40,000 points is inside, and the mean is 1/9."""
    points = SPACES["thin"].drawn(4000, np.random.default_rng(3))
    np.testing.assert_allclose(points.mean(axis=0), 1 / 9, atol=0.02)
    assert len(np.unique(points, axis=0)) > 3500


def test_the_search_goes_up_to_the_edge() -> None:
    space = simplex(2)
    optimizer = rl.Optimizer(space, 40)
    for trial in optimizer:
        optimizer.tell(trial, -sum((v - 0.8) ** 2 for v in trial.params.values()))
    best = optimizer.best()
    assert best.mean > -0.2  # at (0.5, 0.5) it is -0.18
    assert sum(best.params.values()) > 0.97


@pytest.mark.parametrize("name", ["simplex", "ring", "logarithmic", "listed", "curved"])
def test_slopes(name: str) -> None:
    space, rng = SPACES[name], np.random.default_rng(4)
    x = rng.uniform(0.05, 0.95, (20, space.dim))
    for limit in space.limits:
        _, slope = limit.slack_and_slope(x)
        for row, rise in zip(x, slope, strict=True):
            numeric = slopes(lambda v, one=limit: float(one.slack(v[None])[0]), row)
            np.testing.assert_allclose(rise, numeric, rtol=1e-4, atol=1e-6)
    assert len(constraints_of(space)) == len(space.limits)


@pytest.mark.parametrize(
    ("limit", "message"),
    [
        ("a + c <= 1", "'a \\+ c <= 1': there is no parameter 'c'; known: 'a', 'b'"),
        ("a == 1", "an equation is not allowed"),
        ("a", "need a comparison by <=, >=, < or >"),
        ("a != b", "need a comparison"),
        ("a <= 1 or b <= 1", "need a comparison"),
        ("a <=", "need a comparison such as"),
        ("1 <= 2", "it names no parameter"),
        ("a + b <= -1", "no point of the space keeps 'a \\+ b <= -1'"),
        ("a + b <= 1e-9", "no point of the space keeps"),
        ("a.real <= 1", "'a.real' is not allowed: need numbers, parameters"),
        ("a[0] <= 1", "is not allowed: need numbers, parameters"),
        ("(lambda: a)() <= 1", "is not allowed: need numbers, parameters"),
        ("__import__('os').getcwd() <= a", "is not allowed: need numbers, parameters"),
        ("eval('a') <= 1", "need sqrt, log, exp, abs, min or max, got 'eval'"),
        ("open(a) <= 1", "need sqrt, log, exp, abs, min or max, got 'open'"),
        ("a <= True", "need a finite number, got True"),
        ("a <= 1e999", "need a finite number, got inf"),
        ("a <= 1j", "need a finite number"),
        ("a + " * 200 + "a <= 1", "it has too many parts"),
        ("a" * 3000, "need at most 2000 characters, got 3000"),
        ("(" * 500 + "a" + ")" * 500 + " <= 1", "need a comparison such as"),
        ("a <= 1\x00", "need a comparison such as"),
        (3, "need a text or a function, got 3"),
        (lambda p: p["z"] > 1, "<lambda> failed for .*KeyError"),
        (lambda p: False, "no point of the space keeps '<lambda>'"),
        (lambda p: abs(p["a"] - 0.5) < 2e-5, "(only|no point)"),
    ],
)
def test_a_wrong_limit_is_named(limit: Any, message: str) -> None:
    with pytest.raises(rl.SpaceError, match=message):
        rl.Space(PLANE, where=[limit])


def test_limits_are_a_list() -> None:
    with pytest.raises(rl.SpaceError, match="where: need a list of limits, got 'a <= 1'"):
        rl.Space(PLANE, where="a <= 1")
    with pytest.raises(rl.SpaceError, match="where: 'c <= 1': c has no numeric values"):
        rl.Space({"c": rl.Categorical([0, 1])}, where=["c <= 1"])


def test_a_name_in_quotes() -> None:
    space = rl.Space({"my rate": ONE, "b": ONE}, where=["'my rate' + b <= 1"])
    with pytest.raises(rl.SpaceError, match="outside the limit"):
        space.validate({"my rate": 0.7, "b": 0.7})


def test_a_point_outside_is_refused_and_changes_nothing() -> None:
    optimizer = rl.Optimizer(SPACES["function"], 10)
    for params, limit in (
        ({"a": 1.0, "b": 0.9}, "a \\+ b <= 1.5"),
        ({"a": 0.9, "b": 0.1}, "above"),
    ):
        for verb in (lambda p: optimizer.observe(p, 1.0), optimizer.adopt):
            with pytest.raises(rl.SpaceError, match=f"outside the limit '{limit}', got .*'a'"):
                verb(params)
        with pytest.raises(rl.SpaceError, match="design: params: outside the limit"):
            rl.Optimizer(SPACES["function"], 10, design=[params])
    assert optimizer.events == []


def test_rounding_does_not_matter_to_what_is_given() -> None:
    space = rl.Space(PLANE, where=["a + b <= 0.3"])
    assert 0.1 + 0.2 > 0.3
    space.validate({"a": 0.1, "b": 0.2})
    strict = rl.Space({"a": rl.Int(0, 3), "b": rl.Int(0, 3)}, where=["a < b"])
    with pytest.raises(rl.SpaceError, match="a < b"):
        strict.validate({"a": 1, "b": 1})


def test_json_and_pickle() -> None:
    space = SPACES["ring"]
    assert rl.Space.from_json(json.loads(json.dumps(space.to_json()))) == space
    assert pickle.loads(pickle.dumps(space)) == space
    assert eval(repr(space), {"Space": rl.Space, "Float": rl.Float}) == space
    assert rl.Space(PLANE).to_json().keys() == {"parameters"}  # as it was before there were limits
    for where in ("a <= 1", [{"function": "f"}], [3]):
        with pytest.raises(rl.SpaceError, match="where: "):
            rl.Space.from_json(rl.Space(PLANE).to_json() | {"where": where})


def test_a_function_is_given_again(tmp_path: Path) -> None:
    space = SPACES["function"]
    optimizer = rl.Optimizer(space, 20)
    for _ in range(6):
        optimizer.tell(optimizer.ask(), 1.0)
    text = optimizer.to_json()
    assert rl.Optimizer.from_json(text, space=space).ask() == optimizer.ask()
    message = "space: it has limits that are functions, 'above': give the same space"
    with pytest.raises(rl.ConfigError, match=message):
        rl.Optimizer.from_json(text)
    with pytest.raises(rl.ConfigError, match="need the one that was stored"):
        rl.Optimizer.from_json(text, space=rl.Space(PLANE, where=[above]))
    path = tmp_path / "s.sqlite"
    with rl.Study.open(path, "s", space=space, budget=20) as study:
        trial = study.ask()
        study.tell(trial, 1.0)
    with pytest.raises(rl.ConfigError, match=f"study 's': {message}"):
        rl.Study.open(path, "s")
    with rl.Study.open(path, "s", space=space) as study:
        assert study.trials == [trial]
    with pytest.raises(rl.ConfigError, match="space"):
        rl.Study.open(path, "s", space=rl.Space(PLANE, where=["a + b <= 1.5"]))


def test_a_study_with_limits_tells_which_ones_differ(tmp_path: Path) -> None:
    path = tmp_path / "s.sqlite"
    rl.Study.open(path, "s", space=simplex(2), budget=20).close()
    rl.Study.open(path, "s", space=simplex(2)).close()
    with pytest.raises(rl.ConfigError, match=r"space: where .*x0 \+ x1 <= 1.* there, .* here"):
        rl.Study.open(path, "s", space=rl.Space(dict(simplex(2).parameters)))


def test_fixed_columns_and_limits() -> None:
    space = simplex(3)
    part = Slice(space, {0: 0.5})
    points = part.drawn(20, np.random.default_rng(0))
    assert (points[:, 0] == 0.5).all()
    assert space.keeps(points).all()
