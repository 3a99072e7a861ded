"""The search against brute force, on random posteriors over spaces of every kind."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from regretless.defaults import NEWEST, SearchRules
from regretless.horizon import Horizon
from regretless.kernels import SE, Kernel, Matern, Rippled
from regretless.model import GP, Data, Hyper, Model
from regretless.policies import (
    FEASIBLE,
    Candidates,
    Gate,
    Policy,
    PolicyInput,
    PosteriorScore,
    Rows,
    Score,
)
from regretless.search import Found, candidates, maximise, same_point

Array = NDArray[np.float64]


@dataclass(frozen=True)
class State:
    """A posterior that somebody might meet, and how many evaluations are left."""

    space: rl.Space
    gp: GP
    remaining: int

    def score(self, policy: Policy | None = None, seed: int = 0) -> Score:
        context = PolicyInput(
            posterior=self.gp,
            rows=len(self.gp.data),
            horizon=Horizon(len(self.gp.data) + self.remaining, len(self.gp.data)),
            best_observation=float(self.gp.data.y.max()),
            unit=1.0,
            rng=np.random.default_rng(seed),
            draw=lambda: np.full(self.space.dim, 0.5),
            highest=lambda width: self._highest(width),
            defaults=NEWEST,
        )
        return (policy or rl.EIC()).score(context)

    def _highest(self, width: float) -> tuple[Array, float]:
        x = np.random.default_rng(0).random((4000, self.space.dim))
        mu, sigma = self.gp.predict(x)
        upper = mu + width * self.gp.omega * sigma
        return x[np.argmax(upper)], float(upper.max())

    rules: SearchRules = NEWEST.search

    def found(self, score: Score, seed: int = 0, brief: bool = False) -> Found:
        rng = np.random.default_rng(seed)
        begin = candidates(self.space, self.gp, rng, score.width, self.rules)
        return maximise(score, self.space, begin, rng, self.rules, brief)

    def search(self, score: Score, seed: int = 0) -> tuple[Array, float]:
        """The point found, checked to be one that can be tried and feasible, and its value."""
        found = self.found(score, seed)
        assert found.feasible
        np.testing.assert_array_equal(self.space.canonical(found.x[None, :])[0], found.x)
        if found.row is None:
            assert score(found.x[None, :])[1][0] >= FEASIBLE
        else:
            np.testing.assert_array_equal(self.gp.data.x[found.row], found.x)
        return found.x, found.value


def state(space: rl.Space, seed: int, kernel: Kernel | None = None) -> State:
    """Few or many points, in part clustered, rough or smooth, quiet or noisy, early or late."""
    rng = np.random.default_rng([77, seed])
    count = int(rng.integers(4, 120))
    if kernel is None:
        start = Model("matern52").start(space.columns, NEWEST.fit).kernel
        kernel = start.with_theta(start.theta + rng.uniform(-1.6, 0.7, len(start.theta)))
    noise = 10 ** rng.uniform(-5, -0.5)
    x = space.spread(rng.random((count, space.dim)))
    if rng.random() < 0.5:
        near = x[rng.integers(count // 2)] + 0.05 * rng.standard_normal((count, space.dim))
        x[count // 2 :] = space.canonical(np.clip(near, 0, 1))[count // 2 :]
    root = np.linalg.cholesky(kernel.gram(x) + 1e-7 * np.eye(count))
    y = root @ rng.standard_normal(count) + np.sqrt(noise) * rng.standard_normal(count)
    remaining = int(np.exp(rng.uniform(0, np.log(500))))
    return State(space, GP.of(Data.of(x, y), Hyper(kernel, noise, 1.0, None)), remaining)


def cube(dim: int, seed: int) -> State:
    rng = np.random.default_rng([78, seed])
    shortest, longest = (0.08, 2.0) if dim == 2 else (0.2, 4.0)
    scales = tuple(np.exp(rng.uniform(np.log(shortest), np.log(longest), dim)).tolist())
    kernel = SE(scales) if rng.random() < 0.5 else Matern(scales)
    return state(rl.Space({f"x{i}": rl.Float(0, 1) for i in range(dim)}), seed, kernel)


def rippled(dim: int, seed: int) -> State:
    rng = np.random.default_rng([79, seed])
    scales, share, ratio = (
        np.exp(rng.uniform(np.log(low), np.log(high), size)).tolist()
        for low, high, size in ((0.2, 1.5, dim), (0.02, 0.4, None), (0.05, 0.25, None))
    )
    kernel = Rippled(tuple(scales), None, share, ratio)
    return state(rl.Space({f"x{i}": rl.Float(0, 1) for i in range(dim)}), seed, kernel)


def best_of(score: Score, points: Array) -> float:
    """The best feasible value among many points; -inf where none is feasible."""
    best = -np.inf
    for part in np.array_split(points, max(1, len(points) // 20_000)):
        value, slack = score(part)
        best = max(best, float(np.where(slack >= FEASIBLE, value, -np.inf).max()))
    return best


def square(side: int) -> Array:
    return np.stack(np.meshgrid(*[np.linspace(0, 1, side)] * 2), axis=-1).reshape(-1, 2)


# --- the cube -------------------------------------------------------------------------------------


def misses(dim: int, seeds: range, points: Callable[[int], Array], tolerance: float) -> list[int]:
    """The states in which the search finds less than brute force does."""
    out = []
    for seed in seeds:
        here = cube(dim, seed)
        score = here.score()
        if here.search(score, seed)[1] < best_of(score, points(seed)) - tolerance:
            out.append(seed)
    return out


def test_two_dimensions_against_a_grid() -> None:
    """Values are logarithms of EI: 1e-3 is a share of 0.1 %."""
    grid = square(150)
    assert misses(2, range(30), lambda seed: grid, 1e-3) == []


def test_six_dimensions_against_random_points() -> None:
    def points(seed: int) -> Array:
        return np.random.default_rng([1, seed]).random((10_000, 6))

    assert misses(6, range(30), points, 1e-9) == []


@pytest.mark.slow
def test_two_dimensions_against_a_million_points_in_300_states() -> None:
    grid = square(1000)
    assert len(misses(2, range(300), lambda seed: grid, 1e-3)) <= 3


@pytest.mark.slow
def test_six_dimensions_against_200_000_points_in_300_states() -> None:
    def points(seed: int) -> Array:
        return np.random.default_rng([1, seed]).random((200_000, 6))

    assert len(misses(6, range(300), points, 1e-9)) <= 3


@pytest.mark.parametrize("dim", [1, 3, 12])
def test_other_dimensions_against_random_points(dim: int) -> None:
    def points(seed: int) -> Array:
        return np.random.default_rng([1, seed]).random((5_000, dim))

    assert misses(dim, range(8), points, 1e-9) == []


@pytest.mark.parametrize(
    "policy",
    [
        rl.EI(),
        rl.AEI(),
        rl.GPUCB(),
        rl.IDS(),
        rl.GPTS(features=256),
        rl.EIC(incumbent="quantile"),
    ],
    ids=lambda policy: policy.name,
)
def test_other_scores_against_random_points(policy: Policy) -> None:
    points = np.random.default_rng(2).random((5_000, 3))
    for seed in range(6):
        here = cube(3, seed)
        score = here.score(policy, seed)
        assert here.search(score, seed)[1] >= best_of(score, points) - 1e-9


@pytest.mark.parametrize("policy", [rl.EIC(), rl.EI(), rl.GPUCB()], ids=lambda p: p.name)
@pytest.mark.parametrize("dim", [2, 3])
def test_hills_of_a_ripple_too_narrow_for_points_spread_evenly(policy: Policy, dim: int) -> None:
    """Against points everywhere and around each sampled one."""
    rng = np.random.default_rng(4)
    for seed in range(12):
        here = rippled(dim, seed)
        score, scales = here.score(policy, seed), here.gp.hyper.kernel.scales(dim)
        x = here.gp.data.x[rng.integers(len(here.gp.data), size=6000)]
        x = x + scales * rng.standard_normal(x.shape) * rng.uniform(0, 1, (6000, 1))
        points = np.vstack([rng.random((6000, dim)), np.clip(x, 0, 1)])
        assert here.search(score, seed)[1] >= best_of(score, points) - 0.01


@pytest.mark.parametrize("dim", [2, 3, 6])
def test_the_brief_search_for_the_highest_bound(dim: int) -> None:
    points = np.random.default_rng(3).random((10_000, dim))
    for seed in range(20):
        here = cube(dim, seed)
        score = here.score(rl.GPUCB(beta=2.0))
        found = here.found(score, seed, brief=True)
        assert found.value >= best_of(score, points) - 0.01  # of a signal with sd 1


def test_a_needle_is_found_from_outside_the_gate() -> None:
    """One evaluation left, and all that is worth it lies between two points, in a tiny corner."""
    x = np.array([[0.2] * 4, [0.7] * 4, [0.8, *[0.7] * 3]])
    gp = GP.of(Data.of(x, np.array([1.0, 0.97, 0.97])), Hyper(SE((0.1,) * 4), 1e-4, 1.0, None))
    here = State(rl.Space({name: rl.Float(0, 1) for name in "abcd"}), gp, 1)
    score = here.score()
    assert best_of(score, np.random.default_rng(0).random((20_000, 4))) == -np.inf
    for seed in range(5):
        found, _ = here.search(score, seed)
        np.testing.assert_allclose(found, [0.75, 0.7, 0.7, 0.7], atol=0.06)


# --- discrete and mixed spaces --------------------------------------------------------------------

LETTERS = list("abcdef")
FINITE = {
    "integers": rl.Space({name: rl.Int(0, 19) for name in "abc"}),
    "log integers": rl.Space({"a": rl.Int(1, 200, log=True), "b": rl.Int(0, 80)}),
    "mixed": rl.Space(
        {
            "a": rl.Int(0, 15),
            "b": rl.Categorical(LETTERS),
            "c": rl.Ordinal([1, 2, 4, 8]),
            "d": rl.Float(0, 1, step=0.1),
        }
    ),
    "steps": rl.Space({name: rl.Float(0, 1, step=0.01) for name in "ab"}),
}
CATEGORIES = rl.Space({name: rl.Categorical(LETTERS) for name in "abcde"})


UNLISTED = NEWEST.search._replace(enumerate_work=0)


@pytest.mark.parametrize("name", FINITE)
def test_finite_spaces_that_are_too_large_to_list(name: str) -> None:
    space = FINITE[name]
    assert space.size is not None
    assert 3000 < space.size < 20_000
    for seed in range(10):
        here = replace(state(space, seed), rules=UNLISTED)
        score = here.score()
        assert here.search(score, seed)[1] >= best_of(score, space.grid()) - 1e-3


def test_choices_without_an_order() -> None:
    """Nothing leads from one to the next here: a share of the searches may end in second place."""
    gaps = []
    for seed in range(30):
        here = replace(state(CATEGORIES, seed), rules=UNLISTED)
        score = here.score()
        gaps.append(best_of(score, CATEGORIES.grid()) - here.search(score, seed)[1])
    assert np.mean(np.array(gaps) < 1e-9) >= 0.85
    assert max(gaps) < 0.5


MIXED = {
    "choices": rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1), "k": rl.Categorical(LETTERS)}),
    "integers": rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1), "k": rl.Int(1, 9)}),
    "many integers": rl.Space({"x": rl.Int(0, 10**6), "y": rl.Int(0, 3000), "k": rl.Int(1, 2)}),
}


@pytest.mark.parametrize("name", MIXED)
def test_mixed_spaces(name: str) -> None:
    space = MIXED[name]
    levels = space.levels[2]
    assert levels is not None
    grid = square(60)
    whole = space.canonical(np.vstack([np.c_[grid, np.full(len(grid), u)] for u in levels]))
    for seed in range(10):
        here = replace(state(space, seed), rules=UNLISTED)
        score = here.score()
        assert here.search(score, seed)[1] >= best_of(score, whole) - 1e-3


@pytest.mark.parametrize("policy", [rl.EIC(), rl.GPTS(features=64)], ids=["eic", "gp-ts"])
def test_small_finite_spaces_are_searched_completely(policy: Policy) -> None:
    space = rl.Space({"a": rl.Int(0, 30), "b": rl.Categorical(LETTERS), "c": rl.Int(3, 3)})
    for seed in range(20):
        here = state(space, seed)
        score = here.score(policy)
        assert here.search(score, seed)[1] == pytest.approx(best_of(score, space.grid()), abs=1e-9)


# --- what holds anywhere --------------------------------------------------------------------------


@pytest.mark.parametrize("space", [*FINITE.values(), *MIXED.values(), cube(6, 0).space])
def test_the_same_generator_the_same_point(space: rl.Space) -> None:
    here = state(space, 3)
    score = here.score()
    (first, value), (second, again) = here.search(score, 5), here.search(score, 5)
    np.testing.assert_array_equal(first, second)
    assert value == again


def test_what_is_found_is_as_good_as_every_sampled_point() -> None:
    for seed in range(40):
        here = cube(4, seed)
        score = here.score()
        value, slack = score.at_rows(slice(None))
        assert here.search(score)[1] >= value[slack >= FEASIBLE].max()


def test_a_single_point_is_all_there_is() -> None:
    here = state(rl.Space({"a": rl.Int(4, 4), "b": rl.Categorical(["only"])}), 0)
    np.testing.assert_array_equal(here.search(here.score())[0], here.gp.data.x[0])


def test_where_nothing_is_feasible_it_says_so() -> None:
    """xi may be set to what no point reaches, by a lucky observation say."""
    here = cube(2, 0)
    gate = here.score()
    assert isinstance(gate, PosteriorScore)
    shut = PosteriorScore(here.gp, 1.0, gate.utility, constraints=(Gate(50.0, -1.0, 1.0),))
    found = here.found(shut)
    assert not found.feasible


def test_merging_looks_at_close_points_only() -> None:
    """A model that has seen nothing but noise can't tell points apart, and must not stop at one."""
    x = np.array([[0.5], [0.56], [0.9]])
    gp = GP.of(Data.of(x, np.zeros(3)), Hyper(SE((50.0,)), 10.0, 1e-6, None))
    here = State(rl.Space({"x": rl.Float(0, 1)}), gp, 1)
    score, begin = here.score(rl.EI()), Candidates(gp, np.zeros((0, 1)))
    assert same_point(score, begin, np.array([0.52]), 1, NEWEST.merge) in (0, 1)
    assert same_point(score, begin, np.array([0.70]), 1, NEWEST.merge) is None
    assert same_point(score, begin, np.array([0.52]), 10**12, NEWEST.merge) is None
    for away, same in ((0.049, 2), (0.051, None)):  # a twentieth of the range
        assert same_point(score, begin, np.array([0.9 + away]), 1, NEWEST.merge) == same
        assert same_point(score, begin, np.array([0.9 - away]), 1, NEWEST.merge) == same


