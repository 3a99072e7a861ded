"""The runner survives anything, the analysis is textbook, and the claims follow their rules."""

from __future__ import annotations

import lzma
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import islice, product
from pathlib import Path

import numpy as np
import pytest

from regretless.errors import ConfigError, MissingExtraError, StorageError
from regretless.experiments import progress as progress_module
from regretless.experiments import records
from regretless.experiments.__main__ import main
from regretless.experiments.ablations import ABLATIONS, CANDIDATES
from regretless.experiments.analyse import Results, interval, paired
from regretless.experiments.claims import ENOUGH, agreement, claims
from regretless.experiments.command import reproduce
from regretless.experiments.problems import PROBLEMS, Problem
from regretless.experiments.progress import progress
from regretless.experiments.records import UNIT, Record, Stamp, append, compact, quantised, read
from regretless.experiments.report import write_report
from regretless.experiments.runner import evaluations, run, run_all
from regretless.experiments.specs import FIGURES, FUNCTIONS, MAIN, SETTINGS, RunSpec, specs
from regretless.model import Model
from regretless.policies import EI, EIC, GPUCB

STAMP = Stamp("0.1.0", "abc", "012345", "3.11", "2.0", "1.13")


def record(id: str = "fig2/schwefel-2/eic/0", steps: tuple[int, ...] = (1, 2, 3)) -> Record:
    return Record(id, steps, 1, {"design": 1, "explore": 2}, 3, 2, 0, 0.5, STAMP)


def small(policies: str = "eic,ei,gp-ucb", trials: int = 2) -> list[RunSpec]:
    return specs(
        "fig2",
        trials=trials,
        functions=["schwefel-2"],
        policies=policies.split(","),
        smoke=True,
    )


# -- which runs there are --------------------------------------------------------------------------


def test_the_figures_are_the_papers() -> None:
    assert len(specs("fig2")) == 100 * 6 * 5
    assert len(specs("fig3")) == 100 * 5
    assert {s.id for s in specs("fig1")} < {s.id for s in specs("fig2")}
    everything = specs("all", trials=2)
    assert len({s.id for s in everything}) == len(everything)
    assert {s.policy for s in everything} == set(SETTINGS)


def test_seeds_are_outermost() -> None:
    wanted = specs("all", trials=3)
    assert [s.seed for s in wanted] == sorted(s.seed for s in wanted)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_a_run_has_the_papers_setting(function: str) -> None:
    spec = RunSpec("fig2", function, "ei", 3)
    optimizer, problem = spec.optimizer(), PROBLEMS[function]
    assert (optimizer.budget, optimizer.seed) == (problem.budget, 3)
    assert optimizer.model == Model.paper()
    reasons = [optimizer.ask().decision.reason for _ in range(problem.n0)]
    assert reasons == ["design"] * problem.n0


def test_the_network_gets_a_mean() -> None:
    model = RunSpec("fig3", "mlp", "eic", 0).optimizer().model
    assert model == replace(Model.paper(), mean="constant")


