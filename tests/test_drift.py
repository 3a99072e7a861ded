"""A system that changes: results that fade, jumps, and the common level."""

from __future__ import annotations

import json
import warnings
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.defaults import defaults_of
from regretless.engine import Jumped, read, write
from regretless.forecast import _ensemble_of, forecast
from regretless.kernels import Matern
from regretless.model import GP, Data, Fading, Hyper, JumpTest
from regretless.model.drift import Timed, fitted_fading

RULES = defaults_of().drift
SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})


def results(count: int, seed: int = 0, points: int = 1000) -> Timed:
    """Results at random points, of which some are tried again."""
    rng = np.random.default_rng(seed)
    places = rng.random((points, 2))
    entries = []
    for i in range(count):
        variance = 0.05 if i % 7 == 3 else None
        x = places[int(rng.integers(points))]
        entries.append((x, float(rng.standard_normal()), 1.0 + (i % 3), variance))
    return Timed(entries, np.arange(count, dtype=float), float(count))


def hyper() -> Hyper:
    return Hyper(Matern((0.4, 0.6), nu=2.5), lam2=0.1, omega2=1.7, mean_precision=None)


def oracle(timed: Timed, fading: Fading, h: Hyper, x: np.ndarray) -> tuple[Any, Any, float]:
    """Mean and covariance of f now at x, and log p(y), by a dense time kernel."""
    points = np.array([entry[0] for entry in timed.entries])
    y = np.array([entry[1] for entry in timed.entries])
    noise = np.array([h.omega2 * h.lam2 / w if v is None else v for _, _, w, v in timed.entries])
    t = np.append(timed.times, timed.now)
    # The correlation between two times: the drift, and the jumps between them.
    s = np.exp(-np.log(2.0) * np.abs(t[:, None] - t[None, :]) / fading.half_life)
    level = fading.level * np.minimum(timed.now - t[:, None], timed.now - t[None, :])
    for jump, keep in zip(timed.jumps, fading.keeps, strict=True):
        older = t < jump
        s = np.where(older[:, None] != older[None, :], s * keep, s)
        level = level + RULES.jump_level * np.outer(older, older)
    k = h.kernel.gram(points)
    c = h.omega2 * (k * s[:-1, :-1] + level[:-1, :-1]) + np.diag(noise)
    cross = h.omega2 * h.kernel.gram(x, points) * s[-1, :-1]
    weights = s[-1, :-1] ** 2
    mean = float(np.average(y, weights=weights))
    solved = np.linalg.solve(c, np.column_stack([y - mean, cross.T]))
    mu = mean + cross @ solved[:, 0]
    covariance = h.omega2 * h.kernel.gram(x) - cross @ solved[:, 1:]
    _, logdet = np.linalg.slogdet(2 * np.pi * c)
    return mu, covariance, float(-0.5 * (logdet + (y - mean) @ solved[:, 0]))


# -- the model -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fading", "jumps"),
    [
        (Fading(15.0), ()),
        (Fading(40.0, 0.02), ()),
        (Fading(inf, 0.05), ()),
        (Fading(30.0, 0.01, (0.4,)), (17,)),
        (Fading(inf, 0.0, (1.0, 0.2)), (11, 23)),
    ],
)
def test_the_posterior_is_that_of_a_dense_time_kernel(
    fading: Fading, jumps: tuple[int, ...]
) -> None:
    """Noise that grows with age, and the time kernel, are the same model."""
    timed = results(30)._replace(jumps=jumps)
    data = timed.data(2, fading, RULES, single=True)
    # Both take the mean as known, so that the oracle stays short.
    middle = float(np.average(data.y, weights=np.ones(len(data)))) * 0.0
    s = timed.correlation(fading)
    y = np.array([entry[1] for entry in timed.entries])
    mean = float(np.average(y, weights=s * s))
    centred = Data(
        data.x,
        data.y - mean + middle,
        data.weight,
        data.known,
        data.count,
        data.scatter,
        data.constant,
        data.swell,
        data.common,
    )
    gp = GP.of(centred, hyper())
    x = np.random.default_rng(1).random((5, 2))
    mu, covariance, evidence = oracle(timed, fading, hyper(), x)
    ours, sigma = gp.predict(x)
    np.testing.assert_allclose(mean + ours, mu, atol=1e-9)
    np.testing.assert_allclose(gp.omega2 * sigma**2, np.diag(covariance), atol=1e-9)
    np.testing.assert_allclose(gp.omega2 * gp.covariance(x), covariance, atol=1e-9)
    # Known variances add a constant, see `Data`.
    assert gp.log_evidence == pytest.approx(evidence, abs=1e-6)


