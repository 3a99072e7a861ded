"""The default has a version, and a study keeps the one that it was created with."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import regretless as rl
from golden import SPACES, stored, value
from regretless import defaults
from regretless.defaults import NEWEST, Defaults, Prior, defaults_of

POLICIES = ["ids", "eic", "gp-ucb"]
LOOKS_UP = r"^from regretless\.defaults import .*\b(NEWEST|VERSIONS|defaults_of)\b"


def trials(space: rl.Space, policy: str, steps: int, **settings: Any) -> list[rl.Trial]:
    """A run with a result that is late, and a disaster."""
    rng = np.random.default_rng(1)
    optimizer = rl.Optimizer(space, 40, policy=policy, seed=2, **settings)
    optimizer.ask()  # stays pending
    for step in range(steps):
        trial = optimizer.ask()
        outcome = value(space, trial.params, rng)
        optimizer.tell(trial, -1e4 if step == 5 else outcome)
    return optimizer.trials


# --- versions -------------------------------------------------------------------------------------


def test_the_newest_is_taken_where_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rl.Optimizer(SPACES["line"], 10).spec()["defaults"] == max(defaults.VERSIONS)
    monkeypatch.setitem(defaults.VERSIONS, 99, NEWEST._replace(version=99))
    assert rl.Optimizer(SPACES["line"], 10).spec()["defaults"] == 99
    assert rl.Optimizer(SPACES["line"], 10, defaults=1).spec()["defaults"] == 1


@pytest.mark.parametrize("version", [0, 98, "1", 1.0, True, [1]])
def test_a_version_that_is_not_known_is_refused(version: object) -> None:
    message = r"defaults: this release knows version 1, 2, 3, 4, 5, got"
    with pytest.raises(rl.ConfigError, match=message):
        rl.Optimizer(SPACES["line"], 10, defaults=version)  # type: ignore[arg-type]


def test_each_version_knows_its_number() -> None:
    assert {number: each.version for number, each in defaults.VERSIONS.items()} == {
        number: number for number in defaults.VERSIONS
    }
    assert defaults_of() is NEWEST


def test_a_study_keeps_the_start_that_it_began_with(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A newer default with another start: nothing that was planned is skipped or asked again."""
    space = SPACES["mixed"]
    alone = [trial.params for trial in rl.Optimizer(space, 40, seed=3).ask(6)]
    with rl.Study.open(tmp_path / "s.sqlite", "s", space=space, budget=40, seed=3) as study:
        begun = [study.ask().params for _ in range(2)]
    rules = NEWEST.start._replace(choices_first=False, beyond_dim=0)
    monkeypatch.setitem(defaults.VERSIONS, 99, NEWEST._replace(version=99, start=rules))
    with rl.Study.open(tmp_path / "s.sqlite", "s") as study:
        assert begun + [study.ask().params for _ in range(4)] == alone
    fresh = [trial.params for trial in rl.Optimizer(space, 40, seed=3).ask(6)]
    assert fresh != alone  # and a new one has the new start
    text = rl.Optimizer(space, 40, seed=3, defaults=1).to_json()
    assert rl.Optimizer.from_json(text).ask().params == alone[0]


def test_a_study_of_a_newer_release_is_refused(tmp_path: Path) -> None:
    text = rl.Optimizer(SPACES["line"], 10).to_json()
    newer = text.replace(f'"defaults": {NEWEST.version}', '"defaults": 7')
    assert newer != text
    message = r"defaults: this release knows version 1, 2, 3, 4, 5, got 7"
    with pytest.raises(rl.RegretlessError, match=message):
        rl.Optimizer.from_json(newer)


# --- no constant is taken from elsewhere ----------------------------------------------------------


def test_only_the_optimizer_looks_up_a_version() -> None:
    """All others are handed the rules of the study: none can take the newest by accident."""
    source = Path(rl.__file__).parent
    users = {
        str(path.relative_to(source))
        for path in source.rglob("*.py")
        if re.search(LOOKS_UP, path.read_text(encoding="utf-8"), flags=re.MULTILINE)
    }
    # The settings of a model that is made without any are stored one by one.
    assert users == {"engine/optimizer.py", "model/model.py"}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SPACES)
@pytest.mark.parametrize("version", defaults.VERSIONS)
def test_a_run_is_the_same_under_a_newer_default(
    version: int, name: str, policy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    newest = version == NEWEST.version  # is what is taken where none is named
    expected = trials(SPACES[name], policy, 12, **({} if newest else {"defaults": version}))
    monkeypatch.setitem(defaults.VERSIONS, 99, altered(defaults_of(version)))
    found = trials(SPACES[name], policy, 12, defaults=version)
    assert [t.params for t in found] == [t.params for t in expected]
    assert [t.decision for t in found] == [t.decision for t in expected]
    other = trials(SPACES[name], policy, 12)
    assert [t.params for t in other] != [t.params for t in expected]


def altered(rules: Defaults) -> Defaults:
    """A version 99 in which nothing is as it was: counts are larger by 1, other numbers by half."""
    return _altered(rules)._replace(version=99)


def _altered(value: Any) -> Any:
    if isinstance(value, Prior):
        return replace(value, low=0.5 * value.low, center=value.center + 0.5, sd=1.5 * value.sd)
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, int):
        return value + 1
    if isinstance(value, float):
        return 1.5 * value
    inner = [_altered(each) for each in value]
    return type(value)(*inner) if hasattr(value, "_fields") else tuple(inner)


# --- what each version suggests -------------------------------------------------------------------


CASES = [
    (version, case)
    for version in (*defaults.VERSIONS, *defaults.CANDIDATES)
    for case in stored(version)
]


@pytest.mark.parametrize(
    ("version", "case"), CASES, ids=lambda c: c["name"] if isinstance(c, dict) else f"version {c}"
)
def test_the_next_suggestion_of_a_stored_optimizer(version: int, case: dict[str, Any]) -> None:
    """Up to what another machine's rounding may change; another rule changes far more."""
    optimizer = rl.Optimizer.from_json(json.dumps(case["optimizer"]))
    assert optimizer.spec()["defaults"] == version
    trial = optimizer.ask()
    assert trial.decision.reason == case["next"]["reason"]
    here, there = (optimizer.space.encode(p) for p in (trial.params, case["next"]["params"]))
    np.testing.assert_allclose(here, there, atol=2e-3)
    for number in ("mean", "sd", "gate"):
        stored, now = case["next"][number], getattr(trial.decision, number)
        assert (stored is None) == (now is None)
        if stored is not None:
            assert now == pytest.approx(stored, rel=2e-2, abs=2e-3)
