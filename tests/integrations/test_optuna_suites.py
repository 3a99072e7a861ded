"""Optuna's own conformance suites for samplers, as Optuna 5 ships them.

`MultiObjectiveSamplerTestCase` is the one that does not apply: ours has one objective, and the
sampler says so, as `SingleOnlySamplerTestCase` demands.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

pytest.importorskip("optuna", reason="optuna is not installed")
suites = pytest.importorskip(
    "optuna.testing.pytest_samplers", reason="this Optuna ships no suites for samplers"
)

from regretless.integrations.optuna import RegretlessSampler  # noqa: E402

pytestmark = pytest.mark.integration


class _Ours:
    @pytest.fixture
    def sampler(self) -> Callable[[], Any]:
        return lambda: RegretlessSampler(budget=100, n0=2)


class TestBasic(_Ours, suites.BasicSamplerTestCase):  # type: ignore[misc]
    pass


class TestRelative(_Ours, suites.RelativeSamplerTestCase):  # type: ignore[misc]
    pass


class TestSingleObjective(_Ours, suites.SingleOnlySamplerTestCase):  # type: ignore[misc]
    pass
