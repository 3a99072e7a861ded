"""The fit to many points: a search on a subset, then a few steps on all points in blocks."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from oracles import apart, slopes
from regretless._internal.arrays import Array
from regretless.defaults import VERSIONS, FitRules, ManyRules
from regretless.kernels import SE
from regretless.model import Data, Hyper, Model, ensemble
from regretless.model.data import Entry
from regretless.model.evidence import evidence_value
from regretless.model.fit import Fit, Search, fit
from regretless.model.fit_many import blocks, fit_many, subset
from regretless.space import Categorical, Float, Parameter

OLD = VERSIONS[4].fit
NEW = OLD._replace(many=ManyRules(points=200, subset=200))
NUMBER, CHOICE = Float(0.0, 1.0), Categorical(["a", "b", "c"])


def rules(**many: int | float) -> FitRules:
    return OLD._replace(many=ManyRules(**many))  # type: ignore[arg-type]


def measured(count: int, dim: int, seed: int, noise: float = 0.2) -> Data:
    """Results of a run: a fifth all over the cube, the others closer and closer to a place."""
    rng = np.random.default_rng([count, dim, seed])
    width = 0.4 * np.exp(-3.0 * np.arange(count) / count)
    near = rng.random(dim) + width[:, None] * rng.standard_normal((count, dim))
    x = np.where(np.arange(count)[:, None] % 5 == 0, rng.random((count, dim)), near)
    x = np.abs(1.0 - np.abs(1.0 - x)) % 1.0  # reflected at the borders
    y = np.sin(x * rng.uniform(1.0, 6.0, dim)).sum(axis=1)
    y = (y - y.mean()) / y.std() + noise * rng.standard_normal(count)
    return Data.of(x, y)


def repeated(seed: int, known: bool = False) -> Data:
    """Replicates at some of 60 points."""
    rng = np.random.default_rng(seed)
    x = rng.random((60, 2))

    def entries() -> list[Entry]:
        return [
            (
                x[k % 60],
                float(x[k % 60, 0] + 0.1 * rng.standard_normal()),
                1.0,
                0.01 if known else None,
            )
            for k in range(110)
        ]

    return Data.fold(2, entries())


def exact(data: Data, found: Fit, model: Model, columns: list[Parameter]) -> float:
    """The log evidence of all data, with the priors."""
    search = Search((data,), model.start(columns, OLD), model, OLD)
    return -search.objective(search.clip(search.vector(found.hyper)))[0]


# --- parts of data --------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_parts_share_what_belongs_to_repeats(known: bool) -> None:
    data = repeated(1, known)
    half = np.arange(60) < 30
    parts = [data.part(np.flatnonzero(half)), data.part(np.flatnonzero(~half))]
    assert sum(part.observations for part in parts) == data.observations
    assert sum(part.repeats for part in parts) == data.repeats
    assert sum(part.scatter for part in parts) == pytest.approx(data.scatter)
    assert sum(part.constant for part in parts) == pytest.approx(data.constant)
    assert np.array_equal(np.vstack([part.x for part in parts]), data.x)


def test_the_subset_has_the_neighbours_of_the_best_result_and_a_spread() -> None:
    data = measured(500, 2, 1)
    rows = subset(data, 100)
    assert len(rows) == len(set(rows.tolist())) == 100
    assert np.array_equal(rows, subset(data, 100))
    away = np.linalg.norm(data.x - data.x[np.argmax(data.y)], axis=1)
    assert away[rows[:50]].max() <= np.sort(away)[50]
    assert np.ptp(data.x[rows[50:]], axis=0).min() > 0.6
    assert np.ptp(data.x[rows[:50]], axis=0).max() < 0.5


def test_blocks_hold_every_point_once_and_neighbours_together() -> None:
    rng = np.random.default_rng(2)
    x = rng.random((700, 2))
    data = Data.of(x, x[:, 0])
    hyper = Hyper(SE((0.1, 100.0)), 0.01, 1.0)  # only the first column matters
    parts = blocks(data, hyper, ManyRules(block=200))
    assert [len(part) for part in parts] == [175] * 4
    every = np.vstack([part.x for part in parts])
    assert sorted(map(tuple, every.tolist())) == sorted(map(tuple, x.tolist()))
    ends = sorted((float(part.x[:, 0].min()), float(part.x[:, 0].max())) for part in parts)
    assert all(before[1] < after[0] for before, after in pairwise(ends))
    assert blocks(data, hyper, ManyRules(block=700)) == [data]


# --- the evidence of several parts ----------------------------------------------------------------


@pytest.mark.parametrize("method", ["map", "ml"])
@pytest.mark.parametrize("known", [False, True])
def test_the_objective_of_parts_is_the_sum_of_theirs(method: str, known: bool) -> None:
    data, model = repeated(3, known), Model(method=method)  # type: ignore[arg-type]
    start = model.start([NUMBER] * 2, OLD)
    parts = [data.part(np.arange(25)), data.part(np.arange(25, 60))]
    search = Search(parts, start, model, OLD, profile=False)
    rng = np.random.default_rng(4)
    p = search.vector(start) + rng.uniform(-0.5, 0.5, len(search.bounds))
    hyper = search.hyper_at(p)
    plain = [replace(part, constant=0.0) for part in parts]
    values = [evidence_value(part, hyper, (0.0, 0.0), profile=False) for part in plain]
    a, b = model.signal_prior(OLD)
    prior = -a * np.log(hyper.omega2) - b / hyper.omega2
    value, gradient = search.objective(p)
    assert value == pytest.approx(search.penalty(p)[0] - sum(values) - prior, rel=1e-12)
    assert value == pytest.approx(search.screen(p), rel=1e-12)
    assert apart(gradient, slopes(search.screen, p, 1e-3)) <= 1e-6


# --- how good it is -------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize(("count", "dim"), [(260, 2), (400, 6)])
def test_loses_less_than_a_hundredth_of_a_nat_a_point(count: int, dim: int, seed: int) -> None:
    data, model, columns = measured(count, dim, seed), Model(), [NUMBER] * dim
    start = model.start(columns, OLD)
    quick = fit(data, start, model, NEW, first=True)
    slow = fit(data, start, model, OLD)
    assert quick.ok
    assert exact(data, quick, model, columns) >= exact(data, slow, model, columns) - count / 100


@pytest.mark.parametrize("model", [Model.paper(), Model(method="ml"), Model(kernel="matern52")])
def test_suits_every_way_to_fit(model: Model) -> None:
    data, columns = measured(300, 2, 5), [NUMBER] * 2
    start = model.start(columns, OLD)
    quick, slow = fit(data, start, model, NEW), fit(data, start, model, OLD)
    assert exact(data, quick, model, columns) >= exact(data, slow, model, columns) - 3.0


def test_choices_and_known_variances_take_part() -> None:
    rng = np.random.default_rng(6)
    x = np.column_stack([rng.random((250, 2)), rng.integers(3, size=250) / 2])
    y = np.sin(5 * x[:, 0]) + x[:, 2] + 0.3 * rng.standard_normal(250)
    variances = np.where(rng.random(250) < 0.7, 0.09, np.nan)
    data = Data.fold(
        3,
        (
            (point, float(value), 1.0, None if np.isnan(v) else float(v))
            for point, value, v in zip(x, y, variances, strict=True)
        ),
    )
    model, columns = Model(), [NUMBER, NUMBER, CHOICE]
    start = model.start(columns, OLD)
    quick, slow = fit(data, start, model, NEW), fit(data, start, model, OLD)
    assert exact(data, quick, model, columns) >= exact(data, slow, model, columns) - 2.5
    assert np.sqrt(quick.hyper.lam2 * quick.hyper.omega2) == pytest.approx(0.3, rel=0.3)


def test_blocks_lose_little_against_one_block() -> None:
    data, model, columns = measured(600, 2, 7), Model(), [NUMBER] * 2
    start = model.start(columns, OLD)
    whole = fit(data, start, model, rules(points=100), first=True)
    cut = fit(data, start, model, rules(points=100, block=200), first=True)
    part = fit(data, start, model, rules(points=100, block=200, most=300), first=True)
    best = exact(data, whole, model, columns)
    assert exact(data, cut, model, columns) >= best - 6.0
    assert exact(data, part, model, columns) >= best - 20.0
    assert cut.hyper != whole.hyper != part.hyper


def test_the_first_fit_tries_other_starts() -> None:
    """From the start of a narrow model alone, the search ends where all is noise."""
    rng = np.random.default_rng(8)
    x = rng.random((301, 1))  # with 301 points, a later fit would descend from the last one only
    data = Data.of(x, np.sin(60 * x[:, 0]) + 0.1 * rng.standard_normal(301))
    model = Model(kernel="se", length_prior=(0.0, 2.0))
    trap = replace(model.start([NUMBER], OLD), kernel=SE((30.0,)), lam2=100.0)
    found = fit(data, trap, model, NEW, first=True)
    assert found.hyper.lam2 < 0.1
    assert found.value > fit(data, trap, model, NEW).value + 10.0


def test_few_evidences_of_all_points_are_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    data, model = measured(500, 3, 9), Model()
    sizes: list[int] = []
    plain = Search.objective

    def counted(search: Search, p: Array) -> tuple[float, Array]:
        sizes.append(sum(map(len, search.parts)))
        return plain(search, p)

    monkeypatch.setattr(Search, "objective", counted)
    fit(data, model.start([NUMBER] * 3, OLD), model, NEW, first=True)
    assert 1 <= sizes.count(500) <= 12
    assert set(sizes) == {200, 500}


def test_says_so_if_there_is_no_evidence() -> None:
    """Such results can't be told; a model of somebody else's may make them."""
    data, start = measured(250, 2, 15), Model().start([NUMBER] * 2, OLD)
    nothing = replace(data, y=np.where(np.arange(250) == 3, np.nan, data.y))
    found = fit(nothing, start, Model(), NEW)
    assert not found.ok
    assert found.hyper == start


def test_ends_at_the_bounds_without_leaving_them() -> None:
    rng = np.random.default_rng(10)
    x = rng.random((250, 2))
    data = Data.of(x, np.sin(4 * x[:, 0]))  # no noise, and the second column does not matter
    model = Model.paper()
    start = model.start([NUMBER] * 2, OLD)
    found = fit(data, start, model, NEW)
    search = Search((data,), start, model, OLD)
    p = search.vector(found.hyper)
    assert found.ok
    assert (p >= search.bounds[:, 0] - 1e-9).all()
    assert (p <= search.bounds[:, 1] + 1e-9).all()


# --- where it is used -----------------------------------------------------------------------------


def test_up_to_the_limit_nothing_is_different() -> None:
    data, model = measured(200, 2, 11), Model()
    start = model.start([NUMBER] * 2, OLD)
    assert fit(data, start, model, NEW) == fit(data, start, model, OLD)
    more = measured(230, 2, 11)
    assert fit(more, start, model, NEW) == fit_many(more, start, model, NEW, 2)


def test_results_that_fade_are_fitted_as_before() -> None:
    """Their noise is shared by rows, which can't be cut into parts."""
    data = measured(250, 2, 12)
    fading = replace(data, swell=np.ones((250, 250)), common=np.zeros((250, 250)))
    start = Model().start([NUMBER] * 2, OLD)
    assert fit(fading, start, Model(), NEW) == fit(fading, start, Model(), OLD)


def test_several_models_are_drawn_by_the_same_blocks() -> None:
    data, model = measured(220, 2, 13), Model(method="ensemble")
    start = model.start([NUMBER] * 2, OLD)

    def likelihood(chosen: FitRules, u: Array) -> float:
        return ensemble._Target(data, start, model, chosen, None).log_likelihood(u)

    u = np.random.default_rng(14).standard_normal(6)
    hyper = ensemble._hyper(start, ensemble._Target(data, start, model, OLD, None).vector(u))
    parts = blocks(data, start, ManyRules(block=110))
    assert len(parts) == 2
    each = [evidence_value(part, hyper, profile=False) for part in parts]
    assert likelihood(rules(points=100, block=110), u) == pytest.approx(sum(each), rel=1e-9)
    assert likelihood(rules(points=100), u) == likelihood(OLD, u)
