"""Tables that split the traffic: the model of their results, shares, rows that end, replays."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import regretless as rl
from regretless.defaults import PeriodRules, TrafficRules
from regretless.engine.traffic import (
    Pool,
    Totals,
    best_share,
    evidence_against,
    increment_of,
    is_worse,
    worth_of_units,
)
from regretless.model.periods import Observation
from regretless.model.tables import data_of, effect_of

SPACE = rl.Space({"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0), "c": rl.Float(0.0, 1.0)})
TODAY = {"a": 0.5, "b": 0.5, "c": 0.1}
START = datetime(2026, 1, 1, tzinfo=UTC)
RULES = TrafficRules()


def worth(params: dict[str, Any]) -> float:
    return 0.02 + 0.06 * float(np.exp(-4.0 * sum((v - 0.4) ** 2 for v in params.values())))


def serve(opt: rl.Optimizer, table: rl.Allocation, day: int, units: int = 20_000) -> None:
    """The customers of a day buy or not; the day changes the rate of all settings."""
    rng = np.random.default_rng([day, 3])
    for arm in table.rows:
        count = int(units * arm.share)
        rate = worth(arm.trial.params) * (1.0 + 0.2 * np.sin(day))
        bought = float(rng.binomial(count, rate))
        if count:
            opt.report(arm.trial, count=count, sum=bought, sum_squares=bought)


def run(days: int, seed: int = 0, **options: Any) -> rl.Optimizer:
    opt = rl.Optimizer(SPACE, 8 * days, baseline=TODAY, seed=seed, **options)
    for day in range(days):
        serve(opt, opt.allocate(8, time=START + timedelta(days=day)), day)
    return opt


# -- totals ---------------------------------------------------------------------------------------


def test_increments_in_any_order_are_the_results_themselves() -> None:
    values = np.random.default_rng(0).normal(5.0, 2.0, 60)
    parts = np.split(values, [7, 8, 30])
    sums = [increment_of(0, count=len(p), sum=p.sum(), sum_squares=(p**2).sum()) for p in parts]
    total = Totals()
    for each in reversed(sums):
        total = total.plus(each.totals)
    assert total.count == 60
    assert total.mean == pytest.approx(values.mean())
    assert total.scatter == pytest.approx(values.var() * 60)


def test_a_mean_with_its_error_says_the_same_as_sums() -> None:
    values = np.array([1.0, 4.0, 2.5, 3.0])
    sem = values.std(ddof=1) / 2.0
    by_mean = increment_of(3, count=4, value=values.mean(), sem=sem).totals
    by_sums = increment_of(3, count=4, sum=values.sum(), sum_squares=(values**2).sum()).totals
    assert (by_mean.count, by_mean.sum) == (by_sums.count, pytest.approx(by_sums.sum))
    assert by_mean.squares == pytest.approx(by_sums.squares)


@pytest.mark.parametrize(
    ("wrong", "error", "message"),
    [
        ({"count": 1}, rl.ConfigError, "need either `sum` or `value`"),
        ({"count": 1, "sum": 1.0, "value": 1.0}, rl.ConfigError, "need either"),
        ({"count": -1, "sum": 1.0}, rl.DataError, "count: need a finite number of at least 0"),
        ({"count": 1, "sum": float("nan")}, rl.DataError, "sum: need a finite number, got nan"),
        ({"count": 1, "sum": 1.0, "sum_squares": -1.0}, rl.DataError, "sum_squares"),
        ({"count": 0, "sum": 0.0}, rl.DataError, "nothing is added"),
        ({"count": 0, "value": 1.0}, rl.DataError, "count: a `value` is the mean of at least one"),
        ({"count": 1, "sum": 1.0, "sem": 0.1}, rl.ConfigError, "`sem` belongs to `value`"),
        ({"count": 1, "value": 1.0, "sum_squares": 1.0}, rl.ConfigError, "belongs to `sum`"),
        ({"count": "many", "sum": 1.0}, rl.DataError, "count: .*'many'"),
    ],
)
def test_wrong_increments_are_named(wrong: dict[str, Any], error: type, message: str) -> None:
    opt = rl.Optimizer(SPACE, 9)
    trial = opt.ask()
    with pytest.raises(error, match=message):
        opt.report(trial, **wrong)
    assert opt.pending == [trial]


def test_a_result_counts_from_the_first_report_on_and_late_ones_count() -> None:
    opt = rl.Optimizer(rl.Space({"x": rl.Float(0.0, 1.0)}), 9)
    trial = opt.ask()
    opt.report(trial, count=10, sum=0.0, sum_squares=0.0)
    opt.report(trial, count=0, sum=5.0, sum_squares=25.0)  # one of the ten bought later
    (row,) = opt.history()
    assert (row.status, row.value, row.count) == ("told", 0.5, 10.0)
    assert row.sem == pytest.approx(np.std([0] * 9 + [5], ddof=1) / np.sqrt(10))
    assert opt.observations == 1
    with pytest.raises(rl.TrialError, match="trial 0 has reported results"):
        opt.tell(trial, 0.5)
    opt.retract(trial)
    assert opt.observations == 0
    opt.tell(trial, 0.7)
    with pytest.raises(rl.TrialError, match="trial 0 was told its result at once"):
        opt.report(trial, count=1, sum=1.0)


def test_units_without_any_sale_do_not_count_as_certain() -> None:
    few, many = Totals(20.0, 0.0, 0.0), Totals(10_000.0, 500.0, 500.0)
    pool = Pool.of([few, many])
    found = pool.variance_of(few, RULES)
    assert found == pytest.approx(pool.variance / 20.0, rel=0.05)


# -- the model of results side by side -------------------------------------------------------------


def cells(seed: int, effect: float = 0.5) -> tuple[list[Observation], np.ndarray]:
    rng = np.random.default_rng(seed)
    points, told = rng.random((6, 2)), []
    for table in range(10):
        moved = rng.normal(0.0, effect**0.5)
        for i in rng.choice(6, 3, replace=False):
            variance = float(rng.uniform(0.01, 0.1))
            y = float(np.sin(5 * points[i, 0]) + moved + rng.normal(0.0, variance**0.5))
            told.append(Observation(points[i], y, 1.0, variance, period=table))
    return told, points


@pytest.mark.parametrize("seed", range(3))
def test_results_of_tables_collapse_to_their_points_exactly(seed: int) -> None:
    """The posterior of the collapsed rows is that of all cells with the shared effects."""
    effect = 0.5
    told, points = cells(seed, effect)
    data = data_of(2, told, effect)
    kernel = np.exp(-((points[:, None] - points) ** 2).sum(-1) / 0.2)
    which = [int(np.flatnonzero((points == each.x).all(1))[0]) for each in told]
    same = np.equal.outer([each.period for each in told], [each.period for each in told])
    noise = effect * same + np.diag([float(each.variance or 0) for each in told])
    inverse = np.linalg.inv(kernel[np.ix_(which, which)] + noise)
    cross = kernel[:, which]
    mean = cross @ inverse @ np.array([each.y for each in told])
    covariance = kernel - cross @ inverse @ cross.T

    order = [int(np.flatnonzero((points == x).all(1))[0]) for x in data.x]
    prior = kernel[np.ix_(order, order)]
    gain = prior @ np.linalg.inv(data.covariance(prior, 1.0) + np.diag(1.0 / data.weight))
    np.testing.assert_allclose(gain @ data.y, mean[order], atol=1e-10)
    np.testing.assert_allclose(prior - gain @ prior, covariance[np.ix_(order, order)], atol=1e-10)


def test_the_effect_of_tables_is_estimated() -> None:
    found = [effect_of(cells(seed, effect=0.5)[0], PeriodRules()) for seed in range(12)]
    assert 0.3 < np.median(found) < 0.75
    none = [effect_of(cells(seed, effect=1e-12)[0], PeriodRules()) for seed in range(12)]
    assert np.median(none) < 0.03


def test_the_slope_of_the_evidence_in_the_signal_knows_shared_noise() -> None:
    from regretless.kernels import Matern
    from regretless.model.evidence import evidence
    from regretless.model.hyper import Hyper

    data = data_of(2, cells(1)[0], 0.5)

    def at(log_omega2: float) -> Any:
        hyper = Hyper(Matern((0.4, 0.4), nu=2.5), 0.1, float(np.exp(log_omega2)), 0.25)
        return evidence(data, hyper, profile=False)

    step = 1e-5
    slope = (at(0.3 + step).value - at(0.3 - step).value) / (2 * step)
    assert at(0.3).d_log_omega2 == pytest.approx(slope, rel=1e-5)


# -- shares ----------------------------------------------------------------------------------------


def test_the_worth_of_units_is_what_a_simulation_finds() -> None:
    gap, sd, variance, after, units = 0.02, 0.05, 1.0, 1e5, np.array([2000.0])
    rng = np.random.default_rng(0)
    truth = rng.normal(-gap, sd, 400_000)  # relative to the best setting
    seen = truth + rng.normal(0.0, (variance / units[0]) ** 0.5, truth.shape)
    weight = sd**2 / (sd**2 + variance / units[0])
    after_mean = -gap + weight * (seen + gap)
    simulated = float((units[0] * truth + after * np.where(after_mean > 0, truth, 0.0)).mean())
    found = float(worth_of_units(units, gap, sd, variance, after)[0])
    assert found == pytest.approx(simulated, rel=0.02)


def test_more_is_explored_where_more_is_to_be_gained() -> None:
    def share(gap: float, sd: float, after: float) -> float:
        return best_share(gap, sd, 1.0, 20_000.0, after, RULES)

    assert share(0.02, 0.05, 1e6) > share(0.02, 0.05, 2e4)
    assert share(0.02, 0.05, 1e6) > share(0.2, 0.05, 1e6)
    assert share(0.5, 0.01, 1e6) == pytest.approx(RULES.least_share)


def test_a_table_has_today_the_best_and_what_is_worth_exploring() -> None:
    opt = rl.Optimizer(SPACE, 80, baseline=TODAY, seed=1)
    first = opt.allocate(8, time=START)
    assert [arm.role for arm in first.rows] == ["baseline", *["explore"] * 7]
    assert first.rows[0].share == pytest.approx(0.7)
    assert opt.remaining == 72
    serve(opt, first, 0)
    second = opt.allocate(8, time=START + timedelta(days=1))
    assert second.version > 1
    assert sum(arm.share for arm in second.rows) == pytest.approx(1.0)
    assert sum(high - low for arm in second.rows for low, high in arm.slots) == 10_000
    assert opt.remaining == 64  # rows that are left empty use budget, too
    main = max(second.rows, key=lambda arm: arm.share)
    assert main.role in ("exploit", "baseline")
    assert all(isinstance(str(arm.trial.decision), str) for arm in second.rows)


def slots_of(table: rl.Allocation | None) -> dict[int, set[int]]:
    assert table is not None
    return {arm.row: {s for ends in arm.slots for s in range(*ends)} for arm in table.rows}


def test_a_setting_that_stays_keeps_its_row_and_its_slots() -> None:
    opt = rl.Optimizer(SPACE, 400, baseline=TODAY, seed=2)
    before: dict[int, set[int]] = {}
    for day in range(12):
        table = opt.allocate(6, time=START + timedelta(days=day))
        for row, slots in slots_of(table).items():
            if row in before:
                smaller, larger = sorted((slots, before[row]), key=len)
                assert smaller <= larger
        assert table.rows[0].row == 0  # today's setting was the first trial
        serve(opt, table, day)
        before = slots_of(opt.allocation)  # rows may have ended


def test_without_a_baseline_the_first_rows_share_equally() -> None:
    opt = rl.Optimizer(SPACE, 40, seed=1)
    table = opt.allocate(4, time=START)
    assert [arm.share for arm in table.rows] == [0.25] * 4
    assert table.baseline is None
    serve(opt, table, 0)
    assert "exploit" in [arm.role for arm in opt.allocate(4, time=START).rows]


def test_when_the_budget_is_spent_nothing_is_explored() -> None:
    opt = run(3)
    assert opt.remaining == 0
    table = opt.allocate(8, time=START + timedelta(days=9))
    assert "explore" not in [arm.role for arm in table.rows]


def test_it_finds_a_better_setting_although_days_differ() -> None:
    gains = [worth(run(14, seed).best().params) - worth(TODAY) for seed in range(3)]
    assert np.mean(gains) > 0.25 * (0.08 - worth(TODAY))


# -- rows that end ---------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_row_that_is_as_good_is_rarely_ended_however_often_one_looks() -> None:
    rng, ended = np.random.default_rng(0), 0
    for _ in range(400):
        row, main = Totals(), Totals()
        for _ in range(60):  # a look after each of so many batches
            a, b = float(rng.binomial(40, 0.1)), float(rng.binomial(200, 0.1))
            row, main = row.plus(Totals(40.0, a, a)), main.plus(Totals(200.0, b, b))
            if is_worse(evidence_against(row, main, Pool.of([row, main]), RULES), 0.05):
                ended += 1
                break
    assert ended <= 400 * 0.05 + 3 * (400 * 0.05 * 0.95) ** 0.5


def test_a_row_that_is_much_worse_is_ended_and_its_traffic_goes_to_the_main_row() -> None:
    opt = rl.Optimizer(SPACE, 80, baseline=TODAY)
    table = opt.allocate(3, time=START)
    base, good, bad = table.rows
    for arm, rate in ((base, 0.10), (good, 0.11), (bad, 0.02)):
        opt.report(arm.trial, count=4000, sum=4000 * rate, sum_squares=4000 * rate)
    now = opt.allocation
    assert now is not None
    assert now.version == 2
    assert [arm.trial.number for arm in now.rows] == [base.trial.number, good.trial.number]
    assert now.rows[0].share == pytest.approx(base.share + bad.share)
    assert "worse than the main row: 0.02" in str(opt.history()[bad.trial.number].note)
    opt.report(bad.trial, count=100, sum=3.0, sum_squares=3.0)  # a late one counts
    assert opt.history()[bad.trial.number].count == 4100


def test_the_baseline_is_never_ended_and_nothing_is_if_that_is_switched_off() -> None:
    opt = rl.Optimizer(SPACE, 80, baseline=TODAY, direction="minimize")
    table = opt.allocate(3, time=START, end_early=0.0)
    for arm, rate in zip(table.rows, (0.9, 0.1, 0.5), strict=True):
        opt.report(arm.trial, count=4000, sum=4000 * rate, sum_squares=4000 * rate)
    assert opt.allocation is not None
    assert len(opt.allocation.rows) == 3


# -- delays ----------------------------------------------------------------------------------------


def test_a_trial_is_not_judged_before_its_results_can_be_in() -> None:
    opt = rl.Optimizer(SPACE, 80, baseline=TODAY)
    for day in range(3):
        table = opt.allocate(4, delay=86_400.0, time=START + timedelta(days=day), end_early=0.0)
        serve(opt, table, day)
        expected = {0: 0, 1: 0, 2: 4}[day]  # the first table was over for a day on day 2
        assert opt.observations == expected
    twin = rl.Optimizer.from_json(opt.to_json())
    later = START + timedelta(days=3)
    assert twin.allocate(4, time=later) == opt.allocate(4, time=later)


# -- replays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("defaults", [2, 3])
def test_a_replay_makes_the_same_next_table(defaults: int) -> None:
    opt = run(5, seed=3, defaults=defaults)
    opt.best()  # a look changes nothing
    text = opt.to_json()
    json.loads(text)
    twin, later = rl.Optimizer.from_json(text), START + timedelta(days=9)
    assert twin.allocate(8, time=later) == opt.allocate(8, time=later)
    assert twin.best() == opt.best()
    assert twin.ask() == opt.ask()


@settings(max_examples=15, deadline=None)
@given(data=st.data())
def test_looks_tells_and_retractions_between_reports_change_no_bit(data: st.DataObject) -> None:
    opt = rl.Optimizer(SPACE, 90, baseline=TODAY, seed=5)
    numbers: list[int] = []
    for step in range(data.draw(st.integers(3, 12))):
        verbs = ["allocate", "ask", "report", "look", "tell", "retract"]
        verb = data.draw(st.sampled_from(verbs if numbers else verbs[:2]))
        if verb == "allocate":
            table = opt.allocate(3, time=START + timedelta(hours=step))
            numbers += [arm.trial.number for arm in table.rows]
        elif verb == "ask":
            numbers.append(opt.ask().number)
        elif verb == "look" and opt.observations:
            opt.best()
        else:
            number = data.draw(st.sampled_from(numbers))
            value = data.draw(st.integers(1, 9)) / 10
            try:
                if verb == "report":
                    opt.report(number, count=10, sum=10 * value, sum_squares=10 * value)
                elif verb == "tell":
                    opt.tell(number, value)
                elif verb == "retract":
                    opt.retract(number)
            except rl.TrialError:
                continue
    twin, later = rl.Optimizer.from_json(opt.to_json()), START + timedelta(days=2)
    assert twin.history() == opt.history()
    assert twin.allocate(3, time=later) == opt.allocate(3, time=later)


def test_as_of_finds_the_trial_of_a_table() -> None:
    opt = run(2)
    assert opt.as_of(9).observations == 8


# -- bad input -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ({"drift": "auto"}, "drift"),
        ({"noise": "auto"}, "noise"),
        ({"loss_budget": 1.0, "baseline": TODAY}, "loss_budget"),
        ({"guardrails": [rl.AtMost("p99", 2.0)]}, "guardrails"),
        ({"max_step": {"a": 0.1}, "baseline": TODAY}, "max_step"),
        ({"mode": "recommend"}, "recommend"),
        ({"contexts": {"hour": rl.Cyclic(0, 24)}}, "contexts"),
    ],
)
def test_settings_that_do_not_go_with_a_table_are_named(options: dict[str, Any], name: str) -> None:
    with pytest.raises(rl.ConfigError, match=f"allocate: a run with .*{name}"):
        rl.Optimizer(SPACE, 20, **options).allocate(4)


@pytest.mark.parametrize(
    ("wrong", "name"),
    [
        ({"arms": 0}, "arms"),
        ({"arms": 101}, "arms"),
        ({"ttl": 0}, "ttl"),
        ({"delay": -1}, "delay"),
        ({"end_early": 2}, "end_early"),
    ],
)
def test_wrong_settings_of_a_table_are_named(wrong: dict[str, Any], name: str) -> None:
    opt = rl.Optimizer(SPACE, 20)
    with pytest.raises(rl.ConfigError, match=f"{name}: need"):
        opt.allocate(**wrong)
    assert opt.trials == []


def test_time_does_not_run_backwards() -> None:
    opt = run(1)
    with pytest.raises(rl.ConfigError, match="time: the table in use is of"):
        opt.allocate(4, time=START - timedelta(days=1))


# -- results at the limits of numbers -------------------------------------------------------------


@pytest.mark.parametrize(
    "reports",
    [
        [{"count": 1e-300, "sum": 1e50}],  # a mean above the largest float
        [{"count": 1e100, "sum": 1e100, "sum_squares": 1e100}] * 2,
        [{"count": 10, "value": 1e100, "sem": 1e100}, {"count": 1e100, "sum": -1e100}],
        [{"count": 1.0 + 1e-15, "value": 1e100, "sem": 1e100}],
        [{"count": 1e100, "value": 0.0, "sem": 1e-100}],
    ],
)
def test_totals_of_any_size_leave_a_run_that_goes_on(reports: list[dict[str, Any]]) -> None:
    opt = rl.Optimizer(SPACE, 30, baseline=TODAY)
    for day in range(2):
        for arm in opt.allocate(3, time=START + timedelta(days=day)).rows:
            for each in reports:
                opt.report(arm.trial, **each)
    later = START + timedelta(days=2)
    again = rl.Optimizer.from_json(opt.to_json())
    assert again.allocate(3, time=later) == opt.allocate(3, time=later)


def test_an_error_of_a_mean_that_no_sum_can_hold_is_refused() -> None:
    with pytest.raises(rl.DataError, match="sem: too large"):
        increment_of(0, count=1e100, value=1.0, sem=1e100)


def test_results_that_hardly_scatter_beside_the_effect_of_a_table() -> None:
    opt = rl.Optimizer(SPACE, 30, baseline=TODAY)
    for day in range(4):
        for i, arm in enumerate(opt.allocate(3, time=START + timedelta(days=day)).rows):
            opt.report(arm.trial, count=10, value=float(i * i + day), sem=1e-9)
    assert opt.allocate(3, time=START + timedelta(days=4)).rows


@pytest.mark.parametrize("sem", [1e-6, 1e-8, 1e-9, 1e-12])
def test_a_row_that_is_clearly_better_is_not_ended(sem: float) -> None:
    main = increment_of(0, count=10, value=1.0, sem=sem).totals
    for value in np.linspace(1.5, 4.0, 30):
        row = increment_of(1, count=10, value=value, sem=sem).totals
        assert evidence_against(row, main, Pool(18.0, 10.0 * sem**2), RULES) < 0.0
        assert evidence_against(main, row, Pool(18.0, 10.0 * sem**2), RULES) > 100.0


def test_any_time_to_live_and_delay() -> None:
    opt = rl.Optimizer(SPACE, 30, baseline=TODAY)
    for day in range(3):
        table = opt.allocate(3, ttl=1e100, delay=1e100, time=START + timedelta(days=day))
        opt.report(table.rows[0].trial, count=10, sum=1.0, sum_squares=1.0)
    used = opt._records.table
    assert used is not None
    assert not used.is_due(START + timedelta(days=9))
    assert not opt._records.is_mature(0, START + timedelta(days=9))


@pytest.mark.parametrize(
    "change",
    [
        {"add": {"d": (rl.Float(0.0, 1.0), 0.3)}},
        {"widen": {"a": rl.Float(-1.0, 3.0)}},
        {"freeze": {"c": 0.1}},
    ],
)
def test_what_was_reported_before_a_change_of_the_space_stays_where_it_was(
    change: dict[str, Any],
) -> None:
    def changed(look: bool) -> rl.Optimizer:
        opt = rl.Optimizer(SPACE, 40)
        for day in range(2):
            serve(opt, opt.allocate(3, time=START + timedelta(days=day)), day)
        if look:
            opt.best()
        opt.change_space(**change)
        return opt

    plain, looked = changed(look=False), changed(look=True)
    again = rl.Optimizer.from_json(plain.to_json())
    later = START + timedelta(days=2)
    table = plain.allocate(3, time=later)
    assert looked.allocate(3, time=later) == table
    assert again.allocate(3, time=later) == table
