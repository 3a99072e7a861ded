"""The BoTorch acquisition function and its search, against our own core on the same GP."""

from __future__ import annotations

import math
import runpy
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.defaults import NEWEST
from regretless.improvement import gate, log_h_and_slope
from regretless.kernels import SE, Kernel, Matern
from regretless.model import GP, Data, Hyper
from regretless.policies import EIC, Candidates, Gate, PosteriorScore
from regretless.policies.scores import log_ei
from regretless.search import candidates, maximise, same_point

torch = pytest.importorskip("torch", reason="torch is not installed")
pytest.importorskip("botorch", reason="botorch is not installed")
from botorch.acquisition.analytic import LogExpectedImprovement  # noqa: E402
from botorch.models import SingleTaskGP  # noqa: E402
from botorch.models.transforms import Normalize, Standardize  # noqa: E402
from botorch.optim.optimize import optimize_acqf  # noqa: E402
from gpytorch.kernels import MaternKernel, RBFKernel, ScaleKernel  # noqa: E402
from gpytorch.means import ZeroMean  # noqa: E402

from regretless.integrations import botorch as botorch_side  # noqa: E402
from regretless.integrations.botorch import (  # noqa: E402
    LogExpectedImprovementCost,
    log_h,
    optimize_eic,
)

pytestmark = pytest.mark.integration

LENGTHS, OMEGA2, LAM2 = (0.3, 0.5), 1.7, 0.02
REMAINING = 60
BOX = torch.tensor([[0.0, 0.0], [1.0, 1.0]], dtype=torch.double)


def observations(n: int = 25, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.random((n, 2))
    x[-3:] = x[0]  # replicates
    y = np.sin(5 * x[:, 0]) * np.cos(3 * x[:, 1]) + 0.1 * rng.standard_normal(n)
    return x, y


def core_gp(kernel: Kernel, x: np.ndarray, y: np.ndarray) -> GP:
    return GP.of(Data.of(x, y), Hyper(kernel, LAM2, OMEGA2))


def torch_gp(kernel: Any, x: np.ndarray, y: np.ndarray) -> Any:
    """The same Gaussian process, its parameters set and not fitted."""
    model = SingleTaskGP(
        torch.as_tensor(x),
        torch.as_tensor(y).unsqueeze(-1),
        covar_module=ScaleKernel(kernel),
        mean_module=ZeroMean(),
        outcome_transform=None,
    )
    model.covar_module.base_kernel.lengthscale = torch.tensor(LENGTHS, dtype=torch.double)
    model.covar_module.outputscale = OMEGA2
    model.likelihood.noise_covar.register_constraint(
        "raw_noise", type(model.likelihood.noise_covar.raw_noise_constraint)(1e-6)
    )
    model.likelihood.noise = OMEGA2 * LAM2
    return model.eval()


PAIRS = {
    "matern52": (Matern(LENGTHS), lambda: MaternKernel(nu=2.5, ard_num_dims=2)),
    "se": (SE(LENGTHS), lambda: RBFKernel(ard_num_dims=2)),
}


@pytest.fixture(params=PAIRS, ids=str)
def pair(request: pytest.FixtureRequest) -> tuple[GP, Any]:
    ours, theirs = PAIRS[request.param]
    x, y = observations()
    return core_gp(ours, x, y), torch_gp(theirs(), x, y)


def core_score(gp: GP, remaining: int = REMAINING) -> PosteriorScore:
    xi = float(gp.at_data[0].max())
    limit = Gate(xi, gate(remaining), gp.omega)
    return PosteriorScore(gp, gp.omega, lambda m, s: log_ei(m, s, xi), constraints=(limit,))


# -- numerics --------------------------------------------------------------------------------------


def test_log_h_is_the_cores() -> None:
    z = np.concatenate([-np.logspace(-8, 6, 300), [0.0], np.logspace(-8, 2, 300)])
    x = torch.tensor(z, requires_grad=True)
    value = log_h(x)
    value.sum().backward()
    expected, slope = log_h_and_slope(z)
    np.testing.assert_allclose(value.detach(), expected, rtol=1e-14, atol=1e-15)
    np.testing.assert_allclose(x.grad, slope, rtol=1e-14)


def test_log_h_gradient_is_autograds() -> None:
    z = torch.linspace(-30, 5, 50, dtype=torch.double, requires_grad=True)
    assert torch.autograd.gradcheck(log_h, z, eps=1e-6, atol=1e-6)


# -- the acquisition function ----------------------------------------------------------------------


def test_values_and_gate_are_the_cores(pair: tuple[GP, Any]) -> None:
    gp, model = pair
    score = core_score(gp)
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], REMAINING)
    assert float(acqf.best_f) == pytest.approx(gp.at_data[0].max(), rel=1e-9)
    x = np.random.default_rng(1).random((200, 2))
    mu, sigma = gp.predict(x)
    value, slack = score(x)[0], (mu - gp.at_data[0].max()) / (gp.omega * sigma) - gate(REMAINING)
    np.testing.assert_array_equal(slack >= 0, score(x)[1] >= 0)
    with torch.no_grad():
        theirs, room = acqf(torch.tensor(x).unsqueeze(-2)), acqf.gate(torch.tensor(x))
    inside = slack >= 0
    assert 0 < inside.sum() < len(x)
    np.testing.assert_allclose(room, slack, atol=1e-6)
    np.testing.assert_allclose(theirs[inside], value[inside], atol=1e-6)
    outside = value + acqf.penalty * np.minimum(slack, 0.0)
    np.testing.assert_allclose(theirs, outside, rtol=1e-6, atol=1e-5)


