from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from remnant.images import ArrayImages, ImageSet
from remnant.phases import Batch, Phase
from remnant.training.batches import Feeder, Preprocessing
from remnant.views.augment import AugmentConfig
from tests.support.pixel_method import schedule
from tests.support.worlds import MEAN, STD, LazyImages, make_set

CPU = torch.device("cpu")
Train = Literal["none", "flip", "crop-flip", "resized-crop-flip"]


def make_feeder(
    data: ImageSet,
    replay: ImageSet | None = None,
    train: Train = "crop-flip",
    batch_size: int = 7,
    partial_view_ratio: float = 1.0,
    has_pinned_memory: bool = False,
    num_epochs: int = 2,
    **symmetry: Any,
) -> Feeder:
    phase = Phase(
        "train", data, schedule(num_epochs, batch_size), (), replay, partial_view_ratio, **symmetry
    )
    look = Preprocessing(AugmentConfig(train=train, padding=2), MEAN, STD)
    return Feeder(phase, look, 5, CPU, has_pinned_memory=has_pinned_memory)


def all_batches(feeder: Feeder, num_parts: int = 1) -> list[list[Batch]]:
    steps = range(feeder.sampler.num_steps)
    return list(feeder.batches(steps, range(num_parts), num_parts))


def joined(batches: Sequence[Batch], name: str) -> torch.Tensor:
    return torch.cat([getattr(batch, name) for batch in batches])


def half_known(images: ImageSet) -> ImageSet:
    """The left half of every image is known, of a grid of 4 x 4 patches."""
    known = torch.zeros(len(images), 4, 4, dtype=torch.bool)
    known[:, :, :2] = True
    return replace(images, is_known=known)


@given(st.integers(1, 9), st.sampled_from(["none", "crop-flip", "resized-crop-flip"]))
@settings(max_examples=15, deadline=None)
def test_the_global_batch_does_not_depend_on_the_number_of_parts(
    num_parts: int, train: Train
) -> None:
    data, replay = make_set(2, 6, size=8), make_set(3, 2, size=8, first_id=50)
    whole = all_batches(make_feeder(data, replay, train))
    parted = all_batches(make_feeder(data, replay, train), num_parts)
    for (expected,), parts in zip(whole, parted, strict=True):
        assert len(parts) == num_parts
        for name in ("views", "labels", "ids", "is_replay"):
            torch.testing.assert_close(joined(parts, name), getattr(expected, name), rtol=0, atol=0)


def test_numbers_drawn_by_a_loss_agree_between_one_part_and_two() -> None:
    data = make_set(2, 6, size=8)
    for (whole,), halves in zip(
        all_batches(make_feeder(data)), all_batches(make_feeder(data), 2), strict=True
    ):
        drawn = torch.cat([half.draw("mask", 3) for half in halves])
        assert drawn.shape == (len(whole.labels), 3)
        assert torch.equal(drawn, whole.draw("mask", 3))
        assert not torch.equal(whole.draw("mask"), whole.draw("other"))


def test_each_process_alone_gets_its_rows() -> None:
    data = make_set(2, 6, size=8)
    both = all_batches(make_feeder(data), 2)
    feeder = make_feeder(data)
    second = list(feeder.batches(range(feeder.sampler.num_steps), range(1, 2), 2))
    for (_, expected), (mine,) in zip(both, second, strict=True):
        assert torch.equal(expected.views, mine.views)


def test_starting_in_the_middle_gives_the_later_batches() -> None:
    data = make_set(2, 6, size=8)
    feeder = make_feeder(data)
    later = list(feeder.batches(range(2, feeder.sampler.num_steps), range(1), 1))
    for (expected,), (found,) in zip(all_batches(make_feeder(data))[2:], later, strict=True):
        assert torch.equal(expected.views, found.views)
        assert expected.step == found.step


@pytest.mark.parametrize(("ratio", "is_shown_in_part"), [(0.0, False), (1.0, True)])
def test_images_known_in_part_are_shown_so_as_often_as_asked(
    ratio: float, is_shown_in_part: bool
) -> None:
    data, replay = make_set(2, 6), half_known(make_set(2, 4, first_id=50))
    for (batch,) in all_batches(make_feeder(data, replay, partial_view_ratio=ratio)):
        assert batch.is_known is not None
        in_part = ~batch.is_known.flatten(1).all(1)
        assert torch.equal(in_part, batch.is_replay & is_shown_in_part)


def test_a_ratio_between_shows_some_in_part_and_some_whole() -> None:
    replay = half_known(make_set(2, 20))
    feeder = make_feeder(replay, partial_view_ratio=0.5, batch_size=40)
    ((batch,), _) = all_batches(feeder)
    assert batch.is_known is not None
    share = float((~batch.is_known.flatten(1).all(1)).float().mean())
    assert 0.2 < share < 0.8


def test_a_ratio_of_zero_leaves_what_the_set_knows_untouched() -> None:
    replay = half_known(make_set(2, 4))
    all_batches(make_feeder(replay, partial_view_ratio=0.0))
    assert replay.is_known is not None
    assert not replay.is_known.flatten(1).all(1).any()


