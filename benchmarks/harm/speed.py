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
        for size, waiting in [(size, waiting) for size in sizes for waiting in (0, 2)]:
            rng = np.random.default_rng(size)
            plain = rl.Optimizer(space, 400, model=model, baseline=today)
            safe = rl.Optimizer(space, 400, model=model, baseline=today, loss_budget=20.0)
            for i in range(size):
                point = {n: float(rng.random()) for n in space.names} if i else today
                value = float(np.sin(3 * sum(point.values()))) + 0.1 * rng.standard_normal()
                for each in (plain, safe):
                    each.observe(point, value)
            for each in (plain, safe):
                for trial in each.ask(waiting + 1)[waiting:]:
                    each.tell(trial, 0.0)
            seconds: dict[str, list[float]] = {"plain": [], "safe": []}
            for _ in range(repeats):
                for name, each in (("plain", plain), ("safe", safe)):
                    twin = each.copy()
                    began = time.process_time()
                    twin.propose()
                    seconds[name].append(time.process_time() - began)
            cost = {name: min(times) for name, times in seconds.items()}
            lines.append({"method": method, "results": size, "waiting": waiting, **cost})
            print(lines[-1], round(cost["safe"] / cost["plain"], 2), flush=True)
    RECORDS.mkdir(parents=True, exist_ok=True)
    (RECORDS / "speed.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
