"""The service under load: many clients on one study, readers of its page, and many studies.

    python benchmarks/service_load.py --before ../regretless-of-before --output docs/results

Real processes on a real disk: the service is one process, and its clients are tasks of this one. So
what they measure includes their own part. What the clients were told is compared with the journal
at the end: nothing may be lost and nothing may be there twice.

`--before` is a checkout of an older release, whose service is measured by the same clients in the
same run. `--only` chooses parts: asks, reports, memory, studies.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

import regretless as rl

SPACE = rl.Space(
    {"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])}
)
CLIENTS, READERS, PRIOR_TRIALS, STUDIES = 50, 200, 500, 200
READ_EVERY = 2.0  # seconds, as the page does
PARTS = ("asks", "reports", "memory", "studies")
ASK_BARS = (40.0, 250.0)  # ms: the median and 99 % of the asks
REPORT_BAR = 50.0  # ms: 99 % of the reports
MEMORY_BAR = 0.1


# -- a service, and requests to it -----------------------------------------------------------------


class Service:
    """A `regretless serve` that can be killed and started again."""

    def __init__(self, storage: str, source: Path | None = None) -> None:
        self.storage, self.source, self.port = storage, source, 0
        self.process: subprocess.Popen[str] | None = None

    def start(self) -> None:
        command = [sys.executable, "-m", "regretless", "serve", "--storage", self.storage]
        command += ["--port", str(self.port), "--changes-per-second", "0"]
        paths = {} if self.source is None else {"PYTHONPATH": str(self.source / "src")}
        environment = {**os.environ, "OMP_NUM_THREADS": "1", **paths}
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        assert self.process.stdout is not None
        address = self.process.stdout.readline().rpartition(" ")[2].strip()
        self.port = int(address.rstrip("/").rpartition(":")[2])

    def stop(self, how: int = signal.SIGTERM) -> None:
        if self.process is not None:
            self.process.send_signal(how)
            self.process.wait()

    @property
    def memory(self) -> float:
        """The resident memory, in MB."""
        assert self.process is not None
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        line = next(line for line in status.splitlines() if line.startswith("VmRSS"))
        return int(line.split()[1]) / 1024

    @property
    def seconds(self) -> float:
        """The time of the processors that it has used."""
        assert self.process is not None
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(storage: str, source: Path | None = None) -> Iterator[Service]:
    service = Service(storage, source)
    service.start()
    try:
        yield service
    finally:
        service.stop()


class Away(Exception):
    """The service did not answer."""


class Connection:
    """One connection that is kept open, and opened again if the service was away."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(
        self, method: str, path: str, body: Any = None, **headers: str
    ) -> tuple[int, dict[str, str], bytes]:
        """One request.

        Raises:
            Away: the connection broke; nobody knows whether the request was served.
        """
        try:
            return await self._call(method, path, body, headers)
        except (OSError, asyncio.IncompleteReadError) as error:
            self.close()
            raise Away from error

    async def _call(
        self, method: str, path: str, body: Any, headers: dict[str, str]
    ) -> tuple[int, dict[str, str], bytes]:
        if self.streams is None:
            self.streams = await asyncio.open_connection("127.0.0.1", self.port, limit=2**22)
        reader, writer = self.streams
        content = b"" if body is None else json.dumps(body).encode()
        lines = [f"{method} {path} HTTP/1.1", "Host: localhost"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if method == "POST":
            lines += ["Content-Type: application/json", f"Content-Length: {len(content)}"]
        writer.write("\r\n".join([*lines, "", ""]).encode() + content)
        head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
        found = {k.lower(): v for k, _, v in (line.partition(": ") for line in head[1:-2])}
        answer = await reader.readexactly(int(found.get("content-length", 0)))
        return int(head[0].split()[1]), found, answer

    async def until_answered(
        self, method: str, path: str, body: Any, key: str, patience: float = 60.0
    ) -> bytes:
        """The answer to a request that is repeated with the same key while the service is away."""
        end = time.monotonic() + patience
        while True:
            with suppress(Away):
                status, _, answer = await self.call(method, path, body, Idempotency_Key=key)
                if status < 300:
                    return answer
                if status not in (429, 503):
                    raise RuntimeError(f"{method} {path}: {status} {answer[:300]!r}")
            if time.monotonic() > end:
                raise RuntimeError(f"{method} {path}: no answer for {patience:g} s")
            await asyncio.sleep(0.02 + 0.05 * random.random())

    def close(self) -> None:
        if self.streams is not None:
            self.streams[1].close()
        self.streams = None


# -- what the clients saw --------------------------------------------------------------------------


@dataclass
class Load:
    """What the clients saw, in seconds."""

    name: str
    asks: list[float] = field(default_factory=list)
    tells: list[float] = field(default_factory=list)
    reads: list[float] = field(default_factory=list)
    told: list[tuple[str, int, float]] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    used: float = 0.0  # seconds of the processors that the service used
    faults: int = -1  # lost or doubled trials

    def row(self) -> str:
        times = [*_quantiles(self.asks), *_quantiles(self.tells), *_quantiles(self.reads)]
        shown = " | ".join("–" if t is None else f"{t:.0f}" for t in times)
        rate, share = len(self.told) / self.seconds, self.used / self.seconds
        return (
            f"| {self.name} | {len(self.told)} | {rate:.1f} | {shown} | {share:.2f}"
            f" | {len(self.errors)} | {self.faults} |"
        )


def _quantiles(seconds: list[float]) -> list[float | None]:
    """The median and 99 %, in ms."""
    if not seconds:
        return [None, None]
    return [1000 * float(q) for q in np.quantile(seconds, (0.5, 0.99))]


@contextmanager
def timed(times: list[float]) -> Iterator[None]:
    start = time.perf_counter()
    yield
    times.append(time.perf_counter() - start)


def objective(number: int, params: dict[str, Any]) -> float:
    x, y = float(params["x"]), float(params["y"])
    noise = np.random.default_rng(number).normal()
    return float(np.sin(5 * x) + y * (params["kind"] == "b") + 0.1 * noise)


def prepare(storage: str, names: list[str], trials: int) -> None:
    """Studies with so many trials that somebody else has chosen: that takes no thinking.

    One trial more is asked for and told, so that the model is fitted.
    """
    rng = np.random.default_rng(0)
    for name in names:
        with rl.Study.open(storage, name, space=SPACE, budget=100_000) as study:
            for _ in range(trials):
                x, y = rng.random(2)
                trial = study.adopt({"x": x, "y": y, "kind": str(rng.choice(["a", "b"]))})
                study.tell(trial, objective(trial.number, trial.params))
            trial = study.ask()
            study.tell(trial, objective(trial.number, trial.params))
    if not storage.startswith("postgresql"):
        with closing(sqlite3.connect(storage)) as file:
            file.execute("PRAGMA wal_checkpoint(TRUNCATE)")


def faults(storage: str, load: Load, names: list[str], before: int) -> int:
    """Trials that were acknowledged and are not there, are there twice, or belong to nobody."""
    there: Counter[tuple[str, int, float]] = Counter()
    for name in names:
        with rl.Study.open(storage, name, read_only=True) as study:
            rows = [row for row in study.history() if row.status == "told"]
        there.update((name, r.number, r.value) for r in rows if (r.number or 0) >= before)
    seen = Counter(load.told)
    return sum(((seen - there) + (there - seen)).values())


# -- asks ------------------------------------------------------------------------------------------


async def client(load: Load, port: int, names: list[str], until: float, pause: float) -> None:
    """Ask, measure for so many seconds on average, and tell, in one study after the other."""
    connection, rng = Connection(port), random.Random(uuid.uuid4().int)
    await asyncio.sleep(pause * rng.random())
    while time.monotonic() < until:
        for name in names:
            place = f"/api/studies/{name}"
            with timed(load.asks):
                asked = await connection.until_answered(
                    "POST", f"{place}/ask", {}, uuid.uuid4().hex
                )
            trial = json.loads(asked)
            await asyncio.sleep(pause * rng.uniform(0.5, 1.5))
            value = objective(trial["number"], trial["params"])
            told = f"{place}/trials/{trial['number']}/tell"
            with timed(load.tells):
                await connection.until_answered("POST", told, {"value": value}, uuid.uuid4().hex)
            load.told.append((name, trial["number"], value))
    connection.close()


async def reader(load: Load, port: int, name: str, until: float) -> None:
    """Somebody who looks at the page of the study."""
    connection, tag = Connection(port), ""
    await asyncio.sleep(READ_EVERY * random.random())
    while time.monotonic() < until:
        with timed(load.reads):
            status, headers, _ = await connection.call(
                "GET", f"/api/studies/{name}/panels", If_None_Match=tag
            )
        if status not in (200, 304):
            load.errors.append(f"the page: {status}")
        tag = headers.get("etag", tag)
        await asyncio.sleep(READ_EVERY)
    connection.close()


async def together(load: Load, works: list[Awaitable[None]]) -> None:
    for outcome in await asyncio.gather(*works, return_exceptions=True):
        if outcome is not None:
            load.errors.append(str(outcome))


def one_study(
    load: Load, storage: str, source: Path | None, seconds: float, pause: float, readers: int
) -> Load:
    """Many clients of one study, and readers of its page."""
    name = "one"
    with serving(storage, source) as service:
        warm = Load("")
        asyncio.run(together(warm, [client(warm, service.port, [name], time.monotonic() + 2, 0.0)]))
        start, used = time.monotonic(), service.seconds
        works: list[Awaitable[None]] = []
        for _ in range(CLIENTS):
            works.append(client(load, service.port, [name], start + seconds, pause))
        works += [reader(load, service.port, name, start + seconds) for _ in range(readers)]
        asyncio.run(together(load, works))
        load.seconds, load.used = time.monotonic() - start, service.seconds - used
    load.told += warm.told
    load.faults = faults(storage, load, [name], PRIOR_TRIALS + 1)
    load.told = load.told[: -len(warm.told) or None]
    return load
