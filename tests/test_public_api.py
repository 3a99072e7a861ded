"""The public names are pinned, and importing them costs little."""

import json
import os
import subprocess
import sys
from pathlib import Path

import regretless

# Extend this list on purpose: whatever stands here is promised to the users.
PINNED = {
    "errors": [
        "ArchivedError",
        "BudgetError",
        "ConfigError",
        "CorruptJournalError",
        "DataError",
        "MissingExtraError",
        "RegretlessError",
        "NoResultsError",
        "ServiceError",
        "SpaceError",
        "StorageError",
        "TrialError",
        "UnknownStudyError",
        "UnknownTrialError",
    ],
    "space": ["Categorical", "Cyclic", "Float", "Int", "Ordinal", "Parameter", "Scalar", "Space"],
    "structured": ["Graph", "Permutation", "Sequence", "Structured", "Subset", "Tree"],
    "ask and tell": [
        "Allocation",
        "Arm",
        "AskTell",
        "AtLeast",
        "AtMost",
        "Best",
        "Decision",
        "Drift",
        "Landscape",
        "Ledger",
        "Optimizer",
        "Row",
        "Study",
        "Trial",
    ],
    "one call": ["Result", "maximize", "minimize"],
    "model": ["Kernel", "Matern", "Model", "Prior", "SE"],
    "policies of one's own": ["Constraint", "PolicyInput", "PosteriorScore", "Score"],
    "policies": [
        "AEI",
        "EI",
        "EIC",
        "GPTS",
        "GPUCB",
        "IDS",
        "EINguyen",
        "ExploreThenCommit",
        "Policy",
        "Random",
    ],
    "package": ["__version__"],
}

# Compared with numpy and scipy.linalg in the same process, so that a slow machine does not matter.
PROBE = """
import json, sys, time
import numpy, scipy.linalg
before = set(sys.modules)
start = time.process_time()
import regretless
seconds = time.process_time() - start
files = {m: getattr(sys.modules[m], "__file__", None) or "" for m in set(sys.modules) - before}
print(json.dumps({"seconds": seconds, "files": files, "modules": sorted(sys.modules)}))
"""


def probe(cache: Path) -> dict:
    """In a process that may keep bytecode, whatever the environment of the tests says."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    env["PYTHONPYCACHEPREFIX"] = str(cache)
    command = [sys.executable, "-c", PROBE]
    run = subprocess.run(command, capture_output=True, text=True, check=True, env=env)
    return json.loads(run.stdout)


def test_public_names_are_pinned() -> None:
    assert sorted(regretless.__all__) == sorted(name for names in PINNED.values() for name in names)


def test_public_names_exist() -> None:
    assert not [name for name in regretless.__all__ if not hasattr(regretless, name)]


def test_import_needs_only_numpy_and_scipy(tmp_path: Path) -> None:
    found = probe(tmp_path)
    installed = [m for m, file in found["files"].items() if "site-packages" in file]
    assert {m.split(".")[0] for m in installed} <= {"numpy", "scipy", "regretless"}
    assert "regretless" in found["files"]
    assert not {"scipy.stats", "scipy.optimize", "scipy.special"} & set(found["modules"])


def test_import_is_quick(tmp_path: Path) -> None:
    # The best of three: the first one may have to compile bytecode.
    assert min(probe(tmp_path)["seconds"] for _ in range(3)) < 0.25