def test_without_change_the_data_are_those_of_a_still_system() -> None:
    timed = results(40, points=12)
    faded = timed.data(2, Fading(), RULES)
    plain = Data.fold(2, timed.entries)
    assert faded.swell is None
    for name in ("x", "y", "weight", "known", "count"):
        np.testing.assert_array_equal(getattr(faded, name), getattr(plain, name))
    assert (faded.scatter, faded.constant) == (plain.scatter, plain.constant)


def test_replicates_of_a_short_time_count_as_one_row() -> None:
    timed = moving(400.0, 200, points=3)
    together = timed.data(2, Fading(400.0), RULES)
    apart = timed.data(2, Fading(400.0), RULES, single=True)
    assert len(together) < 80
    x = np.random.default_rng(1).random((20, 2))
    one, other = (GP.of(each, hyper()).predict(x) for each in (together, apart))
    np.testing.assert_allclose(one[0], other[0], atol=0.05)
    np.testing.assert_allclose(one[1], other[1], atol=0.02)


def test_rows_are_limited_however_long_the_run() -> None:
    sizes = [len(results(n).data(2, Fading(400.0), RULES)) for n in (200, 1000)]
    assert sizes == [200, RULES.most_rows]


def test_a_gradient_of_the_evidence() -> None:
    from dataclasses import replace

    from regretless.model.evidence import evidence

    h = hyper()
    data = results(25)._replace(jumps=(9,)).data(2, Fading(20.0, 0.01, (0.5,)), RULES, single=True)
    found = evidence(data, h, profile=False)
    for i in range(len(h.kernel.theta)):
        values = []
        for step in (1e-5, -1e-5):
            theta = h.kernel.theta.copy()
            theta[i] += step
            moved = replace(h, kernel=h.kernel.with_theta(theta))
            values.append(evidence(data, moved, profile=False).value)
        assert found.d_theta[i] == pytest.approx((values[0] - values[1]) / 2e-5, rel=1e-4, abs=1e-6)


def test_paths_of_the_posterior_have_its_moments() -> None:
    data = results(20)._replace(jumps=(9,)).data(2, Fading(20.0, 0.02, (0.5,)), RULES)
    gp, rng = GP.of(data, hyper()), np.random.default_rng(0)
    x = np.vstack([data.x[:2], rng.random((2, 2))])
    drawn = np.array([gp.sample_path(rng, features=512)(x) for _ in range(600)])
    mu, sigma = gp.predict(x)
    np.testing.assert_allclose(drawn.mean(axis=0), mu, atol=5 * gp.omega * sigma.max() / 600**0.5)
    np.testing.assert_allclose(drawn.std(axis=0), gp.omega * sigma, rtol=0.15)


def moving(
    half_life: float, count: int, level: float = 0.0, seed: int = 0, points: int = 30
) -> Timed:
    """Results of a function that drifts, at some points."""
    rng = np.random.default_rng(seed)
    places, h = rng.random((points, 2)), hyper()
    root = np.linalg.cholesky(h.kernel.gram(places) + 1e-9 * np.eye(points))
    f, shift, rho = root @ rng.standard_normal(points), 0.0, 0.5 ** (1 / half_life)
    entries = []
    for _ in range(count):
        i = int(rng.integers(points))
        entries.append((places[i], float(f[i] + shift + 0.3 * rng.standard_normal()), 1.0, None))
        f = rho * f + (1 - rho**2) ** 0.5 * (root @ rng.standard_normal(points))
        shift += level**0.5 * rng.standard_normal()
    return Timed(entries, np.arange(count, dtype=float), float(count))


def test_the_rate_is_found_and_none_is_allowed_for() -> None:
    find = lambda timed: fitted_fading(timed, 2, hyper(), rl.Drift(), Fading(), RULES)  # noqa: E731
    assert all(find(moving(inf, 150, seed=s)).half_life == inf for s in range(4))
    assert all(25 <= find(moving(50.0, 150, seed=s)).half_life <= 100 for s in range(3))
    levels = [find(moving(inf, 150, 0.05, s)) for s in range(3)]
    assert all(each.level > 0 and each.half_life >= 200 for each in levels)


# -- jumps -----------------------------------------------------------------------------------------


def watched(seed: int, jump: int | None, known: bool, size: float = 2.0, count: int = 500) -> Any:
    """(results of the incumbent after the jump until an alarm, place of the alarm), or None."""
    rng, test, after = np.random.default_rng(seed), JumpTest(RULES), 0
    for t in range(count):
        point = 0 if t > 10 and rng.random() < 0.8 else int(rng.integers(1, 40))
        y = rng.standard_normal() + point % 7
        if jump is not None and t >= jump and point == 0:
            y, after = y + size, after + 1
        found = test.add(t, (np.array([float(point)]), y, 1.0, 1.0 if known else None))
        if found is not None:
            return after, found, t
    return None


@pytest.mark.parametrize("known", [True, False])
def test_false_alarms_are_rare(known: bool) -> None:
    alarms = [watched(seed, None, known) is not None for seed in range(40)]
    assert sum(alarms) <= 4  # at most 5 % of them are expected


