"""Noise that differs from place to place: its model, what decisions make of it, and front ends."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner, Result

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.noise.problems import FAMILIES, TIMES, problem

import regretless as rl
from oracles import DenseGP, Observation, slopes
from regretless._internal.arrays import Array
from regretless.cli.app import app
from regretless.client import Client
from regretless.defaults import NEWEST
from regretless.kernels import SE
from regretless.model import GP, Data, Hyper, NoiseShape
from regretless.model.noise import (
    NoiseTarget,
    Replicates,
    features,
    find_noise,
    kinds_of,
    rows_of,
    weighed,
)
from regretless.policies import make_policy
from regretless.policies.scores import PosteriorScore
from regretless.service.page_data import page_data
from serving import serving

PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
MIXED = rl.Space({"x": rl.Float(0.0, 1.0), "c": rl.Categorical(["a", "b", "c"])})
HYPER = Hyper(SE((0.3, 0.4)), lam2=0.3, omega2=1.7, mean_precision=0.25)
SHAPE = NoiseShape((0, 0), level=0.4, places=(0.8, -0.3, -1.1, 0.6))
RULES = NEWEST.noise


def observations(count: int = 12, replicates: int = 3, known: bool = False) -> list[Observation]:
    rng = np.random.default_rng(3)
    out = []
    for k, x in enumerate(rng.random((count, 2))):
        for _ in range(1 + k % replicates):
            variance = 0.2 + rng.random() if known and k % 2 else None
            out.append(Observation(x, float(rng.normal()), 1.0 + float(k % 2), variance))
    return out


def entries(given: list[Observation]) -> list[Any]:
    return [(o.x, o.y, o.weight, o.variance) for o in given]


def with_ratio(given: list[Observation], h: dict[bytes, float]) -> list[Observation]:
    return [Observation(o.x, o.y, o.weight / np.exp(h[o.x.tobytes()]), o.variance) for o in given]


# --- the mathematics ------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [False, True])
def test_weights_give_the_likelihood_and_posterior_of_all_results(known: bool) -> None:
    given = observations(known=known)
    data = DenseGP(given, HYPER).collapsed()
    mu = np.random.default_rng(0).normal(size=len(data))
    gp = GP.of(weighed(data, entries(given), SHAPE, mu), HYPER)
    h = dict(zip((x.tobytes() for x in data.x), SHAPE.log_ratio(data.x, mu), strict=True))
    dense = DenseGP(with_ratio(given, h), HYPER)
    assert gp.log_evidence == pytest.approx(dense.log_evidence(), rel=1e-10)
    x = np.random.default_rng(1).random((5, 2))
    mean, cov = dense.predict(x)
    assert np.allclose(gp.predict(x)[0], mean, atol=1e-10)
    assert np.allclose((gp.omega * gp.predict(x)[1]) ** 2, np.diag(cov), atol=1e-10)


def test_the_evidence_of_h_is_that_of_all_results() -> None:
    given = observations()
    data = DenseGP(given, HYPER).collapsed()
    target = NoiseTarget(data, Replicates.of(data, entries(given)), HYPER)
    rng = np.random.default_rng(5)

    def dense(h: Array) -> float:
        by_point = dict(zip((x.tobytes() for x in data.x), h, strict=True))
        return DenseGP(with_ratio(given, by_point), HYPER).log_evidence(penalised=True)

    h, other = rng.normal(size=(2, len(data)))
    value, slope, information = target.at(h)
    assert value - target.at(other)[0] == pytest.approx(dense(h) - dense(other), rel=1e-9)
    assert np.allclose(slope, slopes(dense, h, 1e-4), rtol=1e-6, atol=1e-8)
    assert np.all(np.linalg.eigvalsh(information) > 0.0)


def test_the_fisher_information_is_the_variance_of_the_slope() -> None:
    rng = np.random.default_rng(7)
    x = np.repeat(rng.random((4, 2)), [1, 3, 2, 1], axis=0)
    hyper = Hyper(SE((0.4, 0.4)), lam2=0.5, omega2=1.3)
    root = np.linalg.cholesky(1.3 * hyper.kernel.gram(x) + 0.65 * np.eye(len(x)))
    found = []
    for _ in range(4000):
        y = root @ rng.standard_normal(len(x))
        each = [Observation(point, float(value)) for point, value in zip(x, y, strict=True)]
        data = DenseGP(each, hyper).collapsed()
        target = NoiseTarget(data, Replicates.of(data, entries(each)), hyper)
        _, slope, information = target.at(np.zeros(len(data)))
        found.append(slope)
    assert np.allclose(np.mean(found, axis=0), 0.0, atol=0.06)
    assert np.allclose(np.cov(np.array(found).T), information, atol=0.12)


def test_told_errors_say_what_the_noise_is() -> None:
    given = observations(known=True)
    data = DenseGP(given, HYPER).collapsed()
    target = NoiseTarget(data, Replicates.of(data, entries(given)), HYPER)
    h = np.random.default_rng(2).normal(size=len(data))
    slope = target.at(h)[1]
    assert np.allclose(slope, slopes(lambda h: target.at(h)[0], h, 1e-4), rtol=1e-5, atol=1e-7)


def test_features_have_a_mean_of_0_over_the_space() -> None:
    points = MIXED.drawn(20_000, np.random.default_rng(0))
    terms = features(points, kinds_of(MIXED.columns))
    assert terms.shape == (20_000, 5)
    assert np.abs(terms.mean(axis=0)).max() < 0.02
    choices = features(MIXED.grid() if MIXED.size else points[:50], kinds_of(MIXED.columns))[:, 2:]
    assert np.allclose(choices.sum(axis=1), 0.0)


def test_slopes_of_the_logarithm() -> None:
    rng = np.random.default_rng(4)
    x, mu = rng.random((6, 2)), rng.normal(size=6)
    in_mu, in_x = SHAPE.slopes(x, mu)
    for i in range(6):
        want = slopes(
            lambda u: float(SHAPE.log_ratio(u[None, :2], u[2:])[0]), np.append(x[i], mu[i])
        )
        assert np.allclose([*in_x[i], in_mu[i]], want, atol=1e-8)
    far = NoiseShape((0, 0), level=100.0, places=(0.0,) * 4)
    assert far.ratio(x[:1], np.ones(1))[0] == pytest.approx(np.exp(far.most))
    assert far.slopes(x[:1], np.ones(1))[0][0] == 0.0


def test_rows_are_found_again() -> None:
    given = observations(known=True)
    data = DenseGP(given, HYPER).collapsed()
    for row, o in zip(rows_of(data, entries(given)), given, strict=True):
        assert (data.x[row] == o.x).all()
        assert data.known[row] == (o.variance is not None)


def simulated(sd: Any, points: int = 40, seed: int = 0, space: rl.Space = PLANE) -> Any:
    """What `find_noise` makes of results with this sd at each point, three at each."""
    rng = np.random.default_rng(seed)
    x = space.drawn(points, rng)
    f = np.sin(3.0 * x[:, 0]) + x[:, 1]
    each = [
        (point, float(value + sd(point, value) * rng.standard_normal()), 1.0, None)
        for point, value in zip(x, f, strict=True)
        for _ in range(3)
    ]
    data = Data.fold(2, each)
    hyper = Hyper(SE((0.5, 0.5)), lam2=0.2, omega2=1.0, mean_precision=0.25)
    mu = GP.of(data, hyper).at_data[0]
    return find_noise(data, Replicates.of(data, each), hyper, mu, space.columns, RULES)


def test_noise_that_differs_is_found() -> None:
    found = simulated(lambda x, value: 0.1 * 10.0 ** x[0])
    ends = found.shape.log_ratio(np.array([[0.0, 0.5], [1.0, 0.5]]), np.array([1.0, 1.0]))
    assert found.probability > 0.99
    assert 2.5 < ends[1] - ends[0] < 6.5  # the truth is 4.6
    by_level = simulated(lambda x, value: 0.1 * np.exp(value))
    assert by_level.probability > 0.99
    low, high = by_level.shape.log_ratio(np.array([[0.0, 0.0], [0.5, 1.0]]), np.array([0.0, 2.0]))
    assert 2.0 < high - low < 6.0  # the truth is 4
    choice = simulated(lambda x, value: 0.1 if x[1] < 0.3 else 0.8, space=MIXED)
    first, last = choice.shape.log_ratio(np.array([[0.5, 1 / 6], [0.5, 5 / 6]]), np.ones(2))
    assert last - first > 1.5


def test_constant_noise_stays_constant() -> None:
    for seed in range(5):
        found = simulated(lambda x, value: 0.4, seed=seed)
        grid = np.array([[a, b] for a in (0.0, 0.5, 1.0) for b in (0.0, 0.5, 1.0)])
        assert found.probability < 0.5
        assert np.abs(found.shape.log_ratio(grid, np.ones(9))).max() < 0.7


# --- decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize("directed", [False, True])
@pytest.mark.parametrize("name", ["ids", "aei"])
def test_scores_have_the_right_slopes(name: str, directed: bool) -> None:
    optimizer = run(rl.Optimizer(PLANE, 40, model=rl.Model(noise="auto")), 25)
    situation = optimizer._situation()
    policy = rl.IDS(directed=directed) if name == "ids" else make_policy(name)
    inputs = situation.inputs
    object.__setattr__(inputs, "noise", SHAPE)
    score = policy.score(inputs)
    assert isinstance(score, PosteriorScore)
    assert score.noise is SHAPE
    x = np.random.default_rng(1).random((5, 2))
    _, slope = score.ascend(x, 0.1)
    for point, got in zip(x, slope, strict=True):
        want = slopes(lambda u: float(score.ascend(u[None, :], 0.1)[0][0]), point)
        assert np.allclose(got, want, rtol=1e-4, atol=1e-5)


def noisy(params: dict[str, Any], rng: np.random.Generator) -> float:
    sd = 0.05 * 20.0 ** params["x"]
    return float(-((params["x"] - 0.4) ** 2) - (params["y"] - 0.6) ** 2 + sd * rng.normal())


def run(optimizer: rl.Optimizer, steps: int) -> rl.Optimizer:
    for _ in range(steps):
        trial = optimizer.ask()
        optimizer.tell(trial, noisy(trial.params, np.random.default_rng([1, trial.number])))
    return optimizer


def test_off_is_as_before() -> None:
    plain, off = rl.Optimizer(PLANE, 30), rl.Optimizer(PLANE, 30, noise="constant")
    run(plain, 12), run(off, 12)
    assert plain.to_json() == off.to_json()
    assert "noise" not in plain.model.to_json()
    assert plain._belief.fitted is not None
    assert plain._belief.fitted.noise is None


@pytest.mark.parametrize("method", ["map", "ensemble"])
def test_the_same_next_suggestion_after_a_restart(method: Any) -> None:
    model = rl.Model(method=method, noise="auto")
    optimizer = run(rl.Optimizer(PLANE, 40, model=model, seed=3), 22)
    optimizer.ask()  # pending
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.model.noise == "auto"
    for _ in range(4):
        one, other = optimizer.ask(), again.ask()
        assert one.params == other.params
        value = noisy(one.params, np.random.default_rng(one.number))
        optimizer.tell(one, value), again.tell(other, value)
    assert optimizer.best() == again.best()


def test_results_near_the_noisy_border_count_less() -> None:
    optimizer = run(rl.Optimizer(PLANE, 60, noise="auto"), 40)
    situation = optimizer._situation()
    quiet, loud = situation.noise_sd(np.array([[0.05, 0.5], [0.95, 0.5]]))
    assert loud > 3.0 * quiet
    assert optimizer.history()[-1].decision is not None


def test_told_errors_alone_are_enough() -> None:
    optimizer = rl.Optimizer(PLANE, 40, noise="auto")
    for k, x in enumerate(np.random.default_rng(0).random((15, 2))):
        params = {"x": float(x[0]), "y": float(x[1])}
        sd = 0.05 * 20.0 ** params["x"]
        optimizer.observe(params, noisy(params, np.random.default_rng(k)), sem=sd)
    quiet, loud = optimizer._situation().noise_sd(np.array([[0.05, 0.5], [0.95, 0.5]]))
    assert loud > 5.0 * quiet


def test_structured_and_long_parameters_have_no_terms() -> None:
    space = rl.Space(
        {
            "order": rl.Permutation(["a", "b", "c"]),
            "city": rl.Categorical([f"c{k}" for k in range(40)]),
            "depth": rl.Int(1, 9),
            "mode": rl.Categorical(["a", "b"]),
        }
    )
    kinds = kinds_of(space.columns)
    assert kinds == (1, 1, 0, 2)
    assert not features(space.drawn(9, np.random.default_rng(0)), kinds)[:, :2].any()
    optimizer = rl.Optimizer(space, 20, noise="auto")
    for _ in range(9):
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.number % 4))
    assert rl.Optimizer.from_json(optimizer.to_json()).ask().params == optimizer.ask().params


def test_a_stored_shape_that_makes_no_sense_is_refused() -> None:
    for wrong in ({"level": 0.1, "places": [1.0]}, {"level": float("nan"), "places": [0.0] * 4}):
        with pytest.raises(rl.StorageError, match="invalid noise of a fit"):
            NoiseShape.from_json(wrong, PLANE.columns)


def test_settings_are_checked() -> None:
    with pytest.raises(rl.ConfigError, match="noise: need 'constant' or 'auto', got 'loud'"):
        rl.Model(noise="loud")  # type: ignore[arg-type]
    with pytest.raises(rl.ConfigError, match="noise: need 'constant' or 'auto', got 3"):
        rl.Optimizer(PLANE, 10, noise=3)  # type: ignore[arg-type]


# --- front ends -----------------------------------------------------------------------------------


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_reports_say_where_results_scatter_more() -> None:
    optimizer = run(rl.Optimizer(PLANE, 60, noise="auto"), 40)
    found = optimizer.noise_range()
    assert found is not None
    assert found.least.params["x"] < 0.4 < 0.7 < found.most.params["x"]
    assert found.most.sd > 5.0 * found.least.sd
    assert f"sd {found.most.sd:.3g}" in str(found)
    assert run(rl.Optimizer(PLANE, 60), 20).noise_range() is None
    assert rl.Optimizer(PLANE, 60, noise="auto").noise_range() is None


def test_a_study_and_the_command_line(tmp_path: Path) -> None:
    storage = ["--storage", str(tmp_path / "s.sqlite")]
    made = invoke("create", "s", "--space", json.dumps(PLANE.to_json()), "--budget", "60",
                  "--noise", "auto", *storage)  # fmt: skip
    assert made.exit_code == 0, made.output
    with rl.Study.open(tmp_path / "s.sqlite", "s", noise="auto") as study:
        assert study.snapshot().optimizer.model.noise == "auto"
        for _ in range(30):
            trial = study.ask()
            study.tell(trial, noisy(trial.params, np.random.default_rng([1, trial.number])))
        data = page_data(study.snapshot())
    shown = data["noise_differs"]
    assert shown["most"]["sd"] > 2.0 * shown["least"]["sd"]
    assert shown["sentence"].startswith("Results scatter")
    json.dumps(data, allow_nan=False)
    report = invoke("show", "s", *storage)
    assert "noise: results scatter" in " ".join(report.output.split())
    with pytest.raises(rl.ConfigError, match="noise: 'auto' there, 'constant' here"):
        rl.Study.open(tmp_path / "s.sqlite", "s", noise="constant")
    wrong = invoke("create", "t", "--space", json.dumps(PLANE.to_json()), "--budget", "9",
                   "--noise", "loud", *storage)  # fmt: skip
    assert str(wrong.exception) == "noise: need 'constant' or 'auto', got 'loud'"


def test_the_service_and_its_client(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.sqlite"), folder=tmp_path) as service:
        client = Client(service.url, patience=5)
        study = client.create("s", space=PLANE, budget=30, noise="auto")
        assert study.info()["settings"]["model"]["noise"] == "auto"
        with pytest.raises(rl.ConfigError, match="noise"):
            client.create("t", space=PLANE, budget=30, noise="loud")


def test_maximize() -> None:
    draws = np.random.default_rng(0)
    result = rl.maximize(lambda params: noisy(params, draws), PLANE, 12, noise="auto")
    assert result.optimizer.model.noise == "auto"


# --- the benchmark --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "family", [pytest.param(each, marks=pytest.mark.slow) for each in FAMILIES[1:]] + ["place"]
)
def test_the_noise_of_the_families(family: str) -> None:
    task = problem(family, 3)
    points = task.space.drawn(4000, np.random.default_rng(0))
    sds = task.sds(points)
    if family == "constant":
        assert sds.min() == sds.max()
    else:
        assert 4.0 < sds.max() / sds.min() <= TIMES * (1 + 1e-9)
    values = np.array([task.f(task.space.decode(x)) for x in points[:300]])
    assert values.max() <= task.f_star + 1e-9
    if family in ("level", "quiet"):
        rise = np.corrcoef(values, sds[:300])[0, 1]
        assert rise > 0.9 if family == "level" else rise < -0.9
    params = task.space.decode(points[0])
    drawn = [(task.observe(params, k) - task.f(params)) / task.sd(params) for k in range(400)]
    assert np.std(drawn) == pytest.approx(1.0, abs=0.15)
    assert task.observe(params, 7) == task.observe(params, 7)
