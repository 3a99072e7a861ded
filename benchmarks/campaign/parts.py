"""The parts of a campaign: what each does, how large it is, and how often."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from benchmarks.campaign import hostile, kills, load, mixed, outages
from benchmarks.campaign.ledger import Tally


@dataclass(frozen=True)
class Part:
    """`batches` batches of `size`; a quick campaign has one batch of `quick`, a test of `tiny`.

    `counted` is the count by which the part is measured.  0 leaves the part out.
    """

    title: str
    run: Callable[[int, int], Tally]
    counted: str
    batches: int
    size: int
    quick: int
    tiny: int = 0

    @property
    def wanted(self) -> int:
        return self.batches * self.size


LITE, PG = "sqlite", "postgresql"

PARTS = {
    "workers-sqlite": Part(
        "kill -9 of workers, SQLite", partial(kills.workers, LITE), "kills of workers", 8, 50, 20, 3
    ),
    "workers-postgresql": Part(
        "kill -9 of workers, PostgreSQL", partial(kills.workers, PG), "kills of workers", 8, 50, 10
    ),
    "service-sqlite": Part(
        "kill -9 of the service, SQLite",
        partial(kills.service, LITE),
        "kills of the service",
        10,
        10,
        2,
    ),
    "service-postgresql": Part(
        "kill -9 of the service, PostgreSQL",
        partial(kills.service, PG),
        "kills of the service",
        10,
        10,
        0,
    ),
    "postgresql": Part("kill -9 of PostgreSQL", kills.postgres, "kills of PostgreSQL", 8, 30, 5),
    "terminations": Part(
        "`pg_terminate_backend` in a transaction", kills.terminations, "sessions ended", 5, 200, 30
    ),
    "stopped": Part(
        "partition: SIGSTOP of PostgreSQL", outages.stopped, "stops of PostgreSQL", 5, 20, 2
    ),
    "proxied": Part(
        "partition: a proxy holds back, delays or cuts",
        outages.proxied,
        "partitions by a proxy",
        5,
        40,
        4,
    ),
    "full-disk": Part("disk full", outages.full_disk, "times that the disk was full", 5, 40, 10, 2),
    "read-only-disk": Part(
        "disk read-only",
        outages.read_only_disk,
        "times that the disk was read-only",
        5,
        20,
        5,
    ),
    "clock": Part("clock steps of a service", outages.clock, "steps of the clock", 5, 40, 5),
    "versions-sqlite": Part(
        "an older release and this one, SQLite",
        partial(mixed.versions, LITE),
        "turns of two releases",
        3,
        10,
        1,
    ),
    "versions-postgresql": Part(
        "an older release and this one, PostgreSQL",
        partial(mixed.versions, PG),
        "turns of two releases",
        3,
        10,
        0,
    ),
    "machine-sqlite": Part(
        "verbs in any order against a reference, SQLite",
        partial(mixed.machine, LITE),
        "verbs against the reference",
        10,
        25,
        3,
    ),
    "machine-postgresql": Part(
        "verbs in any order against a reference, PostgreSQL",
        partial(mixed.machine, PG),
        "verbs against the reference",
        5,
        25,
        0,
    ),
    "api": Part(
        "hostile values, public API",
        hostile.api,
        "hostile calls of the API",
        20,
        50_000,
        5_000,
        300,
    ),
    "http": Part("hostile requests, HTTP", hostile.http, "hostile requests", 10, 10_000, 500, 40),
    "schema": Part(
        "requests by schemathesis", hostile.schema, "requests by schemathesis", 4, 2_000, 0
    ),
    "page": Part(
        "hostile names on the page, Chromium", hostile.page, "pages with hostile names", 4, 30, 3
    ),
    "slow-clients": Part(
        "200 slow clients and a frozen database",
        load.slow_clients,
        "tells beside slow clients",
        3,
        1_000,
        0,
    ),
    "traffic": Part("a day of traffic", load.traffic, "requests", 1, 100_000, 500),
    "many-sqlite": Part(
        "16 workers, 1,000 trials a study, SQLite",
        partial(load.many_workers, LITE),
        "trials of 16 workers",
        16,
        1_000,
        60,
    ),
    "many-postgresql": Part(
        "16 workers, 1,000 trials a study, PostgreSQL",
        partial(load.many_workers, PG),
        "trials of 16 workers",
        16,
        1_000,
        0,
    ),
    "polls": Part(
        "polls with nothing new, 5,000 trials at 1,000 points",
        load.polls,
        "polls with nothing new",
        1,
        1_000,
        0,
    ),
}
