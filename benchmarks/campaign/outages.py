"""Databases that do not answer, disks that are full or read-only, and clocks that jump."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import pairwise
from pathlib import Path

from benchmarks.campaign import places
from benchmarks.campaign.kills import going_on, until
from benchmarks.campaign.ledger import SETTINGS, Ledger, Tally, Worker

import regretless as rl
from proxy import Proxy
from regretless.client import Client
from regretless.errors import StorageError
from serving import serving

LIMITS = "?connect_timeout=10&answer_timeout=2"  # seconds; a busy machine needs the first


def stopped(seed: int, size: int) -> Tally:
    """All processes of PostgreSQL get SIGSTOP for 0.2 to 3 seconds, `size` times."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.postgres() as server:
        url = server.url() + LIMITS
        rl.Study.open(url, "s", **SETTINGS).close()
        with going_on([partial(rl.Study.open, url, "s")] * 3, tally, ledger, seed) as done:
            for _ in range(size):
                until(done, done() + rng.randint(2, 15), tally)
                server.freeze()
                time.sleep(rng.choice([0.2, 1.5, 4.0]))
                server.thaw()
                tally.counts["stops of PostgreSQL"] += 1
        ledger.compare(url, "s", tally)
    return tally


def proxied(seed: int, size: int) -> Tally:
    """A proxy before PostgreSQL keeps, delays or cuts what it should pass on, `size` times."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.postgres() as server:
        proxy = Proxy(server.port)
        url = server.url().replace(f":{server.port}/", f":{proxy.port}/") + LIMITS
        rl.Study.open(url, "s", **SETTINGS).close()
        with going_on([partial(rl.Study.open, url, "s")] * 3, tally, ledger, seed) as done:
            for _ in range(size):
                until(done, done() + rng.randint(2, 15), tally)
                how = rng.choice(["keep", "delay", "cut"])
                if how == "keep":
                    proxy.freeze()
                    time.sleep(rng.choice([0.3, 1.5, 4.0]))
                    proxy.thaw()
                elif how == "delay":
                    proxy.delay = rng.uniform(0.05, 0.4)
                    time.sleep(1.0)
                    proxy.delay = 0.0
                else:
                    proxy.cut()
                tally.counts["partitions by a proxy"] += 1
        ledger.compare(server.url(), "s", tally)
        proxy.close()
    return tally


# -- disks -----------------------------------------------------------------------------------------


def full_disk(seed: int, size: int) -> Tally:
    """The disk of a SQLite file fills up, and has room again, `size` times."""

    @contextmanager
    def full(disk: Path) -> Iterator[None]:
        filler = disk / "filler"
        with filler.open("wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        yield
        filler.unlink()

    return _on_a_small_disk(seed, size, "times that the disk was full", full)


def read_only_disk(seed: int, size: int) -> Tally:
    """The file system of a SQLite file becomes read-only, and writable again, `size` times."""

    @contextmanager
    def read_only(disk: Path) -> Iterator[None]:
        _remount(disk, "ro")
        yield
        _remount(disk, "rw")

    return _on_a_small_disk(seed, size, "times that the disk was read-only", read_only, busy=False)


def _remount(disk: Path, how: str) -> None:
    done = subprocess.run(
        ["mount", "-o", f"remount,{how}", disk], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise places.Skipped(f"this system does not remount: {done.stderr.strip()}")


def _on_a_small_disk(
    seed: int, size: int, what: str, trouble: Callable[[Path], object], busy: bool = True
) -> Tally:
    """Write until it fails, with the trouble, and again without it."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)

    def note(kind: str, key: str) -> None:
        getattr(ledger, kind).append(key)

    with places.small_disk(4) as disk:
        storage = disk / "journal.db"
        study = rl.Study.open(storage, "s", **SETTINGS)
        for turn in range(size):
            worker = Worker(study, tally, rng, note)
            for step in range(rng.randint(1, 5)):
                worker.step(f"{turn}-{step}")
            if not busy:  # a file that is open for writing keeps its file system writable
                study.close()
            failed = False
            with trouble(disk):  # type: ignore[attr-defined]
                try:
                    if not busy:
                        study = rl.Study.open(storage, "s")
                        worker = Worker(study, tally, rng, note)
                    for step in range(300):
                        worker.step(f"{turn}-bad-{step}")
                except StorageError:
                    failed = True
                if not busy:
                    study.close()
            if not failed:
                tally.fault("uncaught", f"{what}: no error")
            if rng.random() < 0.5 or not busy:
                study.close()
                study = rl.Study.open(storage, "s")
            tally.counts[what] += 1
        worker = Worker(study, tally, rng, note)
        worker.step("end")
        study.close()
        ledger.compare(storage, "s", tally)
    tally.figures["how"] = "tmpfs of 4 MB"
    return tally