def test_points_are_merged_that_all_evaluations_left_could_not_tell_apart() -> None:
    """Below the standard error of their mean, noise / sqrt(m), and not above."""
    x = np.array([[0.2], [0.5], [0.8]])
    gp = GP.of(Data.of(x, np.array([0.0, 1.0, 0.4])), Hyper(SE((0.3,)), 0.04, 2.0, None))
    score = State(rl.Space({"x": rl.Float(0, 1)}), gp, 1).score(rl.EI())
    near, begin = np.array([0.54]), Candidates(gp, np.zeros((0, 1)))
    pair = np.array([[0.54], [0.5]])
    mu, cov = gp.predict(pair)[0], 2.0 * gp.covariance(pair)
    apart = np.sqrt((mu[0] - mu[1]) ** 2 + cov[0, 0] + cov[1, 1] - 2.0 * cov[0, 1])
    most = int((gp.noise_sd / apart) ** 2)
    assert most > 4
    assert same_point(score, begin, near, most, NEWEST.merge) == 1
    assert same_point(score, begin, near, most + 1, NEWEST.merge) is None


def test_of_several_points_that_are_the_same_the_best_feasible_one_is_taken() -> None:
    x = np.array([[0.47], [0.5], [0.53]])
    gp = GP.of(Data.of(x, np.array([0.0, 0.1, 0.3])), Hyper(SE((5.0,)), 1.0, 1.0, None))
    score = State(rl.Space({"x": rl.Float(0, 1)}), gp, 1).score(rl.EI())
    value, _ = score.at_rows(slice(None))
    here, none = np.array([0.505]), np.zeros((0, 1))
    assert same_point(score, Candidates(gp, none), here, 1, NEWEST.merge) == int(np.argmax(value))
    first_two = Candidates(gp, none, rows=np.array([0, 1]))
    assert same_point(score, first_two, here, 1, NEWEST.merge) in (0, 1)
    last_two = Candidates(gp, none, rows=np.array([1, 2]))
    assert same_point(score, last_two, here, 1, NEWEST.merge) in (1, 2)
    shut = score.within(Gate(50.0, -1.0, 1.0))
    assert same_point(shut, Candidates(gp, none), here, 1, NEWEST.merge) is None


