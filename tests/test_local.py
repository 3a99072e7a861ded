"""The posterior of very many points is made of those that matter most."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless import defaults
from regretless.defaults import VERSIONS, LocalRules, ManyRules
from regretless.model import Data, Model
from regretless.model.fit import fit
from regretless.model.local import local_data
from regretless.space import Float

RULES = LocalRules(exact=150, rows=100)
SMALL = 99  # a version of the defaults in which 150 points are very many
SPACE = rl.Space({"x": rl.Float(-1.0, 2.0), "y": rl.Float(0.0, 1.0)})


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    five = VERSIONS[5]
    rules = five.fit._replace(local=RULES, many=ManyRules(points=120))
    monkeypatch.setitem(defaults.CANDIDATES, SMALL, five._replace(version=SMALL, fit=rules))


def value(params: dict[str, Any], rng: np.random.Generator) -> float:
    hill = -((params["x"] - 0.4) ** 2) - 3.0 * (params["y"] - 0.7) ** 2
    return float(hill + 0.05 * rng.standard_normal())


def told(study: Any, count: int, seed: int = 0) -> Any:
    """The study, after so many results at different points."""
    rng = np.random.default_rng(seed)
    for x in rng.random((count, 2)):
        params = SPACE.decode(x)
        study.observe(params, value(params, rng))
    return study


def run(count: int = 200, **settings: Any) -> rl.Optimizer:
    study: rl.Optimizer = told(rl.Optimizer(SPACE, 500, seed=3, defaults=SMALL, **settings), count)
    return study


# --- which rows -----------------------------------------------------------------------------------


def hill(count: int) -> Data:
    rng = np.random.default_rng(1)
    x = rng.random((count, 2))
    y = -10.0 * ((x - 0.7) ** 2).sum(axis=1) + 0.2 * rng.standard_normal(count)
    return Data.of(x, (y - y.mean()) / y.std())


def test_up_to_the_limit_all_rows_take_part() -> None:
    data, model = hill(150), Model()
    hyper = model.start([Float(0.0, 1.0)] * 2, VERSIONS[5].fit)
    assert local_data(data, hyper, model, RULES) is data
    assert len(local_data(hill(151), hyper, model, RULES)) == 100
    assert local_data(hill(5000), hyper, model, LocalRules()) is not None  # the default: all rows
    assert len(local_data(hill(400), hyper, model, LocalRules())) == 400


def test_it_is_close_to_exact_where_the_best_points_are_and_never_surer() -> None:
    data, model = hill(400), Model()
    start = model.start([Float(0.0, 1.0)] * 2, VERSIONS[5].fit)
    hyper = fit(data, start, model, VERSIONS[5].fit, first=True).hyper
    part = local_data(data, hyper, model, LocalRules(exact=150, rows=150))
    exact, local = model.posterior(data, hyper), model.posterior(part, hyper)
    rng = np.random.default_rng(2)
    near, far = 0.7 + 0.1 * rng.standard_normal((50, 2)), rng.random((200, 2))
    for x, most in ((near, 1.3), (far, 3.0)):
        (mu, sigma), (other, wide) = exact.predict(x), local.predict(x)
        assert (wide >= sigma - 1e-9).all()  # fewer observations never tell more
        assert np.median(wide / sigma) < most
        assert np.abs(other - mu).max() < 4.0 * hyper.omega2**0.5 * wide.max()
    away = np.linalg.norm(data.x - 0.7, axis=1)
    kept = (part.x[:, None] == data.x[None]).all(axis=2).any(axis=0)
    assert kept[away < 0.15].mean() > 0.9
    assert 0.05 < kept[away > 0.5].mean() < 0.5


def test_a_point_with_many_results_is_kept_even_if_it_is_bad() -> None:
    rng, bad = np.random.default_rng(3), np.zeros(2)
    once = [(x, float(-((x - 0.7) ** 2).sum()), 1.0, None) for x in rng.random((400, 2))]
    often = [(bad, -1.0 + 0.1 * float(e), 1.0, None) for e in rng.standard_normal(100)]
    exact = [(np.array([0.0, 1.0]), -0.6, 1000.0, None)]
    data, model = Data.fold(2, once + often + exact), Model()
    start = model.start([Float(0.0, 1.0)] * 2, VERSIONS[5].fit)
    part = local_data(data, start, model, RULES)
    assert len(part) == 100
    assert part.find(bad, known=False) is not None
    assert part.find(exact[0][0], known=False) is not None


def test_a_total_loss_against_a_baseline_far_away_stays_sure(
    small: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = {"x": -0.8, "y": 0.1}

    def decision() -> rl.Decision:
        study = rl.Optimizer(SPACE, 900, seed=3, defaults=SMALL, baseline=base, loss_budget=100.0)
        rng = np.random.default_rng(8)
        for index in range(300):
            x = SPACE.decode(rng.random(2))
            params = base if index % 4 == 0 else x
            study.tell(study.adopt(params), value(params, rng))
        return study.ask().decision

    local = decision()
    rules = VERSIONS[5]._replace(version=SMALL)
    monkeypatch.setitem(defaults.CANDIDATES, SMALL, rules)
    exact = decision()
    assert (local.model_points, exact.model_points) == (100, None)
    wide, sharp = (d.total_loss_high - d.total_loss for d in (local, exact))  # type: ignore[operator]
    assert sharp < wide < 3.0 * sharp


# --- in a run -------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_the_decision_says_so() -> None:
    few, many = run(140), run(200)
    assert few.ask().decision.model_points is None
    assert "model_points" not in few.ask().decision.to_json()
    decision = many.ask().decision
    assert decision.model_points == 100
    assert "the model is made of the 100 points that matter most" in str(decision)
    assert rl.Decision.from_json(decision.to_json()) == decision


@pytest.mark.usefixtures("small")
def test_later_results_are_added_and_a_new_fit_chooses_again() -> None:
    study, rng = run(200), np.random.default_rng(5)
    sizes, fits = [], 0
    for x in rng.random((30, 2)):
        params = SPACE.decode(x)
        study.observe(params, value(params, rng))
        decision = study.ask().decision
        sizes.append(decision.model_points)
        fits += decision.refitted
    assert fits >= 2  # the first one, and at least one more
    assert set(sizes) <= set(range(100, 130))
    assert min(sizes) == 100
    assert max(sizes) > 105


@pytest.mark.usefixtures("small")
def test_the_best_point_is_found_and_counted() -> None:
    study = run(300)
    best = study.best()
    assert abs(best.params["x"] - 0.4) < 0.3
    assert abs(best.params["y"] - 0.7) < 0.15
    assert best.count == 1
    (mean, sd), (low, wide) = study.predict(best.params), study.predict({"x": -1.0, "y": 0.0})
    assert mean > low
    assert 0.0 < sd < wide


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"policy": "eic"},
        {"policy": "gp-ts"},
        {"model": rl.Model(noise="auto")},
        {"model": rl.Model(method="ensemble")},
        {"model": rl.Model.paper()},
    ],
    ids=lambda settings: "-".join(map(str, settings)) or "default",
)
def test_a_copy_goes_on_with_the_same_trials(settings: dict[str, Any]) -> None:
    study, rng = run(180, **settings), np.random.default_rng(6)
    trial = study.ask()
    study.tell(trial, value(trial.params, rng))
    other = rl.Optimizer.from_json(study.to_json())
    for _ in range(3):
        mine, theirs = study.ask(), other.ask()
        assert mine == theirs
        outcome = value(mine.params, rng)
        study.tell(mine, outcome)
        other.tell(theirs, outcome)


@pytest.mark.usefixtures("small")
def test_a_study_goes_on_after_a_restart(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    alone, rng = run(180), np.random.default_rng(7)
    settings: dict[str, Any] = {"space": SPACE, "budget": 500, "seed": 3, "defaults": SMALL}
    with rl.Study.open(tmp_path / "s.sqlite", "s", **settings) as study:
        told(study, 180)
    for _ in range(3):
        with rl.Study.open(tmp_path / "s.sqlite", "s") as study:
            trial, expected = study.ask(), alone.ask()
            assert trial.params == expected.params
            assert trial.decision.model_points == expected.decision.model_points
            outcome = value(trial.params, rng)
            study.tell(trial, outcome)
            alone.tell(expected, outcome)


@pytest.mark.usefixtures("small")
def test_results_that_fade_have_rules_of_their_own() -> None:
    study = told(rl.Optimizer(SPACE, 500, seed=3, defaults=SMALL, drift=rl.Drift(50)), 200)
    assert study.ask().decision.model_points is None
