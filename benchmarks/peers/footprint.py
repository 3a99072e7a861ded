"""What a tool costs before the first suggestion: seconds to import, megabytes to install."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

from benchmarks.peers.runs import ROOT, one_thread
from benchmarks.peers.tools import TOOLS

REPEATS = 3
Footprint = dict[str, float]


def measure(path: Path, tools: list[str]) -> dict[str, Footprint]:
    """Footprints by tool: those in the file, and measured and added to it those that are not."""
    known: dict[str, Footprint] = json.loads(path.read_text()) if path.exists() else {}
    for name in tools:
        if name not in known and TOOLS[name].installed:
            entry = TOOLS[name]
            size = installed_mb(entry.packages)
            known[name] = {"import_s": import_seconds(entry.imports), "installed_mb": size}
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(known, indent=1) + "\n")
    return known


def import_seconds(modules: str) -> float:
    """CPU seconds that the import takes; the interpreter's own start is not in it."""
    script = (
        f"import time; t = time.process_time(); import {modules}; print(time.process_time() - t)"
    )
    command = [sys.executable, "-W", "ignore", "-c", script]
    times = [
        float(subprocess.check_output(command, cwd=ROOT, env=one_thread(), text=True).split()[-1])
        for _ in range(REPEATS)
    ]
    return round(statistics.median(times), 3)


def installed_mb(packages: tuple[str, ...]) -> float:
    """These packages and all that they require, without extras."""
    from packaging.requirements import Requirement

    todo, seen, total = list(packages), set(), 0
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        if name == "regretless":  # perhaps a checkout, with everything else beside it
            total += _folder_bytes("regretless")
            continue
        try:
            found = metadata.distribution(name)
        except metadata.PackageNotFoundError:
            continue  # for another platform, or not needed here
        total += sum(_bytes(Path(found.locate_file(file))) for file in found.files or ())
        wanted = map(Requirement, found.requires or ())
        todo += [r.name for r in wanted if r.marker is None or r.marker.evaluate({"extra": ""})]
    return round(total / 1e6, 1)


def _folder_bytes(module: str) -> int:
    spec = find_spec(module)
    assert spec is not None
    assert spec.origin is not None
    return sum(_bytes(path) for path in Path(spec.origin).parent.rglob("*"))


def _bytes(path: Path) -> int:
    return path.stat().st_size if path.is_file() else 0
