"""The JSON schemas of src/remnant/schemas, which `remnant schema` prints."""

from __future__ import annotations

import json
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from benchmarks.reference.field_comments import field_comments
from benchmarks.reference.setting_tables import groups_in
from remnant.config import RunConfig
from remnant.learner.store import KIND, VERSION, StoreHeader
from remnant.memory import CODECS, CodecConfig
from remnant.methods import METHODS, MethodConfig
from remnant.methods.wrapping import WrapperConfig
from remnant.runs.run_folder import RunResult

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
Json = dict[str, Any]


def schema_files() -> dict[str, str]:
    """By name, the text of each file."""
    whole = {"result": _result(), "config": _config(), "store": _store()}
    return {name: json.dumps(schema, indent=1) + "\n" for name, schema in whole.items()}


def _result() -> Json:
    schema = _schema_of(RunResult, "The result.json of a remnant run", "serialization")
    # Newer versions add numbers, so a reader must not insist on those that it knows.
    schema.pop("required", None)
    return schema


def _config() -> Json:
    return _schema_of(RunConfig, "The config.json of a remnant run", "validation", **_choices())


def _store() -> Json:
    inner = _schema_of(StoreHeader, "metadata", "validation", **_choices())
    return {
        "$schema": _DIALECT,
        "title": "The header of a remnant store: the safetensors metadata key `remnant`, as JSON",
        "type": "object",
        "properties": {
            "format": {"const": KIND},
            "version": {"const": VERSION},
            "digest": {"type": "string", "description": "SHA-256 of the header and all arrays"},
            "metadata": {key: inner[key] for key in ("properties", "required", "type")},
        },
        "required": ["format", "version", "digest", "metadata"],
        "$defs": inner["$defs"],
    }


def _choices() -> dict[str, tuple[str, list[type[BaseModel]]]]:
    """The configs that stand for one of several: by name, the class and what may be there."""
    return {
        MethodConfig.__name__: ("oneOf", [method.Config for method in METHODS.values()]),
        CodecConfig.__name__: ("anyOf", [codec.Config for codec in CODECS.values()]),
    }


def _schema_of(
    model: type[BaseModel],
    title: str,
    mode: JsonSchemaMode,
    **choices: tuple[str, list[type[BaseModel]]],
) -> Json:
    others = [one for _, several in choices.values() for one in several]
    kinds = list(dict.fromkeys([model, *others, *_inside(model, *others)]))
    _, whole = models_json_schema([(kind, mode) for kind in kinds])
    defs = whole["$defs"]
    for kind in kinds:
        _describe(defs[kind.__name__], kind)
    for name, (word, several) in choices.items():
        defs[name] = {word: [{"$ref": f"#/$defs/{one.__name__}"} for one in several]}
    if CodecConfig.__name__ in choices:  # a codec may be given by its name alone
        defs[CodecConfig.__name__]["anyOf"].insert(0, {"enum": list(CODECS)})
    for kind in kinds:
        if issubclass(kind, WrapperConfig):  # the base shares its other settings with the wrapper
            names = {"name": {"enum": list(kind.bases)}}
            base = {"type": "object", "properties": names, "required": ["name"]}
            defs[kind.__name__]["properties"]["base"] = base
    used = _reachable(defs, model.__name__)
    top = defs[model.__name__]
    return {"$schema": _DIALECT, **top, "title": title,
            "$defs": {name: defs[name] for name in sorted(used - {model.__name__})}}  # fmt: skip


def _inside(*models: type[BaseModel]) -> list[type[BaseModel]]:
    """The configs in the fields of others."""
    fields = [field for model in models for field in model.model_fields.values()]
    kinds = [one for field in fields for one in groups_in(field.annotation)]
    found = [one for one in kinds if one not in (MethodConfig, CodecConfig)]
    return [*found, *_inside(*found)] if found else []


def _describe(schema: Json, model: type[BaseModel]) -> None:
    for name, comment in field_comments(model).items():
        if name in schema.get("properties", {}):
            schema["properties"][name].setdefault("description", comment)


def _reachable(defs: Json, start: str) -> set[str]:
    found, waiting = set(), [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            text = json.dumps(defs[name])
            waiting += [one for one in defs if f'"#/$defs/{one}"' in text]
    return found
