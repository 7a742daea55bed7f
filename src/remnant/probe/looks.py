"""Ways in which an image can look in training, each put on test images and shown to a network."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from remnant.images import ArrayImages, ImageSet
from remnant.memory import Memory, PartialCodec
from remnant.methods import Completes, SeesParts
from remnant.probe.finished_run import FinishedRun
from remnant.views.augment import AugmentConfig, train_views

_NUM_SHIFTS = 4  # of every image, over which the effect of a border is averaged
_AT_ONCE = 256


@dataclass(frozen=True)
class Look:
    """One way to show images."""

    name: str
    about: str
    predict: Callable[[ImageSet], Tensor]  # labels, int64 [R, N]: R times each of N images


def looks_of(run: FinishedRun) -> tuple[list[Look], dict[str, str]]:
    """The looks that a run's images can have, plain first; and the others, with the reason."""
    looks = [Look("as they are", "test images as they are", lambda images: _predict(run, images))]
    left_out: dict[str, str] = {}
    augment = run.config.augment
    padding = augment.padding
    if augment.train not in ("crop", "crop-flip"):
        left_out["border"] = f"augment.train={augment.train} gives images no border"
    elif padding == 0:
        left_out["border"] = "crops have no border: augment.padding is 0"
    else:
        about = f"shifted by up to {padding} px, with a black border, as training crops"
        looks.append(Look("border", about, lambda images: _predict_shifted(run, images, padding)))
    about = "at half the resolution, enlarged again"
    looks.append(Look("blurred", about, lambda images: _predict(run, blurred(images))))
    memory = run.method.memory
    if memory is None:
        reason = "the run has no memory"
        return looks, left_out | dict.fromkeys(("masked", "completed", "coded"), reason)
    if memory.codec.is_partial:
        looks += _partial_looks(run, memory, left_out)
    else:
        left_out |= dict.fromkeys(("masked", "completed"), "the memory keeps whole images")
        about = f"as the memory gives them back, by the codec {memory.config.codec.name}"
        looks.append(
            Look("coded", about, lambda images: _predict(run, _stored(run, memory, images)))
        )
    return looks, left_out


def _partial_looks(run: FinishedRun, memory: Memory, left_out: dict[str, str]) -> Iterator[Look]:
    about = "by the patches that the memory would keep, as the method takes them"
    yield Look("masked", about, lambda images: _predict_masked(run, memory, images))
    method, codec = run.method, memory.codec
    if not isinstance(method, SeesParts):
        left_out["coded"] = "the memory keeps parts of images, which are masked as they are coded"
    elif isinstance(codec, PartialCodec) and codec.keeps_pixels:
        left_out["coded"] = "the memory keeps patches as they are"
    else:
        about = f"by the same patches, as the codec {memory.config.codec.name} gives them back"
        yield Look("coded", about, lambda images: _predict_masked(run, memory, images, True))
    if not isinstance(method, Completes) or not method.completes:
        left_out["completed"] = "the method does not complete images"
        return

    def predict(images: ImageSet) -> Tensor:
        return _predict(run, method.complete(_stored(run, memory, images), run.reader))

    yield Look("completed", "the same patches, the others drawn by the network", predict)


# ------------------------------------------------------------------------------------- predictions


def _predict(run: FinishedRun, images: ImageSet) -> Tensor:
    return run.reader.apply(lambda views: run.method.predict(views).argmax(dim=1), images)[None]


@torch.no_grad()
def _predict_shifted(run: FinishedRun, images: ImageSet, padding: int) -> Tensor:
    """Each image at a few random offsets, none of which leaves it where it is."""
    crop, found = AugmentConfig(train="crop", padding=padding), []
    device = next(run.method.parameters()).device
    for index in range(_NUM_SHIFTS):
        rng = run.reader.generator("probe border", index)
        draws = _moving_draws(torch.rand(len(images), crop.num_draws, generator=rng), padding)
        labels = []
        for rows in torch.arange(len(images)).split(_AT_ONCE):
            pixels = images.images.read(rows)
            views, _ = train_views(pixels, None, draws[rows], crop, run.look.mean, run.look.std)
            labels.append(run.method.predict(views.to(device)).argmax(dim=1).cpu())
        found.append(torch.cat(labels))
    return torch.stack(found)


def _moving_draws(draws: Tensor, padding: int) -> Tensor:
    """Draws of offsets, the centre in both directions replaced by the first row."""
    is_centre = (draws[:, :2] * (2 * padding + 1)).long().eq(padding).all(dim=1)
    draws[:, 0] = torch.where(is_centre, torch.zeros_like(draws[:, 0]), draws[:, 0])
    return draws


@torch.no_grad()
def _predict_masked(
    run: FinishedRun, memory: Memory, images: ImageSet, is_coded: bool = False
) -> Tensor:
    """By the patches that would be kept, with their own pixels or as the codec leaves them."""
    method, stored = run.method, _stored(run, memory, images)
    if not isinstance(method, SeesParts):
        return _predict(run, stored)  # hidden patches in the mean colour, as it is replayed
    assert stored.is_known is not None, "only a partial codec has masked images"
    labels = []
    for rows in torch.arange(len(images)).split(_AT_ONCE):
        # What is hidden is hidden by the method.
        views = run.reader.views((stored if is_coded else images).images.read(rows))
        scores = method.predict_parts(views, stored.is_known[rows].to(views.device))
        labels.append(scores.argmax(dim=1).cpu())
    return torch.cat(labels)[None]


def blurred(images: ImageSet) -> ImageSet:
    """The means of squares of two pixels a side, enlarged again by linear interpolation."""
    pixels = images.images.read(torch.arange(len(images)))
    views = pixels.permute(0, 3, 1, 2).float()  # [N, C, H, W]
    small = F.avg_pool2d(views, 2, ceil_mode=True)
    large = F.interpolate(small, size=views.shape[2:], mode="bilinear", align_corners=False)
    whole = large.round().byte().permute(0, 2, 3, 1).contiguous()
    return ImageSet(ArrayImages(whole), images.labels, images.ids)


def _stored(run: FinishedRun, memory: Memory, images: ImageSet) -> ImageSet:
    """The images as the memory would give them back."""
    pixels = (image for batch in run.reader.images(images) for image in batch.numpy())
    stored = memory.present(pixels)
    assert stored is not None, "there are images to probe"
    whole = stored.images.read(torch.arange(len(stored)))
    return ImageSet(ArrayImages(whole), images.labels, images.ids, stored.is_known)