@pytest.mark.parametrize("known", [True, False])
def test_a_jump_of_two_sds_is_found_soon(known: bool) -> None:
    found = [watched(seed, 150, known) for seed in range(30)]
    soon = [each is not None and each[2] >= 150 and each[0] <= 15 for each in found]
    assert sum(soon) >= 27
    places = [each[1] for each in found if each is not None]
    assert abs(np.median(places) - 150) <= 3


def test_a_copy_of_the_test_is_its_own() -> None:
    test = JumpTest(RULES)
    for t in range(30):
        test.add(t, (np.zeros(1), float(t % 3), 1.0, None))
    twin = test.copy()
    before = test.statistic
    for t in range(30, 40):
        twin.add(t, (np.zeros(1), 50.0, 1.0, None))
    assert test.statistic == before


# -- the optimiser ---------------------------------------------------------------------------------


def tuned(count: int, jump: int | None, drift: Any = "auto", seed: int = 0) -> rl.Optimizer:
    """A run whose system jumps: the best point moves from 0.2 to 0.8."""
    optimizer = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), horizon=60, drift=drift)
    rng = np.random.default_rng(seed)
    for trial in optimizer:
        best = 0.2 if jump is None or trial.number < jump else 0.8
        value = -8.0 * (trial.params["x"] - best) ** 2 + 0.2 * rng.standard_normal()
        optimizer.tell(trial, value)
        if trial.number == count - 1:
            break
    return optimizer


def test_a_jump_is_noticed_and_the_new_best_point_found() -> None:
    with pytest.warns(UserWarning, match="something changed at trial"):
        optimizer = tuned(120, 70)
    first = optimizer.jumps[0]
    assert abs(first.number - 70) <= 5
    assert first.noticed <= 95
    assert abs(optimizer.best().params["x"] - 0.8) < 0.15
    assert any(isinstance(event, Jumped) for event in optimizer.events)
    still = tuned(120, 70, drift=None)
    assert still.jumps == []
    assert still.fading is None


def test_a_replay_decides_the_same() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = tuned(100, 60)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a replay says nothing
        twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.jumps == optimizer.jumps != []
    assert twin.fading == optimizer.fading
    assert twin.ask() == optimizer.ask()
    number = len(optimizer.trials) - 1
    assert optimizer.as_of(number).ask().params == optimizer.trials[number].params


def test_the_gate_looks_as_far_as_results_last() -> None:
    lasting = tuned(40, None, rl.Drift(half_life=10.0, jumps=False))
    decision = lasting.ask().decision
    rho = 0.5**0.1
    expected = sum(rho**k for k in range(60))
    share = 0.3  # the policy's payback
    assert decision.horizon == pytest.approx(1 + share * (expected - 1))
    assert lasting.fading is not None
    assert lasting.fading.half_life == 10.0


def test_a_retraction_keeps_the_jumps() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        optimizer = tuned(100, 60)
        jumps = optimizer.jumps
        optimizer.retract(3)
    assert optimizer.jumps[: len(jumps)] == jumps
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.ask() == optimizer.ask()


def jumping(target: Any) -> None:
    """One result from before the run, and 60 of one point, which jump at trial 40."""
    target.observe({"x": "a"}, 2.0)
    for i in range(60):
        trial = target.adopt({"x": "a"})
        target.tell(trial, (i % 5) + (10.0 if i >= 40 else 0.0))


@pytest.mark.filterwarnings("ignore:something changed")
def test_the_first_result_after_a_jump_is_retracted() -> None:
    """The jump is then before the next result, and is not noticed a second time."""
    optimizer = rl.Optimizer(rl.Space({"x": rl.Categorical(["a", "b"])}), horizon=50, drift="auto")
    jumping(optimizer)
    assert [each.number for each in optimizer.jumps] == [40]
    assert optimizer._belief.jumps == (41,)
    optimizer.retract(40)
    assert optimizer._belief.jumps == (41,)
    optimizer.tell(40, 11.0)  # it is now the last one
    optimizer.retract_observation(0)
    optimizer.retract(7)
    assert optimizer._belief.jumps == (39,)
    optimizer.ask()
    assert [each.number for each in optimizer.jumps] == [40]
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.ask() == optimizer.ask()


