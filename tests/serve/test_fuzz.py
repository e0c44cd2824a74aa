"""The API against its own schema: no request makes the server fail."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis.errors import Unsatisfiable

schemathesis = pytest.importorskip("schemathesis")
from schemathesis import GenerationMode, checks  # noqa: E402

# Also that statuses, types and bodies are those the schema tells of, and that what it forbids is refused. Not that
# what it allows is accepted: a schema cannot say that indices and values must be equally many.
CHECKS = (
    checks.not_a_server_error,
    checks.status_code_conformance,
    checks.content_type_conformance,
    checks.response_schema_conformance,
    checks.negative_data_rejection,
    checks.unsupported_method,
)


@pytest.fixture(scope="module")
def api(client: Any) -> Iterator[Any]:
    config = schemathesis.Config.from_dict(
        {"checks": {"negative_data_rejection": {"expected-statuses": [405, 413, 415, 422]}}}
    )
    yield schemathesis.openapi.from_url(f"http://127.0.0.1:{client.port}/openapi.json", config=config)
    errors = [
        line for line in client.get("/metrics").body.decode().splitlines() if line.startswith("gssc_errors_total")
    ]
    assert not [line for line in errors if 'status="5' in line]
    assert [line for line in errors if 'path="/predict"' in line], "nothing wrong was ever sent"


OPERATIONS = {
    "/predict": "POST",
    "/predict/file": "POST",
    "/model": "GET",
    "/health": "GET",
    "/metrics": "GET",
}


@pytest.mark.parametrize("mode", list(GenerationMode), ids=lambda mode: mode.value)
@pytest.mark.parametrize("path", OPERATIONS)
def test_nothing_that_is_asked_fails(api: Any, path: str, mode: Any) -> None:
    operation = api[path][OPERATIONS[path]]
    count = 0

    # Requests the schema allows, and requests it does not.
    @given(case=operation.as_strategy(generation_mode=mode))
    @settings(max_examples=50 if path.startswith("/predict") else 10, suppress_health_check=list(HealthCheck))
    def ask(case: Any) -> None:
        nonlocal count
        count += 1
        case.call_and_validate(checks=CHECKS)

    try:
        ask()
    except Unsatisfiable:
        assert (mode, count) == (GenerationMode.NEGATIVE, 0), "only of a request without parts is none wrong"


def test_the_operations_are_all_of_them(api: Any) -> None:
    found = {(found.ok().path, found.ok().method.upper()) for found in api.get_all_operations()}
    assert found == set(OPERATIONS.items())