def test_inside_the_gate_it_is_botorchs_log_ei(pair: tuple[GP, Any]) -> None:
    _, model = pair
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], REMAINING)
    plain = LogExpectedImprovement(model, acqf.best_f)
    x = torch.rand(100, 1, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    inside = acqf.gate(x.squeeze(-2)) >= 0
    torch.testing.assert_close(acqf(x)[inside], plain(x)[inside], rtol=1e-9, atol=1e-9)


def test_batches_and_gradients(pair: tuple[GP, Any]) -> None:
    _, model = pair
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], REMAINING)
    x = torch.rand(4, 5, 1, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    assert acqf(x).shape == (4, 5)
    one_by_one = torch.stack([acqf(row) for row in x.reshape(-1, 1, 2)]).reshape(4, 5)
    torch.testing.assert_close(acqf(x), one_by_one, rtol=1e-8, atol=1e-8)
    assert acqf.gate(x.squeeze(-2)).shape == (4, 5)
    assert acqf.gate(x[0, 0, 0]).shape == ()
    leaf = x.reshape(-1, 1, 2)[:6].clone().requires_grad_()
    assert torch.autograd.gradcheck(acqf, leaf, eps=1e-6, atol=1e-3, rtol=1e-3)


def test_far_away_values_stay_finite() -> None:
    x, y = observations()
    model = torch_gp(MaternKernel(nu=2.5, ard_num_dims=2), x, y + 1e4 * (np.arange(25) == 3))
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], REMAINING)
    far = torch.rand(20, 1, 2, dtype=torch.double).requires_grad_()
    value = acqf(far)
    value.sum().backward()
    assert torch.isfinite(value).all()
    assert torch.isfinite(far.grad).all()


def test_minimising_is_maximising_the_negative() -> None:
    x, y = observations()
    up = torch_gp(MaternKernel(nu=2.5, ard_num_dims=2), x, y)
    down = torch_gp(MaternKernel(nu=2.5, ard_num_dims=2), x, -y)
    points = torch.rand(30, 1, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    first = LogExpectedImprovementCost(up, torch.tensor(x), REMAINING)(points)
    second = LogExpectedImprovementCost(down, torch.tensor(x), REMAINING, maximize=False)(points)
    torch.testing.assert_close(first, second, rtol=1e-9, atol=1e-9)


def test_an_empty_baseline_is_refused() -> None:
    _, model = PAIRS["se"][0], torch_gp(RBFKernel(ard_num_dims=2), *observations())
    with pytest.raises(rl.ConfigError, match=r"X_baseline: need .* got \(0, 2\)"):
        LogExpectedImprovementCost(model, torch.zeros(0, 2, dtype=torch.double), 5)
    with pytest.raises(rl.ConfigError, match=r"X_baseline: need .* got \(0, 2\)"):
        optimize_eic(model, BOX, torch.zeros(0, 2, dtype=torch.double), 5)


def test_no_evaluation_left_is_refused() -> None:
    model = torch_gp(RBFKernel(ard_num_dims=2), *observations())
    with pytest.raises(rl.ConfigError, match="need a finite number >= 1 of evaluations left"):
        LogExpectedImprovementCost(model, model.train_inputs[0], 0)


# -- points under way ------------------------------------------------------------------------------


def test_pending_points_count_as_the_core_counts_them(pair: tuple[GP, Any]) -> None:
    """As told at their posterior means; one of them is pending twice, and one is the incumbent."""
    gp, model = pair
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 101)] * 2), axis=-1).reshape(-1, 2)
    best = grid[gp.predict(grid)[0].argmax()]
    pending = np.array([best, [0.9, 0.2], [0.9, 0.2]])
    acqf = LogExpectedImprovementCost(
        model, model.train_inputs[0], REMAINING + 3, X_pending=torch.tensor(pending)
    )
    for x in pending:
        gp = gp.add(x, at(gp, x))
    score = core_score(gp)
    assert acqf.threshold == gate(REMAINING)
    assert (
        float(acqf.best_f)
        == pytest.approx(gp.at_data[0].max(), rel=1e-9)
        == pytest.approx(at(gp, best))
    )
    x = np.random.default_rng(1).random((200, 2))
    value, inside = score(x)[0], score(x)[1] >= 0
    with torch.no_grad():
        theirs, room = acqf(torch.tensor(x).unsqueeze(-2)), acqf.gate(torch.tensor(x))
    assert 0 < inside.sum() < len(x)
    np.testing.assert_array_equal(room >= 0, inside)
    np.testing.assert_allclose(theirs[inside], value[inside], atol=1e-5)
    leaf = torch.tensor(x[:6]).unsqueeze(-2).requires_grad_()
    assert torch.autograd.gradcheck(acqf, leaf, eps=1e-6, atol=1e-3, rtol=1e-3)


