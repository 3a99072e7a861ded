"""Load: slow clients beside a frozen database, a day of traffic, many workers, a large study."""

from __future__ import annotations

import multiprocessing
import os
import queue
import random
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import numpy as np
from benchmarks.campaign import control, places
from benchmarks.campaign.ledger import SETTINGS, SPACE, Ledger, Tally, Worker

import regretless as rl
from regretless.client import Client, RemoteStudy
from regretless.studies.journal import Journal
from serving import Service, serving
from test_large_studies import write_study
from test_slow_clients import POST, SlowClients

SLOW = 200
BAR_MS = 500.0  # for the 99th percentile of tells
FREE = ("--changes-per-second", "0")


def _ms(seconds: list[float], share: float) -> float:
    return round(1000 * float(np.quantile(seconds, share)), 1)


# -- slow clients and a frozen database ------------------------------------------------------------


def slow_clients(seed: int, size: int) -> Tally:
    """`size` tells of an ordinary client, beside 200 slow clients and a frozen database.

    Twice: the frozen database is that of another service (its processes are stopped, and clients
    keep on asking it); and in the same service, a writer that holds the lock of another study has
    frozen.
    """
    tally = Tally()
    with (
        places.postgres() as server,
        places.folder() as one,
        places.folder() as two,
        ExitStack() as stack,
    ):
        frozen = stack.enter_context(serving(f"{server.url()}?answer_timeout=8", *FREE, folder=one))
        study = Client(frozen.url, patience=0.0).create("s", space=SPACE, budget=10**6)
        trial = study.ask()
        server.freeze()
        stack.callback(server.thaw)
        waiting = [
            threading.Thread(target=_press, args=(study, trial), daemon=True) for _ in range(20)
        ]
        for thread in waiting:
            thread.start()
        service = stack.enter_context(serving(str(two / "s.db"), *FREE, folder=two))
        _measure(service, tally, size, "another service has a frozen database")
    with places.postgres() as server, places.folder() as one, ExitStack() as stack:
        service = stack.enter_context(serving(server.url(), *FREE, folder=one))
        study = Client(service.url, patience=0.0).create("frozen", space=SPACE, budget=10**6)
        trial = study.ask()
        stack.enter_context(_frozen_writer(server.url(), "frozen"))
        for _ in range(20):
            threading.Thread(target=_press, args=(study, trial), daemon=True).start()
        _measure(service, tally, size, "a frozen writer holds the lock of another study")
    return tally


def _press(study: RemoteStudy, trial: rl.Trial) -> None:
    """Ask for what cannot be answered, again and again."""
    for value in range(100):
        with suppress(rl.RegretlessError):
            study.tell(trial, float(value))
        time.sleep(0.05)


@contextmanager
def _frozen_writer(url: str, study: str) -> Iterator[None]:
    """A session that has begun to write to the study, and does not go on."""
    with Journal.open(url) as journal, journal._engine.connect() as conn:
        journal._backend.lock(conn, study)
        with suppress(Exception):
            conn.exec_driver_sql("SET LOCAL idle_in_transaction_session_timeout = 0")
        yield
        conn.rollback()


