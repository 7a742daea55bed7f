"""A store of the stripes a and c: images to ask it, its digest once taught e, files around it."""

from __future__ import annotations

from pathlib import Path

from tests.support.small_learner import stripes, tiny_learner

TESTS = stripes("a", "c", "e", per_class=3, seed=9)


def expected_digest() -> str:
    """Of a learner that was taught the same in memory."""
    return tiny_learner().partial_fit(*stripes("a", "c")).partial_fit(*stripes("e")).digest()


def names_in(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())