def at(gp: GP, x: np.ndarray) -> float:
    return float(gp.predict(x[None, :])[0][0])


def test_pending_points_can_be_taken_back(pair: tuple[GP, Any]) -> None:
    _, model = pair
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], REMAINING)
    x = torch.rand(20, 1, 2, dtype=torch.double, generator=torch.Generator().manual_seed(0))
    before, threshold = acqf(x), acqf.threshold
    acqf.set_X_pending(torch.tensor([[0.5, 0.5]], dtype=torch.double))
    assert acqf.threshold > threshold
    assert not torch.equal(acqf(x), before)
    acqf.set_X_pending(None)
    assert acqf.threshold == threshold
    torch.testing.assert_close(acqf(x), before, rtol=0, atol=0)


def test_a_batch_is_spread_out() -> None:
    model = torch_gp(MaternKernel(nu=2.5, ard_num_dims=2), *observations(8))
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], 60)
    torch.manual_seed(0)
    batch, _ = optimize_acqf(acqf, BOX, q=3, num_restarts=4, raw_samples=64, sequential=True)
    assert torch.pdist(batch).min() > 0.05
    assert acqf.X_pending is None


# -- the search ------------------------------------------------------------------------------------


@pytest.mark.parametrize("remaining", [2, 10, 200])
@pytest.mark.parametrize(
    "seed", [0, 7, 11]
)  # in 11 only one corner of the box is both good and inside
def test_the_search_finds_the_cores_point(seed: int, remaining: int) -> None:
    ours, theirs = PAIRS["se"]
    x, y = observations(30, seed)
    gp, model = core_gp(ours, x, y), torch_gp(theirs(), x, y)
    score = core_score(gp, remaining)
    space = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)})
    rng = np.random.default_rng(0)
    begin = candidates(space, gp, rng, score.width, NEWEST.search)
    found = maximise(score, space, begin, rng, NEWEST.search)
    candidate, value = optimize_eic(
        model, BOX, model.train_inputs[0], remaining, merge=False, seed=0
    )
    assert candidate.shape == (1, 2)
    grid = np.stack(np.meshgrid(*[np.linspace(0, 1, 201)] * 2), axis=-1).reshape(-1, 2)
    values, slack = score(grid)
    brute = values[slack >= 0].max(initial=-np.inf)
    assert float(value) >= max(brute, found.value) - 1e-4
    assert score(candidate.numpy())[1][0] >= -1e-6
    assert score(candidate.numpy())[0][0] == pytest.approx(float(value), abs=1e-5)


def test_the_last_evaluation_goes_to_the_incumbent(pair: tuple[GP, Any]) -> None:
    """With one left only z >= 0 passes, and no tried point is better than the incumbent."""
    gp, model = pair
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], 1)
    assert acqf.threshold == 0.0
    candidate, _ = optimize_eic(model, BOX, model.train_inputs[0], 1, seed=0)
    mu, sigma = gp.predict(candidate.numpy())
    assert (mu[0] - float(gp.at_data[0].max())) / (gp.omega * sigma[0]) >= -1e-6


