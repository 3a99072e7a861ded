"""Tune a real PostgreSQL server under the load of pgbench, without making it slow for its users.

    python examples/postgres_pgbench.py postgresql://postgres@127.0.0.1/bench --trials 40

The transactions per second are to be large, and a guardrail limits the mean latency. What is tuned:
the size of the connection pool, and when commits wait for each other. Use a server that you may
disturb: pgbench creates its tables in the database, and a superuser changes settings by ALTER
SYSTEM. They are reset at the end. It needs the extras `studies` and `plot`, and pgbench.
"""

from __future__ import annotations

import argparse
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import psycopg
from matplotlib.figure import Figure

import regretless as rl

SPACE = rl.Space(
    {
        "clients": rl.Int(1, 32, log=True),  # connections of the pool
        "commit_delay": rl.Int(0, 5000),  # microseconds that a commit waits for others
        "commit_siblings": rl.Int(1, 20),  # if at least so many transactions are open
        "wal_compression": rl.Categorical(["off", "on"]),
    }
)
TODAY = {"clients": 4, "commit_delay": 0, "commit_siblings": 5, "wal_compression": "off"}
SERVER = [name for name in SPACE.parameters if name != "clients"]


def pgbench(url: str, *options: str) -> str:
    found = shutil.which("pgbench")
    places = sorted(Path("/usr/lib/postgresql").glob("*/bin/pgbench"), reverse=True)
    program = found or next(map(str, places), None)
    if program is None:
        raise SystemExit("pgbench is not installed")
    done = subprocess.run([program, *options, url], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"pgbench failed: {done.stderr}")
    return done.stdout


def change(url: str, settings: dict[str, Any]) -> None:
    """Set what the server is told, or reset it where the value is None."""
    with psycopg.connect(url, autocommit=True) as connection:
        for name, value in settings.items():
            sql = f"RESET {name}" if value is None else f"SET {name} = '{value}'"
            connection.execute(f"ALTER SYSTEM {sql}")
        connection.execute("SELECT pg_reload_conf()")


def measure(url: str, params: dict[str, Any], seconds: int) -> tuple[float, float]:
    """Transactions per second, and the mean latency in ms."""
    change(url, {name: params[name] for name in SERVER})
    clients = str(params["clients"])
    said = pgbench(url, "--no-vacuum", f"--time={seconds}", f"--client={clients}", "--jobs=1")
    tps, latency = re.search(r"tps = ([\d.]+)", said), re.search(r"average = ([\d.]+) ms", said)
    if tps is None or latency is None:
        raise SystemExit(f"pgbench said something unknown: {said}")
    return float(tps[1]), float(latency[1])


def draw(optimizer: rl.Optimizer, limit: float, path: str) -> None:
    rows = [row for row in optimizer.history() if row.value is not None]
    figure = Figure(figsize=(9, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    colours = {"design": "#999999", "explore": "#D55E00", "baseline": "black"}
    for row in rows:
        colour = colours.get(row.decision.reason if row.decision else "", "#0072B2")
        left.plot(row.number, row.value, "o", color=colour)
        right.plot(row.number, row.metrics["latency_ms"], "o", color=colour)
    left.set(xlabel="trial", ylabel="transactions per second", title="made large")
    right.axhline(limit, color="black", ls="--", lw=1)
    right.set(xlabel="trial", ylabel="mean latency, ms", title="limited by a guardrail")
    figure.savefig(path, dpi=110)


def main() -> None:
    parser = argparse.ArgumentParser(description="Tune PostgreSQL under pgbench.")
    parser.add_argument("url", help="of a database that may be disturbed")
    parser.add_argument("--trials", type=int, default=40)
    parser.add_argument("--seconds", type=int, default=10, help="of load in each trial")
    parser.add_argument("--scale", type=int, default=10, help="of pgbench's tables")
    parser.add_argument("--picture", default="postgres_pgbench.png")
    options = parser.parse_args()

    pgbench(options.url, "--initialize", "--quiet", f"--scale={options.scale}")
    try:
        tps, latency = measure(options.url, TODAY, options.seconds)
        limit = 3.0 * latency  # what the users of this database would put up with
        print(f"today: {tps:.0f} transactions a second, {latency:.1f} ms; limit {limit:.1f} ms")
        guardrails = [rl.AtMost("latency_ms", limit)]
        optimizer = rl.Optimizer(SPACE, options.trials, baseline=TODAY, guardrails=guardrails)
        for trial in optimizer:
            tps, latency = measure(options.url, trial.params, options.seconds)
            optimizer.tell(trial, tps, metrics={"latency_ms": latency})
            print(f"{trial.number}: {trial.params}: {tps:.0f}, {latency:.1f} ms; {trial.decision}")
    finally:
        change(options.url, dict.fromkeys(SERVER))
    best = optimizer.best()
    print(f"best: {best.params}: {best.mean:.0f} ({best.low:.0f} to {best.high:.0f})")
    print(f"better than today with a probability of {best.prob_better:.2f}")
    draw(optimizer, limit, options.picture)


if __name__ == "__main__":
    main()
