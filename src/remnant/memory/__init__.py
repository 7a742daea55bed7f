"""The replay memory, counted in bytes: what is chosen, how it is stored, and what it costs."""

from __future__ import annotations

from remnant.memory.budget import Budget, MemoryConfig, parse_budget
from remnant.memory.codecs import CODECS, CodecConfig, RawCodec, RawConfig, build_codec
from remnant.memory.codecs.codec import Codec, Exemplar
from remnant.memory.codecs.patches import PartialCodec, PatchCodec, PatchesConfig, count_visible
from remnant.memory.keeps import Keeps, KeptTensors
from remnant.memory.memory import Memory
from remnant.memory.selection import herding, random_ranks, select

__all__ = [
    "CODECS",
    "Budget",
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
    "build_codec",
    "count_visible",
    "herding",
    "parse_budget",
    "random_ranks",
    "select",
]
