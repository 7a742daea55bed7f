"""What a checkpoint of a run belongs to: a change of program, config or data makes another run."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pydantic import field_validator

from remnant._version import __version__
from remnant.config import RunConfig
from remnant.data import DataConfig
from remnant.data.decode import UnreadableImageError
from remnant.data.fingerprints import fingerprint_sets
from remnant.data.stream import TaskStream
from remnant.errors import InputError, command_text
from remnant.images import ImageSet
from remnant.runs.events import Counters
from remnant.settings import Settings


class Mark(Settings):
    """What a checkpoint of a run says beside its arrays."""

    origin: dict[str, str]
    progress: Counters
    memory: Any = None  # the metadata of the memory, at the start of a task

    @field_validator("progress", mode="before")
    @classmethod
    def _admit_uncounted(cls, values: Any) -> Any:
        """A run that an earlier version began has not counted everything."""
        uncounted: dict[str, Any] = {"train_flops": None, "new_images_shown": None}
        return uncounted | values if isinstance(values, dict) else values


def read_mark(metadata: Any, folder: Path) -> Mark:
    """The metadata of a checkpoint.

    Raises:
        InputError: They are not those of a run.
    """
    try:
        return Mark.parse(metadata)
    except InputError as error:
        raise InputError(
            f"a checkpoint of {folder} cannot be used: {error} To start over, run the folder's "
            "config.json into a new folder."
        ) from None


def origin_of(
    config: RunConfig, stream: TaskStream, train: ImageSet, test: ImageSet
) -> dict[str, str]:
    """What a run begins with, as digests."""
    values = config.model_dump(mode="json", exclude={"training"})
    for machine_setting in ("root", "workers"):
        del values["data"][machine_setting]
    values["data"]["path"] = None  # one's own images may be moved too: their digest counts
    if config.training.accumulate > 1:  # the only one of its group that decides more than rounding
        values["accumulate"] = config.training.accumulate
    text = json.dumps([values, list(stream.class_names), len(stream[0].train)])
    return {
        "remnant": __version__,
        "config": hashlib.sha256(text.encode()).hexdigest(),
        "data": fingerprint_sets(train, test),
    }


def check_origin(saved: dict[str, str], now: dict[str, str], folder: Path) -> None:
    """A run goes on exactly only with the program, config and data that it began with.

    Raises:
        InputError: One of them is another; the sentence says which.
    """
    saved = {"remnant": "of an unknown version", "config": ""} | saved
    if saved["remnant"] != now["remnant"]:
        raise InputError(
            f"{folder} was written by remnant {saved['remnant']}; this is {now['remnant']}. Resume "
            "it with that version, or run its config.json into a new folder."
        )
    if saved["config"] != now["config"]:
        raise InputError(
            f"the config or the data of {folder} changed since its last checkpoint. Put back what "
            "it was, or run its config.json into a new folder."
        )
    if saved.get("data", now["data"]) != now["data"]:  # 0.1.0 did not note it
        raise InputError(
            f"the images of {folder} changed since its last checkpoint: some were added, removed "
            "or altered. Put back what was there, or run its config.json into a new folder."
        )


@contextmanager
def advising_on_images(data: DataConfig) -> Iterator[None]:
    """Where an image stops a run, also say that mending it makes another run, and what to do first.

    Images above 64 px are read when they are needed, so that a bad one shows late.
    """
    try:
        yield
    except UnreadableImageError as error:
        place = data.path or data.root
        options = () if place is None else ("--data-root", place)
        command = command_text("remnant", "data", "check", data.dataset, *options)
        raise InputError(
            f"{error} A run that has begun cannot be resumed with other images: before starting "
            f"over, check all files with `{command}`."
        ) from None
