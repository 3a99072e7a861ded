"""The simulated shop: its truth is what its customers do, and its rivals do what they claim."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.families.base import columns
from benchmarks.shop.runs import TOOLS, run
from benchmarks.shop.shops import CUSTOMERS, LATE, LATEST, PERIODS, Increment, shop
from benchmarks.shop.tools import Test as ABTest
from benchmarks.shop.tools import Thompson

SEEDS = range(1000, 1006)


@pytest.mark.parametrize("seed", SEEDS)
def test_customers_spend_what_the_truth_says(seed: int) -> None:
    place, rng, period, customers = shop(seed), np.random.default_rng(seed), 3, 400_000
    parts = place.serve(place.today, period, customers, rng)
    count = sum(part.count for part in parts)
    mean = sum(part.sum for part in parts) / count
    sem = (sum(part.sum_squares for part in parts) / count - mean**2) ** 0.5 / count**0.5
    assert count == customers
    assert abs(mean - place.worth(place.today) * place.day(period)) < 4 * sem
    late = sum(part.count for part in parts if part.late)
    assert late / count == pytest.approx(LATE, rel=0.05)
    assert {part.late for part in parts} == set(range(LATEST + 1))


@pytest.mark.parametrize("seed", SEEDS)
def test_no_setting_is_better_than_the_best(seed: int) -> None:
    place = shop(seed)
    points = place.space.spread(np.random.default_rng(seed).random((5000, place.space.dim)))
    conversion, basket = place.effects(columns(place.space, points))
    worths = np.exp(conversion + basket)
    assert worths.max() <= place.best * (1 + 1e-9)
    better_than = (worths < place.worth(place.today)).mean()
    assert 0.4 < better_than < 0.9  # of a half to four fifths, on other points
    assert place.days.mean() == pytest.approx(1.0)
    assert 3 <= len(place.space.names) <= 5
    assert np.exp(conversion).max() * place.days.max() < 1.0


def test_thompson_s_posterior_is_that_of_the_joint_normal() -> None:
    """Against the joint distribution of worths and effects of periods, with a wide prior."""
    place, rng, prior = shop(1000), np.random.default_rng(0), 0.2
    tool = Thompson(place, prior)
    counts = rng.integers(50, 3000, (16, 4)) * (rng.random((16, 4)) < 0.7)
    sums = counts * (2.0 + rng.normal(0, 0.2, (16, 1)) + rng.normal(0, 0.5, (1, 4)))
    for (arm, period), count in np.ndenumerate(counts):
        if count:
            tool.take(period, arm, Increment(0, int(count), sums[arm, period], 9.0 * count))
    mean, covariance = tool._posterior()
    level = sums.sum() / counts.sum()
    noise = 9.0 - level**2
    seen = np.argwhere(counts)
    design = np.zeros((len(seen), 20))
    design[np.arange(len(seen)), seen[:, 0]] = design[np.arange(len(seen)), 16 + seen[:, 1]] = 1.0
    weights = np.array([counts[a, t] / noise for a, t in seen])
    values = np.array([sums[a, t] / counts[a, t] for a, t in seen])
    priors = np.diag([1 / (prior * level) ** 2] * 16 + [1e-10] * 4)
    joint = np.linalg.inv(design.T @ (weights[:, None] * design) + priors)
    expected = joint @ design.T @ (weights * values)
    between = np.eye(16) - 1 / 16  # only differences of arms are known
    np.testing.assert_allclose(between @ mean, between @ expected[:16], atol=1e-5)
    np.testing.assert_allclose(
        between @ covariance @ between, between @ joint[:16, :16] @ between, atol=1e-6
    )


def test_a_test_takes_the_best_mean() -> None:
    tool = ABTest(shop(1000), periods=2)
    assert [arm.share for arm in tool.table(1)] == [1 / 8] * 8
    for arm in range(8):
        tool.take(0, arm, Increment(0, 100, 50.0 + 10 * (arm == 5), 80.0))
        tool.take(0, arm, Increment(1, 10, 5.0, 8.0))
    (winner,) = tool.table(2)
    assert (winner.name, winner.share) == (5, 1.0)


def test_the_loss_of_today_is_known() -> None:
    record, place = run("today", 1001), shop(1001)
    assert record["lost"] == pytest.approx(1 - place.worth(place.today) / place.best, rel=1e-4)
    assert len(record["curve"]) == PERIODS / 5
    assert PERIODS * CUSTOMERS == 10**6


@pytest.mark.parametrize("tool", ["test 5", "thompson 0.1"])
def test_a_run_is_the_same_again_and_better_than_today(tool: str) -> None:
    first, second = run(tool, 1002), run(tool, 1002)
    assert first["curve"] == second["curve"]
    assert first["lost"] < run("today", 1002)["lost"]


def test_ours_learns_from_late_results_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.shop.runs.PERIODS", 6)
    record = run("ours", 1003)
    assert 0.0 < record["lost"] < 1.0
    assert set(TOOLS) >= {"ours", "ours, no early end"}
