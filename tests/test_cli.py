"""The command line, as a person and as a script would use it: on a real file."""

import csv
import io
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import regretless as rl
from regretless.cli import tune as tuning
from regretless.cli.app import main
from regretless.cli.text import age, best_point, price, summary
from regretless.cli.tune import load
from regretless.ledger import Ledger
from regretless.results import Best
from regretless.studies import Snapshot

SPACE = {
    "parameters": [
        {"name": "x", "type": "float", "low": 0.0, "high": 1.0},
        {"name": "kind", "type": "categorical", "choices": ["a", "b"]},
    ]
}
AGE = r"(\d+ s|\d(\.\d+)? min)"  # up to ten minutes: a busy machine takes its time
TASK = """
import regretless as rl

space = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 4)})


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
    """Run `regretless …` in a folder of its own; in this process, since imports are what costs."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("REGRETLESS_STORAGE", raising=False)
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "200")

    def run(*words: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["regretless", *map(str, words)])
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
    assert "start: one of the first points" in report
    assert json.loads(shell("show", study, "--json"))["remaining"] == 2


def test_results_have_a_name_and_a_unit(shell: Any) -> None:
    names = ("--metric", "p99 latency", "--unit", "ms", "--direction", "minimize")
    shell("create", "named", "--space", json.dumps(SPACE), "--budget", 9, *names)
    shell("observe", "named", '{"x": 0.9, "kind": "a"}', 30)
    for value in (20, 21, 19):
        trial = json.loads(shell("ask", "named", "--json"))
        shell("tell", "named", trial["number"], value)
    report = shell("show", "named")
    assert "minimize p99 latency (ms)" in report
    assert "Exploring: " in report
    assert "the setting observed before" in report
    data = json.loads(shell("show", "named", "--json"))
    assert (data["settings"]["metric"], data["settings"]["unit"]) == ("p99 latency", "ms")
    assert data["verdict"]["over"] == "observed setting"


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


