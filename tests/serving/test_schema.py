"""Every response to generated requests must conform to the OpenAPI schema."""

from __future__ import annotations

import re
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

from tests.support.http_client import ADDRESS, Client, RealServer

CHECKS = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    negative_data_rejection,
)


def check_all(server: RealServer, mode: GenerationMode, num_examples: int) -> dict[str, int]:
    """Check generated requests, valid or invalid, and return how many each operation got."""
    schema = schemathesis.openapi.from_url(f"{server.url}openapi.json", timeout=60)
    counts = {}
    for found in schema.get_all_operations():
        operation = found.ok()
        if mode is GenerationMode.NEGATIVE and not _can_be_invalid(operation):
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
        def check(case: Any) -> None:
            counts[case.operation.label] += 1
            case.call_and_validate(checks=CHECKS, timeout=60)

        check()
    return counts


def _can_be_invalid(operation: Any) -> bool:
    """Whether the schema forbids anything: any text is a valid class name."""
    typed = [one for one in operation.path_parameters if one.name != "name"]
    return bool(typed or list(operation.query) or list(operation.body))


@pytest.mark.parametrize("mode", list(GenerationMode))
def test_responses_conform_to_the_schema(server: RealServer, mode: GenerationMode) -> None:
    counts = check_all(server, mode, 5)
    assert len(counts) == (12 if mode is GenerationMode.POSITIVE else 8)


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("mode", list(GenerationMode))
def test_many_responses_conform_to_the_schema(server: RealServer, mode: GenerationMode) -> None:
    counts = check_all(server, mode, 200)
    assert sum(counts.values()) > 1000


def test_the_docs_page_lists_every_operation(client: Client) -> None:
    text, schema = client("GET", "/docs").text, client("GET", "/openapi.json").json()
    for path, methods in schema["paths"].items():
        for method in methods:
            assert f"<code>{method.upper()} {path}</code>" in text
    assert 'href="/openapi.json"' in text
    assert "http" not in text.replace(f"{ADDRESS}/api/", "")


def test_the_examples_of_the_docs_page_exist(client: Client) -> None:
    paths = client("GET", "/openapi.json").json()["paths"]
    examples = re.findall(rf"{ADDRESS}(/api/[\w/]+)", client("GET", "/docs").text)
    assert len(examples) >= 5
    for example in examples:
        assert example.replace("/1", "/{id}").replace("daisy", "{name}") in paths


def test_every_field_of_the_schema_is_described(client: Client) -> None:
    models = client("GET", "/openapi.json").json()["components"]["schemas"]
    missing = [
        f"{name}.{field}"
        for name, model in models.items()
        for field, value in model["properties"].items()
        if "description" not in value
    ]
    assert missing == []
