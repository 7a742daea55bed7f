"""Weights of a small vision transformer, by neutral names and in published layouts."""

from __future__ import annotations

import torch
from torch import Tensor

WIDTH, DEPTH, HEADS, SIDE, GRID = 32, 2, 4, 8, 4


def make_weights(
    has_scale: bool = False, num_registers: int = 0, has_class_position: bool = True
) -> dict[str, Tensor]:
    """By neutral names, drawn at random."""
    rng = torch.Generator().manual_seed(3)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=rng) * 0.2

    weights = {
        "class": draw(1, 1, WIDTH),
        "registers": draw(1, num_registers, WIDTH),
        "positions": draw(1, 1 + GRID**2, WIDTH),
        "embed.weight": draw(WIDTH, 3, SIDE, SIDE),
        "embed.bias": draw(WIDTH),
        "norm.weight": draw(WIDTH),
        "norm.bias": draw(WIDTH),
    }
    for index in range(DEPTH):
        for name, shape in {
            "norm1": (WIDTH,), "norm2": (WIDTH,), "query": (WIDTH, WIDTH), "key": (WIDTH, WIDTH),
            "value": (WIDTH, WIDTH), "project": (WIDTH, WIDTH), "fc1": (2 * WIDTH, WIDTH),
            "fc2": (WIDTH, 2 * WIDTH),
        }.items():  # fmt: skip
            weights[f"{index}.{name}.weight"] = draw(*shape)
            weights[f"{index}.{name}.bias"] = draw(shape[0])
        if has_scale:
            weights[f"{index}.scale1"], weights[f"{index}.scale2"] = draw(WIDTH), draw(WIDTH)
    weights["positions"][0, 0] *= has_class_position
    return weights


def as_timm(weights: dict[str, Tensor]) -> dict[str, Tensor]:
    names = {
        "class": "cls_token", "positions": "pos_embed", "embed": "patch_embed.proj",
        "norm1": "norm1", "norm2": "norm2", "project": "attn.proj", "fc1": "mlp.fc1",
        "fc2": "mlp.fc2", "scale1": "ls1.gamma", "scale2": "ls2.gamma", "registers": "reg_token",
    }  # fmt: skip
    found: dict[str, Tensor] = {"head.weight": torch.zeros(5, WIDTH)}
    for index in range(DEPTH):
        for kind in ("weight", "bias"):
            parts = [weights[f"{index}.{part}.{kind}"] for part in ("query", "key", "value")]
            found[f"blocks.{index}.attn.qkv.{kind}"] = torch.cat(parts)
    for name, tensor in weights.items():
        first, *rest = name.split(".")
        if first.isdigit():
            if rest[0] not in ("query", "key", "value"):
                found[".".join(["blocks", first, names[rest[0]], *rest[1:]])] = tensor
        elif tensor.numel():
            found[".".join([names.get(first, first), *rest])] = tensor
    return found


def as_hugging_face(weights: dict[str, Tensor], family: str) -> dict[str, Tensor]:
    is_dino = family == "dinov2"
    names = {
        "class": "embeddings.cls_token", "positions": "embeddings.position_embeddings",
        "embed": "embeddings.patch_embeddings.projection", "norm": "layernorm",
        "registers": "embeddings.register_tokens",
        "norm1": "norm1" if is_dino else "layernorm_before",
        "norm2": "norm2" if is_dino else "layernorm_after",
        "query": "attention.attention.query", "key": "attention.attention.key",
        "value": "attention.attention.value", "project": "attention.output.dense",
        "fc1": "mlp.fc1" if is_dino else "intermediate.dense",
        "fc2": "mlp.fc2" if is_dino else "output.dense",
        "scale1": "layer_scale1.lambda1", "scale2": "layer_scale2.lambda1",
    }  # fmt: skip
    found = {}
    for name, tensor in weights.items():
        first, *rest = name.split(".")
        if first.isdigit():
            found[".".join(["encoder.layer", first, names[rest[0]], *rest[1:]])] = tensor
        elif tensor.numel():
            found[".".join([names[first], *rest])] = tensor
    if is_dino:
        return found | {"embeddings.mask_token": torch.zeros(1, WIDTH)}
    return {f"vit.{name}": tensor for name, tensor in found.items()} | {
        "decoder.mask_token": torch.zeros(1, 1, WIDTH)
    }
