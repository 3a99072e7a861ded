"""Corrections: wrong results are taken back, and nothing is erased."""

from __future__ import annotations

import subprocess
import sys
import threading
import warnings
from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from regretless.engine import Retracted, Told, Unobserved, write
from regretless.model import Belief, Observation

PLANE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})
HERE = {"x": 0.3, "y": 0.6}


def f(params: dict[str, Any]) -> float:
    return float(np.sin(5 * params["x"]) - (params["y"] - 0.5) ** 2)


def run(opt: rl.Optimizer, steps: int, wrong: int | None = None) -> None:
    for _ in range(steps):
        trial = opt.ask()
        opt.tell(trial, 1e3 if trial.number == wrong else f(trial.params))


# -- the belief ------------------------------------------------------------------------------------


@pytest.mark.parametrize("defaults", [2, 3])
def test_the_belief_is_that_of_the_results_that_stand(defaults: int) -> None:
    """The oracle learns them one by one, and has never seen the others."""
    opt = rl.Optimizer(PLANE, 40, defaults=defaults, seed=2)
    opt.observe(HERE, f(HERE), sem=0.1)
    opt.observe({"x": 0.9, "y": 0.9}, -500.0)
    run(opt, 12, wrong=7)
    opt.retract(7, "a typing error")
    opt.retract_observation(1)
    opt.tell(7, f(opt.trials[7].params), count=3)
    oracle = Belief.empty(opt.model, PLANE.columns, opt.defaults)
    oracle = oracle.learn(Observation(PLANE.encode(HERE), f(HERE), 1.0, 0.1**2))
    for number in [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 7]:  # the corrected one was told last
        trial = opt.trials[number]
        x, weight = PLANE.encode(trial.params), 3.0 if number == 7 else 1.0
        blind = trial.decision.reason == "design"
        oracle = oracle.learn(Observation(x, f(trial.params), weight, None, blind))
    x = PLANE.spread(np.random.default_rng(0).random((20, 2)))
    expected = oracle.current()
    assert expected.posterior is not None
    got = opt._situation().posterior.predict(x)
    np.testing.assert_array_equal(got, expected.posterior.predict(x))
    assert opt.best().luckiest == oracle.luckiest < 2.0


def test_the_next_ask_fits_anew_and_decisions_stay_as_they_were() -> None:
    opt = rl.Optimizer(PLANE, 40)
    run(opt, 12, wrong=5)
    before = [trial.decision for trial in opt.trials]
    opt.retract(5)
    assert opt._belief.fitted is None
    trial = opt.ask()
    assert trial.decision.refitted
    assert [each.decision for each in opt.trials[:-1]] == before


def test_the_same_next_suggestion_in_process_and_from_the_log() -> None:
    opt = rl.Optimizer(PLANE, 40, seed=1)
    opt.observe(HERE, 3.0)
    run(opt, 9, wrong=4)
    for change in (
        lambda: opt.retract(4, "wrong"),
        lambda: opt.tell(4, 0.25),
        lambda: run(opt, 2),
        lambda: opt.retract_observation(0),
        lambda: opt.retract(4),
        lambda: opt.abandon(4),
        lambda: run(opt, 2),
        lambda: opt.tell(4, 0.5),
    ):
        change()
        again = rl.Optimizer.from_json(opt.to_json())
        assert again.history() == opt.history()
        assert again.propose() == opt.propose()
        assert opt.copy().propose() == opt.propose()
        assert again.best() == opt.best()


def test_a_proposal_from_before_a_correction_is_computed_anew() -> None:
    """The number of results is the same, but not the results."""
    opt = rl.Optimizer(PLANE, 40)
    run(opt, 8, wrong=3)
    stale = opt.propose()
    opt.retract(3)
    opt.tell(3, 0.0)
    opt.apply(stale)
    again = rl.Optimizer.from_json(opt.to_json())
    assert again.propose() == opt.propose()


