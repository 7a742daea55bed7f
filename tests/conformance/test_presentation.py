"""Presentation symmetry: by its looks, no image in training tells whether its class is old."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remnant.memory import MemoryConfig
from remnant.testing import Trial
from remnant.testing.presentation_checks import check_presentation
from tests.support.tiny_methods import TRIALS


def trial(name: str, codec: dict[str, Any] | None = None, **settings: Any) -> Trial:
    """The trial of a method with other settings and, if given, another codec."""
    made = TRIALS[name]()
    assert made.memory is not None
    config = made.config.model_copy(update={"presentation": "symmetric", **settings})
    memory = made.memory
    if codec is not None:
        memory = MemoryConfig.parse(memory.model_dump(mode="json") | {"codec": codec})
    return replace(made, config=config, memory=memory)


WEBP = {"name": "webp", "quality": 20}
CODED_PATCHES = {"name": "coded-patches", "patch_size": 4, "mask_ratio": 0.75}
SYMMETRIC = {
    "bimae, completed": lambda: trial("bimae", exact_view_ratio=0.0),
    "bimae, by stored patches": lambda: trial("bimae", exact_view_ratio=1.0),
    "bimae, whole images": lambda: trial("bimae", WEBP, exact_view_ratio=0.0),
    "bimae, coded patches completed": lambda: trial("bimae", CODED_PATCHES, exact_view_ratio=0.0),
    "dytox, by stored patches": lambda: trial("dytox", masked_input="tokens"),
    "dytox, in the mean colour": lambda: trial("dytox", masked_input="mean"),
    "dytox, whole images": lambda: trial("dytox", WEBP, masked_input="mean"),
}


@pytest.mark.parametrize("make", SYMMETRIC.values(), ids=SYMMETRIC.keys())
def test_new_and_replayed_images_look_alike(make: Any) -> None:
    check_presentation(make())


PUBLISHED = {
    "bimae, border": ("bimae", {"exact_view_ratio": 1.0}, "has_border"),
    "bimae, completed": ("bimae", {"exact_view_ratio": 0.0}, "is_real"),
    "dytox, grey": ("dytox", {"masked_input": "mean"}, "is_real"),
    "dytox, masked": ("dytox", {}, "has_border|shown_share"),
}


@pytest.mark.parametrize(("name", "settings", "sign"), PUBLISHED.values(), ids=PUBLISHED.keys())
def test_as_published_they_can_be_told_apart(
    name: str, settings: dict[str, Any], sign: str
) -> None:
    published = trial(name, **settings)
    # The run is that of the published presentation, the promise that of the symmetric one.
    shown = replace(
        published, config=published.config.model_copy(update={"presentation": "published"})
    )
    published.__dict__["whole"] = shown.whole
    with pytest.raises(AssertionError, match=sign):
        check_presentation(published)
