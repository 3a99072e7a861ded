"""Designs: the paper's grid by hand, and properties of the others on mixed spaces."""

import math
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from regretless import Categorical, ConfigError, Float, Int, Optimizer, Ordinal, Space
from regretless.defaults import defaults_of
from regretless.design import (
    Start,
    budget_levels,
    central,
    centred_grid,
    choices_first,
    grid,
    grid_levels,
    latin_hypercube,
    mirrored,
    sobol,
)
from regretless.horizon import Horizon
from regretless.space import Scalar

EVEN = [sobol, latin_hypercube]
SAMPLERS = [*EVEN, choices_first]
seeds = st.integers(0, 2**32)


def cube(dim: int) -> Space:
    return Space({f"x{j}": Float(0.0, 1.0) for j in range(dim)})


@st.composite
def finite_spaces(draw: st.DrawFn) -> Space:
    parameter = st.one_of(
        st.builds(Int, st.just(1), st.integers(1, 9), log=st.booleans()),
        st.integers(1, 5).map(lambda k: Categorical(range(k))),
        st.integers(1, 5).map(lambda k: Ordinal(range(k))),
        st.integers(1, 5).map(lambda k: Float(0.0, float(k), step=0.5)),
    )
    columns = draw(st.lists(parameter, min_size=1, max_size=3))
    return Space({f"p{j}": p for j, p in enumerate(columns)})


@st.composite
def spaces(draw: st.DrawFn) -> Space:
    space = draw(finite_spaces())
    extra = {"x": Float(0.1, 10.0, log=True)} if draw(st.booleans()) else {}
    return Space({**space.parameters, **extra})


# ---------------------------------------------------------------------------------------------
# The cube


@pytest.mark.parametrize(
    ("n0", "dim", "levels"),
    [
        (16, 2, (4, 4)),  # the paper's three designs
        (36, 4, (3, 3, 2, 2)),
        (64, 6, (2, 2, 2, 2, 2, 2)),
        (24, 3, (4, 3, 2)),
        (8, 2, (4, 2)),
        (13, 1, (13,)),
        (1, 3, (1, 1, 1)),
        (6, 4, (2, 2, 1, 1)),
        (7, 2, (3, 2)),  # 7 × 1 is no grid: the nearest count below is 6
        (10, 2, (3, 3)),  # nor is 5 × 2
        (1_000_003, 3, (100, 100, 100)),
    ],
)
def test_grid_levels_by_hand(n0: int, dim: int, levels: tuple[int, ...]) -> None:
    assert grid_levels(n0, dim) == levels


@given(st.integers(1, 3000), st.integers(1, 8))
def test_grid_levels_are_even_and_not_above(n0: int, dim: int) -> None:
    levels = grid_levels(n0, dim)
    assert len(levels) == dim
    assert list(levels) == sorted(levels, reverse=True)
    assert levels[0] <= 2 * levels[-1]
    assert n0 / 2 < math.prod(levels) <= n0  # a power of two is always to be had


def test_budget_levels_are_of_the_order_of_the_root() -> None:
    assert budget_levels(216, 2) == (4, 4)  # the paper's n_0 = 16
    assert budget_levels(264, 6) == (2,) * 6  # and 64
    assert budget_levels(1, 3) == (1, 1, 1)
    assert budget_levels(10_000, 2, constant=2.0) == (20, 20)
    for budget in (10**k for k in range(1, 10)):
        assert math.prod(budget_levels(budget, 2)) <= 2.25 * math.sqrt(budget)


