"""Settings for requests without a call for each: `Traffic` holds a table and hashes units into it.

A background thread fetches the table of a study (its allocation) from the service, and sends the
outcomes that were recorded.  docs/traffic.md has the hash, and what happens if something fails.
"""

from __future__ import annotations

import atexit
import logging
import os
import random
import threading
import uuid
import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from time import monotonic
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode
from zlib import crc32

from regretless._internal.shown import shown
from regretless._internal.validate import MAX_SAFE, is_integer, is_number, whole
from regretless.client.connection import AGAIN, Connection, checked_seconds
from regretless.client.study import check_name
from regretless.errors import (
    ArchivedError,
    ConfigError,
    DataError,
    RegretlessError,
    ServiceError,
    StorageError,
    UnknownStudyError,
)
from regretless.results import Trial, number_of
from regretless.space import Scalar

MOST_REPORTS = 500  # of one call
LARGEST = 1e40  # a value: the service takes sums of squares up to 1e100
REFRESHES = 8  # in the time for which a table is valid
AGAIN_SECONDS = 5.0  # until another try, if the table could not be fetched
_MASK = 0xFFFFFFFF
_log = logging.getLogger(__name__)


class Assignment(NamedTuple):
    """What a unit gets.

    Attributes:
        params: the setting, as a dict of its own.
        trial: the number of the trial that the outcome is recorded for; None if there was no valid
            table.
        row: the row of the table.  A unit keeps it while the row lives.  None if there was none.

    Example:
        >>> params, trial, row = Assignment({"price": 9.5}, 57, 3)
        >>> trial
        57
    """

    params: dict[str, Scalar]
    trial: int | None
    row: int | None


def slot_of(unit: str | int, salt: str, slots: int = 10_000) -> int:
    """The slot of a unit: 0, 1, …, `slots` - 1.  It is the same in all languages.

    Args:
        unit: the id of the unit.
        salt: the `salt` of the table.
        slots: the number of slots of the table.

    Raises:
        DataError: the unit or the salt is no text and no whole number.

    Example:
        >>> slot_of("customer-17", salt="shop")
        2865
    """
    hashed = mixed(crc32(text_of(unit)) ^ mixed(crc32(text_of(salt))))
    return hashed * slots >> 32


def mixed(h: int) -> int:
    """The finaliser of MurmurHash3: a bijection of 32 bits, each of which changes all others."""
    h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
    h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
    return h ^ h >> 16


def text_of(unit: object) -> bytes:
    """A unit as UTF-8.  A whole number is written in decimals, and half a character is U+FFFD."""
    if is_integer(unit) and not isinstance(unit, bool):
        return str(int(unit)).encode()
    if not isinstance(unit, str):
        raise DataError(f"unit: need text or a whole number, got {shown(unit)}")
    try:
        return unit.encode()
    except UnicodeEncodeError:  # JavaScript sees two halves side by side as one character
        return unit.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


@dataclass(frozen=True)
class Table:
    """A table of the service: who gets which setting, until when."""

    version: int
    until: float  # by this machine's monotonic clock
    salt: int  # mixed
    slots: int
    owners: tuple[Assignment, ...]  # of each slot
    fallback: dict[str, Scalar] | None  # the baseline, or else the row with the largest share
    seconds: float  # for which the table was valid when it was made

    @classmethod
    def read(cls, answer: Any, asked_at: float) -> Table:
        """The table of an answer to a question that was asked at a moment.

        Raises:
            ServiceError: the answer is not a table.
        """
        try:
            slots, rows = answer["slots"], answer["rows"]
            owners: list[Assignment | None] = [None] * slots
            for row in rows:
                owner = Assignment(dict(row["params"]), int(row["trial"]), int(row["row"]))
                for start, end in row["slots"]:
                    if not 0 <= start <= end <= slots or any(owners[start:end]):
                        raise ValueError(f"the slots from {start} to {end}")
                    owners[start:end] = [owner] * (end - start)
            filled = tuple(owner for owner in owners if owner is not None)
            if not filled or len(filled) < slots:
                raise ValueError("a slot without a row")
            most = max(rows, key=lambda row: float(row["share"]))["params"]
            return cls(
                version=int(answer["version"]),
                until=asked_at + float(answer["valid_for"]),
                salt=mixed(crc32(text_of(answer["salt"]))),
                slots=slots,
                owners=filled,
                fallback=dict(answer.get("baseline") or most),
                seconds=float(answer["ttl"]),
            )
        except (DataError, KeyError, TypeError, ValueError, OverflowError) as error:
            raise ServiceError(200, f"not a table: {type(error).__name__}: {error}") from None


