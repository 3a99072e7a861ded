"""Do the runs that have no record yet, on the cores of this machine or on a Dask or Ray cluster."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import time
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import scipy

import regretless
from regretless.errors import ConfigError, MissingExtraError
from regretless.experiments import records
from regretless.experiments.progress import progress
from regretless.experiments.records import Record, Stamp
from regretless.experiments.specs import RunSpec
from regretless.results import Decision

BACKENDS = ("loky", "dask", "ray")

# The optimiser draws decision k of a run from the stream [seed, k].  The noise has its own stream,
# so that it is independent of the draws of the policies.
_NOISE = 0x6E6F697365


# The packages that decide what a run suggests.
_CORE = ("kernels", "space", "design", "model", "theory", "policies", "search", "engine")


def _digest() -> str:
    """A digest of the code that a run depends on."""
    root = Path(regretless.__file__).parent
    core = [path for name in _CORE for path in sorted((root / name).rglob("*.py"))]
    alone = [root / f"{name}.py" for name in ("defaults", "horizon", "improvement", "results")]
    tables = [
        root / "experiments" / f"{name}.py" for name in ("mlp", "problems", "runner", "specs")
    ]
    files = [*core, *alone, *tables]
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


# Computed at import in each worker, because the files may change while it runs.
_SOURCE = _digest()


def run(spec: RunSpec) -> Record:
    """Do one run on one core; an error becomes part of the record."""
    regrets: list[float] = []
    decisions: list[Decision] = []
    points: set[tuple[Any, ...]] = set()
    error = None
    started = time.thread_time()
    try:
        with _one_thread():
            for params, decision, regret in evaluations(spec):
                regrets.append(regret)
                decisions.append(decision)
                points.add(tuple(params.values()))
    except MissingExtraError:
        raise  # not the policy's fault, so it is not recorded
    except Exception as failure:  # noqa: BLE001 (every error is recorded)
        error = _brief(failure)
    return Record(
        id=spec.id,
        steps=records.quantised(regrets),
        design=sum(decision.reason == "design" for decision in decisions),
        reasons=dict(Counter(decision.reason for decision in decisions)),
        distinct=len(points),
        fits=sum(decision.refitted for decision in decisions),
        failed_fits=sum(decision.refitted and not decision.fit_ok for decision in decisions),
        cpu_seconds=round(time.thread_time() - started, 2),
        stamp=stamp(),
        error=error,
    )


def evaluations(spec: RunSpec) -> Iterator[tuple[dict[str, Any], Decision, float]]:
    """The parameters, the decision and the regret of each evaluation of a run, one by one."""
    problem, optimizer = spec.problem, spec.optimizer()
    for trial in optimizer:
        # The noise depends only on seed and number, so all policies get the same noise in a seed.
        rng = np.random.default_rng([_NOISE, spec.seed, trial.number])
        observed = problem.evaluate(trial.params, rng)
        optimizer.tell(trial, observed)
        yield trial.params, trial.decision, problem.regret(trial.params, observed)


def run_all(
    wanted: Sequence[RunSpec],
    root: Path,
    *,
    jobs: int = 2,
    backend: str = "loky",
    cluster: str | None = None,
    limit_minutes: float | None = None,
) -> int:
    """Do the runs that have no record yet.

    It may be killed at any time.  The records remain, and the next call continues from there.

    Args:
        wanted: the runs.
        root: the folder of the records.
        jobs: the number of runs at a time.
        backend: "loky" (this machine), "dask" or "ray".
        cluster: the address of a running Dask or Ray cluster; None to start a local one.
        limit_minutes: start no new run after this time.

    Returns:
        The number of runs that still have no record.

    Raises:
        ConfigError: an argument is out of range, or a record is of a run with another budget.
        MissingExtraError: a package that the backend needs is not installed.
        StorageError: another runner uses the folder.
    """
    if jobs < 1:
        raise ConfigError(f"jobs: need at least 1, got {jobs!r}")
    deadline = None if limit_minutes is None else time.monotonic() + 60 * limit_minutes
    with records.only_runner(root):
        known = records.read(root)
        _check_sizes(wanted, known)
        todo = [spec for spec in wanted if spec.id not in known]
        if not todo:
            return 0
        by_id = {spec.id: spec for spec in todo}
        # Progress is counted in evaluations, because runs have between 216 and 636 of them.
        work = {spec.id: spec.problem.budget for spec in wanted}
        done = sum(work[spec.id] for spec in wanted if spec.id in known)
        try:
            with progress(sum(work.values()), done, "runs") as advance:
                for record in _results(todo, jobs, backend, cluster, deadline):
                    records.append(root, record)
                    del by_id[record.id]
                    advance(work[record.id], record.id)
        finally:
            records.compact(root)
    return len(by_id)


def _results(
    todo: Sequence[RunSpec],
    jobs: int,
    backend: str,
    cluster: str | None,
    deadline: float | None,
) -> Iterator[Record]:
    try:
        from joblib import Parallel, delayed
    except ImportError as error:
        raise MissingExtraError("experiments", "joblib") from error
    tasks = (delayed(run)(spec) for spec in _until(deadline, todo))
    with _workers(backend, jobs, cluster):
        if backend == "ray":  # its joblib backend can't return results one by one
            while batch := list(islice(tasks, 4 * jobs)):
                yield from Parallel(n_jobs=jobs, batch_size=1)(batch)
        else:
            yield from Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered")(tasks)


def _until(deadline: float | None, todo: Iterable[RunSpec]) -> Iterator[RunSpec]:
    for spec in todo:
        if deadline is not None and time.monotonic() >= deadline:
            return
        yield spec


@contextmanager
def _workers(backend: str, jobs: int, cluster: str | None) -> Iterator[None]:
    """Use joblib's workers on this machine, or those of the cluster at this address."""
    from joblib import parallel_config

    if backend not in BACKENDS:
        raise ConfigError(f"backend: need one of {', '.join(BACKENDS)}, got {backend!r}")
    if backend == "loky":
        if cluster is not None:
            raise ConfigError(f"cluster: {cluster!r} needs backend dask or ray")
        opened: Any = nullcontext()
    else:
        opened = _dask(jobs, cluster) if backend == "dask" else _ray(jobs, cluster)
    with opened, parallel_config(backend, n_jobs=jobs):
        yield


