"""Trials that somebody else chose: what the drop-ins are built on."""

import pytest

import regretless as rl

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})


def test_an_adopted_trial_costs_budget_and_is_waited_for() -> None:
    opt = rl.Optimizer(SPACE, 10)
    trial = opt.adopt({"x": 0.25})
    assert (trial.number, trial.params) == (0, {"x": 0.25})
    assert opt.remaining == 9
    assert opt.pending == [trial]
    opt.tell(trial, 1.0)
    assert opt.best().params == {"x": 0.25}
    assert str(trial.decision) == "given: not chosen by the policy; 10 trials left"


def test_adopted_trials_count_towards_the_start() -> None:
    opt = rl.Optimizer(SPACE, 20, n0=4)
    for x in (0.2, 0.4, 0.4, 0.8):
        opt.tell(opt.adopt({"x": x}), -x)
    reasons = []
    for _ in range(3):
        trial = opt.ask()
        reasons.append(trial.decision.reason)
        opt.tell(trial, -float(trial.params["x"]))  # type: ignore[arg-type]
    assert reasons.count("design") == 1  # 0.4 was tried twice, and is one point


def test_the_decision_of_another_process_is_kept() -> None:
    there, here = rl.Optimizer(SPACE, 10, seed=1), rl.Optimizer(SPACE, 10, seed=2)
    asked = there.ask()
    assert here.adopt(asked.params, asked.decision) == asked


def test_adopted_trials_survive_a_restart() -> None:
    opt = rl.Optimizer(SPACE, 10, n0=2)
    for x in (0.1, 0.5, 0.9):
        opt.tell(opt.adopt({"x": x}), -x * x)
    opt.adopt({"x": 0.3})
    again = rl.Optimizer.from_json(opt.to_json())
    assert again.trials == opt.trials
    assert again.ask() == opt.ask()


def test_a_point_outside_is_refused() -> None:
    opt = rl.Optimizer(SPACE, 10)
    with pytest.raises(rl.SpaceError, match=r"x: must be a number in \[0.0, 1.0\], got 3"):
        opt.adopt({"x": 3})
    assert opt.asked == 0


@pytest.mark.parametrize("verb", ["adopt", "observe"])
def test_a_given_point_comes_back_to_the_last_digit(verb: str) -> None:
    x = 0.5488135039273248  # which the unit cube of this space does not hold
    space = rl.Space({"x": rl.Float(-3.0, 1.0)})
    assert space.decode(space.encode({"x": x})) != {"x": x}
    opt = rl.Optimizer(space, 12, n0=1)
    if verb == "adopt":
        opt.tell(opt.adopt({"x": x}), 10.0)
    else:
        opt.observe({"x": x}, 10.0)
    for trial in opt:
        opt.tell(trial, -20.0 * abs(trial.params["x"] - x) if trial.params["x"] != x else 10.0)
    assert opt.best().params == {"x": x}
    assert {"x": x} in [trial.params for trial in opt.trials[1:]]
    assert rl.Optimizer.from_json(opt.to_json()).best().params == {"x": x}
