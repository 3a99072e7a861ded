"""The command line, as a person and as a script would use it: on a real file."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from noregret.cli import main

SPACE = {
    "parameters": [
        {"name": "x", "type": "float", "low": 0.0, "high": 1.0},
        {"name": "kind", "type": "categorical", "choices": ["a", "b"]},
    ]
}
TASK = """
import noregret as nr

space = nr.Space({"x": nr.Float(0.0, 1.0), "n": nr.Int(1, 4)})


def objective(params):
    return -((params["x"] - 0.3) ** 2) - 0.1 * params["n"]


def cost(params):
    return -objective(params)


def broken(params):
    raise ZeroDivisionError("no such plan")
"""


@pytest.fixture
def shell(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Any:
    """Run `noregret …` in a folder of its own; in this process, since imports are what costs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("NOREGRET_STORAGE", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["noregret", *map(str, words)])
        left = 0
        try:
            main()
        except SystemExit as stop:
            left = int(stop.code or 0)
        shown = capsys.readouterr()
        assert left == code, shown.err
        return shown.out if code == 0 else shown.err

    return run


@pytest.fixture
def study(shell: Any) -> str:
    shell("create", "s", "--space", json.dumps(SPACE), "--budget", 6, "--seed", 3)
    return "s"


def test_a_loop_from_a_shell(shell: Any, study: str) -> None:
    for number in range(6):
        trial = json.loads(shell("ask", study, "--json"))
        assert trial["number"] == number
        assert trial["decision"]["sentence"]
        shell("tell", study, number, -((trial["params"]["x"] - 0.5) ** 2))
    best = json.loads(shell("best", study, "--json"))
    assert best["low"] <= best["mean"] <= best["high"]
    assert "best: {" in shell("best", study)
    assert "budget spent" in shell("ask", study)
    assert "budget" in shell("ask", study, "--within-budget", code=5)
    shell("extend", study, 9)
    report = shell("show", study)
    assert "asked 7 of 9" in report
    assert "pending: 6" in report
    assert "started" in report
    assert json.loads(shell("show", study, "--json"))["remaining"] == 2


def test_the_same_trial_for_the_same_key(shell: Any, study: str) -> None:
    first = shell("ask", study, "--json", "--key", "a")
    assert shell("ask", study, "--json", "--key", "a") == first
    assert json.loads(shell("ask", study, "--json", "-n", 2))[0]["number"] == 1


def test_observe_abandon_and_negative_numbers(shell: Any, study: str) -> None:
    shell("observe", study, '{"x": 0.25, "kind": "a"}', -1.5, "--sem", 0.1)
    shell("ask", study)
    shell("ask", study)
    shell("abandon", study, 0)
    assert shell("abandon", study, "--older-than", 0) == "abandoned: 1\n"
    shell("tell", study, 1, -2.5, "--count", 3)
    rows = list(csv.DictReader(io.StringIO(shell("export", study))))
    assert [(row["status"], row["value"]) for row in rows] == [
        ("observed", "-1.5"),
        ("abandoned", ""),
        ("told", "-2.5"),
    ]
    assert json.loads(shell("export", study, "--format", "json"))[0]["params_kind"] == "a"


def test_the_log_and_the_studies(shell: Any, study: str) -> None:
    shell("ask", study)
    lines = [json.loads(line) for line in shell("log", study, "--json").splitlines()]
    assert [(line["seq"], line["kind"]) for line in lines] == [(1, "created"), (2, "asked")]
    assert "asked" in shell("log", study, "--after", 1)
    (only,) = json.loads(shell("studies", "--json"))
    assert (only["name"], only["events"]) == ("s", 2)
    assert "s" in shell("studies")


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["tell", "s", 17, 1.0], 4, "17"),
        (["tell", "s", 0, "nan"], 3, "nan"),
        (["tell", "s", 0, "much"], 2, "value"),
        (["tell", "s"], 2, "number"),
        (["ask", "other"], 4, "other"),
        (["observe", "s", '{"x": 7, "kind": "a"}', 1.0], 2, "7"),
        (["observe", "s", "{x}", 1.0], 2, "{x}"),
        (["create", "t", "--space", "@nowhere.json", "--budget", 5], 2, "nowhere.json"),
        (["create", "t", "--space", "{}", "--budget", 5], 2, "parameters"),
        (["create", "s", "--space", json.dumps(SPACE), "--budget", 5, "--seed", 4], 2, "seed"),
        (["create", "t", "--space", json.dumps(SPACE), "--budget", 0], 2, "budget"),
        (["abandon", "s"], 2, "--older-than"),
        (["export", "s", "--format", "xml"], 2, "xml"),
        (["plot", "s", "-o", "p.png", "--kind", "pie"], 2, "pie"),
        (["nonsense"], 2, "nonsense"),
        (["ask", "s", "--storage", "no/such/place.sqlite"], 6, "place.sqlite"),
        (["tune", "nothing.py", "--budget", 3], 2, "nothing.py"),
        (["reproduce", "fig9"], 2, "fig9"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else None,
)
def test_errors_are_one_line_with_a_code(
    shell: Any, study: str, words: list[object], code: int, said: str
) -> None:
    shell("ask", study)
    text = shell(*words, code=code)
    assert said in text
    assert text.startswith("noregret: ")


def test_plots(shell: Any, study: str, tmp_path: Path) -> None:
    for number in range(3):
        shell("ask", study)
        shell("tell", study, number, number)
    shell("plot", study, "-o", "decisions.png")
    shell("plot", study, "-o", "reward.svg", "--kind", "reward", "--baseline", 1)
    assert (tmp_path / "decisions.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "reward.svg").read_text()


def test_tune_a_file_and_go_on(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    assert "best: {" in shell("tune", "job.py", "--budget", 8)
    assert "told 8" in shell("show", "job")
    shell("extend", "job", 10)
    shell("tune", "job.py")
    assert "told 10" in shell("show", "job")
    down = shell("tune", "job.py:cost", "--budget", 8, "--study", "down", "--direction", "minimize")
    assert '"n": 1' in down


def test_tune_with_several_jobs(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    shell("tune", "job.py", "--budget", 9, "--jobs", 2)
    rows = json.loads(shell("export", "job", "--format", "json"))
    assert [row["number"] for row in rows] == list(range(9))
    assert {row["status"] for row in rows} == {"told"}


def test_a_failing_objective_is_shown_and_its_trial_given_up(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    done = subprocess.run(
        [sys.executable, "-m", "noregret.cli", "tune", "job.py:broken", "--budget", "4"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "no such plan" in done.stderr
    assert "job.py" in done.stderr  # the user's own traceback


def test_the_console_script(tmp_path: Path) -> None:
    import noregret

    script = Path(sys.executable).parent / "noregret"
    told = subprocess.run([script, "version"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == noregret.__version__
    wrong = subprocess.run([script, "ask", "s"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 6
    assert wrong.stderr.startswith("noregret: ")
    assert not list(tmp_path.iterdir())  # looking for a study makes none
