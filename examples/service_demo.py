"""A simulated recommender, tuned over HTTP while it serves customers; watch it on the live page.

`make demo` starts the service and the recommender of live_demo.py, which is tuned in two ways:

- "recommender": each step is a day on which some thousand customers see one setting. Several days
  are under way at a time, and now and then the result of one never arrives.
- "recommender-traffic": thousands of customers a second share a table of settings. The client
  gives each customer a setting without a call, and sends sums of clicks (docs/traffic.md).

Ctrl-C ends it.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np
from live_demo import CUSTOMERS, TODAY, click_rate, space

from regretless.client import Client, RemoteStudy, Traffic

STUDY, DAYS = "recommender", 200
IN_TRAFFIC, ROWS, TABLES = "recommender-traffic", 6, 200
TTL = 20.0  # seconds; a real system has minutes or hours
REGULARS = 50_000  # customers who come again and again


def visitors(rng: np.random.Generator) -> int:
    """Some days are busier than others."""
    return int(rng.integers(CUSTOMERS // 2, 2 * CUSTOMERS))


def clicks_per_hundred(params: dict, rng: np.random.Generator) -> tuple[float, float]:
    """A day's click-through rate in percent, and its standard error."""
    customers = visitors(rng)
    rate = rng.binomial(customers, click_rate(params)) / customers
    return 100 * rate, 100 * max(rate * (1 - rate) / customers, 1e-6) ** 0.5


def run_shop(study: RemoteStudy, pause: float, number: int, done: threading.Event) -> None:
    """One of several shops: a day after the other until the budget is spent."""
    rng = np.random.default_rng(number)
    for trial in study:
        value, sem = clicks_per_hundred(trial.params, rng)
        if done.wait(pause * rng.uniform(0.5, 1.5)):
            return
        if rng.random() < 0.02:
            study.abandon(trial)  # the day's log was lost
        else:
            study.tell(trial, value, sem=sem)


def run_traffic(address: str, study: RemoteStudy, pause: float, done: threading.Event) -> None:
    """Customers who come at random, many a second; each keeps its setting while the row lives."""
    rng = np.random.default_rng(5)
    served, version, rates = 0, None, {}
    with Traffic(address, study.name, arms=ROWS, ttl=TTL, flush_seconds=1.0) as traffic:
        while not done.wait(min(pause, 0.1)):
            for customer in rng.integers(REGULARS, size=500).tolist():
                seen = traffic.assign(customer)
                if seen.row not in rates:
                    rates[seen.row] = click_rate(seen.params)
                traffic.record(seen, 100.0 * (rng.random() < rates[seen.row]))
            served += 500
            if traffic.version != version:
                version = traffic.version
                print(f"{study.name}: table {version} after {served:,} customers", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--pause", type=float, default=2.0, help="seconds that a day takes")
    parser.add_argument("--shops", type=int, default=2, help="days at a time")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        storage = f"{folder}/demo.sqlite"
        command = [sys.executable, "-m", "regretless", "serve", "--storage", storage]
        service = subprocess.Popen(
            [*command, "--port", str(options.port)],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,  # Ctrl-C is for us: the shops close before the service does
        )
        try:
            demonstrate(service, options)
        except KeyboardInterrupt:
            print()
        finally:
            service.terminate()
            service.wait()


def demonstrate(service: subprocess.Popen[str], options: argparse.Namespace) -> None:
    assert service.stdout is not None
    address = service.stdout.readline().rpartition(" ")[2].strip()
    if not address.startswith("http"):
        return  # it has said why
    client = Client(address, patience=10.0)
    study = client.create(STUDY, space=space, budget=DAYS, baseline=TODAY)
    value, sem = clicks_per_hundred(TODAY, np.random.default_rng(99))
    study.observe(TODAY, value, sem=sem, key="today")
    busy = client.create(IN_TRAFFIC, space=space, budget=ROWS * TABLES, baseline=TODAY)
    print(f"The live page: {address}  (Ctrl-C ends it)", flush=True)
    done = threading.Event()
    shops = [
        threading.Thread(target=run_shop, args=(study, options.pause, number, done))
        for number in range(options.shops)
    ]
    shops.append(threading.Thread(target=run_traffic, args=(address, busy, options.pause, done)))
    try:
        for shop in shops:
            shop.start()
        while service.poll() is None:
            time.sleep(0.2)
    finally:
        done.set()
        for shop in shops:
            shop.join()


if __name__ == "__main__":
    main()
