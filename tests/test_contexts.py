"""Contexts: the kernel, the posterior in a context, the horizon, and the verbs."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import regretless as rl
from oracles import slopes
from regretless.defaults import defaults_of
from regretless.engine import read, write
from regretless.horizon import Horizon
from regretless.kernels import Contextual, Kernel, Lifted
from regretless.model import GP, Data, Model, at_context, likeness
from regretless.space import Contexts

Array = NDArray[np.float64]

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "kind": rl.Categorical(["u", "v"])})
CONTEXTS: dict[str, rl.Parameter] = {
    "hour": rl.Cyclic(0, 24),
    "segment": rl.Categorical(["new", "old"]),
    "load": rl.Float(0.0, 1.0),
}
DECLARED = Contexts(CONTEXTS)
WHOLE = DECLARED.beside(SPACE)
HERE = {"hour": 6.0, "segment": "new", "load": 0.5}
POLICIES = ("ids", "eic", "ei", "gp-ucb", "gp-ts")


def drawn_kernel(seed: int = 0) -> Contextual:
    kernel = Model().start(WHOLE.columns, defaults_of().fit).kernel
    theta = kernel.theta + 0.6 * np.random.default_rng(seed).standard_normal(len(kernel.theta))
    moved = kernel.with_theta(theta)
    assert isinstance(moved, Contextual)
    return moved


def points(count: int, seed: int = 1) -> Array:
    return WHOLE.spread(np.random.default_rng(seed).random((count, WHOLE.dim)))


def in_context(x: Array, context: dict[str, Any]) -> Array:
    x = x.copy()
    x[:, SPACE.dim :] = DECLARED.encode(context)
    return x


def posterior(count: int = 24, seed: int = 0, lifted: bool = False) -> tuple[GP, Array]:
    """A posterior, and the covariance C of its observations."""
    kernel: Kernel = drawn_kernel(seed)
    kernel = Lifted(kernel, 2.0) if lifted else kernel
    start = Model().start(WHOLE.columns, defaults_of().fit)
    hyper = replace(start, kernel=kernel, lam2=0.1, omega2=0.7, mean_precision=None)
    x = points(count, seed + 5)
    y = np.random.default_rng(seed).standard_normal(count)
    return GP.of(Data.of(x=x, y=y), hyper), kernel.gram(x) + 0.1 * np.eye(count)


# -- the kernel ------------------------------------------------------------------------------------


def test_the_kernel_is_the_sum_of_the_three_effects() -> None:
    kernel, x, z = drawn_kernel(), points(9), points(7, 2)
    k_x, k_c = kernel.settings.gram(x, z), kernel.common.gram(x, z)
    k_i = kernel.alike.gram(x, z)
    dense = kernel.level * k_c + (1 - kernel.share) * k_x + kernel.share * k_x * k_i
    np.testing.assert_allclose(kernel.gram(x, z), dense, atol=1e-12)
    np.testing.assert_allclose(np.diag(kernel.gram(x)), kernel.variance, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_the_kernel_is_positive_definite_with_slopes(seed: int) -> None:
    kernel, x, z = drawn_kernel(seed), points(60, seed), points(5, 9)
    assert np.linalg.eigvalsh(kernel.gram(x)).min() > -1e-9
    rng = np.random.default_rng(seed)
    few = x[:12]
    weights = rng.standard_normal((12, 12))
    weights += weights.T
    numeric = slopes(
        lambda t: float((weights * kernel.with_theta(t).gram(few)).sum()), kernel.theta
    )
    np.testing.assert_allclose(kernel.gram_vjp(few)[1](weights), numeric, rtol=1e-5, atol=1e-6)
    inside, across = np.clip(few, 0.01, 0.99), rng.standard_normal((12, 5))
    numeric = slopes(
        lambda v: float((across * kernel.gram(v.reshape(inside.shape), z)).sum()), inside.ravel()
    ).reshape(inside.shape)
    ordered = WHOLE.ordered
    pulled = kernel.cross_vjp(inside, z)[1](across)
    np.testing.assert_allclose(pulled[:, ordered], numeric[:, ordered], rtol=1e-4, atol=1e-6)


def test_random_functions_have_the_covariance() -> None:
    kernel, x = drawn_kernel(), points(6)
    phi, pull = kernel.features(np.random.default_rng(0), 40_000)(x)
    np.testing.assert_allclose(phi @ phi.T / 40_000, kernel.gram(x), atol=0.08)
    assert pull(np.ones_like(phi)).shape == x.shape


def test_likeness_is_the_correlation_of_differences() -> None:
    """Of f(x, c) - f(x', c) and f(x, c') - f(x', c'), whatever the settings are."""
    kernel, x = drawn_kernel(), points(2)
    here, there = points(2, 3)
    rows = []
    for context in (here, there):
        for each in x:
            rows.append(np.append(each[: SPACE.dim], context[SPACE.dim :]))
    gram = kernel.gram(np.array(rows))
    apart = np.array([[1.0, -1.0, 0.0, 0.0], [0.0, 0.0, 1.0, -1.0]])
    covariance = apart @ gram @ apart.T
    dense = covariance[0, 1] / np.sqrt(covariance[0, 0] * covariance[1, 1])
    np.testing.assert_allclose(kernel.likeness(here[None], there[None])[0, 0], dense, atol=1e-12)


def test_the_kernel_survives_json() -> None:
    kernel = drawn_kernel()
    assert Kernel.from_json(json.loads(json.dumps(kernel.to_json()))) == kernel


# -- the posterior in a context --------------------------------------------------------------------


@pytest.mark.parametrize("lifted", [False, True])
def test_the_posterior_in_a_context_against_dense_algebra(lifted: bool) -> None:
    """Means are those of f; covariances are those of f without the common effect."""
    gp, c = posterior(lifted=lifted)
    z = in_context(points(6, 8), HERE)
    view = at_context(gp, dict(enumerate(z[0, SPACE.dim :].tolist(), start=SPACE.dim)))
    own = gp.hyper.kernel.contrast
    k = own.gram(z, gp.data.x)
    dense = own.gram(z) - k @ np.linalg.solve(c, k.T)
    np.testing.assert_allclose(view.predict(z)[0], gp.predict(z)[0], atol=1e-10)
    np.testing.assert_allclose(view.predict(z)[1], np.sqrt(np.diag(dense)), atol=1e-9)
    np.testing.assert_allclose(view.covariance(z), dense, atol=1e-10)
    shared = view.shared(z[0])
    np.testing.assert_allclose(shared(z), dense[0], atol=1e-10)
    np.testing.assert_allclose(shared.variance, dense[0, 0], atol=1e-10)
    np.testing.assert_allclose(shared.at_data, shared(gp.data.x), atol=1e-12)
    # Differences of settings are the same with and without the common effect.
    centre = np.eye(6) - 1.0 / 6.0
    np.testing.assert_allclose(
        centre @ gp.covariance(z) @ centre, centre @ view.covariance(z) @ centre, atol=1e-10
    )


def test_at_the_data_of_a_context() -> None:
    gp, _ = posterior()
    place = dict(enumerate(gp.data.x[3, SPACE.dim :].tolist(), start=SPACE.dim))
    view = at_context(gp, place)
    mu, sigma = view.at_data
    np.testing.assert_allclose(mu, gp.at_data[0], atol=1e-10)
    np.testing.assert_allclose(sigma[3], view.predict(gp.data.x[3:4])[1][0], atol=1e-12)
    x = points(1, 4)[0]
    x[SPACE.dim :] = gp.data.x[3, SPACE.dim :]
    added = view.add(x, 0.3)
    np.testing.assert_allclose(added.predict(x[None])[0], gp.add(x, 0.3).predict(x[None])[0])


# -- the horizon -----------------------------------------------------------------------------------


def test_the_gain_elsewhere_is_the_likeness_times_the_gain_here() -> None:
    """If f(x, c) tells all that is known of f(x, c'), the gain there is r times that here.

    D is the difference to the incumbent here, D' the one there, with the correlation r.  Whoever
    has learnt D moves there if E[D' | D] > 0, which gains E[(E[D' | D])^+].
    """
    rng, mean, sd, r = np.random.default_rng(0), -0.4, 1.0, 0.6
    d = mean + sd * rng.standard_normal(400_000)
    gain_here = np.maximum(d, 0.0).mean()
    gain_there = np.maximum(r * d, 0.0).mean()
    np.testing.assert_allclose(gain_there, r * gain_here, rtol=1e-9)


def test_the_horizon_counts_contexts_that_are_alike() -> None:
    assert Horizon(100, 40).steps == 60
    assert isinstance(Horizon(100, 40).steps, int)
    assert Horizon(100, 40, share=0.5).steps == 1.0 + 0.5 * 59
    gp, _ = posterior()
    others = points(6)
    dense = np.mean([gp.hyper.kernel.likeness(points(1, 2), o[None])[0, 0] for o in others])  # type: ignore[attr-defined]
    assert likeness(gp, points(1, 2)[0], others) == pytest.approx(float(dense))
    optimizer = trained()
    trial = optimizer.ask(context=HERE)
    share = optimizer._situation(at=DECLARED.encode(HERE)).horizon.share
    assert 0.0 < share < 1.0
    assert trial.decision.horizon is not None
    assert trial.decision.horizon < trial.decision.remaining


# -- the verbs -------------------------------------------------------------------------------------


def value(params: dict[str, Any], context: dict[str, Any]) -> float:
    """The best x is 0.2 for new users and 0.8 for old ones; nights are bad for all."""
    best = 0.2 if context["segment"] == "new" else 0.8
    night = float(np.cos(2 * np.pi * context["hour"] / 24))
    return -4.0 * (params["x"] - best) ** 2 - night + 0.1 * (params["kind"] == "v")


def some_context(rng: np.random.Generator) -> dict[str, Any]:
    segment = "new" if rng.random() < 0.6 else "old"
    return {"hour": float(rng.uniform(0, 24)), "segment": segment, "load": float(rng.random())}


def trained(count: int = 16, policy: str = "ids", **settings: Any) -> rl.Optimizer:
    optimizer = rl.Optimizer(SPACE, 60, policy=policy, contexts=CONTEXTS, **settings)
    rng = np.random.default_rng(3)
    for _ in range(count):
        context = some_context(rng)
        trial = optimizer.ask(context=context)
        optimizer.tell(trial, value(trial.params, context) + 0.05 * rng.standard_normal())
    return optimizer


@pytest.mark.parametrize(("policy", "version"), [*((each, 2) for each in POLICIES), ("ids", 3)])
def test_every_policy_runs_and_replays(policy: str, version: int) -> None:
    optimizer = trained(14, policy, defaults=version)
    again = rl.Optimizer.from_json(optimizer.to_json())
    trial = optimizer.ask(context=HERE)
    assert trial.context == HERE
    assert again.ask(context=HERE) == trial
    assert again.best(context=HERE) == optimizer.best(context=HERE)
    assert again.best() == optimizer.best()


def test_the_best_setting_depends_on_the_context() -> None:
    optimizer = trained(45)
    new, old = (optimizer.best(context={**HERE, "segment": s}) for s in ("new", "old"))
    assert new.params["x"] < 0.45  # not the compromise between the two, which is 0.5
    assert old.params["x"] > 0.6
    assert new.context == HERE
    assert "segment = new" in str(new)
    overall = optimizer.best()
    assert overall.context is None
    # The mean in a context is that of `predict`.
    mean, sd = optimizer.predict(new.params, context=HERE)
    assert new.mean == pytest.approx(mean)
    assert new.high - new.low == pytest.approx(2 * 1.96 * sd)
    noon, _ = optimizer.predict(new.params, context={**HERE, "hour": 12})
    midnight, _ = optimizer.predict(new.params, context={**HERE, "hour": 0})
    assert noon > midnight + 1.0


def test_the_best_on_average_against_dense_algebra() -> None:
    optimizer = trained(12)
    best = optimizer.best()
    seen = [row.context for row in optimizer.history()]
    each = [optimizer.predict(best.params, context=c)[0] for c in seen]
    assert best.mean == pytest.approx(np.mean(each))
    assert optimizer.predict(best.params)[0] == pytest.approx(best.mean)
    others = {tuple(row.params.items()) for row in optimizer.history()}
    means = [optimizer.predict(dict(params))[0] for params in others]
    assert best.mean == pytest.approx(max(means))


def test_the_incumbent_is_the_best_visited_setting_in_this_context() -> None:
    optimizer = trained(20, "eic")
    inputs = optimizer._situation(at=DECLARED.encode(HERE)).inputs
    settings = {tuple(row.params.items()) for row in optimizer.history()}
    means = {params: optimizer.predict(dict(params), context=HERE)[0] for params in settings}
    best = max(means, key=lambda params: means[params])
    assert SPACE.decode(inputs.incumbent.x[: SPACE.dim]) == dict(best)
    landscape = optimizer.landscape([dict(best)], context=HERE)
    assert landscape.incumbent == pytest.approx(means[best])


def test_a_result_in_another_context() -> None:
    optimizer = rl.Optimizer(SPACE, 20, contexts=CONTEXTS)
    trial = optimizer.ask(context=HERE)
    turned_out = {**HERE, "segment": "old"}
    optimizer.tell(trial, 1.0, context=turned_out)
    optimizer.tell(trial, 1.0, context=turned_out)  # the same again
    optimizer.tell(trial, 1.0)
    assert optimizer.history()[0].context == turned_out
    assert optimizer.history()[0].flat()["context_segment"] == "old"
    assert optimizer.trials[0].context == HERE
    assert optimizer._belief.data.x[0, -3:].tolist() == DECLARED.encode(turned_out).tolist()
    with pytest.raises(rl.TrialError, match="told in the context"):
        optimizer.tell(trial, 1.0, context={**HERE, "load": 0.9})
    optimizer.retract(trial)
    assert optimizer.history()[0].context == HERE
    optimizer.tell(trial, 2.0)
    assert optimizer._belief.data.x[0, -3:].tolist() == DECLARED.encode(HERE).tolist()
    assert rl.Optimizer.from_json(optimizer.to_json()).history() == optimizer.history()


def test_prior_data_and_adopted_points_have_contexts() -> None:
    optimizer = rl.Optimizer(SPACE, 20, contexts=CONTEXTS)
    optimizer.observe({"x": 0.3, "kind": "u"}, 1.0, context=HERE)
    trial = optimizer.adopt({"x": 0.4, "kind": "u"}, context=HERE)
    optimizer.tell(trial, 0.5)
    assert [row.context for row in optimizer.history()] == [HERE, HERE]
    assert optimizer._belief.data.x.shape == (2, 5)
    optimizer.retract_observation(0)
    assert optimizer._belief.data.x.shape == (1, 5)


def test_values_that_were_not_declared() -> None:
    """They have a documented answer: the nearer end, once round, one further choice."""
    encode = DECLARED.encode
    assert encode({**HERE, "load": 7.0}).tolist() == encode({**HERE, "load": 1.0}).tolist()
    assert encode({**HERE, "load": -7.0}).tolist() == encode({**HERE, "load": 0.0}).tolist()
    assert encode({**HERE, "hour": 30.0}).tolist() == encode(HERE).tolist()
    assert encode({**HERE, "hour": 24.0}).tolist() == encode({**HERE, "hour": 0.0}).tolist()
    further = {**HERE, "segment": "robots"}
    assert encode(further)[1] not in {encode({**HERE, "segment": s})[1] for s in ("new", "old")}
    assert encode(further).tolist() == encode({**HERE, "segment": "aliens"}).tolist()
    optimizer = trained(10)
    trial = optimizer.ask(context={**further, "load": 1.5})
    assert "not declared as a context: segment = 'robots', load = 1.5" in str(trial.decision)
    optimizer.tell(trial, 1.0)
    assert optimizer.history()[-1].context == {**further, "load": 1.5}  # what was told is kept
    assert optimizer.best(context=further).context == further


@pytest.mark.parametrize(
    ("context", "error", "message"),
    [
        (None, rl.SpaceError, "context: need a value for 'hour', 'segment', 'load', got None"),
        ({"hour": 1.0, "load": 0.1}, rl.SpaceError, "context: no value for 'segment'"),
        ({**HERE, "day": 1}, rl.SpaceError, "context: unknown 'day'"),
        ({**HERE, "hour": "noon"}, rl.SpaceError, "hour: must be a finite number, got 'noon'"),
        ({**HERE, "load": float("nan")}, rl.SpaceError, "load: must be a finite number, got nan"),
        ({**HERE, "segment": [1]}, rl.SpaceError, "segment: must be a string"),
    ],
)
def test_what_is_no_context_is_named_and_changes_nothing(
    context: Any, error: type[Exception], message: str
) -> None:
    optimizer = trained(3)
    before = optimizer.to_json()
    with pytest.raises(error, match=message):
        optimizer.ask(context=context)
    with pytest.raises(error, match=message):
        optimizer.observe({"x": 0.5, "kind": "u"}, 1.0, context=context)
    with pytest.raises(error, match=message):
        optimizer.adopt({"x": 0.5, "kind": "u"}, context=context)
    if context is not None:
        with pytest.raises(error, match=message):
            optimizer.tell(optimizer.trials[0], 9.0, context=context)
    assert optimizer.to_json() == before


def test_what_needs_no_context_refuses_one() -> None:
    optimizer = rl.Optimizer(SPACE, 20)
    for call in (
        lambda: optimizer.ask(context=HERE),
        lambda: optimizer.best(context=HERE),
        lambda: optimizer.observe({"x": 0.5, "kind": "u"}, 1.0, context=HERE),
    ):
        with pytest.raises(rl.ConfigError, match="context: the run has no contexts"):
            call()


def test_declarations_that_are_refused() -> None:
    def declare(**contexts: Any) -> None:
        rl.Optimizer(SPACE, 20, contexts=contexts)

    with pytest.raises(rl.SpaceError, match="contexts: need a mapping"):
        declare()
    with pytest.raises(rl.SpaceError, match="contexts: 'x' is a parameter of the space, too"):
        declare(x=rl.Float(0, 1))
    with pytest.raises(rl.SpaceError, match="contexts: day: must be a Float, Int, Cyclic"):
        declare(day=rl.Float(0, 1).when("kind", "u"))
    with pytest.raises(rl.SpaceError, match="contexts: day: must be a Float, Int, Cyclic"):
        declare(day=7)


def test_combinations_that_are_refused() -> None:
    with pytest.raises(rl.ConfigError, match="optimum: with contexts"):
        rl.Optimizer(SPACE, 20, contexts=CONTEXTS, optimum=1.0)
    with pytest.raises(rl.ConfigError, match="change_cost: with contexts"):
        rl.Optimizer(
            SPACE, 20, contexts=CONTEXTS, baseline={"x": 0.5, "kind": "u"}, change_cost=1.0
        )
    with pytest.raises(rl.ConfigError, match="drift: not together with contexts"):
        rl.Optimizer(SPACE, 20, contexts=CONTEXTS, drift="auto")
    optimizer = trained(2)
    trial = optimizer.ask(context=HERE)
    with pytest.raises(rl.ConfigError, match="control: a run with contexts has no controls"):
        optimizer.tell(trial, 1.0, control=0.5)
    with pytest.raises(rl.ConfigError, match="a loop does not know the context"):
        next(iter(optimizer))


def test_the_loss_is_against_the_baseline_in_the_same_context() -> None:
    base = {"x": 0.5, "kind": "u"}
    optimizer = rl.Optimizer(SPACE, 40, contexts=CONTEXTS, baseline=base, loss_budget=3.0)
    rng = np.random.default_rng(5)
    for _ in range(8):
        context = some_context(rng)
        trial = optimizer.ask(context=context)
        optimizer.tell(trial, value(trial.params, context) + 0.05 * rng.standard_normal())
    at = DECLARED.encode(HERE)
    found, weights = optimizer._records.total_loss(at)
    assert found[0].tolist() == [*SPACE.encode(base), *at]
    truth = 0.0
    for x, w in zip(found, weights, strict=True):
        row = next(
            (r for r in optimizer.history() if (DECLARED.encode(r.context) == x[2:]).all()),  # type: ignore[arg-type]
            None,
        )
        context = HERE if row is None else row.context
        truth += w * value(SPACE.decode(x[:2]), context)  # type: ignore[arg-type]
    lost = sum(value(base, r.context) - value(r.params, r.context) for r in optimizer.history())  # type: ignore[arg-type]
    assert truth == pytest.approx(lost)
    assert lost < 3.0
    assert optimizer.trials[-1].decision.total_loss is not None


def test_other_limits_hold_in_contexts() -> None:
    base = {"x": 0.5, "kind": "u"}
    optimizer = rl.Optimizer(
        SPACE,
        40,
        contexts=CONTEXTS,
        baseline=base,
        guardrails=[rl.AtMost("errors", 0.6)],
        max_step={"x": 0.2},
        mode="recommend",
    )
    rng, last = np.random.default_rng(5), 0.5
    for k in range(10):
        context = some_context(rng)
        trial = optimizer.ask(context=context)
        assert trial.context == context
        assert abs(trial.params["x"] - last) <= 0.2 + 1e-9 or trial.params == base
        if k == 4:
            optimizer.reject(trial, "not now")
            continue
        last = trial.params["x"]
        optimizer.approve(trial)
        optimizer.tell(trial, value(trial.params, context), metrics={"errors": trial.params["x"]})
    assert optimizer.ask(context=HERE).params["x"] <= 0.75
    best = optimizer.best(context=HERE)
    assert best.holds is not None
    assert best.holds["errors <= 0.6"] > 0.5


def test_limits_of_the_space_and_pending_trials() -> None:
    space = rl.Space(
        {"a": rl.Float(0.0, 1.0), "b": rl.Float(0.0, 1.0)},
        where=["a + b <= 1", lambda params: len(params) == 2 and params["a"] <= 0.9],
    )
    optimizer = rl.Optimizer(space, 40, contexts=CONTEXTS)
    rng = np.random.default_rng(1)
    for _ in range(10):
        trials = [optimizer.ask(context=some_context(rng)) for _ in range(2)]
        for trial in trials:
            assert trial.params["a"] + trial.params["b"] <= 1.0 + 1e-9
            optimizer.tell(trial, trial.params["a"] + 0.5 * trial.params["b"])
    assert len(optimizer.ask(3, context=HERE)) == 3


def test_the_space_may_change() -> None:
    optimizer = trained(10)
    optimizer.change_space(add={"z": (rl.Int(0, 9), 3)}, freeze={"kind": "u"})
    trial = optimizer.ask(context=HERE)
    assert sorted(trial.params) == ["kind", "x", "z"]
    assert trial.params["kind"] == "u"
    optimizer.tell(trial, 1.0)
    again = rl.Optimizer.from_json(optimizer.to_json())
    assert again.ask(context=HERE) == optimizer.ask(context=HERE)
    assert optimizer.best(context=HERE).params["kind"] == "u"


# -- stored ----------------------------------------------------------------------------------------


def test_events_have_the_context_only_where_there_is_one() -> None:
    optimizer = trained(2)
    asked, told, *_ = optimizer.events
    assert write(asked).body["context"] == asked.context  # type: ignore[union-attr]
    assert "context" not in write(told).body
    for event in optimizer.events:
        written = write(event)
        assert read(*json.loads(json.dumps(written))) == event
    plain = rl.Optimizer(SPACE, 20)
    assert "context" not in write(plain.propose()).body
    assert "contexts" not in plain.spec()
    assert plain.spec()["version"] == 2
    assert optimizer.spec()["version"] == 4  # older releases refuse it
    with pytest.raises(rl.StorageError, match="event 'asked': context: no value for"):
        rl.Optimizer(SPACE, 60, contexts=CONTEXTS).apply(replace(asked, context={}))  # type: ignore[type-var]


def test_a_study_has_contexts(tmp_path: Any) -> None:
    path = tmp_path / "study.sqlite"
    with rl.Study.open(path, "s", space=SPACE, budget=30, contexts=CONTEXTS) as study:
        for k in range(8):
            context = some_context(np.random.default_rng(k))
            trial = study.ask(context=context, key=f"k{k}")
            assert study.ask(context=context, key=f"k{k}") == trial
            study.tell(trial, value(trial.params, context))
        study.observe({"x": 0.1, "kind": "u"}, -1.0, context=HERE)
        study.observe({"x": 0.1, "kind": "u"}, -1.0, context={**HERE, "hour": 3.0})
        assert study.contexts == CONTEXTS
        best, mean = study.best(context=HERE), study.predict({"x": 0.1, "kind": "u"}, context=HERE)
    with rl.Study.open(path, "s", contexts=CONTEXTS) as again:
        assert again.best(context=HERE) == best
        assert again.predict({"x": 0.1, "kind": "u"}, context=HERE) == mean
        assert len(again.history()) == 10
        with pytest.raises(rl.ConfigError, match="a loop does not know the context"):
            iter(again)
        with pytest.raises(rl.SpaceError, match="context: need a value"):
            again.ask()
    with pytest.raises(rl.ConfigError, match=r"contexts: .* there"):
        rl.Study.open(path, "s", contexts={"hour": rl.Cyclic(0, 12)})


# -- front ends ------------------------------------------------------------------------------------


def test_the_ledger_compares_in_the_same_context() -> None:
    optimizer = trained(14, baseline={"x": 0.5, "kind": "u"})
    ledger = rl.Ledger.of(optimizer)
    estimates = ledger.estimates()
    assert estimates is not None
    rows = [row for row in optimizer.history() if row.value is not None]
    gain = sum(
        optimizer.predict(row.params, context=row.context)[0]
        - optimizer.predict({"x": 0.5, "kind": "u"}, context=row.context)[0]
        for row in rows
    )
    assert estimates.gain.mean[-1] == pytest.approx(gain)
    best = sum(optimizer.best(context=row.context).mean for row in rows)
    lost = ledger.lost()
    assert lost == pytest.approx(best - sum(row.value for row in rows if row.value is not None))
    assert estimates.regret.mean[-1] >= -1e-9
    with pytest.raises(rl.ConfigError, match="total: not for a run with contexts"):
        ledger.total([{"x": 0.5, "kind": "u"}], [1.0])


def test_the_page_s_data(tmp_path: Any) -> None:
    from regretless.service.page_data import page_data

    with rl.Study.open(tmp_path / "s.sqlite", "s", space=SPACE, budget=30, contexts=CONTEXTS) as s:
        assert page_data(s.snapshot())["contexts"] == []
        for k in range(8):
            context = some_context(np.random.default_rng(k))
            trial = s.ask(context=context)
            s.tell(trial, value(trial.params, context))
        data = json.loads(json.dumps(page_data(s.snapshot()), allow_nan=False))
        rows = data["contexts"]
        assert [row["value"] for row in rows if row["context"] == "segment"] == ["new", "old"]
        assert [row["value"] for row in rows if row["context"] == "hour"] == [0, 4, 8, 12, 16, 20]
        last = s.history()[-1].context
        new = next(row for row in rows if row["value"] == "new")
        assert new["mean"] == pytest.approx(s.best(context={**last, "segment": "new"}).mean)  # type: ignore[dict-item]
        assert data["best"]["in"] == last
        assert data["trials"][-1]["context"] == last
        assert len(data["slices"]) == 2


def test_contexts_over_http(tmp_path: Any) -> None:
    from regretless.client import Client
    from serving import serving

    with serving(str(tmp_path / "s.db"), folder=tmp_path) as service:
        client = Client(service.url)
        study = client.create("s", space=SPACE, budget=20, contexts=CONTEXTS)
        client.create("s", space=SPACE, budget=20, contexts=CONTEXTS)  # the same again
        trial = study.ask(context=HERE)
        assert trial.context == HERE
        turned_out = {**HERE, "segment": "old"}
        study.tell(trial, 1.0, context=turned_out)
        study.observe({"x": 0.3, "kind": "u"}, 2.0, context=HERE)
        assert study.adopt({"x": 0.4, "kind": "v"}, context=HERE).context == HERE
        assert [row.context for row in study.history()] == [HERE, turned_out, HERE]
        assert [each.context for each in study.pending] == [HERE]
        with rl.Study.open(tmp_path / "s.db", "s", read_only=True) as local:
            assert study.best(context=HERE) == local.best(context=HERE)
            assert study.best() == local.best()
        with pytest.raises(rl.SpaceError, match="context: need a value for"):
            study.ask()
        with pytest.raises(rl.SpaceError, match="context: unknown 'day'"):
            study.best(context={**HERE, "day": 1})
        with pytest.raises(rl.ConfigError, match="a loop does not know the context"):
            next(iter(study))


def test_contexts_on_the_command_line(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from typer.testing import CliRunner

    from regretless.cli.app import app

    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> str:
        done = CliRunner().invoke(app, [*words])
        assert done.exit_code == 0, (done.output, done.exception)
        return done.output

    space = json.dumps({"x": {"type": "float", "low": 0, "high": 1}})
    contexts = json.dumps({"hour": {"type": "cyclic", "low": 0, "high": 24}})
    run("create", "s", "--space", space, "--budget", "9", "--contexts", contexts)
    asked = json.loads(run("ask", "s", "--context", '{"hour": 7}', "--json"))
    assert asked["context"] == {"hour": 7.0}
    run("tell", "s", "0", "1.5", "--context", '{"hour": 8}')
    run("observe", "s", '{"x": 0.3}', "2.0", "--context", '{"hour": 3}')
    run("adopt", "s", '{"x": 0.6}', "--context", '{"hour": 3}')
    assert 'best in the context {"hour": 22.0}' in run("best", "s", "--context", '{"hour": 22}')
    shown = json.loads(run("show", "s", "--json"))
    assert [row["context_hour"] for row in shown["trials"]] == [3.0, 8.0, 3.0]
