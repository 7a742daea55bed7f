"""What a budget holds of the real images under each codec, measured on a sample of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
import torch

from remnant.data import Dataset
from remnant.errors import InputError
from remnant.images import Shape
from remnant.memory import (
    CODECS,
    CodecConfig,
    MemoryConfig,
    RawConfig,
    build_codec,
    parse_budget,
    settle_quality,
)
from remnant.memory.packing import Packing
from remnant.planning.codec_trials import Row, Trial
from remnant.randomness import generator

_BATCH = 64  # images in memory at a time


@dataclass(frozen=True)
class Plan:
    """A budget under every codec."""

    dataset: str
    num_classes: int
    images_per_class: int  # to choose from; the mean where classes differ
    num_images: int  # of the sample
    budget: str
    budget_bytes: int  # of one class
    image_shape: Shape
    rows: list[Row]
    skipped: dict[str, str]  # label of a setting -> why it does not suit these images
    pictures: list[list[np.ndarray]]  # the same images for each row, RGBA uint8 [H, W, 4]

    def document(self) -> dict[str, Any]:
        """The plan as plain values, without its pictures."""
        return {
            "dataset": self.dataset,
            "num_classes": self.num_classes,
            "images_per_class": self.images_per_class,
            "sample": self.num_images,
            "budget": {"text": self.budget, "bytes_per_class": self.budget_bytes},
            "image_shape": list(self.image_shape),
            "rows": [{"label": row.label, **asdict(row)} for row in self.rows],
            "skipped": self.skipped,
        }


def plan_codecs(
    dataset: Dataset,
    memory: MemoryConfig,
    *,
    sample: int = 600,
    seed: int = 0,
    progress: Callable[[int, int | None], None] | None = None,
) -> Plan:
    """Encode and decode a sample of the training images with every codec.

    A `memory.codec` that is neither raw nor among the trial settings is tried as well. `progress`
    is called with the number of images done, and of all.

    Raises:
        InputError: The sample is empty, or `memory.codec` does not suit the images.
    """
    if sample < 1:
        raise InputError(f"a sample must have at least 1 image; got {sample}. Raise --sample.")
    train, num_classes = dataset.train, len(dataset.class_names)
    shape = train.images.shape
    memory = settle_quality(memory, shape, num_classes)
    budget = parse_budget(memory.budget, math.prod(shape))
    trials, skipped = _list_trials(memory, shape, Packing(budget, memory.count_overhead))
    positions = sample_evenly(train.labels, sample, seed)
    done = 0
    for chosen in positions.split(_BATCH):
        images, ids = train.images.read(chosen).numpy(), train.ids[chosen].tolist()
        for trial in trials:
            trial.add(images, ids, seed)
        done += len(chosen)
        if progress is not None:
            progress(done, len(positions))
    quota = budget.quota(num_classes)
    return Plan(
        dataset=dataset.name,
        num_classes=num_classes,
        images_per_class=round(len(train) / num_classes),
        num_images=len(positions),
        budget=memory.budget,
        budget_bytes=quota,
        image_shape=shape,
        rows=mark_front([trial.row(quota) for trial in trials]),
        skipped=skipped,
        pictures=[trial.pictures for trial in trials],
    )


def sample_evenly(labels: torch.Tensor, count: int, seed: int) -> torch.Tensor:
    """Positions of `count` images, or of all there are: one of every class, then a second, ..."""
    order = torch.randperm(len(labels), generator=generator(seed, "plan", "sample"))
    times_seen: dict[int, int] = {}
    turns = []
    for label in labels[order].tolist():
        turns.append(times_seen.get(label, 0))
        times_seen[label] = turns[-1] + 1
    return order[torch.argsort(torch.tensor(turns), stable=True)[:count]]


def mark_front(rows: Sequence[Row]) -> list[Row]:
    """The same rows, those marked that no other beats.

    Among whole images, and apart from them among partial ones, a row is beaten by another that
    holds at least as many exemplars with at least the same share of their pixels at a PSNR at
    least as high, and is better in one of the three.
    """
    return [
        replace(row, is_on_front=row.exemplars_per_class > 0 and not _is_beaten(row, rows))
        for row in rows
    ]


def _is_beaten(row: Row, rows: Iterable[Row]) -> bool:
    return any(
        other.merits != row.merits
        and all(theirs >= own for theirs, own in zip(other.merits, row.merits, strict=True))
        for other in rows
        if (other.stored_ratio == 1) == (row.stored_ratio == 1)
    )


def _list_trials(
    memory: MemoryConfig, shape: Shape, packing: Packing
) -> tuple[list[Trial], dict[str, str]]:
    """A trial of every setting that suits images of this shape, and why the others do not."""
    trials, skipped, seen = [], {}, [RawConfig()]
    for name, codec in CODECS.items():
        for listed in codec.trial_settings:
            config, setting = configure(codec.Config, listed, shape), describe_setting(listed)
            seen.append(config)
            try:
                trials.append(Trial(build_codec(config, shape), setting, packing))
            except InputError as error:
                skipped[f"{name} {setting}".rstrip()] = str(error)
    if memory.codec not in seen:
        given = memory.codec.model_dump(mode="json", exclude_defaults=True)
        trials.append(Trial(build_codec(memory.codec, shape), describe_setting(given), packing))
    return trials, skipped


def configure(config: type[CodecConfig], listed: Mapping[str, Any], shape: Shape) -> Any:
    """A codec's config from some of its settings, its patches sized for the images."""
    sized = {"patch_size": usual_patch_size(shape)} if "patch_size" in config.model_fields else {}
    return config.model_validate({**sized, **listed})


def usual_patch_size(shape: Shape) -> int:
    """Chosen: at most an eighth of the side and 16 px, which gives the paper's 4 and 16."""
    height, width, _ = shape
    largest = max(1, min(16, height // 8, width // 8))
    return max(one for one in range(1, largest + 1) if height % one == 0 and width % one == 0)


def describe_setting(values: Mapping[str, Any]) -> str:
    """Settings in a few words: `webp q75`."""
    return " ".join(_describe(key, value) for key, value in values.items())


def _describe(key: str, value: Any) -> str:
    name = key.replace("_", " ")
    if isinstance(value, bool):
        return name if value else f"no {name}"
    if isinstance(value, str):
        return value
    return f"q{value}" if key == "quality" else f"{name} {value}"