def test_the_settings_are_what_they_are_called() -> None:
    assert SETTINGS["eic"].policy == EIC()
    assert SETTINGS["ei"].policy == EI(incumbent="mean")
    assert SETTINGS["ei-observation"].policy == EI(incumbent="observation")
    assert SETTINGS["gp-ucb"].policy == GPUCB(beta="log")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"figure": "fig9"}, "figure: need one of .* got 'fig9'"),
        ({"figure": "fig2", "trials": 0}, "trials: need at least 1, got 0"),
        ({"figure": "fig2", "functions": ["mlp"]}, "functions: .* got 'mlp'"),
        ({"figure": "fig2", "policies": ["eic", "best"]}, "policies: .* got 'best'"),
    ],
)
def test_unknown_names_are_refused(arguments: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        specs(**arguments)


def test_the_tables_name_known_policies() -> None:
    named = {policy for a in ABLATIONS for policy in a.policies}
    assert {policy for a in ABLATIONS for pair in a.pairs for policy in pair} <= named
    roles = [roles for _, group in CANDIDATES for roles in group]
    assert {name for pairs in roles for name in pairs.values()} <= named
    assert {name for pairs in roles for name in pairs} <= set(MAIN)
    assert set(FIGURES["ablations"].policies) <= named <= set(SETTINGS)


# -- records ---------------------------------------------------------------------------------------


def test_the_curve_is_right_to_half_a_unit() -> None:
    regrets = np.random.default_rng(0).gamma(0.3, 0.01, size=600)
    steps = quantised(regrets.tolist())
    curve = record(steps=steps).curve
    assert np.abs(curve - np.cumsum(regrets)).max() <= UNIT / 2 + 1e-12


def test_records_come_back_as_they_were(tmp_path: Path) -> None:
    one = record()
    other = replace(record("fig3/mlp/ei/12"), error="ValueError: no")
    for each in (one, other):
        append(tmp_path, each)
    assert read(tmp_path) == {one.id: one, other.id: other}
    compact(tmp_path)
    assert read(tmp_path) == {one.id: one, other.id: other}
    assert sorted(p.name for p in tmp_path.rglob("*.*")) == ["ei.jsonl.xz", "eic.jsonl.xz"]


def test_a_torn_last_line_is_survived(tmp_path: Path) -> None:
    first, second, third = (record(f"fig2/schwefel-2/eic/{seed}") for seed in range(3))
    append(tmp_path, first)
    path = tmp_path / "fig2/schwefel-2/eic.jsonl"
    whole = path.read_bytes()
    line = second.to_line().encode()
    for cut in [*range(0, len(line) - 1, 11), len(line) - 1]:
        path.write_bytes(whole + line[:cut])
        # The very last cut takes only the end of the line: the record is whole.
        expected = {first.id} if cut < len(line) - 1 else {first.id, second.id}
        assert set(read(tmp_path)) == expected
        append(tmp_path, third)
        assert set(read(tmp_path)) == {*expected, third.id}


def test_a_death_within_compaction_is_survived(tmp_path: Path) -> None:
    append(tmp_path, record())
    path = tmp_path / "fig2/schwefel-2/eic.jsonl"
    lines = path.read_bytes()
    compact(tmp_path)
    path.write_bytes(lines)  # packed, but not yet removed
    (path.parent / "eic.jsonl.tmp").write_bytes(b"half of it")
    append(tmp_path, record("fig2/schwefel-2/eic/1"))
    compact(tmp_path)
    assert [r.seed for r in read(tmp_path).values()] == [0, 1]


@pytest.mark.parametrize("content", [b"rubbish", lzma.compress(b"rubbish"), lzma.compress(b"{}")])
def test_a_packed_file_that_is_broken_is_not_passed_over(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "eic.jsonl.xz").write_bytes(content)
    with pytest.raises(StorageError, match="record"):
        read(tmp_path)


def test_one_runner_to_a_folder(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with records.only_runner(tmp_path), pytest.raises(StorageError, match="another runner"):
        run_all(small(), tmp_path, jobs=1)
    run_all(small("eic", 1), tmp_path, jobs=1)
    assert len(read(tmp_path)) == 1


# -- a run -----------------------------------------------------------------------------------------


def test_a_run_says_what_it_did() -> None:
    spec = RunSpec("fig2", "schwefel-2", "eic", 0, smoke=True)
    done = run(spec)
    assert done.error is None
    assert done.id == "fig2/schwefel-2/eic/0"
    assert len(done.steps) == spec.problem.budget == sum(done.reasons.values())
    assert done.design == spec.problem.n0 == done.reasons["design"]
    assert spec.problem.n0 <= done.distinct <= len(done.steps)
    assert done.fits > 0
    assert replace(run(spec), cpu_seconds=0.0) == replace(done, cpu_seconds=0.0)


def test_all_policies_of_a_seed_meet_the_same_noise() -> None:
    # The network's regret is what was observed, so the design's part of it shows the noise.
    def start(policy: str, seed: int) -> list[float]:
        spec = RunSpec("fig3", "mlp", policy, seed, smoke=True)
        return [regret for *_, regret in islice(evaluations(spec), spec.problem.n0)]

    assert start("eic", 0) == start("gp-ts", 0)
    assert start("eic", 0) != start("eic", 1)


def test_noise_is_not_what_the_policies_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[float] = []

    def evaluate(self: Problem, params: dict, rng: np.random.Generator) -> float:
        seen.append(float(rng.standard_normal()))
        return self.value(params) + seen[-1]

    monkeypatch.setattr(Problem, "evaluate", evaluate)
    run(RunSpec("fig2", "schwefel-2", "random", 5, smoke=True))  # unknown: a crash
    run(RunSpec("fig2", "schwefel-2", "ei", 5, smoke=True))
    own = [float(np.random.default_rng([5, k]).standard_normal()) for k in range(len(seen))]
    assert len(seen) == 16
    assert not set(seen) & set(own)


@pytest.fixture
def crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """Evaluation 10 of every run fails."""
    calls = 0
    evaluate = Problem.evaluate

    def failing(self: Problem, params: dict, rng: np.random.Generator) -> float:
        nonlocal calls
        calls += 1
        if calls == 10:
            raise FloatingPointError("the plant exploded")
        return evaluate(self, params, rng)

    monkeypatch.setattr(Problem, "evaluate", failing)


@pytest.mark.usefixtures("crash")
def test_a_crash_is_a_record_and_stays_one(tmp_path: Path) -> None:
    wanted = small("eic", 1)
    assert run_all(wanted, tmp_path, jobs=1) == 0
    (done,) = read(tmp_path).values()
    assert done.error is not None
    assert done.error.startswith("FloatingPointError: the plant exploded (")
    assert "/" not in done.error
    assert len(done.steps) == 9
    assert run_all(wanted, tmp_path, jobs=1) == 0
    assert read(tmp_path) == {done.id: done}
    page = write_report(tmp_path, tmp_path / "page.md")
    assert "the plant exploded" in page
    assert "1 of them crashed" in page


def test_a_missing_package_is_no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    with pytest.raises(MissingExtraError, match=r"regretless\[experiments\]"):
        run(small()[0])


# -- many runs -------------------------------------------------------------------------------------


def test_what_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    assert run_all(small("eic", 1), tmp_path, jobs=1) == 0
    before = read(tmp_path)
    assert run_all(small("eic,ei", 2), tmp_path, jobs=1) == 0
    after = read(tmp_path)
    assert len(after) == 4
    assert before.items() <= after.items()


def test_a_time_limit_starts_nothing_new(tmp_path: Path) -> None:
    assert run_all(small(), tmp_path, jobs=1, limit_minutes=0) == len(small())
    assert not read(tmp_path)


def test_smoke_records_do_not_pass_for_real_ones(tmp_path: Path) -> None:
    run_all(small("eic", 1), tmp_path, jobs=1)
    with pytest.raises(ConfigError, match="folder of their own"):
        run_all(specs("fig2", trials=1), tmp_path, jobs=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"jobs": 0}, "jobs: need at least 1, got 0"),
        ({"backend": "slurm"}, "backend: need one of loky, dask, ray, got 'slurm'"),
        ({"cluster": "tcp://x"}, "cluster: 'tcp://x' needs backend dask or ray"),
    ],
)
def test_settings_that_cannot_be_right(tmp_path: Path, options: dict, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        run_all(small(), tmp_path, **options)


@pytest.mark.parametrize(("backend", "module"), [("dask", "dask.distributed"), ("ray", "ray")])
def test_a_missing_backend_says_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, backend: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(MissingExtraError, match=rf"pip install 'regretless\[{backend}\]'"):
        run_all(small(), tmp_path, backend=backend)


def test_killed_at_any_moment_it_goes_on_to_the_same_table(tmp_path: Path) -> None:
    trials = 5
    killed, whole = tmp_path / "killed", tmp_path / "whole"
    arguments = ["fig2", "--smoke", "--functions", "schwefel-2", "--policies", "eic,ei"]
    arguments += ["--trials", str(trials), "--jobs", "2"]
    arguments += ["--records", str(killed), "--page", str(killed / "page.md")]
    command = [sys.executable, "-m", "regretless.experiments", *arguments]
    runner = subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)
    try:
        wait_for(lambda: len(read(killed)) >= 2)
    finally:
        os.killpg(runner.pid, signal.SIGKILL)
        runner.wait()
    assert 2 <= len(read(killed)) < 2 * trials
    subprocess.run(command, check=True, capture_output=True)
    run_all(small("eic,ei", trials), whole, jobs=1)
    assert regrets(killed) == regrets(whole)
    pages = [write_report(root, root / "page.md") for root in (killed, whole)]
    assert len({final_table(page) for page in pages}) == 1


