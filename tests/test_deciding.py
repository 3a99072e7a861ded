"""What is under way is counted on, as far as one may."""

import gc

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from regretless.engine import Situation
from regretless.model import GP

Array = NDArray[np.float64]
PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})


def situation(waiting: list[Array]) -> Situation:
    """Twelve results, and these points under way."""
    opt = rl.Optimizer(PLANE, 100, n0=12, seed=3)
    rng = np.random.default_rng(3)
    for trial in opt.ask(12):
        x = PLANE.encode(trial.params)
        opt.tell(trial, float(np.sin(5 * x[0]) + np.cos(4 * x[1]) + 0.1 * rng.standard_normal()))
    for x in waiting:
        opt.adopt(PLANE.decode(x))
    return opt._situation()


def best_point() -> Array:
    alone = situation([])
    return np.asarray(alone.inputs.incumbent.x)


@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ts"])
def test_a_decision_leaves_nothing_to_collect(policy: str) -> None:
    """Posteriors take megabytes, and garbage in circles waits for its collector."""

    def posteriors() -> int:
        return sum(
            type(each) is GP for each in gc.get_objects()
        )  # a look at more would wake others

    opt = rl.Optimizer(PLANE, 40, policy=policy)
    gc.collect()
    before = posteriors()
    gc.disable()
    try:
        for trial in opt.ask(20):
            opt.tell(trial, trial.params["x"])
            opt.tell(opt.ask(), 1.0)
        assert posteriors() <= before + 3
    finally:
        gc.enable()


def test_with_nothing_under_way_nothing_is_promised() -> None:
    assert situation([]).inputs.promised == -np.inf


def test_another_look_at_the_best_point_promises_no_better_one() -> None:
    here = situation([best_point()] * 3)
    assert here.inputs.promised == pytest.approx(here.posterior.at_data[0].max(), abs=1e-9)


@pytest.mark.parametrize("count", [1, 4, 12])
def test_what_is_promised_is_the_best_mean_once_results_are_in(count: int) -> None:
    """Against results drawn from the posterior and told one after the other."""
    away = 0.15 * np.random.default_rng(count).standard_normal((count, 2))
    waiting = list(np.clip(best_point() + away, 0.0, 1.0))  # where a better one may well be
    here = situation(waiting)
    looked_at = np.vstack([best_point(), *waiting])
    rng, best = np.random.default_rng(0), []
    for _ in range(400):
        gp = here.posterior
        for x in waiting:
            mu, sigma = gp.predict(x[None, :])
            sd = np.sqrt((gp.omega * float(sigma[0])) ** 2 + gp.noise_sd**2)
            gp = gp.add(x, float(mu[0]) + sd * rng.standard_normal())
        best.append(gp.predict(looked_at)[0].max())
    error = np.std(best) * np.sqrt(1 / 400 + 1 / 512)
    assert abs(here.inputs.promised - np.mean(best)) < 4 * error
    assert here.inputs.promised >= here.posterior.at_data[0].max() - 1e-9
    if count == 12:  # some of so many will come out better than the best, as a rule
        assert here.inputs.promised > here.posterior.at_data[0].max() + 1e-3


def test_improvement_counts_from_what_is_promised() -> None:
    here = situation(list(np.random.default_rng(1).random((6, 2))))
    assert here.policy.xi(here.inputs) == here.inputs.promised
