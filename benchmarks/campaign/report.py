"""The page of a campaign, from its records."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from benchmarks.campaign.parts import PARTS
from benchmarks.campaign.records import latest

FAULTS = {
    "lost": "lost",
    "doubled": "doubled",
    "hangs": "hangs over 60 s",
    "uncaught": "uncaught errors",
    "bad answers": "wrong answers",
}
KILLS = ("kills of workers", "kills of the service", "kills of PostgreSQL")


def page(every: list[dict[str, Any]]) -> str:
    """The page.  A batch in which something went wrong is done again; its last record counts."""
    records = latest(every)
    before = [record for record in every if record["faults"] and record not in records]
    lines = [
        "# Reliability",
        "",
        "Written by `make campaign` (`benchmarks/campaign`) from the records in",
        "[reliability.jsonl](reliability.jsonl), one for each batch, with its seed and versions.",
        "Each client keeps its own list of what was acknowledged, apart from the journal.",
        "*Lost* is what was acknowledged and is not in the journal. *Doubled* is what is in",
        "the journal twice. A *wrong answer* is one of three: an answer 5xx other than 503 with",
        "Retry-After, a message of more than 1,000 characters, or an answer that the OpenAPI",
        "description of the service does not list. A call *hangs* if it takes more than",
        "60 seconds. On a busy machine the limit is higher: for example 180 seconds, while other",
        "programs slow everything down by a factor of three (`benchmarks/campaign/control.py`).",
        "*Other* counts all other faults. Below the table is a list of the batches with faults.",
        "For schemathesis, *wanted* is an upper limit: it makes fewer requests for an operation",
        "that has few different ones.",
        "",
        f"| | done | wanted | {' | '.join(FAULTS.values())} | other | seeds | minutes |",
        "|---|---|---|" + "---|" * (len(FAULTS) + 3),
        *_rows(records),
        "",
        *_totals(records),
        *_faults("What went wrong, or could not be done", records),
        *_faults("What went wrong before, in batches that were done again since", before),
        *_figures(records),
        *_versions(records),
    ]
    return "\n".join(lines) + "\n"


def _of(records: Iterable[dict[str, Any]], part: str) -> list[dict[str, Any]]:
    return [record for record in records if record["part"] == part]


def _sum(records: Iterable[dict[str, Any]], what: str) -> Counter[str]:
    total: Counter[str] = Counter()
    for record in records:
        total.update(record[what])
    return total


def _rows(records: list[dict[str, Any]]) -> Iterable[str]:
    for name, part in PARTS.items():
        mine = _of(records, name)
        if not mine:
            yield f"| {part.title} | 0 | {part.wanted:,} |" + " – |" * (len(FAULTS) + 3)
            continue
        counts, faults = _sum(mine, "counts"), _sum(mine, "faults")
        other = sum(number for kind, number in faults.items() if kind not in FAULTS)
        cells = [f"{faults[kind]}" for kind in FAULTS]
        seeds = sorted(record["seed"] for record in mine)
        minutes = sum(record["seconds"] for record in mine) / 60
        many = f"{seeds[0]}–{seeds[-1]}" if len(seeds) > 1 else f"{seeds[0]}"
        wanted = (
            f"{part.batches} × {part.size} sequences" if "machine" in name else f"{part.wanted:,}"
        )
        yield (
            f"| {part.title} | {counts[part.counted]:,} | {wanted} | {' | '.join(cells)} | {other}"
            f" | {many} | {minutes:.1f} |"
        )


def _totals(records: list[dict[str, Any]]) -> Iterable[str]:
    counts, faults = _sum(records, "counts"), _sum(records, "faults")
    killed = sum(counts[kind] for kind in KILLS)
    yield (
        f"In all: {killed:,} kills (and {counts['processes that died']:,} more within the"
        f" sequences of verbs), {counts['acknowledged']:,} acknowledged calls,"
        f" {counts['hostile calls of the API']:,} hostile calls of the API and"
        f" {counts['hostile requests'] + counts['requests by schemathesis']:,} hostile requests,"
        f" {counts['verbs against the reference']:,} calls of verbs that were compared"
        f" with a reference. A fault was planted in {counts['verbs that were broken']:,} of these"
        " calls. If it broke the call, the call was repeated."
    )
    yield ""
    yield "; ".join(f"{faults[kind]} {words}" for kind, words in FAULTS.items()) + "."
    short = [
        PARTS[name].title
        for name in PARTS
        if len({record["seed"] for record in _of(records, name)}) < PARTS[name].batches
    ]
    if short:
        yield ""
        yield f"**Not complete**, fewer batches than wanted: {'; '.join(short)}."
    yield ""


def _faults(title: str, records: list[dict[str, Any]]) -> Iterable[str]:
    bad = [record for record in records if record["faults"] or record.get("skipped")]
    if not bad:
        return
    yield f"## {title}"
    yield ""
    for record in bad:
        what = record.get("skipped") or "; ".join(f"{n} {k}" for k, n in record["faults"].items())
        note = f" ({record['notes'][0]})" if record["notes"] else ""
        place = f"{record['part']}, seed {record['seed']}, commit {record['about']['commit']}"
        yield f"- {place}: {what}{note}".replace("\n", " ")[:600]
    yield ""


def _figures(records: list[dict[str, Any]]) -> Iterable[str]:
    yield "## Figures"
    yield ""
    yield "In the part with clock steps, the clock was also set back. Some events therefore have a"
    yield "time that is before the time of the event before them. The figure counts these events."
    yield ""
    for name, part in PARTS.items():
        for record in _of(records, name):
            figures = record["figures"]
            plain = {key: value for key, value in figures.items() if key != "samples"}
            if plain and (record["seed"] == 0 or name == "slow-clients"):
                said = "; ".join(f"{key}: {_shown(value)}" for key, value in plain.items())
                yield f"- **{part.title}**, seed {record['seed']}: {said}"
    yield ""
    for record in _of(records, "traffic"):
        if samples := record["figures"].get("samples"):
            yield f"A day of traffic, seed {record['seed']}, over time:"
            yield ""
            yield f"| {' | '.join(samples[0])} |"
            yield "|" + "---|" * len(samples[0])
            for sample in samples:
                yield f"| {' | '.join(f'{value:,}' for value in sample.values())} |"
            yield ""


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {each}" for key, each in value.items())
    return " and ".join(map(str, value)) if isinstance(value, list) else str(value)


def _versions(records: list[dict[str, Any]]) -> Iterable[str]:
    yield "## Versions"
    yield ""
    commits = Counter(record["about"]["commit"] for record in records)
    each = [
        f"{commit or 'unknown'} ({number} batch{'es' if number > 1 else ''})"
        for commit, number in commits.items()
    ]
    yield f"Commits: {', '.join(each)}."
    about = records[-1]["about"] if records else {}
    names = [name for name in about if name not in ("when", "commit", "source")]
    yield f"{', '.join(f'{name} {about[name]}' for name in names)}."
    if records:
        times = sorted(record["about"]["when"] for record in records)
        yield f"From {times[0]} to {times[-1]}."
