"""Approval: `ask` proposes, and a person approves or rejects."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from oracles import is_near
from regretless.engine import Asked
from regretless.engine.rejections import Rejections
from regretless.policies import Predicted

LINE = rl.Space({"x": rl.Float(0.0, 1.0)})
MIXED = rl.Space(
    {
        "x": rl.Float(0.1, 10.0, log=True),
        "n": rl.Int(1, 40),
        "k": rl.Categorical(["a", "b", None]),
        "one": rl.Int(3, 3),
    }
)
FINITE = rl.Space({"n": rl.Int(0, 2), "k": rl.Categorical(["a", "b"])})


def recommending(space: rl.Space = LINE, budget: int = 9, **options: Any) -> rl.Optimizer:
    return rl.Optimizer(space, budget, mode="recommend", **options)


def served(opt: rl.Optimizer, times: int) -> None:
    """Approve and tell so many trials."""
    for _ in range(times):
        trial = opt.ask()
        opt.approve(trial)
        opt.tell(trial, -abs(float(trial.params["x"]) - 0.4))  # type: ignore[arg-type]


# -- what a verdict does ---------------------------------------------------------------------------


def test_only_an_approved_trial_is_pending_and_may_be_told() -> None:
    opt = recommending()
    first, second = opt.ask(2)
    assert (first.proposed, opt.pending, opt.remaining) == (True, [], 7)
    assert [trial.number for trial in opt.proposed] == [0, 1]
    with pytest.raises(rl.TrialError, match="trial 0 is only proposed: approve it before"):
        opt.tell(first, 1.0)
    opt.approve(first, "go on")
    assert opt.pending == [rl.Trial(0, first.params, first.decision)]
    opt.tell(first, 1.0)
    opt.reject(second, " too slow ")
    with pytest.raises(rl.TrialError, match=r"trial 1 was rejected \(too slow\): .*adopt"):
        opt.tell(second, 1.0)
    assert [(row.status, row.note) for row in opt.history()] == [
        ("told", "go on"),
        ("rejected", "too slow"),
    ]
    assert opt.history()[1].flat()["note"] == "too slow"


def test_what_is_adopted_counts_as_approved() -> None:
    opt = recommending()
    trial = opt.adopt({"x": 0.5})
    assert not trial.proposed
    opt.approve(trial)  # no news
    opt.tell(trial, 1.0)
    assert opt.observations == 1


def test_a_rejected_trial_uses_no_budget_but_keeps_its_number() -> None:
    opt = recommending(budget=3)
    numbers = []
    while opt.remaining:
        trial = opt.ask()
        numbers.append(trial.number)
        if trial.number % 2:
            opt.reject(trial, "no")
        else:
            opt.approve(trial)
            opt.tell(trial, 1.0)
    assert numbers == [0, 1, 2, 3, 4]
    assert (opt.asked, opt.remaining, opt.observations) == (3, 0, 3)
    assert opt.ask().decision.reason == "exhausted"
    with pytest.raises(rl.ConfigError, match="budget: need at least 4"):
        opt.extend(3)


def test_proposals_that_wait_count_as_under_way() -> None:
    opt = recommending(MIXED, 30)
    served(opt, 6)
    batch = opt.ask(4)
    assert [trial.decision.pending for trial in batch] == [0, 1, 2, 3]
    points = {tuple(trial.params.values()) for trial in batch}
    assert len(points) == 4


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda opt: opt.approve(0), rl.TrialError, "trial 0 was told already: it can't be app"),
        (lambda opt: opt.reject(0, "no"), rl.TrialError, "trial 0 was told already: it can't be"),
        (lambda opt: opt.reject(1, "no"), rl.TrialError, "trial 1 was approved already: it can't"),
        (lambda opt: opt.approve(2), rl.TrialError, r"trial 2 was rejected already \(never\): it"),
        (lambda opt: opt.approve(3), rl.TrialError, "trial 3 was abandoned already: it can't be"),
        (lambda opt: opt.abandon(4), rl.TrialError, "trial 4 is only proposed: reject it instead"),
        (lambda opt: opt.approve(5), rl.UnknownTrialError, "trial 5 was never asked"),
        (lambda opt: opt.approve("0"), rl.UnknownTrialError, "need a Trial or its number"),
        (lambda opt: opt.reject(4, ""), rl.ConfigError, "why: need 1 to 1000 printable char"),
        (lambda opt: opt.reject(4, None), rl.ConfigError, "why: need 1 to 1000 .* got None"),
        (lambda opt: opt.reject(4, "x" * 1001), rl.ConfigError, "why: need 1 to 1000"),
        (lambda opt: opt.reject(4, "a\x1b[2J"), rl.ConfigError, "why: need 1 to 1000"),
        (lambda opt: opt.approve(4, " "), rl.ConfigError, "why: need 1 to 1000"),
        (lambda opt: opt.reconsider(4), rl.TrialError, "trial 4 was not rejected: it is proposed"),
        (lambda opt: opt.retract(4), rl.TrialError, "trial 4 has no result to retract: it is prop"),
        (lambda opt: next(iter(opt)), rl.ConfigError, "mode 'recommend': a loop would try what"),
    ],
)
def test_bad_input(call: Any, error: type, says: str) -> None:
    opt = recommending(budget=9)
    opt.ask(5)
    for number in (0, 1, 3):
        opt.approve(number)
    opt.tell(0, 1.0)
    opt.reject(2, "never")
    opt.abandon(3)
    before = opt.to_json()
    with pytest.raises(error, match=says):
        call(opt)
    assert opt.to_json() == before


def test_verdicts_need_the_mode() -> None:
    opt = rl.Optimizer(LINE, 9)
    opt.ask()
    for call in (lambda: opt.approve(0), lambda: opt.reject(0, "no")):
        with pytest.raises(rl.ConfigError, match="needs mode='recommend', and the mode is 'auto"):
            call()


# -- near ------------------------------------------------------------------------------------------


def test_near_is_what_the_definition_says() -> None:
    rng = np.random.default_rng(0)
    x = MIXED.spread(rng.random((300, MIXED.dim)))
    rejected = x[:12]
    constraint = Rejections(MIXED, rejected)
    params = [MIXED.decode(row) for row in x]
    expected = [any(is_near(MIXED, a, b) for b in params[:12]) for a in params]
    assert constraint.near(x).tolist() == expected
    assert 20 < sum(expected) < 200


def test_the_slopes_of_the_constraint() -> None:
    rng = np.random.default_rng(1)
    space = rl.Space({"x": rl.Float(0, 1), "k": rl.Categorical(["a", "b"]), "y": rl.Float(0, 1)})
    constraint = Rejections(space, space.spread(rng.random((3, 3))))
    x, step = space.spread(rng.random((40, 3))), 1e-6

    def slack(x: Any) -> Any:
        return constraint.slack(Predicted(x, np.zeros(len(x)), np.ones(len(x))))

    slope = constraint.slopes(Predicted(x, np.zeros(40), np.ones(40)))[2]
    assert slope is not None
    for j in (0, 2):
        ahead, behind = x.copy(), x.copy()
        ahead[:, j] += step
        behind[:, j] -= step
        np.testing.assert_allclose(
            slope[:, j], (slack(ahead) - slack(behind)) / (2 * step), atol=1e-4
        )
    assert not slope[:, 1].any()
    assert slack(constraint.points).max() < -1.0


@pytest.mark.parametrize("policy", ["ids", "eic", "ei", "gp-ucb", "gp-ts", "random"])
@pytest.mark.parametrize("space", [LINE, MIXED], ids=["line", "mixed"])
def test_nothing_near_a_rejected_point_is_proposed(space: rl.Space, policy: str) -> None:
    chosen = rl.GPTS(features=32) if policy == "gp-ts" else policy
    opt = recommending(space, 40, policy=chosen, seed=3)
    rejected: list[dict[str, Any]] = []
    for number in range(14):
        trial = opt.ask()
        assert not any(is_near(space, trial.params, each) for each in rejected)
        if number % 4 == 1:
            opt.reject(trial, "no")
            rejected.append(trial.params)
        else:
            opt.approve(trial)
            opt.tell(trial, -abs(float(trial.params["x"]) - 0.4))  # type: ignore[arg-type]
    assert len(rejected) == 4
    assert rl.Optimizer.from_json(opt.to_json()).propose() == opt.propose()


def test_the_best_point_may_be_rejected_too() -> None:
    """Past the budget the best point is proposed, unless it was rejected."""
    opt = recommending(budget=6)
    served(opt, 6)
    best = opt.ask()
    assert best.params == opt.best().params
    opt.reject(best, "not this week")
    opt.extend(7)
    served(opt, 1)
    other = opt.ask()
    assert other.decision.reason == "exhausted"
    assert not is_near(LINE, other.params, best.params)
    assert opt.best().params == best.params  # it is still the best
    opt.reject(other, "no")
    opt.reconsider(best, "the week is over")
    assert opt.ask().params == best.params


def test_the_start_leaves_out_what_is_near_and_comes_back_to_it() -> None:
    points = [{"x": x} for x in (0.5, 0.55, 0.1, 0.9)]
    opt = recommending(budget=20, design=points)
    first = opt.ask()
    opt.reject(first, "no")
    second = opt.ask()
    assert second.params == {"x": 0.1}
    opt.reconsider(0)
    assert opt.ask().params == {"x": 0.55}
    assert [opt.ask().params["x"] for _ in range(1)] == [0.9]
    assert opt.history()[0].status == "reconsidered"


def test_a_rejected_point_of_the_start_is_replaced() -> None:
    def length(rejected: int) -> int:
        opt = recommending(MIXED, 60, n0=6, design="sobol", seed=1)
        for number in range(30):
            trial = opt.ask()
            if trial.decision.reason != "design":
                return number - rejected
            if number < rejected:
                opt.reject(trial, "no")
            else:
                opt.approve(trial)
                opt.tell(trial, float(number))
        raise AssertionError

    assert length(0) == 6
    assert length(1) in (5, 6)  # a start has so many points, and one of them may be near


def test_where_everything_is_rejected_the_error_says_what_to_do() -> None:
    opt = recommending(FINITE, 30)
    for _ in range(6):
        opt.reject(opt.ask(), "no")
    before = opt.to_json()
    with pytest.raises(rl.TrialError, match=r"rejected \(trials 0, 1, .*\): reconsider one of"):
        opt.ask()
    assert opt.to_json() == before
    opt.reconsider(4)
    assert opt.ask().params == opt.trials[4].params
    assert len({tuple(trial.params.values()) for trial in opt.trials}) == 6


def test_where_everything_is_rejected_after_results() -> None:
    opt = recommending(FINITE, 30)
    opt.observe({"n": 1, "k": "a"}, 1.0)
    for _ in range(6):
        opt.reject(opt.ask(), "no")
    with pytest.raises(rl.TrialError, match="every point is near one that was rejected"):
        opt.ask()


# -- a study ---------------------------------------------------------------------------------------

pytest.importorskip("sqlalchemy")

from regretless.studies.journal import Journal  # noqa: E402


@pytest.fixture
def study(storage: str) -> Iterator[rl.Study]:
    with rl.Study.open(storage, "s", space=LINE, budget=20, mode="recommend") as study:
        yield study


def test_every_verdict_is_an_event(study: rl.Study, storage: str) -> None:
    first, second = study.ask(2)
    assert first.proposed
    study.approve(first)
    study.reject(second, "too slow")
    study.reconsider(second, "faster now")
    study.tell(first, 1.0)
    bodies = [(event.kind, event.body) for event in study.events(3)]
    assert bodies[:3] == [
        ("approved", {"number": 0}),
        ("rejected", {"number": 1, "why": "too slow"}),
        ("reconsidered", {"number": 1, "why": "faster now"}),
    ]
    with rl.Study.open(storage, "s") as other:
        assert other.history() == study.history()
        assert (other.remaining, other.asked) == (19, 1)
        twin = rl.Optimizer.from_json(study.snapshot().optimizer.to_json())
        assert other.ask().params == twin.ask().params
    assert study.history()[1].note == "too slow (reconsidered: faster now)"


def test_two_people_decide_at_once(storage: str, study: rl.Study) -> None:
    """The first verdict counts; the same verdict is no error, the other one is."""
    outcomes: list[str] = []

    def decide(verb: str) -> None:
        with rl.Study.open(storage, "s") as mine:
            barrier.wait()
            try:
                mine.approve(0) if verb == "approve" else mine.reject(0, verb)
                outcomes.append(verb)
            except rl.TrialError as error:
                outcomes.append(str(error))

    study.ask()
    verbs = ["approve", "approve", "no", "never"]
    barrier = threading.Barrier(len(verbs))
    threads = [threading.Thread(target=decide, args=(verb,)) for verb in verbs]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kinds = [event.kind for event in study.events()]
    assert kinds.count("approved") + kinds.count("rejected") == 1
    refused = [text for text in outcomes if "can't be" in text]
    assert len(refused) == 2
    assert all(text.startswith("trial 0 was ") for text in refused)


@pytest.mark.parametrize("keyed", [False, True])
def test_a_verdict_that_slips_in_wins(
    study: rl.Study, storage: str, monkeypatch: pytest.MonkeyPatch, keyed: bool
) -> None:
    study.ask()
    append = Journal.append_if

    def second(journal: Journal, *args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        with rl.Study.open(storage, "s") as other:
            other.reject(0, "not today")
        return append(journal, *args, **options)

    monkeypatch.setattr(Journal, "append_if", second)
    with pytest.raises(rl.TrialError, match=r"trial 0 was rejected already \(not today\)"):
        study.approve(0, key="mine" if keyed else None)
    assert [event.kind for event in study.events()] == ["created", "asked", "rejected"]


def test_a_rejection_that_slips_in_moves_a_proposal(
    study: rl.Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A proposal is computed without a lock; what was rejected meanwhile must still hold."""
    first, _ = study.ask(2)
    propose, computed = rl.Optimizer.propose, []

    def slow(self: rl.Optimizer, context: Any = None) -> Asked:
        event = propose(self)
        computed.append(event.params)
        if len(computed) == 1:
            with rl.Study.open(storage, "s") as other:
                other.reject(0, "no")
        return event

    monkeypatch.setattr(rl.Optimizer, "propose", slow)
    trial = study.ask()
    assert len(computed) == 2
    assert not is_near(LINE, trial.params, first.params)
    assert [event.kind for event in study.events()][-2:] == ["rejected", "asked"]


