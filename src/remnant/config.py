"""RunConfig: all that decides a run, composed of the configs that live beside their owners."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from remnant._version import __version__
from remnant.data import DATASETS, DataConfig, describe_dataset
from remnant.data.stream import StreamConfig, resolve_tasks
from remnant.errors import InputError, nearest
from remnant.files import read_json_object
from remnant.memory import MemoryConfig, parse_budget, settle_quality
from remnant.methods import METHODS, MethodConfig
from remnant.settings import Settings, explain_unknown, setting_paths
from remnant.training.processes import TrainingConfig
from remnant.views.augment import AugmentConfig


class LearningConfig(Settings):
    """What decides how a method learns and what it keeps, whatever the data."""

    seed: int = Field(default=0, ge=0)  # of every random number
    augment: AugmentConfig = AugmentConfig()
    memory: MemoryConfig | None = None
    method: SerializeAsAny[MethodConfig]

    @field_validator("method", mode="before")
    @classmethod
    def _choose_method(cls, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return value
        return METHODS.find(value.get("name"), "method.name").Config.model_validate(value)

    @model_validator(mode="after")
    def _check_memory(self) -> Self:
        uses_memory = METHODS[self.method.name].uses_memory
        if uses_memory and self.memory is None:
            raise InputError(f"{self.method.name} keeps exemplars, so it needs memory.budget.")
        if not uses_memory and self.memory is not None:
            raise InputError(f"{self.method.name} keeps no exemplars: remove the memory section.")
        return self


class RunConfig(LearningConfig):
    """A run, complete: the same config and seed on the same machine give the same result."""

    recipe: str = "custom"  # whose settings these are, for reports
    data: DataConfig
    stream: StreamConfig = StreamConfig()
    training: TrainingConfig = TrainingConfig()


ConfigT = TypeVar("ConfigT", bound=Settings)


def override(config: ConfigT, changes: Mapping[str, Any]) -> ConfigT:
    """A config with settings changed; keys as in config.json: `{"method.first.epochs": 3}`.

    Raises:
        InputError: A key is not a setting, or its value cannot be used.
    """
    if not isinstance(changes, Mapping):
        raise InputError(
            "settings must be a mapping, as in {'method.first.epochs': 3}; got "
            f"{changes!r:.80}. Give a dict."
        )
    values = config.model_dump(mode="json")
    # A group before what is in it and its name first: both decide which settings there are.
    for key in sorted(changes, key=lambda key: (key.count("."), not key.endswith(".name"))):
        _assign(values, key, changes[key], type(config))
    return type(config).parse(values)


def _assign(values: dict[str, Any], key: str, value: Any, model: type[Settings]) -> None:
    known = setting_paths(model, values)
    if key not in known:
        raise InputError(explain_unknown(key, known))
    method = values.get("method")
    before = method.get("name") if isinstance(method, dict) else None
    if key == "method.name" and before is not None and value != before:
        raise InputError(_explain_method(value, before))
    *parents, name = key.split(".")
    place: Any = values
    for parent in parents:
        if place.get(parent) is None:
            first = place.get("first") if parent == "later" else None
            place[parent] = dict(first) if isinstance(first, dict) else {}
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
    if isinstance(wanted, str) and wanted in METHODS:
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


def settle(config: RunConfig) -> RunConfig:
    """The config as its run writes it down: what is "auto" as the number that it stands for.

    Files are looked at only where the classes of a folder share one budget.
    """
    if config.memory is None:
        return config
    if getattr(config.memory.codec, "quality", None) != "auto":
        return config
    known = DATASETS[config.data.dataset].facts
    size = config.data.image_size or known.image_size
    shape, num_classes = (size, size, known.channels), 1
    budget = parse_budget(config.memory.budget, size**2 * known.channels)
    if not budget.per_class:
        tasks = resolve_tasks(config.stream, describe_dataset(config.data))
        num_classes = sum(map(len, tasks))
    memory = settle_quality(config.memory, shape, num_classes)
    return config.model_copy(update={"memory": memory})


def load_config(path: Path) -> RunConfig:
    """The config in a JSON file, such as a run folder's config.json.

    Raises:
        InputError: The file is missing, damaged, or not the config of a run.
    """
    values = read_json_object(path, "the settings of a run")
    try:
        return RunConfig.parse(values)
    except InputError as error:
        raise InputError(f"{path}: {error}{_other_version(path.parent)}") from None


def _other_version(folder: Path) -> str:
    """What to say of a run folder that another remnant wrote."""
    try:
        version = json.loads((folder / "environment.json").read_bytes())["remnant"]
    except (OSError, ValueError, KeyError, TypeError):
        return ""
    if version == __version__:
        return ""
    return f" It was written by remnant {version}; this is {__version__}. Use that version."
