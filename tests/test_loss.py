"""The loss budget: against dense algebra, draws of f, and whole runs."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import multivariate_normal, norm

import regretless as rl
from oracles import slopes
from regretless.engine import read, write
from regretless.engine.events import Baseline
from regretless.engine.loss import LossLimit, crossing
from regretless.kernels import SE
from regretless.ledger import Ledger
from regretless.model import GP, Data, Hyper, Mixture, Posterior, Scaling
from regretless.policies import Predicted

Array = NDArray[np.float64]
RNG = np.random.default_rng(5)
X = RNG.random((9, 2))
Y = np.sin(6 * X[:, 0]) + X[:, 1] + 0.1 * RNG.standard_normal(9)
ORDER = np.argsort(-Y)[[2, 0, 1, 3, 4, 5, 6, 7, 8]]  # the third best comes first: the baseline
X, Y = X[ORDER], Y[ORDER]
NEW = RNG.random((12, 2))
BASE = X[0]
PENDING = np.array([0.3, 0.9])
LINEAR = Scaling(shift=3.0, scale=2.5)
BENT = Scaling(shift=3.0, scale=2.5, knee=1.0, width=1.5)


def gp(length: float = 0.4, omega2: float = 1.3) -> GP:
    return GP.of(Data.of(X, Y), Hyper(SE((length, 0.5)), lam2=0.02, omega2=omega2))


def mixture() -> Posterior:
    return Mixture((gp(), gp(0.15, 0.8), gp(0.9, 3.0)), np.log([0.5, 0.3, 0.2]))


POSTERIORS = {"gp": gp(), "mixture": mixture()}
# Four trials: two at the same point, one at another, and a pending one.
POINTS = np.array([BASE, X[7], X[5], PENDING])
WEIGHTS = np.array([4.0, -2.0, -1.0, -1.0])


def limit(posterior: Posterior, scaling: Scaling = LINEAR, **changes: Any) -> LossLimit:
    made = LossLimit(posterior, scaling, POINTS, WEIGHTS, limit=20.0, risk_left=0.05)
    return replace(made, **changes)


def total(posterior: Posterior, x: Array | None, scale: float = 2.5) -> tuple[float, Array, Array]:
    """Weights, mean and covariance of f at all points, densely; with a trial at x."""
    points, weights = POINTS, WEIGHTS.copy()
    if x is not None:
        points, weights = np.vstack([points, x]), np.append(weights, -1.0)
        weights[0] += 1.0
    mean = scale * posterior.predict(points)[0] + 3.0
    covariance = scale**2 * posterior.omega2 * posterior.covariance(points)
    return float(weights @ mean), weights, covariance


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_slack_is_the_quantile_of_the_total_loss(name: str) -> None:
    posterior = POSTERIORS[name]
    loss = limit(posterior)
    assert loss.z == pytest.approx(norm.isf(0.01))
    slack = loss.slack(Predicted(NEW, *posterior.predict(NEW)))
    for x, got in zip(NEW, slack, strict=True):
        mean, weights, covariance = total(posterior, x)
        upper = mean + loss.z * np.sqrt(weights @ covariance @ weights)
        assert got == pytest.approx((20.0 - upper) / loss.unit, abs=1e-7)
    assert (loss.slack(Predicted(X, *posterior.at_data)) >= 0).any()


@pytest.mark.parametrize("own", [False, True])
@pytest.mark.parametrize("scaling", [LINEAR, BENT], ids=["linear", "bent"])
@pytest.mark.parametrize("spent", [False, True])
@pytest.mark.parametrize("name", POSTERIORS)
def test_slopes_of_the_slack(name: str, spent: bool, scaling: Scaling, own: bool) -> None:
    """By the whole chain: through mu, s and x."""
    posterior = POSTERIORS[name]
    loss = limit(posterior, scaling, limit=0.01 if spent else 200.0, own=own)
    assert loss.is_spent == spent
    mu, sigma, gradient = posterior.predict_vjp(NEW)
    slack, (d_mu, d_s, d_x) = loss.slack_and_slopes(Predicted(NEW, mu, sigma))
    np.testing.assert_allclose(slack, loss.slack(Predicted(NEW, mu, sigma)))
    ones = np.ones(len(NEW))
    slope = gradient(d_mu * ones, posterior.omega * d_s * ones) + d_x

    def at(x: Array) -> float:
        here = x[None, :]
        return float(loss.unit * loss.slack(Predicted(here, *posterior.predict(here)))[0])

    for x, got in zip(NEW, slope, strict=True):
        np.testing.assert_allclose(got, slopes(at, x, 1e-5), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("name", POSTERIORS)
def test_the_charge_is_that_of_draws(name: str) -> None:
    """P(T_n <= L < T_{n+1}) by draws of f at all points together."""
    posterior = POSTERIORS[name]
    loss = limit(posterior, limit=5.0)
    rng = np.random.default_rng(0)
    for x in NEW[:4]:
        points = np.vstack([POINTS, x])
        mean = 2.5 * posterior.predict(points)[0] + 3.0
        covariance = 2.5**2 * posterior.omega2 * posterior.covariance(points)
        f = rng.multivariate_normal(mean, covariance, size=200_000)
        before = f[:, :4] @ WEIGHTS
        after = before + f[:, 0] - f[:, 4]
        expected = np.mean((before <= 5.0) & (after > 5.0))
        above = np.mean(before > 5.0)
        assert loss.charge(x) == pytest.approx(expected, abs=4e-3)
        assert loss.exceeded == pytest.approx(above, abs=4e-3)
        assert 0.001 < loss.charge(x) < 0.9


@pytest.mark.parametrize("rho", [-0.999, -0.5, 0.0, 0.5, 0.999, 1.0, -1.0])
@pytest.mark.parametrize(("a", "b"), [(0.0, 0.0), (1.0, -0.5), (-2.0, 1.0), (3.0, 2.0), (0.5, 0.0)])
def test_crossing_against_scipy(a: float, b: float, rho: float) -> None:
    """A <= 0 < B, where A has the sd 2 and B the sd 3."""
    got = crossing(2.0 * a, 3.0 * b, 4.0, 9.0, 6.0 * rho)
    both = multivariate_normal([0.0, 0.0], [[1.0, rho], [rho, 1.0]], allow_singular=True)
    assert got == pytest.approx(norm.cdf(a) - both.cdf([a, b]), abs=2e-5)


def test_crossing_without_doubt() -> None:
    assert crossing(1.0, 0.0, 0.0, 4.0, 0.0) == pytest.approx(0.5)  # nothing was lost so far
    assert crossing(-1.0, 0.0, 0.0, 4.0, 0.0) == 0.0  # it is exceeded already
    assert crossing(1.0, -1.0, 0.0, 0.0, 0.0) == 1.0


@pytest.mark.parametrize("name", POSTERIORS)
@pytest.mark.parametrize("most", [0.01, 20.0])
def test_the_baseline_is_free(name: str, most: float) -> None:
    """However little is left, and whether or not the budget is spent."""
    posterior = POSTERIORS[name]
    loss = limit(posterior, limit=most, risk_left=0.0)
    assert loss.slack(Predicted(X, *posterior.predict(X)))[0] >= 0.0
    assert loss.charge(BASE) == 0.0
    assert loss.admits(BASE)
    numbers = loss.numbers(BASE)
    mean, weights, covariance = total(posterior, None)
    sd = float(np.sqrt(weights @ covariance @ weights))
    assert numbers["total_loss"] == pytest.approx(mean)
    assert numbers["total_loss_high"] == pytest.approx(mean + norm.ppf(0.95) * sd)


def test_a_spent_budget_allows_what_is_better_than_the_baseline() -> None:
    posterior = POSTERIORS["gp"]
    loss = limit(posterior, limit=0.01)
    slack = loss.slack(Predicted(X, *posterior.predict(X)))
    for x, got in zip(X[1:], slack[1:], strict=True):
        two = np.array([BASE, x])
        mean = 2.5 * posterior.predict(two)[0]
        covariance = 2.5**2 * posterior.omega2 * posterior.covariance(two)
        sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2 * covariance[0, 1])
        assert (got >= 0) == (norm.cdf((mean[1] - mean[0]) / sd) >= 0.99)
        if got >= 0:
            assert loss.charge(x) <= 0.01
    assert (slack[1:] >= 0).any()
    assert (slack[1:] < 0).any()
    assert loss.name == "loss budget, which is spent"


@pytest.mark.parametrize("name", POSTERIORS)
def test_what_is_allowed_is_charged_at_most_its_share(name: str) -> None:
    posterior = POSTERIORS["gp"]
    for most in (1.0, 5.0, 8.0, 12.0, 30.0):
        loss = limit(posterior, limit=most)
        slack = loss.slack(Predicted(NEW, *posterior.predict(NEW)))
        for x, got in zip(NEW, slack, strict=True):
            if got >= 0:
                assert loss.charge(x) <= loss.risk + 1e-12


def test_a_disaster_counts_in_full() -> None:
    """Where results are drawn in by a logarithm, the lower quantile of f is that of the user."""
    posterior = POSTERIORS["gp"]
    bent, linear = limit(posterior, BENT, limit=1e6), limit(posterior, LINEAR, limit=1e6)
    mu, sigma = posterior.predict(NEW)
    s = posterior.omega * sigma
    np.testing.assert_allclose(
        BENT.to_user(mu) - bent.z * bent._spread(mu, s), BENT.to_user(mu - bent.z * s)
    )
    at = Predicted(NEW, mu, sigma)
    assert (bent.slack(at) <= linear.slack(at) + 1e-9).all()
    assert (bent.slack(at) < linear.slack(at) - 0.1).any()


# --- whole runs -----------------------------------------------------------------------------------

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})
TODAY = {"x": 0.3}


def hill(x: float) -> float:
    return -4.0 * (x - 0.7) ** 2


def tune(loss_budget: float | None, behind: int = 0, **options: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY, loss_budget=loss_budget, **options)
    rng, waiting = np.random.default_rng(1), []
    sign = 1.0 if optimizer.direction == "maximize" else -1.0
    for trial in optimizer:
        waiting.append(trial)
        while len(waiting) > behind:
            done = waiting.pop(0)
            value = hill(float(done.params["x"])) + 0.02 * rng.standard_normal()
            optimizer.tell(done, sign * value)
    return optimizer


def losses(optimizer: rl.Optimizer) -> Array:
    each = [hill(0.3) - hill(float(trial.params["x"])) for trial in optimizer.trials]
    return np.cumsum(each)


@pytest.mark.parametrize(("direction", "behind"), [("maximize", 3), ("minimize", 0)])
def test_a_run_within_its_loss_budget(direction: Any, behind: int) -> None:
    free = losses(tune(None, behind, direction=direction))
    optimizer = tune(0.3, behind, direction=direction)
    lost = losses(optimizer)
    assert free.max() > 0.3  # without a limit it loses more
    assert lost.max() <= 0.3
    assert lost[-1] < -5.0  # and it still finds what is better
    first = optimizer.trials[0]
    assert (first.params, first.decision.reason) == (TODAY, "baseline")
    assert str(first.decision) == "baseline: the setting that runs today; 30 trials left"
    charged = [trial.decision.loss_risk or 0.0 for trial in optimizer.trials]
    assert 0.0 < sum(charged) <= 0.05
    assert any(trial.decision.held_back for trial in optimizer.trials)
    last = optimizer.trials[-1].decision
    assert last.total_loss is not None
    assert last.total_loss_high is not None
    # The baseline has one result, with noise 0.02, which counts 29 times.
    assert last.total_loss == pytest.approx(lost[-1], abs=2 * 29 * 0.02)
    assert last.total_loss < last.total_loss_high
    assert "expected total loss against the baseline" in str(last)


def test_a_replay_has_spent_the_same_risk() -> None:
    optimizer = tune(0.3, behind=2)
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin._records.risk == optimizer._records.risk > 0.0
    optimizer.extend(40)
    twin.extend(40)
    assert twin.ask() == optimizer.ask()
    assert twin.ask() == optimizer.ask()


@pytest.mark.parametrize("policy", ["ids", "eic", "gp-ts", "random"])
def test_a_spent_budget_is_kept_and_said(policy: str) -> None:
    """Trials that somebody else chose have lost more than the budget."""
    optimizer = rl.Optimizer(LINE, 30, policy=policy, baseline=TODAY, loss_budget=0.5)
    optimizer.tell(optimizer.ask(), hill(0.3))
    for x in (0.0, 0.05):
        optimizer.tell(optimizer.adopt({"x": x}), hill(x))
    rng = np.random.default_rng(2)
    for _ in range(8):
        trial = optimizer.ask()
        assert trial.params == TODAY
        assert trial.decision.held_back == "loss budget, which is spent"
        assert trial.decision.reason == "baseline"
        assert "held back by the loss budget, which is spent" in str(trial.decision)
        optimizer.tell(trial, hill(0.3) + 0.01 * rng.standard_normal())
    optimizer.observe({"x": 0.7}, hill(0.7))  # now something better is known
    assert abs(float(optimizer.ask().params["x"]) - 0.7) < 0.1


def test_before_the_first_result_only_the_baseline_is_tried() -> None:
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY, loss_budget=1.0)
    assert [trial.params for trial in optimizer.ask(4)] == [TODAY] * 4
    plain = rl.Optimizer(LINE, 30, baseline=TODAY)
    reasons = [trial.decision.reason for trial in plain.ask(3)]
    assert reasons == ["baseline", "design", "design"]


def test_a_baseline_that_was_observed_is_not_asked_for() -> None:
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY)
    optimizer.observe(TODAY, 1.0)
    assert optimizer.ask().decision.reason == "design"


def test_a_new_baseline_counts_from_its_own_trials() -> None:
    """T = sum of f(b_i) - f(x_i), with the baseline b_i at the time of trial i."""
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY, loss_budget=2.0)
    optimizer.tell(optimizer.ask(), hill(0.3))
    optimizer.tell(optimizer.adopt({"x": 0.5}), hill(0.5))
    optimizer.set_baseline({"x": 0.5})
    before = optimizer.to_json()
    optimizer.set_baseline({"x": 0.5})  # the same one
    assert optimizer.to_json() == before
    optimizer.tell(optimizer.adopt({"x": 0.3}), hill(0.3))

    def by_point() -> dict[float, float]:
        points, weights = optimizer._records.total_loss()
        return dict(zip(points[:, 0].round(9).tolist(), weights.tolist(), strict=True))

    assert by_point() == {0.5: 0.0}  # the second trial gained what the third lost
    optimizer.adopt({"x": 0.3})
    assert by_point() == {0.5: 1.0, 0.3: -1.0}
    twin = rl.Optimizer.from_json(optimizer.to_json())
    assert twin.baseline == {"x": 0.5}
    assert twin.ask() == optimizer.ask()
    optimizer.set_baseline({"x": 0.9})
    trial = optimizer.ask()
    assert (trial.params, trial.decision.reason) == ({"x": 0.9}, "baseline")


def test_a_baseline_may_be_declared_later() -> None:
    optimizer = rl.Optimizer(LINE, 30)
    assert optimizer.baseline is None
    optimizer.tell(optimizer.ask(), 1.0)
    optimizer.set_baseline(TODAY)
    assert optimizer.baseline == TODAY
    trial = optimizer.ask()
    assert (trial.params, trial.decision.reason) == (TODAY, "baseline")


def test_a_baseline_outside_the_space_changes_nothing() -> None:
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY)
    before = optimizer.to_json()
    with pytest.raises(rl.SpaceError, match="x"):
        optimizer.set_baseline({"x": 2.0})
    assert optimizer.to_json() == before
    assert optimizer.baseline == TODAY


def test_the_event_of_a_baseline() -> None:
    event = Baseline({"x": 0.5})
    assert write(event) == ("baseline", 1, {"params": {"x": 0.5}})
    assert read(*write(event)) == event
    with pytest.raises(rl.StorageError, match="params"):
        read("baseline", 1, {})


# --- what is known of the baseline ----------------------------------------------------------------


def test_best_says_what_it_brings_over_the_baseline() -> None:
    """By the joint posterior: what both points have in common cancels out."""
    optimizer = tune(None, model=rl.Model(tail="linear"))
    best, situation = optimizer.best(), optimizer._situation()
    both = np.array([LINE.encode(best.params), LINE.encode(TODAY)])
    scale = situation.unit
    covariance = scale**2 * situation.posterior.omega2 * situation.posterior.covariance(both)
    sd = np.sqrt(covariance[0, 0] + covariance[1, 1] - 2.0 * covariance[0, 1])
    gain = best.mean - optimizer.predict(TODAY)[0]
    assert best.gain == pytest.approx(gain)
    assert best.gain_low == pytest.approx(gain - 1.96 * sd)
    assert best.gain_high == pytest.approx(gain + 1.96 * sd)
    assert best.prob_better == pytest.approx(norm.cdf(gain / sd))
    assert best.gain == pytest.approx(0.64, abs=0.05)
    less = rl.Optimizer(LINE, 9, baseline=TODAY, direction="minimize")
    less.observe(TODAY, 2.0)
    less.observe({"x": 0.8}, 1.0)
    assert (less.best().gain or 0.0) > 0.0
    assert rl.Optimizer.from_json(optimizer.to_json()).best() == best
    without = rl.Optimizer(LINE, 9)
    without.observe(TODAY, 2.0)
    assert without.best().gain is None


def test_best_is_the_baseline() -> None:
    optimizer = rl.Optimizer(LINE, 9, baseline=TODAY)
    optimizer.tell(optimizer.ask(), 1.0)
    best = optimizer.best()
    assert (best.params, best.gain, best.prob_better) == (TODAY, 0.0, 0.0)


def test_the_ledger_counts_from_the_baseline() -> None:
    """Each trial against the baseline of its time, with the covariance of all points."""
    optimizer = tune(None)
    optimizer.set_baseline({"x": 0.6})
    optimizer.extend(33)
    for trial in optimizer:
        optimizer.tell(trial, hill(float(trial.params["x"])))
    estimates = Ledger.of(optimizer).estimates()
    assert estimates is not None
    assert estimates.over == "baseline"
    points = [trial.params for trial in optimizer.trials]
    points += [TODAY] * 30 + [{"x": 0.6}] * 3
    total = Ledger.of(optimizer).total(points, [1.0] * 33 + [-1.0] * 33)
    assert estimates.gain.mean[-1] == pytest.approx(total.mean)
    assert estimates.gain.sd[-1] == pytest.approx(total.sd, rel=1e-6)
    assert estimates.first == pytest.approx(optimizer.predict({"x": 0.6})[0])
    observed = Ledger.of(optimizer).gain()
    assert observed.mean[-1] == pytest.approx(total.mean, abs=0.5)
    assert rl.Optimizer(LINE, 9).baseline is None


def test_the_loss_so_far() -> None:
    optimizer = rl.Optimizer(LINE, 30, baseline=TODAY, loss_budget=0.5, confidence=0.9)
    assert Ledger.of(optimizer).loss() is None
    optimizer.tell(optimizer.ask(), hill(0.3))
    for x in (0.0, 0.05):
        optimizer.tell(optimizer.adopt({"x": x}), hill(x))
    loss = Ledger.of(optimizer).loss()
    assert loss is not None
    assert loss.expected == pytest.approx(2 * hill(0.3) - hill(0.0) - hill(0.05), rel=0.2)
    assert (loss.budget, loss.confidence, loss.is_spent) == (0.5, 0.9, True)
    assert loss.expected < loss.high
    assert loss.exceeded > 0.9
    assert "it is spent: only the baseline or a point known to be better is tried" in str(loss)
    assert Ledger.of(tune(None)).loss() is None


def test_a_study_changes_its_baseline(tmp_path: Path) -> None:
    pytest.importorskip("sqlalchemy")
    path = tmp_path / "s.sqlite"
    with rl.Study.open(path, "s", space=LINE, budget=20, baseline=TODAY) as study:
        study.tell(study.ask(), 1.0)
        study.set_baseline({"x": 0.6}, key="monday")
        study.set_baseline({"x": 0.7})
        study.set_baseline({"x": 0.6}, key="monday")  # a repeated call
        assert study.baseline == {"x": 0.7}
        kinds = [event.kind for event in study.events()]
        assert kinds == ["created", "asked", "told", "baseline", "baseline"]
    with pytest.raises(rl.ConfigError, match=r"baseline: .*0.7.* there, .*0.3.*see set_baseline"):
        rl.Study.open(path, "s", baseline=TODAY)
    with rl.Study.open(path, "s", baseline={"x": 0.7}) as again:
        assert again.ask().decision.reason == "baseline"


def test_the_command_line(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    pytest.importorskip("typer")
    from regretless.cli.app import main

    def run(*arguments: str) -> str:
        monkeypatch.setattr("sys.argv", ["regretless", *arguments])
        with suppress(SystemExit):
            main()
        return str(capsys.readouterr().out)

    monkeypatch.chdir(tmp_path)
    space = '{"parameters": [{"name": "x", "type": "float", "low": 0, "high": 1}]}'
    run("create", "s", "--space", space, "--budget", "9", "--baseline", '{"x": 0.3}',
        "--loss-budget", "5")  # fmt: skip
    run("ask", "s")
    run("tell", "s", "0", "1.0")
    run("observe", "s", '{"x": 0.8}', "2.0")
    shown = run("show", "s")
    assert 'baseline: {"x": 0.3}; total gain over it' in shown
    assert "loss budget 5: the trials have lost" in shown
    assert "over the baseline: +" in run("best", "s")
    run("set-baseline", "s", '{"x": 0.8}')
    assert "it is the baseline" in run("best", "s")
    assert '{"x": 0.8}' in run("log", "s").splitlines()[-1]


def test_past_the_budget_without_a_result_the_baseline_is_tried() -> None:
    """It was once a point at random."""
    space = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)})
    baseline = {"a": 0.5, "b": 0.5}
    optimizer = rl.Optimizer(space, 1, baseline=baseline, loss_budget=1.0)
    assert [trial.params for trial in optimizer.ask(3)] == [baseline] * 3


def test_a_rejection_of_the_baseline_closes_that_trial_only() -> None:
    """It runs anyway, and nothing else is known to be allowed."""
    space = rl.Space({"a": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 9, baseline={"a": 0.5}, loss_budget=1.0, mode="recommend")
    optimizer.reject(optimizer.ask(), "no")
    assert optimizer.ask().params == {"a": 0.5}


def test_the_limit_does_not_believe_in_proposals() -> None:
    """The search predicts as if proposals had results; the limit must not."""
    space = rl.Space({"a": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(space, 30, baseline={"a": 0.5}, loss_budget=50.0, mode="recommend")
    for a in (0.5, 0.1, 0.3, 0.7, 0.9, 0.4, 0.6):
        optimizer.observe({"a": a}, -((a - 0.6) ** 2))
    optimizer.ask()
    limit = optimizer._loss_limit(optimizer._situation().belief)
    assert limit is not None
    assert limit.own


def test_a_loss_budget_whose_square_overflows_is_refused() -> None:
    space = rl.Space({"a": rl.Float(0.0, 1.0)})
    with pytest.raises(rl.ConfigError, match=r"loss_budget: need at most 1e\+100, got 1e\+308"):
        rl.Optimizer(space, 9, baseline={"a": 0.5}, loss_budget=1e308)


@pytest.mark.slow
def test_a_loss_budget_that_is_small_beside_the_range_of_f() -> None:
    """Results near the baseline differ little; that must not make f look flat elsewhere."""
    exceeded = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 5])
        top, steep, noise = rng.uniform(0.5, 0.9), rng.uniform(2.0, 6.0), rng.uniform(0.01, 0.1)
        optimizer = rl.Optimizer(LINE, 30, baseline=TODAY, loss_budget=0.3, seed=seed)
        lost = 0.0
        worst = 0.0
        for trial in optimizer:
            value = -steep * (float(trial.params["x"]) - top) ** 2
            optimizer.tell(trial, value + noise * rng.standard_normal())
            lost += -steep * (0.3 - top) ** 2 - value
            worst = max(worst, lost)
        exceeded.append(worst > 0.3)
    assert sum(exceeded) <= 1