def test_keys_make_verdicts_repeatable(study: rl.Study) -> None:
    study.ask(2)
    study.approve(0, "fine", key="a")
    study.tell(0, 1.0)
    study.approve(0, "fine", key="a")  # told since, but it is the same call
    study.reject(1, "no", key="b")
    study.reconsider(1, key="c")
    study.reject(1, "no", key="b")
    study.reconsider(1, key="c")
    with pytest.raises(rl.TrialError, match="trial 0 was told already"):
        study.approve(0)
    assert study.refresh() == 7


def test_a_trial_is_pending_since_it_was_approved(study: rl.Study) -> None:
    study.ask(2)
    study.approve(0)
    view = study.snapshot()
    assert view.since[0] == study.events()[-1].time > view.asked_at[0]
    assert study.abandon_older_than(timedelta(hours=1)) == []
    gone = study.abandon_older_than(0)
    assert [trial.number for trial in gone] == [0]  # a proposal is not pending
    assert [trial.number for trial in study.proposed] == [1]


def test_older_releases_refuse_the_study(study: rl.Study) -> None:
    """They read settings up to version 2, and so never reach a proposal."""
    assert study.events()[0].version == 3


def test_a_loop_over_a_study_is_refused(study: rl.Study, tmp_path: Path) -> None:
    with pytest.raises(rl.ConfigError, match="a loop would try what nobody has approved"):
        next(iter(study))
    assert study.refresh() == 1


