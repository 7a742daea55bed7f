"""RunConfig: all that decides a run, composed of the configs that live beside their owners."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

from remnant.augment import AugmentConfig
from remnant.contracts import InputError, Settings
from remnant.data import DataConfig
from remnant.memory import MemoryConfig
from remnant.methods import METHODS, MethodConfig
from remnant.stream import StreamConfig
from remnant.training.processes import TrainingConfig


class RunConfig(Settings):
    """A run, complete: the same config and seed on the same machine give the same result."""

    recipe: str = "custom"
    seed: int = Field(default=0, ge=0)
    data: DataConfig
    stream: StreamConfig = StreamConfig()
    augment: AugmentConfig = AugmentConfig()
    memory: MemoryConfig | None = None
    method: SerializeAsAny[MethodConfig]
    training: TrainingConfig = TrainingConfig()

    @field_validator("method", mode="before")
    @classmethod
    def _choose_method(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        name = value.get("name")
        if name not in METHODS:
            raise InputError(
                f"method.name must be one of {', '.join(METHODS)}; got {name!r}."
                + nearest(str(name), METHODS)
            )
        return METHODS[name].Config.model_validate(value)

    @model_validator(mode="after")
    def _check_memory(self) -> RunConfig:
        uses_memory = METHODS[self.method.name].uses_memory
        if uses_memory and self.memory is None:
            raise InputError(f"{self.method.name} keeps exemplars, so it needs memory.budget.")
        if not uses_memory and self.memory is not None:
            raise InputError(f"{self.method.name} keeps no exemplars: remove the memory section.")
        return self


def nearest(name: str, known: Iterable[str]) -> str:
    """` Did you mean X?`, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


def parse_config(values: Any) -> RunConfig:
    """A config from plain values.

    Raises:
        InputError: One sentence for the first thing that is wrong.
    """
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, values)) from None


def explain(error: ValidationError, values: Any) -> str:
    """The first problem of a pydantic error as a sentence."""
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        return f"{place} is not a setting." + nearest(place, _paths(values, exclude=place))
    if first["type"] == "missing":
        return f"{place} must be given."
    message = first["msg"].removeprefix("Value error, ")
    if isinstance((first.get("ctx") or {}).get("error"), InputError):
        return message
    return f"{place}: {message}; got {first['input']!r}."


def override(config: RunConfig, assignments: Sequence[str]) -> RunConfig:
    """A config with settings changed; keys as in config.json: `method.first.epochs=3`."""
    values = config.model_dump(mode="json")
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        if not equals:
            raise InputError(f"--set takes key=value; got {assignment!r}.")
        _assign(values, key.strip(), _parse_value(text.strip()))
    return parse_config(values)


def _assign(values: dict[str, Any], key: str, value: Any) -> None:
    if key == "method.name" and value != values["method"]["name"]:
        raise InputError(
            "a recipe is made for its method. Choose another recipe: remnant list recipes."
        )
    *parents, name = key.split(".")
    place: Any = values
    for parent in parents:
        if not isinstance(place, dict) or parent not in place:
            raise InputError(f"{key} is not a setting." + nearest(key, _paths(values)))
        if place[parent] is None:
            place[parent] = dict(values["method"]["first"]) if parent == "later" else {}
        elif isinstance(place[parent], str) and parent == "codec":
            place[parent] = {"name": place[parent]}
        place = place[parent]
    is_open = not place or (
        isinstance(place, dict) and "name" in place and parents[-1:] == ["codec"]
    )
    if not isinstance(place, dict) or (name not in place and not is_open):
        raise InputError(f"{key} is not a setting." + nearest(key, _paths(values)))
    if name == "name" and parents[-1:] == ["codec"] and place.get("name") != value:
        place.clear()  # settings of another codec
    place[name] = value


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return {"None": None, "none": None, "True": True, "False": False}.get(text, text)


def _paths(values: Any, prefix: str = "", exclude: str = "") -> list[str]:
    """Every key of nested values, dotted."""
    if not isinstance(values, dict):
        return []
    found = []
    for name, value in values.items():
        path = f"{prefix}{name}"
        if path != exclude:
            found += [path, *_paths(value, f"{path}.", exclude)]
    return found


def load_config(path: Path) -> RunConfig:
    """The config in a JSON file, such as a run folder's config.json."""
    try:
        values = json.loads(path.read_text())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist.") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path} must hold JSON, such as a run's config.json; {error}.") from None
    return parse_config(values)