def test_a_retracted_trial_is_pending_again() -> None:
    opt = rl.Optimizer(PLANE, 9)
    trial = opt.ask()
    opt.tell(trial, 1500.0, sem=2.0)
    opt.retract(trial, "milliseconds")
    opt.retract(trial)  # again is no news
    row = opt.history()[0]
    assert (row.status, row.value, row.note) == (
        "pending",
        None,
        "its result 1500.0 (sem 2.0) was retracted: milliseconds",
    )
    assert [each.number for each in opt.pending] == [0]
    assert (opt.observations, opt.remaining) == (0, 8)
    with pytest.raises(rl.NoResultsError):
        opt.best()
    opt.tell(trial, 1.5)
    with pytest.raises(rl.TrialError, match="can't be changed; if it is wrong, retract it first"):
        opt.tell(trial, 1500.0, sem=2.0)
    assert opt.history()[0].note == row.note


def test_observations_keep_their_places() -> None:
    opt = rl.Optimizer(PLANE, 9, n0=4)
    for k in range(3):
        opt.observe({"x": k / 4, "y": 0.5}, float(k))
    opt.retract_observation(1, "another site")
    opt.retract_observation(1)
    opt.observe({"x": 0.9, "y": 0.5}, 3.0)
    opt.retract_observation(3)
    assert [(row.status, row.value) for row in opt.history()] == [
        ("observed", 0.0),
        ("retracted", None),
        ("observed", 2.0),
        ("retracted", None),
    ]
    assert opt.history()[1].note == "its result 1.0 was retracted: another site"
    assert opt.history()[1].params == {"x": 0.25, "y": 0.5}
    assert len(opt._records.known) == 2  # the others do not count towards the start


def test_a_point_of_the_start_comes_back_if_its_observation_goes() -> None:
    opt = rl.Optimizer(PLANE, 20, design="sobol", n0=4)
    first = rl.Optimizer(PLANE, 20, design="sobol", n0=4).ask().params
    opt.observe(first, 1.0)
    assert opt.copy().ask().params != first
    opt.retract_observation(0)
    assert opt.ask().params == first


@pytest.mark.parametrize(
    ("call", "error", "says"),
    [
        (lambda o: o.retract(1), rl.TrialError, "trial 1 has no result to retract: it is pending"),
        (lambda o: o.retract(2), rl.UnknownTrialError, "trial 2 was never asked"),
        (lambda o: o.retract(None), rl.UnknownTrialError, "need a Trial or its number, got None"),
        (lambda o: o.retract(0, ""), rl.ConfigError, "why: need 1 to 1000 printable characters"),
        (lambda o: o.retract(0, 5), rl.ConfigError, "why: need 1 to 1000 .*, got 5"),
        (lambda o: o.retract_observation(1), rl.UnknownTrialError, "observation 1 was never told"),
        (lambda o: o.retract_observation(-1), rl.ConfigError, "index: need at least 0, got -1"),
        (lambda o: o.retract_observation(0.5), rl.ConfigError, "index: need a whole number"),
        (lambda o: o.retract_observation(0, "\0"), rl.ConfigError, "why: need 1 to 1000"),
    ],
)
def test_bad_input(call: Any, error: type, says: str) -> None:
    opt = rl.Optimizer(PLANE, 9)
    opt.observe(HERE, 1.0)
    opt.tell(opt.ask(), 1.0)
    opt.ask()
    before = opt.to_json()
    with pytest.raises(error, match=says):
        call(opt)
    assert opt.to_json() == before


@pytest.mark.parametrize("event", [Retracted(0), Retracted(1), Unobserved(0), Unobserved(1)])
def test_an_event_that_does_not_fit_changes_nothing(event: Any) -> None:
    opt = rl.Optimizer(PLANE, 9)
    opt.observe(HERE, 1.0)
    opt.retract_observation(0)
    opt.ask(2)
    before = opt.to_json()
    with pytest.raises(rl.StorageError, match=r"event '(retracted|unobserved)': "):
        opt.apply(event)
    assert opt.to_json() == before


# -- a study ---------------------------------------------------------------------------------------

pytest.importorskip("sqlalchemy")