def test_only_whole_images_are_cropped_and_resized() -> None:
    ramp = torch.arange(16, dtype=torch.uint8).view(1, 1, 16, 1).expand(12, 16, 16, 3)
    images = ImageSet(ArrayImages(ramp.contiguous() * 16), torch.zeros(12).long(), torch.arange(12))
    data, replay = images.select(torch.arange(6)), half_known(images.select(torch.arange(6, 12)))
    feeder = make_feeder(data, replay, "resized-crop-flip", batch_size=12)
    whole_rows = feeder._read(0, slice(None))
    is_original = (whole_rows.images == (ramp * 16)).flatten(1).all(1)
    assert torch.equal(is_original, whole_rows.is_replay)


def lazy(images: ImageSet) -> ImageSet:
    assert isinstance(images.images, ArrayImages)
    return replace(images, images=LazyImages(images.images))


def feeding_threads() -> list[str]:
    return [t.name for t in threading.enumerate() if t.name.startswith("remnant-feed")]


@pytest.mark.parametrize("train", ["crop-flip", "resized-crop-flip"])
def test_reading_ahead_yields_the_same_batches_and_leaves_no_thread(train: Train) -> None:
    data, replay = make_set(2, 6, size=8), make_set(3, 2, size=8, first_id=50)
    eager = all_batches(make_feeder(data, replay, train))
    ahead = all_batches(make_feeder(lazy(data), replay, train))
    for (expected,), (found,) in zip(eager, ahead, strict=True):
        assert torch.equal(expected.views, found.views)
        assert torch.equal(expected.ids, found.ids)
    assert feeding_threads() == []


def test_pinned_rows_are_read_ahead_and_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    threads = []

    def pin(tensor: torch.Tensor) -> torch.Tensor:
        threads.append(threading.current_thread().name)
        return tensor.clone()

    monkeypatch.setattr(torch.Tensor, "pin_memory", pin)  # the real one wants a CUDA driver
    data, replay = make_set(2, 6, size=8), half_known(make_set(2, 4, size=8, first_id=50))
    plain = all_batches(make_feeder(data, replay))
    assert threads == []
    pinned = all_batches(make_feeder(data, replay, has_pinned_memory=True))
    assert {name.startswith("remnant-feed") for name in threads} == {True}
    for (expected,), (found,) in zip(plain, pinned, strict=True):
        for name in ("views", "labels", "ids", "is_replay", "is_known"):
            assert torch.equal(getattr(expected, name), getattr(found, name))
    assert feeding_threads() == []


def test_stopping_early_ends_the_reading_thread() -> None:
    feeder = make_feeder(lazy(make_set(2, 20, size=8)), batch_size=2)
    batches = feeder.batches(range(feeder.sampler.num_steps), range(1), 1)
    next(batches)
    assert feeding_threads() != []
    batches.close()
    assert feeding_threads() == []


def test_an_image_that_cannot_be_read_raises_in_the_loop_and_ends_the_thread() -> None:
    data = lazy(make_set(2, 4, size=8))

    def fail(positions: torch.Tensor, draws: torch.Tensor | None = None) -> torch.Tensor:
        raise OSError("bad sector")

    data.images.read = fail
    with pytest.raises(OSError, match="bad sector"):
        all_batches(make_feeder(data))
    assert feeding_threads() == []


# -------------------------------------------------------------------------- presentation symmetry


def seen_by_origin(feeder: Feeder, what: Callable[[Batch], torch.Tensor]) -> list[torch.Tensor]:
    """What new rows and what replayed rows show, over the whole phase."""
    batches = [batch for parts in all_batches(feeder) for batch in parts]
    is_replay, found = joined(batches, "is_replay"), torch.cat([what(one) for one in batches])
    return [found[~is_replay], found[is_replay]]


def num_known(batch: Batch) -> torch.Tensor:
    assert batch.is_known is not None
    return batch.is_known.flatten(1).sum(dim=1)


@pytest.mark.parametrize("train", ["crop-flip", "resized-crop-flip"])
def test_border_pixels_do_not_tell_new_from_old(train: Train) -> None:
    data, replay = make_set(2, 20, size=8), half_known(make_set(2, 20, size=8, first_id=50))

    def is_black_at_the_border(batch: Batch) -> torch.Tensor:
        black = torch.tensor([-mean / std for mean, std in zip(MEAN, STD, strict=True)])
        edges = torch.cat([batch.views[:, :, 0], batch.views[:, :, :, 0]], dim=2)  # [B, C, 16]
        return (edges - black.view(1, 3, 1)).abs().amax(dim=1).lt(1e-3).any(dim=1).double()

    feeder = make_feeder(
        data,
        replay,
        train,
        partial_view_ratio=0.5,
        num_epochs=20,
        batch_size=20,
        aligns_new=True,
    )
    new, old = (float(found.mean()) for found in seen_by_origin(feeder, is_black_at_the_border))
    assert new == pytest.approx(old, abs=0.08)


