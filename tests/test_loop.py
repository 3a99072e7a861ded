"""One call, here and on executors; whatever happens, what was told is kept."""

import inspect
import itertools
import sys
import threading
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import regretless as rl

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "k": rl.Int(1, 3)})


def bump(params: dict[str, rl.Scalar]) -> float:
    return -((float(params["x"]) - 0.6) ** 2) - 0.1 * abs(int(params["k"]) - 2)


def test_maximize_and_minimize_mirror_each_other() -> None:
    up = rl.maximize(bump, SPACE, 25, seed=4)
    down = rl.minimize(lambda params: -bump(params), SPACE, 25, seed=4)
    np.testing.assert_array_equal(up.values, -down.values)
    assert up.best.params == down.best.params
    assert up.best.params["k"] == 2
    assert abs(up.best.params["x"] - 0.6) < 0.05
    np.testing.assert_allclose(up.regret(0.0), np.cumsum(-up.values))
    np.testing.assert_allclose(down.regret(0.0), up.regret(0.0))
    assert not up.interrupted


def test_the_same_as_the_loop_by_hand() -> None:
    opt = rl.Optimizer(SPACE, 12, seed=2)
    for trial in opt:
        opt.tell(trial, bump(trial.params))
    assert rl.maximize(bump, SPACE, 12, seed=2).optimizer.to_json() == opt.to_json()


def test_threads_take_the_whole_budget() -> None:
    with ThreadPoolExecutor(3) as pool:
        result = rl.maximize(bump, SPACE, 15, executor=pool)
    assert len(result.values) == 15
    assert result.optimizer.pending == []


def test_processes() -> None:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        result = rl.maximize(bump, SPACE, 8, executor=pool, workers=2)
    assert len(result.values) == 8


@pytest.mark.parametrize("parallel", [False, True])
def test_ctrl_c_returns_what_is_there(parallel: bool) -> None:
    def objective(params: dict[str, rl.Scalar]) -> float:
        calls.append(params)
        if len(calls) == 6:
            raise KeyboardInterrupt
        return bump(params)

    calls: list[dict[str, rl.Scalar]] = []
    with ThreadPoolExecutor(1) as pool:
        result = rl.maximize(objective, SPACE, 20, executor=pool if parallel else None)
    assert result.interrupted
    assert len(result.values) == 5
    assert result.optimizer.pending == []
    assert result.best.count >= 1


@pytest.mark.parametrize("parallel", [False, True])
def test_an_exception_is_the_user_s_to_see_and_nothing_is_lost(parallel: bool) -> None:
    def objective(params: dict[str, rl.Scalar]) -> float:
        calls.append(params)
        if len(calls) == 6:
            raise ZeroDivisionError("no such plan")
        return bump(params)

    calls: list[dict[str, rl.Scalar]] = []
    with (
        ThreadPoolExecutor(1) as pool,
        pytest.raises(ZeroDivisionError, match="no such plan") as caught,
    ):
        rl.maximize(objective, SPACE, 20, executor=pool if parallel else None)
    result = caught.value.result
    assert len(result.values) == 5
    assert "trial 5" in caught.value.__notes__[0]
    assert result.optimizer.pending == []
    for trial in result.optimizer:  # and on it goes
        result.optimizer.tell(trial, bump(trial.params))
    assert len(result.values) == 19


def test_a_value_that_can_t_be_right_is_an_error_with_the_rest_kept() -> None:
    values = iter([0.1, 0.2, float("nan")])
    with pytest.raises(rl.DataError, match="nan") as caught:
        rl.maximize(lambda params: next(values), SPACE, 10)
    assert list(caught.value.result.values) == [0.1, 0.2]


def test_callbacks_see_every_result_and_may_stop() -> None:
    seen: list[tuple[int, float]] = []

    def watch(opt: rl.Optimizer, trial: rl.Trial, value: float) -> bool:
        seen.append((trial.number, value))
        return value > -0.01

    result = rl.maximize(bump, SPACE, 50, callbacks=[watch])
    assert [value for _, value in seen] == list(result.values)
    assert seen[-1][1] > -0.01
    assert len(seen) < 50


