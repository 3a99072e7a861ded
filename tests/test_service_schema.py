"""Whatever is sent, the answer is one that the service's own description knows: schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import pytest

pytest.importorskip("fastapi")
pytest.importorskip("schemathesis")

import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

import regretless as rl
from regretless.client import Client
from serving import Service, serving

SPACE = rl.Space({"x": rl.Float(0.0, 1.0)})


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    folder = tmp_path_factory.mktemp("schema")
    with serving(str(folder / "s.db"), folder=folder) as service:
        study = Client(service.url).create("s", space=SPACE, budget=50)
        study.tell(study.ask(3)[0], 1.0)
        yield service
        assert "Traceback" not in service.log


REPEATABLE = settings(
    deadline=None,
    derandomize=True,
    database=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=list(HealthCheck),
)


# What can be told from the description is not all that the library knows about right and wrong.
BEYOND_SHAPES = [positive_data_acceptance, negative_data_rejection]


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_whatever_is_sent(service: Service, mode: GenerationMode) -> None:
    """Right requests and wrong ones, for every operation."""
    send(service, mode, times=8)


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
def test_whatever_is_sent_at_length(service: Service, mode: GenerationMode) -> None:
    send(service, mode, times=60)


def send(service: Service, mode: GenerationMode, times: int) -> None:
    description = schemathesis.openapi.from_url(f"{service.url}/openapi.json")
    operations = [found.ok() for found in description.get_all_operations()]
    assert len(operations) > 12
    for operation in operations:

        @settings(REPEATABLE, max_examples=times)
        @given(case=operation.as_strategy(generation_mode=mode))
        def check(case: Any) -> None:
            if "name" in case.path_parameters:  # hardly ever a study that is there, by chance
                case.path_parameters["name"] = "s"
            if isinstance(case.body, dict) and case.body.get("n") in range(3, 101):
                case.body["n"] = 2  # a hundred trials are as right, and take fifty times as long
            case.call_and_validate(excluded_checks=BEYOND_SHAPES)

        with suppress(Unsatisfiable):  # nothing can be wrong where nothing can be sent
            check()
