"""Tune a gateway that must not become slow: a guardrail on its latency.

    python examples/guardrails.py

The best setting without the guardrail has a p99 latency of about 390 ms.
"""

from __future__ import annotations

import numpy as np

import regretless as rl
from regretless import Ledger

SPACE = rl.Space({"concurrency": rl.Float(1.0, 64.0, log=True), "batch": rl.Float(1.0, 32.0)})
TODAY = {"concurrency": 6.0, "batch": 4.0}


def throughput(concurrency: float, batch: float) -> float:
    return 100.0 * np.log2(1.0 + concurrency) + 12.0 * batch - 0.25 * batch**2


def latency(concurrency: float, batch: float) -> float:
    return 80.0 + 4.0 * concurrency + 0.05 * batch**2 + 0.02 * concurrency * batch


def main() -> None:
    rng = np.random.default_rng(0)
    optimizer = rl.Optimizer(
        SPACE, budget=60, baseline=TODAY, guardrails=[rl.AtMost("p99_ms", 250.0)]
    )
    broken = 0
    for trial in optimizer:
        true = latency(**trial.params)
        broken += true > 250.0
        optimizer.tell(
            trial,
            throughput(**trial.params) + 10.0 * rng.standard_normal(),
            metrics={"p99_ms": true + 8.0 * rng.standard_normal()},
        )
    best = optimizer.best()
    print("best:", {name: round(value, 1) for name, value in best.params.items()})
    print(f"throughput {throughput(**best.params):.0f} (today {throughput(**TODAY):.0f})")
    print(f"latency {latency(**best.params):.0f} ms (today {latency(**TODAY):.0f} ms, limit 250)")
    counted = Ledger.of(optimizer).violations()[0]
    print(
        f"trials that broke the guardrail: {broken}; expected {counted.expected:.1f};"
        f" results beyond it {counted.observed}"
    )


if __name__ == "__main__":
    main()
