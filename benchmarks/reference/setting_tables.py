"""Tables of settings: path, type and range, default, and what the source says of each."""

from __future__ import annotations

import json
import re
import types
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Ge, Gt, Le, Lt, MinLen, MultipleOf
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from benchmarks.reference.field_comments import field_comments, field_groups
from remnant.settings import Settings

_PLAIN = {int: "whole number", float: "number", bool: "true or false", str: "text", Any: "any",
          type(None): "none", dict: "mapping", None: "none"}  # fmt: skip
_SIGNS = {Ge: ("ge", "at least"), Gt: ("gt", "above"), Le: ("le", "at most"), Lt: ("lt", "below"),
          MultipleOf: ("multiple_of", "a multiple of")}  # fmt: skip


def cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ").strip()


def table(head: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    """A Markdown table; cells may hold any text."""
    lines = [head, ("---",) * len(head), *(tuple(map(cell, row)) for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def first_line(documented: object) -> str:
    return (documented.__doc__ or "").strip().partition("\n")[0]


# ------------------------------------------------------------------------------------------- types


def groups_in(annotation: Any) -> list[type[BaseModel]]:
    """The configs that a field of this type can hold."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return [annotation]
    return [one for part in get_args(annotation) for one in groups_in(part)]


def spell_type(annotation: Any, metadata: Sequence[Any] = ()) -> str:
    """A type and its range in words: `whole number, at least 1, or none`."""
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        others = [part for part in parts if part is not type(None)]
        words = " or ".join(dict.fromkeys(map(spell_type, others)))
        return _with_range(words, metadata) + ("" if len(others) == len(parts) else ", or none")
    return _with_range(_spell_alone(annotation, origin, parts), metadata)


def _spell_alone(annotation: Any, origin: Any, parts: tuple[Any, ...]) -> str:
    if origin is Literal:
        return ", ".join(f"`{json.dumps(part)}`" for part in parts)
    if origin is Annotated:
        marks = [one.metadata if isinstance(one, FieldInfo) else [one] for one in parts[1:]]
        return spell_type(parts[0], [mark for several in marks for mark in several])
    if origin in (tuple, list):
        inner = [spell_type(part) for part in parts if part is not ...]
        count = f"{len(inner)} " if len(inner) > 1 else ""
        plural = [re.sub(r"\bnumber\b", "numbers", one, count=1) for one in dict.fromkeys(inner)]
        return f"list of {count}{' and '.join(plural)}"
    if origin is dict:
        return "mapping"
    if groups_in(annotation):
        return "group"
    return _PLAIN.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _with_range(words: str, metadata: Sequence[Any]) -> str:
    return ", ".join(filter(None, (words, spell_range(metadata))))


def spell_range(metadata: Sequence[Any]) -> str:
    found = []
    for one in metadata:
        if type(one) in _SIGNS:
            name, words = _SIGNS[type(one)]
            found.append(f"{words} {getattr(one, name):g}")
        elif isinstance(one, MinLen):
            found.append(f"at least {one.min_length} of them")
    return ", ".join(found)


# ---------------------------------------------------------------------------------------- defaults


def spell_default(field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    value = field.get_default(call_default_factory=True)
    if isinstance(value, BaseModel):
        changed = list(flatten(value.model_dump(mode="json", exclude_unset=True)))
        return ", ".join(f"`{path}={json.dumps(one)}`" for path, one in changed) or "its defaults"
    return "none" if value is None else f"`{json.dumps(value)}`"


def flatten(values: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths and plain values of nested mappings."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value


# ------------------------------------------------------------------------------------------ tables


def setting_tables(
    model: type[BaseModel],
    prefix: str,
    links: Mapping[type[BaseModel], str],
    about: Mapping[str, str] | None = None,
    leave_out: tuple[str, ...] = (),
) -> str:
    """The settings of a config, one table for each group of fields.

    A field that holds a config of `links` refers to its section; the fields of any other config
    stand below it, under its name. `about` is what is said of a field without a comment.
    """
    groups: dict[str, list[tuple[str, ...]]] = {}
    for title, row in _rows(model, prefix, links, about or {}, leave_out, ""):
        groups.setdefault(title, []).append(row)
    head = ("setting", "type and range", "default", "meaning, and source of the default")
    return "\n".join(
        (f"**{title}**\n\n" if title else "") + table(head, rows) for title, rows in groups.items()
    )


def _rows(
    model: type[BaseModel],
    prefix: str,
    links: Mapping[type[BaseModel], str],
    about: Mapping[str, str],
    leave_out: tuple[str, ...],
    title: str,
) -> Iterator[tuple[str, tuple[str, ...]]]:
    comments, titles = field_comments(model), field_groups(model)
    for name, field in model.model_fields.items():
        if name in leave_out:
            continue
        here = titles.get(name, title)
        kinds = groups_in(field.annotation)
        said = comments.get(name) or field.description or about.get(name, "")
        for kind in kinds:
            said = said or first_line(kind)
            if kind in links:
                said += f"{'' if said.endswith('.') else '.'} See {_link(links[kind])}."
        kind_text = spell_type(field.annotation, field.metadata)
        yield here, (f"`{prefix}{name}`", kind_text, spell_default(field), _sentence(said))
        for kind in kinds:
            if kind not in links and issubclass(kind, Settings):
                yield from _rows(kind, f"{prefix}{name}.", links, {}, (), here)


def _link(target: str) -> str:
    return f"[{target.partition('#')[2]}]({target})"


def _sentence(text: str) -> str:
    """With a capital, unless it begins with a name."""
    word = text.partition(" ")[0].strip(":;,.")
    return text[:1].upper() + text[1:] if word.isalpha() and word.islower() else text
