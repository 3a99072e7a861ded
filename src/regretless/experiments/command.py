"""Run the experiments and write the results page, for `regretless reproduce`."""

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
    """Do the runs of a figure that have no record yet, and write the results page.

    Args:
        what: "fig1", "fig2", "fig3", "ablations" or "all"; "analyse" only writes the page.
        trials: the number of seeds for each function and policy; by default 100, or 2 in a smoke
            run.
        functions: run only these functions; all of the figure if it is empty.
        policies: run only these policies; all of the figure if it is empty.
        jobs: the number of runs at a time.
        backend: "loky" (this machine), "dask" or "ray".
        cluster: the address of a running Dask or Ray cluster; None to start a local one.
        smoke: whether to do tiny runs that test the whole pipeline, in their own folder.
        records: the folder of the records.
        page: the file of the results page.
        limit_minutes: start no new run after this time.

    Returns:
        The number of runs that still have no record.

    Raises:
        ConfigError: an argument is unknown or out of range.
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
