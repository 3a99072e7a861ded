"""The Ray Tune searcher, in a real local Ray where trials run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl

ray = pytest.importorskip("ray", reason="ray is not installed")
tune = pytest.importorskip("ray.tune", reason="ray[tune] is not installed")

from regretless.integrations.ray import RegretlessSearch  # noqa: E402

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("default"),  # Ray's own are many
]

SPACE = {"x": tune.uniform(0.0, 1.0), "deep": {"k": tune.randint(0, 4)}}


def hill(config: dict[str, Any]) -> float:
    return float(-((config["x"] - 0.3) ** 2) - config["deep"]["k"])


def ready(
    space: dict[str, Any] | None = None, budget: int = 20, **options: Any
) -> RegretlessSearch:
    search = RegretlessSearch(**options)
    assert search.set_search_properties("score", "max", space or SPACE, num_samples=budget)
    return search


def run(search: RegretlessSearch, count: int, start: int = 0) -> list[dict[str, Any]]:
    configs = []
    for number in range(start, start + count):
        configs.append(search.suggest(f"t{number}"))
        search.on_trial_complete(f"t{number}", {"score": hill(configs[-1])})
    return configs


# -- spaces ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (tune.uniform(-1.0, 2.0), rl.Float(-1.0, 2.0)),
        (tune.loguniform(1e-4, 1.0), rl.Float(1e-4, 1.0, log=True)),
        (tune.quniform(0.0, 1.0, 0.25), rl.Float(0.0, 1.0, step=0.25)),
        (tune.randint(2, 9), rl.Int(2, 8)),
        (tune.lograndint(1, 65), rl.Int(1, 64, log=True)),
        (tune.qrandint(4, 12, 4), rl.Float(4, 12, step=4)),
        (tune.qrandint(3, 9, 1), rl.Int(3, 8)),
        (tune.choice(["a", ["b"], None]), rl.Categorical([0, 1, 2])),
    ],
    ids=lambda value: type(value).__name__,  # the same in every process
)
def test_search_spaces_are_converted(domain: Any, expected: Any) -> None:
    search = ready({"p": domain})
    assert search._endings is not None
    assert search._endings.optimizer.space.parameters["p"] == expected
    for number in range(8):
        value = search.suggest(f"t{number}")["p"]
        assert domain.is_valid(value)
        assert type(value) in (float, int, str, list, type(None))
        search.on_trial_complete(f"t{number}", {"score": 0.0})


REFUSED = "(this search space|grid_search is not supported)"


@pytest.mark.parametrize(
    "domain",
    [
        tune.randn(0.0, 1.0),
        tune.qloguniform(0.1, 1.0, 0.1),
        tune.sample_from(lambda spec: 1),
        tune.grid_search([1, 2]),
    ],
    ids=["randn", "qloguniform", "sample_from", "grid_search"],
)
def test_other_search_spaces_are_refused_by_name(domain: Any) -> None:
    others = {"x": tune.uniform(0.0, 1.0)}
    for space, name in [
        ({"p": domain}, "p"),
        (others | {"p": domain}, "p"),
        (others | {"deep": {"p": domain}}, "deep/p"),
    ]:
        with pytest.raises(rl.ConfigError, match=f"^{name}: {REFUSED}"):
            ready(space)
        with pytest.raises(rl.ConfigError, match=f"^{name}: {REFUSED}"):
            RegretlessSearch(space)


def nested() -> dict[str, Any]:
    learner = tune.choice(
        [
            {"kind": "svm", "c": tune.loguniform(0.1, 10.0)},
            {"kind": "net", "layers": [tune.randint(1, 9), 4], "opt": tune.choice(["adam", "sgd"])},
            {"kind": "boost", "how": tune.choice([{"rate": tune.uniform(0.0, 1.0)}, "auto"])},
            "none",
        ]
    )
    return {"learner": learner, "x": tune.uniform(0.0, 1.0)}


def test_search_spaces_within_a_choice_exist_where_it_is_chosen() -> None:
    search = ready(nested(), budget=30)
    kinds = set()
    for number in range(24):
        config = search.suggest(f"t{number}")
        learner = config["learner"]
        kind = learner if learner == "none" else learner["kind"]
        kinds.add(kind)
        wanted = {"svm": {"c"}, "net": {"layers", "opt"}, "boost": {"how"}, "none": set()}
        assert set(learner) - {"kind"} == wanted[kind] or kind == "none"
        if kind == "net":
            assert learner["opt"] in ("adam", "sgd")
            assert 1 <= learner["layers"][0] <= 8
            assert learner["layers"][1] == 4
        if kind == "boost":
            assert learner["how"] == "auto" or 0.0 <= learner["how"]["rate"] <= 1.0
        gain = 1.0 - abs(learner["layers"][0] - 7) if kind == "net" else -5.0
        search.on_trial_complete(f"t{number}", {"score": gain - config["x"]})
    assert kinds == {"svm", "net", "boost", "none"}
    best = search.best().params
    assert best["learner"]["kind"] == "net"
    assert best["learner"]["layers"][0] in (6, 7, 8)


def test_a_trial_may_change_its_copy_of_a_choice() -> None:
    space = nested()
    search = ready(space)
    for number in range(6):
        learner = search.suggest(f"t{number}")["learner"]
        if learner != "none":
            learner["kind"] = "changed"
    assert [c["kind"] for c in space["learner"].categories[:3]] == ["svm", "net", "boost"]


def test_known_points_within_a_choice() -> None:
    boost = {"kind": "boost", "how": {"rate": 0.25}}
    net = {"kind": "net", "layers": [3, 4], "opt": "sgd"}
    first = [{"learner": net, "x": 0.5}, {"learner": "none", "x": 0.5}]
    search = ready(nested(), points_to_evaluate=first)
    search.add_evaluated_point({"learner": boost, "x": 0.25}, 1.0)
    assert search.best().params == {"learner": boost, "x": 0.25}
    assert [search.suggest(f"t{k}") for k in range(2)] == first
    for wrong in (
        {"kind": "svm", "c": 99.0},
        {"kind": "svm"},
        {"kind": "net", "layers": [3, 5], "opt": "sgd"},
    ):
        with pytest.raises(rl.ConfigError, match=r"^learner: need one of"):
            search.add_evaluated_point({"learner": wrong, "x": 0.5}, 1.0)


def test_a_grid_within_a_choice_is_refused() -> None:
    with pytest.raises(rl.ConfigError, match=r"^p\[0\]: grid_search is not supported"):
        ready({"p": tune.choice([{"lr": tune.grid_search([1, 2])}, "none"])})


def test_a_space_without_search_spaces_is_refused() -> None:
    with pytest.raises(rl.ConfigError, match=r"space: need Tune's search spaces, got {'x': 1}"):
        ready({"x": 1})


def test_search_spaces_in_lists_and_tuples() -> None:
    layers = [tune.randint(1, 9), tune.randint(1, 9), 3]
    search = ready({"layers": layers, "pair": (tune.uniform(0.0, 1.0), "a")})
    config = search.suggest("t0")
    assert [type(value) for value in config["layers"]] == [int, int, int]
    assert config["layers"][2] == 3
    assert config["pair"] == (pytest.approx(0.5, abs=0.5), "a")
    search.add_evaluated_point({"layers": [8, 2, 3], "pair": (0.25, "a")}, 1.0)
    assert search.best().params == {"layers": [8, 2, 3], "pair": (0.25, "a")}


def test_two_parameters_of_one_name_are_refused() -> None:
    twins = {"a/b": tune.uniform(0.0, 1.0), "a": {"b": tune.uniform(0.0, 1.0)}}
    with pytest.raises(rl.ConfigError, match="two parameters have the same name"):
        ready(twins)


def test_constants_are_left_to_tune() -> None:
    search = ready({"x": tune.uniform(0.0, 1.0), "data": "train.csv"})
    assert list(search.suggest("t0")) == ["x"]


def test_constants_of_an_own_space_are_handed_on() -> None:
    space = {"x": tune.uniform(0.0, 1.0), "layers": 3, "deep": {"k": tune.randint(0, 4), "c": [1]}}
    search = RegretlessSearch(space, "score", "max", 10)
    first, second = search.suggest("t0"), search.suggest("t1")
    assert (first["layers"], first["deep"]["c"]) == (3, [1])
    first["deep"]["c"].append(2)  # a trial may do what it likes with its own
    assert second["deep"]["c"] == space["deep"]["c"] == [1]


# -- the verbs -------------------------------------------------------------------------------------


def test_suggestions_are_the_optimizers() -> None:
    space = rl.Space({"x": rl.Float(0.0, 1.0), "deep/k": rl.Int(0, 3)})
    optimizer = rl.Optimizer(space, 20, seed=4)
    configs = run(ready(seed=4), 12)
    for config in configs:
        trial = optimizer.ask()
        assert trial.params == {"x": config["x"], "deep/k": config["deep"]["k"]}
        optimizer.tell(trial, hill(config))


def test_num_samples_is_the_budget() -> None:
    search = ready(budget=33)
    assert search._endings is not None
    assert search._endings.optimizer.budget == 33
    with pytest.raises(rl.ConfigError, match="budget: need one"):
        ready(budget=-1)
    own = RegretlessSearch(budget=7)
    own.set_search_properties("score", "min", SPACE, num_samples=-1)
    assert own._endings is not None
    assert (own._endings.optimizer.budget, own._endings.optimizer.direction) == (7, "minimize")


def test_a_space_is_set_once() -> None:
    search = RegretlessSearch(SPACE, "score", "max", 10)
    assert not search.set_search_properties("score", "max", SPACE, num_samples=10)
    with pytest.raises(rl.ConfigError, match="space: need one"):
        RegretlessSearch().suggest("t0")


def test_beside_an_own_space_the_rest_comes_from_the_tuner() -> None:
    search = RegretlessSearch(SPACE)
    assert not search.set_search_properties("score", "max", {"data": "train.csv"}, num_samples=7)
    run(search, 3)
    assert search._endings is not None
    assert (search._endings.optimizer.budget, search._endings.optimizer.direction) == (
        7,
        "maximize",
    )
    assert search._endings.optimizer.observations == 3


def test_what_is_given_is_not_the_tuners() -> None:
    search = RegretlessSearch(SPACE, "loss", "min", 5)
    search.set_search_properties("score", "max", {"data": "train.csv"}, num_samples=7)
    assert (search.metric, search.mode) == ("loss", "min")
    assert search._endings is not None
    assert (search._endings.optimizer.budget, search._endings.optimizer.direction) == (
        5,
        "minimize",
    )


@pytest.mark.parametrize("missing", ["metric", "mode", "budget"])
def test_what_nobody_has_said_is_asked_for(missing: str) -> None:
    """Tune does not call `set_search_properties` where there is no `param_space`."""
    given: dict[str, Any] = {"metric": "score", "mode": "max", "budget": 7}
    assert RegretlessSearch(SPACE, **given).suggest("t0").keys() == SPACE.keys()
    with pytest.raises(rl.ConfigError, match=f"^{missing}: need .* in the TuneConfig"):
        RegretlessSearch(SPACE, **given | {missing: None}).suggest("t0")


def test_a_metric_without_a_name_is_asked_for() -> None:
    with pytest.raises(rl.ConfigError, match=r"^metric: need one.*'_metric'"):
        RegretlessSearch().set_search_properties(None, "max", SPACE, num_samples=7)
    with pytest.raises(rl.ConfigError, match=r"^metric: need one, .* got \['a', 'b'\]"):
        RegretlessSearch().set_search_properties(["a", "b"], "max", SPACE, num_samples=7)  # type: ignore[arg-type]


def test_saved_and_restored_it_goes_on_alike(tmp_path: Path) -> None:
    plain = ready(seed=2)
    run(plain, 9)
    plain.suggest("running")
    plain.save(str(tmp_path / "search.pkl"))
    again = RegretlessSearch()
    again.restore(str(tmp_path / "search.pkl"))
    for search in (plain, again):
        search.on_trial_complete("running", {"score": -0.5})
    assert run(plain, 4, 20) == run(again, 4, 20)


def test_choices_that_are_functions_are_saved(tmp_path: Path) -> None:
    search = ready({"f": tune.choice([lambda: "one", lambda: "two"])})
    search.save(str(tmp_path / "search.pkl"))
    again = RegretlessSearch()
    again.restore(str(tmp_path / "search.pkl"))
    assert again.suggest("t0")["f"]() == search.suggest("t0")["f"]()


def values(search: RegretlessSearch) -> list[float | None]:
    assert search._endings is not None
    return [row.value for row in search._endings.optimizer.history()]


def test_a_paused_trial_that_is_stopped_counts_with_its_last_result(tmp_path: Path) -> None:
    """HyperBand stops those, and Tune then completes them without a result."""
    search = ready()
    for number, score in enumerate([0.0, -10.0, -20.0]):
        search.suggest(f"t{number}")
        search.on_trial_complete(f"t{number}", {"score": score})
    for name, score in [("a", -30.0), ("b", -40.0)]:
        search.suggest(name)
        search.on_trial_result(name, {"score": score / 2, "training_iteration": 1})
        search.on_trial_result(name, {"score": score, "training_iteration": 2})
        search.on_trial_result(name, {"training_iteration": 3})
    search.on_trial_result("nobody", {"score": 1.0})
    search.on_trial_complete("a")
    search.save(str(tmp_path / "search.pkl"))
    again = RegretlessSearch()
    again.restore(str(tmp_path / "search.pkl"))
    again.on_trial_complete("b")
    assert values(again) == [0.0, -10.0, -20.0, -30.0, -40.0]
    assert not again._last


def test_a_failed_trial_does_not_count_with_what_it_reported_on_the_way() -> None:
    search = ready()
    run(search, 3)
    search.suggest("crash")
    search.on_trial_result("crash", {"score": 100.0})
    search.on_trial_complete("crash", error=True)
    assert values(search)[-1] == min(values(search)[:3])


@pytest.mark.parametrize("known", [0, 3])  # it was abandoned, or told the worst
def test_a_failed_trial_that_is_resumed_counts_with_its_result(known: int) -> None:
    search = ready(seed=3)
    run(search, known)
    search.suggest("again")
    search.on_trial_complete("again", error=True)
    configs = run(search, 4, start=known)
    stand_in = values(search)
    search.on_trial_complete("again", error=True)
    assert values(search) == stand_in
    search.on_trial_result("again", {"score": -7.0})
    search.on_trial_complete("again")
    assert values(search) == [*stand_in[:known], -7.0, *stand_in[known + 1 :]]
    assert search._endings is not None
    assert search._endings.optimizer.asked == known + 5
    assert [hill(config) for config in configs] == values(search)[known + 1 :]
    run(search, 2, start=20)


def test_failures_and_missing_metrics() -> None:
    search = ready()
    run(search, 4)
    assert search._endings is not None
    search.suggest("crash")
    search.on_trial_complete("crash", error=True)
    search.suggest("silent")
    search.on_trial_complete("silent", {"other": 1.0})
    search.suggest("nan")
    search.on_trial_complete("nan", {"score": float("nan")})
    search.on_trial_complete("nobody", {"score": 1.0})
    assert not search._endings.optimizer.pending
    assert search.best().luckiest <= 0.0
    assert search._endings.optimizer.asked == 7


def test_known_points() -> None:
    search = ready(points_to_evaluate=[{"x": 0.9, "deep": {"k": 3}}])
    search.add_evaluated_point({"x": 0.1, "deep": {"k": 0}}, -0.04)
    assert search._endings is not None
    assert search._endings.optimizer.remaining == 20
    assert search.suggest("t0") == {"x": 0.9, "deep": {"k": 3}}
    assert search.suggest("t1") != {"x": 0.9, "deep": {"k": 3}}
    assert "trials left" in search.explain("t1")


def test_known_points_with_choices_that_are_dicts() -> None:
    adam, sgd = {"name": "adam", "lr": 1}, {"name": "sgd", "lr": 2}
    first = {"deep": {"opt": adam}, "x": 0.5}
    space = {"deep": {"opt": tune.choice([adam, sgd])}, "x": tune.uniform(0.0, 1.0)}
    search = ready(space, points_to_evaluate=[first])
    search.add_evaluated_point({"deep": {"opt": sgd}, "x": 0.25}, 1.0)
    assert search.best().params == {"deep": {"opt": sgd}, "x": 0.25}
    assert search.suggest("t0") == first


def test_known_points_as_tune_reports_them() -> None:
    search = ready(points_to_evaluate=[{"x": 0.9, "deep/k": 3}, {"x": 0.9}])
    assert search.suggest("t0") == {"x": 0.9, "deep": {"k": 3}}
    with pytest.raises(rl.ConfigError, match=r"^deep/k: no value in {'x': 0.9}"):
        search.suggest("t1")


def test_best_names_the_choices() -> None:
    search = ready({"layers": tune.choice([[8], [64, 64]]), "x": tune.uniform(0.0, 1.0)})
    for number in range(8):
        config = search.suggest(f"t{number}")
        search.on_trial_complete(f"t{number}", {"score": len(config["layers"]) - config["x"]})
    assert search.best().params["layers"] == [64, 64]


def test_equal_choices_of_other_types_are_other_choices() -> None:
    space = {"c": tune.choice([1, True, 1.0, "a"]), "x": tune.uniform(0.0, 1.0)}
    first = [{"c": c, "x": 0.5} for c in (True, 1.0, 1)]
    search = ready(space, points_to_evaluate=first)
    assert [repr(search.suggest(f"t{number}")["c"]) for number in range(3)] == ["True", "1.0", "1"]


def test_what_never_worked_is_not_recommended() -> None:
    search = ready()
    search.add_evaluated_point({"x": 0.1, "deep": {"k": 0}}, -1.0)
    for number, x in enumerate([0.12, 0.14]):
        search._first.append({"x": x, "deep": {"k": 0}})
        search.suggest(f"t{number}")
    search.on_trial_complete("t0", error=True)
    search.on_trial_complete("t1", {"score": float("inf")})
    assert search.best().params["x"] == 0.1
    assert search.best().count == 1


def test_a_search_that_goes_on_has_more_budget(caplog: pytest.LogCaptureFixture) -> None:
    search = ready(budget=4)
    run(search, 4)
    assert not search.set_search_properties("score", "max", {"k": 1}, num_samples=6)
    run(search, 6, start=4)
    assert search._endings is not None
    assert search._endings.optimizer.budget == 10
    assert not caplog.messages
    run(search, 1, start=10)
    assert "budget spent" in caplog.text


def test_a_budget_that_was_given_stays() -> None:
    search = RegretlessSearch(SPACE, budget=5)
    for samples in (2, 9):
        assert not search.set_search_properties("score", "max", {"k": 1}, num_samples=samples)
        run(search, 2, start=samples)
    assert search._endings is not None
    assert search._endings.optimizer.budget == 5


def test_bad_input_is_named() -> None:
    assert RegretlessSearch(points_to_evaluate=None)._first == []
    with pytest.raises(rl.SpaceError, match=r"^p: .*need low < high"):
        ready({"p": tune.uniform(1.0, 1.0)})
    search = ready()
    search.suggest("t0")
    for bad in ("bad", [1.0, 2.0]):
        with pytest.raises(rl.DataError, match=r"^score: need a number, got .* of trial t0"):
            search.on_trial_complete("t0", {"score": bad})
    search.on_trial_complete("t0", {"score": 1.0})
    assert values(search) == [1.0]


# -- a real Ray ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    yield tmp_path_factory.mktemp("ray")
    ray.shutdown()


def tuned(search: Any, storage: Path, count: int) -> Any:
    def objective(config: dict[str, Any]) -> None:  # in here, or the workers would import this file
        if config["x"] > 0.9:
            raise RuntimeError("too hot")
        tune.report({"score": -((config["x"] - 0.3) ** 2) - config["deep"]["k"]})

    tuner = tune.Tuner(
        objective,
        param_space=SPACE,
        tune_config=tune.TuneConfig(
            search_alg=search,
            metric="score",
            mode="max",
            num_samples=count,
            max_concurrent_trials=2,
            reuse_actors=True,
        ),
        run_config=tune.RunConfig(storage_path=str(storage), name="run", verbose=0),
    )
    return tuner.fit()


def test_concurrent_trials_in_a_real_ray(cluster: Path) -> None:
    search = RegretlessSearch(seed=1)
    results = tuned(search, cluster / "own", 12)
    assert len(results) == 12
    assert search._endings is not None
    assert search._endings.optimizer.budget == search._endings.optimizer.asked == 12
    pending = [trial.decision.pending for trial in search._endings.optimizer.trials]
    assert max(pending) == 1  # the other one, still under way
    assert search.best().params["deep"]["k"] == 0
    again = RegretlessSearch()
    again.restore_from_dir(str(cluster / "own" / "run"))
    assert again._endings is not None
    assert again._endings.optimizer.trials == search._endings.optimizer.trials


def test_an_own_space_in_a_real_ray(cluster: Path) -> None:
    def objective(config: dict[str, Any]) -> None:
        tune.report({"score": config["x"] + config["layers"] + len(config["data"])})

    search = RegretlessSearch({"x": tune.uniform(0.0, 1.0), "layers": 3})
    tuner = tune.Tuner(
        objective,
        param_space={"data": "train.csv"},
        tune_config=tune.TuneConfig(search_alg=search, metric="score", mode="max", num_samples=2),
        run_config=tune.RunConfig(storage_path=str(cluster / "space"), name="run", verbose=0),
    )
    tuner.fit()
    assert search._endings is not None
    assert search._endings.optimizer.budget == 2
    assert all(12.0 <= value <= 13.0 for value in values(search) if value is not None)
    assert None not in values(search)


def test_an_errored_trial_is_resumed_in_a_real_ray(cluster: Path) -> None:
    mended = cluster / "mended"

    def objective(config: dict[str, Any]) -> None:
        if config["x"] == 0.75 and not mended.exists():
            raise RuntimeError("not yet")
        tune.report({"score": config["x"]})

    points = [{"x": 0.25}, {"x": 0.5}, {"x": 0.75}]
    tuner = tune.Tuner(
        objective,
        param_space={"x": tune.uniform(0.0, 1.0)},
        tune_config=tune.TuneConfig(
            search_alg=RegretlessSearch(points_to_evaluate=points),
            metric="score",
            mode="max",
            num_samples=3,
        ),
        run_config=tune.RunConfig(storage_path=str(cluster / "errored"), name="run", verbose=0),
    )
    assert tuner.fit().num_errors == 1
    mended.touch()
    path = str(cluster / "errored" / "run")
    assert tune.Tuner.restore(path, objective, resume_errored=True).fit().num_errors == 0
    search = RegretlessSearch()
    search.restore_from_dir(path)
    assert values(search) == [0.25, 0.5, 0.75]


def test_the_same_through_optuna(cluster: Path) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed")
    from ray.tune.search.optuna import OptunaSearch

    from regretless.integrations.optuna import RegretlessSampler

    search = OptunaSearch(sampler=RegretlessSampler(budget=10, seed=1))
    results = tuned(search, cluster / "optuna", 10)
    assert len(results) == 10
    scores = [r.metrics["score"] for r in results if not r.error]
    assert len(scores) >= 8
    assert np.isfinite(scores).all()
    trials = search._ot_study.trials
    decisions = [trial.system_attrs["regretless"]["decision"] for trial in trials]
    assert sorted(decision["remaining"] for decision in decisions) == list(range(1, 11))


def test_a_loss_budget_against_the_baseline() -> None:
    today = {"x": 0.5}
    search = RegretlessSearch(
        {"x": tune.uniform(-1.0, 1.0)},
        metric="loss",
        mode="min",
        budget=12,
        baseline=today,
        loss_budget=0.4,
    )
    lost = 0.0
    for number in range(12):
        config = search.suggest(str(number))
        if number == 0:
            assert config == today
        lost += config["x"] ** 2 - 0.25
        assert lost <= 0.4
        search.on_trial_complete(str(number), {"loss": config["x"] ** 2})
    assert search.best().prob_better is not None
