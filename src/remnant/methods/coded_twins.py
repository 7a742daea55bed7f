"""New images as the memory would give them back, so that looks tell nothing about age.

Exemplars are replayed as their codec left them. A network can learn the traces of the codec as a
sign of old classes, unless new images show them as well.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from remnant.images import ImageSet
from remnant.memory import Memory
from remnant.phases import Phase, Reader


def coded_twins(memory: Memory | None, new: ImageSet, reader: Reader) -> ImageSet | None:
    """Each of the new images through the codec; None where nothing is replayed yet."""
    if memory is None or not memory.labels:
        return None
    coded = memory.present(image for batch in reader.images(new) for image in batch.numpy())
    assert coded is not None, "a task has images"
    return replace(coded, labels=new.labels, ids=new.ids)


def with_coded_views(
    phases: Iterator[Phase], memory: Memory | None, ratio: float, reader: Reader
) -> Iterator[Phase]:
    """Where old images are replayed, show new ones as coded as these, with this probability.

    Phases over the same images share what was coded.
    """
    data, twins = None, None
    for phase in phases:
        if ratio == 0 or phase.replay is None or phase.twins is not None:
            yield phase
            continue
        if phase.data is not data:
            data, twins = phase.data, None  # what was coded before is no longer held
            twins = coded_twins(memory, data, reader)
        yield replace(phase, twins=twins, twin_ratio=ratio)


def through_codec(memory: Memory, images: ImageSet, reader: Reader) -> ImageSet:
    """The same images with their labels and ids, each as the memory would give it back."""
    through = (image for batch in reader.images(images) for image in batch.numpy())
    return as_shown(images, memory.present(through))


def as_shown(images: ImageSet, shown: ImageSet | None) -> ImageSet:
    """The same images with their labels and ids, in the pixels of others."""
    assert shown is not None, "there are images"
    return replace(images, images=shown.images)