# --- the parts ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("size", "width", "complete"),
    [(2048, 10**6, True), (2049, 10**6, False), (8000, 50, True), (8001, 50, False)],
)
def test_how_large_a_finite_space_is_listed(size: int, width: int, complete: bool) -> None:
    """Up to 2048 points, or 400,000 terms, whichever is more."""
    here = state(rl.Space({"n": rl.Int(1, size)}), 0)
    begin = candidates(here.space, here.gp, np.random.default_rng(0), width, NEWEST.search)
    assert begin.complete is complete
    assert (len(begin.others) == size) is complete


@pytest.mark.parametrize(("width", "count"), [(1, 2048), (80, 500), (10**4, 256)])
def test_candidates_are_fewer_where_each_costs_more_and_some_are_on_faces(
    width: int, count: int
) -> None:
    here = cube(4, 0)
    rng = np.random.default_rng(0)
    others = candidates(here.space, here.gp, rng, width, NEWEST.search).others
    assert others.shape == (count, 4)
    outside = ((others == 0.0) | (others == 1.0)).mean()
    assert 0.1 < outside < 0.25  # every other point is pushed out, by a half of the range
    assert ((others >= 0.0) & (others <= 1.0)).all()


@dataclass(frozen=True)
class Watched(Score):
    """A score that notes where it is looked at."""

    inner: PosteriorScore
    seen: list[Array]
    flat: bool = False

    @property
    def width(self) -> int:
        return self.inner.width

    def scales(self, dim: int) -> Array:
        return self.inner.scales(dim)

    def _noted(self, x: Array, value: Array) -> Array:
        self.seen.append(x)
        return np.zeros_like(value) if self.flat else value

    def __call__(self, x: Array) -> tuple[Array, Array]:
        value, slack = self.inner(x)
        return self._noted(x, value), slack

    def at_rows(self, rows: Rows) -> tuple[Array, Array]:
        value, slack = self.inner.at_rows(rows)
        return self._noted(self.inner.posterior.points[rows], value), slack

    def ascend(self, x: Array, barrier: float) -> tuple[Array, Array]:
        value, slope = self.inner.ascend(x, barrier)
        return self._noted(x, value), np.zeros_like(slope) if self.flat else slope


