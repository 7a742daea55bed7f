"""What the parts of remnant hand to one another; imports nothing from the package.

An *image* is uint8, height x width x channels. A *view* is float, channels first, normalised.

Axes: N images, B images of a batch, H height, W width, C channels, GH x GW patches of an image.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

import numpy as np
import torch
from pydantic import BaseModel, ConfigDict, Field
from torch import Tensor, nn


class InputError(ValueError):
    """Something a user chose or supplied cannot be used; the message says what to do."""


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of an error about an unknown name: ` Did you mean X?`, or nothing."""
    matches = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return f" Did you mean {matches[0]}?" if matches else ""


class Settings(BaseModel):
    """Parent of every config: complete, immutable, and closed to unknown names."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


# ------------------------------------------------------------------------------------- randomness


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, so that a new consumer never shifts an old one."""
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose: `generator(seed, "selection", class_index)`."""
    return torch.Generator().manual_seed(derive_seed(seed, *purpose))


# ------------------------------------------------------------------------------------------ images


class Images(Protocol):
    """Images of one size, read by position: from memory, or decoded from files when asked for."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and channels of every image that `read` gives."""
        ...

    @property
    def is_lazy(self) -> bool:
        """Reading decodes files, so it is worth doing ahead of time in workers."""
        ...

    def __len__(self) -> int: ...

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        """The images at `positions` [n] as uint8 [n, H, W, C].

        With `draws`, uniform numbers in [0, 1) of shape [n, 4], each image is a random resized
        crop (area, aspect ratio, row, column); without, it is framed as for testing.
        """
        ...

    def select(self, positions: Tensor) -> Images: ...


@dataclass(frozen=True)
class ImageSet:
    """Images with labels and stable ids; some images may be known only in part."""

    images: Images
    labels: Tensor  # int64 [N]; positions in the class order once a stream has mapped them
    ids: Tensor  # int64 [N]; position in the data set on disk, never reused within a split
    is_known: Tensor | None = None  # bool [N, GH, GW]; None: every patch of every image is known

    def __post_init__(self) -> None:
        if not len(self.images) == len(self.labels) == len(self.ids):
            raise ValueError(
                f"an ImageSet needs one label and one id per image; got {len(self.images)} images, "
                f"{len(self.labels)} labels, {len(self.ids)} ids"
            )

    def __len__(self) -> int:
        return len(self.labels)

    def select(self, positions: Tensor) -> ImageSet:
        """The subset at `positions`, in that order."""
        return ImageSet(
            self.images.select(positions),
            self.labels[positions],
            self.ids[positions],
            None if self.is_known is None else self.is_known[positions],
        )

    def of_class(self, label: int) -> ImageSet:
        return self.select(torch.nonzero(self.labels == label).flatten())

    def with_labels(self, labels: Tensor) -> ImageSet:
        return replace(self, labels=labels)


@dataclass(frozen=True)
class Task:
    """One step of a stream: the classes that are new and their training images."""

    index: int  # from 0
    num_tasks: int
    num_old_classes: int
    class_names: tuple[str, ...]  # of the new classes, in label order
    train: ImageSet  # of the new classes; a learner's tasks may bring more images of old ones

    @property
    def num_new_classes(self) -> int:
        return len(self.class_names)

    @property
    def num_seen_classes(self) -> int:
        return self.num_old_classes + self.num_new_classes

    @property
    def new_labels(self) -> range:
        return range(self.num_old_classes, self.num_seen_classes)

    @property
    def known_labels(self) -> list[int]:
        """Of the old classes that the task brings more images of."""
        return self.train.labels[self.train.labels < self.num_old_classes].unique().tolist()


# ---------------------------------------------------------------------------------------- training


class OptimizerConfig(Settings):
    """An optimiser and how its learning rate moves over a phase."""

    name: Literal["sgd", "adam", "adamw"] = "sgd"
    lr: float = Field(gt=0)
    momentum: float = Field(default=0.9, ge=0, lt=1)  # sgd only
    betas: tuple[float, float] = (0.9, 0.999)  # adam and adamw only
    weight_decay: float = Field(default=0.0, ge=0)
    decay_norms_and_biases: bool = True
    schedule: Literal["constant", "cosine", "steps"] = "constant"
    milestones: tuple[float, ...] = ()  # epochs at which "steps" multiplies by gamma
    gamma: float = Field(default=0.1, gt=0, le=1)
    warmup_epochs: float = Field(default=0.0, ge=0)  # linear from warmup_lr to lr
    warmup_lr: float = Field(default=0.0, ge=0)
    min_lr: float = Field(default=0.0, ge=0)  # where "cosine" ends
    clip_norm: float | None = Field(default=None, gt=0)  # of all gradients together
    clip_value: float | None = Field(default=None, gt=0)  # of each gradient entry


class Schedule(Settings):
    """How long a phase lasts, how its batches are drawn, and what optimises it."""

    epochs: int = Field(ge=1)
    batch_size: int = Field(ge=1)  # over all processes
    optimizer: OptimizerConfig
    # "all": an epoch passes over new data and replay; "new": it has as many steps as the new
    # data alone would need, so that methods and codecs compare at equal compute.
    steps_from: Literal["all", "new"] = "all"
    # "union": new data and replay shuffled together; "balanced": every class equally often.
    sampling: Literal["union", "balanced"] = "union"
    # Each image drawn is shown so many times in a row, augmented anew: repeated augmentation.
    # Epochs stay as long, so that each shows so many times fewer images.
    views_per_image: int = Field(default=1, ge=1)


