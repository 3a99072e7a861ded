"""Linear algebra runs on one thread while a suggestion is worked out, and only then."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from threading import Barrier, Thread
from typing import ClassVar

import pytest
from threadpoolctl import OpenBLASController, ThreadpoolController, threadpool_limits

import regretless as rl
from regretless._internal import blas as threads
from regretless._internal.blas import one_thread
from regretless.policies import PolicyInput, Score

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0)})


def blas_threads() -> int:
    return max(
        each["num_threads"] for each in ThreadpoolController().select(user_api="blas").info()
    )


@pytest.fixture(autouse=True)
def two_threads() -> Iterator[None]:
    """Without a block of threadpoolctl's: within one no other thread may set a limit."""
    before = threadpool_limits(2)
    OpenBLASController.clear_controlling_thread()
    yield
    before.restore_original_limits()
    OpenBLASController.clear_controlling_thread()


@dataclass(frozen=True)
class Watching(rl.EIC):
    name: ClassVar[str] = "watching"
    seen: ClassVar[list[int]] = []

    def score(self, context: PolicyInput) -> Score:
        self.seen.append(blas_threads())
        return super().score(context)


def test_a_suggestion_is_worked_out_on_one() -> None:
    optimizer = rl.Optimizer(SPACE, 30, policy=Watching())
    Watching.seen.clear()
    for _ in range(8):
        trial = optimizer.ask()
        optimizer.tell(trial, float(trial.params["x"]))
    assert set(Watching.seen) == {1}
    assert blas_threads() == 2


def test_threads_that_overlap_leave_no_limit_behind() -> None:
    first_in, both_in, one_out = Barrier(2), Barrier(2), Barrier(2)

    def first() -> None:
        with one_thread():
            first_in.wait()
            both_in.wait()
        one_out.wait()

    other = Thread(target=first)
    other.start()
    first_in.wait()
    with one_thread():
        both_in.wait()
        one_out.wait()
        assert blas_threads() == 1  # although the one who has set it is gone
        other.join()
    assert blas_threads() == 2
    with one_thread():
        assert blas_threads() == 1
    assert blas_threads() == 2


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_of_a_fork_has_a_limit_of_its_own() -> None:
    with one_thread():
        child = os.fork()
        if not child:
            with one_thread():
                os._exit(0 if blas_threads() == 1 else 1)
        assert os.waitpid(child, 0)[1] == 0
    assert blas_threads() == 2


def test_lifted_after_an_error() -> None:
    with pytest.raises(ZeroDivisionError), one_thread():
        _ = 1 / 0
    assert blas_threads() == 2


def test_it_works_without_threadpoolctl(monkeypatch: pytest.MonkeyPatch) -> None:
    threads._found.cache_clear()
    monkeypatch.setitem(sys.modules, "threadpoolctl", None)
    try:
        with one_thread():
            pass
        assert rl.Optimizer(SPACE, 10).ask().number == 0
    finally:
        threads._found.cache_clear()


RUN = """
import regretless as rl
space = rl.Space({name: rl.Float(0.0, 1.0) for name in "abcd"})
optimizer = rl.Optimizer(space, 110, seed=3, policy="gp-ucb", design="sobol", n0=104)
for trial in optimizer:
    optimizer.tell(trial, -sum((value - 0.3) ** 2 for value in trial.params.values()))
print([trial.params for trial in optimizer.trials])
"""


def test_the_number_of_cores_does_not_change_a_bit() -> None:
    runs = [
        subprocess.run(
            [sys.executable, "-c", RUN],
            env=os.environ | {"OMP_NUM_THREADS": count, "OPENBLAS_NUM_THREADS": count},
            capture_output=True,
            check=True,
        ).stdout
        for count in ("1", "2")
    ]
    assert runs[0] == runs[1] != b""


def test_one_thread_looks_for_the_libraries_and_the_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who went on would import scipy.optimize, and the two would wait for each other for ever."""
    looks, began = [], threading.Barrier(4)

    def look() -> str:
        looks.append(threading.get_ident())
        time.sleep(0.05)  # for the others to come
        return "found"

    monkeypatch.setattr(threads, "_found", cache(look))

    def enter() -> str:
        began.wait(timeout=60)
        return str(threads.blas_libraries())

    with ThreadPoolExecutor(4) as pool:
        assert [each.result() for each in [pool.submit(enter) for _ in range(4)]] == ["found"] * 4
    assert len(looks) == 1
