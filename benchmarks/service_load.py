"""The service under load: many clients on one study, readers of its page, and many studies.

    python benchmarks/service_load.py --before ../regretless-of-before --output docs/results

Real processes on a real disk: the service is one process, and its clients are tasks of this one. So
what they measure includes their own part. What the clients were told is compared with the journal
at the end: nothing may be lost and nothing may be there twice.

`--before` is a checkout of an older release, whose service is measured by the same clients in the
same run. `--only` chooses parts: asks, reports, memory, studies.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
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
from regretless.experiments.runner import stamp

SPACE = rl.Space(
    {"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0), "kind": rl.Categorical(["a", "b"])}
)
# For the memory.  With few distinct points, thousands of trials take minutes and not hours.
FEW = rl.Space({"x": rl.Int(0, 7), "y": rl.Int(0, 7), "kind": rl.Categorical(["a", "b"])})
CLIENTS, READERS, PRIOR_TRIALS, STUDIES = 50, 200, 500, 200
WARM_SECONDS = 4.0  # at the beginning, when the study is opened; its times do not count
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


async def client(
    load: Load, port: int, names: list[str], until: float, pause: float, since: float = 0.0
) -> None:
    """Ask, measure for so many seconds on average, and tell, in one study after the other.

    Times before `since` do not count.
    """
    connection, rng = Connection(port), random.Random(uuid.uuid4().int)
    await asyncio.sleep(pause * rng.random())
    while time.monotonic() < until:
        for name in names:
            place = f"/api/studies/{name}"
            counts = time.monotonic() >= since
            with timed(load.asks if counts else []):
                asked = await connection.until_answered(
                    "POST", f"{place}/ask", {}, uuid.uuid4().hex
                )
            trial = json.loads(asked)
            await asyncio.sleep(pause * rng.uniform(0.5, 1.5))
            value = objective(trial["number"], trial["params"])
            told = f"{place}/trials/{trial['number']}/tell"
            with timed(load.tells if counts else []):
                await connection.until_answered("POST", told, {"value": value}, uuid.uuid4().hex)
            load.told.append((name, trial["number"], value))
    connection.close()


async def reader(load: Load, port: int, name: str, until: float, since: float) -> None:
    """Somebody who looks at the page of the study."""
    connection, tag = Connection(port), ""
    await asyncio.sleep(READ_EVERY * random.random())
    while time.monotonic() < until:
        with timed(load.reads if time.monotonic() >= since else []):
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
        start = time.monotonic()
        since, until = start + WARM_SECONDS, start + WARM_SECONDS + seconds
        works: list[Awaitable[None]] = []
        for _ in range(CLIENTS):
            works.append(client(load, service.port, [name], until, pause, since))
        works += [reader(load, service.port, name, until, since) for _ in range(readers)]
        used = service.seconds
        asyncio.run(together(load, works))
        load.seconds, load.used = time.monotonic() - start, service.seconds - used
    load.faults = faults(storage, load, [name], PRIOR_TRIALS + 1)
    return load


def asks(folder: Path, before: Path | None, seconds: float) -> list[Load]:
    """Clients that take 1 s for a trial, with and without readers; and ones that take no time."""
    base = folder / "base.sqlite"
    prepare(str(base), ["one"], PRIOR_TRIALS)
    loads = []
    for pause, readers in ((1.0, 0), (1.0, READERS), (0.0, 0)):
        for label, source in (("before", before), ("now", None)):
            if label == "before" and before is None:
                continue
            each = folder / f"{label}-{pause:g}-{readers}.sqlite"
            shutil.copy(base, each)
            beside = f", {readers} readers" if readers else ""
            name = f"{label}: {pause:g} s a trial{beside}"
            loads.append(one_study(Load(name), str(each), source, seconds, pause, readers))
            print(loads[-1].row(), *loads[-1].errors[:3], file=sys.stderr, flush=True)
    return loads


# -- reports ---------------------------------------------------------------------------------------


@dataclass
class Reports:
    """Reports to the trials of a table, and what became of them."""

    name: str
    times: list[float] = field(default_factory=list)  # from when each was due
    sent: Counter[int] = field(default_factory=Counter)  # acknowledged units, by trial
    errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    kills: int = 0
    lost: int = -1
    doubled: int = -1

    def row(self) -> str:
        middle, most = _quantiles(self.times)
        return (
            f"| {self.name} | {len(self.times)} | {len(self.times) / self.seconds:.0f}"
            f" | {middle:.0f} | {most:.0f} | {self.kills} | {len(self.errors)}"
            f" | {self.lost} | {self.doubled} |"
        )


async def reporter(
    load: Reports, port: int, trials: list[int], start: float, seconds: float, rate: float
) -> None:
    """Report so many times a second, whether or not the service answers in time."""
    connection, rng = Connection(port), random.Random(uuid.uuid4().int)
    due = start + rng.random() / rate
    while due < start + seconds:
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        trial, count = rng.choice(trials), rng.randint(1, 50)
        yes = rng.randint(0, count)
        increment = {"trial": trial, "count": count, "sum": yes, "sum_squares": yes}
        body, key = {"reports": [increment]}, uuid.uuid4().hex
        await connection.until_answered("POST", "/api/studies/shop/reports", body, key)
        load.times.append(time.monotonic() - due)
        load.sent[trial] += count
        due += 1.0 / rate
    connection.close()


async def killer(load: Reports, service: Service, until: float, every: float) -> None:
    """Kill the service without a warning, and start it again."""
    while time.monotonic() + every < until:
        await asyncio.sleep(every)
        await asyncio.to_thread(service.stop, signal.SIGKILL)
        await asyncio.to_thread(service.start)
        load.kills += 1


def reports(
    folder: Path, name: str, seconds: float, rate: float, kill_every: float | None
) -> Reports:
    load, storage = Reports(name), str(folder / f"{uuid.uuid4().hex}.sqlite")
    space = rl.Space({"price": rl.Float(1.0, 9.0)})
    with rl.Study.open(
        storage, "shop", space=space, budget=10_000, baseline={"price": 5.0}
    ) as study:
        trials = [row.trial.number for row in study.allocate(arms=8, end_early=0.0).rows]
    with serving(storage) as service:
        start = time.monotonic()
        works: list[Awaitable[None]] = []
        for _ in range(CLIENTS):
            each = rate / CLIENTS
            works.append(reporter(load, service.port, trials, start, seconds, each))
        if kill_every is not None:
            works.append(killer(load, service, start + seconds, kill_every))
        asyncio.run(together(load, works))
        load.seconds = time.monotonic() - start
    with rl.Study.open(storage, "shop", read_only=True) as study:
        totals = study.snapshot().optimizer._records.totals
        there = Counter({number: round(each.count) for number, each in totals.items()})
    load.lost, load.doubled = (load.sent - there).total(), (there - load.sent).total()
    print(load.row(), *load.errors[:3], file=sys.stderr, flush=True)
    return load


# -- memory ----------------------------------------------------------------------------------------


@dataclass
class Memory:
    """The memory of the service after so many requests and trials, in MB."""

    requests: list[int] = field(default_factory=list)
    trials: list[int] = field(default_factory=list)
    mb: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def growth(self) -> float:
        """From a tenth of the requests, when everything is loaded, to the end."""
        first = next(i for i, n in enumerate(self.requests) if n >= self.requests[-1] / 10)
        return self.mb[-1] / self.mb[first] - 1.0


async def fill(
    memory: Memory, service: Service, requests: int, trials: int, clients: int = 20
) -> None:
    """Ask, tell and read until there were so many requests and trials."""
    count = told = 0
    reads = max(1, round((requests - 2 * trials) / trials))  # for each trial

    async def work() -> None:
        nonlocal count, told
        connection, place = Connection(service.port), "/api/studies/one"
        while told < trials:
            told += 1
            asked = await connection.until_answered("POST", f"{place}/ask", {}, uuid.uuid4().hex)
            trial = json.loads(asked)
            body = {"value": objective(trial["number"], trial["params"])}
            path = f"{place}/trials/{trial['number']}/tell"
            await connection.until_answered("POST", path, body, uuid.uuid4().hex)
            count += 2
            for i in range(reads):
                path = (f"{place}/events?after={told}&limit=5", "/healthz")[i % 2]
                await connection.call("GET", path)
                count += 1
        connection.close()

    async def watch() -> None:
        while True:
            memory.requests.append(count)
            memory.trials.append(told)
            memory.mb.append(service.memory)
            await asyncio.sleep(2.0)

    watching = asyncio.ensure_future(watch())
    for outcome in await asyncio.gather(*(work() for _ in range(clients)), return_exceptions=True):
        if outcome is not None:
            memory.errors.append(str(outcome))
    watching.cancel()
    memory.requests.append(count)
    memory.trials.append(told)
    memory.mb.append(service.memory)


def memory(folder: Path, requests: int, trials: int) -> Memory:
    found, storage = Memory(), str(folder / "memory.sqlite")
    rl.Study.open(storage, "one", space=FEW, budget=100_000).close()
    with serving(storage) as service:
        asyncio.run(fill(found, service, requests, trials))
    print(found.requests[-1], found.trials[-1], found.growth, *found.errors[:3], file=sys.stderr)
    return found


# -- many studies ----------------------------------------------------------------------------------


def studies(folder: Path, storage: str, label: str, seconds: float) -> tuple[Load, list[float]]:
    """Also how long the list of all studies takes, at first and when nothing has changed."""
    load, names = Load(f"{STUDIES} studies, {label}"), [f"many{i:03d}" for i in range(STUDIES)]
    names = [f"{name}-{uuid.uuid4().hex[:6]}" for name in names]
    prepare(storage, names, 10)
    with serving(storage) as service:
        start, used = time.monotonic(), service.seconds
        shares = [names[i::CLIENTS] for i in range(CLIENTS)]
        each = [client(load, service.port, some, start + seconds, 0.0) for some in shares]
        asyncio.run(together(load, list(each)))
        load.seconds, load.used = time.monotonic() - start, service.seconds - used
        listing: list[float] = []
        for _ in range(2):
            with timed(listing):
                asyncio.run(_get(service.port, "/api/studies"))
    load.faults = faults(storage, load, names, 11)
    print(load.row(), *load.errors[:3], file=sys.stderr, flush=True)
    return load, listing


async def _get(port: int, path: str) -> None:
    connection = Connection(port)
    await connection.call("GET", path)
    connection.close()


# -- the page --------------------------------------------------------------------------------------

_HEADER = [
    "| | trials | a second | ask, median | ask, 99 % | tell, median | tell, 99 % | page, median"
    " | page, 99 % | cores used | errors | lost or doubled |",
    "|---|---|---|---|---|---|---|---|---|---|---|---|",
]


@dataclass
class Measured:
    """All that was measured in one run."""

    asks: list[Load] = field(default_factory=list)
    reports: list[Reports] = field(default_factory=list)
    memory: Memory | None = None
    studies: list[Load] = field(default_factory=list)
    listing: list[float] = field(default_factory=list)
    loads: list[float] = field(default_factory=list)  # of the machine, at the end of each part


def page(found: Measured, before: str | None) -> str:
    lines = [
        "# The service under load",
        "",
        "Written by `benchmarks/service_load.py`. Times are in ms, as the clients measure",
        "them. *Lost or doubled* counts differences between the answers that the clients got",
        "and the journal. *Cores used* is the CPU time of the service in each second.",
        "",
        *_asks_lines(found.asks, before),
        *_reports_lines(found.reports),
        *_memory_lines(found.memory),
        *_studies_lines(found),
        f"{stamp()}, {os.cpu_count()} cores, load of the machine at the end of each part:"
        f" {', '.join(f'{load:.0f}' for load in found.loads)}.",
        "",
    ]
    return "\n".join(lines)


def _asks_lines(loads: list[Load], before: str | None) -> list[str]:
    if not loads:
        return []
    lines = [
        "## Asks",
        "",
        f"{CLIENTS} clients share one study, which has {PRIOR_TRIALS} trials before. Each client",
        'asks, evaluates and tells, again and again. "1 s a trial" means that an evaluation takes',
        f"1 s on average. The readers look at the page of the study every {READ_EVERY:g} s. The",
        f"first {WARM_SECONDS:g} s, when the study is opened, do not count for the times.",
        *([f"*Before* is the code of commit {before}."] if before else []),
        "",
        *_HEADER,
        *[load.row() for load in loads],
        "",
        f"The bar: a median of at most {ASK_BARS[0]:g} ms and 99 % at most {ASK_BARS[1]:g} ms.",
        "",
    ]
    pairs = {load.name.partition(": ")[2]: {} for load in loads}  # type: dict[str, dict[str, Load]]
    for load in loads:
        label, _, name = load.name.partition(": ")
        pairs[name][label] = load
    for name, pair in pairs.items():
        if len(pair) == 2:
            old, new = _quantiles(pair["before"].asks), _quantiles(pair["now"].asks)
            rates = [len(pair[each].told) / pair[each].seconds for each in ("before", "now")]
            lines.append(
                f"- {name}: before, the median of an ask was {old[0] / new[0]:.1f} times as long,"  # type: ignore[operator]
                f" and its 99 % quantile {old[1] / new[1]:.1f} times. Now there are"  # type: ignore[operator]
                f" {rates[1] / rates[0]:.1f} times as many trials a second."
            )
    return [*lines, "", "![How long asks take](service_load.png)", ""]


def _reports_lines(loads: list[Reports]) -> list[str]:
    if not loads:
        return []
    return [
        "## Reports",
        "",
        f"{CLIENTS} clients report results of a table of eight rows, each at fixed moments. The",
        "time is from that moment to the answer, with all repeats. The service is killed with",
        "kill -9.",
        "*Lost* and *doubled* are units (of the acknowledged ones) in the totals of the trials.",
        "",
        "| | reports | a second | median | 99 % | kills | errors | lost | doubled |",
        "|---|---|---|---|---|---|---|---|---|",
        *[load.row() for load in loads],
        "",
        f"The bar: 99 % at most {REPORT_BAR:g} ms without kills; nothing lost or doubled.",
        "",
    ]


def _memory_lines(memory: Memory | None) -> list[str]:
    if memory is None:
        return []
    return [
        "## Memory",
        "",
        f"{memory.requests[-1]} requests and {memory.trials[-1]} trials of one study, at"
        f" {FEW.size} points at most:"
        f" {memory.mb[-1]:.0f} MB at the end, {100 * memory.growth:+.1f} % since a tenth of the"
        f" requests. The bar is {100 * MEMORY_BAR:g} %. Errors: {len(memory.errors)}.",
        "",
        "![The memory of the service](service_memory.png)",
        "",
    ]


def _studies_lines(found: Measured) -> list[str]:
    if not found.studies:
        return []
    return [
        "## Many studies",
        "",
        f"{CLIENTS} clients ask and tell in {STUDIES} studies, each of which has 10 trials before.",
        "",
        *_HEADER,
        *[load.row() for load in found.studies],
        "",
        f"The list of {STUDIES} studies takes {found.listing[0]:.2f} s after all of them have"
        f" changed, {1000 * found.listing[1]:.0f} ms when none has.",
        "",
    ]


def draw(found: Measured, output: Path) -> None:
    from matplotlib.figure import Figure

    if found.asks:
        figure = Figure(figsize=(7.0, 3.6), layout="constrained")
        axes = figure.subplots()
        for load in found.asks:
            times = np.sort(load.asks) * 1000
            style = "--" if load.name.startswith("before") else "-"
            axes.plot(times, np.linspace(0, 1, len(times)), style, label=load.name)
        for bar in ASK_BARS:
            axes.axvline(bar, color="0.7", lw=0.8)
        axes.set(
            xscale="log", xlabel="time of an ask (ms)", ylabel="share of the asks", ylim=(0, 1)
        )
        axes.legend(fontsize=7)
        figure.savefig(output / "service_load.png", dpi=140)
    if found.memory is not None:
        figure = Figure(figsize=(7.0, 2.8), layout="constrained")
        axes = figure.subplots()
        axes.plot(found.memory.requests, found.memory.mb)
        axes.set(xlabel="requests", ylabel="memory (MB)", ylim=(0, None))
        figure.savefig(output / "service_memory.png", dpi=140)


def commit_of(source: Path) -> str:
    command = ["git", "-C", str(source), "rev-parse", "--short", "HEAD"]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def measure(options: argparse.Namespace, folder: Path) -> Measured:
    found = Measured()
    for part in options.only or PARTS:
        if part == "asks":
            found.asks = asks(folder, options.before, options.seconds)
        elif part == "reports":
            each = (folder, options.report_seconds, options.rate)
            plain = reports(each[0], "undisturbed", each[1], each[2], None)
            killed = reports(each[0], "killed every 5 s", each[1], each[2], 5.0)
            found.reports = [plain, killed]
        elif part == "memory":
            found.memory = memory(folder, options.requests, options.trials)
        else:
            storages = {"SQLite": str(folder / "many.sqlite")}
            storages |= {"PostgreSQL": options.postgres} if options.postgres else {}
            for label, url in storages.items():
                load, found.listing = studies(folder, url, label, options.seconds)
                found.studies.append(load)
        found.loads.append(os.getloadavg()[0])
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--only", action="append", choices=PARTS, help="this part; repeat for more")
    parser.add_argument("--before", type=Path, help="a checkout of an older release")
    parser.add_argument("--seconds", type=float, default=30.0, help="of each row about asks")
    parser.add_argument("--report-seconds", type=float, default=60.0)
    parser.add_argument("--rate", type=float, default=500.0, help="reports a second")
    parser.add_argument("--requests", type=int, default=100_000, help="for the memory")
    parser.add_argument("--trials", type=int, default=5_000, help="for the memory")
    parser.add_argument("--postgres", help="the URL of a PostgreSQL database")
    parser.add_argument("--folder", type=Path, help="where the journals go: it decides on the disk")
    parser.add_argument("--output", type=Path, help="folder of the page; or else it is printed")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=options.folder) as folder:
        found = measure(options, Path(folder))
    text = page(found, None if options.before is None else commit_of(options.before))
    if options.output is None:
        print(text)
        return
    (options.output / "service_load.md").write_text(text, encoding="utf-8")
    draw(found, options.output)


if __name__ == "__main__":
    main()