def test_the_time_of_a_result(shell: Any, study: str) -> None:
    shell("observe", study, '{"x": 0.25, "kind": "a"}', 1, "--time", "2026-01-31T13:00:00+01:00")
    shell("ask", study)
    shell("tell", study, 0, 2, "--time", "2026-01-31T12:00:00Z")
    rows = list(csv.DictReader(io.StringIO(shell("export", study))))
    assert [row["time"] for row in rows] == ["2026-01-31T12:00:00+00:00"] * 2
    assert "measured 2026-01-31T12:00:00+00:00" in shell("log", study)
    lines = [json.loads(line) for line in shell("log", study, "--json").splitlines()]
    assert [(line["kind"], line["version"]) for line in lines][-1] == ("told", 2)
    said = shell("tell", study, 0, 2, "--time", "2026-01-31T12:00:00", code=3)
    assert "time: need a time zone" in said
    assert "'2026-01-31T12:00:00'" in said
    assert "got 'noon'" in shell("tell", study, 0, 2, "--time", "noon", code=3)


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
    assert said.lower() in text.lower()  # older releases of typer shout: NUMBER
    assert text.startswith("regretless: ")


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
    assert "8 told" in shell("show", "job")
    shell("extend", "job", 10)
    shell("tune", "job.py")
    assert "10 told" in shell("show", "job")
    options = ("--budget", 30, "--study", "down", "--direction", "minimize")
    down = shell("tune", "job.py:cost", *options)
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
        [sys.executable, "-m", "regretless", "tune", "job.py:broken", "--budget", "4"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 1
    assert "no such plan" in done.stderr
    assert "job.py" in done.stderr  # the user's own traceback


def test_the_console_script(tmp_path: Path) -> None:
    script = Path(sys.executable).parent / "regretless"
    told = subprocess.run([script, "version"], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == rl.__version__
    wrong = subprocess.run([script, "ask", "s"], cwd=tmp_path, capture_output=True, text=True)
    assert wrong.returncode == 6
    assert wrong.stderr.startswith("regretless: ")
    assert not list(tmp_path.iterdir())  # looking for a study makes none


def test_assignments_for_a_shell(shell: Any, study: str) -> None:
    answer = shell("ask", study, "--shell")
    assert answer.startswith("trial=0 params_x=0.")
    script = f'{answer}\necho "$trial $params_kind"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said in ("0 a\n", "0 b\n")
    odd = {"parameters": [{"name": "x-y", "type": "categorical", "choices": ["it's", "$HOME"]}]}
    shell("create", "odd", "--space", json.dumps(odd), "--budget", 4)
    assert "params_x-y" in shell("ask", "odd", "--shell", code=2)
    assert shell("log", "odd").count("\n") == 1  # no trial was handed out
    odd["parameters"][0]["name"] = "x"
    shell("create", "quoted", "--space", json.dumps(odd), "--budget", 2)
    script = shell("ask", "quoted", "--shell") + 'printf %s "$params_x"'
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert said in ("it's", "$HOME")


def test_the_report(shell: Any, study: str) -> None:
    assert "nothing yet" in shell("show", study)
    shell("observe", study, '{"x": 0.25, "kind": "a"}', 0.5, "--sem", 0.1)
    shell("ask", study, "-n", 3)
    shell("tell", study, 0, 2.0, "--count", 4)
    shell("abandon", study, 1)
    shell("extend", study, 8)
    report = shell("show", study)
    assert "s in regretless.sqlite: maximize with ids, asked 3 of 8" in report
    counted = r"\(1 observed, 1 told, 1 abandoned, 1 pending\)"
    assert re.search(rf"{counted}, last event {AGE} ago", report)
    assert "price so far: " in report
    assert "lost in 1 trials" in report
    assert re.search(rf"pending: 2 \(for {AGE}\)", report)
    shown = json.loads(shell("show", study, "--json"))
    assert list(shown["pending"]) == ["2"]
    assert shown["lost"] == pytest.approx(shown["best"]["mean"] - 2.0)
    lines = shell("log", study).splitlines()
    kinds = [line.split()[3] for line in lines]
    assert kinds == ["created", "observed", *["asked"] * 3, "told", "abandoned", "extended"]
    assert lines[1].endswith('{"x": 0.25, "kind": "a"}: 0.5 ± 0.1')
    assert "trial 0: {" in lines[2]
    assert "expected gain" in lines[2]
    assert lines[5].endswith("trial 0: 2.0, mean of 4.0")
    assert lines[7].endswith("to 8 trials")


def test_ages_in_the_report_are_counted_from_the_events() -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 5)
    opt.ask(2)
    opt.tell(0, 1.0)
    last, asked = datetime(2026, 1, 2, 12, 0, tzinfo=UTC), datetime(2026, 1, 2, 9, 0, tzinfo=UTC)
    view = Snapshot("s", 4, last, opt, (asked, asked))
    lines = summary(view, "here", now=last + timedelta(seconds=7))
    assert lines[0].endswith("asked 2 of 5 (1 told, 1 pending), last event 7 s ago")
    assert lines[-1] == "pending: 1 (for 3 h)"


@pytest.mark.parametrize(
    ("time", "words"),
    [(-5, "0 s"), (59.4, "59 s"), (90, "1.5 min"), (7200, "2 h"), (864_000, "10 d")],
)
def test_ages(time: float, words: str) -> None:
    assert age(timedelta(seconds=time)) == words


def test_what_a_dead_worker_left_is_done_again(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    space = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 4)})
    with rl.Study.open("regretless.sqlite", "job", space=space, budget=5) as study:
        study.ask(2)
    shell("tune", "job.py")
    assert "2 pending" in shell("show", "job")
    shell("tune", "job.py", "--redo-pending")
    assert "(5 told)" in shell("show", "job")


SLOW = """
import time
import regretless as rl
space = rl.Space({"x": rl.Float(0.0, 1.0)})
def objective(params):
    open(f"started-{params['x']}", "w").close()
    time.sleep(600)
"""


