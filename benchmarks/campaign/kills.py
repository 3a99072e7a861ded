"""Processes that are killed with kill -9: workers, the service, and PostgreSQL."""

from __future__ import annotations

import os
import random
import select
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial

import psycopg
from benchmarks.campaign import control, places
from benchmarks.campaign.ledger import SETTINGS, Ledger, Tally, Worker

import regretless as rl
from conftest import PostgresServer
from regretless.client import Client
from serving import serving

SECONDS = 90.0  # for which a worker repeats a call
THREADS = 6


def workers(kind: str, seed: int, size: int) -> Tally:
    """`size` processes that work on one study, one after the other; each is killed."""
    tally, ledger, rng, name = Tally(), Ledger(), random.Random(seed), "s"
    with places.storage(kind) as storage:
        rl.Study.open(storage, name, **SETTINGS).close()
        left: str | None = None  # the call that the last one did not finish
        for number in range(size):
            left = _one_worker(storage, name, f"{number}", left, ledger, tally, rng)
            tally.counts["kills of workers"] += 1
        ledger.compare(storage, name, tally)
    return tally


def _one_worker(
    storage: str,
    name: str,
    run: str,
    left: str | None,
    ledger: Ledger,
    tally: Tally,
    rng: random.Random,
) -> str | None:
    """A process that works until it is killed; returns the call that it did not finish."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        _work_until_killed(storage, name, run, left, writing)
    os.close(writing)
    text = _lines_until(reading, rng.randint(1, 8))
    time.sleep(rng.uniform(0.0, 0.01))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while data := os.read(reading, 65536):
        text += data
    os.close(reading)
    unfinished = None
    for line in text.decode().splitlines():
        what, _, key = line.partition(" ")
        if what == "tried":
            ledger.tried.append(key)
            unfinished = key
        elif what == "done":
            ledger.done.append(key)
            unfinished = None
        else:
            tally.fault("uncaught", line)
    return unfinished


def _lines_until(reading: int, number: int) -> bytes:
    """What the worker notes, up to so many acknowledgements."""
    text, deadline = b"", time.monotonic() + SECONDS
    while text.count(b"done ") < number and time.monotonic() < deadline:
        if select.select([reading], [], [], 1.0)[0]:
            if not (data := os.read(reading, 65536)):
                break
            text += data
    return text


def _work_until_killed(storage: str, name: str, run: str, left: str | None, writing: int) -> None:
    def note(what: str, key: str) -> None:
        os.write(writing, f"{what} {key}\n".encode())

    try:
        with rl.Study.open(storage, name) as study:
            worker = Worker(study, Tally(), random.Random(run), note)
            if left is not None and not left.startswith("tell"):  # as a caller that comes back
                verb, _, key = left.partition(" ")
                if verb == "ask":
                    worker.call(left, partial(study.ask, key=key))
            for step in range(10_000):
                worker.step(f"{run}-{step}")
    except Exception as error:  # noqa: BLE001 (the parent counts it)
        os.write(writing, f"{type(error).__name__}: {error}\n".encode())
    finally:
        os._exit(0)


# -- threads that go on while something is killed --------------------------------------------------


@contextmanager
def going_on(
    studies: list[Callable[[], object]], tally: Tally, ledger: Ledger, seed: int
) -> Iterator[Callable[[], int]]:
    """Threads that work until the block ends; yields how many calls were acknowledged."""
    stop = threading.Event()

    def note(what: str, key: str) -> None:
        getattr(ledger, what).append(key)

    def work(number: int, make: Callable[[], object]) -> None:
        rng, step = random.Random(f"{seed}/{number}"), 0
        try:
            worker = Worker(make(), tally, rng, note, patience=SECONDS)
            while not stop.is_set():
                worker.step(f"{seed}-{number}-{step}")
                step += 1
        except Exception as error:  # noqa: BLE001 (counted)
            tally.fault("uncaught", f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=work, args=each, daemon=True) for each in enumerate(studies)]
    for thread in threads:
        thread.start()
    try:
        yield lambda: len(ledger.done)
    finally:
        stop.set()
        deadline = control.seconds() + 2 * SECONDS
        for thread in threads:
            while thread.is_alive() and control.seconds() < deadline:
                thread.join(1.0)
            if thread.is_alive():
                tally.fault("hangs", "a thread did not end")


def until(count: Callable[[], int], goal: int, tally: Tally) -> None:
    """Wait until the count has grown to the goal."""
    deadline = control.seconds() + SECONDS
    while count() < goal:
        if tally.faults["uncaught"] or tally.faults["hangs"]:
            return  # a thread has given up: the batch is lost, and counted as such
        if control.seconds() > deadline:
            tally.fault("hangs", f"no progress for {SECONDS:.0f} s")
        time.sleep(0.005)


def service(kind: str, seed: int, size: int) -> Tally:
    """The service is killed `size` times while clients ask, tell and observe."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.storage(kind) as storage, places.folder() as made:
        rl.Study.open(storage, "s", **SETTINGS).close()
        with serving(storage, folder=made) as running:
            client = Client(running.url, timeout=20, patience=SECONDS)
            with going_on([partial(client.study, "s")] * THREADS, tally, ledger, seed) as done:
                for _ in range(size):
                    until(done, done() + rng.randint(3, 20), tally)
                    time.sleep(rng.uniform(0.0, 0.05))
                    running.kill()
                    running.start()
                    tally.counts["kills of the service"] += 1
            if "Traceback" in running.log:
                tally.fault("uncaught", running.log[running.log.index("Traceback") :])
        ledger.compare(storage, "s", tally)
    return tally


