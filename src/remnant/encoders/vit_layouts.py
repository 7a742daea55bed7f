"""Tensor names of published vision transformers -> the names of `models.pretrained_vit`.

Three layouts are known: timm (plain ViT, MAE, DINOv2), Hugging Face ViT and ViTMAE, and Hugging
Face DINOv2. Which one a file has is seen from its names.

Axes: L = 1 + grid * grid positions, D width.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from remnant.encoders.encoder_facts import group_of
from remnant.errors import InputError
from remnant.models.pretrained_vit import PretrainedViT, ViTShape

# By layout: a pattern of their names, and ours; N is the number of the block.
_TIMM = {
    r"cls_token": "class_token",
    r"pos_embed": "positions",
    r"reg_token": "registers",
    r"patch_embed\.proj\.(weight|bias)": r"embed.\1",
    r"blocks\.(\d+)\.norm1\.(weight|bias)": r"blocks.\1.attention_norm.\2",
    r"blocks\.(\d+)\.attn\.qkv\.(weight|bias)": r"blocks.\1.attention.qkv.\2",
    r"blocks\.(\d+)\.attn\.proj\.(weight|bias)": r"blocks.\1.attention.project.\2",
    r"blocks\.(\d+)\.ls1\.gamma": r"blocks.\1.attention_scale.factors",
    r"blocks\.(\d+)\.norm2\.(weight|bias)": r"blocks.\1.mlp_norm.\2",
    r"blocks\.(\d+)\.mlp\.fc1\.(weight|bias)": r"blocks.\1.mlp.0.\2",
    r"blocks\.(\d+)\.mlp\.fc2\.(weight|bias)": r"blocks.\1.mlp.2.\2",
    r"blocks\.(\d+)\.ls2\.gamma": r"blocks.\1.mlp_scale.factors",
    r"norm\.(weight|bias)": r"norm.\1",
}
_HF_EMBEDDINGS = {
    r"embeddings\.cls_token": "class_token",
    r"embeddings\.position_embeddings": "positions",
    r"embeddings\.register_tokens": "registers",
    r"embeddings\.patch_embeddings\.projection\.(weight|bias)": r"embed.\1",
    r"encoder\.layer\.(\d+)\.attention\.attention\.(query|key|value)\.(weight|bias)": (
        r"blocks.\1.attention.\2.\3"
    ),
    r"encoder\.layer\.(\d+)\.attention\.output\.dense\.(weight|bias)": (
        r"blocks.\1.attention.project.\2"
    ),
    r"layernorm\.(weight|bias)": r"norm.\1",
}
_HF_VIT = _HF_EMBEDDINGS | {
    r"encoder\.layer\.(\d+)\.layernorm_before\.(weight|bias)": r"blocks.\1.attention_norm.\2",
    r"encoder\.layer\.(\d+)\.layernorm_after\.(weight|bias)": r"blocks.\1.mlp_norm.\2",
    r"encoder\.layer\.(\d+)\.intermediate\.dense\.(weight|bias)": r"blocks.\1.mlp.0.\2",
    r"encoder\.layer\.(\d+)\.output\.dense\.(weight|bias)": r"blocks.\1.mlp.2.\2",
}
_HF_DINOV2 = _HF_EMBEDDINGS | {
    r"encoder\.layer\.(\d+)\.norm1\.(weight|bias)": r"blocks.\1.attention_norm.\2",
    r"encoder\.layer\.(\d+)\.norm2\.(weight|bias)": r"blocks.\1.mlp_norm.\2",
    r"encoder\.layer\.(\d+)\.layer_scale1\.lambda1": r"blocks.\1.attention_scale.factors",
    r"encoder\.layer\.(\d+)\.layer_scale2\.lambda1": r"blocks.\1.mlp_scale.factors",
    r"encoder\.layer\.(\d+)\.mlp\.fc1\.(weight|bias)": r"blocks.\1.mlp.0.\2",
    r"encoder\.layer\.(\d+)\.mlp\.fc2\.(weight|bias)": r"blocks.\1.mlp.2.\2",
}
# Parts of whole models that an encoder does not have.
_SKIPPED = re.compile(
    r"(head|fc_norm|classifier|decoder|pooler)\b.*|embeddings\.mask_token|mask_token"
)
_PREFIXES = ("vit.", "dinov2.", "dinov2_with_registers.", "model.")
# Heads by width, where no config tells them, as tensors do not: timm's test_vit, then Ti, S, B, L,
# H and g.
_HEADS = {64: 2, 192: 3, 384: 6, 768: 12, 1024: 16, 1280: 16, 1536: 24}


def read_layout(tensors: Mapping[str, Tensor], source: str) -> dict[str, Tensor]:
    """Tensors by the names of `PretrainedViT`.

    Raises:
        InputError: The names are of no known layout; the message begins with `source`.
    """
    plain = {_without_prefix(name): tensor for name, tensor in tensors.items()}
    layout = _find_layout(plain)
    found: dict[str, Tensor] = {}
    for name, tensor in plain.items():
        ours = None if layout is None else _translate(name, layout)
        if ours is not None:
            found[ours] = tensor.float()
        elif not _SKIPPED.fullmatch(name):
            raise InputError(
                f"{source} must hold a vision transformer with the tensor names of timm or of "
                f"Hugging Face (ViT, ViTMAE, DINOv2); it holds {name!r}."
            )
    _stack_queries(found)
    missing = {"class_token", "positions", "embed.weight", "norm.weight"} - found.keys()
    if missing:
        raise InputError(
            f"{source} is no whole vision transformer: it has no {' and no '.join(sorted(missing))}"
        )
    found.setdefault("registers", found["class_token"][:, :0])
    if math.isqrt(found["positions"].shape[1]) ** 2 == found["positions"].shape[1]:
        # timm's networks with registers: patches alone have positions.
        found["positions"] = functional.pad(found["positions"], (0, 0, 1, 0))
    return found


def shape_of(found: Mapping[str, Tensor], facts: Mapping[str, Any], source: str) -> ViTShape:
    """The shape of a network by its tensors.

    Args:
        found: As `read_layout` gives them.
        facts: A config.json beside the weights; {} where there is none. Heads cannot be seen from
            tensors.
        source: For messages.

    Raises:
        InputError: The number of heads is not known, or does not divide the width, or `facts` are
            wrong.
    """
    width, _, side, _ = found["embed.weight"].shape
    numbers = {int(name.split(".")[1]) for name in found if name.startswith("blocks.")}
    depth = len(numbers)
    if numbers != set(range(depth)) or not depth:
        raise InputError(f"{source} is no whole vision transformer: blocks are missing.")
    stated = facts.get("num_attention_heads") or group_of(facts, "model_args").get("num_heads")
    heads = stated or _HEADS.get(width)
    if not isinstance(heads, int) or heads < 1 or width % heads:
        raise InputError(
            f"{source} has width {width}, and its number of attention heads is not known. Write it "
            'to a config.json beside the file: {"num_attention_heads": 12}.'
        )
    is_hf = "hidden_size" in facts
    return ViTShape.parse(
        {
            "width": width,
            "depth": depth,
            "head_width": width // heads,
            "mlp_width": len(found["blocks.0.mlp.0.weight"]),
            "patch_size": side,
            "grid": round((found["positions"].shape[1] - 1) ** 0.5),
            "num_registers": found["registers"].shape[1],
            "has_layer_scale": "blocks.0.attention_scale.factors" in found,
            "norm_eps": facts.get("layer_norm_eps", 1e-12) if is_hf else 1e-6,
        }
    )


def check_tensors(found: Mapping[str, Tensor], shape: ViTShape, source: str) -> None:
    """The tensors must be those of a network of this shape.

    Raises:
        InputError: One is missing, of another shape, or one too many.
    """
    with torch.device("meta"):
        wanted = {name: one.shape for name, one in PretrainedViT(shape).state_dict().items()}
    given = {name: one.shape for name, one in found.items()}
    for name in sorted(wanted.keys() | given.keys()):
        if wanted.get(name) != given.get(name):
            has = list(given[name]) if name in given else "missing"
            needs = list(wanted[name]) if name in wanted else "none"
            raise InputError(
                f"{source} is no vision transformer of a known kind: its tensor {name} is {has}, "
                f"where {needs} is expected."
            )


def resize_positions(found: dict[str, Tensor], grid: int) -> dict[str, Tensor]:
    """With the positions [1, L, D] of patches interpolated to another grid."""
    table = found["positions"]
    old = round((table.shape[1] - 1) ** 0.5)
    if old == grid:
        return found
    first, rest = table[:, :1], table[:, 1:]
    squares = rest.transpose(1, 2).unflatten(2, (old, old))  # [1, D, old, old]
    squares = functional.interpolate(
        squares, (grid, grid), mode="bicubic", align_corners=False, antialias=True
    )
    return found | {"positions": torch.cat([first, squares.flatten(2).transpose(1, 2)], dim=1)}


def _without_prefix(name: str) -> str:
    prefix = next((prefix for prefix in _PREFIXES if name.startswith(prefix)), "")
    return name.removeprefix(prefix)


def _find_layout(names: Mapping[str, Tensor]) -> dict[str, str] | None:
    if "cls_token" in names:
        return _TIMM
    if "encoder.layer.0.layernorm_before.weight" in names:
        return _HF_VIT
    return _HF_DINOV2 if "encoder.layer.0.norm1.weight" in names else None


def _translate(name: str, layout: Mapping[str, str]) -> str | None:
    for pattern, ours in layout.items():
        if match := re.fullmatch(pattern, name):
            return match.expand(ours)
    return None


def _stack_queries(found: dict[str, Tensor]) -> None:
    """Queries, keys and values in one matrix, as our attention has them."""
    places = {name.rsplit(".query", 1)[0] for name in found if ".query." in name}
    for place in places:
        for kind in ("weight", "bias"):
            parts = [found.pop(f"{place}.{part}.{kind}") for part in ("query", "key", "value")]
            found[f"{place}.qkv.{kind}"] = torch.cat(parts)