def test_where_new_images_are_shown_whole_they_come_from_their_twins() -> None:
    data, replay = make_set(2, 20, size=8), half_known(make_set(2, 20, size=8, first_id=50))
    black = ImageSet(
        ArrayImages(torch.zeros(40, 8, 8, 3, dtype=torch.uint8)), data.labels, data.ids
    )
    feeder = make_feeder(
        data, replay, "none", partial_view_ratio=0.5, num_epochs=4, aligns_new=True, twins=black
    )
    new, old = seen_by_origin(feeder, lambda batch: batch.views.flatten(1).amax(dim=1))
    share = float((new < -1.9).double().mean())  # of new images that are shown as their twins
    assert 0.25 < share < 0.75
    assert (old > -1.9).all()


@pytest.mark.parametrize("ratio", [0.0, 0.3, 1.0])
def test_new_images_come_from_their_twins_as_often_as_asked_for(ratio: float) -> None:
    data, replay = make_set(2, 40, size=8), make_set(2, 20, size=8, first_id=90)
    black = replace(data, images=ArrayImages(torch.zeros(80, 8, 8, 3, dtype=torch.uint8)))
    feeder = make_feeder(data, replay, "none", num_epochs=4, twins=black, twin_ratio=ratio)
    new, old = seen_by_origin(feeder, lambda batch: batch.views.flatten(1).amax(dim=1))
    assert float((new < -1.9).double().mean()) == pytest.approx(ratio, abs=0.12)
    assert (old > -1.9).all()


@pytest.mark.parametrize("partial_view_ratio", [0.0, 0.5, 1.0])
def test_twins_known_in_part_are_shown_as_exemplars_are(partial_view_ratio: float) -> None:
    data, replay = make_set(2, 40, size=8), half_known(make_set(2, 40, size=8, first_id=90))
    black = replace(data, images=ArrayImages(torch.zeros(80, 8, 8, 3, dtype=torch.uint8)))
    feeder = make_feeder(
        data,
        replay,
        "none",
        partial_view_ratio=partial_view_ratio,
        num_epochs=4,
        twins=half_known(black),
        twin_ratio=0.5,
    )
    is_twin, _ = seen_by_origin(feeder, lambda batch: batch.views.flatten(1).amax(dim=1) < -1.9)
    in_part, old = seen_by_origin(feeder, lambda batch: num_known(batch) == 8)
    assert float(is_twin.double().mean()) == pytest.approx(0.5, abs=0.1)
    assert not (in_part & ~is_twin).any()  # new images themselves are known whole
    for shown in (in_part[is_twin], old):
        assert float(shown.double().mean()) == pytest.approx(partial_view_ratio, abs=0.12)
    labels, ids = (
        seen_by_origin(feeder, lambda batch, name=name: getattr(batch, name))[0]
        for name in ("labels", "ids")
    )
    assert torch.equal(labels, data.labels[ids])  # of the images, whatever their twins say


def test_pairs_are_an_image_and_its_twin_under_the_same_crop_and_flip() -> None:
    data, replay = make_set(2, 20, size=8), make_set(2, 20, size=8, first_id=90)
    assert isinstance(data.images, ArrayImages)
    negatives = replace(data, images=ArrayImages(255 - data.images.read(torch.arange(40))))
    for batch in all_batches(make_feeder(data, replay, twins=negatives, shows_pairs=True))[0]:
        assert batch.twin_views is not None
        old, border = batch.is_replay, batch.views == -2  # zero, normalised
        assert torch.equal(batch.twin_views[old], batch.views[old])
        new = ~old[:, None, None, None] & ~border
        # With a mean of half, the negative of a normalised value is the value of the negative.
        assert torch.allclose(batch.twin_views[new], -batch.views[new], atol=1e-5)
    plain = all_batches(make_feeder(data, replay))[0]
    assert all(batch.twin_views is None for batch in plain)


def test_uncropped_new_images_stay_whole() -> None:
    data, replay = make_set(2, 20, size=8), half_known(make_set(2, 20, size=8, first_id=50))
    feeder = make_feeder(data, replay, partial_view_ratio=0.5, aligns_new=True)
    new, old = seen_by_origin(feeder, num_known)
    assert set(new.tolist()) == {16}
    assert set(old.tolist()) == {8, 16}


def test_the_prior_of_the_draws_is_added_to_the_scores() -> None:
    data, replay = make_set(1, 30, size=8), make_set(2, 5, size=8, first_id=50)
    chosen = schedule(2, 8).model_copy(update={"corrects_prior": True})
    phase = Phase("train", data, chosen, (), replay)
    feeder = Feeder(phase, Preprocessing(AugmentConfig(train="none"), MEAN, STD), 5, CPU)
    (batch,) = next(feeder.batches(range(1), range(1), 1))
    expected = torch.tensor([35 / 40, 5 / 40]).log()
    assert torch.allclose(batch.corrected(torch.zeros(3, 2)), expected.expand(3, 2))
    plain = all_batches(make_feeder(data, replay))[0][0]
    assert torch.equal(plain.corrected(torch.zeros(3, 2)), torch.zeros(3, 2))