from regretless.studies.journal import Journal  # noqa: E402


@pytest.fixture
def study(storage: str) -> Iterator[rl.Study]:
    with rl.Study.open(storage, "s", space=PLANE, budget=30) as study:
        yield study


def kinds(study: rl.Study) -> Counter[str]:
    return Counter(event.kind for event in study.events())


def test_told_retracted_told_again(study: rl.Study, storage: str) -> None:
    trial = study.ask()
    for k in range(3):
        study.tell(trial, float(k))
        study.tell(trial, float(k))
        study.retract(trial, f"number {k}")
        study.retract(trial)
    study.tell(trial, 9.0)
    assert kinds(study) == {"created": 1, "asked": 1, "told": 4, "retracted": 3}
    keys = [event.key for event in study.events()[2:]]
    assert keys[:3] == ["told 0", "retracted 0", "told 0 after 1 retracted"]
    with rl.Study.open(storage, "s") as other:
        assert other.history() == study.history()
        views = [each.snapshot().optimizer for each in (study, other)]
    assert write(views[0].propose()) == write(views[1].propose())


def test_abandoned_told_retracted_abandoned_again(study: rl.Study) -> None:
    trial = study.ask()
    study.abandon(trial)
    study.tell(trial, 1.0)
    study.retract(trial)
    study.abandon(trial)
    assert study.pending == []
    assert kinds(study)["abandoned"] == 2


def test_a_tell_that_is_repeated_does_not_bring_a_retracted_result_back(study: rl.Study) -> None:
    trial = study.ask()
    study.tell(trial, 1.0, key="first")
    study.retract(trial, key="oops")
    study.tell(trial, 1.0, key="first")  # the answer was lost, and the client tries again
    assert study.pending != []
    study.tell(trial, 2.0, key="second")
    study.tell(trial, 1.0, key="first")
    study.retract(trial, key="oops")  # the same call as before, not a new one
    assert study.history()[0].value == 2.0
    assert kinds(study) == {"created": 1, "asked": 1, "told": 2, "retracted": 1}


