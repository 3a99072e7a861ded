"""What a notebook shows of runs, trials and results."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

import pytest

import regretless as rl
from regretless.errors import MissingExtraError

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "<b>": rl.Categorical(["<i>", "&"])})


def told(budget: int = 8) -> rl.Optimizer:
    optimizer = rl.Optimizer(SPACE, budget)
    for trial in optimizer:
        optimizer.tell(trial, -abs(trial.params["x"] - 0.3), time=datetime(2026, 1, 1, tzinfo=UTC))  # type: ignore[operator, arg-type]
    return optimizer


def test_everything_has_html_and_escapes_what_users_wrote(tmp_path: Path) -> None:
    optimizer = told()
    with rl.Study.open(tmp_path / "s.db", "<s>", space=SPACE, budget=4) as study:
        study.tell(study.ask(), 1.0)
        shown = {
            "optimizer": optimizer,
            "fresh": rl.Optimizer(SPACE, 3),
            "result": rl.Result(optimizer),
            "best": optimizer.best(),
            "trial": optimizer.trials[-1],
            "decision": optimizer.trials[-1].decision,
            "study": study,
        }
        pages = {name: each._repr_html_() for name, each in shown.items()}
    for name, page in pages.items():
        assert page.startswith("<"), name
        assert "<b></th>" not in page, name
        assert "<i>" not in page, name
    assert "&lt;b&gt;" in pages["best"]
    assert "Study &lt;s&gt;" in pages["study"]
    assert "8 of 8 asked for" in pages["optimizer"]


def test_a_result_prints_its_answer() -> None:
    result = rl.Result(told())
    assert str(result) == repr(result)
    shown, best = str(result), result.best
    mean, low, high = map(float, re.match(r"best (\S+) \(95 %: (\S+) to (\S+)\)", shown).groups())
    step = (best.high - best.low) / 40  # as many digits as tell such a difference
    assert [mean, low, high] == pytest.approx([best.mean, best.low, best.high], abs=step)
    assert "x = " in str(result)
    assert str(result).endswith("after 8 of 8 trials")
    assert "no result yet, interrupted after 0 of 3" in str(
        rl.Result(rl.Optimizer(SPACE, 3), interrupted=True)
    )


def test_a_table_of_the_history(tmp_path: Path) -> None:
    pandas = pytest.importorskip("pandas")
    optimizer = told()
    optimizer.observe({"x": 0.5, "<b>": "&"}, 3.0)
    frame = optimizer.to_dataframe()
    assert list(frame["number"].astype(object))[1:] == list(range(8))
    assert frame["number"].isna()[0]
    assert str(frame["number"].dtype) == "Int64"
    assert frame["time"][1] == pandas.Timestamp("2026-01-01", tz="UTC")
    assert rl.Result(optimizer).to_dataframe().equals(frame)
    assert len(rl.Optimizer(SPACE, 3).to_dataframe()) == 0
    with rl.Study.open(tmp_path / "s.db", "s", space=SPACE, budget=4) as study:
        study.tell(study.ask(), 1.0)
        assert study.to_dataframe()["value"].tolist() == [1.0]


def test_without_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(MissingExtraError, match=r"regretless\[pandas\]"):
        told(2).to_dataframe()


def test_a_sentence_has_enough_digits_to_tell_two_numbers_apart() -> None:
    why = rl.Decision("exploit", "ids", 9, mean=20.0012, sd=0.00212, incumbent=19.9987)
    assert "expected 20.0012 ± 0.00212, at least as good as the value to beat (19.9987)" in str(why)
    rough = rl.Decision("exhausted", "ids", 0, mean=-1234567.0, sd=3e4)
    assert str(rough).endswith("expected -1.235e+06 ± 3e+04")
    flat = rl.Decision("exhausted", "ids", 0, mean=0.0, sd=0.0)
    assert str(flat).endswith("expected 0 ± 0")
