"""The page, its style and script, and the page of the API; nothing is loaded from elsewhere."""

from __future__ import annotations

from importlib import resources
from typing import Any

import jinja2
from fastapi import APIRouter, Request, Response
from fastapi.responses import HTMLResponse

_TEMPLATES = jinja2.Environment(
    loader=jinja2.PackageLoader("remnant.serving"),
    autoescape=True,
    undefined=jinja2.StrictUndefined,
    trim_blocks=True,
    lstrip_blocks=True,
)
router = APIRouter(include_in_schema=False)


@router.get("/")
def index(request: Request) -> HTMLResponse:
    store = request.app.state.store
    return HTMLResponse(_TEMPLATES.get_template("index.html.j2").render(name=store.name))


@router.get("/docs")
def docs(request: Request) -> HTMLResponse:
    schema = request.app.openapi()
    values = {"schema": schema, "operations": operations(schema)}
    return HTMLResponse(_TEMPLATES.get_template("docs.html.j2").render(**values))


@router.get("/page.css")
def style() -> Response:
    """The look of the reports, and what this page has besides."""
    looks = _read("remnant.reports", "page.css"), _read("remnant.serving", "serve.css")
    return Response("\n".join(looks), media_type="text/css")


@router.get("/serve.js")
def script() -> Response:
    return Response(_read("remnant.serving", "serve.js"), media_type="text/javascript")


def _read(package: str, name: str) -> str:
    return resources.files(package).joinpath("templates", name).read_text()


# -------------------------------------------------------------------------------- the API, in words


def operations(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """What an OpenAPI schema offers, a row per address and method, for a template."""
    return [
        {
            "method": method.upper(),
            "path": path,
            "id": operation["operationId"],
            "about": operation["description"],
            "inputs": [*_parameters(operation), *_fields(schema, operation)],
            "answers": [
                (status, answer["description"], _outputs(schema, answer))
                for status, answer in sorted(operation["responses"].items())
            ],
        }
        for path, methods in schema["paths"].items()
        for method, operation in methods.items()
    ]


def _parameters(operation: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        _input(one["name"], f"in the {one['in']}", one["schema"], one["required"])
        | {"about": one.get("description", "")}
        for one in operation.get("parameters", ())
    ]


def _fields(schema: dict[str, Any], operation: dict[str, Any]) -> list[dict[str, Any]]:
    """What a form takes."""
    found = []
    for content in operation.get("requestBody", {}).get("content", {}).values():
        form = _resolve(schema, content["schema"])
        required = form.get("required", ())
        for name, value in form["properties"].items():
            found.append(_input(name, "in the form", value, name in required))
    return found


def _input(name: str, place: str, value: dict[str, Any], is_required: bool) -> dict[str, Any]:
    return {
        "name": name,
        "place": place,
        "type": _type_text(value),
        "about": value.get("description", ""),
        "default": None if is_required else value.get("default"),
    }


def _outputs(schema: dict[str, Any], answer: dict[str, Any]) -> list[dict[str, Any]]:
    """The keys of a JSON answer."""
    return _keys(schema, answer.get("content", {}).get("application/json", {}).get("schema", {}))


def _keys(schema: dict[str, Any], value: dict[str, Any], place: str = "") -> list[dict[str, Any]]:
    """All keys, those of objects inside as `guesses[].name`."""
    if "items" in value:
        return _keys(schema, value["items"], f"{place}[].")
    found = []
    for name, one in _resolve(schema, value).get("properties", {}).items():
        row = {"name": place + name, "type": _type_text(one), "about": one.get("description", "")}
        is_nested = "$ref" in one or "$ref" in one.get("items", {})
        inner = f"{place}{name}" + ("" if "items" in one else ".")
        found += [row, *(_keys(schema, one, inner) if is_nested else ())]
    return found


def _resolve(schema: dict[str, Any], value: dict[str, Any]) -> dict[str, Any]:
    reference = value.get("$ref")
    return schema["components"]["schemas"][reference.rpartition("/")[2]] if reference else value


def _type_text(value: dict[str, Any]) -> str:
    if "$ref" in value:
        return value["$ref"].rpartition("/")[2]
    if "anyOf" in value:
        return " or ".join(_type_text(one) for one in value["anyOf"])
    if "enum" in value:
        return " | ".join(value["enum"])
    if value.get("type") == "array":
        return f"list of {_type_text(value['items'])}"
    if "contentMediaType" in value or value.get("format") == "binary":
        return "file"
    return value.get("type", "any")