def test_centred_grid_is_the_paper_s() -> None:
    assert centred_grid((2, 2)).tolist() == [[0.25, 0.25], [0.25, 0.75], [0.75, 0.25], [0.75, 0.75]]
    assert centred_grid((3, 1)).tolist() == [[1 / 6, 0.5], [0.5, 0.5], [5 / 6, 0.5]]
    assert centred_grid(grid_levels(36, 4)).shape == (36, 4)


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4))
def test_centred_grid_covers_every_box_once(levels: list[int]) -> None:
    X = centred_grid(levels)
    boxes = {tuple(box) for box in np.floor(X * levels).astype(int)}
    assert len(boxes) == len(X) == math.prod(levels)
    assert np.allclose(X.mean(axis=0), 0.5)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: grid_levels(0, 2), "n0: need at least 1, got 0"),
        (lambda: grid_levels(4, 0), "dim: need at least 1, got 0"),
        (lambda: grid_levels(4.0, 2), r"n0: need a whole number, got 4\.0"),
        (lambda: budget_levels(-5, 2), "budget: .* got -5"),
        (lambda: budget_levels(5, 2, 0.0), r"constant: must be a positive number, got 0\.0"),
        (lambda: budget_levels(5, 2, math.nan), "constant: .* got nan"),
        (lambda: centred_grid([]), "levels: need one per dimension"),
        (lambda: centred_grid([2, 0]), "levels: .* got 0"),
        (
            lambda: grid(cube(2), (2, 2, 2)),
            r"levels: need one per parameter \(2\), got \[2, 2, 2\]",
        ),
        (lambda: grid(cube(2), True), "levels: .* got True"),
        (lambda: sobol(cube(2), 0), "n: need at least 1, got 0"),
        (lambda: latin_hypercube(cube(2), -1), "n: .* got -1"),
    ],
)
def test_bad_settings_are_named(call, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        call()


# ---------------------------------------------------------------------------------------------
# Spaces


def test_grid_on_the_cube_is_the_centred_grid() -> None:
    assert np.allclose(grid(cube(3), 4), centred_grid((4, 4, 4)), rtol=0, atol=1e-14)
    assert len(grid(cube(4), grid_levels(36, 4))) == 36


@given(spaces(), st.integers(1, 5))
def test_grid_has_no_repeats_and_no_more_levels_than_there_are(space: Space, m: int) -> None:
    X = grid(space, m)
    assert X.tobytes() == space.canonical(X).tobytes()
    assert len(np.unique(X, axis=0)) == len(X)
    for j, levels in enumerate(space.levels):
        used = len(np.unique(X[:, j]))
        assert used == m if levels is None else used <= min(m, len(levels))
        if levels is not None and not space.ordered[j]:
            assert used == min(m, len(levels))


@pytest.mark.parametrize("sampler", SAMPLERS)
@given(space=spaces(), n=st.integers(1, 40), seed=seeds)
@settings(max_examples=40)
def test_samplers_give_distinct_canonical_points(sampler, space: Space, n: int, seed: int) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        X = sampler(space, n, seed)
    assert X.shape == (n if space.size is None else min(n, space.size), space.dim)
    assert X.tobytes() == space.canonical(X).tobytes()
    assert len(np.unique(X, axis=0)) == len(X)
    assert X.tobytes() == sampler(space, n, seed).tobytes()


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_seeds_matter_and_may_be_addressed(sampler) -> None:
    space = cube(3)
    assert not np.array_equal(sampler(space, 8, 1), sampler(space, 8, 2))
    assert not np.array_equal(sampler(space, 8, [1, 0]), sampler(space, 8, [1, 1]))
    assert np.array_equal(
        sampler(space, 8, [1, 2]), sampler(space, 8, np.random.default_rng([1, 2]))
    )


@pytest.mark.parametrize("sampler", SAMPLERS)
def test_an_almost_exhausted_space_is_filled(sampler) -> None:
    space = Space({"a": Int(1, 10), "b": Categorical(list("abcdefghij"))})
    X = sampler(space, 99, 0)
    assert len(np.unique(X, axis=0)) == 99
    assert {tuple(x) for x in sampler(space, 500, 0)} == {tuple(x) for x in space.grid()}


@given(st.integers(1, 30), st.integers(1, 5), seeds)
def test_latin_hypercube_has_one_point_per_slice(n: int, dim: int, seed: int) -> None:
    slices = np.floor(latin_hypercube(cube(dim), n, seed) * n)
    assert all(sorted(column) == list(range(n)) for column in slices.T)


@pytest.mark.parametrize("sampler", EVEN)
def test_levels_get_their_even_share(sampler) -> None:
    space = Space({"x": Float(0, 1), "c": Categorical(list("abcd")), "n": Int(1, 8)})
    X = sampler(space, 64, 3)
    assert np.unique(X[:, 1], return_counts=True)[1].tolist() == [16] * 4
    assert np.unique(X[:, 2], return_counts=True)[1].tolist() == [8] * 8


def test_sobol_beats_chance() -> None:
    from scipy.stats import qmc

    ours = qmc.discrepancy(sobol(cube(4), 50, 0))
    chance = [qmc.discrepancy(np.random.default_rng(s).random((50, 4))) for s in range(10)]
    assert ours < min(chance)


def test_a_longer_sobol_design_starts_with_the_shorter() -> None:
    assert np.array_equal(sobol(cube(3), 21, 5)[:7], sobol(cube(3), 7, 5))


def test_each_choice_comes_first_in_the_middle_of_all_else() -> None:
    space = Space(
        {
            "rate": Float(1e-3, 10.0, log=True),
            "kind": Categorical(["u", "v", "w"]),
            "on": Categorical([True, False]),
            "only": Categorical(["this"]),
            "n": Int(1, 9),
        }
    )
    for seed in range(8):
        X = choices_first(space, 9, seed)
        points = [space.decode(x) for x in X]
        assert sorted(str(p["kind"]) for p in points[:3]) == ["u", "v", "w"]
        assert {p["on"] for p in points[:3]} == {True, False}
        assert {(p["rate"], p["n"]) for p in points[:3]} == {(0.1, 5)}
        assert np.array_equal(X[3:], sobol(space, 9, seed)[:6])
    orders = {choices_first(space, 3, seed).tobytes() for seed in range(8)}
    assert len(orders) > 3  # no choice is always the first


def test_without_room_for_all_choices_some_are_left_out() -> None:
    space = Space({"x": Float(0, 1), "c": Categorical(range(10))})
    X = choices_first(space, 4, 0)
    assert set(X[:, 0]) == {0.5}
    assert len(set(X[:, 1])) == 4
    assert np.array_equal(choices_first(cube(2), 5, 3), sobol(cube(2), 5, 3))  # there are none


@pytest.mark.parametrize(
    ("dim", "budget", "design", "n0", "size", "longest"),
    [
        (1, 100, "auto", None, 10, 10),  # a grid of sqrt(budget) points for one or two numbers
        (2, 100, "auto", None, 9, 9),
        (2, 35, "auto", None, 4, 4),
        (2, 15, "auto", None, 3, 3),  # four would be more than a quarter
        (3, 100, "auto", None, 5, 8),  # d + 2, up to 2 d + 2
        (7, 100, "auto", None, 9, 16),
        (7, 40, "auto", None, 9, 10),  # a quarter of the budget at most
        (7, 20, "auto", None, 5, 5),
        (7, 2, "auto", None, 1, 1),
        (7, 100, "auto", 4, 4, 4),
        (2, 100, "auto", 7, 7, 7),  # n0 asks for no grid
        (3, 100, "sobol", None, 10, 10),  # sqrt(budget) ...
        (3, 101, "sobol", None, 11, 11),
        (3, 40, "sobol", None, 8, 8),  # ... or 2 d + 2
        (3, 20, "lhs", None, 5, 5),
        (3, 100, "lhs", 6, 6, 6),
        (2, 100, "grid", None, 9, 9),
        (2, 100, "grid", 6, 6, 6),
    ],
)
def test_how_many_points_a_run_of_version_1_starts_with(
    dim: int, budget: int, design: str, n0: int | None, size: int, longest: int
) -> None:
    start = Start(cube(dim), Horizon(budget), design, n0, 0, defaults_of(1).start)
    assert (start.size, start.longest, len(start.points)) == (size, longest, longest)
    assert not start.from_middle


@pytest.mark.parametrize(
    ("dim", "budget", "design", "size", "longest"),
    [
        (7, 200, "auto", 9, 16),  # as in version 1
        (12, 200, "auto", 14, 26),
        (13, 200, "auto", 14, 26),  # more parameters, no more points
        (100, 200, "auto", 14, 26),
        (100, 40, "auto", 10, 10),  # a quarter of the budget at most
        (50, 800, "sobol", 102, 102),  # a design that was asked for
    ],
)
def test_the_start_of_version_5_does_not_grow_beyond_12_parameters(
    dim: int, budget: int, design: str, size: int, longest: int
) -> None:
    start = Start(cube(dim), Horizon(budget), design, None, 0, defaults_of(5).start)
    assert (start.size, start.longest, len(start.points)) == (size, longest, longest)
    before = Start(cube(dim), Horizon(budget), design, None, 0, defaults_of(4).start)
    assert np.array_equal(start.points, before.points[:longest])


def test_branches_of_many_parameters_are_all_tried_in_version_5() -> None:
    """Half as many points as parameters that count, and at least one for each branch."""
    ways = [f"way {i}" for i in range(20)]
    own = {f"x{i}": Float(0.0, 1.0).when("way", way) for i, way in enumerate(ways)}
    shared = {f"y{i}": Float(0.0, 1.0) for i in range(40)}
    few = Space({"way": Categorical(ways[:2]), "x0": own["x0"], **shared})
    many = Space({"way": Categorical(ways), **own, **shared})
    sizes = [
        Start(space, Horizon(200), "auto", None, 0, defaults_of(version).start).size
        for space in (few, many)
        for version in (4, 5)
    ]
    assert sizes == [23, 8, 23, 20]


@pytest.mark.parametrize(
    ("dim", "budget", "size", "longest"),
    [
        (1, 100, 3, 4),  # 2 d + 2 while nothing is told ...
        (3, 100, 3, 8),
        (7, 100, 3, 16),
        (7, 40, 3, 10),  # ... at most a quarter of the budget
        (7, 20, 3, 5),
        (2, 15, 3, 3),  # too few for a grid
        (7, 8, 2, 2),
        (7, 2, 1, 1),
    ],
)
def test_a_run_of_version_3_starts_with_the_middle_and_a_mirrored_pair(
    dim: int, budget: int, size: int, longest: int
) -> None:
    space = cube(dim)
    start = Start(space, Horizon(budget), "auto", None, 5, defaults_of(3).start)
    assert start.from_middle
    assert (start.size, start.longest) == (size, longest)
    assert start.points[0].tolist() == [0.5] * dim
    assert np.array_equal(start.points, space.canonical(start.points))
    assert np.array_equal(start.points[:size], mirrored(space, size, 5))
    assert np.allclose(np.abs(start.points[1:size] - 0.5), 0.3)
    if size == 3:
        assert np.allclose(start.points[1] + start.points[2], 1.0)
    assert np.array_equal(start.points[size:], sobol(space, longest, 5))


@pytest.mark.parametrize("budget", [16, 100, 216])
def test_two_numbers_start_with_the_same_grid_in_version_3(budget: int) -> None:
    old, new = (
        Start(cube(2), Horizon(budget), "auto", None, 5, defaults_of(version).start)
        for version in (1, 3)
    )
    assert not new.from_middle
    assert np.array_equal(old.points, new.points)
    assert old.size == new.size > 3


def within(texts: list[str], dim: int = 3) -> Space:
    return Space({f"x{i}": Float(0.0, 1.0) for i in range(dim)}, where=texts)


def test_central_points_keep_the_limits_and_begin_in_the_middle() -> None:
    space = within(["x0 + x1 + x2 <= 1"])
    points = central(space, 5, seed=1)
    assert len(np.unique(points, axis=0)) == 5
    assert space.keeps(points).all()
    assert np.abs(points[0] - 0.25).max() < 0.12  # the mean of a simplex
    assert np.array_equal(points, central(space, 5, seed=1))
    hollow = within(["(x0 - 0.5)**2 + (x1 - 0.5)**2 + (x2 - 0.5)**2 >= 0.3"])
    assert hollow.keeps(central(hollow, 4)).all()
    few = Space({"a": Int(0, 2), "b": Int(0, 2)}, where=["a + b <= 1"])
    assert 1 <= len(central(few, 9)) <= 3


@pytest.mark.parametrize("version", [4, 5])
def test_a_run_within_limits_begins_in_the_middle_from_version_5_on(version: int) -> None:
    space, rules = within(["x0 * x1 <= 0.2"]), defaults_of(version).start
    start = Start(space, Horizon(60), "auto", None, 5, rules)
    assert start.from_middle == (version == 5)
    assert start.size == (3 if version == 5 else 5)
    assert len(start.points) >= start.longest
    assert space.keeps(start.points).all()
    free = Start(within([]), Horizon(60), "auto", None, 5, rules)
    assert not free.from_middle


def test_mirrored_pairs_take_all_diagonals() -> None:
    points = mirrored(cube(2), 99, seed=3)
    assert sorted(points.round(6).tolist()) == [
        [0.2, 0.2],
        [0.2, 0.8],
        [0.5, 0.5],
        [0.8, 0.2],
        [0.8, 0.8],
    ]
    seen = {mirrored(cube(3), 3, seed=seed).tobytes() for seed in range(20)}
    assert len(seen) > 3  # seeds take different diagonals
    few = Space({"n": Int(1, 2), "on": Ordinal([1, 2, 3])})
    points = mirrored(few, 9)
    assert len({tuple(x) for x in points.tolist()}) == len(points) <= 5
    assert np.array_equal(points, few.canonical(points))


def test_the_middle_of_a_space_of_version_3_is_a_point_of_it() -> None:
    space = Space({"rate": Float(1e-3, 10.0, log=True), "n": Int(1, 9), "size": Ordinal([1, 3, 9])})
    start = Start(space, Horizon(100), "auto", None, 0, defaults_of(3).start)
    assert space.decode(start.points[0]) == {"rate": 0.1, "n": 5, "size": 3}
    fixed = Space({"x": Float(0.0, 1.0), "only": Categorical(["this"])})
    start = Start(fixed, Horizon(100), "auto", None, 0, defaults_of(3).start)
    assert start.size == 3
    assert fixed.decode(start.points[0]) == {"x": 0.5, "only": "this"}


@pytest.mark.parametrize(("budget", "size", "longest"), [(100, 3, 8), (32, 3, 8), (8, 2, 2)])
def test_a_run_of_version_3_starts_with_each_choice_once(
    budget: int, size: int, longest: int
) -> None:
    space = Space(
        {
            "rate": Float(1e-3, 10.0, log=True),
            "kind": Categorical(["u", "v", "w"]),
            "on": Categorical([True, False]),
            "only": Categorical(["this"]),
        }
    )
    start = Start(space, Horizon(budget), "auto", None, 4, defaults_of(3).start)
    assert start.from_middle
    assert (start.size, start.longest) == (size, longest)
    assert np.array_equal(start.points, choices_first(space, longest, 4))
    first = [space.decode(x) for x in start.points[:size]]
    assert {p["rate"] for p in first} == {0.1}
    assert len({p["kind"] for p in first}) == size  # all three, where the budget allows it
    assert {p["on"] for p in first} == {True, False}


@pytest.mark.parametrize(
    ("dim", "budget", "design", "n0"),
    [
        (7, 100, "auto", 4),
        (2, 100, "auto", 7),
        (3, 100, "sobol", None),
        (3, 40, "sobol", None),
        (3, 20, "lhs", None),
        (3, 100, "lhs", 6),
        (2, 100, "grid", None),
        (2, 100, "grid", 6),
    ],
)
def test_a_start_that_was_asked_for_is_the_same_in_each_version(
    dim: int, budget: int, design: str, n0: int | None
) -> None:
    first, second = (
        Start(cube(dim), Horizon(budget), design, n0, 3, defaults_of(version).start)
        for version in (1, 2)
    )
    assert not second.from_middle
    assert (second.size, second.longest) == (first.size, first.longest)
    assert np.array_equal(second.points, first.points)


def test_a_list_of_points_is_a_start_of_version_3_too() -> None:
    points: list[dict[str, Scalar]] = [{"x0": 0.1, "x1": 0.9}, {"x0": 0.2, "x1": 0.3}]
    start = Start(cube(2), Horizon(9), points, None, 0, defaults_of(3).start)
    assert not start.from_middle
    assert (start.size, start.longest) == (2, 2)
    assert np.allclose(start.points, [[0.1, 0.9], [0.2, 0.3]], rtol=0, atol=1e-14)


# ---------------------------------------------------------------------------------------------
# Runs that begin with the start of version 3


def reasons(optimizer: Optimizer, count: int) -> list[str]:
    return [trial.decision.reason for trial in optimizer.ask(count)]


def test_version_3_goes_on_with_the_design_while_nothing_is_told() -> None:
    optimizer = Optimizer(cube(3), 100, seed=1, defaults=3)
    planned = Start(cube(3), Horizon(100), "auto", None, 1, defaults_of(3).start).points
    trials = optimizer.ask(8)
    assert [trial.decision.reason for trial in trials] == ["design"] * 8
    asked = np.array([optimizer.space.encode(trial.params) for trial in trials])
    assert np.array_equal(asked, planned[:8])  # the middle, a pair, and 5 Sobol points
    assert reasons(optimizer, 2) == ["design"] * 2  # there is still nothing to decide by
    optimizer.tell(trials[0], 1.0)
    assert "design" not in reasons(optimizer, 2)


def test_version_3_leaves_the_design_when_the_pair_and_a_result_are_there() -> None:
    for told in range(1, 3):
        optimizer = Optimizer(cube(3), 100, seed=1, defaults=3)
        optimizer.tell(optimizer.ask(told)[0], 1.0)
        assert reasons(optimizer, 3 - told) == ["design"] * (3 - told)
        assert "design" not in reasons(optimizer, 1)
    for told in range(3, 8):
        optimizer = Optimizer(cube(3), 100, seed=1, defaults=3)
        trials = optimizer.ask(told)
        optimizer.tell(trials[-1], 1.0)
        assert "design" not in reasons(optimizer, 1)


def test_version_3_tries_each_choice_before_it_decides() -> None:
    space = Space({"x": Float(0.0, 1.0), "kind": Categorical(["u", "v", "w"])})
    optimizer = Optimizer(space, 100, seed=1, defaults=3)
    for value in (0.3, 0.7, 0.5):
        trial = optimizer.ask()
        assert trial.decision.reason == "design"
        optimizer.tell(trial, value)
    assert {trial.params["kind"] for trial in optimizer.trials} == {"u", "v", "w"}
    assert optimizer.ask().decision.reason != "design"


def test_prior_data_are_a_start_of_version_3() -> None:
    optimizer = Optimizer(cube(3), 100, seed=1, defaults=3)
    for x in (0.1, 0.2, 0.3):
        optimizer.observe({"x0": x, "x1": 0.2, "x2": 0.3}, x)
    assert optimizer.ask().decision.reason != "design"
    space = Space({"x": Float(0.0, 1.0), "kind": Categorical(["u", "v", "w"])})
    optimizer = Optimizer(space, 100, seed=1, defaults=3)
    optimizer.observe({"x": 0.1, "kind": "u"}, 1.0)
    asked = []
    for _ in range(2):  # one of three points counts as made already
        asked.append(optimizer.ask())
        optimizer.tell(asked[-1], 0.5)
    assert [trial.decision.reason for trial in asked] == ["design"] * 2
    assert optimizer.ask().decision.reason != "design"


def test_a_number_of_points_holds_in_version_3() -> None:
    optimizer = Optimizer(cube(3), 100, seed=1, n0=4, defaults=3)
    found = []
    for value in (0.1, 0.4, 0.2, 0.3, 0.5):
        trial = optimizer.ask()
        found.append(trial.decision.reason)
        optimizer.tell(trial, value)
    assert found[:4] == ["design"] * 4
    assert found[4] != "design"
