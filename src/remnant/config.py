"""RunConfig: all that decides a run, composed of the configs that live beside their owners."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, SerializeAsAny, ValidationError, field_validator, model_validator

import remnant
from remnant.augment import AugmentConfig
from remnant.contracts import InputError, Settings, nearest
from remnant.data import DataConfig
from remnant.explanations import explain, setting_paths
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


def parse_config(values: Any) -> RunConfig:
    """A config from plain values.

    Raises:
        InputError: One sentence for the first thing that is wrong.
    """
    try:
        return RunConfig.model_validate(values)
    except ValidationError as error:
        raise InputError(explain(error, RunConfig, values)) from None


def override(config: RunConfig, assignments: Sequence[str]) -> RunConfig:
    """A config with settings changed; keys as in config.json: `method.first.epochs=3`."""
    values = config.model_dump(mode="json")
    changes = [parse_assignment(assignment) for assignment in assignments]
    # A group before what is in it and its name first: both decide which settings there are.
    for key, value in sorted(changes, key=lambda change: _rank(change[0])):
        _assign(values, key, value)
    return parse_config(values)


def parse_assignment(text: str) -> tuple[str, Any]:
    """Key and value of `key=value`, the value as JSON if it is that, else as text.

    Raises:
        InputError: There is no key, or nothing follows it.
    """
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key:
        raise InputError(f"--set takes key=value; got {text!r}.")
    return key, _parse_value(value)


def _rank(key: str) -> tuple[int, bool]:
    return key.count("."), not key.endswith(".name")


def _assign(values: dict[str, Any], key: str, value: Any) -> None:
    known = setting_paths(RunConfig, values)
    if key not in known:
        raise InputError(f"{key} is not a setting." + nearest(key, known))
    if key == "method.name" and value != values["method"]["name"]:
        raise InputError(_explain_method(value, values["method"]["name"]))
    *parents, name = key.split(".")
    place: Any = values
    for parent in parents:
        if place[parent] is None:
            place[parent] = dict(values["method"]["first"]) if parent == "later" else {}
        elif isinstance(place[parent], str):  # a codec, by its name alone
            place[parent] = {"name": place[parent]}
        if not isinstance(place[parent], dict):
            return  # set to nonsense before; validation names it
        place = place[parent]
    if isinstance(value, bool) and isinstance(place.get(name), int | float):
        _check_switch(key, value, place[name])
    if name == "name" and parents[-1:] == ["codec"] and place.get("name") != value:
        place.clear()  # settings of another codec
    place[name] = value


def _explain_method(wanted: Any, name: str) -> str:
    if wanted in METHODS:
        return (
            f"a recipe is made for its method, here {name}. For {wanted} choose another recipe: "
            "remnant list recipes."
        )
    hint = nearest(str(wanted), METHODS)
    return f"method.name must be one of {', '.join(METHODS)}; got {wanted}.{hint}"


def _check_switch(key: str, value: bool, before: Any) -> None:
    """pydantic would take true for 1."""
    if not isinstance(before, bool):
        raise InputError(f"{key} must be a number; got {json.dumps(value)}.")


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, RecursionError):
        return {"None": None, "True": True, "False": False}.get(text, text)


def load_config(path: Path) -> RunConfig:
    """The config in a JSON file, such as a run folder's config.json.

    Raises:
        InputError: The file is missing, damaged, or not the config of a run.
    """
    try:
        values = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise InputError(f"{path} does not exist. Check the path.") from None
    except (ValueError, RecursionError):
        values = None
    if not isinstance(values, dict):
        raise InputError(
            f"{path} must hold one JSON object, the settings of a run; it does not or is damaged. "
            "Restore it from a copy."
        )
    try:
        return parse_config(values)
    except InputError as error:
        raise InputError(f"{path}: {error}{_other_version(path.parent)}") from None


def _other_version(folder: Path) -> str:
    """What to say of a run folder that another remnant wrote."""
    try:
        version = json.loads((folder / "environment.json").read_bytes())["remnant"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if version == remnant.__version__:
        return ""
    return f" It was written by remnant {version}; this is {remnant.__version__}. Use that one."
