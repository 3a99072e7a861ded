"""The gate, the incumbents and the scores, against their definitions."""

from collections.abc import Callable
from dataclasses import replace
from math import inf, nan

import numpy as np
import pytest

import regretless as rl
from regretless._internal.arrays import Array
from regretless.defaults import NEWEST, Defaults, defaults_of
from regretless.horizon import Horizon
from regretless.improvement import gate, h
from regretless.kernels import SE, Matern
from regretless.model import GP, Data, Hyper
from regretless.policies import (
    POLICIES,
    Candidates,
    PolicyInput,
    PosteriorScore,
    incumbent_value,
    make_policy,
)


def context(
    seed: int = 0, m: int = 12, dim: int = 2, remaining: int = 40, defaults: Defaults = NEWEST
) -> PolicyInput:
    rng = np.random.default_rng(seed)
    x, kernel = rng.random((m, dim)), Matern((0.4,) * dim)
    y = np.linalg.cholesky(kernel.gram(x) + 0.05 * np.eye(m)) @ rng.standard_normal(m)
    gp = GP.of(Data.of(x, y), Hyper(kernel, 0.05, 1.3, 0.25))
    return PolicyInput(
        posterior=gp,
        rows=m,
        horizon=Horizon(m + remaining, m),
        best_observation=float(y.max()),
        unit=2.0,
        rng=np.random.default_rng(seed),
        draw=lambda: rng.random(dim),
        highest=lambda width: (np.array([0.9, 0.2]), 9.0),
        defaults=defaults,
    )


