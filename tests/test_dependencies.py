"""What the checks install is pinned, with all that it needs itself."""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def plain(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def needed(package: str, extras: frozenset[str], seen: set[tuple[str, frozenset[str]]]) -> None:
    """Add what a package needs here, and what that needs."""
    if (package, extras) in seen:
        return
    seen.add((package, extras))
    try:
        lines = requires(package) or []
    except PackageNotFoundError:  # not needed on this system, or not installed
        return
    for one in map(Requirement, lines):
        if one.marker is None or any(one.marker.evaluate({"extra": e}) for e in (*extras, "")):
            needed(plain(one.name), frozenset(one.extras), seen)


def test_everything_that_the_checks_install_has_one_version() -> None:
    text = (ROOT / ".ci" / "requirements.lock").read_text().replace("\\\n", "")
    pins = [line for line in text.splitlines() if not line.startswith("#")]
    assert all(re.fullmatch(r"[\w.-]+==[\w.+]+( +--hash=sha256:[0-9a-f]{64})+", p) for p in pins)
    pinned = {plain(pin.partition("==")[0]) for pin in pins}
    assert len(pinned) == len(pins)
    seen: set[tuple[str, frozenset[str]]] = set()
    needed("regretless", frozenset({"dev"}), seen)
    wanted = {name for name, _ in seen} - {"regretless"}
    assert len(wanted) > 40
    assert wanted - pinned == set()
