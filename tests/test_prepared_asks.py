"""Trials that are worked out before anybody asks: the same bits, and never a wrong one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.errors import ArchivedError, BudgetError, ConfigError, TrialError
from regretless.kernels import SE
from regretless.model import GP, Data, Hyper, ListedPosterior

pytest.importorskip("sqlalchemy")

from regretless.studies import Wish

MIXED = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 9), "kind": rl.Categorical(["a", "b"])})
LINE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(-2.0, 3.0)})
WITHIN = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)}, where=["x + y <= 1.2"])


def value(number: int, params: dict[str, Any]) -> float:
    x = float(params["x"])
    noise = np.random.default_rng([5, number]).normal()
    return float(np.sin(4 * x) - 0.1 * float(params.get("n", 1)) + 0.2 * noise)


@pytest.fixture
def open_study(tmp_path: Path) -> Iterator[Callable[..., rl.Study]]:
    opened: list[rl.Study] = []

    def make(name: str = "s", **settings: Any) -> rl.Study:
        settings = {"space": LINE, "budget": 60, "seed": 3, **settings}
        opened.append(rl.Study.open(tmp_path / "journal.sqlite", name, **settings))
        return opened[-1]

    yield make
    for study in opened:
        study.close()


def run(study: rl.Study, trials: int) -> None:
    for _ in range(trials):
        trial = study.ask()
        study.tell(trial, value(trial.number, trial.params))


@pytest.mark.parametrize(
    "settings",
    [
        {"space": LINE},
        {"space": MIXED},
        {"space": WITHIN},
        {"space": LINE, "policy": "eic"},
        {"space": LINE, "policy": "gp-ts"},
        {"space": LINE, "policy": "random"},
        {"space": LINE, "drift": "auto", "budget": None, "horizon": 60},
        {"space": LINE, "baseline": {"x": 0.5, "y": 0.0}, "loss_budget": 30.0},
    ],
    ids=lambda settings: "-".join(map(str, [*settings.values()][1:])) or "space",
)
def test_a_sequential_client_gets_the_bits_of_the_plain_library(
    open_study: Callable[..., rl.Study], settings: dict[str, Any]
) -> None:
    plain = rl.Optimizer(**{"budget": 60, "seed": 3, **settings})
    study = open_study(**settings)
    used = 0
    for turn in range(24):
        # In a hurry or not, for who asks alone nothing is different.
        used += study.prepare(hurry=turn % 3 == 0)
        (trial,) = study.ask_each([Wish()], hurry=turn % 2 == 0)
        expected = plain.ask()
        assert isinstance(trial, rl.Trial)
        assert trial == expected
        result = value(trial.number, trial.params)
        study.tell(trial, result)
        plain.tell(expected, result)
    assert used == 24


def test_what_was_prepared_is_handed_out_without_computing(
    open_study: Callable[..., rl.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study()
    run(study, 14)
    assert study.prepare()
    assert not study.prepare()  # it is there already

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("computed")

    with monkeypatch.context() as patch:
        patch.setattr(rl.Optimizer, "propose", refuse)
        patch.setattr(rl.Optimizer, "propose_batch", refuse)
        assert study.ask().number == 14
        with pytest.raises(AssertionError, match="computed"):
            study.ask()
    assert study.ask().number == 15


SPOILERS: dict[str, Callable[[rl.Study], object]] = {
    "told": lambda study: study.tell(13, 0.3),
    "abandoned": lambda study: study.abandon(13),
    "extended": lambda study: study.extend(90),
    "baseline": lambda study: study.set_baseline({"x": 0.1, "y": 0.1}),
    "observed": lambda study: study.observe({"x": 0.2, "y": 0.2}, 0.1),
    "retracted": lambda study: study.retract(2),
    "adopted": lambda study: study.adopt({"x": 0.4, "y": 0.4}),
    "changed": lambda study: study.change_space(widen={"y": rl.Float(-2.0, 5.0)}),
    "allocated": lambda study: study.allocate(arms=3),
}


@pytest.mark.parametrize("event", SPOILERS)
@pytest.mark.parametrize("elsewhere", [False, True], ids=["here", "in another process"])
def test_after_an_event_the_proposal_is_made_again(
    open_study: Callable[..., rl.Study], event: str, elsewhere: bool
) -> None:
    study = open_study()
    run(study, 13)
    study.ask()
    assert study.prepare()
    SPOILERS[event](open_study() if elsewhere else study)
    plain = study.snapshot().optimizer
    assert study.ask() == plain.ask()


def test_an_archived_study_and_a_spent_budget(open_study: Callable[..., rl.Study]) -> None:
    study = open_study(budget=15)
    run(study, 13)
    assert study.prepare()
    study.archive()
    answers = study.ask_each([Wish(), Wish("ask k")])
    assert [type(answer) for answer in answers] == [ArchivedError, ArchivedError]
    assert not study.prepare()
    study.unarchive()
    answers = study.ask_each([Wish(within_budget=True)] * 3 + [Wish()], hurry=True)
    assert [getattr(answer, "number", None) for answer in answers] == [13, 14, None, 15]
    assert isinstance(answers[2], BudgetError)
    assert isinstance(answers[3], rl.Trial)
    assert answers[3].decision.reason == "exhausted"
    assert not study.prepare()


def test_a_study_with_contexts_is_not_prepared(open_study: Callable[..., rl.Study]) -> None:
    study = open_study(contexts={"hour": rl.Float(0.0, 24.0)})
    assert not study.prepare(hurry=True)
    (answer,) = study.ask_each([Wish()])
    assert isinstance(answer, rl.RegretlessError)
    with pytest.raises(rl.RegretlessError, match="context"):
        study.snapshot().optimizer.propose_batch(2)
    assert study.ask(context={"hour": 3.0}).context == {"hour": 3.0}


def test_in_a_hurry_trials_are_chosen_without_a_search_and_know_all_results(
    open_study: Callable[..., rl.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study()
    run(study, 14)
    pending = study.ask(4)
    assert study.prepare(hurry=True)
    assert not study.prepare(hurry=True)  # the candidates are new
    searches: list[int] = []
    decide = rl.Optimizer._decide

    def counted(optimizer: rl.Optimizer, *args: Any) -> Any:
        searches.append(len(optimizer.trials))
        return decide(optimizer, *args)

    monkeypatch.setattr(rl.Optimizer, "_decide", counted)
    for trial in pending[:2]:
        study.tell(trial, value(trial.number, trial.params))
        (answer,) = study.ask_each([Wish()], hurry=True)
        assert isinstance(answer, rl.Trial)
        assert not answer.decision.refitted
    assert searches == []
    # What was told is in the numbers of the decision.
    mean, _ = study.predict(answer.params)
    assert answer.decision.mean == pytest.approx(mean, abs=0.05)
    study.tell(pending[2], 0.1)
    assert study.prepare(hurry=True)  # more results than half of the pending trials
    (answer,) = study.ask_each([Wish()])
    assert searches == [20, 20]  # the candidates; and who is in no hurry has a search


def test_after_an_event_there_is_a_new_search(open_study: Callable[..., rl.Study]) -> None:
    for event, happen in SPOILERS.items():
        study = open_study(event)
        run(study, 13)
        study.ask(3)
        study.prepare(hurry=True)
        crowd = study._stock.crowd
        assert crowd is not None
        happen(study)
        study.ask_each([Wish(), Wish()], hurry=True)
        kept = study._stock.crowd is not None and study._stock.crowd.leader is crowd.leader
        assert kept == (event in ("told", "observed", "adopted")), event


def test_with_limits_there_is_a_search_for_each(open_study: Callable[..., rl.Study]) -> None:
    study = open_study(baseline={"x": 0.5, "y": 0.0}, loss_budget=20.0)
    run(study, 8)
    pending = study.ask(3)
    study.prepare(hurry=True)
    study.tell(pending[0], 0.4)
    plain = study.snapshot().optimizer
    assert study.ask_each([Wish()], hurry=True) == [plain.ask()]


def test_asks_together_are_one_batch_and_one_transaction(
    open_study: Callable[..., rl.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study()
    run(study, 14)
    commits: list[int] = []
    append_all = study._journal.append_all

    def counted(name: str, entries: Any, *args: Any, **kwargs: Any) -> Any:
        commits.append(len(entries))
        return append_all(name, entries, *args, **kwargs)

    monkeypatch.setattr(study._journal, "append_all", counted)
    wishes = [Wish("ask a"), Wish(), Wish("ask a"), Wish("ask b")]
    answers = study.ask_each(wishes, hurry=True)
    assert commits == [3]
    assert [getattr(answer, "number", None) for answer in answers] == [14, 15, 14, 16]
    assert study.ask(key="b") == answers[3]
    assert [trial.number for trial in study.pending] == [14, 15, 16]
    assert [event.kind for event in study.events(after=29)] == ["asked"] * 3
    again, twin = open_study(), study.snapshot().optimizer
    assert again.trials == study.trials  # what is replayed is the same,
    assert again.ask() == twin.ask()  # and so is the next proposal


def test_an_ask_that_cannot_be_answered_is_an_error_for_each(
    open_study: Callable[..., rl.Study], monkeypatch: pytest.MonkeyPatch
) -> None:
    study = open_study()

    def refuse(*args: Any, **kwargs: Any) -> None:
        raise TrialError("nothing is left")

    monkeypatch.setattr(rl.Optimizer, "propose_batch", refuse)
    answers = study.ask_each([Wish(), Wish()])
    assert [str(answer) for answer in answers] == ["nothing is left"] * 2
    assert not study.trials


def test_a_fit_that_waits_is_in_the_next_batch(open_study: Callable[..., rl.Study]) -> None:
    study = open_study()
    run(study, 14)
    pending = study.ask(6)
    for trial in pending[:4]:
        study.tell(trial, value(trial.number, trial.params))
    (late,) = study.ask_each([Wish()], hurry=True)
    assert isinstance(late, rl.Trial)
    assert not late.decision.refitted
    assert study.prepare_fit()
    study.tell(pending[4], 0.1)
    assert study.prepare(hurry=True)
    first, second = study.ask_each([Wish(), Wish()], hurry=True)
    assert isinstance(first, rl.Trial)
    assert isinstance(second, rl.Trial)
    assert first.decision.refitted
    assert not second.decision.refitted
    assert [event.kind for event in study.events() if event.body.get("fit")][-1] == "asked"
    twin = study.snapshot().optimizer
    assert open_study().ask() == twin.ask()


def test_threads_that_ask_and_tell_while_trials_are_prepared(
    open_study: Callable[..., rl.Study],
) -> None:
    study = open_study(budget=200)
    run(study, 12)
    told: list[int] = []
    over = threading.Event()

    def work() -> None:
        for _ in range(6):
            (trial,) = study.ask_each([Wish()], hurry=True)
            assert isinstance(trial, rl.Trial)
            study.tell(trial, value(trial.number, trial.params))
            told.append(trial.number)

    def prepare() -> None:
        while not over.is_set():
            study.prepare(hurry=True)
            study.prepare_fit()
            time.sleep(0.001)

    behind = threading.Thread(target=prepare)
    workers = [threading.Thread(target=work) for _ in range(4)]
    for thread in (behind, *workers):
        thread.start()
    for thread in workers:
        thread.join()
    over.set()
    behind.join()
    assert sorted(told) == list(range(12, 36))
    again, twin = open_study(budget=200), study.snapshot().optimizer
    assert again.trials == study.trials
    assert again.ask() == twin.ask()


# -- the batch of an optimiser ---------------------------------------------------------------------


def started(space: rl.Space = LINE, trials: int = 16, **settings: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(space, budget=80, seed=1, **settings)
    for _ in range(trials):
        trial = optimizer.ask()
        optimizer.tell(trial, value(trial.number, trial.params))
    return optimizer


@pytest.mark.parametrize("policy", ["ids", "eic", "ei", "ei-nguyen", "gp-ucb", "gp-ts", "random"])
def test_a_batch_can_be_applied_and_its_first_is_that_of_propose(policy: str) -> None:
    optimizer = started(policy=policy)
    twin = optimizer.copy()
    events = optimizer.propose_batch(5)
    assert events[0] == twin.propose()
    for event in events:
        optimizer.apply(event)
    assert [trial.number for trial in optimizer.pending] == [16, 17, 18, 19, 20]
    assert [event.decision.pending for event in events] == [0, 1, 2, 3, 4]


def test_a_batch_in_the_start_is_the_start() -> None:
    optimizer = rl.Optimizer(LINE, budget=80, seed=1)
    expected = optimizer.copy().ask(6)
    assert [event.params for event in optimizer.propose_batch(6)] == [t.params for t in expected]


def test_followers_are_not_all_the_same_point_where_much_is_unknown() -> None:
    optimizer = started(trials=10)
    events = optimizer.propose_batch(8)
    assert len({tuple(event.params.values()) for event in events}) >= 4


def test_followers_have_better_scores_than_draws() -> None:
    """They are chosen among a list, but by the same score as a search for each of them."""
    optimizer = started(trials=20)
    batch = optimizer.propose_batch(6)
    single = optimizer.copy()
    means = [[event.decision.mean for event in batch], [t.decision.mean for t in single.ask(6)]]
    spread = float(np.ptp([row.value for row in optimizer.history()]))
    assert abs(np.mean(means[0]) - np.mean(means[1])) < 0.15 * spread


@pytest.mark.parametrize(
    "settings",
    [
        {"max_step": {"x": 0.1}, "baseline": {"x": 0.5, "y": 0.0}},
        {"change_cost": 0.1, "baseline": {"x": 0.5, "y": 0.0}},
        {"baseline": {"x": 0.5, "y": 0.0}, "loss_budget": 20.0},
    ],
    ids=["steps", "change", "loss"],
)
def test_with_limits_each_of_a_batch_is_searched_for(settings: dict[str, Any]) -> None:
    optimizer = started(**settings)
    assert not optimizer.has_followers
    expected = optimizer.copy().ask(3)
    assert [event.params for event in optimizer.propose_batch(3)] == [t.params for t in expected]


def test_a_batch_needs_a_number() -> None:
    with pytest.raises(ConfigError, match="n: "):
        started(trials=2).propose_batch(0)


def test_a_shortlist_that_is_kept_up_is_the_posterior_of_now() -> None:
    optimizer = started(trials=20)
    events, crowd = optimizer.propose_more(6, None)
    for event in events:
        optimizer.apply(event)
    results: list[dict[str, Any]] = [{}, {"count": 4}, {"sem": 0.3}]
    for event, result in zip(events[1:4], results, strict=True):
        optimizer.tell(event.number, value(event.number, event.params), **result)
        assert crowd is not None
        more, crowd = optimizer.copy().propose_more(1, crowd)
        optimizer.apply(more[0])
    assert crowd is not None
    kept = optimizer._kept_up(crowd)
    assert kept is not None
    assert kept.leader is crowd.leader
    situation = optimizer._situation()
    listed, posterior = kept.shortlist.posterior, situation.inputs.posterior
    mean, sd = posterior.predict(listed.listed)
    np.testing.assert_allclose(listed.sigma, sd, atol=1e-6)
    np.testing.assert_allclose(listed.mu, mean, atol=0.05 * posterior.omega)  # its constant is old
    assert kept.shortlist.promised == pytest.approx(situation.inputs.promised, abs=0.05)
    assert kept.shortlist.visited + len(listed.others) <= len(listed.listed)


# -- the posterior at listed points ----------------------------------------------------------------


def test_a_listed_posterior_is_the_posterior_there() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.random((12, 2)), rng.normal(size=12)
    whole = GP.of(Data.of(x, y), Hyper(SE((0.4, 0.6)), lam2=0.05, omega2=2.0))
    known, new = np.array([1, 3, 7]), rng.random((4, 2))
    listed = ListedPosterior.of(whole, known, new)
    places = np.vstack([x[known], new])
    for row, result in ((4, 0.3), (0, -0.2), (4, 0.1)):
        whole, listed = whole.add(places[row], result), listed.add(places[row], result)
        whole, listed = whole.expecting(places[5], 2.0), listed.expecting(places[5], 2.0)
    for expected, got in zip(whole.predict(places), listed.predict(places), strict=True):
        np.testing.assert_allclose(got, expected, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(listed.covariance(places), whole.covariance(places), atol=1e-9)
    shared = listed.shared(places[2])
    np.testing.assert_allclose(shared(places), whole.shared(places[2])(places), atol=1e-9)
    assert shared.variance == pytest.approx(whole.shared(places[2]).variance, abs=1e-9)
    assert listed.information == pytest.approx(whole.information, rel=1e-6)
    assert len(listed.points) == 5
    assert len(listed.others) == 2
    draws = [listed.sample_path(np.random.default_rng(i)).values for i in range(4000)]
    np.testing.assert_allclose(np.mean(draws, axis=0), listed.mu, atol=0.1)
    with pytest.raises(NotImplementedError):
        listed.predict_vjp(places)
