"""Store one record for each run, in files that survive a crash at any moment.

A runner appends lines of JSON to `<figure>/<function>/<policy>.jsonl`.  `compact` moves them,
sorted by seed, into `<policy>.jsonl.xz` in the same folder.

If the process dies while it writes a line, the line does not parse.  Such a line is ignored, and
its run is done again.  If the process dies in `compact`, a record may be in both files.  The first
record of an id counts.

The regret curve is stored as the steps of the cumulative regret, rounded to multiples of 0.001.
The error of the curve is at most 0.0005 everywhere, and it compresses to one or two bytes a step.
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
    """The versions of the software that made a record, so that the run can be repeated."""

    version: str
    commit: str
    source: str  # a digest of the code, because there may be edits after the commit
    python: str
    numpy: str
    scipy: str

    def versions(self) -> dict[str, str]:
        """The versions by the names of the packages, for records that list other packages too."""
        own = asdict(self)
        return {"regretless": own.pop("version"), **own}

    def __str__(self) -> str:
        return (
            f"regretless {self.version} at commit {self.commit or 'none'}, Python {self.python},"
            f" numpy {self.numpy}, scipy {self.scipy}"
        )


@dataclass(frozen=True)
class Record:
    """The results of a run.  A run that crashed has an error, and the results until then."""

    id: str  # figure/function/policy/seed
    steps: tuple[int, ...]  # steps of the cumulative regret, in multiples of UNIT
    design: int  # number of evaluations in the initial design
    reasons: dict[str, int]  # number of decisions with each reason
    distinct: int  # number of distinct points
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
        """The cumulative regret after each evaluation."""
        return np.cumsum(self.steps) * UNIT

    def to_line(self) -> str:
        """The record as one line of JSON."""
        return json.dumps(asdict(self), separators=(",", ":"), allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, data: dict[str, Any]) -> Record:
        """The record from its JSON; StorageError if a field is missing or unknown."""
        try:
            return cls(**data | {"stamp": Stamp(**data["stamp"]), "steps": tuple(data["steps"])})
        except (TypeError, KeyError) as error:
            raise StorageError(f"not a record: {error}") from None


def quantised(regrets: Sequence[float]) -> tuple[int, ...]:
    """Regrets as whole steps; the error of their running sum is at most half a unit."""
    rounded = np.rint(np.cumsum(regrets) / UNIT).astype(int)
    return tuple(np.diff(rounded, prepend=0).tolist())


def read(root: Path) -> dict[str, Record]:
    """All records in a folder, by id."""
    found: dict[str, Record] = {}
    for stem in sorted({path.parent / path.name.split(".")[0] for path in root.rglob("*.jsonl*")}):
        found |= _read_cell(stem)
    return found


def append(root: Path, record: Record) -> None:
    """Write a record.  If the machine stops meanwhile, the record is complete or ignored."""
    path = root / f"{record.id.rsplit('/', 1)[0]}.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("ab+") as file:
        torn = file.tell() > 0 and _last_byte(path) != b"\n"
        file.write(b"\n" * torn + record.to_line().encode())
        file.flush()
        os.fsync(file.fileno())


def compact(root: Path) -> None:
    """Move all appended lines into the compressed files."""
    for plain in sorted(root.rglob("*.jsonl")):
        stem = plain.with_suffix("")
        records = sorted(_read_cell(stem).values(), key=lambda record: record.seed)
        packed = stem.with_suffix(".jsonl.xz")
        draft = packed.with_suffix(".tmp")
        text = "".join(record.to_line() for record in records)
        with draft.open("wb") as file:
            file.write(lzma.compress(text.encode(), preset=9 | lzma.PRESET_EXTREME))
            file.flush()
            os.fsync(file.fileno())  # must be on disk before the appended lines are deleted
        os.replace(draft, packed)
        plain.unlink()


@contextmanager
def only_runner(root: Path) -> Iterator[None]:
    """Lock the folder, because a second runner would repeat the same runs.

    The operating system releases the lock if the process dies.

    Raises:
        StorageError: another runner has the lock.
    """
    root.mkdir(parents=True, exist_ok=True)
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl: no lock
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
    except (lzma.LZMAError, ValueError) as error:  # never incomplete: it was renamed when complete
        raise StorageError(f"{path}: not a file of records: {error}") from None


def _appended(path: Path) -> Iterator[Record]:
    if not path.exists():
        return
    for line in path.read_bytes().splitlines():
        try:
            data = json.loads(line)
        except ValueError:
            continue  # incomplete or empty
        yield Record.from_json(data)


def _last_byte(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read(1)
