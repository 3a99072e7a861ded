"""Tables and reported totals of a study: in the journal, over HTTP, on the command line."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest
from typer.testing import CliRunner

import regretless as rl
from regretless.cli.app import app
from regretless.client import Client
from regretless.engine import increment_of
from serving import serving

SPACE = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)})
TODAY = {"a": 0.5, "b": 0.5}


def opened(folder: Path, **more: Any) -> rl.Study:
    settings = {"space": SPACE, "budget": 90, "baseline": TODAY} | more
    return rl.Study.open(folder / "s.sqlite", "shop", **settings)


def report_each(study: rl.Study, table: rl.Allocation, count: int = 100) -> None:
    for arm in table.rows:
        bought = count * (0.1 + 0.2 * float(arm.trial.params["a"]))  # type: ignore[arg-type]
        study.report(arm.trial, count=count, sum=bought, sum_squares=bought)


# -- the study -------------------------------------------------------------------------------------


def test_the_same_table_until_it_is_old_and_has_results(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        start = datetime.now(UTC)
        first = study.allocate(4, ttl=100, time=start)
        assert first.valid_for == 100
        later = start + timedelta(seconds=60)
        assert study.allocate(4, ttl=100, time=later).version == 1  # nothing was reported
        report_each(study, first)
        assert study.allocate(4, ttl=100, time=start + timedelta(seconds=40)).version == 1
        second = study.allocate(4, ttl=100, time=later)
        assert second.version > 1
        assert study.allocate(4, ttl=100, renew=True, time=later).version > second.version


def test_a_second_process_has_the_same_state(tmp_path: Path) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other:
        report_each(study, study.allocate(4))
        assert other.history() == study.history()
        again = other.allocate(4, renew=True)
        assert study.allocation == other.allocation
        assert again.rows == study.allocation.rows  # type: ignore[union-attr]
        report_each(study, again)
    with opened(tmp_path) as third:
        assert third.best() == study_best(tmp_path)


def study_best(folder: Path) -> rl.Best:
    with rl.Study.open(folder / "s.sqlite", "shop", read_only=True) as study:
        return study.best()


def test_a_key_makes_a_report_count_once(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        trial = study.allocate(3).rows[0].trial
        for _ in range(3):
            study.report(trial, count=10, sum=2.0, sum_squares=2.0, key="flush 1")
        study.report(trial, count=10, sum=2.0, sum_squares=2.0, key="flush 2")
        study.report(trial, count=10, sum=2.0, sum_squares=2.0)  # without a key each counts
        assert study.history()[0].count == 30
        with pytest.raises(rl.TrialError, match="the key 'flush 1' was used for another report"):
            study.report(trial, count=11, sum=2.0, key="flush 1")
        assert study.history()[0].count == 30


def test_many_threads_report_and_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other:
        trials = [arm.trial.number for arm in study.allocate(3, end_early=0.0).rows]
        go = threading.Barrier(4)

        def work(worker: int) -> None:
            mine = study if worker % 2 else other
            go.wait()
            for i in range(12):
                for _ in range(2):  # each is repeated
                    mine.report(trials[i % 3], count=1, sum=1.0, key=f"{worker}-{i}")

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(work, range(4)))
        assert [row.count for row in study.history()] == [16.0, 16.0, 16.0]
        assert study.history() == other.history()


def test_one_wrong_report_does_not_harm_the_others(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        number = study.allocate(3).rows[0].trial.number
        good = (increment_of(number, count=5, sum=1.0),)
        bad = (increment_of(99, count=5, sum=1.0),)
        found = study.report_all([(good, "1", None), (bad, "2", None), (good, "3", None)])
        assert [type(each) for each in found] == [type(None), rl.UnknownTrialError, type(None)]
        assert study.history()[0].count == 10


def test_a_report_reads_the_journal_only_if_need_be(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other_process:
        main, other = (arm.trial.number for arm in study.allocate(2, end_early=0.05).rows)
        reads, read = [], study._journal.read
        monkeypatch.setattr(
            study._journal, "read", lambda *args, **more: reads.append(args) or read(*args, **more)
        )
        good = (increment_of(main, count=9, sum=4.0, sum_squares=4.0),)
        study.report_all([(good, None, None), (good, None, None)])
        assert not reads  # the append reads what others wrote
        new = other_process.ask()
        study.report_all([((increment_of(new.number, count=1, sum=1.0),), None, None)])
        assert len(reads) == 1
        bad = (increment_of(other, count=900, sum=4.0, sum_squares=4.0),)
        better = (increment_of(main, count=900, sum=400.0, sum_squares=400.0),)
        study.report_all([(bad, None, None), (better, None, None)])
        assert study.events()[-1].kind == "ended"


def test_a_tell_and_a_report_of_the_same_trial_exclude_each_other(tmp_path: Path) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other:
        first, second = study.ask(), study.ask()
        study.tell(first, 1.0)
        with pytest.raises(rl.TrialError, match="trial 0 was told its result at once"):
            other.report(first, count=1, sum=1.0)
        other.report(second, count=1, sum=1.0)
        with pytest.raises(rl.TrialError, match="trial 1 has reported results"):
            study.tell(second, 1.0)


def test_a_sum_without_units_says_what_to_report_next(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        trial = study.ask()
        study.report(trial, count=0, sum=3.0)
        with pytest.raises(rl.TrialError, match="`count` is 0 so far; report how many there are"):
            study.tell(trial, 1.0)
        study.report(trial, count=2, sum=1.0)
        assert study.best().mean == pytest.approx(2.0)


def test_a_report_while_the_trial_is_abandoned_leaves_the_study_readable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other:
        trial, append = study.ask(), study._append

        def late(*args: Any) -> Any:
            if not other.observations:
                other.report(trial, count=4, sum=1.0)
            return append(*args)

        monkeypatch.setattr(study, "_append", late)
        with pytest.raises(rl.TrialError, match="trial 0 was told already"):
            study.abandon(trial)
        assert other.history()[0].value == 0.25


def test_rows_end_early_in_all_processes(tmp_path: Path) -> None:
    with opened(tmp_path) as study, opened(tmp_path) as other:
        base, good, bad = study.allocate(3).rows
        for arm, rate in ((base, 0.10), (good, 0.11), (bad, 0.02)):
            study.report(arm.trial, count=5000, sum=5000 * rate, sum_squares=5000 * rate)
        kinds = [event.kind for event in study.events()]
        assert kinds == ["created", "allocated", *["reported"] * 3, "ended"]
        assert other.allocation == study.allocation
        assert len(other.allocation.rows) == 2  # type: ignore[union-attr]


def test_an_archived_study_makes_no_table_but_takes_results(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        table = study.allocate(3)
        study.archive()
        with pytest.raises(rl.ArchivedError):
            study.allocate(3)
        report_each(study, table)
        assert study.history()[0].count == 100


def test_a_table_and_asks_side_by_side(tmp_path: Path) -> None:
    with opened(tmp_path) as study:
        table = study.allocate(3)
        trial = study.ask()
        assert trial.number == 3
        report_each(study, table)
        study.tell(trial, 0.2)
        assert study.allocate(3, renew=True).rows[0].trial.number == 4
        assert study.observations == 4


# -- the service and its client --------------------------------------------------------------------


def post(url: str, body: object, key: str) -> int:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = Request(url, json.dumps(body).encode(), headers, method="POST")
    try:
        with urlopen(request, timeout=60) as answer:
            return int(answer.status)
    except HTTPError as error:
        return error.code


def test_over_http(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.sqlite"), folder=tmp_path) as service:
        client = Client(service.url)
        study = client.create("shop", space=SPACE, budget=90, baseline=TODAY)
        table = study.allocate(arms=4, ttl=50)
        assert study.allocate(arms=4, ttl=50).version == table.version == 1
        assert table.baseline == TODAY
        assert table.valid_for == 50
        numbers = [arm.trial.number for arm in table.rows]
        url = f"{service.url}/api/studies/shop/reports"
        flush = {
            "reports": [{"trial": n, "count": 50, "sum": 9, "sum_squares": 9} for n in numbers]
        }
        assert [post(url, flush, "one") for _ in range(2)] == [204, 204]
        study.report(numbers[0], count=50, value=0.18, sem=0.05, key="two")
        assert [row.count for row in study.history()] == [100, 50, 50, 50]
        assert post(url, {"reports": [{"trial": 77, "count": 1, "sum": 1}]}, "three") == 404
        assert post(url, {"reports": [{"trial": 0, "count": -1, "sum": 1}]}, "four") == 422
        assert post(url, {"reports": []}, "five") == 422
        with ThreadPoolExecutor(8) as pool:
            codes = pool.map(lambda i: post(url, flush, f"many {i}"), range(24))
        assert set(codes) == {204}
        assert [row.count for row in study.history()] == [1300, 1250, 1250, 1250]
        service.kill()
        service.start()
        assert study.history()[0].count == 1300
        kinds = [event.kind for event in study.events()]
        assert kinds.count("reported") == 26


def test_what_was_reported_is_who_reported_it(tmp_path: Path) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"read-write {'a' * 20} till\nread-write {'b' * 20} shop\n")
    with serving(
        str(tmp_path / "s.sqlite"), "--token-file", str(tokens), folder=tmp_path
    ) as service:
        till, shop = (Client(service.url, token=c * 20) for c in "ab")
        study = till.create("shop", space=SPACE, budget=90, baseline=TODAY)
        number = study.allocate(3).rows[0].trial.number
        jobs = [(till if i % 2 else shop).study("shop") for i in range(8)]
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(lambda mine: mine.report(number, count=1, sum=1.0), jobs))
        actors = [event.actor for event in study.events() if event.kind == "reported"]
        assert sorted(actors) == ["shop"] * 4 + ["till"] * 4


# -- the command line ------------------------------------------------------------------------------


def test_on_the_command_line(tmp_path: Path) -> None:
    opened(tmp_path).close()
    storage = ["--storage", str(tmp_path / "s.sqlite")]
    runner = CliRunner()
    plain = runner.invoke(app, ["allocate", "shop", "--arms", "3", *storage])
    assert plain.exit_code == 0, plain.output
    assert "70.0 %  trial 0 (baseline)" in plain.output
    told = runner.invoke(app, ["report", "shop", "0", "--count", "9", "--sum", "3", *storage])
    assert told.exit_code == 0, told.output
    again = runner.invoke(app, ["allocate", "shop", "--renew", "--arms", "3", "--json", *storage])
    assert json.loads(again.output)["version"] == 2
    with opened(tmp_path) as study:
        assert study.history()[0].count == 9
