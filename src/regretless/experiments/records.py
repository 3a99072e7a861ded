"""One record per run, in plain files that survive a crash at any moment.

A runner appends lines of JSON to `<figure>/<function>/<policy>.jsonl`; `compact` moves them,
sorted by seed, into `<policy>.jsonl.xz` beside it. A record either parses or was never written (the
process died within the line), so a torn line is passed over and its run is done again. The first
record of an id counts: a death between the two steps of `compact` leaves it in both files.

The regret curve is kept as the whole-number steps of the cumulative regret in units of 0.001, so
the curve is right to 0.0005 everywhere, also where hundreds of small regrets add up, and compresses
to one or two bytes a step.
"""

from __future__ import annotations

import json
import lzma
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from regretless._internal.arrays import Array
from regretless.errors import StorageError

UNIT = 1e-3


@dataclass(frozen=True)
class Stamp:
    """What made a record: enough to make it again."""

    version: str
    commit: str
    source: str  # a digest of the code: a commit says nothing of edits since
    python: str
    numpy: str
    scipy: str

    def versions(self) -> dict[str, str]:
        """By the names of the packages, for records that name others beside them."""
        own = asdict(self)
        return {"regretless": own.pop("version"), **own}

    def __str__(self) -> str:
        return (
            f"regretless {self.version} at commit {self.commit or 'none'}, Python {self.python},"
            f" numpy {self.numpy}, scipy {self.scipy}"
        )


@dataclass(frozen=True)
class Record:
    """What a run left behind. A crash is a record too: with its error, and the curve up to it."""

    id: str
    steps: tuple[int, ...]  # of the cumulative regret, in UNITs
    design: int  # how many of them were the initial design
    reasons: dict[str, int]
    distinct: int  # points
    fits: int
    failed_fits: int
    cpu_seconds: float
    stamp: Stamp
    error: str | None = None

    @property
    def seed(self) -> int:
        return int(self.id.rsplit("/", 1)[1])

    @property
    def curve(self) -> Array:
        """Cumulative regret after each evaluation."""
        return np.cumsum(self.steps) * UNIT

    def to_line(self) -> str:
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        try:
            return cls(**data | {"stamp": Stamp(**data["stamp"]), "steps": tuple(data["steps"])})
        except (TypeError, KeyError) as error:
            raise StorageError(f"not a record: {error}") from None


def quantised(regrets: Sequence[float]) -> tuple[int, ...]:
    """Regrets as whole steps whose running sum is never off by more than half a unit."""
    rounded = np.rint(np.cumsum(regrets) / UNIT).astype(int)
    return tuple(np.diff(rounded, prepend=0).tolist())


def read(root: Path) -> dict[str, Record]:
    """Every record under a folder, by id."""
    found: dict[str, Record] = {}
    for stem in sorted({path.parent / path.name.split(".")[0] for path in root.rglob("*.jsonl*")}):
        found |= _read_cell(stem)
    return found


def append(root: Path, record: Record) -> None:
    """Write a record so that it is either there or not, whenever the machine stops."""
    path = root / f"{record.id.rsplit('/', 1)[0]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        torn = file.tell() > 0 and _last_byte(path) != b"\n"
        file.write(b"\n" * torn + record.to_line().encode())
        file.flush()
        os.fsync(file.fileno())


def compact(root: Path) -> None:
    """Fold the appended lines into the compressed files."""
    for plain in sorted(root.rglob("*.jsonl")):
        stem = plain.with_suffix("")
        records = sorted(_read_cell(stem).values(), key=lambda record: record.seed)
        packed = stem.with_suffix(".jsonl.xz")
        draft = packed.with_suffix(".tmp")
        text = "".join(record.to_line() for record in records)
        with draft.open("wb") as file:
            file.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
            file.flush()
            os.fsync(file.fileno())  # before the lines that it replaces are gone
        os.replace(draft, packed)
        plain.unlink()


@contextmanager
def only_runner(root: Path) -> Iterator[None]:
    """One runner to a folder: a second one would do the same runs again. Released by any death."""
    root.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # not on Windows
        yield
        return
    handle = os.open(root, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(handle)
        raise StorageError(f"{root}: another runner is at work there") from None
    try:
        yield
    finally:
        os.close(handle)


def _read_cell(stem: Path) -> dict[str, Record]:
    packed, plain = stem.with_suffix(".jsonl.xz"), stem.with_suffix(".jsonl")
    found: dict[str, Record] = {}
    for record in [*_packed(packed), *_appended(plain)]:
        found.setdefault(record.id, record)
    return found


def _packed(path: Path) -> list[Record]:
    if not path.exists():
        return []
    try:
        lines = lzma.decompress(path.read_bytes()).decode().splitlines()
        return [Record.from_json(json.loads(line)) for line in lines]
    except (lzma.LZMAError, ValueError) as error:  # written in one piece, so this is no torn line
        raise StorageError(f"{path}: not a file of records: {error}") from None


def _appended(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # torn, or empty
        yield Record.from_json(data)


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
