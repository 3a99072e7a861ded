"""Write requirements.lock: the versions of this environment, with the hashes of their files.

    .venv/bin/python .ci/lock.py        # after `make test` has passed

The hashes are those of the package index.  Listed are the files that a CPython of 3.11 or newer may
choose on Linux: wheels, and sources where there is no wheel.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

INDEX = "https://pypi.org/simple/"
LOCK = Path(__file__).parent / "requirements.lock"
HEADER = """\
# What `make coverage` installs, with its dependencies, as .ci/lock.py has written it.
# pip refuses a file whose hash is not listed: pip install --require-hashes --no-deps -r <this file>
"""
LINK = re.compile(r'<a href="[^"#]*/([^"/#]+)#sha256=([0-9a-f]{64})"')


def main() -> None:
    command = [sys.executable, "-m", "pip", "freeze", "--exclude-editable"]
    frozen = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    LOCK.write_text(HEADER + "".join(map(_entry, sorted(frozen, key=str.lower))))


def _entry(pinned: str) -> str:
    """A line for the version, and one for each hash."""
    name, _, version = pinned.partition("==")
    if not version or "@" in pinned:
        raise SystemExit(f"{pinned}: not from the index, so there is no hash")
    files = _files(name, version)
    chosen = [file for file in files if _fits(file)]
    chosen = chosen or [file for file in files if file.endswith(".tar.gz")]
    if not chosen:
        raise SystemExit(f"{pinned}: the index has no file of it")
    digests = (f" \\\n    --hash=sha256:{files[file]}" for file in sorted(chosen))
    return f"{pinned}{''.join(digests)}\n"


def _fits(file: str) -> bool:
    """Whether the file is a wheel for Linux and CPython 3.11 or newer."""
    if not file.endswith(".whl"):
        return False
    python, abi, system = file.removesuffix(".whl").split("-")[-3:]
    newer = any(tag == "py3" or re.fullmatch("cp31[1-9]", tag) for tag in python.split("."))
    return (newer or abi == "abi3") and (system == "any" or "linux" in system)


def _files(name: str, version: str) -> dict[str, str]:
    """The files of the version, with their hashes."""
    normal = re.sub(r"[-_.]+", "-", name).lower()
    with urlopen(f"{INDEX}{normal}/", timeout=60) as answer:
        page = answer.read().decode()
    names = re.sub("-", "[-_.]+", normal)
    begin = re.compile(rf"{names}-{re.escape(version)}(-|\.tar)", re.IGNORECASE)
    return {file: digest for file, digest in LINK.findall(page) if begin.match(file)}


if __name__ == "__main__":
    main()
