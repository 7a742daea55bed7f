"""Presentation symmetry: by its looks, no image in training tells whether its class is old."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from remnant.errors import InputError
from remnant.memory import MemoryConfig
from remnant.methods import METHODS
from remnant.methods.coded_twins import with_coded_views
from remnant.phases import Phase
from remnant.testing import Trial
from remnant.testing.presentation_checks import check_presentation
from tests.support.tiny_methods import TRIALS, VARIANTS


def trial(name: str, codec: dict[str, Any] | None = None, **settings: Any) -> Trial:
    """The trial of a method with other settings and, if given, another codec."""
    made = (TRIALS | VARIANTS)[name]()
    assert made.memory is not None
    config = made.config.model_copy(update=settings)
    memory = made.memory
    if codec is not None:
        memory = MemoryConfig.parse(memory.model_dump(mode="json") | {"codec": codec})
    return replace(made, config=config, memory=memory)


WEBP = {"name": "webp", "quality": 20}
HALF = {"name": "downscaled", "factor": 2}
CODED_PATCHES = {"name": "coded-patches", "patch_size": 4, "mask_ratio": 0.75}
SYMMETRIC = {"presentation": "symmetric"}
ALIKE = {
    "bimae, completed": lambda: trial("bimae", **SYMMETRIC, exact_view_ratio=0.0),
    "bimae, by stored patches": lambda: trial("bimae", **SYMMETRIC, exact_view_ratio=1.0),
    "bimae, whole images": lambda: trial("bimae", WEBP, **SYMMETRIC, exact_view_ratio=0.0),
    "bimae, coded patches completed": lambda: trial(
        "bimae", CODED_PATCHES, **SYMMETRIC, exact_view_ratio=0.0
    ),
    "bimae, by coded patches": lambda: trial(
        "bimae", CODED_PATCHES, presentation="published", exact_view_ratio=1.0, codec_view_ratio=1.0
    ),
    "bimae, stored units": lambda: trial("bimae, stored units", codec_view_ratio=1.0),
    "bimae, windows": lambda: trial("bimae, windows", codec_view_ratio=1.0),
    "dytox, by stored patches": lambda: trial("dytox", **SYMMETRIC, masked_input="tokens"),
    # With a border as wide as a patch, they are cropped by whole patches.
    "bimae, cropped by patches": lambda: replace(
        trial("bimae", **SYMMETRIC, exact_view_ratio=0.5), padding=4
    ),
    "dytox, cropped by patches": lambda: replace(
        trial("dytox", **SYMMETRIC, masked_input="tokens"), padding=4
    ),
    "dytox, in the mean colour": lambda: trial("dytox", **SYMMETRIC, masked_input="mean"),
    "dytox, whole images": lambda: trial("dytox", WEBP, **SYMMETRIC, masked_input="mean"),
}


@pytest.mark.parametrize("make", ALIKE.values(), ids=ALIKE.keys())
def test_new_and_replayed_images_look_alike(make: Any) -> None:
    check_presentation(make())


# Methods that train on replayed exemplars, whatever codec these went through.
REPLAYING = [
    name
    for name, method in METHODS.items()
    if method.uses_memory and method.trains and not method.has_own_views
]


@pytest.mark.parametrize("name", REPLAYING)
def test_every_method_that_replays_can_show_new_images_as_coded_as_old_ones(name: str) -> None:
    published = {"presentation": "published"}
    whole = {
        "bimae": {"exact_view_ratio": 0.0, **published},
        "dytox": {"masked_input": "mean", **published},
    }.get(name, {})
    check_presentation(trial(name, WEBP, codec_view_ratio=1.0, **whole))


def test_without_coded_views_the_codec_tells_them_apart() -> None:
    promise = trial("er", WEBP, codec_view_ratio=1.0)
    promise.__dict__["whole"] = trial("er", WEBP).whole
    with pytest.raises(AssertionError, match="is_real"):
        check_presentation(promise)


@pytest.mark.parametrize(
    ("name", "reason"),
    [("finetune", "replays none"), ("ncm", "replays none"), ("mecil", "in its own way"),
     ("cim", "in its own way")],
)  # fmt: skip
def test_others_refuse_coded_views(name: str, reason: str) -> None:
    made = TRIALS[name]()
    asked = made.config.model_copy(update={"codec_view_ratio": 0.5})
    with pytest.raises(InputError, match=reason):
        replace(made, config=asked).build()


@pytest.mark.parametrize("name", ["er", "icarl", "bic"])
def test_exemplars_of_lower_resolution_look_like_new_images(name: str) -> None:
    check_presentation(trial(name, HALF, codec_view_ratio=1.0))


@pytest.mark.parametrize("name", ["er", "icarl", "bic"])
def test_exemplars_of_which_parts_are_kept_are_filled_like_new_images(name: str) -> None:
    check_presentation(trial(name, CODED_PATCHES, codec_view_ratio=1.0))


def test_dytox_has_one_way_to_show_new_images_as_exemplars() -> None:
    with pytest.raises(InputError, match=r"presentation=symmetric instead"):
        trial("dytox", CODED_PATCHES, presentation="published", codec_view_ratio=0.5).build()
    with pytest.raises(InputError, match="always shown as exemplars are"):
        trial("dytox", WEBP, **SYMMETRIC, masked_input="mean", codec_view_ratio=0.5).build()


def test_phases_over_the_same_images_share_what_was_coded(monkeypatch: pytest.MonkeyPatch) -> None:
    coded: list[str] = []

    def code(_memory: Any, data: str, _reader: Any) -> str:
        coded.append(data)
        return f"{data}, coded"

    monkeypatch.setattr("remnant.methods.coded_twins.coded_twins", code)
    made: Any = Phase
    phases = [
        made("warm-up", "all", None, (), "old"),
        made("train", "all", None, (), "old"),
        made("tune", "some", None, (), "old"),
        made("on exemplars", "old", None, ()),
    ]
    nothing: Any = None
    shown = [one.twins for one in with_coded_views(iter(phases), nothing, 0.5, nothing)]
    assert shown == ["all, coded", "all, coded", "some, coded", None]
    assert coded == ["all", "some"]


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
    # The run is that of the published presentation, the promise that of the symmetric one.
    promise = trial(name, **SYMMETRIC, **settings)
    promise.__dict__["whole"] = trial(name, **settings, presentation="published").whole
    with pytest.raises(AssertionError, match=sign):
        check_presentation(promise)