@pytest.mark.integration
def test_on_a_dask_cluster(tmp_path: Path) -> None:
    distributed = pytest.importorskip("distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    run_all(small("eic,ei"), here, jobs=1)
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address="127.0.0.1:0"
    ) as cluster:
        run_all(small("eic,ei"), there, jobs=2, backend="dask", cluster=cluster.scheduler_address)
    assert regrets(here) == regrets(there)


@pytest.mark.integration
@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::ResourceWarning")
@pytest.mark.parametrize("backend", ["dask", "ray"])
def test_on_a_cluster_of_its_own(tmp_path: Path, backend: str) -> None:
    pytest.importorskip("ray" if backend == "ray" else "distributed")
    here, there = tmp_path / "here", tmp_path / "there"
    run_all(small("eic,ei"), here, jobs=1)
    with socket.socket() as somebody:
        with suppress(OSError):  # taken by somebody else: as good
            somebody.bind(("", 8787))  # where Dask would serve its metrics
            somebody.listen()
        assert run_all(small("eic,ei"), there, jobs=2, backend=backend) == 0
    assert regrets(here) == regrets(there)


def wait_for(condition: Callable[[], bool], seconds: float = 240.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.02)


def regrets(root: Path) -> dict[str, tuple[int, ...]]:
    return {id: record.steps for id, record in read(root).items()}


