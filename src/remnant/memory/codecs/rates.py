"""How much a lossy codec may lose: a quality, or a target of bytes or of PSNR per exemplar."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from remnant.memory.codecs.codec import CodecConfig

MIN_QUALITY, DEFAULT_QUALITY, MAX_QUALITY = 1, 75, 100
_RATES = ("quality", "target_bytes", "target_psnr")


class RateConfig(CodecConfig):
    """Exactly one of three is in force; a quality unless a target is set."""

    takes_auto: ClassVar[bool] = False  # stores whole images at their own size

    # As in JPEG; 75 unless a target is set. "auto": by the bytes of a class, see
    # `memory.auto_quality`.
    quality: (
        Annotated[int, Field(strict=True, ge=MIN_QUALITY, le=MAX_QUALITY)] | Literal["auto"] | None
    ) = None
    # The best quality whose payload is no longer than this; the lowest where none is.
    target_bytes: int | None = Field(default=None, ge=1)
    # The lowest quality that reaches this, in dB over the stored pixels; the best where none does.
    target_psnr: float | None = Field(default=None, ge=0)

    @model_validator(mode="before")
    @classmethod
    def _fill_quality(cls, values: Any) -> Any:
        if not isinstance(values, dict) or not cls.takes_rate(values):
            return values
        if all(values.get(rate) is None for rate in _RATES):
            return values | {"quality": DEFAULT_QUALITY}
        return values

    @model_validator(mode="after")
    def _check_one(self) -> Self:
        given = [rate for rate in _RATES if getattr(self, rate) is not None]
        if not self.takes_rate(dict(self)) and given:
            raise ValueError(
                f"a codec that loses nothing has no {given[0]}. Set memory.codec.{given[0]}=none."
            )
        if len(given) > 1:
            raise ValueError(
                f"a codec has one of {', '.join(_RATES)}; got {' and '.join(given)}. Set all but "
                "one to none."
            )
        if self.quality == "auto" and not self.takes_auto:
            raise ValueError(
                f"memory.codec.quality=auto is for codecs of whole images, not for {self.name}. "
                f"Set a number from {MIN_QUALITY} to {MAX_QUALITY}."
            )
        return self

    @classmethod
    def takes_rate(cls, values: dict[str, Any]) -> bool:
        """Whether a codec with these settings loses anything."""
        return True


def lowest_passing(passes: Callable[[int], bool]) -> int:
    """The lowest quality that passes where better ones pass too; the best if it does not pass.

    Where the test is not monotonic the answer still passes, though a lower one may too.
    """
    low, high = MIN_QUALITY - 1, MAX_QUALITY  # low fails, high passes or is all there is
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            high = middle
        else:
            low = middle
    return high


def highest_passing(passes: Callable[[int], bool]) -> int:
    """The highest quality that passes where lower ones pass too; the lowest if it does not pass."""
    low, high = MIN_QUALITY, MAX_QUALITY + 1  # low passes or is all there is, high fails
    while high - low > 1:
        middle = (low + high) // 2
        if passes(middle):
            low = middle
        else:
            high = middle
    return low