def postgres(seed: int, size: int) -> Tally:
    """A process of the server is killed `size` times: it then ends all others, and recovers."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.postgres() as server:
        url = server.url()
        rl.Study.open(url, "s", **SETTINGS).close()
        with going_on([partial(rl.Study.open, url, "s")] * 4, tally, ledger, seed) as done:
            for number in range(size):
                until(done, done() + rng.randint(2, 15), tally)
                time.sleep(rng.uniform(0.0, 0.02))
                if number % 10 == 9:
                    server.stop()  # the whole server at once
                    server.start()
                else:
                    _kill_a_process(server, rng)
                tally.counts["kills of PostgreSQL"] += 1
        ledger.compare(url, "s", tally)
    return tally


def _kill_a_process(server: PostgresServer, rng: random.Random) -> None:
    ours = []
    for _ in range(200):  # it may be recovering
        with suppress(psycopg.Error), psycopg.connect(server.url(), connect_timeout=5) as conn:
            query = "SELECT pid FROM pg_stat_activity WHERE application_name = 'regretless'"
            ours = [pid for (pid,) in conn.execute(query)]
        if ours:
            break
        time.sleep(0.05)
    with suppress(ProcessLookupError, IndexError):
        os.kill(rng.choice(ours), signal.SIGKILL)


def terminations(seed: int, size: int) -> Tally:
    """`pg_terminate_backend` for `size` sessions in the middle of a transaction."""
    tally, ledger = Tally(), Ledger()
    query = (
        "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity"
        " WHERE application_name = 'regretless' AND xact_start IS NOT NULL"
    )
    with places.postgres() as server:
        url = server.url()
        rl.Study.open(url, "s", **SETTINGS).close()
        with (
            psycopg.connect(url, autocommit=True) as admin,
            going_on([partial(rl.Study.open, url, "s")] * 4, tally, ledger, seed) as done,
        ):
            deadline = control.seconds() + 10 * SECONDS
            while tally.counts["sessions ended"] < size and control.seconds() < deadline:
                row = admin.execute(query).fetchone()
                tally.counts["sessions ended"] += row[0] if row else 0
                until(done, done() + 1, tally)
        ledger.compare(url, "s", tally)
    return tally
