"""The service as a process of its own, on real databases: loaded, killed, cut off, restarted."""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("fastapi")

import regretless as rl
from conftest import PostgresServer
from regretless.client import Client, RemoteStudy, ServiceError
from regretless.errors import (
    BudgetError,
    CorruptJournalError,
    StorageError,
    TrialError,
    UnknownStudyError,
    UnknownTrialError,
)
from regretless.studies.journal import Journal
from serving import Service, serving

ROOT = Path(__file__).parents[1]
NOON = datetime(2026, 1, 31, 12, 0, tzinfo=UTC)
SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])})


def f(number: int, params: dict[str, Any]) -> float:
    """Noise that belongs to the trial, so that a value can be told from all others."""
    noise = np.random.default_rng([3, number]).normal()
    return float(np.sin(5 * params["x"]) + (params["kind"] == "b") + 0.1 * noise)


def fill(storage: str, trials: int, budget: int = 10_000) -> None:
    """A study with so many trials, chosen at random: what is there before the test begins."""
    rng = np.random.default_rng(0)
    with rl.Study.open(storage, "s", space=SPACE, budget=budget) as study:
        for _ in range(trials):
            params = {"x": float(rng.random()), "kind": str(rng.choice(["a", "b"]))}
            trial = study.adopt(params)
            study.tell(trial, f(trial.number, trial.params))


def wait_for(what: Callable[[], object], seconds: float = 120.0) -> None:
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@dataclass
class Workers:
    """Threads that ask and tell, and note what was acknowledged and how long it took."""

    asked: list[int] = field(default_factory=list)
    told: list[int] = field(default_factory=list)
    ask_seconds: list[float] = field(default_factory=list)
    tell_seconds: list[float] = field(default_factory=list)
    errors: list[Exception] = field(default_factory=list)
    stop: threading.Event = field(default_factory=threading.Event)

    def run(self, study: RemoteStudy, rounds: int | None = None) -> None:
        done = 0
        try:
            while not self.stop.is_set() and done != rounds:
                start = time.perf_counter()
                trial = study.ask()
                self.asked.append(trial.number)
                self.ask_seconds.append(time.perf_counter() - start)
                start = time.perf_counter()
                study.tell(trial, f(trial.number, trial.params))
                self.tell_seconds.append(time.perf_counter() - start)
                self.told.append(trial.number)
                done += 1
        except Exception as error:  # noqa: BLE001 - shown by the test
            self.errors.append(error)

    def start(
        self, studies: list[RemoteStudy], rounds: int | None = None
    ) -> list[threading.Thread]:
        threads = [threading.Thread(target=self.run, args=(s, rounds)) for s in studies]
        for thread in threads:
            thread.start()
        return threads


def check_log(storage: str, workers: Workers, before: int = 0) -> None:
    """Nothing that was acknowledged is lost, and nothing is there twice."""
    with rl.Study.open(storage, "s", read_only=True) as study:
        events = study.events()
    counts = Counter((event.kind, event.body.get("number")) for event in events)
    assert max(counts.values()) == 1
    asked = {event.body["number"] for event in events if event.kind == "asked"}
    told = {event.body["number"] for event in events if event.kind == "told"}
    assert not workers.errors
    assert len(set(workers.asked)) == len(workers.asked)
    # No trial without an owner: a repeated ask has found the one that it asked for first.
    assert asked - set(range(before)) == set(workers.asked)
    assert told - set(range(before)) == set(workers.told) == set(workers.asked)


# -- the client ------------------------------------------------------------------------------------


