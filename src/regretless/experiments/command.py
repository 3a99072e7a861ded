"""What `regretless reproduce` and `python -m regretless.experiments` do."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from regretless.experiments.report import write_report
from regretless.experiments.runner import run_all
from regretless.experiments.specs import FIGURES, specs

WHAT = (*FIGURES, "all", "analyse")
HOME, SMOKE_HOME = Path("docs/results"), Path("build/smoke")


def reproduce(
    what: str,
    *,
    trials: int | None = None,
    functions: Sequence[str] = (),
    policies: Sequence[str] = (),
    jobs: int = 2,
    backend: str = "loky",
    cluster: str | None = None,
    smoke: bool = False,
    records: Path | None = None,
    page: Path | None = None,
    limit_minutes: float | None = None,
) -> int:
    """Run what is missing of a figure and write the results page; returns how many still are.

    what           fig1, fig2, fig3, ablations, all; or analyse, which runs nothing
    trials         seeds per function and policy: 100, or 2 in a smoke run
    functions      only these (all of the figure's if empty); likewise policies
    jobs           runs at a time
    backend        loky (this machine), dask or ray
    cluster        the address of a running Dask or Ray cluster; a local one is started without it
    smoke          tiny runs that try the whole pipeline, in a folder of their own
    records, page  where the records are, and where the page goes
    limit_minutes  start no new run after this time
    """
    home = SMOKE_HOME if smoke else HOME
    folder = records or home / "paper" / "records"
    page = page or home / "paper.md"
    missing = 0
    if what != "analyse":
        wanted = specs(
            what,
            trials=(2 if smoke else 100) if trials is None else trials,
            functions=functions,
            policies=policies,
            smoke=smoke,
        )
        missing = run_all(
            wanted,
            folder,
            jobs=jobs,
            backend=backend,
            cluster=cluster,
            limit_minutes=limit_minutes,
        )
        if missing:
            print(f"{missing} runs are still missing; the same command goes on", file=sys.stderr)
    write_report(folder, page)
    print(f"wrote {page}", file=sys.stderr)
    return missing
