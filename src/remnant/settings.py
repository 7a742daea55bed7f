"""The parent of every config, and what is wrong with one as a sentence in a user's own words."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Self, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from remnant.errors import InputError, nearest


class Settings(BaseModel):
    """Parent of every config: complete, immutable, and closed to unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def parse(cls, values: Any) -> Self:
        """A config from plain values.

        Raises:
            InputError: One sentence for the first thing that is wrong.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            raise InputError(explain(error, cls, values)) from None

    @classmethod
    def chosen_by(cls, value: Any) -> type[Settings]:
        """The class that a field of this type holds, given the plain value of the field."""
        return cls


# By pydantic's name of the error: what must hold. Limits stand in for the braces.
_MUSTS = {
    "greater_than_equal": "be at least {ge}",
    "greater_than": "be greater than {gt}",
    "less_than_equal": "be at most {le}",
    "less_than": "be less than {lt}",
    "int_parsing": "be a whole number",
    "int_type": "be a whole number",
    "int_from_float": "be a whole number",
    "float_parsing": "be a number",
    "float_type": "be a number",
    "finite_number": "be a finite number",
    "bool_parsing": "be true or false",
    "bool_type": "be true or false",
    "string_type": "be text",
    "tuple_type": "be a list, as in [1, 2]",
    "too_short": "have at least {min_length} entries",
    "too_long": "have at most {max_length} entries",
    "model_type": "be a group of settings; set them one by one, as in {place}.KEY=VALUE",
    "model_attributes_type": "be a group of settings; set them one by one, as in {place}.KEY=VALUE",
}


def explain(error: ValidationError, model: type[Settings], values: Any) -> str:
    """The first problem that pydantic found in `values` for a `model`, as a sentence."""
    first = error.errors()[0]
    kind, context = first["type"], first.get("ctx") or {}
    parts, owners = _trace(model, values, first["loc"])
    place = ".".join(parts)
    if kind == "value_error":
        sentence = str(context["error"])
        return sentence if sentence.endswith((".", "?")) else f"{sentence}."
    if kind == "extra_forbidden":
        group = place.removesuffix(parts[-1])
        fields = [field for owner in owners for field in owner.model_fields]
        return explain_unknown(place, [group + field for field in fields])
    if kind == "missing":
        return f"{place} must be given."
    got = f"got {_spell(first['input'])}."
    if kind == "literal_error":
        choices = [str(choice) for choice in _choices(owners, parts[-1])]
        return f"{place} must be one of {', '.join(choices)}; {got}" + _near(first, choices)
    must = _MUSTS.get(kind)
    if must is None:
        return f"{place}: {first['msg']}; {got}"
    return f"{place} must {must.format(place=place, **context)}; {got}"


def setting_paths(model: type[Settings], values: Any, prefix: str = "") -> list[str]:
    """Every setting that `model` knows, dotted; `values` decide which method's and codec's."""
    found = []
    for name, field in model.model_fields.items():
        found.append(f"{prefix}{name}")
        value = _at(values, name)
        for inner in _settings_in(field.annotation, value):
            found += setting_paths(inner, value, f"{prefix}{name}.")
    return list(dict.fromkeys(found))


def explain_unknown(key: str, known: Iterable[str]) -> str:
    """That `key` is none of the `known` settings, and which is meant, or which its group has."""
    group, _, name = key.rpartition(".")
    known = list(known)
    others = [path for path in known if path.rpartition(".")[0] == group]
    if others and not nearest(name, [path.rpartition(".")[2] for path in others]):
        return f"{key} is not a setting. There are {', '.join(others)}."
    return f"{key} is not a setting." + nearest(key, known)


def _near(problem: Any, choices: Iterable[str]) -> str:
    return nearest(str(problem["input"]), choices)


def _trace(
    model: type[Settings], values: Any, location: Sequence[int | str]
) -> tuple[list[str], list[type[Settings]]]:
    """The place of an error as a user writes it, and the configs that the last name belongs to.

    pydantic's own path also names the branch of a union that it tried; a user never wrote that.
    """
    parts: list[str] = []
    owners, inner = [model], [model]
    for index, part in enumerate(location):
        is_last = index == len(location) - 1
        fields = [owner.model_fields[part] for owner in inner if part in owner.model_fields]
        if fields:
            owners, values = inner, _at(values, part)
            inner = [one for field in fields for one in _settings_in(field.annotation, values)]
        elif not is_last or not inner:
            inner = []
            if not isinstance(part, int):
                continue
        else:
            owners = inner
        parts.append(str(part))
    return parts, owners


def _settings_in(annotation: Any, value: Any) -> list[type[Settings]]:
    """The configs that a field of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, Settings):
        return [annotation.chosen_by(value)]
    return [one for part in get_args(annotation) for one in _settings_in(part, value)]


def _at(values: Any, name: int | str) -> Any:
    return values.get(name) if isinstance(values, Mapping) else None


def _choices(owners: Sequence[type[Settings]], name: str) -> list[Any]:
    fields = [owner.model_fields[name] for owner in owners if name in owner.model_fields]
    return [choice for field in fields for choice in _literals(field.annotation)]


def _literals(annotation: Any) -> list[Any]:
    parts = get_args(annotation)
    return [one for part in parts for one in (_literals(part) if get_args(part) else [part])]


def _spell(value: Any) -> str:
    """A value as it is written after --set."""
    return value if isinstance(value, str) and value else json.dumps(value, default=str)
