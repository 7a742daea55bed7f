"""Every codec, at settings that take different paths through it."""

from __future__ import annotations

from typing import Any

from remnant.memory import CODECS, Codec, MemoryConfig, build_codec

EXACT: tuple[dict[str, Any], ...] = (
    {"name": "raw"},
    {"name": "webp", "lossless": True},
)
LOSSY: tuple[dict[str, Any], ...] = (
    {"name": "transform"},
    {"name": "transform", "target_psnr": 32},
    {"name": "jpeg"},
    {"name": "jpeg", "target_psnr": 28, "subsampling": "4:2:0", "weighting": "standard"},
    {"name": "webp"},
    {"name": "webp", "target_bytes": 80},
    {"name": "downscaled"},
    {"name": "boxed"},
    {"name": "boxed", "factor": 3, "middle_ratio": 0.7},
    {"name": "downscaled", "factor": 3, "through": "webp"},
)
PARTIAL: tuple[dict[str, Any], ...] = (
    {"name": "patches", "patch_size": 2},
    {"name": "coded-patches", "patch_size": 2},
    {"name": "coded-patches", "patch_size": 2, "target_bytes": 40},
    {"name": "coded-patches", "patch_size": 2, "through": "jpeg", "positions": "bitmap"},
    {"name": "coded-patches", "patch_size": 2, "through": "webp", "target_psnr": 30},
)
ALL = EXACT + LOSSY + PARTIAL

assert {choice["name"] for choice in ALL} == set(CODECS), "add a line for each new codec"


def make_codec(choice: dict[str, Any], shape: tuple[int, int, int]) -> Codec:
    return build_codec(MemoryConfig.model_validate({"codec": choice}).codec, shape)