def final_table(page: str) -> str:
    found = re.search(r"## Final regret R_N.*?(?=\n## )", page, re.DOTALL)
    assert found is not None
    return found.group()


# -- the command -----------------------------------------------------------------------------------


def test_one_command_from_runs_to_page(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = ["fig1", "--smoke", "--jobs", "1", "--trials", "1", "--policies", "eic, ei"]
    arguments += ["--records", str(tmp_path / "records"), "--page", str(tmp_path / "page.md")]
    assert main(arguments) == 0
    assert "wrote" in capsys.readouterr().err
    page = (tmp_path / "page.md").read_text()
    assert "smoke test" in page
    assert "](page/fig1.png)" in page
    assert (tmp_path / "page/fig1.png").stat().st_size < 300_000
    assert str(tmp_path) not in page
    assert main(["analyse", *arguments[-4:]]) == 0
    assert (tmp_path / "page.md").read_text() == page


def test_errors_have_their_exit_codes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["analyse", "--records", str(tmp_path)]) == StorageError.exit_code
    assert "no records there" in capsys.readouterr().err
    assert main(["fig2", "--functions", "mlp", "--records", str(tmp_path)]) == ConfigError.exit_code


def test_what_is_missing_is_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    append(tmp_path, record())
    options = {"records": tmp_path, "page": tmp_path / "page.md", "smoke": True, "jobs": 1}
    missing = reproduce("fig1", trials=1, limit_minutes=0.0, **options)
    assert missing == 3
    assert "3 runs are still missing" in capsys.readouterr().err


