"""The replay memory, counted in bytes: what is chosen, how it is stored, and what it costs."""

from __future__ import annotations

from remnant.memory.auto_quality import settle_quality
from remnant.memory.budget import Budget, MemoryConfig, parse_budget
from remnant.memory.codecs import (
    CODECS,
    Candidate,
    Codec,
    CodecConfig,
    Exemplar,
    PartialCodec,
    PatchCodec,
    PatchesConfig,
    RawCodec,
    RawConfig,
    TransformConfig,
    build_codec,
    partial_choices,
)
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.memory.memory import Memory
from remnant.memory.selection import herding, random_ranks, select

__all__ = [
    "CODECS",
    "Budget",
    "Candidate",
    "Codec",
    "CodecConfig",
    "Exemplar",
    "Keeps",
    "KeptTensors",
    "Memory",
    "MemoryConfig",
    "PartialCodec",
    "PatchCodec",
    "PatchesConfig",
    "RawCodec",
    "RawConfig",
    "TransformConfig",
    "build_codec",
    "herding",
    "parse_budget",
    "partial_choices",
    "random_ranks",
    "select",
    "settle_quality",
]
