"""Whether the hash of the clients is uniform, and independent between studies.

    python benchmarks/assignment_hash.py       # about a minute

Ids of five kinds, 10⁶ of each, with 16 salts that are alike. Each p-value is that of a chi-square
test. If the hash is good, the p-values are uniform, which a Kolmogorov–Smirnov test checks.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from zlib import crc32

import numpy as np
from scipy.stats import chi2, kstest

from regretless._internal.arrays import Array
from regretless.client import slot_of
from regretless.client.traffic import mixed

COUNT, SLOTS, CELLS = 1_000_000, 10_000, 64
ODD = 0x9E3779B97F4A7C15F39CC0605CEDC835
SALTS = (
    *("shop", "shop2", "shop3", "Shop", "a", "b", "prices", "checkout", "checkout-1", "checkout-2"),
    *("", "x" * 50, "é", "study-0001", "study-0002", "study-0010"),
)


def ids(kind: str) -> Iterable[str]:
    for i in range(COUNT):
        yield {
            "prefixed numbers": f"user-{i}",
            "numbers": f"{i}",
            "padded numbers": f"{i:012d}",
            "hexadecimal": f"{i * ODD % 2**128:032x}",
            "addresses": f"a{i % 1000}.b{i // 1000}@example.com",
        }[kind]


KINDS = ("prefixed numbers", "numbers", "padded numbers", "hexadecimal", "addresses")


def slots_of(crcs: Array, salt: str, slots: int) -> Array:
    """`slot_of` for many units whose CRC is known."""
    h = crcs ^ np.uint32(mixed(crc32(salt.encode())))
    h = (h ^ h >> 16) * np.uint32(0x85EBCA6B)
    h = (h ^ h >> 13) * np.uint32(0xC2B2AE35)
    found: Array = (((h ^ h >> 16).astype(np.uint64) * slots) >> np.uint64(32)).astype(int)
    return found


def p_value(cells: Array, count: int) -> float:
    expected = COUNT / count
    counts = np.bincount(cells, minlength=count)
    return float(chi2.sf(((counts - expected) ** 2 / expected).sum(), count - 1))


def main() -> None:
    uniform, independent = [], []
    for kind in KINDS:
        crcs = np.fromiter((crc32(each.encode()) for each in ids(kind)), np.uint32, COUNT)
        first = next(iter(ids(kind)))
        assert slots_of(crcs[:1], "shop", SLOTS)[0] == slot_of(first, "shop", SLOTS)
        uniform += [p_value(slots_of(crcs, salt, SLOTS), SLOTS) for salt in SALTS]
        coarse = {salt: slots_of(crcs, salt, CELLS) for salt in SALTS}
        pairs = combinations(SALTS, 2)
        independent += [p_value(coarse[a] * CELLS + coarse[b], CELLS**2) for a, b in pairs]
    for name, found in {"uniform": uniform, "independent": independent}.items():
        fit = kstest(found, "uniform").pvalue
        print(f"{name}: {len(found)} tests, smallest p {min(found):.2g}, p of all {fit:.2f}")


if __name__ == "__main__":
    main()
