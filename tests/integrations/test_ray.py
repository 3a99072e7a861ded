"""The Ray Tune searcher, in a real local Ray where trials run side by side."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import noregret as nr

ray = pytest.importorskip("ray", reason="ray is not installed")
tune = pytest.importorskip("ray.tune", reason="ray[tune] is not installed")

from noregret.integrations.ray import NoRegretSearch  # noqa: E402

pytestmark = [
    pytest.mark.integration,
    pytest.mark.filterwarnings("default"),  # Ray's own are many
]

SPACE = {"x": tune.uniform(0.0, 1.0), "deep": {"k": tune.randint(0, 4)}}


def hill(config: dict[str, Any]) -> float:
    return float(-((config["x"] - 0.3) ** 2) - config["deep"]["k"])


def ready(space: dict[str, Any] | None = None, budget: int = 20, **options: Any) -> NoRegretSearch:
    search = NoRegretSearch(**options)
    assert search.set_search_properties("score", "max", space or SPACE, num_samples=budget)
    return search


def run(search: NoRegretSearch, count: int, start: int = 0) -> list[dict[str, Any]]:
    configs = []
    for number in range(start, start + count):
        configs.append(search.suggest(f"t{number}"))
        search.on_trial_complete(f"t{number}", {"score": hill(configs[-1])})
    return configs


# -- spaces ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("domain", "expected"),
    [
        (tune.uniform(-1.0, 2.0), nr.Float(-1.0, 2.0)),
        (tune.loguniform(1e-4, 1.0), nr.Float(1e-4, 1.0, log=True)),
        (tune.quniform(0.0, 1.0, 0.25), nr.Float(0.0, 1.0, step=0.25)),
        (tune.randint(2, 9), nr.Int(2, 8)),
        (tune.lograndint(1, 65), nr.Int(1, 64, log=True)),
        (tune.qrandint(4, 12, 4), nr.Float(4, 12, step=4)),
        (tune.qrandint(3, 9, 1), nr.Int(3, 8)),
        (tune.choice(["a", ["b"], None]), nr.Categorical([0, 1, 2])),
    ],
    ids=lambda value: type(value).__name__,  # the same in every process
)
def test_search_spaces_are_converted(domain: Any, expected: Any) -> None:
    search = ready({"p": domain})
    assert search._optimizer is not None
    assert search._optimizer.space.parameters["p"] == expected
    for number in range(8):
        value = search.suggest(f"t{number}")["p"]
        assert domain.is_valid(value)
        assert type(value) in (float, int, str, list, type(None))
        search.on_trial_complete(f"t{number}", {"score": 0.0})


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
    with pytest.raises(nr.ConfigError, match=r"p: this search space|space: need Tune's"):
        ready({"p": domain})


def test_constants_are_left_to_tune() -> None:
    search = ready({"x": tune.uniform(0.0, 1.0), "data": "train.csv"})
    assert list(search.suggest("t0")) == ["x"]


# -- the verbs -------------------------------------------------------------------------------------


def test_suggestions_are_the_optimizers() -> None:
    space = nr.Space({"x": nr.Float(0.0, 1.0), "deep/k": nr.Int(0, 3)})
    optimizer = nr.Optimizer(space, 20, seed=4)
    configs = run(ready(seed=4), 12)
    for config in configs:
        trial = optimizer.ask()
        assert trial.params == {"x": config["x"], "deep/k": config["deep"]["k"]}
        optimizer.tell(trial, hill(config))


def test_num_samples_is_the_budget() -> None:
    search = ready(budget=33)
    assert search._optimizer is not None
    assert search._optimizer.budget == 33
    with pytest.raises(nr.ConfigError, match="budget: need one"):
        ready(budget=-1)
    own = NoRegretSearch(budget=7)
    own.set_search_properties("score", "min", SPACE, num_samples=-1)
    assert own._optimizer is not None
    assert (own._optimizer.budget, own._optimizer.direction) == (7, "minimize")


def test_a_space_is_set_once() -> None:
    search = NoRegretSearch(SPACE, "score", "max", 10)
    assert not search.set_search_properties("score", "max", SPACE, num_samples=10)
    with pytest.raises(nr.ConfigError, match="space: need one"):
        NoRegretSearch().suggest("t0")


def test_saved_and_restored_it_goes_on_alike(tmp_path: Path) -> None:
    plain = ready(seed=2)
    run(plain, 9)
    plain.suggest("running")
    plain.save(str(tmp_path / "search.pkl"))
    again = NoRegretSearch()
    again.restore(str(tmp_path / "search.pkl"))
    for search in (plain, again):
        search.on_trial_complete("running", {"score": -0.5})
    assert run(plain, 4, 20) == run(again, 4, 20)


def test_failures_and_missing_metrics() -> None:
    search = ready()
    run(search, 4)
    assert search._optimizer is not None
    search.suggest("crash")
    search.on_trial_complete("crash", error=True)
    search.suggest("silent")
    search.on_trial_complete("silent", {"other": 1.0})
    search.suggest("nan")
    search.on_trial_complete("nan", {"score": float("nan")})
    search.on_trial_complete("nobody", {"score": 1.0})
    assert not search._optimizer.pending
    assert search.best().luckiest <= 0.0
    assert search._optimizer.asked == 7


def test_known_points() -> None:
    search = ready(points_to_evaluate=[{"x": 0.9, "deep": {"k": 3}}])
    search.add_evaluated_point({"x": 0.1, "deep": {"k": 0}}, -0.04)
    assert search._optimizer is not None
    assert search._optimizer.remaining == 20
    assert search.suggest("t0") == {"x": 0.9, "deep": {"k": 3}}
    assert search.suggest("t1") != {"x": 0.9, "deep": {"k": 3}}
    assert "evaluations left" in search.explain("t1")


def test_best_names_the_choices() -> None:
    search = ready({"layers": tune.choice([[8], [64, 64]]), "x": tune.uniform(0.0, 1.0)})
    for number in range(8):
        config = search.suggest(f"t{number}")
        search.on_trial_complete(f"t{number}", {"score": len(config["layers"]) - config["x"]})
    assert search.best().params["layers"] == [64, 64]


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
    search = NoRegretSearch(seed=1)
    results = tuned(search, cluster / "own", 12)
    assert len(results) == 12
    assert search._optimizer is not None
    assert search._optimizer.budget == search._optimizer.asked == 12
    pending = [trial.decision.pending for trial in search._optimizer.trials]
    assert max(pending) == 1  # the other one, still under way
    assert search.best().params["deep"]["k"] == 0
    again = NoRegretSearch()
    again.restore_from_dir(str(cluster / "own" / "run"))
    assert again._optimizer is not None
    assert again._optimizer.trials == search._optimizer.trials


def test_the_same_through_optuna(cluster: Path) -> None:
    pytest.importorskip("optuna", reason="optuna is not installed")
    from ray.tune.search.optuna import OptunaSearch

    from noregret.integrations.optuna import NoRegretSampler

    sampler = NoRegretSampler(budget=10, seed=1)
    results = tuned(OptunaSearch(sampler=sampler), cluster / "optuna", 10)
    assert len(results) == 10
    values = [r.metrics["score"] for r in results if not r.error]
    assert len(values) >= 8
    assert np.isfinite(values).all()
    assert sampler._fold is not None
    assert sampler._fold.optimizer.budget == 10