# -- clocks ----------------------------------------------------------------------------------------


def clock(seed: int, size: int) -> Tally:
    """The clock of a service jumps by up to a year, forwards and backwards, `size` times."""
    library = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)
    if library is None or shutil.which("faketime") is None:
        return _patched_clock(seed, size)
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.folder() as made:
        offset, storage = made / "offset", str(made / "journal.db")
        offset.write_text("+0")
        settings = {
            "LD_PRELOAD": str(library),
            "FAKETIME_TIMESTAMP_FILE": str(offset),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
            # Otherwise libfaketime moves the ends of waits by the monotonic clock, and Python's
            # threads wait for minutes.
            "FAKETIME_FORCE_MONOTONIC_FIX": "0",
        }
        rl.Study.open(storage, "s", **SETTINGS).close()
        os.environ.update(settings)  # for the service, which is started now
        try:
            running = serving(storage, folder=made)
            service = running.__enter__()
        finally:
            for each in settings:
                del os.environ[each]
        client = Client(service.url, timeout=20, patience=60)
        seen = []
        with going_on([partial(client.study, "s")] * 3, tally, ledger, seed) as done:
            for _ in range(size):
                until(done, done() + rng.randint(2, 10), tally)
                jump = rng.choice([1, 60, 3600, 86_400, 31_000_000]) * rng.choice([-1, 1])
                offset.write_text(f"{jump:+d}")
                seen.append(jump)
                tally.counts["steps of the clock"] += 1
                if rng.random() < 0.3:
                    client.call("GET", "/api/studies/s/panels")
                    client.study("s").abandon_older_than(rng.choice([0.0, 3600.0]))
        running.__exit__(None, None, None)
        with rl.Study.open(storage, "s", read_only=True) as study:
            times = [event.time for event in study.events()]
        backwards = sum(b < a for a, b in pairwise(times))
        tally.figures |= {
            "how": "libfaketime",
            "events that are earlier than the one before": backwards,
        }
        if "Traceback" in service.log:
            tally.fault("uncaught", service.log[service.log.index("Traceback") :])
        ledger.compare(storage, "s", tally)
    return tally


def _patched_clock(seed: int, size: int) -> Tally:
    """The same in this process, without libfaketime: the clock of the journal is replaced."""
    from regretless.studies import journal, study

    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    jump = timedelta(0)

    class Jumping(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:  # type: ignore[override]
            return datetime.now(UTC) + jump

    with places.folder() as made:
        storage = str(made / "journal.db")
        rl.Study.open(storage, "s", **SETTINGS).close()
        journal.datetime = study.datetime = Jumping  # type: ignore[misc]
        try:
            with going_on([partial(rl.Study.open, storage, "s")], tally, ledger, seed) as done:
                for _ in range(size):
                    until(done, done() + rng.randint(2, 10), tally)
                    jump = timedelta(
                        seconds=rng.choice([1, 3600, 31_000_000]) * rng.choice([-1, 1])
                    )
                    tally.counts["steps of the clock"] += 1
        finally:
            journal.datetime = study.datetime = datetime  # type: ignore[misc]
        ledger.compare(storage, "s", tally)
    tally.figures["how"] = "patched clock, in this process"
    return tally
