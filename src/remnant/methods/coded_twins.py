"""New images as the memory would give them back, so that looks tell nothing about age.

Exemplars are replayed as their codec left them. A network can learn the traces of the codec as a
sign of old classes, unless new images show them as well.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from remnant.images import ImageSet
from remnant.methods.base import Method
from remnant.phases import Reader


def coded_twins(method: Method[Any], new: ImageSet, reader: Reader) -> ImageSet | None:
    """Each of the new images through the codec; None where nothing is replayed yet."""
    memory = method.memory
    if memory is None or not memory.labels:
        return None
    return memory.present(image for batch in reader.images(new) for image in batch.numpy())


def low_fidelity(method: Method[Any], images: ImageSet, reader: Reader) -> ImageSet:
    """The same images with their labels and ids, each through the codec."""
    assert method.memory is not None, "the method keeps exemplars"
    through = (image for batch in reader.images(images) for image in batch.numpy())
    coded = method.memory.present(through)
    assert coded is not None, "there are images"
    return replace(images, images=coded.images)
