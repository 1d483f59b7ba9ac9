"""What the OpenAPI description says and what the service does, compared by schemathesis."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.config import SchemathesisConfig
from schemathesis.generation import GenerationMode
from server_checks import CHECKS, PATHS, POSTED, UNIT
from server_fakes import FakeModel, make_index, running

from phrasemate.server.settings import Settings


@pytest.fixture(scope="module")
def description(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    model = FakeModel()
    with running(make_index(tmp_path_factory.mktemp("schema") / "idx", model), Settings(), model) as port:
        url = f"http://127.0.0.1:{port}/openapi.json"
        yield schemathesis.openapi.from_url(url, config=SchemathesisConfig.from_str(CHECKS))


@pytest.mark.slow
@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("path", PATHS)
def test_the_service_does_what_its_description_says(description: Any, path: str, mode: GenerationMode) -> None:
    (operation,) = description[path].values()
    if mode is GenerationMode.NEGATIVE and path not in (*POSTED, UNIT):
        pytest.skip("nothing in it can be wrong")

    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
    def check_case(case: schemathesis.Case) -> None:
        case.call_and_validate()

    check_case()


def test_nothing_is_left_out(description: Any) -> None:
    assert set(description) == set(PATHS)
