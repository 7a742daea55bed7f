from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.memory import Codec, Memory, MemoryConfig, RawCodec, RawConfig
from tests.support.strategies import smooth

SHAPE = (16, 16, 3)


def photos(label: int, count: int) -> list[np.ndarray]:
    return [smooth(SHAPE, 1000 * label + rank) for rank in range(count)]


def config(budget: str = "4KB", codec: str = "webp", **more: Any) -> MemoryConfig:
    settings = {"name": codec, "quality": 90} if codec != "raw" else codec
    return MemoryConfig.model_validate(
        {"budget": budget, "codec": settings, "when_full": "recode"} | more
    )


def quality(memory: Memory) -> int:
    return memory.codec.config.quality


def add(memory: Memory, label: int, count: int = 60) -> int:
    return memory.add_class(label, f"class {label}", photos(label, count))


@pytest.fixture
def memory() -> Memory:
    """One class that fills its 4,000 bytes."""
    memory = Memory(config(), SHAPE, seed=0)
    add(memory, 0)
    return memory


# ---------------------------------------------------------------------------------------- shrinking


def test_quality_gives_way_before_exemplars_do(memory: Memory) -> None:
    before = memory.counts[0]
    memory.fit_to(2)
    assert memory.counts == [before]
    assert quality(memory) < 90
    assert memory.nbytes <= 2_000
    assert memory.config.codec.model_dump()["quality"] == 90
    dropped = Memory(config(when_full="drop"), SHAPE, seed=0)
    add(dropped, 0)
    dropped.fit_to(2)
    assert dropped.counts[0] < before


def test_no_more_quality_is_given_than_is_needed(memory: Memory) -> None:
    stored, first = memory.exemplars(0), memory.codec
    memory.fit_to(2)
    sizes: dict[int, int] = {}
    for codec in first.weaker_forms():
        sizes[codec.config.quality] = sum(
            len(codec.recode(one, first).payload) + codec.length_bytes for one in stored
        )
    assert quality(memory) == max(level for level, size in sizes.items() if size <= 2_000)


def test_exemplars_are_stored_again_from_their_stored_form_in_one_generation(
    memory: Memory,
) -> None:
    stored, first = memory.exemplars(0), memory.codec
    memory.fit_to(3)
    assert 90 - quality(memory) > 10, "several steps"
    for old, new in zip(stored, memory.exemplars(0), strict=True):
        image, _ = first.decode(old)
        assert new == memory.codec.encode(image, torch.Generator())


def test_at_the_weakest_form_exemplars_are_dropped_from_the_end(memory: Memory) -> None:
    stored, first = memory.exemplars(0), memory.codec
    memory.fit_to(30)
    *_, weakest = first.weaker_forms()
    assert memory.codec.config == weakest.config
    kept = memory.exemplars(0)
    assert 0 < len(kept) < len(stored)
    assert kept == tuple(weakest.recode(one, first) for one in stored[: len(kept)])


def test_new_classes_are_stored_by_the_codec_in_force(memory: Memory) -> None:
    memory.expect(2)
    lowered = memory.codec
    add(memory, 1)
    assert memory.codec is lowered
    assert memory.exemplars(1)[0] == lowered.encode(smooth(SHAPE, 1000), torch.Generator())
    assert memory.nbytes <= 4_000


def test_nothing_is_lowered_while_everything_fits(memory: Memory) -> None:
    roomy = Memory(config("4MB"), SHAPE, seed=0)
    add(roomy, 0, 5)
    kept = roomy.exemplars(0)
    roomy.expect(10)
    assert (quality(roomy), roomy.exemplars(0)) == (90, kept)
    memory.fit_to(1)
    assert quality(memory) == 90


def test_a_class_that_fails_lowers_nothing(memory: Memory) -> None:
    before = memory.digest()
    with pytest.raises(InputError, match="shape"):
        memory.add_class(1, "bad", [np.zeros((8, 8, 3), np.uint8)])
    assert memory.digest() == before
    assert quality(memory) == 90


@pytest.mark.parametrize("codec", ["jpeg", "coded-patches"])
def test_other_codecs_give_way_too_and_keep_the_same_patches(codec: str) -> None:
    memory = Memory(config("3KB", codec), SHAPE, seed=0)
    count = add(memory, 0)
    before = memory.images()
    memory.fit_to(2)
    after = memory.images()
    assert memory.counts == [count]
    assert before is not None
    assert after is not None
    if before.is_known is not None:
        assert after.is_known is not None
        assert torch.equal(after.is_known, before.is_known)


# -------------------------------------------------------------------------------------------- files


def test_a_lowered_memory_survives_its_file_and_goes_on_alike(
    memory: Memory, tmp_path: Path
) -> None:
    memory.expect(2)
    memory.save(tmp_path / "memory")
    again = Memory.load(tmp_path / "memory")
    assert (quality(again), again.config) == (quality(memory), memory.config)
    for one in (memory, again):
        add(one, 1)
        one.expect(4)
        add(one, 2)
        add(one, 3)
    assert again.digest() == memory.digest()
    assert quality(again) == quality(memory)


def forged(memory: Memory, **changes: Any) -> InputError:
    arrays, metadata = memory.state_arrays()
    with pytest.raises(InputError) as caught:
        Memory.from_arrays(arrays, metadata | changes)
    return caught.value


def test_a_codec_that_the_memory_cannot_have_come_down_to_is_refused(memory: Memory) -> None:
    memory.fit_to(2)
    stronger = memory.config.codec.model_copy(update={"quality": 100})
    between = memory.config.codec.model_copy(update={"quality": quality(memory) + 1})
    for codec in (stronger, between, RawConfig()):
        error = forged(memory, codec=codec.model_dump(mode="json"))
        assert "a weaker form" in str(error)
    patient = memory.config.model_copy(update={"when_full": "drop"})
    error = forged(memory, config=patient.model_dump(mode="json"))
    assert "must be that of its config" in str(error)


# ----------------------------------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        (config("4KB/class"), "a share per class never shrinks"),
        (config(codec="raw"), "'raw' as it is set has no weaker form"),
    ],
)
def test_recoding_that_could_never_happen_is_refused(settings: MemoryConfig, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        Memory(settings, SHAPE, seed=0)


def test_an_endless_row_of_weaker_forms_comes_to_an_end() -> None:
    class Endless(RawCodec):
        def weaker(self) -> Codec:
            return self

    codec = Endless(RawConfig(), SHAPE)
    assert len(list(codec.weaker_forms())) == 256
