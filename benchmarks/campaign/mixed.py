"""Two releases on one journal, and verbs in any order against a reference."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

from benchmarks.campaign import ROOT, places
from benchmarks.campaign.ledger import SETTINGS, Ledger, Tally

import regretless as rl
from regretless.studies import acting_as

OLD = "3e54792"  # the last commit whose journals have no actors

# What runs with the sources of the older release.
OLD_PROGRAM = """
import json, sys
import regretless as rl
from regretless.client import Client
storage, seed, steps = sys.argv[1], sys.argv[2], int(sys.argv[3])
done = []
with rl.Study.open(storage, "s") as study:
    for step in range(steps):
        name = f"old-{seed}-{step}"
        if step % 3 == 0:
            study.observe({"x": 0.5, "kind": "a"}, float(step), key=name)
            done.append(f"observe {name}")
            continue
        trial = study.ask(key=name)
        done.append(f"ask {name}")
        study.tell(trial, 1.0, key=f"tell {name}")
        done.append(f"tell {name}")
    rows = [[row.number, row.status, row.value] for row in study.history()]
    print(json.dumps({"done": done, "rows": rows, "budget": study.budget}))
"""


def versions(kind: str, seed: int, size: int) -> Tally:
    """An older release and this one take turns on one journal, `size` times."""
    tally, ledger, rng = Tally(), Ledger(), random.Random(seed)
    with places.folder() as made, places.storage(kind) as storage:
        old = _old_sources(made)
        study = rl.Study.open(storage, "s", **SETTINGS)
        for turn in range(size):
            with acting_as(rng.choice(["ann", None])):
                for step in range(4):
                    name = f"new-{turn}-{step}"
                    trial = study.ask(key=name)
                    study.tell(trial, rng.random(), key=f"tell {name}")
                    study.observe({"x": 0.1, "kind": "b"}, rng.random(), key=name)
                    ledger.done += [f"ask {name}", f"tell {name}", f"observe {name}"]
                study.extend(SETTINGS["budget"] + turn)
            answer = _old(old, storage, turn, tally)
            if answer is None:
                continue
            ledger.done += answer["done"]
            rows = [[row.number, row.status, row.value] for row in study.history()]
            if rows != answer["rows"] or study.budget != answer["budget"]:
                tally.fault("lost", f"turn {turn}: the two releases do not agree")
            tally.counts["turns of two releases"] += 1
        study.close()
        ledger.tried = list(ledger.done)
        ledger.compare(storage, "s", tally)
    tally.figures["older release"] = OLD
    return tally


def _old_sources(made: Path) -> Path:
    archive = subprocess.run(
        ["git", "-C", ROOT, "archive", OLD, "src"], capture_output=True, check=False
    )
    if archive.returncode:
        raise places.Skipped(f"no commit {OLD} here")
    subprocess.run(["tar", "-x", "-C", made], input=archive.stdout, check=True)
    return made / "src"


def _old(sources: Path, storage: str, turn: int, tally: Tally) -> Any:
    environment = os.environ | {"PYTHONPATH": str(sources), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", OLD_PROGRAM, storage, str(turn), "5"],
        env=environment,
        cwd=sources,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    if done.returncode:
        tally.fault("uncaught", f"the older release: {done.stderr[-300:]}")
        return None
    return json.loads(done.stdout)


def machine(kind: str, seed: int, size: int) -> Tally:
    """`size` sequences of up to 40 verbs, by two objects and by processes that die."""
    from hypothesis import HealthCheck, Phase, settings
    from hypothesis import seed as with_seed
    from hypothesis.stateful import run_state_machine_as_test

    from verbs_machine import VerbsMachine

    tally = Tally()

    def both(self: Any, which: int, fault: str | None, *more: Any) -> Any:
        tally.counts["verbs against the reference"] += 1
        tally.counts["verbs that were broken"] += fault is not None
        tally.counts["processes that died"] += fault is not None and fault.startswith("die")
        return VerbsMachine.both(self, which, fault, *more)

    with places.storage(kind) as storage:
        counted = type("Counted", (VerbsMachine,), {"storage": storage, "both": both})
        limits = settings(
            max_examples=size,
            stateful_step_count=40,
            deadline=None,
            database=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
        )
        try:
            run_state_machine_as_test(with_seed(seed)(counted), settings=limits)
        except Exception as error:  # noqa: BLE001 (counted)
            tally.fault("differs", f"{type(error).__name__}: {error}")
    return tally
