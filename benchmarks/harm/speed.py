"""What a step with a baseline and a loss budget costs, against a plain one with the same model."""

from __future__ import annotations

import json
import time

import numpy as np
from benchmarks.harm.runs import RECORDS

import regretless as rl


def measure(sizes: tuple[int, ...] = (10, 30, 100), repeats: int = 5) -> None:
    """CPU seconds of an ask after so many results, with the loss budget and without, in turn."""
    space = rl.Space({f"x{j}": rl.Float(0.0, 1.0) for j in range(4)})
    today = dict.fromkeys(space.names, 0.5)
    lines = []
    for method in ("map", "ensemble"):
        model = rl.Model(method=method)
        for size in sizes:
            rng = np.random.default_rng(size)
            plain = rl.Optimizer(space, 400, model=model, baseline=today)
            safe = rl.Optimizer(space, 400, model=model, baseline=today, loss_budget=20.0)
            for point in (today, *({n: float(rng.random()) for n in space.names},) * (size - 1)):
                moved = {n: min(1.0, v * float(rng.uniform(0.9, 1.1))) for n, v in point.items()}
                value = float(np.sin(3 * sum(moved.values()))) + 0.1 * rng.standard_normal()
                for each in (plain, safe):
                    each.observe(moved, value)
            plain.ask()
            safe.ask()
            seconds = {"plain": [], "safe": []}
            for _ in range(repeats):
                for name, each in (("plain", plain), ("safe", safe)):
                    twin = each.copy()
                    began = time.process_time()
                    twin.propose()
                    seconds[name].append(time.process_time() - began)
            cost = {name: min(times) for name, times in seconds.items()}
            lines.append({"method": method, "results": size, **cost})
            print(lines[-1], round(cost["safe"] / cost["plain"], 2), flush=True)
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / "speed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