@pytest.mark.skipif(os.name != "posix", reason="no SIGINT to others on this system")
@pytest.mark.parametrize("jobs", [1, 2])
def test_ctrl_c_gives_up_what_was_under_way(shell: Any, tmp_path: Path, jobs: int) -> None:
    (tmp_path / "job.py").write_text(SLOW)
    words = ["tune", "job.py", "--budget", "9", "--jobs", str(jobs)]
    process = subprocess.Popen(
        [sys.executable, "-m", "regretless", *words],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 120
    while len(list(tmp_path.glob("started-*"))) < jobs and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Traceback" not in said
    assert f"({jobs} abandoned)" in shell("show", "job")


@pytest.mark.skipif(os.name != "posix", reason="no pipes like that on this system")
def test_a_reader_that_has_seen_enough(shell: Any, study: str) -> None:
    for _ in range(3):
        shell("ask", study, "-n", 20)
    command = f"{sys.executable} -m regretless log s --json | head -n 1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout)["kind"] == "created"
    assert done.stderr == ""


@pytest.mark.skipif(os.name != "posix", reason="no pipes like that on this system")
@pytest.mark.parametrize("words", [["version"], ["log", "s"], ["ask", "s", "--json"]])
def test_a_reader_that_has_gone(shell: Any, study: str, words: list[str]) -> None:
    """The output is short, so that nothing is written before the end."""
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    command = [sys.executable, "-m", "regretless", *words]
    done = subprocess.run(
        command, stdout=writer, stderr=subprocess.PIPE, env=buffered, timeout=60, check=False
    )
    os.close(writer)
    assert (done.returncode, done.stderr) == (1, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no full device on this system")
def test_a_disk_that_is_full(shell: Any, study: str) -> None:
    shell("ask", study)
    command = [sys.executable, "-m", "regretless", "export", "s"]
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, env=buffered, check=False
        )
    assert done.returncode == 2
    assert done.stderr.startswith("regretless: output: can't write to stdout: No space left")
    assert done.stderr.count("\n") == 1
    shell("export", study, "-o", "/dev/full", code=2)


def test_what_a_terminal_can_t_show_is_spelt_out(shell: Any, study: str) -> None:
    shell("observe", study, '{"x": 0.5, "kind": "a"}', 1.0)
    shell("create", "ä±", "--space", json.dumps(SPACE), "--budget", 6)
    poor = os.environ | {"PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "regretless", "studies"]
    done = subprocess.run(command, capture_output=True, text=True, env=poor, check=True)
    assert "\\xe4\\xb1" in done.stdout


FULL = """
from __future__ import annotations

from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

import regretless as rl


@dataclass
class Plan:
    x: float


space = rl.Space({"x": rl.Float(0.0, 1.0)})


def work(plan: Plan) -> float:
    return -(plan.x - 0.3) ** 2


def objective(params):
    return work(Plan(**params))


def elsewhere(params):
    with ProcessPoolExecutor(1, get_context("spawn")) as pool:
        return pool.submit(work, Plan(**params)).result()
"""


@pytest.mark.parametrize("name", ["objective", "elsewhere"])
def test_tune_a_file_with_classes_and_processes_of_its_own(
    shell: Any, tmp_path: Path, name: str
) -> None:
    (tmp_path / f"full_{name}.py").write_text(FULL)
    assert "best: {" in shell("tune", f"full_{name}.py:{name}", "--budget", 2)


def test_a_file_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "half.py").write_text("x = 1\nraise ZeroDivisionError")
    with pytest.raises(ZeroDivisionError):
        load(str(tmp_path / "half.py"))
    assert "half" not in sys.modules


def test_where_nothing_can_be_written_is_said_in_a_line(shell: Any) -> None:
    shell("create", "s", "--budget", 4, "--space", json.dumps(SPACE))
    shell("ask", "s")
    shell("tell", "s", 0, 1.0)
    for words in (
        ("export", "s", "-o", "nowhere/x.csv"),
        ("plot", "s", "-o", "nowhere/x.png"),
        ("plot", "s", "-o", "x.xyz"),
    ):
        assert "output: can't write" in shell(*words, code=2)
    assert "the last event is 3, got 999" in shell("log", "s", "--after", 999, code=2)


def test_no_result_yet_is_not_a_wrong_value(shell: Any) -> None:
    shell("create", "s", "--budget", 4, "--space", json.dumps(SPACE))
    assert "no result was told yet" in shell("best", "s", code=4)


def test_without_typer_the_command_says_what_to_install() -> None:
    code = "import sys; sys.modules['typer'] = None; import regretless.cli"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 7
    assert done.stderr == "regretless: typer is not installed; run: pip install 'regretless[cli]'\n"


# --- calls that cannot be right -------------------------------------------------------------------


@pytest.mark.parametrize(
    "words",
    [
        ("tell", "s", "0", "oops"),
        ("tell", "s", "oops", "1"),
        ("extend", "s", "oops"),
        ("create", "s", "--space", "{}", "--budget", "oops"),
    ],
)
def test_what_is_no_number_is_named_in_one_line(
    shell: Any, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    said = shell(*words, code=2)
    assert said.count("\n") == 1
    assert "oops" in said


def test_without_a_command_the_help_is_all(shell: Any) -> None:
    assert "regretless:" not in shell(code=2)


def test_adopt(shell: Any) -> None:
    shell("create", "s", "--space", json.dumps(SPACE), "--budget", 9)
    params = json.dumps({"x": 0.5, "kind": "b"})
    for _ in range(2):
        adopted = json.loads(shell("adopt", "s", params, "--key", "today's", "--json"))
    assert (adopted["number"], adopted["params"]) == (0, {"x": 0.5, "kind": "b"})
    assert "given" in shell("adopt", "s", params)
    shell("tell", "s", 0, 1.0)
    assert "'kind'" in shell("adopt", "s", '{"x": 0.5}', code=2)
    alone = json.loads(shell("ask", "s", "-n", 2, "--json"))
    assert [trial["number"] for trial in alone] == [2, 3]


def test_a_table_of_nothing_has_a_header(shell: Any) -> None:
    shell("create", "s", "--space", json.dumps(SPACE), "--budget", 9)
    empty = shell("export", "s").splitlines()
    shell("ask", "s")
    assert shell("export", "s").splitlines()[:1] == empty
    assert empty[0].startswith("number,status,value,sem,count,time,params_x,params_kind,")


def test_a_wrong_number_of_jobs_creates_no_study(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    assert "jobs: need at least 1, got 0" in shell(
        "tune", "job.py", "--budget", 5, "--jobs", 0, code=2
    )
    assert not list(tmp_path.glob("*.sqlite"))


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_value_that_cannot_be_right_has_its_code_whoever_returns_it(
    shell: Any, tmp_path: Path, jobs: int
) -> None:
    wrong = "\n\ndef wrong(params):\n    return float('nan')\n"
    (tmp_path / "job.py").write_text(TASK + wrong)
    shell("tune", "job.py:wrong", "--budget", 5, "--jobs", jobs, code=3)


def test_what_is_no_file(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("none")
    (tmp_path / "folder").mkdir()
    assert "need a Python file, got 'notes.txt'" in shell("tune", "notes.txt", code=2)
    assert "there is no 'other.txt'" in shell("tune", "other.txt", code=2)
    for command in (["studies"], ["serve", "--port", 0]):  # others may listen at the usual port
        assert "folder: is a folder" in shell(*command, "--storage", "folder", code=6)
    shell("create", "s", "--space", json.dumps(SPACE), "--budget", 9)
    assert "got the folder '.'" in shell("plot", "s", "-o", ".", code=2)


# -- results that were paid for --------------------------------------------------------------------


@pytest.fixture
def task() -> tuning.Task:
    space = rl.Space({"x": rl.Float(0.0, 1.0)})
    return tuning.Task(Path("job.py"), "objective", space, lambda params: 42.0, None)


@pytest.fixture
def opened(tmp_path: Path, task: tuning.Task) -> Iterator[rl.Study]:
    with rl.Study.open(tmp_path / "s.db", "s", space=task.space, budget=3) as study:
        yield study


def test_a_result_waits_for_a_storage_that_is_away(
    task: tuning.Task, opened: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning.time, "sleep", lambda seconds: None)
    tell, failures = opened.tell, iter([True, True, False, False, False])

    def away(trial: Any, value: float, **told: Any) -> None:
        if next(failures):
            raise rl.StorageError("s.db: database is locked")
        tell(trial, value)

    monkeypatch.setattr(opened, "tell", away)
    tuning.work(task, opened, opened)
    assert [row.value for row in opened.history()] == [42.0] * 3


def test_a_result_that_can_t_be_stored_is_handed_back(
    task: tuning.Task, opened: rl.Study, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuning, "STORAGE_PATIENCE", -1.0)

    def away(trial: Any, value: float, **told: Any) -> None:
        raise rl.StorageError("s.db: database is locked")

    monkeypatch.setattr(opened, "tell", away)
    with pytest.raises(rl.StorageError, match=r"locked: trial 0 is still .* STUDY 0 42\.0`"):
        tuning.work(task, opened, opened)
    assert [trial.number for trial in opened.pending] == [0]  # not abandoned


@pytest.mark.parametrize("when", ["before", "after"])
def test_ctrl_c_around_the_end_of_a_trial(
    task: tuning.Task, opened: rl.Study, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    tell, calls = opened.tell, []

    def interrupted(trial: Any, value: float, **told: Any) -> None:
        calls.append(value)
        if when == "after" or len(calls) > 1:
            tell(trial, value)
        if len(calls) == 1:
            raise KeyboardInterrupt

    monkeypatch.setattr(opened, "tell", interrupted)
    with pytest.raises(KeyboardInterrupt):
        tuning.work(task, opened, opened)
    assert [(row.status, row.value) for row in opened.history()] == [("told", 42.0)]


def test_a_result_that_is_no_number_gives_the_trial_up(task: tuning.Task, opened: rl.Study) -> None:
    with pytest.raises(rl.DataError, match="nan"):
        tuning.work(replace(task, objective=lambda params: float("nan")), opened, opened)
    assert [row.status for row in opened.history()] == ["abandoned"]


@pytest.mark.parametrize("direction", ["maximize", "minimize"])
def test_the_price_is_what_was_lost_whatever_is_better(direction: Any) -> None:
    """Ten looks at a good point, and one that was worse by 6."""
    sign = 1.0 if direction == "maximize" else -1.0
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 30, direction=direction)
    assert Ledger.of(opt).lost() is None
    assert price(Ledger.of(opt)) == []
    for _ in range(10):
        opt.tell(opt.adopt({"x": 0.5}), sign * 8.0)
    opt.tell(opt.adopt({"x": 1.0}), sign * 2.0)
    opt.observe({"x": 0.0}, sign * -90.0)  # prior data cost nothing
    lost = Ledger.of(opt).lost()
    assert lost is not None
    assert lost == pytest.approx(11 * sign * opt.best().mean - 82.0)
    assert 3.0 < lost < 12.0
    (line,) = price(Ledger.of(opt))
    assert line.startswith(f"price so far: {lost:.4g} lost in 11 trials against the best point")
    assert line.endswith(f" ({lost / 11:.4g} a trial)")


def test_the_best_point_in_words() -> None:
    best = Best({"x": 0.25}, mean=2.0, low=1.5, high=2.5, count=3, sample_mean=2.1, luckiest=9.0)
    first, second = best_point(best)
    assert first == 'best: {"x": 0.25}'
    assert second == (
        "  mean 2, 95 % interval 1.5 to 2.5, tried 3 times (the luckiest result anywhere: 9)"
    )


def test_the_version_as_an_option(shell: Any) -> None:
    assert shell("--version") == f"{rl.__version__}\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("space.json", '{"x": {"type": "float", "low": 0, "high": 1}}'),
        ("space.toml", '[x]\ntype = "float"\nlow = 0\nhigh = 1\n'),
        ("space.yaml", "x: {type: float, low: 0, high: 1}\n"),
        ("list.yml", "parameters:\n- {name: x, type: float, low: 0, high: 1}\n"),
    ],
)
def test_a_space_from_a_file(shell: Any, name: str, text: str) -> None:
    Path(name).write_text(text)
    shell("create", "s", "--space", f"@{name}", "--budget", 4)
    with rl.Study.open("regretless.sqlite", "s") as study:
        assert study.space.names == ("x",)


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("space.toml", "x = [", "space: not TOML"),
        ("space.yaml", "x: [", "space: not YAML"),
        ("space.yaml", "x: {type: float, min: 0}", "a float has no 'min', but 'low', 'high'"),
        ("space.yaml", "just words", "need a list under 'parameters'"),
    ],
)
def test_a_space_that_cannot_be_read(shell: Any, name: str, text: str, says: str) -> None:
    Path(name).write_text(text)
    assert says in shell("create", "s", "--space", f"@{name}", "--budget", 4, code=2)
    assert not Path("regretless.sqlite").exists()


