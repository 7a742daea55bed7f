"""New images as the memory would give them back, so that looks tell nothing about age.

Exemplars are replayed as their codec left them. A network can learn the traces of the codec as a
sign of old classes, unless new images show them as well.
"""

from __future__ import annotations

from typing import Any

from remnant.images import ImageSet
from remnant.methods.base import Method
from remnant.phases import Reader


def coded_twins(method: Method[Any], new: ImageSet, reader: Reader) -> ImageSet | None:
    """Each of the new images through the codec; None where nothing is replayed yet."""
    memory = method.memory
    if memory is None or not memory.labels:
        return None
    images = (image for batch in reader.images(new) for image in batch.numpy())
    return memory.present(images)