@pytest.mark.filterwarnings("ignore:something changed")
@pytest.mark.parametrize("kind", ["optimizer", "study"])
def test_a_change_of_the_space_keeps_the_replicates(kind: str, tmp_path: Path) -> None:
    """A jump just after the change is noticed as if the space had not changed."""
    space = rl.Space({"x": rl.Categorical(["a", "b"]), "y": rl.Float(0.0, 1.0)})
    run: Any = rl.Optimizer(space, horizon=50, drift="auto")
    if kind == "study":
        run = rl.Study.open(tmp_path / "a.db", "s", space=space, horizon=50, drift="auto")
    for i in range(60):
        if i == 39:
            run.change_space(add={"z": (rl.Int(1, 9), 5)}, widen={"y": rl.Float(-1.0, 2.0)})
        params = {"x": "a", "y": 0.3} | ({"z": 5} if i >= 39 else {})
        run.tell(run.adopt(params), (i % 5) + (10.0 if i >= 40 else 0.0))
    optimizer = run.snapshot().optimizer if kind == "study" else run
    assert [(each.number, each.noticed) for each in optimizer.jumps] == [(40, 41)]
    assert len(optimizer._watch.test.rows) == 1
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.ask() == optimizer.copy().ask()
    optimizer = optimizer.copy()
    optimizer.retract(50)  # all results are learnt anew, at the points of the new space
    assert [each.number for each in optimizer.jumps] == [40]


def test_two_points_that_become_one_keep_the_results_of_the_one_with_more() -> None:
    test = JumpTest(RULES)
    for place in range(9):
        test.add(place, (np.array([0.0 if place < 6 else 1.0]), float(place), 1.0, None))
    twin = test.carried(np.zeros_like)
    (row,) = twin.rows.values()
    assert row[0] == list(range(6))
    assert {each.key for each in twin.seen} == set(twin.rows)
    twin.add(9, (np.zeros(1), 9.0, 1.0, None))
    assert len(test.rows) == 2


@pytest.mark.filterwarnings("ignore:something changed")
def test_a_forecast_is_of_the_system_after_a_jump() -> None:
    optimizer = rl.Optimizer(rl.Space({"x": rl.Categorical(["a", "b"])}), horizon=3, drift="auto")
    jumping(optimizer)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # nothing has happened
        ahead = forecast(optimizer, draws=4, over={"x": "b"})
    assert ahead.draws == 4
    drawn = _ensemble_of(optimizer)
    assert drawn.jumps == optimizer._belief.jumps != ()
    assert drawn.fitted is not None
    assert drawn.fitted.fading is not None


@pytest.mark.filterwarnings("ignore:something changed")
def test_a_study_whose_first_result_after_a_jump_is_retracted(tmp_path: Path) -> None:
    space = rl.Space({"x": rl.Categorical(["a", "b"])})
    with rl.Study.open(tmp_path / "a.db", "s", space=space, horizon=50, drift="auto") as study:
        jumping(study)
        study.retract(40)
    with rl.Study.open(tmp_path / "a.db", "s") as again:
        assert [each.number for each in again.snapshot().optimizer.jumps] == [40]
        assert again.ask() is not None


@pytest.mark.parametrize(
    ("drift", "message"),
    [
        ("fast", "need None, 'auto' or a Drift, got 'fast'"),
        ({"half_lives": 3}, "need None, 'auto' or a Drift"),
        ({"half_life": 0}, "need a positive half_life, got 0"),
        ({"half_life": 10, "jumps": 3}, "jumps"),
    ],
)
def test_wrong_settings(drift: Any, message: str) -> None:
    with pytest.raises(rl.ConfigError, match=message):
        rl.Optimizer(SPACE, budget=10, drift=drift)


def test_the_event_as_it_is_stored() -> None:
    written = write(Jumped(143, 151))
    assert written == ("jumped", 1, {"number": 143, "noticed": 151})
    assert read(*written) == Jumped(143, 151)
    without = rl.Optimizer(SPACE, budget=10)
    with pytest.raises(rl.StorageError, match="has no `drift`"):
        without.apply(Jumped(0, 1))
    with pytest.raises(rl.StorageError, match="trial 0 has no result"):
        rl.Optimizer(SPACE, budget=10, drift="auto").apply(Jumped(0, 1))


def test_a_study_stores_a_jump_once(tmp_path: Path) -> None:
    space = rl.Space({"x": rl.Categorical(["a", "b"])})
    place = tmp_path / "a.sqlite"
    with rl.Study.open(place, "s", space=space, horizon=50, drift="auto") as study:
        other = rl.Study.open(place, "s")
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            for i in range(60):
                trial = study.adopt({"x": "a"})
                (study if i % 2 else other).tell(trial, (i % 5) + (10.0 if i >= 40 else 0.0))
        assert ["something changed at trial 40" in str(each.message) for each in said] == [True]
        kinds = [event.kind for event in study.events()]
        assert kinds.count("jumped") == 1
        assert json.loads(json.dumps(study.snapshot().optimizer.spec()))["drift"] == {
            "half_life": None,
            "jumps": True,
        }
        assert study.ask() is not None
        other.close()
    with rl.Study.open(place, "s", drift="auto") as again:
        assert [j.number for j in again.snapshot().optimizer.jumps] == [40]