def test_merging_is_the_cores() -> None:
    """Near a tried point, a new one is taken as that point, and not further away."""
    x, y = observations()
    gp, model = core_gp(PAIRS["se"][0], x, y), torch_gp(PAIRS["se"][1](), x, y)
    score, acqf = core_score(gp), LogExpectedImprovementCost(model, torch.tensor(x), REMAINING)
    seen = set()
    for step in np.logspace(-6, -0.5, 6):
        for row in range(len(gp.data)):
            new = np.clip(gp.data.x[row] + [step, -step], 0.0, 1.0)
            begin = Candidates(gp, gp.points[:0])
            expected = same_point(score, begin, new, REMAINING, NEWEST.merge)
            found = botorch_side._same_point(
                acqf, torch.tensor(new)[None], torch.tensor(x), BOX, REMAINING
            )
            seen.add(expected is None)
            if expected is None:
                assert found is None
            else:
                np.testing.assert_array_equal(found[0], gp.data.x[expected])
    assert seen == {True, False}


def test_the_search_merges() -> None:
    """On a function as smooth as this, the best new point is next to the incumbent."""
    x = np.vstack([np.random.default_rng(0).random((60, 2)), [[0.41, 0.41]]])
    model = torch_gp(RBFKernel(ard_num_dims=2), x, -((x - 0.4) ** 2).sum(axis=1))
    free, _ = optimize_eic(model, BOX, torch.tensor(x), 1, merge=False, seed=0)
    merged, value = optimize_eic(model, BOX, torch.tensor(x), 1, seed=0)
    assert free.numpy().tolist()[0] not in x.tolist()
    assert merged.numpy().tolist()[0] in x.tolist()
    assert float((free - merged).abs().max()) <= 0.05
    assert math.isfinite(float(value))


def test_the_search_repeats_with_a_seed(pair: tuple[GP, Any]) -> None:
    _, model = pair
    first, second = (optimize_eic(model, BOX, model.train_inputs[0], 50, seed=4) for _ in "ab")
    torch.testing.assert_close(first[0], second[0], rtol=0, atol=0)


def is_within(candidate: Any, bounds: Any) -> bool:
    return bool(((candidate >= bounds[0]) & (candidate <= bounds[1])).all())


def test_in_a_narrower_box_the_incumbent_is_the_best_one_inside(pair: tuple[GP, Any]) -> None:
    gp, model = pair
    X, bounds = model.train_inputs[0], torch.tensor([[0.5, 0.0], [1.0, 0.5]], dtype=torch.double)
    inside = torch.stack([x for x in X if is_within(x, bounds)])
    assert not is_within(X[gp.predict(X.numpy())[0].argmax()], bounds)
    first, value = optimize_eic(model, bounds, X, 40, seed=0)
    same, _ = optimize_eic(model, bounds, inside, 40, seed=0)
    assert is_within(first, bounds)
    assert math.isfinite(float(value))
    torch.testing.assert_close(first, same, rtol=0, atol=0)
    last, _ = optimize_eic(model, bounds, X, 1, seed=0)
    assert at(gp, last[0].numpy()) >= max(at(gp, x) for x in inside.numpy()) - 1e-6


def test_in_a_box_without_a_tried_point_there_is_an_answer(pair: tuple[GP, Any]) -> None:
    """With one evaluation left it is about the best posterior mean of the box."""
    gp, model = pair
    X, corner = model.train_inputs[0], [[0.0, 0.9], [0.05, 1.0]]
    bounds = torch.tensor(corner, dtype=torch.double)
    assert not any(is_within(x, bounds) for x in X)
    candidate, value = optimize_eic(model, bounds, X, 1, seed=0)
    assert is_within(candidate, bounds)
    assert math.isfinite(float(value))
    grid = np.stack(np.meshgrid(*np.linspace(*corner, 21).T), axis=-1).reshape(-1, 2)
    means = gp.predict(grid)[0]
    spread = means.max() - means.min()
    assert at(gp, candidate[0].numpy()) >= means.max() - 0.1 * spread


def test_a_parameter_may_be_fixed_by_its_bounds(pair: tuple[GP, Any]) -> None:
    _, model = pair
    X = model.train_inputs[0]
    for level in (0.5, float(X[0, 1])):  # where no point was tried, and where one was
        bounds = torch.tensor([[0.0, level], [1.0, level]], dtype=torch.double)
        candidate, value = optimize_eic(model, bounds, X, 40, merge=False, seed=0)
        assert is_within(candidate, bounds)
    line = torch.stack([torch.linspace(0, 1, 101), torch.full((101,), level)], -1).to(X)
    acqf = LogExpectedImprovementCost(model, X[:1], 40)
    assert value >= acqf(line.unsqueeze(-2)).max() - 1e-6


def test_a_rounding_error_does_not_take_a_point_out_of_the_box() -> None:
    bounds = torch.tensor([[0.1, 0.1], [0.3, 0.3]], dtype=torch.double)
    X = torch.tensor([[0.1, 0.1 + 0.2], [0.1, 0.31]], dtype=torch.double)  # 0.1 + 0.2 > 0.3
    assert botorch_side._inside(bounds, X).tolist() == [[0.1, 0.3]]


