"""Who tunes: the tools of benchmarks.peers, and ours with a version of its defaults.

`regretless@1` is the default of version 1, `regretless-eic@1` is EIC in its place. Without a
version it is the default of the checkout. `botorch-ucb@14` is set up for many parameters: it starts
with 14 points, fits when the data have grown by a tenth, and searches less. BoTorch's fit of a
mixed kernel is limited to 200 iterations, from the last fit on: to the end and from scratch it
takes up to 12 s a step.
"""

from __future__ import annotations

from dataclasses import replace

from benchmarks.peers.tools import OURS, TOOLS, Entry

_MANY_DIMS = {"growth": 0.1, "starts": 4, "raw_samples": 512, "climb": 30}


def tool(name: str) -> Entry:
    """The tool of a name, as it is set up."""
    plain, _, version = name.partition("@")
    told = "start" if plain.startswith("botorch") else "defaults"
    numbered = plain in OURS or told == "start"
    if plain not in TOOLS or (version and not (numbered and version.isdigit())):
        raise SystemExit(f"--tools: {name!r} is unknown; known: {', '.join(TOOLS)}, regretless@K")
    entry = TOOLS[plain]
    if plain.startswith("botorch"):
        entry = replace(entry, settings={**entry.settings, "mixed_fit": 200})
    if version:
        more = _MANY_DIMS if told == "start" else {}
        entry = replace(entry, settings={**entry.settings, **more, told: int(version)})
    return entry


def is_ours(name: str) -> bool:
    return name.partition("@")[0] in OURS
