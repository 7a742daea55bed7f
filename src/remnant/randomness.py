"""Random numbers as a function of the seed and a purpose: there is no state to save."""

from __future__ import annotations

import hashlib

import torch


def derive_seed(seed: int, *purpose: str | int) -> int:
    """A 63-bit seed for one purpose, so that a new consumer never shifts an old one."""
    text = "\x1f".join(str(part) for part in (seed, *purpose))
    return int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest()) >> 1


def generator(seed: int, *purpose: str | int) -> torch.Generator:
    """A CPU generator for one purpose: `generator(seed, "selection", class_index)`."""
    return torch.Generator().manual_seed(derive_seed(seed, *purpose))