def test_a_retraction_that_slips_in_stops_a_proposal(
    study: rl.Study, storage: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its fit has seen the wrong result."""
    for trial in study.ask(8):
        study.tell(trial, 1e4 if trial.number == 3 else f(trial.params))
    propose, computed = rl.Optimizer.propose, []

    def slow(self: rl.Optimizer, context: Any = None) -> Any:
        computed.append(propose(self))
        if len(computed) == 1:
            with rl.Study.open(storage, "s") as other:
                other.retract(3)
        return computed[-1]

    monkeypatch.setattr(rl.Optimizer, "propose", slow)
    trial = study.ask()
    monkeypatch.undo()
    first, second = computed
    assert first.fit["at"] == 8
    assert second.fit["at"] == 7
    assert trial.params == second.params
    with rl.Study.open(storage, "s") as other:
        views = [each.snapshot().optimizer for each in (study, other)]
    assert write(views[0].propose()) == write(views[1].propose())


@pytest.mark.parametrize(("theirs", "told"), [(2.0, [1.0]), (1.0, [])])
def test_a_tell_and_its_retraction_slip_in_before_a_tell(
    study: rl.Study,
    storage: str,
    monkeypatch: pytest.MonkeyPatch,
    theirs: float,
    told: list[float],
) -> None:
    """Another result is told anew.  The same result is the one that was retracted."""
    trial = study.ask()
    append = Journal.append_if

    def second(journal: Journal, *args: Any, **options: Any) -> Any:
        monkeypatch.undo()
        with rl.Study.open(storage, "s") as other:
            other.tell(0, theirs)
            other.retract(0)
        return append(journal, *args, **options)

    monkeypatch.setattr(Journal, "append_if", second)
    study.tell(trial, 1.0)
    assert [row.value for row in study.history() if row.value is not None] == told


def test_many_tell_and_retract_at_once(storage: str, study: rl.Study) -> None:
    """Whatever the order: events alternate, and everybody has the same state."""
    study.ask(2)
    workers, rounds = 4, 6
    failed: list[BaseException] = []

    def work(worker: int) -> None:
        try:
            with rl.Study.open(storage, "s") as mine:
                for k in range(rounds):
                    try:
                        mine.tell(k % 2, float(worker))
                    except rl.TrialError:  # another value came first
                        mine.retract(k % 2)
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(worker,)) for worker in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    for number in range(2):
        events = [e.kind for e in study.events() if e.body.get("number") == number]
        told, gone = events[1::2], events[2::2]
        assert set(told) <= {"told"}
        assert set(gone) <= {"retracted"}
    with rl.Study.open(storage, "s") as other:
        assert other.history() == study.history()


def test_a_program_that_runs_again_does_not_bring_an_observation_back(
    storage: str, study: rl.Study
) -> None:
    study.observe(HERE, 1.0)
    study.observe(HERE, 2.0, key="k")
    study.retract_observation(0, "another site")
    study.retract_observation(1)
    study.retract_observation(1)
    with rl.Study.open(storage, "s") as again:
        with pytest.warns(UserWarning, match="has this point with this result already"):
            again.observe(HERE, 1.0)
        again.observe(HERE, 2.0, key="k")
        assert again.observations == 0
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            again.observe(HERE, 1.0, key="deliberately")
        assert again.observations == 1
    assert kinds(study)["unobserved"] == 2


def test_a_retracted_trial_is_young_again(study: rl.Study) -> None:
    trial = study.ask()
    study.tell(trial, 1.0)
    study.retract(trial)
    view = study.snapshot()
    assert view.since[0] == view.time > view.asked_at[0]
    assert study.abandon_older_than(timedelta(hours=1)) == []


KILLED = """
import os, signal, sys
import regretless as rl
from regretless.studies.journal import Journal

study = rl.Study.open(sys.argv[1], "s")
append = Journal.append_if

def killed(*args, **options):
    append(*args, **options)  # committed, and nobody hears of it
    os.kill(os.getpid(), signal.SIGKILL)

Journal.append_if = killed
eval(sys.argv[2])
"""


@pytest.mark.parametrize(
    ("call", "kind", "status"),
    [
        ("study.approve(2, 'ok', key='k')", "approved", "pending"),
        ("study.reject(2, 'no', key='k')", "rejected", "rejected"),
        ("study.reconsider(1, key='k')", "reconsidered", "proposed"),
        ("study.retract(0, 'wrong', key='k')", "retracted", "proposed"),
        ("study.retract_observation(0)", "unobserved", "proposed"),
        ("study.archive()", "archived", "proposed"),
    ],
)
def test_killed_after_the_commit(tmp_path: Path, call: str, kind: str, status: str) -> None:
    """kill -9 before the answer: the event is there, and the same call again changes nothing."""
    file = tmp_path / "s.db"
    with rl.Study.open(file, "s", space=PLANE, budget=30, mode="recommend") as study:
        study.observe(HERE, 1.0)
        study.ask(3)
        study.approve(0)
        study.tell(0, 1.0)
        study.reject(1, "no")
        before = study.refresh()
    ended = subprocess.run([sys.executable, "-c", KILLED, str(file), call], check=False)
    assert ended.returncode == -9
    with rl.Study.open(file, "s") as study:
        assert study.refresh() == before + 1
        assert study.events()[-1].kind == kind
        assert study.history()[-1].status == status
        assert eval(call) is None
        assert study.refresh() == before + 1


def test_the_tell_of_an_old_study_can_be_retracted(tmp_path: Path) -> None:
    """Its results are of version 1, and its fits stay those of the log."""
    text = (Path(__file__).parent / "assets" / "optimizer-v1.json").read_text()
    opt = rl.Optimizer.from_json(text)
    told = [event for event in opt.events if isinstance(event, Told)]
    opt.retract(told[0].number)
    again = rl.Optimizer.from_json(opt.to_json())
    assert again.propose() == opt.propose()
    assert again.observations == opt.observations