def test_no_climb_leaves_the_cube() -> None:
    for seed in range(6):
        here = cube(3, seed)
        inner = here.score(rl.EI())
        assert isinstance(inner, PosteriorScore)
        watched = Watched(inner, [])
        here.found(watched, seed)
        looked_at = np.vstack(watched.seen)
        assert len(looked_at) > 500
        assert looked_at.min() >= 0.0
        assert looked_at.max() <= 1.0


def test_of_points_that_are_equally_good_a_sampled_one_is_taken() -> None:
    here = cube(2, 1)
    inner = here.score(rl.EI())
    assert isinstance(inner, PosteriorScore)
    assert here.found(Watched(inner, [], flat=True)).row == 0
    begin = Candidates(here.gp, here.gp.data.x[::-1].copy(), complete=True)
    rng = np.random.default_rng(0)
    flat = Watched(inner, [], flat=True)
    assert maximise(flat, here.space, begin, rng, NEWEST.search).row == 0


def test_the_search_looks_around_the_best_sampled_points() -> None:
    """Closer than points that are spread evenly come to each other."""
    here = rippled(3, 0)
    inner = here.score(rl.EI())
    assert isinstance(inner, PosteriorScore)
    value, _ = inner.at_rows(slice(None))
    best = here.gp.data.x[np.argsort(-value)[:8]]
    near = []
    for brief in (False, True):
        watched = Watched(inner, [])
        here.found(watched, brief=brief)
        new = np.vstack([x for x in watched.seen if len(x) > 64])  # a climb has fewer at once
        away = np.abs(new[:, None] - best) / np.clip(inner.scales(3), 0.02, 1.0)
        near.append(int(((away.max(axis=2) > 0.0) & (away.max(axis=2) < 1.0)).any(axis=1).sum()))
    assert near[0] > near[1] + 60  # a brief search saves that
