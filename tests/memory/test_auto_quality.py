"""Claims about `memory.codec.quality="auto"`."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from remnant.config import override, settle
from remnant.errors import InputError
from remnant.memory import Memory, MemoryConfig, TransformConfig, build_codec
from remnant.memory.auto_quality import POINTS, quality_for
from remnant.planning.run_estimate import estimate
from remnant.recipes import load_recipe

AUTO = {"name": "transform", "quality": "auto"}


def test_the_rule_passes_through_its_points() -> None:
    assert [quality_for(int(kib * 1024), 32 * 32) for kib, _ in POINTS] == [20, 30, 50, 75]
    assert [quality_for(int(kib * 1024), 32 * 32) for kib in (3, 15, 30)] == [25, 38, 44]
    assert quality_for(1, 32 * 32) == 20
    assert quality_for(1 << 40, 32 * 32) == 75


@given(st.integers(1, 1 << 24), st.integers(0, 1 << 24), st.integers(1, 1 << 18))
def test_more_bytes_never_make_it_worse(low: int, more: int, pixels: int) -> None:
    assert quality_for(low, pixels) <= quality_for(low + more, pixels)


def test_larger_images_need_as_many_bytes_per_pixel() -> None:
    assert quality_for(60 << 10, 32 * 32) == quality_for(4 * (60 << 10), 64 * 64)


def test_a_memory_knows_the_number() -> None:
    config = MemoryConfig.parse({"budget": "6KiB/class", "codec": AUTO})
    assert Memory(config, (32, 32, 3), seed=0).config.codec == TransformConfig(quality=30)
    total = MemoryConfig.parse({"budget": "60KiB", "codec": AUTO})
    shared = Memory(total, (32, 32, 3), seed=0, num_classes=10)
    assert shared.config.codec == TransformConfig(quality=30)


@pytest.mark.parametrize(
    ("budget", "quality"), [("1.5KiB/class", 20), ("6KiB/class", 30), ("60KiB/class", 50)]
)
def test_the_flagship_takes_the_quality_of_its_budget(budget: str, quality: int) -> None:
    config = override(load_recipe("cifar100-mini-bimae"), {"memory.budget": budget})
    settled = settle(config)
    assert settled.memory is not None
    assert settled.memory.codec == TransformConfig(quality=quality)
    assert settle(settled) == settled


def test_a_total_is_shared_by_the_classes_of_the_stream() -> None:
    config = settle(override(load_recipe("cifar100-mini-bimae"), {"memory.budget": "60KiB"}))
    assert config.memory is not None
    assert config.memory.codec == TransformConfig(quality=30)  # ten classes


def test_what_a_run_costs_does_not_depend_on_the_quality() -> None:
    changes = {"data.image_size": 16, "memory.budget": "1.5KiB/class"}
    small = override(load_recipe("digits-bimae"), changes)
    costs = [
        estimate(override(small, {"memory.codec.quality": quality}))["train_flops"]
        for quality in (10, 50, "auto")
    ]
    assert len(set(costs)) == 1


@pytest.mark.parametrize(
    ("changes", "sentence"),
    [
        ({"memory.codec": {"name": "coded-patches", "quality": "auto"}}, "codecs of whole images"),
        ({"memory.codec.quality": "aut"}, "quality must be"),
        ({"memory.codec.quality": True}, "quality must be a whole number"),
        ({"memory.codec.target_psnr": 30}, "got quality and target_psnr"),
    ],
)
def test_what_is_no_quality_is_refused(changes: dict[str, object], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        override(load_recipe("cifar100-mini-bimae"), changes)


def test_a_codec_without_a_budget_needs_a_number() -> None:
    with pytest.raises(InputError, match="needs a number"):
        build_codec(TransformConfig(quality="auto"), (32, 32, 3))