def test_a_small_step_does_not_lead_back_to_what_was_rejected() -> None:
    """Points of the start are moved into reach; all of them once were moved to a rejected one."""
    space = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)})
    middle = {"a": 0.5, "b": 0.5}
    steps = {"a": 0.1, "b": 0.1}
    optimizer = rl.Optimizer(space, 30, baseline=middle, max_step=steps, mode="recommend")
    first = optimizer.ask()
    optimizer.approve(first)
    optimizer.tell(first, 1.0)
    for _ in range(4):
        trial = optimizer.ask()
        for row in optimizer.history():
            if row.status == "rejected":
                apart = [trial.params[name] - row.params[name] for name in space.names]  # type: ignore[operator]
                assert np.mean(np.square(apart)) ** 0.5 >= 0.0999
        optimizer.reject(trial, "no")


def test_rejected_trials_are_not_expected_to_break_a_guardrail() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    optimizer = rl.Optimizer(
        space,
        9,
        baseline={"x": 0.5},
        guardrails=[rl.AtMost("m", 1.0)],
        mode="recommend",
    )
    optimizer.observe({"x": 0.5}, 1.0, metrics={"m": 0.2})
    optimizer.reject(optimizer.ask(), "no")
    assert rl.Ledger.of(optimizer).violations()[0].trials == 0