def test_the_client_has_the_verbs_of_a_study(tmp_path: Path) -> None:
    storage = str(tmp_path / "s.db")
    with serving(storage, folder=tmp_path) as service:
        client = Client(service.url, patience=5)
        study = client.create("s ü/"[:3], space=SPACE, budget=5, direction="minimize", seed=2)
        for _ in range(2):
            study.observe({"x": 0.5, "kind": "a"}, 1.0, sem=0.1, time=NOON, key="before")
        with pytest.raises(rl.DataError, match="time: need a datetime with a time zone"):
            study.observe({"x": 0.5, "kind": "a"}, 1.0, time=datetime(2026, 1, 31))
        with pytest.raises(rl.DataError, match="sem: need a positive"):
            study.observe({"x": 0.5, "kind": "a"}, 1.0, sem=-1.0)
        for trial in study:
            study.tell(trial, f(trial.number, trial.params))
        with pytest.raises(BudgetError, match="the budget of 5 is spent"):
            study.ask(within_budget=True)
        study.extend(9)
        own = study.adopt({"x": 0.25, "kind": "b"}, key="today's")
        assert study.adopt({"x": 0.25, "kind": "b"}, key="today's") == own
        assert (study.budget, study.asked, study.remaining) == (9, 6, 3)
        assert study.pending == [own]
        own.params.clear()  # its owner's
        study.tell(own, 0.5, time=NOON)
        assert [row.time for row in study.history() if row.time == NOON] == [NOON, NOON]
        first, second = study.ask(2, key="two")
        assert study.ask(2, key="two") == [first, second]
        study.abandon(first)
        assert study.abandon_older_than(timedelta(0)) == [second]
        with pytest.raises(TrialError, match="a result can't be changed"):
            study.tell(0, 77.0)
        with pytest.raises(UnknownTrialError, match="trial 99 was never asked"):
            study.tell(99, 1.0)
        with pytest.raises(UnknownStudyError, match="there is no study 'other'"):
            client.study("other")
        with pytest.raises(rl.ConfigError, match="budget: 9 there, 8 here"):
            client.create("s ü", space=SPACE, budget=8)
        assert [each["name"] for each in client.studies()] == ["s ü"]
        assert client.study("s ü").info()["remaining"] == 1
        with rl.Study.open(storage, "s ü", read_only=True) as local:
            assert study.history() == local.history()
            assert study.best() == local.best()
            there = [(e.seq, e.time, e.kind, e.version, e.body) for e in study.events()]
            assert there == [(e.seq, e.time, e.kind, e.version, e.body) for e in local.events()]
    with pytest.raises(StorageError, match=r"127\.0\.0\.1.*refused"):
        Client(service.url, patience=0.3).studies()


def test_damage_and_unknown_studies_have_their_own_errors_at_the_client(tmp_path: Path) -> None:
    storage = str(tmp_path / "s.db")
    with Journal.open(storage) as journal:
        journal.append("broken", "danced", {})
    with serving(storage, folder=tmp_path) as service:
        client = Client(service.url, patience=0.0)
        with pytest.raises(CorruptJournalError, match="study 'broken', event 1: ") as raised:
            client.study("broken")
        assert type(raised.value) is CorruptJournalError
        with pytest.raises(UnknownStudyError, match="there is no study 'none'") as unknown:
            RemoteStudy(client, "none").ask()
        assert not isinstance(unknown.value, TrialError)


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Client]:
    """A client of a service for all who need no more: each has a study of its own."""
    folder = tmp_path_factory.mktemp("plain")
    with serving(str(folder / "s.db"), folder=folder) as service:
        yield Client(service.url)


def test_a_trial_of_another_study_is_refused_from_afar_too(plain: Client) -> None:
    line = rl.Space({"x": rl.Float(0.0, 1.0)})  # where starts of other seeds differ
    settings: dict[str, Any] = {"space": line, "budget": 3, "n0": 1}  # by default, in the middle
    mine, others = (plain.create(n, seed=len(n), **settings) for n in ("a", "bb"))
    trial, wrong = mine.ask(), others.ask()
    assert trial.number == wrong.number
    for stranger in (wrong, rl.Optimizer(seed=7, **settings).ask()):
        with pytest.raises(UnknownTrialError, match="belongs to another optimiser"):
            mine.tell(stranger, 123.0)
        with pytest.raises(UnknownTrialError, match="belongs to another optimiser"):
            mine.abandon(stranger)
    assert [row.status for row in mine.history()] == ["pending"]
    plain.study("a").tell(trial, 1.0)  # another handle on the same study
    assert [row.value for row in mine.history()] == [1.0]