def test_progress_shows_the_best_and_the_regret(capsys: pytest.CaptureFixture[str]) -> None:
    rl.maximize(bump, SPACE, 8, progress=True, f_star=0.0)
    text = capsys.readouterr().err
    assert "8/8" in text
    assert "best" in text
    assert "regret" in text
    rl.minimize(lambda params: -bump(params), SPACE, 5, progress=True)
    assert "regret" not in capsys.readouterr().err


def test_a_line_that_was_begun_is_ended(capsys: pytest.CaptureFixture[str]) -> None:
    """Also where the run ends early: what the shell prints next must not be glued to it."""

    def objective(params: dict[str, rl.Scalar]) -> float:
        calls.append(params)
        if len(calls) == 3:
            raise KeyboardInterrupt
        return bump(params)

    calls: list[dict[str, rl.Scalar]] = []
    rl.maximize(objective, SPACE, 9, progress=True)
    assert capsys.readouterr().err.endswith("\n")


def test_ctrl_c_while_the_next_trial_is_thought_over(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = rl.Optimizer.ask

    def interrupted(self: rl.Optimizer) -> rl.Trial:
        if self.asked == 4:
            raise KeyboardInterrupt
        return asked(self)

    monkeypatch.setattr(rl.Optimizer, "ask", interrupted)
    result = rl.maximize(bump, SPACE, 9)
    assert result.interrupted
    assert len(result.values) == 4


def test_results_that_are_there_when_another_fails_are_kept() -> None:
    arrived = threading.Event()

    def objective(params: dict[str, rl.Scalar]) -> float:
        number = next(numbers)
        if number == 1:  # fails once the other one of the batch is there
            arrived.wait(10)
            raise OSError("the line is dead")
        return bump(params)

    def release(opt: rl.Optimizer, trial: rl.Trial, value: float) -> None:
        if trial.number >= 3:
            arrived.set()

    numbers = itertools.count()
    with ThreadPoolExecutor(2) as pool, pytest.raises(OSError, match="dead") as caught:
        rl.maximize(objective, SPACE, 20, executor=pool, callbacks=[release])
    result = caught.value.result
    assert len(result.values) >= 3
    assert result.optimizer.pending == []
    assert {row.status for row in result.history} <= {"told", "abandoned"}


def test_an_executor_that_refuses_is_an_error_with_a_result() -> None:
    pool = ThreadPoolExecutor(1)
    pool.shutdown()
    with pytest.raises(RuntimeError) as caught:
        rl.maximize(bump, SPACE, 5, executor=pool)
    assert len(caught.value.result.values) == 0
    assert caught.value.result.optimizer.pending == []


def test_a_callback_that_fails_is_the_user_s_to_see() -> None:
    def fail(opt: rl.Optimizer, trial: rl.Trial, value: float) -> None:
        raise LookupError("no such dashboard")

    with pytest.raises(LookupError) as caught:
        rl.maximize(bump, SPACE, 5, callbacks=[fail])
    assert len(caught.value.result.values) == 1  # the result itself was told


@pytest.mark.parametrize("workers", [0, -1])
def test_workers_that_can_t_be(workers: int) -> None:
    with ThreadPoolExecutor(1) as pool, pytest.raises(rl.ConfigError, match=str(workers)):
        rl.maximize(bump, SPACE, 5, executor=pool, workers=workers)


def test_a_function_is_needed() -> None:
    with pytest.raises(rl.ConfigError, match="3"):
        rl.maximize(3, SPACE, 5)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Frozen(Exception):
    code: int


class HasOne(Exception):
    result = "mine"


@pytest.mark.parametrize("error", [Frozen(3), HasOne("mine")])
def test_an_exception_stays_what_it_is(error: Exception) -> None:
    def broken(params: dict[str, rl.Scalar]) -> float:
        raise error

    with pytest.raises(type(error)) as caught:
        rl.maximize(broken, SPACE, 5)
    assert caught.value is error
    assert getattr(error, "result", "mine") == "mine"


def test_the_note_blames_no_trial_that_went_well(monkeypatch: pytest.MonkeyPatch) -> None:
    propose = rl.Optimizer.propose

    def fails(optimizer: rl.Optimizer, context: Any = None) -> dict[str, Any]:
        if optimizer.asked == 3:
            raise ZeroDivisionError
        return propose(optimizer)

    monkeypatch.setattr(rl.Optimizer, "propose", fails)
    with pytest.raises(ZeroDivisionError) as caught:
        rl.maximize(lambda params: 1.0, SPACE, 5)
    assert "raised between two trials; the 3 results" in caught.value.__notes__[0]


@pytest.mark.parametrize("workers", [2.5, True, "2", 0])
def test_workers_are_counted(workers: Any) -> None:
    with ThreadPoolExecutor(2) as pool, pytest.raises(rl.ConfigError, match="workers: need"):
        rl.maximize(lambda params: 1.0, SPACE, 5, executor=pool, workers=workers)


def test_workers_need_somewhere_to_work() -> None:
    with pytest.raises(rl.ConfigError, match="workers: need an `executor`"):
        rl.maximize(lambda params: 1.0, SPACE, 5, workers=4)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"callbacks": print}, "callbacks: need a list of functions, got <built-in"),
        ({"callbacks": [3]}, r"callbacks: need a list of functions, got \[3\]"),
        ({"executor": 4}, "executor: need one of concurrent.futures, got 4"),
        ({"f_star": "0"}, "f_star: need a number, got '0'"),
    ],
)
def test_options_that_cannot_be_are_refused_before_anything_is_paid(
    options: dict[str, Any], says: str
) -> None:
    paid: list[object] = []
    with pytest.raises(rl.ConfigError, match=says):
        rl.maximize(lambda params: paid.append(params) or 0.0, SPACE, 4, progress=True, **options)
    assert not paid


