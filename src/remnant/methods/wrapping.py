"""Methods around another one, the base: all that they do not change is left to it.

The schedule, the backbone and the coded views of the base are those of the wrapper; `method.base`
has the rest of its settings, or its name alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, TypeVar

from pydantic import SerializeAsAny, field_serializer, field_validator
from torch import Tensor

from remnant.images import Task
from remnant.memory.keeps import Keeps
from remnant.methods.backbones import BackboneConfig
from remnant.methods.base import METHODS, Method, MethodConfig, MethodContext
from remnant.phases import Batch, OptimizerConfig, Phase, Reader, Schedule, Terms

_SHARED = ("first", "later", "codec_view_ratio", "backbone")  # with the wrapper
UNUSED = Schedule(epochs=1, batch_size=1, optimizer=OptimizerConfig(lr=1.0))  # stands for `first`


class WrapperConfig(MethodConfig):
    """A base learner by its name, with those of its settings that are not shared."""

    bases: ClassVar[tuple[str, ...]]  # that it may be

    backbone: BackboneConfig
    base: SerializeAsAny[MethodConfig]

    @field_validator("base", mode="before")
    @classmethod
    def _choose_base(cls, value: Any) -> Any:
        values = {"name": value} if isinstance(value, str) else value
        if not isinstance(values, Mapping):
            return value
        # Runs of older versions have a codec_view_ratio of 0 here.
        own = [name for name in _SHARED if name in values and values[name] != 0]
        if own:
            raise ValueError(
                f"the base has the {own[0]} of the method around it; got method.base.{own[0]}. "
                f"Set method.{own[0]}."
            )
        if values.get("name") not in cls.bases:
            raise ValueError(
                f"method.base must be one of {', '.join(cls.bases)}; got {values.get('name')}."
            )
        return METHODS[values["name"]].Config.model_validate({**values, "first": UNUSED})

    @field_serializer("base")
    def _without_shared(self, base: MethodConfig) -> dict[str, Any]:
        return base.model_dump(mode="json", exclude=set(_SHARED))

    def base_config(self) -> MethodConfig:
        """The config of the base, complete."""
        return self.base.model_copy(update={name: getattr(self, name) for name in _SHARED})


ConfigT = TypeVar("ConfigT", bound=WrapperConfig)


class Wrapper(Method[ConfigT]):
    """Does as the base does; a method derives from this and changes what it must."""

    corrects_prior: ClassVar[bool] = True  # the base refuses it where it must

    def __init__(self, config: ConfigT, context: MethodContext) -> None:
        super().__init__(config, context)
        chosen = config.base_config()
        self.base = METHODS[chosen.name](chosen, context)

    def grow(self, task: Task) -> None:
        self.base.grow(task)

    def begin_task(self, task: Task, reader: Reader) -> None:
        self.base.begin_task(task, reader)

    def phases(self, task: Task, reader: Reader) -> Iterator[Phase]:
        return self.base.phases(task, reader)

    def loss(self, batch: Batch) -> Terms:
        return self.base.loss(batch)

    def predict(self, views: Tensor) -> Tensor:
        return self.base.predict(views)

    def features(self, views: Tensor) -> Tensor:
        return self.base.features(views)

    def end_task(self, task: Task, reader: Reader) -> None:
        self.base.end_task(task, reader)

    def kept(self) -> list[Keeps]:
        return self.base.kept()
