"""What is under way is counted on, as far as one may."""

import gc
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from regretless.defaults import MergeRules
from regretless.engine import Situation
from regretless.engine import situation as deciding
from regretless.improvement import h
from regretless.model import GP, Mixture
from regretless.policies import Candidates, Score

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


@pytest.mark.parametrize(("defaults", "kind"), [(2, GP), (3, Mixture)])
@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ts"])
def test_a_decision_leaves_nothing_to_collect(policy: str, defaults: int, kind: type) -> None:
    """Posteriors take megabytes, and garbage in circles waits for its collector."""

    def posteriors() -> int:
        return sum(
            type(each) is kind for each in gc.get_objects()
        )  # a look at more would wake others

    opt = rl.Optimizer(PLANE, 40, policy=policy, defaults=defaults)
    gc.collect()
    before = posteriors()
    gc.disable()
    try:
        for trial in opt.ask(12):
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


# --- what a policy is shown, and what is said of its choice ---------------------------------------


def test_a_policy_sees_what_was_told_in_the_model_s_units() -> None:
    waiting = list(np.random.default_rng(2).random((5, 2)))
    here = situation(waiting)
    inputs = here.inputs
    assert (inputs.rows, len(inputs.posterior.points), inputs.horizon.asked) == (12, 17, 17)
    assert inputs.horizon.remaining == inputs.horizon.steps == 100 - 17
    most = here.posterior.sample_means.max()
    assert inputs.best_observation == pytest.approx(most)  # one look a point
    assert inputs.unit == here.fitted.scaling.scale != 1.0
    assert inputs.incumbent.row == int(np.argmax(inputs.posterior.at_data[0][:12]))


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
@pytest.mark.parametrize("policy", [rl.EIC(payback=0.4), rl.IDS()])
def test_the_numbers_of_a_decision_follow_from_each_other(
    direction: str, policy: rl.Policy
) -> None:
    """EI = sd h(z), and the loss sd h(-z) is spread over the horizon, in the user's units."""
    opt = rl.Optimizer(PLANE, 16, n0=5, policy=policy, direction=direction)  # type: ignore[arg-type]
    sign = 1.0 if direction == "maximize" else -1.0
    rng = np.random.default_rng(8)
    for trial in opt:
        x, y = (float(value) for value in trial.params.values())  # type: ignore[arg-type]
        opt.tell(trial, sign * 300.0 * (np.sin(5 * x) + y + 0.2 * rng.standard_normal()))
    decisions = [t.decision for t in opt.trials if t.decision.reason != "design"]
    assert len(decisions) == 11
    for d in decisions:
        assert d.mean is not None
        assert d.sd is not None
        assert d.incumbent is not None
        assert d.horizon is not None
        assert d.evaluation_cost is not None
        z = sign * (d.mean - d.incumbent) / d.sd
        assert d.z == pytest.approx(z, rel=1e-6, abs=1e-9)
        assert d.expected_improvement == pytest.approx(d.sd * float(h(z)))
        assert d.expected_loss == pytest.approx(d.sd * float(h(-z)))
        assert d.evaluation_cost * d.horizon == pytest.approx(d.expected_loss)
        share = 0.4 if isinstance(policy, rl.EIC) else 0.3
        assert d.horizon == pytest.approx(1 + share * (d.remaining - 1))
        assert d.noise_sd is not None
        assert 5.0 < d.noise_sd < 300.0  # 60 is the truth


def test_points_are_merged_by_the_evaluations_that_remain(monkeypatch: pytest.MonkeyPatch) -> None:
    real, seen = deciding.same_point, []

    def noted(
        score: Score,
        begin: Candidates,
        x: Array,
        steps: int,
        rules: MergeRules,
        *others: Any,
    ) -> int | None:
        seen.append((len(begin.sampled), steps))
        return real(score, begin, x, steps, rules, *others)  # type: ignore[arg-type]

    monkeypatch.setattr(deciding, "same_point", noted)
    opt = rl.Optimizer(PLANE, 30, n0=6)
    for trial in opt.ask(6):
        opt.tell(trial, float(trial.params["x"]))  # type: ignore[arg-type]
    opt.ask()
    assert seen == [(6, 24)]


@pytest.mark.parametrize("merge", [True, False])
def test_a_choice_is_a_sampled_point_where_it_is_merged(
    merge: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "same_point", lambda *_: 2)
    opt = rl.Optimizer(PLANE, 30, n0=6, policy=rl.IDS(merge=merge))
    known = opt.ask(6)
    for trial in known:
        opt.tell(trial, float(trial.params["x"]))  # type: ignore[arg-type]
    chosen = opt.ask()
    assert chosen.decision.merged is merge
    assert (chosen.params == known[2].params) is merge
    assert (chosen.decision.reason == "resample") is merge