def test_both_directions_take_the_same_keywords_and_python_refuses_others() -> None:
    up, down = (inspect.signature(one) for one in (rl.maximize, rl.minimize))
    assert up == down
    assert not any(p.kind is p.VAR_KEYWORD for p in up.parameters.values())
    for one in (rl.maximize, rl.minimize):
        with pytest.raises(TypeError, match="unexpected keyword argument 'sed'"):
            one(bump, SPACE, 5, sed=1)  # type: ignore[call-arg]
        assert one(bump, SPACE, 4, seed=3, policy="eic", n0=2).optimizer.seed == 3


def test_the_progress_line_has_the_regret_of_the_run(capsys: pytest.CaptureFixture[str]) -> None:
    result = rl.minimize(bump, SPACE, 6, progress=True, f_star=-2.0)
    last = capsys.readouterr().err.split("\r")[-1]
    assert f"regret {result.regret(-2.0)[-1]:.4g} " in last


def test_a_log_file_gets_one_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    rl.maximize(bump, SPACE, 40, progress=True)
    lines = capsys.readouterr().err.splitlines()
    assert [line.split("] ")[1].split("/")[0] for line in lines] == [
        str(4 * k) for k in range(1, 11)
    ]
    assert not any("\r" in line for line in lines)


def test_a_notebook_gets_one_output_that_is_replaced(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shown: list[str] = []

    class Cell:
        def update(self, data: dict[str, str], *, raw: bool) -> None:
            assert raw
            shown.append(data["text/plain"])

    def display(data: dict[str, str], *, raw: bool, display_id: bool) -> Cell:
        assert raw
        assert display_id
        assert not shown  # once
        shown.append(data["text/plain"])
        return Cell()

    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    package, module = ModuleType("IPython"), ModuleType("IPython.display")
    module.display = display  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "IPython", package)
    monkeypatch.setitem(sys.modules, "IPython.display", module)
    rl.maximize(bump, SPACE, 8, progress=True)
    assert "8/8" in shown[-1]
    assert capsys.readouterr().err == ""


def test_a_terminal_gets_one_line_that_is_rewritten(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    rl.maximize(bump, SPACE, 8, progress=True)
    shown = capsys.readouterr().err
    assert shown.startswith("\r[")
    assert shown.count("\n") == 1
