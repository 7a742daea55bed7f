"""Published layouts with generated weights, against a transformer written from its equations."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor

from remnant.encoders import FrozenEncoder, describe_encoder, read_weights
from remnant.encoders.vit_layouts import read_layout, shape_of
from remnant.errors import InputError
from remnant.models.pretrained_vit import PretrainedViT
from tests.support.vit_weights import (
    DEPTH,
    GRID,
    HEADS,
    SIDE,
    WIDTH,
    as_hugging_face,
    as_timm,
    make_weights,
)


def slow_features(weights: dict[str, Tensor], image: Tensor, eps: float) -> Tensor:
    """The class token of one image [3, H, W], token by token and head by head."""

    def norm(row: Tensor, name: str) -> Tensor:
        spread = ((row - row.mean()) ** 2).mean()
        unit = (row - row.mean()) / torch.sqrt(spread + eps)
        return unit * weights[f"{name}.weight"] + weights[f"{name}.bias"]

    def linear(row: Tensor, name: str) -> Tensor:
        return weights[f"{name}.weight"] @ row + weights[f"{name}.bias"]

    patches = [
        torch.stack(
            [
                (weights["embed.weight"][d] * image[:, y : y + SIDE, x : x + SIDE]).sum()
                for d in range(WIDTH)
            ]
        )
        + weights["embed.bias"]
        for y in range(0, GRID * SIDE, SIDE)
        for x in range(0, GRID * SIDE, SIDE)
    ]
    tokens = [
        row + weights["positions"][0, i] for i, row in enumerate([weights["class"][0, 0], *patches])
    ]
    tokens = [tokens[0], *weights["registers"][0], *tokens[1:]]
    head = WIDTH // HEADS
    for index in range(DEPTH):
        normed = [norm(row, f"{index}.norm1") for row in tokens]
        parts = {
            name: [linear(row, f"{index}.{name}") for row in normed]
            for name in ("query", "key", "value")
        }
        mixed = []
        for i in range(len(tokens)):
            heads = []
            for h in range(HEADS):
                cut = slice(h * head, (h + 1) * head)
                scores = torch.stack(
                    [parts["query"][i][cut] @ key[cut] / math.sqrt(head) for key in parts["key"]]
                ).softmax(0)
                heads.append(
                    sum(s * value[cut] for s, value in zip(scores, parts["value"], strict=True))
                )
            mixed.append(linear(torch.cat(heads), f"{index}.project"))
        scale = weights.get(f"{index}.scale1", torch.ones(WIDTH))
        tokens = [row + scale * add for row, add in zip(tokens, mixed, strict=True)]
        scale = weights.get(f"{index}.scale2", torch.ones(WIDTH))
        for i, row in enumerate(tokens):
            inner = linear(norm(row, f"{index}.norm2"), f"{index}.fc1")
            inner = 0.5 * inner * (1 + torch.erf(inner / math.sqrt(2)))
            tokens[i] = row + scale * linear(inner, f"{index}.fc2")
    return norm(tokens[0], "norm")


CASES = {
    "timm": (as_timm, {}, {"model_args": {"num_heads": HEADS}}, 1e-6),
    "timm-dinov2": (
        as_timm,
        {"has_scale": True, "num_registers": 2},
        {"model_args": {"num_heads": HEADS}},
        1e-6,
    ),
    "timm-reg4": (  # vit_small_patch14_reg4_dinov2: the class token has no position
        lambda weights: as_timm(weights) | {"pos_embed": weights["positions"][:, 1:].contiguous()},
        {"has_scale": True, "num_registers": 4, "has_class_position": False},
        {"model_args": {"num_heads": HEADS}},
        1e-6,
    ),
    "hf-vit": (
        lambda weights: as_hugging_face(weights, "vit"),
        {},
        {"hidden_size": WIDTH, "num_attention_heads": HEADS, "layer_norm_eps": 1e-12},
        1e-12,
    ),
    "hf-dinov2": (
        lambda weights: as_hugging_face(weights, "dinov2"),
        {"has_scale": True},
        {"hidden_size": WIDTH, "num_attention_heads": HEADS, "layer_norm_eps": 1e-6},
        1e-6,
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_layout_gives_the_features_of_its_equations(case: str, tmp_path: Path) -> None:
    rename, options, facts, eps = CASES[case]
    weights = make_weights(**options)
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(rename(weights), path)
    (tmp_path / "config.json").write_text(json.dumps(facts))
    config = describe_encoder(str(path))
    assert config.image_size == GRID * SIDE
    encoder = FrozenEncoder(config).eval()
    encoder.load(read_weights(config), config.mean, config.std)
    views = torch.randn(2, 3, GRID * SIDE, GRID * SIDE)
    expected = torch.stack([slow_features(weights, view, eps) for view in views])
    torch.testing.assert_close(encoder(views), expected, rtol=1e-4, atol=1e-4)


def test_a_large_position_table_is_made_smaller(tmp_path: Path) -> None:
    weights = make_weights() | {"positions": torch.ones(1, 1 + 40**2, WIDTH)}
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(as_timm(weights), path)
    write_heads(tmp_path)
    config = describe_encoder(str(path))
    assert (config.image_size, config.vit.grid) == (224, 28)
    positions = read_weights(config)["positions"]
    assert positions.shape == (1, 1 + 28**2, WIDTH)
    torch.testing.assert_close(positions, torch.ones_like(positions))


def test_colours_come_from_the_config_beside_the_file(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(as_timm(make_weights()), path)
    write_heads(tmp_path)
    assert describe_encoder(str(path)).mean == (0.485, 0.456, 0.406)
    facts = {
        "num_attention_heads": HEADS,
        "pretrained_cfg": {"mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    }
    (tmp_path / "config.json").write_text(json.dumps(facts))
    assert describe_encoder(str(path)).std == (0.5, 0.5, 0.5)


def write_heads(folder: Path) -> None:
    (folder / "config.json").write_text(json.dumps({"num_attention_heads": HEADS}))


def test_heads_that_nobody_tells_are_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(as_timm(make_weights()), path)
    with pytest.raises(InputError, match="width 32, and its number of attention heads is not kno"):
        describe_encoder(str(path))


# Names of timm that users are pointed to: depth, width, heads, mlp, patch, image side, registers,
# layer scale; and their shapes as timm builds them.
PUBLIC = {
    "vit_tiny_patch16_224.augreg_in21k": (12, 192, 3, 768, 16, 224, 0, False),
    "vit_small_patch16_224.augreg_in1k": (12, 384, 6, 1536, 16, 224, 0, False),
    "vit_base_patch16_224.mae": (12, 768, 12, 3072, 16, 224, 0, False),
    "vit_small_patch14_dinov2.lvd142m": (12, 384, 6, 1536, 14, 518, 0, True),
    "vit_small_patch14_reg4_dinov2.lvd142m": (12, 384, 6, 1536, 14, 518, 4, True),
    "test_vit.r160_in1k": (6, 64, 2, 192, 16, 160, 0, False),
}


@pytest.mark.parametrize("name", PUBLIC)
def test_a_public_name_of_timm_gives_its_shape(name: str) -> None:
    depth, width, heads, mlp, patch, side, registers, has_scale = PUBLIC[name]
    num_positions = (side // patch) ** 2 + (registers == 0)
    tensors = {
        "cls_token": (1, 1, width), "pos_embed": (1, num_positions, width),
        "patch_embed.proj.weight": (width, 3, patch, patch), "patch_embed.proj.bias": (width,),
        "norm.weight": (width,), "norm.bias": (width,),
    }  # fmt: skip
    tensors |= {"reg_token": (1, registers, width)} if registers else {}
    for place in (f"blocks.{index}" for index in range(depth)):
        for part, shape in {
            "norm1": (width,), "norm2": (width,), "attn.qkv": (3 * width, width),
            "attn.proj": (width, width), "mlp.fc1": (mlp, width), "mlp.fc2": (width, mlp),
        }.items():  # fmt: skip
            tensors |= {f"{place}.{part}.weight": shape, f"{place}.{part}.bias": shape[:1]}
        if has_scale:
            tensors |= {f"{place}.ls1.gamma": (width,), f"{place}.ls2.gamma": (width,)}
    found = read_layout({key: torch.empty(shape) for key, shape in tensors.items()}, name)
    shape = shape_of(found, {"architecture": name.partition(".")[0]}, name)
    assert (shape.depth, shape.width, shape.mlp_width) == (depth, width, mlp)
    assert (shape.width // shape.head_width, shape.num_registers) == (heads, registers)
    assert (shape.grid, shape.patch_size) == (side // patch, patch)
    assert shape.has_layer_scale == has_scale
    with torch.device("meta"):
        network = PretrainedViT(shape)
    assert {key: value.shape for key, value in network.state_dict().items()} == {
        key: value.shape for key, value in found.items()
    }


def test_what_is_no_transformer_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file({"conv1.weight": torch.zeros(3)}, path)
    with pytest.raises(InputError, match=r"must hold a vision transformer .* 'conv1.weight'"):
        describe_encoder(str(path))
    broken = as_timm(make_weights())
    del broken["pos_embed"]
    safetensors.torch.save_file(broken, path)
    with pytest.raises(InputError, match="no whole vision transformer: it has no positions"):
        describe_encoder(str(path))
    path.write_bytes(b"nothing")
    with pytest.raises(InputError, match="no readable safetensors file"):
        describe_encoder(str(path))


ODD_TENSORS: dict[str, tuple[dict[str, Tensor | None], str]] = {
    "no bias of patches": ({"patch_embed.proj.bias": None}, r"its tensor embed\.bias is missing"),
    "no bias of queries": ({"blocks.0.attn.qkv.bias": None}, r"attention\.qkv\.bias is missing"),
    "grey patches": ({"patch_embed.proj.weight": torch.zeros(WIDTH, 1, SIDE, SIDE)}, "expected"),
    "flat patches": ({"patch_embed.proj.weight": torch.zeros(WIDTH, 9)}, "of a known kind"),
    "flat positions": ({"pos_embed": torch.zeros(17)}, "of a known kind"),
    "a grid that is no square": ({"pos_embed": torch.zeros(1, 13, WIDTH)}, "positions is"),
    "a block too far": ({"blocks.9.norm1.weight": torch.zeros(WIDTH)}, "blocks are missing"),
    "a layer too few": ({"blocks.0.mlp.fc1.weight": None}, "of a known kind"),
    "a norm before the blocks": ({"norm_pre.weight": torch.ones(WIDTH)}, "it holds 'norm_pre"),
}


@pytest.mark.parametrize("case", ODD_TENSORS)
def test_a_transformer_of_another_kind_is_told(case: str, tmp_path: Path) -> None:
    changes, sentence = ODD_TENSORS[case]
    tensors = as_timm(make_weights()) | changes
    whole = {name: tensor for name, tensor in tensors.items() if tensor is not None}
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(whole, path)
    write_heads(tmp_path)
    with pytest.raises(InputError, match=sentence):
        describe_encoder(str(path))


def test_colours_without_a_deviation_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(as_timm(make_weights()), path)
    facts = {"num_attention_heads": HEADS, "image_std": [0.5, 0.0, 0.5]}
    (tmp_path / "config.json").write_text(json.dumps(facts))
    with pytest.raises(InputError, match=r"std\.1 must be greater than 0"):
        describe_encoder(str(path))


def test_a_file_that_changed_is_told(tmp_path: Path) -> None:
    path = tmp_path / "model.safetensors"
    safetensors.torch.save_file(as_timm(make_weights()), path)
    write_heads(tmp_path)
    config = describe_encoder(str(path))
    safetensors.torch.save_file(as_timm(make_weights(num_registers=1)), path)
    with pytest.raises(InputError, match="has changed since the encoder was chosen"):
        read_weights(config)
    path.unlink()
    with pytest.raises(InputError, match="does not exist"):
        read_weights(config)