def _measure(service: Service, tally: Tally, size: int, what: str) -> None:
    study = Client(service.url).create("ordinary", space=SPACE, budget=10**6, policy="random")
    trials = study.ask(20)
    tells: list[float] = []
    slow = [SlowClients(service, SLOW // 2), SlowClients(service, SLOW // 2, POST)]
    try:
        for i in range(size):
            if not trials:
                trials = study.ask(20)
            trial = trials.pop()
            begun = time.perf_counter()
            tally.timed(lambda trial=trial, i=i: study.tell(trial, float(i)))
            tells.append(time.perf_counter() - begun)
        held = sum(each.held() for each in slow)
    finally:
        for each in slow:
            each.close()
    tally.counts["tells beside slow clients"] += size
    tally.figures[what] = {
        "tells": size,
        "median ms": _ms(tells, 0.5),
        "p99 ms": _ms(tells, 0.99),
        "worst ms": _ms(tells, 1.0),
        "slow clients": SLOW,
        "still connected at the end": held,
    }
    if _ms(tells, 0.99) > BAR_MS:
        tally.fault("too slow", f"{what}: p99 of tell {_ms(tells, 0.99)} ms, the bar is {BAR_MS}")


# -- a day of traffic ------------------------------------------------------------------------------


def traffic(seed: int, size: int) -> Tally:
    """`size` requests to one service: two tenths are trials (an ask and a tell), the others look.

    The last third only looks, so that memory must not grow there.
    """
    tally = Tally()
    with places.folder() as made:
        storage = str(made / "s.db")
        with serving(storage, *FREE, folder=made) as service:
            day = _Day(service, tally, seed, size)
            day.run()
            if "Traceback" in service.log:
                tally.fault("uncaught", service.log[service.log.index("Traceback") :])
        day.compare(storage)
    _check_flat(day.samples, tally)
    return tally


class _Day:
    """Clients that share a list of things to do, and samples of the service meanwhile."""

    CLIENTS = 4
    SAMPLES = 40

    def __init__(self, service: Service, tally: Tally, seed: int, size: int) -> None:
        self.service, self.tally, self.seed = service, tally, seed
        self.client = Client(service.url, timeout=60, patience=60)
        trials = size // 10
        first = ["trial"] * trials + ["look"] * (size * 2 // 3 - 2 * trials)
        random.Random(seed).shuffle(first)
        later = ["look"] * (size - len(first) - trials)
        self.todo = list(enumerate([*first, *later]))[::-1]
        self.whole = len(self.todo)
        self.studies = [
            # Random decisions but for a tenth of the studies: the time goes into requests.
            self.client.create(
                f"s{i}", space=SPACE, budget=10**6, policy=None if i % 10 == 0 else "random"
            )
            for i in range(max(2, size // 2000))
        ]
        self.told: list[tuple[str, int, float]] = []
        self.seconds: list[float] = []
        self.samples: list[dict[str, float]] = []
        self._taking = threading.Lock()

    def run(self) -> None:
        threads = [
            threading.Thread(target=self._work, args=(i,), daemon=True) for i in range(self.CLIENTS)
        ]
        for thread in threads:
            thread.start()
        while any(thread.is_alive() for thread in threads):
            begun = self.whole - len(self.todo)
            if self.seconds and begun >= (len(self.samples) + 1) * self.whole // self.SAMPLES:
                recent, self.seconds = self.seconds, []
                self.samples.append(_sample(self.service, begun, recent))
            time.sleep(0.02)
        self.tally.figures |= {"studies": len(self.studies), "samples": self.samples[::4]}

    def _work(self, number: int) -> None:
        rng = random.Random(f"{self.seed}/{number}")
        while True:
            with self._taking:
                if not self.todo:
                    return
                step, kind = self.todo.pop()
            study, begun = self.studies[step % len(self.studies)], time.perf_counter()
            try:
                self.tally.timed(lambda: self._do(kind, study, rng))  # noqa: B023 (called at once)
            except Exception as error:  # noqa: BLE001 (counted)
                self.tally.fault("uncaught", f"{type(error).__name__}: {error}")
            self.seconds.append(time.perf_counter() - begun)

    def _do(self, kind: str, study: RemoteStudy, rng: random.Random) -> None:
        if kind == "look":
            _look(study, rng, self.client)
        else:
            trial, value = study.ask(), rng.gauss(0.0, 1.0)
            study.tell(trial, value)
            self.told.append((study.name, trial.number, value))
        with self._taking:
            self.tally.counts["requests"] += 1 if kind == "look" else 2
            self.tally.counts["trials"] += kind == "trial"

    def compare(self, storage: str) -> None:
        """What the clients were told, and what is there."""
        there: list[tuple[str, int, float]] = []
        for study in self.studies:
            with rl.Study.open(storage, study.name, read_only=True) as opened:
                rows = opened.history()
            there += [
                (study.name, row.number or 0, row.value) for row in rows if row.value is not None
            ]
        for one in set(self.told) - set(there):
            self.tally.fault("lost", str(one))
        for one in set(there) - set(self.told):
            self.tally.fault("unknown", str(one))
        if len(set(there)) != len(there):
            self.tally.fault("doubled", "a result is there twice")
        self.tally.counts["acknowledged"] += 2 * len(self.told)


def _look(study: RemoteStudy, rng: random.Random, client: Client) -> None:
    """A page that polls, a list, a report, or a part of the log."""
    kind = rng.random()
    if kind < 0.7:
        client.call("GET", f"/api/studies/{study.name}/panels")
    elif kind < 0.8:
        client.call("GET", "/api/studies")
    elif kind < 0.9:
        study.info()
    else:
        client.call("GET", f"/api/studies/{study.name}/events?after=0&limit=20")


def _sample(service: Service, requests: int, seconds: list[float]) -> dict[str, float]:
    assert service._process is not None
    home = Path(f"/proc/{service._process.pid}")
    status = dict(
        line.split(":", 1) for line in (home / "status").read_text().splitlines() if ":" in line
    )
    return {
        "requests": requests,
        "memory MB": round(int(status["VmRSS"].split()[0]) / 1024, 1),
        "descriptors": len(os.listdir(home / "fd")),
        "median ms": _ms(seconds, 0.5),
        "p99 ms": _ms(seconds, 0.99),
    }


def _check_flat(samples: list[dict[str, float]], tally: Tally) -> None:
    """Memory and descriptors in the last third, in which the service is only looked at."""
    last = samples[-len(samples) // 3 :]
    if len(last) < 6:
        return
    for name in ("memory MB", "descriptors"):
        early, late = (float(np.median([s[name] for s in part])) for part in (last[:3], last[-3:]))
        tally.figures[f"{name} at the begin and the end of the last third"] = [early, late]
        if late > 1.1 * early + 2:
            tally.fault("grows", f"{name}: from {early} to {late}")


# -- many workers ----------------------------------------------------------------------------------


def many_workers(kind: str, seed: int, size: int) -> Tally:
    """16 processes share one study until it has `size` trials."""
    tally, ledger = Tally(), Ledger()
    with places.storage(kind) as storage:
        rl.Study.open(storage, "s", **SETTINGS | {"budget": size}).close()
        context = multiprocessing.get_context("fork")
        answers = context.Queue()
        children = [
            context.Process(target=_share, args=(storage, seed, i, answers)) for i in range(16)
        ]
        for child in children:
            child.start()
        for _ in children:
            tried, done, errors = _answer(answers, 600.0)
            ledger.tried += tried
            ledger.done += done
            for error in errors:
                tally.fault("uncaught", error)
        for child in children:
            child.join(60)
        ledger.compare(storage, "s", tally)
        with rl.Study.open(storage, "s", read_only=True) as study:
            told = sum(row.status == "told" for row in study.history())
    if told != size:
        tally.fault("lost", f"{told} of {size} trials are told")
    tally.counts["trials of 16 workers"] += told
    return tally


def _answer(answers: Any, patience: float) -> Any:
    """What a worker has put in; `patience` is in seconds of an idle machine."""
    deadline = control.seconds() + patience
    while True:
        try:
            return answers.get(timeout=5.0)
        except queue.Empty:
            if control.seconds() > deadline:
                raise


def _share(storage: str, seed: int, number: int, answers: Any) -> None:
    tried: list[str] = []
    done: list[str] = []
    errors: list[str] = []
    notes = {"tried": tried, "done": done}
    try:
        with rl.Study.open(storage, "s") as study:
            rng = random.Random(f"{seed}/{number}")
            worker = Worker(study, Tally(), rng, lambda what, key: notes[what].append(key), 120)
            for step in range(10_000):
                name = f"{number}-{step}"
                trial = worker.call(
                    f"ask {name}", lambda name=name: study.ask(key=name, within_budget=True)
                )
                worker.call(
                    f"tell {name}",
                    lambda trial=trial, name=name: study.tell(trial, 1.0, key=f"tell {name}"),
                )
    except rl.BudgetError:
        pass
    except Exception as error:  # noqa: BLE001 (counted by the parent)
        errors.append(f"{type(error).__name__}: {error}")
    answers.put((tried, done, errors))


# -- a large study ---------------------------------------------------------------------------------


def polls(seed: int, size: int) -> Tally:
    """`size` polls of the page with nothing new, over HTTP: 5,000 trials at 1,000 points."""
    tally = Tally()
    with places.folder() as made:
        storage = made / "s.db"
        write_study(storage, 5000, 1000)
        with serving(str(storage), folder=made) as service:
            name = Client(service.url).studies()[0]["name"]
            path = f"/api/studies/{name}/panels"
            nothing, first = _poll_seconds(service, path, size)
    tally.counts["polls with nothing new"] += size
    tally.figures |= {
        "first poll ms": round(1000 * first, 1),
        "median ms": _ms(nothing, 0.5),
        "p99 ms": _ms(nothing, 0.99),
    }
    if _ms(nothing, 0.5) > 100.0:
        tally.fault("too slow", f"a poll with nothing new takes {_ms(nothing, 0.5)} ms")
    return tally


def _poll_seconds(service: Service, path: str, size: int) -> tuple[list[float], float]:
    from http.client import HTTPConnection

    def poll(tag: str | None) -> tuple[int, str | None, float]:
        connection = HTTPConnection("127.0.0.1", service.port, timeout=60)
        begun = time.perf_counter()
        connection.request("GET", path, headers={"If-None-Match": tag} if tag else {})
        answer = connection.getresponse()
        answer.read()
        connection.close()
        return answer.status, answer.getheader("ETag"), time.perf_counter() - begun

    _, tag, first = poll(None)
    seconds = []
    for _ in range(size):
        status, tag, took = poll(tag)
        assert status == 304
        seconds.append(took)
    return seconds, first
