"""docs/reference/http.md: the requests that `remnant serve` answers, from its OpenAPI schema."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

from benchmarks.reference.setting_tables import table
from remnant.serving.app import build_app
from remnant.serving.guard import Rules

_INTRO = """# HTTP API

The requests that `remnant serve STORE` answers; [Serving a store](../serving.md) has examples, and
says who is kept out. A running server describes itself under `/docs`, and as an OpenAPI document
under `/openapi.json`, from which this page is made. The body of every error is one sentence under
the key `error`.
"""


def http_page() -> str:
    session: Any = SimpleNamespace(name="a store")
    document = build_app(session, Rules()).openapi()
    models = document["components"]["schemas"]
    operations = [
        (f"{method.upper()} {path}", operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    rows = [(f"[`{title}`](#{_anchor(title)})", _about(operation))
            for title, operation in operations]  # fmt: skip
    parts = [_INTRO, table(("request", "does"), rows), "## Requests\n"]
    parts += [_operation(title, operation, models) for title, operation in operations]
    parts += ["## Documents\n\nThe JSON documents of the requests above.\n"]
    parts += [_model(name, model) for name, model in models.items() if not _is_form(name)]
    return "\n".join(parts)


def _anchor(title: str) -> str:
    """As Markdown makes it of a heading."""
    return re.sub(r"[^\w\s-]", "", title).lower().replace(" ", "-")


def _is_form(name: str) -> bool:
    return name.startswith("Body_")


def _about(operation: dict[str, Any]) -> str:
    return re.sub(r"\s+", " ", operation.get("description") or operation.get("summary", ""))


def _operation(title: str, operation: dict[str, Any], models: dict[str, Any]) -> str:
    rows = [
        (f"`{one['name']}`", one["in"], _type(one["schema"]), one.get("description", ""))
        for one in operation.get("parameters", [])
    ]
    for content in operation.get("requestBody", {}).get("content", {}).values():
        rows += _form_rows(content["schema"], models)
    answers = [
        (f"`{status}`", _answer(answer), _meaning(answer["description"]))
        for status, answer in operation["responses"].items()
    ]
    parts = [f"### {title}", _about(operation)]
    parts += [table(("parameter", "in", "type", "meaning"), rows).rstrip()] if rows else []
    parts += [table(("status", "body", "meaning"), answers)]
    return "\n\n".join(parts)


def _meaning(description: str) -> str:
    return "Done." if description == "Successful Response" else description  # FastAPI's own words


def _form_rows(schema: dict[str, Any], models: dict[str, Any]) -> list[tuple[str, ...]]:
    name = schema.get("$ref", "").rpartition("/")[2]
    model = models[name] if name else schema
    return [
        (f"`{field}`", "form", _type(value), value.get("description", ""))
        for field, value in model["properties"].items()
    ]


def _answer(answer: dict[str, Any]) -> str:
    contents = answer.get("content", {})
    return ", ".join(
        _type(content["schema"]) if content.get("schema") else kind
        for kind, content in contents.items()
    )


def _model(name: str, model: dict[str, Any]) -> str:
    rows = [
        (f"`{field}`", _type(value), value.get("description", ""))
        for field, value in model["properties"].items()
    ]
    about = model.get("description", "")
    return f"### {name}\n\n{about}\n\n{table(('field', 'type', 'meaning'), rows)}"


def _type(schema: dict[str, Any]) -> str:
    """A JSON schema in a few words, with links to the documents below."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return ", ".join(f"`{one}`" for one in schema["enum"])
    if "prefixItems" in schema:
        return f"list of {' and '.join(map(_type, schema['prefixItems']))}"
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}"
    if schema.get("format") == "binary" or "contentMediaType" in schema:
        return "file"
    limits = [f"{words} {schema[key]}" for key, words in
              (("minimum", "at least"), ("maximum", "at most"),
               ("exclusiveMinimum", "above"), ("maxLength", "characters at most"))
              if key in schema]  # fmt: skip
    default = [f"default `{schema['default']}`"] if schema.get("default") is not None else []
    return ", ".join([schema.get("type", "any"), *limits, *default])
