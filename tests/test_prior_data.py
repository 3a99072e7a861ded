"""The same program twice: prior data without a key count once, and new data are never lost."""

from __future__ import annotations

import warnings
from datetime import UTC, datetime
from pathlib import Path

import pytest

import regretless as rl
from regretless.studies.journal import Journal
from serving import serving

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "c": rl.Categorical(["a", "b"])})
TODAY = {"x": 0.5, "c": "a"}
NOON = datetime(2026, 1, 31, 12, tzinfo=UTC)


def opened(path: Path) -> rl.Study:
    return rl.Study.open(path, "s", space=SPACE, budget=20)


def program(path: Path) -> int:
    """A program with prior data, some of it equal; returns how many results the study has."""
    with opened(path) as study, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study.observe(TODAY, 1.0)
        study.observe({"c": "a", "x": 0.5}, 1)  # the same result again: a second measurement
        study.observe(TODAY, 1.0, sem=0.1)
        study.observe(TODAY, 1.0, time=NOON)
        return study.observations


def test_a_program_that_runs_again_does_not_count_its_data_again(tmp_path: Path) -> None:
    assert [program(tmp_path / "s.db") for _ in range(3)] == [4, 4, 4]


def test_a_result_that_is_not_counted_is_warned_about(tmp_path: Path) -> None:
    program(tmp_path / "s.db")
    with opened(tmp_path / "s.db") as study:
        with pytest.warns(UserWarning, match="'s' has this point with this result already") as seen:
            study.observe(TODAY, 1.0)
        assert seen[0].filename == __file__
        study.observe(TODAY, 1.0, time=NOON)  # the same moment: the same measurement
        assert study.observations == 4
        study.observe(TODAY, 1.0, time=NOON.replace(hour=13))
        study.observe(TODAY, 1.0, key="another")
        study.observe(TODAY, 1.5)
        assert study.observations == 7
        with pytest.warns(UserWarning, match="not counted again"):
            study.observe(TODAY, 1.0)  # the second that the program has
        study.observe(TODAY, 1.0)  # the third, which is new
        assert study.observations == 8


def test_a_call_that_failed_counts_as_the_same_when_it_is_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path / "s.db") as study:
        append = Journal.append_if

        def without_an_answer(self: Journal, *args: object, **kwargs: object) -> None:
            append(self, *args, **kwargs)  # type: ignore[arg-type]
            raise rl.StorageError("the answer was lost")

        with monkeypatch.context() as patched:
            patched.setattr(Journal, "append_if", without_an_answer)
            with pytest.raises(rl.StorageError):
                study.observe(TODAY, 1.0)
        with pytest.warns(UserWarning, match="not counted again"):
            study.observe(TODAY, 1.0)
        assert study.observations == 1


def test_data_of_a_release_without_such_keys_is_recognised(tmp_path: Path) -> None:
    with opened(tmp_path / "s.db") as study, Journal.open(tmp_path / "s.db") as journal:
        study.observe(TODAY, 1.0)
        first = study.events()[-1]
        journal.append("s", first.kind, first.body, version=first.version)  # a key by chance
        assert study.observations == 2
    with opened(tmp_path / "s.db") as study:
        for _ in range(2):
            with pytest.warns(UserWarning, match="not counted again"):
                study.observe(TODAY, 1.0)
        assert study.observations == 2


def test_the_command_line(tmp_path: Path) -> None:
    cli = pytest.importorskip("typer.testing")
    from regretless.cli.app import app

    with opened(tmp_path / "s.db") as study:
        call = ["observe", "s", '{"x": 0.5, "c": "a"}', "1.0", "--storage", str(tmp_path / "s.db")]
        runner = cli.CliRunner()
        first, again, other = (runner.invoke(app, [*call, *o]) for o in ([], [], ["--key", "b"]))
        assert [first.exit_code, again.exit_code, other.exit_code] == [0, 0, 0]
        assert (first.stderr, other.stderr) == ("", "")
        assert "not stored: study 's' has this point with this result already" in again.stderr
        assert study.observations == 2


def test_over_http(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from starlette.testclient import TestClient

    from regretless.service.app import create_app

    with opened(tmp_path / "s.db") as study:
        app = create_app(tmp_path / "s.db")
        with TestClient(app, base_url="http://localhost") as http:
            body = {"params": TODAY, "value": 1.0}
            answers = [http.post("/api/studies/s/observe", json=body) for _ in range(2)]
            assert [answer.status_code for answer in answers] == [204, 200]
            assert "not counted again" in answers[1].json()["detail"]
            answer = http.post("/api/studies/s/observe", json=body | {"nth": 2})
            assert (answer.status_code, study.observations) == (204, 2)
            keyed = {"Idempotency-Key": "mine"}
            answer = http.post("/api/studies/s/observe", json=body, headers=keyed)
            assert (answer.status_code, study.observations) == (204, 3)


def test_the_client(tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    from regretless.client import Client

    place = tmp_path / "s.db"
    with opened(place) as study, serving(str(place), folder=tmp_path) as service:
        for _ in range(2):
            remote = Client(service.url).study("s")
            with warnings.catch_warnings(record=True) as seen:
                warnings.simplefilter("always")
                remote.observe(TODAY, 1.0)
                remote.observe(TODAY, 1.0)
                remote.observe(TODAY, 1.0, time=NOON)
            assert study.observations == 3
        assert ["not counted again" in str(each.message) for each in seen] == [True, True]
