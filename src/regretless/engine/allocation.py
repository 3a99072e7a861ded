"""The next table: which settings share the traffic, and how much each of them gets.

The rows are the baseline, the best setting so far, and what the policy wants to try next, as in a
batch of asks.  How the shares follow from the decisions is derived in engine/traffic.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from regretless._internal.shown import shown
from regretless._internal.validate import check_amount, check_share, whole
from regretless.engine.events import Allocated, Asked
from regretless.engine.slots import assign_slots
from regretless.engine.traffic import (
    BASELINE,
    EXPLORE,
    MAIN,
    MOST_ARMS,
    Pool,
    Table,
    TableRow,
    best_share,
    explored_shares,
    usual_traffic,
)
from regretless.errors import ConfigError
from regretless.results import Decision

if TYPE_CHECKING:
    from regretless.engine.optimizer import Optimizer


_TRIES = 2  # proposals for each row, until one is a setting that has no row yet


class Split(NamedTuple):
    """The settings of `allocate`."""

    arms: int = 8
    ttl: float = 600.0
    delay: float = 0.0
    end_early: float = 0.05

    @classmethod
    def checked(cls, arms: object, ttl: object, delay: object, end_early: object) -> Split:
        """The settings, after a check.

        Raises:
            ConfigError: one of them is out of range.
        """
        check_amount("ttl", ttl, positive=True)
        check_amount("delay", delay)
        check_share("end_early", end_early)
        number = whole("arms", arms, least=1, most=MOST_ARMS)
        return cls(number, float(ttl), float(delay), float(end_early))  # type: ignore[arg-type]


def _check_settings(optimizer: Optimizer) -> None:
    """Raise ConfigError if the settings of a run do not go with a table."""
    safety = optimizer.safety
    refused = {
        "contexts": optimizer.contexts is not None,
        "drift": optimizer.drift is not None,
        'noise="auto"': optimizer.model.noise != "constant",
        "loss_budget": safety.loss_budget is not None,
        "guardrails": bool(safety.guardrails),
        "max_step": bool(safety.max_step),
        "change_cost": bool(safety.change_cost),
        'mode="recommend"': safety.mode == "recommend",
    }
    for name, is_set in refused.items():
        if is_set:
            raise ConfigError(f"allocate: a run with {name} can't split its traffic by a table")


def next_table(optimizer: Optimizer, given: Split, now: datetime) -> Allocated:
    """The event of the next table.  Nothing changes: it works on a copy."""
    _check_settings(optimizer)
    if (last := optimizer._records.table) is not None and now < last.time:
        raise ConfigError(f"time: the table in use is of {last.time}, got {shown(now)}")
    twin = optimizer.copy()
    twin._begin_tables()
    twin._at(now)
    # A row that explores has a small share of the traffic, and what it finds is for all of it.
    twin._gain_share = max(1.0, 1.0 / (given.arms * twin.defaults.traffic.usual_share))
    rows = _chosen(twin, given.arms)
    shares = _shares(twin, rows, given)
    first = _first_trials(twin)
    ids = {asked.number: first.get(_place(twin, asked), asked.number) for asked, _ in rows}
    before = {} if last is None else {each.row: each.slots for each in last.rows}
    slots = assign_slots({ids[number]: share for number, share in shares.items()}, before)
    split = []
    for asked, role in rows:
        number, row = asked.number, ids[asked.number]
        split.append(TableRow(row, number, role, shares[number], slots[row]))
    version = 1 if last is None else last.version + 1
    table = Table(version, now, *given, rows=tuple(split))
    return Allocated(table, tuple(asked for asked, _ in rows))


def _chosen(twin: Optimizer, arms: int) -> list[tuple[Asked, str]]:
    """The trial of each row, with its role; the copy has them as pending afterwards."""
    rows: list[tuple[Asked, str]] = []
    taken: set[bytes] = set()

    def take(asked: Asked, role: str) -> None:
        """Add a row, unless there is one with this setting."""
        place = _place(twin, asked)
        if place not in taken:
            twin.apply(asked)
            taken.add(place)
            rows.append((asked, role))

    known = twin.observations > 0
    if twin.baseline is not None and (arms > 1 or not known):
        why = replace(twin._plain_decision(), reason="baseline")
        take(twin._records.asking(twin.space.validate(twin.baseline), why), BASELINE)
    if known:
        take(twin._asking_best(), MAIN)
    scratch = twin.copy()  # a setting that comes again counts as pending twice there
    for _ in range(_TRIES * (arms - len(rows))):
        if len(rows) == arms or not scratch.remaining:
            break
        asked = scratch.propose()
        scratch.apply(asked)
        take(replace(asked, number=len(twin._records.trials)), EXPLORE)
    if not rows:  # nothing is known, and nothing is left to try
        take(twin.propose(), MAIN)
    return rows


def _place(twin: Optimizer, asked: Asked) -> bytes:
    return twin.space.encode(asked.params).tobytes()


def _first_trials(twin: Optimizer) -> dict[bytes, int]:
    """The number of the first trial at each point."""
    first: dict[bytes, int] = {}
    for record in twin._records.trials:
        first.setdefault(record.x.tobytes(), record.trial.number)
    return first


def _shares(twin: Optimizer, rows: list[tuple[Asked, str]], given: Split) -> dict[int, float]:
    """The share of each trial.  The main row gets what the others leave."""
    rules, roles = twin.defaults.traffic, {asked.number: role for asked, role in rows}
    main = next((n for n, role in roles.items() if role == MAIN), None)
    base = next((n for n, role in roles.items() if role == BASELINE), None)
    explored = [asked for asked, role in rows if role == EXPLORE]
    rest = base if main is None else main
    wish = _wishes(twin, given.arms)
    wishes = [wish(asked.decision) for asked in explored]
    wanted = explored_shares(wishes, rest is not None, given.arms, rules)
    shares = dict(zip((asked.number for asked in explored), wanted, strict=True))
    if main is not None and base is not None:
        shares[base] = rules.baseline_share
    if rest is not None:
        shares[rest] = 1.0 - sum(shares.values())
    return {asked.number: shares[asked.number] for asked, _ in rows}


def _wishes(twin: Optimizer, arms: int) -> Callable[[Decision], float | None]:
    """The share that a row should have, as a function of the decision for it.

    It is None if nothing is known that the share could follow from.
    """
    records, rules = twin._records, twin.defaults.traffic
    pool = Pool.of(records.totals.values())
    counts = [
        sum(records.totals[n].count for n in table.trials if n in records.totals)
        for table in records.tables[-6:]
    ]
    traffic = usual_traffic(counts)

    def wish(why: Decision) -> float | None:
        if why.mean is None or why.sd is None or why.incumbent is None:
            return None
        if traffic is None or not pool.variance > 0.0:
            return None
        gap = max(twin.sign * (why.incumbent - why.mean), 0.0)
        tables = (why.horizon or float(twin.remaining)) / (arms * twin._gain_share)
        return best_share(gap, why.sd, pool.variance, traffic, tables * traffic, rules)

    return wish