_NONE = Table(-1, -inf, 0, 1, (), None, 0.0)


class Traffic:
    """Gives each unit its setting at once, and gathers the outcomes.

    `assign` and `record` use only memory, and any thread may call them.  A background thread
    fetches the table, about eight times while it is valid, and sends the outcomes every
    `flush_seconds`.  If the service cannot be reached, the last table is used until it expires;
    then units get the baseline, and outcomes are kept until the service takes them.  After a fork,
    each process sends what it has recorded itself.

    Args:
        url: the address of the service.
        study: the name of the study.
        token: the token, if the service needs one.  It must be allowed to write.
        baseline: the setting to use while there is no valid table; None for the baseline of the
            study, or if it has none, the setting with the largest share of the last table.
        arms: the largest number of settings in a table; None for the default of `Study.allocate`.
        ttl: for how many seconds a table may be used; None likewise.
        delay: how many seconds late outcomes may come; None likewise.
        flush_seconds: how often outcomes are sent.
        timeout: how many seconds to wait for one answer.

    Raises:
        ConfigError: an argument is not valid.
        RegretlessError: there is no table yet, and no `baseline` was given: StorageError if the
            service cannot be reached, UnknownStudyError if it has no such study, ….

    Example:
        >>> from regretless.client import Traffic
        >>> with Traffic("http://127.0.0.1:9", "shop", baseline={"price": 10.0}) as traffic:
        ...     seen = traffic.assign("customer 7")  # nobody answers there: the baseline
        ...     traffic.record(seen, 12.5)  # the revenue, also if it is 0
        >>> dict(seen.params)
        {'price': 10.0}
    """

    def __init__(
        self,
        url: str,
        study: str,
        *,
        token: str | None = None,
        baseline: Mapping[str, Scalar] | None = None,
        arms: int | None = None,
        ttl: float | None = None,
        delay: float | None = None,
        flush_seconds: float = 5.0,
        timeout: float = 10.0,
    ) -> None:
        check_name(study)
        if not isinstance(baseline, Mapping | None):
            raise ConfigError(f"baseline: need names and values, got {shown(baseline)}")
        self.study = study
        self._connection = Connection(url, token=token, timeout=timeout, patience=0.0)
        self._path = f"/api/studies/{quote(study, safe='')}"
        wish = {"arms": arms, "ttl": ttl, "delay": delay}
        wish = {name: each for name, each in wish.items() if each is not None}
        self._allocation = f"{self._path}/allocation" + (f"?{urlencode(wish)}" if wish else "")
        self._baseline = None if baseline is None else dict(baseline)
        self._flush_seconds = checked_seconds("flush_seconds", flush_seconds)
        self._table = self._newest = _NONE
        self._refresh_at = -inf
        self._failing: dict[str, bool] = {}
        self._closed = False
        self._begin_afresh()
        try:
            self._fetch()
        except RegretlessError as error:
            if baseline is None:
                raise
            self._says("fetch the table", error)
        _open.add(self)
        self._start()

    def _begin_afresh(self) -> None:
        """Start without outcomes and without a thread, as after a fork."""
        self._lock = threading.Lock()  # held for an instant
        self._sending = threading.Lock()  # held while outcomes are sent
        self._ending = threading.Event()
        self._worker: threading.Thread | None = None
        self._totals: dict[int, list[float]] = {}  # count, sum, sum of squares
        self._batches: list[tuple[str, list[dict[str, float]]]] = []  # under way, with their keys
        # `assign` finds no valid table, looks closer, and starts the thread.
        self._table = _NONE

    def __enter__(self) -> Traffic:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Traffic({self.study!r} of {self._connection!r}, version {self.version})"

    def assign(self, unit: str | int) -> Assignment:
        """The setting of a unit: the same one while its row is in the table.

        Args:
            unit: the id of a user, or whatever shall see one setting: text, or a whole number.

        Raises:
            DataError: the unit is neither.
            ConfigError: the table has expired, and there is no baseline; this cannot happen if a
                table was ever fetched.
        """
        table = self._table
        if monotonic() >= table.until:
            newest = self._valid_table()
            if newest is None:
                return self._without_table(unit)
            table = newest
        try:
            h = crc32(unit.encode()) ^ table.salt  # type: ignore[union-attr]
        except (AttributeError, UnicodeEncodeError):
            h = crc32(text_of(unit)) ^ table.salt
        # This is mixed(h), written out because a call would take as long again.
        h = (h ^ h >> 16) * 0x85EBCA6B & _MASK
        h = (h ^ h >> 13) * 0xC2B2AE35 & _MASK
        params, trial, row = table.owners[(h ^ h >> 16) * table.slots >> 32]
        return Assignment(params.copy(), trial, row)

    def record(self, seen: Assignment | Trial | int | None, value: float) -> None:
        """Add an outcome to the result of a trial.

        Record an outcome for each unit, also 0 for one that did not buy.  A trial of a table that
        has expired still counts.  An assignment without a trial is ignored.

        Args:
            seen: what `assign` returned, or its trial.
            value: the outcome.

        Raises:
            DataError: the value is not a finite number, or is so large that sums would not be.
            ConfigError: this object was closed.
            UnknownTrialError: `seen` is no assignment, no trial and no number of one.
        """
        trial = seen.trial if isinstance(seen, Assignment) else seen
        if not is_number(value) or abs(value) > LARGEST:
            raise DataError(f"value: need a number up to {LARGEST:g}, got {shown(value)}")
        if trial is None:
            return
        number, x = whole("trial", number_of(trial), least=0, most=MAX_SAFE), float(value)
        with self._lock:
            if self._closed:
                raise ConfigError(
                    f"traffic of {self.study!r} is closed, and takes no more outcomes"
                )
            total = self._totals.setdefault(number, [0, 0.0, 0.0])
            total[0] += 1
            total[1] += x
            total[2] += x * x
        if self._worker is None:
            self._start()

    def flush(self) -> bool:
        """Send all outcomes now, and return whether the service has taken them."""
        with self._sending:
            while batch := self._next_batch():
                if not self._sent(*batch):
                    return False
        return True

    def close(self, patience: float = 10.0) -> None:
        """Send the outcomes, for up to `patience` seconds, and end the background thread.

        Raises:
            ConfigError: `patience` is no number of seconds.
        """
        deadline = monotonic() + checked_seconds("patience", patience, least=0.0)
        with self._lock:
            self._closed = True
        self._ending.set()
        _open.discard(self)
        if self._worker is not None:
            self._worker.join(patience)
        while not self.flush() and monotonic() < deadline:
            threading.Event().wait(0.2)
        if self.unsent:
            _log.warning("%s: %d outcomes were not sent", self.study, self.unsent)

    @property
    def version(self) -> int | None:
        """The version of the table; None if there is none yet."""
        return self._newest.version if self._newest.owners else None

    @property
    def expired(self) -> bool:
        """Whether there is no valid table, so that units get the baseline."""
        return monotonic() >= self._newest.until

    @property
    def unsent(self) -> int:
        """The number of outcomes that the service has not acknowledged."""
        with self._lock:
            waiting = sum(total[0] for total in self._totals.values())
            under_way = sum(each["count"] for _, reports in self._batches for each in reports)
        return int(waiting + under_way)

    def refresh(self) -> bool:
        """Fetch the table now, and return whether the service has answered with one."""
        try:
            self._fetch()
        except RegretlessError as error:
            self._says("fetch the table", error)
            self._refresh_at = monotonic() + AGAIN_SECONDS * random.uniform(0.5, 1.0)
            return False
        self._says("fetch the table", None)
        return True

    def _fetch(self) -> None:
        asked_at = monotonic()  # so that a slow answer is not valid for longer than it says
        table = Table.read(self._connection.call("GET", self._allocation), asked_at)
        with self._lock:
            # A cache may answer with an older one.
            if table.version >= self._newest.version or asked_at >= self._newest.until:
                self._table = self._newest = table
        pause = max(table.seconds, 1.0) / REFRESHES
        left = max(table.until - monotonic(), 0.5) / 2  # a table that is old when it comes
        self._refresh_at = monotonic() + min(pause, left) * random.uniform(0.8, 1.0)

    def _valid_table(self) -> Table | None:
        """The table, if it is valid; also in a process that has just been forked."""
        if self._worker is None and not self._closed:
            self._start()
        with self._lock:
            self._table = self._newest
        return None if monotonic() >= self._newest.until else self._newest

    def _without_table(self, unit: object) -> Assignment:
        text_of(unit)  # an error does not wait for the table
        fallback = self._newest.fallback if self._baseline is None else self._baseline
        if fallback is None:
            raise ConfigError("baseline: the service has sent no table yet, so give a baseline")
        return Assignment(fallback.copy(), None, None)

    def _start(self) -> None:
        with self._lock:
            if self._worker is None and not self._closed:
                name = f"regretless traffic of {self.study}"
                self._worker = threading.Thread(target=self._work, name=name, daemon=True)
                self._worker.start()

    def _work(self) -> None:
        ending = self._ending
        flush_at = monotonic() + self._flush_seconds * random.uniform(0.5, 1.0)
        while not ending.wait(max(0.0, min(self._refresh_at, flush_at) - monotonic())):
            if monotonic() >= self._refresh_at:
                self.refresh()
            if monotonic() >= flush_at:
                self.flush()
                flush_at = monotonic() + self._flush_seconds * random.uniform(0.9, 1.1)

    def _next_batch(self) -> tuple[str, list[dict[str, float]]] | None:
        """What is to be sent: the same content under the same key, until it is acknowledged."""
        with self._lock:
            if not self._batches and self._totals:
                reports = [_report(trial, *total) for trial, total in self._totals.items()]
                self._totals = {}
                for first in range(0, len(reports), MOST_REPORTS):
                    some = reports[first : first + MOST_REPORTS]
                    self._batches.append((uuid.uuid4().hex, some))
            return self._batches[0] if self._batches else None

    def _sent(self, key: str, reports: list[dict[str, float]]) -> bool:
        """Whether a batch is settled: it was acknowledged, or refused for good."""
        try:
            self._connection.call("POST", f"{self._path}/reports", {"reports": reports}, key)
        except RegretlessError as error:
            if _may_pass(error):
                self._says("send outcomes", error)
                return False
            self._refused(reports, error)
            return True
        with self._lock:
            self._batches.pop(0)
        self._says("send outcomes", None)
        return True

    def _refused(self, reports: list[dict[str, float]], error: RegretlessError) -> None:
        """One wrong report must not hold up the others: send each alone, and drop what is wrong."""
        with self._lock:
            self._batches.pop(0)
            if len(reports) > 1:
                self._batches[:0] = [(uuid.uuid4().hex, [each]) for each in reports]
                return
        _log.error("%s: the service refused the outcomes %s: %s", self.study, reports[0], error)

    def _says(self, what: str, error: RegretlessError | None) -> None:
        """Log that something begins to fail, or works again."""
        before = self._failing.get(what, False)
        self._failing[what] = error is not None
        if error is not None and not before:
            _log.warning("%s: can't %s: %s", self.study, what, error)
        elif error is None and before:
            _log.warning("%s: can %s again", self.study, what)


def _report(trial: int, count: float, total: float, squares: float) -> dict[str, float]:
    return {"trial": trial, "count": int(count), "sum": total, "sum_squares": squares}


def _may_pass(error: RegretlessError) -> bool:
    """Whether the same request may succeed later: an outage, a token, a study that was archived."""
    if isinstance(error, ServiceError):
        return error.status in (*AGAIN, 401, 403) or error.status >= 500
    return isinstance(error, StorageError | UnknownStudyError | ArchivedError)


_open: weakref.WeakSet[Traffic] = weakref.WeakSet()


def _close_all() -> None:
    for traffic in list(_open):
        traffic.close(patience=3.0)


def _after_fork() -> None:
    """The parent sends what it has recorded.  The child starts without, and without a thread."""
    for traffic in _open:
        traffic._begin_afresh()


atexit.register(_close_all)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
