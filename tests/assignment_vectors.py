"""Which slot each unit has: the vectors that the clients in all languages are tested against.

    python tests/assignment_vectors.py        # writes tests/assets/assignment_vectors.json

The hash is written here bit by bit, as docs/traffic.md describes it, and shares no code with the
clients.
"""

from __future__ import annotations

import json
import random
from pathlib import Path

PATH = Path(__file__).parent / "assets" / "assignment_vectors.json"

SALTS = ["shop", "shop2", "", "Prices für Österreich", "🛒", "a" * 200]
TEXTS = [
    *["", " ", "  ", "\n", "\t", "\x00", "a\x00b", "\ufeff", "\ufeffa", "\u200b", "\x7f", "\x80"],
    *["a", "A", "b", "aa", "ab", "ba", "user", "User", "USER", "user ", " user", "user\n"],
    *["0", "1", "-1", "00", "01", "1.0", "1e3", "+1", "42", "9007199254740991", "4294967296"],
    *["18446744073709551616", "123456789012345678901234567890", "NaN", "null", "None", "true"],
    *[
        "customer-17",
        "customer-18",
        "alice@example.com",
        "Alice@example.com",
        "bob+tag@example.com",
    ],
    *["6ba7b810-9dad-11d1-80b4-00c04fd430c8", "6BA7B810-9DAD-11D1-80B4-00C04FD430C8"],
    *["é", "e\u0301", "ü", "ß", "ñandú", "Ελλάδα", "Привет", "שלום", "مرحبا", "日本語", "한국어"],
    *["\u07ff", "\u0800", "\ud7ff", "\ue000", "\uffff", "\ufffd", "\U00010000", "\U0010ffff"],
    *["😀", "👩‍👩‍👧‍👦", "🇩🇪", "𝒳", "a😀b", "😀" * 20],
    # Half a character (a lone surrogate) counts as U+FFFD.
    *["\ud800", "\udbff", "\udc00", "\udfff", "\ud800a", "a\udc00b", "\udc00\ud800", "x\ud83d"],
    *["a" * 100, "a" * 1000, "é" * 300, "0123456789" * 50],
]
NUMBERS = [0, 1, -1, 42, 123456, 2**31, 2**32, 2**53 - 1, -(2**53 - 1)]  # the same as their text


def crc32(data: bytes) -> int:
    """CRC-32 by its definition: the remainder of a division of polynomials, bits reversed."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0xEDB88320 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def mixed(h: int) -> int:
    h ^= h >> 16
    h = h * 0x85EBCA6B % 2**32
    h ^= h >> 13
    h = h * 0xC2B2AE35 % 2**32
    return h ^ h >> 16


def utf8(text: str) -> bytes:
    return "".join("\ufffd" if "\ud800" <= c <= "\udfff" else c for c in text).encode()


def slot_of(unit: str | int, salt: str, slots: int) -> int:
    return mixed(crc32(utf8(str(unit))) ^ mixed(crc32(utf8(salt)))) * slots // 2**32


def drawn_table(rng: random.Random, salt: str, slots: int, rows: int) -> dict:
    """A table as the service answers it, with ranges in a random order."""
    cuts = sorted(rng.sample(range(1, slots), 3 * rows - 1))
    ranges = list(zip([0, *cuts], [*cuts, slots], strict=True))
    rng.shuffle(ranges)
    roles = ["exploit", "baseline"] + ["explore"] * rows
    made = [
        {
            "row": 3 * i,
            "trial": 50 + i,
            "role": roles[i],
            "params": {"price": 9.0 + i, "layout": "grid" if i % 2 else "list"},
            "share": sum(end - start for start, end in ranges[i::rows]) / slots,
            "slots": sorted(list(each) for each in ranges[i::rows]),
            "why": "drawn at random",
        }
        for i in range(rows)
    ]
    return {
        "study": "shop",
        "version": 1,
        "salt": salt,
        "slots": slots,
        "made_at": "2026-11-18T12:00:00+00:00",
        "ttl": 600.0,
        "valid_for": 431.2,
        "rows": made,
        "baseline": made[1]["params"] if rows > 1 else None,
    }


def vectors() -> dict:
    rng = random.Random(27)
    drawn = ["".join(chr(rng.randrange(32, 0x2FF)) for _ in range(8)) for _ in range(40)]
    units = [*TEXTS, *NUMBERS, *drawn, *(f"user-{i}" for i in range(60))]
    slots = [10_000] * 4 + [1, 2, 16, 9973, 1_000_000]
    hashes = [
        {"unit": unit, "salt": salt, "slots": n, "slot": slot_of(unit, salt, n)}
        for i, unit in enumerate(units)
        for salt, n in [(SALTS[i % len(SALTS)], slots[i % len(slots)]), ("shop", 10_000)]
    ]
    tables = [
        drawn_table(rng, salt, n, rows)
        for salt, n, rows in [("shop", 10_000, 8), ("shop2", 10_000, 2), ("🛒", 100, 16)]
    ]
    assigned = []
    for table in tables:
        owners = {s: r for r in table["rows"] for a, b in r["slots"] for s in range(a, b)}
        seen = [owners[slot_of(unit, table["salt"], table["slots"])] for unit in units]
        trials = [{"unit": u, "trial": r["trial"]} for u, r in zip(units, seen, strict=True)]
        assigned.append({"table": table, "assigned": trials})
    return {"hashes": hashes, "tables": assigned}


def lines_of(cases: list) -> str:
    """JSON with a line for each case, in ASCII: half a character is written as an escape."""
    return "[\n" + ",\n".join(json.dumps(case) for case in cases) + "\n]"


if __name__ == "__main__":
    parts = [f"{json.dumps(name)}: {lines_of(cases)}" for name, cases in vectors().items()]
    PATH.write_text("{" + ",\n".join(parts) + "}\n")
