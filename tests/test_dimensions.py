"""The benchmark of many parameters: its instances, its rivals and its page."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

from test_families import made

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.dimensions import report
from benchmarks.dimensions.problems import FAMILIES, KINDS, among, instance
from benchmarks.families import runs
from benchmarks.families.tools import tool


def named(rng, d):
    """Values of the parameters x1 to xd at one point."""
    return {f"x{j}": rng.random(1) for j in range(1, d + 1)}


@pytest.mark.parametrize("kind", range(len(KINDS)))
def test_five_parameters_matter_and_others_do_not(kind):
    drawn = among(30, kind, np.random.default_rng(4))
    rng = np.random.default_rng(5)
    values, others = named(rng, 30), named(rng, 30)
    f = drawn.formula(values)
    changed = [name for name in values if drawn.formula({**values, name: others[name]}) != f]
    assert tuple(changed) == drawn.active
    assert len(changed) == 5
    idle = {name: value for name, value in others.items() if name not in drawn.active}
    assert drawn.formula({**values, **idle}) == f


@pytest.mark.parametrize("seed", [0, 3])
def test_an_instance_keeps_its_promises(seed):
    one, again = instance.__wrapped__("of100", seed), instance.__wrapped__("of100", seed)
    assert (one.space.dim, one.budget) == (100, 200)
    assert 0.05 <= one.noise <= 0.5
    rng = np.random.default_rng(6)
    points = [one.space.decode(x) for x in rng.random((50, 100))]
    assert [one.f(p) for p in points] == [again.f(p) for p in points]
    assert min(one.regret(p, 0.0) for p in points) > 0.0
    assert one.regret(one.best, 0.0) == pytest.approx(0.0, abs=1e-9)


def test_the_valley_is_highest_where_its_hint_says():
    drawn = among(20, 3, np.random.default_rng(7))
    hint = drawn.hints[0]
    at_best = {name: hint[[j]] for j, name in enumerate(named(np.random.default_rng(0), 20))}
    assert drawn.formula(at_best) == pytest.approx(0.0, abs=1e-12)


def test_a_rival_starts_with_so_many_points():
    told = tool("botorch-ucb@14").settings
    assert (told["start"], told["acquisition"], told["growth"]) == (14, "ucb", 0.1)
    assert "start" not in tool("botorch-ucb").settings
    with pytest.raises(SystemExit, match="unknown"):
        tool("random@3")


def test_the_page_says_whether_the_bars_are_met(tmp_path):
    root = tmp_path / "dimensions" / "records"
    lost = {"regretless@5": 80.0, "botorch-ucb@14": 100.0, "optuna-tpe": 120.0}
    for family in FAMILIES:
        for name, regret in lost.items():
            for seed in (0, 1, 100):
                runs.append(root, made(family, name, seed, regret * (1 + seed)))
    report.write(root, tmp_path / "dimensions.md")
    page = (tmp_path / "dimensions.md").read_text()
    assert "| of50 | botorch-ucb@14 | 2 | 0.80 ± 0.00 | 0.9 (met, 8 instances wanted) |" in page
    assert "| of100 | optuna-tpe | 2 | 0.67 ± 0.00 | 0.6 (**not met**, 8" in page
    assert "| of20 | botorch-ucb@14 | 2 |" not in page  # no bar
    assert "**Version 5 is not confirmed.** 4 of 4 comparisons" in page
    assert "and 4 have not been run." in page
    assert "| of50 | **regretless@5** | 113 ± 39 | 80, 160 |" in page
    assert "The seeds that the rules were chosen by" in page
    assert "botorch-ucb@14 0 to 1 and 100" in page
    assert (tmp_path / "dimensions" / "dimensions.png").stat().st_size > 5000
