"""Whatever is sent, the answer is one that the schema promises."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis import GenerationMode
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    negative_data_rejection,
    response_schema_conformance,
    status_code_conformance,
)

from tests.support.asking import Client, RealServer

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
)


def ask_all(server: RealServer, mode: GenerationMode, num_examples: int) -> dict[str, int]:
    """How many requests each operation has stood, valid or invalid by the schema."""
    schema = schemathesis.openapi.from_url(f"{server.url}openapi.json", timeout=60)
    counts = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not _can_be_wrong(operation):
            continue
        counts[operation.label] = 0

        @given(case=operation.as_strategy(generation_mode=mode))
        @settings(
            max_examples=num_examples,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        )
        def ask(case: Any) -> None:
            counts[case.operation.label] += 1
            case.call_and_validate(checks=CHECKS, timeout=60)

        ask()
    return counts


def _can_be_wrong(operation: Any) -> bool:
    """Whether a request can break the schema: any text could be the name of a class."""
    typed = [one for one in operation.path_parameters if one.name != "name"]
    return bool(typed or list(operation.query) or list(operation.body))


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_nothing_sent_breaks_a_promise(server: RealServer, mode: GenerationMode) -> None:
    counts = ask_all(server, mode, 5)
    assert len(counts) == (9 if mode is GenerationMode.POSITIVE else 6)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_much_that_is_sent_breaks_no_promise(server: RealServer, mode: GenerationMode) -> None:
    counts = ask_all(server, mode, 200)
    assert sum(counts.values()) > 1000


def test_the_page_of_the_api_tells_all_of_the_schema(client: Client) -> None:
    text, schema = client("GET", "/docs").text, client("GET", "/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"{method.upper()}</span> <code>{path}</code>" in text
    for name in ("guesses[].name", "limits.image_bytes", "exemplars[].stored", "[].exemplars"):
        assert f"<code>{name}</code>" in text
    assert "http" not in text.replace("http://127.0.0.1:8765", "")
