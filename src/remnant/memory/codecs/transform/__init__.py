"""A coder of our own for small pictures. Its format is frozen: files depend on every constant."""

from __future__ import annotations

from remnant.memory.codecs.transform.transform_codec import (
    TransformCodec,
    TransformCoder,
    TransformConfig,
    fitting_side,
    step_of,
)

__all__ = ["TransformCodec", "TransformCoder", "TransformConfig", "fitting_side", "step_of"]