def test_the_gate_is_ei_against_its_cost() -> None:
    """alpha >= L exactly where z >= t_m (paper.md 4.1), and Lemma 2."""
    rng = np.random.default_rng(0)
    mu, xi = rng.normal(0, 2, (2, 100_000))
    s = np.exp(rng.normal(-1, 1.5, 100_000))
    m = rng.choice(np.exp(rng.uniform(0, np.log(1e6), 200)).astype(int), 100_000)
    z = (mu - xi) / s
    alpha, cost = s * h(z), s * h(-z) / m
    gates = {k: gate(float(k)) for k in np.unique(m)}
    t = np.array([gates[k] for k in m])
    clear = np.abs(z - t) > 1e-9  # on the edge rounding decides
    visible = alpha > 1e-300
    np.testing.assert_array_equal((alpha >= cost)[clear & visible], (z >= t)[clear & visible])
    assert not (z >= t)[~visible].any()
    assert (t >= -np.sqrt(2 * np.log(m)) - 1e-12).all()
    np.testing.assert_allclose(alpha - cost * m, mu - xi, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("remaining", [1, 2, 17, 500])
@pytest.mark.parametrize("seed", range(10))
def test_the_incumbent_always_passes(remaining: int, seed: int) -> None:
    """B_n is never empty (paper.md 4.2)."""
    here = context(seed, remaining=remaining)
    best = here.posterior.data.x[[here.incumbent.row]]
    _, slack = rl.EIC().score(here)(best)
    assert slack[0] >= -1e-9


def test_incumbents() -> None:
    here = context()
    mu, sigma = here.posterior.at_data
    assert incumbent_value(here, "mean") == mu.max()
    assert incumbent_value(here, "observation") == here.posterior.data.y.max()
    assert incumbent_value(here, "domain") == 9.0
    expected = (mu - 1.2815515655446004 * here.posterior.omega * sigma).max()
    assert incumbent_value(here, "quantile", 0.9) == pytest.approx(expected)
    assert incumbent_value(here, "quantile", 0.5) == pytest.approx(mu.max())


SCORES = {
    "eic": rl.EIC(),
    "ei": rl.EI(),
    "ei-observation": rl.EI(incumbent="observation"),
    "aei-huang": rl.AEI(factor="huang"),
    "aei-printed": rl.AEI(factor="printed"),
    "ids": rl.IDS(),
    "ids-directed": rl.IDS(directed=True),
    "gp-ucb": rl.GPUCB(),
    "gp-ts": rl.GPTS(features=64),
    "gp-ts-scaled": rl.GPTS(features=64, scale=2.0),
}


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("barrier", [0.0, 0.1])
def test_gradients(name: str, barrier: float) -> None:
    here = context(3)
    score = SCORES[name].score(here)
    x = np.random.default_rng(1).random((200, 2))
    x = x[score(x)[1] > 0.05][:25]
    value, slope = score.ascend(x, barrier)
    for column in range(2):
        step = np.zeros(2)
        step[column] = 1e-6
        numeric = (score.ascend(x + step, barrier)[0] - score.ascend(x - step, barrier)[0]) / 2e-6
        np.testing.assert_allclose(slope[:, column], numeric, rtol=1e-4, atol=1e-5)
    if barrier == 0.0:
        np.testing.assert_allclose(value, score(x)[0], rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", SCORES)
def test_a_score_over_candidates_is_that_of_the_data_and_then_of_the_others(name: str) -> None:
    here = context(3)
    score = SCORES[name].score(here)
    others = np.random.default_rng(7).random((9, 2))
    together = score.over(Candidates(here.posterior, others))
    apart = score.at_rows(slice(here.rows)), score(others)
    for one, known, new in zip(together, *apart, strict=True):
        np.testing.assert_allclose(one, np.append(known, new), rtol=1e-9, atol=1e-12)
    at_data, there = score.at_rows(slice(here.rows)), score(here.posterior.data.x)
    np.testing.assert_allclose(at_data[0], there[0], rtol=1e-6, atol=1e-6)


def test_scores_are_what_they_are_called() -> None:
    here = context()
    x = np.random.default_rng(2).random((50, 2))
    mu, sigma = here.posterior.predict(x)
    s, noise = here.posterior.omega * sigma, here.posterior.noise_sd
    xi = incumbent_value(here, "mean")
    rng = np.random.default_rng(0)
    draws = mu[:, None] + s[:, None] * rng.standard_normal((50, 200_000))
    ei = np.maximum(draws - xi, 0).mean(axis=1)
    np.testing.assert_allclose(np.exp(rl.EI().score(here)(x)[0]), ei, rtol=0.1, atol=2e-3)

    plain = rl.EI().score(here)(x)[0]
    huang, printed = (rl.AEI(factor=f).score(here)(x)[0] - plain for f in ("huang", "printed"))
    np.testing.assert_allclose(np.exp(huang), 1 - noise / np.hypot(s, noise))
    np.testing.assert_allclose(np.exp(printed), s / np.hypot(s, noise))
    np.testing.assert_allclose(rl.GPUCB(beta=4.0).score(here)(x)[0], mu + 2 * s)


def test_widths_of_gp_ucb() -> None:
    here = context()
    n, d = here.horizon.asked + 1, 2
    assert rl.GPUCB(beta=9).width(here) == 3
    assert rl.GPUCB(beta="log").width(here) == pytest.approx(np.sqrt(0.2 * d * np.log(2 * n)))
    srinivas = 2 * np.log(2 * np.pi**2 * n**2 / 0.3) + 2 * d * np.log(
        n**2 * d * np.sqrt(np.log(4 * d / 0.1))
    )
    assert rl.GPUCB(beta="srinivas").width(here) == pytest.approx(np.sqrt(srinivas))
    theirs = 2.0 + np.sqrt(2 * (here.posterior.information + 1 + np.log(1 / 0.1)))
    assert rl.GPUCB(beta="chowdhury-gopalan", bound=2.0).width(here) == pytest.approx(theirs)


def test_widths_of_gp_ts() -> None:
    here = context()
    assert rl.GPTS().width(here) == 1
    assert rl.GPTS(scale=3).width(here) == 3
    v_n = 2.0 + np.sqrt(2 * (here.posterior.information + 1 + np.log(2 / 0.1)))
    wide = rl.GPTS(scale="chowdhury-gopalan", bound=2.0)
    assert wide.width(here) == pytest.approx(v_n)
    x = np.random.default_rng(1).random((20, 2))
    drawn = wide.score(replace(here, rng=np.random.default_rng(2)))(x)[0]
    path = here.posterior.sample_path(np.random.default_rng(2), wide.features, v_n)
    np.testing.assert_allclose(drawn, path(x))


def test_nguyen_falls_back_to_the_largest_sample_mean() -> None:
    here = context()
    policy = rl.EINguyen(kappa=1e-4)
    edge = np.log(1e-4 / here.unit)  # kappa is in the user's units
    assert policy.settle(here, edge + 1e-9) is None
    assert policy.settle(here, edge - 1e-9) == int(np.argmax(here.posterior.data.y))
    assert rl.EINguyen(kappa=0.0).settle(here, -1e9) is None


def test_nguyen_does_not_fall_back_to_a_point_under_way() -> None:
    """The rows beyond `rows` are what is expected of pending trials."""
    here = next(c for c in map(context, range(20)) if np.argmax(c.posterior.data.y) > 1)
    y = here.posterior.data.y
    best = int(np.argmax(y))
    told = replace(here, rows=best)
    assert rl.EINguyen().settle(told, -99.0) == int(np.argmax(y[:best]))
    assert told.incumbent.row < best


def test_ei_is_eic_without_its_gate() -> None:
    space = rl.Space({"x": rl.Float(0, 1), "y": rl.Float(0, 1)})

    def run(policy: rl.Policy) -> list[dict[str, rl.Scalar]]:
        opt = rl.Optimizer(space, 20, policy=policy, seed=5)
        for trial in opt:
            x, y = (float(v) for v in trial.params.values())
            noise = np.random.default_rng(trial.number).standard_normal()
            opt.tell(trial, np.sin(9 * x) + y + 0.1 * noise)
        return [trial.params for trial in opt.trials]

    assert run(rl.EI()) == run(rl.EIC(gate=False, merge=False))
    assert run(rl.EI()) != run(rl.EIC())


def test_theory_s_omega_widens_the_posterior() -> None:
    here = context()
    score = rl.EIC(omega_scale=2.0, delta=0.1).score(here)
    assert isinstance(score, PosteriorScore)
    expected = 2.0 * np.sqrt(here.posterior.information + 1 + np.log(10))
    assert score.omega == pytest.approx(expected)


def test_a_schedule_of_theory_s_omega_ends_in_what_was_learnt_or_in_its_last() -> None:
    here = context()
    assert here.horizon.asked == 12

    def width(gamma: float) -> float:
        return 2.0 * float(np.sqrt(gamma + 1 + np.log(10)))

    listed = tuple(float(n) for n in range(20))
    for gamma, wanted in (
        (listed, 12.0),
        (listed[:13], 12.0),
        (listed[:12], max(here.posterior.information, 11.0)),
        ((1e3,), 1e3),  # past its end omega_n must not fall
        ((1e-3,), here.posterior.information),
    ):
        policy = rl.EIC(omega_scale=2.0, delta=0.1, gamma=gamma)
        assert policy.omega(here) == pytest.approx(width(wanted)), gamma


def test_explore_then_commit() -> None:
    space = rl.Space({"x": rl.Float(0, 1)})
    opt = rl.Optimizer(space, 20, policy=rl.ExploreThenCommit(0.5), n0=2)
    for trial in opt:
        opt.tell(trial, float(trial.params["x"]))
    late = {trial.params["x"] for trial in opt.trials[10:]}
    assert len(late) == 1
    assert late == {max(trial.params["x"] for trial in opt.trials)}


def test_explore_then_commit_serves_the_best_mean_of_each_time() -> None:
    """Under noise that may be another point later on, but never a new one."""
    rng = np.random.default_rng(0)
    opt = rl.Optimizer(
        rl.Space({"x": rl.Float(0, 1)}), 40, policy=rl.ExploreThenCommit(0.5), seed=1
    )
    for trial in opt:
        if trial.number >= 20:
            assert trial.params == opt.best().params
        opt.tell(trial, -((trial.params["x"] - 0.4) ** 2) + 0.3 * rng.standard_normal())
    seen = [trial.params["x"] for trial in opt.trials]
    assert 1 < len(set(seen[20:])) < 10
    assert set(seen[20:]) <= set(seen[:20])


@pytest.mark.parametrize("name", POLICIES)
def test_json_there_and_back(name: str) -> None:
    policy = POLICIES[name]()
    assert make_policy(policy.to_json()) == policy == make_policy(name)


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: rl.EI(incumbent="best"), "best"),  # type: ignore[arg-type]
        (lambda: rl.EI(incumbent="quantile", beta=1.0), "1.0"),
        (lambda: rl.EIC(omega_scale=0.0), "0.0"),
        (lambda: rl.EIC(delta=2.0), "2.0"),
        (lambda: rl.AEI(factor="other"), "other"),  # type: ignore[arg-type]
        (lambda: rl.EINguyen(kappa=-1.0), "-1.0"),
        (lambda: rl.EINguyen(kappa=float("nan")), "nan"),
        (lambda: rl.GPUCB(beta="wide"), "wide"),
        (lambda: rl.GPUCB(beta=-4.0), "-4.0"),
        (lambda: rl.GPTS(scale="wide"), "wide"),
        (lambda: rl.GPTS(features=0), "0"),
        (lambda: rl.ExploreThenCommit(1.5), "1.5"),
        (lambda: make_policy({"name": "eic", "colour": 1}), "colour"),
        (lambda: make_policy("nothing"), "nothing"),
    ],
)
def test_options_that_can_t_be_right(make, named: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(rl.ConfigError, match=named):
        make()


def test_replicates_are_merged_only_where_nothing_can_be_learnt() -> None:
    """The rule of `search.same_point`, from its definition by brute force."""
    from regretless.policies import Candidates
    from regretless.search import same_point

    x = np.array([[0.30], [0.31], [0.70]])
    gp = GP.of(Data.of(x, np.array([1.0, 1.0, 0.0])), Hyper(SE((0.3,)), 0.01, 1.0, 0.0))
    here = context()
    score = rl.EI().score(
        PolicyInput(**{**here.__dict__, "posterior": gp, "rows": 3, "best_observation": 1.0})
    )
    for new in np.linspace(0.25, 0.75, 41):
        for remaining in (1, 10, 1000):
            row = same_point(score, Candidates(gp, x[:0]), np.array([new]), remaining, NEWEST.merge)
            both = np.vstack([[[new]], x])
            mu, _ = gp.predict(both)
            cov = gp.covariance(both)
            apart = [
                np.sqrt((mu[0] - mu[i]) ** 2 + max(0, cov[0, 0] + cov[i, i] - 2 * cov[0, i]))
                for i in (1, 2, 3)
            ]
            same = [
                i
                for i in range(3)
                if apart[i] <= gp.noise_sd / np.sqrt(remaining) and abs(x[i, 0] - new) <= 0.05
            ]
            best = max(same, key=lambda i: score(x[[i]])[0][0]) if same else None
            assert row == best


@pytest.mark.parametrize(("version", "caution"), [(1, 1.0), (2, 1.0), (3, 0.0)])
def test_ids_weighs_what_is_feared_against_what_is_learnt(version: int, caution: float) -> None:
    """Kirschner and Krause's ratio, at points and at the data, with b from the gate.

    Version 1 fears mu - b s, and version 3 expects mu.
    """
    here = context(remaining=40, defaults=defaults_of(version))
    x = np.random.default_rng(1).random((50, 2))
    mu, sigma = here.posterior.predict(x)
    s, t = here.posterior.omega * sigma, gate(1 + 0.3 * 39)
    b = -t
    resolution = max(here.posterior.noise_sd**2, 0.1 * here.posterior.omega**2)
    ratio = (9.0 - (mu - caution * b * s)) ** 2 / np.log1p(s**2 / resolution)
    value, slack = rl.IDS().score(here)(x)
    inside = inside_share(here, x) if version == 3 else 0.0
    np.testing.assert_allclose(value, inside - np.log(ratio), rtol=1e-7)
    np.testing.assert_array_equal(slack >= 0, (mu - incumbent_value(here, "mean")) / s >= t)


def inside_share(here: PolicyInput, x: Array) -> Array:
    """log of what a look at x tells within the square, over what one in the middle tells.

    Squared correlations exp(-|x - z|^2 / h^2) are added up over a fine grid of z.
    """
    h = here.posterior.scales(2)
    z = (np.arange(4000) + 0.5) / 4000
    told = np.ones(len(x))
    for column in range(2):
        near = np.exp(-(((x[:, column, None] - z) / h[column]) ** 2)).mean(axis=1)
        told *= near / np.exp(-(((0.5 - z) / h[column]) ** 2)).mean()
    return np.log(told)


def test_a_look_near_a_border_tells_ids_less() -> None:
    here = context(remaining=40, defaults=defaults_of(3))
    x = np.random.default_rng(1).random((20, 2))
    score = rl.IDS().score(here)
    assert isinstance(score, PosteriorScore)
    plain = replace(score, place=None)
    # at any points, at the data, and at candidates
    np.testing.assert_allclose(score(x)[0] - plain(x)[0], inside_share(here, x), atol=1e-6)
    rows = slice(here.rows)
    gap = score.at_rows(rows)[0] - plain.at_rows(rows)[0]
    np.testing.assert_allclose(gap, inside_share(here, here.posterior.points), atol=1e-6)
    both = Candidates(here.posterior, x)
    np.testing.assert_array_equal(score.over(both)[0][here.rows :], score(x)[0])
    # its gradient
    step = 1e-6
    value, slope = score.ascend(x, 1e-3)
    for column in range(2):
        move = step * np.eye(2)[column]
        high, low = (score.ascend(x + sign * move, 1e-3)[0] for sign in (1, -1))
        np.testing.assert_allclose(
            slope[:, column], (high - low) / (2 * step), rtol=1e-4, atol=1e-4
        )
    assert np.isfinite(value).all()


def test_a_column_without_order_has_no_border() -> None:
    here = context(remaining=40, defaults=defaults_of(3))
    first = replace(here, ordered=(True, False))
    x = np.array([[0.5, 0.0], [0.5, 0.5], [0.5, 1.0]])
    for inputs, same in ((here, False), (first, True)):
        score = rl.IDS().score(inputs)
        assert isinstance(score, PosteriorScore)
        assert score.place is not None
        assert np.allclose(score.place(x)[0], 0.0) == same
    far = rl.IDS().score(first).place(np.array([[0.5, 1e9]]))  # type: ignore[attr-defined]
    assert far[0].tolist() == [0.0]  # the values of such a column may be anything
    assert far[1].tolist() == [[0.0, 0.0]]
    rules = here.defaults.ids._replace(inside=0.0)
    none = replace(here, defaults=here.defaults._replace(ids=rules))
    off = rl.IDS().score(none)
    assert isinstance(off, PosteriorScore)
    assert off.place is None


def test_ids_ends_at_the_best_mean() -> None:
    """With one evaluation left b is 0: nothing is feared at the highest mean."""
    here = context(remaining=1)
    mu, _ = here.posterior.at_data
    best = here.posterior.data.x[np.argmax(mu)]
    told = replace(here, highest=lambda b: (best, float(mu.max()) if b == 0 else np.inf))
    value, _ = rl.IDS().score(told).at_rows(slice(here.rows))
    assert np.argmax(value) == np.argmax(mu)


@pytest.mark.parametrize(("version", "caution"), [(1, 1.0), (2, 1.0), (3, 0.0)])
def test_directed_ids_learns_of_the_point_hoped_for(version: int, caution: float) -> None:
    """The information is log det of f there before and after the look, by dense algebra."""
    here = replace(context(remaining=40, defaults=defaults_of(version)), choices=True)
    policy = rl.IDS()  # with choices, it is directed and looks ahead over all that remains
    x, (point, top) = np.random.default_rng(1).random((50, 2)), here.highest(0.0)
    mu, sigma = here.posterior.predict(x)
    s, b = here.posterior.omega * sigma, -gate(40)
    resolution = max(here.posterior.noise_sd**2, 0.1 * here.posterior.omega**2)
    learnt = []
    for each in x:
        joint = here.posterior.hyper.omega2 * here.posterior.covariance(np.vstack([each, point]))
        after = joint[1, 1] - joint[0, 1] ** 2 / (joint[0, 0] + resolution)
        learnt.append(np.log(joint[1, 1] / after))
    value, _ = policy.score(here)(x)
    feared = top - mu + caution * b * s
    inside = inside_share(here, x) if version == 3 else 0.0
    np.testing.assert_allclose(value, inside + np.log(learnt) - 2 * np.log(feared), rtol=1e-6)
    rows, _ = policy.score(here).at_rows(slice(here.rows))
    np.testing.assert_allclose(rows, policy.score(here)(here.posterior.data.x)[0], rtol=1e-6)
    assert not np.allclose(value, replace(policy, directed=False).score(here)(x)[0])


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("unit", [1e-20, 1e-6, 1e6])
def test_units_don_t_matter_to_directed_ids(unit: float, version: int) -> None:
    plain = replace(context(remaining=40, defaults=defaults_of(version)), choices=True)
    point, top = plain.highest(0.0)
    data, hyper = plain.posterior.data, plain.posterior.hyper
    larger = GP.of(
        replace(data, y=unit * data.y), replace(hyper, omega2=unit * unit * hyper.omega2)
    )
    scaled = replace(plain, posterior=larger, highest=lambda b: (point, unit * top))
    x = np.vstack([point, np.random.default_rng(1).random((50, 2))])
    one, other = (rl.IDS(directed=True).score(each)(x)[0] for each in (plain, scaled))
    np.testing.assert_allclose(other + 2 * np.log(unit), one, rtol=1e-6)


@pytest.mark.parametrize("policy", [rl.IDS, rl.EIC])
@pytest.mark.parametrize("payback", [-0.1, 1.1, float("nan"), float("inf")])
def test_payback_is_a_share(policy: type[rl.Policy], payback: float) -> None:
    with pytest.raises(rl.ConfigError, match=r"payback: .*" + str(payback)):
        policy(payback=payback)  # type: ignore[call-arg]


def test_a_gain_has_to_pay_within_the_payback() -> None:
    """The gate is EIC's own for as many evaluations as the payback allows."""
    here = context(remaining=41)
    assert rl.EIC().threshold(here) == gate(41)
    assert rl.EIC(payback=0.25).threshold(here) == rl.IDS(0.25).threshold(here) == gate(11)
    assert rl.EIC(payback=0.0).threshold(here) == 0.0  # only what is expected to be no worse
    assert rl.EIC(gate=False).threshold(here) is None


@pytest.mark.parametrize("version", [1, 2, 3])
def test_where_there_are_choices_a_gain_may_pay_over_all_that_remains(version: int) -> None:
    numbers = context(remaining=41, defaults=defaults_of(version))
    choices = replace(numbers, choices=True)
    assert rl.IDS().horizon(numbers) == 13.0
    assert rl.IDS().horizon(choices) == 41.0
    assert rl.IDS(0.25).horizon(numbers) == rl.IDS(0.25).horizon(choices) == 11.0


@pytest.mark.parametrize("version", [1, 2, 3])
@pytest.mark.parametrize("kind", [rl.Categorical, rl.Ordinal])
def test_an_order_is_no_choice(kind: type[rl.Categorical | rl.Ordinal], version: int) -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "k": kind([1, 2, 3])})
    optimizer = rl.Optimizer(space, 30, defaults=version)
    for number in range(8):
        optimizer.tell(optimizer.ask(), float(number % 3))
    trial = optimizer.ask()
    assert trial.decision is not None
    assert trial.decision.reason != "design"
    left = 30 - 8
    all_of_it = kind is rl.Categorical
    assert trial.decision.horizon == (left if all_of_it else 1 + 0.3 * (left - 1))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: rl.GPTS(delta=0.0), "delta: need a probability between 0 and 1, got 0"),
        (lambda: rl.GPTS(features=100.5), "features: need a whole number, got 100.5"),
        (lambda: rl.GPTS(bound=nan), "bound: need a number >= 0, got nan"),
        (lambda: rl.GPTS(scale=inf), "scale: need a positive number, got inf"),
        (lambda: rl.GPUCB(beta=inf), "beta: need a number >= 0, got inf"),
        (lambda: rl.GPUCB(bound=-1.0), "bound: need a number >= 0, got -1"),
        (lambda: rl.EIC(omega_scale=inf), "omega_scale: need a positive number, got inf"),
        (lambda: rl.EIC(omega_scale=1.0, gamma=(-5.0,)), "gamma: need a list of numbers >= 0"),
        (lambda: rl.EIC(omega_scale=1.0, gamma=5.0), "gamma: need a list of numbers >= 0, got 5"),
        (lambda: rl.EIC(gamma=(1.0,)), "gamma: needs omega_scale"),
        (lambda: rl.EIC(omega_scale="x"), "omega_scale: need a positive number, got 'x'"),
        (lambda: rl.EIC(gate="off"), "gate: need True or False, got 'off'"),
        (lambda: rl.EIC(merge=None), "merge: need True or False, got None"),
        (lambda: rl.GPTS(merge="no"), "merge: need True or False, got 'no'"),
        (lambda: rl.IDS(directed="no"), "directed: need True or False, got 'no'"),
        (lambda: rl.IDS(payback="a"), "payback: need a share from 0 to 1, got 'a'"),
        (lambda: rl.IDS(payback=np.array([0.1, 0.2])), "payback: need a share"),
        (lambda: rl.EI(beta="x"), "beta: need a quantile level between 0 and 1, got 'x'"),
        (lambda: rl.GPUCB(beta=None), "beta: need a number >= 0, got None"),
        (lambda: rl.GPUCB(beta=10**400), "beta: need a number >= 0"),
        (lambda: rl.GPTS(scale=[1]), r"scale: need a positive number, got \[1\]"),
        (lambda: rl.ExploreThenCommit(nan), "explore: need a share from 0 to 1, got nan"),
        (lambda: make_policy({"name": "eic", "gate": "false"}), "gate: need True or False"),
        (lambda: rl.EINguyen(kappa=inf), "kappa: need a number >= 0, got inf"),
    ],
)
def test_settings_that_cannot_be_right(make: Callable[[], rl.Policy], says: str) -> None:
    with pytest.raises(rl.ConfigError, match=says):
        make()