def test_changes_with_a_key_happen_once(shell: Any, study: str) -> None:
    shell("ask", study)
    for _ in range(2):
        shell("extend", study, 9, "--key", "more")
        shell("abandon", study, 0, "--key", "gone")
        shell("tell", study, 0, 1.5, "--key", "result")
    assert "needs a trial's number" in shell(
        "abandon", study, "--older-than", 1, "--key", "k", code=2
    )
    kinds = [json.loads(line)["kind"] for line in shell("log", study, "--json").splitlines()]
    assert kinds == ["created", "asked", "extended", "abandoned", "told"]


def test_watching_ends_with_the_budget(shell: Any, study: str) -> None:
    for number in range(6):
        shell("ask", study)
        shell("tell", study, number, 1.0 + number)
    shown = shell("watch", study, "--every", 0.1)
    assert "asked 6 of 6" in shown
    assert shown.count("best: ") == 1
    assert "need at least 0.1" in shell("watch", study, "--every", 0, code=2)


def test_watching_prints_what_is_new(
    shell: Any, study: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell("ask", study)
    looks: list[float] = []

    def meanwhile(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) % 2:  # every other look finds nothing new
            with rl.Study.open("regretless.sqlite", study) as opened:
                opened.tell(opened.pending[0], float(len(looks)))
                if opened.remaining:
                    opened.ask()

    monkeypatch.setattr("regretless.cli.text.sleep", meanwhile)
    shown = shell("watch", study, "--last", 1)
    assert looks == [2.0] * 11
    assert [shown.count(f"asked {asked} of 6") for asked in range(1, 7)] == [1, 1, 1, 1, 1, 2]
    assert "pending: 5" in shown


# --- approval, corrections, names -----------------------------------------------------------------


def test_approval(shell: Any) -> None:
    options = ["--space", json.dumps(SPACE), "--budget", "9", "--mode", "recommend"]
    shell("create", "s", *options)
    assert "trial 0 (proposed: approve or reject it)" in shell("ask", "s")
    assert json.loads(shell("ask", "s", "--json"))["proposed"] is True
    assert "approve it before it is tried" in shell("tell", "s", "0", "1.0", code=4)
    assert "pending --shell" in shell("ask", "s", "--shell", code=2)
    shell("approve", "s", "0", "--why", "fine", "--key", "k")
    shell("approve", "s", "0", "--why", "fine", "--key", "k")
    assert shell("pending", "s", "--shell").startswith("trial=0 params_x=")
    assert [each["number"] for each in json.loads(shell("pending", "s", "--json"))] == [0]
    shell("tell", "s", "0", "1.0")
    shell("reject", "s", "1", "--why", "too slow for\nour users")
    assert "trial 1 was rejected already" in shell("approve", "s", "1", code=4)
    assert "trial 0 was told already" in shell("reject", "s", "0", "--why", "no", code=4)
    assert "why: need 1 to 1000" in shell("reject", "s", "1", "--why", "", code=2)
    shell("ask", "s")
    shown = shell("show", "s")
    assert re.search(rf"proposed: 2 \(for {AGE}\)", shown)
    assert "too slow" in shown
    assert "asked 2 of 9 (1 told, 1 rejected, 1 proposed)" in shown
    shell("reconsider", "s", "1")
    log = shell("log", "s").splitlines()
    assert log[1].endswith("trials left")
    assert "trial 0 (proposed): " in log[1]
    assert log[3].endswith("approved   trial 0: fine")
    assert log[5].endswith("rejected   trial 1: too slow for our users")
    assert log[7].endswith("reconsidered  trial 1")


def test_a_task_is_not_run_without_approval(shell: Any, tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(TASK)
    space = rl.Space({"x": rl.Float(0.0, 1.0), "n": rl.Int(1, 4)})
    rl.Study.open("regretless.sqlite", "job", space=space, budget=5, mode="recommend").close()
    assert "nobody has approved" in shell("tune", "job.py", code=2)
    assert "asked 0 of 5" in shell("show", "job")


def test_corrections(shell: Any) -> None:
    shell("create", "s", "--space", json.dumps(SPACE), "--budget", "9")
    shell("observe", "s", '{"x": 0.5, "kind": "a"}', "7")
    shell("ask", "s")
    shell("tell", "s", "0", "1500")
    assert "retract it first" in shell("tell", "s", "0", "1.5", code=4)
    shell("retract", "s", "0", "--why", "milliseconds")
    shell("tell", "s", "0", "1.5")
    shell("retract", "s", "--prior", "0")
    assert "need a trial's number, or --prior" in shell("retract", "s", code=2)
    assert "observation 1 was never told" in shell("retract", "s", "--prior", "1", code=4)
    table = shell("show", "s")
    assert "prior 0" in table
    assert "retracted" in table
    log = shell("log", "s").splitlines()
    assert log[4].endswith("retracted  the result of trial 0: milliseconds")
    assert log[6].endswith("unobserved  prior result 0")
    rows = list(csv.DictReader(io.StringIO(shell("export", "s"))))
    assert [row["status"] for row in rows] == ["retracted", "told"]
    assert rows[1]["note"] == "its result 1500.0 was retracted: milliseconds"


def test_archive_and_rename(shell: Any) -> None:
    for name in ("a", "b"):
        shell("create", name, "--space", json.dumps(SPACE), "--budget", "9")
    shell("archive", "a")
    listed = shell("studies")
    assert " a " not in listed
    assert "1 archived: see --archived" in listed
    assert "a (archived)" in shell("studies", "--archived")
    assert [each["name"] for each in json.loads(shell("studies", "--json"))] == ["b"]
    assert "study 'a' is archived: unarchive it first" in shell("ask", "a", code=4)
    assert "a (archived) in" in shell("show", "a")
    shell("unarchive", "a")
    shell("rename", "a", "c")
    assert "study 'a' was renamed: it is 'c' now" in shell("ask", "a", code=4)
    assert shell("log", "c").splitlines()[-1].endswith("renamed    from a to c")
    assert "another study is or was called 'b'" in shell("rename", "c", "b", code=2)


def test_a_space_is_changed(shell: Any, study: str) -> None:
    added = {"name": "z", "type": "int", "low": 1, "high": 9, "value": 5}
    shell("ask", study)
    shell("tell", study, 0, 1.0)
    shell("change", study, json.dumps({"add": [added]}))
    assert "z" in json.loads(shell("ask", study, "--json"))["params"]
    assert "changed" in shell("log", study)
    wrong = shell("change", study, json.dumps({"freeze": {"nobody": 1}}), code=2)
    assert "freeze: there is no parameter 'nobody'" in wrong
    assert "change" in shell("change", study, "[]", code=2)


def test_no_end_date_and_drift_from_a_shell(shell: Any) -> None:
    made = shell("create", "e", "--space", json.dumps(SPACE), "--horizon", 20, "--drift", "auto")
    assert "20 trials ahead, without an end" in made
    for number in range(3):
        trial = json.loads(shell("ask", "e", "--json", "--within-budget"))
        shell("tell", "e", number, trial["params"]["x"])
    assert "asked 3, without an end (20 ahead)" in shell("show", "e")
    shown = json.loads(shell("show", "e", "--json"))
    assert (shown["budget"], shown["horizon"], shown["remaining"]) == (None, 20, 20)
    assert shown["drift"]["jumps"] == []
    shell("extend", "e", 9)
    shell("extend", "e", "--horizon", 30)
    assert "without an end, 30 trials ahead" in shell("log", "e")
    assert "either a budget, or a horizon" in shell("extend", "e", code=2)
    assert "need auto or a number" in shell(
        "create", "f", "--space", json.dumps(SPACE), "--budget", 9, "--drift", "fast", code=2
    )
    assert "or a `horizon`" in shell("create", "f", "--space", json.dumps(SPACE), code=2)
