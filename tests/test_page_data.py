"""What the page is told: the study's own answers, right in both directions, and always JSON."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from datetime import UTC, datetime
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.kernels import Lifted
from regretless.policies import POLICIES
from regretless.results import Decision
from regretless.service.page_data import SLICE_POINTS, TABLE_ROWS, page_data
from regretless.studies.study import Snapshot

NOW = datetime(2026, 1, 2, tzinfo=UTC)
SPACE = rl.Space(
    {
        "dose": rl.Float(0.1, 10.0, log=True),
        "visits": rl.Int(1, 12),
        "drug": rl.Categorical(["A", "B", "C"]),
    }
)


BEFORE: dict[str, Any] = {"dose": 1.0, "visits": 4, "drug": "A"}


def f(params: dict[str, Any]) -> float:
    bonus = {"A": 0.0, "B": 0.6, "C": 0.3}[params["drug"]]
    return float(5 - np.log(params["dose"]) ** 2 - ((params["visits"] - 7) / 5) ** 2 + bonus)


def tuned(direction: Any = "maximize", steps: int = 25, **options: Any) -> rl.Optimizer:
    """Told, abandoned and pending trials, and prior data; a mirror image if minimised."""
    sign = 1.0 if direction == "maximize" else -1.0
    opt = rl.Optimizer(SPACE, 60, seed=2, direction=direction, **options)
    opt.observe(BEFORE, sign * 4.5)
    rng = np.random.default_rng(0)
    for number in range(steps):
        trial = opt.ask()
        noise = 0.2 * rng.standard_normal()
        if number == 5:
            opt.abandon(trial)
        else:
            opt.tell(trial, sign * (f(trial.params) + noise))
    opt.ask()
    return opt


def shown(opt: rl.Optimizer) -> dict[str, Any]:
    """There and back through strict JSON."""
    snapshot = Snapshot("s", 7, NOW, opt.copy(), (NOW,) * opt.asked)
    answer: dict[str, Any] = json.loads(json.dumps(page_data(snapshot), allow_nan=False))
    return answer


@pytest.fixture(scope="module", params=["maximize", "minimize"])
def study(request: pytest.FixtureRequest) -> rl.Optimizer:
    return tuned(request.param)


def test_it_repeats_the_studys_own_answers(study: rl.Optimizer) -> None:
    got, best = shown(study), study.best()
    assert got["best"] == {k: v for k, v in vars(best).items() if k != "context"}
    assert got["counts"] == {
        "budget": 60,
        "horizon": None,
        "asked": 26,
        "remaining": 34,
        "told": 24,
        "pending": 1,
        "abandoned": 1,
        "observed": 1,
        "proposed": 0,
        "rejected": 0,
        "retracted": 0,
    }
    assert (got["name"], got["seq"], got["direction"]) == ("s", 7, study.direction)
    assert rl.Space.from_json(got["space"]) == SPACE
    (waiting,) = study.pending
    assert got["pending"] == [
        {
            "number": waiting.number,
            "params": waiting.params,
            "asked_at": NOW.isoformat(),
            "sentence": str(waiting.decision),
            "note": None,
        }
    ]


def test_every_trial_has_its_sentence(study: rl.Optimizer) -> None:
    got, rows = shown(study), study.history()
    assert [t["sentence"] for t in got["trials"]] == [str(r.decision or "") for r in rows]
    assert [t["value"] for t in got["trials"]] == [r.value for r in rows]
    assert [t["params"] for t in got["trials"]] == [r.params for r in rows]
    own = [r.decision for r in rows if r.decision]
    assert got["decisions"]["reason"] == [d.reason for d in own]
    for name in ("expected_improvement", "evaluation_cost", "z", "gate"):
        assert got["decisions"][name] == [getattr(d, name) for d in own]


def test_running_sums_are_the_posteriors(study: rl.Optimizer) -> None:
    got = shown(study)["running"]
    told = [row for row in study.history() if row.status == "told"]
    mean = np.array([study.predict(row.params)[0] for row in told])
    sign = 1.0 if study.direction == "maximize" else -1.0
    assert got["number"] == [row.number for row in told]
    assert got["value"] == [row.value for row in told]
    np.testing.assert_allclose(got["served"]["mean"], np.cumsum(mean))
    lost = np.cumsum(sign * (study.best().mean - mean))
    np.testing.assert_allclose(got["regret"]["mean"], lost, atol=1e-9)
    before = study.predict(BEFORE)[0]
    np.testing.assert_allclose(got["gain"]["mean"], np.cumsum(sign * (mean - before)), atol=1e-9)
    assert got["first"] == pytest.approx(before)
    assert got["over"] == "observed setting"
    assert np.all(np.diff(got["regret"]["mean"]) > -1e-9)  # nothing beats the incumbent


def test_bands_are_of_the_joint_posterior(study: rl.Optimizer) -> None:
    """Against drawing the whole function many times, which knows nothing of our shortcut."""
    got = shown(study)["running"]
    told = [row for row in study.history() if row.status == "told"]
    points = [study.best().params, BEFORE, *(row.params for row in told)]
    x = np.array([SPACE.encode(p) for p in points])
    situation = study._situation()
    mu, _ = situation.posterior.predict(x)
    unit = np.array([situation.user(u + 1e-6) - situation.user(u - 1e-6) for u in mu]) / 2e-6
    cov = situation.posterior.covariance(x) * situation.posterior.omega2 * np.outer(unit, unit)
    draws = np.random.default_rng(0).multivariate_normal(np.zeros(len(x)), cov, 40_000)
    f_best, f_before, f_told = draws[:, :1], draws[:, 1:2], draws[:, 2:]
    for name, sums in {
        "served": np.cumsum(f_told, axis=1),
        "regret": np.cumsum(f_best - f_told, axis=1),
        "gain": np.cumsum(f_told - f_before, axis=1),
    }.items():
        np.testing.assert_allclose(got[name]["sd"], sums.std(axis=0), rtol=0.03, atol=1e-6)


def test_to_minimise_is_a_mirror_image() -> None:
    up, down = shown(tuned("maximize")), shown(tuned("minimize"))
    for name in ("regret", "gain"):
        for column in ("mean", "sd"):
            ours, theirs = up["running"][name][column], down["running"][name][column]
            np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(up["calibration"]["z"], -np.array(down["calibration"]["z"]))
    for ours, theirs in zip(up["slices"], down["slices"], strict=True):
        np.testing.assert_allclose(ours["mean"], -np.array(theirs["mean"]))
        np.testing.assert_allclose(ours["low"], -np.array(theirs["high"]))
    assert up["best"]["mean"] == pytest.approx(-down["best"]["mean"])
    assert up["worth_exploring"] == down["worth_exploring"]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_a_dot_is_the_mean_of_what_was_counted(direction: Any) -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 9, direction=direction)
    opt.observe({"x": 0.5}, 1.0, count=400)
    opt.observe({"x": 0.5}, 3.0, count=1)
    got = shown(opt)
    (dot,) = got["slices"][0]["points"]
    assert dot["count"] == 2
    assert dot["y"] == pytest.approx(got["best"]["sample_mean"]) == pytest.approx(403 / 401)


def test_slices_go_through_the_incumbent(study: rl.Optimizer) -> None:
    got, best = shown(study)["slices"], study.best()
    assert [s["name"] for s in got] == list(SPACE.names)
    assert [len(s["values"]) for s in got] == [SLICE_POINTS, 12, 3]
    assert [s["log"] for s in got] == [True, False, False]
    for s in got:
        assert s["incumbent"] == best.params[s["name"]]
        for i in (0, len(s["values"]) // 2, -1):
            mean, sd = study.predict(best.params | {s["name"]: s["values"][i]})
            assert s["mean"][i] == pytest.approx(mean)
            assert s["high"][i] - s["low"][i] == pytest.approx(2 * 1.96 * sd)
    assert sum(point["count"] for point in got[0]["points"]) == 25  # prior data too
    at_best = [p for p in got[1]["points"] if p["near"] == pytest.approx(1.0)]
    assert at_best
    assert all(0.0 <= p["near"] <= 1.0 + 1e-9 for s in got for p in s["points"])


@pytest.mark.parametrize("version", [1, 3])
def test_results_far_from_a_slice_are_not_near_it(version: int) -> None:
    """`near` is the correlation of what varies: an unknown constant would lift it everywhere."""
    opt = rl.Optimizer(
        rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)}), 60, defaults=version
    )
    rng = np.random.default_rng(0)
    for x, y in rng.random((30, 2)).tolist():
        opt.tell(opt.adopt({"x": x, "y": y}), float(np.sin(12 * x) * np.cos(12 * y)))
    best, kernel = opt.best().params, opt._situation().fitted.hyper.kernel
    varying = kernel.base if isinstance(kernel, Lifted) else kernel
    assert isinstance(kernel, Lifted) == (version > 1)
    for s, name, other in zip(shown(opt)["slices"], "xy", "yx", strict=True):
        for row, point in zip(opt.history(), s["points"], strict=True):
            assert point["x"] == row.params[name]
            ends = [
                opt.space.encode(row.params | {other: v}) for v in (row.params[other], best[other])
            ]
            assert point["near"] == pytest.approx(varying.gram(np.array(ends))[0, 1])
        assert min(p["near"] for p in s["points"]) < 0.1
        assert max(p["near"] for p in s["points"]) == pytest.approx(1.0)


def test_calibration_compares_with_what_was_predicted(study: rl.Optimizer) -> None:
    got = shown(study)["calibration"]
    z = [
        (row.value - row.decision.mean) / np.hypot(row.decision.sd, row.decision.noise_sd)
        for row in study.history()
        if row.status == "told" and row.decision and row.decision.mean is not None
    ]
    np.testing.assert_allclose(got["z"], z)
    assert got["mean"] == pytest.approx(np.mean(z))
    assert got["sd"] == pytest.approx(np.std(z, ddof=1))
    assert got["inside"] == pytest.approx(np.mean(np.abs(z) <= 1.96))


def test_a_result_with_its_own_error_is_judged_by_it() -> None:
    opt = rl.Optimizer(SPACE, 10)
    why = Decision("given", "eic", 10, mean=1.0, sd=3.0, noise_sd=100.0)
    opt.tell(opt.adopt({"dose": 1.0, "visits": 4, "drug": "A"}, why), 6.0, sem=4.0)
    opt.tell(opt.adopt({"dose": 1.0, "visits": 4, "drug": "A"}, why), 6.0, count=625)
    assert shown(opt)["calibration"]["z"] == pytest.approx([1.0, 1.0])


def test_before_anything_was_told() -> None:
    opt = rl.Optimizer(SPACE, 10)
    empty = shown(opt)
    assert empty["best"] is None
    assert empty["running"] is None
    assert empty["noise_sd"] is None
    assert empty["slices"] == empty["trials"] == empty["pending"] == []
    opt.ask()
    assert len(shown(opt)["pending"]) == 1
    opt.observe({"dose": 1.0, "visits": 4, "drug": "A"}, 1.0)
    prior = shown(opt)
    assert prior["running"]["number"] == []
    assert prior["noise_sd"] is None  # only assumed so far
    assert prior["best"]["count"] == 1


@pytest.mark.parametrize("policy", POLICIES)
def test_every_policy_can_be_shown(policy: str) -> None:
    got = shown(tuned(policy=policy, steps=12))
    assert got["policy"] == policy
    assert len(got["running"]["number"]) == 11


def test_past_the_budget() -> None:
    opt = tuned()
    opt.extend(opt.asked)
    opt.tell(opt.ask(), 1.0)
    got = shown(opt)
    assert got["decisions"]["reason"][-1] == "exhausted"
    assert got["worth_exploring"] is None
    assert got["counts"]["remaining"] == 0


@pytest.mark.parametrize("values", [[0.0] * 6, [1e100, -1e100] * 3, [1e-300, 2e-300] * 3])
def test_hard_numbers_are_still_json(values: list[float]) -> None:
    opt = rl.Optimizer(SPACE, 20, n0=4)
    for value in values:
        opt.tell(opt.ask(), value)
    assert len(shown(opt)["running"]["number"]) == 6


def test_long_lists_are_cut_and_wide_ranges_thinned() -> None:
    opt = rl.Optimizer(rl.Space({"n": rl.Int(1, 100_000), "k": rl.Int(1, 10**6, log=True)}), 3000)
    for i in range(TABLE_ROWS + 5):
        opt.tell(opt.adopt({"n": 1 + i % 7, "k": 5}), float(i % 7))
    got = shown(opt)
    assert len(got["trials"]) == TABLE_ROWS
    assert got["trials"][-1]["number"] == TABLE_ROWS + 4
    assert len(got["decisions"]["number"]) == len(got["running"]["number"]) == TABLE_ROWS + 5
    assert all(len(s["values"]) <= SLICE_POINTS for s in got["slices"])


def test_it_changes_nothing_and_is_quick() -> None:
    opt = rl.Optimizer(SPACE, 600, n0=100)
    rng = np.random.default_rng(0)
    points = [trial.params for trial in opt.ask(100)]
    for number, params in enumerate(points):
        opt.tell(number, f(params))
    for _ in range(400):
        opt.tell(opt.adopt(points[rng.integers(100)]), float(rng.normal()))
    opt.ask()
    before = opt.to_json()
    snapshot = Snapshot("s", 1, NOW, opt, (NOW,) * opt.asked)
    page_data(snapshot)
    took = []
    for _ in range(5):
        start = time.process_time()
        page_data(snapshot)
        took.append(time.process_time() - start)
    assert opt.to_json() == before
    assert min(took) < 0.1


def test_it_needs_no_web_framework() -> None:
    code = "import sys, regretless.service.page_data; assert 'starlette' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)