@contextmanager
def _dask(jobs: int, cluster: str | None) -> Iterator[None]:
    try:
        from dask.distributed import Client, LocalCluster
    except ImportError as error:
        raise MissingExtraError("dask", "dask.distributed") from error
    if cluster is not None:
        with Client(cluster):
            yield
        return
    # Port 0 takes any free port.  The default, 8787, may be in use by another cluster.
    local = LocalCluster(n_workers=jobs, threads_per_worker=1, dashboard_address="127.0.0.1:0")
    with local, Client(local):
        yield


@contextmanager
def _ray(jobs: int, cluster: str | None) -> Iterator[None]:
    try:
        import ray
        from ray.util.joblib import register_ray
    except ImportError as error:
        raise MissingExtraError("ray", "ray") from error
    register_ray()
    where = {"num_cpus": jobs} if cluster is None else {"address": cluster}
    ray.init(**where, include_dashboard=False, log_to_driver=False)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _one_thread() -> Iterator[None]:
    """Limit BLAS to one thread: faster at these sizes, and the same bits on any number of cores.

    The CPU time of a run is then also comparable.
    """
    try:
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise MissingExtraError("experiments", "threadpoolctl") from error
    with threadpool_limits(1):
        yield


def _check_sizes(wanted: Iterable[RunSpec], known: dict[str, Record]) -> None:
    """Raise ConfigError if a record has another budget, because it is of a smoke run."""
    for spec in wanted:
        record = known.get(spec.id)
        budget = spec.problem.budget
        if record is not None and record.error is None and len(record.steps) != budget:
            raise ConfigError(
                f"records: {spec.id} has {len(record.steps)} evaluations there, {budget} here;"
                " smoke runs need a folder of their own"
            )


def _brief(failure: Exception) -> str:
    """The error and its place in the code, without the paths of this machine."""
    frames = traceback.extract_tb(failure.__traceback__)[-3:]
    where = " < ".join(f"{Path(f.filename).name}:{f.lineno} {f.name}" for f in reversed(frames))
    return f"{type(failure).__name__}: {failure} ({where})"


@cache
def stamp() -> Stamp:
    """The versions of the software that is running."""
    return Stamp(
        version=regretless.__version__,
        commit=_commit(),
        source=_SOURCE,
        python=platform.python_version(),
        numpy=np.__version__,
        scipy=scipy.__version__,
    )


def _commit() -> str:
    """The commit of the code that is running; "" if it is not in a git checkout."""
    here = Path(__file__)

    def git(*arguments: str) -> str:
        command = ["git", "-C", str(here.parent), *arguments]
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    try:
        if not git("ls-files", here.name):  # an installed copy inside another repository
            return ""
        # Only changes of the code count, not those of records and pages.
        edited = git("status", "--porcelain", "--", str(here.parents[1]))
        return git("describe", "--always", "--abbrev=12") + ("-dirty" if edited else "")
    except (OSError, subprocess.TimeoutExpired):
        return ""
