"""Claims about what a budget holds under each codec, each counted by hand."""

from __future__ import annotations

import json
import math
from collections import Counter
from pathlib import Path
from typing import Literal

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from remnant.cli.console import parse_settings
from remnant.config import override
from remnant.data import DataConfig, data_root, load_dataset
from remnant.errors import InputError
from remnant.memory import (
    CODECS,
    Candidate,
    Codec,
    CodecConfig,
    Exemplar,
    MemoryConfig,
    PatchesConfig,
    build_codec,
)
from remnant.planning.codec_table import (
    Plan,
    configure,
    describe_setting,
    mark_front,
    plan_codecs,
    sample_evenly,
    usual_patch_size,
)
from remnant.planning.codec_trials import Row
from remnant.recipes import load_recipe
from tests.support.command_line import Command
from tests.support.worlds import make_dataset

IMAGE_BYTES = 16 * 16 * 3  # of the worlds


class FaultyConfig(CodecConfig):
    """The left half of an image, with an error of the same size everywhere in it."""

    name: Literal["faulty"] = "faulty"
    error: int = 5
    spares_dark: bool = False  # leave dark images as they are


class FaultyCodec(Codec):
    """Images of 60 and more take ten bytes above their size."""

    Config = FaultyConfig
    grid = (1, 2)

    def encode(self, candidate: Candidate, generator: torch.Generator) -> Exemplar:
        image = candidate.image
        return Exemplar(image.tobytes() + bytes(10 * int(image.max() >= 60)))

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, np.ndarray]:
        assert isinstance(self.config, FaultyConfig)
        stored = np.frombuffer(exemplar.payload, np.uint8, self.image_bytes)
        is_spared = self.config.spares_dark and stored.max() < 60
        image = stored.reshape(self.image_shape) ^ np.uint8(0 if is_spared else self.config.error)
        image[:, self.image_shape[1] // 2 :] = 0
        return image, np.array([[True, False]])


class RefusedCodec(FaultyCodec):
    def __init__(self, config: CodecConfig, image_shape: tuple[int, int, int]) -> None:
        raise InputError("the library is not installed.")


@pytest.fixture
def only_faulty(monkeypatch: pytest.MonkeyPatch) -> None:
    """No codec but the faulty one."""
    for name in reversed(list(CODECS)):  # put back in their order
        monkeypatch.delitem(CODECS, name)
    monkeypatch.setitem(CODECS, "faulty", FaultyCodec)


def plan_of(budget: str, **options: object) -> Plan:
    memory = MemoryConfig.model_validate({"budget": budget} | options)
    return plan_codecs(make_dataset(), memory, sample=12)


def row_of(plan: Plan, label: str) -> Row:
    return next(row for row in plan.rows if row.label == label)


# ------------------------------------------------------------------------------------------ counts


def test_rows_agree_with_a_count_by_hand() -> None:
    plan = plan_of("20images/class")
    raw = row_of(plan, "raw")
    assert (raw.bytes_per_exemplar, raw.exemplars_per_class) == (IMAGE_BYTES, 20)
    assert (raw.psnr, raw.stored_ratio) == (None, 1)
    patches = row_of(plan, "patches mask ratio 0.75")
    # 2 px patches: 64 of them, 16 kept, and a bitmap of 8 bytes.
    assert patches.settings == {"name": "patches", "patch_size": 2, "mask_ratio": 0.75}
    assert patches.bytes_per_exemplar == IMAGE_BYTES / 4 + 8
    assert patches.exemplars_per_class == 20 * IMAGE_BYTES // (IMAGE_BYTES // 4 + 8)
    assert (patches.psnr, patches.stored_ratio) == (None, 0.25)
    assert patches.encode_microseconds > 0
    assert patches.decode_microseconds > 0


def test_where_only_pixels_count_positions_are_free() -> None:
    plan = plan_of("20images/class", count_overhead=False)
    assert row_of(plan, "patches mask ratio 0.75").exemplars_per_class == 80


def test_a_total_budget_is_shared_by_the_classes() -> None:
    plan = plan_of("80images")
    assert plan.budget_bytes == 20 * IMAGE_BYTES
    assert (plan.num_classes, plan.images_per_class) == (4, 8)
    assert row_of(plan, "raw").exemplars_per_class == 20


def test_a_budget_below_one_exemplar_holds_none_of_them() -> None:
    raw = row_of(plan_of("100B/class"), "raw")
    assert raw.exemplars_per_class == 0
    assert not raw.is_on_front


@pytest.mark.usefixtures("only_faulty")
def test_sizes_that_vary_count_with_their_mean_and_lengths() -> None:
    row = row_of(plan_of("10images/class"), "faulty")
    # Three of the four greys reach 60, and a length takes 2 bytes.
    assert row.bytes_per_exemplar == IMAGE_BYTES + 7.5 + 2
    assert row.exemplars_per_class == 9


# ---------------------------------------------------------------------------------------- fidelity


@pytest.mark.usefixtures("only_faulty")
def test_psnr_is_over_the_stored_pixels(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FaultyCodec, "trial_settings", ({"error": 1},))
    row = row_of(plan_of("1KiB/class"), "faulty error 1")
    assert row.psnr == pytest.approx(20 * math.log10(255))
    assert row.stored_ratio == 0.5


@pytest.mark.usefixtures("only_faulty")
def test_exact_means_every_image(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = ({"error": 0}, {"error": 1, "spares_dark": True})
    monkeypatch.setattr(FaultyCodec, "trial_settings", tried)
    plan = plan_of("1KiB/class")
    assert row_of(plan, "faulty error 0").psnr is None
    # One class in four is dark, and counts with 100 dB.
    expected = (100 + 3 * 20 * math.log10(255)) / 4
    assert row_of(plan, "faulty error 1 spares dark").psnr == pytest.approx(expected)


def test_pictures_show_the_same_images_and_are_clear_where_nothing_is_stored() -> None:
    plan = plan_of("1KiB/class", codec=PatchesConfig(patch_size=2, mask_ratio=0.5))
    pictures = dict(zip((row.label for row in plan.rows), plan.pictures, strict=True))
    quarter, half = (
        pictures[f"patches{setting}"]
        for setting in (" mask ratio 0.75", " patch size 2 mask ratio 0.5")
    )
    for whole, some, more in zip(pictures["raw"], quarter, half, strict=True):
        assert (whole[..., 3] == 255).all()
        assert (some[..., 3] == 255).mean() == 0.25
        # The same draw: a quarter of the patches is part of the half.
        assert (more[..., 3] >= some[..., 3]).all()
        is_stored = some[..., 3] == 255
        assert (some[is_stored] == whole[is_stored]).all()


def test_a_plan_is_a_function_of_its_seed() -> None:
    first, again = plan_of("1KiB/class"), plan_of("1KiB/class")
    other = plan_codecs(make_dataset(), MemoryConfig(), sample=12, seed=1)
    assert all(map(np.array_equal, first.pictures[0], again.pictures[0]))
    assert not all(map(np.array_equal, first.pictures[0], other.pictures[0]))


# ---------------------------------------------------------------------------------------- settings


@pytest.mark.parametrize("name", CODECS)
def test_every_trial_setting_is_one_of_its_codec(name: str) -> None:
    for shape in ((32, 32, 3), (224, 224, 3), (9, 15, 1)):
        for listed in CODECS[name].trial_settings:
            config = configure(CODECS[name].Config, listed, shape)
            assert config.name == name
            build_codec(config, shape)


def test_every_codec_is_tried_or_left_out_with_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(CODECS, "faulty", RefusedCodec)
    plan = plan_of("1KiB/class")
    tried = {row.codec for row in plan.rows} | {label.split()[0] for label in plan.skipped}
    assert tried == set(CODECS)
    assert plan.skipped["faulty"] == "the library is not installed."


def test_the_codec_of_the_memory_is_tried_once() -> None:
    usual = [row.label for row in plan_of("1KiB/class").rows]
    again = plan_of("1KiB/class", codec=PatchesConfig(patch_size=2))
    assert [row.label for row in again.rows] == usual
    more = plan_of("1KiB/class", codec=PatchesConfig(patch_size=8))
    assert [row.label for row in more.rows] == [*usual, "patches patch size 8"]
    assert more.rows[-1].options == ["memory.codec=patches", "memory.codec.patch_size=8"]


def test_options_give_the_settings_of_a_row_back() -> None:
    for row in plan_of("1KiB/class").rows:
        changed = override(load_recipe("digits-er"), parse_settings(row.options, {}))
        assert changed.memory is not None
        assert changed.memory.codec.model_dump(mode="json") == row.settings


def test_a_codec_that_was_asked_for_and_does_not_suit_is_refused() -> None:
    with pytest.raises(InputError, match="patch_size must divide"):
        plan_of("1KiB/class", codec=PatchesConfig(patch_size=5))


def test_settings_are_put_in_words() -> None:
    words = describe_setting({"through": "webp", "quality": 75, "lossless": True, "fast": False})
    assert words == "webp q75 lossless no fast"


@pytest.mark.parametrize(
    ("shape", "expected"),
    [((32, 32, 3), 4), ((64, 64, 3), 8), ((224, 224, 3), 16), ((8, 8, 1), 1), ((33, 44, 3), 1)],
)
def test_patches_suit_the_images(shape: tuple[int, int, int], expected: int) -> None:
    assert usual_patch_size(shape) == expected


# ------------------------------------------------------------------------------------------ sample


@given(
    labels=st.lists(st.integers(0, 4), min_size=1, max_size=40),
    count=st.integers(1, 50),
    seed=st.integers(0, 3),
)
def test_a_sample_is_even_over_the_classes(labels: list[int], count: int, seed: int) -> None:
    positions = sample_evenly(torch.tensor(labels), count, seed).tolist()
    assert len(set(positions)) == len(positions) == min(count, len(labels))
    held, taken = Counter(labels), Counter(labels[position] for position in positions)
    most = max(taken.values())
    assert all(taken[label] >= min(held[label], most - 1) for label in held)


# ------------------------------------------------------------------------------------------- front


def make_row(exemplars: int, psnr: float | None, ratio: float = 1.0) -> Row:
    return Row("raw", "", {}, [], 1.0, 0, exemplars, psnr, ratio, 0.0, 0.0)


def test_the_front_is_what_nothing_of_its_kind_beats() -> None:
    rows = [
        (make_row(20, None), True),
        (make_row(20, 40.0), False),  # as many, but not exact
        (make_row(200, 30.0), True),
        (make_row(190, 30.0), False),
        (make_row(300, 28.0), True),
        (make_row(0, None), False),
        (make_row(200, 29.0, 0.25), True),  # partial: another kind
        (make_row(100, 29.0, 0.5), True),  # more of each image
        (make_row(100, 29.0, 0.2), False),
    ]
    marked = mark_front([row for row, _ in rows])
    assert [row.is_on_front for row in marked] == [expected for _, expected in rows]


@given(
    st.lists(
        st.tuples(
            st.integers(1, 5),
            st.sampled_from([None, 28.0, 30.0]),
            st.sampled_from([0.25, 0.5, 1.0]),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_whatever_is_off_the_front_is_beaten_by_something_on_it(
    merits: list[tuple[int, float | None, float]],
) -> None:
    rows = mark_front([make_row(*one) for one in merits])
    front = [row for row in rows if row.is_on_front]
    assert front
    for row in rows:
        beaten = [
            other
            for other in front
            if (other.stored_ratio == 1) == (row.stored_ratio == 1)
            and other.merits != row.merits
            and np.all(np.array(other.merits) >= row.merits)
        ]
        assert bool(beaten) != row.is_on_front


# ------------------------------------------------------------------------------------ command line

DIGITS = ("plan", "--dataset", "digits", "--budget", "20images/class", "--sample", "9")


def test_plan_prints_a_table_that_fits_and_explains_itself(command: Command) -> None:
    outcome = command(*DIGITS)
    assert outcome.code == 0, outcome.err
    lines = [" ".join(line.split()) for line in outcome.out.splitlines()]
    assert any(line.startswith("raw 3,072.0 20 exact 100 %") for line in lines)
    assert any("patches mask ratio 0.75 776.0 79 exact 25 %" in line for line in lines)
    assert "9 training images of digits, 32 x 32 x 3; 61,440 bytes" in outcome.out
    assert "* On the front:" in outcome.out
    assert max(len(line.rstrip()) for line in outcome.out.splitlines()) <= 80
    assert outcome.err.startswith("next: remnant plan --dataset digits")


def test_plan_prints_one_document(command: Command) -> None:
    outcome = command(*DIGITS, "--json")
    document = json.loads(outcome.out)
    assert {"dataset", "sample", "budget", "image_shape", "rows"} <= set(document)
    assert document["dataset"] == "digits"
    assert document["sample"] == 9
    assert document["budget"] == {"text": "20images/class", "bytes_per_class": 61_440}
    assert document["image_shape"] == [32, 32, 3]
    assert {"label", "settings", "psnr", "is_on_front"} <= set(document["rows"][0])
    assert outcome.err == ""


def test_plan_takes_settings_of_data_and_memory(command: Command) -> None:
    settings = ("--set", "data.image_size=16", "--set", "memory.codec=patches")
    settings += ("--set", "memory.codec.patch_size=8")
    document = json.loads(command(*DIGITS, *settings, "--json").out)
    assert document["image_shape"] == [16, 16, 3]
    assert document["rows"][-1]["label"] == "patches patch size 8"


def test_plan_writes_a_page(command: Command, tmp_path: Path) -> None:
    outcome = command(*DIGITS, "--html", "pages/plan.html")
    assert outcome.out.splitlines()[-1] == "page: pages/plan.html"
    assert outcome.err == ""
    assert "<h1>What 20images/class holds of digits</h1>" in Path("pages/plan.html").read_text()


# Measured on 600 images before there was a planner: whole or partial, PSNR, exemplars in 60 KiB.
MEASURED_BEFORE = [
    (True, 29.5, 209),
    (True, 29.9, 210),
    (True, 27.5, 307),
    (False, 29.3, 434),
    (False, 30.2, 381),
]


@pytest.mark.slow
@pytest.mark.cifar100
def test_real_images_take_no_more_bytes_than_measured_before() -> None:
    if not (data_root(None) / "cifar-100-binary" / "train.bin").is_file():
        pytest.skip("CIFAR-100 is not under the data root; run `remnant data get cifar100`")
    codec = {"name": "coded-patches", "through": "webp", "quality": 78}
    memory = MemoryConfig.model_validate({"budget": "60KiB/class", "codec": codec})
    plan = plan_codecs(load_dataset(DataConfig(dataset="cifar100")), memory)
    assert row_of(plan, "raw").exemplars_per_class == 20
    for is_whole, psnr, exemplars in MEASURED_BEFORE:
        assert any(
            row.exemplars_per_class >= exemplars and (row.psnr is None or row.psnr >= psnr)
            for row in plan.rows
            if (row.stored_ratio == 1) == is_whole
        ), (is_whole, psnr, exemplars)