def test_a_search_without_constraints_ends_inside_too() -> None:
    """The penalty: what Ax and a plain `optimize_acqf` rely on."""
    x, y = observations()
    model = torch_gp(MaternKernel(nu=2.5, ard_num_dims=2), x, y)
    acqf = LogExpectedImprovementCost(model, torch.tensor(x), 10)
    torch.manual_seed(0)
    candidate, _ = optimize_acqf(acqf, BOX, q=1, num_restarts=8, raw_samples=256)
    assert acqf.gate(candidate).item() >= -0.05


def test_a_fitted_model_with_transforms() -> None:
    """As people use it: other units, a box that is not the unit cube, a model fitted by BoTorch."""
    from botorch.fit import fit_gpytorch_mll
    from gpytorch.mlls import ExactMarginalLogLikelihood

    x, y = observations(30)
    low, high = torch.tensor([[-5.0, 10.0], [5.0, 30.0]], dtype=torch.double)
    X = low + (high - low) * torch.tensor(x)
    Y = 1000 + 50 * torch.tensor(y).unsqueeze(-1)
    model = SingleTaskGP(
        X,
        Y,
        input_transform=Normalize(2, bounds=torch.stack([low, high])),
        outcome_transform=Standardize(1),
    )
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    candidate, value = optimize_eic(model, torch.stack([low, high]), X, 40, seed=0)
    assert bool(((candidate >= low) & (candidate <= high)).all())
    assert math.isfinite(float(value))
    acqf = LogExpectedImprovementCost(model, X, 40)
    assert acqf.gate(candidate).item() >= -1e-6
    assert 900 < float(acqf.best_f) < 1100


def test_policy_and_acquisition_share_the_gate() -> None:
    assert EIC().gate  # what optimize_eic mirrors
    model = torch_gp(RBFKernel(ard_num_dims=2), *observations())
    acqf = LogExpectedImprovementCost(model, model.train_inputs[0], 200)
    assert acqf.threshold == gate(200) == pytest.approx(-1.947, abs=1e-3)


# -- Ax --------------------------------------------------------------------------------------------


def ax_client(**goal: Any) -> Any:
    """On [0, 1], with four completed trials of f = g = x."""
    pytest.importorskip("ax", reason="ax-platform is not installed")
    from ax.adapter.registry import Generators
    from ax.api.client import Client
    from ax.api.configs import RangeParameterConfig
    from ax.generation_strategy.generation_node import GenerationStep
    from ax.generation_strategy.generation_strategy import GenerationStrategy

    eic = {"botorch_acqf_class": LogExpectedImprovementCost, "botorch_acqf_options": {"budget": 20}}
    steps = [
        GenerationStep(generator=Generators.SOBOL, num_trials=4),
        GenerationStep(
            generator=Generators.BOTORCH_MODULAR,
            num_trials=-1,
            generator_kwargs=eic,
            should_deduplicate=False,
        ),
    ]
    client = Client(random_seed=1)
    x = RangeParameterConfig(name="x", bounds=(0.0, 1.0), parameter_type="float")
    client.configure_experiment(name="line", parameters=[x])
    client.configure_optimization(objective="f", **goal)
    client.set_generation_strategy(GenerationStrategy(name="EIC", nodes=steps))
    for _ in range(4):
        for index, params in client.get_next_trials(max_trials=1).items():
            value = float(params["x"])
            client.complete_trial(trial_index=index, raw_data={"f": value, "g": value})
    return client


@pytest.mark.filterwarnings("ignore")  # Ax and BoTorch have much to say
def test_ax_may_ask_while_trials_are_under_way() -> None:
    client = ax_client()
    asked = client.get_next_trials(max_trials=1) | client.get_next_trials(max_trials=2)
    assert len(asked) == 3
    assert all(0.0 <= params["x"] <= 1.0 for params in asked.values())


@pytest.mark.filterwarnings("ignore")
def test_ax_outcome_constraints_are_refused() -> None:
    client = ax_client(outcome_constraints=["g <= 0.3"])
    with pytest.raises(rl.ConfigError, match="constraints: EIC supports none on outcomes, got 1"):
        client.get_next_trials(max_trials=1)


def test_the_ax_example_runs(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("ax", reason="ax-platform is not installed")
    example = Path(__file__).parents[2] / "examples" / "ax_eic.py"
    runpy.run_path(str(example), run_name="__main__")
    assert "best arm" in capsys.readouterr().out
