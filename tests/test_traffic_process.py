"""Clients of traffic on the real service: killed, restarted, with tokens, in Python and in Node."""

from __future__ import annotations

import json
import shutil
import subprocess
import threading
from pathlib import Path
from urllib.request import urlopen

import pytest

pytest.importorskip("fastapi")

import regretless as rl
from regretless.client import Client, Traffic
from serving import Service, serving
from traffic_service import until

NODE = shutil.which("node")
SPACE = rl.Space({"price": rl.Float(5.0, 15.0), "layout": rl.Categorical(["list", "grid"])})
TODAY = {"price": 10.0, "layout": "list"}


def reported(client: Client) -> tuple[float, float]:
    """The number of all outcomes that the study has, and their sum."""
    rows = [row for row in client.study("shop").history() if row.value is not None]
    return sum(row.count for row in rows), sum(row.count * row.value for row in rows)


def begin(service: Service) -> Client:
    client = Client(service.url)
    client.create("shop", space=SPACE, budget=10_000, baseline=TODAY)
    return client


def test_a_table_is_followed_by_others(tmp_path: Path) -> None:
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        client = begin(service)
        # A table takes a while to be made, which counts: a shorter one might be over at once.
        with Traffic(service.url, "shop", arms=4, ttl=6.0, flush_seconds=0.1) as traffic:
            units, recorded, trials = [f"customer-{i}" for i in range(300)], 0, set()

            def third_table() -> bool:
                nonlocal recorded
                for unit in units:
                    seen = traffic.assign(unit)
                    traffic.record(seen, 20.0 - abs(seen.params["price"] - 8.0))
                    recorded += seen.trial is not None
                    trials.add(seen.trial)
                return (traffic.version or 0) >= 3

            until(third_table)
        assert reported(client)[0] == recorded
        assert len(trials - {None}) > 4


@pytest.mark.skipif(NODE is None, reason="no node on this machine")
def test_no_outcome_is_lost_or_doubled_while_the_service_is_killed(tmp_path: Path) -> None:
    """Two processes record for as long as the service is killed and started again."""
    program = """
import { Traffic } from "./traffic.mjs";
import { existsSync } from "node:fs";
const traffic = await Traffic.open(process.argv[2], "shop", { flushSeconds: 0.05 });
let count = 0;
while (!existsSync("over")) {
  for (let i = 0; i < 10; i++, count++) {
    traffic.record(traffic.assign(`node-${count}`), 1 + (count % 5));
  }
  await new Promise((resolve) => setTimeout(resolve, 5));
}
await traffic.close(60);
console.log(JSON.stringify([count, traffic.unsent]));
"""
    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        client = begin(service)
        with urlopen(f"{service.url}/static/traffic.mjs") as answer:
            assert "javascript" in answer.headers["Content-Type"]
            (tmp_path / "traffic.mjs").write_bytes(answer.read())
        (tmp_path / "shop.mjs").write_text(program)
        command = [NODE, "shop.mjs", service.url]
        node = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        over = threading.Event()
        with Traffic(service.url, "shop", flush_seconds=0.05) as traffic:
            count = 0
            for _ in range(4):
                before = reported(client)[0]
                while reported(client)[0] < before + 200:
                    for _ in range(50):
                        traffic.record(traffic.assign(f"python-{count}"), 1 + count % 5)
                        count += 1
                    over.wait(0.02)
                service.kill()
                for _ in range(100):  # while it is away
                    traffic.record(traffic.assign(f"python-{count}"), 1 + count % 5)
                    count += 1
                service.start()
            (tmp_path / "over").touch()
            out, _ = node.communicate(timeout=120)
        of_node, unsent = json.loads(out)
        assert unsent == 0
        assert of_node > 100
        total = sum(1 + i % 5 for i in range(of_node)) + sum(1 + i % 5 for i in range(count))
        assert reported(client) == (of_node + count, pytest.approx(total))


def test_a_token_that_may_only_read_gives_settings_and_keeps_outcomes(tmp_path: Path) -> None:
    write, read = "write-horse-battery-staple", "read-horse-battery-staple"
    (tmp_path / "tokens").write_text(f"read-write {write}\nread-only {read}\n")
    options = ("--token-file", "tokens")
    with serving(str(tmp_path / "s.db"), *options, folder=tmp_path) as service:
        client = Client(service.url, token=write)
        client.create("shop", space=SPACE, budget=1000, baseline=TODAY)
        with pytest.raises(rl.ServiceError, match="the token is missing"):
            Traffic(service.url, "shop")
        with Traffic(service.url, "shop", token=write, flush_seconds=1e6) as traffic:
            traffic.record(traffic.assign("a"), 1.0)
            assert traffic.flush()
        reader = Traffic(service.url, "shop", token=read, flush_seconds=1e6)
        assert reader.assign("a") == traffic.assign("a")
        reader.record(reader.assign("a"), 1.0)
        assert not reader.flush()
        assert reader.unsent == 1
        reader.close(patience=0.0)
        assert reported(client) == (1, 1.0)