def test_the_client_reads_page_by_page(plain: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("regretless.client.study.PAGE", 2)
    study = plain.create("pages", space=SPACE, budget=9)
    study.ask(5)
    for x in (0.1, 0.2, 0.3, 0.4):
        study.observe({"x": x, "kind": "a"}, x)
    assert [row.number for row in study.history()] == [None] * 4 + [0, 1, 2, 3, 4]
    assert [event.seq for event in study.events()] == list(range(1, 11))
    assert [event.seq for event in study.events(after=8)] == [9, 10]


@pytest.mark.parametrize(
    "url",
    [
        "127.0.0.1:8080",
        "ftp://x",
        "http://",
        "http://user:pw@host",
        "http://host:abc",
        "http://[",
        "http://host/a b",
        "http://host/\n",
        "http://host/für",
        5,
    ],
)
def test_the_client_wants_a_url(url: Any) -> None:
    with pytest.raises(rl.ConfigError, match="url: need"):
        Client(url)


@pytest.mark.parametrize("name", ["a/trials", ".", "..", "", 5])
def test_a_name_that_would_be_another_address_is_refused(name: Any) -> None:
    with pytest.raises(rl.ConfigError, match=r"^name: "):
        Client("http://host").study(name)


@pytest.mark.parametrize("seconds", [nan, inf, -1.0, "x", True])
@pytest.mark.parametrize("name", ["timeout", "patience"])
def test_the_client_wants_times_that_end(name: str, seconds: Any) -> None:
    with pytest.raises(rl.ConfigError, match=f"{name}: need seconds"):
        Client("http://host", **{name: seconds})


@pytest.mark.parametrize("token", ["secr\net", "secr€t", " ", 5])
def test_a_token_that_can_t_travel_is_refused_and_not_shown(token: Any) -> None:
    with pytest.raises(rl.ConfigError, match="token: need printable ASCII") as raised:
        Client("http://host", token=token)
    assert "secr" not in str(raised.value)


def test_the_client_takes_what_a_study_takes(plain: Client) -> None:
    space = rl.Space({"n": rl.Int(1, 9), "on": rl.Categorical([True, False])})
    study = plain.create("takes", space=space, budget=9)
    params: Any = {"n": np.int64(3), "on": np.bool_(True)}
    study.observe(params, np.float32(1.5), count=np.int64(12))  # type: ignore[arg-type]
    assert len(study.ask(np.int64(2))) == 2  # type: ignore[call-overload]
    study.tell(np.int64(0), np.int64(2))  # type: ignore[arg-type]
    wrong: list[tuple[type[rl.RegretlessError], str, Callable[[], object]]] = [
        (rl.DataError, "value: need a number that is finite", lambda: study.tell(1, nan)),
        (rl.DataError, "can't be written", lambda: study.observe({"n": nan, "on": True}, 1.0)),
        (UnknownTrialError, "got 'abc'", lambda: study.tell("abc", 1.0)),  # type: ignore[arg-type]
        (UnknownTrialError, "got True", lambda: study.tell(True, 1.0)),
        (rl.ConfigError, "n: need a whole number", lambda: study.ask(1.5)),  # type: ignore[call-overload]
        (rl.ConfigError, "key: need printable ASCII", lambda: study.ask(key="日本")),
        (rl.ConfigError, "key: need printable ASCII", lambda: study.ask(key="a\nb")),
        (rl.SpaceError, "params: must map", lambda: study.observe(None, 1.0)),  # type: ignore[arg-type]
        (rl.SpaceError, "params: must map", lambda: study.adopt(3)),  # type: ignore[arg-type]
        (rl.ConfigError, "got None", lambda: plain.study(None)),  # type: ignore[arg-type]
        (
            rl.ConfigError,
            "space: need a Space",
            lambda: plain.create("t", space={}, budget=1),  # type: ignore[arg-type]
        ),
    ]
    for error, says, call in wrong:
        with pytest.raises(error, match=says):
            call()
    assert [row.value for row in study.history()] == [1.5, 2.0, None]


@contextmanager
def answering(status: int, text: str, **headers: str) -> Iterator[str]:
    """Somebody who says the same to every request: a proxy, say."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *words: object) -> None:
            """Nothing to stderr."""

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_port}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.mark.parametrize(
    ("status", "text", "headers", "says"),
    [
        (
            200,
            "<html>please log in</html>",
            {},
            "200: the answer is not from regretless, check the address: .*please log in",
        ),
        (200, "", {}, "200: the answer is not from regretless"),
        (301, "", {"Location": "https://elsewhere/"}, "301: it has moved to 'https://elsewhere/'"),
        (404, "<html>", {}, "404: Not Found"),
    ],
)
def test_the_client_believes_the_service_alone(
    status: int, text: str, headers: dict[str, str], says: str
) -> None:
    with answering(status, text, **headers) as url:
        study = RemoteStudy(Client(url, patience=0.0), "s")
        with pytest.raises(ServiceError, match=says):
            study.tell(0, 1.5)
        with pytest.raises(ServiceError, match=says):
            study.ask()


# -- the command -----------------------------------------------------------------------------------


def test_tokens_are_asked_for_and_never_shown(tmp_path: Path) -> None:
    token = "correct-horse-battery-staple"
    (tmp_path / "tokens").write_text(f"read-write {token}\n")
    options = ("--token-file", "tokens")
    with serving(str(tmp_path / "s.db"), *options, folder=tmp_path) as service:
        client = Client(service.url, token=f"{token}\n")  # as read from a file
        client.create("s", space=SPACE, budget=5).ask()
        with pytest.raises(ServiceError, match="401: the token is missing"):
            Client(service.url).studies()
        with pytest.raises(ServiceError, match="401: the token is unknown"):
            Client(service.url, token=token[:-1]).studies()
        assert token not in repr(client)
    assert service.log.startswith("serving ")
    assert token not in service.log


def test_the_command_ends_cleanly_and_says_what_is_wrong(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        assert "in use" in refusal(tmp_path, "--port", str(service.port))
        assert service.stop(signal.SIGINT) == 130
        assert service.log == f"serving {service.storage} at {service.url}/\n"
    assert "--insecure" in refusal(tmp_path, "--host", "0.0.0.0")
    assert "port 99999" in refusal(tmp_path, "--port", "99999")


def refusal(folder: Path, *options: str) -> str:
    command = [sys.executable, "-m", "regretless", "serve", "--storage", "s.db", *options]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout) == (2, "")
    return done.stderr


def test_the_extra_is_asked_for_by_name() -> None:
    code = (
        "import sys; sys.modules['fastapi'] = None\n"
        "from regretless.errors import MissingExtraError\n"
        "try:\n    import regretless.service.app\n"
        "except MissingExtraError as error:\n    print(error)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "fastapi is not installed; run: pip install 'regretless[serve]'\n"


# -- load ------------------------------------------------------------------------------------------


def test_many_clients_on_one_study(storage: str, tmp_path: Path) -> None:
    """Many ask and tell at once. (In full: benchmarks/service_load.py.)"""
    fill(storage, 40)
    workers = Workers()
    with serving(storage, folder=tmp_path) as service:
        study = Client(service.url).study("s")
        for thread in workers.start([study] * 20, rounds=3):
            thread.join()
    assert len(workers.told) == 60
    check_log(storage, workers, before=40)


def test_many_studies_side_by_side(storage: str, tmp_path: Path) -> None:
    with serving(storage, folder=tmp_path) as service:
        client = Client(service.url)
        studies = [client.create(f"s{i:02d}", space=SPACE, budget=9) for i in range(12)]
        loads = {study: Workers() for study in studies}
        started = [workers.start([study], rounds=3) for study, workers in loads.items()]
        for (thread,) in started:
            thread.join()
        listed = client.studies()
    assert [workers.told for workers in loads.values()] == [[0, 1, 2]] * 12
    assert [(each["name"], each["told"]) for each in listed] == [(s.name, 3) for s in studies]


def test_tells_do_not_wait_for_a_slow_ask(tmp_path: Path) -> None:
    """More asks wait than there are threads, and none is answered before all is told."""
    storage = str(tmp_path / "s.db")
    slow = tmp_path / "slow.py"
    slow.write_text(
        "import time\nfrom pathlib import Path\nimport regretless as rl\n"
        "from regretless.cli import main\n"
        "def slow(name):\n    quick = getattr(rl.Optimizer, name)\n"
        "    def slowly(self, *given, **more):\n        Path('asking').touch()\n"
        "        while not Path('go').exists():\n            time.sleep(0.01)\n"
        "        return quick(self, *given, **more)\n"
        "    setattr(rl.Optimizer, name, slowly)\n"
        "for name in ('propose', 'propose_batch', 'propose_more'):\n    slow(name)\nmain()\n"
    )
    fill(storage, 10)
    with rl.Study.open(storage, "s") as local:
        known = local.ask(10)
    with serving(storage, folder=tmp_path, program=(str(slow),)) as service:
        study = Client(service.url).study("s")
        askers = [threading.Thread(target=study.ask) for _ in range(30)]
        for thread in askers:
            thread.start()
        wait_for((tmp_path / "asking").exists)
        time.sleep(0.5)  # for the others to line up
        try:
            impatient = Client(service.url, timeout=60.0, patience=0.0).study("s")
            for trial in known:
                impatient.tell(trial, 1.0)
            assert impatient.info()["asked"] == 20
        finally:
            (tmp_path / "go").touch()
        for thread in askers:
            thread.join()
        assert study.info()["asked"] == 50


def test_several_services_share_a_database(storage: str, tmp_path: Path) -> None:
    fill(storage, 5)
    workers = Workers()
    with ExitStack() as stack:
        folders = [tmp_path / name for name in ("one", "two")]
        for folder in folders:
            folder.mkdir()
        services = [stack.enter_context(serving(storage, folder=each)) for each in folders]
        studies = [Client(service.url).study("s") for service in services]
        for thread in workers.start(studies * 4, rounds=4):
            thread.join()
        one, two = studies
        assert one.info() == two.info()
        last = one.ask(key="same")
        assert two.ask(key="same") == last
        two.tell(last, 0.5)
        workers.asked.append(last.number)
        workers.told.append(last.number)
    check_log(storage, workers, before=5)


# -- faults ----------------------------------------------------------------------------------------


def survive(service: Service, storage: str, kills: int) -> Workers:
    """Kill and start again in the middle of the work, and end with work."""
    chance = random.Random(4)
    workers = Workers()
    study = Client(service.url, timeout=20, patience=120).study("s")
    threads = workers.start([study] * 8)
    for _ in range(kills):
        goal = len(workers.told) + chance.randint(1, 12)
        wait_for(lambda goal=goal: len(workers.told) >= goal or workers.errors)  # type: ignore[misc]
        time.sleep(chance.uniform(0.0, 0.05))
        service.kill()
        service.start()
    workers.stop.set()
    for thread in threads:
        thread.join()
    return workers


def test_killed_under_load(storage: str, tmp_path: Path) -> None:
    fill(storage, 5)
    with serving(storage, folder=tmp_path) as service:
        workers = survive(service, storage, kills=3)
    check_log(storage, workers, before=5)
    assert len(workers.told) > 10


@pytest.mark.slow
def test_killed_fifty_times_under_load(storage: str, tmp_path: Path) -> None:
    fill(storage, 20)
    with serving(storage, folder=tmp_path) as service:
        workers = survive(service, storage, kills=50)
    check_log(storage, workers, before=20)
    assert len(workers.told) > 100


def test_a_database_that_goes_away_and_comes_back(
    postgres: PostgresServer, postgres_url: str, tmp_path: Path
) -> None:
    fill(postgres_url, 5)
    with serving(postgres_url, folder=tmp_path) as service:
        impatient = Client(service.url, patience=0.0)
        patient = Client(service.url, patience=60.0)
        pending = impatient.study("s").ask()
        postgres.stop()
        try:
            study = RemoteStudy(impatient, "s")
            for call in (study.ask, lambda: study.tell(pending, 1.0), study.best, study.events):
                with pytest.raises(StorageError, match="PostgreSQL database"):
                    call()
            with pytest.raises(ServiceError, match="503: the storage cannot be reached"):
                impatient.call("GET", "/readyz")
            assert impatient.call("GET", "/healthz")["status"] == "ok"
            waiting = threading.Thread(target=RemoteStudy(patient, "s").tell, args=(pending, 1.0))
            waiting.start()
            time.sleep(0.3)
        finally:
            postgres.start()
        waiting.join(timeout=60)
        assert impatient.call("GET", "/readyz")["status"] == "ok"
        assert study.ask().number == 6
        assert [row.status for row in study.history()] == ["told"] * 6 + ["pending"]


# -- what the documentation promises ---------------------------------------------------------------


def blocks_of(page: str, service: Service) -> list[tuple[str, str]]:
    """The language and the text of each program on a page, for this service."""
    text = (ROOT / "docs" / page).read_text().replace("http://127.0.0.1:8080", service.url)
    return re.findall(r"^```(python|sh)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this system")
def test_the_page_of_the_documentation(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        blocks = blocks_of("service.md", service)
        head = "\n".join(blocks[0][1].splitlines()[:2])  # the names that later ones use
        for language, code in blocks:
            program = ["sh", "-ec", f"{head}\n{code}"]
            done = subprocess.run(
                [sys.executable, "-c", code] if language == "python" else program,
                capture_output=True,
                text=True,
                timeout=60,
            )
            assert done.returncode == 0, done.stderr
        checkout = Client(service.url).study("checkout").info()
    assert [language for language, _ in blocks] == ["sh", "sh", "python", "sh"]
    assert (checkout["budget"], checkout["observed"], checkout["told"]) == (80, 1, 11)


@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl on this system")
def test_the_page_about_traffic(tmp_path: Path) -> None:
    with serving(str(tmp_path / "shop.sqlite"), folder=tmp_path) as service:
        blocks = blocks_of("traffic.md", service)
        for wanted, program in (("python", [sys.executable, "-c"]), ("sh", ["sh", "-ec"])):
            code = "\n".join(block for language, block in blocks if language == wanted)
            done = subprocess.run(
                [*program, code], cwd=tmp_path, capture_output=True, text=True, timeout=120
            )
            assert done.returncode == 0, done.stderr
        events = Client(service.url).study("shop").events()
    told = [event.body for event in events if event.kind == "reported"]
    assert len(told) == 6  # each of four rows by hand, what was recorded, and curl's
    assert (tmp_path / "traffic.mjs").exists()


# -- other languages -------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("node") is None, reason="no node on this system")
def test_the_client_in_node_survives_a_restart(tmp_path: Path) -> None:
    storage = str(tmp_path / "s.db")
    token = "t" * 30
    (tmp_path / "tokens").write_text(f"read-write {token}\n")
    with serving(storage, "--token-file", "tokens", folder=tmp_path) as service:
        environment = os.environ | {"REGRETLESS_URL": service.url, "REGRETLESS_TOKEN": token}
        client = subprocess.Popen(
            ["node", str(ROOT / "examples" / "node_client.mjs"), "20"],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        assert client.stdout is not None
        for _ in range(5):
            client.stdout.readline()
        service.kill()
        service.start()
        out, err = client.communicate(timeout=240)
        assert client.returncode == 0, err
        assert re.search(r"best: .*\"retries\":", out)
    with rl.Study.open(storage, "checkout", read_only=True) as study:
        assert Counter(row.status for row in study.history()) == {"told": 20}
        assert study.best().params["provider"] == "north"


def test_the_demo(tmp_path: Path) -> None:
    """`make demo`: a page's address, a system that is being tuned, and an end on Ctrl-C."""
    command = [sys.executable, "-u", str(ROOT / "examples" / "service_demo.py"), "--port", "0"]
    with subprocess.Popen(
        [*command, "--pause", "0.01"], cwd=tmp_path, stdout=subprocess.PIPE, text=True
    ) as demo:
        try:
            assert demo.stdout is not None
            line = demo.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+/", line)
            assert found, line
            client = Client(found.group())
            told = {"recommender": 3, "recommender-traffic": 1}
            wait_for(lambda: all((e["told"] or 0) > told[e["name"]] for e in client.studies()))
        finally:
            demo.send_signal(signal.SIGINT)
            assert demo.wait(timeout=120) == 0
