"""One line of JSON for each batch that has ended."""

from __future__ import annotations

import json
import os
import platform
import sqlite3
from collections.abc import Iterable
from dataclasses import asdict
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from regretless.experiments.runner import stamp

LIBRARIES = ("sqlalchemy", "psycopg", "fastapi", "uvicorn", "hypothesis", "schemathesis")


def load(path: Path) -> list[dict[str, Any]]:
    """The records; a last line that was cut off is left out."""
    if not path.exists():
        return []
    found = []
    for line in path.read_text().splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:
            continue
    return found


def add(path: Path, record: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    cut_off = path.exists() and not path.read_bytes().endswith(b"\n")
    with path.open("a") as file:
        file.write(("\n" if cut_off else "") + json.dumps(record) + "\n")
        file.flush()
        os.fsync(file.fileno())


def done(records: Iterable[dict[str, Any]]) -> set[tuple[str, int, int]]:
    """The batches that need not be done again: those in which nothing went wrong."""
    return {batch(record) for record in records if not record.get("faults")}


def latest(records: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """The last record of each batch."""
    return list({batch(record): record for record in records}.values())


def batch(record: dict[str, Any]) -> tuple[str, int, int]:
    return record["part"], record["seed"], record["size"]


def about() -> dict[str, Any]:
    """The software and the moment."""
    versions = {name: version(name) for name in LIBRARIES}
    return {
        "when": datetime.now(UTC).isoformat(timespec="seconds"),
        **asdict(stamp()),
        **versions,
        "sqlite": sqlite3.sqlite_version,
        "system": platform.platform(),
    }
