"""Looking at a study costs little, also if it is large, and changes no decision."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sqlalchemy as sa

pytest.importorskip("fastapi")

import regretless as rl
from regretless.engine import Asked, Outcome, Told, write
from regretless.model import Model
from regretless.safety import OBJECTIVE
from regretless.service import schema
from regretless.service.page_data import _PosteriorView, page_data
from regretless.service.problems import Json
from regretless.studies.database import EVENTS
from regretless.studies.journal import Journal

SPACE = rl.Space({"x": rl.Float(0.0, 1.0), "y": rl.Float(0.0, 1.0), "n": rl.Int(0, 50)})
SETTINGS: dict[str, Any] = {"space": SPACE, "budget": 10**5, "seed": 1}
LOOKS: list[Callable[[Any], Any]] = [page_data, schema.Summary.of, schema.Detail.of]


def value(params: dict[str, Any], rng: np.random.Generator) -> float:
    return float(params["x"] - (params["y"] - 0.3) ** 2 + 0.1 * rng.standard_normal())


def write_study(path: Path, trials: int, points: int, name: str = "s") -> None:
    """A study as many workers would leave it, written at once, with a late fit."""
    rng = np.random.default_rng(0)
    places = [SPACE.decode(x) for x in SPACE.spread(rng.random((points, SPACE.dim)))]
    small = rl.Optimizer(**SETTINGS)
    for params in places[:60]:
        small.observe(params, value(params, rng))
    fit = small.propose().fit
    assert fit is not None
    rl.Study.open(path, name, **SETTINGS).close()
    order = rng.permutation(np.r_[:points, rng.integers(points, size=trials - points)])
    rows: list[dict[str, Any]] = []
    begun = datetime.now(UTC)

    def put(event: Any, key: str) -> None:
        kind, version, body = write(event)
        seq = len(rows) + 2
        when = (begun + timedelta(seconds=seq)).isoformat(timespec="microseconds")
        row = {"study": name, "seq": seq, "time": when, "kind": kind, "version": version}
        rows.append(row | {"body": json.dumps(body), "key": key})

    why = rl.Decision("explore", "ids", 10, mean=0.1, sd=0.2, z=-0.5, gate=-2.0, noise_sd=0.1)
    for number, place in enumerate(order):
        late = dict(fit, at=number, points=len(set(order[:number].tolist())))
        params = places[place]
        put(Asked(number, params, why, late if number == trials - 20 else None), f"asked {number}")
        told = {OBJECTIVE: Outcome(value(params, rng), None, 1)}
        put(Told(number, told, None, None), f"told {number}")
    with Journal.open(path) as journal, journal._engine.connect() as conn:
        journal._backend.lock(conn, name)
        conn.execute(sa.insert(EVENTS), rows)
        conn.commit()


@pytest.fixture
def study(tmp_path: Path) -> rl.Study:
    write_study(tmp_path / "s.db", 120, 60)
    return rl.Study.open(tmp_path / "s.db", "s")


def look(study: rl.Study, question: Callable[[Any], Any]) -> Any:
    """As the service does it."""
    view = study.snapshot()
    answer = question(view)
    study.take_posterior_of(view)
    return answer


def test_the_posterior_is_built_once(study: rl.Study, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[int] = []
    posterior = Model.posterior
    monkeypatch.setattr(
        Model, "posterior", lambda *args: built.append(len(args[1])) or posterior(*args)
    )
    look(study, page_data)
    once = len(built)  # a fit may have several draws
    assert once
    for question in LOOKS:
        look(study, question)
    study.tell(study.adopt({"x": 0.25, "y": 0.5, "n": 3}), 0.7)
    for question in LOOKS:
        look(study, question)
    assert len(built) == once


def test_a_look_changes_no_decision(tmp_path: Path) -> None:
    def run(name: str, looks: bool) -> list[Any]:
        with rl.Study.open(tmp_path / f"{name}.db", name, **SETTINGS) as study:
            rng = np.random.default_rng(3)
            asked = []
            for _ in range(14):
                trial = study.ask()
                if looks and study.observations:
                    look(study, page_data)
                study.tell(trial, value(trial.params, rng))
                if looks:
                    look(study, schema.Summary.of)
                asked.append((trial.params, trial.decision))
            return asked

    assert run("seen", True) == run("unseen", False)


def test_another_fit_is_not_taken_over(study: rl.Study) -> None:
    old = study.snapshot()
    page_data(old)
    while not study.ask().decision.refitted:
        study.tell(study.adopt({"x": 0.5, "y": 0.5, "n": 1}), 5.0)
    fresh = study._state.optimizer._belief
    study.take_posterior_of(old)
    assert study._state.optimizer._belief is fresh


def test_correlations_are_those_of_the_whole_matrix(study: rl.Study) -> None:
    optimizer = study.snapshot().optimizer
    view = _PosteriorView.of(optimizer, optimizer.history())
    onto = view.points[::-1].copy()
    kernel = view.situation.fitted.hyper.kernel
    sds = np.sqrt(kernel.diag(view.points)), np.sqrt(kernel.diag(onto))
    whole = kernel.gram(view.points, onto) / np.outer(*sds)
    assert len(view.points) > 32
    np.testing.assert_allclose(view._correlations(onto), np.diag(whole), rtol=1e-12)


def test_one_entry_for_each_point(study: rl.Study) -> None:
    data = look(study, page_data)
    assert len(data["slices"][0]["points"]) == 60
    assert sum(point["count"] for point in data["slices"][0]["points"]) == 120
    assert data["counts"]["told"] == 120


@pytest.mark.slow
def test_the_time_of_a_look_at_a_large_study(tmp_path: Path) -> None:
    """CPU time; the bars are those of a machine that does nothing else."""
    write_study(tmp_path / "s.db", 5_000, 1_000)

    def seconds(question: Callable[[Any], Any]) -> float:
        start = time.process_time()
        look(study, question)
        return time.process_time() - start

    def page(view: Any) -> bytes:
        return bytes(Json(page_data(view)).body)

    with rl.Study.open(tmp_path / "s.db", "s") as study:
        look(study, page)
        rng = np.random.default_rng(5)
        took: dict[str, list[float]] = {"page": [], "list": [], "detail": []}
        for _ in range(5):
            params = SPACE.decode(rng.random(SPACE.dim))
            study.tell(study.adopt(params), value(params, rng))
            took["page"].append(seconds(page))
            took["list"].append(seconds(schema.Summary.of))
            took["detail"].append(seconds(schema.Detail.of))
        assert min(took["page"]) < 0.4
        assert min(took["list"]) < 0.05
        assert min(took["detail"]) < 0.05
