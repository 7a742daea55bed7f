"""How many bytes the memory may take: `"60KiB/class"`, `"2MiB"`, `"20images/class"`."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor
from typing import Any, Literal

from pydantic import SerializeAsAny, field_validator

from remnant.errors import InputError
from remnant.memory.codecs import CODECS, CodecConfig, RawConfig
from remnant.settings import Settings

_UNITS = {"": 1, "b": 1, "kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30}
_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9}
_BUDGET = re.compile(
    r"(\d{1,15}(?:\.\d{1,9})?)\s*([a-z]*)\s*(/\s*class)?", re.IGNORECASE | re.ASCII
)


@dataclass(frozen=True)
class Budget:
    """A number of bytes, for each class or for all classes together."""

    bytes: int
    per_class: bool

    def quota(self, num_classes: int) -> int:
        """Bytes of one class among `num_classes`; rounded down, so that shares never overflow."""
        return self.bytes if self.per_class else self.bytes // max(1, num_classes)

    def total(self, num_classes: int) -> int:
        """Bytes of `num_classes` classes together."""
        return self.bytes * num_classes if self.per_class else self.bytes


def parse_budget(text: str, image_bytes: int) -> Budget:
    """Read a budget; "images" stand for `image_bytes` each, the size of one raw image.

    Raises:
        InputError: The text is not a positive amount in a known unit.
    """
    match = _BUDGET.fullmatch(text.strip())
    if match:
        amount, unit, per_class = Fraction(match[1]), match[2].lower(), match[3] is not None
        in_images = unit in ("image", "images")
        scale = image_bytes if in_images else _UNITS.get(unit, 0)
        budget_bytes = floor(amount * scale)
        if budget_bytes > 0 and not (in_images and amount.denominator > 1):
            return Budget(budget_bytes, per_class)
    raise InputError(
        f"memory.budget must be a positive amount of memory; got {text!r}. Write, for example, "
        '"60KiB/class", "61440B/class", "20images/class" (the bytes of 20 raw images), "2MiB" or '
        '"2000images" (for all classes together).'
    )


class MemoryConfig(Settings):
    """How much is remembered, in which form, and how it is chosen."""

    # "60KiB/class", "2MiB" in all, or "20images/class": the bytes of 20 raw images, as in [bimae]
    budget: str = "60KiB/class"
    codec: SerializeAsAny[CodecConfig] = RawConfig()  # the name alone: with its defaults
    # "herding": those whose mean feature is closest to that of the class [icarl]
    selection: Literal["herding", "random"] = "herding"
    count_overhead: bool = True  # False: patch positions and lengths are free, as in the paper
    # The worst ranked exemplars go; there is no other choice any more. The field stays because it
    # is in every memory file, and equal memories must give equal bytes.
    when_full: Literal["drop"] = "drop"

    @field_validator("codec", mode="before")
    @classmethod
    def _choose_codec(cls, value: Any) -> Any:
        values = {"name": value} if isinstance(value, str) else value
        if not isinstance(values, Mapping):
            return value
        return CODECS.find(values.get("name"), "memory.codec").Config.model_validate(values)

    @field_validator("budget", mode="before")
    @classmethod
    def _spell_out_bytes(cls, value: Any) -> Any:
        return str(value) if isinstance(value, int) else value

    @field_validator("budget")
    @classmethod
    def _check_budget(cls, value: str) -> str:
        parse_budget(value, image_bytes=1)
        return value