@dataclass(frozen=True)
class Batch:
    """What a loss sees. Rows are this process's share of the global batch."""

    views: Tensor  # float [B, C, H, W], normalised
    labels: Tensor  # int64 [B]
    is_replay: Tensor  # bool [B]
    is_known: Tensor | None  # bool [B, GH, GW]; None: all patches known
    ids: Tensor  # int64 [B]; of the data set for new images, positions in the replay set for replay
    step: int  # from 0 within the phase
    num_steps: int  # of the phase
    draw: Callable[..., Tensor]  # draw(name, *shape): uniform [B, *shape], a function of seed and
    # step alone: one process and many see the same numbers for the same image

    @property
    def progress(self) -> float:
        """0 at the first step of the phase, towards 1 at the last."""
        return self.step / self.num_steps


Terms = dict[str, Tensor]  # named scalar losses, already weighted; the trainer minimises their sum


@dataclass(frozen=True)
class Player:
    """Parameters that move together: by one optimiser, on one loss.

    Most phases have one. Adversaries are two with `every` apart; a meta step is a `loss` that
    differentiates inside; projection is `on_gradients`, called between backward and step.
    """

    name: str
    parameters: Sequence[nn.Parameter]
    loss: Callable[[Batch], Terms]
    optimizer: OptimizerConfig
    every: int = 1  # moves at steps that this divides
    on_gradients: Callable[[], None] | None = None
    after_step: Callable[[], None] | None = None


@dataclass(frozen=True)
class Phase:
    """One stretch of optimisation, stated as data: the trainer does the rest."""

    name: str  # unique within its task
    data: ImageSet
    schedule: Schedule
    players: tuple[Player, ...]
    replay: ImageSet | None = None
    # How often an image known in part is shown through its known patches alone; otherwise it
    # counts as whole (a completed exemplar: whole, but only some of it is certain).
    partial_view_ratio: float = 1.0
    # Whether at a step, of so many, every image counts as whole all the same.
    is_whole_step: Callable[[int, int], bool] | None = None
    # The part of the schedule that this phase covers, where one is cut in several: first epoch and
    # the one after the last. Learning rates go on as if it were whole.
    epochs: tuple[int, int] | None = None

    @property
    def parameters(self) -> list[nn.Parameter]:
        return [parameter for player in self.players for parameter in player.parameters]


class Reader(Protocol):
    """Read-only access to images for methods: no gradient, no augmentation, same on every rank."""

    seed: int
    mean: tuple[float, ...]  # of the data set, per channel, in [0, 1]
    std: tuple[float, ...]

    def generator(self, *purpose: str | int) -> torch.Generator:
        """A generator for one purpose, the same at every run with this seed."""
        ...

    def images(self, images: ImageSet) -> Iterator[Tensor]:
        """Test framing, in order, batch by batch, as uint8 [b, H, W, C]."""
        ...

    def apply(
        self, function: Callable[[Tensor], Tensor], images: ImageSet, *, mirrored: bool = False
    ) -> Tensor:
        """`function` of the normalised views of all images, in order, on the CPU: [N, ...].

        Runs in evaluation mode without gradient, shared among processes. `mirrored` flips the
        views left to right.
        """
        ...

    def views(self, images: Tensor) -> Tensor:
        """uint8 [n, H, W, C] -> normalised float [n, C, H, W] on the training device."""
        ...

    def to_images(self, views: Tensor) -> Tensor:
        """The inverse of `views`, rounded and clipped: uint8 [n, H, W, C] on the CPU."""
        ...


# --------------------------------------------------------------------------------- images in memory


@dataclass(frozen=True)
class ArrayImages:
    """Images held in memory."""

    array: Tensor  # uint8 [N, H, W, C]
    is_lazy: bool = field(default=False, init=False)

    def __post_init__(self) -> None:
        if self.array.dtype != torch.uint8 or self.array.ndim != 4:
            raise ValueError(
                f"ArrayImages holds uint8 [N, H, W, C]; got {self.array.dtype} "
                f"{list(self.array.shape)}"
            )

    @property
    def shape(self) -> tuple[int, int, int]:
        height, width, channels = self.array.shape[1:]
        return height, width, channels

    def __len__(self) -> int:
        return len(self.array)

    def read(self, positions: Tensor, draws: Tensor | None = None) -> Tensor:
        chosen = self.array[positions]
        if draws is None:
            return chosen
        height, width, _ = self.shape
        crops = [
            resized_crop(image.numpy(), draw, (height, width))
            for image, draw in zip(chosen, draws.tolist(), strict=True)
        ]
        return torch.from_numpy(np.stack(crops)) if crops else chosen

    def select(self, positions: Tensor) -> ArrayImages:
        return ArrayImages(self.array[positions])


def crop_box(height: int, width: int, draw: Sequence[float]) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random resized crop: 8 to 100 % area, 3:4 to 4:3 aspect."""
    area = height * width * (0.08 + 0.92 * draw[0])
    ratio = float(np.exp((2 * draw[1] - 1) * np.log(4 / 3)))
    box_width = min(width, max(1, round(float(np.sqrt(area * ratio)))))
    box_height = min(height, max(1, round(float(np.sqrt(area / ratio)))))
    top = int(draw[2] * (height - box_height + 1))
    left = int(draw[3] * (width - box_width + 1))
    return top, left, box_height, box_width


def resized_crop(image: np.ndarray, draw: Sequence[float], size: tuple[int, int]) -> np.ndarray:
    """A random resized crop of one uint8 image [H, W, C], bilinear, as uint8 [*size, C]."""
    from PIL import Image

    top, left, height, width = crop_box(image.shape[0], image.shape[1], draw)
    window = image[top : top + height, left : left + width]
    picture = Image.fromarray(window[:, :, 0] if window.shape[2] == 1 else window)
    resized = np.asarray(picture.resize((size[1], size[0]), Image.Resampling.BILINEAR))
    return resized.reshape(*size, image.shape[2])
