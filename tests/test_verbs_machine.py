"""The verbs of a study against a reference: see verbs_machine.py."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis.stateful import run_state_machine_as_test

pytest.importorskip("sqlalchemy")

from regretless.errors import RegretlessError
from regretless.studies.journal import Journal
from regretless.studies.state import State
from verbs_machine import VerbsMachine

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")


def run(storage: str, examples: int, steps: int, **more: Any) -> None:
    machine = type("Machine", (VerbsMachine,), {"storage": storage})
    limits = settings(max_examples=examples, stateful_step_count=steps, deadline=None, **more)
    run_state_machine_as_test(machine, settings=limits)


def test_any_verbs_in_any_order(storage: str) -> None:
    run(storage, examples=20, steps=15)


@pytest.mark.slow
def test_many_verbs_in_any_order(storage: str) -> None:
    run(storage, examples=500, steps=40)


def _without_keys(self: Journal, *args: Any, **kwargs: Any) -> Any:
    return _APPEND(self, *args, **{**kwargs, "key": None})


def _not_broken(self: State, stored: Any) -> Any:
    try:
        return _FOLD(self, stored)
    finally:
        self.broken = False


_APPEND, _FOLD = Journal.append_if, State.fold


@pytest.mark.parametrize(
    ("place", "name", "mistake"),
    [(Journal, "append_if", _without_keys), (State, "fold", _not_broken)],
)
def test_the_machine_finds_mistakes(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch, place: type, name: str, mistake: Any
) -> None:
    """Events without keys, which are doubled; a state that is used after an interruption."""
    monkeypatch.setattr(place, name, mistake)
    at_once = {"phases": [Phase.generate], "report_multiple_bugs": False}
    with pytest.raises((AssertionError, RegretlessError)):
        run(str(tmp_path / "s.db"), examples=50, steps=15, **at_once)
