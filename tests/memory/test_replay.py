from __future__ import annotations

import threading

import numpy as np
import pytest
import torch

from remnant.errors import InputError
from remnant.images import ArrayImages
from remnant.memory import CODECS, Candidate, Exemplar, Memory, MemoryConfig, PatchesConfig, replay
from remnant.memory.codecs.webp import WebpConfig
from remnant.memory.replay import StoredImages
from tests.support.deflate import DeflateCodec
from tests.support.strategies import pixels

SMALL = (8, 8, 3)
CONFIGS = [MemoryConfig(), MemoryConfig(codec=PatchesConfig())]


def filled(config: MemoryConfig) -> Memory:
    memory = Memory(config, SMALL, seed=0)
    for label in range(2):
        memory.add_class(
            label,
            f"class {label}",
            map(Candidate, [pixels(SMALL, 9 * label + i) for i in range(4)]),
        )
    return memory


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every memory counts as too large to be held decoded, every image as worth a thread."""
    monkeypatch.setattr(replay, "MAX_DECODED_BYTES", 0)
    monkeypatch.setattr(replay, "_THREADED_BYTES", 0)


@pytest.mark.parametrize("config", CONFIGS)
def test_a_large_memory_gives_what_a_small_one_gives(
    config: MemoryConfig, request: pytest.FixtureRequest
) -> None:
    memory = filled(config)
    held = memory.images(fill=(1, 2, 3))
    request.getfixturevalue("large")
    lazy = memory.images(fill=(1, 2, 3))
    assert held is not None
    assert lazy is not None
    assert isinstance(held.images, ArrayImages)
    assert isinstance(lazy.images, StoredImages)
    assert (lazy.images.is_lazy, lazy.images.shape, len(lazy.images)) == (True, SMALL, 8)
    assert torch.equal(lazy.labels, held.labels)
    assert torch.equal(lazy.ids, held.ids)
    if config.codec.name == "patches":
        assert held.is_known is not None
        assert lazy.is_known is not None
        assert torch.equal(lazy.is_known, held.is_known)
    rows, draws = torch.tensor([5, 0, 5]), torch.rand(3, 4)
    chosen = torch.tensor([7, 6, 5, 4, 0])
    for one, other in ((lazy, held), (lazy.select(chosen), held.select(chosen))):
        places = rows % len(one)
        assert torch.equal(one.images.read(places), other.images.read(places))
        assert torch.equal(one.images.read(places, draws), other.images.read(places, draws))
    assert len(lazy.images.read(torch.arange(0))) == 0


@pytest.mark.usefixtures("large")
def test_a_large_memory_is_decoded_row_by_row_and_no_thread_stays(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    decoded: list[bytes] = []

    class Watched(DeflateCodec):
        def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
            decoded.append(exemplar.payload)
            return super().decode(exemplar)

    monkeypatch.setitem(CODECS, "raw", Watched)
    memory = filled(MemoryConfig())
    replay = memory.images()
    assert replay is not None
    assert decoded == []
    before = threading.active_count()
    replay.images.read(torch.tensor([6, 1]))
    assert sorted(decoded) == sorted(
        [memory.exemplars(1)[2].payload, memory.exemplars(0)[1].payload]
    )
    assert threading.active_count() == before


class BrokenCodec(DeflateCodec):
    """Finds every payload but the first impossible."""

    good: bytes = b""

    def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
        if self.good and exemplar.payload != self.good:
            raise InputError("the scan ends too early.")
        self.good = exemplar.payload
        return super().decode(exemplar)


def test_what_cannot_be_decoded_is_named_by_class_and_rank(
    monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    monkeypatch.setitem(CODECS, "raw", BrokenCodec)
    sentence = "exemplar 1 of class 'class 0' cannot be decoded: the scan ends too early"
    memory = filled(MemoryConfig())
    with pytest.raises(InputError, match=sentence):
        memory.images()
    request.getfixturevalue("large")
    replay = memory.images()
    assert replay is not None
    with pytest.raises(InputError, match=sentence):
        replay.images.read(torch.tensor([1]))


def test_an_image_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    class Turned(DeflateCodec):
        def decode(self, exemplar: Exemplar) -> tuple[np.ndarray, None]:
            return super().decode(exemplar)[0].reshape(4, 16, 3), None

    monkeypatch.setitem(CODECS, "raw", Turned)
    with pytest.raises(InputError, match=r"exemplar 0 of class 'class 0'.*\(4, 16, 3\)"):
        filled(MemoryConfig()).images()


def test_images_are_presented_as_they_would_be_replayed_and_nothing_is_stored() -> None:
    images = [np.random.default_rng(seed).integers(0, 256, (8, 8, 3), np.uint8) for seed in (1, 2)]
    memory = Memory(MemoryConfig(budget="9images", codec=WebpConfig()), (8, 8, 3), seed=0)
    shown = memory.present(images)
    assert memory.labels == []
    memory.expect(1)
    memory.add_class(0, "a", [Candidate(image) for image in images])
    stored = memory.images()
    assert shown is not None
    assert stored is not None
    both = torch.arange(2)
    assert torch.equal(shown.images.read(both), stored.images.read(both))
    assert memory.present([]) is None


def test_presented_patches_are_a_fresh_choice_for_each_image() -> None:
    image = np.arange(192, dtype=np.uint8).reshape(8, 8, 3)
    config = MemoryConfig(budget="9images", codec=PatchesConfig(patch_size=2))
    shown = Memory(config, (8, 8, 3), seed=0).present([image] * 12)
    assert shown is not None
    assert shown.is_known is not None
    assert shown.is_known.flatten(1).sum(dim=1).tolist() == [4] * 12
    assert len({tuple(one.flatten().tolist()) for one in shown.is_known}) > 6
