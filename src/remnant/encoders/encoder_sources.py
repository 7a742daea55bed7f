"""Where encoders come from: a package, a file, or the Hugging Face hub.

efficientnet-lite0            the package of the extra `pretrained`
PATH.safetensors              a vision transformer; a config.json beside it is read as well
PATH.onnx                     any network with one image input and one output of features
hf:ORG/NAME[@REVISION]        model.safetensors of a repository; the revision is kept
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from remnant.encoders import lite0
from remnant.encoders.encoder_config import Channels, EncoderConfig
from remnant.encoders.encoder_facts import facts_beside, group_of
from remnant.encoders.hub import HUB, fetch_from_hub
from remnant.encoders.onnx_network import open_session, run_session
from remnant.encoders.vit_layouts import (
    check_tensors,
    read_layout,
    resize_positions,
    shape_of,
)
from remnant.errors import InputError, nearest

_IMAGENET: tuple[Channels, Channels] = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))
_LARGEST = 224  # Chosen: px; networks made for more take ten times as long on a processor
_MAX_FILE_BYTES = 4 << 30


def describe_encoder(name: str) -> EncoderConfig:
    """What must be known of an encoder to build it again; reads its file, if it is one.

    Raises:
        InputError: There is no such encoder, or it cannot be used.
    """
    if name == lite0.NAME:
        return lite0.CONFIG
    if name.startswith(HUB):
        found = fetch_from_hub(name)
        return _describe_vit(found.weights, found.name, found.facts, found.licence)
    path = Path(name).expanduser()
    if path.suffix not in (".safetensors", ".onnx"):
        raise InputError(
            f"encoder must be {lite0.NAME}, a path that ends in .safetensors or .onnx, or "
            f"hf:ORG/NAME; got {name!r}.{nearest(name, [lite0.NAME])}"
        )
    _check_file(path)
    if path.suffix == ".onnx":
        return _describe_onnx(path)
    return _describe_vit(path, str(path.resolve()), facts_beside(path), "unknown")


def read_weights(config: EncoderConfig) -> dict[str, Tensor]:
    """The weights of an encoder from its source, which must be the one that was described.

    Raises:
        InputError: The source is missing or has changed.
    """
    if config.kind == lite0.NAME:
        return lite0.read_lite0()
    path = Path(config.name)
    if config.name.startswith(HUB):
        path = fetch_from_hub(config.name, has_facts=False).weights
    _check_file(path)
    if _sha256(path) != config.sha256:
        raise InputError(
            f"{path} has changed since the encoder was chosen. Restore it, or start over."
        )
    if config.kind == "onnx":
        content = bytearray(path.read_bytes())
        return {"content": torch.frombuffer(content, dtype=torch.uint8)}
    assert config.vit is not None, "the config of a transformer has its shape"
    found = read_layout(_read_tensors(path), str(path))
    return resize_positions(found, config.vit.grid)


# ------------------------------------------------------------------------------------ descriptions


def _describe_vit(path: Path, name: str, facts: Mapping[str, Any], licence: str) -> EncoderConfig:
    tensors = _read_tensors(path)
    try:
        found = read_layout(tensors, str(path))
        shape = shape_of(found, facts, str(path))
        check_tensors(found, shape, str(path))
    except InputError:
        raise
    except (LookupError, ValueError, RuntimeError) as error:  # tensors of other axes
        raise InputError(f"{path} is no vision transformer of a known kind: {error}.") from None
    size = min(shape.grid * shape.patch_size, _LARGEST // shape.patch_size * shape.patch_size)
    return _parse(
        path,
        name=name,
        kind="vit",
        sha256=_sha256(path),
        licence=licence,
        image_size=size,
        vit=shape.model_copy(update={"grid": size // shape.patch_size}),
        **_colours(facts),
    )


def _describe_onnx(path: Path) -> EncoderConfig:
    content = path.read_bytes()
    session = open_session(content, str(path))
    inputs, outputs = session.get_inputs(), session.get_outputs()
    if len(inputs) != 1 or len(inputs[0].shape) != 4 or inputs[0].shape[1] != 3:
        raise InputError(
            f"{path} must take one input, images [N, 3, H, W]; it takes "
            f"{', '.join(f'{one.name} {one.shape}' for one in inputs)}."
        )
    if not outputs:
        raise InputError(f"{path} must give features; it has no output.")
    side = inputs[0].shape[2] if isinstance(inputs[0].shape[2], int) else _LARGEST
    config = _parse(  # before an image of this side is made
        path,
        name=str(path.resolve()),
        kind="onnx",
        sha256=hashlib.sha256(content).hexdigest(),
        image_size=side,
        num_bytes=len(content),
        **_colours(facts_beside(path)),
    )
    features = run_session(session, torch.zeros(1, 3, side, side).numpy(), str(path))
    return config.model_copy(update={"width": features.shape[1]})


def _parse(path: Path, **values: Any) -> EncoderConfig:
    try:
        return EncoderConfig.parse(values)
    except InputError as error:
        raise InputError(f"{path} cannot be used as an encoder: {error}") from None


def _colours(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Mean and deviation by the config of timm or of a preprocessor, or else those of ImageNet."""
    inner = group_of(facts, "pretrained_cfg")
    return {
        "mean": inner.get("mean") or facts.get("image_mean") or _IMAGENET[0],
        "std": inner.get("std") or facts.get("image_std") or _IMAGENET[1],
    }


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, ValueError) as error:
        raise InputError(f"{path} is no readable safetensors file: {error}.") from None


def _check_file(path: Path) -> None:
    if not path.is_file():
        raise InputError(f"the encoder's file {path} does not exist. Check the path.")
    if path.stat().st_size > _MAX_FILE_BYTES:
        raise InputError(f"{path} must be at most 4 GiB; it has {path.stat().st_size:,} bytes.")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