def test_time_left_counts_only_own_work(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = 0.0
    monkeypatch.setattr(progress_module.time, "monotonic", lambda: now)
    with progress(total=100, done=60, label="runs") as advance:
        now = 10.0
        advance(10, "a")  # 10 in 10 s, so 30 more take 30 s, whatever was done before
        now = 12.0
        advance(1, "b")  # too soon for another line
    assert capsys.readouterr().err == "runs: 70.0 %, 30 s left, last a\n"


def test_a_bar_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("rich")
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    with progress(total=10, done=5, label="runs") as advance:
        advance(5, "fig2/x")
    assert "100%" in capsys.readouterr().err


# -- the analysis ----------------------------------------------------------------------------------


def test_intervals_are_students() -> None:
    values = np.array([1.0, 2.0, 4.0, 9.0])
    found = interval(values)
    half = 3.182446 * values.std(ddof=1) / 2  # t at 3 degrees of freedom
    assert found.mean == pytest.approx(4.0)
    assert found.half == pytest.approx(half, rel=1e-6)
    assert interval(values[:1]).half == np.inf


def test_differences_are_paired_by_seed() -> None:
    rng = np.random.default_rng(0)
    base = rng.normal(1000, 300, size=10)
    cells = Results.of(
        fake("schwefel-2", policy, int(value + shift), seed)
        for policy, shift, seeds in (("eic", 0, range(10)), ("ei", 7, range(2, 10)))
        for seed, value in enumerate(base)
        if seed in seeds
    )
    eic, ei = (cells.cells["schwefel-2", policy] for policy in ("eic", "ei"))
    gap = paired(ei, eic)
    assert gap is not None
    assert (gap.count, gap.mean, gap.half) == pytest.approx((8, 7 * 40 * UNIT, 0.0), abs=1e-9)


def test_the_share_of_the_design() -> None:
    cell = Results.of([replace(record(steps=(30, 50, 20)), design=2)]).cells["schwefel-2", "eic"]
    assert cell.design_share == pytest.approx(0.8)


def fake(function: str, policy: str, step: int, seed: int, *, late: int | None = None) -> Record:
    """A run that loses `step` units a step, and `late` in the second half, if said."""
    figure = "fig3" if function == "mlp" else "fig2" if policy in MAIN else "ablations"
    n = {"ackley-2": 616, "levy-4": 636, "mlp": 236}.get(function, 40)
    steps = (step,) * (n // 2) + (step if late is None else late,) * (n - n // 2)
    return record(f"{figure}/{function}/{policy}/{seed}", steps)


def as_the_paper_has_it(count: int) -> Iterator[Record]:
    """Records that make every sentence of the paper true."""
    levels = {
        "schwefel-2": {"eic": 1000, "ei": 1005, "ei-nguyen": 1006, "gp-ucb": 990, "gp-ts": 2000},
        "ackley-2": {"eic": 1100, "ei": 1500, "ei-nguyen": 1500, "gp-ucb": 1000, "gp-ts": 3000},
        "levy-4": {"eic": 1000, "ei": 1001, "ei-nguyen": 1002, "gp-ucb": 1003, "gp-ts": 2000},
    }
    others = {"eic": 1000, "ei": 1500, "ei-nguyen": 1505, "gp-ucb": 1010, "gp-ts": 2000}
    network = {"eic": 900, "ei": 1500, "ei-nguyen": 1505, "gp-ucb": 1510, "gp-ts": 2000}
    late = {("ackley-2", "eic"): 400, ("levy-4", "eic"): 950}
    for seed in range(count):
        for function in (*FUNCTIONS, "mlp"):
            row = network if function == "mlp" else levels.get(function, others)
            for policy in MAIN:
                noise = int(np.random.default_rng(seed).normal(0, 40))
                step = row[policy] + noise
                then = late.get((function, policy))
                yield fake(function, policy, step, seed, late=then and then + noise)


def test_claims_are_confirmed_where_they_hold() -> None:
    found = claims(Results.of(as_the_paper_has_it(ENOUGH)))
    wrong = [part for claim in found for part in claim.parts if not part.holds]
    assert not wrong
    assert [claim.verdict for claim in found] == ["confirmed"] * 7


def test_claims_are_unclear_with_few_seeds() -> None:
    few = Results.of(as_the_paper_has_it(5))
    assert {claim.verdict for claim in claims(few)} == {"unclear (R = 5)"}
    assert {claim.verdict for claim in claims(Results({}))} == {"unclear (R = 0)"}


def test_claims_are_contradicted_where_they_fail() -> None:
    swap = {"eic": "gp-ts", "gp-ts": "eic"}
    swapped = [
        replace(r, id="/".join([*r.id.split("/")[:2], swap.get(policy, policy), str(r.seed)]))
        for r in as_the_paper_has_it(ENOUGH)
        for policy in [r.id.split("/")[2]]
    ]
    verdicts = {claim.key: claim.verdict for claim in claims(Results.of(swapped))}
    assert verdicts.pop("C1") == "confirmed"  # nothing about those two has changed
    assert all(verdict.startswith("contradicted in") for verdict in verdicts.values())


@pytest.mark.parametrize(("level", "holds"), [(1500, True), (899, None), (700, False)])
def test_smallest_for_good_fails_only_by_a_difference_that_shows(
    level: int, holds: bool | None
) -> None:
    """EI a hair below EIC's mean on the network is a tie, not a contradiction."""
    runs = [r for r in as_the_paper_has_it(ENOUGH) if "/mlp/ei/" not in r.id]
    for seed in range(ENOUGH):
        common = int(np.random.default_rng(seed).normal(0, 40))  # EIC has it, too
        runs.append(fake("mlp", "ei", level + common + 60 * (-1) ** seed, seed))
    (claim,) = (claim for claim in claims(Results.of(runs)) if claim.key == "C7")
    (part,) = (
        part for part in claim.parts if "from evaluation" in part.text or "never" in part.text
    )
    assert part.holds is holds


@pytest.mark.parametrize(
    ("first", "then", "holds"),
    [(1100, 400, True), (1100, 797, None), (1100, 1100, False), (900, 900, False)],
)
def test_overtaking_fails_only_by_a_difference_that_shows(
    first: int, then: int, holds: bool | None
) -> None:
    runs = [r for r in as_the_paper_has_it(ENOUGH) if "/ackley-2/eic/" not in r.id]
    for seed in range(ENOUGH):
        noise = int(np.random.default_rng(seed).normal(0, 40)) + 60 * (-1) ** seed
        runs.append(fake("ackley-2", "eic", first + noise, seed, late=then + noise))
    (claim,) = (claim for claim in claims(Results.of(runs)) if claim.key == "C5")
    assert claim.parts[-1].holds is holds


def test_policies_without_a_common_seed_leave_it_open() -> None:
    runs = [
        replace(r, id=f"{r.id.rsplit('/', 1)[0]}/{r.seed + 50}") if "/eic/" in r.id else r
        for r in as_the_paper_has_it(ENOUGH)
    ]
    found = {claim.key: claim for claim in claims(Results.of(runs))}
    assert found["C5"].parts[-1].holds is None
    assert found["C7"].parts[1].holds is None


def test_the_setting_that_agrees_best_shows() -> None:
    runs = list(as_the_paper_has_it(ENOUGH))
    runs += [fake(f, "gp-ucb-srinivas", 5000, seed) for f in FUNCTIONS for seed in range(ENOUGH)]
    results = Results.of(runs)
    hold, count = agreement(results, {"gp-ucb": "gp-ucb"})
    assert hold == count > 0
    assert agreement(results, {"gp-ucb": "gp-ucb-srinivas"}) < (hold, count)
    assert agreement(results, {"gp-ucb": "gp-ucb-4"}) == (0, 0)  # has no records
    alone, rest = (agreement(results, {"ei": "ei"}, keys) for keys in (("C1",), ("C3", "C4", "C6")))
    assert alone == (6, 6)
    assert tuple(np.add(alone, rest)) == agreement(results, {"ei": "ei"})


def test_the_page_has_everything(tmp_path: Path) -> None:
    runs = list(as_the_paper_has_it(3))
    others = FIGURES["ablations"].policies
    runs += [fake(f, p, 1500, seed) for f, p, seed in product(FUNCTIONS, others, range(3))]
    for each in runs:
        append(tmp_path / "records", each)
    page = write_report(tmp_path / "records", tmp_path / "page.md")
    assert page in (tmp_path / "page.md").read_text()
    for key in range(1, 8):
        assert f"| C{key} |" in page
    for ablation in ABLATIONS:
        assert f"### {ablation.title}" in page
    for name in ("fig1", "fig2", "fig3"):
        assert 0 < (tmp_path / f"page/{name}.png").stat().st_size < 300_000
    widths = {
        tuple(line.count(" | ") for line in table.splitlines())
        for table in re.findall(r"(?:^\|.*\n)+", page, re.MULTILINE)
    }
    assert all(len(set(counts)) == 1 for counts in widths)
