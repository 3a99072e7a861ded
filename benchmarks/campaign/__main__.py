"""Run the batches that have no record yet, and write the page."""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from benchmarks.campaign import ROOT, control, records, report
from benchmarks.campaign.ledger import Tally
from benchmarks.campaign.parts import PARTS
from benchmarks.campaign.places import Skipped

LONGEST = 3600.0  # seconds of a batch: what takes longer counts as a hang


def main() -> None:
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that nothing is left running
    options = _options()
    if options.batch:
        name, seed, size = options.batch.split("/")
        _print_batch(name, int(seed), int(size))
        return
    folder = options.folder or ROOT / ("build/campaign" if _small(options) else "docs/results")
    place = folder / "reliability.jsonl"
    if _small(options):
        place.unlink(missing_ok=True)
    begun = time.monotonic()
    known = records.done(records.load(place))
    for name, seed, size in _wanted(options):
        if (name, seed, size) in known:
            continue
        if options.minutes and time.monotonic() - begun > 60 * options.minutes:
            break
        record = _batch(name, seed, size)
        records.add(place, record)
        print(f"{name}, seed {seed}: {_line(record)}", flush=True)
    found = records.load(place)
    (folder / "reliability.md").write_text(report.page(found))
    if any(record["faults"] for record in records.latest(found)):
        raise SystemExit("something went wrong: see reliability.md")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="about a minute, into build/campaign")
    parser.add_argument("--tiny", action="store_true", help="seconds: a few parts, as a test does")
    parser.add_argument("--parts", default="", help="a,b,c: only these")
    parser.add_argument("--seeds", default="0:", help="first:end, to share a campaign")
    parser.add_argument("--minutes", type=float, help="start no batch after so many minutes")
    parser.add_argument("--folder", type=Path, help="for the records and the page")
    parser.add_argument("--batch", help=argparse.SUPPRESS)
    return parser.parse_args()


def _small(options: argparse.Namespace) -> bool:
    return bool(options.quick or options.tiny)


def _wanted(options: argparse.Namespace) -> list[tuple[str, int, int]]:
    """Batches in turn: the first of each part, then the second of each, and so on."""
    names = options.parts.split(",") if options.parts else list(PARTS)
    if unknown := set(names) - set(PARTS):
        raise SystemExit(
            f"parts: unknown {', '.join(sorted(unknown))}; there are {', '.join(PARTS)}"
        )
    if _small(options):
        sizes = [(name, PARTS[name].tiny if options.tiny else PARTS[name].quick) for name in names]
        return [(name, 0, size) for name, size in sizes if size]
    first, end = (int(part) if part else None for part in options.seeds.split(":"))
    wanted = [(seed, name) for name in names for seed in range(PARTS[name].batches)[first:end]]
    order = list(PARTS)
    wanted.sort(key=lambda each: (each[0], order.index(each[1])))
    return [(name, seed, PARTS[name].size) for seed, name in wanted]


def _batch(name: str, seed: int, size: int) -> dict[str, Any]:
    """A batch in a process of its own, with all that it starts in one group."""
    begun = time.monotonic()
    command = [sys.executable, "-m", "benchmarks.campaign", "--batch", f"{name}/{seed}/{size}"]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT,
        start_new_session=True, env=_environment(),
    )  # fmt: skip
    tally = Tally()
    try:
        out, err = process.communicate(timeout=LONGEST)
        answer = json.loads(out.splitlines()[-1]) if process.returncode == 0 else None
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        tally.fault("hangs", f"the batch took more than {LONGEST:.0f} s")
        answer = {}
    except BaseException:
        process.terminate()  # it stops its databases and services itself
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise
    if answer is None:
        tally.fault("uncaught", err[-500:])
    return {
        "part": name,
        "seed": seed,
        "size": size,
        "seconds": round(time.monotonic() - begun, 1),
        "skipped": None,
        **(answer or tally.as_json()),
        "about": records.about(),
    }


def _environment() -> dict[str, str]:
    paths = [str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"}


def _print_batch(name: str, seed: int, size: int) -> None:
    try:
        with control.running():
            answer = PARTS[name].run(seed, size).as_json()
    except Skipped as reason:
        answer = {**Tally().as_json(), "skipped": str(reason)}
    print(json.dumps(answer))


def _line(record: dict[str, Any]) -> str:
    counts = ", ".join(f"{number:,} {what}" for what, number in record["counts"].items())
    faults = ", ".join(f"{number} {what.upper()}" for what, number in record["faults"].items())
    return f"{record['skipped'] or counts}; {faults or 'nothing wrong'} ({record['seconds']} s)"


if __name__ == "__main__":
    main()
