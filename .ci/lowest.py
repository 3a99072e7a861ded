"""Print the lowest versions that pyproject.toml allows, one `name==version` a line.

python .ci/lowest.py > build/lowest.txt        # constraints for pip; see `make test-lowest`
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

PROJECT = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
BOUND = re.compile(r"([\w-]+)(?:\[[\w,]+\])?>=([\d.]+)")
# Heavy ones have a target of their own, and what only the tests need may be new.
SKIPPED = {"botorch", "ray", "dask", "dev", "all"}


def lowest() -> dict[str, str]:
    extras = PROJECT["optional-dependencies"]
    lines = [*PROJECT["dependencies"]]
    lines += [line for extra in extras.keys() - SKIPPED for line in extras[extra]]
    return {found[1]: found[2] for line in lines if (found := BOUND.fullmatch(line))}


if __name__ == "__main__":
    for name, version in sorted(lowest().items()):
        print(f"{name}=={version}")
