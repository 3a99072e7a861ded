"""The families of problems: what an instance promises, and the page on tiny records."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.families import learner, report, results, runs, table
from benchmarks.families.__main__ import main
from benchmarks.families.base import at, columns
from benchmarks.families.search import facts, sobol_points
from benchmarks.families.table import CHOOSE, FAMILIES, KEEP, instance, instances
from benchmarks.families.tools import tool

QUICK = [name for name in FAMILIES if name != "learner"]


def blueprint(name, seed):
    return FAMILIES[name].draw(np.random.default_rng([FAMILIES[name].number, seed]).spawn(2)[0])


def some_points(space, n, seed=5):
    return space.spread(np.random.default_rng(seed).random((n, space.dim)))


def test_every_family_is_in_one_half():
    assert len(CHOOSE) >= 7
    assert len(KEEP) >= 7
    assert sorted([*CHOOSE, *KEEP]) == sorted(FAMILIES)
    assert len({family.number for family in FAMILIES.values()}) == len(FAMILIES)


@pytest.mark.parametrize("name", QUICK)
def test_an_instance_keeps_its_promises(name):
    one, again, other = (instance.__wrapped__(name, seed) for seed in (0, 0, 1))
    points = [one.space.decode(x) for x in some_points(one.space, 20)]
    values = [one.f(p) for p in points]
    assert values == [again.f(p) for p in points]
    assert [one.observe(p, 1, 2) for p in points] == [again.observe(p, 1, 2) for p in points]
    assert (one.noise, one.budget) != (other.noise, other.budget)
    assert max(values) <= one.f_star
    assert one.f(one.best) == pytest.approx(one.f_star, abs=1e-9 * one.unit)
    assert 0.05 <= one.noise <= 1
    assert 30 <= one.budget <= 200


@pytest.mark.parametrize("name", QUICK)
def test_many_points_at_once_have_the_values_of_each(name):
    drawn = blueprint(name, 1)
    X = sobol_points(drawn.space, 16)
    single = [drawn.formula(at(drawn.space, drawn.space.decode(x)))[0] for x in X]
    np.testing.assert_allclose(drawn.formula(columns(drawn.space, X)), single, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", ["queue", "price", "latency"])
def test_the_noise_is_the_declared_share_of_the_spread(name):
    one = instance(name, 0)
    rng = np.random.default_rng(0)
    points = [one.space.decode(x) for x in some_points(one.space, 800)]
    noise = [one.draw(p, rng) - one.f(p) for p in points]
    spread = np.std([one.f(p) for p in points])
    assert spread == pytest.approx(one.unit, rel=0.1)
    if blueprint(name, 0).level is None:
        assert np.std(noise) == pytest.approx(one.noise * one.unit, rel=0.1)
    else:  # it grows with the level, and its mean is the declared one
        assert np.sqrt(np.pi / 2) * np.mean(np.abs(noise)) == pytest.approx(
            one.noise * one.unit, rel=0.1
        )


@pytest.mark.parametrize("name", ["hills", "price", "latency", "bids"])
def test_a_stored_best_value_is_what_the_search_finds(name):
    found = facts(blueprint(name, 0))
    one = instance(name, 0)
    assert (found.f_star, found.spread) == pytest.approx((one.f_star, one.unit), rel=1e-6)


def test_a_learner_is_scored_on_one_split_of_many(tmp_path, monkeypatch):
    monkeypatch.setattr(learner, "KEPT", tmp_path)
    monkeypatch.setattr(learner, "_KINDS", (learner._neighbours,))
    drawn = learner.learner(np.random.default_rng(3))
    again = learner.learner(np.random.default_rng(3))  # from the file
    X = drawn.space.grid()
    values = drawn.formula(columns(drawn.space, X))
    assert (values == again.formula(columns(again.space, X))).all()
    params = drawn.space.decode(X[7])
    seen = [drawn.draw(params, np.random.default_rng(k)) for k in range(200)]
    assert len(set(seen)) <= 10
    assert np.mean(seen) == pytest.approx(values[7], abs=4 * np.std(seen) / 200**0.5)


def test_optima_are_not_at_one_place():
    for name in (n for n in QUICK if n not in ("gp-rough", "control")):
        places = np.array(
            [
                (np.mean(np.abs(x - 0.5) > 0.49), np.mean(np.abs(x - 0.5) < 0.1))
                for x in (one.space.encode(one.best) for one in instances(name, range(4)))
            ]
        )
        assert (places.mean(axis=0) < 0.75).all(), name


# -- runs and the page -----------------------------------------------------------------------------


def test_runs_are_recorded_once_and_the_page_is_written(tmp_path, capsys):
    records = tmp_path / "families" / "records"
    arguments = ["--families", "price", "--tools", "random", "regretless@1", "--seeds", "2:3"]
    main([*arguments, "--records", str(records)])
    found = runs.read(records)
    assert set(found) == {f"price/{t}/{s}" for t in ("random", "regretless@1") for s in (2,)}
    one = found["price/regretless@1/2"]
    task = instance("price", 2)
    assert one.error is None
    assert (one.N, one.d) == (task.budget, task.space.dim)
    assert one.stamp["setting"] == "defaults=1"
    assert 0 < one.first < one.regret
    assert one.last < one.regret
    same = runs.run(one.spec)  # the same in another process, but for the time
    assert replace(same, cpu=0.0) == replace(one, cpu=0.0)
    main([*arguments, "--records", str(records)])
    assert runs.read(records) == found
    assert "price" in (tmp_path / "families.md").read_text()


def test_a_crash_is_a_record_and_a_worker_that_dies_is_replaced(tmp_path):
    crash = runs.run(
        runs.Spec("price", "random", 0), lambda *_: replace(instance("price", 0), f=None, draw=None)
    )
    assert crash.error
    assert crash.regret == 0
    wanted = runs.specs(["price"], ["random"], range(2))
    missing = runs.run_all(wanted, tmp_path, command=("-c", "raise SystemExit(3)"))
    assert missing == 0
    assert {run.error for run in runs.read(tmp_path).values()} == {
        "the process ended with exit code 3"
    }


def test_our_tool_stays_away_from_what_is_kept():
    with pytest.raises(SystemExit, match="kept for the end"):
        main(["--families", "keep", "--tools", "regretless", "--seeds", "0:1"])
    runs.check_kept(["bids"], ["regretless@1"], final=True)
    runs.check_kept(["bids"], ["optuna-tpe"], final=False)


def test_a_tool_may_have_a_version():
    assert tool("regretless-eic@1").settings == {"policy": "eic", "defaults": 1}
    for wrong in ("optuna-tpe@1", "regretless@x", "nobody"):
        with pytest.raises(SystemExit, match="unknown"):
            tool(wrong)


def test_ratios_are_geometric_means_with_an_error():
    ratio = results.Ratio.of([np.log(2.0), np.log(8.0)])
    assert ratio.mean == pytest.approx(4.0)
    assert ratio.error == pytest.approx(np.log(2.0))
    assert str(ratio) == "4.00 ± 2.77"
    both = results.Ratio.over([ratio, results.Ratio(1.0, 0.0, 3)])
    assert (both.mean, both.error, both.count) == pytest.approx((2.0, np.log(2.0) / 2, 5))
    assert str(results.Ratio.of([0.0])) == "1.00"


def made(family, tool, seed, regret, error=None):
    """A record that nobody ran."""
    return runs.Run(
        f"{family}/{tool}/{seed}", 50, 2, 0.1, regret, 0.2, 0.1, 0.0, 1.0, {"numpy": "2"}, error
    )


def test_a_row_of_one_instance_varies_as_the_others_do():
    rows = [report.Ratio(2.0, 0.1, 4), report.Ratio(0.5, float("nan"), 1)]
    total = report.Ratio.over(rows)
    assert total.mean == pytest.approx(1.0)
    assert total.error == pytest.approx((0.01 + 0.04) ** 0.5 / 2)


def test_the_newest_default_is_what_others_are_compared_with():
    records = [
        *(made("bids", "optuna-tpe", s, 8.0) for s in range(3)),
        *(made("bids", "regretless@1", s, 4.0) for s in range(4)),
        *(made("bids", "regretless@2", s, 2.0) for s in (0, 1)),
        made("bids", "regretless@2", 2, 0.0, "it broke"),
    ]
    section = results.Section.of({"bids": ("bids",), "yields": ("yields",)}, records)
    assert section.base == "regretless@2"
    assert section.peers == ["optuna-tpe"]
    ratio = section.ratio("bids", "optuna-tpe", section.base)
    assert (ratio.mean, ratio.count) == pytest.approx((4.0, 2))  # the crash is left out
    assert section.ratio("yields", "optuna-tpe", section.base) is None
    assert section.best_peer("bids", "regretless@1")[1].mean == pytest.approx(2.0)
    peers = results.Section.of({"bids": ("bids",)}, records[:3])
    assert peers.base == "optuna-tpe"


def test_the_page_says_whether_the_bars_are_met(tmp_path):
    root = tmp_path / "families" / "records"
    lost = {"regretless@2": 2.0, "regretless@1": 4.0, "regretless-eic@1": 1.8, "optuna-gp": 6.0}
    for family in KEEP:
        for tool_, regret in lost.items():
            for seed in range(2):
                runs.append(root, made(family, tool_, seed, regret * (1 + seed)))
    runs.append(root, made("bids", "optuna-gp", 2, 0.0, "it broke"))
    report.write(root, tmp_path / "families.md")
    page = (tmp_path / "families.md").read_text()
    assert "regretless@2 loses 0.50 times as much as regretless@1" in page
    assert "Against regretless@1, more than 1.05 times on: none" in page
    assert "Against regretless-eic@1, more than 1.05 times on: inventory (1.11), bids" in page
    assert "In the median family 0.33 of the best peer's regret" in page
    assert "Instances of each family: 2 at least" in page
    assert "`bids/optuna-gp/2` crashed: it broke" in page
    assert "No run yet:** queue" in page
    assert (tmp_path / "families" / "keep.png").stat().st_size > 5000


def test_the_page_says_what_got_worse(tmp_path):
    root = tmp_path / "families" / "records"
    for family, new in (("queue", 3.0), ("price", 1.0)):
        for seed in range(2):
            runs.append(root, made(family, "regretless@1", seed, 2.0))
            runs.append(root, made(family, "regretless@2", seed, new))
            runs.append(tmp_path / "outside" / "records", made("bbob-f1", "regretless@2", seed, 4))
            runs.append(tmp_path / "outside" / "records", made("bbob-f1", "regretless@1", seed, 2))
    report.write(root, tmp_path / "families.md")
    page = (tmp_path / "families.md").read_text()
    assert "regretless@2 loses more than regretless@1 on 2 of 3 rows" in page
    assert "| queue | 2 | **1.50 ± 0.00** |" in page
    assert "| bbob, separable | 2 | **2.00 ± 0.00** |" in page
    assert "Problems that nobody here wrote" in page


def test_the_page_of_no_records_is_a_page(tmp_path):
    report.write(tmp_path / "families" / "records", tmp_path / "families.md")
    assert "Too few records" in (tmp_path / "families.md").read_text()


def test_new_best_values_are_stored(tmp_path, monkeypatch):
    monkeypatch.setattr(table, "OPTIMA", tmp_path / "optima.json")
    table.store("latency", [3])
    table.store("latency", [2])
    assert set(table._known()["latency"]) == {"2", "3"}
    assert instance("latency", 3).f_star == table._known()["latency"]["3"][0]
    monkeypatch.undo()
    table._known.cache_clear()
    instance.cache_clear()
